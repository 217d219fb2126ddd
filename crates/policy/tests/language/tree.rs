//! JSON as the second evaluator sees it: a plain tree whose numbers are text, written out as JSON or YAML.

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Json>),
    Map(Vec<(String, Json)>),
}

impl Json {
    pub(crate) fn text(text: &str) -> Json {
        Json::Text(text.to_owned())
    }

    pub(crate) fn number(number: &str) -> Json {
        Json::Number(number.to_owned())
    }

    pub(crate) fn map(members: impl IntoIterator<Item = (&'static str, Json)>) -> Json {
        Json::Map(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Json> {
        self.members().iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    pub(crate) fn members(&self) -> &[(String, Json)] {
        match self {
            Json::Map(members) => members,
            _ => &[],
        }
    }

    pub(crate) fn items(&self) -> &[Json] {
        match self {
            Json::List(items) => items,
            _ => &[],
        }
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn to_json(&self) -> String {
        match self {
            Json::Null => "null".into(),
            Json::Bool(value) => value.to_string(),
            Json::Number(number) => number.clone(),
            Json::Text(text) => quoted(text),
            Json::List(items) => {
                format!("[{}]", items.iter().map(Json::to_json).collect::<Vec<_>>().join(","))
            }
            Json::Map(members) => {
                let members = members
                    .iter()
                    .map(|(name, value)| format!("{}:{}", quoted(name), value.to_json()));
                format!("{{{}}}", members.collect::<Vec<_>>().join(","))
            }
        }
    }

    /// Block style, every text in quotes.
    pub(crate) fn to_yaml(&self, indent: usize) -> String {
        let pad = "  ".repeat(indent);
        match self {
            Json::List(items) if !items.is_empty() => {
                let lines =
                    items.iter().map(|item| format!("\n{pad}-{}", item.to_yaml_value(indent + 1)));
                lines.collect::<Vec<_>>().concat()
            }
            Json::Map(members) if !members.is_empty() => {
                let lines = members.iter().map(|(name, value)| {
                    format!("\n{pad}{}:{}", quoted(name), value.to_yaml_value(indent + 1))
                });
                lines.collect::<Vec<_>>().concat()
            }
            other => other.to_json(),
        }
    }

    fn to_yaml_value(&self, indent: usize) -> String {
        let text = self.to_yaml(indent);
        if text.starts_with('\n') { text } else { format!(" {text}") }
    }
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}
