//! Sports: WHOOP's slugs and legacy ids with effort, duration and distance.

#[derive(Debug)]
pub(super) struct Sport {
    pub(super) slug: &'static str,
    pub(super) id: i64,
    pub(super) minutes: (f64, f64),
    /// Share of the heart-rate reserve that is used on average.
    pub(super) effort: (f64, f64),
    /// None when no distance is measured.
    pub(super) metres_per_min: Option<f64>,
    /// Metres climbed for each kilometre.
    pub(super) climb: f64,
}

const fn sport(
    slug: &'static str,
    id: i64,
    minutes: (f64, f64),
    effort: (f64, f64),
    metres_per_min: Option<f64>,
    climb: f64,
) -> Sport {
    Sport { slug, id, minutes, effort, metres_per_min, climb }
}

/// The first ten can be favourites.
pub(super) const SPORTS: &[Sport] = &[
    sport("running", 0, (25.0, 85.0), (0.62, 0.84), Some(178.0), 9.0),
    sport("cycling", 1, (40.0, 170.0), (0.50, 0.74), Some(430.0), 8.0),
    sport("weightlifting", 45, (35.0, 80.0), (0.34, 0.55), None, 0.0),
    sport("functional-fitness", 48, (30.0, 60.0), (0.50, 0.75), None, 0.0),
    sport("swimming", 33, (25.0, 60.0), (0.48, 0.70), Some(42.0), 0.0),
    sport("yoga", 44, (20.0, 75.0), (0.16, 0.32), None, 0.0),
    sport("walking", 63, (20.0, 90.0), (0.20, 0.38), Some(86.0), 6.0),
    sport("rowing", 18, (20.0, 55.0), (0.55, 0.78), Some(210.0), 0.0),
    sport("tennis", 34, (50.0, 110.0), (0.45, 0.66), None, 0.0),
    sport("reformer-pilates", 43, (40.0, 60.0), (0.22, 0.40), None, 0.0),
    sport("hiking-rucking", 52, (80.0, 260.0), (0.35, 0.55), Some(68.0), 55.0),
    sport("soccer", 30, (60.0, 100.0), (0.58, 0.78), Some(95.0), 0.0),
    sport("hiit", 96, (18.0, 40.0), (0.60, 0.82), None, 0.0),
    sport("spin", 97, (30.0, 60.0), (0.58, 0.80), None, 0.0),
    sport("rock-climbing", 60, (60.0, 150.0), (0.30, 0.50), None, 0.0),
    sport("skiing", 29, (90.0, 240.0), (0.35, 0.58), Some(160.0), 40.0),
    sport("sauna", 233, (10.0, 25.0), (0.24, 0.42), None, 0.0),
    sport("ice-bath", 88, (3.0, 8.0), (0.10, 0.25), None, 0.0),
    sport("meditation", 70, (8.0, 25.0), (0.02, 0.08), None, 0.0),
    sport("activity", -1, (15.0, 60.0), (0.25, 0.55), None, 0.0),
];
