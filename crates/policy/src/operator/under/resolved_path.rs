//! A path with its dots resolved: where it starts from and the names on the way.

use unicode_normalization::UnicodeNormalization;

use crate::truth_value::TruthValue;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Slashes separate; a backslash is a letter.
    Posix,
    /// Backslashes separate too.
    Turned,
    /// Drives, shares, no case.
    Windows,
}

/// Where a path starts from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Start {
    Root,
    /// An unknown folder.
    Here,
    /// `~` or `~name`, an unknown folder too.
    Home(String),
    Drive(char),
    Share {
        server: String,
        share: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ResolvedPath {
    start: Start,
    names: Vec<String>,
    /// More `..` than names, from a start that has something above it.
    pub(super) climbs: bool,
}

impl ResolvedPath {
    /// `None` when the path means something that names alone do not tell.
    pub(super) fn read(path: &str, style: Style) -> Option<ResolvedPath> {
        match style {
            Style::Posix => read_posix(path, &['/']),
            Style::Turned => read_posix(path, &['/', '\\']),
            Style::Windows => read_windows(path),
        }
    }

    /// Whether another place is at or below this one.
    pub(super) fn holds(&self, other: &ResolvedPath) -> TruthValue {
        if self.start != other.start {
            // Two drives or shares are apart for sure; a known and an unknown start are not.
            let apart = self.start.is_device() && other.start.is_device();
            return if apart { TruthValue::Fails } else { TruthValue::Indeterminate };
        }
        if other.climbs {
            return TruthValue::Indeterminate;
        }
        if other.names.starts_with(&self.names) {
            return TruthValue::Holds;
        }
        // Some file systems do not tell case or composed letters apart.
        let alike = other.names.len() >= self.names.len()
            && self.names.iter().zip(&other.names).all(|(one, other)| folded(one) == folded(other));
        if alike { TruthValue::Indeterminate } else { TruthValue::Fails }
    }
}

impl Start {
    const fn is_device(&self) -> bool {
        matches!(self, Start::Drive(_) | Start::Share { .. })
    }

    /// Whether nothing is above it, so that `..` stays where it is.
    const fn is_top(&self) -> bool {
        matches!(self, Start::Root | Start::Drive(_) | Start::Share { .. })
    }
}

fn folded(name: &str) -> String {
    name.nfc().collect::<String>().to_lowercase()
}

fn read_posix(path: &str, separators: &[char]) -> Option<ResolvedPath> {
    let mut names = path.split(separators);
    let first = path.split(separators).next().unwrap_or_default();
    let start = if path.starts_with(separators) {
        Start::Root
    } else if first.starts_with('~') {
        names.next();
        Start::Home(first.to_owned())
    } else if first.contains(':') {
        // A URL or a drive, not a name.
        return None;
    } else {
        Start::Here
    };
    Some(resolve(start, names.map(str::to_owned)))
}

fn read_windows(path: &str) -> Option<ResolvedPath> {
    let path = path.replace('/', "\\");
    let (start, rest) = if let Some(share) = path.strip_prefix("\\\\") {
        let mut parts = share.splitn(3, '\\');
        let server = windows_name(parts.next()?)?;
        let share = windows_name(parts.next()?)?;
        let device = server == "?" || server == "." || server.is_empty() || share.is_empty();
        if device {
            return None;
        }
        (Start::Share { server, share }, parts.next().unwrap_or_default().to_owned())
    } else if let Some((drive, rest)) = path.split_once(':') {
        let mut letters = drive.chars();
        let letter = letters.next().filter(char::is_ascii_alphabetic)?;
        let rest = rest.strip_prefix('\\').filter(|_| letters.next().is_none())?;
        (Start::Drive(letter.to_ascii_lowercase()), rest.to_owned())
    } else if path.starts_with('\\') || path.starts_with('~') {
        return None;
    } else {
        (Start::Here, path)
    };
    let names: Vec<String> = rest.split('\\').map(windows_name).collect::<Option<_>>()?;
    Some(resolve(start, names.into_iter()))
}

/// A name as Windows takes it: without case, final dots and spaces. `None` for streams and short names,
/// which stand for other names.
fn windows_name(name: &str) -> Option<String> {
    if matches!(name, "" | "." | ".." | "?") {
        return Some(name.to_owned());
    }
    let kept = name.trim_end_matches(['.', ' ']);
    let short = kept.as_bytes().windows(2).any(|pair| matches!(pair, [b'~', b'0'..=b'9']));
    if kept.is_empty() || kept.contains(':') || short {
        return None;
    }
    Some(folded(kept))
}

fn resolve(start: Start, names: impl Iterator<Item = String>) -> ResolvedPath {
    let mut kept: Vec<String> = Vec::new();
    let mut climbs = false;
    for name in names {
        match name.as_str() {
            "" | "." => {}
            ".." => {
                let nothing_left = kept.pop().is_none();
                climbs |= nothing_left && !start.is_top();
            }
            _ => kept.push(name),
        }
    }
    ResolvedPath { start, names: kept, climbs }
}
