//! How each command ends, in the last lines of its `--help`. The constants themselves stand in `surestep::exit`.

/// Where all of them stand.
macro_rules! exits {
    ($($before:literal,)? codes: $codes:literal) => {
        concat!($($before, "\n",)? "Exit codes: ", $codes, "; all of them: surestep --help")
    };
}

pub(super) const ALL: &str = "Exit codes: 0 done · 1 unexpected · 2 usage, plan or settings · 3 failed · 4 a person must \
    answer · 5 rests until a time · 6 held by another · 7 written by a newer version · 8 damaged · \
    9 not from this store's journal · 10 no such session · 11 store · 12 wait limit · 13 cancelled\n\
    New here? Run `surestep demo`.";

pub(super) const STEP: &str = exits!(
    codes: "0 completed · 2 refused · 3 failed · 4 a person must answer · 5 rests until a time · \
    6 held by another · 8 damaged · 11 store · 12 wait limit · 13 cancelled"
);

pub(super) const EXEC: &str = exits!(
    "The command runs without a shell. Its output is kept in the receipt (`--json`), not printed.\n\
    --check is one shell line (`sh -c`), and sees $SURESTEP_KEY like the command: exit 0 says that it landed, 1 that it \
    did not, anything else that nobody can tell.\n\
    Without --check, a command whose outcome was lost becomes a question for you.",
    codes: "0 landed · 2 refused · 3 failed · 4 a person must answer · 5 rests until a time · 6 held by another · \
    8 damaged · 11 store · 12 wait limit · 13 cancelled"
);

pub(super) const LIST: &str = exits!(codes: "0 done · 8 a session is damaged · 10 no such store · 11 store");

pub(super) const READ: &str = exits!(codes: "0 done · 8 damaged · 10 no such session · 11 store");

pub(super) const LOG: &str = exits!(
    "--follow ends when the session is finished, when a person must answer (the question and the commands for it are \
    printed), or with SIGINT. With --json each commit is one object on one line, and the last line says how it ended.",
    codes: "0 done · 8 damaged · 10 no such session · 11 store; with --follow as `resume`: 3 · 4 · 13, and 5 after a signal"
);

pub(super) const QUESTIONS: &str = exits!(codes: "0 nothing waits · 4 somebody must answer · 8 a session is damaged · 10 no such store · 11 store");

pub(super) const RESOLVE: &str = exits!(
    "There is no undo. The answer, your name and your reason are written into the journal.",
    codes: "0 recorded · 2 refused · 5 too early · 6 held by another · 8 damaged · 10 no such operation · 11 store"
);

pub(super) const DECIDE: &str = exits!(
    "There is no undo. The word, your name and your reason are written into the journal.",
    codes: "0 recorded · 2 refused · 6 held by another · 8 damaged · 10 no such operation · 11 store"
);

pub(super) const CANCEL: &str = exits!(
    "There is no undo. What landed stays landed. The word, your name and your reason are written into the journal. What \
    is in doubt is settled first: `resume` goes on with that, and ends the turn.",
    codes: "0 recorded · 2 refused · 6 held by another · 8 damaged · 10 no such session · 11 store"
);

pub(super) const EXPLAIN: &str =
    exits!(codes: "0 done · 2 no such code or kind · 8 damaged · 10 no such operation · 11 store");

pub(super) const SCHEMA: &str = exits!(codes: "0 done · 2 no such schema");

pub(super) const DOCTOR: &str = exits!(
    "It only looks, and makes nothing. Warnings do not change the exit code.",
    codes: "0 no problem · 2 settings or machine · 7 newer store · 8 damaged · 11 store"
);

pub(super) const DEMO: &str = exits!(codes: "0 done · 1 it could not be shown · 2 usage");

pub(super) const PRINT: &str = exits!(codes: "0 done · 1 it could not be written · 2 usage");

pub(super) const EXPORT: &str = exits!(
    "With --hand-off the session moves: it never runs here again, unless it is handed back. What may have \
    landed is looked up first; a session with an open doubt stays. Asked again for the same store, the same bytes are written.\n\
    A copy without --hand-off is for looking at: no store steps it.",
    codes: "0 done · 4 a doubt must be answered first · 5 rests until a time · 6 held by another · 8 damaged · \
    10 no such session · 11 store"
);

pub(super) const IMPORT: &str = exits!(
    "An envelope can come from a stranger: it is taken in only if every operation that is still to run is of \
    a kind that you allow, and no other kind ever runs in the turn that came with it. The same file twice is taken in once.",
    codes: "0 taken in · 2 refused · 7 newer · 8 damaged · 9 not from this store's journal · 11 store"
);

pub(super) const STEP_ENVELOPE: &str = exits!(
    "For relays in any language: one step, whatever may be left to do. The envelope may be new (with a plan), \
    an older state of a session of this store, or one that was handed off to it. Only kinds that are allowed run. The exit \
    code says why it rests; on an error nothing is written to stdout.",
    codes: "0 completed · 2 refused · 3 failed · 4 a person must answer · 5 rests until a time · 6 held by another · \
    7 newer · 8 damaged · 9 not from this store's journal · 11 store · 13 cancelled"
);

pub(super) const GC: &str = exits!(
    "Without --apply nothing is changed. A sealed session reads as before, and its next turn can be run. Of a pruned \
    one only a tombstone stays: it refuses every plan, so that nothing that it did is ever done again.",
    codes: "0 done, or nothing to do · 2 not what would be done now · 6 a session was held, and left · 8 damaged · \
    10 no such store · 11 store"
);

pub(super) const FSCK: &str = exits!(
    "Without --repair, --restored or --forget=ID nothing is changed, made or locked: it is safe beside running sessions.\n\
    --repair deletes nothing: what is damaged is moved into STORE/aside, with a report. A journal that had to be cut \
    goes on in doubt: every operation that may have run is looked up, or asked about, before anything else.",
    codes: "0 nothing is damaged, or all of it is repaired · 2 refused · 6 held by another · 7 newer · 8 damaged · \
    10 no such store · 11 store"
);
