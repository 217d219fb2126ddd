//! Starting and stopping a gate: over HTTP for many clients, over stdio for one.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use oauth::server::Issuer;
use store::registry::{self, PolicyText};
use tokio::io::{AsyncBufRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::edge::Edge;
use crate::edge::http;
use crate::edge::owner_pages::Pages;
use crate::edge::serve::{AllowedHosts, ListenError, Listener, Remote, Tls, Workers};
use crate::exchange::context::RequestContext;
use crate::exchange::skills;
use crate::exchange::tool_check;
use crate::gate::Gate;
use crate::gate::reload::{self, ReadSettings};
use crate::snapshot::{self, Grantee, ServerAccess};
use crate::upstream::UpstreamError;
use crate::upstream::server::Server;
use mcp::Era;

/// Shutdown takes at most this long, whatever servers do, but each server gets at least the minimum
/// to close. The guards end what still runs then.
const STOP_WAIT_MAX: Duration = Duration::from_millis(4500);
const CLOSE_WAIT_MIN: Duration = Duration::from_millis(300);

/// The grant or policy of a gate on stdio.
pub enum Identity<'a> {
    /// A grant by its label, with its policy for the server.
    Grant(&'a str),
    /// A policy of the owner for this process.
    Policy(&'a PolicyText),
}

/// A server that exists only for this process: `tollgate wrap`, and built-in servers.
pub struct Wrapped<'a> {
    /// The owner's label in audit rows.
    pub label: &'a str,
    pub server: &'a registry::Server,
    pub policy: &'a PolicyText,
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("unknown server `{0}`\nhint: `tollgate server list` lists the servers")]
    NoServer(String),
    #[error("no active grant `{0}`\nhint: `tollgate grant list` lists the grants")]
    NoGrant(String),
    #[error(
        "grant `{grant}` has no access to server `{server}`\nhint: `tollgate grant list` lists the servers of a grant"
    )]
    NotHeld { grant: String, server: String },
    #[error(
        "server `{0}` needs an operator grant\nhint: `tollgate grant create LABEL --operator --server {0}` creates one; use it with `--grant LABEL`"
    )]
    NeedsOperator(String),
    #[error("cannot load the policy: {0}")]
    Policy(#[from] policy::LoadError),
    #[error("server `{server}` cannot be used: {}{}", .error.reason(), stderr_hint(.last_stderr.as_deref()))]
    Unreachable { server: String, error: UpstreamError, last_stderr: Option<String> },
    #[error("the call has no response; the audit log has its outcome")]
    NoResponse,
    #[error("standard input or output failed: {0}")]
    Streams(#[from] std::io::Error),
}

impl RunError {
    pub(crate) async fn unreachable(server: &Server, error: UpstreamError) -> RunError {
        let last_stderr = server.wait_for_stderr().await;
        RunError::Unreachable { server: server.name.clone(), error, last_stderr }
    }

    /// Whether the server refused because the owner must sign in there.
    pub fn needs_sign_in(&self) -> bool {
        matches!(self, RunError::Unreachable { error: UpstreamError::SignIn { .. }, .. })
    }
}

fn stderr_hint(last_stderr: Option<&str>) -> String {
    last_stderr.map(|message| format!("\nit printed: {message}")).unwrap_or_default()
}

/// A gate with a bound socket that does not serve yet.
pub struct Listening {
    gate: Arc<Gate>,
    listener: Listener,
    hosts: AllowedHosts,
    address: SocketAddr,
    workers: Workers,
    pages: Option<Arc<dyn Pages>>,
    issuer: Option<Issuer>,
}

impl Gate {
    /// Binds the address. An address other than loopback needs TLS.
    pub async fn listen(
        self: &Arc<Self>,
        address: SocketAddr,
        hostnames: &[String],
        tls: Option<Tls>,
        workers: usize,
    ) -> Result<Listening, RunError> {
        let secure = tls.is_some();
        let listener = Listener::bind(address, tls, Arc::clone(&self.services().bounds)).await?;
        let address = listener.address()?;
        self.warn_of_loops(address);
        let hosts = AllowedHosts::new(address, hostnames, secure);
        let workers = Workers::start(workers)?;
        let gate = Arc::clone(self);
        Ok(Listening { gate, listener, hosts, address, workers, pages: None, issuer: None })
    }

    /// A server with the gate's own address is a loop; its calls are refused when they arrive back.
    fn warn_of_loops(&self, address: SocketAddr) {
        for server in self.state.snapshots.current().servers.values() {
            if server.spec.target.leads_to(address) {
                tracing::error!(server = %server.name, %address, "this server has the gate's own address; calls to it are refused");
            }
        }
    }

    /// Serves one client on stdio until its input ends.
    pub async fn stdio<R, W>(
        self: &Arc<Self>,
        server: &str,
        identity: Identity<'_>,
        input: R,
        output: W,
    ) -> Result<(), RunError>
    where
        R: AsyncBufRead + Unpin,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let grantee = self.local_grantee(server, &identity)?;
        self.serve_stdio(grantee, server, None, input, output).await
    }

    /// Serves one client with a server that only this process knows.
    pub async fn wrap<R, W>(
        self: &Arc<Self>,
        wrapped: Wrapped<'_>,
        read_policy: Option<ReadSettings>,
        input: R,
        output: W,
    ) -> Result<(), RunError>
    where
        R: AsyncBufRead + Unpin,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let backend = snapshot::backend(wrapped.server, &self.state.snapshots.factory);
        let start_wait_max =
            snapshot::start_wait_max(wrapped.server, &self.state.snapshots.factory.limits);
        let server =
            Arc::new(Server::unregistered(wrapped.server.clone(), backend, start_wait_max));
        let grantee = self.owner_grantee(wrapped.label, server, wrapped.policy)?;
        self.serve_stdio(grantee, &wrapped.server.name, read_policy, input, output).await
    }

    async fn serve_stdio<R, W>(
        self: &Arc<Self>,
        grantee: Arc<Grantee>,
        server: &str,
        read_settings: Option<ReadSettings>,
        input: R,
        output: W,
    ) -> Result<(), RunError>
    where
        R: AsyncBufRead + Unpin,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let reload_loop = tokio::spawn(reload::run(Arc::clone(self), read_settings));
        let lease = grantee.lease();
        let context = RequestContext::local(Arc::clone(&self.state), grantee, lease, server);
        let ended = crate::edge::stdio::serve(context, input, output).await;
        self.services().begin_stop();
        self.close_everything().await;
        let _ = reload_loop.await;
        Ok(ended?)
    }

    fn local_grantee(
        &self,
        server: &str,
        identity: &Identity<'_>,
    ) -> Result<Arc<Grantee>, RunError> {
        match identity {
            Identity::Grant(label) => {
                let grantee = self
                    .state
                    .snapshots
                    .grantee_named(label)
                    .ok_or_else(|| RunError::NoGrant((*label).to_owned()))?;
                if grantee.accesses.contains_key(server) {
                    return Ok(grantee);
                }
                Err(RunError::NotHeld { grant: (*label).to_owned(), server: server.to_owned() })
            }
            Identity::Policy(text) => {
                let known = self.state.snapshots.current().servers.get(server).cloned();
                let known = known.ok_or_else(|| RunError::NoServer(server.to_owned()))?;
                self.owner_grantee("stdio", known, text)
            }
        }
    }

    /// A grantee for the owner, with the given policy.
    fn owner_grantee(
        &self,
        label: &str,
        server: Arc<Server>,
        text: &PolicyText,
    ) -> Result<Arc<Grantee>, RunError> {
        // The owner decides with `tollgate approvals`; a program on stdio needs an operator grant.
        if server.spec.target.is_operator() {
            return Err(RunError::NeedsOperator(server.name.clone()));
        }
        let rules = Some(Arc::new(snapshot::compiled(text)?));
        let name = server.name.clone();
        let accesses = BTreeMap::from([(name.into(), ServerAccess::new(server, rules))]);
        // This grant is never revoked: it ends with the process.
        let lease = watch::Sender::new(false);
        let places = self.services().bounds.in_flight_per_grant_max;
        let grantee =
            Grantee::new(label.to_owned(), label.to_owned(), accesses, lease.subscribe(), places);
        Ok(Arc::new(grantee.with_lease(lease)))
    }

    /// Connects to a registered server, reads its tools and skills and compares them with the pins. The first
    /// lists ever read are pinned. Returns the names of the tools.
    pub async fn probe(self: &Arc<Self>, server: &str) -> Result<Vec<String>, RunError> {
        let known = self.state.snapshots.current().servers.get(server).cloned();
        let known = known.ok_or_else(|| RunError::NoServer(server.to_owned()))?;
        let access = ServerAccess::new(known, None);
        let context = self.owner_context(server, &access);
        let looked = tool_check::checked_peer(&context, &access, Era::Modern).await;
        if looked.is_ok() {
            skills::probe(&context, &access).await;
        }
        self.close_everything().await;
        match looked {
            Ok(_) => Ok(access.server.pins().names()),
            Err(error) => Err(RunError::unreachable(&access.server, error).await),
        }
    }

    /// Ends every session and closes every connection to a server.
    pub(crate) async fn close_everything(self: &Arc<Self>) {
        self.parked.give_up();
        let mut closing = tokio::task::JoinSet::new();
        for session in self.state.sessions.take(|_| true) {
            for peer in session.end() {
                closing.spawn(async move { peer.close().await });
            }
        }
        for server in self.state.snapshots.current().servers.values() {
            for peer in server.take_shared(|_| true) {
                closing.spawn(async move { peer.close().await });
            }
        }
        while closing.join_next().await.is_some() {}
    }
}

impl Listening {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same with pages for people at all other addresses.
    #[must_use]
    pub fn with_pages(self, pages: Arc<dyn Pages>) -> Listening {
        Listening { pages: Some(pages), ..self }
    }

    /// The same with an authorization server, whose pages are among those for people. `is_public` if the
    /// issuer is the public URL.
    #[must_use]
    pub fn with_issuer(self, issuer: Issuer, is_public: bool) -> Listening {
        let hosts = if is_public { self.hosts.with_public(&issuer) } else { self.hosts };
        Listening { hosts, issuer: Some(issuer), ..self }
    }

    /// Serves until `stop` turns true, then drains calls in flight.
    pub async fn serve(self, read_settings: Option<ReadSettings>, mut stop: watch::Receiver<bool>) {
        let reload_loop = tokio::spawn(reload::run(Arc::clone(&self.gate), read_settings));
        let edge =
            Arc::new(Edge::new(Arc::clone(&self.gate.state), self.hosts, self.pages, self.issuer));
        let (workers, answering) = (self.workers, Arc::clone(&edge));
        let answer = move |remote, request| http::answer(Arc::clone(&answering), remote, request);
        let gate = Arc::clone(&self.gate);
        let stop_time = tokio::spawn(async move {
            let _ = stop.wait_for(|stop| *stop).await;
            gate.services().begin_stop();
            Instant::now()
        });
        let on_bad_connection = Arc::new(move |remote: &Remote, status, message: &'static str| {
            http::reject_connection(&edge, remote, status, message)
        });
        let services = Arc::clone(self.gate.services());
        let (clock, stopping) = (services.clock.clone(), services.stopping());
        self.listener.serve(&workers, clock, answer, on_bad_connection, stopping).await;
        let left = stop_time
            .await
            .map_or(Duration::ZERO, |began| STOP_WAIT_MAX.saturating_sub(began.elapsed()));
        let closing = self.gate.close_everything();
        if tokio::time::timeout(left.max(CLOSE_WAIT_MIN), closing).await.is_err() {
            tracing::info!("some servers did not close in time; their guards will end them");
        }
        let _ = reload_loop.await;
        services.flush_anonymous_rows(true);
        // Joining the threads blocks, but nothing else is left to do here.
        drop(workers);
    }
}
