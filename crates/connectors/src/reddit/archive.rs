//! Reddit's answer to a data request: a ZIP of tables. It needs no API key and reaches back to the
//! first day; what Reddit itself shows of the same things is fuller and is left as it is.

#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use super::SERVICE;
use super::mirror::{COMMENTS, DOWNVOTED, HIDDEN, MESSAGES, POSTS, SAVED, SUBREDDITS, UPVOTED};
use crate::Desk;
use crate::personal::archive::{
    self, Archive, Cells, Given, Intake, OpenFile, Stop, each_row_with_header,
};
use crate::personal::mirror::List;
use crate::personal::{ArchiveError, Imported};
use crate::when::{instant_us, utc_millis};

const ARCHIVE: Archive = Archive {
    wants: |path| sheet(path).is_some(),
    learn: None,
    read,
    hint: "ask for your data at https://www.reddit.com/settings/data-request; Reddit sends a ZIP with posts.csv, comments.csv and others",
};

/// One table of the archive.
struct Sheet {
    file: &'static str,
    /// Where its rows go; a row that goes nowhere says so itself.
    list: &'static List,
    columns: &'static [&'static str],
    row: fn(&Cells<'_>) -> Row,
}

enum Row {
    Is(Value),
    /// Of another list than the table's.
    Of(&'static List, Value),
    /// Nothing of it is kept: a vote that was taken back.
    Nothing,
    Odd,
}

const SHEETS: &[Sheet] = &[
    Sheet { file: "posts.csv", list: &POSTS, columns: &["id", "date"], row: post },
    Sheet { file: "comments.csv", list: &COMMENTS, columns: &["id", "date", "body"], row: comment },
    Sheet { file: "saved_posts.csv", list: &SAVED, columns: &["id"], row: |c| named(c, "t3") },
    Sheet { file: "saved_comments.csv", list: &SAVED, columns: &["id"], row: |c| named(c, "t1") },
    Sheet { file: "hidden_posts.csv", list: &HIDDEN, columns: &["id"], row: |c| named(c, "t3") },
    Sheet {
        file: "post_votes.csv",
        list: &UPVOTED,
        columns: &["id", "direction"],
        row: |c| vote(c, "t3"),
    },
    Sheet {
        file: "comment_votes.csv",
        list: &UPVOTED,
        columns: &["id", "direction"],
        row: |c| vote(c, "t1"),
    },
    Sheet {
        file: "subscribed_subreddits.csv",
        list: &SUBREDDITS,
        columns: &["subreddit"],
        row: subreddit,
    },
    Sheet { file: "messages.csv", list: &MESSAGES, columns: &["id", "date"], row: message },
    Sheet { file: "messages_archive.csv", list: &MESSAGES, columns: &["id", "date"], row: message },
];

fn sheet(path: &str) -> Option<&'static Sheet> {
    let base = path.rsplit(['/', '\\']).next().unwrap_or(path);
    SHEETS.iter().find(|sheet| base.eq_ignore_ascii_case(sheet.file))
}

/// Takes in what Reddit sends: the ZIP, or the folder it was unpacked to.
pub fn import(desk: &Desk, given: &Given<'_>) -> Result<Imported, ArchiveError> {
    archive::import(desk, &SERVICE, &ARCHIVE, given)
}

fn read(file: &mut OpenFile<'_>, intake: &mut Intake<'_>) -> Result<(), Stop> {
    let Some(sheet) = sheet(file.name) else { return Ok(()) };
    each_row_with_header(file, sheet.columns, &mut |cells| {
        match (sheet.row)(cells) {
            Row::Is(item) => intake.fill(sheet.list, item)?,
            Row::Of(list, item) => intake.fill(list, item)?,
            Row::Nothing => {}
            Row::Odd => intake.odd(sheet.list),
        }
        Ok(())
    })
}

/// `t3_abc`. Some rows of Reddit's have something else in the place of an id.
fn fullname(cells: &Cells<'_>, kind: &str) -> Option<String> {
    let id = cells.get("id")?;
    let id = id.strip_prefix(kind).and_then(|rest| rest.strip_prefix('_')).unwrap_or(id);
    let is_id = id.len() <= 16 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_id.then(|| format!("{kind}_{}", id.to_ascii_lowercase()))
}

fn word(kind: &str) -> &'static str {
    if kind == "t1" { "comment" } else { "post" }
}

/// `2023-01-15 12:34:56 UTC`, in the form that the API's moments have here.
fn moment(cells: &Cells<'_>) -> Option<String> {
    let text = cells.get("date")?;
    instant_us(text.strip_suffix(" UTC").unwrap_or(text)).map(utc_millis)
}

fn permalink(cells: &Cells<'_>) -> Option<String> {
    let link = cells.get("permalink")?;
    let path = link.starts_with('/').then(|| format!("https://www.reddit.com{link}"));
    Some(path.unwrap_or_else(|| link.to_owned()))
}

/// By its column, or by the address.
fn subreddit_of(cells: &Cells<'_>) -> Option<String> {
    let said = cells.get("subreddit").map(str::to_owned);
    said.or_else(|| {
        let (_, after) = cells.get("permalink")?.split_once("/r/")?;
        after.split('/').next().map(str::to_owned)
    })
}

fn post(cells: &Cells<'_>) -> Row {
    let (Some(name), Some(at)) = (fullname(cells, "t3"), moment(cells)) else { return Row::Odd };
    Row::Is(json!({
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

fn comment(cells: &Cells<'_>) -> Row {
    let (Some(name), Some(at)) = (fullname(cells, "t1"), moment(cells)) else { return Row::Odd };
    Row::Is(json!({
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

/// Of what was saved, hidden or voted on Reddit tells the id and the address.
fn thing(cells: &Cells<'_>, kind: &str) -> Option<Value> {
    Some(json!({
        "kind": word(kind),
        "name": fullname(cells, kind)?,
        "subreddit": subreddit_of(cells),
        "permalink": permalink(cells),
    }))
}

fn named(cells: &Cells<'_>, kind: &str) -> Row {
    thing(cells, kind).map_or(Row::Odd, Row::Is)
}

fn vote(cells: &Cells<'_>, kind: &str) -> Row {
    let Some(item) = thing(cells, kind) else { return Row::Odd };
    match cells.get("direction") {
        Some("up") => Row::Of(&UPVOTED, item),
        Some("down") => Row::Of(&DOWNVOTED, item),
        _ => Row::Nothing,
    }
}

fn subreddit(cells: &Cells<'_>) -> Row {
    match cells.get("subreddit") {
        Some(name) => Row::Is(json!({ "kind": "subreddit", "display_name": name })),
        None => Row::Odd,
    }
}

fn message(cells: &Cells<'_>) -> Row {
    let (Some(name), Some(at)) = (fullname(cells, "t4"), moment(cells)) else { return Row::Odd };
    Row::Is(json!({
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
