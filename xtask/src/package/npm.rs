//! The npm packages: one with the program for each system, and one for all that starts the right one. npm installs only
//! the package whose `os` and `cpu` fit.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::target::TARGETS;
use super::{EXECUTABLE_MODE, Release, run, set_mode, write_file};

pub(super) const NAME: &str = "tollgate-mcp";
const DESCRIPTION: &str = "The gate between AI agents and what they may touch";
const NODE_MIN: &str = ">=18";

pub(super) fn make(release: &Release) -> Result<Vec<PathBuf>> {
    Ok(vec![of_system(release)?, of_all(release)?])
}

fn of_system(release: &Release) -> Result<PathBuf> {
    let name = release.target.npm_package();
    let stage = release.stage(&name)?;
    release.copy_program(&stage.join("bin").join(release.target.executable()))?;
    let manifest = json!({
        "name": name,
        "version": release.version,
        "description": format!("{DESCRIPTION}: the program for {}", release.target.triple),
        "license": "Apache-2.0",
        "os": [release.target.npm_os],
        "cpu": [release.target.npm_cpu],
        "files": ["bin"],
        "preferUnplugged": true,
    });
    pack(release, &stage, &manifest)
}

fn of_all(release: &Release) -> Result<PathBuf> {
    let stage = release.stage(NAME)?;
    let launcher = stage.join("launcher.mjs");
    write_file(&launcher, release.template("npm/launcher.mjs", &[])?.as_bytes())?;
    set_mode(&launcher, EXECUTABLE_MODE)?;
    write_file(&stage.join("README.md"), release.template("npm/README.md", &[])?.as_bytes())?;
    let systems: Map<String, Value> = TARGETS
        .iter()
        .map(|target| (target.npm_package(), Value::String(release.version.clone())))
        .collect();
    let manifest = json!({
        "name": NAME,
        "version": release.version,
        "description": DESCRIPTION,
        "license": "Apache-2.0",
        "keywords": ["mcp", "gateway", "policy", "whoop"],
        "type": "module",
        "bin": { "tollgate": "launcher.mjs", NAME: "launcher.mjs" },
        "files": ["launcher.mjs"],
        "engines": { "node": NODE_MIN },
        "optionalDependencies": systems,
    });
    pack(release, &stage, &manifest)
}

fn pack(release: &Release, stage: &Path, manifest: &Value) -> Result<PathBuf> {
    write_file(&stage.join("LICENSE"), &std::fs::read(release.root.join("LICENSE"))?)?;
    let text = format!("{}\n", serde_json::to_string_pretty(manifest)?);
    write_file(&stage.join("package.json"), text.as_bytes())?;
    let mut npm = Command::new("npm");
    npm.current_dir(stage).args(["pack", "--ignore-scripts", "--json", "--loglevel=error"]);
    let said = run(npm.arg("--pack-destination").arg(&release.out))?;
    let said: Value = serde_json::from_str(&said).context("`npm pack` did not print JSON")?;
    let file = packed_file(&said).context("`npm pack` did not name its file")?;
    Ok(release.out.join(file))
}

/// Older npm prints a list of packages, newer npm an object by name.
fn packed_file(said: &Value) -> Option<&str> {
    let packed = match said {
        Value::Array(all) => all.first()?,
        Value::Object(all) => all.values().next()?,
        _ => return None,
    };
    packed.get("filename")?.as_str()
}
