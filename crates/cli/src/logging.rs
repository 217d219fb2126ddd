//! Log lines on stderr, as text or JSON. Secrets are never logged: their types print `[secret]`.

mod bounded;
mod file;
mod lines;

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use store::settings::{self, Log};
use tracing_subscriber::EnvFilter;

use crate::output::Paint;

/// Comma-separated levels or `target=level`. The library alone would take a misspelt level for a target
/// and log nothing.
fn read(rules: &str) -> Option<EnvFilter> {
    let is_level = |word: &str| {
        let known = ["off", "error", "warn", "info", "debug", "trace"];
        known.iter().any(|level| word.eq_ignore_ascii_case(level))
    };
    let is_rule = |rule: &str| is_level(rule.rsplit('=').next().unwrap_or_default().trim());
    if rules.split(',').all(is_rule) { EnvFilter::try_new(rules).ok() } else { None }
}

/// A line that cannot be written is dropped. The library would report it on stderr and panic if that
/// fails, too: a closed stderr or a full disk would end the call.
const LOG_INTERNAL_ERRORS: bool = false;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    Human,
    Json,
}

/// Logging of an account server on stdio, from variables that similar servers also use.
pub(crate) struct ServerLogging {
    level: Option<String>,
    json: bool,
    file: Option<PathBuf>,
}

impl ServerLogging {
    /// `look` returns a variable such as `WHOOP_LOG_LEVEL`; `usual` is the default log file. An empty
    /// name means none.
    pub(crate) fn of(
        service: &str,
        usual: Option<PathBuf>,
        look: &dyn Fn(&str) -> Option<String>,
    ) -> ServerLogging {
        let look = |name: &str| look(&format!("{}_LOG_{name}", service.to_ascii_uppercase()));
        let json = look("JSON").is_none_or(|word| {
            matches!(word.to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "y" | "on")
        });
        let file = match look("FILE") {
            Some(name) => Some(name).filter(|name| !name.is_empty()).map(PathBuf::from),
            None => usual,
        };
        ServerLogging { level: look("LEVEL"), json, file }
    }

    /// An unknown level counts as `info`.
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

/// Decides the default level: a one-shot command logs only errors, a running gate also what it does.
#[derive(Clone, Copy)]
pub(crate) enum ProcessKind {
    OneShot,
    Gate,
}

/// An account server logs each part of a sync; a gate at the default level logs one line per sync, so that
/// its welcome stays on the screen.
const QUIET_SYNC_PARTS: &str = "connectors::sync::job=warn";

/// What to log and how.
pub(crate) struct LogOptions {
    pub(crate) rules: String,
    pub(crate) format: LogFormat,
}

impl LogOptions {
    /// The command line overrides the settings.
    pub(crate) fn of(
        rules: Option<&str>,
        format: Option<LogFormat>,
        kind: ProcessKind,
        settings: Option<&Log>,
    ) -> LogOptions {
        let usual = match (kind, settings) {
            (ProcessKind::OneShot, _) => "error",
            (ProcessKind::Gate, None) => "info",
            (ProcessKind::Gate, Some(log)) => log.level.as_str(),
        };
        let written = settings.map_or(LogFormat::Human, |log| match log.format {
            settings::LogFormat::Human => LogFormat::Human,
            settings::LogFormat::Json => LogFormat::Json,
        });
        let rules = match rules.filter(|rules| !rules.is_empty()) {
            Some(rules) => rules.to_owned(),
            None if usual == "info" => format!("{usual},{QUIET_SYNC_PARTS}"),
            None => usual.to_owned(),
        };
        LogOptions { rules, format: format.unwrap_or(written) }
    }
}

/// Logging of an account server. The command line overrides its variables.
pub(crate) fn start_served(
    rules: Option<&str>,
    format: Option<LogFormat>,
    served: ServerLogging,
) -> Result<()> {
    let rules = rules.filter(|rules| !rules.is_empty()).unwrap_or_else(|| served.rules());
    let is_json = format.map_or(served.json, |format| format == LogFormat::Json);
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter(rules)?)
        .with_writer(file::Both::new(served.file))
        .log_internal_errors(LOG_INTERNAL_ERRORS)
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

pub(crate) fn start(options: &LogOptions, paint: Paint) -> Result<()> {
    let LogOptions { rules, format } = options;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter(rules)?)
        .with_writer(bounded::Bounded::new(*format))
        .log_internal_errors(LOG_INTERNAL_ERRORS);
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
    fn an_account_server_logs_as_its_variables_say() {
        let usual = || Some(PathBuf::from("/home/logs/whoop.log"));
        let served = ServerLogging::of("whoop", usual(), &|_| None);
        assert_eq!((served.rules(), served.json, served.file), ("info", true, usual()));
        for (value, rules) in
            [("DEBUG", "debug"), ("Warning", "warn"), ("critical", "error"), ("loud", "info")]
        {
            let look = |name: &str| (name == "WHOOP_LOG_LEVEL").then(|| value.to_owned());
            assert_eq!(ServerLogging::of("whoop", None, &look).rules(), rules);
        }
        let look = |name: &str| match name {
            "WHOOP_LOG_JSON" => Some("no".to_owned()),
            "WHOOP_LOG_FILE" => Some(String::new()),
            _ => None,
        };
        let served = ServerLogging::of("whoop", usual(), &look);
        assert_eq!((served.json, served.file), (false, None));
    }

    #[test]
    fn the_command_line_overrides_the_settings() {
        let log = Log { format: settings::LogFormat::Json, level: settings::LogLevel::Debug };
        let options =
            LogOptions::of(Some("warn"), Some(LogFormat::Human), ProcessKind::Gate, Some(&log));
        assert_eq!((options.rules.as_str(), options.format), ("warn", LogFormat::Human));
        let options = LogOptions::of(None, None, ProcessKind::Gate, Some(&log));
        assert_eq!((options.rules.as_str(), options.format), ("debug", LogFormat::Json));
        let options = LogOptions::of(None, None, ProcessKind::OneShot, Some(&log));
        assert_eq!(options.rules, "error", "a one-shot command stays quiet");
        let options = LogOptions::of(None, None, ProcessKind::Gate, None);
        assert_eq!(options.rules, "info,connectors::sync::job=warn");
        assert_eq!(
            LogOptions::of(Some("info"), None, ProcessKind::Gate, None).rules,
            "info",
            "as given"
        );
        assert!(read(&options.rules).is_some());
    }
}
