//! `path_under`: whether a path is inside a folder. A path is read in every way a server might read it:
//! as is and percent-decoded, with and without backslashes as separators. Where the readings disagree, or
//! the folder it starts from is unknown, the result is indeterminate.

use unicode_normalization::UnicodeNormalization;

use super::{Case, Test, fails, holds, unclear};
use crate::names::is_invisible;
use crate::percent::{ROUNDS_MAX, decode_once};
use crate::problem::Complaint;
use crate::tree::Node;
use crate::truth_value::TruthValue;

use resolved_path::{ResolvedPath, Style};

mod resolved_path;

pub(super) fn path_under(value: &Node) -> Result<Test, Complaint> {
    let texts = value.items_or_self().iter().filter_map(Node::as_text);
    let folders: Vec<Folder> = texts.map(Folder::read).collect::<Result<_, _>>()?;
    Ok(Test::on_text(move |path| {
        folders.iter().map(|folder| folder.has(path)).fold(TruthValue::Fails, TruthValue::or)
    }))
}

/// A folder of the policy. Its style says how paths are read.
struct Folder {
    windows: bool,
    resolved_path: ResolvedPath,
}

impl Folder {
    fn read(text: &str) -> Result<Folder, Complaint> {
        let windows = text.contains('\\') || has_drive(text);
        let style = if windows { Style::Windows } else { Style::Posix };
        let bad = || {
            Complaint::new(format!("`{text}` is not a folder"))
                .hint("write an absolute path such as `/home/me/notes`")
        };
        if text.is_empty() || text.chars().any(char::is_control) {
            return Err(bad());
        }
        let resolved_path = ResolvedPath::read(text, style)
            .filter(|resolved_path| !resolved_path.climbs)
            .ok_or_else(bad)?;
        Ok(Folder { windows, resolved_path })
    }

    fn has(&self, path: &str) -> TruthValue {
        let mut verdict: Option<TruthValue> = None;
        let mut text = path.to_owned();
        for round in 0..=ROUNDS_MAX {
            let here = self.has_spelling(&text);
            // Two readings that differ, or one that cannot be told, leave the whole open.
            if here == TruthValue::Indeterminate || verdict.is_some_and(|before| before != here) {
                return TruthValue::Indeterminate;
            }
            verdict = Some(here);
            match decode_once(&text) {
                None => return here,
                Some(decoded) if decoded.valid && round < ROUNDS_MAX => text = decoded.text,
                Some(_) => return TruthValue::Indeterminate,
            }
        }
        TruthValue::Indeterminate
    }

    fn has_spelling(&self, text: &str) -> TruthValue {
        if text.chars().any(char::is_control) || hides_separators(text) || hides_dots(text) {
            return TruthValue::Indeterminate;
        }
        if self.windows {
            return self.has_read(text, Style::Windows);
        }
        let plain = self.has_read(text, Style::Posix);
        let turned = if text.contains('\\') { self.has_read(text, Style::Turned) } else { plain };
        if plain == turned { plain } else { TruthValue::Indeterminate }
    }

    fn has_read(&self, text: &str, style: Style) -> TruthValue {
        ResolvedPath::read(text, style).map_or(TruthValue::Indeterminate, |resolved_path| {
            self.resolved_path.holds(&resolved_path)
        })
    }
}

fn has_drive(text: &str) -> bool {
    matches!(text.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic())
}

/// Characters that compatibility folding turns into separators or dots, such as full-width ones.
/// Whether a name is `.` or `..` for a server that drops blanks, invisible characters and what follows a `;`.
fn hides_dots(text: &str) -> bool {
    let is_dots = |name: &str| matches!(name, "." | "..");
    text.split(['/', '\\']).filter(|name| !is_dots(name)).any(|name| {
        let kept = name.split(';').next().unwrap_or_default().chars();
        is_dots(&kept.filter(|c| *c != ' ' && !is_invisible(*c)).collect::<String>())
    })
}

fn hides_separators(text: &str) -> bool {
    let count = |characters: &mut dyn Iterator<Item = char>| {
        characters.filter(|c| matches!(c, '/' | '\\' | '.' | '%' | '~')).count()
    };
    !text.is_ascii() && count(&mut text.chars()) != count(&mut text.nfkc())
}

pub(super) const PATH_UNDER: &[Case] = &[
    holds("\"/safe\"", "\"/safe/a.txt\""),
    holds("\"/safe\"", "\"/safe\""),
    holds("\"/safe/\"", "\"/safe\""),
    holds("\"/safe\"", "\"//safe///a/./b\""),
    holds("\"/safe\"", "\"/safe/x/../a\""),
    holds("\"/safe\"", "\"/other/../safe/a\""),
    holds("\"/safe\"", "\"/safe/My%20Documents/a\""),
    holds("\"/safe\"", "\"/safe/a\\\\b\""),
    holds("[\"/a\",\"/b\"]", "\"/b/x\""),
    holds("\"/safe\"", "\"/safe/a; b/..x/...\""),
    holds("\"/\"", "\"/etc/passwd\""),
    fails("\"/safe\"", "\"/safe-not/a\""),
    fails("\"/safe\"", "\"/etc/passwd\""),
    fails("\"/safe\"", "\"/safe/../etc/passwd\""),
    fails("\"/safe\"", "\"/safe/../../../etc/passwd\""),
    fails("\"/safe\"", "\"/../etc\""),
    unclear("\"/safe\"", "\"/safe/..;/etc/passwd\""),
    unclear("\"/safe\"", "\"/safe/..;x=1/etc/passwd\""),
    unclear("\"/safe\"", "\"/safe/.. /etc/passwd\""),
    unclear("\"/safe\"", "\"/safe/ ../etc/passwd\""),
    unclear("\"/safe\"", "\"/safe/..\\u200b/etc/passwd\""),
    unclear("\"/safe\"", "\"/safe/.\\u00ad./etc/passwd\""),
    unclear("\"/safe\"", "\"/safe/..%3b/etc/passwd\""),
    unclear("\"/safe\"", "\"/safe/..%2f..%2fetc/passwd\""),
    unclear("\"/safe\"", "\"/safe/%2e%2e/etc/passwd\""),
    unclear("\"/safe\"", "\"/safe/%252e%252e/etc/passwd\""),
    unclear("\"/safe\"", "\"/safe/%25252e%25252e/etc/passwd\""),
    unclear("\"/etc\"", "\"/safe/%2e%2e/etc/passwd\""),
    unclear("\"/safe\"", "\"/safe/%252525252e%252525252e/x\""),
    unclear("\"/safe\"", "\"/safe/..\\\\..\\\\etc\""),
    unclear("\"/safe\"", "\"\\\\safe\\\\a\""),
    unclear("\"/safe\"", "\"/etc/\\\\../../safe/x\""),
    unclear("\"/safe\"", "\"/safe/%c0%ae%c0%ae/etc\""),
    unclear("\"/safe\"", "\"/safe/a\\u0000.txt\""),
    unclear("\"/safe\"", "\"/safe/%00\""),
    unclear("\"/safe\"", "\"/safe/\\uff0e\\uff0e/etc\""),
    unclear("\"/safe\"", "\"a.txt\""),
    unclear("\"/etc\"", "\"../../etc/passwd\""),
    unclear("\"/etc\"", "\"~/x\""),
    unclear("\"/home/me/.ssh\"", "\"~/.ssh/id_rsa\""),
    unclear("\"/etc\"", "\"file:///etc/passwd\""),
    unclear("\"/Users/me/.ssh\"", "\"/users/me/.SSH/id\""),
    unclear("\"/safe\"", "\"\""),
    holds("\"notes\"", "\"notes/today.md\""),
    holds("\"notes\"", "\"./notes/x\""),
    holds("\".\"", "\"anything/at/all\""),
    fails("\"notes\"", "\"other/x\""),
    unclear("\"notes\"", "\"../notes/x\""),
    unclear("\".\"", "\"/etc/passwd\""),
    unclear("\".\"", "\"file:/etc/passwd\""),
    holds("\"~/notes\"", "\"~/notes/x\""),
    fails("\"~/notes\"", "\"~/other\""),
    unclear("\"~/notes\"", "\"~root/notes\""),
    holds("\"C:\\\\Users\\\\me\"", "\"c:/users/ME/docs\""),
    holds("\"C:/Users/me\"", "\"C:\\\\Users\\\\me\\\\docs\""),
    fails("\"C:\\\\Users\\\\me\"", "\"C:\\\\Users\\\\me\\\\..\\\\you\""),
    fails("\"C:\\\\Users\\\\me\"", "\"D:\\\\Users\\\\me\""),
    holds("\"C:\\\\Secrets\"", "\"C:\\\\Secrets. \\\\x\""),
    unclear("\"C:\\\\Secrets\"", "\"C:Secrets\\\\x\""),
    unclear("\"C:\\\\Secrets\"", "\"\\\\Secrets\\\\x\""),
    unclear("\"C:\\\\Secrets\"", "\"\\\\\\\\?\\\\C:\\\\Secrets\\\\x\""),
    unclear("\"C:\\\\Secrets\"", "\"C:\\\\SECRET~1\\\\x\""),
    unclear("\"C:\\\\Secrets\"", "\"C:\\\\x\\\\y:stream\""),
    holds("\"\\\\\\\\server\\\\share\"", "\"\\\\\\\\SERVER\\\\share\\\\x\""),
    fails("\"\\\\\\\\server\\\\share\"", "\"\\\\\\\\server\\\\other\\\\x\""),
    unclear("\"/safe\"", "[\"/safe/a\"]"),
    unclear("\"/safe\"", "5"),
    unclear("\"/safe\"", "null"),
];
