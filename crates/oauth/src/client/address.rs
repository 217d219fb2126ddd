//! Which addresses a client may contact when a document names them (SSRF): https only, and no private network
//! unless the server itself is in one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// Which networks may be contacted for one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Public addresses only.
    Public,
    /// Private and loopback addresses too, because the server itself has one.
    Private,
}

/// Why an address is not contacted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressRefused {
    #[error("`{0}` is not an absolute address")]
    NotAUrl(String),
    #[error("`{0}` is not https")]
    NotHttps(String),
    #[error("`{0}` contains a user name, a password or a fragment")]
    Extra(String),
    #[error("`{0}` is a private address, and the server is not in a private network")]
    Private(String),
}

/// Parses and checks an address that a document names. Plain http is allowed for loopback, and only in a private
/// network. Names are checked again by address when they are resolved.
pub fn parse(text: &str, network: Network) -> Result<Url, AddressRefused> {
    let url = Url::parse(text).map_err(|_| AddressRefused::NotAUrl(shown(text)))?;
    check(&url, network)?;
    Ok(url)
}

pub fn check(url: &Url, network: Network) -> Result<(), AddressRefused> {
    let Some(host) = url.host() else { return Err(AddressRefused::NotAUrl(shown(url.as_str()))) };
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return Err(AddressRefused::Extra(host.to_string()));
    }
    let is_here = is_loopback(&host);
    match url.scheme() {
        "https" => {}
        "http" if is_here && network == Network::Private => {}
        _ => return Err(AddressRefused::NotHttps(shown(url.as_str()))),
    }
    let is_private = match host {
        Host::Ipv4(ip) => is_private(IpAddr::V4(ip)),
        Host::Ipv6(ip) => is_private(IpAddr::V6(ip)),
        Host::Domain(_) => is_here,
    };
    if is_private && network == Network::Public {
        return Err(AddressRefused::Private(host.to_string()));
    }
    Ok(())
}

/// Whether the host means this machine.
pub fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Ipv4(ip) => ip.is_loopback(),
        Host::Ipv6(ip) => ip.is_loopback(),
        Host::Domain(name) => {
            let name = name.trim_end_matches('.');
            name.eq_ignore_ascii_case("localhost")
                || name.to_ascii_lowercase().ends_with(".localhost")
        }
    }
}

/// Whether an address is not a public one: loopback, private, link-local, shared, reserved or multicast, also
/// when it is written as IPv6.
pub fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(ip) => is_private_v4(ip),
        IpAddr::V6(ip) => is_private_v6(ip),
    }
}

fn is_private_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    ip.is_loopback()
        || ip.is_private()
        || ip.is_link_local()
        || ip.is_broadcast()
        || ip.is_documentation()
        || ip.is_multicast()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (18..20).contains(&b))
}

fn is_private_v6(ip: Ipv6Addr) -> bool {
    if let Some(ip) = embedded_v4(ip) {
        return is_private_v4(ip);
    }
    let [first, second, ..] = ip.segments();
    ip.is_loopback()
        || ip.is_unspecified()
        || ip.is_multicast()
        || ip.is_unique_local()
        || ip.is_unicast_link_local()
        || (first == 0x2001 && second == 0xdb8)
        || (first & 0xffc0) == 0xfec0
}

/// The IPv4 address inside a mapped, translated (NAT64) or 6to4 address.
fn embedded_v4(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let [first, second, third, _, _, _, seventh, eighth] = ip.segments();
    let [high, low] = match ip.segments() {
        [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => [seventh, eighth],
        // `::1` and `::` have their own meaning.
        [0, 0, 0, 0, 0, 0, ..] if seventh != 0 => [seventh, eighth],
        _ if first == 0x2002 => [second, third],
        _ => return None,
    };
    let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
    Some(Ipv4Addr::new(a, b, c, d))
}

/// The beginning of a foreign text, without its query.
fn shown(text: &str) -> String {
    const CHARS_MAX: usize = 100;
    let text = text.split(['?', '#']).next().unwrap_or_default();
    text.chars().filter(|c| !c.is_control()).take(CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn rule_17_only_https_to_public_addresses_unless_the_server_is_private() {
        // Address, allowed for a public server, allowed for a private one.
        for (text, public, private) in [
            ("https://auth.example/token", true, true),
            ("https://auth.example:8443/token?x=1", true, true),
            ("http://auth.example/token", false, false),
            ("ftp://auth.example/", false, false),
            ("javascript:alert(1)", false, false),
            ("https://user@auth.example/", false, false),
            ("https://auth.example/#x", false, false),
            ("nothing", false, false),
            ("https://127.0.0.1/", false, true),
            ("https://localhost/", false, true),
            ("https://a.localhost./", false, true),
            ("http://127.0.0.1:9/", false, true),
            ("http://localhost:9/", false, true),
            ("http://10.0.0.1/", false, false),
            ("https://10.0.0.1/", false, true),
            ("https://2130706433/", false, true),
            ("https://0x7f.1/", false, true),
            ("https://[::1]/", false, true),
            ("https://[::ffff:10.0.0.1]/", false, true),
            ("https://169.254.169.254/latest/", false, true),
        ] {
            assert_eq!(parse(text, Network::Public).is_ok(), public, "{text}");
            assert_eq!(parse(text, Network::Private).is_ok(), private, "{text}");
        }
    }

    #[test]
    fn rule_17_private_ranges_are_known_in_every_notation() {
        for ip in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.8.9.10",
            "169.254.169.254",
            "172.16.0.1",
            "192.0.0.1",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:192.168.0.1",
            "::127.0.0.1",
            "64:ff9b::10.0.0.1",
            "2002:7f00:1::",
            "fc00::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(is_private(ip.parse().unwrap()), "{ip}");
        }
        for ip in [
            "1.1.1.1",
            "100.63.0.1",
            "172.32.0.1",
            "2606:4700::1",
            "2002:101:101::",
            "::ffff:8.8.8.8",
        ] {
            assert!(!is_private(ip.parse().unwrap()), "{ip}");
        }
    }

    #[test]
    fn an_error_shows_no_query() {
        let error = parse("http://a.example/?code=s3cret", Network::Public).unwrap_err();
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
}
