//! Task notifications across eras. A legacy server sends only the status, so the gate fetches the
//! task. A modern server sends everything to subscribers, and the gate subscribes for legacy
//! clients.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use policy::json::{Bounds, Doc, Value};

use super::filter::Filter;
use super::server_subscription::ServerSubscription;
use crate::exchange::call::{self, IncomingRequest, Target};
use crate::exchange::context::RequestContext;
use crate::exchange::outbound::Outbound;
use crate::exchange::subject;
use crate::runtime::permits;
use crate::session::ClientMessage;
use crate::upstream::peer::Peer;
use mcp::edit::{self, string};
use mcp::translate::modern_tasks;
use mcp::{ClientCapabilities, Era, Id, Message, Method, notification_body, request_body};

/// Tasks followed per session; a legacy client does not rely on notifications.
const FOLLOWED_MAX: usize = 64;

/// The task id of a legacy status notification.
pub(super) fn task_of_status(message: &Bytes) -> Option<String> {
    let doc = Doc::read_shallow(message, &Bounds::ANSWER, 2).ok()?;
    let root = doc.root();
    let method = root.get("method")?.as_str()?;
    if Method::parse(&method) != Method::TaskStatus || root.get("id").is_some() {
        return None;
    }
    Some(root.get("params")?.get("taskId")?.as_str()?.into_owned())
}

/// The task as a modern notification: the result of `tasks/get`, requested on behalf of the client
/// and judged like its own request.
pub(super) async fn fetch_task(
    context: &RequestContext,
    client_capabilities: ClientCapabilities,
    server: &str,
    id: &str,
) -> Option<Bytes> {
    let grantee = context.state.snapshots.current_grantee(&context.grantee, Some(server))?;
    let context = RequestContext { grantee, ..context.clone() };
    let params = format!("{{\"taskId\":{}}}", string(id));
    let body = request_body(&Id::generated("tollgate-news", 0), "tasks/get", Some(&params));
    let body = Bytes::from(body);
    let doc = mcp::read(&body).ok()?;
    let Message::Request(request) = Message::of(&doc).ok()? else { return None };
    let incoming = IncomingRequest {
        context: &context,
        request: &request,
        body: &body,
        era: Era::Modern,
        headers: None,
        client_capabilities,
        logs: false,
        client: None,
        resumed_approval: Mutex::default(),
        existing_permit: Mutex::default(),
    };
    let named = request.named().ok()?;
    let about = subject::subject(&incoming, server, &named).ok()?;
    let (subject, task_of) = (about.as_subject(), about.task_of());
    let target = Target { access: context.access(server)?, subject, task_of, rename: None };
    let answer = last(call::carry(&incoming, &target, None).await).await?;
    let doc = Doc::read(&answer, &Bounds::ANSWER).ok()?;
    let task = edit::without(doc.root().get("result")?, &["resultType"]);
    Some(notification_body("notifications/tasks", Some(&task)).into())
}

async fn last(outbound: Outbound) -> Option<Bytes> {
    match outbound {
        Outbound::One { body, .. } => Some(body),
        Outbound::Many(mut pieces) => {
            let mut last = None;
            while let Some(piece) = pieces.recv().await {
                last = Some(piece.message);
            }
            last
        }
        Outbound::Accepted | Outbound::NoResponse => None,
    }
}

/// Follows a task of a modern server until it ends, for the legacy client that started it.
pub(crate) fn follow(context: &RequestContext, peer: &Arc<Peer>, id: &str) {
    let Some(session) = context.session.clone() else { return };
    let key = format!("task {} {id}", peer.server.name);
    let filter = Filter { tasks: vec![id.to_owned()], ..Filter::default() };
    let server_sub = ServerSubscription::new(context, Arc::clone(peer), filter);
    let (context, server, name) = (context.clone(), peer.server.name.clone(), key.clone());
    let hearing = async move {
        let Ok(permit) = context.own_act("subscriptions/listen", &server).await else {
            return;
        };
        let opened = server_sub.open(&permit).await;
        permits::settle_by(permit, &opened);
        let Some(session) = &context.session else { return };
        if let Ok(mut source) = opened {
            let mut ended = false;
            while let (false, Some(message)) = (ended, source.next().await) {
                let told = server_sub.filtered(&message, |root, _| {
                    ended = root.get("params").is_some_and(has_ended);
                    legacy_status(root)
                });
                if let Some(news) = told {
                    session.deliver(ClientMessage::plain(news));
                }
            }
        }
        session.unsubscribe(&name);
    };
    session.subscribe_within(&key, FOLLOWED_MAX, || tokio::spawn(hearing).abort_handle());
}

fn has_ended(task: Value<'_>) -> bool {
    let status = task.get("status").and_then(Value::as_str);
    matches!(status.as_deref(), Some("completed" | "failed" | "cancelled"))
}

/// A modern task notification as a legacy status notification.
fn legacy_status(root: Value<'_>) -> Bytes {
    let task = root.get("params").map(modern_tasks::legacy_task);
    notification_body("notifications/tasks/status", task.as_deref()).into()
}
