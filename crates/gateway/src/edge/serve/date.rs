//! The `Date` header of responses.

use jiff::Timestamp;
use store::clock::Clock;

/// The wall clock as an HTTP date, formatted once per second.
pub(super) struct Date {
    clock: Clock,
    second: i64,
    text: String,
}

impl Date {
    pub(super) fn new(clock: Clock) -> Date {
        Date { clock, second: i64::MIN, text: String::new() }
    }

    pub(super) fn text(&mut self) -> &[u8] {
        let second = self.clock.now().wall_us.div_euclid(1_000_000);
        if second != self.second {
            self.second = second;
            let time = Timestamp::from_second(second).unwrap_or_default();
            self.text = time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        }
        self.text.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::clock::Now;

    #[test]
    fn a_date_is_written_as_http_wants_it_and_moves_with_the_clock() {
        let clock = Clock::set(Now { wall_us: 784_111_777_999_999, steady_us: 0 });
        let mut date = Date::new(clock.clone());
        assert_eq!(date.text(), b"Sun, 06 Nov 1994 08:49:37 GMT");
        clock.advance(1);
        assert_eq!(date.text(), b"Sun, 06 Nov 1994 08:49:38 GMT");
    }
}
