//! Starts a child process so that it cannot outlive the gate.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use platform::guard::{self, Running};
use platform::programs;

use super::options::ChildOptions;

/// Starts the child, or returns why it cannot be started.
pub(super) fn spawn(options: &ChildOptions) -> Result<Running, String> {
    let program = find(options)?;
    if let Some(cwd) = options.cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
        return Err(format!("the working directory `{}` does not exist", cwd.display()));
    }
    let guard_program = &options.guard_program;
    let command = guard::Command {
        guard: guard_program.program.clone(),
        guard_args: guard_program.args.clone(),
        method: guard_program.method,
        program,
        args: options.args.clone(),
        env: options.env.clone(),
        cwd: options.cwd.clone(),
        end_wait: options.bounds.end_wait_max,
        term_wait: options.bounds.term_wait_max,
        files_max: guard_program.files_max,
    };
    guard::start(&command)
        .map_err(|error| format!("cannot start `{}`: {error}", guard_program.program.display()))
}

/// The path of the program, looked up like in a shell, in the child's environment. A missing program is an
/// error here instead of a child that exits at once.
fn find(options: &ChildOptions) -> Result<PathBuf, String> {
    let program = Path::new(&options.program);
    let missing = || {
        let shown = program.display();
        format!("`{shown}` is not on the gate's PATH; give the full path of the program")
    };
    if program.components().count() > 1 {
        let base = options.cwd.as_deref().unwrap_or(Path::new(""));
        let whole = base.join(program);
        return match whole.metadata() {
            _ if programs::at(&whole) == Some(whole.clone()) => Ok(program.to_owned()),
            Ok(_) => Err(format!("`{}` is not a program that may be run", program.display())),
            Err(_) => Err(format!("there is no program `{}`", program.display())),
        };
    }
    let path = variable(&options.env, "PATH").ok_or_else(missing)?;
    programs::find(program, path).ok_or_else(missing)
}

fn variable<'a>(env: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsStr> {
    env.iter().find(|(had, _)| had == name).map(|(_, value)| value.as_os_str())
}
