//! The settings of a measured gate, and how the benchmark names them in its rows.

/// The settings that a measured gate runs with.
#[derive(Clone, Copy)]
pub(super) struct GateSettings {
    durability: &'static str,
    busy_poll_us_max: u64,
}

/// The defaults, busy-polling on, and rows on disk before each call leaves.
pub(super) const PROCESS: GateSettings =
    GateSettings { durability: "process", busy_poll_us_max: 0 };
pub(super) const PROCESS_BUSY_POLL: GateSettings =
    GateSettings { busy_poll_us_max: 400, ..PROCESS };
pub(super) const POWER: GateSettings = GateSettings { durability: "power", ..PROCESS };

impl GateSettings {
    pub(super) fn text(self) -> String {
        let GateSettings { durability, busy_poll_us_max } = self;
        format!("durability = \"{durability}\"\n[limits]\nbusy_poll_us_max = {busy_poll_us_max}\n")
    }

    pub(super) fn label(self) -> String {
        let busy_poll = if self.busy_poll_us_max > 0 { "on" } else { "off" };
        format!("durability = \"{}\", busy-polling {busy_poll}", self.durability)
    }
}
