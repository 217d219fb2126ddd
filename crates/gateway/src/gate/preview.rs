//! Reads a server's lists without storing them: tools, resources, templates, prompts and skills as
//! the server sends them, for `tollgate scan`. No tool is called and no pin changes.

mod skill_texts;

use std::collections::BTreeMap;
use std::sync::Arc;

use store::ledger::{Facts, Permit};
use store::registry;
use tokio::sync::watch;

use crate::exchange::context::RequestContext;
use crate::exchange::{connect, tool_check};
use crate::gate::Gate;
use crate::gate::run::RunError;
use crate::runtime::permits;
use crate::snapshot::{self, Grantee, ServerAccess};
use crate::upstream::UpstreamError;
use crate::upstream::lists::List;
use crate::upstream::peer::Peer;
use crate::upstream::server::Server;
use mcp::Era;

pub use skill_texts::SkillText;

/// The lists of a server; each item is the server's own JSON text.
#[derive(Clone, Debug, Default)]
pub struct Offered {
    pub tools: Vec<String>,
    pub resources: Vec<String>,
    pub templates: Vec<String>,
    pub prompts: Vec<String>,
    pub skills: Vec<String>,
    pub skill_texts: Vec<SkillText>,
    /// The server's instructions for models.
    pub instructions: Option<String>,
    /// Why lists besides the tools could not be read; the server says that it has them.
    pub unread: Vec<String>,
    /// Name and version of the server.
    pub info: Option<serde_json::Value>,
}

impl Gate {
    /// Reads all lists of a server, registered or not. The tools are required.
    pub async fn look(self: &Arc<Self>, spec: &registry::Server) -> Result<Offered, RunError> {
        let backend = snapshot::backend(spec, &self.state.snapshots.factory);
        let wait = snapshot::start_wait_max(spec, &self.state.snapshots.factory.limits);
        let server = Arc::new(Server::unregistered(spec.clone(), backend, wait));
        let access = ServerAccess::new(Arc::clone(&server), None);
        let context = self.owner_context(&spec.name, &access);
        let looked = Box::pin(self.read_lists(&context, &access)).await;
        // A temporary server is in no table, so its child is closed here.
        if let Some(peer) = server.shared(&context.grantee.id).get() {
            peer.close().await;
        }
        match looked {
            Ok(offered) => Ok(offered),
            Err(error) => Err(RunError::unreachable(&server, error).await),
        }
    }

    pub(crate) fn owner_context(
        self: &Arc<Self>,
        server: &str,
        access: &ServerAccess,
    ) -> RequestContext {
        let accesses = BTreeMap::from([(server.into(), access.clone())]);
        let lease = watch::Sender::new(false);
        let grantee =
            Grantee::new("owner".to_owned(), "owner".to_owned(), accesses, lease.subscribe(), 1);
        let subscribed = lease.subscribe();
        let grantee = Arc::new(grantee.with_lease(lease));
        RequestContext::local(Arc::clone(&self.state), grantee, subscribed, server)
    }

    async fn read_lists(
        self: &Arc<Self>,
        context: &RequestContext,
        access: &ServerAccess,
    ) -> Result<Offered, UpstreamError> {
        let facts = Facts { method: "tools/list", server: &access.server.name, ..context.facts() };
        let permit = self.services().ledger.passed(&facts).await.map_err(|error| {
            UpstreamError::never_sent(format!("the audit log cannot be written: {error}"))
        })?;
        let looked = async {
            let peer = connect::peer_for(context, access, Era::Modern, &permit).await?;
            self.lists_of(context, &peer, &permit).await
        };
        let looked = looked.await;
        permits::settle_by(permit, &looked);
        looked
    }

    async fn lists_of(
        &self,
        context: &RequestContext,
        peer: &Arc<Peer>,
        permit: &Permit,
    ) -> Result<Offered, UpstreamError> {
        let text =
            |key: &str| peer.initialize_result.get(key).and_then(|v| v.as_str()).map(str::to_owned);
        let mut offered = Offered {
            instructions: text("instructions"),
            info: peer.initialize_result.get("serverInfo").cloned(),
            ..Offered::default()
        };
        // A server without tools may answer with an error.
        offered.tools = tool_check::read_list(context, peer, permit, List::Tools).await?;
        let unread = &mut offered.unread;
        if peer.offers("resources") {
            offered.resources = other(context, peer, permit, List::Resources, unread).await?;
            offered.templates = self.optional(context, peer, permit, List::Templates).await;
        }
        if peer.offers("prompts") {
            offered.prompts = other(context, peer, permit, List::Prompts, unread).await?;
        }
        if peer.offers(List::Skills.capability()) {
            offered.skills = other(context, peer, permit, List::Skills, unread).await?;
            offered.skill_texts = skill_texts::read(context, peer, permit, &offered.skills).await;
        }
        Ok(offered)
    }

    /// Many servers with resources do not know templates.
    async fn optional(
        &self,
        context: &RequestContext,
        peer: &Arc<Peer>,
        permit: &Permit,
        list: List,
    ) -> Vec<String> {
        tool_check::read_list(context, peer, permit, list).await.unwrap_or_default()
    }
}

/// Reads a list besides the tools. A server that answers it with an error is still known by its tools: a
/// database server lists its tables as resources and needs no database to list its tools.
async fn other(
    context: &RequestContext,
    peer: &Arc<Peer>,
    permit: &Permit,
    list: List,
    unread: &mut Vec<String>,
) -> Result<Vec<String>, UpstreamError> {
    match tool_check::read_list(context, peer, permit, list).await {
        Err(error @ UpstreamError::Malformed { .. }) => {
            unread.push(error.to_string());
            Ok(Vec::new())
        }
        listed => listed,
    }
}
