//! How to start our own program: as the helper that refreshes a login, or as the guard of a child.

use std::ffi::OsString;
use std::path::Path;

use connectors::tokens::Helper;

/// The hidden command that refreshes one login.
pub(crate) const REFRESH_WORD: &str = "__refresh";
pub(crate) const HOPS_OPTION: &str = "--hops";
/// How many processes start each other before the refresh.
const HOPS: u32 = 2;

/// How to start the refresh helper for a home. It inherits a store that the environment names.
pub(super) fn refresh_helper(home: &Path, store: Option<&str>) -> Option<Helper> {
    let hops = OsString::from(HOPS.to_string());
    let mut args: Vec<OsString> = vec!["--home".into(), home.into()];
    args.extend(store.into_iter().flat_map(|store| ["--store".into(), store.into()]));
    args.extend([REFRESH_WORD.into(), HOPS_OPTION.into(), hops]);
    Some(Helper { program: platform::programs::own().ok()?, args })
}
