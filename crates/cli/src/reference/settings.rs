//! What every key of `tollgate.toml` means. A test asks the loader which keys it knows and refuses
//! one without a row here.

use std::fmt::Write as _;

use store::settings::Limits;

type Rows = &'static [(&'static str, &'static str)];

/// A section of the file: its heading, a text that brings it about, and its keys.
struct Part {
    heading: &'static str,
    /// The beginning of a file that ends inside this section, for the test.
    #[cfg_attr(not(test), expect(dead_code, reason = "the test asks the loader with it"))]
    opening: &'static str,
    rows: Rows,
}

const PARTS: &[Part] = &[
    Part {
        heading: "At the top",
        opening: "",
        rows: &[
            (
                "listen",
                "address and port; `127.0.0.1:4180` unless set. Beyond loopback TLS is needed",
            ),
            ("hostnames", "names besides loopback under which clients may address the gate"),
            ("tls_cert_file", "PEM file, the gate's certificate first"),
            ("tls_key_file", "PEM file with its private key"),
            (
                "durability",
                "`\"process\"`: an admitted call survives the death of the gate and is on disk within a second; `\"power\"`: it is on disk before the call leaves",
            ),
            (
                "time_zone",
                "for rules about hours and weekdays, such as `\"Europe/Berlin\"`; the machine's unless set",
            ),
            ("otel_endpoint", "where traces are sent; nowhere unless set"),
            ("retention", "how long audit rows are kept; for good unless set"),
            ("limits", "the numbers below"),
            ("log", "what `tollgate up` logs"),
            ("servers", "servers by name"),
            ("policies", "policies by name"),
            ("grants", "grants by label"),
            ("services", "the owner's own accounts by the name of the service"),
        ],
    },
    Part {
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
    Part {
        heading: "`[log]`",
        opening: "[log]\n",
        rows: &[
            ("format", "`\"human\"` or `\"json\"`; `--log-format` counts first"),
            (
                "level",
                "`\"error\"`, `\"warn\"`, `\"info\"`, `\"debug\"` or `\"trace\"`; `--log` counts first",
            ),
        ],
    },
    Part {
        heading: "`[servers.NAME]`",
        opening: "[servers.x]\nbuiltin = \"demo\"\n",
        rows: &[
            ("command", "program and arguments as a list; no shell is involved"),
            ("url", "or: the address of a server that speaks streamable HTTP"),
            ("builtin", "or: a server that comes with tollgate"),
            (
                "tools",
                "which tools of a built-in server are shown: names of sets or of tools, or `\"all\"`; `[\"main\"]` unless set",
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
                "what stands behind `?` in the address, given like a header because it often holds a key",
            ),
            (
                "allow_plain_http",
                "`true` allows an address that is neither https nor on this machine",
            ),
            ("call_ms_max", "how long one call may take; `upstream_call_wait_ms_max` unless set"),
            (
                "start_ms_max",
                "how long it may take to start and answer; `upstream_start_wait_ms_max` unless set",
            ),
            ("pins_fresh_seconds", "its list of tools is asked for again when it is older"),
            (
                "share",
                "all clients share one process of a `command`; unless set, if its package is known to keep nothing between sessions",
            ),
        ],
    },
    Part {
        heading: "`[policies.NAME]`",
        opening: "[policies.x]\nsource = '{\"version\":\"1\",\"default\":\"deny\"}'\n",
        rows: &[
            ("file", "the policy's file, from the folder of this one"),
            ("source", "or: the text itself"),
            ("format", "`\"json\"` or `\"yaml\"`; told by the file's name unless set"),
        ],
    },
    Part {
        heading: "`[grants.LABEL]`",
        opening: "[grants.x]\nservers = {}\n",
        rows: &[
            ("servers", "`{ SERVER = \"POLICY\" }`; `false` instead of a policy denies every call"),
            (
                "token_sha256",
                "hash of the token, or a list of up to four; `tollgate grant token` makes one",
            ),
            ("token_env", "or: the environment variable the token is in"),
            ("token_file", "or: the file the token is in"),
            ("expires", "when it ends by itself, such as `2027-12-31T00:00:00Z`"),
        ],
    },
    Part {
        heading: "`[services.NAME]`",
        opening: "[services.x]\n",
        rows: &[
            ("tools", "which tools are shown where a server does not say; `[\"main\"]` unless set"),
            (
                "sync_interval_minutes",
                "how often a running gate brings a connected account up to date; 30 unless set, 0 never",
            ),
            (
                "webhook",
                "`true` takes the service's signed notices at `/hooks/NAME`; no unless set",
            ),
            (
                "api_base_url",
                "another address of the service's API; plain http only on this machine. `WHOOP_API_BASE_URL` counts first",
            ),
            (
                "oauth_base_url",
                "another address of its sign-in. `WHOOP_OAUTH_BASE_URL` counts first",
            ),
            ("client_id", "your app at the service. `WHOOP_CLIENT_ID` counts first"),
            (
                "client_secret",
                "its secret as `{ env = \"NAME\" }` or `{ file = \"PATH\" }`. `WHOOP_CLIENT_SECRET` counts first",
            ),
            (
                "redirect_uri",
                "where the browser comes back to at sign-in. `WHOOP_REDIRECT_URI` counts first",
            ),
            (
                "exports",
                "a folder that agents may export to, such as `~/whoop`, besides `exports` in the home; `whoop` only. `tollgate connect whoop` asks for it once",
            ),
        ],
    },
];

pub(super) fn page() -> String {
    let mut page = super::opening(
        "tollgate.toml",
        "Every key of the settings file. The whole file is read and checked before any of it counts; a broken file changes nothing. Secrets never stand in it.",
    );
    for part in PARTS {
        let _ = write!(page, "\n## {}\n\n| Key | What it is |\n| --- | --- |\n", part.heading);
        for (key, words) in part.rows {
            let _ = writeln!(page, "| `{key}` | {} |", super::cell(words));
        }
    }
    page.push_str("\n## `[limits]`\n\n| Key | Unless set | Least | Most | What happens at the number |\n| --- | --- | --- | --- | --- |\n");
    for row in Limits::TABLE {
        let words = super::cell(row.meaning);
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} | {words} |",
            row.name, row.default, row.least, row.most
        );
    }
    page
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::PARTS;
    use store::settings::Settings;

    /// The keys the loader says it knows when it meets one it does not.
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
        for part in PARTS {
            let mut known = known(part.opening);
            let mut documented: Vec<&str> = part.rows.iter().map(|(key, _)| *key).collect();
            known.sort_unstable();
            documented.sort_unstable();
            assert_eq!(known, documented, "{}", part.heading);
        }
    }
}
