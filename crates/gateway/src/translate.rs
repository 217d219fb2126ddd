//! Maps messages between the two eras of MCP. Pure: text in, text out.
//! Legacy means the handshake revisions up to 2025-11-25, modern means 2026-07-28 and later.

use policy::json::{Bounds, Doc, Kind, Value};
use serde_json::json;

use crate::rebuild::{self, Member, string};
use crate::wire::{Id, has_look_alike};

mod asking;
pub(crate) mod newer_tasks;
pub(crate) mod tasks;

pub(crate) use asking::{asks, ended_asking, questions};

/// The names under which a modern request carries what a session used to hold.
pub(crate) mod meta {
    pub(crate) const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    pub(crate) const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
    pub(crate) const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    pub(crate) const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    pub(crate) const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
    pub(crate) const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
}

/// The newest revisions of each era.
pub(crate) const MODERN: &str = "2026-07-28";
pub(crate) const NEWEST_LEGACY: &str = "2025-11-25";
/// What we tell a modern client that we speak: only versions that a request can name for itself.
pub(crate) const SUPPORTED: [&str; 1] = [MODERN];

/// Results that carry caching hints since 2026-07-28.
pub(crate) fn is_cacheable(method: &str) -> bool {
    matches!(
        method,
        "server/discover"
            | "tools/list"
            | "prompts/list"
            | "resources/list"
            | "resources/templates/list"
            | "resources/read"
    )
}

/// The parameters of a modern request without what only a modern server understands.
pub(crate) fn legacy_params(params: Value<'_>) -> String {
    rebuild::object(
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
    let kept = rebuild::without(
        value,
        &[meta::PROTOCOL_VERSION, meta::CLIENT_INFO, meta::CLIENT_CAPABILITIES, meta::LOG_LEVEL],
    );
    if kept == "{}" { Member::Drop } else { Member::Replace(kept) }
}

/// What a modern request says about its client.
#[derive(Clone, Debug)]
pub(crate) struct ClientWords {
    pub(crate) capabilities: String,
    pub(crate) info: Option<String>,
    pub(crate) log_level: Option<String>,
}

impl ClientWords {
    /// From the parameters of an initialize request.
    pub(crate) fn from_initialize(params: Value<'_>) -> ClientWords {
        ClientWords {
            capabilities: params
                .get("capabilities")
                .map_or_else(|| "{}".to_owned(), |value| value.raw().to_owned()),
            info: params.get("clientInfo").map(|value| value.raw().to_owned()),
            log_level: None,
        }
    }

    fn members(&self) -> Vec<(&'static str, String)> {
        let mut members = vec![
            (meta::PROTOCOL_VERSION, string(MODERN)),
            (meta::CLIENT_CAPABILITIES, self.capabilities.clone()),
        ];
        members.extend(self.info.clone().map(|info| (meta::CLIENT_INFO, info)));
        members.extend(self.log_level.as_deref().map(|level| (meta::LOG_LEVEL, string(level))));
        members
    }

    /// The `_meta` of a modern request that has nothing else in it.
    pub(crate) fn meta(&self) -> String {
        rebuild_members(&self.members())
    }
}

fn rebuild_members(members: &[(&str, String)]) -> String {
    let parts: Vec<String> =
        members.iter().map(|(key, raw)| format!("{}:{raw}", string(key))).collect();
    format!("{{{}}}", parts.join(","))
}

/// The parameters of a legacy request with what a modern server needs to know of the client.
pub(crate) fn modern_params(params: Option<Value<'_>>, client: &ClientWords) -> String {
    let Some(params) = params else { return format!("{{\"_meta\":{}}}", client.meta()) };
    let meta = match params.get("_meta").filter(|meta| meta.kind() == Kind::Object) {
        None => client.meta(),
        Some(meta) => rebuild::object(
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
    rebuild::with(params, "_meta", meta)
}

/// A legacy server's result as a modern client needs it.
pub(crate) fn modern_result(method: &str, result: Value<'_>) -> String {
    if let Some(task) = tasks::begun(result).filter(|_| method == "tools/call") {
        return tasks::modern_begun(result, task);
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
    rebuild::object(result, |_, _| Member::Keep, &extra)
}

/// A modern server's result as a legacy client knows it.
pub(crate) fn legacy_result(method: &str, result: Value<'_>) -> String {
    let odd = result
        .get("structuredContent")
        .filter(|content| is_tool_result(method) && content.kind() != Kind::Object);
    // What cannot stay where it is stands as text; servers mostly say it there as well.
    let said = result.get("content").is_some_and(|content| content.items().next().is_some());
    let text = odd
        .filter(|_| !said)
        .map(|content| format!("[{{\"type\":\"text\",\"text\":{}}}]", string(content.raw())));
    let has_content = result.get("content").is_some();
    let extra: Vec<(&str, String)> =
        text.iter().filter(|_| !has_content).map(|text| ("content", text.clone())).collect();
    rebuild::object(
        result,
        |key, value| match (key, &text) {
            ("ttlMs" | "cacheScope", _) => Member::Drop,
            // Another kind than the usual one is an extension's, which this client may know.
            ("resultType", _) if value.as_str().as_deref() == Some("complete") => Member::Drop,
            ("structuredContent", _) if odd.is_some() => Member::Drop,
            ("content", Some(text)) => Member::Replace(text.clone()),
            ("tools", _) if method == "tools/list" => {
                Member::Replace(rebuild::array(value.items().map(legacy_tool)))
            }
            _ => Member::Keep,
        },
        &extra,
    )
}

/// Whether results of a method are those of a tool, of a call or of the task that a call became.
fn is_tool_result(method: &str) -> bool {
    matches!(method, "tools/call" | "tasks/result")
}

/// A tool as a legacy client knows it: what it returns is an object or not described at all.
pub(crate) fn legacy_tool(tool: Value<'_>) -> String {
    let is_object =
        |schema: Value<'_>| schema.get("type").and_then(Value::as_str).as_deref() == Some("object");
    match tool.get("outputSchema") {
        Some(schema) if !is_object(schema) => rebuild::without(tool, &["outputSchema"]),
        _ => tool.raw().to_owned(),
    }
}

/// Error codes that changed their number.
pub(crate) fn error_code(code: &str, to_modern: bool, method: &str) -> Option<&'static str> {
    match (code, to_modern, method) {
        ("-32002", true, "resources/read") => Some("-32602"),
        ("-32602", false, "resources/read") => Some("-32002"),
        _ => None,
    }
}

/// An error object in the numbers of the other era.
pub(crate) fn error(error: Value<'_>, to_modern: bool, method: &str) -> String {
    let changed = error
        .get("code")
        .and_then(Value::as_number)
        .and_then(|code| error_code(code, to_modern, method));
    match changed {
        Some(code) => rebuild::with(error, "code", code.to_owned()),
        None => error.raw().to_owned(),
    }
}

/// What a legacy server said at the handshake, as the answer to `server/discover`.
pub(crate) fn discover_result(initialize: &serde_json::Value) -> serde_json::Value {
    let mut result = json!({
        "resultType": "complete",
        "supportedVersions": SUPPORTED,
        "capabilities": tasks::modern_capabilities(initialize.get("capabilities")),
        "ttlMs": 0,
        "cacheScope": "private",
    });
    if let Some(object) = result.as_object_mut() {
        if let Some(info) = initialize.get("serverInfo") {
            object.insert("_meta".to_owned(), json!({ meta::SERVER_INFO: info }));
        }
        if let Some(instructions) = initialize.get("instructions") {
            object.insert("instructions".to_owned(), instructions.clone());
        }
    }
    result
}

/// What a modern server said to `server/discover`, as the answer to a legacy client's handshake.
pub(crate) fn initialize_result(discover: &serde_json::Value, revision: &str) -> serde_json::Value {
    let info = discover.get("_meta").and_then(|meta| meta.get(meta::SERVER_INFO));
    let mut result = json!({
        "protocolVersion": revision,
        "capabilities": tasks::legacy_capabilities(discover.get("capabilities"), revision),
        "serverInfo": info.cloned().unwrap_or_else(|| json!({ "name": "server", "version": "0" })),
    });
    if let (Some(object), Some(instructions)) =
        (result.as_object_mut(), discover.get("instructions"))
    {
        object.insert("instructions".to_owned(), instructions.clone());
    }
    result
}

/// What belongs to one era (its own kind of tasks) is not offered to clients of the other, which cannot ask
/// for it.
fn without(capabilities: Option<&serde_json::Value>, own: &str) -> serde_json::Value {
    let mut capabilities = capabilities.cloned().unwrap_or_else(|| json!({}));
    if let Some(object) = capabilities.as_object_mut() {
        object.remove(own);
    }
    capabilities
}

/// One question of a server inside a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// The server's name for it in `inputRequests`.
    pub(crate) key: String,
    pub(crate) method: String,
    /// Raw JSON.
    pub(crate) params: String,
}

/// The params of a modern server's question as a legacy client knows them: one that leads to an address
/// has an id there.
pub(crate) fn legacy_question(question: &Question, id: &Id) -> String {
    let raw = &question.params;
    match Doc::read(raw.as_bytes(), &Bounds::ANSWER) {
        Ok(doc)
            if question.method == "elicitation/create"
                && doc.root().get("mode").and_then(Value::as_str).as_deref() == Some("url")
                && doc.root().get("elicitationId").is_none() =>
        {
            rebuild::with(doc.root(), "elicitationId", id.raw().to_owned())
        }
        _ => raw.clone(),
    }
}

/// The params of a legacy server's question as a modern client knows them: one that leads to an address
/// has no id there.
pub(crate) fn modern_question(params: Value<'_>) -> String {
    match params.get("elicitationId") {
        Some(_) => rebuild::without(params, &["elicitationId"]),
        None => params.raw().to_owned(),
    }
}

/// A legacy server's error of this code names addresses that its user must open before it is called again.
pub(crate) const ADDRESS_NEEDED: &str = "-32042";

/// Whether some reader finds another code, or questions, in an error than the gate does: members that differ
/// from those of the protocol by case or folding only, or a code that is no plain whole number.
pub(crate) fn has_two_readings(error: Value<'_>) -> bool {
    let is_odd_code =
        |code: Value<'_>| code.as_number().is_some_and(|text| text.contains(['.', 'e', 'E']));
    if has_look_alike(error, &["code", "message", "data"])
        || error.get("code").is_some_and(is_odd_code)
    {
        return true;
    }
    // The message may have been read no deeper than this.
    let Some(data) = error.get("data").filter(|data| data.kind() == Kind::Object) else {
        return false;
    };
    Doc::read(data.raw().as_bytes(), &Bounds::ANSWER)
        .is_ok_and(|data| has_look_alike(data.root(), &["elicitations"]))
}

/// The same as an `input_required` result: one question for each address.
pub(crate) fn addresses(error: Value<'_>) -> String {
    let named = error.get("data").and_then(|data| data.get("elicitations"));
    let questions: Vec<Question> = named
        .into_iter()
        .flat_map(Value::items)
        .filter(|named| named.get("url").is_some_and(|url| url.kind() == Kind::String))
        .enumerate()
        .map(|(number, named)| Question {
            key: format!("address-{}", number + 1),
            method: "elicitation/create".to_owned(),
            params: rebuild::object(
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

/// An `input_required` result for what a legacy server asks.
pub(crate) fn input_required(questions: &[Question], state: &str) -> String {
    format!(
        "{{\"resultType\":\"input_required\",\"inputRequests\":{},\"requestState\":{}}}",
        input_requests(questions),
        string(state)
    )
}

fn input_requests(questions: &[Question]) -> String {
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
    fn a_modern_request_loses_only_what_a_legacy_server_cannot_know() {
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
    fn a_legacy_request_gains_the_words_of_its_client_and_keeps_its_own() {
        let client = ClientWords {
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
    fn results_cross_eras_and_back() {
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
    fn what_only_newer_clients_can_read_of_a_tool_is_put_as_older_ones_can() {
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
    fn a_question_that_leads_to_an_address_has_an_id_for_older_clients() {
        let cases = [
            (
                r#"{"mode":"url","url":"https://a"}"#,
                r#"{"mode":"url","url":"https://a","elicitationId":"ask-1"}"#,
            ),
            (r#"{"mode":"url","elicitationId":"e"}"#, r#"{"mode":"url","elicitationId":"e"}"#),
            (r#"{"message":"who?"}"#, r#"{"message":"who?"}"#),
        ];
        for (params, expected) in cases {
            let question = Question {
                key: "q".to_owned(),
                method: "elicitation/create".to_owned(),
                params: params.to_owned(),
            };
            assert_eq!(legacy_question(&question, &Id::minted("ask", 1)), expected);
        }
    }

    #[test]
    fn an_error_with_two_readings_is_told_from_an_ordinary_one() {
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
            assert_eq!(super::has_two_readings(doc.root()), expected, "{error}");
        }
    }

    #[test]
    fn questions_survive_the_round_trip() {
        let question = Question {
            key: "q\"1".to_owned(),
            method: "elicitation/create".to_owned(),
            params: r#"{"message":"who?"}"#.to_owned(),
        };
        let result = input_required(std::slice::from_ref(&question), "state");
        let doc = Doc::read(result.as_bytes(), &Bounds::ANSWER).unwrap();
        assert_eq!(super::questions(doc.root()), Some(vec![question]));
    }
}
