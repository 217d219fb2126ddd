//! A stream for hyper whose request was already sent and whose response was partly read by the fast path.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::socket::{Socket, SocketMonitor, TcpOrTls};

pub(super) struct PrereadStream {
    stream: TcpOrTls,
    monitor: Arc<SocketMonitor>,
    /// Bytes that were read and not passed to hyper yet.
    read: Bytes,
    /// Whether hyper has written its request. It gets no response before that.
    has_written: bool,
}

impl PrereadStream {
    pub(super) fn new(stream: TcpOrTls, monitor: Arc<SocketMonitor>, read: Bytes) -> PrereadStream {
        let has_written = !monitor.was_sent_before();
        PrereadStream { stream, monitor, read, has_written }
    }

    /// The socket, unless it uses TLS or has unread bytes.
    pub(super) fn into_socket(self) -> Option<Socket> {
        match self.stream {
            TcpOrTls::Plain(socket) if self.read.is_empty() => Some(socket),
            _ => None,
        }
    }

    /// Whether the bytes that hyper writes now were already sent.
    fn was_sent_before(&mut self, cx: &Context<'_>) -> bool {
        let was_sent_before = self.monitor.was_sent_before();
        if was_sent_before && !self.has_written {
            self.has_written = true;
            // The bytes that were read can be passed on now.
            cx.waker().wake_by_ref();
        }
        was_sent_before
    }
}

impl AsyncRead for PrereadStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.has_written {
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

impl AsyncWrite for PrereadStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.was_sent_before(cx) {
            return Poll::Ready(Ok(buf.len()));
        }
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.was_sent_before(cx) {
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
