//! Windows: access control lists. A private folder has a protected list with its owner only, which what is created
//! in it inherits.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt as _;
use std::path::Path;
use std::str::FromStr as _;

use windows_permissions::constants::{SeObjectType, SecurityInformation};
use windows_permissions::utilities::current_process_sid;
use windows_permissions::wrappers::{
    ConvertSecurityDescriptorToStringSecurityDescriptor, GetNamedSecurityInfo, SetSecurityInfo,
};
use windows_permissions::{LocalBox, SecurityDescriptor};

use super::{Access, User, sddl};

/// `FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT`: folders too, and links themselves.
const FOLDERS_AND_LINKS: u32 = 0x0200_0000 | 0x0020_0000;
/// `READ_CONTROL | WRITE_DAC | FILE_READ_ATTRIBUTES`: what reading and changing the list needs.
const CHANGE_ACCESS: u32 = 0x0002_0000 | 0x0004_0000 | 0x0000_0080;

pub(super) fn this_user() -> io::Result<User> {
    Ok(User(current_process_sid()?.to_string()))
}

/// Shells of administrators may write where others may not, which is what callers want to know. The list of a
/// folder of the system shows it.
pub(super) fn is_administrator() -> bool {
    let Some(system) = std::env::var_os("SystemRoot") else { return false };
    let folder = Path::new(&system).join(r"System32\config");
    fs::read_dir(folder).is_ok()
}

pub(super) fn owner(path: &Path, _found: &Metadata) -> io::Result<User> {
    let found = GetNamedSecurityInfo(
        path.as_os_str(),
        SeObjectType::SE_FILE_OBJECT,
        SecurityInformation::Owner,
    )?;
    let owner = found.owner().map(ToString::to_string);
    // What an administrator creates may belong to the group; its members are not other users.
    match (owner.ok_or_else(|| io::Error::other("it belongs to no one"))?, this_user()?) {
        (owner, me) if owner == "S-1-5-32-544" && is_administrator() => Ok(me),
        (owner, _) => Ok(User(owner)),
    }
}

pub(super) fn access(path: &Path, _found: &Metadata) -> io::Result<Access> {
    Ok(sddl::access(&list_of(path)?, &this_user()?.0))
}

fn list_of(path: &Path) -> io::Result<String> {
    let found = GetNamedSecurityInfo(
        path.as_os_str(),
        SeObjectType::SE_FILE_OBJECT,
        SecurityInformation::Dacl,
    )?;
    let text =
        ConvertSecurityDescriptorToStringSecurityDescriptor(&found, SecurityInformation::Dacl)?;
    text.into_string().map_err(|_| io::Error::other("its access control list is not text"))
}

pub(super) fn is_replaceable_by_all(folder: &Path) -> io::Result<bool> {
    Ok(sddl::everyone_may_remove_children(&list_of(folder)?))
}

pub(super) fn open_folder(path: &Path) -> io::Result<File> {
    let folder = open_to_change(path)?;
    let found = folder.metadata()?;
    if found.is_symlink() || !found.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, "it is not a folder"));
    }
    Ok(folder)
}

fn open_to_change(path: &Path) -> io::Result<File> {
    OpenOptions::new().access_mode(CHANGE_ACCESS).custom_flags(FOLDERS_AND_LINKS).open(path)
}

pub(super) fn restrict_folder(folder: &File, path: &Path) -> io::Result<Access> {
    set_list(&mut folder.try_clone()?, true)?;
    access(path, &folder.metadata()?)
}

pub(super) fn restrict(path: &Path, found: &Metadata) -> io::Result<Access> {
    set_list(&mut open_to_change(path)?, found.is_dir())?;
    access(path, found)
}

/// A protected list with one entry: the owner may do everything, and so with what is created in a folder.
fn set_list(file: &mut File, is_folder: bool) -> io::Result<()> {
    let inherited = if is_folder { "OICI" } else { "" };
    let text = format!("D:P(A;{inherited};FA;;;{})", this_user()?.0);
    let wanted = LocalBox::<SecurityDescriptor>::from_str(&text)?;
    SetSecurityInfo(
        file,
        SeObjectType::SE_FILE_OBJECT,
        SecurityInformation::Dacl | SecurityInformation::ProtectedDacl,
        None,
        None,
        wanted.dacl(),
        None,
    )
}

pub(super) fn create_folder(path: &Path) -> io::Result<()> {
    fs::create_dir(path)?;
    set_list(&mut open_to_change(path)?, true)
}

pub(super) fn create_folders(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(above) = path.parent() {
        create_folders(above)?;
    }
    match create_folder(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        created => created,
    }
}

pub(super) fn create_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    set_list(&mut open_to_change(path)?, false)?;
    Ok(file)
}

/// A new file inherits the list of its folder; `create` has no list of its own here. Our folders are private.
pub(super) fn if_created(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// The extension makes a program here, not the access.
pub(super) fn program_if_created(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

pub(super) fn bits(found: &Metadata) -> u32 {
    if found.permissions().readonly() { 0o400 } else { 0o600 }
}

pub(super) fn set_bits(file: &File, bits: u32) -> io::Result<()> {
    const OWNER_WRITES: u32 = 0o200;
    let mut permissions = file.metadata()?.permissions();
    permissions.set_readonly(bits & OWNER_WRITES == 0);
    file.set_permissions(permissions)
}
