//! A readable path inside a tool definition: "parameter `to.address`: description" instead of a path
//! through JSON Schema.

use std::fmt;

use serde::Serialize;

use super::visible::visible;

/// Which part of the definition a change touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    Name,
    Title,
    Description,
    Input,
    Output,
    Annotation,
    Other,
}

impl Part {
    pub(super) fn of_member(key: &str) -> Self {
        match key {
            "name" => Self::Name,
            "title" => Self::Title,
            "description" => Self::Description,
            "inputSchema" => Self::Input,
            "outputSchema" => Self::Output,
            "annotations" => Self::Annotation,
            _ => Self::Other,
        }
    }

    pub(super) fn is_schema(self) -> bool {
        matches!(self, Self::Input | Self::Output)
    }
}

/// The part of the definition, the field of a schema, and the members below it.
#[derive(Clone, Debug)]
pub(super) struct DefinitionPath {
    pub(super) part: Part,
    field: String,
    below: Vec<String>,
}

impl DefinitionPath {
    pub(super) fn of_member(key: &str) -> Self {
        let part = Part::of_member(key);
        let below = if part == Part::Other { vec![key.to_owned()] } else { Vec::new() };
        Self { part, field: String::new(), below }
    }

    pub(super) fn field(&self, name: &str) -> Self {
        let dot = if self.field.is_empty() { "" } else { "." };
        Self { field: format!("{}{dot}{name}", self.field), ..self.clone() }
    }

    pub(super) fn elements(&self) -> Self {
        Self { field: format!("{}[]", self.field), ..self.clone() }
    }

    pub(super) fn member(&self, name: &str) -> Self {
        let mut location = self.clone();
        location.below.push(name.to_owned());
        location
    }

    fn head(&self) -> String {
        let field = visible(&self.field);
        match self.part {
            Part::Name => "name".to_owned(),
            Part::Title => "title".to_owned(),
            Part::Description => "description".to_owned(),
            Part::Annotation => "annotation".to_owned(),
            Part::Other => String::new(),
            Part::Input if self.field.is_empty() => "input schema".to_owned(),
            Part::Input => format!("parameter `{field}`"),
            Part::Output if self.field.is_empty() => "output schema".to_owned(),
            Part::Output => format!("result field `{field}`"),
        }
    }
}

impl fmt::Display for DefinitionPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = self.head();
        f.write_str(&head)?;
        if self.below.is_empty() {
            return Ok(());
        }
        let gap = match (head.is_empty(), self.part.is_schema()) {
            (true, _) => "",
            (false, true) => ": ",
            (false, false) => " ",
        };
        write!(f, "{gap}{}", visible(&self.below.join(".")))
    }
}
