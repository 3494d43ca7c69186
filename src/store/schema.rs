//! The tables, as diesel sees them. Written by hand: the same description serves SQLite and PostgreSQL (instants and
//! numbers are `BIGINT`, states and ids text, payloads bytes). What the columns mean is said in the migrations.

diesel::table! {
    meta (id) {
        id -> Integer,
        clock_wall -> BigInt,
        clock_engine -> BigInt,
        clock_scale -> Double,
        last_stamp -> BigInt,
        last_event -> BigInt,
        last_delivery -> BigInt,
        last_other -> BigInt,
        written_through -> BigInt,
        filed_through -> BigInt,
        key_check -> Binary,
    }
}

diesel::table! {
    tenants (no) {
        no -> BigInt,
        id -> Text,
        name -> Text,
        created_at -> BigInt,
    }
}

diesel::table! {
    api_keys (id) {
        id -> Text,
        tenant -> Nullable<BigInt>,
        role -> Text,
        name -> Text,
        hash -> Binary,
        created_at -> BigInt,
    }
}

diesel::table! {
    endpoints (no) {
        no -> BigInt,
        tenant -> BigInt,
        id -> Text,
        version -> BigInt,
        url -> Text,
        description -> Text,
        event_types -> Text,
        policy -> Text,
        max_in_flight -> Integer,
        header_prefix -> Nullable<Text>,
        headers -> Binary,
        secrets -> Binary,
        metadata -> Text,
        status -> Text,
        disabled_reason -> Nullable<Text>,
        disabled_at -> Nullable<BigInt>,
        cut -> Integer,
        counted_from -> BigInt,
        deleted_at -> Nullable<BigInt>,
        created_at -> BigInt,
        updated_at -> BigInt,
    }
}

diesel::table! {
    endpoint_health (endpoint) {
        endpoint -> BigInt,
        tenant -> BigInt,
        version -> BigInt,
        failures -> BigInt,
        failing_since -> Nullable<BigInt>,
        exhausted -> BigInt,
        alerted -> Bool,
        opened_at -> Nullable<BigInt>,
        retry_at -> Nullable<BigInt>,
        pending -> BigInt,
        failed -> BigInt,
        dead -> BigInt,
        last_delivery -> BigInt,
        last_success_at -> Nullable<BigInt>,
        last_failure_at -> Nullable<BigInt>,
        last_attempt_delivery -> Nullable<BigInt>,
        last_attempt_number -> Nullable<BigInt>,
        wake_at -> Nullable<BigInt>,
    }
}

diesel::table! {
    cuts (endpoint, cut) {
        endpoint -> BigInt,
        cut -> Integer,
        tenant -> BigInt,
        cut_at -> BigInt,
        replayable_until -> BigInt,
    }
}

diesel::table! {
    spared (delivery) {
        delivery -> BigInt,
        endpoint -> BigInt,
        tenant -> BigInt,
    }
}

diesel::table! {
    events (no) {
        no -> BigInt,
        tenant -> BigInt,
        id -> Text,
        #[sql_name = "type"]
        kind -> Text,
        created_at -> BigInt,
        received_at -> BigInt,
        committed_at -> BigInt,
        first_delivery -> BigInt,
        deliveries -> Integer,
        targets -> Binary,
        data_start -> Integer,
        body -> Binary,
    }
}

diesel::table! {
    event_changes (event) {
        event -> BigInt,
        tenant -> BigInt,
        changed_at -> BigInt,
    }
}

diesel::table! {
    deliveries (no) {
        no -> BigInt,
        tenant -> BigInt,
        endpoint -> BigInt,
        event -> BigInt,
        state -> Text,
        run -> Integer,
        attempt -> Integer,
        attempts_total -> Integer,
        cut -> Integer,
        line -> SmallInt,
        order_at -> BigInt,
        due_at -> BigInt,
        due_reason -> Text,
        probed_at -> Nullable<BigInt>,
        dead_reason -> Nullable<Text>,
        dead_at -> Nullable<BigInt>,
        replayable_until -> Nullable<BigInt>,
        last_status -> Nullable<Integer>,
        last_error_kind -> Nullable<Text>,
        created_at -> BigInt,
        updated_at -> BigInt,
        delivered_at -> Nullable<BigInt>,
    }
}

diesel::table! {
    endpoint_deliveries (endpoint, last) {
        endpoint -> BigInt,
        last -> BigInt,
        numbers -> Binary,
    }
}

diesel::table! {
    endpoint_lines (endpoint, line, order_at, delivery) {
        endpoint -> BigInt,
        line -> SmallInt,
        order_at -> BigInt,
        delivery -> BigInt,
    }
}

diesel::table! {
    attempts (delivery, number) {
        delivery -> BigInt,
        number -> Integer,
        tenant -> BigInt,
        run -> Integer,
        attempt -> Integer,
        cause -> Text,
        started_at -> BigInt,
        duration -> BigInt,
        dns -> Nullable<BigInt>,
        connect -> Nullable<BigInt>,
        tls -> Nullable<BigInt>,
        first_byte -> Nullable<BigInt>,
        remote_addr -> Nullable<Text>,
        url -> Text,
        status -> Nullable<Integer>,
        error_kind -> Nullable<Text>,
        error -> Nullable<Text>,
        excerpt -> Binary,
        excerpt_truncated -> Bool,
        outcome -> Text,
    }
}

diesel::table! {
    notifications (no) {
        no -> BigInt,
        tenant -> BigInt,
        id -> Text,
        kind -> Text,
        endpoint -> Nullable<Text>,
        title -> Text,
        message -> Text,
        created_at -> BigInt,
        read_at -> Nullable<BigInt>,
    }
}

diesel::table! {
    idempotency (tenant, method, path, key) {
        tenant -> BigInt,
        method -> Text,
        path -> Text,
        key -> Text,
        request_hash -> Binary,
        status -> Integer,
        body -> Binary,
        created_at -> BigInt,
    }
}

diesel::joinable!(deliveries -> endpoints (endpoint));
diesel::joinable!(deliveries -> endpoint_health (endpoint));
diesel::joinable!(deliveries -> events (event));
diesel::joinable!(event_changes -> events (event));
diesel::joinable!(endpoint_lines -> deliveries (delivery));
diesel::allow_tables_to_appear_in_same_query!(
    deliveries,
    events,
    event_changes,
    endpoints,
    endpoint_health,
    cuts,
    spared,
    attempts,
    endpoint_deliveries,
    endpoint_lines,
);
