//! A task of the Windows scheduler, which runs while the owner is signed in. Tasks have no variables, so the program
//! gets its places as options, and the `PATH` is the one of the user's settings.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::{Job, Look, State, Step, may_fail, step, xml};

const TASK: &str = "tollgate";
/// The words of `schtasks` are translated; these are not.
const STATE: &str = "(Get-ScheduledTask -TaskName 'tollgate').State";

pub(super) fn file(look: Look<'_>) -> Option<PathBuf> {
    let data = look("LOCALAPPDATA").filter(|path| path.is_absolute())?;
    Some(data.join("tollgate-service").join("task.xml"))
}

/// Without a declaration of its encoding, and only ASCII: the scheduler reads files in several.
pub(super) fn text(job: &Job) -> String {
    let places = job
        .places
        .iter()
        .flat_map(|place| [place.option.to_owned(), quoted(&place.path.display().to_string())]);
    let arguments: Vec<String> = places.chain(job.arguments.iter().cloned()).collect();
    let user = xml(&job.user);
    let text = format!(
        r#"<!-- {mark} -->
<Task version="1.2" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
  <RegistrationInfo><Description>{description}</Description></RegistrationInfo>
  <Triggers><LogonTrigger><Enabled>true</Enabled><UserId>{user}</UserId></LogonTrigger></Triggers>
  <Principals>
    <Principal id="Author">
      <UserId>{user}</UserId>
      <LogonType>InteractiveToken</LogonType>
      <RunLevel>LeastPrivilege</RunLevel>
    </Principal>
  </Principals>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>
    <RestartOnFailure><Interval>PT1M</Interval><Count>100</Count></RestartOnFailure>
  </Settings>
  <Actions Context="Author">
    <Exec>
      <Command>{program}</Command>
      <Arguments>{arguments}</Arguments>
    </Exec>
  </Actions>
</Task>
"#,
        mark = job.mark,
        description = xml(&job.description),
        program = xml(&job.program.display().to_string()),
        arguments = xml(&arguments.join(" ")),
    );
    ascii(&text)
}

/// A word for the command line. Paths have no quotes; a backslash before the last quote would escape it.
fn quoted(word: &str) -> String {
    let tail = if word.ends_with('\\') { "\\" } else { "" };
    format!("\"{word}{tail}\"")
}

fn ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            let _ = write!(out, "&#x{:X};", u32::from(c));
        }
    }
    out
}

pub(super) fn install(file: &Path) -> Vec<Step> {
    vec![
        step(&["schtasks", "/Create", "/F", "/TN", TASK, "/XML", &file.display().to_string()]),
        step(&["schtasks", "/Run", "/TN", TASK]),
    ]
}

pub(super) fn remove() -> Vec<Step> {
    vec![
        may_fail(&["schtasks", "/End", "/TN", TASK]),
        step(&["schtasks", "/Delete", "/F", "/TN", TASK]),
    ]
}

pub(super) fn state(run: &dyn Fn(&[&str]) -> Option<String>) -> State {
    let said = run(&["powershell", "-NoProfile", "-NonInteractive", "-Command", STATE]);
    let word = said.unwrap_or_default().trim().to_owned();
    let enabled = match word.as_str() {
        "" | "Disabled" => "no",
        _ => "yes",
    };
    let runs = word == "Running";
    State { enabled: Some(enabled.to_owned()), active: Some(word).filter(|w| !w.is_empty()), runs }
}

#[cfg(test)]
mod tests {
    use super::super::tests::job;
    use super::super::{Job, Place};
    use super::*;

    #[test]
    fn a_task_gets_its_places_as_options_and_is_ascii() {
        let home = Place {
            option: "--home",
            variable: "TOLLGATE_HOME",
            path: r"C:\Users\Jürgen & Co\".into(),
        };
        let text = text(&Job { places: vec![home], ..job() });
        assert!(text.is_ascii());
        assert!(
            text.contains(r#"<Arguments>--home "C:\Users\J&#xFC;rgen &amp; Co\\" up</Arguments>"#),
            "{text}"
        );
        assert!(text.contains("<Command>/opt/my tools/tollgate</Command>"), "{text}");
        assert!(!text.contains("50%"), "no PATH: {text}");
    }

    #[test]
    fn the_state_of_a_task_is_read_whatever_the_language() {
        let state = |said: &str| state(&|_: &[&str]| Some(said.to_owned()));
        assert!(state("Running\r\n").runs && !state("Ready\r\n").runs);
        assert_eq!(state("Disabled").enabled.as_deref(), Some("no"));
        assert_eq!(state(""), State { enabled: Some("no".to_owned()), ..State::default() });
    }
}
