//! A person's daily data with what its metrics are for, and the views that a page, its JSON twin, an app and
//! the report share.

mod app;
mod best_nights;
mod compare;
mod drivers;
mod explore;
mod figures;
mod sleep_and_load;
pub mod summary;
mod today;

use serde::Serialize;

use crate::day::Day;
use crate::metric::{Better, Metric};
use crate::series::Series;
use crate::sleep::SleepSpan;
use crate::survey::{Behaviour, Measured, PairLook, Survey};

pub use compare::{ComparisonView, PeriodRow, PeriodsView};
pub use drivers::DriversView;
pub use explore::{ExploreView, Span, SpanChoice};
pub use figures::{Fact, Figure};
pub use sleep_and_load::{LoadView, SleepView, load_facts};
pub use today::{MetricCard, TodayView};

/// The days of a survey.
pub const SURVEY_DAYS: i32 = 365;

/// What the metrics of a source are for.
#[derive(Debug)]
pub struct Roles {
    /// Shown at a glance and in a review.
    pub main: &'static [&'static str],
    /// The line charts of a report.
    pub lines: &'static [&'static str],
    pub calendar: &'static str,
    pub asleep: &'static str,
    pub sleep_need: &'static str,
    pub bedtime: &'static str,
    /// Parts of a night that add up, with their names.
    pub stages: &'static [(&'static str, &'static str)],
    /// An additive load.
    pub load: &'static str,
    /// What a behaviour may affect.
    pub outcomes: &'static [&'static str],
    /// Where illness and overload show.
    pub vitals: &'static [&'static str],
    pub pairs: &'static [PairLook],
}

/// Daily data of one source.
#[derive(Debug)]
pub struct HealthData {
    pub source: &'static str,
    /// The owner's current day.
    pub today: Day,
    pub measured: Vec<Measured>,
    pub sleeps: Vec<SleepSpan>,
    pub behaviours: Vec<Behaviour>,
    pub roles: &'static Roles,
}

/// A metric in a view.
#[derive(Clone, Debug, Serialize)]
pub struct MetricName {
    pub name: &'static str,
    pub title: &'static str,
    pub better: Better,
}

impl From<&Metric> for MetricName {
    fn from(own: &Metric) -> MetricName {
        MetricName { name: own.name, title: own.title, better: own.better }
    }
}

impl HealthData {
    pub fn measured(&self, name: &str) -> Option<&Measured> {
        self.measured.iter().find(|own| own.metric.name == name)
    }

    /// The newest day with any value.
    pub fn newest(&self) -> Option<Day> {
        self.measured.iter().filter_map(|own| own.series.last_day()).max()
    }

    /// The last day that is complete: today still collects.
    pub fn last_complete(&self) -> Day {
        self.newest().unwrap_or(self.today).min(self.today.plus(-1))
    }

    /// The metrics with data, for a choice.
    pub fn metrics(&self) -> Vec<MetricName> {
        self.measured.iter().map(|own| (&own.metric).into()).collect()
    }

    pub(crate) fn series(&self, name: &str) -> Series {
        self.measured(name).map(|own| own.series.clone()).unwrap_or_default()
    }

    /// All looks at the data.
    pub fn survey(&self) -> Survey {
        let roles = self.roles;
        let looked_at = |name: &str| {
            roles.main.contains(&name)
                || roles.vitals.contains(&name)
                || roles.pairs.iter().any(|pair| pair.x == name)
        };
        let measured = self.measured.iter().filter(|own| looked_at(own.metric.name));
        Survey {
            measured: measured.cloned().collect(),
            behaviours: self.behaviours.clone(),
            outcomes: roles.outcomes.to_vec(),
            pairs: roles.pairs.to_vec(),
            vitals: roles.vitals.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests;
