//! The promises of the gate, tested with the real binary, a real home and a server that counts what reaches
//! it. `TOLLGATE_ROUNDS` repeats the random parts more often.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops where it fails, and its figures are for people"
)]

#[path = "gate/ambiguous_messages.rs"]
mod ambiguous_messages;
#[path = "gate/approval_binding.rs"]
mod approval_binding;
#[path = "gate/apps.rs"]
mod apps;
#[path = "gate/audit.rs"]
mod audit;
#[path = "gate/capture.rs"]
mod capture;
#[cfg(unix)]
#[path = "gate/children.rs"]
mod children;
#[path = "gate/connections.rs"]
mod connections;
#[path = "gate/cross_era.rs"]
mod cross_era;
#[path = "gate/decisions.rs"]
mod decisions;
#[path = "gate/eras.rs"]
mod eras;
#[path = "gate/headers.rs"]
mod headers;
#[path = "gate/hostile.rs"]
mod hostile;
#[path = "gate/http_client.rs"]
mod http_client;
#[path = "gate/identity.rs"]
mod identity;
#[path = "gate/invalid_responses.rs"]
mod invalid_responses;
#[path = "gate/json_readers.rs"]
mod json_readers;
#[path = "gate/lists.rs"]
mod lists;
#[path = "gate/many_servers.rs"]
mod many_servers;
#[path = "gate/members.rs"]
mod members;
#[path = "gate/names.rs"]
mod names;
#[path = "gate/newer_tasks.rs"]
mod newer_tasks;
#[path = "gate/questions.rs"]
mod questions;
#[path = "gate/recorder.rs"]
mod recorder;
#[path = "gate/redaction.rs"]
mod redaction;
#[path = "gate/registry_view.rs"]
mod registry_view;
#[path = "gate/rounds.rs"]
mod rounds;
#[path = "gate/running.rs"]
mod running;
#[path = "gate/sessions.rs"]
mod sessions;
#[path = "gate/skills.rs"]
mod skills;
#[path = "gate/store.rs"]
mod store;
#[path = "gate/task_owners.rs"]
mod task_owners;
#[path = "gate/test_gate.rs"]
mod test_gate;
#[path = "gate/tokens.rs"]
mod tokens;
#[cfg(unix)]
#[path = "gate/unread_responses.rs"]
mod unread_responses;
#[path = "gate/via_client.rs"]
mod via_client;
