//! Async stdin and stdout. What the system can poll is polled by the runtime; the rest, such as terminals and files,
//! uses a thread for each read and write.

#[cfg_attr(unix, path = "streams/unix.rs")]
#[cfg_attr(windows, path = "streams/windows.rs")]
mod system;

pub use system::{Input, Output};
