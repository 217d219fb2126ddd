//! An MCP client that does only what the benchmark needs, over streamable HTTP or over stdio.

use std::net::{SocketAddr, ToSocketAddrs};
use std::process::Stdio;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::events::{event_data, event_end};

/// Where to send calls, and how.
#[derive(Clone, Debug)]
pub struct Target {
    pub kind: Kind,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub protocol: String,
    pub timeout: Duration,
}

#[derive(Clone, Debug)]
pub enum Kind {
    Http { addr: SocketAddr, host: String, path: String },
    Stdio { command: Vec<String> },
}

impl Target {
    /// `url` must be plain http, and on loopback unless `allow_remote`.
    pub fn http(url: &str, allow_remote: bool) -> Result<Kind, String> {
        let rest = url.strip_prefix("http://").ok_or("only http:// URLs are supported")?;
        let (host, path) = match rest.find('/') {
            Some(i) => (&rest[..i], &rest[i..]),
            None => (rest, "/"),
        };
        let with_port = if host.contains(':') { host.to_string() } else { format!("{host}:80") };
        let addr = with_port
            .to_socket_addrs()
            .map_err(|e| format!("{host}: {e}"))?
            .find(|a| a.is_ipv4())
            .ok_or_else(|| format!("{host}: no IPv4 address"))?;
        if !addr.ip().is_loopback() && !allow_remote {
            return Err(format!("{addr} is not on loopback (give --allow-remote to insist)"));
        }
        Ok(Kind::Http { addr, host: host.to_string(), path: path.to_string() })
    }
}

#[derive(Debug)]
pub enum Failure {
    Connect(String),
    Status(u16, String),
    Rpc(String),
    Tool(String),
    Mismatch(String),
    Timeout,
    Closed(String),
}

impl Failure {
    pub fn kind(&self) -> &'static str {
        match self {
            Failure::Connect(_) => "connect",
            Failure::Status(..) => "http-status",
            Failure::Rpc(_) => "rpc-error",
            Failure::Tool(_) => "tool-error",
            Failure::Mismatch(_) => "mismatch",
            Failure::Timeout => "timeout",
            Failure::Closed(_) => "closed",
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cut = |s: &str| s.chars().take(300).collect::<String>();
        match self {
            Failure::Status(code, text) => write!(f, "HTTP {code}: {}", cut(text)),
            Failure::Timeout => write!(f, "timed out"),
            Failure::Connect(s)
            | Failure::Rpc(s)
            | Failure::Tool(s)
            | Failure::Mismatch(s)
            | Failure::Closed(s) => write!(f, "{}: {}", self.kind(), cut(s)),
        }
    }
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// The `result` of the answer to `id`, or None when this message is something else.
fn answer(message: &[u8], id: u64) -> Result<Option<Box<RawValue>>, Failure> {
    let e: Envelope = match serde_json::from_slice(message) {
        Ok(e) => e,
        Err(err) => {
            return Err(Failure::Mismatch(format!(
                "{err} in {}",
                String::from_utf8_lossy(message)
            )));
        }
    };
    let mine = e.id.is_some_and(|v| v.get().trim_matches('"').parse::<u64>() == Ok(id));
    if !mine {
        // An error with a null id answers a message that could not be read.
        return match (e.error, e.result) {
            (Some(err), None) => Err(Failure::Rpc(err.get().to_string())),
            _ => Ok(None),
        };
    }
    match (e.result, e.error) {
        (Some(r), _) => Ok(Some(r.to_owned())),
        (None, Some(err)) => Err(Failure::Rpc(err.get().to_string())),
        (None, None) => Err(Failure::Mismatch("neither result nor error".into())),
    }
}

pub struct Client {
    target: Target,
    link: Link,
    session: Option<HeaderValue>,
    negotiated: Option<HeaderValue>,
    next_id: u64,
    /// Connections opened beyond the first.
    pub reconnects: u64,
    pub sse_answers: u64,
}

enum Link {
    None,
    Http(SendRequest<Full<Bytes>>),
    Stdio { _child: Box<Child>, stdin: ChildStdin, stdout: BufReader<ChildStdout> },
}

impl Client {
    pub fn new(target: Target) -> Client {
        Client {
            target,
            link: Link::None,
            session: None,
            negotiated: None,
            next_id: 0,
            reconnects: 0,
            sse_answers: 0,
        }
    }

    async fn connect(&mut self) -> Result<(), Failure> {
        let first = matches!(self.link, Link::None);
        if let Link::Http(s) = &mut self.link {
            if !s.is_closed() && s.ready().await.is_ok() {
                return Ok(());
            }
            self.reconnects += 1;
        }
        match &self.target.kind {
            Kind::Http { addr, .. } => {
                let stream =
                    TcpStream::connect(addr).await.map_err(|e| Failure::Connect(e.to_string()))?;
                let _ = stream.set_nodelay(true);
                let (sender, connection) =
                    hyper::client::conn::http1::handshake(TokioIo::new(stream))
                        .await
                        .map_err(|e| Failure::Connect(e.to_string()))?;
                tokio::spawn(async move {
                    let _ = connection.await;
                });
                self.link = Link::Http(sender);
            }
            Kind::Stdio { command } => {
                if !first {
                    return Ok(());
                }
                let mut child = Command::new(&command[0])
                    .args(&command[1..])
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::null())
                    .kill_on_drop(true)
                    .spawn()
                    .map_err(|e| Failure::Connect(format!("{}: {e}", command[0])))?;
                let stdin = child.stdin.take().expect("piped");
                let stdout = BufReader::new(child.stdout.take().expect("piped"));
                self.link = Link::Stdio { _child: Box::new(child), stdin, stdout };
            }
        }
        Ok(())
    }

    fn request(&self, body: Bytes, method: Method) -> Request<Full<Bytes>> {
        let Kind::Http { host, path, .. } = &self.target.kind else { unreachable!() };
        let mut r = Request::new(Full::new(body));
        *r.method_mut() = method;
        *r.uri_mut() = path.parse().expect("a path");
        let h = r.headers_mut();
        h.insert(HOST, HeaderValue::from_str(host).expect("ascii host"));
        h.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        h.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        if let Some(s) = &self.session {
            h.insert("mcp-session-id", s.clone());
        }
        if let Some(v) = &self.negotiated {
            h.insert("mcp-protocol-version", v.clone());
        }
        for (k, v) in &self.target.headers {
            h.insert(k.clone(), v.clone());
        }
        r
    }

    /// Sends one message; with `id` waits for its answer.
    async fn exchange(
        &mut self,
        body: Bytes,
        id: Option<u64>,
    ) -> Result<Option<Box<RawValue>>, Failure> {
        let limit = self.target.timeout;
        match tokio::time::timeout(limit, self.exchange_inner(body, id)).await {
            Ok(r) => r,
            Err(_) => {
                if matches!(self.link, Link::Http(_)) {
                    self.link = Link::None;
                    self.reconnects += 1;
                }
                Err(Failure::Timeout)
            }
        }
    }

    async fn exchange_inner(
        &mut self,
        body: Bytes,
        id: Option<u64>,
    ) -> Result<Option<Box<RawValue>>, Failure> {
        self.connect().await?;
        if let Link::Stdio { stdin, stdout, .. } = &mut self.link {
            let mut line = BytesMut::with_capacity(body.len() + 1);
            line.extend_from_slice(&body);
            line.extend_from_slice(b"\n");
            stdin.write_all(&line).await.map_err(|e| Failure::Closed(e.to_string()))?;
            stdin.flush().await.map_err(|e| Failure::Closed(e.to_string()))?;
            let Some(id) = id else { return Ok(None) };
            let mut text = String::new();
            loop {
                text.clear();
                let n = stdout
                    .read_line(&mut text)
                    .await
                    .map_err(|e| Failure::Closed(e.to_string()))?;
                if n == 0 {
                    return Err(Failure::Closed("end of output".into()));
                }
                if !text.trim_start().starts_with('{') {
                    continue;
                }
                if let Some(r) = answer(text.trim().as_bytes(), id)? {
                    return Ok(Some(r));
                }
            }
        }
        let request = self.request(body, Method::POST);
        let Link::Http(sender) = &mut self.link else { unreachable!() };
        let response =
            sender.send_request(request).await.map_err(|e| Failure::Closed(e.to_string()))?;
        self.read(response, id).await
    }

    async fn read(
        &mut self,
        response: Response<Incoming>,
        id: Option<u64>,
    ) -> Result<Option<Box<RawValue>>, Failure> {
        let code = response.status();
        if self.session.is_none() {
            self.session = response.headers().get("mcp-session-id").cloned();
        }
        let sse = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|v| v.to_str().ok())
            .is_some_and(|v| v.starts_with("text/event-stream"));
        let mut body = response.into_body();
        if !code.is_success() {
            let text = body.collect().await.map(|b| b.to_bytes()).unwrap_or_default();
            return Err(Failure::Status(
                code.as_u16(),
                String::from_utf8_lossy(&text).into_owned(),
            ));
        }
        let Some(id) = id else {
            let _ = body.collect().await;
            return Ok(None);
        };
        if !sse {
            let bytes =
                body.collect().await.map_err(|e| Failure::Closed(e.to_string()))?.to_bytes();
            return match answer(&bytes, id)? {
                Some(r) => Ok(Some(r)),
                None => Err(Failure::Mismatch(String::from_utf8_lossy(&bytes).into_owned())),
            };
        }
        self.sse_answers += 1;
        let mut buffer: Vec<u8> = Vec::new();
        let mut found = None;
        while found.is_none() {
            let frame = match body.frame().await {
                Some(f) => f.map_err(|e| Failure::Closed(e.to_string()))?,
                None => return Err(Failure::Closed("stream ended without an answer".into())),
            };
            if let Some(data) = frame.data_ref() {
                buffer.extend_from_slice(data);
            }
            while let Some((end, skip)) = event_end(&buffer) {
                let data = event_data(&buffer[..end]);
                buffer.drain(..end + skip);
                if !data.is_empty()
                    && let Some(r) = answer(&data, id)?
                {
                    found = Some(r);
                }
            }
        }
        // The server ends the stream after the answer; one that does not costs a new connection.
        let rest = async { while let Some(Ok(_)) = body.frame().await {} };
        if tokio::time::timeout(Duration::from_millis(250), rest).await.is_err() {
            self.link = Link::None;
            self.reconnects += 1;
        }
        Ok(found)
    }

    /// The handshake, then the name of the tool to call: `wanted` itself, or the one that ends so
    /// after a separator, as gateways prefix names.
    pub async fn open(&mut self, wanted: &str) -> Result<String, Failure> {
        let id = self.id();
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{{"protocolVersion":"{}","capabilities":{{}},"clientInfo":{{"name":"mcpbench","version":"0.1.0"}}}}}}"#,
            self.target.protocol
        );
        let result = self.exchange(body.into(), Some(id)).await?.expect("an answer");
        #[derive(Deserialize)]
        struct Init {
            #[serde(rename = "protocolVersion")]
            version: String,
        }
        let init: Init = serde_json::from_str(result.get())
            .map_err(|e| Failure::Mismatch(format!("initialize: {e}")))?;
        self.negotiated = HeaderValue::from_str(&init.version).ok();
        self.exchange(
            Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
            None,
        )
        .await?;
        let names = self.list().await?;
        let suffix = |n: &str| {
            n.strip_suffix(wanted)
                .is_some_and(|p| p.ends_with(|c: char| !c.is_ascii_alphanumeric()))
        };
        names
            .iter()
            .find(|n| *n == wanted)
            .or_else(|| names.iter().find(|n| suffix(n)))
            .cloned()
            .ok_or_else(|| Failure::Mismatch(format!("no tool {wanted} among {names:?}")))
    }

    pub async fn list(&mut self) -> Result<Vec<String>, Failure> {
        let id = self.id();
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list","params":{{}}}}"#);
        let result = self.exchange(body.into(), Some(id)).await?.expect("an answer");
        #[derive(Deserialize)]
        struct Tool {
            name: String,
        }
        #[derive(Deserialize)]
        struct List {
            tools: Vec<Tool>,
        }
        let list: List = serde_json::from_str(result.get())
            .map_err(|e| Failure::Mismatch(format!("tools/list: {e}")))?;
        Ok(list.tools.into_iter().map(|t| t.name).collect())
    }

    /// One `tools/call` of the echo tool; checks that the text comes back.
    pub async fn call(&mut self, tool: &str, text: &str, nonce: &str) -> Result<(), Failure> {
        let id = self.id();
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{"text":"{nonce}{text}"}}}}}}"#
        );
        let result = self.exchange(body.into(), Some(id)).await?.expect("an answer");
        let r = result.get();
        if !r.contains(nonce) {
            return Err(Failure::Mismatch(r.to_string()));
        }
        #[derive(Deserialize)]
        struct Outcome {
            #[serde(rename = "isError", default)]
            error: Option<bool>,
        }
        match serde_json::from_str::<Outcome>(r) {
            Ok(Outcome { error: Some(true) }) => Err(Failure::Tool(r.to_string())),
            Ok(_) => Ok(()),
            Err(e) => Err(Failure::Mismatch(e.to_string())),
        }
    }

    /// Ends the session, as a well-behaved client does.
    pub async fn close(&mut self) {
        if self.session.is_none() || !matches!(self.link, Link::Http(_)) {
            return;
        }
        let request = self.request(Bytes::new(), Method::DELETE);
        if let Link::Http(sender) = &mut self.link
            && sender.ready().await.is_ok()
        {
            let sent = sender.send_request(request);
            let _ = tokio::time::timeout(Duration::from_secs(2), sent).await;
        }
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        assert!(answer(br#"{"jsonrpc":"2.0","id":7,"result":{}}"#, 7).unwrap().is_some());
        assert!(answer(br#"{"jsonrpc":"2.0","id":"7","result":{}}"#, 7).unwrap().is_some());
        assert!(answer(br#"{"jsonrpc":"2.0","method":"x"}"#, 7).unwrap().is_none());
        assert!(
            answer(br#"{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"m"}}"#, 7).is_err()
        );
    }
}
