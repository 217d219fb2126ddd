//! Every size and wait of the listener, with its unit in its name, and what happens at the number.

use std::sync::Arc;
use std::time::Duration;

use store::settings::Limits;
use tokio::sync::Semaphore;

/// What all large messages together may take up while they are read and worked on.
const LARGE_BODIES_BYTES_MAX: usize = 64 << 20;

/// What the listener allows. The numbers are settings with their defaults in one table
/// (`store::settings::Limits`).
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Open connections; one more is answered 503 and closed.
    pub connections_max: usize,
    /// Open connections on which one grant was shown; one more is answered 503.
    pub connections_per_grant_max: usize,
    /// Requests being worked on for one grant; one more is answered 429.
    pub in_flight_per_grant_max: usize,
    /// Legacy sessions over all grants; opening one more ends one of the same grant, or of the grant that
    /// has most.
    pub sessions_max: usize,
    /// Legacy sessions of one grant; opening one more ends the one of them that was idle longest.
    pub sessions_per_grant_max: usize,
    /// Processes of servers that the sessions of one grant keep running; with one more, the session of
    /// that grant that was idle longest ends.
    pub commands_per_grant_max: usize,
    /// A session nobody used for so long ends.
    pub session_idle_max: Duration,
    /// A session whose client had a stream, has closed it and sent no request for so long ends.
    pub session_gone_max: Duration,
    /// A message body; a larger one is answered 413 without reading the rest.
    pub body_bytes_max: usize,
    /// The bytes of large messages that may be held at once, over all clients; a large message that
    /// finds no room is answered 429.
    pub large_bodies: Arc<Semaphore>,
    /// The request line and all headers together; more is answered 431.
    pub header_bytes_max: usize,
    pub headers_max: usize,
    /// From the first byte of a request to the end of its headers; then 408.
    pub header_wait_max: Duration,
    /// From the end of the headers to the end of the body; then 408.
    pub body_wait_max: Duration,
    pub tls_handshake_wait_max: Duration,
    /// A client that takes none of an event stream for so long is dropped.
    pub write_wait_max: Duration,
    /// A comment is sent on a quiet event stream this often, so that middle boxes keep it open.
    pub keep_alive_every: Duration,
    /// How long a stop waits for calls in flight before it records them as unknown.
    pub drain_wait_max: Duration,
    /// How long a call that waits for a human is held open.
    pub approval_hold: Duration,
}

/// One grant never has all connections: where there are few in all, some are left for others.
fn share_of_connections(limits: &Limits) -> u64 {
    const LEFT_FOR_OTHERS: u64 = 4;
    let left = (limits.connections_max / LEFT_FOR_OTHERS).max(1);
    limits.connections_per_grant_max.min(limits.connections_max.saturating_sub(left)).max(1)
}

impl Bounds {
    /// The owner's numbers.
    pub fn from_limits(limits: &Limits) -> Bounds {
        let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let ms = Duration::from_millis;
        let body_bytes_max = size(limits.body_bytes_max);
        // The largest message that is allowed must fit.
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
        }
    }
}
