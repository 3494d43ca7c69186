//! The indexes by endpoint, which the writer keeps by hand and a little behind, against the rows.

use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};

#[derive(QueryableByName, Debug, PartialEq, Eq)]
struct Entry {
    #[diesel(sql_type = Text)]
    wrong: String,
    #[diesel(sql_type = BigInt)]
    endpoint: i64,
    #[diesel(sql_type = BigInt)]
    delivery: i64,
}

/// Everything up to `filed_through` is there, and nothing that is there is wrong.
const WRONG: &str = "WITH waiting AS (SELECT endpoint, line, order_at, no AS delivery FROM deliveries \
     WHERE state IN ('pending', 'failed')), old AS (SELECT filed_through AS no FROM meta) \
     SELECT 'no entry' AS wrong, endpoint, no AS delivery FROM deliveries WHERE no <= (SELECT no FROM old) \
     AND NOT EXISTS (SELECT 1 FROM endpoint_deliveries e WHERE e.endpoint = deliveries.endpoint AND e.delivery = no) \
     UNION ALL SELECT 'no row', endpoint, delivery FROM (SELECT * FROM endpoint_deliveries EXCEPT \
     SELECT endpoint, no FROM deliveries) \
     UNION ALL SELECT 'not in line', endpoint, delivery FROM (SELECT * FROM waiting EXCEPT SELECT * FROM endpoint_lines) \
     WHERE delivery <= (SELECT no FROM old) \
     UNION ALL SELECT 'stands wrong', endpoint, delivery FROM (SELECT * FROM endpoint_lines EXCEPT SELECT * FROM waiting)";

pub fn compare(conn: &mut SqliteConnection) {
    let wrong: Vec<Entry> = diesel::sql_query(WRONG).load(conn).expect("the indexes");
    assert_eq!(wrong, [], "the indexes by endpoint");
}
