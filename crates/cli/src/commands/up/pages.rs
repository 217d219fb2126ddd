//! Serves the dashboard through the gate's own port. Pages read files and databases, so they run on the
//! runtime's blocking threads and never on those that carry calls.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use connectors::http::PublicFetch;
use connectors::server_login::ServerLogins;
use connectors::team_login::{TeamLogin, TeamSignIn};
use connectors::{ConnectorContext, LazyContext};
use dashboard::{
    Body, ClientDocuments, ClientServer, ClientSnippet, Dashboard, Live, Options, ServerSignIn,
    TeamIssuer, ToolTrial, TriedServer,
};
use gateway::{Gate, Page, PageBody, PageFuture, PageReach, Pages, RunError};
use http::{Request, StatusCode};
use oauth::client::id_token::Claims;
use oauth::server::Issuer;
use serde_json::{Value, json};
use store::registry::{Grant, NewServer, Origin, PolicyText, Server, Target, Token};
use store::settings::{OidcSettings, Settings};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::client_files;
use crate::client_files::snippets::ClientSnippets;
use crate::context::{Context, Stores, owners_zone};
use crate::hints::word;
use crate::output::Out;
use crate::program::{find_program, resolved};
use crate::server_login::page as sign_in_page;
use crate::server_login::redirect_uris::RedirectUris;
use crate::server_login::sign_out_all;
use crate::server_login::text::outcome_word;

use super::demo_agent::DemoAgent;

/// Pages that are made at the same time; others wait.
const PAGES_AT_ONCE_MAX: usize = 8;
/// A page waits for a server at most this long. A package may have to be downloaded first.
const SERVER_WAIT_MAX: Duration = Duration::from_secs(90);
const REVISION: &str = "2026-07-28";

struct DashboardPages {
    dashboard: Arc<Dashboard>,
    runtime: Handle,
    permits: Arc<Semaphore>,
}

struct LiveGate {
    gate: Arc<Gate>,
    connectors: Arc<LazyContext>,
    demo: Option<DemoAgent>,
    mcp_url: String,
    logins: Arc<ServerLogins>,
    snippets: ClientSnippets,
    /// Pages run on its blocking threads and may wait for its tasks.
    runtime: Handle,
    issuer: Issuer,
    /// The home if it was given on the command line.
    home_option: Option<PathBuf>,
}

/// Fetches on the main runtime, from a thread that may block.
struct FetchedDocuments {
    runtime: Handle,
    fetch: PublicFetch,
}

impl ClientDocuments for FetchedDocuments {
    fn fetch(&self, url: &str, bytes_max: usize) -> Result<Bytes, String> {
        self.runtime.block_on(self.fetch.get(url, bytes_max)).map_err(|error| error.to_string())
    }
}

/// The team's issuer, reached on the main runtime.
struct ReachedTeamIssuer {
    runtime: Handle,
    login: TeamLogin,
}

impl TeamIssuer for ReachedTeamIssuer {
    fn begin(&self, settings: &OidcSettings, sign_in: &TeamSignIn<'_>) -> Result<String, String> {
        let url = self.runtime.block_on(self.login.begin(settings, sign_in));
        url.map(String::from).map_err(|error| error.to_string())
    }

    fn finish(
        &self,
        settings: &OidcSettings,
        sign_in: &TeamSignIn<'_>,
        query: &str,
    ) -> Result<Claims, String> {
        let claims = self.runtime.block_on(self.login.finish(settings, sign_in, query));
        claims.map_err(|error| error.to_string())
    }
}

impl LiveGate {
    /// Waits for work on a server, for at most [`SERVER_WAIT_MAX`].
    fn wait_for<T>(&self, work: impl Future<Output = Result<T, RunError>>) -> Result<T, String> {
        let done =
            self.runtime.block_on(async { tokio::time::timeout(SERVER_WAIT_MAX, work).await });
        match done {
            Ok(done) => done.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no response after {} seconds", SERVER_WAIT_MAX.as_secs())),
        }
    }
}

impl Live for LiveGate {
    fn settings(&self) -> Arc<Settings> {
        self.gate.settings()
    }

    fn apply_changes(&self) {
        self.gate.reload_now();
    }

    fn servers(&self) -> Value {
        self.gate.standing()
    }

    fn connectors(&self) -> Option<Arc<ConnectorContext>> {
        self.connectors.get().ok()
    }

    fn is_demo(&self) -> bool {
        self.demo.is_some()
    }

    fn command(&self, words: &str) -> String {
        match &self.home_option {
            Some(home) => format!("tollgate --home {} {words}", word(home)),
            None => format!("tollgate {words}"),
        }
    }

    fn change_demo_tool(&self) {
        if let Some(agent) = &self.demo {
            (agent.change_tool)();
        }
    }

    fn demo_call(&self, server: &str, tool: &str, arguments: &Value, waits: bool) {
        let Some(agent) = &self.demo else { return };
        let runtime = Handle::current();
        let name = tool.to_owned();
        let call = agent.clone().call(server.to_owned(), name.clone(), arguments.clone());
        let call = async move {
            if let Err(error) = call.await {
                tracing::warn!(%error, tool = name, "a call of the tour failed");
            }
        };
        if waits {
            runtime.spawn(call);
        } else {
            runtime.block_on(call);
        }
    }

    fn mcp_url(&self) -> String {
        self.mcp_url.clone()
    }

    fn client_document(&self) -> Option<Value> {
        RedirectUris::new(&self.mcp_url, &self.issuer).document()
    }

    fn begin_server_sign_in(
        &self,
        server: &Server,
        grant: Option<&str>,
        host: &str,
    ) -> Result<ServerSignIn, String> {
        let redirects = RedirectUris::new(&self.mcp_url, &self.issuer);
        let begun = sign_in_page::begin(&self.logins, server, grant, &redirects, host);
        self.runtime.block_on(begun).map_err(|error| format!("{error:#}"))
    }

    fn sign_out_of_server(&self, server: &str) -> Result<Vec<&'static str>, String> {
        let ended = self.runtime.block_on(sign_out_all(&self.logins, server));
        let ended = ended.map_err(|error| error.to_string())?;
        Ok(ended.iter().map(|(_, outcome)| outcome_word(outcome)).collect())
    }

    fn list_tools(&self, server: &str) -> Result<(), String> {
        self.wait_for(self.gate.list_tools(server))
    }

    fn try_server(&self, new: &NewServer) -> Result<TriedServer, String> {
        let target = resolved(new.target.clone());
        if let Target::Command { argv, cwd, .. } = &target {
            let program = argv.first().map(String::as_str).unwrap_or_default();
            if find_program(program, cwd.as_deref()).is_none() {
                return Err(format!(
                    "there is no program `{program}` on the gate's PATH; give its full path"
                ));
            }
        }
        let server = Server {
            name: new.name.clone(),
            target: target.clone(),
            options: new.options.clone(),
            created_at_us: 0,
            updated_at_us: 0,
            origin: Origin::Registry,
        };
        let offered = self.wait_for(self.gate.look(&server))?;
        let mut resources = offered.resources;
        resources.extend(offered.templates);
        Ok(TriedServer {
            target,
            tools: offered.tools,
            resources,
            prompts: offered.prompts,
            instructions: offered.instructions,
        })
    }

    fn client_servers(&self) -> Vec<ClientServer> {
        client_files::importable_servers().unwrap_or_else(|error| {
            tracing::warn!(%error, "could not read the files of clients");
            Vec::new()
        })
    }

    fn call_tool(&self, call: &ToolTrial<'_>) -> Result<Value, String> {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": REVISION,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": { "name": call.client, "version": "1" },
        });
        // The arguments are sent as they were judged, digit for digit.
        let message = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":{},"arguments":{},"_meta":{meta}}}}}"#,
            json!(call.tool),
            call.arguments,
        );
        let work = self.gate.call_as(call.grant, call.server, Bytes::from(message));
        let response = self.wait_for(work)?;
        serde_json::from_slice(&response).map_err(|error| error.to_string())
    }

    fn own_policy(&self, service: &str) -> Option<PolicyText> {
        connectors::connector(service).and_then(gateway::own_policy)
    }

    fn snippets(&self, grant: &Grant, token: &Token) -> Vec<ClientSnippet> {
        self.snippets.of(grant, token)
    }

    fn issuer(&self) -> Issuer {
        self.issuer.clone()
    }
}

/// The dashboard over an open home, for a gate whose `/mcp` is at this address.
pub(super) fn pages(
    gate: &Arc<Gate>,
    mcp_url: &str,
    issuer: &Issuer,
    stores: &Stores,
    context: &Context,
    demo: Option<DemoAgent>,
    out: &Out,
) -> Result<Arc<dyn Pages>> {
    let live = LiveGate {
        gate: Arc::clone(gate),
        connectors: stores.lazy_context(),
        demo,
        mcp_url: mcp_url.to_owned(),
        logins: stores.logins(),
        snippets: ClientSnippets::new(mcp_url, stores),
        runtime: Handle::current(),
        issuer: issuer.clone(),
        home_option: context.home_option().map(PathBuf::from),
    };
    let documents = FetchedDocuments { runtime: Handle::current(), fetch: PublicFetch::default() };
    let team = ReachedTeamIssuer {
        runtime: Handle::current(),
        login: TeamLogin::new(context.clock.clone()),
    };
    let dashboard = Dashboard::new(Options {
        home: stores.home.clone(),
        registry: Arc::clone(&stores.registry),
        ledger: Arc::clone(stores.gate_ledger()?),
        clock: context.clock.clone(),
        random: context.random.clone(),
        zone: owners_zone(context, out),
        live: Arc::new(live),
        documents: Arc::new(documents),
        team: Arc::new(team),
    });
    Ok(Arc::new(DashboardPages {
        dashboard: Arc::new(dashboard),
        runtime: Handle::current(),
        permits: Arc::new(Semaphore::new(PAGES_AT_ONCE_MAX)),
    }))
}

impl Pages for DashboardPages {
    fn reach(&self, path: &str) -> Option<PageReach> {
        let reach = self.dashboard.reach(path)?;
        let (is_public, is_for_programs) = (reach.is_public, reach.is_for_programs);
        Some(PageReach { is_public, is_for_programs })
    }

    fn respond(&self, request: Request<Bytes>) -> PageFuture {
        let (dashboard, runtime) = (Arc::clone(&self.dashboard), self.runtime.clone());
        let permits = Arc::clone(&self.permits);
        Box::pin(async move {
            let _place = permits.acquire_owned().await;
            let made = runtime.spawn_blocking(move || dashboard.respond(&request)).await;
            match made {
                Ok(response) => page(response),
                Err(error) => {
                    tracing::error!(%error, "could not render a page");
                    failed()
                }
            }
        })
    }
}

fn page(response: dashboard::Response) -> Page {
    Page {
        status: response.status,
        headers: response.headers,
        body: match response.body {
            Body::Whole(bytes) => PageBody::Whole(bytes),
            Body::Stream(parts) => PageBody::Stream(parts),
        },
        is_signed_in: response.is_signed_in,
        refusal: response.refusal,
    }
}

fn failed() -> Page {
    Page {
        status: StatusCode::INTERNAL_SERVER_ERROR,
        headers: http::HeaderMap::new(),
        body: PageBody::Whole(Bytes::from_static(b"this page could not be made; see the log")),
        is_signed_in: false,
        refusal: None,
    }
}
