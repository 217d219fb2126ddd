//! The promises of the gate, kept through its own door: the real binary, a real home, a server that
//! counts what reaches it. `TOLLGATE_ROUNDS` repeats the random parts more often.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops where it fails, and its figures are for people"
)]

#[path = "gate/across.rs"]
mod across;
#[path = "gate/audit.rs"]
mod audit;
#[path = "gate/bound.rs"]
mod bound;
#[path = "gate/children.rs"]
mod children;
#[path = "gate/connections.rs"]
mod connections;
#[path = "gate/cost.rs"]
mod cost;
#[path = "gate/decisions.rs"]
mod decisions;
#[path = "gate/door.rs"]
mod door;
#[path = "gate/eras.rs"]
mod eras;
#[path = "gate/headers.rs"]
mod headers;
#[path = "gate/hostile.rs"]
mod hostile;
#[path = "gate/identity.rs"]
mod identity;
#[path = "gate/lies.rs"]
mod lies;
#[path = "gate/lists.rs"]
mod lists;
#[path = "gate/many.rs"]
mod many;
#[path = "gate/meaning.rs"]
mod meaning;
#[path = "gate/members.rs"]
mod members;
#[path = "gate/newer_tasks.rs"]
mod newer_tasks;
#[path = "gate/questions.rs"]
mod questions;
#[path = "gate/readers.rs"]
mod readers;
#[path = "gate/recorder.rs"]
mod recorder;
#[path = "gate/redaction.rs"]
mod redaction;
#[path = "gate/rounds.rs"]
mod rounds;
#[path = "gate/running.rs"]
mod running;
#[path = "gate/sessions.rs"]
mod sessions;
#[path = "gate/store.rs"]
mod store;
#[path = "gate/task_owners.rs"]
mod task_owners;
#[path = "gate/tokens.rs"]
mod tokens;
#[path = "gate/unread.rs"]
mod unread;
#[path = "gate/world.rs"]
mod world;
