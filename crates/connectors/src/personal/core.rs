//! The tools about the personal services as a whole.

use std::future::ready;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::schema::{NOTHING, SENTENCE, gives, takes};
use super::{Given, Problem, answering, saying, standing, value};
use crate::account::{SignIn, check};
use crate::{Answer, Ask, Desk, Effect, MAIN_SET, Reach, Service, Tool};

const NAME: &str = super::service::NAME;
/// How long the status waits for one service.
const CHECK_MAX: Duration = Duration::from_secs(5);

const NUMBERS: &str = takes!(r#""a":{"type":"integer"},"b":{"type":"integer"}"#, r#""a","b""#);
const SUM_OUT: &str = gives!(r#""result":{"type":"integer"}"#, r#""result""#);
const STATUS_OUT: &str = gives!(
    r#""result":{"type":"string"},"active":{"type":"integer"},"platforms":{"type":"object","additionalProperties":{"type":"object","properties":{"title":{"type":"string"},"state":{"enum":["connected","public_only","expired","ended","not_connected","refused","unreachable"]},"next_step":{"type":["string","null"]}},"required":["title","state"]}},"version":{"type":"string"}"#,
    r#""result","active","platforms""#
);

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "add",
        title: "Add two numbers",
        description: "The sum of two whole numbers.",
        input_schema: NUMBERS,
        output_schema: SUM_OUT,
        effect: Effect::Reads,
        set: MAIN_SET,
        reach: Reach::Here,
        scopes: &[],
        run: |ask| {
            let sum = add(&ask);
            answering(ready(sum.map(|sum| json!({ "result": sum }))))
        },
    },
    Tool {
        name: "test_connection",
        title: "Test the connection",
        description: "Says that tollgate answers. No service is asked.",
        input_schema: NOTHING,
        output_schema: SENTENCE,
        effect: Effect::Reads,
        set: MAIN_SET,
        reach: Reach::Here,
        scopes: &[],
        run: |_| saying(ready(Ok(works()))),
    },
    Tool {
        name: "get_personalization_status",
        title: "What is connected",
        description: "Which of Steam, YouTube, Bilibili, Spotify and Reddit are connected, and what to do for the others. Each connected service is asked once.",
        input_schema: NOTHING,
        output_schema: STATUS_OUT,
        effect: Effect::Reads,
        set: MAIN_SET,
        reach: Reach::Outside,
        scopes: &[],
        run: |ask| Box::pin(status(ask.desk)),
    },
];

fn add(ask: &Ask<'_>) -> Result<i64, Problem> {
    let given = Given::new(NAME, ask.arguments);
    let whole = |name: &str| given.whole(name)?.ok_or_else(|| given.missing(name));
    let (a, b) = (whole("a")?, whole("b")?);
    a.checked_add(b).ok_or_else(|| given.wrong("b", "small enough for the sum to be a number"))
}

fn works() -> String {
    format!("tollgate {} answers.", env!("CARGO_PKG_VERSION"))
}

/// How one service stands, by what is kept here.
fn state(desk: &Desk, service: &Service) -> &'static str {
    let Some(account) = service.account else { return "not_connected" };
    let has = |name: &str| value(desk, service, name).is_some();
    if let SignIn::Values(fields) = &account.sign_in {
        // The first field is the one that nothing works without.
        let is_there = fields.first().is_some_and(|field| has(field.name));
        return if is_there { "connected" } else { "not_connected" };
    }
    let standing = standing(desk, service);
    let login = standing.pointer("/token_info/state").and_then(Value::as_str);
    match login.unwrap_or_default() {
        "valid" | "expiring_soon" => "connected",
        "ended" => "ended",
        // A token that has run out is refreshed with the next call, where it can be.
        "expired" => match standing.pointer("/token_info/has_refresh_token") {
            Some(Value::Bool(true)) => "connected",
            _ => "expired",
        },
        _ if account.values.iter().any(|field| has(field.name)) => "public_only",
        _ => "not_connected",
    }
}

/// How one service stands, by its own word where there is something to ask with.
async fn asked(desk: &Desk, service: &'static Service) -> &'static str {
    let kept = state(desk, service);
    if kept != "connected" {
        return kept;
    }
    match tokio::time::timeout(CHECK_MAX, check(desk, service)).await {
        Ok(Ok(())) => "connected",
        Ok(Err(error)) if error.is_final() => match state(desk, service) {
            "connected" => "refused",
            now => now,
        },
        _ => "unreachable",
    }
}

async fn status(desk: &Desk) -> Answer {
    let mut platforms = Map::new();
    let mut lines = Vec::new();
    let mut active = 0;
    let [first, second, third, fourth, fifth] = super::service::SERVICES;
    let states = tokio::join!(
        asked(desk, first),
        asked(desk, second),
        asked(desk, third),
        asked(desk, fourth),
        asked(desk, fifth)
    );
    let states: [&str; 5] = states.into();
    for (service, state) in super::service::SERVICES.into_iter().zip(states) {
        let next = match state {
            "connected" | "unreachable" => None,
            _ => Some(format!("tollgate connect {}", service.name)),
        };
        active += u32::from(matches!(state, "connected" | "public_only"));
        let words = match (state, &next) {
            ("connected", _) => "connected".to_owned(),
            ("public_only", Some(next)) => format!("public data only; `{next}` signs in"),
            ("refused", Some(next)) => {
                format!("does not accept what is kept here; run `{next}`")
            }
            ("unreachable", _) => "connected, but it did not answer just now".to_owned(),
            ("ended" | "expired", Some(next)) => format!("the login has ended; run `{next}`"),
            (_, next) => {
                format!("not connected; run `{}`", next.as_deref().unwrap_or_default())
            }
        };
        lines.push(format!("{}: {words}", service.title));
        let facts = json!({ "title": service.title, "state": state, "next_step": next });
        platforms.insert(service.name.to_owned(), facts);
    }
    lines.push(format!("{active} of {} services answer.", super::service::SERVICES.len()));
    let text = lines.join("\n");
    let value = json!({
        "result": text,
        "active": active,
        "platforms": platforms,
        "version": env!("CARGO_PKG_VERSION"),
    });
    Answer::Said { text, value }
}
