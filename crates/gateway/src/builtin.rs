//! Shows a table of the connectors room as an MCP server, in both eras, without a process or a socket.

mod describe;
mod desk;
mod heavy;
mod told;

use std::sync::{Arc, OnceLock};

use connectors::{Admitted, Answer, Ask, Contents, Effect, Reader, Service, Tool};
use serde_json::{Map, Value, json};
use store::registry::{Origin, PolicyText};

pub use desk::{LazyDesk, NoDesk};
pub(crate) use told::{Told, Work};

/// A set of this name stands for every tool there is.
const ALL_TOOLS: &str = "all";
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
/// As the older era says it; the newer one is translated to.
const RESOURCE_NOT_FOUND: i64 = -32002;
const INTERNAL_ERROR: i64 = -32603;

/// A service as a server: the tools of it that are shown, and the desk it works at.
pub(crate) struct Builtin {
    pub(crate) service: &'static Service,
    shown: Vec<&'static Tool>,
    desk: Arc<LazyDesk>,
    /// The list of tools is the same every time.
    tools: OnceLock<String>,
}

/// Who asks a built-in server, and who hears how far it has come.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) admitted: &'a Admitted,
    pub(crate) reader: &'a Reader,
    pub(crate) told: Option<&'a Told>,
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
    /// `words` are names of sets or of tools; without any the usual ones are shown.
    pub(crate) fn new(
        service: &'static Service,
        words: &[String],
        desk: Arc<LazyDesk>,
    ) -> Result<Builtin, String> {
        check_sets(service, words)?;
        let is_shown = |tool: &&Tool| match words {
            [] => tool.set == connectors::MAIN_SET,
            words => words.iter().any(|word| is_of(service, tool, word)),
        };
        let shown = service.tools.iter().filter(is_shown).collect();
        Ok(Builtin { service, shown, desk, tools: OnceLock::new() })
    }

    /// What the service says about itself, in the shape of an initialize result.
    pub(crate) fn greeting(&self, revision: &str) -> Value {
        describe::greeting(self.service, revision)
    }

    /// The one reader at the other end of a new conversation.
    pub(crate) fn new_reader(&self, grant: &str) -> Reader {
        Reader::in_conversation(grant, self.desk.next_conversation())
    }

    /// Answers one request as the service's own server would: the result as JSON text, after what `out`
    /// holds. Both eras share the shapes; the caller adds what only one of them has.
    pub(crate) async fn answer(
        &self,
        call: &Call<'_>,
        method: &str,
        params: &Map<String, Value>,
        out: &mut Vec<u8>,
    ) -> Result<(), RpcError> {
        let found = match method {
            "tools/call" => return self.call(call, params, out).await,
            "tools/list" => self.tools().to_owned(),
            "initialize" => self.initialize(params).to_string(),
            "ping" | "logging/setLevel" => "{}".to_owned(),
            "resources/list" => describe::resources(self.service).to_string(),
            "resources/templates/list" => describe::templates(self.service).to_string(),
            "resources/read" => self.read(call, params).await?.to_string(),
            "prompts/list" => json!({ "prompts": [] }).to_string(),
            _ => return Err(RpcError::new(METHOD_NOT_FOUND, "method not found")),
        };
        out.extend_from_slice(found.as_bytes());
        Ok(())
    }

    fn tools(&self) -> &str {
        self.tools.get_or_init(|| describe::tools(&self.shown).to_string())
    }

    fn initialize(&self, params: &Map<String, Value>) -> Value {
        const NEWEST_WITH_HANDSHAKE: &str = "2025-11-25";
        const KNOWN: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", NEWEST_WITH_HANDSHAKE];
        let asked = params.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
        let known = KNOWN.iter().find(|known| **known == asked);
        self.greeting(known.unwrap_or(&NEWEST_WITH_HANDSHAKE))
    }

    async fn call(
        &self,
        call: &Call<'_>,
        params: &Map<String, Value>,
        out: &mut Vec<u8>,
    ) -> Result<(), RpcError> {
        let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
        let Some(tool) = self.shown.iter().find(|tool| tool.name == name) else {
            return Err(RpcError::new(INVALID_PARAMS, format!("Unknown tool: {name}")));
        };
        let none = Map::new();
        let arguments = params.get("arguments").and_then(Value::as_object).unwrap_or(&none);
        let answer = match self.desk.get() {
            Ok(desk) => {
                let hear = |step: connectors::sync::Step<'_>| {
                    if let Some(told) = call.told {
                        told.hear(step);
                    }
                };
                let told: connectors::sync::Told<'_> = &hear;
                let ask = Ask { desk: &desk, reader: call.reader, arguments, told: Some(told) };
                worked(call.admitted, tool, ask).await
            }
            Err(NoDesk::Locked(locked)) => locked.answer(call.admitted, self.service, tool),
            Err(NoDesk::Failed(words)) => Answer::Failed { code: "store_unavailable", words },
        };
        match answer {
            Answer::Found(found) => shown(&found, false, out),
            Answer::Written(both) => {
                result(Text::Quoted(both.quoted()), Some(both.plain()), false, out);
            }
            Answer::Said { text, value } => {
                let structured = value.is_object().then(|| value.to_string());
                result(Text::Plain(&text), structured.as_deref(), false, out);
            }
            Answer::Failed { code, words } => failed(code, &words, out),
            Answer::Refused(value) => shown(&value, true, out),
        }
        Ok(())
    }

    /// Whether a message calls a tool that may take long and can say how far it has come.
    pub(crate) fn tells_progress(&self, body: &[u8]) -> bool {
        let message: Value = serde_json::from_slice(body).unwrap_or_default();
        let name = message.pointer("/params/name").and_then(Value::as_str).unwrap_or_default();
        let is_long = |tool: &&&Tool| tool.name == name && tool.effect == Effect::Runs;
        message.get("method").and_then(Value::as_str) == Some("tools/call")
            && self.shown.iter().find(is_long).is_some()
    }

    async fn read(&self, call: &Call<'_>, params: &Map<String, Value>) -> Result<Value, RpcError> {
        let uri = params.get("uri").and_then(Value::as_str).unwrap_or_default();
        let no_desk = |why: NoDesk| RpcError::new(INTERNAL_ERROR, why.to_string());
        let desk = self.desk.get().map_err(no_desk)?;
        match connectors::read(call.admitted, &desk, call.reader, self.service, uri).await {
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

async fn worked(admitted: &Admitted, tool: &Tool, ask: Ask<'_>) -> Answer {
    let working = connectors::run(admitted, tool, ask);
    match tool.effect {
        // Syncs and exports work through much; others must get their turn meanwhile.
        Effect::Runs => heavy::in_long_steps(working).await,
        _ => working.await,
    }
}

/// A value as text, and structured as well: the protocol takes nothing but an object there.
fn shown(value: &Value, is_error: bool, out: &mut Vec<u8>) {
    let text = value.to_string();
    result(Text::Plain(&text), value.is_object().then_some(&text), is_error, out);
}

fn failed(code: &str, words: &str, out: &mut Vec<u8>) {
    result(Text::Plain(&format!("{code}: {words}")), None, true, out);
}

/// How the result of a tool that failed ends, and no other result of ours.
const FAILURE_END: &str = r#","isError":true}"#;

pub(crate) fn is_failure(result: &[u8]) -> bool {
    result.ends_with(FAILURE_END.as_bytes())
}

/// For what stands around texts in a result, and for the end of the message and of its line.
const ROOM_BYTES: usize = 256;

/// What a result says in words.
#[derive(Clone, Copy)]
enum Text<'a> {
    Plain(&'a str),
    /// As it stands between the quotes of a JSON string.
    Quoted(&'a [u8]),
}

/// Put together as text, because a long answer should not be taken apart again to be written.
/// `structured` is JSON already.
fn result(text: Text<'_>, structured: Option<&str>, is_error: bool, out: &mut Vec<u8>) {
    let text_bytes = match text {
        Text::Plain(text) => text.len() + text.len() / 4,
        Text::Quoted(quoted) => quoted.len(),
    };
    out.reserve(text_bytes + structured.map_or(0, str::len) + ROOM_BYTES);
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

fn is_of(service: &Service, tool: &Tool, word: &str) -> bool {
    word == ALL_TOOLS || service.means(word, tool)
}

/// Whether each word names a set or a tool of the service; otherwise what there is.
pub fn check_sets(service: &Service, words: &[String]) -> Result<(), String> {
    let unknown = |word: &&String| !service.tools.iter().any(|tool| is_of(service, tool, word));
    let Some(word) = words.iter().find(unknown) else { return Ok(()) };
    let mut sets: Vec<&str> = Vec::new();
    for tool in service.tools {
        if !sets.contains(&tool.set) {
            sets.push(tool.set);
        }
    }
    if service.name == connectors::personal::NAME {
        sets.extend(connectors::Profile::ALL.map(connectors::Profile::name));
    }
    sets.push(ALL_TOOLS);
    let (service, sets) = (service.name, sets.join("`, `"));
    Err(format!("`{service}` has no set of tools and no tool `{word}`\nhint: sets are `{sets}`"))
}

/// The policy that a service brings along, for where the owner named none. Only one that shows what is
/// the owner's has one: its reads are what it was connected for.
pub fn own_policy(service: &Service) -> Option<PolicyText> {
    service.is_owners().then(|| PolicyText {
        name: format!("{} (built in)", service.name),
        version: 0,
        sha256: catalog::pins::fingerprint_of_canonical(service.policy).to_string(),
        format: policy::Format::Json,
        source: service.policy.to_owned(),
        origin: Origin::File,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn shown(words: &[&str]) -> Result<usize, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let desk = Arc::new(LazyDesk::new(|| Err("no desk here".to_owned())));
        let demo = connectors::service("demo").unwrap();
        Ok(Builtin::new(demo, &words, desk)?.shown.len())
    }

    fn read(write: impl FnOnce(&mut Vec<u8>)) -> Value {
        let mut out = Vec::new();
        write(&mut out);
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn a_text_is_quoted_so_that_it_reads_back_as_it_was() {
        let every_ascii: String = (0..=127_u8).map(char::from).collect();
        for text in ["", "plain", r#"{"a":"\"é😀"}"#, "\n\r\t\u{8}\u{c}\u{1f}\\", &every_ascii] {
            let result = read(|out| super::result(Text::Plain(text), Some("{}"), false, out));
            assert_eq!(result.pointer("/content/0/text"), Some(&Value::from(text)));
            assert_eq!(result.get("structuredContent"), Some(&json!({})));
            assert_eq!(result.get("isError"), Some(&Value::from(false)));
        }
    }

    #[test]
    fn words_choose_sets_and_single_tools() {
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
        let plain = read(|out| super::shown(&json!(7), false, out));
        assert!(plain.get("structuredContent").is_none());
        assert_eq!(plain.pointer("/content/0/text"), Some(&json!("7")));
        let said = read(|out| result(Text::Plain("said"), Some(r#"{"a":1}"#), false, out));
        assert_eq!(said.pointer("/structuredContent/a"), Some(&json!(1)));
        assert_eq!(said.pointer("/content/0/text"), Some(&json!("said")));
    }

    #[test]
    fn the_demonstration_brings_no_policy_of_its_own() {
        assert!(own_policy(connectors::service("demo").unwrap()).is_none());
        for service in connectors::ALL.iter().filter(|service| service.is_owners()) {
            let text = own_policy(service).unwrap();
            policy::Policy::load(&text.source, text.format).unwrap();
        }
    }
}
