//! Loop detection: the `Tollgate-Via` header lists the gates that a request passed. A server whose
//! address leads back to one of them would loop forever, so such a request is refused.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

/// The header to which each gate appends its id.
pub(crate) const VIA: HeaderName = HeaderName::from_static("tollgate-via");
/// Gates that one request may pass.
const HOPS_MAX: usize = 8;

/// The ids of the gates that a request passed, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Via(Option<Box<str>>);

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LoopError {
    /// It already passed this gate.
    Here,
    /// It passed too many gates, or the header is malformed.
    TooLong,
}

impl Via {
    /// Parses the header; `own` is the id of this gate.
    pub(crate) fn of(headers: &HeaderMap, own: &str) -> Result<Via, LoopError> {
        let mut hops = Vec::new();
        for value in headers.get_all(&VIA) {
            let text = value.to_str().map_err(|_| LoopError::TooLong)?;
            hops.extend(text.split(',').map(str::trim).filter(|hop| !hop.is_empty()));
        }
        if hops.contains(&own) {
            return Err(LoopError::Here);
        }
        if hops.len() >= HOPS_MAX {
            return Err(LoopError::TooLong);
        }
        Ok(Via((!hops.is_empty()).then(|| hops.join(",").into())))
    }

    /// The header for the next server.
    pub(crate) fn and(&self, own: &str) -> Option<HeaderValue> {
        match &self.0 {
            Some(hops) => HeaderValue::try_from(format!("{hops},{own}")).ok(),
            None => HeaderValue::try_from(own).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn read(values: &[&str]) -> Result<Via, LoopError> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(VIA, HeaderValue::from_str(value).unwrap());
        }
        Via::of(&headers, "me")
    }

    #[test]
    fn a_request_that_already_passed_this_gate_is_detected() {
        assert_eq!(read(&[]).unwrap().and("me").unwrap(), "me");
        assert_eq!(read(&["a", "b, c"]).unwrap().and("me").unwrap(), "a,b,c,me");
        for values in [&["me"][..], &["a", "b,me"], &["a,me,b"], &["1,2,3,4,5,6,7,8,me"]] {
            assert_eq!(read(values), Err(LoopError::Here), "{values:?}");
        }
        assert_eq!(read(&["1,2,3,4,5,6,7,8"]), Err(LoopError::TooLong));
    }
}
