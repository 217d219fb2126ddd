//! The threads that carry connections. Each has a runtime of its own, and a connection stays on the
//! thread it was given to, together with the connections to servers it opens: answering a call wakes
//! nobody on another core.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

/// Sockets are looked at often, so that one busy conversation does not starve the others.
const TASKS_BETWEEN_LOOKS: u32 = 13;
/// How much nicer others are to a lane than it is to them, where the system allows it. Each answer wakes
/// its client, and each request its server, and the system likes to run them on the core they were woken
/// from: a busy lane loses its core to them seven times in fifty calls, though another is free.
const PRECEDENCE: i32 = 5;
/// How long tasks that were let go may take to write their rows.
const END_WAIT_MAX: Duration = Duration::from_millis(200);

pub(crate) struct Lanes {
    lanes: Vec<Lane>,
    next: AtomicUsize,
}

struct Lane {
    runtime: Handle,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Lanes {
    pub(crate) fn start(count: usize) -> io::Result<Lanes> {
        let lanes = (0..count.max(1)).map(Lane::start).collect::<io::Result<_>>()?;
        Ok(Lanes { lanes, next: AtomicUsize::new(0) })
    }

    /// Gives a connection to the next lane. It is taken out of the runtime that accepted it first.
    /// Answers with what ends it.
    pub(crate) fn carry<F, R>(&self, stream: TcpStream, work: F) -> io::Result<Option<AbortHandle>>
    where
        F: FnOnce(TcpStream) -> R + Send + 'static,
        R: Future<Output = ()> + Send,
    {
        let stream = stream.into_std()?;
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.lanes.len();
        let carried = self.lanes.get(turn).map(|lane| {
            lane.runtime.spawn(async move {
                // Fails when the process is out of descriptors; the client sees a closed connection.
                if let Ok(stream) = TcpStream::from_std(stream) {
                    work(stream).await;
                }
            })
        });
        Ok(carried.map(|task| task.abort_handle()))
    }
}

impl Lane {
    fn start(number: usize) -> io::Result<Lane> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .event_interval(TASKS_BETWEEN_LOOKS)
            .build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        let thread =
            std::thread::Builder::new().name(format!("lane-{number}")).spawn(move || {
                step_forward();
                let _ = runtime.block_on(ended);
                runtime.shutdown_timeout(END_WAIT_MAX);
            })?;
        Ok(Lane { runtime: handle, end: Some(end), thread: Some(thread) })
    }
}

/// Lets this thread run before others that want its core; without the right to, it runs like all.
#[cfg(target_os = "linux")]
fn step_forward() {
    use rustix::process::{getpriority_process, setpriority_process};
    // On Linux every thread has a niceness of its own, and nobody named means this one.
    if let Ok(niceness) = getpriority_process(None) {
        let _ = setpriority_process(None, niceness - PRECEDENCE);
    }
}

#[cfg(not(target_os = "linux"))]
fn step_forward() {}

impl Drop for Lanes {
    fn drop(&mut self) {
        for lane in &mut self.lanes {
            drop(lane.end.take());
        }
        for thread in self.lanes.iter_mut().filter_map(|lane| lane.thread.take()) {
            let _ = thread.join();
        }
    }
}
