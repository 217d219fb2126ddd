//! The catalogue: servers and tools of the gate and of the imported index, each with category, risk, evidence,
//! attack patterns and the recommended rule. The pages come from the view model of the static site.

use askama::Template;
use catalog::classify::Risk;
use catalog::view::{About, Pages, ServerPage, ToolPage};
use policy::json::{Bounds, Doc, Value};
use serde::Serialize;
use store::index::{Hit, Index, IndexError, SearchQuery, ServerRow};

use crate::app::App;
use crate::page::{Chrome, page, segment};
use crate::problem::Problem;
use crate::request::Visit;
use crate::response::Response;

const HITS_MAX: usize = 50;

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
struct CatalogueServerPage {
    #[serde(skip)]
    chrome: Chrome,
    #[serde(flatten)]
    page: ServerPage,
    #[serde(skip)]
    path: String,
    #[serde(skip)]
    is_own: bool,
}

#[derive(Template, Serialize)]
#[template(path = "catalogue_tool.html")]
struct CatalogueToolPage {
    #[serde(skip)]
    chrome: Chrome,
    #[serde(flatten)]
    page: ToolPage,
    #[serde(skip)]
    server_path: String,
}

pub(crate) fn search(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let mut servers = Vec::new();
    for name in app.effective()?.servers.keys() {
        let found = with_own(app, name, server_page)?;
        servers.push(OwnServer {
            name: name.clone(),
            tools: found.tools.len(),
            risk: found.risk,
            path: address(name),
        });
    }
    let words = visit.asked("words").unwrap_or_default();
    let risk = visit.asked("risk").and_then(|text| RISKS.into_iter().find(|r| r.as_str() == text));
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

fn server_page(pages: &Pages<'_>) -> ServerPage {
    pages.server()
}

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
    let (found, is_own) = with_server(app, name, server_page)?;
    let view = CatalogueServerPage {
        chrome: Chrome::new(app, visit, format!("Server {name}")),
        page: found,
        path: address(name),
        is_own,
    };
    page(visit, &view)
}

pub(crate) fn tool(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let (name, wanted) = (visit.name("server"), visit.name("tool"));
    let (found, _) = with_server(app, name, |pages| pages.tool(wanted))?;
    let found = found.ok_or_else(|| {
        Problem::not_found(format!("server `{name}` has no tool `{wanted}` that was seen"))
    })?;
    let view = CatalogueToolPage {
        chrome: Chrome::new(app, visit, format!("Tool {wanted}")),
        page: found,
        server_path: address(name),
    };
    page(visit, &view)
}

/// A server of the gate, or one of the index, and whether it is the gate's.
fn with_server<T>(
    app: &App,
    name: &str,
    show: impl FnOnce(&Pages<'_>) -> T,
) -> Result<(T, bool), Problem> {
    if app.effective()?.servers.contains_key(name) {
        return Ok((with_own(app, name, show)?, true));
    }
    let index = Index::open(&app.home).map_err(from_index)?;
    let row = index.server(name).map_err(from_index)?;
    let tools = index.tools(&row).map_err(from_index)?;
    let tools: Vec<&str> = tools.iter().map(|tool| tool.definition.as_str()).collect();
    Ok((with_pages(about(&row), &tools, show)?, false))
}

fn with_own<T>(app: &App, name: &str, show: impl FnOnce(&Pages<'_>) -> T) -> Result<T, Problem> {
    let pins = app.registry.pins(name)?;
    let seen = pins.iter().filter_map(|pin| pin.seen.as_ref().or(pin.accepted.as_ref()));
    let tools: Vec<&str> = seen.map(|pinned| pinned.definition.as_str()).collect();
    with_pages(About { name, ..About::default() }, &tools, show)
}

fn with_pages<T>(
    about: About<'_>,
    definitions: &[&str],
    show: impl FnOnce(&Pages<'_>) -> T,
) -> Result<T, Problem> {
    let text = format!("[{}]", definitions.join(","));
    let doc = Doc::read(text.as_bytes(), &Bounds::ANSWER).map_err(|refusal| {
        Problem::internal(format!("the tools cannot be read: {}", refusal.words))
    })?;
    let tools: Vec<Value<'_>> = doc.root().items().collect();
    Ok(show(&Pages::new(about, tools.into_iter())))
}

fn about(row: &ServerRow) -> About<'_> {
    About {
        name: &row.name,
        title: &row.title,
        description: &row.description,
        version: &row.version,
        website: &row.website,
        repository: &row.repository,
        updated: &row.updated,
        source: &row.source,
    }
}

/// JSON over several lines.
fn policy_text(policy: &serde_json::Value) -> String {
    serde_json::to_string_pretty(policy).unwrap_or_default()
}
