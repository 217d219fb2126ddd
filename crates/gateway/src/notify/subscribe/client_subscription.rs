//! A subscription of a modern client, across all servers of its grant, while the owner changes
//! which servers those are.

use std::sync::Arc;

use store::ledger::Ending;
use tokio::sync::{mpsc, watch};

use super::filter::Filter;
use super::server_subscription::{NoStream, NotificationSource, ServerSubscription};
use super::{own_notification, relay};
use crate::exchange::connect;
use crate::exchange::context::RequestContext;
use crate::runtime::permits;
use crate::runtime::stop_signal::turned_true;
use crate::session::ClientMessage;
use crate::snapshot::ServerAccess;
use mcp::{ClientCapabilities, Era, Id};

/// A subscription of a modern client.
#[derive(Clone)]
pub(super) struct ClientSubscription {
    pub(super) id: Id,
    /// Capabilities of its client.
    pub(super) client_capabilities: ClientCapabilities,
    pub(super) to: mpsc::Sender<ClientMessage>,
    pub(super) over: watch::Receiver<bool>,
}

impl ClientSubscription {
    /// Forwards the notifications of a server until the subscription ends.
    pub(super) fn forward(
        &self,
        server_sub: ServerSubscription,
        opened: Result<NotificationSource, NoStream>,
    ) {
        let ClientSubscription { id, client_capabilities, to, mut over } = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = relay(&id, client_capabilities, &server_sub, opened, &to) => {}
                () = to.closed() => {}
                () = turned_true(&mut over) => {}
            }
        });
    }

    /// Connects to a server in the background and forwards its notifications. Its lists may have
    /// changed before that.
    pub(super) fn forward_when_connected(
        &self,
        context: RequestContext,
        access: ServerAccess,
        filter: Filter,
    ) {
        let (this, mut over) = (self.clone(), self.over.clone());
        tokio::spawn(async move {
            let was_open = access.server.shared_peer(&context.grantee.id).is_some();
            let opened = tokio::select! {
                opened = open(&context, &access, filter) => opened,
                () = this.to.closed() => None,
                () = turned_true(&mut over) => None,
            };
            let Some((server_sub, opened)) = opened else { return };
            let lists = server_sub.filter.lists();
            this.forward(server_sub, opened);
            for method in lists.filter(|_| !was_open) {
                if this.to.send(own_notification(method, &this.id)).await.is_err() {
                    return;
                }
            }
        });
    }

    /// Adds servers that the grant gains later and notifies list changes, until the subscription
    /// ends.
    pub(super) fn follow(self, context: RequestContext, filter: Filter) {
        let (to, mut over) = (self.to.clone(), self.over.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = self.follow_changes(context, filter) => {}
                () = to.closed() => {}
                () = turned_true(&mut over) => {}
            }
        });
    }

    async fn follow_changes(self, mut context: RequestContext, filter: Filter) {
        let mut renewals = context.state.snapshots.installed();
        loop {
            let Some(now) = context.state.snapshots.current_grantee(&context.grantee, None) else {
                return;
            };
            if !now.same_access_as(&context.grantee) {
                let before = std::mem::replace(&mut context.grantee, Arc::clone(&now));
                for (name, access) in &now.accesses {
                    let known = before.accesses.get(name);
                    if known.is_none_or(|known| !Arc::ptr_eq(&known.server, &access.server))
                        && let Some((server_sub, opened)) =
                            open(&context, access, filter.clone()).await
                    {
                        self.forward(server_sub, opened);
                    }
                }
                for method in filter.lists() {
                    if self.to.send(own_notification(method, &self.id)).await.is_err() {
                        return;
                    }
                }
            }
            if renewals.changed().await.is_err() {
                return;
            }
        }
    }
}

/// Subscribes to a server of the grant.
async fn open(
    context: &RequestContext,
    access: &ServerAccess,
    filter: Filter,
) -> Option<(ServerSubscription, Result<NotificationSource, NoStream>)> {
    let name = &access.server.name;
    let permit = context.own_act("subscriptions/listen", name).await.ok()?;
    match connect::peer_for(context, access, Era::Modern, &permit).await {
        Ok(peer) => {
            let server_sub = ServerSubscription::new(context, peer, filter);
            let opened = server_sub.open(&permit).await;
            permits::settle_by(permit, &opened);
            Some((server_sub, opened))
        }
        Err(error) => {
            tracing::info!(server = %name, %error, "could not subscribe to the server");
            permits::settle(permit, Ending::Error);
            None
        }
    }
}
