//! `cargo xtask docs`: the program prints the reference pages itself, so they cannot go stale.
//! `--check` compares instead of writing.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// The pages: their name in the program, and their file.
const PAGES: &[(&str, &str)] = &[
    ("cli", "cli.md"),
    ("policy", "policy.md"),
    ("policy-schema", "policy.schema.json"),
    ("settings", "settings.md"),
    ("audit", "audit.md"),
    ("patterns", "attack-patterns.md"),
];

pub(crate) fn docs(root: &Path, check: bool) -> Result<bool> {
    let folder = root.join("docs/reference");
    fs::create_dir_all(&folder)?;
    let mut same = true;
    for (name, file) in PAGES {
        let page = printed(root, name)?;
        let path = folder.join(file);
        if !check {
            fs::write(&path, page).with_context(|| format!("cannot write `{file}`"))?;
            println!("docs/reference/{file}");
        } else if let Some(line) =
            first_difference(&page, &fs::read_to_string(&path).unwrap_or_default())
        {
            println!(
                "docs/reference/{file}:{line}: not what the program says; run `cargo xtask docs`"
            );
            same = false;
        }
    }
    Ok(same)
}

fn printed(root: &Path, name: &str) -> Result<String> {
    let output = crate::cargo()
        .current_dir(root)
        .args(["run", "--quiet", "--package", "tollgate", "--", "__reference", name])
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!("`tollgate __reference {name}` failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8(output.stdout).context("a reference page is not UTF-8")
}

/// The first line, counted from one, where the two differ.
fn first_difference(a: &str, b: &str) -> Option<usize> {
    if a == b {
        return None;
    }
    let same = a.lines().zip(b.lines()).take_while(|(x, y)| x == y).count();
    Some(same + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_differs_is_named() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some(2));
        assert_eq!(first_difference("a\n", "a\nb\n"), Some(2));
    }
}
