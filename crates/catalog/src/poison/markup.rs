//! Finds markup that hides text or claims authority: chat roles, tags, comments, hidden styles, and
//! padding that pushes text out of view.

use super::matcher::{finding, points};
use super::texts::{Role, Text};
use super::{PoisonFinding, PoisonKind};

/// Chat format tokens, which do not belong in a definition.
const ROLE_MARKS: &[&str] = &[
    "<|im_start|>",
    "<|im_end|>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|endoftext|>",
    "[inst]",
    "[/inst]",
    "<<sys>>",
    "<</sys>>",
    "<|start_header_id|>",
    "<|eot_id|>",
    "<start_of_turn>",
    "</s><s>",
    "<function_calls>",
    "<tool_call>",
    "</tool_response>",
    "</tool_result>",
];
/// Tags that claim authority, with points.
const TAGS: &[(&str, u32)] = &[
    ("system", 100),
    ("system_prompt", 100),
    ("system-prompt", 100),
    ("system-reminder", 100),
    ("system_instruction", 100),
    ("secret", 100),
    ("hidden", 100),
    ("admin", 100),
    ("override", 100),
    ("assistant", 80),
    ("developer", 70),
    ("ai_instructions", 100),
    ("ai-instructions", 100),
    ("sudo", 100),
    ("important", 60),
    ("critical", 60),
    ("mandatory", 60),
    ("instructions", 40),
    ("instruction", 40),
    ("internal", 60),
    ("prerequisite", 50),
    ("directive", 80),
    ("security", 50),
    ("policy", 40),
];
/// Chat roles at the start of a line.
const ROLES: &[&str] = &[
    "system:",
    "assistant:",
    "### system",
    "### instruction",
    "[system]",
    "## system prompt",
    "human:",
    "[important system",
    "[admin",
    "[system ",
];
const STYLES: &[&str] = &[
    " hidden>",
    "display:none",
    "display: none",
    "font-size:0",
    "font-size: 0",
    "visibility:hidden",
    "opacity:0",
    "color:white",
    "color:#fff",
    "color: white",
];

/// Consecutive white space that pushes text out of view.
const BLANKS_MIN: usize = 80;
const BLANK_LINES_MIN: usize = 14;

pub(super) fn findings(text: &Text) -> Vec<PoisonFinding> {
    let lower = text.content.to_ascii_lowercase();
    let mut out = Vec::new();
    let mut add = |kind: PoisonKind, start: usize, end: usize, points: u32| {
        out.push(finding(text, kind, start, end, points));
    };
    if let Some(start) = text.content.find("[SYSTEM").or_else(|| text.content.find("[ADMIN")) {
        add(PoisonKind::Authority, start, start + 7, 100);
    }
    for mark in ROLE_MARKS {
        if let Some(start) = lower.find(mark) {
            add(PoisonKind::Authority, start, start + mark.len(), 110);
        }
    }
    for (tag, points) in TAGS {
        if let Some((start, end)) = tagged(&text.content, &lower, tag) {
            add(PoisonKind::Authority, start, end, *points);
        }
    }
    for (start, line) in lines(&lower) {
        let role = ROLES.iter().find(|role| {
            line.trim_start_matches(['*', '#', '>', ' ', '-']).starts_with(*role)
                || line.starts_with(*role)
        });
        // `system: metric` names a choice; a role is followed by a sentence.
        if let Some(role) =
            role.filter(|role| line.split_whitespace().count() > 4 || role.starts_with('['))
        {
            add(PoisonKind::Authority, start, start + role.len(), 70);
        }
    }
    for (start, end) in comments(&lower) {
        let inside = text.content.get(start..end).unwrap_or_default();
        if inside.split_whitespace().count() > 3 {
            add(PoisonKind::OutOfSight, start, end, comment_points(inside));
        }
    }
    if lower.contains("style=") || lower.contains("<span") || lower.contains("<div") {
        for style in STYLES {
            if let Some(start) = lower.find(style) {
                add(PoisonKind::OutOfSight, start, start + style.len(), 100);
            }
        }
    }
    if let Some((start, end)) = download_into_shell(&lower) {
        add(PoisonKind::Redirect, start, end, 60);
    }
    if let Some(at) = padding(&text.content) {
        add(PoisonKind::OutOfSight, at, text.content.len(), 100);
    }
    let image = leaking_image(&lower).filter(|_| text.role == Role::Prose);
    if let Some((start, end)) = image {
        add(PoisonKind::Redirect, start, end, 100);
    }
    out
}

/// Instructions in a comment are never honest; a `/* */` comment may be part of a code example.
fn comment_points(inside: &str) -> u32 {
    match (points(inside), inside.starts_with("/*")) {
        (0, true) => 40,
        (0, false) => 100,
        _ => 120,
    }
}

/// `<tag>…</tag>` with words inside, or an upper-case `<TAG>` before a sentence.
fn tagged(text: &str, lower: &str, tag: &str) -> Option<(usize, usize)> {
    let open = format!("<{tag}>");
    let start = lower.find(&open)?;
    let after = start + open.len();
    let rest = lower.get(after..)?;
    if let Some(length) = rest.find(&format!("</{tag}>")) {
        let inside = rest.get(..length)?;
        return (inside.split_whitespace().count() > 2).then_some((start, after + length));
    }
    let shouts = text.get(start..after)?.chars().all(|c| !c.is_lowercase());
    (shouts && rest.split_whitespace().count() > 4).then_some((start, after))
}

fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_inclusive('\n').scan(0, |at, line| {
        let start = *at;
        *at += line.len();
        Some((start, line))
    })
}

/// HTML and Markdown comments.
fn comments(text: &str) -> Vec<(usize, usize)> {
    let mut out = Vec::new();
    for (open, close) in
        [("<!--", "-->"), ("[//]: #", "\n"), ("[comment]: #", "\n"), ("{#", "#}"), ("/*", "*/")]
    {
        let Some(start) = text.find(open) else { continue };
        let rest = text.get(start..).unwrap_or_default();
        let closed = rest.find(close).map(|length| start + length + close.len());
        match closed {
            Some(end) => out.push((start, end)),
            None if open.starts_with('[') || opens_an_order(rest) => out.push((start, text.len())),
            None => {}
        }
    }
    out
}

/// An unclosed comment counts if it contains instructions; mail templates use `<!--[if mso]>`.
fn opens_an_order(rest: &str) -> bool {
    rest.starts_with("<!--") && !rest.starts_with("<!--[if") && points(rest) > 0
}

/// The start of text that continues after a long blank run.
fn padding(text: &str) -> Option<usize> {
    let (mut blanks, mut breaks, mut start) = (0, 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '\n' | '\r' => {
                breaks += usize::from(c == '\n');
                blanks = 0;
            }
            c if c.is_whitespace() => blanks += 1,
            _ => {
                if blanks >= BLANKS_MIN || breaks > BLANK_LINES_MIN {
                    let rest = text.get(at..).unwrap_or_default();
                    return (rest.split_whitespace().count() > 2).then_some(start);
                }
                (blanks, breaks, start) = (0, 0, at);
            }
        }
    }
    None
}

/// `curl … | sh`.
fn download_into_shell(text: &str) -> Option<(usize, usize)> {
    let start = text.find("curl ").or_else(|| text.find("wget "))?;
    let rest = text.get(start..)?;
    let line = rest.lines().next()?;
    let pipe = line.find('|')?;
    let program = line.get(pipe + 1..)?.split_whitespace().next()?;
    let program = program.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    matches!(program, "sh" | "bash" | "zsh" | "python" | "python3")
        .then_some((start, start + line.len()))
}

/// An image whose URL carries data: rendering it sends the data.
fn leaking_image(text: &str) -> Option<(usize, usize)> {
    let start = text.find("![")?;
    let rest = text.get(start..)?;
    let open = rest.find("](http")?;
    let end = rest.get(open..)?.find(')')? + open;
    let address = rest.get(open..end)?;
    let carries = ["{", "<", "data=", "q=", "[", "$"]
        .iter()
        .any(|mark| address.get(2..).is_some_and(|a| a.contains(mark)));
    carries.then_some((start, start + end + 1))
}
