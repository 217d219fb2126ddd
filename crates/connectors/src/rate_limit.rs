//! Rate limits of services. The limits in response headers take precedence; a service's table applies
//! once the service has shown that it limits at all.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use store::clock::Clock;

use crate::http::Reply;

mod shared_pause;

pub use shared_pause::SharedPause;

const SECOND_US: u64 = 1_000_000;
/// Two responses whose windows end this close together mean the same window.
const SAME_WINDOW_US: u64 = 2 * SECOND_US;

/// The longest pause that is kept without a probe.
const BELIEVED_US: u64 = 15 * 60 * SECOND_US;
/// When to probe a service that requested a longer pause.
const ASK_AGAIN_US: u64 = 5 * SECOND_US;

/// After a pause one request probes, and the others check this often for its response.
const SCOUT_POLL_US: u64 = SECOND_US / 50;
/// The longest wait for the probe's response.
const SCOUT_US_MAX: u64 = 2 * SECOND_US;

/// Background work leaves one in so many requests of a window to others.
const SPARE_SHARE: usize = 20;

/// So many requests in so many seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    pub max: usize,
    pub window_s: u64,
}

/// How the table of a service applies to a request, in addition to response headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableUse {
    Enforced,
    /// It applies, and a part of each window is reserved for interactive requests.
    KeepsReserve,
    /// It does not apply; the service may refuse the request.
    CountsOnly,
}

/// All rate limiters, one for each application of a service.
#[derive(Default)]
pub struct RateLimiters(Mutex<HashMap<String, Arc<RateLimiter>>>);

/// The rate limiter of one application, shared by all its requests.
pub struct RateLimiter {
    gauge: Mutex<Gauge>,
    /// The pause shared by all processes of a home. Remaining counts are not shared: every
    /// process sees them in its own responses.
    shared_pause: Option<SharedPause>,
}

impl RateLimiters {
    /// The limiter of an application, by service name and client id.
    pub fn of(
        &self,
        service: &str,
        client: &str,
        limits: &'static [RateLimit],
        shared_pause: impl FnOnce() -> Option<SharedPause>,
    ) -> Arc<RateLimiter> {
        let mut rate_limiters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let limiter = rate_limiters.entry(format!("{service} {client}"));
        Arc::clone(limiter.or_insert_with(|| {
            Arc::new(RateLimiter {
                gauge: Mutex::new(Gauge::new(limits)),
                shared_pause: shared_pause(),
            })
        }))
    }
}

impl RateLimiter {
    pub fn new(limits: &'static [RateLimit]) -> RateLimiter {
        RateLimiter { gauge: Mutex::new(Gauge::new(limits)), shared_pause: None }
    }

    /// Waits for permission to send. Returns a wait longer than `wait_max` at once as an error.
    pub async fn turn(
        &self,
        clock: &Clock,
        wait_max: Duration,
        table: TableUse,
    ) -> Result<(), Duration> {
        let mut waited = Duration::ZERO;
        loop {
            let wait = self.with(|gauge| {
                let now = clock.now();
                if let Some(left_us) =
                    self.shared_pause.as_ref().and_then(|shared| shared.remaining(now.wall_us))
                {
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

    /// Learns the limit from a response.
    pub fn learn(&self, clock: &Clock, reply: &Reply) {
        let number = |name: &str| reply.header(name)?.trim().parse::<f64>().ok();
        let us = |seconds: f64| Duration::try_from_secs_f64(seconds).ok();
        let reset = number("x-ratelimit-reset").and_then(us);
        let heard = LimitHeaders {
            is_refused: reply.status == 429,
            wait: if reply.status == 429 { reply.retry_after() } else { reset },
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
            left: number("x-ratelimit-remaining").map(|left| left.clamp(0.0, 1e9) as usize),
            // The closest limit comes first.
            limit: reply
                .header("x-ratelimit-limit")
                .and_then(|text| text.split([',', ';']).next()?.trim().parse().ok()),
        };
        let now = clock.now();
        let closed_us = self.with(|gauge| {
            gauge.learn(now.steady_us, &heard);
            gauge.closed_us(now.steady_us)
        });
        if let (Some(shared), Some(left_us)) = (&self.shared_pause, closed_us) {
            shared.share(now.wall_us, left_us);
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Gauge) -> T) -> T {
        act(&mut self.gauge.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The rate-limit headers of one response.
struct LimitHeaders {
    is_refused: bool,
    wait: Option<Duration>,
    left: Option<usize>,
    limit: Option<usize>,
}

struct Gauge {
    limits: &'static [RateLimit],
    /// When requests were sent, oldest first, as far back as the longest window.
    sent_us: VecDeque<u64>,
    /// Whether the service has shown that it limits. The table applies only then.
    is_limited: bool,
    /// The remaining requests in the service's headers, and when the window ends.
    left: Option<(usize, u64)>,
    /// How many of those are reserved for interactive requests.
    spare: usize,
    /// No request is sent before then.
    closed_until_us: u64,
    scout: ProbeState,
}

/// At the end of a pause all waiting requests would be sent at once, and most refused again. So one
/// of them goes first as a probe, and its response shows how many may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProbeState {
    NotNeeded,
    Wanted,
    Sent { at_us: u64 },
}

impl Gauge {
    fn new(limits: &'static [RateLimit]) -> Gauge {
        Gauge {
            limits,
            sent_us: VecDeque::new(),
            is_limited: false,
            left: None,
            spare: 0,
            closed_until_us: 0,
            scout: ProbeState::NotNeeded,
        }
    }

    /// Takes one request from the limits, or returns the wait.
    fn take(&mut self, now_us: u64, table: TableUse) -> Option<u64> {
        let wait_us = self.wait_us(now_us, table);
        if let Some(wait_us) = wait_us.or_else(|| self.behind_probe_us(now_us, table)) {
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

    fn wait_us(&mut self, now_us: u64, table: TableUse) -> Option<u64> {
        if now_us < self.closed_until_us {
            self.scout = ProbeState::Wanted;
            return Some(self.closed_until_us - now_us);
        }
        let spare = if table == TableUse::KeepsReserve { self.spare } else { 0 };
        match self.left {
            Some((left, until_us)) if now_us >= until_us => {
                if left <= self.spare {
                    self.scout = ProbeState::Wanted;
                }
                self.left = None;
            }
            Some((left, until_us)) if left <= spare => return Some(until_us - now_us),
            // The service counts the requests of all our processes, so its count is better than ours.
            Some(_) => return None,
            None => {}
        }
        if !self.is_limited || table == TableUse::CountsOnly {
            return None;
        }
        let waits = self.limits.iter().filter_map(|limit| {
            let spare = if table == TableUse::KeepsReserve { limit.max / SPARE_SHARE } else { 0 };
            let nth_last = self.sent_us.len().checked_sub(limit.max - spare)?;
            let ends_us = self.sent_us.get(nth_last)? + limit.window_s * SECOND_US;
            ends_us.checked_sub(now_us).filter(|wait| *wait > 0)
        });
        waits.max()
    }

    /// How long a request waits for the probe. Interactive requests do not wait.
    fn behind_probe_us(&mut self, now_us: u64, table: TableUse) -> Option<u64> {
        match self.scout {
            ProbeState::NotNeeded => None,
            _ if table == TableUse::CountsOnly => None,
            ProbeState::Sent { at_us } if now_us.saturating_sub(at_us) < SCOUT_US_MAX => {
                Some(SCOUT_POLL_US)
            }
            ProbeState::Wanted | ProbeState::Sent { .. } => {
                self.scout = ProbeState::Sent { at_us: now_us };
                None
            }
        }
    }

    /// Takes over a pause from another process.
    fn close(&mut self, until_us: u64) {
        self.is_limited = true;
        self.closed_until_us = self.closed_until_us.max(until_us);
    }

    /// The remaining pause, if any.
    fn closed_us(&self, now_us: u64) -> Option<u64> {
        let until_us = match self.left {
            Some((0, until_us)) => until_us.max(self.closed_until_us),
            _ => self.closed_until_us,
        };
        until_us.checked_sub(now_us).filter(|left_us| *left_us > 0)
    }

    fn learn(&mut self, now_us: u64, heard: &LimitHeaders) {
        let wait_us = heard.wait.map(|wait| u64::try_from(wait.as_micros()).unwrap_or(u64::MAX));
        self.scout = ProbeState::NotNeeded;
        if heard.is_refused {
            self.is_limited = true;
            let until_us = now_us.saturating_add(bounded_pause(wait_us.unwrap_or(SECOND_US)));
            self.closed_until_us = self.closed_until_us.max(until_us);
        }
        self.spare = heard.limit.map_or(self.spare, |limit| limit / SPARE_SHARE);
        let (Some(left), Some(wait_us)) = (heard.left, wait_us) else { return };
        self.is_limited = true;
        let wait_us = if left == 0 { bounded_pause(wait_us) } else { wait_us };
        let until_us = now_us.saturating_add(wait_us);
        self.left = Some(match self.left {
            // Responses overtake each other; within one window the smaller number is the later one.
            Some((known, known_until)) if known_until.abs_diff(until_us) <= SAME_WINDOW_US => {
                (known.min(left), known_until.max(until_us))
            }
            _ => (left, until_us),
        });
    }
}

/// Bounds a pause, so that one odd response does not stop requests for a day.
fn bounded_pause(wait_us: u64) -> u64 {
    if wait_us > BELIEVED_US { ASK_AGAIN_US } else { wait_us }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const LIMITS: &[RateLimit] =
        &[RateLimit { max: 3, window_s: 60 }, RateLimit { max: 5, window_s: 600 }];

    fn take(gauge: &mut Gauge, now_us: u64) -> Option<u64> {
        gauge.take(now_us, TableUse::Enforced)
    }

    fn heard(left: usize, reset_s: u64) -> LimitHeaders {
        let wait = Some(Duration::from_secs(reset_s));
        LimitHeaders { is_refused: false, wait, left: Some(left), limit: None }
    }

    #[test]
    fn a_service_without_limit_headers_is_not_limited() {
        let mut gauge = Gauge::new(LIMITS);
        assert!((0..100).all(|n| take(&mut gauge, n).is_none()));
    }

    #[test]
    fn the_remaining_count_of_the_service_is_used() {
        let mut gauge = Gauge::new(LIMITS);
        gauge.learn(0, &heard(2, 60));
        assert_eq!(
            [take(&mut gauge, 1), take(&mut gauge, 1), take(&mut gauge, 1)],
            [None, None, Some(59_999_999)]
        );
        // A response to an older request shows a larger number; it is ignored.
        gauge.learn(2, &heard(50, 60));
        assert_eq!(take(&mut gauge, 3), Some(59_999_999));
        assert_eq!(take(&mut gauge, 60_000_002), None);
    }

    #[test]
    fn a_refusal_pauses_for_as_long_as_it_says() {
        let mut gauge = Gauge::new(LIMITS);
        let refusal = |wait| LimitHeaders { is_refused: true, wait, left: None, limit: None };
        gauge.learn(0, &refusal(Some(Duration::from_secs(7))));
        assert_eq!(take(&mut gauge, 1_000_000), Some(6_000_000));
        assert_eq!(take(&mut gauge, 7_000_000), None);
        gauge.learn(8_000_000, &refusal(None));
        assert_eq!(take(&mut gauge, 8_000_000), Some(1_000_000));
    }

    #[test]
    fn after_a_pause_one_request_probes_and_the_others_follow() {
        let mut gauge = Gauge::new(&[RateLimit { max: 100, window_s: 60 }]);
        gauge.learn(0, &heard(0, 1));
        assert_eq!(take(&mut gauge, 1), Some(SECOND_US - 1));
        assert_eq!(take(&mut gauge, SECOND_US), None);
        assert_eq!(take(&mut gauge, SECOND_US), Some(SCOUT_POLL_US));
        gauge.learn(SECOND_US + 9, &heard(2, 1));
        let after = [0; 3].map(|n| take(&mut gauge, SECOND_US + 10 + n));
        assert_eq!(after, [None, None, Some(SECOND_US - 1)]);
        // A lost probe does not delay the others for long.
        assert_eq!(take(&mut gauge, 3 * SECOND_US), None);
        assert_eq!(take(&mut gauge, 4 * SECOND_US), Some(SCOUT_POLL_US));
        assert_eq!(take(&mut gauge, 66 * SECOND_US), None);
    }

    #[test]
    fn a_pause_of_a_day_is_probed() {
        let mut gauge = Gauge::new(LIMITS);
        let day = Some(Duration::from_hours(24));
        gauge.learn(0, &LimitHeaders { is_refused: true, wait: day, left: Some(0), limit: None });
        assert_eq!(take(&mut gauge, 1_000_000), Some(4_000_000));
        assert_eq!(take(&mut gauge, 5_000_000), None);
    }

    #[test]
    fn an_interactive_request_is_limited_by_the_service_alone() {
        let mut gauge = Gauge::new(LIMITS);
        gauge.learn(0, &LimitHeaders { is_refused: true, wait: None, left: None, limit: None });
        assert_eq!(gauge.take(1, TableUse::CountsOnly), Some(999_999));
        assert!((0..9).all(|n| gauge.take(SECOND_US + n, TableUse::CountsOnly).is_none()));
        // All of them count for requests that can wait.
        assert!(take(&mut gauge, 2 * SECOND_US).is_some());
        gauge.learn(2 * SECOND_US, &heard(0, 60));
        assert!(gauge.take(3 * SECOND_US, TableUse::CountsOnly).is_some());
    }

    #[test]
    fn a_sync_reserves_requests_for_interactive_calls() {
        let mut gauge = Gauge::new(&[RateLimit { max: 100, window_s: 60 }]);
        gauge.learn(0, &LimitHeaders { limit: Some(100), ..heard(7, 60) });
        assert!(gauge.take(1, TableUse::KeepsReserve).is_none());
        assert!(gauge.take(1, TableUse::KeepsReserve).is_none());
        assert!(gauge.take(1, TableUse::KeepsReserve).is_some(), "five are left");
        assert!(
            (0..5).all(|_| gauge.take(2, TableUse::CountsOnly).is_none()),
            "a fresh read is not held"
        );
        assert!(gauge.take(3, TableUse::CountsOnly).is_some());
        // A small limit is used completely: half of it would be too much to reserve.
        let mut gauge = Gauge::new(&[RateLimit { max: 10, window_s: 60 }]);
        gauge.learn(0, &LimitHeaders { limit: Some(10), ..heard(1, 60) });
        assert!(gauge.take(1, TableUse::KeepsReserve).is_none());
    }

    #[test]
    fn without_headers_the_table_applies() {
        let mut gauge = Gauge::new(LIMITS);
        gauge.learn(0, &heard(100, 1));
        assert_eq!([take(&mut gauge, 10), take(&mut gauge, 20), take(&mut gauge, 30)], [None; 3]);
        let later = 2 * SECOND_US;
        assert_eq!(take(&mut gauge, later), Some(60 * SECOND_US + 10 - later));
        assert_eq!(take(&mut gauge, 61 * SECOND_US), None);
        assert_eq!(take(&mut gauge, 61 * SECOND_US), None);
        // Five within ten minutes: the longer window applies.
        assert_eq!(take(&mut gauge, 300 * SECOND_US), Some(300 * SECOND_US + 10));
    }

    #[tokio::test]
    async fn a_pause_is_shared_with_the_next_process() {
        let folder = tempfile::tempdir().unwrap();
        let home = store::home::Home::create(&folder.path().join("home")).unwrap();
        let vault = store::vault::Vault::from_key(store::secret::Secret::new([7; 32]));
        let random = store::random::Random::seeded(1);
        let accounts = store::accounts::Accounts::open(&home, Arc::new(vault), random).unwrap();
        let clock = Clock::set(Clock::System.now());
        let process = || {
            RateLimiters::default().of("whoop", "app", LIMITS, || {
                Some(SharedPause::new(accounts.back_off("whoop").unwrap()))
            })
        };
        let refused = |seconds: &'static str| {
            let mut headers = hyper::HeaderMap::new();
            headers.insert("retry-after", seconds.parse().unwrap());
            Reply { status: 429, headers, body: bytes::Bytes::new() }
        };
        let (first, second) = (process(), process());
        first.learn(&clock, &refused("30"));
        let wait = second.turn(&clock, Duration::from_secs(1), TableUse::CountsOnly).await;
        assert!(wait.is_err_and(|wait| wait.as_secs() >= 29), "{wait:?}");
        clock.advance(30 * SECOND_US);
        assert_eq!(second.turn(&clock, Duration::from_secs(1), TableUse::CountsOnly).await, Ok(()));
        // A pause of another process is kept for a minute at most.
        first.learn(&clock, &refused("600"));
        let wait = process().turn(&clock, Duration::ZERO, TableUse::CountsOnly).await;
        assert!(wait.is_err_and(|wait| wait.as_secs() <= 60), "{wait:?}");
    }
}
