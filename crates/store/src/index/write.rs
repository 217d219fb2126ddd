//! Writes listings to the tables. A server that appears again is replaced with its tools; a single
//! tool is added to its server.

use std::collections::HashMap;

use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

use super::dump::{Listing, Tool};
use super::{IndexError, words};

/// What is known about the servers of this run.
struct SeenServer {
    id: i64,
    /// Tools came one by one, so the totals are counted at the end.
    in_parts: bool,
}

pub(super) struct IndexWriter<'c> {
    db: &'c Connection,
    known: HashMap<String, SeenServer>,
    tool_id: i64,
    server_id: i64,
    /// The file was empty, so nothing needs to be looked up.
    is_fresh: bool,
    insert_tool: CachedStatement<'c>,
    insert_tool_words: CachedStatement<'c>,
}

impl<'c> IndexWriter<'c> {
    pub(super) fn new(db: &'c Connection, is_fresh: bool) -> Result<IndexWriter<'c>, IndexError> {
        let last = |sql: &str| db.query_row(sql, [], |r| r.get::<_, i64>(0));
        Ok(IndexWriter {
            db,
            known: HashMap::new(),
            tool_id: last("SELECT coalesce(max(id), 0) FROM tools")?,
            server_id: last("SELECT coalesce(max(id), 0) FROM servers")?,
            is_fresh,
            insert_tool: db.prepare_cached(
                "INSERT INTO tools (id, server_id, slug, name, category, risk, signals, does, definition)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?,
            insert_tool_words: db
                .prepare_cached("INSERT INTO tool_words (rowid, name, text) VALUES (?1, ?2, ?3)")?,
        })
    }

    /// Writes a listing; true if its server is new.
    pub(super) fn put(&mut self, listing: &Listing) -> Result<bool, IndexError> {
        let known = self.find(&listing.name)?;
        let is_new = known.is_none();
        let id = match (known, listing.is_whole) {
            (Some(id), true) => {
                self.remove_server(id)?;
                self.put_server(Some(id), listing)?
            }
            (None, _) => self.put_server(None, listing)?,
            (Some(id), false) => id,
        };
        if !listing.is_whole {
            let name = listing.name.clone();
            self.known.entry(name).or_insert(SeenServer { id, in_parts: true }).in_parts = true;
        }
        for tool in &listing.tools {
            let slug = if listing.is_whole { None } else { self.free_slug(id, tool)? };
            self.put_tool(id, slug.as_deref().unwrap_or(&tool.slug), tool)?;
        }
        Ok(is_new)
    }

    /// Counts the tools of servers that came in parts.
    pub(super) fn finish(self) -> Result<(), IndexError> {
        let mut update = self.db.prepare(
            "UPDATE servers SET (tools, risk) =
                 (SELECT count(*), max(risk) FROM tools WHERE server_id = ?1) WHERE id = ?1",
        )?;
        for known in self.known.values().filter(|known| known.in_parts) {
            update.execute([known.id])?;
        }
        Ok(())
    }

    fn find(&self, name: &str) -> Result<Option<i64>, IndexError> {
        if let Some(known) = self.known.get(name) {
            return Ok(Some(known.id));
        }
        if self.is_fresh {
            return Ok(None);
        }
        let mut select = self.db.prepare_cached("SELECT id FROM servers WHERE name = ?1")?;
        Ok(select.query_row([name], |r| r.get(0)).optional()?)
    }

    fn put_server(&mut self, id: Option<i64>, listing: &Listing) -> Result<i64, IndexError> {
        let id = id.unwrap_or_else(|| {
            self.server_id += 1;
            self.server_id
        });
        let risk = listing.tools.iter().map(|tool| tool.risk).max();
        let mut insert = self.db.prepare_cached(
            "INSERT INTO servers (id, slug, name, title, description, version, website, repository,
                                  updated, tools, risk, source)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?;
        let source = if listing.source.is_empty() { "{}" } else { &listing.source };
        let mut slug = listing.slug.clone();
        for number in 2.. {
            let put = insert.execute(params![
                id,
                slug,
                listing.name,
                listing.title,
                listing.description,
                listing.version,
                listing.website,
                listing.repository,
                listing.updated,
                i64::try_from(listing.tools.len()).unwrap_or(i64::MAX),
                risk,
                source,
            ]);
            match put {
                Err(e) if is_taken(&e) && number < 100 => {
                    slug = format!("{}-{number}", listing.slug);
                }
                put => {
                    put?;
                    break;
                }
            }
        }
        let (name, text) = words::of_server(&listing.name, &listing.title, &listing.description);
        let mut insert = self
            .db
            .prepare_cached("INSERT INTO server_words (rowid, name, text) VALUES (?1, ?2, ?3)")?;
        insert.execute((id, name, text))?;
        self.known.insert(listing.name.clone(), SeenServer { id, in_parts: false });
        Ok(id)
    }

    fn put_tool(&mut self, server: i64, slug: &str, tool: &Tool) -> Result<(), IndexError> {
        self.tool_id += 1;
        self.insert_tool.execute(params![
            self.tool_id,
            server,
            slug,
            tool.name,
            tool.category,
            tool.risk,
            tool.signals,
            tool.does,
            tool.definition,
        ])?;
        self.insert_tool_words.execute((self.tool_id, &tool.name_words, &tool.text_words))?;
        Ok(())
    }

    /// A slug for a single tool; the previous tool of its name is deleted first.
    fn free_slug(&self, server: i64, tool: &Tool) -> Result<Option<String>, IndexError> {
        let mut select = self
            .db
            .prepare_cached("SELECT id, name FROM tools WHERE server_id = ?1 AND slug = ?2")?;
        let mut slug = tool.slug.clone();
        for number in 2..100 {
            let found: Option<(i64, String)> =
                select.query_row((server, &slug), |r| Ok((r.get(0)?, r.get(1)?))).optional()?;
            match found {
                None => break,
                Some((id, name)) if name == tool.name => {
                    self.remove_tools("id = ?1", id)?;
                    break;
                }
                Some(_) => slug = format!("{}-{number}", tool.slug),
            }
        }
        Ok((slug != tool.slug).then_some(slug))
    }

    fn remove_server(&self, server: i64) -> Result<(), IndexError> {
        self.remove_tools("server_id = ?1", server)?;
        let (name, title, description): (String, String, String) = self.db.query_row(
            "SELECT name, title, description FROM servers WHERE id = ?1",
            [server],
            |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)),
        )?;
        let (name, text) = words::of_server(&name, &title, &description);
        self.db.execute(
            "INSERT INTO server_words (server_words, rowid, name, text) VALUES ('delete', ?1, ?2, ?3)",
            (server, name, text),
        )?;
        self.db.execute("DELETE FROM servers WHERE id = ?1", [server])?;
        Ok(())
    }

    /// FTS deletes words by being given them again.
    fn remove_tools(&self, which: &str, id: i64) -> Result<(), IndexError> {
        let mut select =
            self.db.prepare_cached(&format!("SELECT id, definition FROM tools WHERE {which}"))?;
        let rows: Vec<(i64, String)> =
            select.query_map([id], |r| Ok((r.get(0)?, r.get(1)?)))?.collect::<Result<_, _>>()?;
        for (id, definition) in rows {
            let (name, text) = words::of_definition(&definition);
            self.db.execute(
                "INSERT INTO tool_words (tool_words, rowid, name, text) VALUES ('delete', ?1, ?2, ?3)",
                (id, name, text),
            )?;
        }
        self.db.execute(&format!("DELETE FROM tools WHERE {which}"), [id])?;
        Ok(())
    }
}

fn is_taken(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|e| e.code == rusqlite::ErrorCode::ConstraintViolation)
}
