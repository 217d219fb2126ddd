//! Strict parsing of input requests in results and tasks, so that only judged ones pass.

use policy::json::{Kind, Value};

use super::InputRequest;

/// Whether a result requests input from its client, whatever its type says. Case is ignored,
/// because some parsers do.
pub fn asks_for_input(result: Value<'_>) -> bool {
    let is_input = |value: Value<'_>| value.as_str().as_deref() == Some("input_required");
    result.entries().any(|(key, value)| {
        let key = key.text();
        key.eq_ignore_ascii_case("inputRequests")
            || key.eq_ignore_ascii_case("resultType") && is_input(value)
    })
}

/// Whether the result of a finished task, or a task inside a result, requests input that its client
/// could not answer.
pub fn result_asks_for_input(result: Value<'_>) -> bool {
    let finished = result.get("result").filter(|_| result.get("taskId").is_some());
    finished.into_iter().chain(result.get("task")).any(asks_for_input)
}

/// The input requests of a result or a task. `None` when one of them is malformed: it could not be
/// judged.
pub fn input_requests(result: Value<'_>) -> Option<Vec<InputRequest>> {
    if !is_exact(result, &["inputRequests", "resultType"]) {
        return None;
    }
    let Some(requests) = result.get("inputRequests") else { return Some(Vec::new()) };
    if requests.kind() != Kind::Object {
        return None;
    }
    requests.entries().map(|(key, request)| question(&key.text(), request)).collect()
}

/// Whether each of these members occurs at most once, in its exact spelling.
fn is_exact(object: Value<'_>, known: &[&str]) -> bool {
    known.iter().all(|known| {
        let mut alike = object
            .entries()
            .map(|(key, _)| key.text())
            .filter(|key| key.eq_ignore_ascii_case(known));
        alike.next().is_none_or(|key| key == *known) && alike.next().is_none()
    })
}

fn question(key: &str, request: Value<'_>) -> Option<InputRequest> {
    if request.kind() != Kind::Object || !is_exact(request, &["method", "params"]) {
        return None;
    }
    let params = request.get("params");
    // These members determine the kind of the request.
    let reads = |params: Value<'_>| {
        params.kind() == Kind::Object && is_exact(params, &["mode", "tools", "url"])
    };
    if params.is_some_and(|params| !reads(params)) {
        return None;
    }
    Some(InputRequest {
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
    fn input_requests_of_a_task_inside_a_result_are_found() {
        for (text, does_ask) in [
            (r#"{"task":{"taskId":"t","status":"input_required"}}"#, false),
            (r#"{"task":{"taskId":"t","inputRequests":{}}}"#, true),
            (r#"{"taskId":"t","result":{"inputRequests":{}}}"#, true),
            (r#"{"result":{"inputRequests":{}},"content":[]}"#, false),
            (r#"{"task":"inputRequests"}"#, false),
        ] {
            let doc = Doc::read(text.as_bytes(), &Bounds::ANSWER).unwrap();
            assert_eq!(result_asks_for_input(doc.root()), does_ask, "{text}");
        }
    }

    #[test]
    fn malformed_input_requests_are_refused_as_a_whole() {
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
            assert_eq!(asks_for_input(doc.root()), does_ask, "{text}");
            assert_eq!(input_requests(doc.root()).map(|all| all.len()), count, "{text}");
        }
    }
}
