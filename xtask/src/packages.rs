//! Every package, built from one program, installed as a user would and used by a real MCP client: `pip`, `uvx`, `npm`,
//! `npx`, a Debian in a folder of its own, an unpacked bundle, and the shell installer. Nothing is fetched for them but
//! Debian's base system.

mod image;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::package::{Release, Target};
use crate::test::Tally;
use crate::tools::process::{Fixture, Scratch};
use crate::tools::{Tools, programs};

/// A tool that every build of the WHOOP server has.
const TOOL: &str = "get_whoop_daily_summary";
/// With a `/proc` that ends with the command: a mount that stayed would be in the way of deleting the folder.
const SERVE_IN_CHROOT: &str = "mount -t proc proc \"$0/proc\" && \
    exec chroot \"$0\" /usr/bin/env TOLLGATE_HOME=/srv/tollgate /usr/bin/tollgate stdio whoop";
type Test = fn(&Bench) -> Result<()>;

const TESTS: &[(&str, Test)] = &[
    ("a wheel serves a client from an environment of pip", wheel_with_pip),
    ("a wheel serves a client through uvx", wheel_with_uvx),
    ("npm packages serve a client through npx", npm_with_npx),
    ("npm says which package of the system is missing", npm_without_program),
    ("a bundle serves a client as its manifest says", bundle),
    ("the gate serves the bundle behind a policy", bundle_behind_gate),
    ("the Debian package serves a client in a fresh Debian", deb),
    ("the steps of the container file make a healthy gate", image::check),
    ("the installer refuses an archive with another checksum", installer),
    ("the installer for PowerShell parses, and compares before it copies", powershell),
    ("the manifests name the archives and their checksums", manifests),
];

/// The packages, and a folder for what is installed from them.
struct Bench {
    release: Release,
    scratch: Scratch,
}

pub(crate) fn run(root: &Path, tools: Tools, tollgate: &Path) -> Result<Tally> {
    programs::ensure_packaging()?;
    let scratch = Scratch::new("packages")?;
    // Without debug information, as in a release: the packages would be three times as large.
    let program = scratch.path.join("tollgate");
    done(Command::new("strip").arg("-o").arg(&program).arg(tollgate))?;
    let out = scratch.path.join("packages");
    fs::create_dir_all(&out)?;
    let version = crate::package::version(root)?;
    let target = Target::host()?;
    let release = Release { tools, root: root.to_owned(), version, target, program, out };
    let started = Instant::now();
    crate::package::all(&release)?;
    println!("built the packages in {:.1} s", started.elapsed().as_secs_f64());
    let bench = Bench { release, scratch };
    let mut tally = Tally::default();
    for (name, test) in TESTS {
        let started = Instant::now();
        let result = test(&bench);
        let seconds = started.elapsed().as_secs_f64();
        match &result {
            Ok(()) => println!("ok {name}, {seconds:.1} s"),
            Err(error) => println!("FAILED {name}, {seconds:.1} s\n   {error:#}"),
        }
        tally = tally.add(Tally::one(result.is_ok()));
    }
    Ok(tally)
}

impl Bench {
    fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.scratch.path.join(name);
        fs::create_dir_all(&path)?;
        Ok(path)
    }

    /// The one package with this ending.
    fn package(&self, starts: &str, ends: &str) -> Result<PathBuf> {
        let names = fs::read_dir(&self.release.out)?.filter_map(|entry| Some(entry.ok()?.path()));
        let fits = |path: &PathBuf| {
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
            name.starts_with(starts) && name.ends_with(ends)
        };
        let mut found = names.filter(fits);
        let first = found.next().with_context(|| format!("there is no package {starts}…{ends}"))?;
        ensure!(found.next().is_none(), "there are several packages {starts}…{ends}");
        Ok(first)
    }

    /// A real client starts the command, lists its tools and calls one.
    fn serves(&self, home: &str, command: &[&OsStr]) -> Result<()> {
        let mut client = self.release.tools.node_script("packages/serve.mjs");
        client.args(command).env("TOLLGATE_HOME", self.scratch.path.join("homes").join(home));
        let said: Value = serde_json::from_str(&done(&mut client)?)?;
        let tools = said.get("tools").and_then(Value::as_array).context("no tools")?;
        ensure!(tools.iter().any(|tool| tool == TOOL), "`{TOOL}` is not among {tools:?}");
        let health = said.get("health").and_then(Value::as_str).unwrap_or_default();
        ensure!(health.contains("whoop") || health.contains("WHOOP"), "its health says {health:?}");
        Ok(())
    }

    fn prints_version(&self, command: &mut Command) -> Result<()> {
        let said = done(command.arg("--version"))?;
        let expected = format!("tollgate {}", self.release.version);
        ensure!(said.trim() == expected, "it says {said:?}, not {expected:?}");
        Ok(())
    }
}

/// Runs a command that must succeed, and returns what it printed.
fn done(command: &mut Command) -> Result<String> {
    let out = output(command)?;
    if !out.status.success() {
        bail!("{command:?} ended with {}: {}", out.status, String::from_utf8_lossy(&out.stderr));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// Runs a command that must fail, and returns what it complained about.
fn failed(command: &mut Command) -> Result<String> {
    let out = output(command)?;
    ensure!(!out.status.success(), "{command:?} succeeded");
    Ok(String::from_utf8_lossy(&out.stderr).into_owned())
}

fn output(command: &mut Command) -> Result<std::process::Output> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.output().with_context(|| format!("cannot start `{program}`"))
}

fn wheel_with_pip(bench: &Bench) -> Result<()> {
    let venv = bench.scratch.path.join("venv");
    done(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    let mut pip = Command::new(venv.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check"]);
    done(pip.arg(bench.package("tollgate_mcp-", ".whl")?))?;
    for name in ["tollgate", "tollgate-mcp"] {
        bench.prints_version(&mut Command::new(venv.join("bin").join(name)))?;
    }
    bench.prints_version(Command::new(venv.join("bin/python")).args(["-m", "tollgate_mcp"]))?;
    let program = venv.join("bin/tollgate-mcp");
    bench.serves("wheel", &[program.as_os_str(), "stdio".as_ref(), "whoop".as_ref()])
}

fn wheel_with_uvx(bench: &Bench) -> Result<()> {
    let python = crate::tools::packages_python()?;
    let uvx = python.with_file_name("uvx");
    let wheel = bench.package("tollgate_mcp-", ".whl")?;
    let cache = bench.scratch.path.join("uv-cache");
    let words: Vec<&OsStr> = vec![
        uvx.as_os_str(),
        "--offline".as_ref(),
        "--cache-dir".as_ref(),
        cache.as_os_str(),
        "--from".as_ref(),
        wheel.as_os_str(),
        "tollgate-mcp".as_ref(),
        "stdio".as_ref(),
        "whoop".as_ref(),
    ];
    bench.serves("uvx", &words)
}

fn npm_project(bench: &Bench, name: &str, packages: &[PathBuf]) -> Result<PathBuf> {
    let project = bench.folder(name)?;
    fs::write(project.join("package.json"), r#"{"name":"project","private":true}"#)?;
    // Offline, because the packages of other systems are optional, and no registry has them here.
    let mut npm = Command::new("npm");
    npm.current_dir(&project).args(["install", "--offline", "--no-audit", "--no-fund"]);
    done(npm.arg("--loglevel=error").args(packages))?;
    Ok(project)
}

fn npm_with_npx(bench: &Bench) -> Result<()> {
    let of_all = bench.package(&format!("tollgate-mcp-{}", bench.release.version), ".tgz")?;
    let of_system = bench.package("tollgate-mcp-linux-", ".tgz")?;
    let project = npm_project(bench, "npm", &[of_system, of_all])?;
    for name in ["tollgate", "tollgate-mcp"] {
        bench
            .prints_version(Command::new("npx").current_dir(&project).args(["--offline", name]))?;
    }
    let unknown = output(Command::new("npx").current_dir(&project).args(["tollgate", "unknown"]))?;
    ensure!(unknown.status.code() == Some(2), "its exit code is lost: {}", unknown.status);
    let launcher = project.join("node_modules/.bin/tollgate-mcp");
    bench.serves("npm", &[launcher.as_os_str(), "stdio".as_ref(), "whoop".as_ref()])
}

fn npm_without_program(bench: &Bench) -> Result<()> {
    let of_all = bench.package(&format!("tollgate-mcp-{}", bench.release.version), ".tgz")?;
    let project = npm_project(bench, "npm-alone", &[of_all])?;
    let said = failed(&mut Command::new(project.join("node_modules/.bin/tollgate")))?;
    ensure!(said.contains("tollgate-mcp-linux-"), "it says {said:?}");
    Ok(())
}

/// As a client that installs bundles does: unpack it and start what the manifest says.
fn bundle(bench: &Bench) -> Result<()> {
    let bundle = bench.package("tollgate-whoop-", ".mcpb")?;
    let folder = bench.scratch.path.join("bundle");
    let mut mcpb = bench.release.tools.npm_command("mcpb");
    done(mcpb.arg("unpack").arg(&bundle).arg(&folder))?;
    let manifest: Value = serde_json::from_str(&fs::read_to_string(folder.join("manifest.json"))?)?;
    let config = manifest.pointer("/server/mcp_config").context("no mcp_config")?;
    let here = folder.display().to_string();
    let expand = |value: &Value| value.as_str().unwrap_or_default().replace("${__dirname}", &here);
    let mut words = vec![expand(config.get("command").context("no command")?)];
    words.extend(config.get("args").and_then(Value::as_array).into_iter().flatten().map(expand));
    let words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
    bench.serves("bundle", &words)
}

fn bundle_behind_gate(bench: &Bench) -> Result<()> {
    let home = bench.scratch.path.join("homes/gate");
    let tollgate = |arguments: &[&OsStr]| {
        let mut command = Command::new(&bench.release.program);
        command.arg("--home").arg(&home).args(arguments);
        command
    };
    let bundle = bench.package("tollgate-whoop-", ".mcpb")?;
    let inner = bench.scratch.path.join("homes/inner");
    done(
        tollgate(&["server".as_ref(), "add".as_ref(), bundle.as_os_str(), "--yes".as_ref()])
            .env("TOLLGATE_HOME", &inner),
    )?;
    let said = done(&mut tollgate(&["--json".as_ref(), "server".as_ref(), "list".as_ref()]))?;
    ensure!(said.contains("tollgate-whoop"), "the server is not listed: {said}");
    let tools = ["--json".as_ref(), "server".as_ref(), "tools".as_ref(), "tollgate-whoop".as_ref()];
    let said = done(&mut tollgate(&tools))?;
    ensure!(said.contains(TOOL), "`{TOOL}` is not among its tools: {said}");
    Ok(())
}

/// A fresh Debian in a folder needs root; without it the package is only unpacked.
fn deb(bench: &Bench) -> Result<()> {
    let package = bench.package("tollgate_", ".deb")?;
    let root = bench.scratch.path.join("debian");
    if !programs::is_root()? {
        println!("   not root: the package is unpacked, not installed");
        done(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&root))?;
        let program = root.join("usr/bin/tollgate");
        return bench.serves("deb", &[program.as_os_str(), "stdio".as_ref(), "whoop".as_ref()]);
    }
    programs::make_debian(&root)?;
    fs::copy(&package, root.join("tollgate.deb"))?;
    let inside = |program: &str, arguments: &[&str]| {
        let mut command = Command::new("chroot");
        command
            .arg(&root)
            .arg(program)
            .args(arguments)
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command
    };
    done(&mut inside("dpkg", &["--install", "/tollgate.deb"]))?;
    bench.prints_version(&mut inside("tollgate", &[]))?;
    ensure!(root.join("usr/share/man/man1/tollgate.1.gz").is_file(), "no manual page");
    let unit = fs::read_to_string(root.join("usr/lib/systemd/user/tollgate.service"))?;
    ensure!(unit.contains("ExecStart=/usr/bin/tollgate up"), "the unit starts another program");
    let start = ["unshare", "--mount", "sh", "-c", SERVE_IN_CHROOT].map(OsStr::new);
    bench.serves("deb", &[&start[..], &[root.as_os_str()]].concat())?;
    done(&mut inside("dpkg", &["--purge", "tollgate"]))?;
    ensure!(!root.join("usr/bin/tollgate").exists(), "the program is left after the removal");
    Ok(())
}

fn installer(bench: &Bench) -> Result<()> {
    let served = bench.folder("served")?;
    let target = bench.release.target.triple;
    let archive = format!("tollgate-{}-{target}.tar.gz", bench.release.version);
    for file in ["SHA256SUMS", archive.as_str()] {
        fs::copy(bench.release.out.join(file), served.join(file))?;
    }
    let server =
        Fixture::start(bench.release.tools.python_script("packages/files.py").arg(&served))?;
    let bin = bench.scratch.path.join("bin");
    let install = || {
        let mut sh = Command::new("sh");
        sh.arg(bench.release.out.join("install.sh")).env("TOLLGATE_DOWNLOADS", &server.url);
        sh.env("TOLLGATE_INSTALL_DIR", &bin).env("TOLLGATE_TARGET", target);
        sh
    };
    let sums = fs::read_to_string(served.join("SHA256SUMS"))?;
    let zeros =
        sums.lines().map(|line| format!("{:064}{}\n", 0, line.get(64..).unwrap_or_default()));
    fs::write(served.join("SHA256SUMS"), zeros.collect::<String>())?;
    let said = failed(&mut install())?;
    ensure!(said.contains("wrong SHA-256") && !bin.join("tollgate").exists(), "it says {said:?}");
    fs::write(served.join("SHA256SUMS"), "")?;
    let said = failed(&mut install())?;
    ensure!(said.contains("not listed in SHA256SUMS"), "it says {said:?}");
    let said = failed(install().env("TOLLGATE_DOWNLOADS", "http://example.invalid"))?;
    ensure!(said.contains("not an https address"), "it says {said:?}");
    fs::write(served.join("SHA256SUMS"), sums)?;
    let said = done(&mut install())?;
    ensure!(said.contains("tollgate up --demo"), "no next step: {said:?}");
    bench.prints_version(&mut Command::new(bin.join("tollgate")))?;
    // Again, over the installed program.
    done(&mut install())?;
    bench.prints_version(&mut Command::new(bin.join("tollgate")))
}

/// No registry has PowerShell, so the script is parsed and not run.
fn powershell(bench: &Bench) -> Result<()> {
    let script = bench.release.root.join("tests/e2e/packages/powershell.py");
    let installer = bench.release.out.join("install.ps1");
    let said = done(Command::new(crate::tools::packages_python()?).arg(script).arg(&installer))?;
    let order: Vec<&str> = said
        .lines()
        .filter(|word| ["Get-FileHash", "throw", "Expand-Archive", "Copy-Item"].contains(word))
        .collect();
    let tail = order.iter().position(|word| *word == "Get-FileHash").unwrap_or(order.len());
    let tail = order.get(tail..).unwrap_or_default();
    ensure!(tail == ["Get-FileHash", "throw", "Expand-Archive", "Copy-Item"], "{order:?}");
    Ok(())
}

/// This machine's archive is the only one here, so its checksum is in no manifest of a release.
fn manifests(bench: &Bench) -> Result<()> {
    let scoop = fs::read_to_string(bench.release.out.join("tollgate.json"))?;
    let scoop: Value = serde_json::from_str(&scoop)?;
    let version = scoop.get("version").and_then(Value::as_str);
    ensure!(version == Some(bench.release.version.as_str()), "Scoop has version {version:?}");
    let formula = fs::read_to_string(bench.release.out.join("tollgate.rb"))?;
    let unfilled = formula.matches("@SHA256:").count();
    ensure!(unfilled == 4, "{unfilled} archives of the formula have no checksum, not 4");
    ensure!(!formula.contains("@VERSION@"), "the formula has no version");
    Ok(())
}
