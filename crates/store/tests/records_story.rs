//! Tests of the records' public interface: stored, found, counted, exported and deleted,
//! and what happens when processes die or the file is not what it should be.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "tests"
)]

#[path = "records/export.rs"]
mod export;
#[cfg(unix)]
#[path = "records/export_path.rs"]
mod export_path;
#[path = "records/files.rs"]
mod files;
#[path = "records/fixture.rs"]
mod fixture;
#[path = "support/interrupted_create.rs"]
mod interrupted_create;
#[path = "records/query.rs"]
mod query;
#[path = "records/replay.rs"]
mod replay;
#[path = "records/upsert.rs"]
mod upsert;
