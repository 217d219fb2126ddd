//! The base URL of a service. Requests go only to URLs below it.

use std::fmt;
use std::net::IpAddr;

use url::{Host, Url};

/// A base URL: https anywhere, plain http on loopback only.
#[derive(Clone, PartialEq, Eq)]
pub struct BaseUrl(Url);

impl BaseUrl {
    pub fn parse(text: &str) -> Result<BaseUrl, String> {
        let url = Url::parse(text).map_err(|e| e.to_string())?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("it carries a user name or password".to_owned());
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("it carries a query or a fragment".to_owned());
        }
        match url.scheme() {
            "https" if url.host().is_some() => Ok(BaseUrl(url)),
            "http" if is_loopback(&url) => Ok(BaseUrl(url)),
            "http" => Err("plain http is for this machine only".to_owned()),
            scheme => Err(format!("`{scheme}` is not a supported scheme")),
        }
    }

    pub fn url(&self) -> &Url {
        &self.0
    }

    /// Host and port, for messages.
    pub fn host(&self) -> String {
        let host = self.0.host_str().unwrap_or_default();
        self.0.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// The URL of a path below the base. Each segment is escaped, so that an id cannot change the
    /// path; an empty last segment adds a trailing slash.
    pub fn join(&self, segments: &[&str]) -> Url {
        let mut url = self.0.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty();
            for segment in segments {
                // The URL writer would drop these two.
                path.push(match *segment {
                    "." => "%2E",
                    ".." => "%2E%2E",
                    other => other,
                });
            }
        }
        url
    }
}

impl fmt::Debug for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

/// Is it a loopback URL?
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => IpAddr::V4(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::V6(address).is_loopback(),
        Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn an_id_cannot_change_the_path_of_a_request() {
        let base = BaseUrl::parse("https://x.example/v2").unwrap();
        for (id, expected) in [
            ("7", "https://x.example/v2/cycle/7"),
            ("../user/access", "https://x.example/v2/cycle/..%2Fuser%2Faccess"),
            ("a?b#c", "https://x.example/v2/cycle/a%3Fb%23c"),
            ("..", "https://x.example/v2/cycle/%252E%252E"),
            ("", "https://x.example/v2/cycle/"),
        ] {
            assert_eq!(base.join(&["cycle", id]).as_str(), expected, "{id}");
        }
    }
}
