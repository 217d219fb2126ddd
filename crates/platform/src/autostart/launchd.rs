//! An agent of launchd, in the session of the owner.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::{Job, Look, State, Step, from_xml, may_fail, step, xml};

const LABEL: &str = "tollgate";
const SEARCH_PATH: &str = "<key>PATH</key><string>";

pub(super) fn file(look: Look<'_>) -> Option<PathBuf> {
    let home = look("HOME").filter(|path| path.is_absolute())?;
    Some(home.join("Library/LaunchAgents").join(format!("{LABEL}.plist")))
}

/// launchd keeps no output of an agent; without a file it is lost.
pub(super) fn log(look: Look<'_>) -> Option<PathBuf> {
    let home = look("HOME").filter(|path| path.is_absolute())?;
    Some(home.join("Library/Logs/tollgate.log"))
}

/// Starts again after a failure, not after a stop; other processes of the job stay, as a refresh of tokens must.
pub(super) fn text(job: &Job) -> String {
    let mut words = format!("<string>{}</string>", xml(&job.program.display().to_string()));
    for argument in &job.arguments {
        let _ = write!(words, "<string>{}</string>", xml(argument));
    }
    let mut variables = format!("{SEARCH_PATH}{}</string>", xml(&job.search_path));
    for place in &job.places {
        let value = xml(&place.path.display().to_string());
        let _ = write!(variables, "<key>{}</key><string>{value}</string>", place.variable);
    }
    let mut log = String::new();
    if let Some(path) = &job.log {
        let path = xml(&path.display().to_string());
        for stream in ["StandardOutPath", "StandardErrorPath"] {
            let _ = writeln!(log, "  <key>{stream}</key><string>{path}</string>");
        }
    }
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<!-- {} -->
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key><string>{LABEL}</string>
  <key>ProgramArguments</key><array>{words}</array>
  <key>EnvironmentVariables</key><dict>{variables}</dict>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>
  <key>ExitTimeOut</key><integer>15</integer>
  <key>AbandonProcessGroup</key><true/>
  <key>Umask</key><integer>63</integer>
  <key>HardResourceLimits</key><dict><key>Core</key><integer>0</integer></dict>
{log}</dict>
</plist>
"#,
        job.mark
    )
}

pub(super) fn search_path(text: &str) -> Option<String> {
    let (_, rest) = text.split_once(SEARCH_PATH)?;
    let (path, _) = rest.split_once("</string>")?;
    Some(from_xml(path))
}

pub(super) fn install(file: &Path, user: &str) -> Vec<Step> {
    vec![
        // An agent that is loaded keeps its old definition.
        may_fail(&["launchctl", "bootout", &target(user)]),
        step(&["launchctl", "bootstrap", &format!("gui/{user}"), &file.display().to_string()]),
    ]
}

pub(super) fn remove(user: &str) -> Vec<Step> {
    vec![step(&["launchctl", "bootout", &target(user)])]
}

/// An agent that is not loaded prints nothing.
pub(super) fn state(user: &str, run: &dyn Fn(&[&str]) -> Option<String>) -> State {
    let Some(said) = run(&["launchctl", "print", &target(user)]).filter(|said| !said.is_empty())
    else {
        return State { enabled: Some("no".to_owned()), ..State::default() };
    };
    let active = said.lines().find_map(|line| line.trim().strip_prefix("state = "));
    let active = active.map(str::to_owned);
    let runs = active.as_deref() == Some("running");
    State { enabled: Some("yes".to_owned()), active, runs }
}

fn target(user: &str) -> String {
    format!("gui/{user}/{LABEL}")
}

#[cfg(test)]
mod tests {
    use super::super::tests::job;
    use super::*;

    #[test]
    fn an_agent_is_loaded_again_and_asked_for_its_state() {
        let words = |steps: Vec<Step>| -> Vec<String> {
            steps.iter().map(|step| format!("{} {}", step.words.join(" "), step.may_fail)).collect()
        };
        assert_eq!(
            words(install(Path::new("/h/x.plist"), "501")),
            [
                "launchctl bootout gui/501/tollgate true",
                "launchctl bootstrap gui/501 /h/x.plist false"
            ]
        );
        assert_eq!(words(remove("501")), ["launchctl bootout gui/501/tollgate false"]);
        let said = "gui/501/tollgate = {\n\tactive count = 1\n\tstate = running\n\tpid = 7\n}\n";
        let state = |said: &str| state("501", &|_: &[&str]| Some(said.to_owned()));
        assert!(state(said).runs && !state("\tstate = waiting\n").runs);
        assert_eq!(state("").enabled.as_deref(), Some("no"));
    }

    #[test]
    fn the_log_goes_to_a_file_and_text_is_escaped() {
        let text = text(&Job { log: Some("/h/a&b.log".into()), ..job() });
        assert!(text.contains("<key>StandardErrorPath</key><string>/h/a&amp;b.log</string>"));
        assert!(text.contains("<string>/opt/my tools/tollgate</string><string>up</string>"));
        assert!(text.contains("<key>TOLLGATE_HOME</key><string>/srv/&lt;home&gt;</string>"));
    }
}
