//! Log lines on stderr, for people or as JSON. Secrets never reach here: their types print `[secret]`.

use std::io;

use anyhow::{Result, anyhow};
use tracing_subscriber::EnvFilter;

use crate::output::Paint;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    #[default]
    Human,
    Json,
}

/// What is logged when nobody asked: a command that does one thing says only what went wrong, a
/// gate that runs for weeks says what it did.
#[derive(Clone, Copy)]
pub(crate) enum Habit {
    OneShot,
    Runs,
}

pub(crate) fn start(
    level: Option<&str>,
    format: LogFormat,
    habit: Habit,
    paint: Paint,
) -> Result<()> {
    let usual = match habit {
        Habit::OneShot => "error",
        Habit::Runs => "info",
    };
    let rules = level.filter(|level| !level.is_empty()).unwrap_or(usual);
    let filter = EnvFilter::try_new(rules).map_err(|e| {
        anyhow!("`{rules}` is not a log level: {e}\nhint: `error`, `warn`, `info`, `debug`, or `gateway=debug,warn`")
    })?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    let started = match format {
        LogFormat::Human => lines.with_ansi(paint.is_on()).with_target(false).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    started.map_err(|e| anyhow!("cannot start logging: {e}"))
}
