//! The whole legality table, written out a second time: whoever changes an arrow must change it here as well.

use surestep_core::State;
use surestep_core::operation::{Event, Illegal, step};

/// A dash is an event that the state does not allow.
const TABLE: &str = "
                   intend    repeat    land       not_landed for_good  still     doubt     owner_over         approve  deny    skip     cancel     restore    ask_first
planned            intended  -         succeeded  -          -         -         -         planned            -        -       skipped  cancelled  in_doubt   -
awaiting_approval  -         -         succeeded  -          -         -         -         awaiting_approval  planned  denied  skipped  cancelled  in_doubt   -
intended           -         -         succeeded  retrying   failed    in_doubt  in_doubt  in_doubt           -        -       -        intended   in_doubt   -
in_doubt           -         intended  succeeded  retrying   failed    in_doubt  in_doubt  in_doubt           -        -       skipped  in_doubt   in_doubt   -
retrying           intended  -         succeeded  -          -         -         -         retrying           -        -       skipped  cancelled  in_doubt   awaiting_approval
succeeded          -         -         -          -          -         -         -         succeeded          -        -       -        succeeded  succeeded   -
failed             -         -         -          -          -         -         -         failed             -        -       -        failed     failed   -
denied             -         -         -          -          -         -         -         denied             -        -       -        denied     denied   -
skipped            -         -         -          -          -         -         -         skipped            -        -       -        skipped    skipped   -
cancelled          -         -         -          -          -         -         -         cancelled          -        -       -        cancelled  cancelled   -
";

fn column(event: Event) -> &'static str {
    match event {
        Event::Intend => "intend",
        Event::Repeat => "repeat",
        Event::Land => "land",
        Event::NotLanded => "not_landed",
        Event::NotLandedForGood => "for_good",
        Event::StillInDoubt => "still",
        Event::Doubt => "doubt",
        Event::OwnerOver => "owner_over",
        Event::AskFirst => "ask_first",
        Event::Approve => "approve",
        Event::Deny => "deny",
        Event::Skip => "skip",
        Event::Cancel => "cancel",
        Event::Restore => "restore",
    }
}

#[test]
fn every_state_meets_every_event_as_the_written_table_says() {
    let mut lines = TABLE.lines().filter(|line| !line.trim().is_empty());
    let columns: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((rows.len(), columns.len()), (State::ALL.len(), Event::ALL.len()));
    for state in State::ALL {
        let row = rows.iter().find(|row| row[0] == state.word()).unwrap();
        assert_eq!(row.len(), columns.len() + 1, "the row of {state}");
        for event in Event::ALL {
            let place = columns.iter().position(|name| *name == column(event)).unwrap();
            let expected = match row[place + 1] {
                "-" => Err(Illegal { state, event }),
                word => Ok(*State::ALL.iter().find(|s| s.word() == word).unwrap()),
            };
            assert_eq!(step(state, event), expected, "{state} meets {event:?}");
        }
    }
}

/// What each state means, apart from its arrows.
#[test]
fn a_settled_state_has_no_way_out_and_an_open_one_may_have_landed() {
    for state in State::ALL {
        let goes_on = Event::ALL.iter().filter_map(|e| step(state, *e).ok()).any(|next| next != state);
        assert_eq!(state.is_settled(), !goes_on, "{state}");
        let lands = step(state, Event::Land).is_ok();
        // A receipt may come after somebody had said that it did not land.
        assert_eq!(!state.is_settled(), lands, "{state}");
    }
    let words: std::collections::BTreeSet<_> = State::ALL.iter().map(|s| s.word()).collect();
    assert_eq!(words.len(), State::ALL.len(), "two states share a word, or one stands twice in ALL");
}
