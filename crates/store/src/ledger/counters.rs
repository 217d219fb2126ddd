//! All counters: which counter a limit uses, whether every window has room, and adding or returning
//! amounts. All holds of a call are taken or none.

use std::sync::Arc;

use hashbrown::HashMap;
use policy::Scope;
use sha2::{Digest, Sha256};

use super::chain;
use super::sliding_window::{RetryAfter, SlidingWindow, Units};

/// A non-session counter is kept at least this long, so that a limit with a longer window that is
/// used for the first time knows earlier calls.
const HISTORY_US_MIN: u64 = 24 * 60 * 60 * 1_000_000;

/// A longer part of a key is replaced by its prefix and its hash.
const KEY_PART_BYTES_MAX: usize = 256;

/// Identifies one counter: its owner and what it counts. One string, so that a look-up allocates
/// nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key(Arc<str>);

impl std::borrow::Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Key {
    /// Scope, length of the id, id, counter: unambiguous.
    pub(crate) fn write(scope: Scope, id: &str, counter: &str, out: &mut String) {
        let (mut long_id, mut long_counter) = (String::new(), String::new());
        let id = bounded(id, &mut long_id);
        let counter = bounded(counter, &mut long_counter);
        out.clear();
        for part in [scope.as_str(), ":", itoa::Buffer::new().format(id.len()), ":", id, counter] {
            out.push_str(part);
        }
    }

    /// Splits it into scope, id and counter.
    pub(crate) fn parts(&self) -> (&str, &str, &str) {
        let parts = || {
            let (scope, rest) = self.0.split_once(':')?;
            let (bytes, rest) = rest.split_once(':')?;
            let (id, counter) = rest.split_at_checked(bytes.parse().ok()?)?;
            Some((scope, id, counter))
        };
        parts().unwrap_or_default()
    }

    pub(crate) fn from_parts(scope: &str, id: &str, counter: &str) -> Option<Key> {
        let mut text = String::new();
        Key::write(Scope::from_name(scope)?, id, counter, &mut text);
        Some(Key(text.into()))
    }

    /// Whether an older version counted it per session: then the id is `grant/session`.
    fn is_of_a_session(&self) -> bool {
        self.0.starts_with(Scope::Session.as_str()) && self.parts().1.contains('/')
    }
}

fn bounded<'a>(part: &'a str, long: &'a mut String) -> &'a str {
    if part.len() <= KEY_PART_BYTES_MAX {
        return part;
    }
    let keep = part.floor_char_boundary(KEY_PART_BYTES_MAX / 2);
    long.push_str(part.get(..keep).unwrap_or_default());
    long.push('…');
    long.push_str(chain::as_text(&chain::hex(&Sha256::digest(part))));
    long
}

/// One limit that applies to a call.
#[derive(Clone, Debug)]
pub(crate) struct LimitUse {
    pub(crate) key: Key,
    /// The counter as older versions named it (by label); it continues under the key.
    pub(crate) former: Option<Key>,
    pub(crate) window_us: u64,
    pub(crate) max: Units,
    pub(crate) amount: Units,
}

/// What a call added to one counter: one event, whatever the number of limits on that counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) key: Key,
    pub(crate) former: Option<Key>,
    pub(crate) amount: Units,
    pub(crate) windows_us: Vec<u64>,
}

/// The exceeded limit: its index among the limits of the call, and how long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exceeded {
    pub(crate) limit: usize,
    pub(crate) wait: RetryAfter,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    keys: HashMap<Key, Vec<SlidingWindow>>,
}

impl Counters {
    /// The key with this text, shared with the counter if there is one.
    pub(crate) fn key(&self, text: &str) -> Key {
        self.keys.get_key_value(text).map_or_else(|| Key(text.into()), |(key, _)| key.clone())
    }

    /// The counter with this text, if it exists.
    pub(crate) fn known(&self, text: &str) -> Option<Key> {
        self.keys.get_key_value(text).map(|(key, _)| key.clone())
    }

    /// One event per distinct key; limits that share one are counted with the larger amount.
    pub(crate) fn group(limit_uses: &[LimitUse]) -> Vec<Taken> {
        let mut all: Vec<Taken> = Vec::with_capacity(limit_uses.len());
        for limit in limit_uses {
            match all.iter_mut().find(|taken| taken.key == limit.key) {
                Some(taken) => {
                    taken.amount = taken.amount.max(limit.amount);
                    if !taken.windows_us.contains(&limit.window_us) {
                        taken.windows_us.push(limit.window_us);
                    }
                }
                None => all.push(Taken {
                    key: limit.key.clone(),
                    former: limit.former.clone(),
                    amount: limit.amount,
                    windows_us: vec![limit.window_us],
                }),
            }
        }
        all
    }

    /// Whether every limit has room. If not, the one with the longest wait.
    pub(crate) fn check(
        &mut self,
        limit_uses: &[LimitUse],
        taken: &[Taken],
        now: u64,
    ) -> Result<(), Exceeded> {
        let mut worst: Option<Exceeded> = None;
        for (index, limit) in limit_uses.iter().enumerate() {
            let event = taken.iter().find(|taken| taken.key == limit.key);
            let amount = event.map_or(limit.amount, |event| event.amount);
            if let Err(wait) = self.check_limit(limit, amount, now)
                && worst.is_none_or(|over| wait > over.wait)
            {
                worst = Some(Exceeded { limit: index, wait });
            }
        }
        worst.map_or(Ok(()), Err)
    }

    fn check_limit(&mut self, limit: &LimitUse, amount: Units, now: u64) -> Result<(), RetryAfter> {
        let key = limit.former.as_ref().unwrap_or(&limit.key);
        match self.keys.get_mut(key) {
            Some(all) => match window_of(all, limit.window_us, now) {
                Some(window) => window.fits(now, amount, limit.max),
                None => Err(RetryAfter::Never),
            },
            None => SlidingWindow::new(limit.window_us).fits(now, amount, limit.max),
        }
    }

    pub(crate) fn take(&mut self, taken: &[Taken], tick: u64) {
        for Taken { key, former, amount, windows_us } in taken {
            // Moved, not copied: the next grant of that label starts at zero.
            if let Some(all) = former.as_ref().and_then(|was| self.keys.remove(was)) {
                self.keys.insert(key.clone(), all);
            }
            let all = match self.keys.get_mut(key) {
                Some(all) => all,
                None => self.keys.entry(key.clone()).or_default(),
            };
            for window_us in windows_us {
                window_of(all, *window_us, tick);
            }
            if !key.is_of_a_session() {
                window_of(all, HISTORY_US_MIN, tick);
            }
            for window in all {
                window.push(tick, *amount);
            }
        }
    }

    pub(crate) fn give_back(&mut self, taken: &[Taken], tick: u64, now: u64) {
        for Taken { key, amount, .. } in taken {
            for window in self.keys.get_mut(key).into_iter().flatten() {
                window.give_back(tick, *amount, now);
            }
        }
    }

    /// Drops events that no longer count.
    pub(crate) fn forget_expired(&mut self, now: u64) {
        self.keys.retain(|_, all| {
            for window in all.iter_mut() {
                window.forget_expired(now);
            }
            all.iter().any(|window| !window.is_empty())
        });
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Key, &[SlidingWindow])> {
        self.keys.iter().map(|(key, all)| (key, all.as_slice()))
    }

    /// Restores a window from a state row.
    pub(crate) fn restore(&mut self, key: Key, window_us: u64, events: &[(u64, Units)]) {
        let mut window = SlidingWindow::new(window_us);
        for (tick, amount) in events {
            window.push(*tick, *amount);
        }
        self.keys.entry(key).or_default().push(window);
    }
}

/// The sliding window of a length; a new one is seeded from the longest existing one.
fn window_of(all: &mut Vec<SlidingWindow>, window_us: u64, now: u64) -> Option<&mut SlidingWindow> {
    let found = all.iter().position(|window| window.window_us() == window_us);
    let index = found.unwrap_or_else(|| {
        let longest = all.iter().max_by_key(|window| window.window_us());
        let window =
            longest.map_or_else(|| SlidingWindow::new(window_us), |s| s.seed(window_us, now));
        all.push(window);
        all.len() - 1
    });
    all.get_mut(index)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::{Counters, Exceeded, Key, LimitUse, RetryAfter, Scope};

    fn limit(
        counters: &Counters,
        counter: &str,
        window_us: u64,
        max: i128,
        amount: i128,
    ) -> LimitUse {
        let mut text = String::new();
        Key::write(Scope::Grant, "alice", counter, &mut text);
        LimitUse { key: counters.key(&text), former: None, window_us, max, amount }
    }

    fn admit(counters: &mut Counters, limit_uses: &[LimitUse], now: u64) -> Result<(), Exceeded> {
        let taken = Counters::group(limit_uses);
        counters.check(limit_uses, &taken, now)?;
        counters.take(&taken, now);
        Ok(())
    }

    #[test]
    fn all_holds_of_a_call_are_taken_or_none() {
        let mut counters = Counters::default();
        let wide = limit(&counters, "wide", 100, 10, 1);
        let narrow = limit(&counters, "narrow", 100, 1, 1);
        let both = [wide.clone(), narrow];
        assert_eq!(admit(&mut counters, &both, 0), Ok(()));
        for _ in 0..20 {
            assert_eq!(
                admit(&mut counters, &both, 1),
                Err(Exceeded { limit: 1, wait: RetryAfter::Us(99) })
            );
        }
        for _ in 0..9 {
            assert_eq!(admit(&mut counters, std::slice::from_ref(&wide), 2), Ok(()));
        }
        assert!(admit(&mut counters, &[wide], 2).is_err());
    }

    #[test]
    fn the_longest_wait_is_named() {
        let mut counters = Counters::default();
        let limits = [
            limit(&counters, "a", 10, 1, 1),
            limit(&counters, "b", 70, 1, 1),
            limit(&counters, "a", 50, 1, 1),
        ];
        assert_eq!(admit(&mut counters, &limits, 0), Ok(()));
        assert_eq!(
            admit(&mut counters, &limits, 5),
            Err(Exceeded { limit: 1, wait: RetryAfter::Us(65) })
        );
    }

    #[test]
    fn two_limits_on_one_counter_count_one_event_of_the_larger_amount() {
        let mut counters = Counters::default();
        let limits =
            [limit(&counters, "spend", 100, 10, 3), limit(&counters, "spend", 1_000, 10, 4)];
        assert_eq!(admit(&mut counters, &limits, 0), Ok(()));
        assert_eq!(admit(&mut counters, &limits, 1), Ok(()));
        assert_eq!(
            admit(&mut counters, &limits, 2),
            Err(Exceeded { limit: 1, wait: RetryAfter::Us(998) })
        );
        let six = [limit(&counters, "spend", 1_000, 14, 6)];
        assert_eq!(admit(&mut counters, &six, 2), Ok(()), "8 were counted, not 14");
    }

    #[test]
    fn a_longer_window_met_later_knows_what_was_admitted_before() {
        let mut counters = Counters::default();
        let minute = 60_000_000;
        for call in 0..5 {
            let short = [limit(&counters, "shared", minute, 1, 1)];
            assert_eq!(admit(&mut counters, &short, call * minute), Ok(()));
        }
        let long = [limit(&counters, "shared", 60 * minute, 5, 1)];
        let over = admit(&mut counters, &long, 5 * minute).unwrap_err();
        assert_eq!(over.wait, RetryAfter::Us(55 * minute));
    }

    #[test]
    fn different_keys_are_written_differently_and_read_back() {
        let long = "x".repeat(5_000);
        let parts = [
            (Scope::Grant, "a", "bc"),
            (Scope::Grant, "ab", "c"),
            (Scope::Session, "a", "bc"),
            (Scope::Everyone, "", "bc"),
            (Scope::Server, "a:1:", "\u{1f}é"),
            (Scope::Grant, &long, "bc"),
            (Scope::Grant, &format!("{long}y"), "bc"),
        ];
        let mut seen = std::collections::HashSet::new();
        for (scope, id, counter) in parts {
            let key = Key::from_parts(scope.as_str(), id, counter).unwrap();
            assert!(key.0.len() < 1_000);
            let (scope_again, id_again, counter_again) = key.parts();
            assert_eq!((scope_again, counter_again), (scope.as_str(), counter));
            assert!(id.starts_with(id_again.split('…').next().unwrap()));
            let again = Key::from_parts(scope_again, id_again, counter_again).unwrap();
            assert_eq!(again, key);
            assert!(seen.insert(key));
        }
    }

    #[test]
    fn removed_counters_leave_nothing_behind() {
        let mut counters = Counters::default();
        let limit = [limit(&counters, "a", 10, 1, 1)];
        admit(&mut counters, &limit, 0).unwrap();
        counters.forget_expired(super::HISTORY_US_MIN);
        assert_eq!(counters, Counters::default());
    }
}
