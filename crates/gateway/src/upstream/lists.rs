//! A server's lists as a caller sees them: filtered by its policy, with tools as they were pinned.

use catalog::pins::canonical_definition;
use catalog::skills;
use policy::json::{Bounds, Doc, Value};
use policy::{Definition, OnChange, Policy, Subject};

use crate::upstream::Mask;
use crate::upstream::pins::Pins;
use crate::upstream::skills::{EXTENSION, SkillBook};
use mcp::edit::{self, Member, string};
use mcp::listed_names;
use mcp::{ClientCapabilities, HEADER_EXTENSION, ParamHeaders};

/// The list that a method requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum List {
    Tools,
    Prompts,
    Resources,
    Templates,
    Skills,
}

impl List {
    pub(crate) fn of_method(method: &str) -> Option<List> {
        Some(match method {
            "tools/list" => List::Tools,
            "prompts/list" => List::Prompts,
            "resources/list" => List::Resources,
            "resources/templates/list" => List::Templates,
            "skills/list" => List::Skills,
            _ => return None,
        })
    }

    pub(crate) fn method(self) -> &'static str {
        match self {
            List::Tools => "tools/list",
            List::Prompts => "prompts/list",
            List::Resources => "resources/list",
            List::Templates => "resources/templates/list",
            List::Skills => "skills/list",
        }
    }

    /// The member of the result with the items.
    pub(crate) fn member(self) -> &'static str {
        match self {
            List::Tools => "tools",
            List::Prompts => "prompts",
            List::Resources => "resources",
            List::Templates => "resourceTemplates",
            List::Skills => "skills",
        }
    }

    /// The capability that a server with this list declares.
    pub(crate) fn capability(self) -> &'static str {
        match self {
            List::Tools => "tools",
            List::Prompts => "prompts",
            List::Resources | List::Templates => "resources",
            List::Skills => EXTENSION,
        }
    }

    /// The notification that it changed.
    pub(crate) fn changed(self) -> &'static str {
        match self {
            List::Tools => "notifications/tools/list_changed",
            List::Prompts => "notifications/prompts/list_changed",
            // Skills have no notification of their own; their files are resources.
            List::Resources | List::Templates | List::Skills => {
                "notifications/resources/list_changed"
            }
        }
    }

    /// The member that names an item.
    pub(crate) fn key(self) -> &'static str {
        match self {
            List::Tools | List::Prompts => "name",
            List::Resources | List::Skills => "uri",
            List::Templates => "uriTemplate",
        }
    }

    /// Whether its items have names, which clients restrict, and not URIs.
    pub(crate) fn has_names(self) -> bool {
        matches!(self, List::Tools | List::Prompts)
    }
}

/// One server's items for one caller.
pub(crate) struct ListView<'a> {
    pub(crate) policy: Option<&'a Policy>,
    pub(crate) pins: &'a Pins,
    pub(crate) skills: &'a SkillBook,
    /// The client capabilities that the list depends on.
    pub(crate) set: ClientCapabilities,
    /// The server's secrets: a definition may have been accepted before a secret was set.
    pub(crate) mask: Option<&'a Mask>,
    /// A built-in server names its apps to every client; they are shown only to those that declared apps.
    pub(crate) is_builtin: bool,
    /// Whether names are mapped to ones that every client accepts.
    pub(crate) is_mapped: bool,
}

impl ListView<'_> {
    /// The item as the caller may see it, if it may.
    pub(crate) fn item(&self, list: List, item: Value<'_>) -> Option<String> {
        let name = item.get(list.key())?.as_str()?;
        // A client that ignores case could read another name than the one that is judged.
        if mcp::has_look_alike(item, &[list.key()])
            || !self.policy?.shows(self.subject(list, &name))
        {
            return None;
        }
        let definition = match list {
            List::Tools => self.tool(&name, item)?,
            List::Skills => self.skill(&name, item)?,
            _ => item.raw().to_owned(),
        };
        let definition = match self.mask {
            Some(mask) => mask.json(definition),
            None => definition,
        };
        if !self.is_mapped || !list.has_names() {
            return Some(definition);
        }
        mcp::can_be_sent(&name).then(|| renamed(&definition, &listed_names::mapped(&name)))
    }

    /// What the policy judges an item as.
    fn subject<'n>(&'n self, list: List, name: &'n str) -> Subject<'n> {
        match list {
            List::Tools => Subject::Tool(name),
            List::Prompts => Subject::Prompt(name),
            List::Resources | List::Templates => self.skills.subject_of(name),
            List::Skills => match self.skills.subject_of(name) {
                Subject::Resource(other) => Subject::Skill(skills::name_of_unknown(other)),
                skill => skill,
            },
        }
    }

    /// A skill whose entry is valid and, unless the policy allows changes, the accepted one.
    fn skill(&self, uri: &str, item: Value<'_>) -> Option<String> {
        let name = skills::name_of(uri)?;
        let skill = self.skills.get(name)?;
        let is_held = self.policy?.on_change(Subject::Skill(name)) == OnChange::Refuse
            && skill.definition() != Definition::Unchanged;
        let is_known = canonical_definition(item) == skill.entry;
        (is_known && !is_held).then(|| item.raw().to_owned())
    }

    /// A tool with redacted results has no output schema, because clients that validate it would reject the
    /// whole result.
    fn tool(&self, name: &str, item: Value<'_>) -> Option<String> {
        let policy = self.policy?;
        let shown = self.pins.shown(name, self.set, item, policy)?;
        if let Some(fault) = header_fault(&shown) {
            tracing::warn!(
                tool = name,
                fault,
                "a tool with an invalid `x-mcp-header` is left out of the list"
            );
            return None;
        }
        let shown = if self.is_builtin && !self.set.shows_apps() {
            changed(&shown, |tool| edit::without(tool, &["_meta"]))
        } else {
            shown
        };
        let is_cut = policy.redacts()
            && policy.effects_of_task(name).is_some_and(|effects| !effects.redact.is_empty());
        Some(if is_cut {
            changed(&shown, |tool| edit::without(tool, &["outputSchema"]))
        } else {
            shown
        })
    }

    /// A list result with only the items that the caller may see. It is no longer the same for everyone, so it
    /// must not be cached publicly.
    pub(crate) fn result(&self, list: List, result: Value<'_>) -> String {
        edit::object(
            result,
            |key, value| {
                if key == list.member() {
                    let items = value.items().filter_map(|item| self.item(list, item));
                    Member::Replace(edit::array(items))
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

/// Why the headers that a tool declares for its arguments are invalid. The protocol requires that such a tool
/// is left out over HTTP.
fn header_fault(definition: &str) -> Option<String> {
    // An escape could hide the name.
    if !definition.contains(HEADER_EXTENSION) && !definition.contains("\\u") {
        return None;
    }
    let doc = Doc::read(definition.as_bytes(), &Bounds::ANSWER).ok()?;
    let headers = ParamHeaders::of_schema(doc.root().get("inputSchema")?);
    headers.fault().map(str::to_owned)
}

/// The definition under another name.
pub(crate) fn renamed(definition: &str, name: &str) -> String {
    let name = string(name);
    changed(definition, |item| edit::with(item, "name", name.clone()))
}

fn changed(definition: &str, change: impl Fn(Value<'_>) -> String) -> String {
    match Doc::read(definition.as_bytes(), &Bounds::ANSWER) {
        Ok(doc) => change(doc.root()),
        // Cannot fail: it was parsed before.
        Err(_) => definition.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_definition_from_before_a_secret_was_set_is_shown_without_it() {
        let text =
            r#"{"version":"1","default":"allow","prompts":{"p":{}},"resources":{"a://*":{}}}"#;
        let policy = Policy::load(text, policy::Format::Json).unwrap();
        let mask = Mask::new([("API_KEY", "sk-live-123456")]).unwrap();
        for (list, key) in
            [(List::Tools, "name"), (List::Prompts, "name"), (List::Resources, "uri")]
        {
            let name = if list == List::Resources { "a://b" } else { "p" };
            let item = format!(r#"{{"{key}":"{name}","description":"uses sk-live-123456"}}"#);
            let doc = Doc::read(item.as_bytes(), &Bounds::ANSWER).unwrap();
            for is_mapped in [false, true] {
                let (pins, set) = (Pins::default(), ClientCapabilities::default());
                let (policy, mask) = (Some(&policy), Some(&*mask));
                let is_builtin = false;
                let skills = &SkillBook::default();
                let view =
                    ListView { policy, pins: &pins, skills, set, mask, is_builtin, is_mapped };
                let shown = view.item(list, doc.root()).unwrap();
                assert!(shown.contains("uses [secret API_KEY]"), "{shown}");
            }
        }
    }
}
