//! Size and time bounds of the listener, and what happens when one is exceeded.

use std::sync::Arc;
use std::time::Duration;

use store::settings::Limits;
use tokio::sync::Semaphore;

/// Memory for all large messages while they are read and handled.
const LARGE_BODIES_BYTES_MAX: usize = 64 << 20;

/// The bounds of the listener. The numbers are settings; `store::settings::Limits` has the
/// defaults.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Open connections; one more gets 503 and is closed.
    pub connections_max: usize,
    /// Open connections of one grant; one more gets 503.
    pub connections_per_grant_max: usize,
    /// Requests in flight of one grant; one more gets 429.
    pub in_flight_per_grant_max: usize,
    /// Legacy sessions of all grants; one more evicts one of the same grant, or of the grant with
    /// the most.
    pub sessions_max: usize,
    /// Legacy sessions of one grant; one more evicts the one idle longest.
    pub sessions_per_grant_max: usize,
    /// Child processes of all sessions of one grant; one more evicts the session of that grant idle
    /// longest.
    pub commands_per_grant_max: usize,
    /// A session idle for this long ends.
    pub session_idle_max: Duration,
    /// A session whose client closed its stream and sent no request for this long ends.
    pub session_gone_max: Duration,
    /// A message body; a larger one gets 413 and is not read.
    pub body_bytes_max: usize,
    /// Bytes of all large messages held at once, over all clients; a large message beyond that gets
    /// 429.
    pub large_bodies: Arc<Semaphore>,
    /// Request line and headers together; more gets 431.
    pub header_bytes_max: usize,
    pub headers_max: usize,
    /// From the first byte of a request to the end of its headers; then 408.
    pub header_wait_max: Duration,
    /// From the end of the headers to the end of the body; then 408.
    pub body_wait_max: Duration,
    pub tls_handshake_wait_max: Duration,
    /// A client that reads nothing from an event stream for this long is dropped.
    pub write_wait_max: Duration,
    /// Interval of comments on a quiet event stream, so that proxies keep it open.
    pub keep_alive_every: Duration,
    /// How long shutdown waits for calls in flight before it records them as unknown.
    pub drain_wait_max: Duration,
    /// How long the response of a call that needs an approval is held open.
    pub approval_hold: Duration,
    /// How long the only active connection is polled for its next request; zero turns busy-polling off.
    pub busy_poll_max: Duration,
}

/// One grant never gets all connections: a quarter stays for others.
fn share_of_connections(limits: &Limits) -> u64 {
    const LEFT_FOR_OTHERS: u64 = 4;
    let left = (limits.connections_max / LEFT_FOR_OTHERS).max(1);
    limits.connections_per_grant_max.min(limits.connections_max.saturating_sub(left)).max(1)
}

impl Bounds {
    /// The bounds from the settings.
    pub fn from_limits(limits: &Limits) -> Bounds {
        let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let ms = Duration::from_millis;
        let body_bytes_max = size(limits.body_bytes_max);
        // The largest allowed message must fit.
        let large_bodies = LARGE_BODIES_BYTES_MAX.max(body_bytes_max);
        Bounds {
            connections_max: size(limits.connections_max),
            connections_per_grant_max: size(share_of_connections(limits)),
            in_flight_per_grant_max: size(limits.in_flight_per_grant_max),
            sessions_max: size(limits.sessions_max),
            sessions_per_grant_max: size(limits.sessions_per_grant_max),
            commands_per_grant_max: size(limits.commands_per_grant_max),
            session_idle_max: Duration::from_secs(limits.session_idle_seconds_max),
            session_gone_max: Duration::from_secs(limits.session_gone_seconds_max),
            body_bytes_max,
            large_bodies: Arc::new(Semaphore::new(large_bodies)),
            header_bytes_max: size(limits.header_bytes_max),
            headers_max: size(limits.headers_max),
            header_wait_max: ms(limits.header_wait_ms_max),
            body_wait_max: ms(limits.body_wait_ms_max),
            tls_handshake_wait_max: ms(limits.tls_handshake_wait_ms_max),
            write_wait_max: ms(limits.write_wait_ms_max),
            keep_alive_every: ms(limits.keep_alive_every_ms),
            drain_wait_max: ms(limits.drain_wait_ms_max),
            approval_hold: Duration::from_secs(limits.approval_hold_seconds),
            busy_poll_max: Duration::from_micros(limits.busy_poll_us_max),
        }
    }
}
