//! Log lines on stderr, for people or as JSON. Secrets never reach here: their types print `[secret]`.

mod bounded;
mod file;
mod lines;

use std::path::PathBuf;

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

/// A line that cannot be written is dropped. The library would complain of it on stderr and panic when
/// that fails as well: a client that has closed our stderr, or a full disk, would end the call.
const COMPLAIN: bool = false;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    Human,
    Json,
}

/// How the server of an account logs, in variables that others of its kind have, too.
pub(crate) struct Served {
    level: Option<String>,
    json: bool,
    file: Option<PathBuf>,
}

impl Served {
    /// `look` gives the value of a variable such as `WHOOP_LOG_LEVEL`; `usual` is where the file is
    /// unless one is named. An empty name means none.
    pub(crate) fn of(
        service: &str,
        usual: Option<PathBuf>,
        look: &dyn Fn(&str) -> Option<String>,
    ) -> Served {
        let look = |name: &str| look(&format!("{}_LOG_{name}", service.to_ascii_uppercase()));
        let json = look("JSON").is_none_or(|word| {
            matches!(word.to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "y" | "on")
        });
        let file = match look("FILE") {
            Some(name) => Some(name).filter(|name| !name.is_empty()).map(PathBuf::from),
            None => usual,
        };
        Served { level: look("LEVEL"), json, file }
    }

    /// What is not a level counts as `info`.
    fn rules(&self) -> &'static str {
        let level = self.level.as_deref().unwrap_or_default().to_ascii_lowercase();
        match level.as_str() {
            "debug" => "debug",
            "warning" | "warn" => "warn",
            "error" | "critical" | "fatal" => "error",
            _ => "info",
        }
    }
}

/// What is logged when nobody asked: a command that does one thing says only what went wrong, a
/// gate that runs for weeks says what it did.
#[derive(Clone, Copy)]
pub(crate) enum Habit {
    OneShot,
    Runs,
}

/// The server of an account logs what each part of a sync brought; a gate that nobody asked for more
/// says it once for all of them, or its welcome would be gone from the screen.
const ONCE_FOR_ALL: &str = "connectors::sync::turn=warn";

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
        let rules = match rules.filter(|rules| !rules.is_empty()) {
            Some(rules) => rules.to_owned(),
            None if usual == "info" => format!("{usual},{ONCE_FOR_ALL}"),
            None => usual.to_owned(),
        };
        Wish { rules, format: format.unwrap_or(written) }
    }
}

/// Logging of the server of an account. What was asked on the command line counts first.
pub(crate) fn start_served(
    rules: Option<&str>,
    format: Option<LogFormat>,
    served: Served,
) -> Result<()> {
    let rules = rules.filter(|rules| !rules.is_empty()).unwrap_or_else(|| served.rules());
    let is_json = format.map_or(served.json, |format| format == LogFormat::Json);
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter(rules)?)
        .with_writer(file::Both::new(served.file))
        .log_internal_errors(COMPLAIN)
        .with_ansi(false);
    let started = if is_json {
        lines.event_format(lines::Lines).try_init()
    } else {
        lines.with_target(false).try_init()
    };
    started.map_err(|e| anyhow!("cannot start logging: {e}"))
}

fn filter(rules: &str) -> Result<EnvFilter> {
    read(rules).ok_or_else(|| {
        anyhow!("`{rules}` is not a log level\nhint: `error`, `warn`, `info`, `debug`, `trace`, or `gateway=debug,warn`")
    })
}

pub(crate) fn start(wish: &Wish, paint: Paint) -> Result<()> {
    let Wish { rules, format } = wish;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter(rules)?)
        .with_writer(bounded::Bounded::new(*format))
        .log_internal_errors(COMPLAIN);
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
    fn the_server_of_an_account_logs_as_its_variables_say() {
        let usual = || Some(PathBuf::from("/home/logs/whoop.log"));
        let served = Served::of("whoop", usual(), &|_| None);
        assert_eq!((served.rules(), served.json, served.file), ("info", true, usual()));
        for (value, rules) in
            [("DEBUG", "debug"), ("Warning", "warn"), ("critical", "error"), ("loud", "info")]
        {
            let look = |name: &str| (name == "WHOOP_LOG_LEVEL").then(|| value.to_owned());
            assert_eq!(Served::of("whoop", None, &look).rules(), rules);
        }
        let look = |name: &str| match name {
            "WHOOP_LOG_JSON" => Some("no".to_owned()),
            "WHOOP_LOG_FILE" => Some(String::new()),
            _ => None,
        };
        let served = Served::of("whoop", usual(), &look);
        assert_eq!((served.json, served.file), (false, None));
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
        let wish = Wish::of(None, None, Habit::Runs, None);
        assert_eq!(wish.rules, "info,connectors::sync::turn=warn");
        assert_eq!(Wish::of(Some("info"), None, Habit::Runs, None).rules, "info", "as asked");
        assert!(read(&wish.rules).is_some());
    }
}
