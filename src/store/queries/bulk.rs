//! Many rows in one statement, prepared once. Written by hand for the few tables that get most of the rows: what is the same
//! in all of them stands in the text (binding costs more than writing), and the statement need not be able to undo a part
//! of itself (see `INSERT_MANY`), because an error undoes the whole transaction.

use diesel::QueryResult;
use diesel::query_builder::{AstPass, QueryFragment, QueryId};
use diesel::sql_types::BigInt;

use super::super::INSERT_MANY;
use super::{Backend, Conn, RunQueryDsl};

/// A row of a table, of which only numbers differ from other new rows.
pub trait Bulk: Copy + 'static {
    /// ` table (columns) VALUES `.
    const INTO: &'static str;
    /// The beginning of each row: what is the same in all, and a comma.
    const SAME: &'static str;

    /// The rest of the row.
    fn numbers(&self) -> &[i64];
}

/// Inserts these rows.
pub async fn insert_bulk<R: Bulk>(conn: &mut Conn, rows: &[R]) -> QueryResult<()> {
    let (chunks, rest) = rows.as_chunks::<32>();
    for chunk in chunks {
        Insert(*chunk).execute(conn).await?;
    }
    for row in rest {
        Insert([*row]).execute(conn).await?;
    }
    Ok(())
}

struct Insert<R, const N: usize>([R; N]);

impl<R: Bulk, const N: usize> QueryId for Insert<R, N> {
    type QueryId = Insert<R, N>;

    const HAS_STATIC_QUERY_ID: bool = true;
}

impl<R: Bulk, const N: usize> QueryFragment<Backend> for Insert<R, N> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Backend>) -> QueryResult<()> {
        out.push_sql(INSERT_MANY);
        out.push_sql(R::INTO);
        for (index, row) in self.0.iter().enumerate() {
            out.push_sql(if index == 0 { "(" } else { ", (" });
            out.push_sql(R::SAME);
            for (index, number) in row.numbers().iter().enumerate() {
                if index > 0 {
                    out.push_sql(", ");
                }
                out.push_bind_param::<BigInt, _>(number)?;
            }
            out.push_sql(")");
        }
        Ok(())
    }
}

impl<R: Bulk, const N: usize> diesel::RunQueryDsl<Conn> for Insert<R, N> {}
