//! The archive that the installers and package managers download: the program with its licence. Two runs over the same
//! program give the same bytes.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use super::{Release, run, write_file};

/// A fixed date for files in archives, so that their bytes depend on their content only.
const DATE: &str = "2026-01-01 00:00:00 UTC";
const DOCUMENTS: &[&str] = &["LICENSE", "README.md", "CHANGELOG.md", "PRIVACY.md", "SECURITY.md"];

pub(super) fn make(release: &Release) -> Result<Vec<PathBuf>> {
    let name = format!("tollgate-{}-{}", release.version, release.target.triple);
    let stage = release.stage("archive")?;
    release.copy_program(&stage.join(&name).join(release.target.executable()))?;
    for document in DOCUMENTS {
        write_file(
            &stage.join(&name).join(document),
            &std::fs::read(release.root.join(document))?,
        )?;
    }
    let extension = release.target.archive_extension();
    let path = release.out.join(format!("{name}.{extension}"));
    let _ = std::fs::remove_file(&path);
    let mut command = if extension == "zip" {
        let mut python = Command::new(&release.tools.python);
        python.args(["-m", "zipfile", "--create"]).arg(&path).arg(&name);
        python
    } else {
        let mut tar = Command::new("tar");
        tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=ustar"]);
        tar.arg(format!("--mtime={DATE}")).args(["--use-compress-program", "gzip -n"]);
        tar.arg("-cf").arg(&path).arg(&name);
        tar
    };
    run(command.current_dir(&stage))?;
    Ok(vec![path])
}
