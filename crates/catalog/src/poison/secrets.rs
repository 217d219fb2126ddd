//! Finds requests for secrets: a key file, the environment or a wallet near a verb that fetches or
//! transfers it.

use super::matcher::{finding, is_sentence};
use super::texts::{Role, Text};
use super::tokens::{Token, tokens};
use super::{PoisonFinding, PoisonKind};

/// Files that hold keys and histories. Lower case; matched anywhere in the text.
const FILES: &[&str] = &[
    "~/.ssh",
    "/.ssh/",
    ".ssh/",
    "id_rsa",
    "id_ed25519",
    "id_ecdsa",
    "ssh_id",
    "authorized_keys",
    ".aws/credentials",
    "~/.aws",
    ".aws/config",
    ".config/gcloud",
    ".azure/",
    ".kube/config",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".gnupg",
    ".docker/config.json",
    ".cursor/mcp.json",
    "mcp.json",
    "claude_desktop_config",
    "/etc/passwd",
    "/etc/shadow",
    "/proc/self/environ",
    ".bash_history",
    ".zsh_history",
    "wallet.dat",
    "login.keychain",
    "logins.json",
    "cookies.sqlite",
    "secrets.yaml",
    "secrets.yml",
    ".pgpass",
    "terraform.tfstate",
    ".vault-token",
    "~/.config",
    "%appdata%",
    "%userprofile%",
    "~/documents",
    "~/library/",
    ".env.local",
    ".env.production",
];
/// Hidden files in the home directory.
const HOMES: &[&str] = &["~/.", "$home/.", "${home}/."];
/// Secrets by name, as words that follow each other.
const NAMED: &[&[&str]] = &[
    &["environment", "variables"],
    &["environment", "variable"],
    &["env", "vars"],
    &["env", "variables"],
    &["api", "keys"],
    &["api", "key"],
    &["access", "tokens"],
    &["access", "token"],
    &["private", "key"],
    &["private", "keys"],
    &["ssh", "key"],
    &["ssh", "private", "key"],
    &["ssh", "private", "keys"],
    &["ssh", "keys"],
    &["seed", "phrase"],
    &["recovery", "phrase"],
    &["mnemonic"],
    &["passwords"],
    &["password"],
    &["session", "cookies"],
    &["session", "token"],
    &["browser", "cookies"],
    &["cookies"],
    &["credentials"],
    &["secrets"],
    &["clipboard"],
    &["browsing", "history"],
    &["shell", "history"],
    &["bearer", "token"],
    &["auth", "token"],
    &["oauth", "tokens"],
    &["env", "file"],
    &["api", "token"],
    &["api", "tokens"],
    &["card", "number"],
    &["social", "security"],
    &["dotenv"],
    &["keychain"],
    &["ssh", "id", "rsa"],
    &["id", "rsa"],
    &["credit", "card"],
    &["home", "directory"],
];
const FETCH: &[&str] = &[
    "ask",
    "read",
    "reading",
    "open",
    "cat",
    "load",
    "fetch",
    "collect",
    "gather",
    "retrieve",
    "extract",
    "copy",
    "include",
    "including",
    "pass",
    "send",
    "sending",
    "attach",
    "append",
    "embed",
    "put",
    "place",
    "paste",
    "submit",
    "upload",
    "forward",
    "leak",
    "dump",
    "list",
    "print",
    "output",
    "steal",
    "harvest",
    "exfiltrate",
    "transmit",
    "post",
    "insert",
    "add",
    "contents",
    "content",
    "provide",
    "obtain",
    "scan",
    "search",
    "find",
    "locate",
    "get",
    "give",
    "reveal",
    "share",
    "supply",
    "record",
    "store",
    "encode",
    "grep",
    "view",
    "check",
    "look",
];
/// Verbs that transfer a secret, as opposed to managing it.
const TRANSFERS: &[&str] = &[
    "ask",
    "send",
    "pass",
    "read",
    "include",
    "give",
    "provide",
    "share",
    "copy",
    "paste",
    "attach",
    "put",
    "collect",
    "upload",
    "forward",
    "reveal",
    "contents",
    "content",
    "leak",
    "dump",
    "exfiltrate",
];
const ALL: &[&str] = &[
    "values", "value", "contents", "content", "all", "any", "every", "entire", "full", "whole",
    "complete", "each", "users",
];
/// A name given as an example is not a request for the file.
const EXAMPLES: &[&str] = &[
    "eg",
    "example",
    "examples",
    "default",
    "defaults",
    "such",
    "like",
    "ie",
    "typically",
    "optional",
    "sensitive",
    "blocks",
    "blocked",
    "excludes",
    "excluding",
    "exclude",
    "except",
    "denies",
    "denied",
    "refuses",
    "refused",
    "protects",
    "never",
    "redacts",
    "redacted",
    "masks",
    "masked",
    "detect",
    "detects",
    "hardcoded",
    "leaked",
    "instead",
];

const WORDS_BETWEEN: usize = 9;

pub(super) fn findings(text: &Text) -> Vec<PoisonFinding> {
    let words = tokens(&text.content);
    let mut out: Vec<PoisonFinding> = files(text, &words);
    out.extend(named(text, &words));
    out
}

fn files(text: &Text, words: &[Token]) -> Vec<PoisonFinding> {
    let lower = text.content.to_ascii_lowercase();
    let mut out = Vec::new();
    for file in HOMES.iter().chain(FILES).chain(&[".env"]) {
        let Some(start) = lower.find(file) else { continue };
        let end = start + file.len();
        if *file == ".env" && !is_whole_name(&lower, start, end) {
            continue;
        }
        let Some(verb) = verb_near(words, start) else { continue };
        out.push(finding(text, PoisonKind::Harvest, verb.start.min(start), end.max(verb.end), 80));
    }
    out
}

/// `.env` and not `process.env.X` or `.environment`.
fn is_whole_name(text: &str, start: usize, end: usize) -> bool {
    let before = text.get(..start).and_then(|t| t.chars().next_back());
    let after = text.get(end..).and_then(|t| t.chars().next());
    let part = |c: char| c.is_alphanumeric() || c == '_';
    !before.is_some_and(part) && !after.is_some_and(part)
}

fn named(text: &Text, words: &[Token]) -> Vec<PoisonFinding> {
    let mut out = Vec::new();
    for at in 0..words.len() {
        let rest = words.get(at..).unwrap_or_default();
        let Some(length) =
            NAMED.iter().filter(|name| starts_with(rest, name)).map(|n| n.len()).max()
        else {
            continue;
        };
        let (Some(first), Some(last)) = (rest.first(), rest.get(length - 1)) else { continue };
        let Some(verb) = verb_near(words, first.start) else { continue };
        let between = words.iter().filter(|w| w.start > verb.start && w.start < first.start);
        let wide = between.clone().any(|w| ALL.contains(&w.text.as_str()));
        // A parameter `api_key` is meant to hold a key.
        let points = match (text.role, wide) {
            (Role::Name, _) if !is_sentence(&text.content) => 5,
            (_, true) if is_grave(rest) => 100,
            (_, false) if is_grave(rest) && TRANSFERS.contains(&verb.text.as_str()) => 70,
            (_, true) => 60,
            (_, false) => 20,
        };
        out.push(finding(text, PoisonKind::Harvest, verb.start, last.end, points));
    }
    out
}

/// Secrets that no tool needs.
fn is_grave(words: &[Token]) -> bool {
    let first = words.first().map_or("", |w| w.text.as_str());
    let second = words.get(1).map_or("", |w| w.text.as_str());
    first == "mnemonic"
        || first == "ssh"
        || matches!((first, second), ("seed" | "recovery", "phrase") | ("private", "key" | "keys"))
}

fn starts_with(words: &[Token], name: &[&str]) -> bool {
    words.len() >= name.len() && words.iter().zip(name).all(|(w, n)| w.text == *n)
}

/// The nearest verb that fetches or transfers, shortly before the byte offset in the same sentence, unless
/// a word between them marks an example.
fn verb_near(words: &[Token], offset: usize) -> Option<&Token> {
    let here = words.iter().position(|w| w.end > offset)?;
    let sentence = words.get(here)?.sentence;
    let from = here.saturating_sub(WORDS_BETWEEN);
    let near = words.get(from..here)?.iter().rev().take_while(|w| w.sentence == sentence);
    let near: Vec<&Token> = near.collect();
    if near.iter().any(|w| EXAMPLES.contains(&w.text.as_str())) {
        return None;
    }
    near.into_iter().find(|w| FETCH.contains(&w.text.as_str()))
}
