//! `cargo xtask bench scale`: what a call costs on Postgres compared with the files of a home, and how many calls
//! a second several gates carry on one Postgres. Upstream, load generators and server share this machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{TOOLS, build_mcpbench, build_tollgate, policy, wait_for};
use crate::tools::process::{Scratch, Started, free_port};
use crate::tools::programs;

const REPLICAS: &[usize] = &[1, 2, 3];
const SESSIONS: &[usize] = &[1, 16, 100];
const SECONDS: usize = 8;
const SECONDS_QUICK: usize = 2;

/// `cargo xtask bench scale [--quick]`.
pub(crate) fn scale(root: &Path, args: &[String]) -> Result<()> {
    let is_quick = args.iter().any(|arg| arg == "--quick");
    let bench = build_mcpbench(root)?;
    let tollgate = build_tollgate(root)?;
    let upstream = free_port()?;
    let listen = format!("127.0.0.1:{upstream}");
    let tools = TOOLS.to_string();
    let _upstream = Started::silent(
        Command::new(&bench).args(["upstream", "--listen", &listen, "--tools", &tools]),
    )?;
    wait_for(upstream)?;
    let server = Postgres::start()?;
    let seconds = if is_quick { SECONDS_QUICK } else { SECONDS };
    let run = Run { bench, tollgate, upstream, seconds };
    println!(
        "| store | durability | gates | sessions | calls/s | p50 | p99 | calls per transaction |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for durability in ["process", "power"] {
        run.rows("files", durability, 1, None)?;
        for replicas in REPLICAS {
            let schema = format!("{durability}_{replicas}");
            run.rows("Postgres", durability, *replicas, Some((&server, &schema)))?;
        }
    }
    Ok(())
}

struct Run {
    bench: PathBuf,
    tollgate: PathBuf,
    upstream: u16,
    seconds: usize,
}

/// Gates over one store.
struct Gates {
    ports: Vec<u16>,
    token: String,
    _processes: Vec<Started>,
    _homes: Vec<Scratch>,
}

/// What all load generators together measured.
struct Measured {
    calls: f64,
    seconds: f64,
    p50_us: f64,
    p99_us: f64,
}

impl Run {
    fn rows(
        &self,
        name: &str,
        durability: &str,
        replicas: usize,
        store: Option<(&Postgres, &str)>,
    ) -> Result<()> {
        let address = store.map(|(server, schema)| server.schema(schema)).transpose()?;
        let gates = self.gates(durability, replicas, address.as_deref())?;
        for sessions in SESSIONS.iter().filter(|sessions| **sessions >= replicas) {
            let before = store.map(|(server, _)| server.commits()).transpose()?;
            let Measured { calls, seconds, p50_us, p99_us } = self.load(&gates, *sessions)?;
            let commits = store.map(|(server, _)| server.commits()).transpose()?;
            let shared = match (before, commits) {
                (Some(before), Some(after)) => format!("{:.1}", calls / (after - before).max(1.0)),
                _ => String::new(),
            };
            println!(
                "| {name} | {durability} | {replicas} | {sessions} | {:.0} | {p50_us:.0} µs | {p99_us:.0} µs | {shared} |",
                calls / seconds
            );
        }
        Ok(())
    }

    fn gates(&self, durability: &str, replicas: usize, store: Option<&str>) -> Result<Gates> {
        let homes: Vec<Scratch> =
            (0..replicas).map(|_| Scratch::new("scale")).collect::<Result<_>>()?;
        let first = homes.first().context("no gate")?.path.join("home");
        let settings = format!("durability = \"{durability}\"\n");
        let token = self.set_up(&first, &settings, store)?;
        let (mut ports, mut processes) = (Vec::new(), Vec::new());
        for scratch in &homes {
            let home = scratch.path.join("home");
            std::fs::create_dir_all(&home)?;
            if home != first {
                std::fs::copy(first.join("vault.key"), home.join("vault.key"))?;
                std::fs::write(home.join("tollgate.toml"), &settings)?;
            }
            let port = free_port()?;
            let mut up = self.command(&home, store);
            up.args(["up", "--listen", &format!("127.0.0.1:{port}")]);
            processes.push(Started::logged(&mut up, &scratch.path.join("log"))?);
            wait_for(port)?;
            ports.push(port);
        }
        Ok(Gates { ports, token, _processes: processes, _homes: homes })
    }

    fn command(&self, home: &Path, store: Option<&str>) -> Command {
        let mut command = Command::new(&self.tollgate);
        command.arg("--home").arg(home).env_remove("TOLLGATE_STORE");
        command.args(store.iter().flat_map(|store| ["--store", store]));
        command
    }

    /// One server, one policy, one grant; returns its token.
    fn set_up(&self, home: &Path, settings: &str, store: Option<&str>) -> Result<String> {
        std::fs::create_dir_all(home)?;
        let rules = home.with_extension("json");
        std::fs::write(&rules, policy(TOOLS).to_string())?;
        std::fs::write(home.join("tollgate.toml"), settings)?;
        let run = |args: &[&str]| done(self.command(home, store).args(args));
        let url = format!("http://127.0.0.1:{}/mcp", self.upstream);
        run(&["server", "add", "up", "--url", &url])?;
        run(&["policy", "set", "bench", &rules.to_string_lossy()])?;
        let grant = run(&["grant", "create", "bench", "--server", "up=bench", "--json"])?;
        let grant: Value = serde_json::from_str(&grant)?;
        Ok(grant.get("token").and_then(Value::as_str).context("no token")?.to_owned())
    }

    /// The sessions are spread over the gates, one load generator each.
    fn load(&self, gates: &Gates, sessions: usize) -> Result<Measured> {
        let begin = Instant::now();
        let each = sessions / gates.ports.len();
        let loads = thread::scope(|scope| {
            let running: Vec<_> = (gates.ports.iter())
                .map(|port| scope.spawn(move || self.load_one(*port, &gates.token, each)))
                .collect();
            running
                .into_iter()
                .map(|load| load.join().unwrap_or_else(|_| bail!("a load generator panicked")))
                .collect::<Result<Vec<Value>>>()
        })?;
        let number = |load: &Value, key: &str| load.get(key).and_then(Value::as_f64).unwrap_or(0.0);
        let most = |key: &str| loads.iter().map(|load| number(load, key)).fold(0.0, f64::max);
        let seconds = most("seconds");
        if seconds == 0.0 {
            bail!("no call was measured in {:.0} s", begin.elapsed().as_secs_f64());
        }
        let calls = loads.iter().map(|load| number(load, "ok")).sum();
        Ok(Measured { calls, seconds, p50_us: most("p50_us"), p99_us: most("p99_us") })
    }

    fn load_one(&self, port: u16, token: &str, sessions: usize) -> Result<Value> {
        let mut load = Command::new(&self.bench);
        load.args(["load", "--json", "--url", &format!("http://127.0.0.1:{port}/mcp/up")]);
        load.args(["--token", token, "--sessions", &sessions.to_string()]);
        load.args(["--calls", "10000000", "--max-seconds", &self.seconds.to_string()]);
        let said = done(&mut load)?;
        let line = said.lines().find(|line| line.starts_with('{')).context("no result")?;
        Ok(serde_json::from_str(line)?)
    }
}

/// A server of its own, with `fsync` on as in production. Stopped when this is dropped.
struct Postgres {
    bin: PathBuf,
    is_root: bool,
    folder: Scratch,
}

impl Postgres {
    fn start() -> Result<Postgres> {
        programs::ensure()?;
        let bin = programs::postgres_programs().context("there is no Postgres server")?;
        let server =
            Postgres { bin, is_root: programs::is_root()?, folder: Scratch::new("postgres")? };
        let folder = server.folder.path.display().to_string();
        if server.is_root {
            done(Command::new("chown").args(["postgres", &folder]))?;
        }
        let user = ["-A", "trust", "-U", "tollgate", "-E", "UTF8", "--no-locale", "-D", "data"];
        done(server.program("initdb").args(user))?;
        let options = format!(
            "-c listen_addresses='' -c unix_socket_directories='{folder}' -c shared_buffers=256MB"
        );
        let start = ["-D", "data", "-w", "start", "-l", "log", "-o", &options];
        done(server.program("pg_ctl").args(start))?;
        Ok(server)
    }

    /// The server refuses to run as root.
    fn program(&self, name: &str) -> Command {
        let program = self.bin.join(name);
        let mut command = if self.is_root {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]);
            command.arg(program);
            command
        } else {
            Command::new(program)
        };
        command.current_dir(&self.folder.path).stdin(Stdio::null());
        command
    }

    fn sql(&self, text: &str) -> Result<String> {
        let mut psql = Command::new(self.bin.join("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-U", "tollgate", "-d", "postgres", "-c", text, "-h"]);
        done(psql.arg(&self.folder.path))
    }

    /// The address of a new schema.
    fn schema(&self, name: &str) -> Result<String> {
        self.sql(&format!("CREATE SCHEMA {name}"))?;
        let folder = self.folder.path.display();
        Ok(format!("postgres://tollgate@/postgres?host={folder}&schema={name}"))
    }

    fn commits(&self) -> Result<f64> {
        // The statistics of a session are sent about once a second.
        thread::sleep(std::time::Duration::from_millis(1_500));
        let commits = "SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'";
        Ok(self.sql(commits)?.trim().parse()?)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let mut stop = self.program("pg_ctl");
        stop.args(["-D", "data", "-m", "immediate", "stop"]).stdout(Stdio::null());
        let _ = stop.status();
    }
}

/// The output of a command that must succeed. A server that it starts keeps no pipe open.
fn done(command: &mut Command) -> Result<String> {
    let out = Scratch::new("out")?;
    let file = out.path.join("said");
    let said = std::fs::File::create(&file)?;
    let status = command.stdout(said.try_clone()?).stderr(said).status()?;
    let text = std::fs::read_to_string(&file)?;
    if !status.success() {
        bail!("{command:?} ended with {status}: {text}");
    }
    Ok(text)
}
