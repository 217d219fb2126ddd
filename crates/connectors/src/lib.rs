//! Answers for what the owner has: each service is one file with its table of tools.
//! Knows no MCP; the gateway shows these tables as servers.

pub mod account;
mod answers;
pub mod bilibili;
mod coerce;
mod demo;
pub mod desk;
pub mod fetch;
pub mod http;
mod locked;
pub mod member;
pub mod oauth;
pub mod pace;
pub mod personal;
mod reader;
pub mod reddit;
mod resource;
pub mod settings;
pub mod shelves;
pub mod spotify;
pub mod steam;
pub mod sync;
pub mod tokens;
pub mod when;
pub mod whoop;
mod written;
pub mod youtube;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Map, Value};
use store::ledger::Permit;

pub use account::Account;
pub use desk::Desk;
pub use locked::Locked;
pub use personal::Profile;
pub use reader::Reader;
pub use resource::{Contents, Read, Reading, Resource, Template};
pub use settings::{Base, ServiceSettings, Settings};
pub use written::Written;

/// A built-in server.
pub struct Service {
    pub name: &'static str,
    pub title: &'static str,
    /// What an agent is told about the service as a whole.
    pub instructions: &'static str,
    pub tools: &'static [Tool],
    pub resources: &'static [Resource],
    pub templates: &'static [Template],
    /// How one signs in; nothing for a service that knows no accounts.
    pub account: Option<&'static Account>,
    /// The policy (JSON text) in force when the owner names none.
    pub policy: &'static str,
}

/// One row of a service's table.
#[derive(Clone, Copy)]
pub struct Tool {
    pub name: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    /// JSON Schema texts, checked by a test to be valid JSON objects.
    pub input_schema: &'static str,
    pub output_schema: &'static str,
    pub effect: Effect,
    /// The tool set it is shown in: `main`, `classic` and so on.
    pub set: &'static str,
    /// Whether it asks anybody outside this machine.
    pub reach: Reach,
    /// What the owner must have granted for it to work.
    pub scopes: &'static [&'static str],
    run: Run,
}

/// How far a tool reaches; becomes MCP's `openWorldHint`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It answers from what is kept here.
    Here,
    /// It asks a service on the internet, or may have to.
    Outside,
}

/// The set whose tools are shown unless another is asked for.
pub const MAIN_SET: &str = "main";

/// What a tool does to the world; becomes the MCP annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Reads,
    Adds,
    Destroys,
    /// Sets work going that changes nothing of the owner's elsewhere, such as a sync or an export.
    Runs,
}

/// An effect in the words of MCP's annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    pub read_only: bool,
    pub destructive: bool,
    pub idempotent: bool,
}

impl Effect {
    pub fn hints(self) -> Hints {
        Hints {
            read_only: self == Effect::Reads,
            destructive: self == Effect::Destroys,
            idempotent: matches!(self, Effect::Reads | Effect::Runs),
        }
    }
}

/// What a tool is given: the desk to work at, who asks, and the arguments of the call.
pub struct Ask<'a> {
    pub desk: &'a Desk,
    pub reader: &'a Reader,
    pub arguments: &'a Map<String, Value>,
    /// Hears how far long work has come, where the caller asked for that.
    pub told: Option<sync::Told<'a>>,
}

/// The proof that a call was judged and recorded, for work that outlives the borrow of its permit.
pub struct Admitted(());

impl Admitted {
    pub fn by(_permit: &Permit) -> Admitted {
        Admitted(())
    }
}

pub type Working<'a> = Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;
pub type Run = for<'a> fn(Ask<'a>) -> Working<'a>;

/// What a tool answered.
#[derive(Debug, PartialEq)]
pub enum Answer {
    /// A value, shown structured and as compact JSON text.
    Found(Value),
    /// The same where the text lay ready: an object.
    Written(Arc<Written>),
    /// A plain sentence, with the value behind it.
    Said { text: String, value: Value },
    /// It did not work; the agent sees an error.
    Failed { code: &'static str, words: String },
    /// It did not work, in a form that programs can read: an error shown structured and as text.
    Refused(Value),
}

impl From<Value> for Answer {
    fn from(value: Value) -> Answer {
        Answer::Found(value)
    }
}

/// Every built-in service. Adding one is a file and a line here.
pub const ALL: &[&Service] = &[
    &demo::SERVICE,
    &whoop::SERVICE,
    &spotify::SERVICE,
    &youtube::SERVICE,
    &steam::SERVICE,
    &reddit::SERVICE,
    &bilibili::SERVICE,
    &personal::SERVICE,
];

pub fn service(name: &str) -> Option<&'static Service> {
    ALL.iter().copied().find(|service| service.name == name)
}

impl Service {
    pub fn tool(&self, name: &str) -> Option<&'static Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// Is what it shows the owner's own?
    pub fn is_owners(&self) -> bool {
        self.account.is_some() || self.name == personal::NAME
    }

    /// Does the word mean this tool: its name, its set, or a profile that holds it?
    pub fn means(&self, word: &str, tool: &Tool) -> bool {
        let in_profile = |word: &str| Profile::named(word).is_some_and(|p| p.holds(tool.name));
        tool.set == word || tool.name == word || (self.name == personal::NAME && in_profile(word))
    }
}

/// Runs one admitted call.
pub async fn run(_admitted: &Admitted, tool: &Tool, ask: Ask<'_>) -> Answer {
    ask.desk.prepare();
    (tool.run)(ask).await
}

/// Reads one admitted resource; nothing when the service has none of that address. The second part
/// is its media type.
pub async fn read(
    _admitted: &Admitted,
    desk: &Desk,
    reader: &Reader,
    service: &Service,
    uri: &str,
) -> Option<(Contents, &'static str)> {
    desk.prepare();
    resource::read(desk, reader, service, uri).await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    #[test]
    fn every_row_has_words_and_schemas_that_are_objects() {
        for service in ALL {
            for tool in service.tools {
                assert!(!tool.description.is_empty(), "{}.{}", service.name, tool.name);
                for schema in [tool.input_schema, tool.output_schema] {
                    let schema: Value = serde_json::from_str(schema).unwrap();
                    assert_eq!(schema.get("type"), Some(&Value::from("object")), "{}", tool.name);
                }
            }
        }
    }

    #[test]
    fn names_are_unique_within_a_service() {
        for service in ALL {
            let mut names: Vec<_> = service.tools.iter().map(|tool| tool.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), service.tools.len(), "{}", service.name);
        }
    }

    #[test]
    fn the_built_in_policies_load() {
        for service in ALL {
            policy::Policy::load(service.policy, policy::Format::Json)
                .unwrap_or_else(|error| panic!("{}: {error:?}", service.name));
        }
    }

    #[test]
    fn a_tool_asks_for_no_scope_that_signing_in_does_not() {
        for service in ALL {
            // The personal server asks in the name of the services its tools are from.
            let homes = if service.name == personal::NAME { ALL } else { &[*service][..] };
            let accounts = homes.iter().filter_map(|home| home.account);
            let asked: Vec<&str> = accounts.flat_map(|account| account.scopes).copied().collect();
            for tool in service.tools {
                for scope in tool.scopes {
                    assert!(asked.contains(scope), "{}.{} {scope}", service.name, tool.name);
                }
            }
        }
    }
}
