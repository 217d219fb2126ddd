//! Adds an `Authorization` header to every request on its way to the gate, because the suite cannot.
//! Nothing else changes: heads are copied byte for byte, bodies and responses are not inspected.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

use anyhow::Result;

/// Heads of the suite are far smaller.
const HEAD_BYTES_MAX: u64 = 256 * 1024;

/// Listens until the process ends; a forwarder is a few threads and holds nothing.
pub(crate) struct Forwarder {
    pub(crate) address: String,
}

impl Forwarder {
    /// `target` is the gate's `host:port`.
    pub(crate) fn start(target: &str, token: &str) -> Result<Forwarder> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        let rewrite = Rewrite {
            own: address.clone(),
            target: target.to_owned(),
            authorization: format!("Authorization: Bearer {token}\r\n"),
        };
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let rewrite = rewrite.clone();
                std::thread::spawn(move || rewrite.serve(&client));
            }
        });
        Ok(Forwarder { address })
    }
}

#[derive(Clone)]
struct Rewrite {
    own: String,
    target: String,
    authorization: String,
}

impl Rewrite {
    fn serve(&self, client: &TcpStream) {
        let Ok(gate) = TcpStream::connect(&self.target) else { return };
        let _ = (client.set_nodelay(true), gate.set_nodelay(true));
        let (Ok(mut to_client), Ok(mut from_gate)) = (client.try_clone(), gate.try_clone()) else {
            return;
        };
        let back = std::thread::spawn(move || {
            let _ = std::io::copy(&mut from_gate, &mut to_client);
            let _ = to_client.shutdown(Shutdown::Both);
        });
        let _ = self.requests(BufReader::new(client), &gate);
        // The client hung up: the gate must see that, or it would keep a stream without a reader.
        let _ = gate.shutdown(Shutdown::Both);
        let _ = back.join();
    }

    /// One request after another on a connection that is kept alive.
    fn requests(&self, mut client: impl BufRead, mut gate: impl Write) -> std::io::Result<()> {
        loop {
            let head = read_head(&mut client)?;
            if head.is_empty() {
                return Ok(());
            }
            gate.write_all(&self.rewritten(&head))?;
            std::io::copy(&mut client.by_ref().take(body_bytes(&head)), &mut gate)?;
            gate.flush()?;
        }
    }

    /// Our own address becomes the gate's where the client named it; any other name stays, so that
    /// the gate can refuse it.
    fn rewritten(&self, head: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(head.len() + self.authorization.len());
        for (number, line) in head.split_inclusive(|byte| *byte == b'\n').enumerate() {
            if names(line, "host") || names(line, "origin") {
                let text = String::from_utf8_lossy(line).replace(&self.own, &self.target);
                out.extend_from_slice(text.as_bytes());
            } else {
                out.extend_from_slice(line);
            }
            if number == 0 {
                out.extend_from_slice(self.authorization.as_bytes());
            }
        }
        out
    }
}

fn read_head(client: &mut impl BufRead) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut limited = client.by_ref().take(HEAD_BYTES_MAX);
    while limited.read_until(b'\n', &mut head)? > 0 {
        if head.ends_with(b"\r\n\r\n") {
            break;
        }
    }
    Ok(head)
}

/// The suite always says how long its bodies are.
fn body_bytes(head: &[u8]) -> u64 {
    let line = head.split(|byte| *byte == b'\n').find(|line| names(line, "content-length"));
    let value = line.and_then(|line| line.split(|byte| *byte == b':').nth(1));
    value.and_then(|value| String::from_utf8_lossy(value).trim().parse().ok()).unwrap_or(0)
}

fn names(line: &[u8], header: &str) -> bool {
    let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
    name.len() < line.len() && name.eq_ignore_ascii_case(header.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_authorization_is_added_and_our_own_address_replaced() {
        let rewrite = Rewrite {
            own: "127.0.0.1:1".to_owned(),
            target: "127.0.0.1:2".to_owned(),
            authorization: "Authorization: Bearer t\r\n".to_owned(),
        };
        let head = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:1\r\nMcp-Name:  padded  \r\nContent-Length: 2\r\n\r\n";
        let wanted = "POST /mcp HTTP/1.1\r\nAuthorization: Bearer t\r\nHost: 127.0.0.1:2\r\nMcp-Name:  padded  \r\nContent-Length: 2\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(&rewrite.rewritten(head)), wanted);
        assert_eq!(body_bytes(head), 2);
        let evil = b"POST /mcp HTTP/1.1\r\nHost: evil.example.com\r\n\r\n";
        assert!(String::from_utf8_lossy(&rewrite.rewritten(evil)).contains("evil.example.com"));
    }
}
