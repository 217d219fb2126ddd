//! A built-in server on a full disk: it starts and reports the error to its client instead of exiting.

use std::io::{BufRead, BufReader, Read as _, Write as _};

use anyhow::{Result, anyhow};
use connectors::Connector;
use gateway::UnavailableServer;

use crate::failure::Ending;

/// Longer lines are not read as one message.
const LINE_BYTES_MAX: u64 = 4 << 20;

/// The error for every call.
const WHY: &str = "the disk is full, so nothing can be recorded or stored; free some space on the disk of the tollgate home and restart this server";

/// Whether the cause is a full disk. SQLite and the system have different messages.
pub(crate) fn is_disk_full(error: &anyhow::Error) -> bool {
    const WORDS: [&str; 3] = ["disk is full", "no space left", "quota exceeded"];
    error
        .chain()
        .map(|cause| cause.to_string().to_ascii_lowercase())
        .any(|cause| WORDS.iter().any(|message| cause.contains(message)))
}

/// Serves stdin and stdout until the client closes its input.
pub(crate) fn serve(connector: &'static Connector, tools: &[String]) -> Result<Ending> {
    tracing::error!("{WHY}");
    let stopped =
        UnavailableServer::new(connector, tools, WHY).map_err(|message| anyhow!(message))?;
    let mut input = BufReader::new(std::io::stdin().lock());
    let mut output = std::io::stdout().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(Ending::Yes);
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        if let Some(answer) = stopped.answer(&line) {
            writeln!(output, "{answer}")?;
            output.flush()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_recognized_by_any_of_its_messages() {
        let system = std::io::Error::from_raw_os_error(28);
        let error = anyhow::Error::new(system).context("cannot make `x`");
        assert!(is_disk_full(&error));
        assert!(is_disk_full(&anyhow!("the disk is full; `gate.db` was not changed")));
        assert!(!is_disk_full(&anyhow!("permission denied")));
    }
}
