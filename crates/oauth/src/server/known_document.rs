//! Metadata documents of clients that many people use, as their vendors publish them. They are used only when the
//! vendor's host hands none out: claude.ai answers addresses of cloud providers with a challenge for browsers, so
//! that no gate there could sign its clients in.

use serde_json::Map;

use super::client::{ClientMetadata, SecretUse};

/// The address, the name, and the redirect URIs of a document, read on 8 and 29 September 2026.
const DOCUMENTS: &[(&str, &str, &[&str])] = &[
    (
        "https://claude.ai/oauth/mcp-oauth-client-metadata",
        "Claude",
        &["https://claude.ai/api/mcp/auth_callback"],
    ),
    (
        "https://claude.ai/oauth/claude-code-client-metadata",
        "Claude Code",
        &["http://localhost/callback", "http://127.0.0.1/callback"],
    ),
    (
        "https://chatgpt.com/oauth/client.json",
        "ChatGPT",
        &["https://chatgpt.com/connector_platform_oauth_redirect"],
    ),
    (
        "https://vscode.dev/oauth/client-metadata.json",
        "Visual Studio Code",
        &["http://127.0.0.1:33418/", "https://vscode.dev/redirect"],
    ),
];

/// What the document at this address said when this version was made.
#[must_use]
pub fn known_document(id: &str) -> Option<ClientMetadata> {
    let (_, name, redirect_uris) = DOCUMENTS.iter().find(|(known, ..)| *known == id)?;
    Some(ClientMetadata {
        name: (*name).to_owned(),
        redirect_uris: redirect_uris.iter().map(|uri| (*uri).to_owned()).collect(),
        secret_use: SecretUse::None,
        echoed: Map::new(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use url::{Host, Url};

    use super::super::client::{is_document_url, read_document};
    use super::*;

    #[test]
    fn every_known_document_would_be_accepted_if_it_were_fetched() {
        for (id, name, redirect_uris) in DOCUMENTS {
            assert!(is_document_url(id), "{id}");
            let body =
                json!({ "client_id": id, "client_name": name, "redirect_uris": redirect_uris });
            let read = read_document(id, body.to_string().as_bytes()).ok();
            assert_eq!(read, known_document(id), "{id}");
        }
    }

    /// A copy can be out of date. A code then goes at most to this machine or to the host that publishes it.
    #[test]
    fn a_known_document_leads_to_its_own_host_or_to_this_machine() {
        let host =
            |url: &str| Url::parse(url).ok().and_then(|url| url.host().map(|h| h.to_owned()));
        for (id, _, redirect_uris) in DOCUMENTS {
            for uri in *redirect_uris {
                let is_loopback = match host(uri) {
                    Some(Host::Ipv4(address)) => address.is_loopback(),
                    Some(Host::Domain(name)) => name == "localhost",
                    _ => false,
                };
                assert!(is_loopback || host(uri) == host(id), "{id}: {uri}");
            }
        }
    }

    #[test]
    fn an_address_that_is_almost_known_is_not() {
        for id in [
            "https://claude.ai/oauth/mcp-oauth-client-metadata/",
            "https://claude.ai/oauth/mcp-oauth-client-metadata?x",
            "https://claude.com/oauth/mcp-oauth-client-metadata",
            "https://chatgpt.com/oauth/client.json2",
            "",
        ] {
            assert_eq!(known_document(id), None, "{id}");
        }
    }
}
