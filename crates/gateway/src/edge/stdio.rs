//! The gate as a child process of a client: one JSON message per line, in and out.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::edge::dispatch;
use crate::edge::serve;
use crate::exchange::context::RequestContext;
use crate::exchange::outbound::{Outbound, ResponseParts};
use crate::exchange::refuse;
use crate::runtime::stop_signal::turned_true;
use crate::session::ClientMessage;

/// Lines queued for the client to read.
const LINES_WAITING_MAX: usize = 256;
/// Other lines (notifications, responses, invalid ones) that are handled at the same time. Beyond
/// this no further line is read.
const OTHERS_IN_FLIGHT_MAX: usize = 64;
/// A longer line whose buffer has no spare capacity is not copied to append its line end.
const LINE_BYTES_COPIED_MAX: usize = 256 << 10;

/// Serves one client until its input ends or its output closes, then drains requests in flight
/// within the drain bound. Subscriptions never finish and end with the input.
pub(crate) async fn serve<R, W>(
    mut context: RequestContext,
    mut input: R,
    output: W,
) -> io::Result<()>
where
    R: AsyncBufRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (lines, waiting) = mpsc::channel(LINES_WAITING_MAX);
    let wait_max = context.services().bounds.write_wait_max;
    let writer = tokio::spawn(write_lines(waiting, output, wait_max));
    let mut client = Client {
        running: JoinSet::new(),
        others: Arc::new(Semaphore::new(OTHERS_IN_FLIGHT_MAX)),
        gone: watch::Sender::new(false),
        lines,
    };
    let line_bytes_max = context.services().bounds.body_bytes_max;
    let mut line = Vec::new();
    loop {
        let read = tokio::select! {
            biased;
            read = read_line(&mut input, &mut line, line_bytes_max) => read?,
            () = client.lines.closed() => break,
        };
        match read {
            LineRead::End => break,
            LineRead::Blank => {}
            LineRead::TooLong => send(&client.lines, dispatch::refuse_too_long(&context)).await,
            LineRead::Whole => {
                let message = Bytes::from(std::mem::take(&mut line));
                if !client.handle(&mut context, message).await {
                    break;
                }
            }
        }
    }
    client.finish(&context).await;
    writer.await.unwrap_or(Ok(()))
}

/// The client on standard streams.
struct Client {
    lines: mpsc::Sender<Bytes>,
    /// Lines being handled.
    running: JoinSet<()>,
    /// Limits the lines that are not requests.
    others: Arc<Semaphore>,
    gone: watch::Sender<bool>,
}

impl Client {
    /// Handles one line. False when its grant is no longer active, which ends the connection.
    async fn handle(&mut self, context: &mut RequestContext, message: Bytes) -> bool {
        let lines = &self.lines;
        // Policies and grants change while a client is connected.
        let snapshots = &context.state.snapshots;
        let Some(grantee) = snapshots.current_grantee(&context.grantee, context.endpoint.server())
        else {
            send(lines, refuse::revoked(context, &message)).await;
            return false;
        };
        context.grantee = grantee;
        // The handshake changes the meaning of later lines, so it finishes before the next is read.
        if context.session.is_none() && dispatch::opens_session(&message) {
            let outbound = dispatch::receive(context, &message, None).await;
            if let Outbound::One { session: Some(id), .. } = &outbound {
                let (grant, server) = (&context.grantee.id, context.endpoint.server());
                context.session = context.state.sessions.find(id, grant, server);
                tokio::spawn(forward_server_messages(context.clone(), lines.clone()));
            }
            send(lines, outbound).await;
            return true;
        }
        match reserve(context, &message, &self.others).await {
            Ok(resources) => self.spawn(context.clone(), message, resources),
            Err(refused) => send(lines, refused).await,
        }
        true
    }

    fn spawn(&mut self, context: RequestContext, message: Bytes, resources: LineResources) {
        let (lines, gone) = (self.lines.clone(), self.gone.subscribe());
        self.running.spawn(async move {
            let _resources = resources;
            let _panic_reply = PanicReply { message: message.clone(), lines: lines.clone() };
            match dispatch::receive(&context, &message, None).await {
                Outbound::Many(stream) if dispatch::is_subscription(&message) => {
                    forward_until(gone, &lines, stream).await;
                }
                outbound => send(&lines, outbound).await,
            }
        });
        while self.running.try_join_next().is_some() {}
    }

    /// Drains requests in flight within the drain bound.
    async fn finish(mut self, context: &RequestContext) {
        self.gone.send_replace(true);
        let drain = context.services().bounds.drain_wait_max;
        let running = &mut self.running;
        let _ = timeout(drain, async { while running.join_next().await.is_some() {} }).await;
        self.running.shutdown().await;
        if let Some(session) = &context.session {
            context.state.sessions.end(&session.id).await;
        }
    }
}

/// What a line holds while it is handled: an in-flight slot of its grant or of the other lines, and
/// its part of the buffer for large messages.
struct LineResources {
    _slot: Option<OwnedSemaphorePermit>,
    _bytes: Option<OwnedSemaphorePermit>,
}

/// Reserves the resources for a line, or refuses it. A request gets them at once or is refused, as
/// over HTTP. Any other line waits and blocks reading: a refusal would have no id, and a
/// cancellation or a response to a server must not be lost. Lines that hold resources do not depend
/// on later lines, so this cannot deadlock.
async fn reserve(
    context: &RequestContext,
    message: &Bytes,
    others: &Arc<Semaphore>,
) -> Result<LineResources, Outbound> {
    let slot = if dispatch::is_request(message) {
        Some(
            context
                .grantee
                .try_slot()
                .ok_or_else(|| dispatch::refuse_too_many(context, message))?,
        )
    } else {
        Arc::clone(others).acquire_owned().await.ok()
    };
    let bytes = serve::reserve(message.len(), &context.services().bounds).await;
    let bytes = bytes.map_err(|_| dispatch::refuse_buffer_full(context, message))?;
    Ok(LineResources { _slot: slot, _bytes: bytes })
}

/// Sends an error if the handler panics: a client on a pipe would wait forever.
struct PanicReply {
    message: Bytes,
    lines: mpsc::Sender<Bytes>,
}

impl Drop for PanicReply {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(answer) = dispatch::panic_response(&self.message)
        {
            let _ = self.lines.try_send(answer);
        }
    }
}

enum LineRead {
    Whole,
    Blank,
    TooLong,
    End,
}

/// Reads one line without its line end. A line over the bound is skipped and reported.
async fn read_line<R>(input: &mut R, line: &mut Vec<u8>, bytes_max: usize) -> io::Result<LineRead>
where
    R: AsyncBufRead + Unpin,
{
    line.clear();
    let mut refuse_too_long = false;
    loop {
        let piece = input.fill_buf().await?;
        if piece.is_empty() {
            return Ok(if refuse_too_long {
                LineRead::TooLong
            } else if line.is_empty() {
                LineRead::End
            } else {
                LineRead::Whole
            });
        }
        let end = memchr::memchr(b'\n', piece);
        let taken = end.map_or(piece.len(), |at| at + 1);
        let part = piece.get(..end.unwrap_or(piece.len())).unwrap_or_default();
        refuse_too_long |= line.len() + part.len() > bytes_max;
        if !refuse_too_long {
            line.extend_from_slice(part);
        }
        input.consume(taken);
        if end.is_some() {
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            let blank = line.iter().all(u8::is_ascii_whitespace);
            return Ok(if refuse_too_long {
                LineRead::TooLong
            } else if blank {
                LineRead::Blank
            } else {
                LineRead::Whole
            });
        }
    }
}

async fn send(lines: &mpsc::Sender<Bytes>, outbound: Outbound) {
    match outbound {
        Outbound::Accepted | Outbound::NoResponse => {}
        Outbound::One { body, .. } => {
            let _ = lines.send(body).await;
        }
        Outbound::Many(mut pieces) => {
            while let Some(ClientMessage { message, .. }) = pieces.recv().await {
                if !message.is_empty() && lines.send(message).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Forwards notifications until the client is gone.
async fn forward_until(
    mut gone: watch::Receiver<bool>,
    lines: &mpsc::Sender<Bytes>,
    mut stream: ResponseParts,
) {
    // The first message acknowledges the subscription and is always there.
    let mut piece = stream.recv().await;
    while let Some(ClientMessage { message, .. }) = piece {
        if !message.is_empty() && lines.send(message).await.is_err() {
            return;
        }
        piece = tokio::select! {
            piece = stream.recv() => piece,
            () = turned_true(&mut gone) => None,
        };
    }
}

/// Forwards server messages outside any request.
async fn forward_server_messages(context: RequestContext, lines: mpsc::Sender<Bytes>) {
    let Some(session) = &context.session else { return };
    let mut pieces = crate::notify::server_streams::open(&context, session, None).await.pieces;
    while let Some(piece) = pieces.recv().await {
        if !piece.message.is_empty() && lines.send(piece.message).await.is_err() {
            return;
        }
    }
}

/// A client that reads nothing for `wait_max` is dropped; otherwise it would keep the gate and the
/// server running.
async fn write_lines<W>(
    mut lines: mpsc::Receiver<Bytes>,
    mut output: W,
    wait_max: Duration,
) -> io::Result<()>
where
    W: AsyncWrite + Unpin,
{
    while let Some(line) = lines.recv().await {
        // In one write: a client that is woken by half a line only waits again.
        match with_line_end(line) {
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

/// The message with its line end, appended in place if possible. A long one that cannot be extended
/// is returned unchanged.
fn with_line_end(message: Bytes) -> Result<BytesMut, Bytes> {
    let message = single_line(message);
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

/// Replaces line breaks between tokens with spaces. A JSON string cannot contain a raw line break.
fn single_line(message: Bytes) -> Bytes {
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
        match with_line_end(message) {
            Ok(whole) => whole.to_vec(),
            Err(long) => [&long, &b"\n"[..]].concat(),
        }
    }

    #[tokio::test]
    async fn a_call_whose_handler_panics_gets_an_error_with_its_id() {
        let cases: [(&'static str, Option<&str>); 2] = [
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"tools/call"}"#,
                Some(r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"#),
            ),
            (r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#, None),
        ];
        for (message, begins) in cases {
            let (lines, mut waiting) = mpsc::channel(1);
            let panic_reply = PanicReply { message: Bytes::from_static(message.as_bytes()), lines };
            let work = tokio::spawn(async move {
                let _panic_reply = panic_reply;
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
    fn a_line_is_the_same_for_shared_and_owned_buffers() {
        for bytes in [1, LINE_BYTES_COPIED_MAX] {
            let message = vec![b'x'; bytes];
            let mut with_capacity = Vec::with_capacity(bytes + 8);
            with_capacity.extend_from_slice(&message);
            let shared = Bytes::from(message.clone());
            let held = shared.clone();
            for buffer in [Bytes::from(message.clone()), shared, Bytes::from(with_capacity)] {
                assert_eq!(line(buffer), [&message, &b"\n"[..]].concat());
            }
            assert_eq!(held, message);
        }
        assert_eq!(line(Bytes::from_static(b"{\n\"a\":\r\n1}")), b"{ \"a\":  1}\n");
    }
}
