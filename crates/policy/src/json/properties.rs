//! The reader against slow, obvious readers, over generated and mutated texts.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use std::collections::BTreeMap;
use std::fmt::Write;

use proptest::collection::vec;
use proptest::prelude::{
    Just, ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, prop_oneof,
};
use proptest::proptest;
use proptest::sample::select;

use super::{Bounds, Doc, Kind, Value, canonical, is_surely_canonical};

/// A JSON value by its meaning. Numbers are a mantissa and a power of ten.
#[derive(Debug, Clone, PartialEq)]
enum Model {
    Null,
    Bool(bool),
    Number(i32, u8),
    Text(String),
    List(Vec<Model>),
    Map(Vec<(String, Model)>),
}

/// Keys made to be taken for each other.
const KEYS: [&str; 18] = [
    "name",
    "Name",
    "NAME",
    "name\0",
    " name",
    "name ",
    "\u{feff}name",
    "ｎame",
    "key",
    "\u{212a}ey",
    "s",
    "ſ",
    "S",
    "ß",
    "ss",
    "a",
    "é",
    "",
];

fn models() -> impl Strategy<Value = Model> {
    let leaf = prop_oneof![
        Just(Model::Null),
        any::<bool>().prop_map(Model::Bool),
        (any::<i32>(), 0..6_u8).prop_map(|(mantissa, places)| Model::Number(mantissa, places)),
        prop_oneof![select(&KEYS[..]).prop_map(str::to_owned), ".{0,12}"].prop_map(Model::Text),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let key = prop_oneof![3 => select(&KEYS[..]).prop_map(str::to_owned), 1 => ".{0,6}"];
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Model::List),
            vec((key, inner), 0..5).prop_map(Model::Map),
        ]
    })
}

/// Random choices for one spelling of a model.
struct Choices<'c>(std::iter::Cycle<std::slice::Iter<'c, u8>>);

impl<'c> Choices<'c> {
    fn new(bytes: &'c [u8]) -> Choices<'c> {
        Choices(bytes.iter().cycle())
    }

    fn below(&mut self, limit: u8) -> u8 {
        self.0.next().unwrap() % limit
    }

    fn space(&mut self) -> &'static str {
        ["", "", "", " ", "\n", "\t \r"][usize::from(self.below(6))]
    }
}

fn spell(model: &Model, choices: &mut Choices<'_>, out: &mut String) {
    out.push_str(choices.space());
    match model {
        Model::Null => out.push_str("null"),
        Model::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Model::Number(mantissa, places) => spell_number(*mantissa, *places, choices, out),
        Model::Text(text) => spell_text(text, choices, out),
        Model::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                spell(item, choices, out);
            }
            out.push(']');
        }
        Model::Map(members) => {
            let start =
                if members.is_empty() { 0 } else { choices.below(8) as usize % members.len() };
            let (last, first) = members.split_at(start);
            out.push('{');
            for (index, (key, value)) in first.iter().chain(last).enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                spell_text(key, choices, out);
                out.push_str(choices.space());
                out.push(':');
                spell(value, choices, out);
            }
            out.push('}');
        }
    }
    out.push_str(choices.space());
}

fn spell_number(mantissa: i32, places: u8, choices: &mut Choices<'_>, out: &mut String) {
    let spelled = match choices.below(3) {
        0 => format!("{mantissa}e-{places}"),
        1 => format!("{mantissa}0.00E-0{}", places + 1),
        _ => {
            let digits = format!("{:0>1$}", mantissa.unsigned_abs(), usize::from(places) + 1);
            let (whole, fraction) = digits.split_at(digits.len() - usize::from(places));
            let sign = if mantissa < 0 { "-" } else { "" };
            let point = if fraction.is_empty() { "" } else { "." };
            format!("{sign}{whole}{point}{fraction}")
        }
    };
    out.push_str(&spelled);
}

fn spell_text(text: &str, choices: &mut Choices<'_>, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        if choices.below(4) == 0 || c < ' ' || matches!(c, '"' | '\\') {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04X}").unwrap();
            }
        } else {
            out.push(c);
        }
    }
    out.push('"');
}

fn spelled(model: &Model, choices: &[u8]) -> String {
    let mut out = String::new();
    spell(model, &mut Choices::new(choices), &mut out);
    out
}

/// Texts that are nearly JSON: a spelled model with a few bytes replaced, removed or doubled.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let edit =
        (any::<u16>(), 0..4_u8, prop_oneof![any::<u8>(), select(&b"{}[]\",:\\u0 eE.-1tn\n"[..])]);
    (models(), vec(any::<u8>(), 8), vec(edit, 0..3)).prop_map(|(model, choices, edits)| {
        let mut bytes = spelled(&model, &choices).into_bytes();
        for (position, act, byte) in edits {
            let at = usize::from(position) % bytes.len().max(1);
            match act {
                0 if !bytes.is_empty() => bytes[at] = byte,
                1 if !bytes.is_empty() => drop(bytes.remove(at)),
                2 => bytes.insert(at, byte),
                _ => bytes.extend_from_within(at..),
            }
        }
        bytes
    })
}

fn agrees(value: Value<'_>, other: &serde_json::Value) -> bool {
    match (value.kind(), other) {
        (Kind::Null, serde_json::Value::Null) => true,
        (Kind::Bool, serde_json::Value::Bool(other)) => value.as_bool() == Some(*other),
        (Kind::String, serde_json::Value::String(other)) => {
            value.as_str().as_deref() == Some(other)
        }
        (Kind::Number, serde_json::Value::Number(other)) => {
            close(value.as_number().unwrap().parse().unwrap(), other.as_f64().unwrap())
        }
        (Kind::Array, serde_json::Value::Array(others)) => {
            value.len() == others.len() && value.items().zip(others).all(|(a, b)| agrees(a, b))
        }
        (Kind::Object, serde_json::Value::Object(others)) => {
            let same = |((key, a), (other, b)): ((super::Key<'_>, Value<'_>), (&String, _))| {
                key.text() == *other && agrees(a, b)
            };
            value.len() == others.len() && value.entries().zip(others).all(same)
        }
        _ => false,
    }
}

/// The other reader may miss the nearest double by a unit in the last place.
fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= a.abs() * 4.0 * f64::EPSILON
}

/// A second reader that keeps every member, duplicates too. It trusts its input to be valid JSON.
#[derive(Debug, Clone, PartialEq)]
enum Slow {
    Scalar(String),
    List(Vec<Slow>),
    Map(Vec<(String, Slow)>),
}

fn slow_read(text: &mut &str) -> Slow {
    *text = text.trim_start();
    match text.chars().next().unwrap() {
        '[' => Slow::List(slow_members(text, ']', slow_read)),
        '{' => Slow::Map(slow_members(text, '}', |text| {
            let key: String = serde_json::from_str(&slow_string(text)).unwrap();
            *text = text.trim_start().strip_prefix(':').unwrap();
            (key, slow_read(text))
        })),
        '"' => Slow::Scalar(slow_string(text)),
        _ => {
            let end = text.find([',', ']', '}', ' ', '\n', '\t', '\r']).unwrap_or(text.len());
            let (word, rest) = text.split_at(end);
            *text = rest;
            Slow::Scalar(word.to_owned())
        }
    }
}

fn slow_members<T>(text: &mut &str, end: char, read: impl Fn(&mut &str) -> T) -> Vec<T> {
    let mut members = Vec::new();
    *text = text[1..].trim_start();
    while !text.starts_with(end) {
        members.push(read(text));
        *text = text.trim_start();
        *text = text.strip_prefix(',').unwrap_or(text).trim_start();
    }
    *text = &text[1..];
    members
}

fn slow_string(text: &mut &str) -> String {
    *text = text.trim_start();
    let mut end = 1;
    while text.as_bytes()[end] != b'"' {
        end += if text.as_bytes()[end] == b'\\' { 2 } else { 1 };
    }
    let (literal, rest) = text.split_at(end + 1);
    *text = rest;
    literal.to_owned()
}

/// How a careless reader takes a key.
const KEY_READINGS: [fn(&str) -> String; 8] = [
    str::to_owned,
    str::to_lowercase,
    str::to_uppercase,
    |key| key.to_uppercase().to_lowercase(),
    |key| key.split('\0').next().unwrap().to_owned(),
    |key| key.trim().replace(|c: char| c.is_control() || c == '\u{feff}', ""),
    |key| key.trim().to_lowercase(),
    |key| key.replace('ſ', "s").replace('\u{212a}', "k").to_ascii_lowercase(),
];

/// One careless reading: an object becomes a map, and the first or the last of two members stays.
fn reading(value: &Slow, key_reading: fn(&str) -> String, last_wins: bool) -> (String, usize) {
    match value {
        Slow::Scalar(text) => (text.clone(), 1),
        Slow::List(items) => {
            let items: Vec<_> =
                items.iter().map(|item| reading(item, key_reading, last_wins)).collect();
            (format!("{items:?}"), items.iter().map(|item| item.1).sum())
        }
        Slow::Map(members) => {
            let mut map = BTreeMap::new();
            for (key, value) in members {
                let key = key_reading(key);
                if last_wins || !map.contains_key(&key) {
                    map.insert(key, reading(value, key_reading, last_wins));
                }
            }
            let count = map.values().map(|member| member.1).sum::<usize>() + map.len();
            (format!("{map:?}"), count)
        }
    }
}

fn count(value: &Slow) -> usize {
    match value {
        Slow::Scalar(_) => 1,
        Slow::List(items) => items.iter().map(count).sum(),
        Slow::Map(members) => members.iter().map(|(_, value)| count(value) + 1).sum(),
    }
}

/// Every reading gives all members, whichever of two it prefers.
fn has_one_meaning(text: &str) -> bool {
    let value = slow_read(&mut &*text);
    KEY_READINGS.iter().all(|&key_reading| {
        let first = reading(&value, key_reading, false);
        first == reading(&value, key_reading, true) && first.1 == count(&value)
    })
}

fn key_holds_control(value: &Slow) -> bool {
    match value {
        Slow::Scalar(_) => false,
        Slow::List(items) => items.iter().any(key_holds_control),
        Slow::Map(members) => members
            .iter()
            .any(|(key, value)| key.chars().any(char::is_control) || key_holds_control(value)),
    }
}

/// Whether all that is surely canonical in a value is written as canonical would write it.
fn sure_is_true(value: Value<'_>) -> bool {
    let mut out = Vec::new();
    canonical(value, &mut out);
    let here = !is_surely_canonical(value) || out == value.raw().as_bytes();
    let inside = value.items().chain(value.entries().map(|(_, value)| value));
    here && inside.into_iter().all(sure_is_true)
}

fn canonical_of(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    canonical(Doc::read(text.as_bytes(), &Bounds::ANSWER).unwrap().root(), &mut out);
    out
}

/// A model in one spelling: sorted members, numbers without trailing zeros.
fn normal(model: &Model) -> Model {
    match model {
        Model::Number(mantissa, places) => {
            let (mut mantissa, mut places) = (*mantissa, *places);
            while places > 0 && mantissa % 10 == 0 {
                (mantissa, places) = (mantissa / 10, places - 1);
            }
            Model::Number(mantissa, places)
        }
        Model::List(items) => Model::List(items.iter().map(normal).collect()),
        Model::Map(members) => {
            let sorted: BTreeMap<_, _> =
                members.iter().map(|(k, v)| (k.clone(), normal(v))).collect();
            Model::Map(sorted.into_iter().collect())
        }
        other => other.clone(),
    }
}

/// The same model with each key of an object used once.
fn distinct(model: Model) -> Model {
    match model {
        Model::List(items) => Model::List(items.into_iter().map(distinct).collect()),
        Model::Map(members) => {
            let unique: BTreeMap<_, _> =
                members.into_iter().map(|(k, v)| (k, distinct(v))).collect();
            Model::Map(unique.into_iter().collect())
        }
        other => other,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(3000) })]

    #[test]
    fn accepted_texts_read_the_same_in_other_readers(bytes in mutated()) {
        let elsewhere = serde_json::from_slice::<serde_json::Value>(&bytes);
        match (Doc::read(&bytes, &Bounds::MESSAGE), &elsewhere) {
            (Ok(doc), Ok(other)) => prop_assert!(agrees(doc.root(), other)),
            (Ok(_), Err(error)) => prop_assert!(false, "accepted alone: {error}"),
            (Err(_), _) => {}
        }
        if let Err(error) = Doc::read(&bytes, &Bounds::ANSWER) {
            prop_assert!(elsewhere.is_err(), "refused alone: {error}");
        } else if let Err(error) = elsewhere {
            prop_assert!(error.to_string().starts_with("number out of range"), "{error}");
        }
    }

    #[test]
    fn strings_are_written_as_elsewhere(text in "[ -~\"\\\\\u{0}-\u{1f}\u{7f}é😀]{0,40}") {
        let mut out = Vec::new();
        super::write_string(&text, &mut out);
        prop_assert_eq!(String::from_utf8(out).unwrap(), serde_json::to_string(&text).unwrap());
    }

    #[test]
    fn accepted_texts_have_one_meaning(bytes in mutated()) {
        if let Ok(doc) = Doc::read(&bytes, &Bounds::MESSAGE) {
            prop_assert!(has_one_meaning(doc.text()));
        }
    }

    #[test]
    fn plain_texts_with_one_meaning_are_not_refused(model in models(), choices in vec(any::<u8>(), 8)) {
        let text = spelled(&model, &choices);
        let value = slow_read(&mut text.as_str());
        if text.is_ascii() && has_one_meaning(&text) && !key_holds_control(&value) && !text.contains("\\u") {
            prop_assert!(Doc::read(text.as_bytes(), &Bounds::MESSAGE).is_ok(), "{}", text);
        }
    }

    #[test]
    fn canonical_ignores_spelling(model in models(), a in vec(any::<u8>(), 8), b in vec(any::<u8>(), 8)) {
        let model = distinct(model);
        prop_assert_eq!(canonical_of(&spelled(&model, &a)), canonical_of(&spelled(&model, &b)));
    }

    #[test]
    fn canonical_tells_meanings_apart(a in models(), b in models(), choices in vec(any::<u8>(), 8)) {
        let (a, b) = (distinct(a), distinct(b));
        let same = canonical_of(&spelled(&a, &choices)) == canonical_of(&spelled(&b, &choices));
        prop_assert_eq!(same, normal(&a) == normal(&b));
    }

    #[test]
    fn the_quick_canonical_check_is_never_wrong(model in models(), choices in vec(any::<u8>(), 8)) {
        let text = spelled(&model, &choices);
        prop_assert!(sure_is_true(Doc::read(text.as_bytes(), &Bounds::ANSWER).unwrap().root()));
    }

    #[test]
    fn canonical_reads_back_to_itself(model in models(), choices in vec(any::<u8>(), 8)) {
        let once = canonical_of(&spelled(&model, &choices));
        prop_assert_eq!(canonical_of(std::str::from_utf8(&once).unwrap()), once);
    }

    #[test]
    fn a_shallow_reading_accepts_the_same_texts(bytes in mutated(), depth in 0..4_usize) {
        let full = Doc::read(&bytes, &Bounds::ANSWER);
        let shallow = Doc::read_shallow(&bytes, &Bounds::ANSWER, depth);
        prop_assert_eq!(full.as_ref().err(), shallow.as_ref().err());
        if let (Ok(full), Ok(shallow)) = (full, shallow) {
            let mut out = [Vec::new(), Vec::new()];
            canonical(full.root(), &mut out[0]);
            canonical(shallow.root(), &mut out[1]);
            prop_assert_eq!(&out[0], &out[1]);
        }
    }

    #[test]
    fn any_bytes_are_answered(bytes in vec(any::<u8>(), 0..200), depth in 0..3_usize) {
        for bounds in [Bounds::MESSAGE, Bounds::ANSWER, Bounds::POLICY] {
            if let Err(refusal) = Doc::read_shallow(&bytes, &bounds, depth) {
                prop_assert!(refusal.offset <= bytes.len());
            }
        }
    }

    #[test]
    fn the_shortest_text_of_every_double_is_accepted(double in any::<f64>()) {
        // A whole number needs an exponent or a point to be read as a double everywhere.
        for text in [format!("{double:e}"), format!("{double:?}"), serde_json::json!(double).to_string()] {
            let text = text.replace("null", "NaN");
            let verdict = Doc::read(text.as_bytes(), &Bounds { number_bytes_max: 400, ..Bounds::MESSAGE });
            prop_assert_eq!(verdict.is_ok(), double.is_finite(), "{}", text);
        }
    }

    #[test]
    fn a_number_beyond_a_double_is_refused(whole in 0..1000_u32, zeros in 17..40_usize) {
        let text = format!("{whole}.{}1", "0".repeat(zeros));
        let refused = Doc::read(text.as_bytes(), &Bounds::MESSAGE).is_err();
        prop_assert_eq!(refused, whole != 0, "{}", text);
    }
}
