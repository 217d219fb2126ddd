//! Today and a trend as apps: the drawings of the health pages.

use std::sync::LazyLock;

use insights::chart::STYLE;
use serde_json::{Map, Value};

use super::health::health_data;
use super::single_metric::BASELINE_DAYS;
use super::{BEFORE_DAYS, SURVEY_DAYS, data, days, metric};
use crate::ConnectorContext;
use crate::app::App;

const URI: &str = "ui://whoop/insights.html";

static PAGE: LazyLock<String> =
    LazyLock::new(|| include_str!("app.html").replace("/* charts */", STYLE));

pub(crate) const APPS: &[App] = &[
    App {
        tool: "get_whoop_today",
        uri: URI,
        title: "WHOOP insights",
        description: "Charts of today and of a trend.",
        page: || PAGE.as_str(),
        draw: today,
    },
    App {
        tool: "get_whoop_trend",
        uri: URI,
        title: "WHOOP insights",
        description: "Charts of today and of a trend.",
        page: || PAGE.as_str(),
        draw: trend,
    },
];

fn today(ctx: &ConnectorContext, _: &Map<String, Value>) -> Option<String> {
    let data = data(ctx, Some(SURVEY_DAYS)).ok()?;
    health_data(&data).today_fragment()
}

fn trend(ctx: &ConnectorContext, arguments: &Map<String, Value>) -> Option<String> {
    let metric = metric(arguments.get("metric")?.as_str()?).ok()?;
    let number = |value: &Value| value.as_i64().or_else(|| value.as_str()?.trim().parse().ok());
    let days = days(arguments.get("days").and_then(number), BASELINE_DAYS).ok()?;
    let data = data(ctx, Some(days.saturating_add(BEFORE_DAYS))).ok()?;
    health_data(&data).trend_fragment(metric.name, days)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::SCHEME;
    use crate::whoop::CONNECTOR;

    #[test]
    fn an_app_belongs_to_a_tool_and_its_page_loads_nothing() {
        for app in APPS {
            assert!(CONNECTOR.tool(app.tool).is_some(), "{}", app.tool);
            assert!(app.uri.starts_with(SCHEME), "{}", app.uri);
            let page = (app.page)();
            assert!(page.contains(".trace {"), "the styles of charts are in it");
            for outside in
                ["http://", "https://", "src=", "href=", "@import", "url(", "fetch(", "eval"]
            {
                assert!(!page.contains(outside), "{outside}");
            }
        }
    }
}
