//! How much of the personal tools is shown: everything, what harms and tells little, or next to
//! nothing.

/// A named selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    Full,
    Safe,
    Minimal,
}

const MINIMAL: &[&str] = &["test_connection", "get_personalization_status"];

/// What is safe besides the minimal ones.
const SAFE: &[&str] = &[
    "test_steam_credentials",
    "get_steam_config",
    "get_steam_library",
    "get_steam_recent_activity",
    "get_steam_profile",
    "test_youtube_credentials",
    "get_youtube_config",
    "search_youtube_videos",
    "get_video_details",
    "get_channel_info",
    "get_trending_videos",
    "get_youtube_token_status",
    "test_bilibili_credentials",
    "get_bilibili_config",
    "get_bilibili_user_info",
    "search_bilibili_videos",
    "get_bilibili_video_info",
    "test_spotify_credentials",
    "get_spotify_config",
    "test_reddit_credentials",
    "get_reddit_config",
];

impl Profile {
    pub const ALL: [Profile; 3] = [Profile::Full, Profile::Safe, Profile::Minimal];

    pub fn name(self) -> &'static str {
        match self {
            Profile::Full => "full",
            Profile::Safe => "safe",
            Profile::Minimal => "minimal",
        }
    }

    pub fn named(word: &str) -> Option<Profile> {
        let word = word.trim();
        Profile::ALL.into_iter().find(|profile| profile.name().eq_ignore_ascii_case(word))
    }

    /// Is the tool of this name shown?
    pub fn holds(self, tool: &str) -> bool {
        match self {
            Profile::Full => true,
            Profile::Safe => MINIMAL.contains(&tool) || SAFE.contains(&tool),
            Profile::Minimal => MINIMAL.contains(&tool),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::service::TOOLS;
    use super::*;

    #[test]
    fn profiles_hold_as_many_tools_as_they_say() {
        let count = |profile: Profile| TOOLS.iter().filter(|tool| profile.holds(tool.name)).count();
        let counts = Profile::ALL.map(count);
        assert_eq!(counts, [90, 23, 2]);
        let safe = TOOLS.iter().filter(|tool| Profile::Safe.holds(tool.name));
        assert!(safe.into_iter().all(|tool| tool.effect == crate::Effect::Reads));
    }

    #[test]
    fn a_profile_goes_by_its_name() {
        for (word, profile) in [
            ("full", Some(Profile::Full)),
            (" Safe ", Some(Profile::Safe)),
            ("minimal", Some(Profile::Minimal)),
            ("", None),
            ("safest", None),
        ] {
            assert_eq!(Profile::named(word), profile, "{word}");
        }
    }
}
