//! Turns a change of the tree into a change of the text. Only the bytes of the changed part are replaced; what
//! cannot be replaced without touching a comment or another value is refused.

use std::ops::Range;

use super::render::{self, STEP};
use super::spans::{Child, Spanned};
use super::{TreeChange, find};
use crate::tree::{Format, Node, NodeValue};

/// The new text. `after` is the tree as it should read.
pub(super) fn patch(
    source: &str,
    format: Format,
    spans: &Spanned,
    after: &Node,
    change: &TreeChange<'_>,
) -> Option<String> {
    Patch { source, format, after }.of(spans, change)
}

struct Patch<'s> {
    source: &'s str,
    format: Format,
    after: &'s Node,
}

/// A value in the text with its path, and the column of its key if it has one.
struct Slot<'p> {
    node: &'p Spanned,
    /// Nothing for the root.
    child: Option<&'p Child>,
    path: &'p [String],
    is_in_flow: bool,
}

impl Patch<'_> {
    fn of(&self, root: &Spanned, change: &TreeChange<'_>) -> Option<String> {
        // From the root down to the last part of the path that is in the text.
        let mut slots = vec![Slot {
            node: root,
            child: None,
            path: &[],
            is_in_flow: self.format == Format::Json,
        }];
        for depth in 1..=change.path.len() {
            let parent = slots.last()?;
            let step = change.path.get(depth - 1)?;
            let Some(at) = parent.node.position(step) else { break };
            let child = parent.node.children.get(at)?;
            let is_in_flow = parent.node.is_flow;
            let path = change.path.get(..depth)?;
            slots.push(Slot { node: &child.node, child: Some(child), path, is_in_flow });
        }
        let is_there = slots.len() == change.path.len() + 1;
        let kept = slots.len() - usize::from(is_there && change.value.is_none());
        // What is on one line has no comments inside, so it is written again as a whole.
        let mut kept = slots.iter().take(kept);
        if let Some(slot) = kept.find(|slot| self.is_one_line_flow(slot.node)) {
            return self.replace(slot);
        }
        if is_there && change.value.is_none() {
            let gone = slots.pop()?;
            return self.remove(slots.last()?, gone.child?);
        }
        let slot = slots.last()?;
        if is_there && !change.is_push {
            return self.replace(slot);
        }
        self.append(slot, change)
    }

    fn is_one_line_flow(&self, node: &Spanned) -> bool {
        let text = self.source.get(node.range.clone()).unwrap_or_default();
        node.is_flow && text.starts_with(['{', '[']) && !text.contains('\n')
    }

    /// Writes the value at a place again, as it should read.
    fn replace(&self, slot: &Slot<'_>) -> Option<String> {
        let new = self.value(slot.path)?;
        let range = slot.node.range.clone();
        if self.format == Format::Json {
            let levels = 2_usize.saturating_sub(slot.path.len());
            return self
                .with(range.clone(), &render::json(new, self.indent_of(range.start), levels));
        }
        if slot.is_in_flow {
            return self.with(range, &render::inline(new));
        }
        let Some(child) = slot.child else { return self.with(range, &render::block(new, 0)) };
        let Some((_, key)) = &child.key else {
            return self.with(range.clone(), &render::block(new, self.column(range.start)));
        };
        let has_comment_behind = self.to_line_end(range.end)?.contains('#');
        let colon = key.end + self.source.get(key.end..range.start)?.find(':')? + 1;
        let has_comment_between = self.source.get(colon..range.start)?.contains('#');
        if has_comment_between && (!slot.node.is_flow || render::is_filled(new)) {
            return None;
        }
        if has_comment_behind && render::is_filled(new) {
            return self.with(range, &render::inline(new));
        }
        if has_comment_between {
            return self.with(range.clone(), &render::block(new, self.column(range.start)));
        }
        self.with(colon..range.end, &render::after_colon(new, self.column(key.start)))
    }

    /// Adds a member or an item behind the last one.
    fn append(&self, parent: &Slot<'_>, change: &TreeChange<'_>) -> Option<String> {
        let container = self.value(parent.path)?;
        let last = parent.node.children.last()?;
        let new = match &container.value {
            NodeValue::Map(members) => {
                let member = members.last()?;
                (Some(member.name.as_str()), &member.node)
            }
            NodeValue::List(items) if change.is_push => (None, items.last()?),
            _ => return None,
        };
        let text = |indent: usize, depth: usize| match (new, self.format) {
            ((Some(name), node), Format::Json) => {
                let levels = 2_usize.saturating_sub(depth);
                let name = Node { value: NodeValue::Text(name.to_owned()), ..node.clone() };
                format!("{}: {}", name.to_json(), render::json(node, indent, levels))
            }
            ((None, node), Format::Json) => render::json(node, indent, 0),
            ((Some(name), node), Format::Yaml) if parent.node.is_flow => {
                let name = Node { value: NodeValue::Text(name.to_owned()), ..node.clone() };
                format!("{}: {}", name.to_json(), render::inline(node))
            }
            ((None, node), Format::Yaml) if parent.node.is_flow => render::inline(node),
            ((Some(name), node), Format::Yaml) => {
                format!("{}:{}", render::key(name), render::after_colon(node, indent))
            }
            ((None, node), Format::Yaml) => format!("- {}", render::block(node, indent + STEP)),
        };
        if parent.node.is_flow {
            let indent = self.indent_of(last.start());
            let added = format!(",\n{}{}", " ".repeat(indent), text(indent, parent.path.len() + 1));
            return self.with(last.end()..last.end(), &added);
        }
        let column = self.column(match &last.key {
            Some((_, key)) => key.start,
            None => self.dash_of(last)?,
        });
        let at = last.end() + self.to_line_end(last.end())?.len();
        let added = format!("\n{}{}", " ".repeat(column), text(column, parent.path.len() + 1));
        self.with(at..at, &added)
    }

    fn remove(&self, parent: &Slot<'_>, gone: &Child) -> Option<String> {
        let children = &parent.node.children;
        let at = children.iter().position(|child| std::ptr::eq(child, gone))?;
        if children.len() == 1 {
            return self.replace(parent);
        }
        if parent.node.is_flow {
            let range = match at.checked_sub(1).and_then(|before| children.get(before)) {
                Some(before) => before.end()..gone.end(),
                None => gone.start()..children.get(at + 1)?.start(),
            };
            return self.without_comment(range);
        }
        let start = match &gone.key {
            Some((_, key)) => key.start,
            None => self.dash_of(gone)?,
        };
        let line = self.line_start(start);
        if self.source.get(line..start)?.trim().is_empty() {
            let end = gone.end() + self.to_line_end(gone.end())?.len();
            let is_last_line = end >= self.source.len();
            // With the line break before it at the end of the text, otherwise with the one behind it.
            let range = if is_last_line { line.saturating_sub(1)..end } else { line..end + 1 };
            return self.with(range, "");
        }
        // The first member of an item, behind its dash: the next one takes its place.
        self.without_comment(start..children.get(at + 1).filter(|_| at == 0)?.start())
    }

    /// Removes a range, unless a comment would go with it.
    fn without_comment(&self, range: Range<usize>) -> Option<String> {
        let is_json = self.format == Format::Json;
        if !is_json && self.source.get(range.clone())?.contains('#') {
            return None;
        }
        self.with(range, "")
    }

    fn value(&self, path: &[String]) -> Option<&Node> {
        path.iter().try_fold(self.after, |node, step| find(node, step))
    }

    fn with(&self, range: Range<usize>, new: &str) -> Option<String> {
        let (before, after) = (self.source.get(..range.start)?, self.source.get(range.end..)?);
        Some(format!("{before}{new}{after}"))
    }

    fn line_start(&self, at: usize) -> usize {
        self.source.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1)
    }

    /// The rest of the line, without its end.
    fn to_line_end(&self, at: usize) -> Option<&str> {
        self.source.get(at..)?.split('\n').next()
    }

    /// Characters before this byte on its line.
    fn column(&self, at: usize) -> usize {
        self.source.get(self.line_start(at)..at).map_or(0, |text| text.chars().count())
    }

    /// The white space at the start of this line.
    fn indent_of(&self, at: usize) -> usize {
        let line = self.source.get(self.line_start(at)..).unwrap_or_default();
        line.len() - line.trim_start_matches(' ').len()
    }

    /// Where the dash of an item is.
    fn dash_of(&self, item: &Child) -> Option<usize> {
        self.source.get(..item.start())?.rfind('-')
    }
}
