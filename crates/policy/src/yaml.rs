//! YAML as people write policies: one document of maps, lists and scalars. Anchors, aliases, tags, merge
//! keys, empty values and scalars that YAML versions read differently are refused.

use std::collections::HashSet;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span};

use crate::problem::{Complaint, Position, Problem};
use crate::tree::{BOUNDS, Member, Node, NodeValue};

mod scalar;

pub(crate) fn read(source: &str) -> Result<Node, Problem> {
    check_characters(source)?;
    let mut builder = Builder::default();
    for event in Parser::new_from_str(source) {
        let (event, span) = event.map_err(|error| unreadable(&error))?;
        builder.take(event, span).map_err(|complaint| at(span.start, complaint))?;
    }
    builder.root.ok_or_else(|| {
        let position = Position { line: 1, column: 1 };
        Problem::new(position, "", Complaint::new("the policy is empty"))
    })
}

fn at(marker: Marker, complaint: Complaint) -> Problem {
    Problem::new(position(marker), "", complaint)
}

fn position(marker: Marker) -> Position {
    Position { line: marker.line(), column: marker.col() + 1 }
}

fn unreadable(error: &ScanError) -> Problem {
    let complaint = Complaint::new(format!("not valid YAML: {}", error.info()));
    let hint = "put names that begin with `*`, `&`, `!` or `@` in quotes";
    let about_marks =
        ["anchor", "alias", "tag", "reserved"].iter().any(|word| error.info().contains(word));
    at(*error.marker(), if about_marks { complaint.hint(hint) } else { complaint })
}

/// Rejects texts that are too long, invisible characters, and characters that end a line in one YAML
/// version only.
fn check_characters(source: &str) -> Result<(), Problem> {
    let start = Position { line: 1, column: 1 };
    if source.len() > BOUNDS.bytes_max {
        let message = format!("the policy is longer than {} bytes", BOUNDS.bytes_max);
        return Err(Problem::new(start, "", Complaint::new(message)));
    }
    let odd = |c: &char| {
        let breaks_line = matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}');
        breaks_line || (c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
    };
    for (line, text) in source.split('\n').enumerate() {
        if let Some((column, c)) = text.chars().enumerate().find(|(_, c)| odd(c)) {
            let message = format!("a character that must be escaped: U+{:04X}", u32::from(c));
            let position = Position { line: line + 1, column: column + 1 };
            let hint = "write it as an escape inside double quotes";
            return Err(Problem::new(position, "", Complaint::new(message).hint(hint)));
        }
    }
    Ok(())
}

/// Builds a tree from events.
#[derive(Default)]
struct Builder {
    open: Vec<OpenCollection>,
    root: Option<Node>,
    documents: usize,
    nodes: usize,
}

/// A collection that is still open.
struct OpenCollection {
    position: Position,
    holds: Holds,
}

enum Holds {
    Items(Vec<Node>),
    Members { members: Vec<Member>, seen: HashSet<String>, key: Option<(String, Position)> },
}

impl Builder {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Complaint> {
        let position = position(span.start);
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) => self.begin_document(),
            Event::Alias(_) => {
                Err(Complaint::new("aliases are not supported").hint("write the value out"))
            }
            Event::Scalar(text, style, anchor, tag) => {
                refuse_decoration(anchor, tag.is_some())?;
                self.scalar(&text, style, position)
            }
            Event::SequenceStart(anchor, tag) => {
                refuse_decoration(anchor, tag.is_some())?;
                self.begin(position, Holds::Items(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                refuse_decoration(anchor, tag.is_some())?;
                let seen = HashSet::new();
                self.begin(position, Holds::Members { members: Vec::new(), seen, key: None })
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
        }
    }

    fn begin_document(&mut self) -> Result<(), Complaint> {
        self.documents += 1;
        if self.documents > 1 {
            return Err(
                Complaint::new("only one document is allowed").hint("a policy is one document")
            );
        }
        Ok(())
    }

    fn begin(&mut self, position: Position, holds: Holds) -> Result<(), Complaint> {
        if self.key_is_due() {
            return Err(Complaint::new("a key must be text"));
        }
        if self.open.len() >= BOUNDS.depth_max {
            return Err(Complaint::new(format!("nested deeper than {}", BOUNDS.depth_max)));
        }
        self.open.push(OpenCollection { position, holds });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Complaint> {
        match self.open.pop() {
            Some(OpenCollection { position, holds: Holds::Items(items) }) => {
                self.add(Node { position, value: NodeValue::List(items) })
            }
            Some(OpenCollection { position, holds: Holds::Members { members, .. } }) => {
                self.add(Node { position, value: NodeValue::Map(members) })
            }
            None => Ok(()),
        }
    }

    fn key_is_due(&self) -> bool {
        matches!(
            self.open.last(),
            Some(OpenCollection { holds: Holds::Members { key: None, .. }, .. })
        )
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        position: Position,
    ) -> Result<(), Complaint> {
        if text.len() > BOUNDS.string_bytes_max {
            let message = format!("text longer than {} bytes", BOUNDS.string_bytes_max);
            return Err(Complaint::new(message));
        }
        let plain = style == ScalarStyle::Plain;
        let value = if plain { scalar::resolve(text)? } else { NodeValue::Text(text.to_owned()) };
        if self.key_is_due() {
            self.add_key(value, plain, position)
        } else {
            self.add(Node { position, value })
        }
    }

    fn add_key(
        &mut self,
        name: NodeValue,
        plain: bool,
        position: Position,
    ) -> Result<(), Complaint> {
        self.count()?;
        let NodeValue::Text(name) = name else {
            return Err(Complaint::new("a key must be text").hint("put it in quotes"));
        };
        if plain && name == "<<" {
            return Err(Complaint::new("merge keys are not supported").hint("write the fields out"));
        }
        if let Some(OpenCollection { holds: Holds::Members { seen, key, .. }, .. }) =
            self.open.last_mut()
        {
            if !seen.insert(name.clone()) {
                return Err(Complaint::new(format!("duplicate key `{name}`")));
            }
            *key = Some((name, position));
        }
        Ok(())
    }

    fn add(&mut self, node: Node) -> Result<(), Complaint> {
        self.count()?;
        match self.open.last_mut().map(|open| &mut open.holds) {
            Some(Holds::Items(items)) => items.push(node),
            Some(Holds::Members { members, key, .. }) => {
                if let Some((name, position)) = key.take() {
                    members.push(Member { name, position, node });
                }
            }
            None => self.root = Some(node),
        }
        Ok(())
    }

    fn count(&mut self) -> Result<(), Complaint> {
        self.nodes += 1;
        if self.nodes > BOUNDS.nodes_max {
            return Err(Complaint::new(format!("more than {} values", BOUNDS.nodes_max)));
        }
        Ok(())
    }
}

fn refuse_decoration(anchor: usize, tagged: bool) -> Result<(), Complaint> {
    if anchor != 0 {
        return Err(Complaint::new("anchors are not supported")
            .hint("write the value out where it is needed"));
    }
    if tagged {
        return Err(Complaint::new("tags are not supported")
            .hint("policies need no tags; put text in quotes"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
