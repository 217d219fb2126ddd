//! Reads the files of a server's skills for `tollgate scan`, because a model would follow what they say.

use std::sync::Arc;

use policy::json::{Bounds, Doc};
use store::ledger::Permit;

use crate::exchange::context::RequestContext;
use crate::exchange::prepare;
use crate::upstream::UpstreamError;
use crate::upstream::peer::{Peer, final_response};
use crate::upstream::skills::{Skill, SkillFiles};
use mcp::edit::string;

/// Files and bytes that one scan reads.
const FILES_MAX: usize = 200;
const BYTES_MAX: usize = 4 << 20;

/// One text file of a skill.
#[derive(Clone, Debug)]
pub struct SkillText {
    pub uri: String,
    pub text: String,
    /// Whether it differs from the digest in the skill's entry.
    pub is_other: bool,
    /// How its frontmatter differs from the one in the entry.
    pub frontmatter_mismatch: Option<&'static str>,
}

/// The texts of the listed files. Files that are not text, or that cannot be read, are left out.
pub(super) async fn read(
    context: &RequestContext,
    peer: &Arc<Peer>,
    permit: &Permit,
    entries: &[String],
) -> Vec<SkillText> {
    let docs = entries.iter().filter_map(|text| Doc::read(text.as_bytes(), &Bounds::ANSWER).ok());
    let skills: Vec<Skill> = docs.filter_map(|doc| Skill::of(doc.root()).ok()).collect();
    let (mut texts, mut bytes) = (Vec::new(), 0);
    for uri in skills.iter().flat_map(files).take(FILES_MAX) {
        let Ok(Some(text)) = text(context, peer, permit, &uri).await else { continue };
        bytes += text.len();
        if bytes > BYTES_MAX {
            break;
        }
        let is_other = !skills.iter().any(|skill| skill.verifies(&uri, text.as_bytes()));
        let frontmatter_mismatch =
            skills.iter().find_map(|skill| skill.frontmatter_mismatch(&uri, text.as_bytes()));
        texts.push(SkillText { uri, text, is_other, frontmatter_mismatch });
    }
    texts
}

/// `SKILL.md` first: it is what a model reads first.
fn files(skill: &Skill) -> Vec<String> {
    let SkillFiles::Listed(files) = &skill.files else { return vec![skill.uri.clone()] };
    let mut uris: Vec<String> = files.keys().cloned().collect();
    uris.sort_by_key(|uri| (*uri != skill.uri, uri.clone()));
    uris
}

async fn text(
    context: &RequestContext,
    peer: &Arc<Peer>,
    permit: &Permit,
    uri: &str,
) -> Result<Option<String>, UpstreamError> {
    let params = format!("{{\"uri\":{}}}", string(uri));
    let client = prepare::client_meta(context);
    let prepared = prepare::own_request(peer, "resources/read", Some(&params), &client);
    let reply = peer.request(permit, prepared.out).await?;
    let answer = final_response(reply, &prepared.id, drop).await?;
    let Ok(doc) = Doc::read(&answer, &Bounds::ANSWER) else { return Ok(None) };
    let content =
        doc.root().get("result").and_then(|result| result.get("contents")?.items().next());
    let text = content.and_then(|content| content.get("text")?.as_str());
    Ok(text.map(std::borrow::Cow::into_owned))
}
