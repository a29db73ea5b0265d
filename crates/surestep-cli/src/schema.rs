//! `schema`: the JSON Schemas of what surestep reads, stores and prints, inside the binary.

use serde::Serialize;
use surestep::core::plan::nearest;
use surestep::exit;

use crate::context::Context;
use crate::fail::Fail;
use crate::text::{self, tick};

macro_rules! schemas {
    ($($name:literal),* $(,)?) => {
        /// Name and text of each: what is checked in is what the types say (`schema_tests`).
        pub(crate) const SCHEMAS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../fixtures/schemas/", $name, ".json")))),*];
    };
}

// First what is read and stored, then what commands print with `--json`.
schemas! {
    "plan", "envelope", "commit", "late", "request", "mark", "root", "pruned", "guard", "store",
    "approve", "cancel", "completions", "demo", "deny", "doctor", "dry_run", "error", "exec", "explain",
    "export", "forget", "fsck", "gc", "import", "list", "log", "log.commit", "log.end", "man", "questions",
    "resolve", "resolve_matching", "restored", "resume", "run", "schema", "show",
}

/// `surestep.schema/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SchemaObject {
    schema: &'static str,
    exit: u8,
    names: Vec<&'static str>,
}

/// `schema [NAME]`.
pub(crate) fn schema(cx: &Context, name: Option<&str>) -> Result<u8, Fail> {
    let names: Vec<&str> = SCHEMAS.iter().map(|(name, _)| *name).collect();
    let Some(name) = name else {
        names.iter().for_each(|name| cx.out.put(name));
        cx.out.object(&SchemaObject { schema: "surestep.schema/1", exit: exit::DONE, names });
        return Ok(exit::DONE);
    };
    let Some((_, text)) = SCHEMAS.iter().find(|(known, _)| *known == name) else {
        let fail =
            Fail::usage("SE0107", format!("there is no schema {}", tick(name))).state("nothing was read");
        return Err(match nearest(name, &names) {
            Some(near) => fail.next(text::command(["surestep", "schema", &near])),
            None => fail.next("surestep schema"),
        });
    };
    cx.out.document(text.trim_end());
    Ok(exit::DONE)
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
