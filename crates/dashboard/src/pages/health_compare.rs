//! Two metrics over the same days, or two periods: chosen by plain forms, so that a comparison has an address.

use askama::Template;
use insights::Day;
use insights::health::{ComparisonView, HealthData, MetricName, PeriodsView, Span, SpanChoice};
use serde::Serialize;

use super::health::{BEFORE_DAYS, HealthPage, span};
use crate::app::App;
use crate::own_data;
use crate::page::{Chrome, page};
use crate::problem::Problem;
use crate::request::Visit;
use crate::response::Response;

const LAG_DAYS_MAX: i32 = 14;
/// The periods that are compared before any is chosen.
const PERIOD_DAYS: i32 = 30;

#[derive(Serialize)]
struct Comparisons {
    metrics: Option<ComparisonView>,
    periods: PeriodsView,
    spans: Vec<SpanChoice>,
    #[serde(skip)]
    choices: Vec<MetricName>,
}

#[derive(Template, Serialize)]
#[template(path = "health_compare.html")]
struct ComparePage {
    #[serde(skip)]
    chrome: Chrome,
    #[serde(flatten)]
    shown: HealthPage<Comparisons>,
}

pub(crate) fn show(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let span = span(visit)?;
    let lag_days = match visit.param("lag").map(str::parse::<i32>) {
        None => 0,
        Some(Ok(days)) if (0..=LAG_DAYS_MAX).contains(&days) => days,
        Some(_) => return Err(Problem::invalid("`lag` is a number of days from 0 to 14")),
    };
    let chosen = Periods::read(visit)?;
    // Periods may be anywhere in the past.
    let days = span.days().filter(|_| chosen.is_none()).map(|days| days + BEFORE_DAYS);
    let loaded = own_data::health(app, days)?;
    if let Ok(data) = &loaded {
        for name in ["x", "y"].iter().filter_map(|key| visit.param(key)) {
            if data.measured(name).is_none() {
                return Err(Problem::not_found(format!("there is no data of a metric `{name}`")));
            }
        }
    }
    let shown = HealthPage::of(loaded, |data| comparisons(data, visit, chosen, (lag_days, span)));
    page(visit, &ComparePage { chrome: Chrome::new(app, visit, "Compare"), shown })
}

fn comparisons(
    data: &HealthData,
    visit: &Visit,
    chosen: Option<Periods>,
    (lag_days, span): (i32, Span),
) -> Comparisons {
    let first = data.roles.pairs.first();
    let x = visit.param("x").or(first.map(|pair| pair.x)).unwrap_or_default();
    let y = visit.param("y").or(first.map(|pair| pair.y)).unwrap_or_default();
    let periods = chosen.unwrap_or_else(|| Periods::before(data.last_complete()));
    let choice =
        |one: Span| SpanChoice { label: one.label(), text: one.text(), is_current: one == span };
    Comparisons {
        metrics: data.comparison_view(x, y, lag_days, span),
        periods: data.periods_view(periods.first, periods.second),
        spans: Span::ALL.into_iter().map(choice).collect(),
        choices: data.metrics(),
    }
}

#[derive(Clone, Copy)]
struct Periods {
    first: (Day, Day),
    second: (Day, Day),
}

impl Periods {
    /// The last month, against the one before it.
    fn before(to: Day) -> Periods {
        let from = to.plus(1 - PERIOD_DAYS);
        Periods { first: (from, to), second: (from.plus(-PERIOD_DAYS), from.plus(-1)) }
    }

    /// From the address; nothing where no day is named there.
    fn read(visit: &Visit) -> Result<Option<Periods>, Problem> {
        let keys = ["first_from", "first_to", "second_from", "second_to"];
        if keys.iter().all(|key| visit.param(key).is_none()) {
            return Ok(None);
        }
        let day = |key: &str| -> Result<Day, Problem> {
            let day = visit.param(key).and_then(|text| text.parse().ok());
            day.ok_or_else(|| Problem::invalid(format!("`{key}` is a day, written YYYY-MM-DD")))
        };
        let [first_from, first_to, second_from, second_to] = keys;
        let periods = Periods {
            first: (day(first_from)?, day(first_to)?),
            second: (day(second_from)?, day(second_to)?),
        };
        let is_backwards = |(from, to): (Day, Day)| from > to;
        if is_backwards(periods.first) || is_backwards(periods.second) {
            return Err(Problem::invalid("a period must not end before it begins"));
        }
        if periods.first.0 <= periods.second.1 && periods.second.0 <= periods.first.1 {
            return Err(Problem::invalid("the two periods must not share a day"));
        }
        Ok(Some(periods))
    }
}
