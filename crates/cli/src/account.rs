//! `tollgate connect`, `accounts`, `disconnect`: the owner's own accounts at services. Secrets come
//! from a prompt, a file, standard input or the environment, never from the command line.

use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use connectors::{Account, Service};

use crate::services;

mod connect;
mod disconnect;
mod refresh;
mod show;
mod sign_in;
mod sources;

pub(crate) use connect::connect;
pub(crate) use disconnect::disconnect;
pub(crate) use refresh::refresh;
pub(crate) use show::show;

#[derive(Args)]
pub(crate) struct ConnectArgs {
    /// The service, such as whoop
    service: String,
    /// Take a token response (JSON) from a file, or from standard input with -, instead of a browser
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// The client id of your app at the service
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// A file with the client secret of your app; - is standard input
    #[arg(long, value_name = "FILE")]
    client_secret_file: Option<PathBuf>,
    /// The port that the browser is redirected to
    #[arg(long, value_name = "N", conflicts_with = "tokens")]
    port: Option<u16>,
    /// Show the address instead of opening a browser
    #[arg(long)]
    no_browser: bool,
    /// If the records here are another person's, delete them and start over
    #[arg(long)]
    replace: bool,
}

#[derive(Args)]
pub(crate) struct AccountsArgs {
    /// Only this service
    service: Option<String>,
    /// Ask each service whether the login works; refreshes it where it is about to end
    #[arg(long)]
    check: bool,
}

#[derive(Args)]
pub(crate) struct DisconnectArgs {
    /// The service, such as whoop
    service: String,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// Keep the records that were fetched
    #[arg(long)]
    keep_data: bool,
    /// Wipe here without revoking consent at the service
    #[arg(long)]
    no_revoke: bool,
}

#[derive(Args)]
pub(crate) struct RefreshArgs {
    service: String,
    /// How many processes to start before the refresh
    #[arg(long, default_value_t = 0)]
    hops: u32,
    /// The process that must end first
    #[arg(long)]
    after: Option<u32>,
}

fn find(name: &str) -> Result<(&'static Service, &'static Account)> {
    services::with_accounts().find(|(service, _)| service.name == name).ok_or_else(|| {
        let known: Vec<&str> = services::with_accounts().map(|(service, _)| service.name).collect();
        let near = policy::did_you_mean(name, known.iter().copied());
        anyhow!("unknown service `{name}`{near}\nhint: there is `{}`", known.join("`, `"))
    })
}

impl ConnectArgs {
    /// Only the service; every option has its default.
    pub(crate) fn of(service: &str) -> ConnectArgs {
        ConnectArgs {
            service: service.to_owned(),
            tokens: None,
            client_id: None,
            client_secret_file: None,
            port: None,
            no_browser: false,
            replace: false,
        }
    }
}

/// A single-threaded runtime for one command.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")
}
