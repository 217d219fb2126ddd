//! `cargo xtask bench cost`: what a call and a decision cost at a steady rate. Calls are due at fixed times,
//! however long the ones before take, and each is counted from when it was due.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::gate_settings::{POWER, PROCESS};
use super::{RunningGate, Started, TOOLS, free_port, target_folder, wait_for};

const CALLS_A_SECOND: u32 = 200;
/// Each has one call in flight, so a slow call delays only every fourth.
const SESSIONS: u32 = 4;

/// How the programs are built and how long each case runs.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) is_release: bool,
    pub(crate) seconds: u32,
}

impl Effort {
    pub(crate) const QUICK: Effort = Effort { is_release: false, seconds: 1 };
    pub(crate) const FULL: Effort = Effort { is_release: true, seconds: 20 };
}

/// Prints one line per figure, as `P17: …`.
pub(crate) fn cost(root: &Path, effort: Effort) -> Result<()> {
    let bench = build(root, "mcpbench", effort)?;
    let tollgate = build(root, "tollgate", effort)?;
    let upstream = free_port()?;
    let _upstream = Started::silent(
        Command::new(&bench)
            .args(["upstream", "--listen", &format!("127.0.0.1:{upstream}")])
            .args(["--tools", &TOOLS.to_string()]),
    )?;
    wait_for(upstream)?;
    let direct = format!("http://127.0.0.1:{upstream}/mcp");
    println!("{}", figure("direct", &load(&bench, &direct, None, effort)?));
    for settings in [PROCESS, POWER] {
        let gate = RunningGate::start(&tollgate, upstream, settings, TOOLS)?;
        let measured = load(&bench, &gate.url(), Some(&gate.token), effort)?;
        println!("{}", figure(&settings.label(), &measured));
    }
    decision(root, effort)
}

fn build(root: &Path, package: &str, effort: Effort) -> Result<PathBuf> {
    let mut arguments = vec!["build", "--locked", "--package", package];
    arguments.extend(effort.is_release.then_some("--release"));
    super::cargo(&arguments, None)?;
    let profile = if effort.is_release { "release" } else { "debug" };
    Ok(target_folder(root).join(profile).join(package))
}

fn load(bench: &Path, url: &str, token: Option<&str>, effort: Effort) -> Result<Value> {
    let calls = CALLS_A_SECOND * effort.seconds;
    let output = Command::new(bench)
        .args(["load", "--url", url, "--json", "--rate", &CALLS_A_SECOND.to_string()])
        .args(token.iter().flat_map(|token| ["--token", token]))
        .args(["--sessions", &SESSIONS.to_string(), "--calls", &calls.to_string()])
        .args(["--max-seconds", &(effort.seconds + 10).to_string(), "--warmup", "20"])
        .output()
        .context("cannot run mcpbench")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!("mcpbench failed: {text}{}", String::from_utf8_lossy(&output.stderr));
    }
    let line =
        text.lines().find(|line| line.starts_with('{')).context("mcpbench printed no row")?;
    serde_json::from_str(line).context("mcpbench printed a row that is not JSON")
}

fn figure(case: &str, row: &Value) -> String {
    let number = |key: &str| row.get(key).and_then(Value::as_f64).unwrap_or(f64::NAN);
    format!(
        "P17: {CALLS_A_SECOND} calls a second, {case}: p50 {:.0} µs, p99 {:.0} µs",
        number("p50_us"),
        number("p99_us")
    )
}

/// A decision without the store: the example of `policy` prints its own figures.
fn decision(root: &Path, effort: Effort) -> Result<()> {
    let mut command = crate::cargo();
    command.current_dir(root).args(["run", "--quiet", "--locked", "--package", "policy"]);
    command.args(effort.is_release.then_some("--release")).args(["--example", "decide_speed"]);
    let output = command.output().context("cannot run cargo")?;
    if !output.status.success() {
        bail!("`decide_speed` failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    println!("P17: a decision alone, by number of policy entries:");
    print!("{}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_has_the_middle_and_the_tail() {
        let row = serde_json::json!({ "p50_us": 101.4, "p99_us": 249.6 });
        assert_eq!(
            figure("direct", &row),
            "P17: 200 calls a second, direct: p50 101 µs, p99 250 µs"
        );
    }
}
