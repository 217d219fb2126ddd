//! The HTTP server: accepts connections and runs each request through counters, faults, service and
//! delivery. A sandbox has its own thread and runtime, so that it can be started from any context.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::sync::oneshot;

use crate::control;
use crate::faults::ActiveFaults;
use crate::http::{Request, Response};
use crate::state::State;

mod deliver;

use deliver::{Outgoing, respond};

/// The server thread; stops when dropped.
#[derive(Debug)]
pub(crate) struct Serving {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The panic hook has already reported a panic of that thread.
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
    serve_with(listener, move |listener| {
        accept(listener, move |request| answer(Arc::clone(&state), request))
    })
}

/// Serves a function of the request, without counters and faults.
pub(crate) fn serve_function(
    listener: TcpListener,
    answer: impl Fn(&Request) -> Response + Send + Sync + 'static,
) -> io::Result<Serving> {
    let answer = Arc::new(answer);
    serve_with(listener, move |listener| {
        accept(listener, move |request| {
            let answer = Arc::clone(&answer);
            async move {
                let Some(request) = Request::read(request).await else { return Err(hung_up()) };
                Ok(respond(answer(&request), &ActiveFaults::none()))
            }
        })
    })
}

/// Runs a server of any kind on its own thread.
pub(crate) fn serve_with<F>(
    listener: TcpListener,
    accept: impl FnOnce(tokio::net::TcpListener) -> F + Send + 'static,
) -> io::Result<Serving>
where
    F: Future<Output = ()>,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = {
        let _inside = runtime.enter();
        tokio::net::TcpListener::from_std(listener)?
    };
    let (stop, stopped) = oneshot::channel();
    let thread = std::thread::Builder::new().name("sandbox".to_owned()).spawn(move || {
        runtime.block_on(async move {
            tokio::select! {
                () = accept(listener) => {}
                _ = stopped => {}
            }
        });
    })?;
    Ok(Serving { stop: Some(stop), thread: Some(thread) })
}

async fn accept<F>(
    listener: tokio::net::TcpListener,
    answer: impl Fn(hyper::Request<Incoming>) -> F + Clone + Send + 'static,
) where
    F: Future<Output = Result<hyper::Response<Outgoing>, io::Error>> + Send,
{
    loop {
        // Accepting fails when file descriptors run out; some may be free after a pause.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let answer = answer.clone();
        tokio::spawn(async move {
            let service = service_fn(answer);
            // A client that disconnects is not an error here.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(
    state: Arc<State>,
    incoming: hyper::Request<Incoming>,
) -> Result<hyper::Response<Outgoing>, io::Error> {
    let Some(request) = Request::read(incoming).await else { return Err(hung_up()) };
    if let Some(response) = control::answer(&state, &request).await {
        return Ok(respond(response, &ActiveFaults::none()));
    }
    let in_flight = state.counters.begin(&request);
    let active = state.faults.take_matching(&request);
    if active.any() {
        state.counters.fault();
    }
    let problem = |status, message: &str| state.service.problem(&request, status, message);
    let response = match active.replacement(problem) {
        Some(response) => response,
        None => state.service.answer(&request, state.clock.now_us()),
    };
    let response = if active.repeats_token() {
        state.service.repeat_token(&request, response)
    } else {
        response
    };
    let response = active.corrupt(response);
    let delay = active.delay();
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    if active.hangs_up() {
        return Err(hung_up());
    }
    in_flight.answered(&response);
    Ok(respond(response, &active))
}

fn hung_up() -> io::Error {
    io::Error::other("closed the connection without a response")
}
