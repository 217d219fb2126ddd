//! Requests in the shape that almost all have: a POST that comes whole in one read and is answered
//! whole. Anything else is told apart before a byte of it is used, and is hyper's from then on, with
//! all that was read.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Uri};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::body::{Arriving, Body};
use super::date::Date;
use super::half::HalfClosed;
use crate::bounds::Bounds;

/// A whole request, and one byte more, so that its end is seen.
const READ_BYTES: usize = 8 * 1024;
const HEADERS_MAX: usize = 64;

/// How the plain part of a conversation ended.
pub(super) enum Ended<S> {
    /// By either end; also because no request came in time.
    Closed,
    /// What was read is not plain, or what must be answered to it is not.
    NotPlain(HandedOver<S>),
}

pub(super) struct HandedOver<S> {
    pub(super) stream: S,
    /// What was read and not answered.
    pub(super) read: Bytes,
    /// The answer to the first request in it, where that was carried out.
    pub(super) answer: Option<Response<Body>>,
}

/// A conversation as far as it is plain.
pub(super) struct Plain<'c, S> {
    stream: S,
    bounds: &'c Bounds,
    /// No further request is taken.
    stopping: &'c AtomicBool,
    date: Date,
    buffer: Box<[u8]>,
    read_bytes: usize,
    wait: Wait,
    /// An empty table for the headers of the next request.
    table: HeaderMap,
    head: Vec<u8>,
    /// Set when the client has closed its sending side while it is answered.
    half_closed: Option<HalfClosed>,
}

impl<'c, S: AsyncRead + AsyncWrite + Unpin> Plain<'c, S> {
    pub(super) fn new(
        stream: S,
        bounds: &'c Bounds,
        stopping: &'c AtomicBool,
        date: Date,
    ) -> Plain<'c, S> {
        Plain {
            stream,
            bounds,
            stopping,
            date,
            buffer: vec![0; READ_BYTES].into(),
            read_bytes: 0,
            wait: Wait::new(bounds.header_wait_max),
            table: HeaderMap::new(),
            head: Vec::new(),
            half_closed: None,
        }
    }

    /// Answers one request after the other.
    pub(super) async fn serve<F, R>(mut self, answer: F) -> Ended<S>
    where
        F: Fn(Request<Arriving>) -> R,
        R: Future<Output = Response<Body>>,
    {
        loop {
            self.wait.begin();
            if !poll_fn(|cx| self.poll_request(cx)).await {
                return self.close().await;
            }
            let read = Bytes::copy_from_slice(self.buffer.get(..self.read_bytes).unwrap_or(&[]));
            let Some(request) = self.request(&read) else { return self.hand_over(read, None) };
            self.read_bytes = 0;
            let response = {
                let mut answering = pin!(answer(request));
                poll_fn(|cx| match answering.as_mut().poll(cx) {
                    Poll::Ready(response) => Poll::Ready(Some(response)),
                    Poll::Pending if self.is_gone(cx) => Poll::Ready(None),
                    Poll::Pending => Poll::Pending,
                })
                .await
            };
            let Some(response) = response else { return self.close().await };
            let response = match self.encode(response) {
                Ok(body) => body,
                Err(response) => return self.hand_over(read, Some(*response)),
            };
            let mut written = 0;
            let written = poll_fn(|cx| self.poll_write(cx, &response, &mut written)).await;
            if written.is_err() || self.stopping.load(Ordering::Relaxed) {
                return self.close().await;
            }
        }
    }

    /// Says that nothing more comes; the other end need not hear it.
    async fn close(mut self) -> Ended<S> {
        let _ = poll_fn(|cx| Pin::new(&mut self.stream).poll_shutdown(cx)).await;
        Ended::Closed
    }

    /// Whether at least the beginning of a request came.
    fn poll_request(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        if self.read_bytes > 0 {
            return Poll::Ready(true);
        }
        if self.stopping.load(Ordering::Relaxed) {
            return Poll::Ready(false);
        }
        match self.poll_read(cx) {
            Poll::Ready(came) => Poll::Ready(matches!(came, Ok(bytes) if bytes > 0)),
            Poll::Pending => self.wait.poll(cx).map(|()| false),
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<usize>> {
        let mut buffer = ReadBuf::new(&mut self.buffer);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
        self.read_bytes = buffer.filled().len();
        Poll::Ready(Ok(self.read_bytes))
    }

    /// Whether the client is gone, as far as can be seen: behind what it sent early its end is hidden.
    /// One that only closed its sending side is told from it.
    fn is_gone(&mut self, cx: &mut Context<'_>) -> bool {
        if self.half_closed.is_none() {
            match self.read_bytes {
                0 => match self.poll_read(cx) {
                    Poll::Ready(Ok(0)) => {}
                    Poll::Ready(Err(_)) => return true,
                    _ => return false,
                },
                _ => return false,
            }
        }
        self.half_closed.get_or_insert_default().is_gone(&mut self.stream, cx)
    }

    fn hand_over(self, read: Bytes, answer: Option<Response<Body>>) -> Ended<S> {
        let early = match answer {
            Some(_) => self.buffer.get(..self.read_bytes).unwrap_or(&[]),
            // All that was read is the request.
            None => &[],
        };
        let read = if early.is_empty() {
            read
        } else {
            let mut all = BytesMut::from(&*read);
            all.extend_from_slice(early);
            all.freeze()
        };
        Ended::NotPlain(HandedOver { stream: self.stream, read, answer })
    }

    /// The request that was read, if it is one and nothing else: whole, with one length and no word on
    /// the connection or on how to go on.
    fn request(&mut self, read: &Bytes) -> Option<Request<Arriving>> {
        let mut slots = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let slots = slots.get_mut(..self.bounds.headers_max.min(HEADERS_MAX))?;
        let mut head = httparse::Request::new(slots);
        let Ok(httparse::Status::Complete(head_bytes)) = head.parse(read) else { return None };
        let is_plain = head.version == Some(1)
            && head.method == Some("POST")
            && head_bytes <= self.bounds.header_bytes_max
            && read.len() < READ_BYTES;
        let path = head.path.filter(|path| is_plain && path.starts_with('/'))?;
        if path.contains('#') || !has_whole_line_ends(read.get(..head_bytes)?) {
            return None;
        }
        let uri = Uri::from_maybe_shared(read.slice_ref(path.as_bytes())).ok()?;
        let mut headers = std::mem::take(&mut self.table);
        headers.reserve(head.headers.len());
        let mut length = None;
        for header in &*head.headers {
            let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
            if name == CONTENT_LENGTH {
                let said = digits(header.value)?;
                if length.replace(said).is_some() {
                    return None;
                }
            } else if changes_framing(&name, header.value) {
                return None;
            }
            let value = HeaderValue::from_maybe_shared(read.slice_ref(header.value)).ok()?;
            headers.append(name, value);
        }
        let body = read.slice(head_bytes..);
        if body.is_empty() || Some(body.len()) != length {
            return None;
        }
        let mut request = Request::new(Arriving::Whole(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        Some(request)
    }

    /// Writes the head of an answer that is there as a whole, and gives its body; gives back another.
    fn encode(&mut self, response: Response<Body>) -> Result<Bytes, Box<Response<Body>>> {
        let is_plain = is_plain(&response);
        let (mut parts, body) = response.into_parts();
        let body = match body {
            Body::Whole(body) if is_plain => body.unwrap_or_default(),
            body => return Err(Box::new(Response::from_parts(parts, body))),
        };
        let head = &mut self.head;
        head.clear();
        begin_head(parts.status, &parts.headers, head);
        if self.stopping.load(Ordering::Relaxed) {
            head.extend_from_slice(b"connection: close\r\n");
        }
        head.extend_from_slice(b"content-length: ");
        head.extend_from_slice(itoa::Buffer::new().format(body.len()).as_bytes());
        head.extend_from_slice(b"\r\ndate: ");
        head.extend_from_slice(self.date.text());
        head.extend_from_slice(b"\r\n\r\n");
        parts.headers.clear();
        self.table = parts.headers;
        Ok(body)
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        body: &[u8],
        written: &mut usize,
    ) -> Poll<std::io::Result<()>> {
        while *written < self.head.len() + body.len() {
            let head = self.head.get(*written..).unwrap_or_default();
            let body = body.get(written.saturating_sub(self.head.len())..).unwrap_or_default();
            let slices = [std::io::IoSlice::new(head), std::io::IoSlice::new(body)];
            let more = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, &slices))?;
            if more == 0 {
                return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into()));
            }
            *written += more;
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }
}

/// Writes the beginning of a head, which its length and an empty line must follow.
pub(super) fn begin_head(status: StatusCode, headers: &HeaderMap, head: &mut Vec<u8>) {
    head.extend_from_slice(b"HTTP/1.1 ");
    head.extend_from_slice(status.as_str().as_bytes());
    head.push(b' ');
    head.extend_from_slice(status.canonical_reason().unwrap_or("<none>").as_bytes());
    head.extend_from_slice(b"\r\n");
    for (name, value) in headers {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
}

/// Whether an answer has a body of the length that is written, and leaves the connection as it is.
fn is_plain(response: &Response<Body>) -> bool {
    let status = response.status();
    let has_length = !status.is_informational()
        && status != StatusCode::NO_CONTENT
        && status != StatusCode::NOT_MODIFIED;
    let ours = [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING];
    has_length && !ours.iter().any(|name| response.headers().contains_key(name))
}

/// Whether a header says how the body is sent or how the connection goes on.
fn changes_framing(name: &HeaderName, value: &[u8]) -> bool {
    use hyper::header::{EXPECT, TE, TRAILER, UPGRADE};
    if name == CONNECTION {
        return !value.eq_ignore_ascii_case(b"keep-alive");
    }
    [TRANSFER_ENCODING, EXPECT, UPGRADE, TE, TRAILER].contains(name)
}

/// Whether no line of a head ends with LF alone, which is a line end to some readers only.
pub(super) fn has_whole_line_ends(head: &[u8]) -> bool {
    let mut ends = memchr::memchr_iter(b'\n', head);
    ends.all(|at| at.checked_sub(1).and_then(|before| head.get(before)) == Some(&b'\r'))
}

pub(super) fn digits(value: &[u8]) -> Option<usize> {
    let legal = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    legal.then(|| std::str::from_utf8(value).ok()?.parse().ok())?
}

/// The wait for a request. Its timer moves only when it fires: setting one costs more than most waits
/// last.
struct Wait {
    max: Duration,
    due: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Wait {
    fn new(max: Duration) -> Wait {
        Wait { max, due: Instant::now() + max, timer: None }
    }

    fn begin(&mut self) {
        self.due = Instant::now() + self.max;
    }

    /// Ready when the wait is over.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let due = self.due;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        while timer.as_mut().poll(cx).is_ready() {
            if due <= Instant::now() {
                return Poll::Ready(());
            }
            timer.as_mut().reset(due);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests;
