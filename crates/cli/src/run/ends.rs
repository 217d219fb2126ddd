//! Our two ends of a conversation on standard streams. What the kernel can wait for, pipes and
//! sockets, the runtime waits for itself; terminals and files take a thread for each read and write.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::fs::{FileType, fstat};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::unix::pipe;

/// Opening this makes another way to the same pipe. The one that we were given may be shared with
/// other programs, and to none of them it may turn non-blocking all of a sudden.
const OWN_INPUT: &str = "/proc/self/fd/0";
const OWN_OUTPUT: &str = "/proc/self/fd/1";

pub(super) enum Input {
    Pipe(pipe::Receiver),
    Socket(AsyncFd<io::Stdin>),
    Other(tokio::io::Stdin),
}

pub(super) enum Output {
    Pipe(pipe::Sender),
    Socket(AsyncFd<io::Stdout>),
    Other(tokio::io::Stdout),
}

impl Input {
    /// Within a runtime.
    pub(super) fn ours() -> Input {
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
    /// Within a runtime.
    pub(super) fn ours() -> Output {
        if let Ok(pipe) = pipe::OpenOptions::new().open_sender(OWN_OUTPUT) {
            return Output::Pipe(pipe);
        }
        if let Some(socket) = socket(io::stdout(), Interest::WRITABLE) {
            return Output::Socket(socket);
        }
        Output::Other(tokio::io::stdout())
    }
}

/// A stream that is a socket, to be waited for. It stays as it is: each read and write says for itself
/// that it does not wait.
fn socket<S: AsFd + AsRawFd>(stream: S, interest: Interest) -> Option<AsyncFd<S>> {
    let mode = fstat(&stream).ok()?.st_mode;
    if !FileType::from_raw_mode(mode).is_socket() {
        return None;
    }
    #[expect(deprecated, reason = "our standard streams stay open as long as we live")]
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
            Input::Pipe(pipe) => Pin::new(pipe).poll_read(task, buffer),
            Input::Other(input) => Pin::new(input).poll_read(task, buffer),
            Input::Socket(socket) => loop {
                let mut ready = ready!(socket.poll_read_ready(task))?;
                let room = buffer.initialize_unfilled();
                let come = ready.try_io(|socket| {
                    Ok(recv(socket.get_ref(), &mut *room, RecvFlags::DONTWAIT)?.1)
                });
                if let Ok(come) = come {
                    buffer.advance(come?);
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
            Output::Pipe(pipe) => Pin::new(pipe).poll_write(task, bytes),
            Output::Other(output) => Pin::new(output).poll_write(task, bytes),
            Output::Socket(socket) => loop {
                let mut ready = ready!(socket.poll_write_ready(task))?;
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                let gone = ready.try_io(|socket| Ok(send(socket.get_ref(), bytes, flags)?));
                if let Ok(gone) = gone {
                    return Poll::Ready(gone);
                }
            },
        }
    }

    /// Pipes and sockets have what was written.
    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Output::Other(output) => Pin::new(output).poll_flush(task),
            Output::Pipe(_) | Output::Socket(_) => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(task)
    }
}
