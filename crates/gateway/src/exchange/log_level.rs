//! `logging/setLevel`: the level of a session, passed on to its legacy servers.

use std::sync::Arc;
use std::time::Duration;

use policy::Subject;

use crate::exchange::call::{self, IncomingRequest, Target};
use crate::exchange::context::RequestContext;
use crate::exchange::handshake::respond_directly;
use crate::exchange::outbound::Outbound;
use crate::exchange::refuse;
use crate::exchange::tool_check;
use crate::session::InFlightGuard;
use crate::upstream::log_levels::LOG_LEVELS;
use crate::upstream::peer::Peer;
use mcp::{Era, ProtocolError};

/// How long setting a log level waits for all servers of a session.
const SET_LEVEL_WAIT_MAX: Duration = Duration::from_secs(1);

/// Sets the log level of a session. Modern servers get it with every request instead.
pub(crate) async fn set_level(
    incoming: &IncomingRequest<'_>,
    in_flight: Option<InFlightGuard>,
) -> Outbound {
    let level = incoming.request.params.and_then(|params| params.get("level")?.as_str());
    let Some(level) = level.filter(|level| LOG_LEVELS.contains(&level.as_ref())) else {
        let message = format!("`level` must be one of {}", LOG_LEVELS.join(", "));
        let refused = ProtocolError::params(message).with_id(&incoming.request.id);
        return refuse::refuse(incoming.context, &refused, &incoming.request.method_name);
    };
    let method = Subject::Method(&incoming.request.method_name);
    if let Some(access) = incoming.context.only()
        && !call::allows(incoming, access, method)
    {
        // The policy forbids it: refused like any other method.
        let target = Target { access, subject: Some(method), task_of: None, rename: None };
        return call::carry(incoming, &target, in_flight).await;
    }
    if let Some(session) = &incoming.context.session {
        session.set_log_level(&level);
        if incoming.context.only().is_none() {
            set_level_on_all(incoming.context, session.peers()).await;
        }
    }
    let legacy = incoming.context.session.as_ref().is_some_and(|session| {
        session.peers().iter().any(|peer| peer.era == Era::Legacy && !peer.is_builtin())
    });
    match incoming.context.only() {
        Some(access) if legacy => {
            call::carry(
                incoming,
                &Target { access, subject: Some(method), task_of: None, rename: None },
                in_flight,
            )
            .await
        }
        _ => respond_directly(incoming, "{}").await,
    }
}

/// Sends the log level to several servers. A slow server does not delay the others.
async fn set_level_on_all(context: &RequestContext, peers: Vec<Arc<Peer>>) {
    let updates: Vec<_> = peers
        .into_iter()
        .map(|peer| {
            let context = context.clone();
            tokio::spawn(async move { tool_check::sync_log_level(&context, &peer).await })
        })
        .collect();
    let all = async {
        for update in updates {
            // A cancelled task has sent nothing.
            let _ = update.await;
        }
    };
    // Slower servers still get it.
    let _ = tokio::time::timeout(SET_LEVEL_WAIT_MAX, all).await;
}
