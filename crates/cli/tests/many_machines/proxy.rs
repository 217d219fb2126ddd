//! A network that can be cut: TCP on one side, the server's Unix socket on the other.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const TICK: Duration = Duration::from_millis(20);

pub(crate) struct Proxy {
    pub(crate) port: u16,
    cut: Arc<AtomicBool>,
}

impl Proxy {
    /// To the server whose socket is in this folder.
    pub(crate) fn to(folder: &Path) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let cut = Arc::new(AtomicBool::new(false));
        let (socket, is_cut) = (folder.join(".s.PGSQL.5432"), Arc::clone(&cut));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (socket, is_cut) = (socket.clone(), Arc::clone(&is_cut));
                thread::spawn(move || carry(client, socket, &is_cut));
            }
        });
        Proxy { port, cut }
    }

    /// From now on nothing passes, in either direction, and nobody is told.
    pub(crate) fn cut(&self) {
        self.cut.store(true, Ordering::Release);
    }

    pub(crate) fn mend(&self) {
        self.cut.store(false, Ordering::Release);
    }
}

fn carry(client: TcpStream, socket: PathBuf, cut: &Arc<AtomicBool>) {
    until_mended(cut);
    let Ok(server) = UnixStream::connect(socket) else { return };
    client.set_read_timeout(Some(TICK)).unwrap();
    server.set_read_timeout(Some(TICK)).unwrap();
    let (back_from, back_to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let is_cut = Arc::clone(cut);
    thread::spawn(move || copy(back_from, back_to, &is_cut));
    copy(client, server, cut);
}

fn until_mended(cut: &AtomicBool) {
    while cut.load(Ordering::Acquire) {
        thread::sleep(TICK);
    }
}

/// A cut network loses nothing that TCP would send again.
fn copy(mut from: impl Read, mut to: impl Write, cut: &AtomicBool) {
    let mut bytes = [0; 16 << 10];
    loop {
        let read = match from.read(&mut bytes) {
            Ok(0) => return,
            Ok(read) => read,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
            Err(_) => return,
        };
        until_mended(cut);
        if to.write_all(&bytes[..read]).is_err() {
            return;
        }
    }
}
