//! Starting a program with the owner's session: a unit of systemd's user manager, an agent of launchd, or a task of the
//! Windows scheduler. A definition is a file, which the commands of its manager load and unload. Nothing here runs
//! them, and every manager is written on every system, so that one system tests all.

use std::path::{Path, PathBuf};

use crate::System;

mod launchd;
mod systemd;
mod task;

/// A program with its first arguments.
pub type Words = Vec<String>;
/// Finds a variable of the environment.
pub type Look<'a> = &'a dyn Fn(&str) -> Option<PathBuf>;

/// What starts programs with a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manager {
    Systemd,
    Launchd,
    /// The task scheduler of Windows.
    Scheduler,
}

/// What is to be started.
#[derive(Clone, Debug)]
pub struct Job {
    /// A line that says who wrote the definition.
    pub mark: String,
    pub description: String,
    pub program: PathBuf,
    /// Options that name folders and files, which some managers set as variables instead.
    pub places: Vec<Place>,
    /// The last arguments.
    pub arguments: Words,
    /// The `PATH` of the program. Tasks of Windows have the one of the user's settings instead.
    pub search_path: String,
    /// Whom it starts for, as [`crate::private::this_user`] says.
    pub user: String,
    /// Where its log goes, if the manager keeps none.
    pub log: Option<PathBuf>,
}

/// A folder or file that the program is told.
#[derive(Clone, Debug)]
pub struct Place {
    pub option: &'static str,
    pub variable: &'static str,
    pub path: PathBuf,
}

/// A command for a manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub words: Words,
    /// It only undoes what may not have been done.
    pub may_fail: bool,
}

/// What a manager says about the definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub enabled: Option<String>,
    pub active: Option<String>,
    pub runs: bool,
}

/// A definition cannot hold line ends and other control characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlCharacter;

impl Manager {
    /// The manager of this system.
    pub const OWN: Manager = match crate::SYSTEM {
        System::Linux => Manager::Systemd,
        System::MacOs => Manager::Launchd,
        System::Windows => Manager::Scheduler,
    };

    /// How people call it.
    pub fn name(self) -> &'static str {
        match self {
            Manager::Systemd => "the systemd user manager",
            Manager::Launchd => "launchd",
            Manager::Scheduler => "the task scheduler",
        }
    }

    /// Where the definition is. None if the variables for the folder are not set.
    pub fn file(self, look: Look<'_>) -> Option<PathBuf> {
        match self {
            Manager::Systemd => systemd::file(look),
            Manager::Launchd => launchd::file(look),
            Manager::Scheduler => task::file(look),
        }
    }

    /// Where the log of the program goes, if the manager keeps none itself.
    pub fn log(self, look: Look<'_>) -> Option<PathBuf> {
        match self {
            Manager::Launchd => launchd::log(look),
            Manager::Systemd | Manager::Scheduler => None,
        }
    }

    /// The text of the definition.
    pub fn text(self, job: &Job) -> Result<String, ControlCharacter> {
        let paths =
            job.places.iter().map(|place| &place.path).chain([&job.program]).chain(&job.log);
        let mut texts: Vec<String> = paths.map(|path| path.display().to_string()).collect();
        texts.extend([job.search_path.clone(), job.user.clone()]);
        if texts.iter().any(|text| text.contains(char::is_control)) {
            return Err(ControlCharacter);
        }
        Ok(match self {
            Manager::Systemd => systemd::text(job),
            Manager::Launchd => launchd::text(job),
            Manager::Scheduler => task::text(job),
        })
    }

    /// The `PATH` in a definition. None if it has none.
    pub fn search_path(self, text: &str) -> Option<String> {
        match self {
            Manager::Systemd => systemd::search_path(text),
            Manager::Launchd => launchd::search_path(text),
            Manager::Scheduler => None,
        }
    }

    /// Loads the definition, starts the program, and starts it with every session.
    pub fn install(self, file: &Path, user: &str) -> Vec<Step> {
        match self {
            Manager::Systemd => systemd::install(),
            Manager::Launchd => launchd::install(file, user),
            Manager::Scheduler => task::install(file),
        }
    }

    /// Stops the program. The definition is still there.
    pub fn remove(self, user: &str) -> Vec<Step> {
        match self {
            Manager::Systemd => systemd::remove(),
            Manager::Launchd => launchd::remove(user),
            Manager::Scheduler => task::remove(),
        }
    }

    /// What to run once the definition was removed.
    pub fn forget(self) -> Vec<Step> {
        match self {
            Manager::Systemd => systemd::forget(),
            Manager::Launchd | Manager::Scheduler => Vec::new(),
        }
    }

    /// Asks the manager. `run` returns what a command printed; none if it failed and printed nothing.
    pub fn state(self, user: &str, run: impl Fn(&[&str]) -> Option<String>) -> State {
        match self {
            Manager::Systemd => systemd::state(&run),
            Manager::Launchd => launchd::state(user, &run),
            Manager::Scheduler => task::state(&run),
        }
    }

    /// What else the owner may want to know once it is installed.
    pub fn advice(self) -> &'static str {
        match self {
            Manager::Systemd => {
                "it starts with your session; `loginctl enable-linger` starts it at boot"
            }
            Manager::Launchd => {
                "it starts with your session; its log is `~/Library/Logs/tollgate.log`"
            }
            Manager::Scheduler => {
                "it starts with your session and has the PATH of your Windows settings, not of this shell"
            }
        }
    }
}

fn step(words: &[&str]) -> Step {
    Step { words: words.iter().map(|word| (*word).to_owned()).collect(), may_fail: false }
}

fn may_fail(words: &[&str]) -> Step {
    Step { may_fail: true, ..step(words) }
}

/// Text inside an element of XML.
fn xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn from_xml(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    pub(super) fn job() -> Job {
        Job {
            mark: "Written by a test".to_owned(),
            description: "a gate & more".to_owned(),
            program: "/opt/my tools/tollgate".into(),
            places: vec![Place {
                option: "--home",
                variable: "TOLLGATE_HOME",
                path: "/srv/<home>".into(),
            }],
            arguments: vec!["up".to_owned()],
            search_path: "/usr/bin:/home/me/50% \"off\" & <ü>/bin".to_owned(),
            user: "501".to_owned(),
            log: None,
        }
    }

    const ALL: [Manager; 3] = [Manager::Systemd, Manager::Launchd, Manager::Scheduler];

    #[test]
    fn a_definition_says_who_wrote_it_and_has_no_control_characters() {
        for manager in ALL {
            let text = manager.text(&job()).unwrap();
            assert!(text.lines().take(4).any(|line| line.contains("Written by a test")), "{text}");
            let broken = Job { search_path: "/bin\nExecStart=/bin/evil".to_owned(), ..job() };
            assert_eq!(manager.text(&broken), Err(ControlCharacter));
            let broken = Job { program: "/bin/a\rb".into(), ..job() };
            assert_eq!(manager.text(&broken), Err(ControlCharacter));
        }
    }

    #[test]
    fn the_search_path_of_a_definition_is_read_back() {
        for manager in [Manager::Systemd, Manager::Launchd] {
            let text = manager.text(&job()).unwrap();
            assert_eq!(manager.search_path(&text), Some(job().search_path), "{text}");
        }
        let text = Manager::Scheduler.text(&job()).unwrap();
        assert_eq!(Manager::Scheduler.search_path(&text), None);
    }

    #[test]
    fn a_definition_is_in_the_folder_of_its_manager() {
        let look = |name: &str| (name == "HOME").then(|| PathBuf::from("/h"));
        let file = |manager: Manager| manager.file(&look).unwrap_or_default();
        assert_eq!(file(Manager::Systemd), Path::new("/h/.config/systemd/user/tollgate.service"));
        assert_eq!(file(Manager::Launchd), Path::new("/h/Library/LaunchAgents/tollgate.plist"));
        assert_eq!(Manager::Scheduler.file(&look), None);
        let look = |name: &str| (name == "LOCALAPPDATA").then(|| PathBuf::from("/d"));
        assert_eq!(file_of_scheduler(&look), Path::new("/d/tollgate-service/task.xml"));
        assert_eq!(Manager::Systemd.file(&look), None);
    }

    fn file_of_scheduler(look: Look<'_>) -> PathBuf {
        Manager::Scheduler.file(look).unwrap()
    }
}
