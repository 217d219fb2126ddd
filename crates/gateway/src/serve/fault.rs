//! Heads of requests that nobody should read any further: broken ones, and those whose length can be read
//! in two ways. hyper would answer most of them without a word and carry out some.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::{Response, Uri};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::body::Body;
use super::linger::Linger;
use super::plain;
use crate::bounds::Bounds;

/// A client that does not take a short answer in this time does without.
const WRITE_WAIT_MAX: Duration = Duration::from_secs(2);

/// The status and the words for it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault(pub(super) u16, pub(super) &'static str);

impl Fault {
    pub(super) const BROKEN: Fault = Fault(400, "the bytes are not an HTTP request");
    pub(super) const TOO_LARGE: Fault =
        Fault(431, "the headers are larger or more than the bounds allow");
    const UNCLEAR_LENGTH: Fault = Fault(
        400,
        "a body has one `Content-Length` in digits, or one `Transfer-Encoding: chunked` and nothing else",
    );
}

/// What is wrong with a head, as far as that can be seen in what was read; one that is not all there yet
/// may be right.
pub(super) fn of(read: &[u8], bounds: &Bounds) -> Option<Fault> {
    let mut slots = vec![httparse::EMPTY_HEADER; bounds.headers_max];
    let mut head = httparse::Request::new(&mut slots);
    match head.parse(read) {
        Err(httparse::Error::TooManyHeaders) => return Some(Fault::TOO_LARGE),
        Err(_) => return Some(Fault::BROKEN),
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(_)) => {}
    }
    if head.path.is_none_or(|path| path.parse::<Uri>().is_err()) {
        return Some(Fault::BROKEN);
    }
    let named = |name: &'static str| {
        let fits = move |header: &&httparse::Header<'_>| header.name.eq_ignore_ascii_case(name);
        head.headers.iter().filter(fits).map(|header| header.value).collect::<Vec<_>>()
    };
    let is_clear = match (&*named("content-length"), &*named("transfer-encoding")) {
        ([], []) => true,
        ([length], []) => plain::digits(length).is_some(),
        ([], [coding]) => coding.eq_ignore_ascii_case(b"chunked") && head.version == Some(1),
        _ => false,
    };
    (!is_clear).then_some(Fault::UNCLEAR_LENGTH)
}

/// Writes an answer that is there as a whole and ends the connection with it. What the client still sends
/// is read for a moment, so that it hears why.
pub(super) async fn answer<S>(mut stream: S, response: Response<Body>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    if tell(&mut stream, response).await {
        let mut linger = Linger::new(Arc::new(AtomicBool::new(true)));
        poll_fn(|context| linger.poll(&mut stream, context)).await;
    }
}

/// The same without the moment, for a client that there is no place for.
pub(super) async fn answer_at_once(mut stream: TcpStream, response: Response<Body>) {
    tell(&mut stream, response).await;
}

/// True when all was written.
async fn tell<S: AsyncWrite + Unpin>(stream: &mut S, response: Response<Body>) -> bool {
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
    plain::begin_head(parts.status, &parts.headers, &mut out);
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
        let bounds = Bounds::from_limits(&Limits::default());
        let many = format!("POST / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(bounds.headers_max + 1));
        for (head, expected) in [
            ("POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}", None),
            ("POST /mcp HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", None),
            ("POST /mcp HTTP/1.1\r\nContent-Le", None),
            ("GET /mcp HTTP/1.0\r\n\r\n", None),
            ("POST  /mcp HTTP/1.1\r\n\r\n", Some(Fault::BROKEN)),
            ("POST /mcp HTTP/1.1\r\nHost : a\r\n\r\n", Some(Fault::BROKEN)),
            ("POST /mcp HTTP/1.1\r\nA: b\r\n c\r\n\r\n", Some(Fault::BROKEN)),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Some(Fault::BROKEN)),
            ("\x16\x03\x01\x02\x00\x01\x00", Some(Fault::BROKEN)),
            ("POST mcp/rec HTTP/1.1\r\n\r\n", Some(Fault::BROKEN)),
            ("POST file:///x HTTP/1.1\r\n\r\n", Some(Fault::BROKEN)),
            ("POST / HTTP/1.1\r\nContent-Length: +2\r\n\r\n{}", Some(Fault::UNCLEAR_LENGTH)),
            ("POST / HTTP/1.1\r\nContent-Length:\r\n\r\n", Some(Fault::UNCLEAR_LENGTH)),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: cow\r\n\r\n", Some(Fault::UNCLEAR_LENGTH)),
            ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", Some(Fault::UNCLEAR_LENGTH)),
            (&many, Some(Fault::TOO_LARGE)),
            (
                "POST / HTTP/1.1\r\nContent-Length: 2\r\ntransfer-encoding: chunked\r\n\r\n",
                Some(Fault::UNCLEAR_LENGTH),
            ),
            (
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\ncontent-length: 2\r\n\r\n",
                Some(Fault::UNCLEAR_LENGTH),
            ),
            (
                "POST / HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
                Some(Fault::UNCLEAR_LENGTH),
            ),
        ] {
            assert_eq!(of(head.as_bytes(), &bounds), expected, "{head}");
        }
    }
}
