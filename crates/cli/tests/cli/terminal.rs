//! The binary on a terminal: escaping, wrapping, colours and prompts that happen only there.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::json;

use crate::cli_test::CliTest;
use crate::http;

const WAIT_MAX: Duration = Duration::from_mins(1);

/// A command on a separate terminal. Killed when dropped.
struct Terminal {
    child: Child,
    keys: File,
    screen: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    fn start(test: &CliTest, arguments: &[&str], columns: u16, no_color: &str) -> Terminal {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let slave: OwnedFd =
            File::options().read(true).write(true).open(name).map(OwnedFd::from).unwrap();
        let size = Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&slave, size).unwrap();
        let mut command = test.command(arguments);
        command.env("NO_COLOR", no_color).env("TERM", "xterm");
        command.stdin(Stdio::from(slave.try_clone().unwrap()));
        command.stdout(Stdio::from(slave.try_clone().unwrap()));
        let child = command.stderr(Stdio::from(slave)).spawn().unwrap();
        // The command builder holds its own descriptors, which are closed with it.
        drop(command);
        let keys = File::from(master);
        let screen = Arc::new(Mutex::new(Vec::new()));
        let (mut from, to) = (keys.try_clone().unwrap(), Arc::clone(&screen));
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            // The read fails when the last program has closed the terminal.
            while let Ok(count @ 1..) = from.read(&mut piece) {
                to.lock().unwrap().extend_from_slice(&piece[..count]);
            }
        });
        Terminal { child, keys, screen }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap()).replace("\r\n", "\n")
    }

    fn wait_for(&self, what: &str, seen: impl Fn(&str) -> bool) -> String {
        let begin = Instant::now();
        loop {
            let text = self.text();
            if seen(&text) {
                return text;
            }
            assert!(begin.elapsed() < WAIT_MAX, "{what} is not on the screen:\n{text}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn type_line(&mut self, line: &str) {
        self.keys.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// The screen after the command has exited, and its exit code.
    fn end(mut self) -> (i32, String) {
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begin.elapsed() < WAIT_MAX, "it does not end:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(10));
        };
        // The last output may still arrive.
        let mut before = usize::MAX;
        while before != self.screen.lock().unwrap().len() {
            before = self.screen.lock().unwrap().len();
            std::thread::sleep(Duration::from_millis(50));
        }
        (status.code().unwrap_or(-1), self.text())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn shown(test: &CliTest, arguments: &[&str], columns: u16) -> String {
    let (code, text) = Terminal::start(test, arguments, columns, "1").end();
    assert_eq!(code, 0, "{text}");
    text
}

#[test]
fn escape_sequences_in_csv_do_not_reach_a_terminal_and_are_exact_elsewhere() {
    let mut test = CliTest::new();
    test.set("USER", "own\u{1b}[2Jer");
    test.succeed(&["server", "add", "demo", "--builtin", "demo"]);
    let export = |format| ["audit", "export", "--format", format];
    for command in [
        &export("csv")[..],
        &export("chain")[..],
        &["sql", "--csv", "select 'a' || char(27) || '[2J' || char(155) as x, 'b,c' as y"],
    ] {
        let text = shown(&test, command, 400);
        assert!(text.lines().count() > 1, "{text}");
        let acts_on = |c: char| c.is_control() && c != '\n';
        assert!(!text.contains(acts_on), "{command:?}: {text:?}");
    }
    assert!(
        test.succeed(&export("csv")).stdout.contains("own\u{1b}[2Jer"),
        "a pipe gets the bytes"
    );
    let piped = test.succeed(&["sql", "--csv", "select char(27) || '[2J' as x"]).stdout;
    assert_eq!(piped, "x\r\n\u{1b}[2J\r\n");
}

#[test]
fn tables_fit_the_terminal_and_are_complete_in_a_pipe() {
    let test = CliTest::with_demo();
    for n in 0..11 {
        let name = format!("a-server-with-a-long-name-{n}");
        test.succeed(&[
            "server",
            "add",
            &name,
            "--no-connect",
            "--",
            "/no/such/program",
            "--folder",
            "/srv/a/rather/long/path",
        ]);
    }
    let servers: Vec<String> =
        (0..11).map(|n| format!("a-server-with-a-long-name-{n}=demo")).collect();
    let mut create = vec!["grant", "create", "alice"];
    create.extend(servers.iter().flat_map(|server| ["--server", server]));
    test.succeed(&create);
    for command in [&["grant", "list"][..], &["server", "list"], &["server", "tools", "demo"]] {
        let piped = test.succeed(command).stdout;
        for columns in [80, 100] {
            let text = shown(&test, command, columns);
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= usize::from(columns), "{command:?} at {columns}:\n{text}");
        }
        let rows = piped.lines().count();
        let header = piped.lines().next().unwrap();
        assert!(rows > 1 && !header.is_empty(), "{piped}");
    }
    let piped = test.succeed(&["grant", "list"]).stdout;
    assert!(
        piped.lines().any(|line| line.contains("name-0") && line.contains("name-10")),
        "{piped}"
    );
    let fitted = shown(&test, &["grant", "list"], 80);
    // A long name may be wrapped.
    let joined: String = fitted.split_whitespace().collect();
    assert!(joined.contains("a-server-with-a-long-name-10"), "nothing is lost:\n{fitted}");
}

#[test]
fn risks_have_a_colour_on_a_terminal_unless_it_is_turned_off() {
    let test = CliTest::with_demo();
    let tools = ["server", "tools", "demo"];
    let (_, coloured) = Terminal::start(&test, &tools, 120, "").end();
    assert!(coloured.contains("\u{1b}[32mlow\u{1b}[0m"), "{coloured:?}");
    let (_, plain) = Terminal::start(&test, &tools, 120, "1").end();
    assert!(plain.contains("low") && !plain.contains('\u{1b}'), "{plain:?}");
}

fn ask(url: &str, token: &str, amount: f64) -> http::Answer {
    http::call(
        &format!("{url}/demo"),
        token,
        "send_money",
        &json!({ "to": "Ada", "amount": amount }),
    )
}

#[test]
fn the_gate_rings_when_a_call_waits_and_a_watch_decides_it() {
    let test = CliTest::with_demo();
    let token = test.grant("alice");
    let up = Terminal::start(&test, &["up", "--listen", "127.0.0.1:0"], 200, "1");
    let text = up.wait_for("the address", |text| text.contains("/mcp\n"));
    let url = text.lines().find_map(|line| line.split_once(" at ")).unwrap().1.to_owned();
    let mut watch = Terminal::start(&test, &["approvals", "watch"], 200, "1");
    watch.wait_for("the first line", |text| text.contains("no approvals pending"));

    let (to, key) = (url.clone(), token.clone());
    let first = std::thread::spawn(move || ask(&to, &key, 50.0));
    let rung = up.wait_for("the bell", |text| text.contains("waiting for approval"));
    assert!(
        rung.contains('\u{7}') && rung.contains("`send_money` on `demo` for `alice`"),
        "{rung:?}"
    );
    assert!(rung.contains("`tollgate approvals approve ap-"), "{rung}");
    watch.wait_for("the call", |text| text.contains("\"amount\": 50") && text.contains("q quit"));
    watch.type_line("y");
    let answer = first.join().unwrap();
    assert_eq!(
        answer.json()["result"]["structuredContent"]["sent"],
        json!(50.0),
        "{}",
        answer.body
    );

    let second = std::thread::spawn(move || ask(&url, &token, 60.0));
    // What is typed before the prompt decides nothing.
    watch.wait_for("the second prompt", |text| {
        text.rsplit_once("\"amount\": 60").is_some_and(|(_, after)| after.contains("q quit"))
    });
    watch.type_line("n too much");
    assert!(second.join().unwrap().text().contains("too much"));
    watch.wait_for("the decision", |text| text.contains("denied: send_money on `demo`"));
    watch.type_line("q");
    assert_eq!(watch.end().0, 0);
}

#[test]
fn a_human_at_a_terminal_approves_without_an_option() {
    let test = CliTest::with_demo();
    let token = test.grant("alice");
    let up = test.up(&[]);
    let url = up.url().to_owned();
    let call = std::thread::spawn(move || ask(&url, &token, 50.0));
    let id = crate::gate::wait_for_approval(&test);
    let output = test.run(&["approvals", "approve", &id]);
    assert_eq!(output.code, 2);
    assert!(output.stderr.contains("no terminal to ask on, so add `--yes`"), "{}", output.stderr);
    let text = shown(&test, &["approvals", "approve", &id], 100);
    assert!(text.contains("approved once: send_money"), "{text}");
    assert_eq!(call.join().unwrap().json()["result"]["isError"], false);
}
