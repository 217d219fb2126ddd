//! The CSV tables of Takeout: subscriptions, playlists and their entries. Names and columns are in
//! the owner's language, so a row is recognised by its shape.

use serde_json::{Value, json};

use super::super::mirror::{LIKES, PLAYLIST_ITEMS, PLAYLISTS, SUBSCRIPTIONS};
use crate::personal::archive::{Intake, OpenFile, Stop, each_row, short_digest};
use crate::personal::mirror::KEPT_PARENT;
use crate::when::{instant_us, utc_seconds};

/// After so many consecutive foreign rows the rest of a table is skipped.
const OTHERS_MAX: usize = 200;
/// The id prefix of the playlist of likes.
const LIKES_BEGIN: &str = "LL";
const LIKES_NAMES: &[&str] =
    &["likedvideos", "likedmusic", "videosquemegustan", "vídeosquemegustan"];

/// A recognised row.
#[derive(Debug, PartialEq, Eq)]
enum TakeoutRow<'a> {
    Subscription { channel: &'a str, title: &'a str },
    Playlist { id: &'a str },
    Item { video: &'a str, added_us: i64 },
    Other,
}

fn row(cells: &[String]) -> TakeoutRow<'_> {
    let cell = |at: usize| cells.get(at).map_or("", String::as_str);
    if let Some(found) = subscription(cells) {
        return found;
    }
    if cells.len() >= 4 && is_playlist(cell(0)) {
        return TakeoutRow::Playlist { id: cell(0) };
    }
    match moment_us(cell(1)) {
        Some(added_us) if is_video(cell(0)) => TakeoutRow::Item { video: cell(0), added_us },
        _ => TakeoutRow::Other,
    }
}

/// Three cells in any order: channel id, URL and title.
fn subscription(cells: &[String]) -> Option<TakeoutRow<'_>> {
    let [_, _, _] = cells else { return None };
    let channel = cells.iter().find(|cell| is_channel(cell))?;
    let is_address = |cell: &str| cell.contains("youtube.com/channel/") && cell.ends_with(channel);
    let address = cells.iter().find(|cell| is_address(cell))?;
    let title = cells.iter().find(|cell| *cell != channel && *cell != address)?;
    Some(TakeoutRow::Subscription { channel, title })
}

fn is_word(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

fn is_channel(text: &str) -> bool {
    text.len() == 24 && text.starts_with("UC") && is_word(text)
}

fn is_video(text: &str) -> bool {
    text.len() == 11 && is_word(text)
}

fn is_playlist(text: &str) -> bool {
    let begins = ["PL", "LL", "FL", "LM", "WL", "OLAK5uy"];
    (2..=64).contains(&text.len()) && is_word(text) && begins.iter().any(|b| text.starts_with(b))
}

/// `2024-02-26T12:22:09+00:00`, or `2020-01-01 00:00:00 UTC` in older archives.
fn moment_us(text: &str) -> Option<i64> {
    let begins = text.get(..4)?.bytes().all(|byte| byte.is_ascii_digit()) && text.len() >= 19;
    instant_us(text.strip_suffix(" UTC").unwrap_or(text)).filter(|_| begins)
}

/// Records the playlist titles: the files of their entries are named by title.
pub(super) fn learn(file: &mut OpenFile<'_>, intake: &mut Intake<'_>) -> Result<(), Stop> {
    let mut header: Vec<String> = Vec::new();
    let mut is_first = true;
    each_row(file, &mut |cells| {
        if std::mem::take(&mut is_first) {
            header = cells.to_vec();
            return if header.len() < 4 { Err(Stop::Enough) } else { Ok(()) };
        }
        let TakeoutRow::Playlist { id } = row(cells) else { return Err(Stop::Enough) };
        if let Some(title) = title_of(&header, cells) {
            let note = intake.notes.entry(plain(title)).or_insert_with(|| id.to_owned());
            if note != id {
                // Two playlists with one title are ambiguous.
                note.clear();
            }
        }
        Ok(())
    })
}

/// Words for a title column, and for its language column.
const TITLES: &[&str] = &[
    "title",
    "titel",
    "titre",
    "título",
    "titolo",
    "tytuł",
    "başlı",
    "назв",
    "タイトル",
    "标题",
    "標題",
    "제목",
];
const LANGUAGES: &[&str] = &[
    "language", "sprache", "langue", "idioma", "lingua", "taal", "język", "dil", "язык", "言語",
    "语言", "語言", "언어",
];

fn title_of<'a>(header: &[String], cells: &'a [String]) -> Option<&'a str> {
    let has = |name: &str, message: &[&str]| message.iter().any(|word| name.contains(word));
    let is_title = |name: &&String| {
        let name = name.to_lowercase();
        has(&name, TITLES) && !has(&name, LANGUAGES)
    };
    let at = header.iter().position(|name| is_title(&name))?;
    cells.get(at).map(String::as_str).filter(|title| !title.is_empty())
}

/// Letters and digits only: a file name replaces all others.
fn plain(title: &str) -> String {
    title.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

pub(super) fn read(file: &mut OpenFile<'_>, intake: &mut Intake<'_>) -> Result<(), Stop> {
    let mut sheet = TableReader::named(file.base(), intake);
    each_row(file, &mut |cells| sheet.take(cells, intake))
}

/// The table being read.
struct TableReader {
    header: Vec<String>,
    /// The playlist of its entries, from the file name.
    playlist: String,
    title: String,
    position: u64,
    seen: std::collections::HashMap<String, u64>,
    others: usize,
}

impl TableReader {
    fn named(file: &str, intake: &Intake<'_>) -> TableReader {
        let whole = file.rsplit_once('.').map_or(file, |(name, _)| name);
        // `Road trip-videos`, `Mis favoritos videos`; older archives have the title alone.
        let cut = |mark| whole.rsplit_once(mark).map(|(title, _): (&str, &str)| title);
        let titles = [Some(whole), cut('-'), cut(' ')];
        let known = titles.iter().flatten().find_map(|title| {
            let id = intake.notes.get(&plain(title)).filter(|id| !id.is_empty())?;
            Some((id.clone(), (*title).to_owned()))
        });
        let (playlist, title) = known.unwrap_or_else(|| {
            let title = cut('-').unwrap_or(whole);
            (unnamed(title), title.to_owned())
        });
        let seen = std::collections::HashMap::new();
        TableReader { header: Vec::new(), playlist, title, position: 0, seen, others: 0 }
    }

    fn take(&mut self, cells: &[String], intake: &mut Intake<'_>) -> Result<(), Stop> {
        match row(cells) {
            TakeoutRow::Subscription { channel, title } => {
                let item = json!({
                    "snippet": { "title": title, "resourceId": { "channelId": channel } },
                });
                intake.fill(&SUBSCRIPTIONS, item)?;
            }
            TakeoutRow::Playlist { id } => {
                id.clone_into(&mut self.playlist);
                if let Some(title) = title_of(&self.header, cells) {
                    title.clone_into(&mut self.title);
                }
                intake.fill(&PLAYLISTS, playlist(id, &self.title, cells))?;
            }
            TakeoutRow::Item { video, added_us } => self.entry(video, added_us, intake)?,
            TakeoutRow::Other => {
                // Each part of a table begins with its column names.
                self.header = cells.to_vec();
                self.others += 1;
                return if self.others > OTHERS_MAX { Err(Stop::Enough) } else { Ok(()) };
            }
        }
        self.others = 0;
        Ok(())
    }

    fn entry(&mut self, video: &str, added_us: i64, intake: &mut Intake<'_>) -> Result<(), Stop> {
        let snippet =
            json!({ "publishedAt": utc_seconds(added_us), "resourceId": { "videoId": video } });
        let is_likes = self.playlist.starts_with(LIKES_BEGIN)
            || LIKES_NAMES.contains(&plain(&self.title).as_str());
        if is_likes {
            return Ok(intake.fill(&LIKES, json!({ "snippet": snippet }))?);
        }
        self.position += 1;
        let times = self.seen.entry(video.to_owned()).or_insert(0);
        *times += 1;
        let item = json!({
            "snippet": snippet,
            "playlist_id": self.playlist,
            "playlist": self.title,
            "position": self.position,
            "occurrence": times,
        });
        Ok(intake.fill(&PLAYLIST_ITEMS, item)?)
    }
}

/// A placeholder id for a list that only Takeout has, such as the watch-later list.
fn unnamed(title: &str) -> String {
    format!("{KEPT_PARENT}{}", short_digest(&plain(title)))
}

fn playlist(id: &str, title: &str, cells: &[String]) -> Value {
    let made = cells.iter().find_map(|cell| moment_us(cell)).map(utc_seconds);
    let privacy = ["private", "unlisted", "public"]
        .into_iter()
        .find(|word| cells.iter().any(|cell| cell.eq_ignore_ascii_case(word)));
    json!({
        "id": id,
        "snippet": { "title": title, "publishedAt": made },
        "status": { "privacyStatus": privacy },
    })
}
