//! People as the team's issuer knows them. Whom an admin added keeps the role that the admin gave; everyone else
//! needs the mapping of `tollgate.toml` at each sign-in.

use rusqlite::{Connection, OptionalExtension as _};

use super::names::check_label;
use super::people::{self, BrowserSecret, OWNER, Person, Role};
use super::sessions::{self, SignInMethod};
use super::{Registry, RegistryError};
use crate::ledger::Note;

/// Who the issuer says is signing in, and what the mapping says about it.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    pub issuer: &'a str,
    pub subject: &'a str,
    /// Only an e-mail that the issuer verified, in lower case.
    pub email: Option<&'a str>,
    /// The role that the mapping gives, if it admits this identity.
    pub mapped: Option<Role>,
}

/// The result of a sign-in at the issuer.
pub enum IdentitySignIn {
    SignedIn(Person, BrowserSecret),
    /// No admin added this identity, and the mapping does not admit it.
    Unknown,
    /// The e-mail belongs to a person who signed in before as another subject.
    OtherSubject,
    /// The person's name is not usable, or taken by a person with another sign-in.
    NameTaken,
}

/// What is done before the session begins.
enum Step {
    /// The person as it is, or with the subject bound to it.
    Admit(Person),
    Refuse(IdentitySignIn),
}

impl Registry {
    /// Signs in a person whom the issuer vouched for.
    pub fn sign_in_with_identity(
        &self,
        identity: &Identity<'_>,
        browser: &str,
        now_us: i64,
    ) -> Result<IdentitySignIn, RegistryError> {
        let cookie = self.browser_secret("session_")?;
        self.write(|db| {
            let person = match self.step(db, identity, now_us)? {
                Step::Refuse(refused) => return Ok(refused),
                Step::Admit(person) => person,
            };
            let begun = (SignInMethod::Issuer, browser);
            sessions::begin(db, &person.name, &cookie, begun, now_us)?;
            Ok(IdentitySignIn::SignedIn(person, cookie))
        })
    }

    fn step(
        &self,
        db: &rusqlite::Transaction<'_>,
        identity: &Identity<'_>,
        now_us: i64,
    ) -> Result<Step, RegistryError> {
        let subject = [identity.issuer, identity.subject];
        if let Some(person) = by(db, "issuer = ?1 AND subject = ?2", &subject)? {
            return self.known_again(db, person, identity.mapped, now_us);
        }
        let email = identity.email.map(str::to_ascii_lowercase);
        if let Some(email) = &email
            && let Some(person) = by(db, "email = ?1", &[email])?
        {
            if person.has_subject {
                return Ok(Step::Refuse(IdentitySignIn::OtherSubject));
            }
            bind(db, &person.name, identity)?;
            self.note(db, "person_bound", &person.name, "first sign-in at the issuer", now_us)?;
            return Ok(Step::Admit(people::known(db, &person.name)?));
        }
        let Some(role) = identity.mapped else {
            return Ok(Step::Refuse(IdentitySignIn::Unknown));
        };
        let name = email.as_deref().unwrap_or(identity.subject);
        // The owner is the one who runs the gate, whatever an issuer calls its people.
        let is_reserved = name == OWNER || check_label(name).is_err();
        if is_reserved || people::find(db, name)?.is_some() {
            return Ok(Step::Refuse(IdentitySignIn::NameTaken));
        }
        people::insert(db, name, role, now_us)?;
        let set = "UPDATE people SET is_mapped = 1, email = ?2 WHERE name = ?1";
        db.execute(set, (name, &email))?;
        bind(db, name, identity)?;
        self.note(db, "person_admitted", name, role.as_str(), now_us)?;
        Ok(Step::Admit(people::known(db, name)?))
    }

    /// A person who signed in before. The mapping decides again about those whom it admitted.
    fn known_again(
        &self,
        db: &rusqlite::Transaction<'_>,
        person: Person,
        mapped: Option<Role>,
        now_us: i64,
    ) -> Result<Step, RegistryError> {
        if !person.is_mapped {
            return Ok(Step::Admit(person));
        }
        let Some(role) = mapped else {
            sessions::end_all(db, &person.name)?;
            self.note(db, "signed_out_everywhere", &person.name, "no longer admitted", now_us)?;
            return Ok(Step::Refuse(IdentitySignIn::Unknown));
        };
        if role != person.role {
            let set = "UPDATE people SET role = ?2 WHERE name = ?1";
            db.execute(set, (&person.name, role.as_str()))?;
            let words = format!("{} to {}", person.role.as_str(), role.as_str());
            self.note(db, "person_role", &person.name, &words, now_us)?;
        }
        Ok(Step::Admit(Person { role, ..person }))
    }

    fn note(
        &self,
        db: &rusqlite::Transaction<'_>,
        act: &str,
        about: &str,
        words: &str,
        now_us: i64,
    ) -> Result<(), RegistryError> {
        self.store_act(db, &Note { act, by: &self.actor, about, words }, now_us)
    }
}

fn by(db: &Connection, condition: &str, values: &[&str]) -> Result<Option<Person>, RegistryError> {
    let select = format!("SELECT {} FROM people p WHERE {condition}", people::COLUMNS);
    let values = rusqlite::params_from_iter(values);
    Ok(db.query_row(&select, values, people::person_of).optional()?)
}

fn bind(db: &Connection, name: &str, identity: &Identity<'_>) -> Result<(), RegistryError> {
    let set = "UPDATE people SET issuer = ?2, subject = ?3 WHERE name = ?1";
    db.execute(set, (name, identity.issuer, identity.subject))?;
    Ok(())
}
