//! The initial policy of an imported server.

use anyhow::Result;
use catalog::assess::assess;
use catalog::recommend::{Offer, Preset, for_server};
use policy::Format;
use policy::json::{Bounds, Doc, Value};

use crate::context::Stores;
use crate::program::own_folders;

const NAME_CHARS_MAX: usize = 64;

/// Decides by the category of each tool, so it also covers tools that are seen later. A tool without a
/// category needs an approval.
const BY_CATEGORY: &str = include_str!("recommend/by_category.json");

pub(super) fn policy_name(server: &str) -> String {
    format!("recommended-{server}").chars().take(NAME_CHARS_MAX).collect()
}

/// Stores the policy unless there is one of that name.
pub(super) fn set(server: &str, stores: &Stores) -> Result<()> {
    let name = policy_name(server);
    if stores.policy(&name).is_ok() {
        return Ok(());
    }
    let text = for_pins(server, stores)?.unwrap_or_else(|| BY_CATEGORY.to_owned());
    let (by, names, now_us) = (stores.actor(), &stores.file_names, stores.now_us());
    stores.ready_to_note()?;
    stores.registry.put_policy(&name, &text, Format::Json, by, names, now_us)?;
    stores.record()
}

/// The recommended policy for the tools that were seen; none without tools.
fn for_pins(server: &str, stores: &Stores) -> Result<Option<String>> {
    let pins = stores.registry.pins(server)?;
    let seen = pins.iter().filter_map(|pin| pin.seen.as_ref().or(pin.accepted.as_ref()));
    let tools: Vec<&str> = seen.map(|pinned| pinned.definition.as_str()).collect();
    if tools.is_empty() {
        return Ok(None);
    }
    let list = format!("[{}]", tools.join(","));
    let Ok(doc) = Doc::read(list.as_bytes(), &Bounds::ANSWER) else { return Ok(None) };
    let tools: Vec<Value<'_>> = doc.root().items().collect();
    let assessed = assess(server, &tools);
    // Resources and prompts are not listed here; reading them is allowed like other reads.
    let offer = Offer { resources: true, prompts: true, skills: &[] };
    let policy = for_server(server, &assessed.tools, offer, Preset::Recommended)
        .with_own_folders(&own_folders(server, &stores.servers()?));
    Ok(Some(policy.text()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_loads_and_passes_its_own_tests() {
        assert!(policy::Policy::load(BY_CATEGORY, Format::Json).is_ok());
    }
}
