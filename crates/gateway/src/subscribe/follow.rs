//! Listening at the address of all servers, while the owner changes which those are.

use std::sync::Arc;

use store::ledger::Ending;
use tokio::sync::{mpsc, watch};

use super::filter::Filter;
use super::heard::{Deaf, Heard, Source};
use super::{of_the_gate, relay};
use crate::gate::Gate;
use crate::in_force::Holding;
use crate::scene::Scene;
use crate::serve::turned_true;
use crate::session::Outgoing;
use crate::wire::{Era, Id, Takes};

/// A subscription of a client of the newer era.
#[derive(Clone)]
pub(super) struct Subscription {
    pub(super) id: Id,
    /// What its client can be asked.
    pub(super) takes: Takes,
    pub(super) to: mpsc::Sender<Outgoing>,
    pub(super) over: watch::Receiver<bool>,
}

impl Subscription {
    /// Passes on what a server says, until it is over.
    pub(super) fn hear(&self, heard: Heard, opened: Result<Source, Deaf>) {
        let Subscription { id, takes, to, mut over } = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = relay(&id, takes, &heard, opened, &to) => {}
                () = to.closed() => {}
                () = turned_true(&mut over) => {}
            }
        });
    }

    /// Opens a server in the background and hears it from then on. Its lists may have changed before.
    pub(super) fn hear_later(&self, scene: Scene, holding: Holding, filter: Filter) {
        let (this, mut over) = (self.clone(), self.over.clone());
        tokio::spawn(async move {
            let was_open = holding.server.shared_peer(&scene.holder.id).is_some();
            let opened = tokio::select! {
                opened = open(&scene, &holding, filter) => opened,
                () = this.to.closed() => None,
                () = turned_true(&mut over) => None,
            };
            let Some((heard, opened)) = opened else { return };
            let lists = heard.filter.lists();
            this.hear(heard, opened);
            for method in lists.filter(|_| !was_open) {
                if this.to.send(of_the_gate(method, &this.id)).await.is_err() {
                    return;
                }
            }
        });
    }

    /// Hears servers that come later, and tells that lists changed, until it is over.
    pub(super) fn follow(self, scene: Scene, filter: Filter) {
        let (to, mut over) = (self.to.clone(), self.over.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = self.follow_on(scene, filter) => {}
                () = to.closed() => {}
                () = turned_true(&mut over) => {}
            }
        });
    }

    async fn follow_on(self, mut scene: Scene, filter: Filter) {
        let mut renewals = scene.gate.renewals();
        loop {
            let Some(now) = scene.gate.renewed(&scene.holder, None) else { return };
            if !now.holds_as(&scene.holder) {
                let before = std::mem::replace(&mut scene.holder, Arc::clone(&now));
                for (name, holding) in &now.holdings {
                    let known = before.holdings.get(name);
                    if known.is_none_or(|known| !Arc::ptr_eq(&known.server, &holding.server))
                        && let Some((heard, opened)) = open(&scene, holding, filter.clone()).await
                    {
                        self.hear(heard, opened);
                    }
                }
                for method in filter.lists() {
                    if self.to.send(of_the_gate(method, &self.id)).await.is_err() {
                        return;
                    }
                }
            }
            if renewals.changed().await.is_err() {
                return;
            }
        }
    }
}

/// Begins to hear a server that the grant holds.
async fn open(
    scene: &Scene,
    holding: &Holding,
    filter: Filter,
) -> Option<(Heard, Result<Source, Deaf>)> {
    let name = &holding.server.name;
    let permit = scene.gate.own_act(scene, "subscriptions/listen", name).ok()?;
    match scene.gate.peer_for(scene, holding, Era::Modern, &permit).await {
        Ok(peer) => {
            let heard = Heard::new(scene, peer, filter);
            let opened = heard.open(&permit).await;
            Gate::settled(permit, if opened.is_ok() { Ending::Ok } else { Ending::Error });
            Some((heard, opened))
        }
        Err(error) => {
            tracing::info!(server = %name, %error, "not listened to");
            Gate::settled(permit, Ending::Error);
            None
        }
    }
}
