//! Reads and unpacks the ZIP of a bundle. Anything that could write outside of its folder, or more than the bounds,
//! is refused before the first file is written.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, Read, Write as _};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use platform::private;
use zip::ZipArchive;

use super::Manifest;

const ARCHIVE_BYTES_MAX: u64 = 512 << 20;
const FILES_MAX: usize = 50_000;
const UNPACKED_BYTES_MAX: u64 = 1 << 30;
const MANIFEST_BYTES_MAX: u64 = 1 << 20;
const NAME_BYTES_MAX: usize = 1_024;
const FOLDERS_DEEP_MAX: usize = 64;
/// A file that unpacks to more than this many times its packed size is a bomb, from this size on.
const RATIO_MAX: u64 = 200;
const RATIO_FROM_BYTES: u64 = 1 << 20;
const TYPE_BITS: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;

/// A bundle that was checked and not unpacked yet.
#[derive(Debug)]
pub(crate) struct Bundle {
    zip: ZipArchive<BufReader<File>>,
    entries: Vec<BundleEntry>,
    pub(crate) manifest: Manifest,
}

#[derive(Debug)]
struct BundleEntry {
    index: usize,
    path: PathBuf,
    is_folder: bool,
    is_program: bool,
}

impl Bundle {
    pub(crate) fn open(path: &Path) -> Result<Bundle> {
        let shown = path.display();
        let file = store::files::open(path).with_context(|| format!("cannot open `{shown}`"))?;
        let bytes = file.metadata()?.len();
        if bytes > ARCHIVE_BYTES_MAX {
            bail!("`{shown}` is larger than {} MiB", ARCHIVE_BYTES_MAX >> 20);
        }
        let mut zip = ZipArchive::new(BufReader::new(file))
            .with_context(|| format!("`{shown}` is not a bundle: it is not a ZIP"))?;
        let entries = entries(&mut zip).with_context(|| format!("`{shown}` is refused"))?;
        let text =
            manifest_text(&mut zip, &entries).with_context(|| format!("`{shown}` is refused"))?;
        let manifest = Manifest::read(&text)
            .with_context(|| format!("the manifest of `{shown}` cannot be used"))?;
        let bundle = Bundle { zip, entries, manifest };
        bundle.check_entry_point()?;
        Ok(bundle)
    }

    pub(crate) fn files(&self) -> usize {
        self.entries.iter().filter(|entry| !entry.is_folder).count()
    }

    fn check_entry_point(&self) -> Result<()> {
        let at = &self.manifest.entry_point;
        let wanted = plain_path(at).with_context(|| format!("the entry point `{at}`"))?;
        if self.entries.iter().any(|entry| !entry.is_folder && entry.path == wanted) {
            return Ok(());
        }
        bail!("the bundle has no file `{at}`, which its manifest names as the entry point")
    }

    /// Unpacks into a new folder that only the owner can read. A folder that could not be filled is removed.
    pub(crate) fn unpack(&mut self, folder: &Path) -> Result<()> {
        if let Some(above) = folder.parent() {
            private_folder(above)?;
        }
        private::create_folder(folder)
            .with_context(|| format!("cannot create folder `{}`", folder.display()))?;
        let unpacked = self.fill(folder);
        if unpacked.is_err() {
            let _ = fs::remove_dir_all(folder);
        }
        unpacked
    }

    fn fill(&mut self, folder: &Path) -> Result<()> {
        let program = plain_path(&self.manifest.entry_point)?;
        let mut left = UNPACKED_BYTES_MAX;
        for entry in &self.entries {
            let path = folder.join(&entry.path);
            let shown = entry.path.display();
            if entry.is_folder {
                private_folder(&path)?;
                continue;
            }
            if let Some(above) = path.parent() {
                private_folder(above)?;
            }
            let file = self.zip.by_index(entry.index).with_context(|| format!("file `{shown}`"))?;
            let bytes_max = bytes_max(file.compressed_size()).min(left);
            let is_program =
                entry.is_program || (self.manifest.is_binary() && entry.path == program);
            // The sizes in the ZIP are claims, so what comes out is counted.
            let written = copy(file, &path, bytes_max, is_program)
                .with_context(|| format!("file `{shown}`"))?;
            left = left.saturating_sub(written);
        }
        Ok(())
    }
}

/// How many bytes a file of this packed size may have.
fn bytes_max(packed: u64) -> u64 {
    packed.saturating_mul(RATIO_MAX).max(RATIO_FROM_BYTES)
}

fn copy(from: impl Read, to: &Path, bytes_max: u64, is_program: bool) -> Result<u64> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    let private = if is_program { private::program_if_created } else { private::if_created };
    let mut file = private(&mut options).open(to)?;
    let mut limited = from.take(bytes_max.saturating_add(1));
    let written = std::io::copy(&mut limited, &mut file)?;
    if written > bytes_max {
        bail!("it unpacks to more than its size allows");
    }
    file.flush()?;
    Ok(written)
}

fn private_folder(path: &Path) -> Result<()> {
    private::create_folders(path)
        .with_context(|| format!("cannot create folder `{}`", path.display()))
}

fn entries(zip: &mut ZipArchive<BufReader<File>>) -> Result<Vec<BundleEntry>> {
    // The reader keeps one file of each name; another program could run another one.
    if zip.has_duplicate_names() {
        bail!("a name is in it twice");
    }
    if zip.len() > FILES_MAX {
        bail!("it has more than {FILES_MAX} files");
    }
    let (mut entries, mut seen, mut bytes) = (Vec::new(), HashSet::new(), 0_u64);
    for index in 0..zip.len() {
        let file = zip.by_index_raw(index)?;
        let name = std::str::from_utf8(file.name_raw()).context("a name in it is not UTF-8")?;
        let shown = crate::output::visible(name);
        if file.encrypted() {
            bail!("the file `{shown}` is encrypted");
        }
        let mode = file.unix_mode().unwrap_or(REGULAR);
        let is_folder = name.ends_with('/');
        let kind = mode & TYPE_BITS;
        if kind != 0 && kind != (if is_folder { FOLDER } else { REGULAR }) {
            bail!("`{shown}` is a link or a special file");
        }
        let path = plain_path(name.trim_end_matches('/')).with_context(|| format!("`{shown}`"))?;
        // Some file systems ignore case, where one file would replace another.
        if !seen.insert(path.to_string_lossy().to_lowercase()) {
            bail!("`{shown}` is in it twice");
        }
        bytes = bytes.saturating_add(file.size());
        if bytes > UNPACKED_BYTES_MAX {
            bail!("it unpacks to more than {} MiB", UNPACKED_BYTES_MAX >> 20);
        }
        if file.size() > bytes_max(file.compressed_size()) {
            bail!("`{shown}` unpacks to more than {RATIO_MAX} times its size");
        }
        entries.push(BundleEntry { index, path, is_folder, is_program: mode & 0o111 != 0 });
    }
    check_no_file_is_a_folder(&entries)?;
    Ok(entries)
}

fn check_no_file_is_a_folder(entries: &[BundleEntry]) -> Result<()> {
    let files: HashSet<&Path> =
        entries.iter().filter(|entry| !entry.is_folder).map(|entry| entry.path.as_path()).collect();
    for entry in entries {
        if entry.path.ancestors().skip(1).any(|above| files.contains(above)) {
            bail!(
                "`{}` is below a file",
                crate::output::visible(&entry.path.display().to_string())
            );
        }
    }
    Ok(())
}

fn manifest_text(zip: &mut ZipArchive<BufReader<File>>, entries: &[BundleEntry]) -> Result<String> {
    let found = entries.iter().find(|entry| entry.path == Path::new("manifest.json"));
    let Some(entry) = found else { bail!("it has no `manifest.json`") };
    let file = zip.by_index(entry.index)?;
    let mut text = String::new();
    file.take(MANIFEST_BYTES_MAX + 1).read_to_string(&mut text)?;
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > MANIFEST_BYTES_MAX {
        bail!("its manifest is larger than {} MiB", MANIFEST_BYTES_MAX >> 20);
    }
    Ok(text)
}

/// A relative path of plain parts.
pub(crate) fn plain_path(name: &str) -> Result<PathBuf> {
    let name = name.strip_prefix("./").unwrap_or(name);
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        bail!("the name is empty or too long");
    }
    if name.chars().any(|c| c.is_control() || c == '\\' || c == ':') {
        bail!("the name has a control character, `\\` or `:`");
    }
    let path = Path::new(name);
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    let has_odd_part = name.split('/').any(|part| matches!(part, "" | "." | ".."));
    if !is_plain || has_odd_part {
        bail!("the name leads out of the bundle");
    }
    if path.components().count() > FOLDERS_DEEP_MAX {
        bail!("it is more than {FOLDERS_DEEP_MAX} folders deep");
    }
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::plain_path;

    #[test]
    fn only_plain_relative_names_are_paths() {
        for name in ["manifest.json", "server/index.js", "./a", "a b/ü.js", "..a/b..", "a/...b"] {
            assert!(plain_path(name).is_ok(), "{name}");
        }
        let deep = "a/".repeat(65) + "a";
        let long = "a".repeat(1_025);
        let bad =
            ["", "/a", "..", "../a", "a/../b", "a//b", "a/./b", "a\\b", "C:/a", "a\0b", "a\nb"];
        for name in bad.into_iter().chain([deep.as_str(), long.as_str()]) {
            assert!(plain_path(name).is_err(), "{name:?}");
        }
    }
}
