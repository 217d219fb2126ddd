//! MCP bundles (`.mcpb`): a ZIP with a manifest and the files of a server. Reads one within bounds, and says what it
//! would run.

pub(crate) mod config;
pub(crate) mod manifest;
pub(crate) mod unpack;
mod variables;

pub(crate) use manifest::Manifest;
pub(crate) use unpack::Bundle;
pub(crate) use variables::{BundlePaths, target};
