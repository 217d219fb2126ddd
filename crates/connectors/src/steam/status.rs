//! The tools that show and check the Steam set-up.

use std::future::{Ready, ready};

use super::people::name_of;
use super::{SERVICE, api};
use crate::ToolCall;
use crate::arguments::NoArgs;
use crate::personal::{Problem, value};
use crate::tool::{NoData, Text};

/// Checks the key with a request. Never shows it.
pub(super) async fn test(call: ToolCall<'_>, _: NoArgs) -> Result<Text<NoData>, Problem> {
    let id = api::own_id(call.ctx).await?;
    let players = api::players(call.ctx, &[id]).await?;
    let text = match players.first() {
        Some(player) => format!("Steam works: the profile is {}.", name_of(player)),
        None => "Steam accepts the key, but knows no profile of that id; run `tollgate connect steam` with your SteamID64.".to_owned(),
    };
    Ok(text.into())
}

/// Which settings exist, without a request and without their values.
pub(super) fn config(call: ToolCall<'_>, _: NoArgs) -> Ready<Result<Text<NoData>, Problem>> {
    let word = |name: &str| match value(call.ctx, &SERVICE, name) {
        Some(_) => "set",
        None => "not set",
    };
    let text = format!(
        "Web API key: {}. SteamID64: {}. `tollgate connect steam` sets both.",
        word("api_key"),
        word("user_id")
    );
    ready(Ok(text.into()))
}
