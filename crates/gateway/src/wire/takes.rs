//! Which questions of servers a client takes, as its capabilities say.

use policy::json::{Bounds, Doc, Value};

use super::{Method, Sender};

/// Which questions of servers a client takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "as many as the protocol has, each by itself")]
pub struct Takes {
    elicitation: bool,
    /// Questions that are a form; those that lead to an address.
    forms: bool,
    addresses: bool,
    sampling: bool,
    /// With tools for the model.
    tools: bool,
    roots: bool,
    /// Results that come later.
    tasks: bool,
    /// Questions as tasks, in 2025-11-25.
    task_questions: bool,
}

/// The extension by which a client of the newer era takes tasks.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";

/// What kind of question a server asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    Form,
    Address,
    Model,
    ModelWithTools,
    Roots,
    /// Of tasks, extensions, or revisions that we do not know.
    Other,
}

impl Question {
    pub fn of(method: &str, params: Option<Value<'_>>) -> Question {
        let member = |key: &str| params.and_then(|params| params.get(key));
        match method {
            "elicitation/create" => match member("mode").and_then(Value::as_str).as_deref() {
                Some("url") => Question::Address,
                _ => Question::Form,
            },
            "sampling/createMessage" if member("tools").is_some() => Question::ModelWithTools,
            "sampling/createMessage" => Question::Model,
            "roots/list" => Question::Roots,
            _ => Question::Other,
        }
    }
}

impl Question {
    /// What it is asked with.
    pub fn method(self) -> &'static str {
        match self {
            Question::Form | Question::Address => "elicitation/create",
            Question::Model | Question::ModelWithTools => "sampling/createMessage",
            Question::Roots => "roots/list",
            Question::Other => "something of its own",
        }
    }

    /// What a client must declare to be asked this, as its capabilities say it.
    pub fn needs(self) -> Option<&'static str> {
        match self {
            Question::Form => Some(r#"{"elicitation":{"form":{}}}"#),
            Question::Address => Some(r#"{"elicitation":{"url":{}}}"#),
            Question::Model => Some(r#"{"sampling":{}}"#),
            Question::ModelWithTools => Some(r#"{"sampling":{"tools":{}}}"#),
            Question::Roots => Some(r#"{"roots":{}}"#),
            Question::Other => None,
        }
    }
}

impl Takes {
    pub fn of(capabilities: Option<Value<'_>>) -> Takes {
        let of = |name: &str| capabilities.and_then(|all| all.get(name));
        let has = |name: &str, part: &str| of(name).is_some_and(|all| all.get(part).is_some());
        let (forms, addresses) = (has("elicitation", "form"), has("elicitation", "url"));
        Takes {
            elicitation: of("elicitation").is_some(),
            // Who names no mode means forms.
            forms: of("elicitation").is_some() && (forms || !addresses),
            addresses,
            sampling: of("sampling").is_some(),
            tools: has("sampling", "tools"),
            roots: of("roots").is_some(),
            tasks: has("extensions", TASKS),
            task_questions: of("tasks").is_some(),
        }
    }

    /// From the `params` of an initialize request.
    pub fn of_handshake(params: &str) -> Takes {
        Doc::read(params.as_bytes(), &Bounds::ANSWER)
            .map(|doc| Takes::of(doc.root().get("capabilities")))
            .unwrap_or_default()
    }

    /// The capabilities with their names in the keys of tool lists.
    fn named(&mut self) -> [(&'static str, &mut bool); 8] {
        [
            ("elicitation", &mut self.elicitation),
            ("forms", &mut self.forms),
            ("addresses", &mut self.addresses),
            ("sampling", &mut self.sampling),
            ("sampling_tools", &mut self.tools),
            ("roots", &mut self.roots),
            ("tasks", &mut self.tasks),
            ("task_questions", &mut self.task_questions),
        ]
    }

    /// The key under which tool lists of clients with these capabilities are kept.
    pub fn key(mut self) -> String {
        let named = self.named().into_iter().filter(|(_, takes)| **takes).map(|(name, _)| name);
        named.collect::<Vec<_>>().join(",")
    }

    /// The capabilities of a key; nothing if it has a name that this version does not know.
    pub fn of_key(key: &str) -> Option<Takes> {
        let mut found = Takes::default();
        for word in key.split(',').filter(|word| !word.is_empty()) {
            let mut named = found.named();
            let (_, takes) = named.iter_mut().find(|(name, _)| *name == word)?;
            **takes = true;
        }
        Some(found)
    }

    /// Whether the client can be asked anything.
    pub fn takes_questions(self) -> bool {
        Takes { tasks: false, task_questions: false, ..self } != Takes::default()
    }

    /// Whether a call of the client may become a task.
    pub fn takes_tasks(self) -> bool {
        self.tasks
    }

    /// Whether the client can be asked by this method at all.
    pub fn takes(self, method: &str) -> bool {
        match method {
            "elicitation/create" => self.elicitation,
            "sampling/createMessage" => self.sampling,
            "roots/list" => self.roots,
            // Tasks and extensions of servers; the client answers what it does not know with an error. What
            // only clients ask, no server may.
            _ => Method::parse(method).sender() != Sender::Client,
        }
    }

    /// Whether a question is of a kind that the client takes. A server that knows its client need not be
    /// checked for this; one that speaks with all clients of a grant at once cannot know.
    pub fn takes_kind(self, question: Question) -> bool {
        match question {
            Question::Form => self.forms,
            Question::Address => self.addresses,
            Question::Model => self.sampling,
            Question::ModelWithTools => self.tools,
            Question::Roots => self.roots,
            Question::Other => true,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_key_names_the_capabilities_that_lists_depend_on() {
        let cases = [
            (r#"{"capabilities":{}}"#, ""),
            (r#"{"capabilities":{"roots":{},"elicitation":{}}}"#, "elicitation,forms,roots"),
            (
                r#"{"capabilities":{"tasks":{},"sampling":{"tools":{}}}}"#,
                "sampling,sampling_tools,task_questions",
            ),
        ];
        for (handshake, key) in cases {
            let takes = Takes::of_handshake(handshake);
            assert_eq!(takes.key(), key);
            assert_eq!(Takes::of_key(key), Some(takes));
        }
        assert_eq!(Takes::of_key("(other)"), None);
    }

    #[test]
    fn a_client_takes_the_kinds_that_it_names() {
        use Question::{Address, Form, Model, ModelWithTools, Roots};
        let cases: [(&str, &[Question]); 6] = [
            ("{}", &[]),
            (r#"{"elicitation":{}}"#, &[Form]),
            (r#"{"elicitation":{"form":{}},"roots":{}}"#, &[Form, Roots]),
            (r#"{"elicitation":{"url":{}}}"#, &[Address]),
            (r#"{"elicitation":{"form":{},"url":{}},"sampling":{}}"#, &[Form, Address, Model]),
            (r#"{"sampling":{"tools":{}}}"#, &[Model, ModelWithTools]),
        ];
        for (capabilities, taken) in cases {
            let doc = Doc::read(capabilities.as_bytes(), &Bounds::MESSAGE).unwrap();
            let takes = Takes::of(Some(doc.root()));
            for question in [Form, Address, Model, ModelWithTools, Roots] {
                let expected = taken.contains(&question);
                assert_eq!(takes.takes_kind(question), expected, "{capabilities} {question:?}");
            }
        }
    }
}
