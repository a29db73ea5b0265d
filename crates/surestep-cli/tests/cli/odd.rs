//! Odd names, odd places and odd orders: each message names what can really be typed next.

use crate::{Desk, LOCAL, Said, shell};

/// Runs the first command that a message names after `next:` and that holds a word.
fn take_next(desk: &Desk, said: &Said, holding: &str) -> Said {
    let lines = said.stderr.lines().map(|l| l.trim_start().trim_start_matches("next:").trim_start());
    let line = lines.filter(|l| l.starts_with("surestep ")).find(|l| l.contains(holding));
    assert!(line.is_some(), "no next command with `{holding}`: {said:#?}");
    let line = line.and_then(|l| l.split("  #").next()).expect("a command").replace('…', "seen");
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_surestep")).parent().expect("a folder").display();
    let path = format!("{bin}:{}", std::env::var("PATH").expect("a path"));
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", line.as_str()]).current_dir(desk.path()).env("PATH", path).env_remove("SURESTEP_STORE");
    Said::of(shell.output().expect("a shell"))
}

#[test]
fn a_session_named_like_an_option_can_be_answered_as_printed() {
    let desk = Desk::new();
    for session in ["--x", "-s", "--json", "--wait"] {
        desk.plan("p.json", session, &[shell("a", "exit 9", LOCAL)]);
        let said = desk.run(&["run", "p.json"]).exits(4).fails("SE0412");
        take_next(&desk, &said, "--landed").exits(0);
        let said = take_next(
            &desk,
            &desk.run(&["resolve", "--landed", "--because", "x", "--", session, "1"]),
            "show",
        );
        said.exits(0);
        desk.run(&["resume", "--", session]).exits(0);
    }
    let said = desk.run(&["exec", "--session=--y", "--target=-t", "--local", "--", "false"]).exits(4);
    take_next(&desk, &said, "--skip").exits(0);
    desk.run(&["resume", "--", "--y"]).exits(0);
    let said = desk.run(&["exec", "--session=--y", "--target=-t", "--", "echo"]).exits(2).fails("SE0207");
    take_next(&desk, &said, "--turn 2").exits(0);
}

#[test]
fn an_exec_out_of_order_names_the_turn_that_can_be_opened() {
    let desk = Desk::new();
    let said = desk
        .run(&["exec", "--session", "s", "--target", "t", "--turn", "3", "--", "true"])
        .exits(2)
        .fails("SE0208");
    assert!(said.stderr.contains("the session has no turn yet"), "{said:#?}");
    take_next(&desk, &said, "--turn 1").exits(0);
    let said = desk
        .run(&["exec", "--session", "s", "--target", "t", "--turn", "3", "--", "true"])
        .exits(2)
        .fails("SE0208");
    assert!(said.stderr.contains("stands at turn 1 (finished)"), "{said:#?}");
    take_next(&desk, &said, "--turn 2").exits(0);
    desk.run(&["exec", "--session", "s", "--target", "t", "--turn", "3", "--", "false"]).exits(4);
    let said = desk
        .run(&["exec", "--session", "s", "--target", "t", "--turn", "4", "--", "true"])
        .exits(2)
        .fails("SE0208");
    assert!(said.stderr.contains("next:  surestep resume s --wait"), "{said:#?}");
}

#[test]
fn a_session_that_is_removed_while_it_runs_is_damage_and_not_a_take_over() {
    let desk = Desk::new();
    desk.plan(
        "p.json",
        "s",
        &[shell("a", ": > begun; sleep 0.5; echo x >> landed", LOCAL), shell("b", "true", LOCAL)],
    );
    let mut command = desk.command(&["run", "p.json"]);
    let child =
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    desk.wait_for("begun");
    std::fs::remove_dir_all(desk.path().join(".surestep/sessions/s")).unwrap();
    let said = Said::of(child.wait_with_output().unwrap()).exits(8);
    assert!(said.stderr.contains("SE0602") && !said.stderr.contains("taken over"), "{said:#?}");
    assert!(said.stderr.contains("operation 1 landed"), "the receipt is said: {said:#?}");
}

#[test]
fn a_damaged_session_is_told_once_and_with_what_to_do() {
    let desk = Desk::new();
    desk.plan("p.json", "s", &[shell("a", "true", LOCAL)]);
    desk.run(&["run", "p.json"]).exits(0);
    std::fs::write(desk.path().join(".surestep/sessions/s/journal/00000001.json"), "{").unwrap();
    let said = desk.run(&["show", "s"]).exits(8).fails("SE0601");
    let states =
        said.stderr.split("  state: ").nth(1).unwrap().split("  next:").next().unwrap().lines().count();
    assert_eq!(states, 1, "{said:#?}");
    let said = desk.run(&["list"]).exits(8).fails("SE0601");
    assert!(said.stdout.contains("unreadable"), "{said:#?}");
}

#[test]
fn a_plan_cannot_write_into_the_store_that_journals_it() {
    let desk = Desk::new();
    let write = |target: &str| {
        format!(r#"{{"kind":"file.write","repo":"r","target":"{target}","body":{{"content":"x"}}}}"#)
    };
    for target in [".surestep/surestep.json", "./x/../.surestep/sessions/s/lock", "link/lock"] {
        let _ = std::os::unix::fs::symlink(".surestep", desk.path().join("link"));
        desk.plan("p.json", "s", &[write(target)]);
        let said = desk.run(&["run", "p.json"]).exits(2).fails("SE0205");
        assert!(said.stderr.contains("inside the store"), "{said:#?}");
    }
    // A link that comes after the plan was bound leads nowhere either.
    let gate = shell("gate", "rm note; ln -s .surestep/surestep.json note", LOCAL);
    desk.file("note", "");
    desk.plan("p.json", "s", &[gate, write("note")]);
    desk.run(&["run", "p.json"]).exits(3).fails("SE0414");
    assert!(desk.run(&["show", "s"]).exits(0).stdout.contains("the target leads into the store"));
}
