//! Where each part of a policy text is: byte ranges of keys and values, in the order of the text.

use std::ops::Range;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span};

use crate::json::{Doc, Kind, Value};
use crate::tree::{BOUNDS, Format};

/// A value in the text.
#[derive(Debug)]
pub(super) struct Spanned {
    pub(super) range: Range<usize>,
    /// Written between brackets, as everything in JSON; otherwise by indentation.
    pub(super) is_flow: bool,
    pub(super) children: Vec<Child>,
}

/// An item of a list, or a member of an object with its key.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) key: Option<(String, Range<usize>)>,
    pub(super) node: Spanned,
}

impl Child {
    /// Where the member or the value of the item begins.
    pub(super) fn start(&self) -> usize {
        self.key.as_ref().map_or(self.node.range.start, |(_, key)| key.start)
    }

    pub(super) fn end(&self) -> usize {
        self.node.range.end
    }
}

impl Spanned {
    pub(super) fn position(&self, step: &str) -> Option<usize> {
        let by_name = |child: &Child| child.key.as_ref().is_some_and(|(name, _)| name == step);
        match self.children.first() {
            Some(Child { key: None, .. }) => {
                step.parse().ok().filter(|at| *at < self.children.len())
            }
            _ => self.children.iter().position(by_name),
        }
    }
}

/// The ranges of a text that was read before. None if the parser does not say where something is.
pub(super) fn of(source: &str, format: Format) -> Option<Spanned> {
    match format {
        Format::Json => {
            let doc = Doc::read(source.as_bytes(), &BOUNDS).ok()?;
            Some(json(doc.root()))
        }
        Format::Yaml => yaml(source),
    }
}

fn json(value: Value<'_>) -> Spanned {
    let children = match value.kind() {
        Kind::Object => value
            .entries()
            .map(|(key, value)| Child {
                key: Some((key.text().into_owned(), key.span())),
                node: json(value),
            })
            .collect(),
        Kind::Array => value.items().map(|item| Child { key: None, node: json(item) }).collect(),
        _ => Vec::new(),
    };
    Spanned { range: value.span(), is_flow: true, children }
}

/// A collection that is still open.
struct Open {
    start: usize,
    is_map: bool,
    children: Vec<Child>,
    key: Option<(String, Range<usize>)>,
}

fn yaml(source: &str) -> Option<Spanned> {
    let offsets = Offsets::new(source);
    let mut open: Vec<Open> = Vec::new();
    let mut root = None;
    for event in Parser::new_from_str(source) {
        let (event, span) = event.ok()?;
        let begin = |is_map| -> Option<Open> {
            let start = offsets.at(span.start)?;
            Some(Open { start, is_map, children: Vec::new(), key: None })
        };
        let done = match event {
            Event::Scalar(text, style, ..) => {
                let range = offsets.scalar(span, style)?;
                if let Some(Open { is_map: true, key: key @ None, .. }) = open.last_mut() {
                    *key = Some((text.into_owned(), range));
                    continue;
                }
                Spanned { range, is_flow: true, children: Vec::new() }
            }
            Event::SequenceStart(..) => {
                open.push(begin(false)?);
                continue;
            }
            Event::MappingStart(..) => {
                open.push(begin(true)?);
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                close(source, open.pop()?, offsets.at(span.start)?)?
            }
            _ => continue,
        };
        match open.last_mut() {
            Some(parent) => parent.children.push(Child { key: parent.key.take(), node: done }),
            None => root = Some(done),
        }
    }
    root
}

/// A bracketed collection ends with its bracket. A block ends with its last value: the parser reports its end
/// after the comments that follow.
fn close(source: &str, open: Open, bracket: usize) -> Option<Spanned> {
    let is_flow = source.get(open.start..)?.starts_with(['{', '[']);
    let end = if is_flow { bracket + 1 } else { open.children.last()?.end() };
    let start = match open.children.first() {
        Some(child) if !is_flow && open.is_map => child.start(),
        // The item begins after its dash.
        Some(child) if !is_flow => source.get(..child.start())?.rfind('-')?,
        _ => open.start,
    };
    Some(Spanned { range: start..end, is_flow, children: open.children })
}

/// Byte offsets of lines: the parser counts characters.
struct Offsets<'s> {
    source: &'s str,
    lines: Vec<usize>,
}

impl<'s> Offsets<'s> {
    fn new(source: &'s str) -> Offsets<'s> {
        let starts = source.match_indices('\n').map(|(at, _)| at + 1);
        Offsets { source, lines: std::iter::once(0).chain(starts).collect() }
    }

    fn at(&self, marker: Marker) -> Option<usize> {
        let Some(line) = self.lines.get(marker.line().checked_sub(1)?) else {
            // The end of a text without a line end.
            return Some(self.source.len());
        };
        let rest = self.source.get(*line..)?;
        let mut chars = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
        Some(line + chars.nth(marker.col())?)
    }

    /// The text of a scalar without the white space after it.
    fn scalar(&self, span: Span, style: ScalarStyle) -> Option<Range<usize>> {
        let range = self.at(span.start)?..self.at(span.end)?;
        let text = self.source.get(range.clone())?;
        let is_quoted = matches!(style, ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted);
        let kept = if is_quoted { text } else { text.trim_end() };
        Some(range.start..range.start + kept.len())
    }
}
