//! Arguments of the list tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arguments::{IgnoredSecret, Limit, Offset};

/// Spotify's page limit.
pub(super) const PAGE_MAX: usize = 50;
const ITEMS_MAX: usize = 100;

#[derive(Deserialize, JsonSchema)]
pub(super) struct SpotifyPageArgs {
    /// How many to return.
    #[serde(default)]
    pub(super) limit: Limit<PAGE_MAX, PAGE_MAX>,
    /// Where to begin; next_offset of an earlier answer.
    #[serde(default)]
    pub(super) offset: Offset,
    #[serde(default, rename = "access_token")]
    _access_token: IgnoredSecret,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct TopArgs {
    #[schemars(extend("default" = "tracks"))]
    pub(super) item_type: Option<ItemType>,
    /// About four weeks, six months, or a year.
    #[schemars(extend("default" = "medium_term"))]
    pub(super) time_range: Option<TimeRange>,
    /// How many to return.
    #[serde(default)]
    pub(super) limit: Limit<PAGE_MAX, PAGE_MAX>,
    /// Where to begin; next_offset of an earlier answer.
    #[serde(default)]
    pub(super) offset: Offset,
    #[serde(default, rename = "access_token")]
    _access_token: IgnoredSecret,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ItemType {
    #[default]
    Tracks,
    Artists,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(super) enum TimeRange {
    #[serde(rename = "short_term")]
    Short,
    #[default]
    #[serde(rename = "medium_term")]
    Medium,
    #[serde(rename = "long_term")]
    Long,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct ArtistsArgs {
    /// How many to return.
    #[serde(default)]
    pub(super) limit: Limit<PAGE_MAX, PAGE_MAX>,
    /// next_after of an earlier answer.
    pub(super) after: Option<String>,
    #[serde(default, rename = "access_token")]
    _access_token: IgnoredSecret,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct PlaysArgs {
    /// How many to return.
    #[serde(default)]
    pub(super) limit: Limit<PAGE_MAX, PAGE_MAX>,
    /// Only plays before this time, in milliseconds since 1970.
    pub(super) before: Option<i64>,
    /// Only plays after this time, in milliseconds since 1970.
    pub(super) after: Option<i64>,
    #[serde(default, rename = "access_token")]
    _access_token: IgnoredSecret,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct PlaylistArgs {
    /// The playlist's id, URI or address.
    pub(super) playlist_id: String,
    /// How many to return.
    #[serde(default)]
    pub(super) limit: Limit<ITEMS_MAX, ITEMS_MAX>,
    /// Where to begin; next_offset of an earlier answer.
    #[serde(default)]
    pub(super) offset: Offset,
    #[serde(default, rename = "access_token")]
    _access_token: IgnoredSecret,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct SpotifyUserPageArgs {
    /// The user's id.
    pub(super) user_id: String,
    /// How many to return.
    #[serde(default)]
    pub(super) limit: Limit<PAGE_MAX, PAGE_MAX>,
    /// Where to begin; next_offset of an earlier answer.
    #[serde(default)]
    pub(super) offset: Offset,
    #[serde(default, rename = "access_token")]
    _access_token: IgnoredSecret,
}

impl ItemType {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            ItemType::Tracks => "tracks",
            ItemType::Artists => "artists",
        }
    }
}

impl TimeRange {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            TimeRange::Short => "short_term",
            TimeRange::Medium => "medium_term",
            TimeRange::Long => "long_term",
        }
    }
}
