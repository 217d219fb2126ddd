//! What a new user does, with `tollgate.exe` in Wine: the demo and its calls, a client over stdio, the owner's data,
//! grants and policies, a killed gate, two processes on one home.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::wine::{Wine, done, windows_path};
use crate::tools::Tools;
use crate::tools::process::{Fixture, Scratch, free_port};

type Step = fn(&Walk) -> Result<()>;

const STEPS: &[(&str, Step)] = &[
    ("the program starts", starts),
    ("a home of its own: doctor, policy, grant", own_home),
    ("the demo answers its own calls, and its log is whole after a kill", demo),
    ("a client over stdio gets the WHOOP tools", stdio),
    ("the mirror: sync, export, sql", mirror),
    ("two processes on one home", two_processes),
    ("a task for the scheduler is written", service),
];

struct Walk {
    tools: Tools,
    wine: Wine,
    program: PathBuf,
    scratch: Scratch,
}

/// Whether every step passed.
pub(super) fn walk(
    tools: Tools,
    compiler: &super::tools::Compiler,
    program: &Path,
) -> Result<bool> {
    let scratch = Scratch::new("wine")?;
    let wine = Wine::ensure(compiler, &scratch.path)?;
    let walk = Walk { tools, wine, program: program.to_owned(), scratch };
    let mut good = true;
    for (name, step) in STEPS {
        let began = Instant::now();
        let result = step(&walk);
        let seconds = began.elapsed().as_secs_f64();
        match &result {
            Ok(()) => println!("ok {name}, {seconds:.1} s"),
            Err(error) => println!("FAILED {name}, {seconds:.1} s\n   {error:#}"),
        }
        good &= result.is_ok();
    }
    Ok(good)
}

impl Walk {
    fn home(&self, name: &str) -> String {
        windows_path(&self.scratch.path.join(name))
    }

    fn tollgate(&self, home: &str, arguments: &[&str]) -> Command {
        let mut command = self.wine.command(&self.program);
        command.current_dir(&self.scratch.path).args(["--home", &self.home(home)]).args(arguments);
        command
    }

    fn says(&self, home: &str, arguments: &[&str], expected: &str) -> Result<String> {
        let said = done(&mut self.tollgate(home, arguments))?;
        ensure!(said.contains(expected), "{arguments:?} does not say {expected:?}: {said}");
        Ok(said)
    }

    /// A demo that runs until the value is dropped, which kills it as `kill -9` does.
    fn demo(&self, home: &str) -> Result<Fixture> {
        let listen = format!("127.0.0.1:{}", free_port()?);
        Fixture::start(&mut self.tollgate(home, &["--json", "up", "--demo", "--listen", &listen]))
    }
}

fn starts(walk: &Walk) -> Result<()> {
    let said = done(walk.wine.command(&walk.program).arg("--version"))?;
    ensure!(said.starts_with("tollgate "), "it says {said:?}");
    Ok(())
}

fn own_home(walk: &Walk) -> Result<()> {
    let policy = walk.tools.e2e.join("../../examples/policies/read-only.json");
    let policy = windows_path(&policy.canonicalize()?);
    walk.says("own", &["policy", "check", &policy], "")?;
    walk.says("own", &["policy", "set", "read-only", &policy], "read-only")?;
    walk.says("own", &["policy", "list"], "read-only")?;
    walk.says("own", &["server", "add", "whoop"], "whoop")?;
    walk.says("own", &["grant", "create", "laptop", "--server", "whoop=read-only"], "tg_")?;
    walk.says("own", &["grant", "list"], "laptop")?;
    walk.says("own", &["grant", "revoke", "laptop"], "laptop")?;
    walk.says("own", &["audit", "verify"], "")?;
    Ok(())
}

/// The calls are lines for a shell; the one of Linux is as good as any.
fn demo(walk: &Walk) -> Result<()> {
    let demo = walk.demo("demo")?;
    let home = demo.said.get("home").and_then(Value::as_str).context("no home")?.to_owned();
    let call = |name: &str| -> Result<String> {
        let line = demo.said.get(name).and_then(Value::as_str).context("no such call")?;
        done(Command::new("sh").args(["-c", line]))
    };
    let allowed = call("allowed")?;
    ensure!(allowed.contains("\"result\"") && !allowed.contains("POLICY DENIED"), "{allowed}");
    let denied = call("denied")?;
    ensure!(denied.contains("[POLICY DENIED]"), "{denied}");
    let account = call("account")?;
    ensure!(account.contains("\"result\"") && !account.contains("\"isError\":true"), "{account}");
    let status = done(walk.wine.command(&walk.program).args(["--home", &home, "status"]))?;
    ensure!(status.contains("http://127.0.0.1:"), "status does not find the gate: {status}");
    drop(demo);
    let verified =
        done(walk.wine.command(&walk.program).args(["--home", &home, "audit", "verify"]))?;
    let tail = done(walk.wine.command(&walk.program).args(["--home", &home, "audit", "tail"]))?;
    ensure!(tail.contains("delete_note"), "{verified}{tail}");
    Ok(())
}

fn stdio(walk: &Walk) -> Result<()> {
    let mut client = walk.tools.node_script("packages/serve.mjs");
    client.arg(walk.wine.script()).arg(&walk.program).args(["--home", &walk.home("stdio")]);
    client.args(["stdio", "whoop"]).env("WINEPREFIX", walk.wine.prefix());
    let said: Value = serde_json::from_str(&done(client.stderr(Stdio::null()))?)?;
    let tools = said.get("tools").and_then(Value::as_array).context("no tools")?;
    ensure!(tools.iter().any(|tool| tool == "get_whoop_daily_summary"), "{said}");
    Ok(())
}

/// The demo's home has accounts of made-up services, which only answer while it runs.
fn mirror(walk: &Walk) -> Result<()> {
    let demo = walk.demo("mirror")?;
    let home = demo.said.get("home").and_then(Value::as_str).context("no home")?;
    let run = |arguments: &[&str]| {
        done(walk.wine.command(&walk.program).args(["--home", home]).args(arguments))
    };
    let synced = run(&["sync", "whoop"])?;
    ensure!(synced.contains("whoop"), "{synced}");
    let file = walk.scratch.path.join("sleeps.csv");
    run(&["export", "whoop", "sleeps", "--out", &windows_path(&file)])?;
    let rows = std::fs::read_to_string(&file)?.lines().count();
    ensure!(rows > 2, "the export has {rows} lines");
    let said = run(&["sql", "--csv", "select 40 + 2"])?;
    ensure!(said.contains("42"), "{said}");
    Ok(())
}

fn two_processes(walk: &Walk) -> Result<()> {
    let demo = walk.demo("two")?;
    let home = demo.said.get("home").and_then(Value::as_str).context("no home")?;
    let run = |arguments: &[&str]| {
        done(walk.wine.command(&walk.program).args(["--home", home]).args(arguments))
    };
    let line = demo.said.get("allowed").and_then(Value::as_str).context("no call")?;
    for label in ["one", "two"] {
        run(&["grant", "create", label, "--server", "notes=demo"])?;
        let answer = done(Command::new("sh").args(["-c", line]))?;
        ensure!(answer.contains("\"result\""), "{answer}");
    }
    let verified = run(&["audit", "verify"])?;
    let listed = run(&["grant", "list"])?;
    ensure!(listed.contains("one") && listed.contains("two"), "{verified}{listed}");
    Ok(())
}

fn service(walk: &Walk) -> Result<()> {
    let said = walk.says("service", &["service", "file"], "<LogonTrigger>")?;
    ensure!(said.contains("tollgate.exe</Command>"), "{said}");
    Ok(())
}
