//! `cargo xtask promises`: every promise, the tests that hold it, and the figures they
//! print. `TOLLGATE_ROUNDS` repeats the random parts more often; `--full` uses the counts that the
//! promises name and an optimised build, which takes about two hours for all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::bench::cost::Effort;

/// Where tests live: a package and one of its test targets.
type Suite = (&'static str, &'static str);

const GATE: Suite = ("tollgate", "gate_promises");
const LEDGER: Suite = ("store", "ledger_story");
const LANGUAGE: Suite = ("policy", "language");
const ORPHANS: Suite = ("gateway", "upstream_orphans");
const DAMAGE: Suite = ("gateway", "damage");
const PROTOCOL_DAMAGE: Suite = ("mcp", "damage");
const CLOCK: Suite = ("gateway", "clock_jumps");
const CLASSES: Suite = ("catalog", "classify");
const RECORDS: Suite = ("store", "records_story");
const SEALS: Suite = ("store", "vault_seals");
const MOVES: Suite = ("store", "vault_moves");
const MODES: Suite = ("store", "home_modes");
const FILES: Suite = ("store", "registry_files");
const COMMANDS: Suite = ("tollgate", "cli");
const GRANTS: Suite = ("store", "registry_grants");
/// The tests inside a package stand for a target, too.
const READER: Suite = ("policy", INSIDE);
const INSIDE: &str = "the package itself";

/// The promise about figures: it is measured, and no figure fails it.
const MEASURED: (&str, &str) = ("P17", "the cost of a decision is measured");

/// The promise that the official suite holds, which is a step of `cargo xtask test`.
const CONFORMANCE: (&str, &str) = ("P39", "conformance through the gate is the same as without it");

/// What a full run sets for a promise, beyond the counts of a normal one.
const FULL: &[(&str, &[(&str, &str)])] = &[
    ("P01", &[("TOLLGATE_KILLS", "200")]),
    // Two hundred requests each.
    ("P03", &[("TOLLGATE_ROUNDS", "500")]),
    ("P04", &[("TOLLGATE_KILLS", "200")]),
    ("P05", &[("TOLLGATE_ROUNDS", "1000"), ("TOLLGATE_KILLS", "200")]),
    ("P06", &[("TOLLGATE_ROUNDS", "100")]),
    ("P07", &[("TOLLGATE_ROUNDS", "1000")]),
    ("P10", &[("TOLLGATE_LOGS", "10000")]),
    ("P11", &[("TOLLGATE_CASES", "1000000")]),
    ("P12", &[("TOLLGATE_CASES", "10000000")]),
    ("P13", &[("TOLLGATE_CASES", "100000")]),
    ("P14", &[("TOLLGATE_ROUNDS", "1000")]),
    ("P16", &[("TOLLGATE_BODIES", "1000000")]),
    ("P19", &[("TOLLGATE_ROUNDS", "1000")]),
    // Sixty calls each.
    ("P20", &[("TOLLGATE_ROUNDS", "16667")]),
    // A day and a night on each core would be 86400.
    ("P22", &[("TOLLGATE_FUZZ_SECONDS", "1200")]),
    ("P23", &[("TOLLGATE_CLIENTS", "1000")]),
    ("P24", &[("TOLLGATE_ROUNDS", "60")]),
    ("P25", &[("TOLLGATE_AUDIT_ROWS", "1000000")]),
    ("P26", &[("TOLLGATE_ROUNDS", "100")]),
    ("P27", &[("TOLLGATE_ROUNDS", "200")]),
    ("P28", &[("TOLLGATE_ROUNDS", "200")]),
];

/// How the tests are run.
#[derive(Clone, Copy)]
struct Run {
    is_full: bool,
    variables: &'static [(&'static str, &'static str)],
}

struct Promise {
    id: &'static str,
    words: &'static str,
    /// Suites, each with the part of a test's name that chooses the tests in it.
    held_by: &'static [(Suite, &'static str)],
}

const PROMISES: &[Promise] = &[
    Promise {
        id: "P01",
        words: "no call leaves without its row, also when the gate is killed",
        held_by: &[(GATE, "p01_"), (LEDGER, "crash::")],
    },
    Promise {
        id: "P02",
        words: "calls are refused while the store is gone, damaged or full, and pass again without a restart",
        held_by: &[(GATE, "p02_"), (LEDGER, "trouble::")],
    },
    Promise {
        id: "P03",
        words: "each request leaves exactly one decision row",
        held_by: &[(GATE, "p03_")],
    },
    Promise {
        id: "P04",
        words: "every admitted call is closed; only in-flight calls are unknown",
        held_by: &[(GATE, "p04_")],
    },
    Promise {
        id: "P05",
        words: "a limit is never exceeded, by many clients or by restarts",
        held_by: &[(GATE, "p05_"), (GATE, "p01_"), (LEDGER, "limits::")],
    },
    Promise {
        id: "P06",
        words: "a power cut loses no call that was acknowledged",
        held_by: &[(LEDGER, "power::")],
    },
    Promise {
        id: "P07",
        words: "an approved call runs at most once",
        held_by: &[(GATE, "p07_"), (LEDGER, "approvals::")],
    },
    Promise {
        id: "P08",
        words: "no secret and no argument in files, logs, exports or core dumps",
        held_by: &[(GATE, "p08_"), (COMMANDS, "leaves_no_core")],
    },
    Promise {
        id: "P09",
        words: "tampering with the log is detected and located",
        held_by: &[(LEDGER, "tamper::")],
    },
    Promise {
        id: "P10",
        words: "others can verify the log",
        held_by: &[(LEDGER, "in_python"), (LEDGER, "alike_here_and")],
    },
    Promise {
        id: "P11",
        words: "nothing is allowed by accident, and a deny rule always wins",
        held_by: &[(LANGUAGE, "a_call_is_allowed_only"), (LANGUAGE, "always_wins")],
    },
    Promise {
        id: "P12",
        words: "the engine equals a second, obvious evaluator",
        held_by: &[(LANGUAGE, "second_evaluator")],
    },
    Promise {
        id: "P13",
        words: "the same call gets the same decision",
        held_by: &[(LANGUAGE, "deterministic")],
    },
    Promise { id: "P14", words: "a reload is atomic", held_by: &[(GATE, "p14_")] },
    Promise {
        id: "P15",
        words: "a policy whose own tests fail does not load; errors have line and column",
        held_by: &[(LANGUAGE, "loading::"), (GRANTS, "does_not_load")],
    },
    Promise {
        id: "P16",
        words: "what was judged is what is sent",
        held_by: &[(GATE, "p16_"), (READER, "json::")],
    },
    Promise {
        id: "P18",
        words: "setting the clock loosens nothing",
        held_by: &[(CLOCK, ""), (LEDGER, "limits::")],
    },
    Promise {
        id: "P19",
        words: "a revoked grant ends within a second, with its open streams",
        held_by: &[(GATE, "p19_")],
    },
    Promise { id: "P20", words: "no grant sees another's data", held_by: &[(GATE, "p20_")] },
    Promise {
        id: "P21",
        words: "a changed tool is refused until it is accepted",
        held_by: &[(GATE, "p21_")],
    },
    Promise {
        id: "P22",
        words: "hostile messages, requests and lines are refused, recorded and not forwarded",
        held_by: &[(GATE, "p22_"), (PROTOCOL_DAMAGE, ""), (DAMAGE, "")],
    },
    Promise {
        id: "P23",
        words: "slow and large clients neither exhaust memory nor block others",
        held_by: &[(GATE, "p23_")],
    },
    Promise {
        id: "P24",
        words: "a server that hangs affects no other",
        held_by: &[(GATE, "p24_")],
    },
    Promise {
        id: "P25",
        words: "a shutdown settles every call in time",
        held_by: &[(GATE, "p25_")],
    },
    Promise {
        id: "P26",
        words: "no child outlives the gate",
        held_by: &[(GATE, "p26_"), (ORPHANS, "")],
    },
    Promise {
        id: "P27",
        words: "tokens are sealed to their rows with a key from the keyring or a private file",
        held_by: &[(SEALS, ""), (MOVES, ""), (MODES, ""), (COMMANDS, "vault::")],
    },
    Promise {
        id: "P28",
        words: "a login survives kills during its refresh",
        held_by: &[
            (COMMANDS, "kill_around_the_rotation"),
            (COMMANDS, "rule_1_parallel_calls_in_two_gates"),
        ],
    },
    Promise {
        id: "P29",
        words: "nothing is sent except to what the owner configured",
        held_by: &[(COMMANDS, "p29_")],
    },
    Promise {
        id: "P30",
        words: "exports are complete or absent, private, and in their folder",
        held_by: &[(RECORDS, "export_path::"), (RECORDS, "export::")],
    },
    Promise { id: "P31", words: "deleted data is in no file", held_by: &[(RECORDS, "forgotten")] },
    Promise {
        id: "P32",
        words: "replaying pages in any order changes nothing",
        held_by: &[(RECORDS, "replay::")],
    },
    Promise {
        id: "P33",
        words: "an upgrade keeps the data; newer and foreign files stay as they are",
        held_by: &[(RECORDS, "files::"), (FILES, "")],
    },
    Promise {
        id: "P34",
        words: "no public address without TLS; Host and Origin are checked",
        held_by: &[(GATE, "p34_")],
    },
    Promise {
        id: "P35",
        words: "an agent's token opens the MCP addresses only; the policy schema is public",
        held_by: &[(GATE, "p35_")],
    },
    Promise {
        id: "P36",
        words: "only the owner approves, for one exact call, once",
        held_by: &[(GATE, "p36_"), (LEDGER, "approvals::")],
    },
    Promise {
        id: "P37",
        words: "the risk of a tool is not set too low",
        held_by: &[(CLASSES, "")],
    },
    Promise {
        id: "P38",
        words: "every denial names its rule, its reason and its row",
        held_by: &[(GATE, "p38_")],
    },
];

/// What the tests of a suite said.
#[derive(Default)]
struct Said {
    /// Names of tests, and whether they passed.
    tests: BTreeMap<String, bool>,
    /// Figures by promise, as in `P05: 3 of 50 admitted, 0 over`.
    figures: BTreeMap<String, Vec<String>>,
}

/// Runs the tests of all promises, or of those named, and prints each with its figures.
pub(crate) fn run(root: &Path, words: &[String]) -> Result<bool> {
    let (flags, only): (Vec<&String>, Vec<&String>) =
        words.iter().partition(|word| word.starts_with("--"));
    if let Some(other) = flags.iter().find(|flag| flag.as_str() != "--full") {
        bail!("there is no `{other}`; there is `--full`");
    }
    let wanted = |promise: &&Promise| {
        only.is_empty() || only.iter().any(|id| id.eq_ignore_ascii_case(promise.id))
    };
    let mut known: Vec<&str> = PROMISES.iter().map(|promise| promise.id).collect();
    known.extend([MEASURED.0, CONFORMANCE.0]);
    if let Some(other) =
        only.iter().find(|one| !known.iter().any(|id| one.eq_ignore_ascii_case(id)))
    {
        bail!("there is no promise `{other}` here; there are {}", known.join(", "));
    }
    let promises: Vec<&Promise> = PROMISES.iter().filter(wanted).collect();
    let mut kept = if flags.is_empty() {
        let said = ask(root, &promises, Run { is_full: false, variables: &[] })?;
        promises.iter().filter(|promise| tell(promise, &said)).count()
    } else {
        // One after the other, because each has counts of its own.
        let mut kept = 0;
        for promise in &promises {
            let counts = FULL.iter().find(|(id, _)| *id == promise.id);
            let variables = counts.map_or(&[][..], |(_, variables)| variables);
            let started = Instant::now();
            let said = ask(root, &[promise], Run { is_full: true, variables })?;
            kept += usize::from(tell(promise, &said));
            println!("      {:.0} s, with the build", started.elapsed().as_secs_f64());
        }
        kept
    };
    let mut count = promises.len();
    let is_full = !flags.is_empty();
    // Both print their own figures.
    let measure = || {
        let effort = if is_full { Effort::FULL } else { Effort::QUICK };
        crate::bench::cost::cost(root, effort).map(|()| true)
    };
    let conformance = || crate::test::test(root, &["conformance".to_owned()]);
    let others: [(_, &dyn Fn() -> Result<bool>); 2] =
        [(MEASURED, &measure), (CONFORMANCE, &conformance)];
    for ((id, words), run) in others {
        if only.is_empty() || only.iter().any(|one| one.eq_ignore_ascii_case(id)) {
            let passed = run()?;
            println!("{id} {}: {words}", if passed { "kept" } else { "BROKEN" });
            kept += usize::from(passed);
            count += 1;
        }
    }
    println!("{kept} of {count} promises kept");
    Ok(kept == count)
}

/// Runs the tests that hold these promises, each suite once.
fn ask(root: &Path, promises: &[&Promise], run: Run) -> Result<BTreeMap<Suite, Said>> {
    let mut filters: BTreeMap<Suite, BTreeSet<&str>> = BTreeMap::new();
    for (suite, filter) in promises.iter().flat_map(|promise| promise.held_by) {
        filters.entry(*suite).or_default().insert(filter);
    }
    filters
        .into_iter()
        .map(|(suite, filters)| Ok((suite, tests(root, suite, &filters, run)?)))
        .collect()
}

/// Prints one promise; true when tests ran for each part of it and all passed.
fn tell(promise: &Promise, said: &BTreeMap<Suite, Said>) -> bool {
    let mut kept = true;
    let mut count = 0;
    let mut failed = Vec::new();
    for (suite, filter) in promise.held_by {
        let tests = said.get(suite).into_iter().flat_map(|said| &said.tests);
        let mut ran = 0;
        for (name, passed) in tests.filter(|(name, _)| name.contains(filter)) {
            ran += 1;
            if !passed {
                failed.push(name.as_str());
            }
        }
        // A filter that chooses nothing holds nothing.
        kept &= ran > 0;
        count += ran;
    }
    kept &= failed.is_empty();
    println!(
        "{} {} ({count} tests): {}",
        promise.id,
        if kept { "kept" } else { "BROKEN" },
        promise.words
    );
    let figures = said.values().filter_map(|said| said.figures.get(promise.id)).flatten();
    for figure in figures {
        println!("      {figure}");
    }
    for name in failed {
        println!("      failed: {name}");
    }
    kept
}

/// Runs the chosen tests of one suite; what they print besides is shown only when one fails.
fn tests(
    root: &Path,
    (package, target): Suite,
    filters: &BTreeSet<&str>,
    run: Run,
) -> Result<Said> {
    println!("==> {package}, {target}");
    let mut child = crate::cargo()
        .current_dir(root)
        .args(["test", "--package", package])
        .args(if target == INSIDE { vec!["--lib"] } else { vec!["--test", target] })
        .args(run.is_full.then_some("--profile=promises"))
        .arg("--")
        .envs(run.variables.iter().copied())
        .arg("--show-output")
        .args(filters.iter().filter(|filter| !filter.is_empty()))
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run cargo")?;
    let output = child.stdout.take().context("cargo has no output")?;
    let mut said = Said::default();
    let mut lines = Vec::new();
    for line in BufReader::new(output).lines() {
        let line = line.context("cannot read what cargo says")?;
        note(&line, &mut said);
        lines.push(line);
    }
    if !child.wait().context("cannot wait for cargo")?.success() {
        println!("{}", lines.join("\n"));
        if said.tests.is_empty() {
            bail!("the tests of {package} do not build");
        }
    }
    Ok(said)
}

/// Takes `test NAME ... ok` and `Pnn: figures` out of what a test run prints.
fn note(line: &str, said: &mut Said) {
    if let Some((name, ending)) =
        line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... "))
    {
        said.tests.insert(name.to_owned(), ending == "ok");
    } else if let Some((id, figure)) = line.split_once(": ")
        && id.len() == 3
        && id.starts_with('P')
    {
        said.figures.entry(id.to_owned()).or_default().push(figure.to_owned());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::{PROMISES, Said, note};

    #[test]
    fn the_summary_of_a_test_run_is_parsed() {
        let mut said = Said::default();
        let lines = [
            "running 2 tests",
            "test hostile::p22_x ... ok",
            "test running::p25_y ... FAILED",
            "P05: 3 of 50 admitted, 0 over",
            "error: nothing",
        ];
        for line in lines {
            note(line, &mut said);
        }
        assert_eq!(said.tests.get("hostile::p22_x"), Some(&true));
        assert_eq!(said.tests.get("running::p25_y"), Some(&false));
        assert_eq!(said.figures.get("P05").unwrap(), &["3 of 50 admitted, 0 over"]);
        assert_eq!(said.figures.len(), 1);
    }

    #[test]
    fn promises_are_in_order_and_each_has_a_test() {
        assert!(PROMISES.is_sorted_by_key(|promise| promise.id));
        let known = |id: &str| PROMISES.iter().any(|promise| promise.id == id);
        assert!(super::FULL.iter().all(|(id, _)| known(id)));
        assert!(PROMISES.iter().all(|promise| !promise.held_by.is_empty()));
    }
}
