//! Checks of request heads that must not reach hyper: malformed, oversized or ambiguous ones. Also
//! the responses to clients whose requests are not read at all.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::{Response, Uri};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

use super::body::Body;
use super::fast_path;
use super::linger::Linger;
use crate::runtime::bounds::Bounds;

/// A client that does not read a short response within this time is dropped.
const WRITE_WAIT_MAX: Duration = Duration::from_secs(2);

/// The status and the message of an HTTP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault(pub(super) u16, pub(super) &'static str);

impl Fault {
    pub(super) const BROKEN: Fault = Fault(400, "the bytes are not an HTTP request");
    pub(super) const TOO_LARGE: Fault =
        Fault(431, "the headers are larger than the bounds allow, or too many");
    pub(super) const UNCLEAR_LENGTH: Fault = Fault(
        400,
        "a body needs one `Content-Length` in digits or a single `Transfer-Encoding: chunked`, not both",
    );
    pub(super) const TOO_SLOW: Fault =
        Fault(408, "the headers took longer than `header_wait_ms_max`");
    const LINE_END: Fault = Fault(400, "lines of an HTTP request must end with CR LF");
    const FRAGMENT: Fault = Fault(400, "a request target must not contain `#`");
}

/// The result of checking a head.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HeadCheck {
    /// Incomplete, valid so far.
    Partial,
    /// Valid; `bytes` is the size of head and body.
    Sized {
        bytes: u64,
    },
    /// Valid, with a chunked body.
    InChunks,
    Faulty(Fault),
}

/// Checks the head at the start of these bytes.
pub(super) fn check(read: &[u8], bounds: &Bounds) -> HeadCheck {
    check_head(read, bounds).unwrap_or_else(HeadCheck::Faulty)
}

fn check_head(read: &[u8], bounds: &Bounds) -> Result<HeadCheck, Fault> {
    let mut slots = vec![httparse::EMPTY_HEADER; bounds.headers_max];
    let mut head = httparse::Request::new(&mut slots);
    let head_bytes = match head.parse(read) {
        Err(httparse::Error::TooManyHeaders) => return Err(Fault::TOO_LARGE),
        Err(_) => return Err(Fault::BROKEN),
        Ok(httparse::Status::Partial) if read.len() > bounds.header_bytes_max => {
            return Err(Fault::TOO_LARGE);
        }
        Ok(httparse::Status::Partial) => return Ok(HeadCheck::Partial),
        Ok(httparse::Status::Complete(bytes)) if bytes > bounds.header_bytes_max => {
            return Err(Fault::TOO_LARGE);
        }
        Ok(httparse::Status::Complete(bytes)) => bytes,
    };
    if !fast_path::has_crlf_only(read.get(..head_bytes).unwrap_or_default()) {
        return Err(Fault::LINE_END);
    }
    let path = head.path.filter(|path| path.parse::<Uri>().is_ok()).ok_or(Fault::BROKEN)?;
    if path.contains('#') {
        return Err(Fault::FRAGMENT);
    }
    let named = |name: &'static str| {
        let fits = move |header: &&httparse::Header<'_>| header.name.eq_ignore_ascii_case(name);
        head.headers.iter().filter(fits).map(|header| header.value).collect::<Vec<_>>()
    };
    let body_bytes = match (&*named("content-length"), &*named("transfer-encoding")) {
        ([], []) => 0,
        ([length], []) => fast_path::digits(length).ok_or(Fault::UNCLEAR_LENGTH)?,
        ([], [coding]) if coding.eq_ignore_ascii_case(b"chunked") && head.version == Some(1) => {
            return Ok(HeadCheck::InChunks);
        }
        _ => return Err(Fault::UNCLEAR_LENGTH),
    };
    let bytes = (head_bytes as u64).checked_add(body_bytes as u64);
    Ok(HeadCheck::Sized { bytes: bytes.ok_or(Fault::UNCLEAR_LENGTH)? })
}

/// Writes a complete response and closes the connection. What the client still sends is read for a
/// moment, so that it gets to read the response.
pub(super) async fn respond_and_drain<S>(mut stream: S, response: Response<Body>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    if write(&mut stream, response).await {
        let mut linger = Linger::new(Arc::new(AtomicBool::new(true)));
        poll_fn(|context| linger.poll(&mut stream, context)).await;
    }
}

/// Like [`respond_and_drain`] without that moment, for a client beyond the connection limit.
pub(super) async fn respond_and_close<S>(mut stream: S, response: Response<Body>)
where
    S: AsyncWrite + Unpin,
{
    write(&mut stream, response).await;
}

/// True when everything was written.
async fn write<S: AsyncWrite + Unpin>(stream: &mut S, response: Response<Body>) -> bool {
    let bytes = encoded(response).await;
    let written = tokio::time::timeout(WRITE_WAIT_MAX, async {
        stream.write_all(&bytes).await?;
        stream.shutdown().await
    });
    matches!(written.await, Ok(Ok(())))
}

async fn encoded(response: Response<Body>) -> Vec<u8> {
    let (parts, body) = response.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let mut out = Vec::new();
    fast_path::begin_head(parts.status, &parts.headers, &mut out);
    let end = format!("content-length: {}\r\nconnection: close\r\n\r\n", body.len());
    out.extend_from_slice(end.as_bytes());
    out.extend_from_slice(&body);
    out
}

#[cfg(test)]
mod tests {
    use store::settings::Limits;

    use super::*;

    #[test]
    fn a_head_is_broken_or_smuggles_or_may_be_right() {
        use HeadCheck::{Faulty, InChunks, Partial, Sized};
        let bounds = Bounds::from_limits(&Limits::default());
        let many = format!("POST / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(bounds.headers_max + 1));
        let long = format!("POST / HTTP/1.1\r\nA: {}", "a".repeat(bounds.header_bytes_max));
        let (broken, unclear) = (Fault::BROKEN, Fault::UNCLEAR_LENGTH);
        for (head, expected) in [
            ("POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}", Sized { bytes: 52 }),
            ("POST /mcp HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", InChunks),
            ("POST /mcp HTTP/1.1\r\nContent-Le", Partial),
            ("GET /mcp HTTP/1.0\r\n\r\nGET", Sized { bytes: 21 }),
            ("POST  /mcp HTTP/1.1\r\n\r\n", Faulty(broken)),
            ("POST /mcp HTTP/1.1\r\nHost : a\r\n\r\n", Faulty(broken)),
            ("POST /mcp HTTP/1.1\r\nA: b\r\n c\r\n\r\n", Faulty(broken)),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Faulty(broken)),
            ("\x16\x03\x01\x02\x00\x01\x00", Faulty(broken)),
            ("POST mcp/rec HTTP/1.1\r\n\r\n", Faulty(broken)),
            ("POST file:///x HTTP/1.1\r\n\r\n", Faulty(broken)),
            ("POST /mcp#x HTTP/1.1\r\n\r\n", Faulty(Fault::FRAGMENT)),
            ("POST /mcp HTTP/1.1\nHost: a\r\n\r\n", Faulty(Fault::LINE_END)),
            ("POST /mcp HTTP/1.1\r\nHost: a\n\r\n", Faulty(Fault::LINE_END)),
            ("POST /mcp HTTP/1.1\r\nHost: a\r\n\n", Faulty(Fault::LINE_END)),
            ("POST / HTTP/1.1\r\nContent-Length: +2\r\n\r\n{}", Faulty(unclear)),
            ("POST / HTTP/1.1\r\nContent-Length:\r\n\r\n", Faulty(unclear)),
            ("POST / HTTP/1.1\r\nContent-Length: 18446744073709551615\r\n\r\n", Faulty(unclear)),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: cow\r\n\r\n", Faulty(unclear)),
            ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", Faulty(unclear)),
            (&many, Faulty(Fault::TOO_LARGE)),
            (&long, Faulty(Fault::TOO_LARGE)),
            (&format!("{long}\r\n\r\n"), Faulty(Fault::TOO_LARGE)),
            (
                "POST / HTTP/1.1\r\nContent-Length: 2\r\ntransfer-encoding: chunked\r\n\r\n",
                Faulty(unclear),
            ),
            (
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\ncontent-length: 2\r\n\r\n",
                Faulty(unclear),
            ),
            (
                "POST / HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
                Faulty(unclear),
            ),
        ] {
            assert_eq!(check(head.as_bytes(), &bounds), expected, "{head}");
        }
    }
}
