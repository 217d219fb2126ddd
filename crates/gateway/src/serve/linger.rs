//! The end of a connection whose client is still sending. Bytes that nobody reads make the system reset the
//! connection, and many a client that meets this while it writes never looks for the answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Sleep, sleep};

/// So long and so much is read and thrown away behind an answer that came before the end of its request.
const WAIT_MAX: Duration = Duration::from_secs(2);
const BYTES_MAX: usize = 32 << 20;
/// So much at a time, then others have their turn.
const TURN_BYTES: usize = 256 * 1024;

/// What is left to do when both sides could hang up.
pub(super) struct Linger {
    /// Whether a request was answered that was not read to its end.
    left: Arc<AtomicBool>,
    until: Option<Pin<Box<Sleep>>>,
    read_bytes: usize,
}

impl Linger {
    pub(super) fn new(left: Arc<AtomicBool>) -> Linger {
        Linger { left, until: None, read_bytes: 0 }
    }

    pub(super) fn has_begun(&self) -> bool {
        self.until.is_some()
    }

    /// Ready when the client has sent all it had, or had its time.
    pub(super) fn poll<S>(&mut self, stream: &mut S, context: &mut Context<'_>) -> Poll<()>
    where
        S: AsyncRead + Unpin,
    {
        if !self.left.load(Ordering::Relaxed) {
            return Poll::Ready(());
        }
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(WAIT_MAX)));
        if until.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        let mut bytes = [0; 8 * 1024];
        let turn_ends = self.read_bytes + TURN_BYTES;
        while self.read_bytes < turn_ends {
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

    async fn linger(left: bool, mut server: DuplexStream) -> Duration {
        let began = Instant::now();
        let mut linger = Linger::new(Arc::new(AtomicBool::new(left)));
        poll_fn(|context| linger.poll(&mut server, context)).await;
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_was_read_to_the_end_is_not_waited_for() {
        let (_client, server) = duplex(64);
        assert_eq!(linger(false, server).await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_client_still_sends_is_read_to_its_end() {
        let (mut client, server) = duplex(64);
        let sends = async {
            client.write_all(&vec![0; TURN_BYTES * 2]).await.unwrap();
            drop(client);
        };
        assert!(tokio::join!(linger(true, server), sends).0 < WAIT_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_end_is_given_up() {
        let (_client, server) = duplex(64);
        assert_eq!(linger(true, server).await, WAIT_MAX);
        let (mut client, server) = duplex(TURN_BYTES);
        let endless = async {
            let bytes = vec![0; TURN_BYTES];
            while client.write_all(&bytes).await.is_ok() {}
        };
        assert!(tokio::join!(linger(true, server), endless).0 < WAIT_MAX);
    }
}
