//! The home folder: mode 0700, files 0600, owned by the user that runs tollgate. A wrong mode is
//! repaired with a notice; a symlink or another owner is rejected.

use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use platform::private::{Access, User};

pub(crate) mod private;

/// A folder with any of these is a tollgate home; another folder with files in it is not, and its
/// modes are left alone. They are also the prefixes of the names whose modes are checked.
const OURS: &[&str] =
    &["gate.db", "data.db", "vault.key", "audit", "logs", "backups", "ledger", "replicas"];
/// Names that other programs use too: they do not make a folder a home, but in a home their modes
/// are checked.
const ALSO_KEPT: &[&str] = &["accounts", "captures.db", "catalog.db", "logins"];
/// The owner may create this file before the first start, and may link it.
const SETTINGS_FILE: &str = "tollgate.toml";
/// Our subfolders are at most this deep.
const DEPTH_MAX: usize = 3;

/// An opened home folder. Its owner and modes were right when it was opened.
#[derive(Clone, Debug)]
pub struct Home {
    path: PathBuf,
    notices: Vec<Notice>,
}

/// What opening the home found and repaired, or can only report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    Repaired {
        path: PathBuf,
        was: Access,
        now: Access,
    },
    /// Other users may replace the home folder as a whole; its own mode does not prevent that.
    ParentOpenToAll(PathBuf),
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Repaired { path, was, now } => {
                write!(f, "`{}` had {was}; it has {now} now", path.display())?;
                if path.ends_with("vault.key") {
                    f.write_str(" (others on this machine may have read the key)")?;
                }
                Ok(())
            }
            Notice::ParentOpenToAll(path) => write!(
                f,
                "anyone on this machine may replace the content of `{}`; choose another home or take their write access to it away (`chmod o-w`)",
                path.display()
            ),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    #[error("there is no tollgate home at `{}`\nhint: `tollgate up` creates one; `TOLLGATE_HOME` sets another folder", .0.display())]
    Missing(PathBuf),
    #[error("`{}` is not a folder\nhint: set `TOLLGATE_HOME` to a folder", .0.display())]
    NotAFolder(PathBuf),
    #[error("`{}` contains files that are not tollgate's\nhint: choose an empty folder, or one that does not exist yet", .0.display())]
    NotOurs(PathBuf),
    #[error("`{}` is a symbolic link, which another user could redirect\nhint: give the real path instead", .0.display())]
    Symlink(PathBuf),
    #[error("`{}` is a pipe, a socket or a device, not a file\nhint: remove it, and restore the file from a copy if you have one", .0.display())]
    NotAFile(PathBuf),
    #[error("`{}` belongs to user {owner}, tollgate runs as user {runs_as}\nhint: run tollgate as the owner, or give the folder to that user (`chown`)", .path.display())]
    ForeignOwner { path: PathBuf, owner: User, runs_as: User },
    #[error("cannot {act} `{}`: {source}\nhint: `--home DIR` or `TOLLGATE_HOME` sets another folder", .path.display())]
    Io { act: &'static str, path: PathBuf, source: io::Error },
}

impl Home {
    /// Opens the home at `path`, creating it when it is missing or empty.
    pub fn create(path: &Path) -> Result<Home, HomeError> {
        let path = plain_path(path)?;
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(io_error("create", parent))?;
        }
        match private::make_folder(&path) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(io_error("create", &path)(e)),
        }
        Home::open(&path)
    }

    /// Opens an existing home.
    pub fn open(path: &Path) -> Result<Home, HomeError> {
        let path = plain_path(path)?;
        let mut notices = Vec::new();
        check_parent(&path, &mut notices)?;
        check_folder(&path, &mut notices)?;
        for name in ["audit", "logs", "backups"] {
            make_subfolder(&path.join(name))?;
        }
        check_contents(&path, DEPTH_MAX, &mut notices)?;
        for notice in &notices {
            tracing::warn!("{notice}");
        }
        Ok(Home { path, notices })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was repaired while opening, for `doctor` and the first lines of `up`.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    pub fn gate_db(&self) -> PathBuf {
        self.path.join("gate.db")
    }

    /// Local copies of registries that are on Postgres. All that is in them is in the store too.
    pub(crate) fn replicas(&self) -> PathBuf {
        self.path.join("replicas")
    }

    pub fn vault_key(&self) -> PathBuf {
        self.path.join("vault.key")
    }

    pub fn audit(&self) -> PathBuf {
        self.path.join("audit")
    }

    pub fn logs(&self) -> PathBuf {
        self.path.join("logs")
    }

    pub fn backups(&self) -> PathBuf {
        self.path.join("backups")
    }

    /// Where `tollgate.toml` is expected when no other path is given.
    pub fn settings_file(&self) -> PathBuf {
        self.path.join(SETTINGS_FILE)
    }
}

/// Absolute and without a trailing slash, which would make the kernel follow a link at the end.
fn plain_path(path: &Path) -> Result<PathBuf, HomeError> {
    let absolute = std::path::absolute(path).map_err(io_error("find", path))?;
    Ok(absolute.components().collect())
}

fn check_parent(path: &Path, notices: &mut Vec<Notice>) -> Result<(), HomeError> {
    let Some(parent) = path.parent() else { return Ok(()) };
    let is_open = match platform::private::is_replaceable_by_all(parent) {
        Ok(is_open) => is_open,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(HomeError::Missing(path.into()));
        }
        Err(e) => return Err(io_error("inspect", parent)(e)),
    };
    if is_open {
        notices.push(Notice::ParentOpenToAll(parent.into()));
    }
    Ok(())
}

fn check_folder(path: &Path, notices: &mut Vec<Notice>) -> Result<(), HomeError> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(HomeError::Missing(path.into()));
        }
        Err(e) => return Err(io_error("inspect", path)(e)),
    };
    check_owner(path, &found)?;
    if !found.is_dir() {
        return Err(HomeError::NotAFolder(path.into()));
    }
    check_is_ours(path, &found)?;
    repair_folder(path, notices)
}

/// Changing modes in a folder that was given by mistake (`/`, the user's own home) would do harm. A
/// folder that is already private and contains only files, such as prepared policies, is fine.
fn check_is_ours(path: &Path, found: &Metadata) -> Result<(), HomeError> {
    let access = platform::private::access(path, found).map_err(io_error("inspect", path))?;
    let is_private = access.is_as_created();
    let mut is_foreign = false;
    for entry in fs::read_dir(path).map_err(io_error("read", path))? {
        let entry = entry.map_err(io_error("read", path))?;
        let name = entry.file_name();
        if is_our_name(&name.to_string_lossy()) || name == SETTINGS_FILE {
            return Ok(());
        }
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        let is_hidden = name.to_string_lossy().starts_with('.');
        is_foreign |= !is_private || !is_file || is_hidden;
    }
    if is_foreign { Err(HomeError::NotOurs(path.into())) } else { Ok(()) }
}

fn is_our_name(name: &str) -> bool {
    OURS.iter().any(|ours| name.starts_with(ours))
}

fn check_owner(path: &Path, found: &Metadata) -> Result<(), HomeError> {
    if found.is_symlink() {
        return Err(HomeError::Symlink(path.into()));
    }
    let owner = platform::private::owner(path, found).map_err(io_error("inspect", path))?;
    let runs_as = platform::private::this_user().map_err(io_error("inspect", path))?;
    if owner == runs_as {
        return Ok(());
    }
    Err(HomeError::ForeignOwner { path: path.into(), owner, runs_as })
}

/// Through an open folder, so that the checked folder is the changed folder.
fn repair_folder(path: &Path, notices: &mut Vec<Notice>) -> Result<(), HomeError> {
    let folder = platform::private::open_folder(path).map_err(io_error("open", path))?;
    let found = folder.metadata().map_err(io_error("inspect", path))?;
    check_owner(path, &found)?;
    let was = platform::private::access(path, &found).map_err(io_error("inspect", path))?;
    if was.is_as_created() {
        return Ok(());
    }
    let now = platform::private::restrict_folder(&folder, path)
        .map_err(io_error("restrict the access to", path))?;
    notices.push(Notice::Repaired { path: path.into(), was, now });
    Ok(())
}

fn make_subfolder(path: &Path) -> Result<(), HomeError> {
    match private::make_folder(path) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(io_error("create", path)(e)),
        _ => Ok(()),
    }
}

fn check_contents(
    folder: &Path,
    depth_left: usize,
    notices: &mut Vec<Notice>,
) -> Result<(), HomeError> {
    for entry in fs::read_dir(folder).map_err(io_error("read", folder))? {
        let entry = entry.map_err(io_error("read", folder))?;
        let at_top = depth_left == DEPTH_MAX;
        let name = entry.file_name();
        let is_kept = is_our_name(&name.to_string_lossy()) || ALSO_KEPT.iter().any(|n| name == *n);
        if at_top && !is_kept {
            continue;
        }
        let path = entry.path();
        match fs::symlink_metadata(&path) {
            Ok(found) => check_entry(&path, &found, depth_left, notices)?,
            // Another process that uses this home has just removed it.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(io_error("inspect", &path)(e)),
        }
    }
    Ok(())
}

fn check_entry(
    path: &Path,
    found: &Metadata,
    depth_left: usize,
    notices: &mut Vec<Notice>,
) -> Result<(), HomeError> {
    check_owner(path, found)?;
    // Reading a pipe would block.
    if !found.is_dir() && !found.is_file() {
        return Err(HomeError::NotAFile(path.into()));
    }
    let was = platform::private::access(path, found).map_err(io_error("inspect", path))?;
    if was.is_open_to_others() {
        // No other user can enter the folder any more, so the name still refers to what was
        // checked.
        match platform::private::restrict(path, found) {
            Ok(now) => notices.push(Notice::Repaired { path: path.into(), was, now }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(io_error("restrict the access to", path)(e)),
        }
    }
    if found.is_dir() && depth_left > 1 {
        check_contents(path, depth_left - 1, notices)?;
    }
    Ok(())
}

fn io_error(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> HomeError {
    let path = path.to_owned();
    move |source| HomeError::Io { act, path, source }
}
