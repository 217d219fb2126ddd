//! Windows: a named pipe. Its name is made from the path of the folder, its access control list has the owner and
//! administrators only.

use std::io::{self, Read as _};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use interprocess::local_socket::tokio::{Listener as PipeListener, Stream};
use interprocess::local_socket::traits::Stream as _;
use interprocess::local_socket::traits::tokio::Listener as _;
use interprocess::local_socket::{GenericNamespaced, ListenerOptions, Name, ToNsName as _};
use interprocess::os::windows::local_socket::ListenerOptionsExt as _;
use interprocess::os::windows::security_descriptor::SecurityDescriptor;
use widestring::U16CString;

pub(super) type Connection = Stream;

/// The longest name of a pipe, without `\\.\pipe\`.
const NAME_CHARS_MAX: usize = 247;

pub(super) struct Listener(PipeListener);

impl Listener {
    pub(super) fn open(folder: &Path, name: &str) -> io::Result<Listener> {
        let list = format!("D:P(A;;GA;;;{})(A;;GA;;;BA)", crate::private::this_user()?);
        let list = U16CString::from_str(list).map_err(io::Error::other)?;
        let access = SecurityDescriptor::deserialize(&list)?;
        let options = ListenerOptions::new().name(pipe(folder, name)?).security_descriptor(access);
        Ok(Listener(options.create_tokio()?))
    }

    /// The list turns others away.
    pub(super) async fn accept(&mut self) -> io::Result<Connection> {
        self.0.accept().await
    }
}

pub(super) fn ask(
    folder: &Path,
    name: &str,
    wait: Duration,
    bytes_max: u64,
) -> io::Result<Vec<u8>> {
    let name = pipe(folder, name)?;
    let (sender, receiver) = mpsc::sync_channel(1);
    // Reading from a pipe has no timeout; a thread that hangs ends with the pipe's other end.
    std::thread::Builder::new().name("ask".to_owned()).spawn(move || {
        let read = interprocess::local_socket::Stream::connect(name).and_then(|stream| {
            let mut bytes = Vec::new();
            stream.take(bytes_max).read_to_end(&mut bytes)?;
            Ok(bytes)
        });
        // The receiver is gone after a timeout.
        let _ = sender.send(read);
    })?;
    receiver.recv_timeout(wait).map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

/// A pipe ends with its process.
pub(super) fn remove(_folder: &Path, _name: &str) {}

fn pipe(folder: &Path, name: &str) -> io::Result<Name<'static>> {
    let folder = folder.canonicalize()?;
    let folder: String = folder
        .to_string_lossy()
        .chars()
        .map(|c| if c.is_alphanumeric() { c } else { '-' })
        .collect();
    let name = format!("tollgate{folder}-{name}");
    if name.chars().count() > NAME_CHARS_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is too long for a pipe"));
    }
    name.to_ns_name::<GenericNamespaced>().map(Name::into_owned)
}
