//! The requests of the system to stop: Ctrl-C, a termination, the end of the terminal or of the session.

use std::io;

#[cfg_attr(unix, path = "signals/unix.rs")]
#[cfg_attr(windows, path = "signals/windows.rs")]
mod system;

/// Listens from its creation on; the default, ending the process, no longer applies.
pub struct StopRequests(system::Listeners);

impl StopRequests {
    /// Must be called within a runtime.
    pub fn listen() -> io::Result<StopRequests> {
        system::listen().map(StopRequests)
    }

    /// Waits for the next request.
    pub async fn next(&mut self) {
        self.0.next().await;
    }
}
