//! Refresh races at the issuer of a server that ends the login if a refresh token is used twice: parallel calls in two
//! gates, and kills around the rotation. No login is lost, and each expiry causes one refresh.
#![allow(clippy::print_stdout, reason = "the figures of a promise are for people")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use sandbox::protected_server::{Behaviour, ProtectedServer};
use serde_json::json;

use crate::cli_test::Up;
use crate::http;
use crate::sign_in::{call, grant, login, signed_in};

const WAIT_MAX: Duration = Duration::from_secs(30);

fn rounds(usual: u32) -> u32 {
    std::env::var("TOLLGATE_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

fn refreshes(server: &ProtectedServer) -> usize {
    server.count("/token", "refresh_token")
}

/// Waits until the issuer got a refresh, or the process has ended.
fn until_refresh(server: &ProtectedServer, before: usize, mut runs: impl FnMut() -> bool) {
    let begun = Instant::now();
    while refreshes(server) == before && runs() && begun.elapsed() < WAIT_MAX {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn rule_1_parallel_calls_in_two_gates_cause_one_refresh() {
    let (test, server) = signed_in(Behaviour::default());
    let token = grant(&test, "agent");
    let (one, two) = (test.up(&[]), test.up(&[]));
    assert!(call(&one, &token)["result"].is_object());
    assert!(call(&two, &token)["result"].is_object());
    server.expire_access();
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..50)
            .map(|n| {
                let (up, token) = (if n % 2 == 0 { &one } else { &two }, &token);
                scope.spawn(move || call(up, token))
            })
            .collect();
        for answer in calls.into_iter().map(|call| call.join().unwrap()) {
            assert!(answer["result"].is_object(), "{answer}");
        }
    });
    assert_eq!(refreshes(&server), 1);
    println!("P28: 50 calls in two gates on an expired token, 1 refresh");
}

/// A call to a gate that may be killed meanwhile.
fn call_of_a_dying_gate(url: &str, token: &str) {
    let host = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let Ok(mut stream) = TcpStream::connect(host) else { return };
    let (headers, body) = http::call_parts(token, "echo", &json!({}));
    let lines: Vec<String> =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let lines = lines.concat();
    let request = format!(
        "POST /mcp/s HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{lines}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(request.as_bytes());
    let _ = stream.read_to_end(&mut Vec::new());
}

/// 50 calls in two gates on an expired token, and one of the gates is killed around the rotation: the calls of the
/// other one work, and the next ones, too.
#[test]
fn parallel_calls_and_a_kill_around_the_rotation_cause_one_refresh() {
    let rounds = rounds(8);
    let (test, server) =
        signed_in(Behaviour { delay: Duration::from_millis(15), ..Behaviour::default() });
    let token = grant(&test, "agent");
    let survivor = test.up(&[]);
    assert!(call(&survivor, &token)["result"].is_object());
    for round in 0..rounds {
        let dying: Up = test.up(&[]);
        let dying_url = dying.url().to_owned();
        assert!(call(&dying, &token)["result"].is_object(), "round {round}");
        let before = refreshes(&server);
        server.expire_access();
        std::thread::scope(|scope| {
            let calls: Vec<_> = (0..25)
                .map(|_| {
                    scope.spawn(|| call_of_a_dying_gate(&dying_url, &token));
                    scope.spawn(|| call(&survivor, &token))
                })
                .collect();
            until_refresh(&server, before, || true);
            // From shortly before the response to well after it.
            std::thread::sleep(Duration::from_millis(u64::from(round % 8) * 3));
            drop(dying);
            for answer in calls.into_iter().map(|call| call.join().unwrap()) {
                assert!(answer["result"].is_object(), "round {round}: {answer}");
            }
        });
        assert_eq!(refreshes(&server) - before, 1, "refreshes in round {round}");
        assert_eq!(login(&test)["state"], "signed_in", "round {round}");
    }
    println!(
        "P28: {rounds} times 50 calls in two gates on an expired token and a kill of one of them, 0 logins lost, 1 refresh each"
    );
}

/// P28: the process that refreshes is killed around the rotation.
#[test]
fn a_kill_around_the_rotation_never_loses_a_login_at_a_server() {
    let kills = rounds(20);
    let (test, server) =
        signed_in(Behaviour { delay: Duration::from_millis(15), ..Behaviour::default() });
    let mut met = 0;
    for n in 0..kills {
        server.expire_access();
        let mut command = test.command(&["scan", "s"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let before = refreshes(&server);
        let mut child = command.spawn().unwrap();
        until_refresh(&server, before, || child.try_wait().unwrap().is_none());
        // From shortly before the response to well after it.
        std::thread::sleep(Duration::from_millis(u64::from(n % 8) * 3));
        child.kill().unwrap();
        child.wait().unwrap();
        let once = refreshes(&server) - before;
        assert!(once <= 1, "{once} refreshes in round {n}");
        met += u32::from(once == 1);
    }
    let scanned = test.run(&["scan", "s"]);
    assert!(scanned.code <= 1, "{met} of {kills} met a refresh\n{}", scanned.all_output());
    assert_eq!(login(&test)["state"], "signed_in");
    assert!(met * 3 >= kills, "only {met} of {kills} kills met a refresh");
    println!(
        "P28: {kills} kills around a refresh at a server's issuer, {met} met it, 0 logins lost"
    );
}
