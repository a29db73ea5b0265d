//! The kinds of effect that this binary carries out.

use std::path::Path;
use std::sync::Arc;

use surestep::{Effect, Recovery};
use surestep_effects::guard::Guard;

/// The hidden argument by which this program becomes its own guard.
pub(crate) const GUARD_ARG: &str = "__guard";

/// Every built-in kind with its recovery, for a store in this folder. Commands do not inherit variables with the prefix
/// of secrets.
pub(crate) fn builtin(store: &Path, secrets: &str) -> Vec<(Arc<dyn Effect>, Recovery)> {
    surestep_effects::builtin_for(Guard::own_exe(GUARD_ARG).hiding(secrets), store)
}

/// Their names.
pub(crate) fn names() -> Vec<String> {
    builtin(Path::new(""), "").iter().map(|(effect, _)| effect.kind().to_string()).collect()
}

/// What `explain kind` prints.
pub(crate) fn describe(kind: &str) -> Option<String> {
    surestep_effects::describe(kind).map(str::to_owned)
}
