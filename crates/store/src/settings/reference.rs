//! Values outside the file: in an environment variable or in a separate file.

use std::io;
use std::path::{Path, PathBuf};

use super::problem::Problems;
use super::section::Field;
use crate::secret::Secret;

/// A referenced value; larger files are rejected.
pub const REFERENCED_BYTES_MAX: usize = 64 << 10;

/// Access to the environment and to files, as passed in by `cli`.
pub(super) struct ExternalValues<'r> {
    pub(super) resolve_env: &'r dyn Fn(&str) -> Option<String>,
    pub(super) read_file: &'r dyn Fn(&Path) -> io::Result<String>,
    /// Every file that was read, so that a change of one is noticed.
    pub(super) files: Vec<PathBuf>,
}

impl ExternalValues<'_> {
    pub(super) fn variable(
        &self,
        name: &str,
        field: &Field<'_>,
        problems: &mut Problems<'_>,
    ) -> Option<Secret> {
        match (self.resolve_env)(name) {
            Some(value) if !value.is_empty() => Some(Secret::new(value)),
            _ => {
                let message = format!("the environment variable `{}` is not set", safe(name));
                problems.hint(&field.span, message, "set it for the process that runs tollgate");
                None
            }
        }
    }

    /// The text of a file without its trailing newline.
    pub(super) fn file_value(
        &mut self,
        path: &str,
        field: &Field<'_>,
        problems: &mut Problems<'_>,
    ) -> Option<Secret> {
        let text = self.file(path, field, problems)?;
        let value = text.trim_end_matches(['\r', '\n']);
        if value.is_empty() || value.len() > REFERENCED_BYTES_MAX {
            let message =
                format!("`{}` is empty or larger than {REFERENCED_BYTES_MAX} bytes", safe(path));
            problems.add(&field.span, message);
            return None;
        }
        Some(Secret::new(value))
    }

    pub(super) fn file(
        &mut self,
        path: &str,
        field: &Field<'_>,
        problems: &mut Problems<'_>,
    ) -> Option<zeroize::Zeroizing<String>> {
        self.files.push(path.into());
        match (self.read_file)(Path::new(path)) {
            Ok(text) => Some(zeroize::Zeroizing::new(text)),
            Err(e) => {
                problems.add(&field.span, format!("cannot read `{}`: {e}", safe(path)));
                None
            }
        }
    }

    /// `{ env = "NAME" }` or `{ file = "path" }`, with an optional `prefix` such as `Bearer `.
    pub(super) fn secret(
        &mut self,
        field: &Field<'_>,
        problems: &mut Problems<'_>,
    ) -> Option<Secret> {
        if field.value.as_str().is_some() {
            let message =
                format!("`{}` is secret and must not be written in this file", field.path);
            problems.hint(
                &field.span,
                message,
                r#"write `{ env = "NAME" }` or `{ file = "path" }`"#,
            );
            return None;
        }
        let section = field.section(&["env", "file", "prefix"], problems)?;
        let env = section.text("env", problems);
        let file = section.text("file", problems);
        let value = match (env, file) {
            (Some((name, at)), None) => self.variable(name, &at, problems)?,
            (None, Some((path, at))) => self.file_value(path, &at, problems)?,
            _ => {
                let message = format!("`{}` must name one of `env` and `file`", field.path);
                problems.add(&field.span, message);
                return None;
            }
        };
        let prefix = section.text("prefix", problems).map_or("", |(text, _)| text);
        Some(Secret::new(format!("{prefix}{}", value.expose())))
    }
}

fn safe(text: &str) -> String {
    text.escape_debug().take(256).collect()
}
