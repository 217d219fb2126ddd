//! The JSON Schema of the language, made from the tables that the loader reads.

use serde_json::{Map, Value, json};

use crate::duration::SECONDS_MAX;
use crate::fields::{POLICY, fields};
use crate::operator::{Takes, operators};
use crate::shape::{ENTRIES_MAX, Field, Object, Shape};

/// JSON Schema 2020-12 of a policy.
pub fn schema() -> Value {
    let definitions: Map<String, Value> = fields()
        .iter()
        .filter(|object| object.name != POLICY.name)
        .map(|object| (key(object), object_schema(object)))
        .collect();
    let mut schema = object_schema(&POLICY);
    if let Some(root) = schema.as_object_mut() {
        root.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
        root.insert("title".into(), "tollgate policy, version 1".into());
        root.insert("$defs".into(), definitions.into());
    }
    schema
}

fn key(object: &Object) -> String {
    object.name.replace(' ', "_")
}

fn object_schema(object: &Object) -> Value {
    let properties: Map<String, Value> =
        object.fields.iter().map(|field| (field.name.to_owned(), field_schema(field))).collect();
    let required: Vec<&str> =
        object.fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    let mut schema = json!({
        "type": "object",
        "description": object.description,
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    match (object.name, schema.as_object_mut()) {
        ("condition", Some(schema)) => drop(schema.insert("allOf".into(), operand_rules())),
        ("test", Some(schema)) => drop(schema.insert("oneOf".into(), one_target())),
        _ => {}
    }
    schema
}

fn field_schema(field: &Field) -> Value {
    let mut schema = shape_schema(field.shape);
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("description".into(), field.description.into());
    }
    schema
}

fn shape_schema(shape: Shape) -> Value {
    match shape {
        Shape::Text | Shape::Path | Shape::ResultPath => json!({ "type": "string" }),
        Shape::Pattern => json!({ "type": "string", "minLength": 1 }),
        Shape::Operator => {
            json!({ "enum": operators().iter().map(|row| row.name).collect::<Vec<_>>() })
        }
        Shape::Operand => json!({ "type": ["string", "number", "boolean", "array"] }),
        Shape::Word(description) => json!({ "enum": description }),
        Shape::Bool => json!({ "type": "boolean" }),
        Shape::Amount => json!({ "type": "number", "minimum": 0 }),
        Shape::Whole(u64::MAX) => json!({ "type": "integer", "minimum": 0 }),
        Shape::Whole(max) => json!({ "type": "integer", "minimum": 0, "maximum": max }),
        Shape::Duration(description) => duration_schema(description),
        Shape::List(of) => {
            json!({ "type": "array", "items": shape_schema(*of), "maxItems": ENTRIES_MAX })
        }
        Shape::Object(object) => json!({ "$ref": format!("#/$defs/{}", key(object)) }),
        Shape::Named(object) => json!({
            "type": "object",
            "additionalProperties": { "$ref": format!("#/$defs/{}", key(object)) },
            "propertyNames": { "minLength": 1 },
            "maxProperties": ENTRIES_MAX,
        }),
        Shape::Data => json!({ "type": "object" }),
        Shape::Either(one, other) => {
            json!({ "anyOf": [shape_schema(*one), shape_schema(*other)] })
        }
    }
}

fn duration_schema(description: &[&str]) -> Value {
    let mut forms = vec![
        json!({ "type": "integer", "minimum": 1, "maximum": SECONDS_MAX }),
        json!({ "type": "string", "pattern": "^0*[1-9][0-9]*[smhd]$" }),
    ];
    if !description.is_empty() {
        forms.insert(0, json!({ "enum": description }));
    }
    json!({ "anyOf": forms })
}

/// What `value` must be, operator by operator.
fn operand_rules() -> Value {
    let rules = operators().iter().map(|row| {
        let then = match row.takes {
            Takes::Flag => json!({ "properties": { "value": operand(row.takes) } }),
            takes => json!({ "properties": { "value": operand(takes) }, "required": ["value"] }),
        };
        json!({ "if": { "properties": { "op": { "const": row.name } }, "required": ["op"] }, "then": then })
    });
    rules.collect()
}

fn operand(takes: Takes) -> Value {
    let scalar = json!({ "type": ["string", "number", "boolean"] });
    match takes {
        Takes::Scalar => scalar,
        Takes::Scalars => json!({ "type": "array", "items": scalar }),
        Takes::Number => json!({ "type": "number" }),
        Takes::Flag => json!({ "type": "boolean" }),
        Takes::Text => json!({ "type": "string" }),
        Takes::Texts => json!({
            "anyOf": [
                { "type": "string" },
                { "type": "array", "items": { "type": "string" }, "minItems": 1 },
            ],
        }),
        Takes::Count => json!({ "type": "integer", "minimum": 0 }),
    }
}

fn one_target() -> Value {
    ["tool", "resource", "prompt", "skill"]
        .iter()
        .map(|field| json!({ "required": [field] }))
        .collect()
}
