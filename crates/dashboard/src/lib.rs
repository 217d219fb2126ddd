//! The owner's dashboard: server-rendered pages, their JSON twins, browser sessions, roles and CSRF checks.
//! It reads and acts through the stores only; it cannot reach into a running gateway except through [`Live`].

mod access;
mod accounts;
mod app;
mod asking_clients;
mod assets;
mod authorization;
mod browser_name;
mod builder;
mod catalogue_pages;
mod chart;
mod client_documents;
mod csrf;
mod difference;
mod install;
mod limits_used;
mod live;
mod members;
mod offer;
mod openapi;
mod own_data;
mod page;
mod pages;
mod paging;
mod passkey;
mod pending;
mod pretty;
mod problem;
pub mod replay;
mod request;
mod response;
mod routes;
mod server_logins;
mod shown_pages;
mod sign_in_limit;
mod team_sign_ins;
mod time;
mod verification;
mod visible_text;
mod walk;

use std::sync::Arc;

use bytes::Bytes;
use http::Request;

pub use app::Options;
pub use client_documents::ClientDocuments;
pub use live::{ClientServer, ClientSnippet, Live, ServerSignIn, ToolTrial, TriedServer};
pub use pages::sign_in::link as sign_in_link;
pub use pretty::pretty;
pub use response::{Body, Response};
pub use team_sign_ins::TeamIssuer;
pub use time::policy_time;

use app::App;

/// Who may reach a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// It is also served under the public host name.
    pub is_public: bool,
    /// For programs of any origin: it reads no cookie.
    pub is_for_programs: bool,
}

/// All pages of one gate.
pub struct Dashboard {
    app: Arc<App>,
    router: routes::Router,
}

impl Dashboard {
    pub fn new(options: Options) -> Dashboard {
        Dashboard { app: Arc::new(App::new(options)), router: routes::Router::new() }
    }

    /// Who may reach the page at this path, if there is one.
    pub fn reach(&self, path: &str) -> Option<Reach> {
        if let Some(endpoint) = authorization::find(path) {
            return Some(Reach { is_public: true, is_for_programs: endpoint.is_for_programs() });
        }
        let is_public =
            self.app.live.settings().public_dashboard || routes::is_needed_in_public(path);
        self.router.has(path).then_some(Reach { is_public, is_for_programs: false })
    }

    /// Answers one request. The stores block, so this must run where blocking is allowed.
    pub fn respond(&self, request: &Request<Bytes>) -> Response {
        self.router.respond(&self.app, request)
    }
}

#[cfg(test)]
mod tests;
