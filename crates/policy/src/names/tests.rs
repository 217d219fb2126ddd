//! Precedence, ties and odd names, and a comparison with a scan over all patterns.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

use proptest::prelude::{Just, Strategy, prop_assert_eq, prop_oneof, proptest};

use super::{DeceptiveName, Match, Name, Names, Tie, deceptive, fold};

fn names(patterns: &[&str]) -> (Names, Vec<Tie>) {
    Names::new(patterns.iter().copied())
}

#[test]
fn an_exact_name_beats_a_glob_and_a_longer_prefix_beats_a_shorter() {
    let patterns = ["get_*", "get_user", "*", "get_user_*", "*_admin", "get_*_secret"];
    let (_, ties) = names(&patterns);
    // `*` and `*_admin` both begin with nothing, and so do the two that begin with `get_`.
    let pairs: Vec<_> = ties.iter().map(|tie| (tie.later, tie.earlier)).collect();
    assert_eq!(pairs, [(4, 2), (5, 0)]);

    let (names, ties) = names(&["get_*", "get_user", "*", "get_user_*"]);
    assert!(ties.is_empty());
    let cases = [
        ("get_user", Some(Match::Exact(1))),
        ("get_user_x", Some(Match::Glob(3))),
        ("get_userx", Some(Match::Glob(0))),
        ("get_", Some(Match::Glob(0))),
        ("get", Some(Match::Glob(2))),
        ("", Some(Match::Glob(2))),
        ("GET_user", Some(Match::Glob(2))),
    ];
    for (name, expected) in cases {
        assert_eq!(names.find(&Name::of(name)), expected, "{name}");
    }
}

#[test]
fn globs_tie_only_when_a_name_can_match_both() {
    let cases: [(&[&str], bool); 12] = [
        (&["*_read", "*_write"], false),
        (&["*_read", "*"], true),
        (&["a*b*c", "a*d*c"], true),
        (&["a*b", "a*c"], false),
        (&["a*b", "a*bb"], true),
        (&["a*", "a**"], true),
        (&["a*", "ab*"], false),
        (&["a*x", "ab*x"], false),
        (&["a*x*", "a*y*"], true),
        (&["a*x*q", "a*y*z"], false),
        (&["a", "a"], true),
        (&["a", "a*"], false),
    ];
    for (patterns, tie) in cases {
        assert_eq!(!names(patterns).1.is_empty(), tie, "{patterns:?}");
    }
}

#[test]
fn a_long_prefix_that_does_not_match_falls_back_to_a_shorter_one() {
    let (names, ties) = names(&["a*", "ab*x", "abc*y*z", "abc*q"]);
    assert!(ties.is_empty());
    let cases =
        [("abcyz", 2), ("abcz", 0), ("abcx", 1), ("abcq", 3), ("abx", 1), ("ab", 0), ("abc", 0)];
    for (name, expected) in cases {
        assert_eq!(names.find(&Name::of(name)), Some(Match::Glob(expected)), "{name}");
    }
    // Prefix and suffix may not share letters.
    let (names, _) = super::Names::new(["aba*aba"].into_iter());
    assert_eq!(names.find(&Name::of("aba")), None);
    assert_eq!(names.find(&Name::of("ababa")), None);
    assert_eq!(names.find(&Name::of("abaaba")), Some(Match::Glob(0)));
}

#[test]
fn deceptive_names_are_recognized() {
    let cases = [
        ("get_user", None),
        ("get-user.v2 x", None),
        ("получить", None),
        ("caf\u{e9}", None),
        ("get_天気", None),
        ("get_ひらがな漢字", None),
        ("get_한국어", None),
        ("cafe\u{301}", Some(DeceptiveName::NotNfc)),
        ("get\u{0}", Some(DeceptiveName::Invisible)),
        ("get\nuser", Some(DeceptiveName::Invisible)),
        ("get\u{200b}user", Some(DeceptiveName::Invisible)),
        ("get\u{202e}user", Some(DeceptiveName::Invisible)),
        ("get\u{a0}user", Some(DeceptiveName::Invisible)),
        ("get\u{e0041}", Some(DeceptiveName::Invisible)),
        ("get\u{fe0f}", Some(DeceptiveName::Invisible)),
        ("d\u{435}lete", Some(DeceptiveName::MixedScripts)),
        ("delet\u{3b5}", Some(DeceptiveName::MixedScripts)),
        ("get_天気\u{435}", Some(DeceptiveName::MixedScripts)),
    ];
    for (name, expected) in cases {
        assert_eq!(deceptive(name), expected, "{name:?}");
    }
}

#[test]
fn an_odd_name_is_matched_exactly_or_not_at_all() {
    let (names, _) = names(&["*", "caf\u{e9}", "d\u{435}lete"]);
    // Names are compared after NFC.
    assert_eq!(names.find(&Name::of("cafe\u{301}")), Some(Match::Exact(1)));
    assert_eq!(names.find(&Name::of("d\u{435}lete")), Some(Match::Exact(2)));
    assert_eq!(names.find(&Name::of("d\u{435}lete_all")), None);
    assert_eq!(names.find(&Name::of("x\u{200b}")), None);
}

#[test]
fn spellings_of_one_uri_fold_together() {
    let cases = [
        ("file:///etc/passwd", "file:///etc/passwd"),
        ("FILE:///etc/passwd", "file:///etc/passwd"),
        ("file:///safe/../etc/passwd", "file:///etc/passwd"),
        ("file:///safe/%2e%2e/etc/passwd", "file:///etc/passwd"),
        ("file:///safe/..%252fetc/passwd", "file:///etc/passwd"),
        ("file:///safe\\..\\etc/./passwd", "file:///etc/passwd"),
        ("file:////etc//passwd", "file:///etc/passwd"),
        ("file:///etc/passwd#x", "file:///etc/passwd"),
        ("file:///%65tc/passwd", "file:///etc/passwd"),
        ("file:///../../etc/passwd", "file:///etc/passwd"),
        ("file:///etc/x%3F/../passwd", "file:///etc/passwd"),
        ("file:///etc/passwd?a=%2e#x", "file:///etc/passwd?a=%2e"),
        ("Whoop://DB/Sleep?q=../x", "whoop://db/Sleep?q=../x"),
        ("file:/etc/passwd", "file:///etc/passwd"),
        ("file:\\etc\\passwd", "file:///etc/passwd"),
        ("file://LOCALHOST/etc/passwd", "file:///etc/passwd"),
        ("file://localhost.evil/etc", "file://localhost.evil/etc"),
        ("file:etc", "file:etc"),
        ("urn:A/b/../c", "urn:A/c"),
        ("plain", "plain"),
        ("", ""),
    ];
    for (uri, expected) in cases {
        assert_eq!(fold::uri_reading(uri), expected, "{uri}");
    }
}

#[test]
fn a_query_or_fragment_that_climbs_is_read_as_a_path_too() {
    let cases = [
        ("file:///safe/?/../../etc/passwd", Some("file:///etc/passwd")),
        ("file:///safe/#/%2e%2e/..%2fetc", Some("file:///etc")),
        ("file:///safe/?a\\..\\..\\..\\etc", Some("file:///etc")),
        ("x://db/s?at=/a/./b", Some("x://db/s?at=/a/b")),
        ("x://db/s?at=../x", None),
        ("x://db/s?q=a//b", None),
        ("x://db/s/../t", None),
    ];
    for (uri, expected) in cases {
        assert_eq!(fold::uri_reading_unsplit(uri).as_deref(), expected, "{uri}");
    }
}

#[test]
fn confusable_names_look_the_same() {
    assert_eq!(fold::look("d\u{435}lete"), fold::look("delete"));
    assert_eq!(fold::look("del\u{200b}ete"), fold::look("delete"));
    assert_eq!(fold::look("\u{ff44}elete"), fold::look("delete"));
    assert_ne!(fold::look("deleted"), fold::look("delete"));
    assert_eq!(fold::look_alike_pattern("d\u{435}l*x"), fold::look_alike_pattern("del*x"));
}

fn pattern() -> impl Strategy<Value = String> {
    let letter = prop_oneof![Just("a"), Just("b"), Just("*"), Just("é")];
    proptest::collection::vec(letter, 0..6).prop_map(|letters| letters.concat())
}

fn name() -> impl Strategy<Value = String> {
    let letter = prop_oneof![Just("a"), Just("b"), Just("é")];
    proptest::collection::vec(letter, 0..9).prop_map(|letters| letters.concat())
}

/// Matches by trying every split.
fn matches(pattern: &[char], name: &[char]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some(('*', rest)), _) => (0..=name.len()).any(|taken| matches(rest, &name[taken..])),
        (Some((p, pattern)), Some((n, name))) => p == n && matches(pattern, name),
        _ => false,
    }
}

proptest! {
    #[test]
    fn finding_agrees_with_a_scan(
        patterns in proptest::collection::vec(pattern(), 0..12),
        name in name(),
    ) {
        let (names, ties) = Names::new(patterns.iter().map(String::as_str));
        let letters: Vec<char> = name.chars().collect();
        let prefix = |pattern: &str| pattern.split('*').next().unwrap().len();
        let exact = patterns.iter().position(|pattern| !pattern.contains('*') && *pattern == name);
        let globs = patterns.iter().enumerate().filter(|(_, pattern)| {
            pattern.contains('*') && matches(&pattern.chars().collect::<Vec<_>>(), &letters)
        });
        let longest = globs.clone().map(|(_, pattern)| prefix(pattern)).max();
        let best: Vec<_> = globs.filter(|(_, pattern)| Some(prefix(pattern)) == longest).collect();
        let found = names.find(&Name::of(&name)).map(|found| found.entry() as usize);
        match exact {
            Some(exact) => prop_assert_eq!(found, Some(exact)),
            None if ties.is_empty() => prop_assert_eq!(found, best.first().map(|(at, _)| *at)),
            None => prop_assert_eq!(found.is_some(), !best.is_empty()),
        }
        // Two that match one name equally well were reported.
        if best.len() > 1 {
            assert!(!ties.is_empty());
        }
    }
}
