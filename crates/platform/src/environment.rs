//! The environment: which variables a program needs to run at all, and the folders that variables name.

use std::ffi::OsStr;
use std::path::PathBuf;

#[cfg_attr(unix, path = "environment/unix.rs")]
#[cfg_attr(windows, path = "environment/windows.rs")]
mod system;

/// The variables that any program of this system may need: where programs, temporary files and the user's own are.
pub const BASE_NAMES: &[&str] = system::BASE_NAMES;

/// Whether two names mean the same variable.
pub fn is_same_name(one: &OsStr, other: &OsStr) -> bool {
    system::is_same_name(one, other)
}

/// The folder for a program's data, by the variables that `look` finds. An empty variable counts as none.
pub fn data_folder(look: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    system::data_folder(&|name| look(name).filter(|path| !path.as_os_str().is_empty()))
}

/// The folder for what a program remembers and could do without.
pub fn state_folder(look: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    system::state_folder(&|name| look(name).filter(|path| !path.as_os_str().is_empty()))
}

/// The variables that must be set for [`data_folder`], for an error message.
pub const DATA_FOLDER_NAMES: &str = system::DATA_FOLDER_NAMES;
