//! A request that is turned away: why, who it was, its audit row and the words for its client.

use std::sync::Arc;

use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

use super::plain;
use crate::gate::Gate;
use crate::in_force::Holder;
use crate::serve::{Body, Remote};

/// A request that gets no further than the door.
pub(crate) struct TurnedAway {
    pub(crate) status: StatusCode,
    pub(crate) words: &'static str,
    pub(crate) header: Option<(HeaderName, HeaderValue)>,
}

impl TurnedAway {
    pub(crate) fn new(status: StatusCode, words: &'static str) -> TurnedAway {
        TurnedAway { status, words, header: None }
    }
}

/// Who was turned away, as far as that was known by then.
pub(super) struct Rejected {
    pub(super) away: TurnedAway,
    pub(super) holder: Option<Arc<Holder>>,
    /// What the row says instead of the words for the client: whose token it was, and what is wrong.
    pub(super) refused: Option<Box<(Option<String>, &'static str)>>,
}

impl From<TurnedAway> for Rejected {
    fn from(away: TurnedAway) -> Rejected {
        Rejected { away, holder: None, refused: None }
    }
}

/// The words for a request that was turned away, as JSON-RPC so that clients show them.
pub(super) fn turned_away(gate: &Gate, remote: &Remote, rejected: &Rejected) -> Response<Body> {
    let Rejected { away, holder, refused } = rejected;
    let status = away.status.as_u16();
    let audit = match (holder, refused.as_deref()) {
        (Some(holder), _) => gate.record_turned_away(remote, &holder.label, status, away.words),
        (None, Some((label, why))) => {
            gate.record_stranger(remote, label.as_deref().unwrap_or_default(), status, why)
        }
        (None, None) => gate.record_stranger(remote, "", status, away.words),
    };
    words(away, audit)
}

/// The words alone, for a request that has its row.
pub(super) fn words(away: &TurnedAway, audit: Option<u64>) -> Response<Body> {
    let mut data = serde_json::json!({ "status": away.status.as_u16() });
    if let (Some(seq), Some(data)) = (audit, data.as_object_mut()) {
        data.insert("audit_id".to_owned(), seq.into());
    }
    let code = if away.status == StatusCode::UNSUPPORTED_MEDIA_TYPE { -32700 } else { -32600 };
    let body = serde_json::json!({
        "jsonrpc": "2.0",
        "id": null,
        "error": { "code": code, "message": away.words, "data": data },
    });
    let mut response = plain(away.status, Body::whole(body.to_string()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some((name, value)) = &away.header {
        response.headers_mut().insert(name, value.clone());
    }
    response
}
