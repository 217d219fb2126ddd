//! Who says something to the gate, where, and over what.

use std::sync::Arc;

use crate::client::Client;
use crate::gate::Gate;
use crate::in_force::{Holder, Holding, Lease};
use crate::serve::Remote;
use crate::session::{Flights, Session};
use crate::via::Via;
use crate::wire::Takes;

/// The surroundings of one message.
#[derive(Clone)]
pub(crate) struct Scene {
    pub(crate) gate: Arc<Gate>,
    pub(crate) holder: Arc<Holder>,
    /// Turns true when what the client came in with is taken back: its token, or its grant.
    pub(crate) lease: Lease,
    pub(crate) endpoint: Endpoint,
    pub(crate) session: Option<Arc<Session>>,
    pub(crate) transport: Transport,
    /// The gates that the request came through before.
    pub(crate) via: Via,
    /// What is under way for a client on standard streams, whose requests of the newer era have no
    /// session to be found in.
    pub(crate) flights: Option<Arc<Flights>>,
}

/// What is addressed: one server, or all that the grant holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    One(Arc<str>),
    All,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Http { remote: Remote },
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

impl Scene {
    pub(crate) fn holding(&self, server: &str) -> Option<&Holding> {
        self.holder.holdings.get(server)
    }

    /// The only server there is at this endpoint.
    pub(crate) fn only(&self) -> Option<&Holding> {
        self.holding(self.endpoint.server()?)
    }

    /// Where the requests of this client that are under way can be found.
    pub(crate) fn flights(&self) -> Option<&Arc<Flights>> {
        self.session.as_ref().map(|session| &session.flights).or(self.flights.as_ref())
    }

    /// What a task belongs to within its grant: a session, or the conversation that the grant's sessionless
    /// requests share.
    pub(crate) fn conversation(&self) -> &str {
        self.session_id().unwrap_or_default()
    }

    /// The capabilities that servers are greeted with for this client; without a session, those that
    /// the request itself declares.
    pub(crate) fn capabilities(&self, of_request: Takes) -> Takes {
        self.session.as_ref().map_or(of_request, |session| session.greeted)
    }

    pub(crate) fn session_id(&self) -> Option<&str> {
        self.session.as_ref().map(|session| session.id.as_str())
    }

    pub(crate) fn client(&self) -> Option<&Client> {
        self.session.as_ref().map(|session| &session.client)
    }
}
