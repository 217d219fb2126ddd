//! The rows of WHOOP's tools: the 17 documented ones, 12 with insights, and the 16 that older policies and
//! agents use.

use super::api::ApiPath;
use super::handler::handler;
use super::kind::Kind;
use super::records::{Body, Cycle, Profile, Recovery, Sleep, Workout};
use super::{classic, daily, events, export, health, insights, list_tools, single, status};
use crate::arguments::NoArgs;
use crate::tool::Handler;
use crate::{Effect, MAIN_SET, Reach, Tool};

/// The set of the 16 older tools.
pub(super) const CLASSIC: &str = "classic";

/// The fields that differ; the rest is the same for all tools of a set.
#[derive(Clone, Copy)]
struct WhoopToolRow {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    effect: Effect,
    scopes: &'static [&'static str],
    handler: Handler,
}

const fn tool(row: WhoopToolRow, set: &'static str) -> Tool {
    Tool {
        name: row.name,
        title: row.title,
        description: row.description,
        effect: row.effect,
        set,
        // A tool without a scope mostly reads only the mirror or the login.
        reach: if row.scopes.is_empty() { Reach::Here } else { Reach::Outside },
        scopes: row.scopes,
        aggregates: false,
        handler: row.handler,
    }
}

const fn main(row: WhoopToolRow) -> Tool {
    tool(row, MAIN_SET)
}

const fn older(row: WhoopToolRow) -> Tool {
    tool(row, CLASSIC)
}

/// A tool that sends requests to WHOOP although it needs no scope.
const fn outside(tool: Tool) -> Tool {
    Tool { reach: Reach::Outside, ..tool }
}

/// A tool that honours `aggregate_only`.
const fn aggregating(tool: Tool) -> Tool {
    Tool { aggregates: true, ..tool }
}

const CYCLES: &[&str] = &["read:cycles"];
const RECOVERY: &[&str] = &["read:recovery"];
const SLEEP: &[&str] = &["read:sleep"];
const WORKOUT: &[&str] = &["read:workout"];
const PROFILE: &[&str] = &["read:profile"];
const BODY: &[&str] = &["read:body_measurement"];
const EVERY: &[&str] = &[
    "read:cycles",
    "read:recovery",
    "read:sleep",
    "read:workout",
    "read:profile",
    "read:body_measurement",
];
const DAY: &[&str] = &["read:cycles", "read:recovery", "read:sleep", "read:workout"];

pub(super) const TOOLS: &[Tool] = &[
    aggregating(main(WhoopToolRow {
        name: "get_whoop_auth_status",
        title: "WHOOP sign-in",
        description: "Says whether WHOOP is signed in and until when. Call it first after AUTH_FAILED.",
        effect: Effect::Reads,
        scopes: &[],
        handler: handler!(status::status),
    })),
    main(WhoopToolRow {
        name: "sync_whoop",
        title: "Sync WHOOP",
        description: "Brings the local mirror up to date. Run it once per session: lists and single records are read from the mirror.",
        effect: Effect::Runs,
        scopes: EVERY,
        handler: handler!(status::sync),
    }),
    main(WhoopToolRow {
        name: "get_whoop_profile",
        title: "WHOOP profile",
        description: "Name and e-mail of the WHOOP member.",
        effect: Effect::Reads,
        scopes: PROFILE,
        handler: handler!(single::snapshot::<Profile>),
    }),
    main(WhoopToolRow {
        name: "get_whoop_body_measurement",
        title: "Body measurements",
        description: "Height in metres, weight in kilograms, maximum heart rate.",
        effect: Effect::Reads,
        scopes: BODY,
        handler: handler!(single::snapshot::<Body>),
    }),
    main(WhoopToolRow {
        name: "list_whoop_cycles",
        title: "List cycles",
        description: "Physiological days with strain and energy, newest first, between an inclusive start and an exclusive end. Read from the mirror where it is complete.",
        effect: Effect::Reads,
        scopes: CYCLES,
        handler: handler!(list_tools::list::<Cycle>),
    }),
    main(WhoopToolRow {
        name: "list_whoop_recoveries",
        title: "List recoveries",
        description: "Recovery score, HRV and resting heart rate of each cycle, newest first, between an inclusive start and an exclusive end.",
        effect: Effect::Reads,
        scopes: RECOVERY,
        handler: handler!(list_tools::list::<Recovery>),
    }),
    main(WhoopToolRow {
        name: "list_whoop_sleeps",
        title: "List sleeps",
        description: "Sleeps and naps with their stages in seconds, newest first, between an inclusive start and an exclusive end.",
        effect: Effect::Reads,
        scopes: SLEEP,
        handler: handler!(list_tools::list::<Sleep>),
    }),
    main(WhoopToolRow {
        name: "list_whoop_workouts",
        title: "List workouts",
        description: "Workouts with strain, heart-rate zones and distance, newest first, between an inclusive start and an exclusive end.",
        effect: Effect::Reads,
        scopes: WORKOUT,
        handler: handler!(list_tools::list::<Workout>),
    }),
    main(WhoopToolRow {
        name: "get_whoop_cycle",
        title: "One cycle",
        description: "One cycle by its id.",
        effect: Effect::Reads,
        scopes: CYCLES,
        handler: handler!(single::cycle),
    }),
    main(WhoopToolRow {
        name: "get_whoop_cycle_sleep",
        title: "Sleep of a cycle",
        description: "The main sleep of a cycle.",
        effect: Effect::Reads,
        scopes: SLEEP,
        handler: handler!(single::cycle_sleep),
    }),
    main(WhoopToolRow {
        name: "get_whoop_cycle_recovery",
        title: "Recovery of a cycle",
        description: "The recovery that belongs to a cycle.",
        effect: Effect::Reads,
        scopes: RECOVERY,
        handler: handler!(single::cycle_recovery),
    }),
    main(WhoopToolRow {
        name: "get_whoop_sleep",
        title: "One sleep",
        description: "One sleep or nap by its id.",
        effect: Effect::Reads,
        scopes: SLEEP,
        handler: handler!(single::sleep),
    }),
    main(WhoopToolRow {
        name: "get_whoop_workout",
        title: "One workout",
        description: "One workout by its id.",
        effect: Effect::Reads,
        scopes: WORKOUT,
        handler: handler!(single::workout),
    }),
    main(WhoopToolRow {
        name: "get_whoop_daily_summary",
        title: "Summary of a day",
        description: "Cycle, morning recovery, longest sleep that is no nap, and workouts of one day: a UTC day, or with day=local the day you woke. Says which, and how fresh today is.",
        effect: Effect::Reads,
        scopes: DAY,
        handler: handler!(daily::summary),
    }),
    main(WhoopToolRow {
        name: "get_whoop_events",
        title: "What changed",
        description: "What changed in the mirror since a time, oldest change first. Pass next_cursor back as since to go on.",
        effect: Effect::Reads,
        scopes: &[],
        handler: handler!(events::events),
    }),
    main(WhoopToolRow {
        name: "export_whoop",
        title: "Export",
        description: "Writes the mirror to CSV, JSON lines or Parquet files. Run sync_whoop first.",
        effect: Effect::Runs,
        scopes: &[],
        handler: handler!(export::export),
    }),
    outside(main(WhoopToolRow {
        name: "health_check",
        title: "Health check",
        description: "Checks the sign-in, WHOOP itself and the local mirror. live=false stays offline.",
        effect: Effect::Reads,
        scopes: &[],
        handler: handler!(health::health),
    })),
    main(WhoopToolRow {
        name: "get_whoop_today",
        title: "Today at a glance",
        description: "Today's recovery, HRV, resting heart rate, sleep and load, each against its usual range, with the number of nights behind it. Reads the mirror: run sync_whoop first.",
        effect: Effect::Reads,
        scopes: &[],
        handler: handler!(insights::today),
    }),
    main(WhoopToolRow {
        name: "get_whoop_review",
        title: "Weekly or monthly review",
        description: "A week or a month against the one before: differences with intervals, claims that hold against chance, sleep regularity and debt, training load.",
        effect: Effect::Reads,
        scopes: &[],
        handler: handler!(insights::review),
    }),
    main(WhoopToolRow {
        name: "get_whoop_comparison",
        title: "Compare two periods",
        description: "Two periods of any length against each other: difference, 95 % interval, Hedges g, effective number of days.",
        effect: Effect::Reads,
        scopes: &[],
        handler: handler!(insights::comparison),
    }),
    main(WhoopToolRow {
        name: "get_whoop_trend",
        title: "Trend of a metric",
        description: "Slope with its interval and a test that allows for autocorrelation, and the daily values.",
        effect: Effect::Reads,
        scopes: &[],
        handler: handler!(insights::trend),
    }),
    main(WhoopToolRow {
        name: "get_whoop_baseline",
        title: "Baseline and anomalies",
        description: "The usual range of a metric over 14, 30 and 90 days, unusual episodes with their dates, and changes of level.",
        effect: Effect::Reads,
        scopes: &[],
        handler: handler!(insights::baseline),
    }),
    main(WhoopToolRow {
        name: "get_whoop_drivers",
        title: "Drivers of recovery",
        description: "What goes with recovery, HRV and sleep: sleep, strain of the day before, journal answers, travel. Only discoveries among all looks are claims; the rest is listed as unclear or as too little data.",
        effect: Effect::Reads,
        scopes: &[],
        handler: handler!(insights::drivers),
    }),
    main(WhoopToolRow {
        name: "get_whoop_relation",
        title: "Relate two metrics",
        description: "The correlation of any two metrics by local day with a lag, without the weekly rhythm, with the effective number of days.",
        effect: Effect::Reads,
        scopes: &[],
        handler: handler!(insights::relation),
    }),
    main(WhoopToolRow {
        name: "get_whoop_training_load",
        title: "Training load",
        description: "Fitness (CTL), fatigue (ATL), form (TSB), uncoupled acute to chronic ratio and monotony, from workout energy or zone minutes.",
        effect: Effect::Reads,
        scopes: &[],
        handler: handler!(insights::training_load),
    }),
    main(WhoopToolRow {
        name: "get_whoop_sleep_report",
        title: "Sleep report",
        description: "Sleep Regularity Index, mid-sleep and its spread, social jet lag, sleep against its need, debt.",
        effect: Effect::Reads,
        scopes: &[],
        handler: handler!(insights::sleep_report),
    }),
    main(WhoopToolRow {
        name: "get_whoop_records",
        title: "Records and streaks",
        description: "Highest, lowest and best days of a metric, current and longest streaks.",
        effect: Effect::Reads,
        scopes: &[],
        handler: handler!(insights::records),
    }),
    aggregating(main(WhoopToolRow {
        name: "get_whoop_aggregates",
        title: "Means of blocks of days",
        description: "Means of a metric over whole weeks, or blocks of 14, 28, 56 and more days; only blocks with a value on every day. Honours aggregate_only.",
        effect: Effect::Reads,
        scopes: &[],
        handler: handler!(insights::aggregates),
    })),
    main(WhoopToolRow {
        name: "query_whoop",
        title: "Query WHOOP with SQL",
        description: "One read-only SELECT over the WHOOP views, with limits on rows, bytes and time.",
        effect: Effect::Reads,
        scopes: &[],
        handler: handler!(insights::query),
    }),
    older(WhoopToolRow {
        name: "whoop-get-user-profile",
        title: "User profile",
        description: "The member's profile as WHOOP sends it.",
        effect: Effect::Reads,
        scopes: PROFILE,
        handler: handler!(|call, _: NoArgs| classic::record(call, ApiPath::Profile)),
    }),
    older(WhoopToolRow {
        name: "whoop-get-user-body-measurements",
        title: "Body measurements",
        description: "The member's body measurements as WHOOP sends them.",
        effect: Effect::Reads,
        scopes: BODY,
        handler: handler!(|call, _: NoArgs| classic::record(call, ApiPath::Body)),
    }),
    outside(older(WhoopToolRow {
        name: "whoop-revoke-user-access",
        title: "Revoke access",
        description: "Takes the consent back at WHOOP and forgets the login here.",
        effect: Effect::Destroys,
        scopes: &[],
        handler: handler!(classic::revoke),
    })),
    older(WhoopToolRow {
        name: "whoop-get-cycle-by-id",
        title: "Cycle by id",
        description: "One cycle as WHOOP sends it.",
        effect: Effect::Reads,
        scopes: CYCLES,
        handler: handler!(classic::cycle),
    }),
    older(WhoopToolRow {
        name: "whoop-get-cycle-collection",
        title: "Cycles",
        description: "One page of cycles as WHOOP sends it.",
        effect: Effect::Reads,
        scopes: CYCLES,
        handler: handler!(|call, args| classic::collection(call, args, Kind::Cycles)),
    }),
    older(WhoopToolRow {
        name: "whoop-get-sleep-for-cycle",
        title: "Sleep of a cycle",
        description: "The sleep of a cycle as WHOOP sends it.",
        effect: Effect::Reads,
        scopes: SLEEP,
        handler: handler!(classic::cycle_sleep),
    }),
    older(WhoopToolRow {
        name: "whoop-get-recovery-collection",
        title: "Recoveries",
        description: "One page of recoveries as WHOOP sends it.",
        effect: Effect::Reads,
        scopes: RECOVERY,
        handler: handler!(|call, args| classic::collection(call, args, Kind::Recoveries)),
    }),
    older(WhoopToolRow {
        name: "whoop-get-recovery-for-cycle",
        title: "Recovery of a cycle",
        description: "The recovery of a cycle as WHOOP sends it.",
        effect: Effect::Reads,
        scopes: RECOVERY,
        handler: handler!(classic::cycle_recovery),
    }),
    older(WhoopToolRow {
        name: "whoop-get-sleep-by-id",
        title: "Sleep by id",
        description: "One sleep as WHOOP sends it.",
        effect: Effect::Reads,
        scopes: SLEEP,
        handler: handler!(classic::sleep),
    }),
    older(WhoopToolRow {
        name: "whoop-get-sleep-collection",
        title: "Sleeps",
        description: "One page of sleeps and naps as WHOOP sends it.",
        effect: Effect::Reads,
        scopes: SLEEP,
        handler: handler!(|call, args| classic::collection(call, args, Kind::Sleeps)),
    }),
    older(WhoopToolRow {
        name: "whoop-get-workout-by-id",
        title: "Workout by id",
        description: "One workout as WHOOP sends it.",
        effect: Effect::Reads,
        scopes: WORKOUT,
        handler: handler!(classic::workout),
    }),
    older(WhoopToolRow {
        name: "whoop-get-workout-collection",
        title: "Workouts",
        description: "One page of workouts as WHOOP sends it.",
        effect: Effect::Reads,
        scopes: WORKOUT,
        handler: handler!(|call, args| classic::collection(call, args, Kind::Workouts)),
    }),
    older(WhoopToolRow {
        name: "whoop-get-authorization-url",
        title: "Authorization address",
        description: "The address at which the owner consents, with `offline` and a fresh state.",
        effect: Effect::Reads,
        scopes: &[],
        handler: handler!(classic::authorization_url),
    }),
    outside(older(WhoopToolRow {
        name: "whoop-exchange-code-for-token",
        title: "Exchange a code",
        description: "Exchanges an authorization code and seals the login in the vault. No token is shown.",
        effect: Effect::Destroys,
        scopes: &[],
        handler: handler!(classic::exchange),
    })),
    outside(older(WhoopToolRow {
        name: "whoop-refresh-token",
        title: "Refresh the login",
        description: "Refreshes the login in the vault. No token is shown, and one that is passed is not used.",
        effect: Effect::Adds,
        scopes: &[],
        handler: handler!(classic::refresh),
    })),
    outside(older(WhoopToolRow {
        name: "whoop-set-access-token",
        title: "Set an access token",
        description: "Puts an access token into the vault. Refused unless the owner allows it: tokens should not travel through a conversation.",
        effect: Effect::Destroys,
        scopes: &[],
        handler: handler!(classic::set_access_token),
    })),
];
