//! `url_host_in`: the host that a browser would reach. A URL whose host other programs could read
//! differently (backslashes, several `@`, missing slashes, white space), and one with a control character
//! anywhere, is indeterminate.

use std::collections::HashSet;
use std::net::IpAddr;

use ipnet::IpNet;
use url::{Host, Url};

use super::{Case, Test, fails, holds, unclear};
use crate::problem::Complaint;
use crate::tree::Node;
use crate::truth_value::TruthValue;

#[derive(Default)]
struct Hosts {
    names: HashSet<String>,
    /// Names whose subdomains are meant.
    parents: HashSet<String>,
    addresses: HashSet<IpAddr>,
    networks: Vec<IpNet>,
}

enum Reached {
    Name(String),
    Address(IpAddr),
}

pub(super) fn url_host_in(value: &Node) -> Result<Test, Complaint> {
    let mut hosts = Hosts::default();
    for text in value.items_or_self().iter().filter_map(Node::as_text) {
        hosts.add(text)?;
    }
    Ok(Test::on_text(move |url| {
        reached_by(url).map_or(TruthValue::Indeterminate, |host| hosts.have(&host))
    }))
}

impl Hosts {
    fn add(&mut self, text: &str) -> Result<(), Complaint> {
        if let Ok(network) = text.parse::<IpNet>() {
            self.networks.push(network.trunc());
            return Ok(());
        }
        let (parent, name) = match text.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, text),
        };
        let host = match name.parse::<IpAddr>() {
            Ok(address) => Some(Reached::Address(address.to_canonical())),
            Err(_) if name.contains('*') => None,
            Err(_) => Host::parse(name).ok().and_then(settled),
        };
        match host {
            Some(Reached::Name(name)) if parent => drop(self.parents.insert(name)),
            Some(Reached::Name(name)) => drop(self.names.insert(name)),
            Some(Reached::Address(address)) if !parent => drop(self.addresses.insert(address)),
            _ => {
                return Err(Complaint::new(format!("`{text}` is not a host")).hint(
                    "write `example.com`, `*.example.com`, an address or a network such as `10.0.0.0/8`, without scheme or port",
                ));
            }
        }
        Ok(())
    }

    fn have(&self, host: &Reached) -> TruthValue {
        TruthValue::of(match host {
            Reached::Address(address) => {
                self.addresses.contains(address)
                    || self.networks.iter().any(|network| network.contains(address))
            }
            Reached::Name(name) => self.names.contains(name) || self.have_parent_of(name),
        })
    }

    fn have_parent_of(&self, name: &str) -> bool {
        let mut rest = name;
        while let Some((_, parent)) = rest.split_once('.') {
            if self.parents.contains(parent) {
                return true;
            }
            rest = parent;
        }
        false
    }
}

fn reached_by(url: &str) -> Option<Reached> {
    if !has_one_authority(url) {
        return None;
    }
    match Url::parse(url).ok()?.host()? {
        // In schemes that browsers do not know, the host is left as written; other programs read it.
        Host::Domain(name) => Host::parse(name).ok().and_then(settled),
        Host::Ipv4(address) => Some(Reached::Address(address.into())),
        Host::Ipv6(address) => Some(Reached::Address(IpAddr::from(address).to_canonical())),
    }
}

/// Whether every reader takes the same part of the text for the authority.
fn has_one_authority(url: &str) -> bool {
    // A line feed behind the host begins a header or another request in programs that paste the URL into
    // one, and a NUL ends the text in others. Browsers drop some of these, so they read another URL.
    if url.chars().any(|c| c.is_control() || c.is_whitespace() && c != ' ') {
        return false;
    }
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    let mut scheme_bytes = scheme.bytes();
    let scheme_reads = scheme_bytes.next().is_some_and(|first| first.is_ascii_alphabetic())
        && scheme_bytes.all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let odd = |c: char| c == '\\' || c.is_whitespace() || c.is_control();
    let plain = !authority.is_empty() && !authority.contains(odd);
    scheme_reads && plain && authority.matches('@').count() <= 1
}

/// A host in one spelling: no final point, no empty label, IPv4 inside IPv6 as IPv4.
fn settled(host: Host<String>) -> Option<Reached> {
    match host {
        Host::Ipv4(address) => Some(Reached::Address(address.into())),
        Host::Ipv6(address) => Some(Reached::Address(IpAddr::from(address).to_canonical())),
        Host::Domain(name) => {
            let name = name.strip_suffix('.').unwrap_or(&name);
            let whole = name.split('.').all(|label| !label.is_empty());
            whole.then(|| Reached::Name(name.to_owned()))
        }
    }
}

pub(super) const URL_HOST_IN: &[Case] = &[
    holds("[\"good.com\"]", "\"https://good.com/path?q=1\""),
    holds("\"good.com\"", "\"https://GOOD.com\""),
    holds("[\"good.com\"]", "\"https://good.com:8443/\""),
    holds("[\"good.com\"]", "\"https://good.com./\""),
    holds("[\"good.com\"]", "\"https://user:pass@good.com/\""),
    holds("[\"good.com\"]", "\"https://%67ood.com/\""),
    holds("[\"good.com\"]", "\"https://\\uff47ood.com/\""),
    holds("[\"b\\u00fccher.example\"]", "\"https://xn--bcher-kva.example/\""),
    holds("[\"xn--bcher-kva.example\"]", "\"https://B\\u00dcCHER.example/\""),
    fails("[\"good.com\"]", "\"https://good.com.evil.org/\""),
    fails("[\"good.com\"]", "\"https://evilgood.com/\""),
    fails("[\"good.com\"]", "\"https://sub.good.com/\""),
    fails("[\"good.com\"]", "\"https://good.com@evil.org/\""),
    fails("[\"good.com\"]", "\"https://good.com:80@evil.org/\""),
    fails("[\"good.com\"]", "\"https://evil.org/good.com\""),
    fails("[\"good.com\"]", "\"https://evil.org#@good.com/\""),
    fails("[\"good.com\"]", "\"https://evil.org?@good.com/\""),
    fails("[\"paypal.com\"]", "\"https://p\\u0430ypal.com/\""),
    holds("[\"*.good.com\"]", "\"https://a.b.good.com/\""),
    fails("[\"*.good.com\"]", "\"https://good.com/\""),
    fails("[\"*.good.com\"]", "\"https://notgood.com/\""),
    holds("[\"127.0.0.1\"]", "\"http://0x7f.1/\""),
    holds("[\"127.0.0.1\"]", "\"http://2130706433/\""),
    holds("[\"127.0.0.1\"]", "\"http://0177.0.0.01/\""),
    holds("[\"127.0.0.1\"]", "\"http://127.1/\""),
    holds("[\"127.0.0.1\"]", "\"http://127.0.0.1./\""),
    holds("[\"127.0.0.1\"]", "\"http://[::ffff:127.0.0.1]/\""),
    holds("[\"127.0.0.1\"]", "\"http://\\u2460\\u2461\\u2466.0.0.1/\""),
    holds("[\"::1\"]", "\"http://[0:0:0:0:0:0:0:1]:80/\""),
    holds("[\"[::1]\"]", "\"http://[::1]/\""),
    holds("[\"10.0.0.0/8\"]", "\"http://10.1.2.3/\""),
    holds("[\"127.0.0.0/8\"]", "\"http://0x7f.1/\""),
    holds("[\"169.254.0.0/16\"]", "\"http://[::ffff:169.254.169.254]/\""),
    holds("[\"fc00::/7\"]", "\"http://[fd00::1]/\""),
    fails("[\"10.0.0.0/8\"]", "\"http://11.0.0.1/\""),
    fails("[\"10.0.0.0/8\"]", "\"http://10.example.com/\""),
    holds("[\"good.com\"]", "\"ftp://good.com/\""),
    holds("[\"good.com\"]", "\"git+ssh://git@GOOD.com/x\""),
    unclear("[\"good.com\"]", "\"https://good.com\\\\@evil.org/\""),
    unclear("[\"good.com\"]", "\"https:\\\\\\\\good.com/\""),
    unclear("[\"good.com\"]", "\"https://a@good.com@evil.org/\""),
    unclear("[\"good.com\"]", "\"https:good.com\""),
    unclear("[\"good.com\"]", "\"https:/good.com\""),
    unclear("[\"good.com\"]", "\"https:///good.com\""),
    unclear("[\"good.com\"]", "\"//good.com/\""),
    unclear("[\"good.com\"]", "\"good.com\""),
    unclear("[\"good.com\"]", "\" https://good.com/\""),
    unclear("[\"good.com\"]", "\"https://go\\tod.com/\""),
    unclear("[\"good.com\"]", "\"ht\\ntps://good.com/\""),
    unclear("[\"good.com\"]", "\"https://good.com/\\r\\nHost: evil.org\""),
    unclear("[\"good.com\"]", "\"https://good.com/a\\nb\""),
    unclear("[\"good.com\"]", "\"https://good.com/\\u0000\""),
    unclear("[\"good.com\"]", "\"https://good.com?\\u0000.evil.org\""),
    unclear("[\"good.com\"]", "\"https://good.com/#\\u0085\""),
    unclear("[\"good.com\"]", "\"https://good.com/a\\t\""),
    unclear("[\"good.com\"]", "\"https://good.com/\\u2028\""),
    unclear("[\"good.com\"]", "\"https://good.com%2f.evil.org/\""),
    unclear("[\"good.com\"]", "\"https://good.com../\""),
    unclear("[\"good.com\"]", "\"https://good.com:99999/\""),
    unclear("[\"fe80::1\"]", "\"http://[fe80::1%25eth0]/\""),
    unclear("[\"good.com\"]", "\"http://256.256.256.256/\""),
    unclear("[\"good.com\"]", "\"javascript:alert(1)//good.com\""),
    unclear("[\"good.com\"]", "\"file:///etc/passwd\""),
    unclear("[\"good.com\"]", "\"blob:https://good.com/x\""),
    unclear("[\"good.com\"]", "\"\""),
    unclear("[\"good.com\"]", "[\"https://good.com/\"]"),
    unclear("[\"good.com\"]", "null"),
];
