//! The link to a child process: requests go out as lines, and each gets its own messages back in order.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::timeout;

use super::error::{Stage, UpstreamError};
use super::events::Events;
use super::inflight::Request;
use super::message::{Kind, Outgoing};
use super::options::ChildOptions;
use super::pass::Pass;
use super::supervise::{Run, State, Supervised, Write};
use super::waiter::{Listener, Shared, Waiter};
use super::wishes::Wishes;
use super::{Listening, Reply};

/// How long a request waits to hear how the child ended that it was meant for.
const ENDED_WAIT_MAX: Duration = Duration::from_secs(1);

/// One child and the conversation with it. Dropping it stops the child.
pub struct StdioLink {
    child: Arc<Supervised>,
    wishes: Arc<Wishes>,
}

impl Drop for StdioLink {
    fn drop(&mut self) {
        self.child.stop();
    }
}

impl StdioLink {
    /// Starts the child. One that cannot start is tried again after a pause; the state tells.
    pub fn start(options: ChildOptions) -> StdioLink {
        StdioLink { child: Supervised::start(options), wishes: Arc::default() }
    }

    pub fn state(&self) -> State {
        self.child.state().borrow().clone()
    }

    /// Whether the child ended and is started again after a pause.
    pub fn is_down(&self) -> bool {
        self.child.is_down()
    }

    /// Follows the state. A new run is a new conversation: it must be opened again.
    pub fn watch(&self) -> watch::Receiver<State> {
        self.child.state()
    }

    /// The number of the run, once the child runs.
    pub async fn ready(&self, wait_max: Duration) -> Result<u64, UpstreamError> {
        let mut state = self.child.state();
        let running = state.wait_for(|state| match state {
            State::Running { run, .. } => self.child.goes_on(*run),
            State::Backoff { .. } => false,
            State::Stopped => true,
        });
        match timeout(wait_max, running).await {
            Ok(Ok(state)) => match &*state {
                State::Running { run, .. } => Ok(*run),
                _ => Err(UpstreamError::Closed),
            },
            Ok(Err(_)) => Err(UpstreamError::Closed),
            Err(_) => self.child.run().map(|run| run.number),
        }
    }

    /// How often the child was started: another number means another process, which knows nothing of
    /// what was said to the one before.
    pub fn runs(&self) -> u64 {
        self.child.runs.load(Ordering::Acquire)
    }

    /// What a child that is started again hears before all else; told the number of its run, so that
    /// nobody else waits for the answer to it. After that it hears what it has forgotten.
    pub fn opens_with(&self, opening: impl Fn(u64) -> [Bytes; 2] + Send + Sync + 'static) {
        let wishes = Arc::clone(&self.wishes);
        self.child.opens_with(Box::new(move |run| {
            let mut lines = Vec::from(opening(run));
            lines.extend(wishes.told_again().into_iter().map(|wish| wish.body));
            lines
        }));
    }

    pub fn wishes(&self) -> &Wishes {
        &self.wishes
    }

    /// The end of what the child wrote on stderr, over all its runs.
    pub fn stderr_tail(&self) -> String {
        let tail = self.child.options.stderr.tail();
        match &self.child.options.mask {
            Some(mask) => mask.text(tail),
            None => tail,
        }
    }

    /// Lines of its output so far that were no messages.
    pub fn noise_lines(&self) -> u64 {
        self.child.noise_lines.load(Ordering::Relaxed)
    }

    pub async fn request(&self, _pass: &Pass, out: Outgoing) -> Result<Reply, UpstreamError> {
        let Kind::Request(id) = &out.kind else {
            return Err(UpstreamError::never_sent("it is not a request"));
        };
        let run = match self.run_for(&out) {
            Err(UpstreamError::NeverSent { .. }) => {
                self.until_known().await;
                self.run_for(&out)?
            }
            run => run?,
        };
        let stream = Shared::Child(Arc::clone(&run));
        let waiter = Waiter::enter(stream, id, &out, &self.child.options.waits)?;
        self.enqueue(&run, out.body, Some(Arc::clone(&waiter.request))).await?;
        let Some(mask) = &self.child.options.mask else { return waiter.reply().await };
        match waiter.reply().await {
            Ok(reply) => Ok(Box::pin(reply.masked(mask)).await),
            Err(error) => Err(mask.error(error)),
        }
    }

    /// A child that has just ended: how it ended is known in a moment, and says more.
    async fn until_known(&self) {
        let mut state = self.child.state();
        let known = state.wait_for(|state| !matches!(state, State::Running { .. }));
        let _ = timeout(ENDED_WAIT_MAX, known).await;
    }

    pub async fn send(&self, _pass: &Pass, out: Outgoing) -> Result<(), UpstreamError> {
        let run = self.run_for(&out)?;
        self.enqueue(&run, out.body, None).await
    }

    /// What the child says that belongs to no request, from what was kept on.
    #[expect(clippy::unused_async, reason = "the HTTP link has to wait here")]
    pub async fn listen(&self, _pass: &Pass) -> Result<Listening, UpstreamError> {
        let listener = Listener::enter(Shared::Child(self.child.run()?))?;
        let listening = Listening::Open(Events::of_listener(listener));
        Ok(match &self.child.options.mask {
            Some(mask) => listening.masked(mask),
            None => listening,
        })
    }

    /// Stops the child and waits until it and all it started have ended.
    pub async fn close(&self) {
        let mut state = self.child.state();
        self.child.stop();
        state.wait_for(|state| *state == State::Stopped).await.ok();
    }

    fn run_for(&self, out: &Outgoing) -> Result<Arc<Run>, UpstreamError> {
        let run = self.child.run()?;
        if out.run.is_some_and(|wanted| wanted != run.number) {
            return Err(UpstreamError::never_sent("the server was restarted"));
        }
        Ok(run)
    }

    /// Puts a line into the queue to the child, at once or after a bounded wait.
    async fn enqueue(
        &self,
        run: &Run,
        body: Bytes,
        request: Option<Arc<Request>>,
    ) -> Result<(), UpstreamError> {
        let after = self.child.options.waits.queue_max;
        let body = on_one_line(body);
        let share = share_of(body.len(), self.child.options.bounds.write_bytes_max);
        let gone = || UpstreamError::never_sent("the server has just ended");
        let queued = async {
            let shares = Arc::clone(&run.shares).acquire_many_owned(share);
            let share = Some(shares.await.map_err(|_| gone())?);
            run.writes.send(Write { body, request, _share: share }).await.map_err(|_| gone())
        };
        timeout(after, queued)
            .await
            .unwrap_or(Err(UpstreamError::TimedOut { stage: Stage::Queue, after }))
    }
}

/// A message's part of what may wait to be written. One larger than all of it takes all.
fn share_of(bytes: usize, bytes_max: usize) -> u32 {
    u32::try_from(bytes.min(bytes_max)).unwrap_or(u32::MAX)
}

/// A child takes one message per line. In valid JSON a raw line break is white space between tokens,
/// so a blank says the same.
fn on_one_line(body: Bytes) -> Bytes {
    if memchr::memchr2(b'\n', b'\r', &body).is_none() {
        return body;
    }
    let blank = |byte: &u8| {
        if matches!(*byte, b'\n' | b'\r') { b' ' } else { *byte }
    };
    body.iter().map(blank).collect::<Vec<u8>>().into()
}
