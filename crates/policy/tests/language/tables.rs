//! The tables behind the loader, the schema and the reference say the same.

use policy::{Format, Policy, Shape, bounds, fields, name_warning, operators, schema};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::Value;

use crate::generate;

/// As much of JSON Schema as the schema uses.
fn valid(schema: &Value, root: &Value, value: &Value) -> bool {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        return valid(&root["$defs"][name.trim_start_matches("#/$defs/")], root, value);
    }
    let Some(keywords) = schema.as_object() else { return schema.as_bool() == Some(true) };
    keywords.iter().all(|(keyword, rule)| match keyword.as_str() {
        "type" => match rule {
            Value::Array(types) => types.iter().any(|name| has_type(name, value)),
            name => has_type(name, value),
        },
        "enum" => rule.as_array().unwrap().contains(value),
        "const" => rule == value,
        "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().unwrap()),
        "maximum" => value.as_f64().is_none_or(|number| number <= rule.as_f64().unwrap()),
        "minLength" => {
            value.as_str().is_none_or(|text| text.len() as u64 >= rule.as_u64().unwrap())
        }
        "pattern" => value
            .as_str()
            .is_none_or(|text| regex::Regex::new(rule.as_str().unwrap()).unwrap().is_match(text)),
        "minItems" => {
            value.as_array().is_none_or(|items| items.len() as u64 >= rule.as_u64().unwrap())
        }
        "maxItems" => {
            value.as_array().is_none_or(|items| items.len() as u64 <= rule.as_u64().unwrap())
        }
        "maxProperties" => {
            value.as_object().is_none_or(|map| map.len() as u64 <= rule.as_u64().unwrap())
        }
        "items" => {
            value.as_array().is_none_or(|items| items.iter().all(|item| valid(rule, root, item)))
        }
        "required" => value.as_object().is_none_or(|map| {
            rule.as_array().unwrap().iter().all(|name| map.contains_key(name.as_str().unwrap()))
        }),
        "properties" => value.as_object().is_none_or(|map| {
            map.iter()
                .all(|(name, value)| rule.get(name).is_none_or(|rule| valid(rule, root, value)))
        }),
        "additionalProperties" => value.as_object().is_none_or(|map| {
            let known = schema.get("properties").and_then(Value::as_object);
            map.iter()
                .filter(|(name, _)| known.is_none_or(|known| !known.contains_key(*name)))
                .all(|(_, value)| valid(rule, root, value))
        }),
        "propertyNames" => value.as_object().is_none_or(|map| {
            map.keys().all(|name| valid(rule, root, &Value::String(name.clone())))
        }),
        "anyOf" => rule.as_array().unwrap().iter().any(|rule| valid(rule, root, value)),
        "allOf" => rule.as_array().unwrap().iter().all(|rule| valid(rule, root, value)),
        "oneOf" => {
            rule.as_array().unwrap().iter().filter(|rule| valid(rule, root, value)).count() == 1
        }
        "if" => !valid(rule, root, value) || valid(&schema["then"], root, value),
        "then" | "description" | "title" | "$schema" | "$defs" => true,
        other => panic!("{other}"),
    })
}

fn has_type(name: &Value, value: &Value) -> bool {
    match name.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "boolean" => value.is_boolean(),
        other => panic!("{other}"),
    }
}

fn passes(source: &str) -> bool {
    let schema = schema();
    valid(&schema, &schema, &serde_json::from_str(source).unwrap())
}

#[test]
fn policies_that_load_pass_the_schema() {
    let mut runner = TestRunner::deterministic();
    let mut loaded = 0;
    for _ in 0..300 {
        let policy = generate::policy().new_tree(&mut runner).unwrap().current();
        let source = policy.to_json();
        // The reader behind this check has no number that large.
        if Policy::load(&source, Format::Json).is_ok() && !source.contains("1e400") {
            loaded += 1;
            assert!(passes(&source), "{source}");
        }
    }
    assert!(loaded > 100, "{loaded}");
}

#[test]
fn policies_that_the_schema_refuses_do_not_load() {
    let faults = [
        "{}",
        r#"{"version":"1"}"#,
        r#"{"version":"2","default":"deny"}"#,
        r#"{"version":"1","default":"deny","tool":{}}"#,
        r#"{"version":"1","default":"deny","tools":{"x":{"acton":"deny"}}}"#,
        r#"{"version":"1","default":"deny","tools":{"x":null}}"#,
        r#"{"version":"1","default":"deny","tools":{"":{}}}"#,
        r#"{"version":"1","default":"deny","tools":{"x":{"action":"block"}}}"#,
        r#"{"version":"1","default":"deny","tools":{"x":{"limits":[{"max":1}]}}}"#,
        r#"{"version":"1","default":"deny","tools":{"x":{"limits":[{"max":-1,"window":"day"}]}}}"#,
        r#"{"version":"1","default":"deny","tools":{"x":{"limits":[{"max":1,"window":"fortnight"}]}}}"#,
        r#"{"version":"1","default":"deny","tools":{"x":{"deny_if":[{}]}}}"#,
        r#"{"version":"1","default":"deny","tools":{"x":{"deny_if":[{"conditions":[{"path":"args.a","op":"like","value":1}]}]}}}"#,
        r#"{"version":"1","default":"deny","tools":{"x":{"deny_if":[{"conditions":[{"path":"args.a","op":"gt","value":"1"}]}]}}}"#,
        r#"{"version":"1","default":"deny","tools":{"x":{"deny_if":[{"conditions":[{"path":"args.a","op":"eq"}]}]}}}"#,
        r#"{"version":"1","default":"deny","tools":{"x":{"deny_if":[{"conditions":[],"timeout":"1m"}]}}}"#,
        r#"{"version":"1","default":"deny","tests":[{"expect":"deny"}]}"#,
        r#"{"version":"1","default":"deny","tests":[{"tool":"x","prompt":"x","expect":"deny"}]}"#,
        r#"{"version":"1","default":"deny","hide":"x"}"#,
    ];
    for source in faults {
        assert!(!passes(source), "{source}");
        assert!(Policy::load(source, Format::Json).is_err(), "{source}");
    }
}

/// By JSON Schema a number is whole by its value, however it is written.
#[test]
fn the_loader_and_the_schema_take_the_same_whole_numbers() {
    let holders = [
        |number: &str| format!(r#""limits":[{{"max":1,"window":{number}}}]"#),
        |number: &str| format!(r#""rate_limit":{{"max":1,"window":{number}}}"#),
        |number: &str| format!(r#""result_bytes_max":{number}"#),
        |number: &str| {
            format!(
                r#""require":[{{"conditions":[{{"path":"args.a","op":"length_lte","value":{number}}}]}}]"#
            )
        },
    ];
    let numbers = [
        "60",
        "60.0",
        "6e1",
        "0.6e2",
        "600e-1",
        "60.5",
        "6e-1",
        "-60",
        "-60.0",
        "1e1",
        "\"60\"",
        "\"0s\"",
        "\"00s\"",
        "\"60s\"",
        "\"060s\"",
        "31622400",
        "31622400.0",
        "31622401",
    ];
    for (number, holder) in numbers.iter().flat_map(|n| holders.iter().map(move |h| (n, h))) {
        let entry = holder(number);
        let source = format!(r#"{{"version":"1","default":"deny","tools":{{"x":{{{entry}}}}}}}"#);
        assert_eq!(Policy::load(&source, Format::Json).is_ok(), passes(&source), "{source}");
    }
    let hour = r#"{"version":"1","default":"deny","tests":[{"tool":"x","expect":"deny","time":{"hour":23.0}}]}"#;
    assert!(passes(hour) && Policy::load(hour, Format::Json).is_ok());
}

#[test]
fn every_field_has_words_and_one_row() {
    for object in fields() {
        let mut names: Vec<_> = object.fields.iter().map(|field| field.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), object.fields.len(), "{}", object.name);
        for field in object.fields {
            assert!(
                !field.description.is_empty() && !field.description.ends_with('.'),
                "{}",
                field.name
            );
            assert!(!field.shape.describe().is_empty());
            if let Shape::Object(inner) | Shape::Named(inner) = field.shape {
                assert!(fields().iter().any(|known| known.name == inner.name), "{}", inner.name);
            }
        }
    }
}

#[test]
fn the_operators_are_those_of_the_language() {
    let names: Vec<_> = operators().iter().map(|row| row.name).collect();
    let mut described: Vec<_> =
        "eq neq lt lte gt gte in not_in exists regex contains starts_with ends_with glob \
        length_lte length_gte path_under url_host_in cidr_in"
            .split_whitespace()
            .collect();
    described.retain(|name| !names.contains(name));
    assert!(described.is_empty() && names.len() == 19, "{described:?}");
}

#[test]
fn a_space_at_the_end_of_a_name_draws_a_warning() {
    for (tools, warned) in [("\"read \"", true), ("\" read\"", true), ("\"read\"", false)] {
        let text = format!("{{\"version\":\"1\",\"default\":\"deny\",\"tools\":{{{tools}:{{}}}}}}");
        let policy = Policy::load(&text, Format::Json).unwrap();
        let found = policy.warnings().iter().any(|w| w.to_string().contains("with a space"));
        assert_eq!(found, warned, "{tools}");
    }
}

#[test]
fn bounds_and_odd_names_can_be_asked_for() {
    let find = |description: &str| {
        bounds().iter().find(|row| row.description.starts_with(description)).map(|row| row.max)
    };
    assert_eq!(find("bytes of a document"), Some(1_048_576));
    assert_eq!(find("entries"), Some(10_000));
    assert_eq!(find("rules"), Some(1_000));
    assert_eq!(find("levels"), Some(64));
    assert_eq!(find("bytes of one text"), Some(65_536));
    assert_eq!(name_warning("get_user"), None);
    assert_eq!(name_warning("get\u{200b}user"), Some("contains control or invisible characters"));
}
