//! Log lines on stderr, for people or as JSON. Secrets never reach here: their types print `[secret]`.

use std::io;

use anyhow::{Result, anyhow};
use store::settings::{self, Log};
use tracing_subscriber::EnvFilter;

use crate::output::Paint;

/// Levels, or `target=level`, with commas. The library alone would take a misspelt level for the
/// name of a target and log nothing.
fn read(rules: &str) -> Option<EnvFilter> {
    let is_level = |word: &str| {
        let known = ["off", "error", "warn", "info", "debug", "trace"];
        known.iter().any(|level| word.eq_ignore_ascii_case(level))
    };
    let is_rule = |rule: &str| is_level(rule.rsplit('=').next().unwrap_or_default().trim());
    if rules.split(',').all(is_rule) { EnvFilter::try_new(rules).ok() } else { None }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
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

/// What to log and how.
pub(crate) struct Wish {
    pub(crate) rules: String,
    pub(crate) format: LogFormat,
}

impl Wish {
    /// What was asked on the command line counts first, then what the settings say.
    pub(crate) fn of(
        rules: Option<&str>,
        format: Option<LogFormat>,
        habit: Habit,
        settings: Option<&Log>,
    ) -> Wish {
        let usual = match (habit, settings) {
            (Habit::OneShot, _) => "error",
            (Habit::Runs, None) => "info",
            (Habit::Runs, Some(log)) => log.level.as_str(),
        };
        let written = settings.map_or(LogFormat::Human, |log| match log.format {
            settings::LogFormat::Human => LogFormat::Human,
            settings::LogFormat::Json => LogFormat::Json,
        });
        Wish {
            rules: rules.filter(|rules| !rules.is_empty()).unwrap_or(usual).to_owned(),
            format: format.unwrap_or(written),
        }
    }
}

pub(crate) fn start(wish: &Wish, paint: Paint) -> Result<()> {
    let Wish { rules, format } = wish;
    let filter = read(rules).ok_or_else(|| {
        anyhow!("`{rules}` is not a log level\nhint: `error`, `warn`, `info`, `debug`, `trace`, or `gateway=debug,warn`")
    })?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    let started = match *format {
        LogFormat::Human => lines.with_ansi(paint.is_on()).with_target(false).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    started.map_err(|e| anyhow!("cannot start logging: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_level_is_not_taken_for_a_target() {
        for (rules, good) in [
            ("warn", true),
            ("gateway=debug,warn", true),
            ("INFO", true),
            ("loud", false),
            ("wran", false),
            ("gateway=loud", false),
            ("", false),
        ] {
            assert_eq!(read(rules).is_some(), good, "{rules}");
        }
    }

    #[test]
    fn the_command_line_counts_before_the_settings() {
        let log = Log { format: settings::LogFormat::Json, level: settings::LogLevel::Debug };
        let wish = Wish::of(Some("warn"), Some(LogFormat::Human), Habit::Runs, Some(&log));
        assert_eq!((wish.rules.as_str(), wish.format), ("warn", LogFormat::Human));
        let wish = Wish::of(None, None, Habit::Runs, Some(&log));
        assert_eq!((wish.rules.as_str(), wish.format), ("debug", LogFormat::Json));
        let wish = Wish::of(None, None, Habit::OneShot, Some(&log));
        assert_eq!(wish.rules, "error", "a command that does one thing stays quiet");
    }
}
