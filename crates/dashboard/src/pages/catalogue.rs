//! The catalogue: servers and tools of the gate and of the imported index, each with category, risk, evidence,
//! attack patterns and the recommended rule. The pages come from the view model of the static site.

use std::sync::Arc;

use askama::Template;
use catalog::classify::Risk;
use catalog::view::{About, ServerPage, ToolLine, ToolPage};
use serde::Serialize;
use store::index::{Hit, Index, IndexError, SearchQuery};

use crate::app::App;
use crate::catalogue_pages::ServerPages;
use crate::install::{self, InstallOffer};
use crate::offer::pins;
use crate::page::{Chrome, page, segment};
use crate::paging::Paging;
use crate::problem::Problem;
use crate::request::Visit;
use crate::response::Response;

const HITS_MAX: usize = 50;
const TOOLS_PER_PAGE: usize = 100;

#[derive(Serialize)]
struct OwnServer {
    name: String,
    tools: usize,
    risk: Option<Risk>,
    #[serde(skip)]
    path: String,
}

#[derive(Serialize)]
struct HitView {
    #[serde(flatten)]
    hit: Hit,
    #[serde(skip)]
    path: String,
}

#[derive(Template, Serialize)]
#[template(path = "catalogue.html")]
struct CataloguePage {
    #[serde(skip)]
    chrome: Chrome,
    servers: Vec<OwnServer>,
    hits: Vec<HitView>,
    /// Servers and tools of the imported index.
    index_size: (u64, u64),
    #[serde(skip)]
    words: String,
    #[serde(skip)]
    risk: String,
    #[serde(skip)]
    risks: [Risk; 4],
}

#[derive(Template, Serialize)]
#[template(path = "catalogue_server.html")]
struct CatalogueServerPage<'p> {
    #[serde(skip)]
    chrome: Chrome,
    #[serde(flatten)]
    page: &'p ServerPage,
    #[serde(skip)]
    paging: Paging,
    /// How to get a server that is not behind the gate yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    offers: Vec<InstallOffer>,
    #[serde(skip)]
    path: String,
    #[serde(skip)]
    is_own: bool,
}

impl CatalogueServerPage<'_> {
    /// The tools on this part of the list.
    fn tools(&self) -> &[ToolLine] {
        self.paging.of(&self.page.tools)
    }
}

#[derive(Template, Serialize)]
#[template(path = "catalogue_tool.html")]
struct CatalogueToolPage<'p> {
    #[serde(skip)]
    chrome: Chrome,
    #[serde(flatten)]
    page: &'p ToolPage,
    #[serde(skip)]
    server_path: String,
}

pub(crate) fn search(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let mut servers = Vec::new();
    let effective = app.effective()?;
    for name in effective.servers.keys() {
        let pins = pins(app, &effective, name)?;
        let class = |pin| app.classes.class(name, pin, &pins);
        let risk = |text: &str| RISKS.into_iter().find(|risk| risk.as_str() == text);
        servers.push(OwnServer {
            name: name.clone(),
            tools: pins.len(),
            risk: pins.iter().filter_map(|pin| risk(class(pin)?.risk)).max(),
            path: address(name),
        });
    }
    let words = visit.param("words").unwrap_or_default();
    let risk = visit.param("risk").and_then(|text| RISKS.into_iter().find(|r| r.as_str() == text));
    let (hits, index_size) = match Index::open(&app.home) {
        Err(IndexError::Empty) => (Vec::new(), (0, 0)),
        Err(error) => return Err(from_index(error)),
        Ok(index) => {
            let query = SearchQuery { words, category: None, risk, limit: HITS_MAX };
            let hits = match index.search(&query) {
                Ok(hits) => hits,
                Err(IndexError::NoWords) => Vec::new(),
                Err(error) => return Err(from_index(error)),
            };
            (hits, index.size().map_err(from_index)?)
        }
    };
    let hits = hits.into_iter().map(|hit| HitView {
        path: match hit.slug.split_once('/') {
            Some((server, tool)) => format!("{}/{}", address(server), segment(tool)),
            None => address(&hit.slug),
        },
        hit,
    });
    let view = CataloguePage {
        chrome: Chrome::new(app, visit, "Catalogue"),
        servers,
        hits: hits.collect(),
        index_size,
        words: words.to_owned(),
        risk: risk.map(|risk| risk.as_str().to_owned()).unwrap_or_default(),
        risks: RISKS,
    };
    page(visit, &view)
}

const RISKS: [Risk; 4] = [Risk::Low, Risk::Medium, Risk::High, Risk::Critical];

fn address(server: &str) -> String {
    format!("/catalogue/{}", segment(server))
}

fn from_index(error: IndexError) -> Problem {
    match error {
        IndexError::Missing(_) | IndexError::Empty => Problem::not_found(error.to_string()),
        error => Problem::internal(error.to_string()),
    }
}

pub(crate) fn server(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let name = visit.name("server");
    let (pages, source) = pages_of(app, name)?;
    let path = address(name);
    let view = CatalogueServerPage {
        chrome: Chrome::new(app, visit, format!("Server {name}")),
        paging: Paging::new(visit, &path, pages.server.tools.len(), TOOLS_PER_PAGE),
        page: &pages.server,
        offers: source.as_ref().map(|text| install::offers(name, text)).unwrap_or_default(),
        path,
        is_own: source.is_none(),
    };
    page(visit, &view)
}

pub(crate) fn tool(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let (name, wanted) = (visit.name("server"), visit.name("tool"));
    let (pages, _) = pages_of(app, name)?;
    let found = pages.tool(wanted).ok_or_else(|| {
        Problem::not_found(format!("server `{name}` has no tool `{wanted}` that was seen"))
    })?;
    let view = CatalogueToolPage {
        chrome: Chrome::new(app, visit, format!("Tool {wanted}")),
        page: found,
        server_path: address(name),
    };
    page(visit, &view)
}

/// The pages of a server of the gate, or of one of the index with its `packages` and `remotes`.
fn pages_of(app: &App, name: &str) -> Result<(Arc<ServerPages>, Option<String>), Problem> {
    let effective = app.effective()?;
    if effective.servers.contains_key(name) {
        let pins = pins(app, &effective, name)?;
        let seen = pins.iter().filter_map(|pin| pin.seen.as_ref().or(pin.accepted.as_ref()));
        let tools: Vec<&str> = seen.map(|pinned| pinned.definition.as_str()).collect();
        let about = About { name, ..About::default() };
        return Ok((app.catalogue.of(about, &tools)?, None));
    }
    let index = Index::open(&app.home).map_err(from_index)?;
    let row = index.server(name).map_err(from_index)?;
    let tools = index.tools(&row).map_err(from_index)?;
    let tools: Vec<&str> = tools.iter().map(|tool| tool.definition.as_str()).collect();
    let pages = app.catalogue.of(row.about(), &tools)?;
    Ok((pages, Some(row.source)))
}

/// JSON over several lines.
fn policy_text(policy: &serde_json::Value) -> String {
    serde_json::to_string_pretty(policy).unwrap_or_default()
}
