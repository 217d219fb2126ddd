//! The values of a bundle's settings: from the command line, from a prompt, or the manifest's default. Sensitive ones
//! are never on the command line.

use std::collections::BTreeMap;
use std::io::{BufRead as _, IsTerminal as _, Write as _};

use anyhow::{Result, bail};
use serde_json::Value;
use store::secret::Secret;

use super::BundlePaths;
use super::manifest::{Setting, SettingKind};
use crate::credential::SecretArg;
use crate::output::visible;

#[derive(Clone, Debug)]
pub(crate) enum ConfigValue {
    Plain(Vec<String>),
    Hidden(Secret),
}

/// The value of every setting that has one.
pub(crate) fn values(
    settings: &BTreeMap<String, Setting>,
    given: &[String],
    paths: &BundlePaths,
) -> Result<BTreeMap<String, ConfigValue>> {
    for text in given {
        let key = text.split('=').next().unwrap_or_default();
        if !settings.contains_key(key) {
            let known: Vec<&str> = settings.keys().map(String::as_str).collect();
            bail!(
                "the bundle has no setting `{}`\nhint: it has: {}",
                visible(key),
                known.join(", ")
            );
        }
    }
    let mut values = BTreeMap::new();
    for (key, setting) in settings {
        let given: Vec<&String> =
            given.iter().filter(|text| text.split('=').next() == Some(key)).collect();
        if let Some(value) = value(key, setting, &given, paths)? {
            values.insert(key.clone(), value);
        }
    }
    Ok(values)
}

fn value(
    key: &str,
    setting: &Setting,
    given: &[&String],
    paths: &BundlePaths,
) -> Result<Option<ConfigValue>> {
    if setting.sensitive {
        let asks = given.is_empty() && setting.required && std::io::stdin().is_terminal();
        return match given.first() {
            Some(text) => Ok(Some(ConfigValue::Hidden(SecretArg::parse("set", text)?.fetch()?))),
            None if asks => Ok(Some(ConfigValue::Hidden(SecretArg::parse("set", key)?.fetch()?))),
            None if setting.required => Err(missing(key, &format!("{key}=@FILE"))),
            None => Ok(None),
        };
    }
    let mut texts: Vec<String> = Vec::new();
    for text in given {
        let Some((_, value)) = text.split_once('=') else {
            bail!("`--set {key}` has no value\nhint: `--set {key}=VALUE`");
        };
        texts.push(value.to_owned());
    }
    if texts.is_empty() {
        texts = defaults(key, setting, paths)?;
    }
    if texts.is_empty() && setting.required {
        if !std::io::stdin().is_terminal() {
            return Err(missing(key, &format!("{key}=VALUE")));
        }
        texts.push(asked(key, setting)?);
    }
    if texts.len() > 1 && !setting.multiple {
        bail!("the setting `{key}` has one value");
    }
    for text in &texts {
        check(key, setting, text)?;
    }
    Ok((!texts.is_empty()).then_some(ConfigValue::Plain(texts)))
}

fn missing(key: &str, how: &str) -> anyhow::Error {
    anyhow::anyhow!("the bundle needs the setting `{key}`\nhint: `--set {how}`")
}

fn defaults(key: &str, setting: &Setting, paths: &BundlePaths) -> Result<Vec<String>> {
    let plain = |value: &Value| match value {
        Value::String(text) => paths.filled(text),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(is_set) => Ok(is_set.to_string()),
        _ => bail!("the default of the setting `{key}` is neither text, number nor boolean"),
    };
    match &setting.default {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(all)) => all.iter().map(plain).collect(),
        Some(one) => Ok(vec![plain(one)?]),
    }
}

#[expect(clippy::print_stderr, reason = "a prompt stays on its line")]
fn asked(key: &str, setting: &Setting) -> Result<String> {
    let title = if setting.title.is_empty() { key } else { &setting.title };
    eprint!("{} ({key}): ", visible(title));
    std::io::stderr().flush()?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

fn check(key: &str, setting: &Setting, text: &str) -> Result<()> {
    match setting.kind {
        SettingKind::Number => {
            let number: f64 = match text.parse() {
                Ok(number) => number,
                Err(_) => bail!("the setting `{key}` is a number"),
            };
            let is_within = setting.min.is_none_or(|min| number >= min)
                && setting.max.is_none_or(|max| number <= max);
            if !number.is_finite() || !is_within {
                bail!("the number of the setting `{key}` is out of its range");
            }
        }
        SettingKind::Boolean if !matches!(text, "true" | "false") => {
            bail!("the setting `{key}` is `true` or `false`")
        }
        _ if text.contains('\0') || text.is_empty() => bail!("the setting `{key}` is empty"),
        _ => {}
    }
    Ok(())
}
