//! `server sign-out`: revokes the tokens of a login and deletes them.

use anyhow::Result;
use clap::Args;
use connectors::server_login::SignedOut;
use serde_json::json;
use store::logins::LoginKey;

use super::sign_in::key;
use crate::account;
use crate::context::{Context, Stores};
use crate::failure::Ending;
use crate::output::{Out, visible};
use crate::server_login::sign_out_all;
use crate::server_login::text::outcome_word;

#[derive(Args)]
pub(crate) struct SignOutArgs {
    /// The server's name
    name: String,
    /// Only the login of this grant
    #[arg(long, value_name = "LABEL")]
    grant: Option<String>,
}

pub(super) fn sign_out(args: &SignOutArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let stores = context.open()?;
    let server = super::find(&args.name, &stores)?;
    let only =
        args.grant.as_deref().map(|_| key(&server, args.grant.as_deref(), &stores)).transpose()?;
    let ended = sign_out_of(&server.name, only.as_ref(), &stores)?;
    report_sign_outs(&server.name, &ended, out)?;
    Ok(Ending::Yes)
}

/// Signs out of a server: of one login, or of all.
pub(super) fn sign_out_of(
    server: &str,
    only: Option<&LoginKey>,
    stores: &Stores,
) -> Result<Vec<(LoginKey, SignedOut)>> {
    let logins = stores.logins();
    let runtime = account::runtime()?;
    let ended = match only {
        Some(key) => vec![(key.clone(), runtime.block_on(logins.sign_out(key))?)],
        None => runtime.block_on(sign_out_all(&logins, server))?,
    };
    for (_, outcome) in ended.iter().filter(|(_, outcome)| *outcome != SignedOut::NotSignedIn) {
        stores.note("server_signed_out", server, outcome_word(outcome))?;
    }
    Ok(ended)
}

fn report_sign_outs(server: &str, ended: &[(LoginKey, SignedOut)], out: &mut Out) -> Result<()> {
    if out.wants_json() {
        let all: Vec<_> = ended
            .iter()
            .map(|(key, outcome)| json!({ "grant": key.grant, "outcome": outcome_word(outcome) }))
            .collect();
        return out.json(&json!({ "server": server, "signed_out": all }));
    }
    if ended.iter().all(|(_, outcome)| *outcome == SignedOut::NotSignedIn) {
        return out.line(format_args!("not signed in to `{server}`"));
    }
    for (_, outcome) in ended {
        let message = match outcome {
            SignedOut::NotSignedIn => continue,
            SignedOut::Revoked => "its tokens were revoked".to_owned(),
            SignedOut::NotRevoked => {
                "its issuer offers no revocation; the tokens were deleted here".to_owned()
            }
            SignedOut::Failed(why) => {
                format!("the tokens were deleted here, but revoking them failed: {}", visible(why))
            }
        };
        out.line(format_args!("signed out of `{server}`; {message}"))?;
    }
    Ok(())
}
