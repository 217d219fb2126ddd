//! The owner's records through their door: what is kept, found, counted, taken out and forgotten,
//! and what happens when processes die or the file is not what it should be.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a failed test says enough"
)]

#[path = "records/export.rs"]
mod export;
#[path = "records/files.rs"]
mod files;
#[path = "support/half_made.rs"]
mod half_made;
#[path = "records/keep.rs"]
mod keep;
#[path = "records/look.rs"]
mod look;
#[path = "records/place.rs"]
mod place;
#[path = "records/replay.rs"]
mod replay;
#[path = "records/stage.rs"]
mod stage;
