//! The last prompts and resources that clients were shown, kept across restarts. They may name the owner's
//! documents, so they are sealed. Tools are kept as pins.

use super::Registry;
use super::error::RegistryError;
use crate::vault::{Purpose, Sealed};

/// A longer list is not stored.
const LIST_BYTES_MAX: usize = 64 * 1024;
/// Lists that are stored; beyond that the oldest are deleted.
const LISTS_MAX: i64 = 512;

/// A list of one server for the clients of one grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerList {
    pub grant: String,
    /// The method that lists it, such as `prompts/list`.
    pub list: String,
    /// Each item as JSON.
    pub items: Vec<String>,
}

impl Registry {
    /// Stores a list. One that is too long to be stored takes the place of an older one with nothing.
    pub fn put_server_list(
        &self,
        server: &str,
        list: &ServerList,
        now_us: i64,
    ) -> Result<(), RegistryError> {
        let key = (server, &list.grant, &list.list);
        let items = serde_json::to_vec(&list.items).unwrap_or_default();
        if items.len() > LIST_BYTES_MAX {
            return self.write_quietly(|db| {
                let delete =
                    "DELETE FROM server_lists WHERE server = ?1 AND grant_id = ?2 AND list = ?3";
                db.execute(delete, key)?;
                Ok(())
            });
        }
        let place = place(server, &list.grant, &list.list);
        let sealed = self.vault.seal(Purpose::ServerList, &place, &items, &self.random)?;
        self.write_quietly(|db| {
            let put = "INSERT INTO server_lists (server, grant_id, list, sealed, changed_at_us)
                       VALUES (?1, ?2, ?3, ?4, ?5)
                       ON CONFLICT DO UPDATE SET sealed = ?4, changed_at_us = ?5";
            db.execute(put, (key.0, key.1, key.2, sealed.as_bytes(), now_us))?;
            let trim = "DELETE FROM server_lists WHERE (server, grant_id, list) IN (
                            SELECT server, grant_id, list FROM server_lists
                            ORDER BY changed_at_us DESC LIMIT -1 OFFSET ?1)";
            db.execute(trim, [LISTS_MAX])?;
            Ok(())
        })
    }

    /// The lists of a server that were stored last.
    pub fn server_lists(&self, server: &str) -> Result<Vec<ServerList>, RegistryError> {
        let stored: Vec<(String, String, Vec<u8>)> = self.read(|db| {
            let select = "SELECT grant_id, list, sealed FROM server_lists WHERE server = ?1";
            let mut select = db.prepare_cached(select)?;
            let rows =
                select.query_map([server], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            Ok(rows.collect::<Result<_, _>>()?)
        })?;
        let opened = stored.into_iter().map(|(grant, list, bytes)| {
            let place = place(server, &grant, &list);
            let sealed = Sealed::from_bytes(Purpose::ServerList, &place, bytes);
            let items = self.vault.open(&sealed)?;
            let items = serde_json::from_slice(items.expose()).unwrap_or_default();
            Ok(ServerList { grant, list, items })
        });
        opened.collect()
    }
}

/// What a sealed list is bound to.
fn place(server: &str, grant: &str, list: &str) -> String {
    format!("{server} {grant} {list}")
}
