//! Pins the pages of MCP Apps: what a server returns for a `ui://` resource is code that runs in the client's
//! sandbox and calls tools, so a changed page is refused like a changed tool.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use policy::json::{Bounds, Doc, Kind, Value};
use policy::{Code, Denial, OnChange, Subject};
use store::registry::PinState;

use crate::exchange::call::{IncomingRequest, OwnedSubject};
use crate::exchange::in_flight::InFlightCall;
use crate::exchange::names;
use crate::snapshot::ServerAccess;
use crate::upstream::lists::List;
use mcp::ProtocolError;
use mcp::edit::{self, Member, string};

/// The scheme of the pages.
const SCHEME: &str = "ui://";

impl InFlightCall {
    /// The page that the call reads, if its content must be as accepted. A built-in server is as trusted as the
    /// gate.
    pub(in crate::exchange) fn pinned_page(&self) -> Option<&str> {
        let Some(OwnedSubject::Resource(uri)) = &self.request.subject else { return None };
        let is_read = self.method == "resources/read" && uri.starts_with(SCHEME);
        (is_read && !self.peer.server.is_builtin()).then_some(uri)
    }

    /// Refuses a page that differs from the accepted one, unless the policy allows changes.
    pub(in crate::exchange) fn check_page(&self, result: Value<'_>) -> Result<(), Denial> {
        let (Some(uri), Some(contents)) = (self.pinned_page(), result.get("contents")) else {
            return Ok(());
        };
        let server = &self.peer.server;
        let state = if server.is_registered {
            let services = self.context.services();
            let now_us = services.clock.now().wall_us;
            services.registry.observe_content(&server.name, uri, &page(contents), now_us)
        } else {
            Ok(server.observe_page(uri, &page(contents)))
        };
        let policy = self.rules.as_ref().map(|rules| &rules.policy);
        let on_change = policy.map(|policy| policy.on_change(Subject::Resource(uri)));
        let reason = match state {
            Ok(PinState::Accepted) => return Ok(()),
            Ok(_) if on_change.is_some_and(|on_change| on_change != OnChange::Refuse) => {
                return Ok(());
            }
            Ok(PinState::New) => "the server has more pages than the gate pins",
            Ok(_) => "the page differs from the one that the owner accepted",
            Err(error) => {
                tracing::error!(server = %server.name, %error, "cannot store the pin of a page; it is refused");
                "the pin of the page cannot be stored"
            }
        };
        tracing::warn!(server = %server.name, uri, reason, "refused a page; see `tollgate server pins`");
        Err(Denial::new(Code::ToolChanged, self.request.entry_rule(), reason))
    }
}

/// The server whose tools name this page. Hosts find pages by tools: servers need not list them. A page that
/// several servers claim is refused, because one server's app would get the data of another.
pub(in crate::exchange) fn owner<'a>(
    incoming: &'a IncomingRequest<'_>,
    uri: &str,
) -> Result<Option<&'a ServerAccess>, ProtocolError> {
    if !uri.starts_with(SCHEME) {
        return Ok(None);
    }
    let owners: Vec<&ServerAccess> = incoming
        .context
        .grantee
        .accesses
        .values()
        .filter(|access| access.shows(Subject::Resource(uri)) && names_page(incoming, access, uri))
        .collect();
    only_owner(&owners, |servers| format!("tools of {servers} have this page"))
        .map_err(|error| error.with_id(&incoming.request.id))
}

/// The only one of these servers, if there is any. Several are refused with their names and `claim`.
pub(in crate::exchange) fn only_owner<'a>(
    owners: &[&'a ServerAccess],
    claim: impl FnOnce(String) -> String,
) -> Result<Option<&'a ServerAccess>, ProtocolError> {
    match owners {
        [] => Ok(None),
        [only] => Ok(Some(only)),
        several => {
            let names = several.iter().map(|access| format!("`{}`", access.server.name));
            let claim = claim(names.collect::<Vec<_>>().join(" and "));
            let hint = "so it is ambiguous here; read it at `/mcp/<server>`";
            Err(ProtocolError::params(format!("{claim}, {hint}")))
        }
    }
}

/// Whether a tool that the grant sees has this page, under the current key or the older one.
fn names_page(incoming: &IncomingRequest<'_>, access: &ServerAccess, uri: &str) -> bool {
    let (pins, skills) = (access.server.pins(), access.server.skills());
    let view = names::view(incoming, access, &pins, &skills);
    pins.offered(view.set).iter().filter(|text| text.contains(uri)).any(|text| {
        let Ok(doc) = Doc::read(text.as_bytes(), &Bounds::ANSWER) else { return false };
        let Some(meta) = doc.root().get("_meta") else { return false };
        let nested = meta.get("ui").and_then(|ui| ui.get("resourceUri"));
        let named = nested.or_else(|| meta.get("ui/resourceUri")).and_then(Value::as_str);
        named.as_deref() == Some(uri) && view.item(List::Tools, doc.root()).is_some()
    })
}

/// The contents as they are pinned, in canonical form: with everything that the client uses, and text instead
/// of base64, so that a difference is readable.
fn page(contents: Value<'_>) -> String {
    let items: Vec<String> = contents.items().map(readable).collect();
    let text = match items.as_slice() {
        [only] => only.clone(),
        several => format!("{{\"contents\":{}}}", edit::array(several.iter().cloned())),
    };
    match Doc::read(text.as_bytes(), &Bounds::ANSWER) {
        Ok(doc) => catalog::pins::canonical_definition(doc.root()),
        // Cannot fail: this code wrote it.
        Err(_) => text,
    }
}

fn readable(item: Value<'_>) -> String {
    if item.kind() != Kind::Object {
        return item.raw().to_owned();
    }
    let decoded =
        |value: Value<'_>| String::from_utf8(STANDARD.decode(&*value.as_str()?).ok()?).ok();
    edit::object(
        item,
        |key, value| match decoded(value).filter(|_| key == "blob") {
            Some(text) => Member::Replace(string(&text)),
            None => Member::Keep,
        },
        &[],
    )
}
