//! A built-in server on a full disk: it starts and says so, instead of a client that only sees it end.

use std::io::{BufRead, BufReader, Read as _, Write as _};

use anyhow::{Result, anyhow};
use connectors::Service;
use gateway::Stopped;

use crate::failure::Ending;

/// A longer line is no message that this server has an answer to.
const LINE_BYTES_MAX: u64 = 4 << 20;

/// What every call hears.
const WHY: &str = "the disk is full, so nothing can be recorded or kept; free some space on the disk of the tollgate home and start this server again";

/// Whether a failure comes from a disk without room. SQLite and the system each have their own words.
pub(super) fn is_about_space(error: &anyhow::Error) -> bool {
    const WORDS: [&str; 3] = ["disk is full", "no space left", "quota exceeded"];
    error
        .chain()
        .map(|cause| cause.to_string().to_ascii_lowercase())
        .any(|cause| WORDS.iter().any(|words| cause.contains(words)))
}

/// Speaks for the server on our standard streams until its client has gone.
pub(super) fn speak(service: &'static Service, tools: &[String]) -> Result<Ending> {
    tracing::error!("{WHY}");
    let stopped = Stopped::new(service, tools, WHY).map_err(|words| anyhow!(words))?;
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
    fn a_disk_without_room_is_known_by_any_of_its_words() {
        let system = std::io::Error::from_raw_os_error(28);
        let error = anyhow::Error::new(system).context("cannot make `x`");
        assert!(is_about_space(&error));
        assert!(is_about_space(&anyhow!("the disk is full; `gate.db` was not changed")));
        assert!(!is_about_space(&anyhow!("permission denied")));
    }
}
