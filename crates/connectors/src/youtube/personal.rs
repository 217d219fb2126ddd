//! YouTube in the `personal` server and in `tollgate personal`.

use crate::connector::{CommandOption, OptionValue, Personal, PersonalCommand};

pub(super) const PERSONAL: Personal = Personal {
    position: 2,
    safe_tools: &[
        "test_youtube_credentials",
        "get_youtube_config",
        "search_youtube_videos",
        "get_video_details",
        "get_channel_info",
        "get_trending_videos",
        "get_youtube_token_status",
    ],
    about: "YouTube: credentials, search, trending",
    commands: &[
        PersonalCommand::credentials("Check the login, or else the key, with the service"),
        PersonalCommand::tool(
            "search",
            "Search videos; Google allows 100 a day",
            "search_youtube_videos",
            &[QUERY, MAX_RESULTS],
        ),
        PersonalCommand::tool(
            "trending",
            "The most popular videos of a region",
            "get_trending_videos",
            &[REGION, MAX_RESULTS],
        ),
    ],
};

const QUERY: CommandOption = CommandOption {
    field: "query",
    long: "query",
    short: Some('q'),
    value_name: "QUERY",
    about: "What to look for",
    value: OptionValue::Required,
};

const MAX_RESULTS: CommandOption = CommandOption {
    field: "max_results",
    long: "max-results",
    short: None,
    value_name: "N",
    about: "How many",
    value: OptionValue::Number("10"),
};

const REGION: CommandOption = CommandOption {
    field: "region_code",
    long: "region-code",
    short: None,
    value_name: "CODE",
    about: "Two letters, such as DE",
    value: OptionValue::Text("US"),
};
