//! Rejected HTTP requests: the reason, the grant if known, the audit row and the response.

use std::sync::Arc;

use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

use super::base_response;
use crate::edge::serve::{Body, Remote};
use crate::exchange::state::SharedState;
use crate::runtime::loop_detection::LoopError;
use crate::snapshot::Grantee;

/// The response to a request that is rejected before it becomes a message.
pub(crate) struct Rejection {
    pub(crate) status: StatusCode,
    pub(crate) message: &'static str,
    pub(crate) header: Option<(HeaderName, HeaderValue)>,
}

impl Rejection {
    pub(crate) fn new(status: StatusCode, message: &'static str) -> Rejection {
        Rejection { status, message, header: None }
    }
}

/// A rejected request, with what was known of its sender.
pub(super) struct RejectedRequest {
    pub(super) rejection: Rejection,
    pub(super) grantee: Option<Arc<Grantee>>,
    /// The reason for the audit row where it differs from the client's message: which grant the
    /// token belongs to and why it is invalid. The row still counts as anonymous and is bounded
    /// like one.
    pub(super) audit_reason: Option<Box<str>>,
}

impl From<Rejection> for RejectedRequest {
    fn from(rejection: Rejection) -> RejectedRequest {
        RejectedRequest { rejection, grantee: None, audit_reason: None }
    }
}

/// Records a rejected request and responds with JSON-RPC, so that clients show the message.
pub(super) fn reject(
    state: &SharedState,
    remote: &Remote,
    rejected: &RejectedRequest,
) -> Response<Body> {
    let RejectedRequest { rejection, grantee, audit_reason } = rejected;
    let reason = audit_reason.as_deref().unwrap_or(rejection.message);
    let grant = grantee.as_ref().map(|grantee| grantee.label.as_str());
    let services = &state.services;
    let audit =
        services.record_rejection(remote.as_str(), grant, rejection.status.as_u16(), reason);
    response(rejection, audit)
}

/// The response only, for a request that has its audit row.
pub(super) fn response(rejection: &Rejection, audit: Option<u64>) -> Response<Body> {
    let mut data = serde_json::json!({ "status": rejection.status.as_u16() });
    if let (Some(seq), Some(data)) = (audit, data.as_object_mut()) {
        data.insert("audit_id".to_owned(), seq.into());
    }
    let code = if rejection.status == StatusCode::UNSUPPORTED_MEDIA_TYPE { -32700 } else { -32600 };
    let body = serde_json::json!({
        "jsonrpc": "2.0",
        "id": null,
        "error": { "code": code, "message": rejection.message, "data": data },
    });
    let mut response = base_response(rejection.status, Body::complete(body.to_string()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some((name, value)) = &rejection.header {
        response.headers_mut().insert(name, value.clone());
    }
    response
}

/// Of a request that passed this gate before.
pub(super) fn loop_rejection(why: &LoopError) -> Rejection {
    match why {
        LoopError::Here => Rejection::new(
            StatusCode::LOOP_DETECTED,
            "this request already passed this gate: the address of a server leads back to the gate; see `tollgate server list`",
        ),
        LoopError::TooLong => {
            Rejection::new(StatusCode::BAD_REQUEST, "the Tollgate-Via header names too many gates")
        }
    }
}
