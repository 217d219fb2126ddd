//! The listener, and the path of a request: count, fault, answer, deliver. One thread with its own
//! run-time serves a sandbox, so that it can be started from anywhere and ends with its handle.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::control;
use crate::counters::Tally;
use crate::fake::Fake;
use crate::faults::{Faults, Struck};
use crate::http::Asked;

mod deliver;

use deliver::{Outgoing, respond};

/// Everything that a request may reach.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) url: String,
    pub(crate) clock: Clock,
    pub(crate) tally: Tally,
    pub(crate) faults: Faults,
    pub(crate) fake: Fake,
}

/// The thread that serves; ends when dropped.
#[derive(Debug)]
pub(crate) struct Serving {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic over there was reported over there.
            let _ = thread.join();
        }
    }
}

pub(crate) fn listen(bind: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(bind)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

pub(crate) fn serve(listener: TcpListener, state: Arc<State>) -> io::Result<Serving> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = {
        let _inside = runtime.enter();
        tokio::net::TcpListener::from_std(listener)?
    };
    let (stop, stopped) = oneshot::channel();
    let thread = std::thread::Builder::new().name("sandbox".to_owned()).spawn(move || {
        runtime.block_on(async move {
            tokio::select! {
                () = accept(listener, state) => {}
                _ = stopped => {}
            }
        });
    })?;
    Ok(Serving { stop: Some(stop), thread: Some(thread) })
}

async fn accept(listener: tokio::net::TcpListener, state: Arc<State>) {
    loop {
        // Out of file descriptors is the only way this fails; others may be closed by then.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(Arc::clone(&state), request));
            // A client that goes away in the middle is no news here.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(
    state: Arc<State>,
    request: Request<Incoming>,
) -> Result<Response<Outgoing>, io::Error> {
    let Some(asked) = Asked::gather(request).await else { return Err(hung_up()) };
    if let Some(reply) = control::answer(&state, &asked).await {
        return Ok(respond(reply, &Struck::none()));
    }
    let underway = state.tally.begin(&asked);
    let struck = state.faults.strike(&asked);
    if struck.any() {
        state.tally.fault();
    }
    let problem = |status, words: &str| state.fake.problem(&asked, status, words);
    let reply = match struck.instead(problem) {
        Some(reply) => reply,
        None => state.fake.answer(&asked, state.clock.now_us()),
    };
    let reply = if struck.repeats_token() { state.fake.repeat_token(&asked, reply) } else { reply };
    let reply = struck.spoil(reply);
    let delay = struck.delay();
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    if struck.hangs_up() {
        return Err(hung_up());
    }
    underway.answered(&reply);
    Ok(respond(reply, &struck))
}

fn hung_up() -> io::Error {
    io::Error::other("hung up without an answer")
}
