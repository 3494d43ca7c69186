//! How many deliveries one batch makes, and how many one transaction.

use std::collections::BTreeMap;

use diesel::prelude::*;
use diesel::sql_types::BigInt;
use futures_util::future::{join, join_all};
use posthaste::domain::delivery::State;
use posthaste::domain::ids::EndpointNo;
use posthaste::store::DEFAULT_TENANT;
use posthaste::store::accept::{Accept, Accepted, NewEvent, Refused, RefusedWhy};
use posthaste::store::change::{CreateEndpoint, Disable};
use posthaste::store::rows::EndpointRow;
use posthaste::store::sqlite::WriterHandle;

use crate::support::stored::{Idle, endpoint_row, idle_writer, new_event};

/// A batch of these events.
fn batch(events: &[NewEvent], max_deliveries: usize) -> Accept {
    Accept { tenant: DEFAULT_TENANT, events: events.to_vec(), max_deliveries }
}

/// Endpoints that want everything, with these policies (JSON); their numbers.
async fn endpoints(writer: &WriterHandle, policies: impl IntoIterator<Item = &str>) -> Vec<EndpointNo> {
    let row = |(index, policy): (usize, &str)| EndpointRow {
        policy: format!("\"{policy}\""),
        ..endpoint_row(format!("ep_{index}"), "[\"*\"]")
    };
    let rows = policies.into_iter().enumerate().map(row);
    let created = join_all(rows.map(|row| writer.write(CreateEndpoint(row)))).await;
    created.into_iter().map(|row| EndpointNo(row.expect("an endpoint").no)).collect()
}

fn counts(accepted: &[Accepted]) -> Vec<(bool, usize)> {
    accepted.iter().map(|event| (event.duplicate, event.deliveries.len())).collect()
}

#[tokio::test(flavor = "current_thread")]
async fn a_batch_has_so_many_deliveries_and_one_event_any_number() {
    let Idle { writer, handle, clock, path, folder: _folder } = idle_writer(1 << 20);
    let posting = async move {
        let accept = async |events: &[NewEvent], max| handle.write(batch(events, max)).await.expect("a commit");
        let refused = |index| Err(Refused { index, why: RefusedWhy::TooManyDeliveries });
        let numbers = endpoints(&handle, ["orbit", "orbit", "salaf"]).await;
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|id| new_event(id, "x", clock.now()));
        let at_most = async |events: &[NewEvent], max| accept(events, max).await.map(|accepted| counts(&accepted));

        assert_eq!(at_most(&[a.clone(), b.clone(), c.clone()], 6).await, refused(2));
        assert_eq!(at_most(&[a.clone(), b.clone()], 2).await, refused(0));
        let mut conn = SqliteConnection::establish(&path).expect("the database");
        assert!(committed(&mut conn).is_empty(), "nothing is stored");
        assert_eq!(at_most(std::slice::from_ref(&a), 2).await, Ok(vec![(false, 3)]), "one cannot be split");
        // What the answer tells counts, also of what was there before.
        assert_eq!(at_most(&[a.clone(), b.clone(), b.clone()], 8).await, refused(2));
        assert_eq!(at_most(&[a.clone(), b.clone()], 6).await, Ok(vec![(true, 3), (false, 3)]));
        assert_eq!(
            at_most(&[a.clone(), b.clone()], 6).await,
            Ok(vec![(true, 3), (true, 3)]),
            "repeated, it is the same"
        );

        // Those that get no delivery do not count.
        let narrowed = NewEvent { endpoint_ids: Some(vec!["ep_0".into()]), ..c.clone() };
        assert_eq!(at_most(&[narrowed.clone(), d.clone()], 3).await, refused(1));
        let (endpoint, reason) = (numbers[2], "it is away".into());
        let disable = Disable { endpoint, tenant: DEFAULT_TENANT, reason, now: clock.now(), spared: Vec::new() };
        assert_eq!(handle.write(disable).await, Ok(true));
        let accepted = accept(&[narrowed, d], 3).await.expect("it is not refused");
        assert_eq!(counts(&accepted), [(false, 1), (false, 2)]);
        assert!(accepted[1].deliveries.iter().all(|delivery| delivery.state == State::Pending));
        handle.close();
    };
    join(writer.run_here(), posting).await;
}

#[derive(QueryableByName)]
struct Committed {
    #[diesel(sql_type = BigInt)]
    at: i64,
    #[diesel(sql_type = BigInt)]
    deliveries: i64,
}

/// Each transaction that stored events, and how many deliveries they have.
fn committed(conn: &mut SqliteConnection) -> BTreeMap<i64, i64> {
    let query = "SELECT committed_at AS at, sum(deliveries) AS deliveries FROM events GROUP BY committed_at";
    let rows: Vec<Committed> = diesel::sql_query(query).load(conn).expect("events");
    rows.into_iter().map(|row| (row.at, row.deliveries)).collect()
}

#[tokio::test(flavor = "current_thread")]
async fn a_transaction_takes_events_until_they_have_many_deliveries_and_others_do_not_wait() {
    const ENDPOINTS: usize = 300;
    const EVENTS: usize = 120;
    let Idle { writer, handle, clock, path, folder: _folder } = idle_writer(1 << 20);
    let posting = async move {
        endpoints(&handle, std::iter::repeat_n("orbit", ENDPOINTS)).await;
        let events: Vec<_> = (0..EVENTS).map(|no| new_event(&format!("e{no}"), "x", clock.now())).collect();
        let post = |event: &NewEvent| handle.write(batch(std::slice::from_ref(event), usize::MAX));
        let other = || handle.write(CreateEndpoint(endpoint_row(format!("ep_{}", clock.random_bits()), "[\"y\"]")));
        let mut conn = SqliteConnection::establish(&path).expect("the database");

        // All of it waits when the writer looks.
        let (accepted, created) = join(join_all(events.iter().map(post)), other()).await;
        let accepted: Vec<_> = accepted.into_iter().flat_map(|it| it.expect("a commit").expect("accepted")).collect();
        assert_eq!(counts(&accepted), [(false, ENDPOINTS)].repeat(EVENTS));
        let stored = committed(&mut conn);
        let (first, most) = (stored.first_key_value().map(|first| *first.0), stored.values().max());
        assert!(stored.len() > 1 && most.is_some_and(|most| *most < 17_000), "{stored:?}");
        assert_eq!(Some(created.expect("an endpoint").updated_at), first, "the other is in the first transaction");
        let order: Vec<_> = accepted.iter().map(|event| event.deliveries[0].id.clone()).collect();
        assert!(order.is_sorted(), "first come, first served: {order:?}");

        // Events that were there before cost the same.
        let late = new_event("late", "x", clock.now());
        let posts = join_all(events.iter().chain([&late]).map(post));
        let (accepted, created) = join(posts, other()).await;
        assert!(accepted.iter().all(|answer| matches!(answer, Ok(Ok(_)))));
        let (last, _) = committed(&mut conn).pop_last().expect("the late one");
        assert!(last > created.expect("an endpoint").updated_at, "the late one is in a later transaction");
        handle.close();
    };
    join(writer.run_here(), posting).await;
}
