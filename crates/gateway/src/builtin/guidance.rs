//! The skills and prompts of a built-in server as MCP objects.

use catalog::pins::fingerprint_of_bytes;
use connectors::{Connector, Prompt, Skill, SkillFile};
use serde_json::{Map, Value, json};

use super::{INVALID_PARAMS, RpcError};

const MARKDOWN: &str = "text/markdown";
const DIRECTORY: &str = "inode/directory";

fn entry(skill: &Skill) -> Value {
    let file = |file: &SkillFile| {
        json!({
            "uri": skill.uri_of(file),
            "digest": format!("sha256:{}", fingerprint_of_bytes(file.text.as_bytes())),
            "size": file.text.len(),
        })
    };
    json!({
        "uri": format!("{}/SKILL.md", skill.root()),
        "frontmatter": {
            "name": skill.name,
            "description": skill.description,
            "license": skill.license,
        },
        "resources": skill.files.iter().map(file).collect::<Vec<_>>(),
    })
}

pub(super) fn skills(connector: &Connector) -> Value {
    json!({ "skills": connector.skills.iter().map(entry).collect::<Vec<_>>() })
}

pub(super) fn skill(connector: &Connector, params: &Map<String, Value>) -> Result<Value, RpcError> {
    let uri = text(params, "uri");
    let is_asked = |skill: &&Skill| format!("{}/SKILL.md", skill.root()) == uri;
    let found = connector.skills.iter().find(is_asked);
    let unknown = || RpcError::new(INVALID_PARAMS, format!("Unknown skill: {uri}"));
    Ok(json!({ "skill": entry(found.ok_or_else(unknown)?) }))
}

/// The contents of a file of a skill.
pub(super) fn file(connector: &Connector, uri: &str) -> Option<Value> {
    let files =
        connector.skills.iter().flat_map(|skill| skill.files.iter().map(move |f| (skill, f)));
    let (_, file) = files.into_iter().find(|(skill, file)| skill.uri_of(file) == uri)?;
    Some(json!({ "contents": [{ "uri": uri, "mimeType": MARKDOWN, "text": file.text }] }))
}

/// The direct children of a folder of a skill.
pub(super) fn directory(
    connector: &Connector,
    params: &Map<String, Value>,
) -> Result<Value, RpcError> {
    let folder = text(params, "uri");
    let mut children: Vec<Value> = Vec::new();
    for skill in connector.skills {
        for file in skill.files {
            let uri = skill.uri_of(file);
            let Some(rest) = uri.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'))
            else {
                continue;
            };
            let child = match rest.split_once('/') {
                None => json!({ "uri": uri, "name": rest, "mimeType": MARKDOWN }),
                Some((name, _)) => {
                    json!({ "uri": format!("{folder}/{name}"), "name": name, "mimeType": DIRECTORY })
                }
            };
            if folder.starts_with(&skill.root()) && !children.contains(&child) {
                children.push(child);
            }
        }
    }
    if children.is_empty() {
        let message = format!("Not a directory: {folder}");
        return Err(RpcError::new(INVALID_PARAMS, message));
    }
    Ok(json!({ "resources": children }))
}

pub(super) fn prompts(connector: &Connector) -> Value {
    let describe = |prompt: &Prompt| {
        let arguments = prompt.arguments.iter().map(|argument| {
            json!({
                "name": argument.name,
                "description": argument.description,
                "required": argument.default.is_none(),
            })
        });
        json!({
            "name": prompt.name,
            "title": prompt.title,
            "description": prompt.description,
            "arguments": arguments.collect::<Vec<_>>(),
        })
    };
    json!({ "prompts": connector.prompts.iter().map(describe).collect::<Vec<_>>() })
}

pub(super) fn prompt(
    connector: &Connector,
    params: &Map<String, Value>,
) -> Result<Value, RpcError> {
    let refused = |message: String| RpcError::new(INVALID_PARAMS, message);
    let name = text(params, "name");
    let found = connector.prompts.iter().find(|prompt| prompt.name == name);
    let prompt = found.ok_or_else(|| refused(format!("Unknown prompt: {name}")))?;
    let none = Map::new();
    let arguments = params.get("arguments").and_then(Value::as_object).unwrap_or(&none);
    let filled = prompt.filled(|key| arguments.get(key).and_then(Value::as_str));
    let text = filled.map_err(refused)?;
    Ok(json!({
        "description": prompt.description,
        "messages": [{ "role": "user", "content": { "type": "text", "text": text } }],
    }))
}

fn text<'p>(params: &'p Map<String, Value>, key: &str) -> &'p str {
    params.get(key).and_then(Value::as_str).unwrap_or_default()
}
