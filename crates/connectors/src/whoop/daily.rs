//! The summary of one day: cycle, recovery, sleep and workouts of a UTC day, or of the day the owner
//! woke. Also reports the date, pending scores and how fresh today is.

pub(super) mod pick;

use jiff::civil::Date;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use store::records::{RecordsError, StoredRecord, Window};

use super::api::ApiPath;
use super::fill::{self, Stretch};
use super::kind::Kind;
use super::lists::{self, ListRequest, ListResult};
use super::problem::{WhoopCode, WhoopProblem};
use super::records::{Cycle, Record, Recovery, Sleep, Workout};
use super::{NAME, ToolError, here, single, truncate};
use crate::tool::Json;
use crate::when::{self, Here, Span};
use crate::{ConnectorContext, ToolCall};
use pick::Picked;

const ENDPOINT: &str = "/daily_summary";
const DAY_US: i64 = 86_400_000_000;

/// Which day a date names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Day {
    Utc,
    Local,
}

/// The three lists of a day and their problems.
#[derive(Default)]
struct Lists {
    cycles: Vec<StoredRecord>,
    sleeps: Vec<StoredRecord>,
    workouts: Vec<StoredRecord>,
    problems: Vec<(&'static str, WhoopProblem)>,
    warnings: Vec<String>,
    /// Was a request to WHOOP needed?
    live: bool,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct DailyArgs {
    /// YYYY-MM-DD, or `today`, `yesterday`, a weekday.
    date: String,
    /// Ask WHOOP instead of the local mirror.
    #[serde(default)]
    fresh: bool,
    /// `utc`: the day by UTC. `local`: the day you woke, on the clock you woke by. Without it a date is a UTC day, and words such as `today` are your own day.
    #[serde(default)]
    day: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct DailySummary {
    date: String,
    day: &'static str,
    cycle: Option<Cycle>,
    recovery: Option<Recovery>,
    sleep: Option<Sleep>,
    workouts: Vec<Workout>,
    score_states: ScoreStates,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    naps: Vec<Sleep>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    other_sleeps: Vec<Sleep>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    other_cycles: Vec<Cycle>,
    #[serde(flatten)]
    age: Option<Age>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    stale_since: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    resolved_date: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct ScoreStates {
    cycle: Option<String>,
    recovery: Option<String>,
    sleep: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Age {
    as_of: Option<String>,
    age_seconds: Option<i64>,
}

pub(super) async fn summary(
    call: ToolCall<'_>,
    args: DailyArgs,
) -> Result<Json<DailySummary>, ToolError> {
    let (ctx, text, fresh) = (call.ctx, args.date.as_str(), args.fresh);
    let day = which(args.day.as_deref(), text)?;
    let here = by_clock_of(day, here(ctx));
    let date = when::day(text, here).ok_or_else(|| bad_date(text))?;
    let span = window(day, date).ok_or_else(|| bad_date(text))?;
    let mut lists = fetch(ctx, span, fresh).await?;
    let mut picked = match day {
        Day::Utc => pick::utc(&lists.cycles, &lists.sleeps, &lists.workouts, span),
        Day::Local => pick::local(&lists.cycles, &lists.sleeps, &lists.workouts, date),
    };
    let recovery = recovery(ctx, &mut lists, &picked, fresh).await;
    picked.recovery = recovery;
    let asked = RequestedDay {
        text,
        day,
        is_today: is_today(date, here),
        span: shown_span(day, date, here),
    };
    let mut summary = answer(ctx, asked, picked, &lists);
    // `date` repeats the argument; for words such as `yesterday` the date is added.
    if when::strict_date(text).is_none() {
        summary.resolved_date = Some(date.to_string());
    }
    Ok(Json(summary))
}

/// A plain date is a UTC day, as documented. Words such as `today` are the owner's own day, unless the
/// UTC day is requested.
fn which(day: Option<&str>, date: &str) -> Result<Day, WhoopProblem> {
    match day {
        None if when::is_words(date) => Ok(Day::Local),
        None | Some("utc") => Ok(Day::Utc),
        Some("local") => Ok(Day::Local),
        Some(_) => Err(WhoopProblem::invalid(ENDPOINT, "`day` must be `utc` or `local`")),
    }
}

fn bad_date(text: &str) -> ToolError {
    let message = if text.is_empty() { "`date` is empty" } else { "`date` is not a day" };
    let message = format!("{message}; write it as YYYY-MM-DD, or `today`, `yesterday`, a weekday");
    WhoopProblem::invalid(ENDPOINT, message).into()
}

/// The UTC day itself; for a local day every instant that can be part of it anywhere, and the night
/// before.
fn window(day: Day, date: Date) -> Option<Span> {
    let span = when::day_span(date, 0)?;
    match day {
        Day::Utc => Some(span),
        Day::Local => Some(Span { from_us: span.from_us - 2 * DAY_US, to_us: span.to_us + DAY_US }),
    }
}

/// Words such as `today` use the clock of the requested day. The owner's date, taken as a UTC day,
/// would be in the future for hours where the owner is ahead of UTC.
fn by_clock_of(day: Day, here: Here) -> Here {
    match day {
        Day::Utc => Here { offset_s: 0, ..here },
        Day::Local => here,
    }
}

fn is_today(date: Date, here: Here) -> bool {
    when::local_date(here.now_us, here.offset_s) == Some(date)
}

async fn fetch(ctx: &ConnectorContext, span: Span, fresh: bool) -> Result<Lists, ToolError> {
    // A mirror that cannot be read counts as empty.
    if !fresh && let Ok(Some(lists)) = known(ctx, span) {
        return Ok(lists);
    }
    let (cycles, sleeps, workouts) = tokio::join!(
        part(ctx, Kind::Cycles, span, fresh),
        part(ctx, Kind::Sleeps, span, fresh),
        part(ctx, Kind::Workouts, span, fresh),
    );
    let mut lists = Lists { live: true, ..Lists::default() };
    lists.cycles = lists.take("cycle", cycles);
    lists.sleeps = lists.take("sleep", sleeps);
    lists.workouts = lists.take("workouts", workouts);
    let nothing = lists.cycles.is_empty() && lists.sleeps.is_empty() && lists.workouts.is_empty();
    if lists.problems.len() == 3 && nothing {
        return Err(all_failed(&lists.problems).into());
    }
    Ok(lists)
}

impl Lists {
    fn take(
        &mut self,
        name: &'static str,
        part: (Vec<StoredRecord>, ListResult),
    ) -> Vec<StoredRecord> {
        let (rows, found) = part;
        self.problems.extend(found.problem.map(|problem| (name, problem)));
        self.warnings.extend(found.warnings);
        rows
    }
}

/// The lists of a completely fetched day from one snapshot; `None` if a part is missing.
fn known(ctx: &ConnectorContext, span: Span) -> Result<Option<Lists>, RecordsError> {
    let now_us = ctx.clock.now().wall_us;
    let stretch = Stretch::of(Some(span.from_us), Some(span.to_us), now_us);
    let wanted = ListRequest { from_us: Some(span.from_us), to_us: Some(span.to_us), limit: None };
    let window = lists::window(ctx, wanted);
    ctx.records.snapshot(|look| {
        for kind in [Kind::Cycles, Kind::Sleeps, Kind::Workouts] {
            if !fill::is_whole(look, kind, stretch, now_us)? {
                return Ok(None);
            }
        }
        let rows = |kind: Kind| {
            let rows = look.window(NAME, kind.name(), &window)?;
            Ok::<_, RecordsError>(with_warnings(kind, rows, ListResult::default()))
        };
        let mut lists = Lists::default();
        lists.cycles = lists.take("cycle", rows(Kind::Cycles)?);
        lists.sleeps = lists.take("sleep", rows(Kind::Sleeps)?);
        lists.workouts = lists.take("workouts", rows(Kind::Workouts)?);
        Ok(Some(lists))
    })
}

/// One list of the day. A fresh read is WHOOP's response or a failure; otherwise the mirror is the
/// fallback for WHOOP, and WHOOP for an unreadable mirror.
async fn part(
    ctx: &ConnectorContext,
    kind: Kind,
    span: Span,
    fresh: bool,
) -> (Vec<StoredRecord>, ListResult) {
    let wanted = ListRequest { from_us: Some(span.from_us), to_us: Some(span.to_us), limit: None };
    if !fresh {
        match lists::mirrored(ctx, kind, wanted).await {
            Ok(found) => {
                let rows = ctx.records.window(NAME, kind.name(), &lists::window(ctx, wanted));
                if let Ok(rows) = rows {
                    return with_warnings(kind, rows, found);
                }
            }
            Err(problem) if problem.code == WhoopCode::CacheError => {}
            Err(problem) => return failed(problem),
        }
    }
    match lists::live(ctx, kind, wanted).await {
        Ok(mut found) => {
            let now_us = ctx.clock.now().wall_us;
            let rows = found.sent.drain(..).map(|shaped| pick::row(kind, shaped));
            (rows.filter(|row| touches(row, span, now_us)).collect(), found)
        }
        Err(problem) => failed(problem),
    }
}

/// Does a record overlap the window? WHOOP counts an open cycle to every later day; here it ends
/// now.
fn touches(row: &StoredRecord, span: Span, now_us: i64) -> bool {
    row.start_us.is_some_and(|start_us| {
        let open_end_us = now_us.min(start_us.saturating_add(lists::OPEN_LASTS_US_MAX));
        let end_us = row.end_us.unwrap_or(open_end_us);
        start_us < span.to_us && end_us > span.from_us
    })
}

fn failed(problem: WhoopProblem) -> (Vec<StoredRecord>, ListResult) {
    (Vec::new(), ListResult { problem: Some(problem), ..ListResult::default() })
}

/// Names the rows of the mirror that cannot be read.
fn with_warnings(
    kind: Kind,
    rows: Vec<StoredRecord>,
    mut found: ListResult,
) -> (Vec<StoredRecord>, ListResult) {
    found.warnings.extend(rows.iter().filter_map(|row| truncate::record(kind, &row.flat).err()));
    (rows, found)
}

/// A single cause is reported as itself; different ones become a general failure of WHOOP, and so
/// does a 404 for a list: it does not mean that the day was not found.
fn all_failed(problems: &[(&'static str, WhoopProblem)]) -> WhoopProblem {
    let lines: Vec<String> =
        problems.iter().map(|(name, problem)| warning(name, problem)).collect();
    let mut codes = problems.iter().map(|(_, problem)| problem.code);
    let first = codes.next().unwrap_or(WhoopCode::UpstreamError);
    let is_one = first != WhoopCode::NotFound && codes.all(|code| code == first);
    let code = if is_one { first } else { WhoopCode::UpstreamError };
    WhoopProblem::new(code, ENDPOINT, lines.join("; "))
}

fn warning(name: &str, problem: &WhoopProblem) -> String {
    format!("{name}: {} {}", problem.code.as_str(), problem.message)
}

/// The recovery of the chosen cycle, from WHOOP if the day was.
async fn recovery(
    ctx: &ConnectorContext,
    lists: &mut Lists,
    picked: &Picked,
    fresh: bool,
) -> Option<Map<String, Value>> {
    let id = picked.cycle_id()?;
    let row = ctx.records.one(NAME, Kind::Recoveries.name(), &id.to_string()).ok().flatten();
    let is_settled = row.as_ref().is_some_and(|row| row.state.as_deref() == Some("SCORED"));
    let ask_whoop = fresh || (!is_settled && (lists.live || !is_known(ctx, picked)));
    let known = row.as_ref().and_then(|row| truncate::record(Kind::Recoveries, &row.flat).ok());
    if !ask_whoop {
        return known;
    }
    match single::fetched(ctx, Kind::Recoveries, ApiPath::CycleRecovery(id)).await {
        Ok(flat) => Some(flat),
        Err(problem) => {
            if lists.live {
                lists.problems.push(("recovery", problem));
            }
            known.filter(|_| !fresh)
        }
    }
}

/// Were all recoveries of the cycle's time fetched? Then a missing one is missing at WHOOP.
fn is_known(ctx: &ConnectorContext, picked: &Picked) -> bool {
    let Some((from_us, to_us)) = picked.cycle_times else { return false };
    let stretch = Stretch::of(Some(from_us), to_us, ctx.clock.now().wall_us);
    fill::missing(ctx, Kind::Recoveries, stretch).is_ok_and(|gaps| gaps.is_empty())
}

/// The requested day.
#[derive(Clone, Copy)]
struct RequestedDay<'a> {
    text: &'a str,
    day: Day,
    is_today: bool,
    span: Option<Span>,
}

/// The hours of the day in its own zone.
fn shown_span(day: Day, date: Date, here: Here) -> Option<Span> {
    when::day_span(date, if day == Day::Utc { 0 } else { here.offset_s })
}

/// Since when the data of the day is stale, and why.
fn stale(
    ctx: &ConnectorContext,
    asked: RequestedDay<'_>,
    picked: &Picked,
) -> Option<(String, String)> {
    let now_us = ctx.clock.now().wall_us;
    let needed_us = asked.span?.to_us.min(now_us);
    if asked.span?.from_us >= now_us {
        return None;
    }
    if let Some(as_of_us) = fill::as_of_us(ctx, Kind::Cycles)
        && needed_us - as_of_us > fill::FRESH_US
    {
        let since = when::utc_micros(as_of_us);
        let why = format!("stale since {since}: the mirror was not brought up to date after that");
        return Some((since, why));
    }
    if picked.cycle.is_some() || !asked.is_today {
        return None;
    }
    let newest = Window { limit: Some(1), newest_first: true, ..Window::default() };
    let rows = ctx.records.window(NAME, Kind::Cycles.name(), &newest).ok()?;
    let start_us = rows.first().filter(|row| row.end_us.is_none())?.start_us?;
    if now_us.saturating_sub(start_us) <= lists::OPEN_LASTS_US_MAX {
        return None;
    }
    let since = when::utc_micros(start_us);
    let why = format!("stale since {since}: the cycle that began then was left open");
    Some((since, why))
}

fn answer(
    ctx: &ConnectorContext,
    asked: RequestedDay<'_>,
    picked: Picked,
    lists: &Lists,
) -> DailySummary {
    let stale_since = stale(ctx, asked, &picked);
    let mut notes = picked.notes(asked.is_today);
    notes.extend(stale_since.iter().map(|(_, why)| why.clone()));
    let mut warnings: Vec<String> =
        lists.problems.iter().map(|(name, problem)| warning(name, problem)).collect();
    warnings.extend(lists.warnings.iter().cloned());
    DailySummary {
        date: asked.text.to_owned(),
        day: if asked.day == Day::Utc { "utc" } else { "local" },
        score_states: ScoreStates {
            cycle: state(picked.cycle.as_ref()),
            recovery: state(picked.recovery.as_ref()),
            sleep: state(picked.sleep.as_ref()),
        },
        cycle: picked.cycle.and_then(Cycle::of),
        recovery: picked.recovery.and_then(Recovery::of),
        sleep: picked.sleep.and_then(Sleep::of),
        workouts: records(picked.workouts),
        naps: records(picked.naps),
        other_sleeps: records(picked.other_sleeps),
        other_cycles: records(picked.other_cycles),
        age: age(ctx).filter(|_| asked.is_today),
        stale_since: stale_since.map(|(since, _)| since),
        notes,
        warnings,
        resolved_date: None,
    }
}

fn state(part: Option<&Map<String, Value>>) -> Option<String> {
    Some(part?.get("score_state")?.as_str()?.to_owned())
}

fn records<T: Record>(flats: Vec<Map<String, Value>>) -> Vec<T> {
    flats.into_iter().filter_map(T::of).collect()
}

/// The age of today's data.
fn age(ctx: &ConnectorContext) -> Option<Age> {
    let as_of_us = fill::as_of_us(ctx, Kind::Cycles)?;
    let age_us = ctx.clock.now().wall_us.saturating_sub(as_of_us).max(0);
    Some(Age { as_of: Some(when::utc_micros(as_of_us)), age_seconds: Some(age_us / 1_000_000) })
}

#[cfg(test)]
mod tests {
    use super::{Day, Here, by_clock_of, is_today, when};

    #[test]
    fn a_relative_day_belongs_to_the_clock_of_its_column() {
        // 2026-11-16T13:26:00Z; in Sydney it is the 17th already, in Honolulu still early on the 16th.
        let now_us = 1_794_835_560_000_000;
        let cases = [
            (Day::Utc, 39_600, "today", "2026-11-16"),
            (Day::Utc, 39_600, "yesterday", "2026-11-15"),
            (Day::Local, 39_600, "today", "2026-11-17"),
            (Day::Utc, -36_000, "today", "2026-11-16"),
            (Day::Local, -36_000, "yesterday", "2026-11-15"),
        ];
        for (day, offset_s, message, expected) in cases {
            let here = by_clock_of(day, Here { now_us, offset_s });
            let date = when::day(message, here);
            assert_eq!(date.map(|date| date.to_string()).as_deref(), Some(expected), "{message}");
            assert_eq!(date.map(|date| is_today(date, here)), Some(message == "today"));
        }
    }
}
