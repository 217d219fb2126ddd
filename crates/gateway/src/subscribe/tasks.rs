//! News of tasks across eras. An older server only says how a task stands, so it is looked at for the rest;
//! a newer one says all of it to who listens, and the gate listens for older clients.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use policy::json::{Bounds, Doc, Value};
use store::ledger::Ending;

use super::filter::Filter;
use super::heard::Heard;
use crate::call::{self, Aim, Ask};
use crate::gate::Gate;
use crate::outbound::Outbound;
use crate::peer::Peer;
use crate::rebuild::{self, string};
use crate::receive;
use crate::scene::Scene;
use crate::session::Outgoing;
use crate::translate::newer_tasks;
use crate::wire::{self, Era, Id, Message, Method, Takes, notification_body, request_body};

/// Tasks of one session that are heard of at one time; an older client does not rely on news of them.
const FOLLOWED_MAX: usize = 64;

/// The task that an older server has news of.
pub(super) fn told_of(message: &Bytes) -> Option<String> {
    let doc = Doc::read_shallow(message, &Bounds::ANSWER, 2).ok()?;
    let root = doc.root();
    let method = root.get("method")?.as_str()?;
    if Method::parse(&method) != Method::TaskStatus || root.get("id").is_some() {
        return None;
    }
    Some(root.get("params")?.get("taskId")?.as_str()?.into_owned())
}

/// News of a task as a newer client knows them: what `tasks/get` says of it, asked for in its client's name
/// and judged as if that had asked.
pub(super) async fn looked_at(
    scene: &Scene,
    takes: Takes,
    server: &str,
    id: &str,
) -> Option<Bytes> {
    let holder = scene.gate.renewed(&scene.holder, Some(server))?;
    let scene = Scene { holder, ..scene.clone() };
    let params = format!("{{\"taskId\":{}}}", string(id));
    let body = request_body(&Id::minted("tollgate-news", 0), "tasks/get", Some(&params));
    let body = Bytes::from(body);
    let doc = wire::read(&body).ok()?;
    let Message::Request(request) = Message::of(&doc).ok()? else { return None };
    let ask = Ask {
        scene: &scene,
        request: &request,
        body: &body,
        era: Era::Modern,
        headers: None,
        takes,
        logs: false,
        client: None,
        held: Mutex::default(),
        met: Mutex::default(),
    };
    let named = request.named().ok()?;
    let about = receive::subject(&ask, server, &named).ok()?;
    let (subject, task_of) = (about.as_subject(), about.task_of());
    let aim = Aim { holding: scene.holding(server)?, subject, task_of, rename: None };
    let answer = last(call::carry(&ask, &aim, None).await).await?;
    let doc = Doc::read(&answer, &Bounds::ANSWER).ok()?;
    let task = rebuild::without(doc.root().get("result")?, &["resultType"]);
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
        Outbound::Accepted | Outbound::Silent => None,
    }
}

/// Hears of a task of a newer server until it has ended, for the older client that it was begun for.
pub(crate) fn follow(scene: &Scene, peer: &Arc<Peer>, id: &str) {
    let Some(session) = scene.session.clone() else { return };
    let key = format!("task {} {id}", peer.server.name);
    let filter = Filter { tasks: vec![id.to_owned()], ..Filter::default() };
    let heard = Heard::new(scene, Arc::clone(peer), filter);
    let (scene, server, name) = (scene.clone(), peer.server.name.clone(), key.clone());
    let hearing = async move {
        let Ok(permit) = scene.gate.own_act(&scene, "subscriptions/listen", &server) else {
            return;
        };
        let opened = heard.open(&permit).await;
        Gate::settled(permit, if opened.is_ok() { Ending::Ok } else { Ending::Error });
        let Some(session) = &scene.session else { return };
        if let Ok(mut source) = opened {
            let mut ended = false;
            while let (false, Some(message)) = (ended, source.next().await) {
                let told = heard.news(&message, |root, _| {
                    ended = root.get("params").is_some_and(has_ended);
                    untold(root)
                });
                if let Some(news) = told {
                    session.deliver(Outgoing::plain(news));
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

/// News of a newer server's task as older clients know them: how it stands.
fn untold(root: Value<'_>) -> Bytes {
    let task = root.get("params").map(newer_tasks::legacy_task);
    notification_body("notifications/tasks/status", task.as_deref()).into()
}
