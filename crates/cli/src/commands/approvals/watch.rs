//! `approvals watch`: follows the calls that wait. The owner decides with one letter and Enter, a program
//! with lines on stdin.

use std::collections::BTreeMap;
use std::io::{self, BufRead, IsTerminal as _};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use store::ledger::{Answer, Approval};

use super::{
    approval_json, approval_of, check_confirmed, decision_text, describe, ledger_time, state,
    warn_if_void,
};
use crate::context::Stores;
use crate::failure::Ending;
use crate::output::{Out, visible};

const POLL_EVERY: Duration = Duration::from_millis(200);
/// Lines read from stdin and not processed yet.
const LINES_WAITING_MAX: usize = 16;
const KEYS: &str =
    "y approve once, y 10m approve for 10 minutes, n TEXT deny, s show, k keep waiting, q quit";

#[derive(Args)]
pub(crate) struct WatchArgs {
    /// Accept decisions without a terminal, as lines on stdin: `y ID`, `y ID 10m`, `n ID TEXT`
    #[arg(long, short)]
    yes: bool,
}

pub(super) fn run(args: &WatchArgs, stores: &Stores, out: &mut Out) -> Result<Ending> {
    let is_terminal = io::stdin().is_terminal() && !out.wants_json();
    let prompt = SharedPrompt::default();
    let mut lines = Some(typed(&prompt));
    let mut watch = ApprovalWatch { known: BTreeMap::new(), prompt, is_terminal, args, stores };
    watch.poll(out)?;
    if watch.known.is_empty() && !out.wants_json() {
        out.say("no approvals pending; new ones are shown here, Ctrl-C ends");
    }
    loop {
        out.flush()?;
        match next(lines.as_ref()) {
            Some(Typed::Line { text, prompt }) if watch.take(&text, &prompt, out) => {
                return Ok(Ending::Yes);
            }
            Some(Typed::End { is_last: true }) => return Ok(Ending::Yes),
            // No line will ever come, as with `/dev/null`: waiting calls are still shown.
            Some(Typed::End { is_last: false }) => lines = None,
            Some(Typed::Line { .. }) | None => {}
        }
        watch.poll(out)?;
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Typed {
    Line {
        text: String,
        /// The prompt when the line was read: it decides that call, even if another is shown by now.
        prompt: Prompt,
    },
    /// The input ended; this ends the watch if there was any line before.
    End { is_last: bool },
}

fn next(lines: Option<&Receiver<Typed>>) -> Option<Typed> {
    let Some(lines) = lines else {
        std::thread::sleep(POLL_EVERY);
        return None;
    };
    match lines.recv_timeout(POLL_EVERY) {
        Ok(typed) => Some(typed),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => Some(Typed::End { is_last: false }),
    }
}

/// The lines of stdin, read on a separate thread.
fn typed(prompt: &SharedPrompt) -> Receiver<Typed> {
    let (to, lines) = sync_channel(LINES_WAITING_MAX);
    let prompt = prompt.clone();
    std::thread::spawn(move || {
        read_lines(io::stdin().lock(), io::stdin().is_terminal(), &prompt, &to);
    });
    lines
}

fn read_lines(
    input: impl BufRead,
    is_terminal: bool,
    prompt: &SharedPrompt,
    to: &SyncSender<Typed>,
) {
    let mut is_last = is_terminal;
    for text in input.lines().map_while(Result::ok) {
        is_last = true;
        if to.send(Typed::Line { text, prompt: prompt.get() }).is_err() {
            return;
        }
    }
    let _ = to.send(Typed::End { is_last });
}

/// The call that a letter without an id decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Prompt {
    #[default]
    None,
    /// The call with this id.
    Call(String),
    /// The call was decided or expired. A letter that is being typed now must not decide the next one.
    Over,
}

/// The prompt on the screen. The thread that reads stdin stamps each line with it.
#[derive(Clone, Default)]
struct SharedPrompt(Arc<Mutex<Prompt>>);

impl SharedPrompt {
    fn get(&self) -> Prompt {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, prompt: Prompt) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = prompt;
    }

    /// Removes the prompt if it is still this one.
    fn clear(&self, prompt: &Prompt) {
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *shown == *prompt {
            *shown = Prompt::None;
        }
    }
}

struct ApprovalWatch<'a> {
    /// The calls that were reported, with their last reported state.
    known: BTreeMap<String, &'static str>,
    prompt: SharedPrompt,
    is_terminal: bool,
    args: &'a WatchArgs,
    stores: &'a Stores,
}

impl ApprovalWatch<'_> {
    /// Reports what changed since the last poll.
    fn poll(&mut self, out: &mut Out) -> Result<()> {
        let ledger = self.stores.ledger()?;
        ledger.poll()?;
        let time = ledger_time(self.stores)?;
        let approvals = ledger.approvals()?;
        for approval in &approvals {
            let now = state(approval, time);
            let before = self.known.get(&approval.id).copied();
            if before == Some("waiting") && now != "waiting" || before.is_none() && now == "waiting"
            {
                self.report(approval, now, time, out)?;
                self.known.insert(approval.id.clone(), now);
            }
        }
        self.known.retain(|id, _| approvals.iter().any(|approval| approval.id == *id));
        if self.is_terminal && self.prompt.get() == Prompt::None {
            self.show_next(&approvals, time, out)?;
        }
        Ok(())
    }

    fn report(&mut self, approval: &Approval, now: &str, time: u64, out: &mut Out) -> Result<()> {
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
        if self.prompt.get() == Prompt::Call(id.clone()) {
            self.prompt.set(Prompt::Over);
            out.say("press Enter for the next");
        }
        Ok(())
    }

    /// Shows the oldest waiting call that was not postponed.
    fn show_next(&mut self, approvals: &[Approval], time: u64, out: &mut Out) -> Result<()> {
        let waits = |a: &&Approval| self.known.get(&a.id) == Some(&"waiting");
        let Some(next) = approvals.iter().find(waits) else { return Ok(()) };
        describe(next, time, self.stores, out)?;
        out.say(KEYS);
        self.prompt.set(Prompt::Call(next.id.clone()));
        Ok(())
    }

    /// Handles a line that was read at a prompt; true when it ends the watch.
    fn take(&mut self, line: &str, prompt: &Prompt, out: &mut Out) -> bool {
        let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        if word == "q" {
            return true;
        }
        let (id, rest) = match prompt {
            _ if rest.starts_with("ap-") => {
                let (id, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                (id.to_owned(), rest)
            }
            Prompt::Call(id) => (id.clone(), rest),
            Prompt::None | Prompt::Over => {
                self.prompt.clear(&Prompt::Over);
                if !self.is_terminal && !word.is_empty() {
                    out.warn("a line is `y ID`, `y ID 10m`, `n ID TEXT` or `q`");
                }
                return false;
            }
        };
        let rest = rest.trim();
        match word {
            "y" => self.answer(
                &id,
                approval_of(Some(rest).filter(|span| !span.is_empty()), false),
                out,
            ),
            "n" => self.answer(&id, Ok(Answer::Deny { words: rest.to_owned() }), out),
            "k" => {
                self.prompt.clear(&Prompt::Call(id.clone()));
                self.known.insert(id, "postponed");
            }
            "s" => self.prompt.clear(&Prompt::Call(id)),
            _ => out.say(KEYS),
        }
        false
    }

    /// An error is reported, and the watch continues.
    fn answer(&mut self, id: &str, answer: Result<Answer>, out: &mut Out) {
        let confirmed = if self.is_terminal { Ok(()) } else { check_confirmed(self.args.yes) };
        let done = confirmed.and(answer).and_then(|answer| self.decide(id, &answer, out));
        if let Err(error) = done {
            out.warn(visible(&error.to_string()));
        }
    }

    fn decide(&mut self, id: &str, answer: &Answer, out: &mut Out) -> Result<()> {
        let decided = self.stores.ledger()?.decide_approval(id, answer, self.stores.actor())?;
        if out.wants_json() {
            // The next poll reports it.
            return Ok(());
        }
        let _ = warn_if_void(&decided, answer, self.stores, out);
        out.line(format_args!("{id}: {}", decision_text(&decided, answer)))?;
        self.known.insert(id.to_owned(), "decided");
        self.prompt.clear(&Prompt::Call(id.to_owned()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_belongs_to_the_prompt_at_which_it_was_read() {
        let prompt = SharedPrompt::default();
        let (to, lines) = sync_channel(LINES_WAITING_MAX);
        let call = |id: &str| Prompt::Call(id.to_owned());
        prompt.set(call("ap-1-a"));
        read_lines(&b"y\ny\n"[..], true, &prompt, &to);
        // The first line is handled, and the next call is shown.
        prompt.clear(&call("ap-1-a"));
        prompt.set(call("ap-2-b"));
        for _ in 0..2 {
            let read = Typed::Line { text: "y".to_owned(), prompt: call("ap-1-a") };
            assert_eq!(lines.recv(), Ok(read));
        }
        assert_eq!(lines.recv(), Ok(Typed::End { is_last: true }));
        prompt.clear(&call("ap-1-a"));
        assert_eq!(prompt.get(), call("ap-2-b"), "a late answer leaves the newer prompt");
    }
}
