//! What a link is told when it is made, and every size and wait of it with what happens at the number.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};
use tokio::sync::mpsc;
use url::Url;

use super::mask::Mask;
use super::ring::{Ring, STDERR_BYTES_MAX};
use crate::room::Account;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// A server that sends without a pause lets others have their turn after so much of it.
pub(super) const TURN_BYTES: usize = 64 * KIB;
/// An answer of more than this is read with pauses while others ask on the same thread, at some thirty
/// megabytes a second: at full speed it would be the thread's whole work.
pub(super) const LARGE_BYTES: usize = 512 * KIB;
/// One pause, after each turn.
pub(super) const LARGE_PAUSE: Duration = Duration::from_millis(2);

/// How long a message may take. Each wait ends in `TimedOut`, except connecting: `NeverSent`.
#[derive(Clone, Debug)]
pub struct Waits {
    /// For room to send: a connection of a busy server, or a child that reads slowly.
    pub queue_max: Duration,
    /// Name look-up, TCP and TLS handshake together.
    pub connect_max: Duration,
    /// From sending to the first byte of the answer.
    pub first_byte_max: Duration,
    /// Between two parts of an answer; a keep-alive comment counts as a part.
    pub idle_max: Duration,
    /// The whole exchange. Neither this nor the idle wait holds for streams meant to stay open.
    pub total_max: Duration,
    /// For the goodbye of a session when a link closes.
    pub farewell_max: Duration,
}

impl Default for Waits {
    fn default() -> Waits {
        Waits {
            queue_max: Duration::from_secs(10),
            connect_max: Duration::from_secs(10),
            first_byte_max: Duration::from_mins(5),
            idle_max: Duration::from_mins(5),
            total_max: Duration::from_hours(1),
            farewell_max: Duration::from_secs(2),
        }
    }
}

/// What one HTTP server may take of us.
#[derive(Clone, Debug)]
pub struct HttpBounds {
    /// A JSON answer; a larger one is `TooLarge` and its connection is closed.
    pub answer_bytes_max: usize,
    /// One event of an event stream; a larger one is `TooLarge`.
    pub event_bytes_max: usize,
    /// The head of an answer; a larger one is `Garbled`.
    pub head_bytes_max: usize,
    /// What is kept of an answer that is not JSON-RPC and has a status of refusal; the rest is not read.
    pub refusal_bytes_max: usize,
    /// One read of the socket; also what a connection may hold in its buffer.
    pub read_bytes_max: usize,
    /// Connections with a request on them, half of them for one grant; one more waits.
    pub connections_max: usize,
    /// Streams we listen on, apart from requests, half of them for one grant; one more waits.
    pub listens_max: usize,
    /// Requests that wait for a connection, of one grant or of all; one more is `NeverSent`.
    pub waiting_max: usize,
    /// Connections kept for the next request; one more is closed.
    pub idle_max: usize,
    /// An idle connection is closed after so long. Common servers close theirs after 5 s, and a
    /// request that meets the closing door is lost, so we close first.
    pub idle_keep_max: Duration,
    /// After its answer an event stream may take so long to end before its connection is closed.
    pub ending_wait_max: Duration,
    /// And send so much.
    pub ending_bytes_max: usize,
}

impl Default for HttpBounds {
    fn default() -> HttpBounds {
        HttpBounds {
            answer_bytes_max: 32 * MIB,
            event_bytes_max: 32 * MIB,
            head_bytes_max: 64 * KIB,
            refusal_bytes_max: 64 * KIB,
            read_bytes_max: 128 * KIB,
            connections_max: 512,
            listens_max: 4096,
            waiting_max: 1024,
            idle_max: 256,
            idle_keep_max: Duration::from_secs(4),
            ending_wait_max: Duration::from_secs(1),
            ending_bytes_max: 64 * KIB,
        }
    }
}

/// A server reached over HTTP. Not for showing: the address and the headers may hold secrets.
#[derive(Clone)]
pub struct HttpOptions {
    pub url: Url,
    /// Headers the owner set, such as a token. They are marked sensitive, so that no log shows them.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The secrets among them, and in the address; they are replaced in what the server says.
    pub mask: Option<Arc<Mask>>,
    /// Plain `http` goes to loopback only, unless the owner allowed it for this server.
    pub allow_plain_http: bool,
    /// From [`client_config`](super::client_config); needed for `https`.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    pub waits: Waits,
    pub bounds: HttpBounds,
}

impl HttpOptions {
    pub fn new(url: Url) -> HttpOptions {
        HttpOptions {
            url,
            headers: Vec::new(),
            mask: None,
            allow_plain_http: false,
            tls: None,
            waits: Waits::default(),
            bounds: HttpBounds::default(),
        }
    }
}

/// What one child process may take of us.
#[derive(Clone, Debug)]
pub struct ChildBounds {
    /// One line of its output; a longer one is dropped and its request is `TooLarge`.
    pub line_bytes_max: usize,
    /// Lines waiting to be written, in bytes; one more waits.
    pub write_bytes_max: usize,
    /// And in number.
    pub writes_max: usize,
    /// Messages that wait for the reader of one request; then the child's output is not read on.
    pub backlog_max: usize,
    /// And in bytes.
    pub backlog_bytes_max: usize,
    /// A reader that takes nothing for so long loses its request, so that others are served.
    pub slow_reader_wait_max: Duration,
    /// Messages of the server's own kept while nobody listens; then the oldest is dropped.
    pub unheard_max: usize,
    /// And in bytes.
    pub unheard_bytes_max: usize,
    /// The first pause before a restart; each further one is twice as long.
    pub backoff_min: Duration,
    pub backoff_max: Duration,
    /// A child that ran for so long is healthy, and the next pause is the first again.
    pub healthy_after: Duration,
    /// After its stdin is closed, a child has so long to end; then it gets TERM.
    pub end_wait_max: Duration,
    /// After TERM it has so long; then it and all it started get KILL.
    pub term_wait_max: Duration,
    /// Once its output has ended, requests wait so long to be told how it ended.
    pub last_word_wait_max: Duration,
}

impl Default for ChildBounds {
    fn default() -> ChildBounds {
        ChildBounds {
            line_bytes_max: 32 * MIB,
            write_bytes_max: 64 * MIB,
            writes_max: 1024,
            backlog_max: 1024,
            backlog_bytes_max: 64 * MIB,
            slow_reader_wait_max: Duration::from_secs(5),
            unheard_max: 256,
            unheard_bytes_max: 16 * MIB,
            backoff_min: Duration::from_millis(200),
            backoff_max: Duration::from_secs(30),
            healthy_after: Duration::from_mins(1),
            end_wait_max: Duration::from_secs(2),
            term_wait_max: Duration::from_secs(2),
            // The guard gives what the child left behind a third of a second to end before it ends itself;
            // the rest is for a machine that is busy.
            last_word_wait_max: Duration::from_millis(1500),
        }
    }
}

/// The program that stands between us and a child, so that nothing outlives us: our own binary with
/// the words that lead it to [`shim::run`](super::shim::run).
#[derive(Clone, Debug)]
pub struct Shim {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// How many open files a child may have, where we asked for more for ourselves.
    pub files_max: Option<u64>,
}

/// A server that is a child process. Not for showing: its environment may hold secrets.
#[derive(Clone)]
pub struct ChildOptions {
    /// What the log calls it.
    pub name: String,
    pub shim: Shim,
    pub program: OsString,
    pub args: Vec<OsString>,
    /// The whole environment of the child; see [`base_env`].
    pub env: Vec<(OsString, OsString)>,
    /// The owner's secrets in its environment; they are replaced in what the child says.
    pub mask: Option<Arc<Mask>>,
    pub cwd: Option<PathBuf>,
    /// Whether what the server says on its own goes to the newest request instead of the listener.
    pub route_to_request: bool,
    pub waits: Waits,
    pub bounds: ChildBounds,
    /// What its processes say on stderr, of all that are started with these options.
    pub(super) stderr: Arc<Ring>,
    /// Who hears what its processes say on stderr as they say it, if anybody does.
    pub stderr_to: Option<mpsc::Sender<String>>,
    /// Whose its large answers are.
    pub account: Account,
}

impl ChildOptions {
    pub fn new(shim: Shim, program: impl Into<OsString>) -> ChildOptions {
        let program = program.into();
        ChildOptions {
            name: program.to_string_lossy().into_owned(),
            shim,
            program,
            args: Vec::new(),
            env: Vec::new(),
            mask: None,
            cwd: None,
            route_to_request: false,
            waits: Waits::default(),
            bounds: ChildBounds::default(),
            stderr: Arc::new(Ring::new(STDERR_BYTES_MAX)),
            stderr_to: None,
            account: Account::default(),
        }
    }

    /// What its processes said last on stderr, for the owner's eyes: it may quote an agent's arguments.
    pub fn last_words(&self) -> Option<String> {
        self.stderr.last_words(self.mask.as_deref())
    }
}

/// The variables of our own environment that a child may have.
pub const BASE_ENV_NAMES: [&str; 5] = ["PATH", "HOME", "LANG", "TMPDIR", "USER"];

/// The clean base of a child's environment, with what the owner configured on top.
pub fn base_env(
    ours: impl IntoIterator<Item = (OsString, OsString)>,
    configured: impl IntoIterator<Item = (OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    let may_pass = |name: &OsStr| BASE_ENV_NAMES.iter().any(|base| name == OsStr::new(base));
    let mut env: Vec<_> = ours.into_iter().filter(|(name, _)| may_pass(name)).collect();
    for (name, value) in configured {
        env.retain(|(had, _)| *had != name);
        env.push((name, value));
    }
    env
}
