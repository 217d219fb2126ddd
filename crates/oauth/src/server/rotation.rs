//! Rotation of refresh tokens: what a presented token of an active sign-in leads to.

use super::RETRY_SECONDS_MAX;

const US_PER_SECOND: i64 = 1_000_000;

/// What to do with a presented refresh token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presented {
    /// The current one: it is replaced.
    Rotate,
    /// It was replaced a moment ago, and the response may have been lost: a new access token, and no new
    /// refresh token.
    Retry,
    /// It was replaced long ago, so two parties hold it: the sign-in ends.
    Reused,
}

/// `replaced_at_us` is when the token was replaced, if it was. A clock that went back counts as no time.
#[must_use]
pub fn present(replaced_at_us: Option<i64>, now_us: i64) -> Presented {
    match replaced_at_us {
        None => Presented::Rotate,
        Some(at_us) if now_us.saturating_sub(at_us) <= RETRY_SECONDS_MAX * US_PER_SECOND => {
            Presented::Retry
        }
        Some(_) => Presented::Reused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_token_may_be_repeated_for_a_minute() {
        let second = US_PER_SECOND;
        let table = [
            (None, 5 * second, Presented::Rotate),
            (Some(0), 0, Presented::Retry),
            (Some(0), 60 * second, Presented::Retry),
            (Some(0), 60 * second + 1, Presented::Reused),
            (Some(0), i64::MAX, Presented::Reused),
            (Some(10 * second), 0, Presented::Retry),
        ];
        for (replaced_at_us, now_us, expected) in table {
            assert_eq!(present(replaced_at_us, now_us), expected, "{replaced_at_us:?} {now_us}");
        }
    }
}
