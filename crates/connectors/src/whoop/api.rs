//! Asks WHOOP. What fails comes back as a problem with one of the known codes; what succeeds is JSON
//! text exactly as it came.

use std::borrow::Cow;
use std::collections::HashSet;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::SERVICE;
use super::kind::Kind;
use super::problem::{Code, Problem};
use crate::Desk;
use crate::fetch::{self, FetchError};
use crate::http::{HttpError, Reply};
use crate::member::{self, Acquainted};

pub use crate::fetch::Patience;

/// WHOOP gives no more on a page.
pub const PAGE_RECORDS_MAX: usize = 25;
/// A body that is cut in the middle of its JSON is asked for once more.
const GARBLED_TRIES: u32 = 2;

/// Everything that is asked of WHOOP. An id is part of one path segment and cannot leave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint<'a> {
    Profile,
    Body,
    List(Kind),
    Cycle(i64),
    CycleSleep(i64),
    CycleRecovery(i64),
    Sleep(&'a str),
    Workout(&'a str),
}

impl<'a> Endpoint<'a> {
    /// Where one record of a kind is found by its id in the mirror.
    pub fn of(kind: Kind, id: &'a str) -> Option<Endpoint<'a>> {
        match kind {
            Kind::Cycles => id.parse().ok().map(Endpoint::Cycle),
            Kind::Recoveries => id.parse().ok().map(Endpoint::CycleRecovery),
            Kind::Sleeps => Some(Endpoint::Sleep(id)),
            Kind::Workouts => Some(Endpoint::Workout(id)),
            Kind::BodyMeasurement => Some(Endpoint::Body),
            Kind::Profile => Some(Endpoint::Profile),
        }
    }

    fn segments(self) -> Vec<Cow<'a, str>> {
        let fixed = |path: &'static str| path.split('/').skip(1).map(Cow::Borrowed);
        let number = |id: i64| Cow::Owned(id.to_string());
        match self {
            Endpoint::Profile => fixed(Kind::Profile.path()).collect(),
            Endpoint::Body => fixed(Kind::BodyMeasurement.path()).collect(),
            Endpoint::List(kind) => fixed(kind.path()).collect(),
            Endpoint::Cycle(id) => fixed("/cycle").chain([number(id)]).collect(),
            Endpoint::CycleSleep(id) => {
                fixed("/cycle").chain([number(id), "sleep".into()]).collect()
            }
            Endpoint::CycleRecovery(id) => {
                fixed("/cycle").chain([number(id), "recovery".into()]).collect()
            }
            Endpoint::Sleep(id) => fixed("/activity/sleep").chain([id.into()]).collect(),
            Endpoint::Workout(id) => fixed("/activity/workout").chain([id.into()]).collect(),
        }
    }

    /// The path as error envelopes name it.
    pub fn path(self) -> String {
        let mut path = String::new();
        for segment in self.segments() {
            path.push('/');
            path.push_str(&segment);
        }
        path
    }
}

/// A JSON object as WHOOP wrote it.
#[derive(Clone, Debug)]
pub struct Fetched {
    body: Bytes,
}

impl Fetched {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap_or_default()
    }
}

/// The time asked for, as WHOOP wants it: full instants, the lower one inclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds<'a> {
    pub start: Option<&'a str>,
    pub end: Option<&'a str>,
}

/// One page of a list.
#[derive(Debug)]
pub struct Page {
    /// Newest first, each byte for byte.
    pub records: Vec<Box<RawValue>>,
    pub next: Option<String>,
}

/// Several pages of a list.
#[derive(Debug)]
pub struct Collected {
    pub records: Vec<Box<RawValue>>,
    /// Nothing of the time asked for is missing.
    pub complete: bool,
}

/// Gets one thing.
pub async fn get(
    desk: &Desk,
    endpoint: Endpoint<'_>,
    query: &[(&str, &str)],
    patience: Patience,
) -> Result<Fetched, Problem> {
    let is_profile = endpoint == Endpoint::Profile;
    read(desk, endpoint, query, patience, |body| {
        if !is_object(&body) {
            return None;
        }
        let known = if is_profile { welcome(desk, endpoint, &body) } else { Ok(()) };
        Some(known.map(|()| Fetched { body }))
    })
    .await
}

/// Gets one thing and reads it. `understand` has nothing for what is not one whole JSON object.
async fn read<T>(
    desk: &Desk,
    endpoint: Endpoint<'_>,
    query: &[(&str, &str)],
    patience: Patience,
    understand: impl Fn(Bytes) -> Option<Result<T, Problem>>,
) -> Result<T, Problem> {
    if endpoint != Endpoint::Profile && member::acquainted(desk, &SERVICE) == Acquainted::NotYet {
        greet(desk, endpoint, patience).await?;
    }
    let segments = endpoint.segments();
    let segments: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
    for _ in 0..GARBLED_TRIES {
        let reply = ask(desk, endpoint, &segments, query, patience).await?;
        if let Some(found) = understand(answered(endpoint, reply)?) {
            return found;
        }
    }
    Err(upstream(endpoint, "the answer is not a JSON object"))
}

/// A login that is new to the mirror shows whose it is. Without the scope for that nobody can tell.
async fn greet(desk: &Desk, endpoint: Endpoint<'_>, patience: Patience) -> Result<(), Problem> {
    let segments = Endpoint::Profile.segments();
    let segments: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
    let reply = ask(desk, endpoint, &segments, &[], patience).await?;
    if matches!(reply.status, 400 | 403 | 404) {
        return Ok(());
    }
    let body = answered(endpoint, reply)?;
    welcome(desk, endpoint, &body)
}

fn welcome(desk: &Desk, endpoint: Endpoint<'_>, profile: &[u8]) -> Result<(), Problem> {
    member::greet(desk, &SERVICE, profile).map_err(|error| {
        let words = error.to_string().replace("\nhint: ", "; ");
        Problem::new(Code::AuthFailed, endpoint.path(), words)
    })
}

async fn ask(
    desk: &Desk,
    endpoint: Endpoint<'_>,
    segments: &[&str],
    query: &[(&str, &str)],
    patience: Patience,
) -> Result<Reply, Problem> {
    let reply = fetch::get(desk, &SERVICE, segments, query, patience).await;
    reply.map_err(|error| unanswered(endpoint, &error))
}

/// Gets one page of a list.
pub async fn page(
    desk: &Desk,
    kind: Kind,
    bounds: Bounds<'_>,
    next: Option<&str>,
    patience: Patience,
) -> Result<Page, Problem> {
    let limit = PAGE_RECORDS_MAX.to_string();
    let mut query = vec![("limit", limit.as_str())];
    query.extend(bounds.start.map(|start| ("start", start)));
    query.extend(bounds.end.map(|end| ("end", end)));
    query.extend(next.map(|next| ("nextToken", next)));
    let endpoint = Endpoint::List(kind);
    read(desk, endpoint, &query, patience, |body| match serde_json::from_slice(&body) {
        Ok(Listed { records, next_token }) => {
            Some(Ok(Page { records, next: next_token.filter(|next| !next.is_empty()) }))
        }
        Err(_) => {
            is_object(&body).then(|| Err(upstream(endpoint, "the answer is not a page of records")))
        }
    })
    .await
}

/// Gets pages until there are `limit` records or no more pages.
pub async fn collect(
    desk: &Desk,
    kind: Kind,
    bounds: Bounds<'_>,
    limit: Option<usize>,
    patience: Patience,
) -> Result<Collected, Problem> {
    let limit = limit.unwrap_or(usize::MAX);
    let mut records = Vec::new();
    let mut tokens = Tokens::new(kind);
    loop {
        let page = page(desk, kind, bounds, tokens.last(), patience).await?;
        let count = page.records.len();
        records.extend(page.records);
        let is_last = page.next.is_none();
        if is_last || records.len() >= limit {
            let complete = is_last && records.len() <= limit;
            records.truncate(limit);
            return Ok(Collected { records, complete });
        }
        tokens.advance(page.next, count)?;
    }
}

#[derive(Deserialize)]
struct Listed {
    records: Vec<Box<RawValue>>,
    #[serde(default)]
    next_token: Option<String>,
}

/// The tokens of one list so far. A token that comes again would have us turn in a circle.
pub(crate) struct Tokens {
    kind: Kind,
    seen: HashSet<String>,
    last: Option<String>,
    empty_in_a_row: usize,
}

/// A list that goes on without a record for so many pages has no end; one that is longer than any
/// life of records has none either.
const EMPTY_PAGES_MAX: usize = 20;
const PAGES_MAX: usize = 10_000;

impl Tokens {
    pub(crate) fn new(kind: Kind) -> Tokens {
        Tokens { kind, seen: HashSet::new(), last: None, empty_in_a_row: 0 }
    }

    pub(crate) fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// Goes on from a page of so many records to the next one; answers whether there is one.
    pub(crate) fn advance(
        &mut self,
        next: Option<String>,
        records: usize,
    ) -> Result<bool, Problem> {
        self.empty_in_a_row = if records == 0 { self.empty_in_a_row + 1 } else { 0 };
        if let Some(next) = &next {
            let wrong = |words| Err(upstream(Endpoint::List(self.kind), words));
            if !self.seen.insert(next.clone()) {
                return wrong("the same page token came twice");
            }
            if self.empty_in_a_row >= EMPTY_PAGES_MAX || self.seen.len() >= PAGES_MAX {
                return wrong("the list of pages does not end");
            }
        }
        self.last = next;
        Ok(self.last.is_some())
    }
}

/// Is the whole of it one JSON object? Checked without keeping what is in it.
fn is_object(body: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(body) else { return false };
    text.trim_start().starts_with('{')
        && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// The body of a success, or what the status means.
fn answered(endpoint: Endpoint<'_>, reply: Reply) -> Result<Bytes, Problem> {
    let words = match reply.status {
        200..300 => return Ok(reply.body),
        401 => {
            let words = "WHOOP does not accept the login; `tollgate connect whoop` signs in again";
            return Err(Problem::new(Code::AuthFailed, endpoint.path(), words));
        }
        404 => return Err(Problem::new(Code::NotFound, endpoint.path(), "resource not found")),
        429 => return Err(limited(endpoint, reply.wait_asked().map(|wait| wait.as_secs()))),
        500.. => format!("WHOOP answered {} again and again", reply.status),
        status => format!("WHOOP answered {status}"),
    };
    Err(upstream(endpoint, words))
}

fn unanswered(endpoint: Endpoint<'_>, error: &FetchError) -> Problem {
    let words = error.to_string();
    let words = words.replace("\nhint: ", "; ");
    match error {
        FetchError::SignIn(_) => Problem::new(Code::AuthFailed, endpoint.path(), words),
        FetchError::Limited { seconds, .. }
        | FetchError::Http(HttpError::Limited { seconds, .. }) => limited(endpoint, Some(*seconds)),
        FetchError::Http(_) => upstream(endpoint, words),
    }
}

fn limited(endpoint: Endpoint<'_>, seconds: Option<u64>) -> Problem {
    let words = match seconds {
        Some(seconds) => format!("WHOOP allows no more requests for {seconds} seconds"),
        None => "WHOOP allows no more requests for now".to_owned(),
    };
    Problem::new(Code::RateLimited, endpoint.path(), words)
}

fn upstream(endpoint: Endpoint<'_>, words: impl Into<String>) -> Problem {
    Problem::new(Code::UpstreamError, endpoint.path(), words)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn paths_are_those_of_the_second_version() {
        for (endpoint, path) in [
            (Endpoint::Profile, "/user/profile/basic"),
            (Endpoint::Body, "/user/measurement/body"),
            (Endpoint::List(Kind::Sleeps), "/activity/sleep"),
            (Endpoint::Cycle(5), "/cycle/5"),
            (Endpoint::CycleSleep(5), "/cycle/5/sleep"),
            (Endpoint::CycleRecovery(5), "/cycle/5/recovery"),
            (Endpoint::Workout("a/../b"), "/activity/workout/a/../b"),
        ] {
            assert_eq!(endpoint.path(), path);
        }
        // What is sent is made of segments, so this id is one of them whatever it holds.
        assert_eq!(Endpoint::Workout("a/../b").segments().len(), 3);
    }

    #[test]
    fn a_token_that_comes_again_is_refused() {
        let mut tokens = Tokens::new(Kind::Cycles);
        assert_eq!(tokens.advance(Some("a".into()), 25), Ok(true));
        assert_eq!(tokens.advance(Some("b".into()), 25), Ok(true));
        assert_eq!(tokens.advance(Some("a".into()), 25).unwrap_err().code, Code::UpstreamError);
        assert_eq!(tokens.advance(None, 0), Ok(false));
    }

    #[test]
    fn a_list_that_goes_on_without_records_is_given_up() {
        let mut tokens = Tokens::new(Kind::Cycles);
        let pages = |tokens: &mut Tokens, from: usize, records: usize| {
            let goes_on = |n: &usize| tokens.advance(Some(n.to_string()), records).is_ok();
            (from..2 * PAGES_MAX).take_while(goes_on).count()
        };
        assert_eq!(tokens.advance(Some("x".into()), 0), Ok(true));
        assert_eq!(tokens.advance(Some("y".into()), 1), Ok(true));
        assert_eq!(pages(&mut tokens, 0, 0), EMPTY_PAGES_MAX - 1);
        let mut tokens = Tokens::new(Kind::Cycles);
        assert_eq!(pages(&mut tokens, 0, 25), PAGES_MAX - 1);
    }

    #[test]
    fn only_one_whole_object_is_an_answer() {
        for (body, expected) in [
            (&b" {\"a\":[1]} "[..], true),
            (b"{\"a\":[1]", false),
            (b"[]", false),
            (b"<html>", false),
            (b"", false),
            (b"{} {}", false),
            (b"{\"a\":\"\xff\"}", false),
        ] {
            assert_eq!(is_object(body), expected, "{}", String::from_utf8_lossy(body));
        }
    }
}
