//! The endpoints of a world, each with a receiver of its own.

use base64::Engine as _;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use std::sync::Arc;

use super::ledger::PLANTED;
use super::receivers::{Book, Receiver};

/// Always healthy and never disabled: whatever it is for must be delivered.
pub const STEADY: usize = 0;
/// People make an endpoint for this receiver, and delete it again.
pub const DOOMED: usize = 6;
/// Real time; also how long an attempt that hangs takes.
pub const TIMEOUT_MS: i64 = 1_500;

pub struct Place {
    /// Of its endpoint; empty for the doomed one.
    pub id: String,
    pub receiver: Receiver,
    pub secret: String,
    pub kinds: &'static [&'static str],
    pub max_in_flight: usize,
    pub policy: Value,
}

impl Place {
    fn new(number: usize, book: &Arc<Book>, random: &mut StdRng) -> Place {
        let secret = format!("whsec_{}", base64::engine::general_purpose::STANDARD.encode(random.random::<[u8; 32]>()));
        let (kinds, max_in_flight, ladder, extra): (&[&str], _, Vec<&str>, _) = match number {
            STEADY => (&["soak.a", "soak.b", "soak.c"], 16, vec!["1s"; 49], json!({})),
            1 => (&["soak.a"], 8, vec!["500ms"; 20], json!({})),
            2 => (&["soak.b"], 4, vec!["200ms", "400ms", "800ms"], json!({})),
            3 => {
                let breaker = json!({"circuit_breaker": {"exhausted": 3, "cooldown": "1s"}});
                (&["soak.a", "soak.c"], 16, vec!["200ms"], breaker)
            }
            4 => (&["soak.b"], 16, vec!["300ms"; 5], json!({"auto_disable": {"failures": 20}})),
            5 => (&["soak.c"], 1, vec!["100ms"; 30], json!({})),
            _ => (&["soak.a"], 16, vec!["300ms", "1s"], json!({})),
        };
        let mut policy = json!({
            "schedule": {"ladder": ladder}, "jitter": 0.1, "timeout": format!("{TIMEOUT_MS}ms"), "responses": [],
            "auto_disable": null,
        });
        for (name, value) in extra.as_object().expect("members") {
            policy[name] = value.clone();
        }
        let receiver = Receiver::start(number, &secret, book.clone());
        Place { id: String::new(), receiver, secret, kinds, max_in_flight, policy }
    }

    /// What its endpoint is created with.
    pub fn body(&self) -> Value {
        json!({
            "url": self.receiver.url(&format!("/hook?token={PLANTED}-query")), "event_types": self.kinds,
            "policy": self.policy, "max_in_flight": self.max_in_flight, "secret": self.secret,
            "headers": {"X-Shop": format!("{PLANTED}-header")},
        })
    }

    /// Deaths of these may have been exhausted; how many attempts a whole run has.
    pub fn rungs(&self) -> usize {
        self.policy["schedule"]["ladder"].as_array().map_or(0, Vec::len) + 1
    }
}

pub fn places(book: &Arc<Book>, random: &mut StdRng) -> Vec<Place> {
    (0..=DOOMED).map(|number| Place::new(number, book, random)).collect()
}
