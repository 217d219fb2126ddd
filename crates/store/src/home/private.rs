//! Creates files and folders that only the owner can read, whatever the umask.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use platform::files::sync_folder;
pub(crate) use platform::private::{create_file as create_new, create_folder as make_folder};

/// Creates an empty private file unless there is one; never changes its content.
pub(crate) fn ensure(path: &Path) -> io::Result<()> {
    match create_new(path) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(e),
        _ => Ok(()),
    }
}

/// Writes a file atomically. Fails with `AlreadyExists` when another process was first: two
/// processes that start together must not each keep their own file.
pub(crate) fn write_new(path: &Path, content: &[u8], unique: &str) -> io::Result<()> {
    let draft = draft_path(path, unique);
    let written = write_draft(&draft, content).and_then(|()| fs::hard_link(&draft, path));
    let removed = fs::remove_file(&draft);
    written.and(removed)?;
    sync_folder_of(path)
}

/// Replaces a file atomically, or leaves it unchanged.
pub(crate) fn replace(path: &Path, content: &[u8], unique: &str) -> io::Result<()> {
    let draft = draft_path(path, unique);
    let placed = write_draft(&draft, content).and_then(|()| put(&draft, path));
    if placed.is_err() {
        // A partial draft on a full disk would take the space that the next attempt needs.
        let _ = fs::remove_file(&draft);
    }
    placed
}

/// Gives a file a second name, under which it survives being replaced.
pub(crate) fn link_aside(path: &Path, unique: &str) -> io::Result<PathBuf> {
    let aside = draft_path(path, unique);
    fs::hard_link(path, &aside)?;
    sync_folder_of(path)?;
    Ok(aside)
}

/// Moves one file over another.
pub(crate) fn put(file: &Path, path: &Path) -> io::Result<()> {
    fs::rename(file, path)?;
    sync_folder_of(path)
}

/// Removes a file durably, even if the power fails right after.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)?;
    sync_folder_of(path)
}

/// Overwrites the content of an open file with zeros.
pub(crate) fn write_over(file: &mut File, bytes: u64) -> io::Result<()> {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    let mut left = bytes;
    while left > 0 {
        let step = usize::try_from(left).unwrap_or(usize::MAX).min(ZEROS.len());
        file.write_all(ZEROS.get(..step).unwrap_or(&ZEROS))?;
        left -= step as u64;
    }
    file.sync_data()
}

fn draft_path(path: &Path, unique: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{unique}"));
    path.with_file_name(name)
}

fn write_draft(draft: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = create_new(draft)?;
    file.write_all(content)?;
    file.sync_all()
}

fn sync_folder_of(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), sync_folder)
}
