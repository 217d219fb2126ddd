//! The connection pool of one server: limited in number, and checked after idling.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use hyper::{HeaderMap, Request, Response};
use tokio::time::Instant;

use super::body::{BodySource, ResponseBody};
use super::connection::{Connection, Failure};
use super::connection_limits::{ConnectionLimits, ConnectionSlot, GrantLimits, SlotKind};
use super::dial::Dialer;
use super::error::UpstreamError;
use super::headers::keep_alive_seconds;
use super::message::SharedPause;
use super::options::{HttpBounds, Waits};

/// A connection that idled for less is not probed: under load the runtime has polled its socket, so a close was
/// noticed.
const TRUSTED_IDLE: Duration = Duration::from_millis(1);

/// The connections to one server.
pub(super) struct Pool {
    dialer: Dialer,
    idle: Mutex<Vec<IdleConnection>>,
    pub(super) limits: ConnectionLimits,
    sweeping: AtomicBool,
    waits: Waits,
    bounds: HttpBounds,
}

struct IdleConnection {
    connection: Box<Connection>,
    since: Instant,
    until: Instant,
}

/// A connection in use, with its slot.
pub(super) struct PooledConnection {
    connection: Box<Connection>,
    pool: Arc<Pool>,
    slot: ConnectionSlot,
}

impl PooledConnection {
    pub(super) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Returns a connection after its response was read, if it can be reused.
    pub(super) fn release(mut self) {
        if self.connection.prepare_for_idle() {
            let PooledConnection { connection, pool, slot } = self;
            drop(slot);
            pool.keep(connection);
        }
    }
}

impl Pool {
    pub(super) fn new(dialer: Dialer, waits: &Waits, bounds: &HttpBounds) -> Arc<Pool> {
        Arc::new(Pool {
            dialer,
            idle: Mutex::new(Vec::new()),
            limits: ConnectionLimits::new(waits, bounds),
            sweeping: AtomicBool::new(false),
            waits: waits.clone(),
            bounds: bounds.clone(),
        })
    }

    pub(super) fn dialer(&self) -> &Dialer {
        &self.dialer
    }

    /// Idle connections.
    pub(super) fn idle_count(&self) -> usize {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Sends a request on an idle connection or a new one. It is sent again, once and on a new connection, only
    /// if no byte of it was written. `make_request` gets an empty header map.
    pub(super) async fn exchange(
        self: &Arc<Pool>,
        limits: &GrantLimits,
        kind: SlotKind,
        stays_open: bool,
        (began, client_pause): (Instant, Option<&SharedPause>),
        make_request: impl Fn(HeaderMap) -> Request<Bytes>,
    ) -> Result<Response<ResponseBody>, UpstreamError> {
        let slot = self.limits.take(limits, kind).await?;
        if let Some(mut connection) = self.take_idle() {
            connection.deadline.start(&self.waits, began, stays_open, client_pause);
            let header_buffer = std::mem::take(&mut connection.header_buffer);
            match connection.exchange(make_request(header_buffer), self.busy_poll_max()).await {
                Ok(response) => return Ok(self.pool_response(response, connection, slot)),
                Err(Failure::Failed(error)) => return Err(error),
                Err(Failure::Unsent(_)) => {}
            }
        }
        // Boxed once, because it is moved several times per request.
        let mut connection = Box::new(Box::pin(self.dialer.dial()).await?);
        connection.deadline.start(&self.waits, began, stays_open, client_pause);
        match connection.exchange(make_request(HeaderMap::new()), self.busy_poll_max()).await {
            Ok(response) => Ok(self.pool_response(response, connection, slot)),
            Err(Failure::Failed(error)) => Err(error),
            Err(Failure::Unsent(why)) => Err(UpstreamError::never_sent(why)),
        }
    }

    /// How long a request may busy-poll. Only the one request in flight may, so that it delays no other.
    fn busy_poll_max(&self) -> Duration {
        if self.limits.is_lightly_loaded() { self.waits.busy_poll_max } else { Duration::ZERO }
    }

    fn pool_response(
        self: &Arc<Pool>,
        response: Response<BodySource>,
        mut connection: Box<Connection>,
        slot: ConnectionSlot,
    ) -> Response<ResponseBody> {
        // A second less than announced, for the latency.
        connection.keep_alive = keep_alive_seconds(response.headers())
            .map(|seconds| Duration::from_secs(seconds.saturating_sub(1)));
        let pooled = PooledConnection { connection, pool: Arc::clone(self), slot };
        response.map(|source| ResponseBody::new(source, pooled))
    }

    /// The connection used last, which is least likely to be closed. Only connections of this thread, because
    /// others would wake up their thread for every response.
    fn take_idle(&self) -> Option<Box<Connection>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let here = std::thread::current().id();
        let slot = idle.iter().rposition(|kept| kept.connection.home_thread == here)?;
        let newest = idle.remove(slot);
        let now = Instant::now();
        if now.saturating_duration_since(newest.since) > TRUSTED_IDLE {
            newest.connection.probe_before_use();
        }
        (newest.until > now).then_some(newest.connection)
    }

    fn keep(self: &Arc<Pool>, connection: Box<Connection>) {
        let keep_max = self.bounds.idle_keep_max;
        let keep = connection.keep_alive.map_or(keep_max, |keep_alive| keep_alive.min(keep_max));
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if keep.is_zero() || idle.len() >= self.bounds.idle_max {
            return;
        }
        let since = Instant::now();
        idle.push(IdleConnection { connection, since, until: since + keep });
        drop(idle);
        self.sweep_later();
    }

    /// Closes idle connections later. One sweeper runs while there are any.
    fn sweep_later(self: &Arc<Pool>) {
        if self.sweeping.swap(true, Ordering::AcqRel) {
            return;
        }
        let pool = Arc::downgrade(self);
        tokio::spawn(sweep(pool, self.bounds.idle_keep_max));
    }

    /// Closes expired connections. True if any are left.
    fn sweep(&self) -> bool {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        idle.retain(|kept| kept.until > now);
        if idle.is_empty() {
            // Under the lock, so that the next idle connection starts a new sweeper.
            self.sweeping.store(false, Ordering::Release);
        }
        !idle.is_empty()
    }
}

async fn sweep(pool: Weak<Pool>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        match pool.upgrade() {
            Some(pool) if pool.sweep() => {}
            _ => return,
        }
    }
}
