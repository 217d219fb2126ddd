//! An MCP server over HTTP that records every tool call, and misbehaves on request.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// How a server answers calls.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Manner {
    #[default]
    Honest,
    /// One byte after the other, forever.
    Drips,
    /// A result of two hundred megabytes.
    Floods,
    /// A result of eight megabytes, which is accepted.
    Fills,
    /// Eight megabytes of text for the tool `other`.
    Wordy,
    /// The same as an event.
    WordyEvent,
    /// A list of tools that never ends.
    Lists,
    /// Its tools one after the other, each on a page of its own.
    Pages,
    /// Its own stream sends nothing, not even headers, until it is honest again; then a list-changed
    /// notification.
    Mute,
    /// Of the newer revision only, and not ready to answer discovery.
    Asleep,
    /// Of the newer revision only.
    Newer,
    /// The same, and the first round of each call is answered with a question.
    NewerAsks,
}

type Look = fn(&[u8]) -> Option<String>;

/// Eight megabytes, made once.
static WORDS: LazyLock<String> = LazyLock::new(|| "x".repeat(8 << 20));

#[derive(Default)]
struct Shared {
    manner: Mutex<Manner>,
    calls: Mutex<Vec<String>>,
    tools: Mutex<Vec<Value>>,
    hanging: Mutex<HashSet<String>>,
    heads: Mutex<String>,
    /// The exact bytes of the next responses to calls.
    lie: Mutex<Option<Vec<u8>>>,
    /// The exact bytes of the next responses to handshakes.
    hello: Mutex<Option<Vec<u8>>>,
    /// Checks the bytes of each call and returns what is wrong with it.
    look: Mutex<Option<Look>>,
    troubles: Mutex<Vec<String>>,
    /// The first messages of its own stream.
    news: Mutex<Vec<Value>>,
    has_no_stream: Mutex<bool>,
}

#[derive(Clone)]
pub(crate) struct Recorder {
    address: SocketAddr,
    shared: Arc<Shared>,
}

pub(crate) fn tool(name: &str, description: &str) -> Value {
    json!({
        "name": name,
        "description": description,
        "inputSchema": { "type": "object", "properties": { "nonce": { "type": "string" } } },
    })
}

impl Recorder {
    pub(crate) fn new(tools: &[&str]) -> Recorder {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        *shared.tools.lock().unwrap() = tools.iter().map(|name| tool(name, name)).collect();
        let recorder = Recorder { address, shared };
        let serving = recorder.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let recorder = serving.clone();
                thread::spawn(move || recorder.converse(stream));
            }
        });
        recorder
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// The names of the tools that were called, in the order they arrived.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.shared.calls.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, tool: &str) -> usize {
        self.shared.calls.lock().unwrap().iter().filter(|name| *name == tool).count()
    }

    pub(crate) fn set_tools(&self, tools: Vec<Value>) {
        *self.shared.tools.lock().unwrap() = tools;
    }

    pub(crate) fn hang_on(&self, tool: &str) {
        self.shared.hanging.lock().unwrap().insert(tool.to_owned());
    }

    /// Answers the calls that hang.
    pub(crate) fn let_go(&self) {
        self.shared.hanging.lock().unwrap().clear();
    }

    pub(crate) fn behave(&self, manner: Manner) {
        *self.shared.manner.lock().unwrap() = manner;
    }

    /// Answers calls, reads, prompts and task requests with these bytes from now on; `{id}` becomes the request's id.
    pub(crate) fn lie(&self, bytes: Option<Vec<u8>>) {
        *self.shared.lie.lock().unwrap() = bytes;
    }

    /// The same for handshakes.
    pub(crate) fn lie_to_hello(&self, bytes: Option<Vec<u8>>) {
        *self.shared.hello.lock().unwrap() = bytes;
    }

    fn lie_for(&self, body: &[u8]) -> Option<Vec<u8>> {
        let message: Value = serde_json::from_slice(body).ok()?;
        let lie = match message["method"].as_str()? {
            "initialize" => &self.shared.hello,
            "tools/call" | "resources/read" | "prompts/get" => &self.shared.lie,
            method if method.starts_with("tasks/") => &self.shared.lie,
            _ => return None,
        };
        let lie = lie.lock().unwrap().clone()?;
        let id = message["id"].to_string().into_bytes();
        let mut out = Vec::with_capacity(lie.len());
        let mut rest = lie.as_slice();
        while let Some(at) = rest.windows(4).position(|four| four == b"{id}") {
            out.extend_from_slice(&rest[..at]);
            out.extend_from_slice(&id);
            rest = &rest[at + 4..];
        }
        out.extend_from_slice(rest);
        Some(out)
    }

    pub(crate) fn look_at_calls_with(&self, look: Look) {
        *self.shared.look.lock().unwrap() = Some(look);
    }

    /// Problems of calls, each with the call.
    pub(crate) fn troubles(&self) -> Vec<String> {
        self.shared.troubles.lock().unwrap().clone()
    }

    fn look_at(&self, body: &[u8]) {
        let look = *self.shared.look.lock().unwrap();
        if let Some(words) = look.and_then(|look| look(body)) {
            let call = String::from_utf8_lossy(body);
            self.shared.troubles.lock().unwrap().push(format!("{words}: {call}"));
        }
    }

    /// The heads of all requests.
    pub(crate) fn heads(&self) -> String {
        self.shared.heads.lock().unwrap().clone()
    }

    fn converse(&self, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut writer = stream;
        while let Some((line, body)) = self.request(&mut reader) {
            if self.misbehaves(&body, &mut writer) {
                return;
            }
            if let Some(lie) = self.lie_for(&body) {
                let _ = writer.write_all(&lie);
                return;
            }
            let answer = if line.starts_with("POST") {
                self.post(&body)
            } else if line.starts_with("GET") && !*self.shared.has_no_stream.lock().unwrap() {
                self.speak(&mut writer);
                return;
            } else {
                "HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n".to_owned()
            };
            if writer.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }

    pub(crate) fn has_no_stream(&self) {
        *self.shared.has_no_stream.lock().unwrap() = true;
    }

    /// Sends these at the beginning of its own stream, each with an event id.
    pub(crate) fn tells(&self, news: Vec<Value>) {
        *self.shared.news.lock().unwrap() = news;
    }

    /// The server's own stream.
    fn speak(&self, writer: &mut TcpStream) {
        let is_mute = || *self.shared.manner.lock().unwrap() == Manner::Mute;
        let had_news = is_mute();
        while is_mute() {
            thread::sleep(Duration::from_millis(10));
        }
        let mut going = writer
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: here\n\n");
        if had_news {
            let news = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
            going = going.and_then(|()| write!(writer, "data: {news}\n\n"));
        }
        for (number, news) in self.shared.news.lock().unwrap().iter().enumerate() {
            going = going.and_then(|()| write!(writer, "id: e{number}\ndata: {news}\n\n"));
        }
        while going.is_ok() {
            thread::sleep(Duration::from_secs(30));
            going = writer.write_all(b": still here\n\n");
        }
    }

    /// Answers a call like a bad server; true if it did.
    fn misbehaves(&self, body: &[u8], writer: &mut TcpStream) -> bool {
        let manner = *self.shared.manner.lock().unwrap();
        let is_bad = matches!(manner, Manner::Drips | Manner::Floods | Manner::Fills);
        if matches!(manner, Manner::Wordy | Manner::WordyEvent) {
            return self.is_wordy(body, manner == Manner::WordyEvent, writer);
        }
        let Some(id) = is_bad.then(|| call_id(body)).flatten() else { return false };
        self.shared.calls.lock().unwrap().push("bad".to_owned());
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
        if manner == Manner::Drips {
            let mut going =
                writer.write_all(format!("{head}content-length: 1000000\r\n\r\n").as_bytes());
            while going.is_ok() {
                thread::sleep(Duration::from_millis(20));
                going = writer.write_all(b" ");
            }
            return true;
        }
        if manner == Manner::Fills {
            let filling = "{\"a\":[1,2,3]},".repeat((8 << 20) / 14);
            let body = format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[],\"x\":[{filling}1]}}}}"
            );
            let head = format!("{head}content-length: {}\r\n\r\n", body.len());
            let _ = writer.write_all((head + &body).as_bytes());
            return true;
        }
        let begin = format!(
            "{head}\r\n{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[],\"x\":\""
        );
        let mut going = writer.write_all(begin.as_bytes());
        let part = vec![b'x'; 64 * 1024];
        for _ in 0..200 * 16 {
            going = going.and_then(|()| writer.write_all(&part));
        }
        let _ = going.and_then(|()| writer.write_all(b"\"}}"));
        true
    }

    fn is_wordy(&self, body: &[u8], as_event: bool, writer: &mut TcpStream) -> bool {
        let message: Value = serde_json::from_slice(body).unwrap_or_default();
        if message["params"]["name"] != "other" {
            return false;
        }
        self.shared.calls.lock().unwrap().push("other".to_owned());
        let (before, after) = (
            format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"content\":[],\"structuredContent\":{{\"secret\":1,\"words\":\"",
                message["id"]
            ),
            "\"}}}",
        );
        let (kind, begin, end) = if as_event {
            ("text/event-stream", "data: ", "\n\n")
        } else {
            ("application/json", "", "")
        };
        let length = begin.len() + before.len() + WORDS.len() + after.len() + end.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{begin}{before}"
        );
        let parts = [head.as_bytes(), WORDS.as_bytes(), after.as_bytes(), end.as_bytes()];
        // A client that disconnects does not want the rest.
        let _ = parts.into_iter().try_for_each(|part| writer.write_all(part));
        true
    }

    fn request(&self, reader: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
        let mut first = String::new();
        reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
            self.shared.heads.lock().unwrap().push_str(&line);
            if line == "\r\n" {
                break;
            }
            if let Some(number) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = number.trim().parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        Some((first, body))
    }

    fn post(&self, body: &[u8]) -> String {
        let message: Value = serde_json::from_slice(body).unwrap_or_default();
        let Some(id) = message.get("id").filter(|_| message.get("method").is_some()) else {
            return "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_owned();
        };
        let own = ["initialize", "server/discover", "tools/list"];
        if own.iter().all(|method| message["method"] != *method) {
            self.look_at(body);
        }
        let answer = match self.result(&message) {
            Some(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            None => {
                json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "no" } })
            }
        };
        let text = answer.to_string();
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{text}",
            text.len()
        )
    }

    fn result(&self, message: &Value) -> Option<Value> {
        let manner = *self.shared.manner.lock().unwrap();
        let is_newer = matches!(manner, Manner::Newer | Manner::NewerAsks);
        Some(match message["method"].as_str()? {
            "tools/call"
                if manner == Manner::NewerAsks && message["params"]["requestState"].is_null() =>
            {
                json!({
                    "resultType": "input_required", "requestState": "s",
                    "inputRequests": { "q": { "method": "elicitation/create", "params": {
                        "mode": "form", "message": "who?",
                        "requestedSchema": { "type": "object", "properties": { "n": { "type": "string" } } },
                    } } },
                })
            }
            "initialize" if is_newer || manner == Manner::Asleep => return None,
            "server/discover" if is_newer => json!({
                "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} },
                "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            }),
            "initialize" => json!({
                "protocolVersion": "2025-06-18",
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "recorder", "version": "1" },
            }),
            "tools/list" if manner == Manner::Lists => {
                let page: usize =
                    message["params"]["cursor"].as_str().unwrap_or("0").parse().unwrap_or(0);
                let tools: Vec<Value> =
                    (0..100).map(|n| tool(&format!("t{page}-{n}"), "x")).collect();
                json!({ "tools": tools, "nextCursor": (page + 1).to_string() })
            }
            "tools/list" if manner == Manner::Pages => {
                let page: usize =
                    message["params"]["cursor"].as_str().unwrap_or("0").parse().unwrap();
                let tools = self.shared.tools.lock().unwrap();
                let more = (page + 1 < tools.len()).then(|| (page + 1).to_string());
                let mut result = json!({ "tools": [tools[page]] });
                result["nextCursor"] = more.map_or(json!(""), Value::from);
                result
            }
            "tools/list" => json!({ "tools": *self.shared.tools.lock().unwrap() }),
            "tools/call" => self.call(&message["params"]),
            "ping" => json!({}),
            _ => return None,
        })
    }

    fn call(&self, params: &Value) -> Value {
        let name = params["name"].as_str().unwrap_or_default();
        self.shared.calls.lock().unwrap().push(name.to_owned());
        while self.shared.hanging.lock().unwrap().contains(name) {
            thread::sleep(Duration::from_millis(50));
        }
        let nonce = params["arguments"]["nonce"].as_str().unwrap_or_default();
        json!({ "content": [{ "type": "text", "text": format!("ok {nonce}") }] })
    }
}

/// The id of a tool call.
fn call_id(body: &[u8]) -> Option<Value> {
    let message: Value = serde_json::from_slice(body).ok()?;
    (message["method"] == "tools/call").then(|| message["id"].clone())
}
