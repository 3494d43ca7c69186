//! The indexes of deliveries by endpoint (see [`Unfiled`](crate::store::unfiled::Unfiled)).

use diesel::prelude::*;
use diesel::{QueryResult, delete, insert_into};

use super::bulk::{Bulk, insert_bulk};
use super::misc::flush_one;
use super::statements::AddToHealth;
use super::writing::{SLICE, rewrite, write_oldest, write_rows};
use super::{Conn, RunQueryDsl, Tx};
use crate::domain::delivery::State;
use crate::domain::ids::{DeliveryNo, EndpointNo};
use crate::domain::time::Timestamp;
use crate::store::change::File;
use crate::store::error::corrupt;
use crate::store::numbers::{decode, encode};
use crate::store::rows::at;
use crate::store::schema::{deliveries, endpoint_deliveries, endpoint_health, endpoint_lines, meta};
use crate::store::sentence::{Credit, Sentence};
use crate::store::unfiled::{Card, FULL, Place};

/// At least so much is written or filed at a time where it is done beside other work.
const PORTION: usize = 128;

/// Files everything of one endpoint: rows, entries and counts.
pub async fn file(tx: &mut Tx<'_>, endpoint: EndpointNo) -> QueryResult<()> {
    let cards = tx.unfiled.take(endpoint);
    let unwritten: Vec<_> = cards.iter().filter_map(|card| tx.unwritten.take(card.no)).collect();
    write_rows(tx, &unwritten).await?;
    write_cards(tx, endpoint, &cards).await
}

/// Files what has rows of one endpoint. Answers how many.
async fn file_written(tx: &mut Tx<'_>, endpoint: EndpointNo) -> QueryResult<usize> {
    let through = tx.unwritten.written_through(DeliveryNo(tx.counters.delivery));
    let cards = tx.unfiled.take_through(endpoint, through);
    write_cards(tx, endpoint, &cards).await?;
    Ok(cards.len())
}

async fn write_cards(tx: &mut Tx<'_>, endpoint: EndpointNo, cards: &[Card]) -> QueryResult<()> {
    for block in cards.chunks(FULL) {
        let [.., last] = block else { continue };
        insert_block(tx.conn, endpoint.0, last.no.0, block.iter().map(|card| card.no.0)).await?;
    }
    let waiting = cards.iter().filter_map(|card| Some(Stands::of(endpoint, card.no, card.place?)));
    let waiting: Vec<Stands> = waiting.collect();
    insert_bulk(tx.conn, &waiting).await?;
    flush_one(tx, endpoint).await
}

async fn insert_block(
    conn: &mut Conn,
    endpoint: i64,
    last: i64,
    numbers: impl IntoIterator<Item = i64>,
) -> QueryResult<()> {
    let block = (
        endpoint_deliveries::endpoint.eq(endpoint),
        endpoint_deliveries::last.eq(last),
        endpoint_deliveries::numbers.eq(encode(numbers)),
    );
    insert_into(endpoint_deliveries::table).values(block).execute(conn).await?;
    Ok(())
}

/// Takes a delivery that is removed out of those that its endpoint ever got.
pub async fn forget(tx: &mut Tx<'_>, endpoint: EndpointNo, no: DeliveryNo) -> QueryResult<()> {
    let block = endpoint_deliveries::table
        .filter(endpoint_deliveries::endpoint.eq(endpoint.0).and(endpoint_deliveries::last.ge(no.0)))
        .order(endpoint_deliveries::last)
        .select((endpoint_deliveries::last, endpoint_deliveries::numbers))
        .first::<(i64, Vec<u8>)>(tx.conn)
        .await
        .optional()?;
    let Some((last, numbers)) = block else { return Ok(()) };
    let mut numbers = unpack(&numbers)?;
    numbers.retain(|number| *number != no.0);
    delete(endpoint_deliveries::table.find((endpoint.0, last))).execute(tx.conn).await?;
    match numbers.last() {
        Some(last) => insert_block(tx.conn, endpoint.0, *last, numbers.iter().copied()).await,
        None => Ok(()),
    }
}

/// The numbers of a block of `endpoint_deliveries`.
pub fn unpack(numbers: &[u8]) -> QueryResult<Vec<i64>> {
    decode(numbers).ok_or_else(|| corrupt("endpoint_deliveries"))
}

/// A waiting delivery's entry: endpoint, line, place in it, number.
#[derive(Clone, Copy)]
struct Stands([i64; 4]);

impl Stands {
    fn of(endpoint: EndpointNo, no: DeliveryNo, place: Place) -> Stands {
        Stands([endpoint.0, place.line.code().into(), place.order_at.as_micros(), no.0])
    }
}

impl Bulk for Stands {
    const INTO: &'static str = " endpoint_lines (endpoint, line, order_at, delivery) VALUES ";
    const SAME: &'static str = "";

    fn numbers(&self) -> &[i64] {
        &self.0
    }
}

/// A delivery's row was changed: where it stood, and where it stands now.
pub async fn moved(
    tx: &mut Tx<'_>,
    endpoint: EndpointNo,
    no: DeliveryNo,
    from: Option<Place>,
    to: Option<Place>,
) -> QueryResult<()> {
    if from == to || tx.unfiled.moved(endpoint, Card { no, place: to }) {
        return Ok(());
    }
    if let Some(place) = from {
        let entry = (endpoint.0, place.line.code(), place.order_at.as_micros(), no.0);
        delete(endpoint_lines::table.find(entry)).execute(tx.conn).await?;
    }
    if let Some(place) = to {
        insert_bulk(tx.conn, &[Stands::of(endpoint, no, place)]).await?;
    }
    Ok(())
}

/// Writes and files as much as was added and a little more, where the writer never has time for it.
pub async fn keep_up(tx: &mut Tx<'_>, added: usize) -> QueryResult<()> {
    let enough = PORTION.max(added + added / 4);
    if tx.unwritten.is_crowded(DeliveryNo(tx.counters.delivery)) {
        write_oldest(tx, enough).await?;
    }
    let mut budget = if tx.unfiled.is_crowded() { enough } else { 0 };
    while budget > 0 {
        let last = DeliveryNo(tx.counters.delivery);
        let due = tx.unfiled.due(last, tx.unwritten.written_through(last)).or_else(|| tx.unfiled.next());
        let Some(endpoint) = due else { break };
        let filed = file_written(tx, endpoint).await?;
        budget = if filed == 0 { 0 } else { budget.saturating_sub(filed) };
    }
    Ok(())
}

/// What the writer does when nobody wants anything of it: a little of what is due, or, when nobody has wanted anything
/// for a while (`idle`), of all.
pub async fn catch_up(tx: &mut Tx<'_>, credit: &mut Credit, idle: bool) -> QueryResult<()> {
    let last = DeliveryNo(tx.counters.delivery);
    if (credit.rows > 0 && tx.unwritten.is_due(last)) || (idle && !tx.unwritten.is_empty()) {
        let written = write_oldest(tx, SLICE).await?;
        if !idle {
            credit.rows -= written as i64;
        }
        return Ok(());
    }
    let mut budget = if idle { 8 * PORTION } else { 1 };
    while budget > 0 {
        let due = tx.unfiled.due(last, tx.unwritten.written_through(last));
        let Some(endpoint) = due.or_else(|| tx.unfiled.next().filter(|_| idle)) else { break };
        let filed = file_written(tx, endpoint).await?;
        if !idle {
            credit.cards -= filed as i64;
        }
        budget = budget.saturating_sub(filed);
    }
    Ok(())
}

impl Sentence<Conn> for File {
    /// Everything of the endpoint up to this one is filed.
    type Reply = DeliveryNo;

    async fn run(&self, tx: &mut Tx<'_>) -> QueryResult<Self::Reply> {
        let last = DeliveryNo(tx.counters.delivery);
        file(tx, self.0).await?;
        Ok(last)
    }
}

/// Writes and files everything that is behind from what the database holds: at start, and when what was in memory cannot
/// be trusted. Answers the newest `updated_at`.
pub async fn catch_up_from_rows(conn: &mut Conn, now: Timestamp) -> QueryResult<Timestamp> {
    rewrite(conn, now).await?;
    refile(conn).await?;
    let stamp = meta::table.find(1).select(meta::last_stamp).first::<i64>(conn).await.optional()?;
    Ok(stamp.map_or(Timestamp::MIN, at))
}

/// Files everything that is not filed, from the rows alone, all of which are there.
async fn refile(conn: &mut Conn) -> QueryResult<()> {
    let numbers = meta::table.find(1).select((meta::filed_through, meta::last_delivery));
    let Some((filed_through, last)) = numbers.first::<(i64, i64)>(conn).await.optional()? else { return Ok(()) };
    if filed_through >= last {
        return Ok(());
    }
    let rows = deliveries::table
        .filter(deliveries::no.gt(filed_through))
        .order((deliveries::endpoint, deliveries::no))
        .select((deliveries::endpoint, deliveries::no, deliveries::state, deliveries::line, deliveries::order_at))
        .load::<Behind>(conn)
        .await?;
    for its in rows.chunk_by(|a, b| a.0 == b.0) {
        count(conn, its).await?;
        refile_one(conn, its).await?;
    }
    diesel::update(meta::table.find(1)).set(meta::filed_through.eq(last)).execute(conn).await?;
    Ok(())
}

/// Endpoint, number, state, line, place in it.
type Behind = (i64, i64, String, i16, i64);

/// Files those deliveries of one endpoint that are not filed.
async fn refile_one(conn: &mut Conn, its: &[Behind]) -> QueryResult<()> {
    let [.., (endpoint, ..)] = its else { return Ok(()) };
    // An endpoint's deliveries are filed in the order of their numbers.
    let filed = endpoint_deliveries::table.filter(endpoint_deliveries::endpoint.eq(endpoint));
    let filed = filed.select(diesel::dsl::max(endpoint_deliveries::last)).first::<Option<i64>>(conn).await?;
    let its: Vec<&Behind> = its.iter().filter(|row| row.1 > filed.unwrap_or(0)).collect();
    for block in its.chunks(FULL) {
        let [.., (endpoint, last, ..)] = block else { continue };
        insert_block(conn, *endpoint, *last, block.iter().map(|row| row.1)).await?;
    }
    let waits = |row: &&&Behind| State::parse(&row.2).is_some_and(State::waits);
    let waiting = its
        .iter()
        .filter(waits)
        .map(|(endpoint, no, _, line, order_at)| Stands([*endpoint, i64::from(*line), *order_at, *no]));
    insert_bulk(conn, &waiting.collect::<Vec<_>>()).await
}

/// Adds those deliveries of one endpoint to its counts that are not in them. Nothing has happened to those since they were
/// accepted: the counts are written with whatever happens.
async fn count(conn: &mut Conn, its: &[Behind]) -> QueryResult<()> {
    let [.., (endpoint, newest, ..)] = its else { return Ok(()) };
    let health = endpoint_health::table.find(endpoint).select(endpoint_health::last_delivery);
    // The endpoint may be deleted.
    let Some(counted) = health.first::<i64>(conn).await.optional()? else { return Ok(()) };
    let of = |state: State| its.iter().filter(|row| row.1 > counted && row.2 == state.as_str()).count() as i64;
    if *newest > counted {
        let (endpoint, last_delivery) = (*endpoint, Some(*newest));
        let (pending, failed, dead) = (of(State::Pending), of(State::Failed), of(State::Dead));
        // Whoever waits uncounted has woken the actor when it was accepted.
        AddToHealth { endpoint, pending, failed, dead, last_delivery, wake_at: None }.execute(conn).await?;
    }
    Ok(())
}
