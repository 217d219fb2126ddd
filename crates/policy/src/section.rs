//! The entries for tools, resources or prompts, and the names they go by.

use crate::entry::Entry;
use crate::limits::Limit;
use crate::load::Loader;
use crate::names::{Match, Name, Names, Tie, fold, nfc, oddness};
use crate::pointer;
use crate::problem::{Complaint, Place};
use crate::tree::Node;

/// Which other spellings of names a list of patterns must know.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spellings {
    /// The names are URIs, of which a server may read another one than is written.
    pub(crate) uris: bool,
    /// Names that nothing matches are allowed, so one that only looks like a pattern must be caught.
    pub(crate) looks: bool,
}

/// Names and globs in order, with their other spellings where these matter.
#[derive(Debug, Default)]
pub(crate) struct Patterns {
    names: Names,
    readings: Option<Names>,
    looks: Option<Names>,
}

impl Patterns {
    pub(crate) fn new(texts: &[String], spellings: Spellings) -> (Patterns, Vec<Tie>) {
        let (names, ties) = Names::new(texts.iter().map(String::as_str));
        let readings = spellings.uris.then(|| folded(texts, fold::uri_pattern));
        let looks = spellings.looks.then(|| folded(texts, fold::look_of_pattern));
        (Patterns { names, readings, looks }, ties)
    }

    pub(crate) fn find(&self, name: &Name<'_>) -> Option<Match> {
        self.names.find(name)
    }

    /// The glob that speaks for a name among those that are wanted.
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

    /// The pattern that an odd name looks like.
    pub(crate) fn find_look(&self, name: &Name<'_>) -> Option<u32> {
        name.oddness?;
        self.looks.as_ref().and_then(|names| names.find_text(&fold::look(&name.text)))
    }
}

fn folded(texts: &[String], fold: fn(&str) -> String) -> Names {
    let folded: Vec<String> = texts.iter().map(|text| fold(text)).collect();
    Names::new(folded.iter().map(String::as_str)).0
}

#[derive(Default)]
pub(crate) struct Section {
    pub(crate) patterns: Patterns,
    entries: Vec<Entry>,
}

impl Section {
    /// `shared` are limits that every call of this section meets besides its own.
    pub(crate) fn compile(
        node: Option<&Node>,
        pointer: &str,
        spellings: Spellings,
        shared: &[Limit],
        loader: &mut Loader,
    ) -> Section {
        let members = node.map(Node::members).unwrap_or_default();
        let texts: Vec<String> = members.iter().map(|member| nfc(&member.name)).collect();
        let places: Vec<Place> = members.iter().map(|member| member.place).collect();
        let (patterns, ties) = Patterns::new(&texts, spellings);
        let pointer_of = |index: usize| {
            pointer::member(pointer, members.get(index).map_or("", |member| &member.name))
        };
        check_patterns(&texts, &places, pointer_of, loader);
        for tie in ties {
            note_tie(tie, &texts, &places, pointer_of, loader);
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

/// Refuses empty patterns and warns of those that are not what they seem.
pub(crate) fn check_patterns(
    texts: &[String],
    places: &[Place],
    pointer: impl Fn(usize) -> String,
    loader: &mut Loader,
) {
    for (index, (text, place)) in texts.iter().zip(places).enumerate() {
        if text.is_empty() {
            loader.problems.add(*place, &pointer(index), Complaint::new("an empty name"));
        }
        if text.trim() != text {
            let words = format!("the name `{}` begins or ends with a blank", text.escape_debug());
            let hint = "names are compared byte for byte; a name without the blank is another name";
            loader.warnings.add(*place, &pointer(index), Complaint::new(words).hint(hint));
        }
        if let Some(oddness) = oddness(text) {
            let words = format!("the name `{}` {}", text.escape_debug(), oddness.words());
            let hint = "such a name is matched exactly, never by a glob";
            loader.warnings.add(*place, &pointer(index), Complaint::new(words).hint(hint));
        }
    }
}

fn note_tie(
    tie: Tie,
    texts: &[String],
    places: &[Place],
    pointer: impl Fn(usize) -> String,
    loader: &mut Loader,
) {
    let at = |index: u32| usize::try_from(index).unwrap_or(usize::MAX);
    let text = |index: u32| texts.get(at(index)).map_or("", String::as_str);
    let (later, earlier) = (text(tie.later), text(tie.earlier));
    let place = places.get(at(tie.later)).copied().unwrap_or_default();
    let complaint = if later == earlier {
        Complaint::new(format!("the name `{later}` stands twice"))
    } else {
        Complaint::new(format!("the globs `{later}` and `{earlier}` match the same names"))
            .hint("make the part before the first `*` of one longer, or join them")
    };
    loader.problems.add(place, &pointer(at(tie.later)), complaint);
}
