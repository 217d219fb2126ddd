//! Parameters that mean more together than alone: a URL with a method and a body, an
//! amount with a recipient.

use super::{Features, Location};
use crate::classify::tool::{ParsedParameter, ParsedTool};

/// A shape is present when every group has a parameter with one of its words.
const SHAPES: &[(&str, &[&[&str]])] = &[
    ("http", &[&["method", "verb"], &["url", "uri", "path", "endpoint"]]),
    ("command", &[&["command", "cmd", "shell", "argv", "commands"]]),
    (
        "code",
        &[&["code", "script", "javascript", "python", "expression", "snippet", "groovy", "js"]],
    ),
    ("sql", &[&["sql", "cypher", "soql", "statement", "ddl", "mutation"]]),
    ("query", &[&["query"]]),
    (
        "pay",
        &[
            &["amount", "quantity", "qty", "value", "total"],
            &[
                "to",
                "recipient",
                "currency",
                "token",
                "destination",
                "address",
                "side",
                "symbol",
                "payee",
            ],
        ],
    ),
    ("amount", &[&["amount"]]),
    ("page", &[&["limit", "cursor", "offset", "page", "top", "skip", "max", "per", "first"]]),
    ("filter", &[&["filter", "sort", "order", "since", "after", "before", "start", "search"]]),
    ("content", &[&["content", "body", "text", "message", "title", "subject", "comment"]]),
    ("force", &[&["force", "confirm", "confirmed", "permanent", "recursive", "cascade"]]),
    ("point", &[&["x"], &["y"]]),
    ("file", &[&["path", "file", "filename", "filepath", "directory"]]),
    (
        "output",
        &[
            &["output", "save", "destination", "dest", "target", "outdir"],
            &["path", "file", "dir", "directory", "to", "folder", "filename"],
        ],
    ),
    ("dry_run", &[&["dry", "dryrun", "preview"]]),
];

pub(super) fn shapes(tool: &ParsedTool, out: &mut Features) {
    let top: Vec<&ParsedParameter> =
        tool.parameters.iter().filter(|p| p.depth == 0 || tool.parameters.len() < 12).collect();
    for (shape, groups) in SHAPES {
        let found: Vec<&ParsedParameter> =
            groups.iter().filter_map(|group| top.iter().copied().find(|p| has(p, group))).collect();
        if found.len() == groups.len() && !(*shape == "code" && signs_in(tool)) {
            let names: Vec<&str> = found.iter().map(|p| p.name.as_str()).collect();
            let location =
                found.first().map_or(Location::Name, |p| Location::Parameter(p.path.clone()));
            out.add(format!("shape={shape}"), location, &names.join(", "));
        }
    }
    if top.len() == 1 && top.first().is_some_and(|p| is_id(p)) {
        let p = top.first().map_or("", |p| p.name.as_str());
        out.add("shape=one_id".to_owned(), Location::Parameter(p.to_owned()), p);
    }
}

/// The `code` of a sign-in is not a program.
pub(in crate::classify) fn signs_in(tool: &ParsedTool) -> bool {
    let about = ["oauth", "auth", "token", "exchange", "login", "otp", "verification", "authorize"];
    tool.name_words.iter().any(|w| about.contains(&w.base.as_str()))
}

fn has(p: &ParsedParameter, words: &[&str]) -> bool {
    p.words.iter().any(|w| words.contains(&w.lower.as_str()))
}

fn is_id(p: &ParsedParameter) -> bool {
    p.words
        .last()
        .is_some_and(|w| matches!(w.base.as_str(), "id" | "ids" | "key" | "name" | "slug"))
}
