//! The skills of one server as its entries describe them: which files belong to which skill, and their digests.

use std::collections::HashMap;
use std::sync::Arc;

use catalog::pins::{Fingerprint, canonical_definition, fingerprint_of_bytes};
use catalog::skills::{
    MAIN_FILE, frontmatter_mismatch, is_plain, is_skill_uri, name_of, name_of_unknown,
};
use policy::json::{Bounds, Doc, Kind, Value};
use policy::{Definition, Subject};
use store::registry::PinState;

/// The extension that a server with skills declares.
pub(crate) const EXTENSION: &str = mcp::SKILLS;
/// What the gate notes of a server that also reads directories.
pub(crate) const DIRECTORY_READ: &str = "io.modelcontextprotocol/skills:directoryRead";
/// Limits of the extension for one skill.
const FILES_MAX: usize = 512;
const BYTES_MAX: u64 = 16 << 20;
/// Skills that are kept of one server.
pub(crate) const SKILLS_MAX: usize = 1_000;

/// The skills of a server that are known from `skills/list` and `skills/get`, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct SkillBook {
    skills: HashMap<String, Arc<Skill>>,
    /// Whether the whole list was read.
    is_read: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Skill {
    /// The URI of its `SKILL.md`.
    pub(crate) uri: String,
    /// The entry in canonical form, as it is pinned.
    pub(crate) entry: String,
    pub(crate) files: SkillFiles,
    pub(crate) state: PinState,
}

#[derive(Clone, Debug)]
pub(crate) enum SkillFiles {
    Listed(HashMap<String, FileDigest>),
    /// The server publishes no digests.
    Dynamic,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileDigest {
    sha256: Fingerprint,
    size: u64,
}

impl FileDigest {
    pub(crate) fn fits(&self, content: &[u8]) -> bool {
        u64::try_from(content.len()) == Ok(self.size)
            && fingerprint_of_bytes(content) == self.sha256
    }
}

impl Skill {
    /// A skill from an entry of `skills/list` or `skills/get`, or what is wrong with the entry.
    pub(crate) fn of(entry: Value<'_>) -> Result<Skill, &'static str> {
        let uri = entry.get("uri").and_then(Value::as_str).ok_or("it has no `uri`")?;
        let name = name_of(&uri).ok_or("its `uri` is not the plain URI of a `SKILL.md`")?;
        let front = entry.get("frontmatter").ok_or("it has no `frontmatter`")?;
        let said = |key: &str| front.get(key).and_then(Value::as_str);
        if said("name").as_deref() != name.rsplit('/').next() {
            return Err("its `name` is not the last part of its path");
        }
        said("description").ok_or("it has no `description`")?;
        let resources = entry.get("resources").ok_or("it has no `resources`")?;
        let files = match resources.kind() {
            Kind::Array => listed(&uri, resources)?,
            _ if resources.as_str().as_deref() == Some("dynamic") => SkillFiles::Dynamic,
            _ => return Err("its `resources` are neither a list nor `dynamic`"),
        };
        Ok(Skill {
            entry: canonical_definition(entry),
            uri: uri.into_owned(),
            files,
            state: PinState::New,
        })
    }

    /// As policies name it.
    pub(crate) fn name(&self) -> &str {
        name_of(&self.uri).unwrap_or(&self.uri)
    }

    /// The URI of its folder.
    fn root(&self) -> &str {
        self.uri.strip_suffix(MAIN_FILE).unwrap_or(&self.uri)
    }

    /// Whether a file or a folder can be part of it, by its place.
    fn contains(&self, uri: &str) -> bool {
        uri.strip_prefix(self.root()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    pub(crate) fn definition(&self) -> Definition {
        match self.state {
            PinState::Accepted | PinState::Gone => Definition::Unchanged,
            PinState::Changed => Definition::Changed,
            PinState::New => Definition::New,
            PinState::Conflict => Definition::Conflict,
        }
    }

    /// Whether a content of a file is the one that the entry describes. Nothing is known of dynamic files.
    pub(crate) fn verifies(&self, uri: &str, content: &[u8]) -> bool {
        match &self.files {
            SkillFiles::Listed(files) => files.get(uri).is_some_and(|digest| digest.fits(content)),
            SkillFiles::Dynamic => self.contains(uri),
        }
    }

    /// What is wrong with this file, if it is the one with the frontmatter that the entry repeats.
    pub(crate) fn frontmatter_mismatch(&self, uri: &str, content: &[u8]) -> Option<&'static str> {
        if uri != self.uri {
            return None;
        }
        let entry = Doc::read(self.entry.as_bytes(), &Bounds::ANSWER).ok();
        let expected = entry.as_ref().and_then(|entry| entry.root().get("frontmatter"));
        match (std::str::from_utf8(content), expected) {
            (Ok(text), Some(expected)) => frontmatter_mismatch(text, expected),
            _ => Some("its `SKILL.md` is not text"),
        }
    }

    /// Whether its entry lists this file, or a file in this folder.
    pub(crate) fn lists(&self, uri: &str) -> bool {
        let SkillFiles::Listed(files) = &self.files else { return true };
        let is_in_folder =
            |file: &String| file.strip_prefix(uri).is_some_and(|rest| rest.starts_with('/'));
        files.contains_key(uri) || files.keys().any(is_in_folder)
    }
}

fn listed(uri: &str, resources: Value<'_>) -> Result<SkillFiles, &'static str> {
    let root = uri.strip_suffix(MAIN_FILE).unwrap_or(uri);
    let mut files = HashMap::new();
    let mut bytes = 0_u64;
    for file in resources.items() {
        let at = file.get("uri").and_then(Value::as_str).ok_or("a file has no `uri`")?;
        let inside = at.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'));
        if !inside || !is_plain(&at) {
            return Err("a file is outside of its folder");
        }
        let digest = file.get("digest").and_then(Value::as_str);
        let sha256 = digest.as_deref().and_then(|digest| digest.strip_prefix("sha256:"));
        let sha256 =
            sha256.and_then(Fingerprint::from_hex).ok_or("a file has no `sha256` digest")?;
        let size = file.get("size").and_then(Value::as_number).and_then(|size| size.parse().ok());
        let size: u64 = size.ok_or("a file has no `size`")?;
        bytes = bytes.saturating_add(size);
        if files.insert(at.into_owned(), FileDigest { sha256, size }).is_some() {
            return Err("it lists a file twice");
        }
    }
    if !files.contains_key(uri) {
        return Err("its `resources` lack its `SKILL.md`");
    }
    if files.len() > FILES_MAX || bytes > BYTES_MAX {
        return Err("it has more than 512 files or 16 MiB");
    }
    Ok(SkillFiles::Listed(files))
}

impl SkillBook {
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Skill>> {
        self.skills.get(name)
    }

    pub(crate) fn is_read(&self) -> bool {
        self.is_read
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Skill>> {
        self.skills.values()
    }

    /// The skill that a file or folder belongs to: of nested ones, the innermost.
    pub(crate) fn skill_of(&self, uri: &str) -> Option<&Arc<Skill>> {
        if !is_plain(uri) {
            return None;
        }
        let found = self.skills.values().filter(|skill| skill.contains(uri));
        found.max_by_key(|skill| skill.uri.len())
    }

    /// What the policy judges a URI as. Files of a skill are judged as the skill, wherever they are named.
    pub(crate) fn subject_of<'n>(&'n self, uri: &'n str) -> Subject<'n> {
        match self.skill_of(uri) {
            Some(skill) => Subject::Skill(skill.name()),
            None if is_skill_uri(uri) => Subject::Skill(name_of_unknown(uri)),
            None => Subject::Resource(uri),
        }
    }

    /// With these skills; with `is_whole` the others are gone.
    pub(crate) fn with(&self, found: Vec<Skill>, is_whole: bool) -> SkillBook {
        let mut skills = if is_whole { HashMap::new() } else { self.skills.clone() };
        for skill in found {
            if skills.len() < SKILLS_MAX || skills.contains_key(skill.name()) {
                skills.insert(skill.name().to_owned(), Arc::new(skill));
            }
        }
        SkillBook { skills, is_read: self.is_read || is_whole }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn a_uri_of_skills_is_never_judged_as_a_resource() {
        let book = SkillBook::default();
        for (uri, expected) in [
            ("skill://refunds/SKILL.md", Subject::Skill("refunds")),
            ("skill://refunds/notes.txt", Subject::Skill("refunds/notes.txt")),
            ("SKILL://refunds/SKILL.md", Subject::Skill("SKILL://refunds/SKILL.md")),
            ("file:///refunds/SKILL.md", Subject::Resource("file:///refunds/SKILL.md")),
        ] {
            assert_eq!(book.subject_of(uri), expected, "{uri}");
        }
    }

    fn skill(entry: &serde_json::Value) -> Result<Skill, &'static str> {
        let text = entry.to_string();
        let doc = Doc::read(text.as_bytes(), &Bounds::ANSWER).unwrap();
        Skill::of(doc.root())
    }

    fn entry(uri: &str, name: &str, files: &[&str]) -> serde_json::Value {
        let digest = format!("sha256:{}", "0".repeat(64));
        let file = |uri: &&str| json!({ "uri": uri, "digest": digest, "size": 1 });
        let files: Vec<_> = files.iter().map(file).collect();
        json!({ "uri": uri, "frontmatter": { "name": name, "description": "d" }, "resources": files })
    }

    #[test]
    fn an_entry_that_is_incomplete_or_leads_elsewhere_is_no_skill() {
        let (uri, root) = ("skill://a/b/SKILL.md", "skill://a/b");
        let file = format!("{root}/x.md");
        assert_eq!(skill(&entry(uri, "b", &[uri, &file])).unwrap().name(), "a/b");
        let outside = ["skill://a/c.md", "skill://a/b/../c.md", "skill://a/bc.md", "file:///etc/x"];
        for outside in outside {
            assert!(skill(&entry(uri, "b", &[uri, outside])).is_err(), "{outside}");
        }
        for bad in [
            entry(uri, "a", &[uri]),
            entry(uri, "b", &[&file]),
            entry(uri, "b", &[]),
            entry(uri, "b", &[uri, uri]),
            entry("skill://b/x.md", "b", &["skill://b/x.md"]),
        ] {
            assert!(skill(&bad).is_err(), "{bad}");
        }
        for (key, value) in [
            ("resources", json!("static")),
            ("resources", json!([{ "uri": uri, "digest": "md5:0", "size": 1 }])),
            (
                "resources",
                json!([{ "uri": uri, "digest": format!("sha256:{}", "A".repeat(64)), "size": 1 }]),
            ),
            ("frontmatter", json!({ "name": "b" })),
        ] {
            let mut bad = entry(uri, "b", &[uri]);
            bad.as_object_mut().unwrap().insert(key.to_owned(), value);
            assert!(skill(&bad).is_err(), "{bad}");
        }
        let many: Vec<String> = (0..512).map(|n| format!("{root}/{n}.md")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).chain([uri]).collect();
        assert!(skill(&entry(uri, "b", &many)).is_err());
    }

    #[test]
    fn a_file_belongs_to_the_innermost_skill_and_never_by_a_detour() {
        let outer = skill(&entry("skill://a/SKILL.md", "a", &["skill://a/SKILL.md"])).unwrap();
        let inner = skill(&entry("skill://a/b/SKILL.md", "b", &["skill://a/b/SKILL.md"])).unwrap();
        let book = SkillBook::default().with(vec![outer, inner], true);
        let of = |uri: &str| book.skill_of(uri).map(|skill| skill.name().to_owned());
        assert_eq!(of("skill://a/x.md").as_deref(), Some("a"));
        assert_eq!(of("skill://a").as_deref(), Some("a"));
        assert_eq!(of("skill://a/b/x.md").as_deref(), Some("a/b"));
        for detour in ["skill://ab/x.md", "skill://a/../c", "skill://a/b/..", "skill://a/%2E%2E/c"]
        {
            assert_eq!(of(detour), None, "{detour}");
        }
    }
}
