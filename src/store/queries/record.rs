//! Recording what attempts came to: deliveries, attempts, streaks, circuit, verdicts and notifications, in one
//! transaction, and only if neither the endpoint nor its health moved since they were judged (S1, S13, S14).

use diesel::prelude::*;
use diesel::{QueryResult, insert_into, update};

use super::cut::{Cut, cut};
use super::filing::moved;
use super::misc::{notice_bytes, notify};
use super::statements::{Delivered, Died, JudgeHealth, Retried};
use super::{Conn, RunQueryDsl, Tx};
use crate::domain::attempt::{Finding, Outcome};
use crate::domain::delivery::{Line, Next, State};
use crate::domain::dispatcher::Batch;
use crate::domain::endpoint::Status;
use crate::domain::ids::{DeliveryNo, EndpointNo, TenantNo};
use crate::domain::judge::{Ended, Verdict};
use crate::domain::time::{Span, Timestamp};
use crate::store::record::{Record, RecordRest, Recorded};
use crate::store::rows::{AttemptRow, DeliveryRow, micros};
use crate::store::schema::{attempts, deliveries, endpoint_health, spared};
use crate::store::sentence::{FIXED_BYTES, Sentence};
use crate::store::unfiled::Place;

/// What a result takes in memory with its excerpt, of a kilobyte at most.
const RESULT_BYTES: usize = 2_048;

impl Sentence<Conn> for Record {
    type Reply = Recorded;

    async fn run(&self, tx: &mut Tx<'_>) -> QueryResult<Recorded> {
        let batch = &self.0;
        let Some(entry) = tx.directory.get(batch.endpoint) else {
            return Ok(Recorded::Gone);
        };
        if (entry.version, entry.health_version) != (batch.expected.endpoint, batch.expected.health) {
            return Ok(Recorded::Outdated);
        }
        let (tenant, dead_letters, endpoint_cut) = (entry.tenant, entry.dead_letters, entry.cut);
        let newer = entry.last_delivery > batch.seen_through;
        let mut counts = Counts::default();
        let mut skipped = false;
        for (ended, verdict) in &batch.results {
            if !write_result(tx, tenant, batch.endpoint, dead_letters, ended, verdict).await? {
                skipped = true;
                continue;
            }
            counts.moved(ended, verdict);
            // Only what was on the wire at a cut is spared.
            if ended.delivery.cut < endpoint_cut {
                diesel::delete(spared::table.find(ended.delivery.no.0)).execute(tx.conn).await?;
            }
        }
        write_health(tx, batch, counts, newer).await?;
        for (ended, verdict) in &batch.results {
            if let Some(reason) = &verdict.disable {
                let at = ended.attempt.ended_at;
                let (status, spared) = (Status::AutoDisabled, batch.spared.clone());
                cut(tx, batch.endpoint, Cut { status, reason: Some(reason.clone()), at, spared }).await?;
            }
            for notice in &verdict.notices {
                notify(tx, tenant, Some(batch.endpoint), notice, ended.attempt.ended_at).await?;
            }
        }
        Ok(Recorded::Done { skipped })
    }

    fn bytes(&self) -> usize {
        let texts = |verdict: &Verdict| {
            let notices: usize = verdict.notices.iter().map(notice_bytes).sum();
            notices + verdict.disable.as_ref().map_or(0, String::len)
        };
        let results = self.0.results.iter().map(|(_, verdict)| RESULT_BYTES + texts(verdict));
        FIXED_BYTES + results.sum::<usize>() + size_of_val(&self.0.spared[..])
    }

    fn weight(&self) -> usize {
        self.0.results.len()
    }
}

/// How a batch changes the endpoint's counts.
#[derive(Default)]
struct Counts {
    pending: i64,
    failed: i64,
    dead: i64,
    last: Option<(DeliveryNo, u32)>,
    success_at: Option<Timestamp>,
    failure_at: Option<Timestamp>,
}

impl Counts {
    fn moved(&mut self, ended: &Ended, verdict: &Verdict) {
        *if ended.delivery.attempt == 0 { &mut self.pending } else { &mut self.failed } -= 1;
        match verdict.next.state() {
            State::Failed => self.failed += 1,
            State::Dead => self.dead += 1,
            State::Pending | State::Delivered => {}
        }
        self.last = Some((ended.delivery.no, ended.delivery.attempts_total + 1));
        let at = if verdict.outcome == Outcome::Delivered { &mut self.success_at } else { &mut self.failure_at };
        *at = (*at).max(Some(ended.attempt.ended_at));
    }
}

/// Writes one attempt and what it makes of its delivery. False if the result does not belong to the row any more.
async fn write_result(
    tx: &mut Tx<'_>,
    tenant: TenantNo,
    endpoint: EndpointNo,
    dead_letters: Span,
    ended: &Ended,
    verdict: &Verdict,
) -> QueryResult<bool> {
    let delivery = &ended.delivery;
    let (no, tenant_no, run) = (delivery.no.0, tenant.0, delivery.run as i32);
    let (before, attempt) = (delivery.attempts_total as i32, delivery.attempt as i32 + 1);
    let finding = &ended.attempt.report.finding;
    let (status, error_kind) = (finding.status().map(i32::from), error(finding).map(|(kind, _)| kind));
    let (updated_at, ended_at) = (tx.stamp.as_micros(), ended.attempt.ended_at.as_micros());
    let first = (delivery.run, delivery.attempts_total) == (1, 0) && tx.unwritten.take(delivery.no).is_some();
    let changed = match verdict.next {
        _ if first => {
            let row = first_row(tenant, endpoint, dead_letters, ended, verdict, tx.stamp);
            insert_into(deliveries::table).values(row).execute(tx.conn).await?
        }
        Next::Delivered => {
            let row = Delivered { no, tenant: tenant_no, run, before, attempt, status, updated_at, ended_at };
            row.execute(tx.conn).await?
        }
        Next::Retry { due_at, reason } => {
            let row = Retried {
                no,
                tenant: tenant_no,
                run,
                before,
                attempt,
                status,
                error_kind,
                updated_at,
                line: Line::Retry.code(),
                due_at: due_at.as_micros(),
                due_reason: reason.as_str(),
                probed_at: micros(verdict.probed_at.or(delivery.probed_at)),
            };
            row.execute(tx.conn).await?
        }
        Next::Dead(reason) => {
            let row = Died {
                no,
                tenant: tenant_no,
                run,
                before,
                attempt,
                status,
                error_kind,
                updated_at,
                reason: reason.as_str(),
                ended_at,
                replayable_until: (ended.attempt.ended_at + dead_letters).as_micros(),
            };
            row.execute(tx.conn).await?
        }
    };
    if changed == 0 {
        return Ok(false);
    }
    let from = Place { line: delivery.line, order_at: delivery.order_at };
    let to = match verdict.next {
        Next::Retry { due_at, .. } => Some(Place { line: Line::Retry, order_at: due_at }),
        Next::Delivered | Next::Dead(_) => None,
    };
    moved(tx, endpoint, delivery.no, Some(from), to).await?;
    insert_into(attempts::table).values(attempt_row(tenant, ended, verdict.outcome)).execute(tx.conn).await?;
    Ok(true)
}

/// The row of a delivery that has none yet, after its first attempt.
fn first_row(
    tenant: TenantNo,
    endpoint: EndpointNo,
    dead_letters: Span,
    ended: &Ended,
    verdict: &Verdict,
    stamp: Timestamp,
) -> DeliveryRow {
    let (delivery, ended_at) = (&ended.delivery, ended.attempt.ended_at);
    let finding = &ended.attempt.report.finding;
    let mut row = DeliveryRow {
        state: verdict.next.state().as_str().into(),
        attempt: 1,
        attempts_total: 1,
        last_status: finding.status().map(i32::from),
        last_error_kind: error(finding).map(|(kind, _)| kind.into()),
        ..DeliveryRow::accepted(tenant, endpoint, delivery, stamp)
    };
    match verdict.next {
        Next::Delivered => (row.last_error_kind, row.delivered_at) = (None, Some(ended_at.as_micros())),
        Next::Retry { due_at, reason } => {
            (row.line, row.order_at) = (Line::Retry.code(), due_at.as_micros());
            (row.due_at, row.due_reason) = (due_at.as_micros(), reason.as_str().into());
            row.probed_at = micros(verdict.probed_at.or(delivery.probed_at));
        }
        Next::Dead(reason) => {
            (row.dead_reason, row.dead_at) = (Some(reason.as_str().into()), Some(ended_at.as_micros()));
            row.replayable_until = Some((ended_at + dead_letters).as_micros());
        }
    }
    row
}

fn error(finding: &Finding) -> Option<(&'static str, &'static str)> {
    match finding {
        Finding::Failed { kind, error } => Some((kind.as_str(), error)),
        Finding::Answered(_) | Finding::Local { .. } => None,
    }
}

fn attempt_row(tenant: TenantNo, ended: &Ended, outcome: Outcome) -> AttemptRow {
    let (attempt, report) = (&ended.attempt, &ended.attempt.report);
    let phase = |span: Option<Span>| span.map(Span::as_micros);
    let (excerpt, excerpt_truncated) = match &report.finding {
        Finding::Answered(answer) => (answer.excerpt.to_vec(), answer.excerpt_truncated),
        _ => (Vec::new(), false),
    };
    let error = error(&report.finding);
    AttemptRow {
        delivery: ended.delivery.no.0,
        number: ended.delivery.attempts_total as i32 + 1,
        tenant: tenant.0,
        run: ended.delivery.run as i32,
        attempt: ended.delivery.attempt as i32 + 1,
        cause: attempt.trigger.as_str().into(),
        started_at: attempt.started_at.as_micros(),
        duration: report.took.as_micros(),
        dns: phase(report.timing.dns),
        connect: phase(report.timing.connect),
        tls: phase(report.timing.tls),
        first_byte: phase(report.timing.first_byte),
        remote_addr: report.remote_addr.map(|addr| addr.to_string()),
        url: attempt.url.to_string(),
        status: report.finding.status().map(i32::from),
        error_kind: error.map(|(kind, _)| kind.into()),
        error: error.map(|(_, text)| text.into()),
        excerpt,
        excerpt_truncated,
        outcome: outcome.as_str().into(),
    }
}

async fn write_health(tx: &mut Tx<'_>, batch: &Batch, counts: Counts, newer: bool) -> QueryResult<()> {
    // A delivery that the actor has not heard of yet must be found even if its hint is lost.
    let wake_at = if newer { Some(tx.stamp) } else { batch.wake_at };
    let health = &batch.health;
    // What was accepted for it so far is counted with this.
    let added = tx.uncounted.take(batch.endpoint).unwrap_or_default();
    let newest = tx.directory.get(batch.endpoint).map_or(0, |entry| entry.last_delivery.0);
    let row = JudgeHealth {
        endpoint: batch.endpoint.0,
        version: batch.expected.health + 1,
        failures: i64::from(health.failures),
        failing_since: micros(health.failing_since),
        exhausted: i64::from(health.exhausted),
        alerted: health.alerted,
        opened_at: micros(health.circuit.opened_at()),
        retry_at: micros(health.circuit.retry_at()),
        pending: counts.pending + added.pending,
        failed: counts.failed + added.failed,
        dead: counts.dead + added.dead,
        newest,
        wake_at: micros(wake_at),
        last_delivery: counts.last.map(|(delivery, _)| delivery.0),
        last_number: counts.last.map(|(_, number)| i64::from(number)),
        success_at: micros(counts.success_at),
        failure_at: micros(counts.failure_at),
    };
    row.execute(tx.conn).await?;
    if let Some(entry) = tx.directory.get_mut(batch.endpoint) {
        entry.health_version += 1;
        entry.wake_at = wake_at;
    }
    Ok(())
}

impl Sentence<Conn> for RecordRest {
    type Reply = ();

    async fn run(&self, tx: &mut Tx<'_>) -> QueryResult<()> {
        let rest = &self.0;
        let Some(entry) = tx.directory.get_mut(rest.endpoint) else { return Ok(()) };
        let same = (entry.version, entry.health_version) == (rest.expected.endpoint, rest.expected.health);
        if same && entry.last_delivery <= rest.seen_through {
            entry.wake_at = rest.wake_at;
            let row = endpoint_health::table.find(rest.endpoint.0);
            update(row).set(endpoint_health::wake_at.eq(micros(rest.wake_at))).execute(tx.conn).await?;
        }
        Ok(())
    }
}
