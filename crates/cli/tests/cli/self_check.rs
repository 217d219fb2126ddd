//! `tollgate self check`: says what is known here, and asks an address only when told to.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use crate::cli_test::CliTest;

/// Answers one request with this status and document; returns the address and, at the end, the request.
fn releases(status: u16, document: &'static str) -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/tollgate.json", listener.local_addr().unwrap());
    let answer = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
        let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
        write!(
            stream,
            "HTTP/1.1 {status} x\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{document}",
            document.len()
        )
        .unwrap();
        head.join("\n")
    });
    (address, answer)
}

#[test]
fn without_a_question_nobody_is_asked() {
    let test = CliTest::new();
    let said = test.succeed(&["self", "check"]).stdout;
    let version = env!("CARGO_PKG_VERSION");
    assert!(said.starts_with(&format!("version  {version} (")), "{said}");
    assert!(said.contains("from     built from source\n"), "{said}");
    assert!(said.contains("newest   not asked"), "{said}");
    assert!(!test.home().exists(), "it needs no home");
    let json = test.succeed(&["self", "check", "--json"]).json();
    assert_eq!((&json["version"], &json["newer"]), (&version.into(), &serde_json::Value::Null));
}

#[test]
fn a_newer_version_is_found_where_the_owner_says() {
    for (document, code, words) in [
        (r#"{"version":"99.0.0"}"#, 1, "99.0.0 is published"),
        (r#"{"tag_name":"v0.0.1"}"#, 0, "no newer version; 0.0.1 is published"),
        (r#"{"tag_name":"nightly"}"#, 2, "names no version"),
        ("<html>", 2, "did not answer with JSON"),
    ] {
        let (address, answer) = releases(200, document);
        let output = CliTest::new().run(&["self", "check", "--newer", "--from", &address]);
        assert_eq!(output.code, code, "{}", output.all_output());
        assert!(output.all_output().contains(words), "{}", output.all_output());
        let request = answer.join().unwrap();
        assert!(request.starts_with("GET /tollgate.json HTTP/1.1"), "{request}");
        assert!(!request.contains("0.1.0"), "the request does not say who asks: {request}");
    }
    let (address, answer) = releases(404, "");
    let output = CliTest::new().run(&["self", "check", "--newer", "--from", &address]);
    assert!(output.stderr.contains("answered with status 404"), "{}", output.stderr);
    answer.join().unwrap();
}

#[test]
fn an_address_is_needed_to_ask() {
    let test = CliTest::new();
    let output = test.run(&["self", "check", "--newer"]);
    assert_eq!(output.code, 2);
    assert!(output.stderr.contains("--from URL"), "{}", output.stderr);
    assert_eq!(test.run(&["self", "check", "--from", "https://x.example"]).code, 2);
    let plain = test.run(&["self", "check", "--newer", "--from", "http://x.example/v.json"]);
    assert!(plain.stderr.contains("plain http"), "{}", plain.stderr);
}
