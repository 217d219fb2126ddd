//! The threads that serve connections. Each has its own runtime. A connection stays on its thread,
//! together with the upstream connections it opens, so a call wakes no thread on another core.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

/// Tasks between two polls of the sockets; low, so that one busy connection does not starve others.
const TASKS_PER_POLL: u32 = 13;
/// How much to raise the priority of a worker, where the system allows it. Each response wakes a
/// client and each request a server, and the scheduler tends to run them on the waking core: a busy
/// worker was preempted seven times in fifty calls while another core was idle.
const PRIORITY_BOOST: i32 = 5;
/// How long cancelled tasks may take to write their audit rows.
const END_WAIT_MAX: Duration = Duration::from_millis(200);

pub(crate) struct Workers {
    workers: Vec<Worker>,
    next: AtomicUsize,
}

struct Worker {
    runtime: Handle,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Workers {
    pub(crate) fn start(count: usize) -> io::Result<Workers> {
        let workers = (0..count.max(1)).map(Worker::start).collect::<io::Result<_>>()?;
        Ok(Workers { workers, next: AtomicUsize::new(0) })
    }

    /// Moves a connection to the next worker's runtime. Returns the handle that aborts it.
    pub(crate) fn spawn_on_next<F, R>(
        &self,
        stream: TcpStream,
        work: F,
    ) -> io::Result<Option<AbortHandle>>
    where
        F: FnOnce(TcpStream) -> R + Send + 'static,
        R: Future<Output = ()> + Send,
    {
        let stream = stream.into_std()?;
        let index = self.next.fetch_add(1, Ordering::Relaxed) % self.workers.len();
        let spawned = self.workers.get(index).map(|worker| {
            worker.runtime.spawn(async move {
                // Fails when the process is out of descriptors; the client sees a closed connection.
                if let Ok(stream) = TcpStream::from_std(stream) {
                    work(stream).await;
                }
            })
        });
        Ok(spawned.map(|task| task.abort_handle()))
    }
}

impl Worker {
    fn start(number: usize) -> io::Result<Worker> {
        let runtime =
            Builder::new_current_thread().enable_all().event_interval(TASKS_PER_POLL).build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        let thread =
            std::thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
                platform::threads::raise_priority(PRIORITY_BOOST);
                let _ = runtime.block_on(ended);
                runtime.shutdown_timeout(END_WAIT_MAX);
            })?;
        Ok(Worker { runtime: handle, end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            drop(worker.end.take());
        }
        for thread in self.workers.iter_mut().filter_map(|worker| worker.thread.take()) {
            let _ = thread.join();
        }
    }
}
