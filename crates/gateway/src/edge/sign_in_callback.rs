//! `/oauth/callback`: the redirect that ends a sign-in at a server. Its state, which is used once, authenticates
//! it; a grant has no business here.

use hyper::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HeaderName,
    HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use store::ledger::Note;

use crate::edge::Edge;
use crate::edge::http::{Rejection, base_response};
use crate::edge::serve::{Body, IncomingBody, Remote};
use connectors::server_login::ServerSignInError;

/// The cookie of the browser that began a sign-in on a page of the gate.
pub const SIGN_IN_COOKIE: &str = "tollgate_sign_in";
/// Longer than any redirect.
const QUERY_BYTES_MAX: usize = 16 << 10;

const HEADERS: [(HeaderName, &str); 5] = [
    (CONTENT_TYPE, "text/html; charset=utf-8"),
    (CACHE_CONTROL, "no-store"),
    // The address holds a code.
    (REFERRER_POLICY, "no-referrer"),
    (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
];

pub(crate) async fn receive(
    edge: &Edge,
    remote: &Remote,
    request: &Request<IncomingBody>,
) -> Result<Response<Body>, Rejection> {
    if request.method() != Method::GET {
        return Err(Rejection {
            status: StatusCode::METHOD_NOT_ALLOWED,
            message: "only GET is allowed here",
            header: Some((ALLOW, HeaderValue::from_static("GET"))),
        });
    }
    if request.headers().contains_key(AUTHORIZATION) {
        return Err(Rejection::new(StatusCode::NOT_FOUND, "not found"));
    }
    let query = request.uri().query().unwrap_or_default();
    if query.len() > QUERY_BYTES_MAX {
        return Err(Rejection::new(StatusCode::URI_TOO_LONG, "the redirect is too long"));
    }
    let browser = cookie(request.headers());
    match edge.state.snapshots.factory.logins.finish(query, browser.as_deref()).await {
        Ok(finished) => {
            let server = &finished.key.server;
            let note = Note {
                act: "server_signed_in",
                by: "owner (browser)",
                about: server,
                words: &finished.issuer,
            };
            if let Err(error) = edge.state.services.ledger.note(&note) {
                tracing::error!(%error, "could not record a sign-in at a server");
            }
            Ok(page(StatusCode::OK, &format!("Signed in to {server}. You can close this window.")))
        }
        Err(error) => Ok(refused(edge, remote, &error)),
    }
}

fn refused(edge: &Edge, remote: &Remote, error: &ServerSignInError) -> Response<Body> {
    let status = match error {
        ServerSignInError::Unknown => StatusCode::NOT_FOUND,
        ServerSignInError::OtherBrowser => StatusCode::FORBIDDEN,
        _ => StatusCode::BAD_REQUEST,
    };
    let message = error.to_string();
    edge.state.services.record_anonymous(
        remote.as_str(),
        "(sign-in)",
        "",
        status.as_u16(),
        &message,
    );
    page(status, &format!("The sign-in did not succeed: {message}."))
}

/// The text is our own: server names have no markup, and errors repeat no foreign text but single words.
fn page(status: StatusCode, message: &str) -> Response<Body> {
    let message: String = message.chars().filter(|c| !matches!(c, '<' | '>' | '&')).collect();
    let html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>tollgate</title><p>{message}</p></html>\n"
    );
    let mut response = base_response(status, Body::complete(html));
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn cookie(headers: &HeaderMap) -> Option<String> {
    let values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs =
        values.flat_map(|value| value.split(';')).filter_map(|pair| pair.split_once('='));
    pairs.find(|(name, _)| name.trim() == SIGN_IN_COOKIE).map(|(_, value)| value.trim().to_owned())
}
