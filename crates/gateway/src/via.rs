//! The gates that a request came through. A server whose address leads back to a gate that the request has
//! passed would have it go round for ever, so such a request is refused.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

/// The header in which each gate adds its own id.
pub(crate) const VIA: HeaderName = HeaderName::from_static("tollgate-via");
/// Gates that one request may pass.
const HOPS_MAX: usize = 8;

/// The gates that a request came through, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Via(Option<Box<str>>);

/// Why a request goes no further.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Loop {
    /// It has been here before.
    Here,
    /// It came through too many gates, or says something else than their ids.
    TooLong,
}

impl Via {
    /// Reads what gates before this one wrote.
    pub(crate) fn of(headers: &HeaderMap, own: &str) -> Result<Via, Loop> {
        let mut hops = Vec::new();
        for value in headers.get_all(&VIA) {
            let text = value.to_str().map_err(|_| Loop::TooLong)?;
            hops.extend(text.split(',').map(str::trim).filter(|hop| !hop.is_empty()));
        }
        if hops.contains(&own) {
            return Err(Loop::Here);
        }
        if hops.len() >= HOPS_MAX {
            return Err(Loop::TooLong);
        }
        Ok(Via((!hops.is_empty()).then(|| hops.join(",").into())))
    }

    /// What is said to the next server.
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

    fn read(values: &[&str]) -> Result<Via, Loop> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(VIA, HeaderValue::from_str(value).unwrap());
        }
        Via::of(&headers, "me")
    }

    #[test]
    fn a_request_that_was_here_before_is_found_out() {
        assert_eq!(read(&[]).unwrap().and("me").unwrap(), "me");
        assert_eq!(read(&["a", "b, c"]).unwrap().and("me").unwrap(), "a,b,c,me");
        for values in [&["me"][..], &["a", "b,me"], &["a,me,b"], &["1,2,3,4,5,6,7,8,me"]] {
            assert_eq!(read(values), Err(Loop::Here), "{values:?}");
        }
        assert_eq!(read(&["1,2,3,4,5,6,7,8"]), Err(Loop::TooLong));
    }
}
