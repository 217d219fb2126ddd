//! Simple requests are served on the fast path, and all others are handed over complete.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
use http_body_util::BodyExt as _;
use store::clock::{Clock, Now};
use store::settings::Limits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

use super::*;

const SIMPLE: &str = "POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}";

fn bounds() -> Bounds {
    Bounds::from_limits(&Limits::default())
}

fn date() -> Date {
    Date::new(Clock::set(Now { wall_us: 0, steady_us: 0 }))
}

async fn echo(request: Request<IncomingBody>) -> Response<Body> {
    Response::new(Body::complete(request.into_body().collect().await.unwrap().to_bytes()))
}

/// How a connection ends on which exactly these bytes arrive.
async fn ended(sent: &str, bounds: &Bounds) -> (FastPathEnd<DuplexStream>, String) {
    let (mut client, server) = duplex(1 << 16);
    client.write_all(sent.as_bytes()).await.unwrap();
    client.shutdown().await.unwrap();
    let stopping = AtomicBool::new(false);
    let ended = FastPath::new(server, bounds, &stopping, date()).serve(echo).await;
    let mut received = String::new();
    if matches!(ended, FastPathEnd::Closed) {
        client.read_to_string(&mut received).await.unwrap();
    }
    (ended, received)
}

#[tokio::test]
async fn a_simple_request_is_answered() {
    for request in [
        SIMPLE.to_owned(),
        SIMPLE.replace("Host", "connection: Keep-Alive\r\nHost"),
        SIMPLE.replace("/mcp", "/mcp/a?b=c"),
    ] {
        let (ended, received) = ended(&request, &bounds()).await;
        assert!(matches!(ended, FastPathEnd::Closed), "{request}");
        let expected = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\
             date: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n{}";
        assert_eq!(received, expected, "{request}");
    }
}

#[tokio::test]
async fn other_requests_are_handed_over_unchanged() {
    let with = |header: &str| SIMPLE.replace("Host", &format!("{header}\r\nHost"));
    let cases = [
        SIMPLE.replace("POST", "GET"),
        SIMPLE.replace("POST", "post"),
        SIMPLE.replace("1.1", "1.0"),
        SIMPLE.replace("/mcp", "http://a/mcp"),
        SIMPLE.replace("/mcp", "*"),
        SIMPLE.replace("/mcp", "/m cp"),
        SIMPLE.replace("/mcp", "/mcp#a"),
        SIMPLE.replace("a\r\n", "a\n"),
        SIMPLE.replace("1.1\r\n", "1.1\n"),
        SIMPLE.replace("\r\n\r\n", "\r\n\n"),
        SIMPLE.replace("Host: a", "Host : a"),
        SIMPLE.replace("Host: a", "Host: a\r\n b"),
        SIMPLE.replace(": 2", ": +2"),
        SIMPLE.replace(": 2", ": 2, 2"),
        SIMPLE.replace(": 2", ": 0x2"),
        SIMPLE.replace(": 2", ": 1"),
        SIMPLE.replace(": 2", ": 3"),
        SIMPLE.replace(": 2", ": 99999999999999999999999"),
        SIMPLE.replace("Content-Length: 2\r\n", ""),
        SIMPLE.replace(": 2", ": 0").replace("{}", ""),
        with("Content-Length: 2"),
        with("content-length: 3"),
        with("Transfer-Encoding: chunked"),
        with("Transfer-Encoding: identity"),
        with("Connection: close"),
        with("Connection: keep-alive, upgrade"),
        with("Upgrade: h2c"),
        with("Expect: 100-continue"),
        with("TE: trailers"),
        with("Trailer: a"),
        with("a\0b: c"),
        format!("{SIMPLE}{SIMPLE}"),
        format!("{SIMPLE}\r\n"),
        SIMPLE.get(..20).unwrap().to_owned(),
        SIMPLE.get(..SIMPLE.len() - 1).unwrap().to_owned(),
        "\x16\x03\x01".to_owned(),
        with(&"a: b\r\n".repeat(HEADERS_MAX)),
    ];
    for request in cases {
        let FastPathEnd::NeedsHyper(handed) = ended(&request, &bounds()).await.0 else {
            panic!("taken as simple: {request}");
        };
        assert_eq!(handed.read, request.as_bytes());
        assert!(handed.answer.is_none(), "{request}");
    }
}

#[tokio::test]
async fn bounds_are_for_hyper_to_enforce() {
    let limits = Bounds { headers_max: 1, ..bounds() };
    assert!(matches!(ended(SIMPLE, &limits).await.0, FastPathEnd::NeedsHyper(_)));
    let limits = Bounds { header_bytes_max: 40, ..bounds() };
    assert!(matches!(ended(SIMPLE, &limits).await.0, FastPathEnd::NeedsHyper(_)));
    let body = "x".repeat(READ_BYTES);
    let large = SIMPLE.replace(": 2", &format!(": {READ_BYTES}")).replace("{}", &body);
    let FastPathEnd::NeedsHyper(handed) = ended(&large, &bounds()).await.0 else { panic!() };
    assert_eq!(handed.read, large.as_bytes().get(..READ_BYTES).unwrap());
}

#[tokio::test]
async fn a_streamed_response_is_handed_over_with_its_request_and_early_bytes() {
    let (mut client, server) = duplex(1 << 16);
    client.write_all(SIMPLE.as_bytes()).await.unwrap();
    let (stopping, bounds) = (AtomicBool::new(false), bounds());
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    let gone = std::cell::Cell::new(Some(gone));
    let plain = FastPath::new(server, &bounds, &stopping, date()).serve(|_| {
        let gone = gone.take().unwrap();
        async move {
            gone.await.unwrap();
            Response::new(Body::streamed().1)
        }
    });
    let early = async {
        tokio::task::yield_now().await;
        client.write_all(b"POST ").await.unwrap();
        tokio::task::yield_now().await;
        go.send(()).unwrap();
    };
    let (FastPathEnd::NeedsHyper(handed), ()) = tokio::join!(plain, early) else { panic!() };
    assert_eq!(handed.read, format!("{SIMPLE}POST ").as_bytes());
    assert!(handed.answer.is_some());
}

#[tokio::test]
async fn a_disconnect_cancels_the_request() {
    let (mut client, server) = duplex(1 << 16);
    client.write_all(SIMPLE.as_bytes()).await.unwrap();
    let (stopping, bounds) = (AtomicBool::new(false), bounds());
    let plain = FastPath::new(server, &bounds, &stopping, date())
        .serve(|_| std::future::pending::<Response<Body>>());
    let hang_up = async {
        tokio::task::yield_now().await;
        drop(client);
    };
    assert!(matches!(tokio::join!(plain, hang_up).0, FastPathEnd::Closed));
}

#[tokio::test(start_paused = true)]
async fn an_idle_client_is_dropped_after_the_timeout() {
    let (mut client, server) = duplex(1 << 16);
    client.write_all(SIMPLE.as_bytes()).await.unwrap();
    let (stopping, bounds) = (AtomicBool::new(false), bounds());
    let began = Instant::now();
    let ended = FastPath::new(server, &bounds, &stopping, date())
        .serve(|request| async {
            tokio::time::sleep(bounds.header_wait_max * 3).await;
            echo(request).await
        })
        .await;
    assert!(matches!(ended, FastPathEnd::Closed));
    // Handling time does not count as idle time.
    let waited = began.elapsed().checked_sub(bounds.header_wait_max * 3).unwrap();
    assert!((bounds.header_wait_max..bounds.header_wait_max * 2).contains(&waited));
}

#[tokio::test]
async fn shutdown_finishes_the_request_in_flight_and_accepts_no_other() {
    let (mut client, server) = duplex(1 << 16);
    client.write_all(SIMPLE.as_bytes()).await.unwrap();
    let (stopping, bounds) = (AtomicBool::new(false), bounds());
    let ended = FastPath::new(server, &bounds, &stopping, date())
        .serve(|request| {
            stopping.store(true, Ordering::Relaxed);
            echo(request)
        })
        .await;
    assert!(matches!(ended, FastPathEnd::Closed));
    let mut received = String::new();
    client.read_to_string(&mut received).await.unwrap();
    assert!(
        received.contains("\r\nconnection: close\r\n") && received.ends_with("{}"),
        "{received}"
    );
}
