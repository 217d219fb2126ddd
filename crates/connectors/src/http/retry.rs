//! When to retry a request, and after how long. The rules are data of a service.

use std::time::Duration;

use super::{HttpError, Reply};

/// How often each kind of failure is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Responses with status 429.
    pub limited_max: u32,
    /// Responses with status 500 and above.
    pub fault_max: u32,
    /// Connections that failed or broke.
    pub lost_max: u32,
    /// Responses that did not arrive in time. Each has cost its wait already.
    pub slow_max: u32,
    /// The first back-off; each further one is twice as long.
    pub first_wait_ms: u64,
    /// A longer pause requested by the service is not waited for.
    pub wait_ms_max: u64,
}

impl Retry {
    pub const USUAL: Retry = Retry {
        limited_max: 1,
        fault_max: 3,
        lost_max: 2,
        slow_max: 0,
        first_wait_ms: 500,
        wait_ms_max: 20_000,
    };
    pub const NEVER: Retry = Retry { limited_max: 0, fault_max: 0, lost_max: 0, ..Retry::USUAL };

    /// The pause before the retry; `None` if there is no retry.
    pub fn pause(
        &self,
        tally: &mut FailureCounts,
        is_repeatable: bool,
        outcome: &Result<Reply, HttpError>,
    ) -> Option<Duration> {
        let (count, max) = match outcome {
            // The service did not process it, so a retry is always safe.
            Ok(reply) if reply.status == 429 => (&mut tally.limited, self.limited_max),
            Err(HttpError::Unreachable { .. }) => (&mut tally.lost, self.lost_max),
            Ok(reply) if reply.status >= 500 && is_repeatable => {
                (&mut tally.faults, self.fault_max)
            }
            Err(HttpError::Lost { .. }) if is_repeatable => (&mut tally.lost, self.lost_max),
            Err(HttpError::TimedOut { .. }) if is_repeatable => (&mut tally.slow, self.slow_max),
            _ => return None,
        };
        if *count >= max {
            return None;
        }
        let nth = (*count).min(16);
        let doubled = self.first_wait_ms.saturating_mul(1 << nth);
        *count += 1;
        let usual = Duration::from_millis(doubled.min(self.wait_ms_max));
        let asked = outcome.as_ref().ok().and_then(Reply::retry_after);
        let pause = match outcome {
            Ok(reply) if reply.status == 429 => asked.unwrap_or(Duration::from_secs(1 << nth)),
            Ok(reply) if reply.headers.contains_key("retry-after") => asked.unwrap_or(usual),
            _ => usual,
        };
        (pause <= Duration::from_millis(self.wait_ms_max)).then_some(pause)
    }
}

/// The failures of one request so far.
#[derive(Default)]
pub struct FailureCounts {
    limited: u32,
    faults: u32,
    lost: u32,
    slow: u32,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use bytes::Bytes;
    use hyper::HeaderMap;

    #[expect(clippy::unnecessary_wraps, reason = "the outcome of a request")]
    fn reply(status: u16, header: Option<(&'static str, &str)>) -> Result<Reply, HttpError> {
        let mut headers = HeaderMap::new();
        headers.insert("date", "Wed, 21 Oct 2026 07:28:00 GMT".parse().unwrap());
        if let Some((name, value)) = header {
            headers.insert(name, value.parse().unwrap());
        }
        Ok(Reply { status, headers, body: Bytes::new() })
    }

    fn lost() -> Result<Reply, HttpError> {
        Err(HttpError::Lost { host: "h".into(), why: "cut".into() })
    }

    fn pauses(outcome: &Result<Reply, HttpError>, is_repeatable: bool) -> Vec<u128> {
        let mut tally = FailureCounts::default();
        std::iter::from_fn(|| Retry::USUAL.pause(&mut tally, is_repeatable, outcome))
            .map(|pause| pause.as_millis())
            .take(10)
            .collect()
    }

    #[test]
    fn a_429_without_retry_after_backs_off_exponentially() {
        let retry = Retry { limited_max: 6, wait_ms_max: 60_000, ..Retry::USUAL };
        let mut tally = FailureCounts::default();
        let pauses: Vec<u64> =
            std::iter::from_fn(|| retry.pause(&mut tally, true, &reply(429, None)))
                .map(|pause| pause.as_secs())
                .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32]);
    }

    #[test]
    fn a_timeout_is_retried_where_the_rules_allow() {
        let retry = Retry { slow_max: 2, ..Retry::USUAL };
        let late = Err(HttpError::TimedOut { host: "h".into(), seconds: 30 });
        let mut tally = FailureCounts::default();
        let pauses: Vec<u128> = std::iter::from_fn(|| retry.pause(&mut tally, true, &late))
            .map(|pause| pause.as_millis())
            .collect();
        assert_eq!(pauses, [500, 1_000]);
        assert_eq!(
            retry.pause(&mut FailureCounts::default(), false, &late),
            None,
            "it may have worked"
        );
    }

    #[test]
    fn each_failure_is_retried_by_its_rule() {
        for (outcome, is_repeatable, expected) in [
            (reply(200, None), true, &[][..]),
            (reply(404, None), true, &[]),
            (reply(429, None), true, &[1_000]),
            (reply(429, Some(("retry-after", "3"))), false, &[3_000]),
            (reply(429, Some(("x-ratelimit-reset", "7"))), true, &[7_000]),
            (reply(429, Some(("retry-after", "86400"))), true, &[]),
            (reply(429, Some(("retry-after", "-1"))), true, &[1_000]),
            (reply(429, Some(("retry-after", "soon"))), true, &[1_000]),
            (reply(429, Some(("retry-after", "Wed, 21 Oct 2026 07:28:09 GMT"))), true, &[9_000]),
            (reply(503, Some(("retry-after", "Wed, 21 Oct 2026 07:20:00 GMT"))), true, &[0, 0, 0]),
            (reply(503, None), true, &[500, 1_000, 2_000]),
            (reply(503, Some(("retry-after", "2"))), true, &[2_000, 2_000, 2_000]),
            (reply(503, None), false, &[]),
            (lost(), true, &[500, 1_000]),
            (lost(), false, &[]),
            (Err(HttpError::TimedOut { host: "h".into(), seconds: 30 }), true, &[]),
            (
                Err(HttpError::Unreachable { host: "h".into(), why: "no".into() }),
                false,
                &[500, 1_000],
            ),
        ] {
            assert_eq!(pauses(&outcome, is_repeatable), expected, "{outcome:?} {is_repeatable}");
        }
    }
}
