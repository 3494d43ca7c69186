//! Counts, notifications, keys, the clock's anchor: the small change of the store.

use diesel::prelude::*;
use diesel::{QueryResult, insert_into, update};

use super::filing::keep_up;
use super::statements::{AddToHealth, KeepNumbers};
use super::{Conn, RunQueryDsl, Tx};
use crate::domain::ids::{DeliveryNo, EndpointNo, TenantNo, unique_id};
use crate::domain::notice::Notice;
use crate::domain::time::Timestamp;
use crate::store::change::{KeepAnchor, KeepKey, MarkRead, Tell};
use crate::store::rows::{NotificationRow, micros};
use crate::store::schema::{api_keys, meta, notifications};
use crate::store::sentence::{FIXED_BYTES, Sentence, Touched};

/// Writes what has to be written of counts, files if there is no other time for it, and writes where the numbers stand.
/// The last thing before a commit. `last`: the newest delivery before this transaction.
pub async fn flush(tx: &mut Tx<'_>, last: DeliveryNo) -> QueryResult<()> {
    let added = (tx.counters.delivery - last.0).unsigned_abs() as usize;
    while let Some(endpoint) = tx.uncounted.next() {
        flush_one(tx, endpoint).await?;
    }
    keep_up(tx, added).await?;
    let last = DeliveryNo(tx.counters.delivery);
    let numbers = KeepNumbers {
        stamp: tx.stamp.as_micros(),
        event: tx.counters.event,
        delivery: last.0,
        other: tx.counters.other,
        written: tx.unwritten.written_through(last).0,
        filed: tx.unfiled.filed_through(last).0,
    };
    numbers.execute(tx.conn).await?;
    Ok(())
}

/// Writes the counts of one endpoint.
pub async fn flush_one(tx: &mut Tx<'_>, endpoint: EndpointNo) -> QueryResult<()> {
    let Some(touched) = tx.uncounted.take(endpoint) else { return Ok(()) };
    let Touched { pending, failed, dead, last_delivery, wake_at } = touched;
    if let (Some(entry), Some(wake_at)) = (tx.directory.get_mut(endpoint), wake_at) {
        entry.wake_at = Some(entry.wake_at.map_or(wake_at, |at| at.min(wake_at)));
    }
    let last_delivery = last_delivery.map(|last| last.0);
    let row = AddToHealth { endpoint: endpoint.0, pending, failed, dead, last_delivery, wake_at: micros(wake_at) };
    row.execute(tx.conn).await?;
    Ok(())
}

/// What a notification's texts take in memory, in bytes.
pub fn notice_bytes(notice: &Notice) -> usize {
    notice.title.len() + notice.message.len()
}

/// Stores a notification in the transaction that it tells of.
pub async fn notify(
    tx: &mut Tx<'_>,
    tenant: TenantNo,
    endpoint: Option<EndpointNo>,
    notice: &Notice,
    now: Timestamp,
) -> QueryResult<()> {
    let no = tx.counters.next_other();
    let row = NotificationRow {
        no,
        tenant: tenant.0,
        // Unique because `no` is; nobody gains anything by guessing it.
        id: unique_id("ntf_", now, no as u128),
        kind: notice.kind.as_str().into(),
        endpoint: endpoint.and_then(|no| tx.directory.get(no)).map(|entry| entry.id.to_string()),
        title: notice.title.clone(),
        message: notice.message.clone(),
        created_at: now.as_micros(),
        read_at: None,
    };
    insert_into(notifications::table).values(row).execute(tx.conn).await?;
    Ok(())
}

impl Sentence<Conn> for Tell {
    type Reply = ();

    async fn run(&self, tx: &mut Tx<'_>) -> QueryResult<()> {
        notify(tx, self.tenant, None, &self.notice, self.now).await
    }

    fn bytes(&self) -> usize {
        FIXED_BYTES + notice_bytes(&self.notice)
    }
}

impl Sentence<Conn> for MarkRead {
    type Reply = Option<NotificationRow>;

    async fn run(&self, tx: &mut Tx<'_>) -> QueryResult<Self::Reply> {
        let row =
            notifications::table.filter(notifications::tenant.eq(self.tenant.0).and(notifications::id.eq(&self.id)));
        let found: Option<NotificationRow> =
            row.select(NotificationRow::as_select()).first(tx.conn).await.optional()?;
        let Some(mut found) = found else { return Ok(None) };
        if found.read_at.is_none() {
            found.read_at = micros(Some(self.now));
            let one = notifications::table.find(found.no);
            update(one).set(notifications::read_at.eq(found.read_at)).execute(tx.conn).await?;
        }
        Ok(Some(found))
    }

    fn bytes(&self) -> usize {
        FIXED_BYTES + self.id.len()
    }
}

impl Sentence<Conn> for KeepKey {
    type Reply = ();

    async fn run(&self, tx: &mut Tx<'_>) -> QueryResult<()> {
        let values = (
            api_keys::id.eq(&self.id),
            api_keys::tenant.eq(self.tenant.map(|tenant| tenant.0)),
            api_keys::role.eq(self.role),
            api_keys::name.eq(&self.name),
            api_keys::hash.eq(&self.hash),
            api_keys::created_at.eq(self.now.as_micros()),
        );
        insert_into(api_keys::table).values(values).execute(tx.conn).await?;
        Ok(())
    }

    fn bytes(&self) -> usize {
        FIXED_BYTES + self.id.len() + self.name.len() + self.hash.len()
    }
}

impl Sentence<Conn> for KeepAnchor {
    type Reply = ();

    async fn run(&self, tx: &mut Tx<'_>) -> QueryResult<()> {
        let anchor = (
            meta::clock_wall.eq(self.0.wall.as_micros()),
            meta::clock_engine.eq(self.0.engine.as_micros()),
            meta::clock_scale.eq(self.0.scale),
        );
        update(meta::table.find(1)).set(anchor).execute(tx.conn).await?;
        Ok(())
    }
}
