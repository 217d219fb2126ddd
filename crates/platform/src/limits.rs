//! Limits that the system sets for a process: open files, memory dumps, file sizes.

#[cfg_attr(unix, path = "limits/unix.rs")]
#[cfg_attr(windows, path = "limits/windows.rs")]
mod system;

/// How many files a process may have open; none means without a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFiles {
    pub current: Option<u64>,
    /// Up to which the process may raise it.
    pub maximum: Option<u64>,
}

pub fn open_files() -> OpenFiles {
    system::open_files()
}

/// Sets the current limit on open files. If the system refuses, the old one stays.
pub fn set_open_files(current: u64) {
    system::set_open_files(current);
}

/// Keeps the memory of this process out of core files and, where the system can, from other programs of the same
/// user. False if the system has no such thing.
pub fn protect_memory() -> bool {
    system::protect_memory()
}

/// A write beyond the file size limit fails, as on a full disk, instead of ending the process.
pub fn survive_file_size_limit() {
    system::survive_file_size_limit();
}
