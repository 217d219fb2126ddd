//! Steam in the `personal` server and in `tollgate personal`.

use crate::connector::{CommandOption, DemoCall, OptionValue, Personal, PersonalCommand};

pub(super) const PERSONAL: Personal = Personal {
    position: 1,
    safe_tools: &[
        "test_steam_credentials",
        "get_steam_config",
        "get_steam_library",
        "get_steam_recent_activity",
        "get_steam_profile",
    ],
    about: "Steam: credentials, library, profile",
    commands: &[
        PersonalCommand::credentials("Check the key with the service"),
        PersonalCommand::tool("library", "Games and hours", "get_steam_library", &[STEAMID]),
        PersonalCommand::tool(
            "profile",
            "Name, status and current game",
            "get_steam_profile",
            &[STEAMID],
        ),
    ],
};

const STEAMID: CommandOption = CommandOption {
    field: "steamid",
    long: "steamid",
    short: None,
    value_name: "ID",
    about: "Whose: SteamID64, profile address or the name in it [default: yours]",
    value: OptionValue::Optional,
};

pub(super) const DEMO: DemoCall =
    DemoCall { tool: "my_steam_recent_activity", arguments: "{}", needs_mirror: false };
