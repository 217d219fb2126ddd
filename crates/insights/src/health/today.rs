//! Today at a glance: each metric against its usual range, what is unusual and since when.

use serde::Serialize;

use super::sleep_and_load::sleep_facts;
use super::{Fact, HealthData, MetricName};
use crate::baseline::{Position, baseline, hrv_status};
use crate::chart::{self, Frame};
use crate::day::Day;
use crate::finding::{Finding, Interval};
use crate::load::training_load;
use crate::metric::{Better, Unit};
use crate::sentences;
use crate::series::Series;
use crate::sleep::sleep_need;
use crate::survey::Measured;

/// The usual range of a glance.
const RANGE_DAYS: i32 = 30;
/// An older reading is not shown as the current one.
const RECENT_DAYS: i32 = 7;
const DEBT_DAYS: i32 = 14;

/// Each metric against its usual range.
#[derive(Clone, Debug, Serialize)]
pub struct TodayView {
    pub date: Day,
    /// The newest day with data.
    pub newest: Option<Day>,
    /// One sentence.
    pub state: String,
    pub cards: Vec<MetricCard>,
    /// The week's HRV against its range of 60 days.
    pub hrv: String,
    pub load: Vec<Fact>,
    pub sleep: Vec<Fact>,
}

/// A metric of today.
#[derive(Clone, Debug, Serialize)]
pub struct MetricCard {
    #[serde(flatten)]
    pub metric: MetricName,
    /// None without a reading in the last week.
    pub value: Option<String>,
    pub day: Option<Day>,
    /// The usual range with its number of days, or what is missing for one.
    pub usual: String,
    pub position: Option<Position>,
    /// Whether the position is in the better direction; none where no direction is, or within the range.
    pub is_better: Option<bool>,
    /// The first day in a row outside the range.
    pub since: Option<Day>,
    #[serde(skip)]
    pub svg: String,
}

impl MetricCard {
    /// Where the value is, in words.
    pub fn text(&self) -> &'static str {
        match self.position {
            None => "",
            Some(Position::Within) => "as usual",
            Some(Position::Above) => "above usual",
            Some(Position::Below) => "below usual",
        }
    }

    pub fn is_unusual(&self) -> bool {
        matches!(self.position, Some(Position::Above | Position::Below))
    }
}

impl HealthData {
    pub fn today_view(&self) -> TodayView {
        let main = self.roles.main.iter().filter_map(|name| self.measured(name));
        let cards: Vec<MetricCard> = main.map(|own| self.card(own)).collect();
        let load = training_load(&self.series(self.roles.load), self.today);
        let need = sleep_need(
            &self.series(self.roles.asleep),
            &self.series(self.roles.sleep_need),
            self.today,
            DEBT_DAYS,
        );
        TodayView {
            date: self.today,
            newest: self.newest(),
            state: state(&cards, self.newest(), self.today),
            hrv: self.hrv_sentence(),
            load: self.load_facts(&load),
            sleep: sleep_facts(None, &need),
            cards,
        }
    }

    fn card(&self, own: &Measured) -> MetricCard {
        let recent = own.series.last_days(self.today, RECENT_DAYS).points().next_back();
        let day = recent.map(|(day, _)| day);
        // A day is compared with the days before it.
        let usual = baseline(&own.series, day.unwrap_or(self.today).plus(-1), RANGE_DAYS)
            .map(|found| found.of(&own.metric));
        // Where most days are the same, such as rest days, one number is no range.
        let range = usual.found().filter(|found| found.spread > 0.0).map(|found| found.usual);
        let position = recent.zip(range).map(|((_, value), range)| Position::of(value, range));
        let is_better =
            match (own.metric.better, position) {
                (Better::Higher, Some(Position::Above))
                | (Better::Lower, Some(Position::Below)) => Some(true),
                (Better::Higher, Some(Position::Below))
                | (Better::Lower, Some(Position::Above)) => Some(false),
                _ => None,
            };
        let usual = match &usual {
            Finding::Found(found) if range.is_none() => {
                format!("mostly {} ({} days)", own.metric.show(found.median), found.n)
            }
            Finding::Found(found) => {
                format!("{} ({} days)", own.metric.show_interval(found.usual), found.n)
            }
            Finding::NotEnoughData(short) => sentences::shortfall(short),
        };
        MetricCard {
            metric: (&own.metric).into(),
            value: recent.map(|(_, value)| own.metric.show(value)),
            day,
            usual,
            position,
            is_better,
            since: day.zip(range).and_then(|(day, range)| outside_since(&own.series, day, range)),
            svg: self.spark(own, range),
        }
    }

    fn spark(&self, own: &Measured, range: Option<Interval>) -> String {
        let (from, to) = (self.today.plus(1 - RANGE_DAYS), self.today);
        let title = format!("{}, the last {RANGE_DAYS} days", own.metric.title);
        let frame = Frame { title: &title, metric: &own.metric, from, to };
        let marks = chart::marks(&own.series.between(from, to), 1);
        chart::spark(frame, &marks, range).map(|chart| chart.svg).unwrap_or_default()
    }

    /// Single nights of HRV say little, so the week is compared.
    fn hrv_sentence(&self) -> String {
        let hrv = self.measured.iter().find(|own| own.metric.unit == Unit::Milliseconds);
        let Some(hrv) = hrv else { return String::new() };
        match hrv_status(&hrv.series, self.today) {
            Finding::NotEnoughData(short) => {
                format!("HRV of the week: {}.", sentences::shortfall(&short))
            }
            Finding::Found(found) => {
                let show = |value: f64| hrv.metric.show(value);
                format!(
                    "HRV of the last 7 days is {} on average ({} nights), {} its range of 60 days, {} to {} ({} nights).",
                    show(found.mean_7_ms),
                    found.n_7,
                    found.position.text(),
                    show(found.range_ms.low),
                    show(found.range_ms.high),
                    found.n
                )
            }
        }
    }
}

/// The first of the days in a row, up to `day`, that are outside the range on the same side.
fn outside_since(series: &Series, day: Day, range: Interval) -> Option<Day> {
    let side = Position::of(series.get(day)?, range);
    if side == Position::Within {
        return None;
    }
    let same = |value: f64| Position::of(value, range) == side;
    let run = (0..).map(|ago| day.plus(-ago)).take_while(|day| series.get(*day).is_some_and(same));
    run.last()
}

fn state(cards: &[MetricCard], newest: Option<Day>, today: Day) -> String {
    let Some(newest) = newest else { return "No data yet.".to_owned() };
    let unusual: Vec<&MetricCard> = cards.iter().filter(|card| card.is_unusual()).collect();
    let names: Vec<String> =
        unusual.iter().map(|card| format!("{} is {}", card.metric.title, card.text())).collect();
    let age = match today.since(newest) {
        ..=0 => String::new(),
        1 => " The newest data is of yesterday.".to_owned(),
        days => format!(" The newest data is {days} days old."),
    };
    let compared = cards.iter().filter(|card| card.position.is_some()).count();
    let text = match (names.as_slice(), compared) {
        ([], 0) => "Not enough data to say what is usual.".to_owned(),
        ([], _) => "Everything is as usual.".to_owned(),
        (names, _) => format!("{}.", names.join(", ")),
    };
    format!("{text}{age}")
}
