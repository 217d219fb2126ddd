//! Views as fragments of HTML for apps inside a chat client: the same drawings as on the pages.

use askama::Template;

use super::{Figure, HealthData, TodayView};
use crate::trend::trend;

#[derive(Template)]
#[template(path = "app_today.html")]
struct TodayFragment {
    view: TodayView,
}

#[derive(Template)]
#[template(path = "app_trend.html")]
struct TrendFragment {
    text: String,
    figure: Figure,
}

impl HealthData {
    pub fn today_fragment(&self) -> Option<String> {
        TodayFragment { view: self.today_view() }.render().ok()
    }

    /// The last days of one metric; none where it has no data there.
    pub fn trend_fragment(&self, name: &str, days: i32) -> Option<String> {
        let own = self.measured(name)?;
        let (from, to) = (self.today.plus(1 - days), self.today);
        let text = self.trend_sentence(&own.metric, &trend(&own.series.between(from, to)));
        let figure = HealthData::line_figure(own, from, to)?;
        TrendFragment { text, figure }.render().ok()
    }
}
