//! The stream that hyper reads: it holds what was read before, and every head on it is looked at before
//! hyper sees it, because hyper answers broken ones without a word and carries some of them out.

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

use super::fault::{self, Fault, Looked};
use super::half::{HalfClosed, Talk, Turn};
use super::linger::Linger;
use crate::bounds::Bounds;

/// What hyper reads in place of a request that is refused, so that the answer to it comes in its turn.
const IN_PLACE: &[u8] = b"REFUSED / HTTP/1.1\r\n\r\n";
const METHOD_IN_PLACE: &str = "REFUSED";

/// What is wrong with the request behind which nothing is read.
#[derive(Clone, Default)]
pub(super) struct Refused(Arc<OnceLock<Fault>>);

impl Refused {
    /// The fault, if this is what stands in place of the request that has it.
    pub(super) fn fault(&self, request: &Request<Incoming>) -> Option<Fault> {
        (request.method().as_str() == METHOD_IN_PLACE).then(|| self.0.get().copied())?
    }
}

pub(super) struct Heads<S> {
    stream: S,
    bounds: Arc<Bounds>,
    /// Read, and not yet by hyper.
    read: BytesMut,
    at: At,
    /// Runs while a part of a head is all there is.
    slow: Option<Pin<Box<Sleep>>>,
    refused: Refused,
    /// Set when something is read, so that a peer that is slow is told from one that says nothing.
    heard: Arc<AtomicBool>,
    linger: Linger,
    talk: Talk,
    /// Set when the client has closed its sending side while it is answered.
    half_closed: HalfClosed,
}

/// Where in the conversation the next byte for hyper is.
#[derive(Clone, Copy)]
enum At {
    /// In a head; so much of what was read of it was looked at.
    Head { looked: usize },
    /// In a request that may pass, so many bytes before its end.
    Request { left: u64 },
    /// In chunks. The connection ends with the answer to them, so no further head will come.
    Chunks,
    /// Behind the last request that is answered.
    Over,
}

impl<S> Heads<S> {
    pub(super) fn new(
        stream: S,
        read: Bytes,
        bounds: Arc<Bounds>,
        heard: Arc<AtomicBool>,
        linger: Linger,
        talk: Talk,
    ) -> Heads<S> {
        let (read, at, refused) = (read.into(), At::Head { looked: 0 }, Refused::default());
        let half_closed = HalfClosed::default();
        Heads { stream, bounds, read, at, slow: None, refused, heard, linger, talk, half_closed }
    }

    pub(super) fn refused(&self) -> Refused {
        self.refused.clone()
    }

    /// Looks at a head as far as it came.
    fn look(&mut self, looked: usize) {
        let news = self.read.get(looked..).unwrap_or_default();
        let is_large = self.read.len() > self.bounds.header_bytes_max;
        // A slow head is looked at line by line, not byte by byte.
        let found = if looked == 0 || is_large || memchr::memchr(b'\n', news).is_some() {
            fault::of(&self.read, &self.bounds)
        } else {
            Looked::Partial
        };
        if found != Looked::Partial {
            self.slow = None;
        }
        self.at = match found {
            Looked::Partial => At::Head { looked: self.read.len() },
            Looked::Sized { bytes } => At::Request { left: bytes },
            Looked::InChunks => At::Chunks,
            Looked::Faulty(fault) => return self.refuse(fault),
        };
    }

    /// Lets hyper read another request in place of the one that is being read.
    fn refuse(&mut self, fault: Fault) {
        // It is set once, because nothing is looked at behind it.
        let _ = self.refused.0.set(fault);
        self.read = IN_PLACE.into();
        self.at = At::Request { left: IN_PLACE.len() as u64 };
    }

    /// Ready when a head that has begun took too long.
    fn poll_slow(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.read.is_empty() {
            return Poll::Pending;
        }
        let wait = self.bounds.header_wait_max;
        self.slow.get_or_insert_with(|| Box::pin(sleep(wait))).as_mut().poll(context)
    }

    /// Gives hyper what may pass of what was read.
    fn give(&mut self, left: u64, buffer: &mut ReadBuf<'_>) -> u64 {
        let most = usize::try_from(left).unwrap_or(usize::MAX);
        let bytes = self.read.len().min(buffer.remaining()).min(most);
        buffer.put_slice(self.read.get(..bytes).unwrap_or_default());
        self.read.advance(bytes);
        if self.read.is_empty() {
            // Most connections rest here for long.
            self.read = BytesMut::new();
        }
        bytes as u64
    }
}

impl<S: AsyncRead + Unpin> Heads<S> {
    /// Reads what comes next into `buffer`, and says how much that was.
    fn poll_more(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        self.heard.store(true, Ordering::Relaxed);
        Poll::Ready(Ok(buffer.filled().len() - before))
    }

    /// Keeps back what hyper may not see yet, from `from` on.
    fn keep_back(&mut self, from: usize, buffer: &mut ReadBuf<'_>) {
        self.read.extend_from_slice(buffer.filled().get(from..).unwrap_or_default());
        buffer.set_filled(from);
    }
}

impl<S: AsyncWrite + Unpin> Heads<S> {
    /// The end of what the client sends. While it is answered it may still read.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.talk.is(Turn::Speaking) || self.talk.is(Turn::SpeakingOnly) {
            self.talk.turns(Turn::SpeakingOnly);
            return Poll::Pending;
        }
        if self.talk.is(Turn::Answering) && !self.half_closed.is_gone(&mut self.stream, context) {
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Heads<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        loop {
            match this.at {
                At::Over => return Poll::Pending,
                At::Head { looked } if this.read.len() > looked => this.look(looked),
                At::Head { .. } => match this.poll_more(context, buffer)? {
                    Poll::Ready(0) => return this.poll_end(context),
                    Poll::Ready(_) => this.keep_back(before, buffer),
                    Poll::Pending => {
                        ready!(this.poll_slow(context));
                        this.refuse(Fault::TOO_SLOW);
                    }
                },
                At::Request { left: 0 } if this.refused.0.get().is_some() => this.at = At::Over,
                At::Request { left: 0 } => this.at = At::Head { looked: 0 },
                At::Request { left } if !this.read.is_empty() => {
                    let given = this.give(left, buffer);
                    this.at = At::Request { left: left - given };
                    return Poll::Ready(Ok(()));
                }
                At::Request { left } => {
                    let came = ready!(this.poll_more(context, buffer))?;
                    let passes = usize::try_from(left).unwrap_or(usize::MAX).min(came);
                    this.keep_back(before + passes, buffer);
                    this.at = At::Request { left: left - passes as u64 };
                    return Poll::Ready(Ok(()));
                }
                At::Chunks if !this.read.is_empty() => {
                    this.give(u64::MAX, buffer);
                    return Poll::Ready(Ok(()));
                }
                // Whether all chunks came hyper knows; one that is missing is waited for as any other.
                At::Chunks => match ready!(this.poll_more(context, buffer))? {
                    0 => return this.poll_end(context),
                    _ => return Poll::Ready(Ok(())),
                },
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Heads<S> {
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

    /// What hyper reads of these bytes, of which some were read before and the others come in pieces, and
    /// what is wrong with them.
    async fn read(sent: &str, early: usize, piece: usize) -> (String, Option<Fault>) {
        let (mut client, server) = duplex(piece);
        let bounds = Arc::new(Bounds::from_limits(&Limits::default()));
        let (early, late) = sent.as_bytes().split_at(early.min(sent.len()));
        let (heard, linger) = (Arc::default(), Linger::new(Arc::default()));
        let early = Bytes::copy_from_slice(early);
        let mut heads = Heads::new(server, early, bounds, heard, linger, Talk::default());
        let refused = heads.refused();
        let reads = async move {
            let (mut all, mut some) = (Vec::new(), [0; 7]);
            // Behind what is refused nothing is read, not even the end.
            while !all.ends_with(IN_PLACE) {
                let bytes = heads.read(&mut some).await.unwrap();
                if bytes == 0 {
                    break;
                }
                all.extend_from_slice(some.get(..bytes).unwrap());
            }
            String::from_utf8(all).unwrap()
        };
        let writes = async {
            // Nobody may be there to take it.
            let _ = client.write_all(late).await;
            drop(client);
        };
        let (all, ()) = tokio::join!(reads, writes);
        (all, refused.0.get().copied())
    }

    #[tokio::test]
    async fn what_is_right_passes_and_what_is_not_is_replaced() {
        let two = "POST /mcp HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}";
        let get = "GET /mcp HTTP/1.1\r\nHost: a\r\n\r\n";
        let chunks = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\njunk";
        let large = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "a".repeat(33 << 10));
        let in_place = std::str::from_utf8(IN_PLACE).unwrap();
        let unclear = Some(Fault::UNCLEAR_LENGTH);
        let cases = [
            (POST.to_owned(), POST.to_owned(), None),
            (POST.repeat(3), POST.repeat(3), None),
            (format!("{POST}{get}{POST}"), format!("{POST}{get}{POST}"), None),
            (format!("{POST}{chunks}"), format!("{POST}{chunks}"), None),
            (two.to_owned(), in_place.to_owned(), unclear),
            (format!("{POST}{two}{POST}"), format!("{POST}{in_place}"), unclear),
            (format!("{get}EHLO x\r\n"), format!("{get}{in_place}"), Some(Fault::BROKEN)),
            (format!("{get}{large}"), format!("{get}{in_place}"), Some(Fault::TOO_LARGE)),
            // Whoever ends in a head has asked for nothing.
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
    async fn a_head_that_takes_too_long_is_replaced_and_a_client_that_rests_is_not() {
        let (mut client, server) = duplex(1 << 10);
        let bounds = Arc::new(Bounds::from_limits(&Limits::default()));
        let wait = bounds.header_wait_max;
        let (heard, linger) = (Arc::default(), Linger::new(Arc::default()));
        let mut heads = Heads::new(server, Bytes::new(), bounds, heard, linger, Talk::default());
        let refused = heads.refused();
        let mut some = [0; 100];
        assert!(tokio::time::timeout(wait * 3, heads.read(&mut some)).await.is_err(), "it rests");
        // However often a little more comes.
        client.write_all(b"POST").await.unwrap();
        assert!(tokio::time::timeout(wait * 2 / 3, heads.read(&mut some)).await.is_err());
        client.write_all(b" /mc").await.unwrap();
        let late = tokio::time::timeout(wait / 2, heads.read(&mut some)).await;
        let bytes = late.unwrap().unwrap();
        assert_eq!(some.get(..bytes), Some(IN_PLACE));
        assert_eq!(refused.0.get(), Some(&Fault::TOO_SLOW));
    }
}
