//! Reads the body of a request that is not a message: a webhook or a form of a page.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::StatusCode;

use crate::edge::http::Rejection;
use crate::edge::serve::IncomingBody;

/// The whole body, if it is no larger than this and arrives in time.
pub(crate) async fn read(
    body: IncomingBody,
    bytes_max: usize,
    wait_max: Duration,
) -> Result<Bytes, Rejection> {
    let away = |status, message| Err(Rejection::new(status, message));
    match tokio::time::timeout(wait_max, Limited::new(body, bytes_max).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            away(StatusCode::PAYLOAD_TOO_LARGE, "the request body is larger than allowed")
        }
        Ok(Err(_)) => away(StatusCode::BAD_REQUEST, "the request body was cut off"),
        Err(_) => away(StatusCode::REQUEST_TIMEOUT, "the request body took too long to arrive"),
    }
}
