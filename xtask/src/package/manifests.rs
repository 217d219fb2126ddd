//! What is made once per release, when the archives of all systems are in one folder: checksums, installers, and the
//! manifests of Homebrew and Scoop.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{render, run, set_mode, write_file};

/// A template, and where its result goes in the folder of the packages.
const TEMPLATES: &[(&str, &str)] = &[
    ("install/install.sh", "install.sh"),
    ("install/install.ps1", "install.ps1"),
    ("homebrew/tollgate.rb", "tollgate.rb"),
    ("scoop/tollgate.json", "tollgate.json"),
];
const PACKAGES: &[&str] = &["tar.gz", "zip", "whl", "tgz", "deb", "mcpb", "cdx.json"];

/// An archive that is missing leaves its `@SHA256:…@` in place, so that nobody can install it by accident.
pub(super) fn make(
    root: &Path,
    version: &str,
    out: &Path,
    downloads: &str,
    home: &str,
) -> Result<Vec<PathBuf>> {
    let sums = checksums(out)?;
    let lines: Vec<String> = sums.iter().map(|(name, sum)| format!("{sum}  {name}")).collect();
    let mut made = vec![out.join("SHA256SUMS")];
    write_file(&out.join("SHA256SUMS"), (lines.join("\n") + "\n").as_bytes())?;
    let names: Vec<(String, &str)> =
        sums.iter().filter_map(|(name, sum)| Some((hole(name, version)?, sum.as_str()))).collect();
    let mut values = vec![("VERSION", version), ("DOWNLOADS", downloads), ("HOME", home)];
    values.extend(names.iter().map(|(name, sum)| (name.as_str(), *sum)));
    for (template, file) in TEMPLATES {
        let path = out.join(file);
        write_file(&path, render(root, template, &values)?.as_bytes())?;
        made.push(path);
    }
    set_mode(&out.join("install.sh"), super::EXECUTABLE_MODE)?;
    Ok(made)
}

/// The name of the hole that the checksum of this archive fills; none for other packages.
fn hole(file: &str, version: &str) -> Option<String> {
    let rest = file.strip_prefix("tollgate-")?.strip_prefix(version)?.strip_prefix('-')?;
    let triple = rest.strip_suffix(".tar.gz").or_else(|| rest.strip_suffix(".zip"))?;
    Some(format!("SHA256:{triple}"))
}

/// Name and SHA-256 of every package in the folder, by name.
fn checksums(out: &Path) -> Result<Vec<(String, String)>> {
    let mut names: Vec<String> = fs::read_dir(out)?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| PACKAGES.iter().any(|extension| name.ends_with(&format!(".{extension}"))))
        .collect();
    names.sort();
    let sum = |name: &String| {
        let said = run(Command::new("sha256sum").arg(out.join(name)))?;
        let sum = said.split_whitespace().next().context("`sha256sum` printed nothing")?;
        Ok((name.clone(), sum.to_owned()))
    };
    names.iter().map(sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_archives_fill_a_hole() {
        let table = [
            ("tollgate-0.1.0-x86_64-apple-darwin.tar.gz", Some("SHA256:x86_64-apple-darwin")),
            ("tollgate-0.1.0-x86_64-pc-windows-msvc.zip", Some("SHA256:x86_64-pc-windows-msvc")),
            ("tollgate-0.2.0-x86_64-apple-darwin.tar.gz", None),
            ("tollgate_0.1.0_amd64.deb", None),
        ];
        for (file, expected) in table {
            assert_eq!(hole(file, "0.1.0").as_deref(), expected, "{file}");
        }
    }
}
