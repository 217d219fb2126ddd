//! The rows of WHOOP's tools: 17 of our own and the 16 that older policies and agents name.

use std::future::ready;

use super::{answering, classic, daily, events, export, health, lists, schemas, single, status};
use crate::whoop::kind::Kind;
use crate::{Effect, MAIN_SET, Reach, Run, Tool};

/// The set of the 16 older tools.
pub(super) const CLASSIC: &str = "classic";

/// What differs from row to row; the rest is the same for all tools of a set.
#[derive(Clone, Copy)]
struct Row {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    input: &'static str,
    output: &'static str,
    effect: Effect,
    scopes: &'static [&'static str],
    run: Run,
}

const fn tool(row: Row, set: &'static str) -> Tool {
    Tool {
        name: row.name,
        title: row.title,
        description: row.description,
        input_schema: row.input,
        output_schema: row.output,
        effect: row.effect,
        set,
        // What needs no scope tells of the mirror or of the login, most of the time.
        reach: if row.scopes.is_empty() { Reach::Here } else { Reach::Outside },
        scopes: row.scopes,
        run: row.run,
    }
}

const fn main(row: Row) -> Tool {
    tool(row, MAIN_SET)
}

const fn older(row: Row) -> Tool {
    tool(row, CLASSIC)
}

/// A row that asks WHOOP although it needs no scope there.
const fn outside(tool: Tool) -> Tool {
    Tool { reach: Reach::Outside, ..tool }
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
    main(Row {
        name: "get_whoop_auth_status",
        title: "WHOOP sign-in",
        description: "Says whether WHOOP is signed in and until when. Call it first after AUTH_FAILED.",
        input: schemas::NO_INPUT,
        output: schemas::STATUS,
        effect: Effect::Reads,
        scopes: &[],
        run: |ask| answering(ready(status::status(&ask))),
    }),
    main(Row {
        name: "sync_whoop",
        title: "Sync WHOOP",
        description: "Brings the local mirror up to date. Run it once per session: lists and single records are read from the mirror.",
        input: schemas::SYNC_INPUT,
        output: schemas::SYNC,
        effect: Effect::Runs,
        scopes: EVERY,
        run: |ask| answering(status::sync(ask)),
    }),
    main(Row {
        name: "get_whoop_profile",
        title: "WHOOP profile",
        description: "Name and e-mail of the WHOOP member.",
        input: schemas::FRESH_INPUT,
        output: schemas::PROFILE,
        effect: Effect::Reads,
        scopes: PROFILE,
        run: |ask| answering(single::snapshot(ask, Kind::Profile)),
    }),
    main(Row {
        name: "get_whoop_body_measurement",
        title: "Body measurements",
        description: "Height in metres, weight in kilograms, maximum heart rate.",
        input: schemas::FRESH_INPUT,
        output: schemas::BODY,
        effect: Effect::Reads,
        scopes: BODY,
        run: |ask| answering(single::snapshot(ask, Kind::BodyMeasurement)),
    }),
    main(Row {
        name: "list_whoop_cycles",
        title: "List cycles",
        description: "Physiological days with strain and energy, newest first, between an inclusive start and an exclusive end. Read from the mirror where it is complete.",
        input: schemas::LIST_INPUT,
        output: schemas::CYCLES,
        effect: Effect::Reads,
        scopes: CYCLES,
        run: |ask| answering(lists::list(ask, Kind::Cycles)),
    }),
    main(Row {
        name: "list_whoop_recoveries",
        title: "List recoveries",
        description: "Recovery score, HRV and resting heart rate of each cycle, newest first, between an inclusive start and an exclusive end.",
        input: schemas::LIST_INPUT,
        output: schemas::RECOVERIES,
        effect: Effect::Reads,
        scopes: RECOVERY,
        run: |ask| answering(lists::list(ask, Kind::Recoveries)),
    }),
    main(Row {
        name: "list_whoop_sleeps",
        title: "List sleeps",
        description: "Sleeps and naps with their stages in seconds, newest first, between an inclusive start and an exclusive end.",
        input: schemas::LIST_INPUT,
        output: schemas::SLEEPS,
        effect: Effect::Reads,
        scopes: SLEEP,
        run: |ask| answering(lists::list(ask, Kind::Sleeps)),
    }),
    main(Row {
        name: "list_whoop_workouts",
        title: "List workouts",
        description: "Workouts with strain, heart-rate zones and distance, newest first, between an inclusive start and an exclusive end.",
        input: schemas::LIST_INPUT,
        output: schemas::WORKOUTS,
        effect: Effect::Reads,
        scopes: WORKOUT,
        run: |ask| answering(lists::list(ask, Kind::Workouts)),
    }),
    main(Row {
        name: "get_whoop_cycle",
        title: "One cycle",
        description: "One cycle by its id.",
        input: schemas::CYCLE_ID_INPUT,
        output: schemas::CYCLE,
        effect: Effect::Reads,
        scopes: CYCLES,
        run: |ask| answering(single::cycle(ask)),
    }),
    main(Row {
        name: "get_whoop_cycle_sleep",
        title: "Sleep of a cycle",
        description: "The main sleep of a cycle.",
        input: schemas::CYCLE_ID_INPUT,
        output: schemas::SLEEP,
        effect: Effect::Reads,
        scopes: SLEEP,
        run: |ask| answering(single::cycle_sleep(ask)),
    }),
    main(Row {
        name: "get_whoop_cycle_recovery",
        title: "Recovery of a cycle",
        description: "The recovery that belongs to a cycle.",
        input: schemas::CYCLE_ID_INPUT,
        output: schemas::RECOVERY,
        effect: Effect::Reads,
        scopes: RECOVERY,
        run: |ask| answering(single::cycle_recovery(ask)),
    }),
    main(Row {
        name: "get_whoop_sleep",
        title: "One sleep",
        description: "One sleep or nap by its id.",
        input: schemas::SLEEP_ID_INPUT,
        output: schemas::SLEEP,
        effect: Effect::Reads,
        scopes: SLEEP,
        run: |ask| answering(single::activity(ask, Kind::Sleeps)),
    }),
    main(Row {
        name: "get_whoop_workout",
        title: "One workout",
        description: "One workout by its id.",
        input: schemas::WORKOUT_ID_INPUT,
        output: schemas::WORKOUT,
        effect: Effect::Reads,
        scopes: WORKOUT,
        run: |ask| answering(single::activity(ask, Kind::Workouts)),
    }),
    main(Row {
        name: "get_whoop_daily_summary",
        title: "Summary of a day",
        description: "Cycle, morning recovery, longest sleep that is no nap, and workouts of one day: a UTC day, or with day=local the day you woke. Says which, and how fresh today is.",
        input: schemas::DAILY_INPUT,
        output: schemas::DAILY,
        effect: Effect::Reads,
        scopes: DAY,
        run: |ask| answering(daily::summary(ask)),
    }),
    main(Row {
        name: "get_whoop_events",
        title: "What changed",
        description: "What changed in the mirror since a time, oldest change first. Pass next_cursor back as since to go on.",
        input: schemas::EVENTS_INPUT,
        output: schemas::EVENTS,
        effect: Effect::Reads,
        scopes: &[],
        run: |ask| answering(ready(events::events(&ask))),
    }),
    main(Row {
        name: "export_whoop",
        title: "Export",
        description: "Writes the mirror to CSV, JSON lines or Parquet files. Run sync_whoop first.",
        input: schemas::EXPORT_INPUT,
        output: schemas::EXPORT,
        effect: Effect::Runs,
        scopes: &[],
        run: |ask| answering(ready(export::export(&ask))),
    }),
    outside(main(Row {
        name: "health_check",
        title: "Health check",
        description: "Checks the sign-in, WHOOP itself and the local mirror. live=false stays offline.",
        input: schemas::HEALTH_INPUT,
        output: schemas::HEALTH,
        effect: Effect::Reads,
        scopes: &[],
        run: |ask| answering(health::health(ask)),
    })),
    older(Row {
        name: "whoop-get-user-profile",
        title: "User profile",
        description: "The member's profile as WHOOP sends it.",
        input: schemas::NO_INPUT,
        output: schemas::CLASSIC_RECORD,
        effect: Effect::Reads,
        scopes: PROFILE,
        run: |ask| Box::pin(classic::snapshot(ask, Kind::Profile)),
    }),
    older(Row {
        name: "whoop-get-user-body-measurements",
        title: "Body measurements",
        description: "The member's body measurements as WHOOP sends them.",
        input: schemas::NO_INPUT,
        output: schemas::CLASSIC_RECORD,
        effect: Effect::Reads,
        scopes: BODY,
        run: |ask| Box::pin(classic::snapshot(ask, Kind::BodyMeasurement)),
    }),
    outside(older(Row {
        name: "whoop-revoke-user-access",
        title: "Revoke access",
        description: "Takes the consent back at WHOOP and forgets the login here.",
        input: schemas::NO_INPUT,
        output: schemas::CLASSIC_LOGIN,
        effect: Effect::Destroys,
        scopes: &[],
        run: |ask| Box::pin(classic::revoke(ask)),
    })),
    older(Row {
        name: "whoop-get-cycle-by-id",
        title: "Cycle by id",
        description: "One cycle as WHOOP sends it.",
        input: schemas::CLASSIC_CYCLE_INPUT,
        output: schemas::CLASSIC_RECORD,
        effect: Effect::Reads,
        scopes: CYCLES,
        run: |ask| Box::pin(classic::cycle(ask)),
    }),
    older(Row {
        name: "whoop-get-cycle-collection",
        title: "Cycles",
        description: "One page of cycles as WHOOP sends it.",
        input: schemas::CLASSIC_LIST_INPUT,
        output: schemas::CLASSIC_PAGE,
        effect: Effect::Reads,
        scopes: CYCLES,
        run: |ask| Box::pin(classic::collection(ask, Kind::Cycles)),
    }),
    older(Row {
        name: "whoop-get-sleep-for-cycle",
        title: "Sleep of a cycle",
        description: "The sleep of a cycle as WHOOP sends it.",
        input: schemas::CLASSIC_CYCLE_INPUT,
        output: schemas::CLASSIC_RECORD,
        effect: Effect::Reads,
        scopes: SLEEP,
        run: |ask| Box::pin(classic::cycle_sleep(ask)),
    }),
    older(Row {
        name: "whoop-get-recovery-collection",
        title: "Recoveries",
        description: "One page of recoveries as WHOOP sends it.",
        input: schemas::CLASSIC_LIST_INPUT,
        output: schemas::CLASSIC_PAGE,
        effect: Effect::Reads,
        scopes: RECOVERY,
        run: |ask| Box::pin(classic::collection(ask, Kind::Recoveries)),
    }),
    older(Row {
        name: "whoop-get-recovery-for-cycle",
        title: "Recovery of a cycle",
        description: "The recovery of a cycle as WHOOP sends it.",
        input: schemas::CLASSIC_CYCLE_INPUT,
        output: schemas::CLASSIC_RECORD,
        effect: Effect::Reads,
        scopes: RECOVERY,
        run: |ask| Box::pin(classic::cycle_recovery(ask)),
    }),
    older(Row {
        name: "whoop-get-sleep-by-id",
        title: "Sleep by id",
        description: "One sleep as WHOOP sends it.",
        input: schemas::CLASSIC_SLEEP_INPUT,
        output: schemas::CLASSIC_RECORD,
        effect: Effect::Reads,
        scopes: SLEEP,
        run: |ask| Box::pin(classic::activity(ask, Kind::Sleeps)),
    }),
    older(Row {
        name: "whoop-get-sleep-collection",
        title: "Sleeps",
        description: "One page of sleeps and naps as WHOOP sends it.",
        input: schemas::CLASSIC_LIST_INPUT,
        output: schemas::CLASSIC_PAGE,
        effect: Effect::Reads,
        scopes: SLEEP,
        run: |ask| Box::pin(classic::collection(ask, Kind::Sleeps)),
    }),
    older(Row {
        name: "whoop-get-workout-by-id",
        title: "Workout by id",
        description: "One workout as WHOOP sends it.",
        input: schemas::CLASSIC_WORKOUT_INPUT,
        output: schemas::CLASSIC_RECORD,
        effect: Effect::Reads,
        scopes: WORKOUT,
        run: |ask| Box::pin(classic::activity(ask, Kind::Workouts)),
    }),
    older(Row {
        name: "whoop-get-workout-collection",
        title: "Workouts",
        description: "One page of workouts as WHOOP sends it.",
        input: schemas::CLASSIC_LIST_INPUT,
        output: schemas::CLASSIC_PAGE,
        effect: Effect::Reads,
        scopes: WORKOUT,
        run: |ask| Box::pin(classic::collection(ask, Kind::Workouts)),
    }),
    older(Row {
        name: "whoop-get-authorization-url",
        title: "Authorization address",
        description: "The address at which the owner consents, with `offline` and a fresh state.",
        input: schemas::NO_INPUT,
        output: schemas::CLASSIC_LOGIN,
        effect: Effect::Reads,
        scopes: &[],
        run: |ask| Box::pin(classic::authorization_url(ask)),
    }),
    outside(older(Row {
        name: "whoop-exchange-code-for-token",
        title: "Exchange a code",
        description: "Exchanges an authorization code and seals the login in the vault. No token is shown.",
        input: schemas::CLASSIC_CODE_INPUT,
        output: schemas::CLASSIC_LOGIN,
        effect: Effect::Destroys,
        scopes: &[],
        run: |ask| Box::pin(classic::exchange(ask)),
    })),
    outside(older(Row {
        name: "whoop-refresh-token",
        title: "Refresh the login",
        description: "Refreshes the login in the vault. No token is shown, and one that is passed is not used.",
        input: schemas::CLASSIC_REFRESH_INPUT,
        output: schemas::CLASSIC_LOGIN,
        effect: Effect::Adds,
        scopes: &[],
        run: |ask| Box::pin(classic::refresh(ask)),
    })),
    outside(older(Row {
        name: "whoop-set-access-token",
        title: "Set an access token",
        description: "Puts an access token into the vault. Refused unless the owner allows it: tokens should not travel through a conversation.",
        input: schemas::CLASSIC_TOKEN_INPUT,
        output: schemas::CLASSIC_LOGIN,
        effect: Effect::Destroys,
        scopes: &[],
        run: |ask| Box::pin(classic::set_access_token(ask)),
    })),
];
