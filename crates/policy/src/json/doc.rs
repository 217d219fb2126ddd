//! A parsed document and views into it. Values are small copies; text is borrowed from the source.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use super::bounds::Bounds;
use super::reader;
use super::refusal::{Refusal, line_column};
use super::text::decode;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

/// One value or key. Children follow their parent directly; an object's are key, value, key, value.
#[derive(Debug, Clone, Copy)]
pub(super) struct DocNode {
    pub(super) start: u32,
    pub(super) end: u32,
    /// Index of the node after this one and all it holds.
    pub(super) next: u32,
    /// Members or items of a container.
    pub(super) len: u32,
    pub(super) kind: Kind,
    /// A string with escapes.
    pub(super) escaped: bool,
    /// A container whose content was checked but not kept.
    pub(super) unopened: bool,
}

/// A parsed text with the position of every value.
pub struct Doc<'a> {
    text: &'a str,
    nodes: Vec<DocNode>,
}

impl<'a> Doc<'a> {
    /// Reads one JSON value, with white space around it and nothing else.
    pub fn read(bytes: &'a [u8], bounds: &Bounds) -> Result<Doc<'a>, Refusal> {
        Doc::read_shallow(bytes, bounds, usize::MAX)
    }

    /// Reads and checks everything but keeps only the members of containers down to `record_depth`:
    /// with 1, the root and its members. What lies deeper costs no memory, is not counted as nodes, and
    /// its keys are not compared. A container that was not opened says so ([`Value::is_unopened`]) and
    /// seems empty.
    pub fn read_shallow(
        bytes: &'a [u8],
        bounds: &Bounds,
        record_depth: usize,
    ) -> Result<Doc<'a>, Refusal> {
        reader::read(bytes, bounds, record_depth)
    }

    pub(super) fn new(text: &'a str, nodes: Vec<DocNode>) -> Doc<'a> {
        Doc { text, nodes }
    }

    pub(super) fn nodes_mut(&mut self) -> &mut Vec<DocNode> {
        &mut self.nodes
    }

    pub fn root(&self) -> Value<'_> {
        self.value(0)
    }

    pub(super) fn value(&self, at: u32) -> Value<'_> {
        Value { doc: self, at }
    }

    pub fn text(&self) -> &'a str {
        self.text
    }

    #[inline]
    fn node(&self, at: u32) -> &DocNode {
        static NOTHING: DocNode = DocNode {
            start: 0,
            end: 0,
            next: u32::MAX,
            len: 0,
            kind: Kind::Null,
            escaped: false,
            unopened: false,
        };
        // Indices come from this document, so the fallback is never used.
        self.nodes.get(at as usize).unwrap_or(&NOTHING)
    }
}

/// A value inside a [`Doc`].
#[derive(Clone, Copy)]
pub struct Value<'d> {
    doc: &'d Doc<'d>,
    at: u32,
}

impl<'d> Value<'d> {
    #[inline]
    fn node(self) -> &'d DocNode {
        self.doc.node(self.at)
    }

    pub fn kind(self) -> Kind {
        self.node().kind
    }

    /// The exact source text of this value.
    pub fn raw(self) -> &'d str {
        self.doc.text.get(self.span()).unwrap_or("")
    }

    /// Its byte range in the source.
    pub fn span(self) -> Range<usize> {
        let node = self.node();
        node.start as usize..node.end as usize
    }

    /// The member of an object by its decoded key.
    pub fn get(self, key: &str) -> Option<Value<'d>> {
        let Range { start: mut at, end } = self.inside(Kind::Object);
        while at < end {
            let value = self.doc.value(at + 1);
            if Key(self.doc.value(at)).is(key) {
                return Some(value);
            }
            at = value.node().next;
        }
        None
    }

    /// The members of an object in source order; none for other kinds.
    pub fn entries(self) -> Entries<'d> {
        Entries { doc: self.doc, range: self.inside(Kind::Object) }
    }

    /// The items of an array in source order; none for other kinds.
    pub fn items(self) -> Items<'d> {
        Items { doc: self.doc, range: self.inside(Kind::Array) }
    }

    fn inside(self, kind: Kind) -> Range<u32> {
        let node = self.node();
        if node.kind == kind { self.at + 1..node.next } else { 0..0 }
    }

    /// Members of an object or items of an array; 0 for other kinds.
    pub fn len(self) -> usize {
        self.node().len as usize
    }

    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// A container below the recorded depth of [`Doc::read_shallow`]: checked, but not kept.
    pub fn is_unopened(self) -> bool {
        self.node().unopened
    }

    /// A string without escapes, so that its source text is its value.
    pub(super) fn is_unescaped(self) -> bool {
        let node = self.node();
        node.kind == Kind::String && !node.escaped
    }

    /// The decoded text of a string.
    pub fn as_str(self) -> Option<Cow<'d, str>> {
        let node = self.node();
        (node.kind == Kind::String).then(|| decode(inner(self.raw()), node.escaped))
    }

    pub fn as_bool(self) -> Option<bool> {
        (self.kind() == Kind::Bool).then(|| self.raw() == "true")
    }

    /// The text of a number, as written.
    pub fn as_number(self) -> Option<&'d str> {
        (self.kind() == Kind::Number).then(|| self.raw())
    }

    pub fn is_null(self) -> bool {
        self.kind() == Kind::Null
    }

    /// Line and column, both from 1.
    pub fn line_column(self) -> (usize, usize) {
        line_column(self.doc.text.as_bytes(), self.span().start)
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Messages hold personal data, so only the shape is shown.
        write!(f, "Value({:?} at {:?})", self.kind(), self.span())
    }
}

/// The key of an object's member.
#[derive(Clone, Copy)]
pub struct Key<'d>(Value<'d>);

impl<'d> Key<'d> {
    /// The decoded key.
    pub fn text(self) -> Cow<'d, str> {
        self.0.as_str().unwrap_or_default()
    }

    /// The key as written, quotes included.
    pub fn raw(self) -> &'d str {
        self.0.raw()
    }

    pub fn span(self) -> Range<usize> {
        self.0.span()
    }

    pub fn line_column(self) -> (usize, usize) {
        self.0.line_column()
    }

    /// Whether the decoded key is this text.
    #[inline]
    pub fn is(self, text: &str) -> bool {
        let node = self.0.node();
        if node.escaped {
            return self.text() == text;
        }
        // Most keys differ in length. Compared as bytes: the quotes at both ends are known, and
        // character boundaries do not matter.
        let inside = node.start as usize + 1..(node.end as usize).saturating_sub(1);
        inside.len() == text.len()
            && self.0.doc.text.as_bytes().get(inside) == Some(text.as_bytes())
    }

    /// The key when it is written without escapes.
    pub(super) fn plain(self) -> Option<&'d str> {
        let node = self.0.node();
        let inside = node.start as usize + 1..(node.end as usize).saturating_sub(1);
        (!node.escaped).then(|| self.0.doc.text.get(inside).unwrap_or(""))
    }
}

impl fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key(at {:?})", self.span())
    }
}

fn inner(literal: &str) -> &str {
    literal.get(1..literal.len().saturating_sub(1)).unwrap_or("")
}

/// The members of an object.
#[derive(Clone)]
pub struct Entries<'d> {
    doc: &'d Doc<'d>,
    range: Range<u32>,
}

impl<'d> Iterator for Entries<'d> {
    type Item = (Key<'d>, Value<'d>);

    fn next(&mut self) -> Option<Self::Item> {
        let key = self.range.next()?;
        let value = self.doc.value(key + 1);
        self.range.start = value.node().next;
        Some((Key(self.doc.value(key)), value))
    }
}

/// The items of an array.
#[derive(Clone)]
pub struct Items<'d> {
    doc: &'d Doc<'d>,
    range: Range<u32>,
}

impl<'d> Iterator for Items<'d> {
    type Item = Value<'d>;

    fn next(&mut self) -> Option<Value<'d>> {
        let at = self.range.next()?;
        let item = self.doc.value(at);
        self.range.start = item.node().next;
        Some(item)
    }
}
