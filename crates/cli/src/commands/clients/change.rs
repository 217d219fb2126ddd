//! One change of one file: the old file is backed up, then replaced as a whole. A file with a token in it
//! is readable by its owner only.

use std::path::PathBuf;

use anyhow::{Result, bail};
use store::registry::Token;

use super::files;
use super::journal::{Journal, Record, sha256};
use crate::output::{Out, visible};

/// One change of one file.
pub(super) struct Change<'a> {
    pub(super) client: &'a str,
    pub(super) path: &'a std::path::Path,
    /// None when there was no file.
    pub(super) before: Option<&'a str>,
    pub(super) after: &'a str,
    /// Whether to write a copy next to it. Not in a project, where it would be shared with others.
    pub(super) with_copy: bool,
    pub(super) grant: &'a str,
    pub(super) made_grant: bool,
    pub(super) made_servers: Vec<String>,
}

/// Side effects of a change that the owner should know.
pub(super) struct Made {
    /// The copy in clear next to the file.
    pub(super) copy: Option<PathBuf>,
    /// The old mode of the file if it was accessible to others and no longer is.
    pub(super) loose_mode: Option<u32>,
}

impl Change<'_> {
    pub(super) fn make(self, journal: &Journal<'_>, at_us: i64) -> Result<Made> {
        let shown = self.path.display();
        let now = std::fs::read(self.path).ok();
        if now.as_deref() != self.before.map(str::as_bytes) {
            bail!(
                "`{shown}` changed while it was being edited\nhint: quit the client and try again"
            );
        }
        let mode = files::mode_of(self.path);
        let new_mode = if holds_token(self.after) { mode & 0o700 } else { mode };
        let copy = match self.before {
            Some(before) if self.with_copy => {
                Some(files::write_copy(self.path, before.as_bytes())?)
            }
            _ => None,
        };
        let record = Record {
            number: 0,
            client: self.client.to_owned(),
            path: self.path.to_owned(),
            existed: self.before.is_some(),
            mode,
            before_sha256: sha256(self.before.unwrap_or_default().as_bytes()),
            after_sha256: sha256(self.after.as_bytes()),
            copy: copy.clone(),
            grant: self.grant.to_owned(),
            made_grant: self.made_grant,
            made_servers: self.made_servers,
            at_us,
        };
        let record = journal.write(record, self.before.unwrap_or_default().as_bytes())?;
        files::replace(self.path, self.after.as_bytes(), new_mode).inspect_err(|_| {
            let _ = journal.drop(&record);
        })?;
        Ok(Made { copy, loose_mode: (new_mode != mode).then_some(mode) })
    }
}

impl Made {
    /// Tells the owner about the mode and the copy.
    pub(super) fn report(&self, path: &str, out: &Out) {
        if let Some(mode) = self.loose_mode {
            out.say(format_args!(
                "mode of `{}` changed from {mode:04o} to {:04o}: the file holds a token now",
                visible(path),
                mode & 0o700
            ));
        }
        if let Some(copy) = &self.copy {
            out.say(format_args!(
                "copy of the old file, with its secrets in clear: `{}`; `tollgate clients copies --remove` removes it",
                visible(&copy.display().to_string())
            ));
        }
    }
}

/// Whether the text contains a grant's token.
fn holds_token(text: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.any(|word| Token::parse(word).is_ok())
}
