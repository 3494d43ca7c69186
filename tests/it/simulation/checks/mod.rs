//! The rules of semantics.md, worked out a second time and from the ledger alone: what was committed in which order, and
//! what reached the receivers. Whatever the engine did that the rules do not allow ends the run with a sentence.

mod begins;
mod circuit;
mod filed;
mod late;
mod model;
mod people;
mod rows;
mod steps;
mod verdict;
mod walk;

use std::cell::RefCell;
use std::path::Path;

use diesel::{Connection, SqliteConnection};

use super::ledger::Ledger;
pub use model::Model;
use walk::Walk;

/// The model, and a look of its own at the database.
pub struct Checks {
    pub model: RefCell<Model>,
    walk: RefCell<Walk>,
    conn: RefCell<SqliteConnection>,
}

impl Checks {
    pub fn new(path: &Path, scale: f64) -> Checks {
        let conn = SqliteConnection::establish(&path.to_string_lossy()).expect("the database opens");
        Checks { model: RefCell::new(Model::new(scale)), walk: RefCell::default(), conn: RefCell::new(conn) }
    }

    /// Takes in what happened, and compares the database with what it must hold now.
    pub fn inspect(&self, ledger: &Ledger) {
        let mut model = self.model.borrow_mut();
        model.advance(&ledger.pages());
        let mut conn = self.conn.borrow_mut();
        model.compare(&mut conn);
        let mut walk = self.walk.borrow_mut();
        walk.go_on(&mut conn);
        walk.go_on_with_events(&mut conn);
    }

    pub fn nothing_waits(&self, ledger: &Ledger) -> bool {
        let mut model = self.model.borrow_mut();
        model.advance(&ledger.pages());
        model.deliveries.values().all(|delivery| !delivery.state.waits())
    }
}
