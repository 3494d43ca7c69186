//! What people and callers do in the course of a scenario, at its time and without waiting for each other.

use posthaste::domain::ids::{DeliveryNo, EndpointNo};
use posthaste::domain::policy_spec::PolicySpec;
use posthaste::domain::time::{Span, Timestamp};
use posthaste::engine::retention;
use posthaste::store::change::Door;
use tokio::task::JoinHandle;

use super::ledger::What;
use super::life::Life;
use super::plan::{Dice, policy};
use super::planted::Plant;

/// Endpoints and deliveries are meant by a number, whatever there is by then.
#[derive(Clone, Debug)]
pub enum Act {
    Post { event: String, created_at: Timestamp },
    Disable { endpoint: usize },
    Enable { endpoint: usize },
    Delete { endpoint: usize },
    Policy { endpoint: usize, policy: Box<PolicySpec> },
    Url { endpoint: usize },
    MaxInFlight { endpoint: usize, max_in_flight: u16 },
    Retry { delivery: u64, door: Door },
    RequeueAll { endpoint: usize },
    Inspect,
}

impl Act {
    pub fn draw(dice: &mut Dice) -> Act {
        let endpoint = dice.upto(3) as usize;
        match dice.upto(20) {
            0..4 => Act::Disable { endpoint },
            4..6 => Act::Enable { endpoint },
            6 => Act::Delete { endpoint },
            7 => Act::Policy { endpoint, policy: Box::new(policy(dice)) },
            8 => Act::Url { endpoint },
            9 => Act::MaxInFlight { endpoint, max_in_flight: dice.one(&[1, 2, 5]) },
            10..16 => Act::Retry { delivery: dice.upto(1_000), door: Door::Retry },
            16..18 => Act::Retry { delivery: dice.upto(1_000), door: Door::Requeue },
            _ => Act::RequeueAll { endpoint },
        }
    }
}

impl Life {
    /// Does each act at its time, then waits until `end`. Acts may overlap.
    pub async fn act(&self, acts: Vec<(Timestamp, Act)>, endpoints: &[EndpointNo], end: Timestamp) {
        let mut doing: Vec<JoinHandle<()>> = Vec::new();
        for (at, act) in acts {
            self.until(at).await;
            // A check that failed ends the world here.
            for done in doing.extract_if(.., |act| act.is_finished()) {
                done.await.unwrap_or_else(|failed| std::panic::resume_unwind(failed.into_panic()));
            }
            let (life, endpoints) = (self.clone(), endpoints.to_vec());
            doing.push(tokio::task::spawn_local(async move { life.perform(act, &endpoints).await }));
        }
        self.until(end).await;
    }

    async fn perform(&self, act: Act, endpoints: &[EndpointNo]) {
        let one = |number: usize| endpoints[number % endpoints.len()];
        // What the store refuses, people hear of; there is nothing to check about it here.
        match act {
            Act::Post { event, created_at } if self.plant == Some(Plant::AnsweredEarly) && event.ends_with('7') => {
                self.post_unsynced(&event, created_at).await;
            }
            Act::Post { event, created_at } => drop(self.post(&event, created_at).await),
            Act::Disable { endpoint } => {
                let _ = self.disable(one(endpoint)).await;
                self.pass(Span::SECOND).await;
                let _ = retention::rewrite(&self.store).await;
            }
            Act::Enable { endpoint } => drop(self.enable(one(endpoint)).await),
            Act::Delete { endpoint } => {
                let _ = self.delete(one(endpoint)).await;
                let _ = retention::rewrite(&self.store).await;
            }
            Act::Policy { endpoint, policy } => {
                let edit = |record: &mut posthaste::store::endpoint_record::EndpointRecord| {
                    record.policy = (*policy).clone();
                };
                let _ = self.edit(one(endpoint), edit).await;
            }
            Act::Url { endpoint } => {
                let url = format!("https://moved.test/{}", self.now().as_micros());
                let _ = self.edit(one(endpoint), |record| record.url = url.as_str().into()).await;
            }
            Act::MaxInFlight { endpoint, max_in_flight } => {
                let _ = self.edit(one(endpoint), |record| record.max_in_flight = max_in_flight).await;
            }
            Act::Retry { delivery, door } => {
                if let Some(delivery) = self.some_delivery(delivery) {
                    self.retry(delivery, door).await;
                }
            }
            Act::RequeueAll { endpoint } => drop(self.requeue_all(one(endpoint)).await),
            Act::Inspect => self.inspect(),
        }
    }

    fn some_delivery(&self, number: u64) -> Option<DeliveryNo> {
        let pages = self.ledger.pages();
        let accepted = pages.entries.iter().filter_map(|entry| match &entry.what {
            What::Accepted(acceptance) => Some(acceptance),
            _ => None,
        });
        let all: Vec<DeliveryNo> = accepted.flat_map(|event| event.deliveries.iter().map(|one| one.1)).collect();
        (!all.is_empty()).then(|| all[number as usize % all.len()])
    }

    /// Every delivery has come to its end.
    pub fn nothing_waits(&self) -> bool {
        self.checks.nothing_waits(&self.ledger)
    }
}
