//! Who may reach which page under which name, and where a client without a valid token is told to sign in.

use std::sync::Arc;

use hyper::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, Request, StatusCode};
use oauth::server::SCOPE;
use oauth::server::issuer::MCP_PATH;

use super::bearer;
use super::rejection::RejectedRequest;
use crate::edge::Edge;
use crate::edge::owner_pages::Pages;
use crate::edge::serve::IncomingBody;

impl Edge {
    /// Whether the page at this path is for programs of any origin.
    pub(super) fn is_for_programs(&self, path: &str) -> bool {
        let reach = self.pages.as_ref().and_then(|pages| pages.reach(path));
        reach.is_some_and(|reach| reach.is_for_programs)
    }

    /// The pages, if there is one for this request.
    pub(super) fn pages_for(&self, request: &Request<IncomingBody>) -> Option<&Arc<dyn Pages>> {
        let pages = self.pages.as_ref()?;
        let reach = pages.reach(request.uri().path())?;
        // A grant opens no page: with its token there is nothing here. Documents for programs are public,
        // and an OAuth client may name itself with `Basic`.
        let is_agent = match request.headers().get(AUTHORIZATION) {
            None => false,
            Some(_) if !reach.is_for_programs => true,
            Some(value) => *request.method() == Method::POST && bearer(value).is_some(),
        };
        let is_hidden = !reach.is_public && self.hosts.is_public(request.headers());
        (!is_agent && !is_hidden).then_some(pages)
    }

    /// Tells a client without a valid token where to sign in.
    pub(super) fn challenge(
        &self,
        mut rejected: RejectedRequest,
        server: Option<&str>,
    ) -> RejectedRequest {
        let Some(issuer) = self.issuer.as_ref() else { return rejected };
        if rejected.rejection.status != StatusCode::UNAUTHORIZED {
            return rejected;
        }
        let named = server.map(|name| issuer.at(&format!("{MCP_PATH}/{name}")));
        // The name is the client's text: one that no server can have is not repeated.
        let path = issuer.resource_path(named.as_deref()).unwrap_or_else(|| MCP_PATH.to_owned());
        let metadata = issuer.resource_metadata(&path);
        let value = format!(
            "Bearer realm=\"tollgate\", resource_metadata=\"{metadata}\", scope=\"{SCOPE}\""
        );
        if let Ok(value) = HeaderValue::from_str(&value) {
            rejected.rejection.header = Some((WWW_AUTHENTICATE, value));
        }
        rejected
    }
}
