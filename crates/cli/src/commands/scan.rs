//! `tollgate scan`: what a server offers, the risk of each tool and why, which attacks use it, and what
//! changed since it was accepted. Calls no tool and stores nothing.

use anyhow::{Result, bail};
use catalog::assess::Assessment;
use catalog::classify::Risk;
use catalog::drift::Drift;
use catalog::poison::Poison;
use clap::Args;

use crate::context::Context;
use crate::failure::Ending;
use crate::listing::Scanned;
use crate::output::Out;

mod detail;
mod report;
mod show;
mod target;

#[derive(Args)]
pub(crate) struct ScanArgs {
    /// A URL, a registered server, a `server.json`, a client's settings, or a saved `tools/list`
    #[arg(value_name = "TARGET", required_unless_present = "command")]
    target: Option<String>,
    /// A command that speaks MCP on stdin and stdout, after `--`
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "target")]
    command: Vec<String>,
    /// Only this server of a file that names several
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    /// Show everything about one tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Print SARIF 2.1.0 for code hosts and editors
    #[arg(long)]
    sarif: bool,
    /// Exit with 1 when a tool has this risk or a higher one, or a poisoned definition
    #[arg(long, value_name = "RISK", value_parser = risk)]
    fail_on: Option<Risk>,
    /// An environment variable of the command
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// A header for the address: NAME to be prompted, NAME=@FILE, or NAME=env:VARIABLE
    #[arg(long, value_name = "NAME[=SOURCE]")]
    header: Vec<String>,
    /// Allow an address that is neither https nor on this machine
    #[arg(long)]
    allow_plain_http: bool,
}

fn risk(text: &str) -> Result<Risk, String> {
    Risk::parse(text).ok_or_else(|| "risks are low, medium, high and critical".to_owned())
}

/// One scanned server.
pub(super) struct Report {
    pub(super) scanned: Scanned,
    pub(super) assessment: Assessment,
    /// Poison in resources, prompts and the server's instructions, with the name of each.
    pub(super) other_poison: Vec<(String, Poison)>,
    /// What changed since the owner accepted it; none for servers that are not registered.
    pub(super) drift: Option<Vec<Drift>>,
}

pub(crate) fn run(args: &ScanArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let scanned = target::read(args, context, out)?;
    let offered = report::offered(&scanned);
    let look_alikes = report::across_servers(&offered);
    let reports: Vec<Report> = scanned
        .into_iter()
        .map(|scanned| report::report(scanned, &look_alikes, &offered))
        .collect();
    if let Some(name) = &args.tool {
        check_tool(name, &reports)?;
    }
    if args.sarif {
        let assessments: Vec<Assessment> = reports.iter().map(|r| r.assessment.clone()).collect();
        let file = args.target.as_deref().filter(|target| std::path::Path::new(target).is_file());
        out.json(&catalog::sarif::sarif(&assessments, file, env!("CARGO_PKG_VERSION")))?;
    } else if out.wants_json() {
        out.json(&report::json(&reports, &look_alikes, args.tool.as_deref()))?;
    } else {
        show::reports(&reports, &look_alikes, args.tool.as_deref(), out)?;
    }
    Ok(ending(args, &reports))
}

fn check_tool(name: &str, reports: &[Report]) -> Result<()> {
    if reports.iter().any(|report| report.assessment.tool(name).is_some()) {
        return Ok(());
    }
    let known: Vec<&str> = reports
        .iter()
        .flat_map(|r| &r.assessment.tools)
        .map(|t| t.name.as_str())
        .take(20)
        .collect();
    bail!("unknown tool `{name}`\nhint: known are {}", known.join(", "))
}

/// No when `--fail-on` is given and a tool reaches it.
fn ending(args: &ScanArgs, reports: &[Report]) -> Ending {
    let Some(threshold) = args.fail_on else { return Ending::Yes };
    let considered = |name: &str| args.tool.as_deref().is_none_or(|wanted| wanted == name);
    let beyond = reports.iter().any(|report| {
        let tools = report.assessment.tools.iter().filter(|tool| considered(&tool.name));
        let bad = |tool: &catalog::assess::AssessedTool| {
            tool.classification.risk >= threshold || tool.poison.is_reported()
        };
        tools.clone().any(bad) || report.other_poison.iter().any(|(_, poison)| poison.is_reported())
    });
    Ending::of(!beyond)
}
