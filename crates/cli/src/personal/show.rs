//! The profiles there are.

use anyhow::Result;
use connectors::Profile;
use serde_json::{Value, json};

use super::service;
use crate::failure::Ending;
use crate::output::{Out, Table};

fn words(profile: Profile) -> &'static str {
    match profile {
        Profile::Full => "everything; what is shown unless another is chosen",
        Profile::Safe => "reads little and changes nothing",
        Profile::Minimal => "says that it answers and what is connected",
    }
}

pub(super) fn profiles(out: &mut Out) -> Result<Ending> {
    let tools = service()?.tools;
    let count = |profile: Profile| tools.iter().filter(|tool| profile.holds(tool.name)).count();
    if out.wants_json() {
        let all = Profile::ALL.map(|profile| {
            let names = tools.iter().filter(|tool| profile.holds(tool.name)).map(|tool| tool.name);
            json!({
                "profile": profile.name(),
                "count": count(profile),
                "tools": names.map(Value::from).collect::<Vec<_>>(),
            })
        });
        out.json(&all)?;
        return Ok(Ending::Yes);
    }
    let mut table = Table::new(&["profile", "tools", "what"]);
    for profile in Profile::ALL {
        let count = count(profile).to_string();
        table.row([profile.name().to_owned(), count, words(profile).to_owned()]);
    }
    out.table(&table)?;
    Ok(Ending::Yes)
}
