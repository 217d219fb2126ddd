//! HTTP/1.1 without hyper, for the usual exchange: a small request in one write, a response of announced length
//! in one read. Anything else is detected before a byte of it is used, and is left to hyper.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::headers::{JSON, is_read};
use super::socket::Socket;

/// A longer body takes several writes, and the server may respond before its end.
const REQUEST_BYTES_MAX: usize = 16 * 1024;
/// The whole response, head and body.
const ANSWER_BYTES_MAX: usize = 8 * 1024;
const HEADERS_MAX: usize = 32;

/// A socket on which all exchanges so far used the fast path.
pub(super) struct FastPathClient {
    socket: Socket,
    /// The head of the current request, and how much of head and body is written.
    head: Vec<u8>,
    written_bytes: usize,
    /// The bytes that were read.
    buffer: Box<[u8]>,
    read_bytes: usize,
}

impl FastPathClient {
    pub(super) fn new(socket: Socket) -> FastPathClient {
        FastPathClient {
            socket,
            head: Vec::new(),
            written_bytes: 0,
            buffer: vec![0; ANSWER_BYTES_MAX].into(),
            read_bytes: 0,
        }
    }

    /// The socket, and the bytes that were read from it.
    pub(super) fn into_parts(self) -> (Socket, Bytes) {
        let read = self.buffer.get(..self.read_bytes).unwrap_or_default();
        (self.socket, Bytes::copy_from_slice(read))
    }

    /// Whether the server has sent nothing since its last response, not even a close.
    pub(super) fn is_quiet(&mut self, cx: &mut Context<'_>) -> bool {
        self.poll_read(cx).is_pending()
    }

    /// Writes the head of a request into the buffer. False if the fast path cannot
    /// send it: not a POST, or an empty or large body.
    pub(super) fn begin(&mut self, request: &Request<Bytes>) -> bool {
        let (body, target) = (request.body(), request.uri().path_and_query());
        let (Some(target), &Method::POST) = (target, request.method()) else { return false };
        if body.is_empty() || body.len() > REQUEST_BYTES_MAX {
            return false;
        }
        self.written_bytes = 0;
        self.read_bytes = 0;
        let head = &mut self.head;
        head.clear();
        head.extend_from_slice(b"POST ");
        head.extend_from_slice(target.as_str().as_bytes());
        head.extend_from_slice(b" HTTP/1.1\r\n");
        for (name, value) in request.headers() {
            head.extend_from_slice(name.as_str().as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value.as_bytes());
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"content-length: ");
        head.extend_from_slice(itoa::Buffer::new().format(body.len()).as_bytes());
        head.extend_from_slice(b"\r\n\r\n");
        true
    }

    /// Sends the request and waits for data.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, body: &[u8]) -> Poll<io::Result<()>> {
        while self.written_bytes < self.head.len() + body.len() {
            let head = self.head.get(self.written_bytes..).unwrap_or_default();
            let body_from = self.written_bytes.saturating_sub(self.head.len());
            let body = body.get(body_from..).unwrap_or_default();
            let slices = [io::IoSlice::new(head), io::IoSlice::new(body)];
            let written = ready!(Pin::new(&mut self.socket).poll_write_vectored(cx, &slices))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written_bytes += written;
        }
        self.poll_read(cx)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut buffer = ReadBuf::new(&mut self.buffer);
        ready!(Pin::new(&mut self.socket).poll_read(cx, &mut buffer))?;
        self.read_bytes = buffer.filled().len();
        Poll::Ready(Ok(()))
    }

    /// The response, with `table` for its headers, if it fits the fast path.
    pub(super) fn response(&self, table: HeaderMap) -> Option<Response<Bytes>> {
        response(self.buffer.get(..self.read_bytes)?, table)
    }
}

/// The response in these bytes, if they are exactly one: complete, with one length, and no connection header
/// other than keep-alive.
fn response(read: &[u8], table: HeaderMap) -> Option<Response<Bytes>> {
    let mut slots = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Response::new(&mut slots);
    let Ok(httparse::Status::Complete(head_bytes)) = head.parse(read) else { return None };
    if head.version != Some(1) {
        return None;
    }
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = status(head.code?)?;
    *response.headers_mut() = table;
    let mut length = None;
    for header in &*head.headers {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        if is("content-length") {
            let said = digits(header.value)?;
            if length.replace(said).is_some() {
                return None;
            }
        } else if is("connection") {
            if !header.value.eq_ignore_ascii_case(b"keep-alive") {
                return None;
            }
        } else if is("transfer-encoding") || is("upgrade") {
            return None;
        } else {
            keep(header, response.headers_mut())?;
        }
    }
    let body = read.get(head_bytes..).filter(|body| Some(body.len()) == length)?;
    *response.body_mut() = Bytes::copy_from_slice(body);
    Some(response)
}

/// A status whose response has the announced length.
fn status(code: u16) -> Option<StatusCode> {
    match code {
        204 | 304 => None,
        200..=599 => StatusCode::from_u16(code).ok(),
        _ => None,
    }
}

fn digits(value: &[u8]) -> Option<usize> {
    let legal = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    legal.then(|| std::str::from_utf8(value).ok()?.parse().ok())?
}

/// Keeps a header that is used. None if it is not valid.
fn keep(header: &httparse::Header<'_>, headers: &mut HeaderMap) -> Option<()> {
    let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
    if name == CONTENT_TYPE && header.value == JSON.as_bytes() {
        headers.append(name, JSON);
    } else if is_read(&name) {
        headers.append(name, HeaderValue::from_bytes(header.value).ok()?);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const PLAIN: &str =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";

    fn read(bytes: &str) -> Option<Response<Bytes>> {
        response(bytes.as_bytes(), HeaderMap::new())
    }

    #[test]
    fn a_plain_answer_is_read() {
        let with = |header: &str| PLAIN.replace("Content-L", &format!("{header}\r\nContent-L"));
        let cases = [
            (PLAIN.to_owned(), 200, 1),
            (PLAIN.replace("200 OK", "404 Not Found"), 404, 1),
            (PLAIN.replace("Content-Type: application/json\r\n", ""), 200, 0),
            (with("Connection: Keep-Alive\r\nKeep-Alive: timeout=5"), 200, 2),
            (with("Mcp-Session-Id: a\r\nDate: now\r\nContent-Encoding: gzip"), 200, 3),
        ];
        for (bytes, status, headers) in cases {
            let response = read(&bytes).unwrap();
            assert_eq!(response.status(), status, "{bytes}");
            assert_eq!(response.headers().len(), headers, "{bytes}");
            assert_eq!(response.body(), "{}", "{bytes}");
        }
        let accepted = "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n";
        assert!(read(accepted).unwrap().body().is_empty());
    }

    #[test]
    fn only_plain_requests_take_the_fast_path() {
        let with = |header: &str| PLAIN.replace("Content-L", &format!("{header}\r\nContent-L"));
        let cases = [
            PLAIN.replace("1.1", "1.0"),
            PLAIN.replace("200 OK", "100 Continue"),
            PLAIN.replace("200 OK", "204 No Content"),
            PLAIN.replace("200 OK", "304 Not Modified"),
            PLAIN.replace("200 OK", "600 More"),
            PLAIN.replace("Content-Length: 2\r\n", ""),
            PLAIN.replace(": 2", ": 1"),
            PLAIN.replace(": 2", ": 3"),
            PLAIN.replace(": 2", ": +2"),
            PLAIN.replace(": 2", ": 2, 2"),
            PLAIN.replace(": 2", ": 99999999999999999999999"),
            with("content-length: 2"),
            with("Transfer-Encoding: chunked"),
            with("Connection: close"),
            with("Upgrade: h2c"),
            with("a\0: b"),
            with("a : b"),
            with(&"a: b\r\n".repeat(HEADERS_MAX)),
            format!("{PLAIN}{PLAIN}"),
            PLAIN.get(..30).unwrap().to_owned(),
            PLAIN.get(..PLAIN.len() - 1).unwrap().to_owned(),
            String::new(),
        ];
        for bytes in cases {
            assert!(read(&bytes).is_none(), "{bytes}");
        }
    }
}
