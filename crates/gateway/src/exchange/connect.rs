//! Finds or opens the peer of a request, and knows the client capabilities that the server's tool list depends
//! on.

use std::sync::Arc;
use std::time::Duration;

use store::ledger::Permit;

use crate::exchange::context::RequestContext;
use crate::exchange::tool_check;
use crate::runtime::permits;
use crate::runtime::stop_signal::turned_true;
use crate::session::{Opener, Session};
use crate::snapshot::ServerAccess;
use crate::upstream::UpstreamError;
use crate::upstream::open;
use crate::upstream::peer::{self, Peer};
use crate::upstream::server::Server;
use mcp::{ClientCapabilities, Era};

/// The peer of this request, opened on first use.
pub(crate) async fn peer_for(
    context: &RequestContext,
    access: &ServerAccess,
    era: Era,
    permit: &Permit,
) -> Result<Arc<Peer>, UpstreamError> {
    let session = context.session.as_ref().filter(|_| era == Era::Legacy);
    if let Some(session) = session.filter(|_| !access.server.is_shared_by_all()) {
        return match session.peer(&access.server.name) {
            Some(peer) => Ok(peer),
            None => session_peer(context, session, access).await,
        };
    }
    let cell = access.server.shared(&context.grantee.id);
    let opened = cell.get_or_try_init(|| async {
        access.server.may_start(&context.grantee.id)?;
        let opened =
            Box::pin(open::shared(&context.peer_client(), &access.server, permit, era)).await;
        access.server.record_start(&context.grantee.id, opened.is_ok());
        opened.map(Arc::new)
    });
    let peer =
        Arc::clone(opened.await.map_err(|error| record_open_failure(context, access, error))?);
    if let Some(session) = session
        && session.add_server_stream(&access.server.name)
    {
        context.state.upper_layers.follow_shared_lists(context.clone(), Arc::clone(&peer));
    }
    Ok(peer)
}

/// The peer of a session. One task opens it, even if the first request gives up, so that a slow server is
/// started once.
async fn session_peer(
    context: &RequestContext,
    session: &Arc<Session>,
    access: &ServerAccess,
) -> Result<Arc<Peer>, UpstreamError> {
    let (mut opening, report) = session.opening(&access.server.name);
    if let Some(report) = report {
        tokio::spawn(open_for_session(context.clone(), access.clone(), report));
    }
    let wait_max = call_wait_max(context, &access.server);
    let opened = tokio::time::timeout(wait_max, opening.wait_for(Option::is_some)).await;
    let never_sent = |why: &str| Err(UpstreamError::never_sent(why));
    match opened {
        Ok(Ok(opened)) => match &*opened {
            Some(Ok(peer)) => Ok(Arc::clone(peer)),
            Some(Err(error)) => Err(error.clone()),
            None => never_sent("the server was not started"),
        },
        Ok(Err(_)) => never_sent("the start of the server was cancelled"),
        Err(_) => never_sent(&format!(
            "the server is still starting after {} s; try again",
            wait_max.as_secs()
        )),
    }
}

/// The timeout of one call to a server.
fn call_wait_max(context: &RequestContext, server: &Server) -> Duration {
    let limits = &context.state.snapshots.factory.limits;
    let wait_ms = server.spec.options.call_ms_max.unwrap_or(limits.upstream_call_wait_ms_max);
    Duration::from_millis(wait_ms)
}

/// The capabilities that a server's tool list depends on, for a client with these capabilities.
pub(crate) fn capabilities_at(
    context: &RequestContext,
    server: &Server,
    of_request: ClientCapabilities,
) -> ClientCapabilities {
    let of_client = context.capabilities(of_request);
    let own = context.session.as_ref().and_then(|session| session.peer(&server.name));
    let is_shared = context.session.is_none() || server.is_shared_by_all();
    let shared = || server.shared_peer(&context.grantee.id).filter(|_| is_shared);
    match own.or_else(shared) {
        Some(peer) => peer.capabilities(of_client),
        None if server.is_shared_by_all() => ClientCapabilities::default(),
        None => of_client,
    }
}

/// The same for a list that the gate reads for the client.
pub(crate) fn own_capabilities(context: &RequestContext, server: &Server) -> ClientCapabilities {
    capabilities_at(context, server, ClientCapabilities::default())
}

/// The same for a call. A client without a session may declare capabilities whose list was never read; then the
/// list that the gate reads is used.
pub(crate) fn capabilities_of_call(
    context: &RequestContext,
    server: &Server,
    of_request: ClientCapabilities,
) -> ClientCapabilities {
    let set = capabilities_at(context, server, of_request);
    if context.session.is_none() && !server.pins().knows(set) {
        ClientCapabilities::default()
    } else {
        set
    }
}

/// Records for the owner that a peer could not be opened. The call was not sent.
fn record_open_failure(
    context: &RequestContext,
    access: &ServerAccess,
    error: UpstreamError,
) -> UpstreamError {
    let error = open::as_never_sent(error);
    access.server.health.record_failure(context.services().clock.now().wall_us, error.to_string());
    error
}

/// Opens the peer of a session and reports the outcome.
async fn open_for_session(context: RequestContext, access: ServerAccess, report: Opener) {
    let server = &access.server;
    let Some(session) = context.session.clone() else { return };
    let opened = match context.own_act("initialize", &server.name).await {
        Err(error) => {
            Err(UpstreamError::never_sent(format!("the audit log cannot be written: {error}")))
        }
        Ok(permit) => {
            let mut ended = session.ended();
            let opened = tokio::select! {
                opened = start(&context, &session, &access, &permit) => opened,
                // The session has ended.
                () = turned_true(&mut ended) => Err(UpstreamError::Closed),
            };
            permits::settle_by(permit, &opened);
            opened
        }
    };
    let opened =
        opened.map(Arc::new).map_err(|error| record_open_failure(&context, &access, error));
    if !session.opened(&server.name, opened.as_ref().ok()) {
        peer::close_all(opened.into_iter().collect());
        return;
    }
    if let Ok(peer) = &opened {
        let services = context.services();
        context.state.sessions.evict_for(&session, &services.bounds);
        // Its messages go to the client's open stream.
        context.state.upper_layers.open_session_stream(context.clone(), Arc::clone(peer));
        tool_check::sync_log_level(&context, peer).await;
    }
    report.send_replace(Some(opened));
}

/// Starts a server for a session, with back-off after a failure.
async fn start(
    context: &RequestContext,
    session: &Session,
    access: &ServerAccess,
    permit: &Permit,
) -> Result<Peer, UpstreamError> {
    access.server.may_start(&context.grantee.id)?;
    let opened = Box::pin(open::joining(
        &context.peer_client(),
        &access.server,
        &session.initialize_params,
        permit,
    ))
    .await;
    access.server.record_start(&context.grantee.id, opened.is_ok());
    opened
}
