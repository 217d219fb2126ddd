//! Hands on what a child says on stderr, line by line and without the owner's secrets.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::mask::Mask;
use super::options::ChildOptions;

/// Of a longer line only the beginning is handed on.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// One run of a child, as somebody hears it.
pub(super) struct Spoken {
    to: mpsc::Sender<String>,
    mask: Option<Arc<Mask>>,
    line: Vec<u8>,
}

impl Spoken {
    /// None where nobody wants to hear.
    pub(super) fn of(options: &ChildOptions) -> Option<Spoken> {
        let to = options.stderr_to.clone()?;
        Some(Spoken { to, mask: options.mask.clone(), line: Vec::new() })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            // One byte more tells that there was more.
            let room = (LINE_BYTES_MAX + 1).saturating_sub(self.line.len());
            let text = part.strip_suffix(b"\n").unwrap_or(part);
            self.line.extend_from_slice(text.get(..room).unwrap_or(text));
            if text.len() < part.len() {
                self.hand_on();
            }
        }
    }

    /// What it said last may have no end.
    pub(super) fn end(mut self) {
        if !self.line.is_empty() {
            self.hand_on();
        }
    }

    /// Whoever reads too slowly misses lines: the child must not wait for them.
    fn hand_on(&mut self) {
        let is_cut = self.line.len() > LINE_BYTES_MAX;
        if is_cut {
            // Half a secret at the cut would not be known as one.
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
    use crate::upstream::Shim;

    fn heard(secret: &str, parts: &[&[u8]]) -> Vec<String> {
        let shim = Shim { program: "shim".into(), args: Vec::new(), files_max: None };
        let (to, mut from) = mpsc::channel(64);
        let mut options = ChildOptions::new(shim, "child");
        options.env = vec![("KEY".into(), secret.into()), ("OPEN".into(), "plain".into())];
        options.mask = Mask::new([("KEY", secret)]);
        assert!(Spoken::of(&options).is_none(), "nobody wants to hear");
        options.stderr_to = Some(to);
        let mut spoken = Spoken::of(&options).unwrap();
        for part in parts {
            spoken.write(part);
        }
        spoken.end();
        drop(options);
        std::iter::from_fn(|| from.try_recv().ok()).collect()
    }

    #[test]
    fn lines_come_whole_and_without_secrets() {
        let told = heard("hunter22", &[b"one\ntwo hun", b"ter22 plain\n\nlast \xff"]);
        assert_eq!(told, ["one", "two [secret KEY] plain", "", "last \u{fffd}"]);
        let told =
            heard("first-half-of-it\nother-half-of-it", &[b"first-half-of-it\nother-half-of-it\n"]);
        assert_eq!(told, ["[secret KEY]", "[secret KEY]"]);
    }

    #[test]
    fn an_endless_line_is_cut_before_what_may_be_half_a_secret() {
        let mut line = vec![b'x'; LINE_BYTES_MAX - 4];
        line.extend_from_slice(b"hunter22 and so on");
        let told = heard("hunter22", &[&line, b"more\nnext\n"]);
        assert_eq!(told.len(), 2);
        assert!(told[0].trim_end_matches('…').bytes().all(|byte| byte == b'x'), "{}", told[0]);
        assert_eq!(told[1], "next");
    }
}
