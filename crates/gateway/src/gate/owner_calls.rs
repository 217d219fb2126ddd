//! What the owner does through a running gate: lists the tools of a server, and calls a tool as a grant. A call
//! takes the same four steps as every other.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use store::ledger::Facts;
use store::registry::ServerList;

use crate::edge::dispatch;
use crate::exchange::context::RequestContext;
use crate::exchange::outbound::Outbound;
use crate::exchange::tool_check;
use crate::gate::Gate;
use crate::gate::run::RunError;
use crate::runtime::permits;
use crate::snapshot::ServerAccess;
use crate::upstream::lists::List;
use crate::upstream::peer::Peer;
use crate::upstream::{Stage, UpstreamError};
use mcp::Era;

/// The owner waits for each list.
const OTHER_LIST_WAIT_MAX: Duration = Duration::from_secs(5);
/// What a server may offer besides tools.
const OTHER_LISTS: [List; 4] = [List::Resources, List::Templates, List::Prompts, List::Skills];

impl Gate {
    /// Reads the tools of a registered server and compares them with the pins; the first list is pinned. Its
    /// other lists are stored for the owner's pages. Clients of the server are not disturbed.
    pub async fn list_tools(self: &Arc<Self>, server: &str) -> Result<(), RunError> {
        let known = self.state.snapshots.current().servers.get(server).cloned();
        let known = known.ok_or_else(|| RunError::NoServer(server.to_owned()))?;
        let access = ServerAccess::new(known, None);
        let context = self.owner_context(server, &access);
        match Box::pin(tool_check::checked_peer(&context, &access, Era::Modern)).await {
            Ok(peer) => {
                self.store_other_lists(&context, &peer).await;
                Ok(())
            }
            Err(error) => Err(RunError::unreachable(&access.server, error).await),
        }
    }

    /// A list that cannot be read stays as it was stored: many servers with resources know no templates.
    async fn store_other_lists(&self, context: &RequestContext, peer: &Arc<Peer>) {
        let server = &peer.server;
        for list in OTHER_LISTS.into_iter().filter(|list| peer.offers(list.capability())) {
            let items = match Box::pin(self.other_list(context, peer, list)).await {
                Ok(items) => items,
                Err(error) => {
                    tracing::debug!(server = %server.name, list = list.method(), %error, "could not read a list");
                    continue;
                }
            };
            let grant = context.grantee.id.clone();
            let listed = ServerList { grant, list: list.method().to_owned(), items };
            let (registry, name) = (Arc::clone(&self.services().registry), server.name.clone());
            let now_us = self.services().clock.now().wall_us;
            let put = move || registry.put_server_list(&name, &listed, now_us);
            match tokio::task::spawn_blocking(put).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::debug!(server = %server.name, %error, "could not store a list");
                }
                Err(error) => tracing::debug!(%error, "could not store a list"),
            }
        }
    }

    async fn other_list(
        &self,
        context: &RequestContext,
        peer: &Arc<Peer>,
        list: List,
    ) -> Result<Vec<String>, UpstreamError> {
        let facts = Facts { method: list.method(), server: &peer.server.name, ..context.facts() };
        let permit = self.services().ledger.admit_without_policy(&facts).map_err(|error| {
            UpstreamError::never_sent(format!("the audit log cannot be written: {error}"))
        })?;
        let read = tool_check::read_list(context, peer, &permit, list);
        let read = tokio::time::timeout(OTHER_LIST_WAIT_MAX, read).await;
        let late = UpstreamError::TimedOut { stage: Stage::Total, after: OTHER_LIST_WAIT_MAX };
        let read = read.unwrap_or(Err(late));
        permits::settle_by(permit, &read);
        read
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
