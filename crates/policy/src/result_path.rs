//! Paths into a result, such as `items[*].email`, and the cuts that remove what they lead to from the
//! result's own bytes. Where the shape of a result differs from what the path expects, more is cut, never less.

use std::ops::Range;

use crate::json::{Key, Kind, Value, fold};
use crate::path::{PathStep, read_steps};
use crate::problem::Complaint;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultPath {
    text: Box<str>,
    steps: Box<[PathStep]>,
}

impl ResultPath {
    pub(crate) fn parse(text: &str) -> Result<ResultPath, Complaint> {
        let steps = if text.starts_with('[') {
            read_steps(text)?
        } else {
            read_steps(&format!(".{text}"))?
        };
        Ok(ResultPath { text: text.into(), steps: steps.into() })
    }

    /// The path as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// The byte ranges of the source to leave out so that nothing these paths lead to remains and the rest is
/// still one JSON value. In order, without overlap, in the coordinates of [`Value::span`]. The document
/// must have been read to its full depth.
pub fn cuts(paths: &[ResultPath], value: Value<'_>) -> Vec<Range<usize>> {
    let mut cuts = Vec::new();
    collect(value, paths.iter().map(|path| &*path.steps).collect(), &mut cuts);
    cuts
}

/// The value without what these paths lead to; `None` when there is nothing to remove.
pub fn redacted(paths: &[ResultPath], value: Value<'_>) -> Option<String> {
    let cuts = cuts(paths, value);
    if cuts.is_empty() {
        return None;
    }
    let offset = value.span().start;
    let source = value.raw();
    let mut kept = String::with_capacity(source.len());
    let mut from = 0;
    for cut in cuts {
        kept.push_str(source.get(from..cut.start - offset).unwrap_or_default());
        from = cut.end - offset;
    }
    kept.push_str(source.get(from..).unwrap_or_default());
    Some(kept)
}

/// A member or element with the bytes it takes up.
struct Part<'d> {
    span: Range<usize>,
    value: Value<'d>,
    /// What remains of each path that leads here.
    ways: Vec<Remaining<'d>>,
}

type Remaining<'p> = &'p [PathStep];

fn collect<'d>(value: Value<'d>, ways: Vec<&'d [PathStep]>, cuts: &mut Vec<Range<usize>>) {
    let parts = match value.kind() {
        Kind::Object => members(value, ways),
        Kind::Array => elements(value, &ways),
        _ => return,
    };
    let mut kept_before = false;
    let mut end_before = 0;
    for (index, part) in parts.iter().enumerate() {
        // A string where the path continues may contain the value, so it is cut as a whole.
        let closed = part.value.kind() == Kind::String && !part.ways.is_empty();
        let removed = closed || part.ways.iter().any(|way| way.is_empty());
        if removed {
            // One comma goes with each part: the one before it if something stays before it.
            let next = parts.get(index + 1).map_or(part.span.end, |next| next.span.start);
            cuts.push(if kept_before { end_before..part.span.end } else { part.span.start..next });
        } else {
            kept_before = true;
            if !part.ways.is_empty() {
                collect(part.value, part.ways.clone(), cuts);
            }
        }
        end_before = part.span.end;
    }
}

/// `[*]` on an object means its members, and also the object itself in place of a list of one.
fn members<'d>(object: Value<'d>, mut open: Vec<Remaining<'d>>) -> Vec<Part<'d>> {
    let mut parts: Vec<(_, Part<'d>)> = object
        .entries()
        .map(|(key, value)| {
            let span = key.span().start..value.span().end;
            (key, Part { span, value, ways: Vec::new() })
        })
        .collect();
    while let Some(way) = open.pop() {
        match way.split_first() {
            Some((PathStep::Member(name), rest)) => {
                let named = parts.iter_mut().filter(|(key, _)| is_named(*key, name));
                named.for_each(|(_, part)| part.ways.push(rest));
            }
            Some((PathStep::Every, rest)) => {
                for (_, part) in &mut parts {
                    part.ways.push(rest);
                }
                if !rest.is_empty() {
                    open.push(rest);
                }
            }
            Some((PathStep::Index(_), _)) | None => {}
        }
    }
    parts.into_iter().map(|(_, part)| part).collect()
}

/// Another spelling of the name counts as well, because more is removed rather than less.
fn is_named(key: Key<'_>, name: &str) -> bool {
    key.is(name) || fold(&key.text()) == fold(name)
}

/// A name on a list means that member of every element.
fn elements<'d>(array: Value<'d>, ways: &[Remaining<'d>]) -> Vec<Part<'d>> {
    let part = |(index, value): (usize, Value<'d>)| {
        let here = ways.iter().filter_map(|way| match way.split_first() {
            Some((PathStep::Every, rest)) => Some(rest),
            Some((PathStep::Index(wanted), rest)) => (*wanted == index).then_some(rest),
            Some((PathStep::Member(_), _)) => Some(*way),
            None => None,
        });
        Part { span: value.span(), value, ways: here.collect() }
    };
    array.items().enumerate().map(part).collect()
}

#[cfg(test)]
mod tests;
