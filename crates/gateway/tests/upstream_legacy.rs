//! HTTP+SSE servers of 2024-11-05: detected by their refusal, then used like any other.
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

use fake::{Fake, Wire, answer, many, one, request};
use gateway::upstream::{HttpLink, HttpServer, ServerStream, UpstreamError, UpstreamMessage};
use permit::permit;
use tokio::sync::broadcast;

/// The events that the server sends in response to a message.
fn events_for(body: &str) -> Vec<String> {
    let message: serde_json::Value = serde_json::from_str(body).unwrap();
    let Some(id) = message["id"].as_u64() else { return Vec::new() };
    let progress = |token: u64| {
        format!(
            "{{\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":{token}}}}}"
        )
    };
    match id {
        5 => vec![progress(55), progress(55), answer(5)],
        6 => vec!["{\"method\":\"notifications/message\"}".to_owned()],
        7 => Vec::new(),
        10 => vec![
            r#"{"jsonrpc":"2.0","id":10,"result":{"protocolVersion":"2024-11-05"}}"#.to_owned(),
        ],
        _ => vec![answer(id)],
    }
}

async fn serve(mut wire: Wire, endpoint: &'static str, said: broadcast::Sender<String>) {
    while let Some(seen) = wire.request().await {
        match (seen.method.as_str(), seen.target.as_str()) {
            ("GET", "/mcp?key=1") => {
                let mut hear = said.subscribe();
                wire.stream().await;
                wire.chunk(&format!("event: endpoint\ndata: {endpoint}\n\n")).await;
                while let Ok(event) = hear.recv().await {
                    if !wire.chunk(&format!("event: message\ndata: {event}\n\n")).await {
                        return;
                    }
                    if event == "bye" {
                        return;
                    }
                }
            }
            ("POST", "/messages?session=1") => {
                for event in events_for(&seen.body) {
                    said.send(event).ok();
                }
                wire.say("HTTP/1.1 202 Accepted\r\ncontent-length: 8\r\n\r\nAccepted").await;
            }
            _ => {
                wire.say("HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n").await;
            }
        }
    }
}

async fn server(endpoint: &'static str) -> (Fake, broadcast::Sender<String>) {
    let (said, _) = broadcast::channel(100);
    let voice = said.clone();
    let fake = Fake::new(move |wire| serve(wire, endpoint, voice.clone())).await;
    (fake, said)
}

fn hello(id: u64) -> UpstreamMessage {
    let mut out = request(id);
    out.opens_session = true;
    out
}

#[tokio::test]
async fn a_refused_handshake_is_repeated_over_http_sse() {
    let (fake, _) = server("/messages?session=1").await;
    let server = HttpServer::new(fake.options()).unwrap();
    let link = HttpLink::new(Arc::clone(&server));
    assert_eq!(one(link.request(&permit(), hello(1)).await.unwrap()).1, answer(1));
    assert!(link.shares_stream(), "so what it says may be about any request");
    assert_eq!(one(link.request(&permit(), request(2)).await.unwrap()).1, answer(2));
    link.send(&permit(), UpstreamMessage::notification("{}".into())).await.unwrap();

    let mut out = request(5);
    out.progress_token = Some("55".into());
    let mut events = many(link.request(&permit(), out).await.unwrap());
    let mut taken = Vec::new();
    while let Some(event) = events.next().await {
        taken.push(event.unwrap().message);
    }
    assert_eq!((taken.len(), &taken[2]), (3, &answer(5).into()));

    // A second link does not try streamable HTTP first.
    let tried = fake
        .seen()
        .iter()
        .filter(|seen| seen.target == "/mcp?key=1" && seen.method == "POST")
        .count();
    let second = HttpLink::new(server);
    assert_eq!(one(second.request(&permit(), hello(3)).await.unwrap()).1, answer(3));
    let tried_now = fake
        .seen()
        .iter()
        .filter(|seen| seen.target == "/mcp?key=1" && seen.method == "POST")
        .count();
    assert_eq!((tried, tried_now), (1, 1));
}

#[tokio::test]
async fn unrelated_messages_reach_the_listener_and_a_dropped_request_is_cancelled() {
    let (fake, said) = server("/messages?session=1").await;
    let link = fake.link();
    one(link.request(&permit(), hello(1)).await.unwrap());
    let ServerStream::Open(mut listener) = link.listen(&permit(), None).await.unwrap() else {
        panic!("it listens")
    };
    said.send("{\"method\":\"notifications/message\"}".to_owned()).unwrap();
    assert_eq!(
        listener.next().await.unwrap().unwrap().message,
        "{\"method\":\"notifications/message\"}"
    );
    tokio::time::timeout(Duration::from_millis(100), link.request(&permit(), request(7)))
        .await
        .err()
        .unwrap();
    for _ in 0..500 {
        if fake.seen().last().unwrap().body.contains("notifications/cancelled") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nothing was cancelled");
}

#[tokio::test]
async fn when_the_stream_ends_pending_requests_are_lost_and_a_handshake_opens_another() {
    let (fake, said) = server("/messages?session=1").await;
    let link = fake.link();
    one(link.request(&permit(), hello(1)).await.unwrap());
    let own = permit();
    let ending = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        said.send("bye".to_owned()).unwrap();
    };
    let (lost, ()) = tokio::join!(link.request(&own, request(7)), ending);
    let lost = lost.err().unwrap();
    assert!(matches!(lost, UpstreamError::Lost { .. }), "{lost}");
    let unsent = link.request(&permit(), request(8)).await.err().unwrap();
    assert!(matches!(unsent, UpstreamError::NeverSent { .. }), "{unsent}");
    assert_eq!(one(link.request(&permit(), hello(9)).await.unwrap()).1, answer(9));
}

#[tokio::test]
async fn a_request_reopens_a_session_whose_stream_ended() {
    let (fake, said) = server("/messages?session=1").await;
    let link = fake.link();
    one(link.request(&permit(), hello(10)).await.unwrap());
    said.send("bye".to_owned()).unwrap();
    let mut answered = None;
    for _ in 0..500 {
        // A request sent while the stream ends may be lost.
        if let Ok(reply) = link.request(&permit(), request(2)).await {
            answered = Some(one(reply).1);
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(answered, Some(answer(2)));
    let seen = fake.seen();
    let greeted = seen.iter().filter(|seen| seen.body.contains("\"id\":10")).count();
    let told = seen.iter().filter(|seen| seen.body.contains("notifications/initialized")).count();
    // The first handshake was refused over streamable HTTP before it was sent over HTTP+SSE.
    assert_eq!((greeted, told), (3, 1));
}

#[tokio::test]
async fn an_address_of_another_server_is_not_used() {
    let (fake, _) = server("http://192.0.2.1/messages?session=1").await;
    let link = fake.link();
    // The first handshake detects the transport; the second requests the stream at once.
    for seen in [2, 3] {
        let error = link.request(&permit(), hello(1)).await.err().unwrap();
        assert!(matches!(error, UpstreamError::NeverSent { .. }), "{error}");
        assert!(error.to_string().contains("an endpoint of another server"), "{error}");
        assert_eq!(fake.seen().len(), seen);
    }
}

#[tokio::test]
async fn a_refusal_of_anything_but_the_handshake_stays_a_refusal() {
    let (fake, _) = server("/messages?session=1").await;
    let error = fake.link().request(&permit(), request(1)).await.err().unwrap();
    assert!(matches!(error, UpstreamError::Status { status: 405, .. }), "{error}");
    assert_eq!(fake.seen().len(), 1);
}
