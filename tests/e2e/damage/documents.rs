//! Every kind of damage to an envelope: nothing of it is read by halves.

use surestep::{Corrupt, Envelope};

use super::{Lab, commits::odd_documents, plan_of};

fn document() -> String {
    let lab = Lab::finished();
    lab.read().expect("it reads").to_json().expect("a document")
}

/// Of a turn that is in doubt.
fn open_document() -> String {
    let lab = Lab::new();
    lab.step(plan_of(&["1", "lost"])).envelope.to_json().expect("a document")
}

fn refused(bytes: &[u8], case: &str) -> Corrupt {
    let error = match Envelope::parse(bytes) {
        Ok(_) => panic!("{case}: it is read"),
        Err(error) => error,
    };
    assert!(!error.to_string().is_empty(), "{case}");
    error
}

#[test]
fn an_envelope_of_every_shorter_length_is_refused() {
    let text = document();
    for length in 0..text.len() {
        refused(&text.as_bytes()[..length], &format!("{length} bytes"));
    }
}

#[test]
fn a_flipped_bit_in_any_byte_of_an_envelope_is_refused() {
    for text in [document(), open_document()] {
        flip_each(text.into_bytes());
    }
}

fn flip_each(text: Vec<u8>) {
    assert!(Envelope::parse(&text).is_ok());
    for at in 0..text.len() {
        let mut flipped = text.clone();
        flipped[at] ^= 1 << (at % 8);
        let around = String::from_utf8_lossy(&text[at.saturating_sub(30)..text.len().min(at + 30)]);
        refused(&flipped, &format!("byte {at} of …{around}…"));
    }
}

#[test]
fn whatever_else_stands_in_an_envelopes_place_is_refused() {
    let text = document();
    for (case, bytes) in odd_documents(text.as_bytes()) {
        if case == "a line end behind it" {
            assert!(Envelope::parse(&bytes).is_ok(), "white space around an envelope does not count");
            continue;
        }
        let error = refused(&bytes, &case);
        assert_eq!(matches!(error, Corrupt::TooNew { .. }), case == "a newer format", "{case}: {error}");
    }
}

#[test]
fn an_envelope_that_contradicts_itself_is_refused() {
    let text = document();
    for (from, to) in [
        (r#""revision":6,"#, r#""revision":5,"#),
        (r#""epoch":1,"#, r#""epoch":2,"#),
        (r#""status":"completed""#, r#""status":"open""#),
        (r#""verdict":"done""#, r#""verdict":"do""#),
        (r#""content":"five""#, r#""content":"six""#),
        (r#""requires":[]"#, r#""requires":["time-travel"]"#),
    ] {
        assert!(text.contains(from), "{from}");
        // The journal's own commits are found by their sums; these are the fields beside it.
        let at = text.rfind(from).expect("there");
        let changed = format!("{}{to}{}", &text[..at], &text[at + from.len()..]);
        let first = text.replacen(from, to, 1);
        refused(changed.as_bytes(), to);
        refused(first.as_bytes(), to);
    }
}
