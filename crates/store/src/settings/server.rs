//! `[servers.NAME]`: one of `command`, `url` and `builtin`, with what belongs to it.

use super::limits::Limits;
use super::problem::Problems;
use super::reference::ExternalValues;
use super::section::{NamedField, Section};
use crate::registry::names::check_name;
use crate::registry::{
    Credential, EnvValue, ObjectKind, Origin, Server, ServerOptions, Target, TargetError,
};

/// The keys of every server; the rest belongs to one kind of target.
const KEYS: &[&str] = &[
    "command",
    "url",
    "builtin",
    "tools",
    "env",
    "cwd",
    "headers",
    "query",
    "allow_plain_http",
    "call_ms_max",
    "start_ms_max",
    "pins_fresh_seconds",
    "share",
    "map_names",
    "per_grant",
    "capture",
];
const PINS_FRESH_SECONDS_MAX: u64 = 30 * 86_400;

pub(super) fn read(
    entry: &NamedField<'_>,
    outside: &mut ExternalValues<'_>,
    problems: &mut Problems<'_>,
) -> Option<Server> {
    if let Err(e) = check_name(ObjectKind::Server, entry.name) {
        problems.error(&entry.name_span, &e);
    }
    let section = entry.field.section(KEYS, problems)?;
    let target = read_target(&section, outside, problems)?;
    if let Err(e) = target.check() {
        problems.error(&location_of(&e, &section), &e);
    }
    Some(Server {
        name: entry.name.to_owned(),
        target,
        options: read_options(&section, problems),
        created_at_us: 0,
        updated_at_us: 0,
        origin: Origin::File,
    })
}

fn read_target(
    section: &Section<'_>,
    outside: &mut ExternalValues<'_>,
    problems: &mut Problems<'_>,
) -> Option<Target> {
    let kinds = ["command", "url", "builtin"];
    let given: Vec<&str> = kinds.into_iter().filter(|kind| section.field(kind).is_some()).collect();
    match given.as_slice() {
        ["command"] => {
            refuse(
                section,
                "command",
                &["headers", "query", "allow_plain_http", "tools", "per_grant"],
                problems,
            );
            let argv = section.field("command")?.texts(problems);
            Some(Target::Command {
                argv: argv.into_iter().map(|(word, _)| word.to_owned()).collect(),
                env: read_env(section, outside, problems),
                cwd: section.text("cwd", problems).map(|(path, _)| path.into()),
                secret_args: Vec::new(),
            })
        }
        ["url"] => {
            refuse(section, "url", &["env", "cwd", "tools", "share"], problems);
            let (url, _) = section.text("url", problems)?;
            Some(Target::Url {
                url: url.to_owned(),
                query: read_query(section, outside, problems),
                headers: read_headers(section, outside, problems),
                allow_plain_http: section.flag("allow_plain_http", problems).unwrap_or(false),
            })
        }
        ["builtin"] => {
            let others =
                ["headers", "query", "allow_plain_http", "env", "cwd", "share", "per_grant"];
            refuse(section, "builtin", &others, problems);
            let (service, _) = section.text("builtin", problems)?;
            Some(Target::Builtin { service: service.to_owned() })
        }
        _ => {
            let message =
                format!("`{}` must have one of `command`, `url`, `builtin`", section.path);
            problems.add(&section.span, message);
            None
        }
    }
}

/// A key without meaning for this kind of server would otherwise go unnoticed.
fn refuse(section: &Section<'_>, kind: &str, keys: &[&str], problems: &mut Problems<'_>) {
    for field in keys.iter().filter_map(|key| section.field(key)) {
        problems.add(&field.span, format!("`{}` does not go with `{kind}`", field.path));
    }
}

fn read_env(
    section: &Section<'_>,
    outside: &mut ExternalValues<'_>,
    problems: &mut Problems<'_>,
) -> Vec<(String, EnvValue)> {
    let mut env = Vec::new();
    for entry in section.entries("env", problems) {
        let plain = entry.field.value.as_str().map(|plain| EnvValue::Plain(plain.to_owned()));
        let hidden = |secret| EnvValue::Hidden(Credential::Held(secret));
        let value = plain.or_else(|| outside.secret(&entry.field, problems).map(hidden));
        env.extend(value.map(|value| (entry.name.to_owned(), value)));
    }
    env
}

fn read_headers(
    section: &Section<'_>,
    outside: &mut ExternalValues<'_>,
    problems: &mut Problems<'_>,
) -> Vec<(String, Credential)> {
    let mut headers = Vec::new();
    for entry in section.entries("headers", problems) {
        let secret = outside.secret(&entry.field, problems);
        headers.extend(secret.map(|secret| (entry.name.to_owned(), Credential::Held(secret))));
    }
    headers
}

fn read_query(
    section: &Section<'_>,
    outside: &mut ExternalValues<'_>,
    problems: &mut Problems<'_>,
) -> Option<Credential> {
    let field = section.field("query")?;
    outside.secret(&field, problems).map(Credential::Held)
}

fn read_options(section: &Section<'_>, problems: &mut Problems<'_>) -> ServerOptions {
    let range = |name: &str| {
        let row = Limits::TABLE.iter().find(|row| row.name == name);
        row.map_or((1, u64::MAX), |row| (row.least, row.most))
    };
    let defaults = ServerOptions::default();
    let call = range("upstream_call_wait_ms_max");
    let start = range("upstream_start_wait_ms_max");
    let fresh = section.integer("pins_fresh_seconds", (0, PINS_FRESH_SECONDS_MAX), problems);
    ServerOptions {
        call_ms_max: section.integer("call_ms_max", call, problems),
        start_ms_max: section.integer("start_ms_max", start, problems),
        pins_fresh_seconds: fresh.unwrap_or(defaults.pins_fresh_seconds),
        tools: super::service::tool_sets(section, problems),
        share: section.flag("share", problems),
        map_names: section.flag("map_names", problems).unwrap_or(false),
        per_grant: section.flag("per_grant", problems).unwrap_or(false),
        capture: section.flag("capture", problems).unwrap_or(false),
    }
}

/// The key that a target error is about.
fn location_of(error: &TargetError, section: &Section<'_>) -> std::ops::Range<usize> {
    let key = match error {
        TargetError::HeaderName(_)
        | TargetError::HeaderRefused(_)
        | TargetError::HeaderTwice(_)
        | TargetError::HeaderValue(_)
        | TargetError::ManyHeaders => "headers",
        TargetError::EmptyCommand | TargetError::Command => "command",
        TargetError::Environment(_)
        | TargetError::EnvironmentTwice(_)
        | TargetError::ManyVariables => "env",
        TargetError::RelativeFolder(_) => "cwd",
        TargetError::Service(_) => "builtin",
        TargetError::NotAUrl(_)
        | TargetError::LongUrl
        | TargetError::Scheme(_)
        | TargetError::PlainHttp(_)
        | TargetError::UserInfo
        | TargetError::Fragment
        | TargetError::Query => "url",
    };
    section.field(key).map_or_else(|| section.span.clone(), |field| field.span)
}
