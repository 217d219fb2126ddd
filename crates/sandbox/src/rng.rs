//! A seeded random number generator with the same results on every machine: integers and the four
//! basic operations only, because `sin` and `exp` differ between platforms.

/// One random stream. Streams with different names or numbers are independent.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// The stream of `seed` for one subject, such as the night of one day.
    pub(crate) fn stream(seed: u64, subject: &str, number: i64) -> Rng {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ seed;
        for byte in subject.bytes().chain(number.to_le_bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        let mut rng = Rng(hash);
        rng.next();
        rng
    }

    /// SplitMix64: small, fast, and good enough for anything that is not a secret.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 up to but excluding 1.
    pub(crate) fn unit(&mut self) -> f64 {
        f64::from(u32::try_from(self.next() >> 32).unwrap_or(0)) / 4_294_967_296.0
    }

    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Both ends included.
    pub(crate) fn whole(&mut self, low: i64, high: i64) -> i64 {
        whole(self.between(real(low), real(high) + 1.0)).clamp(low, high)
    }

    pub(crate) fn happens(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Close to a normal draw with mean 0 and deviation 1, never beyond ±6.
    pub(crate) fn spread(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let last = i64::try_from(from.len()).unwrap_or(0) - 1;
        usize::try_from(self.whole(0, last.max(0))).ok().and_then(|at| from.get(at))
    }

    /// A version 4 UUID.
    pub(crate) fn uuid(&mut self) -> String {
        let (high, low) = (self.next(), self.next());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            0x8000 | ((low >> 48) & 0x3fff),
            low & 0xffff_ffff_ffff
        )
    }

    /// Letters and digits, as in tokens and codes.
    pub(crate) fn word(&mut self, length: usize) -> String {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        (0..length).filter_map(|_| self.pick(LETTERS)).map(|letter| char::from(*letter)).collect()
    }
}

/// The nearest whole number.
#[expect(
    clippy::cast_possible_truncation,
    reason = "`as` saturates, and no value here is that large"
)]
pub(crate) fn nearest(value: f64) -> i64 {
    value.round() as i64
}

/// The whole number below.
#[expect(
    clippy::cast_possible_truncation,
    reason = "`as` saturates, and no value here is that large"
)]
pub(crate) fn whole(value: f64) -> i64 {
    value.floor() as i64
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds and counts stay far below 2^53")]
pub(crate) fn real(value: i64) -> f64 {
    value as f64
}

/// Rounded to this many decimals, as a service prints them.
pub(crate) fn decimals(value: f64, places: i32) -> f64 {
    let scale = 10_f64.powi(places);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn a_stream_is_reproducible_and_independent() {
        let draw = |seed, subject, number| Rng::stream(seed, subject, number).next();
        assert_eq!(draw(1, "night", 5), draw(1, "night", 5));
        let others = [draw(2, "night", 5), draw(1, "nap", 5), draw(1, "night", 6)];
        assert!(others.iter().all(|other| *other != draw(1, "night", 5)));
    }

    #[test]
    fn values_stay_within_their_bounds_and_reach_them() {
        let mut rng = Rng::stream(7, "bounds", 0);
        let draws: Vec<i64> = (0..2_000).map(|_| rng.whole(-2, 3)).collect();
        assert_eq!((draws.iter().min(), draws.iter().max()), (Some(&-2), Some(&3)));
        let mean = (0..5_000).map(|_| rng.spread()).sum::<f64>() / 5_000.0;
        assert!(mean.abs() < 0.1, "{mean}");
    }

    #[test]
    fn a_uuid_is_of_version_four() {
        let uuid = Rng::stream(3, "id", 0).uuid();
        assert_eq!(uuid.len(), 36);
        assert_eq!(uuid.chars().nth(14), Some('4'));
        assert!(uuid.chars().nth(19).is_some_and(|c| "89ab".contains(c)), "{uuid}");
    }
}
