//! `surestep.toml`: found, refused whole, and obeyed.

use crate::{Desk, LOCAL, shell};

#[test]
fn unknown_keys_and_wrong_values_are_refused_and_nothing_is_started() {
    let desk = Desk::new();
    desk.plan("p.json", "s", &[shell("a", "echo x >> landed", LOCAL)]);
    for (text, code, words) in [
        ("[aproval]\nkinds = []\n", "SE0121", "surestep.toml:1: unknown key `aproval`"),
        ("store = 7\n", "SE0122", "surestep.toml:1: `store` is a value of type integer"),
        ("store = \n", "SE0120", "it is not TOML"),
    ] {
        desk.file("surestep.toml", text);
        for command in [&["run", "p.json"][..], &["list"], &["resume", "--all"]] {
            let said = desk.run(command).exits(2).fails(code);
            assert!(said.stderr.contains(words), "{said:#?}");
            assert!(said.stderr.contains("no setting of the file was used"), "{said:#?}");
        }
        desk.run(&["explain", "code", code]).exits(0);
    }
    assert!(!desk.path().join(".surestep").exists() && !desk.path().join("landed").exists());
    let said = desk.run(&["--json", "list"]).exits(2);
    assert!(said.stdout.contains("\"surestep.error/1\""), "{said:#?}");
}

#[test]
fn the_file_is_found_in_the_repository_and_not_beyond_it() {
    let desk = Desk::new();
    std::fs::create_dir_all(desk.path().join("repo/.git")).unwrap();
    std::fs::create_dir_all(desk.path().join("repo/deep")).unwrap();
    desk.file("surestep.toml", "broken");
    desk.plan("repo/deep/p.json", "s", &[shell("a", "true", LOCAL)]);
    let deep = |args: &[&str]| {
        let mut command = desk.command(args);
        crate::Said::of(command.current_dir(desk.path().join("repo/deep")).output().unwrap())
    };
    deep(&["run", "p.json"]).exits(0);
    assert!(desk.path().join("repo/deep/.surestep").exists());
    desk.file("repo/surestep.toml", "store = \"turns\"\n");
    deep(&["run", "p.json"]).exits(0);
    assert!(desk.path().join("repo/turns/surestep.json").exists(), "relative to the file");
    assert!(deep(&["show", "s"]).exits(0).stdout.contains("completed"));
    // What is named beats what is found, and the printed commands say so again.
    desk.file("other.toml", "store = \"elsewhere\"\n");
    let said = deep(&["--config", "../../other.toml", "list"]).exits(10);
    assert!(said.stderr.contains("elsewhere"), "{said:#?}");
    deep(&["--config", "/dev/null", "--store", ".surestep", "show", "s"]).exits(0);
    deep(&["--config", "none.toml", "list"]).exits(2).fails("SE0120");
}

#[test]
fn a_file_that_others_may_write_is_used_only_when_it_is_named() {
    use std::os::unix::fs::PermissionsExt as _;
    let desk = Desk::new();
    let path = desk.file("surestep.toml", "");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    let said = desk.run(&["list"]).exits(2).fails("SE0120");
    assert!(said.stderr.contains("others may write to it"), "{said:#?}");
    desk.run(&["--config", "surestep.toml", "list"]).exits(10);
}

#[test]
fn a_kind_that_needs_approval_by_policy_waits_and_the_yes_is_asked_for_in_the_journal() {
    let desk = Desk::new();
    desk.file("surestep.toml", "[approval]\nkinds = [\"shell\"]\n");
    desk.plan("p.json", "s", &[shell("a", "echo x >> landed", LOCAL)]);
    desk.run(&["run", "p.json"]).exits(4).fails("SE0411");
    // The term is stored in `bound`: neither the plan nor a later file takes it away.
    desk.file("surestep.toml", "");
    desk.run(&["run", "p.json"]).exits(4).fails("SE0411");
    assert!(!desk.path().join("landed").exists());
    desk.run(&["approve", "s", "1", "--because", "read it"]).exits(0);
    desk.run(&["resume", "s"]).exits(0);
    assert_eq!(std::fs::read_to_string(desk.path().join("landed")).unwrap(), "x\n");
}

#[test]
fn the_terms_of_a_kind_are_those_of_the_file() {
    let desk = Desk::new();
    desk.file("surestep.toml", "[kinds.shell]\ndeadline_s = 7\nlag_s = 1\nattempts = 9\n");
    desk.plan("p.json", "s", &[shell("a", "exit 9", r#","check":["false"]"#)]);
    desk.run(&["run", "p.json"]).exits(5);
    let said = desk.run(&["--json", "explain", "s", "1"]).exits(0).stdout;
    for term in ["\"deadline_ms\": 7000", "\"lag_ms\": 1000", "\"attempts_max\": 9"] {
        assert!(said.contains(term), "{term} in {said}");
    }
}
