//! Child processes that speak MCP over pipes: every request gets its own messages in order,
//! whatever else the child does.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    dead_code,
    reason = "a failed unwrap is a failed test; helpers are shared by several tests"
)]

#[path = "upstream_support/children.rs"]
mod children;
#[path = "upstream_support/permit.rs"]
mod permit;

use std::ops::Range;
use std::time::Duration;

use children::{options, python, request, within};
use gateway::upstream::{
    ChildState, Events, Excess, Reply, ServerStream, Stage, StdioLink, UpstreamError,
    UpstreamMessage,
};
use permit::permit;
use serde_json::{Value, json};

const LONG: Duration = Duration::from_secs(10);

async fn ask(
    link: &StdioLink,
    id: u64,
    method: &str,
    params: Value,
) -> Result<Reply, UpstreamError> {
    link.request(&permit(), request(id, method, &params.to_string())).await
}

/// The result of a request with a single response.
async fn result(link: &StdioLink, id: u64, method: &str, params: Value) -> Value {
    match ask(link, id, method, params).await.unwrap() {
        Reply::One { status: 200, body } => parsed(&body)["result"].clone(),
        _ => panic!("one message"),
    }
}

fn parsed(message: &[u8]) -> Value {
    serde_json::from_slice(message).unwrap()
}

async fn next(events: &mut Events) -> Value {
    let event = tokio::time::timeout(LONG, events.next()).await.expect("an event in time");
    parsed(&event.unwrap().unwrap().message)
}

async fn listener(link: &StdioLink) -> Events {
    match link.listen(&permit()).await.unwrap() {
        ServerStream::Open(events) => events,
        ServerStream::NotOffered => panic!("a child can always be listened to"),
    }
}

fn pid(link: &StdioLink) -> u32 {
    match link.state() {
        ChildState::Running { pid, .. } => pid,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn responses_are_matched_to_requests_in_any_order() {
    let link = python(|_| {});
    let calls = (0..100).map(|id| {
        let link = &link;
        async move { (id, result(link, id, "echo", json!({ "n": id })).await) }
    });
    for (id, result) in futures_of(calls).await {
        assert_eq!(result, json!({ "n": id }));
    }
}

/// Runs futures concurrently in one task.
async fn futures_of<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|cx| {
        let mut pending = false;
        for (future, output) in &mut running {
            if output.is_none() {
                match future.as_mut().poll(cx) {
                    std::task::Poll::Ready(value) => *output = Some(value),
                    std::task::Poll::Pending => pending = true,
                }
            }
        }
        if pending { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
    running.into_iter().map(|(_, output)| output.unwrap()).collect()
}

#[tokio::test]
async fn a_multi_line_message_arrives_as_one() {
    let link = python(|_| {});
    let mut out = request(1, "echo", "{}");
    out.body =
        "{\r\n\"jsonrpc\":\"2.0\",\n\"id\":1,\n\"method\":\"echo\",\"params\":{\"a\":\"b\\nc\"}\n}"
            .into();
    let Reply::One { body, .. } = link.request(&permit(), out).await.unwrap() else {
        panic!("one")
    };
    assert_eq!(parsed(&body)["result"], json!({ "a": "b\nc" }));
}

#[tokio::test]
async fn a_burst_of_progress_is_complete_and_in_order_before_the_response() {
    const BURST: u64 = 5000;
    let link = python(|_| {});
    let token = "a \u{e9} token";
    let params = json!({ "count": BURST, "_meta": { "progressToken": token } });
    let mut out = request(1, "progress", &params.to_string());
    out.progress_token = Some(json!(token).to_string().into());
    let Reply::Many(mut events) = link.request(&permit(), out).await.unwrap() else {
        panic!("many")
    };
    for n in 0..BURST {
        assert_eq!(next(&mut events).await["params"]["progress"], n);
    }
    assert_eq!(next(&mut events).await["result"], json!({}));
    assert!(events.next().await.is_none());
    assert_eq!(result(&link, 2, "heard", json!({})).await, json!([]), "nothing was cancelled");
}

#[tokio::test]
async fn a_client_that_stops_reading_loses_only_its_own_request() {
    let link = python(|options| {
        options.bounds.backlog_max = 10;
        options.bounds.slow_reader_wait_max = Duration::from_millis(100);
    });
    let params = json!({ "count": 100, "_meta": { "progressToken": 1 } });
    let mut out = request(1, "progress", &params.to_string());
    out.progress_token = Some("1".into());
    let Reply::Many(mut slow) = link.request(&permit(), out).await.unwrap() else { panic!("many") };
    assert_eq!(result(&link, 2, "echo", json!({})).await, json!({}));
    let mut taken = 0;
    let error = loop {
        match slow.next().await.unwrap() {
            Ok(_) => taken += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, UpstreamError::TooLarge { what: Excess::Backlog, .. }), "{error}");
    assert!((10..20).contains(&taken), "{taken}");
}

#[tokio::test]
async fn unrelated_messages_wait_for_a_listener_and_the_oldest_are_dropped() {
    let link = python(|options| options.bounds.unclaimed_max = 10);
    result(&link, 1, "say", json!({ "times": 25 })).await;
    let mut events = listener(&link).await;
    for n in 15..25 {
        assert_eq!(next(&mut events).await["params"]["n"], n);
    }
    result(&link, 2, "say", json!({ "times": 1 })).await;
    assert_eq!(next(&mut events).await["params"]["n"], 0);
    let mut second = listener(&link).await;
    assert!(events.next().await.is_none(), "a second listener ends the first");
    result(&link, 3, "say", json!({ "times": 1 })).await;
    assert_eq!(next(&mut second).await["params"]["n"], 0);
}

#[tokio::test]
async fn unrelated_messages_go_to_the_newest_request_if_configured() {
    let link = python(|options| options.route_to_request = true);
    let Reply::Many(mut events) = ask(&link, 1, "say", json!({ "times": 2 })).await.unwrap() else {
        panic!("many")
    };
    for n in 0..2 {
        assert_eq!(next(&mut events).await["params"]["n"], n);
    }
    assert_eq!(next(&mut events).await["result"], json!({}));
}

#[tokio::test]
async fn messages_of_a_subscription_go_to_it() {
    let link = python(|_| {});
    let mut out = request(7, "tagged", "{}");
    out.stays_open = true;
    let Reply::Many(mut events) = link.request(&permit(), out).await.unwrap() else {
        panic!("many")
    };
    for _ in 0..2 {
        assert_eq!(next(&mut events).await["method"], "notifications/tools/list_changed");
    }
    drop(events);
    let heard = result(&link, 8, "heard", json!({})).await;
    assert_eq!(heard[0]["method"], "notifications/cancelled");
    assert_eq!(heard[0]["params"]["requestId"], 7);
}

#[tokio::test]
async fn a_dropped_request_is_cancelled_and_a_handshake_is_not() {
    let link = python(|_| {});
    result(&link, 1, "echo", json!({})).await;
    for (id, opens_session) in [(2, false), (3, true)] {
        let mut out = request(id, "hang", "{}");
        out.opens_session = opens_session;
        let waited =
            tokio::time::timeout(Duration::from_millis(50), link.request(&permit(), out)).await;
        assert!(waited.is_err());
    }
    let heard = result(&link, 4, "heard", json!({})).await;
    assert_eq!(heard.as_array().unwrap().len(), 1, "{heard}");
    assert_eq!(heard[0]["params"]["requestId"], 2);
}

/// The result of a request that may time out on a busy machine; each attempt has its own id.
async fn patiently(link: &StdioLink, ids: Range<u64>, method: &str) -> Value {
    for id in ids {
        match ask(link, id, method, json!({})).await {
            Ok(Reply::One { body, .. }) => return parsed(&body)["result"].clone(),
            Err(UpstreamError::TimedOut { .. }) => {}
            _ => panic!("one message"),
        }
    }
    panic!("it does not answer {method}");
}

#[tokio::test]
async fn a_request_that_takes_too_long_times_out_and_is_cancelled() {
    let link = python(|options| options.waits.first_byte_max = Duration::from_secs(1));
    patiently(&link, 100..120, "echo").await;
    let error = ask(&link, 2, "hang", json!({})).await.err().unwrap();
    assert!(matches!(error, UpstreamError::TimedOut { stage: Stage::FirstByte, .. }), "{error}");
    let heard = patiently(&link, 200..220, "heard").await;
    let cancelled = |id| heard.as_array().unwrap().iter().any(|m| m["params"]["requestId"] == id);
    assert!(cancelled(2), "{heard}");
}

#[tokio::test]
async fn an_id_in_use_is_not_sent_again() {
    let link = python(|_| {});
    let hanging = ask(&link, 1, "hang", json!({}));
    let second = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        ask(&link, 1, "echo", json!({})).await.err().unwrap()
    };
    tokio::select! {
        _ = hanging => panic!("this request has no response"),
        error = second => assert!(matches!(error, UpstreamError::NeverSent { .. }), "{error}"),
    }
}

#[tokio::test]
async fn noise_is_counted_and_ignored() {
    let link = python(|_| {});
    assert_eq!(result(&link, 1, "noise", json!({})).await, json!({}));
    assert_eq!(link.noise_lines(), 3);
}

#[tokio::test]
async fn a_line_over_the_bound_fails_its_own_request() {
    let link = python(|options| options.bounds.line_bytes_max = 100_000);
    let first = pid(&link);
    for (id, place) in [(1, "first"), (2, "last")] {
        let params = json!({ "bytes": 3_000_000, "where": place });
        let error = ask(&link, id, "giant", params).await.err().unwrap();
        assert!(
            matches!(error, UpstreamError::TooLarge { what: Excess::Line, .. }),
            "{place}: {error}"
        );
    }
    assert_eq!(
        result(&link, 3, "giant", json!({ "bytes": 90_000, "where": "last" }))
            .await
            .as_str()
            .unwrap()
            .len(),
        90_000
    );
    assert_eq!(pid(&link), first);
    // A line without an id ends the child.
    let error =
        ask(&link, 4, "giant", json!({ "bytes": 3_000_000, "where": "none" })).await.err().unwrap();
    assert!(matches!(error, UpstreamError::Lost { .. }), "{error}");
}

#[tokio::test]
async fn the_end_of_stderr_is_kept() {
    let link = python(|_| {});
    result(&link, 1, "stderr", json!({ "text": "x", "times": 100_000 })).await;
    result(&link, 2, "stderr", json!({ "text": "the last word", "times": 1 })).await;
    assert!(within(LONG, || link.stderr_tail().ends_with("the last word\n")).await);
    assert_eq!(link.stderr_tail().len(), 64 * 1024);
}

#[tokio::test]
async fn a_child_gets_a_clean_environment_and_its_own_arguments() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().canonicalize().unwrap();
    let link = python(|options| {
        options.cwd = Some(home.clone());
        options.env = gateway::upstream::base_env(
            std::env::vars_os().chain([("SECRET_OF_OURS".into(), "x".into())]),
            [("HOME".into(), "/elsewhere".into()), ("TOKEN".into(), "given".into())],
        );
    });
    let world = result(&link, 1, "world", json!({})).await;
    assert_eq!(world["cwd"], json!(home));
    assert_eq!(world["argv"], json!(["one", "two words"]));
    let env = &world["env"];
    assert_eq!((&env["HOME"], &env["TOKEN"]), (&json!("/elsewhere"), &json!("given")));
    // Read from the guard, because the Python launcher may add variables.
    let given = std::fs::read_to_string(format!("/proc/{}/environ", pid(&link))).unwrap();
    let names: Vec<&str> =
        given.split('\0').filter_map(|pair| Some(pair.split_once('=')?.0)).collect();
    assert!(names.contains(&"TOKEN") && names.contains(&"PATH"));
    let unknown = names
        .iter()
        .find(|name| !["PATH", "HOME", "LANG", "TMPDIR", "USER", "TOKEN"].contains(name));
    assert_eq!(unknown, None);
}

#[tokio::test]
async fn a_crash_loses_pending_requests_and_the_child_is_restarted() {
    let link = python(|_| {});
    let first = pid(&link);
    for (id, method) in [(1, "crash"), (2, "abort")] {
        let hanging = ask(&link, 100 + id, "hang", json!({}));
        let crashing = ask(&link, id, method, json!({}));
        let (hanging, crashing) = tokio::join!(hanging, crashing);
        for error in [hanging.err().unwrap(), crashing.err().unwrap()] {
            assert!(matches!(error, UpstreamError::Lost { .. }), "{error}");
        }
        let run = tokio::time::timeout(LONG, link.ready(LONG)).await.unwrap().unwrap();
        assert_eq!(run, id + 1);
        assert_eq!(result(&link, 10 + id, "echo", json!({})).await, json!({}));
        assert_ne!(pid(&link), first);
    }
}

/// Requests may fail before the exit is fully processed.
#[tokio::test]
async fn an_ended_run_is_not_ready_even_before_its_exit_is_reported() {
    let link = python(|options| options.bounds.exit_status_wait_max = Duration::ZERO);
    ask(&link, 1, "crash", json!({})).await.err().unwrap();
    assert_eq!(link.ready(LONG).await.unwrap(), 2);
}

#[tokio::test]
async fn a_message_for_an_earlier_run_is_not_sent() {
    let link = python(|_| {});
    let run = link.ready(LONG).await.unwrap();
    ask(&link, 1, "crash", json!({})).await.err().unwrap();
    link.ready(LONG).await.unwrap();
    let mut out = request(2, "echo", "{}");
    out.run = Some(run);
    let error = link.request(&permit(), out).await.err().unwrap();
    assert!(matches!(error, UpstreamError::NeverSent { .. }), "{error}");
}

#[tokio::test]
async fn a_child_that_cannot_start_is_retried_with_back_off() {
    for (mut options, why) in [
        (options("no-such-command-here", &[]), "`no-such-command-here` is not on the gate's PATH"),
        (options("sh", &["-c", "exit 7"]), "it ended with exit code 7"),
        (options("/dev/null", &[]), "`/dev/null` is not a program that may be run"),
        (
            {
                let mut options = options("sh", &["-c", "exit 0"]);
                options.cwd = Some("/no/such/folder".into());
                options
            },
            "`/no/such/folder` does not exist",
        ),
    ] {
        options.bounds.backoff_min = Duration::from_millis(20);
        options.bounds.backoff_max = Duration::from_millis(60);
        let link = StdioLink::start(options);
        let error = ask(&link, 1, "echo", json!({})).await.err().unwrap().to_string();
        assert!(error.contains(why), "the first request gets the reason: {error}");
        let mut watch = link.watch();
        let mut pauses = Vec::new();
        while pauses.len() < 4 {
            let state = watch
                .wait_for(|state| matches!(state, ChildState::Backoff { .. }))
                .await
                .unwrap()
                .clone();
            let ChildState::Backoff { until, reason } = state else { unreachable!() };
            assert!(reason.contains(why), "{reason}");
            pauses.push(until);
            let error = ask(&link, 1, "echo", json!({})).await.err().unwrap();
            assert!(matches!(error, UpstreamError::NeverSent { .. }), "{error}");
            tokio::time::timeout(LONG, watch.changed()).await.unwrap().unwrap();
        }
        let gaps: Vec<Duration> = pauses.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps[0] >= Duration::from_millis(40), "{gaps:?}");
        assert!(
            gaps[1] >= Duration::from_millis(60) && gaps[2] >= Duration::from_millis(60),
            "{gaps:?}"
        );
        link.close().await;
        assert_eq!(link.state(), ChildState::Stopped);
        let error = ask(&link, 1, "echo", json!({})).await.err().unwrap();
        assert!(matches!(error, UpstreamError::Closed), "{error}");
    }
}

#[tokio::test]
async fn a_child_that_does_not_read_delays_other_requests_only_briefly() {
    let link = python(|options| {
        options.waits.queue_max = Duration::from_millis(200);
        options.waits.first_byte_max = Duration::from_millis(400);
        options.bounds.write_bytes_max = 300_000;
    });
    let deaf = ask(&link, 1, "deaf", json!({}));
    let large = json!({ "text": "x".repeat(200_000) });
    let (first, second) = tokio::join!(deaf, async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        // The pipe takes a part of the first; its rest and the second are queued.
        tokio::join!(ask(&link, 2, "echo", large.clone()), ask(&link, 3, "echo", large.clone()))
    });
    assert!(matches!(
        first.err().unwrap(),
        UpstreamError::TimedOut { stage: Stage::FirstByte, .. }
    ));
    assert!(matches!(
        second.0.err().unwrap(),
        UpstreamError::TimedOut { stage: Stage::FirstByte, .. }
    ));
    let error = second.1.err().unwrap();
    assert!(matches!(error, UpstreamError::TimedOut { stage: Stage::Queue, .. }), "{error}");
    assert!(!error.may_have_happened());
}

#[tokio::test]
async fn an_unwritten_request_that_times_out_was_never_sent() {
    let link = python(|options| options.waits.first_byte_max = Duration::from_millis(400));
    let large = json!({ "text": "x".repeat(300_000) });
    let (deaf, begun, queued) = tokio::join!(
        ask(&link, 1, "deaf", json!({})),
        ask(&link, 2, "echo", large),
        ask(&link, 3, "echo", json!({}))
    );
    for error in [deaf.err().unwrap(), begun.err().unwrap()] {
        assert!(error.may_have_happened(), "{error}");
    }
    let error = queued.err().unwrap();
    assert!(matches!(error, UpstreamError::TimedOut { stage: Stage::Queue, .. }), "{error}");
}

#[cfg(unix)]
#[tokio::test]
async fn an_unwritten_request_at_a_crash_was_never_sent() {
    let link = python(|_| {});
    result(&link, 1, "echo", json!({})).await;
    let guard = rustix::process::Pid::from_raw(i32::try_from(pid(&link)).unwrap()).unwrap();
    let large = json!({ "text": "x".repeat(300_000) });
    let (deaf, begun, queued, ()) = tokio::join!(
        ask(&link, 2, "deaf", json!({})),
        ask(&link, 3, "echo", large),
        ask(&link, 4, "echo", json!({})),
        async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            rustix::process::kill_process(guard, rustix::process::Signal::TERM).unwrap();
        }
    );
    for error in [deaf.err().unwrap(), begun.err().unwrap()] {
        assert!(matches!(error, UpstreamError::Lost { .. }), "{error}");
    }
    let error = queued.err().unwrap();
    assert!(matches!(error, UpstreamError::NeverSent { .. }), "{error}");
}

#[tokio::test]
async fn a_child_that_closes_its_output_is_ended_at_once() {
    let mut options = options("sh", &["-c", "exec >&-; trap '' TERM; while :; do sleep 1; done"]);
    options.bounds.exit_status_wait_max = Duration::from_millis(100);
    // Long enough that a busy machine cannot be the cause.
    options.bounds.end_wait_max = Duration::from_mins(1);
    let link = StdioLink::start(options);
    let began = std::time::Instant::now();
    let error = ask(&link, 1, "echo", json!({})).await.err().unwrap();
    assert!(
        matches!(error, UpstreamError::Lost { .. } | UpstreamError::NeverSent { .. }),
        "{error}"
    );
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[tokio::test]
async fn notifications_and_responses_go_out_in_order() {
    let link = python(|_| {});
    for n in 0..20 {
        let body = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\",\"params\":{n}}}");
        link.send(&permit(), UpstreamMessage::notification(body.into())).await.unwrap();
    }
    link.send(
        &permit(),
        UpstreamMessage::response("{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{}}".into()),
    )
    .await
    .unwrap();
    let heard = result(&link, 1, "heard", json!({})).await;
    let heard = heard.as_array().unwrap();
    assert!(heard[..20].iter().enumerate().all(|(n, message)| message["params"] == n));
    assert_eq!(heard[20]["id"], 9);
}
