//! The report as one self-contained page: SVG, no script, no network. It prints well and is readable without
//! colors. Its charts and figures are those of the pages.

use askama::Template;

use crate::chart;
use crate::day::Day;
use crate::finding::Finding;
use crate::health::{DriversView, Fact, Figure, HealthData};
use crate::sample;
use crate::sentences;
use crate::survey::Measured;

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    source: &'a str,
    from: Day,
    to: Day,
    days: usize,
    style: &'static str,
    tiles: Vec<Tile>,
    drivers: DriversView,
    lines: Vec<Figure>,
    calendar: Option<Figure>,
    sleep: Option<Figure>,
    sleep_facts: Vec<Fact>,
    load: Option<Figure>,
    load_facts: Vec<Fact>,
    load_signs: Vec<String>,
}

struct Tile {
    title: &'static str,
    value: String,
    usual: String,
}

/// The page over the last `days` complete days.
pub fn html(data: &HealthData, days: i32) -> Result<String, askama::Error> {
    let to = data.last_complete();
    let from = to.plus(1 - days);
    let roles = data.roles;
    let lines = roles.lines.iter().filter_map(|name| data.measured(name));
    let calendar = data.measured(roles.calendar);
    let load = data.load_view();
    let page = Page {
        source: data.source,
        from,
        to,
        days: calendar.map_or(0, |own| own.series.between(from, to).n()),
        style: chart::STYLE,
        tiles: lines.clone().map(|own| tile(own, from, to)).collect(),
        drivers: data.drivers_view(),
        lines: lines.filter_map(|own| HealthData::line_figure(own, from, to)).collect(),
        calendar: calendar.and_then(|own| HealthData::calendar_figure(own, to)),
        sleep: data.need_figure(from, to),
        sleep_facts: data.sleep_facts(from, to),
        load: data.load_figure(from, to),
        load_facts: load.facts,
        load_signs: load.signs,
    };
    page.render()
}

fn tile(own: &Measured, from: Day, to: Day) -> Tile {
    let metric = &own.metric;
    let mean = sample::mean(&own.series.between(from, to).values());
    let usual = match crate::baseline::baseline(&own.series, to, 90) {
        Finding::Found(found) => {
            let range = own.metric.show_interval(metric.cut(found.usual));
            format!("usual {range} ({} days)", found.n)
        }
        Finding::NotEnoughData(shortfall) => sentences::shortfall(&shortfall),
    };
    let value = mean.map_or_else(|| "no data".to_owned(), |value| metric.show(value));
    Tile { title: metric.title, value, usual }
}
