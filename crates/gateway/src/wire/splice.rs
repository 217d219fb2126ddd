//! Changes to a message that leave every other byte as it was.

use std::collections::BTreeMap;

use policy::json::{Doc, Key, Kind, Value, write_string};

/// One step of a path: a member of an object or an item of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'p> {
    Key(&'p str),
    Index(usize),
}

impl<'p> From<&'p str> for Step<'p> {
    fn from(key: &'p str) -> Step<'p> {
        Step::Key(key)
    }
}

impl From<usize> for Step<'_> {
    fn from(index: usize) -> Self {
        Step::Index(index)
    }
}

/// A path leads through something that cannot be changed there: a value of another kind, an item that
/// is not there, a part that a shallow reading did not open, or one that is set or removed itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the message has another shape than the change expects")]
pub struct OtherShape;

/// Changes to one document, made together by [`Splice::finish`].
#[derive(Debug)]
pub struct Splice<'d> {
    root: Value<'d>,
    text: &'d str,
    changes: Changes,
}

/// The changes at and below one place.
#[derive(Debug, Default)]
struct Changes {
    here: Option<Change>,
    keys: Vec<(String, Changes)>,
    items: BTreeMap<usize, Changes>,
}

#[derive(Debug)]
enum Change {
    Set(Vec<u8>),
    Remove,
}

impl<'d> Splice<'d> {
    pub fn new(doc: &'d Doc<'_>) -> Splice<'d> {
        Splice { root: doc.root(), text: doc.text(), changes: Changes::default() }
    }

    /// Puts JSON at a path: replaces what is there, or adds it at the end of its object. Objects that
    /// are missing on the way are made. Of two changes at one place the later counts;
    /// a change below a place that is set or removed itself cannot be made.
    #[must_use]
    pub fn set<'p, S: Into<Step<'p>> + Copy>(self, path: &[S], raw: &str) -> Splice<'d> {
        self.change(path, Change::Set(raw.as_bytes().to_vec()))
    }

    /// Puts a string at a path.
    #[must_use]
    pub fn set_str<'p, S: Into<Step<'p>> + Copy>(self, path: &[S], text: &str) -> Splice<'d> {
        let mut raw = Vec::with_capacity(text.len() + 2);
        write_string(text, &mut raw);
        self.change(path, Change::Set(raw))
    }

    /// Takes a member or an item out, if it is there.
    #[must_use]
    pub fn remove<'p, S: Into<Step<'p>> + Copy>(self, path: &[S]) -> Splice<'d> {
        self.change(path, Change::Remove)
    }

    fn change<'p, S: Into<Step<'p>> + Copy>(mut self, path: &[S], change: Change) -> Splice<'d> {
        let mut changes = &mut self.changes;
        for &step in path {
            changes = changes.at(step.into());
        }
        *changes = Changes { here: Some(change), ..Changes::default() };
        self
    }

    pub fn is_empty(&self) -> bool {
        self.changes.here.is_none() && self.changes.is_leaf()
    }

    /// The changed text.
    pub fn finish(self) -> Result<Vec<u8>, OtherShape> {
        let mut carry =
            Carry { text: self.text, out: Vec::with_capacity(self.text.len() + 64), at: 0 };
        carry.value(self.root, &self.changes)?;
        carry.up_to(self.text.len());
        Ok(carry.out)
    }
}

impl Changes {
    fn at(&mut self, step: Step<'_>) -> &mut Changes {
        let key = match step {
            Step::Index(index) => return self.items.entry(index).or_default(),
            Step::Key(key) => key,
        };
        let found = self.keys.iter().position(|(mine, _)| mine == key);
        let index = found.unwrap_or_else(|| {
            self.keys.push((key.to_owned(), Changes::default()));
            self.keys.len() - 1
        });
        #[expect(clippy::indexing_slicing, reason = "the index was found or pushed just above")]
        &mut self.keys[index].1
    }

    fn key(&self, key: Key<'_>) -> Option<&Changes> {
        self.keys.iter().find(|(mine, _)| key.is(mine)).map(|(_, changes)| changes)
    }

    fn is_leaf(&self) -> bool {
        self.keys.is_empty() && self.items.is_empty()
    }

    fn removes(&self) -> bool {
        matches!(self.here, Some(Change::Remove))
    }

    /// Whether this puts anything where nothing was.
    fn adds(&self) -> bool {
        match &self.here {
            Some(Change::Set(_)) => true,
            Some(Change::Remove) => false,
            None => self.adds_members() || self.items.values().any(Changes::adds),
        }
    }

    fn adds_members(&self) -> bool {
        self.keys.iter().any(|(_, changes)| changes.adds())
    }

    /// Writes what these changes make of nothing.
    fn write_new(&self, out: &mut Vec<u8>) -> Result<(), OtherShape> {
        if let Some(Change::Set(raw)) = &self.here {
            out.extend_from_slice(raw);
            return if self.is_leaf() { Ok(()) } else { Err(OtherShape) };
        }
        if !self.items.is_empty() {
            return Err(OtherShape);
        }
        out.push(b'{');
        self.write_members(true, &|_| false, out)?;
        out.push(b'}');
        Ok(())
    }

    /// Writes the members that are not there yet.
    fn write_members(
        &self,
        mut first: bool,
        is_there: &dyn Fn(&str) -> bool,
        out: &mut Vec<u8>,
    ) -> Result<(), OtherShape> {
        for (key, changes) in &self.keys {
            if is_there(key) || !changes.adds() {
                continue;
            }
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
            write_string(key, out);
            out.push(b':');
            changes.write_new(out)?;
        }
        Ok(())
    }
}

/// The source on its way into the output.
struct Carry<'d> {
    text: &'d str,
    out: Vec<u8>,
    /// Up to where the source is dealt with.
    at: usize,
}

impl Carry<'_> {
    fn up_to(&mut self, end: usize) {
        self.out.extend_from_slice(self.text.as_bytes().get(self.at..end).unwrap_or(&[]));
        self.at = self.at.max(end);
    }

    fn value(&mut self, value: Value<'_>, changes: &Changes) -> Result<(), OtherShape> {
        if changes.is_leaf() {
            if let Some(Change::Set(raw)) = &changes.here {
                self.up_to(value.span().start);
                self.out.extend_from_slice(raw);
                self.at = value.span().end;
            }
            return Ok(());
        }
        match value.kind() {
            _ if value.is_unopened() || changes.here.is_some() => Err(OtherShape),
            Kind::Object if changes.items.is_empty() => self.object(value, changes),
            Kind::Array if changes.keys.is_empty() => self.array(value, changes),
            _ => Err(OtherShape),
        }
    }

    fn object(&mut self, object: Value<'_>, changes: &Changes) -> Result<(), OtherShape> {
        let mut members = Members::new(object);
        for (key, value) in object.entries() {
            self.member(&mut members, key.span().start, value, changes.key(key))?;
        }
        if changes.adds_members() {
            self.up_to(members.end);
            let is_there = |key: &str| object.get(key).is_some();
            changes.write_members(!members.any_kept, &is_there, &mut self.out)?;
        }
        Ok(())
    }

    fn array(&mut self, array: Value<'_>, changes: &Changes) -> Result<(), OtherShape> {
        if changes.items.range(array.len()..).any(|(_, changes)| changes.adds()) {
            return Err(OtherShape);
        }
        let mut members = Members::new(array);
        for (index, item) in array.items().enumerate() {
            self.member(&mut members, item.span().start, item, changes.items.get(&index))?;
        }
        Ok(())
    }

    /// Copies, changes or drops one member that begins at `start`.
    fn member(
        &mut self,
        members: &mut Members,
        start: usize,
        value: Value<'_>,
        changes: Option<&Changes>,
    ) -> Result<(), OtherShape> {
        let end = value.span().end;
        if changes.is_some_and(Changes::removes) {
            // The comma before it goes too; the first member has none and leaves the space before it.
            self.up_to(if members.any_seen { members.end } else { start });
            self.at = end;
        } else {
            if members.any_seen && !members.any_kept {
                self.at = start;
            }
            members.any_kept = true;
            if let Some(changes) = changes {
                self.value(value, changes)?;
            }
        }
        members.any_seen = true;
        members.end = end;
        Ok(())
    }
}

/// How far a walk over the members of a container has come.
struct Members {
    any_seen: bool,
    any_kept: bool,
    /// Where the last member ended, or where the first may begin.
    end: usize,
}

impl Members {
    fn new(container: Value<'_>) -> Members {
        Members { any_seen: false, any_kept: false, end: container.span().start + 1 }
    }
}
