//! The link to a child process: sends requests as lines and delivers the messages of each in order.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::timeout;

use super::error::{Stage, UpstreamError};
use super::events::Events;
use super::message::{MessageKind, UpstreamMessage};
use super::options::ChildOptions;
use super::pending_requests::PendingRequest;
use super::permitted::Permit;
use super::restore::RestoreState;
use super::supervise::{ChildRun, ChildState, LineWrite, Supervised};
use super::waiter::{ResponseWaiter, SharedLink, UnclaimedListener};
use super::{Reply, ServerStream};

/// How long a request waits for the reason why its child has ended.
const ENDED_WAIT_MAX: Duration = Duration::from_secs(1);

/// The link to one child. Dropping it stops the child.
pub struct StdioLink {
    child: Arc<Supervised>,
    restore_state: Arc<RestoreState>,
}

impl Drop for StdioLink {
    fn drop(&mut self) {
        self.child.stop();
    }
}

impl StdioLink {
    /// Starts the child. One that cannot start is retried after a back-off.
    pub fn start(options: ChildOptions) -> StdioLink {
        StdioLink { child: Supervised::start(options), restore_state: Arc::default() }
    }

    pub fn state(&self) -> ChildState {
        self.child.state().borrow().clone()
    }

    /// Whether the child has ended and will be restarted.
    pub fn is_restarting(&self) -> bool {
        self.child.is_restarting()
    }

    /// Follows the state. A new run needs a new handshake.
    pub fn watch(&self) -> watch::Receiver<ChildState> {
        self.child.state()
    }

    /// The number of the run, once the child runs.
    pub async fn ready(&self, wait_max: Duration) -> Result<u64, UpstreamError> {
        let mut state = self.child.state();
        let running = state.wait_for(|state| match state {
            ChildState::Running { run, .. } => self.child.is_current(*run),
            ChildState::Backoff { .. } => false,
            ChildState::Stopped => true,
        });
        match timeout(wait_max, running).await {
            Ok(Ok(state)) => match &*state {
                ChildState::Running { run, .. } => Ok(*run),
                _ => Err(UpstreamError::Closed),
            },
            Ok(Err(_)) => Err(UpstreamError::Closed),
            Err(_) => self.child.run().map(|run| run.number),
        }
    }

    /// How often the child was started. Another number means another process, without the state of the one
    /// before.
    pub fn runs(&self) -> u64 {
        self.child.runs.load(Ordering::Acquire)
    }

    /// Sets the first messages for a restarted child. They depend on the run number, so that no other request
    /// waits for their responses. The restored state follows them.
    pub fn set_opening(&self, opening: impl Fn(u64) -> [Bytes; 2] + Send + Sync + 'static) {
        let restore_state = Arc::clone(&self.restore_state);
        self.child.set_opening(Box::new(move |run| {
            let mut lines = Vec::from(opening(run));
            lines.extend(restore_state.restore_requests().into_iter().map(|draft| draft.body));
            lines
        }));
    }

    pub fn restore_state(&self) -> &RestoreState {
        &self.restore_state
    }

    /// The last bytes of stderr, over all runs.
    pub fn stderr_tail(&self) -> String {
        let tail = self.child.options.stderr.tail();
        match &self.child.options.mask {
            Some(mask) => mask.text(tail),
            None => tail,
        }
    }

    /// Output lines that were not messages.
    pub fn noise_lines(&self) -> u64 {
        self.child.noise_lines.load(Ordering::Relaxed)
    }

    pub async fn request(
        &self,
        _permit: &Permit,
        out: UpstreamMessage,
    ) -> Result<Reply, UpstreamError> {
        let MessageKind::Request(id) = &out.kind else {
            return Err(UpstreamError::never_sent("it is not a request"));
        };
        let run = match self.run_for(&out) {
            Err(UpstreamError::NeverSent { .. }) => {
                self.wait_for_exit().await;
                self.run_for(&out)?
            }
            run => run?,
        };
        let stream = SharedLink::Child(Arc::clone(&run));
        let waiter = ResponseWaiter::enter(stream, id, &out, &self.child.options.waits)?;
        self.enqueue(&run, out.body, Some(Arc::clone(&waiter.request))).await?;
        let Some(mask) = &self.child.options.mask else { return waiter.reply().await };
        match waiter.reply().await {
            Ok(reply) => Ok(Box::pin(reply.masked(mask)).await),
            Err(error) => Err(mask.error(error)),
        }
    }

    /// Waits for the exit status of a child that has just ended.
    async fn wait_for_exit(&self) {
        let mut state = self.child.state();
        let known = state.wait_for(|state| !matches!(state, ChildState::Running { .. }));
        let _ = timeout(ENDED_WAIT_MAX, known).await;
    }

    pub async fn send(&self, _permit: &Permit, out: UpstreamMessage) -> Result<(), UpstreamError> {
        let run = self.run_for(&out)?;
        self.enqueue(&run, out.body, None).await
    }

    /// The messages of the child that belong to no request, including queued ones.
    #[expect(clippy::unused_async, reason = "the HTTP link has to wait here")]
    pub async fn listen(&self, _permit: &Permit) -> Result<ServerStream, UpstreamError> {
        let listener = UnclaimedListener::enter(SharedLink::Child(self.child.run()?))?;
        let listening = ServerStream::Open(Events::of_listener(listener));
        Ok(match &self.child.options.mask {
            Some(mask) => listening.masked(mask),
            None => listening,
        })
    }

    /// Stops the child and waits until it and its descendants have ended.
    pub async fn close(&self) {
        let mut state = self.child.state();
        self.child.stop();
        state.wait_for(|state| *state == ChildState::Stopped).await.ok();
    }

    fn run_for(&self, out: &UpstreamMessage) -> Result<Arc<ChildRun>, UpstreamError> {
        let run = self.child.run()?;
        if out.run.is_some_and(|wanted| wanted != run.number) {
            return Err(UpstreamError::never_sent("the server was restarted"));
        }
        Ok(run)
    }

    /// Queues a line for the child, at once or after a bounded wait.
    async fn enqueue(
        &self,
        run: &ChildRun,
        body: Bytes,
        request: Option<Arc<PendingRequest>>,
    ) -> Result<(), UpstreamError> {
        let after = self.child.options.waits.queue_max;
        let body = on_one_line(body);
        let share = share_of(body.len(), self.child.options.bounds.write_bytes_max);
        let gone = || UpstreamError::never_sent("the server has just ended");
        let queued = async {
            let shares = Arc::clone(&run.shares).acquire_many_owned(share);
            let share = Some(shares.await.map_err(|_| gone())?);
            run.writes.send(LineWrite { body, request, _share: share }).await.map_err(|_| gone())
        };
        timeout(after, queued)
            .await
            .unwrap_or(Err(UpstreamError::TimedOut { stage: Stage::Queue, after }))
    }
}

/// The share of the write queue. A larger message takes all of it.
fn share_of(bytes: usize, bytes_max: usize) -> u32 {
    u32::try_from(bytes.min(bytes_max)).unwrap_or(u32::MAX)
}

/// A child reads one message per line. In valid JSON a raw line break is white space, so a blank is equivalent.
fn on_one_line(body: Bytes) -> Bytes {
    if memchr::memchr2(b'\n', b'\r', &body).is_none() {
        return body;
    }
    let blank = |byte: &u8| {
        if matches!(*byte, b'\n' | b'\r') { b' ' } else { *byte }
    };
    body.iter().map(blank).collect::<Vec<u8>>().into()
}
