//! Mail under STARTTLS: a real server on loopback, and what somebody on the way can do to it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::cli_test::CliTest;
use crate::public_address::certificate;

const PASSWORD: &str = "only-under-tls";

/// The server. Killed when dropped.
struct MailServer {
    child: Child,
    stdout: BufReader<ChildStdout>,
    port: String,
}

impl Drop for MailServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl MailServer {
    fn start((certificate, key): &(String, String), mode: &str) -> MailServer {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/mail_server.py");
        let mut command = Command::new("python3");
        command.args([script, certificate, key, mode]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut port = String::new();
        stdout.read_line(&mut port).unwrap();
        MailServer { child, stdout, port: port.trim().to_owned() }
    }

    /// What the client of the next connection said in plain text, and what under TLS.
    fn heard(&mut self) -> (String, String) {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        let heard: Value = serde_json::from_str(&line).unwrap();
        let said = |name: &str| {
            let lines = heard[name].as_array().unwrap().iter();
            lines.map(|line| line.as_str().unwrap()).collect::<Vec<_>>().join("\n")
        };
        (said("plain"), said("sealed"))
    }
}

/// A channel to this server; the security is what is used when none is named.
fn add_channel(test: &CliTest, server: &MailServer, name: &str) {
    let password = format!("@{}", test.write("password", &format!("{PASSWORD}\n")));
    let to = ["--server", "127.0.0.1", "--port", &server.port];
    let login = ["--user", "gate", "--password", &password];
    let mail = ["--from", "gate@example.com", "--to", "owner@example.com"];
    let words = [&["notify", "add", "email", name][..], &to, &login, &mail].concat();
    test.succeed(&words);
}

#[test]
fn mail_is_sent_under_starttls_and_nothing_before() {
    let mut test = CliTest::new();
    let files = certificate(&mut test, "127.0.0.1");
    let mut server = MailServer::start(&files, "offers");
    add_channel(&test, &server, "mail");
    test.succeed(&["notify", "test", "mail"]);
    let (plain, sealed) = server.heard();
    let words: Vec<&str> = plain.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(words, ["EHLO", "STARTTLS"], "{plain}");
    assert!(sealed.contains("AUTH PLAIN") && sealed.contains("RCPT TO:<owner@example.com>"));
    assert!(sealed.contains("Subject:") && sealed.contains("\n."), "{sealed}");
}

#[test]
fn mail_is_not_sent_to_a_server_whose_starttls_was_taken_away() {
    let mut test = CliTest::new();
    let good = certificate(&mut test, "127.0.0.1");
    for mode in ["strips", "refuses"] {
        let mut server = MailServer::start(&good, mode);
        add_channel(&test, &server, mode);
        let said = test.run(&["notify", "test", mode]);
        assert!(said.code != 0, "{mode}: {}", said.all_output());
        let (plain, sealed) = server.heard();
        assert_eq!(sealed, "", "{mode}");
        for hidden in ["AUTH", "MAIL", "RCPT", "DATA", "owner@example.com"] {
            assert!(!plain.contains(hidden), "{mode}: {plain}");
        }
        assert!(!said.all_output().contains(PASSWORD), "{}", said.all_output());
    }
}

#[test]
fn responses_before_the_handshake_are_ignored() {
    let mut test = CliTest::new();
    let files = certificate(&mut test, "127.0.0.1");
    let mut server = MailServer::start(&files, "injects");
    add_channel(&test, &server, "mail");
    let said = test.run(&["notify", "test", "mail"]);
    let (plain, sealed) = server.heard();
    assert!(!plain.contains("AUTH") && !plain.contains("MAIL"), "{plain}");
    // Either the client drops them and sends as always, or it ends the exchange: it never skips a real answer.
    if said.code == 0 {
        assert!(sealed.starts_with("EHLO") && sealed.contains("AUTH PLAIN"), "{sealed}");
    } else {
        assert!(!sealed.contains("RCPT"), "{sealed}");
    }
}

#[test]
fn a_mail_server_needs_a_certificate_for_its_name_from_a_known_issuer() {
    let mut test = CliTest::new();
    let unknown = MailServer::start(&certificate(&mut test, "127.0.0.1"), "offers");
    // The second certificate replaces the issuer that the commands trust.
    let elsewhere = MailServer::start(&certificate(&mut test, "elsewhere.example"), "offers");
    for (name, mut server) in [("unknown", unknown), ("elsewhere", elsewhere)] {
        add_channel(&test, &server, name);
        let said = test.run(&["notify", "test", name]);
        assert!(said.code != 0, "{name}: {}", said.all_output());
        assert!(said.all_output().contains("certificate"), "{name}: {}", said.all_output());
        let (_, sealed) = server.heard();
        assert_eq!(sealed, "", "{name}");
    }
}
