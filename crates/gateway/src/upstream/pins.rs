//! The pinned tool definitions of one server, as calls and lists use them.

use std::borrow::Cow;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use policy::OnChange;
use policy::json::{Bounds, Doc, Kind, Value};
use policy::{Definition, Policy, Subject, ToolFacts};
use store::registry::{Pin, PinState, Pinned, ToolSets};

use mcp::{ClientCapabilities, ParamHeaders};

/// The pins of one server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pins {
    known: bool,
    /// The client capabilities whose tool list was read.
    sets: HashSet<ClientCapabilities>,
    tools: HashMap<String, PinnedTool>,
}

#[derive(Clone, Debug)]
struct PinnedTool {
    /// The accepted definitions in canonical form. Several if clients get different ones, or if the server
    /// offers the name more than once.
    accepted: Vec<Arc<str>>,
    /// For clients whose own list was not read yet: the worst of all sets.
    overall: Offer,
    /// What clients with these capabilities are offered.
    by_set: HashMap<ClientCapabilities, Offer>,
    category: Option<&'static str>,
    risk: Option<&'static str>,
    param_headers: Option<ParamHeaders>,
    only_as_task: bool,
}

/// The definition that the server offers now. A policy may allow it without acceptance.
#[derive(Clone, Debug, PartialEq)]
struct Offer {
    definition: Definition,
    fingerprint: Option<String>,
    /// None if the tool is no longer offered.
    text: Option<Arc<str>>,
}

impl Pins {
    /// The pins from the registry. A server that was never read has none.
    pub(crate) fn of(server: &str, pins: &[Pin], sets: &ToolSets) -> Pins {
        let tools = pins.iter().map(|pin| (pin.tool.clone(), PinnedTool::of(server, pin)));
        let sets =
            sets.capabilities.iter().filter_map(|key| ClientCapabilities::of_key(key)).collect();
        Pins { known: !pins.is_empty(), sets, tools: tools.collect() }
    }

    /// Whether both show the same to agents.
    pub(crate) fn shows_as(&self, other: &Pins) -> bool {
        let sets: HashSet<ClientCapabilities> = self.sets.union(&other.sets).copied().collect();
        let is_same = |(name, one): (&String, &PinnedTool)| {
            other.tools.get(name).is_some_and(|two| {
                one.accepted == two.accepted
                    && one.overall == two.overall
                    && sets.iter().all(|set| self.offer(one, *set) == other.offer(two, *set))
            })
        };
        self.tools.len() == other.tools.len() && self.tools.iter().all(is_same)
    }

    /// A server whose list was read and is empty.
    pub(crate) fn none_offered() -> Pins {
        Pins { known: true, ..Pins::default() }
    }

    /// The pins after a list of a server that is not in the registry: its first list is accepted, later
    /// differences are marked.
    pub(crate) fn observed(&self, server: &str, tools: &[Value<'_>]) -> Pins {
        let named =
            |tool: &Value<'_>| tool.get("name").and_then(Value::as_str).map(Cow::into_owned);
        let mut times: HashMap<String, usize> = HashMap::new();
        for name in tools.iter().filter_map(named) {
            *times.entry(name).or_default() += 1;
        }
        let mut tools_now = self.tools.clone();
        for tool in tools {
            let Some(name) = named(tool) else { continue };
            let fingerprint = catalog::pins::fingerprint(*tool).to_string();
            let definition: Arc<str> = catalog::pins::canonical_definition(*tool).into();
            let twice = times.get(&name).is_some_and(|times| *times > 1);
            let state = match self.tools.get(&name) {
                _ if twice => Definition::Conflict,
                None if self.known => Definition::New,
                // Listing it again does not accept it.
                Some(pinned) if pinned.accepted.is_empty() => Definition::New,
                Some(pinned) if !pinned.accepted.contains(&definition) => Definition::Changed,
                _ => Definition::Unchanged,
            };
            let offer = Offer {
                definition: state,
                fingerprint: Some(fingerprint),
                text: Some(Arc::clone(&definition)),
            };
            let entry = tools_now.entry(name).or_insert_with(|| PinnedTool {
                overall: offer.clone(),
                accepted: if self.known || twice {
                    Vec::new()
                } else {
                    vec![Arc::clone(&definition)]
                },
                by_set: HashMap::new(),
                category: None,
                risk: None,
                param_headers: param_headers(&definition),
                only_as_task: only_as_task(&definition),
            });
            entry.overall = offer;
            // Only an accepted definition classifies the tool.
            if state != Definition::Changed
                && let Some((category, risk)) = crate::upstream::classify::of(server, &definition)
            {
                (entry.category, entry.risk) = (Some(category), Some(risk));
            }
        }
        Pins { known: true, tools: tools_now, ..Pins::default() }
    }

    /// Whether the server's list was ever read.
    pub(crate) fn is_known(&self) -> bool {
        self.known
    }

    /// Whether the list for these client capabilities was ever read.
    pub(crate) fn knows(&self, set: ClientCapabilities) -> bool {
        self.sets.contains(&set)
    }

    /// Whether the server ever offered the tool.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.tools.contains_key(name)
    }

    /// The sorted names of the tools.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.tools.keys().cloned().collect();
        names.sort();
        names
    }

    /// The offer of a tool to clients with these capabilities.
    fn offer<'t>(&self, tool: &'t PinnedTool, set: ClientCapabilities) -> Option<&'t Offer> {
        if self.sets.contains(&set) { tool.by_set.get(&set) } else { Some(&tool.overall) }
    }

    fn definition(&self, tool: &PinnedTool, set: ClientCapabilities) -> Definition {
        match self.offer(tool, set) {
            Some(offer) => offer.definition,
            None if tool.accepted.is_empty() => Definition::New,
            // The server itself refuses it for this client.
            None => Definition::Unchanged,
        }
    }

    /// The definitions that clients with these capabilities are offered, sorted by name.
    pub(crate) fn offered(&self, set: ClientCapabilities) -> Vec<String> {
        let mut tools: Vec<(&String, &PinnedTool)> = self.tools.iter().collect();
        tools.sort_by_key(|(name, _)| *name);
        let texts = tools.into_iter().filter_map(|(_, tool)| self.offer(tool, set)?.text.as_ref());
        texts.flat_map(|text| each(text)).map(|text| text.to_string()).collect()
    }

    /// The definitions of this name that clients with these capabilities are offered.
    pub(crate) fn offered_as(&self, name: &str, set: ClientCapabilities) -> Vec<Arc<str>> {
        let tool = self.tools.get(name);
        let text = tool.and_then(|tool| self.offer(tool, set)?.text.as_ref());
        text.map(|text| each(text)).unwrap_or_default()
    }

    /// The facts about a tool for the policy. An unlisted tool is new.
    pub(crate) fn facts(&self, name: &str, set: ClientCapabilities) -> ToolFacts<'_> {
        match self.tools.get(name) {
            Some(tool) => ToolFacts {
                category: tool.category,
                risk: tool.risk,
                definition: self.definition(tool, set),
                server: None,
                aggregates: false,
                aggregate_days_of_grant: None,
            },
            None if self.known => ToolFacts { definition: Definition::New, ..ToolFacts::default() },
            None => ToolFacts::default(),
        }
    }

    /// The fingerprint of the definition that a call uses, for approvals and audit rows.
    pub(crate) fn fingerprint(&self, name: &str, set: ClientCapabilities) -> Option<&str> {
        let tool = self.tools.get(name)?;
        self.offer(tool, set).unwrap_or(&tool.overall).fingerprint.as_deref()
    }

    /// The headers that mirror arguments of a tool, if its schema declares any.
    pub(crate) fn param_headers(&self, name: &str) -> Option<&ParamHeaders> {
        self.tools.get(name)?.param_headers.as_ref()
    }

    /// Whether a legacy server runs the tool only as a task.
    pub(crate) fn only_as_task(&self, name: &str) -> bool {
        self.tools.get(name).is_some_and(|tool| tool.only_as_task)
    }

    /// The definition that an agent may see: the offered one if it is accepted, the accepted one if it was
    /// changed, none for a new tool.
    pub(crate) fn shown(
        &self,
        name: &str,
        set: ClientCapabilities,
        offered: Value<'_>,
        policy: &Policy,
    ) -> Option<String> {
        let as_offered = || Some(offered.raw().to_owned());
        let Some(tool) = self.tools.get(name) else {
            return if self.known && refuses(policy, name) { None } else { as_offered() };
        };
        if !refuses(policy, name) {
            return as_offered();
        }
        let offered = catalog::pins::canonical_definition(offered);
        let is_accepted = tool.accepted.iter().any(|accepted| **accepted == *offered);
        let accepted = || tool.accepted.first().map(ToString::to_string);
        match self.definition(tool, set) {
            Definition::New => None,
            Definition::Changed => accepted(),
            _ if is_accepted => as_offered(),
            // Of two definitions, only the accepted one is shown.
            Definition::Conflict => None,
            // A page of a long list may contain a change since the last full read.
            Definition::Unchanged | Definition::Unknown => accepted(),
        }
    }
}

/// The definitions in a pin: one, or a list if several share the name.
fn each(pinned: &str) -> Vec<Arc<str>> {
    if !pinned.starts_with('[') {
        return vec![pinned.into()];
    }
    match Doc::read(pinned.as_bytes(), &Bounds::ANSWER) {
        Ok(doc) if doc.root().kind() == Kind::Array => {
            doc.root().items().map(|one| one.raw().into()).collect()
        }
        _ => vec![pinned.into()],
    }
}

fn param_headers(definition: &str) -> Option<ParamHeaders> {
    let doc = Doc::read(definition.as_bytes(), &Bounds::ANSWER).ok()?;
    let headers = ParamHeaders::of_schema(doc.root().get("inputSchema")?);
    (!headers.is_empty()).then_some(headers)
}

fn only_as_task(definition: &str) -> bool {
    let Ok(doc) = Doc::read(definition.as_bytes(), &Bounds::ANSWER) else { return false };
    let support = doc.root().get("execution").and_then(|execution| execution.get("taskSupport"));
    support.and_then(Value::as_str).as_deref() == Some("required")
}

fn refuses(policy: &Policy, name: &str) -> bool {
    policy.on_change(Subject::Tool(name)) == OnChange::Refuse
}

impl PinnedTool {
    fn of(server: &str, pin: &Pin) -> PinnedTool {
        let accepted = pin.accepted.as_ref().or(pin.seen.as_ref());
        let offered = pin.seen.as_ref().or(pin.accepted.as_ref());
        let classed =
            accepted.and_then(|pinned| crate::upstream::classify::of(server, &pinned.definition));
        let all_accepted = pin.accepted.iter().chain(&pin.also_accepted);
        let by_set = pin.seen_by.iter().filter_map(|by| {
            Some((
                ClientCapabilities::of_key(&by.capabilities)?,
                Offer::of(by.state, Some(&by.seen)),
            ))
        });
        PinnedTool {
            overall: Offer {
                fingerprint: offered.map(|pinned| pinned.fingerprint.to_string()),
                ..Offer::of(pin.state, pin.seen.as_ref())
            },
            by_set: by_set.collect(),
            accepted: all_accepted.flat_map(|pinned| each(&pinned.definition)).collect(),
            category: classed.map(|classed| classed.0),
            risk: classed.map(|classed| classed.1),
            param_headers: accepted.and_then(|pinned| param_headers(&pinned.definition)),
            only_as_task: accepted.is_some_and(|pinned| only_as_task(&pinned.definition)),
        }
    }
}

impl Offer {
    fn of(state: PinState, seen: Option<&Pinned>) -> Offer {
        Offer {
            definition: match state {
                PinState::Accepted | PinState::Gone => Definition::Unchanged,
                PinState::Changed => Definition::Changed,
                PinState::New => Definition::New,
                PinState::Conflict => Definition::Conflict,
            },
            fingerprint: seen.map(|pinned| pinned.fingerprint.to_string()),
            text: seen.map(|pinned| Arc::from(pinned.definition.as_str())),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use policy::Format;
    use store::registry::SeenBy;

    use super::*;

    fn facts<'p>(pins: &'p Pins, name: &str) -> ToolFacts<'p> {
        pins.facts(name, ClientCapabilities::default())
    }

    fn after(pins: &Pins, list: &str) -> Pins {
        let doc = Doc::read(list.as_bytes(), &Bounds::ANSWER).unwrap();
        pins.observed("wrapped", &doc.root().items().collect::<Vec<_>>())
    }

    /// The lists of a wrapped command in order, and the expected state of its tools.
    #[test]
    fn only_the_first_list_of_a_wrapped_command_is_accepted() {
        use Definition::{Changed, Conflict, New, Unchanged};
        const FIRST: &str = r#"{"name":"a"},{"name":"twin"},{"name":"twin"}"#;
        type Case = (&'static str, &'static [(&'static str, Definition)]);
        let cases: &[Case] = &[
            (FIRST, &[("a", Unchanged), ("twin", Conflict), ("x", New)]),
            (r#"{"name":"a"},{"name":"late"}"#, &[("a", Unchanged), ("late", New)]),
            (r#"{"name":"a"},{"name":"late"}"#, &[("a", Unchanged), ("late", New)]),
            (r#"{"name":"a"},{"name":"late","title":"t"}"#, &[("late", New)]),
            (r#"{"name":"late"},{"name":"late"}"#, &[("a", Unchanged), ("late", Conflict)]),
            (r#"{"name":"late"},{"name":"twin"}"#, &[("late", New), ("twin", New)]),
            (r#"{"name":"a","title":"t"},{"name":"twin"}"#, &[("a", Changed), ("twin", New)]),
            (r#"{"name":"a","title":"t"}"#, &[("a", Changed)]),
            (r#"{"name":"a"}"#, &[("a", Unchanged), ("late", New)]),
        ];
        let mut pins = Pins::default();
        for (list, expected) in cases {
            pins = after(&pins, &format!("[{list}]"));
            for (name, definition) in *expected {
                assert_eq!(facts(&pins, name).definition, *definition, "{name} after {list}");
            }
        }
    }

    #[test]
    fn accepted_definitions_of_a_duplicate_name_are_shown_as_tools() {
        let pinned = |text: &str| Pinned {
            fingerprint: catalog::pins::fingerprint_of_canonical(text),
            definition: text.to_owned(),
        };
        let both =
            r#"[{"description":"Reads","name":"a"},{"description":"Deletes all","name":"a"}]"#;
        let (one, other) = (r#"{"description":"Reads","name":"a"}"#, r#"{"name":"a"}"#);
        let policy = Policy::load(r#"{"version":"1","default":"allow"}"#, Format::Json).unwrap();
        for (state, accepted, shown) in [
            (PinState::Accepted, both, [Some(one), Some(one)]),
            (PinState::Changed, both, [Some(one), Some(one)]),
            (PinState::Conflict, one, [Some(one), None]),
        ] {
            let pin = Pin {
                tool: "a".to_owned(),
                state,
                accepted: Some(pinned(accepted)),
                seen: Some(pinned(both)),
                first_seen_at_us: 0,
                changed_at_us: 0,
                accepted_at_us: None,
                accepted_by: None,
                also_accepted: Vec::new(),
                seen_by: Vec::new(),
            };
            let pins = Pins::of("s", &[pin], &ToolSets::default());
            for (offered, shown) in [one, other].into_iter().zip(shown) {
                let doc = Doc::read(offered.as_bytes(), &Bounds::ANSWER).unwrap();
                let text = pins.shown("a", ClientCapabilities::default(), doc.root(), &policy);
                assert_eq!(text.as_deref(), shown, "{state:?}");
            }
            if accepted == both {
                assert_eq!(facts(&pins, "a").category, Some("destructive"));
            }
        }
    }

    #[test]
    fn a_changed_definition_does_not_classify_its_tool() {
        let tool = |words: &str| format!(r#"[{{"name":"files","description":"{words}"}}]"#);
        let pins = after(&Pins::default(), &tool("Deletes all files for ever"));
        let accepted = facts(&pins, "files").category.map(str::to_owned);
        let pins = after(&pins, &tool("Reads the time"));
        assert_eq!(facts(&pins, "files").category.map(str::to_owned), accepted);
    }

    #[test]
    fn each_capability_set_has_its_own_list_and_the_union_stands_for_unknown_ones() {
        let pinned = |text: &str| Pinned {
            fingerprint: catalog::pins::fingerprint_of_canonical(text),
            definition: text.to_owned(),
        };
        let by = |key: &str, state, text: &str| SeenBy {
            capabilities: key.to_owned(),
            state,
            seen: pinned(text),
        };
        let pin = |tool: &str, seen_by: Vec<SeenBy>| Pin {
            tool: tool.to_owned(),
            state: PinState::Accepted,
            accepted: Some(pinned(&format!(r#"{{"name":"{tool}"}}"#))),
            seen: Some(pinned(&format!(r#"{{"name":"{tool}"}}"#))),
            first_seen_at_us: 0,
            changed_at_us: 0,
            accepted_at_us: None,
            accepted_by: None,
            also_accepted: Vec::new(),
            seen_by,
        };
        let (a, ask) = (r#"{"name":"a"}"#, r#"{"name":"ask"}"#);
        let accepted = PinState::Accepted;
        let mut pins = [
            pin("a", vec![by("", accepted, a), by("elicitation,forms", accepted, a)]),
            pin("ask", vec![by("elicitation,forms", accepted, ask)]),
        ];
        let sets = ToolSets {
            capabilities: vec![String::new(), "elicitation,forms".to_owned()],
            offers: None,
        };
        let set = |key: &str| ClientCapabilities::of_key(key).unwrap();
        let of = Pins::of("s", &pins, &sets);
        for (key, listed) in
            [("", vec![a]), ("elicitation,forms", vec![a, ask]), ("roots", vec![a, ask])]
        {
            assert_eq!(of.offered(set(key)), listed, "{key:?}");
        }
        assert_eq!(of.facts("ask", set("")).definition, Definition::Unchanged);
        // A definition that only some clients get is in doubt for those, and for unknown ones.
        pins[0].seen_by[0] = by("", PinState::Changed, r#"{"name":"a","x":1}"#);
        pins[0].state = PinState::Changed;
        let of = Pins::of("s", &pins, &sets);
        for (key, definition) in [
            ("", Definition::Changed),
            ("elicitation,forms", Definition::Unchanged),
            ("roots", Definition::Changed),
        ] {
            assert_eq!(of.facts("a", set(key)).definition, definition, "{key:?}");
        }
    }
}
