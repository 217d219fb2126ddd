//! The MCP bundle of `tollgate stdio whoop`, for clients that install bundles.

use std::path::PathBuf;

use anyhow::Result;

use super::{Release, run, write_file};

pub(super) fn make(release: &Release) -> Result<Vec<PathBuf>> {
    let stage = release.stage("mcpb")?;
    let executable = release.target.executable();
    release.copy_program(&stage.join("server").join(executable))?;
    let values = [("EXECUTABLE", executable), ("PLATFORM", release.target.mcpb)];
    let manifest = release.template("mcpb/manifest.json", &values)?;
    write_file(&stage.join("manifest.json"), manifest.as_bytes())?;
    write_file(&stage.join("LICENSE"), &std::fs::read(release.root.join("LICENSE"))?)?;
    let name = format!("tollgate-whoop-{}-{}.mcpb", release.version, release.target.triple);
    let path = release.out.join(name);
    let mut pack = release.tools.npm_command("mcpb");
    run(pack.arg("pack").arg(&stage).arg(&path))?;
    Ok(vec![path])
}
