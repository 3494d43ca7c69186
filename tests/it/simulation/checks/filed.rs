//! What the writer keeps by hand and a little behind, against the rows: the indexes by endpoint, and that every delivery
//! up to `written_through` has its row.

use std::collections::BTreeSet;

use diesel::prelude::*;
use diesel::sql_types::{BigInt, Binary, Text};
use posthaste::store::numbers::decode;

#[derive(QueryableByName, Debug, PartialEq, Eq)]
struct Entry {
    #[diesel(sql_type = Text)]
    wrong: String,
    #[diesel(sql_type = BigInt)]
    endpoint: i64,
    #[diesel(sql_type = BigInt)]
    delivery: i64,
}

/// Everything up to `filed_through` is in line if it waits, and nothing that is there is wrong. `all` are the rows.
const WRONG: &str = "WITH waiting AS (SELECT endpoint, line, order_at, no AS delivery FROM deliveries \
     WHERE state IN ('pending', 'failed')), old AS (SELECT filed_through AS no FROM meta) \
     SELECT 'not in line' AS wrong, endpoint, delivery FROM (SELECT * FROM waiting EXCEPT SELECT * FROM endpoint_lines) \
     WHERE delivery <= (SELECT no FROM old) \
     UNION ALL SELECT 'stands wrong', endpoint, delivery FROM (SELECT * FROM endpoint_lines EXCEPT SELECT * FROM waiting)";
const FILED: &str = "SELECT 'filed' AS wrong, endpoint, no AS delivery FROM deliveries \
     WHERE no <= (SELECT filed_through FROM meta)";
const ALL: &str = "SELECT 'row' AS wrong, endpoint, no AS delivery FROM deliveries";

#[derive(QueryableByName)]
struct Block {
    #[diesel(sql_type = BigInt)]
    endpoint: i64,
    #[diesel(sql_type = BigInt)]
    last: i64,
    #[diesel(sql_type = Binary)]
    numbers: Vec<u8>,
}

#[derive(QueryableByName)]
struct EventRow {
    #[diesel(sql_type = BigInt)]
    first: i64,
    #[diesel(sql_type = Binary)]
    targets: Vec<u8>,
}

pub fn compare(conn: &mut SqliteConnection) {
    let wrong: Vec<Entry> = diesel::sql_query(WRONG).load(conn).expect("the lines");
    assert_eq!(wrong, [], "the endpoints' lines");

    let set = |conn: &mut SqliteConnection, query: &str| -> BTreeSet<(i64, i64)> {
        let rows: Vec<Entry> = diesel::sql_query(query).load(conn).expect("deliveries");
        rows.into_iter().map(|row| (row.endpoint, row.delivery)).collect()
    };
    let (filed, all) = (set(conn, FILED), set(conn, ALL));
    let blocks = diesel::sql_query("SELECT endpoint, last, numbers FROM endpoint_deliveries ORDER BY endpoint, last");
    let mut listed = BTreeSet::new();
    let mut before = (0, 0);
    for Block { endpoint, last, numbers } in blocks.load::<Block>(conn).expect("blocks") {
        let numbers = decode(&numbers).expect("numbers");
        assert_eq!(numbers.last(), Some(&last), "a block's last number");
        let rises = before < (endpoint, numbers[0]) && numbers.is_sorted();
        assert!(rises, "the blocks of endpoint {endpoint} do not rise");
        before = (endpoint, last);
        listed.extend(numbers.into_iter().map(|no| (endpoint, no)));
    }
    let missing: Vec<_> = filed.difference(&listed).collect();
    assert!(missing.is_empty(), "endpoint_deliveries lacks {missing:?}");
    let phantoms: Vec<_> = listed.difference(&all).collect();
    assert!(phantoms.is_empty(), "endpoint_deliveries has {phantoms:?}");

    // What has no row although it should: neither is it new, nor was its endpoint deleted.
    let events = "SELECT first_delivery AS first, targets FROM events \
         WHERE first_delivery <= (SELECT written_through FROM meta)";
    let living: Vec<Entry> =
        diesel::sql_query("SELECT '' AS wrong, no AS endpoint, 0 AS delivery FROM endpoints WHERE deleted_at IS NULL")
            .load(conn)
            .expect("endpoints");
    let living: BTreeSet<i64> = living.into_iter().map(|row| row.endpoint).collect();
    let [Entry { delivery: through, .. }] =
        &diesel::sql_query("SELECT '' AS wrong, 0 AS endpoint, written_through AS delivery FROM meta")
            .load::<Entry>(conn)
            .expect("meta")[..]
    else {
        panic!("meta")
    };
    for event in diesel::sql_query(events).load::<EventRow>(conn).expect("events") {
        let targets = decode(&event.targets).expect("targets");
        let its = targets.into_iter().zip(event.first..=*through);
        let lost: Vec<_> = its.filter(|one| living.contains(&one.0) && !all.contains(one)).collect();
        assert!(lost.is_empty(), "written through {through}, and {lost:?} have no row");
    }
}
