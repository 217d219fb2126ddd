//! Every number an owner may set, with its unit in its name, its default and its range: one row each.

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitRow {
    pub name: &'static str,
    pub default: u64,
    pub least: u64,
    pub most: u64,
    pub meaning: &'static str,
}

macro_rules! limits {
    ($($name:ident: $default:expr, $least:expr, $most:expr, $meaning:literal;)*) => {
        /// The numbers a gate runs with.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Limits {
            $(#[doc = $meaning] pub $name: u64,)*
        }

        impl Limits {
            pub const TABLE: &'static [LimitRow] = &[
                $(LimitRow {
                    name: stringify!($name),
                    default: $default,
                    least: $least,
                    most: $most,
                    meaning: $meaning,
                },)*
            ];

            /// Sets one limit by name; the range was checked by the reader.
            pub(super) fn set(&mut self, name: &str, value: u64) {
                match name {
                    $(stringify!($name) => self.$name = value,)*
                    _ => {}
                }
            }
        }

        impl Default for Limits {
            fn default() -> Limits {
                Limits { $($name: $default,)* }
            }
        }
    };
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const SECOND_MS: u64 = 1_000;
const MINUTE_MS: u64 = 60 * SECOND_MS;
const HOUR_MS: u64 = 60 * MINUTE_MS;

limits! {
    connections_max: 4_096, 1, 100_000,
        "Open connections; one more takes the place of one without a grant, or is answered 503.";
    connections_per_grant_max: 1_024, 1, 100_000,
        "Open connections on which one grant was shown, and at most three quarters of `connections_max`; one more is answered 503.";
    in_flight_per_grant_max: 1_024, 1, 100_000,
        "Requests being worked on for one grant; one more is answered 429.";
    sessions_max: 10_000, 1, 1_000_000,
        "Sessions over all grants; opening one more ends one of the same grant, or of the grant that has most.";
    sessions_per_grant_max: 1_000, 1, 1_000_000,
        "Sessions of one grant; opening one more ends the one of them that was idle longest.";
    commands_per_grant_max: 100, 1, 10_000,
        "Processes that the sessions of one grant keep running; with one more, the session of that grant that was idle longest ends.";
    session_idle_seconds_max: 3_600, 1, 30 * 86_400,
        "An idle session ends after this time, and so does an idle command that clients without a session share.";
    session_gone_seconds_max: 60, 1, 30 * 86_400,
        "A session without a stream, a running call and a task ends with its commands when its client sends nothing for so long. A client that returns later gets 404 and starts a new session.";
    body_bytes_max: 4 * MIB, KIB, 64 * MIB,
        "A message body; a larger one is answered 413.";
    header_bytes_max: 32 * KIB, KIB, MIB,
        "The request line and all headers together; more is answered 431.";
    headers_max: 64, 8, 1_000,
        "Headers of one request; more is answered 431.";
    header_wait_ms_max: 30 * SECOND_MS, 100, HOUR_MS,
        "How long a connection may rest before it is closed, and how long the headers of a request may take from their first byte; then 408.";
    body_wait_ms_max: 20 * SECOND_MS, 100, HOUR_MS,
        "From the end of the headers to the end of the body; then 408.";
    tls_handshake_wait_ms_max: 10 * SECOND_MS, 100, HOUR_MS,
        "A TLS handshake; then the connection is dropped.";
    write_wait_ms_max: 30 * SECOND_MS, 100, HOUR_MS,
        "A client that takes none of an event stream, or of what `stdio` and `wrap` say, for so long is dropped.";
    keep_alive_every_ms: 15 * SECOND_MS, SECOND_MS, HOUR_MS,
        "A comment is sent on a quiet event stream this often.";
    drain_wait_ms_max: 4 * SECOND_MS, 0, 10 * MINUTE_MS,
        "How long a stop waits for calls in flight before it records them as unknown.";
    approval_hold_seconds: 25, 0, 3_600,
        "How long a call that waits for a human is held open.";
    upstream_connect_wait_ms_max: 10 * SECOND_MS, 100, HOUR_MS,
        "Connecting to a server by address; then the call fails.";
    upstream_start_wait_ms_max: MINUTE_MS, 100, HOUR_MS,
        "From starting a command to its first answer; then it is stopped.";
    upstream_call_wait_ms_max: 5 * MINUTE_MS, 100, 24 * HOUR_MS,
        "One call to a server, unless the server has a number of its own; then it is cancelled.";
    answer_bytes_max: 32 * MIB, KIB, 1_024 * MIB,
        "One answer of a server; a larger one is refused.";
    capture_days_max: 30, 1, 36_500,
        "Captured arguments are deleted after so many days, or with the audit rows if `[retention]` is shorter.";
    capture_bytes_max: 256 * MIB, MIB, 1_024 * 1_024 * MIB,
        "All captured arguments together; beyond it the oldest are deleted.";
    capture_params_bytes_max: 64 * KIB, KIB, 4 * MIB,
        "The captured arguments of one call; larger ones are not kept, and the entry says so.";
    busy_poll_us_max: 0, 0, 10_000,
        "How long a thread polls for the next message while only one client is active, before it sleeps. Lowers the latency of a lone client and costs CPU and battery; 0 turns it off.";
}
