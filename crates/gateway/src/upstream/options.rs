//! Options of links: every size and timeout, and what happens at the limit.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};
use platform::environment::{BASE_NAMES, is_same_name};
use platform::guard::Method;
use tokio::sync::mpsc;
use url::Url;

use super::login::ServerLogin;
use super::mask::Mask;
use super::stderr_tail::{STDERR_BYTES_MAX, StderrTail};
use crate::runtime::response_buffer::BufferQuota;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// A server that sends without a pause yields to other tasks after this much.
pub(super) const TURN_BYTES: usize = 64 * KIB;
/// A larger response is read with pauses while other clients on this thread are active (about 30 MB/s), because
/// at full speed it would block them.
pub(super) const LARGE_BYTES: usize = 512 * KIB;
/// The pause after each turn.
pub(super) const LARGE_PAUSE: Duration = Duration::from_millis(2);

/// Timeouts of a message. Each ends in `TimedOut`, except connecting, which ends in `NeverSent`.
#[derive(Clone, Debug)]
pub struct Waits {
    /// Waiting to send: for a connection to a busy server, or for a child that reads slowly.
    pub queue_max: Duration,
    /// DNS, TCP and TLS handshake together.
    pub connect_max: Duration,
    /// From sending to the first byte of the response.
    pub first_byte_max: Duration,
    /// Between two parts of a response. A keep-alive comment counts as a part.
    pub idle_max: Duration,
    /// The whole exchange. This and the idle timeout do not apply to streams that stay open.
    pub total_max: Duration,
    /// Deleting the session when a link closes.
    pub delete_session_max: Duration,
    /// How long the only request in flight polls for its response; zero turns busy-polling off.
    pub busy_poll_max: Duration,
}

impl Default for Waits {
    fn default() -> Waits {
        Waits {
            queue_max: Duration::from_secs(10),
            connect_max: Duration::from_secs(10),
            first_byte_max: Duration::from_mins(5),
            idle_max: Duration::from_mins(5),
            total_max: Duration::from_hours(1),
            delete_session_max: Duration::from_secs(2),
            busy_poll_max: Duration::ZERO,
        }
    }
}

/// Limits of one HTTP server.
#[derive(Clone, Debug)]
pub struct HttpBounds {
    /// A JSON response. A larger one is `TooLarge` and closes the connection.
    pub answer_bytes_max: usize,
    /// One event of a stream. A larger one is `TooLarge`.
    pub event_bytes_max: usize,
    /// The head of a response. A larger one is `Malformed`.
    pub head_bytes_max: usize,
    /// What is kept of the body of an HTTP error.
    pub refusal_bytes_max: usize,
    /// Bytes per read, and the size of a connection's buffer.
    pub read_bytes_max: usize,
    /// Connections with a request, half of them for one grant. Further requests wait.
    pub connections_max: usize,
    /// Open streams besides requests, half of them for one grant. Further ones wait.
    pub listens_max: usize,
    /// Requests that wait for a connection, per grant and in total. One more is `NeverSent`.
    pub waiting_max: usize,
    /// Idle connections. Further ones are closed.
    pub idle_max: usize,
    /// The idle time of a connection. Common servers close idle connections after 5 s, and a request on a
    /// connection that is being closed is lost, so the gate closes first.
    pub idle_keep_max: Duration,
    /// How long an event stream may take to end after its response, before its connection is closed.
    pub ending_wait_max: Duration,
    /// How much it may still send.
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

/// A server reached over HTTP. No `Debug`: the address and the headers may contain secrets.
#[derive(Clone)]
pub struct HttpOptions {
    pub url: Url,
    /// Configured headers, such as a token. They are marked sensitive, so that no log shows them.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The secrets in headers and address, which are masked in the server's messages.
    pub mask: Option<Arc<Mask>>,
    /// Its logins; none for a server whose token the owner configured as a header.
    pub login: Option<ServerLogin>,
    /// Plain `http` is limited to loopback, unless the owner allowed it for this server.
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
            login: None,
            allow_plain_http: false,
            tls: None,
            waits: Waits::default(),
            bounds: HttpBounds::default(),
        }
    }
}

/// Limits of one child process.
#[derive(Clone, Debug)]
pub struct ChildBounds {
    /// One line of output. A longer one is dropped and its request is `TooLarge`.
    pub line_bytes_max: usize,
    /// Bytes queued for writing. Further lines wait.
    pub write_bytes_max: usize,
    /// Lines queued for writing.
    pub writes_max: usize,
    /// Messages queued for the reader of one request. Then the child's output is not read.
    pub backlog_max: usize,
    /// The same in bytes.
    pub backlog_bytes_max: usize,
    /// A reader that takes nothing for this long loses its request, so that others are served.
    pub slow_reader_wait_max: Duration,
    /// Messages that belong to no request, queued for a listener. Then the oldest is dropped.
    pub unclaimed_max: usize,
    /// The same in bytes.
    pub unclaimed_bytes_max: usize,
    /// The first back-off before a restart. It doubles each time.
    pub backoff_min: Duration,
    pub backoff_max: Duration,
    /// A child that ran this long is healthy, which resets the back-off.
    pub healthy_after: Duration,
    /// Time to exit after its stdin is closed; then it gets TERM.
    pub end_wait_max: Duration,
    /// Time to exit after TERM; then it and its descendants get KILL.
    pub term_wait_max: Duration,
    /// How long requests wait for the exit status after the output has ended.
    pub exit_status_wait_max: Duration,
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
            unclaimed_max: 256,
            unclaimed_bytes_max: 16 * MIB,
            backoff_min: Duration::from_millis(200),
            backoff_max: Duration::from_secs(30),
            healthy_after: Duration::from_mins(1),
            end_wait_max: Duration::from_secs(2),
            term_wait_max: Duration::from_secs(2),
            // The guard waits a third of a second for descendants of the child; the rest is for a busy
            // machine.
            exit_status_wait_max: Duration::from_millis(1500),
        }
    }
}

/// The guard program between the gate and a child, so that no child outlives the gate: this binary, with the
/// arguments that lead it to [`guard::run`](platform::guard::run).
#[derive(Clone, Debug)]
pub struct GuardProgram {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// How it finds what a child started.
    pub method: Method,
    /// The limit of open files for a child, if the gate raised its own.
    pub files_max: Option<u64>,
}

/// A server that is a child process. No `Debug`: its environment may contain secrets.
#[derive(Clone)]
pub struct ChildOptions {
    /// The name in the log.
    pub name: String,
    pub guard_program: GuardProgram,
    pub program: OsString,
    pub args: Vec<OsString>,
    /// The whole environment of the child; see [`base_env`].
    pub env: Vec<(OsString, OsString)>,
    /// The secrets in its environment, which are masked in its messages.
    pub mask: Option<Arc<Mask>>,
    pub cwd: Option<PathBuf>,
    /// Whether messages that belong to no request go to the newest request instead of the listener.
    pub route_to_request: bool,
    pub waits: Waits,
    pub bounds: ChildBounds,
    /// The stderr of all processes with these options.
    pub(super) stderr: Arc<StderrTail>,
    /// Receives the lines of stderr as they are written.
    pub stderr_to: Option<mpsc::Sender<String>>,
    /// The buffer quota for its large responses.
    pub quota: BufferQuota,
}

impl ChildOptions {
    pub fn new(guard_program: GuardProgram, program: impl Into<OsString>) -> ChildOptions {
        let program = program.into();
        ChildOptions {
            name: program.to_string_lossy().into_owned(),
            guard_program,
            program,
            args: Vec::new(),
            env: Vec::new(),
            mask: None,
            cwd: None,
            route_to_request: false,
            waits: Waits::default(),
            bounds: ChildBounds::default(),
            stderr: Arc::new(StderrTail::new(STDERR_BYTES_MAX)),
            stderr_to: None,
            quota: BufferQuota::default(),
        }
    }

    /// The last lines of stderr, for the owner only: they may quote an agent's arguments.
    pub fn last_stderr(&self) -> Option<String> {
        self.stderr.last_stderr(self.mask.as_deref())
    }
}

/// The base environment of a child with the configured variables added.
pub fn base_env(
    ours: impl IntoIterator<Item = (OsString, OsString)>,
    configured: impl IntoIterator<Item = (OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    let may_pass =
        |name: &OsStr| BASE_NAMES.iter().any(|base| is_same_name(name, OsStr::new(base)));
    let mut env: Vec<_> = ours.into_iter().filter(|(name, _)| may_pass(name)).collect();
    for (name, value) in configured {
        env.retain(|(had, _)| !is_same_name(had, &name));
        env.push((name, value));
    }
    env
}
