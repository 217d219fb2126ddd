//! Where the metadata of a protected resource and of an authorization server may be, in the order of the MCP
//! specification (RFC 9728, RFC 8414, OpenID Connect Discovery).

use url::Url;

const RESOURCE: &str = "oauth-protected-resource";
const OAUTH: &str = "oauth-authorization-server";
const OPENID: &str = "openid-configuration";

/// The addresses of the protected resource metadata of a server: below its path, then at the root. An address in
/// the challenge replaces both.
pub fn resource_metadata(server: &Url) -> Vec<Url> {
    let mut all = vec![inserted(server, RESOURCE)];
    if !is_root(server) {
        all.push(at_root(server, RESOURCE));
    }
    all
}

/// The addresses of the metadata of an authorization server, by its issuer.
pub fn issuer_metadata(issuer: &Url) -> Vec<Url> {
    if is_root(issuer) {
        return vec![at_root(issuer, OAUTH), at_root(issuer, OPENID)];
    }
    vec![inserted(issuer, OAUTH), inserted(issuer, OPENID), appended(issuer)]
}

/// For a server without protected resource metadata (revision 2025-03-26): the server's origin is the issuer.
pub fn origin(server: &Url) -> Url {
    with_path(server, "/")
}

/// The endpoints of such a server without any metadata.
pub struct DefaultEndpoints {
    pub authorization: Url,
    pub token: Url,
    pub registration: Url,
}

pub fn default_endpoints(server: &Url) -> DefaultEndpoints {
    DefaultEndpoints {
        authorization: with_path(server, "/authorize"),
        token: with_path(server, "/token"),
        registration: with_path(server, "/register"),
    }
}

fn is_root(url: &Url) -> bool {
    url.path().trim_end_matches('/').is_empty()
}

/// The well-known path between host and path.
fn inserted(url: &Url, document: &str) -> Url {
    with_path(url, &format!("/.well-known/{document}{}", url.path().trim_end_matches('/')))
}

fn at_root(url: &Url, document: &str) -> Url {
    with_path(url, &format!("/.well-known/{document}"))
}

fn appended(url: &Url) -> Url {
    with_path(url, &format!("{}/.well-known/{OPENID}", url.path().trim_end_matches('/')))
}

fn with_path(url: &Url, path: &str) -> Url {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    url.set_path(path);
    url
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn texts(urls: Vec<Url>) -> Vec<String> {
        urls.into_iter().map(String::from).collect()
    }

    #[test]
    fn rule_10_every_document_is_tried_in_the_order_of_the_specification() {
        for (issuer, expected) in [
            (
                "https://a.example",
                vec![
                    "https://a.example/.well-known/oauth-authorization-server",
                    "https://a.example/.well-known/openid-configuration",
                ],
            ),
            (
                "https://github.example/login/oauth",
                vec![
                    "https://github.example/.well-known/oauth-authorization-server/login/oauth",
                    "https://github.example/.well-known/openid-configuration/login/oauth",
                    "https://github.example/login/oauth/.well-known/openid-configuration",
                ],
            ),
            (
                "https://a.example/t/",
                vec![
                    "https://a.example/.well-known/oauth-authorization-server/t",
                    "https://a.example/.well-known/openid-configuration/t",
                    "https://a.example/t/.well-known/openid-configuration",
                ],
            ),
        ] {
            assert_eq!(texts(issuer_metadata(&Url::parse(issuer).unwrap())), expected);
        }
    }

    #[test]
    fn the_resource_document_is_below_the_path_then_at_the_root() {
        let at = |text: &str| texts(resource_metadata(&Url::parse(text).unwrap()));
        assert_eq!(
            at("https://s.example/v1/mcp?key=1"),
            [
                "https://s.example/.well-known/oauth-protected-resource/v1/mcp",
                "https://s.example/.well-known/oauth-protected-resource",
            ]
        );
        assert_eq!(
            at("https://s.example/"),
            ["https://s.example/.well-known/oauth-protected-resource"]
        );
    }
}
