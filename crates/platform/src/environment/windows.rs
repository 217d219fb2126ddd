//! Windows: names without case, and one folder for data that stays on this machine.

use std::ffi::OsStr;
use std::path::PathBuf;

pub(super) const BASE_NAMES: &[&str] = &[
    "PATH",
    "PATHEXT",
    "COMSPEC",
    "SystemRoot",
    "SystemDrive",
    "TEMP",
    "TMP",
    "USERNAME",
    "USERPROFILE",
    "HOMEDRIVE",
    "HOMEPATH",
    "APPDATA",
    "LOCALAPPDATA",
    "ProgramData",
    "ProgramFiles",
    "HOME",
    "LANG",
];
pub(super) const DATA_FOLDER_NAMES: &str = "`LOCALAPPDATA` is not set";

pub(super) fn is_same_name(one: &OsStr, other: &OsStr) -> bool {
    one.eq_ignore_ascii_case(other)
}

/// `XDG_DATA_HOME` first, so that tests and scripts are the same on all systems.
pub(super) fn data_folder(look: &dyn Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |name: &str| look(name).filter(|path| path.is_absolute());
    absolute("XDG_DATA_HOME").or_else(|| absolute("LOCALAPPDATA"))
}

pub(super) fn state_folder(look: &dyn Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |name: &str| look(name).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME").or_else(|| absolute("LOCALAPPDATA"))
}
