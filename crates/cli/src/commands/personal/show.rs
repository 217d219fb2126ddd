//! `tollgate personal profiles`.

use anyhow::Result;
use connectors::ToolProfile;
use serde_json::json;

use super::connector;
use crate::failure::Ending;
use crate::output::{Out, Table};

pub(super) fn profiles(out: &mut Out) -> Result<Ending> {
    let connector = connector()?;
    let names = |profile: &ToolProfile| -> Vec<&'static str> {
        let held = connector.tools.iter().filter(|tool| (profile.holds)(tool.name));
        held.map(|tool| tool.name).collect()
    };
    if out.wants_json() {
        let profile = |profile: &ToolProfile| {
            let names = names(profile);
            json!({ "profile": profile.name, "count": names.len(), "tools": names })
        };
        out.json(&connector.profiles.iter().map(profile).collect::<Vec<_>>())?;
        return Ok(Ending::Yes);
    }
    let mut table = Table::new(&["profile", "tools", "what"]);
    for profile in connector.profiles {
        let count = names(profile).len().to_string();
        table.row([profile.name.to_owned(), count, profile.about.to_owned()]);
    }
    out.table(&table)?;
    Ok(Ending::Yes)
}
