//! Whether a session that lost commits may go on at this store: a lost commit may have handed it off.

use std::path::Path;

use surestep::{Envelope, Revision, StoreError};

use crate::check_session::Looked;
use crate::disk::Disk;
use crate::fault::corrupt;
use crate::repair::Bench;

/// A session that was handed off, as its good commits or what is left of the lost ones say, is not gone on with here:
/// two stores could step it then.
pub(crate) fn lives_here<D: Disk>(
    bench: &Bench<'_, D>,
    looked: &Looked,
    folded: &Envelope,
    cut: Revision,
) -> Result<(), StoreError> {
    let file = looked.place.journal();
    if let Some(elsewhere) = folded.session().elsewhere(&bench.store) {
        return Err(corrupt(
            file,
            0,
            format!("the session lives at store {elsewhere}: nothing is moved here"),
        ));
    }
    for revision in looked.files.iter().filter(|revision| **revision >= cut) {
        let file = looked.place.commit(*revision);
        // What is no file says nothing.
        let text = disk_text(bench, &file);
        let opened_elsewhere = store_in(&text).is_some_and(|store| store != bench.store);
        if opened_elsewhere || hands_off(&text) {
            let why =
                "this commit is lost, and says that the session went to another store: nothing is moved here";
            return Err(corrupt(file, 0, why));
        }
    }
    Ok(())
}

fn disk_text<D: Disk>(bench: &Bench<'_, D>, file: &Path) -> String {
    String::from_utf8_lossy(&bench.disk.read(file).unwrap_or_default()).into_owned()
}

/// Whether a text that may be damaged holds a hand-off. Inside a string the quotes would be escaped.
fn hands_off(text: &str) -> bool {
    let is_id = |rest: &str| {
        rest.get(..33).is_some_and(|id| {
            id.ends_with('"') && id.bytes().take(32).all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        })
    };
    text.contains("\"entry\":\"handed_off\"")
        || text.match_indices("\"to\":\"").any(|(at, to)| text.get(at + to.len()..).is_some_and(is_id))
}

/// The store that a text names as its home.
fn store_in(text: &str) -> Option<&str> {
    text.split_once("\"store\":\"").and_then(|(_, rest)| rest.split('"').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_hand_off_is_recognised() {
        let id = "0123456789abcdef0123456789abcdef";
        let whole = format!(r#"{{"entry":"handed_off","epoch":2,"to":"{id}"}}"#);
        assert!(hands_off(&whole));
        for at in 0..whole.len() {
            let mut flipped = whole.clone().into_bytes();
            flipped[at] ^= 1;
            assert!(hands_off(&String::from_utf8_lossy(&flipped)), "{at}");
        }
        assert!(!hands_off(r#"{"body":"{\"entry\":\"handed_off\"}","to":"somebody"}"#));
        assert_eq!(store_in(&format!(r#"{{"store":"{id}","x":1}}"#)), Some(id));
    }
}
