//! Bilibili in the `personal` server and in `tollgate personal`.

use crate::connector::{CommandOption, OptionValue, Personal, PersonalCommand};

pub(super) const PERSONAL: Personal = Personal {
    position: 3,
    safe_tools: &[
        "test_bilibili_credentials",
        "get_bilibili_config",
        "get_bilibili_user_info",
        "search_bilibili_videos",
        "get_bilibili_video_info",
    ],
    about: "Bilibili: credentials, search, video",
    commands: &[
        PersonalCommand::credentials("Check the cookies with the service"),
        PersonalCommand::tool(
            "search",
            "Bilibili offers no search to programs; says so",
            "search_bilibili_videos",
            &[KEYWORD, PAGE, ORDER],
        ),
        PersonalCommand::tool("video", "One video", "get_bilibili_video_info", &[BVID]),
    ],
};

const KEYWORD: CommandOption = CommandOption {
    field: "keyword",
    long: "keyword",
    short: Some('k'),
    value_name: "KEYWORD",
    about: "What to look for",
    value: OptionValue::Required,
};

const PAGE: CommandOption = CommandOption {
    field: "page",
    long: "page",
    short: None,
    value_name: "N",
    about: "Which page, from 1",
    value: OptionValue::Number("1"),
};

const ORDER: CommandOption = CommandOption {
    field: "order",
    long: "order",
    short: None,
    value_name: "WORD",
    about: "totalrank, click, pubdate, dm or stow",
    value: OptionValue::Text("totalrank"),
};

const BVID: CommandOption = CommandOption {
    field: "bvid",
    long: "bvid",
    short: None,
    value_name: "ID",
    about: "The id of the video, or its address",
    value: OptionValue::Required,
};
