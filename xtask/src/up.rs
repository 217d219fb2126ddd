//! `cargo xtask up`: from a fresh clone to a running gate. It uses the development profile,
//! because a first build should be quick; use `cargo build --release` for real work.

use std::path::Path;

use anyhow::Result;

/// Replaces this process, so that a signal sent to it reaches the gate.
pub(crate) fn up(root: &Path, rest: &[String]) -> Result<bool> {
    let mut command = crate::cargo();
    command.current_dir(root).args(["run", "--package", "tollgate", "--", "up", "--demo"]);
    let error = platform::detach::become_program(command.args(rest));
    Err(anyhow::Error::new(error).context("cannot start cargo"))
}
