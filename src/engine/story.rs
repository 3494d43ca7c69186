//! One log line per recorded attempt that tells its story alone: which event, to whom, what came of it, what is next.
//! Ids only: no URL path, no header, no body, no secret.

use crate::domain::attempt::Finding;
use crate::domain::delivery::Next;
use crate::domain::endpoint::Endpoint;
use crate::domain::judge::{Ended, Verdict};

/// Logs what one recorded attempt came to.
pub fn tell(endpoint: &Endpoint, ended: &Ended, verdict: &Verdict) {
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
        Next::Retry { due_at, .. } => format!("next attempt at {due_at}"),
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
    if let Some(reason) = &verdict.disable {
        log::warn!("endpoint {} disabled: {reason}", endpoint.id);
    }
    for notice in &verdict.notices {
        log::info!("{}: {}", endpoint.id, notice.kind);
    }
}
