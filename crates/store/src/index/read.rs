//! Reads rows by slug, and all of them in order, for pages and exports.

use catalog::classify::{Category, Risk};
use catalog::view::About;
use rusqlite::{OptionalExtension, Row};
use serde::Serialize;

use super::{Index, IndexError, category, risk};

/// A server of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServerRow {
    #[serde(skip)]
    id: i64,
    pub slug: String,
    pub name: String,
    pub title: String,
    pub description: String,
    pub version: String,
    pub website: String,
    pub repository: String,
    pub updated: String,
    pub tools: u64,
    /// That of its most dangerous tool.
    pub risk: Option<Risk>,
    /// Packages and addresses as the registry gave them: a JSON object.
    pub source: String,
}

impl ServerRow {
    /// The head of this server's catalogue page.
    pub fn about(&self) -> About<'_> {
        About {
            name: &self.name,
            title: &self.title,
            description: &self.description,
            version: &self.version,
            website: &self.website,
            repository: &self.repository,
            updated: &self.updated,
            source: &self.source,
        }
    }
}

/// A tool of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolRow {
    pub slug: String,
    pub name: String,
    pub category: Category,
    pub risk: Risk,
    pub does: String,
    /// The definition as the server gave it: a JSON object.
    pub definition: String,
}

const SERVER: &str = "SELECT id, slug, name, title, description, version, website, repository, \
                      updated, tools, risk, source FROM servers";
const TOOL: &str = "SELECT slug, name, category, risk, does, definition FROM tools";

impl Index {
    /// A server by its slug or its name.
    pub fn server(&self, slug: &str) -> Result<ServerRow, IndexError> {
        let mut select =
            self.db.prepare_cached(&format!("{SERVER} WHERE slug = ?1 OR name = ?1"))?;
        let found = select.query_row([slug], server_of).optional()?;
        found.ok_or_else(|| IndexError::Missing(slug.to_owned()))
    }

    /// The tools of a server, by name.
    pub fn tools(&self, server: &ServerRow) -> Result<Vec<ToolRow>, IndexError> {
        let mut select =
            self.db.prepare_cached(&format!("{TOOL} WHERE server_id = ?1 ORDER BY slug"))?;
        Ok(select.query_map([server.id], tool_of)?.collect::<Result<_, _>>()?)
    }

    /// One tool of a server by its slug or its name.
    pub fn tool(&self, server: &ServerRow, slug: &str) -> Result<ToolRow, IndexError> {
        let mut select = self
            .db
            .prepare_cached(&format!("{TOOL} WHERE server_id = ?1 AND (slug = ?2 OR name = ?2)"))?;
        let found = select.query_row((server.id, slug), tool_of).optional()?;
        found.ok_or_else(|| IndexError::Missing(format!("{}/{slug}", server.slug)))
    }

    /// Every server by slug, streamed, so that any number fits.
    pub fn each_server<E: From<IndexError>>(
        &self,
        mut take: impl FnMut(ServerRow) -> Result<(), E>,
    ) -> Result<(), E> {
        let failed = |e: rusqlite::Error| E::from(IndexError::from(e));
        let mut select = self.db.prepare(&format!("{SERVER} ORDER BY slug")).map_err(failed)?;
        for row in select.query_map([], server_of).map_err(failed)? {
            take(row.map_err(failed)?)?;
        }
        Ok(())
    }
}

fn server_of(row: &Row<'_>) -> rusqlite::Result<ServerRow> {
    let (tools, risky): (i64, Option<u8>) = (row.get(9)?, row.get(10)?);
    Ok(ServerRow {
        id: row.get(0)?,
        slug: row.get(1)?,
        name: row.get(2)?,
        title: row.get(3)?,
        description: row.get(4)?,
        version: row.get(5)?,
        website: row.get(6)?,
        repository: row.get(7)?,
        updated: row.get(8)?,
        tools: tools.unsigned_abs(),
        risk: risky.map(risk),
        source: row.get(11)?,
    })
}

fn tool_of(row: &Row<'_>) -> rusqlite::Result<ToolRow> {
    Ok(ToolRow {
        slug: row.get(0)?,
        name: row.get(1)?,
        category: category(row.get(2)?),
        risk: risk(row.get(3)?),
        does: row.get(4)?,
        definition: row.get(5)?,
    })
}
