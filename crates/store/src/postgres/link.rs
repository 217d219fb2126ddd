//! A connection to Postgres with its own thread, so that callers on any thread, also those of an
//! async runtime, can use it. It connects when needed; after any failure the connection is dropped,
//! and with it whatever was not committed.

use std::fmt::Write as _;
use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Sleep, sleep, timeout};
use tokio_postgres::{Client, Config, Statement};

use super::address::{Address, Host, SslMode};
use super::tls::Tls;

const CONNECT_MS_MAX: u64 = 3_000;
/// One piece of work, waiting for locks included.
const WORK_MS_MAX: u64 = 6_000;
const LOCK_MS_MAX: u64 = 4_000;
/// A replica that stops inside a transaction loses it after this time, and the others go on.
const IDLE_IN_TRANSACTION_MS_MAX: u64 = 2_000;
/// After a failed connection, callers fail at once for this long.
const RETRY_AFTER_MS: u64 = 200;

/// Why the store could not do what was asked. Nothing in it is secret.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    #[error(
        "cannot reach the store `{address}`: {why}\nhint: check that Postgres runs and accepts this user; tollgate reconnects by itself"
    )]
    Unreachable { address: String, why: String },
    #[error("the store refused a statement: {why}")]
    Refused { code: String, why: String },
    #[error("the store did not answer within {waited_ms} ms")]
    TimedOut { waited_ms: u64 },
    #[error("the store holds something unexpected: {0}")]
    Unexpected(String),
}

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> StoreError {
        let code = error.code().map(|code| code.code().to_owned()).unwrap_or_default();
        StoreError::Refused { code, why: words(&error) }
    }
}

/// What a connection is for, which decides what a commit waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkKind {
    /// Commits return when the rows are visible to all; another connection waits for the flush.
    Append,
    /// Commits return when they are on disk and on synchronous standbys.
    Durable,
}

/// The open connection as a piece of work sees it.
pub(crate) struct Session {
    address: Address,
    kind: LinkKind,
    client: Option<Client>,
    /// A transaction is open on this very connection.
    pub(crate) in_transaction: bool,
    statements: Vec<(&'static str, Statement)>,
    /// Set after a failed connection until the next attempt may be made.
    failed: Option<(StoreError, Pin<Box<Sleep>>)>,
}

type Job =
    Box<dyn for<'s> FnOnce(&'s mut Session) -> Pin<Box<dyn Future<Output = ()> + 's>> + Send>;

#[derive(Debug)]
pub(crate) struct Link {
    jobs: UnboundedSender<Job>,
}

impl Link {
    /// Starts the thread; the first piece of work connects.
    pub(crate) fn start(address: &Address, kind: LinkKind) -> std::io::Result<Link> {
        let (jobs, receiver) = unbounded_channel();
        let session = Session {
            address: address.clone(),
            kind,
            client: None,
            in_transaction: false,
            statements: Vec::new(),
            failed: None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("store-link".to_owned());
        thread.spawn(move || runtime.block_on(serve(session, receiver)))?;
        Ok(Link { jobs })
    }

    /// Does a piece of work on the connection and waits for its result.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        work: impl AsyncFnOnce(&mut Session) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let job: Job = Box::new(move |session| {
            Box::pin(async move {
                // The receiver waits below.
                let _ = sender.send(session.within(work).await);
            })
        });
        let stopped = || StoreError::Unexpected("its connection thread has stopped".to_owned());
        self.jobs.send(job).map_err(|_| stopped())?;
        receiver.recv().unwrap_or_else(|_| Err(stopped()))
    }

    /// Has a piece of work done later, whose failure is of no interest.
    pub(crate) fn post(
        &self,
        work: impl AsyncFnOnce(&mut Session) -> Result<(), StoreError> + Send + 'static,
    ) {
        let job: Job = Box::new(move |session| {
            Box::pin(async move {
                let _ = session.within(work).await;
            })
        });
        // A thread that has stopped has no connection, and the server ends what was open there.
        let _ = self.jobs.send(job);
    }
}

async fn serve(mut session: Session, mut jobs: UnboundedReceiver<Job>) {
    while let Some(job) = jobs.recv().await {
        job(&mut session).await;
    }
}

impl Session {
    /// The connection, opened if necessary.
    pub(crate) async fn client(&mut self) -> Result<&Client, StoreError> {
        if self.client.as_ref().is_none_or(Client::is_closed) {
            self.drop_connection();
            self.client = Some(self.connect().await?);
        }
        self.client.as_ref().ok_or_else(|| StoreError::Unexpected("no connection".to_owned()))
    }

    /// The connection with these statements prepared on it.
    pub(crate) async fn prepared<const N: usize>(
        &mut self,
        texts: [&'static str; N],
    ) -> Result<(&Client, [Statement; N]), StoreError> {
        self.client().await?;
        let mut found = Vec::with_capacity(N);
        for text in texts {
            found.push(self.statement(text).await?);
        }
        let found = found.try_into();
        let found = found.map_err(|_| StoreError::Unexpected("a statement is missing".into()))?;
        Ok((self.client().await?, found))
    }

    async fn statement(&mut self, text: &'static str) -> Result<Statement, StoreError> {
        if let Some((_, known)) = self.statements.iter().find(|(known, _)| *known == text) {
            return Ok(known.clone());
        }
        let made = self.client().await?.prepare(text).await?;
        self.statements.push((text, made.clone()));
        Ok(made)
    }

    /// The server ends an open transaction when the connection closes.
    pub(crate) fn drop_connection(&mut self) {
        self.client = None;
        self.in_transaction = false;
        self.statements.clear();
    }

    async fn within<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut Session) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let done = timeout(Duration::from_millis(WORK_MS_MAX), work(self)).await;
        let done = done.unwrap_or(Err(StoreError::TimedOut { waited_ms: WORK_MS_MAX }));
        if done.is_err() {
            self.drop_connection();
        }
        done
    }

    async fn connect(&mut self) -> Result<Client, StoreError> {
        if let Some((error, pause)) = &mut self.failed
            && timeout(Duration::ZERO, pause.as_mut()).await.is_err()
        {
            return Err(error.clone());
        }
        let limit = Duration::from_millis(CONNECT_MS_MAX);
        let connected = timeout(limit, self.try_connect()).await;
        let connected = connected.unwrap_or_else(|_| Err("it does not answer".to_owned()));
        connected.map_err(|why| {
            let error = StoreError::Unreachable { address: self.address.to_string(), why };
            let pause = Box::pin(sleep(Duration::from_millis(RETRY_AFTER_MS)));
            self.failed = Some((error.clone(), pause));
            error
        })
    }

    async fn try_connect(&self) -> Result<Client, String> {
        let tls = Tls::of(&self.address)?;
        let (client, connection) =
            config(&self.address).connect(tls).await.map_err(|e| words(&e))?;
        tokio::spawn(async move {
            // The client reports the same failure to its caller.
            let _ = connection.await;
        });
        client.batch_execute(&self.setup()).await.map_err(|e| words(&e))?;
        Ok(client)
    }

    fn setup(&self) -> String {
        let synchronous = match self.kind {
            LinkKind::Append => "off",
            LinkKind::Durable => "on",
        };
        let mut text = format!(
            "SET synchronous_commit = {synchronous}; SET lock_timeout = {LOCK_MS_MAX}; \
             SET idle_in_transaction_session_timeout = {IDLE_IN_TRANSACTION_MS_MAX}; \
             SET default_transaction_isolation = 'read committed';"
        );
        if let Some(schema) = &self.address.schema {
            // Its letters were checked when the address was parsed. Writing to a string cannot fail.
            let _ = write!(text, "SET search_path = {schema};");
        }
        text
    }
}

fn config(address: &Address) -> Config {
    let mut config = Config::new();
    // It takes a path for the folder of a socket. On Windows, which has none, it is a name that is not found.
    let (Host::Name(host) | Host::Socket(host)) = &address.host;
    config.host(host);
    if let Some(password) = &address.password {
        config.password(password.expose());
    }
    config
        .port(address.port)
        .user(&address.user)
        .dbname(&address.database)
        .application_name("tollgate")
        .keepalives_idle(Duration::from_secs(5))
        .tcp_user_timeout(Duration::from_millis(WORK_MS_MAX))
        .ssl_mode(match address.ssl_mode {
            SslMode::Disable => tokio_postgres::config::SslMode::Disable,
            SslMode::Require | SslMode::VerifyFull => tokio_postgres::config::SslMode::Require,
        });
    config
}

/// An error with its causes, on one line.
fn words(error: &tokio_postgres::Error) -> String {
    if let Some(found) = error.as_db_error() {
        return format!("{} ({})", found.message(), found.code().code());
    }
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        // Writing to a string cannot fail.
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}
