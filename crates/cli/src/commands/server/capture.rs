//! `server capture`: whether the arguments of a server's calls are kept, sealed, for auditors.

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use serde_json::json;
use store::registry::{NewServer, Origin, ServerOptions};

use crate::context::Stores;
use crate::failure::Ending;
use crate::output::Out;

#[derive(Args)]
pub(crate) struct CaptureArgs {
    /// The server's name
    name: String,
    #[arg(value_enum)]
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum State {
    On,
    Off,
}

pub(super) fn run(args: &CaptureArgs, stores: &Stores, out: &mut Out) -> Result<Ending> {
    let server = super::find(&args.name, stores)?;
    if server.origin == Origin::File {
        bail!(
            "server `{0}` is defined in tollgate.toml\nhint: write `capture = true` under `[servers.{0}]` in that file",
            server.name
        );
    }
    let capture = args.state == State::On;
    let options = ServerOptions { capture, ..server.options };
    let new = NewServer { name: server.name, target: server.target, options };
    stores.ready_to_note()?;
    stores.registry.replace_server(&new, stores.now_us())?;
    stores.record()?;
    if out.wants_json() {
        out.json(&json!({ "server": new.name, "capture": capture }))?;
    } else if capture {
        out.line(format_args!("the arguments of calls to `{}` are kept, sealed", new.name))?;
        out.say("`tollgate audit show NUMBER --arguments` shows them");
    } else {
        out.line(format_args!("the arguments of calls to `{}` are not kept any more", new.name))?;
        out.say("arguments captured before are kept until they expire");
    }
    Ok(Ending::Yes)
}
