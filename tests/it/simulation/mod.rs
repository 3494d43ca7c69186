//! The engine on virtual time: the real supervisor, endpoint actors and dispatcher, the real store on a real SQLite
//! file, scripted receivers. Everything of one life of the process happens on one thread whose clock jumps to the next
//! timer, so 45 hours pass in a moment and a seed replays exactly. A crash drops the life half way; the next one begins
//! on the same file.
//!
//! ```text
//!   script (seeds, ladders) ──▶ Life: store, engine ──attempts──▶ receivers
//!            │                        │ commits                       │
//!            └────────▶ Ledger, outside the engine ◀──────────────────┘
//!                          │
//!                          ▼
//!                 checks: the rules of semantics.md, worked out again from the ledger alone
//! ```

mod acts;
mod cases;
mod checks;
mod circuit;
mod disabling;
mod faults;
mod hints;
mod ladders;
mod ledger;
mod life;
mod own;
mod people;
mod plan;
mod planted;
mod receiver;
mod retries;
mod seeds;
mod trouble;
mod wire;
mod world;
