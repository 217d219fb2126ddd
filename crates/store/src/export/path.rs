//! Resolves where an export goes: anywhere for the owner, below one folder for an agent. Folders
//! are held by descriptors, so that renames after the check cannot redirect the export.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use platform::folder::{Folder, Kind, Links, is_link_error};

use super::{ExportError, temp_file};

/// Who exports, and which paths are allowed.
#[derive(Clone, Copy, Debug)]
pub enum PathScope<'a> {
    /// The owner at a terminal: anywhere. Relative paths start at `base`, `~` is `tilde`.
    Anywhere { base: &'a Path, tilde: Option<&'a Path> },
    /// An agent: nothing outside this folder, no symbolic links.
    Below(&'a Path),
}

/// What exists at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Existing {
    Nothing,
    EmptyFile,
    File,
    EmptyFolder,
    Folder,
}

/// A valid path, parsed but not accessed yet.
#[derive(Debug)]
pub(super) struct ExportPath {
    /// The trusted base folder.
    root: PathBuf,
    /// Plain names below it; at least one.
    steps: Vec<OsString>,
    is_confined: bool,
    /// As requested; for messages and results.
    requested: String,
}

impl ExportPath {
    pub(super) fn parse(requested: &str, reach: PathScope<'_>) -> Result<ExportPath, ExportError> {
        if requested.is_empty() || requested.contains('\0') {
            return Err(ExportError::Refused("an export needs the path of a file to write".into()));
        }
        let (root, below, is_confined) = match reach {
            PathScope::Below(folder) => (folder.to_owned(), confined(requested, folder)?, true),
            PathScope::Anywhere { base, tilde } => {
                let path = base.join(expanded(requested, tilde)?);
                let root = path.parent().map(Path::to_owned);
                let name = path.file_name().map(PathBuf::from);
                let (Some(root), Some(name)) = (root, name) else {
                    return Err(ExportError::Refused(format!(
                        "`{requested}` is not the path of a file"
                    )));
                };
                (root, name, false)
            }
        };
        let steps = plain_steps(requested, &below)?;
        Ok(ExportPath { root, steps, is_confined, requested: requested.to_owned() })
    }

    pub(super) fn requested(&self) -> &str {
        &self.requested
    }

    /// The resolved path.
    pub(super) fn full(&self) -> PathBuf {
        self.steps.iter().fold(self.root.clone(), |path, step| path.join(step))
    }

    /// What exists there now. Creates nothing.
    pub(super) fn existing(&self) -> Result<Existing, ExportError> {
        let Some((name, before)) = self.steps.split_last() else { return Ok(Existing::Folder) };
        match self.folder(before, Missing::Ignore)? {
            None => Ok(Existing::Nothing),
            Some(folder) => self.existing_in(&folder, name),
        }
    }

    fn existing_in(&self, folder: &Folder, name: &OsStr) -> Result<Existing, ExportError> {
        let found = match folder.kind(name, self.links()) {
            Ok(found) => found,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Existing::Nothing),
            Err(e) => return Err(self.write_error(e)),
        };
        match found {
            Kind::File { bytes: 0 } => Ok(Existing::EmptyFile),
            Kind::File { .. } => Ok(Existing::File),
            Kind::Folder => {
                let folder = folder.open_folder(name, self.links());
                let folder = folder.map_err(|e| self.write_error(e))?;
                let is_empty = is_empty(&folder).map_err(|e| self.write_error(e))?;
                Ok(if is_empty { Existing::EmptyFolder } else { Existing::Folder })
            }
            Kind::Link => Err(self.link_error()),
            Kind::Other => Err(ExportError::Refused(format!(
                "`{}` is neither a file nor a folder",
                self.requested
            ))),
        }
    }

    /// The folder of the file, created if missing, and the file name.
    pub(super) fn parent(&self) -> Result<(Folder, OsString), ExportError> {
        let Some((name, before)) = self.steps.split_last() else {
            return Err(ExportError::Refused(format!("`{}` is a folder", self.requested)));
        };
        Ok((self.create_folders(before)?, name.clone()))
    }

    /// The path itself as a folder, created if missing.
    pub(super) fn as_folder(&self) -> Result<Folder, ExportError> {
        self.create_folders(&self.steps)
    }

    fn create_folders(&self, steps: &[OsString]) -> Result<Folder, ExportError> {
        let folder = self.folder(steps, Missing::Create)?;
        folder.ok_or_else(|| self.write_error(io::ErrorKind::NotFound))
    }

    fn folder(&self, steps: &[OsString], missing: Missing) -> Result<Option<Folder>, ExportError> {
        if missing == Missing::Create {
            platform::private::create_folders(&self.root).map_err(|e| self.write_error(e))?;
        }
        let mut at = match Folder::open(&self.root) {
            Ok(root) => root,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(self.write_error(e)),
        };
        for name in steps {
            let opened = match at.open_folder(name, self.links()) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => match missing {
                    Missing::Ignore => return Ok(None),
                    Missing::Create => {
                        at.create_folder(name).and_then(|()| at.open_folder(name, self.links()))
                    }
                },
                Err(e) if self.is_confined && is_link_error(&e) => return Err(self.link_error()),
                opened => opened,
            };
            at = opened.map_err(|e| self.write_error(e))?;
        }
        Ok(Some(at))
    }

    /// If confined, a folder must be a real one, never a link.
    fn links(&self) -> Links {
        if self.is_confined { Links::Refuse } else { Links::Follow }
    }

    fn link_error(&self) -> ExportError {
        ExportError::Refused(format!(
            "`{}` contains a symbolic link or a file as a folder; exports of agents do not follow links",
            self.requested
        ))
    }

    fn write_error(&self, error: impl Into<io::Error>) -> ExportError {
        ExportError::Write { path: self.requested.clone(), message: error.into().to_string() }
    }
}

/// What to do about missing folders.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Ignore,
    Create,
}

/// Temporary files, ours or another process's, are not content.
fn is_empty(folder: &Folder) -> io::Result<bool> {
    let names = folder.names()?;
    Ok(names.iter().all(|name| temp_file::is_temp_file(name.as_encoded_bytes())))
}

/// `~` and `~/…` mean the owner's home folder, as in a shell.
fn expanded(requested: &str, tilde: Option<&Path>) -> Result<PathBuf, ExportError> {
    let Some(rest) = requested.strip_prefix('~') else { return Ok(requested.into()) };
    match (rest.strip_prefix('/'), tilde) {
        (Some(rest), Some(home)) => Ok(home.join(rest)),
        (None, _) if !rest.is_empty() => Err(ExportError::Refused(format!(
            "`{requested}`: only `~/` is supported, not another user's home"
        ))),
        _ => {
            Err(ExportError::Refused(format!("`{requested}`: the home folder for `~` is unknown")))
        }
    }
}

/// An agent's path relative to the export folder.
fn confined(requested: &str, folder: &Path) -> Result<PathBuf, ExportError> {
    let path = Path::new(requested);
    let outside = || {
        ExportError::Outside(format!(
            "`{requested}` is outside the export folder; give a path relative to it, such as `cycles.csv`"
        ))
    };
    if requested.starts_with('~') {
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

/// Only plain names; `..` is rejected.
fn plain_steps(requested: &str, path: &Path) -> Result<Vec<OsString>, ExportError> {
    let mut steps = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) if temp_file::is_temp_file(name.as_encoded_bytes()) => {
                return Err(ExportError::Refused(format!(
                    "`{requested}`: that name is reserved for temporary files"
                )));
            }
            Component::Normal(name) => steps.push(name.to_owned()),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(ExportError::Refused(format!(
                    "`{requested}` leaves the export folder with `..`"
                )));
            }
        }
    }
    if steps.is_empty() {
        return Err(ExportError::Refused(format!("`{requested}` is the export folder itself")));
    }
    Ok(steps)
}
