//! A child's output as lines. A line over the bound is thrown away as it comes, and only its ends are
//! kept, to find out whose answer it was.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::options::TURN_BYTES;

/// How much of each end of an overlong line is kept.
const END_BYTES: usize = 1024;
/// One read of the pipe, at most; a pipe holds this much by default.
const READ_BYTES: usize = 64 * 1024;

/// One line of output.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Whole(Bytes),
    /// It was longer than the bound.
    Overlong {
        head: Vec<u8>,
        tail: Vec<u8>,
    },
}

/// Splits what it reads at line feeds.
pub(super) struct Lines<R> {
    source: R,
    line_bytes_max: usize,
    buffer: BytesMut,
    /// How far the buffer holds no line feed.
    searched: usize,
    /// The ends of the line that is being thrown away.
    overlong: Option<(Vec<u8>, Vec<u8>)>,
    turn_bytes: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(source: R, line_bytes_max: usize) -> Lines<R> {
        let buffer = BytesMut::new();
        Lines { source, line_bytes_max, buffer, searched: 0, overlong: None, turn_bytes: 0 }
    }

    /// The next line that is not blank, without its end; nothing at the end of the output.
    pub(super) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            if let Some(line) = self.split() {
                if !is_blank(&line) {
                    return Ok(Some(line));
                }
                continue;
            }
            self.bound();
            if self.turn_bytes >= TURN_BYTES {
                self.turn_bytes = 0;
                tokio::task::yield_now().await;
            }
            self.buffer.reserve(READ_BYTES);
            let read_bytes = self.source.read_buf(&mut self.buffer).await?;
            if read_bytes == 0 {
                let last = self.finish(self.buffer.len());
                return Ok((!is_blank(&last)).then_some(last));
            }
            self.turn_bytes += read_bytes;
        }
    }

    /// Takes a whole line from the buffer, if there is one.
    fn split(&mut self) -> Option<Line> {
        let unsearched = self.buffer.get(self.searched..).unwrap_or_default();
        let Some(at) = memchr::memchr(b'\n', unsearched) else {
            self.searched = self.buffer.len();
            return None;
        };
        let line = self.finish(self.searched + at);
        // The line feed itself.
        drop(self.buffer.split_to(1));
        Some(line)
    }

    /// The line that ends here.
    fn finish(&mut self, at: usize) -> Line {
        self.searched = 0;
        let bytes = self.buffer.split_to(at);
        match self.overlong.take() {
            Some((head, mut tail)) => {
                keep_end(&mut tail, &bytes);
                Line::Overlong { head, tail }
            }
            None if bytes.len() > self.line_bytes_max => {
                let mut tail = Vec::new();
                keep_end(&mut tail, &bytes);
                Line::Overlong { head: beginning(&bytes), tail }
            }
            None => Line::Whole(bytes.freeze()),
        }
    }

    /// Throws away what is over the bound.
    fn bound(&mut self) {
        if self.overlong.is_none() && self.buffer.len() <= self.line_bytes_max {
            return;
        }
        let (_, tail) = self.overlong.get_or_insert_with(|| (beginning(&self.buffer), Vec::new()));
        keep_end(tail, &self.buffer);
        // A fresh buffer, so that the large one is given back.
        self.buffer = BytesMut::new();
        self.searched = 0;
    }
}

fn beginning(bytes: &[u8]) -> Vec<u8> {
    bytes.get(..END_BYTES).unwrap_or(bytes).to_vec()
}

fn keep_end(tail: &mut Vec<u8>, bytes: &[u8]) {
    tail.extend_from_slice(bytes.get(bytes.len().saturating_sub(END_BYTES)..).unwrap_or(bytes));
    tail.drain(..tail.len().saturating_sub(END_BYTES));
}

fn is_blank(line: &Line) -> bool {
    matches!(line, Line::Whole(bytes) if bytes.trim_ascii().is_empty())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    /// Hands out its bytes in pieces of a given size.
    struct Pieces<'a>(&'a [u8], usize);

    impl AsyncRead for Pieces<'_> {
        fn poll_read(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            buf: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            let (now, later) = self.0.split_at(self.1.min(self.0.len()));
            buf.put_slice(now);
            self.0 = later;
            std::task::Poll::Ready(Ok(()))
        }
    }

    async fn read(output: &[u8], piece: usize, line_bytes_max: usize) -> Vec<Line> {
        let mut lines = Lines::new(Pieces(output, piece), line_bytes_max);
        let mut all = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            all.push(line);
        }
        all
    }

    #[tokio::test]
    async fn lines_are_the_same_however_they_arrive() {
        let output = b"one\n\n  \r\ntwo\r\nthe last has no end";
        for piece in 1..=output.len() {
            let lines = read(output, piece, 100).await;
            let expected = ["one", "two\r", "the last has no end"]
                .map(|line| Line::Whole(Bytes::from_static(line.as_bytes())));
            assert_eq!(lines, expected, "in pieces of {piece}");
        }
    }

    #[tokio::test]
    async fn an_overlong_line_leaves_its_ends_and_the_next_line_is_read() {
        let output = [b"{\"id\":7,".as_slice(), &vec![b'x'; 5000], b",\"end\":1}\nnext\n"].concat();
        for piece in [1, 7, 999, 1024, 6000] {
            let lines = read(&output, piece, 100).await;
            let [Line::Overlong { head, tail }, next] = lines.as_slice() else {
                unreachable!("in pieces of {piece}: {} lines", lines.len());
            };
            assert!(head.starts_with(b"{\"id\":7,"), "in pieces of {piece}");
            assert!(
                tail.ends_with(b",\"end\":1}") && tail.len() <= END_BYTES,
                "in pieces of {piece}"
            );
            assert_eq!(*next, Line::Whole(Bytes::from_static(b"next")));
        }
    }

    #[tokio::test]
    async fn a_line_of_exactly_the_bound_is_whole() {
        assert_eq!(read(b"12345\n", 2, 5).await, [Line::Whole(Bytes::from_static(b"12345"))]);
    }
}
