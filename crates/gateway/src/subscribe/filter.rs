//! What a client of the newer era wants to hear, and how much of that it may.

use policy::Subject;
use policy::json::{Kind, Value};

use crate::call::{self, Ask};
use crate::in_force::Holding;
use crate::news::LISTS;
use crate::rebuild::{self, Member, string};
use crate::wire::Refused;

/// Resources, or tasks, that one request may subscribe to: an older server is asked for each of them.
const TEXTS_MAX: usize = 256;

/// What a client wants to hear.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Filter {
    pub(super) tools: bool,
    pub(super) prompts: bool,
    pub(super) resources: bool,
    pub(super) uris: Vec<String>,
    pub(super) tasks: Vec<String>,
}

impl Filter {
    /// As `params.notifications` has it, in one way to read it.
    pub(super) fn of(params: Option<Value<'_>>) -> Result<Filter, Refused> {
        let Some(wanted) = params.and_then(|params| params.get("notifications")) else {
            return Ok(Filter::default());
        };
        if wanted.kind() != Kind::Object {
            return Err(Refused::params("`notifications` must be an object"));
        }
        Ok(Filter {
            tools: flag(wanted, "toolsListChanged")?,
            prompts: flag(wanted, "promptsListChanged")?,
            resources: flag(wanted, "resourcesListChanged")?,
            uris: texts(wanted, "resourceSubscriptions")?,
            tasks: texts(wanted, "taskIds")?,
        })
    }

    /// The part that this caller may hear of one server: resources that it may subscribe to, and tasks
    /// of its own.
    pub(super) fn allowed(&self, ask: &Ask<'_>, holding: &Holding) -> Filter {
        let may_hear = |uri: &&String| call::allows(ask, holding, Subject::Resource(uri));
        let is_own = |id: &&String| {
            let tools = ask.scene.gate.tasks.tools_of(ask.scene, &holding.server.name, id);
            tools.is_some_and(|tools| tools.iter().all(|tool| holding.shows(Subject::Tool(tool))))
        };
        Filter {
            uris: self.uris.iter().filter(may_hear).cloned().collect(),
            tasks: self.tasks.iter().filter(is_own).cloned().collect(),
            ..*self
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Filter::default()
    }

    /// Whether it is about lists only.
    pub(super) fn is_of_lists(&self) -> bool {
        self.uris.is_empty() && self.tasks.is_empty()
    }

    /// Adds what another server is heard for.
    pub(super) fn join(&mut self, other: &Filter) {
        let more = |own: &mut Vec<String>, other: &[String]| {
            let new: Vec<String> = other.iter().filter(|one| !own.contains(one)).cloned().collect();
            own.extend(new);
        };
        self.tools |= other.tools;
        self.prompts |= other.prompts;
        self.resources |= other.resources;
        more(&mut self.uris, &other.uris);
        more(&mut self.tasks, &other.tasks);
    }

    pub(super) fn wants(&self, method: &str, params: Option<Value<'_>>) -> bool {
        let named = |key: &str| params.and_then(|params| params.get(key)?.as_str());
        match method {
            "notifications/tools/list_changed" => self.tools,
            "notifications/prompts/list_changed" => self.prompts,
            "notifications/resources/list_changed" => self.resources,
            "notifications/resources/updated" => {
                named("uri").is_some_and(|uri| self.uris.iter().any(|wanted| is_of(&uri, wanted)))
            }
            "notifications/tasks" => {
                named("taskId").is_some_and(|id| self.tasks.iter().any(|wanted| *wanted == id))
            }
            _ => false,
        }
    }

    pub(super) fn raw(&self) -> String {
        let mut members = Vec::new();
        for (on, key) in [
            (self.tools, "toolsListChanged"),
            (self.prompts, "promptsListChanged"),
            (self.resources, "resourcesListChanged"),
        ] {
            if on {
                members.push(format!("\"{key}\":true"));
            }
        }
        for (list, key) in [(&self.uris, "resourceSubscriptions"), (&self.tasks, "taskIds")] {
            if !list.is_empty() {
                members.push(format!("\"{key}\":{}", array(list)));
            }
        }
        format!("{{{}}}", members.join(","))
    }

    /// The notifications of lists that are wanted.
    pub(super) fn lists(&self) -> impl Iterator<Item = &'static str> + use<> {
        let wanted = [self.tools, self.prompts, self.resources];
        LISTS.into_iter().zip(wanted).filter_map(|(method, wanted)| wanted.then_some(method))
    }

    /// The params of a request that wanted more than this; what we do not know in them stays.
    pub(super) fn instead(&self, params: Value<'_>) -> String {
        let wanted = params.get("notifications").map(|wanted| {
            rebuild::object(
                wanted,
                |key, _| match key {
                    "resourceSubscriptions" => Member::Replace(array(&self.uris)),
                    "taskIds" => Member::Replace(array(&self.tasks)),
                    _ => Member::Keep,
                },
                &[],
            )
        });
        rebuild::with(params, "notifications", wanted.unwrap_or_else(|| "{}".to_owned()))
    }
}

fn array(list: &[String]) -> String {
    rebuild::array(list.iter().map(|text| string(text)))
}

fn flag(wanted: Value<'_>, key: &str) -> Result<bool, Refused> {
    match wanted.get(key) {
        None => Ok(false),
        Some(value) => {
            value.as_bool().ok_or_else(|| Refused::params(format!("`{key}` must be true or false")))
        }
    }
}

fn texts(wanted: Value<'_>, key: &str) -> Result<Vec<String>, Refused> {
    let refused =
        || Refused::params(format!("`{key}` must be an array of at most {TEXTS_MAX} strings"));
    let Some(list) = wanted.get(key) else { return Ok(Vec::new()) };
    if list.kind() != Kind::Array || list.items().count() > TEXTS_MAX {
        return Err(refused());
    }
    let texts = list.items().map(|item| item.as_str().map(std::borrow::Cow::into_owned));
    texts.collect::<Option<Vec<String>>>().ok_or_else(refused)
}

/// Whether a resource is the one that was subscribed to, or lies within it.
fn is_of(uri: &str, wanted: &str) -> bool {
    uri.strip_prefix(wanted).is_some_and(|rest| {
        rest.is_empty() || wanted.ends_with('/') || rest.starts_with(['/', '?', '#'])
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use policy::json::{Bounds, Doc};

    use super::*;

    fn of(notifications: &str) -> Result<Filter, String> {
        let text = format!("{{\"notifications\":{notifications}}}");
        let doc = Doc::read(text.as_bytes(), &Bounds::MESSAGE).unwrap();
        Filter::of(Some(doc.root())).map_err(|refused| refused.words)
    }

    #[test]
    fn a_filter_has_one_meaning_or_is_refused() {
        for refused in [
            r"[]",
            r#"{"toolsListChanged":1}"#,
            r#"{"resourceSubscriptions":"a:b"}"#,
            r#"{"resourceSubscriptions":["a:b",["a:c"]]}"#,
            r#"{"taskIds":{"0":"t"}}"#,
        ] {
            assert!(of(refused).is_err(), "{refused}");
        }
        let taken = r#"{"toolsListChanged":true,"resourceSubscriptions":["a:b"],"taskIds":["t"]}"#;
        assert_eq!(of(taken).unwrap().raw(), taken);
    }

    #[test]
    fn news_of_a_part_of_a_resource_are_news_of_it() {
        let filter = of(r#"{"resourceSubscriptions":["file:///a","file:///d/"]}"#).unwrap();
        let updated = |uri: &str| {
            let text = format!("{{\"uri\":\"{uri}\"}}");
            let doc = Doc::read(text.as_bytes(), &Bounds::MESSAGE).unwrap();
            filter.wants("notifications/resources/updated", Some(doc.root()))
        };
        for (uri, heard) in [
            ("file:///a", true),
            ("file:///a/b", true),
            ("file:///a#c", true),
            ("file:///ab", false),
            ("file:///d/e", true),
            ("file:///d", false),
        ] {
            assert_eq!(updated(uri), heard, "{uri}");
        }
    }

    #[test]
    fn what_a_caller_may_not_hear_is_cut_and_the_rest_stays_as_it_was() {
        let text = r#"{"_meta":{"a":1.0},"notifications":{"x":2.50,"resourceSubscriptions":["a:b","a:c"],"taskIds":["t"]}}"#;
        let doc = Doc::read(text.as_bytes(), &Bounds::MESSAGE).unwrap();
        let part = Filter { uris: vec!["a:c".to_owned()], ..Filter::default() };
        let expected = r#"{"_meta":{"a":1.0},"notifications":{"x":2.50,"resourceSubscriptions":["a:c"],"taskIds":[]}}"#;
        assert_eq!(part.instead(doc.root()), expected);
    }
}
