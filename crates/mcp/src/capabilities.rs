//! Client capabilities: which server requests a client supports.

use policy::json::{Bounds, Doc, Value};

use crate::{Method, Sender};

/// The server requests that a client supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "one per capability of the protocol")]
pub struct ClientCapabilities {
    elicitation: bool,
    /// Form mode and URL mode.
    forms: bool,
    urls: bool,
    sampling: bool,
    /// Sampling with tools.
    tools: bool,
    roots: bool,
    /// The tasks extension (modern).
    tasks: bool,
    /// Tasks of 2025-11-25.
    task_questions: bool,
    /// MCP Apps. Servers show their app tools only to clients with it.
    apps: bool,
}

impl ClientCapabilities {
    /// Whether the client shows MCP Apps.
    pub fn shows_apps(self) -> bool {
        self.apps
    }
}

/// The extension with which a modern client declares support for tasks.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";
/// The extension for skills.
pub const SKILLS: &str = "io.modelcontextprotocol/skills";

/// The extension with which a client declares that it shows MCP Apps.
pub(crate) const APPS: &str = "io.modelcontextprotocol/ui";

/// The kind of a server request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputKind {
    Form,
    Url,
    Sampling,
    SamplingWithTools,
    Roots,
    /// Tasks, extensions, and unknown revisions.
    Other,
}

impl InputKind {
    pub fn of(method: &str, params: Option<Value<'_>>) -> InputKind {
        let member = |key: &str| params.and_then(|params| params.get(key));
        match method {
            "elicitation/create" => match member("mode").and_then(Value::as_str).as_deref() {
                Some("url") => InputKind::Url,
                _ => InputKind::Form,
            },
            "sampling/createMessage" if member("tools").is_some() => InputKind::SamplingWithTools,
            "sampling/createMessage" => InputKind::Sampling,
            "roots/list" => InputKind::Roots,
            _ => InputKind::Other,
        }
    }
}

impl InputKind {
    /// The method of the request.
    pub fn method(self) -> &'static str {
        match self {
            InputKind::Form | InputKind::Url => "elicitation/create",
            InputKind::Sampling | InputKind::SamplingWithTools => "sampling/createMessage",
            InputKind::Roots => "roots/list",
            InputKind::Other => "another method",
        }
    }

    /// The capabilities that a client must declare for it, as JSON.
    pub fn needs(self) -> Option<&'static str> {
        match self {
            InputKind::Form => Some(r#"{"elicitation":{"form":{}}}"#),
            InputKind::Url => Some(r#"{"elicitation":{"url":{}}}"#),
            InputKind::Sampling => Some(r#"{"sampling":{}}"#),
            InputKind::SamplingWithTools => Some(r#"{"sampling":{"tools":{}}}"#),
            InputKind::Roots => Some(r#"{"roots":{}}"#),
            InputKind::Other => None,
        }
    }
}

impl ClientCapabilities {
    pub fn of(capabilities: Option<Value<'_>>) -> ClientCapabilities {
        let of = |name: &str| capabilities.and_then(|all| all.get(name));
        let has = |name: &str, part: &str| of(name).is_some_and(|all| all.get(part).is_some());
        let (forms, urls) = (has("elicitation", "form"), has("elicitation", "url"));
        ClientCapabilities {
            elicitation: of("elicitation").is_some(),
            // Without a mode, forms are meant.
            forms: of("elicitation").is_some() && (forms || !urls),
            urls,
            sampling: of("sampling").is_some(),
            tools: has("sampling", "tools"),
            roots: of("roots").is_some(),
            tasks: has("extensions", TASKS),
            task_questions: of("tasks").is_some(),
            apps: has("extensions", APPS),
        }
    }

    /// Reads them from the `params` of an initialize request.
    pub fn of_handshake(params: &str) -> ClientCapabilities {
        Doc::read(params.as_bytes(), &Bounds::ANSWER)
            .map(|doc| ClientCapabilities::of(doc.root().get("capabilities")))
            .unwrap_or_default()
    }

    /// The capabilities with their names in cache keys of tool lists.
    fn named(&mut self) -> [(&'static str, &mut bool); 9] {
        [
            ("elicitation", &mut self.elicitation),
            ("forms", &mut self.forms),
            ("addresses", &mut self.urls),
            ("sampling", &mut self.sampling),
            ("sampling_tools", &mut self.tools),
            ("roots", &mut self.roots),
            ("tasks", &mut self.tasks),
            ("task_questions", &mut self.task_questions),
            ("apps", &mut self.apps),
        ]
    }

    /// The cache key for tool lists of clients with these capabilities.
    pub fn key(mut self) -> String {
        let named = self.named().into_iter().filter(|(_, takes)| **takes).map(|(name, _)| name);
        named.collect::<Vec<_>>().join(",")
    }

    /// Parses a key; `None` if it contains an unknown name.
    pub fn of_key(key: &str) -> Option<ClientCapabilities> {
        let mut found = ClientCapabilities::default();
        for word in key.split(',').filter(|word| !word.is_empty()) {
            let mut named = found.named();
            let (_, takes) = named.iter_mut().find(|(name, _)| *name == word)?;
            **takes = true;
        }
        Some(found)
    }

    /// Whether the client supports any server request.
    pub fn accepts_questions(self) -> bool {
        ClientCapabilities { tasks: false, task_questions: false, apps: false, ..self }
            != ClientCapabilities::default()
    }

    /// Whether a call of the client may become a task.
    pub fn accepts_tasks(self) -> bool {
        self.tasks
    }

    /// Whether the client supports this method.
    pub fn accepts_method(self, method: &str) -> bool {
        match method {
            "elicitation/create" => self.elicitation,
            "sampling/createMessage" => self.sampling,
            "roots/list" => self.roots,
            // Tasks and extensions of servers: the client answers an unknown method with an error.
            // A method that only clients send is refused.
            _ => Method::parse(method).sender() != Sender::Client,
        }
    }

    /// Whether the client supports this kind of request. A server with one client knows its
    /// capabilities; one that all clients of a grant share does not.
    pub fn accepts(self, question: InputKind) -> bool {
        match question {
            InputKind::Form => self.forms,
            InputKind::Url => self.urls,
            InputKind::Sampling => self.sampling,
            InputKind::SamplingWithTools => self.tools,
            InputKind::Roots => self.roots,
            InputKind::Other => true,
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
            (r#"{"capabilities":{"extensions":{"io.modelcontextprotocol/ui":{}}}}"#, "apps"),
        ];
        for (handshake, key) in cases {
            let takes = ClientCapabilities::of_handshake(handshake);
            assert_eq!(takes.key(), key);
            assert_eq!(ClientCapabilities::of_key(key), Some(takes));
        }
        assert_eq!(ClientCapabilities::of_key("(other)"), None);
    }

    #[test]
    fn a_client_supports_the_kinds_it_declares() {
        use InputKind::{Form, Roots, Sampling, SamplingWithTools, Url};
        let cases: [(&str, &[InputKind]); 6] = [
            ("{}", &[]),
            (r#"{"elicitation":{}}"#, &[Form]),
            (r#"{"elicitation":{"form":{}},"roots":{}}"#, &[Form, Roots]),
            (r#"{"elicitation":{"url":{}}}"#, &[Url]),
            (r#"{"elicitation":{"form":{},"url":{}},"sampling":{}}"#, &[Form, Url, Sampling]),
            (r#"{"sampling":{"tools":{}}}"#, &[Sampling, SamplingWithTools]),
        ];
        for (capabilities, taken) in cases {
            let doc = Doc::read(capabilities.as_bytes(), &Bounds::MESSAGE).unwrap();
            let takes = ClientCapabilities::of(Some(doc.root()));
            for question in [Form, Url, Sampling, SamplingWithTools, Roots] {
                let expected = taken.contains(&question);
                assert_eq!(takes.accepts(question), expected, "{capabilities} {question:?}");
            }
        }
    }
}
