//! Reddit's data export: a ZIP of CSV tables. It needs no API key and reaches back to the first day.
//! Records from the API have more fields, so an import does not overwrite them.

#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use super::mirror::{
    COMMENTS, DOWNVOTED, HIDDEN, MESSAGES, MIRROR, POSTS, SAVED, SUBREDDITS, UPVOTED,
};
use crate::ConnectorContext;
use crate::personal::archive::{
    self, Archive, Cells, ImportInput, Intake, OpenFile, Stop, each_row_with_header,
};
use crate::personal::mirror::List;
use crate::personal::{ArchiveError, ArchiveImport, ImportReport};
use crate::when::{instant_us, utc_millis};

pub const IMPORT: ArchiveImport = ArchiveImport {
    about: "Reddit's data export: posts, comments, saved, votes, messages, subreddits",
    import,
};

const ARCHIVE: Archive = Archive {
    wants: |path| table(path).is_some(),
    learn: None,
    read,
    hint: "request your data at https://www.reddit.com/settings/data-request; Reddit sends a ZIP with posts.csv, comments.csv and others",
};

/// One table of the archive.
struct ArchiveTable {
    file: &'static str,
    /// The list of its rows, unless a row names another.
    list: &'static List,
    columns: &'static [&'static str],
    row: fn(&Cells<'_>) -> ArchiveRow,
}

enum ArchiveRow {
    Is(Value),
    /// A row of a list other than the table's.
    Of(&'static List, Value),
    /// Not kept: a withdrawn vote.
    Nothing,
    Odd,
}

const TABLES: &[ArchiveTable] = &[
    ArchiveTable { file: "posts.csv", list: &POSTS, columns: &["id", "date"], row: post },
    ArchiveTable {
        file: "comments.csv",
        list: &COMMENTS,
        columns: &["id", "date", "body"],
        row: comment,
    },
    ArchiveTable {
        file: "saved_posts.csv",
        list: &SAVED,
        columns: &["id"],
        row: |c| named(c, "t3"),
    },
    ArchiveTable {
        file: "saved_comments.csv",
        list: &SAVED,
        columns: &["id"],
        row: |c| named(c, "t1"),
    },
    ArchiveTable {
        file: "hidden_posts.csv",
        list: &HIDDEN,
        columns: &["id"],
        row: |c| named(c, "t3"),
    },
    ArchiveTable {
        file: "post_votes.csv",
        list: &UPVOTED,
        columns: &["id", "direction"],
        row: |c| vote(c, "t3"),
    },
    ArchiveTable {
        file: "comment_votes.csv",
        list: &UPVOTED,
        columns: &["id", "direction"],
        row: |c| vote(c, "t1"),
    },
    ArchiveTable {
        file: "subscribed_subreddits.csv",
        list: &SUBREDDITS,
        columns: &["subreddit"],
        row: subreddit,
    },
    ArchiveTable { file: "messages.csv", list: &MESSAGES, columns: &["id", "date"], row: message },
    ArchiveTable {
        file: "messages_archive.csv",
        list: &MESSAGES,
        columns: &["id", "date"],
        row: message,
    },
];

fn table(path: &str) -> Option<&'static ArchiveTable> {
    let base = path.rsplit(['/', '\\']).next().unwrap_or(path);
    TABLES.iter().find(|table| base.eq_ignore_ascii_case(table.file))
}

/// Imports the ZIP that Reddit sends, or its unpacked folder.
pub fn import(
    ctx: &ConnectorContext,
    given: &ImportInput<'_>,
) -> Result<ImportReport, ArchiveError> {
    archive::import(ctx, &MIRROR, &ARCHIVE, given)
}

fn read(file: &mut OpenFile<'_>, intake: &mut Intake<'_>) -> Result<(), Stop> {
    let Some(table) = table(file.name) else { return Ok(()) };
    each_row_with_header(file, table.columns, &mut |cells| {
        match (table.row)(cells) {
            ArchiveRow::Is(item) => intake.fill(table.list, item)?,
            ArchiveRow::Of(list, item) => intake.fill(list, item)?,
            ArchiveRow::Nothing => {}
            ArchiveRow::Odd => intake.odd(table.list),
        }
        Ok(())
    })
}

/// `t3_abc`. Some rows have no id in the id column.
fn fullname(cells: &Cells<'_>, kind: &str) -> Option<String> {
    let id = cells.get("id")?;
    let id = id.strip_prefix(kind).and_then(|rest| rest.strip_prefix('_')).unwrap_or(id);
    let is_id = id.len() <= 16 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_id.then(|| format!("{kind}_{}", id.to_ascii_lowercase()))
}

fn word(kind: &str) -> &'static str {
    if kind == "t1" { "comment" } else { "post" }
}

/// `2023-01-15 12:34:56 UTC`, converted to the form of API timestamps.
fn moment(cells: &Cells<'_>) -> Option<String> {
    let text = cells.get("date")?;
    instant_us(text.strip_suffix(" UTC").unwrap_or(text)).map(utc_millis)
}

fn permalink(cells: &Cells<'_>) -> Option<String> {
    let link = cells.get("permalink")?;
    let path = link.starts_with('/').then(|| format!("https://www.reddit.com{link}"));
    Some(path.unwrap_or_else(|| link.to_owned()))
}

/// From its column, or from the URL.
fn subreddit_of(cells: &Cells<'_>) -> Option<String> {
    let given = cells.get("subreddit").map(str::to_owned);
    given.or_else(|| {
        let (_, after) = cells.get("permalink")?.split_once("/r/")?;
        after.split('/').next().map(str::to_owned)
    })
}

fn post(cells: &Cells<'_>) -> ArchiveRow {
    let (Some(name), Some(at)) = (fullname(cells, "t3"), moment(cells)) else {
        return ArchiveRow::Odd;
    };
    ArchiveRow::Is(json!({
        "kind": "post",
        "name": name,
        "created_at": at,
        "subreddit": subreddit_of(cells),
        "title": cells.get("title"),
        "selftext": cells.get("body"),
        "url": cells.get("url"),
        "permalink": permalink(cells),
    }))
}

fn comment(cells: &Cells<'_>) -> ArchiveRow {
    let (Some(name), Some(at)) = (fullname(cells, "t1"), moment(cells)) else {
        return ArchiveRow::Odd;
    };
    ArchiveRow::Is(json!({
        "kind": "comment",
        "name": name,
        "created_at": at,
        "subreddit": subreddit_of(cells),
        "body": cells.get("body"),
        "link": cells.get("link"),
        "parent": cells.get("parent"),
        "permalink": permalink(cells),
    }))
}

/// Saved, hidden and voted items have only an id and a URL.
fn thing(cells: &Cells<'_>, kind: &str) -> Option<Value> {
    Some(json!({
        "kind": word(kind),
        "name": fullname(cells, kind)?,
        "subreddit": subreddit_of(cells),
        "permalink": permalink(cells),
    }))
}

fn named(cells: &Cells<'_>, kind: &str) -> ArchiveRow {
    thing(cells, kind).map_or(ArchiveRow::Odd, ArchiveRow::Is)
}

fn vote(cells: &Cells<'_>, kind: &str) -> ArchiveRow {
    let Some(item) = thing(cells, kind) else { return ArchiveRow::Odd };
    match cells.get("direction") {
        Some("up") => ArchiveRow::Of(&UPVOTED, item),
        Some("down") => ArchiveRow::Of(&DOWNVOTED, item),
        _ => ArchiveRow::Nothing,
    }
}

fn subreddit(cells: &Cells<'_>) -> ArchiveRow {
    match cells.get("subreddit") {
        Some(name) => ArchiveRow::Is(json!({ "kind": "subreddit", "display_name": name })),
        None => ArchiveRow::Odd,
    }
}

fn message(cells: &Cells<'_>) -> ArchiveRow {
    let (Some(name), Some(at)) = (fullname(cells, "t4"), moment(cells)) else {
        return ArchiveRow::Odd;
    };
    ArchiveRow::Is(json!({
        "kind": "message",
        "name": name,
        "created_at": at,
        "author": cells.get("from"),
        "dest": cells.get("to"),
        "subject": cells.get("subject"),
        "body": cells.get("body"),
        "permalink": permalink(cells),
    }))
}
