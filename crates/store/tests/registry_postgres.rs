//! The tests of the registry again, on a registry that replicas share on Postgres, and those of
//! replicas themselves.
#![allow(clippy::unwrap_used, clippy::duplicate_mod, clippy::indexing_slicing, reason = "tests")]

#[path = "registry_acts.rs"]
mod acts;
#[path = "registry_captures.rs"]
mod captures;
#[path = "registry/copies.rs"]
mod copies;
#[path = "support/fixture.rs"]
mod fixture;
#[path = "registry_grants.rs"]
mod grants;
#[path = "registry_lists.rs"]
mod lists;
#[path = "registry_oauth.rs"]
mod oauth_sign_ins;
#[path = "registry_people.rs"]
mod people;
#[path = "registry_pins.rs"]
mod pins;
#[path = "registry/replicas.rs"]
mod replicas;
#[path = "registry_servers.rs"]
mod servers;
#[path = "registry/shared_files.rs"]
mod shared_files;
#[path = "registry_tasks.rs"]
mod tasks;
