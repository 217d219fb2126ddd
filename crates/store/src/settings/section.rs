//! Strict reading of TOML: every key is known, every value has its type, and everything else is a
//! problem with its position.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::Problems;
use policy::did_you_mean;

/// A table whose keys were checked.
pub(super) struct Section<'a> {
    /// Its path in the file, such as `servers.whoop`; empty for the file itself.
    pub(super) path: String,
    pub(super) span: Range<usize>,
    table: &'a DeTable<'a>,
}

/// A value with its path.
pub(super) struct Field<'a> {
    pub(super) path: String,
    pub(super) span: Range<usize>,
    pub(super) value: &'a DeValue<'a>,
}

/// A key the owner chose, with its value.
pub(super) struct NamedField<'a> {
    pub(super) name: &'a str,
    pub(super) name_span: Range<usize>,
    pub(super) field: Field<'a>,
}

impl<'a> Section<'a> {
    pub(super) fn root(
        table: &'a Spanned<DeTable<'a>>,
        known: &[&str],
        problems: &mut Problems<'_>,
    ) -> Section<'a> {
        let section = Section { path: String::new(), span: table.span(), table: table.get_ref() };
        section.check_keys(known, problems);
        section
    }

    fn check_keys(&self, known: &[&str], problems: &mut Problems<'_>) {
        for key in self.table.keys() {
            let name = key.get_ref().as_ref();
            if !known.contains(&name) {
                let near = did_you_mean(name, known.iter().copied());
                let message = format!("unknown key `{}`{near}", joined(&self.path, &shown(name)));
                problems.hint(&key.span(), message, format!("known here: {}", listed(known)));
            }
        }
    }

    pub(super) fn field(&self, key: &str) -> Option<Field<'a>> {
        let value = self.table.get(key)?;
        Some(Field { path: joined(&self.path, key), span: value.span(), value: value.get_ref() })
    }

    /// The entries of a subtable whose keys are names the owner chose.
    pub(super) fn entries(&self, key: &str, problems: &mut Problems<'_>) -> Vec<NamedField<'a>> {
        self.field(key).map_or_else(Vec::new, |field| field.entries(problems))
    }

    pub(super) fn text(&self, key: &str, problems: &mut Problems<'_>) -> Option<TextField<'a>> {
        let field = self.field(key)?;
        let text = field.text(problems)?;
        Some((text, field))
    }

    /// One of a closed set of words.
    pub(super) fn choice<T: Copy>(
        &self,
        key: &str,
        message: &[(&str, T)],
        problems: &mut Problems<'_>,
    ) -> Option<T> {
        let (text, field) = self.text(key, problems)?;
        let found = message.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let known: Vec<&str> = message.iter().map(|(word, _)| *word).collect();
            field.wrong(&format!("one of {}", listed(&known)), problems);
        }
        found.map(|(_, value)| *value)
    }

    pub(super) fn flag(&self, key: &str, problems: &mut Problems<'_>) -> Option<bool> {
        let field = self.field(key)?;
        let flag = field.value.as_bool();
        if flag.is_none() {
            field.wrong("`true` or `false`", problems);
        }
        flag
    }

    pub(super) fn integer(
        &self,
        key: &str,
        range: (u64, u64),
        problems: &mut Problems<'_>,
    ) -> Option<u64> {
        self.field(key)?.integer(range, problems)
    }
}

/// A text with the field it was read from.
pub(super) type TextField<'a> = (&'a str, Field<'a>);

impl<'a> Field<'a> {
    pub(super) fn text(&self, problems: &mut Problems<'_>) -> Option<&'a str> {
        let text = self.value.as_str();
        if text.is_none() {
            self.wrong("a text in quotes", problems);
        }
        text
    }

    pub(super) fn integer(
        &self,
        (least, most): (u64, u64),
        problems: &mut Problems<'_>,
    ) -> Option<u64> {
        let Some(integer) = self.value.as_integer() else {
            self.wrong("a whole number", problems);
            return None;
        };
        let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
        let fits = number.filter(|number| (least..=most).contains(number));
        if fits.is_none() {
            let message = format!("`{}` must be between {least} and {most}", self.path);
            problems.add(&self.span, message);
        }
        fits
    }

    /// A list of texts; each with its own position.
    pub(super) fn texts(&self, problems: &mut Problems<'_>) -> Vec<TextField<'a>> {
        let Some(items) = self.value.as_array() else {
            self.wrong("a list of texts", problems);
            return Vec::new();
        };
        let mut texts = Vec::new();
        for item in items {
            let field = Field { path: self.path.clone(), span: item.span(), value: item.get_ref() };
            if let Some(text) = field.text(problems) {
                texts.push((text, field));
            }
        }
        texts
    }

    /// A table with known keys.
    pub(super) fn section(
        &self,
        known: &[&str],
        problems: &mut Problems<'_>,
    ) -> Option<Section<'a>> {
        let section = self.table(problems)?;
        section.check_keys(known, problems);
        Some(section)
    }

    /// The entries of a table whose keys are names the owner chose.
    pub(super) fn entries(&self, problems: &mut Problems<'_>) -> Vec<NamedField<'a>> {
        let Some(section) = self.table(problems) else { return Vec::new() };
        let entries = section.table.iter().map(|(key, value)| {
            let name = key.get_ref().as_ref();
            let path = joined(&self.path, &shown(name));
            let field = Field { path, span: value.span(), value: value.get_ref() };
            NamedField { name, name_span: key.span(), field }
        });
        entries.collect()
    }

    fn table(&self, problems: &mut Problems<'_>) -> Option<Section<'a>> {
        let Some(table) = self.value.as_table() else {
            self.wrong("a table", problems);
            return None;
        };
        Some(Section { path: self.path.clone(), span: self.span.clone(), table })
    }

    pub(super) fn wrong(&self, wanted: &str, problems: &mut Problems<'_>) {
        problems.add(&self.span, format!("`{}` must be {wanted}", self.path));
    }
}

fn joined(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// A key as it may be quoted: truncated, and without control characters.
fn shown(name: &str) -> String {
    name.escape_debug().take(64).collect()
}

pub(super) fn listed(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}
