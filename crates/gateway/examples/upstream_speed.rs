//! How much an HTTP link costs over a bare socket: the same few bytes there and back, on one thread
//! each side. Run it with `cargo run --release -p gateway --example upstream_speed`.
#![expect(clippy::print_stdout, reason = "the figures are printed for people")]

use std::error::Error;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use bytes::Bytes;
use gateway::upstream::{HttpLink, HttpOptions, HttpServer, Permit, Reply, UpstreamMessage};
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use mcp::{Id, request_body};
use store::clock::Clock;
use store::ledger::{Facts, Ledger, Options};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const CALLS: usize = 20_000;
const WARM_UP: usize = 2_000;

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let (http, bare) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
    let url = format!("http://{}/mcp", http.local_addr()?);
    let bare_address = bare.local_addr()?;
    std::thread::spawn(move || runtime()?.block_on(serve(http)));
    std::thread::spawn(move || runtime()?.block_on(echo(bare)));
    let folder = std::env::temp_dir().join(format!("upstream-speed-{}", std::process::id()));
    let ledger = Ledger::open(&folder, Clock::System, Options::default())?;
    let permit = ledger.admit_without_policy(&Facts::default())?;
    runtime()?.block_on(async {
        show("bare socket", bare_calls(TcpStream::connect(bare_address).await?).await?);
        show("http link", link_calls(&permit, &url).await?);
        Ok::<(), Failure>(())
    })?;
    drop(permit);
    drop(ledger);
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

fn show(what: &str, mut waits: Vec<Duration>) {
    waits.sort();
    let at = |share: usize| waits.get(waits.len() * share / 100).copied().unwrap_or_default();
    println!("{what}: p50 {:?}, p99 {:?}", at(50), at(99));
}

fn body(number: usize) -> (Id, Bytes) {
    let id = Id::number(number as u64);
    let params = "{\"name\":\"echo\",\"arguments\":{\"text\":\"hello\"}}";
    let body = request_body(&id, "tools/call", Some(params));
    (id, body.into())
}

async fn bare_calls(mut socket: TcpStream) -> Result<Vec<Duration>, Failure> {
    socket.set_nodelay(true)?;
    let mut waits = Vec::with_capacity(CALLS);
    let mut buffer = vec![0; 4096];
    for number in 0..WARM_UP + CALLS {
        // About as many bytes as the link sends with its headers.
        let message = [body(number).1.as_ref(), &[b' '; 200]].concat();
        let began = Instant::now();
        socket.write_all(&message).await?;
        let answer = buffer.get_mut(..message.len()).ok_or("the buffer is too small")?;
        socket.read_exact(answer).await?;
        waits.push(began.elapsed());
    }
    Ok(waits.split_off(WARM_UP))
}

async fn link_calls(permit: &Permit, url: &str) -> Result<Vec<Duration>, Failure> {
    let link = HttpLink::new(HttpServer::new(HttpOptions::new(url.parse()?))?);
    let mut waits = Vec::with_capacity(CALLS);
    for number in 0..WARM_UP + CALLS {
        let (id, body) = body(number);
        let out = UpstreamMessage::request(id, body);
        let began = Instant::now();
        let Reply::One { .. } = link.request(permit, out).await? else {
            return Err("not one answer".into());
        };
        waits.push(began.elapsed());
    }
    Ok(waits.split_off(WARM_UP))
}

/// Echoes the request body.
async fn serve(listener: TcpListener) -> Result<(), Failure> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let answer = service_fn(|request: Request<hyper::body::Incoming>| async move {
            let body = request.into_body().collect().await?.to_bytes();
            let answer = Response::builder().header("content-type", "application/json");
            answer.body(Full::new(body)).map_err(Failure::from)
        });
        hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(socket), answer)
            .await?;
    }
}

async fn echo(listener: TcpListener) -> Result<(), Failure> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let (mut socket, _) = listener.accept().await?;
    socket.set_nodelay(true)?;
    let mut buffer = vec![0; 4096];
    loop {
        let bytes = socket.read(&mut buffer).await?;
        if bytes == 0 {
            return Ok(());
        }
        socket.write_all(buffer.get(..bytes).unwrap_or_default()).await?;
    }
}
