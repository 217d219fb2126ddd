//! Host and Origin checks against DNS rebinding: a page in the owner's browser must not reach the
//! gate under another name, whatever token it has.

use std::net::{IpAddr, SocketAddr};

use hashbrown::HashSet;
use hyper::header::{HOST, ORIGIN};
use hyper::{HeaderMap, Uri};
use oauth::server::Issuer;

/// The names under which this gate accepts requests.
#[derive(Clone, Debug)]
pub(crate) struct AllowedHosts {
    hosts: HashSet<String>,
    origins: HashSet<String>,
    /// The host of the public URL.
    public: Option<String>,
}

/// Why a request was rejected by its host or origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostError {
    NoHost,
    Host,
    Origin,
}

impl HostError {
    pub(crate) fn message(self) -> &'static str {
        match self {
            HostError::NoHost => "the request has no usable Host header",
            HostError::Host => {
                "this Host is not one of the gate's names; set `public_url`, or add it to `hostnames`, in tollgate.toml"
            }
            HostError::Origin => {
                "pages of this Origin may not call the gate; add its host to `hostnames` in tollgate.toml"
            }
        }
    }
}

impl AllowedHosts {
    /// Loopback names with the listening port, the listening address, and the names from the
    /// settings.
    pub(crate) fn new(listening: SocketAddr, hostnames: &[String], tls: bool) -> AllowedHosts {
        let port = listening.port();
        let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "[::1]".to_owned()];
        if !listening.ip().is_unspecified() {
            names.push(match listening.ip() {
                IpAddr::V4(address) => address.to_string(),
                IpAddr::V6(address) => format!("[{address}]"),
            });
        }
        names.extend(hostnames.iter().map(|name| name.to_ascii_lowercase()));
        let scheme = if tls { "https" } else { "http" };
        let default_port = if tls { 443 } else { 80 };
        let mut hosts = HashSet::new();
        for name in names {
            if port == default_port || name.contains(':') && !name.ends_with(']') {
                hosts.insert(name.clone());
            }
            hosts.insert(format!("{name}:{port}"));
            // Behind the owner's proxy the URL has the proxy's port.
            if hostnames.iter().any(|listed| listed.eq_ignore_ascii_case(&name)) {
                hosts.insert(name);
            }
        }
        let mut origins: HashSet<String> =
            hosts.iter().map(|host| format!("{scheme}://{host}")).collect();
        origins
            .extend(hostnames.iter().map(|name| format!("https://{}", name.to_ascii_lowercase())));
        AllowedHosts { hosts, origins, public: None }
    }

    /// The same with the host of the public URL.
    #[must_use]
    pub(crate) fn with_public(mut self, issuer: &Issuer) -> AllowedHosts {
        let host = issuer.authority().to_owned();
        self.hosts.insert(host.clone());
        self.origins.insert(issuer.as_str().to_owned());
        self.public = Some(host);
        self
    }

    /// Whether the request came under the public host name.
    pub(crate) fn is_public(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        let public = self.public.as_deref();
        public.zip(host).is_some_and(|(public, host)| public.eq_ignore_ascii_case(host))
    }

    /// A target in absolute form must name one of our hosts: RFC 9112 gives it precedence over the
    /// Host header.
    pub(crate) fn check_target(&self, target: &Uri) -> Result<(), HostError> {
        if target.scheme_str().is_some_and(|scheme| scheme != "http" && scheme != "https") {
            return Err(HostError::Host);
        }
        match target.authority() {
            Some(authority) if !contains(&self.hosts, authority.as_str()) => Err(HostError::Host),
            _ => Ok(()),
        }
    }

    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), HostError> {
        self.check_host(headers)?;
        for origin in headers.get_all(ORIGIN) {
            let origin = origin.to_str().map_err(|_| HostError::Origin)?;
            if !contains(&self.origins, origin) {
                return Err(HostError::Origin);
            }
        }
        Ok(())
    }

    /// The gate's address as this client uses it.
    pub(crate) fn base_url(&self, headers: &HeaderMap) -> Option<String> {
        let host = headers.get(HOST)?.to_str().ok()?.to_ascii_lowercase();
        let secure = format!("https://{host}");
        // A name of the settings is that of a proxy with TLS.
        Some(if contains(&self.origins, &secure) { secure } else { format!("http://{host}") })
    }

    /// Without a check of the Origin, for what pages of any origin may read.
    pub(crate) fn check_host(&self, headers: &HeaderMap) -> Result<(), HostError> {
        let mut hosts = headers.get_all(HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok()).ok_or(HostError::NoHost)?;
        if hosts.next().is_some() {
            return Err(HostError::NoHost);
        }
        if !contains(&self.hosts, host) {
            return Err(HostError::Host);
        }
        Ok(())
    }
}

/// Almost every client sends lower case, so compare before converting.
fn contains(set: &HashSet<String>, text: &str) -> bool {
    set.contains(text)
        || text.bytes().any(|b| b.is_ascii_uppercase()) && set.contains(&text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    type Case = (&'static [(&'static str, &'static str)], Result<(), HostError>);

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    #[test]
    fn a_target_in_absolute_form_must_name_us() {
        let ours = AllowedHosts::new("127.0.0.1:4180".parse().unwrap(), &[], false);
        let cases = [
            ("/mcp", Ok(())),
            ("http://127.0.0.1:4180/mcp", Ok(())),
            ("http://evil.example/mcp", Err(HostError::Host)),
            ("http://x@127.0.0.1:4180/mcp", Err(HostError::Host)),
            ("ftp://127.0.0.1:4180/mcp", Err(HostError::Host)),
            ("evil.example:443", Err(HostError::Host)),
        ];
        for (target, expected) in cases {
            assert_eq!(ours.check_target(&target.parse().unwrap()), expected, "{target}");
        }
    }

    #[test]
    fn the_public_host_is_answered_and_recognised() {
        let ours = AllowedHosts::new("127.0.0.1:4180".parse().unwrap(), &[], false)
            .with_public(&Issuer::parse("https://gate.example").unwrap());
        for (host, expected) in [
            ("gate.example", Some(true)),
            ("GATE.example", Some(true)),
            ("127.0.0.1:4180", Some(false)),
            ("gate.example:4180", None),
            ("gate.example.evil.example", None),
        ] {
            let headers = headers(&[("host", host)]);
            let found = ours.check(&headers).ok().map(|()| ours.is_public(&headers));
            assert_eq!(found, expected, "{host}");
        }
    }

    #[test]
    fn only_our_own_names_are_answered() {
        let ours =
            AllowedHosts::new("127.0.0.1:4180".parse().unwrap(), &["gate.example".into()], false);
        let cases: &[Case] = &[
            (&[("host", "127.0.0.1:4180")], Ok(())),
            (&[("host", "localhost:4180")], Ok(())),
            (&[("host", "LOCALHOST:4180")], Ok(())),
            (&[("host", "[::1]:4180")], Ok(())),
            (&[("host", "gate.example")], Ok(())),
            (&[("host", "gate.example:4180")], Ok(())),
            (&[("host", "localhost:4181")], Err(HostError::Host)),
            (&[("host", "localhost")], Err(HostError::Host)),
            (&[("host", "evil.example")], Err(HostError::Host)),
            (&[("host", "localhost:4180.evil.example")], Err(HostError::Host)),
            (&[("host", "localhost:4180"), ("host", "evil.example")], Err(HostError::NoHost)),
            (&[], Err(HostError::NoHost)),
            (&[("host", "localhost:4180"), ("origin", "http://localhost:4180")], Ok(())),
            (&[("host", "gate.example"), ("origin", "https://gate.example")], Ok(())),
            (
                &[("host", "localhost:4180"), ("origin", "http://evil.example")],
                Err(HostError::Origin),
            ),
            (&[("host", "localhost:4180"), ("origin", "null")], Err(HostError::Origin)),
            (
                &[("host", "localhost:4180"), ("origin", "http://localhost:9999")],
                Err(HostError::Origin),
            ),
            (
                &[
                    ("host", "localhost:4180"),
                    ("origin", "http://localhost:4180"),
                    ("origin", "http://evil.example"),
                ],
                Err(HostError::Origin),
            ),
        ];
        for (pairs, expected) in cases {
            assert_eq!(ours.check(&headers(pairs)), *expected, "{pairs:?}");
        }
    }
}
