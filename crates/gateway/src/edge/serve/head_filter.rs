//! The stream that hyper reads from. Every request head is checked before hyper sees it, because
//! hyper answers malformed ones without a message and accepts some of them.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use hyper::Request;
use hyper::body::Incoming;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::half_close::{HalfCloseProbe, Phase, SharedPhase};
use super::head_check::{self, Fault, HeadCheck};
use super::linger::Linger;
use crate::runtime::bounds::Bounds;

/// A placeholder that hyper reads instead of a refused request, so that its response comes in
/// order.
const PLACEHOLDER: &[u8] = b"REFUSED / HTTP/1.1\r\n\r\n";
const PLACEHOLDER_METHOD: &str = "REFUSED";

/// The fault of the refused request. Nothing after that request is read.
#[derive(Clone, Default)]
pub(super) struct RefusedHead(Arc<OnceLock<Fault>>);

impl RefusedHead {
    /// The fault, if this is the placeholder of the refused request.
    pub(super) fn fault(&self, request: &Request<Incoming>) -> Option<Fault> {
        (request.method().as_str() == PLACEHOLDER_METHOD).then(|| self.0.get().copied())?
    }
}

pub(super) struct HeadFilter<S> {
    stream: S,
    bounds: Arc<Bounds>,
    /// Read from the stream, but not yet by hyper.
    read: BytesMut,
    position: Position,
    /// Runs while only a part of a head was received.
    timeout: Option<Pin<Box<Sleep>>>,
    refused: RefusedHead,
    /// Set when bytes arrive, to distinguish a slow client from an idle one.
    has_input: Arc<AtomicBool>,
    linger: Linger,
    phase: SharedPhase,
    /// Probes the client after it closed its sending side.
    half_closed: HalfCloseProbe,
}

/// The position of the next byte for hyper.
#[derive(Clone, Copy)]
enum Position {
    /// In a head, of which this many bytes were checked.
    Head { checked: usize },
    /// In a valid request, this many bytes before its end.
    Request { left: u64 },
    /// In a chunked body. The connection closes after its response, so no further head follows.
    Chunks,
    /// After the last request of this connection.
    Done,
}

impl<S> HeadFilter<S> {
    pub(super) fn new(
        stream: S,
        read: Bytes,
        bounds: Arc<Bounds>,
        has_input: Arc<AtomicBool>,
        linger: Linger,
        phase: SharedPhase,
    ) -> HeadFilter<S> {
        let (read, position, refused) =
            (read.into(), Position::Head { checked: 0 }, RefusedHead::default());
        let half_closed = HalfCloseProbe::default();
        HeadFilter {
            stream,
            bounds,
            read,
            position,
            timeout: None,
            refused,
            has_input,
            linger,
            phase,
            half_closed,
        }
    }

    pub(super) fn refused(&self) -> RefusedHead {
        self.refused.clone()
    }

    /// Checks the received part of a head.
    fn check(&mut self, checked: usize) {
        let unchecked = self.read.get(checked..).unwrap_or_default();
        let is_large = self.read.len() > self.bounds.header_bytes_max;
        // A slow head is checked per line, not per byte.
        let found = if checked == 0 || is_large || memchr::memchr(b'\n', unchecked).is_some() {
            head_check::check(&self.read, &self.bounds)
        } else {
            HeadCheck::Partial
        };
        if found != HeadCheck::Partial {
            self.timeout = None;
        }
        self.position = match found {
            HeadCheck::Partial => Position::Head { checked: self.read.len() },
            HeadCheck::Sized { bytes } => Position::Request { left: bytes },
            HeadCheck::InChunks => Position::Chunks,
            HeadCheck::Faulty(fault) => return self.refuse(fault),
        };
    }

    /// Replaces the current request with the placeholder.
    fn refuse(&mut self, fault: Fault) {
        // Set at most once, because nothing after it is checked.
        let _ = self.refused.0.set(fault);
        self.read = PLACEHOLDER.into();
        self.position = Position::Request { left: PLACEHOLDER.len() as u64 };
    }

    /// Ready when a partial head has timed out.
    fn poll_timeout(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.read.is_empty() {
            return Poll::Pending;
        }
        let wait = self.bounds.header_wait_max;
        self.timeout.get_or_insert_with(|| Box::pin(sleep(wait))).as_mut().poll(context)
    }

    /// Passes up to `left` buffered bytes to hyper.
    fn pass_to_hyper(&mut self, left: u64, buffer: &mut ReadBuf<'_>) -> u64 {
        let most = usize::try_from(left).unwrap_or(usize::MAX);
        let bytes = self.read.len().min(buffer.remaining()).min(most);
        buffer.put_slice(self.read.get(..bytes).unwrap_or_default());
        self.read.advance(bytes);
        if self.read.is_empty() {
            // Release the buffer: most connections are idle for long.
            self.read = BytesMut::new();
        }
        bytes as u64
    }
}

impl<S: AsyncRead + Unpin> HeadFilter<S> {
    /// Reads into `buffer` and returns the number of bytes.
    fn poll_stream(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        self.has_input.store(true, Ordering::Relaxed);
        Poll::Ready(Ok(buffer.filled().len() - before))
    }

    /// Moves the bytes after `from` back to our own buffer, because hyper may not see them yet.
    fn hold_back(&mut self, from: usize, buffer: &mut ReadBuf<'_>) {
        self.read.extend_from_slice(buffer.filled().get(from..).unwrap_or_default());
        buffer.set_filled(from);
    }
}

impl<S: AsyncWrite + Unpin> HeadFilter<S> {
    /// End of input. While its request is handled the client may still read.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.phase.is(Phase::Responding) || self.phase.is(Phase::RespondingHalfClosed) {
            self.phase.set(Phase::RespondingHalfClosed);
            return Poll::Pending;
        }
        if self.phase.is(Phase::Handling) && !self.half_closed.is_gone(&mut self.stream, context) {
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for HeadFilter<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        loop {
            match this.position {
                Position::Done => return Poll::Pending,
                Position::Head { checked } if this.read.len() > checked => this.check(checked),
                Position::Head { .. } => match this.poll_stream(context, buffer)? {
                    Poll::Ready(0) => return this.poll_end(context),
                    Poll::Ready(_) => this.hold_back(before, buffer),
                    Poll::Pending => {
                        ready!(this.poll_timeout(context));
                        this.refuse(Fault::TOO_SLOW);
                    }
                },
                Position::Request { left: 0 } if this.refused.0.get().is_some() => {
                    this.position = Position::Done;
                }
                Position::Request { left: 0 } => this.position = Position::Head { checked: 0 },
                Position::Request { left } if !this.read.is_empty() => {
                    let given = this.pass_to_hyper(left, buffer);
                    this.position = Position::Request { left: left - given };
                    return Poll::Ready(Ok(()));
                }
                Position::Request { left } => {
                    let came = ready!(this.poll_stream(context, buffer))?;
                    let passes = usize::try_from(left).unwrap_or(usize::MAX).min(came);
                    this.hold_back(before + passes, buffer);
                    this.position = Position::Request { left: left - passes as u64 };
                    return Poll::Ready(Ok(()));
                }
                Position::Chunks if !this.read.is_empty() => {
                    this.pass_to_hyper(u64::MAX, buffer);
                    return Poll::Ready(Ok(()));
                }
                // hyper tracks the end of the chunks and times out on a missing one.
                Position::Chunks => match ready!(this.poll_stream(context, buffer))? {
                    0 => return this.poll_end(context),
                    _ => return Poll::Ready(Ok(())),
                },
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for HeadFilter<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.linger.has_begun() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
        }
        this.linger.poll(&mut this.stream, context).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use store::settings::Limits;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    const POST: &str = "POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}";

    /// What hyper reads of these bytes, of which `early` were read before and the others arrive in
    /// pieces, and the fault found.
    async fn read(sent: &str, early: usize, piece: usize) -> (String, Option<Fault>) {
        let (mut client, server) = duplex(piece);
        let bounds = Arc::new(Bounds::from_limits(&Limits::default()));
        let (early, late) = sent.as_bytes().split_at(early.min(sent.len()));
        let (has_input, linger) = (Arc::default(), Linger::new(Arc::default()));
        let early = Bytes::copy_from_slice(early);
        let mut filter =
            HeadFilter::new(server, early, bounds, has_input, linger, SharedPhase::default());
        let refused = filter.refused();
        let reads = async move {
            let (mut all, mut some) = (Vec::new(), [0; 7]);
            // After a refused request nothing is read, not even end of input.
            while !all.ends_with(PLACEHOLDER) {
                let bytes = filter.read(&mut some).await.unwrap();
                if bytes == 0 {
                    break;
                }
                all.extend_from_slice(some.get(..bytes).unwrap());
            }
            String::from_utf8(all).unwrap()
        };
        let writes = async {
            // The reader may be gone.
            let _ = client.write_all(late).await;
            drop(client);
        };
        let (all, ()) = tokio::join!(reads, writes);
        (all, refused.0.get().copied())
    }

    #[tokio::test]
    async fn valid_requests_pass_and_invalid_ones_are_replaced() {
        let two = "POST /mcp HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}";
        let get = "GET /mcp HTTP/1.1\r\nHost: a\r\n\r\n";
        let chunks = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\njunk";
        let large = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "a".repeat(33 << 10));
        let placeholder = std::str::from_utf8(PLACEHOLDER).unwrap();
        let unclear = Some(Fault::UNCLEAR_LENGTH);
        let cases = [
            (POST.to_owned(), POST.to_owned(), None),
            (POST.repeat(3), POST.repeat(3), None),
            (format!("{POST}{get}{POST}"), format!("{POST}{get}{POST}"), None),
            (format!("{POST}{chunks}"), format!("{POST}{chunks}"), None),
            (two.to_owned(), placeholder.to_owned(), unclear),
            (format!("{POST}{two}{POST}"), format!("{POST}{placeholder}"), unclear),
            (format!("{get}EHLO x\r\n"), format!("{get}{placeholder}"), Some(Fault::BROKEN)),
            (format!("{get}{large}"), format!("{get}{placeholder}"), Some(Fault::TOO_LARGE)),
            // A connection that ends within a head sent no request.
            (format!("{POST}POST /mcp HT"), POST.to_owned(), None),
        ];
        for (sent, expected, fault) in &cases {
            for (early, piece) in [(0, 1), (20, 3), (60, 1 << 16), (sent.len(), 1)] {
                let (all, found) = read(sent, early, piece).await;
                assert_eq!(&all, expected, "{early} {piece}");
                assert_eq!(&found, fault, "{early} {piece} {sent}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_head_is_replaced_and_an_idle_client_is_kept() {
        let (mut client, server) = duplex(1 << 10);
        let bounds = Arc::new(Bounds::from_limits(&Limits::default()));
        let wait = bounds.header_wait_max;
        let (has_input, linger) = (Arc::default(), Linger::new(Arc::default()));
        let mut filter = HeadFilter::new(
            server,
            Bytes::new(),
            bounds,
            has_input,
            linger,
            SharedPhase::default(),
        );
        let refused = filter.refused();
        let mut some = [0; 100];
        assert!(
            tokio::time::timeout(wait * 3, filter.read(&mut some)).await.is_err(),
            "it is idle"
        );
        // More bytes do not restart the timeout.
        client.write_all(b"POST").await.unwrap();
        assert!(tokio::time::timeout(wait * 2 / 3, filter.read(&mut some)).await.is_err());
        client.write_all(b" /mc").await.unwrap();
        let late = tokio::time::timeout(wait / 2, filter.read(&mut some)).await;
        let bytes = late.unwrap().unwrap();
        assert_eq!(some.get(..bytes), Some(PLACEHOLDER));
        assert_eq!(refused.0.get(), Some(&Fault::TOO_SLOW));
    }
}
