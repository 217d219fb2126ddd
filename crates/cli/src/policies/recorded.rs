//! The calls of the audit log that a policy judged, one after another, as a policy can be asked about them
//! again: everything but the arguments, which the log does not hold.

use std::collections::HashMap;

use anyhow::{Context as _, Result};
use clap::Args;
use jiff::tz::TimeZone;
use policy::json::{Bounds, Doc};
use policy::{Call, Caller, Code, Definition, LocalTime, Subject, ToolFacts};
use serde::Serialize;
use store::ledger::{Entry, EntryKind, Facts, Filter};
use store::registry::Pin;

use crate::audit;
use crate::context::Stores;
use crate::moment;
use crate::output::Progress;

#[derive(Args)]
pub(super) struct Where {
    /// Only calls for this server
    #[arg(long, value_name = "NAME")]
    pub(super) server: Option<String>,
    /// Only calls from this time on, such as 30d (ago) or 2026-11-15
    #[arg(long, value_name = "TIME")]
    pub(super) since: Option<String>,
}

/// What became of a call when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Then {
    Allowed,
    /// A human was asked, whatever came of it.
    Asked,
    Denied,
    Limited,
}

impl Then {
    pub(super) const ALL: [Then; 4] = [Then::Allowed, Then::Asked, Then::Denied, Then::Limited];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Then::Allowed => "allowed",
            Then::Asked => "asked",
            Then::Denied => "denied",
            Then::Limited => "limited",
        }
    }
}

/// One judged call.
pub(super) struct Recorded {
    pub(super) entry: Entry,
    pub(super) then: Then,
    time: LocalTime,
}

impl Recorded {
    /// Nothing for notes, for the protocol's own business and for what was turned away at the door:
    /// only a policy leaves a rule in the row.
    fn of(entry: Entry, zone: &TimeZone) -> Result<Option<Recorded>> {
        if entry.kind != EntryKind::Call || entry.rule.is_empty() {
            return Ok(None);
        }
        let by_human = !entry.approval.is_empty() || entry.code.starts_with("approval_");
        let then = match entry.decision.as_str() {
            "asked" => Then::Asked,
            "admitted" | "denied" if by_human => Then::Asked,
            "admitted" => Then::Allowed,
            "denied" => Then::Denied,
            "limited" => Then::Limited,
            _ => return Ok(None),
        };
        let at: jiff::Timestamp = entry
            .time
            .parse()
            .with_context(|| format!("row {} of the audit log has no time", entry.seq))?;
        let time = moment::policy_time(at.as_microsecond(), zone)?;
        Ok(Some(Recorded { entry, then, time }))
    }

    /// Whether it was sent on its way: admitted, and not found to have never left.
    pub(super) fn was_carried_out(&self) -> bool {
        self.entry.decision == "admitted" && !self.entry.released
    }

    /// Whether it counts against limits: a further part of a call was counted with the first.
    pub(super) fn counts(&self) -> bool {
        self.was_carried_out() && self.entry.continuation_of.is_none()
    }

    pub(super) fn subject(&self) -> Subject<'_> {
        let Entry { tool, uri, prompt, method, .. } = &self.entry;
        match (tool.is_empty(), uri.is_empty(), prompt.is_empty()) {
            (false, ..) => Subject::Tool(tool),
            (_, false, _) => Subject::Resource(uri),
            (.., false) => Subject::Prompt(prompt),
            _ => Subject::Method(method),
        }
    }

    pub(super) fn facts(&self) -> Facts<'_> {
        let Entry { grant, session, server, .. } = &self.entry;
        Facts { grant, server, session: some(session), ..Facts::default() }
    }

    /// Asks about the call with what is known of it now and of its tool.
    pub(super) fn ask<T>(
        &self,
        tools: &mut Tools<'_>,
        about: impl FnOnce(&Call<'_>) -> T,
    ) -> Result<T> {
        let entry = &self.entry;
        let subject = self.subject();
        let client = match entry.client_version.as_str() {
            "" => entry.client.clone(),
            version => format!("{} {version}", entry.client),
        };
        let (category, risk) = match subject {
            Subject::Tool(tool) => tools.class(&entry.server, tool)?.unzip(),
            _ => (None, None),
        };
        let caller =
            Caller { grant: &entry.grant, session: some(&entry.session), client: some(&client) };
        let tool = ToolFacts {
            server: some(&entry.server),
            category,
            risk,
            definition: self.definition(),
        };
        Ok(about(&Call { subject, args: None, params: None, caller, tool, time: self.time }))
    }

    /// As it stood then, as far as the row tells: a definition that nobody had accepted was refused.
    fn definition(&self) -> Definition {
        match self.subject() {
            Subject::Tool(_) if self.entry.code == Code::ToolChanged.as_str() => {
                Definition::Changed
            }
            Subject::Tool(_) => Definition::Unchanged,
            _ => Definition::Unknown,
        }
    }
}

fn some(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// Hands every judged call to `visit`, oldest first, one in memory at a time.
pub(super) fn each(
    grant: Option<&str>,
    place: &Where,
    zone: &TimeZone,
    stores: &Stores,
    mut visit: impl FnMut(Recorded) -> Result<()>,
) -> Result<()> {
    let now_us = stores.now_us();
    let since =
        place.since.as_deref().map(|text| moment::parse_moment(text, now_us)).transpose()?;
    let filter = Filter {
        grant: grant.map(str::to_owned),
        server: place.server.clone(),
        since_us: since,
        only: Some(EntryKind::Call),
        ..Filter::default()
    };
    let mut progress = Progress::new("replayed");
    let entries = audit::reader(stores)?.oldest_first(&filter)?;
    for (done, entry) in (0_u64..).zip(entries) {
        if let Some(recorded) = Recorded::of(entry?, zone)? {
            visit(recorded)?;
        }
        progress.at(done);
    }
    Ok(())
}

type Class = (&'static str, &'static str);

/// Category and risk of tools, by the pins as they are now. A tool is classed when it is first met.
pub(super) struct Tools<'s> {
    stores: &'s Stores,
    servers: HashMap<String, HashMap<String, Known>>,
}

enum Known {
    Definition(String),
    Class(Option<Class>),
}

impl<'s> Tools<'s> {
    pub(super) fn new(stores: &'s Stores) -> Tools<'s> {
        Tools { stores, servers: HashMap::new() }
    }

    fn class(&mut self, server: &str, tool: &str) -> Result<Option<Class>> {
        if !self.servers.contains_key(server) {
            let pins = self.stores.registry.pins(server)?;
            let known = pins.into_iter().filter_map(definition).collect();
            self.servers.insert(server.to_owned(), known);
        }
        let Some(known) = self.servers.get_mut(server).and_then(|tools| tools.get_mut(tool)) else {
            return Ok(None);
        };
        if let Known::Definition(text) = known {
            *known = Known::Class(classed(server, text));
        }
        Ok(match known {
            Known::Class(class) => *class,
            Known::Definition(_) => None,
        })
    }
}

/// The definition that the gate classes, too.
fn definition(pin: Pin) -> Option<(String, Known)> {
    let pinned = pin.accepted.or(pin.seen)?;
    Some((pin.tool, Known::Definition(pinned.definition)))
}

fn classed(server: &str, definition: &str) -> Option<Class> {
    let doc = Doc::read(definition.as_bytes(), &Bounds::ANSWER).ok()?;
    let classed = catalog::classify::classify(server, doc.root());
    Some((classed.category.as_str(), classed.risk.as_str()))
}
