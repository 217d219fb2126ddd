//! Linux and macOS: one call that neither waits nor takes the bytes.

use std::io;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use tokio::net::TcpStream;

pub(super) fn check_idle(stream: &TcpStream) -> io::Result<()> {
    let mut byte = [0_u8; 1];
    match recv(stream, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Err(Errno::AGAIN) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => Err(io::ErrorKind::ConnectionAborted.into()),
    }
}
