//! Subscriptions across eras: the one long request of the newer era, and the single resources of the
//! older one.

mod filter;
mod follow;
mod heard;
pub(crate) mod tasks;

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use policy::Subject;
use policy::json::Value;
use store::ledger::Ending;
use tokio::sync::{mpsc, watch};

use self::filter::Filter;
use self::follow::Subscription;
use self::heard::{Deaf, Heard, Source};
use crate::aggregate;
use crate::answers;
use crate::call::{self, Aim, Ask};
use crate::gate::Gate;
use crate::in_force::Holding;
use crate::outbound::{Outbound, PIECES_WAITING_MAX};
use crate::peer::Peer;
use crate::rebuild::{self, string};
use crate::receive::{self, About};
use crate::scene::Scene;
use crate::serve::turned_true;
use crate::session::{InFlight, Outgoing, Session};
use crate::translate::meta;
use crate::wire::{
    self, Era, Id, Message, Method, Refused, TASKS, Takes, error_body, notification_body,
    request_body, result_body,
};

/// `subscriptions/listen`: passed on to a server of the same era, held here for older ones and where
/// several servers are heard.
pub(crate) async fn listen(ask: &Ask<'_>, in_flight: Option<InFlight>) -> Outbound {
    let filter = match Filter::of(ask.request.params) {
        Ok(filter) => filter,
        Err(refused) => {
            let refused = refused.with_id(&ask.request.id);
            return receive::refuse(ask.scene, &refused, &ask.request.method_name);
        }
    };
    let mut sources = Vec::new();
    let mut heard_for = Filter { uris: Vec::new(), tasks: Vec::new(), ..filter };
    let mut later = Vec::new();
    for (holding, part) in parts(ask, &filter).await {
        if ask.scene.only().is_none() && part.is_of_lists() && !holding.server.is_builtin() {
            // A server that takes long to start must not keep the others from being heard.
            heard_for.join(&part);
            later.push((holding.clone(), part));
            continue;
        }
        let permit =
            match ask.scene.gate.own_act(ask.scene, "subscriptions/listen", &holding.server.name) {
                Ok(permit) => permit,
                Err(error) => {
                    return Outbound::ok(answers::denied(
                        &ask.request.id,
                        &answers::no_record(&error),
                    ));
                }
            };
        match ask.scene.gate.peer_for(ask.scene, holding, ask.era, &permit).await {
            Ok(peer) if peer.era == Era::Modern && ask.scene.only().is_some() => {
                ask.goes_on_with(permit);
                return pass_on(ask, holding, &filter, &part, in_flight).await;
            }
            Ok(peer) if peer.runs_tasks() && !part.tasks.is_empty() && !ask.takes.takes_tasks() => {
                Gate::settled(permit, Ending::Error);
                let refused = Refused::undeclared(TASKS).with_id(&ask.request.id);
                return receive::refuse(ask.scene, &refused, &ask.request.method_name);
            }
            Ok(peer) => {
                let heard = Heard::new(ask.scene, peer, part);
                let opened = heard.open(&permit).await;
                Gate::settled(permit, if opened.is_ok() { Ending::Ok } else { Ending::Error });
                heard_for.join(&heard.filter);
                sources.push((heard, opened));
            }
            Err(error) => {
                tracing::info!(server = %holding.server.name, %error, "not listened to");
                Gate::settled(permit, Ending::Error);
            }
        }
    }
    let (sender, pieces) = mpsc::channel(PIECES_WAITING_MAX);
    let ack = acknowledged(&ask.request.id, &heard_for);
    if sender.send(Outgoing::plain(ack)).await.is_err() {
        return Outbound::Silent;
    }
    let over = watch::Sender::new(false);
    let (id, to) = (ask.request.id.clone(), sender.clone());
    let subscription = Subscription { id, takes: ask.takes, to, over: over.subscribe() };
    for (heard, opened) in sources {
        subscription.hear(heard, opened);
    }
    for (holding, part) in later {
        subscription.hear_later(ask.scene.clone(), holding, part);
    }
    if ask.scene.only().is_none() {
        let lists = Filter { uris: Vec::new(), tasks: Vec::new(), ..filter };
        subscription.follow(ask.scene.clone(), lists);
    }
    tokio::spawn(end(ask.scene.clone(), ask.request.id.clone(), sender, in_flight, over));
    Outbound::Many(pieces)
}

/// The servers that are heard, each with what it is heard for.
async fn parts<'a>(ask: &'a Ask<'_>, filter: &Filter) -> Vec<(&'a Holding, Filter)> {
    if let Some(holding) = ask.scene.only() {
        return vec![(holding, filter.allowed(ask, holding))];
    }
    let uris: Vec<&str> = filter.uris.iter().map(String::as_str).collect();
    let owners = aggregate::owners_of(ask, &uris).await;
    let belongs = |uri: &&String, holding: &Holding| {
        let owner =
            filter.uris.iter().position(|wanted| wanted == *uri).and_then(|at| *owners.get(at)?);
        owner.is_some_and(|owner| std::ptr::eq(owner, holding))
    };
    let all = ask.scene.holder.holdings.values().map(|holding| {
        let allowed = filter.allowed(ask, holding);
        let uris = allowed.uris.iter().filter(|uri| belongs(uri, holding)).cloned().collect();
        (holding, Filter { uris, ..allowed })
    });
    all.filter(|(_, part)| !part.is_empty()).collect()
}

/// To a server of the same era goes the request itself, without what its client may not hear.
async fn pass_on(
    ask: &Ask<'_>,
    holding: &Holding,
    filter: &Filter,
    part: &Filter,
    in_flight: Option<InFlight>,
) -> Outbound {
    let aim = Aim { holding, subject: None, task_of: None, rename: None };
    let Some(params) = ask.request.params.filter(|_| part != filter) else {
        return call::carry(ask, &aim, in_flight).await;
    };
    let body = request_body(&ask.request.id, &ask.request.method_name, Some(&part.instead(params)));
    let body = Bytes::from(body);
    let read = wire::read(&body);
    let message = read.as_ref().map_err(Clone::clone).and_then(Message::of);
    match message {
        Ok(Message::Request(request)) => {
            let less = Ask {
                request: &request,
                body: &body,
                client: ask.client.clone(),
                held: Mutex::default(),
                met: Mutex::new(ask.met.lock().unwrap_or_else(PoisonError::into_inner).take()),
                ..*ask
            };
            call::carry(&less, &aim, in_flight).await
        }
        Ok(_) => Outbound::Silent,
        Err(refused) => receive::refuse(ask.scene, &refused, &ask.request.method_name),
    }
}

/// The stream stays until the client goes or takes it back, or the gate stops; then it is ended in good
/// order.
async fn end(
    scene: Scene,
    id: Id,
    to: mpsc::Sender<Outgoing>,
    in_flight: Option<InFlight>,
    over: watch::Sender<bool>,
) {
    let mut stopping = scene.gate.stopping();
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
                string(meta::SUBSCRIPTION_ID),
                id.raw()
            );
            let _ = to.send(Outgoing::plain(result_body(&id, &result))).await;
        }
    }
    over.send_replace(true);
}

async fn relay(
    id: &Id,
    takes: Takes,
    heard: &Heard,
    mut opened: Result<Source, Deaf>,
    to: &mpsc::Sender<Outgoing>,
) {
    while let Some((mut source, was_away)) = heard.once_open(opened).await {
        // Nobody heard what it said meanwhile, and lists of all servers were made without it.
        for method in heard.filter.lists().filter(|_| was_away) {
            if to.send(of_the_gate(method, id)).await.is_err() {
                return;
            }
        }
        while let Some(message) = source.next().await {
            let tagged = |root: Value<'_>, method: &str| tagged(root, method, id);
            let news = match heard.task_told_of(&message) {
                None => heard.news(&message, tagged),
                Some(task) => {
                    let looked_at = heard.looked_at(takes, &task).await;
                    looked_at.and_then(|message| heard.news(&message, tagged))
                }
            };
            if let Some(news) = news
                && to.send(Outgoing::plain(news)).await.is_err()
            {
                return;
            }
        }
        opened = Err(Deaf::ForNow);
    }
}

/// A notification of the gate's own for a subscription.
fn of_the_gate(method: &str, id: &Id) -> Outgoing {
    let params = format!("{{\"_meta\":{{{}:{}}}}}", string(meta::SUBSCRIPTION_ID), id.raw());
    Outgoing::plain(notification_body(method, Some(&params)))
}

/// A notification with the id of the subscription it is for.
fn tagged(root: Value<'_>, method: &str, id: &Id) -> Bytes {
    let (params, tag) = (root.get("params"), id.raw().to_owned());
    let of = match params.and_then(|params| params.get("_meta")) {
        Some(of) => rebuild::with(of, meta::SUBSCRIPTION_ID, tag),
        None => format!("{{{}:{tag}}}", string(meta::SUBSCRIPTION_ID)),
    };
    let params = match params {
        Some(params) => rebuild::with(params, "_meta", of),
        None => format!("{{\"_meta\":{of}}}"),
    };
    notification_body(method, Some(&params)).into()
}

fn acknowledged(id: &Id, filter: &Filter) -> Vec<u8> {
    let params = format!(
        "{{\"notifications\":{},\"_meta\":{{{}:{}}}}}",
        filter.raw(),
        string(meta::SUBSCRIPTION_ID),
        id.raw()
    );
    notification_body("notifications/subscriptions/acknowledged", Some(&params))
}

/// `resources/subscribe` of an older client, where its server is of the newer era: a stream of the
/// gate's own stands in. Nothing when the request can simply be passed on, or be refused like any other.
pub(crate) async fn for_legacy(
    ask: &Ask<'_>,
    holding: &Holding,
    about: &About<'_>,
) -> Option<Outbound> {
    let session = ask.scene.session.clone()?;
    let About::Resource(uri) = about else { return None };
    if !call::allows(ask, holding, Subject::Resource(uri)) {
        return None;
    }
    let peer = joined(ask, holding, &session).await.filter(|peer| peer.era == Era::Modern)?;
    let id = &ask.request.id;
    let permit =
        match ask.scene.gate.own_act(ask.scene, &ask.request.method_name, &holding.server.name) {
            Ok(permit) => permit,
            Err(error) => {
                return Some(Outbound::ok(answers::denied(id, &answers::no_record(&error))));
            }
        };
    if ask.request.method == Method::ResourcesUnsubscribe {
        session.unsubscribe(uri);
    } else {
        let filter = Filter { uris: vec![(*uri).to_owned()], ..Filter::default() };
        let heard = Heard::new(ask.scene, peer, filter);
        let opened = heard.open(&permit).await;
        if opened.is_err() {
            Gate::settled(permit, Ending::Error);
            let words = "the server does not take the subscription";
            return Some(Outbound::ok(error_body(Some(id), -32603, words, None)));
        }
        let task = tokio::spawn(deliver(session.clone(), heard, opened));
        session.subscribe(uri, task.abort_handle());
    }
    Gate::settled(permit, Ending::Ok);
    Some(Outbound::ok(result_body(id, "{}")))
}

/// The server's conversation in a session, which may have to be opened to know the server's era.
async fn joined(ask: &Ask<'_>, holding: &Holding, session: &Session) -> Option<Arc<Peer>> {
    if let Some(peer) = session.peer(&holding.server.name) {
        return Some(peer);
    }
    let gate = &ask.scene.gate;
    let permit = gate.own_act(ask.scene, "initialize", &holding.server.name).ok()?;
    let opened = gate.peer_for(ask.scene, holding, ask.era, &permit).await;
    Gate::settled(permit, if opened.is_ok() { Ending::Ok } else { Ending::Error });
    opened.ok()
}

/// Hears of changed lists of a newer server, for a session whose client cannot ask for it.
pub(crate) async fn follow_lists(scene: &Scene, peer: &Arc<Peer>) {
    let Some(session) = scene.session.clone() else { return };
    let filter = Filter { tools: true, prompts: true, resources: true, ..Filter::default() };
    let Ok(permit) = scene.gate.own_act(scene, "subscriptions/listen", &peer.server.name) else {
        return;
    };
    let heard = Heard::new(scene, Arc::clone(peer), filter);
    let opened = heard.open(&permit).await;
    Gate::settled(permit, if opened.is_ok() { Ending::Ok } else { Ending::Error });
    let task = tokio::spawn(deliver(session.clone(), heard, opened));
    session.subscribe(&format!("lists of {}", peer.server.name), task.abort_handle());
}

async fn deliver(session: Arc<Session>, heard: Heard, mut opened: Result<Source, Deaf>) {
    while let Some((mut source, was_away)) = heard.once_open(opened).await {
        if was_away && session.server.is_none() {
            session.tell_of_lists();
        }
        while let Some(message) = source.next().await {
            if let Some(news) = heard.news(&message, untagged) {
                session.deliver(Outgoing::plain(news));
            }
        }
        opened = Err(Deaf::ForNow);
    }
    tracing::debug!(server = %heard.peer.server.name, "a subscription ended");
}

/// A notification of the newer era as the older one knows it.
fn untagged(root: Value<'_>, method: &str) -> Bytes {
    let params = root.get("params").map(|params| match params.get("_meta") {
        Some(_) => rebuild::without(params, &["_meta"]),
        None => params.raw().to_owned(),
    });
    notification_body(method, params.as_deref()).into()
}
