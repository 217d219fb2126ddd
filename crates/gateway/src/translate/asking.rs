//! Results and tasks that ask their client for something, read so strictly that what passes was judged.

use policy::json::{Kind, Value};

use super::Question;

/// Whether a result asks its client for something, whatever it says it is. Readers that fold names take
/// other spellings for these members.
pub(crate) fn asks(result: Value<'_>) -> bool {
    let is_input = |value: Value<'_>| value.as_str().as_deref() == Some("input_required");
    result.entries().any(|(key, value)| {
        let key = key.text();
        key.eq_ignore_ascii_case("inputRequests")
            || key.eq_ignore_ascii_case("resultType") && is_input(value)
    })
}

/// Whether what a task came to asks for something: nobody could answer, because the task is over.
pub(crate) fn ended_asking(task: Value<'_>) -> bool {
    task.get("taskId").is_some() && task.get("result").is_some_and(asks)
}

/// The questions of a result or a task that asks its client for something. Nothing when one of them cannot
/// be read: what is not understood cannot be judged.
pub(crate) fn questions(result: Value<'_>) -> Option<Vec<Question>> {
    if !is_exact(result, &["inputRequests", "resultType"]) {
        return None;
    }
    let Some(requests) = result.get("inputRequests") else { return Some(Vec::new()) };
    if requests.kind() != Kind::Object {
        return None;
    }
    requests.entries().map(|(key, request)| question(&key.text(), request)).collect()
}

/// Whether no member is one of these in another spelling, nor there twice.
fn is_exact(object: Value<'_>, known: &[&str]) -> bool {
    known.iter().all(|known| {
        let mut alike = object
            .entries()
            .map(|(key, _)| key.text())
            .filter(|key| key.eq_ignore_ascii_case(known));
        alike.next().is_none_or(|key| key == *known) && alike.next().is_none()
    })
}

fn question(key: &str, request: Value<'_>) -> Option<Question> {
    if request.kind() != Kind::Object || !is_exact(request, &["method", "params"]) {
        return None;
    }
    let params = request.get("params");
    // Which kind of question it is stands in these.
    let reads = |params: Value<'_>| {
        params.kind() == Kind::Object && is_exact(params, &["mode", "tools", "url"])
    };
    if params.is_some_and(|params| !reads(params)) {
        return None;
    }
    Some(Question {
        key: key.to_owned(),
        method: request.get("method")?.as_str()?.into_owned(),
        params: params.map_or_else(|| "{}".to_owned(), |params| params.raw().to_owned()),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use policy::json::{Bounds, Doc};

    use super::*;

    #[test]
    fn questions_that_cannot_be_read_are_none_at_all() {
        let cases = [
            (r#"{"resultType":"input_required"}"#, true, Some(0)),
            (r#"{"resultType":"complete","content":[]}"#, false, Some(0)),
            (r#"{"inputRequests":{}}"#, true, Some(0)),
            (r#"{"inputRequests":{"a":{"method":"roots/list"}}}"#, true, Some(1)),
            (r#"{"inputRequests":{"a":{"method":"roots/list"},"b":{}}}"#, true, None),
            (r#"{"inputRequests":{"a":{"method":1}}}"#, true, None),
            (r#"{"inputRequests":{"a":{"method":"x","params":[]}}}"#, true, None),
            (
                r#"{"inputRequests":{"a":{"method":"x","params":{"mode":"form","mode":"url"}}}}"#,
                true,
                None,
            ),
            (r#"{"inputRequests":{"a":{"method":"x","Method":"y"}}}"#, true, None),
            (r#"{"inputRequests":[{"method":"roots/list"}]}"#, true, None),
            (r#"{"inputRequests":null}"#, true, None),
            (r#"{"InputRequests":{"a":{"method":"roots/list"}}}"#, true, None),
            (r#"{"ResultType":"input_required"}"#, true, None),
        ];
        for (text, does_ask, count) in cases {
            let doc = Doc::read(text.as_bytes(), &Bounds::ANSWER).unwrap();
            assert_eq!(asks(doc.root()), does_ask, "{text}");
            assert_eq!(questions(doc.root()).map(|all| all.len()), count, "{text}");
        }
    }
}
