//! What people read, as snapshots: each holds what happened, what was not done, and the exact next command.

use crate::{Desk, LOCAL, Said, shell};

/// Runs the assertion with everything replaced that differs from run to run.
macro_rules! snapshot {
    ($name:literal, $text:expr) => {{
        let mut settings = insta::Settings::clone_current();
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        for (pattern, with) in [
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "[time]"),
            (r"\((now|\d+ (s|min) ago|in \d+ (s|min))\)", "([ago])"),
            (r"\bfrom \d\d:\d\d:\d\dZ", "from [time]"),
            (r"\bin \d+ (s|min)\b", "in [span]"),
            (r"for \d+(\.\d)? (s|min)\b", "for [span]"),
            (r"\((\d+(\.\d)?) (ms|s)\)", "([took])"),
            (r"journal, \d+(\.\d)? (ms|s)", "journal, [took]"),
            (r"(?m)^ +\d+\.\d\d s  ", "   [at] s  "),
            (r"\S+ pid \d+", "[owner]"),
            (r"ann@\S+?([:\n])", "ann@[host]$1"),
            (r"(epoch \d+)  [0-9a-f]{12}", "$1  [sum]"),
            (r"\S*/surestep-demo-\w+", "[dir]"),
            (r"waits \d+(\.\d)? (s|min)", "waits [span]"),
            (r"sleeps \d+(\.\d)? (s|min)", "sleeps [span]"),
        ] {
            settings.add_filter(pattern, with);
        }
        settings.bind(|| insta::assert_snapshot!($name, $text));
    }};
}

impl Said {
    /// Both streams, as a terminal would show them one after the other.
    fn screen(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

/// One done, one in doubt, one not started.
fn doubtful() -> Desk {
    let desk = Desk::new();
    let operations = [
        shell("notes", "echo x > notes", LOCAL),
        shell("118", "echo 'the server hung up' >&2; exit 9", LOCAL),
        shell("label", "true", LOCAL),
    ];
    desk.plan("p.json", "fix-118", &operations);
    desk
}

#[track_caller]
fn holds(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "`{word}` in\n{text}");
    }
}

#[test]
fn run_show_log_questions_explain() {
    let desk = doubtful();
    let run = desk.run(&["run", "p.json"]).exits(4).fails("SE0412").screen();
    holds(&run, &["operation 3 was not started", "surestep resolve fix-118 2 --landed"]);
    snapshot!("run_in_doubt", run);

    let show = desk.run(&["show", "fix-118"]).exits(0).screen();
    holds(
        &show,
        &[
            "effect outcome unknown: shell on site#118",
            "was not run again",
            "operation 3 was not started",
            "surestep resolve fix-118 2 --landed",
        ],
    );
    snapshot!("show", show);

    let log = desk.run(&["log", "fix-118"]).exits(0).screen();
    holds(&log, &["intended", "doubted", "released"]);
    snapshot!("log", log);

    let questions = desk.run(&["questions"]).exits(4).screen();
    holds(
        &questions,
        &[
            "shell on site#118",
            "attempt 1 began",
            "the server hung up",
            "was not run again",
            "if that is wrong",
            "--landed",
            "--not-landed",
            "--skip",
        ],
    );
    snapshot!("questions", questions);

    let explain = desk.run(&["explain", "fix-118", "2"]).exits(0).screen();
    holds(
        &explain,
        &["it may have, so it is not run again", "made anew just now: equal", "surestep resolve fix-118 2"],
    );
    snapshot!("explain_operation", explain);

    let dry = desk
        .run(&["resolve", "fix-118", "2", "--not-landed", "--because", "seen", "--dry-run"])
        .exits(0)
        .screen();
    snapshot!("resolve_dry_run", dry);
    let answer =
        desk.run(&["resolve", "fix-118", "2", "--landed", "--because", "it is there"]).exits(0).screen();
    holds(&answer, &["recorded: operation 2", "nothing was started", "surestep resume fix-118"]);
    snapshot!("resolve", answer);
    snapshot!("resume", desk.run(&["resume", "fix-118"]).exits(0).screen());
    snapshot!("list", desk.run(&["list"]).exits(0).screen());
}

#[test]
fn an_error_page() {
    let desk = Desk::new();
    let page = desk.run(&["explain", "code", "SE0412"]).exits(0).screen();
    holds(&page, &["## What happened", "## What was not done", "surestep resolve"]);
    snapshot!("explain_code", page);
}

#[test]
fn the_demo_loses_nothing_and_does_nothing_twice() {
    let desk = Desk::new();
    let demo = desk.run(&["demo"]).exits(0).screen();
    holds(
        &demo,
        &[
            "SIGKILL",
            "looked: it landed",
            "via reconciled",
            "push     once",
            "request  once",
            "label    once",
            "comment  once",
            "next: surestep demo --no-check",
        ],
    );
    snapshot!("demo", demo);
}

#[test]
fn the_demo_without_a_check_asks_and_is_answered() {
    let desk = Desk::new();
    let demo = desk.run(&["demo", "--no-check"]).exits(0).screen();
    holds(
        &demo,
        &[
            "SIGKILL",
            "effect outcome unknown",
            "was not run again",
            "surestep resolve fix-118 4 --landed",
            "via operator",
            "request  once",
        ],
    );
    snapshot!("demo_no_check", demo);
}

#[test]
fn the_demo_keeps_its_folder_only_where_it_may() {
    let desk = Desk::new();
    desk.file("full", "");
    desk.run(&["demo", "--keep", "."]).exits(2).fails("SE0113");
    let said = desk.run(&["demo", "--keep", "kept"]).exits(0);
    assert!(said.stdout.contains("look around: surestep --store "), "{said:?}");
    assert!(desk.path().join("kept/remote.git/landings.log").exists());
}

#[test]
fn mistake_1_no_session_named() {
    let desk = Desk::new();
    desk.file("plan.json", r#"{"format":"surestep.plan/1","operations":[]}"#);
    let said = desk.run(&["run", "plan.json"]).exits(2).fails("SE0102").screen();
    holds(&said, &["nothing was written or started", "surestep run plan.json --session plan"]);
    snapshot!("mistake_no_session", said);
}

#[test]
fn mistake_2_a_misspelt_field() {
    let desk = Desk::new();
    let operation = shell("a", "true", LOCAL).replace("\"body\"", "\"aproval\":\"required\",\"body\"");
    desk.plan("plan.json", "s", &[operation]);
    let said = desk.run(&["run", "plan.json"]).exits(2).fails("SE0202").screen();
    holds(&said, &["did you mean `approval`?", "nothing was written or started"]);
    snapshot!("mistake_misspelt_field", said);
}

#[test]
fn mistake_3_an_unknown_kind() {
    let desk = Desk::new();
    desk.plan("plan.json", "s", &[shell("a", "true", LOCAL).replace("\"shell\"", "\"shel\"")]);
    let said = desk.run(&["run", "plan.json"]).exits(2).fails("SE0204").screen();
    holds(&said, &["did you mean `shell`?", "nothing was written or started", "surestep explain kind shell"]);
    snapshot!("mistake_unknown_kind", said);
}

#[test]
fn mistake_4_another_plan_for_the_same_turn() {
    let desk = doubtful();
    desk.run(&["run", "p.json"]).exits(4);
    desk.plan("other.json", "fix-118", &[shell("a", "echo y > other", LOCAL)]);
    let said = desk.run(&["run", "other.json"]).exits(2).fails("SE0207").screen();
    holds(&said, &["bound:", "offered:", "nothing was written or started", "surestep resume fix-118"]);
    assert!(!desk.path().join("other").exists());
    snapshot!("mistake_other_plan", said);
}

#[test]
fn mistake_5_an_answer_too_early() {
    let desk = Desk::new();
    desk.plan("p.json", "s", &[shell("a", "exit 9", r#","check":["false"]"#)]);
    desk.run(&["run", "p.json"]).exits(5);
    let said = desk
        .run(&["resolve", "s", "1", "--not-landed", "--because", "sure"])
        .exits(5)
        .fails("SE0401")
        .screen();
    holds(&said, &["the answer was not recorded", "--now"]);
    snapshot!("mistake_too_early", said);
}

#[test]
fn mistake_6_a_mistyped_flag_and_session() {
    let desk = doubtful();
    snapshot!("mistake_flag", desk.run(&["resume", "fix-118", "--wiat"]).exits(2).fails("SE0101").screen());
    desk.run(&["run", "p.json"]).exits(4);
    snapshot!("mistake_session", desk.run(&["show", "fix-119"]).exits(10).fails("SE0901").screen());
}

#[test]
fn mistake_7_a_result_for_a_call_that_has_one() {
    let desk = Desk::new();
    let call = r#"{"role":"assistant","tool_calls":[{"id":"call_1","type":"function"}]}"#;
    let result = r#"{"role":"tool","tool_call_id":"call_1","content":"done"}"#;
    let plan = |turn: u32, said: &str| {
        format!(
            r#"{{"format":"surestep.plan/1","session":"s","turn":{turn},"conversation":[{said}],"operations":[]}}"#
        )
    };
    desk.file("plan.json", &plan(1, call));
    desk.run(&["run", "plan.json"]).exits(0);
    desk.file("next.json", &plan(2, result));
    let said = desk.run(&["run", "next.json"]).exits(2).fails("SE0214").screen();
    holds(&said, &["$.conversation[0].tool_call_id", "nothing was written or started"]);
    snapshot!("mistake_unpaired", said);
}
