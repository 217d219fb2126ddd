//! Servers that hang, drip, lie and flood: each gets the right error, and nothing of it reaches the
//! next request.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    dead_code,
    reason = "a failed unwrap is a failed test; helpers are shared by several tests"
)]

#[path = "upstream_support/fake.rs"]
mod fake;
#[path = "upstream_support/permit.rs"]
mod permit;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fake::{Fake, answer, many, one, request};
use gateway::upstream::{Excess, HttpLink, HttpOptions, HttpServer, Stage, UpstreamError};
use permit::permit;

const MIB: usize = 1024 * 1024;

fn link_with(fake: &Fake, change: impl FnOnce(&mut HttpOptions)) -> HttpLink {
    let mut options = fake.options();
    change(&mut options);
    HttpLink::new(HttpServer::new(options).unwrap())
}

/// The result of a request to a server that responds with these bytes.
async fn fate(bytes: &'static [u8]) -> Result<(u16, String), UpstreamError> {
    let fake = Fake::new(move |mut wire| async move {
        wire.request().await.unwrap();
        wire.say(bytes).await;
    })
    .await;
    fake.link().request(&permit(), request(1)).await.map(one)
}

#[tokio::test]
async fn a_closed_port_means_never_sent() {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let url = format!("http://127.0.0.1:{port}/mcp").parse().unwrap();
    let link = HttpLink::new(HttpServer::new(HttpOptions::new(url)).unwrap());
    let error = link.request(&permit(), request(1)).await.err().unwrap();
    assert!(
        matches!(error, UpstreamError::NeverSent { .. }) && !error.may_have_happened(),
        "{error}"
    );
}

#[tokio::test]
async fn a_response_cut_off_anywhere_is_lost() {
    const WHOLE: &[u8] =
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 4\r\n\r\n\"ab\"";
    for cut in 0..WHOLE.len() {
        let error = fate(&WHOLE[..cut]).await.unwrap_err();
        assert!(matches!(error, UpstreamError::Lost { .. }), "cut at {cut}: {error}");
        assert!(error.may_have_happened());
    }
    assert_eq!(fate(WHOLE).await.unwrap().1, "\"ab\"");
}

#[tokio::test]
async fn a_request_that_was_read_is_never_sent_again() {
    let fake = Fake::new(|mut wire| async move {
        let first = wire.request().await.unwrap();
        wire.json(&first.body).await;
        // The second request on this connection is read and not answered.
        wire.request().await;
    })
    .await;
    let link = fake.link();
    one(link.request(&permit(), request(1)).await.unwrap());
    let error = link.request(&permit(), request(2)).await.err().unwrap();
    assert!(matches!(error, UpstreamError::Lost { .. }), "{error}");
    assert_eq!(fake.seen().len(), 2);
}

#[tokio::test]
async fn broken_http_is_garbled() {
    const CASES: [&[u8]; 9] = [
        b"this is not http\r\n\r\n",
        b"HTTP/9.9 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n{}\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}XX0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}}",
        b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}",
    ];
    for bytes in CASES {
        let error = fate(bytes).await.unwrap_err();
        let said = String::from_utf8_lossy(bytes);
        assert!(matches!(error, UpstreamError::Malformed { .. }), "{said}: {error}");
    }
}

#[tokio::test]
async fn a_head_without_end_is_garbled() {
    let fake = Fake::new(|mut wire| async move {
        wire.request().await.unwrap();
        wire.say("HTTP/1.1 200 OK\r\n").await;
        while wire.say(format!("x-more: {}\r\n", "x".repeat(1000))).await {}
    })
    .await;
    let error = fake.link().request(&permit(), request(1)).await.err().unwrap();
    assert!(matches!(error, UpstreamError::Malformed { .. }), "{error}");
}

#[tokio::test]
async fn bytes_after_the_answer_never_become_the_next_answer() {
    for at_once in [true, false] {
        let fake = Fake::new(move |mut wire| async move {
            let seen = wire.request().await.unwrap();
            if !seen.body.contains("\"id\":1,") {
                wire.json(&answer(2)).await;
                return;
            }
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
            let smuggled = answer(2).replace("{}", "{\"smuggled\":true}");
            let said = [answer(1), smuggled]
                .map(|body| format!("{head}content-length: {}\r\n\r\n{body}", body.len()));
            if at_once {
                wire.say(said.concat()).await;
            } else {
                wire.say(&said[0]).await;
                tokio::time::sleep(Duration::from_millis(10)).await;
                wire.say(&said[1]).await;
            }
            wire.is_hung_up().await;
        })
        .await;
        let link = fake.link();
        assert_eq!(one(link.request(&permit(), request(1)).await.unwrap()).1, answer(1));
        if !at_once {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(one(link.request(&permit(), request(2)).await.unwrap()).1, answer(2));
        assert_eq!(fake.connections(), 2);
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_times_out() {
    let fake = Fake::new(|mut wire| async move {
        wire.request().await.unwrap();
        wire.is_hung_up().await;
    })
    .await;
    let link =
        link_with(&fake, |options| options.waits.first_byte_max = Duration::from_millis(100));
    let error = link.request(&permit(), request(1)).await.err().unwrap();
    assert!(matches!(error, UpstreamError::TimedOut { stage: Stage::FirstByte, .. }), "{error}");
    assert!(error.may_have_happened());
}

#[tokio::test]
async fn a_server_that_stops_in_the_middle_times_out() {
    for head in
        ["content-type: application/json\r\ncontent-length: 100", "content-type: text/event-stream"]
    {
        let fake = Fake::new(move |mut wire| async move {
            wire.request().await.unwrap();
            wire.say(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\ndata: {{")).await;
            wire.is_hung_up().await;
        })
        .await;
        let link = link_with(&fake, |options| options.waits.idle_max = Duration::from_millis(100));
        let error = match link.request(&permit(), request(1)).await {
            Ok(reply) => many(reply).next().await.unwrap().unwrap_err(),
            Err(error) => error,
        };
        assert!(matches!(error, UpstreamError::TimedOut { stage: Stage::Idle, .. }), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_drips_times_out_in_the_end() {
    for media in ["application/json", "text/event-stream"] {
        let fake = Fake::new(move |mut wire| async move {
            wire.request().await.unwrap();
            wire.say(format!("HTTP/1.1 200 OK\r\ncontent-type: {media}\r\n\r\n")).await;
            while wire.say(":").await {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        let link = link_with(&fake, |options| {
            options.waits.idle_max = Duration::from_secs(5);
            options.waits.total_max = Duration::from_millis(200);
        });
        let began = Instant::now();
        let error = match link.request(&permit(), request(1)).await {
            Ok(reply) => many(reply).next().await.unwrap().unwrap_err(),
            Err(error) => error,
        };
        assert!(matches!(error, UpstreamError::TimedOut { stage: Stage::Total, .. }), "{error}");
        assert!(began.elapsed() < Duration::from_secs(3));
    }
}

#[tokio::test]
async fn a_stream_meant_to_stay_open_may_be_quiet() {
    let fake = Fake::new(|mut wire| async move {
        wire.request().await.unwrap();
        wire.stream().await;
        wire.event("{}").await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        wire.event("{}").await;
        wire.end_of_stream().await;
    })
    .await;
    let link = link_with(&fake, |options| {
        options.waits.idle_max = Duration::from_millis(50);
        options.waits.total_max = Duration::from_millis(100);
    });
    let mut out = request(1);
    out.stays_open = true;
    let mut events = many(link.request(&permit(), out).await.unwrap());
    for _ in 0..2 {
        events.next().await.unwrap().unwrap();
    }
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn an_announced_flood_is_refused_unread() {
    let fake = Fake::new(|mut wire| async move {
        wire.request().await.unwrap();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
        wire.say(format!("{head}content-length: {}\r\n\r\n", 200 * MIB)).await;
        wire.is_hung_up().await;
    })
    .await;
    let error = fake.link().request(&permit(), request(1)).await.err().unwrap();
    assert!(
        matches!(error, UpstreamError::TooLarge { what: Excess::Answer, bytes_max } if bytes_max == 32 * MIB),
        "{error}"
    );
}

/// Sends chunks forever and counts the bytes that were accepted.
async fn flood(head: &'static str, chunk: &'static str) -> (Fake, Arc<AtomicUsize>) {
    let taken = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&taken);
    let fake = Fake::new(move |mut wire| {
        let count = Arc::clone(&count);
        async move {
            wire.request().await.unwrap();
            wire.say(format!("HTTP/1.1 {head}\r\ntransfer-encoding: chunked\r\n\r\n")).await;
            let piece = chunk.repeat(64 * 1024 / chunk.len());
            while wire.chunk(&piece).await {
                count.fetch_add(piece.len(), Ordering::Relaxed);
            }
        }
    })
    .await;
    (fake, taken)
}

#[tokio::test]
async fn an_unannounced_flood_is_cut_at_the_bound() {
    let (fake, taken) = flood("200 OK\r\ncontent-type: application/json", "x").await;
    let link = link_with(&fake, |options| options.bounds.answer_bytes_max = 4 * MIB);
    let error = link.request(&permit(), request(1)).await.err().unwrap();
    assert!(matches!(error, UpstreamError::TooLarge { what: Excess::Answer, .. }), "{error}");
    assert!(taken.load(Ordering::Relaxed) < 16 * MIB);
}

#[tokio::test]
async fn a_line_without_end_is_cut_at_the_bound() {
    let (fake, taken) = flood("200 OK\r\ncontent-type: text/event-stream", "data:xxx").await;
    let link = link_with(&fake, |options| options.bounds.event_bytes_max = MIB);
    let mut events = many(link.request(&permit(), request(1)).await.unwrap());
    let error = events.next().await.unwrap().unwrap_err();
    assert!(matches!(error, UpstreamError::TooLarge { what: Excess::Event, .. }), "{error}");
    assert!(events.next().await.is_none());
    assert!(taken.load(Ordering::Relaxed) < 16 * MIB);
}

#[tokio::test]
async fn a_refusal_without_end_is_cut() {
    let (fake, taken) = flood("500 Oops\r\ncontent-type: text/html", "<h1>").await;
    let error = fake.link().request(&permit(), request(1)).await.err().unwrap();
    let UpstreamError::Status { status: 500, body } = error else { panic!("{error}") };
    assert_eq!(body.len(), 64 * 1024);
    assert!(taken.load(Ordering::Relaxed) < 16 * MIB);
}

#[tokio::test]
async fn a_stream_that_stays_open_after_its_response_is_closed() {
    let (told, mut heard) = tokio::sync::mpsc::channel(1);
    let fake = Fake::new(move |mut wire| {
        let told = told.clone();
        async move {
            wire.request().await.unwrap();
            wire.stream().await;
            wire.event(&answer(1)).await;
            told.send(wire.is_hung_up().await).await.unwrap();
        }
    })
    .await;
    let link =
        link_with(&fake, |options| options.bounds.ending_wait_max = Duration::from_millis(50));
    let mut events = many(link.request(&permit(), request(1)).await.unwrap());
    events.next().await.unwrap().unwrap();
    events.finish();
    assert!(heard.recv().await.unwrap());
}

/// Hostile servers of all kinds, and an honest one that must stay fast. Floods are sent from a
/// separate runtime, so that only our handling is measured.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_server_does_not_slow_another() {
    let apart =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (flooding, _) =
        apart.spawn(flood("200 OK\r\ncontent-type: application/json", "x")).await.unwrap();
    let silent = Fake::new(|mut wire| async move {
        wire.is_hung_up().await;
    })
    .await;
    let honest = Fake::echo().await;
    let mut hostile = Vec::new();
    for fake in [&flooding, &silent] {
        let server = HttpServer::new(fake.options()).unwrap();
        for id in 0..4 {
            let link = HttpLink::new(Arc::clone(&server));
            hostile.push(tokio::spawn(async move {
                while link.request(&permit(), request(id)).await.is_err() {}
            }));
        }
    }
    let link = honest.link();
    let mut waits: Vec<Duration> = Vec::new();
    for id in 0..100 {
        let began = Instant::now();
        one(link.request(&permit(), request(id)).await.unwrap());
        waits.push(began.elapsed());
    }
    waits.sort();
    hostile.iter().for_each(tokio::task::JoinHandle::abort);
    apart.shutdown_background();
    // The machine is busy with the flood, so this only shows that no call waits for another.
    assert!(waits[50] < Duration::from_millis(250), "half of the calls took {:?}", waits[50]);
}
