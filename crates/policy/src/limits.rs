//! Limits: how much a call adds to which counter. The ledger does the counting; here each limit becomes
//! a hold with an exact amount, or the call is denied because the amount is invalid.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::amount::Amount;
use crate::call::Call;
use crate::duration::window_seconds;
use crate::loader::Loader;
use crate::path::{Leaf, Path, Root, Seen};
use crate::pointer;
use crate::problem::{Complaint, Position};
use crate::tree::Node;
use crate::verdict::{Hold, Scope};

pub(crate) const COUNTER_CHARACTERS_MAX: usize = 256;

#[derive(Debug)]
pub(crate) struct Limit {
    counter: Arc<str>,
    scope: Scope,
    window_ms: u64,
    max: Amount,
    increment: Increment,
    pub(crate) pointer: Arc<str>,
    on_deny: Option<Arc<str>>,
    position: Position,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Increment {
    Fixed(Amount),
    /// The sum of what a path into the arguments leads to.
    Path(Path),
}

impl Limit {
    /// The hold of a call, or why its amount is invalid.
    pub(crate) fn hold(&self, call: &Call<'_>) -> Result<Hold, String> {
        Ok(Hold {
            counter: Arc::clone(&self.counter),
            scope: self.scope,
            window_ms: self.window_ms,
            max: self.max,
            amount: self.increment.amount(call)?,
            rule: Arc::clone(&self.pointer),
            on_deny: self.on_deny.clone(),
        })
    }

    /// Whether the amount comes from the arguments.
    pub(crate) fn counts_arguments(&self) -> bool {
        matches!(self.increment, Increment::Path(_))
    }

    /// Two limits on one counter count a call once, so they must agree on how much it counts.
    fn disagrees_with(&self, other: &Limit) -> bool {
        self.counter == other.counter
            && self.scope == other.scope
            && self.increment != other.increment
    }
}

impl Increment {
    fn amount(&self, call: &Call<'_>) -> Result<Amount, String> {
        let path = match self {
            Increment::Fixed(amount) => return Ok(*amount),
            Increment::Path(path) => path,
        };
        let mut sum = Ok(Amount::ZERO);
        path.each(call, &mut |leaf| {
            sum = add(sum, &leaf);
            if sum.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        sum.map_err(|why| format!("`{}` {why}", path.text))
    }
}

fn add(sum: Result<Amount, &'static str>, leaf: &Leaf<'_>) -> Result<Amount, &'static str> {
    let number = match leaf {
        Leaf::Present(Seen::Number(number)) => number,
        Leaf::Missing => return Err("is missing, and a limit counts it"),
        _ => return Err("is not a number, and a limit counts it"),
    };
    let amount = Amount::parse(number)
        .ok_or("is negative, too large or too fine to count exactly, and a limit counts it")?;
    sum?.checked_add(amount).ok_or("adds up to more than a limit can count")
}

/// Compiles the limits of one list.
pub(crate) fn compile_limits(
    list: Option<&Node>,
    pointer: &str,
    reason: Option<&Arc<str>>,
    loader: &mut Loader,
) -> Vec<Limit> {
    let limits = list.map(Node::items).unwrap_or_default().iter().enumerate();
    let compile = |(index, node)| {
        compile_limit(node, &pointer::item(pointer, index), Scope::Grant, reason, loader)
    };
    limits.filter_map(compile).collect()
}

/// The short form: one limit per grant unless it says otherwise.
pub(crate) fn compile_rate_limit(
    node: &Node,
    pointer: &str,
    reason: Option<&Arc<str>>,
    loader: &mut Loader,
) -> Option<Limit> {
    compile_limit(node, pointer, Scope::Grant, reason, loader)
}

fn compile_limit(
    node: &Node,
    pointer: &str,
    scope: Scope,
    reason: Option<&Arc<str>>,
    loader: &mut Loader,
) -> Option<Limit> {
    let window = node.get("window")?;
    let window_seconds =
        loader.take(window, &pointer::member(pointer, "window"), window_seconds(window));
    let max = node.get("max")?;
    let max = loader.take(max, &pointer::member(pointer, "max"), read_amount(max));
    let increment = match node.get("increment") {
        None => Some(Increment::Fixed(Amount::ONE)),
        Some(increment) => {
            let read = read_increment(increment);
            loader.take(increment, &pointer::member(pointer, "increment"), read)
        }
    };
    let counter = match node.get("counter") {
        None => Some(pointer),
        Some(counter) => {
            let read = read_counter(counter);
            loader.take(counter, &pointer::member(pointer, "counter"), read)
        }
    };
    let scope = node.text_of("scope").and_then(Scope::from_name).unwrap_or(scope);
    if scope == Scope::Session {
        warn_of_sessions(node, pointer, loader);
    }
    Some(Limit {
        counter: counter?.into(),
        scope,
        window_ms: window_seconds?.saturating_mul(1000),
        max: max?,
        increment: increment?,
        pointer: pointer.into(),
        on_deny: node.text_of("on_deny").map(Arc::from).or_else(|| reason.cloned()),
        position: node.position,
    })
}

/// An agent can open any number of sessions, so a limit per session would be no limit.
fn warn_of_sessions(node: &Node, pointer: &str, loader: &mut Loader) {
    let message = "the scope `session` counts all sessions of a grant together, because an agent can open a new session at any time";
    let complaint = Complaint::new(message).hint("write `grant`, which counts the same");
    loader.warnings.add(node.position, &pointer::member(pointer, "scope"), complaint);
}

fn read_amount(node: &Node) -> Result<Amount, Complaint> {
    node.as_number().and_then(Amount::parse).ok_or_else(|| {
        Complaint::new("this amount cannot be counted exactly")
            .hint("write a number that is not negative, with at most 18 digits after the point")
    })
}

fn read_increment(node: &Node) -> Result<Increment, Complaint> {
    let Some(text) = node.as_text() else {
        let amount = read_amount(node)?;
        if amount == Amount::ZERO {
            let complaint = Complaint::new("the increment is 0, so the limit is never reached");
            return Err(complaint.hint("leave `increment` out to count calls"));
        }
        return Ok(Increment::Fixed(amount));
    };
    let path = Path::parse(text)?;
    if path.root != Root::Args {
        let message = format!("`{text}` is not an argument");
        return Err(Complaint::new(message).hint("count a path such as `args.amount`"));
    }
    Ok(Increment::Path(path))
}

fn read_counter(node: &Node) -> Result<&str, Complaint> {
    let name = node.as_text().unwrap_or_default();
    let plain = !name.is_empty() && name.chars().count() <= COUNTER_CHARACTERS_MAX;
    if !plain || name.starts_with('/') || name.chars().any(char::is_control) {
        return Err(Complaint::new("invalid counter name").hint(
            "1 to 256 characters, not beginning with `/`: such names belong to limits without a counter",
        ));
    }
    Ok(name)
}

/// Reports every pair of limits that apply to one call and disagree on its amount.
pub(crate) fn check_agreement<'a>(own: &'a [Limit], shared: &'a [Limit], loader: &mut Loader) {
    for (index, limit) in own.iter().enumerate() {
        let earlier = own.iter().take(index).chain(shared);
        if let Some(other) = earlier.into_iter().find(|other| limit.disagrees_with(other)) {
            let message = format!(
                "the counter `{}` counts a call in two ways, here and in `{}`",
                limit.counter, other.pointer
            );
            let complaint = Complaint::new(message).hint("give one of them its own counter");
            loader.problems.add(limit.position, &limit.pointer, complaint);
        }
    }
}
