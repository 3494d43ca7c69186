//! How much of everything: each limit of the API with its name, in one place. What a value is for is said in `api.md`;
//! those that it leaves open are chosen here.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::domain::time::Span;

/// Bytes of a request that posts one event, and of one member of a batch.
pub const EVENT_BYTES: usize = 1024 * 1024;
/// Bytes of a request that posts a batch.
pub const BATCH_BYTES: usize = 16 * 1024 * 1024;
/// Events of a batch.
pub const BATCH_EVENTS: RangeInclusive<usize> = 1..=1_000;
/// Deliveries of a batch, each event counted once for each of its endpoints; a full one for a hundred endpoints has as many.
/// All are made in one transaction, for which everybody else waits, and told in one answer. (An event alone has no such
/// limit: it cannot be split.)
pub const BATCH_DELIVERIES: usize = 100_000;
/// Endpoints that an event may be narrowed to.
pub const EVENT_ENDPOINT_IDS: RangeInclusive<usize> = 1..=1_000;
/// Bytes of every other request's body.
pub const REQUEST_BYTES: usize = 256 * 1024;
/// Top-level members of a request's body, known or not; whoever sends more is not told about each.
pub const MEMBERS: usize = 100;

/// Bodies being read or waiting for their commit, all callers together; beyond it new ones get 503.
pub const BODIES_BYTES: usize = 256 * 1024 * 1024;
/// Bodies up to this size are not counted: what the connections are allowed to be bounds them.
pub const SMALL_BODY: usize = 64 * 1024;
/// Bodies up to this size are parsed where they arrive, larger ones on a thread of their own.
pub const PARSE_HERE: usize = 512 * 1024;
/// A body of which nothing comes for so long is given up.
pub const BODY_PAUSE: Duration = Duration::from_secs(30);
/// A body that has not come whole after so long is given up, however little is missing: 1 MiB at 9 KiB a second.
pub const BODY_TIME: Duration = Duration::from_secs(120);
/// An answer that was given before its request was read to the end is followed by so much reading, so that the caller
/// gets to read the answer before the connection is closed.
pub const DRAIN_TIME: Duration = Duration::from_secs(2);
pub const DRAIN_BYTES: usize = 4 * 1024 * 1024;

/// Rows of a page.
pub const PAGE: RangeInclusive<i64> = 1..=250;
pub const DEFAULT_PAGE: i64 = 50;
/// Deliveries shown with an event.
pub const EVENT_DELIVERIES: usize = 100;
/// Attempts shown with a delivery.
pub const DELIVERY_ATTEMPTS: i64 = 100;

/// Characters of an endpoint's description.
pub const DESCRIPTION_CHARS: usize = 1_000;
/// Characters of the reason a person gives for a disable.
pub const REASON_CHARS: usize = 500;
/// Members of an endpoint's metadata, and its bytes as JSON.
pub const METADATA_MEMBERS: usize = 50;
pub const METADATA_BYTES: usize = 16 * 1024;
/// How long the old secret goes on signing unless the caller says.
pub const DEFAULT_OVERLAP: Span = Span::DAY;
/// Test pings under way in the process; beyond it they get 429.
pub const PINGS: usize = 64;

/// Dead letters that one bulk requeue puts back, and how many unless the caller says.
pub const BULK_REQUEUE: RangeInclusive<u32> = 1..=10_000;
pub const DEFAULT_BULK_REQUEUE: u32 = 1_000;

/// Characters of an `Idempotency-Key`.
pub const IDEMPOTENCY_KEY: RangeInclusive<usize> = 1..=255;
/// How often an edit is tried again when the endpoint was changed while it was made.
pub const EDIT_TRIES: usize = 20;

/// How long a `readyz` may wait for the store.
pub const READY_PATIENCE: Duration = Duration::from_secs(2);
/// What `readyz` found out about the store is good for so long, in real time: it costs a commit.
pub const READY_CACHE: Span = Span::SECOND;
