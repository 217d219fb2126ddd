//! Skills through the gate: a skill and its files are judged by the path of the skill, its entry is pinned like a
//! tool, and every file that a server returns is compared with the digest in the entry.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use catalog::skills::{is_plain, is_skill_uri, name_of, name_of_unknown};
use policy::json::{Bounds, Doc, Value};
use policy::{Code, Definition, Denial, OnChange, Subject, ToolFacts};
use store::registry::PinState;

use crate::exchange::aggregate::{self, MergedItem, join_all};
use crate::exchange::app_pages::only_owner;
use crate::exchange::call::{IncomingRequest, OwnedSubject, Target};
use crate::exchange::context::RequestContext;
use crate::exchange::in_flight::InFlightCall;
use crate::runtime::Services;
use crate::snapshot::ServerAccess;
use crate::upstream::lists::List;
use crate::upstream::server::Server;
use crate::upstream::skills::{EXTENSION, Skill, SkillFiles};
use mcp::edit::{self, Member};
use mcp::{Era, Method, Named, ProtocolError};

/// Reads the server's skills before they are listed, or a URI of a skill is judged, for the first time.
pub(crate) async fn learn(
    incoming: &IncomingRequest<'_>,
    access: &ServerAccess,
    named: &Named<'_>,
) {
    let is_asked = match named {
        Named::Resource(uri) => is_skill_uri(uri),
        _ => incoming.request.method == Method::SkillsList,
    };
    let server = &access.server;
    if is_asked
        && access.rules.is_some()
        && !server.skills().is_read()
        && server.may_offer(EXTENSION)
    {
        // A server that cannot be read has no known skills, so the request is refused.
        let _ = aggregate::items(incoming, access, List::Skills).await;
    }
}

/// The skill that a URI is judged as, if it is not judged as a resource. A URI of skills that has several readings
/// is refused.
pub(crate) fn judged_name(
    incoming: &IncomingRequest<'_>,
    server: &str,
    uri: &str,
) -> Result<Option<String>, ProtocolError> {
    let access = incoming.context.access(server);
    let book = access.map(|access| access.server.skills());
    if let Some(skill) = book.as_ref().and_then(|book| book.skill_of(uri)) {
        return Ok(Some(skill.name().to_owned()));
    }
    if !is_skill(incoming, uri) {
        return Ok(None);
    }
    let is_entry = incoming.request.method == Method::SkillsGet;
    if is_plain(uri) && (!is_entry || name_of(uri).is_some()) {
        return Ok(Some(name_of_unknown(uri).to_owned()));
    }
    let message = "`uri` of a skill must be plain: `skill://`, no escapes, no `.` or `..`, no query, no fragment; `skills/get` takes the URI of a `SKILL.md`";
    Err(ProtocolError::params(message).with_id(&incoming.request.id))
}

/// Whether a request is about skills, by its method or by the scheme of the URI.
pub(crate) fn is_skill(incoming: &IncomingRequest<'_>, uri: &str) -> bool {
    incoming.request.method == Method::SkillsGet || is_skill_uri(uri)
}

/// The server whose skill contains this URI. A URI that several servers claim is refused, because the client could
/// not tell whose instructions it gets.
pub(crate) async fn owner<'a>(
    incoming: &'a IncomingRequest<'_>,
    uri: &str,
) -> Result<Option<&'a ServerAccess>, ProtocolError> {
    let accesses = || incoming.context.grantee.accesses.values();
    let named = Named::Resource(uri.into());
    join_all(accesses().map(|access| learn(incoming, access, &named))).await;
    let is_shown = |access: &&ServerAccess| {
        let book = access.server.skills();
        book.skill_of(uri).is_some_and(|skill| access.shows(Subject::Skill(skill.name())))
    };
    let owners: Vec<&ServerAccess> = accesses().filter(is_shown).collect();
    only_owner(&owners, |servers| format!("{servers} have a skill with this URI"))
        .map_err(|error| error.with_id(&incoming.request.id))
}

/// The server of a grant that has only one: it gets requests about skills that no list names.
pub(crate) fn only_server<'a>(
    incoming: &'a IncomingRequest<'_>,
) -> Option<(&'a ServerAccess, Option<String>)> {
    let mut accesses = incoming.context.grantee.accesses.values();
    accesses.next().filter(|_| accesses.next().is_none()).map(|access| (access, None))
}

/// Skills that several servers list under one URI are in no merged list.
pub(in crate::exchange) fn unambiguous(all: Vec<MergedItem<'_>>) -> Vec<MergedItem<'_>> {
    let is_alone = |item: &MergedItem<'_>| {
        let alone = all.iter().filter(|other| other.own == item.own).count() == 1;
        if !alone {
            tracing::warn!(
                server = item.server,
                uri = item.own,
                "left out of the list of skills: two servers have it"
            );
        }
        alone
    };
    let alone: Vec<bool> = all.iter().map(is_alone).collect();
    all.into_iter().zip(alone).filter_map(|(item, alone)| alone.then_some(item)).collect()
}

/// Reads and pins the list of a server for the owner.
pub(crate) async fn probe(context: &RequestContext, access: &ServerAccess) {
    if access.server.may_offer(EXTENSION)
        && let Err(error) = aggregate::all_items(context, Era::Modern, access, List::Skills).await
    {
        tracing::warn!(server = %access.server.name, %error, "cannot list the skills");
    }
}

/// The whole list of a server.
pub(crate) fn observe_list(services: &Services, server: &Server, items: &[String]) {
    let docs = items.iter().filter_map(|item| Doc::read(item.as_bytes(), &Bounds::ANSWER).ok());
    let found = docs.filter_map(|doc| valid(server, doc.root()).ok()).collect();
    server.note_skills(&pinned(services, server, found, true), true);
}

/// A page of a list on its way to a client.
pub(crate) fn observe_page(services: &Services, server: &Server, result: Value<'_>) {
    let entries = result.get("skills").into_iter().flat_map(Value::items);
    let found = entries.filter_map(|entry| valid(server, entry).ok()).collect();
    server.note_skills(&pinned(services, server, found, false), false);
}

fn valid(server: &Server, entry: Value<'_>) -> Result<Skill, &'static str> {
    Skill::of(entry).inspect_err(|why| {
        tracing::warn!(server = %server.name, why, "a skill is left out: its entry is not valid");
    })
}

/// Compares skills with their pins. A built-in server is as trusted as the gate.
fn pinned(
    services: &Services,
    server: &Server,
    skills: Vec<Skill>,
    is_whole_list: bool,
) -> Vec<Skill> {
    let entries: Vec<(&str, &str)> =
        skills.iter().map(|skill| (skill.uri.as_str(), skill.entry.as_str())).collect();
    let states = if server.is_builtin() {
        vec![PinState::Accepted; skills.len()]
    } else if server.is_registered {
        let now_us = services.clock.now().wall_us;
        let found = services.registry.observe_skills(&server.name, &entries, is_whole_list, now_us);
        found.unwrap_or_else(|error| {
            tracing::error!(server = %server.name, %error, "cannot store the pins of skills; they are held back");
            vec![PinState::New; skills.len()]
        })
    } else {
        server.observe_skills(&entries, is_whole_list)
    };
    let with_state = |(skill, state): (Skill, PinState)| {
        if state != PinState::Accepted {
            let (server, name, state) = (&server.name, skill.name(), state.as_str());
            tracing::warn!(
                server,
                skill = name,
                state,
                "a skill is not as accepted; see `tollgate server pins`"
            );
        }
        Skill { state, ..skill }
    };
    skills.into_iter().zip(states).map(with_state).collect()
}

/// Compares all known skills with their pins again, which the owner may have accepted.
pub(crate) fn refresh(services: &Services, server: &Server) {
    let known: Vec<Skill> = server.skills().all().map(|skill| (**skill).clone()).collect();
    let before: Vec<PinState> = known.iter().map(|skill| skill.state).collect();
    let again = pinned(services, server, known, false);
    let moved: Vec<Skill> = again
        .into_iter()
        .zip(before)
        .filter_map(|(skill, before)| (skill.state != before).then_some(skill))
        .collect();
    if !moved.is_empty() {
        server.note_skills(&moved, false);
    }
}

/// What a policy knows of a skill beyond its name.
pub(crate) fn facts<'s>(services: &Services, server: &'s Server, name: &str) -> ToolFacts<'s> {
    let known = server.skills().get(name).map(|skill| (**skill).clone());
    let again = known.map(|skill| pinned(services, server, vec![skill], false));
    let definition = again.and_then(|again| again.first().map(Skill::definition));
    let definition = definition.unwrap_or(Definition::Unknown);
    ToolFacts { server: Some(&server.name), definition, ..ToolFacts::default() }
}

/// Whether no list of the server has this skill. `skills/get` may find one that is not listed.
pub(crate) fn is_unknown(incoming: &IncomingRequest<'_>, target: &Target<'_>, name: &str) -> bool {
    incoming.request.method != Method::SkillsGet
        && target.access.server.skills().get(name).is_none()
}

impl InFlightCall {
    fn skill(&self) -> Option<&str> {
        match &self.request.subject {
            Some(OwnedSubject::Skill(name)) => Some(name),
            _ => None,
        }
    }

    pub(in crate::exchange) fn must_check_skill(&self) -> bool {
        self.skill().is_some() || self.lists_directory()
    }

    pub(in crate::exchange) fn lists_directory(&self) -> bool {
        self.method == "resources/directory/read"
    }

    /// Refuses an entry that is not the accepted one, and a file that differs from its digest.
    pub(in crate::exchange) fn check_skill(&self, result: Value<'_>) -> Result<(), Denial> {
        let Some(name) = self.skill().filter(|_| !self.peer.server.is_builtin()) else {
            return Ok(());
        };
        match &*self.method {
            "skills/get" => self.check_entry(name, result),
            "resources/read" => self.check_files(name, result),
            _ => Ok(()),
        }
    }

    fn check_entry(&self, name: &str, result: Value<'_>) -> Result<(), Denial> {
        let (services, server) = (self.context.services(), &self.peer.server);
        let entry = result.get("skill").ok_or("the result has no `skill`");
        let skill = entry.and_then(|entry| valid(server, entry));
        let skill = skill.and_then(|skill| {
            if skill.name() == name { Ok(skill) } else { Err("it is the entry of another skill") }
        });
        let skill = skill.map_err(|why| {
            self.held(
                name,
                Code::DigestMismatch,
                &format!("the entry of the skill is not valid: {why}"),
            )
        })?;
        let found = pinned(services, server, vec![skill], false);
        server.note_skills(&found, false);
        let why = match found.first().map(|skill| skill.state) {
            Some(PinState::Accepted) => return Ok(()),
            Some(PinState::New) => "the skill is new, and the owner has not accepted it yet",
            _ => "the skill differs from the one that the owner accepted",
        };
        if self.refuses_changes(name) {
            Err(self.held(name, Code::ToolChanged, why))
        } else {
            Ok(())
        }
    }

    fn check_files(&self, name: &str, result: Value<'_>) -> Result<(), Denial> {
        let book = self.peer.server.skills();
        let Some(skill) = book.get(name) else {
            return Err(self.held(name, Code::DigestMismatch, "the skill is not known"));
        };
        let files = match &skill.files {
            SkillFiles::Listed(files) => files,
            SkillFiles::Dynamic if !self.refuses_changes(name) => return Ok(()),
            SkillFiles::Dynamic => {
                let why = "the skill publishes no digests, so its files cannot be verified";
                return Err(self.held(name, Code::DigestMismatch, why));
            }
        };
        let contents = result.get("contents").into_iter().flat_map(Value::items);
        for content in contents {
            let uri = content.get("uri").and_then(Value::as_str).unwrap_or_default();
            let fitting = files
                .get(&*uri)
                .zip(bytes_of(content))
                .filter(|(digest, bytes)| digest.fits(bytes));
            let Some((_, bytes)) = fitting else {
                let why = "a file of the skill differs from the digest in its entry; it may have changed since the skill was listed";
                return Err(self.held(name, Code::DigestMismatch, why));
            };
            if let Some(why) = skill.frontmatter_mismatch(&uri, &bytes) {
                return Err(self.held(name, Code::DigestMismatch, why));
            }
        }
        Ok(())
    }

    fn refuses_changes(&self, name: &str) -> bool {
        let policy = self.rules.as_ref().map(|rules| &rules.policy);
        policy.is_none_or(|policy| policy.on_change(Subject::Skill(name)) == OnChange::Refuse)
    }

    fn held(&self, name: &str, code: Code, why: &str) -> Denial {
        let server = &self.peer.server.name;
        tracing::warn!(server, skill = name, why, "refused a skill; see `tollgate server pins`");
        self.context.services().metrics.denied(code.as_str());
        Denial::new(code, self.request.entry_rule(), why)
    }

    /// The children of a folder that the caller may see. A skill has only the files of its entry.
    pub(in crate::exchange) fn visible_directory(&self, result: Value<'_>) -> String {
        let server = &self.peer.server;
        let (pins, skills) = (server.pins(), server.skills());
        let view = self.view(&pins, &skills);
        let shown = |item: Value<'_>| {
            let uri = item.get("uri").and_then(Value::as_str)?;
            let is_listed = skills.skill_of(&uri).is_none_or(|skill| skill.lists(&uri));
            view.item(List::Resources, item).filter(|_| is_listed)
        };
        let change = |key: &str, value: Value<'_>| match key {
            "resources" => Member::Replace(edit::array(value.items().filter_map(shown))),
            _ => Member::Keep,
        };
        edit::object(result, change, &[])
    }
}

/// The raw bytes of a content.
fn bytes_of(content: Value<'_>) -> Option<Vec<u8>> {
    match (content.get("text"), content.get("blob")) {
        (Some(text), None) => Some(text.as_str()?.into_owned().into_bytes()),
        (None, Some(blob)) => STANDARD.decode(&*blob.as_str()?).ok(),
        _ => None,
    }
}
