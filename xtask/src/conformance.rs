//! The official conformance suite, directly at our conformance server and through the gate: what
//! passes directly must pass through the gate, check by check.

mod forwarder;
mod sign_in;
mod suite;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::json;

use crate::test::Tally;
use crate::tools::Tools;
use crate::tools::gate::{Gate, Upstream};
use crate::tools::process::Fixture;
use forwarder::Forwarder;
use suite::{Outcome, Scenarios, Suite};

const SERVER: &str = "servers/conformance-server.mjs";
/// What a lost check said, cut to this many characters, is enough to find it.
const WORDS_MAX: usize = 300;

/// One comparison, scenario by scenario.
struct Leg {
    name: &'static str,
    suite: Suite,
    /// Flags of the server, the same in the direct run and behind the gate.
    flags: &'static [&'static str],
    behind: Behind,
    /// Scenarios that must differ, because what they check does not exist in front of such
    /// a server; a name that ends in `*` is a beginning.
    differs: &'static [&'static str],
}

enum Behind {
    Http { era: &'static str },
    Stdio,
}

const BOTH: Behind = Behind::Http { era: "both" };

const STREAMED: &[&str] = &["--responses", "sse"];
/// The server sends requests on the client's GET stream: a gate must have it open before the first call.
const ASKS_ON_GET: &[&str] = &["--ask-on", "get"];

/// A response over stdio is one message, so there is no stream to count, close or resume.
const NO_STREAMS: &[&str] = &["server-sse-multiple-streams", "server-sse-polling"];
/// An older server sends requests without the names that the suite expects, has other tasks, and learns its
/// client's capabilities once, so it cannot refuse a single client.
const OLDER_QUESTIONS: &[&str] = &[
    "input-required-result-basic-elicitation",
    "input-required-result-ignore-extra-params",
    "server-stateless",
    "tasks-*",
];
/// A newer server has no resumable streams.
const NO_RESUMING: &[&str] = &["server-sse-polling"];

const LEGS: &[Leg] = &[
    leg("2026-07-28", Suite::Requirements("2026-07-28"), &[], BOTH, &[]),
    leg("2026-07-28, all streamed", Suite::Requirements("2026-07-28"), STREAMED, BOTH, &[]),
    leg("2025-11-25", Suite::Requirements("2025-11-25"), &[], BOTH, &[]),
    leg("2025-11-25, asked on GET", Suite::Requirements("2025-11-25"), ASKS_ON_GET, BOTH, &[]),
    leg("2025-06-18", Suite::Revision("2025-06-18"), &[], BOTH, &[]),
    leg(
        "2026-07-28 before stdio",
        Suite::Requirements("2026-07-28"),
        &[],
        Behind::Stdio,
        NO_STREAMS,
    ),
    leg(
        "2025-11-25 before stdio",
        Suite::Requirements("2025-11-25"),
        &[],
        Behind::Stdio,
        NO_STREAMS,
    ),
    leg(
        "2026-07-28 before a legacy server",
        Suite::Requirements("2026-07-28"),
        &[],
        Behind::Http { era: "legacy" },
        OLDER_QUESTIONS,
    ),
    leg(
        "2025-11-25 before a modern server",
        Suite::Requirements("2025-11-25"),
        &[],
        Behind::Http { era: "modern" },
        NO_RESUMING,
    ),
];

const fn leg(
    name: &'static str,
    suite: Suite,
    flags: &'static [&'static str],
    behind: Behind,
    differs: &'static [&'static str],
) -> Leg {
    Leg { name, suite, flags, behind, differs }
}

impl Leg {
    fn may_differ(&self, scenario: &str) -> bool {
        self.differs.iter().any(|known| match known.strip_suffix('*') {
            Some(beginning) => scenario.starts_with(beginning),
            None => scenario == *known,
        })
    }
}

/// A limitation of the SDK of our server: a stream is open, with status 200, before the handler can
/// answer -32021, which requires a 400.
const SDK_CANNOT: &[(&str, &str)] = &[("2026-07-28, all streamed", "server-stateless")];

/// The result: one test per scenario that must match.
#[derive(Debug, Default)]
pub(crate) struct SuiteReport {
    pub(crate) tally: Tally,
}

/// Runs every leg and prints the counts. The direct run and the run through the gate of a leg run
/// in parallel, because the suite mostly waits.
pub(crate) fn run(tools: &Tools, tollgate: &Path) -> Result<SuiteReport> {
    let mut report = SuiteReport::default();
    let mut direct_runs: BTreeMap<String, Scenarios> = BTreeMap::new();
    for leg in LEGS {
        let started = Instant::now();
        let key = format!("{:?} {:?}", leg.suite, leg.flags);
        let known = direct_runs.remove(&key);
        let (direct, gated) = std::thread::scope(|scope| {
            let direct = scope.spawn(|| known.map_or_else(|| run_direct(tools, leg), Ok));
            let gated = run_through_gate(tools, tollgate, leg);
            (direct.join(), gated)
        });
        let direct = direct.map_err(|_| anyhow::anyhow!("the direct run broke off"))??;
        let gated = gated.with_context(|| format!("conformance, {}", leg.name))?;
        let lost = compare(leg, &direct, &gated);
        println!(
            "{}, {:.0} s",
            lost.summary(leg, &direct, &gated),
            started.elapsed().as_secs_f64()
        );
        lost.print();
        let judged = direct.keys().filter(|scenario| !leg.may_differ(scenario)).count();
        report.tally.failed += lost.scenarios.len();
        report.tally.passed += judged - lost.scenarios.len();
        direct_runs.insert(key, direct);
    }
    let signed_in = sign_in::run(tools, tollgate)?;
    report.tally.passed += signed_in.passed;
    report.tally.failed += signed_in.failed;
    Ok(report)
}

/// The suite without a gate: checks the harness itself.
pub(crate) fn run_all_direct(tools: &Tools) -> Result<SuiteReport> {
    let mut report = SuiteReport::default();
    for leg in LEGS.iter().filter(|leg| leg.differs.is_empty()) {
        let started = Instant::now();
        let direct = run_direct(tools, leg)?;
        let checks = checks(&direct);
        let seconds = started.elapsed().as_secs_f64();
        println!(
            "conformance {}, directly: {} of {} scenarios, {checks} checks, {seconds:.0} s",
            leg.name,
            passing(&direct),
            direct.len()
        );
        let failing = direct.iter().filter(|(_, outcome)| !outcome.passed());
        for (scenario, outcome) in failing {
            println!("  {scenario}: {}", outcome.complaints.join("; "));
            let known = SDK_CANNOT.contains(&(leg.name, scenario.as_str()));
            report.tally.failed += usize::from(!known);
        }
        report.tally.passed += passing(&direct);
    }
    Ok(report)
}

fn run_direct(tools: &Tools, leg: &Leg) -> Result<Scenarios> {
    let mut command = tools.node_script(SERVER);
    let server = Fixture::start(command.args(leg.flags))?;
    suite::run(tools, &server.url, leg.suite)
}

fn run_through_gate(tools: &Tools, tollgate: &Path, leg: &Leg) -> Result<Scenarios> {
    let (upstream, _server) = match leg.behind {
        Behind::Stdio => (Upstream::Command(tools.node_words(SERVER, &["--stdio"])), None),
        Behind::Http { era } => {
            let mut command = tools.node_script(SERVER);
            let server = Fixture::start(command.args(leg.flags).args(["--era", era]))?;
            (Upstream::Url(server.url.clone()), Some(server))
        }
    };
    let allow_all = json!({ "version": "1", "default": "allow" });
    let gate = Gate::start(tollgate, &[("suite", upstream)], &allow_all)?;
    let forwarder = Forwarder::start(&gate.address(), &gate.token)?;
    let url = format!("http://{}/mcp/suite", forwarder.address);
    suite::run(tools, &url, leg.suite)
}

/// Scenarios with checks that pass directly and fail through the gate, with those checks.
struct Lost {
    scenarios: BTreeMap<String, Vec<String>>,
    /// As many as may.
    differ: usize,
}

fn compare(leg: &Leg, direct: &Scenarios, gated: &Scenarios) -> Lost {
    let mut scenarios = BTreeMap::new();
    let mut differ = 0;
    for (name, outcome) in direct {
        let lost = match gated.get(name) {
            None if outcome.succeeded.is_empty() => Vec::new(),
            None => vec!["the scenario did not run".to_owned()],
            Some(through) => lost_checks(outcome, through),
        };
        if lost.is_empty() {
            continue;
        }
        if leg.may_differ(name) {
            differ += 1;
        } else {
            scenarios.insert(format!("{}: {name}", leg.name), lost);
        }
    }
    Lost { scenarios, differ }
}

fn lost_checks(direct: &Outcome, gated: &Outcome) -> Vec<String> {
    let mut lost = Vec::new();
    for (check, wanted) in &direct.succeeded {
        let got = gated.succeeded.get(check).copied().unwrap_or(0);
        if got < *wanted {
            lost.push(format!("{check}: {got} of {wanted}"));
        }
    }
    // Complaints alone are not a loss: the direct run may have them as well.
    if !lost.is_empty() {
        lost.extend(gated.complaints.iter().map(|words| words.chars().take(WORDS_MAX).collect()));
    }
    lost
}

impl Lost {
    fn summary(&self, leg: &Leg, direct: &Scenarios, gated: &Scenarios) -> String {
        let verdict = match (self.scenarios.len(), self.differ) {
            (0, 0) => "nothing lost".to_owned(),
            (0, count) => format!("nothing lost but {count} scenarios that cannot be alike there"),
            (count, _) => format!("{count} scenarios LOST"),
        };
        let (before, through) = (checks(direct), checks(gated));
        let name = leg.name;
        format!(
            "conformance {name}: {before} checks in {} scenarios directly, {through} in {} through the gate, {verdict}",
            passing(direct),
            passing(gated),
        )
    }

    fn print(&self) {
        for (scenario, lost) in &self.scenarios {
            println!("  {scenario}");
            for words in lost {
                println!("    {words}");
            }
        }
    }
}

fn passing(scenarios: &Scenarios) -> usize {
    scenarios.values().filter(|outcome| outcome.passed()).count()
}

fn checks(scenarios: &Scenarios) -> usize {
    scenarios.values().flat_map(|outcome| outcome.succeeded.values()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(succeeded: &[(&str, usize)], failed: usize, complaints: &[&str]) -> Outcome {
        Outcome {
            succeeded: succeeded.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect(),
            failed,
            complaints: complaints.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn a_check_that_succeeds_less_often_is_lost() {
        let direct = outcome(&[("a", 2), ("b", 1)], 0, &[]);
        assert!(lost_checks(&direct, &outcome(&[("a", 2), ("b", 1)], 0, &[])).is_empty());
        assert!(lost_checks(&direct, &outcome(&[("a", 3), ("b", 1)], 0, &[])).is_empty());
        assert_eq!(lost_checks(&direct, &outcome(&[("a", 1), ("b", 1)], 1, &["why"])).len(), 2);
    }

    #[test]
    fn a_warning_that_was_there_before_is_not_a_loss() {
        let direct = outcome(&[("a", 1)], 0, &["hm"]);
        assert!(lost_checks(&direct, &outcome(&[("a", 1)], 0, &["hm"])).is_empty());
    }

    #[test]
    fn a_scenario_that_did_not_run_is_lost() {
        let leg = leg("2026-07-28", Suite::Requirements("2026-07-28"), &[], BOTH, &["y*", "z"]);
        let direct = BTreeMap::from([("x".to_owned(), outcome(&[("a", 1)], 0, &[]))]);
        assert_eq!(compare(&leg, &direct, &BTreeMap::new()).scenarios.len(), 1);
        let failing = BTreeMap::from([("x".to_owned(), outcome(&[], 1, &["bad"]))]);
        assert_eq!(compare(&leg, &failing, &BTreeMap::new()).scenarios.len(), 0);
    }
}
