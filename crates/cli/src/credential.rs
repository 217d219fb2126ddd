//! Reads the secrets of a server from a prompt, a file or an environment variable. Never from the command
//! line, which every user of the machine can read and which the shell's history keeps.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use store::secret::Secret;

/// The name of a secret and the source of its value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SecretArg {
    pub(crate) name: String,
    source: SecretSource,
}

#[derive(Debug, PartialEq, Eq)]
enum SecretSource {
    File(PathBuf),
    Variable(String),
    Prompt,
}

impl SecretSource {
    /// `ways` says how the value of `name` can be given.
    fn parse(name: &str, value: &str, ways: &str) -> Result<SecretSource> {
        match (value.strip_prefix('@'), value.strip_prefix("env:")) {
            (Some(file), _) if !file.is_empty() => Ok(SecretSource::File(file.into())),
            (_, Some(variable)) if !variable.is_empty() => {
                Ok(SecretSource::Variable(variable.to_owned()))
            }
            _ if value == "prompt" => Ok(SecretSource::Prompt),
            _ => bail!(
                "the value of `{name}` is on the command line, where every user of this machine can read it\n\
                 hint: {ways}\n\
                 hint: the value is in your shell's history now; change it where it was issued"
            ),
        }
    }
}

impl SecretArg {
    /// `NAME`, `NAME=@FILE` or `NAME=env:VARIABLE`. Anything else after `=` is taken for the secret
    /// itself: it is refused and not repeated in the error.
    pub(crate) fn parse(option: &str, text: &str) -> Result<SecretArg> {
        let Some((name, value)) = text.split_once('=') else {
            return Ok(SecretArg { name: text.to_owned(), source: SecretSource::Prompt });
        };
        let ways = format!(
            "`--{option} {name}=@FILE`, `--{option} {name}=env:VARIABLE`, or `--{option} {name}` for a prompt"
        );
        Ok(SecretArg { name: name.to_owned(), source: SecretSource::parse(name, value, &ways)? })
    }

    /// The secret of an option that holds one: `@FILE`, `env:VARIABLE` or `prompt`.
    pub(crate) fn of_option(option: &str, value: &str) -> Result<SecretArg> {
        let ways = format!(
            "`--{option} @FILE`, `--{option} env:VARIABLE`, or `--{option} prompt` for a prompt"
        );
        let source = SecretSource::parse(option, value, &ways)?;
        Ok(SecretArg { name: option.to_owned(), source })
    }

    pub(crate) fn fetch(&self) -> Result<Secret> {
        let value = match &self.source {
            SecretSource::File(path) => read_file(path)?,
            SecretSource::Variable(variable) => read_variable(variable)?,
            SecretSource::Prompt => ask(&self.name)?,
        };
        if value.expose().is_empty() {
            bail!("the value of `{}` is empty", self.name);
        }
        Ok(value)
    }
}

pub(crate) fn read_file(path: &Path) -> Result<Secret> {
    const BYTES_MAX: u64 = 64 << 10;
    let shown = path.display();
    let text = store::files::read_text(path, BYTES_MAX)
        .with_context(|| format!("cannot read `{shown}`"))?;
    let secret = Secret::new(text.trim_end_matches(['\r', '\n']));
    Ok(secret)
}

pub(crate) fn read_variable(variable: &str) -> Result<Secret> {
    match std::env::var(variable) {
        Ok(value) => Ok(Secret::new(value)),
        Err(std::env::VarError::NotPresent) => {
            bail!(
                "the environment variable `{variable}` is not set\nhint: export it for this command"
            )
        }
        Err(std::env::VarError::NotUnicode(_)) => {
            bail!("the environment variable `{variable}` is not UTF-8")
        }
    }
}

fn ask(name: &str) -> Result<Secret> {
    match rpassword::prompt_password(format!("{name} (not shown): ")) {
        Ok(value) => Ok(Secret::new(value)),
        Err(e) => Err(anyhow!(
            "cannot ask for `{name}`: {e}\nhint: without a terminal, give `{name}=@FILE` or `{name}=env:VARIABLE`"
        )),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn sources_are_distinguished() {
        let parse = |text| SecretArg::parse("header", text).unwrap().source;
        assert_eq!(parse("X-Key"), SecretSource::Prompt);
        assert_eq!(parse("X-Key=prompt"), SecretSource::Prompt);
        assert_eq!(parse("X-Key=@a=b"), SecretSource::File("a=b".into()));
        assert_eq!(parse("X-Key=env:KEY"), SecretSource::Variable("KEY".into()));
    }

    #[test]
    fn a_value_on_the_command_line_is_refused_and_not_repeated() {
        for text in ["X-Key=hunter2", "X-Key=", "X-Key=@", "X-Key=env:"] {
            let error = SecretArg::parse("header", text).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
            assert!(error.contains("--header X-Key=@FILE"), "{error}");
        }
    }
}
