use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::json::DEPTH_BODY_MAX;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Vectors {
    format: String,
    vectors: Vec<Vector>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    name: String,
    session: String,
    kind: String,
    repo: String,
    target: String,
    body: String,
    occurrence: u64,
    identity_fields: Option<Vec<String>>,
    canonical: String,
    identity: Option<String>,
    key: String,
}

fn vectors() -> Vec<Vector> {
    let file = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/keys/v1.json"));
    json::check(file, json::DEPTH_FILE_MAX).unwrap();
    let Vectors { format, vectors } = serde_json::from_str(file).unwrap();
    assert_eq!(format, "surestep.keys/1");
    vectors
}

fn seed<'a>(repo: &'a str, target: &'a str, body: &'a str) -> Seed<'a> {
    Seed { session: "fix-118", kind: "github.comment", repo, target, body, occurrence: 1 }
}

fn identity(body: &str, fields: &[&str]) -> Result<String, IdentityError> {
    identity_text(&Body::bind(body, 1 << 20).unwrap(), fields)
}

#[test]
fn every_published_vector_gives_its_canonical_text_and_key() {
    let vectors = vectors();
    assert!(vectors.len() >= 40, "{} vectors", vectors.len());
    for v in vectors {
        let name = &v.name;
        let body = Body::bind(&v.body, 1 << 20).unwrap();
        assert_eq!(body.as_str(), v.canonical, "{name}");
        json::is_canonical(&v.canonical, DEPTH_BODY_MAX).unwrap();
        let identity = v.identity_fields.map(|fields| {
            let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
            let text = identity_text(&body, &fields).unwrap();
            json::is_canonical(&text, DEPTH_BODY_MAX).unwrap();
            text
        });
        assert_eq!(identity, v.identity, "{name}");
        let key = Key::derive(&Seed {
            session: &v.session,
            kind: &v.kind,
            repo: &v.repo,
            target: &v.target,
            body: identity.as_deref().unwrap_or(body.as_str()),
            occurrence: v.occurrence,
        });
        assert_eq!(key.to_string(), v.key, "{name}");
    }
}

#[test]
fn published_keys_are_equal_only_where_the_vector_says_so() {
    let mut seen = HashMap::new();
    for v in vectors() {
        let other = seen.insert(v.key, v.name.clone());
        assert_eq!(other.is_some(), v.name.ends_with("the same key"), "{} and {other:?}", v.name);
    }
}

#[test]
fn the_control_vector_made_outside_the_project_holds() {
    let key = Key::derive(&seed("acme/site", "118", r#"{"body":"hi","n":1E2}"#));
    assert_eq!(key.to_string(), "v1:ec30de416a1b2ab4fec10fbe91ab2938");
}

#[test]
fn a_separator_inside_a_field_never_moves_a_border() {
    for separator in ["", "|", ":", "/", "#", "\n", "\0", ",", "\u{1f}", "\0\0\0\0\0\0\0\u{1}"] {
        let right = Key::derive(&seed("a", &format!("b{separator}c"), "{}"));
        let left = Key::derive(&seed(&format!("a{separator}b"), "c", "{}"));
        assert_ne!(left, right, "{separator:?}");
    }
    assert_ne!(Key::derive(&seed("r", "", "x")), Key::derive(&seed("r", "x", "")));
}

#[test]
fn every_field_of_the_seed_takes_part() {
    let base = seed("acme/site", "118", "{}");
    let others = [
        Seed { session: "fix-119", ..base },
        Seed { kind: "github.comments", ..base },
        Seed { repo: "Acme/site", ..base },
        Seed { target: "", ..base },
        Seed { body: "[]", ..base },
        Seed { occurrence: 2, ..base },
        Seed { occurrence: 3, ..base },
        Seed { occurrence: u64::MAX, ..base },
    ];
    let mut keys: Vec<Key> = others.iter().chain([&base]).map(Key::derive).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), others.len() + 1);
    assert_eq!(Key::derive(&Seed { occurrence: 0, ..base }), Key::derive(&base));
    // The second occurrence is one more field, not a digit at the end of the body.
    assert_ne!(Key::derive(&Seed { body: "{}2", ..base }), Key::derive(&Seed { occurrence: 2, ..base }));
}

#[test]
fn identity_keeps_the_named_fields_in_canonical_order() {
    let body = r#"{"ref":"main","auth_token":"t","sha":"0a","n":1.0,"in":{"sha":"no"}}"#;
    assert_eq!(identity(body, &["sha", "n", "ref", "gone"]).unwrap(), r#"{"n":1.0,"ref":"main","sha":"0a"}"#);
    assert_eq!(identity(body, &["n", "n"]).unwrap(), r#"{"n":1.0}"#);
    assert_eq!(identity(body, &["in"]).unwrap(), r#"{"in":{"sha":"no"}}"#);
    assert_eq!(identity(body, &[]).unwrap(), "{}");
    assert_eq!(identity("{}", &["sha"]).unwrap(), "{}");
    assert_eq!(identity(r#"{"a\"\n":1e1}"#, &["a\"\n"]).unwrap(), r#"{"a\"\n":1e1}"#);
    let every = r#"{"\\":1,"\"":2,"é":"\u0001","😀":[1,{"b":1,"a":2}]}"#;
    let bound = Body::bind(every, 1 << 20).unwrap();
    assert_eq!(identity(every, &["\\", "\"", "é", "😀"]).unwrap(), bound.as_str());
    for no_object in ["[]", "null", "1", "\"sha\"", "true", "[[\"sha\",1]]"] {
        assert_eq!(identity(no_object, &["sha"]), Err(IdentityError::NotAnObject), "{no_object}");
    }
}

#[test]
fn a_key_is_read_only_as_it_is_written() {
    let text = "v1:ec30de416a1b2ab4fec10fbe91ab2938";
    let key: Key = text.parse().unwrap();
    assert_eq!(
        (key.to_string(), format!("{key:?}"), key.hex()),
        (text.into(), text.into(), text[3..].into())
    );
    assert_eq!(serde_json::to_string(&key).unwrap(), format!("\"{text}\""));
    assert_eq!(serde_json::from_str::<Key>(&format!("\"{text}\"")).unwrap(), key);
    for bad in [
        "",
        "v1:",
        "ec30de416a1b2ab4fec10fbe91ab2938",
        "v2:ec30de416a1b2ab4fec10fbe91ab2938",
        "V1:ec30de416a1b2ab4fec10fbe91ab2938",
        "v1:EC30de416a1b2ab4fec10fbe91ab2938",
        "v1:+c30de416a1b2ab4fec10fbe91ab2938",
        "v1:ec30de416a1b2ab4fec10fbe91ab293",
        "v1:ec30de416a1b2ab4fec10fbe91ab29380",
        "v1:ec30de416a1b2ab4fec10fbe91ab293é",
        " v1:ec30de416a1b2ab4fec10fbe91ab2938",
    ] {
        bad.parse::<Key>().unwrap_err();
        serde_json::from_str::<Key>(&json::quote(bad)).unwrap_err();
    }
    assert_eq!("v9:é".parse::<Key>().unwrap_err().to_string(), "`v9:é` is no operation key");
    serde_json::from_str::<Key>("7").unwrap_err();
}

#[test]
fn keys_are_ordered_as_their_texts_are() {
    let mut keys: Vec<Key> =
        (0..200).map(|n| Key::derive(&Seed { occurrence: n, ..seed("r", "t", "{}") })).collect();
    keys.sort_unstable();
    assert!(keys.is_sorted_by_key(ToString::to_string));
}

#[test]
fn a_prefix_needs_four_digits() {
    let key: Key = "v1:ec30de416a1b2ab4fec10fbe91ab2938".parse().unwrap();
    for yes in ["ec30", "v1:ec30", "ec30de416a1b2ab4fec10fbe91ab2938", "v1:ec30de416a1b2ab4fec10fbe91ab2938"]
    {
        assert!(key.matches_prefix(yes), "{yes}");
    }
    for no in [
        "",
        "v1:",
        "v1:e",
        "ec3",
        "v1:ec3",
        "ec31",
        "EC30",
        "c30d",
        "v1:v1:ec30",
        "v2:ec30",
        " ec30",
        "ec30 ",
        "ec30de416a1b2ab4fec10fbe91ab29380",
    ] {
        assert!(!key.matches_prefix(no), "{no:?}");
    }
}

proptest! {
    #[test]
    fn two_seeds_have_one_key_only_if_they_are_equal(
        a in prop::array::uniform5("[ab|:]{0,2}"), b in prop::array::uniform5("[ab|:]{0,2}"), n in 1_u64..3, m in 1_u64..3,
    ) {
        let seed = |[session, kind, repo, target, body]: &[String; 5], occurrence| {
            Key::derive(&Seed { session, kind, repo, target, body, occurrence })
        };
        prop_assert_eq!(seed(&a, n) == seed(&b, m), a == b && n == m);
        prop_assert_eq!(seed(&a, n).to_string().parse::<Key>().unwrap(), seed(&a, n));
    }
}
