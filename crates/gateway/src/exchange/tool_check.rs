//! Keeps the known tools of a server fresh: reads the list and compares it with the pins.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use policy::json::{Bounds, Doc, Kind, Value};
use policy::{Decision, HiddenAs, Verdict};
use store::ledger::{Facts, Permit};
use store::registry::Accept;

use crate::exchange::aggregate::{ITEMS_MAX, LIST_BYTES_MAX, PAGE_PAUSE, PAGES_AT_ONCE, PAGES_MAX};
use crate::exchange::connect::{own_capabilities, peer_for};
use crate::exchange::context::RequestContext;
use crate::exchange::prepare;
use crate::runtime::offload::{LARGE_TO_EDIT_BYTES, offload};
use crate::runtime::{Services, pacing, permits};
use crate::snapshot::{ServerAccess, pins_of};
use crate::upstream::lists::List;
use crate::upstream::peer::{Peer, final_response};
use crate::upstream::pins::Pins;
use crate::upstream::server::{Backend, Server};
use crate::upstream::{Stage, UpstreamError};
use mcp::edit::string;
use mcp::translate::ClientMeta;
use mcp::{ClientCapabilities, Era, code};

/// The timeout for all pages of a list. `call_ms_max` of the server applies if it is shorter.
const LIST_WAIT_MAX: Duration = Duration::from_mins(2);

/// Who accepted the tools of a built-in server.
const ACCEPTED_WITH_THE_BINARY: &str = "tollgate itself";

/// Whether the pins of a server are fresh enough for a call in this context.
pub(crate) fn is_fresh(context: &RequestContext, server: &Server) -> bool {
    if server.is_builtin() {
        return server.pins().is_known();
    }
    match context.session.as_ref().and_then(|session| session.peer(&server.name)) {
        // The tools of a child are checked once per start, and when it announces a change.
        Some(peer) if peer.is_child() => peer.is_checked(),
        None if is_new_process(context, server) => false,
        // The session will start its own process.
        None if context.session.is_some()
            && matches!(server.backend, Backend::Child(_))
            && !server.is_shared_by_all() =>
        {
            false
        }
        _ => server
            .is_fresh(own_capabilities(context, server), context.services().clock.now().steady_us),
    }
}

/// Whether a fresh list is read again, because a new tool may have been added. A hidden name takes as long as
/// an unknown one.
pub(crate) fn needs_reread(
    context: &RequestContext,
    server: &Server,
    is_new: bool,
    verdict: &Verdict,
) -> bool {
    let is_hidden = || matches!(verdict.decision(), Decision::Hidden(HiddenAs::Unknown(_)));
    (is_new || is_hidden())
        && !server.is_builtin()
        && !server.was_just_read(
            own_capabilities(context, server),
            context.services().clock.now().steady_us,
        )
}

/// Whether the process that the grant's clients share was started after the last check.
fn is_new_process(context: &RequestContext, server: &Server) -> bool {
    matches!(server.backend, Backend::Child(_))
        && server.shared_peer(&context.grantee.id).is_some_and(|peer| !peer.is_checked())
}

/// A peer whose tools were just compared with the pins.
pub(crate) async fn checked_peer(
    context: &RequestContext,
    access: &ServerAccess,
    era: Era,
) -> Result<Arc<Peer>, UpstreamError> {
    let facts = Facts { method: "tools/list", server: &access.server.name, ..context.facts() };
    let permit = context.passed(&facts).await.map_err(|error| {
        UpstreamError::never_sent(format!("the audit log cannot be written: {error}"))
    })?;
    let looked = async {
        let peer = peer_for(context, access, era, &permit).await?;
        let begin = Instant::now();
        let items = read_list(context, &peer, &permit, List::Tools).await?;
        let set = peer.capabilities(context.capabilities(ClientCapabilities::default()));
        observe_items(context.services(), &peer, set, items).await;
        let took_us = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
        access.server.set_checked(set, context.services().clock.now().steady_us, took_us);
        Ok(peer)
    };
    let looked = looked.await;
    if looked.is_err() {
        access.server.drop_shared(&context.grantee.id);
    }
    permits::settle_by(permit, &looked);
    looked
}

/// All items of a server's list, raw, over all pages.
pub(crate) async fn read_list(
    context: &RequestContext,
    peer: &Arc<Peer>,
    permit: &Permit,
    list: List,
) -> Result<Vec<String>, UpstreamError> {
    let call_max = peer.server.spec.options.call_ms_max.map(Duration::from_millis);
    let wait_max = call_max.map_or(LIST_WAIT_MAX, |call_max| call_max.min(LIST_WAIT_MAX));
    let pages = Box::pin(all_pages(context, peer, permit, list));
    match tokio::time::timeout(wait_max, pages).await {
        Ok(items) => items,
        Err(_) => Err(UpstreamError::TimedOut { stage: Stage::Total, after: wait_max }),
    }
}

async fn all_pages(
    context: &RequestContext,
    peer: &Arc<Peer>,
    permit: &Permit,
    list: List,
) -> Result<Vec<String>, UpstreamError> {
    let client = prepare::client_meta(context);
    let (mut items, mut bytes) = (Vec::new(), 0);
    let mut cursor: Option<String> = None;
    let mut cursors = HashSet::new();
    let begin = Instant::now();
    for number in 0..PAGES_MAX {
        if number >= PAGES_AT_ONCE {
            pacing::yield_to_others(begin, PAGE_PAUSE).await;
        }
        let params = cursor.as_ref().map(|cursor| format!("{{\"cursor\":{}}}", string(cursor)));
        let prepared = prepare::own_request(peer, list.method(), params.as_deref(), &client);
        let reply = peer.request(permit, prepared.out).await?;
        let answer = final_response(reply, &prepared.id, drop).await?;
        bytes += answer.len();
        if bytes > LIST_BYTES_MAX {
            break;
        }
        let page = page(answer, list, peer.offers(list.capability())).await?;
        items.extend(page.items);
        if items.len() > ITEMS_MAX {
            break;
        }
        let Some(next) = page.next else { return Ok(items) };
        if !cursors.insert(next.clone()) {
            let why = "its list repeats a cursor, so it would never end".to_owned();
            return Err(UpstreamError::Malformed { why });
        }
        cursor = Some(next);
    }
    Err(UpstreamError::Malformed {
        why: format!(
            "its list has more than {ITEMS_MAX} items, {PAGES_MAX} pages or {LIST_BYTES_MAX} bytes"
        ),
    })
}

/// Compares a list that passes to a client with the pins. A single page is not compared, but an unknown tool on
/// it causes the whole list to be read before the next call.
pub(crate) fn observe(
    services: &Services,
    peer: &Arc<Peer>,
    set: ClientCapabilities,
    result: Value<'_>,
    is_first_page: bool,
) {
    let Some(tools) = result.get("tools") else { return };
    let tools: Vec<Value<'_>> = tools.items().collect();
    if is_first_page && result.get("nextCursor").is_none() {
        return compare(services, peer, set, &tools);
    }
    let pins = peer.server.pins();
    let mut names = tools.iter().filter_map(|tool| tool.get("name")?.as_str());
    if names.any(|name| !pins.has(&name)) {
        peer.set_checked(false);
        peer.server.forget_check();
    }
}

/// Compares a whole list with the pins and returns it.
pub(crate) async fn observe_items(
    services: &Arc<Services>,
    peer: &Arc<Peer>,
    set: ClientCapabilities,
    items: Vec<String>,
) -> Vec<String> {
    let bytes = items.iter().map(String::len).sum();
    if bytes <= LARGE_TO_EDIT_BYTES {
        compare_items(services, peer, set, &items);
        return items;
    }
    let (services, peer) = (Arc::clone(services), Arc::clone(peer));
    offload(bytes, move || {
        compare_items(&services, &peer, set, &items);
        items
    })
    .await
}

fn compare_items(services: &Services, peer: &Arc<Peer>, set: ClientCapabilities, items: &[String]) {
    let docs: Vec<Doc<'_>> =
        items.iter().filter_map(|item| Doc::read(item.as_bytes(), &Bounds::ANSWER).ok()).collect();
    let tools: Vec<Value<'_>> = docs.iter().map(Doc::root).collect();
    compare(services, peer, set, &tools);
}

fn compare(services: &Services, peer: &Arc<Peer>, set: ClientCapabilities, tools: &[Value<'_>]) {
    let server = &peer.server;
    peer.set_checked(true);
    if server.is_builtin() {
        server.set_pins(Pins::default().observed(&server.name, tools));
        if server.is_registered {
            accept_own(services, &server.name, tools);
        }
        return;
    }
    if !server.is_registered {
        return server.set_pins(server.pins().observed(&server.name, tools));
    }
    let now_us = services.clock.now().wall_us;
    match services.registry.observe(&server.name, &set.key(), tools, now_us) {
        Ok(report) => {
            note_offers(services, peer);
            for tool in report.changed.iter().chain(&report.new).chain(&report.conflict) {
                if report.moved {
                    tracing::warn!(server = %server.name, tool, "a tool differs from its accepted definition; see `tollgate server pins`");
                }
            }
            if report.moved || report.first || !server.pins().is_known() {
                let pins = pins_of(&server.name, &services.registry);
                // Clients with other lists are notified when the next snapshot is installed.
                server.accept(if tools.is_empty() && !pins.is_known() {
                    Pins::none_offered()
                } else {
                    pins
                });
            }
        }
        Err(error) => {
            // Without known tools, no call is allowed.
            tracing::error!(server = %server.name, %error, "cannot store the pins; its tools are denied");
            server.set_pins(Pins::none_offered());
        }
    }
}

/// Records the capabilities that a server declared, so that merged lists need not wait for a server that has
/// nothing to add.
pub(crate) fn note_offers(services: &Services, peer: &Peer) {
    let offers = peer.offers_text();
    if peer.server.set_offers(&offers)
        && let Err(error) = services.registry.note_offers(&peer.server.name, &offers)
    {
        tracing::debug!(server = %peer.server.name, %error, "could not record its capabilities");
    }
}

/// Updates the pins of a built-in server to the tools of this binary, which is trusted anyway.
fn accept_own(services: &Services, server: &str, tools: &[Value<'_>]) {
    let now_us = services.clock.now().wall_us;
    let kept = services.registry.observe(server, "", tools, now_us).and_then(|report| {
        let differs = [&report.changed, &report.new, &report.gone];
        if differs.iter().all(|names| names.is_empty()) {
            return Ok(());
        }
        services.registry.accept(server, Accept::All, ACCEPTED_WITH_THE_BINARY, now_us).map(drop)
    });
    if let Err(error) = kept {
        tracing::warn!(server, %error, "could not pin the tools of a built-in server");
    }
}

/// Sends the log level of a session to a legacy server.
pub(crate) async fn sync_log_level(context: &RequestContext, peer: &Arc<Peer>) {
    let level = context.session.as_ref().and_then(|session| session.log_level());
    let rules = context.access(&peer.server.name).and_then(|access| access.rules.as_ref());
    let hears = peer.era == Era::Legacy
        && !peer.is_builtin()
        && peer.offers("logging")
        && rules.is_some_and(|rules| rules.allows_methods());
    let Some(level) = level.filter(|_| hears) else { return };
    if let Ok(permit) = context.own_act("logging/setLevel", &peer.server.name).await {
        set_level(context.services(), peer, &permit, &level).await;
        permits::settle(permit, store::ledger::Ending::Ok);
    }
}

/// Sends a log level to a legacy server, unless it has it already.
pub(crate) async fn set_level(services: &Services, peer: &Arc<Peer>, permit: &Permit, level: &str) {
    let Some(level) = peer.level_to_send(level, services.clock.now().steady_us) else { return };
    if let Some(restore_state) = peer.restore_state() {
        restore_state.set_level(level);
    }
    let params = format!("{{\"level\":{}}}", string(level));
    let client = ClientMeta { capabilities: "{}".to_owned(), info: None, log_level: None };
    let prepared = prepare::own_request(peer, "logging/setLevel", Some(&params), &client);
    if let Ok(reply) = peer.request(permit, prepared.out).await {
        // A server that refuses sends no logs. The call continues without them.
        let _ = final_response(reply, &prepared.id, drop).await;
    }
}

/// One page of a list.
#[derive(Default)]
struct ListPage {
    /// The raw items.
    items: Vec<String>,
    /// The cursor of the next page, if there is one.
    next: Option<String>,
}

async fn page(answer: Bytes, list: List, is_declared: bool) -> Result<ListPage, UpstreamError> {
    if answer.len() <= LARGE_TO_EDIT_BYTES {
        return read_page(&answer, list, is_declared);
    }
    offload(answer.len(), move || read_page(&answer, list, is_declared)).await
}

fn read_page(answer: &[u8], list: List, is_declared: bool) -> Result<ListPage, UpstreamError> {
    let garbled = |why: &str| UpstreamError::Malformed { why: why.to_owned() };
    let doc = Doc::read(answer, &Bounds::ANSWER).map_err(|_| garbled("its list is not JSON"))?;
    let Some(result) = doc.root().get("result") else {
        // A server without this feature responds with an error and has no items. Any other error says nothing
        // about the items, so the known ones stay.
        let code = doc.root().get("error").and_then(|error| error.get("code")?.as_number());
        if !is_declared || code.is_some_and(|code| *code == code::UNKNOWN_METHOD.to_string()) {
            return Ok(ListPage::default());
        }
        let code = code.map(|code| format!(" {code}")).unwrap_or_default();
        return Err(garbled(&format!("it answered `{}` with error{code}", list.method())));
    };
    let Some(found) = result.get(list.member()) else {
        return Err(garbled("its list has no items"));
    };
    // Some servers write an empty list as null.
    if !matches!(found.kind(), Kind::Array | Kind::Null) {
        return Err(garbled("its list is not an array"));
    }
    let items = found.items().map(|item| item.raw().to_owned()).collect();
    let cursor = result.get("nextCursor").filter(|cursor| cursor.kind() != Kind::Null);
    if cursor.is_some_and(|cursor| cursor.kind() != Kind::String) {
        return Err(garbled("the cursor of its list is not text"));
    }
    let cursor = cursor.and_then(Value::as_str).filter(|cursor| !cursor.is_empty());
    Ok(ListPage { items, next: cursor.map(std::borrow::Cow::into_owned) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn only_a_server_without_the_feature_has_an_empty_list_when_it_answers_with_an_error() {
        let read = |error: &str, is_declared: bool| {
            let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"error":{error}}}"#);
            read_page(answer.as_bytes(), List::Prompts, is_declared).map(|page| page.items.len())
        };
        let unknown = r#"{"code":-32601,"message":"no such method"}"#;
        let broken = r#"{"code":-32603,"message":"the database is down"}"#;
        assert_eq!(read(unknown, true).unwrap(), 0);
        assert_eq!(read(broken, false).unwrap(), 0);
        let message = read(broken, true).unwrap_err().to_string();
        assert!(message.contains("`prompts/list` with error -32603"), "{message}");
        assert!(read("{}", true).is_err());
    }

    #[test]
    fn a_list_that_cannot_be_read_is_an_error_and_not_empty() {
        for (result, items) in [
            (r#"{"tools":[]}"#, Some(0)),
            (r#"{"tools":null,"nextCursor":null}"#, Some(0)),
            (r#"{"tools":[{}],"nextCursor":""}"#, Some(1)),
            ("{}", None),
            (r#"{"tools":{"a":{}}}"#, None),
            (r#"{"tools":"none"}"#, None),
            (r#"{"tools":[{}],"nextCursor":5}"#, None),
        ] {
            let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
            let page = read_page(answer.as_bytes(), List::Tools, true);
            assert_eq!(page.ok().map(|page| page.items.len()), items, "{result}");
        }
    }
}
