//! Injected faults: which responses fail, how often, and how.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::http::{Request, Response};
use crate::rng::Rng;

/// Enough to test how a client handles a body that is too large.
const PAD_BYTES_MAX: usize = 256 << 20;

/// A fault for matching requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// Prefix of the path; empty matches every path except the control endpoints.
    #[serde(default)]
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// This many matching requests pass first.
    #[serde(default)]
    pub skip: u32,
    /// This many responses; if absent, all until the faults are cleared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
    /// The probability for each, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    #[serde(flatten)]
    pub kind: FaultKind,
}

/// The kinds of faults. `Status` and `Unauthorized` replace the work of the service; all others
/// damage its response, so that a client can lose the response to a refresh that succeeded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum FaultKind {
    Status {
        code: u16,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reset: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<String>,
    },
    /// A valid token is rejected.
    Unauthorized,
    Delay {
        ms: u64,
    },
    /// The connection closes after half of the body, or after this many bytes of it.
    Cut {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after_bytes: Option<usize>,
    },
    /// The connection closes before any response.
    HangUp,
    /// A well-formed response whose body is not JSON.
    Garbage,
    /// A web page with status 200.
    Html,
    /// A well-formed response with truncated JSON.
    Truncate,
    /// The next page is always the page that was requested.
    RepeatToken,
    /// The content-length is off by this many bytes, positive or negative.
    Length {
        by: i64,
    },
    /// Valid JSON of an undocumented shape.
    Warp {
        how: Warp,
    },
    /// This many bytes of trailing whitespace, without a change of meaning.
    Pad {
        bytes: usize,
    },
    /// This many bytes at a time, with a pause between.
    Drip {
        bytes: usize,
        every_ms: u64,
    },
}

/// How the JSON of a response differs from the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Warp {
    /// Every string, number and boolean is null.
    Nulls,
    /// Every object and array below the first level is null.
    Hollow,
    /// Numbers and booleans are strings.
    Texts,
    /// Strings of digits are numbers.
    Numbers,
    /// Every array is an empty object.
    Swapped,
    /// Every object has an extra field and every array an extra null.
    More,
    /// The whole response is wrapped in an array.
    Listed,
}

impl Warp {
    fn apply(self, value: &mut Value, depth: usize) {
        let is_inner = matches!(value, Value::Object(_) | Value::Array(_));
        match (self, &*value) {
            (Warp::Nulls, _) if !is_inner => *value = Value::Null,
            (Warp::Hollow, _) if is_inner && depth > 1 => *value = Value::Null,
            (Warp::Texts, Value::Number(_) | Value::Bool(_)) => {
                *value = Value::String(value.to_string());
            }
            (Warp::Numbers, Value::String(text)) => {
                *value = text.parse::<u64>().map_or_else(|_| value.clone(), Value::from);
            }
            (Warp::Swapped, Value::Array(_)) => *value = Value::Object(Map::new()),
            _ => {}
        }
        match value {
            Value::Object(fields) => {
                fields.values_mut().for_each(|one| self.apply(one, depth + 1));
                if self == Warp::More {
                    fields.insert("a_field_of_tomorrow".to_owned(), Value::from(7));
                }
            }
            Value::Array(list) => {
                for one in list.iter_mut() {
                    self.apply(one, depth + 1);
                }
                if self == Warp::More {
                    list.insert(0, Value::Null);
                }
            }
            _ => {}
        }
        if self == Warp::Listed && depth == 0 {
            *value = Value::Array(vec![value.take()]);
        }
    }
}

impl Fault {
    /// Every response below `path` until the faults are cleared.
    pub fn on(path: &str, kind: FaultKind) -> Fault {
        Fault { path: path.to_owned(), method: None, skip: 0, next: None, probability: None, kind }
    }

    #[must_use]
    pub fn next(mut self, responses: u32) -> Fault {
        self.next = Some(responses);
        self
    }

    #[must_use]
    pub fn after(mut self, skipped: u32) -> Fault {
        self.skip = skipped;
        self
    }

    #[must_use]
    pub fn with_probability(mut self, probability: f64) -> Fault {
        self.probability = Some(probability);
        self
    }

    fn matches(&self, request: &Request) -> bool {
        let method = self.method.as_deref().is_none_or(|m| m.eq_ignore_ascii_case(&request.method));
        method && request.path.starts_with(&self.path)
    }

    /// Whether it applies to this matching request. Counts down `skip` and `next`.
    fn applies(&mut self, rng: &mut Rng) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        if self.next == Some(0) || self.probability.is_some_and(|p| !rng.happens(p)) {
            return false;
        }
        self.next = self.next.map(|left| left - 1);
        true
    }
}

#[derive(Debug)]
pub(crate) struct Faults(Mutex<(Vec<Fault>, Rng)>);

impl Faults {
    pub(crate) fn new(seed: u64, faults: Vec<Fault>) -> Faults {
        Faults(Mutex::new((faults, Rng::stream(seed, "faults", 0))))
    }

    pub(crate) fn add(&self, fault: Fault) {
        self.with(|(faults, _)| faults.push(fault));
    }

    pub(crate) fn clear(&self) {
        self.with(|(faults, _)| faults.clear());
    }

    /// The faults that can still occur.
    pub(crate) fn left(&self) -> Vec<Fault> {
        self.with(|(faults, _)| faults.clone())
    }

    /// The faults that apply to this request.
    pub(crate) fn take_matching(&self, request: &Request) -> ActiveFaults {
        self.with(|(faults, rng)| {
            let mut active = Vec::new();
            for fault in faults.iter_mut().filter(|fault| fault.matches(request)) {
                if fault.applies(rng) {
                    active.push(fault.kind.clone());
                }
            }
            faults.retain(|fault| fault.next != Some(0));
            ActiveFaults(active)
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut (Vec<Fault>, Rng)) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The faults that apply to one response.
#[derive(Debug)]
pub(crate) struct ActiveFaults(Vec<FaultKind>);

impl ActiveFaults {
    pub(crate) fn none() -> ActiveFaults {
        ActiveFaults(Vec::new())
    }

    pub(crate) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    pub(crate) fn kinds(&self) -> &[FaultKind] {
        &self.0
    }

    /// The response that replaces the work; `problem` formats it as the service does.
    pub(crate) fn replacement(&self, problem: impl Fn(u16, &str) -> Response) -> Option<Response> {
        self.0.iter().find_map(|kind| match kind {
            FaultKind::Status { code, retry_after, reset, body } => {
                let response = match body {
                    Some(body) => Response::raw(*code, body.clone()),
                    None => problem(*code, "injected fault"),
                };
                let after = retry_after.iter().map(|text| ("retry-after", text.clone()));
                let reset = reset.iter().map(|text| ("x-ratelimit-reset", text.clone()));
                Some(
                    after
                        .chain(reset)
                        .fold(response, |response, (name, text)| response.with(name, text)),
                )
            }
            FaultKind::Unauthorized => Some(problem(401, "Authorization was not valid")),
            _ => None,
        })
    }

    pub(crate) fn delay(&self) -> Duration {
        let each = self.0.iter().map(|kind| match kind {
            FaultKind::Delay { ms } => *ms,
            _ => 0,
        });
        Duration::from_millis(each.sum())
    }

    pub(crate) fn repeats_token(&self) -> bool {
        self.0.contains(&FaultKind::RepeatToken)
    }

    pub(crate) fn hangs_up(&self) -> bool {
        self.0.contains(&FaultKind::HangUp)
    }

    /// The response with a different body, still well-formed.
    pub(crate) fn corrupt(&self, mut response: Response) -> Response {
        for kind in &self.0 {
            match kind {
                FaultKind::Garbage => response.body = "<<<\u{0}not json at all".into(),
                FaultKind::Html => {
                    response =
                        Response::text(200, "text/html", "<!doctype html><title>Busy</title>");
                }
                FaultKind::Warp { how } => {
                    if let Ok(mut value) = serde_json::from_slice(&response.body) {
                        how.apply(&mut value, 0);
                        response.body = value.to_string().into();
                    }
                }
                FaultKind::Pad { bytes } => {
                    let blanks = vec![b' '; (*bytes).min(PAD_BYTES_MAX)];
                    response.body = [response.body.as_ref(), &blanks].concat().into();
                }
                FaultKind::Truncate => {
                    response.body = response.body.slice(..response.body.len() / 2);
                }
                _ => {}
            }
        }
        response
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

    use super::{Fault, FaultKind, Faults, Warp};
    use crate::http::{Request, Response};

    fn request(path: &str) -> Request {
        Request {
            method: "GET".into(),
            path: path.into(),
            query: Vec::new(),
            headers: hyper::HeaderMap::new(),
            body: bytes::Bytes::new(),
        }
    }

    #[test]
    fn a_fault_applies_to_its_path_a_limited_number_of_times() {
        let faults = Faults::new(1, vec![Fault::on("/a", FaultKind::Garbage).after(1).next(2)]);
        let active: Vec<bool> = ["/a", "/b", "/a/x", "/a", "/a"]
            .map(|path| faults.take_matching(&request(path)).any())
            .into();
        assert_eq!(active, [false, false, true, true, false]);
        assert_eq!(faults.left(), []);
    }

    #[test]
    fn a_warped_response_is_valid_json_of_another_shape() {
        let body = r#"{"a":{"n":7,"t":"8","l":[1]}}"#;
        for (how, expected) in [
            (Warp::Nulls, r#"{"a":{"n":null,"t":null,"l":[null]}}"#),
            (Warp::Hollow, r#"{"a":{"n":7,"t":"8","l":null}}"#),
            (Warp::Texts, r#"{"a":{"n":"7","t":"8","l":["1"]}}"#),
            (Warp::Numbers, r#"{"a":{"n":7,"t":8,"l":[1]}}"#),
            (Warp::Swapped, r#"{"a":{"n":7,"t":"8","l":{}}}"#),
            (Warp::Listed, r#"[{"a":{"n":7,"t":"8","l":[1]}}]"#),
        ] {
            let faults = Faults::new(0, vec![Fault::on("", FaultKind::Warp { how })]);
            let response = faults.take_matching(&request("/")).corrupt(Response::raw(200, body));
            let expected: serde_json::Value = serde_json::from_str(expected).unwrap();
            let found: serde_json::Value = serde_json::from_slice(&response.body).unwrap();
            assert_eq!(found, expected, "{how:?}");
        }
    }

    #[test]
    fn a_probability_selects_the_same_requests_for_the_same_seed() {
        let run = |seed| {
            let faults =
                Faults::new(seed, vec![Fault::on("", FaultKind::Garbage).with_probability(0.3)]);
            (0..500).map(|_| faults.take_matching(&request("/")).any()).collect::<Vec<bool>>()
        };
        let active = run(4).iter().filter(|active| **active).count();
        assert!((100..200).contains(&active), "{active}");
        assert_eq!(run(4), run(4));
    }

    #[test]
    fn a_fault_is_parsed_as_the_guide_writes_it() {
        let text = r#"{"path":"/v2","next":3,"fault":"status","code":503,"retry_after":"2"}"#;
        let fault: Fault = serde_json::from_str(text).unwrap();
        let response = Faults::new(0, vec![fault]).take_matching(&request("/v2/cycle"));
        let response = response.replacement(Response::problem).unwrap();
        assert_eq!(response.status, 503);
        assert!(response.headers.contains(&("retry-after", "2".to_owned())));
        for plain in ["hang_up", "truncate", "repeat_token", "unauthorized", "garbage", "html"] {
            let text = format!(r#"{{"fault":"{plain}"}}"#);
            assert!(serde_json::from_str::<Fault>(&text).is_ok(), "{plain}");
        }
        assert!(serde_json::from_str::<Fault>(r#"{"fault":"typo"}"#).is_err());
    }
}
