//! `stdio` and `wrap`: the gate as a child of one client. Its standard output belongs to the
//! protocol, so nothing else is ever written there.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use gateway::{Gate, Identity, RunError, Wrapped};
use policy::Policy;
use serde_json::Value;
use store::registry::{EnvValue, Origin, PolicyText, Server, ServerOptions, Target};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncWriteExt as _, BufReader, DuplexStream, ReadBuf,
};
use tokio::sync::{mpsc, watch};

use crate::context::{Context, Stores, is_about_the_key};
use crate::failure::Ending;
use crate::output::{Out, visible};
use crate::policies::{Source, unusable};
use crate::program::find_program;
use crate::run::ends::{Input, Output};
use crate::run::{builtin, facts, gate, gate_heard_by, runtime, signals};
use crate::running::{Mark, Teller};

#[derive(Args)]
pub(crate) struct StdioArgs {
    /// The server to speak for: one you added, or one that comes with tollgate
    server: String,
    /// Speak as this grant; its policy on the server decides
    #[arg(long, value_name = "LABEL", conflicts_with = "policy")]
    grant: Option<String>,
    /// Decide by this policy file
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
    /// The policy file that decides
    #[arg(long, value_name = "FILE")]
    policy: PathBuf,
    /// What the audit log calls the server
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
            // Its client hears so with every call; whoever reads the log may mend it.
            tracing::error!("{}", format!("{error:#}").replace("\nhint: ", "; "));
        }
        return speak("stdio", context, &stores, |gate, input, output| async move {
            let wrapped = Wrapped { label: "stdio", server: &builtin.server, policy: &policy };
            Box::pin(gate.wrap(wrapped, None, input, output)).await
        });
    }
    if let Some(error) = locked {
        return Err(error);
    }
    if args.grant.is_none() && text.is_none() {
        bail!(
            "`stdio` needs a grant for server `{}`: add `--grant LABEL`\nhint: `tollgate grant list` shows the grants; `--policy FILE` names rules instead",
            args.server
        );
    }
    let (server, grant) = (args.server.clone(), args.grant.clone().unwrap_or_default());
    speak("stdio", context, &stores, |gate, input, output| async move {
        let identity = text.as_ref().map_or(Identity::Grant(&grant), Identity::Policy);
        Box::pin(gate.stdio(&server, identity, input, output)).await
    })
}

pub(crate) fn wrap(args: &WrapArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let policy = policy_file(&args.policy, out)?;
    let stores = context.open()?;
    let now_us = stores.now_us();
    let target =
        Target::Command { argv: args.command.clone(), env: environment(&args.env)?, cwd: None };
    target.check()?;
    // A client would only hear that the link is closed.
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
    speak("wrap", context, &stores, |gate, input, output| async move {
        let wrapped = Wrapped { label: "wrap", server: &server, policy: &policy };
        Box::pin(gate.wrap(wrapped, None, input, output)).await
    })
}

/// What a pipe holds; whoever writes more waits until it is read.
const PIPE_BYTES: usize = 1 << 16;

/// Room for what a client sends at once.
const INPUT_BYTES_USUAL: usize = 1 << 16;

type Heard = BufReader<UntilStopped<Input>>;

/// Runs a conversation on our standard streams until the client or a signal ends it.
fn speak<F>(
    command: &str,
    context: &Context,
    stores: &Stores,
    conversation: impl FnOnce(Arc<Gate>, Heard, Output) -> F,
) -> Result<Ending>
where
    F: Future<Output = Result<(), RunError>> + Send + 'static,
{
    let runtime = runtime()?;
    let spoken = runtime.block_on(async {
        let stop = signals::stop()?;
        let ledger = stores.gate_ledger()?;
        let echo = Echo::start();
        let gate = gate_heard_by(Some(echo.to.clone()), stores, context)?;
        let facts = facts(command, None, stores);
        let mark = Mark::set(stores.home.path(), &facts)?;
        let teller = Teller::start(stores.home.path(), &facts, &gate);
        let input = UntilStopped::new(Input::ours(), stop);
        let input = BufReader::with_capacity(INPUT_BYTES_USUAL, input);
        // On the runtime's own thread, where its calls run too: from this one every line would go
        // through two threads, and each way wakes a sleeping one.
        let speaking = tokio::spawn(conversation(Arc::clone(&gate), input, Output::ours()));
        match speaking.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                // Why it did not start is said there.
                echo.end().await;
                return Err(error.into());
            }
            Err(error) => bail!("the conversation broke off: {error}"),
        }
        ledger.flush()?;
        drop((mark, teller));
        echo.end().await;
        anyhow::Ok(Ending::Yes)
    });
    // A read of a terminal that waits for the client cannot be taken back.
    runtime.shutdown_timeout(super::END_WAIT_MAX);
    spoken
}

/// Repeats on our stderr what a server says on its own, as if its client had started it itself.
struct Echo {
    to: mpsc::Sender<String>,
}

impl Echo {
    /// Lines that wait for a client that does not read them; one more is dropped.
    const LINES_MAX: usize = 1024;

    /// On a thread of its own: a client that does not read our stderr must not hold up its calls.
    fn start() -> Echo {
        let (to, mut lines) = mpsc::channel::<String>(Echo::LINES_MAX);
        std::thread::spawn(move || {
            let is_terminal = std::io::stderr().is_terminal();
            while let Some(line) = lines.blocking_recv() {
                let line = if is_terminal { visible(&line) } else { line };
                // Nobody may be there to read it.
                let _ = writeln!(std::io::stderr(), "{line}");
            }
        });
        Echo { to }
    }

    /// Gives the last lines the time to be read, but not for ever.
    async fn end(&self) {
        const WAIT_MAX: Duration = Duration::from_millis(500);
        let read = async {
            while self.to.capacity() < self.to.max_capacity() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let _ = tokio::time::timeout(WAIT_MAX, read).await;
    }
}

/// Says something to a built-in server in the owner's name and gives back what it answers to the request
/// with this id.
pub(crate) fn converse(
    server: &str,
    said: &[u8],
    id: u64,
    context: &Context,
    stores: &Stores,
) -> Result<Value> {
    let every = ["all".to_owned()];
    let builtin = builtin::find(server, &every, stores, &|_| None)?;
    let builtin = builtin.with_context(|| format!("`{server}` is another server here"))?;
    let policy = builtin.policy.with_context(|| format!("`{server}` has no rules"))?;
    let runtime = runtime()?;
    let heard = runtime.block_on(async {
        let ledger = stores.gate_ledger()?;
        let gate = gate(stores, context)?;
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        let heard = tokio::spawn(answer(far, said.to_vec(), id));
        let wrapped = Wrapped { label: "owner", server: &builtin.server, policy: &policy };
        let (input, output) = tokio::io::split(near);
        Box::pin(gate.wrap(wrapped, None, BufReader::new(input), output)).await?;
        ledger.flush()?;
        anyhow::Ok(heard.await.context("nobody heard the answer")??)
    });
    runtime.shutdown_timeout(super::END_WAIT_MAX);
    heard?.context("the gate did not answer")
}

/// Says it all and listens until the answer has come. Only then it hangs up: a gate whose client has
/// nothing more to say gives what is under way a few seconds, and some calls take longer.
async fn answer(pipe: DuplexStream, said: Vec<u8>, id: u64) -> std::io::Result<Option<Value>> {
    let mut pipe = BufReader::new(pipe);
    pipe.write_all(&said).await?;
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

/// A policy file with the name that audit rows will give it.
fn policy_file(file: &Path, out: &Out) -> Result<PolicyText> {
    let source = Source::read(file)?;
    if let Err(error) = Policy::load(&source.text, source.format) {
        let words = format!("policy `{}` does not load, so nothing was started", source.name);
        return Err(unusable(&error.problems, &source, words, out));
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

/// Input that ends when a signal asks the gate to stop, so that the end is as orderly as the
/// client's own.
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
