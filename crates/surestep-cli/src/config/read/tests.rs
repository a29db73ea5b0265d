use super::*;

fn kinds() -> Vec<String> {
    ["shell", "file.write", "git.push"].map(str::to_owned).to_vec()
}

fn read_it(text: &str) -> Result<Config, Vec<Problem>> {
    read(text, Path::new("/etc/here"), &kinds())
}

#[track_caller]
fn refused(text: &str, code: &str, line: usize, words: &[&str]) {
    let problems = read_it(text).expect_err(text);
    let first = problems.first().unwrap();
    assert_eq!((first.code, first.line), (code, line), "{text}: {first:?}");
    let all = format!("{} {}", first.what, first.hint.clone().unwrap_or_default());
    for word in words {
        assert!(all.contains(word), "`{word}` in {all}");
    }
}

#[test]
fn every_key_is_taken() {
    let config = read_it(
        r#"
store = "turns"
allow_volatile = true
retention = "7d"
state_dir = "/var/lib/marks"
[allow]
kinds = ["file.write"]
[approval]
kinds = ["git.push", "shell"]
[kinds."git.push"]
lag_s = 0
deadline_s = 120
attempts = 5
[secrets]
source = "command"
command = ["pass", "show"]
"#,
    )
    .unwrap();
    assert_eq!(config.store.as_deref(), Some(Path::new("/etc/here/turns")), "relative to the file");
    assert_eq!(config.state_dir.as_deref(), Some(Path::new("/var/lib/marks")));
    assert!(config.allow_volatile);
    assert_eq!(config.retention_ms, 7 * 24 * 3_600_000);
    assert_eq!(config.allow.len(), 1);
    let push = Kind::new("git.push").unwrap();
    let tuning = config.tuning(None);
    assert_eq!(tuning.len(), 2);
    let (_, push) = tuning.iter().find(|(kind, _)| *kind == push).unwrap();
    assert_eq!((push.lag_ms, push.deadline_ms, push.attempts_max), (Some(0), Some(120_000), Some(5)));
    assert!(push.approval.is_some());
    assert_eq!(config.secrets, Secrets::Command { command: vec!["pass".into(), "show".into()] });
}

#[test]
fn an_empty_file_is_the_defaults() {
    assert_eq!(read_it("").unwrap(), Config::default());
    assert_eq!(read_it("# nothing\n[secrets]\n[kinds]\n").unwrap(), Config::default());
}

#[test]
fn unknown_keys_are_refused_at_every_level_with_line_and_hint() {
    refused("\nstor = \"x\"\n", "SE0121", 2, &["`stor`", "did you mean `store`"]);
    refused("[alow]\nkinds = []\n", "SE0121", 1, &["did you mean `allow`"]);
    refused("[allow]\nkind = []\n", "SE0121", 2, &["in `[allow]`", "did you mean `kinds`"]);
    refused("[kinds.shell]\n\nlagg_s = 1\n", "SE0121", 3, &["kinds.\"shell\"", "did you mean `lag_s`"]);
    refused("[secrets]\nsorce = \"env\"\n", "SE0121", 2, &["did you mean `source`"]);
    refused("[secrets]\nvalue = \"x\"\n", "SE0121", 2, &["no secret stands in this file"]);
    refused("zebra = 1\n", "SE0121", 1, &["known are: store"]);
}

#[test]
fn wrong_values_are_refused_and_named() {
    refused("store = 1\n", "SE0122", 1, &["`store`", "integer", "a text in quotes"]);
    refused("store = \"\"\n", "SE0122", 1, &["empty"]);
    refused("allow_volatile = \"yes\"\n", "SE0122", 1, &["`true` or `false`"]);
    refused("retention = \"7 weeks\"\n", "SE0122", 1, &["no unit"]);
    refused("allow = [\"shell\"]\n", "SE0122", 1, &["a table, `[allow]`"]);
    refused("[approval]\nkinds = \"shell\"\n", "SE0122", 2, &["a list of texts"]);
    refused("[approval]\nkinds = [\n\"shell\",\n\"git.psh\"]\n", "SE0122", 4, &["did you mean `git.push`"]);
    refused("[kinds.\"git.pull\"]\n", "SE0122", 1, &["`git.pull`", "did you mean `git.push`"]);
    refused("[kinds.shell]\ndeadline_s = 0\n", "SE0122", 2, &["1 to 86400"]);
    refused("[kinds.shell]\nattempts = 1.5\n", "SE0122", 2, &["float", "a whole number"]);
    refused("[kinds.shell]\nlag_s = -1\n", "SE0122", 2, &["0 to 86400"]);
    refused("[secrets]\nsource = \"vault\"\n", "SE0122", 2, &["`env`, `file` or `command`"]);
    refused("[secrets]\nsource = \"file\"\n", "SE0122", 2, &["needs `secrets.dir`"]);
    refused("[secrets]\ndir = \"x\"\n", "SE0122", 2, &["does not go with"]);
    refused("[secrets]\nsource = \"command\"\ncommand = []\n", "SE0122", 2, &["is empty"]);
}

#[test]
fn what_is_no_toml_is_refused_with_its_line() {
    refused("store = \"a\"\nstore = \"b\"\n", "SE0120", 2, &["not TOML"]);
    refused("a = \n", "SE0120", 1, &["not TOML"]);
    refused("\n[allow\n", "SE0120", 2, &["not TOML"]);
}

#[test]
fn all_problems_are_found_at_once() {
    let problems = read_it("stor = 1\n[kinds.shell]\nattempts = 0\n[allow]\nkinds = [\"x\"]\n").unwrap_err();
    assert_eq!(problems.iter().map(|p| p.line).collect::<Vec<_>>(), [1, 3, 5]);
    let said = fail(Path::new("surestep.toml"), &problems, "surestep list");
    assert_eq!(said.code, "SE0121");
    assert!(said.what.starts_with("surestep.toml:1: "), "{said:?}");
    assert!(said.why.iter().any(|why| why.starts_with("line 3: ")), "{said:?}");
}
