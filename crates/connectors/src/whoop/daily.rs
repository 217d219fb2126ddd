//! The summary of one day: cycle, recovery, sleep and workouts of a UTC day, or of the day the owner
//! woke. Says which day it is, what is not scored yet and how fresh today is.

pub(super) mod pick;

use jiff::civil::Date;
use serde_json::{Map, Value, json};
use store::records::{RecordsError, Row, Window};

use super::api::Endpoint;
use super::fill::{self, Stretch};
use super::kind::Kind;
use super::lists::{self, Found, Wanted};
use super::problem::{Code, Problem};
use super::{NAME, Outcome, Trouble, fit, here, single};
use crate::coerce::Arguments;
use crate::when::{self, Here, Span};
use crate::{Ask, Desk};
use pick::Picked;

const ENDPOINT: &str = "/daily_summary";
const DAY_US: i64 = 86_400_000_000;

/// Which day a date names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Day {
    Utc,
    Local,
}

/// The three lists of a day and what went wrong with them.
#[derive(Default)]
struct Lists {
    cycles: Vec<Row>,
    sleeps: Vec<Row>,
    workouts: Vec<Row>,
    problems: Vec<(&'static str, Problem)>,
    warnings: Vec<String>,
    /// Did WHOOP have to be asked?
    live: bool,
}

pub(super) async fn summary(ask: Ask<'_>) -> Outcome {
    let arguments = Arguments(ask.arguments);
    let text = arguments.required_text("date")?;
    let fresh = arguments.flag("fresh", false)?;
    let day = which(arguments.optional_text("day")?, text)?;
    let here = by_clock_of(day, here(ask.desk));
    let date = when::day(text, here).ok_or_else(|| bad_date(text))?;
    let span = window(day, date).ok_or_else(|| bad_date(text))?;
    let mut lists = fetch(ask.desk, span, fresh).await?;
    let mut picked = match day {
        Day::Utc => pick::utc(&lists.cycles, &lists.sleeps, &lists.workouts, span),
        Day::Local => pick::local(&lists.cycles, &lists.sleeps, &lists.workouts, date),
    };
    let recovery = recovery(ask.desk, &mut lists, &picked, fresh).await;
    picked.recovery = recovery;
    let asked =
        AskedDay { text, day, is_today: is_today(date, here), span: shown_span(day, date, here) };
    let mut answer = answer(ask.desk, asked, picked, &lists);
    // `date` repeats what was said; who said `yesterday` wants to know which day that was.
    if let (None, Some(answer)) = (when::strict_date(text), answer.as_object_mut()) {
        answer.insert("resolved_date".into(), date.to_string().into());
    }
    Ok(answer)
}

/// A plain date is a UTC day, as documented. Words such as `today` are the owner's own day, unless the
/// UTC day is asked for.
fn which(day: Option<&str>, date: &str) -> Result<Day, Problem> {
    match day {
        None if when::is_words(date) => Ok(Day::Local),
        None | Some("utc") => Ok(Day::Utc),
        Some("local") => Ok(Day::Local),
        Some(_) => Err(Problem::invalid(ENDPOINT, "`day` must be `utc` or `local`")),
    }
}

fn bad_date(text: &str) -> Trouble {
    let words = if text.is_empty() { "`date` is empty" } else { "`date` is not a day" };
    let words = format!("{words}; write it as YYYY-MM-DD, or `today`, `yesterday`, a weekday");
    Problem::invalid(ENDPOINT, words).into()
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

/// Words such as `today` are meant by the clock that the day is counted by. The owner's own, taken for
/// a UTC day, names one that has not begun for hours wherever the owner is ahead.
fn by_clock_of(day: Day, here: Here) -> Here {
    match day {
        Day::Utc => Here { offset_s: 0, ..here },
        Day::Local => here,
    }
}

fn is_today(date: Date, here: Here) -> bool {
    when::local_date(here.now_us, here.offset_s) == Some(date)
}

async fn fetch(desk: &Desk, span: Span, fresh: bool) -> Result<Lists, Trouble> {
    // A mirror that cannot be read is as good as none.
    if !fresh && let Ok(Some(lists)) = known(desk, span) {
        return Ok(lists);
    }
    let (cycles, sleeps, workouts) = tokio::join!(
        part(desk, Kind::Cycles, span, fresh),
        part(desk, Kind::Sleeps, span, fresh),
        part(desk, Kind::Workouts, span, fresh),
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
    fn take(&mut self, name: &'static str, part: (Vec<Row>, Found)) -> Vec<Row> {
        let (rows, found) = part;
        self.problems.extend(found.problem.map(|problem| (name, problem)));
        self.warnings.extend(found.warnings);
        rows
    }
}

/// The lists of a day that was fetched whole, as of one moment; nothing when a part is missing.
fn known(desk: &Desk, span: Span) -> Result<Option<Lists>, RecordsError> {
    let now_us = desk.clock.now().wall_us;
    let stretch = Stretch::of(Some(span.from_us), Some(span.to_us), now_us);
    let wanted = Wanted { from_us: Some(span.from_us), to_us: Some(span.to_us), limit: None };
    let window = lists::window(desk, wanted);
    desk.records.look(|look| {
        for kind in [Kind::Cycles, Kind::Sleeps, Kind::Workouts] {
            if !fill::is_whole(look, kind, stretch, now_us)? {
                return Ok(None);
            }
        }
        let rows = |kind: Kind| {
            let rows = look.window(NAME, kind.name(), &window)?;
            Ok::<_, RecordsError>(told(kind, rows, Found::default()))
        };
        let mut lists = Lists::default();
        lists.cycles = lists.take("cycle", rows(Kind::Cycles)?);
        lists.sleeps = lists.take("sleep", rows(Kind::Sleeps)?);
        lists.workouts = lists.take("workouts", rows(Kind::Workouts)?);
        Ok(Some(lists))
    })
}

/// One list of the day. Asked for fresh, it is WHOOP's own answer or nothing; otherwise the mirror
/// stands in for WHOOP, and WHOOP for a mirror that cannot be read.
async fn part(desk: &Desk, kind: Kind, span: Span, fresh: bool) -> (Vec<Row>, Found) {
    let wanted = Wanted { from_us: Some(span.from_us), to_us: Some(span.to_us), limit: None };
    if !fresh {
        match lists::mirrored(desk, kind, wanted).await {
            Ok(found) => {
                let rows = desk.records.window(NAME, kind.name(), &lists::window(desk, wanted));
                if let Ok(rows) = rows {
                    return told(kind, rows, found);
                }
            }
            Err(problem) if problem.code == Code::CacheError => {}
            Err(problem) => return failed(problem),
        }
    }
    match lists::live(desk, kind, wanted).await {
        Ok(mut found) => {
            let now_us = desk.clock.now().wall_us;
            let rows = found.sent.drain(..).map(|shaped| pick::row(kind, shaped));
            (rows.filter(|row| touches(row, span, now_us)).collect(), found)
        }
        Err(problem) => failed(problem),
    }
}

/// Does a record lie in the window, at least partly? WHOOP counts an open cycle to every day to come;
/// it ends now.
fn touches(row: &Row, span: Span, now_us: i64) -> bool {
    row.start_us.is_some_and(|start_us| {
        let open_end_us = now_us.min(start_us.saturating_add(lists::OPEN_LASTS_US_MAX));
        let end_us = row.end_us.unwrap_or(open_end_us);
        start_us < span.to_us && end_us > span.from_us
    })
}

fn failed(problem: Problem) -> (Vec<Row>, Found) {
    (Vec::new(), Found { problem: Some(problem), ..Found::default() })
}

/// Names the rows of the mirror that cannot be read.
fn told(kind: Kind, rows: Vec<Row>, mut found: Found) -> (Vec<Row>, Found) {
    found.warnings.extend(rows.iter().filter_map(|row| fit::record(kind, &row.flat).err()));
    (rows, found)
}

/// One cause is told as itself; different ones are WHOOP's failure as a whole, and so is a list that
/// WHOOP does not know: the day is not what was not found.
fn all_failed(problems: &[(&'static str, Problem)]) -> Problem {
    let lines: Vec<String> =
        problems.iter().map(|(name, problem)| warning(name, problem)).collect();
    let mut codes = problems.iter().map(|(_, problem)| problem.code);
    let first = codes.next().unwrap_or(Code::UpstreamError);
    let is_one = first != Code::NotFound && codes.all(|code| code == first);
    let code = if is_one { first } else { Code::UpstreamError };
    Problem::new(code, ENDPOINT, lines.join("; "))
}

fn warning(name: &str, problem: &Problem) -> String {
    format!("{name}: {} {}", problem.code.as_str(), problem.words)
}

/// The recovery of the chosen cycle, asked of WHOOP when the day was, too.
async fn recovery(
    desk: &Desk,
    lists: &mut Lists,
    picked: &Picked,
    fresh: bool,
) -> Option<Map<String, Value>> {
    let id = picked.cycle_id()?;
    let row = desk.records.one(NAME, Kind::Recoveries.name(), &id.to_string()).ok().flatten();
    let is_settled = row.as_ref().is_some_and(|row| row.state.as_deref() == Some("SCORED"));
    let ask_whoop = fresh || (!is_settled && (lists.live || !is_known(desk, picked)));
    let known = row.as_ref().and_then(|row| fit::record(Kind::Recoveries, &row.flat).ok());
    if !ask_whoop {
        return known;
    }
    match single::fetched(desk, Kind::Recoveries, Endpoint::CycleRecovery(id)).await {
        Ok(value) => value.as_object().cloned(),
        Err(problem) => {
            if lists.live {
                lists.problems.push(("recovery", problem));
            }
            known.filter(|_| !fresh)
        }
    }
}

/// Were all recoveries of the cycle's time fetched? Then a missing one is missing at WHOOP.
fn is_known(desk: &Desk, picked: &Picked) -> bool {
    let Some((from_us, to_us)) = picked.cycle_times else { return false };
    let stretch = Stretch::of(Some(from_us), to_us, desk.clock.now().wall_us);
    fill::missing(desk, Kind::Recoveries, stretch).is_ok_and(|gaps| gaps.is_empty())
}

/// The day as it was asked for.
#[derive(Clone, Copy)]
struct AskedDay<'a> {
    text: &'a str,
    day: Day,
    is_today: bool,
    span: Option<Span>,
}

/// The hours of the day itself, on the clock that it is counted by.
fn shown_span(day: Day, date: Date, here: Here) -> Option<Span> {
    when::day_span(date, if day == Day::Utc { 0 } else { here.offset_s })
}

/// Since when what is known of the day is out of date, and why.
fn stale(desk: &Desk, asked: AskedDay<'_>, picked: &Picked) -> Option<(String, String)> {
    let now_us = desk.clock.now().wall_us;
    let needed_us = asked.span?.to_us.min(now_us);
    if asked.span?.from_us >= now_us {
        return None;
    }
    if let Some(as_of_us) = fill::as_of_us(desk, Kind::Cycles)
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
    let rows = desk.records.window(NAME, Kind::Cycles.name(), &newest).ok()?;
    let start_us = rows.first().filter(|row| row.end_us.is_none())?.start_us?;
    if now_us.saturating_sub(start_us) <= lists::OPEN_LASTS_US_MAX {
        return None;
    }
    let since = when::utc_micros(start_us);
    let why = format!("stale since {since}: the cycle that began then was left open");
    Some((since, why))
}

fn answer(desk: &Desk, asked: AskedDay<'_>, picked: Picked, lists: &Lists) -> Value {
    let AskedDay { text: date, day, is_today, .. } = asked;
    let state = |part: &Option<Map<String, Value>>| {
        part.as_ref().and_then(|part| part.get("score_state")).cloned().unwrap_or(Value::Null)
    };
    let mut answer = Map::new();
    answer.insert("date".into(), date.into());
    answer.insert("day".into(), if day == Day::Utc { "utc" } else { "local" }.into());
    let states = json!({
        "cycle": state(&picked.cycle), "recovery": state(&picked.recovery), "sleep": state(&picked.sleep),
    });
    let stale_since = stale(desk, asked, &picked);
    let mut notes = picked.notes(is_today);
    notes.extend(stale_since.iter().map(|(_, why)| why.clone()));
    answer.insert("cycle".into(), picked.cycle.map_or(Value::Null, Value::Object));
    answer.insert("recovery".into(), picked.recovery.map_or(Value::Null, Value::Object));
    answer.insert("sleep".into(), picked.sleep.map_or(Value::Null, Value::Object));
    answer.insert("workouts".into(), Value::Array(picked.workouts));
    answer.insert("score_states".into(), states);
    for (name, others) in picked.others {
        answer.insert(name.into(), Value::Array(others));
    }
    if is_today && let Some(as_of_us) = fill::as_of_us(desk, Kind::Cycles) {
        let age_us = desk.clock.now().wall_us.saturating_sub(as_of_us).max(0);
        answer.insert("as_of".into(), when::utc_micros(as_of_us).into());
        answer.insert("age_seconds".into(), (age_us / 1_000_000).into());
    }
    if let Some((since, _)) = stale_since {
        answer.insert("stale_since".into(), since.into());
    }
    if !notes.is_empty() {
        answer.insert("notes".into(), json!(notes));
    }
    let mut warnings: Vec<String> =
        lists.problems.iter().map(|(name, problem)| warning(name, problem)).collect();
    warnings.extend(lists.warnings.iter().cloned());
    if !warnings.is_empty() {
        answer.insert("warnings".into(), json!(warnings));
    }
    Value::Object(answer)
}

#[cfg(test)]
mod tests {
    use super::{Day, Here, by_clock_of, is_today, when};

    #[test]
    fn a_day_in_words_is_of_the_clock_it_is_counted_by() {
        // 2026-11-16T13:26:00Z; in Sydney it is the 17th already, in Honolulu still early on the 16th.
        let now_us = 1_794_835_560_000_000;
        let cases = [
            (Day::Utc, 39_600, "today", "2026-11-16"),
            (Day::Utc, 39_600, "yesterday", "2026-11-15"),
            (Day::Local, 39_600, "today", "2026-11-17"),
            (Day::Utc, -36_000, "today", "2026-11-16"),
            (Day::Local, -36_000, "yesterday", "2026-11-15"),
        ];
        for (day, offset_s, words, expected) in cases {
            let here = by_clock_of(day, Here { now_us, offset_s });
            let date = when::day(words, here);
            assert_eq!(date.map(|date| date.to_string()).as_deref(), Some(expected), "{words}");
            assert_eq!(date.map(|date| is_today(date, here)), Some(words == "today"));
        }
    }
}
