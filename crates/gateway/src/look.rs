//! Looks at everything a server offers without keeping any of it: tools, resources, templates and
//! prompts as the server says them, for `tollgate scan`. Nothing is called and no pin is touched.

use std::collections::BTreeMap;
use std::sync::Arc;

use store::ledger::{Ending, Facts, Permit};
use store::registry;
use tokio::sync::watch;

use crate::gate::Gate;
use crate::in_force::{self, Holder, Holding};
use crate::lists::List;
use crate::peer::Peer;
use crate::run::RunError;
use crate::scene::{Endpoint, Scene, Transport};
use crate::server::Server;
use crate::upstream::UpstreamError;
use crate::via::Via;
use crate::wire::Era;

/// What a server offers, each item as the server's own JSON text.
#[derive(Clone, Debug, Default)]
pub struct Offered {
    pub tools: Vec<String>,
    pub resources: Vec<String>,
    pub templates: Vec<String>,
    pub prompts: Vec<String>,
    /// What the server tells every model about itself.
    pub instructions: Option<String>,
    /// Name and version, as the server says them.
    pub info: Option<serde_json::Value>,
}

impl Gate {
    /// Reads all lists of a server, registered or not.
    pub async fn look(self: &Arc<Self>, spec: &registry::Server) -> Result<Offered, RunError> {
        let reach = in_force::reach(spec, &self.makings);
        let wait = in_force::start_wait_max(spec, &self.makings.limits);
        let server = Arc::new(Server::passing(spec.clone(), reach, wait));
        let holding = Holding::new(Arc::clone(&server), None);
        let scene = self.owners_scene(&spec.name, &holding);
        let looked = Box::pin(self.read_lists(&scene, &holding)).await;
        // A passing server is in no table, so its child is let go here.
        if let Some(peer) = server.shared(&scene.holder.id).get() {
            peer.close().await;
        }
        match looked {
            Ok(offered) => Ok(offered),
            Err(error) => Err(RunError::unreachable(&server, error).await),
        }
    }

    fn owners_scene(self: &Arc<Self>, server: &str, holding: &Holding) -> Scene {
        let holdings = BTreeMap::from([(server.into(), holding.clone())]);
        let lease = watch::Sender::new(false);
        let holder =
            Holder::new("owner".to_owned(), "owner".to_owned(), holdings, lease.subscribe(), 1);
        Scene {
            gate: Arc::clone(self),
            lease: lease.subscribe(),
            holder: Arc::new(holder.with_lease(lease)),
            endpoint: Endpoint::One(server.into()),
            session: None,
            transport: Transport::Stdio,
            via: Via::default(),
            flights: Some(Arc::default()),
        }
    }

    async fn read_lists(
        self: &Arc<Self>,
        scene: &Scene,
        holding: &Holding,
    ) -> Result<Offered, UpstreamError> {
        let facts = Facts { method: "tools/list", server: &holding.server.name, ..scene.facts() };
        let permit = self.ledger.own_act(&facts).map_err(|error| UpstreamError::NeverSent {
            why: format!("the audit log cannot be written: {error}"),
        })?;
        let looked = async {
            let peer = self.peer_for(scene, holding, Era::Modern, &permit).await?;
            self.lists_of(scene, &peer, &permit).await
        };
        let looked = looked.await;
        Gate::settled(permit, if looked.is_ok() { Ending::Ok } else { Ending::Error });
        looked
    }

    async fn lists_of(
        &self,
        scene: &Scene,
        peer: &Arc<Peer>,
        permit: &Permit,
    ) -> Result<Offered, UpstreamError> {
        let text = |key: &str| peer.greeting.get(key).and_then(|v| v.as_str()).map(str::to_owned);
        let mut offered = Offered {
            instructions: text("instructions"),
            info: peer.greeting.get("serverInfo").cloned(),
            ..Offered::default()
        };
        // A server without tools may say so by an error; resources and prompts are then its offer.
        offered.tools = self.whole_list(scene, peer, permit, List::Tools).await?;
        if peer.offers("resources") {
            offered.resources = self.whole_list(scene, peer, permit, List::Resources).await?;
            offered.templates = self.optional(scene, peer, permit, List::Templates).await;
        }
        if peer.offers("prompts") {
            offered.prompts = self.whole_list(scene, peer, permit, List::Prompts).await?;
        }
        Ok(offered)
    }

    /// Many servers that have resources never heard of templates.
    async fn optional(
        &self,
        scene: &Scene,
        peer: &Arc<Peer>,
        permit: &Permit,
        list: List,
    ) -> Vec<String> {
        self.whole_list(scene, peer, permit, list).await.unwrap_or_default()
    }
}
