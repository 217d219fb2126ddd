//! Whether Steam is set up, and whether it works.

use super::people::name_of;
use super::{SERVICE, api};
use crate::Ask;
use crate::personal::{Problem, value};

/// Tries the key for real. Nothing of it is shown.
pub(super) async fn test(ask: Ask<'_>) -> Result<String, Problem> {
    let id = api::own_id(ask.desk).await?;
    let players = api::players(ask.desk, &[id]).await?;
    Ok(match players.first() {
        Some(player) => format!("Steam works: the profile is {}.", name_of(player)),
        None => "Steam accepts the key, but knows no profile of that id; run `tollgate connect steam` with your SteamID64.".to_owned(),
    })
}

/// What is set up, without asking Steam and without showing any of it.
pub(super) fn config(ask: &Ask<'_>) -> String {
    let word = |name: &str| match value(ask.desk, &SERVICE, name) {
        Some(_) => "set",
        None => "not set",
    };
    format!(
        "Web API key: {}. SteamID64: {}. `tollgate connect steam` sets both.",
        word("api_key"),
        word("user_id")
    )
}
