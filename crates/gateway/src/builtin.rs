//! Presents a connector's table of tools as an MCP server of both eras, without a process or a
//! socket.

mod blocking;
mod describe;
mod guidance;
mod progress;
mod unavailable;

use std::sync::{Arc, OnceLock};

use connectors::{
    Admitted, Answer, Caller, Connector, Contents, Effect, GateStores, LazyContext, NoContext,
    Tool, ToolCall, app,
};
use serde_json::{Map, Value, json};
use store::registry::{Origin, PolicyText};

pub(crate) use progress::{ProgressFeed, RunningCall};
pub use unavailable::UnavailableServer;

/// The name of the set with every tool.
const ALL_TOOLS: &str = "all";
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
/// The legacy code; the caller translates it for modern clients.
const RESOURCE_NOT_FOUND: i64 = -32002;
const INTERNAL_ERROR: i64 = -32603;

/// A service as a server: its visible tools and the connector context they run in.
pub(crate) struct Builtin {
    pub(crate) connector: &'static Connector,
    visible: Vec<&'static Tool>,
    ctx: Arc<LazyContext>,
    /// For the operator server only.
    gate: Option<Arc<GateStores>>,
    /// The serialized `tools/list` result, which never changes.
    tools: OnceLock<String>,
}

/// The caller of a built-in server and where progress of the call is reported.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) admitted: &'a Admitted,
    pub(crate) caller: &'a Caller,
    pub(crate) progress: Option<&'a ProgressFeed>,
    /// The client shows MCP Apps.
    pub(crate) shows_apps: bool,
}

/// A protocol error of a built-in server.
#[derive(Debug, PartialEq)]
pub(crate) struct RpcError {
    pub code: i64,
    pub message: String,
    pub data: Option<Value>,
}

impl RpcError {
    fn new(code: i64, message: impl Into<String>) -> RpcError {
        RpcError { code, message: message.into(), data: None }
    }
}

impl Builtin {
    /// `words` are names of sets or tools. An empty list selects the main set.
    pub(crate) fn new(
        connector: &'static Connector,
        selection: &[String],
        ctx: Arc<LazyContext>,
    ) -> Result<Builtin, String> {
        check_sets(connector, selection)?;
        let is_visible = |tool: &&Tool| match selection {
            [] => tool.set == connectors::MAIN_SET,
            selection => selection.iter().any(|argument| selects(connector, tool, argument)),
        };
        let visible = connector.tools.iter().filter(is_visible).collect();
        Ok(Builtin { connector, visible, ctx, gate: None, tools: OnceLock::new() })
    }

    /// Gives the stores of the gate to the operator server, and to no other.
    pub(crate) fn with_gate(self, gate: &Arc<GateStores>) -> Builtin {
        let gate = self.connector.needs_operator.then(|| Arc::clone(gate));
        Builtin { gate, ..self }
    }

    /// Name, capabilities and instructions of the service, as an initialize result.
    pub(crate) fn initialize_result(&self, revision: &str) -> Value {
        describe::initialize_result(self.connector, revision)
    }

    /// A caller with a session number of its own.
    pub(crate) fn new_caller(&self, grant: &str) -> Caller {
        Caller::in_session(grant, self.ctx.next_session())
    }

    /// Appends the result of one request to `out` as JSON text. The result is valid in both eras;
    /// the caller adds members that only one of them has.
    pub(crate) async fn answer(
        &self,
        call: &Call<'_>,
        method: &str,
        params: &Map<String, Value>,
        out: &mut Vec<u8>,
    ) -> Result<(), RpcError> {
        let result = match method {
            "tools/call" => return self.call(call, params, out).await,
            "tools/list" => self.tools().to_owned(),
            "initialize" => self.initialize(params).to_string(),
            "ping" | "logging/setLevel" => "{}".to_owned(),
            "resources/list" => describe::resources(self.connector, call.shows_apps).to_string(),
            "resources/templates/list" => describe::templates(self.connector).to_string(),
            "resources/read" => self.read(call, params).await?.to_string(),
            "prompts/list" => guidance::prompts(self.connector).to_string(),
            "prompts/get" => guidance::prompt(self.connector, params)?.to_string(),
            "skills/list" => guidance::skills(self.connector).to_string(),
            "skills/get" => guidance::skill(self.connector, params)?.to_string(),
            "resources/directory/read" => guidance::directory(self.connector, params)?.to_string(),
            _ => return Err(RpcError::new(METHOD_NOT_FOUND, "method not found")),
        };
        out.extend_from_slice(result.as_bytes());
        Ok(())
    }

    /// Whether a tool honours `aggregate_only`.
    pub(crate) fn aggregates(&self, tool: &str) -> bool {
        self.connector.tool(tool).is_some_and(|tool| tool.aggregates)
    }

    fn tools(&self) -> &str {
        self.tools.get_or_init(|| describe::tools(self.connector, &self.visible).to_string())
    }

    fn initialize(&self, params: &Map<String, Value>) -> Value {
        const NEWEST_WITH_HANDSHAKE: &str = "2025-11-25";
        const KNOWN: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", NEWEST_WITH_HANDSHAKE];
        let asked = params.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
        let known = KNOWN.iter().find(|known| **known == asked);
        self.initialize_result(known.unwrap_or(&NEWEST_WITH_HANDSHAKE))
    }

    async fn call(
        &self,
        call: &Call<'_>,
        params: &Map<String, Value>,
        out: &mut Vec<u8>,
    ) -> Result<(), RpcError> {
        let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
        let Some(tool) = self.visible.iter().find(|tool| tool.name == name) else {
            return Err(RpcError::new(INVALID_PARAMS, format!("Unknown tool: {name}")));
        };
        let none = Map::new();
        let arguments = params.get("arguments").and_then(Value::as_object).unwrap_or(&none);
        let mut drawing = None;
        let answer = match self.ctx.get() {
            Ok(ctx) => {
                let app = self.connector.app(name).filter(|_| call.shows_apps);
                drawing = app.and_then(|app| app.drawing(call.admitted, &ctx, arguments));
                let report = |step: connectors::sync::SyncProgress<'_>| {
                    if let Some(progress) = call.progress {
                        progress.record(step);
                    }
                };
                let on_progress: connectors::sync::OnProgress<'_> = &report;
                let tool_call = ToolCall {
                    ctx: &ctx,
                    caller: call.caller,
                    gate: self.gate.as_deref(),
                    on_progress: Some(on_progress),
                    // The permit decides.
                    bound: None,
                };
                run_tool(call.admitted, tool, tool_call, arguments).await
            }
            Err(NoContext::VaultLocked(locked)) => {
                locked.answer(call.admitted, self.connector, tool)
            }
            Err(NoContext::Failed(message)) => {
                Answer::Failed { code: "store_unavailable", message }
            }
        };
        match answer {
            Answer::Found(found) => {
                write_value(&found, false, out);
                if let Some(drawing) = drawing {
                    write_drawing(&drawing, out);
                }
            }
            Answer::Json(both) => {
                write_result(Text::Quoted(both.quoted()), Some(both.plain()), false, out);
            }
            Answer::Text { text, value } => {
                let structured = value.is_object().then(|| value.to_string());
                write_result(Text::Plain(&text), structured.as_deref(), false, out);
            }
            Answer::Failed { code, message } => write_failure(code, &message, out),
            Answer::Refused(value) => write_value(&value, true, out),
        }
        Ok(())
    }

    /// Whether a message calls a long-running tool that reports progress.
    pub(crate) fn reports_progress(&self, body: &[u8]) -> bool {
        let message: Value = serde_json::from_slice(body).unwrap_or_default();
        let name = message.pointer("/params/name").and_then(Value::as_str).unwrap_or_default();
        let is_long = |tool: &&&Tool| tool.name == name && tool.effect == Effect::Runs;
        message.get("method").and_then(Value::as_str) == Some("tools/call")
            && self.visible.iter().find(is_long).is_some()
    }

    async fn read(&self, call: &Call<'_>, params: &Map<String, Value>) -> Result<Value, RpcError> {
        let uri = params.get("uri").and_then(Value::as_str).unwrap_or_default();
        if let Some(app) = self.connector.apps.iter().find(|app| app.uri == uri) {
            let content = json!({ "uri": uri, "mimeType": app::MIME, "text": (app.page)() });
            return Ok(json!({ "contents": [content] }));
        }
        if let Some(file) = guidance::file(self.connector, uri) {
            return Ok(file);
        }
        let no_context = |why: NoContext| RpcError::new(INTERNAL_ERROR, why.to_string());
        let ctx = self.ctx.get().map_err(no_context)?;
        match connectors::read(call.admitted, &ctx, call.caller, self.connector, uri).await {
            Some((Contents::Text(text), mime)) => {
                Ok(json!({ "contents": [{ "uri": uri, "mimeType": mime, "text": text }] }))
            }
            Some((Contents::Missing, _)) | None => Err(RpcError {
                data: Some(json!({ "uri": uri })),
                ..RpcError::new(RESOURCE_NOT_FOUND, "Resource not found")
            }),
        }
    }
}

async fn run_tool(
    admitted: &Admitted,
    tool: &Tool,
    call: ToolCall<'_>,
    arguments: &Map<String, Value>,
) -> Answer {
    let working = connectors::run(admitted, tool, call, arguments);
    match tool.effect {
        // Syncs and exports run long, so other tasks of this thread move to another one.
        Effect::Runs => blocking::run(working).await,
        _ => working.await,
    }
}

/// A value as text. Only an object may also be structured content.
fn write_value(value: &Value, is_error: bool, out: &mut Vec<u8>) {
    let text = value.to_string();
    write_result(Text::Plain(&text), value.is_object().then_some(&text), is_error, out);
}

/// Adds the drawing for an app to a result that was written.
fn write_drawing(drawing: &str, out: &mut Vec<u8>) {
    if out.pop() == Some(b'}') {
        out.extend_from_slice(br#","_meta":{"#);
        policy::json::write_string(app::DRAWING, out);
        out.push(b':');
        policy::json::write_string(drawing, out);
        out.extend_from_slice(b"}}");
    }
}

fn write_failure(code: &str, message: &str, out: &mut Vec<u8>) {
    write_result(Text::Plain(&format!("{code}: {message}")), None, true, out);
}

/// The end of every failed tool result, and of no other result of ours.
const FAILURE_END: &str = r#","isError":true}"#;

pub(crate) fn is_failure(result: &[u8]) -> bool {
    result.ends_with(FAILURE_END.as_bytes())
}

/// Bytes around the texts of a result, including the end of the message and of its line.
const ENVELOPE_BYTES: usize = 256;

/// The text content of a result.
#[derive(Clone, Copy)]
enum Text<'a> {
    Plain(&'a str),
    /// Already escaped, as between the quotes of a JSON string.
    Quoted(&'a [u8]),
}

/// Writes the result directly, so that a long text is not parsed and serialized again. `structured`
/// is JSON.
fn write_result(text: Text<'_>, structured: Option<&str>, is_error: bool, out: &mut Vec<u8>) {
    let text_bytes = match text {
        Text::Plain(text) => text.len() + text.len() / 4,
        Text::Quoted(quoted) => quoted.len(),
    };
    out.reserve(text_bytes + structured.map_or(0, str::len) + ENVELOPE_BYTES);
    out.extend_from_slice(br#"{"content":[{"type":"text","text":"#);
    match text {
        Text::Plain(text) => policy::json::write_string(text, out),
        Text::Quoted(quoted) => {
            out.push(b'"');
            out.extend_from_slice(quoted);
            out.push(b'"');
        }
    }
    out.extend_from_slice(b"}]");
    if let Some(structured) = structured {
        out.extend_from_slice(br#","structuredContent":"#);
        out.extend_from_slice(structured.as_bytes());
    }
    out.extend_from_slice(if is_error { FAILURE_END } else { r#","isError":false}"# }.as_bytes());
}

fn selects(connector: &Connector, tool: &Tool, argument: &str) -> bool {
    argument == ALL_TOOLS || connector.selects(argument, tool)
}

/// Checks that each word names a set or a tool of the service. The error lists the sets.
pub fn check_sets(connector: &Connector, selection: &[String]) -> Result<(), String> {
    let unknown =
        |argument: &&String| !connector.tools.iter().any(|tool| selects(connector, tool, argument));
    let Some(argument) = selection.iter().find(unknown) else { return Ok(()) };
    let mut sets: Vec<&str> = Vec::new();
    for tool in connector.tools {
        if !sets.contains(&tool.set) {
            sets.push(tool.set);
        }
    }
    sets.extend(connector.profiles.iter().map(|profile| profile.name));
    sets.push(ALL_TOOLS);
    let (name, sets) = (connector.name(), sets.join("`, `"));
    Err(format!("`{name}` has no set of tools and no tool `{argument}`\nhint: sets are `{sets}`"))
}

/// The default policy of a service, used where the owner named none.
pub fn own_policy(connector: &Connector) -> Option<PolicyText> {
    connector.default_policy().map(|source| PolicyText {
        name: format!("{} (built in)", connector.name()),
        version: 0,
        sha256: catalog::pins::fingerprint_of_canonical(source).to_string(),
        format: policy::Format::Json,
        source: source.to_owned(),
        origin: Origin::File,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn shown(selection: &[&str]) -> Result<usize, String> {
        let selection: Vec<String> =
            selection.iter().map(|argument| (*argument).to_owned()).collect();
        let ctx = Arc::new(LazyContext::new(|| Err("no context here".to_owned())));
        let demo = connectors::connector("demo").unwrap();
        Ok(Builtin::new(demo, &selection, ctx)?.visible.len())
    }

    fn read(write: impl FnOnce(&mut Vec<u8>)) -> Value {
        let mut out = Vec::new();
        write(&mut out);
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn a_text_reads_back_unchanged_after_quoting() {
        let every_ascii: String = (0..=127_u8).map(char::from).collect();
        for text in ["", "plain", r#"{"a":"\"é😀"}"#, "\n\r\t\u{8}\u{c}\u{1f}\\", &every_ascii] {
            let result = read(|out| super::write_result(Text::Plain(text), Some("{}"), false, out));
            assert_eq!(result.pointer("/content/0/text"), Some(&Value::from(text)));
            assert_eq!(result.get("structuredContent"), Some(&json!({})));
            assert_eq!(result.get("isError"), Some(&Value::from(false)));
        }
    }

    #[test]
    fn arguments_select_sets_and_single_tools() {
        assert_eq!(shown(&[]), Ok(4));
        assert_eq!(shown(&["main"]), Ok(4));
        assert_eq!(shown(&["all"]), Ok(4));
        assert_eq!(shown(&["list_notes"]), Ok(1));
        assert_eq!(shown(&["list_notes", "add_note"]), Ok(2));
        let error = shown(&["clasic"]).unwrap_err();
        assert!(error.contains("`clasic`") && error.contains("`main`, `all`"), "{error}");
    }

    #[test]
    fn a_plain_value_is_not_structured_content() {
        let plain = read(|out| super::write_value(&json!(7), false, out));
        assert!(plain.get("structuredContent").is_none());
        assert_eq!(plain.pointer("/content/0/text"), Some(&json!("7")));
        let said = read(|out| write_result(Text::Plain("said"), Some(r#"{"a":1}"#), false, out));
        assert_eq!(said.pointer("/structuredContent/a"), Some(&json!(1)));
        assert_eq!(said.pointer("/content/0/text"), Some(&json!("said")));
    }

    #[test]
    fn the_demonstration_brings_no_policy_of_its_own() {
        assert!(own_policy(connectors::connector("demo").unwrap()).is_none());
        for connector in connectors::ALL.iter().filter(|connector| connector.is_owners()) {
            let text = own_policy(connector).unwrap();
            policy::Policy::load(&text.source, text.format).unwrap();
        }
    }
}
