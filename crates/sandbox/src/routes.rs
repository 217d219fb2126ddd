//! The table of a service's endpoints: a method, a path with gaps, what the caller must be allowed,
//! and the function that answers.

use crate::http::{Asked, Reply};
use crate::room::{Inner, Room, Stand};

/// One endpoint. `{}` in the path stands for any one part.
#[derive(Debug)]
pub(crate) struct Route<S: Stand> {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    /// The scopes of which the caller needs one, with blanks between; empty where any caller will do.
    pub(crate) needs: &'static str,
    pub(crate) run: fn(&mut Call<'_, S>) -> Reply,
}

/// A request that found its endpoint, with all it may reach.
#[derive(Debug)]
pub(crate) struct Call<'a, S: Stand> {
    pub(crate) room: &'a Room<S>,
    pub(crate) inner: &'a mut Inner<S>,
    pub(crate) asked: &'a Asked,
    /// What stood in the gaps, decoded.
    pub(crate) ids: Vec<String>,
    /// What the caller's token is good for.
    pub(crate) scopes: &'a [String],
    pub(crate) now_us: i64,
}

impl<S: Stand> Call<'_, S> {
    pub(crate) fn id(&self) -> &str {
        self.ids.first().map_or("", String::as_str)
    }

    /// A whole number of the query, between bounds; the error is the text that was no such number.
    pub(crate) fn number(
        &self,
        name: &str,
        default: usize,
        bounds: std::ops::RangeInclusive<usize>,
    ) -> Result<usize, String> {
        let Some(text) = self.asked.value(name) else { return Ok(default) };
        text.parse().ok().filter(|number| bounds.contains(number)).ok_or_else(|| text.to_owned())
    }
}

impl<S: Stand> Route<S> {
    /// What stands in the gaps, if the path is this one.
    fn ids(&self, path: &str) -> Option<Vec<String>> {
        let (mut wanted, mut said) = (self.path.split('/'), path.split('/'));
        let mut ids = Vec::new();
        loop {
            match (wanted.next(), said.next()) {
                (None, None) => return Some(ids),
                (Some("{}"), Some(part)) if !part.is_empty() => ids.push(decoded(part)),
                (Some(wanted), Some(said)) if wanted == said => {}
                _ => return None,
            }
        }
    }

    pub(crate) fn allows(&self, scopes: &[String]) -> bool {
        self.needs.is_empty()
            || self.needs.split(' ').any(|needed| scopes.iter().any(|scope| scope == needed))
    }
}

/// The endpoint of a request. A slash at the end of the path makes no difference.
pub(crate) fn find<'r, S: Stand>(
    routes: &'r [Route<S>],
    asked: &Asked,
) -> Option<(&'r Route<S>, Vec<String>)> {
    let path = asked.path.strip_suffix('/').unwrap_or(&asked.path);
    let mut of_method = routes.iter().filter(|route| route.method == asked.method);
    of_method.find_map(|route| Some((route, route.ids(path)?)))
}

fn decoded(part: &str) -> String {
    // A part of a path is a form field but for these two.
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
    fn a_part_of_a_path_is_decoded_once() {
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
