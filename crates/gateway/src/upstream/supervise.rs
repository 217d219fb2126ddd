//! Keeps one child running: starts it, carries its lines, tells everybody when it ends, and starts it
//! again after a pause that grows while it keeps failing.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::Instant;

use super::backoff::Backoff;
use super::child::{Spawned, spawn};
use super::error::{Excess, UpstreamError};
use super::inflight::{Allowance, Delivery, InFlight, Request};
use super::lines::{Line, Lines};
use super::options::ChildOptions;
use super::queue::Room;
use super::ring::Ring;
use super::route::{self, Inbound};
use super::spoken::Spoken;
use crate::room::Share;

/// How much longer than its guard we wait for a child to end before we end the guard.
const GUARD_WAIT: Duration = Duration::from_millis(1500);

/// How long the last lines on stderr are waited for, once everybody who could write any has ended.
const LAST_LINES_WAIT: Duration = Duration::from_millis(500);

/// What a child is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs. The number of the run tells a restarted child from the one before.
    Running { pid: u32, run: u64 },
    /// It ended, and is started again then.
    Backoff { until: Instant, reason: String },
    /// It ended because we wanted it to, and stays so.
    Stopped,
}

/// A line on its way to the child.
pub(super) struct Write {
    pub(super) body: Bytes,
    /// The request it carries, if it is one.
    pub(super) request: Option<Arc<Request>>,
    /// Its share of what may wait.
    pub(super) _share: Option<OwnedSemaphorePermit>,
}

/// One life of the child.
pub(super) struct Run {
    pub(super) number: u64,
    pub(super) in_flight: InFlight,
    pub(super) writes: mpsc::Sender<Write>,
    pub(super) shares: Arc<Semaphore>,
}

impl Run {
    /// Tells the child something that nobody waits for. A child that reads so slowly that there is no
    /// room for it is not told.
    pub(super) fn tell(&self, body: Bytes) {
        self.writes.try_send(Write { body, request: None, _share: None }).ok();
    }
}

/// What the link and the task that keeps the child share.
pub(super) struct Supervised {
    pub(super) options: ChildOptions,
    pub(super) noise_lines: AtomicU64,
    /// How often it was started.
    pub(super) runs: AtomicU64,
    state: watch::Sender<State>,
    stop: watch::Sender<bool>,
    run: Mutex<Option<Arc<Run>>>,
    /// What opened the conversation; a child that was started again hears it before all else.
    opening: Mutex<Option<Opening>>,
}

/// The messages that open a conversation, for the run with this number.
type Opening = Box<dyn Fn(u64) -> Vec<Bytes> + Send + Sync>;

/// A child that was just started.
struct Started {
    run: Arc<Run>,
    writes: mpsc::Receiver<Write>,
    spawned: Spawned,
}

impl Supervised {
    /// Starts the child and the task that keeps it. A child that cannot start is tried again.
    pub(super) fn start(options: ChildOptions) -> Arc<Supervised> {
        let supervised = Arc::new(Supervised {
            noise_lines: AtomicU64::new(0),
            runs: AtomicU64::new(0),
            opening: Mutex::new(None),
            state: watch::Sender::new(State::Stopped),
            stop: watch::Sender::new(false),
            run: Mutex::new(None),
            options,
        });
        let mut backoff = Backoff::new(&supervised.options.bounds);
        let first = supervised.begin(1);
        // Whoever asks before it is tried again hears why it did not start.
        let first = first.map_err(|why| supervised.rest(&mut backoff, Duration::ZERO, why));
        tokio::spawn(Arc::clone(&supervised).keep(first, backoff));
        supervised
    }

    pub(super) fn state(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    pub(super) fn stop(&self) {
        self.stop.send_replace(true);
    }

    pub(super) fn opens_with(&self, opening: Opening) {
        *self.opening.lock().unwrap_or_else(PoisonError::into_inner) = Some(opening);
    }

    /// The life the child is in now, or why there is none.
    pub(super) fn run(&self) -> Result<Arc<Run>, UpstreamError> {
        let run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        run.clone().ok_or_else(|| match &*self.state.borrow() {
            State::Backoff { reason, .. } => {
                UpstreamError::never_sent(format!("the server does not run: {reason}"))
            }
            State::Running { .. } => UpstreamError::never_sent("the server has just ended"),
            State::Stopped => UpstreamError::Closed,
        })
    }

    /// Whether the run with this number goes on. Of one that ended the state may still say that it runs,
    /// until all is known about its end.
    pub(super) fn goes_on(&self, number: u64) -> bool {
        let run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        run.as_ref().is_some_and(|run| run.number == number)
    }

    /// Whether it ended and is to be started again.
    pub(super) fn is_down(&self) -> bool {
        let runs = self.run.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        !runs && *self.state.borrow() != State::Stopped
    }

    fn set_run(&self, run: Option<Arc<Run>>) {
        *self.run.lock().unwrap_or_else(PoisonError::into_inner) = run;
    }

    fn begin(&self, number: u64) -> Result<Started, String> {
        let spawned = spawn(&self.options).inspect_err(|why| {
            tracing::warn!(server = self.options.name, %why, "cannot start a server");
        })?;
        let bounds = &self.options.bounds;
        let (sender, writes) = mpsc::channel(bounds.writes_max);
        let run = Arc::new(Run {
            number,
            in_flight: InFlight::new(self.allowance()),
            writes: sender,
            shares: Arc::new(Semaphore::new(bounds.write_bytes_max)),
        });
        self.runs.store(number, Ordering::Release);
        // Lines are read in order, so the child knows us when the next request comes.
        if let Some(opening) = &*self.opening.lock().unwrap_or_else(PoisonError::into_inner) {
            for line in opening(number) {
                run.tell(line);
            }
        }
        self.set_run(Some(Arc::clone(&run)));
        self.state.send_replace(State::Running { pid: spawned.pid, run: number });
        Ok(Started { run, writes, spawned })
    }

    fn allowance(&self) -> Allowance {
        let bounds = &self.options.bounds;
        Allowance {
            request: Room { items_max: bounds.backlog_max, bytes_max: bounds.backlog_bytes_max },
            unheard: Room { items_max: bounds.unheard_max, bytes_max: bounds.unheard_bytes_max },
            slow_reader_wait_max: bounds.slow_reader_wait_max,
            route_to_request: self.options.route_to_request,
        }
    }

    /// Runs the child again and again until told to stop. One that did not start has its pause instead.
    async fn keep(self: Arc<Supervised>, first: Result<Started, Duration>, mut backoff: Backoff) {
        let mut stop = self.stop.subscribe();
        let mut next = first;
        for number in 2.. {
            let pause = match next {
                Ok(started) => {
                    let began = Instant::now();
                    let reason = self.live(started, &mut stop).await;
                    if *stop.borrow() {
                        break;
                    }
                    self.rest(&mut backoff, began.elapsed(), reason)
                }
                Err(pause) => pause,
            };
            if tokio::time::timeout(pause, stop.wait_for(|stop| *stop)).await.is_ok() {
                break;
            }
            next = self.begin(number).map_err(|why| self.rest(&mut backoff, Duration::ZERO, why));
        }
        self.state.send_replace(State::Stopped);
    }

    /// Says why it does not run, and how long it rests before it is started again.
    fn rest(&self, backoff: &mut Backoff, ran: Duration, reason: String) -> Duration {
        let pause = backoff.pause_after(ran);
        let server = &self.options.name;
        let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        tracing::warn!(server, %reason, pause_ms, "a server ended and will be restarted");
        self.state.send_replace(State::Backoff { until: Instant::now() + pause, reason });
        pause
    }

    /// One life of the child, from its start to the last word about its end.
    async fn live(&self, started: Started, stop: &mut watch::Receiver<bool>) -> String {
        let Started { run, writes, spawned } = started;
        let Spawned { mut process, input, output, stderr, .. } = spawned;
        // What it says on stderr is kept whatever else happens; the pipe ends with the last writer.
        let spoken = Spoken::of(&self.options);
        let mut noting = tokio::spawn(note(Arc::clone(&self.options.stderr), spoken, stderr));
        let mut reading = Box::pin(self.read(&run, output));
        let mut writing = Box::pin(write(input, writes));
        let mut output_ended = false;
        tokio::select! {
            () = &mut reading => output_ended = true,
            () = &mut writing => {}
            // What a killed guard could not end may hold the pipes open for good.
            _ = process.wait() => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
        self.set_run(None);
        // Without its input the guard ends the child, gently first.
        drop(writing);
        let rest = async {
            if !output_ended {
                reading.await;
            }
        };
        let mut ending = pin!(self.await_end(&mut process, rest));
        // How it ended says more, but after its last output nobody need wait long for that.
        let wait_max = self.options.bounds.last_word_wait_max;
        let patience = if output_ended { wait_max } else { Duration::MAX };
        let reason = if let Ok(reason) = tokio::time::timeout(patience, &mut ending).await {
            reason
        } else {
            run.in_flight.close("its output cannot be read any further");
            ending.await
        };
        // Its last words say why. Everybody who could write any has ended, so they are all there.
        if tokio::time::timeout(LAST_LINES_WAIT, &mut noting).await.is_err() {
            noting.abort();
        }
        run.in_flight.close(&reason);
        reason
    }

    /// Waits for the guard, and for the last lines of output, and says how it ended.
    async fn await_end(&self, process: &mut Child, rest: impl Future<Output = ()>) -> String {
        let bounds = &self.options.bounds;
        let wait_max = bounds.end_wait_max + bounds.term_wait_max + GUARD_WAIT;
        let ended = tokio::time::timeout(wait_max, async { tokio::join!(process.wait(), rest).0 });
        match ended.await {
            Ok(Ok(status)) => how_it_ended(status),
            Ok(Err(error)) => format!("it cannot be waited for: {error}"),
            Err(_) => {
                process.kill().await.ok();
                "it did not end when told to".to_owned()
            }
        }
    }

    /// Hands every line to whom it belongs, until the output ends or cannot be trusted.
    async fn read(&self, run: &Run, output: ChildStdout) {
        let bytes_max = self.options.bounds.line_bytes_max;
        let mut lines = Lines::new(output, bytes_max);
        while let Ok(Some(line)) = lines.next().await {
            match line {
                Line::Whole(message) => self.deliver(run, message).await,
                Line::Overlong { head, tail } => {
                    let error = UpstreamError::TooLarge { what: Excess::Line, bytes_max };
                    let owner = route::id_at_an_end(&head, &tail);
                    let server = &self.options.name;
                    tracing::warn!(server, bytes_max, "a server wrote a line over the bound");
                    if !owner.is_some_and(|id| run.in_flight.fail_id(&id, error)) {
                        // Somebody waits for it, and nobody can tell who.
                        return;
                    }
                }
            }
        }
    }

    async fn deliver(&self, run: &Run, message: Bytes) {
        let Some(inbound) = route::inbound(&message).await else {
            let lines = self.noise_lines.fetch_add(1, Ordering::Relaxed) + 1;
            let server = &self.options.name;
            tracing::debug!(server, lines, "a server wrote a line that is not a message");
            // It says why, as what is written on stderr does.
            self.options.stderr.write(&message);
            self.options.stderr.write(b"\n");
            // Whoever waits for it would wait in vain.
            if let Some(id) = route::id_of_broken(&message) {
                run.in_flight.fail_id(&id, UpstreamError::garbled("its line is not a message"));
            }
            return;
        };
        if matches!(inbound, Inbound::Asks(_))
            && let Some(id) = route::echoed(&message)
        {
            let why = "it started, but does not speak MCP: it sent our own request back";
            run.in_flight.fail_id(&id, UpstreamError::never_sent(why));
            return;
        }
        let mut share = Share::new(&self.options.account);
        let wait_max = self.options.bounds.slow_reader_wait_max;
        if let Err(why) = share.grow_to(message.len(), wait_max).await {
            tracing::warn!(server = self.options.name, "a large message of a server found no room");
            if let Inbound::Answer(id) = &inbound {
                run.in_flight.fail_id(id, UpstreamError::no_room(&why));
            }
            return;
        }
        let message = share.of(message);
        match run.in_flight.deliver(&inbound, message.clone()).await {
            Delivery::Delivered | Delivery::Kept { dropped: 0 } => {}
            Delivery::Kept { dropped } => {
                tracing::warn!(
                    server = self.options.name,
                    dropped,
                    "nobody listens to a server; its oldest messages are dropped"
                );
            }
            Delivery::Unclaimed => {
                let server = &self.options.name;
                tracing::debug!(server, "a server answered a request that nobody waits for");
                // A second id may be that of somebody who does: for them it is no answer either.
                for id in route::ids_of(&message) {
                    run.in_flight.fail_id(&id, UpstreamError::garbled("its answer has two ids"));
                }
            }
        }
    }
}

/// Writes line after line until there are no more or the child does not take them.
async fn write(mut input: ChildStdin, mut writes: mpsc::Receiver<Write>) {
    while let Some(Write { body, request, _share }) = writes.recv().await {
        if request.is_some_and(|request| !request.begin()) {
            continue;
        }
        if input.write_all_buf(&mut body.chain(&b"\n"[..])).await.is_err() {
            return;
        }
    }
}

async fn note(stderr: Arc<Ring>, mut spoken: Option<Spoken>, mut pipe: ChildStderr) {
    let mut buffer = vec![0_u8; 4096];
    while let Ok(bytes @ 1..) = pipe.read(&mut buffer).await {
        let bytes = buffer.get(..bytes).unwrap_or_default();
        stderr.write(bytes);
        if let Some(spoken) = &mut spoken {
            spoken.write(bytes);
        }
    }
    if let Some(spoken) = spoken {
        spoken.end();
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
