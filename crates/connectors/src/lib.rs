//! Answers for what the owner has: each service is one file with its table of tools.
//! Knows no MCP; the gateway shows these tables as servers.

mod demo;

use serde_json::{Map, Value};
use store::ledger::Permit;

/// A built-in server.
pub struct Service {
    pub name: &'static str,
    pub title: &'static str,
    /// What an agent is told about the service as a whole.
    pub instructions: &'static str,
    pub tools: &'static [Tool],
}

/// One row of a service's table.
pub struct Tool {
    pub name: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    /// JSON Schema texts, checked by a test to be valid JSON objects.
    pub input_schema: &'static str,
    pub output_schema: &'static str,
    pub effect: Effect,
    run: fn(&Map<String, Value>) -> Answer,
}

/// What a tool does to the world; becomes the MCP annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Reads,
    Adds,
    Destroys,
}

/// What a tool answered.
#[derive(Debug, PartialEq)]
pub enum Answer {
    Found(Value),
    Failed { code: &'static str, words: String },
}

/// Every built-in service. Adding one is a file and a line here.
pub const ALL: &[&Service] = &[&demo::SERVICE];

pub fn service(name: &str) -> Option<&'static Service> {
    ALL.iter().copied().find(|service| service.name == name)
}

impl Service {
    pub fn tool(&self, name: &str) -> Option<&'static Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}

/// Runs one admitted call. The permit is the proof that it was judged and recorded.
pub fn run(_permit: &Permit, tool: &Tool, arguments: &Map<String, Value>) -> Answer {
    (tool.run)(arguments)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
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
}
