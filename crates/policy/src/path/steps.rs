//! The steps of a path: `.name`, `["odd name"]`, `[0]`, `[*]`.

use crate::json::{Bounds, Doc};
use crate::problem::Complaint;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PathStep {
    Member(Box<str>),
    Index(usize),
    Every,
}

/// Reads steps until the text ends.
pub(crate) fn read_steps(text: &str) -> Result<Vec<PathStep>, Complaint> {
    let mut steps = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (step, after) = match rest.strip_prefix('.') {
            Some(after) => read_name(after)?,
            None => read_bracket(rest)?,
        };
        steps.push(step);
        rest = after;
    }
    Ok(steps)
}

fn read_name(text: &str) -> Result<(PathStep, &str), Complaint> {
    let end = text.find(['.', '[']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '*' | ']' | '"' | '\'');
    if name.is_empty() {
        return Err(Complaint::new("empty name in a path").hint("write `[\"\"]` for one"));
    }
    if name.contains(odd) {
        let hint = format!("write `[\"{name}\"]`, or `[*]` for every element of a list");
        return Err(Complaint::new(format!("the name `{name}` needs quotes in a path")).hint(hint));
    }
    Ok((PathStep::Member(name.into()), rest))
}

fn read_bracket(text: &str) -> Result<(PathStep, &str), Complaint> {
    let bad = || {
        Complaint::new("invalid step in a path")
            .hint("steps are `.name`, `[\"odd name\"]`, `[0]` and `[*]`")
    };
    let inside = text.strip_prefix('[').ok_or_else(bad)?;
    if let Some(rest) = inside.strip_prefix("*]") {
        return Ok((PathStep::Every, rest));
    }
    if inside.starts_with('"') {
        let end = string_end(inside).ok_or_else(bad)?;
        let (literal, rest) = inside.split_at(end);
        let rest = rest.strip_prefix(']').ok_or_else(bad)?;
        let doc = Doc::read(literal.as_bytes(), &Bounds::POLICY).map_err(|_| bad())?;
        let name = doc.root().as_str().ok_or_else(bad)?;
        return Ok((PathStep::Member(name.as_ref().into()), rest));
    }
    let (digits, rest) = inside.split_once(']').ok_or_else(bad)?;
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let index = digits.parse().ok().filter(|_| plain).ok_or_else(bad)?;
    Ok((PathStep::Index(index), rest))
}

/// The offset after the closing quote of the string that a text begins with.
fn string_end(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}
