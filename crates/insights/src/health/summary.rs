//! The views as sentences that a model may repeat: each number in the owner's units, with its dates and its n.

use super::{Fact, HealthData, MetricCard, PeriodsView};
use crate::baseline::{WINDOWS_DAYS, baseline};
use crate::best_nights::BestNights;
use crate::day::Day;
use crate::finding::Finding;
use crate::metric::Metric;
use crate::records::{PersonalRecords, Streaks};
use crate::sentences;
use crate::survey::{ClaimKind, Claims};
use crate::week::{WeekStatus, week_status};

/// Looks without a discovery that a summary names: those with the smallest p.
const UNCLEAR_MAX: usize = 3;

impl HealthData {
    pub fn today_summary(&self) -> Vec<String> {
        let view = self.today_view();
        let mut said = vec![match view.newest {
            Some(newest) if newest == view.date => format!("{newest}: {}", view.state),
            Some(newest) => format!("{newest}, the newest day with data: {}", view.state),
            None => view.state.clone(),
        }];
        let reading = |card: &MetricCard| {
            let value = card.value.as_deref().unwrap_or("no reading in the last 7 days");
            format!("{} {value} (usual {})", card.metric.title, card.usual)
        };
        for card in view.cards.iter().filter(|card| card.is_unusual()) {
            let side = match card.is_better {
                Some(true) => ", the better side",
                Some(false) => ", the worse side",
                None => "",
            };
            let since = card.since.map(|since| format!(", since {since}")).unwrap_or_default();
            said.push(format!("Unusual: {}, {}{side}{since}.", reading(card), card.text()));
        }
        let usual = view.cards.iter().filter(|card| !card.is_unusual()).map(reading);
        let usual: Vec<String> = usual.collect();
        if !usual.is_empty() {
            said.push(format!("As usual, or without a range: {}.", usual.join("; ")));
        }
        said.extend(Some(view.hrv).filter(|words| !words.is_empty()));
        said.extend(sentence("Training load", &view.load));
        said.extend(sentence("Sleep of the last 14 days", &view.sleep));
        said
    }

    pub fn periods_summary(&self, view: &PeriodsView) -> Vec<String> {
        let ([from, to], [other_from, other_to]) = (view.first, view.second);
        let mut said = vec![format!("{from} to {to} against {other_from} to {other_to}.")];
        let (clear, unclear): (Vec<_>, Vec<_>) = view.rows.iter().partition(|row| row.is_clear);
        for row in &clear {
            let better = match row.is_better {
                Some(true) => ", better",
                Some(false) => ", worse",
                None => "",
            };
            let title = row.metric.title;
            said.push(format!(
                "{title}: {} against {}{better}: {}.",
                row.first, row.second, row.difference
            ));
        }
        let line = |row: &&super::PeriodRow| {
            format!("{} {} against {}: {}", row.metric.title, row.first, row.second, row.difference)
        };
        if !unclear.is_empty() {
            let lines: Vec<String> = unclear.iter().map(line).collect();
            said.push(format!("No difference was shown in: {}.", lines.join("; ")));
        }
        said
    }

    pub fn baseline_summary(&self, name: &str, from: Day, to: Day) -> Vec<String> {
        let Some(own) = self.measured(name) else { return Vec::new() };
        let title = own.metric.title;
        let of_window = |days: i32| match baseline(&own.series, to, days)
            .map(|found| found.of(&own.metric))
        {
            Finding::Found(found) => format!(
                "{title} over {days} days up to {to}: usually {} (median {}; {} days, worth {:.0} independent ones).",
                own.metric.show_interval(found.usual),
                own.metric.show(found.median),
                found.n,
                found.n_eff
            ),
            Finding::NotEnoughData(short) => {
                format!("{title} over {days} days: {}.", sentences::shortfall(&short))
            }
        };
        let mut said: Vec<String> = WINDOWS_DAYS.map(of_window).into();
        let episodes = Self::episodes(own, (from, to));
        if episodes.is_empty() {
            let n = own.series.between(from, to).n();
            said.push(format!(
                "No run of unusual days and no new level holds against chance, {from} to {to} ({n} days)."
            ));
        }
        said.extend(episodes);
        said
    }

    pub fn drivers_summary(&self, found: &Claims, best: &Finding<BestNights>) -> Vec<String> {
        let mut said = vec![format!(
            "{} of {} looks are findings; at most {:.0} % of findings are expected to be false.",
            found.claims.len(),
            found.looks,
            found.false_share_max * 100.0
        )];
        said.extend(found.claims.iter().map(|claim| sentences::claim(claim, &self.measured)));
        said.extend(self.best_nights_sentences(best));
        let unclear = self.unclear_traits(best);
        if !unclear.is_empty() {
            said.push(format!("No difference was shown in: {}.", unclear.join("; ")));
        }
        let mut unclear: Vec<_> = found.unclear.iter().collect();
        unclear.sort_by(|a, b| a.p.total_cmp(&b.p));
        for claim in unclear.into_iter().take(UNCLEAR_MAX) {
            let what = if claim.kind == ClaimKind::Correlation { "relation" } else { "effect" };
            said.push(format!(
                "No {what} was shown: {}",
                sentences::unclear(claim, &self.measured)
            ));
        }
        if !found.short.is_empty() {
            let first =
                found.short.first().map(|short| sentences::short_series(short, &self.measured));
            said.push(format!(
                "{} looks had too little data, such as {}.",
                found.short.len(),
                first.unwrap_or_default()
            ));
        }
        said
    }

    /// The last week of each outcome against its range of 60 days: what speaks for or against recovery.
    pub fn recovery_signs(&self) -> Vec<(Metric, Finding<WeekStatus>)> {
        let outcomes = self.roles.outcomes.iter().filter_map(|name| self.measured(name));
        let to = self.newest().unwrap_or(self.today);
        outcomes.map(|own| (own.metric, week_status(own, to))).collect()
    }

    /// The signs in sentences, the verdict first.
    pub fn recovery_signs_sentences(&self) -> Vec<String> {
        let (signs, to) = (self.recovery_signs(), self.newest().unwrap_or(self.today));
        let found = signs.iter().filter_map(|(metric, sign)| Some((metric, sign.found()?)));
        let known: Vec<(&Metric, &WeekStatus)> = found.collect();
        let worse: Vec<&str> = known
            .iter()
            .filter(|(_, sign)| sign.is_worse == Some(true))
            .map(|(metric, _)| metric.title)
            .collect();
        let mut said = vec![match (known.len(), worse.as_slice()) {
            (0, _) => "Whether recovery suffers cannot be said yet.".to_owned(),
            (n, []) => format!(
                "No sign that recovery suffers: none of {n} metrics is on the worse side of its range in the 7 days up to {to}."
            ),
            (n, worse) => format!(
                "{} of {n} metrics are on the worse side of their range in the 7 days up to {to}: {}.",
                worse.len(),
                worse.join(", ")
            ),
        }];
        for (metric, sign) in &signs {
            said.push(match sign {
                Finding::Found(found) => format!(
                    "{}, mean of {} to {}: {} ({} nights), {} its range of 60 days, {} ({} nights).",
                    metric.title,
                    found.from,
                    found.to,
                    metric.show(found.mean_7),
                    found.n_7,
                    found.position.text(),
                    metric.unit.show_range(found.range.low, found.range.high),
                    found.n
                ),
                Finding::NotEnoughData(short) => {
                    format!("{}: {}.", metric.title, sentences::shortfall(short))
                }
            });
        }
        said
    }

    /// The load, then what speaks for and against recovery.
    pub fn load_summary(&self, facts: &[Fact]) -> Vec<String> {
        let mut said: Vec<String> = sentence("Training load", facts).into_iter().collect();
        said.extend(self.recovery_signs_sentences());
        said
    }

    pub fn sleep_summary(&self, from: Day, to: Day) -> Vec<String> {
        let name = format!("{from} to {to}");
        sentence(&name, &self.sleep_facts(from, to)).into_iter().collect()
    }
}

/// Records and streaks of one metric.
pub fn records(
    metric: &Metric,
    found: &Finding<PersonalRecords>,
    streaks: Option<&Streaks>,
) -> String {
    let found = match found {
        Finding::Found(found) => found,
        Finding::NotEnoughData(short) => {
            return format!("{}: {}.", metric.title, sentences::shortfall(short));
        }
    };
    let show = |value: f64| metric.unit.show(value);
    let streak = streaks.and_then(|own| own.longest).map(|own| {
        let (days, from, to) = (own.days, own.from, own.to);
        format!("; {days} days in a row better than its median, {from} to {to}")
    });
    format!(
        "{}: highest {} on {}, lowest {} on {}, of {} days{}.",
        metric.title,
        show(found.highest.value),
        found.highest.day,
        show(found.lowest.value),
        found.lowest.day,
        found.n,
        streak.unwrap_or_default()
    )
}

/// Means of whole blocks.
pub fn blocks(metric: &Metric, block_days: i32, means: &[f64]) -> String {
    let (title, show) = (metric.title, |value: f64| metric.unit.show(value));
    let low = means.iter().copied().reduce(f64::min);
    let high = means.iter().copied().reduce(f64::max);
    match (crate::sample::mean(means), low, high) {
        (Some(mean), Some(low), Some(high)) => format!(
            "{title}: mean {} over {} blocks of {block_days} days; the blocks range from {} to {}.",
            show(mean),
            means.len(),
            show(low),
            show(high)
        ),
        _ => format!(
            "{title}: not enough data: no block of {block_days} days has a value on every day; {block_days} days from a Monday are needed."
        ),
    }
}

/// Facts as one sentence; none without facts.
fn sentence(name: &str, facts: &[Fact]) -> Option<String> {
    let parts: Vec<String> =
        facts.iter().map(|fact| format!("{} {}", fact.name, fact.value)).collect();
    (!parts.is_empty()).then(|| format!("{name}: {}.", parts.join("; ")))
}
