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
    /// Its address, if it has only one.
    pub url: Option<&'static str>,
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
        url: None,
        hosts,
        client: ClientKind::Own,
        make_client: Some(make_client),
        omit_resource: false,
        needs_scopes: false,
        note,
    }
}

const fn automatic(
    name: &'static str,
    url: &'static str,
    hosts: &'static [&'static str],
) -> KnownServer {
    KnownServer {
        name,
        url: Some(url),
        hosts,
        client: ClientKind::Automatic,
        make_client: None,
        omit_resource: false,
        needs_scopes: false,
        note: "",
    }
}

pub const ALL: &[KnownServer] = &[
    KnownServer {
        url: Some("https://api.githubcopilot.com/mcp/"),
        ..own(
            "GitHub",
            &["api.githubcopilot.com"],
            "https://github.com/settings/developers",
            "a personal access token in `--header Authorization` works, too",
        )
    },
    KnownServer {
        url: Some("https://mcp.slack.com/mcp"),
        needs_scopes: true,
        ..own("Slack", &["mcp.slack.com"], "https://api.slack.com/apps", "")
    },
    KnownServer {
        url: Some("https://mcp.figma.com/mcp"),
        ..own(
            "Figma",
            &["mcp.figma.com"],
            "https://www.figma.com/developers/apps",
            "it offers registration, but refuses clients that it does not list",
        )
    },
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
    KnownServer {
        url: Some("https://mcp.hubspot.com"),
        ..own("HubSpot", &["mcp.hubspot.com"], "https://developers.hubspot.com/", "")
    },
    own("Salesforce", &[".salesforce.com"], "https://developer.salesforce.com/", ""),
    KnownServer {
        note: "a login is for one site, and an admin may have to allow the callback address",
        ..automatic("Atlassian", "https://mcp.atlassian.com/v1/mcp/authv2", &["mcp.atlassian.com"])
    },
    automatic("Linear", "https://mcp.linear.app/mcp", &["mcp.linear.app"]),
    automatic("Notion", "https://mcp.notion.com/mcp", &["mcp.notion.com"]),
    automatic("Sentry", "https://mcp.sentry.dev/mcp", &["mcp.sentry.dev"]),
    automatic("Stripe", "https://mcp.stripe.com", &["mcp.stripe.com"]),
    automatic(
        "Cloudflare",
        "https://mcp.cloudflare.com/mcp",
        &["mcp.cloudflare.com", ".mcp.cloudflare.com"],
    ),
    automatic("Vercel", "https://mcp.vercel.com", &["mcp.vercel.com"]),
    KnownServer {
        note: "a login that is not used for some hours may end",
        ..automatic("Miro", "https://mcp.miro.com/", &["mcp.miro.com"])
    },
    automatic("Granola", "https://mcp.granola.ai/mcp", &["mcp.granola.ai"]),
    automatic("PostHog", "https://mcp.posthog.com/mcp", &["mcp.posthog.com"]),
    automatic("Airtable", "https://mcp.airtable.com/mcp", &["mcp.airtable.com"]),
    KnownServer {
        client: ClientKind::Document,
        ..automatic("Expo", "https://mcp.expo.dev/mcp", &["mcp.expo.dev"])
    },
    KnownServer {
        client: ClientKind::Document,
        ..automatic("Lovable", "https://mcp.lovable.dev", &["mcp.lovable.dev"])
    },
];

/// The server of a name, in any case.
pub fn named(name: &str) -> Option<&'static KnownServer> {
    ALL.iter().find(|server| server.name.eq_ignore_ascii_case(name))
}

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
            let host = server.url.and_then(|url| url.strip_prefix("https://")?.split('/').next());
            let found = host.and_then(at_host).map(|server| server.name);
            assert_eq!(found, server.url.map(|_| server.name), "{server:?}");
            assert_eq!(named(&server.name.to_uppercase()), Some(server));
            assert!(
                server.hosts.iter().all(|host| *host == host.to_ascii_lowercase()),
                "{server:?}"
            );
        }
    }
}
