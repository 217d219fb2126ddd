//! What the best nights have in common, by the owner's metrics and behaviours, as values and as sentences.

use super::HealthData;
use crate::best_nights::{BestNights, SharedTrait, Trait, best_nights};
use crate::day::Day;
use crate::finding::Finding;
use crate::metric::Unit;
use crate::sentences;
use crate::survey::PairLook;

impl HealthData {
    /// The best quarter of the nights between two days, by the metric of the calendar.
    pub fn best_nights(&self, from: Day, to: Day) -> Finding<BestNights> {
        let Some(outcome) = self.measured(self.roles.calendar) else {
            return Finding::not_enough("nights", 0, 1);
        };
        let pairs = self.roles.pairs.iter().filter(|pair| pair.y == outcome.metric.name);
        let of_pair = |pair: &PairLook| {
            let own = self.measured(pair.x)?;
            Some(Trait {
                name: pair.x.to_owned(),
                series: own.series.clone(),
                days_before: pair.lag_days,
            })
        };
        let mut traits: Vec<Trait> = pairs.filter_map(of_pair).collect();
        traits.extend(self.behaviours.iter().map(|own| Trait {
            name: own.name.clone(),
            series: own.answers.clone(),
            days_before: own.lag_days,
        }));
        best_nights(&outcome.metric, &outcome.series.between(from, to), &traits)
    }

    /// What the best nights have in common.
    pub fn best_nights_sentences(&self, best: &Finding<BestNights>) -> Vec<String> {
        let found = match best {
            Finding::Found(found) => found,
            Finding::NotEnoughData(short) => {
                return vec![format!("Best nights: {}.", sentences::shortfall(short))];
            }
        };
        let Some(outcome) = self.measured(found.outcome) else { return Vec::new() };
        let mut said = vec![format!(
            "The best quarter: {} nights of {} with {} {} or better, {} to {}.",
            found.n_best,
            found.n,
            outcome.metric.title.to_lowercase(),
            outcome.metric.show(found.threshold),
            found.from,
            found.to
        )];
        said.extend(
            found.shared.iter().map(|own| format!("Best nights: {}.", self.trait_sentence(own))),
        );
        if found.shared.is_empty() {
            said.push("Best nights: nothing that was looked at sets them apart.".to_owned());
        }
        said
    }

    /// What was looked at without a discovery, one clause each.
    pub fn unclear_traits(&self, best: &Finding<BestNights>) -> Vec<String> {
        let unclear = best.found().map(|found| found.unclear.as_slice()).unwrap_or_default();
        unclear.iter().map(|own| self.trait_sentence(own)).collect()
    }

    fn trait_sentence(&self, own: &SharedTrait) -> String {
        let before = match own.days_before {
            0 => "",
            1 => " of the day before",
            _ => " of the days before",
        };
        let evidence = format!("{} nights, worth {:.0} independent ones", own.n, own.n_eff);
        let Some(measured) = self.measured(&own.name) else {
            let share = |value: f64| format!("{:.0} %", value * 100.0);
            let points = |value: f64| sentences::signed(Unit::Percent, (value * 100.0).round());
            return format!(
                "“{}”{before} on {} of the best and {} of the others, {} on the same weekdays (95 % interval {} to {}; {evidence})",
                own.name,
                share(own.mean_of_best),
                share(own.mean_of_others),
                points(own.difference),
                points(own.interval.low),
                points(own.interval.high)
            );
        };
        let signed = |value: f64| sentences::signed(measured.metric.unit, value);
        format!(
            "{}{before} {} against {}, {} on the same weekdays (95 % interval {} to {}; {evidence})",
            measured.metric.title,
            measured.metric.show(own.mean_of_best),
            measured.metric.show(own.mean_of_others),
            signed(own.difference),
            signed(own.interval.low),
            signed(own.interval.high)
        )
    }
}
