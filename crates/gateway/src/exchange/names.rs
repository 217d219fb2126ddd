//! Which tool or prompt a client's name means: a listed name, the older `server.name`, or a name that only one
//! server of the grant shows. Nothing here reveals what the policy hides.

use policy::json::{Bounds, Doc};

use crate::exchange::aggregate::{self, MergedItem, cached_lists};
use crate::exchange::call::IncomingRequest;
use crate::exchange::connect;
use crate::exchange::context::RequestContext;
use crate::runtime::offload::LARGE_TO_EDIT_BYTES;
use crate::snapshot::ServerAccess;
use crate::upstream::lists::{List, ListView, renamed};
use crate::upstream::pins::Pins;
use crate::upstream::skills::SkillBook;
use mcp::listed_names::{self, ItemName};
use mcp::{Named, ProtocolError};

/// The server that a name means at the endpoint of all servers, and its own name there.
pub(crate) async fn find<'a>(
    incoming: &'a IncomingRequest<'_>,
    list: List,
    name: &str,
) -> Result<Option<(&'a ServerAccess, String)>, ProtocolError> {
    let context = incoming.context;
    let is_server = |server: &str| context.access(server).is_some();
    if let Some(item) = listed_names::by_prefix(name, is_server) {
        return Ok(context.access(item.server).map(|access| (access, item.own.to_owned())));
    }
    let found = Box::pin(without_prefix(incoming, list, name)).await;
    let items: Vec<ItemName<'_>> = found.iter().map(|(access, own)| item(access, own)).collect();
    match listed_names::meant(name, &items).as_slice() {
        [] => Ok(None),
        [only] => Ok(context.access(only.server).map(|access| (access, only.own.to_owned()))),
        several => Err(ambiguous(name, several).with_id(&incoming.request.id)),
    }
}

/// A server's own name for what a client named at the server's endpoint, if the names there are mapped and the
/// two differ.
pub(crate) async fn own_name(
    incoming: &IncomingRequest<'_>,
    access: &ServerAccess,
    named: &Named<'_>,
) -> Option<String> {
    let (list, name) = match named {
        Named::Tool(name) => (List::Tools, name),
        Named::Prompt(name) => (List::Prompts, name),
        Named::Resource(_) | Named::Task(_) | Named::Nothing => return None,
    };
    if !listed_names::is_short(name) {
        return None;
    }
    let is_meant = |own: &str| listed_names::mapped(own) == **name;
    let mut found = shown(incoming, access, list, is_meant).await.into_iter();
    // Two names with one hash: neither is meant.
    found.next().filter(|own| found.next().is_none() && own != name)
}

fn item<'a>(access: &'a ServerAccess, own: &'a str) -> ItemName<'a> {
    ItemName { server: &access.server.name, own }
}

/// The shown items that a name without a server's prefix may mean.
async fn without_prefix<'a>(
    incoming: &'a IncomingRequest<'_>,
    list: List,
    name: &str,
) -> Vec<(&'a ServerAccess, String)> {
    let searches = incoming.context.grantee.accesses.values().map(|access| async move {
        let is_meant = |own: &str| listed_names::may_mean(name, item(access, own));
        (access, shown(incoming, access, list, is_meant).await)
    });
    let found = aggregate::join_all(searches).await.into_iter();
    found.flat_map(|(access, own)| own.into_iter().map(move |own| (access, own))).collect()
}

/// The names of a server's items that are meant and that the grant may see.
async fn shown(
    incoming: &IncomingRequest<'_>,
    access: &ServerAccess,
    list: List,
    is_meant: impl Fn(&str) -> bool,
) -> Vec<String> {
    if access.rules.is_none() {
        return Vec::new();
    }
    let server = &access.server;
    let is_known = list == List::Tools && server.pins().is_known();
    let items =
        if is_known { None } else { cached_lists::items(incoming, access, list).await.ok() };
    let (pins, skills) = (server.pins(), server.skills());
    let view = view(incoming, access, &pins, &skills);
    let is_shown = |definition: &str| {
        Doc::read(definition.as_bytes(), &Bounds::ANSWER)
            .is_ok_and(|doc| view.item(list, doc.root()).is_some())
    };
    if list == List::Tools {
        let mut names = pins.names();
        names.retain(|own| {
            is_meant(own) && pins.offered_as(own, view.set).iter().any(|text| is_shown(text))
        });
        return names;
    }
    let mut names: Vec<String> = items
        .iter()
        .flat_map(|items| items.iter())
        .filter_map(|text| {
            let own = aggregate::member(text, list.key())?;
            (is_meant(&own) && is_shown(text)).then_some(own)
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

/// A server's items as the client may see them, under the server's own names.
pub(in crate::exchange) fn view<'a>(
    incoming: &IncomingRequest<'_>,
    access: &'a ServerAccess,
    pins: &'a Pins,
    skills: &'a SkillBook,
) -> ListView<'a> {
    ListView {
        skills,
        policy: access.rules.as_ref().map(|rules| &rules.policy),
        pins,
        set: connect::capabilities_at(
            incoming.context,
            &access.server,
            incoming.client_capabilities,
        ),
        mask: access.server.mask(),
        is_builtin: access.server.is_builtin(),
        is_mapped: false,
    }
}

/// The items of a merged list under their listed names. An item that cannot be called is left out.
pub(in crate::exchange) async fn rename_all(
    context: &RequestContext,
    mut items: Vec<MergedItem<'_>>,
) -> Vec<String> {
    items.retain(|item| mcp::can_be_sent(&item.own));
    let named: Vec<ItemName<'_>> =
        items.iter().map(|item| ItemName { server: item.server, own: &item.own }).collect();
    let is_server = |server: &str| context.access(server).is_some();
    let names = listed_names::list_names(&named, context.grantee.prefix, is_server);
    let mut definitions = Vec::with_capacity(items.len());
    let mut turn_bytes = 0;
    for (item, name) in items.iter().zip(names) {
        let Some(name) = name else {
            tracing::warn!(
                server = item.server,
                name = item.own,
                "left out of the list: another item has the same listed name"
            );
            continue;
        };
        turn_bytes += item.definition.len();
        if turn_bytes > LARGE_TO_EDIT_BYTES {
            turn_bytes = 0;
            tokio::task::yield_now().await;
        }
        definitions.push(renamed(&item.definition, &name));
    }
    definitions
}

/// Names only what the grant may see.
fn ambiguous(name: &str, items: &[ItemName<'_>]) -> ProtocolError {
    let listed = |item: &ItemName<'_>| {
        let full = listed_names::listed(*item);
        // Two items with one listed name have only their older ones.
        if full == name { format!("`{}.{}`", item.server, item.own) } else { format!("`{full}`") }
    };
    let names: Vec<String> = items.iter().map(listed).collect();
    ProtocolError::params(format!(
        "`{name}` is ambiguous: {} servers have it; use {}",
        items.len(),
        names.join(" or ")
    ))
}
