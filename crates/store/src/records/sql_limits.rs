//! The limits of a query by someone else than the owner: which views, how many steps, how long, how large.

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Connection, OptionalExtension};

use super::sql::allow_reading;

/// The clock is read after so many steps of SQLite's machine. A step may search a value for a pattern, so
/// there are few of them between two looks.
const STEPS_PER_CHECK: i32 = 100;
/// No text, blob or row may be larger, so that a function cannot fill the memory in one step, nor search for
/// long: the time of a search grows with the product of two lengths.
const VALUE_BYTES_MAX: i32 = 16 * 1024;
/// What a text of SQL may contain. SQLite looks at the clock where it jumps, so one row is never interrupted
/// and its work has to be short.
const OTHER_LIMITS: [(Limit, i32); 6] = [
    (Limit::SQLITE_LIMIT_SQL_LENGTH, 8 * 1024),
    (Limit::SQLITE_LIMIT_COLUMN, 100),
    (Limit::SQLITE_LIMIT_EXPR_DEPTH, 100),
    (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 10),
    (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 64),
    (Limit::SQLITE_LIMIT_VDBE_OP, 20_000),
];

/// What such a query may use.
#[derive(Clone, Copy, Debug)]
pub struct QueryLimits {
    /// The views that it may read.
    pub views: &'static [&'static str],
    /// Steps of SQLite's machine; a query that needs more is interrupted.
    pub steps_max: i32,
}

/// Prepares a connection for one query.
pub(super) fn apply(
    db: &mut Connection,
    limits: QueryLimits,
    mut is_over: impl FnMut() -> bool + Send + 'static,
    query: &str,
) -> rusqlite::Result<()> {
    let hidden = HiddenNames::not_in(query);
    wrap_views(db, limits.views, &hidden)?;
    for (limit, max) in OTHER_LIMITS {
        db.set_limit(limit, max)?;
    }
    db.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)?;
    let allow = move |context: AuthContext<'_>| allow_views(limits.views, &hidden, context);
    db.authorizer(Some(allow))?;
    let mut looks_left = limits.steps_max / STEPS_PER_CHECK;
    let stop = move || {
        looks_left -= 1;
        looks_left <= 0 || is_over()
    };
    db.progress_handler(STEPS_PER_CHECK, Some(stop))
}

/// Names that the query does not contain, so that it cannot use them.
struct HiddenNames {
    prefix: String,
}

impl HiddenNames {
    fn not_in(query: &str) -> HiddenNames {
        let query = query.to_lowercase();
        let mut prefix = "hidden_".to_owned();
        while query.contains(&prefix) {
            prefix.push('_');
        }
        HiddenNames { prefix }
    }

    fn of(&self, view: &str) -> String {
        format!("{}{view}", self.prefix)
    }

    fn is(&self, name: &str) -> bool {
        name.starts_with(&self.prefix)
    }
}

/// SQLite tells the authorizer which view reads a table, but calls a common table expression by its name
/// too: `with whoop_cycles as (select * from record)` would pass for the view. So the tables are read by
/// views with hidden names, and the known names are views of those.
fn wrap_views(db: &Connection, views: &[&str], hidden: &HiddenNames) -> rusqlite::Result<()> {
    for view in views {
        let text = "SELECT sql FROM main.sqlite_schema WHERE type = 'view' AND name = ?1";
        let declared: Option<String> = db.query_row(text, [view], |r| r.get(0)).optional()?;
        let Some((_, body)) = declared.as_deref().and_then(|text| text.split_once(" AS ")) else {
            continue;
        };
        let inner = hidden.of(view);
        db.execute_batch(&format!(
            "CREATE TEMP VIEW \"{inner}\" AS {body}; CREATE TEMP VIEW \"{view}\" AS SELECT * FROM \"{inner}\""
        ))?;
    }
    Ok(())
}

/// Reading from these views only. No recursion: its intermediate rows have no limit.
fn allow_views(views: &[&str], hidden: &HiddenNames, context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Recursive => Authorization::Deny,
        // Without a column only rows are counted.
        AuthAction::Read { table_name, .. } => {
            let is_view = views.contains(&table_name) || hidden.is(table_name);
            let by_view = context.accessor.is_some_and(|accessor| hidden.is(accessor));
            if is_view || by_view { Authorization::Allow } else { Authorization::Deny }
        }
        AuthAction::Function { function_name }
            if function_name.eq_ignore_ascii_case("load_extension") =>
        {
            Authorization::Deny
        }
        _ => allow_reading(context),
    }
}
