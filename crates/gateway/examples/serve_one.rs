#![allow(
    clippy::all,
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "scratch"
)]
use std::sync::Arc;
use store::{
    clock::Clock, home::Home, ledger::*, random::Random, registry::*, settings::Settings,
    vault::Vault,
};
fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).map(String::as_str) == Some("__child") {
        let _ = gateway::upstream::shim::run(std::env::args_os());
        return;
    }
    tracing_subscriber_init();
    let rt =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    rt.block_on(async {
        let home = Home::create(std::path::Path::new(&args[1])).unwrap();
        let random = Random::System;
        let vault = Arc::new(Vault::open_home(&home, &random).unwrap());
        let registry = Arc::new(Registry::open(&home, vault, random.clone()).unwrap());
        let names = FileNames::default();
        let target = if args[2] == "demo" {
            Target::Builtin { service: "demo".into() }
        } else if args[2].starts_with("http") {
            Target::from_url(&args[2], vec![], true).unwrap()
        } else {
            Target::Command {
                argv: args[2].split(' ').map(String::from).collect(),
                env: vec![],
                cwd: None,
            }
        };
        registry
            .add_server(
                &NewServer { name: "up".into(), target, options: ServerOptions::default() },
                &names,
                1,
            )
            .unwrap();
        let src = std::fs::read_to_string(&args[3]).unwrap();
        registry.put_policy("p", &src, policy::Format::Json, "me", &names, 1).unwrap();
        let (_, token) = registry
            .create_grant(
                &NewGrant {
                    label: "bench".into(),
                    holdings: vec![Holding { server: "up".into(), policy: Some("p".into()) }],
                    expires_at_us: None,
                },
                &names,
                1,
            )
            .unwrap();
        let ledger =
            Arc::new(Ledger::open(&home.audit(), Clock::System, Options::default()).unwrap());
        let gate = gateway::Gate::new(gateway::GateOptions {
            registry,
            ledger,
            settings: Arc::new(Settings::default()),
            clock: Clock::System,
            random,
            shim: gateway::upstream::Shim {
                program: std::env::current_exe().unwrap(),
                args: vec!["__child".into()],
            },
            env: std::env::vars_os().collect(),
            metrics_token: None,
        })
        .unwrap();
        let l = gate.listen(args[4].parse().unwrap(), &[], None).await.unwrap();
        println!("{}", token.expose());
        let (tx, rx) = tokio::sync::watch::channel(false);
        tokio::spawn(async move {
            tokio::signal::ctrl_c().await.unwrap();
            tx.send(true).unwrap();
        });
        l.serve(None, rx).await;
    });
}
fn tracing_subscriber_init() {}
