//! How fast a service may be asked. What its answers say of the limit counts; the table of a service
//! holds from the moment it shows that it limits at all.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use store::clock::Clock;

use crate::http::Reply;

mod door;

pub use door::Door;

const SECOND_US: u64 = 1_000_000;
/// Two answers whose windows end this close to each other speak of the same window.
const SAME_WINDOW_US: u64 = 2 * SECOND_US;

/// Nobody sits out a longer pause than this; then it is not believed blindly either.
const BELIEVED_US: u64 = 15 * 60 * SECOND_US;
/// When a service that asked for such a pause is asked whether it still holds.
const ASK_AGAIN_US: u64 = 5 * SECOND_US;

/// After a pause one goes first, and the others look this often whether it has its answer.
const SCOUT_LOOK_US: u64 = SECOND_US / 50;
/// A scout that has not come back by then is not waited for.
const SCOUT_US_MAX: u64 = 2 * SECOND_US;

/// Work that yields leaves one of so many requests of a window to others.
const SPARE_SHARE: usize = 20;

/// So many requests in so many seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    pub max: usize,
    pub window_s: u64,
}

/// Whether the table of a service holds a request back, beside the service's own word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    Holds,
    /// It holds, and a little of each window is left for requests that somebody waits for.
    Yields,
    /// The request goes out; the service refuses it if it must.
    Counts,
}

/// The paces of all clients, one for each application of a service.
#[derive(Default)]
pub struct Paces(Mutex<HashMap<String, Arc<Pace>>>);

/// The pace of one application, shared by all who ask in its name.
pub struct Pace {
    gauge: Mutex<Gauge>,
    /// What all processes of a home know. The numbers that answers carry count for all of them
    /// anyway, so only a closed door is worth telling the others.
    door: Option<Door>,
}

impl Paces {
    /// The pace of an application, by the name of the service and the client id.
    pub fn of(
        &self,
        service: &str,
        client: &str,
        limits: &'static [Limit],
        door: impl FnOnce() -> Option<Door>,
    ) -> Arc<Pace> {
        let mut paces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pace = paces.entry(format!("{service} {client}"));
        Arc::clone(pace.or_insert_with(|| {
            Arc::new(Pace { gauge: Mutex::new(Gauge::new(limits)), door: door() })
        }))
    }
}

impl Pace {
    pub fn new(limits: &'static [Limit]) -> Pace {
        Pace { gauge: Mutex::new(Gauge::new(limits)), door: None }
    }

    /// Waits for a turn. A wait longer than `wait_max` is not begun: how long it would be comes back.
    pub async fn turn(
        &self,
        clock: &Clock,
        wait_max: Duration,
        table: Table,
    ) -> Result<(), Duration> {
        let mut waited = Duration::ZERO;
        loop {
            let wait = self.with(|gauge| {
                let now = clock.now();
                if let Some(left_us) = self.door.as_ref().and_then(|door| door.look(now.wall_us)) {
                    gauge.close(now.steady_us.saturating_add(left_us));
                }
                gauge.take(now.steady_us, table)
            });
            let Some(wait) = wait.map(Duration::from_micros) else { return Ok(()) };
            if waited + wait > wait_max {
                return Err(wait);
            }
            tokio::time::sleep(wait).await;
            waited += wait;
        }
    }

    /// Takes note of what an answer says about the limit.
    pub fn learn(&self, clock: &Clock, reply: &Reply) {
        let number = |name: &str| reply.header(name)?.trim().parse::<f64>().ok();
        let us = |seconds: f64| Duration::try_from_secs_f64(seconds).ok();
        let reset = number("x-ratelimit-reset").and_then(us);
        let heard = Heard {
            is_refused: reply.status == 429,
            wait: if reply.status == 429 { reply.wait_asked() } else { reset },
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
            left: number("x-ratelimit-remaining").map(|left| left.clamp(0.0, 1e9) as usize),
            // The limit that is closest stands first.
            limit: reply
                .header("x-ratelimit-limit")
                .and_then(|text| text.split([',', ';']).next()?.trim().parse().ok()),
        };
        let now = clock.now();
        let closed_us = self.with(|gauge| {
            gauge.learn(now.steady_us, &heard);
            gauge.closed_us(now.steady_us)
        });
        if let (Some(door), Some(left_us)) = (&self.door, closed_us) {
            door.close(now.wall_us, left_us);
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Gauge) -> T) -> T {
        act(&mut self.gauge.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The headers of one answer.
struct Heard {
    is_refused: bool,
    wait: Option<Duration>,
    left: Option<usize>,
    limit: Option<usize>,
}

struct Gauge {
    limits: &'static [Limit],
    /// When requests were sent, oldest first, as far back as the longest window.
    sent_us: VecDeque<u64>,
    /// Whether the service has shown that it limits. One that does not is not held back by a table.
    is_limited: bool,
    /// What the service itself says is left, and until when.
    left: Option<(usize, u64)>,
    /// How many of those work that yields does not take.
    spare: usize,
    /// Nobody asks before then.
    closed_until_us: u64,
    scout: Scout,
}

/// All who waited for the end of a pause would ask at once, and most of them would be turned away
/// again. So one of them goes first, and its answer says how many may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scout {
    NotNeeded,
    Wanted,
    Sent { at_us: u64 },
}

impl Gauge {
    fn new(limits: &'static [Limit]) -> Gauge {
        Gauge {
            limits,
            sent_us: VecDeque::new(),
            is_limited: false,
            left: None,
            spare: 0,
            closed_until_us: 0,
            scout: Scout::NotNeeded,
        }
    }

    /// Takes a turn, or says how long there is none.
    fn take(&mut self, now_us: u64, table: Table) -> Option<u64> {
        let wait_us = self.wait_us(now_us, table);
        if let Some(wait_us) = wait_us.or_else(|| self.behind_scout_us(now_us, table)) {
            return Some(wait_us);
        }
        if let Some((left, _)) = &mut self.left {
            *left = left.saturating_sub(1);
        }
        let window_us = self.limits.iter().map(|limit| limit.window_s * SECOND_US).max();
        if let Some(window_us) = window_us {
            self.sent_us.push_back(now_us);
            while self.sent_us.front().is_some_and(|at| now_us.saturating_sub(*at) >= window_us) {
                self.sent_us.pop_front();
            }
        }
        None
    }

    fn wait_us(&mut self, now_us: u64, table: Table) -> Option<u64> {
        if now_us < self.closed_until_us {
            self.scout = Scout::Wanted;
            return Some(self.closed_until_us - now_us);
        }
        let spare = if table == Table::Yields { self.spare } else { 0 };
        match self.left {
            Some((left, until_us)) if now_us >= until_us => {
                if left <= self.spare {
                    self.scout = Scout::Wanted;
                }
                self.left = None;
            }
            Some((left, until_us)) if left <= spare => return Some(until_us - now_us),
            // The service counts what all our processes sent; its word is better than ours.
            Some(_) => return None,
            None => {}
        }
        if !self.is_limited || table == Table::Counts {
            return None;
        }
        let waits = self.limits.iter().filter_map(|limit| {
            let spare = if table == Table::Yields { limit.max / SPARE_SHARE } else { 0 };
            let nth_last = self.sent_us.len().checked_sub(limit.max - spare)?;
            let ends_us = self.sent_us.get(nth_last)? + limit.window_s * SECOND_US;
            ends_us.checked_sub(now_us).filter(|wait| *wait > 0)
        });
        waits.max()
    }

    /// How long one who may ask lets another go first. Nobody who is waited for does.
    fn behind_scout_us(&mut self, now_us: u64, table: Table) -> Option<u64> {
        match self.scout {
            Scout::NotNeeded => None,
            _ if table == Table::Counts => None,
            Scout::Sent { at_us } if now_us.saturating_sub(at_us) < SCOUT_US_MAX => {
                Some(SCOUT_LOOK_US)
            }
            Scout::Wanted | Scout::Sent { .. } => {
                self.scout = Scout::Sent { at_us: now_us };
                None
            }
        }
    }

    /// Another process was told so.
    fn close(&mut self, until_us: u64) {
        self.is_limited = true;
        self.closed_until_us = self.closed_until_us.max(until_us);
    }

    /// For how long nobody may ask, if so.
    fn closed_us(&self, now_us: u64) -> Option<u64> {
        let until_us = match self.left {
            Some((0, until_us)) => until_us.max(self.closed_until_us),
            _ => self.closed_until_us,
        };
        until_us.checked_sub(now_us).filter(|left_us| *left_us > 0)
    }

    fn learn(&mut self, now_us: u64, heard: &Heard) {
        let wait_us = heard.wait.map(|wait| u64::try_from(wait.as_micros()).unwrap_or(u64::MAX));
        self.scout = Scout::NotNeeded;
        if heard.is_refused {
            self.is_limited = true;
            let until_us = now_us.saturating_add(believed(wait_us.unwrap_or(SECOND_US)));
            self.closed_until_us = self.closed_until_us.max(until_us);
        }
        self.spare = heard.limit.map_or(self.spare, |limit| limit / SPARE_SHARE);
        let (Some(left), Some(wait_us)) = (heard.left, wait_us) else { return };
        self.is_limited = true;
        let wait_us = if left == 0 { believed(wait_us) } else { wait_us };
        let until_us = now_us.saturating_add(wait_us);
        self.left = Some(match self.left {
            // Answers overtake each other; within one window the smaller number is the later one.
            Some((known, known_until)) if known_until.abs_diff(until_us) <= SAME_WINDOW_US => {
                (known.min(left), known_until.max(until_us))
            }
            _ => (left, until_us),
        });
    }
}

/// One strange answer does not close the door for a day.
fn believed(wait_us: u64) -> u64 {
    if wait_us > BELIEVED_US { ASK_AGAIN_US } else { wait_us }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const LIMITS: &[Limit] = &[Limit { max: 3, window_s: 60 }, Limit { max: 5, window_s: 600 }];

    fn take(gauge: &mut Gauge, now_us: u64) -> Option<u64> {
        gauge.take(now_us, Table::Holds)
    }

    fn heard(left: usize, reset_s: u64) -> Heard {
        let wait = Some(Duration::from_secs(reset_s));
        Heard { is_refused: false, wait, left: Some(left), limit: None }
    }

    #[test]
    fn a_service_that_says_nothing_of_limits_is_not_held_back() {
        let mut gauge = Gauge::new(LIMITS);
        assert!((0..100).all(|n| take(&mut gauge, n).is_none()));
    }

    #[test]
    fn what_the_service_says_is_left_is_what_is_taken() {
        let mut gauge = Gauge::new(LIMITS);
        gauge.learn(0, &heard(2, 60));
        assert_eq!(
            [take(&mut gauge, 1), take(&mut gauge, 1), take(&mut gauge, 1)],
            [None, None, Some(59_999_999)]
        );
        // An answer to an older request knows of more; it is not believed.
        gauge.learn(2, &heard(50, 60));
        assert_eq!(take(&mut gauge, 3), Some(59_999_999));
        assert_eq!(take(&mut gauge, 60_000_002), None);
    }

    #[test]
    fn a_refusal_closes_the_door_for_as_long_as_it_says() {
        let mut gauge = Gauge::new(LIMITS);
        let refusal = |wait| Heard { is_refused: true, wait, left: None, limit: None };
        gauge.learn(0, &refusal(Some(Duration::from_secs(7))));
        assert_eq!(take(&mut gauge, 1_000_000), Some(6_000_000));
        assert_eq!(take(&mut gauge, 7_000_000), None);
        gauge.learn(8_000_000, &refusal(None));
        assert_eq!(take(&mut gauge, 8_000_000), Some(1_000_000));
    }

    #[test]
    fn after_a_pause_one_goes_first_and_the_others_follow_its_answer() {
        let mut gauge = Gauge::new(&[Limit { max: 100, window_s: 60 }]);
        gauge.learn(0, &heard(0, 1));
        assert_eq!(take(&mut gauge, 1), Some(SECOND_US - 1));
        assert_eq!(take(&mut gauge, SECOND_US), None);
        assert_eq!(take(&mut gauge, SECOND_US), Some(SCOUT_LOOK_US));
        gauge.learn(SECOND_US + 9, &heard(2, 1));
        let after = [0; 3].map(|n| take(&mut gauge, SECOND_US + 10 + n));
        assert_eq!(after, [None, None, Some(SECOND_US - 1)]);
        // One that is lost on the way does not hold the others up for long.
        assert_eq!(take(&mut gauge, 3 * SECOND_US), None);
        assert_eq!(take(&mut gauge, 4 * SECOND_US), Some(SCOUT_LOOK_US));
        assert_eq!(take(&mut gauge, 66 * SECOND_US), None);
    }

    #[test]
    fn a_pause_of_a_day_is_asked_about_again() {
        let mut gauge = Gauge::new(LIMITS);
        let day = Some(Duration::from_hours(24));
        gauge.learn(0, &Heard { is_refused: true, wait: day, left: Some(0), limit: None });
        assert_eq!(take(&mut gauge, 1_000_000), Some(4_000_000));
        assert_eq!(take(&mut gauge, 5_000_000), None);
    }

    #[test]
    fn a_question_that_somebody_waits_for_is_held_back_by_the_service_alone() {
        let mut gauge = Gauge::new(LIMITS);
        gauge.learn(0, &Heard { is_refused: true, wait: None, left: None, limit: None });
        assert_eq!(gauge.take(1, Table::Counts), Some(999_999));
        assert!((0..9).all(|n| gauge.take(SECOND_US + n, Table::Counts).is_none()));
        // All of them count for those who can wait.
        assert!(take(&mut gauge, 2 * SECOND_US).is_some());
        gauge.learn(2 * SECOND_US, &heard(0, 60));
        assert!(gauge.take(3 * SECOND_US, Table::Counts).is_some());
    }

    #[test]
    fn a_sync_leaves_some_requests_of_each_window_to_those_who_wait() {
        let mut gauge = Gauge::new(&[Limit { max: 100, window_s: 60 }]);
        gauge.learn(0, &Heard { limit: Some(100), ..heard(7, 60) });
        assert!(gauge.take(1, Table::Yields).is_none());
        assert!(gauge.take(1, Table::Yields).is_none());
        assert!(gauge.take(1, Table::Yields).is_some(), "five are left");
        assert!((0..5).all(|_| gauge.take(2, Table::Counts).is_none()), "a fresh read is not held");
        assert!(gauge.take(3, Table::Counts).is_some());
        // A small limit is used up: half of it would be too much to leave.
        let mut gauge = Gauge::new(&[Limit { max: 10, window_s: 60 }]);
        gauge.learn(0, &Heard { limit: Some(10), ..heard(1, 60) });
        assert!(gauge.take(1, Table::Yields).is_none());
    }

    #[test]
    fn between_two_words_of_the_service_the_table_counts() {
        let mut gauge = Gauge::new(LIMITS);
        gauge.learn(0, &heard(100, 1));
        assert_eq!([take(&mut gauge, 10), take(&mut gauge, 20), take(&mut gauge, 30)], [None; 3]);
        let later = 2 * SECOND_US;
        assert_eq!(take(&mut gauge, later), Some(60 * SECOND_US + 10 - later));
        assert_eq!(take(&mut gauge, 61 * SECOND_US), None);
        assert_eq!(take(&mut gauge, 61 * SECOND_US), None);
        // Five within ten minutes: the longer window holds.
        assert_eq!(take(&mut gauge, 300 * SECOND_US), Some(300 * SECOND_US + 10));
    }

    #[tokio::test]
    async fn a_door_that_one_process_finds_closed_is_closed_for_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let home = store::home::Home::create(&folder.path().join("home")).unwrap();
        let vault = store::vault::Vault::from_key(store::secret::Secret::new([7; 32]));
        let random = store::random::Random::seeded(1);
        let accounts = store::accounts::Accounts::open(&home, Arc::new(vault), random).unwrap();
        let clock = Clock::set(Clock::System.now());
        let process = || {
            Paces::default()
                .of("whoop", "app", LIMITS, || Some(Door::new(accounts.sign("whoop").unwrap())))
        };
        let refused = |seconds: &'static str| {
            let mut headers = hyper::HeaderMap::new();
            headers.insert("retry-after", seconds.parse().unwrap());
            Reply { status: 429, headers, body: bytes::Bytes::new() }
        };
        let (first, second) = (process(), process());
        first.learn(&clock, &refused("30"));
        let wait = second.turn(&clock, Duration::from_secs(1), Table::Counts).await;
        assert!(wait.is_err_and(|wait| wait.as_secs() >= 29), "{wait:?}");
        clock.advance(30 * SECOND_US);
        assert_eq!(second.turn(&clock, Duration::from_secs(1), Table::Counts).await, Ok(()));
        // What somebody else was told holds for a minute at most.
        first.learn(&clock, &refused("600"));
        let wait = process().turn(&clock, Duration::ZERO, Table::Counts).await;
        assert!(wait.is_err_and(|wait| wait.as_secs() <= 60), "{wait:?}");
    }
}
