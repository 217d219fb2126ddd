//! Lingering close: unread bytes make the system reset the connection, and many clients that get a
//! reset while writing never read the response.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long, and how much, is read and discarded after a response that came before the end of its
/// request.
const WAIT_MAX: Duration = Duration::from_secs(2);
const BYTES_MAX: usize = 32 << 20;
/// Bytes per poll, so that other tasks run in between.
const BYTES_PER_POLL: usize = 256 * 1024;

/// Drains the client's input before the connection closes.
pub(super) struct Linger {
    /// Whether a request was answered before it was read to its end.
    unread: Arc<AtomicBool>,
    until: Option<Pin<Box<Sleep>>>,
    read_bytes: usize,
}

impl Linger {
    pub(super) fn new(unread: Arc<AtomicBool>) -> Linger {
        Linger { unread, until: None, read_bytes: 0 }
    }

    pub(super) fn has_begun(&self) -> bool {
        self.until.is_some()
    }

    /// Ready at end of input or after the timeout.
    pub(super) fn poll<S>(&mut self, stream: &mut S, context: &mut Context<'_>) -> Poll<()>
    where
        S: AsyncRead + Unpin,
    {
        if !self.unread.load(Ordering::Relaxed) {
            return Poll::Ready(());
        }
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(WAIT_MAX)));
        if until.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        let mut bytes = [0; 8 * 1024];
        let poll_ends = self.read_bytes + BYTES_PER_POLL;
        while self.read_bytes < poll_ends {
            let mut buffer = ReadBuf::new(&mut bytes);
            let read = ready!(Pin::new(&mut *stream).poll_read(context, &mut buffer));
            self.read_bytes += buffer.filled().len();
            let is_over = read.is_err() || buffer.filled().is_empty();
            if is_over || self.read_bytes > BYTES_MAX {
                return Poll::Ready(());
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::future::poll_fn;

    use tokio::io::{AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::time::Instant;

    use super::*;

    async fn linger(unread: bool, mut server: DuplexStream) -> Duration {
        let began = Instant::now();
        let mut linger = Linger::new(Arc::new(AtomicBool::new(unread)));
        poll_fn(|context| linger.poll(&mut server, context)).await;
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_was_read_to_the_end_is_not_drained() {
        let (_client, server) = duplex(64);
        assert_eq!(linger(false, server).await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn remaining_input_is_read_to_its_end() {
        let (mut client, server) = duplex(64);
        let sends = async {
            client.write_all(&vec![0; BYTES_PER_POLL * 2]).await.unwrap();
            drop(client);
        };
        assert!(tokio::join!(linger(true, server), sends).0 < WAIT_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_exit_times_out() {
        let (_client, server) = duplex(64);
        assert_eq!(linger(true, server).await, WAIT_MAX);
        let (mut client, server) = duplex(BYTES_PER_POLL);
        let endless = async {
            let bytes = vec![0; BYTES_PER_POLL];
            while client.write_all(&bytes).await.is_ok() {}
        };
        assert!(tokio::join!(linger(true, server), endless).0 < WAIT_MAX);
    }
}
