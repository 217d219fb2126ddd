//! Splits a child's output into lines. A line over the limit is dropped while it is read; only its ends are
//! kept, to find the request it belongs to.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::options::TURN_BYTES;

/// How much of each end of an overlong line is kept.
const END_BYTES: usize = 1024;
/// Bytes per read; the default size of a pipe.
const READ_BYTES: usize = 64 * 1024;

/// One line of output.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChildLine {
    Whole(Bytes),
    /// Longer than the limit.
    Overlong {
        head: Vec<u8>,
        tail: Vec<u8>,
    },
}

/// Splits input at line feeds.
pub(super) struct LineReader<R> {
    source: R,
    line_bytes_max: usize,
    buffer: BytesMut,
    /// The buffer contains no line feed up to here.
    searched: usize,
    /// The ends of the line that is being dropped.
    overlong: Option<(Vec<u8>, Vec<u8>)>,
    turn_bytes: usize,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(super) fn new(source: R, line_bytes_max: usize) -> LineReader<R> {
        let buffer = BytesMut::new();
        LineReader { source, line_bytes_max, buffer, searched: 0, overlong: None, turn_bytes: 0 }
    }

    /// The next line that is not blank, without its line feed. None at the end.
    pub(super) async fn next(&mut self) -> io::Result<Option<ChildLine>> {
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

    /// Takes a complete line from the buffer.
    fn split(&mut self) -> Option<ChildLine> {
        let unsearched = self.buffer.get(self.searched..).unwrap_or_default();
        let Some(at) = memchr::memchr(b'\n', unsearched) else {
            self.searched = self.buffer.len();
            return None;
        };
        let line = self.finish(self.searched + at);
        drop(self.buffer.split_to(1));
        Some(line)
    }

    /// The line that ends here.
    fn finish(&mut self, at: usize) -> ChildLine {
        self.searched = 0;
        let bytes = self.buffer.split_to(at);
        match self.overlong.take() {
            Some((head, mut tail)) => {
                keep_end(&mut tail, &bytes);
                ChildLine::Overlong { head, tail }
            }
            None if bytes.len() > self.line_bytes_max => {
                let mut tail = Vec::new();
                keep_end(&mut tail, &bytes);
                ChildLine::Overlong { head: beginning(&bytes), tail }
            }
            None => ChildLine::Whole(bytes.freeze()),
        }
    }

    /// Drops what is over the limit.
    fn bound(&mut self) {
        if self.overlong.is_none() && self.buffer.len() <= self.line_bytes_max {
            return;
        }
        let (_, tail) = self.overlong.get_or_insert_with(|| (beginning(&self.buffer), Vec::new()));
        keep_end(tail, &self.buffer);
        // A new buffer, so that the large one is freed.
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

fn is_blank(line: &ChildLine) -> bool {
    matches!(line, ChildLine::Whole(bytes) if bytes.trim_ascii().is_empty())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    /// Returns its bytes in chunks of a given size.
    struct Chunked<'a>(&'a [u8], usize);

    impl AsyncRead for Chunked<'_> {
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

    async fn read(output: &[u8], chunk_bytes: usize, line_bytes_max: usize) -> Vec<ChildLine> {
        let mut lines = LineReader::new(Chunked(output, chunk_bytes), line_bytes_max);
        let mut all = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            all.push(line);
        }
        all
    }

    #[tokio::test]
    async fn lines_are_the_same_however_they_arrive() {
        let output = b"one\n\n  \r\ntwo\r\nthe last has no end";
        for chunk_bytes in 1..=output.len() {
            let lines = read(output, chunk_bytes, 100).await;
            let expected = ["one", "two\r", "the last has no end"]
                .map(|line| ChildLine::Whole(Bytes::from_static(line.as_bytes())));
            assert_eq!(lines, expected, "in pieces of {chunk_bytes}");
        }
    }

    #[tokio::test]
    async fn an_overlong_line_leaves_its_ends_and_the_next_line_is_read() {
        let output = [b"{\"id\":7,".as_slice(), &vec![b'x'; 5000], b",\"end\":1}\nnext\n"].concat();
        for chunk_bytes in [1, 7, 999, 1024, 6000] {
            let lines = read(&output, chunk_bytes, 100).await;
            let [ChildLine::Overlong { head, tail }, next] = lines.as_slice() else {
                unreachable!("in pieces of {chunk_bytes}: {} lines", lines.len());
            };
            assert!(head.starts_with(b"{\"id\":7,"), "in pieces of {chunk_bytes}");
            assert!(
                tail.ends_with(b",\"end\":1}") && tail.len() <= END_BYTES,
                "in pieces of {chunk_bytes}"
            );
            assert_eq!(*next, ChildLine::Whole(Bytes::from_static(b"next")));
        }
    }

    #[tokio::test]
    async fn a_line_of_exactly_the_bound_is_whole() {
        assert_eq!(read(b"12345\n", 2, 5).await, [ChildLine::Whole(Bytes::from_static(b"12345"))]);
    }
}
