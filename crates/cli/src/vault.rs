//! `tollgate vault`: where the key is that seals this home's secrets, and how it comes to another place.

use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use store::home::Home;
use store::vault::{
    AskError, Elsewhere, Keeper, KeyError, Program, WAIT_SECONDS, WAIT_SECONDS_MAX, Wait, copies,
};

use crate::context::{Context, KEY_VARIABLE, Stores};
use crate::failure::{Account, Ending};
use crate::output::{Out, visible};

mod ask;
pub(crate) mod confirmed;
mod keyring;
mod place;

pub(crate) use ask::ask;
pub(crate) use keyring::Keyring;
pub(crate) use place::KeyPlace;

#[derive(Subcommand)]
pub(crate) enum VaultCommand {
    /// Where the key is, and whether it opens this home
    Status,
    /// Take the key to the keyring, to a program of yours, or back into the file
    Move(MoveArgs),
    /// Allow the program that `vault.key` names to be run on this machine, for a home that was moved here
    Confirm,
}

#[derive(Args)]
pub(crate) struct MoveArgs {
    /// Where to: keyring, command, or file
    #[arg(long, value_name = "PLACE", value_enum, hide_possible_values = true)]
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
    let place = KeyPlace::of(&home)?;
    // Also asks whoever has the key, and compares it with the mark in `gate.db`.
    let opened = context.open();
    let (id, trouble) = match &opened {
        Ok(stores) => (Some(stores.registry.vault().key_id()), None),
        Err(error) => (None, Some(Account::of(error))),
    };
    let copies = copies(&home);
    if out.wants_json() {
        out.json(&json!({
            "vault_key": place.json(),
            "id": id,
            "opens": opened.is_ok(),
            "trouble": trouble,
            "copies": copies,
        }))?;
        return Ok(Ending::of(opened.is_ok()));
    }
    out.line(format_args!("key        from {}", visible(&place.to_string())))?;
    if let KeyPlace::Elsewhere(place) = &place {
        out.line(format_args!("command    {}", visible(&place.command.to_string())))?;
        out.line(format_args!("wait       {} s at most", place.wait_seconds_max.seconds()))?;
    }
    if let Some(id) = id {
        out.line(format_args!("id         {id}"))?;
    }
    out.line(format_args!("opens      {}", if opened.is_ok() { "this home" } else { "nothing" }))?;
    for copy in copies {
        out.line(format_args!("copy       {}", visible(&copy.display().to_string())))?;
    }
    if let Some(trouble) = trouble {
        out.flush()?;
        out.say(trouble.text(out.talk_paint()).trim_end());
    }
    Ok(Ending::of(opened.is_ok()))
}

fn confirm(context: &Context, out: &mut Out) -> Result<Ending> {
    let home = Home::open(&context.home_path()?)?;
    let KeyPlace::Elsewhere(place) = KeyPlace::of(&home)? else {
        bail!("`vault.key` of this home names no program, so there is nothing to confirm");
    };
    confirmed::confirm(home.path(), &place)?;
    let command = visible(&place.command.to_string());
    if out.wants_json() {
        out.json(&json!({ "confirmed": place.command, "home": home.path() }))?;
    } else {
        let shown = visible(&home.path().display().to_string());
        out.line(format_args!("confirmed: `{command}` is run for the vault key of `{shown}`"))?;
    }
    Ok(Ending::Yes)
}

fn move_key(args: MoveArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    if (args.to == Target::Command) == args.command.is_empty() {
        bail!(
            "a command goes with `--to command`, and with nothing else\nhint: `tollgate vault move --to command -- pass show tollgate`"
        );
    }
    // Opened first: only a key that fits this home is worth moving.
    let stores = context.open()?;
    let from = KeyPlace::of(&stores.home)?;
    if matches!(from, KeyPlace::HandedIn) {
        bail!(
            "the vault key is handed in as `{KEY_VARIABLE}`, and stays where it comes from\nhint: to let tollgate keep it, write its line into `{}` (mode 0600) and unset `{KEY_VARIABLE}`",
            stores.home.vault_key().display()
        );
    }
    let wait = Wait::try_from(args.wait).map_err(|words| anyhow!(words))?;
    let to = match args.to {
        Target::File => None,
        Target::Keyring => {
            Some(Keyring::of_this_system().place(stores.registry.vault().key_id(), wait)?)
        }
        Target::Command => Some(Elsewhere {
            keeper: Keeper::Command,
            key: stores.registry.vault().key_id(),
            command: Program::try_from(args.command).map_err(|words| anyhow!(words))?,
            wait_seconds_max: wait,
        }),
    };
    let moved = match (&from, &to) {
        (KeyPlace::File, None) => None,
        (KeyPlace::Elsewhere(from), Some(to)) if from == to => None,
        (_, to) => {
            let begun = stores.begin("vault_moved", "vault")?;
            let carried = carry(to.as_ref(), wait, &stores, context);
            if carried.is_err() {
                stores.undone(&begun);
            }
            carried.with_context(|| {
                format!("the vault key was not moved; it comes from {from} as before")
            })?;
            Some(begun)
        }
    };
    let now = KeyPlace::of(&stores.home)?;
    if let Some(begun) = &moved {
        stores.done(begun, &format!("{} to {}", from.name(), now.name()))?;
    }
    let moved = moved.is_some();
    tell(&from, &now, moved, &stores, out)
}

/// Puts the key into its new place, and lets `vault.key` say so once it came back from there.
fn carry(to: Option<&Elsewhere>, wait: Wait, stores: &Stores, context: &Context) -> Result<()> {
    let Some(place) = to else {
        return Ok(stores.registry.vault().keep_in_file(&stores.home, &context.random)?);
    };
    if place.keeper == Keeper::Keyring {
        let put = Keyring::of_this_system().put(stores.registry.vault(), wait)?;
        put.map_err(|why| refused(place, "did not take it", why))?;
    }
    // The owner has just named it. Before the file does: others may open the home at any moment.
    confirmed::confirm(stores.home.path(), place)?;
    match stores.registry.vault().leave_to(place, &stores.home, &context.random, context.ask) {
        Err(KeyError::Elsewhere { place, source }) => {
            Err(refused(&place, "does not give it back", source))
        }
        left => Ok(left?),
    }
}

fn refused(place: &Elsewhere, how: &str, why: AskError) -> anyhow::Error {
    let words = format!("{place} {how}\nhint: {}", place.way_out(&why));
    anyhow::Error::new(why).context(words)
}

fn tell(
    from: &KeyPlace,
    now: &KeyPlace,
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
    if let KeyPlace::Elsewhere(place) = now {
        out.say(format_args!(
            "a copy of the home opens nothing without it; keep what `{}` prints in a safe place, too",
            visible(&place.command.to_string())
        ));
        for copy in copies(&stores.home) {
            let copy = copy.display().to_string();
            out.warn(format_args!("`{}` still holds a key in clear", visible(&copy)));
        }
    }
    if let KeyPlace::Elsewhere(Elsewhere { keeper: Keeper::Keyring, .. }) = from {
        let removal = Keyring::of_this_system().removal(&id);
        out.say(format_args!("the keyring has it still; `{removal}` takes it out"));
    }
    Ok(Ending::Yes)
}
