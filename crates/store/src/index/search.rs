//! Full-text search. Names weigh more than descriptions; at most five hundred candidates are
//! ranked, those with the words in their name first, so that a common word costs no more than a
//! rare one.

use catalog::classify::{Category, Risk};
use rusqlite::types::Value as Sql;
use rusqlite::{Row, params_from_iter};
use serde::Serialize;

use super::{Index, IndexError, category, risk, words};

/// Candidates that are ranked for one query.
const CANDIDATES_MAX: usize = 500;
/// Shorter words match exactly, not as prefixes.
const BEGINNING_CHARS_MIN: usize = 3;

/// A search query.
#[derive(Clone, Debug, Default)]
pub struct SearchQuery<'q> {
    pub words: &'q str,
    pub category: Option<Category>,
    /// This risk or a higher one.
    pub risk: Option<Risk>,
    pub limit: usize,
}

/// A matching server or tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hit {
    /// `server` or `server/tool`.
    pub slug: String,
    pub server: String,
    pub tool: Option<String>,
    pub does: String,
    pub category: Option<Category>,
    pub risk: Option<Risk>,
    /// Tools of a server.
    pub tools: Option<u64>,
}

impl Index {
    /// The best matches, best first.
    pub fn search(&self, query: &SearchQuery<'_>) -> Result<Vec<Hit>, IndexError> {
        let asked = words::of_query(query.words);
        if asked.is_empty() {
            return Err(IndexError::NoWords);
        }
        let mut found = self.tools_of(&asked, query)?;
        if query.category.is_none() {
            found.extend(self.servers_of(&asked, query)?);
        }
        found.sort_by(|(a, left), (b, right)| b.cmp(a).then_with(|| left.slug.cmp(&right.slug)));
        Ok(found.into_iter().map(|(_, hit)| hit).take(query.limit).collect())
    }

    fn tools_of(
        &self,
        asked: &[String],
        q: &SearchQuery<'_>,
    ) -> Result<Vec<(i64, Hit)>, IndexError> {
        let mut filter = String::new();
        let mut values = Vec::new();
        if let Some(category) = q.category {
            filter.push_str(" AND t.category = ?");
            values.push(Sql::from(i64::from(super::rank(Category::ALL, category))));
        }
        if let Some(risk) = q.risk {
            filter.push_str(" AND t.risk >= ?");
            values.push(Sql::from(i64::from(super::rank(Risk::ALL, risk))));
        }
        let select = format!(
            "SELECT t.id, s.slug || '/' || t.slug, s.name, t.name, t.does, t.category, t.risk, NULL
             FROM tool_words w JOIN tools t ON t.id = w.rowid JOIN servers s ON s.id = t.server_id
             WHERE tool_words MATCH ?{filter} LIMIT ?"
        );
        self.candidates(&select, &values, asked)
    }

    fn servers_of(
        &self,
        asked: &[String],
        q: &SearchQuery<'_>,
    ) -> Result<Vec<(i64, Hit)>, IndexError> {
        let mut values = Vec::new();
        let mut filter = "";
        if let Some(risk) = q.risk {
            filter = " AND s.risk >= ?";
            values.push(Sql::from(i64::from(super::rank(Risk::ALL, risk))));
        }
        let select = format!(
            "SELECT s.id, s.slug, s.name, NULL, s.description, NULL, s.risk, s.tools
             FROM server_words w JOIN servers s ON s.id = w.rowid
             WHERE server_words MATCH ?{filter} LIMIT ?"
        );
        self.candidates(&select, &values, asked)
    }

    /// First those with every word in the name, then those with every word anywhere.
    fn candidates(
        &self,
        select: &str,
        values: &[Sql],
        asked: &[String],
    ) -> Result<Vec<(i64, Hit)>, IndexError> {
        let mut statement = self.db.prepare_cached(select)?;
        let mut found: Vec<(i64, Hit)> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for in_name in [true, false] {
            let room = CANDIDATES_MAX.saturating_sub(found.len());
            if room == 0 {
                break;
            }
            let all = std::iter::once(Sql::from(matching(asked, in_name)))
                .chain(values.iter().cloned())
                .chain([Sql::from(i64::try_from(room).unwrap_or(0))]);
            let rows = statement.query_map(params_from_iter(all), hit_of)?;
            for row in rows {
                let (id, hit) = row?;
                if seen.insert(id) {
                    found.push((weight(asked, &hit), hit));
                }
            }
        }
        Ok(found)
    }
}

/// The words as a full-text query: all of them, each as a prefix.
fn matching(asked: &[String], in_name: bool) -> String {
    let terms: Vec<String> = asked
        .iter()
        .map(|word| {
            let one = term(word);
            match word.strip_suffix('s') {
                Some(base) if base.chars().count() >= BEGINNING_CHARS_MIN => {
                    format!("({one} OR {})", term(base))
                }
                _ => one,
            }
        })
        .collect();
    let all = terms.join(" AND ");
    if in_name { format!("name : ({all})") } else { all }
}

/// Words contain only letters and digits, so nothing in them is query syntax.
fn term(word: &str) -> String {
    let mark = if word.chars().count() >= BEGINNING_CHARS_MIN { "*" } else { "" };
    format!("\"{word}\"{mark}")
}

/// Ranks a hit. Whole words beat prefixes, names beat descriptions, short beats long.
fn weight(asked: &[String], hit: &Hit) -> i64 {
    let name = hit.tool.as_deref().unwrap_or(&hit.server);
    let in_name = words::of_query(name);
    let (mut in_server, mut in_text) = (None, None);
    let mut sum = 0;
    for word in asked {
        let has = |words: &[String]| words.iter().any(|w| w == word);
        let begins = |words: &[String]| words.iter().any(|w| w.starts_with(word.as_str()));
        sum += match () {
            () if has(&in_name) => 100,
            () if begins(&in_name) => 70,
            () if hit.tool.is_some() && has(words_once(&mut in_server, &hit.server)) => 45,
            () if has(words_once(&mut in_text, &hit.does)) => 30,
            () if begins(words_once(&mut in_text, &hit.does)) => 20,
            () => 10,
        };
    }
    let extra = in_name.len().saturating_sub(asked.len());
    let exact = if in_name == asked { 150 } else { 0 };
    sum + exact - i64::try_from(extra.min(8)).unwrap_or(0) * 4
}

/// Truncated only if the name does not already match.
fn words_once<'w>(known: &'w mut Option<Vec<String>>, text: &str) -> &'w [String] {
    known.get_or_insert_with(|| words::of_query(text))
}

fn hit_of(row: &Row<'_>) -> rusqlite::Result<(i64, Hit)> {
    let classed: Option<u8> = row.get(5)?;
    let risky: Option<u8> = row.get(6)?;
    let tools: Option<i64> = row.get(7)?;
    let hit = Hit {
        slug: row.get(1)?,
        server: row.get(2)?,
        tool: row.get(3)?,
        does: row.get(4)?,
        category: classed.map(category),
        risk: risky.map(risk),
        tools: tools.map(i64::unsigned_abs),
    };
    Ok((row.get(0)?, hit))
}
