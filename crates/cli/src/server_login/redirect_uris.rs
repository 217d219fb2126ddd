//! Where a browser returns from the sign-in at a server: to the public address of the gate, or to this machine. With
//! a public address both are in the gate's client metadata document.

use oauth::client::registration::{self, CLIENT_DOCUMENT_PATH};
use oauth::server::Issuer;
use serde_json::Value;
use url::Url;

pub(crate) struct RedirectUris {
    /// At the port of the gate.
    pub(crate) local: String,
    public: Option<Issuer>,
}

impl RedirectUris {
    /// `issuer` is the public address, or that of the gate on this machine.
    pub(crate) fn new(mcp_url: &str, issuer: &Issuer) -> RedirectUris {
        let base = mcp_url.strip_suffix("/mcp").unwrap_or(mcp_url);
        RedirectUris {
            local: format!("{base}{}", gateway::CALLBACK),
            public: Some(issuer.clone())
                .filter(|issuer| issuer.is_https() && issuer.as_str() != base),
        }
    }

    /// The address of the gate's own document.
    pub(crate) fn document_url(&self) -> Option<Url> {
        Url::parse(&self.public.as_ref()?.at(CLIENT_DOCUMENT_PATH)).ok()
    }

    pub(crate) fn document(&self) -> Option<Value> {
        let all = [self.public()?, self.local.clone(), without_port(&self.local)?];
        Some(registration::document(&self.document_url()?, &all))
    }

    /// At the public address.
    pub(crate) fn public(&self) -> Option<String> {
        Some(self.public.as_ref()?.at(gateway::CALLBACK))
    }

    /// For a browser that reached a page of the gate at this host: its cookie is for this host only.
    pub(crate) fn of_host(&self, host: &str) -> String {
        let is_public = |issuer: &&Issuer| issuer.authority().eq_ignore_ascii_case(host);
        let public = self.public.as_ref().filter(is_public);
        public.map_or_else(|| self.local.clone(), |issuer| issuer.at(gateway::CALLBACK))
    }
}

/// RFC 8252: issuers ignore the port of a loopback address, which differs between gates.
fn without_port(uri: &str) -> Option<String> {
    let mut url = Url::parse(uri).ok()?;
    url.set_port(None).ok()?;
    Some(url.into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use super::*;

    #[test]
    fn a_document_exists_with_a_public_address_only() {
        let local = "http://127.0.0.1:4180";
        let uris = |issuer: &str| {
            RedirectUris::new(&format!("{local}/mcp"), &Issuer::parse(issuer).unwrap())
        };
        assert_eq!(uris(local).document(), None);
        let public = uris("https://gate.example");
        let document = public.document().unwrap();
        assert_eq!(document["client_id"], "https://gate.example/oauth/client.json");
        let redirects = [
            "https://gate.example/oauth/callback",
            "http://127.0.0.1:4180/oauth/callback",
            "http://127.0.0.1/oauth/callback",
        ];
        assert_eq!(document["redirect_uris"], serde_json::json!(redirects));
        assert_eq!(document["application_type"], "native");
        assert_eq!(public.of_host("gate.example"), redirects[0]);
        assert_eq!(public.of_host("127.0.0.1:4180"), redirects[1]);
        assert_eq!(public.of_host("evil.example"), redirects[1]);
    }
}
