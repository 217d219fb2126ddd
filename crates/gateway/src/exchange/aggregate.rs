//! The endpoint of all servers of a grant: merges their lists under names that every client accepts, and
//! routes each request to one server.

pub(in crate::exchange) mod cached_lists;

use std::collections::HashSet;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use policy::Subject;
use policy::json::{Bounds, Doc, Value};
use store::ledger::Ending;

use crate::exchange::app_pages;
use crate::exchange::call::{self, IncomingRequest, Target};
use crate::exchange::connect;
use crate::exchange::context::RequestContext;
use crate::exchange::error_responses;
use crate::exchange::names;
use crate::exchange::outbound::Outbound;
use crate::exchange::refuse;
use crate::exchange::skills;
use crate::exchange::subject;
use crate::exchange::tool_check;
use crate::runtime::offload::LARGE_TO_EDIT_BYTES;
use crate::runtime::permits;
use crate::runtime::response_buffer;
use crate::session::InFlightGuard;
use crate::snapshot::ServerAccess;
use crate::upstream::UpstreamError;
use crate::upstream::lists::List;
use crate::upstream::peer::Peer;
use mcp::edit::{self, string};
use mcp::translate;
use mcp::{ClientCapabilities, Era, Named, ProtocolError, code, error_body, result_body};

/// Pages read of one server's list. A longer list is an error.
pub(crate) const PAGES_MAX: usize = 1000;
/// Further pages are read with pauses while other clients on this thread are active: an endless list would keep
/// two cores busy.
pub(crate) const PAGES_AT_ONCE: usize = 3;
/// The pause before each further page.
pub(crate) const PAGE_PAUSE: Duration = Duration::from_millis(20);
/// Items accepted of one server's list.
pub(crate) const ITEMS_MAX: usize = 10_000;
/// Bytes accepted over all pages of a list.
pub(crate) const LIST_BYTES_MAX: usize = 32 << 20;
/// How long a merged list waits for one server.
const MERGED_WAIT_MAX: Duration = Duration::from_secs(15);

/// A request at the endpoint of all servers.
pub(crate) async fn request(
    incoming: &IncomingRequest<'_>,
    in_flight: Option<InFlightGuard>,
) -> Outbound {
    let named = match incoming.request.named() {
        Ok(named) => named,
        Err(refused) => {
            return refuse::refuse(incoming.context, &refused, &incoming.request.method_name);
        }
    };
    if let Some(list) = List::of_method(&incoming.request.method_name) {
        // Merged lists have one page, so this gate never issued a cursor.
        if incoming.request.params.is_some_and(|params| params.get("cursor").is_some()) {
            let refused = ProtocolError::params("unknown cursor").with_id(&incoming.request.id);
            return refuse::refuse(incoming.context, &refused, &incoming.request.method_name);
        }
        return merged(incoming, list).await;
    }
    match route(incoming, &named).await {
        Ok(Some((access, rename))) => {
            let named_subject = match subject::subject(incoming, &access.server.name, &named) {
                Ok(subject) => subject,
                Err(refused) => {
                    return refuse::refuse(
                        incoming.context,
                        &refused,
                        &incoming.request.method_name,
                    );
                }
            };
            let subject = named_subject.renamed(rename.as_deref());
            let task_of = named_subject.task_of();
            let target = Target { access, subject, task_of, rename: rename.as_deref() };
            call::to_server(incoming, &target, &named_subject, in_flight).await
        }
        Ok(None) => unknown_name(incoming, &named),
        Err(refused) => refuse::refuse(incoming.context, &refused, &incoming.request.method_name),
    }
}

/// Unknown name: the response is the same whether it is hidden or does not exist.
fn unknown_name(incoming: &IncomingRequest<'_>, named: &Named<'_>) -> Outbound {
    if matches!(named, Named::Task(_)) {
        let refused = subject::unknown_task(incoming);
        return refuse::refuse(incoming.context, &refused, &incoming.request.method_name);
    }
    let (what, name) = match named {
        Named::Tool(name) => ("tool", name.as_ref()),
        Named::Prompt(name) => ("prompt", name.as_ref()),
        Named::Resource(uri) => ("resource", uri.as_ref()),
        Named::Task(id) => ("task", id.as_ref()),
        Named::Nothing => ("method", incoming.request.method_name.as_ref()),
    };
    let mut refused =
        ProtocolError::params(format!("Unknown {what}: {name}")).with_id(&incoming.request.id);
    if what == "method" {
        refused.code = mcp::code::UNKNOWN_METHOD;
        // To older clients, 404 means that their session is gone.
        refused.http_status = if incoming.era == Era::Modern { 404 } else { 200 };
    }
    refuse::refuse(incoming.context, &refused, &incoming.request.method_name)
}

/// The server that a request goes to, and the name there if it is another one.
async fn route<'a>(
    incoming: &'a IncomingRequest<'_>,
    named: &Named<'_>,
) -> Result<Option<(&'a ServerAccess, Option<String>)>, ProtocolError> {
    let name = match named {
        Named::Tool(name) => Some((List::Tools, name)),
        Named::Prompt(name) => Some((List::Prompts, name)),
        Named::Resource(_) | Named::Task(_) | Named::Nothing => None,
    };
    if let Some((list, name)) = name {
        let found = names::find(incoming, list, name).await?;
        return Ok(found.map(|(access, own)| (access, Some(own).filter(|own| own != name))));
    }
    Ok(match named {
        Named::Resource(uri) => {
            let claimed = match app_pages::owner(incoming, uri)? {
                None => skills::owner(incoming, uri).await?,
                claimed => claimed,
            };
            match claimed {
                Some(access) => Some((access, None)),
                None if skills::is_skill(incoming, uri) => skills::only_server(incoming),
                None => owner_of(incoming, uri).await.map(|access| (access, None)),
            }
        }
        Named::Task(id) => {
            let tasks = &incoming.context.state.tasks;
            let mut owners = incoming.context.grantee.accesses.values().filter(|access| {
                tasks.tools_of(incoming.context, &access.server.name, id).is_some()
            });
            // A task id that two servers use is ambiguous, so it names no task.
            owners.next().filter(|_| owners.next().is_none()).map(|access| (access, None))
        }
        Named::Tool(_) | Named::Prompt(_) | Named::Nothing => None,
    })
}

/// The server that lists a resource or has a matching template.
async fn owner_of<'a>(incoming: &'a IncomingRequest<'_>, uri: &str) -> Option<&'a ServerAccess> {
    owners_of(incoming, &[uri]).await.pop().flatten()
}

/// The servers of several resources. Servers are tried in the order of their names, and those that list a
/// resource before those with a matching template. A server whose policy hides the resource is not queried; a
/// single candidate is not queried either.
pub(crate) async fn owners_of<'a>(
    incoming: &'a IncomingRequest<'_>,
    uris: &[&str],
) -> Vec<Option<&'a ServerAccess>> {
    let accesses: Vec<&ServerAccess> = incoming.context.grantee.accesses.values().collect();
    let is_alone = accesses.len() == 1;
    let may_own =
        |access: &ServerAccess, uri: &str| is_alone || access.shows(Subject::Resource(uri));
    let only = |uri: &&str| {
        let mut candidates = accesses.iter().copied().filter(|access| may_own(access, uri));
        candidates.next().filter(|_| candidates.next().is_none())
    };
    // Cached lists need no round trip.
    let listed = |uri: &&str| {
        let mut candidates = accesses.iter().copied().filter(|access| may_own(access, uri));
        candidates.find(|access| cached_lists::lists_resource(incoming.context, access, uri))
    };
    let mut owners: Vec<Option<&ServerAccess>> =
        uris.iter().map(|uri| only(uri).or_else(|| listed(uri))).collect();
    for list in [List::Resources, List::Templates] {
        for access in &accesses {
            let mut unknown = owners.iter().zip(uris).filter(|(owner, _)| owner.is_none());
            if !unknown.any(|(_, uri)| may_own(access, uri)) {
                continue;
            }
            let Ok(items) = items(incoming, access, list).await else { continue };
            let names: HashSet<String> =
                items.iter().filter_map(|item| member(item, list.key())).collect();
            for (owner, uri) in owners.iter_mut().zip(uris) {
                let fits = match list {
                    List::Templates => names.iter().any(|template| template_fits(template, uri)),
                    _ => names.contains(*uri),
                };
                if owner.is_none() && fits && may_own(access, uri) {
                    *owner = Some(access);
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

pub(in crate::exchange) fn member(item: &str, key: &str) -> Option<String> {
    let doc = Doc::read(item.as_bytes(), &Bounds::ANSWER).ok()?;
    Some(doc.root().get(key)?.as_str()?.into_owned())
}

/// The `_meta` members of a merged list that name the missing servers, and why they are missing.
const LEFT_OUT: &str = "tollgate/left_out";
const LEFT_OUT_REASONS: &str = "tollgate/left_out_reasons";

/// An item of a merged list.
pub(in crate::exchange) struct MergedItem<'a> {
    pub(in crate::exchange) server: &'a str,
    /// The server's name for it, or its URI.
    pub(in crate::exchange) own: String,
    pub(in crate::exchange) definition: String,
}

/// One list of all servers, in one page.
async fn merged(incoming: &IncomingRequest<'_>, list: List) -> Outbound {
    let mut all: Vec<MergedItem<'_>> = Vec::new();
    let mut seen = HashSet::new();
    let mut left_out = Vec::new();
    let mut listed = 0;
    // Without a policy, nothing of a server is shown.
    let reads = incoming.context.grantee.accesses.values().filter(|access| access.rules.is_some());
    let reads = reads
        .map(|access| async move { (access, cached_lists::items(incoming, access, list).await) });
    for (access, found) in join_all(reads).await {
        let found = match found {
            Ok(found) => found,
            Err(missing) => {
                left_out.push((access.server.name.as_str(), missing));
                continue;
            }
        };
        listed += 1;
        if list == List::Skills {
            skills::refresh(incoming.context.services(), &access.server);
        }
        let (pins, skills) = (access.server.pins(), access.server.skills());
        let view = names::view(incoming, access, &pins, &skills);
        let mut turn_bytes = 0;
        for item in found.iter() {
            turn_bytes += item.len();
            if turn_bytes > LARGE_TO_EDIT_BYTES {
                turn_bytes = 0;
                tokio::task::yield_now().await;
            }
            let Ok(doc) = Doc::read(item.as_bytes(), &Bounds::ANSWER) else { continue };
            let name = doc.root().get(list.key()).and_then(Value::as_str).unwrap_or_default();
            // A URI leads to one server: the first that lists it.
            let unique =
                list.has_names() || list == List::Skills || seen.insert(name.clone().into_owned());
            let item = view.item(list, doc.root()).filter(|_| unique);
            all.extend(item.map(|definition| MergedItem {
                server: &access.server.name,
                own: name.into_owned(),
                definition: for_era(incoming.era, list, definition),
            }));
        }
    }
    if listed == 0 && !left_out.is_empty() && left_out.iter().all(|(_, why)| why.is_failure()) {
        return no_server_listed(incoming, list, &left_out).await;
    }
    if list == List::Skills {
        all = skills::unambiguous(all);
    }
    let all = if list.has_names() {
        names::rename_all(incoming.context, all).await
    } else {
        all.into_iter().map(|item| item.definition).collect()
    };
    let result = merged_result(incoming.era, list, all, &left_out);
    match incoming.context.record_passed(&incoming.request.method_name, "").await {
        Ok(()) => buffered(incoming, result_body(&incoming.request.id, &result).into()).await,
        Err(error) => Outbound::ok(error_responses::denied(
            &incoming.request.id,
            &error_responses::ledger_failure(&error),
        )),
    }
}

/// No server could be read. That is an error, because the client would trust an empty list.
async fn no_server_listed(
    incoming: &IncomingRequest<'_>,
    list: List,
    left_out: &[(&str, cached_lists::MissingReason)],
) -> Outbound {
    let each: Vec<String> =
        left_out.iter().map(|(server, why)| format!("`{server}`: {why}")).collect();
    let message = format!("no server answered `{}`: {}", list.method(), each.join("; "));
    match incoming.context.record_passed(&incoming.request.method_name, "").await {
        Ok(()) => {
            Outbound::ok(error_body(Some(&incoming.request.id), code::INTERNAL, &message, None))
        }
        Err(error) => Outbound::ok(error_responses::denied(
            &incoming.request.id,
            &error_responses::ledger_failure(&error),
        )),
    }
}

fn merged_result(
    era: Era,
    list: List,
    items: Vec<String>,
    left_out: &[(&str, cached_lists::MissingReason)],
) -> String {
    let mut result = format!("{{{}:{}", string(list.member()), edit::array(items));
    if era == Era::Modern {
        result.push_str(",\"resultType\":\"complete\",\"ttlMs\":0,\"cacheScope\":\"private\"");
    }
    if !left_out.is_empty() {
        // Tells the client why something is missing, and that a later request may succeed.
        let names = edit::array(left_out.iter().map(|(server, _)| string(server)));
        let reasons: Vec<String> = left_out
            .iter()
            .map(|(server, why)| format!("{}:{}", string(server), string(&why.to_string())))
            .collect();
        let (key, key_reasons) = (string(LEFT_OUT), string(LEFT_OUT_REASONS));
        let reasons = reasons.join(",");
        let meta = format!(",\"_meta\":{{{key}:{names},{key_reasons}:{{{reasons}}}}}");
        result.push_str(&meta);
    }
    result.push('}');
    result
}

async fn buffered(incoming: &IncomingRequest<'_>, list: Bytes) -> Outbound {
    match response_buffer::reserve_own(&incoming.context.grantee.quota, list).await {
        Ok(list) => Outbound::ok(list),
        Err(why) => {
            let message = why.to_string();
            Outbound::ok(error_body(Some(&incoming.request.id), code::INTERNAL, &message, None))
        }
    }
}

/// The item in the form of the client's era.
fn for_era(era: Era, list: List, item: String) -> String {
    if era == Era::Modern || list != List::Tools {
        return item;
    }
    match Doc::read(item.as_bytes(), &Bounds::ANSWER) {
        Ok(doc) => translate::legacy_tool(doc.root()),
        // Cannot fail: this code wrote it.
        Err(_) => item,
    }
}

/// Polls all futures concurrently, so that the waits do not add up.
pub(in crate::exchange) async fn join_all<F: Future>(
    futures: impl Iterator<Item = F>,
) -> Vec<F::Output> {
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

/// All items of one server's list, raw. Waits no longer than clients usually do, which is less than the timeout
/// of a call.
pub(in crate::exchange) async fn items(
    incoming: &IncomingRequest<'_>,
    access: &ServerAccess,
    list: List,
) -> Result<Vec<String>, UpstreamError> {
    let all = all_items(incoming.context, incoming.era, access, list);
    tokio::time::timeout(MERGED_WAIT_MAX, all).await.unwrap_or_else(|_| {
        let why = format!("no response within {} s", MERGED_WAIT_MAX.as_secs());
        Err(UpstreamError::never_sent(why))
    })
}

pub(in crate::exchange) async fn all_items(
    context: &RequestContext,
    era: Era,
    access: &ServerAccess,
    list: List,
) -> Result<Vec<String>, UpstreamError> {
    let permit = context
        .own_act(list.method(), &access.server.name)
        .await
        .map_err(|error| UpstreamError::never_sent(error.to_string()))?;
    let peer = match connect::peer_for(context, access, era, &permit).await {
        Ok(peer) => peer,
        Err(error) => {
            permits::settle(permit, Ending::Error);
            return Err(error);
        }
    };
    let found = read_all(context, &peer, &permit, list).await;
    permits::settle_by(permit, &found);
    found
}

async fn read_all(
    context: &RequestContext,
    peer: &Arc<Peer>,
    permit: &store::ledger::Permit,
    list: List,
) -> Result<Vec<String>, UpstreamError> {
    tool_check::note_offers(context.services(), peer);
    if !peer.offers(list.capability()) {
        if list == List::Skills {
            peer.server.note_skills(&[], true);
        }
        return Ok(Vec::new());
    }
    let mut found = tool_check::read_list(context, peer, permit, list).await?;
    if list == List::Tools {
        let set = peer.capabilities(context.capabilities(ClientCapabilities::default()));
        found = tool_check::observe_items(context.services(), peer, set, found).await;
    }
    if list == List::Skills {
        skills::observe_list(context.services(), &peer.server, &found);
    }
    Ok(found)
}
