//! A TCP stream with three additions: it times out on a client that reads too slowly, it yields to
//! other tasks during long writes, and it busy-polls for the next request of a client that was just
//! answered.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use crate::runtime::bounds::Bounds;
use crate::runtime::response_buffer;

/// Bytes written before the task yields: the kernel takes megabytes at once, and copying them
/// blocks the thread for milliseconds.
const YIELD_AFTER_BYTES: usize = 256 * 1024;

/// While other large responses wait for the response buffer, a client that reads nothing for this
/// long is dropped to free its part.
const STALLED_MAX: Duration = Duration::from_secs(3);
/// The same for a client that reads a little now and then, but has been behind for this long.
const BEHIND_MAX: Duration = Duration::from_secs(15);

/// Whether to busy-poll for the next request.
#[derive(Clone, Default)]
pub(super) struct BusyPollFlag(Arc<AtomicBool>);

impl BusyPollFlag {
    pub(super) fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn end(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// A TCP stream whose blocked writes time out.
pub(super) struct ClientStream {
    stream: TcpStream,
    write_wait_max: Duration,
    /// An agent often sends its next request before a thread could go to sleep and wake up, so the only
    /// active connection is polled for this long.
    busy_poll_max: Duration,
    busy_poll: BusyPollFlag,
    /// The end of the current busy-poll.
    busy_poll_until: Option<Instant>,
    /// Bytes written since the last yield.
    bytes_since_yield: usize,
    /// Set while a write is blocked; cleared when the client reads again.
    blocked: Option<Blocked>,
    /// When a write first blocked since the client last read everything.
    behind_since: Option<Instant>,
}

struct Blocked {
    since: Instant,
    timer: Pin<Box<Sleep>>,
}

impl ClientStream {
    pub(super) fn new(stream: TcpStream, bounds: &Bounds, busy_poll: BusyPollFlag) -> ClientStream {
        ClientStream {
            stream,
            write_wait_max: bounds.write_wait_max,
            busy_poll_max: bounds.busy_poll_max,
            busy_poll,
            busy_poll_until: None,
            bytes_since_yield: 0,
            blocked: None,
            behind_since: None,
        }
    }

    fn may_busy_poll(&mut self) -> bool {
        let now = Instant::now();
        now < *self.busy_poll_until.get_or_insert(now + self.busy_poll_max)
    }

    /// Writes no more than may be written before the next yield.
    fn write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let left = YIELD_AFTER_BYTES - self.bytes_since_yield;
        let written = Pin::new(&mut self.stream)
            .poll_write(context, bytes.get(..left).unwrap_or(bytes))
            .map_ok(|written| {
                self.bytes_since_yield += written;
                written
            });
        self.watch(context, written)
    }

    /// Whether to yield before the next write. Wakes the task again.
    fn must_yield(&mut self, context: &Context<'_>) -> bool {
        let over = self.bytes_since_yield >= YIELD_AFTER_BYTES;
        if over {
            self.bytes_since_yield = 0;
            context.waker().wake_by_ref();
        }
        over
    }

    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.blocked = None;
            return written;
        }
        if self.has_timed_out(context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    }

    /// Whether a blocked write has timed out. If not, the task is woken to check again.
    fn has_timed_out(&mut self, context: &mut Context<'_>) -> bool {
        let now = Instant::now();
        let behind_since = *self.behind_since.get_or_insert(now);
        let check_after = response_buffer::CHECK_EVERY.min(self.write_wait_max);
        let blocked = self.blocked.get_or_insert_with(|| Blocked {
            since: now,
            timer: Box::pin(tokio::time::sleep(check_after)),
        });
        loop {
            let waited = now.duration_since(blocked.since);
            let is_stalled =
                waited >= STALLED_MAX || now.duration_since(behind_since) >= BEHIND_MAX;
            if waited >= self.write_wait_max || is_stalled && response_buffer::is_wanted() {
                return true;
            }
            if blocked.timer.as_mut().poll(context).is_pending() {
                return false;
            }
            let left = self.write_wait_max.saturating_sub(waited);
            let next = tokio::time::Instant::now() + check_after.min(left);
            blocked.timer.as_mut().reset(next);
        }
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if self.busy_poll.0.load(Ordering::Relaxed) {
            if read.is_pending() && self.may_busy_poll() {
                context.waker().wake_by_ref();
            } else {
                self.busy_poll.end();
                self.busy_poll_until = None;
            }
        }
        read
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.must_yield(context) {
            return Poll::Pending;
        }
        self.write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.must_yield(context) {
            return Poll::Pending;
        }
        let bytes: usize = slices.iter().map(|slice| slice.len()).sum();
        if self.bytes_since_yield + bytes > YIELD_AFTER_BYTES {
            let first = slices.iter().find(|slice| !slice.is_empty());
            return self.write(context, first.map_or(&[], |first| first));
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        // Consecutive small responses do not add up to a long write.
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.behind_since = None;
        self.watch(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
