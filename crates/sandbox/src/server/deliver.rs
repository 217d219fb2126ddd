//! Puts an answer on the wire, in one piece or in the broken way that a fault asks for.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{CONTENT_LENGTH, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::time::Sleep;

use crate::faults::{Struck, What};
use crate::http::Reply;

/// A body in steps. It never tells its length, so that the header alone decides what the client
/// is led to expect.
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

pub(super) fn respond(reply: Reply, struck: &Struck) -> Response<Outgoing> {
    let length = claimed_length(&reply, struck);
    let bodiless = reply.status == 204 || reply.status == 304;
    let outgoing = Outgoing { steps: steps(&reply.body, struck), waiting: None };
    let mut response = Response::new(outgoing);
    *response.status_mut() =
        StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    for (name, value) in reply.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.append(HeaderName::from_static(name), value);
        }
    }
    if !bodiless {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    response
}

fn claimed_length(reply: &Reply, struck: &Struck) -> u64 {
    let wrong_by: i64 = struck
        .ways()
        .iter()
        .map(|what| match what {
            What::Length { by } => *by,
            _ => 0,
        })
        .sum();
    (reply.body.len() as u64).saturating_add_signed(wrong_by)
}

fn steps(body: &Bytes, struck: &Struck) -> VecDeque<Step> {
    let mut steps = VecDeque::from([Step::Send(body.clone())]);
    for what in struck.ways() {
        match what {
            What::Cut { after_bytes } => {
                let kept = after_bytes.unwrap_or(body.len() / 2).min(body.len());
                // The pause lets the first half leave before the connection goes.
                let pause = Step::Wait(Duration::from_millis(5));
                steps = VecDeque::from([Step::Send(body.slice(..kept)), pause, Step::Break]);
            }
            What::Drip { bytes, every_ms } => steps = drip(body, *bytes, *every_ms),
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
                    let error = io::Error::other("cut off, as a fault asked");
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
