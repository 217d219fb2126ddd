//! The body of an HTTP response. Reading it drives the connection. Read to the end, it returns the connection
//! to the pool; dropped earlier, it closes it.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use hyper::Response;
use hyper::body::{Body as _, Frame, Incoming};

use super::error::{Excess, UpstreamError};
use super::options::{HttpBounds, LARGE_BYTES, LARGE_PAUSE, TURN_BYTES};
use super::pool::PooledConnection;
use crate::runtime::pacing;
use crate::runtime::response_buffer::{BUFFER_WAIT_MAX, BufferQuota, Share};

/// Shorter chunks are copied out of the connection's buffer, so that the buffer can be reused.
const COPIED_BYTES_MAX: usize = 4096;

/// Where the chunks of a body come from.
pub(super) enum BodySource {
    /// The whole body was read already.
    Whole(Bytes),
    /// Chunks arrive while the connection is driven.
    Incoming(Incoming),
}

/// A response body with its connection.
pub(super) struct ResponseBody {
    source: BodySource,
    /// None once the body has ended or failed.
    pooled: Option<PooledConnection>,
    turn_bytes: usize,
    /// Bytes read in earlier turns.
    read_bytes: usize,
    /// The start of the second turn.
    since: Option<Instant>,
}

impl ResponseBody {
    pub(super) fn new(source: BodySource, pooled: PooledConnection) -> ResponseBody {
        ResponseBody { source, pooled: Some(pooled), turn_bytes: 0, read_bytes: 0, since: None }
    }

    /// The body of a response. Its header map is reused for the next request.
    pub(super) fn of(response: Response<ResponseBody>) -> ResponseBody {
        let (mut head, mut body) = response.into_parts();
        if let Some(pooled) = &mut body.pooled {
            head.headers.clear();
            pooled.connection().header_buffer = head.headers;
        }
        body
    }

    /// Pauses the timeouts while the client answers a server request. The idle timeout then starts again.
    pub(super) fn set_waiting_for_client(&mut self, waiting: bool) {
        if let Some(pooled) = &mut self.pooled {
            pooled.connection().deadline.set_waiting_for_client(waiting);
        }
    }

    /// The total timeout, for a body that never blocks.
    fn check_total_timeout(&mut self) -> Option<UpstreamError> {
        let error = self.pooled.as_mut()?.connection().deadline.check_total_timeout()?;
        self.pooled = None;
        Some(error)
    }

    /// The announced length.
    fn announced_bytes(&self) -> Option<u64> {
        match &self.source {
            BodySource::Whole(bytes) => Some(bytes.len() as u64),
            BodySource::Incoming(incoming) => incoming.size_hint().exact(),
        }
    }

    /// The next chunk, or `None` at the end.
    pub(super) async fn chunk(&mut self) -> Option<Result<Bytes, UpstreamError>> {
        if self.turn_bytes >= TURN_BYTES {
            self.end_turn().await;
            if let Some(error) = self.check_total_timeout() {
                return Some(Err(error));
            }
        }
        let chunk = poll_fn(|cx| self.poll_chunk(cx)).await;
        if let Some(Ok(chunk)) = &chunk {
            self.turn_bytes += chunk.len();
        }
        chunk
    }

    /// Ends a turn: yields to other tasks.
    async fn end_turn(&mut self) {
        self.read_bytes += std::mem::take(&mut self.turn_bytes);
        let since = *self.since.get_or_insert_with(Instant::now);
        if self.read_bytes <= LARGE_BYTES {
            return tokio::task::yield_now().await;
        }
        pacing::yield_to_others(since, LARGE_PAUSE).await;
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, UpstreamError>>> {
        if let Poll::Ready(chunk) = self.poll_incoming(cx) {
            return Poll::Ready(chunk);
        }
        if let Some(pooled) = &mut self.pooled {
            pooled.connection().drive(cx);
        }
        if let Poll::Ready(chunk) = self.poll_incoming(cx) {
            return Poll::Ready(chunk);
        }
        let Some(pooled) = &mut self.pooled else {
            return Poll::Ready(None);
        };
        pooled.connection().deadline.poll(cx).map(|timed_out| {
            self.pooled = None;
            Some(Err(timed_out))
        })
    }

    fn poll_incoming(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, UpstreamError>>> {
        loop {
            let Some(pooled) = &mut self.pooled else {
                return Poll::Ready(None);
            };
            let frame = match &mut self.source {
                BodySource::Whole(bytes) if bytes.is_empty() => None,
                BodySource::Whole(bytes) => Some(Ok(Frame::data(std::mem::take(bytes)))),
                BodySource::Incoming(incoming) => match Pin::new(incoming).poll_frame(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(frame) => frame,
                },
            };
            match frame {
                Some(Ok(frame)) => {
                    pooled.connection().deadline.touch();
                    // Trailers are ignored.
                    if let Ok(chunk) = frame.into_data() {
                        return Poll::Ready(Some(Ok(chunk)));
                    }
                }
                Some(Err(error)) => {
                    self.pooled = None;
                    return Poll::Ready(Some(Err(UpstreamError::from_hyper(&error))));
                }
                None => {
                    self.release();
                    return Poll::Ready(None);
                }
            }
        }
    }

    /// Returns the connection after the end of the body.
    fn release(&mut self) {
        if let Some(pooled) = self.pooled.take() {
            pooled.release();
        }
    }

    /// The whole body, up to a limit. A large body takes a share of the buffer quota.
    pub(super) async fn collect(
        mut self,
        bytes_max: usize,
        quota: &BufferQuota,
    ) -> Result<Bytes, UpstreamError> {
        let too_large = || UpstreamError::TooLarge { what: Excess::Answer, bytes_max };
        let announced = self.announced_bytes();
        if announced.is_some_and(|bytes| bytes > bytes_max as u64) {
            return Err(too_large());
        }
        if let BodySource::Whole(bytes) = &mut self.source {
            let whole = std::mem::take(bytes);
            self.release();
            return Ok(whole);
        }
        let Some(first) = self.chunk().await.transpose()? else {
            return Ok(Bytes::new());
        };
        if first.len() > bytes_max {
            return Err(too_large());
        }
        let first =
            if first.len() <= COPIED_BYTES_MAX { Bytes::copy_from_slice(&first) } else { first };
        let mut share = Share::new(quota);
        let Some(second) = self.chunk().await.transpose()? else {
            grow(&mut share, first.len()).await?;
            return Ok(share.of(first));
        };
        let expected = announced.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or_default();
        grow(&mut share, expected).await?;
        let mut whole = BytesMut::with_capacity(expected.max(2 * (first.len() + second.len())));
        whole.extend_from_slice(&first);
        let mut next = Some(second);
        while let Some(chunk) = next {
            if whole.len() + chunk.len() > bytes_max {
                return Err(too_large());
            }
            grow(&mut share, whole.len() + chunk.len()).await?;
            whole.extend_from_slice(&chunk);
            next = tokio::select! {
                biased;
                chunk = self.chunk() => chunk.transpose()?,
                why = share.evicted() => return Err(UpstreamError::buffer_full(&why)),
            };
        }
        Ok(share.of(whole.freeze()))
    }

    /// The first bytes of the body. The connection of a longer body is closed.
    pub(super) async fn prefix(mut self, bytes_max: usize) -> Result<Bytes, UpstreamError> {
        let mut start = BytesMut::new();
        while let Some(chunk) = self.chunk().await.transpose()? {
            let room = bytes_max.saturating_sub(start.len());
            start.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
            if chunk.len() > room {
                break;
            }
        }
        Ok(start.freeze())
    }

    /// Reads the rest of a body that is no longer needed, so that its connection can be reused. Takes what is
    /// buffered now and waits for the rest in the background.
    pub(super) fn finish(mut self, bounds: &HttpBounds) {
        let (wait_max, mut room_bytes) = (bounds.ending_wait_max, bounds.ending_bytes_max);
        let mut at_once = Context::from_waker(Waker::noop());
        while let Poll::Ready(chunk) = self.poll_chunk(&mut at_once) {
            let Some(Ok(chunk)) = chunk else { return };
            let Some(left) = room_bytes.checked_sub(chunk.len()) else { return };
            room_bytes = left;
        }
        let ending = async move {
            while let Some(Ok(chunk)) = self.chunk().await {
                let Some(left) = room_bytes.checked_sub(chunk.len()) else { return };
                room_bytes = left;
            }
        };
        // Without a runtime (at shutdown) the rest is not read.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { tokio::time::timeout(wait_max, ending).await.ok() });
        }
    }
}

async fn grow(share: &mut Share, bytes: usize) -> Result<(), UpstreamError> {
    share.grow_to(bytes, BUFFER_WAIT_MAX).await.map_err(|why| UpstreamError::buffer_full(&why))
}
