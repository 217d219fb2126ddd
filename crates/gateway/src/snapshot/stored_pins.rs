//! Pins as the registry stores them.

use store::registry::{self, Registry};

use crate::upstream::pins::Pins;

/// The current pins of a server in the registry.
pub(crate) fn pins_of(server: &str, registry: &Registry) -> Pins {
    pins_and_offers(server, registry).0
}

/// The pins, and the capabilities that the server declared, if they were recorded.
pub(super) fn pins_and_offers(server: &str, registry: &Registry) -> (Pins, Option<String>) {
    let read = || -> Result<_, registry::RegistryError> {
        Ok((registry.pins(server)?, registry.tool_sets(server)?))
    };
    match read() {
        Ok((pins, sets)) => (Pins::of(server, &pins, &sets), sets.offers),
        Err(error) => {
            tracing::error!(server, %error, "cannot read the pins; checking the tools again");
            (Pins::default(), None)
        }
    }
}
