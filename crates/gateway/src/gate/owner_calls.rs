//! What the owner does through a running gate: lists the tools of a server, and calls a tool as a grant. A call
//! takes the same four steps as every other.

use std::sync::Arc;

use bytes::Bytes;

use crate::edge::dispatch;
use crate::exchange::context::RequestContext;
use crate::exchange::outbound::Outbound;
use crate::exchange::tool_check;
use crate::gate::Gate;
use crate::gate::run::RunError;
use crate::snapshot::ServerAccess;
use mcp::Era;

impl Gate {
    /// Reads the tools of a registered server and compares them with the pins; the first list is pinned.
    /// Clients of the server are not disturbed.
    pub async fn list_tools(self: &Arc<Self>, server: &str) -> Result<(), RunError> {
        let known = self.state.snapshots.current().servers.get(server).cloned();
        let known = known.ok_or_else(|| RunError::NoServer(server.to_owned()))?;
        let access = ServerAccess::new(known, None);
        let context = self.owner_context(server, &access);
        match Box::pin(tool_check::checked_peer(&context, &access, Era::Modern)).await {
            Ok(_) => Ok(()),
            Err(error) => Err(RunError::unreachable(&access.server, error).await),
        }
    }

    /// Handles one message as if a client of this grant had sent it, and returns the response.
    pub async fn call_as(
        self: &Arc<Self>,
        grant: &str,
        server: &str,
        message: Bytes,
    ) -> Result<Bytes, RunError> {
        let grantee = self.state.snapshots.grantee_named(grant);
        let grantee = grantee.ok_or_else(|| RunError::NoGrant(grant.to_owned()))?;
        if !grantee.accesses.contains_key(server) {
            return Err(RunError::NotHeld { grant: grant.to_owned(), server: server.to_owned() });
        }
        let slot = grantee.try_slot();
        let lease = grantee.lease();
        let context = RequestContext::local(Arc::clone(&self.state), grantee, lease, server);
        let outbound = match slot {
            Some(_) => Box::pin(dispatch::receive(&context, &message, None)).await,
            None => dispatch::refuse_too_many(&context, &message),
        };
        last_message(outbound).await.ok_or(RunError::NoResponse)
    }
}

/// The response is the last message; those before it are notifications.
async fn last_message(outbound: Outbound) -> Option<Bytes> {
    match outbound {
        Outbound::One { body, .. } => Some(body),
        Outbound::Many(mut parts) => {
            let mut last = None;
            while let Some(part) = parts.recv().await {
                last = Some(part.message);
            }
            last
        }
        Outbound::Accepted | Outbound::NoResponse => None,
    }
}
