//! The connections to one server: kept while idle, bounded in number, and never trusted after a rest.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use hyper::{HeaderMap, Request, Response};
use tokio::time::Instant;

use super::body::{Body, Source};
use super::connection::{Connection, Failure};
use super::dial::Dialer;
use super::error::UpstreamError;
use super::headers::keep_alive_seconds;
use super::message::Patience;
use super::options::{HttpBounds, Waits};
use super::places::{Part, Place, Places, Purpose};

/// Under load the runtime has looked at a socket that rested less than this since its last answer, so a
/// server that hung up was noticed; after a longer rest the socket itself is asked.
const TRUSTED_FOR: Duration = Duration::from_millis(1);

/// The connections to one server.
pub(super) struct Pool {
    dialer: Dialer,
    idle: Mutex<Vec<Idle>>,
    pub(super) places: Places,
    sweeping: AtomicBool,
    waits: Waits,
    bounds: HttpBounds,
}

struct Idle {
    connection: Box<Connection>,
    since: Instant,
    until: Instant,
}

/// A connection in use, and its place in the count.
pub(super) struct Lease {
    connection: Box<Connection>,
    pool: Arc<Pool>,
    place: Place,
}

impl Lease {
    pub(super) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Returns a connection whose answer was read to the end, if it is fit for another request.
    pub(super) fn give_back(mut self) {
        if self.connection.comes_to_rest() {
            let Lease { connection, pool, place } = self;
            drop(place);
            pool.keep(connection);
        }
    }
}

impl Pool {
    pub(super) fn new(dialer: Dialer, waits: &Waits, bounds: &HttpBounds) -> Arc<Pool> {
        Arc::new(Pool {
            dialer,
            idle: Mutex::new(Vec::new()),
            places: Places::new(waits, bounds),
            sweeping: AtomicBool::new(false),
            waits: waits.clone(),
            bounds: bounds.clone(),
        })
    }

    pub(super) fn dialer(&self) -> &Dialer {
        &self.dialer
    }

    /// Connections kept for the next request.
    pub(super) fn idle_count(&self) -> usize {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Sends a request on a kept connection or a fresh one; it is made with an empty table for its
    /// headers. It is made again, on a fresh connection and once, only if not one byte of it left on
    /// the kept one.
    pub(super) async fn exchange(
        self: &Arc<Pool>,
        part: &Part,
        purpose: Purpose,
        stays_open: bool,
        (began, patience): (Instant, Option<&Patience>),
        make_request: impl Fn(HeaderMap) -> Request<Bytes>,
    ) -> Result<Response<Body>, UpstreamError> {
        let place = self.places.take(part, purpose).await?;
        if let Some(mut connection) = self.take_idle() {
            connection.deadline.start(&self.waits, began, stays_open, patience);
            let table = std::mem::take(&mut connection.table);
            match connection.exchange(make_request(table), self.is_calm()).await {
                Ok(response) => return Ok(self.leased(response, connection, place)),
                Err(Failure::Failed(error)) => return Err(error),
                Err(Failure::Unsent(_)) => {}
            }
        }
        // In one place as long as it lives: it changes hands several times for each request.
        let mut connection = Box::new(Box::pin(self.dialer.dial()).await?);
        connection.deadline.start(&self.waits, began, stays_open, patience);
        match connection.exchange(make_request(HeaderMap::new()), self.is_calm()).await {
            Ok(response) => Ok(self.leased(response, connection, place)),
            Err(Failure::Failed(error)) => Err(error),
            Err(Failure::Unsent(why)) => Err(UpstreamError::never_sent(why)),
        }
    }

    /// Whether this is the only request under way, so that nobody is kept waiting by one that looks
    /// for its answer for a moment instead of going to sleep.
    fn is_calm(&self) -> bool {
        self.places.is_calm()
    }

    fn leased(
        self: &Arc<Pool>,
        response: Response<Source>,
        mut connection: Box<Connection>,
        place: Place,
    ) -> Response<Body> {
        // A second less than announced, for the way there.
        connection.keeps = keep_alive_seconds(response.headers())
            .map(|seconds| Duration::from_secs(seconds.saturating_sub(1)));
        let lease = Lease { connection, pool: Arc::clone(self), place };
        response.map(|source| Body::new(source, lease))
    }

    /// The connection used last, which is the one least likely to have been closed; of those opened on
    /// this thread, because one of another thread would wake that thread for every answer.
    fn take_idle(&self) -> Option<Box<Connection>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let here = std::thread::current().id();
        let place = idle.iter().rposition(|kept| kept.connection.home == here)?;
        let newest = idle.remove(place);
        let now = Instant::now();
        if now.saturating_duration_since(newest.since) > TRUSTED_FOR {
            newest.connection.distrust();
        }
        (newest.until > now).then_some(newest.connection)
    }

    fn keep(self: &Arc<Pool>, connection: Box<Connection>) {
        let keep_max = self.bounds.idle_keep_max;
        let keep = connection.keeps.map_or(keep_max, |keeps| keeps.min(keep_max));
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if keep.is_zero() || idle.len() >= self.bounds.idle_max {
            return;
        }
        let since = Instant::now();
        idle.push(Idle { connection, since, until: since + keep });
        drop(idle);
        self.sweep_later();
    }

    /// Closes what nobody came back for. One sweeper lives while anything is idle.
    fn sweep_later(self: &Arc<Pool>) {
        if self.sweeping.swap(true, Ordering::AcqRel) {
            return;
        }
        let pool = Arc::downgrade(self);
        tokio::spawn(sweep(pool, self.bounds.idle_keep_max));
    }

    /// Whether anything is left to sweep later.
    fn sweep(&self) -> bool {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        idle.retain(|kept| kept.until > now);
        if idle.is_empty() {
            // Under the lock, so that whoever keeps the next one starts a new sweeper.
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
