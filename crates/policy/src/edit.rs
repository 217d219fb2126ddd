//! Edits a policy text without rewriting it: comments, order, spelling and spacing of everything that an edit
//! does not name stay as they were written. An edit whose result would read differently is refused.

use std::fmt;

use crate::pointer;
use crate::problem::LoadError;
use crate::tree::{self, Format, Member, Node, NodeValue};

mod patch;
mod render;
mod spans;

/// One change of a policy text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// JSON pointer. Missing objects on the way are created by `Set` and `Push`.
    pub pointer: String,
    pub change: Change,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Replaces or adds a value, given as JSON.
    Set(String),
    /// Adds a value, given as JSON, at the end of a list.
    Push(String),
    /// Nothing happens if it is not there.
    Remove,
}

impl Edit {
    pub fn set(pointer: impl Into<String>, json: impl Into<String>) -> Edit {
        Edit { pointer: pointer.into(), change: Change::Set(json.into()) }
    }

    pub fn push(pointer: impl Into<String>, json: impl Into<String>) -> Edit {
        Edit { pointer: pointer.into(), change: Change::Push(json.into()) }
    }

    pub fn remove(pointer: impl Into<String>) -> Edit {
        Edit { pointer: pointer.into(), change: Change::Remove }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditError {
    /// The text before the edit is not valid JSON or YAML.
    Unreadable(LoadError),
    /// The new value is not JSON.
    Value(LoadError),
    /// The text is written in a form that cannot be edited without changing other parts.
    Unsupported { pointer: String },
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EditError::Unreadable(error) => write!(f, "{error}"),
            EditError::Value(error) => write!(f, "the new value is not valid: {error}"),
            EditError::Unsupported { pointer } => write!(
                f,
                "`{pointer}` is written in a form that cannot be edited without losing something; edit the text"
            ),
        }
    }
}

impl std::error::Error for EditError {}

/// Applies edits one after the other.
pub fn edit(source: &str, format: Format, edits: &[Edit]) -> Result<String, EditError> {
    if edits.len() > 1
        && let Some(text) = apply_all(source, format, edits)
    {
        return Ok(text);
    }
    // One by one, to name the edit that fails.
    let mut text = source.to_owned();
    for edit in edits {
        text = apply(&text, format, edit)?;
    }
    Ok(text)
}

/// All edits with one check at the end, for changes of many names at once.
fn apply_all(source: &str, format: Format, edits: &[Edit]) -> Option<String> {
    let mut tree = tree::read(source, format).ok()?;
    let mut text = source.to_owned();
    for edit in edits {
        let value = match &edit.change {
            Change::Set(json) | Change::Push(json) => Some(tree::read(json, Format::Json).ok()?),
            Change::Remove => None,
        };
        let path = steps(&edit.pointer);
        let is_push = matches!(edit.change, Change::Push(_));
        let change = TreeChange { path: &path, value: value.as_ref(), is_push };
        let mut after = tree.clone();
        if !change.apply_to(&mut after) {
            return None;
        }
        if !is_same(&tree, &after) {
            let spans = spans::of(&text, format)?;
            text = patch::patch(&text, format, &spans, &after, &change)?;
            tree = after;
        }
    }
    let read = tree::read(&text, format).ok()?;
    is_same(&read, &tree).then_some(text)
}

/// The policy as JSON with the same order and the same digits, whether it loads or not.
pub fn to_json(source: &str, format: Format) -> Result<String, LoadError> {
    Ok(tree::read(source, format)?.to_json())
}

/// A JSON text as YAML in blocks.
pub fn to_yaml(json: &str) -> Result<String, LoadError> {
    Ok(format!("{}\n", render::block(&tree::read(json, Format::Json)?, 0)))
}

/// The line of a part of the policy, from 1.
pub fn line_of(source: &str, format: Format, pointer: &str) -> Option<usize> {
    let root = tree::read(source, format).ok()?;
    let (mut node, mut line) = (&root, root.position.line);
    for step in steps(pointer) {
        let member = node.members().iter().find(|member| member.name == step);
        (node, line) = if let Some(member) = member {
            (&member.node, member.position.line)
        } else {
            let item = node.items().get(step.parse::<usize>().ok()?)?;
            (item, item.position.line)
        };
    }
    Some(line)
}

fn apply(source: &str, format: Format, edit: &Edit) -> Result<String, EditError> {
    let before = tree::read(source, format).map_err(EditError::Unreadable)?;
    let value = match &edit.change {
        Change::Set(json) | Change::Push(json) => {
            Some(tree::read(json, Format::Json).map_err(EditError::Value)?)
        }
        Change::Remove => None,
    };
    let path = steps(&edit.pointer);
    let unsupported = || EditError::Unsupported { pointer: edit.pointer.clone() };
    let is_push = matches!(edit.change, Change::Push(_));
    let change = TreeChange { path: &path, value: value.as_ref(), is_push };
    let mut after = before.clone();
    if !change.apply_to(&mut after) {
        return Err(unsupported());
    }
    if is_same(&before, &after) {
        return Ok(source.to_owned());
    }
    let spans = spans::of(source, format).ok_or_else(unsupported)?;
    let edited = patch::patch(source, format, &spans, &after, &change).ok_or_else(unsupported)?;
    // Whatever the text looks like: it must read as the edited policy and as nothing else.
    match tree::read(&edited, format) {
        Ok(read) if is_same(&read, &after) => Ok(edited),
        _ => Err(unsupported()),
    }
}

/// The JSON pointer of a part, from its names.
pub fn pointer(names: &[&str]) -> String {
    names.iter().fold(String::new(), |parent, name| pointer::member(&parent, name))
}

/// The decoded steps of a JSON pointer.
pub fn steps(pointer: &str) -> Vec<String> {
    let steps = pointer.split('/').skip(1);
    steps.map(|step| step.replace("~1", "/").replace("~0", "~")).collect()
}

/// A change of a tree, with its value read.
struct TreeChange<'e> {
    path: &'e [String],
    /// None removes.
    value: Option<&'e Node>,
    is_push: bool,
}

impl TreeChange<'_> {
    /// False if the path leads through something that is neither an object nor an item of a list.
    fn apply_to(&self, root: &mut Node) -> bool {
        let Some((last, parents)) = self.path.split_last() else { return false };
        let mut node = root;
        for step in parents {
            if find(node, step).is_none() && self.value.is_none() {
                return true;
            }
            let Some(next) = open(node, step, || NodeValue::Map(Vec::new())) else { return false };
            node = next;
        }
        match (self.value, self.is_push) {
            (None, _) => remove(node, last),
            (Some(value), true) => {
                let list = open(node, last, || NodeValue::List(Vec::new()));
                let Some(NodeValue::List(items)) = list.map(|list| &mut list.value) else {
                    return false;
                };
                items.push(value.clone());
                true
            }
            (Some(value), false) => {
                let Some(slot) = open(node, last, || value.value.clone()) else { return false };
                slot.value = value.value.clone();
                true
            }
        }
    }
}

fn find<'n>(node: &'n Node, step: &str) -> Option<&'n Node> {
    match &node.value {
        NodeValue::Map(_) => node.get(step),
        NodeValue::List(items) => items.get(step.parse::<usize>().ok()?),
        _ => None,
    }
}

/// The child at this step; a missing member of an object is added.
fn open<'n>(
    node: &'n mut Node,
    step: &str,
    new: impl FnOnce() -> NodeValue,
) -> Option<&'n mut Node> {
    match &mut node.value {
        NodeValue::Map(members) => {
            let at = members.iter().position(|member| member.name == step);
            let at = at.unwrap_or_else(|| {
                let node = Node { position: node.position, value: new() };
                members.push(Member { name: step.to_owned(), position: node.position, node });
                members.len() - 1
            });
            members.get_mut(at).map(|member| &mut member.node)
        }
        NodeValue::List(items) => items.get_mut(step.parse::<usize>().ok()?),
        _ => None,
    }
}

fn remove(node: &mut Node, step: &str) -> bool {
    match &mut node.value {
        NodeValue::Map(members) => members.retain(|member| member.name != step),
        NodeValue::List(items) => {
            let Some(at) = step.parse::<usize>().ok().filter(|at| *at < items.len()) else {
                return true;
            };
            items.remove(at);
        }
        _ => return false,
    }
    true
}

/// Whether two trees have the same content in the same order, wherever it is written.
fn is_same(one: &Node, other: &Node) -> bool {
    match (&one.value, &other.value) {
        (NodeValue::List(a), NodeValue::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (NodeValue::Map(a), NodeValue::Map(b)) => {
            let is_same_member =
                |(a, b): (&Member, &Member)| a.name == b.name && is_same(&a.node, &b.node);
            a.len() == b.len() && a.iter().zip(b).all(is_same_member)
        }
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests;
