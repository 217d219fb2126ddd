//! The text of the systemd unit: program, home, settings, `PATH` and hardening.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow, bail};

use crate::context::Context;

/// Servers that are commands need the folders of their programs.
const PATH: &str = "PATH";

/// The unit's name.
pub(crate) const UNIT: &str = "tollgate.service";

/// The values that the unit is written with.
pub(crate) struct UnitConfig {
    program: PathBuf,
    /// None for the default home.
    home: Option<PathBuf>,
    settings: Option<PathBuf>,
    path: String,
}

impl UnitConfig {
    pub(crate) fn of(context: &Context) -> Result<UnitConfig> {
        let program = std::env::current_exe().context("cannot find our own program")?;
        let usual = crate::context::default_home();
        let home = std::path::absolute(context.home_path()?)?;
        let settings = context.named_settings().map(std::path::absolute).transpose()?;
        let path = std::env::var(PATH).context("`PATH` cannot be read")?;
        Ok(UnitConfig {
            program,
            home: (Some(&home) != usual.as_ref()).then_some(home),
            settings,
            path,
        })
    }
}

/// The `PATH` of the installed service; none without one.
pub(crate) fn installed_path() -> Option<String> {
    path_in(&fs::read_to_string(unit_path().ok()?).ok()?)
}

/// The path of the unit in the user manager's folder.
pub(crate) fn unit_path() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let config = set("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    let config = config.or_else(|| set("HOME").map(|home| home.join(".config")));
    let config = config
        .ok_or_else(|| anyhow!("cannot determine the folder for units: `HOME` is not set"))?;
    Ok(config.join("systemd/user").join(UNIT))
}

pub(crate) fn text(mark: &str, config: &UnitConfig) -> String {
    let mut variables = String::new();
    let pairs = [
        (PATH, Some(config.path.clone())),
        ("TOLLGATE_HOME", config.home.as_ref().map(|path| path.display().to_string())),
        ("TOLLGATE_CONFIG", config.settings.as_ref().map(|path| path.display().to_string())),
    ];
    for (name, value) in pairs {
        if let Some(value) = value {
            let _ = writeln!(variables, "Environment={}", quoted(&format!("{name}={value}")));
        }
    }
    let program = quoted(&config.program.display().to_string()).replace('$', "$$");
    format!("{mark}\n{HEAD}{variables}ExecStart={program} up\n{TAIL}")
}

const HEAD: &str = "
[Unit]
Description=tollgate, the gate between AI agents and what they may touch
Documentation=man:tollgate(1)

[Service]
Type=exec
";

/// What a user manager can enforce without privileges. Children run as before: they may be any program. A stop
/// kills the gate alone: its guards end the servers, and a token refresh that runs must finish.
const TAIL: &str = "Restart=on-failure
RestartSec=2
TimeoutStopSec=15
KillMode=process
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

/// A quoted word of a unit file, with specifiers, quotes and backslashes escaped.
fn quoted(word: &str) -> String {
    let escaped = word.replace('\\', r"\\").replace('"', "\\\"").replace('%', "%%");
    format!("\"{escaped}\"")
}

/// The `PATH` in a unit that tollgate wrote.
pub(crate) fn path_in(unit: &str) -> Option<String> {
    let word = unit.lines().find_map(|line| line.strip_prefix("Environment=\"PATH="))?;
    let word = word.strip_suffix('"')?;
    Some(word.replace("%%", "%").replace("\\\"", "\"").replace(r"\\", "\\"))
}

/// Refuses line ends, which would add lines to the unit.
pub(crate) fn check(config: &UnitConfig) -> Result<()> {
    let paths = [Some(&config.program), config.home.as_ref(), config.settings.as_ref()];
    let mut texts = paths.into_iter().flatten().map(|path| path.display().to_string());
    if config.path.contains(['\n', '\r']) || texts.any(|text| text.contains(['\n', '\r'])) {
        bail!("`PATH` or a folder contains a line end, which a unit cannot contain");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_unit_is_read_back_and_special_characters_are_escaped() {
        let path = "/usr/bin:/home/me/50% \"off\"/bin";
        let config = UnitConfig {
            program: "/opt/my tools/tollgate".into(),
            home: Some("/srv/home".into()),
            settings: None,
            path: path.to_owned(),
        };
        assert!(check(&config).is_ok());
        let text = text("# ours", &config);
        assert_eq!(path_in(&text).as_deref(), Some(path));
        assert!(text.contains("ExecStart=\"/opt/my tools/tollgate\" up\n"), "{text}");
        assert!(text.contains("Environment=\"TOLLGATE_HOME=/srv/home\"\n"), "{text}");
        assert!(text.contains("50%% \\\"off\\\"") && !text.contains("TOLLGATE_CONFIG"), "{text}");
        let broken = UnitConfig { path: "/bin\nExecStart=/bin/evil".to_owned(), ..config };
        assert!(check(&broken).is_err());
    }
}
