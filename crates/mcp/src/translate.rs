//! Translates messages between the two eras of MCP, text in, text out. Legacy means the handshake
//! revisions up to 2025-11-25, modern means 2026-07-28 and later.

use policy::json::{Bounds, Doc, Kind, Value};
use serde_json::json;

use crate::Id;
use crate::declared_client;
use crate::edit::{self, Member, string};
use crate::params::{has_look_alike, meta_keys};

mod input;
pub mod legacy_tasks;
pub mod modern_tasks;

pub use input::{asks_for_input, input_requests, result_asks_for_input};

/// The newest revisions of each era.
pub const MODERN: &str = "2026-07-28";
pub const NEWEST_LEGACY: &str = "2025-11-25";
/// The versions that a modern client is offered: only those that a request can claim.
pub const SUPPORTED: [&str; 1] = [MODERN];

/// Whether results of a method carry caching hints since 2026-07-28.
pub fn is_cacheable(method: &str) -> bool {
    matches!(
        method,
        "server/discover"
            | "tools/list"
            | "prompts/list"
            | "resources/list"
            | "resources/templates/list"
            | "resources/read"
            | "skills/list"
            | "skills/get"
    )
}

/// The params of a modern request without members that only a modern server understands.
pub fn legacy_params(params: Value<'_>) -> String {
    edit::object(
        params,
        |key, value| match key {
            "_meta" => legacy_meta(value),
            "inputResponses" | "requestState" => Member::Drop,
            _ => Member::Keep,
        },
        &[],
    )
}

fn legacy_meta(value: Value<'_>) -> Member {
    let kept = edit::without(
        value,
        &[
            meta_keys::PROTOCOL_VERSION,
            meta_keys::CLIENT_INFO,
            meta_keys::CLIENT_CAPABILITIES,
            meta_keys::LOG_LEVEL,
        ],
    );
    if kept == "{}" { Member::Drop } else { Member::Replace(kept) }
}

/// What a modern request declares about its client.
#[derive(Clone, Debug)]
pub struct ClientMeta {
    pub capabilities: String,
    pub info: Option<String>,
    pub log_level: Option<String>,
}

impl ClientMeta {
    /// Reads it from the params of an initialize request. Only what the protocol defines: it goes with every
    /// call, and an approval of the call does not show it.
    pub fn from_initialize(params: Value<'_>) -> ClientMeta {
        let object = |key: &str| params.get(key).filter(|value| value.kind() == Kind::Object);
        ClientMeta {
            capabilities: object("capabilities")
                .map_or_else(|| "{}".to_owned(), declared_client::defined_capabilities),
            info: object("clientInfo").map(declared_client::name_and_version),
            log_level: None,
        }
    }

    fn members(&self) -> Vec<(&'static str, String)> {
        let mut members = vec![
            (meta_keys::PROTOCOL_VERSION, string(MODERN)),
            (meta_keys::CLIENT_CAPABILITIES, self.capabilities.clone()),
        ];
        members.extend(self.info.clone().map(|info| (meta_keys::CLIENT_INFO, info)));
        members
            .extend(self.log_level.as_deref().map(|level| (meta_keys::LOG_LEVEL, string(level))));
        members
    }

    /// The `_meta` of a modern request without other members.
    pub fn meta(&self) -> String {
        rebuild_members(&self.members())
    }
}

fn rebuild_members(members: &[(&str, String)]) -> String {
    let parts: Vec<String> =
        members.iter().map(|(key, raw)| format!("{}:{raw}", string(key))).collect();
    format!("{{{}}}", parts.join(","))
}

/// The params of a legacy request with the client's `_meta` that a modern server needs.
pub fn modern_params(params: Option<Value<'_>>, client: &ClientMeta) -> String {
    let Some(params) = params else { return format!("{{\"_meta\":{}}}", client.meta()) };
    let meta = match params.get("_meta").filter(|meta| meta.kind() == Kind::Object) {
        None => client.meta(),
        Some(meta) => edit::object(
            meta,
            |key, _| {
                if key.starts_with("io.modelcontextprotocol/") {
                    Member::Drop
                } else {
                    Member::Keep
                }
            },
            &client.members(),
        ),
    };
    edit::with(params, "_meta", meta)
}

/// A legacy server's result in modern form.
pub fn modern_result(method: &str, result: Value<'_>) -> String {
    if let Some(task) = legacy_tasks::created_task(result).filter(|_| method == "tools/call") {
        return legacy_tasks::modern_created(result, task);
    }
    let mut extra = Vec::new();
    if result.get("resultType").is_none() {
        extra.push(("resultType", string("complete")));
    }
    if is_cacheable(method) {
        if result.get("ttlMs").is_none() {
            extra.push(("ttlMs", "0".to_owned()));
        }
        if result.get("cacheScope").is_none() {
            extra.push(("cacheScope", string("private")));
        }
    }
    edit::object(result, |_, _| Member::Keep, &extra)
}

/// A modern server's result in legacy form.
pub fn legacy_result(method: &str, result: Value<'_>) -> String {
    let odd = result
        .get("structuredContent")
        .filter(|content| is_tool_result(method) && content.kind() != Kind::Object);
    // Structured content that is not an object becomes text, unless there is content already.
    let said = result.get("content").is_some_and(|content| content.items().next().is_some());
    let text = odd
        .filter(|_| !said)
        .map(|content| format!("[{{\"type\":\"text\",\"text\":{}}}]", string(content.raw())));
    let has_content = result.get("content").is_some();
    let extra: Vec<(&str, String)> =
        text.iter().filter(|_| !has_content).map(|text| ("content", text.clone())).collect();
    edit::object(
        result,
        |key, value| match (key, &text) {
            ("ttlMs" | "cacheScope", _) => Member::Drop,
            // Any other value belongs to an extension that the client may know.
            ("resultType", _) if value.as_str().as_deref() == Some("complete") => Member::Drop,
            ("structuredContent", _) if odd.is_some() => Member::Drop,
            ("content", Some(text)) => Member::Replace(text.clone()),
            ("tools", _) if method == "tools/list" => {
                Member::Replace(edit::array(value.items().map(legacy_tool)))
            }
            _ => Member::Keep,
        },
        &extra,
    )
}

/// Whether the results of a method are tool results, of a call or of its task.
fn is_tool_result(method: &str) -> bool {
    matches!(method, "tools/call" | "tasks/result")
}

/// A tool in legacy form: an output schema must describe an object.
pub fn legacy_tool(tool: Value<'_>) -> String {
    let is_object =
        |schema: Value<'_>| schema.get("type").and_then(Value::as_str).as_deref() == Some("object");
    match tool.get("outputSchema") {
        Some(schema) if !is_object(schema) => edit::without(tool, &["outputSchema"]),
        _ => tool.raw().to_owned(),
    }
}

/// Error codes that differ between the eras.
pub fn error_code(code: &str, to_modern: bool, method: &str) -> Option<&'static str> {
    match (code, to_modern, method) {
        ("-32002", true, "resources/read") => Some("-32602"),
        ("-32602", false, "resources/read") => Some("-32002"),
        _ => None,
    }
}

/// An error object with the code of the other era.
pub fn error(error: Value<'_>, to_modern: bool, method: &str) -> String {
    let changed = error
        .get("code")
        .and_then(Value::as_number)
        .and_then(|code| error_code(code, to_modern, method));
    match changed {
        Some(code) => edit::with(error, "code", code.to_owned()),
        None => error.raw().to_owned(),
    }
}

/// A legacy initialize result as a `server/discover` result.
pub fn discover_result(initialize: &serde_json::Value) -> serde_json::Value {
    let mut result = json!({
        "resultType": "complete",
        "supportedVersions": SUPPORTED,
        "capabilities": legacy_tasks::modern_capabilities(initialize.get("capabilities")),
        "ttlMs": 0,
        "cacheScope": "private",
    });
    if let Some(object) = result.as_object_mut() {
        if let Some(info) = initialize.get("serverInfo") {
            object.insert("_meta".to_owned(), json!({ meta_keys::SERVER_INFO: info }));
        }
        if let Some(instructions) = initialize.get("instructions") {
            object.insert("instructions".to_owned(), instructions.clone());
        }
    }
    result
}

/// A `server/discover` result as a legacy initialize result.
pub fn initialize_result(discover: &serde_json::Value, revision: &str) -> serde_json::Value {
    let info = discover.get("_meta").and_then(|meta| meta.get(meta_keys::SERVER_INFO));
    let mut result = json!({
        "protocolVersion": revision,
        "capabilities": legacy_tasks::legacy_capabilities(discover.get("capabilities"), revision),
        "serverInfo": info.cloned().unwrap_or_else(|| json!({ "name": "server", "version": "0" })),
    });
    if let (Some(object), Some(instructions)) =
        (result.as_object_mut(), discover.get("instructions"))
    {
        object.insert("instructions".to_owned(), instructions.clone());
    }
    result
}

/// Capabilities without the member `own`, which clients of the other era cannot use.
fn without(capabilities: Option<&serde_json::Value>, own: &str) -> serde_json::Value {
    let mut capabilities = capabilities.cloned().unwrap_or_else(|| json!({}));
    if let Some(object) = capabilities.as_object_mut() {
        object.remove(own);
    }
    capabilities
}

/// One server request within a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputRequest {
    /// Its key in `inputRequests`.
    pub key: String,
    pub method: String,
    /// Raw JSON.
    pub params: String,
}

/// The params of a modern server request in legacy form: a URL elicitation needs an id there.
pub fn legacy_question(question: &InputRequest, id: &Id) -> String {
    let raw = &question.params;
    match Doc::read(raw.as_bytes(), &Bounds::ANSWER) {
        Ok(doc)
            if question.method == "elicitation/create"
                && doc.root().get("mode").and_then(Value::as_str).as_deref() == Some("url")
                && doc.root().get("elicitationId").is_none() =>
        {
            edit::with(doc.root(), "elicitationId", id.raw().to_owned())
        }
        _ => raw.clone(),
    }
}

/// The params of a legacy server request in modern form: a URL elicitation has no id there.
pub fn modern_question(params: Value<'_>) -> String {
    match params.get("elicitationId") {
        Some(_) => edit::without(params, &["elicitationId"]),
        None => params.raw().to_owned(),
    }
}

/// The code of a legacy error with URLs that the user must open before the call is repeated.
pub const URL_ELICITATION_REQUIRED: &str = "-32042";

/// Whether another parser could find another code, or elicitations, in an error: look-alikes of
/// protocol members, or a code that is not a plain integer.
pub fn is_ambiguous_error(error: Value<'_>) -> bool {
    let is_odd_code =
        |code: Value<'_>| code.as_number().is_some_and(|text| text.contains(['.', 'e', 'E']));
    if has_look_alike(error, &["code", "message", "data"])
        || error.get("code").is_some_and(is_odd_code)
    {
        return true;
    }
    // The message may have been parsed only down to this level.
    let Some(data) = error.get("data").filter(|data| data.kind() == Kind::Object) else {
        return false;
    };
    Doc::read(data.raw().as_bytes(), &Bounds::ANSWER)
        .is_ok_and(|data| has_look_alike(data.root(), &["elicitations"]))
}

/// Such an error as an `input_required` result: one elicitation per URL.
pub fn url_elicitations(error: Value<'_>) -> String {
    let named = error.get("data").and_then(|data| data.get("elicitations"));
    let questions: Vec<InputRequest> = named
        .into_iter()
        .flat_map(Value::items)
        .filter(|named| named.get("url").is_some_and(|url| url.kind() == Kind::String))
        .enumerate()
        .map(|(number, named)| InputRequest {
            key: format!("address-{}", number + 1),
            method: "elicitation/create".to_owned(),
            params: edit::object(
                named,
                |key, _| match key {
                    "elicitationId" | "mode" => Member::Drop,
                    _ => Member::Keep,
                },
                &[("mode", string("url"))],
            ),
        })
        .collect();
    input_required(&questions, "")
}

/// An `input_required` result for requests of a legacy server.
pub fn input_required(questions: &[InputRequest], state: &str) -> String {
    format!(
        "{{\"resultType\":\"input_required\",\"inputRequests\":{},\"requestState\":{}}}",
        write_input_requests(questions),
        string(state)
    )
}

fn write_input_requests(questions: &[InputRequest]) -> String {
    let requests: Vec<String> = questions
        .iter()
        .map(|question| {
            format!(
                "{}:{{\"method\":{},\"params\":{}}}",
                string(&question.key),
                string(&question.method),
                question.params
            )
        })
        .collect();
    format!("{{{}}}", requests.join(","))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn on<T>(source: &str, act: impl Fn(Value<'_>) -> T) -> T {
        let doc = Doc::read(source.as_bytes(), &Bounds::ANSWER).unwrap();
        act(doc.root())
    }

    #[test]
    fn a_modern_request_loses_only_what_a_legacy_server_cannot_understand() {
        let cases = [
            (
                r#"{"name":"x","arguments":{"a":1},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":7}}"#,
                r#"{"name":"x","arguments":{"a":1},"_meta":{"progressToken":7}}"#,
            ),
            (
                r#"{"uri":"a:b","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}"#,
                r#"{"uri":"a:b"}"#,
            ),
            (r#"{"name":"x","requestState":"s","inputResponses":{}}"#, r#"{"name":"x"}"#),
        ];
        for (source, expected) in cases {
            assert_eq!(on(source, legacy_params), expected);
        }
    }

    #[test]
    fn a_legacy_request_gains_its_clients_meta_and_keeps_its_own() {
        let client = ClientMeta {
            capabilities: r#"{"elicitation":{}}"#.to_owned(),
            info: Some(r#"{"name":"c","version":"1"}"#.to_owned()),
            log_level: Some("info".to_owned()),
        };
        let expected = r#"{"name":"x","_meta":{"progressToken":7,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/logLevel":"info"}}"#;
        let source = r#"{"name":"x","_meta":{"progressToken":7}}"#;
        assert_eq!(on(source, |params| modern_params(Some(params), &client)), expected);
        assert!(
            modern_params(None, &client)
                .starts_with(r#"{"_meta":{"io.modelcontextprotocol/protocolVersion""#)
        );
    }

    #[test]
    fn results_translate_to_the_other_era_and_back() {
        let modern = on(r#"{"tools":[],"n":1.10}"#, |result| modern_result("tools/list", result));
        assert_eq!(
            modern,
            r#"{"tools":[],"n":1.10,"resultType":"complete","ttlMs":0,"cacheScope":"private"}"#
        );
        assert_eq!(on(&modern, |r| legacy_result("tools/list", r)), r#"{"tools":[],"n":1.10}"#);
        let call = on(r#"{"content":[]}"#, |result| modern_result("tools/call", result));
        assert_eq!(call, r#"{"content":[],"resultType":"complete"}"#);
    }

    #[test]
    fn modern_only_parts_of_tools_become_legacy_ones() {
        let cases = [
            (
                "tools/call",
                r#"{"resultType":"complete","content":[],"structuredContent":[1,2.50]}"#,
                r#"{"content":[{"type":"text","text":"[1,2.50]"}]}"#,
            ),
            (
                "tools/call",
                r#"{"structuredContent":"a","x":1}"#,
                r#"{"x":1,"content":[{"type":"text","text":"\"a\""}]}"#,
            ),
            (
                "tools/call",
                r#"{"content":[{"type":"text","text":"one"}],"structuredContent":1}"#,
                r#"{"content":[{"type":"text","text":"one"}]}"#,
            ),
            (
                "tools/call",
                r#"{"content":[],"structuredContent":{"a":1.0}}"#,
                r#"{"content":[],"structuredContent":{"a":1.0}}"#,
            ),
            ("resources/read", r#"{"structuredContent":[1]}"#, r#"{"structuredContent":[1]}"#),
            (
                "tools/list",
                r#"{"tools":[{"name":"a","outputSchema":{"type":"array"}},{"name":"b","outputSchema":{"type":"object"}}]}"#,
                r#"{"tools":[{"name":"a"},{"name":"b","outputSchema":{"type":"object"}}]}"#,
            ),
        ];
        for (method, source, expected) in cases {
            assert_eq!(on(source, |result| legacy_result(method, result)), expected);
        }
    }

    #[test]
    fn a_url_elicitation_has_an_id_for_legacy_clients() {
        let cases = [
            (
                r#"{"mode":"url","url":"https://a"}"#,
                r#"{"mode":"url","url":"https://a","elicitationId":"ask-1"}"#,
            ),
            (r#"{"mode":"url","elicitationId":"e"}"#, r#"{"mode":"url","elicitationId":"e"}"#),
            (r#"{"message":"who?"}"#, r#"{"message":"who?"}"#),
        ];
        for (params, expected) in cases {
            let question = InputRequest {
                key: "q".to_owned(),
                method: "elicitation/create".to_owned(),
                params: params.to_owned(),
            };
            assert_eq!(legacy_question(&question, &Id::generated("ask", 1)), expected);
        }
    }

    #[test]
    fn an_ambiguous_error_is_detected() {
        for (error, expected) in [
            (r#"{"code":-32042,"message":"m","data":{"elicitations":[]}}"#, false),
            (r#"{"code":-32000,"message":"m","data":{"Other":1}}"#, false),
            (r#"{"code":-32000,"message":"m","data":"text"}"#, false),
            (r#"{"code":-32042,"message":"m","data":{"Elicitations":[]}}"#, true),
            (r#"{"code":-32042,"message":"m","Data":{"elicitations":[]}}"#, true),
            (r#"{"code":-32000,"Code":-32042,"message":"m"}"#, true),
            (r#"{"code":-32042.0,"message":"m"}"#, true),
            (r#"{"code":-3.2042e4,"message":"m"}"#, true),
        ] {
            let doc = Doc::read(error.as_bytes(), &Bounds::ANSWER).unwrap();
            assert_eq!(super::is_ambiguous_error(doc.root()), expected, "{error}");
        }
    }

    #[test]
    fn input_requests_survive_the_round_trip() {
        let question = InputRequest {
            key: "q\"1".to_owned(),
            method: "elicitation/create".to_owned(),
            params: r#"{"message":"who?"}"#.to_owned(),
        };
        let result = input_required(std::slice::from_ref(&question), "state");
        let doc = Doc::read(result.as_bytes(), &Bounds::ANSWER).unwrap();
        assert_eq!(super::input_requests(doc.root()), Some(vec![question]));
    }
}
