//! The era of a message, and the check that its headers match its body. The body is authoritative.

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use policy::json::{Kind, Value, write_string};

use crate::error::{ProtocolError, code};
use crate::header_value;
use crate::message::Message;
use crate::method::Method;
use crate::params::meta_keys;
use crate::revision::{Era, Revision};

pub const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub const METHOD: HeaderName = HeaderName::from_static("mcp-method");
pub const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// A longer requested version is not echoed in the error.
const ECHOED_BYTES_MAX: usize = 64;

/// The era of a message without headers. A message that claims a modern revision must do so
/// completely, and claim one of `supported`.
pub fn era_of_body(message: &Message<'_>, supported: &[Revision]) -> Result<Era, ProtocolError> {
    let judged = match claim(message) {
        Claim::None => Ok(Era::Legacy),
        claim => check_claim(message, &claim).and_then(|()| supported_claim(&claim, supported)),
    };
    judged.map_err(|refused| with_id_of(message, refused))
}

/// The era of a posted message, after the check that its headers match its body.
pub fn era_of_post(
    message: &Message<'_>,
    headers: &HeaderMap,
    supported: &[Revision],
) -> Result<Era, ProtocolError> {
    let judged = Posted::of(headers).and_then(|posted| posted.judge(message, supported));
    judged.map_err(|refused| with_id_of(message, refused))
}

/// The headers that mirror the body of a modern request.
pub fn standard_headers(
    method_name: &str,
    params: Option<Value<'_>>,
    revision: Revision,
) -> Vec<(HeaderName, HeaderValue)> {
    let mut headers = vec![
        (PROTOCOL_VERSION, HeaderValue::from_static(revision.as_str())),
        (METHOD, header_value::encode(method_name)),
    ];
    if let Some(name) = mirrored_name(Method::parse(method_name), params) {
        headers.push((NAME, header_value::encode(&name)));
    }
    headers
}

/// The member of params that `Mcp-Name` mirrors.
const fn mirrored_member(method: Method) -> Option<&'static str> {
    match method {
        Method::ToolsCall | Method::PromptsGet => Some("name"),
        Method::ResourcesRead => Some("uri"),
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel => Some("taskId"),
        _ => None,
    }
}

fn mirrored_name(method: Method, params: Option<Value<'_>>) -> Option<String> {
    let name = params?.get(mirrored_member(method)?)?.as_str()?;
    Some(name.into_owned())
}

/// The revision that a body claims.
enum Claim {
    None,
    NotText,
    Version(String),
}

fn claim(message: &Message<'_>) -> Claim {
    let meta = message.params().and_then(|params| params.get("_meta"));
    match meta.and_then(|meta| meta.get(meta_keys::PROTOCOL_VERSION)) {
        None => Claim::None,
        Some(version) => {
            version.as_str().map_or(Claim::NotText, |version| Claim::Version(version.into_owned()))
        }
    }
}

/// A request that claims a revision must also declare its client's capabilities.
fn check_claim(message: &Message<'_>, claim: &Claim) -> Result<(), ProtocolError> {
    if matches!(claim, Claim::NotText) {
        return Err(bad_meta(meta_keys::PROTOCOL_VERSION, "must be a string"));
    }
    let Message::Request(request) = message else { return Ok(()) };
    let meta = |key: &str| request.meta().and_then(|meta| meta.get(key));
    match meta(meta_keys::CLIENT_CAPABILITIES).map(Value::kind) {
        Some(Kind::Object) => {}
        Some(_) => return Err(bad_meta(meta_keys::CLIENT_CAPABILITIES, "must be an object")),
        None => return Err(bad_meta(meta_keys::CLIENT_CAPABILITIES, "is missing")),
    }
    if meta(meta_keys::CLIENT_INFO).is_some_and(|info| info.kind() != Kind::Object) {
        return Err(bad_meta(meta_keys::CLIENT_INFO, "must be an object"));
    }
    if meta(meta_keys::LOG_LEVEL).is_some_and(|level| level.kind() != Kind::String) {
        return Err(bad_meta(meta_keys::LOG_LEVEL, "must be a string"));
    }
    Ok(())
}

fn bad_meta(key: &str, problem: &str) -> ProtocolError {
    ProtocolError::new(400, code::INVALID_PARAMS, format!("`{key}` in `_meta` {problem}"))
}

fn supported_claim(claim: &Claim, supported: &[Revision]) -> Result<Era, ProtocolError> {
    let Claim::Version(version) = claim else { return Ok(Era::Legacy) };
    let known = supported
        .iter()
        .any(|revision| revision.era() == Era::Modern && revision.as_str() == version.as_str());
    if known { Ok(Era::Modern) } else { Err(unsupported_version(Some(version), supported)) }
}

/// The error for an unsupported version, with the supported ones.
pub fn unsupported_version(asked: Option<&str>, supported: &[Revision]) -> ProtocolError {
    let listed: Vec<String> = supported.iter().map(|revision| format!("\"{revision}\"")).collect();
    let mut data = format!("{{\"supported\":[{}]", listed.join(",")).into_bytes();
    if let Some(asked) = asked.filter(|asked| asked.len() <= ECHOED_BYTES_MAX) {
        data.extend_from_slice(b",\"requested\":");
        write_string(asked, &mut data);
    }
    data.push(b'}');
    let words = "this protocol version is not supported; see `data.supported`";
    ProtocolError::new(400, code::UNSUPPORTED_VERSION, words)
        .with_data(String::from_utf8(data).unwrap_or_default())
}

fn with_id_of(message: &Message<'_>, refused: ProtocolError) -> ProtocolError {
    match message {
        Message::Request(request) => refused.with_id(&request.id),
        _ => refused,
    }
}

/// The standard headers of a POST.
struct Posted<'h> {
    version: Option<&'h str>,
    method: Option<&'h str>,
    name: Option<&'h str>,
}

impl<'h> Posted<'h> {
    fn of(headers: &'h HeaderMap) -> Result<Posted<'h>, ProtocolError> {
        Ok(Posted {
            version: header_value::single(headers, PROTOCOL_VERSION.as_str())?,
            method: header_value::single(headers, METHOD.as_str())?,
            name: header_value::single(headers, NAME.as_str())?,
        })
    }

    fn is_modern(&self) -> bool {
        self.version.is_some_and(|version| Era::of_version(version) == Era::Modern)
    }

    fn judge(&self, message: &Message<'_>, supported: &[Revision]) -> Result<Era, ProtocolError> {
        match (claim(message), message) {
            (Claim::None, Message::Response(_)) if self.is_modern() => {
                Err(ProtocolError::invalid("this revision has no responses from clients"))
            }
            (Claim::None, _) if !self.is_modern() => self.judge_legacy(message),
            (Claim::None, Message::Request(request)) if request.method == Method::Initialize => {
                Err(ProtocolError::mismatch(
                    "`initialize` does not exist in the revision of the header",
                ))
            }
            (Claim::None, Message::Request(_)) => {
                Err(bad_meta(meta_keys::PROTOCOL_VERSION, "is missing"))
            }
            (Claim::None, _) => {
                self.repeats(message)?;
                let version = self.version.unwrap_or_default().to_owned();
                supported_claim(&Claim::Version(version), supported)
            }
            (claim, _) => self.judge_modern(message, &claim, supported),
        }
    }

    fn judge_legacy(&self, message: &Message<'_>) -> Result<Era, ProtocolError> {
        self.repeats(message)?;
        let opens = message.method() == Some(Method::Initialize);
        let known = self.version.is_none_or(|version| Revision::parse(version).is_some());
        if opens || known {
            return Ok(Era::Legacy);
        }
        Err(unsupported_version(self.version, &Revision::ALL))
    }

    fn judge_modern(
        &self,
        message: &Message<'_>,
        claim: &Claim,
        supported: &[Revision],
    ) -> Result<Era, ProtocolError> {
        check_claim(message, claim)?;
        if let (Some(header), Claim::Version(body)) = (self.version, claim)
            && header != body
        {
            return Err(ProtocolError::mismatch("header and body name different versions"));
        }
        self.repeats(message)?;
        let era = supported_claim(claim, supported)?;
        if matches!(message, Message::Request(_)) {
            self.all_there(message)?;
        }
        Ok(era)
    }

    /// Checks that the headers match the body. Legacy revisions do not know these headers, but a
    /// contradiction is always an error.
    fn repeats(&self, message: &Message<'_>) -> Result<(), ProtocolError> {
        if self.method.is_some_and(|method| Some(method) != message.method_name()) {
            return Err(ProtocolError::mismatch(
                "`Mcp-Method` does not match the method of the body",
            ));
        }
        let Some(name) = self.name else { return Ok(()) };
        let Some(name) = header_value::decode(name) else {
            return Err(ProtocolError::mismatch("the base64 of `Mcp-Name` is invalid"));
        };
        let method = message.method().unwrap_or(Method::Other);
        match mirrored_name(method, message.params()) {
            Some(body) if body != name => {
                Err(ProtocolError::mismatch("`Mcp-Name` does not match the name in the body"))
            }
            _ => Ok(()),
        }
    }

    fn all_there(&self, message: &Message<'_>) -> Result<(), ProtocolError> {
        let missing =
            |name: &str| ProtocolError::mismatch(format!("the header `{name}` is missing"));
        if self.version.is_none() {
            return Err(missing("MCP-Protocol-Version"));
        }
        if self.method.is_none() {
            return Err(missing("Mcp-Method"));
        }
        let method = message.method().unwrap_or(Method::Other);
        if self.name.is_none() && mirrored_name(method, message.params()).is_some() {
            return Err(missing("Mcp-Name"));
        }
        Ok(())
    }
}
