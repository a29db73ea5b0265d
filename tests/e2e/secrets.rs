//! Credentials never reach the disk: planted wherever text comes in, plain, split and encoded, and looked for afterwards
//! in every file, in every `--json` and on stderr, down to runs of twelve bytes.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;

use crate::harness::{Ran, Scratch, kill_below, random, wait_for};

/// Twelve bytes of a credential are too many.
const RUN: usize = 12;

const ALNUM: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

fn letters(n: usize) -> String {
    (0..n).map(|_| char::from(ALNUM[random(ALNUM.len() as u64) as usize])).collect()
}

/// Real-looking and worthless, made anew in each run: text to plant, and the part of it that must not be found.
fn families() -> Vec<(&'static str, String, String)> {
    let whole = |name, token: String| (name, token.clone(), token);
    let jwt = |body: &str| encode64(body.as_bytes(), true).trim_end_matches('=').to_owned();
    let (password, bearer, basic) = (letters(20), letters(40), letters(24));
    let pem: String = (0..6).map(|_| letters(64)).collect::<Vec<_>>().join("\n");
    let dashes = "-----";
    vec![
        whole("github", format!("ghp{}{}", "_", letters(36))),
        whole("gitlab", format!("glpat{}{}", "-", letters(20))),
        whole("aws", format!("AKIA{}", letters(16).to_ascii_uppercase().replace(['0', '1', '8', '9'], "A"))),
        whole("google", format!("AIza{}", letters(35))),
        whole("slack", format!("xoxb{}{}-{}-{}", "-", "123456789012", "123456789012", letters(24))),
        whole("stripe", format!("sk_live{}{}", "_", letters(24))),
        whole("openai", format!("sk-proj{}{}", "-", letters(48))),
        whole("anthropic", format!("sk-ant{}api03-{}", "-", letters(93))),
        whole("npm", format!("npm{}{}", "_", letters(36))),
        whole("pypi", format!("pypi{}AgEIcHlwaS5vcmc{}", "-", letters(60))),
        whole(
            "jwt",
            format!(
                "{}.{}.{}",
                jwt(r#"{"alg":"HS256","typ":"JWT"}"#),
                jwt(&format!(r#"{{"sub":"{}"}}"#, letters(20))),
                letters(43)
            ),
        ),
        (
            "pem",
            format!("{dashes}BEGIN RSA PRIVATE KEY{dashes}\n{pem}\n{dashes}END RSA PRIVATE KEY{dashes}"),
            pem,
        ),
        ("bearer", format!("Authorization: Bearer {bearer}"), bearer),
        ("basic", format!("Authorization: Basic {basic}"), basic),
        ("url", format!("https://deploy:{password}@git.example.org/a.git"), password),
    ]
}

fn encode64(bytes: &[u8], url: bool) -> String {
    let extra = if url { b"-_" } else { b"+/" };
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_u32, |n, b| n << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        for i in 0..=chunk.len() {
            let six = (word >> (18 - 6 * i) & 63) as usize;
            out.push(char::from(*ALNUM.get(six).unwrap_or_else(|| &extra[six - 62])));
        }
        out.extend(std::iter::repeat_n('=', 3 - chunk.len()));
    }
    out
}

fn percent(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "%{byte:02X}");
        out
    })
}

fn split(text: &str, with: &str) -> String {
    let mut out = String::new();
    for (n, c) in text.chars().enumerate() {
        if n > 0 && n % 5 == 0 {
            out.push_str(with);
        }
        out.push(c);
    }
    out
}

/// The forms in which a text is planted.
fn forms(text: &str) -> Vec<String> {
    let padded = |front: &str| encode64(format!("{front}{text}").as_bytes(), false);
    vec![
        text.to_owned(),
        split(text, "\u{200b}"),
        split(text, "\u{1}"),
        percent(text),
        encode64(text.as_bytes(), false),
        encode64(text.as_bytes(), true),
        padded("="),
        padded("= "),
    ]
}

/// Every run of twelve bytes that must not be found: of the credential and of each of its forms.
fn forbidden(planted: &[(&'static str, String, String)]) -> HashSet<[u8; RUN]> {
    let mut runs = HashSet::new();
    for (_, _, token) in planted {
        // The first and last characters of a base64 text may come from its neighbours.
        for form in forms(token).iter().chain([&encode64(token.as_bytes(), false)]) {
            let bytes = form.as_bytes();
            let inner = if bytes.len() > 40 { &bytes[4..bytes.len() - 4] } else { bytes };
            runs.extend(inner.windows(RUN).map(|run| <[u8; RUN]>::try_from(run).expect("twelve bytes")));
        }
    }
    // Four letters are twelve bytes of `%XX`: what stands round a credential, and may stay, can have them too.
    for (_, text, token) in planted.iter().filter(|(_, text, token)| text != token) {
        for form in forms(&text.replace(token, "")) {
            form.as_bytes().windows(RUN).for_each(|run| {
                runs.remove(run);
            });
        }
    }
    runs
}

#[track_caller]
fn clean(what: &str, bytes: &[u8], forbidden: &HashSet<[u8; RUN]>) {
    for (at, run) in bytes.windows(RUN).enumerate() {
        if forbidden.contains(run) {
            let from = at.saturating_sub(60);
            let around = String::from_utf8_lossy(&bytes[from..(at + 60).min(bytes.len())]).into_owned();
            panic!("a piece of a credential in {what} at byte {at}: …{around}…");
        }
    }
}

fn walk(folder: &Path, seen: &mut dyn FnMut(&Path, &[u8])) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            walk(&path, seen);
        } else {
            seen(&path, &std::fs::read(&path).unwrap_or_default());
        }
    }
}

fn quote(text: &str) -> String {
    serde_json::to_string(text).expect("JSON")
}

struct Desk {
    scratch: Scratch,
    said: Vec<(String, Ran)>,
}

impl Desk {
    fn command(&self, args: &[&str]) -> std::process::Command {
        let mut command = self.scratch.command(args);
        for folder in ["tmp", "state"] {
            std::fs::create_dir_all(self.scratch.path().join(folder)).expect("a folder");
        }
        command.env("TMPDIR", self.scratch.path().join("tmp"));
        command.env("XDG_STATE_HOME", self.scratch.path().join("state"));
        command
    }

    fn run(&mut self, args: &[&str]) -> Option<i32> {
        let ran = Ran::of(self.command(args).output().expect("the binary runs"));
        let code = ran.code;
        self.said.push((args.join(" ").chars().take(40).collect(), ran));
        code
    }
}

#[test]
fn neither_a_credential_nor_twelve_bytes_of_it_reach_any_file_or_screen() {
    let planted = families();
    let mut desk = Desk { scratch: Scratch::bare(), said: Vec::new() };
    // What the commands print: everything, in every form, and once so long that its tail is cut.
    let everything: Vec<String> = planted.iter().flat_map(|(_, text, _)| forms(text)).collect();
    let lines = everything.join("\n");
    std::fs::create_dir_all(desk.scratch.path().join("outside")).expect("a folder");
    std::fs::write(desk.scratch.path().join("outside/lines"), &lines).expect("the lines");
    let header = everything.iter().map(|text| format!("> X-Header: {text}\r\n")).collect::<String>();
    std::fs::write(desk.scratch.path().join("outside/headers"), header).expect("the headers");
    let long = everything.iter().map(|t| t.replace('\n', " ")).collect::<Vec<_>>().join(" ");
    std::fs::write(desk.scratch.path().join("outside/long"), format!("{long} ").repeat(4))
        .expect("the long text");

    let messages: Vec<String> = everything
        .iter()
        .enumerate()
        .map(|(n, text)| match n % 3 {
            0 => format!(r#"{{"role":"user","content":{}}}"#, quote(text)),
            1 => format!(r#"{{"role":"tool_log","{}":[1E2,null]}}"#, quote(text).trim_matches('"')),
            _ => format!(
                r#"{{"role":"user","content":[{{"type":"text","text":{}}}]}}"#,
                quote(&format!("so: {text}, ok"))
            ),
        })
        .collect();
    let shell = |target: &str, script: &str, more: &str| {
        format!(
            r#"{{"kind":"shell","repo":"r","target":"{target}","body":{{"run":["sh","-c",{}],"local":true{more}}}}}"#,
            quote(script)
        )
    };
    let operations = [
        shell("prints", "cat outside/lines", ""),
        shell("long", "cat outside/long; cat outside/headers", ""),
        shell(
            "fails",
            "cat outside/headers >&2; exit 9",
            r#","check":["sh","-c","cat outside/lines; exit 0"]"#,
        ),
        shell("asks", "cat outside/lines >&2; exit 9", ""),
        shell("skips", "cat outside/long >&2; exit 9", ""),
        shell("slow", ": > slow; cat outside/lines; sleep 1; cat outside/headers >&2", ""),
    ];
    let words = everything.join(" ");
    let plan = format!(
        r#"{{"format":"surestep.plan/1","session":"s","verdict":"done","agent":{a},"task":{a},"rationale":{a},"conversation":[{}],"operations":[{}]}}"#,
        messages.join(","),
        operations.join(","),
        a = quote(&words.chars().take(3_000).collect::<String>())
    );
    std::fs::write(desk.scratch.path().join("outside/plan.json"), plan).expect("the plan");

    assert_eq!(desk.run(&["run", "outside/plan.json"]), Some(4), "{:?}", desk.said.last());
    let detail: Vec<String> = everything
        .iter()
        .enumerate()
        .map(|(n, t)| format!("{}:{}", quote(&format!("{t} {n}")), quote(t)))
        .collect();
    let receipt = format!(r#"{{"ref":"seen","detail":{{{}}}}}"#, detail.join(","));
    let reason = words.replace(['\u{1}', '\n'], " ");
    let landed = ["resolve", "s", "4", "--landed", "--receipt", &receipt, "--because", &reason];
    assert_eq!(desk.run(&landed), Some(0), "{:?}", desk.said.last());
    assert_eq!(desk.run(&["resume", "s"]), Some(4));
    assert_eq!(desk.run(&["resolve", "s", "5", "--skip", "--because", &reason]), Some(0));
    // Killed while a command runs: its guard leaves what it said as late evidence.
    let mut child =
        desk.command(&["resume", "s"]).stderr(std::process::Stdio::null()).spawn().expect("it starts");
    let slow = desk.scratch.path().join("slow");
    wait_for("the slow command", std::time::Duration::from_secs(20), || slow.exists());
    child.kill().expect("killed");
    child.wait().expect("reaped");
    assert_eq!(desk.run(&["resume", "s", "--wait"]), Some(0), "{:?}", desk.said.last());
    for args in [
        &["show", "s"][..],
        &["show", "s", "--json"],
        &["log", "s"],
        &["log", "s", "--json"],
        &["list", "--json"],
        &["explain", "s", "3"],
        &["explain", "s", "1", "--json"],
        &["export", "s"],
        &["questions", "--json"],
    ] {
        assert_eq!(desk.run(args), Some(0), "{args:?}");
    }

    let forbidden = forbidden(&planted);
    let mut files = 0;
    for folder in [".surestep", "tmp", "state"] {
        walk(&desk.scratch.path().join(folder), &mut |path, bytes| {
            files += 1;
            clean(&path.display().to_string(), bytes, &forbidden);
        });
    }
    assert!(files > 20, "{files} files");
    for (what, ran) in &desk.said {
        clean(&format!("stdout of {what}"), ran.stdout.as_bytes(), &forbidden);
        clean(&format!("stderr of {what}"), ran.stderr.as_bytes(), &forbidden);
    }
    // It would have been seen: the test finds what it planted where it planted it.
    let mut seen = false;
    let plan = std::fs::read(desk.scratch.path().join("outside/plan.json")).expect("the plan");
    for run in plan.windows(RUN) {
        seen |= forbidden.contains(run);
    }
    assert!(seen);
}

#[test]
fn a_plan_with_a_credential_in_a_body_is_refused_by_class_and_path_and_nothing_is_written() {
    for (name, text, token) in families() {
        let scratch = Scratch::bare();
        let runs = forbidden(&[(name, text.clone(), token)]);
        let op = |body: &str, target: &str| {
            format!(
                r#"{{"format":"surestep.plan/1","session":"s","verdict":"done","operations":[{{"kind":"shell","repo":"r","target":{target},"body":{body}}}]}}"#
            )
        };
        let in_value = op(&format!(r#"{{"run":["echo",{}]}}"#, quote(&text)), r#""t""#);
        let in_key = op(&format!(r#"{{"run":["echo"],"env":{{{}:"x"}}}}"#, quote(&text)), r#""t""#);
        let in_wrong_type = op(&format!(r#"{{"run":{}}}"#, quote(&text)), r#""t""#);
        let in_target = op(r#"{"run":["echo"]}"#, &quote(&text));
        for plan in [in_value, in_key, in_wrong_type, in_target] {
            std::fs::write(scratch.path().join("plan.json"), &plan).expect("the plan");
            let ran = scratch.run(&["run", "plan.json"]).exits(2);
            assert!(
                ran.stderr.contains("SE0210") && ran.stderr.contains("$.operations[0]"),
                "{name}: {ran:?}"
            );
            clean(&format!("the refusal of {name}"), ran.stderr.as_bytes(), &runs);
            assert_eq!(crate::harness::commits(&scratch.journal("s")), 0);
        }
    }
}

#[test]
fn a_secret_reaches_the_command_whole_through_kills_and_never_the_disk() {
    let value = format!("{}\"' {}%41 é", letters(20), letters(20));
    let runs = forbidden(&[("known", value.clone(), value.clone())]);
    for round in 0..4 {
        let scratch = Scratch::bare();
        // It goes out through the environment and an argument, and comes back plain and encoded.
        let script = r#"printf %s "$PASS" > got; printf %s "$1" > got2; echo "$PASS"; printf %s "$PASS" | base64; echo "$1" >&2"#;
        let plan = format!(
            r#"{{"format":"surestep.plan/1","session":"s","verdict":"done","operations":[{{"kind":"shell","repo":"r","target":"t","deadline_s":5,"body":{{"run":["sh","-c",{},"sh",{{"$secret":"PASS"}}],"env":{{"PASS":{{"$secret":"PASS"}}}},"local":true,"check":["test","-e","got2"]}}}}]}}"#,
            quote(script)
        );
        std::fs::write(scratch.path().join("plan.json"), plan).expect("the plan");
        let none = scratch.run(&["run", "plan.json"]).exits(2);
        assert!(none.stderr.contains("SE0404") && none.stderr.contains("SURESTEP_SECRET_PASS"), "{none:?}");
        let with = |args: &[&str]| {
            let mut command = scratch.command(args);
            command.env("SURESTEP_SECRET_PASS", &value);
            command
        };
        if round > 0 {
            let mut child =
                with(&["run", "plan.json"]).stderr(std::process::Stdio::null()).spawn().expect("it starts");
            std::thread::sleep(std::time::Duration::from_millis(random(30)));
            kill_below(&mut child);
        }
        let ran =
            Ran::of(with(&["run", "plan.json", "--wait", "--json"]).output().expect("it runs")).exits(0);
        for file in ["got", "got2"] {
            let got = std::fs::read_to_string(scratch.path().join(file)).expect("what the command got");
            assert_eq!(got, value, "never a mask, never a part");
        }
        clean("--json", ran.stdout.as_bytes(), &runs);
        clean("stderr", ran.stderr.as_bytes(), &runs);
        walk(&scratch.store(), &mut |path, bytes| clean(&path.display().to_string(), bytes, &runs));
    }
}

#[test]
fn a_command_gets_the_secrets_that_it_names_and_no_other() {
    for prefix in ["SURESTEP_SECRET_", "APP_SECRET_"] {
        named_secrets_only(prefix);
    }
}

fn named_secrets_only(prefix: &str) {
    let scratch = Scratch::bare();
    std::fs::write(scratch.path().join("surestep.toml"), format!("[secrets]\nprefix = \"{prefix}\"\n"))
        .expect("the settings");
    let (mine, other) = (letters(24), letters(24));
    let runs = forbidden(&[("mine", mine.clone(), mine.clone()), ("other", other.clone(), other.clone())]);
    // The first keeps what it was given in a file, and the second, which is given nothing, prints that file.
    let plan = r#"{"format":"surestep.plan/1","session":"s","verdict":"done","operations":[
        {"kind":"shell","repo":"r","target":"keeps","body":{"run":["sh","-c","echo $MINE > kept; env"],"env":{"MINE":{"$secret":"MINE"}},"local":true}},
        {"kind":"shell","repo":"r","target":"prints","body":{"run":["sh","-c","cat kept; env; env > seen"],"local":true}}]}"#;
    std::fs::write(scratch.path().join("plan.json"), plan).expect("the plan");
    let mut command = scratch.command(&["run", "plan.json", "--json"]);
    command.env(format!("{prefix}MINE"), &mine).env(format!("{prefix}OTHER"), &other);
    let ran = Ran::of(command.output().expect("it runs")).exits(0);
    let seen = std::fs::read_to_string(scratch.path().join("seen")).expect("what a command inherits");
    assert!(seen.contains("SURESTEP_KEY=") && !seen.contains(prefix), "{seen}");
    let kept = std::fs::read_to_string(scratch.path().join("kept")).expect("what the first one got");
    assert_eq!(kept.trim_end(), mine);
    clean("stdout", ran.stdout.as_bytes(), &runs);
    clean("stderr", ran.stderr.as_bytes(), &runs);
    walk(&scratch.store(), &mut |path, bytes| clean(&path.display().to_string(), bytes, &runs));
}

#[test]
fn what_a_guard_leaves_for_a_killed_engine_is_scrubbed_of_what_it_was_given() {
    let scratch = Scratch::bare();
    let value = letters(24);
    let runs = forbidden(&[("pass", value.clone(), value.clone())]);
    let script =
        r#"echo "$PASS"; : > begun; sleep 1; printf %s "$PASS" | base64 >&2; printf %s "$PASS" > got"#;
    let plan = format!(
        r#"{{"format":"surestep.plan/1","session":"s","verdict":"done","operations":[{{"kind":"shell","repo":"r","target":"t","body":{{"run":["sh","-c",{}],"env":{{"PASS":{{"$secret":"PASS"}}}},"local":true}}}}]}}"#,
        quote(script)
    );
    std::fs::write(scratch.path().join("plan.json"), plan).expect("the plan");
    let mut command = scratch.command(&["run", "plan.json"]);
    let child = command.env("SURESTEP_SECRET_PASS", &value).stderr(std::process::Stdio::null()).spawn();
    let mut child = child.expect("it starts");
    let at = |name: &str| scratch.path().join(name);
    wait_for("the command", std::time::Duration::from_secs(20), || at("begun").exists());
    child.kill().expect("killed");
    child.wait().expect("reaped");
    let ended = || {
        let mut ended = false;
        walk(&scratch.store(), &mut |path, bytes| {
            let text = String::from_utf8_lossy(bytes);
            ended |= path.to_string_lossy().contains("guards") && text.contains(r#""state":"ended""#);
        });
        ended
    };
    wait_for("the guard's record", std::time::Duration::from_secs(20), ended);
    assert_eq!(std::fs::read_to_string(at("got")).expect("what it got"), value);
    walk(&scratch.store(), &mut |path, bytes| clean(&path.display().to_string(), bytes, &runs));
    // The record answers, and nobody needs the secret any more.
    let ran = scratch.run(&["resume", "s", "--wait", "--json"]).exits(0);
    assert!(ran.stdout.contains("scrubbed:known"), "{ran:?}");
    clean("--json", ran.stdout.as_bytes(), &runs);
    walk(&scratch.store(), &mut |path, bytes| clean(&path.display().to_string(), bytes, &runs));
}
