//! The entries for tools, resources, prompts or skills, and the patterns that select them.

use crate::entry::Entry;
use crate::limits::Limit;
use crate::loader::Loader;
use crate::names::{Match, Name, Names, Tie, deceptive, fold, nfc};
use crate::pointer;
use crate::problem::{Complaint, Position};
use crate::tree::Node;

/// Which other spellings of names a list of patterns must match.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spellings {
    /// The names are URIs, which a server may read differently from how they are written.
    pub(crate) uris: bool,
    /// Names without an entry are allowed, so one that only looks like a pattern must be caught.
    pub(crate) look_alikes: bool,
}

/// Names and globs in order, with their other spellings where needed.
#[derive(Debug, Default)]
pub(crate) struct NamePatterns {
    names: Names,
    readings: Option<Names>,
    look_alikes: Option<Names>,
}

impl NamePatterns {
    pub(crate) fn new(texts: &[String], spellings: Spellings) -> (NamePatterns, Vec<Tie>) {
        let (names, ties) = Names::new(texts.iter().map(String::as_str));
        let readings = spellings.uris.then(|| folded(texts, fold::uri_pattern));
        let look_alikes = spellings.look_alikes.then(|| folded(texts, fold::look_alike_pattern));
        (NamePatterns { names, readings, look_alikes }, ties)
    }

    pub(crate) fn find(&self, name: &Name<'_>) -> Option<Match> {
        self.names.find(name)
    }

    /// The glob that matches a name among those that `wanted` accepts.
    pub(crate) fn find_glob_where(
        &self,
        name: &Name<'_>,
        wanted: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        self.names.find_glob_where(name, wanted)
    }

    /// The pattern that matches a URI as a server may read it.
    pub(crate) fn find_reading(&self, reading: &str) -> Option<u32> {
        self.readings.as_ref().and_then(|names| names.find_text(reading))
    }

    /// The pattern that a deceptive name looks like.
    pub(crate) fn find_look_alike(&self, name: &Name<'_>) -> Option<u32> {
        name.deceptive?;
        self.look_alikes.as_ref().and_then(|names| names.find_text(&fold::look(&name.text)))
    }
}

fn folded(texts: &[String], fold: fn(&str) -> String) -> Names {
    let folded: Vec<String> = texts.iter().map(|text| fold(text)).collect();
    Names::new(folded.iter().map(String::as_str)).0
}

#[derive(Default)]
pub(crate) struct Section {
    pub(crate) patterns: NamePatterns,
    entries: Vec<Entry>,
}

impl Section {
    /// `shared` are limits that apply to every call of this section in addition to its own.
    pub(crate) fn compile(
        node: Option<&Node>,
        pointer: &str,
        spellings: Spellings,
        shared: &[Limit],
        loader: &mut Loader,
    ) -> Section {
        let members = node.map(Node::members).unwrap_or_default();
        let texts: Vec<String> = members.iter().map(|member| nfc(&member.name)).collect();
        let positions: Vec<Position> = members.iter().map(|member| member.position).collect();
        let (patterns, ties) = NamePatterns::new(&texts, spellings);
        let pointer_of = |index: usize| {
            pointer::member(pointer, members.get(index).map_or("", |member| &member.name))
        };
        check_patterns(&texts, &positions, pointer_of, loader);
        for tie in ties {
            note_tie(tie, &texts, &positions, pointer_of, loader);
        }
        let entries = members.iter().map(|member| {
            let pointer = pointer::member(pointer, &member.name);
            Entry::compile(&member.node, pointer, shared, loader)
        });
        Section { entries: entries.collect(), patterns }
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    pub(crate) fn entry(&self, index: u32) -> Option<&Entry> {
        self.entries.get(usize::try_from(index).ok()?)
    }
}

/// Rejects empty patterns and warns of deceptive ones.
pub(crate) fn check_patterns(
    texts: &[String],
    positions: &[Position],
    pointer: impl Fn(usize) -> String,
    loader: &mut Loader,
) {
    for (index, (text, position)) in texts.iter().zip(positions).enumerate() {
        if text.is_empty() {
            loader.problems.add(*position, &pointer(index), Complaint::new("empty name"));
        }
        if text.trim() != text {
            let message = format!("the name `{}` begins or ends with a space", text.escape_debug());
            let hint =
                "names are compared byte for byte; a name without the space is a different name";
            loader.warnings.add(*position, &pointer(index), Complaint::new(message).hint(hint));
        }
        if let Some(deceptive) = deceptive(text) {
            let message = format!("the name `{}` {}", text.escape_debug(), deceptive.message());
            let hint = "such a name only matches exactly, never through a glob";
            loader.warnings.add(*position, &pointer(index), Complaint::new(message).hint(hint));
        }
    }
}

fn note_tie(
    tie: Tie,
    texts: &[String],
    positions: &[Position],
    pointer: impl Fn(usize) -> String,
    loader: &mut Loader,
) {
    let at = |index: u32| usize::try_from(index).unwrap_or(usize::MAX);
    let text = |index: u32| texts.get(at(index)).map_or("", String::as_str);
    let (later, earlier) = (text(tie.later), text(tie.earlier));
    let position = positions.get(at(tie.later)).copied().unwrap_or_default();
    let complaint = if later == earlier {
        Complaint::new(format!("the name `{later}` appears twice"))
    } else {
        Complaint::new(format!("the globs `{later}` and `{earlier}` match the same names"))
            .hint("make the part before the first `*` of one longer, or merge them")
    };
    loader.problems.add(position, &pointer(at(tie.later)), complaint);
}
