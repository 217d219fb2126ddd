//! The report as one self-contained page: SVG, no script, no network. It prints well and is readable without
//! colors.

use askama::Template;

use crate::baseline::{Baseline, baseline};
use crate::chart;
use crate::correlation::correlation;
use crate::day::Day;
use crate::finding::Finding;
use crate::load::{TrainingLoad, fitness_by_day};
use crate::metric::{Metric, Units};
use crate::sample;
use crate::series::Series;
use crate::sleep::{Regularity, SleepNeed};
use crate::survey::{ClaimKind, Claims, Measured, PairLook};
use crate::words;

/// Scatter plots that a report shows at most.
const SCATTERS_MAX: usize = 4;

/// What a report is made of. Everything was computed before; nothing is measured here.
#[derive(Debug)]
pub struct ReportData<'a> {
    pub source: &'a str,
    pub from: Day,
    pub to: Day,
    pub measured: &'a [Measured],
    /// The metrics with a line chart, in order.
    pub lines: &'a [&'static str],
    /// The metric of the calendar.
    pub calendar: &'static str,
    pub asleep: &'static str,
    pub sleep_need_metric: &'static str,
    pub load_metric: &'static str,
    pub claims: &'a Claims,
    pub pairs: &'a [PairLook],
    pub regularity: Finding<Regularity>,
    pub sleep_need: Finding<SleepNeed>,
    pub training_load: Finding<TrainingLoad>,
    pub units: Units,
}

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    source: &'a str,
    from: Day,
    to: Day,
    days: usize,
    tiles: Vec<Tile>,
    claims: Vec<String>,
    looks: usize,
    unclear: usize,
    short: Vec<String>,
    lines: Vec<Figure>,
    calendar: Option<Figure>,
    scatters: Vec<Figure>,
    sleep: Option<Figure>,
    sleep_facts: Vec<(String, String)>,
    load: Option<Figure>,
    load_facts: Vec<(String, String)>,
}

struct Tile {
    title: &'static str,
    value: String,
    usual: String,
}

/// A chart with its readings in words and as a table.
struct Figure {
    title: String,
    svg: String,
    readings: usize,
    note: String,
    rows: Vec<(String, String)>,
}

/// The page.
pub fn html(data: &ReportData<'_>) -> Result<String, askama::Error> {
    let main = data.lines.iter().filter_map(|name| data.measured(name));
    let days = data.measured(data.calendar).map_or(0, |own| data.period(own).n());
    let page = Page {
        source: data.source,
        from: data.from,
        to: data.to,
        days,
        tiles: main.clone().map(|own| data.tile(own)).collect(),
        claims: data
            .claims
            .claims
            .iter()
            .map(|claim| words::claim(claim, data.measured, data.units))
            .collect(),
        looks: data.claims.looks,
        unclear: data.claims.unclear.len(),
        short: data
            .claims
            .short
            .iter()
            .map(|short| words::short_look(short, data.measured))
            .collect(),
        lines: main.filter_map(|own| data.line(own)).collect(),
        calendar: data.calendar(),
        scatters: data.scatters(),
        sleep: data.sleep(),
        sleep_facts: data.sleep_facts(),
        load: data.load(),
        load_facts: data.load_facts(),
    };
    page.render()
}

impl ReportData<'_> {
    fn measured(&self, name: &str) -> Option<&Measured> {
        self.measured.iter().find(|own| own.metric.name == name)
    }

    fn period(&self, own: &Measured) -> Series {
        own.series.between(self.from, self.to)
    }

    fn show(&self, metric: &Metric, value: f64) -> String {
        metric.unit.show(value, self.units)
    }

    fn baseline(&self, own: &Measured) -> Finding<Baseline> {
        baseline(&own.series, self.to, 90)
    }

    fn tile(&self, own: &Measured) -> Tile {
        let metric = &own.metric;
        let mean = sample::mean(&self.period(own).values());
        let usual = match self.baseline(own) {
            Finding::Found(found) => {
                let (low, high) = (found.usual.low.max(0.0), found.usual.high);
                format!(
                    "usual {} to {} ({} days)",
                    self.show(metric, low),
                    self.show(metric, high),
                    found.n
                )
            }
            Finding::NotEnoughData(shortfall) => words::shortfall(&shortfall),
        };
        let value = mean.map_or_else(|| "no data".to_owned(), |value| self.show(metric, value));
        Tile { title: metric.title, value, usual }
    }

    fn rows(&self, metric: &Metric, series: &Series) -> Vec<(String, String)> {
        series.points().map(|(day, value)| (day.to_string(), self.show(metric, value))).collect()
    }

    fn figure(&self, own: &Measured, series: &Series, svg: String, note: &str) -> Figure {
        Figure {
            title: own.metric.title.to_owned(),
            svg,
            readings: series.n(),
            note: note.to_owned(),
            rows: self.rows(&own.metric, series),
        }
    }

    fn line(&self, own: &Measured) -> Option<Figure> {
        let series = self.period(own);
        let usual = self.baseline(own).into_found().map(|found| found.usual);
        let label = |value: f64| self.show(&own.metric, value);
        let svg = chart::line(own.metric.title, &series, usual, &label)?.svg;
        let note = if usual.is_some() { "The band is the usual range of 90 days." } else { "" };
        Some(self.figure(own, &series, svg, note))
    }

    fn calendar(&self) -> Option<Figure> {
        let own = self.measured(self.calendar)?;
        // At least half a year, so that weeks can be compared.
        let series = own.series.between(self.from.min(self.to.plus(-181)), self.to);
        let label = |value: f64| self.show(&own.metric, value);
        let svg = chart::calendar(own.metric.title, &series, &label)?.svg;
        Some(self.figure(
            own,
            &series,
            svg,
            "One cell is a day; darker is higher, in five equal groups.",
        ))
    }

    /// The pairs that are claims, or else none: a picture of nothing would suggest something.
    fn scatters(&self) -> Vec<Figure> {
        let is_claim = |pair: &&PairLook| {
            self.claims.claims.iter().any(|claim| {
                claim.kind == ClaimKind::Correlation
                    && claim.metric == pair.y
                    && claim.other.as_deref() == Some(pair.x)
                    && claim.lag_days == Some(pair.lag_days)
            })
        };
        let figures = self.pairs.iter().filter(is_claim).filter_map(|pair| self.scatter(pair));
        figures.take(SCATTERS_MAX).collect()
    }

    fn scatter(&self, pair: &PairLook) -> Option<Figure> {
        let (x, y) = (self.measured(pair.x)?, self.measured(pair.y)?);
        let pairs = x.series.pairs(&y.series, pair.lag_days);
        let found = correlation(&x.tested(), &y.tested(), pair.lag_days).into_found()?;
        let when = if pair.lag_days == 0 { "" } else { " of the next day" };
        let title = format!("{} and {}{when}", x.metric.title, y.metric.title);
        let (of_x, of_y) =
            (|value: f64| self.show(&x.metric, value), |value: f64| self.show(&y.metric, value));
        let svg = chart::scatter(&title, &pairs, &of_x, &of_y)?.svg;
        let note = format!(
            "r {:.2} (95 % interval {:.2} to {:.2}) without the weekly rhythm; {} days, worth {:.0} independent ones.",
            found.r, found.r_interval.low, found.r_interval.high, found.n, found.n_eff
        );
        Some(Figure { title, svg, readings: pairs.len(), note, rows: Vec::new() })
    }

    fn sleep(&self) -> Option<Figure> {
        let own = self.measured(self.asleep)?;
        let series = self.period(own);
        let need = self.measured(self.sleep_need_metric).map(|own| self.period(own));
        let label = |value: f64| self.show(&own.metric, value);
        let svg = chart::bars(own.metric.title, &series, need.as_ref(), &label)?.svg;
        Some(self.figure(own, &series, svg, "The line is the need."))
    }

    fn sleep_facts(&self) -> Vec<(String, String)> {
        let mut facts = Vec::new();
        let mut fact = |name: &str, value: String| facts.push((name.to_owned(), value));
        match &self.regularity {
            Finding::Found(found) => {
                fact(
                    "Sleep Regularity Index",
                    format!("{:.0} of 100 ({} pairs of nights)", found.sri, found.pairs),
                );
                let unit = crate::metric::Unit::ClockMinutes;
                let spread = unit.show_difference(found.mid_sleep_deviation_min, self.units);
                fact(
                    "Middle of the night",
                    format!("{} ± {spread}", unit.show(found.mid_sleep_min, self.units)),
                );
                if let Some(lag) = found.social_jet_lag_min {
                    fact("Social jet lag", unit.show_difference(lag, self.units));
                }
            }
            Finding::NotEnoughData(shortfall) => fact("Regularity", words::shortfall(shortfall)),
        }
        if let Finding::Found(found) = &self.sleep_need {
            let unit = crate::metric::Unit::Minutes;
            fact("Asleep per night", unit.show(found.asleep_min, self.units));
            fact("Need per night", unit.show(found.need_min, self.units));
            fact("Nights below need", format!("{} of {}", found.nights_below_need, found.n));
        }
        facts
    }

    fn load(&self) -> Option<Figure> {
        let own = self.measured(self.load_metric)?;
        let fitness = fitness_by_day(&own.series).into_iter().map(|(day, ctl, _)| (day, ctl));
        let fitness = Series::from_points(fitness);
        let series = self.period(own);
        let label = |value: f64| self.show(&own.metric, value);
        let svg = chart::bars(own.metric.title, &series, Some(&fitness), &label)?.svg;
        Some(self.figure(own, &series, svg, "The line is the 42-day exponential mean (CTL)."))
    }

    fn load_facts(&self) -> Vec<(String, String)> {
        let metric = self.measured(self.load_metric).map(|own| own.metric);
        let (Some(metric), Finding::Found(found)) = (metric, &self.training_load) else {
            let Finding::NotEnoughData(shortfall) = &self.training_load else { return Vec::new() };
            return vec![("Training load".to_owned(), words::shortfall(shortfall))];
        };
        let value = |value: f64| self.show(&metric, value);
        let mut facts = vec![
            ("Fitness (CTL, 42 days)".to_owned(), value(found.ctl)),
            ("Fatigue (ATL, 7 days)".to_owned(), value(found.atl)),
            ("Form (CTL − ATL)".to_owned(), value(found.tsb)),
        ];
        let ratio = found.acwr_uncoupled.map(|ratio| format!("{ratio:.2}"));
        facts.extend(ratio.map(|ratio| ("Last 7 days against the 21 before".to_owned(), ratio)));
        let monotony = found.monotony.map(|monotony| format!("{monotony:.1}"));
        facts.extend(monotony.map(|monotony| ("Monotony of the last 7 days".to_owned(), monotony)));
        facts
    }
}
