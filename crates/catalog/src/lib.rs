//! Analyses tool definitions: category, risk, attack patterns, poisoned text, drift since a pin, and the
//! recommended policy. Also renders the catalogue pages. Pure functions of their arguments: no IO, no state.

pub mod assess;
pub mod classify;
pub mod drift;
pub mod html;
pub mod known_servers;
pub mod markdown;
pub mod patterns;
pub mod pins;
pub mod poison;
pub mod recommend;
pub mod sarif;
pub mod skills;
pub mod slug;
pub mod view;
