//! One HTTP request over a plain socket, with exactly the bytes of the test.
#![cfg_attr(
    not(feature = "demo"),
    allow(dead_code, reason = "the tests of the demo use all of it")
)]

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.head.lines().filter_map(|line| line.split_once(": "));
        headers.find(|(header, _)| header.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The text of a tool's result.
    pub(crate) fn text(&self) -> String {
        let json = self.json();
        let text = json.pointer("/result/content/0/text").and_then(Value::as_str);
        text.unwrap_or_else(|| panic!("no text in {json}")).to_owned()
    }
}

pub(crate) fn get(url: &str) -> Answer {
    ask("GET", url, &[], "")
}

pub(crate) fn patch(url: &str, body: &Value) -> Answer {
    ask("PATCH", url, &[("Content-Type", "application/json")], &body.to_string())
}

pub(crate) fn post(url: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    ask("POST", url, headers, body)
}

/// A header named `Host` replaces that of the URL.
pub(crate) fn ask(method: &str, url: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut request = format!("{method} /{path} HTTP/1.1\r\nConnection: close\r\n");
    if headers.iter().all(|(name, _)| *name != "Host") {
        let _ = write!(request, "Host: {host}\r\n");
    }
    for (name, value) in headers {
        let _ = write!(request, "{name}: {value}\r\n");
    }
    let _ = write!(request, "Content-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if chunked { unchunked(body) } else { body.to_owned() };
    Answer { status, head: head.to_owned(), body }
}

/// The data of the first event of a stream that contains these words.
pub(crate) fn event_with(url: &str, headers: &[(&str, &str)], words: &str) -> String {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let mut request = format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\n");
    for (name, value) in headers {
        let _ = write!(request, "{name}: {value}\r\n");
    }
    stream.write_all(format!("{request}\r\n").as_bytes()).unwrap();
    let lines = std::io::BufRead::lines(std::io::BufReader::new(stream));
    let mut lines = lines.map(Result::unwrap);
    lines.find(|line| line.starts_with("data: ") && line.contains(words)).unwrap()
}

fn unchunked(body: &str) -> String {
    let mut out = String::new();
    let mut rest = body;
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        out.push_str(&after[..size]);
        rest = after[size..].trim_start_matches("\r\n");
        if size == 0 {
            break;
        }
    }
    out
}

/// A tool call of the revision that needs no session.
pub(crate) fn call(url: &str, token: &str, tool: &str, arguments: &Value) -> Answer {
    let (headers, body) = call_parts(token, tool, arguments);
    let headers: Vec<(&str, &str)> =
        headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    post(url, &headers, &body)
}

/// The headers and the body of such a call.
pub(crate) fn call_parts(
    token: &str,
    tool: &str,
    arguments: &Value,
) -> (Vec<(&'static str, String)>, String) {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
    });
    let body = json!({
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": { "name": tool, "arguments": arguments, "_meta": meta },
    });
    let headers = [
        ("Authorization", format!("Bearer {token}")),
        ("Content-Type", "application/json".to_owned()),
        ("Accept", "application/json, text/event-stream".to_owned()),
        ("MCP-Protocol-Version", "2026-07-28".to_owned()),
        ("Mcp-Method", "tools/call".to_owned()),
        ("Mcp-Name", tool.to_owned()),
    ];
    (headers.to_vec(), body.to_string())
}
