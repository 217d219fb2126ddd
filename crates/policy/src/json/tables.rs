//! The reader's behaviour as tables: what it takes, what it refuses and where, what canonical looks like.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests stop at the first surprise")]

use super::RefusalKind::{
    ByteOrderMark, ConfusableKey, DuplicateKey, Empty, LoneSurrogate, LongNumber, LongString,
    NotUtf8, NumberNotExact, Syntax, TooDeep, TooLarge, TooManyNodes, TrailingData,
};
use super::{Bounds, Doc, Keys, Kind, RefusalKind, Value, canonical, fold, write_string};

fn refusal(source: &[u8], bounds: &Bounds) -> (RefusalKind, usize, usize) {
    match Doc::read(source, bounds) {
        Ok(_) => panic!("accepted: {}", String::from_utf8_lossy(source)),
        Err(refusal) => (refusal.kind, refusal.line, refusal.column),
    }
}

fn canonical_text(source: &str, bounds: &Bounds) -> String {
    let doc = Doc::read(source.as_bytes(), bounds).unwrap();
    let mut out = Vec::new();
    canonical(doc.root(), &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn valid_texts_are_accepted() {
    let texts = [
        "null",
        " true\r\n\t",
        "false",
        "0",
        "-0",
        "-0.0",
        "0e99999999999999999999",
        "1.10",
        "1E2",
        "1e-7",
        "1e308",
        "0.1",
        "123456789012345",
        "9007199254740992",
        "-9007199254740992",
        "1000000000000000000",
        "1.7976931348623157e308",
        "5e-324",
        "1323669654323664.2",
        "1323669654323664.3",
        r#""""#,
        r#""\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00""#,
        "\"é😀\u{7f}\"",
        "[]",
        "{}",
        "[[],{},[{}]]",
        r#"{"a":1,"b":{"a":1},"c":[{"a":1},{"a":2}]}"#,
        r#"{"":1," a":2,"é":3}"#,
    ];
    for text in texts {
        let doc = Doc::read(text.as_bytes(), &Bounds::MESSAGE);
        let doc = doc.unwrap_or_else(|refusal| panic!("{text}: {refusal}"));
        assert_eq!(doc.root().raw(), text.trim(), "{text}");
    }
}

#[test]
fn broken_texts_are_refused_with_their_place() {
    let cases: &[(&[u8], RefusalKind, usize, usize)] = &[
        (b"", Empty, 1, 1),
        (b" \n ", Empty, 2, 2),
        (b"\xEF\xBB\xBF{}", ByteOrderMark, 1, 1),
        (b"\"\xFF\"", NotUtf8, 1, 2),
        (b"\"\xED\xA0\x80\"", NotUtf8, 1, 2),
        (b"{} {}", TrailingData, 1, 4),
        (b"{}\n{}", TrailingData, 2, 1),
        (b"1 2", TrailingData, 1, 3),
        (b"{}\0", TrailingData, 1, 3),
        (b"\0", Syntax, 1, 1),
        (b"NaN", Syntax, 1, 1),
        (b"Infinity", Syntax, 1, 1),
        (b"-Infinity", Syntax, 1, 2),
        (b"nul", Syntax, 1, 1),
        (b"True", Syntax, 1, 1),
        (b"'a'", Syntax, 1, 1),
        (b"01", TrailingData, 1, 2),
        (b"-", Syntax, 1, 2),
        (b"+1", Syntax, 1, 1),
        (b".5", Syntax, 1, 1),
        (b"1.", Syntax, 1, 3),
        (b"1e", Syntax, 1, 3),
        (b"1e+", Syntax, 1, 4),
        (b"0x10", TrailingData, 1, 2),
        (b"[", Syntax, 1, 2),
        (b"[1", Syntax, 1, 3),
        (b"[1,]", Syntax, 1, 4),
        (b"[1 2]", Syntax, 1, 4),
        (b"[1}", Syntax, 1, 3),
        (b"{", Syntax, 1, 2),
        (b"{a:1}", Syntax, 1, 2),
        (b"{\"a\" 1}", Syntax, 1, 6),
        (b"{\"a\":}", Syntax, 1, 6),
        (b"{\"a\":1,}", Syntax, 1, 8),
        (b"{\"a\":1 \"b\":2}", Syntax, 1, 8),
        (b"{\n  \"a\": 1,\n  \"\xC3\xA9\": ?\n}", Syntax, 3, 8),
        (b"[1] // no", TrailingData, 1, 5),
        (b"/* no */ 1", Syntax, 1, 1),
        (b"\"a", Syntax, 1, 3),
        (b"\"abcdefghijkl", Syntax, 1, 14),
        (b"\"a\\", Syntax, 1, 4),
        (b"\"\\x\"", Syntax, 1, 2),
        (b"\"\\u12g4\"", Syntax, 1, 2),
        (b"\"\\u12", Syntax, 1, 2),
        (b"\"\\u+123\"", Syntax, 1, 2),
        (b"\"a\tb\"", Syntax, 1, 3),
        (b"\"abcdefghi\nb\"", Syntax, 1, 11),
        (b"\"\\ud800\"", LoneSurrogate, 1, 2),
        (b"\"\\ud800\\u0041\"", LoneSurrogate, 1, 2),
        (b"\"x\\udc00\"", LoneSurrogate, 1, 3),
        (b"\"\\ud800\\ud800\"", LoneSurrogate, 1, 2),
    ];
    for (source, kind, line, column) in cases {
        let shown = String::from_utf8_lossy(source);
        assert_eq!(refusal(source, &Bounds::MESSAGE), (*kind, *line, *column), "{shown}");
        // What is broken is broken under every bound.
        assert_eq!(refusal(source, &Bounds::ANSWER), (*kind, *line, *column), "{shown}");
    }
}

#[test]
fn keys_with_two_readings_are_refused_at_the_second_key() {
    let cases = [
        (r#"{"a":1,"a":1}"#, DuplicateKey, 8),
        (r#"{"a":1,"\u0061":1}"#, DuplicateKey, 8),
        (r#"{"x":{"a":1,"b":2,"a":3}}"#, DuplicateKey, 19),
        (r#"{"name":1,"Name":2}"#, ConfusableKey, 11),
        (r#"{"name":1,"NAME":2}"#, ConfusableKey, 11),
        (r#"{"session":1,"ſession":2}"#, ConfusableKey, 14),
        (r#"{"key":1,"\u212aey":2}"#, ConfusableKey, 10),
        (r#"{"ss":1,"\u1e9e":2}"#, ConfusableKey, 9),
        (r#"{"\u0130":1,"i\u0307":2}"#, ConfusableKey, 13),
        (r#"{"uri":1,"urı":2}"#, ConfusableKey, 10),
        (r#"{"uri":1,"URİ":2}"#, ConfusableKey, 10),
        (r#"{"straße":1,"STRASSE":2}"#, ConfusableKey, 13),
        (r#"{"name":1,"name\u0000":2}"#, ConfusableKey, 11),
        (r#"{"name\u0000":2}"#, ConfusableKey, 2),
        (r#"{"\u007fx":2}"#, ConfusableKey, 2),
        ("{\"\u{7f}x\":2}", ConfusableKey, 2),
        ("{\"\u{85}x\":2}", ConfusableKey, 2),
        (r#"{"na\u200bme":1,"name":2}"#, ConfusableKey, 17),
        (r#"{"name":1,"name ":2}"#, ConfusableKey, 11),
        (r#"{"name":1,"\u00a0name":2}"#, ConfusableKey, 11),
        (r#"{"name":1,"ｎａｍｅ":2}"#, ConfusableKey, 11),
        (r#"{"ﬁle":1,"file":2}"#, ConfusableKey, 10),
    ];
    for (source, kind, column) in cases {
        assert_eq!(refusal(source.as_bytes(), &Bounds::MESSAGE), (kind, 1, column), "{source}");
        assert!(Doc::read(source.as_bytes(), &Bounds::ANSWER).is_ok(), "{source}");
        let unique = Bounds { keys: Keys::Unique, ..Bounds::MESSAGE };
        assert_eq!(
            Doc::read(source.as_bytes(), &unique).is_err(),
            kind == DuplicateKey,
            "{source}"
        );
    }
}

#[test]
fn a_repeated_key_is_found_among_many() {
    let many = |last: &str| {
        let keys: Vec<String> = (0..5000).map(|n| format!("\"key{n}\":0")).collect();
        format!("{{{},\"{last}\":0}}", keys.join(","))
    };
    let kind = |last: &str| refusal(many(last).as_bytes(), &Bounds::MESSAGE).0;
    assert!(Doc::read(many("other").as_bytes(), &Bounds::MESSAGE).is_ok());
    assert_eq!(kind("key4999"), DuplicateKey);
    assert_eq!(kind("key\\u0031"), DuplicateKey);
    assert_eq!(kind("KEY2500"), ConfusableKey);
}

#[test]
fn numbers_that_some_reader_changes_are_refused() {
    let changed = [
        "100.00000000000000000001",
        "0.10000000000000001",
        "9007199254740993",
        "-9007199254740993",
        "9007199254740993.0",
        "1323669654323664.26",
        "1323669654323664.1",
        "123456789012345678",
        "1234567890123456800",
        "9223372036854775807",
        "9223372036854775808",
        "9223372036854776000",
        "18446744073709551615",
        "18446744073709551716",
        "10000000000000000000",
        "1e400",
        "-1e400",
        "1e-400",
        "1e99999999999999999999",
        "3.14159265358979323846",
    ];
    for number in changed {
        assert_eq!(
            refusal(number.as_bytes(), &Bounds::MESSAGE),
            (NumberNotExact, 1, 1),
            "{number}"
        );
        assert!(Doc::read(number.as_bytes(), &Bounds::ANSWER).is_ok(), "{number}");
    }
}

#[test]
fn each_bound_holds_at_its_number_and_not_before() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let small = Bounds {
        bytes_max: 40,
        depth_max: 3,
        nodes_max: 6,
        string_bytes_max: 10,
        number_bytes_max: 5,
        ..Bounds::MESSAGE
    };
    let cases = [
        (nested(3), None),
        (nested(4), Some(TooDeep)),
        ("[1,2,3,4,5]".to_owned(), None),
        ("[1,2,3,4,5,6]".to_owned(), Some(TooManyNodes)),
        (r#"{"a":1,"b":2}"#.to_owned(), None),
        (r#"{"a":1,"b":2,"c":3}"#.to_owned(), Some(TooManyNodes)),
        (r#""0123456789""#.to_owned(), None),
        (r#""0123456789a""#.to_owned(), Some(LongString)),
        (r#"{"0123456789a":1}"#.to_owned(), Some(LongString)),
        (r#""\u0030\u0031234567é9""#.to_owned(), Some(LongString)),
        (r#""\u0030\u003123456\u00e9\n""#.to_owned(), None),
        (r#""\u0030\u003123456\u00e9\n9""#.to_owned(), Some(LongString)),
        ("12345".to_owned(), None),
        ("123456".to_owned(), Some(LongNumber)),
        (" ".repeat(39) + "1", None),
        (" ".repeat(40) + "1", Some(TooLarge)),
    ];
    for (source, expected) in cases {
        let kind = Doc::read(source.as_bytes(), &small).err().map(|refusal| refusal.kind);
        assert_eq!(kind, expected, "{source}");
    }
    let deepest = Bounds { depth_max: usize::MAX, ..Bounds::ANSWER };
    assert_eq!(refusal(nested(100_000).as_bytes(), &deepest).0, TooDeep);
}

#[test]
fn values_answer_for_their_own_kind_only() {
    let source = "{ \"n\" : null,\n \"b\":true, \"i\": 1.10, \"s\":\"a\\nb\", \"l\":[1,[2,3],4], \"o\":{\"x\":{}} }";
    let doc = Doc::read(source.as_bytes(), &Bounds::MESSAGE).unwrap();
    let root = doc.root();
    let get = |key: &str| root.get(key).unwrap();
    let keys: Vec<_> = root.entries().map(|(key, _)| key.text().into_owned()).collect();
    assert_eq!(keys, ["n", "b", "i", "s", "l", "o"]);
    assert_eq!((root.kind(), root.len(), root.raw()), (Kind::Object, 6, source));
    assert!(get("n").is_null() && get("b").as_bool() == Some(true));
    assert_eq!((get("i").as_number(), get("i").as_str()), (Some("1.10"), None));
    assert_eq!((get("s").as_str().as_deref(), get("s").raw()), (Some("a\nb"), "\"a\\nb\""));
    assert_eq!(get("l").items().map(Value::raw).collect::<Vec<_>>(), ["1", "[2,3]", "4"]);
    assert_eq!((get("l").len(), get("l").entries().count(), get("o").items().count()), (3, 0, 0));
    assert_eq!(get("o").get("x").map(Value::is_empty), Some(true));
    assert_eq!((get("b").line_column(), source.get(get("b").span())), ((2, 6), Some("true")));
    assert!(root.get("N").is_none() && get("i").get("x").is_none());
}

#[test]
fn a_shallow_reading_checks_everything_and_keeps_only_the_top() {
    let source = br#"{"id":1,"result":{"content":[{"a":1,"a":2}],"x":{}},"e":{}}"#;
    let strict = Bounds { keys: Keys::Unique, nodes_max: 7, ..Bounds::ANSWER };
    let doc = Doc::read_shallow(source, &strict, 1).unwrap();
    let result = doc.root().get("result").unwrap();
    assert_eq!((result.len(), result.entries().count(), result.is_unopened()), (2, 0, true));
    assert_eq!(result.raw(), r#"{"content":[{"a":1,"a":2}],"x":{}}"#);
    assert!(!doc.root().get("e").unwrap().is_unopened());
    let mut out = Vec::new();
    canonical(doc.root(), &mut out);
    assert_eq!(out, br#"{"e":{},"id":1,"result":{"content":[{"a":1,"a":2}],"x":{}}}"#);

    let deeper = Bounds { nodes_max: 11, ..strict };
    let doc = Doc::read_shallow(source, &deeper, 2).unwrap();
    let content = doc.root().get("result").and_then(|result| result.get("content")).unwrap();
    assert!(content.is_unopened() && content.len() == 1);
    assert!(Doc::read_shallow(br#"{"a":[1,{"b":}]}"#, &Bounds::ANSWER, 0).is_err());
    assert!(Doc::read_shallow(br#"{"a":1,"a":2}"#, &strict, 1).is_err());
}

#[test]
fn canonical_has_one_spelling_per_meaning() {
    let cases = [
        ("null", "null"),
        (" [ 1 , 2 ] ", "[1,2]"),
        (r#"{"b":1,"a":{"d":[],"c":{}}}"#, r#"{"a":{"c":{},"d":[]},"b":1}"#),
        (
            r#"{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}"#,
            "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\u{fb33}\":3}",
        ),
        (r#""\u0041\/\u00e9\u001F\n\u007f""#, "\"A/é\\u001f\\n\u{7f}\""),
        ("-0", "0"),
        ("0.000", "0"),
        ("0e5", "0"),
        ("1.10", "1.1"),
        ("100", "100"),
        ("1e2", "100"),
        ("1.0", "1"),
        ("-12.50E+1", "-125"),
        ("1e20", "100000000000000000000"),
        ("1e21", "1e+21"),
        ("1.5e300", "1.5e+300"),
        ("0.000001", "0.000001"),
        ("0.0000001", "1e-7"),
        ("0.00000123", "0.00000123"),
        ("123e-9", "1.23e-7"),
        ("100.00000000000000000001", "100.00000000000000000001"),
        ("18446744073709551716", "18446744073709551716"),
        ("1e400", "1e+400"),
        ("1e99999999999999999999", "1e99999999999999999999"),
    ];
    let any_keys = Bounds::ANSWER;
    for (source, expected) in cases {
        assert_eq!(canonical_text(source, &any_keys), expected, "{source}");
    }
}

#[test]
fn written_strings_read_back() {
    for text in ["", "plain", "\"\\/", "\0\u{1}\u{8}\t\n\u{b}\u{c}\r\u{1f}\u{7f}", "é😀\u{2028}"]
    {
        let mut out = Vec::new();
        write_string(text, &mut out);
        let doc = Doc::read(&out, &Bounds::ANSWER).unwrap();
        assert_eq!(doc.root().as_str().as_deref(), Some(text));
    }
}

#[test]
fn case_folding_covers_careless_readers() {
    let cases = [
        ("name", "name"),
        ("NaMe", "name"),
        ("\u{212a}ey", "key"),
        ("Meſſage", "message"),
        ("name\0", "name"),
        ("㎒", "mhz"),
        ("\u{feff} name\t", "name"),
        ("ΣΊΣΥΦΟΣ", "σίσυφοσ"),
        ("σίσυφος", "σίσυφοσ"),
    ];
    for (key, folded) in cases {
        assert_eq!(fold(key), folded, "{key:?}");
    }
}
