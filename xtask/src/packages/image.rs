//! The last stage of the container file without an engine: each of its steps in a folder with a fresh Debian, then the
//! start command as its user, with its environment, and its health check. The Debian is this machine's release.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::{Bench, done, output};
use crate::tools::process::{Started, free_port};
use crate::tools::programs;

const FILE: &str = "packaging/Dockerfile";
/// With a `/proc`, as engines give one; the mount ends with the command.
const IN_CHROOT: &str =
    "mount -t proc proc \"$1/proc\" && user=$0 && exec chroot --userspec=\"$user\" \"$@\"";
const ADMINISTRATOR: &str = "root:root";
const START_WAIT_MAX: Duration = Duration::from_secs(20);

/// An instruction with its text, continued lines joined.
#[derive(Debug, PartialEq, Eq)]
struct Instruction {
    name: String,
    text: String,
}

/// What the steps of a stage leave behind.
#[derive(Debug, Default)]
struct Image {
    variables: Vec<(String, String)>,
    user: String,
    health: Vec<String>,
    entrypoint: Vec<String>,
    command: Vec<String>,
}

pub(super) fn check(bench: &Bench) -> Result<()> {
    let text = fs::read_to_string(bench.release.root.join(FILE))?;
    let steps = last_stage(&text);
    ensure!(!steps.is_empty(), "{FILE} has no stage");
    if !programs::is_root()? {
        println!("   not root: the steps are read, not run");
        return Ok(());
    }
    let root = bench.scratch.path.join("debian");
    if !root.exists() {
        programs::make_debian(&root)?;
    }
    let mut image = Image::default();
    for step in &steps {
        take(step, &root, bench, &mut image).with_context(|| format!("step {}", step.name))?;
    }
    serves(&root, &image)
}

/// The instructions after the last `FROM`.
fn last_stage(text: &str) -> Vec<Instruction> {
    let joined = text.replace("\\\n", " ");
    let lines = joined.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut steps = Vec::new();
    for line in lines.filter(|line| !line.starts_with('#')) {
        let (name, text) = line.split_once(' ').unwrap_or((line, ""));
        if name == "FROM" {
            steps.clear();
        } else {
            steps.push(Instruction { name: name.to_owned(), text: text.trim().to_owned() });
        }
    }
    steps
}

fn take(step: &Instruction, root: &Path, bench: &Bench, image: &mut Image) -> Result<()> {
    match step.name.as_str() {
        "RUN" => drop(done(&mut inside(root, ADMINISTRATOR, &["sh", "-ec", &step.text]))?),
        "COPY" => {
            let to = step.text.split_whitespace().last().unwrap_or_default();
            ensure!(step.text.contains("target/release/tollgate"), "it copies {}", step.text);
            fs::copy(&bench.release.program, root.join(to.trim_start_matches('/')))?;
        }
        "USER" => image.user.clone_from(&step.text),
        "ENV" => {
            let pairs = step.text.split_whitespace().filter_map(|pair| pair.split_once('='));
            image.variables.extend(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
        }
        "HEALTHCHECK" => {
            let (_, words) = step.text.split_once("CMD").context("no CMD")?;
            image.health = serde_json::from_str(words)?;
        }
        "ENTRYPOINT" => image.entrypoint = serde_json::from_str(&step.text)?,
        "CMD" => image.command = serde_json::from_str(&step.text)?,
        // Where the engine puts the volume, which port it names, and how it stops the program.
        "VOLUME" | "EXPOSE" | "STOPSIGNAL" => {}
        other => bail!("no check for `{other}`"),
    }
    Ok(())
}

/// A command in the folder, with nothing but these variables and a path.
fn inside(root: &Path, user: &str, words: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", IN_CHROOT, user]).arg(root).args(words).env_clear();
    command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    command
}

/// The gate listens, its health check says so, and its home is its user's alone.
fn serves(root: &Path, image: &Image) -> Result<()> {
    ensure!(!image.user.is_empty() && image.user != "root", "it would run as root");
    let user = format!("{0}:{0}", image.user);
    let of_user = |words: &[&str]| {
        let mut command = inside(root, &user, words);
        command.envs(image.variables.iter().map(|(name, value)| (name, value)));
        command
    };
    let listen = format!("127.0.0.1:{}", free_port()?);
    let words = image.entrypoint.iter().chain(&image.command).map(String::as_str);
    let words: Vec<&str> = words.chain(["--listen", &listen]).collect();
    let log = root.join("gate.log");
    let gate = Started::logged(&mut of_user(&words), &log)?;
    let health: Vec<&str> = image.health.iter().map(String::as_str).collect();
    let until = Instant::now() + START_WAIT_MAX;
    while !output(&mut of_user(&health))?.status.success() {
        ensure!(Instant::now() < until, "not healthy: {}", fs::read_to_string(&log)?);
        std::thread::sleep(Duration::from_millis(200));
    }
    let owner =
        done(&mut inside(root, ADMINISTRATOR, &["stat", "-c", "%U %a", "/data", "/data/home"]))?;
    ensure!(owner.lines().all(|line| line == format!("{} 700", image.user)), "{owner}");
    drop(gate);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_stage_is_built_and_continued_lines_are_joined() {
        let text =
            "FROM a AS build\nRUN x\n# c\nFROM b\nRUN one \\\n && two\nUSER me\nCMD [\"up\"]\n";
        let steps = last_stage(text);
        let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(names, ["RUN", "USER", "CMD"]);
        assert_eq!(steps.first().map(|step| step.text.as_str()), Some("one   && two"));
    }
}
