//! The meaning of every key of `tollgate.toml`. A test takes the known keys from the loader and refuses
//! one without a row here.

use std::fmt::Write as _;

use store::settings::Limits;

type Rows = &'static [(&'static str, &'static str)];

/// A section of the file: its heading, its keys, and a file beginning for the test.
struct SettingsSection {
    heading: &'static str,
    /// The beginning of a file that ends inside this section, for the test.
    #[cfg_attr(not(test), expect(dead_code, reason = "only the test uses it"))]
    opening: &'static str,
    rows: Rows,
}

const SECTIONS: &[SettingsSection] = &[
    SettingsSection {
        heading: "At the top",
        opening: "",
        rows: &[
            (
                "listen",
                "address and port; `127.0.0.1:4180` by default. Other than loopback needs TLS",
            ),
            (
                "hostnames",
                "host names other than loopback under which clients may address the gate",
            ),
            (
                "public_url",
                "the https origin under which clients elsewhere reach the gate through a tunnel or a proxy, such as `\"https://gate.example\"`; they sign in there. Takes effect at the next start",
            ),
            (
                "public_dashboard",
                "`true` serves the dashboard under `public_url`, too; only MCP, sign-in and consent are served there by default",
            ),
            ("tls_cert_file", "PEM file, the gate's certificate first"),
            ("tls_key_file", "PEM file with its private key"),
            (
                "durability",
                "`\"process\"`: an admitted call survives the death of the gate and is on disk within a second; `\"power\"`: it is on disk before the call leaves",
            ),
            (
                "time_zone",
                "for rules about hours and weekdays, such as `\"Europe/Berlin\"`; the machine's by default",
            ),
            (
                "units",
                "what insights are in, in tools, pages, reports and notices: `\"metric\"`, the default, or `\"imperial\"` (miles, degrees Fahrenheit)",
            ),
            ("energy", "`\"kcal\"`, the default, or `\"kj\"`"),
            ("otel_endpoint", "where traces are sent; nowhere by default"),
            ("retention", "how long audit rows are kept; forever by default"),
            ("limits", "the numbers below"),
            ("log", "what `tollgate up` logs"),
            ("servers", "servers by name"),
            ("policies", "policies by name"),
            ("grants", "grants by label"),
            ("services", "the owner's accounts by the name of the service"),
            ("oidc", "where people of a team sign in to the dashboard"),
        ],
    },
    SettingsSection {
        heading: "`[retention]`",
        opening: "[retention]\n",
        rows: &[
            (
                "days_max",
                "older rows are retired, a whole segment at a time; the chain stays verifiable",
            ),
            ("bytes_max", "the oldest rows are retired when the log is larger"),
        ],
    },
    SettingsSection {
        heading: "`[log]`",
        opening: "[log]\n",
        rows: &[
            ("format", "`\"human\"` or `\"json\"`; `--log-format` takes precedence"),
            (
                "level",
                "`\"error\"`, `\"warn\"`, `\"info\"`, `\"debug\"` or `\"trace\"`; `--log` takes precedence",
            ),
        ],
    },
    SettingsSection {
        heading: "`[servers.NAME]`",
        opening: "[servers.x]\nbuiltin = \"demo\"\n",
        rows: &[
            ("command", "program and arguments as a list; no shell is involved"),
            ("url", "or: the address of a server that speaks streamable HTTP"),
            ("builtin", "or: a server that comes with tollgate"),
            (
                "tools",
                "which tools of a built-in server are shown: names of sets or of tools, or `\"all\"`; `[\"main\"]` by default",
            ),
            (
                "env",
                "environment of the command: texts, or `{ env = \"NAME\" }` and `{ file = \"PATH\" }` for secrets",
            ),
            ("cwd", "folder the command runs in, absolute"),
            (
                "headers",
                "headers for the address, each `{ env = \"NAME\" }` or `{ file = \"PATH\" }`, with an optional `prefix`",
            ),
            (
                "query",
                "the query string of the address (after `?`), given like a header because it often holds a key",
            ),
            (
                "allow_plain_http",
                "`true` allows an address that is neither https nor on this machine",
            ),
            (
                "call_ms_max",
                "total time of one call, to the last byte of its response; by default 1 hour in total and `upstream_call_wait_ms_max` for each wait",
            ),
            (
                "start_ms_max",
                "how long it may take to start and respond; `upstream_start_wait_ms_max` by default",
            ),
            ("pins_fresh_seconds", "its list of tools is requested again when it is older"),
            (
                "share",
                "all clients share one process of a `command`; by default only if its package is known to keep nothing between sessions",
            ),
            (
                "per_grant",
                "each grant has its own login at a `url` server that wants OAuth; by default all grants share one",
            ),
            (
                "capture",
                "the arguments of its calls are kept, sealed, for the roles `admin` and `auditor`; `[limits]` has how much and how long",
            ),
            (
                "map_names",
                "its own address lists names that every client accepts; `server tools` shows them",
            ),
        ],
    },
    SettingsSection {
        heading: "`[policies.NAME]`",
        opening: "[policies.x]\nsource = '{\"version\":\"1\",\"default\":\"deny\"}'\n",
        rows: &[
            ("file", "the policy's file, from the folder of this one"),
            ("source", "or: the text itself"),
            ("format", "`\"json\"` or `\"yaml\"`; by default from the file's extension"),
        ],
    },
    SettingsSection {
        heading: "`[grants.LABEL]`",
        opening: "[grants.x]\nservers = {}\n",
        rows: &[
            ("servers", "`{ SERVER = \"POLICY\" }`; `false` instead of a policy denies every call"),
            (
                "token_sha256",
                "hash of the token, or a list of up to four; `tollgate grant token` creates one",
            ),
            ("token_env", "or: the environment variable the token is in"),
            ("token_file", "or: the file the token is in"),
            ("expires", "when it expires, such as `2027-12-31T00:00:00Z`"),
            (
                "prefix",
                "names at `/mcp` begin with their server's: `always`, or `never`, where only one server has them",
            ),
            ("operator", "`true`: it may use the operator server"),
        ],
    },
    SettingsSection {
        heading: "`[oidc]`",
        opening: "[oidc]\nissuer = \"https://id.example\"\nclient_id = \"gate\"\n",
        rows: &[
            (
                "issuer",
                "the issuer's address, byte for byte as it writes it; its metadata and signing keys are fetched from there",
            ),
            ("client_id", "the client that you registered at the issuer"),
            (
                "client_secret",
                "`{ env = \"NAME\" }` or `{ file = \"PATH\" }`; left out for a public client. PKCE is used in either case",
            ),
            ("label", "the issuer's name on the sign-in page; its host by default"),
            (
                "redirect_uri",
                "the redirect address that you registered; by default the gate's own address (with `public_dashboard` that of `public_url`) and `/sign-in/oidc/callback`",
            ),
            ("scopes", "scopes besides `openid` and `email`, such as `[\"groups\"]`"),
            (
                "roles",
                "whom the issuer's claims admit without an admin, by role: `[oidc.roles.viewer]` with `emails`, `domains` or `claims`. None by default; the strongest role that matches counts, at each sign-in",
            ),
        ],
    },
    SettingsSection {
        heading: "`[oidc.roles.ROLE]`",
        opening: "[oidc]\nissuer = \"https://id.example\"\nclient_id = \"gate\"\n[oidc.roles.viewer]\n",
        rows: &[
            ("emails", "addresses that the issuer verified, such as `[\"ann@example.com\"]`"),
            ("domains", "domains of such addresses, without those below them"),
            (
                "claims",
                "values by the name of a claim, such as `{ groups = [\"staff\"] }`; a claim may be a text or a list",
            ),
        ],
    },
    SettingsSection {
        heading: "`[services.NAME]`",
        opening: "[services.x]\n",
        rows: &[
            (
                "tools",
                "which tools are shown if the server has no `tools`; `[\"main\"]` by default",
            ),
            (
                "sync_interval_minutes",
                "how often a running gate syncs a connected account; 30 by default, 0 never",
            ),
            (
                "webhook",
                "`true` accepts the service's signed notifications at `/hooks/NAME`; off by default",
            ),
            (
                "api_base_url",
                "another address of the service's API; plain http only on this machine. `WHOOP_API_BASE_URL` takes precedence",
            ),
            (
                "oauth_base_url",
                "another address of its sign-in. `WHOOP_OAUTH_BASE_URL` takes precedence",
            ),
            ("client_id", "your app at the service. `WHOOP_CLIENT_ID` takes precedence"),
            (
                "client_secret",
                "its secret as `{ env = \"NAME\" }` or `{ file = \"PATH\" }`. `WHOOP_CLIENT_SECRET` takes precedence",
            ),
            (
                "redirect_uri",
                "where the browser is redirected to after sign-in. `WHOOP_REDIRECT_URI` takes precedence",
            ),
            (
                "exports",
                "a folder that agents may export to, such as `~/whoop`, in addition to `exports` in the home; `whoop` only. `tollgate connect whoop` asks for it once",
            ),
            (
                "notices",
                "rules such as `[\"hrv below for 3 days\"]`: a notice when a metric leaves its usual range (`below`, `above`, `outside`) for so many days",
            ),
        ],
    },
];

pub(super) fn page() -> String {
    let mut page = super::opening(
        "tollgate.toml",
        "Every key of the settings file. The whole file is read and checked before any of it applies; a broken file changes nothing. Secrets are never written in it.",
    );
    for section in SECTIONS {
        let _ = write!(page, "\n## {}\n\n| Key | Meaning |\n| --- | --- |\n", section.heading);
        for (key, message) in section.rows {
            let _ = writeln!(page, "| `{key}` | {} |", super::cell(message));
        }
    }
    page.push_str("\n## `[limits]`\n\n| Key | Default | Minimum | Maximum | What happens at the limit |\n| --- | --- | --- | --- | --- |\n");
    for row in Limits::TABLE {
        let message = super::cell(row.meaning);
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} | {message} |",
            row.name, row.default, row.least, row.most
        );
    }
    page
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::SECTIONS;
    use store::settings::Settings;

    /// The known keys that the loader lists for an unknown one.
    fn known(opening: &str) -> Vec<String> {
        let text = format!("{opening}no_such_key_at_all = 1\n");
        let nothing = |_: &std::path::Path| Err(std::io::Error::other("no files here"));
        let error = Settings::load(&text, &|_| None, &nothing).unwrap_err();
        let hints = error.problems.iter().filter_map(|problem| problem.hint.as_deref());
        let hint = hints.into_iter().find_map(|hint| hint.strip_prefix("known here: ")).unwrap();
        hint.split(", ").map(|key| key.trim_matches('`').to_owned()).collect()
    }

    #[test]
    fn every_key_the_loader_knows_is_documented() {
        for section in SECTIONS {
            let mut known = known(section.opening);
            let mut documented: Vec<&str> = section.rows.iter().map(|(key, _)| *key).collect();
            known.sort_unstable();
            documented.sort_unstable();
            assert_eq!(known, documented, "{}", section.heading);
        }
    }
}
