//! What a caller sees of a server's lists: only what its policy shows, and tools only as they were pinned.

use policy::json::{Bounds, Doc, Value};
use policy::{Policy, Subject};

use crate::pins::Pins;
use crate::rebuild::{self, Member, string};
use crate::wire::{HEADER_EXTENSION, ParamHeaders, Takes};

/// Which list a method asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum List {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl List {
    pub(crate) fn of_method(method: &str) -> Option<List> {
        Some(match method {
            "tools/list" => List::Tools,
            "prompts/list" => List::Prompts,
            "resources/list" => List::Resources,
            "resources/templates/list" => List::Templates,
            _ => return None,
        })
    }

    pub(crate) fn method(self) -> &'static str {
        match self {
            List::Tools => "tools/list",
            List::Prompts => "prompts/list",
            List::Resources => "resources/list",
            List::Templates => "resources/templates/list",
        }
    }

    /// The member of the result that holds the items.
    pub(crate) fn member(self) -> &'static str {
        match self {
            List::Tools => "tools",
            List::Prompts => "prompts",
            List::Resources => "resources",
            List::Templates => "resourceTemplates",
        }
    }

    /// The feature that a server with this list declares.
    pub(crate) fn capability(self) -> &'static str {
        match self {
            List::Tools => "tools",
            List::Prompts => "prompts",
            List::Resources | List::Templates => "resources",
        }
    }

    /// The notification that it changed.
    pub(crate) fn changed(self) -> &'static str {
        match self {
            List::Tools => "notifications/tools/list_changed",
            List::Prompts => "notifications/prompts/list_changed",
            List::Resources | List::Templates => "notifications/resources/list_changed",
        }
    }

    /// The member that names an item.
    pub(crate) fn key(self) -> &'static str {
        match self {
            List::Tools | List::Prompts => "name",
            List::Resources => "uri",
            List::Templates => "uriTemplate",
        }
    }

    pub(crate) fn subject(self, name: &str) -> Subject<'_> {
        match self {
            List::Tools => Subject::Tool(name),
            List::Prompts => Subject::Prompt(name),
            List::Resources | List::Templates => Subject::Resource(name),
        }
    }
}

/// How items of one server are shown to one caller.
pub(crate) struct View<'a> {
    pub(crate) policy: Option<&'a Policy>,
    pub(crate) pins: &'a Pins,
    /// The client capabilities that the list depends on.
    pub(crate) set: Takes,
    /// On the endpoint of all servers every name begins with its server's.
    pub(crate) prefix: Option<&'a str>,
}

impl View<'_> {
    /// The item as the caller may see it, or nothing.
    pub(crate) fn item(&self, list: List, item: Value<'_>) -> Option<String> {
        let name = item.get(list.key())?.as_str()?;
        if !self.policy?.shows(list.subject(&name)) {
            return None;
        }
        let definition = match list {
            List::Tools => self.tool(&name, item)?,
            _ => item.raw().to_owned(),
        };
        Some(match self.prefix.filter(|_| matches!(list, List::Tools | List::Prompts)) {
            None => definition,
            Some(prefix) => {
                let full = string(&format!("{prefix}.{name}"));
                changed(&definition, |item| rebuild::with(item, "name", full.clone()))
            }
        })
    }

    /// A tool out of whose results something is cut promises no shape of them: clients that check it
    /// would throw the whole result away for want of what is missing.
    fn tool(&self, name: &str, item: Value<'_>) -> Option<String> {
        let policy = self.policy?;
        let shown = self.pins.shown(name, self.set, item, policy)?;
        if let Some(fault) = header_fault(&shown) {
            tracing::warn!(
                tool = name,
                fault,
                "a tool with invalid `x-mcp-header` is left out of the list"
            );
            return None;
        }
        let is_cut = policy.redacts()
            && policy.effects_of_task(name).is_some_and(|effects| !effects.redact.is_empty());
        Some(if is_cut {
            changed(&shown, |tool| rebuild::without(tool, &["outputSchema"]))
        } else {
            shown
        })
    }

    /// A whole list result with only what the caller may see. The list is no longer everybody's, so
    /// it must not be cached for everybody.
    pub(crate) fn result(&self, list: List, result: Value<'_>) -> String {
        rebuild::object(
            result,
            |key, value| {
                if key == list.member() {
                    let items = value.items().filter_map(|item| self.item(list, item));
                    Member::Replace(rebuild::array(items))
                } else if key == "cacheScope" {
                    Member::Replace(string("private"))
                } else {
                    Member::Keep
                }
            },
            &[],
        )
    }
}

/// Why the headers that a tool declares for its arguments break the rules of the protocol, if they do.
/// Whoever lists tools over HTTP must leave such a tool out.
fn header_fault(definition: &str) -> Option<String> {
    // An escape could hide the name.
    if !definition.contains(HEADER_EXTENSION) && !definition.contains("\\u") {
        return None;
    }
    let doc = Doc::read(definition.as_bytes(), &Bounds::ANSWER).ok()?;
    let headers = ParamHeaders::of_schema(doc.root().get("inputSchema")?);
    headers.fault().map(str::to_owned)
}

fn changed(definition: &str, change: impl Fn(Value<'_>) -> String) -> String {
    match Doc::read(definition.as_bytes(), &Bounds::ANSWER) {
        Ok(doc) => change(doc.root()),
        // It was read from a document a moment ago.
        Err(_) => definition.to_owned(),
    }
}
