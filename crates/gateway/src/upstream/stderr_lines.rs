//! Forwards a child's stderr line by line, with secrets masked.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::mask::Mask;
use super::options::ChildOptions;

/// A longer line is cut off.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// The stderr of one run of a child.
pub(super) struct StderrLines {
    to: mpsc::Sender<String>,
    mask: Option<Arc<Mask>>,
    line: Vec<u8>,
}

impl StderrLines {
    /// None if there is no receiver.
    pub(super) fn of(options: &ChildOptions) -> Option<StderrLines> {
        let to = options.stderr_to.clone()?;
        Some(StderrLines { to, mask: options.mask.clone(), line: Vec::new() })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            // One more byte shows that the line is longer.
            let room = (LINE_BYTES_MAX + 1).saturating_sub(self.line.len());
            let text = part.strip_suffix(b"\n").unwrap_or(part);
            self.line.extend_from_slice(text.get(..room).unwrap_or(text));
            if text.len() < part.len() {
                self.send_line();
            }
        }
    }

    /// The last line may have no line feed.
    pub(super) fn end(mut self) {
        if !self.line.is_empty() {
            self.send_line();
        }
    }

    /// A slow receiver misses lines: the child must not wait for it.
    fn send_line(&mut self) {
        let is_cut = self.line.len() > LINE_BYTES_MAX;
        if is_cut {
            // A secret that is cut in half would not be masked.
            let longest = self.mask.as_ref().map_or(0, |mask| mask.bytes_max());
            self.line.truncate(LINE_BYTES_MAX.saturating_sub(longest));
        }
        let text = String::from_utf8_lossy(&self.line).into_owned();
        let text = match &self.mask {
            Some(mask) => mask.text(text),
            None => text,
        };
        let text = if is_cut { format!("{text}…") } else { text };
        self.line.clear();
        self.to.try_send(text).ok();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use super::*;
    use platform::guard::Method;

    use crate::upstream::GuardProgram;

    fn received(secret: &str, parts: &[&[u8]]) -> Vec<String> {
        let guard_program = GuardProgram {
            program: "shim".into(),
            args: Vec::new(),
            method: Method::default(),
            files_max: None,
        };
        let (to, mut from) = mpsc::channel(64);
        let mut options = ChildOptions::new(guard_program, "child");
        options.env = vec![("KEY".into(), secret.into()), ("OPEN".into(), "plain".into())];
        options.mask = Mask::new([("KEY", secret)]);
        assert!(StderrLines::of(&options).is_none(), "there is no receiver");
        options.stderr_to = Some(to);
        let mut lines = StderrLines::of(&options).unwrap();
        for part in parts {
            lines.write(part);
        }
        lines.end();
        drop(options);
        std::iter::from_fn(|| from.try_recv().ok()).collect()
    }

    #[test]
    fn lines_come_whole_and_without_secrets() {
        let lines = received("hunter22", &[b"one\ntwo hun", b"ter22 plain\n\nlast \xff"]);
        assert_eq!(lines, ["one", "two [secret KEY] plain", "", "last \u{fffd}"]);
        let lines = received(
            "first-half-of-it\nother-half-of-it",
            &[b"first-half-of-it\nother-half-of-it\n"],
        );
        assert_eq!(lines, ["[secret KEY]", "[secret KEY]"]);
    }

    #[test]
    fn an_endless_line_is_cut_before_what_may_be_half_a_secret() {
        let mut line = vec![b'x'; LINE_BYTES_MAX - 4];
        line.extend_from_slice(b"hunter22 and so on");
        let lines = received("hunter22", &[&line, b"more\nnext\n"]);
        assert_eq!(lines.len(), 2);
        assert!(lines[0].trim_end_matches('…').bytes().all(|byte| byte == b'x'), "{}", lines[0]);
        assert_eq!(lines[1], "next");
    }
}
