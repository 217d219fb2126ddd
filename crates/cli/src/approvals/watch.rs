//! `approvals watch`: shows the calls that wait as they come, and decides them by one letter and Enter, or
//! by lines of a program.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, IsTerminal as _};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use store::ledger::{Answer, Approval};

use super::{approval_json, check_agreed, decide, describe, ledger_time, state, yes};
use crate::context::Stores;
use crate::failure::Ending;
use crate::output::{Out, visible};

/// How often the log is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Lines that were typed and not read yet.
const LINES_WAITING_MAX: usize = 16;
const KEYS: &str =
    "y approve once, y 10m approve for 10 minutes, n TEXT deny, s show, k keep waiting, q quit";

#[derive(Args)]
pub(crate) struct WatchArgs {
    /// Let lines decide that do not come from a terminal: `y ID`, `y ID 10m`, `n ID TEXT`
    #[arg(long, short)]
    yes: bool,
}

pub(super) fn run(args: &WatchArgs, stores: &Stores, out: &mut Out) -> Result<Ending> {
    let is_terminal = io::stdin().is_terminal() && !out.wants_json();
    let mut watch =
        Watch { known: BTreeMap::new(), shown: Shown::Nothing, is_terminal, args, stores };
    let mut lines = Some(typed());
    watch.look(out)?;
    if watch.known.is_empty() && !out.wants_json() {
        out.say("no approvals pending; new ones are shown here, Ctrl-C ends");
    }
    loop {
        out.flush()?;
        match next(lines.as_ref()) {
            Some(Typed::Line(line)) if watch.take(&line, out) => return Ok(Ending::Yes),
            Some(Typed::End { is_last: true }) => return Ok(Ending::Yes),
            // Nobody will ever type, as with `/dev/null`: what waits is shown all the same.
            Some(Typed::End { is_last: false }) => lines = None,
            Some(Typed::Line(_)) | None => {}
        }
        watch.look(out)?;
    }
}

enum Typed {
    Line(String),
    /// The input ended; it is the end of the watch if anything came before.
    End {
        is_last: bool,
    },
}

fn next(lines: Option<&Receiver<Typed>>) -> Option<Typed> {
    let Some(lines) = lines else {
        std::thread::sleep(LOOK_EVERY);
        return None;
    };
    match lines.recv_timeout(LOOK_EVERY) {
        Ok(typed) => Some(typed),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => Some(Typed::End { is_last: false }),
    }
}

/// The lines of standard input, read by a thread of their own.
fn typed() -> Receiver<Typed> {
    let (to, lines) = sync_channel(LINES_WAITING_MAX);
    std::thread::spawn(move || read_lines(&to));
    lines
}

fn read_lines(to: &SyncSender<Typed>) {
    let mut is_last = io::stdin().is_terminal();
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        is_last = true;
        if to.send(Typed::Line(line)).is_err() {
            return;
        }
    }
    let _ = to.send(Typed::End { is_last });
}

/// What a bare letter decides.
#[derive(PartialEq, Eq)]
enum Shown {
    Nothing,
    /// The call with this id.
    Call(String),
    /// The call that was shown ended. A letter that is being typed now must not decide the next one.
    Over,
}

struct Watch<'a> {
    /// The calls that were told of, with the state they were last seen in.
    known: BTreeMap<String, &'static str>,
    shown: Shown,
    is_terminal: bool,
    args: &'a WatchArgs,
    stores: &'a Stores,
}

impl Watch<'_> {
    /// Tells of what changed since the last look.
    fn look(&mut self, out: &mut Out) -> Result<()> {
        let ledger = self.stores.ledger()?;
        ledger.poll()?;
        let time = ledger_time(self.stores)?;
        let approvals = ledger.approvals()?;
        for approval in &approvals {
            let now = state(approval, time);
            let before = self.known.get(&approval.id).copied();
            if before == Some("waiting") && now != "waiting" || before.is_none() && now == "waiting"
            {
                self.tell(approval, now, time, out)?;
                self.known.insert(approval.id.clone(), now);
            }
        }
        self.known.retain(|id, _| approvals.iter().any(|approval| approval.id == *id));
        if self.is_terminal && self.shown == Shown::Nothing {
            self.prompt(&approvals, time, out)?;
        }
        Ok(())
    }

    fn tell(&mut self, approval: &Approval, now: &str, time: u64, out: &mut Out) -> Result<()> {
        if out.wants_json() {
            let mut fact = json!({ "event": now });
            if let (Some(fact), Value::Object(fields)) =
                (fact.as_object_mut(), approval_json(approval, time, self.stores))
            {
                fact.extend(fields);
            }
            return out.json_line(&fact);
        }
        let Approval { id, subject, server, grant, .. } = approval;
        out.line(format_args!("{now}: {id}  {} on `{server}` for `{grant}`", visible(subject)))?;
        if self.shown == Shown::Call(id.clone()) {
            self.shown = Shown::Over;
            out.say("press Enter for the next");
        }
        Ok(())
    }

    /// Shows the oldest call that waits and was not put off.
    fn prompt(&mut self, approvals: &[Approval], time: u64, out: &mut Out) -> Result<()> {
        let waits = |a: &&Approval| self.known.get(&a.id) == Some(&"waiting");
        let Some(next) = approvals.iter().find(waits) else { return Ok(()) };
        describe(next, time, self.stores, out)?;
        out.say(KEYS);
        self.shown = Shown::Call(next.id.clone());
        Ok(())
    }

    /// What a line says; true when it ends the watch.
    fn take(&mut self, line: &str, out: &mut Out) -> bool {
        let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        if word == "q" {
            return true;
        }
        let (id, rest) = match &self.shown {
            _ if rest.starts_with("ap-") => {
                let (id, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                (id.to_owned(), rest)
            }
            Shown::Call(id) => (id.clone(), rest),
            Shown::Nothing | Shown::Over => {
                self.shown = Shown::Nothing;
                if !self.is_terminal && !word.is_empty() {
                    out.warn("a line is `y ID`, `y ID 10m`, `n ID TEXT` or `q`");
                }
                return false;
            }
        };
        let rest = rest.trim();
        match word {
            "y" => self.answer(&id, yes(Some(rest).filter(|span| !span.is_empty()), false), out),
            "n" => self.answer(&id, Ok(Answer::Deny { words: rest.to_owned() }), out),
            "k" => {
                self.known.insert(id, "put off");
                self.shown = Shown::Nothing;
            }
            "s" => self.shown = Shown::Nothing,
            _ => out.say(KEYS),
        }
        false
    }

    /// What cannot be decided is said, and the watch goes on.
    fn answer(&mut self, id: &str, answer: Result<Answer>, out: &mut Out) {
        let agreed = if self.is_terminal { Ok(()) } else { check_agreed(self.args.yes) };
        let done = agreed.and(answer).and_then(|answer| self.decide(id, &answer, out));
        if let Err(error) = done {
            out.warn(visible(&error.to_string()));
        }
    }

    fn decide(&mut self, id: &str, answer: &Answer, out: &mut Out) -> Result<()> {
        if out.wants_json() {
            // The next look tells of it.
            self.stores.ledger()?.decide_approval(id, answer, self.stores.actor())?;
            return Ok(());
        }
        decide(id, answer, self.stores, out)?;
        self.known.insert(id.to_owned(), "decided");
        self.shown = Shown::Nothing;
        Ok(())
    }
}
