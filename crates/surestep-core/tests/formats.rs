//! Which formats are ours, which are newer, and which are none: the number is written in one way only.

#![allow(clippy::unwrap_used, reason = "test support")]

use surestep_core::commit::{FormatVersion, format_version};
use surestep_core::json::{DEPTH_FILE_MAX, canonical};
use surestep_core::plan::PlanError;
use surestep_core::{Commit, CommitError, Corrupt, Digest, Envelope, Plan};

/// How a version is written, and what it is.
const VERSIONS: &[(&str, Option<FormatVersion>)] = &[
    ("1", Some(FormatVersion::Ours)),
    ("2", Some(FormatVersion::Newer)),
    ("10", Some(FormatVersion::Newer)),
    ("4294967296", Some(FormatVersion::Newer)),
    ("99999999999999999999999999", Some(FormatVersion::Newer)),
    ("+1", None),
    ("-1", None),
    ("01", None),
    ("02", None),
    ("0", None),
    ("1.0", None),
    ("1 ", None),
    (" 1", None),
    ("1/1", None),
    ("\u{0661}", None),
    ("", None),
];

#[test]
fn a_version_is_written_in_one_way_only() {
    for (version, expected) in VERSIONS {
        assert_eq!(format_version(&format!("surestep.commit/{version}"), "surestep.commit/"), *expected);
        assert_eq!(format_version(&format!("surestep.plan/{version}"), "surestep.commit/"), None);
    }
}

/// A commit's text with these entries and this version, and the right sum.
fn sealed(version: &str, entries: &str) -> String {
    let bare = format!(
        r#"{{"at":"2026-11-30T21:12:18.123Z","entries":{entries},"epoch":1,"format":"surestep.commit/{version}","revision":1,"session":"s"}}"#
    );
    let bare = canonical(&bare, DEPTH_FILE_MAX).unwrap();
    format!("{},\"sum\":\"{}\"}}", bare.strip_suffix('}').unwrap(), Digest::of(bare.as_bytes()))
}

#[test]
fn a_document_is_read_refused_as_newer_or_refused_as_damaged_by_its_version_alone() {
    for (version, expected) in VERSIONS {
        let commit = Commit::parse(&sealed(version, "[]"));
        let envelope = Envelope::parse(
            format!(
                r#"{{"format":"surestep.envelope/{version}","requires":[],"session":"s","revision":0,"epoch":0,"status":"new","conversation":[],"journal":[],"counters":[]}}"#
            )
            .as_bytes(),
        );
        let plan =
            Plan::parse(format!(r#"{{"format":"surestep.plan/{version}","operations":[]}}"#).as_bytes());
        match expected {
            Some(FormatVersion::Ours) => {
                assert!(commit.is_ok() && envelope.is_ok() && plan.is_ok(), "{version}: {envelope:?}");
            }
            Some(FormatVersion::Newer) => {
                assert!(matches!(commit, Err(CommitError::TooNew { .. })), "{version}: {commit:?}");
                assert!(matches!(envelope, Err(Corrupt::TooNew { .. })), "{version}: {envelope:?}");
                assert!(matches!(plan, Err(PlanError::TooNew { .. })), "{version}: {plan:?}");
            }
            None => {
                assert!(matches!(commit, Err(CommitError::Shape { .. })), "{version}: {commit:?}");
                assert!(matches!(envelope, Err(Corrupt::Shape { .. })), "{version}: {envelope:?}");
                assert!(matches!(plan, Err(PlanError::Shape { .. })), "{version}: {plan:?}");
            }
        }
    }
}

#[test]
fn an_unknown_entry_is_newer_and_a_damaged_value_cannot_say_so_of_itself() {
    let newer = Commit::parse(&sealed("1", r#"[{"entry":"dreamt","of":"sheep"}]"#));
    assert!(matches!(newer, Err(CommitError::TooNew { .. })), "{newer:?}");
    for entries in [
        r#"[{"entry":"finished","lane":0,"turn":1,"outcome":"this version knows no entry `x`"}]"#,
        r#"[{"entry":"claimed","epoch":"this version knows no entry `x`","hold":"h","owner":"o"}]"#,
        r#""this version knows no entry `x`""#,
    ] {
        let damaged = Commit::parse(&sealed("1", entries));
        assert!(matches!(damaged, Err(CommitError::Shape { .. })), "{entries}: {damaged:?}");
    }
}
