//! Finds instructions about the tools of other servers, and tool names that look alike across servers.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};

use policy::json::Value;
use serde::Serialize;

use super::matcher::finding;
use super::texts::{Role, Text};
use super::tokens::tokens;
use super::{PoisonFinding, PoisonKind};
use crate::classify::{is_any_verb, is_verb};
use crate::pins::look_alike_key;

/// Words that turn a mention into an instruction.
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

/// Points of a mention: of a known tool of another server, and of a name that looks like one. Steering
/// alone is reported; an order or a mention alone is not.
const STEERS_KNOWN: u32 = 120;
const STEERS: u32 = 100;
const ORDERED: u32 = 50;
const MENTIONS_KNOWN: u32 = 20;
const MENTIONS: u32 = 10;

/// Instructions about tools that the server does not have. `others` are known tools of other servers.
pub(super) fn orders(
    definition: Value<'_>,
    texts: &[Text],
    siblings: &[&str],
    others: &[&str],
) -> Vec<PoisonFinding> {
    // Computed lazily: most definitions mention no tool, and a server may have thousands of siblings.
    let own = LazyCell::new(|| own_names(definition, texts, siblings));
    let mut out = Vec::new();
    for text in texts.iter().filter(|t| t.role == Role::Prose) {
        for (start, name) in identifiers(&text.content) {
            let known = others.contains(&name);
            let mention = || classify_mention(&text.content, start, name.len());
            // `search_products` may begin with a noun or a verb; an instruction about it decides.
            let named = known || starts_with(name, is_verb) || {
                name.contains('_')
                    && starts_with(name, is_any_verb)
                    && mention() == Mention::Steered
            };
            if !named || is_own(&own, name) {
                continue;
            }
            // `create-cluster` may be a command or an operation instead of a tool.
            let sure = known || name.contains(|c: char| c == '_' || c.is_ascii_uppercase());
            let points = match mention() {
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

/// Addresses with an instruction to send there: "every mail also goes to …".
pub(super) fn addresses(text: &Text) -> Vec<PoisonFinding> {
    let mut out = Vec::new();
    for (start, piece) in pieces(&text.content) {
        let is_mail = piece.split_once('@').is_some_and(|(user, host)| {
            !user.is_empty() && host.contains('.') && !host.contains('@')
        });
        let is_url = piece.starts_with("http://") || piece.starts_with("https://");
        if !is_mail && !is_url || text.role == Role::Name {
            continue;
        }
        let points = if is_mail { 60 } else { 40 };
        if directed(&text.content, start) {
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

/// Whether the sentence sends something to the address, always or for everything, and is not an example.
fn directed(text: &str, location: usize) -> bool {
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
    let all = tokens(text);
    let Some(here) = all.iter().find(|w| w.end > location) else { return false };
    let sentence: Vec<&str> =
        all.iter().filter(|w| w.sentence == here.sentence).map(|w| w.text.as_str()).collect();
    let has = |list: &[&str]| sentence.iter().any(|w| list.contains(w));
    has(MOVES) && has(ALWAYS) && !has(EXAMPLES)
}

/// Names that belong to the server itself: siblings, fields, choices.
fn own_names(definition: Value<'_>, texts: &[Text], siblings: &[&str]) -> BTreeSet<String> {
    let name = definition.get("name").and_then(Value::as_str).unwrap_or_default();
    let fields = texts.iter().filter(|t| t.role == Role::Name).map(|t| t.content.as_str());
    siblings.iter().copied().chain(fields).chain([name.as_ref()]).map(look_alike_key).collect()
}

/// Whether a name is, or contains, one of the own names.
fn is_own(own: &BTreeSet<String>, name: &str) -> bool {
    let key = look_alike_key(name);
    own.iter().any(|known| {
        let long = known.len() > 3;
        // Generators name the schema of `list_orders` `list_ordersArguments`.
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

/// Tool names start with a verb: `send_email`, not `user_id`.
fn starts_with(name: &str, is_verb: fn(&str) -> bool) -> bool {
    const FIELD_ENDS: &[&str] =
        &["id", "ids", "at", "to", "by", "type", "name", "count", "url", "arguments"];
    let words = tokens(name);
    let is_field = words.last().is_some_and(|w| FIELD_ENDS.contains(&w.text.as_str()));
    !is_field && words.first().is_some_and(|w| is_verb(&w.text))
}

/// How a sentence mentions a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mention {
    /// Tells the model to avoid the tool, or how to call it.
    Steered,
    /// Contains a word that gives an order.
    Ordered,
    Plain,
}

/// Words before a name that discourage its use, and verbs of use.
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
/// "Whenever you call X …", followed by an instruction.
const WHENEVER: &[&str] = &["when", "whenever", "before", "after", "every", "each", "any", "if"];
const THEN: &[&str] = &[
    "must", "always", "also", "set", "add", "include", "append", "bcc", "cc", "replace", "change",
    "pass", "copy", "forward", "send", "instead",
];
/// Words before a name that may refer to it.
const NEAR_WORDS: usize = 6;

fn classify_mention(text: &str, start: usize, length: usize) -> Mention {
    let all = tokens(text);
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
pub struct OfferedTool {
    pub server: String,
    pub tool: String,
}

/// Tools of one or several servers whose names are easily confused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LookAlike {
    pub tools: Vec<OfferedTool>,
    /// All have exactly the same name.
    pub is_same_name: bool,
}

/// Groups of names that look alike. `get_user` and `getUser` of one server are reported too, because an
/// agent may confuse them as well.
pub fn look_alikes<'a>(offered: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<LookAlike> {
    let mut groups: BTreeMap<String, BTreeSet<OfferedTool>> = BTreeMap::new();
    for (server, tool) in offered {
        let offered = OfferedTool { server: server.to_owned(), tool: tool.to_owned() };
        groups.entry(look_alike_key(tool)).or_default().insert(offered);
    }
    let several = groups.into_values().filter(|group| group.len() > 1);
    several
        .map(|group| {
            let tools: Vec<OfferedTool> = group.into_iter().collect();
            let first = tools.first().map(|o| o.tool.clone()).unwrap_or_default();
            LookAlike { is_same_name: tools.iter().all(|o| o.tool == first), tools }
        })
        .collect()
}
