//! The owner's accounts: one OAuth client, one HTTP client, one sync engine, and one `Connector` value
//! per service. Knows no MCP but the two requests with which `server_login` finds out whether a server
//! wants a sign-in; the gateway shows the connectors as servers.

#![allow(
    clippy::struct_field_names,
    reason = "members of arguments and outputs have documented names"
)]

pub mod account;
pub mod activity;
mod admitted;
pub mod app;
mod arguments;
mod caller;
mod coerce;
mod connector;
pub mod context;
pub mod credentials;
pub mod daily_metrics;
pub mod fetch;
mod gate_stores;
pub mod http;
pub mod identity;
mod insight;
mod json_text;
mod lazy_context;
pub mod oauth;
mod operator;
pub mod personal;
pub mod personal_server;
mod prompt;
pub mod rate_limit;
mod resource;
mod schema;
pub mod server_login;
mod service;
pub mod settings;
mod skill;
pub mod sync;
pub mod team_login;
#[cfg(test)]
mod testing;
pub mod tokens;
mod tool;
mod vault_locked;
pub mod webhook;
pub mod when;

/// Declares the module of each service and lists their connectors.
macro_rules! services {
    ($($name:ident,)*) => {
        $(pub mod $name;)*

        const SERVICES: &[&Connector] = &[$(&$name::CONNECTOR,)*];
    };
}

// The only list that names the services. A new service is its folder and a line here.
services! {
    demo,
    whoop,
    spotify,
    youtube,
    steam,
    reddit,
    bilibili,
}

use std::sync::LazyLock;

use serde_json::{Map, Value};
use store::records::{Records, RecordsError};
use sync::Mirror;

pub use account::Account;
pub use admitted::Admitted;
pub use caller::Caller;
pub use connector::{
    AgentExports, CommandOption, CommandRun, Connector, DemoCall, LoadHealth, OptionValue,
    Personal, PersonalCommand, ToolProfile,
};
pub use context::ConnectorContext;
pub use gate_stores::GateStores;
pub use http::BaseUrl;
pub use json_text::JsonText;
pub use lazy_context::{LazyContext, NoContext};
pub use prompt::{Prompt, PromptArgument};
pub use resource::{Contents, Read, Reading, Resource, Template};
pub use service::Service;
pub use settings::{ServiceSettings, Settings};
pub use skill::{Skill, SkillFile};
pub use tool::{Answer, AnswerFuture, Effect, Hints, MAIN_SET, Reach, Tool, ToolCall};
pub use vault_locked::VaultLocked;

/// Every built-in server: the services, the one that combines some of them, and the operator server.
pub static ALL: LazyLock<Vec<&'static Connector>> = LazyLock::new(|| {
    let others = [&*personal_server::CONNECTOR, &operator::CONNECTOR];
    SERVICES.iter().copied().chain(others).collect()
});

/// The built-in server of this name.
pub fn connector(name: &str) -> Option<&'static Connector> {
    ALL.iter().copied().find(|connector| connector.name() == name)
}

/// The mirrors of all services that have one.
pub fn mirrors() -> impl Iterator<Item = &'static Mirror> {
    SERVICES.iter().filter_map(|connector| connector.mirror)
}

/// The mirror of a service, if it has one.
pub fn mirror(service: &str) -> Option<&'static Mirror> {
    mirrors().find(|mirror| mirror.service == service)
}

/// The settings of all services. `look` returns the value of a variable.
pub fn read_settings(
    look: &dyn Fn(&str) -> Option<String>,
) -> Result<Settings, settings::SettingsError> {
    Settings::read(SERVICES.iter().map(|connector| connector.service), look)
}

/// Updates the views and derived columns of all mirrors to this version.
pub fn prepare(records: &Records) -> Result<(), RecordsError> {
    mirrors().try_for_each(|mirror| mirror.prepare(records))
}

/// Whether the built-in server of this name declares that a tool honours `aggregate_only`.
pub fn aggregates(server: &str, tool: &str) -> bool {
    connector(server).and_then(|own| own.tool(tool)).is_some_and(|tool| tool.aggregates)
}

/// Runs one admitted call.
pub async fn run(
    admitted: &Admitted,
    tool: &Tool,
    call: ToolCall<'_>,
    arguments: &Map<String, Value>,
) -> Answer {
    let bound = admitted.bound();
    // The policy denies such a call; this is for the day on which it does not.
    if bound.is_some() && !tool.aggregates {
        let message = format!("{} cannot answer with aggregates only", tool.name);
        return Answer::Failed { code: "aggregate_only", message };
    }
    let call = ToolCall { bound, ..call };
    call.ctx.prepare_once(prepare);
    (tool.handler.run)(call, arguments).await
}

/// Reads one admitted resource, with its media type; none when the server has no such address.
pub async fn read(
    admitted: &Admitted,
    ctx: &ConnectorContext,
    caller: &Caller,
    connector: &Connector,
    uri: &str,
) -> Option<(Contents, &'static str)> {
    if admitted.bound().is_some() {
        return None;
    }
    ctx.prepare_once(prepare);
    resource::read(ctx, caller, connector.resources, connector.templates, uri).await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;
    use serde_json::json;

    #[test]
    fn schemas_change_only_on_purpose() {
        for service in ALL.iter() {
            let schemas = |tool: &Tool| {
                let schemas =
                    json!({ "input": tool.input_schema(), "output": tool.output_schema() });
                (tool.name.to_owned(), schemas)
            };
            // The personal server also shows the tools of others.
            let is_of_other = |tool: &Tool| {
                let others = SERVICES.iter().filter(|other| other.name() != service.name());
                others.flat_map(|other| other.tools).any(|other| other.name == tool.name)
            };
            let own = service.tools.iter().filter(|tool| !is_of_other(tool));
            let all: Map<String, Value> = own.map(schemas).collect();
            let text = serde_json::to_string_pretty(&all).unwrap();
            insta::assert_snapshot!(service.name(), text);
        }
    }

    #[test]
    fn every_tool_has_a_description_and_object_schemas() {
        for service in ALL.iter() {
            for tool in service.tools {
                assert!(!tool.description.is_empty(), "{}.{}", service.name(), tool.name);
                for schema in [tool.input_schema(), tool.output_schema()] {
                    assert_eq!(schema.get("type"), Some(&Value::from("object")), "{}", tool.name);
                }
            }
        }
    }

    #[test]
    fn every_service_has_all_its_parts() {
        for service in SERVICES {
            let name = service.name();
            assert!(!service.title().is_empty() && !service.instructions.is_empty(), "{name}");
            assert!(!service.tools.is_empty(), "{name} has no tools");
            let policy = policy::Policy::load(service.policy, policy::Format::Json).unwrap();
            let default = policy.rule_of(policy::Subject::Tool("no such tool"));
            for tool in service.tools {
                let rule = policy.rule_of(policy::Subject::Tool(tool.name));
                assert_ne!(rule, default, "{name}: the policy has no row for {}", tool.name);
            }
            assert!(policy.run_tests().iter().all(|test| test.passed), "{name}");
            if service.account().is_some() {
                assert!(sandbox::Service::named(name).is_some(), "{name} has no stand-in");
            }
            if let Some(mirror) = service.mirror {
                assert_eq!(mirror.service, name);
                assert!(!mirror.resources.is_empty(), "{name}: the mirror has no resources");
            }
            for command in service.personal.iter().flat_map(|part| part.commands) {
                if let CommandRun::Tool { name: tool, .. } = command.run {
                    assert!(service.tool(tool).is_some(), "{name} {}: {tool}", command.name);
                }
            }
        }
        let stand_ins = sandbox::Service::NAMES.iter();
        let unused: Vec<_> = stand_ins.filter(|name| connector(name).is_none()).collect();
        assert!(unused.is_empty(), "stand-ins without a service: {unused:?}");
        let mut positions: Vec<u8> =
            personal_server::MEMBERS.iter().map(|member| member.part.position).collect();
        positions.dedup();
        assert_eq!(positions.len(), personal_server::MEMBERS.len(), "two members at one position");
    }

    #[test]
    fn names_are_unique_within_a_service() {
        for service in ALL.iter() {
            let mut names: Vec<_> = service.tools.iter().map(|tool| tool.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), service.tools.len(), "{}", service.name());
        }
    }

    #[test]
    fn the_built_in_policies_load() {
        for service in ALL.iter() {
            policy::Policy::load(service.policy, policy::Format::Json)
                .unwrap_or_else(|error| panic!("{}: {error:?}", service.name()));
        }
    }

    #[test]
    fn sign_in_requests_every_scope_of_the_tools() {
        for service in ALL.iter() {
            // The personal server sends requests for the services of its tools.
            let homes =
                if service.name() == personal_server::NAME { SERVICES } else { &[*service][..] };
            let accounts = homes.iter().filter_map(|home| home.account());
            let asked: Vec<&str> = accounts.flat_map(|account| account.scopes).copied().collect();
            for tool in service.tools {
                for scope in tool.scopes {
                    assert!(asked.contains(scope), "{}.{} {scope}", service.name(), tool.name);
                }
            }
        }
    }
}
