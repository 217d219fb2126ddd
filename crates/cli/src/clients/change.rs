//! One change of one file: kept as it was first, then replaced whole.

use anyhow::{Result, bail};

use super::files;
use super::journal::{Journal, Record, sha256};

/// One change of one file.
pub(super) struct Change<'a> {
    pub(super) client: &'a str,
    pub(super) path: &'a std::path::Path,
    /// Nothing when there was no file.
    pub(super) before: Option<&'a str>,
    pub(super) after: &'a str,
    /// Whether a copy goes beside it, too. Not in a project, where it would be shared with others.
    pub(super) aside: bool,
    pub(super) grant: &'a str,
    pub(super) made_grant: bool,
    pub(super) made_servers: Vec<String>,
}

impl Change<'_> {
    pub(super) fn make(self, journal: &Journal<'_>, at_us: i64) -> Result<()> {
        let shown = self.path.display();
        let now = std::fs::read(self.path).ok();
        if now.as_deref() != self.before.map(str::as_bytes) {
            bail!("`{shown}` changed while it was looked at\nhint: quit the client and try again");
        }
        let mode = files::mode_of(self.path);
        let beside = match self.before {
            Some(before) if self.aside => Some(files::put_aside(self.path, before.as_bytes())?),
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
            beside,
            grant: self.grant.to_owned(),
            made_grant: self.made_grant,
            made_servers: self.made_servers,
            at_us,
        };
        let record = journal.keep(record, self.before.unwrap_or_default().as_bytes())?;
        files::replace(self.path, self.after.as_bytes(), mode).inspect_err(|_| {
            let _ = journal.drop(&record);
        })
    }
}
