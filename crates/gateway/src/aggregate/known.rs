//! The part of one server in a list of all servers, without waiting for the server: tools come from the
//! accepted definitions, other lists from what was read last. The server is read in the background, and
//! clients hear `list_changed` when that brings something else.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::all_items;
use crate::call::Ask;
use crate::gate::Gate;
use crate::in_force::Holding;
use crate::lists::List;
use crate::scene::Scene;
use crate::server::{Came, Reach, Read, Reading};
use crate::wire::{Era, notification_body};

/// So long clients of a grant wait for a server of which no list is known yet. A server that takes longer
/// comes with `list_changed`.
const FIRST_READ_WAIT_MAX: Duration = Duration::from_secs(3);
/// So long it waits for a fresh list where an older one is known.
const FRESH_READ_WAIT_MAX: Duration = Duration::from_millis(100);
/// A server is started in the background only so long after the list was asked for, and the next one so
/// much later: programs that start would keep the answer, and its client, from the processor.
const START_AFTER: Duration = Duration::from_millis(250);
const START_NEXT_AFTER: Duration = Duration::from_millis(50);

/// The items of one server as far as they are known; nothing if none were read yet.
pub(super) async fn items(
    ask: &Ask<'_>,
    holding: &Holding,
    list: List,
) -> Option<Arc<Vec<String>>> {
    let (scene, server) = (ask.scene, &holding.server);
    if server.is_builtin() {
        // It runs inside the gate.
        return all_items(scene, ask.era, holding, list).await.ok().map(Arc::new);
    }
    if list == List::Tools {
        return tools(ask, holding).await;
    }
    if !server.may_offer(list.capability()) {
        return Some(Arc::default());
    }
    let kept = server.kept_list(&scene.holder.id, list);
    if kept.is_some() && !is_open(scene, holding) {
        // A process is not started just to read a list once more.
        return kept;
    }
    let (read, _) = begin(scene, ask.era, holding, list, Duration::ZERO);
    let until = match kept {
        Some(_) => Instant::now() + FRESH_READ_WAIT_MAX,
        None => server.wanted_since(&scene.holder.id, list) + FIRST_READ_WAIT_MAX,
    };
    match came(read, until).await {
        Some(Ok(items)) => Some(items),
        _ => kept,
    }
}

/// Whether the last list of resources that clients of the grant were shown has this one.
pub(super) fn lists_resource(scene: &Scene, holding: &Holding, uri: &str) -> bool {
    let kept = holding.server.kept_list(&scene.holder.id, List::Resources);
    kept.is_some_and(|items| {
        items.iter().any(|item| super::member(item, List::Resources.key()).as_deref() == Some(uri))
    })
}

/// The definitions that the gate knows of, to be shown as the pins allow it.
async fn tools(ask: &Ask<'_>, holding: &Holding) -> Option<Arc<Vec<String>>> {
    let (scene, server) = (ask.scene, &holding.server);
    let is_known = server.pins().is_known();
    if !is_known && !server.may_offer(List::Tools.capability()) {
        return Some(Arc::default());
    }
    if !is_known || !is_read(scene, holding) {
        if is_known {
            let after = start_after(scene, holding);
            let (read, is_own) = begin(scene, ask.era, holding, List::Tools, after);
            if !is_own {
                tokio::spawn(succeed(scene.clone(), ask.era, holding.clone(), read));
            }
        } else {
            let (read, _) = begin(scene, ask.era, holding, List::Tools, Duration::ZERO);
            let since = server.wanted_since(&scene.holder.id, List::Tools);
            came(read, since + FIRST_READ_WAIT_MAX).await;
        }
    }
    let pins = server.pins();
    let set = Gate::capabilities_at(scene, server, ask.takes);
    pins.is_known().then(|| Arc::new(pins.offered(set)))
}

/// Whether there is a conversation with the server for this client.
fn is_open(scene: &Scene, holding: &Holding) -> bool {
    let server = &holding.server;
    let own = || scene.session.as_ref().is_some_and(|session| session.peer(&server.name).is_some());
    let is_shared = scene.session.is_none() || server.is_shared_by_all();
    if is_shared { server.shared_peer(&scene.holder.id).is_some() } else { own() }
}

/// Whether the tools need not be read now. The tools of a process are those of its program: it is enough
/// that the list of clients like this one was read since the gate started.
fn is_read(scene: &Scene, holding: &Holding) -> bool {
    let server = &holding.server;
    let is_process = matches!(server.reach, Reach::Child(_));
    if is_process && !is_open(scene, holding) {
        return server.was_read(Gate::own_set(scene, server));
    }
    scene.gate.is_fresh(scene, server)
}

/// How long to wait before a server is read that nobody waits for.
fn start_after(scene: &Scene, holding: &Holding) -> Duration {
    if is_open(scene, holding) {
        return Duration::ZERO;
    }
    let before = scene.holder.holdings.keys().take_while(|name| ***name < *holding.server.name);
    START_AFTER + START_NEXT_AFTER * u32::try_from(before.count()).unwrap_or_default()
}

/// Who shares a read. Where a process would have to be started for it, one read is enough for all
/// clients that get the same list.
fn whose(scene: &Scene, holding: &Holding, list: List) -> String {
    match scene.session_id() {
        Some(session) if is_open(scene, holding) => session.to_owned(),
        _ if list == List::Tools => {
            format!("tools for {}", Gate::own_set(scene, &holding.server).key())
        }
        _ => scene.holder.id.clone(),
    }
}

/// Reads the tools for a client that was content with the read of another, if that one fails: its
/// session may have ended.
async fn succeed(scene: Scene, era: Era, holding: Holding, mut read: Read) {
    let came = read.came.wait_for(Option::is_some).await.ok().and_then(|came| came.clone());
    let is_over = scene.session.as_ref().is_some_and(|session| *session.ended().borrow());
    if !matches!(came, Some(Ok(_))) && !is_over {
        begin(&scene, era, &holding, List::Tools, START_AFTER);
    }
}

/// Begins to read a list in the background after a pause, unless that is under way; says which it was.
fn begin(scene: &Scene, era: Era, holding: &Holding, list: List, after: Duration) -> (Read, bool) {
    let (read, reading) = holding.server.read(&whose(scene, holding, list), list);
    let is_own = reading.is_some();
    if let Some(reading) = reading {
        let (scene, holding) = (scene.clone(), holding.clone());
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            run(scene, era, holding, list, reading).await;
        });
    }
    (read, is_own)
}

async fn run(scene: Scene, era: Era, holding: Holding, list: List, reading: Reading) {
    let server = &holding.server;
    if list == List::Tools {
        // What this changes is told to clients when the pins come in force.
        let looked = Box::pin(scene.gate.checked_peer(&scene, &holding, era)).await;
        reading.end(looked.map(|_| Arc::default()).map_err(|error| error.to_string()));
        return;
    }
    match Box::pin(all_items(&scene, era, &holding, list)).await {
        Ok(items) => {
            let items = Arc::new(items);
            let is_new = server.keep_list(&scene.holder.id, list, &items);
            if reading.end(Ok(items)) && is_new {
                tell(&scene, &holding, list);
            }
        }
        Err(error) => {
            tracing::info!(server = %server.name, list = list.method(), %error, "a list could not be read");
            reading.end(Err(error.to_string()));
        }
    }
}

/// Tells the clients of the grant, some of which were answered without a list, that it is there now.
fn tell(scene: &Scene, holding: &Holding, list: List) {
    let grant = &scene.holder.id;
    for session in scene.gate.sessions.all() {
        if session.grant == *grant && session.server.is_none() {
            session.tell_of(list);
        }
    }
    let heard = scene.gate.heard(&holding.server, grant);
    heard.tell(notification_body(list.changed(), None).into());
}

/// What a read brings until then; nothing otherwise.
async fn came(mut read: Read, until: Instant) -> Option<Came> {
    let came = tokio::time::timeout_at(until, async {
        read.came.wait_for(Option::is_some).await.ok().and_then(|came| came.clone())
    });
    let came = came.await.ok().flatten();
    if came.is_none() {
        read.miss();
    }
    came
}
