//! The folders in which clients keep their configuration on each system. They are computed from
//! arguments only, so that a test can try every system.

use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Os {
    Linux,
    Mac,
    Windows,
}

/// A folder whose path depends on the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    /// The person's home folder.
    Home,
    /// The settings folder of the system: `~/.config`, `~/Library/Application Support`,
    /// `%APPDATA%`.
    Settings,
    /// `~/.config` on Linux and macOS, `%APPDATA%` on Windows.
    Config,
    /// `CODEX_HOME`, or `~/.codex`.
    Codex,
    /// The folder the command was started in.
    Project,
}

/// The folders of one person on one machine.
#[derive(Clone, Debug)]
pub(crate) struct UserFolders {
    os: Os,
    home: PathBuf,
    config: PathBuf,
    codex: PathBuf,
    /// The current project.
    pub(crate) project: PathBuf,
}

impl UserFolders {
    /// From the variables that `variable` returns. None without a home folder.
    pub(crate) fn of(
        os: Os,
        variable: &dyn Fn(&str) -> Option<String>,
        project: &Path,
    ) -> Option<UserFolders> {
        let set = |name: &str| variable(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let home = match os {
            Os::Windows => set("USERPROFILE").or_else(|| set("HOME")),
            Os::Linux | Os::Mac => set("HOME"),
        }?;
        let config = match os {
            Os::Windows => set("APPDATA").unwrap_or_else(|| home.join("AppData").join("Roaming")),
            Os::Linux => set("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")),
            Os::Mac => home.join(".config"),
        };
        let codex = set("CODEX_HOME").unwrap_or_else(|| home.join(".codex"));
        Some(UserFolders { os, home, config, codex, project: project.to_owned() })
    }

    pub(crate) fn folder(&self, base: Base) -> PathBuf {
        match (base, self.os) {
            (Base::Home, _) => self.home.clone(),
            (Base::Settings, Os::Mac) => self.home.join("Library").join("Application Support"),
            (Base::Settings | Base::Config, _) => self.config.clone(),
            (Base::Codex, _) => self.codex.clone(),
            (Base::Project, _) => self.project.clone(),
        }
    }

    /// The path with the home folder as `~`.
    pub(crate) fn shown(&self, path: &Path) -> String {
        match path.strip_prefix(&self.home) {
            Ok(rest) => format!("~/{}", rest.display()),
            Err(_) => path.display().to_string(),
        }
    }

    pub(crate) fn home(&self) -> &Path {
        &self.home
    }
}

/// The system this program was built for.
pub(crate) fn this_os() -> Os {
    match platform::SYSTEM {
        platform::System::MacOs => Os::Mac,
        platform::System::Windows => Os::Windows,
        platform::System::Linux => Os::Linux,
    }
}
