//! Changes to messages: the asked change is made and every other byte stays.

use policy::json::{Bounds, Doc, Value};
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, Strategy, any, prop_assert_eq, prop_oneof};
use proptest::proptest;
use proptest::sample::select;

use crate::wire::{OtherShape, Splice, Step};

/// One change: a path, and JSON to put there or nothing to take out.
type Change<'c> = (&'c [Step<'c>], Option<&'c str>);

fn spliced(source: &str, changes: &[Change<'_>]) -> Result<String, OtherShape> {
    let doc = Doc::read(source.as_bytes(), &Bounds::ANSWER).unwrap();
    let splice = changes.iter().fold(Splice::new(&doc), |splice, (path, raw)| match raw {
        Some(raw) => splice.set(path, raw),
        None => splice.remove(path),
    });
    splice.finish().map(|out| String::from_utf8(out).unwrap())
}

fn key(key: &str) -> Step<'_> {
    Step::Key(key)
}

#[test]
fn members_are_replaced_added_and_removed_in_place() {
    let call = r#"{ "jsonrpc":"2.0" , "id" : 1,"params":{"name":"a.b" ,"x":1.10} }"#;
    let cases: &[(&str, &[Change<'_>], &str)] = &[
        (call, &[], call),
        (
            call,
            &[(&[key("id")], Some("\"z\""))],
            r#"{ "jsonrpc":"2.0" , "id" : "z","params":{"name":"a.b" ,"x":1.10} }"#,
        ),
        (
            call,
            &[(&[key("id")], Some("7")), (&[key("params"), key("name")], Some("\"b\""))],
            r#"{ "jsonrpc":"2.0" , "id" : 7,"params":{"name":"b" ,"x":1.10} }"#,
        ),
        (
            call,
            &[(&[key("params"), key("_meta"), key("t")], Some("1"))],
            r#"{ "jsonrpc":"2.0" , "id" : 1,"params":{"name":"a.b" ,"x":1.10,"_meta":{"t":1}} }"#,
        ),
        (
            call,
            &[
                (&[key("params"), key("_meta"), key("t")], Some("1")),
                (&[key("params"), key("_meta"), key("u/v")], Some("{}")),
            ],
            r#"{ "jsonrpc":"2.0" , "id" : 1,"params":{"name":"a.b" ,"x":1.10,"_meta":{"t":1,"u/v":{}}} }"#,
        ),
        (call, &[(&[key("jsonrpc")], None)], r#"{ "id" : 1,"params":{"name":"a.b" ,"x":1.10} }"#),
        (
            call,
            &[(&[key("jsonrpc")], None), (&[key("id")], None)],
            r#"{ "params":{"name":"a.b" ,"x":1.10} }"#,
        ),
        (call, &[(&[key("params")], None)], r#"{ "jsonrpc":"2.0" , "id" : 1 }"#),
        (call, &[(&[key("id")], None), (&[key("params")], None)], r#"{ "jsonrpc":"2.0" }"#),
        (
            call,
            &[(&[key("params"), key("name")], None), (&[key("params"), key("x")], None)],
            r#"{ "jsonrpc":"2.0" , "id" : 1,"params":{} }"#,
        ),
        (
            call,
            &[(&[key("params"), key("x")], None), (&[key("params"), key("y")], Some("2"))],
            r#"{ "jsonrpc":"2.0" , "id" : 1,"params":{"name":"a.b","y":2} }"#,
        ),
        (
            call,
            &[
                (&[key("params"), key("name")], None),
                (&[key("params"), key("x")], None),
                (&[key("params"), key("y")], Some("2")),
            ],
            r#"{ "jsonrpc":"2.0" , "id" : 1,"params":{"y":2} }"#,
        ),
        (call, &[(&[key("nothing")], None), (&[key("params"), key("no"), key("no")], None)], call),
        (call, &[], call),
        ("{ }", &[(&[key("a")], Some("1"))], r#"{"a":1 }"#),
        (
            "{}",
            &[(&[key("a"), key("b")], Some("1")), (&[key("a"), key("c")], None)],
            r#"{"a":{"b":1}}"#,
        ),
        (r#"{"\u0061":1}"#, &[(&[key("a")], Some("2"))], r#"{"\u0061":2}"#),
        (r#"{"a":1}"#, &[(&[], Some("[]"))], "[]"),
        (r#"{"a":1}"#, &[(&[key("a")], Some("2")), (&[key("a")], Some("3"))], r#"{"a":3}"#),
        (r#"{"a":1}"#, &[(&[key("a")], None), (&[key("a")], Some("3"))], r#"{"a":3}"#),
    ];
    for (source, changes, expected) in cases {
        assert_eq!(spliced(source, changes).as_deref(), Ok(*expected), "{changes:?}");
    }
}

#[test]
fn items_are_replaced_and_removed_in_place() {
    let list = r#"{"tools":[ {"name":"a"} ,{"name":"b"}, {"name":"c"} ]}"#;
    let item = |index: usize| [key("tools"), Step::Index(index)];
    let name = |index: usize| [key("tools"), Step::Index(index), key("name")];
    let cases: &[(&[Change<'_>], &str)] = &[
        (
            &[(&name(1), Some("\"s.b\""))],
            r#"{"tools":[ {"name":"a"} ,{"name":"s.b"}, {"name":"c"} ]}"#,
        ),
        (&[(&item(0), None)], r#"{"tools":[ {"name":"b"}, {"name":"c"} ]}"#),
        (&[(&item(0), None), (&item(1), None)], r#"{"tools":[ {"name":"c"} ]}"#),
        (&[(&item(2), None), (&item(1), None)], r#"{"tools":[ {"name":"a"} ]}"#),
        (&[(&item(0), None), (&item(1), None), (&item(2), None)], r#"{"tools":[  ]}"#),
        (
            &[(&item(0), None), (&name(2), Some("1")), (&[key("x")], Some("0"))],
            r#"{"tools":[ {"name":"b"}, {"name":1} ],"x":0}"#,
        ),
        (&[(&item(9), None)], list),
    ];
    for (changes, expected) in cases {
        assert_eq!(spliced(list, changes).as_deref(), Ok(*expected), "{changes:?}");
    }
}

#[test]
fn a_path_through_another_shape_changes_nothing() {
    let source = r#"{"a":1,"l":[1],"o":{}}"#;
    let cases: &[&[Change<'_>]] = &[
        &[(&[key("a"), key("b")], Some("1"))],
        &[(&[key("l"), key("b")], Some("1"))],
        &[(&[key("o"), Step::Index(0)], Some("1"))],
        &[(&[key("l"), Step::Index(1)], Some("1"))],
        &[(&[key("new"), Step::Index(0)], Some("1"))],
        &[(&[key("o")], Some("{}")), (&[key("o"), key("x")], Some("1"))],
        &[(&[key("new")], Some("{}")), (&[key("new"), key("x")], Some("1"))],
    ];
    for changes in cases {
        assert_eq!(spliced(source, changes), Err(OtherShape), "{changes:?}");
    }
    let doc = Doc::read_shallow(br#"{"o":{"x":1}}"#, &Bounds::ANSWER, 1).unwrap();
    assert_eq!(Splice::new(&doc).set(&["o", "x"], "2").finish(), Err(OtherShape));
    assert_eq!(Splice::new(&doc).set_str(&["o"], "\"").finish().unwrap(), br#"{"o":"\""}"#);
    assert!(Splice::new(&doc).is_empty());
}

/// A small document with random space, and the same as a tree.
fn documents() -> impl Strategy<Value = String> {
    let space = || select(&["", "", " ", "\n\t"][..]);
    let leaf = select(&["1", "1.10", "\"x\"", "null", "[]", "{}", "\"\\u0061,}\""][..])
        .prop_map(str::to_owned);
    leaf.prop_recursive(3, 24, 4, move |inner| {
        let member = (space(), inner, space()).prop_map(|(a, value, b)| format!("{a}{value}{b}"));
        prop_oneof![
            vec(member.clone(), 1..4).prop_map(|items| format!("[{}]", items.join(","))),
            (vec(member, 1..4), vec(space(), 3)).prop_map(|(values, spaces)| {
                let keys = ["a", "b", "\\u0063"];
                let members: Vec<String> = values
                    .iter()
                    .zip(keys)
                    .zip(spaces)
                    .map(|((v, k), s)| format!("{s}\"{k}\"{s}:{v}"))
                    .collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

fn paths() -> impl Strategy<Value = Vec<Step<'static>>> {
    let step = prop_oneof![
        3 => select(&["a", "b", "c", "d"][..]).prop_map(Step::Key),
        1 => (0..3_usize).prop_map(Step::Index),
    ];
    vec(step, 1..4)
}

/// The slow obvious way: change a tree.
fn changed(
    mut tree: serde_json::Value,
    path: &[Step<'_>],
    raw: Option<&str>,
) -> Option<serde_json::Value> {
    let (last, parents) = path.split_last().unwrap();
    let mut place = &mut tree;
    for step in parents {
        place = match (step, place) {
            (Step::Key(key), serde_json::Value::Object(object)) => {
                if raw.is_none() && !object.contains_key(*key) {
                    return Some(tree);
                }
                object.entry(*key).or_insert_with(|| serde_json::json!({}))
            }
            (Step::Index(index), serde_json::Value::Array(array)) => {
                if raw.is_none() && *index >= array.len() {
                    return Some(tree);
                }
                array.get_mut(*index)?
            }
            _ => return None,
        };
    }
    match (last, place, raw) {
        (Step::Key(key), serde_json::Value::Object(object), Some(raw)) => {
            object.insert((*key).to_owned(), serde_json::from_str(raw).unwrap());
        }
        (Step::Key(key), serde_json::Value::Object(object), None) => {
            object.shift_remove(*key);
        }
        (Step::Index(index), serde_json::Value::Array(array), Some(raw)) => {
            *array.get_mut(*index)? = serde_json::from_str(raw).unwrap();
        }
        (Step::Index(index), serde_json::Value::Array(array), None) => {
            if *index < array.len() {
                array.remove(*index);
            }
        }
        _ => return None,
    }
    Some(tree)
}

/// The leaves of a value, as written.
fn leaves(value: Value<'_>, out: &mut Vec<String>) {
    value.entries().for_each(|(key, member)| {
        out.push(key.raw().to_owned());
        leaves(member, out);
    });
    value.items().for_each(|item| leaves(item, out));
    if value.is_empty() {
        out.push(value.raw().to_owned());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn a_change_is_the_change_of_the_tree(source in documents(), path in paths(), remove in any::<bool>()) {
        let raw = (!remove).then_some("{\"new\":7}");
        let expected = changed(serde_json::from_str(&source).unwrap(), &path, raw);
        let result = spliced(&source, &[(&path, raw)]);
        let parsed = result.clone().ok().map(|text| serde_json::from_str::<serde_json::Value>(&text).unwrap());
        prop_assert_eq!(&parsed, &expected, "{} {:?} {:?}", source, path, result);
        // Key order stays too, which comparing trees does not show.
        if let (Some(parsed), Some(expected)) = (parsed, expected) {
            prop_assert_eq!(parsed.to_string(), expected.to_string());
        }
    }

    #[test]
    fn replacing_a_value_keeps_every_byte_around_it(source in documents(), pick in any::<u16>()) {
        let doc = Doc::read(source.as_bytes(), &Bounds::ANSWER).unwrap();
        let mut places = Vec::new();
        collect(doc.root(), &mut Vec::new(), &mut places);
        let (path, span) = places[usize::from(pick) % places.len()].clone();
        let out = Splice::new(&doc).set(&path, "\"NEW\"").finish().unwrap();
        let expected = format!("{}\"NEW\"{}", &source[..span.start], &source[span.end..]);
        prop_assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn removing_keeps_the_spelling_of_all_other_values(source in documents(), path in paths()) {
        let Ok(out) = spliced(&source, &[(&path, None)]) else { return Ok(()) };
        let (before, after) = (all_leaves(&source), all_leaves(&out));
        let mut rest = before.iter();
        // What is left is what was there, in order, or an emptied container.
        let kept = after.iter().all(|leaf| leaf.trim_matches(['{', '}', '[', ']']).trim().is_empty() || rest.any(|old| old == leaf));
        prop_assert_eq!(kept, true, "{} {}", source, out);
    }
}

fn all_leaves(source: &str) -> Vec<String> {
    let doc = Doc::read(source.as_bytes(), &Bounds::ANSWER).unwrap();
    let mut out = Vec::new();
    leaves(doc.root(), &mut out);
    out
}

type Located<'d> = (Vec<Step<'d>>, std::ops::Range<usize>);

fn collect<'d>(value: Value<'d>, path: &mut Vec<Step<'d>>, out: &mut Vec<Located<'d>>) {
    out.push((path.clone(), value.span()));
    for (key, member) in value.entries() {
        let known = ["a", "b", "c"].into_iter().find(|known| key.is(known)).unwrap();
        path.push(Step::Key(known));
        collect(member, path, out);
        path.pop();
    }
    for (index, item) in value.items().enumerate() {
        path.push(Step::Index(index));
        collect(item, path, out);
        path.pop();
    }
}
