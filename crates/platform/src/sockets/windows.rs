//! Windows: the socket of the runtime is non-blocking, so a peek does not wait.

use std::io;
use std::mem::MaybeUninit;

use tokio::net::TcpStream;

pub(super) fn check_idle(stream: &TcpStream) -> io::Result<()> {
    let mut byte = [MaybeUninit::uninit()];
    match socket2::SockRef::from(stream).peek(&mut byte) {
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(()),
        Err(e) => Err(e),
        Ok(_) => Err(io::ErrorKind::ConnectionAborted.into()),
    }
}
