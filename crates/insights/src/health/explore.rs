//! One metric over a span: its line, its trend in words, its usual range, episodes, records.

use serde::Serialize;

use super::figures::baseline_of;
use super::{Fact, Figure, HealthData, MetricName};
use crate::anomaly::anomalies;
use crate::change_point::changes;
use crate::day::Day;
use crate::finding::Finding;
use crate::metric::{Better, Metric};
use crate::records::records;
use crate::sentences;
use crate::survey::Measured;
use crate::trend::{Trend, trend};

/// A span with fewer readings is widened.
const READINGS_MIN: usize = 5;
const LEVEL: f64 = 0.05;

/// The spans that can be chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Span {
    Week,
    Month,
    #[default]
    ThreeMonths,
    SixMonths,
    Year,
    All,
}

impl Span {
    pub const ALL: [Span; 6] =
        [Span::Week, Span::Month, Span::ThreeMonths, Span::SixMonths, Span::Year, Span::All];

    /// As it is written in an address and on the page.
    pub fn label(self) -> &'static str {
        match self {
            Span::Week => "W",
            Span::Month => "M",
            Span::ThreeMonths => "3M",
            Span::SixMonths => "6M",
            Span::Year => "1Y",
            Span::All => "All",
        }
    }

    pub fn text(self) -> &'static str {
        match self {
            Span::Week => "a week",
            Span::Month => "a month",
            Span::ThreeMonths => "3 months",
            Span::SixMonths => "6 months",
            Span::Year => "a year",
            Span::All => "all data",
        }
    }

    /// None for all data.
    pub fn days(self) -> Option<i32> {
        match self {
            Span::Week => Some(7),
            Span::Month => Some(30),
            Span::ThreeMonths => Some(91),
            Span::SixMonths => Some(182),
            Span::Year => Some(365),
            Span::All => None,
        }
    }

    pub fn parse(text: &str) -> Option<Span> {
        Span::ALL.into_iter().find(|span| span.label().eq_ignore_ascii_case(text))
    }
}

/// A span as a link.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SpanChoice {
    pub label: &'static str,
    #[serde(rename = "words")]
    pub text: &'static str,
    pub is_current: bool,
}

/// One metric over a span.
#[derive(Clone, Debug, Serialize)]
pub struct ExploreView {
    #[serde(flatten)]
    pub metric: MetricName,
    pub from: Day,
    pub to: Day,
    pub spans: Vec<SpanChoice>,
    /// Why a wider span is shown than the one that was asked for.
    pub widened: Option<String>,
    pub figure: Option<Figure>,
    pub trend: String,
    /// Raw and rounded evidence of the trend.
    pub trend_evidence: Finding<Trend>,
    pub facts: Vec<Fact>,
    /// Runs of unusual nights and changes of level, in words.
    pub episodes: Vec<String>,
    pub calendar: Option<Figure>,
}

impl HealthData {
    /// None where the metric has no data. `asked` is widened where it has too few readings.
    pub fn explore_view(&self, name: &str, asked: Span) -> Option<ExploreView> {
        let own = self.measured(name)?;
        let to = own.series.last_day()?.max(self.today.plus(-1)).min(self.today);
        let from = |span: Span| match span.days() {
            Some(days) => to.plus(1 - days),
            None => own.series.first_day().unwrap_or(to),
        };
        let readings = |span: Span| own.series.between(from(span), to).n();
        let wide_enough = |span: &Span| readings(*span) >= READINGS_MIN || *span == Span::All;
        let wider = Span::ALL.into_iter().skip_while(|span| *span != asked);
        let span = wider.clone().find(wide_enough).unwrap_or(asked);
        let widened = (span != asked).then(|| {
            format!(
                "{} has {} {} in {}, so this shows {}.",
                own.metric.title,
                readings(asked),
                if readings(asked) == 1 { "reading" } else { "readings" },
                asked.text(),
                span.text()
            )
        });
        let (from, series) = (from(span), own.series.between(from(span), to));
        let found = trend(&series);
        let is_current = |one: Span| one == span;
        let choice = |one: Span| SpanChoice {
            label: one.label(),
            text: one.text(),
            is_current: is_current(one),
        };
        Some(ExploreView {
            metric: (&own.metric).into(),
            from,
            to,
            spans: Span::ALL.into_iter().map(choice).collect(),
            widened,
            figure: HealthData::line_figure(own, from, to),
            trend: self.trend_sentence(&own.metric, &found),
            trend_evidence: found,
            facts: HealthData::explore_facts(own, (from, to)),
            episodes: Self::episodes(own, (from, to)),
            calendar: HealthData::calendar_figure(own, to),
        })
    }

    /// The trend as a sentence with its interval and its sample size.
    pub fn trend_sentence(&self, metric: &Metric, found: &Finding<Trend>) -> String {
        let found = match found {
            Finding::Found(found) => found,
            Finding::NotEnoughData(short) => {
                return format!("No trend yet: {}.", sentences::shortfall(short));
            }
        };
        let show = |value: f64| sentences::signed(metric.unit, value);
        let interval = found.per_30_days_interval;
        let evidence = format!(
            "95 % interval {} to {}; {} readings, worth {:.0} independent ones",
            show(interval.low),
            show(interval.high),
            found.n,
            found.n_eff
        );
        if found.p > LEVEL {
            return format!(
                "No trend is shown: {} per 30 days ({evidence}).",
                show(found.per_30_days)
            );
        }
        let direction = if found.per_day > 0.0 { "rises" } else { "falls" };
        let better = match (metric.better, found.per_day > 0.0) {
            (Better::Neither, _) => "",
            (Better::Higher, true) | (Better::Lower, false) => " That is the better direction.",
            _ => " That is the worse direction.",
        };
        format!(
            "{} {direction} by {} per 30 days ({evidence}).{better}",
            metric.title,
            metric.unit.show_difference(found.per_30_days.abs())
        )
    }

    fn explore_facts(own: &Measured, (from, to): (Day, Day)) -> Vec<Fact> {
        let series = own.series.between(from, to);
        let show = |value: f64| own.metric.show(value);
        let mut facts = Vec::new();
        let mean = crate::sample::mean(&series.values());
        facts.extend(mean.map(|mean| Fact::new("Mean", show(mean))));
        if let Finding::Found(found) = baseline_of(own, to) {
            let usual = own.metric.show_interval(found.usual);
            let (days, n) = (found.window_days, found.n);
            facts.push(Fact::new(
                &format!("Usual, last {days} days"),
                format!("{usual}, median {} ({n} readings)", show(found.median)),
            ));
        }
        if let Finding::Found(found) = records(&series, own.metric.better) {
            for (name, record) in [("Highest", found.highest), ("Lowest", found.lowest)] {
                let is_best = found.best.is_some_and(|best| best == record);
                let best = if is_best { ", the best" } else { "" };
                let value = format!("{} on {}{best}", show(record.value), record.day);
                facts.push(Fact::new(name, value));
            }
        }
        facts
    }

    /// What stands out, each with its dates, its size and its interval.
    pub(super) fn episodes(own: &Measured, (from, to): (Day, Day)) -> Vec<String> {
        let size = |value: f64| sentences::signed(own.metric.unit, value);
        let mut lines = Vec::new();
        if let Finding::Found(found) = anomalies(&own.series, from, to) {
            for own in found.episodes.iter().filter(|own| own.p <= LEVEL) {
                let nights = if own.n == 1 { "night" } else { "nights" };
                lines.push(format!(
                    "Unusual from {} to {} ({} {nights}): {} from the baseline of {} nights (95 % interval {} to {}).",
                    own.from, own.to, own.n, size(own.deviation), own.n_baseline, size(own.interval.low), size(own.interval.high)
                ));
            }
        }
        if let Finding::Found(found) = changes(&own.series.between(from, to)) {
            for own in found.changes.iter().filter(|own| own.p <= LEVEL) {
                lines.push(format!(
                    "New level around {} (between {} and {}): {} (95 % interval {} to {}; {} readings before, {} after).",
                    own.day, own.earliest, own.latest, size(own.difference), size(own.interval.low), size(own.interval.high), own.n_before, own.n_after
                ));
            }
        }
        lines
    }
}
