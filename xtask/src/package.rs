//! `cargo xtask package`: everything a release consists of, made from one program that is already built: an archive,
//! a wheel, npm packages, a Debian package, an MCP bundle, the installers and the manifests of package managers. The
//! same bytes of the program are in all of them. Publishes nothing.

mod archive;
mod deb;
mod manifests;
mod mcpb;
mod npm;
mod sbom;
mod target;
mod wheel;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::tools::Tools;
pub(crate) use target::Target;

/// Stands in for the address of the files until a release says it.
const DOWNLOADS_DEFAULT: &str = "https://tollgate.invalid/download";
const HOME_DEFAULT: &str = "https://tollgate.invalid";
const EXECUTABLE_MODE: u32 = 0o755;
const FILE_MODE: u32 = 0o644;

/// Makes the files of one kind of package.
type Make = fn(&Release) -> Result<Vec<PathBuf>>;

const KINDS: &[(&str, Make)] = &[
    ("archive", archive::make),
    ("wheel", wheel::make),
    ("npm", npm::make),
    ("deb", deb::make),
    ("mcpb", mcpb::make),
    ("sbom", sbom::make),
];

/// One program for one system, and where its packages go.
pub(crate) struct Release {
    pub(crate) tools: Tools,
    pub(crate) root: PathBuf,
    pub(crate) version: String,
    pub(crate) target: &'static Target,
    pub(crate) program: PathBuf,
    pub(crate) out: PathBuf,
}

/// What the command line says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    kinds: Vec<String>,
    target: Option<String>,
    program: Option<PathBuf>,
    out: Option<PathBuf>,
    downloads: Option<String>,
    home: Option<String>,
}

pub(crate) fn package(root: &Path, arguments: &[String]) -> Result<bool> {
    let options = Options::of(arguments)?;
    let out = options.out.unwrap_or_else(|| root.join("target/packages"));
    fs::create_dir_all(&out)?;
    let out = out.canonicalize()?;
    if options.kinds.iter().any(|kind| kind == "release") {
        let downloads = options.downloads.unwrap_or_else(|| DOWNLOADS_DEFAULT.to_owned());
        let home = options.home.unwrap_or_else(|| HOME_DEFAULT.to_owned());
        for file in manifests::make(root, &version(root)?, &out, &downloads, &home)? {
            println!("{}", file.display());
        }
        return Ok(true);
    }
    if options.kinds.iter().any(|kind| kind == "test") {
        let program = options.program.context("`test` needs `--program FILE`")?;
        let tally = crate::packages::run(root, crate::tools::ensure()?, &program)?;
        println!("{} passed, {} failed", tally.passed, tally.failed);
        return Ok(tally.failed == 0);
    }
    let target = match &options.target {
        Some(triple) => Target::of(triple)?,
        None => Target::host()?,
    };
    let program = match options.program {
        Some(program) => program,
        None => build(root, options.target.as_deref(), target)?,
    };
    let release = Release {
        tools: crate::tools::ensure()?,
        root: root.to_owned(),
        version: version(root)?,
        target,
        program,
        out,
    };
    for (_, make) in chosen(&options.kinds)? {
        for file in make(&release)? {
            println!("{}", file.display());
        }
    }
    Ok(true)
}

fn chosen(names: &[String]) -> Result<Vec<(&'static str, Make)>> {
    if let Some(unknown) = names.iter().find(|name| KINDS.iter().all(|(kind, _)| kind != name)) {
        let known: Vec<&str> = KINDS.iter().map(|(kind, _)| *kind).collect();
        bail!("unknown package `{unknown}`; there are {}, release and test", known.join(", "));
    }
    let wanted = |kind: &&(&str, Make)| names.is_empty() || names.iter().any(|name| name == kind.0);
    Ok(KINDS.iter().filter(wanted).copied().collect())
}

/// All packages of one program, for the tests.
pub(crate) fn all(release: &Release) -> Result<()> {
    for (_, make) in KINDS {
        make(release)?;
    }
    manifests::make(
        &release.root,
        &release.version,
        &release.out,
        DOWNLOADS_DEFAULT,
        HOME_DEFAULT,
    )?;
    Ok(())
}

impl Options {
    fn of(arguments: &[String]) -> Result<Options> {
        let mut options = Options::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value = || rest.next().with_context(|| format!("`{argument}` needs a value"));
            match argument.as_str() {
                "--target" => options.target = Some(value()?.clone()),
                "--program" => options.program = Some(PathBuf::from(value()?)),
                "--out" => options.out = Some(PathBuf::from(value()?)),
                "--downloads" => options.downloads = Some(value()?.clone()),
                "--home" => options.home = Some(value()?.clone()),
                option if option.starts_with('-') => bail!("unknown option `{option}`"),
                kind => options.kinds.push(kind.to_owned()),
            }
        }
        Ok(options)
    }
}

fn build(root: &Path, triple: Option<&str>, target: &Target) -> Result<PathBuf> {
    let mut cargo = crate::cargo();
    cargo.current_dir(root).args(["build", "--release", "--locked", "--package", "tollgate"]);
    if let Some(triple) = triple {
        cargo.args(["--target", triple]);
    }
    if !cargo.status().context("cannot start cargo")?.success() {
        bail!("tollgate does not build for {}", target.triple);
    }
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    Ok(folder.join(triple.unwrap_or_default()).join("release").join(target.executable()))
}

/// The version of the workspace.
pub(crate) fn version(root: &Path) -> Result<String> {
    let manifest: toml::Table = fs::read_to_string(root.join("Cargo.toml"))?.parse()?;
    let version = manifest
        .get("workspace")
        .and_then(|workspace| workspace.get("package")?.get("version")?.as_str());
    Ok(version.context("Cargo.toml has no workspace.package.version")?.to_owned())
}

impl Release {
    /// An empty folder to put a package together in.
    fn stage(&self, name: &str) -> Result<PathBuf> {
        let folder = self.out.join(".stage").join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// Copies the program, executable.
    fn copy_program(&self, to: &Path) -> Result<()> {
        write_file(
            to,
            &fs::read(&self.program)
                .with_context(|| format!("cannot read the program `{}`", self.program.display()))?,
        )?;
        set_mode(to, EXECUTABLE_MODE)
    }

    /// A file of `packaging/`, with its `@NAME@` replaced.
    fn template(&self, path: &str, values: &[(&str, &str)]) -> Result<String> {
        let mut all = vec![("VERSION", self.version.as_str())];
        all.extend(values);
        render(&self.root, path, &all)
    }
}

fn render(root: &Path, path: &str, values: &[(&str, &str)]) -> Result<String> {
    let path = root.join("packaging").join(path);
    let mut text =
        fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
    for (name, value) in values {
        text = text.replace(&format!("@{name}@"), value);
    }
    Ok(text)
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path.parent().context("a file without a folder")?;
    fs::create_dir_all(folder)?;
    fs::write(path, bytes).with_context(|| format!("cannot write `{}`", path.display()))?;
    set_mode(path, FILE_MODE)
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    Ok(platform::private::set_bits(&fs::File::open(path)?, mode)?)
}

/// Runs a packaging tool; its output is only shown when it fails.
fn run(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let out = command.output().with_context(|| format!("cannot start `{program}`"))?;
    if !out.status.success() {
        bail!(
            "`{program}` failed: {}{}",
            String::from_utf8_lossy(&out.stderr),
            String::from_utf8_lossy(&out.stdout)
        );
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn options_and_kinds_are_read_in_any_order() {
        let expected = Options {
            kinds: words("wheel deb"),
            program: Some(PathBuf::from("a/b")),
            target: Some("t".to_owned()),
            ..Options::default()
        };
        let options = Options::of(&words("wheel --program a/b deb --target t"));
        assert_eq!(options.ok(), Some(expected));
        assert!(Options::of(&words("--program")).is_err());
        assert!(Options::of(&words("--fast")).is_err());
    }

    #[test]
    fn an_unknown_kind_is_refused_and_none_means_all() {
        let count = |line: &str| chosen(&words(line)).ok().map(|kinds| kinds.len());
        assert_eq!(count("rpm"), None);
        assert_eq!(count(""), Some(KINDS.len()));
        assert_eq!(count("deb"), Some(1));
    }
}
