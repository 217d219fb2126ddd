//! Every address of the gate. There is no other way in than a row of this table.

use super::pages;

/// What is at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// All servers of a grant.
    All,
    /// One of them, by its name.
    Server,
    /// For whoever has the token of the metrics.
    Metrics,
    /// For everybody.
    PolicySchema,
    /// Signed notices of a service.
    Hook,
}

/// Those that end with a slash go on with a name.
const ROUTES: [(&str, Route); 6] = [
    ("/mcp", Route::All),
    // Before the one that would take it for a server without a name.
    ("/mcp/", Route::All),
    ("/mcp/", Route::Server),
    ("/metrics", Route::Metrics),
    (pages::POLICY_SCHEMA, Route::PolicySchema),
    ("/hooks/", Route::Hook),
];

/// What is at a path, with the name that it ends with.
pub(super) fn route(path: &str) -> Option<(Route, &str)> {
    ROUTES.iter().find_map(|(address, route)| {
        let name = path.strip_prefix(address)?;
        let goes_on = matches!(route, Route::Server | Route::Hook);
        (goes_on || name.is_empty()).then_some((*route, name))
    })
}

/// Every address, for whoever checks who may come there; those that end with a slash go on with a name.
pub fn addresses() -> impl Iterator<Item = &'static str> {
    ROUTES.iter().map(|(address, _)| *address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_to_one_place_or_nowhere() {
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
            ("/metrics", Some((Route::Metrics, ""))),
            ("/metrics/", None),
            ("/schema/policy.json", Some((Route::PolicySchema, ""))),
            ("/schema/policy.json/..", None),
            ("/schema/", None),
            ("/hooks/whoop", Some((Route::Hook, "whoop"))),
            ("/hooks/", Some((Route::Hook, ""))),
            ("/hooks", None),
        ] {
            assert_eq!(route(path), expected, "{path}");
        }
    }
}
