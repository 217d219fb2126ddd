//! All servers of a grant at one address: lists are put together, names begin with their server's, and
//! each request goes to the one server that it names.

mod known;

use std::collections::HashSet;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use policy::Subject;
use policy::json::{Bounds, Doc, Value};
use store::ledger::Ending;

use crate::answers;
use crate::aside::LARGE_TO_EDIT_BYTES;
use crate::call::{Aim, Ask};
use crate::gate::Gate;
use crate::in_force::Holding;
use crate::lists::{List, View};
use crate::outbound::Outbound;
use crate::peer::Peer;
use crate::rebuild::{self, string};
use crate::receive;
use crate::room;
use crate::scene::Scene;
use crate::session::InFlight;
use crate::translate;
use crate::upstream::UpstreamError;
use crate::wire::{Era, Named, Refused, Takes, code, error_body, result_body};

/// Pages of one server's list that are read; a server with more is cut off with a warning.
pub(crate) const PAGES_MAX: usize = 1000;
/// A list of more pages than this is gone through with pauses while others ask on the same thread: an
/// endless one would be the whole work of two cores, its server's and ours.
pub(crate) const PAGES_AT_ONCE: usize = 3;
/// One pause, before each page.
pub(crate) const PAGE_PAUSE: Duration = Duration::from_millis(20);
/// Items of one server's list that are kept.
pub(crate) const ITEMS_MAX: usize = 10_000;
/// And so many bytes, over all its pages.
pub(crate) const LIST_BYTES_MAX: usize = 32 << 20;
/// So long a list of several servers waits for one of them.
const MERGED_WAIT_MAX: Duration = Duration::from_secs(15);

/// A request at the address of all servers.
pub(crate) async fn request(ask: &Ask<'_>, in_flight: Option<InFlight>) -> Outbound {
    let named = match ask.request.named() {
        Ok(named) => named,
        Err(refused) => return receive::refuse(ask.scene, &refused, &ask.request.method_name),
    };
    if let Some(list) = List::of_method(&ask.request.method_name) {
        // Lists are given whole here, so no cursor was ever handed out.
        if ask.request.params.is_some_and(|params| params.get("cursor").is_some()) {
            let refused = Refused::params("there is no such cursor").with_id(&ask.request.id);
            return receive::refuse(ask.scene, &refused, &ask.request.method_name);
        }
        return merged(ask, list).await;
    }
    match route(ask, &named).await {
        Some((holding, rename)) => {
            let about = receive::subject(ask, &holding.server.name, &named);
            let about = match about {
                Ok(about) => about,
                Err(refused) => {
                    return receive::refuse(ask.scene, &refused, &ask.request.method_name);
                }
            };
            let subject = match (&rename, about.as_subject()) {
                (Some(name), Some(policy::Subject::Tool(_))) => Some(policy::Subject::Tool(name)),
                (Some(name), Some(policy::Subject::Prompt(_))) => {
                    Some(policy::Subject::Prompt(name))
                }
                (_, subject) => subject,
            };
            let task_of = about.task_of();
            let aim = Aim { holding, subject, task_of, rename: rename.as_deref() };
            receive::to_server(ask, &aim, &about, in_flight).await
        }
        None => nowhere(ask, &named),
    }
}

/// Nothing of that name: the answer is the same whether it is hidden or does not exist.
fn nowhere(ask: &Ask<'_>, named: &Named<'_>) -> Outbound {
    if matches!(named, Named::Task(_)) {
        let refused = receive::no_such_task(ask);
        return receive::refuse(ask.scene, &refused, &ask.request.method_name);
    }
    let (what, name) = match named {
        Named::Tool(name) => ("tool", name.as_ref()),
        Named::Prompt(name) => ("prompt", name.as_ref()),
        Named::Resource(uri) => ("resource", uri.as_ref()),
        Named::Task(id) => ("task", id.as_ref()),
        Named::Nothing => ("method", ask.request.method_name.as_ref()),
    };
    let mut refused = Refused::params(format!("Unknown {what}: {name}")).with_id(&ask.request.id);
    if what == "method" {
        refused.code = crate::wire::code::UNKNOWN_METHOD;
        // To older clients 404 means that their session is gone.
        refused.http_status = if ask.era == Era::Modern { 404 } else { 200 };
    }
    receive::refuse(ask.scene, &refused, &ask.request.method_name)
}

/// The server that a request goes to, and the name that it knows.
async fn route<'a>(ask: &'a Ask<'_>, named: &Named<'_>) -> Option<(&'a Holding, Option<String>)> {
    match named {
        Named::Tool(name) | Named::Prompt(name) => name
            .split_once('.')
            .and_then(|(server, rest)| Some((ask.scene.holding(server)?, Some(rest.to_owned())))),
        Named::Resource(uri) => owner_of(ask, uri).await.map(|holding| (holding, None)),
        Named::Task(id) => {
            let tasks = &ask.scene.gate.tasks;
            let mut owners =
                ask.scene.holder.holdings.values().filter(|holding| {
                    tasks.tools_of(ask.scene, &holding.server.name, id).is_some()
                });
            // An id that two servers handed out names no task here.
            owners.next().filter(|_| owners.next().is_none()).map(|holding| (holding, None))
        }
        Named::Nothing => None,
    }
}

/// The server that lists a resource, or whose template fits it.
async fn owner_of<'a>(ask: &'a Ask<'_>, uri: &str) -> Option<&'a Holding> {
    owners_of(ask, &[uri]).await.pop().flatten()
}

/// The servers of several resources; servers come in the order of names, and those that list a resource
/// before those that have a template for it. A server whose policy hides a resource from the caller is not
/// asked, and none is where only one is left, or where there is only one.
pub(crate) async fn owners_of<'a>(ask: &'a Ask<'_>, uris: &[&str]) -> Vec<Option<&'a Holding>> {
    let holdings: Vec<&Holding> = ask.scene.holder.holdings.values().collect();
    let is_alone = holdings.len() == 1;
    let may_own = |holding: &Holding, uri: &str| is_alone || holding.shows(Subject::Resource(uri));
    let only = |uri: &&str| {
        let mut candidates = holdings.iter().copied().filter(|holding| may_own(holding, uri));
        candidates.next().filter(|_| candidates.next().is_none())
    };
    // What was listed is known without waiting for a server.
    let listed = |uri: &&str| {
        let mut candidates = holdings.iter().copied().filter(|holding| may_own(holding, uri));
        candidates.find(|holding| known::lists_resource(ask.scene, holding, uri))
    };
    let mut owners: Vec<Option<&Holding>> =
        uris.iter().map(|uri| only(uri).or_else(|| listed(uri))).collect();
    for list in [List::Resources, List::Templates] {
        for holding in &holdings {
            let mut unknown = owners.iter().zip(uris).filter(|(owner, _)| owner.is_none());
            if !unknown.any(|(_, uri)| may_own(holding, uri)) {
                continue;
            }
            let Ok(items) = items(ask, holding, list).await else { continue };
            let names: HashSet<String> =
                items.iter().filter_map(|item| member(item, list.key())).collect();
            for (owner, uri) in owners.iter_mut().zip(uris) {
                let fits = match list {
                    List::Templates => names.iter().any(|template| template_fits(template, uri)),
                    _ => names.contains(*uri),
                };
                if owner.is_none() && fits && may_own(holding, uri) {
                    *owner = Some(holding);
                }
            }
        }
    }
    owners
}

/// Whether a URI can come from a template: literal parts in order, anything in between.
fn template_fits(template: &str, uri: &str) -> bool {
    let mut rest = uri;
    let mut first = true;
    for part in
        template.split('{').map(|part| part.split_once('}').map_or(part, |(_, after)| after))
    {
        match rest.find(part) {
            Some(at) if !first || at == 0 => rest = rest.get(at + part.len()..).unwrap_or_default(),
            _ => return false,
        }
        first = false;
    }
    template.ends_with('}') || rest.is_empty()
}

fn member(item: &str, key: &str) -> Option<String> {
    let doc = Doc::read(item.as_bytes(), &Bounds::ANSWER).ok()?;
    Some(doc.root().get(key)?.as_str()?.into_owned())
}

/// Where a list of all servers names those that are not in it yet.
const LEFT_OUT: &str = "tollgate/left_out";

/// One list of all servers, without pages.
async fn merged(ask: &Ask<'_>, list: List) -> Outbound {
    let mut all = Vec::new();
    let mut seen = HashSet::new();
    let mut left_out = Vec::new();
    // Without a policy nothing of a server is shown.
    let asking = ask.scene.holder.holdings.values().filter(|holding| holding.rules.is_some());
    let asking =
        asking.map(|holding| async move { (holding, known::items(ask, holding, list).await) });
    for (holding, found) in together(asking).await {
        let Some(found) = found else {
            tracing::info!(server = %holding.server.name, list = list.method(), "not in the list of all servers yet");
            left_out.push(string(&holding.server.name));
            continue;
        };
        let pins = holding.server.pins();
        let view = View {
            policy: holding.rules.as_ref().map(|rules| &rules.policy),
            pins: &pins,
            set: Gate::capabilities_at(ask.scene, &holding.server, ask.takes),
            prefix: Some(&holding.server.name),
        };
        let mut turn_bytes = 0;
        for item in found.iter() {
            turn_bytes += item.len();
            if turn_bytes > LARGE_TO_EDIT_BYTES {
                turn_bytes = 0;
                tokio::task::yield_now().await;
            }
            let Ok(doc) = Doc::read(item.as_bytes(), &Bounds::ANSWER) else { continue };
            let name = doc.root().get(list.key()).and_then(Value::as_str).unwrap_or_default();
            // One URI can lead to one server only: the first that lists it.
            let unique =
                matches!(list, List::Tools | List::Prompts) || seen.insert(name.into_owned());
            let item = view.item(list, doc.root()).filter(|_| unique);
            all.extend(item.map(|item| for_era(ask.era, list, item)));
        }
    }
    let result = merged_result(ask.era, list, all, left_out);
    match ask.scene.gate.note_passed(ask.scene, &ask.request.method_name, "") {
        Ok(()) => in_room(ask, result_body(&ask.request.id, &result).into()).await,
        Err(error) => Outbound::ok(answers::denied(&ask.request.id, &answers::no_record(&error))),
    }
}

fn merged_result(era: Era, list: List, items: Vec<String>, left_out: Vec<String>) -> String {
    let mut result = format!("{{{}:{}", string(list.member()), rebuild::array(items));
    if era == Era::Modern {
        result.push_str(",\"resultType\":\"complete\",\"ttlMs\":0,\"cacheScope\":\"private\"");
    }
    if !left_out.is_empty() {
        // A client that misses something can tell why, and that asking again later may help.
        result.push_str(",\"_meta\":{");
        result.push_str(&string(LEFT_OUT));
        result.push(':');
        result.push_str(&rebuild::array(left_out));
        result.push('}');
    }
    result.push('}');
    result
}

async fn in_room(ask: &Ask<'_>, list: Bytes) -> Outbound {
    match room::of_ours(&ask.scene.holder.room, list).await {
        Ok(list) => Outbound::ok(list),
        Err(why) => {
            let words = why.to_string();
            Outbound::ok(error_body(Some(&ask.request.id), code::INTERNAL, &words, None))
        }
    }
}

/// An item as the client's era knows it; its server may be of another.
fn for_era(era: Era, list: List, item: String) -> String {
    if era == Era::Modern || list != List::Tools {
        return item;
    }
    match Doc::read(item.as_bytes(), &Bounds::ANSWER) {
        Ok(doc) => translate::legacy_tool(doc.root()),
        // It was written a moment ago.
        Err(_) => item,
    }
}

/// Waits for all at once: one server that is slow must not add its time to that of the others.
async fn together<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut waiting: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    poll_fn(|task| {
        let mut is_over = true;
        for (future, done) in waiting.iter_mut().filter(|(_, done)| done.is_none()) {
            match future.as_mut().poll(task) {
                Poll::Ready(output) => *done = Some(output),
                Poll::Pending => is_over = false,
            }
        }
        if is_over { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    waiting.into_iter().filter_map(|(_, done)| done).collect()
}

/// All items of one server's list, raw. Clients give up on a list of all servers long before a server
/// that does not answer has used up its time, so it is not waited for longer than they would.
async fn items(ask: &Ask<'_>, holding: &Holding, list: List) -> Result<Vec<String>, UpstreamError> {
    let all = all_items(ask.scene, ask.era, holding, list);
    tokio::time::timeout(MERGED_WAIT_MAX, all).await.unwrap_or_else(|_| {
        let why = format!("no list came within {} s", MERGED_WAIT_MAX.as_secs());
        Err(UpstreamError::NeverSent { why })
    })
}

async fn all_items(
    scene: &Scene,
    era: Era,
    holding: &Holding,
    list: List,
) -> Result<Vec<String>, UpstreamError> {
    let gate = &scene.gate;
    let permit = gate
        .own_act(scene, list.method(), &holding.server.name)
        .map_err(|error| UpstreamError::NeverSent { why: error.to_string() })?;
    let peer = match gate.peer_for(scene, holding, era, &permit).await {
        Ok(peer) => peer,
        Err(error) => {
            Gate::settled(permit, Ending::Error);
            return Err(error);
        }
    };
    let found = read_all(scene, &peer, &permit, list).await;
    Gate::settled(permit, if found.is_ok() { Ending::Ok } else { Ending::Error });
    found
}

async fn read_all(
    scene: &Scene,
    peer: &Arc<Peer>,
    permit: &store::ledger::Permit,
    list: List,
) -> Result<Vec<String>, UpstreamError> {
    scene.gate.note_offers(peer);
    if !peer.offers(list.capability()) {
        return Ok(Vec::new());
    }
    let mut found = scene.gate.whole_list(scene, peer, permit, list).await?;
    if list == List::Tools {
        let set = peer.capabilities(scene.capabilities(Takes::default()));
        found = scene.gate.observe_items(peer, set, found).await;
    }
    Ok(found)
}
