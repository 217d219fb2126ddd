//! Keeps one child running: starts it, carries its lines, fails its requests when it ends, and restarts it with
//! back-off.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use platform::guard::{Process, Running};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::Instant;

use super::backoff::Backoff;
use super::child::spawn;
use super::error::{Excess, UpstreamError};
use super::line_reader::{ChildLine, LineReader};
use super::options::ChildOptions;
use super::pending_requests::{Delivery, PendingRequest, PendingRequests, QueueLimits};
use super::queue::QueueBounds;
use super::route::{self, Inbound};
use super::stderr_lines::StderrLines;
use super::stderr_tail::StderrTail;
use crate::runtime::response_buffer::Share;

/// How much longer than the guard the gate waits for a child to end, before it kills the guard.
const GUARD_WAIT: Duration = Duration::from_millis(1500);

/// How long to wait for the last lines of stderr after all writers have ended.
const LAST_LINES_WAIT: Duration = Duration::from_millis(500);

/// The state of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildState {
    /// It runs. The run number distinguishes a restarted child.
    Running { pid: u32, run: u64 },
    /// It has ended and will be restarted then.
    Backoff { until: Instant, reason: String },
    /// The gate stopped it.
    Stopped,
}

/// A line for the child.
pub(super) struct LineWrite {
    pub(super) body: Bytes,
    /// The request it carries, if it is one.
    pub(super) request: Option<Arc<PendingRequest>>,
    /// Its share of the write queue.
    pub(super) _share: Option<OwnedSemaphorePermit>,
}

/// One run of the child.
pub(super) struct ChildRun {
    pub(super) number: u64,
    pub(super) pending: PendingRequests,
    pub(super) writes: mpsc::Sender<LineWrite>,
    pub(super) shares: Arc<Semaphore>,
}

impl ChildRun {
    /// Sends a notification without waiting. It is dropped if the queue is full.
    pub(super) fn send(&self, body: Bytes) {
        self.writes.try_send(LineWrite { body, request: None, _share: None }).ok();
    }
}

/// The state shared by the link and the supervising task.
pub(super) struct Supervised {
    pub(super) options: ChildOptions,
    pub(super) noise_lines: AtomicU64,
    /// How often it was started.
    pub(super) runs: AtomicU64,
    state: watch::Sender<ChildState>,
    stop: watch::Sender<bool>,
    run: Mutex<Option<Arc<ChildRun>>>,
    /// The first messages for a restarted child.
    opening: Mutex<Option<OpeningMessages>>,
}

/// The opening messages for the run with this number.
type OpeningMessages = Box<dyn Fn(u64) -> Vec<Bytes> + Send + Sync>;

/// A child that was just started.
struct Started {
    run: Arc<ChildRun>,
    writes: mpsc::Receiver<LineWrite>,
    spawned: Running,
}

impl Supervised {
    /// Starts the child and its supervising task. A child that cannot start is retried.
    pub(super) fn start(options: ChildOptions) -> Arc<Supervised> {
        let supervised = Arc::new(Supervised {
            noise_lines: AtomicU64::new(0),
            runs: AtomicU64::new(0),
            opening: Mutex::new(None),
            state: watch::Sender::new(ChildState::Stopped),
            stop: watch::Sender::new(false),
            run: Mutex::new(None),
            options,
        });
        let mut backoff = Backoff::new(&supervised.options.bounds);
        let first = supervised.begin(1);
        // Sets the reason why it did not start.
        let first = first.map_err(|why| supervised.back_off(&mut backoff, Duration::ZERO, why));
        tokio::spawn(Arc::clone(&supervised).supervise(first, backoff));
        supervised
    }

    pub(super) fn state(&self) -> watch::Receiver<ChildState> {
        self.state.subscribe()
    }

    pub(super) fn stop(&self) {
        self.stop.send_replace(true);
    }

    pub(super) fn set_opening(&self, opening: OpeningMessages) {
        *self.opening.lock().unwrap_or_else(PoisonError::into_inner) = Some(opening);
    }

    /// The current run, or why there is none.
    pub(super) fn run(&self) -> Result<Arc<ChildRun>, UpstreamError> {
        let run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        run.clone().ok_or_else(|| match &*self.state.borrow() {
            ChildState::Backoff { reason, .. } => UpstreamError::not_running(reason.as_str()),
            ChildState::Running { .. } => UpstreamError::never_sent("the server has just ended"),
            ChildState::Stopped => UpstreamError::Closed,
        })
    }

    /// Whether this run is still current. The state may still say that it runs until its exit status is known.
    pub(super) fn is_current(&self, number: u64) -> bool {
        let run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        run.as_ref().is_some_and(|run| run.number == number)
    }

    /// Whether it has ended and will be restarted.
    pub(super) fn is_restarting(&self) -> bool {
        let runs = self.run.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        !runs && *self.state.borrow() != ChildState::Stopped
    }

    fn set_run(&self, run: Option<Arc<ChildRun>>) {
        *self.run.lock().unwrap_or_else(PoisonError::into_inner) = run;
    }

    fn begin(&self, number: u64) -> Result<Started, String> {
        let spawned = spawn(&self.options).inspect_err(|why| {
            tracing::warn!(server = self.options.name, %why, "cannot start a server");
        })?;
        let bounds = &self.options.bounds;
        let (sender, writes) = mpsc::channel(bounds.writes_max);
        let run = Arc::new(ChildRun {
            number,
            pending: PendingRequests::new(self.queue_limits()),
            writes: sender,
            shares: Arc::new(Semaphore::new(bounds.write_bytes_max)),
        });
        self.runs.store(number, Ordering::Release);
        // Lines are read in order, so the handshake precedes the next request.
        if let Some(opening) = &*self.opening.lock().unwrap_or_else(PoisonError::into_inner) {
            for line in opening(number) {
                run.send(line);
            }
        }
        self.set_run(Some(Arc::clone(&run)));
        self.state.send_replace(ChildState::Running { pid: spawned.pid, run: number });
        Ok(Started { run, writes, spawned })
    }

    fn queue_limits(&self) -> QueueLimits {
        let bounds = &self.options.bounds;
        QueueLimits {
            request: QueueBounds {
                items_max: bounds.backlog_max,
                bytes_max: bounds.backlog_bytes_max,
            },
            unclaimed: QueueBounds {
                items_max: bounds.unclaimed_max,
                bytes_max: bounds.unclaimed_bytes_max,
            },
            slow_reader_wait_max: bounds.slow_reader_wait_max,
            route_to_request: self.options.route_to_request,
        }
    }

    /// Runs the child until it is stopped. A failed start has its back-off instead.
    async fn supervise(
        self: Arc<Supervised>,
        first: Result<Started, Duration>,
        mut backoff: Backoff,
    ) {
        let mut stop = self.stop.subscribe();
        let mut next = first;
        for number in 2.. {
            let pause = match next {
                Ok(started) => {
                    let began = Instant::now();
                    let reason = self.run_once(started, &mut stop).await;
                    if *stop.borrow() {
                        break;
                    }
                    self.back_off(&mut backoff, began.elapsed(), reason)
                }
                Err(pause) => pause,
            };
            if tokio::time::timeout(pause, stop.wait_for(|stop| *stop)).await.is_ok() {
                break;
            }
            next =
                self.begin(number).map_err(|why| self.back_off(&mut backoff, Duration::ZERO, why));
        }
        self.state.send_replace(ChildState::Stopped);
    }

    /// Records why it does not run, and returns the back-off.
    fn back_off(&self, backoff: &mut Backoff, ran: Duration, reason: String) -> Duration {
        let pause = backoff.pause_after(ran);
        let server = &self.options.name;
        let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        tracing::warn!(server, %reason, pause_ms, "a server ended and will be restarted");
        self.state.send_replace(ChildState::Backoff { until: Instant::now() + pause, reason });
        pause
    }

    /// One run of the child, until its exit status is known.
    async fn run_once(&self, started: Started, stop: &mut watch::Receiver<bool>) -> String {
        let Started { run, writes, spawned } = started;
        let Running { mut process, input, output, stderr, .. } = spawned;
        // Stderr is read until the last writer closes the pipe.
        let lines = StderrLines::of(&self.options);
        let mut stderr_copy =
            tokio::spawn(copy_stderr(Arc::clone(&self.options.stderr), lines, stderr));
        let mut reading = Box::pin(self.read(&run, output));
        let mut writing = Box::pin(write(input, writes));
        let mut output_ended = false;
        tokio::select! {
            () = &mut reading => output_ended = true,
            () = &mut writing => {}
            // Processes that a killed guard left behind may hold the pipes open.
            _ = process.wait() => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
        self.set_run(None);
        // Without its input the guard stops the child, gracefully first.
        drop(writing);
        let output = async {
            if !output_ended {
                reading.await;
            }
        };
        let mut ending = pin!(self.await_end(&mut process, output));
        // The exit status is the better reason, but requests do not wait long for it after the last output.
        let wait_max = self.options.bounds.exit_status_wait_max;
        let wait_max_now = if output_ended { wait_max } else { Duration::MAX };
        let reason = if let Ok(reason) = tokio::time::timeout(wait_max_now, &mut ending).await {
            reason
        } else {
            run.pending.close("its output can no longer be read");
            ending.await
        };
        // All writers have ended, so stderr is complete.
        if tokio::time::timeout(LAST_LINES_WAIT, &mut stderr_copy).await.is_err() {
            stderr_copy.abort();
        }
        run.pending.close(&reason);
        reason
    }

    /// Waits for the guard and the last output, and returns how the child ended.
    async fn await_end(&self, process: &mut Process, output: impl Future<Output = ()>) -> String {
        let bounds = &self.options.bounds;
        let wait_max = bounds.end_wait_max + bounds.term_wait_max + GUARD_WAIT;
        let ended =
            tokio::time::timeout(wait_max, async { tokio::join!(process.wait(), output).0 });
        match ended.await {
            Ok(Ok(status)) => how_it_ended(status),
            Ok(Err(error)) => format!("it cannot be waited for: {error}"),
            Err(_) => {
                process.kill().await.ok();
                "it did not stop when told to".to_owned()
            }
        }
    }

    /// Delivers every line until the output ends or cannot be trusted.
    async fn read(&self, run: &ChildRun, output: ChildStdout) {
        let bytes_max = self.options.bounds.line_bytes_max;
        let mut lines = LineReader::new(output, bytes_max);
        while let Ok(Some(line)) = lines.next().await {
            match line {
                ChildLine::Whole(message) => self.deliver(run, message).await,
                ChildLine::Overlong { head, tail } => {
                    let error = UpstreamError::TooLarge { what: Excess::Line, bytes_max };
                    let owner = route::id_at_an_end(&head, &tail);
                    let server = &self.options.name;
                    tracing::warn!(server, bytes_max, "a server wrote a line over the size limit");
                    if !owner.is_some_and(|id| run.pending.fail_id(&id, error)) {
                        // It belongs to a request, but it is unknown which.
                        return;
                    }
                }
            }
        }
    }

    async fn deliver(&self, run: &ChildRun, message: Bytes) {
        let Some(inbound) = route::inbound(&message).await else {
            let lines = self.noise_lines.fetch_add(1, Ordering::Relaxed) + 1;
            let server = &self.options.name;
            tracing::debug!(server, lines, "a server wrote a line that is not a message");
            // It may explain the failure, like stderr.
            self.options.stderr.write(&message);
            self.options.stderr.write(b"\n");
            // Its request would wait in vain.
            if let Some(id) = route::id_of_broken(&message) {
                run.pending.fail_id(&id, UpstreamError::garbled("its line is not a message"));
            }
            return;
        };
        if matches!(inbound, Inbound::ServerRequest(_))
            && let Some(id) = route::echoed(&message)
        {
            let why = "it started, but does not speak MCP: it sent our own request back";
            run.pending.fail_id(&id, UpstreamError::never_sent(why));
            return;
        }
        let mut share = Share::new(&self.options.quota);
        let wait_max = self.options.bounds.slow_reader_wait_max;
        if let Err(why) = share.grow_to(message.len(), wait_max).await {
            tracing::warn!(
                server = self.options.name,
                "response buffer full; dropped a large message of a server"
            );
            if let Inbound::Response(id) = &inbound {
                run.pending.fail_id(id, UpstreamError::buffer_full(&why));
            }
            return;
        }
        let message = share.of(message);
        match run.pending.deliver(&inbound, message.clone()).await {
            Delivery::Delivered | Delivery::Kept { dropped: 0 } => {}
            Delivery::Kept { dropped } => {
                tracing::warn!(
                    server = self.options.name,
                    dropped,
                    "no client reads the messages of a server; dropped the oldest"
                );
            }
            Delivery::Unclaimed => {
                let server = &self.options.name;
                tracing::debug!(
                    server,
                    "dropped a response to a request that is no longer pending"
                );
                // A second id may belong to a pending request, which gets no valid response either.
                for id in route::ids_of(&message) {
                    run.pending.fail_id(&id, UpstreamError::garbled("its response has two ids"));
                }
            }
        }
    }
}

/// Writes lines until the queue ends or the child does not read them.
async fn write(mut input: ChildStdin, mut writes: mpsc::Receiver<LineWrite>) {
    while let Some(LineWrite { body, request, _share }) = writes.recv().await {
        if request.is_some_and(|request| !request.begin()) {
            continue;
        }
        if input.write_all_buf(&mut body.chain(&b"\n"[..])).await.is_err() {
            return;
        }
    }
}

async fn copy_stderr(
    stderr: Arc<StderrTail>,
    mut lines: Option<StderrLines>,
    mut pipe: ChildStderr,
) {
    let mut buffer = vec![0_u8; 4096];
    while let Ok(bytes @ 1..) = pipe.read(&mut buffer).await {
        let bytes = buffer.get(..bytes).unwrap_or_default();
        stderr.write(bytes);
        if let Some(lines) = &mut lines {
            lines.write(bytes);
        }
    }
    if let Some(lines) = lines {
        lines.end();
    }
}

fn how_it_ended(status: std::process::ExitStatus) -> String {
    const SIGNALLED: i32 = 128;
    match status.code() {
        Some(0) => "it ended with exit code 0".to_owned(),
        Some(code) if code > SIGNALLED => format!("it was ended by signal {}", code - SIGNALLED),
        Some(code) => format!("it ended with exit code {code}"),
        None => "its process was killed".to_owned(),
    }
}
