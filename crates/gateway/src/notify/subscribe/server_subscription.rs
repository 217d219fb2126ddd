//! The subscription to one server: its stream is opened, and reopened when it ends.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use policy::json::{Bounds, Doc, Value};
use store::ledger::Permit;
use tokio::sync::broadcast::{Receiver, error::RecvError};

use super::filter::Filter;
use super::tasks;
use crate::exchange::context::RequestContext;
use crate::exchange::prepare;
use crate::runtime::permits;
use crate::upstream::own_messages;
use crate::upstream::peer::Peer;
use crate::upstream::{Events, Reply, UpstreamError, UpstreamMessage as Sent};
use mcp::edit::string;
use mcp::{ClientCapabilities, Era, Method, request_body};

/// The pause before an ended stream is reopened; doubled after each failure.
const REOPEN_AFTER: Duration = Duration::from_secs(1);
const REOPEN_AFTER_MAX: Duration = Duration::from_mins(5);

/// A server and the filter of the subscription to it.
pub(super) struct ServerSubscription {
    context: RequestContext,
    pub(super) peer: Arc<Peer>,
    pub(super) filter: Filter,
}

/// The stream of its notifications.
pub(super) enum NotificationSource {
    Stream(Events),
    SharedStream(Receiver<Bytes>),
}

/// Why there is no stream.
pub(super) enum NoStream {
    /// The server is gone or restarting.
    Temporary,
    /// The server offers no such stream, or its connection was closed.
    Permanent,
}

impl NotificationSource {
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        match self {
            NotificationSource::Stream(events) => {
                events.next().await?.ok().map(|event| event.message)
            }
            NotificationSource::SharedStream(messages) => loop {
                match messages.recv().await {
                    Ok(message) => return Some(message),
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                }
            },
        }
    }
}

impl Drop for ServerSubscription {
    /// Unsubscribes from resources of a legacy server that no other subscription needs.
    fn drop(&mut self) {
        let Some(restore_state) = self.peer.restore_state() else { return };
        for uri in self.filter.uris.iter().filter(|uri| restore_state.unsubscribe(uri)) {
            let params = format!("{{\"uri\":{}}}", string(uri));
            let body = request_body(&self.peer.next_id(), "resources/unsubscribe", Some(&params));
            own_messages::notify(self.context.services(), &self.peer, body.into());
        }
    }
}

impl ServerSubscription {
    pub(super) fn new(
        context: &RequestContext,
        peer: Arc<Peer>,
        filter: Filter,
    ) -> ServerSubscription {
        let has_tasks = peer.era == Era::Modern || peer.offers("tasks");
        let tasks = if has_tasks { filter.tasks } else { Vec::new() };
        let filter = Filter { tasks, ..filter };
        if let Some(restore_state) = peer.restore_state() {
            filter.uris.iter().for_each(|uri| restore_state.subscribe(uri));
        }
        ServerSubscription { context: context.clone(), peer, filter }
    }

    /// Opens the stream, and subscribes to the resources of a legacy server.
    pub(super) async fn open(&self, permit: &Permit) -> Result<NotificationSource, NoStream> {
        match self.peer.era {
            Era::Modern => self.open_stream(permit).await,
            Era::Legacy => {
                for uri in &self.filter.uris {
                    self.subscribe(permit, uri).await;
                }
                Ok(NotificationSource::SharedStream(
                    crate::notify::server_streams::shared(&self.context, &self.peer).await,
                ))
            }
        }
    }

    async fn open_stream(&self, permit: &Permit) -> Result<NotificationSource, NoStream> {
        let params = format!("{{\"notifications\":{}}}", self.filter.raw());
        let client = if self.filter.tasks.is_empty() {
            prepare::client_meta(&self.context)
        } else {
            prepare::client_meta_with_tasks(&self.context, &self.peer)
        };
        let mut prepared =
            prepare::own_request(&self.peer, "subscriptions/listen", Some(&params), &client);
        prepared.out.stays_open = true;
        match self.peer.request(permit, prepared.out).await {
            Ok(Reply::Many(events)) => Ok(NotificationSource::Stream(events)),
            Ok(_) | Err(UpstreamError::Closed) => Err(NoStream::Permanent),
            Err(_) => Err(NoStream::Temporary),
        }
    }

    async fn subscribe(&self, permit: &Permit, uri: &str) {
        let params = format!("{{\"uri\":{}}}", string(uri));
        let id = self.peer.next_id();
        let body = request_body(&id, "resources/subscribe", Some(&params));
        if let Err(error) = self.peer.request(permit, Sent::request(id, body.into())).await {
            tracing::info!(server = %self.peer.server.name, %error, "could not subscribe to a resource");
        }
    }

    /// The opened stream, or the next one as soon as the server has it again. The flag tells
    /// whether reopening failed in between.
    pub(super) async fn wait_open(
        &self,
        opened: Result<NotificationSource, NoStream>,
    ) -> Option<(NotificationSource, bool)> {
        let mut pause = REOPEN_AFTER;
        let mut opened = opened;
        let mut failures = 0_u64;
        loop {
            match opened {
                // The first one is the end of a stream; some servers close theirs regularly.
                Ok(source) => return Some((source, failures > 1)),
                Err(NoStream::Permanent) => return None,
                Err(NoStream::Temporary) => failures += 1,
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(REOPEN_AFTER_MAX);
            opened =
                match self.context.own_act("subscriptions/listen", &self.peer.server.name).await {
                    Ok(permit) => {
                        let opened = self.open(&permit).await;
                        permits::settle_by(permit, &opened);
                        opened
                    }
                    Err(_) => Err(NoStream::Temporary),
                };
        }
    }

    /// The task of a legacy status notification, if it is in the filter.
    pub(super) fn changed_task(&self, message: &Bytes) -> Option<String> {
        if self.peer.era == Era::Modern || self.filter.tasks.is_empty() {
            return None;
        }
        tasks::task_of_status(message).filter(|id| self.filter.tasks.contains(id))
    }

    /// The current state of such a task as a modern notification.
    pub(super) async fn fetch_task(
        &self,
        client_capabilities: ClientCapabilities,
        id: &str,
    ) -> Option<Bytes> {
        tasks::fetch_task(&self.context, client_capabilities, &self.peer.server.name, id).await
    }

    /// The notification as formatted by `told`, if the filter wants it and the current policy
    /// allows it: a stream may stay open for days.
    pub(super) fn filtered(
        &self,
        message: &Bytes,
        told: impl FnOnce(Value<'_>, &str) -> Bytes,
    ) -> Option<Bytes> {
        let doc = Doc::read(message, &Bounds::ANSWER).ok()?;
        let root = doc.root();
        let method = root.get("method")?.as_str()?;
        let known = Method::parse(&method);
        self.peer.note_notification(&method);
        let params = root.get("params");
        if root.get("id").is_some() || !self.filter.wants(&method, params) {
            return None;
        }
        let server = &self.peer.server.name;
        let grantee =
            self.context.state.snapshots.current_grantee(&self.context.grantee, Some(server))?;
        let access = grantee.accesses.get(&**server)?;
        if known == Method::TasksNotification {
            let cut = crate::exchange::tasks::notification(
                &self.context,
                access.rules.as_deref(),
                server,
                message,
            )?;
            return Some(told(Doc::read(&cut, &Bounds::ANSWER).ok()?.root(), &method));
        }
        // A resource below an allowed one may be hidden.
        let uri = params.and_then(|params| params.get("uri")?.as_str());
        let skills = access.server.skills();
        let shown = uri.is_none_or(|uri| access.shows(skills.subject_of(&uri)));
        shown.then(|| told(root, &method))
    }
}
