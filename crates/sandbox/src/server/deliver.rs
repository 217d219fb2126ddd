//! Sends a response, whole or broken in the way that a fault requires.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{CONTENT_LENGTH, HeaderName, HeaderValue};
use tokio::time::Sleep;

use crate::faults::{ActiveFaults, FaultKind};
use crate::http::Response;

/// A body sent in steps. It reports no length, so that only the header tells the client what to
/// expect.
#[derive(Debug)]
pub(crate) struct Outgoing {
    steps: VecDeque<Step>,
    waiting: Option<Pin<Box<Sleep>>>,
}

#[derive(Debug)]
enum Step {
    Send(Bytes),
    Wait(Duration),
    Break,
}

pub(super) fn respond(response: Response, active: &ActiveFaults) -> hyper::Response<Outgoing> {
    let length = claimed_length(&response, active);
    let bodiless = response.status == 204 || response.status == 304;
    let outgoing = Outgoing { steps: steps(&response.body, active), waiting: None };
    let mut sent = hyper::Response::new(outgoing);
    *sent.status_mut() =
        StatusCode::from_u16(response.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = sent.headers_mut();
    for (name, value) in response.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.append(HeaderName::from_static(name), value);
        }
    }
    if !bodiless {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    sent
}

fn claimed_length(response: &Response, active: &ActiveFaults) -> u64 {
    let wrong_by: i64 = active
        .kinds()
        .iter()
        .map(|kind| match kind {
            FaultKind::Length { by } => *by,
            _ => 0,
        })
        .sum();
    (response.body.len() as u64).saturating_add_signed(wrong_by)
}

fn steps(body: &Bytes, active: &ActiveFaults) -> VecDeque<Step> {
    let mut steps = VecDeque::from([Step::Send(body.clone())]);
    for kind in active.kinds() {
        match kind {
            FaultKind::Cut { after_bytes } => {
                let kept = after_bytes.unwrap_or(body.len() / 2).min(body.len());
                // The pause lets the first half be sent before the connection closes.
                let pause = Step::Wait(Duration::from_millis(5));
                steps = VecDeque::from([Step::Send(body.slice(..kept)), pause, Step::Break]);
            }
            FaultKind::Drip { bytes, every_ms } => steps = drip(body, *bytes, *every_ms),
            _ => {}
        }
    }
    steps.retain(|step| !matches!(step, Step::Send(bytes) if bytes.is_empty()));
    steps
}

fn drip(body: &Bytes, bytes: usize, every_ms: u64) -> VecDeque<Step> {
    let mut steps = VecDeque::new();
    for drop in body.chunks(bytes.max(1)) {
        steps.push_back(Step::Send(Bytes::copy_from_slice(drop)));
        steps.push_back(Step::Wait(Duration::from_millis(every_ms)));
    }
    steps.pop_back();
    steps
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        loop {
            if let Some(waiting) = &mut self.waiting {
                if waiting.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                self.waiting = None;
            }
            match self.steps.pop_front() {
                Some(Step::Send(bytes)) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Some(Step::Wait(time)) => self.waiting = Some(Box::pin(tokio::time::sleep(time))),
                Some(Step::Break) => {
                    let error = io::Error::other("truncated by a fault");
                    return Poll::Ready(Some(Err(error)));
                }
                None => return Poll::Ready(None),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.steps.is_empty() && self.waiting.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
