//! What an open page that follows the audit log costs the calls: the same load without it, with it, and without it
//! again, in one run.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{Build, Gate, get, sign_in, start};
use crate::bench::gate_settings::PROCESS;
use crate::bench::{Plan, Scratch, Started, compare_at, free_port, set_up, wait_for};

/// A browser asks for new rows at most so often.
const REFRESH: Duration = Duration::from_secs(1);

pub(super) fn compare(build: &Build) -> Result<()> {
    let upstream = free_port()?;
    let listen = format!("127.0.0.1:{upstream}");
    let _upstream =
        Started::silent(Command::new(&build.bench).args(["upstream", "--listen", &listen]))?;
    wait_for(upstream)?;
    let home = Scratch::new("tail")?;
    let token = set_up(&build.tollgate, &home.path, upstream, PROCESS, 0)?;
    let port = free_port()?;
    let (gate, link) = start(&build.tollgate, &home.path, port)?;
    let gate = Gate(gate);
    let cookie = sign_in(port, &link)?;
    let plan = Plan { sessions: "8".to_owned(), calls: 4_000, rounds: 3 };
    let url = format!("http://127.0.0.1:{port}/mcp/up");
    let load = |label: &str| {
        compare_at(&build.bench, upstream, &url, Some(&token), gate.0.id(), label, &plan)
    };
    println!();
    println!("| open page | sessions | p50 | p99 | throughput | CPU per call | memory |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    load("none")?;
    let tail = Tail::open(port, &cookie)?;
    load("follows the log")?;
    let refreshed = tail.close()?;
    load("none")?;
    println!();
    println!("The page was refreshed {refreshed} times.");
    Ok(())
}

/// An open page, as the browser's script keeps it.
struct Tail {
    is_over: Arc<AtomicBool>,
    refreshed: Arc<AtomicU32>,
    stream: TcpStream,
    thread: std::thread::JoinHandle<()>,
}

impl Tail {
    fn open(port: u16, cookie: &str) -> Result<Tail> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        write!(
            stream,
            "GET /events?audit=1 HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncookie: {cookie}\r\n\r\n"
        )?;
        let (is_over, refreshed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let lines = BufReader::new(stream.try_clone()?).lines();
        let (over, count, cookie) =
            (Arc::clone(&is_over), Arc::clone(&refreshed), cookie.to_owned());
        let thread = std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                if line.contains("\"audit\":true") && get(port, "/audit?live=1", &cookie).is_ok() {
                    count.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(REFRESH);
                }
            }
        });
        Ok(Tail { is_over, refreshed, stream, thread })
    }

    /// How often the page was refreshed.
    fn close(self) -> Result<u32> {
        self.is_over.store(true, Ordering::Relaxed);
        self.stream.shutdown(std::net::Shutdown::Both)?;
        self.thread.join().ok().context("the page ended with a panic")?;
        let refreshed = self.refreshed.load(Ordering::Relaxed);
        ensure!(refreshed > 0, "the page was never told that the log grew");
        Ok(refreshed)
    }
}
