//! The gate as a child process of a client: one message a line, in and out.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::outbound::{Outbound, Pieces};
use crate::receive;
use crate::scene::Scene;
use crate::serve::{self, turned_true};
use crate::session::Outgoing;

/// Lines that may wait for the client to read them.
const LINES_WAITING_MAX: usize = 256;
/// Lines that are no requests (notifications, answers, broken ones) and are worked on at once; then no
/// further line is read.
const OTHERS_IN_FLIGHT_MAX: usize = 64;
/// Longer lines that lie where nothing can be added are written from there, and their end after them.
const LINE_BYTES_COPIED_MAX: usize = 256 << 10;

/// Serves one client until its input ends or it hears us no longer, then lets what is in flight finish
/// within the drain bound; streams of news, which never finish, end with the input.
pub(crate) async fn serve<R, W>(mut scene: Scene, mut input: R, output: W) -> io::Result<()>
where
    R: AsyncBufRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (lines, waiting) = mpsc::channel(LINES_WAITING_MAX);
    let wait_max = scene.gate.bounds.write_wait_max;
    let writer = tokio::spawn(write_lines(waiting, output, wait_max));
    let mut working = JoinSet::new();
    let others = Arc::new(Semaphore::new(OTHERS_IN_FLIGHT_MAX));
    let gone = watch::Sender::new(false);
    let line_bytes_max = scene.gate.bounds.body_bytes_max;
    let mut line = Vec::new();
    loop {
        let read = tokio::select! {
            biased;
            read = read_line(&mut input, &mut line, line_bytes_max) => read?,
            () = lines.closed() => break,
        };
        match read {
            Line::End => break,
            Line::Blank => continue,
            Line::TooLong => {
                let refused = receive::too_long(&scene);
                put(&lines, refused).await;
                continue;
            }
            Line::Whole => {}
        }
        let message = Bytes::from(std::mem::take(&mut line));
        // Policies and grants change while a client is connected; a grant taken back ends it here.
        let Some(holder) = scene.gate.renewed(&scene.holder, scene.endpoint.server()) else {
            put(&lines, receive::revoked(&scene, &message)).await;
            break;
        };
        scene.holder = holder;
        // The handshake changes what later lines mean, so it is finished before the next is read.
        if scene.session.is_none() && receive::opens_session(&message) {
            let outbound = receive::receive(&scene, &message, None).await;
            if let Outbound::One { session: Some(id), .. } = &outbound {
                scene.session =
                    scene.gate.sessions.find(id, &scene.holder.id, scene.endpoint.server());
                tokio::spawn(hear(scene.clone(), lines.clone()));
            }
            put(&lines, outbound).await;
            continue;
        }
        let room = match admit(&scene, &message, &others).await {
            Ok(room) => room,
            Err(refused) => {
                put(&lines, refused).await;
                continue;
            }
        };
        let (scene, lines, gone) = (scene.clone(), lines.clone(), gone.subscribe());
        working.spawn(async move {
            let _room = room;
            let _broken = Broken { message: message.clone(), lines: lines.clone() };
            match receive::receive(&scene, &message, None).await {
                Outbound::Many(news) if receive::listens(&message) => {
                    put_until(gone, &lines, news).await;
                }
                outbound => put(&lines, outbound).await,
            }
        });
        while working.try_join_next().is_some() {}
    }
    gone.send_replace(true);
    let drain = scene.gate.bounds.drain_wait_max;
    let _ = timeout(drain, async { while working.join_next().await.is_some() {} }).await;
    working.shutdown().await;
    if let Some(session) = &scene.session {
        scene.gate.end_session(&session.id).await;
    }
    drop(lines);
    writer.await.unwrap_or(Ok(()))
}

/// What a line holds while it is worked on: one of the requests of its grant, or one of the lines that are
/// none, and its part of the memory for large messages.
struct Room {
    _place: Option<OwnedSemaphorePermit>,
    _bytes: Option<OwnedSemaphorePermit>,
}

/// Room for a line, or the refusal. A request finds it at once or is refused, as over HTTP. Any other line
/// waits, and nothing is read behind it: a refusal would have no id to go under, and a cancellation or an
/// answer to a server must not get lost. What holds the room needs no further line to end.
async fn admit(scene: &Scene, message: &Bytes, others: &Arc<Semaphore>) -> Result<Room, Outbound> {
    let place = if receive::is_request(message) {
        Some(scene.holder.place().ok_or_else(|| receive::too_many(scene, message))?)
    } else {
        Arc::clone(others).acquire_owned().await.ok()
    };
    let bytes = serve::reserve(message.len(), &scene.gate.bounds).await;
    let bytes = bytes.map_err(|_| receive::no_room(scene, message))?;
    Ok(Room { _place: place, _bytes: bytes })
}

/// Answers for a call that a fault of ours broke off: a client on a pipe would wait for it for ever.
struct Broken {
    message: Bytes,
    lines: mpsc::Sender<Bytes>,
}

impl Drop for Broken {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(answer) = receive::broken(&self.message)
        {
            let _ = self.lines.try_send(answer);
        }
    }
}

enum Line {
    Whole,
    Blank,
    TooLong,
    End,
}

/// Reads one line without its end. A line over the bound is skipped to its end and refused.
async fn read_line<R>(input: &mut R, line: &mut Vec<u8>, bytes_max: usize) -> io::Result<Line>
where
    R: AsyncBufRead + Unpin,
{
    line.clear();
    let mut too_long = false;
    loop {
        let piece = input.fill_buf().await?;
        if piece.is_empty() {
            return Ok(if too_long {
                Line::TooLong
            } else if line.is_empty() {
                Line::End
            } else {
                Line::Whole
            });
        }
        let end = memchr::memchr(b'\n', piece);
        let taken = end.map_or(piece.len(), |at| at + 1);
        let part = piece.get(..end.unwrap_or(piece.len())).unwrap_or_default();
        too_long |= line.len() + part.len() > bytes_max;
        if !too_long {
            line.extend_from_slice(part);
        }
        input.consume(taken);
        if end.is_some() {
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            let blank = line.iter().all(u8::is_ascii_whitespace);
            return Ok(if too_long {
                Line::TooLong
            } else if blank {
                Line::Blank
            } else {
                Line::Whole
            });
        }
    }
}

async fn put(lines: &mpsc::Sender<Bytes>, outbound: Outbound) {
    match outbound {
        Outbound::Accepted | Outbound::Silent => {}
        Outbound::One { body, .. } => {
            let _ = lines.send(body).await;
        }
        Outbound::Many(mut pieces) => {
            while let Some(Outgoing { message, .. }) = pieces.recv().await {
                if !message.is_empty() && lines.send(message).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Passes on news until the client has gone.
async fn put_until(mut gone: watch::Receiver<bool>, lines: &mpsc::Sender<Bytes>, mut news: Pieces) {
    // The first piece says that somebody listens now; it is there in any case.
    let mut piece = news.recv().await;
    while let Some(Outgoing { message, .. }) = piece {
        if !message.is_empty() && lines.send(message).await.is_err() {
            return;
        }
        piece = tokio::select! {
            piece = news.recv() => piece,
            () = turned_true(&mut gone) => None,
        };
    }
}

/// Passes on what servers say outside any request.
async fn hear(scene: Scene, lines: mpsc::Sender<Bytes>) {
    let Some(mut pieces) = crate::listen::open(&scene, None).await.pieces else { return };
    while let Some(piece) = pieces.recv().await {
        if !piece.message.is_empty() && lines.send(piece.message).await.is_err() {
            return;
        }
    }
}

/// A client that takes nothing for so long is given up: it would keep us, and its server, for ever.
async fn write_lines<W>(
    mut lines: mpsc::Receiver<Bytes>,
    mut output: W,
    wait_max: Duration,
) -> io::Result<()>
where
    W: AsyncWrite + Unpin,
{
    while let Some(line) = lines.recv().await {
        // In one piece: a client that is woken by half a line only waits again.
        match in_one_piece(line) {
            Ok(whole) => write(&mut output, &whole, wait_max).await?,
            Err(line) => {
                write(&mut output, &line, wait_max).await?;
                write(&mut output, b"\n", wait_max).await?;
            }
        }
        if lines.is_empty() {
            output.flush().await?;
        }
    }
    output.flush().await
}

async fn write<W>(output: &mut W, mut bytes: &[u8], wait_max: Duration) -> io::Result<()>
where
    W: AsyncWrite + Unpin,
{
    while !bytes.is_empty() {
        let taken = timeout(wait_max, output.write(bytes)).await??;
        if taken == 0 {
            return Err(ErrorKind::WriteZero.into());
        }
        bytes = bytes.get(taken..).unwrap_or_default();
    }
    Ok(())
}

/// A message with the end of its line, added where it lies if it can be; a long one that others hold is
/// given back.
fn in_one_piece(message: Bytes) -> Result<BytesMut, Bytes> {
    let message = one_line(message);
    let is_long = message.len() >= LINE_BYTES_COPIED_MAX;
    let mut whole = match message.try_into_mut() {
        Ok(whole) if whole.capacity() > whole.len() || !is_long => whole,
        Ok(whole) => return Err(whole.freeze()),
        Err(shared) if is_long => return Err(shared),
        Err(shared) => {
            let mut whole = BytesMut::with_capacity(shared.len() + 1);
            whole.extend_from_slice(&shared);
            whole
        }
    };
    whole.extend_from_slice(b"\n");
    Ok(whole)
}

/// A message that came with line breaks between its tokens is written without them; inside a JSON
/// string a raw line break cannot stand.
fn one_line(message: Bytes) -> Bytes {
    if memchr::memchr2(b'\n', b'\r', &message).is_none() {
        return message;
    }
    let unbroken = message.iter().map(|byte| match byte {
        b'\n' | b'\r' => b' ',
        byte => *byte,
    });
    unbroken.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(message: Bytes) -> Vec<u8> {
        match in_one_piece(message) {
            Ok(whole) => whole.to_vec(),
            Err(long) => [&long, &b"\n"[..]].concat(),
        }
    }

    #[tokio::test]
    async fn a_call_that_breaks_off_is_answered_under_its_id() {
        let cases: [(&'static str, Option<&str>); 2] = [
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"tools/call"}"#,
                Some(r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"#),
            ),
            (r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#, None),
        ];
        for (message, begins) in cases {
            let (lines, mut waiting) = mpsc::channel(1);
            let broken = Broken { message: Bytes::from_static(message.as_bytes()), lines };
            let work = tokio::spawn(async move {
                let _broken = broken;
                std::panic::resume_unwind(Box::new("a fault"));
            });
            assert!(work.await.is_err());
            let line = waiting.recv().await;
            assert_eq!(line.is_some(), begins.is_some(), "{message}");
            let answered =
                line.is_none_or(|line| line.starts_with(begins.unwrap_or("").as_bytes()));
            assert!(answered, "{message}");
        }
    }

    #[test]
    fn a_line_is_the_same_wherever_its_message_lies() {
        for bytes in [1, LINE_BYTES_COPIED_MAX] {
            let message = vec![b'x'; bytes];
            let mut roomy = Vec::with_capacity(bytes + 8);
            roomy.extend_from_slice(&message);
            let shared = Bytes::from(message.clone());
            let held = shared.clone();
            for lies in [Bytes::from(message.clone()), shared, Bytes::from(roomy)] {
                assert_eq!(line(lies), [&message, &b"\n"[..]].concat());
            }
            assert_eq!(held, message);
        }
        assert_eq!(line(Bytes::from_static(b"{\n\"a\":\r\n1}")), b"{ \"a\":  1}\n");
    }
}
