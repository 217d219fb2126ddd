//! The lists of one server at the endpoint of all servers, without waiting for the server: tools come from the
//! accepted definitions, other lists from the last read. The server is read in the background, and clients get
//! `list_changed` if something differs.

use std::sync::Arc;
use std::time::Duration;

use store::registry::ServerList;
use tokio::time::Instant;

use super::all_items;
use crate::exchange::call::IncomingRequest;
use crate::exchange::context::RequestContext;
use crate::exchange::{connect, tool_check};
use crate::snapshot::ServerAccess;
use crate::upstream::lists::List;
use crate::upstream::server::{Backend, ListRead, ListReadGuard, ListResult, Server};
use mcp::{Era, notification_body};

/// How long clients of a grant wait for the tools or skills of a new server. A slower server is added with
/// `list_changed`.
const FIRST_TOOLS_WAIT_MAX: Duration = Duration::from_secs(3);
/// How long they wait for another list that is not cached. Few clients need it at once.
const FIRST_LIST_WAIT_MAX: Duration = Duration::from_millis(150);
/// How long they wait for a fresh read if an older list is cached.
const FRESH_READ_WAIT_MAX: Duration = Duration::from_millis(100);
/// Background reads start servers only after this delay, one after the other: starting programs would take the
/// processor from the response and its client.
const START_DELAY: Duration = Duration::from_millis(250);
const START_NEXT_DELAY: Duration = Duration::from_millis(50);

/// Why a server is missing in a merged list.
#[derive(Clone, Debug, thiserror::Error)]
pub(in crate::exchange) enum MissingReason {
    #[error("no response yet; `list_changed` follows")]
    Pending,
    #[error("{0}")]
    Failed(String),
}

impl MissingReason {
    pub(super) fn is_failure(&self) -> bool {
        matches!(self, MissingReason::Failed(_))
    }
}

/// The items of one server, as far as they are known.
pub(in crate::exchange) async fn items(
    incoming: &IncomingRequest<'_>,
    access: &ServerAccess,
    list: List,
) -> Result<Arc<Vec<String>>, MissingReason> {
    let found = cached_items(incoming, access, list).await;
    // A server that failed and is retried has no list to wait for.
    found.map_err(|missing| match access.server.list_error(list) {
        Some(why) => MissingReason::Failed(why),
        None => missing,
    })
}

async fn cached_items(
    incoming: &IncomingRequest<'_>,
    access: &ServerAccess,
    list: List,
) -> Result<Arc<Vec<String>>, MissingReason> {
    let (context, server) = (incoming.context, &access.server);
    if server.is_builtin() {
        // It runs inside the gate.
        let items = all_items(context, incoming.era, access, list).await;
        return items.map(Arc::new).map_err(|error| MissingReason::Failed(error.to_string()));
    }
    if list == List::Tools {
        return tools(incoming, access).await;
    }
    if !server.may_offer(list.capability()) {
        return Ok(Arc::default());
    }
    let cached = server.cached_list(&context.grantee.id, list);
    if let Some(cached) = cached.clone().filter(|_| server.is_restored(&context.grantee.id, list)) {
        // It may have changed since the last run. Clients get `list_changed` if so.
        let (read, _) =
            start_read(context, incoming.era, access, list, start_delay(context, access));
        read.miss();
        return Ok(cached);
    }
    if let Some(cached) = cached.clone().filter(|_| !is_open(context, access)) {
        // A process is not started only to read a list again.
        return Ok(cached);
    }
    let (read, _) = start_read(context, incoming.era, access, list, Duration::ZERO);
    let until = match cached {
        Some(_) => Instant::now() + FRESH_READ_WAIT_MAX,
        None => server.wanted_since(&context.grantee.id, list) + first_wait_max(list),
    };
    match wait_for_read(read, until).await {
        Some(Ok(items)) => Ok(items),
        Some(Err(why)) => cached.ok_or(MissingReason::Failed(why)),
        None => cached.ok_or(MissingReason::Pending),
    }
}

fn first_wait_max(list: List) -> Duration {
    match list {
        // No notification tells clients that skills were added.
        List::Skills => FIRST_TOOLS_WAIT_MAX,
        _ => FIRST_LIST_WAIT_MAX,
    }
}

/// Whether the cached list of resources contains this one.
pub(super) fn lists_resource(context: &RequestContext, access: &ServerAccess, uri: &str) -> bool {
    let cached = access.server.cached_list(&context.grantee.id, List::Resources);
    cached.is_some_and(|items| {
        items.iter().any(|item| super::member(item, List::Resources.key()).as_deref() == Some(uri))
    })
}

/// The known definitions, filtered by the pins.
async fn tools(
    incoming: &IncomingRequest<'_>,
    access: &ServerAccess,
) -> Result<Arc<Vec<String>>, MissingReason> {
    let (context, server) = (incoming.context, &access.server);
    let is_known = server.pins().is_known();
    if !is_known && !server.may_offer(List::Tools.capability()) {
        return Ok(Arc::default());
    }
    let mut missing = MissingReason::Pending;
    if !is_known || !is_read(context, access) {
        if is_known {
            let after = start_delay(context, access);
            let (read, is_own) = start_read(context, incoming.era, access, List::Tools, after);
            if !is_own {
                tokio::spawn(retry_if_failed(context.clone(), incoming.era, access.clone(), read));
            }
        } else {
            let (read, _) = start_read(context, incoming.era, access, List::Tools, Duration::ZERO);
            let since = server.wanted_since(&context.grantee.id, List::Tools);
            if let Some(Err(why)) = wait_for_read(read, since + FIRST_TOOLS_WAIT_MAX).await {
                missing = MissingReason::Failed(why);
            }
        }
    }
    let pins = server.pins();
    let set = connect::capabilities_at(context, server, incoming.client_capabilities);
    if pins.is_known() { Ok(Arc::new(pins.offered(set))) } else { Err(missing) }
}

/// Whether a peer is open for this client.
fn is_open(context: &RequestContext, access: &ServerAccess) -> bool {
    let server = &access.server;
    let own =
        || context.session.as_ref().is_some_and(|session| session.peer(&server.name).is_some());
    let is_shared = context.session.is_none() || server.is_shared_by_all();
    if is_shared { server.shared_peer(&context.grantee.id).is_some() } else { own() }
}

/// Whether the tools need not be read now. A process has the tools of its program, so one read since the gate
/// started is enough for clients with the same capabilities.
fn is_read(context: &RequestContext, access: &ServerAccess) -> bool {
    let server = &access.server;
    let is_process = matches!(server.backend, Backend::Child(_));
    if is_process && !is_open(context, access) {
        return server.was_read(connect::own_capabilities(context, server));
    }
    tool_check::is_fresh(context, server)
}

/// The delay of a background read.
fn start_delay(context: &RequestContext, access: &ServerAccess) -> Duration {
    if is_open(context, access) {
        return Duration::ZERO;
    }
    let before = context.grantee.accesses.keys().take_while(|name| ***name < *access.server.name);
    START_DELAY + START_NEXT_DELAY * u32::try_from(before.count()).unwrap_or_default()
}

/// Which clients share a read. If it would start a process, all clients that get the same list share one read.
fn read_key(context: &RequestContext, access: &ServerAccess, list: List) -> String {
    match context.session_id() {
        Some(session) if is_open(context, access) => session.to_owned(),
        _ if list == List::Tools => {
            format!("tools for {}", connect::own_capabilities(context, &access.server).key())
        }
        _ => context.grantee.id.clone(),
    }
}

/// Reads the tools again if the shared read of another client failed, because that client's session may have
/// ended.
async fn retry_if_failed(
    context: RequestContext,
    era: Era,
    access: ServerAccess,
    mut read: ListRead,
) {
    let outcome =
        read.outcome.wait_for(Option::is_some).await.ok().and_then(|outcome| outcome.clone());
    let is_over = context.session.as_ref().is_some_and(|session| *session.ended().borrow());
    if !matches!(outcome, Some(Ok(_))) && !is_over {
        start_read(&context, era, &access, List::Tools, START_DELAY);
    }
}

/// Starts a background read after a delay, unless one is running. True if it was started.
fn start_read(
    context: &RequestContext,
    era: Era,
    access: &ServerAccess,
    list: List,
    after: Duration,
) -> (ListRead, bool) {
    let (read, guard) = access.server.read(&read_key(context, access, list), list);
    let is_own = guard.is_some();
    if let Some(guard) = guard {
        let (context, access) = (context.clone(), access.clone());
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            run_read(context, era, access, list, guard).await;
        });
    }
    (read, is_own)
}

async fn run_read(
    context: RequestContext,
    era: Era,
    access: ServerAccess,
    list: List,
    guard: ListReadGuard,
) {
    let server = &access.server;
    if list == List::Tools {
        // Clients are notified when the new pins are used.
        let checked = Box::pin(tool_check::checked_peer(&context, &access, era)).await;
        let checked = checked.map(|_| Arc::default()).map_err(|error| error.to_string());
        record_list_error(&context, server, list, checked.as_ref().err());
        guard.end(checked);
        return;
    }
    match Box::pin(all_items(&context, era, &access, list)).await {
        Ok(items) => {
            record_list_error(&context, server, list, None);
            let items = Arc::new(items);
            let was_restored = server.is_restored(&context.grantee.id, list);
            let is_new = server.cache_list(&context.grantee.id, list, &items);
            if is_new || !was_restored {
                store_list(&context, server, list, &items);
            }
            if guard.end(Ok(items)) && is_new {
                notify_clients(&context, &access, list);
            }
        }
        Err(error) => {
            let why = error.to_string();
            record_list_error(&context, server, list, Some(&why));
            guard.end(Err(why));
        }
    }
}

/// Records why a list could not be read, for requests before the next read, and logs it once. A read that ended
/// with its session or with the gate is not a failure of the server.
fn record_list_error(context: &RequestContext, server: &Server, list: List, why: Option<&String>) {
    let is_over = context.session.as_ref().is_some_and(|session| *session.ended().borrow())
        || *context.services().stopping().borrow();
    if why.is_some() && is_over {
        return;
    }
    if server.is_new_list_error(list, why.map(String::as_str))
        && let Some(why) = why
    {
        tracing::warn!(server = %server.name, list = list.method(), %why, "could not read a list; showing the known one");
    }
}

/// Stores a list for the next run, in the background.
fn store_list(
    context: &RequestContext,
    server: &Arc<Server>,
    list: List,
    items: &Arc<Vec<String>>,
) {
    if !server.is_registered {
        return;
    }
    let (state, server, items) =
        (Arc::clone(&context.state), Arc::clone(server), Arc::clone(items));
    let grant = context.grantee.id.clone();
    drop(tokio::task::spawn_blocking(move || {
        let list = ServerList { grant, list: list.method().to_owned(), items: items.to_vec() };
        let now_us = state.services.clock.now().wall_us;
        if let Err(error) = state.services.registry.put_server_list(&server.name, &list, now_us) {
            tracing::debug!(server = %server.name, %error, "could not store a list");
        }
    }));
}

/// Notifies the clients of the grant that a list they did not get is available.
fn notify_clients(context: &RequestContext, access: &ServerAccess, list: List) {
    let grant = &context.grantee.id;
    for session in context.state.sessions.all() {
        if session.grant == *grant && session.server.is_none() {
            session.notify_list_changed(list);
        }
    }
    let stream = context.state.streams.of(&access.server, grant);
    stream.publish(notification_body(list.changed(), None).into());
}

/// The outcome of a read, or none after the timeout.
async fn wait_for_read(mut read: ListRead, until: Instant) -> Option<ListResult> {
    let outcome = tokio::time::timeout_at(until, async {
        read.outcome.wait_for(Option::is_some).await.ok().and_then(|outcome| outcome.clone())
    });
    let outcome = outcome.await.ok().flatten();
    if outcome.is_none() {
        read.miss();
    }
    outcome
}
