//! A JSON number taken apart without copying: sign, significant digits, and where the point stands.

use std::cmp::Ordering;

/// Exponents beyond this are held at it. Two numbers that both exceed it have more than 10³⁰ digits, so
/// no text within any bound of ours can tell them apart by position.
const EXPONENT_MAX: i128 = 1_000_000_000_000_000_000_000_000_000_000;

/// `0.d₁d₂d₃… × 10^magnitude`, with `d₁` and the last digit not zero. No digits at all means zero.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decimal<'a> {
    pub(super) negative: bool,
    pub(super) magnitude: i128,
    whole: &'a [u8],
    fraction: &'a [u8],
}

impl<'a> Decimal<'a> {
    pub(super) const ZERO: Decimal<'static> =
        Decimal { negative: false, magnitude: 0, whole: b"", fraction: b"" };

    /// `None` when the text does not follow the grammar of a JSON number.
    pub(super) fn of(text: &'a str) -> Option<Decimal<'a>> {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (digits, exponent) = match text.split_once(['e', 'E']) {
            Some((digits, exponent)) => (digits, read_exponent(exponent)?),
            None => (text, 0),
        };
        let (whole, fraction) = match digits.split_once('.') {
            Some((whole, fraction)) if is_digits(fraction) => (whole, fraction),
            Some(_) => return None,
            None => (digits, ""),
        };
        let leading_zero = whole.len() > 1 && whole.starts_with('0');
        if !is_digits(whole) || leading_zero {
            return None;
        }
        Some(Decimal::trimmed(negative, whole.as_bytes(), fraction.as_bytes(), exponent))
    }

    fn trimmed(negative: bool, whole: &'a [u8], fraction: &'a [u8], exponent: i128) -> Self {
        let mut whole = skip_zeros(whole);
        let mut magnitude = count(whole) + exponent;
        let mut fraction = trim_zeros(fraction);
        if whole.is_empty() {
            let significant = skip_zeros(fraction);
            magnitude -= count(fraction) - count(significant);
            fraction = significant;
        }
        if fraction.is_empty() {
            whole = trim_zeros(whole);
        }
        if whole.is_empty() && fraction.is_empty() {
            return Decimal::ZERO;
        }
        Decimal { negative, magnitude, whole, fraction }
    }

    pub(super) fn is_zero(&self) -> bool {
        self.whole.is_empty() && self.fraction.is_empty()
    }

    /// The significant digits as numbers, highest first.
    pub(super) fn digits(&self) -> impl Iterator<Item = u8> + 'a {
        self.whole.iter().chain(self.fraction).map(|digit| digit - b'0')
    }

    /// The power of ten of the last significant digit.
    pub(super) fn lowest_place(&self) -> i128 {
        self.magnitude - count(self.whole) - count(self.fraction)
    }

    pub(super) fn cmp_value(&self, other: &Decimal<'_>) -> Ordering {
        match (self.is_zero(), other.is_zero()) {
            (true, true) => return Ordering::Equal,
            (true, false) => return sign(other.negative).reverse(),
            (false, true) => return sign(self.negative),
            (false, false) => {}
        }
        if self.negative != other.negative {
            return sign(self.negative);
        }
        // Trailing zeros are trimmed, so of two equal beginnings the longer number is the larger.
        let size =
            self.magnitude.cmp(&other.magnitude).then_with(|| self.digits().cmp(other.digits()));
        if self.negative { size.reverse() } else { size }
    }
}

fn sign(negative: bool) -> Ordering {
    if negative { Ordering::Less } else { Ordering::Greater }
}

fn read_exponent(text: &str) -> Option<i128> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    if !is_digits(digits) {
        return None;
    }
    let size = digits.trim_start_matches('0');
    let value = if size.is_empty() { 0 } else { size.parse().unwrap_or(EXPONENT_MAX) };
    let value = value.min(EXPONENT_MAX);
    Some(if negative { -value } else { value })
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn count(digits: &[u8]) -> i128 {
    i128::try_from(digits.len()).unwrap_or(i128::MAX)
}

fn skip_zeros(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().take_while(|&&digit| digit == b'0').count();
    digits.get(zeros..).unwrap_or_default()
}

fn trim_zeros(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().rev().take_while(|&&digit| digit == b'0').count();
    digits.get(..digits.len() - zeros).unwrap_or_default()
}
