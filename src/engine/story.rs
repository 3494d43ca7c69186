//! One log line per recorded attempt that tells its story alone: which event, to whom, what came of it, what is next.
//! Ids only: no URL path, no header, no body, no secret.

use crate::domain::attempt::Finding;
use crate::domain::delivery::Next;
use crate::domain::endpoint::Endpoint;
use crate::domain::health::{CircuitChange, Health};
use crate::domain::judge::{Ended, Verdict};

/// Logs what one recorded attempt came to. `health`: the endpoint's, as it is by now.
pub fn tell(endpoint: &Endpoint, health: &Health, ended: &Ended, verdict: &Verdict) {
    tell_attempt(endpoint, health, ended, verdict);
    tell_circuit(endpoint, health, verdict);
    if let Some(reason) = &verdict.disable {
        log::warn!("endpoint {} disabled: {reason}", endpoint.id);
    }
    for notice in &verdict.notices {
        log::info!("{}: {}", endpoint.id, notice.kind);
    }
}

fn tell_attempt(endpoint: &Endpoint, health: &Health, ended: &Ended, verdict: &Verdict) {
    let (delivery, report) = (&ended.delivery, &ended.attempt.report);
    let what = match &report.finding {
        Finding::Answered(answer) => format!("answered {}", answer.status),
        Finding::Failed { kind, error } => format!("failed ({kind}: {error})"),
        Finding::Local { reason } => format!("did not count ({reason})"),
    };
    let next = match verdict.next {
        Next::Delivered => {
            let took = report.took.as_millis();
            log::debug!(
                "{} delivered to {} by attempt {} in {took} ms",
                delivery.id(),
                endpoint.id,
                delivery.attempt + 1
            );
            return;
        }
        // Not before an open circuit lets anything through.
        Next::Retry { due_at, .. } => match health.circuit.retry_at().filter(|&retry_at| retry_at > due_at) {
            Some(retry_at) => format!("next attempt not before {retry_at}, the circuit is open"),
            None => format!("next attempt at {due_at}"),
        },
        Next::Dead(reason) => format!("dead ({reason})"),
    };
    log::info!(
        "{}: attempt {} of run {} to {} {what} after {} ms; {next}",
        delivery.id(),
        delivery.attempt + 1,
        delivery.run,
        endpoint.id,
        report.took.as_millis(),
    );
}

fn tell_circuit(endpoint: &Endpoint, health: &Health, verdict: &Verdict) {
    match (verdict.circuit, health.circuit.retry_at()) {
        (Some(CircuitChange::Opened), Some(retry_at)) => {
            log::warn!(
                "{}: the circuit is open, one attempt at {retry_at} will find out whether it may close",
                endpoint.id
            );
        }
        (Some(CircuitChange::Closed), _) => log::info!("{}: the circuit is closed", endpoint.id),
        _ => {}
    }
}
