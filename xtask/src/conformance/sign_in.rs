//! The suite's scenarios for OAuth clients, and npm `oidc-provider`, with the gate as the client and a scripted
//! browser.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::Value;

use super::suite::{self, Outcome};
use crate::test::Tally;
use crate::tools::process::{Fixture, Scratch};
use crate::tools::{self, Tools, programs};

const CLIENT: &str = "clients/sign-in.mjs";
const ELICITATION: &str = "clients/url-elicitation.mjs";
const BY_URL: &str = "clients/by-url.mjs";
const OWN_DOCUMENT: &str = "clients/own-document.mjs";
const BEHIND_PROXIES: &str = "clients/behind-proxies.mjs";
const OIDC_SERVER: &str = "servers/oidc-protected.mjs";
/// Several commands per scenario, on a busy machine.
const WAIT_MS_MAX: &str = "180000";

/// Every scenario of a client that acts for a person. Left out: `client-credentials-*`, `wif-jwt-bearer`,
/// `enterprise-managed-authorization` (no person signs in) and `dpop*` (an extension that the gate does not have).
const SCENARIOS: &[&str] = &[
    "metadata-default",
    "metadata-var1",
    "metadata-var2",
    "metadata-var3",
    "basic-cimd",
    "scope-from-www-authenticate",
    "scope-from-scopes-supported",
    "scope-omitted-when-undefined",
    "scope-step-up",
    "scope-retry-limit",
    "token-endpoint-auth-basic",
    "token-endpoint-auth-post",
    "token-endpoint-auth-none",
    "pre-registration",
    "2025-03-26-oauth-metadata-backcompat",
    "2025-03-26-oauth-endpoint-fallback",
    "resource-mismatch",
    "offline-access-scope",
    "offline-access-not-supported",
    "authorization-server-migration",
    "iss-supported",
    "iss-not-advertised",
    "iss-supported-missing",
    "iss-wrong-issuer",
    "iss-unexpected",
    "iss-normalized",
    "metadata-issuer-mismatch",
];

pub(super) fn run(tools: &Tools, tollgate: &Path) -> Result<Tally> {
    let started = Instant::now();
    let mut tally = Tally::default();
    let mut checks = 0;
    for scenario in SCENARIOS {
        let outcome = run_one(tools, tollgate, scenario)
            .with_context(|| format!("conformance, auth/{scenario}"))?;
        checks += outcome.succeeded.values().sum::<usize>();
        if outcome.passed() {
            tally.passed += 1;
        } else {
            tally.failed += 1;
            println!("  auth/{scenario}: {}", outcome.complaints.join("; "));
        }
    }
    for flags in [&[][..], &["--documents"]] {
        let is_good = run_at_oidc(tools, tollgate, CLIENT, flags)?;
        tally.passed += usize::from(is_good);
        tally.failed += usize::from(!is_good);
    }
    for is_good in [
        run_at_oidc(tools, tollgate, ELICITATION, &[])?,
        run_at_oidc(tools, tollgate, BY_URL, &[])?,
        run_with_certificates(tools, tollgate, OWN_DOCUMENT, &[])?,
        run_with_certificates(tools, tollgate, BEHIND_PROXIES, &programs::proxies(&debs()?)?)?,
    ] {
        tally.passed += usize::from(is_good);
        tally.failed += usize::from(!is_good);
    }
    println!(
        "conformance of the gate as an OAuth client: {} of {} scenarios, {checks} checks, {:.0} s",
        tally.passed,
        SCENARIOS.len() + 6,
        started.elapsed().as_secs_f64()
    );
    Ok(tally)
}

fn debs() -> Result<PathBuf> {
    let (folder, _lock) = tools::folder()?;
    Ok(folder.join("debs"))
}

/// A gate with a public address and a certificate: an issuer that fetches its document, or the proxies of the guide.
fn run_with_certificates(
    tools: &Tools,
    tollgate: &Path,
    script: &str,
    programs: &[(&str, PathBuf)],
) -> Result<bool> {
    let certificates = Scratch::new("certificates")?;
    let mut make = Command::new(&tools.python);
    make.arg(tools.e2e.join("servers/certificate.py")).arg(&certificates.path).arg("gate.example");
    let made = make.status().context("cannot start Python")?;
    anyhow::ensure!(made.success(), "cannot make certificates");
    let mut client = tools.node_script(script);
    client.env("TOLLGATE", tollgate).env("CERTIFICATES", &certificates.path);
    client.envs(programs.iter().map(|(name, path)| (name.to_uppercase(), path)));
    let out = client.stdin(Stdio::null()).output().context("cannot start the client")?;
    if !out.status.success() {
        println!("  {script}: {}", String::from_utf8_lossy(&out.stderr));
    }
    Ok(out.status.success())
}

/// A client in front of npm `oidc-provider`: registration or a client document, `resource`, `iss`, three rotations of
/// the refresh token, and sign-ins that agents ask for.
fn run_at_oidc(tools: &Tools, tollgate: &Path, client: &str, flags: &[&str]) -> Result<bool> {
    let mut command = tools.node_script(OIDC_SERVER);
    let server = Fixture::start(command.args(flags).stderr(Stdio::null()))?;
    let expire = server.said.get("expire").and_then(Value::as_str).context("no `expire`")?;
    let mut command = tools.node_script(client);
    command.arg(&server.url).env("TOLLGATE", tollgate).env("EXPIRE_URL", expire);
    let out = command.stdin(Stdio::null()).output().context("cannot start the client")?;
    if !out.status.success() {
        println!("  {client} {flags:?}: {}", String::from_utf8_lossy(&out.stderr));
    }
    Ok(out.status.success())
}

fn run_one(tools: &Tools, tollgate: &Path, scenario: &str) -> Result<Outcome> {
    let results = Scratch::new("auth")?;
    let client = tools.node_words(CLIENT, &[]).join(" ");
    let scenario = format!("auth/{scenario}");
    let words = tools.npm_words("conformance", &["client", "--scenario", &scenario]);
    let (program, arguments) = words.split_first().context("no command")?;
    let mut command = Command::new(program);
    command.args(arguments).args(["--command", &client, "--timeout", WAIT_MS_MAX]);
    command.arg("--output-dir").arg(&results.path).env("TOLLGATE", tollgate);
    let out = command.stdin(Stdio::null()).output().context("cannot start the suite")?;
    let outcome = suite::read_single(&results.path)?;
    outcome.with_context(|| {
        format!("the suite ran no scenario: {}", String::from_utf8_lossy(&out.stderr))
    })
}
