//! Cases for exact decimals, and a comparison with plain integer arithmetic.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::cmp::Ordering;

use proptest::prelude::{Strategy, any, prop_assert_eq, proptest};

use super::{Amount, compare_numbers};

#[test]
fn numbers_are_ordered_by_their_written_value() {
    let ascending = [
        "-1e400",
        "-18446744073709551616",
        "-9007199254740993",
        "-9007199254740992",
        "-10",
        "-1.5",
        "-1",
        "-0.1",
        "-1e-400",
        "0",
        "1e-400",
        "0.1",
        "0.10000000000000000001",
        "1",
        "1.5",
        "9.99",
        "10",
        "99.9999999999999999999",
        "100",
        "100.00000000000000000001",
        "9007199254740992",
        "9007199254740993",
        "18446744073709551616",
        "18446744073709551716",
        "1e400",
        "1.1e400",
        "1e401",
    ];
    for (left_at, left) in ascending.iter().enumerate() {
        for (right_at, right) in ascending.iter().enumerate() {
            assert_eq!(compare_numbers(left, right), left_at.cmp(&right_at), "{left} and {right}");
        }
    }
}

#[test]
fn different_spellings_of_one_value_are_equal() {
    let families: [&[&str]; 6] = [
        &["0", "-0", "0.0", "0e9", "-0.000e-5", "0e99999999999999999999999999999999999999999999"],
        &["1", "1.0", "1.000", "10e-1", "0.1e1", "1E0", "1e+0", "0.0001e4"],
        &["100", "1e2", "1.00E+2", "1000e-1"],
        &["-2.50", "-2.5", "-25e-1", "-0.25e1"],
        &["0.001", "1e-3", "0.0010"],
        &["9007199254740993", "9007199254740993.0", "9.007199254740993e15"],
    ];
    for family in families {
        for (left, right) in family.iter().flat_map(|l| family.iter().map(move |r| (l, r))) {
            assert_eq!(compare_numbers(left, right), Ordering::Equal, "{left} and {right}");
        }
    }
}

#[test]
fn an_amount_is_read_exactly_or_not_at_all() {
    let cases = [
        ("0", Some("0")),
        ("-0", Some("0")),
        ("-0.0e7", Some("0")),
        ("1", Some("1")),
        ("1.10", Some("1.1")),
        ("1e2", Some("100")),
        ("12.5e-1", Some("1.25")),
        ("0.000000000000000001", Some("0.000000000000000001")),
        ("0.0000000000000000010", Some("0.000000000000000001")),
        ("0.0000000000000000001", None),
        ("1.0000000000000000001", None),
        (
            "170141183460469231731.687303715884105727",
            Some("170141183460469231731.687303715884105727"),
        ),
        ("170141183460469231731.687303715884105728", None),
        ("170141183460469231732", None),
        ("1e20", Some("100000000000000000000")),
        ("1e21", None),
        ("1e400", None),
        ("1e99999999999999999999999999999999999999999999", None),
        ("1e-99999999999999999999999999999999999999999999", None),
        ("-1", None),
        ("-0.1", None),
        ("", None),
        ("-", None),
        ("+1", None),
        ("01", None),
        ("1.", None),
        (".5", None),
        ("1e", None),
        ("1e+", None),
        ("1_000", None),
        ("0x10", None),
        ("NaN", None),
        (" 1", None),
    ];
    for (text, expected) in cases {
        assert_eq!(
            Amount::parse(text).map(|amount| amount.to_string()).as_deref(),
            expected,
            "{text}"
        );
    }
}

#[test]
fn adding_stops_at_the_largest_amount() {
    let largest = Amount::MAX;
    assert_eq!(largest.checked_add(Amount::from_units(1).unwrap()), None);
    assert_eq!(Amount::ZERO.checked_sub(Amount::ONE), None);
    assert_eq!(Amount::from_units(-1), None);
}

/// A decimal with at most 6 digits after the point, written in one of several ways.
fn decimal() -> impl Strategy<Value = (i128, String)> {
    (any::<i32>(), 0_u32..7, -6_i32..7).prop_map(|(units, places, shift)| {
        let negative = units < 0;
        let digits = format!("{:0width$}", units.unsigned_abs(), width = places as usize + 1);
        let (whole, fraction) = digits.split_at(digits.len() - places as usize);
        let point = if fraction.is_empty() { "" } else { "." };
        let sign = if negative { "-" } else { "" };
        let text = format!("{sign}{whole}{point}{fraction}e{shift}");
        let scale = u32::try_from(12 + shift - i32::try_from(places).unwrap()).unwrap();
        (i128::from(units) * 10_i128.pow(scale), text)
    })
}

proptest! {
    #[test]
    fn comparing_agrees_with_integers(left in decimal(), right in decimal()) {
        prop_assert_eq!(compare_numbers(&left.1, &right.1), left.0.cmp(&right.0));
    }

    #[test]
    fn an_amount_agrees_with_integers(number in decimal()) {
        let expected = (number.0 >= 0).then(|| number.0 * 1_000_000);
        prop_assert_eq!(Amount::parse(&number.1).map(Amount::units), expected);
    }

    #[test]
    fn an_amount_survives_being_written(units in 0..i128::MAX) {
        let amount = Amount::from_units(units).unwrap();
        prop_assert_eq!(Amount::parse(&amount.to_string()), Some(amount));
    }
}
