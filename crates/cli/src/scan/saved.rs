//! Files that describe servers: saved lists in several shapes, the registry's `server.json`, and the
//! entries clients keep in their settings.

use std::path::PathBuf;

use anyhow::{Result, bail};
use serde_json::Value;
use store::registry::{Credential, EnvValue, Target};
use store::secret::Secret;

use super::read::Offer;

/// What a file holds.
pub(crate) enum Saved {
    Lists(Offer),
    Servers(Vec<(String, Target)>),
}

/// Members under which clients keep their servers.
const SERVER_MEMBERS: &[&str] = &["mcpServers", "servers", "context_servers", "mcp_servers"];

pub(crate) fn read(text: &str, stem: &str) -> Result<Saved> {
    let text = text.trim_start_matches('\u{feff}');
    let value: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(_) if text.lines().count() > 1 => lines(text)?,
        Err(error) => {
            bail!("it is not JSON: {error}\nhint: save the answer of `tools/list` as it came")
        }
    };
    if let Some(offer) = lists(&value) {
        return Ok(Saved::Lists(offer));
    }
    if let Some(servers) = client_entries(&value)? {
        return Ok(Saved::Servers(servers));
    }
    if value.get("packages").is_some() || value.get("remotes").is_some() {
        return Ok(Saved::Servers(vec![(registry_name(&value, stem), registry_target(&value)?)]));
    }
    if let Some(inner) = value
        .get("server")
        .filter(|inner| inner.get("packages").is_some() || inner.get("remotes").is_some())
    {
        return Ok(Saved::Servers(vec![(registry_name(inner, stem), registry_target(inner)?)]));
    }
    if value.get("command").is_some() || value.get("url").is_some() {
        return Ok(Saved::Servers(vec![(stem.to_owned(), entry_target(&value)?)]));
    }
    bail!(
        "it is neither a list of tools, a `server.json`, nor settings with `mcpServers`\nhint: a saved list looks like {{\"tools\": [...]}}"
    )
}

/// One tool object a line.
fn lines(text: &str) -> Result<Value> {
    let rows: Result<Vec<Value>, _> =
        text.lines().filter(|line| !line.trim().is_empty()).map(serde_json::from_str).collect();
    match rows {
        Ok(rows) => Ok(Value::Array(rows)),
        Err(error) => {
            bail!(
                "it is not JSON: {error}\nhint: comments are not JSON; save the answer of `tools/list` as it came"
            )
        }
    }
}

/// `{"tools": []}`, `{"result": {"tools": []}}`, a bare list, pages of lists, or one tool.
fn lists(value: &Value) -> Option<Offer> {
    let mut offer = Offer { is_partial: true, ..Offer::default() };
    if gather(value, &mut offer) { Some(offer) } else { None }
}

fn gather(value: &Value, offer: &mut Offer) -> bool {
    match value {
        Value::Array(items) if items.iter().any(is_tool) => {
            offer.tools.extend(items.iter().map(ToString::to_string));
            true
        }
        Value::Array(items) if items.is_empty() => true,
        Value::Array(items) => {
            let found: Vec<bool> = items.iter().map(|item| gather(item, offer)).collect();
            found.contains(&true)
        }
        Value::Object(members) => {
            if let Some(result) = members.get("result") {
                return gather(result, offer);
            }
            let mut found = false;
            for member in ["tools", "resources", "resourceTemplates", "prompts"] {
                let Some(items) = members.get(member).and_then(Value::as_array) else { continue };
                let list = match member {
                    "tools" => &mut offer.tools,
                    "prompts" => &mut offer.prompts,
                    _ => &mut offer.resources,
                };
                list.extend(items.iter().map(ToString::to_string));
                found = true;
            }
            if let Some(text) =
                members.get("instructions").and_then(Value::as_str).filter(|_| found)
            {
                offer.instructions = Some(text.to_owned());
            }
            if !found && is_tool(value) {
                offer.tools.push(value.to_string());
                return true;
            }
            found
        }
        _ => false,
    }
}

fn is_tool(value: &Value) -> bool {
    value.get("name").is_some_and(Value::is_string)
        && ["description", "inputSchema", "input_schema", "title", "annotations"]
            .iter()
            .any(|key| value.get(key).is_some())
        && value.get("packages").is_none()
        && value.get("remotes").is_none()
}

fn client_entries(value: &Value) -> Result<Option<Vec<(String, Target)>>> {
    let nested = value.get("mcp").and_then(|mcp| mcp.get("servers"));
    let member = SERVER_MEMBERS.iter().find_map(|name| value.get(name)).or(nested);
    let Some(entries) = member.and_then(Value::as_object) else { return Ok(None) };
    let mut out = Vec::new();
    for (name, entry) in entries {
        out.push((name.clone(), entry_target(entry)?));
    }
    if out.is_empty() {
        bail!("it names no server");
    }
    Ok(Some(out))
}

/// An entry as clients write it: a command with arguments and variables, or an address.
fn entry_target(entry: &Value) -> Result<Target> {
    let url = ["url", "serverUrl", "httpUrl"].iter().find_map(|key| entry.get(key)?.as_str());
    if let Some(url) = url {
        let headers = pairs(entry.get("headers"))
            .into_iter()
            .map(|(name, value)| (name, Credential::Held(Secret::new(value))))
            .collect();
        return Ok(Target::from_url(url, headers, false)?);
    }
    let command = entry.get("command");
    let mut argv: Vec<String> = match command {
        Some(Value::Array(_)) => texts(command),
        Some(Value::String(program)) => vec![program.clone()],
        _ => bail!("an entry needs a `command` or a `url`"),
    };
    argv.extend(texts(entry.get("args")));
    let env = pairs(entry.get("env"))
        .into_iter()
        .map(|(name, value)| (name, EnvValue::Hidden(Credential::Held(Secret::new(value)))))
        .collect();
    let cwd = entry.get("cwd").and_then(Value::as_str).map(PathBuf::from);
    Ok(Target::Command { argv, env, cwd })
}

fn texts(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

fn pairs(value: Option<&Value>) -> Vec<(String, String)> {
    let members = value.and_then(Value::as_object).into_iter().flatten();
    members.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

fn registry_name(server: &Value, stem: &str) -> String {
    let name = server.get("name").and_then(Value::as_str).unwrap_or(stem);
    name.rsplit('/').next().unwrap_or(name).to_owned()
}

/// How a `server.json` says the server is started, or where it is.
fn registry_target(server: &Value) -> Result<Target> {
    let packages = server.get("packages").and_then(Value::as_array);
    if let Some(package) = packages.and_then(|list| list.iter().find(|package| is_stdio(package))) {
        return package_target(package);
    }
    let remotes = server.get("remotes").and_then(Value::as_array).into_iter().flatten();
    let mut remotes = remotes;
    let url = remotes.find_map(|remote| remote.get("url")?.as_str());
    match url {
        Some(url) => Ok(Target::from_url(url, Vec::new(), false)?),
        None => bail!("it names neither a package that runs here nor an address"),
    }
}

fn is_stdio(package: &Value) -> bool {
    let kind = package.get("transport").and_then(|t| t.get("type")).and_then(Value::as_str);
    kind.is_none_or(|kind| kind == "stdio")
}

fn package_target(package: &Value) -> Result<Target> {
    let text = |keys: [&str; 2]| {
        keys.iter().find_map(|key| package.get(key)?.as_str()).unwrap_or_default()
    };
    let kind = text(["registryType", "registry_name"]);
    let name = text(["identifier", "name"]);
    let version = text(["version", "version"]);
    if name.is_empty() || name.starts_with('-') {
        bail!("the package of the `server.json` has no usable name");
    }
    let mut argv: Vec<String> = match kind {
        "npm" => vec!["npx".into(), "-y".into(), versioned(name, "@", version)],
        "pypi" => vec!["uvx".into(), versioned(name, "==", version)],
        "oci" => vec!["docker".into(), "run".into(), "-i".into(), "--rm".into(), name.into()],
        other => bail!(
            "packages of kind `{other}` cannot be started\nhint: start it yourself: `tollgate scan -- COMMAND`"
        ),
    };
    argv.extend(arguments(
        package.get("packageArguments").or_else(|| package.get("package_arguments")),
    ));
    Ok(Target::Command { argv, env: variables(package), cwd: None })
}

fn versioned(name: &str, mark: &str, version: &str) -> String {
    if version.is_empty() { name.to_owned() } else { format!("{name}{mark}{version}") }
}

/// Arguments that the file itself gives a value; the rest is for the person to fill in.
fn arguments(list: Option<&Value>) -> Vec<String> {
    let mut out = Vec::new();
    for argument in list.and_then(Value::as_array).into_iter().flatten() {
        let value =
            argument.get("value").or_else(|| argument.get("default")).and_then(Value::as_str);
        let name = argument.get("name").and_then(Value::as_str);
        match (argument.get("type").and_then(Value::as_str), name, value) {
            (Some("named"), Some(name), value) => {
                out.push(name.to_owned());
                out.extend(value.map(str::to_owned));
            }
            (_, _, Some(value)) => out.push(value.to_owned()),
            _ => {}
        }
    }
    out
}

fn variables(package: &Value) -> Vec<(String, EnvValue)> {
    let list = package.get("environmentVariables").or_else(|| package.get("environment_variables"));
    let mut out = Vec::new();
    for variable in list.and_then(Value::as_array).into_iter().flatten() {
        let value =
            variable.get("value").or_else(|| variable.get("default")).and_then(Value::as_str);
        if let (Some(name), Some(value)) = (variable.get("name").and_then(Value::as_str), value) {
            out.push((name.to_owned(), EnvValue::Plain(value.to_owned())));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
    use super::{Saved, read};
    use store::registry::Target;

    #[test]
    fn lists_are_read_in_every_usual_shape() {
        let tool = r#"{"name":"a","inputSchema":{}}"#;
        for text in [
            format!(r#"{{"tools":[{tool}]}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{tool}]}}}}"#),
            format!("[{tool}]"),
            tool.to_owned(),
            format!("{tool}\n{tool}\n").lines().next().unwrap().to_owned(),
            format!(r#"[{{"result":{{"tools":[{tool}]}}}},{{"result":{{"tools":[]}}}}]"#),
        ] {
            match read(&text, "x").unwrap() {
                Saved::Lists(offer) => assert_eq!(offer.tools.len(), 1, "{text}"),
                Saved::Servers(_) => panic!("{text}"),
            }
        }
    }

    #[test]
    fn servers_are_read_from_settings_and_from_the_registry() {
        let argv = |text: &str| match read(text, "x").unwrap() {
            Saved::Servers(servers) => match servers.into_iter().next().unwrap() {
                (name, Target::Command { argv, .. }) => format!("{name}: {}", argv.join(" ")),
                (name, Target::Url { url, .. }) => format!("{name}: {url}"),
                (name, Target::Builtin { .. }) => name,
            },
            Saved::Lists(_) => panic!("{text}"),
        };
        for (text, expected) in [
            (r#"{"mcpServers":{"git":{"command":"uvx","args":["mcp-git"]}}}"#, "git: uvx mcp-git"),
            (
                r#"{"servers":{"web":{"url":"https://example.com/mcp"}}}"#,
                "web: https://example.com/mcp",
            ),
            (
                r#"{"name":"io.x/time","packages":[{"registryType":"npm","identifier":"@x/time","version":"1.0.0"}]}"#,
                "time: npx -y @x/time@1.0.0",
            ),
            (
                r#"{"name":"io.x/t","packages":[{"registryType":"pypi","identifier":"t","version":"2"}]}"#,
                "t: uvx t==2",
            ),
            (
                r#"{"name":"io.x/r","remotes":[{"type":"streamable-http","url":"https://r.example/mcp"}]}"#,
                "r: https://r.example/mcp",
            ),
        ] {
            assert_eq!(argv(text), expected);
        }
    }

    #[test]
    fn other_files_are_refused_with_a_hint() {
        for text in [
            "{}",
            "not json",
            "// c\n{}",
            r#"{"packages":[{"registryType":"npm","identifier":"--evil"}]}"#,
        ] {
            assert!(read(text, "x").is_err(), "{text}");
        }
    }
}
