//! `tollgate store`: moves a home to the store that replicas share and back, and prepares a store: its
//! tables, and the rights of the user that gates connect as.

use anyhow::{Result, anyhow, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use store::accounts::Accounts;
use store::ledger::{SealKey, Verified};
use store::logins::Logins;
use store::postgres::{self, Address, Rights};

use crate::context::{Context, Stores};
use crate::failure::Ending;
use crate::output::{Out, Progress, count, visible};
use crate::running;
use crate::variables::STORE_VARIABLE;

#[derive(Subcommand)]
pub(crate) enum StoreCommand {
    /// Copy everything from this home to an empty store, or back; stop all gates first
    Copy(CopyArgs),
    /// Make the tables, or bring those of an older version up to date; as their owner
    Migrate(MigrateArgs),
    /// Print the SQL that gives a user the rights of a gate and no more
    Roles(RolesArgs),
}

#[derive(Args)]
pub(crate) struct CopyArgs {
    /// Where to: store, or home
    #[arg(long, value_name = "TARGET", value_enum, hide_possible_values = true)]
    to: Target,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Target {
    Store,
    Home,
}

#[derive(Args)]
pub(crate) struct MigrateArgs {
    /// Also give this user the rights of a gate
    #[arg(long, value_name = "USER")]
    gate: Option<String>,
    #[command(flatten)]
    others: OtherRights,
}

#[derive(Args)]
pub(crate) struct RolesArgs {
    /// The user that gates connect as; it must exist
    #[arg(long, value_name = "USER", default_value = "tollgate")]
    gate: String,
    #[command(flatten)]
    others: OtherRights,
}

#[derive(Args)]
struct OtherRights {
    /// A user that may only read the log and the registry
    #[arg(long, value_name = "USER")]
    reader: Option<String>,
    /// Gates may also delete old rows of the log, for `[retention]`
    #[arg(long)]
    retention: bool,
}

impl OtherRights {
    fn with(self, gate: String) -> Rights {
        Rights { gate, reader: self.reader, may_retire: self.retention }
    }
}

impl StoreCommand {
    pub(crate) fn run(self, context: &Context, out: &mut Out) -> Result<Ending> {
        let store = context.store()?.ok_or_else(|| {
            anyhow!("no store is named\nhint: `--store postgres://USER@HOST/DATABASE`, or set `{STORE_VARIABLE}`")
        })?;
        match self {
            StoreCommand::Copy(args) => copy(&args, &store, context, out),
            StoreCommand::Migrate(args) => migrate(args, &store, out),
            StoreCommand::Roles(args) => {
                let rights = args.others.with(args.gate);
                out.raw(postgres::rights_sql(&store, &rights).as_bytes())?;
                Ok(Ending::Yes)
            }
        }
    }
}

fn migrate(args: MigrateArgs, store: &Address, out: &mut Out) -> Result<Ending> {
    let rights = args.gate.map(|gate| args.others.with(gate));
    let version = postgres::migrate(store, rights.as_ref())?;
    if out.wants_json() {
        out.json(&json!({ "store": store.to_string(), "tables": version }))?;
    } else {
        out.line(format_args!("the tables of {} are of version {version}", shown(store)))?;
    }
    Ok(Ending::Yes)
}

fn copy(args: &CopyArgs, store: &Address, context: &Context, out: &mut Out) -> Result<Ending> {
    let folder = context.home_path()?;
    if context.read_vault(&folder)?.is_none() {
        bail!(
            "there is no vault key in `{}`\nhint: copy `vault.key` there first: home and store have the same key",
            folder.display()
        );
    }
    if let Some(gate) = running::all(&folder).first() {
        bail!("a gate runs on this home (process {})\nhint: stop all gates first", gate.pid);
    }
    let alone = context.without_store();
    let (from, to) = match args.to {
        Target::Store => (&alone, context),
        Target::Home => (context, &alone),
    };
    // Changes of commands that were killed get their rows before the log is copied. Closing it adds one.
    from.open()?.ledger()?;
    let (from, to) = (from.open()?, to.open()?);
    let copied = Progress::during("copying", || Copied::make(&from, &to, args.to, store))?;
    copied.report(args.to, store, out)
}

/// What was copied and compared.
struct Copied {
    rows: usize,
    accounts: usize,
    logins: usize,
    captures: usize,
    log: Verified,
}

impl Copied {
    fn make(from: &Stores, to: &Stores, target: Target, store: &Address) -> Result<Copied> {
        let key = SealKey::of(from.registry.vault());
        let accounts =
            |stores: &Stores| Accounts::of(&stores.home, &stores.registry, stores.random().clone());
        let logins =
            |stores: &Stores| Logins::of(&stores.home, &stores.registry, stores.random().clone());
        let log = from.read_log()?;
        Ok(Copied {
            rows: from.registry.copy_to(&to.registry)?,
            accounts: accounts(from)?.copy_to(&accounts(to)?)?,
            logins: logins(from).copy_to(&logins(to))?,
            captures: from.registry.captures().copy_to(&to.registry.captures())?,
            log: match target {
                Target::Store => log.copy_to_postgres(store, key.as_ref())?,
                Target::Home => log.copy_to_folder(&to.home.audit(), key.as_ref())?,
            },
        })
    }

    fn report(&self, target: Target, store: &Address, out: &mut Out) -> Result<Ending> {
        let Copied { rows, accounts, logins, captures, log } = self;
        if out.wants_json() {
            out.json(&json!({
                "rows": rows,
                "accounts": accounts,
                "logins": logins,
                "captures": captures,
                "log": log,
            }))?;
            return Ok(Ending::Yes);
        }
        let shown = shown(store);
        let (from, to) = match target {
            Target::Store => ("this home".to_owned(), shown),
            Target::Home => (shown, "this home".to_owned()),
        };
        out.line(format_args!(
            "copied and compared, from {from} to {to}: {rows} rows of the registry, {}, {}, {}, audit rows {} to {}",
            count(*accounts, "account"),
            count(*logins, "login"),
            count(*captures, "capture"),
            log.first_seq,
            log.last_seq
        ))?;
        out.say(
            "not copied, because each machine makes its own: mirrors of services and the catalogue",
        );
        Ok(Ending::Yes)
    }
}

fn shown(store: &Address) -> String {
    visible(&store.to_string())
}
