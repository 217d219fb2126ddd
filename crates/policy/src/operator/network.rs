//! `cidr_in`: addresses and networks. Text that other programs might read as another address, such as
//! `0177.0.0.1` or `2130706433`, is indeterminate.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};

use super::{Case, Test, fails, holds, unclear};
use crate::problem::Complaint;
use crate::tree::Node;
use crate::truth_value::TruthValue;

pub(super) fn cidr_in(value: &Node) -> Result<Test, Complaint> {
    let texts = value.items_or_self().iter().filter_map(Node::as_text);
    let networks: Vec<IpNet> = texts.map(read_network).collect::<Result<_, _>>()?;
    Ok(Test::on_text(move |text| {
        let Some(given) = read(text) else { return TruthValue::Indeterminate };
        networks
            .iter()
            .map(|network| inside(given, network))
            .fold(TruthValue::Fails, TruthValue::or)
    }))
}

fn read_network(text: &str) -> Result<IpNet, Complaint> {
    read(text).ok_or_else(|| {
        Complaint::new(format!("`{text}` is not a network"))
            .hint("write `10.0.0.0/8` or `fd00::/8`")
    })
}

/// An address is a network of one. IPv4 inside IPv6 counts as IPv4.
fn read(text: &str) -> Option<IpNet> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_canonical().into());
    }
    let network = text.parse::<IpNet>().ok()?.trunc();
    Some(unmapped(network).unwrap_or(network))
}

fn unmapped(network: IpNet) -> Option<IpNet> {
    let IpNet::V6(wide) = network else { return None };
    let bits = wide.prefix_len().checked_sub(96)?;
    let address = wide.addr().to_ipv4_mapped()?;
    Ipv4Net::new(address, bits).ok().map(IpNet::V4)
}

/// A network that is only partly inside is neither in nor out.
fn inside(given: IpNet, network: &IpNet) -> TruthValue {
    if network.contains(&given) {
        TruthValue::Holds
    } else if given.contains(network) {
        TruthValue::Indeterminate
    } else {
        TruthValue::Fails
    }
}

pub(super) const CIDR_IN: &[Case] = &[
    holds("\"10.0.0.0/8\"", "\"10.1.2.3\""),
    fails("\"10.0.0.0/8\"", "\"11.0.0.1\""),
    holds("[\"192.168.0.0/16\",\"fd00::/8\"]", "\"fd12::1\""),
    holds("\"127.0.0.0/8\"", "\"::ffff:127.0.0.1\""),
    holds("\"::ffff:10.0.0.0/104\"", "\"10.9.9.9\""),
    holds("\"10.0.0.1\"", "\"10.0.0.1\""),
    holds("\"10.1.2.3/8\"", "\"10.200.0.1\""),
    holds("\"10.0.0.0/8\"", "\"10.1.0.0/16\""),
    unclear("\"10.1.0.0/16\"", "\"10.0.0.0/8\""),
    fails("\"10.0.0.0/8\"", "\"::1\""),
    unclear("\"127.0.0.0/8\"", "\"0177.0.0.1\""),
    unclear("\"127.0.0.0/8\"", "\"2130706433\""),
    unclear("\"127.0.0.0/8\"", "\"0x7f.1\""),
    unclear("\"127.0.0.0/8\"", "\"127.1\""),
    unclear("\"127.0.0.0/8\"", "\"localhost\""),
    unclear("\"127.0.0.0/8\"", "\" 127.0.0.1\""),
    unclear("\"fe80::/10\"", "\"fe80::1%eth0\""),
    unclear("\"127.0.0.0/8\"", "2130706433"),
    unclear("\"127.0.0.0/8\"", "null"),
];
