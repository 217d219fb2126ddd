//! What Spotify wants of a sign-in beyond what every service wants.

use url::Url;

use super::{NAME, SERVICE};
use crate::Ask;
use crate::personal::{self, Given, Outcome};

/// Spotify shows an error page for `localhost`, so the owner is spared the way there.
pub(super) async fn setup(ask: Ask<'_>) -> Outcome {
    let given = Given::new(NAME, ask.arguments);
    let redirect = given.text("redirect_uri")?.and_then(|said| Url::parse(said).ok());
    if redirect.is_some_and(|url| url.host_str() == Some("localhost")) {
        let wanted = "an address with 127.0.0.1: Spotify has refused `localhost` since 2025";
        return Err(given.wrong("redirect_uri", wanted));
    }
    personal::setup(ask, &SERVICE, "complete_spotify_oauth").await
}
