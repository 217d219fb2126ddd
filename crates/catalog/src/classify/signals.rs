//! Signals: what a tool accepts and can reach, read from its parameters and name. Risk and attack
//! patterns are derived from them.

use serde::Serialize;

use super::evidence::quote;
use super::features::signs_in;
use super::text::Word;
use super::tool::{ParsedParameter, ParsedTool};
use super::{Category, lexicon};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SignalKind {
    Path,
    Url,
    Command,
    Sql,
    Amount,
    Recipient,
    Bulk,
    Credentials,
    OpenWorld,
}

impl SignalKind {
    pub const ALL: [Self; 9] = [
        Self::Path,
        Self::Url,
        Self::Command,
        Self::Sql,
        Self::Amount,
        Self::Recipient,
        Self::Bulk,
        Self::Credentials,
        Self::OpenWorld,
    ];

    /// The signal as half a sentence: "accepts a path".
    pub fn describe(self) -> &'static str {
        match self {
            Self::Path => "accepts a path",
            Self::Url => "accepts a URL",
            Self::Command => "accepts a command or code",
            Self::Sql => "accepts a query or statement",
            Self::Amount => "accepts an amount",
            Self::Recipient => "accepts a recipient",
            Self::Bulk => "acts on many at once",
            Self::Credentials => "handles credentials",
            Self::OpenWorld => "reaches the open world",
        }
    }
}

/// One signal and the words that matched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Signal {
    pub kind: SignalKind,
    #[serde(rename = "place")]
    pub location: String,
    #[serde(rename = "words")]
    pub text: String,
    /// Dotted path of the parameter that matched, `[]` for elements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
}

pub(super) fn signals(tool: &ParsedTool, category: Category) -> Vec<Signal> {
    let mut out = Vec::new();
    for kind in SignalKind::ALL {
        let shown = tool.parameters.iter().find(|p| shows(kind, p, tool, category));
        if let Some(p) = shown {
            let location = format!("parameter `{}`", quote(&p.path));
            let parameter = Some(p.path.clone());
            out.push(Signal { kind, location, text: quote(&p.name), parameter });
        } else if let Some((location, text)) = named(kind, tool) {
            out.push(Signal { kind, location: location.to_owned(), text, parameter: None });
        }
    }
    if let Some(signal) = open_world(tool, &out) {
        out.push(signal);
    }
    out
}

/// A parameter and the kind of value it accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    pub kind: SignalKind,
    /// Dotted path below the input, `[]` for elements, also those of a list of texts.
    pub parameter: String,
}

/// Kinds that a rule about a parameter can restrict.
const GUARDED: [SignalKind; 4] =
    [SignalKind::Path, SignalKind::Url, SignalKind::Command, SignalKind::Sql];

pub(super) fn reach_of(tool: &ParsedTool, category: Category) -> Vec<Reach> {
    let mut out = Vec::new();
    for kind in GUARDED {
        for p in tool.parameters.iter().filter(|p| shows(kind, p, tool, category)) {
            let inner = format!("{}.", p.path);
            let elements = format!("{}[]", p.path);
            let is_object = tool
                .parameters
                .iter()
                .any(|q| q.path.starts_with(&inner) || q.path.starts_with(&elements));
            if is_object {
                continue;
            }
            out.push(Reach { kind, parameter: if p.is_list { elements } else { p.path.clone() } });
        }
    }
    out
}

fn shows(kind: SignalKind, p: &ParsedParameter, tool: &ParsedTool, category: Category) -> bool {
    let last = p.words.last().map_or("", |w| w.base.as_str());
    if matches!(last, "id" | "ids" | "type" | "format" | "size" | "count" | "limit" | "status") {
        return kind == SignalKind::Bulk && is_list_of_ids(p) && category != Category::Read;
    }
    let any = |words: &[&str]| p.words.iter().any(|w| words.contains(&w.base.as_str()));
    match kind {
        SignalKind::Path => {
            any(&["path", "filepath", "filename", "directory", "dir", "cwd"])
                || last == "file"
                || is_end_of_move(p, tool)
        }
        SignalKind::Url => p.is_address || any(&["url", "uri", "href", "webhook"]),
        SignalKind::Command => any(COMMANDS) || is_code(p, tool),
        SignalKind::Sql => {
            any(&["sql", "cypher", "soql", "statement", "ddl", "mutation"]) || is_sql_query(p, tool)
        }
        SignalKind::Amount => any(&["amount", "price", "budget", "qty", "tip"]),
        SignalKind::Recipient => {
            any(&[
                "recipient",
                "cc",
                "bcc",
                "payee",
                "beneficiary",
                "attendee",
                "invitee",
                "spender",
            ]) || (category != Category::Read && p.words.first().is_some_and(|w| w.base == "to"))
        }
        SignalKind::Bulk => is_list_of_ids(p) && category != Category::Read,
        SignalKind::Credentials => is_secret(p, tool),
        SignalKind::OpenWorld => false,
    }
}

/// `source` and `destination` of a tool that moves or copies files.
fn is_end_of_move(p: &ParsedParameter, tool: &ParsedTool) -> bool {
    let end = matches!(p.name.as_str(), "source" | "destination" | "src" | "dst" | "dest");
    let moves_files = || {
        let files = ["file", "directory", "folder"];
        tool.name_words.iter().any(|w| files.contains(&w.base.as_str()))
    };
    end && p.depth == 0 && moves_files()
}

const COMMANDS: &[&str] =
    &["command", "cmd", "shell", "script", "javascript", "groovy", "argv", "snippet", "playbook"];

/// `code` alone is program code, unless the tool signs in; `country_code` is not.
fn is_code(p: &ParsedParameter, tool: &ParsedTool) -> bool {
    match p.words.as_slice() {
        [only] if only.base == "function" => runs_code(tool),
        [only] => matches!(only.base.as_str(), "code" | "expression") && !signs_in(tool),
        [.., before, last] => {
            last.base == "code" && matches!(before.base.as_str(), "source" | "python" | "js")
        }
        [] => false,
    }
}

/// Whether the name says that the tool runs code or commands.
pub(super) fn runs_code(tool: &ParsedTool) -> bool {
    const RUNS: &[&str] = &[
        "run",
        "execute",
        "exec",
        "eval",
        "evaluate",
        "script",
        "code",
        "command",
        "shell",
        "bash",
        "terminal",
        "console",
        "repl",
        "cli",
        "javascript",
        "python",
    ];
    tool.name_words.iter().any(|w| RUNS.contains(&w.base.as_str()))
}

fn is_sql_query(p: &ParsedParameter, tool: &ParsedTool) -> bool {
    let is_sql = |w: &Word| {
        matches!(
            w.lower.as_str(),
            "cypher" | "soql" | "select" | "postgres" | "duckdb" | "bigquery"
        ) || w.lower.starts_with("sql")
            || w.lower.ends_with("sql")
    };
    let mentions_sql = || {
        let words = tool.sentences.iter().flatten().chain(&tool.name_words);
        words.into_iter().any(is_sql) || p.description.contains("SQL")
    };
    p.words.iter().any(|w| w.base == "query") && mentions_sql()
}

fn is_list_of_ids(p: &ParsedParameter) -> bool {
    let plural = ["ids", "items", "records", "entities", "messages", "files", "events", "tasks"];
    p.is_list && p.words.last().is_some_and(|w| plural.contains(&w.lower.as_str()))
}

/// A page token or a token on a blockchain is not a secret.
fn is_secret(p: &ParsedParameter, tool: &ParsedTool) -> bool {
    let has = |words: &[&str]| p.words.iter().any(|w| words.contains(&w.base.as_str()));
    if has(&["page", "next", "continuation", "sync", "max", "confirmation", "pagination", "count"])
    {
        return false;
    }
    let token = has(&["token"])
        && (has(&["access", "refresh", "bearer", "auth", "api", "id"]) || !on_chain(tool));
    let key = has(&["key"]) && has(&["api", "private", "secret", "access"]);
    token
        || key
        || has(&["password", "passphrase", "secret", "credential", "apikey", "connectionstring"])
}

fn on_chain(tool: &ParsedTool) -> bool {
    let text = tool.description.to_lowercase();
    ["erc20", "wallet", "onchain", "on-chain", "swap", "mint", "solana"]
        .iter()
        .any(|w| text.contains(w))
}

/// Signals from the name alone.
fn named(kind: SignalKind, tool: &ParsedTool) -> Option<(&'static str, String)> {
    let find = |words: &[&str]| tool.name_words.iter().find(|w| words.contains(&w.base.as_str()));
    let found = match kind {
        SignalKind::Bulk => find(&["bulk", "batch", "all", "many", "multiple", "mass"]),
        SignalKind::Credentials if !on_chain(tool) => find(&[
            "token",
            "credential",
            "secret",
            "password",
            "oauth",
            "apikey",
            "login",
            "auth",
            "authenticate",
        ]),
        _ => None,
    };
    let found = found.or_else(|| environment(tool).filter(|_| kind == SignalKind::Credentials));
    found.map(|w| ("name", w.raw.clone()))
}

/// `get-env`, `list_environment_variables`: the environment of a server holds mostly secrets.
pub(super) fn environment(tool: &ParsedTool) -> Option<&Word> {
    let words = &tool.name_words;
    let is_env =
        |w: &&Word| matches!(w.base.as_str(), "env" | "envs" | "printenv" | "dotenv" | "envvar");
    let spelled = words.windows(2).find_map(|pair| match pair {
        [a, b] if a.base == "environment" && matches!(b.base.as_str(), "variable" | "var") => {
            Some(a)
        }
        _ => None,
    });
    words.iter().find(is_env).or(spelled)
}

/// The other side is not known in advance: a URL, a recipient, the web, or the hint.
fn open_world(tool: &ParsedTool, found: &[Signal]) -> Option<Signal> {
    let of = |location: &str, text: &str, parameter: Option<&String>| {
        Some(Signal {
            kind: SignalKind::OpenWorld,
            location: location.to_owned(),
            text: text.to_owned(),
            parameter: parameter.cloned(),
        })
    };
    if tool.hints.open_world == Some(true) {
        return of("annotation", "openWorldHint: true", None);
    }
    let outside = |s: &&Signal| matches!(s.kind, SignalKind::Url | SignalKind::Recipient);
    if let Some(signal) = found.iter().find(outside) {
        return of(&signal.location, &signal.text, signal.parameter.as_ref());
    }
    let web = tool.name_words.iter().find(|w| {
        matches!(w.base.as_str(), "web" | "internet" | "crawl" | "scrape" | "tweet" | "browser")
    });
    web.and_then(|w| of("name", &w.raw, None))
}

/// Whether a verb of the name sends something to other people.
pub(super) fn sends(tool: &ParsedTool) -> bool {
    tool.name_words.iter().any(|w| {
        matches!(
            w.base.as_str(),
            "send"
                | "post"
                | "publish"
                | "broadcast"
                | "share"
                | "invite"
                | "notify"
                | "forward"
                | "reply"
        ) && lexicon::verb(&w.base).is_some()
    })
}
