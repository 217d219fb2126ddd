//! Notifications that a service sends to the gate by itself. A service checks the signature; what
//! changed is then fetched from the service like everything else.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use crate::ConnectorContext;

/// How the notifications of a service are received.
pub struct Webhook {
    pub body_bytes_max: usize,
    /// Checks one delivery. The work that follows from it is done after the response.
    pub receive: fn(&ConnectorContext, &Delivery<'_>) -> Result<FollowUp, Rejection>,
}

/// One delivery, as it arrived.
pub struct Delivery<'a> {
    /// The value of a header that occurs once.
    pub header: &'a dyn Fn(&str) -> Option<&'a str>,
    pub body: &'a [u8],
}

/// The work that follows from a delivery. The error says why it failed.
pub type FollowUp = Box<dyn FnOnce(Arc<ConnectorContext>) -> FollowingUp + Send>;
pub type FollowingUp = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// Why a delivery is rejected. Holds no secret and nothing of the delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The HTTP status of the response.
    pub status: u16,
    pub reason: String,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}
