-- Instants are microseconds of engine time. Numbers (`no`) rise in commit order and are never used twice; texts that
-- people see are ids. Everything belongs to a tenant. Checks are written with OR: for an IN of more than two words SQLite
-- builds an index of them each time.

CREATE TABLE meta (
    id              INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    clock_wall      BIGINT NOT NULL,            -- the clock's anchor (S25): this wall time …
    clock_engine    BIGINT NOT NULL,            -- … was this engine time,
    clock_scale     DOUBLE PRECISION NOT NULL,  -- and engine time runs so many times faster
    last_stamp      BIGINT NOT NULL,            -- the newest updated_at (S24)
    last_event      BIGINT NOT NULL,
    last_delivery   BIGINT NOT NULL,
    last_other      BIGINT NOT NULL,            -- endpoints, notifications
    written_through BIGINT NOT NULL,            -- all deliveries up to this one have rows; others follow from their events
    filed_through   BIGINT NOT NULL,            -- all up to this one are in the two tables after deliveries, and counted
    key_check       BLOB NOT NULL               -- something sealed with the key that the secrets are encrypted with
);

CREATE TABLE tenants (
    no           INTEGER NOT NULL PRIMARY KEY,
    id           TEXT NOT NULL UNIQUE,
    name         TEXT NOT NULL,
    created_at   BIGINT NOT NULL
);

CREATE TABLE api_keys (
    id           TEXT NOT NULL PRIMARY KEY,
    tenant       BIGINT REFERENCES tenants (no),  -- NULL: every tenant (role operator)
    role         TEXT NOT NULL CHECK (role = 'admin' OR role = 'send' OR role = 'read' OR role = 'operator'),
    name         TEXT NOT NULL,
    hash         BLOB NOT NULL UNIQUE,            -- SHA-256 of the key's text
    created_at   BIGINT NOT NULL
);

CREATE TABLE endpoints (
    no               INTEGER NOT NULL PRIMARY KEY,
    tenant           BIGINT NOT NULL REFERENCES tenants (no),
    id               TEXT NOT NULL UNIQUE,
    version          BIGINT NOT NULL,
    url              TEXT NOT NULL,
    description      TEXT NOT NULL,
    event_types      TEXT NOT NULL,               -- JSON
    policy           TEXT NOT NULL,               -- JSON: preset and overrides
    max_in_flight    INTEGER NOT NULL,
    header_prefix    TEXT,                        -- NULL: the installation's
    headers          BLOB NOT NULL,               -- encrypted JSON
    secrets          BLOB NOT NULL,               -- encrypted JSON
    metadata         TEXT NOT NULL,               -- JSON
    status           TEXT NOT NULL CHECK (status = 'enabled' OR status = 'disabled' OR status = 'auto_disabled'),
    disabled_reason  TEXT,
    disabled_at      BIGINT,
    cut              INTEGER NOT NULL,            -- how often a disable has cut the queue (S15)
    counted_from     BIGINT NOT NULL,             -- the last enable or edit of the URL (S13)
    deleted_at       BIGINT,                      -- deleted; its rows are being removed (S27)
    created_at       BIGINT NOT NULL,
    updated_at       BIGINT NOT NULL
);
CREATE INDEX endpoints_changes ON endpoints (tenant, updated_at, no);

-- What the endpoint's owner knows of its receiver, and the counts that people see.
CREATE TABLE endpoint_health (
    endpoint              INTEGER NOT NULL PRIMARY KEY,
    tenant                BIGINT NOT NULL,
    version               BIGINT NOT NULL,
    failures              BIGINT NOT NULL,
    failing_since         BIGINT,
    exhausted             BIGINT NOT NULL,
    alerted               BOOLEAN NOT NULL,
    opened_at             BIGINT,
    retry_at              BIGINT,
    pending               BIGINT NOT NULL,
    failed                BIGINT NOT NULL,
    dead                  BIGINT NOT NULL,
    last_delivery         BIGINT NOT NULL,        -- the endpoint's newest delivery that is in the counts
    last_success_at       BIGINT,
    last_failure_at       BIGINT,
    last_attempt_delivery BIGINT,
    last_attempt_number   BIGINT,
    wake_at               BIGINT                  -- when its actor is needed next
);
CREATE INDEX endpoint_health_wake ON endpoint_health (wake_at) WHERE wake_at IS NOT NULL;

-- Disables whose rows are still being rewritten: a delivery that waits with `deliveries.cut` = `cut` - 1 or less is dead
-- since the first such cut, whatever its row says.
CREATE TABLE cuts (
    endpoint          BIGINT NOT NULL,
    cut               INTEGER NOT NULL,
    tenant            BIGINT NOT NULL,
    cut_at            BIGINT NOT NULL,
    replayable_until  BIGINT NOT NULL,
    PRIMARY KEY (endpoint, cut)
);

-- Deliveries that had an attempt on the wire at a cut: they finish.
CREATE TABLE spared (
    delivery  INTEGER NOT NULL PRIMARY KEY,
    endpoint  BIGINT NOT NULL,
    tenant    BIGINT NOT NULL
);
CREATE INDEX spared_endpoint ON spared (endpoint);

CREATE TABLE events (
    no              INTEGER NOT NULL PRIMARY KEY,
    tenant          BIGINT NOT NULL,
    id              TEXT NOT NULL,
    type            TEXT NOT NULL,
    created_at      BIGINT NOT NULL,
    received_at     BIGINT NOT NULL,
    committed_at    BIGINT NOT NULL,
    first_delivery  BIGINT NOT NULL,             -- its deliveries are numbered from here on, without gaps
    deliveries      INTEGER NOT NULL,
    targets         BLOB NOT NULL,               -- their endpoints: src/store/numbers.rs
    data_start      INTEGER NOT NULL,            -- where in the body the caller's data begins
    body            BLOB NOT NULL                -- what every receiver gets, composed once (S2)
);
CREATE UNIQUE INDEX events_id ON events (tenant, id);
CREATE INDEX events_tenant ON events (tenant, no);

-- When an event last changed in a way that no delivery's row tells: it was accepted and is for nobody, or deliveries of it
-- were removed with their endpoint (S27). A table of its own, because a change of an event's row writes its body again.
CREATE TABLE event_changes (
    event       INTEGER NOT NULL PRIMARY KEY,
    tenant      BIGINT NOT NULL,
    changed_at  BIGINT NOT NULL
);
CREATE INDEX event_changes_order ON event_changes (tenant, changed_at, event);

-- A delivery that nothing has happened to may have no row yet: it follows from its event (`meta.written_through`,
-- `src/store/unwritten.rs`).
CREATE TABLE deliveries (
    no                INTEGER NOT NULL PRIMARY KEY,
    tenant            BIGINT NOT NULL,
    endpoint          BIGINT NOT NULL,
    event             BIGINT NOT NULL,
    state             TEXT NOT NULL CHECK (state = 'pending' OR state = 'failed' OR state = 'delivered'
                                           OR state = 'dead'),
    run               INTEGER NOT NULL,
    attempt           INTEGER NOT NULL,
    attempts_total    INTEGER NOT NULL,
    cut               INTEGER NOT NULL,          -- the endpoint's cut when it last became waiting
    line              SMALLINT NOT NULL,         -- 0 first attempts, 1 a person's single retry, 2 retries (S3)
    order_at          BIGINT NOT NULL,           -- its place in the line
    due_at            BIGINT NOT NULL,           -- its own due time (S10)
    due_reason        TEXT NOT NULL CHECK (due_reason = 'initial' OR due_reason = 'schedule'
                                           OR due_reason = 'retry_after' OR due_reason = 'manual'),
    probed_at         BIGINT,
    dead_reason       TEXT CHECK (dead_reason = 'exhausted' OR dead_reason = 'permanent_response'
                                  OR dead_reason = 'endpoint_disabled' OR dead_reason = 'expired'),
    dead_at           BIGINT,
    replayable_until  BIGINT,
    last_status       INTEGER,
    last_error_kind   TEXT,
    created_at        BIGINT NOT NULL,
    updated_at        BIGINT NOT NULL,
    delivered_at      BIGINT
);
-- A tenant's deliveries in the order of their numbers are found by its events, each of which has a range of numbers.
-- SQLite, which has no statistics here, takes the index that was made last where two look equally good: so the partial
-- ones, which hold little, come after the whole ones. `tests/it/plans.rs` holds what it does with them.
CREATE INDEX deliveries_changes ON deliveries (tenant, updated_at, no);
CREATE INDEX deliveries_dead ON deliveries (tenant, no) WHERE state = 'dead';

-- Two indexes of deliveries by endpoint, kept by hand: an event for a hundred endpoints would touch two hundred pages of
-- ordinary ones. New deliveries are *filed* here a little later, many of one endpoint at a time (`meta.filed_through`,
-- `src/store/unfiled.rs`). The first has all that an endpoint ever got, a row for those that were filed together.
CREATE TABLE endpoint_deliveries (
    endpoint  BIGINT NOT NULL,
    last      BIGINT NOT NULL,
    numbers   BLOB NOT NULL,                     -- src/store/numbers.rs; `last` is the last of them
    PRIMARY KEY (endpoint, last)
) WITHOUT ROWID;

-- Those whose rows say that they wait, in the order of S3.
CREATE TABLE endpoint_lines (
    endpoint  BIGINT NOT NULL,
    line      SMALLINT NOT NULL,
    order_at  BIGINT NOT NULL,
    delivery  BIGINT NOT NULL,
    PRIMARY KEY (endpoint, line, order_at, delivery)
) WITHOUT ROWID;

CREATE TABLE attempts (
    delivery           BIGINT NOT NULL,
    number             INTEGER NOT NULL,         -- the delivery's attempts_total after it
    tenant             BIGINT NOT NULL,
    run                INTEGER NOT NULL,
    attempt            INTEGER NOT NULL,
    cause              TEXT NOT NULL CHECK (cause = 'schedule' OR cause = 'manual' OR cause = 'probe'
                                            OR cause = 'ping'),
    started_at         BIGINT NOT NULL,
    duration           BIGINT NOT NULL,          -- this and the phases: microseconds of real time
    dns                BIGINT,
    connect            BIGINT,
    tls                BIGINT,
    first_byte         BIGINT,
    remote_addr        TEXT,
    url                TEXT NOT NULL,
    status             INTEGER,
    error_kind         TEXT,
    error              TEXT,
    excerpt            BLOB NOT NULL,
    excerpt_truncated  BOOLEAN NOT NULL,
    outcome            TEXT NOT NULL CHECK (outcome = 'delivered' OR outcome = 'retry'
                                            OR outcome = 'dead_letter' OR outcome = 'disable'),
    PRIMARY KEY (delivery, number)
) WITHOUT ROWID;

CREATE TABLE notifications (
    no          INTEGER NOT NULL PRIMARY KEY,
    tenant      BIGINT NOT NULL,
    id          TEXT NOT NULL UNIQUE,
    kind        TEXT NOT NULL,
    endpoint    TEXT,                            -- the endpoint's id; stays when the endpoint goes
    title       TEXT NOT NULL,
    message     TEXT NOT NULL,
    created_at  BIGINT NOT NULL,
    read_at     BIGINT
);
CREATE INDEX notifications_tenant ON notifications (tenant, no);

CREATE TABLE idempotency (
    tenant        BIGINT NOT NULL,
    method        TEXT NOT NULL,
    path          TEXT NOT NULL,
    key           TEXT NOT NULL,
    request_hash  BLOB NOT NULL,
    status        INTEGER NOT NULL,
    body          BLOB NOT NULL,
    created_at    BIGINT NOT NULL,
    PRIMARY KEY (tenant, method, path, key)
) WITHOUT ROWID;
CREATE INDEX idempotency_age ON idempotency (created_at);

INSERT INTO tenants (no, id, name, created_at) VALUES (1, 'default', 'default', 0);
