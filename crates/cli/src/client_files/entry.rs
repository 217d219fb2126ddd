//! One server as a client's file describes it, whatever the client calls the parts.

use std::borrow::Cow;
use std::path::PathBuf;

use policy::json::{Kind, Value};

use crate::masking;

/// A server in a client's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// The keys that lead to it from the root.
    pub(crate) keys: Vec<String>,
    /// The project it is for, when it is not for all.
    pub(crate) project: Option<PathBuf>,
    pub(crate) launch: Launch,
    pub(crate) enabled: bool,
}

/// How the client reaches it. Values may hold references such as `${env:KEY}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Launch {
    Command {
        argv: Vec<String>,
        env: Vec<(String, String)>,
        cwd: Option<String>,
        env_file: Option<String>,
    },
    Url {
        url: String,
        headers: Vec<(String, String)>,
    },
    /// Neither a command nor an address, such as the settings of an extension.
    Other,
}

impl Launch {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Launch::Command { .. } => "command",
            Launch::Url { .. } => "url",
            Launch::Other => "other",
        }
    }

    /// The command or address, without anything that may be secret.
    pub(crate) fn shown(&self) -> String {
        match self {
            Launch::Command { argv, .. } => masking::shown_argv(argv).join(" "),
            Launch::Url { url, .. } => masking::shown_url(url),
            Launch::Other => String::new(),
        }
    }
}

/// Reads an entry from JSON.
pub(crate) fn from_json(value: Value<'_>) -> (Launch, bool) {
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(Cow::into_owned);
    let enabled = value.get("disabled").and_then(Value::as_bool) != Some(true)
        && value.get("enabled").and_then(Value::as_bool) != Some(false);
    let url = ["url", "serverUrl", "httpUrl"].into_iter().find_map(text);
    let launch = match (value.get("command"), url) {
        (Some(command), _) => command_of(value, command),
        (None, Some(url)) => Launch::Url { url, headers: pairs(value.get("headers")) },
        (None, None) => Launch::Other,
    };
    (launch, enabled)
}

/// `"command": "npx"`, `"command": ["npx", "-y"]`, or `"command": { "path": "npx", … }`.
fn command_of(entry: Value<'_>, command: Value<'_>) -> Launch {
    let holder = if command.kind() == Kind::Object { command } else { entry };
    let mut argv = match command.kind() {
        Kind::Object => command.get("path").map(texts).unwrap_or_default(),
        _ => texts(command),
    };
    argv.extend(holder.get("args").map(texts).unwrap_or_default());
    let env = holder.get("env").or_else(|| holder.get("environment"));
    let text = |key: &str| entry.get(key).and_then(Value::as_str).map(Cow::into_owned);
    Launch::Command { argv, env: pairs(env), cwd: text("cwd"), env_file: text("envFile") }
}

/// A text, or the texts of a list.
fn texts(value: Value<'_>) -> Vec<String> {
    match value.kind() {
        Kind::Array => value.items().map(scalar).collect(),
        _ => vec![scalar(value)],
    }
}

fn pairs(value: Option<Value<'_>>) -> Vec<(String, String)> {
    let entries = value.into_iter().flat_map(Value::entries);
    entries.map(|(key, value)| (key.text().into_owned(), scalar(value))).collect()
}

/// Numbers and booleans in an environment become the text that the file has for them.
fn scalar(value: Value<'_>) -> String {
    value.as_str().map_or_else(|| value.raw().to_owned(), Cow::into_owned)
}
