//! The 16 tools that older agents and policies name. Data is WHOOP's JSON as sent; the tools about
//! tokens work on the vault and never show one.

mod login;

use serde_json::{Map, Value};

use super::api::{self, Bounds, Endpoint, Patience};
use super::kind::Kind;
use super::problem::Problem;
use super::{here, keep, offset_s, single};
use crate::coerce::{Arguments, Misread};
use crate::when::{self, Span};
use crate::{Answer, Ask, Desk};

pub(super) use login::{authorization_url, exchange, refresh, revoke, set_access_token};

/// WHOOP gives no more on a page.
const LIMIT_MAX: i64 = 25;

pub(super) async fn snapshot(ask: Ask<'_>, kind: Kind) -> Answer {
    let endpoint = if kind == Kind::Profile { Endpoint::Profile } else { Endpoint::Body };
    as_sent(ask.desk, endpoint, &[]).await
}

pub(super) async fn cycle(ask: Ask<'_>) -> Answer {
    match cycle_id(ask.arguments) {
        Ok(id) => as_sent(ask.desk, Endpoint::Cycle(id), &[]).await,
        Err(misread) => misread_answer(misread),
    }
}

pub(super) async fn cycle_sleep(ask: Ask<'_>) -> Answer {
    match cycle_id(ask.arguments) {
        Ok(id) => as_sent(ask.desk, Endpoint::CycleSleep(id), &[]).await,
        Err(misread) => misread_answer(misread),
    }
}

pub(super) async fn cycle_recovery(ask: Ask<'_>) -> Answer {
    match cycle_id(ask.arguments) {
        Ok(id) => as_sent(ask.desk, Endpoint::CycleRecovery(id), &[]).await,
        Err(misread) => misread_answer(misread),
    }
}

fn cycle_id(arguments: &Map<String, Value>) -> Result<i64, Misread> {
    Arguments(arguments).required_int("cycleId")
}

pub(super) async fn activity(ask: Ask<'_>, kind: Kind) -> Answer {
    let name = if kind == Kind::Sleeps { "sleepId" } else { "workoutId" };
    let arguments = Arguments(ask.arguments);
    let id = match arguments.required_text(name) {
        Ok(id) => id,
        Err(misread) => return misread_answer(misread),
    };
    if let Err(words) = single::check_id(id) {
        return misread_answer(Misread(format!("argument `{name}` {words}")));
    }
    let endpoint = if kind == Kind::Sleeps { Endpoint::Sleep(id) } else { Endpoint::Workout(id) };
    as_sent(ask.desk, endpoint, &[]).await
}

pub(super) async fn collection(ask: Ask<'_>, kind: Kind) -> Answer {
    learn_zone(&ask).await;
    let query = match query(ask.desk, ask.arguments) {
        Ok(query) => query,
        Err(misread) => return misread_answer(misread),
    };
    let query: Vec<(&str, &str)> =
        query.iter().map(|(name, value)| (*name, value.as_str())).collect();
    as_sent(ask.desk, Endpoint::List(kind), &query).await
}

fn query(
    desk: &Desk,
    arguments: &Map<String, Value>,
) -> Result<Vec<(&'static str, String)>, Misread> {
    let arguments = Arguments(arguments);
    let mut query = Vec::new();
    if let Some(limit) = arguments.optional_int("limit")? {
        if !(1..=LIMIT_MAX).contains(&limit) {
            return Err(Misread(format!("argument `limit` must be between 1 and {LIMIT_MAX}")));
        }
        query.push(("limit", limit.to_string()));
    }
    if let Some(text) = arguments.optional_text("start")? {
        query.push(("start", when::utc_millis(widened(desk, "start", text)?.from_us)));
    }
    if let Some(text) = arguments.optional_text("end")? {
        query.push(("end", when::utc_millis(widened(desk, "end", text)?.to_us)));
    }
    if let Some(token) = arguments.optional_text("nextToken")?.filter(|token| !token.is_empty()) {
        query.push(("nextToken", token.to_owned()));
    }
    Ok(query)
}

/// A day is meant where the owner is. These tools read no mirror, so where they are all that is used
/// it is empty, and WHOOP's newest cycles say where that is. Without them it is UTC.
async fn learn_zone(ask: &Ask<'_>) {
    let is_instant =
        |text: &str| when::instant_us(text).is_some() && when::day(text, here(ask.desk)).is_none();
    let bounds = ["start", "end"].map(|name| Arguments(ask.arguments).optional_text(name));
    if bounds.into_iter().flatten().flatten().all(is_instant)
        || offset_s(&ask.desk.records).is_some()
    {
        return;
    }
    let anytime = Bounds { start: None, end: None };
    if let Ok(page) = api::page(ask.desk, Kind::Cycles, anytime, None, Patience::PROMPT).await {
        let raws: Vec<&str> = page.records.iter().map(|raw| raw.get()).collect();
        if let Err(error) = keep::keep(ask.desk, Kind::Cycles, &raws) {
            tracing::warn!(%error, "the newest cycles were not kept");
        }
    }
}

/// A bare date is the whole day where the owner is: WHOOP itself answers 404 to one.
fn widened(desk: &Desk, name: &str, text: &str) -> Result<Span, Misread> {
    let here = here(desk);
    if let Some(span) = when::day(text, here).and_then(|date| when::day_span(date, here.offset_s)) {
        return Ok(span);
    }
    let wrong = |error: when::Unreadable| Misread(format!("argument `{name}` is {error}"));
    Ok(Span {
        from_us: when::start_us(text, here).map_err(wrong)?,
        to_us: when::end_us(text, here).map_err(wrong)?,
    })
}

/// WHOOP's answer, every key of it.
async fn as_sent(desk: &Desk, endpoint: Endpoint<'_>, query: &[(&str, &str)]) -> Answer {
    match api::get(desk, endpoint, query, Patience::PROMPT).await {
        Ok(fetched) => match serde_json::from_str(fetched.text()) {
            Ok(value) => Answer::Found(value),
            Err(_) => failed("UPSTREAM_ERROR", "WHOOP's answer is not JSON"),
        },
        Err(problem) => problem_answer(&problem),
    }
}

fn problem_answer(problem: &Problem) -> Answer {
    failed(problem.code.as_str(), &problem.words)
}

fn misread_answer(Misread(words): Misread) -> Answer {
    Answer::Failed { code: "invalid_arguments", words }
}

fn failed(code: &'static str, words: &str) -> Answer {
    Answer::Failed { code, words: words.to_owned() }
}
