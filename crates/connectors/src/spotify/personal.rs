//! Spotify in the `personal` server and in `tollgate personal`.

use crate::connector::{CommandOption, Personal, PersonalCommand};

pub(super) const PERSONAL: Personal = Personal {
    position: 4,
    safe_tools: &["test_spotify_credentials", "get_spotify_config"],
    about: "Spotify: credentials, token-status, recent",
    commands: &[
        PersonalCommand::credentials("Check the login with the service"),
        PersonalCommand::tool(
            "token-status",
            "Status of the login, and when the consent expires",
            "get_spotify_token_status",
            &[],
        ),
        PersonalCommand::tool(
            "recent",
            "The latest plays",
            "get_user_recently_played",
            &[CommandOption::limit()],
        ),
    ],
};
