//! Which programs may run to fetch the key of a home. A home that was copied here may name any program in
//! `vault.key`, so it runs only if the owner confirmed it; confirmations are in a file outside the home.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};
use sha2::{Digest as _, Sha256};
use store::vault::ExternalKey;

use super::Keyring;

/// Enough for thousands of confirmations.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Whether this program may run for the home: the system's keyring with exactly tollgate's command, or a
/// program that the owner confirmed.
pub(crate) fn may_run(home: &Path, external: &ExternalKey) -> bool {
    let usual = Keyring::of_this_system().external(external.key.clone(), external.wait_seconds_max);
    if usual.is_ok_and(|usual| usual == *external) {
        return true;
    }
    let Some(file) = file() else { return false };
    let known = store::files::read_text(&file, FILE_BYTES_MAX).unwrap_or_default();
    let wanted = line(home, external);
    known.lines().any(|line| line == wanted)
}

/// Remembers that the owner allows this program for this home.
pub(crate) fn confirm(home: &Path, external: &ExternalKey) -> Result<()> {
    if may_run(home, external) {
        return Ok(());
    }
    let file = file().ok_or_else(|| {
        anyhow!("cannot remember it: neither `XDG_STATE_HOME` nor `HOME` is set\nhint: set `HOME`, or set `TOLLGATE_VAULT_KEY`")
    })?;
    let shown = file.display().to_string();
    let folder = file.parent().unwrap_or(Path::new("/"));
    let written = platform::private::create_folders(folder).and_then(|()| {
        let mut options = OpenOptions::new();
        let mut open =
            platform::private::if_created(options.append(true).create(true)).open(&file)?;
        writeln!(open, "{}", line(home, external))
    });
    written.with_context(|| format!("cannot write `{shown}`"))
}

fn file() -> Option<PathBuf> {
    let look = |name: &str| std::env::var_os(name).map(PathBuf::from);
    Some(platform::environment::state_folder(look)?.join("tollgate/vault-commands"))
}

/// A hash of the home's path, the key id and the command.
fn line(home: &Path, external: &ExternalKey) -> String {
    let home = fs::canonicalize(home).unwrap_or_else(|_| home.to_owned());
    let mut hash = Sha256::new().chain_update(b"tollgate vault command 1\0");
    let message = [external.command.name()].into_iter();
    let message = message.chain(external.command.arguments().iter().map(String::as_str));
    let parts = [home.as_os_str().as_encoded_bytes(), external.key.as_str().as_bytes()];
    for part in parts.into_iter().chain(message.map(str::as_bytes)) {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
