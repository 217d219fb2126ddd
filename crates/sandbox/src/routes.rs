//! The endpoints of a service: method, path pattern, required scopes and handler.

use crate::http::{Request, Response};
use crate::simulation::{ServiceSpec, Simulation, SimulationState};

/// One endpoint. `{}` in the path matches any one segment.
#[derive(Debug)]
pub(crate) struct Route<S: ServiceSpec> {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    /// The scopes of which the caller needs one, separated by spaces; empty for any caller.
    pub(crate) needs: &'static str,
    pub(crate) run: fn(&mut Call<'_, S>) -> Response,
}

/// A routed request and everything its handler can reach.
#[derive(Debug)]
pub(crate) struct Call<'a, S: ServiceSpec> {
    pub(crate) sim: &'a Simulation<S>,
    pub(crate) state: &'a mut SimulationState<S>,
    pub(crate) request: &'a Request,
    /// The decoded segments that matched `{}`.
    pub(crate) ids: Vec<String>,
    /// The scopes of the caller's token.
    pub(crate) scopes: &'a [String],
    pub(crate) now_us: i64,
}

impl<S: ServiceSpec> Call<'_, S> {
    pub(crate) fn id(&self) -> &str {
        self.ids.first().map_or("", String::as_str)
    }

    /// An integer query parameter within bounds; the error is the text that was given.
    pub(crate) fn number(
        &self,
        name: &str,
        default: usize,
        bounds: std::ops::RangeInclusive<usize>,
    ) -> Result<usize, String> {
        let Some(text) = self.request.value(name) else { return Ok(default) };
        text.parse().ok().filter(|number| bounds.contains(number)).ok_or_else(|| text.to_owned())
    }
}

impl<S: ServiceSpec> Route<S> {
    /// The segments that match `{}`, if the path matches.
    fn ids(&self, path: &str) -> Option<Vec<String>> {
        let (mut pattern, mut actual) = (self.path.split('/'), path.split('/'));
        let mut ids = Vec::new();
        loop {
            match (pattern.next(), actual.next()) {
                (None, None) => return Some(ids),
                (Some("{}"), Some(part)) if !part.is_empty() => ids.push(decoded(part)),
                (Some(pattern), Some(actual)) if pattern == actual => {}
                _ => return None,
            }
        }
    }

    pub(crate) fn allows(&self, scopes: &[String]) -> bool {
        self.needs.is_empty()
            || self.needs.split(' ').any(|needed| scopes.iter().any(|scope| scope == needed))
    }
}

/// The endpoint of a request. A trailing slash makes no difference.
pub(crate) fn find<'r, S: ServiceSpec>(
    routes: &'r [Route<S>],
    request: &Request,
) -> Option<(&'r Route<S>, Vec<String>)> {
    let path = request.path.strip_suffix('/').unwrap_or(&request.path);
    let mut of_method = routes.iter().filter(|route| route.method == request.method);
    of_method.find_map(|route| Some((route, route.ids(path)?)))
}

fn decoded(part: &str) -> String {
    // A path segment differs from a form field only in these two characters.
    let field = part.replace('+', "%2B").replace('&', "%26");
    let field = format!("part={field}");
    url::form_urlencoded::parse(field.as_bytes())
        .next()
        .map_or_else(String::new, |(_, value)| value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::decoded;

    #[test]
    fn a_path_segment_is_decoded_once() {
        for (part, meaning) in [
            ("a%2Fb", "a/b"),
            ("a+b", "a+b"),
            ("%2E%2E", ".."),
            ("a&b=c", "a&b=c"),
            ("%252F", "%2F"),
        ] {
            assert_eq!(decoded(part), meaning, "{part}");
        }
    }
}
