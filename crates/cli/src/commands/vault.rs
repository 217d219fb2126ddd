//! `tollgate vault`: shows where the key that seals this home's secrets is stored, and moves it.

use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use store::home::Home;
use store::vault::{
    ExternalKey, KeyError, KeyProgramError, KeyStore, Program, ProgramTimeout, WAIT_SECONDS,
    WAIT_SECONDS_MAX, copies,
};

use crate::context::{Context, Stores};
use crate::failure::{Ending, ErrorReport};
use crate::output::{Out, visible};
use crate::variables::KEY_VARIABLE;
use crate::vault_key::{KeySource, Keyring, confirmed};

#[derive(Subcommand)]
pub(crate) enum VaultCommand {
    /// Show where the key is, and whether it opens this home
    Status,
    /// Move the key to the keyring, to a program of yours, or back into the file
    Move(MoveArgs),
    /// Allow the program that `vault.key` names to be run on this machine, for a home that was moved here
    Confirm,
}

#[derive(Args)]
pub(crate) struct MoveArgs {
    /// Where to: keyring, command, or file
    #[arg(long, value_name = "TARGET", value_enum, hide_possible_values = true)]
    to: Target,
    /// How long the keyring or the command may take each time
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = WAIT_SECONDS,
        value_parser = clap::value_parser!(u64).range(1..=WAIT_SECONDS_MAX)
    )]
    wait: u64,
    /// With `--to command`: what prints the key, which you have put there; after `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Target {
    Keyring,
    Command,
    File,
}

impl VaultCommand {
    pub(crate) fn run(self, context: &Context, out: &mut Out) -> Result<Ending> {
        match self {
            VaultCommand::Status => status(context, out),
            VaultCommand::Move(args) => move_key(args, context, out),
            VaultCommand::Confirm => confirm(context, out),
        }
    }
}

fn status(context: &Context, out: &mut Out) -> Result<Ending> {
    let home = Home::open(&context.home_path()?)?;
    let source = KeySource::of(&home)?;
    // Also fetches the key and compares it with the key id in `gate.db`.
    let opened = context.open();
    let (id, problem) = match &opened {
        Ok(stores) => (Some(stores.registry.vault().key_id()), None),
        Err(error) => (None, Some(ErrorReport::of(error))),
    };
    let copies = copies(&home);
    if out.wants_json() {
        out.json(&json!({
            "vault_key": source.json(),
            "id": id,
            "opens": opened.is_ok(),
            "trouble": problem,
            "copies": copies,
        }))?;
        return Ok(Ending::of(opened.is_ok()));
    }
    out.line(format_args!("key        from {}", visible(&source.to_string())))?;
    if let KeySource::External(external) = &source {
        out.line(format_args!("command    {}", visible(&external.command.to_string())))?;
        out.line(format_args!("wait       {} s at most", external.wait_seconds_max.seconds()))?;
    }
    if let Some(id) = id {
        out.line(format_args!("id         {id}"))?;
    }
    out.line(format_args!("opens      {}", if opened.is_ok() { "this home" } else { "nothing" }))?;
    for copy in copies {
        out.line(format_args!("copy       {}", visible(&copy.display().to_string())))?;
    }
    if let Some(problem) = problem {
        out.flush()?;
        out.say(problem.text(out.stderr_paint()).trim_end());
    }
    Ok(Ending::of(opened.is_ok()))
}

fn confirm(context: &Context, out: &mut Out) -> Result<Ending> {
    let home = Home::open(&context.home_path()?)?;
    let KeySource::External(external) = KeySource::of(&home)? else {
        bail!("`vault.key` of this home names no program, so there is nothing to confirm");
    };
    confirmed::confirm(home.path(), &external)?;
    let command = visible(&external.command.to_string());
    if out.wants_json() {
        out.json(&json!({ "confirmed": external.command, "home": home.path() }))?;
    } else {
        let shown = visible(&home.path().display().to_string());
        out.line(format_args!("confirmed: `{command}` is run for the vault key of `{shown}`"))?;
    }
    Ok(Ending::Yes)
}

fn move_key(args: MoveArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    if (args.to == Target::Command) == args.command.is_empty() {
        bail!(
            "`--to command` needs a command, and no other target takes one\nhint: `tollgate vault move --to command -- pass show tollgate`"
        );
    }
    // Opened first: only a key that opens this home is moved.
    let stores = context.open()?;
    let from = KeySource::of(&stores.home)?;
    if matches!(from, KeySource::Environment) {
        bail!(
            "the vault key comes from `{KEY_VARIABLE}` and cannot be moved\nhint: to let tollgate keep it, write its line into `{}` (mode 0600) and unset `{KEY_VARIABLE}`",
            stores.home.vault_key().display()
        );
    }
    let wait = ProgramTimeout::try_from(args.wait).map_err(|message| anyhow!(message))?;
    let to = match args.to {
        Target::File => None,
        Target::Keyring => {
            Some(Keyring::of_this_system().external(stores.registry.vault().key_id(), wait)?)
        }
        Target::Command => Some(ExternalKey {
            keeper: KeyStore::Command,
            key: stores.registry.vault().key_id(),
            command: Program::try_from(args.command).map_err(|message| anyhow!(message))?,
            wait_seconds_max: wait,
        }),
    };
    let moved = match (&from, &to) {
        (KeySource::File, None) => None,
        (KeySource::External(from), Some(to)) if from == to => None,
        (_, to) => {
            let begun = stores.begin("vault_moved", "vault")?;
            let carried = store_key(to.as_ref(), wait, &stores, context);
            if carried.is_err() {
                stores.undone(&begun);
            }
            carried.with_context(|| {
                format!("the vault key was not moved; it comes from {from} as before")
            })?;
            Some(begun)
        }
    };
    let now = KeySource::of(&stores.home)?;
    if let Some(begun) = &moved {
        stores.done(begun, &format!("{} to {}", from.name(), now.name()))?;
    }
    let moved = moved.is_some();
    report(&from, &now, moved, &stores, out)
}

/// Stores the key at its new location, and updates `vault.key` once it was read back from there.
fn store_key(
    to: Option<&ExternalKey>,
    wait: ProgramTimeout,
    stores: &Stores,
    context: &Context,
) -> Result<()> {
    let Some(external) = to else {
        return Ok(stores.registry.vault().move_to_file(&stores.home, &context.random)?);
    };
    if external.keeper == KeyStore::Keyring {
        let put = Keyring::of_this_system().put(stores.registry.vault(), wait)?;
        put.map_err(|why| refused(external, "did not store it", why))?;
    }
    // The owner has just named the program. Confirmed before the file is written: other processes may open
    // the home at any time.
    confirmed::confirm(stores.home.path(), external)?;
    match stores.registry.vault().move_to(external, &stores.home, &context.random, context.ask) {
        Err(KeyError::External { external, source }) => {
            Err(refused(&external, "does not return it", source))
        }
        left => Ok(left?),
    }
}

fn refused(external: &ExternalKey, how: &str, why: KeyProgramError) -> anyhow::Error {
    let message = format!("{external} {how}\nhint: {}", external.hint(&why));
    anyhow::Error::new(why).context(message)
}

fn report(
    from: &KeySource,
    now: &KeySource,
    moved: bool,
    stores: &Stores,
    out: &mut Out,
) -> Result<Ending> {
    let id = stores.registry.vault().key_id();
    if out.wants_json() {
        out.json(&json!({
            "vault_key": now.json(),
            "id": id,
            "from": from.name(),
            "moved": moved,
        }))?;
        return Ok(Ending::Yes);
    }
    let word = if moved { "now comes" } else { "comes" };
    out.line(format_args!("the vault key {word} from {}", visible(&now.to_string())))?;
    if !moved {
        return Ok(Ending::Yes);
    }
    if let KeySource::External(external) = now {
        out.say(format_args!(
            "a copy of the home cannot be opened without it; also keep what `{}` prints in a safe place",
            visible(&external.command.to_string())
        ));
        for copy in copies(&stores.home) {
            let copy = copy.display().to_string();
            out.warn(format_args!("`{}` still holds a key in clear", visible(&copy)));
        }
    }
    if let KeySource::External(ExternalKey { keeper: KeyStore::Keyring, .. }) = from {
        let removal = Keyring::of_this_system().removal(&id);
        out.say(format_args!("the keyring still has it; `{removal}` removes it"));
    }
    Ok(Ending::Yes)
}
