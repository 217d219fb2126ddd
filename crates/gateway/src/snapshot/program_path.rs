//! The `PATH` of a child process. It includes the folder of the program that the owner named.

use std::path::{Path, PathBuf};

use crate::upstream::ChildOptions;

/// A script such as `npx` starts its interpreter by name, and the interpreter is in the script's folder.
/// So a program with a full path has its folder on the `PATH`.
pub(super) fn extend(options: &mut ChildOptions) {
    let program = Path::new(&options.program);
    let Some(folder) = program.parent().filter(|folder| folder.is_absolute()) else { return };
    let Some((_, path)) = options.env.iter_mut().find(|(name, _)| name == "PATH") else { return };
    let mut folders: Vec<PathBuf> = std::env::split_paths(path).collect();
    if !folders.iter().any(|known| known == folder) {
        folders.insert(0, folder.to_owned());
        if let Ok(longer) = std::env::join_paths(folders) {
            *path = longer;
        }
    }
}
