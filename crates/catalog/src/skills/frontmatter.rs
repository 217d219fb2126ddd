//! The frontmatter of a `SKILL.md`, compared with what the entry of its skill says it is. YAML has scalars that its
//! versions read differently, so a scalar fits every value that some version reads it as; nothing else is lenient.

use std::cmp::Ordering;

use policy::compare_numbers;
use policy::json::{Kind, Value};
use saphyr_parser::{Event, Parser, ScalarStyle};

const BYTES_MAX: usize = 64 << 10;
const NODES_MAX: usize = 1_000;
const DEPTH_MAX: usize = 16;
const MARK: &str = "---";

/// What is wrong with the frontmatter of a file, if its entry has this one.
pub fn mismatch(file: &str, expected: Value<'_>) -> Option<&'static str> {
    match read(file) {
        Ok(found) if fits(&found, expected) => None,
        Ok(_) => Some("the frontmatter of its `SKILL.md` is not the one in its entry"),
        Err(why) => Some(why),
    }
}

enum Node {
    /// With quotes it is text; without, what YAML makes of it.
    Scalar {
        text: String,
        is_plain: bool,
    },
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

fn fits(found: &Node, expected: Value<'_>) -> bool {
    match (found, expected.kind()) {
        // Whether the last line of the last block ends with a line break depends on how a file is cut.
        (Node::Scalar { text, .. }, Kind::String) => expected
            .as_str()
            .is_some_and(|said| said.trim_end_matches('\n') == text.trim_end_matches('\n')),
        (Node::Scalar { text, is_plain: true }, Kind::Null) => {
            matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL")
        }
        (Node::Scalar { text, is_plain: true }, Kind::Bool) => {
            truth(text).is_some_and(|truth| expected.as_bool() == Some(truth))
        }
        (Node::Scalar { text, is_plain: true }, Kind::Number) => {
            is_decimal(text) && compare_numbers(text, expected.raw()) == Ordering::Equal
        }
        (Node::List(items), Kind::Array) => {
            items.len() == expected.items().count()
                && items.iter().zip(expected.items()).all(|(item, said)| fits(item, said))
        }
        (Node::Map(members), Kind::Object) => {
            members.len() == expected.entries().count()
                && members
                    .iter()
                    .all(|(name, node)| expected.get(name).is_some_and(|said| fits(node, said)))
        }
        _ => false,
    }
}

fn truth(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "y" => Some(true),
        "false" | "no" | "off" | "n" => Some(false),
        _ => None,
    }
}

/// A number as JSON writes it.
fn is_decimal(text: &str) -> bool {
    serde_json::from_str::<serde_json::Number>(text).is_ok()
}

fn read(file: &str) -> Result<Node, &'static str> {
    const MISSING: &str = "its `SKILL.md` has no frontmatter";
    let mut lines = file.split_inclusive('\n');
    let first =
        lines.next().filter(|line| line.trim_end_matches(['\r', '\n']) == MARK).ok_or(MISSING)?;
    let mut end = first.len();
    for line in lines {
        if line.trim_end_matches(['\r', '\n']) == MARK {
            return parsed(file.get(first.len()..end).unwrap_or_default());
        }
        end += line.len();
    }
    Err(MISSING)
}

fn parsed(text: &str) -> Result<Node, &'static str> {
    const UNREADABLE: &str = "the frontmatter of its `SKILL.md` cannot be read in one way only";
    if text.len() > BYTES_MAX {
        return Err("the frontmatter of its `SKILL.md` is too large");
    }
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let (event, _) = event.map_err(|_| UNREADABLE)?;
        builder.take(event).ok_or(UNREADABLE)?;
    }
    builder.root.filter(|root| matches!(root, Node::Map(_))).ok_or(UNREADABLE)
}

/// Builds the tree of one document. Anchors, aliases, tags, merge keys and a key twice end it.
#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    root: Option<Node>,
    documents: usize,
    nodes: usize,
}

enum Open {
    List(Vec<Node>),
    Map(Vec<(String, Node)>, Option<String>),
}

impl Builder {
    fn take(&mut self, event: Event<'_>) -> Option<()> {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Some(()),
            Event::DocumentStart(_) => {
                self.documents += 1;
                (self.documents == 1).then_some(())
            }
            Event::Scalar(text, style, 0, None) => {
                let is_plain = style == ScalarStyle::Plain;
                self.add(Node::Scalar { text: text.into_owned(), is_plain })
            }
            Event::SequenceStart(0, None) => self.begin(Open::List(Vec::new())),
            Event::MappingStart(0, None) => self.begin(Open::Map(Vec::new(), None)),
            Event::SequenceEnd | Event::MappingEnd => {
                let node = match self.open.pop()? {
                    Open::List(items) => Node::List(items),
                    Open::Map(members, _) => Node::Map(members),
                };
                self.add(node)
            }
            _ => None,
        }
    }

    fn begin(&mut self, collection: Open) -> Option<()> {
        let is_key = matches!(self.open.last(), Some(Open::Map(_, None)));
        self.open.push(collection);
        (!is_key && self.open.len() <= DEPTH_MAX).then_some(())
    }

    fn add(&mut self, node: Node) -> Option<()> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return None;
        }
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List(items)) => items.push(node),
            Some(Open::Map(members, key @ None)) => {
                let Node::Scalar { text, is_plain } = node else { return None };
                let is_merge = is_plain && text == "<<";
                if is_merge || members.iter().any(|(name, _)| *name == text) {
                    return None;
                }
                *key = Some(text);
            }
            Some(Open::Map(members, key)) => members.push((key.take()?, node)),
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use policy::json::{Bounds, Doc};
    use serde_json::json;

    use super::*;

    fn found(yaml: &str, expected: &serde_json::Value) -> Option<&'static str> {
        let text = expected.to_string();
        let doc = Doc::read(text.as_bytes(), &Bounds::ANSWER).unwrap();
        mismatch(&format!("---\n{yaml}---\nBody\n---\n"), doc.root())
    }

    #[test]
    fn a_file_with_the_same_frontmatter_matches() {
        for (yaml, expected) in [
            ("name: a\ndescription: Does it\n", json!({ "name": "a", "description": "Does it" })),
            (
                "description: >-\n  two\n  lines\nname: 'a'\n",
                json!({ "name": "a", "description": "two lines" }),
            ),
            ("name: a\r\ntools: [x, \"y\"]\r\n", json!({ "name": "a", "tools": ["x", "y"] })),
            (
                "metadata:\n  version: 1.0\n  beta: yes\n",
                json!({ "metadata": { "version": 1, "beta": true } }),
            ),
            (
                "metadata:\n  version: 1.0\n  beta: yes\n",
                json!({ "metadata": { "version": "1.0", "beta": "yes" } }),
            ),
            ("text: |\n  one\n  two\n", json!({ "text": "one\ntwo" })),
            ("text: |\r\n  one\r\n  two\r\n", json!({ "text": "one\ntwo\n" })),
            ("license:\nsince: 2026-09-13\n", json!({ "license": null, "since": "2026-09-13" })),
        ] {
            assert_eq!(found(yaml, &expected), None, "{yaml}");
        }
    }

    #[test]
    fn a_file_with_other_frontmatter_does_not_match() {
        let said = json!({ "name": "a", "description": "d" });
        for yaml in [
            "name: a\ndescription: other\n",
            "name: a\n",
            "name: a\ndescription: d\nallowed-tools: Bash(*)\n",
            "name: a\ndescription: [d]\n",
            "name: a\ndescription: d\nname: b\n",
            "name: &x a\ndescription: d\n",
            "name: a\ndescription: !!str d\n",
            "name: a\ndescription: d\n<<: {x: y}\n",
            "- name\n- a\n",
            "name: a\ndescription: d\n...\nx: y\n",
            "name: a\ndescription: d\n--- \n",
            "name: [\n",
            "",
        ] {
            assert!(found(yaml, &said).is_some(), "{yaml}");
        }
        assert!(found("n: \"1\"\n", &json!({ "n": 1 })).is_some(), "quoted text is no number");
        assert!(found("n: 01\n", &json!({ "n": 1 })).is_some());
        assert!(found(&"[".repeat(1_000), &said).is_some());
        assert!(found(&format!("name: {}\n", "a".repeat(70_000)), &said).is_some());
        for file in ["", "Body", "---\nname: a\ndescription: d\n", " ---\nname: a\n---\n"] {
            let text = said.to_string();
            let doc = Doc::read(text.as_bytes(), &Bounds::ANSWER).unwrap();
            assert!(mismatch(file, doc.root()).is_some(), "{file}");
        }
    }
}
