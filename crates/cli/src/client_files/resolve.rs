//! Resolves references in a client's file: variables, the home folder, the project. A reference that only
//! the client can resolve, such as a prompt, is returned as the error.

use std::path::Path;

/// Where the values of references come from.
pub(crate) struct Resolver<'a> {
    pub(crate) client: &'static str,
    pub(crate) variable: &'a dyn Fn(&str) -> Option<String>,
    pub(crate) home: &'a Path,
    pub(crate) project: Option<&'a Path>,
}

/// Clients that resolve no references.
const LITERAL: &[&str] = &["claude-desktop", "junie", "lm-studio", "cline"];
/// Clients that also read `$NAME` as a variable.
const DOLLAR: &[&str] = &["gemini", "qwen"];

impl Resolver<'_> {
    /// The text with its references resolved, or the first reference that cannot be.
    pub(crate) fn resolve(&self, text: &str) -> Result<String, String> {
        if LITERAL.contains(&self.client) {
            return Ok(text.to_owned());
        }
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, inner, after)) = next_reference(rest) {
            out.push_str(before);
            out.push_str(&self.value(inner).ok_or_else(|| format!("${{{inner}}}"))?);
            rest = after;
        }
        out.push_str(rest);
        self.dollar(out)
    }

    fn value(&self, inner: &str) -> Option<String> {
        let project = || self.project.map(|path| path.display().to_string());
        let (name, fallback) = match inner.split_once(":-") {
            Some((name, fallback)) => (name, Some(fallback.to_owned())),
            None => (inner, None),
        };
        match name {
            "userHome" => Some(self.home.display().to_string()),
            "workspaceFolder" | "workspaceRoot" | "workspace" => project(),
            "workspaceFolderBasename" => {
                self.project?.file_name().map(|name| name.to_string_lossy().into_owned())
            }
            "/" | "pathSeparator" => Some("/".to_owned()),
            _ => {
                let variable = name.strip_prefix("env:").unwrap_or(name);
                let known = !variable.contains(':');
                known.then(|| (self.variable)(variable)).flatten().or(fallback)
            }
        }
    }

    fn dollar(&self, text: String) -> Result<String, String> {
        let is_name = |name: &str| {
            name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        match text.strip_prefix('$') {
            Some(name) if DOLLAR.contains(&self.client) && is_name(name) => {
                (self.variable)(name).ok_or_else(|| text.clone())
            }
            _ => Ok(text),
        }
    }
}

/// The next `${…}` or `{env:…}`: the text before, inside and after it.
fn next_reference(text: &str) -> Option<(&str, &str, &str)> {
    let braces = text.find("${").map(|at| (at, at + 2));
    let plain = text.find("{env:").map(|at| (at, at + 1));
    let (at, inner) = match (braces, plain) {
        (Some(a), Some(b)) if b.0 < a.0 => b,
        (Some(a), _) => a,
        (None, b) => b?,
    };
    let end = inner + text.get(inner..)?.find('}')?;
    Some((text.get(..at)?, text.get(inner..end)?, text.get(end + 1..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved_or_returned() {
        let variable = |name: &str| (name == "KEY").then(|| "k".to_owned());
        let of = |client: &'static str, text: &str| {
            let home = Path::new("/home/me");
            let project = Some(Path::new("/p/app"));
            Resolver { client, variable: &variable, home, project }.resolve(text)
        };
        for (client, text, expected) in [
            ("cursor", "a${env:KEY}b", Ok("akb")),
            ("claude-code", "${KEY}", Ok("k")),
            ("claude-code", "${NOPE:-d}", Ok("d")),
            ("claude-code", "${NOPE}", Err("${NOPE}")),
            ("vscode", "${input:token}", Err("${input:token}")),
            ("vscode", "${workspaceFolder}/x", Ok("/p/app/x")),
            ("cursor", "${userHome}/.x", Ok("/home/me/.x")),
            ("opencode", "Bearer {env:KEY}", Ok("Bearer k")),
            ("gemini", "$KEY", Ok("k")),
            ("gemini", "$NOPE", Err("$NOPE")),
            ("cursor", "$KEY", Ok("$KEY")),
            ("claude-desktop", "${KEY}", Ok("${KEY}")),
            ("cursor", "${unclosed", Ok("${unclosed")),
        ] {
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(of(client, text), expected, "{client} {text}");
        }
    }
}
