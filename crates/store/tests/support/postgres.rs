//! Real Postgres servers for tests: one that the tests of all processes share, each in a schema of
//! its own, and private ones to restart. Unix sockets only, files in a temporary folder.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    dead_code,
    reason = "each test file uses a part of it"
)]

use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use store::postgres::Address;

/// Stops the shared server and removes its files once no test process has used it for a while.
const WATCH: &str = "
exec 8>start.lock
while sleep 3; do
  flock 8
  exec 9>users.lock
  if flock -n 9; then $RUN $BIN/pg_ctl stop -D data -m immediate >/dev/null 2>&1; rm -rf data; exit 0; fi
  exec 9>&-
  flock -u 8
done
";

/// A running server. A private one is stopped when it is dropped.
pub(crate) struct Server {
    folder: PathBuf,
    private: Option<tempfile::TempDir>,
}

impl Server {
    /// The server of all test processes, started by the first.
    pub(crate) fn shared() -> &'static Server {
        static SHARED: OnceLock<(Server, File)> = OnceLock::new();
        &SHARED.get_or_init(share).0
    }

    /// Where its Unix socket is.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A server of this test alone.
    pub(crate) fn private() -> Server {
        let folder = tempfile::tempdir().unwrap();
        open_to_server(folder.path());
        let server = Server { folder: folder.path().to_owned(), private: Some(folder) };
        server.create();
        server.start();
        server
    }

    /// An empty schema, in which a store can be made.
    pub(crate) fn schema(&self) -> Address {
        Address::parse(&self.address(&self.new_schema()), None).unwrap()
    }

    pub(crate) fn new_schema(&self) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // Test files of one binary each have their own count.
        let random = std::hash::RandomState::new().build_hasher().finish();
        let name = format!("t_{}_{number}_{random:x}", std::process::id());
        self.sql(&format!("DROP SCHEMA IF EXISTS {name} CASCADE; CREATE SCHEMA {name}"));
        name
    }

    /// The address of a schema, to give to another process.
    pub(crate) fn address(&self, schema: &str) -> String {
        format!("postgres://tollgate@/postgres?host={}&schema={schema}", self.folder.display())
    }

    /// Runs statements and returns what they print.
    pub(crate) fn sql(&self, text: &str) -> String {
        self.try_sql(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// The same for statements that the server may refuse.
    pub(crate) fn try_sql(&self, text: &str) -> Result<String, String> {
        let mut psql = Command::new(bin().join("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "tollgate", "-h"]);
        let out = psql.arg(&self.folder).args(["-d", "postgres", "-c", text]).output().unwrap();
        if !out.status.success() {
            return Err(String::from_utf8_lossy(&out.stderr).into_owned());
        }
        Ok(String::from_utf8(out.stdout).unwrap().trim_end().to_owned())
    }

    /// Ends all at once, as a crash does, and starts again.
    pub(crate) fn crash(&self) {
        self.stop();
        self.start();
    }

    pub(crate) fn stop(&self) {
        self.pg_ctl(&["stop", "-m", "immediate"]);
    }

    pub(crate) fn start(&self) {
        self.start_with("-c listen_addresses=''");
    }

    /// Starts it with these settings too.
    pub(crate) fn start_with(&self, settings: &str) {
        let options = format!(
            "{settings} -c unix_socket_directories='{}' -c max_connections=400 \
             -c shared_buffers=32MB",
            self.folder.display()
        );
        self.pg_ctl(&["start", "-l", "server.log", "-o", &options]);
    }

    /// Another server with a copy of this one's data. It follows until it is promoted.
    pub(crate) fn standby(&self) -> Server {
        let folder = tempfile::tempdir().unwrap();
        open_to_server(folder.path());
        let standby = Server { folder: folder.path().to_owned(), private: Some(folder) };
        let mut copy = as_server(&bin().join("pg_basebackup"));
        copy.args(["-U", "tollgate", "-D", "data", "-R", "-X", "stream", "-c", "fast", "-h"]);
        done(copy.arg(&self.folder).current_dir(&standby.folder));
        standby.start();
        standby
    }

    pub(crate) fn promote(&self) {
        self.pg_ctl(&["promote"]);
    }

    /// The database as `pg_dump` writes it.
    pub(crate) fn dump(&self, file: &Path) {
        let mut dump = Command::new(bin().join("pg_dump"));
        dump.args(["-Fc", "-U", "tollgate", "-d", "postgres", "-h"]).arg(&self.folder);
        done(dump.arg("-f").arg(file));
    }

    /// As the guide says it.
    pub(crate) fn restore(&self, file: &Path) {
        let mut restore = Command::new(bin().join("pg_restore"));
        restore.args(["--clean", "--if-exists", "-U", "tollgate", "-d", "postgres", "-h"]);
        done(restore.arg(&self.folder).arg(file));
    }

    /// A file that only the server reads.
    pub(crate) fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder.join(name);
        std::fs::write(&path, content).unwrap();
        set_bits(&path, 0o600);
        if platform::private::is_administrator() {
            done(Command::new("chown").arg("postgres").arg(&path));
        }
        path
    }

    fn create(&self) {
        let mut initdb = as_server(&bin().join("initdb"));
        initdb.args(["-A", "trust", "-U", "tollgate", "-E", "UTF8", "--no-locale", "--no-sync"]);
        done(initdb.args(["-D", "data"]).current_dir(&self.folder));
    }

    fn pg_ctl(&self, arguments: &[&str]) {
        let mut pg_ctl = as_server(&bin().join("pg_ctl"));
        done(pg_ctl.args(["-D", "data", "-w"]).args(arguments).current_dir(&self.folder));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.private.is_some() && self.folder.join("data/postmaster.pid").exists() {
            self.stop();
        }
    }
}

fn share() -> (Server, File) {
    let place = std::env::temp_dir().join(format!("tollgate-postgres-{}", name_of_build()));
    std::fs::create_dir_all(&place).unwrap();
    open_to_server(&place);
    let starting = File::create(place.join("start.lock")).unwrap();
    starting.lock().unwrap();
    let using = File::create(place.join("users.lock")).unwrap();
    using.lock_shared().unwrap();
    let server = Server { folder: place.clone(), private: None };
    let mut status = as_server(&bin().join("pg_ctl"));
    status.args(["status", "-D", "data"]).current_dir(&place).stdout(Stdio::null());
    if !status.stderr(Stdio::null()).status().unwrap().success() {
        let _ = std::fs::remove_dir_all(place.join("data"));
        server.create();
        server.start();
        watch(&place);
    }
    (server, using)
}

/// Two checkouts do not share a server.
fn name_of_build() -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    env!("CARGO_TARGET_TMPDIR").hash(&mut hasher);
    hasher.finish()
}

fn watch(place: &Path) {
    let run: Vec<String> = prefix().map(str::to_owned).collect();
    let mut watcher = Command::new("setsid");
    watcher.args(["-f", "sh", "-c", WATCH]).current_dir(place);
    watcher.env("RUN", run.join(" ")).env("BIN", bin());
    watcher.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    assert!(watcher.status().unwrap().success());
}

/// The server refuses to run as root.
fn prefix() -> impl Iterator<Item = &'static str> {
    let words: &[&str] = if platform::private::is_administrator() {
        &["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]
    } else {
        &[]
    };
    words.iter().copied()
}

fn as_server(program: &Path) -> Command {
    let mut words = prefix();
    let Some(first) = words.next() else { return Command::new(program) };
    let mut command = Command::new(first);
    command.args(words).arg(program);
    command
}

fn set_bits(path: &Path, bits: u32) {
    platform::private::set_bits(&File::open(path).unwrap(), bits).unwrap();
}

/// Lets the user of the server make its files here.
fn open_to_server(folder: &Path) {
    set_bits(folder, 0o755);
    if platform::private::is_administrator() {
        done(Command::new("chown").arg("postgres").arg(folder));
    }
}

fn done(command: &mut Command) {
    let out = command.stdin(Stdio::null()).output().unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(out.status.success(), "{command:?}: {} {}", said(&out.stdout), said(&out.stderr));
}

/// Where the newest server's programs are: Debian keeps them out of the path.
fn bin() -> &'static Path {
    static BIN: OnceLock<PathBuf> = OnceLock::new();
    BIN.get_or_init(|| {
        let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let mut found: Vec<(u32, PathBuf)> = versions
            .filter_map(|entry| {
                let version = entry.file_name().to_str()?.parse().ok()?;
                Some((version, entry.path().join("bin")))
            })
            .filter(|(_, bin)| bin.join("initdb").exists())
            .collect();
        found.sort();
        let Some((_, newest)) = found.pop() else {
            panic!("no Postgres server; `cargo xtask test` installs it, or `apt-get install postgresql`")
        };
        newest
    })
}
