//! One module per page: the view that a template and the JSON twin share, and the forms of the page.

pub(crate) mod accounts;
pub(crate) mod activity;
pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod audit_entry;
pub(crate) mod catalogue;
pub(crate) mod events;
pub(crate) mod grants;
pub(crate) mod health;
pub(crate) mod health_compare;
pub(crate) mod notifications;
pub(crate) mod overview;
pub(crate) mod people;
pub(crate) mod person;
pub(crate) mod policies;
pub(crate) mod problem;
pub(crate) mod server_sign_in;
pub(crate) mod servers;
pub(crate) mod sign_in;
pub(crate) mod stack;
pub(crate) mod tool;
pub(crate) mod tour;
pub(crate) mod your_sign_in;
