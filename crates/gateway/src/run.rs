//! Starting and stopping a gate: over HTTP for many clients, over standard streams for one.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use store::registry::{self, PolicyText};
use tokio::io::{AsyncBufRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::door;
use crate::gate::Gate;
use crate::in_force::{self, Holder, Holding};
use crate::keep::{self, ReadSettings};
use crate::scene::{Endpoint, Scene, Transport};
use crate::serve::{AllowedHosts, Lanes, ListenError, Listener, Remote, Tls};
use crate::server::Server;
use crate::upstream::UpstreamError;
use crate::via::Via;
use crate::wire::Era;

/// A stop is over after so long, whatever servers do; beyond it each has at least a moment to hear of it.
/// What is then still running, the guards end.
const STOP_WAIT_MAX: Duration = Duration::from_millis(4500);
const CLOSE_WAIT_MIN: Duration = Duration::from_millis(300);

/// For whom a gate on standard streams speaks.
pub enum Identity<'a> {
    /// A grant by its label; its policy on the server counts.
    Grant(&'a str),
    /// The owner's own policy for this one process.
    Policy(&'a PolicyText),
}

/// A server that lives only as long as this process: `tollgate wrap`, and what is built in.
pub struct Wrapped<'a> {
    /// What audit rows call the owner.
    pub label: &'a str,
    pub server: &'a registry::Server,
    pub policy: &'a PolicyText,
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("there is no server `{0}`\nhint: `tollgate server list` shows those there are")]
    NoServer(String),
    #[error("there is no grant `{0}` in force\nhint: `tollgate grant list` shows them")]
    NoGrant(String),
    #[error(
        "grant `{grant}` does not hold server `{server}`\nhint: `tollgate grant list` shows what it holds"
    )]
    NotHeld { grant: String, server: String },
    #[error("the policy does not load: {0}")]
    Policy(#[from] policy::LoadError),
    #[error("server `{server}` cannot be used: {}{}", why(.error), said(.last_words.as_deref()))]
    Unreachable { server: String, error: UpstreamError, last_words: Option<String> },
    #[error("standard input or output failed: {0}")]
    Streams(#[from] std::io::Error),
}

impl RunError {
    pub(crate) async fn unreachable(server: &Server, error: UpstreamError) -> RunError {
        let last_words = server.last_words_soon().await;
        RunError::Unreachable { server: server.name.clone(), error, last_words }
    }
}

/// What went wrong. That no message was sent is clear to one who only asks for the tools.
fn why(error: &UpstreamError) -> String {
    let text = error.to_string();
    let begins = [
        "the message was not sent: ",
        "no conversation with the server began: ",
        "the answer was lost: ",
        "the server does not run: ",
    ];
    let text =
        begins.iter().fold(text.as_str(), |text, begin| text.strip_prefix(begin).unwrap_or(text));
    text.to_owned()
}

fn said(last_words: Option<&str>) -> String {
    last_words.map(|words| format!("\nit printed: {words}")).unwrap_or_default()
}

/// A gate that listens and does not serve yet.
pub struct Listening {
    gate: Arc<Gate>,
    listener: Listener,
    hosts: Arc<AllowedHosts>,
    address: SocketAddr,
    lanes: Lanes,
}

impl Gate {
    /// Binds the address. Beyond loopback TLS is needed.
    pub async fn listen(
        self: &Arc<Self>,
        address: SocketAddr,
        hostnames: &[String],
        tls: Option<Tls>,
        lanes: usize,
    ) -> Result<Listening, RunError> {
        let secure = tls.is_some();
        let listener = Listener::bind(address, tls, Arc::clone(&self.bounds)).await?;
        let address = listener.address()?;
        self.warn_of_loops(address);
        let hosts = Arc::new(AllowedHosts::new(address, hostnames, secure));
        let lanes = Lanes::start(lanes)?;
        Ok(Listening { gate: Arc::clone(self), listener, hosts, address, lanes })
    }

    /// A server at the gate's own address is of no use; its calls are refused when they come back.
    fn warn_of_loops(&self, address: SocketAddr) {
        for server in self.in_force().servers.values() {
            if server.spec.target.leads_to(address) {
                tracing::error!(server = %server.name, %address, "the address of this server is the gate's own; calls to it are refused");
            }
        }
    }

    /// Speaks with one client on standard streams until its input ends.
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
        let holder = self.local_holder(server, &identity)?;
        self.speak(holder, server, None, input, output).await
    }

    /// Speaks with one client about a server that only this process knows.
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
        let reach = in_force::reach(wrapped.server, &self.makings);
        let start_wait_max = in_force::start_wait_max(wrapped.server, &self.makings.limits);
        let server = Arc::new(Server::passing(wrapped.server.clone(), reach, start_wait_max));
        let holder = self.own_holder(wrapped.label, server, wrapped.policy)?;
        self.speak(holder, &wrapped.server.name, read_policy, input, output).await
    }

    async fn speak<R, W>(
        self: &Arc<Self>,
        holder: Arc<Holder>,
        server: &str,
        read_settings: Option<ReadSettings>,
        input: R,
        output: W,
    ) -> Result<(), RunError>
    where
        R: AsyncBufRead + Unpin,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let keeper = tokio::spawn(keep::keep(Arc::clone(self), read_settings));
        let scene = Scene {
            gate: Arc::clone(self),
            lease: holder.lease(),
            holder,
            endpoint: Endpoint::One(server.into()),
            session: None,
            transport: Transport::Stdio,
            via: Via::default(),
            flights: Some(Arc::default()),
        };
        let spoken = crate::stdio::serve(scene, input, output).await;
        self.begin_stop();
        self.close_everything().await;
        let _ = keeper.await;
        Ok(spoken?)
    }

    fn local_holder(&self, server: &str, identity: &Identity<'_>) -> Result<Arc<Holder>, RunError> {
        match identity {
            Identity::Grant(label) => {
                let holder = self
                    .holder_named(label)
                    .ok_or_else(|| RunError::NoGrant((*label).to_owned()))?;
                if holder.holdings.contains_key(server) {
                    return Ok(holder);
                }
                Err(RunError::NotHeld { grant: (*label).to_owned(), server: server.to_owned() })
            }
            Identity::Policy(text) => {
                let known = self.in_force().servers.get(server).cloned();
                let known = known.ok_or_else(|| RunError::NoServer(server.to_owned()))?;
                self.own_holder("stdio", known, text)
            }
        }
    }

    /// The owner himself, under a policy of his choice.
    fn own_holder(
        &self,
        label: &str,
        server: Arc<Server>,
        text: &PolicyText,
    ) -> Result<Arc<Holder>, RunError> {
        let rules = Some(Arc::new(in_force::compiled(text)?));
        let name = server.name.clone();
        let holdings = BTreeMap::from([(name.into(), Holding::new(server, rules))]);
        // Nobody takes this grant back: it ends with the process.
        let lease = watch::Sender::new(false);
        let places = self.bounds.in_flight_per_grant_max;
        let holder =
            Holder::new(label.to_owned(), label.to_owned(), holdings, lease.subscribe(), places);
        Ok(Arc::new(holder.with_lease(lease)))
    }

    /// Connects to a registered server, reads its tools and compares them with the pins; the first
    /// list ever read is pinned. Answers with the names of the tools.
    pub async fn probe(self: &Arc<Self>, server: &str) -> Result<Vec<String>, RunError> {
        let known = self.in_force().servers.get(server).cloned();
        let known = known.ok_or_else(|| RunError::NoServer(server.to_owned()))?;
        let holding = Holding::new(known, None);
        let holdings = BTreeMap::from([(server.into(), holding.clone())]);
        let lease = watch::Sender::new(false);
        let holder =
            Holder::new("owner".to_owned(), "owner".to_owned(), holdings, lease.subscribe(), 1);
        let scene = Scene {
            gate: Arc::clone(self),
            lease: lease.subscribe(),
            holder: Arc::new(holder.with_lease(lease)),
            endpoint: Endpoint::One(server.into()),
            session: None,
            transport: Transport::Stdio,
            via: Via::default(),
            flights: Some(Arc::default()),
        };
        let looked = self.checked_peer(&scene, &holding, Era::Modern).await;
        self.close_everything().await;
        match looked {
            Ok(_) => Ok(holding.server.pins().names()),
            Err(error) => Err(RunError::unreachable(&holding.server, error).await),
        }
    }

    /// Ends every session and every conversation with a server.
    pub(crate) async fn close_everything(self: &Arc<Self>) {
        self.rounds.give_up();
        let mut closing = tokio::task::JoinSet::new();
        for session in self.sessions.take(|_| true) {
            for peer in session.end() {
                closing.spawn(async move { peer.close().await });
            }
        }
        for server in self.in_force().servers.values() {
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

    /// Serves until `stop` turns true, then settles what is in flight.
    pub async fn serve(self, read_settings: Option<ReadSettings>, mut stop: watch::Receiver<bool>) {
        let keeper = tokio::spawn(keep::keep(Arc::clone(&self.gate), read_settings));
        let (gate, hosts, lanes) = (Arc::clone(&self.gate), self.hosts, self.lanes);
        let answer = move |remote, request| {
            door::answer(Arc::clone(&gate), Arc::clone(&hosts), remote, request)
        };
        let gate = Arc::clone(&self.gate);
        let telling = tokio::spawn(async move {
            let _ = stop.wait_for(|stop| *stop).await;
            gate.begin_stop();
            Instant::now()
        });
        let gate = Arc::clone(&self.gate);
        let broken = Arc::new(move |remote: &Remote, status, words: &'static str| {
            door::broken(&gate, remote, status, words)
        });
        let (clock, stopping) = (self.gate.clock.clone(), self.gate.stopping());
        self.listener.serve(&lanes, clock, answer, broken, stopping).await;
        let left = telling
            .await
            .map_or(Duration::ZERO, |began| STOP_WAIT_MAX.saturating_sub(began.elapsed()));
        let closing = self.gate.close_everything();
        if tokio::time::timeout(left.max(CLOSE_WAIT_MIN), closing).await.is_err() {
            tracing::info!("some servers are left to their guards, which end what they started");
        }
        let _ = keeper.await;
        self.gate.tell_of_strangers(true);
        // Joining the threads blocks; nothing else is left to do here.
        drop(lanes);
    }
}
