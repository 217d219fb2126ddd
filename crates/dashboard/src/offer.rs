//! What a server offers, as it was last seen: its tools with class and evidence, its resources, prompts and skills.

use catalog::assess::assess;
use catalog::recommend::{Offer, Preset, for_server};
use policy::json::{Bounds, Doc, Value};
use store::effective::Effective;
use store::registry::{Pin, Target};

use crate::app::App;
use crate::problem::Problem;
use store::tool_class::ToolClass;

/// One name that a server offers.
pub(crate) struct OfferedName {
    /// The section of a policy that it belongs to.
    pub(crate) section: &'static str,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) class: Option<ToolClass>,
    /// As the server describes it, in JSON.
    pub(crate) definition: String,
}

/// The lists of resources, prompts and skills by the method that lists them: section, and the member with the name.
const LISTS: [(&str, &str, &str); 4] = [
    ("resources/list", "resources", "uri"),
    ("resources/templates/list", "resources", "uriTemplate"),
    ("prompts/list", "prompts", "name"),
    ("skills/list", "skills", "uri"),
];

/// The pins of a server. A built-in server costs nothing to list, so its tools are there from the start.
pub(crate) fn pins(app: &App, effective: &Effective, server: &str) -> Result<Vec<Pin>, Problem> {
    let pins = app.registry.pins(server)?;
    let target = effective.servers.get(server).map(|server| &server.target);
    if !pins.is_empty() || !matches!(target, Some(Target::Builtin { .. })) {
        return Ok(pins);
    }
    if let Err(error) = app.live.list_tools(server) {
        tracing::warn!(server, %error, "the tools of a built-in server could not be listed");
    }
    Ok(app.registry.pins(server)?)
}

/// Everything that a server offers. Tools come from the pins, so they are there after the first listing.
pub(crate) fn offered(
    app: &App,
    effective: &Effective,
    server: &str,
) -> Result<Vec<OfferedName>, Problem> {
    let pins = pins(app, effective, server)?;
    let tools = pins.iter().filter_map(|pin| {
        let pinned = pin.seen.as_ref().or(pin.accepted.as_ref())?;
        Some(OfferedName {
            section: "tools",
            name: pin.tool.clone(),
            description: text_of(&pinned.definition, "description"),
            class: app.classes.class(server, pin, &pins),
            definition: pinned.definition.clone(),
        })
    });
    let mut all: Vec<OfferedName> = tools.collect();
    for stored in app.registry.server_lists(server)? {
        let Some((_, section, member)) = LISTS.iter().find(|(list, ..)| *list == stored.list)
        else {
            continue;
        };
        for item in stored.items {
            let named = text_of(&item, member);
            let (name, description) = if *section == "skills" {
                let path = catalog::skills::name_of(&named).unwrap_or_default().to_owned();
                (path, text_at(&item, &["frontmatter", "description"]))
            } else {
                (named, text_of(&item, "description"))
            };
            let is_known = all.iter().any(|known| known.section == *section && known.name == name);
            if !name.is_empty() && !is_known {
                all.push(OfferedName { section, name, description, class: None, definition: item });
            }
        }
    }
    Ok(all)
}

fn text_of(json: &str, member: &str) -> String {
    text_at(json, &[member])
}

fn text_at(json: &str, path: &[&str]) -> String {
    let doc = Doc::read(json.as_bytes(), &Bounds::ANSWER).ok();
    let found =
        doc.as_ref().and_then(|doc| path.iter().try_fold(doc.root(), |at, key| at.get(key)));
    let text = found.and_then(Value::as_str);
    text.map(std::borrow::Cow::into_owned).unwrap_or_default()
}

/// The recommended policy for what a server offers, as `tollgate policy recommend` makes it.
pub(crate) fn recommended(server: &str, offered: &[OfferedName], preset: Preset) -> String {
    let docs: Vec<Doc<'_>> = offered
        .iter()
        .filter(|one| one.section == "tools")
        .filter_map(|one| Doc::read(one.definition.as_bytes(), &Bounds::ANSWER).ok())
        .collect();
    let tools: Vec<Value<'_>> = docs.iter().map(Doc::root).collect();
    let skills = offered.iter().filter(|one| one.section == "skills");
    let skills: Vec<String> = skills.map(|one| one.name.clone()).collect();
    let has = |section: &str| offered.iter().any(|one| one.section == section);
    let besides = Offer { resources: has("resources"), prompts: has("prompts"), skills: &skills };
    for_server(server, &assess(server, &tools).tools, besides, preset).text()
}
