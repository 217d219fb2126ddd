//! Host and Origin: a page in the owner's browser must not reach the gate under a borrowed name
//! (DNS rebinding), whatever token it may hold.

use std::net::{IpAddr, SocketAddr};

use hashbrown::HashSet;
use hyper::header::{HOST, ORIGIN};
use hyper::{HeaderMap, Uri};

/// The names under which this gate may be addressed.
#[derive(Clone, Debug)]
pub(crate) struct AllowedHosts {
    hosts: HashSet<String>,
    origins: HashSet<String>,
}

/// Why a request was turned away before anything was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misdirected {
    NoHost,
    Host,
    Origin,
}

impl Misdirected {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Misdirected::NoHost => "the request has no usable Host header",
            Misdirected::Host => {
                "this Host is not one of the gate's names; add it to `hostnames` in tollgate.toml"
            }
            Misdirected::Origin => {
                "pages of this Origin may not call the gate; add its host to `hostnames` in tollgate.toml"
            }
        }
    }
}

impl AllowedHosts {
    /// Loopback names at the listening port, the listening address itself, and what the owner listed.
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
            // Behind a proxy of the owner's the port in the URL is the proxy's.
            if hostnames.iter().any(|listed| listed.eq_ignore_ascii_case(&name)) {
                hosts.insert(name);
            }
        }
        let mut origins: HashSet<String> =
            hosts.iter().map(|host| format!("{scheme}://{host}")).collect();
        origins
            .extend(hostnames.iter().map(|name| format!("https://{}", name.to_ascii_lowercase())));
        AllowedHosts { hosts, origins }
    }

    /// A target that names a host itself (absolute form) must name one of ours, too: by RFC 9112 it
    /// counts more than the Host header.
    pub(crate) fn check_target(&self, target: &Uri) -> Result<(), Misdirected> {
        if target.scheme_str().is_some_and(|scheme| scheme != "http" && scheme != "https") {
            return Err(Misdirected::Host);
        }
        match target.authority() {
            Some(authority) if !holds(&self.hosts, authority.as_str()) => Err(Misdirected::Host),
            _ => Ok(()),
        }
    }

    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), Misdirected> {
        let mut hosts = headers.get_all(HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok()).ok_or(Misdirected::NoHost)?;
        if hosts.next().is_some() {
            return Err(Misdirected::NoHost);
        }
        if !holds(&self.hosts, host) {
            return Err(Misdirected::Host);
        }
        for origin in headers.get_all(ORIGIN) {
            let origin = origin.to_str().map_err(|_| Misdirected::Origin)?;
            if !holds(&self.origins, origin) {
                return Err(Misdirected::Origin);
            }
        }
        Ok(())
    }
}

/// Almost every request spells its host in lower case, so look before folding.
fn holds(set: &HashSet<String>, text: &str) -> bool {
    set.contains(text)
        || text.bytes().any(|b| b.is_ascii_uppercase()) && set.contains(&text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    type Case = (&'static [(&'static str, &'static str)], Result<(), Misdirected>);

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
            ("http://evil.example/mcp", Err(Misdirected::Host)),
            ("http://x@127.0.0.1:4180/mcp", Err(Misdirected::Host)),
            ("ftp://127.0.0.1:4180/mcp", Err(Misdirected::Host)),
            ("evil.example:443", Err(Misdirected::Host)),
        ];
        for (target, expected) in cases {
            assert_eq!(ours.check_target(&target.parse().unwrap()), expected, "{target}");
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
            (&[("host", "localhost:4181")], Err(Misdirected::Host)),
            (&[("host", "localhost")], Err(Misdirected::Host)),
            (&[("host", "evil.example")], Err(Misdirected::Host)),
            (&[("host", "localhost:4180.evil.example")], Err(Misdirected::Host)),
            (&[("host", "localhost:4180"), ("host", "evil.example")], Err(Misdirected::NoHost)),
            (&[], Err(Misdirected::NoHost)),
            (&[("host", "localhost:4180"), ("origin", "http://localhost:4180")], Ok(())),
            (&[("host", "gate.example"), ("origin", "https://gate.example")], Ok(())),
            (
                &[("host", "localhost:4180"), ("origin", "http://evil.example")],
                Err(Misdirected::Origin),
            ),
            (&[("host", "localhost:4180"), ("origin", "null")], Err(Misdirected::Origin)),
            (
                &[("host", "localhost:4180"), ("origin", "http://localhost:9999")],
                Err(Misdirected::Origin),
            ),
            (
                &[
                    ("host", "localhost:4180"),
                    ("origin", "http://localhost:4180"),
                    ("origin", "http://evil.example"),
                ],
                Err(Misdirected::Origin),
            ),
        ];
        for (pairs, expected) in cases {
            assert_eq!(ours.check(&headers(pairs)), *expected, "{pairs:?}");
        }
    }
}
