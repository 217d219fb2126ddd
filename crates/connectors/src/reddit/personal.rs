//! Reddit in the `personal` server and in `tollgate personal`.

use crate::connector::{CommandOption, Personal, PersonalCommand};

pub(super) const PERSONAL: Personal = Personal {
    position: 5,
    safe_tools: &["test_reddit_credentials", "get_reddit_config"],
    about: "Reddit: credentials, token-status, subreddits",
    commands: &[
        PersonalCommand::credentials("Check the login with the service"),
        PersonalCommand::tool(
            "token-status",
            "Status of the login",
            "get_reddit_token_status",
            &[],
        ),
        PersonalCommand::tool(
            "subreddits",
            "What you are subscribed to",
            "get_user_subreddits",
            &[CommandOption::limit()],
        ),
    ],
};
