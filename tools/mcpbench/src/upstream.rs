//! A minimal MCP server over streamable HTTP, made so as never to be the bottleneck.
//!
//! It answers `initialize`, `ping`, `tools/list` and `tools/call`; accepts every notification;
//! refuses GET with 405 (which the specification allows) unless `--get-stream` is given; and
//! echoes arguments without decoding them.

use std::borrow::Cow;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Frame, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

use crate::args::Args;

const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

type Body = BoxBody<Bytes, Infallible>;

struct Server {
    sse: bool,
    stateless: bool,
    get_stream: bool,
    verbose: bool,
    delay: Duration,
    tools_list: String,
    next_session: AtomicU64,
    calls: AtomicU64,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct CallParams<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct EchoArguments<'a> {
    #[serde(borrow)]
    text: &'a RawValue,
}

#[derive(Deserialize)]
struct InitParams<'a> {
    #[serde(rename = "protocolVersion", borrow)]
    protocol_version: Cow<'a, str>,
}

fn tools_list(extra: usize) -> String {
    let echo = r#"{"name":"echo","description":"Returns its text argument.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}"#;
    let mut out = format!(r#"{{"tools":[{echo}"#);
    for n in 0..extra {
        out.push_str(&format!(
            r#",{{"name":"filler_{n}","description":"Filler tool number {n}; it does nothing but take room in the list.","inputSchema":{{"type":"object","properties":{{"a":{{"type":"string"}},"b":{{"type":"integer"}}}}}}}}"#
        ));
    }
    out.push_str("]}");
    out
}

fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).boxed()
}

fn status(code: StatusCode) -> Response<Body> {
    let mut r = Response::new(full(Bytes::new()));
    *r.status_mut() = code;
    r
}

impl Server {
    fn reply(&self, id: &RawValue, result: &str) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":{},"result":{}}}"#, id.get(), result)
    }

    fn error(&self, id: &RawValue, code: i32, message: &str) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":{code},"message":"{message}"}}}}"#,
            id.get()
        )
    }

    fn envelope(&self, json: String) -> Response<Body> {
        let (kind, text) = if self.sse {
            ("text/event-stream", format!("event: message\ndata: {json}\n\n"))
        } else {
            ("application/json", json)
        };
        let mut r = Response::new(full(text));
        r.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        r
    }

    async fn handle(&self, req: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        let method = req.method().clone();
        if method == Method::GET && self.get_stream {
            // An idle stream of server messages, as a server with notifications would offer.
            let idle = http_body_util::StreamBody::new(Idle);
            let mut r = Response::new(idle.boxed());
            r.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
            return Ok(r);
        }
        if method == Method::DELETE {
            return Ok(status(StatusCode::OK));
        }
        if method != Method::POST {
            let mut r = status(StatusCode::METHOD_NOT_ALLOWED);
            r.headers_mut().insert(ALLOW, HeaderValue::from_static("POST, DELETE"));
            return Ok(r);
        }
        let body = match req.into_body().collect().await {
            Ok(b) => b.to_bytes(),
            Err(_) => return Ok(status(StatusCode::BAD_REQUEST)),
        };
        let message: Message = match serde_json::from_slice(&body) {
            Ok(m) => m,
            Err(_) => return Ok(status(StatusCode::BAD_REQUEST)),
        };
        if self.verbose {
            eprintln!("<- {}", String::from_utf8_lossy(&body));
        }
        let Some(text) = self.respond(&message).await else {
            return Ok(status(StatusCode::ACCEPTED));
        };
        let mut response = self.envelope(text);
        if message.method.as_deref() == Some("initialize") && !self.stateless {
            let n = self.next_session.fetch_add(1, Ordering::Relaxed);
            let value = HeaderValue::from_str(&format!("bench-{n:016x}")).expect("ascii");
            response.headers_mut().insert("mcp-session-id", value);
        }
        Ok(response)
    }

    /// The answer to a request; None to a notification.
    async fn respond(&self, message: &Message<'_>) -> Option<String> {
        let (method, id) = (message.method.as_ref()?, message.id?);
        Some(match method.as_ref() {
            "tools/call" => self.call(id, message.params).await,
            "tools/list" => self.reply(id, &self.tools_list),
            "ping" => self.reply(id, "{}"),
            "initialize" => {
                let asked = message
                    .params
                    .and_then(|p| serde_json::from_str::<InitParams>(p.get()).ok())
                    .map(|p| p.protocol_version.into_owned())
                    .unwrap_or_default();
                let version = VERSIONS.iter().find(|v| **v == asked).unwrap_or(&VERSIONS[3]);
                self.reply(
                    id,
                    &format!(
                        r#"{{"protocolVersion":"{version}","capabilities":{{"tools":{{"listChanged":false}}}},"serverInfo":{{"name":"mcpbench-upstream","version":"0.1.0"}}}}"#
                    ),
                )
            }
            _ => self.error(id, -32601, "method not found"),
        })
    }

    async fn call(&self, id: &RawValue, params: Option<&RawValue>) -> String {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
        let Some(call) = params.and_then(|p| serde_json::from_str::<CallParams>(p.get()).ok())
        else {
            return self.error(id, -32602, "invalid params");
        };
        if call.name != "echo" {
            return self.reply(id, r#"{"content":[{"type":"text","text":"ok"}],"isError":false}"#);
        }
        let echo = call.arguments.and_then(|a| serde_json::from_str::<EchoArguments>(a.get()).ok());
        match echo {
            Some(e) => self.reply(
                id,
                &format!(
                    r#"{{"content":[{{"type":"text","text":{}}}],"isError":false}}"#,
                    e.text.get()
                ),
            ),
            None => self.error(id, -32602, "echo needs a text argument"),
        }
    }
}

/// A stream that never yields, for `--get-stream`.
struct Idle;

impl futures_core::Stream for Idle {
    type Item = Result<Frame<Bytes>, Infallible>;
    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Pending
    }
}

pub async fn run(args: &Args) -> Result<(), String> {
    args.known(&[
        "listen",
        "stdio",
        "sse",
        "stateless",
        "get-stream",
        "delay-us",
        "tools",
        "verbose",
    ])?;
    let listen: SocketAddr = args
        .get("listen")
        .unwrap_or("127.0.0.1:9100")
        .parse()
        .map_err(|e| format!("--listen: {e}"))?;
    let server = Arc::new(Server {
        sse: args.has("sse"),
        stateless: args.has("stateless"),
        get_stream: args.has("get-stream"),
        verbose: args.has("verbose"),
        delay: Duration::from_micros(args.num("delay-us", 0)?),
        tools_list: tools_list(args.num("tools", 0)?),
        next_session: AtomicU64::new(1),
        calls: AtomicU64::new(0),
    });
    if args.has("stdio") {
        return stdio(&server).await;
    }
    let listener = TcpListener::bind(listen).await.map_err(|e| format!("{listen}: {e}"))?;
    println!("upstream on http://{listen}/mcp");
    loop {
        let (stream, _) = match listener.accept().await {
            Ok(x) => x,
            Err(_) => continue,
        };
        let _ = stream.set_nodelay(true);
        let server = server.clone();
        tokio::spawn(async move {
            let service = service_fn(move |req| {
                let server = server.clone();
                async move { server.handle(req).await }
            });
            let _ = hyper::server::conn::http1::Builder::new()
                .keep_alive(true)
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// The same server over standard input and output, one message a line.
async fn stdio(server: &Server) -> Result<(), String> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut out = tokio::io::stdout();
    while let Some(line) = lines.next_line().await.map_err(|e| e.to_string())? {
        let Ok(message) = serde_json::from_str::<Message>(&line) else { continue };
        if let Some(mut text) = server.respond(&message).await {
            text.push('\n');
            out.write_all(text.as_bytes()).await.map_err(|e| e.to_string())?;
            out.flush().await.map_err(|e| e.to_string())?;
        }
    }
    Ok(())
}
