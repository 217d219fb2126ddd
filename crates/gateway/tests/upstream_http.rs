//! Well-behaved HTTP servers: connections are reused, streams keep their order, headers are ours.
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
use std::time::Duration;

use fake::{Fake, answer, many, one, request};
use gateway::BufferQuota;
use gateway::upstream::{
    HttpLink, HttpOptions, HttpServer, Reply, ServerStream, Stage, TargetRefused, UpstreamError,
    UpstreamMessage,
};
use hyper::header::{HeaderName, HeaderValue};
use permit::permit;

async fn until(check: impl Fn() -> bool) {
    for _ in 0..500 {
        if check() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the condition did not hold within five seconds");
}

#[tokio::test]
async fn sequential_requests_share_a_connection() {
    let fake = Fake::echo().await;
    let link = fake.link();
    for id in 0..50 {
        let out = request(id);
        let sent = String::from_utf8(out.body.to_vec()).unwrap();
        assert_eq!(one(link.request(&permit(), out).await.unwrap()), (200, sent));
    }
    assert_eq!(fake.connections(), 1);
}

#[tokio::test]
async fn responses_of_every_framing_share_a_connection_and_each_request_is_sent_once() {
    /// Framings of a response: in one write, in two, in chunks, after an interim response.
    const SHAPES: [&str; 5] = ["plain", "split", "chunked", "continue", "long"];
    let order =
        || (0..SHAPES.len()).flat_map(|first| [first; 5]).chain(0..SHAPES.len()).chain([0, 2]);
    let fake = Fake::new(move |mut wire| async move {
        for shape in order().map(|shape| SHAPES[shape]) {
            let body = wire.request().await.unwrap().body;
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
            let length = format!("content-length: {}\r\n\r\n", body.len());
            match shape {
                "split" => {
                    wire.say(format!("{head}{length}")).await;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    wire.say(body).await;
                }
                "chunked" => {
                    wire.say(format!("{head}transfer-encoding: chunked\r\n\r\n")).await;
                    wire.chunk(&body).await;
                    wire.end_of_stream().await;
                }
                "continue" => {
                    wire.say(format!("HTTP/1.1 100 Continue\r\n\r\n{head}{length}{body}")).await;
                }
                "long" => {
                    let padding = " ".repeat(20_000);
                    wire.json(&format!("{body}{padding}")).await;
                }
                _ => {
                    wire.json(&body).await;
                }
            }
        }
    })
    .await;
    let link = fake.link();
    let mut sent = Vec::new();
    for (id, _) in order().enumerate() {
        let out = request(id as u64);
        sent.push(String::from_utf8(out.body.to_vec()).unwrap());
        let (status, body) = one(link.request(&permit(), out).await.unwrap());
        assert_eq!((status, body.trim_end()), (200, sent.last().unwrap().as_str()));
    }
    assert_eq!(fake.connections(), 1);
    let seen: Vec<String> = fake.seen().into_iter().map(|seen| seen.body).collect();
    assert_eq!(seen, sent);
}

#[tokio::test]
async fn concurrent_requests_get_a_connection_each_and_leave_it_for_reuse() {
    let fake = Fake::new(|mut wire| async move {
        while let Some(seen) = wire.request().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
            wire.json(&seen.body).await;
        }
    })
    .await;
    let server = HttpServer::new(fake.options()).unwrap();
    for _ in 0..2 {
        let calls: Vec<_> = (0..8)
            .map(|id| {
                let link = HttpLink::new(Arc::clone(&server));
                tokio::spawn(async move { link.request(&permit(), request(id)).await.unwrap() })
            })
            .collect();
        for (id, call) in (0..8).zip(calls) {
            let sent = String::from_utf8(request(id).body.to_vec()).unwrap();
            assert_eq!(one(call.await.unwrap()).1, sent);
        }
        assert_eq!((fake.connections(), server.idle_connections()), (8, 8));
    }
}

#[tokio::test]
async fn a_connection_closed_while_idle_is_replaced_without_sending_twice() {
    let fake = Fake::new(|mut wire| async move {
        let seen = wire.request().await.unwrap();
        wire.json(&seen.body).await;
    })
    .await;
    let link = fake.link();
    for id in 0..20 {
        one(link.request(&permit(), request(id)).await.unwrap());
        // The server closes silently; that must arrive before the next request.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!((fake.connections(), fake.seen().len()), (20, 20));
}

/// The runtime notices the close only when it next polls its sockets; the kernel knows earlier.
#[tokio::test]
async fn a_connection_closed_unnoticed_by_the_runtime_is_not_written_to() {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        for _ in 0..10 {
            let (mut socket, _) = listener.accept().unwrap();
            let read = socket.read(&mut [0; 4096]).unwrap();
            assert!(read > 0);
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
            socket.write_all(format!("{head}content-length: 2\r\n\r\n{{}}").as_bytes()).unwrap();
        }
    });
    let url = format!("http://127.0.0.1:{port}/").parse().unwrap();
    let link = HttpLink::new(HttpServer::new(HttpOptions::new(url)).unwrap());
    for id in 0..10 {
        one(link.request(&permit(), request(id)).await.unwrap());
        // This blocks the runtime's only thread.
        std::thread::sleep(Duration::from_millis(20));
    }
    server.join().unwrap();
}

#[tokio::test]
async fn a_server_that_closes_after_each_response_gets_a_connection_each() {
    let fake = Fake::new(|mut wire| async move {
        let seen = wire.request().await.unwrap();
        let body = seen.body;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
        wire.say(format!("{head}content-length: {}\r\n\r\n{body}", body.len())).await;
    })
    .await;
    let link = fake.link();
    for id in 0..20 {
        one(link.request(&permit(), request(id)).await.unwrap());
    }
    assert_eq!((fake.connections(), fake.seen().len()), (20, 20));
}

#[tokio::test]
async fn a_response_that_ends_with_the_connection_is_complete() {
    let fake = Fake::new(|mut wire| async move {
        wire.request().await.unwrap();
        wire.say("HTTP/1.1 200 OK\r\ncontent-type: application/json; charset=utf-8\r\n\r\n{\"a\":")
            .await;
        wire.say("1}").await;
    })
    .await;
    assert_eq!(one(fake.link().request(&permit(), request(1)).await.unwrap()).1, "{\"a\":1}");
}

#[tokio::test]
async fn a_burst_of_progress_keeps_its_order_and_its_connection() {
    const BURST: usize = 2000;
    let fake = Fake::new(|mut wire| async move {
        while let Some(_seen) = wire.request().await {
            wire.stream().await;
            let burst: Vec<String> =
                (0..BURST).map(|n| format!("id: {n}\ndata: {{\"n\":{n}}}\n\n")).collect();
            wire.chunk(&burst.concat()).await;
            wire.event(&answer(1)).await;
            wire.end_of_stream().await;
        }
    })
    .await;
    let link = fake.link();
    // The connection is reused whether the stream is read to its end, finished, or dropped after
    // its response.
    for round in 0..3 {
        let mut events = many(link.request(&permit(), request(1)).await.unwrap());
        for n in 0..BURST {
            let event = events.next().await.unwrap().unwrap();
            assert_eq!(event.message, format!("{{\"n\":{n}}}"));
            assert_eq!(event.id, Some(n.to_string()));
        }
        assert_eq!(events.next().await.unwrap().unwrap().message, answer(1));
        match round {
            0 => assert!(events.next().await.is_none()),
            1 => events.finish(),
            _ => drop(events),
        }
        // The end may still be in transit.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    one_more_on_the_same(&fake, &link).await;
}

async fn one_more_on_the_same(fake: &Fake, link: &HttpLink) {
    drop(link.request(&permit(), request(1)).await.unwrap());
    assert_eq!(fake.connections(), 1);
}

#[tokio::test]
async fn a_stream_dropped_before_its_response_is_closed() {
    let (told, mut heard) = tokio::sync::mpsc::channel(1);
    let fake = Fake::new(move |mut wire| {
        let told = told.clone();
        async move {
            wire.request().await.unwrap();
            wire.stream().await;
            wire.event("{\"method\":\"notifications/progress\"}").await;
            told.send(wire.is_hung_up().await).await.unwrap();
        }
    })
    .await;
    let mut events = many(fake.link().request(&permit(), request(1)).await.unwrap());
    events.next().await.unwrap().unwrap();
    drop(events);
    assert!(heard.recv().await.unwrap());
}

#[tokio::test]
async fn a_request_dropped_before_its_response_head_is_closed() {
    let (told, mut heard) = tokio::sync::mpsc::channel(1);
    let fake = Fake::new(move |mut wire| {
        let told = told.clone();
        async move {
            wire.request().await.unwrap();
            told.send(true).await.unwrap();
            told.send(wire.is_hung_up().await).await.unwrap();
        }
    })
    .await;
    let link = fake.link();
    let call = tokio::spawn(async move { link.request(&permit(), request(1)).await.map(|_| ()) });
    assert!(heard.recv().await.unwrap());
    call.abort();
    assert!(heard.recv().await.unwrap());
}

#[tokio::test]
async fn only_our_headers_and_the_owners_are_sent() {
    let fake = Fake::new(|mut wire| async move {
        while let Some(seen) = wire.request().await {
            let body = seen.body;
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nMcp-Session-Id: s-1\r\n";
            wire.say(format!("{head}content-length: {}\r\n\r\n{body}", body.len())).await;
        }
    })
    .await;
    let mut options = fake.options();
    options.headers =
        vec![(HeaderName::from_static("authorization"), HeaderValue::from_static("Bearer own"))];
    let link = HttpLink::new(HttpServer::new(options).unwrap());
    let mut hello = request(0);
    hello.opens_session = true;
    one(link.request(&permit(), hello).await.unwrap());
    link.set_protocol_version("2025-11-25");
    assert_eq!(link.session().as_deref(), Some("s-1"));

    let mut out = request(1);
    out.headers = [
        ("authorization", "Bearer of the client"),
        ("cookie", "a=b"),
        ("host", "elsewhere"),
        ("transfer-encoding", "chunked"),
        ("content-length", "3"),
        ("mcp-session-id", "stolen"),
        ("x-forwarded-for", "1.2.3.4"),
        ("mcp-method", "tools/call"),
        ("mcp-param-x", "1"),
        ("traceparent", "00-1-2-01"),
    ]
    .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
    .to_vec();
    one(link.request(&permit(), out).await.unwrap());

    let [first, second] = &fake.seen()[..] else { panic!("two requests") };
    assert_eq!((second.method.as_str(), second.target.as_str()), ("POST", "/mcp?key=1"));
    assert!(!first.headers.contains_key("mcp-session-id"));
    let host = format!("127.0.0.1:{}", fake.port);
    let length = request(1).body.len().to_string();
    let expected = [
        ("accept", "application/json, text/event-stream"),
        ("authorization", "Bearer own"),
        ("content-length", length.as_str()),
        ("content-type", "application/json"),
        ("host", host.as_str()),
        ("mcp-method", "tools/call"),
        ("mcp-param-x", "1"),
        ("mcp-protocol-version", "2025-11-25"),
        ("mcp-session-id", "s-1"),
        ("traceparent", "00-1-2-01"),
    ];
    let headers: Vec<_> = second.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    assert_eq!(headers, expected);
}

#[tokio::test]
async fn only_the_handshake_response_opens_a_session_and_closing_ends_it() {
    let fake = Fake::new(|mut wire| async move {
        while let Some(seen) = wire.request().await {
            let id = if seen.body.contains("\"id\":7") { "opened" } else { "stray" };
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nmcp-session-id: {id}\r\n"
            );
            wire.say(format!("{head}content-length: 2\r\n\r\n{{}}")).await;
        }
    })
    .await;
    let link = fake.link();
    one(link.request(&permit(), request(1)).await.unwrap());
    assert_eq!(link.session(), None);
    link.close().await;
    assert_eq!(fake.seen().len(), 1, "there was no session to end");
    let mut hello = request(7);
    hello.opens_session = true;
    one(link.request(&permit(), hello).await.unwrap());
    one(link.request(&permit(), request(8)).await.unwrap());
    assert_eq!(link.session().as_deref(), Some("opened"));
    link.close().await;
    let last = fake.seen().pop().unwrap();
    assert_eq!(
        (last.method.as_str(), last.headers["mcp-session-id"].as_str()),
        ("DELETE", "opened")
    );
    assert_eq!(link.session(), None);
}

/// A server with one session at a time, which it loses before the third message of each.
async fn forgetful(refusal: &'static str) -> Fake {
    let forgets = Arc::new(std::sync::Mutex::new((0, 0)));
    Fake::new(move |mut wire| {
        let forgets = Arc::clone(&forgets);
        async move {
            while let Some(seen) = wire.request().await {
                let (session, is_known) = {
                    let mut now = forgets.lock().unwrap();
                    if seen.body.contains("\"id\":7") {
                        *now = (now.0 + 1, 0);
                    }
                    now.1 += 1;
                    let said = seen.headers.get("mcp-session-id").cloned();
                    let known = now.1 == 1 || said == Some(format!("s-{}", now.0)) && now.1 < 4;
                    (now.0, known)
                };
                if !is_known {
                    wire.say(refusal).await;
                    continue;
                }
                let body = r#"{"jsonrpc":"2.0","id":7,"result":{"protocolVersion":"2025-06-18"}}"#;
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
                let length = body.len();
                wire.say(format!(
                    "{head}mcp-session-id: s-{session}\r\ncontent-length: {length}\r\n\r\n{body}"
                ))
                .await;
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_server_that_lost_the_session_gets_a_new_handshake_and_the_request_again() {
    let json = "content-type: application/json\r\n";
    let no_session =
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"no session"}}"#;
    let length = no_session.len();
    let refusals = [
        "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned(),
        format!("HTTP/1.1 404 Not Found\r\n{json}content-length: {length}\r\n\r\n{no_session}"),
        format!("HTTP/1.1 400 Bad Request\r\n{json}content-length: {length}\r\n\r\n{no_session}"),
    ];
    for refusal in refusals {
        let fake = forgetful(refusal.leak()).await;
        let link = fake.link();
        let mut hello = request(7);
        hello.opens_session = true;
        one(link.request(&permit(), hello).await.unwrap());
        for id in [1, 2, 3] {
            assert_eq!(one(link.request(&permit(), request(id)).await.unwrap()).0, 200);
        }
        let said = |seen: &fake::Seen| {
            let is_told = seen.body.contains("notifications/initialized");
            let id = seen.body.split("\"id\":").nth(1).and_then(|rest| rest.chars().next());
            let session = seen.headers.get("mcp-session-id").cloned().unwrap_or_default();
            (if is_told { 'i' } else { id.unwrap() }, session)
        };
        let seen: Vec<(char, String)> = fake.seen().iter().map(said).collect();
        let expected = [
            ('7', ""),
            ('1', "s-1"),
            ('2', "s-1"),
            ('3', "s-1"),
            ('7', ""),
            ('i', "s-2"),
            ('3', "s-2"),
        ];
        let seen: Vec<(char, &str)> = seen.iter().map(|(id, at)| (*id, at.as_str())).collect();
        assert_eq!(seen, expected);
    }
}

#[tokio::test]
async fn an_error_response_to_the_request_is_not_a_lost_session() {
    let fake = Fake::new(|mut wire| async move {
        while let Some(seen) = wire.request().await {
            let head = "content-type: application/json\r\nmcp-session-id: s\r\n";
            let body = if seen.body.contains("\"id\":7") { answer(7) } else { answer(1) };
            let status = if seen.body.contains("\"id\":7") { "200 OK" } else { "404 Not Found" };
            let length = body.len();
            wire.say(format!("HTTP/1.1 {status}\r\n{head}content-length: {length}\r\n\r\n{body}"))
                .await;
        }
    })
    .await;
    let link = fake.link();
    let mut hello = request(7);
    hello.opens_session = true;
    one(link.request(&permit(), hello).await.unwrap());
    assert_eq!(one(link.request(&permit(), request(1)).await.unwrap()), (404, answer(1)));
    assert_eq!(fake.seen().len(), 2);
}

#[tokio::test]
async fn closing_an_unresponsive_session_times_out() {
    let fake = Fake::new(|mut wire| async move {
        let seen = wire.request().await.unwrap();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nmcp-session-id: s\r\n";
        wire.say(format!("{head}content-length: {}\r\n\r\n{}", seen.body.len(), seen.body)).await;
        wire.request().await;
        std::future::pending::<()>().await;
    })
    .await;
    let mut options = fake.options();
    options.waits.delete_session_max = Duration::from_millis(50);
    let link = HttpLink::new(HttpServer::new(options).unwrap());
    let mut hello = request(1);
    hello.opens_session = true;
    one(link.request(&permit(), hello).await.unwrap());
    tokio::time::timeout(Duration::from_secs(2), link.close()).await.unwrap();
}

#[tokio::test]
async fn a_notification_or_a_request_may_be_accepted_without_a_response() {
    let fake = Fake::new(|mut wire| async move {
        while wire.request().await.is_some() {
            wire.say("HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n").await;
        }
    })
    .await;
    let link = fake.link();
    link.send(&permit(), UpstreamMessage::notification("{}".into())).await.unwrap();
    assert!(matches!(link.request(&permit(), request(1)).await, Ok(Reply::Accepted)));
    assert_eq!(fake.connections(), 1);
}

#[tokio::test]
async fn listening_gives_events_and_can_resume_after_one() {
    let fake = Fake::new(|mut wire| async move {
        while let Some(seen) = wire.request().await {
            assert_eq!(seen.method, "GET");
            assert_eq!(seen.headers["accept"], "text/event-stream");
            wire.stream().await;
            let from = seen.headers.get("last-event-id").map_or("none", String::as_str);
            wire.chunk(&format!("id: e-1\nretry: 500\ndata:\n\n: a comment\n\nid: e-2\ndata: {{\"from\":\"{from}\"}}\n\nevent: other\ndata: x\n\n")).await;
            wire.end_of_stream().await;
        }
    })
    .await;
    let link = fake.link();
    for (last, from) in [(None, "none"), (Some("e-9"), "e-9")] {
        let ServerStream::Open(mut events) = link.listen(&permit(), last).await.unwrap() else {
            panic!("it listens")
        };
        let priming = events.next().await.unwrap().unwrap();
        assert!(priming.message.is_empty());
        assert_eq!((priming.id.as_deref(), priming.retry_ms), (Some("e-1"), Some(500)));
        let event = events.next().await.unwrap().unwrap();
        assert_eq!(event.message, format!("{{\"from\":\"{from}\"}}"));
        assert!(events.next().await.is_none());
    }
    assert_eq!(fake.connections(), 1);
}

#[tokio::test]
async fn a_server_without_a_stream_of_its_own_responds_405() {
    let fake = Fake::new(|mut wire| async move {
        while wire.request().await.is_some() {
            wire.say("HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 4\r\n\r\nnope").await;
        }
    })
    .await;
    let link = fake.link();
    assert!(matches!(link.listen(&permit(), None).await, Ok(ServerStream::NotOffered)));
    assert!(matches!(link.listen(&permit(), None).await, Ok(ServerStream::NotOffered)));
    assert_eq!(fake.connections(), 1);
}

#[tokio::test]
async fn an_error_status_is_a_response_only_with_a_json_rpc_body() {
    let error = "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32001,\"message\":\"gone\"}}";
    let cases = [
        ("404 Not Found", "application/json", error, Some(404)),
        ("400 Bad Request", "application/json;charset=utf-8", error, Some(400)),
        ("401 Unauthorized", "text/plain", error, None),
        ("403 Forbidden", "application/json", "{\"error\":\"no\"}", None),
        ("500 Oops", "text/html", "<h1>no</h1>", None),
        ("302 Found", "text/html", "", None),
    ];
    for (status, media, body, expected) in cases {
        let fake = Fake::new(move |mut wire| async move {
            while wire.request().await.is_some() {
                let length = body.len();
                wire.say(format!("HTTP/1.1 {status}\r\nlocation: /other\r\ncontent-type: {media}\r\ncontent-length: {length}\r\n\r\n{body}")).await;
            }
        })
        .await;
        let number: u16 = status[..3].parse().unwrap();
        match (fake.link().request(&permit(), request(1)).await, expected) {
            (Ok(reply), Some(expected)) => assert_eq!(one(reply), (expected, body.to_owned())),
            (Err(UpstreamError::Status { status, body: kept }), None) => {
                assert_eq!((status, kept), (number, body.into()));
            }
            _ => panic!("{status} {media}"),
        }
        assert_eq!(fake.seen().len(), 1, "no redirect is followed");
    }
}

#[tokio::test]
async fn a_connection_over_the_limit_waits_and_a_waiter_over_the_limit_is_refused() {
    let (go, gone) = tokio::sync::watch::channel(false);
    let fake = Fake::new(move |mut wire| {
        let mut gone = gone.clone();
        async move {
            while let Some(seen) = wire.request().await {
                gone.wait_for(|go| *go).await.unwrap();
                wire.json(&seen.body).await;
            }
        }
    })
    .await;
    let mut options = fake.options();
    options.bounds.connections_max = 1;
    options.bounds.waiting_max = 1;
    options.waits.queue_max = Duration::from_millis(300);
    let server = HttpServer::new(options).unwrap();
    let spawn = |id| {
        let link = HttpLink::new(Arc::clone(&server));
        tokio::spawn(async move { link.request(&permit(), request(id)).await.map(one) })
    };
    let first = spawn(1);
    until(|| fake.seen().len() == 1).await;
    let second = spawn(2);
    tokio::time::sleep(Duration::from_millis(50)).await;
    let third = spawn(3).await.unwrap().unwrap_err();
    assert!(matches!(third, UpstreamError::NeverSent { .. }), "{third}");
    let second = second.await.unwrap().unwrap_err();
    assert!(matches!(second, UpstreamError::TimedOut { stage: Stage::Queue, .. }), "{second}");
    assert!(!second.may_have_happened() && !third.may_have_happened());
    let fourth = spawn(4);
    go.send(true).unwrap();
    first.await.unwrap().unwrap();
    fourth.await.unwrap().unwrap();
    assert_eq!(fake.connections(), 1);
}

#[tokio::test]
async fn one_grant_may_use_half_of_the_connections() {
    let fake = Fake::new(|mut wire| async move {
        while let Some(seen) = wire.request().await {
            if seen.body.contains("\"id\":9") {
                wire.json(&seen.body).await;
            } else {
                std::future::pending::<()>().await;
            }
        }
    })
    .await;
    let mut options = fake.options();
    options.bounds.connections_max = 6;
    options.waits.queue_max = Duration::from_millis(300);
    let server = HttpServer::new(options).unwrap();
    let (one_grant, other) = (BufferQuota::default(), BufferQuota::default());
    // Separate links, like those of separate sessions.
    let link = |account: &BufferQuota| HttpLink::new(Arc::clone(&server)).on(account.clone());
    let spawn = |id| {
        let link = link(&one_grant);
        tokio::spawn(async move { link.request(&permit(), request(id)).await.map(one) })
    };
    let calls: Vec<_> = (1..=3).map(spawn).collect();
    until(|| fake.seen().len() == 3).await;
    let fourth = spawn(9).await.unwrap().unwrap_err();
    assert!(matches!(fourth, UpstreamError::TimedOut { stage: Stage::Queue, .. }), "{fourth}");
    one(link(&other).request(&permit(), request(9)).await.unwrap());

    for call in calls {
        call.abort();
        let _ = call.await;
    }
    one(link(&one_grant).request(&permit(), request(9)).await.unwrap());
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_the_timeout() {
    let fake = Fake::echo().await;
    let mut options = fake.options();
    options.bounds.idle_keep_max = Duration::from_millis(100);
    let server = HttpServer::new(options).unwrap();
    let link = HttpLink::new(Arc::clone(&server));
    one(link.request(&permit(), request(1)).await.unwrap());
    assert_eq!(server.idle_connections(), 1);
    until(|| server.idle_connections() == 0).await;
    one(link.request(&permit(), request(2)).await.unwrap());
    assert_eq!(fake.connections(), 2);
}

#[tokio::test]
async fn a_short_keep_alive_of_the_server_is_respected() {
    let fake = Fake::new(|mut wire| async move {
        while let Some(seen) = wire.request().await {
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nkeep-alive: timeout=1\r\n";
            wire.say(format!("{head}content-length: {}\r\n\r\n{}", seen.body.len(), seen.body))
                .await;
        }
    })
    .await;
    let server = HttpServer::new(fake.options()).unwrap();
    let link = HttpLink::new(Arc::clone(&server));
    one(link.request(&permit(), request(1)).await.unwrap());
    assert_eq!(server.idle_connections(), 0);
}

#[test]
fn unusable_addresses_are_refused_before_anything_is_sent() {
    let refuse = |url: &str| HttpServer::new(HttpOptions::new(url.parse().unwrap())).err().unwrap();
    assert!(matches!(refuse("http://192.0.2.1/mcp"), TargetRefused::PlainHttp(_)));
    assert!(matches!(refuse("http://[2001:db8::1]/mcp"), TargetRefused::PlainHttp(_)));
    assert!(matches!(refuse("ftp://localhost/mcp"), TargetRefused::Scheme(_)));
    assert!(matches!(refuse("https://localhost/mcp"), TargetRefused::NoTls));
    assert!(matches!(refuse("http://me:secret@localhost/mcp"), TargetRefused::Credentials));
    let mut options = HttpOptions::new("http://localhost/mcp".parse().unwrap());
    options.headers = vec![(HeaderName::from_static("host"), HeaderValue::from_static("x"))];
    assert!(matches!(HttpServer::new(options).err().unwrap(), TargetRefused::Header(_)));
    let mut options = HttpOptions::new("http://192.0.2.1/mcp".parse().unwrap());
    options.allow_plain_http = true;
    assert!(HttpServer::new(options).is_ok());
}

#[tokio::test]
async fn a_name_of_this_machine_may_use_plain_http() {
    let fake = Fake::echo().await;
    let mut options = fake.options();
    options.url = format!("http://localhost:{}/mcp", fake.port).parse().unwrap();
    let link = HttpLink::new(HttpServer::new(options).unwrap());
    one(link.request(&permit(), request(1)).await.unwrap());
}
