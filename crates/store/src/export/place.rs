//! Where an export goes: anywhere for the owner, below one folder for an agent. Folders are held by
//! descriptors, so nothing that happens to their names after the check can lead elsewhere.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{Fault, draft};

const FOLDER_MODE: u32 = 0o700;
const FOLDER_FLAGS: OFlags = OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::CLOEXEC);

/// How far an order reaches.
#[derive(Clone, Copy, Debug)]
pub enum Reach<'a> {
    /// The owner at a terminal: anywhere. Relative paths count from `base`, `~` is `tilde`.
    Anywhere { base: &'a Path, tilde: Option<&'a Path> },
    /// An agent: nothing outside this folder, no links on the way.
    Below(&'a Path),
}

/// What lies at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lies {
    Nothing,
    EmptyFile,
    File,
    EmptyFolder,
    Folder,
}

/// A path that an order may use, taken apart but not touched yet.
#[derive(Debug)]
pub(super) struct Way {
    /// A folder that is taken as given.
    root: PathBuf,
    /// Steps below it, each a plain name; at least one.
    steps: Vec<OsString>,
    is_confined: bool,
    /// As it was asked for; for messages and answers.
    asked: String,
}

impl Way {
    pub(super) fn parse(asked: &str, reach: Reach<'_>) -> Result<Way, Fault> {
        if asked.is_empty() || asked.contains('\0') {
            return Err(Fault::Refused("an export needs the path of a file to write".into()));
        }
        let (root, below, is_confined) = match reach {
            Reach::Below(folder) => (folder.to_owned(), confined(asked, folder)?, true),
            Reach::Anywhere { base, tilde } => {
                let path = base.join(expanded(asked, tilde)?);
                let root = path.parent().map(Path::to_owned);
                let name = path.file_name().map(PathBuf::from);
                let (Some(root), Some(name)) = (root, name) else {
                    return Err(Fault::Refused(format!("`{asked}` is not the path of a file")));
                };
                (root, name, false)
            }
        };
        let steps = plain_steps(asked, &below)?;
        Ok(Way { root, steps, is_confined, asked: asked.to_owned() })
    }

    pub(super) fn asked(&self) -> &str {
        &self.asked
    }

    /// Where it really leads.
    pub(super) fn full(&self) -> PathBuf {
        self.steps.iter().fold(self.root.clone(), |path, step| path.join(step))
    }

    /// What is there now. Makes nothing.
    pub(super) fn lies(&self) -> Result<Lies, Fault> {
        let Some((name, before)) = self.steps.split_last() else { return Ok(Lies::Folder) };
        match self.folder(before, Missing::Stays)? {
            None => Ok(Lies::Nothing),
            Some(folder) => self.lies_in(&folder, name),
        }
    }

    fn lies_in(&self, folder: &OwnedFd, name: &OsStr) -> Result<Lies, Fault> {
        let flags = if self.is_confined { AtFlags::SYMLINK_NOFOLLOW } else { AtFlags::empty() };
        let found = match rustix::fs::statat(folder, name, flags) {
            Ok(found) => found,
            Err(Errno::NOENT) => return Ok(Lies::Nothing),
            Err(e) => return Err(self.fault(e)),
        };
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile if found.st_size == 0 => Ok(Lies::EmptyFile),
            FileType::RegularFile => Ok(Lies::File),
            FileType::Directory => {
                let folder = self.step(folder, name).map_err(|e| self.fault(e))?;
                let is_empty = is_empty(&folder).map_err(|e| self.fault(e))?;
                Ok(if is_empty { Lies::EmptyFolder } else { Lies::Folder })
            }
            FileType::Symlink => Err(self.links()),
            _ => Err(Fault::Refused(format!("`{}` is neither a file nor a folder", self.asked))),
        }
    }

    /// The folder the file goes into, made when missing, and the name of the file in it.
    pub(super) fn parent(&self) -> Result<(OwnedFd, OsString), Fault> {
        let Some((name, before)) = self.steps.split_last() else {
            return Err(Fault::Refused(format!("`{}` is a folder", self.asked)));
        };
        Ok((self.made(before)?, name.clone()))
    }

    /// The path itself as a folder, made when missing.
    pub(super) fn as_folder(&self) -> Result<OwnedFd, Fault> {
        self.made(&self.steps)
    }

    fn made(&self, steps: &[OsString]) -> Result<OwnedFd, Fault> {
        let folder = self.folder(steps, Missing::Made)?;
        folder.ok_or_else(|| self.fault(Errno::NOENT))
    }

    fn folder(&self, steps: &[OsString], missing: Missing) -> Result<Option<OwnedFd>, Fault> {
        if missing == Missing::Made {
            let made = DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(&self.root);
            made.map_err(|e| self.fault(e))?;
        }
        let mut at = match rustix::fs::open(&self.root, FOLDER_FLAGS, Mode::empty()) {
            Ok(root) => root,
            Err(Errno::NOENT) => return Ok(None),
            Err(e) => return Err(self.fault(e)),
        };
        for name in steps {
            at = match (self.step(&at, name), missing) {
                (Ok(next), _) => next,
                (Err(Errno::NOENT), Missing::Stays) => return Ok(None),
                (Err(Errno::NOENT), Missing::Made) => {
                    make_folder(&at, name).map_err(|e| self.fault(e))?;
                    self.step(&at, name).map_err(|e| self.fault(e))?
                }
                (Err(Errno::LOOP | Errno::NOTDIR), _) if self.is_confined => {
                    return Err(self.links());
                }
                (Err(e), _) => return Err(self.fault(e)),
            };
        }
        Ok(Some(at))
    }

    /// One step down. Confined, it is a folder of that very folder, never a link.
    fn step(&self, folder: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
        if !self.is_confined {
            return rustix::fs::openat(folder, name, FOLDER_FLAGS, Mode::empty());
        }
        open_beneath(folder, name, FOLDER_FLAGS | OFlags::NOFOLLOW)
    }

    fn links(&self) -> Fault {
        Fault::Refused(format!(
            "`{}` leads over a link or a file; exports of agents follow none",
            self.asked
        ))
    }

    fn fault(&self, error: impl Into<io::Error>) -> Fault {
        Fault::Write { path: self.asked.clone(), words: error.into().to_string() }
    }
}

/// What happens to folders that are not there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Stays,
    Made,
}

#[cfg(target_os = "linux")]
fn open_beneath(folder: &OwnedFd, name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(folder, name, flags, Mode::empty(), resolve) {
        // A kernel or a sandbox without it. One plain name at a time, the older call is as strict.
        Err(Errno::NOSYS | Errno::PERM) => rustix::fs::openat(folder, name, flags, Mode::empty()),
        opened => opened,
    }
}

#[cfg(not(target_os = "linux"))]
fn open_beneath(folder: &OwnedFd, name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(folder, name, flags, Mode::empty())
}

fn make_folder(at: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    match rustix::fs::mkdirat(at, name, Mode::from_raw_mode(FOLDER_MODE)) {
        Err(Errno::EXIST) => Ok(()),
        made => made,
    }
}

/// Files on their way, ours or another process's, are not content.
fn is_empty(folder: &OwnedFd) -> Result<bool, Errno> {
    for entry in Dir::read_from(folder.as_fd())? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." && !draft::is_draft(name) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// `~` and `~/…` are the owner's home folder, as in a shell.
fn expanded(asked: &str, tilde: Option<&Path>) -> Result<PathBuf, Fault> {
    let Some(rest) = asked.strip_prefix('~') else { return Ok(asked.into()) };
    match (rest.strip_prefix('/'), tilde) {
        (Some(rest), Some(home)) => Ok(home.join(rest)),
        (None, _) if !rest.is_empty() => {
            Err(Fault::Refused(format!("`{asked}`: only `~/` is understood, not another's home")))
        }
        _ => Err(Fault::Refused(format!("`{asked}`: cannot tell where `~` is"))),
    }
}

/// What is left of an agent's path below the folder of exports.
fn confined(asked: &str, folder: &Path) -> Result<PathBuf, Fault> {
    let path = Path::new(asked);
    let outside = || {
        Fault::Outside(format!(
            "`{asked}` is outside the folder of exports; give a path relative to it, such as `cycles.csv`"
        ))
    };
    if asked.starts_with('~') {
        return Err(outside());
    }
    if path.is_relative() {
        return Ok(path.to_owned());
    }
    let real = fs::canonicalize(folder).ok();
    let below = path.strip_prefix(folder).ok();
    let below = below.or_else(|| path.strip_prefix(real?).ok());
    below.map(Path::to_owned).ok_or_else(outside)
}

/// Plain names only: nothing leads up.
fn plain_steps(asked: &str, path: &Path) -> Result<Vec<OsString>, Fault> {
    let mut steps = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) if draft::is_draft(name.as_encoded_bytes()) => {
                return Err(Fault::Refused(format!("`{asked}`: that name is tollgate's own")));
            }
            Component::Normal(name) => steps.push(name.to_owned()),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(Fault::Refused(format!(
                    "`{asked}` leads out of the folder of exports with `..`"
                )));
            }
        }
    }
    if steps.is_empty() {
        return Err(Fault::Refused(format!("`{asked}` names the folder of exports itself")));
    }
    Ok(steps)
}
