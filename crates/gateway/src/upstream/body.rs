//! The body of an answer. Reading it drives its connection; read to the end, the connection goes
//! back to the pool, and dropped before, it is closed.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use hyper::Response;
use hyper::body::{Body as _, Frame, Incoming};

use super::error::{Excess, UpstreamError};
use super::options::{HttpBounds, LARGE_BYTES, LARGE_PAUSE, TURN_BYTES};
use super::pool::Lease;
use crate::room::{Account, ROOM_WAIT_MAX, Share};
use crate::turns;

/// So much is copied out of the connection's buffer, which then takes the next answer as well; of a
/// longer piece the buffer goes along and the connection gets another.
const COPIED_BYTES_MAX: usize = 4096;

/// Where the pieces of a body come from.
pub(super) enum Source {
    /// All of it is here.
    Whole(Bytes),
    /// They come when the connection is driven.
    Incoming(Incoming),
}

/// An answer's body with the connection it comes from.
pub(super) struct Body {
    source: Source,
    /// Gone once the body has ended, well or badly.
    lease: Option<Lease>,
    turn_bytes: usize,
    /// What was read in turns that are over.
    read_bytes: usize,
    /// When the second turn began, once it has.
    since: Option<Instant>,
}

impl Body {
    pub(super) fn new(source: Source, lease: Lease) -> Body {
        Body { source, lease: Some(lease), turn_bytes: 0, read_bytes: 0, since: None }
    }

    /// Of an answer, its body; the table of its headers serves the next request.
    pub(super) fn of(response: Response<Body>) -> Body {
        let (mut head, mut body) = response.into_parts();
        if let Some(lease) = &mut body.lease {
            head.headers.clear();
            lease.connection().table = head.headers;
        }
        body
    }

    /// Says whether the client is being asked something. When it has answered, the next piece is waited
    /// for as if one had just come.
    pub(super) fn set_asking(&mut self, asking: bool) {
        if let Some(lease) = &mut self.lease {
            lease.connection().deadline.set_asking(asking);
        }
    }

    /// The end of a body whose time is over, for one that never makes us wait.
    fn overdue(&mut self) -> Option<UpstreamError> {
        let error = self.lease.as_mut()?.connection().deadline.overdue()?;
        self.lease = None;
        Some(error)
    }

    /// The length the server announced.
    fn announced_bytes(&self) -> Option<u64> {
        match &self.source {
            Source::Whole(bytes) => Some(bytes.len() as u64),
            Source::Incoming(incoming) => incoming.size_hint().exact(),
        }
    }

    /// The next piece, or `None` at the end.
    pub(super) async fn piece(&mut self) -> Option<Result<Bytes, UpstreamError>> {
        if self.turn_bytes >= TURN_BYTES {
            self.let_others().await;
            if let Some(error) = self.overdue() {
                return Some(Err(error));
            }
        }
        let piece = poll_fn(|cx| self.poll_piece(cx)).await;
        if let Some(Ok(piece)) = &piece {
            self.turn_bytes += piece.len();
        }
        piece
    }

    /// Ends a turn.
    async fn let_others(&mut self) {
        self.read_bytes += std::mem::take(&mut self.turn_bytes);
        let since = *self.since.get_or_insert_with(Instant::now);
        if self.read_bytes <= LARGE_BYTES {
            return tokio::task::yield_now().await;
        }
        turns::let_others(since, LARGE_PAUSE).await;
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, UpstreamError>>> {
        if let Poll::Ready(piece) = self.poll_incoming(cx) {
            return Poll::Ready(piece);
        }
        if let Some(lease) = &mut self.lease {
            lease.connection().drive(cx);
        }
        if let Poll::Ready(piece) = self.poll_incoming(cx) {
            return Poll::Ready(piece);
        }
        let Some(lease) = &mut self.lease else {
            return Poll::Ready(None);
        };
        lease.connection().deadline.poll(cx).map(|timed_out| {
            self.lease = None;
            Some(Err(timed_out))
        })
    }

    fn poll_incoming(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, UpstreamError>>> {
        loop {
            let Some(lease) = &mut self.lease else {
                return Poll::Ready(None);
            };
            let frame = match &mut self.source {
                Source::Whole(bytes) if bytes.is_empty() => None,
                Source::Whole(bytes) => Some(Ok(Frame::data(std::mem::take(bytes)))),
                Source::Incoming(incoming) => match Pin::new(incoming).poll_frame(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(frame) => frame,
                },
            };
            match frame {
                Some(Ok(frame)) => {
                    lease.connection().deadline.touch();
                    // Trailers say nothing we use.
                    if let Ok(piece) = frame.into_data() {
                        return Poll::Ready(Some(Ok(piece)));
                    }
                }
                Some(Err(error)) => {
                    self.lease = None;
                    return Poll::Ready(Some(Err(UpstreamError::from_hyper(&error))));
                }
                None => {
                    self.give_back();
                    return Poll::Ready(None);
                }
            }
        }
    }

    /// Lets the connection go, whose answer was read to the end.
    fn give_back(&mut self) {
        if let Some(lease) = self.lease.take() {
            lease.give_back();
        }
    }

    /// The whole body, if it is no larger than this; a large one with its room.
    pub(super) async fn collect(
        mut self,
        bytes_max: usize,
        account: &Account,
    ) -> Result<Bytes, UpstreamError> {
        let too_large = || UpstreamError::TooLarge { what: Excess::Answer, bytes_max };
        let announced = self.announced_bytes();
        if announced.is_some_and(|bytes| bytes > bytes_max as u64) {
            return Err(too_large());
        }
        if let Source::Whole(bytes) = &mut self.source {
            let whole = std::mem::take(bytes);
            self.give_back();
            return Ok(whole);
        }
        let Some(first) = self.piece().await.transpose()? else {
            return Ok(Bytes::new());
        };
        if first.len() > bytes_max {
            return Err(too_large());
        }
        let first =
            if first.len() <= COPIED_BYTES_MAX { Bytes::copy_from_slice(&first) } else { first };
        let mut share = Share::new(account);
        let Some(second) = self.piece().await.transpose()? else {
            grow(&mut share, first.len()).await?;
            return Ok(share.of(first));
        };
        let expected = announced.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or_default();
        grow(&mut share, expected).await?;
        let mut whole = BytesMut::with_capacity(expected.max(2 * (first.len() + second.len())));
        whole.extend_from_slice(&first);
        let mut next = Some(second);
        while let Some(piece) = next {
            if whole.len() + piece.len() > bytes_max {
                return Err(too_large());
            }
            grow(&mut share, whole.len() + piece.len()).await?;
            whole.extend_from_slice(&piece);
            next = tokio::select! {
                biased;
                piece = self.piece() => piece.transpose()?,
                why = share.outstays() => return Err(UpstreamError::no_room(&why)),
            };
        }
        Ok(share.of(whole.freeze()))
    }

    /// The beginning of the body. A longer one is cut, and its connection closed.
    pub(super) async fn beginning(mut self, bytes_max: usize) -> Result<Bytes, UpstreamError> {
        let mut start = BytesMut::new();
        while let Some(piece) = self.piece().await.transpose()? {
            let room = bytes_max.saturating_sub(start.len());
            start.extend_from_slice(piece.get(..room).unwrap_or(&piece));
            if piece.len() > room {
                break;
            }
        }
        Ok(start.freeze())
    }

    /// Lets a body that said all we wanted come to its end, so that its connection can be used
    /// again. What is there already is taken at once; the rest is waited for apart.
    pub(super) fn finish(mut self, bounds: &HttpBounds) {
        let (wait_max, mut room_bytes) = (bounds.ending_wait_max, bounds.ending_bytes_max);
        let mut at_once = Context::from_waker(Waker::noop());
        while let Poll::Ready(piece) = self.poll_piece(&mut at_once) {
            let Some(Ok(piece)) = piece else { return };
            let Some(left) = room_bytes.checked_sub(piece.len()) else { return };
            room_bytes = left;
        }
        let ending = async move {
            while let Some(Ok(piece)) = self.piece().await {
                let Some(left) = room_bytes.checked_sub(piece.len()) else { return };
                room_bytes = left;
            }
        };
        // Outside a runtime (a stream dropped at the very end) there is no later.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { tokio::time::timeout(wait_max, ending).await.ok() });
        }
    }
}

async fn grow(share: &mut Share, bytes: usize) -> Result<(), UpstreamError> {
    share.grow_to(bytes, ROOM_WAIT_MAX).await.map_err(|why| UpstreamError::no_room(&why))
}
