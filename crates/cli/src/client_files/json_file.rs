//! Edits of a JSON file that leave everything else as it is: comments, order, indentation, ends of
//! lines, trailing commas and a byte order mark stay. A comment that shares a line with a setting that
//! is removed goes with it.

use anyhow::{Result, anyhow, bail};
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode};
use policy::json::Value;

use super::jsonc::{self, BYTE_ORDER_MARK};
use super::table::CONNECTION;

/// A member to be written: its name and its value as JSON.
pub(crate) type Member = (String, serde_json::Value);

/// Comments and trailing commas are more than JSON; nothing else is.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// A parsed file. The root lives as long as any of its nodes is used.
struct File {
    root: CstRootNode,
    has_mark: bool,
}

impl File {
    /// Read strictly first: of a duplicate name only one would be edited.
    fn parse(text: &str) -> Result<File> {
        jsonc::read(&jsonc::plain(text))?;
        let body = text.strip_prefix(BYTE_ORDER_MARK);
        let root =
            CstRootNode::parse(body.unwrap_or(text), &OPTIONS).map_err(|e| anyhow!("{e}"))?;
        Ok(File { root, has_mark: body.is_some() })
    }

    fn object(&self, keys: &[String]) -> Result<CstObject> {
        let root = self.root.object_value();
        let found = keys.iter().try_fold(root, |object, key| Some(object?.object_value(key)));
        found.flatten().ok_or_else(|| gone(keys))
    }

    fn text(&self) -> String {
        let mark = if self.has_mark { BYTE_ORDER_MARK } else { "" };
        format!("{mark}{}", self.root)
    }
}

fn gone(keys: &[String]) -> anyhow::Error {
    anyhow!("`{}` is gone", keys.join("."))
}

/// Replaces the connection of the server at `keys` by `members`; its other members stay.
pub(crate) fn redirect(text: &str, keys: &[String], members: &[Member]) -> Result<String> {
    let file = File::parse(text)?;
    let entry = file.object(keys)?;
    let is_connection =
        |prop: &CstObjectProp| prop.decoded_name().is_some_and(|n| CONNECTION.contains(&&*n));
    let old: Vec<CstObjectProp> = entry.properties().into_iter().filter(is_connection).collect();
    if old.is_empty() {
        bail!("`{}` has neither a command nor an address", keys.join("."));
    }
    let mut last = None;
    let reused = reused(&old, members.len());
    let mut members = members.iter();
    for (prop, stays) in old.iter().zip(reused) {
        match stays.then(|| members.next()).flatten() {
            Some((name, value)) => {
                rename(prop, name)?;
                prop.set_value(input(value));
                last = Some(prop);
            }
            None => prop.clone().remove(),
        }
    }
    let next = last.map_or(0, |prop| prop.property_index() + 1);
    for (offset, (name, value)) in members.enumerate() {
        entry.insert(next + offset, name, input(value));
    }
    Ok(file.text())
}

/// Which of the old members become new ones: those with a comment on their line first, so that it stays.
fn reused(old: &[CstObjectProp], wanted: usize) -> Vec<bool> {
    let with_comment: Vec<bool> = old.iter().map(has_comment).collect();
    let mut commented = with_comment.iter().filter(|has| **has).count().min(wanted);
    let mut others = wanted - commented;
    let take = |has: bool| {
        let left = if has { &mut commented } else { &mut others };
        let is_reused = *left > 0;
        *left -= usize::from(is_reused);
        is_reused
    };
    with_comment.into_iter().map(take).collect()
}

/// Whether a comment is on the line that a member ends on, or in front of it on its line.
fn has_comment(prop: &CstObjectProp) -> bool {
    let comma = prop.trailing_comma().map(CstNode::from);
    let node = CstNode::from(prop.clone());
    let behind = comma.as_ref().unwrap_or(&node).trailing_comments_same_line().next();
    behind.is_some() || node.leading_comments_same_line().next().is_some()
}

fn rename(prop: &CstObjectProp, name: &str) -> Result<()> {
    let old = prop.name().and_then(|old| old.as_string_lit());
    let old = old.ok_or_else(|| anyhow!("a name is not in double quotes"))?;
    old.set_raw_value(serde_json::Value::from(name).to_string());
    Ok(())
}

/// Adds the server at `keys` and creates missing parent objects.
pub(crate) fn add(text: &str, keys: &[String], members: &[Member]) -> Result<String> {
    if text.trim_start_matches(BYTE_ORDER_MARK).trim().is_empty() {
        return add("{}\n", keys, members);
    }
    let file = File::parse(text)?;
    let root = file.root.object_value();
    let mut object = root.ok_or_else(|| anyhow!("the file does not hold an object"))?;
    let Some((name, above)) = keys.split_last() else { bail!("a server has a name") };
    for key in above {
        object = match object.get(key) {
            Some(prop) => prop.object_value().ok_or_else(|| anyhow!("`{key}` is not an object"))?,
            None => object.object_value_or_set(key),
        };
    }
    if object.get(name).is_some() {
        bail!("`{}` is there already", keys.join("."));
    }
    let members = members.iter().map(|(name, value)| (name.clone(), input(value)));
    object.append(name, CstInputValue::Object(members.collect()));
    Ok(file.text())
}

/// Removes the server at `keys`. Its parent objects stay.
pub(crate) fn remove(text: &str, keys: &[String]) -> Result<String> {
    let file = File::parse(text)?;
    let (name, above) = keys.split_last().ok_or_else(|| gone(keys))?;
    let server = file.object(above)?.get(name);
    server.ok_or_else(|| gone(keys))?.remove();
    Ok(file.text())
}

/// The members that hold the connection of the server at `keys`.
pub(crate) fn connection(text: &str, keys: &[String]) -> Result<Vec<Member>> {
    let plain = jsonc::plain(text);
    let doc = jsonc::read(&plain)?;
    let entry = walk(doc.root(), keys).ok_or_else(|| gone(keys))?;
    let members = entry.entries().filter(|(key, _)| CONNECTION.contains(&&*key.text()));
    members
        .map(|(key, value)| Ok((key.text().into_owned(), serde_json::from_str(value.raw())?)))
        .collect()
}

pub(crate) fn walk<'d>(root: Value<'d>, keys: &[String]) -> Option<Value<'d>> {
    keys.iter().try_fold(root, |value, key| value.get(key))
}

fn input(value: &serde_json::Value) -> CstInputValue {
    match value {
        serde_json::Value::Null => CstInputValue::Null,
        serde_json::Value::Bool(truth) => CstInputValue::Bool(*truth),
        serde_json::Value::Number(number) => CstInputValue::Number(number.to_string()),
        serde_json::Value::String(text) => CstInputValue::String(text.clone()),
        serde_json::Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        serde_json::Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.clone(), input(value)));
            CstInputValue::Object(fields.collect())
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use serde_json::json;

    fn keys(path: &str) -> Vec<String> {
        path.split('.').map(str::to_owned).collect()
    }

    fn members() -> Vec<Member> {
        vec![
            ("url".to_owned(), json!("http://gate/x")),
            ("headers".to_owned(), json!({ "Authorization": "Bearer t" })),
        ]
    }

    #[test]
    fn only_the_connection_is_replaced() {
        let text = "{\r\n\t// mine\r\n\t\"s\": {\r\n\t\t\"x\": {\r\n\t\t\t\"disabled\": false, // keep\r\n\t\t\t\"command\": \"npx\", // run\r\n\t\t\t\"args\": [\"-y\"],\r\n\t\t\t\"timeout\": 5,\r\n\t\t\t\"env\": {\"K\": \"v\"},\r\n\t\t},\r\n\t},\r\n}\r\n";
        let expected = "{\r\n\t// mine\r\n\t\"s\": {\r\n\t\t\"x\": {\r\n\t\t\t\"disabled\": false, // keep\r\n\t\t\t\"url\": \"http://gate/x\", // run\r\n\t\t\t\"headers\": {\r\n\t\t\t\t\"Authorization\": \"Bearer t\"\r\n\t\t\t},\r\n\t\t\t\"timeout\": 5,\r\n\t\t},\r\n\t},\r\n}\r\n";
        let new = redirect(text, &keys("s.x"), &members()).unwrap();
        assert_eq!(new, expected);
        assert!(jsonc::read(&jsonc::plain(&new)).is_ok(), "{new}");
    }

    /// Text, what must be in the text afterwards.
    #[test]
    fn comments_stay_wherever_they_are() {
        let table = [
            (
                "{\"s\": {\"x\": {\n  // above\n  \"command\": \"a\",\n  // below\n}}}",
                &["// above", "// below"][..],
            ),
            (
                "{\"s\": {\"x\": {\n  \"command\": \"a\", // one\n  \"args\": [], // two\n  \"env\": {},\n  \"cwd\": \"b\"\n}}}",
                &["// one", "// two"],
            ),
            (
                "{\"s\": {\"x\": {\n  \"command\": \"a\",\n  \"args\": [],\n  \"env\": {}, // three\n  \"cwd\": \"b\" // four\n}}}",
                &["// three", "// four"],
            ),
            (
                "/* top */ {\"s\": /* in */ {\"x\": {\"command\": \"a\" /* z */}, /* y */ \"y\": 1}} // end",
                &["/* top */", "/* in */", "/* z */", "/* y */", "// end"],
            ),
        ];
        for (text, kept) in table {
            let new = redirect(text, &keys("s.x"), &members()).unwrap();
            let plain = jsonc::plain(&new);
            let doc = jsonc::read(&plain).unwrap();
            let entry = walk(doc.root(), &keys("s.x")).unwrap();
            let names: Vec<String> = entry.entries().map(|(k, _)| k.text().into_owned()).collect();
            assert_eq!(names, ["url", "headers"], "{new}");
            for part in kept {
                assert!(new.contains(part), "`{part}` is gone:\n{new}");
            }
        }
    }

    #[test]
    fn trailing_commas_and_the_byte_order_mark_stay() {
        let text =
            "\u{feff}{\n  \"s\": {\n    \"x\": {\n      \"command\": \"a\",\n    },\n  },\n}\n";
        let new = redirect(text, &keys("s.x"), &members()).unwrap();
        assert!(new.starts_with('\u{feff}') && new.ends_with("    },\n  },\n}\n"), "{new}");
        let back = redirect(&new, &keys("s.x"), &[("command".to_owned(), json!("a"))]).unwrap();
        assert_eq!(back, text);
        let added = add(text, &keys("s.y"), &members()).unwrap();
        assert!(added.ends_with("      },\n    },\n  },\n}\n"), "{added}");
        assert_eq!(remove(&added, &keys("s.y")).unwrap(), text);
    }

    #[test]
    fn more_members_than_before_are_inserted_after_the_connection() {
        let text = "{\n  \"s\": {\n    \"x\": {\n      \"a\": 1,\n      \"url\": \"u\",\n      \"b\": 2\n    }\n  }\n}\n";
        let three = [&members()[..], &[("type".to_owned(), json!("http"))]].concat();
        assert_eq!(
            redirect(text, &keys("s.x"), &three).unwrap(),
            "{\n  \"s\": {\n    \"x\": {\n      \"a\": 1,\n      \"url\": \"http://gate/x\",\n      \"headers\": {\n        \"Authorization\": \"Bearer t\"\n      },\n      \"type\": \"http\",\n      \"b\": 2\n    }\n  }\n}\n"
        );
    }

    #[test]
    fn a_server_is_removed_from_any_position() {
        for (text, expected) in [
            ("{\"s\": {\"x\": {\"url\": 1}, \"y\": 2}}", "{\"s\": { \"y\": 2}}"),
            ("{\"s\": {\"y\": 2,\n \"x\": {}}}", "{\"s\": {\"y\": 2\n}}"),
            ("{\"s\": {\"y\": 2, \"x\": {},}}", "{\"s\": {\"y\": 2,}}"),
            ("{\"s\": {\"x\": {} , }}", "{\"s\": {}}"),
            (
                "{\"s\": {\n // of y\n \"y\": 2,\n \"x\": {}\n}}",
                "{\"s\": {\n // of y\n \"y\": 2\n}}",
            ),
        ] {
            assert_eq!(remove(text, &keys("s.x")).unwrap(), expected);
        }
        assert!(remove("{}", &keys("s.x")).is_err());
    }

    #[test]
    fn a_server_is_added_to_files_without_servers() {
        for text in [
            "",
            "\u{feff}",
            "{}",
            "{ }\n",
            "{\n  // nothing yet\n}\n",
            "{\"a\": 1,}",
            "{\r\n    \"s\": {}\r\n}",
        ] {
            let new = add(text, &keys("s.x"), &members()).unwrap();
            let plain = jsonc::plain(&new);
            let doc = jsonc::read(&plain).unwrap();
            let url = walk(doc.root(), &keys("s.x.url")).unwrap();
            assert_eq!(url.as_str().unwrap(), "http://gate/x", "{new}");
            assert!(!text.contains("// nothing") || new.contains("// nothing yet"), "{new}");
        }
        for text in ["[]", "{\"s\": 1}", "{\"s\": {\"x\": {}}}"] {
            assert!(add(text, &keys("s.x"), &members()).is_err(), "{text}");
        }
    }
}
