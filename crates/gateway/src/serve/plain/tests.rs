//! What is plain is read here, and everything else is handed over whole.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
use http_body_util::BodyExt as _;
use store::clock::{Clock, Now};
use store::settings::Limits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

use super::*;

const PLAIN: &str = "POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}";

fn bounds() -> Bounds {
    Bounds::from_limits(&Limits::default())
}

fn date() -> Date {
    Date::new(Clock::set(Now { wall_us: 0, steady_us: 0 }))
}

async fn echo(request: Request<Arriving>) -> Response<Body> {
    Response::new(Body::whole(request.into_body().collect().await.unwrap().to_bytes()))
}

/// How a conversation ends in which these bytes are all that comes.
async fn ended(sent: &str, bounds: &Bounds) -> (Ended<DuplexStream>, String) {
    let (mut client, server) = duplex(1 << 16);
    client.write_all(sent.as_bytes()).await.unwrap();
    client.shutdown().await.unwrap();
    let stopping = AtomicBool::new(false);
    let ended = Plain::new(server, bounds, &stopping, date()).serve(echo).await;
    let mut heard = String::new();
    if matches!(ended, Ended::Closed) {
        client.read_to_string(&mut heard).await.unwrap();
    }
    (ended, heard)
}

#[tokio::test]
async fn a_plain_request_is_answered() {
    for request in [
        PLAIN.to_owned(),
        PLAIN.replace("Host", "connection: Keep-Alive\r\nHost"),
        PLAIN.replace("/mcp", "/mcp/a?b=c"),
    ] {
        let (ended, heard) = ended(&request, &bounds()).await;
        assert!(matches!(ended, Ended::Closed), "{request}");
        let expected = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\
             date: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n{}";
        assert_eq!(heard, expected, "{request}");
    }
}

#[tokio::test]
async fn what_is_not_plain_is_handed_over_as_it_came() {
    let with = |header: &str| PLAIN.replace("Host", &format!("{header}\r\nHost"));
    let cases = [
        PLAIN.replace("POST", "GET"),
        PLAIN.replace("POST", "post"),
        PLAIN.replace("1.1", "1.0"),
        PLAIN.replace("/mcp", "http://a/mcp"),
        PLAIN.replace("/mcp", "*"),
        PLAIN.replace("/mcp", "/m cp"),
        PLAIN.replace("/mcp", "/mcp#a"),
        PLAIN.replace("a\r\n", "a\n"),
        PLAIN.replace("1.1\r\n", "1.1\n"),
        PLAIN.replace("\r\n\r\n", "\r\n\n"),
        PLAIN.replace("Host: a", "Host : a"),
        PLAIN.replace("Host: a", "Host: a\r\n b"),
        PLAIN.replace(": 2", ": +2"),
        PLAIN.replace(": 2", ": 2, 2"),
        PLAIN.replace(": 2", ": 0x2"),
        PLAIN.replace(": 2", ": 1"),
        PLAIN.replace(": 2", ": 3"),
        PLAIN.replace(": 2", ": 99999999999999999999999"),
        PLAIN.replace("Content-Length: 2\r\n", ""),
        PLAIN.replace(": 2", ": 0").replace("{}", ""),
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
        format!("{PLAIN}{PLAIN}"),
        format!("{PLAIN}\r\n"),
        PLAIN.get(..20).unwrap().to_owned(),
        PLAIN.get(..PLAIN.len() - 1).unwrap().to_owned(),
        "\x16\x03\x01".to_owned(),
        with(&"a: b\r\n".repeat(HEADERS_MAX)),
    ];
    for request in cases {
        let Ended::NotPlain(handed) = ended(&request, &bounds()).await.0 else {
            panic!("taken for plain: {request}");
        };
        assert_eq!(handed.read, request.as_bytes());
        assert!(handed.answer.is_none(), "{request}");
    }
}

#[tokio::test]
async fn bounds_are_for_hyper_to_enforce() {
    let limits = Bounds { headers_max: 1, ..bounds() };
    assert!(matches!(ended(PLAIN, &limits).await.0, Ended::NotPlain(_)));
    let limits = Bounds { header_bytes_max: 40, ..bounds() };
    assert!(matches!(ended(PLAIN, &limits).await.0, Ended::NotPlain(_)));
    let body = "x".repeat(READ_BYTES);
    let large = PLAIN.replace(": 2", &format!(": {READ_BYTES}")).replace("{}", &body);
    let Ended::NotPlain(handed) = ended(&large, &bounds()).await.0 else { panic!() };
    assert_eq!(handed.read, large.as_bytes().get(..READ_BYTES).unwrap());
}

#[tokio::test]
async fn an_answer_in_pieces_goes_along_with_what_it_answers_and_what_came_early() {
    let (mut client, server) = duplex(1 << 16);
    client.write_all(PLAIN.as_bytes()).await.unwrap();
    let (stopping, bounds) = (AtomicBool::new(false), bounds());
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    let gone = std::cell::Cell::new(Some(gone));
    let plain = Plain::new(server, &bounds, &stopping, date()).serve(|_| {
        let gone = gone.take().unwrap();
        async move {
            gone.await.unwrap();
            Response::new(Body::pieces().1)
        }
    });
    let early = async {
        tokio::task::yield_now().await;
        client.write_all(b"POST ").await.unwrap();
        tokio::task::yield_now().await;
        go.send(()).unwrap();
    };
    let (Ended::NotPlain(handed), ()) = tokio::join!(plain, early) else { panic!() };
    assert_eq!(handed.read, format!("{PLAIN}POST ").as_bytes());
    assert!(handed.answer.is_some());
}

#[tokio::test]
async fn a_client_that_hangs_up_lets_its_request_go() {
    let (mut client, server) = duplex(1 << 16);
    client.write_all(PLAIN.as_bytes()).await.unwrap();
    let (stopping, bounds) = (AtomicBool::new(false), bounds());
    let plain = Plain::new(server, &bounds, &stopping, date())
        .serve(|_| std::future::pending::<Response<Body>>());
    let hang_up = async {
        tokio::task::yield_now().await;
        drop(client);
    };
    assert!(matches!(tokio::join!(plain, hang_up).0, Ended::Closed));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_says_nothing_is_dropped_in_time() {
    let (mut client, server) = duplex(1 << 16);
    client.write_all(PLAIN.as_bytes()).await.unwrap();
    let (stopping, bounds) = (AtomicBool::new(false), bounds());
    let began = Instant::now();
    let ended = Plain::new(server, &bounds, &stopping, date())
        .serve(|request| async {
            tokio::time::sleep(bounds.header_wait_max * 3).await;
            echo(request).await
        })
        .await;
    assert!(matches!(ended, Ended::Closed));
    // The work on a request is none of its client's time.
    let waited = began.elapsed().checked_sub(bounds.header_wait_max * 3).unwrap();
    assert!((bounds.header_wait_max..bounds.header_wait_max * 2).contains(&waited));
}

#[tokio::test]
async fn a_stop_lets_the_request_under_way_end_and_takes_no_other() {
    let (mut client, server) = duplex(1 << 16);
    client.write_all(PLAIN.as_bytes()).await.unwrap();
    let (stopping, bounds) = (AtomicBool::new(false), bounds());
    let ended = Plain::new(server, &bounds, &stopping, date())
        .serve(|request| {
            stopping.store(true, Ordering::Relaxed);
            echo(request)
        })
        .await;
    assert!(matches!(ended, Ended::Closed));
    let mut heard = String::new();
    client.read_to_string(&mut heard).await.unwrap();
    assert!(heard.contains("\r\nconnection: close\r\n") && heard.ends_with("{}"), "{heard}");
}
