//! The authorization server: well-known documents, `/authorize` with its consent page, `/token`, `/register`
//! and `/revoke`. The rules are in `oauth::server`; tokens, codes and clients are in the registry.

mod consent;
mod documents;
mod programs;

use bytes::Bytes;
use http::{Request, StatusCode};
use oauth::client::registration::CLIENT_DOCUMENT_PATH;
use oauth::server::issuer::{WellKnown, well_known};

use crate::app::App;
use crate::pages;
use crate::request::Format;
use crate::response::Response;

/// An address of the authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    WellKnown(WellKnown),
    Token,
    Register,
    Revoke,
    /// Of the gate itself, as a client of servers.
    ClientDocument,
    Authorize,
    Consent,
}

impl Endpoint {
    /// Whether programs of any origin use it. The others are pages for the owner.
    pub(crate) fn is_for_programs(&self) -> bool {
        !matches!(self, Endpoint::Authorize | Endpoint::Consent)
    }
}

pub(crate) fn find(path: &str) -> Option<Endpoint> {
    match path {
        "/token" => Some(Endpoint::Token),
        "/register" => Some(Endpoint::Register),
        "/revoke" => Some(Endpoint::Revoke),
        CLIENT_DOCUMENT_PATH => Some(Endpoint::ClientDocument),
        "/authorize" => Some(Endpoint::Authorize),
        consent::PATH => Some(Endpoint::Consent),
        _ => well_known(path).map(Endpoint::WellKnown),
    }
}

pub(crate) fn respond(app: &App, endpoint: &Endpoint, request: &Request<Bytes>) -> Response {
    if endpoint.is_for_programs() {
        return programs::respond(app, endpoint, request);
    }
    match consent::respond(app, endpoint, request) {
        Ok(response) => response,
        Err(problem) => {
            let is_refused = problem.status != StatusCode::INTERNAL_SERVER_ERROR;
            let response = pages::problem::show(&problem, Format::Html, None);
            if is_refused {
                response.refused(format!("authorization: {}", problem.message))
            } else {
                response
            }
        }
    }
}
