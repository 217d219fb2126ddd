//! The table of all HTTP routes of the gate.

use super::{pages, registry_view};

/// The target of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// All servers of a grant.
    All,
    /// One of them, by its name.
    Server,
    /// For a supervisor: the process answers.
    Live,
    /// For a load balancer: calls are accepted.
    Ready,
    /// Needs the metrics token.
    Metrics,
    /// Public.
    PolicySchema,
    /// Signed webhook deliveries of a service.
    Webhook,
    /// The servers of a grant as a registry.
    Registry,
    /// The redirect that ends a sign-in at a server.
    SignInCallback,
}

/// Where a browser returns from the sign-in at a server.
pub const CALLBACK: &str = "/oauth/callback";

/// A path that ends with a slash may continue with a name.
const ROUTES: [(&str, Route); 11] = [
    ("/mcp", Route::All),
    // Before `Route::Server`, which would match with an empty name.
    ("/mcp/", Route::All),
    ("/mcp/", Route::Server),
    (pages::LIVE, Route::Live),
    (pages::READY, Route::Ready),
    ("/metrics", Route::Metrics),
    (pages::POLICY_SCHEMA, Route::PolicySchema),
    ("/hooks/", Route::Webhook),
    (registry_view::SERVERS, Route::Registry),
    ("/v0.1/servers/", Route::Registry),
    (CALLBACK, Route::SignInCallback),
];

/// The route of a path, and the name at its end.
pub(super) fn route(path: &str) -> Option<(Route, &str)> {
    ROUTES.iter().find_map(|(address, route)| {
        let name = path.strip_prefix(address)?;
        let goes_on = matches!(route, Route::Server | Route::Webhook)
            || *route == Route::Registry && address.ends_with('/');
        (goes_on || name.is_empty()).then_some((*route, name))
    })
}

/// All paths, for checks of who may access them. One that ends with a slash may continue with a
/// name.
pub fn addresses() -> impl Iterator<Item = &'static str> {
    ROUTES.iter().map(|(address, _)| *address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_matches_one_route_or_none() {
        for (path, expected) in [
            ("/mcp", Some((Route::All, ""))),
            ("/mcp/", Some((Route::All, ""))),
            ("/mcp/files", Some((Route::Server, "files"))),
            ("/mcp/a/b", Some((Route::Server, "a/b"))),
            ("/mcp//", Some((Route::Server, "/"))),
            ("/mcpx", None),
            ("/MCP", None),
            ("/", None),
            ("", None),
            ("/livez", Some((Route::Live, ""))),
            ("/readyz", Some((Route::Ready, ""))),
            ("/readyz/", None),
            ("/metrics", Some((Route::Metrics, ""))),
            ("/metrics/", None),
            ("/schema/policy.json", Some((Route::PolicySchema, ""))),
            ("/schema/policy.json/..", None),
            ("/schema/", None),
            ("/hooks/whoop", Some((Route::Webhook, "whoop"))),
            ("/hooks/", Some((Route::Webhook, ""))),
            ("/hooks", None),
            ("/v0.1/servers", Some((Route::Registry, ""))),
            ("/v0.1/servers/a/versions", Some((Route::Registry, "a/versions"))),
            ("/v0.1/serversx", None),
            ("/v0/servers", None),
            ("/oauth/callback", Some((Route::SignInCallback, ""))),
            ("/oauth/callback/", None),
        ] {
            assert_eq!(route(path), expected, "{path}");
        }
    }
}
