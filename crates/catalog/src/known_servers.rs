//! Remote servers that want a sign-in: which client they take, their quirks, and where the owner makes a client.
//! Data only; what a server itself says decides.

/// What kind of OAuth client a server takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    /// A client that the owner makes at the service.
    Own,
    /// A client metadata document or dynamic registration; nothing to make.
    Automatic,
    /// A client metadata document only, which needs a public address.
    Document,
}

impl ClientKind {
    pub fn as_str(self) -> &'static str {
        match self {
            ClientKind::Own => "own client",
            ClientKind::Automatic => "automatic",
            ClientKind::Document => "client metadata document",
        }
    }
}

/// A server, by the hosts it is reached at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownServer {
    pub name: &'static str,
    /// A host, or the end of one if it begins with a dot.
    pub hosts: &'static [&'static str],
    pub client: ClientKind,
    /// Where the owner makes a client.
    pub make_client: Option<&'static str>,
    /// Its issuer refuses the `resource` parameter.
    pub omit_resource: bool,
    /// It refuses an authorization request without scopes.
    pub needs_scopes: bool,
    /// What else an owner should know.
    pub note: &'static str,
}

const fn own(
    name: &'static str,
    hosts: &'static [&'static str],
    make_client: &'static str,
    note: &'static str,
) -> KnownServer {
    KnownServer {
        name,
        hosts,
        client: ClientKind::Own,
        make_client: Some(make_client),
        omit_resource: false,
        needs_scopes: false,
        note,
    }
}

const fn automatic(name: &'static str, hosts: &'static [&'static str]) -> KnownServer {
    KnownServer {
        name,
        hosts,
        client: ClientKind::Automatic,
        make_client: None,
        omit_resource: false,
        needs_scopes: false,
        note: "",
    }
}

pub const ALL: &[KnownServer] = &[
    own(
        "GitHub",
        &["api.githubcopilot.com"],
        "https://github.com/settings/developers",
        "a personal access token in `--header Authorization` works, too",
    ),
    KnownServer {
        needs_scopes: true,
        ..own("Slack", &["mcp.slack.com"], "https://api.slack.com/apps", "")
    },
    own(
        "Figma",
        &["mcp.figma.com"],
        "https://www.figma.com/developers/apps",
        "it offers registration, but refuses clients that it does not list",
    ),
    own(
        "Google Workspace",
        &[".googleapis.com", ".google.com"],
        "https://console.cloud.google.com/apis/credentials",
        "client id and secret must come from one client",
    ),
    KnownServer {
        omit_resource: true,
        ..own(
            "Microsoft",
            &[".microsoft.com", ".azure.com", ".dynamics.com", ".powerbi.com", ".azure.us"],
            "https://entra.microsoft.com/#view/Microsoft_AAD_RegisteredApps",
            "`--resource VALUE` sends the application ID URI where it is required",
        )
    },
    own("HubSpot", &["mcp.hubspot.com"], "https://developers.hubspot.com/", ""),
    own("Salesforce", &[".salesforce.com"], "https://developer.salesforce.com/", ""),
    KnownServer {
        note: "the address is https://mcp.atlassian.com/v1/mcp/authv2; a login is for one site, and an admin may have to allow the callback address",
        ..automatic("Atlassian", &["mcp.atlassian.com"])
    },
    automatic("Linear", &["mcp.linear.app"]),
    automatic("Notion", &["mcp.notion.com"]),
    automatic("Sentry", &["mcp.sentry.dev"]),
    automatic("Stripe", &["mcp.stripe.com"]),
    automatic("Cloudflare", &[".mcp.cloudflare.com"]),
    automatic("Vercel", &["mcp.vercel.com"]),
    KnownServer {
        note: "a login that is not used for some hours may end",
        ..automatic("Miro", &["mcp.miro.com"])
    },
    automatic("Granola", &["mcp.granola.ai"]),
    automatic("PostHog", &["mcp.posthog.com"]),
    automatic("Airtable", &["mcp.airtable.com"]),
    KnownServer { client: ClientKind::Document, ..automatic("Expo", &["mcp.expo.dev"]) },
    KnownServer { client: ClientKind::Document, ..automatic("Lovable", &["mcp.lovable.dev"]) },
];

/// The server at a host.
pub fn at_host(host: &str) -> Option<&'static KnownServer> {
    let host = host.to_ascii_lowercase();
    let is_at = |known: &&'static str| match known.strip_prefix('.') {
        Some(domain) => host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')),
        None => host == **known,
    };
    ALL.iter().find(|server| server.hosts.iter().any(&is_at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_known_by_its_host() {
        for (host, expected) in [
            ("mcp.linear.app", Some("Linear")),
            ("MCP.Linear.App", Some("Linear")),
            ("evil-mcp.linear.app", None),
            ("mcp.linear.app.evil.example", None),
            ("docs.mcp.cloudflare.com", Some("Cloudflare")),
            ("graph.microsoft.com", Some("Microsoft")),
            ("microsoft.com", None),
            ("notmicrosoft.com", None),
        ] {
            assert_eq!(at_host(host).map(|server| server.name), expected, "{host}");
        }
    }

    #[test]
    fn the_servers_that_people_name_first_are_known() {
        for (host, client) in [
            ("api.githubcopilot.com", ClientKind::Own),
            ("mcp.slack.com", ClientKind::Own),
            ("mcp.figma.com", ClientKind::Own),
            ("gmail.googleapis.com", ClientKind::Own),
            ("mcp.dev.azure.com", ClientKind::Own),
            ("org.crm.dynamics.com", ClientKind::Own),
            ("mcp.hubspot.com", ClientKind::Own),
            ("api.salesforce.com", ClientKind::Own),
            ("mcp.atlassian.com", ClientKind::Automatic),
            ("mcp.linear.app", ClientKind::Automatic),
            ("mcp.notion.com", ClientKind::Automatic),
            ("mcp.sentry.dev", ClientKind::Automatic),
            ("mcp.stripe.com", ClientKind::Automatic),
            ("mcp.expo.dev", ClientKind::Document),
            ("mcp.lovable.dev", ClientKind::Document),
        ] {
            assert_eq!(at_host(host).map(|server| server.client), Some(client), "{host}");
        }
        let quirks = |host| at_host(host).map(|server| (server.needs_scopes, server.omit_resource));
        assert_eq!(quirks("mcp.slack.com"), Some((true, false)));
        assert_eq!(quirks("graph.microsoft.com"), Some((false, true)));
    }

    #[test]
    fn an_own_client_has_a_place_where_it_is_made() {
        for server in ALL {
            assert_eq!(
                server.client == ClientKind::Own,
                server.make_client.is_some(),
                "{server:?}"
            );
            assert!(
                server.hosts.iter().all(|host| *host == host.to_ascii_lowercase()),
                "{server:?}"
            );
        }
    }
}
