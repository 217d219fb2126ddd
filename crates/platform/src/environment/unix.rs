//! Linux and macOS: the folders of the XDG convention, as command-line programs use them on macOS, too.

use std::ffi::OsStr;
use std::path::PathBuf;

pub(super) const BASE_NAMES: &[&str] = &["PATH", "HOME", "LANG", "TMPDIR", "USER"];
pub(super) const DATA_FOLDER_NAMES: &str = "neither `XDG_DATA_HOME` nor `HOME` is set";

pub(super) fn is_same_name(one: &OsStr, other: &OsStr) -> bool {
    one == other
}

pub(super) fn data_folder(look: &dyn Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let named = look("XDG_DATA_HOME").filter(|path| path.is_absolute());
    named.or_else(|| look("HOME").map(|home| home.join(".local/share")))
}

pub(super) fn state_folder(look: &dyn Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |name: &str| look(name).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))
}
