//! The wheel for `pip` and `uvx`: the program as a script of the environment, and a command of the package's own name,
//! because `uvx NAME` runs the command that is called like its package.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::{Release, run, write_file};

/// `tollgate` on PyPI is another project.
const MODULE: &str = "tollgate_mcp";

pub(super) fn make(release: &Release) -> Result<Vec<PathBuf>> {
    let stage = release.stage("wheel")?;
    let name = format!("{MODULE}-{}", release.version);
    let scripts = stage.join(format!("{name}.data/scripts"));
    release.copy_program(&scripts.join(release.target.executable()))?;
    for file in ["__init__.py", "__main__.py"] {
        let text = release.template(&format!("python/{MODULE}/{file}"), &[])?;
        write_file(&stage.join(MODULE).join(file), text.as_bytes())?;
    }
    let info = stage.join(format!("{name}.dist-info"));
    let tags: Vec<String> =
        release.target.wheel.iter().map(|platform| format!("Tag: py3-none-{platform}")).collect();
    for file in ["METADATA", "WHEEL", "entry_points.txt"] {
        let text = release.template(&format!("python/{file}"), &[("TAGS", &tags.join("\n"))])?;
        write_file(&info.join(file), text.as_bytes())?;
    }
    write_file(&info.join("licenses/LICENSE"), &std::fs::read(release.root.join("LICENSE"))?)?;
    let python = crate::tools::packages_python()?;
    let mut pack = Command::new(python);
    pack.args(["-m", "wheel", "pack", "--dest-dir"]).arg(&release.out).arg(&stage);
    run(&mut pack)?;
    let file = format!("{name}-py3-none-{}.whl", release.target.wheel.join("."));
    let path = release.out.join(file);
    path.is_file().then_some(vec![path]).context("`wheel pack` wrote another file than expected")
}
