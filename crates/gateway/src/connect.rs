//! Finds the conversation with a server that a request goes through, or opens it, and the client
//! capabilities that the server's tool list depends on there.

use std::sync::Arc;
use std::time::Duration;

use store::ledger::{Ending, Permit};

use crate::gate::Gate;
use crate::in_force::Holding;
use crate::listen;
use crate::open;
use crate::peer::Peer;
use crate::scene::Scene;
use crate::serve::turned_true;
use crate::server::Server;
use crate::session::{Opener, Session};
use crate::upstream::UpstreamError;
use crate::wire::{Era, Takes};

impl Gate {
    /// The conversation that this request goes through, opened if need be.
    pub(crate) async fn peer_for(
        self: &Arc<Self>,
        scene: &Scene,
        holding: &Holding,
        era: Era,
        permit: &Permit,
    ) -> Result<Arc<Peer>, UpstreamError> {
        let session = scene.session.as_ref().filter(|_| era == Era::Legacy);
        if let Some(session) = session.filter(|_| !holding.server.is_shared_by_all()) {
            return match session.peer(&holding.server.name) {
                Some(peer) => Ok(peer),
                None => self.joined(scene, session, holding).await,
            };
        }
        let place = holding.server.shared(&scene.holder.id);
        let opened = place.get_or_try_init(|| async {
            holding.server.may_start(&scene.holder.id)?;
            let opened = Box::pin(open::shared(scene, &holding.server, permit, era)).await;
            holding.server.tried_to_start(&scene.holder.id, opened.is_ok());
            opened.map(Arc::new)
        });
        let peer = Arc::clone(opened.await.map_err(|error| self.not_begun(holding, error))?);
        if let Some(session) = session
            && session.hearing(&holding.server.name).is_some()
        {
            tokio::spawn(listen::follow_shared(scene.clone(), Arc::clone(&peer)));
        }
        Ok(peer)
    }

    /// The conversation of a session with a server that it joins. One task opens it, also when the
    /// request that wanted it first has given up: a slow server is started once.
    async fn joined(
        self: &Arc<Self>,
        scene: &Scene,
        session: &Arc<Session>,
        holding: &Holding,
    ) -> Result<Arc<Peer>, UpstreamError> {
        let (mut opening, report) = session.opening(&holding.server.name);
        if let Some(report) = report {
            tokio::spawn(join(scene.clone(), holding.clone(), report));
        }
        let wait_max = self.call_wait_max(&holding.server);
        let opened = tokio::time::timeout(wait_max, opening.wait_for(Option::is_some)).await;
        let never_sent = |why: &str| Err(UpstreamError::NeverSent { why: why.to_owned() });
        match opened {
            Ok(Ok(opened)) => match &*opened {
                Some(Ok(peer)) => Ok(Arc::clone(peer)),
                Some(Err(why)) => never_sent(why),
                None => never_sent("the server was not started"),
            },
            Ok(Err(_)) => never_sent("the start of the server was broken off"),
            Err(_) => never_sent(&format!(
                "the server is still starting after {} s; try again",
                wait_max.as_secs()
            )),
        }
    }

    /// How long one call to a server may take.
    fn call_wait_max(&self, server: &Server) -> Duration {
        let limits = &self.makings.limits;
        let wait_ms = server.spec.options.call_ms_max.unwrap_or(limits.upstream_call_wait_ms_max);
        Duration::from_millis(wait_ms)
    }

    /// The capabilities that a server's tool list depends on, for a client that declares these.
    pub(crate) fn capabilities_at(scene: &Scene, server: &Server, of_request: Takes) -> Takes {
        let of_client = scene.capabilities(of_request);
        let own = scene.session.as_ref().and_then(|session| session.peer(&server.name));
        let is_shared = scene.session.is_none() || server.is_shared_by_all();
        let shared = || server.shared_peer(&scene.holder.id).filter(|_| is_shared);
        match own.or_else(shared) {
            Some(peer) => peer.capabilities(of_client),
            None if server.is_shared_by_all() => Takes::default(),
            None => of_client,
        }
    }

    /// The same for a list that the gate itself reads for the client.
    pub(crate) fn own_set(scene: &Scene, server: &Server) -> Takes {
        Gate::capabilities_at(scene, server, Takes::default())
    }

    /// The same for a call. What clients without a session declare may never have been listed with; then
    /// the list that the gate itself reads for them counts.
    pub(crate) fn capabilities_of_call(scene: &Scene, server: &Server, of_request: Takes) -> Takes {
        let set = Gate::capabilities_at(scene, server, of_request);
        if scene.session.is_none() && !server.pins().knows(set) { Takes::default() } else { set }
    }

    /// A conversation that did not begin is noted for the owner; the call itself was not sent.
    fn not_begun(&self, holding: &Holding, error: UpstreamError) -> UpstreamError {
        let error = open::before_the_call(error);
        holding.server.marks.went_wrong(self.clock.now().wall_us, error.to_string());
        error
    }
}

/// Opens the conversation of a session with a server and says how that went.
async fn join(scene: Scene, holding: Holding, report: Opener) {
    let (gate, server) = (&scene.gate, &holding.server);
    let Some(session) = scene.session.clone() else { return };
    let opened = match gate.own_act(&scene, "initialize", &server.name) {
        Err(error) => {
            let why = format!("the audit log cannot be written: {error}");
            Err(UpstreamError::NeverSent { why })
        }
        Ok(permit) => {
            let mut ended = session.ended();
            let opened = tokio::select! {
                opened = start(&scene, &holding, &permit) => opened,
                // Nobody wants the process any more.
                () = turned_true(&mut ended) => Err(UpstreamError::Closed),
            };
            Gate::settled(permit, if opened.is_ok() { Ending::Ok } else { Ending::Error });
            opened
        }
    };
    let opened = opened.map(Arc::new).map_err(|error| match gate.not_begun(&holding, error) {
        UpstreamError::NeverSent { why } => why,
        error => error.to_string(),
    });
    if !session.opened(&server.name, opened.as_ref().ok()) {
        Gate::close_peers(opened.into_iter().collect());
        return;
    }
    if let Ok(peer) = &opened {
        let commands_max = gate.bounds.commands_per_grant_max;
        let mut evicted = gate.sessions.take_beyond_share(&session, &gate.bounds);
        evicted.extend(gate.sessions.take_beyond(&session, commands_max));
        for evicted in evicted {
            Gate::close_peers(evicted.end());
        }
        hear_later(&scene, peer);
        gate.tell_level(&scene, peer).await;
    }
    report.send_replace(Some(opened));
}

/// Starts a server for a session. One that failed a moment ago is not started again at once.
async fn start(scene: &Scene, holding: &Holding, permit: &Permit) -> Result<Peer, UpstreamError> {
    holding.server.may_start(&scene.holder.id)?;
    let opened = Box::pin(open::joining(scene, holding, permit)).await;
    holding.server.tried_to_start(&scene.holder.id, opened.is_ok());
    opened
}

/// A server that joined a session later is heard on the stream that is open already.
fn hear_later(scene: &Scene, peer: &Arc<Peer>) {
    let (scene, peer) = (scene.clone(), Arc::clone(peer));
    tokio::spawn(async move { crate::listen::start(&scene, &peer).await });
}
