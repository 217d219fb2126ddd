//! The fields of every form, for the OpenAPI document.

use serde_json::{Map, Value, json};

/// A field: its name, whether it is needed, and what it means. A name that ends with `*` stands for all names with
/// that beginning.
type FormField = (&'static str, bool, &'static str);

/// By the path of the form. A form that is not listed has no field but the token.
const FORMS: &[(&str, &[FormField])] = &[
    ("/approvals/{id}/approve", &[("for", false, "once, 600, 3600 or 28800 seconds")]),
    ("/approvals/{id}/deny", &[("because", false, "What the agent is told")]),
    (
        "/grants",
        &[
            ("label", true, "Label of the new grant"),
            ("server", false, "A server that it may use; repeated for each"),
            ("policy:*", false, "The policy on the server with this name"),
            ("expires_days", false, "Days until it expires; never if empty"),
        ],
    ),
    (
        "/grants/{label}/rotate",
        &[("overlap", false, "day: the old token works for one more day; none: it ends at once")],
    ),
    ("/grants/{label}/expiry", &[("expires_days", false, "Days until it expires; never if empty")]),
    (
        "/grants/{label}/server",
        &[
            ("server", true, "The server"),
            ("policy", false, "Its policy"),
            ("do", false, "remove: take the server away"),
        ],
    ),
    ("/grants/{label}/policy", &[("server", true, "The server"), ("policy", true, "The policy")]),
    (
        "/servers",
        &[
            ("do", false, "add: add the server that was tried; otherwise it is tried"),
            ("tried", false, "The trial, to add its server"),
            ("kind", false, "command, url or client"),
            ("name", false, "Name of the new server"),
            ("command", false, "The command with its arguments"),
            ("env", false, "NAME=VALUE on each line"),
            ("cwd", false, "The folder that the command runs in"),
            ("url", false, "The address"),
            ("allow_plain_http", false, "yes: http to another machine"),
            ("client_server", false, "CLIENT/NAME of a server that a client uses"),
            ("secret_name_*", false, "Name of a secret header or variable"),
            ("secret_value_*", false, "Its value"),
        ],
    ),
    (
        "/servers/{name}/accept",
        &[
            ("tool", true, "The tool"),
            ("fingerprint", true, "Fingerprint of the definition that was shown"),
            ("from", false, "tour: return to the tour"),
        ],
    ),
    ("/servers/{name}/sign-in", &[("grant", false, "Sign in for this grant only")]),
    ("/servers/{name}/capture", &[("capture", true, "on or off")]),
    (
        "/servers/{name}/credential",
        &[
            ("credential", true, "Name of the header or variable"),
            ("value", false, "Its value; an empty one removes it"),
        ],
    ),
    (
        "/servers/{name}/tools/{tool}",
        &[
            ("grant", true, "The grant whose policy judges the call"),
            ("do", false, "run: send it if it is allowed"),
            ("arg:*", false, "The argument with this name"),
            ("json", false, "All arguments as JSON instead"),
        ],
    ),
    (
        "/policies",
        &[
            ("name", true, "Name of the policy"),
            ("text", false, "The policy, JSON or YAML"),
            ("start", false, "What the builder starts from instead of a text"),
            ("server", false, "The server whose names the builder shows"),
        ],
    ),
    (
        "/policies/{name}",
        &[
            ("text", true, "The policy, JSON or YAML"),
            ("base", false, "The text that the other fields were made from"),
            ("base_version", false, "The version that they were made from"),
            (
                "seen_version",
                false,
                "The newest version when the form was shown; save only if it still is",
            ),
            ("server", false, "The server whose names are shown"),
            (
                "do",
                false,
                "save, apply, show, show_all, start, bulk, add_entry, add_rule, add_limit, add_redact, open:POINTER, remove:POINTER or close",
            ),
            ("start", false, "What replaces the text"),
            ("open", false, "Pointer of the entry whose rules are shown"),
            ("was_custom", false, "Switches that stood on Custom; repeated"),
            ("s:*", false, "A switch, s:SECTION:NAME: allow, deny, hide, ask or custom"),
            ("v:*", false, "A value of the text, v:TYPE:POINTER"),
            ("show_*", false, "Which names are shown"),
            ("bulk_*", false, "Which tools are set at once, and to what"),
            ("new_*", false, "A name or pattern to add"),
            ("rule_*", false, "A condition to add"),
            ("limit_*", false, "A limit to add"),
            ("redact_path", false, "A path to remove from results"),
        ],
    ),
    ("/policies/{name}/restore", &[("version", true, "The version to return to")]),
    (
        "/accounts/{service}/connect",
        &[
            ("service", false, "The service"),
            ("client_id", false, "Client id of the owner's app"),
            ("client_secret", false, "Its secret"),
            ("*", false, "The fields that the service asks for"),
        ],
    ),
    (
        "/accounts/{service}/disconnect",
        &[("revoke", false, "yes or no"), ("records", false, "keep or wipe")],
    ),
    ("/stack/protect", &[("server", true, "A server to protect; repeated for each")]),
    (
        "/notifications",
        &[
            ("name", true, "Name of the channel"),
            ("kind", true, "ntfy, slack, smtp or webhook"),
            ("topic", false, "What it is told of; repeated for each"),
            ("detail", false, "How much a message says"),
            ("url", false, "Address of the webhook or of the ntfy server"),
            ("ntfy_topic", false, "Topic at the ntfy server"),
            ("server", false, "Mail server"),
            ("port", false, "Port of the mail server"),
            ("security", false, "How the connection to the mail server is secured"),
            ("from", false, "Sender of mails"),
            ("to", false, "Recipients of mails"),
            ("user", false, "User at the mail server"),
            ("secret", false, "Token, password or signing key"),
        ],
    ),
    (
        "/people",
        &[
            ("name", true, "Name of the person"),
            ("role", true, "admin, policy_manager, auditor or viewer"),
            ("email", false, "E-mail at the team's issuer"),
        ],
    ),
    ("/people/{name}/role", &[("role", true, "admin, policy_manager, auditor or viewer")]),
    ("/people/{name}/email", &[("email", false, "E-mail at the team's issuer")]),
    (
        "/your-sign-in/passkeys",
        &[("name", true, "Name of the passkey"), ("*", true, "What the browser made")],
    ),
];

/// The schema of the form at this path.
pub(super) fn schema(path: &str) -> Value {
    let fields = FORMS.iter().find(|(form, _)| *form == path).map_or(&[][..], |(_, fields)| fields);
    let text = |about: &str| json!({ "type": "string", "description": about });
    let (mut properties, mut patterns) = (Map::new(), Map::new());
    properties
        .insert("csrf".to_owned(), text("The token of the session, from any page with a form"));
    let mut required = vec!["csrf"];
    for (name, is_needed, about) in fields {
        match name.strip_suffix('*') {
            Some(beginning) => patterns.insert(format!("^{beginning}"), text(about)),
            None => properties.insert((*name).to_owned(), text(about)),
        };
        if *is_needed && !name.ends_with('*') {
            required.push(name);
        }
    }
    json!({
        "type": "object",
        "required": required,
        "properties": properties,
        "patternProperties": patterns,
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::fs;
    use std::path::Path;

    use http::Method;

    use super::FORMS;
    use crate::routes::ROUTES;

    /// Where the functions that read forms are.
    const PAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/pages");

    fn sources(folder: &Path, into: &mut String) {
        for file in fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            if path.is_dir() {
                // The sign-in forms are read before there is a session.
                if !path.ends_with("sign_in") {
                    sources(&path, into);
                }
            } else {
                into.push_str(&fs::read_to_string(&path).unwrap());
            }
        }
    }

    fn is_described(name: &str) -> bool {
        let mut fields = FORMS.iter().flat_map(|(_, fields)| fields.iter());
        fields.any(|(known, ..)| match known.strip_suffix('*') {
            Some(beginning) => !beginning.is_empty() && name.starts_with(beginning),
            None => *known == name,
        })
    }

    #[test]
    fn every_field_that_a_page_reads_is_described() {
        let mut text = String::new();
        sources(Path::new(PAGES), &mut text);
        let mut read = 0;
        for call in ["field(\"", "fields(\"", "field(&format!(\""] {
            for (at, _) in text.match_indices(call) {
                let rest = text.get(at + call.len()..).unwrap();
                let name = rest.split(['"', '{']).next().unwrap();
                assert!(is_described(name), "the field `{name}` is in no form of the document");
                read += 1;
            }
        }
        assert!(read > 40, "only {read} fields were found");
    }

    #[test]
    fn every_form_is_at_an_address() {
        for (path, _) in FORMS {
            let mut routes = ROUTES.iter().filter(|route| route.method == Method::POST);
            assert!(routes.any(|route| route.path == *path), "{path}");
        }
    }
}
