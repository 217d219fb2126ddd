//! Linux and macOS: sockets are polled. On Linux pipes are, too: opening one by its path below `/proc` gives a new
//! file description, so that other programs that share the inherited one do not see it become non-blocking. macOS
//! has no such path.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::fs::{FileType, fstat};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
#[cfg(target_os = "linux")]
use tokio::net::unix::pipe;

#[cfg(target_os = "linux")]
const OWN_INPUT: &str = "/proc/self/fd/0";
#[cfg(target_os = "linux")]
const OWN_OUTPUT: &str = "/proc/self/fd/1";

#[cfg(target_os = "linux")]
const SEND_FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);
/// Rust programs ignore SIGPIPE, so there is nothing to suppress.
#[cfg(target_os = "macos")]
const SEND_FLAGS: SendFlags = SendFlags::DONTWAIT;

/// Our stdin.
pub enum Input {
    #[cfg(target_os = "linux")]
    Pipe(pipe::Receiver),
    Socket(AsyncFd<io::Stdin>),
    Other(tokio::io::Stdin),
}

/// Our stdout.
pub enum Output {
    #[cfg(target_os = "linux")]
    Pipe(pipe::Sender),
    Socket(AsyncFd<io::Stdout>),
    Other(tokio::io::Stdout),
}

impl Input {
    /// Must be called within a runtime.
    pub fn own() -> Input {
        #[cfg(target_os = "linux")]
        if let Ok(pipe) = pipe::OpenOptions::new().open_receiver(OWN_INPUT) {
            return Input::Pipe(pipe);
        }
        if let Some(socket) = socket(io::stdin(), Interest::READABLE) {
            return Input::Socket(socket);
        }
        Input::Other(tokio::io::stdin())
    }
}

impl Output {
    /// Must be called within a runtime.
    pub fn own() -> Output {
        #[cfg(target_os = "linux")]
        if let Ok(pipe) = pipe::OpenOptions::new().open_sender(OWN_OUTPUT) {
            return Output::Pipe(pipe);
        }
        if let Some(socket) = socket(io::stdout(), Interest::WRITABLE) {
            return Output::Socket(socket);
        }
        Output::Other(tokio::io::stdout())
    }
}

/// A stream that is a socket. It stays blocking; each read and write passes a non-blocking flag.
fn socket<S: AsFd + AsRawFd>(stream: S, interest: Interest) -> Option<AsyncFd<S>> {
    let mode = fstat(&stream).ok()?.st_mode;
    if !FileType::from_raw_mode(mode).is_socket() {
        return None;
    }
    #[expect(deprecated, reason = "stdin and stdout stay open as long as the process")]
    let socket = AsyncFd::with_interest(stream, interest);
    socket.ok()
}

impl AsyncRead for Input {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            #[cfg(target_os = "linux")]
            Input::Pipe(pipe) => Pin::new(pipe).poll_read(task, buffer),
            Input::Other(input) => Pin::new(input).poll_read(task, buffer),
            Input::Socket(socket) => loop {
                let mut ready = ready!(socket.poll_read_ready(task))?;
                let unfilled = buffer.initialize_unfilled();
                let received = ready.try_io(|socket| {
                    Ok(recv(socket.get_ref(), &mut *unfilled, RecvFlags::DONTWAIT)?.1)
                });
                if let Ok(received) = received {
                    buffer.advance(received?);
                    return Poll::Ready(Ok(()));
                }
            },
        }
    }
}

impl AsyncWrite for Output {
    fn poll_write(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            #[cfg(target_os = "linux")]
            Output::Pipe(pipe) => Pin::new(pipe).poll_write(task, bytes),
            Output::Other(output) => Pin::new(output).poll_write(task, bytes),
            Output::Socket(socket) => loop {
                let mut ready = ready!(socket.poll_write_ready(task))?;
                let sent = ready.try_io(|socket| Ok(send(socket.get_ref(), bytes, SEND_FLAGS)?));
                if let Ok(sent) = sent {
                    return Poll::Ready(sent);
                }
            },
        }
    }

    /// Pipes and sockets are not buffered.
    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Output::Other(output) => Pin::new(output).poll_flush(task),
            #[cfg(target_os = "linux")]
            Output::Pipe(_) => Poll::Ready(Ok(())),
            Output::Socket(_) => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(task)
    }
}
