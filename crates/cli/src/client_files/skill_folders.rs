//! The folders in which clients look for skills, as their documentation states them.

use std::path::PathBuf;

use super::folders::{Base, UserFolders};

struct SkillFolder {
    client: &'static str,
    base: Base,
    path: &'static str,
    project: &'static str,
}

const ALL: &[SkillFolder] = &[
    SkillFolder {
        client: "claude-code",
        base: Base::Home,
        path: ".claude/skills",
        project: ".claude/skills",
    },
    SkillFolder {
        client: "codex",
        base: Base::Home,
        path: ".agents/skills",
        project: ".agents/skills",
    },
    SkillFolder {
        client: "opencode",
        base: Base::Config,
        path: "opencode/skills",
        project: ".opencode/skills",
    },
];

/// The clients with such a folder.
pub(crate) fn clients() -> Vec<&'static str> {
    ALL.iter().map(|folder| folder.client).collect()
}

/// The folder of a client, for the person or for the project.
pub(crate) fn folder_of(client: &str, is_project: bool, at: &UserFolders) -> Option<PathBuf> {
    let found = ALL.iter().find(|folder| folder.client == client)?;
    Some(if is_project {
        at.folder(Base::Project).join(found.project)
    } else {
        at.folder(found.base).join(found.path)
    })
}
