//! Every endpoint as the writer needs it for fan-out (S26): which types it subscribes to, whether it is enabled, where
//! its numbers stand. On SQLite the writer is the only one that changes endpoints, so it keeps this in memory and reads
//! it anew only at start and after a transaction that failed.

use std::collections::HashMap;
use std::sync::Arc;

use crate::domain::endpoint::Status;
use crate::domain::ids::{DeliveryNo, EndpointNo, TenantNo};
use crate::domain::policy::WhileDisabled;
use crate::domain::subscription::{EventFilter, SubscriptionIndex};
use crate::domain::time::{Span, Timestamp};

/// One endpoint that is not deleted.
#[derive(Clone, Debug)]
pub struct Entry {
    pub tenant: TenantNo,
    pub id: Arc<str>,
    pub url: Arc<str>,
    pub filter: EventFilter,
    pub status: Status,
    pub while_disabled: WhileDisabled,
    pub dead_letters: Span,
    pub cut: u32,
    pub version: i64,
    pub health_version: i64,
    /// The endpoint's newest delivery.
    pub last_delivery: DeliveryNo,
    /// When its actor is needed, as the row has it.
    pub wake_at: Option<Timestamp>,
}

impl Entry {
    pub fn is_enabled(&self) -> bool {
        self.status == Status::Enabled
    }
}

#[derive(Default)]
pub struct Directory {
    entries: HashMap<EndpointNo, Entry>,
    by_id: HashMap<(TenantNo, Arc<str>), EndpointNo>,
    subscriptions: HashMap<TenantNo, SubscriptionIndex<EndpointNo>>,
}

impl Directory {
    pub fn insert(&mut self, no: EndpointNo, entry: Entry) {
        self.subscriptions.entry(entry.tenant).or_default().insert(no, &entry.filter);
        self.by_id.insert((entry.tenant, entry.id.clone()), no);
        self.entries.insert(no, entry);
    }

    pub fn remove(&mut self, no: EndpointNo) {
        if let Some(entry) = self.entries.remove(&no) {
            self.by_id.remove(&(entry.tenant, entry.id));
            if let Some(index) = self.subscriptions.get_mut(&entry.tenant) {
                index.remove(no);
            }
        }
    }

    pub fn get(&self, no: EndpointNo) -> Option<&Entry> {
        self.entries.get(&no)
    }

    pub fn get_mut(&mut self, no: EndpointNo) -> Option<&mut Entry> {
        self.entries.get_mut(&no)
    }

    /// The endpoint of this tenant with this id.
    pub fn find(&self, tenant: TenantNo, id: &str) -> Option<EndpointNo> {
        self.by_id.get(&(tenant, Arc::from(id))).copied()
    }

    /// The endpoints of this tenant that subscribe to this type, in the order of their numbers.
    pub fn subscribers(&self, tenant: TenantNo, event_type: &str) -> Vec<EndpointNo> {
        self.subscriptions.get(&tenant).map(|index| index.matching(event_type)).unwrap_or_default()
    }
}
