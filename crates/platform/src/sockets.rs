//! Questions to a TCP socket that the runtime does not ask.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;

#[cfg_attr(unix, path = "sockets/unix.rs")]
#[cfg_attr(windows, path = "sockets/windows.rs")]
mod system;

/// Fails if an idle connection has anything to read: its end, an error, or bytes. The kernel may know before the
/// runtime does.
pub fn check_idle(stream: &TcpStream) -> io::Result<()> {
    system::check_idle(stream)
}

/// Asks the kernel to check a connection that has been idle this long.
pub fn keep_alive(stream: &TcpStream, idle: Duration) -> io::Result<()> {
    let sockets = socket2::SockRef::from(stream);
    sockets.set_tcp_keepalive(&socket2::TcpKeepalive::new().with_time(idle))
}
