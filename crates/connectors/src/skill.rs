//! A skill that a built-in server serves: instructions for a model, with their files.

/// A skill. Its name is the name of its folder.
pub struct Skill {
    pub name: &'static str,
    /// As in the frontmatter of its `SKILL.md`.
    pub description: &'static str,
    pub license: &'static str,
    /// `SKILL.md` first.
    pub files: &'static [SkillFile],
}

pub struct SkillFile {
    /// Below the folder of the skill, with `/`.
    pub path: &'static str,
    pub text: &'static str,
}

impl Skill {
    /// The URI of its folder.
    pub fn root(&self) -> String {
        format!("skill://{}", self.name)
    }

    pub fn uri_of(&self, file: &SkillFile) -> String {
        format!("{}/{}", self.root(), file.path)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::collections::BTreeSet;

    #[test]
    fn an_entry_matches_the_frontmatter_of_its_file() {
        let skills: Vec<_> = crate::ALL.iter().flat_map(|connector| connector.skills).collect();
        assert!(!skills.is_empty());
        for skill in skills {
            let main = skill.files.first().unwrap();
            assert_eq!(main.path, "SKILL.md");
            let front = main.text.strip_prefix("---\n").unwrap().split_once("\n---\n").unwrap().0;
            let said: Vec<(&str, &str)> =
                front.lines().map(|line| line.split_once(": ").unwrap()).collect();
            let expected = [
                ("name", skill.name),
                ("description", skill.description),
                ("license", skill.license),
            ];
            assert_eq!(said, expected);
            let paths: BTreeSet<&str> = skill.files.iter().map(|file| file.path).collect();
            assert_eq!(paths.len(), skill.files.len());
        }
    }

    /// A skill that names a tool that does not exist would send models the wrong way.
    #[test]
    fn a_skill_names_only_tools_that_exist() {
        for connector in crate::ALL.iter() {
            let names: BTreeSet<&str> = connector.tools.iter().map(|tool| tool.name).collect();
            let files = connector.skills.iter().flat_map(|skill| skill.files);
            let prompts = connector.prompts.iter().map(|prompt| prompt.text);
            for text in files.map(|file| file.text).chain(prompts) {
                let words = text.split('`').skip(1).step_by(2);
                let tools = words.filter(|word| word.contains("whoop") && !word.contains(' '));
                for tool in tools {
                    assert!(names.contains(tool), "`{tool}` in {text}");
                }
            }
        }
    }
}
