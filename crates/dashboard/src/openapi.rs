//! The OpenAPI document of the JSON twins, made from the table of routes.

mod forms;

use http::Method;
use serde_json::{Map, Value, json};

use crate::access::Access;
use crate::app::App;
use crate::problem::Problem;
use crate::request::Visit;
use crate::response::Response;
use crate::routes::{ROUTES, Route};

#[expect(clippy::unnecessary_wraps, reason = "every page has this signature")]
pub(crate) fn show(_app: &App, _visit: &Visit) -> Result<Response, Problem> {
    Ok(Response::json(http::StatusCode::OK, document().to_string()))
}

pub(crate) fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let methods = paths.entry(address(route)).or_insert_with(|| json!({}));
        let method = route.method.as_str().to_ascii_lowercase();
        if let Some(methods) = methods.as_object_mut() {
            methods.insert(method, operation(route));
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "tollgate dashboard",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The JSON twin of every page, and its streams and files. Forms need the field `csrf` of the session and an `Origin` header of this address.",
        },
        "paths": paths,
        "components": {
            "securitySchemes": {
                "session": { "type": "apiKey", "in": "cookie", "name": crate::request::COOKIE_NAME },
            },
            "schemas": {
                "Problem": {
                    "type": "object",
                    "required": ["error"],
                    "properties": {
                        "error": { "type": "string" },
                        "hint": { "type": ["string", "null"] },
                    },
                },
            },
        },
        "security": [{ "session": [] }],
    })
}

/// The address of the JSON twin, or of the stream or file.
fn address(route: &Route) -> String {
    match route.path {
        path if !route.has_twin() => path.to_owned(),
        "/" => "/index.json".to_owned(),
        path => format!("{path}.json"),
    }
}

fn operation(route: &Route) -> Value {
    let names = names(route.path);
    let parameters: Vec<Value> = names
        .iter()
        .map(|name| {
            json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
        })
        .collect();
    let queries = if route.method == Method::GET { queries(route.path) } else { Vec::new() };
    let parameters: Vec<Value> = parameters.into_iter().chain(queries).collect();
    let mut operation = json!({
        "operationId": operation_id(route),
        "summary": summary(route),
        "parameters": parameters,
        "responses": responses(route),
    });
    if route.method == Method::POST
        && let Some(fields) = operation.as_object_mut()
    {
        let form = json!({ "schema": forms::schema(route.path) });
        let content = json!({ "application/x-www-form-urlencoded": form });
        fields.insert("requestBody".to_owned(), json!({ "required": true, "content": content }));
    }
    operation
}

/// The query parameters of pages that are chosen by their address.
fn queries(path: &str) -> Vec<Value> {
    let names: &[(&str, &str)] = match path {
        "/audit" => &[
            ("grant", "Label of a grant"),
            ("server", "Name of a server"),
            ("tool", "Tool, URI, prompt or skill"),
            ("decision", "Decision"),
            ("text", "Text anywhere in the rows of an entry"),
            ("since", "Time, in the owner's zone or with an offset"),
            ("until", "Time before which the entries are"),
            ("before", "Only entries before this number"),
            ("after", "Only entries from this number on"),
        ],
        "/audit/export" => &[
            ("format", "jsonl or csv"),
            ("grant", "Label of a grant"),
            ("server", "Name of a server"),
            ("tool", "Tool, URI, prompt or skill"),
            ("decision", "Decision"),
            ("text", "Text anywhere in the rows of an entry"),
            ("since", "Time, in the owner's zone or with an offset"),
            ("until", "Time before which the entries are"),
        ],
        "/accounts/{service}/export" => {
            &[("kind", "Kind of record"), ("format", "csv, jsonl or parquet")]
        }
        "/events" => &[("audit", "1: also say that the audit log grew")],
        "/catalogue" => &[("words", "Words to search for"), ("risk", "Lowest risk")],
        "/catalogue/{server}" | "/servers/{name}" => &[("page", "Page, from 1")],
        "/stack" => &[("page", "Page, from 1"), ("risk", "Only tools of this risk")],
        "/policies/{name}" => {
            &[("version", "An older version"), ("server", "The server whose tools are shown")]
        }
        "/health/{metric}" => &[("span", "W, M, 3M, 6M, 1Y or All")],
        "/health/compare" => &[
            ("x", "A metric"),
            ("y", "Another metric"),
            ("lag", "Days from x to y, 0 to 14"),
            ("span", "W, M, 3M, 6M, 1Y or All"),
            ("first_from", "First day of the first period, YYYY-MM-DD"),
            ("first_to", "Last day of the first period"),
            ("second_from", "First day of the second period"),
            ("second_to", "Last day of the second period"),
        ],
        _ => &[],
    };
    let query = |(name, message): &(&str, &str)| json!({ "name": name, "in": "query", "description": message, "schema": { "type": "string" } });
    names.iter().map(query).collect()
}

fn responses(route: &Route) -> Value {
    let page = match route.path {
        "/events" => json!({ "text/event-stream": { "schema": { "type": "string" } } }),
        "/audit/export" | "/accounts/{service}/export" => json!({ "*/*": {} }),
        _ => json!({ "application/json": { "schema": { "type": "object" } } }),
    };
    let problem =
        json!({ "application/json": { "schema": { "$ref": "#/components/schemas/Problem" } } });
    let summary = |message: &str| json!({ "description": message, "content": problem });
    let mut responses = json!({
        "200": { "description": "The page as JSON, the stream or the file.", "content": page },
        "401": summary("There is no session."),
        "404": summary("There is no such thing."),
    });
    if route.method == Method::POST
        && let Some(fields) = responses.as_object_mut()
    {
        fields
            .insert("303".to_owned(), json!({ "description": "Done; the page is at `Location`." }));
        fields.insert(
            "403".to_owned(),
            summary("The role, the origin or the token does not allow it."),
        );
        fields.insert("422".to_owned(), summary("A field is wrong; nothing was changed."));
    }
    responses
}

/// The names in the path, in their order.
fn names(path: &str) -> Vec<&str> {
    let parts = path.split('/');
    parts.filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect()
}

fn operation_id(route: &Route) -> String {
    let message: Vec<&str> =
        route.path.split(['/', '-', '{', '}']).filter(|word| !word.is_empty()).collect();
    let message = if message.is_empty() { "overview".to_owned() } else { message.join("_") };
    format!("{}_{message}", route.method.as_str().to_ascii_lowercase())
}

fn summary(route: &Route) -> String {
    let who = match route.access {
        Access::Read => "any role",
        Access::ReadArguments => "roles `admin` and `auditor`",
        Access::WritePolicies => "roles `admin` and `policy_manager`",
        Access::ReadOwnData | Access::Administer => "role `admin`",
    };
    format!("{} {} ({who})", route.method, route.path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use super::*;

    #[test]
    fn every_route_is_in_the_document_once() {
        let document = document();
        let paths = document["paths"].as_object().unwrap();
        let mut ids = Vec::new();
        for route in ROUTES {
            let method = route.method.as_str().to_ascii_lowercase();
            let operation = &paths[&address(route)][&method];
            ids.push(operation["operationId"].as_str().unwrap().to_owned());
            let given: Vec<&str> = operation["parameters"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|parameter| parameter["in"] == "path")
                .map(|parameter| parameter["name"].as_str().unwrap())
                .collect();
            assert_eq!(given, names(route.path), "{}", route.path);
        }
        let count = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), count, "operation ids are unique");
        assert_eq!(document["openapi"], "3.1.0");
    }
}
