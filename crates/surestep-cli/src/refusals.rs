//! Why a person's word was refused, and what to say instead.

use surestep::core::Refused;
use surestep::{SessionId, StepError, Wall};

use crate::context::Context;
use crate::duration::left;
use crate::fail::Fail;
use crate::fails::bug;
use crate::{text, when};

pub(crate) fn of(cx: &Context, error: &Refused, session: &SessionId) -> Fail {
    let id = session.as_str();
    let step = StepError::Refused(error.clone());
    let fail = Fail::new(step.code(), step.exit_code(), text::line(&error.to_string()));
    match error {
        Refused::TooEarly { op, wait_ms } => {
            let now = Wall::new(jiff::Timestamp::now());
            let until = now.plus_ms(*wait_ms);
            let what = format!("it is too early to say that operation {op} did not land");
            Fail { what, until: Some(until), ..fail }
                .why(format!("an attempt may still land, or become visible, until {}", when::at(until, now)))
                .state("the answer was not recorded; the operation stays in doubt and was not run again")
                .next_if(cx.again.clone(), format!("in {}", left(*wait_ms)))
                .next_if(
                    cx.again_with("--now"),
                    "to take that risk on yourself; it is recorded as an override",
                )
        }
        Refused::NoSuchOperation => fail.state("nothing was recorded").next(cx.command(&["show", id])),
        Refused::NothingOpen => {
            Fail { what: format!("session {} has no open turn to cancel", text::tick(id)), ..fail }
                .state("nothing was recorded; the journal is as it was")
                .next(cx.command(&["show", id]))
        }
        Refused::NotAsked { .. } => {
            fail.state("nothing was recorded; the journal is as it was").next(cx.command(&["show", id]))
        }
        Refused::Moved { .. } => fail
            .state("nothing was recorded: the answer was about an attempt that is over")
            .next(cx.command(&["questions"])),
        Refused::Known { .. } => fail
            .state("nothing was recorded: what a late result says is not overruled")
            .next(cx.command(&["resume", id])),
        Refused::Held { .. } => fail
            .why(
                "what is true of the log now can be wrong a moment later, while the attempt is still at work",
            )
            .state("nothing was recorded")
            .next_if(
                cx.command(&["resume", id, "--wait"]),
                "waits until it is free, and looks what became of it",
            )
            .next_if(cx.again.clone(), "once it is free, if it is in doubt then"),
        Refused::Broken(_) | _ => bug(fail),
    }
}
