//! Channels outside the dashboard: real HTTP receivers and a real SMTP receiver on loopback.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use serde_json::{Value, json};

use crate::cli_test::CliTest;
use crate::gate::{eventually, wait_for_approval};
use crate::http;

pub(crate) const WAIT_MAX: Duration = Duration::from_secs(30);

/// One HTTP request that a receiver got.
pub(crate) struct Received {
    head: String,
    body: String,
}

impl Received {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    fn header(&self, name: &str) -> Option<String> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
    }
}

/// An HTTP receiver that answers its requests with these statuses, the last one again and again.
pub(crate) fn receiver(statuses: &'static [&'static str]) -> (String, Receiver<Received>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hooks/secret-path?sig=hidden", listener.local_addr().unwrap());
    let (to, received) = mpsc::channel();
    std::thread::spawn(move || {
        for (at, stream) in listener.incoming().enumerate() {
            let status = statuses.get(at).or(statuses.last()).unwrap();
            if take_request(stream.unwrap(), status, &to).is_none() {
                return;
            }
        }
    });
    (url, received)
}

fn take_request(stream: TcpStream, status: &str, to: &Sender<Received>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok()?;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let mut stream = stream;
    let reply = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(reply.as_bytes()).ok()?;
    to.send(Received { head, body: String::from_utf8(body).ok()? }).ok()
}

/// A mail server for one letter at a time: what RFC 5321 needs of a receiver.
fn mail_server() -> (u16, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (to, letters) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            if take_letter(&stream.unwrap(), &to).is_none() {
                return;
            }
        }
    });
    (port, letters)
}

fn take_letter(stream: &TcpStream, to: &Sender<String>) -> Option<()> {
    let mut out = stream;
    let mut lines = BufReader::new(stream).lines();
    out.write_all(b"220 test ESMTP\r\n").ok()?;
    let mut letter = String::new();
    while let Some(Ok(line)) = lines.next() {
        letter.push_str(&line);
        letter.push('\n');
        let word = line.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
        let reply = match word.as_str() {
            "EHLO" => "250-test\r\n250 AUTH PLAIN\r\n",
            "AUTH" => "235 welcome\r\n",
            "DATA" => {
                out.write_all(b"354 go on\r\n").ok()?;
                for line in lines.by_ref() {
                    let line = line.ok()?;
                    if line == "." {
                        break;
                    }
                    letter.push_str(&line);
                    letter.push('\n');
                }
                "250 taken\r\n"
            }
            "QUIT" => {
                out.write_all(b"221 bye\r\n").ok()?;
                break;
            }
            _ => "250 ok\r\n",
        };
        out.write_all(reply.as_bytes()).ok()?;
    }
    to.send(letter).ok()
}

fn hmac_of(secret: &str, text: &str) -> String {
    let mut child = std::process::Command::new("openssl")
        .args(["dgst", "-sha256", "-hmac", secret])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let said = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    said.split("= ").nth(1).unwrap().trim().to_owned()
}

/// The approval of a call in the background, with everything that each channel was sent.
#[test]
fn a_call_that_waits_reaches_every_channel_without_secrets_or_arguments() {
    let test = CliTest::with_demo();
    let token = test.grant("alice");
    let (hook, hooks) = receiver(&["200 OK"]);
    let (slack, slacks) = receiver(&["200 OK"]);
    let (ntfy, published) = receiver(&["200 OK"]);
    let (port, letters) = mail_server();
    let secret = test.write("secret", "sign-with-this\n");
    let (slack_file, secret_source) = (test.write("slack", &slack), format!("@{secret}"));
    let (slack_source, port) = (format!("@{slack_file}"), port.to_string());
    test.succeed(&["notify", "add", "webhook", "hook", "--url", &hook, "--secret", &secret_source]);
    test.succeed(&[
        "notify",
        "add",
        "slack",
        "chat",
        "--url",
        &slack_source,
        "--detail",
        "minimal",
    ]);
    let ntfy_url = ntfy.split("hooks").next().unwrap();
    let topic = ["--topic", "my-topic", "--detail", "arguments"];
    test.succeed(&[&["notify", "add", "ntfy", "phone", "--url", ntfy_url][..], &topic].concat());
    let mail = ["--security", "none", "--from", "gate@example.com", "--to", "owner@example.com"];
    let server = ["notify", "add", "email", "mail", "--server", "127.0.0.1", "--port", &port];
    let login = ["--user", "gate", "--password", &secret_source];
    test.succeed(&[&server[..], &mail, &login].concat());

    let up = test.up(&[]);
    let url = format!("{}/demo", up.url());
    let call = std::thread::spawn(move || {
        http::call(&url, &token, "send_money", &json!({ "to": "Ada-Secret\u{202e}", "amount": 50 }))
    });
    let id = wait_for_approval(&test);
    let link = format!("{}/approvals/{id}", up.url().trim_end_matches("/mcp"));

    let hook = hooks.recv_timeout(WAIT_MAX).unwrap();
    let body = hook.json();
    assert_eq!(body["type"], "approval");
    assert_eq!(body["link"], link.as_str());
    assert!(body["title"].as_str().unwrap().contains("alice wants send_money on demo"), "{body}");
    let signature = hook.header("x-tollgate-signature").unwrap();
    let (time, mac) = signature.trim_start_matches("t=").split_once(",v1=").unwrap();
    assert_eq!(mac, hmac_of("sign-with-this", &format!("{time}.{}", hook.body)));
    assert!(hook.head.starts_with("POST /hooks/secret-path?sig=hidden "), "{}", hook.head);

    let said = slacks.recv_timeout(WAIT_MAX).unwrap().json();
    let said = said["text"].as_str().unwrap();
    assert!(said.contains(&link) && !said.contains("send_money"), "minimal: {said}");

    let note = published.recv_timeout(WAIT_MAX).unwrap().json();
    assert_eq!((note["topic"].as_str(), note["click"].as_str()), (Some("my-topic"), Some(&*link)));
    let message = note["message"].as_str().unwrap();
    assert!(message.contains("Ada-Secret⟨U+202E⟩"), "with arguments, all visible: {note}");

    let letter = letters.recv_timeout(WAIT_MAX).unwrap();
    assert!(letter.contains("RCPT TO:<owner@example.com>") && letter.contains(&link), "{letter}");
    for text in [&hook.body, said, &letter] {
        assert!(!text.contains("Ada-Secret"), "arguments are not sent by default: {text}");
    }

    // Opening the link approves nothing; it needs a session.
    assert_eq!(http::get(&link).status, 401);
    test.succeed(&["approvals", "approve", &id, "--yes"]);
    assert_eq!(call.join().unwrap().json()["result"]["isError"], false);

    up.stop();
    let home = test.home();
    let shown = test.succeed(&["notify", "list"]).all_output();
    for hidden in ["secret-path", "sig=hidden", "sign-with-this"] {
        assert!(!shown.contains(hidden), "{shown}");
        for (path, bytes) in crate::cli_test::files_below(&home) {
            let found = bytes.windows(hidden.len()).any(|part| part == hidden.as_bytes());
            assert!(!found, "{hidden} in {}", path.display());
        }
    }
}

#[test]
fn a_dead_receiver_delays_no_call_and_no_other_channel() {
    let test = CliTest::with_demo();
    let token = test.grant("alice");
    // Accepts connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_url = format!("http://{}/", silent.local_addr().unwrap());
    let (moved, moves) = receiver(&["302 Found\r\nlocation: http://127.0.0.1:1/elsewhere"]);
    let (flaky, hooks) = receiver(&["503 Busy", "200 OK"]);
    for (name, url) in [("silent", &silent_url), ("moved", &moved), ("flaky", &flaky)] {
        test.succeed(&["notify", "add", "webhook", name, "--url", url]);
    }
    let up = test.up(&[]);
    let url = format!("{}/demo", up.url());
    let call = std::thread::spawn(move || {
        http::call(&url, &token, "send_money", &json!({ "to": "Ada", "amount": 50 }))
    });
    let id = wait_for_approval(&test);
    hooks.recv_timeout(WAIT_MAX).unwrap();
    moves.recv_timeout(WAIT_MAX).unwrap();
    // A redirect is a refusal; a fault is tried again after its pause.
    eventually("the outbox has both results", || {
        let said = test.succeed(&["notify", "list"]).all_output();
        said.contains("answered with status 302") && said.contains("answered with status 503")
    });
    hooks.recv_timeout(WAIT_MAX).unwrap();
    test.succeed(&["approvals", "deny", &id, "--because", "no"]);
    call.join().unwrap();
    up.stop();
}

#[test]
fn a_test_message_says_whether_it_was_sent() {
    let mut test = CliTest::new();
    let (hook, hooks) = receiver(&["200 OK", "404 Not Found"]);
    test.succeed(&["notify", "add", "webhook", "hook", "--url", "env:HOOK_ADDRESS"]);
    let unset = test.run(&["notify", "test", "hook"]).all_output();
    assert!(unset.contains("`HOOK_ADDRESS` of the gate is not set"), "{unset}");
    test.set("HOOK_ADDRESS", &hook);
    test.succeed(&["notify", "test", "hook"]);
    assert_eq!(hooks.recv_timeout(WAIT_MAX).unwrap().json()["type"], "test");
    let refused = test.run(&["notify", "test", "hook"]).all_output();
    assert!(refused.contains("answered with status 404"), "{refused}");
    assert!(!refused.contains("secret-path"), "{refused}");
    let plain = ["notify", "add", "webhook", "x", "--url", "http://example.com/hook"];
    assert!(test.run(&plain).all_output().contains("plain http is for this machine only"));
    let inline =
        ["notify", "add", "slack", "x", "--url", "https://hooks.slack.com/services/T0/B0/x"];
    let said = test.run(&inline).all_output();
    assert!(said.contains("command line") && !said.contains("T0/B0"), "{said}");
    assert!(said.contains("`--url @FILE`, `--url env:VARIABLE`"), "{said}");
    test.succeed(&["notify", "remove", "hook"]);
    assert!(test.succeed(&["notify", "list"]).all_output().contains("no channels yet"));
}
