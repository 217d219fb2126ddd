//! The shape that each field must have, and the check that a policy text has it. The loader, the JSON
//! Schema and the reference all read the same tables of [`Field`] rows.

use crate::amount;
use crate::operator;
use crate::pointer;
use crate::problem::{Complaint, Problems, list, suggest};
use crate::tree::{Member, Node, NodeValue};

/// Entries in one section, and names in one list.
pub(crate) const ENTRIES_MAX: usize = 10_000;

/// One kind of object in the language.
#[derive(Debug)]
pub struct Object {
    pub name: &'static str,
    pub description: &'static str,
    pub fields: &'static [Field],
}

/// One field of an object: adding a field to the language begins with a row of these.
#[derive(Debug)]
pub struct Field {
    pub name: &'static str,
    pub required: bool,
    pub shape: Shape,
    pub description: &'static str,
}

/// What a field holds.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    Text,
    /// Text with a `*` that stands for any characters.
    Pattern,
    /// A place in the call, such as `args.amount`.
    Path,
    /// A place in a result, such as `items[*].email`.
    ResultPath,
    /// The name of an operator.
    Operator,
    /// What an operator compares with; the operator's row says which types.
    Operand,
    /// One of a closed set of words.
    Word(&'static [&'static str]),
    Bool,
    /// A number that is not negative.
    Amount,
    /// A whole number from 0 to this.
    Whole(u64),
    /// A whole number of seconds, text such as `"15m"`, or one of these words.
    Duration(&'static [&'static str]),
    List(&'static Shape),
    Object(&'static Object),
    /// An object whose keys are names or patterns of names.
    Named(&'static Object),
    /// An object that is passed on as it is.
    Data,
    Either(&'static Shape, &'static Shape),
}

impl Shape {
    /// In words, for messages and the reference.
    pub fn describe(self) -> String {
        match self {
            Shape::Text => "text".into(),
            Shape::Pattern => "a name, or a glob such as `get_*`".into(),
            Shape::Path => "a path such as `args.amount`".into(),
            Shape::ResultPath => "a path such as `items[*].email`".into(),
            Shape::Operator => "an operator".into(),
            Shape::Operand => "what the operator takes".into(),
            Shape::Word(description) => list(description.iter().copied()),
            Shape::Bool => "true or false".into(),
            Shape::Amount => "a number, not negative".into(),
            Shape::Whole(_) => "a whole number".into(),
            Shape::Duration([]) => "seconds, or text such as `\"30m\"`".into(),
            Shape::Duration(description) => {
                format!("{}, seconds, or text such as `\"15m\"`", list(description.iter().copied()))
            }
            Shape::List(of) => format!("a list of {}", of.describe()),
            Shape::Object(object) => format!("an object: {}", object.name),
            Shape::Named(object) => format!("names, each with an object: {}", object.name),
            Shape::Data => "an object".into(),
            Shape::Either(one, other) => format!("{}, or {}", one.describe(), other.describe()),
        }
    }

    /// Whether a value has the JSON type of this shape, without looking inside.
    fn fits(self, value: &NodeValue) -> bool {
        match self {
            Shape::Text
            | Shape::Pattern
            | Shape::Path
            | Shape::ResultPath
            | Shape::Operator
            | Shape::Word(_) => matches!(value, NodeValue::Text(_)),
            Shape::Operand => !matches!(value, NodeValue::Null),
            Shape::Bool => matches!(value, NodeValue::Bool(_)),
            Shape::Amount | Shape::Whole(_) => matches!(value, NodeValue::Number(_)),
            Shape::Duration(_) => matches!(value, NodeValue::Number(_) | NodeValue::Text(_)),
            Shape::List(_) => matches!(value, NodeValue::List(_)),
            Shape::Object(_) | Shape::Named(_) | Shape::Data => matches!(value, NodeValue::Map(_)),
            Shape::Either(one, other) => one.fits(value) || other.fits(value),
        }
    }
}

/// Compares a node and its descendants with a shape and reports every difference.
pub(crate) fn check(node: &Node, shape: Shape, pointer: &str, problems: &mut Problems) {
    if !shape.fits(&node.value) {
        let description = format!("expected {}, found {}", shape.describe(), node.kind());
        problems.add(node.position, pointer, with_hint(node, shape, Complaint::new(description)));
        return;
    }
    match shape {
        Shape::Word(description) => check_word(node, description, pointer, problems),
        Shape::Operator => {
            let names: Vec<_> = operator::operators().iter().map(|row| row.name).collect();
            check_word(node, &names, pointer, problems);
        }
        Shape::Whole(max) => check_whole(node, max, pointer, problems),
        Shape::List(of) => check_list(node, *of, pointer, problems),
        Shape::Object(object) => check_object(node, object, pointer, problems),
        Shape::Named(object) => check_named(node, object, pointer, problems),
        Shape::Either(one, other) => {
            let fitting = if one.fits(&node.value) { one } else { other };
            check(node, *fitting, pointer, problems);
        }
        _ => {}
    }
}

/// In YAML, `version: 1` and `reason: true` are not text.
fn with_hint(node: &Node, shape: Shape, complaint: Complaint) -> Complaint {
    match node.value {
        NodeValue::Null => complaint.hint("leave the field out when it is not needed"),
        NodeValue::Number(_) | NodeValue::Bool(_)
            if shape.fits(&NodeValue::Text(String::new())) =>
        {
            complaint.hint("put it in quotes")
        }
        _ => complaint,
    }
}

fn check_word(node: &Node, description: &[&str], pointer: &str, problems: &mut Problems) {
    let text = node.as_text().unwrap_or_default();
    if !description.contains(&text) {
        let complaint = Complaint::new(format!("unknown value `{text}`"));
        let hint = suggest(text, description.iter().copied());
        problems.add(node.position, pointer, complaint.hint(hint));
    }
}

fn check_whole(node: &Node, max: u64, pointer: &str, problems: &mut Problems) {
    if whole(node).is_none_or(|number| number > max) {
        let description = format!("expected a whole number from 0 to {max}");
        problems.add(node.position, pointer, Complaint::new(description));
    }
}

/// The whole number that a node holds.
pub(crate) fn whole(node: &Node) -> Option<u64> {
    node.as_number().and_then(amount::whole)
}

fn check_list(node: &Node, of: Shape, pointer: &str, problems: &mut Problems) {
    if !check_count(node, node.items().len(), pointer, problems) {
        return;
    }
    for (index, item) in node.items().iter().enumerate() {
        check(item, of, &pointer::item(pointer, index), problems);
    }
}

fn check_named(node: &Node, object: &'static Object, pointer: &str, problems: &mut Problems) {
    if !check_count(node, node.members().len(), pointer, problems) {
        return;
    }
    for member in node.members() {
        let pointer = pointer::member(pointer, &member.name);
        check(&member.node, Shape::Object(object), &pointer, problems);
    }
}

fn check_count(node: &Node, count: usize, pointer: &str, problems: &mut Problems) -> bool {
    if count > ENTRIES_MAX {
        let description = format!("{count} entries, more than {ENTRIES_MAX}");
        problems.add(node.position, pointer, Complaint::new(description));
    }
    count <= ENTRIES_MAX
}

fn check_object(node: &Node, object: &Object, pointer: &str, problems: &mut Problems) {
    for member in node.members() {
        let here = pointer::member(pointer, &member.name);
        match object.fields.iter().find(|field| field.name == member.name) {
            Some(field) => check(&member.node, field.shape, &here, problems),
            None => problems.add(member.position, &here, unknown_field(member, object)),
        }
    }
    for field in object.fields.iter().filter(|field| field.required) {
        if node.get(field.name).is_none() {
            let description = format!("the field `{}` is missing", field.name);
            let hint = format!("{}: {}", field.description, field.shape.describe());
            problems.add(node.position, pointer, Complaint::new(description).hint(hint));
        }
    }
}

fn unknown_field(member: &Member, object: &Object) -> Complaint {
    let description = format!("unknown field `{}` in {}", member.name, object.name);
    let known = object.fields.iter().map(|field| field.name);
    Complaint::new(description).hint(suggest(&member.name, known))
}
