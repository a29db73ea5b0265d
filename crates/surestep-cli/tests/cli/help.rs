//! What `--help`, `completions` and `man` print: one wording, within 100 columns, nothing hidden in it.

use crate::Desk;

/// Every command, in the order of `--help`.
fn commands(desk: &Desk) -> Vec<String> {
    let help = desk.run(&["--help"]).exits(0).stdout;
    let list = help
        .split("Commands:\n")
        .nth(1)
        .and_then(|rest| rest.split("\n\n").next())
        .expect("the list of commands");
    let names = list.lines().filter(|l| l.starts_with("  ") && !l.starts_with("   "));
    names
        .filter_map(|l| l.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_help_fits_names_its_exit_codes_and_is_kept() {
    let desk = Desk::new();
    let commands = commands(&desk);
    assert!(commands.len() > 15, "{commands:?}");
    let mut pages = vec![("help".to_owned(), desk.run(&["--help"]).exits(0).stdout)];
    for command in &commands {
        let page = desk.run(&[command, "--help"]).exits(0).stdout;
        assert_eq!(page, desk.run(&[command, "-h"]).exits(0).stdout, "{command}: one help, not two");
        pages.push((format!("help_{command}").replace('-', "_"), page));
    }
    for (name, page) in &pages {
        for line in page.lines() {
            assert!(line.chars().count() <= 100, "{name}: {line}");
        }
        assert!(page.contains("Exit codes: 0 "), "{name}");
        assert!(!page.contains("lag-ms"), "{name}");
        let mut settings = insta::Settings::clone_current();
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.bind(|| insta::assert_snapshot!(name.as_str(), page));
    }
}

#[test]
fn what_changes_state_can_be_tried() {
    let desk = Desk::new();
    for command in ["run", "resume", "exec", "resolve", "approve", "deny", "cancel"] {
        let page = desk.run(&[command, "--help"]).exits(0).stdout;
        assert!(page.contains("--dry-run") && page.contains("nothing is written"), "{command}");
    }
}

#[test]
fn completions_know_every_command_and_nothing_hidden() {
    let desk = Desk::new();
    let commands = commands(&desk);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = desk.run(&["completions", shell]).exits(0).stdout;
        for command in &commands {
            assert!(script.contains(command.as_str()), "{shell}: {command}");
        }
        assert!(script.contains("all-matching") && !script.contains("lag-ms"), "{shell}");
        assert!(!script.contains("__guard"), "{shell}");
    }
    desk.run(&["completions", "dos"]).exits(2).fails("SE0101");
    assert!(!desk.path().join(".surestep").exists());
}

#[test]
fn bash_reads_its_completions() {
    let desk = Desk::new();
    let script = desk.run(&["completions", "bash"]).exits(0).stdout;
    desk.file("c.bash", &script);
    let read = std::process::Command::new("bash").args(["-n", "c.bash"]).current_dir(desk.path()).output();
    match read {
        Ok(read) => assert!(read.status.success(), "{read:?}"),
        Err(_) => assert!(std::env::var_os("CI").is_none(), "bash is missing, and CI must have it"),
    }
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let desk = Desk::new();
    let page = desk.run(&["man"]).exits(0).stdout;
    assert!(
        page.contains(".TH SURESTEP 1") && page.contains("SURESTEP_STORE") && !page.contains("lag\\-ms"),
        "{page}"
    );
    std::fs::create_dir(desk.path().join("man")).unwrap();
    let said = desk.run(&["man", "--dir", "man"]).exits(0);
    let commands = commands(&desk);
    assert_eq!(said.stdout.lines().count(), commands.len() + 1);
    for command in commands {
        let path = desk.path().join(format!("man/surestep-{command}.1"));
        let page = std::fs::read_to_string(&path).unwrap();
        assert!(page.contains("Exit codes: 0 ") && !page.contains("lag\\-ms"), "{command}: {page}");
    }
    desk.run(&["man", "--dir", "none"]).exits(1).fails("SE0108");
}
