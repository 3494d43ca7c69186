//! One life of the process: the store, the engine and the clock, time that passes, callers who post events.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use posthaste::clock::Clock;
use posthaste::domain::endpoint::Status;
use posthaste::domain::event::{EventId, compose_body};
use posthaste::domain::event_type::EventType;
use posthaste::domain::headers::CustomHeaders;
use posthaste::domain::ids::{EndpointNo, parse_delivery_id, unique_id};
use posthaste::domain::policy_spec::PolicySpec;
use posthaste::domain::secret::{SecretSet, SigningSecret};
use posthaste::domain::subscription::EventFilter;
use posthaste::domain::time::{Span, Timestamp};
use posthaste::engine::Engine;
use posthaste::store::accept::{Accept, Accepted, NewEvent, Refused};
use posthaste::store::change::CreateEndpoint;
use posthaste::store::endpoint_record::EndpointRecord;
use posthaste::store::error::StoreError;
use posthaste::store::list::FindDelivery;
use posthaste::store::sentence::Sentence;
use posthaste::store::view::DeliveryView;
use posthaste::store::{DEFAULT_TENANT, Store};

use super::checks::Checks;
use super::ledger::{Acceptance, Ledger, Noted, Setup, What, Wire};
use super::planted::Plant;
use super::receiver::Receiver;
use super::trouble::Trouble;
use super::wire::Receivers;

/// What the store says to an acceptance.
pub type AcceptReply = std::result::Result<Vec<Accepted>, Refused>;

#[derive(Clone)]
pub struct Life {
    pub store: Store,
    pub engine: Engine,
    pub clock: Clock,
    pub ledger: Ledger,
    pub receivers: Receivers,
    pub opened: Arc<AtomicUsize>,
    pub trouble: Trouble,
    pub checks: Rc<Checks>,
    pub number: u32,
    pub plant: Option<Plant>,
}

impl Life {
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Engine time passes.
    pub async fn pass(&self, span: Span) {
        self.until(self.now() + span).await;
    }

    pub async fn until(&self, instant: Timestamp) {
        let wait = self.clock.real_until(instant);
        if wait > Duration::ZERO {
            tokio::time::sleep(wait).await;
        }
    }

    /// Carries a sentence out and writes down what it changed.
    pub async fn write<S, F>(&self, sentence: S, note: F) -> Result<S::Reply, StoreError>
    where
        S: Sentence<diesel::SqliteConnection>,
        F: Fn(&S, &S::Reply) -> Vec<What> + Send + 'static,
    {
        self.store.write(self.noted(sentence, note)).await
    }

    fn noted<S, F>(&self, sentence: S, note: F) -> Noted<S, F> {
        let (ledger, life, clock) = (self.ledger.clone(), self.number, self.clock.clone());
        Noted { sentence, ledger, life, clock, note }
    }

    /// Adds an endpoint for every event.
    pub async fn endpoint(&self, policy: impl Into<PolicySpec>, max_in_flight: u16, receiver: Receiver) -> EndpointNo {
        let now = self.now();
        let id = unique_id("ep_", now, self.clock.random_bits());
        let record = EndpointRecord {
            no: EndpointNo(0),
            tenant: DEFAULT_TENANT,
            id: Arc::from(id.as_str()),
            version: 1,
            url: Arc::from(format!("https://{id}.test/hook")),
            description: String::new(),
            event_types: EventFilter::all(),
            policy: policy.into(),
            max_in_flight,
            header_prefix: None,
            headers: CustomHeaders::default(),
            secrets: SecretSet::new(SigningSecret::generate(self.clock.random_key())),
            metadata: serde_json::Map::new(),
            status: Status::Enabled,
            disabled_reason: None,
            disabled_at: None,
            cut: 0,
            counted_from: now,
            created_at: now,
            updated_at: now,
        };
        let setup = setup(&record);
        let created = self.write(CreateEndpoint(self.store.encode(&record)), move |_, row| {
            let (endpoint, id, setup) = (EndpointNo(row.no), row.id.clone(), setup.clone());
            vec![What::Created { endpoint, id, setup }]
        });
        let no = EndpointNo(created.await.expect("an endpoint").no);
        self.receivers.put(&id, no, receiver);
        no
    }

    /// Posts one event that happened at `created_at`; returns when it is accepted.
    pub async fn post(&self, id: &str, created_at: Timestamp) -> Accepted {
        let accepted = self.store.write(self.acceptance(id, created_at)).await;
        accepted.expect("the store takes it").expect("it is not refused").remove(0)
    }

    /// The sentence that accepts an event, written down when it is carried out.
    pub fn acceptance(
        &self,
        id: &str,
        created_at: Timestamp,
    ) -> impl Sentence<diesel::SqliteConnection, Reply = AcceptReply> + use<> {
        let id = EventId::parse(id).expect("an event's id");
        let event_type = EventType::parse("order.created").expect("an event type");
        let (body, data_start) = compose_body(&id, &event_type, created_at, "{\"n\": 1}");
        let received_at = self.now();
        let event = NewEvent {
            id,
            generated: false,
            event_type,
            created_at,
            received_at,
            body,
            data_start,
            endpoint_ids: None,
        };
        let accept = Accept { tenant: DEFAULT_TENANT, events: vec![event], max_deliveries: usize::MAX };
        self.noted(accept, |accept: &Accept, answers: &AcceptReply| {
            let stored = accept.events.iter().zip(answers.iter().flatten()).filter(|(_, answer)| !answer.duplicate);
            stored.map(|(event, answer)| What::Accepted(acceptance(event, answer))).collect()
        })
    }

    /// Every request so far.
    pub fn wires(&self) -> Vec<Wire> {
        self.ledger.pages().wire.clone()
    }

    /// How many actors were built in this life.
    pub fn transports_opened(&self) -> usize {
        self.opened.load(Ordering::Relaxed)
    }

    /// A delivery as people see it.
    pub async fn view(&self, id: &str) -> DeliveryView {
        let delivery = parse_delivery_id(id).expect("a delivery's id");
        let found = self.store.ask(FindDelivery { tenant: DEFAULT_TENANT, delivery }).await;
        found.expect("the store is well").expect("it is there")
    }

    /// Compares the database with what it must hold now.
    pub fn inspect(&self) {
        self.checks.inspect(&self.ledger);
    }

    /// Starts nothing more, waits for what is on the wire, closes the store: a shutdown in good order.
    pub async fn shut_down(&self) {
        self.ledger.enter(self.number, self.now(), What::Draining);
        self.engine.drain().await;
        self.store.close();
    }
}

pub fn setup(record: &EndpointRecord) -> Setup {
    let policy = record.endpoint().policy;
    Setup { policy, max_in_flight: record.max_in_flight, url: record.url.to_string() }
}

fn acceptance(event: &NewEvent, answer: &Accepted) -> Acceptance {
    let deliveries = answer.deliveries.iter();
    Acceptance {
        event: event.id.to_string(),
        body: event.body.to_vec(),
        created_at: event.created_at,
        received_at: event.received_at,
        deliveries: deliveries
            .map(|one| (one.endpoint_id.to_string(), parse_delivery_id(&one.id).expect("a delivery's id")))
            .collect(),
    }
}
