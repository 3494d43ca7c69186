//! Creating, editing, enabling, disabling, deleting endpoints: in one order with the acceptance of events (S26).

use diesel::prelude::*;
use diesel::{QueryResult, delete, insert_into, update};

use super::cut::{Cut, cut};
use super::filing::file;
use super::load::entry;
use super::misc::{flush_one, notify};
use super::{Conn, RunQueryDsl, Tx};
use crate::domain::endpoint::Status;
use crate::domain::ids::{EndpointNo, TenantNo};
use crate::domain::notice::Notice;
use crate::store::change::{AndShow, CreateEndpoint, DeleteEndpoint, Disable, EditEndpoint, Enable};
use crate::store::rows::{EndpointRow, HealthRow, maybe_at, micros};
use crate::store::schema::{endpoint_health, endpoints};
use crate::store::sentence::{FIXED_BYTES, Sentence};

impl Sentence<Conn> for CreateEndpoint {
    type Reply = EndpointRow;

    async fn run(&self, tx: &mut Tx<'_>) -> QueryResult<EndpointRow> {
        let mut row = self.0.clone();
        row.no = tx.counters.next_other();
        row.version = 1;
        row.updated_at = tx.stamp.as_micros();
        insert_into(endpoints::table).values(&row).execute(tx.conn).await?;
        let health = HealthRow { endpoint: row.no, tenant: row.tenant, version: 1, ..HealthRow::default() };
        insert_into(endpoint_health::table).values(health).execute(tx.conn).await?;
        tx.directory.insert(EndpointNo(row.no), entry(&row, (1, 0, None))?);
        Ok(row)
    }

    fn bytes(&self) -> usize {
        FIXED_BYTES + self.0.bytes()
    }
}

/// The entry's version, if the endpoint is there and belongs to this tenant.
fn version(tx: &Tx<'_>, endpoint: EndpointNo, tenant: TenantNo) -> Option<i64> {
    tx.directory.get(endpoint).filter(|entry| entry.tenant == tenant).map(|entry| entry.version)
}

impl Sentence<Conn> for EditEndpoint {
    type Reply = Option<EndpointRow>;

    async fn run(&self, tx: &mut Tx<'_>) -> QueryResult<Self::Reply> {
        let no = EndpointNo(self.row.no);
        if version(tx, no, TenantNo(self.row.tenant)) != Some(self.row.version) {
            return Ok(None);
        }
        let mut row = self.row.clone();
        row.version += 1;
        row.updated_at = tx.stamp.as_micros();
        if self.new_url {
            row.counted_from = self.now.as_micros();
        }
        let configuration = (
            (endpoints::version.eq(row.version), endpoints::updated_at.eq(row.updated_at)),
            (endpoints::url.eq(&row.url), endpoints::description.eq(&row.description)),
            (endpoints::event_types.eq(&row.event_types), endpoints::policy.eq(&row.policy)),
            (endpoints::max_in_flight.eq(row.max_in_flight), endpoints::header_prefix.eq(&row.header_prefix)),
            (endpoints::headers.eq(&row.headers), endpoints::secrets.eq(&row.secrets)),
            (endpoints::metadata.eq(&row.metadata), endpoints::counted_from.eq(row.counted_from)),
        );
        update(endpoints::table.find(no.0)).set(configuration).execute(tx.conn).await?;
        let Some(before) = tx.directory.get(no) else { return Ok(None) };
        let state = (before.health_version, before.last_delivery.0, micros(before.wake_at));
        tx.directory.insert(no, entry(&row, state)?);
        if self.new_url || self.close_circuit {
            let why = if self.new_url { "The URL was changed" } else { "The circuit breaker was removed" };
            clear_health(tx, no, self.new_url, Some(why), self.now).await?;
        }
        Ok(Some(row))
    }

    fn bytes(&self) -> usize {
        FIXED_BYTES + self.row.bytes()
    }
}

/// Closes the circuit and, where `streaks`, clears both streaks; the actor is needed now for what was held.
async fn clear_health(
    tx: &mut Tx<'_>,
    endpoint: EndpointNo,
    streaks: bool,
    why: Option<&str>,
    now: crate::domain::time::Timestamp,
) -> QueryResult<()> {
    flush_one(tx, endpoint).await?;
    let row = endpoint_health::table.find(endpoint.0);
    let before: HealthRow = row.select(HealthRow::as_select()).first(tx.conn).await?;
    let Some(entry) = tx.directory.get_mut(endpoint) else {
        return Ok(());
    };
    entry.health_version += 1;
    let (tenant, url, version) = (entry.tenant, entry.url.clone(), entry.health_version);
    let wake_at = if before.pending + before.failed > 0 { Some(now.as_micros()) } else { before.wake_at };
    entry.wake_at = maybe_at(wake_at);
    let closed = (
        endpoint_health::version.eq(version),
        endpoint_health::opened_at.eq(None::<i64>),
        endpoint_health::retry_at.eq(None::<i64>),
        endpoint_health::wake_at.eq(wake_at),
    );
    update(row).set(closed).execute(tx.conn).await?;
    if streaks {
        let cleared = (
            endpoint_health::failures.eq(0),
            endpoint_health::failing_since.eq(None::<i64>),
            endpoint_health::exhausted.eq(0),
            endpoint_health::alerted.eq(false),
        );
        update(row).set(cleared).execute(tx.conn).await?;
    }
    if let (Some(_), Some(why)) = (before.opened_at, why) {
        notify(tx, tenant, Some(endpoint), &Notice::circuit_closed(&url, why), now).await?;
    }
    Ok(())
}

impl<S: Sentence<Conn>> Sentence<Conn> for AndShow<S> {
    type Reply = (S::Reply, Option<EndpointRow>);

    async fn run(&self, tx: &mut Tx<'_>) -> QueryResult<Self::Reply> {
        let reply = self.change.run(tx).await?;
        let row = endpoints::table
            .filter(endpoints::no.eq(self.endpoint.0).and(endpoints::deleted_at.is_null()))
            .select(EndpointRow::as_select())
            .first(tx.conn)
            .await
            .optional()?;
        Ok((reply, row))
    }

    fn bytes(&self) -> usize {
        self.change.bytes()
    }

    fn weight(&self) -> usize {
        self.change.weight()
    }

    fn is_acceptance(&self) -> bool {
        self.change.is_acceptance()
    }
}

impl Sentence<Conn> for Enable {
    type Reply = bool;

    async fn run(&self, tx: &mut Tx<'_>) -> QueryResult<bool> {
        let Some(version) = version(tx, self.endpoint, self.tenant) else {
            return Ok(false);
        };
        let Some(entry) = tx.directory.get_mut(self.endpoint) else {
            return Ok(false);
        };
        let was_disabled = !entry.is_enabled();
        let url = entry.url.clone();
        if !was_disabled {
            // S16: a person's word that the receiver is well; the streaks and the circuit go all the same.
            clear_health(tx, self.endpoint, true, Some("The endpoint was enabled"), self.now).await?;
        }
        if let Some(entry) = tx.directory.get_mut(self.endpoint) {
            entry.status = Status::Enabled;
            entry.version = version + 1;
        }
        let configuration = (
            endpoints::status.eq(Status::Enabled.as_str()),
            endpoints::disabled_reason.eq(None::<String>),
            endpoints::disabled_at.eq(None::<i64>),
            endpoints::version.eq(version + 1),
            endpoints::counted_from.eq(self.now.as_micros()),
            endpoints::updated_at.eq(tx.stamp.as_micros()),
        );
        update(endpoints::table.find(self.endpoint.0)).set(configuration).execute(tx.conn).await?;
        if was_disabled {
            clear_health(tx, self.endpoint, true, Some("The endpoint was enabled"), self.now).await?;
            notify(tx, self.tenant, Some(self.endpoint), &Notice::enabled(&url), self.now).await?;
        }
        Ok(true)
    }
}

impl Sentence<Conn> for Disable {
    type Reply = bool;

    async fn run(&self, tx: &mut Tx<'_>) -> QueryResult<bool> {
        if version(tx, self.endpoint, self.tenant).is_none() {
            return Ok(false);
        }
        if tx.directory.get(self.endpoint).is_some_and(|entry| entry.is_enabled()) {
            let reason = Some(self.reason.clone());
            let how = Cut { status: Status::Disabled, reason, at: self.now, spared: self.spared.clone() };
            cut(tx, self.endpoint, how).await?;
        }
        Ok(true)
    }

    fn bytes(&self) -> usize {
        FIXED_BYTES + self.reason.len() + size_of_val(&self.spared[..])
    }
}

impl Sentence<Conn> for DeleteEndpoint {
    type Reply = bool;

    async fn run(&self, tx: &mut Tx<'_>) -> QueryResult<bool> {
        let Some(version) = version(tx, self.endpoint, self.tenant) else {
            return Ok(false);
        };
        // From now on nobody could write what has no row yet.
        file(tx, self.endpoint).await?;
        tx.hints.remove(&self.endpoint);
        tx.directory.remove(self.endpoint);
        // Secrets and headers go at once, the many rows in slices.
        let gone = (
            endpoints::deleted_at.eq(self.now.as_micros()),
            endpoints::version.eq(version + 1),
            endpoints::secrets.eq(Vec::<u8>::new()),
            endpoints::headers.eq(Vec::<u8>::new()),
            endpoints::updated_at.eq(tx.stamp.as_micros()),
        );
        update(endpoints::table.find(self.endpoint.0)).set(gone).execute(tx.conn).await?;
        delete(endpoint_health::table.find(self.endpoint.0)).execute(tx.conn).await?;
        Ok(true)
    }
}
