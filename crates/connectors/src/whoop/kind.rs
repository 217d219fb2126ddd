//! The six kinds of record WHOOP gives, their names in our mirror and their paths upstream.

/// One kind of record. The order is the order of a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Cycles,
    Recoveries,
    Sleeps,
    Workouts,
    BodyMeasurement,
    Profile,
}

impl Kind {
    pub const ALL: [Kind; 6] = [
        Kind::Cycles,
        Kind::Recoveries,
        Kind::Sleeps,
        Kind::Workouts,
        Kind::BodyMeasurement,
        Kind::Profile,
    ];

    /// The kinds that come in pages and have a time of their own.
    pub const LISTS: [Kind; 4] = [Kind::Cycles, Kind::Recoveries, Kind::Sleeps, Kind::Workouts];

    /// The name in the mirror, in `resources` arguments and in events.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Cycles => "cycles",
            Kind::Recoveries => "recoveries",
            Kind::Sleeps => "sleeps",
            Kind::Workouts => "workouts",
            Kind::BodyMeasurement => "body_measurement",
            Kind::Profile => "profile",
        }
    }

    pub fn parse(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The collection's path below the versioned base, also the endpoint in error envelopes.
    pub fn path(self) -> &'static str {
        match self {
            Kind::Cycles => "/cycle",
            Kind::Recoveries => "/recovery",
            Kind::Sleeps => "/activity/sleep",
            Kind::Workouts => "/activity/workout",
            Kind::BodyMeasurement => "/user/measurement/body",
            Kind::Profile => "/user/profile/basic",
        }
    }

    /// One row named `current` instead of a list.
    pub fn is_snapshot(self) -> bool {
        matches!(self, Kind::BodyMeasurement | Kind::Profile)
    }
}

/// The id of a snapshot's only row.
pub const CURRENT: &str = "current";
