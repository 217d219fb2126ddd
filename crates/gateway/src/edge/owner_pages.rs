//! Pages for people, at every address that the protocol does not use. The gate checks the Host header and
//! bounds the body; sign-in, roles and forms are the pages' own. Nothing here touches a call.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use hyper::{HeaderMap, Request, Response, StatusCode};
use tokio::sync::mpsc;

use crate::edge::Edge;
use crate::edge::bounded_body;
use crate::edge::http::Rejection;
use crate::edge::serve::{Body, IncomingBody, Remote};

/// The largest form: a policy text and its fields.
const FORM_BYTES_MAX: usize = 1 << 20;
/// Connections of signed-in browsers count together, as those of one grant do.
const BROWSERS: &str = "(dashboard)";

/// Answers requests of browsers.
pub trait Pages: Send + Sync {
    /// Who may reach the page at this path, if there is one. Requests for other paths are rejected and
    /// recorded.
    fn reach(&self, path: &str) -> Option<PageReach>;

    /// The request carries the remote address as an extension of type `Arc<str>`.
    fn respond(&self, request: Request<Bytes>) -> PageFuture;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageReach {
    /// The page is also served under the public host name.
    pub is_public: bool,
    /// For programs, from any origin and with any Authorization header: it reads no cookie.
    pub is_for_programs: bool,
}

pub type PageFuture = Pin<Box<dyn Future<Output = Page> + Send>>;

/// The response to a browser.
pub struct Page {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: PageBody,
    /// The connection is kept like that of a grant; others may be evicted.
    pub is_signed_in: bool,
    /// Why the request was refused, for the audit log.
    pub refusal: Option<String>,
}

pub enum PageBody {
    Whole(Bytes),
    /// Ends when the sender is dropped.
    Stream(mpsc::Receiver<Bytes>),
}

pub(crate) async fn respond(
    edge: &Edge,
    pages: &dyn Pages,
    remote: &Remote,
    request: Request<IncomingBody>,
) -> Result<Response<Body>, Rejection> {
    let (mut head, body) = request.into_parts();
    // For pages that bound what one address may try.
    head.extensions.insert(remote.address());
    let wait_max = edge.state.services.bounds.body_wait_max;
    let body = bounded_body::read(body, FORM_BYTES_MAX, wait_max).await?;
    let page = pages.respond(Request::from_parts(head, body)).await;
    let is_refused = matches!(page.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    let reason = page.refusal.as_deref();
    let reason = reason.or(is_refused.then_some("the dashboard refused this request"));
    if let Some(reason) = reason {
        edge.state.services.record_rejection(remote.as_str(), None, page.status.as_u16(), reason);
    }
    if page.is_signed_in {
        // Beyond the share the connection is served, too, but may be evicted.
        let _ = remote.register_grant(BROWSERS);
    }
    let mut response = Response::new(match page.body {
        PageBody::Whole(bytes) => Body::complete(bytes),
        PageBody::Stream(parts) => Body::Streamed(parts),
    });
    *response.status_mut() = page.status;
    *response.headers_mut() = page.headers;
    Ok(response)
}
