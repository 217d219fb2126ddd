//! A TCP or TLS stream that counts written bytes and can check whether an idle connection was closed, which
//! hyper does not tell.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// The state of a socket, visible outside the connection that owns it.
#[derive(Debug, Default)]
pub(super) struct SocketMonitor {
    written_bytes: AtomicU64,
    probe: AtomicBool,
    was_sent_before: AtomicBool,
}

impl SocketMonitor {
    pub(super) fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Relaxed)
    }

    /// Makes the next read check the socket itself: the kernel may know that the peer has closed an idle
    /// connection before the runtime does.
    pub(super) fn probe_next(&self) {
        self.probe.store(true, Ordering::Relaxed);
    }

    /// Whether the current request was sent before hyper was asked to write it.
    pub(super) fn was_sent_before(&self) -> bool {
        self.was_sent_before.load(Ordering::Relaxed)
    }

    pub(super) fn set_sent_before(&self, was_sent_before: bool) {
        self.was_sent_before.store(was_sent_before, Ordering::Relaxed);
    }
}

/// A TCP stream that counts bytes and can be probed.
pub(super) struct Socket {
    stream: TcpStream,
    monitor: Arc<SocketMonitor>,
}

impl Socket {
    pub(super) fn new(stream: TcpStream) -> (Socket, Arc<SocketMonitor>) {
        let monitor = Arc::new(SocketMonitor::default());
        (Socket { stream, monitor: Arc::clone(&monitor) }, monitor)
    }

    /// Fails if an idle connection has anything to read: its end, an error, or unexpected bytes.
    fn probe(&self) -> io::Result<()> {
        platform::sockets::check_idle(&self.stream)
    }

    fn count(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &written {
            self.monitor.written_bytes.fetch_add(*bytes as u64, Ordering::Relaxed);
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
        if self.monitor.probe.load(Ordering::Relaxed) {
            self.monitor.probe.store(false, Ordering::Relaxed);
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

/// With or without TLS.
pub(super) enum TcpOrTls {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

impl AsyncRead for TcpOrTls {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            TcpOrTls::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            TcpOrTls::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for TcpOrTls {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            TcpOrTls::Plain(socket) => Pin::new(socket).poll_write(cx, buf),
            TcpOrTls::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            TcpOrTls::Plain(socket) => Pin::new(socket).poll_write_vectored(cx, bufs),
            TcpOrTls::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            TcpOrTls::Plain(socket) => socket.is_write_vectored(),
            TcpOrTls::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            TcpOrTls::Plain(socket) => Pin::new(socket).poll_flush(cx),
            TcpOrTls::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            TcpOrTls::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            TcpOrTls::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
