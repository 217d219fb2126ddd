//! Which arguments are accepted, and what an error says.
#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use serde_json::json;

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Color {
    Red,
    Green,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Args {
    name: Option<String>,
    #[serde(default)]
    limit: Limit<20, 50>,
    #[serde(default)]
    offset: Offset,
    #[serde(default)]
    flag: bool,
    number: Option<i64>,
    color: Option<Color>,
    list: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
struct Needs {
    #[expect(dead_code, reason = "only its absence is tested")]
    id: String,
}

fn read(arguments: &Value, blank: Blank) -> Result<Args, String> {
    parse(arguments.as_object().unwrap(), blank).map_err(|bad| bad.to_string())
}

#[test]
fn four_forms_of_empty_params_are_equal() {
    let nothing = read(&json!({}), Blank::IsAbsent);
    for absent in [json!(null), json!(""), json!("null"), json!(" ")] {
        let arguments = json!({
            "name": absent, "limit": absent, "offset": absent, "flag": absent,
            "number": absent, "color": absent, "list": absent, "unknown": 7,
        });
        assert_eq!(read(&arguments, Blank::IsAbsent), nothing, "{absent}");
    }
    assert_eq!(nothing.unwrap().limit.get(), 20);
}

#[test]
fn null_is_absent_only_where_null_is_the_default() {
    for (arguments, wrong) in [
        (json!({"name": null, "number": null, "list": null}), None),
        (json!({"flag": null}), Some("argument `flag` must be true or false")),
        (json!({"limit": null}), Some("argument `limit` must be a whole number")),
        (json!({"number": ""}), Some("argument `number` must be a whole number")),
    ] {
        let found = read(&arguments, Blank::IsValue).err();
        assert_eq!(found.as_deref(), wrong, "{arguments}");
    }
}

#[test]
fn numbers_are_brought_into_range_and_nonsense_is_refused() {
    for (value, limit) in [
        (json!(7), Some(7)),
        (json!("7"), Some(7)),
        (json!(7.0), Some(7)),
        (json!(0), Some(1)),
        (json!(-3), Some(1)),
        (json!(5_000), Some(50)),
        (json!("many"), None),
        (json!([7]), None),
    ] {
        let found = read(&json!({ "limit": value }), Blank::IsAbsent);
        assert_eq!(found.ok().map(|args| args.limit.get()), limit, "{value}");
    }
    for (value, offset) in [(json!(0), Some(0)), (json!("70"), Some(70)), (json!(-1), None)] {
        let found = read(&json!({ "offset": value }), Blank::IsAbsent);
        assert_eq!(found.ok().map(|args| args.offset.get()), offset, "{value}");
    }
}

#[test]
fn an_error_names_the_argument_and_never_its_value() {
    for (arguments, words) in [
        (json!({"name": 7}), "argument `name` must be a string"),
        (json!({"offset": -1}), "argument `offset` must be 0 or more"),
        (json!({"color": "blue"}), "argument `color` must be one of: red, green"),
        (json!({"list": "cycles"}), "argument `list` must be a list of strings"),
        (json!({"list": ["a", 7]}), "argument `list` must be a list of strings"),
    ] {
        assert_eq!(read(&arguments, Blank::IsAbsent), Err(words.to_owned()), "{arguments}");
    }
    let missing = parse::<Needs>(&Map::new(), Blank::IsAbsent).unwrap_err();
    assert_eq!(missing.to_string(), "argument `id` is required");
}

#[test]
fn booleans_and_lists_are_read_leniently() {
    let arguments = json!({"color": " GREEN", "list": "[\"cycles\"]", "name": " x ", "flag": "on"});
    let found = read(&arguments, Blank::IsAbsent).unwrap();
    assert_eq!(found.color, Some(Color::Green));
    assert_eq!(found.list, Some(vec!["cycles".to_owned()]));
    assert_eq!(found.name.as_deref(), Some("x"));
    assert!(found.flag);
    let untrimmed = read(&json!({"name": " x "}), Blank::IsValue).unwrap();
    assert_eq!(untrimmed.name.as_deref(), Some(" x "));
}
