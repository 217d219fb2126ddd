//! How a server of the imported index is started or reached, as a link that fills in the form of a new server.
//! The owner reads the command or address there and tries it before it is added.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde_json::Value;

/// Offers of one server; registries list few.
const OFFERS_MAX: usize = 8;
/// Arguments and variables of one package.
const ARGUMENTS_MAX: usize = 64;
/// A longer command or address is not offered.
const SHOWN_BYTES_MAX: usize = 2_000;
const NAME_BYTES_MAX: usize = 32;

/// One way to get a server.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct InstallOffer {
    /// `command` or `url`, as the form calls it.
    pub(crate) kind: &'static str,
    /// The command or address.
    pub(crate) shown: String,
    /// The form, filled in.
    pub(crate) path: String,
}

/// The offers of a server, from its `packages` and `remotes` as in `server.json`.
pub(crate) fn offers(server: &str, source: &str) -> Vec<InstallOffer> {
    let source: Value = serde_json::from_str(source).unwrap_or_default();
    let items = |key: &str| source.get(key).and_then(Value::as_array).into_iter().flatten();
    let packages = items("packages").filter_map(|package| from_package(server, package));
    let remotes = items("remotes").filter_map(|remote| from_remote(server, remote));
    packages.chain(remotes).take(OFFERS_MAX).collect()
}

fn from_package(server: &str, package: &Value) -> Option<InstallOffer> {
    let transport = package.get("transport").and_then(|transport| text(transport, &["type"]));
    if transport.is_some_and(|transport| transport != "stdio") {
        return None;
    }
    let identifier = text(package, &["identifier", "name"])?;
    let version = text(package, &["version"]).filter(|version| *version != "latest");
    let versioned = |mark: &str| match version {
        Some(version) => format!("{identifier}{mark}{version}"),
        None => identifier.to_owned(),
    };
    let (runtime, fixed, name): (&str, &[&str], String) =
        match text(package, &["registryType", "registry_type", "registry_name"])? {
            "npm" => ("npx", &["-y"], versioned("@")),
            "pypi" => ("uvx", &[], versioned("@")),
            "oci" | "docker" => {
                let has_tag = identifier.rsplit('/').next().is_some_and(|last| last.contains(':'));
                let name = if has_tag { identifier.to_owned() } else { versioned(":") };
                ("docker", &["run", "-i", "--rm"], name)
            }
            _ => return None,
        };
    let hint = text(package, &["runtimeHint", "runtime_hint"]);
    let mut argv = vec![hint.unwrap_or(runtime).to_owned()];
    argv.extend(fixed.iter().map(|word| (*word).to_owned()));
    let given = arguments_of(package, &["runtimeArguments", "runtime_arguments"]);
    argv.extend(given.into_iter().filter(|word| !fixed.contains(&word.as_str())));
    argv.push(name);
    argv.extend(arguments_of(package, &["packageArguments", "package_arguments"]));
    let command = shlex::try_join(argv.iter().map(String::as_str)).ok()?;
    let (plain, secret) = variables(package, &["environmentVariables", "environment_variables"]);
    let mut fields = vec![("kind", "command".to_owned()), ("command", command.clone())];
    if !plain.is_empty() {
        fields.push(("env", plain.join("\n")));
    }
    offer("command", command, server, fields, &secret)
}

fn from_remote(server: &str, remote: &Value) -> Option<InstallOffer> {
    let url = text(remote, &["url"])?;
    let is_web = url.starts_with("https://") || url.starts_with("http://");
    let (_, secret) = variables(remote, &["headers"]);
    let fields = vec![("kind", "url".to_owned()), ("url", url.to_owned())];
    if is_web { offer("url", url.to_owned(), server, fields, &secret) } else { None }
}

fn offer(
    kind: &'static str,
    shown: String,
    server: &str,
    mut fields: Vec<(&'static str, String)>,
    secrets: &[String],
) -> Option<InstallOffer> {
    if shown.len() > SHOWN_BYTES_MAX || shown.chars().any(char::is_control) {
        return None;
    }
    fields.push(("name", short_name(server)));
    let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let mut pairs: Vec<String> =
        fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    let secrets = secrets.iter().enumerate();
    pairs.extend(secrets.map(|(n, name)| format!("secret_name_{n}={}", encoded(name))));
    Some(InstallOffer { kind, shown, path: format!("/servers?{}#add", pairs.join("&")) })
}

/// The first of these members that is a text with something in it.
fn text<'v>(object: &'v Value, names: &[&str]) -> Option<&'v str> {
    let found = names.iter().find_map(|name| object.get(*name)?.as_str());
    found.filter(|text| !text.is_empty())
}

/// Arguments: their values, or what stands for them.
fn arguments_of(package: &Value, names: &[&str]) -> Vec<String> {
    let list = names.iter().find_map(|name| package.get(*name)?.as_array());
    let mut argv = Vec::new();
    for argument in list.into_iter().flatten().take(ARGUMENTS_MAX) {
        let name = text(argument, &["name"]).filter(|_| text(argument, &["type"]) == Some("named"));
        argv.extend(name.map(str::to_owned));
        let hint = text(argument, &["valueHint", "value_hint"]).map(|hint| format!("<{hint}>"));
        let value = text(argument, &["value", "default"]).map(str::to_owned);
        argv.extend(value.or_else(|| hint.filter(|_| name.is_none())));
    }
    argv
}

/// Variables or headers: `NAME=value` of the plain ones that are required or have a value, and the names of the
/// secret ones.
fn variables(object: &Value, names: &[&str]) -> (Vec<String>, Vec<String>) {
    let list = names.iter().find_map(|name| object.get(*name)?.as_array());
    let (mut plain, mut secret) = (Vec::new(), Vec::new());
    for variable in list.into_iter().flatten().take(ARGUMENTS_MAX) {
        let is = |names: &[&str]| {
            names.iter().any(|name| variable.get(*name).and_then(Value::as_bool) == Some(true))
        };
        let Some(name) = text(variable, &["name"]) else { continue };
        let value = text(variable, &["value", "default"]);
        if is(&["isSecret", "is_secret"]) {
            secret.push(name.to_owned());
        } else if value.is_some() || is(&["isRequired", "is_required"]) {
            plain.push(format!("{name}={}", value.unwrap_or_default()));
        }
    }
    (plain, secret)
}

/// The last part of a registry name as a name of a server here.
fn short_name(server: &str) -> String {
    let last = server.rsplit('/').next().unwrap_or(server).to_ascii_lowercase();
    let kept = last.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
    let name: String = kept.take(NAME_BYTES_MAX).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "server".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use super::*;

    fn shown(source: &str) -> Vec<String> {
        let all = offers("io.example/Some Server", source);
        all.into_iter().map(|offer| offer.shown).collect()
    }

    #[test]
    fn packages_and_addresses_become_commands_and_urls() {
        let table = [
            (
                r#"{"packages":[{"registryType":"npm","identifier":"@x/y","version":"1.2.3"}]}"#,
                "npx -y @x/y@1.2.3",
            ),
            (
                r#"{"packages":[{"registry_type":"pypi","identifier":"a-b","version":"latest"}]}"#,
                "uvx a-b",
            ),
            (
                r#"{"packages":[{"registryType":"oci","identifier":"ghcr.io/x/y:2","runtimeArguments":[{"type":"positional","value":"-i"}]}]}"#,
                "docker run -i --rm ghcr.io/x/y:2",
            ),
            (
                r#"{"packages":[{"registryType":"npm","identifier":"p","packageArguments":[{"type":"named","name":"--root","value":"/a b"},{"type":"positional","valueHint":"folder"}]}]}"#,
                "npx -y p --root '/a b' '<folder>'",
            ),
            (
                r#"{"remotes":[{"type":"sse","url":"https://a.example/sse"}]}"#,
                "https://a.example/sse",
            ),
        ];
        for (source, expected) in table {
            assert_eq!(shown(source), [expected], "{source}");
        }
    }

    #[test]
    fn unreachable_servers_are_not_offered() {
        for source in [
            "",
            "[]",
            r#"{"packages":[{"registryType":"mcpb","identifier":"x"}]}"#,
            r#"{"packages":[{"registryType":"npm"}]}"#,
            r#"{"packages":[{"registryType":"npm","identifier":"x","transport":{"type":"sse"}}]}"#,
            r#"{"remotes":[{"url":"javascript:alert(1)"}]}"#,
            r#"{"packages":[{"registryType":"npm","identifier":"x\ny"}]}"#,
        ] {
            assert_eq!(shown(source), Vec::<String>::new(), "{source}");
        }
    }

    #[test]
    fn the_link_fills_in_the_form_and_escapes_everything() {
        let source = r#"{"packages":[{"registryType":"npm","identifier":"p\"><script>","environmentVariables":[
            {"name":"KEY","isSecret":true},{"name":"MODE","default":"fast"},{"name":"OTHER"}]}]}"#;
        let all = offers("io.example/Some Server", source);
        let path = &all[0].path;
        assert!(path.starts_with("/servers?kind=command&command=npx"), "{path}");
        assert!(
            path.contains("&env=MODE%3Dfast&name=some%2Dserver&secret_name_0=KEY#add"),
            "{path}"
        );
        assert!(!path.contains(['<', '"', '>', ' ']), "{path}");
    }
}
