//! A stream that gives up on a peer that takes too little for too long, that writes long answers in turns
//! with others, and that looks for the next request of a peer that was just answered before its thread
//! goes to sleep.

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

use crate::room;

/// An agent that was answered often has its next question ready within the time it takes a thread to
/// go to sleep and be woken again, so a lone conversation is looked at for so long before that.
const LOOK_FOR: Duration = Duration::from_micros(100);

/// So much is written before others get their turn: the system takes megabytes at once, and copying
/// them is milliseconds in which the thread does nothing else.
const TURN_BYTES: usize = 256 * 1024;

/// While large answers wait for room, a peer that takes nothing for so long is given up: what it does
/// not take is what they wait for.
const TAKES_NOTHING_MAX: Duration = Duration::from_secs(3);
/// And so is one that takes a little now and then, and is behind for so long.
const BEHIND_MAX: Duration = Duration::from_secs(15);

/// Whether to look for the next request before waiting to be told.
#[derive(Clone, Default)]
pub(super) struct Looks(Arc<AtomicBool>);

impl Looks {
    pub(super) fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn end(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// A TCP stream whose blocked writes end after a bounded wait.
pub(super) struct Patient {
    stream: TcpStream,
    write_wait_max: Duration,
    looks: Looks,
    /// Until when, once it has begun.
    looks_until: Option<Instant>,
    /// What was written since others had their turn.
    turn_bytes: usize,
    /// Armed while a write is blocked; a peer that reads again disarms it.
    blocked: Option<Blocked>,
    /// When a write was blocked first, since the peer last had all there was.
    behind_since: Option<Instant>,
}

struct Blocked {
    since: Instant,
    look: Pin<Box<Sleep>>,
}

impl Patient {
    pub(super) fn new(stream: TcpStream, write_wait_max: Duration, looks: Looks) -> Patient {
        Patient {
            stream,
            write_wait_max,
            looks,
            looks_until: None,
            turn_bytes: 0,
            blocked: None,
            behind_since: None,
        }
    }

    fn has_time_to_look(&mut self) -> bool {
        let now = Instant::now();
        now < *self.looks_until.get_or_insert(now + LOOK_FOR)
    }

    /// Writes no more than is left of this turn.
    fn write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let left = TURN_BYTES - self.turn_bytes;
        let written = Pin::new(&mut self.stream)
            .poll_write(context, bytes.get(..left).unwrap_or(bytes))
            .map_ok(|written| {
                self.turn_bytes += written;
                written
            });
        self.watch(context, written)
    }

    /// Whether others must have their turn before the next write; then the task is woken for it.
    fn lets_others(&mut self, context: &Context<'_>) -> bool {
        let over = self.turn_bytes >= TURN_BYTES;
        if over {
            self.turn_bytes = 0;
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
        if self.is_given_up(context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    }

    /// Whether a peer whose write is blocked has been waited for long enough. If not, the task is woken
    /// to look again.
    fn is_given_up(&mut self, context: &mut Context<'_>) -> bool {
        let now = Instant::now();
        let behind_since = *self.behind_since.get_or_insert(now);
        let look_after = room::LOOK_EVERY.min(self.write_wait_max);
        let blocked = self.blocked.get_or_insert_with(|| Blocked {
            since: now,
            look: Box::pin(tokio::time::sleep(look_after)),
        });
        loop {
            let waited = now.duration_since(blocked.since);
            let in_the_way =
                waited >= TAKES_NOTHING_MAX || now.duration_since(behind_since) >= BEHIND_MAX;
            if waited >= self.write_wait_max || in_the_way && room::is_wanted() {
                return true;
            }
            if blocked.look.as_mut().poll(context).is_pending() {
                return false;
            }
            let left = self.write_wait_max.saturating_sub(waited);
            let next = tokio::time::Instant::now() + look_after.min(left);
            blocked.look.as_mut().reset(next);
        }
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if self.looks.0.load(Ordering::Relaxed) {
            if read.is_pending() && self.has_time_to_look() {
                context.waker().wake_by_ref();
            } else {
                self.looks.end();
                self.looks_until = None;
            }
        }
        read
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.lets_others(context) {
            return Poll::Pending;
        }
        self.write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.lets_others(context) {
            return Poll::Pending;
        }
        let bytes: usize = slices.iter().map(|slice| slice.len()).sum();
        if self.turn_bytes + bytes > TURN_BYTES {
            let first = slices.iter().find(|slice| !slice.is_empty());
            return self.write(context, first.map_or(&[], |first| first));
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        // Small answers that follow each other are not one turn.
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
