//! The context of one request: grant, endpoint, session and transport. It also writes audit rows that no policy
//! decides about.

use std::sync::Arc;
use std::time::Duration;

use policy::Denial;
use store::ledger::{Ending, Facts, LedgerError, Outcome, Permit, Refusal, RefusalKind};

use crate::exchange::parked::Parked;
use crate::exchange::state::SharedState;
use crate::runtime::Services;
use crate::runtime::loop_detection::Via;
use crate::session::{InFlightRequests, Session};
use crate::snapshot::{Grantee, Lease, ServerAccess};
use crate::upstream::open::PeerClient;
use mcp::ClientInfo;
use mcp::{ClientCapabilities, ProtocolError};

/// How long a request waits for a registry that its gate has not read yet.
const REGISTRY_WAIT_MAX: Duration = Duration::from_secs(3);

#[derive(Clone)]
pub(crate) struct RequestContext {
    pub(crate) state: Arc<SharedState>,
    pub(crate) grantee: Arc<Grantee>,
    /// Turns true when the client's token or grant is revoked.
    pub(crate) lease: Lease,
    pub(crate) endpoint: Endpoint,
    pub(crate) session: Option<Arc<Session>>,
    pub(crate) transport: Transport,
    /// The gates that the request passed before.
    pub(crate) via: Via,
    /// In-flight requests of a client on standard streams, where modern requests have no session.
    pub(crate) client_requests: Option<Arc<InFlightRequests>>,
}

/// The endpoint: one server, or all servers of the grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    One(Arc<str>),
    All,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// The client's address, as in the audit log.
    Http {
        remote: Arc<str>,
    },
    Stdio,
}

impl Endpoint {
    pub(crate) fn server(&self) -> Option<&str> {
        match self {
            Endpoint::One(name) => Some(name),
            Endpoint::All => None,
        }
    }
}

impl RequestContext {
    /// The context of a client on standard streams, or of the owner, for one server.
    pub(crate) fn local(
        state: Arc<SharedState>,
        grantee: Arc<Grantee>,
        lease: Lease,
        server: &str,
    ) -> RequestContext {
        RequestContext {
            state,
            grantee,
            lease,
            endpoint: Endpoint::One(server.into()),
            session: None,
            transport: Transport::Stdio,
            via: Via::default(),
            client_requests: Some(Arc::default()),
        }
    }

    pub(crate) fn services(&self) -> &Arc<Services> {
        &self.state.services
    }

    /// The parked calls. None once the gate is gone.
    pub(crate) fn parked(&self) -> Option<Arc<Parked>> {
        self.state.parked.upgrade()
    }

    pub(crate) fn access(&self, server: &str) -> Option<&ServerAccess> {
        self.grantee.accesses.get(server)
    }

    /// The server of an endpoint with one server.
    pub(crate) fn only(&self) -> Option<&ServerAccess> {
        self.access(self.endpoint.server()?)
    }

    /// The in-flight requests of this client.
    pub(crate) fn client_requests(&self) -> Option<&Arc<InFlightRequests>> {
        self.session
            .as_ref()
            .map(|session| &session.client_requests)
            .or(self.client_requests.as_ref())
    }

    /// What a task belongs to within its grant: a session, or the peer that requests without a session share.
    pub(crate) fn conversation(&self) -> &str {
        self.session_id().unwrap_or_default()
    }

    /// The capabilities in the handshake with servers for this client. Without a session, those of the request.
    pub(crate) fn capabilities(&self, of_request: ClientCapabilities) -> ClientCapabilities {
        self.session.as_ref().map_or(of_request, |session| session.announced_capabilities)
    }

    pub(crate) fn session_id(&self) -> Option<&str> {
        self.session.as_ref().map(|session| session.id.as_str())
    }

    pub(crate) fn client(&self) -> Option<&ClientInfo> {
        self.session.as_ref().map(|session| &session.client)
    }

    pub(crate) fn remote(&self) -> Option<&str> {
        match &self.transport {
            Transport::Http { remote } => Some(remote),
            Transport::Stdio => None,
        }
    }

    /// The client that a peer is opened for.
    pub(crate) fn peer_client(&self) -> PeerClient<'_> {
        PeerClient {
            grant: &self.grantee.id,
            quota: &self.grantee.quota,
            is_over_http: matches!(self.transport, Transport::Http { .. }),
            via: self.via.and(&self.services().instance),
        }
    }
}

impl RequestContext {
    /// The caller's part of every audit row.
    pub(crate) fn facts(&self) -> Facts<'_> {
        self.facts_of(self.client())
    }

    pub(crate) fn facts_of<'a>(&'a self, client: Option<&'a ClientInfo>) -> Facts<'a> {
        Facts {
            grant: &self.grantee.label,
            grant_id: &self.grantee.id,
            session: self.session_id(),
            client: client.map(ClientInfo::name),
            client_version: client.and_then(ClientInfo::version),
            ..Facts::default()
        }
    }

    /// Admits a protocol message, which no policy judges, and records it.
    pub(crate) async fn own_act(&self, method: &str, server: &str) -> Result<Permit, LedgerError> {
        let facts = Facts { method, server, remote: self.remote(), ..self.facts() };
        self.passed(&facts).await
    }

    /// The same with these facts. If the store has a newer registry, it is read first.
    pub(crate) async fn passed(&self, facts: &Facts<'_>) -> Result<Permit, LedgerError> {
        loop {
            let passed = self.services().ledger.passed(facts).await;
            let is_behind = matches!(passed, Err(LedgerError::RegistryBehind));
            if !is_behind || self.grantee_of_newer_registry().await.is_none() {
                return passed;
            }
        }
    }

    /// The grantee in the registry that the store has, once this gate has read it. None if it no longer
    /// has access, or if the registry could not be read in time.
    pub(crate) async fn grantee_of_newer_registry(&self) -> Option<Arc<Grantee>> {
        let caught_up = self.services().ledger.registry_caught_up();
        tokio::time::timeout(REGISTRY_WAIT_MAX, caught_up).await.ok()?;
        self.state.snapshots.current_grantee(&self.grantee, self.endpoint.server())
    }

    /// Records a message that the gate answers itself.
    pub(crate) async fn record_passed(
        &self,
        method: &str,
        server: &str,
    ) -> Result<(), LedgerError> {
        self.own_act(method, server).await?.settle_soon(&Outcome::new(Ending::Ok)).leave()
    }

    /// Records a malformed message.
    pub(crate) fn record_refused(
        &self,
        refused: &ProtocolError,
        method: &str,
    ) -> Result<Option<u64>, LedgerError> {
        self.services().metrics.refused();
        let facts = Facts {
            method,
            server: self.endpoint.server().unwrap_or_default(),
            remote: self.remote(),
            ..self.facts()
        };
        let code = refused.code.to_string();
        let refusal =
            Refusal { kind: RefusalKind::Malformed, code: &code, reason: &refused.message };
        self.services().ledger.record_soon(&refusal, &facts, None)
    }

    /// Records a request that is denied because the store cannot be trusted.
    pub(crate) fn record_denied(&self, method: &str, denial: &Denial) -> Option<u64> {
        let facts =
            Facts { method, server: self.endpoint.server().unwrap_or_default(), ..self.facts() };
        let refusal = Refusal {
            kind: RefusalKind::Denied,
            code: denial.code.as_str(),
            reason: &denial.reason,
        };
        let recorded = self.services().ledger.record_soon(&refusal, &facts, None);
        if let Err(error) = &recorded {
            tracing::error!(%error, "could not record a refusal");
        }
        recorded.ok().flatten()
    }
}
