//! Which era a message is of, and whether its headers say the same as its body. The body is the truth;
//! headers may only repeat it.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use policy::json::{Kind, Value, write_string};

use super::field;
use super::message::Message;
use super::method::Method;
use super::params::meta_keys;
use super::refused::{Refused, code};
use super::revision::{Era, Revision};

pub const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub const METHOD: HeaderName = HeaderName::from_static("mcp-method");
pub const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// An asked version longer than this is not repeated in the answer.
const ECHOED_BYTES_MAX: usize = 64;

/// The era of a message that came without headers, by its body alone. A message that claims a modern
/// revision must claim it fully, and one of `supported`.
pub fn era_of_body(message: &Message<'_>, supported: &[Revision]) -> Result<Era, Refused> {
    let judged = match claim(message) {
        Claim::None => Ok(Era::Legacy),
        claim => check_claim(message, &claim).and_then(|()| supported_claim(&claim, supported)),
    };
    judged.map_err(|refused| with_id_of(message, refused))
}

/// The era of a message that was posted, once its headers are found to repeat its body.
pub fn era_of_post(
    message: &Message<'_>,
    headers: &HeaderMap,
    supported: &[Revision],
) -> Result<Era, Refused> {
    let judged = Posted::of(headers).and_then(|posted| posted.judge(message, supported));
    judged.map_err(|refused| with_id_of(message, refused))
}

/// The headers that repeat a modern request's body.
pub fn standard_headers(
    method_name: &str,
    params: Option<Value<'_>>,
    revision: Revision,
) -> Vec<(HeaderName, HeaderValue)> {
    let mut headers = vec![
        (PROTOCOL_VERSION, HeaderValue::from_static(revision.as_str())),
        (METHOD, field::encode(method_name)),
    ];
    if let Some(name) = mirrored_name(Method::parse(method_name), params) {
        headers.push((NAME, field::encode(&name)));
    }
    headers
}

/// The member of params that `Mcp-Name` repeats.
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

/// The revision that a body claims for itself.
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

/// A request that claims a revision must say what its client can do; a notification only claims.
fn check_claim(message: &Message<'_>, claim: &Claim) -> Result<(), Refused> {
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

fn bad_meta(key: &str, problem: &str) -> Refused {
    Refused::new(400, code::INVALID_PARAMS, format!("`{key}` in `_meta` {problem}"))
}

fn supported_claim(claim: &Claim, supported: &[Revision]) -> Result<Era, Refused> {
    let Claim::Version(version) = claim else { return Ok(Era::Legacy) };
    let known = supported
        .iter()
        .any(|revision| revision.era() == Era::Modern && revision.as_str() == version.as_str());
    if known { Ok(Era::Modern) } else { Err(unsupported_version(Some(version), supported)) }
}

/// The answer to a version that is not served, naming those that are.
pub fn unsupported_version(asked: Option<&str>, supported: &[Revision]) -> Refused {
    let listed: Vec<String> = supported.iter().map(|revision| format!("\"{revision}\"")).collect();
    let mut data = format!("{{\"supported\":[{}]", listed.join(",")).into_bytes();
    if let Some(asked) = asked.filter(|asked| asked.len() <= ECHOED_BYTES_MAX) {
        data.extend_from_slice(b",\"requested\":");
        write_string(asked, &mut data);
    }
    data.push(b'}');
    let words = "this protocol version is not supported; see `data.supported`";
    Refused::new(400, code::UNSUPPORTED_VERSION, words)
        .with_data(String::from_utf8(data).unwrap_or_default())
}

fn with_id_of(message: &Message<'_>, refused: Refused) -> Refused {
    match message {
        Message::Request(request) => refused.with_id(&request.id),
        _ => refused,
    }
}

/// The standard headers of a post.
struct Posted<'h> {
    version: Option<&'h str>,
    method: Option<&'h str>,
    name: Option<&'h str>,
}

impl<'h> Posted<'h> {
    fn of(headers: &'h HeaderMap) -> Result<Posted<'h>, Refused> {
        Ok(Posted {
            version: field::single(headers, PROTOCOL_VERSION.as_str())?,
            method: field::single(headers, METHOD.as_str())?,
            name: field::single(headers, NAME.as_str())?,
        })
    }

    fn is_modern(&self) -> bool {
        self.version.is_some_and(|version| Era::of_version(version) == Era::Modern)
    }

    fn judge(&self, message: &Message<'_>, supported: &[Revision]) -> Result<Era, Refused> {
        match (claim(message), message) {
            (Claim::None, Message::Response(_)) if self.is_modern() => {
                Err(Refused::invalid("this revision has no responses from clients"))
            }
            (Claim::None, _) if !self.is_modern() => self.judge_legacy(message),
            (Claim::None, Message::Request(request)) if request.method == Method::Initialize => {
                Err(Refused::mismatch(
                    "`initialize` belongs to revisions before the one in the header",
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

    fn judge_legacy(&self, message: &Message<'_>) -> Result<Era, Refused> {
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
    ) -> Result<Era, Refused> {
        check_claim(message, claim)?;
        if let (Some(header), Claim::Version(body)) = (self.version, claim)
            && header != body
        {
            return Err(Refused::mismatch("the header and the body name different versions"));
        }
        self.repeats(message)?;
        let era = supported_claim(claim, supported)?;
        if matches!(message, Message::Request(_)) {
            self.all_there(message)?;
        }
        Ok(era)
    }

    /// What was sent repeats the body. Older revisions do not know these headers, but one that
    /// contradicts the body is never right.
    fn repeats(&self, message: &Message<'_>) -> Result<(), Refused> {
        if self.method.is_some_and(|method| Some(method) != message.method_name()) {
            return Err(Refused::mismatch("`Mcp-Method` and the method of the body disagree"));
        }
        let Some(name) = self.name else { return Ok(()) };
        let Some(name) = field::decode(name) else {
            return Err(Refused::mismatch("the base64 of `Mcp-Name` is broken"));
        };
        let method = message.method().unwrap_or(Method::Other);
        match mirrored_name(method, message.params()) {
            Some(body) if body != name => {
                Err(Refused::mismatch("`Mcp-Name` and the name in the body disagree"))
            }
            _ => Ok(()),
        }
    }

    fn all_there(&self, message: &Message<'_>) -> Result<(), Refused> {
        let missing = |name: &str| Refused::mismatch(format!("the header `{name}` is missing"));
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
