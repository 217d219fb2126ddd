//! Subscriptions across eras: the one long request of the newer era, and the single resources of the
//! older one.

use std::sync::Arc;

use bytes::Bytes;
use policy::json::{Bounds, Doc, Kind, Value};
use policy::{Decision, Subject, ToolFacts};
use store::ledger::Ending;
use tokio::sync::mpsc;

use crate::answers;
use crate::call::{self, Aim, Ask};
use crate::gate::Gate;
use crate::in_force::Holding;
use crate::outbound::{Outbound, PIECES_WAITING_MAX};
use crate::peer::Peer;
use crate::prepare;
use crate::rebuild::{self, string};
use crate::receive::{self, About};
use crate::scene::Scene;
use crate::serve::turned_true;
use crate::session::{Outgoing, Session};
use crate::translate::meta;
use crate::upstream::{Events, Outgoing as Sent, Reply};
use crate::wire::{Era, Id, Method, Refused, notification_body, request_body, result_body};

/// Resources that one request may subscribe to: an older server is asked for each of them.
const URIS_MAX: usize = 256;

/// What a client of the newer era wants to hear.
#[derive(Clone, Debug, Default)]
struct Filter {
    tools: bool,
    prompts: bool,
    resources: bool,
    uris: Vec<String>,
}

impl Filter {
    fn of(params: Option<Value<'_>>) -> Result<Filter, Refused> {
        let wanted = params.and_then(|params| params.get("notifications"));
        if wanted.is_some_and(|wanted| wanted.kind() != Kind::Object) {
            return Err(Refused::params("`notifications` must be an object"));
        }
        let flag = |key: &str| match wanted.and_then(|all| all.get(key)).map(Value::as_bool) {
            None => Ok(false),
            Some(Some(on)) => Ok(on),
            Some(None) => Err(Refused::params(format!("`{key}` must be true or false"))),
        };
        Ok(Filter {
            tools: flag("toolsListChanged")?,
            prompts: flag("promptsListChanged")?,
            resources: flag("resourcesListChanged")?,
            uris: match wanted.and_then(|all| all.get("resourceSubscriptions")) {
                None => Vec::new(),
                Some(uris) => uris_of(uris).ok_or_else(|| {
                    let words = "`resourceSubscriptions` must be a list of at most 256 strings";
                    Refused::params(words)
                })?,
            },
        })
    }

    /// What of it the policy for one server allows.
    fn allowed(&self, ask: &Ask<'_>, holding: &Holding) -> Filter {
        let mut allowed = self.clone();
        allowed.uris.retain(|uri| may_hear(ask, holding, uri));
        allowed
    }

    fn wants(&self, method: &str, params: Option<Value<'_>>) -> bool {
        match method {
            "notifications/tools/list_changed" => self.tools,
            "notifications/prompts/list_changed" => self.prompts,
            "notifications/resources/list_changed" => self.resources,
            "notifications/resources/updated" => {
                let uri = params.and_then(|params| params.get("uri")?.as_str());
                uri.is_some_and(|uri| self.uris.iter().any(|wanted| *wanted == uri))
            }
            _ => false,
        }
    }

    fn raw(&self) -> String {
        let mut members = Vec::new();
        for (on, key) in [
            (self.tools, "toolsListChanged"),
            (self.prompts, "promptsListChanged"),
            (self.resources, "resourcesListChanged"),
        ] {
            if on {
                members.push(format!("\"{key}\":true"));
            }
        }
        if !self.uris.is_empty() {
            let uris = rebuild::array(self.uris.iter().map(|uri| string(uri)));
            members.push(format!("\"resourceSubscriptions\":{uris}"));
        }
        format!("{{{}}}", members.join(","))
    }
}

fn uris_of(uris: Value<'_>) -> Option<Vec<String>> {
    if uris.kind() != Kind::Array || uris.items().count() > URIS_MAX {
        return None;
    }
    uris.items().map(|uri| Some(uri.as_str()?.into_owned())).collect()
}

/// Whether the policy lets this caller have a resource; to hear of its changes is less, but not nothing.
fn may_hear(ask: &Ask<'_>, holding: &Holding, uri: &str) -> bool {
    holding.rules.as_ref().is_some_and(|rules| {
        let verdict = call::decide(ask, rules, Subject::Resource(uri), ToolFacts::default());
        matches!(verdict.decision(), Decision::Allow)
    })
}

/// `subscriptions/listen`: passed on to a server of the same era, held here for older ones.
pub(crate) async fn listen(ask: &Ask<'_>) -> Outbound {
    let wanted = match Filter::of(ask.request.params) {
        Ok(wanted) => wanted,
        Err(refused) => {
            let refused = refused.with_id(&ask.request.id);
            return receive::refuse(ask.scene, &refused, &ask.request.method_name);
        }
    };
    let mut heard = Filter { uris: Vec::new(), ..wanted.clone() };
    let mut sources = Vec::new();
    for holding in heard_by(ask.scene) {
        let filter = wanted.allowed(ask, holding);
        let as_it_is = filter.uris.len() == wanted.uris.len() && ask.scene.only().is_some();
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
            Ok(peer) if peer.era == Era::Modern && as_it_is => {
                ask.goes_on_with(permit);
                return call::carry(
                    ask,
                    &Aim { holding, subject: None, task_of: None, rename: None },
                    None,
                )
                .await;
            }
            Ok(peer) => {
                let events = open(ask.scene, &peer, &permit, &filter).await;
                heard.uris.extend(filter.uris.iter().cloned());
                sources.extend(events.map(|events| (peer, filter, events)));
                Gate::settled(permit, Ending::Ok);
            }
            Err(error) => {
                tracing::info!(server = %holding.server.name, %error, "not listened to");
                Gate::settled(permit, Ending::Error);
            }
        }
    }
    let (sender, pieces) = mpsc::channel(PIECES_WAITING_MAX);
    heard.uris.sort();
    heard.uris.dedup();
    let ack = acknowledged(&ask.request.id, &heard);
    if sender.send(Outgoing::plain(ack)).await.is_err() {
        return Outbound::Silent;
    }
    for (peer, filter, events) in sources {
        tokio::spawn(relay(ask.request.id.clone(), filter, peer, events, sender.clone()));
    }
    tokio::spawn(end(ask.scene.clone(), ask.request.id.clone(), sender));
    Outbound::Many(pieces)
}

fn heard_by(scene: &Scene) -> Vec<&Holding> {
    match scene.only() {
        Some(holding) => vec![holding],
        None => scene.holder.holdings.values().collect(),
    }
}

/// The stream stays until the client goes or the gate stops; then it is ended in good order.
async fn end(scene: Scene, id: Id, to: mpsc::Sender<Outgoing>) {
    let mut stopping = scene.gate.stopping();
    tokio::select! {
        () = to.closed() => {}
        () = turned_true(&mut stopping) => {
            let result = format!(
                "{{\"resultType\":\"complete\",\"_meta\":{{{}:{}}}}}",
                string(meta::SUBSCRIPTION_ID),
                id.raw()
            );
            let _ = to.send(Outgoing::plain(result_body(&id, &result))).await;
        }
    }
}

/// Opens what an older or a newer server offers for the filter.
async fn open(
    scene: &Scene,
    peer: &Arc<Peer>,
    permit: &store::ledger::Permit,
    filter: &Filter,
) -> Option<Source> {
    if peer.era == Era::Modern {
        let params = format!("{{\"notifications\":{}}}", filter.raw());
        let mut prepared = prepare::own(
            peer,
            "subscriptions/listen",
            Some(&params),
            &prepare::client_words(scene),
        );
        prepared.out.stays_open = true;
        return match peer.request(permit, prepared.out).await {
            Ok(Reply::Many(events)) => Some(Source::Stream(events)),
            _ => None,
        };
    }
    for uri in &filter.uris {
        let params = format!("{{\"uri\":{}}}", string(uri));
        let id = peer.mint();
        let out = Sent::request(
            id.clone(),
            request_body(&id, "resources/subscribe", Some(&params)).into(),
        );
        if let Err(error) = peer.request(permit, out).await {
            tracing::info!(server = %peer.server.name, %error, "a resource could not be subscribed to");
        }
    }
    Some(Source::Shared(crate::listen::shared(scene, peer).await))
}

enum Source {
    Stream(Events),
    Shared(tokio::sync::broadcast::Receiver<Bytes>),
}

impl Source {
    async fn next(&mut self) -> Option<Bytes> {
        match self {
            Source::Stream(events) => events.next().await?.ok().map(|event| event.message),
            Source::Shared(messages) => loop {
                match messages.recv().await {
                    Ok(message) => return Some(message),
                    Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {}
                    Err(tokio::sync::broadcast::error::RecvError::Closed) => return None,
                }
            },
        }
    }
}

async fn relay(
    id: Id,
    filter: Filter,
    peer: Arc<Peer>,
    mut source: Source,
    to: mpsc::Sender<Outgoing>,
) {
    loop {
        let message = tokio::select! {
            message = source.next() => message,
            () = to.closed() => return,
        };
        let Some(message) = message else { return };
        if let Some(tagged) = tagged(&message, &id, &filter, &peer)
            && to.send(Outgoing::plain(tagged)).await.is_err()
        {
            return;
        }
    }
}

/// A notification with the id of the subscription it is for, if the client wants it.
fn tagged(message: &Bytes, id: &Id, filter: &Filter, peer: &Peer) -> Option<Bytes> {
    let doc = Doc::read(message, &Bounds::ANSWER).ok()?;
    let root = doc.root();
    let method = root.get("method")?.as_str()?;
    if method == "notifications/tools/list_changed" {
        peer.set_checked(false);
        peer.server.forget_check();
    }
    let params = root.get("params");
    if root.get("id").is_some() || !filter.wants(&method, params) {
        return None;
    }
    let tag = id.raw().to_owned();
    let of = match params.and_then(|params| params.get("_meta")) {
        Some(of) => rebuild::with(of, meta::SUBSCRIPTION_ID, tag),
        None => format!("{{{}:{tag}}}", string(meta::SUBSCRIPTION_ID)),
    };
    let params = match params {
        Some(params) => rebuild::with(params, "_meta", of),
        None => format!("{{\"_meta\":{of}}}"),
    };
    Some(notification_body(&method, Some(&params)).into())
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
/// gate's own stands in. Nothing when the request can simply be passed on.
pub(crate) async fn for_legacy(
    ask: &Ask<'_>,
    holding: &Holding,
    about: &About<'_>,
) -> Option<Outbound> {
    let session = ask.scene.session.clone()?;
    let peer = session.peer(&holding.server.name).filter(|peer| peer.era == Era::Modern)?;
    let About::Resource(uri) = about else { return None };
    // The way of every other call tells why not.
    if !may_hear(ask, holding, uri) {
        return None;
    }
    let permit =
        match ask.scene.gate.own_act(ask.scene, &ask.request.method_name, &holding.server.name) {
            Ok(permit) => permit,
            Err(error) => {
                return Some(Outbound::ok(answers::denied(
                    &ask.request.id,
                    &answers::no_record(&error),
                )));
            }
        };
    if ask.request.method == Method::ResourcesUnsubscribe {
        session.unsubscribe(uri);
    } else {
        let filter = Filter { uris: vec![(*uri).to_owned()], ..Filter::default() };
        let source = open(ask.scene, &peer, &permit, &filter).await;
        if let Some(source) = source {
            let task = tokio::spawn(deliver(session.clone(), peer, filter, source));
            session.subscribe(uri, task.abort_handle());
        }
    }
    Gate::settled(permit, Ending::Ok);
    Some(Outbound::ok(result_body(&ask.request.id, "{}")))
}

/// Hears of changed lists of a newer server, for a session whose client cannot ask for it.
pub(crate) async fn follow_lists(scene: &Scene, peer: &Arc<Peer>) {
    let Some(session) = scene.session.clone() else { return };
    let filter = Filter { tools: true, prompts: true, resources: true, uris: Vec::new() };
    let Ok(permit) = scene.gate.own_act(scene, "subscriptions/listen", &peer.server.name) else {
        return;
    };
    let source = open(scene, peer, &permit, &filter).await;
    Gate::settled(permit, Ending::Ok);
    if let Some(source) = source {
        let task = tokio::spawn(deliver(session.clone(), Arc::clone(peer), filter, source));
        session.subscribe(&format!("lists of {}", peer.server.name), task.abort_handle());
    }
}

async fn deliver(session: Arc<Session>, peer: Arc<Peer>, filter: Filter, mut source: Source) {
    while let Some(message) = source.next().await {
        let Ok(doc) = Doc::read(&message, &Bounds::ANSWER) else { continue };
        let root = doc.root();
        let Some(method) = root.get("method").and_then(Value::as_str) else { continue };
        if method == "notifications/tools/list_changed" {
            peer.set_checked(false);
            peer.server.forget_check();
        }
        if filter.wants(&method, root.get("params")) {
            session.deliver(Outgoing::plain(untagged(root, &method)));
        }
    }
    tracing::debug!(server = %peer.server.name, "a subscription ended");
}

/// A notification of the newer era as the older one knows it.
fn untagged(root: Value<'_>, method: &str) -> Bytes {
    let params = root.get("params").map(|params| match params.get("_meta") {
        Some(_) => rebuild::without(params, &["_meta"]),
        None => params.raw().to_owned(),
    });
    notification_body(method, params.as_deref()).into()
}
