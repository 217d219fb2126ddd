//! Commands that print a sign-in address and wait for its redirect: `connect` and `server sign-in`.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStderr, Stdio};

use crate::cli_test::{CliTest, CommandOutput};

/// A command that waits for the redirect of the address it shows.
pub(crate) struct SignInPrompt {
    pub(crate) child: Child,
    stderr: BufReader<ChildStderr>,
    pub(crate) url: String,
    printed: String,
}

#[expect(
    clippy::zombie_processes,
    reason = "the caller waits for the child; a failed read ends the test"
)]
pub(crate) fn prompted(test: &CliTest, arguments: &[&str]) -> SignInPrompt {
    let mut command = test.command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let (mut url, mut printed) = (String::new(), String::new());
    loop {
        let mut line = String::new();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "{printed}");
        printed += &line;
        if line.contains("/oauth/oauth2/auth?") || line.contains("/authorize?") {
            line.trim().clone_into(&mut url);
        }
        if line.contains("paste the whole address") {
            return SignInPrompt { child, stderr, url, printed };
        }
    }
}

impl SignInPrompt {
    pub(crate) fn ended(mut self) -> CommandOutput {
        drop(self.child.stdin.take());
        self.stderr.read_to_string(&mut self.printed).unwrap();
        let output = self.child.wait_with_output().unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        CommandOutput { code: output.status.code().unwrap_or(-1), stdout, stderr: self.printed }
    }
}
