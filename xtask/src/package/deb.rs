//! The Debian package: the program, its manual page and completions, and the systemd units. It starts nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{EXECUTABLE_MODE, Release, run, set_mode, write_file};

/// Where `tollgate service` and `cargo install` expect the program, and where the package puts it.
const CARGO_PROGRAM: &str = "%h/.cargo/bin/tollgate";
const PROGRAM: &str = "/usr/bin/tollgate";

pub(super) fn make(release: &Release) -> Result<Vec<PathBuf>> {
    let Some(architecture) = release.target.deb else { return Ok(Vec::new()) };
    let stage = release.stage("deb")?;
    release.copy_program(&stage.join("usr/bin/tollgate"))?;
    add_documents(release, &stage)?;
    add_units(release, &stage)?;
    let depends = depends(release)?;
    let values = [("ARCHITECTURE", architecture), ("DEPENDS", depends.as_str())];
    let control = release.template("deb/control", &values)?;
    let control = if depends.is_empty() { without_field(&control, "Depends") } else { control };
    write_file(&stage.join("DEBIAN/control"), control.as_bytes())?;
    let script = stage.join("DEBIAN/postinst");
    write_file(&script, release.template("deb/postinst", &[])?.as_bytes())?;
    set_mode(&script, EXECUTABLE_MODE)?;
    let path = release.out.join(format!("tollgate_{}_{architecture}.deb", release.version));
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Zxz", "-z1", "--build"]).arg(&stage).arg(&path);
    run(&mut build)?;
    Ok(vec![path])
}

fn add_documents(release: &Release, stage: &Path) -> Result<()> {
    let share = stage.join("usr/share");
    let copyright = release.template("deb/copyright", &[])?;
    write_file(&share.join("doc/tollgate/copyright"), copyright.as_bytes())?;
    let example = release.template("tollgate.toml", &[])?;
    write_file(&share.join("doc/tollgate/examples/tollgate.toml"), example.as_bytes())?;
    // The program prints them itself, so a package for another processor is made without them.
    if release.target.triple.starts_with(std::env::consts::ARCH) {
        let print = |arguments: &[&str]| run(Command::new(&release.program).args(arguments));
        let page = share.join("man/man1/tollgate.1");
        write_file(&page, print(&["man"])?.as_bytes())?;
        run(Command::new("gzip").args(["-9n"]).arg(&page))?;
        let bash = print(&["completions", "bash"])?;
        write_file(&share.join("bash-completion/completions/tollgate"), bash.as_bytes())?;
        let zsh = print(&["completions", "zsh"])?;
        write_file(&share.join("zsh/vendor-completions/_tollgate"), zsh.as_bytes())?;
        let fish = print(&["completions", "fish"])?;
        write_file(&share.join("fish/vendor_completions.d/tollgate.fish"), fish.as_bytes())?;
    }
    Ok(())
}

fn add_units(release: &Release, stage: &Path) -> Result<()> {
    let machine = release.template("systemd/tollgate.service", &[])?;
    write_file(&stage.join("usr/lib/systemd/system/tollgate.service"), machine.as_bytes())?;
    let user = release.template("systemd/user/tollgate.service", &[])?;
    let user = user.replace(CARGO_PROGRAM, PROGRAM);
    write_file(&stage.join("usr/lib/systemd/user/tollgate.service"), user.as_bytes())?;
    let sysusers = release.template("systemd/tollgate.sysusers.conf", &[])?;
    write_file(&stage.join("usr/lib/sysusers.d/tollgate.conf"), sysusers.as_bytes())
}

/// The libraries that the program needs, as Debian names them; none for a static one.
fn depends(release: &Release) -> Result<String> {
    if !release.target.triple.ends_with("-gnu") {
        return Ok(String::new());
    }
    let folder = release.stage("deb-depends")?;
    // `dpkg-shlibdeps` reads the control file of a source package.
    write_file(
        &folder.join("debian/control"),
        b"Source: tollgate\n\nPackage: tollgate\nArchitecture: any\n",
    )?;
    let mut command = Command::new("dpkg-shlibdeps");
    let program = fs::canonicalize(&release.program)?;
    let said = run(command.current_dir(&folder).arg("-O").arg("-e").arg(program))?;
    let line = said.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
    Ok(line.context("`dpkg-shlibdeps` named no libraries")?.to_owned())
}

fn without_field(control: &str, field: &str) -> String {
    let starts = format!("{field}:");
    control
        .lines()
        .filter(|line| !line.starts_with(&starts))
        .fold(String::new(), |text, line| text + line + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_static_program_needs_nothing() {
        assert_eq!(
            without_field("Package: a\nDepends: \nSection: b\n", "Depends"),
            "Package: a\nSection: b\n"
        );
    }
}
