//! Pins: the tool definitions the owner accepted, and how the current list of a server differs from
//! them. The first list of a server is accepted as it is; later changes are not. Lists are compared
//! per set of client capabilities, because some servers show different tools to different clients.

use std::collections::BTreeMap;

use catalog::pins::{
    Change, Fingerprint, canonical_definition, difference, fingerprint_of_canonical,
};
use policy::json::Value;
use rusqlite::{Connection, Transaction};

use super::Registry;
use super::error::{ObjectKind, RegistryError};
use crate::ledger::Note;
use policy::did_you_mean;

mod contents;
pub(super) mod rows;
mod sets;

pub use contents::{CONTENTS_PER_SERVER_MAX, SKILLS_PER_SERVER_MAX};
use rows::PinSummary;
pub use sets::{OTHER_CAPABILITIES, SeenBy, ToolSets};

pub const TOOLS_PER_SERVER_MAX: usize = 10_000;
pub const DEFINITION_BYTES_MAX: usize = 1 << 20;
/// Who accepted the definitions of a first list.
pub const ACCEPTED_AT_FIRST_SIGHT: &str = "first sight";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinState {
    Accepted,
    Changed,
    New,
    /// The server offers the name twice.
    Conflict,
    Gone,
}

impl PinState {
    pub fn as_str(self) -> &'static str {
        match self {
            PinState::Accepted => "accepted",
            PinState::Changed => "changed",
            PinState::New => "new",
            PinState::Conflict => "conflict",
            PinState::Gone => "gone",
        }
    }
}

/// One tool of one server, with the definitions to compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    pub tool: String,
    pub state: PinState,
    /// Canonical definitions with their fingerprints.
    pub accepted: Option<Pinned>,
    pub seen: Option<Pinned>,
    pub first_seen_at_us: i64,
    pub changed_at_us: i64,
    pub accepted_at_us: Option<i64>,
    pub accepted_by: Option<String>,
    /// Further definitions that the owner accepted: some clients see these.
    pub also_accepted: Vec<Pinned>,
    /// What clients of each capability set last saw.
    pub seen_by: Vec<SeenBy>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinned {
    pub definition: String,
    pub fingerprint: Fingerprint,
}

impl Pin {
    /// The differences from what was accepted, one line each.
    pub fn difference(&self) -> Vec<Change> {
        let text = |side: &Option<Pinned>| side.as_ref().map_or("{}", |p| &p.definition).to_owned();
        difference(&text(&self.accepted), &text(&self.seen))
    }
}

/// How a list of tools compares with the pins. Names in alphabetical order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PinReport {
    /// The first list of this server: all of it was accepted.
    pub first: bool,
    pub accepted: usize,
    pub changed: Vec<String>,
    pub new: Vec<String>,
    pub conflict: Vec<String>,
    pub gone: Vec<String>,
    /// Something changed since the last check, so snapshots are out of date.
    pub moved: bool,
}

/// What the owner accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept<'a> {
    All,
    Tool(&'a str),
    /// Only if the tool is still the one the owner looked at.
    Exactly(&'a str, &'a Fingerprint),
}

impl Registry {
    /// Compares the whole list of tools (all pages) that a server showed to clients with these
    /// capabilities with its pins, and stores the result. A list equal to the previous one of that
    /// set changes nothing on disk.
    pub fn observe(
        &self,
        server: &str,
        capabilities: &str,
        tools: &[Value<'_>],
        now_us: i64,
    ) -> Result<PinReport, RegistryError> {
        let seen = Seen::of_list(server, tools)?;
        let (is_first, known, set) = self.read(|db| {
            let key = sets::key(db, server, capabilities)?;
            let (is_first, known) = rows::known(db, server)?;
            Ok((is_first, known, sets::last(db, server, key)?))
        })?;
        let nothing_yet = is_first && seen.is_empty();
        if nothing_yet || !is_first && set.is_some_and(|set| sets::same(&set, &seen)) {
            return Ok(report(&known, false));
        }
        self.write(|db| {
            // Read again: another process may have processed the same list first.
            let key = sets::key(db, server, capabilities)?;
            let (is_first, known) = rows::known(db, server)?;
            rows::put(db, (server, key), &known, &seen, is_first, now_us)?;
            let (_, now_known) = rows::known(db, server)?;
            Ok(PinReport { first: is_first, ..report(&now_known, true) })
        })
    }

    /// The capability sets whose lists were read, and the features that the server declared.
    pub fn tool_sets(&self, server: &str) -> Result<ToolSets, RegistryError> {
        self.read(|db| sets::all(db, server))
    }

    /// Stores which features a server declared. Gates need not reload for it.
    pub fn note_offers(&self, server: &str, offers: &str) -> Result<(), RegistryError> {
        self.write_quietly(|db| sets::put_offers(db, server, offers))
    }

    /// Accepts what a server offers now: changed and new tools as they are, and the removal of
    /// missing tools. Returns the affected tools.
    pub fn accept(
        &self,
        server: &str,
        what: Accept<'_>,
        by: &str,
        now_us: i64,
    ) -> Result<Vec<String>, RegistryError> {
        self.accept_each(server, &[what], by, now_us)
    }

    /// The same for several at once: all of them, or none.
    pub fn accept_each(
        &self,
        server: &str,
        what: &[Accept<'_>],
        by: &str,
        now_us: i64,
    ) -> Result<Vec<String>, RegistryError> {
        self.write(|db| {
            let mut touched = Vec::new();
            for what in what {
                accept_one(db, server, *what, by, now_us, &mut touched)?;
            }
            if !touched.is_empty() {
                let words = touched.join(", ");
                let note = Note { act: "pins_accepted", by, about: server, words: &words };
                self.store_act(db, &note, now_us)?;
            }
            Ok(touched)
        })
    }

    /// Every pin of a server, by tool.
    pub fn pins(&self, server: &str) -> Result<Vec<Pin>, RegistryError> {
        self.read(|db| rows::all_of(db, server))
    }

    /// Drops the pins of a server, so that its next list counts as its first. For servers that were
    /// removed from `tollgate.toml`; `remove_server` does it for others.
    pub fn forget_pins(&self, server: &str) -> Result<(), RegistryError> {
        self.write(|db| forget(db, server))
    }
}

fn accept_one(
    db: &Transaction<'_>,
    server: &str,
    what: Accept<'_>,
    by: &str,
    now_us: i64,
    touched: &mut Vec<String>,
) -> Result<(), RegistryError> {
    let (_, known) = rows::known(db, server)?;
    let is_tool = |name: &str| known.iter().any(|pin| pin.tool == name);
    let is_content = match what {
        Accept::All => contents::accept(db, server, what, by, now_us, touched).map(|_| false)?,
        Accept::Tool(name) | Accept::Exactly(name, _) => {
            !is_tool(name) && contents::accept(db, server, what, by, now_us, touched)?
        }
    };
    if is_content {
        return Ok(());
    }
    let chosen: Vec<&PinSummary> = match what {
        Accept::All => known.iter().collect(),
        Accept::Tool(tool) | Accept::Exactly(tool, _) => vec![find(&known, tool)?],
    };
    for pin in chosen {
        if let Accept::Exactly(tool, fingerprint) = what
            && pin.seen.as_deref() != Some(fingerprint.as_str())
        {
            let (server, tool) = (server.to_owned(), tool.to_owned());
            return Err(RegistryError::ChangedAgain { server, tool });
        }
        let all_variants = !matches!(what, Accept::Exactly(..));
        if rows::accept(db, server, pin, all_variants, by, now_us)? {
            touched.push(pin.tool.clone());
        }
    }
    Ok(())
}

pub(super) fn forget(db: &Connection, server: &str) -> Result<(), RegistryError> {
    let tables = [
        "pins",
        "pin_sets",
        "pin_variants",
        "pin_lists",
        "tool_lists",
        "server_offers",
        "server_lists",
        "content_pins",
    ];
    for table in tables {
        db.execute(&format!("DELETE FROM {table} WHERE server = ?1"), [server])?;
    }
    Ok(())
}

/// One name of a list, with its canonical definition.
pub(super) struct Seen {
    pub(super) definition: String,
    pub(super) fingerprint: Fingerprint,
    /// Two tools of one name cannot be distinguished in a call; both definitions are stored, as a
    /// list.
    pub(super) twice: bool,
}

impl Seen {
    fn as_pinned(&self) -> Pinned {
        Pinned { definition: self.definition.clone(), fingerprint: self.fingerprint.clone() }
    }

    fn of_list(server: &str, tools: &[Value<'_>]) -> Result<BTreeMap<String, Seen>, RegistryError> {
        let refused = |words: String| RegistryError::ToolList { server: server.to_owned(), words };
        if tools.len() > TOOLS_PER_SERVER_MAX {
            return Err(refused(format!("it has more than {TOOLS_PER_SERVER_MAX} tools")));
        }
        let mut by_name: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for tool in tools {
            let name = tool.get("name").and_then(Value::as_str);
            let name = name.ok_or_else(|| refused("a tool has no name".into()))?;
            let definition = canonical_definition(*tool);
            if definition.len() > DEFINITION_BYTES_MAX {
                return Err(refused(format!("a tool is larger than {DEFINITION_BYTES_MAX} bytes")));
            }
            by_name.entry(name.into_owned()).or_default().push(definition);
        }
        Ok(by_name.into_iter().map(|(name, texts)| (name, Seen::of_texts(&texts))).collect())
    }

    fn of_texts(texts: &[String]) -> Seen {
        let (definition, twice) = match texts {
            [one] => (one.clone(), false),
            several => (format!("[{}]", several.join(",")), true),
        };
        Seen { fingerprint: fingerprint_of_canonical(&definition), definition, twice }
    }
}

fn find<'k>(known: &'k [PinSummary], tool: &str) -> Result<&'k PinSummary, RegistryError> {
    known.iter().find(|pin| pin.tool == tool).ok_or_else(|| {
        let near = did_you_mean(tool, known.iter().map(|pin| pin.tool.as_str()));
        RegistryError::Missing { kind: ObjectKind::Tool, name: tool.to_owned(), near }
    })
}

fn report(known: &[PinSummary], moved: bool) -> PinReport {
    let mut report = PinReport { moved, ..PinReport::default() };
    for pin in known {
        let list = match pin.state() {
            PinState::Accepted => {
                report.accepted += 1;
                continue;
            }
            PinState::Changed => &mut report.changed,
            PinState::New => &mut report.new,
            PinState::Conflict => &mut report.conflict,
            PinState::Gone => &mut report.gone,
        };
        list.push(pin.tool.clone());
    }
    report
}
