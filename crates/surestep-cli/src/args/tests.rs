use clap::CommandFactory as _;

use super::*;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(line.split_whitespace())
}

#[test]
fn the_definition_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn wait_takes_a_duration_only_after_an_equals_sign() {
    let wait = |line: &str| {
        let Command::Resume(resume) = parse(line).unwrap().command else { panic!("not `resume`: {line}") };
        (resume.session, resume.wait.wait)
    };
    assert_eq!(wait("surestep resume a"), (Some("a".into()), None));
    assert_eq!(wait("surestep resume --wait a"), (Some("a".into()), Some(None)));
    assert_eq!(wait("surestep resume a --wait=5s"), (Some("a".into()), Some(Some(Duration::from_secs(5)))));
    assert!(parse("surestep resume a --wait=soon").is_err());
    assert!(parse("surestep resume").is_err());
    assert!(parse("surestep resume a --all").is_err());
}

#[test]
fn resolve_takes_exactly_one_word_and_a_reason() {
    assert!(parse("surestep resolve s 2 --landed --because x").is_ok());
    assert!(parse("surestep resolve s 2 --not-landed --now --because x --dry-run").is_ok());
    for bad in [
        "--landed",
        "--because x",
        "--landed --skip --because x",
        "--landed --now --because x",
        "--skip --receipt {} --because x",
    ] {
        assert!(parse(&format!("surestep resolve s 2 {bad}")).is_err(), "{bad}");
    }
}

#[test]
fn exec_keeps_the_command_as_it_is() {
    let line = "surestep exec --session s --target t -- git push --force -- x";
    let Command::Exec(exec) = parse(line).unwrap().command else { panic!("not `exec`") };
    assert_eq!(exec.command, ["git", "push", "--force", "--", "x"]);
    assert!(parse("surestep exec --session s --target t").is_err());
    assert!(parse("surestep exec --session s --target t --refused-exit 0 -- x").is_err());
    assert!(parse("surestep exec --session s --target t --turn 0 -- x").is_err());
}

#[test]
fn global_flags_stand_anywhere() {
    let cli = parse("surestep show x --json --store /tmp/s -q").unwrap();
    assert!(cli.global.json && cli.global.quiet && cli.global.store == Some("/tmp/s".into()));
}
