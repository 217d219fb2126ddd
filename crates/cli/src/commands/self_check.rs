//! `tollgate self check`: this program's version, where it came from and what updates it. It contacts nobody; only with
//! `--newer` it reads the published version, one request to the address that the release was built with.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Args, Subcommand};
use connectors::http::{BaseUrl, Http, Request};
use serde_json::{Value, json};

use crate::failure::Ending;
use crate::gate::runtime;
use crate::output::{Out, visible};

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// A JSON document with the newest version, as the release workflow sets it. A build of your own has none.
const RELEASES: Option<&str> = option_env!("TOLLGATE_RELEASES_URL");
const WAIT_MAX: Duration = Duration::from_secs(10);
const DOCUMENT_BYTES_MAX: usize = 1024 * 1024;

#[derive(Subcommand)]
pub(crate) enum SelfCommand {
    /// Show the version, where it came from, and how to update it
    Check(SelfCheckArgs),
}

#[derive(Args)]
pub(crate) struct SelfCheckArgs {
    /// Ask whether a newer version is published: one request, to the address that is shown
    #[arg(long)]
    newer: bool,
    /// Ask this address instead: a JSON document with `version` or `tag_name`
    #[arg(long, value_name = "URL", requires = "newer")]
    from: Option<String>,
}

impl SelfCommand {
    /// Exits with no if a newer version is published.
    pub(crate) fn run(&self, out: &mut Out) -> Result<Ending> {
        let SelfCommand::Check(args) = self;
        let program = std::env::current_exe().context("cannot find our own program")?;
        let origin = Origin::of(&program, &|path| path.exists());
        let address = args.from.as_deref().or(RELEASES.filter(|address| !address.is_empty()));
        let newest = if args.newer { Some(newest(address)?) } else { None };
        let is_newer = newest.as_deref().is_some_and(|newest| is_newer(newest, VERSION));
        if out.wants_json() {
            out.json(&json!({
                "version": VERSION,
                "system": system(),
                "program": program,
                "from": origin.words,
                "update": origin.update,
                "address": address,
                "newest": newest,
                "newer": args.newer.then_some(is_newer),
            }))?;
            return Ok(Ending::of(!is_newer));
        }
        out.line(format_args!("version  {VERSION} ({})", system()))?;
        out.line(format_args!("program  {}", visible(&program.display().to_string())))?;
        out.line(format_args!("from     {}", origin.words))?;
        out.line(format_args!("update   {}", origin.update))?;
        let line = match (&newest, address) {
            (Some(newest), _) if is_newer => format!("{} is published", visible(newest)),
            (Some(newest), _) => format!("no newer version; {} is published", visible(newest)),
            (None, Some(address)) => {
                format!("not asked; `tollgate self check --newer` asks {}", visible(address))
            }
            (None, None) => "not asked; this build does not know where releases are".to_owned(),
        };
        out.line(format_args!("newest   {line}"))?;
        Ok(Ending::of(!is_newer))
    }
}

fn system() -> String {
    format!("{:?} {}", platform::SYSTEM, std::env::consts::ARCH)
}

/// Where a program came from, as far as its path tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Origin {
    words: &'static str,
    /// What updates it.
    update: &'static str,
}

/// A folder on the path, and what it means. The first that fits.
const FOLDERS: &[(&[&str], Origin)] = &[
    (
        &["node_modules"],
        Origin { words: "the npm package", update: "`npm install tollgate-mcp@latest`" },
    ),
    (&["Cellar"], Origin { words: "Homebrew", update: "`brew upgrade tollgate`" }),
    (&["scoop"], Origin { words: "Scoop", update: "`scoop update tollgate`" }),
    (
        &[".cargo", "bin"],
        Origin { words: "`cargo install`", update: "`cargo install` in a newer checkout" },
    ),
    (&["target", "debug"], SOURCE),
    (&["target", "release"], SOURCE),
    (
        &[".local", "bin"],
        Origin { words: "the installer, or copied there", update: "run the installer again" },
    ),
];
const SOURCE: Origin = Origin { words: "built from source", update: "build a newer checkout" };
const DEBIAN: Origin =
    Origin { words: "the Debian package", update: "`apt install` the newer package" };
const PYTHON: Origin = Origin {
    words: "the Python package",
    update: "`uvx tollgate-mcp@latest`, or `pip install --upgrade tollgate-mcp`",
};
const BUNDLE: Origin =
    Origin { words: "a bundle (`.mcpb`)", update: "open the newer bundle with your client" };
const UNKNOWN: Origin = Origin { words: "not known", update: "as you installed it" };
/// Where dpkg lists the files of the package.
const DPKG_LIST: &str = "/var/lib/dpkg/info/tollgate.list";

impl Origin {
    fn of(program: &Path, exists: &dyn Fn(&Path) -> bool) -> Origin {
        let above = |levels: usize, name: &str| -> PathBuf {
            program.ancestors().nth(levels).unwrap_or(Path::new("")).join(name)
        };
        if program == Path::new("/usr/bin/tollgate") && exists(Path::new(DPKG_LIST)) {
            return DEBIAN;
        }
        if exists(&above(2, "pyvenv.cfg")) {
            return PYTHON;
        }
        if above(1, "").ends_with("server") && exists(&above(2, "manifest.json")) {
            return BUNDLE;
        }
        let parts: Vec<&str> =
            program.components().filter_map(|part| part.as_os_str().to_str()).collect();
        let fits = |folders: &[&str]| parts.windows(folders.len()).any(|part| part == folders);
        FOLDERS.iter().find(|(folders, _)| fits(folders)).map_or(UNKNOWN, |(_, origin)| *origin)
    }
}

/// The published version.
fn newest(address: Option<&str>) -> Result<String> {
    let Some(address) = address else {
        bail!(
            "this build does not know where releases are\nhint: name the address with `--from URL`"
        );
    };
    let base =
        BaseUrl::parse(address).map_err(|why| anyhow!("`{address}` is not usable: {why}"))?;
    let request = Request::get(&base, &[]).wait_max(WAIT_MAX).reply_bytes_max(DOCUMENT_BYTES_MAX);
    let reply = runtime()?.block_on(Http::new().send(request))?;
    if !reply.is_success() {
        bail!("`{}` answered with status {}", base.host(), reply.status);
    }
    let document: Value = serde_json::from_slice(&reply.body)
        .map_err(|_| anyhow!("`{}` did not answer with JSON", base.host()))?;
    let version = ["version", "tag_name"].iter().find_map(|name| document.get(name)?.as_str());
    let version = version.map(|version| version.strip_prefix('v').unwrap_or(version));
    match version.filter(|version| numbers(version).is_some()) {
        Some(version) => Ok(version.to_owned()),
        None => bail!("`{}` names no version", base.host()),
    }
}

/// Whether `one` is a later version. A pre-release is earlier than its release; two of one release count as equal.
fn is_newer(one: &str, other: &str) -> bool {
    let is_release = |version: &str| !version.contains('-');
    match numbers(one).cmp(&numbers(other)) {
        Ordering::Greater => true,
        Ordering::Equal => is_release(one) && !is_release(other),
        Ordering::Less => false,
    }
}

/// Major, minor and patch.
fn numbers(version: &str) -> Option<[u64; 3]> {
    let plain = version.split(['-', '+']).next()?;
    let parts: Option<Vec<u64>> = plain.split('.').map(|part| part.parse().ok()).collect();
    parts?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_program_tells_where_it_came_from() {
        for (program, there, words) in [
            ("/usr/bin/tollgate", DPKG_LIST, DEBIAN.words),
            ("/usr/bin/tollgate", "", UNKNOWN.words),
            ("/home/me/venv/bin/tollgate", "/home/me/venv/pyvenv.cfg", PYTHON.words),
            ("/x/bundle/server/tollgate", "/x/bundle/manifest.json", BUNDLE.words),
            ("/p/node_modules/tollgate-mcp-linux-x64/bin/tollgate", "", "the npm package"),
            ("/opt/homebrew/Cellar/tollgate/0.1.0/bin/tollgate", "", "Homebrew"),
            ("/home/me/.cargo/bin/tollgate", "", "`cargo install`"),
            ("/src/tollgate/target/release/tollgate", "", SOURCE.words),
            ("/home/me/.local/bin/tollgate", "", "the installer, or copied there"),
            ("/opt/tollgate", "", UNKNOWN.words),
        ] {
            let exists = |path: &Path| path == Path::new(there);
            assert_eq!(Origin::of(Path::new(program), &exists).words, words, "{program}");
        }
    }

    #[test]
    fn versions_are_compared_by_number() {
        for (one, other, newer) in [
            ("0.2.0", "0.1.9", true),
            ("0.10.0", "0.9.0", true),
            ("1.0.0", "1.0.0", false),
            ("0.1.0", "0.2.0", false),
            ("1.0.0", "1.0.0-rc.1", true),
            ("1.0.0-rc.1", "1.0.0", false),
            ("1.0.0+build", "1.0.0", false),
        ] {
            assert_eq!(is_newer(one, other), newer, "{one} {other}");
        }
        for none in ["", "1.0", "latest", "1.0.x"] {
            assert_eq!(numbers(none), None, "{none}");
        }
    }
}
