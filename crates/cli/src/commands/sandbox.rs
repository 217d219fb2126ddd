//! `tollgate sandbox SERVICE`: a stand-in for a service on loopback, for tests and benchmarks in any
//! language. Its first line of output says where it is, which client it knows, and a pair of tokens.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Result, bail};
use clap::Args;
use sandbox::planted::PlantedPerson;
use sandbox::{Config, Sandbox, Service};

use crate::context::Context;
use crate::failure::Ending;
use crate::gate::{runtime, signals};
use crate::output::Out;

const DAY_US: i64 = 86_400_000_000;

#[derive(Args)]
pub(crate) struct SandboxArgs {
    /// The service to stand in for, such as `whoop` or `spotify`
    service: String,
    /// The port on 127.0.0.1; any free one by default
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Days of records up to now
    #[arg(long, default_value_t = 120)]
    days: u32,
    /// The same seed makes the same person
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Respond without the service's rate limits
    #[arg(long)]
    unlimited: bool,
    /// The person has one planted effect of known size, or none, by the seed; `whoop` only
    #[arg(long)]
    planted: bool,
}

pub(crate) fn sandbox(args: &SandboxArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let Some(mut service) = Service::named(&args.service) else {
        let names = Service::NAMES.join("`, `");
        bail!("no sandbox for `{}`\nhint: known are `{names}`", args.service);
    };
    if args.unlimited {
        service.unlimit();
    }
    let bind = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let now_us = context.clock.now().wall_us;
    let mut config = Config { bind, ..Config::of(service, args.seed, args.days, now_us) };
    let planted = args.planted.then(|| plant(&mut config)).transpose()?;
    let sandbox = Sandbox::start(config)?;
    let mut ready = sandbox.control().ready();
    if let (Some(planted), Some(members)) = (planted, ready.as_object_mut()) {
        members.insert("planted".to_owned(), serde_json::to_value(planted)?);
    }
    out.json_line(&ready)?;
    out.flush()?;
    runtime()?.block_on(async {
        let mut stop = signals::stop()?;
        let _ = stop.wait_for(|stop| *stop).await;
        anyhow::Ok(Ending::Yes)
    })
}

/// Makes the member of WHOOP the planted person of the seed, up to today.
fn plant(config: &mut Config) -> Result<PlantedPerson> {
    let Service::Whoop(settings) = &mut config.service else {
        bail!("only `whoop` has planted people");
    };
    let (today, days) = (config.now_us.div_euclid(DAY_US), i64::from(config.days));
    let first = i32::try_from(today - days + 1)?;
    settings.planted_from = Some(first);
    Ok(sandbox::planted::person(config.seed, first, i32::try_from(days)?))
}
