//! `stdio` and `wrap`: the gate as a child process of one client. Stdout belongs to the protocol, so
//! nothing else is written there.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use gateway::{Gate, Identity, RunError, Wrapped};
use platform::streams::{Input, Output};
use policy::Policy;
use serde_json::Value;
use store::registry::{EnvValue, Origin, PolicyText, Server, ServerOptions, Target};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncWriteExt as _, BufReader, DuplexStream, ReadBuf,
};
use tokio::sync::{mpsc, watch};

use crate::context::{Context, Stores, is_about_the_key};
use crate::failure::Ending;
use crate::gate::{END_WAIT_MAX, facts, gate, gate_with_stderr, runtime, signals};
use crate::output::{Out, visible};
use crate::policy_file::{PolicySource, unusable};
use crate::program::find_program;
use crate::running::{RunningFile, StatusChannel};

pub(crate) mod builtin;
mod disk_full;

#[derive(Args)]
pub(crate) struct StdioArgs {
    /// The server: one you added, or one that comes with tollgate
    server: String,
    /// Use this grant; its policy on the server applies
    #[arg(long, value_name = "LABEL", conflicts_with = "policy")]
    grant: Option<String>,
    /// Use this policy file
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Which tools of a built-in server are shown, such as main,classic; sets, tools, or all
    #[arg(long, value_name = "SETS", value_delimiter = ',', conflicts_with = "grant")]
    tools: Vec<String>,
}

impl StdioArgs {
    /// A built-in server with some of its tools.
    pub(crate) fn of(server: &str, tools: Vec<String>, policy: Option<PathBuf>) -> StdioArgs {
        StdioArgs { server: server.to_owned(), grant: None, policy, tools }
    }

    pub(crate) fn server(&self) -> &str {
        &self.server
    }
}

#[derive(Args)]
pub(crate) struct WrapArgs {
    /// The policy file
    #[arg(long, value_name = "FILE")]
    policy: PathBuf,
    /// The server's name in the audit log
    #[arg(long, default_value = "wrapped")]
    name: String,
    /// An environment variable of the command
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// The command that speaks MCP on stdin and stdout, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(crate) fn stdio(args: &StdioArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    match stdio_at_home(args, context, out) {
        // A client whose server exits does not show the reason.
        Err(error) if args.grant.is_none() && disk_full::is_disk_full(&error) => {
            match connectors::connector(&args.server) {
                Some(service) => disk_full::serve(service, &args.tools),
                None => Err(error),
            }
        }
        result => result,
    }
}

fn stdio_at_home(args: &StdioArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let text = args.policy.as_deref().map(|file| policy_file(file, out)).transpose()?;
    let (stores, locked) = match context.open() {
        Err(error) if args.grant.is_none() && is_about_the_key(&error) => {
            (context.open_locked()?, Some(error))
        }
        opened => (opened?, None),
    };
    let look = |name: &str| std::env::var(name).ok();
    if args.grant.is_none()
        && let Some(builtin) = builtin::find(&args.server, &args.tools, &stores, &look)?
        && let Some(policy) = text.clone().or_else(|| builtin.policy.clone())
    {
        if let Some(error) = locked {
            // The client gets this error with every call; the log has the fix.
            tracing::error!("{}", format!("{error:#}").replace("\nhint: ", "; "));
        }
        return serve("stdio", context, &stores, |gate, input, output| async move {
            let wrapped = Wrapped { label: "stdio", server: &builtin.server, policy: &policy };
            Box::pin(gate.wrap(wrapped, None, input, output)).await
        });
    }
    if let Some(error) = locked {
        return Err(error);
    }
    if args.grant.is_none() && text.is_none() {
        check_exists(&args.server, &stores)?;
        bail!(
            "`stdio` needs a grant for server `{}`: add `--grant LABEL`\nhint: `tollgate grant list` shows the grants; `--policy FILE` uses a policy file instead",
            args.server
        );
    }
    let (server, grant) = (args.server.clone(), args.grant.clone().unwrap_or_default());
    serve("stdio", context, &stores, |gate, input, output| async move {
        let identity = text.as_ref().map_or(Identity::Grant(&grant), Identity::Policy);
        Box::pin(gate.stdio(&server, identity, input, output)).await
    })
}

/// Names the nearest server of a name that no server has.
fn check_exists(name: &str, stores: &Stores) -> Result<()> {
    let servers = stores.servers()?;
    if connectors::connector(name).is_some() || servers.iter().any(|one| one.name == name) {
        return Ok(());
    }
    let built_in = connectors::ALL.iter().map(|connector| connector.name());
    let near =
        policy::did_you_mean(name, servers.iter().map(|one| one.name.as_str()).chain(built_in));
    bail!("there is no server `{name}`{near}\nhint: `tollgate server list` shows the servers");
}

pub(crate) fn wrap(args: &WrapArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let policy = policy_file(&args.policy, out)?;
    let stores = context.open()?;
    let now_us = stores.now_us();
    let target = Target::Command {
        argv: args.command.clone(),
        env: environment(&args.env)?,
        cwd: None,
        secret_args: Vec::new(),
    };
    target.check()?;
    // Otherwise the client would only see a closed connection.
    let program = args.command.first().map(String::as_str).unwrap_or_default();
    if find_program(program, None).is_none() {
        let missing = if program.contains('/') { "does not exist" } else { "is not on PATH" };
        bail!(
            "`{program}` {missing}, so nothing was started\nhint: install it, or give its full path"
        );
    }
    let server = Server {
        name: args.name.clone(),
        target,
        options: ServerOptions::default(),
        created_at_us: now_us,
        updated_at_us: now_us,
        origin: Origin::File,
    };
    serve("wrap", context, &stores, |gate, input, output| async move {
        let wrapped = Wrapped { label: "wrap", server: &server, policy: &policy };
        Box::pin(gate.wrap(wrapped, None, input, output)).await
    })
}

/// The capacity of the pipe to the gate.
const PIPE_BYTES: usize = 1 << 16;

/// The initial size of the input buffer.
const INPUT_BUFFER_BYTES: usize = 1 << 16;

type ClientInput = BufReader<UntilStopped<Input>>;

/// Runs a session on stdin and stdout until the client or a signal ends it.
fn serve<F>(
    command: &str,
    context: &Context,
    stores: &Stores,
    session: impl FnOnce(Arc<Gate>, ClientInput, Output) -> F,
) -> Result<Ending>
where
    F: Future<Output = Result<(), RunError>> + Send + 'static,
{
    let runtime = runtime()?;
    let result = runtime.block_on(async {
        let stop = signals::stop()?;
        let ledger = stores.gate_ledger()?;
        let stderr = StderrForwarder::start();
        let gate = gate_with_stderr(Some(stderr.to.clone()), stores, context)?;
        let facts = facts(command, None, stores);
        let running_file = RunningFile::create(stores.home.path(), &facts)?;
        let status_socket = StatusChannel::start(stores.home.path(), &facts, &gate);
        let input = UntilStopped::new(Input::own(), stop);
        let input = BufReader::with_capacity(INPUT_BUFFER_BYTES, input);
        // Spawned on the worker thread, where its calls run, too: from this thread every line would
        // cross threads and wake a sleeping one.
        let running = tokio::spawn(session(Arc::clone(&gate), input, Output::own()));
        match running.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                // The server's stderr has the reason.
                stderr.drain().await;
                return Err(error.into());
            }
            Err(error) => bail!("the session was aborted: {error}"),
        }
        ledger.flush()?;
        drop((running_file, status_socket));
        stderr.drain().await;
        anyhow::Ok(Ending::Yes)
    });
    // A blocking read of a terminal cannot be cancelled.
    runtime.shutdown_timeout(END_WAIT_MAX);
    result
}

/// Forwards the stderr of a server to ours, as if the client had started it.
struct StderrForwarder {
    to: mpsc::Sender<String>,
}

impl StderrForwarder {
    /// Lines buffered for a client that does not read them; further ones are dropped.
    const LINES_MAX: usize = 1024;

    /// On a separate thread: a client that does not read our stderr must not block its calls.
    fn start() -> StderrForwarder {
        let (to, mut lines) = mpsc::channel::<String>(StderrForwarder::LINES_MAX);
        std::thread::spawn(move || {
            let is_terminal = std::io::stderr().is_terminal();
            while let Some(line) = lines.blocking_recv() {
                let line = if is_terminal { visible(&line) } else { line };
                // Stderr may be closed.
                let _ = writeln!(std::io::stderr(), "{line}");
            }
        });
        StderrForwarder { to }
    }

    /// Waits a limited time until the last lines are written.
    async fn drain(&self) {
        const WAIT_MAX: Duration = Duration::from_millis(500);
        let read = async {
            while self.to.capacity() < self.to.max_capacity() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let _ = tokio::time::timeout(WAIT_MAX, read).await;
    }
}

/// Sends messages to a built-in server as the owner and returns the response to the request with this id.
pub(crate) fn request_as_owner(
    server: &str,
    messages: &[u8],
    id: u64,
    context: &Context,
    stores: &Stores,
) -> Result<Value> {
    let every = ["all".to_owned()];
    let builtin = builtin::find(server, &every, stores, &|_| None)?;
    let builtin = builtin.with_context(|| format!("`{server}` is not the built-in server here"))?;
    let policy = builtin.policy.with_context(|| format!("`{server}` has no built-in policy"))?;
    let runtime = runtime()?;
    let response = runtime.block_on(async {
        let ledger = stores.gate_ledger()?;
        let gate = gate(stores, context)?;
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        let response = tokio::spawn(response(far, messages.to_vec(), id));
        let wrapped = Wrapped { label: "owner", server: &builtin.server, policy: &policy };
        let (input, output) = tokio::io::split(near);
        Box::pin(gate.wrap(wrapped, None, BufReader::new(input), output)).await?;
        ledger.flush()?;
        anyhow::Ok(response.await.context("the reading task was aborted")??)
    });
    runtime.shutdown_timeout(END_WAIT_MAX);
    response?.context("the gate did not answer")
}

/// Sends the messages and reads until the response. Closes the pipe only then: a gate whose client has
/// closed its input gives in-flight calls a few seconds, and some calls take longer.
async fn response(
    pipe: DuplexStream,
    messages: Vec<u8>,
    id: u64,
) -> std::io::Result<Option<Value>> {
    let mut pipe = BufReader::new(pipe);
    pipe.write_all(&messages).await?;
    let mut found = None;
    let mut line = Vec::new();
    while pipe.read_until(b'\n', &mut line).await? > 0 {
        let message: Value = serde_json::from_slice(&line).unwrap_or_default();
        line.clear();
        if message.get("id").and_then(Value::as_u64) == Some(id) {
            found = Some(message);
            pipe.shutdown().await?;
        }
    }
    Ok(found)
}

/// A policy file with its name for audit rows.
fn policy_file(file: &Path, out: &Out) -> Result<PolicyText> {
    let source = PolicySource::read(file)?;
    if let Err(error) = Policy::load(&source.text, source.format) {
        let message = format!("policy `{}` does not load, so nothing was started", source.name);
        return Err(unusable(&error.problems, &source, message, out));
    }
    let name = file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    Ok(PolicyText {
        name: name.unwrap_or_default(),
        version: 0,
        sha256: catalog::pins::fingerprint_of_canonical(&source.text).to_string(),
        format: source.format,
        source: source.text,
        origin: Origin::File,
    })
}

fn environment(pairs: &[String]) -> Result<Vec<(String, EnvValue)>> {
    let pair = |text: &String| {
        let (name, value) = text
            .split_once('=')
            .with_context(|| format!("`--env {text}` has no value\nhint: `--env NAME=VALUE`"))?;
        Ok((name.to_owned(), EnvValue::Plain(value.to_owned())))
    };
    pairs.iter().map(pair).collect()
}

/// Input that ends at a signal, so that the shutdown is as orderly as at the end of the client's input.
pub(crate) struct UntilStopped<R> {
    input: R,
    stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl<R> UntilStopped<R> {
    fn new(input: R, mut stop: watch::Receiver<bool>) -> UntilStopped<R> {
        let stopped = Box::pin(async move {
            let _ = stop.wait_for(|stop| *stop).await;
        });
        UntilStopped { input, stopped }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for UntilStopped<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut TaskContext<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.stopped.as_mut().poll(task).is_ready() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.input).poll_read(task, buffer)
    }
}
