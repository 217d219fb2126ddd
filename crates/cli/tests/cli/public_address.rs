//! A gate behind a proxy with TLS: what the doctor says about each client and each mistake, and the gate's own client
//! metadata document.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::Value;

use crate::cli_test::{CliTest, CommandOutput, Up, set_bits};

const ORIGIN: &str = "https://gate.example";

/// The proxy. Killed when dropped.
struct Proxy {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    port: u64,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Proxy {
    fn start(test: &mut CliTest, name: &str) -> Proxy {
        let (certificate, key) = certificate(test, name);
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/tls_proxy.py");
        let mut command = Command::new("python3");
        command.args([script, &certificate, &key]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let facts: Value = serde_json::from_str(&line).unwrap();
        Proxy { child, stdin, stdout, port: facts["port"].as_u64().unwrap() }
    }

    fn tell(&mut self, command: &str) {
        writeln!(self.stdin, "{command}").unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        assert_eq!(line, "ok\n");
    }

    fn lead_to(&mut self, up: &Up) {
        let port = up.url().trim_end_matches("/mcp").rsplit(':').next().unwrap();
        self.tell(&format!("target {port}"));
    }

    fn doctor(&self, test: &CliTest, origin: &str) -> CommandOutput {
        let connect_to = format!("127.0.0.1:{}", self.port);
        test.run(&["doctor", &format!("--public={origin}"), "--connect-to", &connect_to, "--json"])
    }
}

/// The files of a certificate for this name and of its key, signed by a CA that the commands of the test trust.
pub(crate) fn certificate(test: &mut CliTest, name: &str) -> (String, String) {
    certificate_for(test, &[name])
}

pub(crate) fn certificate_for(test: &mut CliTest, names: &[&str]) -> (String, String) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params =
        CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
            .unwrap();
    let certificate = params.signed_by(&key, &ca).unwrap();
    let trusted = test.write("ca.pem", &ca.pem());
    test.set("SSL_CERT_FILE", &trusted);
    let certificate = test.write("cert.pem", &certificate.pem());
    (certificate, test.write("key.pem", &key.serialize_pem()))
}

fn finding<'f>(findings: &'f Value, about: &str) -> &'f Value {
    let mut all = findings.as_array().unwrap().iter();
    all.find(|finding| finding["about"] == about).unwrap_or_else(|| panic!("{about}: {findings}"))
}

/// Health, words and remedy of a finding.
fn told(findings: &Value, about: &str) -> String {
    let found = finding(findings, about);
    let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
    format!("{} {} | {}", text("health"), text("words"), text("mend"))
}

const CLIENTS: [&str; 5] = ["claude.ai", "ChatGPT", "VS Code", "Cursor", "Claude Code"];

#[test]
fn the_doctor_walks_the_way_of_each_client_through_tls_and_names_each_mistake() {
    let mut test = CliTest::with_demo();
    let mut proxy = Proxy::start(&mut test, "gate.example");
    let up = test.up(&["--public-url", ORIGIN]);
    proxy.lead_to(&up);
    let walk = proxy.doctor(&test, ORIGIN);
    assert_eq!(walk.code, 0, "{}", walk.all_output());
    let findings = walk.json();
    for client in CLIENTS {
        let words = told(&findings, client);
        assert!(words.starts_with("good can sign in at https://gate.example/mcp"), "{words}");
    }
    assert!(told(&findings, "dashboard").starts_with("good not served"), "{findings}");

    // The fault, the step at which Claude Code stops, what is said, and what to do.
    for (fault, step, words, fix) in [
        ("guarded", 1, "status 403, not 401", "without a guard of its own"),
        ("redirected", 1, "status 302, not 401", "public_url"),
        ("other_host", 1, "does not know this host name", "pass the Host header on"),
        ("no_challenge", 1, "without the header `WWW-Authenticate`", "unchanged"),
        ("gate_is_down", 1, "status 502", "check that `tollgate up` runs"),
        (
            "no_well_known",
            2,
            "oauth-protected-resource/mcp answers with status 404",
            "/.well-known/",
        ),
        ("no_resource", 2, "oauth-protected-resource/mcp answers with status 404", "/.well-known/"),
        ("no_metadata", 3, "oauth-authorization-server answers with status 404", "/.well-known/"),
        ("page_for_metadata", 3, "is not JSON: something else answers", "/.well-known/"),
        ("guarded_well_known", 2, "answers with status 401", "without a guard of its own"),
        ("wrong_resource", 2, "the gate calls itself `https://gate.example/`", "public_url"),
        ("wrong_issuer", 3, "`issuer` of the authorization server is", "public_url"),
        ("plain_endpoints", 3, "`token_endpoint` of the authorization server is", "public_url"),
        ("no_pkce", 3, "`code_challenge_methods_supported` of", "public_url"),
        ("no_way_to_be_known", 4, "/register answers with status 403", "POST requests with JSON"),
        (
            "login_everywhere",
            1,
            "without the header `WWW-Authenticate`",
            "without a guard of its own",
        ),
        ("no_route", 5, "/authorize answers with status 404", "login of its own"),
        ("login_of_its_own", 5, "/authorize answers with status 302", "login of its own"),
        ("no_token", 6, "/token answers with status 403", "POST requests with forms"),
    ] {
        proxy.tell(&format!("fault {fault}"));
        let walk = proxy.doctor(&test, ORIGIN);
        assert_eq!(walk.code, 1, "{fault}: {}", walk.all_output());
        let findings = walk.json();
        let said = told(&findings, "Claude Code");
        assert!(said.starts_with(&format!("wrong stops at step {step} of 6")), "{fault}: {said}");
        assert!(said.contains(words) && said.contains(fix), "{fault}: {said}");
        for client in CLIENTS {
            assert_eq!(finding(&findings, client)["health"], "wrong", "{fault}: {findings}");
        }
    }
    // What only some clients need stops only those.
    for (fault, stopped, words) in [
        ("no_app_schemes", &["Cursor"][..], "/authorize answers with status 403"),
        ("no_offline_access", &["ChatGPT"], "offline_access"),
        // Clients with a metadata document need no registration, and register where documents are not taken.
        ("closed_registration", &["Cursor"], "/register answers with status 403"),
        ("no_registration", &["Cursor"], "/register answers with status 405"),
        ("no_documents", &[], "-"),
        ("no_bots", &["claude.ai"], "requests of `Claude-User` are refused"),
        (
            "no_urls_in_query",
            &["claude.ai", "ChatGPT", "VS Code", "Claude Code"],
            "/authorize answers with status 403",
        ),
    ] {
        proxy.tell(&format!("fault {fault}"));
        let findings = proxy.doctor(&test, ORIGIN).json();
        for client in CLIENTS {
            let said = told(&findings, client);
            let expected = if stopped.contains(&client) { "wrong" } else { "good" };
            assert!(said.starts_with(expected), "{fault}: {said}");
            assert_eq!(said.contains(words), expected == "wrong", "{fault}: {said}");
        }
    }
    for (fault, words) in [
        ("login_everywhere", "not the gate that answers"),
        ("other_host", "the gate does not know this host name"),
    ] {
        proxy.tell(&format!("fault {fault}"));
        let said = told(&proxy.doctor(&test, ORIGIN).json(), "dashboard");
        assert!(said.starts_with("careful") && said.contains(words), "{said}");
    }
    // Everything works, and the dashboard is open to the world.
    proxy.tell("fault host_of_the_gate");
    let findings = proxy.doctor(&test, ORIGIN).json();
    let said = told(&findings, "dashboard");
    assert!(said.starts_with("wrong") && said.contains("Host header"), "{said}");
}

#[test]
fn a_gate_with_its_own_tls_needs_no_proxy() {
    let mut test = CliTest::with_demo();
    let (certificate, key) = certificate(&mut test, "gate.example");
    set_bits(key.as_ref(), 0o600);
    let settings = format!(
        "public_url = \"{ORIGIN}\"\ntls_cert_file = \"{certificate}\"\ntls_key_file = \"{key}\"\n"
    );
    std::fs::write(test.home().join("tollgate.toml"), settings).unwrap();
    let up = test.up(&[]);
    let at = up.url().strip_prefix("https://").unwrap().trim_end_matches("/mcp");
    let walk = test.run(&["doctor", "--public", "--connect-to", at, "--json"]);
    assert_eq!(walk.code, 0, "{}", walk.all_output());
    let findings = walk.json();
    for client in CLIENTS {
        assert_eq!(finding(&findings, client)["health"], "good", "{findings}");
    }
    assert!(told(&findings, "dashboard").starts_with("good not served"), "{findings}");
}

#[test]
fn a_wrong_certificate_and_a_wrong_name_are_named() {
    let mut test = CliTest::with_demo();
    let mut proxy = Proxy::start(&mut test, "other.example");
    let up = test.up(&["--public-url", "https://other.example"]);
    proxy.lead_to(&up);
    let walk = proxy.doctor(&test, ORIGIN);
    let said = told(&walk.json(), "Claude Code");
    assert!(said.contains("stops at step 1") && said.contains("certificate"), "{said}");

    let good = proxy.doctor(&test, "https://other.example");
    assert_eq!(good.code, 0, "{}", good.all_output());
    // The certificate fits, but the gate has another name.
    drop(up);
    let up = test.up(&["--public-url", ORIGIN]);
    proxy.lead_to(&up);
    let said = told(&proxy.doctor(&test, "https://other.example").json(), "Claude Code");
    assert!(said.contains("does not know this host name"), "{said}");

    let here = test.run(&["doctor", "--public=https://localhost:9", "--json"]).json();
    let said = told(&here, "claude.ai");
    assert!(said.contains("stops at step 1") && said.contains("this machine only"), "{said}");
}
