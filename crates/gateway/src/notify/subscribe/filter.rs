//! The filter of `subscriptions/listen`, and the part of it that a policy allows.

use catalog::skills::{is_plain, is_skill_uri};
use policy::Subject;
use policy::json::{Kind, Value};

use crate::exchange::call::{self, IncomingRequest};
use crate::session::list_changes::LISTS;
use crate::snapshot::ServerAccess;
use mcp::ProtocolError;
use mcp::edit::{self, Member, string};

/// Resources, or tasks, per request: a legacy server needs a request for each.
const TEXTS_MAX: usize = 256;

/// The notifications that a client subscribes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Filter {
    pub(super) tools: bool,
    pub(super) prompts: bool,
    pub(super) resources: bool,
    pub(super) uris: Vec<String>,
    pub(super) tasks: Vec<String>,
}

impl Filter {
    /// Parses `params.notifications` strictly.
    pub(super) fn of(params: Option<Value<'_>>) -> Result<Filter, ProtocolError> {
        let Some(wanted) = params.and_then(|params| params.get("notifications")) else {
            return Ok(Filter::default());
        };
        if wanted.kind() != Kind::Object {
            return Err(ProtocolError::params("`notifications` must be an object"));
        }
        Ok(Filter {
            tools: flag(wanted, "toolsListChanged")?,
            prompts: flag(wanted, "promptsListChanged")?,
            resources: flag(wanted, "resourcesListChanged")?,
            uris: texts(wanted, "resourceSubscriptions")?,
            tasks: texts(wanted, "taskIds")?,
        })
    }

    /// The part that this caller may receive from one server: resources that it may subscribe to
    /// and its own tasks.
    pub(super) fn allowed(&self, incoming: &IncomingRequest<'_>, access: &ServerAccess) -> Filter {
        let skills = access.server.skills();
        // A URI of skills that has several readings could be judged as another skill than the server's.
        let is_judged = |uri: &str| !is_skill_uri(uri) || is_plain(uri);
        let may_hear = |uri: &&String| {
            is_judged(uri) && call::allows(incoming, access, skills.subject_of(uri))
        };
        let is_own = |id: &&String| {
            let tools =
                incoming.context.state.tasks.tools_of(incoming.context, &access.server.name, id);
            tools.is_some_and(|tools| tools.iter().all(|tool| access.shows(Subject::Tool(tool))))
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

    /// Whether it contains list changes only.
    pub(super) fn is_of_lists(&self) -> bool {
        self.uris.is_empty() && self.tasks.is_empty()
    }

    /// Adds the filter of another server.
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

    /// The methods of the list-change notifications in it.
    pub(super) fn lists(&self) -> impl Iterator<Item = &'static str> + use<> {
        let wanted = [self.tools, self.prompts, self.resources];
        LISTS.into_iter().zip(wanted).filter_map(|(method, wanted)| wanted.then_some(method))
    }

    /// The params with this filter instead of a wider one; unknown members stay.
    pub(super) fn instead(&self, params: Value<'_>) -> String {
        let wanted = params.get("notifications").map(|wanted| {
            edit::object(
                wanted,
                |key, _| match key {
                    "resourceSubscriptions" => Member::Replace(array(&self.uris)),
                    "taskIds" => Member::Replace(array(&self.tasks)),
                    _ => Member::Keep,
                },
                &[],
            )
        });
        edit::with(params, "notifications", wanted.unwrap_or_else(|| "{}".to_owned()))
    }
}

fn array(list: &[String]) -> String {
    edit::array(list.iter().map(|text| string(text)))
}

fn flag(wanted: Value<'_>, key: &str) -> Result<bool, ProtocolError> {
    match wanted.get(key) {
        None => Ok(false),
        Some(value) => value
            .as_bool()
            .ok_or_else(|| ProtocolError::params(format!("`{key}` must be true or false"))),
    }
}

fn texts(wanted: Value<'_>, key: &str) -> Result<Vec<String>, ProtocolError> {
    let refused = || {
        ProtocolError::params(format!("`{key}` must be an array of at most {TEXTS_MAX} strings"))
    };
    let Some(list) = wanted.get(key) else { return Ok(Vec::new()) };
    if list.kind() != Kind::Array || list.items().count() > TEXTS_MAX {
        return Err(refused());
    }
    let texts = list.items().map(|item| item.as_str().map(std::borrow::Cow::into_owned));
    texts.collect::<Option<Vec<String>>>().ok_or_else(refused)
}

/// Whether a resource is the subscribed one or below it.
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
        Filter::of(Some(doc.root())).map_err(|refused| refused.message)
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
    fn updates_below_a_subscribed_resource_match() {
        let filter = of(r#"{"resourceSubscriptions":["file:///a","file:///d/"]}"#).unwrap();
        let updated = |uri: &str| {
            let text = format!("{{\"uri\":\"{uri}\"}}");
            let doc = Doc::read(text.as_bytes(), &Bounds::MESSAGE).unwrap();
            filter.wants("notifications/resources/updated", Some(doc.root()))
        };
        for (uri, expected) in [
            ("file:///a", true),
            ("file:///a/b", true),
            ("file:///a#c", true),
            ("file:///ab", false),
            ("file:///d/e", true),
            ("file:///d", false),
        ] {
            assert_eq!(updated(uri), expected, "{uri}");
        }
    }

    #[test]
    fn a_narrowed_filter_keeps_the_other_members_unchanged() {
        let text = r#"{"_meta":{"a":1.0},"notifications":{"x":2.50,"resourceSubscriptions":["a:b","a:c"],"taskIds":["t"]}}"#;
        let doc = Doc::read(text.as_bytes(), &Bounds::MESSAGE).unwrap();
        let part = Filter { uris: vec!["a:c".to_owned()], ..Filter::default() };
        let expected = r#"{"_meta":{"a":1.0},"notifications":{"x":2.50,"resourceSubscriptions":["a:c"],"taskIds":[]}}"#;
        assert_eq!(part.instead(doc.root()), expected);
    }
}
