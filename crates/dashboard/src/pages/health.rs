//! The owner's health: today, one metric, sleep, training load, correlations. The views are computed by
//! `insights`; a page only shows them.

use askama::Template;
use insights::health::{
    DriversView, ExploreView, HealthData, LoadView, MetricName, SURVEY_DAYS, SleepView, Span,
    TodayView,
};
use serde::Serialize;

use crate::app::App;
use crate::own_data::{self, Empty};
use crate::page::{Chrome, page};
use crate::problem::Problem;
use crate::request::Visit;
use crate::response::Response;

/// Baselines need the days before a span.
pub(super) const BEFORE_DAYS: i32 = 130;

/// A page with a view of the data, or with the next step.
#[derive(Serialize)]
pub(super) struct HealthPage<V> {
    /// Why there is no view.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) empty: Option<Empty>,
    #[serde(flatten)]
    pub(super) view: Option<V>,
}

impl<V> HealthPage<V> {
    pub(super) fn of(
        loaded: Result<HealthData, Empty>,
        view: impl FnOnce(&HealthData) -> V,
    ) -> HealthPage<V> {
        match loaded {
            Ok(data) => HealthPage { empty: None, view: Some(view(&data)) },
            Err(empty) => HealthPage { empty: Some(empty), view: None },
        }
    }
}

#[derive(Template, Serialize)]
#[template(path = "health.html")]
struct TodayPage {
    #[serde(skip)]
    chrome: Chrome,
    #[serde(flatten)]
    shown: HealthPage<TodayView>,
    /// All metrics with data.
    metrics: Vec<MetricName>,
}

pub(crate) fn today(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let loaded = own_data::health(app, Some(SURVEY_DAYS))?;
    let metrics = loaded.as_ref().map(HealthData::metrics).unwrap_or_default();
    let shown = HealthPage::of(loaded, HealthData::today_view);
    page(visit, &TodayPage { chrome: Chrome::new(app, visit, "Health"), shown, metrics })
}

#[derive(Template, Serialize)]
#[template(path = "health_metric.html")]
struct ExplorePage {
    #[serde(skip)]
    chrome: Chrome,
    #[serde(flatten)]
    view: ExploreView,
    #[serde(skip)]
    metrics: Vec<MetricName>,
}

/// One metric over a span of the address.
pub(crate) fn explore(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let span = span(visit)?;
    let name = visit.name("metric");
    let load = |span: Span| own_data::health(app, span.days().map(|days| days + BEFORE_DAYS));
    let mut data = load(span)?.map_err(|empty| {
        Problem::not_found(format!("{}\nhint: `{}`", empty.message, empty.command))
    })?;
    // A metric without data in a short span may have some before it, and is shown widened then.
    if data.explore_view(name, span).is_none_or(|view| view.widened.is_some()) && span != Span::All
    {
        data = load(Span::All)?.unwrap_or(data);
    }
    let view = data.explore_view(name, span);
    let view =
        view.ok_or_else(|| Problem::not_found(format!("there is no data of a metric `{name}`")))?;
    let chrome = Chrome::new(app, visit, view.metric.title);
    page(visit, &ExplorePage { chrome, view, metrics: data.metrics() })
}

pub(super) fn span(visit: &Visit) -> Result<Span, Problem> {
    match visit.param("span") {
        None => Ok(Span::default()),
        Some(text) => {
            Span::parse(text).ok_or_else(|| Problem::invalid("`span` is W, M, 3M, 6M, 1Y or All"))
        }
    }
}

#[derive(Template, Serialize)]
#[template(path = "health_sleep.html")]
struct SleepPage {
    #[serde(skip)]
    chrome: Chrome,
    #[serde(flatten)]
    shown: HealthPage<SleepView>,
}

pub(crate) fn sleep(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let shown = HealthPage::of(own_data::health(app, Some(SURVEY_DAYS))?, HealthData::sleep_view);
    page(visit, &SleepPage { chrome: Chrome::new(app, visit, "Sleep"), shown })
}

#[derive(Template, Serialize)]
#[template(path = "health_load.html")]
struct LoadPage {
    #[serde(skip)]
    chrome: Chrome,
    #[serde(flatten)]
    shown: HealthPage<LoadView>,
}

pub(crate) fn load(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let shown = HealthPage::of(own_data::health(app, Some(SURVEY_DAYS))?, HealthData::load_view);
    page(visit, &LoadPage { chrome: Chrome::new(app, visit, "Training load"), shown })
}

#[derive(Template, Serialize)]
#[template(path = "health_drivers.html")]
struct DriversPage {
    #[serde(skip)]
    chrome: Chrome,
    #[serde(flatten)]
    shown: HealthPage<DriversView>,
}

pub(crate) fn drivers(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let days = SURVEY_DAYS + BEFORE_DAYS;
    let shown = HealthPage::of(own_data::health(app, Some(days))?, HealthData::drivers_view);
    page(visit, &DriversPage { chrome: Chrome::new(app, visit, "Drivers"), shown })
}
