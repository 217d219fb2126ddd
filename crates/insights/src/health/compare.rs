//! Two metrics over the same days, or one person over two periods.

use serde::Serialize;

use super::{Figure, HealthData, MetricName, Span};
use crate::day::Day;
use crate::difference::compare_periods;
use crate::discovery::adjust;
use crate::finding::Finding;
use crate::metric::Better;
use crate::sentences;
use crate::survey::{Measured, PairLook};

/// A difference is called one up to this `q`. Most reviews are of weeks in which nothing changed, so that at
/// 5 % nearly all differences that they name would be chance.
const LEVEL: f64 = 0.01;

/// Two metrics over the same days, and against each other.
#[derive(Clone, Debug, Serialize)]
pub struct ComparisonView {
    pub x: MetricName,
    pub y: MetricName,
    pub lag_days: i32,
    pub from: Day,
    pub to: Day,
    /// In the order x, y.
    pub lines: Vec<Figure>,
    pub scatter: Option<Figure>,
}

/// The main metrics of two periods.
#[derive(Clone, Debug, Serialize)]
pub struct PeriodsView {
    pub first: [Day; 2],
    pub second: [Day; 2],
    pub rows: Vec<PeriodRow>,
}

#[derive(Clone, Debug, Serialize)]
pub struct PeriodRow {
    #[serde(flatten)]
    pub metric: MetricName,
    pub first: String,
    pub second: String,
    /// The first minus the second with its interval, or what is missing.
    pub difference: String,
    pub n_first: usize,
    pub n_second: usize,
    /// The p-value adjusted for all metrics of the comparison.
    pub q: Option<f64>,
    /// A difference that holds among all metrics of the comparison.
    pub is_clear: bool,
    /// Whether the first period is better, where there is a difference and a better direction.
    pub is_better: Option<bool>,
}

impl HealthData {
    /// None where a metric has no data.
    pub fn comparison_view(
        &self,
        x: &str,
        y: &str,
        lag_days: i32,
        span: Span,
    ) -> Option<ComparisonView> {
        let (x, y) = (self.measured(x)?, self.measured(y)?);
        let to = self.last_complete();
        let first = |own: &Measured| own.series.first_day();
        let from = match span.days() {
            Some(days) => to.plus(1 - days),
            None => first(x).min(first(y)).unwrap_or(to),
        };
        let pair = PairLook { x: x.metric.name, y: y.metric.name, lag_days };
        Some(ComparisonView {
            x: (&x.metric).into(),
            y: (&y.metric).into(),
            lag_days,
            from,
            to,
            lines: [x, y].iter().filter_map(|own| HealthData::line_figure(own, from, to)).collect(),
            scatter: self.scatter_figure(&pair, from, to),
        })
    }

    pub fn periods_view(&self, first: (Day, Day), second: (Day, Day)) -> PeriodsView {
        let main = self.roles.main.iter().filter_map(|name| self.measured(name));
        PeriodsView {
            first: [first.0, first.1],
            second: [second.0, second.1],
            rows: adjusted(main.map(|own| HealthData::period_row(own, first, second)).collect()),
        }
    }

    fn period_row(own: &Measured, first: (Day, Day), second: (Day, Day)) -> PeriodRow {
        let values = |(from, to): (Day, Day)| own.series.between(from, to).values();
        let mean = |period: (Day, Day)| {
            let mean = crate::sample::mean(&values(period));
            mean.map_or_else(|| "no data".to_owned(), |mean| own.metric.show(mean))
        };
        let found = compare_periods(&own.series, first, second);
        let signed = |value: f64| sentences::signed(own.metric.unit, value);
        let difference = match &found {
            Finding::Found(found) => format!(
                "{} (95 % interval {} to {}; {} days, worth {:.0})",
                signed(found.difference),
                signed(found.interval.low),
                signed(found.interval.high),
                found.n,
                found.n_eff
            ),
            Finding::NotEnoughData(short) => sentences::shortfall(short),
        };
        PeriodRow {
            metric: (&own.metric).into(),
            first: mean(first),
            second: mean(second),
            difference,
            n_first: values(first).len(),
            n_second: values(second).len(),
            q: found.found().map(|found| found.p),
            is_clear: false,
            is_better: found.found().and_then(|found| match own.metric.better {
                Better::Higher => Some(found.difference > 0.0),
                Better::Lower => Some(found.difference < 0.0),
                Better::Neither => None,
            }),
        }
    }
}

/// With `q` after all comparisons, of rows whose `q` is their p-value.
fn adjusted(rows: Vec<PeriodRow>) -> Vec<PeriodRow> {
    let p: Vec<f64> = rows.iter().filter_map(|row| row.q).collect();
    let mut q = adjust(&p).into_iter();
    let row = |row: PeriodRow| {
        let q = row.q.and_then(|_| q.next());
        let is_clear = q.is_some_and(|q| q <= LEVEL);
        PeriodRow { q, is_clear, is_better: row.is_better.filter(|_| is_clear), ..row }
    };
    rows.into_iter().map(row).collect()
}
