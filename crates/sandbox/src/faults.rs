//! Faults on request: which answers go wrong, how often, and in which way.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::chance::Chance;
use crate::http::{Asked, Reply};

/// No client needs more to find out what it does with a body that is too large.
const PAD_BYTES_MAX: usize = 256 << 20;

/// What goes wrong with matching answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// Paths that begin with this; empty means all but the control endpoint.
    #[serde(default)]
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// So many matching requests pass unharmed first.
    #[serde(default)]
    pub skip: u32,
    /// So many answers; without it every one until the faults are cleared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
    /// Each with this probability, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    #[serde(flatten)]
    pub what: What,
}

/// The ways in which an answer goes wrong. `Status` and `Unauthorized` answer instead of doing the
/// work; with all others the work is done and its answer suffers on the way, so that a client can
/// lose the answer to a refresh that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum What {
    Status {
        code: u16,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reset: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<String>,
    },
    /// A token that was good is refused.
    Unauthorized,
    Delay {
        ms: u64,
    },
    /// The connection ends after half of the body, or after so many bytes of it.
    Cut {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after_bytes: Option<usize>,
    },
    /// The connection ends before any answer.
    HangUp,
    /// A well-formed answer whose body is no JSON.
    Garbage,
    /// A web page with status 200.
    Html,
    /// A well-formed answer whose JSON ends in the middle.
    Truncate,
    /// The next page is the page that was asked for, for ever.
    RepeatToken,
    /// The content-length is wrong by so many bytes, more or fewer than there are.
    Length {
        by: i64,
    },
    /// Sound JSON of another shape than anybody documented.
    Warp {
        how: Warp,
    },
    /// So many bytes more, without a change of meaning: blanks behind the JSON.
    Pad {
        bytes: usize,
    },
    /// So many bytes at a time, with a pause between.
    Drip {
        bytes: usize,
        every_ms: u64,
    },
}

/// How the JSON of an answer differs from what is documented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Warp {
    /// Every text, number and flag is null.
    Nulls,
    /// Every object and list below the first level is null.
    Hollow,
    /// Numbers and flags come as texts.
    Texts,
    /// Texts of digits come as numbers.
    Numbers,
    /// Every list is an empty object.
    Swapped,
    /// Every object has a field more, and every list an entry that is null.
    More,
    /// The whole answer is a list around what it should be.
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
    /// Every answer below `path` until the faults are cleared.
    pub fn on(path: &str, what: What) -> Fault {
        Fault { path: path.to_owned(), method: None, skip: 0, next: None, probability: None, what }
    }

    #[must_use]
    pub fn next(mut self, answers: u32) -> Fault {
        self.next = Some(answers);
        self
    }

    #[must_use]
    pub fn after(mut self, unharmed: u32) -> Fault {
        self.skip = unharmed;
        self
    }

    #[must_use]
    pub fn with_probability(mut self, probability: f64) -> Fault {
        self.probability = Some(probability);
        self
    }

    fn matches(&self, asked: &Asked) -> bool {
        let method = self.method.as_deref().is_none_or(|m| m.eq_ignore_ascii_case(&asked.method));
        method && asked.path.starts_with(&self.path)
    }

    /// Does it strike this matching request? Uses up `skip` and `next`.
    fn strikes(&mut self, chance: &mut Chance) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        if self.next == Some(0) || self.probability.is_some_and(|p| !chance.happens(p)) {
            return false;
        }
        self.next = self.next.map(|left| left - 1);
        true
    }
}

#[derive(Debug)]
pub(crate) struct Faults(Mutex<(Vec<Fault>, Chance)>);

impl Faults {
    pub(crate) fn new(seed: u64, faults: Vec<Fault>) -> Faults {
        Faults(Mutex::new((faults, Chance::of(seed, "faults", 0))))
    }

    pub(crate) fn add(&self, fault: Fault) {
        self.with(|(faults, _)| faults.push(fault));
    }

    pub(crate) fn clear(&self) {
        self.with(|(faults, _)| faults.clear());
    }

    /// The faults that can still strike.
    pub(crate) fn left(&self) -> Vec<Fault> {
        self.with(|(faults, _)| faults.clone())
    }

    /// What goes wrong with this request.
    pub(crate) fn strike(&self, asked: &Asked) -> Struck {
        self.with(|(faults, chance)| {
            let mut struck = Vec::new();
            for fault in faults.iter_mut().filter(|fault| fault.matches(asked)) {
                if fault.strikes(chance) {
                    struck.push(fault.what.clone());
                }
            }
            faults.retain(|fault| fault.next != Some(0));
            Struck(struck)
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut (Vec<Fault>, Chance)) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Everything that goes wrong with one answer.
#[derive(Debug)]
pub(crate) struct Struck(Vec<What>);

impl Struck {
    pub(crate) fn none() -> Struck {
        Struck(Vec::new())
    }

    pub(crate) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    pub(crate) fn ways(&self) -> &[What] {
        &self.0
    }

    /// The answer that stands in for doing the work; `problem` gives it the form of the service.
    pub(crate) fn instead(&self, problem: impl Fn(u16, &str) -> Reply) -> Option<Reply> {
        self.0.iter().find_map(|what| match what {
            What::Status { code, retry_after, reset, body } => {
                let reply = match body {
                    Some(body) => Reply::raw(*code, body.clone()),
                    None => problem(*code, "a fault that was asked for"),
                };
                let after = retry_after.iter().map(|text| ("retry-after", text.clone()));
                let reset = reset.iter().map(|text| ("x-ratelimit-reset", text.clone()));
                Some(after.chain(reset).fold(reply, |reply, (name, text)| reply.with(name, text)))
            }
            What::Unauthorized => Some(problem(401, "Authorization was not valid")),
            _ => None,
        })
    }

    pub(crate) fn delay(&self) -> Duration {
        let each = self.0.iter().map(|what| match what {
            What::Delay { ms } => *ms,
            _ => 0,
        });
        Duration::from_millis(each.sum())
    }

    pub(crate) fn repeats_token(&self) -> bool {
        self.0.contains(&What::RepeatToken)
    }

    pub(crate) fn hangs_up(&self) -> bool {
        self.0.contains(&What::HangUp)
    }

    /// The answer with another body, still a well-formed one.
    pub(crate) fn spoil(&self, mut reply: Reply) -> Reply {
        for what in &self.0 {
            match what {
                What::Garbage => reply.body = "<<<\u{0}not json at all".into(),
                What::Html => {
                    reply = Reply::text(200, "text/html", "<!doctype html><title>Busy</title>");
                }
                What::Warp { how } => {
                    if let Ok(mut value) = serde_json::from_slice(&reply.body) {
                        how.apply(&mut value, 0);
                        reply.body = value.to_string().into();
                    }
                }
                What::Pad { bytes } => {
                    let blanks = vec![b' '; (*bytes).min(PAD_BYTES_MAX)];
                    reply.body = [reply.body.as_ref(), &blanks].concat().into();
                }
                What::Truncate => reply.body = reply.body.slice(..reply.body.len() / 2),
                _ => {}
            }
        }
        reply
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

    use super::{Fault, Faults, Warp, What};
    use crate::http::{Asked, Reply};

    fn asked(path: &str) -> Asked {
        Asked {
            method: "GET".into(),
            path: path.into(),
            query: Vec::new(),
            headers: hyper::HeaderMap::new(),
            body: bytes::Bytes::new(),
        }
    }

    #[test]
    fn a_fault_strikes_its_path_so_often_and_then_is_gone() {
        let faults = Faults::new(1, vec![Fault::on("/a", What::Garbage).after(1).next(2)]);
        let struck: Vec<bool> =
            ["/a", "/b", "/a/x", "/a", "/a"].map(|path| faults.strike(&asked(path)).any()).into();
        assert_eq!(struck, [false, false, true, true, false]);
        assert_eq!(faults.left(), []);
    }

    #[test]
    fn a_warped_answer_is_sound_json_of_another_shape() {
        let body = r#"{"a":{"n":7,"t":"8","l":[1]}}"#;
        for (how, expected) in [
            (Warp::Nulls, r#"{"a":{"n":null,"t":null,"l":[null]}}"#),
            (Warp::Hollow, r#"{"a":{"n":7,"t":"8","l":null}}"#),
            (Warp::Texts, r#"{"a":{"n":"7","t":"8","l":["1"]}}"#),
            (Warp::Numbers, r#"{"a":{"n":7,"t":8,"l":[1]}}"#),
            (Warp::Swapped, r#"{"a":{"n":7,"t":"8","l":{}}}"#),
            (Warp::Listed, r#"[{"a":{"n":7,"t":"8","l":[1]}}]"#),
        ] {
            let faults = Faults::new(0, vec![Fault::on("", What::Warp { how })]);
            let reply = faults.strike(&asked("/")).spoil(Reply::raw(200, body));
            let expected: serde_json::Value = serde_json::from_str(expected).unwrap();
            let found: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
            assert_eq!(found, expected, "{how:?}");
        }
    }

    #[test]
    fn a_probability_strikes_some_and_the_same_ones_for_the_same_seed() {
        let run = |seed| {
            let faults =
                Faults::new(seed, vec![Fault::on("", What::Garbage).with_probability(0.3)]);
            (0..500).map(|_| faults.strike(&asked("/")).any()).collect::<Vec<bool>>()
        };
        let struck = run(4).iter().filter(|struck| **struck).count();
        assert!((100..200).contains(&struck), "{struck}");
        assert_eq!(run(4), run(4));
    }

    #[test]
    fn a_fault_reads_as_it_is_written_in_the_guide() {
        let text = r#"{"path":"/v2","next":3,"fault":"status","code":503,"retry_after":"2"}"#;
        let fault: Fault = serde_json::from_str(text).unwrap();
        let reply = Faults::new(0, vec![fault]).strike(&asked("/v2/cycle"));
        let reply = reply.instead(Reply::problem).unwrap();
        assert_eq!(reply.status, 503);
        assert!(reply.headers.contains(&("retry-after", "2".to_owned())));
        for plain in ["hang_up", "truncate", "repeat_token", "unauthorized", "garbage", "html"] {
            let text = format!(r#"{{"fault":"{plain}"}}"#);
            assert!(serde_json::from_str::<Fault>(&text).is_ok(), "{plain}");
        }
        assert!(serde_json::from_str::<Fault>(r#"{"fault":"typo"}"#).is_err());
    }
}
