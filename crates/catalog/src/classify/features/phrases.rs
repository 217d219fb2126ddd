//! Phrases with a fixed meaning anywhere in a description: "cannot be undone",
//! "read-only", `SELECT`.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::{Features, Location};
use crate::classify::text::Word;
use crate::classify::tool::ParsedTool;

/// Cue id and the phrases that show it, as words in lower case.
const PHRASES: &[(&str, &[&str])] = &[
    (
        "read_only",
        &[
            "read only",
            "readonly",
            "does not modify",
            "without modifying",
            "no side effects",
            "non destructive",
            "does not change",
            "doesn t modify",
            "without changing",
            "nothing is changed",
            "never writes",
            "never modifies",
            "side effect free",
            "read query",
            "read queries",
            "read cypher",
            "select query",
            "select queries",
            "select statement",
            "select statements",
            "no write",
            "no writes",
            "nothing is written",
            "not executed",
            "without network",
        ],
    ),
    (
        "dry_run",
        &[
            "dry run",
            "preview only",
            "without executing",
            "without applying",
            "simulate",
            "simulates",
        ],
    ),
    (
        "irreversible",
        &[
            "irreversible",
            "cannot be undone",
            "can t be undone",
            "permanently",
            "permanent deletion",
            "cannot be recovered",
            "no undo",
            "not reversible",
            "cannot be reversed",
            "unrecoverable",
        ],
    ),
    ("destructive", &["destructive", "dangerous", "data loss", "will be lost"]),
    (
        "soft_delete",
        &["soft delete", "moves to trash", "move to trash", "to the trash", "recycle bin"],
    ),
    (
        "overwrites",
        &[
            "overwrite",
            "overwrites",
            "overwriting",
            "replaces all",
            "replaces the entire",
            "completely replaces",
        ],
    ),
    (
        "arbitrary",
        &["arbitrary", "any command", "any code", "raw sql", "shell command", "shell commands"],
    ),
    (
        "asks_first",
        &[
            "confirm with the user",
            "double check with the user",
            "must confirm",
            "ask the user",
            "explicitly requested",
            "user confirmation",
            "explicit confirmation",
        ],
    ),
    (
        "on_chain",
        &[
            "onchain",
            "on chain",
            "erc20",
            "smart contract",
            "wallet",
            "blockchain",
            "private key",
            "evm",
            "solana",
            "token address",
            "ethereum",
        ],
    ),
    (
        "raw_request",
        &[
            "http request",
            "api request",
            "http requests",
            "api requests",
            "rest api call",
            "any api",
            "any endpoint",
            "api endpoint",
            "http methods",
            "http call",
            "raw request",
        ],
    ),
    (
        "real_money",
        &[
            "real money",
            "will be charged",
            "incurs",
            "incur costs",
            "makes a payment",
            "costs credits",
            "cost warning",
            "payment required",
            "handles payments",
            "pays",
        ],
    ),
    (
        "background",
        &["in the background", "asynchronous", "asynchronously", "background process", "async job"],
    ),
    ("guidance", &["best practices", "guidance", "step by step", "instructions for", "how to"]),
    (
        "writes_file",
        &[
            "saves to",
            "save to",
            "saved to",
            "write to",
            "writes to",
            "to disk",
            "to a file",
            "output directory",
            "local file",
        ],
    ),
    (
        "returns",
        &[
            "returns a list",
            "returns the",
            "return a list",
            "returns information",
            "returns details",
            "returns all",
        ],
    ),
    (
        "use_before",
        &[
            "start here",
            "should be called first",
            "use this tool before",
            "first step",
            "call this first",
            "use this first",
        ],
    ),
    ("sends", &["sends a message", "sends an email", "notifies", "notification to"]),
    (
        "starts",
        &["starts a", "start a new", "kicks off", "kick off", "begins", "initiates", "triggers a"],
    ),
    ("creates", &["creates a", "create a new", "creates an", "adds a", "add a new"]),
    ("deletes", &["deletes a", "delete a", "deletes the", "removes the", "remove a", "removes a"]),
];

/// Upper-case words that are SQL or HTTP, not shouting.
const UPPER_CASE: &[(&str, &[&str])] = &[
    ("sql_read", &["SELECT"]),
    (
        "sql_write",
        &[
            "INSERT", "UPDATE", "DELETE", "DROP", "ALTER", "TRUNCATE", "DDL", "DML", "MERGE",
            "CREATE",
        ],
    ),
    ("http_read", &["GET", "HEAD"]),
    ("http_write", &["POST", "PUT", "PATCH"]),
];

/// Phrases by their first word: the cue and all the words.
static BY_FIRST_WORD: LazyLock<HashMap<&'static str, Vec<Phrase>>> = LazyLock::new(|| {
    let mut index: HashMap<&'static str, Vec<Phrase>> = HashMap::new();
    for (cue, phrases) in PHRASES {
        for phrase in *phrases {
            let words: Vec<&'static str> = phrase.split(' ').collect();
            if let Some(first) = words.first() {
                index.entry(first).or_default().push((cue, words));
            }
        }
    }
    index
});

type Phrase = (&'static str, Vec<&'static str>);

pub(super) fn phrases(tool: &ParsedTool, out: &mut Features) {
    let words: Vec<&Word> = tool.sentences.iter().flatten().collect();
    for (at, word) in words.iter().enumerate() {
        let rest = words.get(at..).unwrap_or(&[]);
        for (cue, phrase) in BY_FIRST_WORD.get(word.lower.as_str()).into_iter().flatten() {
            if starts_with(rest, phrase) {
                let said = as_written(tool, rest.get(..phrase.len()).unwrap_or(rest));
                out.add(format!("cue={cue}"), Location::Description, &said);
            }
        }
        // Most words are not upper-case and need no lookup.
        let is_upper_case = word.raw.len() > 2 && word.raw.bytes().all(|b| b.is_ascii_uppercase());
        for (cue, upper_case) in UPPER_CASE.iter().filter(|_| is_upper_case) {
            if upper_case.contains(&word.raw.as_str()) {
                out.add(format!("cue={cue}"), Location::Description, &word.raw);
            }
        }
    }
}

fn starts_with(words: &[&Word], phrase: &[&str]) -> bool {
    words.len() >= phrase.len() && words.iter().zip(phrase).all(|(w, p)| w.lower == **p)
}

/// The words with the text between them, as the author wrote it.
fn as_written(tool: &ParsedTool, words: &[&Word]) -> String {
    let (Some(first), Some(last)) = (words.first(), words.last()) else { return String::new() };
    let end = last.at + last.raw.len();
    tool.description.get(first.at..end).unwrap_or_default().to_owned()
}
