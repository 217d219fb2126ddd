//! The endpoints of API v2: who may ask, how often, and what comes back.

use serde_json::json;

use super::shelf::{Entry, Window, read_token};
use super::{Inner, Kind, Whoop, stream};
use crate::http::{Asked, Reply};
use crate::limits::Standing;
use crate::moment;
use crate::oauth::Holder;

const LIMIT_DEFAULT: usize = 10;
const LIMIT_MAX: usize = 25;

/// What a path asks for.
#[derive(Debug, PartialEq, Eq)]
enum Wanted<'a> {
    Profile,
    Body,
    Revoke,
    Page(Kind),
    One(Kind, &'a str),
    Of(Kind, &'a str),
    Stream(&'a str),
    Mapping(&'a str),
}

/// Every endpoint: method, version, parts of the path. Anything else is not there.
fn wanted<'a>(method: &str, parts: &[&'a str]) -> Option<Wanted<'a>> {
    Some(match (method, parts) {
        ("GET", ["v2", "user", "profile", "basic"]) => Wanted::Profile,
        ("GET", ["v2", "user", "measurement", "body"]) => Wanted::Body,
        ("DELETE", ["v2", "user", "access"]) => Wanted::Revoke,
        ("GET", ["v2", "cycle"]) => Wanted::Page(Kind::Cycle),
        ("GET", ["v2", "cycle", id]) => Wanted::One(Kind::Cycle, id),
        ("GET", ["v2", "cycle", id, "sleep"]) => Wanted::Of(Kind::Sleep, id),
        ("GET", ["v2", "cycle", id, "recovery"]) => Wanted::Of(Kind::Recovery, id),
        ("GET", ["v2", "recovery"]) => Wanted::Page(Kind::Recovery),
        ("GET", ["v2", "activity", "sleep"]) => Wanted::Page(Kind::Sleep),
        ("GET", ["v2", "activity", "sleep", id]) => Wanted::One(Kind::Sleep, id),
        ("GET", ["v2", "activity", "sleep", id, "stream"]) => Wanted::Stream(id),
        ("GET", ["v2", "activity", "workout"]) => Wanted::Page(Kind::Workout),
        ("GET", ["v2", "activity", "workout", id]) => Wanted::One(Kind::Workout, id),
        ("GET", ["v1", "activity-mapping", id]) => Wanted::Mapping(id),
        _ => return None,
    })
}

/// The scope an endpoint needs; none where any token will do.
fn scope(wanted: &Wanted<'_>) -> Option<&'static str> {
    match wanted {
        Wanted::Profile => Some("read:profile"),
        Wanted::Body => Some("read:body_measurement"),
        Wanted::Page(kind) | Wanted::One(kind, _) | Wanted::Of(kind, _) => Some(match kind {
            Kind::Cycle => "read:cycles",
            Kind::Sleep => "read:sleep",
            Kind::Recovery => "read:recovery",
            Kind::Workout => "read:workout",
        }),
        Wanted::Stream(_) => Some("read:sleep"),
        Wanted::Revoke | Wanted::Mapping(_) => None,
    }
}

pub(super) fn answer(whoop: &Whoop, asked: &Asked, now_us: i64) -> Reply {
    let Some(parts) = asked.parts("/developer/") else { return not_found() };
    let Some(wanted) = wanted(&asked.method, &parts) else { return not_found() };
    let Some(holder) = whoop.provider.holder(asked, now_us) else { return unauthorized() };
    if scope(&wanted).is_some_and(|needed| !holder.scopes.iter().any(|scope| scope == needed)) {
        return unauthorized();
    }
    let standing = whoop.limits.take(now_us);
    let inner = whoop.up_to(now_us);
    let exceeded = standing.as_ref().is_some_and(|standing| standing.exceeded);
    let reply = if exceeded {
        Reply::problem(429, "Too Many Requests")
    } else {
        serve(whoop, &inner, &wanted, asked, &holder, now_us)
    };
    match standing {
        Some(standing) => with_limits(reply, &standing, inner.settings.retry_after),
        None => reply,
    }
}

fn serve(
    whoop: &Whoop,
    inner: &Inner,
    wanted: &Wanted<'_>,
    asked: &Asked,
    holder: &Holder,
    now_us: i64,
) -> Reply {
    match wanted {
        Wanted::Profile => Reply::json(200, &whoop.person.profile()),
        Wanted::Body => Reply::json(200, &whoop.person.body()),
        Wanted::Revoke => {
            whoop.provider.revoke(holder);
            Reply::empty(204)
        }
        Wanted::Page(kind) => match window(asked, now_us) {
            Ok(window) => page(inner, *kind, &window),
            Err(refused) => refused,
        },
        Wanted::One(kind, id) => match id_of(*kind, id) {
            Some(id) => found(inner.shelves.of(*kind).one(&id)),
            None => bad_request("the id is not of the right form"),
        },
        Wanted::Of(kind, id) => match id.parse::<i64>() {
            Ok(cycle) => {
                let of_cycle = |entry: &&Entry| entry.cycle == cycle && entry.main;
                found(inner.shelves.of(*kind).entries().iter().find(of_cycle))
            }
            Err(_) => bad_request("the id is not of the right form"),
        },
        Wanted::Stream(id) => match id_of(Kind::Sleep, id) {
            Some(_) if !inner.settings.stream => {
                Reply::json(403, &json!({ "error": "deactivated_user" }))
            }
            Some(id) => match inner.shelves.sleeps.one(&id) {
                Some(entry) => stream::answer(whoop.seed, &whoop.person, entry, asked),
                None => not_found(),
            },
            None => bad_request("the id is not of the right form"),
        },
        Wanted::Mapping(id) => mapping(inner, id),
    }
}

fn mapping(inner: &Inner, id: &str) -> Reply {
    let Ok(v1) = id.parse::<i64>() else { return not_found() };
    let sleeps = inner.shelves.sleeps.entries().iter();
    let mut all = sleeps.chain(inner.shelves.workouts.entries());
    match all.find(|entry| entry.v1 == Some(v1)) {
        Some(entry) => Reply::json(200, &json!({ "v2_activity_id": entry.id })),
        None => not_found(),
    }
}

/// Reads the parameters of a collection. An instant that cannot be read is 404, as the live service
/// answers a bare date.
fn window(asked: &Asked, now_us: i64) -> Result<Window, Reply> {
    let limit = match asked.value("limit") {
        None => LIMIT_DEFAULT,
        Some(text) => match text.parse() {
            Ok(limit) if (1..=LIMIT_MAX).contains(&limit) => limit,
            _ => return Err(bad_request("limit must be a whole number from 1 to 25")),
        },
    };
    let instant = |name| match asked.value(name) {
        None => Ok(None),
        Some(text) => moment::read(text).map(Some).ok_or_else(not_found),
    };
    let (start_ms, end_ms) = (instant("start")?, instant("end")?);
    let after = match asked.value("nextToken") {
        None | Some("") => None,
        Some(token) => {
            let known = read_token(token);
            Some(known.ok_or_else(|| bad_request("nextToken was not given out here"))?)
        }
    };
    Ok(Window { start_ms, end_ms: end_ms.unwrap_or(now_us.div_euclid(1_000)), limit, after })
}

/// Records are sent as they lie on the shelf, so that a page costs next to nothing.
fn page(inner: &Inner, kind: Kind, window: &Window) -> Reply {
    let (entries, next) = inner.shelves.of(kind).page(window);
    let records: Vec<&str> = entries.iter().map(|entry| entry.body.as_str()).collect();
    let body = format!("{{\"records\":[{}],\"next_token\":{}}}", records.join(","), json!(next));
    Reply::raw(200, body)
}

fn found(entry: Option<&Entry>) -> Reply {
    entry.map_or_else(not_found, |entry| Reply::raw(200, entry.body.clone()))
}

/// The id as it is kept: numbers for cycles, lower-case UUIDs for the rest.
fn id_of(kind: Kind, id: &str) -> Option<String> {
    if kind == Kind::Cycle {
        return id.parse::<i64>().ok().map(|id| id.to_string());
    }
    let dashes = [8, 13, 18, 23];
    let fits = |(at, c): (usize, char)| {
        if dashes.contains(&at) { c == '-' } else { c.is_ascii_hexdigit() }
    };
    (id.len() == 36 && id.chars().enumerate().all(fits)).then(|| id.to_ascii_lowercase())
}

/// The documented form: the closest limit first, then each with its window.
fn with_limits(reply: Reply, standing: &Standing, retry_after: bool) -> Reply {
    let each =
        standing.all.iter().map(|limit| format!(", {};window={}", limit.requests, limit.window_s));
    let limits = format!("{}{}", standing.closest.requests, each.collect::<String>());
    let reply = reply
        .with("x-ratelimit-limit", limits)
        .with("x-ratelimit-remaining", standing.remaining.to_string())
        .with("x-ratelimit-reset", standing.reset_s.to_string());
    if standing.exceeded && retry_after {
        return reply.with("retry-after", standing.reset_s.to_string());
    }
    reply
}

fn not_found() -> Reply {
    Reply::problem(404, "Not Found")
}

fn bad_request(words: &str) -> Reply {
    Reply::problem(400, words)
}

fn unauthorized() -> Reply {
    Reply::problem(401, "Authorization was not valid")
}

#[cfg(test)]
mod tests {
    use super::{id_of, wanted};
    use crate::whoop::Kind;

    #[test]
    fn what_the_service_does_not_have_is_not_there() {
        for (method, path) in [
            ("GET", "v2/recovery/1"),
            ("POST", "v2/cycle"),
            ("GET", "v1/recovery"),
            ("GET", "v2/user/access"),
            ("GET", "v2"),
        ] {
            let parts: Vec<&str> = path.split('/').collect();
            assert_eq!(wanted(method, &parts), None, "{method} {path}");
        }
    }

    #[test]
    fn ids_are_of_their_form() {
        assert_eq!(id_of(Kind::Cycle, "93845").as_deref(), Some("93845"));
        assert_eq!(id_of(Kind::Cycle, "x"), None);
        let upper = "ECFC6A15-4661-442F-A9A4-F160DD7AFAE8";
        assert_eq!(id_of(Kind::Sleep, upper), Some(upper.to_lowercase()));
        assert_eq!(id_of(Kind::Sleep, "ecfc6a15_4661-442f-a9a4-f160dd7afae8"), None);
        assert_eq!(id_of(Kind::Workout, "1"), None);
    }
}
