//! The host under which a browser sees the dashboard. Passkeys belong to a host name and never to an IP address.

use std::net::IpAddr;

use http::HeaderMap;
use http::header::HOST;

/// The host of a request. The gate refuses hosts that are not its own before a page runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    /// With its port, in lower case.
    authority: String,
}

impl Site {
    pub(crate) fn of(headers: &HeaderMap) -> Site {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        Site::named(host.unwrap_or_default())
    }

    pub(crate) fn named(host: &str) -> Site {
        Site { authority: host.to_ascii_lowercase() }
    }

    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    fn name_and_port(&self) -> (&str, &str) {
        match self.authority.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, port),
            _ => (&self.authority, ""),
        }
    }

    fn address(&self) -> Option<IpAddr> {
        self.name_and_port().0.trim_matches(['[', ']']).parse().ok()
    }

    /// What passkeys of this host are bound to; none at an IP address.
    pub(crate) fn rp_id(&self) -> Option<&str> {
        let (name, _) = self.name_and_port();
        (!name.is_empty() && self.address().is_none()).then_some(name)
    }

    /// Whether a page of this origin may use passkeys of this host. Browsers allow plain HTTP on this machine only.
    pub(crate) fn is_origin(&self, origin: &str) -> bool {
        let is_local =
            self.rp_id().is_some_and(|name| name == "localhost" || name.ends_with(".localhost"));
        match origin.strip_prefix("https://") {
            Some(rest) => rest == self.authority,
            None => is_local && origin.strip_prefix("http://") == Some(self.authority.as_str()),
        }
    }

    /// The same gate under a host name, for an address of this machine.
    pub(crate) fn as_localhost(&self, is_https: bool) -> Option<String> {
        let is_here = self.address().is_some_and(|address| address.is_loopback());
        let (_, port) = self.name_and_port();
        let scheme = if is_https { "https" } else { "http" };
        let port = if port.is_empty() { String::new() } else { format!(":{port}") };
        is_here.then(|| format!("{scheme}://localhost{port}"))
    }
}
