//! Requests to WHOOP. A failure is a problem with one of the known codes; a success is JSON text
//! exactly as received.

use std::borrow::Cow;
use std::collections::HashSet;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::SERVICE;
use super::kind::Kind;
use super::problem::{WhoopCode, WhoopProblem};
use crate::ConnectorContext;
use crate::fetch::{self, FetchError};
use crate::http::{HttpError, Reply};
use crate::identity::{self, LoginOwner};

pub use crate::fetch::WaitPolicy;

/// WHOOP's page limit.
pub const PAGE_RECORDS_MAX: usize = 25;
/// A truncated JSON body is requested once more.
const MALFORMED_TRIES: u32 = 2;

/// The endpoints in use. An id is one path segment and cannot add others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiPath<'a> {
    Profile,
    Body,
    List(Kind),
    Cycle(i64),
    CycleSleep(i64),
    CycleRecovery(i64),
    Sleep(&'a str),
    Workout(&'a str),
}

impl<'a> ApiPath<'a> {
    /// The endpoint of one record, by its kind and its id in the mirror.
    pub fn of(kind: Kind, id: &'a str) -> Option<ApiPath<'a>> {
        match kind {
            Kind::Cycles => id.parse().ok().map(ApiPath::Cycle),
            Kind::Recoveries => id.parse().ok().map(ApiPath::CycleRecovery),
            Kind::Sleeps => Some(ApiPath::Sleep(id)),
            Kind::Workouts => Some(ApiPath::Workout(id)),
            Kind::BodyMeasurement => Some(ApiPath::Body),
            Kind::Profile => Some(ApiPath::Profile),
        }
    }

    fn segments(self) -> Vec<Cow<'a, str>> {
        let fixed = |path: &'static str| path.split('/').skip(1).map(Cow::Borrowed);
        let number = |id: i64| Cow::Owned(id.to_string());
        match self {
            ApiPath::Profile => fixed(Kind::Profile.path()).collect(),
            ApiPath::Body => fixed(Kind::BodyMeasurement.path()).collect(),
            ApiPath::List(kind) => fixed(kind.path()).collect(),
            ApiPath::Cycle(id) => fixed("/cycle").chain([number(id)]).collect(),
            ApiPath::CycleSleep(id) => {
                fixed("/cycle").chain([number(id), "sleep".into()]).collect()
            }
            ApiPath::CycleRecovery(id) => {
                fixed("/cycle").chain([number(id), "recovery".into()]).collect()
            }
            ApiPath::Sleep(id) => fixed("/activity/sleep").chain([id.into()]).collect(),
            ApiPath::Workout(id) => fixed("/activity/workout").chain([id.into()]).collect(),
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
pub struct RawJson {
    body: Bytes,
}

impl RawJson {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap_or_default()
    }
}

/// The requested window in WHOOP's form: full instants, the lower one inclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds<'a> {
    pub start: Option<&'a str>,
    pub end: Option<&'a str>,
}

/// One page of a list.
#[derive(Debug)]
pub struct RecordPage {
    /// Newest first, each byte for byte.
    pub records: Vec<Box<RawValue>>,
    pub next: Option<String>,
}

/// Several pages of a list.
#[derive(Debug)]
pub struct Collected {
    pub records: Vec<Box<RawValue>>,
    /// The whole window was fetched.
    pub complete: bool,
}

/// Gets one object.
pub async fn get(
    ctx: &ConnectorContext,
    endpoint: ApiPath<'_>,
    query: &[(&str, &str)],
    wait: WaitPolicy,
) -> Result<RawJson, WhoopProblem> {
    let is_profile = endpoint == ApiPath::Profile;
    read(ctx, endpoint, query, wait, |body| {
        if !is_object(&body) {
            return None;
        }
        let known = if is_profile { welcome(ctx, endpoint, &body) } else { Ok(()) };
        Some(known.map(|()| RawJson { body }))
    })
    .await
}

/// Gets one object and parses it. `understand` returns `None` for an incomplete JSON object.
async fn read<T>(
    ctx: &ConnectorContext,
    endpoint: ApiPath<'_>,
    query: &[(&str, &str)],
    wait: WaitPolicy,
    understand: impl Fn(Bytes) -> Option<Result<T, WhoopProblem>>,
) -> Result<T, WhoopProblem> {
    if endpoint != ApiPath::Profile
        && identity::login_owner(ctx, &SERVICE) == LoginOwner::Unverified
    {
        verify(ctx, endpoint, wait).await?;
    }
    let segments = endpoint.segments();
    let segments: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
    for _ in 0..MALFORMED_TRIES {
        let reply = ask(ctx, endpoint, &segments, query, wait).await?;
        if let Some(found) = understand(answered(endpoint, reply)?) {
            return found;
        }
    }
    Err(upstream(endpoint, "the answer is not a JSON object"))
}

/// Identifies a login that is new to the mirror. Without the profile scope its person is unknown.
async fn verify(
    ctx: &ConnectorContext,
    endpoint: ApiPath<'_>,
    wait: WaitPolicy,
) -> Result<(), WhoopProblem> {
    let segments = ApiPath::Profile.segments();
    let segments: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
    let reply = ask(ctx, endpoint, &segments, &[], wait).await?;
    if matches!(reply.status, 400 | 403 | 404) {
        return Ok(());
    }
    let body = answered(endpoint, reply)?;
    welcome(ctx, endpoint, &body)
}

fn welcome(
    ctx: &ConnectorContext,
    endpoint: ApiPath<'_>,
    profile: &[u8],
) -> Result<(), WhoopProblem> {
    identity::verify(ctx, &SERVICE, profile).map_err(|error| {
        let message = error.to_string().replace("\nhint: ", "; ");
        WhoopProblem::new(WhoopCode::AuthFailed, endpoint.path(), message)
    })
}

async fn ask(
    ctx: &ConnectorContext,
    endpoint: ApiPath<'_>,
    segments: &[&str],
    query: &[(&str, &str)],
    wait: WaitPolicy,
) -> Result<Reply, WhoopProblem> {
    let reply = fetch::get(ctx, &SERVICE, segments, query, wait).await;
    reply.map_err(|error| unanswered(endpoint, &error))
}

/// Gets one page of a list.
pub async fn page(
    ctx: &ConnectorContext,
    kind: Kind,
    bounds: Bounds<'_>,
    next: Option<&str>,
    wait: WaitPolicy,
) -> Result<RecordPage, WhoopProblem> {
    let limit = PAGE_RECORDS_MAX.to_string();
    let mut query = vec![("limit", limit.as_str())];
    query.extend(bounds.start.map(|start| ("start", start)));
    query.extend(bounds.end.map(|end| ("end", end)));
    query.extend(next.map(|next| ("nextToken", next)));
    let endpoint = ApiPath::List(kind);
    read(ctx, endpoint, &query, wait, |body| match serde_json::from_slice(&body) {
        Ok(Listed { records, next_token }) => {
            Some(Ok(RecordPage { records, next: next_token.filter(|next| !next.is_empty()) }))
        }
        Err(_) => {
            is_object(&body).then(|| Err(upstream(endpoint, "the answer is not a page of records")))
        }
    })
    .await
}

/// Gets pages until there are `limit` records or no more pages.
pub async fn collect(
    ctx: &ConnectorContext,
    kind: Kind,
    bounds: Bounds<'_>,
    limit: Option<usize>,
    wait: WaitPolicy,
) -> Result<Collected, WhoopProblem> {
    let limit = limit.unwrap_or(usize::MAX);
    let mut records = Vec::new();
    let mut tokens = PageTokens::new(kind);
    loop {
        let page = page(ctx, kind, bounds, tokens.last(), wait).await?;
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

/// The page tokens of one list so far. A repeated token would cause an endless loop.
pub(crate) struct PageTokens {
    kind: Kind,
    seen: HashSet<String>,
    last: Option<String>,
    empty_in_a_row: usize,
}

/// Bounds on empty pages and on pages: a list beyond them is taken for endless.
const EMPTY_PAGES_MAX: usize = 20;
const PAGES_MAX: usize = 10_000;

impl PageTokens {
    pub(crate) fn new(kind: Kind) -> PageTokens {
        PageTokens { kind, seen: HashSet::new(), last: None, empty_in_a_row: 0 }
    }

    pub(crate) fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// Moves from a page of so many records to the next; false if there is none.
    pub(crate) fn advance(
        &mut self,
        next: Option<String>,
        records: usize,
    ) -> Result<bool, WhoopProblem> {
        self.empty_in_a_row = if records == 0 { self.empty_in_a_row + 1 } else { 0 };
        if let Some(next) = &next {
            let wrong = |message| Err(upstream(ApiPath::List(self.kind), message));
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

/// Is the text one complete JSON object? Checked without building it.
fn is_object(body: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(body) else { return false };
    text.trim_start().starts_with('{')
        && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// The body of a success, or the problem of the status.
fn answered(endpoint: ApiPath<'_>, reply: Reply) -> Result<Bytes, WhoopProblem> {
    let message = match reply.status {
        200..300 => return Ok(reply.body),
        401 => {
            let message =
                "WHOOP does not accept the login; `tollgate connect whoop` signs in again";
            return Err(WhoopProblem::new(WhoopCode::AuthFailed, endpoint.path(), message));
        }
        404 => {
            return Err(WhoopProblem::new(
                WhoopCode::NotFound,
                endpoint.path(),
                "resource not found",
            ));
        }
        429 => return Err(limited(endpoint, reply.retry_after().map(|wait| wait.as_secs()))),
        500.. => format!("WHOOP answered {} again and again", reply.status),
        status => format!("WHOOP answered {status}"),
    };
    Err(upstream(endpoint, message))
}

fn unanswered(endpoint: ApiPath<'_>, error: &FetchError) -> WhoopProblem {
    let message = error.to_string();
    let message = message.replace("\nhint: ", "; ");
    match error {
        FetchError::SignIn(_) => WhoopProblem::new(WhoopCode::AuthFailed, endpoint.path(), message),
        FetchError::Limited { seconds, .. }
        | FetchError::Http(HttpError::Limited { seconds, .. }) => limited(endpoint, Some(*seconds)),
        FetchError::Http(_) => upstream(endpoint, message),
    }
}

fn limited(endpoint: ApiPath<'_>, seconds: Option<u64>) -> WhoopProblem {
    let message = match seconds {
        Some(seconds) => format!("WHOOP allows no more requests for {seconds} seconds"),
        None => "WHOOP allows no more requests for now".to_owned(),
    };
    WhoopProblem::new(WhoopCode::RateLimited, endpoint.path(), message)
}

fn upstream(endpoint: ApiPath<'_>, message: impl Into<String>) -> WhoopProblem {
    WhoopProblem::new(WhoopCode::UpstreamError, endpoint.path(), message)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn paths_are_those_of_the_second_version() {
        for (endpoint, path) in [
            (ApiPath::Profile, "/user/profile/basic"),
            (ApiPath::Body, "/user/measurement/body"),
            (ApiPath::List(Kind::Sleeps), "/activity/sleep"),
            (ApiPath::Cycle(5), "/cycle/5"),
            (ApiPath::CycleSleep(5), "/cycle/5/sleep"),
            (ApiPath::CycleRecovery(5), "/cycle/5/recovery"),
            (ApiPath::Workout("a/../b"), "/activity/workout/a/../b"),
        ] {
            assert_eq!(endpoint.path(), path);
        }
        // The path is built of segments, so any id is a single one.
        assert_eq!(ApiPath::Workout("a/../b").segments().len(), 3);
    }

    #[test]
    fn a_token_that_comes_again_is_refused() {
        let mut tokens = PageTokens::new(Kind::Cycles);
        assert_eq!(tokens.advance(Some("a".into()), 25), Ok(true));
        assert_eq!(tokens.advance(Some("b".into()), 25), Ok(true));
        assert_eq!(
            tokens.advance(Some("a".into()), 25).unwrap_err().code,
            WhoopCode::UpstreamError
        );
        assert_eq!(tokens.advance(None, 0), Ok(false));
    }

    #[test]
    fn a_list_that_goes_on_without_records_is_given_up() {
        let mut tokens = PageTokens::new(Kind::Cycles);
        let pages = |tokens: &mut PageTokens, from: usize, records: usize| {
            let goes_on = |n: &usize| tokens.advance(Some(n.to_string()), records).is_ok();
            (from..2 * PAGES_MAX).take_while(goes_on).count()
        };
        assert_eq!(tokens.advance(Some("x".into()), 0), Ok(true));
        assert_eq!(tokens.advance(Some("y".into()), 1), Ok(true));
        assert_eq!(pages(&mut tokens, 0, 0), EMPTY_PAGES_MAX - 1);
        let mut tokens = PageTokens::new(Kind::Cycles);
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
