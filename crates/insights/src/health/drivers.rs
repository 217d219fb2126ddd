//! Correlations: claims with their evidence, scatter plots of the pairs behind them, and what is unclear.

use serde::Serialize;

use super::{Figure, HealthData, SURVEY_DAYS};
use crate::day::Day;
use crate::sentences;
use crate::survey::{ClaimKind, Claims, PairLook};

/// Scatter plots at most.
const SCATTERS_MAX: usize = 4;

/// The survey of the last year.
#[derive(Clone, Debug, Serialize)]
pub struct DriversView {
    pub from: Day,
    pub to: Day,
    /// How many questions were asked of the data.
    pub looks: usize,
    /// The share of false claims that is accepted, in percent.
    pub false_percent_max: f64,
    pub claims: Vec<String>,
    /// What the best quarter of the nights has in common.
    pub best_nights: Vec<String>,
    /// What they were compared in without a discovery.
    pub best_nights_unclear: Vec<String>,
    pub scatters: Vec<Figure>,
    /// Pairs and behaviours without a discovery.
    pub unclear: Vec<String>,
    /// Looks that had too little data.
    pub short: Vec<String>,
}

impl HealthData {
    pub fn drivers_view(&self) -> DriversView {
        let to = self.last_complete();
        let from = to.plus(1 - SURVEY_DAYS);
        let found = self.survey().claims(from, to);
        let measured = &self.measured;
        let claims = found.claims.iter();
        let unclear = found.unclear.iter();
        let best_nights = self.best_nights(from, to);
        DriversView {
            from,
            to,
            looks: found.looks,
            false_percent_max: (found.false_share_max * 1000.0).round() / 10.0,
            claims: claims.map(|claim| sentences::claim(claim, measured)).collect(),
            unclear: unclear.map(|claim| sentences::unclear(claim, measured)).collect(),
            short: found
                .short
                .iter()
                .map(|short| sentences::short_series(short, measured))
                .collect(),
            best_nights: self.best_nights_sentences(&best_nights),
            best_nights_unclear: self.unclear_traits(&best_nights),
            scatters: self.scatters(&found, from, to),
        }
    }

    /// The pairs that are claims, or else none: a picture of nothing would suggest something.
    fn scatters(&self, found: &Claims, from: Day, to: Day) -> Vec<Figure> {
        let is_claim = |pair: &&PairLook| {
            found.claims.iter().any(|claim| {
                claim.kind == ClaimKind::Correlation
                    && claim.metric == pair.y
                    && claim.other.as_deref() == Some(pair.x)
                    && claim.lag_days == Some(pair.lag_days)
            })
        };
        let pairs = self.roles.pairs.iter().filter(is_claim);
        pairs.filter_map(|pair| self.scatter_figure(pair, from, to)).take(SCATTERS_MAX).collect()
    }
}
