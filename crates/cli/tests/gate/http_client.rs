//! An HTTP client that sends exactly the given bytes, with helpers for valid requests.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The response. Status 0 means that the connection was closed without one.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    pub(crate) took: Duration,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim().to_owned())
    }

    /// The call was carried out by the server.
    pub(crate) fn passed(&self) -> bool {
        let body = self.json();
        self.status == 200 && body["result"]["isError"] != true && body.get("result").is_some()
    }

    /// An error of HTTP or JSON-RPC, or a result that is one.
    pub(crate) fn refused(&self) -> bool {
        let body = self.json();
        body.get("error").is_some() || body["result"]["isError"] == true
    }

    /// The denial in the response.
    pub(crate) fn denial(&self) -> Value {
        let body = self.json();
        let in_result = &body["result"]["_meta"]["tollgate/denial"];
        if in_result.is_null() { body["error"]["data"].clone() } else { in_result.clone() }
    }
}

impl Answer {
    /// One of several responses on one connection.
    pub(crate) fn nth(self, place: usize) -> Option<Answer> {
        let mut answer = self;
        for _ in 0..place {
            let bytes = answer.header("content-length")?.parse().ok()?;
            answer = split(answer.body.get(bytes..)?, answer.took);
        }
        let bytes = answer.header("content-length").and_then(|bytes| bytes.parse().ok());
        answer.body.truncate(bytes.unwrap_or(answer.body.len()));
        (answer.status != 0).then_some(answer)
    }
}

/// Sends the bytes on a new connection and reads until the other side closes it.
pub(crate) fn exchange(port: u16, bytes: &[u8], wait: Duration) -> Answer {
    let started = Instant::now();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the gate listens");
    stream.set_read_timeout(Some(wait)).unwrap();
    stream.set_write_timeout(Some(wait)).unwrap();
    // A gate that refuses early may close before everything is sent.
    let _ = stream.write_all(bytes);
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            panic!("no answer within {wait:?}; so far {:?}", String::from_utf8_lossy(&all))
        }
        _ => split(&all, started.elapsed()),
    }
}

fn split(all: &[u8], took: Duration) -> Answer {
    let end = all.windows(4).position(|four| four == b"\r\n\r\n");
    let Some(end) = end else {
        return Answer { status: 0, head: String::new(), body: all.to_vec(), took };
    };
    let head = String::from_utf8_lossy(&all[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|number| number.parse().ok()).unwrap_or(0);
    Answer { status, head, body: all[end + 4..].to_vec(), took }
}

/// A client that keeps its connection for sequential requests.
pub(crate) struct Line {
    client: Client,
    stream: Option<BufReader<TcpStream>>,
}

impl Line {
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Answer {
        self.post(call(tool, arguments).to_string().as_bytes())
    }

    pub(crate) fn post(&mut self, body: &[u8]) -> Answer {
        self.post_with("", body)
    }

    /// The same with further headers, each with its line end.
    pub(crate) fn post_with(&mut self, headers: &str, body: &[u8]) -> Answer {
        let bytes = self.client.request_that("keep-alive", body, headers);
        self.exchange(&bytes)
    }

    /// The same with another content type.
    pub(crate) fn post_as(&mut self, content_type: &str, body: &[u8]) -> Answer {
        let bytes = String::from_utf8(self.client.request_that("keep-alive", body, "")).unwrap();
        let bytes = bytes.replace("application/json\r", &format!("{content_type}\r"));
        self.exchange(bytes.as_bytes())
    }

    fn exchange(&mut self, bytes: &[u8]) -> Answer {
        let started = Instant::now();
        let mut stream = self.stream.take().unwrap_or_else(|| connected(self.client.port));
        stream.get_mut().write_all(bytes).expect("the gate takes the request");
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read = stream.read_line(&mut head).expect("an answer in time");
            assert!(read > 0, "the gate hung up after {head:?}");
        }
        let mut answer = split(head.as_bytes(), Duration::ZERO);
        let length = answer.header("content-length").and_then(|number| number.parse().ok());
        answer.body =
            vec![0; length.unwrap_or_else(|| panic!("an answer without a length: {head}"))];
        stream.read_exact(&mut answer.body).expect("the whole answer");
        let goes_on = answer.header("connection").is_none_or(|words| words != "close");
        self.stream = goes_on.then_some(stream);
        answer.took = started.elapsed();
        answer
    }
}

fn connected(port: u16) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("the gate listens");
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    BufReader::new(stream)
}

/// One client of one grant.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) port: u16,
    pub(crate) token: String,
    pub(crate) path: String,
    pub(crate) headers: String,
}

impl Client {
    pub(crate) fn request(&self, body: &[u8], more: &str) -> Vec<u8> {
        self.request_that("close", body, more)
    }

    pub(crate) fn request_that(&self, connection: &str, body: &[u8], more: &str) -> Vec<u8> {
        let Client { port, token, path, headers } = self;
        let mut bytes = format!(
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             Connection: {connection}\r\n{headers}{more}Content-Length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        bytes.extend_from_slice(body);
        bytes
    }

    pub(crate) fn line(&self) -> Line {
        Line { client: self.clone(), stream: None }
    }

    pub(crate) fn post(&self, body: &[u8]) -> Answer {
        exchange(self.port, &self.request(body, ""), Duration::from_secs(20))
    }

    pub(crate) fn send(&self, message: &Value) -> Answer {
        self.post(message.to_string().as_bytes())
    }

    pub(crate) fn call(&self, tool: &str, arguments: &Value) -> Answer {
        self.send(&call(tool, arguments))
    }

    /// A session of the older revisions: the same client with its id in every request.
    pub(crate) fn with_session(&self) -> Client {
        let hello = json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": { "name": "promises", "version": "1" },
            },
        });
        let answer = self.send(&hello);
        let id = answer.header("mcp-session-id").expect("initialize opens a session");
        let mut client = self.clone();
        client.headers = format!("Mcp-Session-Id: {id}\r\n");
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    /// A connection with a sent request and an unread response.
    pub(crate) fn open(&self, method: &str) -> TcpStream {
        let Client { port, token, path, headers } = self;
        let mut stream = TcpStream::connect(("127.0.0.1", *port)).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\
             Accept: text/event-stream\r\nConnection: close\r\n{headers}\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream
    }
}

pub(crate) fn call(tool: &str, arguments: &Value) -> Value {
    json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": tool, "arguments": arguments },
    })
}
