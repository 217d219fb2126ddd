//! What several commands share about logins at servers that want OAuth: texts, the address to sign in to, and the
//! sign-in that a page of the dashboard begins, and the end of all logins at a server.

pub(crate) mod page;
pub(crate) mod redirect_uris;
pub(crate) mod text;

use anyhow::{Context as _, Result, bail};
use catalog::known_servers::KnownServer;
use connectors::server_login::{Discovered, ResourceGiven, ServerLogins, SignedOut};
use store::logins::{LoginFacts, LoginKey, LoginsError};
use store::registry::{Server, Target};
use url::Url;

/// The address of a server that can be signed in to.
pub(crate) fn address(server: &Server) -> Result<Url> {
    let name = &server.name;
    let Target::Url { url, headers, .. } = &server.target else {
        bail!("server `{name}` is not reached by an address, so there is nothing to sign in to");
    };
    if headers.iter().any(|(header, _)| header.eq_ignore_ascii_case("authorization")) {
        bail!(
            "server `{name}` has a configured `authorization` header, which would hide the login\nhint: `tollgate server remove {name}`, then add it without `--header Authorization`"
        );
    }
    Url::parse(url).with_context(|| format!("the address of server `{name}` is not a URL"))
}

/// Whether the gate's own client metadata document is used: the issuer takes documents, and neither the owner nor
/// the service has another client for it.
pub(crate) fn takes_own_document(
    logins: &ServerLogins,
    found: &Discovered,
    known: Option<&KnownServer>,
) -> Result<bool> {
    let is_made_by_owner = known.is_some_and(|known| known.make_client.is_some())
        || logins.has_own_client(&found.issuer.issuer)?;
    Ok(found.issuer.supports_client_documents && !is_made_by_owner)
}

/// Issuers that are known to refuse the parameter get none.
pub(crate) fn resource_for(known: Option<&KnownServer>) -> ResourceGiven {
    if known.is_some_and(|known| known.omit_resource) {
        ResourceGiven::Omitted
    } else {
        ResourceGiven::Discovered
    }
}

/// Signs out of all logins at a server.
pub(crate) async fn sign_out_all(
    logins: &ServerLogins,
    server: &str,
) -> Result<Vec<(LoginKey, SignedOut)>, LoginsError> {
    let keys: Vec<LoginKey> = logins.store.of_server(server)?.iter().map(LoginFacts::key).collect();
    let mut ended = Vec::new();
    for key in keys {
        let outcome = logins.sign_out(&key).await?;
        ended.push((key, outcome));
    }
    Ok(ended)
}
