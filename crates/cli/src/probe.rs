//! Asks a server for its tools, as a client of the gate would: what it answers is compared with the
//! pins on the gate's own path, so that a first look and a later one see the same.

use anyhow::{Context as _, Result, anyhow, bail};
use gateway::Identity;
use serde_json::{Value, json};
use store::registry::{Origin, PolicyText};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf,
};

use crate::context::{Context, Stores};
use crate::run;

/// The owner looks with his own eyes: nothing is called, only listed.
const LOOK_POLICY: &str = r#"{"version":"1","default":"allow"}"#;
/// Bytes that may wait between us and the gate.
const PIPE_BYTES_MAX: usize = 1 << 20;
const PAGES_MAX: usize = 1000;

/// Lets the gate read the list of a registered server; the pins are up to date afterwards.
pub(crate) fn look(server: &str, stores: &Stores, context: &Context) -> Result<usize> {
    run::runtime()?.block_on(async {
        let gate = run::gate(stores, context)?;
        let (ours, theirs) = tokio::io::duplex(PIPE_BYTES_MAX);
        let (input, output) = tokio::io::split(theirs);
        let policy = look_policy();
        let identity = Identity::Policy(&policy);
        let spoken = gate.stdio(server, identity, BufReader::new(input), output);
        let (asked, spoken) = tokio::join!(ask(ours), spoken);
        let count = asked?;
        spoken?;
        Ok(count)
    })
}

fn look_policy() -> PolicyText {
    PolicyText {
        name: "look".to_owned(),
        version: 0,
        sha256: String::new(),
        format: policy::Format::Json,
        source: LOOK_POLICY.to_owned(),
        origin: Origin::File,
    }
}

/// The client's side: the handshake, then the list to its last page. Dropping the pipe ends it.
async fn ask(pipe: DuplexStream) -> Result<usize> {
    let (reader, mut writer) = tokio::io::split(pipe);
    let mut lines = BufReader::new(reader).lines();
    let hello = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": { "name": "tollgate", "version": env!("CARGO_PKG_VERSION") },
    });
    send(&mut writer, &request(0, "initialize", &hello)).await?;
    answer(&mut lines, 0).await?;
    send(&mut writer, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await?;
    let mut count = 0;
    let mut cursor = None;
    for id in 1..=PAGES_MAX {
        let params = cursor.map_or_else(|| json!({}), |cursor: Value| json!({ "cursor": cursor }));
        send(&mut writer, &request(id, "tools/list", &params)).await?;
        let page = answer(&mut lines, id).await?;
        count += page.get("tools").and_then(Value::as_array).map_or(0, Vec::len);
        cursor = page.get("nextCursor").filter(|next| next.is_string()).cloned();
        if cursor.is_none() {
            return Ok(count);
        }
    }
    bail!("its list of tools does not end")
}

fn request(id: usize, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

async fn send(writer: &mut (impl tokio::io::AsyncWrite + Unpin), message: &Value) -> Result<()> {
    let line = format!("{message}\n");
    writer.write_all(line.as_bytes()).await.context("the gate went away")
}

/// The result of request `id`; what the server says meanwhile is not for us.
async fn answer(lines: &mut Lines<BufReader<ReadHalf<DuplexStream>>>, id: usize) -> Result<Value> {
    while let Some(line) = lines.next_line().await? {
        let mut message: Value =
            serde_json::from_str(&line).context("the server's answer is not JSON")?;
        if message.get("id") != Some(&json!(id)) {
            continue;
        }
        if let Some(error) = message.get("error") {
            let words = error.get("message").and_then(Value::as_str).unwrap_or("it gave no reason");
            return Err(anyhow!("{words}"));
        }
        return Ok(message.get_mut("result").map(Value::take).unwrap_or_default());
    }
    bail!("the server ended without an answer")
}
