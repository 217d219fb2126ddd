//! A stream of which something was read before.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::linger::Linger;

pub(super) struct Replay<S> {
    pub(super) stream: S,
    /// Read before, and not yet by whoever reads now.
    pub(super) read: Bytes,
    /// Set when something is read, so that a peer that is slow is told from one that says nothing.
    pub(super) heard: Arc<AtomicBool>,
    pub(super) linger: Linger,
}

impl<S: AsyncRead + Unpin> AsyncRead for Replay<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read.is_empty() {
            let read = Pin::new(&mut self.stream).poll_read(context, buffer);
            if read.is_ready() {
                self.heard.store(true, Ordering::Relaxed);
            }
            return read;
        }
        let bytes = self.read.len().min(buffer.remaining());
        buffer.put_slice(self.read.get(..bytes).unwrap_or_default());
        self.read.advance(bytes);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Replay<S> {
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
