//! The indexes of deliveries by endpoint (see [`Unfiled`](crate::store::unfiled::Unfiled)).

use diesel::prelude::*;
use diesel::{QueryResult, delete, insert_into};

use super::{Conn, RunQueryDsl, Tx, insert_all};
use crate::domain::delivery::State;
use crate::domain::ids::{DeliveryNo, EndpointNo};
use crate::store::change::File;
use crate::store::schema::{deliveries, endpoint_deliveries, endpoint_lines, meta};
use crate::store::sentence::Sentence;
use crate::store::unfiled::{Card, FULL, Place};

/// Cards filed in one transaction that does nothing else.
const SLICE: usize = 1_024;

/// Files everything of one endpoint. Answers how many.
pub async fn file(tx: &mut Tx<'_>, endpoint: EndpointNo) -> QueryResult<usize> {
    let cards = tx.unfiled.take(endpoint);
    let all: Vec<Its> = cards.iter().map(|card| Its { endpoint: endpoint.0, delivery: card.no.0 }).collect();
    insert_all!(tx.conn, endpoint_deliveries::table, &all);
    let waiting = cards.iter().filter_map(|card| Some(stands(endpoint, card.no, card.place?)));
    let waiting: Vec<Stands> = waiting.collect();
    insert_all!(tx.conn, endpoint_lines::table, &waiting);
    Ok(cards.len())
}

#[derive(Insertable)]
#[diesel(table_name = endpoint_deliveries, treat_none_as_default_value = false)]
struct Its {
    endpoint: i64,
    delivery: i64,
}

#[derive(Insertable)]
#[diesel(table_name = endpoint_lines, treat_none_as_default_value = false)]
struct Stands {
    endpoint: i64,
    line: i16,
    order_at: i64,
    delivery: i64,
}

fn stands(endpoint: EndpointNo, no: DeliveryNo, place: Place) -> Stands {
    Stands { endpoint: endpoint.0, line: place.line.code(), order_at: place.order_at.as_micros(), delivery: no.0 }
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
        insert_into(endpoint_lines::table).values(stands(endpoint, no, place)).execute(tx.conn).await?;
    }
    Ok(())
}

/// Files what is due. `idle`: there is nothing else to do, so that the oldest are filed as well.
pub async fn file_some(tx: &mut Tx<'_>, added: usize, idle: bool) -> QueryResult<()> {
    // A little more than came in, so that nobody's commit is much longer than another's.
    let mut budget = if idle { SLICE } else { FULL.max(added + added / 4) };
    while budget > 0 {
        let due = tx.unfiled.due(DeliveryNo(tx.counters.delivery)).or(tx.unfiled.next().filter(|_| idle));
        let Some(endpoint) = due else { break };
        budget = budget.saturating_sub(file(tx, endpoint).await?);
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

/// Files everything that is not filed, from the rows alone: at start, and when what was in memory cannot be trusted.
pub async fn refile(conn: &mut Conn) -> QueryResult<()> {
    let filed_through: Option<i64> = meta::table.find(1).select(meta::filed_through).first(conn).await.optional()?;
    let Some(filed_through) = filed_through else { return Ok(()) };
    let rows = deliveries::table
        .filter(deliveries::no.gt(filed_through))
        .order((deliveries::endpoint, deliveries::no))
        .select((deliveries::endpoint, deliveries::no, deliveries::state, deliveries::line, deliveries::order_at))
        .load::<(i64, i64, String, i16, i64)>(conn)
        .await?;
    for (endpoint, delivery, state, line, order_at) in rows {
        let entry = Its { endpoint, delivery };
        insert_into(endpoint_deliveries::table).values(entry).on_conflict_do_nothing().execute(conn).await?;
        if State::parse(&state).is_some_and(State::waits) {
            let entry = Stands { endpoint, line, order_at, delivery };
            insert_into(endpoint_lines::table).values(entry).on_conflict_do_nothing().execute(conn).await?;
        }
    }
    let newest: Option<i64> =
        deliveries::table.order(deliveries::no.desc()).select(deliveries::no).first(conn).await.optional()?;
    let filed_through = newest.unwrap_or(0).max(filed_through);
    diesel::update(meta::table.find(1)).set(meta::filed_through.eq(filed_through)).execute(conn).await?;
    Ok(())
}
