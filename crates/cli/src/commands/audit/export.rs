//! `audit export`: the file is complete or absent, and readable by its owner only.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::ValueEnum;
use serde_json::json;
use store::ledger::{ExportFormat, Filter, LedgerError, Reader};

use super::{AuditExportArgs, log};
use crate::context::Context;
use crate::failure::Ending;
use crate::output::{Out, Progress, ReaderGone};

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Format {
    /// One joined entry a line
    Jsonl,
    /// The same as a table, safe to open in a spreadsheet
    Csv,
    /// The rows themselves, for verifiers
    Chain,
}

pub(super) fn run(args: &AuditExportArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let filter = args.filter.filter(context.clock.now().wall_us)?;
    let reader = log(context)?;
    let format = match args.format {
        Format::Jsonl => ExportFormat::Jsonl,
        Format::Csv => ExportFormat::Csv,
        Format::Chain => ExportFormat::Chain,
    };
    let Some(path) = &args.out else { return to_stdout(format, &filter, &reader, out) };
    let lines = write_whole(path, |file| {
        let mut counting = Counting::new(BufWriter::new(file));
        reader.export(format, &filter, &mut counting).map_err(|error| not_written(error, path))
    })?;
    if out.wants_json() {
        out.json(&json!({ "file": path, "lines": lines }))?;
    } else {
        out.line(format_args!("{lines} lines written to `{}`", path.display()))?;
    }
    Ok(Ending::Yes)
}

/// Names the export file, not the log, as what cannot be written.
fn not_written(error: LedgerError, path: &Path) -> anyhow::Error {
    match error {
        LedgerError::Io { act: "write", source, .. } => anyhow!(
            "cannot write `{}`: {source}\nhint: free disk space, or name another file with `--out`",
            path.display()
        ),
        error => error.into(),
    }
}

fn to_stdout(
    format: ExportFormat,
    filter: &Filter,
    reader: &Reader,
    out: &mut Out,
) -> Result<Ending> {
    if format == ExportFormat::Jsonl {
        let mut progress = Progress::new("exported");
        for (done, entry) in reader.oldest_first(filter)?.enumerate() {
            out.json_line(&entry?)?;
            progress.at(u64::try_from(done).unwrap_or(0));
        }
        return Ok(Ending::Yes);
    }
    out.untrusted(|writer| {
        let mut counting = Counting::new(writer);
        let done = reader.export(format, filter, &mut counting);
        if counting.gone {
            return Err(ReaderGone.into());
        }
        Ok(done.map(|_| ())?)
    })?;
    Ok(Ending::Yes)
}

/// Writes a temporary file in the same folder and renames it when it is complete.
pub(super) fn write_whole<T>(path: &Path, write: impl FnOnce(&mut File) -> Result<T>) -> Result<T> {
    let shown = path.display();
    let Some(name) = path.file_name() else { bail!("`{shown}` is not the name of a file") };
    // The rename would replace a device or a pipe.
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        bail!(
            "`{shown}` exists and is not a regular file\nhint: without `--out` it goes to standard output"
        );
    }
    let mut temporary = name.to_owned();
    temporary.push(format!(".{}.part", std::process::id()));
    let temporary_file = TemporaryFile(path.with_file_name(temporary));
    let mut file = platform::private::create_file(&temporary_file.0)
        .with_context(|| format!("cannot create a file in the folder of `{shown}`"))?;
    let done = write(&mut file)?;
    file.sync_all().with_context(|| format!("cannot write `{shown}`"))?;
    fs::rename(&temporary_file.0, path).with_context(|| format!("cannot write `{shown}`"))?;
    Ok(done)
}

/// Removes the temporary file of a failed export.
struct TemporaryFile(PathBuf);

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Counts lines, and remembers whether the reader has closed the pipe.
struct Counting<W: Write> {
    inner: W,
    progress: Progress,
    lines: u64,
    gone: bool,
}

impl<W: Write> Counting<W> {
    fn new(inner: W) -> Counting<W> {
        Counting { inner, progress: Progress::new("exported"), lines: 0, gone: false }
    }
}

impl<W: Write> Write for Counting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes);
        self.gone |= written.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::BrokenPipe);
        let written = written?;
        let new = bytes.iter().take(written).filter(|byte| **byte == b'\n').count();
        if new > 0 {
            self.lines += u64::try_from(new).unwrap_or(0);
            self.progress.at(self.lines);
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.inner.flush();
        self.gone |= flushed.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::BrokenPipe);
        flushed
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_file_is_complete_or_absent_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        let failed: Result<()> = write_whole(&path, |file| {
            file.write_all(b"half")?;
            bail!("disk full")
        });
        assert!(failed.is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        write_whole(&path, |file| Ok(file.write_all(b"whole")?)).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(platform::private::bits(&fs::metadata(&path).unwrap()), 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn only_regular_files_are_replaced() {
        use std::os::unix::fs::FileTypeExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        for place in [folder.path(), path.as_path()] {
            assert!(write_whole(place, |file| Ok(file.write_all(b"whole")?)).is_err());
        }
        assert!(fs::metadata(&path).unwrap().file_type().is_socket());
    }
}
