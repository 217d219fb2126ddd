//! Decimals as strings of digits, lined up by hand.

use std::cmp::Ordering;

/// Sign, digits before the point without leading zeros, digits after it without trailing zeros.
fn parts(number: &str) -> (bool, String, String) {
    let negative = number.starts_with('-');
    let lower = number.trim_start_matches('-').to_lowercase();
    let (digits, exponent) = match lower.split_once('e') {
        Some((digits, exponent)) => (digits.to_owned(), exponent.parse::<i64>().unwrap()),
        None => (lower, 0),
    };
    let (mut whole, mut fraction) = match digits.split_once('.') {
        Some((whole, fraction)) => (whole.to_owned(), fraction.to_owned()),
        None => (digits, String::new()),
    };
    for _ in 0..exponent.max(0) {
        whole.push(if fraction.is_empty() { '0' } else { fraction.remove(0) });
    }
    for _ in 0..(-exponent).max(0) {
        fraction.insert(0, whole.pop().unwrap_or('0'));
    }
    let whole = whole.trim_start_matches('0').to_owned();
    let fraction = fraction.trim_end_matches('0').to_owned();
    let zero = whole.is_empty() && fraction.is_empty();
    (negative && !zero, whole, fraction)
}

pub(super) fn compare(left: &str, right: &str) -> Ordering {
    let ((left_negative, lw, lf), (right_negative, rw, rf)) = (parts(left), parts(right));
    let width = lw.len().max(rw.len());
    let places = lf.len().max(rf.len());
    let line_up = |whole: &str, fraction: &str| format!("{whole:0>width$}{fraction:0<places$}");
    let sizes = line_up(&lw, &lf).cmp(&line_up(&rw, &rf));
    match (left_negative, right_negative) {
        (false, false) => sizes,
        (true, true) => sizes.reverse(),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
    }
}

/// The number in units of 10⁻¹⁸; `None` when negative, finer than that, or larger than a counter.
pub(super) fn units(number: &str) -> Option<i128> {
    let (negative, whole, fraction) = parts(number);
    if negative || fraction.len() > 18 || whole.len() > 21 {
        return None;
    }
    let digits = format!("{whole}{fraction:0<18}");
    digits.parse().ok()
}
