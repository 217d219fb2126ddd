//! Spotify's own requirements for a sign-in.

use schemars::JsonSchema;
use serde::Deserialize;
use url::Url;

use super::{NAME, SERVICE};
use crate::ToolCall;
use crate::arguments::{BadArgument, IgnoredSecret, Unused};
use crate::personal::{self, CodeSetup, Completed, Problem};
use crate::tool::Json;

#[derive(Deserialize, JsonSchema)]
pub(super) struct SpotifySetupArgs {
    /// The application's client id, if tollgate does not know it yet.
    client_id: Option<String>,
    #[serde(default, rename = "client_secret")]
    _client_secret: IgnoredSecret,
    /// As registered with the application; by default http://127.0.0.1:8888/callback.
    redirect_uri: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct SpotifyCompleteArgs {
    /// Not needed: it is known from the first step.
    #[serde(default, rename = "client_id")]
    _client_id: Unused,
    #[serde(default, rename = "client_secret")]
    _client_secret: IgnoredSecret,
    /// The whole address the browser ended at, or the code in it. Of no use to anyone but tollgate.
    authorization_code: String,
    /// Not needed: it is known from the first step.
    #[serde(default, rename = "redirect_uri")]
    _redirect_uri: Unused,
}

/// Spotify shows an error page for `localhost`, so it is refused before the browser opens.
pub(super) async fn setup(
    call: ToolCall<'_>,
    args: SpotifySetupArgs,
) -> Result<Json<CodeSetup>, Problem> {
    let redirect = args.redirect_uri.as_deref();
    let url = redirect.and_then(|redirect| Url::parse(redirect).ok());
    if url.is_some_and(|url| url.host_str() == Some("localhost")) {
        let expected = "an address with 127.0.0.1: Spotify has refused `localhost` since 2025";
        return Err(BadArgument::new("redirect_uri", expected).problem(NAME));
    }
    let next = "complete_spotify_oauth";
    personal::setup_by_code(call, &SERVICE, next, args.client_id, redirect).await
}

pub(super) async fn complete(
    call: ToolCall<'_>,
    args: SpotifyCompleteArgs,
) -> Result<Json<Completed>, Problem> {
    let code = Some(args.authorization_code.as_str());
    personal::complete(call, &SERVICE, "setup_spotify_oauth", code).await
}
