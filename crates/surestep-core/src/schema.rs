//! JSON Schemas of what is stored, made from the types that are stored. Tests only (feature `schema`): a checked-in
//! schema that is not the one made here fails (docs/decisions/0015-schemas-from-the-types.md).
//!
//! A schema describes the shape. What makes a text *true* (sums, chain, the fold, one value per name) no schema says.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema};

use crate::commit::{COMMIT_FORMAT, CommitFields};
use crate::document::{ENVELOPE_FORMAT, EnvelopeFields};
use crate::entry::Entry;
use crate::ids::{
    Attempt, Digest, Epoch, HoldId, Kind, OpNumber, RequestId, Revision, SessionId, TurnNumber,
};
use crate::limits::SESSION_ID_BYTES_MAX;
use crate::plan::{PLAN_FORMAT, Plan};
use crate::record::Raw;
use crate::time::Wall;
use crate::{Body, Key};

/// The schemas of the core's documents, by name.
#[must_use]
pub fn documents() -> Vec<(&'static str, Schema)> {
    let mut plan = of::<Plan>("plan", Some(PLAN_FORMAT));
    // A plan with a field that nobody reads is refused (docs/decisions/0003-unknown-plan-fields-are-refused.md).
    closed(&mut plan);
    if let Some(operation) = definition(&mut plan, "PlannedOperation") {
        closed(operation);
    }
    let mut commit = of::<CommitFields>("commit", Some(COMMIT_FORMAT));
    sealed(&mut commit);
    let mut envelope = of::<EnvelopeFields>("envelope", Some(ENVELOPE_FORMAT));
    if let Some(journal) = properties(&mut envelope).and_then(|p| p.get_mut("journal")?.as_object_mut()) {
        journal.insert("items".into(), json_schema!({ "$ref": "commit.json" }).to_value());
    }
    vec![("plan", plan), ("commit", commit), ("envelope", envelope)]
}

/// The schema of one type, named, with its `format` (or `schema`) field fixed where one is given.
#[must_use]
pub fn of<T: JsonSchema>(name: &str, format: Option<&str>) -> Schema {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    schema.insert("$id".into(), format!("{name}.json").into());
    schema.insert("title".into(), format.unwrap_or(name).into());
    let field =
        if properties(&mut schema).is_some_and(|p| p.get("format").is_some()) { "format" } else { "schema" };
    if let Some(format) = format {
        word(&mut schema, field, format);
    }
    schema
}

/// Adds the field `sum` of a sealed file.
pub fn sealed(schema: &mut Schema) {
    let sum = SchemaGenerator::default().root_schema_for::<Digest>();
    if let (Some(properties), Some(pattern)) = (properties(schema), sum.get("pattern")) {
        let mut sum =
            json_schema!({ "type": "string", "description": "The digest of the canonical text without it." });
        sum.insert("pattern".into(), pattern.clone());
        properties.insert("sum".into(), sum.to_value());
    }
    require(schema, "sum");
}

/// Allows no other field than those that are named.
pub fn closed(schema: &mut Schema) {
    schema.insert("additionalProperties".into(), false.into());
}

/// Adds or fixes a required field that holds one word.
pub fn word(schema: &mut Schema, field: &str, word: &str) {
    let mut fixed = Schema::default();
    fixed.insert("const".into(), word.into());
    if let Some(properties) = properties(schema) {
        properties.insert(field.into(), fixed.to_value());
    } else {
        let mut only = Schema::default();
        only.insert(field.into(), fixed.to_value());
        schema.insert("properties".into(), only.to_value());
    }
    require(schema, field);
}

/// Gives a journal entry the field that tells it apart.
pub(crate) struct Tag(pub(crate) &'static str);

impl schemars::transform::Transform for Tag {
    fn transform(&mut self, schema: &mut Schema) {
        word(schema, "entry", self.0);
    }
}

fn require(schema: &mut Schema, field: &str) {
    let mut required: Vec<String> = schema
        .get("required")
        .and_then(|r| r.as_array())
        .map(|names| names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect())
        .unwrap_or_default();
    if !required.iter().any(|name| name == field) {
        required.push(field.to_owned());
    }
    schema.insert("required".into(), required.into());
}

fn properties(schema: &mut Schema) -> Option<&mut Schema> {
    schema.get_mut("properties")?.try_into().ok()
}

fn definition<'a>(schema: &'a mut Schema, name: &str) -> Option<&'a mut Schema> {
    schema.get_mut("$defs")?.get_mut(name)?.try_into().ok()
}

impl JsonSchema for Entry {
    fn schema_name() -> Cow<'static, str> {
        "Entry".into()
    }

    fn json_schema(all: &mut SchemaGenerator) -> Schema {
        let mut schema = Schema::default();
        let entries: Vec<_> = Self::schemas(all).into_iter().map(Schema::to_value).collect();
        schema.insert("oneOf".into(), entries.into());
        schema
    }
}

macro_rules! leaf {
    ($($type:ty: $schema:tt;)*) => {
        $(impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        })*
    };
}

leaf! {
    Raw: {};
    Body: {};
    Digest: { "type": "string", "pattern": "^sha256:[0-9a-f]{64}$" };
    Key: { "type": "string", "pattern": "^v1:[0-9a-f]{32}$" };
    Wall: { "type": "string", "format": "date-time" };
    SessionId: { "type": "string", "minLength": 1, "maxLength": SESSION_ID_BYTES_MAX };
    Kind: { "type": "string", "minLength": 1, "maxLength": 100 };
    HoldId: { "type": "string", "minLength": 1, "maxLength": 100 };
    RequestId: { "type": "string", "minLength": 1, "maxLength": 100 };
    Revision: { "type": "integer", "minimum": 0 };
    Epoch: { "type": "integer", "minimum": 0 };
    Attempt: { "type": "integer", "minimum": 0 };
    OpNumber: { "type": "integer", "minimum": 0 };
    TurnNumber: { "type": "integer", "minimum": 0 };
}
