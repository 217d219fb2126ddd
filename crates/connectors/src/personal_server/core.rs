//! The tools about the personal services as a whole.

use std::future::{Ready, ready};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{MEMBERS, NAME, daily_metrics};
use crate::account::SignIn;
use crate::arguments::{BadArgument, NoArgs};
use crate::credentials::check;
use crate::personal::handler::handler;
use crate::personal::login_status::{LoginState, login_status};
use crate::personal::{Problem, value};
use crate::sync;
use crate::tool::{Json, NoData, Text, ToolOutput};
use crate::{ConnectorContext, Effect, MAIN_SET, Reach, Service, Tool, ToolCall};

const STATUS: &str = "get_personalization_status";
/// How long the status waits for one service.
const CHECK_MAX: Duration = Duration::from_secs(5);

const TOOLS: &[Tool] = &[
    Tool {
        name: "add",
        title: "Add two numbers",
        description: "The sum of two whole numbers.",
        effect: Effect::Reads,
        set: MAIN_SET,
        reach: Reach::Here,
        scopes: &[],
        aggregates: true,
        handler: handler!(NAME, add),
    },
    Tool {
        name: "test_connection",
        title: "Test the connection",
        description: "Says that tollgate answers. Sends no request to a service.",
        effect: Effect::Reads,
        set: MAIN_SET,
        reach: Reach::Here,
        scopes: &[],
        aggregates: true,
        handler: handler!(NAME, works),
    },
    Tool {
        name: STATUS,
        title: "What is connected",
        description: "",
        effect: Effect::Reads,
        set: MAIN_SET,
        reach: Reach::Outside,
        scopes: &[],
        aggregates: true,
        handler: handler!(NAME, status),
    },
    Tool {
        name: "list_daily_metrics",
        title: "Metrics by day",
        description: "Every daily metric of every mirrored service, with unit, better direction, and how many days it has. Values stay here. Honours aggregate_only.",
        effect: Effect::Reads,
        set: MAIN_SET,
        reach: Reach::Here,
        scopes: &[],
        aggregates: true,
        handler: handler!(NAME, daily_metrics::list),
    },
    Tool {
        name: "relate_daily_metrics",
        title: "Two metrics of any sources",
        description: "Whether two daily metrics of any sources go together, with a lag of so many days, such as late listening and the next night: r and slope with intervals, n, effective n, without weekday means; or how many days are missing. Honours aggregate_only.",
        effect: Effect::Reads,
        set: MAIN_SET,
        reach: Reach::Here,
        scopes: &[],
        aggregates: true,
        handler: handler!(NAME, daily_metrics::relate_two),
    },
    Tool {
        name: "survey_daily_metrics",
        title: "All pairs of sources",
        description: "Every pair of daily metrics of two sources at once; a pair is a claim only if it is a discovery among all looks (Benjamini-Hochberg). Honours aggregate_only.",
        effect: Effect::Reads,
        set: MAIN_SET,
        reach: Reach::Here,
        scopes: &[],
        aggregates: true,
        handler: handler!(NAME, daily_metrics::survey),
    },
];

/// The tools about all services; the status tool names them.
pub(super) fn tools() -> Vec<Tool> {
    let mut tools = TOOLS.to_vec();
    for tool in tools.iter_mut().filter(|tool| tool.name == STATUS) {
        let titles = super::titles();
        tool.description = format!(
            "Which of {titles} are connected, and what to do for the others. Each connected service is asked once."
        )
        .leak();
    }
    tools
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
struct SumArgs {
    a: i64,
    b: i64,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    result: i64,
}

#[derive(Serialize, JsonSchema)]
struct Platforms {
    result: String,
    active: u32,
    #[schemars(with = "std::collections::BTreeMap<String, Platform>")]
    platforms: Map<String, Value>,
    version: &'static str,
}

impl ToolOutput for Platforms {
    type Output = Platforms;

    fn into_parts(self) -> (Option<String>, Platforms) {
        (Some(self.result.clone()), self)
    }
}

#[derive(Serialize, JsonSchema)]
struct Platform {
    title: &'static str,
    state: PlatformState,
    next_step: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum PlatformState {
    Connected,
    PublicOnly,
    Expired,
    Ended,
    NotConnected,
    Refused,
    Unreachable,
}

fn add(_: ToolCall<'_>, args: SumArgs) -> Ready<Result<Json<Sum>, Problem>> {
    let too_large =
        || BadArgument::new("b", "small enough for the sum to be a number").problem(NAME);
    ready(args.a.checked_add(args.b).map(|result| Json(Sum { result })).ok_or_else(too_large))
}

fn works(_: ToolCall<'_>, _: NoArgs) -> Ready<Result<Text<NoData>, Problem>> {
    ready(Ok(format!("tollgate {} answers.", env!("CARGO_PKG_VERSION")).into()))
}

/// The state of one service, by what is stored here.
fn stored_state(ctx: &ConnectorContext, service: &Service) -> PlatformState {
    let Some(account) = service.account else { return PlatformState::NotConnected };
    let has = |name: &str| value(ctx, service, name).is_some();
    if let SignIn::Values(fields) = &account.sign_in {
        // The first field is the one that nothing works without.
        let is_there = fields.first().is_some_and(|field| has(field.name));
        return if is_there { PlatformState::Connected } else { PlatformState::NotConnected };
    }
    let login = login_status(ctx, service).token_info;
    match login.state {
        LoginState::Valid | LoginState::ExpiringSoon => PlatformState::Connected,
        LoginState::Ended => PlatformState::Ended,
        // An expired token is refreshed with the next call, where it can be.
        LoginState::Expired if login.is_refreshable() => PlatformState::Connected,
        LoginState::Expired => PlatformState::Expired,
        LoginState::NotConfigured if account.values.iter().any(|field| has(field.name)) => {
            PlatformState::PublicOnly
        }
        LoginState::NotConfigured => PlatformState::NotConnected,
    }
}

/// The state of one service, by its own response where there is a login to try.
async fn checked_state(ctx: &ConnectorContext, service: &'static Service) -> PlatformState {
    let stored = stored_state(ctx, service);
    if stored != PlatformState::Connected {
        return stored;
    }
    match tokio::time::timeout(CHECK_MAX, check(ctx, service)).await {
        Ok(Ok(())) => PlatformState::Connected,
        Ok(Err(error)) if error.is_final() => match stored_state(ctx, service) {
            PlatformState::Connected => PlatformState::Refused,
            now => now,
        },
        _ => PlatformState::Unreachable,
    }
}

async fn status(call: ToolCall<'_>, _: NoArgs) -> Result<Platforms, Problem> {
    let mut platforms = Map::new();
    let mut lines = Vec::new();
    let mut active = 0;
    let services: Vec<&'static Service> =
        MEMBERS.iter().map(|member| member.connector.service).collect();
    let states = services.iter().map(|&service| checked_state(call.ctx, service));
    let states = sync::all(states).await;
    for (service, state) in services.iter().zip(states) {
        let platform =
            Platform { title: service.title, state, next_step: next_step(service, state) };
        active += u32::from(matches!(state, PlatformState::Connected | PlatformState::PublicOnly));
        lines.push(format!("{}: {}", service.title, message(&platform)));
        let platform = serde_json::to_value(platform).unwrap_or_default();
        platforms.insert(service.name.to_owned(), platform);
    }
    lines.push(format!("{active} of {} services answer.", services.len()));
    let version = env!("CARGO_PKG_VERSION");
    Ok(Platforms { result: lines.join("\n"), active, platforms, version })
}

fn next_step(service: &Service, state: PlatformState) -> Option<String> {
    match state {
        PlatformState::Connected | PlatformState::Unreachable => None,
        _ => Some(format!("tollgate connect {}", service.name)),
    }
}

fn message(platform: &Platform) -> String {
    let next = platform.next_step.as_deref().unwrap_or_default();
    match platform.state {
        PlatformState::Connected => "connected".to_owned(),
        PlatformState::PublicOnly => format!("public data only; `{next}` signs in"),
        PlatformState::Refused => format!("does not accept the stored credentials; run `{next}`"),
        PlatformState::Unreachable => "connected, but it did not answer just now".to_owned(),
        PlatformState::Ended | PlatformState::Expired => {
            format!("the login has ended; run `{next}`")
        }
        PlatformState::NotConnected => format!("not connected; run `{next}`"),
    }
}
