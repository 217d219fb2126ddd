//! The HTTP/1 fast path: a POST that arrives complete in one read and gets a complete response.
//! Anything else is recognized before a byte is consumed and handed over to hyper, with all bytes
//! read so far.

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

use super::body::{Body, IncomingBody};
use super::date::Date;
use super::half_close::HalfCloseProbe;
use crate::runtime::bounds::Bounds;

/// A complete request, and one byte more to detect that there is more.
const READ_BYTES: usize = 8 * 1024;
const HEADERS_MAX: usize = 64;

/// How the fast path of a connection ended.
pub(super) enum FastPathEnd<S> {
    /// Closed by either side, or because no request came in time.
    Closed,
    /// The request or its response needs hyper.
    NeedsHyper(HandOver<S>),
}

pub(super) struct HandOver<S> {
    pub(super) stream: S,
    /// Bytes that were read but not answered.
    pub(super) read: Bytes,
    /// The response to the first request in them, if it was already handled.
    pub(super) answer: Option<Response<Body>>,
}

/// A connection on the fast path.
pub(super) struct FastPath<'c, S> {
    stream: S,
    bounds: &'c Bounds,
    /// Accept no further request.
    stopping: &'c AtomicBool,
    date: Date,
    buffer: Box<[u8]>,
    read_bytes: usize,
    wait: IdleTimeout,
    /// An empty map for the headers of the next request.
    header_map: HeaderMap,
    head: Vec<u8>,
    /// Set when the client closes its sending side while its request is handled.
    half_closed: Option<HalfCloseProbe>,
}

impl<'c, S: AsyncRead + AsyncWrite + Unpin> FastPath<'c, S> {
    pub(super) fn new(
        stream: S,
        bounds: &'c Bounds,
        stopping: &'c AtomicBool,
        date: Date,
    ) -> FastPath<'c, S> {
        FastPath {
            stream,
            bounds,
            stopping,
            date,
            buffer: vec![0; READ_BYTES].into(),
            read_bytes: 0,
            wait: IdleTimeout::new(bounds.header_wait_max),
            header_map: HeaderMap::new(),
            head: Vec::new(),
            half_closed: None,
        }
    }

    /// Handles one request after the other.
    pub(super) async fn serve<F, R>(mut self, answer: F) -> FastPathEnd<S>
    where
        F: Fn(Request<IncomingBody>) -> R,
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

    /// Shuts down the sending side; errors do not matter any more.
    async fn close(mut self) -> FastPathEnd<S> {
        let _ = poll_fn(|cx| Pin::new(&mut self.stream).poll_shutdown(cx)).await;
        FastPathEnd::Closed
    }

    /// Whether any bytes of a request arrived.
    fn poll_request(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        if self.read_bytes > 0 {
            return Poll::Ready(true);
        }
        if self.stopping.load(Ordering::Relaxed) {
            return Poll::Ready(false);
        }
        match self.poll_read(cx) {
            Poll::Ready(read) => Poll::Ready(matches!(read, Ok(bytes) if bytes > 0)),
            Poll::Pending => self.wait.poll(cx).map(|()| false),
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<usize>> {
        let mut buffer = ReadBuf::new(&mut self.buffer);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
        self.read_bytes = buffer.filled().len();
        Poll::Ready(Ok(self.read_bytes))
    }

    /// Whether the client is gone, as far as visible: early bytes of a next request hide end of
    /// input. A client that only closed its sending side is not gone.
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

    fn hand_over(self, read: Bytes, answer: Option<Response<Body>>) -> FastPathEnd<S> {
        let early = match answer {
            Some(_) => self.buffer.get(..self.read_bytes).unwrap_or(&[]),
            // Everything that was read belongs to the request.
            None => &[],
        };
        let read = if early.is_empty() {
            read
        } else {
            let mut all = BytesMut::from(&*read);
            all.extend_from_slice(early);
            all.freeze()
        };
        FastPathEnd::NeedsHyper(HandOver { stream: self.stream, read, answer })
    }

    /// The request, if it is the only one in these bytes and complete: one length, and no header
    /// about framing or the connection.
    fn request(&mut self, read: &Bytes) -> Option<Request<IncomingBody>> {
        let mut slots = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let slots = slots.get_mut(..self.bounds.headers_max.min(HEADERS_MAX))?;
        let mut head = httparse::Request::new(slots);
        let Ok(httparse::Status::Complete(head_bytes)) = head.parse(read) else { return None };
        let is_simple = head.version == Some(1)
            && head.method == Some("POST")
            && head_bytes <= self.bounds.header_bytes_max
            && read.len() < READ_BYTES;
        let path = head.path.filter(|path| is_simple && path.starts_with('/'))?;
        if path.contains('#') || !has_crlf_only(read.get(..head_bytes)?) {
            return None;
        }
        let uri = Uri::from_maybe_shared(read.slice_ref(path.as_bytes())).ok()?;
        let mut headers = std::mem::take(&mut self.header_map);
        headers.reserve(head.headers.len());
        let mut length = None;
        for header in &*head.headers {
            let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
            if name == CONTENT_LENGTH {
                let bytes = digits(header.value)?;
                if length.replace(bytes).is_some() {
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
        let mut request = Request::new(IncomingBody::Complete(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        Some(request)
    }

    /// Writes the head of a complete response and returns its body. Any other response is returned
    /// unchanged.
    fn encode(&mut self, response: Response<Body>) -> Result<Bytes, Box<Response<Body>>> {
        let is_simple = is_simple(&response);
        let (mut parts, body) = response.into_parts();
        let body = match body {
            Body::Complete(body) if is_simple => body.unwrap_or_default(),
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
        self.header_map = parts.headers;
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

/// Writes status line and headers. The caller adds the length and the empty line.
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

/// Whether a response has a body of known length and leaves the connection open.
fn is_simple(response: &Response<Body>) -> bool {
    let status = response.status();
    let has_length = !status.is_informational()
        && status != StatusCode::NO_CONTENT
        && status != StatusCode::NOT_MODIFIED;
    let ours = [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING];
    has_length && !ours.iter().any(|name| response.headers().contains_key(name))
}

/// Whether a header affects the framing of the body or the connection.
fn changes_framing(name: &HeaderName, value: &[u8]) -> bool {
    use hyper::header::{EXPECT, TE, TRAILER, UPGRADE};
    if name == CONNECTION {
        return !value.eq_ignore_ascii_case(b"keep-alive");
    }
    [TRANSFER_ENCODING, EXPECT, UPGRADE, TE, TRAILER].contains(name)
}

/// Whether every line of a head ends with CR LF. A bare LF ends a line for some parsers only.
pub(super) fn has_crlf_only(head: &[u8]) -> bool {
    let mut ends = memchr::memchr_iter(b'\n', head);
    ends.all(|at| at.checked_sub(1).and_then(|before| head.get(before)) == Some(&b'\r'))
}

pub(super) fn digits(value: &[u8]) -> Option<usize> {
    let legal = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    legal.then(|| std::str::from_utf8(value).ok()?.parse().ok())?
}

/// The idle timeout. Its timer is reset only when it fires: resetting one costs more than most
/// waits last.
struct IdleTimeout {
    max: Duration,
    due: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

impl IdleTimeout {
    fn new(max: Duration) -> IdleTimeout {
        IdleTimeout { max, due: Instant::now() + max, timer: None }
    }

    fn begin(&mut self) {
        self.due = Instant::now() + self.max;
    }

    /// Ready when the timeout has elapsed.
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
