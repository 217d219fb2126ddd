//! Bounds failed sign-ins of one address. Secrets cannot be guessed; this bounds the work and the audit rows
//! that guessing costs.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};

/// So many failures in a row are answered.
const FAILURES_MAX: i64 = 10;
/// After so long one more is.
const FORGIVEN_EVERY_US: i64 = 6 * 1_000_000;
/// Addresses that are remembered; beyond it the one that failed longest ago is forgotten.
const ADDRESSES_MAX: usize = 1024;

#[derive(Default)]
pub(crate) struct SignInLimit {
    /// When the last failure of an address is forgiven.
    until: Mutex<HashMap<String, i64>>,
}

impl SignInLimit {
    /// The seconds to wait, if this address has failed too often.
    pub(crate) fn wait_seconds(&self, remote: &str, now_us: i64) -> Option<u64> {
        let until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        let until_us = until.get(&source(remote)).copied()?;
        let over_us = until_us - now_us - (FAILURES_MAX - 1) * FORGIVEN_EVERY_US;
        (over_us > 0).then(|| over_us.unsigned_abs().div_ceil(1_000_000))
    }

    pub(crate) fn failed(&self, remote: &str, now_us: i64) {
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        let source = source(remote);
        if until.len() >= ADDRESSES_MAX && !until.contains_key(&source) {
            until.retain(|_, until_us| *until_us > now_us);
            let oldest = until.iter().min_by_key(|(_, until_us)| **until_us);
            let oldest = oldest.map(|(source, _)| source.clone());
            if let Some(oldest) = oldest.filter(|_| until.len() >= ADDRESSES_MAX) {
                until.remove(&oldest);
            }
        }
        let entry = until.entry(source).or_insert(now_us);
        *entry = (*entry).max(now_us).saturating_add(FORGIVEN_EVERY_US);
    }

    /// Takes back one failure, of a sign-in that was counted when it began and whose result is counted now.
    pub(crate) fn take_back(&self, remote: &str) {
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(until_us) = until.get_mut(&source(remote)) {
            *until_us = until_us.saturating_sub(FORGIVEN_EVERY_US);
        }
    }

    pub(crate) fn succeeded(&self, remote: &str) {
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        until.remove(&source(remote));
    }
}

/// The address without its port; the network of an IPv6 address, because its owner has all of it.
fn source(remote: &str) -> String {
    let Ok(address) = remote.parse::<SocketAddr>() else { return remote.to_owned() };
    match address.ip().to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    #[test]
    fn the_eleventh_failure_of_an_address_waits() {
        let limit = SignInLimit::default();
        for _ in 0..FAILURES_MAX {
            assert_eq!(limit.wait_seconds("192.0.2.1:50000", 0), None);
            limit.failed("192.0.2.1:50001", 0);
        }
        assert_eq!(limit.wait_seconds("192.0.2.1:50002", 0), Some(6));
        assert_eq!(limit.wait_seconds("192.0.2.2:50000", 0), None, "another address");
        assert_eq!(limit.wait_seconds("192.0.2.1:1", 6 * SECOND), None);
        limit.failed("192.0.2.1:1", 6 * SECOND);
        assert!(limit.wait_seconds("192.0.2.1:1", 6 * SECOND).is_some());
        limit.take_back("192.0.2.1:1");
        assert_eq!(limit.wait_seconds("192.0.2.1:1", 6 * SECOND), None);
        limit.failed("192.0.2.1:1", 6 * SECOND);
        limit.succeeded("192.0.2.1:9");
        assert_eq!(limit.wait_seconds("192.0.2.1:1", 6 * SECOND), None);
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_address() {
        let limit = SignInLimit::default();
        for number in 0..FAILURES_MAX {
            limit.failed(&format!("[2001:db8::{number}]:443"), 0);
        }
        assert!(limit.wait_seconds("[2001:db8::ffff]:443", 0).is_some());
        assert!(limit.wait_seconds("[2001:db8:0:1::1]:443", 0).is_none());
    }

    #[test]
    fn memory_is_bounded() {
        let limit = SignInLimit::default();
        for number in 0..5_000_u32 {
            limit.failed(&format!("{}:1", std::net::Ipv4Addr::from_bits(number)), 0);
        }
        assert_eq!(limit.until.lock().map(|until| until.len()).ok(), Some(ADDRESSES_MAX));
    }
}
