//! Begins a sign-in for a page of the dashboard, bound to the browser that shows it.

use anyhow::{Result, anyhow, bail};
use connectors::server_login::{ServerLogins, ServerProbe, ServerSignInError, SignInOptions};
use dashboard::ServerSignIn;
use store::logins::LoginKey;
use store::registry::Server;

use super::redirect_uris::RedirectUris;
use super::text::advice;
use super::{address, resource_for, takes_own_document};

/// As long as the sign-in itself is valid.
const COOKIE_SECONDS: u32 = 600;

pub(crate) async fn begin(
    logins: &ServerLogins,
    server: &Server,
    grant: Option<&str>,
    redirects: &RedirectUris,
    host: &str,
) -> Result<ServerSignIn> {
    let url = address(server)?;
    let ServerProbe::NeedsSignIn(found) = logins.probe(&url).await? else {
        bail!("server `{}` answers without a sign-in", server.name);
    };
    let known = url.host_str().and_then(catalog::known_servers::at_host);
    let key = match grant {
        Some(grant) => LoginKey::of_grant(&server.name, grant),
        None => LoginKey::shared(&server.name),
    };
    let document =
        if takes_own_document(logins, &found, known)? { redirects.document_url() } else { None };
    let redirect_uri = &redirects.of_host(host);
    let browser = logins.browser_value()?;
    let options = SignInOptions {
        key,
        client: None,
        scopes: Vec::new(),
        resource: resource_for(known),
        redirect_uri: redirect_uri.to_owned(),
        document,
        needs_scopes: known.is_some_and(|known| known.needs_scopes),
        browser: Some(browser.clone()),
    };
    let started = logins.begin(&found, &options).await.map_err(|error| match error {
        ServerSignInError::NeedsClient { .. } => {
            anyhow!("{error}: {}", advice(&server.name, known, redirect_uri))
        }
        error => error.into(),
    })?;
    let is_https = redirect_uri.starts_with("https:");
    let secure = if is_https { "; Secure" } else { "" };
    Ok(ServerSignIn {
        url: started.url.into(),
        issuer: found.issuer.issuer,
        scopes: started.scopes,
        // The redirect comes from another site, so `Strict` would drop it.
        cookie: format!(
            "{}={}; Path={}; Max-Age={COOKIE_SECONDS}; HttpOnly; SameSite=Lax{secure}",
            gateway::SIGN_IN_COOKIE,
            browser.expose(),
            gateway::CALLBACK
        ),
    })
}
