//! How the owner spends time: listening, playing, watching, posting. Made from the tables of the connectors,
//! and from what the mirror holds.

use std::collections::HashMap;

use askama::Template;
use connectors::activity::{ActivityList, Amount, Top, Topic};
use connectors::{Connector, ConnectorContext};
use insights::chart::{self, Frame};
use insights::health::Figure;
use insights::{Better, Day, Metric, Series, Unit};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use store::records::{StoredRecord, Window};

use crate::app::App;
use crate::own_data::{self, Empty};
use crate::page::{Chrome, page};
use crate::problem::Problem;
use crate::request::Visit;
use crate::response::Response;

const DAYS: i32 = 91;
const US_PER_DAY: i64 = 86_400 * 1_000_000;
/// Records of one list that a page reads.
const RECORDS_MAX: usize = 20_000;
const TOPS_MAX: usize = 10;

/// A topic with its services.
#[derive(Serialize)]
struct TopicLink {
    name: &'static str,
    title: &'static str,
    services: Vec<&'static str>,
    records: u64,
    #[serde(skip)]
    is_current: bool,
}

#[derive(Template, Serialize)]
#[template(path = "activity.html")]
struct ActivityPage {
    #[serde(skip)]
    chrome: Chrome,
    topics: Vec<TopicLink>,
    title: &'static str,
    days: i32,
    sources: Vec<Source>,
    #[serde(skip_serializing_if = "Option::is_none")]
    empty: Option<Empty>,
}

impl ActivityPage {
    fn has_records(&self) -> bool {
        self.topics.iter().any(|topic| topic.records > 0)
    }
}

/// One service.
#[derive(Serialize)]
struct Source {
    service: &'static str,
    title: &'static str,
    lists: Vec<ListView>,
    /// It fetches what is new.
    #[serde(skip)]
    command: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    empty: Option<Empty>,
}

#[derive(Serialize)]
struct ListView {
    title: &'static str,
    /// In the mirror.
    records: u64,
    /// That were read for this page.
    shown: usize,
    is_cut: bool,
    by_day: Option<Figure>,
    by_hour: Option<Figure>,
    tops: Vec<Ranking>,
}

/// The names with the largest amounts.
#[derive(Serialize)]
struct Ranking {
    title: &'static str,
    column: &'static str,
    rows: Vec<(String, String)>,
}

/// All topics.
pub(crate) fn list(app: &App, visit: &Visit) -> Result<Response, Problem> {
    view(app, visit, None)
}

pub(crate) fn show(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let name = visit.name("topic");
    let topic = Topic::parse(name);
    let topic = topic.ok_or_else(|| Problem::not_found(format!("there is no page `{name}`")))?;
    view(app, visit, Some(topic))
}

fn view(app: &App, visit: &Visit, topic: Option<Topic>) -> Result<Response, Problem> {
    let (ctx, empty) = match own_data::context(app) {
        Ok(ctx) => (Some(ctx), None),
        Err(empty) => (None, Some(empty)),
    };
    let mut sources = Vec::new();
    if let (Some(ctx), Some(topic)) = (&ctx, topic) {
        for connector in of_topic(topic) {
            sources.push(source(app, ctx, connector)?);
        }
    }
    let link = |one: Topic| TopicLink {
        name: one.name(),
        title: one.title(),
        services: of_topic(one).map(Connector::title).collect(),
        records: ctx.as_ref().map_or(0, |ctx| of_topic(one).map(|own| records(ctx, own)).sum()),
        is_current: Some(one) == topic,
    };
    let title = topic.map_or("Activity", Topic::title);
    page(
        visit,
        &ActivityPage {
            chrome: Chrome::new(app, visit, title),
            topics: Topic::ALL.into_iter().map(link).collect(),
            title,
            days: DAYS,
            sources,
            empty,
        },
    )
}

fn of_topic(topic: Topic) -> impl Iterator<Item = &'static Connector> {
    let is_own =
        move |one: &&Connector| one.activity.is_some_and(|activity| activity.topic == topic);
    connectors::ALL.iter().copied().filter(is_own)
}

/// The records of the lists that are shown.
fn records(ctx: &ConnectorContext, connector: &Connector) -> u64 {
    let lists = connector.activity.map(|activity| activity.lists).unwrap_or_default();
    let counts = ctx.records.counts(connector.name()).unwrap_or_default();
    let is_shown = |kind: &str| lists.iter().any(|list| list.kind == kind);
    counts.iter().filter(|(kind, _)| is_shown(kind)).map(|(_, count)| count).sum()
}

fn source(
    app: &App,
    ctx: &ConnectorContext,
    connector: &'static Connector,
) -> Result<Source, Problem> {
    let lists = connector.activity.map(|activity| activity.lists).unwrap_or_default();
    let counts = ctx.records.counts(connector.name());
    let counts = counts.map_err(|error| Problem::internal(error.to_string()))?;
    let mut views = Vec::new();
    for list in lists {
        let count = counts.iter().find(|(kind, _)| kind == list.kind).map_or(0, |(_, n)| *n);
        if count > 0 {
            views.push(list_view(app, ctx, connector, list, count)?);
        }
    }
    let (service, title) = (connector.name(), connector.title());
    let empty = views.is_empty().then(|| own_data::empty(app, ctx, service, title));
    let command = app.live.command(&format!("sync {service}"));
    Ok(Source { service, title, lists: views, command, empty })
}

fn list_view(
    app: &App,
    ctx: &ConnectorContext,
    connector: &Connector,
    list: &'static ActivityList,
    records: u64,
) -> Result<ListView, Problem> {
    let from_us = app.now_us() - i64::from(DAYS) * US_PER_DAY;
    let window = Window {
        from_us: list.is_history.then_some(from_us),
        limit: Some(RECORDS_MAX),
        newest_first: true,
        ..Window::default()
    };
    let rows = ctx.records.window(connector.name(), list.kind, &window);
    let rows = rows.map_err(|error| Problem::internal(error.to_string()))?;
    let times = if list.is_history { times(app, &rows) } else { Vec::new() };
    let flat: Vec<Value> =
        rows.iter().filter_map(|row| serde_json::from_str(&row.flat).ok()).collect();
    let tops = list.tops.iter().map(|top| ranking(top, &flat));
    Ok(ListView {
        title: list.title,
        records,
        shown: rows.len(),
        is_cut: rows.len() == RECORDS_MAX,
        by_day: by_day(app, list.title, &times),
        by_hour: by_hour(list.title, &times),
        tops: tops.filter(|ranking| !ranking.rows.is_empty()).collect(),
    })
}

/// The local day and hour of each record.
fn times(app: &App, rows: &[StoredRecord]) -> Vec<(Day, i8)> {
    let local = |row: &StoredRecord| {
        let at = Timestamp::from_microsecond(row.start_us?).ok()?.to_zoned(app.zone.clone());
        Some((Day::from_date(at.date()), at.hour()))
    };
    rows.iter().filter_map(local).collect()
}

/// A count is neither good nor bad.
const COUNT: Metric = Metric {
    name: "count",
    title: "Number",
    unit: Unit::Count,
    better: Better::Neither,
    is_log: false,
};

fn by_day(app: &App, title: &str, times: &[(Day, i8)]) -> Option<Figure> {
    let mut days: HashMap<Day, f64> = HashMap::new();
    for (day, _) in times {
        *days.entry(*day).or_default() += 1.0;
    }
    let today = Timestamp::from_microsecond(app.now_us()).ok()?.to_zoned(app.zone.clone());
    let to = Day::from_date(today.date());
    let frame = Frame {
        title: &format!("{title} by day, {} in {DAYS} days", times.len()),
        metric: &COUNT,
        from: to.plus(1 - DAYS),
        to,
    };
    let series = Series::from_points(days);
    let svg = chart::bars(frame, &chart::marks(&series, 1), None)?.svg;
    let row = |(day, value): (Day, f64)| vec![day.to_string(), value.to_string()];
    Some(Figure {
        title: "By day".to_owned(),
        svg,
        readings: series.n(),
        note: String::new(),
        columns: vec!["Day".to_owned(), title.to_owned()],
        rows: series.points().rev().map(row).collect(),
    })
}

fn by_hour(title: &str, times: &[(Day, i8)]) -> Option<Figure> {
    let count = |hour: i8| times.iter().filter(|(_, own)| *own == hour).map(|_| 1.0).sum::<f64>();
    let hours: Vec<(String, f64)> =
        (0..24).map(|hour| (format!("{hour:02}:00"), count(hour))).collect();
    let svg = chart::columns(&format!("{title} by hour of the day"), &hours)?.svg;
    Some(Figure {
        title: "By hour".to_owned(),
        svg,
        readings: times.len(),
        note: String::new(),
        columns: vec!["Hour".to_owned(), title.to_owned()],
        rows: hours.into_iter().map(|(hour, n)| vec![hour, n.to_string()]).collect(),
    })
}

fn ranking(top: &Top, rows: &[Value]) -> Ranking {
    let mut sums: HashMap<&str, f64> = HashMap::new();
    for row in rows {
        let Some(name) = row.get(top.name).and_then(Value::as_str) else { continue };
        let amount = match top.amount {
            Amount::Records => 1.0,
            Amount::Member { name, divisor, .. } => {
                row.get(name).and_then(Value::as_f64).unwrap_or(0.0) / f64::from(divisor)
            }
        };
        *sums.entry(name).or_default() += amount;
    }
    let mut sorted: Vec<(&str, f64)> =
        sums.into_iter().filter(|(name, sum)| !name.is_empty() && *sum > 0.0).collect();
    sorted.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    let (unit, column) = match top.amount {
        Amount::Records => (Unit::Count, "Number"),
        Amount::Member { unit, .. } => (unit, "Time"),
    };
    let row = |(name, sum): &(&str, f64)| ((*name).to_owned(), unit.show(*sum));
    let rows = sorted.iter().take(TOPS_MAX).map(row).collect();
    Ranking { title: top.title, column, rows }
}
