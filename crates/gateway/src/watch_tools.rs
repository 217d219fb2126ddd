//! Keeps the gate's knowledge of a server's tools fresh: reads its list and compares it with the pins.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use policy::json::{Bounds, Doc, Value};
use policy::{Decision, Told, Verdict};
use store::ledger::{Ending, Facts, Permit};
use store::registry::Accept;

use crate::aggregate::{ITEMS_MAX, LIST_BYTES_MAX, PAGE_PAUSE, PAGES_AT_ONCE, PAGES_MAX};
use crate::aside::{LARGE_TO_EDIT_BYTES, aside};
use crate::gate::Gate;
use crate::in_force::{Holding, pins_of};
use crate::lists::List;
use crate::peer::{Peer, last_of};
use crate::pins::Pins;
use crate::prepare;
use crate::rebuild::string;
use crate::scene::Scene;
use crate::server::{Reach, Server};
use crate::translate::ClientWords;
use crate::turns;
use crate::upstream::UpstreamError;
use crate::wire::{Era, Takes};

/// Who accepted the tools of a built-in server.
const ACCEPTED_WITH_THE_BINARY: &str = "tollgate itself";

impl Gate {
    /// Whether the pins of a server may be relied on for a call of this scene.
    pub(crate) fn is_fresh(&self, scene: &Scene, server: &Server) -> bool {
        if server.is_builtin() {
            return server.pins().is_known();
        }
        match scene.session.as_ref().and_then(|session| session.peer(&server.name)) {
            // A child's tools are its program's: looked at once for each start of it, and when it says
            // they changed.
            Some(peer) if peer.is_child() => peer.is_checked(),
            None if Gate::is_new_process(scene, server) => false,
            // A process of its own will be started for the session.
            None if scene.session.is_some()
                && matches!(server.reach, Reach::Child(_))
                && !server.is_shared_by_all() =>
            {
                false
            }
            _ => server.is_fresh(Gate::own_set(scene, server), self.clock.now().steady_us),
        }
    }

    /// Whether the list is read once more although it is fresh: a tool that nobody has seen may have come
    /// since. A hidden name waits as long as one that does not exist.
    pub(crate) fn looks_again(
        &self,
        scene: &Scene,
        server: &Server,
        is_new: bool,
        verdict: &Verdict,
    ) -> bool {
        let is_hidden = || matches!(verdict.decision(), Decision::Hidden(Told::Unknown(_)));
        (is_new || is_hidden())
            && !server.is_builtin()
            && !server.was_just_read(Gate::own_set(scene, server), self.clock.now().steady_us)
    }

    /// Whether the process that the clients of the grant share was started since its tools were looked
    /// at.
    fn is_new_process(scene: &Scene, server: &Server) -> bool {
        matches!(server.reach, Reach::Child(_))
            && server.shared_peer(&scene.holder.id).is_some_and(|peer| !peer.is_checked())
    }

    /// A conversation whose server's tools were just compared with the pins.
    pub(crate) async fn checked_peer(
        self: &Arc<Self>,
        scene: &Scene,
        holding: &Holding,
        era: Era,
    ) -> Result<Arc<Peer>, UpstreamError> {
        let facts = Facts { method: "tools/list", server: &holding.server.name, ..scene.facts() };
        let permit = self.ledger.own_act(&facts).map_err(|error| UpstreamError::NeverSent {
            why: format!("the audit log cannot be written: {error}"),
        })?;
        let looked = async {
            let peer = self.peer_for(scene, holding, era, &permit).await?;
            let begin = Instant::now();
            let items = self.whole_list(scene, &peer, &permit, List::Tools).await?;
            let set = peer.capabilities(scene.capabilities(Takes::default()));
            self.observe_items(&peer, set, items).await;
            let took_us = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
            holding.server.set_checked(set, self.clock.now().steady_us, took_us);
            Ok(peer)
        };
        let looked = looked.await;
        if looked.is_err() {
            holding.server.forget_shared(&scene.holder.id);
        }
        Gate::settled(permit, if looked.is_ok() { Ending::Ok } else { Ending::Error });
        looked
    }

    /// Every item of one list of a server, raw, over all its pages.
    pub(crate) async fn whole_list(
        &self,
        scene: &Scene,
        peer: &Arc<Peer>,
        permit: &Permit,
        list: List,
    ) -> Result<Vec<String>, UpstreamError> {
        let client = prepare::client_words(scene);
        let (mut items, mut bytes) = (Vec::new(), 0);
        let mut cursor: Option<String> = None;
        let begin = Instant::now();
        for number in 0..PAGES_MAX {
            if number >= PAGES_AT_ONCE {
                turns::let_others(begin, PAGE_PAUSE).await;
            }
            let params = cursor.as_ref().map(|cursor| format!("{{\"cursor\":{}}}", string(cursor)));
            let prepared = prepare::own(peer, list.method(), params.as_deref(), &client);
            let reply = peer.request(permit, prepared.out).await?;
            let answer = last_of(reply, &prepared.id, drop).await?;
            bytes += answer.len();
            if bytes > LIST_BYTES_MAX {
                break;
            }
            let page = page(answer, list).await?;
            items.extend(page.items);
            cursor = page.next;
            if cursor.is_none() {
                return Ok(items);
            }
            if items.len() > ITEMS_MAX {
                break;
            }
        }
        Err(UpstreamError::Garbled {
            why: format!(
                "its list has more than {ITEMS_MAX} items, {PAGES_MAX} pages or {LIST_BYTES_MAX} bytes"
            ),
        })
    }

    /// Compares a list that passes to a client with the pins. One page of several is not a list, but a
    /// tool on it that nobody knew is a reason to read the whole one before the next call.
    pub(crate) fn observe(
        &self,
        peer: &Arc<Peer>,
        set: Takes,
        result: Value<'_>,
        is_first_page: bool,
    ) {
        let Some(tools) = result.get("tools") else { return };
        let tools: Vec<Value<'_>> = tools.items().collect();
        if is_first_page && result.get("nextCursor").is_none() {
            return self.compare(peer, set, &tools);
        }
        let pins = peer.server.pins();
        let mut names = tools.iter().filter_map(|tool| tool.get("name")?.as_str());
        if names.any(|name| !pins.has(&name)) {
            peer.set_checked(false);
            peer.server.forget_check();
        }
    }

    /// The same for a whole list, which comes back.
    pub(crate) async fn observe_items(
        self: &Arc<Self>,
        peer: &Arc<Peer>,
        set: Takes,
        items: Vec<String>,
    ) -> Vec<String> {
        let bytes = items.iter().map(String::len).sum();
        if bytes <= LARGE_TO_EDIT_BYTES {
            self.compare_items(peer, set, &items);
            return items;
        }
        let (gate, peer) = (Arc::clone(self), Arc::clone(peer));
        aside(bytes, move || {
            gate.compare_items(&peer, set, &items);
            items
        })
        .await
    }

    fn compare_items(&self, peer: &Arc<Peer>, set: Takes, items: &[String]) {
        let docs: Vec<Doc<'_>> = items
            .iter()
            .filter_map(|item| Doc::read(item.as_bytes(), &Bounds::ANSWER).ok())
            .collect();
        let tools: Vec<Value<'_>> = docs.iter().map(Doc::root).collect();
        self.compare(peer, set, &tools);
    }

    fn compare(&self, peer: &Arc<Peer>, set: Takes, tools: &[Value<'_>]) {
        let server = &peer.server;
        peer.set_checked(true);
        if server.is_builtin() {
            server.set_pins(Pins::default().seen(&server.name, tools));
            if server.is_kept {
                self.accept_own(&server.name, tools);
            }
            return;
        }
        if !server.is_kept {
            return server.set_pins(server.pins().seen(&server.name, tools));
        }
        let now_us = self.clock.now().wall_us;
        match self.registry.observe(&server.name, &set.key(), tools, now_us) {
            Ok(report) => {
                self.note_offers(peer);
                for tool in report.changed.iter().chain(&report.new).chain(&report.conflict) {
                    if report.moved {
                        tracing::warn!(server = %server.name, tool, "a tool is not what was accepted; see `tollgate server pins`");
                    }
                }
                if report.moved || report.first || !server.pins().is_known() {
                    let pins = pins_of(&server.name, &self.registry);
                    // Clients that were shown other lists are told when this state comes in force.
                    server.accept(if tools.is_empty() && !pins.is_known() {
                        Pins::none_offered()
                    } else {
                        pins
                    });
                }
            }
            Err(error) => {
                // Without knowing the tools none may be called.
                tracing::error!(server = %server.name, %error, "the pins cannot be kept; its tools are refused");
                server.set_pins(Pins::none_offered());
            }
        }
    }

    /// Keeps which features a server declared, so that lists of all servers need not wait for one that
    /// has nothing to add.
    pub(crate) fn note_offers(&self, peer: &Peer) {
        let offers = peer.offers_text();
        if peer.server.set_offers(&offers)
            && let Err(error) = self.registry.note_offers(&peer.server.name, &offers)
        {
            tracing::debug!(server = %peer.server.name, %error, "its features could not be noted");
        }
    }

    /// Keeps the pins of a built-in server as this binary has its tools, for lists and for the other
    /// servers of a grant. Whoever trusts the binary to judge trusts it with these, too.
    fn accept_own(&self, server: &str, tools: &[Value<'_>]) {
        let now_us = self.clock.now().wall_us;
        let kept = self.registry.observe(server, "", tools, now_us).and_then(|report| {
            let differs = [&report.changed, &report.new, &report.gone];
            if differs.iter().all(|names| names.is_empty()) {
                return Ok(());
            }
            self.registry.accept(server, Accept::All, ACCEPTED_WITH_THE_BINARY, now_us).map(drop)
        });
        if let Err(error) = kept {
            tracing::warn!(server, %error, "the tools of a built-in server could not be noted");
        }
    }

    /// Tells an older server which log messages its session wants, if that was ever said.
    pub(crate) async fn tell_level(self: &Arc<Self>, scene: &Scene, peer: &Arc<Peer>) {
        let level = scene.session.as_ref().and_then(|session| session.log_level());
        let rules = scene.holding(&peer.server.name).and_then(|holding| holding.rules.as_ref());
        let hears = peer.era == Era::Legacy
            && !peer.is_builtin()
            && peer.offers("logging")
            && rules.is_some_and(|rules| rules.allows_methods());
        let Some(level) = level.filter(|_| hears) else { return };
        if let Ok(permit) = self.own_act(scene, "logging/setLevel", &peer.server.name) {
            self.set_level(peer, &permit, &level).await;
            Gate::settled(permit, Ending::Ok);
        }
    }

    /// Tells an older server which log messages are wanted, when that is not what it was told before.
    pub(crate) async fn set_level(&self, peer: &Arc<Peer>, permit: &Permit, level: &str) {
        let Some(level) = peer.level_to_tell(level, self.clock.now().steady_us) else { return };
        if let Some(wishes) = peer.wishes() {
            wishes.set_level(level);
        }
        let params = format!("{{\"level\":{}}}", string(level));
        let client = ClientWords { capabilities: "{}".to_owned(), info: None, log_level: None };
        let prepared = prepare::own(peer, "logging/setLevel", Some(&params), &client);
        if let Ok(reply) = peer.request(permit, prepared.out).await {
            // A server that refuses sends no logs; the call goes on without them.
            let _ = last_of(reply, &prepared.id, drop).await;
        }
    }
}

/// One page of a list.
#[derive(Default)]
struct Page {
    /// As they are written.
    items: Vec<String>,
    /// The place of the next page, if there is one.
    next: Option<String>,
}

async fn page(answer: Bytes, list: List) -> Result<Page, UpstreamError> {
    if answer.len() <= LARGE_TO_EDIT_BYTES {
        return read_page(&answer, list);
    }
    aside(answer.len(), move || read_page(&answer, list)).await
}

fn read_page(answer: &[u8], list: List) -> Result<Page, UpstreamError> {
    let garbled = |why: &str| UpstreamError::Garbled { why: why.to_owned() };
    let doc = Doc::read(answer, &Bounds::ANSWER).map_err(|_| garbled("its list is not JSON"))?;
    let Some(result) = doc.root().get("result") else {
        // A server without this feature says so with an error; it has no items.
        return Ok(Page::default());
    };
    let Some(found) = result.get(list.member()) else {
        return Err(garbled("its list has no items"));
    };
    let items = found.items().map(|item| item.raw().to_owned()).collect();
    let next = result
        .get("nextCursor")
        .and_then(Value::as_str)
        .filter(|c| !c.is_empty())
        .map(std::borrow::Cow::into_owned);
    Ok(Page { items, next })
}
