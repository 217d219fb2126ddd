//! Shows logins at servers, for `status`, `doctor` and the server commands.

use catalog::known_servers::KnownServer;
use connectors::server_login::{Discovered, SignedOut};
use oauth::client::registration;
use serde_json::{Value, json};
use store::logins::{LoginFacts, LoginState, OwnerStep};

use crate::moment;

/// How to make a client at a service that registers none.
pub(crate) fn advice(server: &str, known: Option<&KnownServer>, redirect_uri: &str) -> String {
    let at = known.and_then(|known| known.make_client);
    let at = at.map_or_else(|| "at the service".to_owned(), |at| format!("at {at}"));
    let note = known.map(|known| known.note).filter(|note| !note.is_empty());
    let note = note.map(|note| format!(" ({note})")).unwrap_or_default();
    format!(
        "make an OAuth app {at} with the callback address {redirect_uri}, then `tollgate server sign-in {server} --client-id ID`{note}"
    )
}

/// What a server that wants a sign-in accepts, and the next command.
pub(crate) struct Found {
    pub(crate) mode: &'static str,
    pub(crate) next: String,
}

impl Found {
    /// `has_document` with a public address, whose document the gate serves.
    pub(crate) fn of(
        server: &str,
        found: &Discovered,
        redirect_uri: &str,
        has_document: bool,
    ) -> Found {
        let known = found.server.host_str().and_then(catalog::known_servers::at_host);
        if found.is_guessed {
            return Found {
                mode: "unknown, because it publishes no sign-in metadata",
                next: format!(
                    "`tollgate server sign-in {server}` tries the addresses of older servers; if the service gives out tokens, `tollgate server remove {server}` and add it with `--header Authorization=@FILE` with `Bearer TOKEN` in the file"
                ),
            };
        }
        let takes_own = known.is_some_and(|known| known.make_client.is_some());
        match registration::mode(&found.issuer, has_document).filter(|_| !takes_own) {
            Some(mode) => {
                Found { mode: mode.as_str(), next: format!("`tollgate server sign-in {server}`") }
            }
            None if found.issuer.supports_client_documents && !takes_own => Found {
                mode: registration::ClientMode::Document.as_str(),
                next: format!(
                    "it takes client metadata documents only: set `public_url` (docs/guide/public.md) and run `tollgate server sign-in {server}`, or name a document of yours with `--client-document URL`"
                ),
            },
            None => Found {
                mode: registration::ClientMode::Own.as_str(),
                next: advice(server, known, redirect_uri),
            },
        }
    }
}

/// `signed_in`, `needs_sign_in` or `needs_more_scope`.
pub(crate) fn state(facts: &LoginFacts) -> &'static str {
    match (&facts.state, &facts.needs_scope) {
        (LoginState::NeedsSignIn { .. }, _) => "needs_sign_in",
        (LoginState::SignedIn, Some(_)) => "needs_more_scope",
        (LoginState::SignedIn, None) => "signed_in",
    }
}

/// What the owner should do, if anything.
pub(crate) fn next_step(facts: &LoginFacts, grant: Option<&str>) -> Option<String> {
    let grant = grant.map(|label| format!(" --grant {label}")).unwrap_or_default();
    let command = format!("`tollgate server sign-in {}{grant}`", facts.server);
    Some(match facts.owner_step()? {
        OwnerStep::SignIn { .. } => command,
        OwnerStep::AllowScopes(scopes) => format!("{command} if it may have {}", scopes.join(" ")),
        OwnerStep::AskForRight(scopes) => {
            format!("its account may lack the right to {}; ask its administrator", scopes.join(" "))
        }
    })
}

pub(crate) fn json(facts: &LoginFacts, now_us: i64) -> Value {
    let message = match &facts.state {
        LoginState::SignedIn => None,
        LoginState::NeedsSignIn { message, .. } => Some(message),
    };
    json!({
        "server": facts.server,
        "grant": facts.grant,
        "state": state(facts),
        "reason": message,
        "issuer": facts.issuer,
        "mode": facts.mode,
        "scopes_requested": facts.scopes_requested,
        "scopes_granted": facts.scopes_granted,
        "scopes_missing": facts.needs_scope.as_ref().map(|needs| &needs.scopes),
        "expires_at": facts.expires_us.map(moment::utc),
        "is_expired": facts.expires_us.is_some_and(|at| at <= now_us),
        "refreshed_at": facts.refreshed_us.map(moment::utc),
        "next": next_step(facts, facts.grant.as_deref()),
    })
}

/// One line: state, issuer, mode, scopes, expiry, last refresh.
pub(crate) fn line(facts: &LoginFacts, now_us: i64) -> String {
    let mut parts = vec![match &facts.state {
        LoginState::SignedIn => "signed in".to_owned(),
        LoginState::NeedsSignIn { message, .. } => format!("needs sign-in ({message})"),
    }];
    parts.push(format!("issuer {} ({})", facts.issuer, facts.mode));
    if !facts.scopes_granted.is_empty() {
        parts.push(format!("scopes {}", facts.scopes_granted.join(" ")));
    }
    if let Some(needs) = &facts.needs_scope {
        parts.push(format!("needs more scope: {}", needs.scopes.join(" ")));
    }
    if facts.is_signed_in() {
        parts.push(match facts.expires_us {
            None => "does not expire".to_owned(),
            Some(at) if at <= now_us => "token expired, refreshed at the next call".to_owned(),
            Some(at) => format!("token valid until {}", moment::local(at)),
        });
        if let Some(at) = facts.refreshed_us {
            parts.push(format!("refreshed {}", moment::ago(at, now_us)));
        }
    }
    parts.join(", ")
}

/// How a sign-out ended, in an audit row.
pub(crate) fn outcome_word(outcome: &SignedOut) -> &'static str {
    match outcome {
        SignedOut::NotSignedIn => "not signed in",
        SignedOut::Revoked => "revoked",
        SignedOut::NotRevoked => "not revoked",
        SignedOut::Failed(_) => "revocation failed",
    }
}
