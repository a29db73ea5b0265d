//! Every kind of damage to a commit, in-process: a typed refusal that names the file, and nothing changed.

use surestep::core::commit::CommitFields;
use surestep::{Commit, Digest, Epoch, Revision, SessionId, StepError, StoreError, exit};

use super::{Lab, plan, things};

/// Puts bytes into a commit's place, tries to read and to step, and puts the right ones back.
struct Bench {
    lab: Lab,
    tried: usize,
}

impl Bench {
    fn new() -> Self {
        Self { lab: Lab::finished(), tried: 0 }
    }

    fn text(&self, revision: u64) -> Vec<u8> {
        std::fs::read(self.lab.commit(revision)).expect("a commit")
    }

    /// A refusal as damaged or newer, from reading and from stepping, whose file is unchanged.
    fn refused(&mut self, revision: u64, bytes: &[u8], case: &str) -> StepError {
        let file = self.lab.commit(revision);
        let whole = std::fs::read(&file).expect("a commit");
        assert_ne!(whole, bytes, "{case}: it is no damage");
        std::fs::write(&file, bytes).expect("written");
        let error = self.looks_refused(case);
        std::fs::write(&file, whole).expect("written");
        error
    }

    fn looks_refused(&mut self, case: &str) -> StepError {
        self.tried += 1;
        let before = things(&self.lab.root());
        let landed = self.lab.world.landings();
        let read = self.lab.read().expect_err(case);
        let stepped = self.lab.drive(Some(plan())).expect_err(case);
        for error in [&read, &stepped] {
            assert!([exit::INTEGRITY, exit::VERSION].contains(&error.exit_code()), "{case}: {error:?}");
            assert!(!error.to_string().is_empty() && !error.code().is_empty());
            if let StepError::Store { source: StoreError::Corrupt { file, why, .. }, .. } = error {
                assert!(
                    file.starts_with(self.lab.root().canonicalize().expect("a root")),
                    "{case}: {file:?}"
                );
                assert!(!why.is_empty());
            }
        }
        assert_eq!(things(&self.lab.root()), before, "{case}: bytes and inodes are as they were");
        assert_eq!(self.lab.world.landings(), landed, "{case}: nothing ran");
        read
    }
}

#[test]
fn a_commit_of_every_shorter_length_is_refused() {
    let mut bench = Bench::new();
    for revision in [1, 3, 6] {
        let text = bench.text(revision);
        // Each length of a small one; of the long first one each of the last, and every seventh.
        for length in (0..text.len()).filter(|n| revision != 1 || n % 7 == 0 || text.len() - n < 80) {
            bench.refused(revision, &text[..length], &format!("commit {revision}, {length} bytes"));
        }
    }
    assert!(bench.tried > 1_000, "{}", bench.tried);
}

#[test]
fn a_flipped_bit_in_any_byte_of_a_commit_is_refused() {
    let mut bench = Bench::new();
    let text = bench.text(6);
    for at in 0..text.len() {
        let mut flipped = text.clone();
        flipped[at] ^= 1 << (at % 8);
        bench.refused(6, &flipped, &format!("byte {at}"));
    }
    // Every other bit, by the parser alone.
    for at in 0..text.len() * 8 {
        let mut flipped = text.clone();
        flipped[at / 8] ^= 1 << (at % 8);
        let parsed = std::str::from_utf8(&flipped).map(Commit::parse);
        assert!(!matches!(parsed, Ok(Ok(_))), "bit {at}");
    }
}

#[test]
fn whatever_else_stands_in_a_commits_place_is_refused() {
    let mut bench = Bench::new();
    for (case, bytes) in odd_documents(&bench.text(3)) {
        bench.refused(3, &bytes, &case);
        // The last one is no exception.
        let text = bench.text(6);
        if text != bytes {
            bench.refused(6, &bytes, &format!("last: {case}"));
        }
    }
    assert!(bench.tried > 60, "{}", bench.tried);
}

/// Documents that are not the one given, by what is wrong with them.
pub(super) fn odd_documents(text: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut odd: Vec<(String, Vec<u8>)> = Vec::new();
    let mut add = |case: &str, bytes: Vec<u8>| odd.push((case.to_owned(), bytes));
    let length = text.len();
    let blanked = |from: usize, to: usize| {
        let mut text = text.to_vec();
        text[from..to].fill(0);
        text
    };
    add("nothing", vec![]);
    add("two bytes", b"{}".to_vec());
    add("two zero bytes", vec![0, 0]);
    add("zeros at the start", blanked(0, 64));
    add("zeros in the middle", blanked(length / 2, length / 2 + 64));
    add("zeros at the end", blanked(length - 64, length));
    add("all zeros", vec![0; length]);
    add("zeros behind it", [text, &[0; 512]].concat());
    add("twice", [text, text].concat());
    add("twice, on two lines", [text, b"\n", text].concat());
    add("one brace more", [text, b"}"].concat());
    add("one brace before", [b"{", text].concat());
    add("a line end behind it", [text, b"\n"].concat());
    add("a byte-order mark", [b"\xef\xbb\xbf", text].concat());
    let utf16 = |bom: &[u8], big: bool| {
        let string = String::from_utf8_lossy(text).into_owned();
        let unit = |u: u16| if big { u.to_be_bytes() } else { u.to_le_bytes() };
        [bom.to_vec(), string.encode_utf16().flat_map(unit).collect()].concat()
    };
    add("UTF-16", utf16(b"\xff\xfe", false));
    add("UTF-16, big end first", utf16(b"\xfe\xff", true));
    add("UTF-16 without a mark", utf16(b"", false));
    add("no UTF-8", [&text[..length / 2], b"\xff", &text[length / 2..]].concat());
    let string = String::from_utf8(text.to_vec()).expect("text");
    let first = string.strip_prefix('{').expect("an object");
    let with = |member: &str| format!("{{{member},{first}").into_bytes();
    for unit in ["\\ud800", "\\udfff", "\\ud83dx"] {
        add("a lone surrogate", with(&format!("\"a\":\"{unit}\"")));
    }
    for depth in [200, 100_000] {
        add("deep lists", with(&format!("\"a\":{}{}", "[".repeat(depth), "]".repeat(depth))));
        add("deep objects", with(&format!("\"a\":{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth))));
        add("deep and open", "[".repeat(depth).into_bytes());
    }
    add("a foreign object", br#"{"name":"left-pad","version":"1.3.0"}"#.to_vec());
    for foreign in ["[]", "null", "true", "1", "\"text\"", "<html>", "NaN"] {
        add(foreign, foreign.as_bytes().to_vec());
    }
    add("another format", string.replacen("/1\"", "/0\"", 1).into_bytes());
    add("a newer format", string.replacen("/1\"", "/2\"", 1).into_bytes());
    // Each object's first member once more.
    let starts: Vec<usize> = string.match_indices("{\"").map(|(at, _)| at).collect();
    for at in starts.into_iter().take(12) {
        let rest = &string[at + 1..];
        let key = &rest[..rest[1..].find('"').map_or(0, |end| end + 2)];
        add("a key twice", format!("{}{{{key}:null,{rest}", &string[..at]).into_bytes());
    }
    odd
}

fn fields(text: &[u8]) -> CommitFields {
    Commit::parse(std::str::from_utf8(text).expect("text")).expect("a commit").into_fields()
}

#[test]
fn a_whole_commit_that_contradicts_its_place_is_refused() {
    let mut bench = Bench::new();
    let right = fields(&bench.text(3));
    let sealed = |fields: CommitFields| Commit::seal(fields).expect("sealed").text().as_bytes().to_vec();
    let other = fields(&bench.text(2));
    let opened = fields(&bench.text(1)).entries;
    let cases = [
        ("another session", CommitFields { session: SessionId::new("t").expect("an id"), ..right.clone() }),
        ("another revision", CommitFields { revision: Revision::new(4), ..right.clone() }),
        ("no predecessor", CommitFields { prev: None, ..right.clone() }),
        ("another predecessor", CommitFields { prev: Some(Digest::of(b"x")), ..right.clone() }),
        ("another epoch", CommitFields { epoch: Epoch::new(7), ..right.clone() }),
        ("no entries, so what follows does not follow", CommitFields { entries: vec![], ..right.clone() }),
        ("the entries of the one before", CommitFields { entries: other.entries, ..right.clone() }),
        ("opened again", CommitFields { entries: opened, ..right.clone() }),
    ];
    for (case, fields) in cases {
        bench.refused(3, &sealed(fields), case);
    }
    let twice = [right.entries.clone(), right.entries.clone()].concat();
    bench.refused(3, &sealed(CommitFields { entries: twice, ..right }), "each entry twice");
}

#[test]
fn a_gap_a_swapped_pair_and_an_emptied_journal_are_refused() {
    for revision in 1..=5 {
        let mut bench = Bench { lab: Lab::finished(), tried: 0 };
        let file = bench.lab.commit(revision);
        std::fs::rename(&file, file.with_extension("gone")).expect("moved");
        bench.looks_refused(&format!("commit {revision} is gone"));
    }
    for revision in 1..=5 {
        let mut bench = Bench { lab: Lab::finished(), tried: 0 };
        let (one, two) = (bench.lab.commit(revision), bench.lab.commit(revision + 1));
        let hold = one.with_extension("hold");
        for (from, to) in [(&one, &hold), (&two, &one), (&hold, &two)] {
            std::fs::rename(from, to).expect("moved");
        }
        bench.looks_refused(&format!("commits {revision} and {} are swapped", revision + 1));
    }
    let mut bench = Bench { lab: Lab::finished(), tried: 0 };
    for revision in 1..=6 {
        std::fs::remove_file(bench.lab.commit(revision)).expect("removed");
    }
    bench.looks_refused("the journal is empty");
    std::fs::remove_dir(bench.lab.journal()).expect("removed");
    bench.looks_refused("the journal is gone");
    std::fs::write(bench.lab.journal(), "").expect("written");
    bench.looks_refused("a file stands in the journal's place");
}
