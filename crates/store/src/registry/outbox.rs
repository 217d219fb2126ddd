//! The outbox of notices: each is stored once per condition and delivered to every channel that wants it, with
//! retries until a fixed number of attempts. A slow receiver delays nothing but its own row.

use rusqlite::{OptionalExtension, Transaction};

use super::channels::{Channel, Topic, channel_of, missing};
use super::{Registry, RegistryError};

/// Older notices are forgotten; a condition that still holds is then raised again.
const NOTICE_SECONDS_MAX: i64 = 7 * 24 * 3600;
/// The oldest notices are forgotten beyond this number.
const NOTICES_MAX: i64 = 1_000;
/// A delivery that was taken and never reported is tried again after this.
const LEASE_SECONDS: i64 = 120;
/// The pauses before each further attempt.
const BACK_OFF_SECONDS: [i64; 5] = [10, 60, 300, 1_800, 7_200];
const US_PER_SECOND: i64 = 1_000_000;
const TEXT_BYTES_MAX: usize = 4_000;

/// A notice to be raised.
#[derive(Clone, Debug)]
pub struct NewNotice<'n> {
    /// Names the condition, such as `account:whoop`. It is raised once until it is cleared.
    pub key: &'n str,
    pub topic: Topic,
    pub title: &'n str,
    pub text: &'n str,
    /// The page of the dashboard that shows it.
    pub path: &'n str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredNotice {
    pub id: i64,
    pub key: String,
    pub topic: String,
    pub title: String,
    pub text: String,
    pub path: String,
    pub created_at_us: i64,
}

/// A notice that is due for a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub notice: StoredNotice,
    pub channel: Channel,
    /// Including the one that is about to be made.
    pub attempts: u32,
}

/// What became of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryState {
    pub title: String,
    pub channel: String,
    pub attempts: u32,
    pub created_at_us: i64,
    pub sent_at_us: Option<i64>,
    pub next_at_us: Option<i64>,
    pub error: String,
}

impl Registry {
    /// Stores a notice for every channel that wants it. Returns whether it is new.
    pub fn raise_notice(&self, notice: &NewNotice<'_>, now_us: i64) -> Result<bool, RegistryError> {
        self.write_quietly(|db| {
            forget_old(db, now_us)?;
            let Some(id) = insert(db, notice, now_us)? else { return Ok(false) };
            let mut select = db.prepare_cached(
                "SELECT name, kind, shown, detail, topics, created_at_us FROM channels",
            )?;
            let channels: Vec<Channel> =
                select.query_map([], channel_of)?.collect::<Result<_, _>>()?;
            for channel in channels.iter().filter(|channel| channel.wants(notice.topic)) {
                add_delivery(db, id, &channel.name, now_us)?;
            }
            Ok(true)
        })
    }

    /// Stores a test notice for one channel.
    pub fn raise_test_notice(&self, channel: &str, now_us: i64) -> Result<(), RegistryError> {
        self.write_quietly(|db| {
            let exists = "SELECT EXISTS (SELECT 1 FROM channels WHERE name = ?1)";
            if !db.query_row(exists, [channel], |row| row.get::<_, bool>(0))? {
                return Err(missing(channel));
            }
            let key = format!("test:{channel}:{now_us}");
            let notice = NewNotice {
                key: &key,
                topic: Topic::Test,
                title: "Test message from tollgate",
                text: "This channel works.",
                path: "/notifications",
            };
            if let Some(id) = insert(db, &notice, now_us)? {
                add_delivery(db, id, channel, now_us)?;
            }
            Ok(())
        })
    }

    /// The condition has ended: its notice is forgotten, and deliveries that were not made are dropped.
    pub fn clear_notice(&self, key: &str) -> Result<bool, RegistryError> {
        let exists = self.read(|db| {
            let select = "SELECT EXISTS (SELECT 1 FROM notices WHERE key = ?1)";
            Ok(db.query_row(select, [key], |row| row.get::<_, bool>(0))?)
        })?;
        if !exists {
            return Ok(false);
        }
        self.write_quietly(|db| Ok(db.execute("DELETE FROM notices WHERE key = ?1", [key])? == 1))
    }

    /// The condition has ended and its notice stays listed: deliveries that were not made are dropped.
    pub fn cancel_notice(&self, key: &str, why: &str) -> Result<(), RegistryError> {
        self.write_quietly(|db| {
            db.execute(
                "UPDATE deliveries SET next_at_us = NULL, error = ?2 WHERE next_at_us IS NOT NULL
                 AND notice = (SELECT id FROM notices WHERE key = ?1)",
                (key, why),
            )?;
            Ok(())
        })
    }

    /// Takes deliveries of a channel that are due. Each must be reported by one of the two functions below;
    /// otherwise it is due again after two minutes.
    pub fn take_due_deliveries(
        &self,
        channel: &str,
        now_us: i64,
        most: u32,
    ) -> Result<Vec<Delivery>, RegistryError> {
        let due =
            "SELECT EXISTS (SELECT 1 FROM deliveries WHERE next_at_us <= ?1 AND channel = ?2)";
        let is_due = |row: &rusqlite::Row<'_>| row.get::<_, bool>(0);
        if !self.read(|db| Ok(db.query_row(due, (now_us, channel), is_due)?))? {
            return Ok(Vec::new());
        }
        self.write_quietly(|db| {
            let deliveries = due_deliveries(db, channel, now_us, most)?;
            let lease_us = now_us.saturating_add(LEASE_SECONDS * US_PER_SECOND);
            for Delivery { notice, channel, attempts } in &deliveries {
                db.execute(
                    "UPDATE deliveries SET next_at_us = ?3, attempts = ?4
                     WHERE notice = ?1 AND channel = ?2",
                    (notice.id, &channel.name, lease_us, attempts),
                )?;
            }
            Ok(deliveries)
        })
    }

    pub fn delivered(&self, delivery: &Delivery, now_us: i64) -> Result<(), RegistryError> {
        self.write_quietly(|db| {
            db.execute(
                "UPDATE deliveries SET next_at_us = NULL, sent_at_us = ?3, error = ''
                 WHERE notice = ?1 AND channel = ?2",
                (delivery.notice.id, &delivery.channel.name, now_us),
            )?;
            Ok(())
        })
    }

    /// Stores the error and the time of the next attempt, if there is one.
    pub fn delivery_failed(
        &self,
        delivery: &Delivery,
        error: &str,
        is_permanent: bool,
        now_us: i64,
    ) -> Result<(), RegistryError> {
        let nth = usize::try_from(delivery.attempts).unwrap_or(usize::MAX).saturating_sub(1);
        let pause = BACK_OFF_SECONDS.get(nth).filter(|_| !is_permanent);
        let next_at_us = pause.map(|seconds| now_us.saturating_add(seconds * US_PER_SECOND));
        self.write_quietly(|db| {
            db.execute(
                "UPDATE deliveries SET next_at_us = ?3, error = ?4
                 WHERE notice = ?1 AND channel = ?2",
                (delivery.notice.id, &delivery.channel.name, next_at_us, cut(error)),
            )?;
            Ok(())
        })
    }

    /// The newest deliveries first.
    pub fn deliveries(&self, most: u32) -> Result<Vec<DeliveryState>, RegistryError> {
        self.read(|db| {
            let mut select = db.prepare_cached(
                "SELECT n.title, d.channel, d.attempts, n.created_at_us, d.sent_at_us, d.next_at_us,
                        d.error
                 FROM deliveries d JOIN notices n ON n.id = d.notice
                 ORDER BY n.id DESC, d.channel LIMIT ?1",
            )?;
            let rows = select.query_map([most], |row| {
                Ok(DeliveryState {
                    title: row.get(0)?,
                    channel: row.get(1)?,
                    attempts: row.get(2)?,
                    created_at_us: row.get(3)?,
                    sent_at_us: row.get(4)?,
                    next_at_us: row.get(5)?,
                    error: row.get(6)?,
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }
}

fn insert(
    db: &Transaction<'_>,
    notice: &NewNotice<'_>,
    now_us: i64,
) -> Result<Option<i64>, RegistryError> {
    let put = "INSERT INTO notices (key, topic, title, text, path, created_at_us)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (key) DO NOTHING RETURNING id";
    let NewNotice { key, topic, title, text, path } = notice;
    let values = (key, topic.as_str(), cut(title), cut(text), path, now_us);
    Ok(db.query_row(put, values, |row| row.get(0)).optional()?)
}

fn add_delivery(
    db: &Transaction<'_>,
    notice: i64,
    channel: &str,
    now_us: i64,
) -> Result<(), RegistryError> {
    let put = "INSERT INTO deliveries (notice, channel, next_at_us) VALUES (?1, ?2, ?3)";
    db.execute(put, (notice, channel, now_us))?;
    Ok(())
}

fn due_deliveries(
    db: &Transaction<'_>,
    channel: &str,
    now_us: i64,
    most: u32,
) -> Result<Vec<Delivery>, RegistryError> {
    let mut select = db.prepare_cached(
        "SELECT c.name, c.kind, c.shown, c.detail, c.topics, c.created_at_us,
                n.id, n.key, n.topic, n.title, n.text, n.path, n.created_at_us, d.attempts
         FROM deliveries d JOIN notices n ON n.id = d.notice JOIN channels c ON c.name = d.channel
         WHERE d.next_at_us <= ?1 AND d.channel = ?2 ORDER BY d.next_at_us LIMIT ?3",
    )?;
    let rows = select.query_map((now_us, channel, most), |row| {
        let notice = StoredNotice {
            id: row.get(6)?,
            key: row.get(7)?,
            topic: row.get(8)?,
            title: row.get(9)?,
            text: row.get(10)?,
            path: row.get(11)?,
            created_at_us: row.get(12)?,
        };
        let attempts: u32 = row.get(13)?;
        Ok(Delivery { notice, channel: channel_of(row)?, attempts: attempts.saturating_add(1) })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn forget_old(db: &Transaction<'_>, now_us: i64) -> Result<(), RegistryError> {
    let before_us = now_us.saturating_sub(NOTICE_SECONDS_MAX * US_PER_SECOND);
    db.execute("DELETE FROM notices WHERE created_at_us < ?1", [before_us])?;
    let keep = "DELETE FROM notices WHERE id <= (SELECT max(id) FROM notices) - ?1";
    db.execute(keep, [NOTICES_MAX])?;
    Ok(())
}

fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(TEXT_BYTES_MAX)).unwrap_or_default()
}
