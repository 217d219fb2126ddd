//! The text of the unit: which program with which home, settings and `PATH`, and what it may not do.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use crate::context::Context;

/// Servers that are commands need the folders of their programs.
const PATH: &str = "PATH";

/// What differs from person to person.
pub(super) struct Facts {
    program: PathBuf,
    /// Nothing when it is the usual one.
    home: Option<PathBuf>,
    settings: Option<PathBuf>,
    path: String,
}

impl Facts {
    pub(super) fn of(context: &Context) -> Result<Facts> {
        let program = std::env::current_exe().context("cannot find our own program")?;
        let usual = crate::clients::usual_home();
        let home = std::path::absolute(context.home_path()?)?;
        let settings = context.named_settings().map(std::path::absolute).transpose()?;
        let path = std::env::var(PATH).context("`PATH` cannot be read")?;
        Ok(Facts { program, home: (Some(&home) != usual.as_ref()).then_some(home), settings, path })
    }
}

/// The whole unit.
pub(super) fn text(mark: &str, facts: &Facts) -> String {
    let mut variables = String::new();
    let pairs = [
        (PATH, Some(facts.path.clone())),
        ("TOLLGATE_HOME", facts.home.as_ref().map(|path| path.display().to_string())),
        ("TOLLGATE_CONFIG", facts.settings.as_ref().map(|path| path.display().to_string())),
    ];
    for (name, value) in pairs {
        if let Some(value) = value {
            let _ = writeln!(variables, "Environment={}", quoted(&format!("{name}={value}")));
        }
    }
    let program = quoted(&facts.program.display().to_string()).replace('$', "$$");
    format!("{mark}\n{HEAD}{variables}ExecStart={program} up\n{TAIL}")
}

const HEAD: &str = "
[Unit]
Description=tollgate, the gate between AI agents and what they may touch
Documentation=man:tollgate(1)

[Service]
Type=exec
";

/// What a user manager can hold without privileges. Children run as before: they may be any program.
const TAIL: &str = "Restart=on-failure
RestartSec=2
TimeoutStopSec=15
KillMode=mixed
UMask=0077
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
LimitCORE=0

[Install]
WantedBy=default.target
";

/// One word of a unit file: `%` would be a specifier, and quotes and backslashes end or change it.
fn quoted(word: &str) -> String {
    let escaped = word.replace('\\', r"\\").replace('"', "\\\"").replace('%', "%%");
    format!("\"{escaped}\"")
}

/// The `PATH` that a unit of ours sets.
pub(super) fn path_in(unit: &str) -> Option<String> {
    let word = unit.lines().find_map(|line| line.strip_prefix("Environment=\"PATH="))?;
    let word = word.strip_suffix('"')?;
    Some(word.replace("%%", "%").replace("\\\"", "\"").replace(r"\\", "\\"))
}

/// A line end in a name would begin a line of its own in the unit.
pub(super) fn check(facts: &Facts) -> Result<()> {
    let paths = [Some(&facts.program), facts.home.as_ref(), facts.settings.as_ref()];
    let mut texts = paths.into_iter().flatten().map(|path| path.display().to_string());
    if facts.path.contains(['\n', '\r']) || texts.any(|text| text.contains(['\n', '\r'])) {
        bail!("`PATH` or a folder has a line end in it, which a unit cannot hold");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_unit_is_read_back_and_odd_names_stay_one_word() {
        let path = "/usr/bin:/home/me/50% \"off\"/bin";
        let facts = Facts {
            program: "/opt/my tools/tollgate".into(),
            home: Some("/srv/home".into()),
            settings: None,
            path: path.to_owned(),
        };
        assert!(check(&facts).is_ok());
        let text = text("# ours", &facts);
        assert_eq!(path_in(&text).as_deref(), Some(path));
        assert!(text.contains("ExecStart=\"/opt/my tools/tollgate\" up\n"), "{text}");
        assert!(text.contains("Environment=\"TOLLGATE_HOME=/srv/home\"\n"), "{text}");
        assert!(text.contains("50%% \\\"off\\\"") && !text.contains("TOLLGATE_CONFIG"), "{text}");
        let broken = Facts { path: "/bin\nExecStart=/bin/evil".to_owned(), ..facts };
        assert!(check(&broken).is_err());
    }
}
