//! Behaviour of the wire as tables and properties.
