//! What a definition says about tools that are not its server's, and names that look alike across
//! servers.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};

use policy::json::Value;
use serde::Serialize;

use super::matcher::finding;
use super::texts::{Role, Text};
use super::words::words;
use super::{PoisonFinding, PoisonKind};
use crate::classify::{is_any_verb, is_verb};
use crate::pins::look_alike_key;

/// Words that turn a mention into an order.
const ORDERS: &[&str] = &[
    "must",
    "always",
    "instead",
    "never",
    "also",
    "change",
    "replace",
    "redirect",
    "deprecated",
    "broken",
    "unsafe",
    "override",
    "silently",
    "forward",
    "bcc",
    "append",
    "modify",
    "intercept",
    "whenever",
    "disabled",
    "insecure",
    "secretly",
    "every",
];

/// Points of a mention: of a tool that another server of the stack is known to have, and of one that
/// reads like a tool of somebody else. Steering alone is reported; an order or a mention is not.
const STEERS_KNOWN: u32 = 120;
const STEERS: u32 = 100;
const ORDERED: u32 = 50;
const MENTIONS_KNOWN: u32 = 20;
const MENTIONS: u32 = 10;

/// Orders about tools that the server does not have. `others` are tools that other servers have.
pub(super) fn orders(
    definition: Value<'_>,
    texts: &[Text],
    siblings: &[&str],
    others: &[&str],
) -> Vec<PoisonFinding> {
    // Most definitions name no tool, and of a server with thousands of them each has as many siblings.
    let own = LazyCell::new(|| own_names(definition, texts, siblings));
    let mut out = Vec::new();
    for text in texts.iter().filter(|t| t.role == Role::Prose) {
        for (start, name) in identifiers(&text.said) {
            let known = others.contains(&name);
            let act = || mention(&text.said, start, name.len());
            // `search_products` begins with a noun as often as with a verb; an order settles it.
            let named = known || starts_with(name, is_verb) || {
                name.contains('_') && starts_with(name, is_any_verb) && act() == Mention::Steered
            };
            if !named || is_own(&own, name) {
                continue;
            }
            // `create-cluster` is as often a command or an operation as a tool.
            let sure = known || name.contains(|c: char| c == '_' || c.is_ascii_uppercase());
            let points = match act() {
                Mention::Steered if known => STEERS_KNOWN,
                Mention::Ordered if known => STEERS,
                Mention::Steered if sure => STEERS,
                Mention::Ordered if sure => ORDERED,
                _ if known => MENTIONS_KNOWN,
                _ => MENTIONS,
            };
            out.push(finding(text, PoisonKind::OtherTools, start, start + name.len(), points));
        }
    }
    out
}

/// Addresses that a sentence gives orders about: "every mail also goes to …".
pub(super) fn addresses(text: &Text) -> Vec<PoisonFinding> {
    let mut out = Vec::new();
    for (start, piece) in pieces(&text.said) {
        let is_mail = piece.split_once('@').is_some_and(|(user, host)| {
            !user.is_empty() && host.contains('.') && !host.contains('@')
        });
        let is_url = piece.starts_with("http://") || piece.starts_with("https://");
        if !is_mail && !is_url || text.role == Role::Name {
            continue;
        }
        let points = if is_mail { 60 } else { 40 };
        if directed(&text.said, start) {
            out.push(finding(text, PoisonKind::Redirect, start, start + piece.len(), points));
        }
    }
    out
}

fn pieces(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_whitespace().map(move |piece| {
        let start = piece.as_ptr() as usize - text.as_ptr() as usize;
        let trimmed = piece.trim_start_matches(['"', '\'', '(', '<', '`']);
        let front = piece.len() - trimmed.len();
        (start + front, trimmed.trim_end_matches(['"', '\'', ')', '>', '`', '.', ',', ';', ':']))
    })
}

/// A sentence that sends something somewhere, always or for everything, and gives no example.
fn directed(text: &str, place: usize) -> bool {
    const MOVES: &[&str] = &[
        "send",
        "sends",
        "forward",
        "copy",
        "bcc",
        "cc",
        "mail",
        "post",
        "upload",
        "report",
        "go",
        "goes",
        "recipient",
        "deliver",
        "load",
        "loads",
        "call",
        "transmit",
        "submit",
        "invite",
        "changed",
        "sent",
        "copied",
        "forwarded",
        "route",
        "routed",
        "fetch",
        "request",
        "add",
    ];
    const ALWAYS: &[&str] = &[
        "must", "always", "every", "all", "each", "also", "whenever", "has", "need", "needs",
        "any", "silently", "secretly", "never", "first", "instead", "before", "after",
    ];
    const EXAMPLES: &[&str] = &[
        "example",
        "examples",
        "eg",
        "such",
        "like",
        "see",
        "docs",
        "documentation",
        "format",
        "ie",
    ];
    let all = words(text);
    let Some(here) = all.iter().find(|w| w.end > place) else { return false };
    let sentence: Vec<&str> =
        all.iter().filter(|w| w.sentence == here.sentence).map(|w| w.text.as_str()).collect();
    let has = |list: &[&str]| sentence.iter().any(|w| list.contains(w));
    has(MOVES) && has(ALWAYS) && !has(EXAMPLES)
}

/// Everything the definition may name without pointing elsewhere: siblings, fields, choices.
fn own_names(definition: Value<'_>, texts: &[Text], siblings: &[&str]) -> BTreeSet<String> {
    let name = definition.get("name").and_then(Value::as_str).unwrap_or_default();
    let fields = texts.iter().filter(|t| t.role == Role::Name).map(|t| t.said.as_str());
    siblings.iter().copied().chain(fields).chain([name.as_ref()]).map(look_alike_key).collect()
}

/// A short or prefixed form of an own name is an own name.
fn is_own(own: &BTreeSet<String>, name: &str) -> bool {
    let key = look_alike_key(name);
    own.iter().any(|known| {
        let long = known.len() > 3;
        // `list_ordersArguments` is what a generator calls the schema of `list_orders`.
        known.ends_with(&key)
            || long && (key.ends_with(known.as_str()) || key.starts_with(known.as_str()))
    })
}

/// Names written as code: `send_email`, `sendEmail`, `send-email` in backticks.
fn identifiers(text: &str) -> Vec<(usize, &str)> {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let mut out = Vec::new();
    let mut at = 0;
    for piece in text.split(|c| !part(c)) {
        let start = at;
        let next = text.get(at + piece.len()..).and_then(|t| t.chars().next());
        at += piece.len() + next.map_or(0, char::len_utf8);
        let quoted = matches!(next, Some('`' | '\'' | '"' | '('));
        let snake = piece.contains('_') || quoted && piece.contains('-');
        let camel = piece.starts_with(|c: char| c.is_ascii_lowercase())
            && piece.contains(|c: char| c.is_ascii_uppercase());
        if piece.len() > 4 && (snake || camel) && piece.bytes().any(|b| b.is_ascii_lowercase()) {
            out.push((start, piece));
        }
    }
    out
}

/// Tools are called for what they do: `send_email`, not `user_id`.
fn starts_with(name: &str, is_verb: fn(&str) -> bool) -> bool {
    const FIELD_ENDS: &[&str] =
        &["id", "ids", "at", "to", "by", "type", "name", "count", "url", "arguments"];
    let words = words(name);
    let is_field = words.last().is_some_and(|w| FIELD_ENDS.contains(&w.text.as_str()));
    !is_field && words.first().is_some_and(|w| is_verb(&w.text))
}

/// What the sentence around a name does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mention {
    /// Tells the model to avoid the tool, or how to call it.
    Steered,
    /// Holds a word that gives an order.
    Ordered,
    Plain,
}

/// Words before a name that speak against it, and verbs that make them about its use.
const AGAINST: &[&str] =
    &["instead", "never", "not", "dont", "avoid", "stop", "rather", "replaces", "supersedes"];
const USES: &[&str] = &[
    "use",
    "using",
    "call",
    "calling",
    "invoke",
    "invoking",
    "run",
    "running",
    "of",
    "than",
    "avoid",
    "replaces",
    "supersedes",
    "trust",
];
/// "Whenever you call X …" and what the model is then told to do.
const WHENEVER: &[&str] = &["when", "whenever", "before", "after", "every", "each", "any", "if"];
const THEN: &[&str] = &[
    "must", "always", "also", "set", "add", "include", "append", "bcc", "cc", "replace", "change",
    "pass", "copy", "forward", "send", "instead",
];
/// Words before a name that can speak about it.
const NEAR_WORDS: usize = 6;

fn mention(text: &str, start: usize, length: usize) -> Mention {
    let all = words(text);
    let Some(here) = all.iter().find(|w| w.start >= start && w.start < start + length) else {
        return Mention::Plain;
    };
    let sentence: Vec<_> = all.iter().filter(|w| w.sentence == here.sentence).collect();
    let before: Vec<&str> =
        sentence.iter().filter(|w| w.end <= start).map(|w| w.text.as_str()).collect();
    let near = before.get(before.len().saturating_sub(NEAR_WORDS)..).unwrap_or(&before);
    let has = |words: &[&str], list: &[&str]| words.iter().any(|w| list.contains(w));
    let after: Vec<&str> =
        sentence.iter().filter(|w| w.start >= start + length).map(|w| w.text.as_str()).collect();
    let against = has(near, AGAINST) && has(near, USES);
    let whenever = has(near, WHENEVER) && has(near, USES) && has(&after, THEN);
    if against || whenever {
        Mention::Steered
    } else if sentence.iter().any(|w| ORDERS.contains(&w.text.as_str())) {
        Mention::Ordered
    } else {
        Mention::Plain
    }
}

/// A tool and the server that offers it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Offered {
    pub server: String,
    pub tool: String,
}

/// Tools of different servers, or of one, whose names a person or a model takes for each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LookAlike {
    pub tools: Vec<Offered>,
    /// The very same name, so that one may be called for the other.
    pub is_same_name: bool,
}

/// Groups of names that look alike. One server may offer `get_user` and `getUser`; that is reported
/// too, because an agent cannot tell them apart either.
pub fn look_alikes<'a>(offered: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<LookAlike> {
    let mut groups: BTreeMap<String, BTreeSet<Offered>> = BTreeMap::new();
    for (server, tool) in offered {
        let offered = Offered { server: server.to_owned(), tool: tool.to_owned() };
        groups.entry(look_alike_key(tool)).or_default().insert(offered);
    }
    let several = groups.into_values().filter(|group| group.len() > 1);
    several
        .map(|group| {
            let tools: Vec<Offered> = group.into_iter().collect();
            let first = tools.first().map(|o| o.tool.clone()).unwrap_or_default();
            LookAlike { is_same_name: tools.iter().all(|o| o.tool == first), tools }
        })
        .collect()
}
