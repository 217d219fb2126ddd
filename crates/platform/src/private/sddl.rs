//! Reads the access control lists that Windows writes as text (SDDL): who but the owner may do what. Pure, so that
//! it is tested on every system.

use super::{Access, Others};

/// What the system and its administrators may do is not in the owner's hands; `OW` and `CO` are the owner.
const OURS: &[&str] = &["SY", "BA", "OW", "CO", "S-1-5-18", "S-1-5-32-544", "S-1-3-0", "S-1-3-4"];
/// Every user, or every user who is signed in.
const EVERYONE: &[&str] =
    &["WD", "AU", "BU", "IU", "AN", "BG", "S-1-1-0", "S-1-5-11", "S-1-5-32-545", "S-1-5-4"];
/// Write data, append, delete a child, delete, change the list or the owner.
const WRITE_BITS: u32 = 0x2 | 0x4 | 0x40 | 0x0001_0000 | 0x0004_0000 | 0x0008_0000;
const DELETE_CHILD_BIT: u32 = 0x40;
const ALL_BITS: u32 = 0x001F_01FF;

/// One entry that allows something.
struct Allowed<'a> {
    rights: u32,
    who: &'a str,
}

/// The access that the list in `sddl` gives, for the owner with the identifier `owner`.
pub(super) fn access(sddl: &str, owner: &str) -> Access {
    let Some(list) = list(sddl) else {
        let words = "access for every user".to_owned();
        return Access { words, others: Others::Write, is_ours: false, too_open_for_a_key: true };
    };
    let mut others = Others::Nothing;
    let mut names = Vec::new();
    for entry in allowed(list).filter(|entry| !is_ours(entry.who, owner) && entry.rights != 0) {
        names.push(entry.who);
        let writes = entry.rights & WRITE_BITS != 0 && EVERYONE.contains(&entry.who);
        others = if writes || others == Others::Write { Others::Write } else { Others::Some };
    }
    let is_protected = list.split('(').next().is_some_and(|flags| flags.contains('P'));
    let is_ours = names.is_empty() && is_protected;
    names.dedup();
    let words = match (names.is_empty(), is_ours) {
        (false, _) => format!("access for {}", names.join(", ")),
        (true, true) => "access for its owner only".to_owned(),
        (true, false) => "access that it inherits".to_owned(),
    };
    Access { words, others, is_ours, too_open_for_a_key: others != Others::Nothing }
}

/// Whether every user may remove or rename what is in a folder with this list.
pub(super) fn everyone_may_remove_children(sddl: &str) -> bool {
    list(sddl).is_none_or(|list| {
        allowed(list).any(|e| EVERYONE.contains(&e.who) && e.rights & DELETE_CHILD_BIT != 0)
    })
}

/// The list with its flags; none means that everyone may do everything.
fn list(sddl: &str) -> Option<&str> {
    let list = sddl.split_once("D:")?.1;
    let end = list.find("S:").unwrap_or(list.len());
    list.get(..end).filter(|list| !list.contains("NO_ACCESS_CONTROL"))
}

/// The entries that apply to the object itself.
fn allowed(list: &str) -> impl Iterator<Item = Allowed<'_>> {
    list.split('(').skip(1).filter_map(|entry| {
        let fields: Vec<&str> = entry.split(')').next()?.split(';').collect();
        let (kind, flags) = (fields.first()?, fields.get(1)?);
        // `OA` and the rest do not occur on files; a list that cannot be read is not taken for a private one.
        let for_children_only = pairs(flags).any(|flag| flag == "IO");
        (*kind != "D" && !for_children_only)
            .then(|| Some(Allowed { rights: rights(fields.get(2)?), who: fields.get(5)? }))?
    })
}

fn rights(text: &str) -> u32 {
    if let Some(digits) = text.strip_prefix("0x") {
        return u32::from_str_radix(digits, 16).unwrap_or(ALL_BITS);
    }
    pairs(text).fold(0, |bits, right| {
        bits | match right {
            "FR" | "GR" | "RC" => 0x0012_0089,
            "FX" | "GX" => 0x0012_00A0,
            "FW" | "GW" => 0x0012_0116,
            "SD" => 0x0001_0000,
            "WD" => 0x0004_0000,
            "WO" => 0x0008_0000,
            "DC" => 0x2,
            "LC" => 0x4,
            "DT" => DELETE_CHILD_BIT,
            "CC" | "SW" | "RP" | "WP" | "LO" | "CR" => 0x1,
            // `FA`, `GA`, and what is not known.
            _ => ALL_BITS,
        }
    })
}

fn pairs(text: &str) -> impl Iterator<Item = &str> {
    (0..text.len()).step_by(2).map(|at| text.get(at..at + 2).unwrap_or("?"))
}

fn is_ours(who: &str, owner: &str) -> bool {
    who == owner || OURS.contains(&who)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: &str = "S-1-5-21-1-2-3-1001";

    #[test]
    fn access_lists_name_everyone_but_the_owner() {
        for (sddl, others, is_ours, words) in [
            (
                "D:P(A;OICI;FA;;;S-1-5-21-1-2-3-1001)",
                Others::Nothing,
                true,
                "access for its owner only",
            ),
            ("D:PAI(A;;FA;;;OW)(A;;FA;;;SY)", Others::Nothing, true, "access for its owner only"),
            (
                "D:AI(A;ID;FA;;;SY)(A;ID;FA;;;BA)(A;ID;FA;;;S-1-5-21-1-2-3-1001)",
                Others::Nothing,
                false,
                "access that it inherits",
            ),
            ("D:(A;;FR;;;WD)", Others::Some, false, "access for WD"),
            ("D:(A;;0x1301bf;;;AU)S:(ML;;NW;;;LW)", Others::Write, false, "access for AU"),
            ("D:P(A;;FA;;;S-1-5-21-1-2-3-9)", Others::Some, false, "access for S-1-5-21-1-2-3-9"),
            (
                "D:P(D;;FA;;;WD)(A;OICIIO;FA;;;WD)",
                Others::Nothing,
                true,
                "access for its owner only",
            ),
            ("D:NO_ACCESS_CONTROL", Others::Write, false, "access for every user"),
            ("O:BA", Others::Write, false, "access for every user"),
        ] {
            let too_open_for_a_key = others != Others::Nothing;
            let expected = Access { words: words.to_owned(), others, is_ours, too_open_for_a_key };
            assert_eq!(access(sddl, ME), expected, "{sddl}");
        }
    }

    #[test]
    fn only_a_right_to_delete_children_makes_a_folder_replaceable() {
        for (sddl, expected) in [
            ("D:(A;;FA;;;WD)", true),
            ("D:(A;;DCLCDT;;;BU)", true),
            ("D:(A;;DCLC;;;BU)(A;;FA;;;BA)", false),
            ("D:(A;;0x1200a9;;;BU)", false),
            ("O:BA", true),
        ] {
            assert_eq!(everyone_may_remove_children(sddl), expected, "{sddl}");
        }
    }
}
