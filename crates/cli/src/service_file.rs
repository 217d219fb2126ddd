//! The definition of the service for the manager of this system: our program, home, settings and `PATH`.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow};
use platform::autostart::{Job, Manager, Place};

use crate::context::{Context, OUR_HOME_VARIABLE};

/// Servers that are commands need the folders of their programs.
const PATH: &str = "PATH";
/// The first words of a definition that tollgate may replace and remove.
const MARK: &str = "Written by `tollgate service install`";

/// Where the definition of this manager is.
pub(crate) fn file_of(manager: Manager) -> Result<PathBuf> {
    manager.file(&variable).ok_or_else(|| {
        anyhow!("cannot find the folder of services: {}", platform::environment::DATA_FOLDER_NAMES)
    })
}

/// Its text.
pub(crate) fn text_of(manager: Manager, context: &Context) -> Result<String> {
    let home = std::path::absolute(context.home_path()?)?;
    let home = (Some(&home) != crate::context::default_home().as_ref()).then_some(home);
    let settings = context.named_settings().map(std::path::absolute).transpose()?;
    let place = |option, variable| move |path| Place { option, variable, path };
    let home = home.map(place("--home", OUR_HOME_VARIABLE));
    let settings = settings.map(place("--config", "TOLLGATE_CONFIG"));
    let job = Job {
        mark: format!("{MARK}; `tollgate service remove` removes it."),
        description: "tollgate, the gate between AI agents and what they may touch".to_owned(),
        program: std::env::current_exe().context("cannot find our own program")?,
        places: home.into_iter().chain(settings).collect(),
        arguments: vec!["up".to_owned()],
        search_path: std::env::var(PATH).context("`PATH` cannot be read")?,
        user: platform::private::this_user()?.to_string(),
        log: manager.log(&variable),
    };
    manager.text(&job).map_err(|_| {
        anyhow!("`PATH` or a folder contains a line end, which a service cannot contain")
    })
}

/// Whether tollgate wrote this definition. XML may have a line before its first comment.
pub(crate) fn is_ours(text: &str) -> bool {
    text.lines().take(2).any(|line| line.contains(MARK))
}

/// The `PATH` of the installed service; none without one.
pub(crate) fn installed_search_path() -> Option<String> {
    let text = fs::read_to_string(file_of(Manager::OWN).ok()?).ok()?;
    Manager::OWN.search_path(&text)
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from)
}
