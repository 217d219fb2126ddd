//! Knows tool definitions: what kind of act each one is, what it is exposed to, what is hidden in it,
//! what changed since it was pinned, and the policy we recommend.
//! Everything here is a plain function of the definition; nothing is read, asked or remembered.

pub mod assess;
pub mod classify;
pub mod drift;
pub mod html;
pub mod markdown;
pub mod patterns;
pub mod pins;
pub mod poison;
pub mod recommend;
pub mod sarif;
pub mod slug;
pub mod view;
