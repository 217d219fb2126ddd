//! JSON Schemas of the WHOOP tools. Limits are checked inside the tools and answered as envelopes, so
//! the input schemas only name and explain; every output may also be an error envelope.

macro_rules! text {
    ($words:literal) => {
        concat!(r#"{"type":"string","description":""#, $words, r#""}"#)
    };
}
macro_rules! text_or_null {
    ($words:literal) => {
        concat!(
            r#"{"anyOf":[{"type":"string"},{"type":"null"}],"default":null,"description":""#,
            $words,
            r#""}"#
        )
    };
}
macro_rules! fresh {
    () => {
        r#""fresh":{"type":"boolean","default":false,"description":"Ask WHOOP instead of the local mirror."}"#
    };
}
macro_rules! resources {
    () => {
        r#"{"anyOf":[{"type":"array","items":{"type":"string"}},{"type":"null"}],"default":null,"description":"Some of cycles, recoveries, sleeps, workouts, body_measurement, profile."}"#
    };
}
macro_rules! input {
    ($required:literal, $($part:expr),+) => {
        concat!(r#"{"type":"object","properties":{"#, $($part),+, r#"},"required":["#, $required, "]}")
    };
}
macro_rules! number {
    () => {
        r#"{"type":["number","null"]}"#
    };
}
macro_rules! integer {
    () => {
        r#"{"type":["integer","null"]}"#
    };
}
macro_rules! string {
    () => {
        r#"{"type":["string","null"]}"#
    };
}
macro_rules! boolean {
    () => {
        r#"{"type":["boolean","null"]}"#
    };
}
macro_rules! error {
    () => {
        r#""error":{"type":"object","properties":{"code":{"type":"string"},"message":{"type":"string"},"endpoint":{"type":"string"}}}"#
    };
}
macro_rules! warnings {
    () => {
        r#""warnings":{"type":"array","items":{"type":"string"}}"#
    };
}
macro_rules! times {
    () => {
        concat!(
            r#""start_utc":"#,
            string!(),
            r#","end_utc":"#,
            string!(),
            r#","start_local":"#,
            string!(),
            r#","end_local":"#,
            string!(),
            r#","timezone_offset":"#,
            string!(),
            r#","start":"#,
            string!(),
            r#","end":"#,
            string!(),
            r#","local_date":"#,
            string!()
        )
    };
}
macro_rules! cycle {
    () => {
        concat!(
            r#""id":"#,
            integer!(),
            ",",
            times!(),
            r#","score_state":"#,
            string!(),
            r#","strain":"#,
            number!(),
            r#","avg_hr_bpm":"#,
            integer!(),
            r#","max_hr_bpm":"#,
            integer!(),
            r#","calories":"#,
            integer!()
        )
    };
}
macro_rules! recovery {
    () => {
        concat!(
            r#""cycle_id":"#,
            integer!(),
            r#","sleep_id":"#,
            string!(),
            r#","score_state":"#,
            string!(),
            r#","recovery_score":"#,
            number!(),
            r#","resting_heart_rate_bpm":"#,
            number!(),
            r#","hrv_rmssd_ms":"#,
            number!(),
            r#","spo2_pct":"#,
            number!(),
            r#","skin_temp_c":"#,
            number!(),
            r#","user_calibrating":"#,
            boolean!(),
            ",",
            times!()
        )
    };
}
macro_rules! sleep {
    () => {
        concat!(
            r#""id":"#, string!(), r#","cycle_id":"#, integer!(), ",", times!(), r#","nap":"#, boolean!(),
            r#","score_state":"#, string!(), r#","respiratory_rate":"#, number!(),
            r#","sleep_consistency_pct":"#, number!(), r#","sleep_efficiency_pct":"#, number!(),
            r#","sleep_performance_pct":"#, number!(), r#","in_bed_seconds":"#, number!(),
            r#","light_sleep_seconds":"#, number!(), r#","rem_sleep_seconds":"#, number!(),
            r#","deep_sleep_seconds":"#, number!(), r#","awake_seconds":"#, number!(),
            r#","no_data_seconds":"#, number!(), r#","sleep_cycle_count":"#, integer!(),
            r#","disturbance_count":"#, integer!(),
            r#","sleep_needed_seconds":{"type":["object","null"],"properties":{"baseline_seconds":"#, number!(),
            r#","need_from_recent_nap_seconds":"#, number!(), r#","need_from_recent_strain_seconds":"#, number!(),
            r#","need_from_sleep_debt_seconds":"#, number!(), "}}",
            r#","asleep_seconds":"#, number!(), r#","sleep_need_seconds":"#, number!(),
            r#","sleep_debt_seconds":"#, number!()
        )
    };
}
macro_rules! workout {
    () => {
        concat!(
            r#""id":"#,
            string!(),
            ",",
            times!(),
            r#","sport_id":"#,
            integer!(),
            r#","sport_name":"#,
            string!(),
            r#","score_state":"#,
            string!(),
            r#","strain":"#,
            number!(),
            r#","avg_hr_bpm":"#,
            integer!(),
            r#","max_hr_bpm":"#,
            integer!(),
            r#","calories":"#,
            integer!(),
            r#","percent_recorded":"#,
            number!(),
            r#","recorded_pct":"#,
            number!(),
            r#","distance_meter":"#,
            number!(),
            r#","altitude_change_meter":"#,
            number!(),
            r#","altitude_gain_meter":"#,
            number!(),
            r#","zone_durations_seconds":{"type":["object","null"],"properties":{"zone_zero":"#,
            number!(),
            r#","zone_one":"#,
            number!(),
            r#","zone_two":"#,
            number!(),
            r#","zone_three":"#,
            number!(),
            r#","zone_four":"#,
            number!(),
            r#","zone_five":"#,
            number!(),
            "}}"
        )
    };
}
macro_rules! output {
    ($($part:expr),+) => {
        concat!(r#"{"type":"object","properties":{"#, $($part),+, ",", error!(), "}}")
    };
}
macro_rules! listed {
    ($record:expr) => {
        output!(
            r#""records":{"type":"array","items":{"type":"object","properties":{"#,
            $record,
            "}}},",
            r#""truncated":{"type":"boolean"},"hint":{"type":"string"},"stale_since":{"type":"string"},"#,
            warnings!()
        )
    };
}
/// An object that may be absent.
macro_rules! maybe {
    ($record:expr) => {
        concat!(r#"{"type":["object","null"],"properties":{"#, $record, "}}")
    };
}

pub(super) const NO_INPUT: &str = r#"{"type":"object","properties":{}}"#;
pub(super) const FRESH_INPUT: &str = input!("", fresh!());
pub(super) const LIST_INPUT: &str = input!(
    "",
    r#""start":"#,
    text_or_null!(
        "Inclusive lower bound: ISO-8601, or words such as `yesterday` or `last 30 days`."
    ),
    r#","end":"#,
    text_or_null!("Exclusive upper bound, written the same way."),
    r#","limit":{"anyOf":[{"type":"integer"},{"type":"null"}],"default":null,"description":"At most so many, newest first. Without it an answer stays below 25,000 tokens."},"#,
    fresh!()
);
pub(super) const CYCLE_ID_INPUT: &str =
    input!(r#""cycle_id""#, r#""cycle_id":{"type":"integer"},"#, fresh!());
pub(super) const SLEEP_ID_INPUT: &str =
    input!(r#""sleep_id""#, r#""sleep_id":"#, text!("The sleep's UUID."), ",", fresh!());
pub(super) const WORKOUT_ID_INPUT: &str =
    input!(r#""workout_id""#, r#""workout_id":"#, text!("The workout's UUID."), ",", fresh!());
pub(super) const SYNC_INPUT: &str = input!(
    "",
    r#""full":{"type":"boolean","default":false,"description":"Everything since 2010."},"since":"#,
    text_or_null!("Only what took place since then."),
    r#","resources":"#,
    resources!()
);
pub(super) const DAILY_INPUT: &str = input!(
    r#""date""#,
    r#""date":"#,
    text!("YYYY-MM-DD, or `today`, `yesterday`, a weekday."),
    ",",
    fresh!(),
    r#","day":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null,"description":"`utc`: the day by UTC. `local`: the day you woke, on the clock you woke by. Without it a date is a UTC day, and words such as `today` are your own day."}"#
);
pub(super) const EVENTS_INPUT: &str = input!(
    r#""since""#,
    r#""since":"#,
    text!("ISO-8601, or the `next_cursor` of the answer before."),
    r#","until":"#,
    text_or_null!("Exclusive; now unless said."),
    r#","resources":"#,
    resources!(),
    r#","limit":{"type":"integer","default":500,"description":"1 to 5000."}"#
);
pub(super) const EXPORT_INPUT: &str = input!(
    r#""kind","format","path""#,
    r#""kind":"#,
    text!("cycles, recoveries, sleeps, workouts or all."),
    r#","format":"#,
    text!("csv, jsonl or parquet."),
    r#","path":"#,
    text!("File, or folder for `all`; below the folder for agents' exports."),
    r#","start":"#,
    text_or_null!("First day, YYYY-MM-DD, or words such as `yesterday` or `last 30 days`."),
    r#","end":"#,
    text_or_null!("Last day, included, written the same way."),
    r#","overwrite":{"type":"boolean","default":false}"#,
    r#","safe":{"type":"boolean","default":false,"description":"CSV that no spreadsheet takes for formulas: an apostrophe before risky text."}"#
);
pub(super) const HEALTH_INPUT: &str = input!(
    "",
    r#""live":{"type":"boolean","default":true,"description":"Also ask WHOOP whether it answers."}"#
);

pub(super) const CYCLE: &str = output!(cycle!());
pub(super) const RECOVERY: &str = output!(recovery!());
pub(super) const SLEEP: &str = output!(sleep!());
pub(super) const WORKOUT: &str = output!(workout!());
pub(super) const CYCLES: &str = listed!(cycle!());
pub(super) const RECOVERIES: &str = listed!(recovery!());
pub(super) const SLEEPS: &str = listed!(sleep!());
pub(super) const WORKOUTS: &str = listed!(workout!());
pub(super) const PROFILE: &str = output!(
    r#""email":"#,
    string!(),
    r#","first_name":"#,
    string!(),
    r#","last_name":"#,
    string!()
);
pub(super) const BODY: &str = output!(
    r#""height_meter":"#,
    number!(),
    r#","weight_kilogram":"#,
    number!(),
    r#","max_hr_bpm":"#,
    integer!()
);
pub(super) const STATUS: &str = output!(
    r#""status":{"type":"string"},"expires_at":"#,
    string!(),
    r#","created_at":"#,
    string!(),
    r#","token_type":"#,
    string!(),
    r#","has_refresh_token":"#,
    boolean!(),
    r#","detail":"#,
    string!()
);
pub(super) const SYNC: &str = output!(
    r#""status":{"type":"string"},"started_at":{"type":"string"},"completed_at":{"type":"string"},"#,
    r#""resources":{"type":"object","additionalProperties":{"type":"object","properties":{"records_fetched":{"type":"integer"},"records_upserted":{"type":"integer"},"cursor_after":"#,
    string!(),
    r#","status":{"type":"string"},"error":{"type":"string"}}}},"#,
    warnings!()
);
pub(super) const DAILY: &str = output!(
    r#""date":{"type":"string"},"day":{"type":"string"},"cycle":"#,
    maybe!(cycle!()),
    r#","recovery":"#,
    maybe!(recovery!()),
    r#","sleep":"#,
    maybe!(sleep!()),
    r#","workouts":{"type":"array","items":{"type":"object","properties":{"#,
    workout!(),
    "}}},",
    r#""score_states":{"type":"object","properties":{"cycle":"#,
    string!(),
    r#","recovery":"#,
    string!(),
    r#","sleep":"#,
    string!(),
    r#"}},"as_of":"#,
    string!(),
    r#","age_seconds":"#,
    integer!(),
    ",",
    r#""notes":{"type":"array","items":{"type":"string"}},"#,
    warnings!()
);
pub(super) const EVENTS: &str = output!(
    r#""status":{"type":"string"},"count":{"type":"integer"},"since":{"type":"string"},"until":{"type":"string"},"#,
    r#""events":{"type":"array","items":{"type":"object","properties":{"resource":{"type":"string"},"id":{"type":"string"},"updated_at":{"type":"string"},"record":{"type":"object"}}}},"#,
    r#""next_cursor":"#,
    string!(),
    r#","truncated":{"type":"boolean"},"hint":{"type":"string"},"#,
    warnings!()
);
pub(super) const EXPORT: &str = output!(
    r#""status":{"type":"string"},"kind":{"type":"string"},"format":{"type":"string"},"#,
    r#""files":{"type":"array","items":{"type":"object","properties":{"resource":{"type":"string"},"path":{"type":"string"},"records":{"type":"integer"},"bytes":{"type":"integer"}}}},"#,
    r#""range":{"type":"object","properties":{"start":"#,
    string!(),
    r#","end":"#,
    string!(),
    "}},",
    warnings!()
);
pub(super) const HEALTH: &str = output!(
    r#""status":{"type":"string"},"checks":{"type":"object","additionalProperties":{"type":"object","properties":{"status":{"type":"string"},"detail":{"type":"string"}}}},"#,
    r#""server_version":{"type":"string"},"timestamp":{"type":"string"}"#
);

pub(super) const CLASSIC_CYCLE_INPUT: &str =
    input!(r#""cycleId""#, r#""cycleId":{"type":"number"}"#);
pub(super) const CLASSIC_SLEEP_INPUT: &str =
    input!(r#""sleepId""#, r#""sleepId":{"type":"string"}"#);
pub(super) const CLASSIC_WORKOUT_INPUT: &str =
    input!(r#""workoutId""#, r#""workoutId":{"type":"string"}"#);
pub(super) const CLASSIC_LIST_INPUT: &str = input!(
    "",
    r#""limit":{"type":"number","description":"1 to 25."},"start":"#,
    text!("Inclusive: ISO-8601; a bare date begins at your midnight."),
    r#","end":"#,
    text!("Exclusive: ISO-8601; a bare date ends with your day."),
    r#","nextToken":"#,
    text!("`next_token` of the page before.")
);
pub(super) const CLASSIC_CODE_INPUT: &str = input!(r#""code""#, r#""code":{"type":"string"}"#);
pub(super) const CLASSIC_REFRESH_INPUT: &str = input!(
    "",
    r#""refreshToken":"#,
    text!("Not needed: the stored login is refreshed. A token given here is never used.")
);
pub(super) const CLASSIC_TOKEN_INPUT: &str =
    input!(r#""accessToken""#, r#""accessToken":{"type":"string"}"#);
pub(super) const CLASSIC_RECORD: &str = r#"{"type":"object","properties":{"id":{"type":["integer","string"]},"user_id":{"type":["integer","null"]},"created_at":{"type":["string","null"]},"updated_at":{"type":["string","null"]},"start":{"type":["string","null"]},"end":{"type":["string","null"]},"score_state":{"type":["string","null"]},"score":{"type":["object","null"]}}}"#;
pub(super) const CLASSIC_PAGE: &str = r#"{"type":"object","properties":{"records":{"type":"array","items":{"type":"object"}},"next_token":{"type":["string","null"]}}}"#;
pub(super) const CLASSIC_LOGIN: &str = r#"{"type":"object","properties":{"status":{"type":"string"},"message":{"type":"string"},"url":{"type":"string"},"scopes":{"type":"array","items":{"type":"string"}},"expires_at":{"type":["string","null"]}}}"#;
