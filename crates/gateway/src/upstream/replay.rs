//! A stream for hyper on which something happened before: the request that hyper is about to write left
//! already, and some of what was said to it was read already.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::socket::{Socket, Stream, Tap};

pub(super) struct Replay {
    stream: Stream,
    tap: Arc<Tap>,
    /// Read already, and not yet by hyper.
    read: Bytes,
    /// Whether hyper has written anything; nobody hears an answer before asking.
    asked: bool,
}

impl Replay {
    pub(super) fn new(stream: Stream, tap: Arc<Tap>, read: Bytes) -> Replay {
        let asked = !tap.has_left();
        Replay { stream, tap, read, asked }
    }

    /// The socket, unless it is behind TLS or something read from it was not heard.
    pub(super) fn into_socket(self) -> Option<Socket> {
        match self.stream {
            Stream::Plain(socket) if self.read.is_empty() => Some(socket),
            _ => None,
        }
    }

    /// Whether what is written now left before.
    fn has_left(&mut self, cx: &Context<'_>) -> bool {
        let left = self.tap.has_left();
        if left && !self.asked {
            self.asked = true;
            // What was read can be heard now.
            cx.waker().wake_by_ref();
        }
        left
    }
}

impl AsyncRead for Replay {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.asked {
            return Poll::Pending;
        }
        if self.read.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let bytes = self.read.len().min(buf.remaining());
        buf.put_slice(self.read.get(..bytes).unwrap_or_default());
        self.read.advance(bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Replay {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.has_left(cx) {
            return Poll::Ready(Ok(buf.len()));
        }
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.has_left(cx) {
            return Poll::Ready(Ok(bufs.iter().map(|buf| buf.len()).sum()));
        }
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
