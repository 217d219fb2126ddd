//! A server on loopback that sends exactly the bytes of a test, however wrong they are.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use gateway::upstream::{HttpLink, HttpOptions, HttpServer, UpstreamMessage};
use mcp::{Id, request_body};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A request as received. Header names are in lower case.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    pub target: String,
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

/// One connection, from the server's side.
pub struct Wire {
    socket: TcpStream,
    buffer: Vec<u8>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Wire {
    /// The next request; `None` once the client has closed.
    pub async fn request(&mut self) -> Option<Seen> {
        let head_end = loop {
            if let Some(at) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            self.more().await?;
        };
        let head = String::from_utf8(self.buffer[..head_end].to_vec()).unwrap();
        let mut lines = head.lines();
        let mut words = lines.next().unwrap().split(' ');
        let (method, target) = (words.next().unwrap().to_owned(), words.next().unwrap().to_owned());
        let headers: BTreeMap<String, String> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect();
        let length: usize =
            headers.get("content-length").map_or(0, |length| length.parse().unwrap());
        while self.buffer.len() < head_end + length {
            self.more().await?;
        }
        let body = String::from_utf8(self.buffer[head_end..head_end + length].to_vec()).unwrap();
        self.buffer.drain(..head_end + length);
        let seen = Seen { method, target, headers, body };
        self.seen.lock().unwrap().push(seen.clone());
        Some(seen)
    }

    async fn more(&mut self) -> Option<()> {
        match self.socket.read_buf(&mut self.buffer).await {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(()),
        }
    }

    /// Sends these bytes; false once the client has closed.
    pub async fn say(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.socket.write_all(bytes.as_ref()).await.is_ok()
    }

    /// Responds with JSON of a known length.
    pub async fn json(&mut self, body: &str) -> bool {
        let length = body.len();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
        self.say(format!("{head}content-length: {length}\r\n\r\n{body}")).await
    }

    /// Starts an event stream.
    pub async fn stream(&mut self) -> bool {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
        self.say(format!("{head}transfer-encoding: chunked\r\n\r\n")).await
    }

    /// Sends one chunk of a stream.
    pub async fn chunk(&mut self, text: &str) -> bool {
        self.say(format!("{:x}\r\n{text}\r\n", text.len())).await
    }

    /// Sends one event of a stream.
    pub async fn event(&mut self, data: &str) -> bool {
        self.chunk(&format!("data: {data}\n\n")).await
    }

    pub async fn end_of_stream(&mut self) -> bool {
        self.say("0\r\n\r\n").await
    }

    /// Waits until the client closes; false after five seconds.
    pub async fn is_hung_up(&mut self) -> bool {
        let closed = async { while self.more().await.is_some() {} };
        tokio::time::timeout(Duration::from_secs(5), closed).await.is_ok()
    }
}

/// A server that runs one function per connection.
pub struct Fake {
    pub port: u16,
    connections: Arc<AtomicUsize>,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<()>,
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Fake {
    pub async fn new<F, R>(script: F) -> Fake
    where
        F: Fn(Wire) -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (connections, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (count, all) = (Arc::clone(&connections), Arc::clone(&seen));
        let task = tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                socket.set_nodelay(true).unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(script(Wire { socket, buffer: Vec::new(), seen: Arc::clone(&all) }));
            }
        });
        Fake { port, connections, seen, task }
    }

    /// A server that responds to every request with its own body.
    pub async fn echo() -> Fake {
        Fake::new(|mut wire| async move {
            while let Some(seen) = wire.request().await {
                wire.json(&seen.body).await;
            }
        })
        .await
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub fn options(&self) -> HttpOptions {
        let url = format!("http://127.0.0.1:{}/mcp?key=1", self.port);
        let mut options = HttpOptions::new(url.parse().unwrap());
        // A test that waits in vain must not wait long.
        options.waits.first_byte_max = Duration::from_secs(10);
        options
    }

    pub fn link(&self) -> HttpLink {
        HttpLink::new(HttpServer::new(self.options()).unwrap())
    }
}

/// A request with a numeric id.
pub fn request(id: u64) -> UpstreamMessage {
    let id = Id::number(id);
    let body = request_body(&id, "tools/call", Some("{\"name\":\"echo\"}"));
    UpstreamMessage::request(id, Bytes::from(body))
}

/// The response to that request.
pub fn answer(id: u64) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}")
}

/// The single message of a reply.
pub fn one(reply: gateway::upstream::Reply) -> (u16, String) {
    match reply {
        gateway::upstream::Reply::One { status, body } => {
            (status, String::from_utf8(body.to_vec()).unwrap())
        }
        gateway::upstream::Reply::Many(_) => panic!("a stream instead of one message"),
        _ => panic!("nothing instead of one message"),
    }
}

/// The stream of a reply.
pub fn many(reply: gateway::upstream::Reply) -> gateway::upstream::Events {
    match reply {
        gateway::upstream::Reply::Many(events) => events,
        gateway::upstream::Reply::Accepted => panic!("nothing instead of a stream"),
        _ => panic!("one message instead of a stream"),
    }
}
