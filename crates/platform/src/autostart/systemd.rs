//! A unit of systemd's user manager.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::{Job, Look, State, Step, step};

const UNIT: &str = "tollgate.service";
const SEARCH_PATH: &str = "PATH";

pub(super) fn file(look: Look<'_>) -> Option<PathBuf> {
    let set = |name: &str| look(name).filter(|path| !path.as_os_str().is_empty());
    let config = set("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    let config = config.or_else(|| set("HOME").map(|home| home.join(".config")))?;
    Some(config.join("systemd/user").join(UNIT))
}

pub(super) fn text(job: &Job) -> String {
    let mut variables = String::new();
    let mut set = |name: &str, value: &str| {
        let _ = writeln!(variables, "Environment={}", quoted(&format!("{name}={value}")));
    };
    set(SEARCH_PATH, &job.search_path);
    for place in &job.places {
        set(place.variable, &place.path.display().to_string());
    }
    let program = quoted(&job.program.display().to_string()).replace('$', "$$");
    let arguments = job.arguments.join(" ");
    format!(
        "# {}\n\n[Unit]\nDescription={}\nDocumentation=man:tollgate(1)\n\n[Service]\nType=exec\n\
         {variables}ExecStart={program} {arguments}\n{TAIL}",
        job.mark, job.description
    )
}

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

pub(super) fn search_path(unit: &str) -> Option<String> {
    let word = unit.lines().find_map(|line| line.strip_prefix("Environment=\"PATH="))?;
    let word = word.strip_suffix('"')?;
    Some(word.replace("%%", "%").replace("\\\"", "\"").replace(r"\\", "\\"))
}

pub(super) fn install() -> Vec<Step> {
    vec![
        step(&["systemctl", "--user", "daemon-reload"]),
        step(&["systemctl", "--user", "enable", "--now", UNIT]),
    ]
}

pub(super) fn remove() -> Vec<Step> {
    vec![step(&["systemctl", "--user", "disable", "--now", UNIT])]
}

pub(super) fn forget() -> Vec<Step> {
    vec![step(&["systemctl", "--user", "daemon-reload"])]
}

/// A negative answer has its word, too, and an exit code.
pub(super) fn state(run: &dyn Fn(&[&str]) -> Option<String>) -> State {
    let ask = |question: &str| {
        let word = run(&["systemctl", "--user", question, UNIT])?.trim().to_owned();
        (!word.is_empty()).then_some(word)
    };
    let (enabled, active) = (ask("is-enabled"), ask("is-active"));
    let runs = active.as_deref() == Some("active");
    State { enabled, active, runs }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_of_a_unit_are_escaped() {
        let text = text(&super::super::tests::job());
        assert!(text.contains("ExecStart=\"/opt/my tools/tollgate\" up\n"), "{text}");
        assert!(text.contains("Environment=\"TOLLGATE_HOME=/srv/<home>\"\n"), "{text}");
        assert!(text.contains("50%% \\\"off\\\""), "{text}");
    }
}
