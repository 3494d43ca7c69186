//! People who enable, disable, edit, delete and retry: each acts as the API does, in the same order of asking the engine,
//! committing, and telling the engine. The store may fail them too; then they hear of it and nothing else happens.

use posthaste::domain::ids::{DeliveryNo, EndpointNo};
use posthaste::engine::LockRefused;
use posthaste::store::change::{
    DeleteEndpoint, Disable, DlqFilter, Door, EditEndpoint, Enable, NotPutBack, PutBack, RequeueSlice, SLICE,
};
use posthaste::store::endpoint_record::EndpointRecord;
use posthaste::store::error::StoreError;
use posthaste::store::list::FindDelivery;
use posthaste::store::{DEFAULT_TENANT, Queue};

use super::ledger::{Hold, What};
use super::life::{Life, setup};

/// What came of a person's retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retried {
    Done,
    /// 409: an attempt is on the wire.
    OnTheWire,
    /// 409 or 404.
    Refused(NotPutBack),
    /// 503.
    Failed,
}

impl Life {
    /// Writes down that a person's request holds something back.
    pub fn hold(&self, hold: Hold, begins: bool) {
        self.ledger.enter(self.number, self.now(), What::Holding { hold, begins });
    }

    pub async fn disable(&self, endpoint: EndpointNo) -> Result<bool, StoreError> {
        let Ok(frozen) = self.engine.freeze(endpoint).await else { return Err(StoreError::Closed) };
        self.hold(Hold::Endpoint(endpoint), true);
        let (tenant, reason, now) = (DEFAULT_TENANT, "by a person".to_owned(), self.now());
        let disable = Disable { endpoint, tenant, reason, now, spared: frozen.spared.clone() };
        let done = self.trouble.write(self.write(disable, |disable, &done| match done {
            true => vec![What::Disabled { endpoint: disable.endpoint, now: disable.now }],
            false => Vec::new(),
        }));
        let done = done.await;
        frozen.done().await;
        self.hold(Hold::Endpoint(endpoint), false);
        done
    }

    pub async fn enable(&self, endpoint: EndpointNo) -> Result<bool, StoreError> {
        let enable = Enable { endpoint, tenant: DEFAULT_TENANT, now: self.now() };
        let done = self.trouble.write(self.write(enable, |enable, &done| match done {
            true => vec![What::Enabled { endpoint: enable.endpoint, now: enable.now }],
            false => Vec::new(),
        }));
        let done = done.await;
        self.engine.changed(endpoint).await;
        done
    }

    pub async fn delete(&self, endpoint: EndpointNo) -> Result<bool, StoreError> {
        let Ok(frozen) = self.engine.freeze(endpoint).await else { return Err(StoreError::Closed) };
        self.hold(Hold::Endpoint(endpoint), true);
        let delete = DeleteEndpoint { endpoint, tenant: DEFAULT_TENANT, now: self.now() };
        let done = self.trouble.write(self.write(delete, |delete, &done| match done {
            true => vec![What::Deleted { endpoint: delete.endpoint }],
            false => Vec::new(),
        }));
        let done = done.await;
        frozen.done().await;
        self.hold(Hold::Endpoint(endpoint), false);
        done
    }

    /// Edits an endpoint's configuration. Answers false if somebody else was faster, or it is deleted.
    pub async fn edit(&self, endpoint: EndpointNo, edit: impl Fn(&mut EndpointRecord)) -> Result<bool, StoreError> {
        let Some(owned) = self.store.endpoint(endpoint, Vec::new()).await? else { return Ok(false) };
        let (before, mut record) = (owned.record.clone(), owned.record);
        edit(&mut record);
        let new_url = before.url != record.url;
        let had = |record: &EndpointRecord| record.policy.resolve().circuit_breaker.is_some();
        let close_circuit = had(&before) && !had(&record);
        let (row, now, setup) = (self.store.encode(&record), self.now(), setup(&record));
        let edit = EditEndpoint { row, now, new_url, close_circuit };
        let done = self.trouble.write(self.write(edit, move |edit, row| match row {
            Some(row) => {
                let (endpoint, setup, now) = (EndpointNo(row.no), setup.clone(), edit.now);
                vec![What::Edited { endpoint, setup, new_url, close_circuit, now }]
            }
            None => Vec::new(),
        }));
        let done = done.await;
        self.engine.changed(endpoint).await;
        self.ledger.enter(self.number, self.now(), What::EditAnswered { endpoint });
        done.map(|row| row.is_some())
    }

    /// `POST /deliveries/{id}/retry`, or with the other door `POST /dlq/{id}/requeue`.
    pub async fn retry(&self, delivery: DeliveryNo, door: Door) -> Retried {
        let found = self.store.ask(FindDelivery { tenant: DEFAULT_TENANT, delivery }).await;
        let Ok(Some(view)) = found else { return Retried::Refused(NotPutBack::NotFound) };
        let locked = match self.engine.lock(view.endpoint, delivery).await {
            Ok(locked) => locked,
            Err(LockRefused::OnTheWire) => return Retried::OnTheWire,
            Err(LockRefused::Unavailable) => return Retried::Failed,
        };
        self.hold(Hold::Delivery(delivery), true);
        let put_back = PutBack { tenant: DEFAULT_TENANT, delivery, door, now: self.now() };
        let done = self.trouble.write(self.write(put_back, |put_back, answer| match answer {
            Ok(_) => vec![What::PutBack { delivery: put_back.delivery, now: put_back.now }],
            Err(_) => Vec::new(),
        }));
        let answer = match done.await {
            Ok(Ok((_, waiting))) => {
                locked.done(Some(waiting));
                Retried::Done
            }
            Ok(Err(why)) => Retried::Refused(why),
            Err(_) => Retried::Failed,
        };
        self.hold(Hold::Delivery(delivery), false);
        answer
    }

    /// `POST /dlq/requeue`: every dead letter of one endpoint. Answers how many.
    pub async fn requeue_all(&self, endpoint: EndpointNo) -> Result<u64, StoreError> {
        let on_the_wire = self.engine.live(endpoint).await.map(|live| live.on_the_wire).unwrap_or_default();
        let slice = RequeueSlice {
            tenant: DEFAULT_TENANT,
            filter: DlqFilter { endpoint: Some(endpoint), ..DlqFilter::default() },
            after: DeliveryNo(0),
            limit: SLICE,
            dry_run: false,
            now: self.now(),
            on_the_wire,
        };
        let done = self.trouble.write(self.write(slice, move |slice, done| match done.requeued {
            0 => Vec::new(),
            count => vec![What::RequeuedAll { endpoint, count, now: slice.now, spared: slice.on_the_wire.clone() }],
        }));
        let done = done.await;
        self.engine.refresh(&[endpoint]);
        done.map(|done| done.requeued)
    }
}
