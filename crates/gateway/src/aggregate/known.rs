//! The part of one server in a list of all servers, without waiting for the server: tools come from the
//! accepted definitions, other lists from what was read last. The server is read in the background, and
//! clients hear `list_changed` when that brings something else.

use std::sync::Arc;
use std::time::Duration;

use super::all_items;
use crate::call::Ask;
use crate::gate::Gate;
use crate::in_force::Holding;
use crate::lists::List;
use crate::scene::Scene;
use crate::server::{Came, Reach, Read, Reading};
use crate::wire::{Era, notification_body};

/// So long a list waits for a server of which no list is known yet, from the start of the read on. A
/// server that takes longer comes with `list_changed`.
const FIRST_READ_WAIT_MAX: Duration = Duration::from_secs(3);
/// So long it waits for a fresh list where an older one is known.
const FRESH_READ_WAIT_MAX: Duration = Duration::from_millis(100);

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
    let read = begin(scene, ask.era, holding, list);
    let wait_max = if kept.is_some() { FRESH_READ_WAIT_MAX } else { FIRST_READ_WAIT_MAX };
    match came(read, wait_max).await {
        Some(Ok(items)) => Some(items),
        _ => kept,
    }
}

/// The definitions that the gate knows of, to be shown as the pins allow it.
async fn tools(ask: &Ask<'_>, holding: &Holding) -> Option<Arc<Vec<String>>> {
    let (scene, server) = (ask.scene, &holding.server);
    let is_known = server.pins().is_known();
    if !is_known && !server.may_offer(List::Tools.capability()) {
        return Some(Arc::default());
    }
    if !is_known || !is_read(scene, holding) {
        let read = begin(scene, ask.era, holding, List::Tools);
        if is_known {
            read.miss();
        } else {
            came(read, FIRST_READ_WAIT_MAX).await;
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

/// Begins to read a list in the background, unless that is under way.
fn begin(scene: &Scene, era: Era, holding: &Holding, list: List) -> Read {
    let conversation = scene.session_id().unwrap_or(&scene.holder.id);
    let (read, reading) = holding.server.read(conversation, list);
    if let Some(reading) = reading {
        tokio::spawn(run(scene.clone(), era, holding.clone(), list, reading));
    }
    read
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

/// Tells the clients that were answered without a list that it is there now.
fn tell(scene: &Scene, holding: &Holding, list: List) {
    if let Some(session) = &scene.session {
        session.tell_of(list);
    } else {
        let heard = scene.gate.heard(&holding.server, &scene.holder.id);
        heard.tell(notification_body(list.changed(), None).into());
    }
}

/// What a read brings within so long of its start; nothing otherwise.
async fn came(mut read: Read, wait_max: Duration) -> Option<Came> {
    let came = tokio::time::timeout_at(read.began + wait_max, async {
        read.came.wait_for(Option::is_some).await.ok().and_then(|came| came.clone())
    });
    let came = came.await.ok().flatten();
    if came.is_none() {
        read.miss();
    }
    came
}
