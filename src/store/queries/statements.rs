//! The few changes that every delivery makes, as statements that are prepared once. diesel does not cache an `UPDATE`
//! that it builds itself (its parts may be left out), and preparing one costs several times what it takes to run.

use diesel::QueryResult;
use diesel::query_builder::{AstPass, QueryFragment, QueryId};
use diesel::sql_types::{BigInt, Bool, Integer, Nullable, SmallInt, Text};

use super::Backend;

/// A statement: its fields, and its text with the fields where they are bound.
macro_rules! statement {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $rust:ty = $sql:ty),* $(,)? } $($piece:tt)*) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            $(pub $field: $rust,)*
        }

        impl QueryId for $name {
            type QueryId = Self;

            const HAS_STATIC_QUERY_ID: bool = true;
        }

        impl QueryFragment<Backend> for $name {
            fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Backend>) -> QueryResult<()> {
                $(statement!(@type $field $sql);)*
                $(statement!(@push out, self, $piece);)*
                Ok(())
            }
        }

        impl<Conn> diesel::RunQueryDsl<Conn> for $name {}
    };
    (@type $field:ident $sql:ty) => {
        #[allow(non_camel_case_types)]
        type $field = $sql;
    };
    (@push $out:ident, $self:ident, $field:ident) => {
        $out.push_bind_param::<$field, _>(&$self.$field)?
    };
    (@push $out:ident, $self:ident, $text:literal) => {
        $out.push_sql($text)
    };
}

statement! {
    /// What a group adds to an endpoint's counts; `wake_at` is lowered only.
    AddToHealth {
        endpoint: i64 = BigInt, pending: i64 = BigInt, failed: i64 = BigInt, dead: i64 = BigInt,
        last_delivery: Option<i64> = Nullable<BigInt>, wake_at: Option<i64> = Nullable<BigInt>,
    }
    "UPDATE endpoint_health SET pending = pending + " pending ", failed = failed + " failed ", dead = dead + " dead
    ", last_delivery = coalesce(" last_delivery ", last_delivery), wake_at = CASE WHEN wake_at <= coalesce(" wake_at
    // NULL, which is never, counts as later.
    ", wake_at) THEN wake_at ELSE coalesce(" wake_at ", wake_at) END WHERE endpoint = " endpoint
}

statement! {
    /// What a batch of results makes of an endpoint's health.
    JudgeHealth {
        endpoint: i64 = BigInt, version: i64 = BigInt,
        failures: i64 = BigInt, failing_since: Option<i64> = Nullable<BigInt>, exhausted: i64 = BigInt,
        alerted: bool = Bool, opened_at: Option<i64> = Nullable<BigInt>, retry_at: Option<i64> = Nullable<BigInt>,
        pending: i64 = BigInt, failed: i64 = BigInt, dead: i64 = BigInt, newest: i64 = BigInt,
        wake_at: Option<i64> = Nullable<BigInt>, last_delivery: Option<i64> = Nullable<BigInt>, last_number: Option<i64> = Nullable<BigInt>,
        success_at: Option<i64> = Nullable<BigInt>, failure_at: Option<i64> = Nullable<BigInt>,
    }
    "UPDATE endpoint_health SET version = " version ", failures = " failures ", failing_since = " failing_since
    ", exhausted = " exhausted ", alerted = " alerted ", opened_at = " opened_at ", retry_at = " retry_at
    ", pending = pending + " pending ", failed = failed + " failed ", dead = dead + " dead
    ", last_delivery = " newest ", wake_at = " wake_at ", last_attempt_delivery = coalesce(" last_delivery ", last_attempt_delivery)"
    ", last_attempt_number = coalesce(" last_number ", last_attempt_number)"
    ", last_success_at = coalesce(" success_at ", last_success_at)"
    ", last_failure_at = coalesce(" failure_at ", last_failure_at) WHERE endpoint = " endpoint
}

statement! {
    /// An attempt succeeded. `attempt` and `total` count it; the first success stays.
    Delivered {
        no: i64 = BigInt, tenant: i64 = BigInt, run: i32 = Integer, before: i32 = Integer,
        attempt: i32 = Integer, status: Option<i32> = Nullable<Integer>, updated_at: i64 = BigInt, ended_at: i64 = BigInt,
    }
    "UPDATE deliveries SET state = 'delivered', attempt = " attempt ", attempts_total = 1 + " before
    ", last_status = " status ", last_error_kind = NULL, updated_at = " updated_at
    ", delivered_at = coalesce(delivered_at, " ended_at ") WHERE no = " no " AND tenant = " tenant
    " AND run = " run " AND attempts_total = " before
}

statement! {
    /// An attempt failed and another is scheduled.
    Retried {
        no: i64 = BigInt, tenant: i64 = BigInt, run: i32 = Integer, before: i32 = Integer,
        attempt: i32 = Integer, status: Option<i32> = Nullable<Integer>,
        error_kind: Option<&'static str> = Nullable<Text>, updated_at: i64 = BigInt,
        line: i16 = SmallInt, due_at: i64 = BigInt, due_reason: &'static str = Text,
        probed_at: Option<i64> = Nullable<BigInt>,
    }
    "UPDATE deliveries SET state = 'failed', attempt = " attempt ", attempts_total = 1 + " before
    ", last_status = " status ", last_error_kind = " error_kind ", updated_at = " updated_at
    ", line = " line ", order_at = " due_at ", due_at = " due_at ", due_reason = " due_reason ", probed_at = " probed_at
    " WHERE no = " no " AND tenant = " tenant " AND run = " run " AND attempts_total = " before
}

statement! {
    /// An attempt failed and it was the last.
    Died {
        no: i64 = BigInt, tenant: i64 = BigInt, run: i32 = Integer, before: i32 = Integer,
        attempt: i32 = Integer, status: Option<i32> = Nullable<Integer>,
        error_kind: Option<&'static str> = Nullable<Text>, updated_at: i64 = BigInt,
        reason: &'static str = Text, ended_at: i64 = BigInt, replayable_until: i64 = BigInt,
    }
    "UPDATE deliveries SET state = 'dead', attempt = " attempt ", attempts_total = 1 + " before
    ", last_status = " status ", last_error_kind = " error_kind ", updated_at = " updated_at
    ", dead_reason = " reason ", dead_at = " ended_at ", replayable_until = " replayable_until
    " WHERE no = " no " AND tenant = " tenant " AND run = " run " AND attempts_total = " before
}

statement! {
    /// Where the numbers stand.
    KeepNumbers {
        stamp: i64 = BigInt, event: i64 = BigInt, delivery: i64 = BigInt, other: i64 = BigInt,
        written: i64 = BigInt, filed: i64 = BigInt,
    }
    "UPDATE meta SET last_stamp = " stamp ", last_event = " event ", last_delivery = " delivery
    ", last_other = " other ", written_through = " written ", filed_through = " filed " WHERE id = 1"
}
