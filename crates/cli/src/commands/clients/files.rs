//! Replaces a client's file atomically with the mode it had, and writes copies of the old file.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

/// Suffix of a copy.
const COPY_SUFFIX: &str = ".before-tollgate";

/// Replaces the file's content by `text`. A symbolic link stays; its target is replaced.
pub(super) fn replace(path: &Path, text: &[u8], mode: u32) -> Result<()> {
    let shown = path.display();
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if let Some(folder) = real.parent() {
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create the folder of `{shown}`"))?;
    }
    let draft = sibling(&real, &format!(".tollgate-{}", std::process::id()));
    let written = write_new(&draft, text, mode).and_then(|()| {
        fs::rename(&draft, &real).with_context(|| format!("cannot replace `{shown}`"))
    });
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}

pub(super) fn write_new(path: &Path, text: &[u8], mode: u32) -> Result<()> {
    let shown = path.display();
    let mut file =
        platform::private::create_file(path).with_context(|| format!("cannot write `{shown}`"))?;
    platform::private::set_bits(&file, mode)?;
    file.write_all(text).with_context(|| format!("cannot write `{shown}`"))?;
    file.sync_all().with_context(|| format!("cannot write `{shown}`"))
}

/// The permission bits of a file; 0600 for one that does not exist yet.
pub(super) fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).map_or(0o600, |found| platform::private::bits(&found))
}

/// Writes a private copy next to the file, under a free name.
pub(super) fn write_copy(path: &Path, text: &[u8]) -> Result<PathBuf> {
    for number in 1..100 {
        let ending =
            if number == 1 { COPY_SUFFIX.to_owned() } else { format!("{COPY_SUFFIX}-{number}") };
        let copy = sibling(path, &ending);
        match fs::symlink_metadata(&copy) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                write_new(&copy, text, 0o600)?;
                return Ok(copy);
            }
            _ => {}
        }
    }
    bail!("there are a hundred copies of `{}` in its folder\nhint: remove some", path.display())
}

fn sibling(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    path.with_file_name(name)
}
