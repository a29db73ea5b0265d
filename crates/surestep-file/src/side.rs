//! The parsers of the small files, from bytes: for fuzzing and fixtures, no part of the interface.

use std::fmt::Debug;
use std::path::Path;

use surestep::StoreError;

use crate::{guards, mailbox, marks, open, pruned, sealed};

/// Names of the parsers, as [`read`] takes them.
pub const KINDS: &[&str] = &["late", "request", "mark", "root", "pruned", "store", "guard"];

/// Reads a file of one kind, and says what stands in it.
///
/// # Errors
/// As the store's own reading.
pub fn read(kind: &str, bytes: &[u8]) -> Result<String, StoreError> {
    // A guard's record is compared with its place.
    let file = Path::new("0001-1.json");
    match kind {
        "late" => mailbox::read_late(file, bytes).map(say),
        "request" => mailbox::read_request(file, bytes).map(say),
        "mark" => marks::parse(file, bytes).map(say),
        "root" => marks::parse_root(file, bytes).map(say),
        "pruned" => pruned::parse(file, bytes).map(say),
        "store" => open::parse_id(file, bytes),
        "guard" => guards::read(file, bytes, "s").map(|record| say(record.evidence())),
        _ => Err(StoreError::Other(format!("no `{kind}`"))),
    }
}

/// Seals a JSON object as the store does.
///
/// # Errors
/// When it is no strict JSON.
pub fn seal(object: &str) -> Result<String, StoreError> {
    sealed::seal(object)
}

/// The schemas of these files, by name.
#[cfg(feature = "schema")]
#[must_use]
pub fn schemas() -> Vec<(&'static str, schemars::Schema)> {
    use surestep::core::schema::{of, sealed};
    let mut all = vec![
        ("late", of::<mailbox::LateFile>("late", Some("surestep.late/1"))),
        ("request", of::<mailbox::RequestFile>("request", Some("surestep.request/1"))),
        ("mark", of::<marks::MarkFile>("mark", Some("surestep.mark/1"))),
        ("root", of::<marks::RootFile>("root", Some("surestep.root/1"))),
        ("pruned", of::<pruned::PrunedFile>("pruned", Some("surestep.pruned/1"))),
        ("guard", of::<guards::Record>("guard", Some("surestep.guard/1"))),
    ];
    all.iter_mut().for_each(|(_, schema)| sealed(schema));
    all.push(("store", of::<open::StoreFile>("store", Some("surestep.store/1"))));
    all
}

fn say(read: impl Debug) -> String {
    format!("{read:?}")
}
