//! A minimal gate for the tests of child processes: it keeps one child running, with its own binary
//! as the guard, until it is killed.
//!
//! `upstream_host run PROGRAM ARGS…` keeps the child, `run-marked` does with the method of other systems;
//! `upstream_host __child …` is the guard.

use std::ffi::OsString;
use std::process::ExitCode;

use gateway::upstream::{ChildOptions, GuardProgram, StdioLink, base_env};
use platform::guard::{self, Method};

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    match words.as_slice() {
        [_, word, ..] if word == "__child" => guard::run(words),
        [_, word, program, args @ ..] if word == "run" => keep(Method::default(), program, args),
        [_, word, program, args @ ..] if word == "run-marked" => keep(Method::Marks, program, args),
        _ => ExitCode::from(2),
    }
}

fn keep(method: Method, program: &OsString, args: &[OsString]) -> ExitCode {
    let Ok(runtime) =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()
    else {
        return ExitCode::FAILURE;
    };
    runtime.block_on(async {
        let guard_program = GuardProgram {
            program: platform::programs::own().unwrap_or_default(),
            args: vec!["__child".into()],
            method,
            files_max: None,
        };
        let mut options = ChildOptions::new(guard_program, program);
        options.args = args.to_vec();
        options.env = base_env(std::env::vars_os(), []);
        let _link = StdioLink::start(options);
        std::future::pending::<()>().await;
    });
    ExitCode::SUCCESS
}
