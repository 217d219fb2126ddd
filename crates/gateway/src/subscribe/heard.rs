//! One server that is heard for somebody: its stream is opened, and opened again when it ends.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use policy::Subject;
use policy::json::{Bounds, Doc, Value};
use store::ledger::{Ending, Permit};
use tokio::sync::broadcast::{Receiver, error::RecvError};

use super::filter::Filter;
use super::tasks;
use crate::gate::Gate;
use crate::peer::Peer;
use crate::prepare;
use crate::rebuild::string;
use crate::scene::Scene;
use crate::upstream::{Events, Outgoing as Sent, Reply, UpstreamError};
use crate::wire::{Era, Method, Takes, request_body};

/// The pause before a stream that ended is asked for again; twice as long after each failure.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
const AGAIN_AFTER_MAX: Duration = Duration::from_mins(5);

/// A server, and what it is heard for.
pub(super) struct Heard {
    scene: Scene,
    pub(super) peer: Arc<Peer>,
    pub(super) filter: Filter,
}

/// Where its news come from.
pub(super) enum Source {
    Stream(Events),
    Shared(Receiver<Bytes>),
}

/// Why a server is not heard.
pub(super) enum Deaf {
    /// It is gone, or was restarted.
    ForNow,
    /// It says that it has no such stream, or we are done with it.
    ForGood,
}

impl Source {
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        match self {
            Source::Stream(events) => events.next().await?.ok().map(|event| event.message),
            Source::Shared(messages) => loop {
                match messages.recv().await {
                    Ok(message) => return Some(message),
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                }
            },
        }
    }
}

impl Drop for Heard {
    /// An older server is told that nobody wants to hear of a resource any more.
    fn drop(&mut self) {
        let Some(wishes) = self.peer.wishes() else { return };
        for uri in self.filter.uris.iter().filter(|uri| wishes.unsubscribe(uri)) {
            let params = format!("{{\"uri\":{}}}", string(uri));
            let body = request_body(&self.peer.mint(), "resources/unsubscribe", Some(&params));
            self.scene.gate.tell_server(&self.peer, body.into());
        }
    }
}

impl Heard {
    pub(super) fn new(scene: &Scene, peer: Arc<Peer>, filter: Filter) -> Heard {
        let has_tasks = peer.era == Era::Modern || peer.offers("tasks");
        let tasks = if has_tasks { filter.tasks } else { Vec::new() };
        let filter = Filter { tasks, ..filter };
        if let Some(wishes) = peer.wishes() {
            filter.uris.iter().for_each(|uri| wishes.subscribe(uri));
        }
        Heard { scene: scene.clone(), peer, filter }
    }

    /// Opens what an older or a newer server offers for the filter.
    pub(super) async fn open(&self, permit: &Permit) -> Result<Source, Deaf> {
        match self.peer.era {
            Era::Modern => self.open_stream(permit).await,
            Era::Legacy => {
                for uri in &self.filter.uris {
                    self.subscribe(permit, uri).await;
                }
                Ok(Source::Shared(crate::listen::shared(&self.scene, &self.peer).await))
            }
        }
    }

    async fn open_stream(&self, permit: &Permit) -> Result<Source, Deaf> {
        let params = format!("{{\"notifications\":{}}}", self.filter.raw());
        let client = if self.filter.tasks.is_empty() {
            prepare::client_words(&self.scene)
        } else {
            prepare::task_words(&self.scene, &self.peer)
        };
        let mut prepared = prepare::own(&self.peer, "subscriptions/listen", Some(&params), &client);
        prepared.out.stays_open = true;
        match self.peer.request(permit, prepared.out).await {
            Ok(Reply::Many(events)) => Ok(Source::Stream(events)),
            Ok(_) | Err(UpstreamError::Closed) => Err(Deaf::ForGood),
            Err(_) => Err(Deaf::ForNow),
        }
    }

    async fn subscribe(&self, permit: &Permit, uri: &str) {
        let params = format!("{{\"uri\":{}}}", string(uri));
        let id = self.peer.mint();
        let body = request_body(&id, "resources/subscribe", Some(&params));
        if let Err(error) = self.peer.request(permit, Sent::request(id, body.into())).await {
            tracing::info!(server = %self.peer.server.name, %error, "a resource could not be subscribed to");
        }
    }

    /// What was opened; or, of a server that was heard and is not for now, its stream as soon as it has
    /// one again. Also says whether it had none when it was asked again.
    pub(super) async fn once_open(&self, opened: Result<Source, Deaf>) -> Option<(Source, bool)> {
        let mut pause = AGAIN_AFTER;
        let mut opened = opened;
        let mut failures = 0_u64;
        loop {
            match opened {
                // The first is the end of a stream, which some servers end now and then.
                Ok(source) => return Some((source, failures > 1)),
                Err(Deaf::ForGood) => return None,
                Err(Deaf::ForNow) => failures += 1,
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(AGAIN_AFTER_MAX);
            let gate = &self.scene.gate;
            opened = match gate.own_act(&self.scene, "subscriptions/listen", &self.peer.server.name)
            {
                Ok(permit) => {
                    let opened = self.open(&permit).await;
                    Gate::settled(permit, if opened.is_ok() { Ending::Ok } else { Ending::Error });
                    opened
                }
                Err(_) => Err(Deaf::ForNow),
            };
        }
    }

    /// The task that an older server has news of, if somebody wants them.
    pub(super) fn task_told_of(&self, message: &Bytes) -> Option<String> {
        if self.peer.era == Era::Modern || self.filter.tasks.is_empty() {
            return None;
        }
        tasks::told_of(message).filter(|id| self.filter.tasks.contains(id))
    }

    /// What there is to tell of such a task.
    pub(super) async fn looked_at(&self, takes: Takes, id: &str) -> Option<Bytes> {
        tasks::looked_at(&self.scene, takes, &self.peer.server.name, id).await
    }

    /// A notification as `told` puts it, if it is one that is wanted and may be heard by the rules that are
    /// in force now: a stream may stay open for days.
    pub(super) fn news(
        &self,
        message: &Bytes,
        told: impl FnOnce(Value<'_>, &str) -> Bytes,
    ) -> Option<Bytes> {
        let doc = Doc::read(message, &Bounds::ANSWER).ok()?;
        let root = doc.root();
        let method = root.get("method")?.as_str()?;
        let known = Method::parse(&method);
        self.peer.told(&method);
        let params = root.get("params");
        if root.get("id").is_some() || !self.filter.wants(&method, params) {
            return None;
        }
        let server = &self.peer.server.name;
        let holder = self.scene.gate.renewed(&self.scene.holder, Some(server))?;
        let holding = holder.holdings.get(&**server)?;
        if known == Method::TasksNotification {
            let cut = crate::tasks::news(&self.scene, holding.rules.as_deref(), server, message)?;
            return Some(told(Doc::read(&cut, &Bounds::ANSWER).ok()?.root(), &method));
        }
        // A part of a resource may be hidden where the whole is not.
        let uri = params.and_then(|params| params.get("uri")?.as_str());
        let shown = uri.is_none_or(|uri| holding.shows(Subject::Resource(&uri)));
        shown.then(|| told(root, &method))
    }
}
