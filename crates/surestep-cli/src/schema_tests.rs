//! The checked-in schemas are those that the types make. `SURESTEP_WRITE_SCHEMAS=1` writes them anew.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use surestep::core::schema::{documents, word};
use surestep_file::side;

use super::{SCHEMAS, SchemaObject};
use crate::completions::{CompletionsObject, ManObject};
use crate::demo::DemoObject;
use crate::doctor::DoctorObject;
use crate::dry::DryObject;
use crate::explain::{OperationObject, PageObject};
use crate::fail::FailObject;
use crate::follow::{CommitLine, EndLine};
use crate::fsck::FsckObject;
use crate::gc::GcObject;
use crate::list::ListObject;
use crate::log::LogObject;
use crate::matching::MatchingObject;
use crate::moves::ExportObject;
use crate::questions::QuestionsObject;
use crate::resolve::AnswerObject;
use crate::restored::{ForgetObject, RestoredObject};
use crate::run::ResumeObject;
use crate::view::SessionView;

/// `explain` prints one of two objects.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is made")]
enum Explained {
    Page(PageObject),
    Operation(Box<OperationObject>),
}

fn output<T: JsonSchema>(command: &str) -> Schema {
    let mut schema =
        SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
    let title = format!("surestep.{command}/1");
    schema.insert("$id".into(), format!("{command}.json").into());
    schema.insert("title".into(), title.clone().into());
    word(&mut schema, "schema", &title);
    schema
}

fn made() -> BTreeMap<&'static str, Schema> {
    let mut all: BTreeMap<&str, Schema> = documents().into_iter().chain(side::schemas()).collect();
    for command in ["run", "exec", "import", "show"] {
        all.insert(command, output::<SessionView>(command));
    }
    for command in ["resolve", "approve", "deny", "cancel"] {
        all.insert(command, output::<AnswerObject>(command));
    }
    all.insert("completions", output::<CompletionsObject>("completions"));
    all.insert("doctor", output::<DoctorObject<'static>>("doctor"));
    all.insert("dry_run", output::<DryObject>("dry_run"));
    all.insert("log.commit", output::<CommitLine<'static>>("log.commit"));
    all.insert("log.end", output::<EndLine<'static>>("log.end"));
    all.insert("man", output::<ManObject>("man"));
    all.insert("resolve_matching", output::<MatchingObject>("resolve_matching"));
    all.insert("demo", output::<DemoObject>("demo"));
    all.insert("error", output::<FailObject<'static>>("error"));
    all.insert("explain", output::<Explained>("explain"));
    all.insert("export", output::<ExportObject<'static>>("export"));
    all.insert("forget", output::<ForgetObject<'static>>("forget"));
    all.insert("fsck", output::<FsckObject>("fsck"));
    all.insert("gc", output::<GcObject>("gc"));
    all.insert("list", output::<ListObject>("list"));
    all.insert("log", output::<LogObject>("log"));
    all.insert("questions", output::<QuestionsObject>("questions"));
    all.insert("restored", output::<RestoredObject>("restored"));
    all.insert("resume", output::<ResumeObject>("resume"));
    all.insert("schema", output::<SchemaObject>("schema"));
    all
}

#[test]
fn the_checked_in_schemas_are_those_that_the_types_make() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/schemas"));
    let made = made();
    let listed: BTreeMap<&str, &str> = SCHEMAS.iter().copied().collect();
    assert_eq!(made.keys().collect::<Vec<_>>(), listed.keys().collect::<Vec<_>>());
    for (name, schema) in &made {
        let mut text = serde_json::to_string_pretty(schema).unwrap();
        text.push('\n');
        if std::env::var_os("SURESTEP_WRITE_SCHEMAS").is_some() {
            std::fs::write(folder.join(format!("{name}.json")), &text).unwrap();
        } else {
            assert_eq!(listed[name], text, "fixtures/schemas/{name}.json is stale: see the top of this file");
        }
    }
}

#[test]
fn every_object_that_a_command_prints_has_a_schema() {
    let mut missing = Vec::new();
    let mut folders = vec![PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.path().is_dir() {
                folders.push(entry.path());
                continue;
            }
            let text = std::fs::read_to_string(entry.path()).unwrap();
            for (at, _) in text.match_indices("\"surestep.") {
                let named = text[at + 10..].split('"').next().unwrap();
                if let Some(name) = named.strip_suffix("/1")
                    && !name.starts_with('{')
                    && !SCHEMAS.iter().any(|(known, _)| *known == name)
                {
                    missing.push(format!("{}: {named}", entry.path().display()));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}
