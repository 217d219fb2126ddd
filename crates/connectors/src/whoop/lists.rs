//! Lists of records: from the mirror where it is complete, from WHOOP where it is not or where the
//! caller asks for it. Bounds are instants; an open cycle ends now.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use store::records::{Look, RecordsError, Version, Window};

use super::api::{self, Bounds, Patience};
use super::fill::{self, Stretch};
use super::kind::Kind;
use super::problem::Problem;
use super::shape::{Shaped, shape_text};
use super::{NAME, Trouble, fit, here, keep, single, takeout};
use crate::answers::Question;
use crate::coerce::Arguments;
use crate::{Answer, Ask, Desk, Written, when};

const MILLISECOND_US: i64 = 1_000;
/// Cycles without a recovery that may lie between those with one.
const CYCLES_BESIDE: usize = 5;
/// A cycle that is open for longer was left open: it does not reach into later days, and what is said
/// of it is stale.
pub(super) const OPEN_LASTS_US_MAX: i64 = 48 * 3_600_000_000;
/// For what stands around the records of an answer.
const AROUND_BYTES: usize = 512;

/// What a list is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) from_us: Option<i64>,
    pub(super) to_us: Option<i64>,
    pub(super) limit: Option<usize>,
}

/// Derived records, newest first, and what was left out of them.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) texts: Vec<String>,
    pub(super) warnings: Vec<String>,
    /// Why the mirror could not be completed first.
    pub(super) problem: Option<Problem>,
    /// What WHOOP has just sent, when the answer is its own.
    pub(super) sent: Vec<Shaped>,
    /// What the records were, when all of them come from the mirror.
    pub(super) made_of: Option<Version>,
}

pub(super) async fn list(ask: Ask<'_>, kind: Kind) -> Result<Answer, Trouble> {
    let arguments = Arguments(ask.arguments);
    let start = arguments.optional_text("start")?;
    let end = arguments.optional_text("end")?;
    let limit = arguments.optional_int("limit")?;
    let fresh = arguments.flag("fresh", false)?;
    let wanted = Wanted {
        from_us: bound(ask.desk, kind, "start", start, when::start_us)?,
        to_us: bound(ask.desk, kind, "end", end, when::end_us)?,
        limit: limit_of(kind, limit)?,
    };
    let question = question(ask.desk, kind, wanted);
    let found = if fresh {
        live(ask.desk, kind, wanted).await?
    } else if let Some(answer) = remembered(ask.desk, kind, &question) {
        return Ok(Answer::Written(answer));
    } else {
        mirrored(ask.desk, kind, wanted).await?
    };
    let shown = match wanted.limit {
        Some(_) => found.texts.len(),
        None => fit::fitting(found.texts.iter().map(String::as_str)),
    };
    let answer = Arc::new(answer(ask.desk, kind, wanted, &found, shown));
    // How to get the rest of a list that was cut is looked for by itself, perhaps in newer records.
    if let Some(made_of) = found.made_of.filter(|_| shown == found.texts.len()) {
        ask.desk.answers.keep(question, made_of, &answer);
    }
    Ok(Answer::Written(answer))
}

fn question(desk: &Desk, kind: Kind, wanted: Wanted) -> Question {
    let Wanted { from_us, to_us, limit } = wanted;
    let with_open = window(desk, wanted).reaches_open();
    Question { kind: kind.name(), from_us, to_us, limit, with_open }
}

/// The answer of before, if the records are still those it was made of and still count as complete.
/// What goes wrong here goes wrong again, and is told, when the mirror is read.
fn remembered(desk: &Desk, kind: Kind, question: &Question) -> Option<Arc<Written>> {
    let (made_of, answer) = desk.answers.find(question)?;
    let now_us = desk.clock.now().wall_us;
    let stretch = asked_stretch(question.from_us, question.to_us, now_us);
    let is_same = desk
        .records
        .look(|look| Ok(look.version()? == made_of && is_known(look, kind, stretch, now_us)?));
    is_same.unwrap_or(false).then_some(answer)
}

/// The stretch that must be known.
fn asked_stretch(from_us: Option<i64>, to_us: Option<i64>, now_us: i64) -> Stretch {
    let mut stretch = Stretch::of(from_us, to_us, now_us);
    if stretch.from_us == stretch.to_us {
        // An instant: what lies across it is found.
        stretch.to_us += MILLISECOND_US;
    }
    stretch
}

type ReadBound = fn(&str, when::Here) -> Result<i64, when::Unreadable>;

fn bound(
    desk: &Desk,
    kind: Kind,
    name: &str,
    text: Option<&str>,
    read: ReadBound,
) -> Result<Option<i64>, Problem> {
    let Some(text) = text else { return Ok(None) };
    if let Some(instant_us) = when::instant_us(text) {
        return Ok(Some(instant_us));
    }
    let instant_us = read(text, here(desk))
        .map_err(|error| Problem::invalid(kind.path(), format!("`{name}` is {error}")))?;
    Ok(Some(instant_us))
}

fn limit_of(kind: Kind, limit: Option<i64>) -> Result<Option<usize>, Problem> {
    match limit {
        None => Ok(None),
        Some(limit) if limit > 0 => Ok(Some(usize::try_from(limit).unwrap_or(usize::MAX))),
        Some(_) => Err(Problem::invalid(kind.path(), "limit must be > 0")),
    }
}

/// WHOOP's own answer in its own order; what came is kept as well.
pub(super) async fn live(desk: &Desk, kind: Kind, wanted: Wanted) -> Result<Found, Problem> {
    let now_us = desk.clock.now().wall_us;
    let (start, end) = (wanted.from_us.map(when::utc_millis), wanted.to_us.map(when::utc_millis));
    let bounds = Bounds { start: start.as_deref(), end: end.as_deref() };
    // Taken before the first page: what another process adds meanwhile is nobody's deletion.
    let known = starting(desk, kind, wanted);
    let collected = api::collect(desk, kind, bounds, wanted.limit, Patience::PROMPT).await?;
    let raws: Vec<&str> = collected.records.iter().map(|raw| raw.get()).collect();
    let shaped = match keep::keep(desk, kind, &raws) {
        Ok(kept) => {
            if collected.complete {
                let stretch = Stretch::of(wanted.from_us, wanted.to_us, now_us);
                cover_whole(desk, kind, wanted, stretch, now_us);
                forget_deleted(desk, kind, known, &kept.shaped);
            }
            kept.shaped
        }
        Err(error) => {
            tracing::warn!(kind = kind.name(), %error, "an answer of WHOOP was not kept");
            raws.iter().map(|raw| shape_text(kind, raw)).collect()
        }
    };
    let mut found = Found::default();
    if kind == Kind::Recoveries && shaped.iter().any(|one| single::is_undated(desk, one)) {
        let stretch = Stretch::of(wanted.from_us, wanted.to_us, now_us);
        bring_cycles(desk, stretch, Some(shaped.len() + CYCLES_BESIDE)).await;
    }
    for shaped in &shaped {
        found.push(kind, shaped, desk);
    }
    found.sent = shaped;
    Ok(found)
}

/// Recoveries came by their nights: the one of a cycle that began before the window may be missing.
fn cover_whole(desk: &Desk, kind: Kind, wanted: Wanted, stretch: Stretch, now_us: i64) {
    let is_cut = kind == Kind::Recoveries && wanted.from_us.is_some();
    let from_us = stretch.from_us + if is_cut { fill::NIGHT_US } else { 0 };
    let to_us = stretch.to_us.min(now_us);
    if from_us < to_us
        && let Err(problem) = fill::cover(desk, kind, from_us, to_us)
    {
        tracing::warn!(%problem, "a window that came whole is not remembered");
    }
}

/// The ids that a complete answer must bring again. Recoveries are left alone: WHOOP picks them by
/// their sleep, the mirror by their cycle.
fn starting(desk: &Desk, kind: Kind, wanted: Wanted) -> Vec<String> {
    if kind == Kind::Recoveries {
        return Vec::new();
    }
    let starting = Window { overlap: false, limit: None, ..window(desk, wanted) };
    desk.records.ids_in(NAME, kind.name(), &starting).unwrap_or_default()
}

/// What WHOOP left out of a complete answer is deleted there. Rows of its data export stay: the API
/// does not know them.
fn forget_deleted(desk: &Desk, kind: Kind, mut known: Vec<String>, came: &[Shaped]) {
    let came: HashSet<&str> = came.iter().filter_map(|shaped| shaped.id.as_deref()).collect();
    known.retain(|id| !takeout::is_imported(id) && !came.contains(id.as_str()));
    if known.is_empty() {
        return;
    }
    let now_us = desk.clock.now().wall_us;
    if let Err(error) = desk.records.remove(NAME, kind.name(), &known, now_us) {
        tracing::warn!(kind = kind.name(), %error, "deleted records stay in the mirror");
    }
}

/// The mirror, completed first where it has gaps. When WHOOP cannot be asked, what is there is
/// answered with a warning; nothing there at all is the failure itself.
pub(super) async fn mirrored(desk: &Desk, kind: Kind, wanted: Wanted) -> Result<Found, Problem> {
    let failed = |error| Problem::cache(kind.path(), &error);
    let now_us = desk.clock.now().wall_us;
    let stretch = asked_stretch(wanted.from_us, wanted.to_us, now_us);
    if stretch.from_us > stretch.to_us && stretch.from_us < now_us {
        return Ok(Found { texts: read(desk, kind, wanted)?, ..Found::default() });
    }
    let shown = shown_window(desk, wanted);
    let known = desk.records.look(|look| {
        let is_known = is_known(look, kind, stretch, now_us)?;
        let read = || Ok((look.version()?, readable(look, kind, &shown)?));
        is_known.then(read).transpose()
    });
    if let Some((made_of, texts)) = known.map_err(failed)? {
        return Ok(Found { texts, made_of: Some(made_of), ..Found::default() });
    }
    let stretch = enough(desk, kind, wanted, stretch)?;
    let gaps = fill::missing(desk, kind, stretch).map_err(failed)?;
    match fill::fill(desk, kind, stretch, &gaps, wanted.limit).await {
        Ok(came) => completed(desk, kind, wanted, stretch, &came).await,
        Err(problem) => {
            let texts = read(desk, kind, wanted)?;
            if texts.is_empty() {
                return Err(problem);
            }
            Ok(Found { texts, problem: Some(problem), ..Found::default() })
        }
    }
}

/// Was the stretch fetched whole? Recoveries are found by the times of their cycles, so both count.
fn is_known(
    look: &Look<'_>,
    kind: Kind,
    stretch: Stretch,
    now_us: i64,
) -> Result<bool, RecordsError> {
    if !fill::is_whole(look, kind, stretch, now_us)? {
        return Ok(false);
    }
    Ok(kind != Kind::Recoveries || fill::is_whole(look, Kind::Cycles, stretch, now_us)?)
}

/// Recoveries take the times of their cycles, so those are brought as well; a recovery whose cycle
/// stays unknown is answered rather than lost.
async fn completed(
    desk: &Desk,
    kind: Kind,
    wanted: Wanted,
    stretch: Stretch,
    came: &[Shaped],
) -> Result<Found, Problem> {
    if kind == Kind::Recoveries {
        bring_cycles(desk, stretch, wanted.limit).await;
    }
    let mut found = Found { texts: read(desk, kind, wanted)?, ..Found::default() };
    for shaped in came {
        if !is_placed(desk, kind, shaped) {
            found.push(kind, shaped, desk);
        }
    }
    cut(&mut found.texts, wanted.limit.unwrap_or(usize::MAX));
    Ok(found)
}

/// Fetches the cycles of recoveries, as far back as those were asked for, so that each finds its own.
async fn bring_cycles(desk: &Desk, stretch: Stretch, limit: Option<usize>) {
    let cycles = Stretch { from_us: stretch.from_us - fill::NIGHT_US, ..stretch };
    let gaps = fill::missing(desk, Kind::Cycles, cycles).unwrap_or_default();
    if let Err(problem) = fill::fill(desk, Kind::Cycles, cycles, &gaps, limit).await {
        tracing::warn!(%problem, "the cycles of recoveries did not come");
    }
}

/// Is the record in the mirror, at a time?
fn is_placed(desk: &Desk, kind: Kind, shaped: &Shaped) -> bool {
    let Some(id) = shaped.id.as_deref() else { return false };
    let row = desk.records.one(NAME, kind.name(), id).ok().flatten();
    row.is_some_and(|row| row.start_us.is_some())
}

/// The part of the stretch an answer needs: with `limit` records there already, nothing older.
fn enough(desk: &Desk, kind: Kind, wanted: Wanted, stretch: Stretch) -> Result<Stretch, Problem> {
    let rows = desk
        .records
        .window(NAME, kind.name(), &shown_window(desk, wanted))
        .map_err(|error| Problem::cache(kind.path(), &error))?;
    let needed = wanted.limit.unwrap_or_else(|| {
        fit::fitting(rows.iter().map(|row| row.flat.as_str())).saturating_add(1)
    });
    let mut readable = rows.iter().filter(|row| !fit::is_unreadable(&row.flat));
    let last = needed.checked_sub(1).and_then(|at| readable.nth(at)).and_then(|row| row.start_us);
    Ok(match last {
        Some(start_us) => Stretch { from_us: stretch.from_us.max(start_us), ..stretch },
        None => stretch,
    })
}

fn read(desk: &Desk, kind: Kind, wanted: Wanted) -> Result<Vec<String>, Problem> {
    let shown = shown_window(desk, wanted);
    desk.records
        .look(|look| readable(look, kind, &shown))
        .map_err(|error| Problem::cache(kind.path(), &error))
}

/// The texts of a window, with those that cannot be read between them. The limit is one of records that
/// can: others are told, and take nobody's place.
fn readable(look: &Look<'_>, kind: Kind, window: &Window) -> Result<Vec<String>, RecordsError> {
    let wanted = window.limit.unwrap_or(usize::MAX);
    let mut limit = wanted;
    loop {
        let window = Window { limit: Some(limit), ..*window };
        let mut texts = look.window_flat(NAME, kind.name(), &window)?;
        let is_all = texts.len() < limit;
        let unreadable = texts.iter().filter(|text| fit::is_unreadable(text)).count();
        if is_all || texts.len() - unreadable >= wanted {
            cut(&mut texts, wanted);
            return Ok(texts);
        }
        limit = limit.saturating_mul(2);
    }
}

/// Leaves no more after the last of so many that can be read.
fn cut(texts: &mut Vec<String>, wanted: usize) {
    let mut readable = texts.iter().enumerate().filter(|(_, text)| !fit::is_unreadable(text));
    if let Some((at, _)) = wanted.checked_sub(1).and_then(|last| readable.nth(last)) {
        texts.truncate(at + 1);
    }
}

/// The window, as far as an answer can show it.
fn shown_window(desk: &Desk, wanted: Wanted) -> Window {
    Window { limit: wanted.limit.or(Some(fit::RECORDS_MAX)), ..window(desk, wanted) }
}

pub(super) fn window(desk: &Desk, wanted: Wanted) -> Window {
    Window {
        from_us: wanted.from_us,
        to_us: wanted.to_us,
        limit: wanted.limit,
        newest_first: true,
        overlap: true,
        open_end_us: Some(desk.clock.now().wall_us),
        open_lasts_us_max: Some(OPEN_LASTS_US_MAX),
        // Records that cannot be read are found as well, to be told.
        except_state: None,
    }
}

impl Found {
    fn push(&mut self, kind: Kind, shaped: &Shaped, desk: &Desk) {
        match shaped.warning(kind) {
            Some(warning) => self.warnings.push(warning),
            None => self.texts.push(single::dated_text(desk, kind, shaped)),
        }
    }
}

/// The records are put together as they lie in the mirror: each is compact JSON already.
fn answer(desk: &Desk, kind: Kind, wanted: Wanted, found: &Found, shown: usize) -> Written {
    let bytes: usize = found.texts.iter().take(shown).map(|text| text.len() + 1).sum();
    let mut out = Written::with_capacity(bytes + AROUND_BYTES);
    out.push("{");
    if shown < found.texts.len() {
        let hint = Value::from(hint(desk, kind, wanted, shown, found.texts.len()));
        out.push(&format!("\"truncated\":true,\"hint\":{hint},"));
    }
    out.push("\"records\":[");
    let texts = found.texts.iter().take(shown).map(String::as_str);
    let left_out = fit::join(kind, texts, &desk.quoted, &mut out);
    out.push("]");
    let stale_since = stale_since(desk, kind, found);
    let incomplete = found.problem.as_ref().map(|problem| {
        let since = stale_since.as_ref().map(|since| format!(", stale since {since}"));
        let (kind, line) = (kind.name(), problem.line());
        format!("{kind}: {line}; this is what the mirror has{}", since.unwrap_or_default())
    });
    let unreadable = fit::named(kind, found.warnings.iter().chain(&left_out));
    let warnings: Vec<&String> = incomplete.iter().chain(&unreadable).collect();
    if !warnings.is_empty() {
        out.push(&format!(",\"warnings\":{}", json!(warnings)));
    }
    if let Some(since) = stale_since {
        out.push(&format!(",\"stale_since\":{}", json!(since)));
    }
    out.push("}");
    out
}

/// Since when the answer is out of date: the mirror could not be completed, or the newest cycle was
/// left open.
fn stale_since(desk: &Desk, kind: Kind, found: &Found) -> Option<String> {
    if found.problem.is_some() {
        return fill::as_of_us(desk, kind).map(when::utc_micros);
    }
    let newest = found.texts.first().filter(|_| kind == Kind::Cycles)?;
    left_open_since(&fit::record(kind, newest).ok()?, desk.clock.now().wall_us)
}

/// When a cycle began that was left open.
pub(super) fn left_open_since(cycle: &Map<String, Value>, now_us: i64) -> Option<String> {
    let start = cycle.get("start_utc")?.as_str()?;
    let is_open = cycle.get("end_utc").is_some_and(Value::is_null);
    let open_us = now_us.saturating_sub(when::instant_us(start)?);
    (is_open && open_us > OPEN_LASTS_US_MAX).then(|| start.to_owned())
}

/// How to get what did not fit.
fn hint(desk: &Desk, kind: Kind, wanted: Wanted, shown: usize, all: usize) -> String {
    let last = Window { limit: Some(shown), ..window(desk, wanted) };
    let rows = desk.records.window(NAME, kind.name(), &last).unwrap_or_default();
    match rows.last().and_then(|row| row.start_us) {
        Some(start_us) => format!(
            "the newest {shown} of at least {all}; call again with end=\"{}\" for older ones, or with a limit to get that many at once",
            when::utc_millis(start_us)
        ),
        None => format!("the newest {shown} of {all}; narrow start and end, or pass a limit"),
    }
}
