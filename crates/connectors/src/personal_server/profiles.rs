//! The profiles of the personal server: all tools, tools that only read what is harmless, or next to none.

use super::MEMBERS;
use crate::connector::ToolProfile;

const MINIMAL: &[&str] = &["test_connection", "get_personalization_status"];

pub(super) const ALL: &[ToolProfile] = &[
    ToolProfile {
        name: "full",
        about: "everything; what is shown unless another is chosen",
        holds: |_| true,
    },
    ToolProfile { name: "safe", about: "reads little and changes nothing", holds: is_safe },
    ToolProfile {
        name: "minimal",
        about: "says that it answers and what is connected",
        holds: |tool| MINIMAL.contains(&tool),
    },
];

fn is_safe(tool: &str) -> bool {
    MINIMAL.contains(&tool) || MEMBERS.iter().any(|member| member.part.safe_tools.contains(&tool))
}

#[cfg(test)]
mod tests {
    use super::super::CONNECTOR;
    use super::*;

    #[test]
    fn each_profile_has_its_tools() {
        let tools = CONNECTOR.tools;
        let count =
            |profile: &ToolProfile| tools.iter().filter(|t| (profile.holds)(t.name)).count();
        let counts: Vec<usize> = ALL.iter().map(count).collect();
        let safe: usize = MEMBERS.iter().map(|member| member.part.safe_tools.len()).sum();
        assert_eq!(counts, [tools.len(), MINIMAL.len() + safe, MINIMAL.len()]);
        let mut safe = tools.iter().filter(|tool| is_safe(tool.name));
        assert!(safe.all(|tool| tool.effect == crate::Effect::Reads));
    }

    #[test]
    fn a_safe_tool_exists() {
        for name in MEMBERS.iter().flat_map(|member| member.part.safe_tools) {
            assert!(CONNECTOR.tool(name).is_some(), "{name}");
        }
    }

    #[test]
    fn a_profile_is_found_by_its_name() {
        for (word, name) in [
            ("full", Some("full")),
            (" Safe ", Some("safe")),
            ("minimal", Some("minimal")),
            ("", None),
            ("safest", None),
        ] {
            assert_eq!(CONNECTOR.profile(word).map(|profile| profile.name), name, "{word}");
        }
    }
}
