//! Setting the wall clock while the gate runs loosens nothing: limits stay, and an expired grant
//! stays expired. The gate listens on a real socket; only its clock is simulated.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test, and figures are printed for people"
)]

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use connectors::LazyContext;
use connectors::server_login::ServerLogins;
use gateway::upstream::GuardProgram;
use gateway::{Gate, GateOptions};
use store::clock::{Clock, Now};
use store::home::Home;
use store::ledger::{Ledger, Options};
use store::logins::Logins;
use store::random::Random;
use store::registry::{
    FileNames, NewGrant, NewServer, Registry, ServerAccess, ServerOptions, Target,
};
use store::settings::Settings;
use store::vault::{Vault, run_no_program};
use tokio::sync::watch;

const SECOND_US: i64 = 1_000_000;
const HOUR_US: i64 = 3_600 * SECOND_US;
const YEAR_US: i64 = 365 * 24 * HOUR_US;
/// 2026-11-16, in the morning.
const START: Now = Now { wall_us: 1_794_816_000 * SECOND_US, steady_us: 5_000 * 1_000_000 };
/// Calls per hour of the grant.
const CALLS_MAX: usize = 3;
const POLICY: &str = r#"{"version":"1","default":"deny","tools":{"list_notes":{"limits":[{"window":"hour","max":3,"scope":"grant"}]}}}"#;

/// A listening gate with one built-in server and a grant that lasts two hours.
struct World {
    clock: Clock,
    address: SocketAddr,
    token: String,
    stop: watch::Sender<bool>,
    _folder: tempfile::TempDir,
}

impl World {
    async fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        let (clock, random) = (Clock::set(START), Random::System);
        let home = Home::create(&folder.path().join("home")).unwrap();
        let vault = Arc::new(Vault::open_home(&home, &random, run_no_program).unwrap());
        let registry = Registry::open(&home, Arc::clone(&vault), random.clone()).unwrap();
        let token = furnish(&registry);
        let boot_id = Some("one boot".to_owned());
        let options = Options { boot_id, ..Options::default() };
        let ledger = Ledger::open(&home.audit(), clock.clone(), options).unwrap();
        let logins = Logins::at(&home, Arc::clone(&vault), random.clone());
        let logins = ServerLogins::new(logins, clock.clone(), random.clone(), None);
        let connectors = connector_context(&home, vault, &clock, &random);
        let gate = Gate::new(GateOptions {
            registry: Arc::new(registry),
            ledger: Arc::new(ledger),
            settings: Arc::new(Settings::default()),
            clock: clock.clone(),
            random,
            guard_program: GuardProgram {
                program: "/bin/false".into(),
                args: Vec::new(),
                method: platform::guard::Method::default(),
                files_max: None,
            },
            env: Vec::<(OsString, OsString)>::new(),
            metrics_token: None,
            connectors,
            logins: Arc::new(logins),
            stderr_to: None,
        });
        let gate = gate.unwrap_or_else(|error| panic!("{error}"));
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let listening = gate.listen(any_port, &[], None, 1).await.unwrap();
        let address = listening.address();
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(listening.serve(None, stopped));
        World { clock, address, token, stop, _folder: folder }
    }

    /// Sets the wall clock like a person or a time server; the steady clock stays.
    fn set_wall(&self, by_us: i64) {
        if let Clock::Set(now) = &self.clock {
            now.lock().unwrap().wall_us += by_us;
        }
    }

    /// The result of one call: `ok`, or the code of the refusal.
    async fn call(&self) -> String {
        let (address, token) = (self.address, self.token.clone());
        let answer = tokio::task::spawn_blocking(move || post(address, &token)).await.unwrap();
        for code in ["rate_limited", "\"structuredContent\""] {
            if answer.contains(code) {
                return if code.starts_with('"') { "ok".to_owned() } else { code.to_owned() };
            }
        }
        answer.lines().next().unwrap_or_default().to_owned()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

fn connector_context(
    home: &Home,
    vault: Arc<Vault>,
    clock: &Clock,
    random: &Random,
) -> Arc<LazyContext> {
    let (home, clock, random) = (home.clone(), clock.clone(), random.clone());
    Arc::new(LazyContext::new(move || {
        let (vault, clock, random) = (Arc::clone(&vault), clock.clone(), random.clone());
        let settings = connectors::Settings::default();
        connectors::ConnectorContext::open(&home, vault, clock, random, settings)
            .map_err(|e| e.to_string())
    }))
}

/// Adds the demo server, a policy with a limit and a grant, and returns its token.
fn furnish(registry: &Registry) -> String {
    let (names, now_us) = (FileNames::default(), START.wall_us);
    let target = Target::Builtin { service: "demo".to_owned() };
    let server = NewServer { name: "demo".to_owned(), target, options: ServerOptions::default() };
    registry.add_server(&server, &names, now_us).unwrap();
    registry.put_policy("p", POLICY, policy::Format::Json, "test", &names, now_us).unwrap();
    let server_access =
        vec![ServerAccess { server: "demo".to_owned(), policy: Some("p".to_owned()) }];
    let expires_at_us = Some(now_us + 2 * HOUR_US);
    let grant = NewGrant { label: "alice".to_owned(), server_access, expires_at_us };
    registry.create_grant(&grant, &names, now_us).unwrap().1.expose().to_owned()
}

fn post(address: SocketAddr, token: &str) -> String {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_notes","arguments":{}}}"#;
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "POST /mcp/demo HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn p18_a_limit_holds_however_the_wall_clock_is_set() {
    for jump_us in [SECOND_US, HOUR_US - SECOND_US, YEAR_US] {
        // A jump forward of two hours would end the grant, so only the jump back is larger.
        for jump_us in [-jump_us, jump_us.min(HOUR_US - SECOND_US)] {
            let world = World::new().await;
            for _ in 0..CALLS_MAX {
                assert_eq!(world.call().await, "ok");
            }
            assert_eq!(world.call().await, "rate_limited");
            world.set_wall(jump_us);
            assert_eq!(world.call().await, "rate_limited", "after {jump_us} µs");
            world.set_wall(-jump_us);
            assert_eq!(world.call().await, "rate_limited", "and back by {jump_us} µs");
        }
    }
    println!("P18: the clock set by a second, an hour and a year, there and back: a limit holds");
}

#[tokio::test(flavor = "multi_thread")]
async fn p18_a_grant_that_has_expired_stays_expired_when_the_clock_is_set_back() {
    for jump_us in [2 * HOUR_US + SECOND_US, YEAR_US] {
        let world = World::new().await;
        assert_eq!(world.call().await, "ok");
        world.set_wall(jump_us);
        let refused = world.call().await;
        assert!(refused.contains("401"), "{refused}");
        world.set_wall(-jump_us);
        let refused = world.call().await;
        assert!(refused.contains("401"), "set back: {refused}");
    }
    println!("P18: set back by two hours and a year: an expired grant stays expired");
}

#[tokio::test(flavor = "multi_thread")]
async fn p18_a_clock_that_is_set_back_does_not_prolong_a_grant() {
    let world = World::new().await;
    assert_eq!(world.call().await, "ok");
    world.set_wall(-YEAR_US);
    assert_eq!(world.call().await, "ok");
    // Two hours pass on the steady clock.
    world.clock.advance(u64::try_from(2 * HOUR_US + SECOND_US).unwrap());
    let refused = world.call().await;
    assert!(refused.contains("401"), "{refused}");
}
