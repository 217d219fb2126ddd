//! Linux and macOS: owner, and the modes 0700 and 0600.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::Path;

use rustix::fs::OFlags;

use super::{Access, Others, User};

const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
const PERMISSION_BITS: u32 = 0o777;
const OTHERS_BITS: u32 = 0o077;
/// Everything but reading by the group.
const TOO_MUCH_FOR_A_KEY: u32 = 0o027;
const PROGRAM_MODE: u32 = 0o700;
const WRITABLE_BY_ALL: u32 = 0o002;
const STICKY: u32 = 0o1000;

#[allow(clippy::unnecessary_wraps, reason = "another system may fail")]
pub(super) fn this_user() -> io::Result<User> {
    Ok(User(rustix::process::geteuid().as_raw().to_string()))
}

pub(super) fn is_administrator() -> bool {
    rustix::process::geteuid().is_root()
}

#[allow(clippy::unnecessary_wraps, reason = "another system may fail")]
pub(super) fn owner(_path: &Path, found: &Metadata) -> io::Result<User> {
    Ok(User(found.uid().to_string()))
}

#[allow(clippy::unnecessary_wraps, reason = "another system may fail")]
pub(super) fn access(_path: &Path, found: &Metadata) -> io::Result<Access> {
    Ok(of_mode(found.mode(), found.is_dir()))
}

fn of_mode(mode: u32, is_folder: bool) -> Access {
    let mode = mode & PERMISSION_BITS;
    let others = match mode {
        _ if mode & WRITABLE_BY_ALL != 0 => Others::Write,
        _ if mode & OTHERS_BITS != 0 => Others::Some,
        _ => Others::Nothing,
    };
    let is_ours = mode == if is_folder { FOLDER_MODE } else { FILE_MODE };
    let too_open_for_a_key = mode & TOO_MUCH_FOR_A_KEY != 0;
    Access { words: format!("mode {mode:04o}"), others, is_ours, too_open_for_a_key }
}

pub(super) fn is_replaceable_by_all(folder: &Path) -> io::Result<bool> {
    let mode = fs::metadata(folder)?.mode();
    Ok(mode & WRITABLE_BY_ALL != 0 && mode & STICKY == 0)
}

pub(super) fn open_folder(path: &Path) -> io::Result<File> {
    const FLAGS: i32 = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(FLAGS).open(path)
}

pub(super) fn restrict_folder(folder: &File, _path: &Path) -> io::Result<Access> {
    folder.set_permissions(Permissions::from_mode(FOLDER_MODE))?;
    Ok(of_mode(FOLDER_MODE, true))
}

pub(super) fn restrict(path: &Path, found: &Metadata) -> io::Result<Access> {
    let mode = if found.is_dir() { FOLDER_MODE } else { FILE_MODE };
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    Ok(of_mode(mode, found.is_dir()))
}

pub(super) fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(FOLDER_MODE).create(path)?;
    // A umask that removes the owner's own bits would leave an unusable folder.
    fs::set_permissions(path, Permissions::from_mode(FOLDER_MODE))
}

pub(super) fn create_folders(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)
}

pub(super) fn create_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)?;
    file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    Ok(file)
}

pub(super) fn if_created(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(FILE_MODE)
}

pub(super) fn program_if_created(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(PROGRAM_MODE)
}

pub(super) fn bits(found: &Metadata) -> u32 {
    found.mode() & PERMISSION_BITS
}

pub(super) fn set_bits(file: &File, bits: u32) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_say_who_may_use_a_file() {
        for (mode, is_folder, others, is_ours, too_open_for_a_key) in [
            (0o100_600, false, Others::Nothing, true, false),
            (0o100_400, false, Others::Nothing, false, false),
            (0o100_640, false, Others::Some, false, false),
            (0o100_660, false, Others::Some, false, true),
            (0o100_604, false, Others::Some, false, true),
            (0o100_666, false, Others::Write, false, true),
            (0o040_700, true, Others::Nothing, true, false),
            (0o040_600, true, Others::Nothing, false, false),
        ] {
            let words = format!("mode {:04o}", mode & 0o777);
            let expected = Access { words, others, is_ours, too_open_for_a_key };
            assert_eq!(of_mode(mode, is_folder), expected);
        }
    }
}
