//! Noise for tests.

/// A number from −1 to 1 that depends on `stream` and `n` without a pattern.
pub(crate) fn noise(stream: u64, n: i32) -> f64 {
    let mixed =
        u64::from(n.cast_unsigned()).wrapping_add(stream << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let bits = u32::try_from((mixed ^ (mixed >> 31)) >> 32).unwrap_or(0);
    f64::from(bits) / f64::from(u32::MAX) * 2.0 - 1.0
}
