//! Sleep and training load in depth.

use serde::Serialize;

use super::{Fact, Figure, HealthData};
use crate::chart::Part;
use crate::day::Day;
use crate::finding::Finding;
use crate::load::{TrainingLoad, fitness_by_day, training_load};
use crate::metric::{Better, Metric, Unit};
use crate::sentences;
use crate::series::Series;
use crate::sleep::{Regularity, SleepNeed, regularity, sleep_need};
use crate::survey::Measured;

/// The days of both views.
const DAYS: i32 = 30;
const LOAD_DAYS: i32 = 91;

#[derive(Clone, Debug, Serialize)]
pub struct SleepView {
    pub from: Day,
    pub to: Day,
    pub facts: Vec<Fact>,
    pub need: Option<Figure>,
    pub stages: Option<Figure>,
    pub bedtime: Option<Figure>,
}

#[derive(Clone, Debug, Serialize)]
pub struct LoadView {
    pub from: Day,
    pub to: Day,
    pub facts: Vec<Fact>,
    /// Whether recovery suffers: the verdict, then each metric.
    pub signs: Vec<String>,
    pub load: Option<Figure>,
    /// Fitness minus fatigue by day.
    pub form: Option<Figure>,
}

impl HealthData {
    pub fn sleep_view(&self) -> SleepView {
        let to = self.series(self.roles.asleep).last_day().unwrap_or(self.today);
        let from = to.plus(1 - DAYS);
        let bedtime = self.measured(self.roles.bedtime);
        SleepView {
            from,
            to,
            facts: self.sleep_facts(from, to),
            need: self.need_figure(from, to),
            stages: self.stages_figure(from, to),
            bedtime: bedtime.and_then(|own| HealthData::line_figure(own, from, to)),
        }
    }

    pub(crate) fn sleep_facts(&self, from: Day, to: Day) -> Vec<Fact> {
        let need = sleep_need(
            &self.series(self.roles.asleep),
            &self.series(self.roles.sleep_need),
            to,
            to.since(from) + 1,
        );
        sleep_facts(Some(&regularity(&self.sleeps, from, to)), &need)
    }

    pub(crate) fn need_figure(&self, from: Day, to: Day) -> Option<Figure> {
        let own = self.measured(self.roles.asleep)?;
        let need = self.measured(self.roles.sleep_need);
        let need = need.map(|own| Part { label: "need".to_owned(), series: own.series.clone() });
        HealthData::bars_figure(own, need.as_ref(), (from, to), "The dashed line is the need.")
    }

    fn stages_figure(&self, from: Day, to: Day) -> Option<Figure> {
        let asleep = self.measured(self.roles.asleep)?;
        let mut parts: Vec<Part> = Vec::new();
        for (name, label) in self.roles.stages {
            let series = self.measured(name)?.series.between(from, to);
            parts.push(Part { label: (*label).to_owned(), series });
        }
        // What is asleep and neither of the first two.
        let of = |at: usize, day: Day| parts.get(at).and_then(|part| part.series.get(day));
        let light = asleep
            .series
            .points()
            .filter_map(|(day, asleep)| Some((day, (asleep - of(0, day)? - of(1, day)?).max(0.0))));
        let light = Part { label: "light".to_owned(), series: Series::from_points(light) };
        parts.insert(2.min(parts.len()), light);
        let title = "Stages of each night";
        HealthData::stacked_figure(&asleep.metric, title, &parts, (from, to))
    }

    pub fn load_view(&self) -> LoadView {
        let series = self.series(self.roles.load);
        let to = series.last_day().unwrap_or(self.today);
        let from = to.plus(1 - LOAD_DAYS);
        LoadView {
            from,
            to,
            facts: self.load_facts(&training_load(&series, self.today)),
            signs: self.recovery_signs_sentences(),
            load: self.load_figure(from, to),
            form: self.form_figure(from, to),
        }
    }

    pub(super) fn load_facts(&self, load: &Finding<TrainingLoad>) -> Vec<Fact> {
        let own = self.measured(self.roles.load);
        own.map(|own| load_facts(&own.metric, load)).unwrap_or_default()
    }

    pub(crate) fn load_figure(&self, from: Day, to: Day) -> Option<Figure> {
        let own = self.measured(self.roles.load)?;
        let by_day = fitness_by_day(&own.series).into_iter();
        let fitness = Part {
            label: "fitness".to_owned(),
            series: Series::from_points(by_day.map(|(day, ctl, _)| (day, ctl))),
        };
        let note = "The dashed line is fitness: the exponential mean of 42 days (CTL).";
        HealthData::bars_figure(own, Some(&fitness), (from, to), note)
    }

    fn form_figure(&self, from: Day, to: Day) -> Option<Figure> {
        let own = self.measured(self.roles.load)?;
        let by_day = fitness_by_day(&own.series).into_iter();
        let metric = Metric { title: "Form (CTL − ATL)", better: Better::Neither, ..own.metric };
        let form = Measured {
            metric,
            series: Series::from_points(by_day.map(|(day, ctl, atl)| (day, ctl - atl))),
        };
        // The first weeks say more about the start of the data than about its owner.
        let warm = form.series.first_day()?.plus(42).max(from);
        (warm < to).then(|| HealthData::line_figure(&form, warm, to)).flatten()
    }
}

/// Regularity, sleep and its need in words.
pub(super) fn sleep_facts(
    regularity: Option<&Finding<Regularity>>,
    need: &Finding<SleepNeed>,
) -> Vec<Fact> {
    let (clock, minutes) = (Unit::ClockMinutes, Unit::Minutes);
    let mut facts = Vec::new();
    match need {
        Finding::Found(found) => {
            facts.push(Fact::new("Asleep per night", minutes.show(found.asleep_min)));
            facts.push(Fact::new("Need per night", minutes.show(found.need_min)));
            facts.push(Fact::new(
                "Nights below need",
                format!("{} of {}", found.nights_below_need, found.n),
            ));
            facts.push(Fact::new(
                &format!("Sleep missed in {} days", found.window_days),
                minutes.show(found.debt_min.max(0.0)),
            ));
        }
        Finding::NotEnoughData(short) => {
            facts.push(Fact::new("Sleep", sentences::shortfall(short)));
        }
    }
    match regularity {
        None => {}
        Some(Finding::Found(found)) => {
            let spread = clock.show_difference(found.mid_sleep_deviation_min);
            let middle = clock.show(found.mid_sleep_min);
            facts.push(Fact::new(
                "Sleep Regularity Index",
                format!("{:.0} of 100 ({} pairs of nights)", found.sri, found.pairs),
            ));
            facts.push(Fact::new("Middle of the night", format!("{middle} ± {spread}")));
            let lag = found.social_jet_lag_min;
            let lag = lag.map(|lag| clock.show_difference(lag));
            facts.extend(lag.map(|lag| Fact::new("Social jet lag", lag)));
        }
        Some(Finding::NotEnoughData(short)) => {
            facts.push(Fact::new("Regularity", sentences::shortfall(short)));
        }
    }
    facts
}

/// Fitness, fatigue and form in words.
pub fn load_facts(metric: &Metric, load: &Finding<TrainingLoad>) -> Vec<Fact> {
    let found = match load {
        Finding::Found(found) => found,
        Finding::NotEnoughData(short) => {
            return vec![Fact::new("Training load", sentences::shortfall(short))];
        }
    };
    let value = |value: f64| metric.unit.show(value);
    let mut facts = vec![
        Fact::new("Fitness (CTL, 42 days)", value(found.ctl)),
        Fact::new("Fatigue (ATL, 7 days)", value(found.atl)),
        Fact::new("Form (CTL − ATL)", sentences::signed(metric.unit, found.tsb)),
    ];
    let ratio = found.acwr_uncoupled.map(|ratio| format!("{ratio:.2}"));
    facts.extend(ratio.map(|ratio| Fact::new("Last 7 days against the 21 before", ratio)));
    facts.push(Fact::new("Days with a known load", format!("{} up to {}", found.n, found.day)));
    let monotony = found.monotony.map(|monotony| format!("{monotony:.1}"));
    facts.extend(monotony.map(|monotony| Fact::new("Monotony of the last 7 days", monotony)));
    facts
}
