//! JSON indented for reading, otherwise exactly as it was sent.

/// Indented without changing a digit: the order of keys and the spelling of numbers stay.
pub fn pretty(text: &str) -> String {
    use policy::json::{Bounds, Doc};
    match Doc::read(text.as_bytes(), &Bounds::MESSAGE) {
        Ok(doc) => {
            let mut out = String::new();
            push_pretty(doc.root(), 0, &mut out);
            out
        }
        Err(_) => text.to_owned(),
    }
}

fn push_pretty(value: policy::json::Value<'_>, depth: usize, out: &mut String) {
    use policy::json::Kind;
    let (open, close, empty) = match value.kind() {
        Kind::Object => ('{', '}', value.is_empty()),
        Kind::Array => ('[', ']', value.is_empty()),
        _ => return out.push_str(value.raw()),
    };
    out.push(open);
    if empty {
        return out.push(close);
    }
    let line = |depth: usize, out: &mut String| {
        out.push('\n');
        out.push_str(&"  ".repeat(depth));
    };
    let mut first = true;
    let mut comma = |out: &mut String| {
        if !std::mem::take(&mut first) {
            out.push(',');
        }
    };
    if value.kind() == Kind::Object {
        for (key, member) in value.entries() {
            comma(out);
            line(depth + 1, out);
            out.push_str(key.raw());
            out.push_str(": ");
            push_pretty(member, depth + 1, out);
        }
    } else {
        for item in value.items() {
            comma(out);
            line(depth + 1, out);
            push_pretty(item, depth + 1, out);
        }
    }
    line(depth, out);
    out.push(close);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_indented_without_changing_them() {
        let text = r#"{"b":1.10,"a":[true,{"x":"\u001b[2J"}],"e":{},"l":[]}"#;
        let expected = "{\n  \"b\": 1.10,\n  \"a\": [\n    true,\n    {\n      \"x\": \"\\u001b[2J\"\n    }\n  ],\n  \"e\": {},\n  \"l\": []\n}";
        assert_eq!(pretty(text), expected);
        assert_eq!(pretty("not json"), "not json");
    }
}
