//! A policy text as a tree with positions, the same for JSON and YAML.

use crate::json::{self, Bounds, Doc, Keys, Kind, Numbers};
use crate::problem::{Complaint, LoadError, Position, Problem};
use crate::yaml;

/// Policies compare numbers exactly, so every valid number is accepted; tools may differ by case only, so
/// keys must only be different.
pub(crate) const BOUNDS: Bounds =
    Bounds { numbers: Numbers::AnyValid, keys: Keys::Unique, ..Bounds::POLICY };

/// How a policy is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Json,
    Yaml,
}

impl Format {
    /// YAML for `.yaml` and `.yml`, JSON for everything else.
    pub fn of_path(path: &str) -> Format {
        let extension = path.rsplit('.').next().unwrap_or_default();
        if ["yaml", "yml"].iter().any(|yaml| extension.eq_ignore_ascii_case(yaml)) {
            Format::Yaml
        } else {
            Format::Json
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) position: Position,
    pub(crate) value: NodeValue,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NodeValue {
    Null,
    Bool(bool),
    /// The text of a JSON number.
    Number(String),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Member>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) position: Position,
    pub(crate) node: Node,
}

pub(crate) fn read(source: &str, format: Format) -> Result<Node, LoadError> {
    match format {
        Format::Json => read_json(source),
        Format::Yaml => yaml::read(source),
    }
    .map_err(|problem| LoadError { problems: vec![problem] })
}

fn read_json(source: &str) -> Result<Node, Problem> {
    let doc = Doc::read(source.as_bytes(), &BOUNDS).map_err(|refusal| {
        let position = Position { line: refusal.line, column: refusal.column };
        Problem::new(position, "", Complaint::new(refusal.message))
    })?;
    Ok(copy_json(doc.root(), &mut Positions::new(source)))
}

fn copy_json(value: json::Value<'_>, positions: &mut Positions<'_>) -> Node {
    let position = positions.at(value.span().start);
    let value = match value.kind() {
        Kind::Null => NodeValue::Null,
        Kind::Bool => NodeValue::Bool(value.as_bool() == Some(true)),
        Kind::Number => NodeValue::Number(value.raw().to_owned()),
        Kind::String => NodeValue::Text(value.as_str().unwrap_or_default().into_owned()),
        Kind::Array => {
            NodeValue::List(value.items().map(|item| copy_json(item, positions)).collect())
        }
        Kind::Object => {
            NodeValue::Map(value.entries().map(|entry| copy_member(entry, positions)).collect())
        }
    };
    Node { position, value }
}

fn copy_member(
    (key, value): (json::Key<'_>, json::Value<'_>),
    positions: &mut Positions<'_>,
) -> Member {
    let position = positions.at(key.span().start);
    Member { name: key.text().into_owned(), position, node: copy_json(value, positions) }
}

/// Turns ascending byte offsets into positions in one pass over the text.
struct Positions<'s> {
    rest: std::str::CharIndices<'s>,
    position: Position,
}

impl<'s> Positions<'s> {
    fn new(source: &'s str) -> Positions<'s> {
        Positions { rest: source.char_indices(), position: Position { line: 1, column: 1 } }
    }

    fn at(&mut self, offset: usize) -> Position {
        while self.rest.offset() < offset {
            match self.rest.next() {
                Some((_, '\n')) => {
                    self.position = Position { line: self.position.line + 1, column: 1 };
                }
                Some(_) => self.position.column += 1,
                None => break,
            }
        }
        self.position
    }
}

impl Node {
    pub(crate) fn kind(&self) -> &'static str {
        match self.value {
            NodeValue::Null => "null",
            NodeValue::Bool(_) => "true or false",
            NodeValue::Number(_) => "a number",
            NodeValue::Text(_) => "text",
            NodeValue::List(_) => "a list",
            NodeValue::Map(_) => "an object",
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Node> {
        self.members().iter().find(|member| member.name == name).map(|member| &member.node)
    }

    pub(crate) fn members(&self) -> &[Member] {
        match &self.value {
            NodeValue::Map(members) => members,
            _ => &[],
        }
    }

    pub(crate) fn items(&self) -> &[Node] {
        match &self.value {
            NodeValue::List(items) => items,
            _ => &[],
        }
    }

    /// The items of a list, or the node itself when it is no list.
    pub(crate) fn items_or_self(&self) -> &[Node] {
        match &self.value {
            NodeValue::List(items) => items,
            _ => std::slice::from_ref(self),
        }
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        match &self.value {
            NodeValue::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn as_number(&self) -> Option<&str> {
        match &self.value {
            NodeValue::Number(number) => Some(number),
            _ => None,
        }
    }

    pub(crate) fn as_bool(&self) -> Option<bool> {
        match self.value {
            NodeValue::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// The text of the member `name`, when it is there and is text.
    pub(crate) fn text_of(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Node::as_text)
    }

    /// The same value as JSON text.
    pub(crate) fn to_json(&self) -> String {
        let mut out = Vec::new();
        self.write_json(&mut out);
        String::from_utf8(out).unwrap_or_default()
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        match &self.value {
            NodeValue::Null => out.extend_from_slice(b"null"),
            NodeValue::Bool(value) => out.extend_from_slice(value.to_string().as_bytes()),
            NodeValue::Number(number) => out.extend_from_slice(number.as_bytes()),
            NodeValue::Text(text) => json::write_string(text, out),
            NodeValue::List(items) => write_joined(*b"[]", items, out, Node::write_json),
            NodeValue::Map(members) => write_joined(*b"{}", members, out, |member, out| {
                json::write_string(&member.name, out);
                out.push(b':');
                member.node.write_json(out);
            }),
        }
    }
}

fn write_joined<T>(
    [open, close]: [u8; 2],
    items: &[T],
    out: &mut Vec<u8>,
    mut write: impl FnMut(&T, &mut Vec<u8>),
) {
    out.push(open);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(item, out);
    }
    out.push(close);
}

#[cfg(test)]
mod tests {
    use super::Format;

    #[test]
    fn the_format_follows_the_file_name() {
        let cases = [
            ("policy.json", Format::Json),
            ("policy.yaml", Format::Yaml),
            ("a/b.c/POLICY.YML", Format::Yaml),
            ("policy", Format::Json),
            ("yaml.json", Format::Json),
        ];
        for (path, expected) in cases {
            assert_eq!(Format::of_path(path), expected, "{path}");
        }
    }
}
