//! The reader itself: one pass over the bytes with a stack of its own, so depth costs no call stack.

use super::bounds::{Bounds, Numbers};
use super::doc::{Doc, DocNode, Kind};
use super::refusal::{Refusal, RefusalKind};
use super::{keys, number, text};

/// Nesting beyond this is refused whatever the bounds say, because walks over a document recurse.
const TRAILING_COMMA: &str = "there is a trailing comma before this";
const DEPTH_LIMIT: usize = 512;
/// Offsets and node indices are 32 bits wide.
const U32_LIMIT: usize = u32::MAX as usize;

pub(super) fn read<'a>(
    bytes: &'a [u8],
    bounds: &Bounds,
    record_depth: usize,
) -> Result<Doc<'a>, Refusal> {
    let text = checked_text(bytes, bounds)?;
    // For ordinary messages neither grows.
    let nodes = Vec::with_capacity((bytes.len() / 6).clamp(16, 4096));
    let frames = Vec::with_capacity(8);
    let doc = Doc::new(text, nodes);
    let mut reader = Reader { bytes, at: 0, doc, frames, bounds, record_depth };
    match reader.run() {
        Ok(()) => Ok(reader.doc),
        Err(refusal) => Err(*refusal),
    }
}

fn checked_text<'a>(bytes: &'a [u8], bounds: &Bounds) -> Result<&'a str, Refusal> {
    if bytes.len() > bounds.bytes_max.min(U32_LIMIT) {
        let message = format!("the text is larger than {} bytes", bounds.bytes_max);
        return Err(Refusal::at(bytes, 0, RefusalKind::TooLarge, &message));
    }
    if bytes.starts_with(b"\xEF\xBB\xBF") {
        let message = "the text begins with a byte order mark; send UTF-8 without one";
        return Err(Refusal::at(bytes, 0, RefusalKind::ByteOrderMark, message));
    }
    std::str::from_utf8(bytes).map_err(|error| {
        Refusal::at(bytes, error.valid_up_to(), RefusalKind::NotUtf8, "the text is not UTF-8")
    })
}

/// A container that is still open.
struct Frame {
    /// Its node, unless it lies below the recorded depth.
    node: Option<u32>,
    len: u32,
    kind: Kind,
}

struct Reader<'a, 'b> {
    bytes: &'a [u8],
    at: usize,
    doc: Doc<'a>,
    frames: Vec<Frame>,
    bounds: &'b Bounds,
    record_depth: usize,
}

#[expect(
    clippy::unnecessary_box_returns,
    reason = "every step says whether there is a refusal, and hardly ever there is: one word says it"
)]
impl Reader<'_, '_> {
    fn run(&mut self) -> Result<(), Box<Refusal>> {
        self.skip_space();
        if self.at == self.bytes.len() {
            return Err(self.refuse(
                RefusalKind::Empty,
                self.at,
                "the text contains no JSON value",
            ));
        }
        while self.value()? || self.after_value()? {}
        self.skip_space();
        if self.at < self.bytes.len() {
            let message = "there is more text after the JSON value; send one value";
            return Err(self.refuse(RefusalKind::TrailingData, self.at, message));
        }
        Ok(())
    }

    /// Reads a scalar, or opens a container. True when a value must follow: the container's first.
    fn value(&mut self) -> Result<bool, Box<Refusal>> {
        self.skip_space();
        match self.peek() {
            Some(b'"') => self.string().map(|()| false),
            Some(b'{') => self.open(Kind::Object, b'}'),
            Some(b'[') => self.open(Kind::Array, b']'),
            Some(b'-' | b'0'..=b'9') => self.number().map(|()| false),
            Some(b't') => self.word(b"true", Kind::Bool).map(|()| false),
            Some(b'f') => self.word(b"false", Kind::Bool).map(|()| false),
            Some(b'n') => self.word(b"null", Kind::Null).map(|()| false),
            Some(b']') if self.follows_comma() => Err(self.syntax(TRAILING_COMMA)),
            Some(_) => Err(self.syntax("a JSON value is expected here")),
            None => Err(self.syntax("the text ends where a JSON value is expected")),
        }
    }

    /// Closes the containers that end here. True when a comma was read and another value must follow.
    fn after_value(&mut self) -> Result<bool, Box<Refusal>> {
        while let Some(frame) = self.frames.last_mut() {
            frame.len += 1;
            let kind = frame.kind;
            self.skip_space();
            match (self.peek(), kind) {
                (Some(b','), _) => {
                    self.at += 1;
                    if kind == Kind::Object {
                        self.key()?;
                    }
                    return Ok(true);
                }
                (Some(b'}'), Kind::Object) | (Some(b']'), Kind::Array) => self.close()?,
                (Some(_), Kind::Object) => {
                    return Err(self.syntax("a comma or the end of the object is expected here"));
                }
                (Some(_), _) => {
                    return Err(self.syntax("a comma or the end of the array is expected here"));
                }
                (None, _) => return Err(self.syntax("the text ends inside an array or object")),
            }
        }
        Ok(false)
    }

    fn open(&mut self, kind: Kind, end: u8) -> Result<bool, Box<Refusal>> {
        if self.frames.len() >= self.bounds.depth_max.min(DEPTH_LIMIT) {
            let message = format!("arrays and objects nest deeper than {}", self.bounds.depth_max);
            return Err(self.refuse(RefusalKind::TooDeep, self.at, &message));
        }
        let node = self.push(kind, self.at, self.at, false)?;
        self.frames.push(Frame { node, len: 0, kind });
        self.at += 1;
        self.skip_space();
        if self.peek() == Some(end) {
            return self.close().map(|()| false);
        }
        if kind == Kind::Object {
            self.key()?;
        }
        Ok(true)
    }

    /// Ends the innermost container at the closing bracket.
    fn close(&mut self) -> Result<(), Box<Refusal>> {
        self.at += 1;
        let Some(Frame { node: Some(at), len, kind }) = self.frames.pop() else { return Ok(()) };
        let (end, next) = (offset(self.at), offset(self.doc.nodes_mut().len()));
        if let Some(node) = self.doc.nodes_mut().get_mut(at as usize) {
            node.end = end;
            node.next = next;
            node.len = len;
            node.unopened = len > 0 && next == at + 1;
        }
        if kind == Kind::Object {
            keys::check(self.doc.value(at), self.bounds.keys)
                .map_err(|bad| self.refuse(bad.kind, bad.at, bad.message))?;
        }
        Ok(())
    }

    /// Reads a key and its colon.
    fn key(&mut self) -> Result<(), Box<Refusal>> {
        self.skip_space();
        if self.peek() != Some(b'"') {
            let trailing = self.peek() == Some(b'}') && self.follows_comma();
            let message =
                if trailing { TRAILING_COMMA } else { "a key in double quotes is expected here" };
            return Err(self.syntax(message));
        }
        self.string()?;
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(self.syntax("a colon is expected after a key"));
        }
        self.at += 1;
        Ok(())
    }

    fn string(&mut self) -> Result<(), Box<Refusal>> {
        let start = self.at;
        let scanned = text::scan(self.bytes, start + 1)
            .map_err(|fault| self.refuse(fault.kind, fault.at, fault.message))?;
        if scanned.end - start - 2 > self.bounds.string_bytes_max && self.is_long(start, &scanned) {
            let message = format!("a string is longer than {} bytes", self.bounds.string_bytes_max);
            return Err(self.refuse(RefusalKind::LongString, start, &message));
        }
        self.at = scanned.end;
        self.push(Kind::String, start, scanned.end, scanned.escaped)?;
        Ok(())
    }

    /// The decoded text counts, which is never longer than its source.
    #[cold]
    fn is_long(&self, start: usize, scanned: &text::Scanned) -> bool {
        let inside = self.doc.text().get(start + 1..scanned.end - 1).unwrap_or("");
        text::decode(inside, scanned.escaped).len() > self.bounds.string_bytes_max
    }

    fn number(&mut self) -> Result<(), Box<Refusal>> {
        let start = self.at;
        let end = number::scan(self.bytes, start)
            .map_err(|at| self.refuse(RefusalKind::Syntax, at, "a digit is expected here"))?;
        if end - start > self.bounds.number_bytes_max {
            let message = format!("a number is longer than {} bytes", self.bounds.number_bytes_max);
            return Err(self.refuse(RefusalKind::LongNumber, start, &message));
        }
        if self.bounds.numbers == Numbers::RoundTrip {
            let text = self.doc.text().get(start..end).unwrap_or("");
            number::check_exact(text)
                .map_err(|(kind, message)| self.refuse(kind, start, message))?;
        }
        self.at = end;
        self.push(Kind::Number, start, end, false)?;
        Ok(())
    }

    fn word(&mut self, word: &'static [u8], kind: Kind) -> Result<(), Box<Refusal>> {
        let start = self.at;
        if !self.bytes.get(start..).is_some_and(|rest| rest.starts_with(word)) {
            return Err(self.syntax("a JSON value is expected here"));
        }
        self.at += word.len();
        self.push(kind, start, self.at, false)?;
        Ok(())
    }

    /// Records a node, unless it lies below the recorded depth.
    #[inline]
    fn push(
        &mut self,
        kind: Kind,
        start: usize,
        end: usize,
        escaped: bool,
    ) -> Result<Option<u32>, Box<Refusal>> {
        if self.frames.len() > self.record_depth {
            return Ok(None);
        }
        let count = self.doc.nodes_mut().len();
        if count >= self.bounds.nodes_max.min(U32_LIMIT - 1) {
            return Err(self.too_many(start));
        }
        let (start, end, next) = (offset(start), offset(end), offset(count + 1));
        let node = DocNode { start, end, next, len: 0, kind, escaped, unopened: false };
        self.doc.nodes_mut().push(node);
        Ok(Some(offset(count)))
    }

    #[inline]
    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Whether the last thing before this place is a comma.
    #[cold]
    fn follows_comma(&self) -> bool {
        let before = self.bytes.get(..self.at).unwrap_or_default();
        before.trim_ascii_end().ends_with(b",")
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[cold]
    fn too_many(&self, start: usize) -> Box<Refusal> {
        let message = format!("the text holds more than {} values and keys", self.bounds.nodes_max);
        self.refuse(RefusalKind::TooManyNodes, start, &message)
    }

    #[cold]
    fn syntax(&self, message: &str) -> Box<Refusal> {
        self.refuse(RefusalKind::Syntax, self.at, message)
    }

    #[cold]
    fn refuse(&self, kind: RefusalKind, at: usize, message: &str) -> Box<Refusal> {
        Box::new(Refusal::at(self.bytes, at, kind, message))
    }
}

/// Narrows an offset or index; both were bounded by [`U32_LIMIT`] before.
#[inline]
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
