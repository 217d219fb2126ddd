//! Subscriptions across eras: `subscriptions/listen` of modern clients and `resources/subscribe` of
//! legacy ones.

mod client_subscription;
mod filter;
mod server_subscription;
pub(crate) mod tasks;

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use policy::Subject;
use policy::json::Value;
use store::ledger::Ending;
use tokio::sync::{mpsc, watch};

use self::client_subscription::ClientSubscription;
use self::filter::Filter;
use self::server_subscription::{NoStream, NotificationSource, ServerSubscription};
use crate::exchange::aggregate;
use crate::exchange::call::{self, IncomingRequest, Target};
use crate::exchange::connect;
use crate::exchange::context::RequestContext;
use crate::exchange::error_responses;
use crate::exchange::outbound::{Outbound, QUEUED_PARTS_MAX};
use crate::exchange::refuse;
use crate::exchange::subject::RequestSubject;
use crate::runtime::permits;
use crate::runtime::stop_signal::turned_true;
use crate::session::{ClientMessage, InFlightGuard, Session};
use crate::snapshot::ServerAccess;
use crate::upstream::peer::Peer;
use mcp::edit::{self, string};
use mcp::meta_keys;
use mcp::{
    ClientCapabilities, Era, Id, Message, Method, ProtocolError, TASKS, error_body,
    notification_body, request_body, result_body,
};

/// `subscriptions/listen`: forwarded to a single modern server, otherwise served by the gate from
/// the streams of its servers.
pub(crate) async fn listen(
    incoming: &IncomingRequest<'_>,
    in_flight: Option<InFlightGuard>,
) -> Outbound {
    let filter = match Filter::of(incoming.request.params) {
        Ok(filter) => filter,
        Err(refused) => {
            let refused = refused.with_id(&incoming.request.id);
            return refuse::refuse(incoming.context, &refused, &incoming.request.method_name);
        }
    };
    let lists = Filter { uris: Vec::new(), tasks: Vec::new(), ..filter };
    let mut sources = Sources { filter: lists.clone(), opened: Vec::new(), later: Vec::new() };
    for (access, part) in parts(incoming, &filter).await {
        match sources.add(incoming, access, part).await {
            Added::Yes => {}
            Added::PassOn(part) => {
                return pass_on(incoming, access, &filter, &part, in_flight).await;
            }
            Added::Answer(outbound) => return outbound,
        }
    }
    sources.listen(incoming, lists, in_flight).await
}

/// The servers of one subscription.
struct Sources {
    /// The union of what all of them are subscribed for.
    filter: Filter,
    opened: Vec<(ServerSubscription, Result<NotificationSource, NoStream>)>,
    /// Servers that are opened in the background.
    later: Vec<(ServerAccess, Filter)>,
}

/// The result of adding a server.
enum Added {
    Yes,
    /// The only server is modern: the request itself goes to it, with this filter.
    PassOn(Filter),
    Answer(Outbound),
}

impl Sources {
    async fn add(
        &mut self,
        incoming: &IncomingRequest<'_>,
        access: &ServerAccess,
        part: Filter,
    ) -> Added {
        let (context, server) = (incoming.context, &access.server);
        let is_alone = context.only().is_some();
        if !is_alone && part.is_of_lists() && !server.is_builtin() {
            // A server that starts slowly must not delay the others.
            self.filter.join(&part);
            self.later.push((access.clone(), part));
            return Added::Yes;
        }
        let id = &incoming.request.id;
        let permit = match context.own_act("subscriptions/listen", &server.name).await {
            Ok(permit) => permit,
            Err(error) => {
                let denial = error_responses::ledger_failure(&error);
                return Added::Answer(Outbound::ok(error_responses::denied(id, &denial)));
            }
        };
        match connect::peer_for(context, access, incoming.era, &permit).await {
            Ok(peer) if peer.era == Era::Modern && is_alone => {
                incoming.reuse_permit(permit);
                return Added::PassOn(part);
            }
            Ok(peer) if is_undeclared(incoming, &peer, &part) => {
                permits::settle(permit, Ending::Error);
                let refused = ProtocolError::undeclared(TASKS).with_id(id);
                let method = &incoming.request.method_name;
                return Added::Answer(refuse::refuse(context, &refused, method));
            }
            Ok(peer) => {
                let server_sub = ServerSubscription::new(context, peer, part);
                let opened = server_sub.open(&permit).await;
                permits::settle_by(permit, &opened);
                self.filter.join(&server_sub.filter);
                self.opened.push((server_sub, opened));
            }
            Err(error) => {
                tracing::info!(server = %server.name, %error, "could not subscribe to the server");
                permits::settle(permit, Ending::Error);
            }
        }
        Added::Yes
    }

    /// Acknowledges the subscription and forwards the notifications of its servers.
    async fn listen(
        self,
        incoming: &IncomingRequest<'_>,
        lists: Filter,
        in_flight: Option<InFlightGuard>,
    ) -> Outbound {
        let (sender, pieces) = mpsc::channel(QUEUED_PARTS_MAX);
        let (context, id) = (incoming.context, &incoming.request.id);
        let ack = acknowledged(id, &self.filter);
        if sender.send(ClientMessage::plain(ack)).await.is_err() {
            return Outbound::NoResponse;
        }
        let over = watch::Sender::new(false);
        let (id, to) = (id.clone(), sender.clone());
        let subscription = ClientSubscription {
            id: id.clone(),
            client_capabilities: incoming.client_capabilities,
            to,
            over: over.subscribe(),
        };
        for (server_sub, opened) in self.opened {
            subscription.forward(server_sub, opened);
        }
        for (access, part) in self.later {
            subscription.forward_when_connected(context.clone(), access, part);
        }
        if context.only().is_none() {
            subscription.follow(context.clone(), lists);
        }
        tokio::spawn(end(context.clone(), id, sender, in_flight, over));
        Outbound::Many(pieces)
    }
}

/// Whether a client subscribes to tasks of a legacy server without declaring the tasks extension.
fn is_undeclared(incoming: &IncomingRequest<'_>, peer: &Peer, part: &Filter) -> bool {
    peer.runs_tasks() && !part.tasks.is_empty() && !incoming.client_capabilities.accepts_tasks()
}

/// The servers of a subscription, each with its part of the filter.
async fn parts<'a>(
    incoming: &'a IncomingRequest<'_>,
    filter: &Filter,
) -> Vec<(&'a ServerAccess, Filter)> {
    if let Some(access) = incoming.context.only() {
        return vec![(access, filter.allowed(incoming, access))];
    }
    let uris: Vec<&str> = filter.uris.iter().map(String::as_str).collect();
    let owners = aggregate::owners_of(incoming, &uris).await;
    let belongs = |uri: &&String, access: &ServerAccess| {
        let owner =
            filter.uris.iter().position(|wanted| wanted == *uri).and_then(|at| *owners.get(at)?);
        owner.is_some_and(|owner| std::ptr::eq(owner, access))
    };
    let all = incoming.context.grantee.accesses.values().map(|access| {
        let allowed = filter.allowed(incoming, access);
        let uris = allowed.uris.iter().filter(|uri| belongs(uri, access)).cloned().collect();
        (access, Filter { uris, ..allowed })
    });
    all.filter(|(_, part)| !part.is_empty()).collect()
}

/// Forwards the request to a modern server, without what its client may not see.
async fn pass_on(
    incoming: &IncomingRequest<'_>,
    access: &ServerAccess,
    filter: &Filter,
    part: &Filter,
    in_flight: Option<InFlightGuard>,
) -> Outbound {
    let target = Target { access, subject: None, task_of: None, rename: None };
    let Some(params) = incoming.request.params.filter(|_| part != filter) else {
        return call::carry(incoming, &target, in_flight).await;
    };
    let body = request_body(
        &incoming.request.id,
        &incoming.request.method_name,
        Some(&part.instead(params)),
    );
    let body = Bytes::from(body);
    let read = mcp::read(&body);
    let message = read.as_ref().map_err(Clone::clone).and_then(Message::of);
    match message {
        Ok(Message::Request(request)) => {
            let less = IncomingRequest {
                request: &request,
                body: &body,
                client: incoming.client.clone(),
                resumed_approval: Mutex::default(),
                existing_permit: Mutex::new(
                    incoming.existing_permit.lock().unwrap_or_else(PoisonError::into_inner).take(),
                ),
                ..*incoming
            };
            call::carry(&less, &target, in_flight).await
        }
        Ok(_) => Outbound::NoResponse,
        Err(refused) => refuse::refuse(incoming.context, &refused, &incoming.request.method_name),
    }
}

/// Keeps the stream open until the client disconnects or cancels it, or the gate stops and ends it
/// with a result.
async fn end(
    context: RequestContext,
    id: Id,
    to: mpsc::Sender<ClientMessage>,
    in_flight: Option<InFlightGuard>,
    over: watch::Sender<bool>,
) {
    let mut stopping = context.services().stopping();
    let taken_back = async {
        match &in_flight {
            Some(in_flight) => in_flight.flight.cancelled.notified().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = to.closed() => {}
        () = taken_back => {}
        () = turned_true(&mut stopping) => {
            let result = format!(
                "{{\"resultType\":\"complete\",\"_meta\":{{{}:{}}}}}",
                string(meta_keys::SUBSCRIPTION_ID),
                id.raw()
            );
            let _ = to.send(ClientMessage::plain(result_body(&id, &result))).await;
        }
    }
    over.send_replace(true);
}

async fn relay(
    id: &Id,
    client_capabilities: ClientCapabilities,
    server_sub: &ServerSubscription,
    mut opened: Result<NotificationSource, NoStream>,
    to: &mpsc::Sender<ClientMessage>,
) {
    while let Some((mut source, was_interrupted)) = server_sub.wait_open(opened).await {
        // Notifications were missed in between, and merged lists lack this server.
        for method in server_sub.filter.lists().filter(|_| was_interrupted) {
            if to.send(own_notification(method, id)).await.is_err() {
                return;
            }
        }
        while let Some(message) = source.next().await {
            let tagged = |root: Value<'_>, method: &str| tagged(root, method, id);
            let news = match server_sub.changed_task(&message) {
                None => server_sub.filtered(&message, tagged),
                Some(task) => {
                    let fetch_task = server_sub.fetch_task(client_capabilities, &task).await;
                    fetch_task.and_then(|message| server_sub.filtered(&message, tagged))
                }
            };
            if let Some(news) = news
                && to.send(ClientMessage::plain(news)).await.is_err()
            {
                return;
            }
        }
        opened = Err(NoStream::Temporary);
    }
}

/// A notification from the gate itself for a subscription.
fn own_notification(method: &str, id: &Id) -> ClientMessage {
    let params = format!("{{\"_meta\":{{{}:{}}}}}", string(meta_keys::SUBSCRIPTION_ID), id.raw());
    ClientMessage::plain(notification_body(method, Some(&params)))
}

/// A notification with the id of its subscription.
fn tagged(root: Value<'_>, method: &str, id: &Id) -> Bytes {
    let (params, tag) = (root.get("params"), id.raw().to_owned());
    let of = match params.and_then(|params| params.get("_meta")) {
        Some(of) => edit::with(of, meta_keys::SUBSCRIPTION_ID, tag),
        None => format!("{{{}:{tag}}}", string(meta_keys::SUBSCRIPTION_ID)),
    };
    let params = match params {
        Some(params) => edit::with(params, "_meta", of),
        None => format!("{{\"_meta\":{of}}}"),
    };
    notification_body(method, Some(&params)).into()
}

fn acknowledged(id: &Id, filter: &Filter) -> Vec<u8> {
    let params = format!(
        "{{\"notifications\":{},\"_meta\":{{{}:{}}}}}",
        filter.raw(),
        string(meta_keys::SUBSCRIPTION_ID),
        id.raw()
    );
    notification_body("notifications/subscriptions/acknowledged", Some(&params))
}

/// `resources/subscribe` of a legacy client with a modern server, served by a stream of the gate.
/// None when the request can be forwarded or refused like any other.
pub(crate) async fn for_legacy(
    incoming: &IncomingRequest<'_>,
    access: &ServerAccess,
    about: &RequestSubject<'_>,
) -> Option<Outbound> {
    let session = incoming.context.session.clone()?;
    let RequestSubject::Resource(uri) = about else { return None };
    if !call::allows(incoming, access, Subject::Resource(uri)) {
        return None;
    }
    let peer = joined(incoming, access, &session).await.filter(|peer| peer.era == Era::Modern)?;
    let id = &incoming.request.id;
    let permit =
        match incoming.context.own_act(&incoming.request.method_name, &access.server.name).await {
            Ok(permit) => permit,
            Err(error) => {
                return Some(Outbound::ok(error_responses::denied(
                    id,
                    &error_responses::ledger_failure(&error),
                )));
            }
        };
    if incoming.request.method == Method::ResourcesUnsubscribe {
        session.unsubscribe(uri);
    } else {
        let filter = Filter { uris: vec![(*uri).to_owned()], ..Filter::default() };
        let server_sub = ServerSubscription::new(incoming.context, peer, filter);
        let opened = server_sub.open(&permit).await;
        if opened.is_err() {
            permits::settle(permit, Ending::Error);
            let message = "the server does not accept the subscription";
            return Some(Outbound::ok(error_body(Some(id), -32603, message, None)));
        }
        let task = tokio::spawn(deliver(session.clone(), server_sub, opened));
        session.subscribe(uri, task.abort_handle());
    }
    permits::settle(permit, Ending::Ok);
    Some(Outbound::ok(result_body(id, "{}")))
}

/// The server's connection in a session. It is opened if needed, because only that shows the era.
async fn joined(
    incoming: &IncomingRequest<'_>,
    access: &ServerAccess,
    session: &Session,
) -> Option<Arc<Peer>> {
    if let Some(peer) = session.peer(&access.server.name) {
        return Some(peer);
    }
    let permit = incoming.context.own_act("initialize", &access.server.name).await.ok()?;
    let opened = connect::peer_for(incoming.context, access, incoming.era, &permit).await;
    permits::settle_by(permit, &opened);
    opened.ok()
}

/// Subscribes to list changes of a modern server, for a session whose client cannot do so.
pub(crate) async fn follow_lists(context: &RequestContext, peer: &Arc<Peer>) {
    let Some(session) = context.session.clone() else { return };
    let filter = Filter { tools: true, prompts: true, resources: true, ..Filter::default() };
    let Ok(permit) = context.own_act("subscriptions/listen", &peer.server.name).await else {
        return;
    };
    let server_sub = ServerSubscription::new(context, Arc::clone(peer), filter);
    let opened = server_sub.open(&permit).await;
    permits::settle_by(permit, &opened);
    let task = tokio::spawn(deliver(session.clone(), server_sub, opened));
    session.subscribe(&format!("lists of {}", peer.server.name), task.abort_handle());
}

async fn deliver(
    session: Arc<Session>,
    server_sub: ServerSubscription,
    mut opened: Result<NotificationSource, NoStream>,
) {
    while let Some((mut source, was_interrupted)) = server_sub.wait_open(opened).await {
        if was_interrupted && session.server.is_none() {
            session.notify_lists_changed();
        }
        while let Some(message) = source.next().await {
            if let Some(news) = server_sub.filtered(&message, untagged) {
                session.deliver(ClientMessage::plain(news));
            }
        }
        opened = Err(NoStream::Temporary);
    }
    tracing::debug!(server = %server_sub.peer.server.name, "a subscription ended");
}

/// A modern notification as a legacy client expects it.
fn untagged(root: Value<'_>, method: &str) -> Bytes {
    let params = root.get("params").map(|params| match params.get("_meta") {
        Some(_) => edit::without(params, &["_meta"]),
        None => params.raw().to_owned(),
    });
    notification_body(method, params.as_deref()).into()
}
