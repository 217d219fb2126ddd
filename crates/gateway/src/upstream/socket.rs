//! One TCP or TLS stream, with two things hyper does not tell: whether anything was written, and
//! whether an idle connection was closed while nobody looked.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// What can be seen of a socket from outside the connection that owns it.
#[derive(Debug, Default)]
pub(super) struct Tap {
    written_bytes: AtomicU64,
    probe: AtomicBool,
    left: AtomicBool,
}

impl Tap {
    pub(super) fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Relaxed)
    }

    /// Asks that the next read look at the socket itself. The runtime may not yet know that the
    /// peer closed an idle connection; the kernel does.
    pub(super) fn probe_next(&self) {
        self.probe.store(true, Ordering::Relaxed);
    }

    /// Whether the request that is under way left before hyper was asked to write it.
    pub(super) fn has_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }

    pub(super) fn set_left(&self, left: bool) {
        self.left.store(left, Ordering::Relaxed);
    }
}

/// A TCP stream that counts and can be probed.
pub(super) struct Socket {
    stream: TcpStream,
    tap: Arc<Tap>,
}

impl Socket {
    pub(super) fn new(stream: TcpStream) -> (Socket, Arc<Tap>) {
        let tap = Arc::new(Tap::default());
        (Socket { stream, tap: Arc::clone(&tap) }, tap)
    }

    /// Fails if an idle connection has anything to say: its end, an error, or bytes nobody asked for.
    fn probe(&self) -> io::Result<()> {
        let mut byte = [0_u8; 1];
        match recv(&self.stream, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Err(error) if error == rustix::io::Errno::AGAIN => Ok(()),
            Err(error) => Err(error.into()),
            Ok(_) => Err(io::Error::from(io::ErrorKind::ConnectionAborted)),
        }
    }

    fn count(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &written {
            self.tap.written_bytes.fetch_add(*bytes as u64, Ordering::Relaxed);
        }
        written
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.tap.probe.load(Ordering::Relaxed) {
            self.tap.probe.store(false, Ordering::Relaxed);
            self.probe()?;
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.count(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.count(written)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Plain or encrypted.
pub(super) enum Stream {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Stream::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Stream::Plain(socket) => Pin::new(socket).poll_write(cx, buf),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Stream::Plain(socket) => Pin::new(socket).poll_write_vectored(cx, bufs),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Plain(socket) => socket.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Stream::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Stream::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
