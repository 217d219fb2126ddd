//! JSON Schemas of the argument and output types of tools, in the plain form that clients know:
//! everything inline, no names of Rust types, no formats of Rust numbers.

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value};

/// The schema of arguments.
pub(crate) fn of_arguments<T: JsonSchema>() -> Map<String, Value> {
    generate::<T>(settings().for_deserialize())
}

/// The schema of an output.
pub(crate) fn of_output<T: JsonSchema>() -> Map<String, Value> {
    generate::<T>(settings().for_serialize())
}

fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    })
}

fn generate<T: JsonSchema>(settings: SchemaSettings) -> Map<String, Value> {
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    RecursiveTransform(simplify).transform(&mut schema);
    schema.remove("title");
    let mut members = schema.as_object().cloned().unwrap_or_default();
    members.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    members
}

/// Drops what only describes the Rust type: number formats, the range of unsigned numbers, and that a
/// map may have any member.
fn simplify(schema: &mut Schema) {
    let format = schema.remove("format");
    let is_unsigned =
        format.as_ref().and_then(Value::as_str).is_some_and(|f| f.starts_with("uint"));
    if is_unsigned {
        schema.remove("minimum");
        schema.remove("maximum");
    }
    if schema.get("additionalProperties") == Some(&Value::Bool(true)) {
        schema.remove("additionalProperties");
    }
}
