//! Linux and macOS lock the folder itself: a folder with files in it is not removed and recreated by mistake.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

pub(super) fn open(folder: &Path) -> io::Result<(File, PathBuf)> {
    Ok((File::open(folder)?, folder.to_owned()))
}
