//! n operations cost n+1 commits, counted in files and in system calls.

use crate::harness::{Scratch, carry_env, commits, need};

/// Renames into the journal, and fsyncs of its files and of its folder, of one run of so many operations.
fn counted(operations: usize) -> (usize, usize, usize) {
    let scratch = Scratch::bare();
    let operation =
        |n| format!(r#"{{"kind":"file.write","repo":"r","target":"f-{n}","body":{{"content":"x"}}}}"#);
    let list: Vec<String> = (0..operations).map(operation).collect();
    let plan = format!(
        r#"{{"format":"surestep.plan/1","session":"s","verdict":"done","operations":[{}]}}"#,
        list.join(",")
    );
    std::fs::write(scratch.path().join("plan.json"), plan).expect("the plan is written");
    let plain = scratch.command(&["run", "plan.json"]);
    let mut traced = std::process::Command::new("strace");
    traced
        .args([
            "-f",
            "-qq",
            "-y",
            "-o",
            "trace",
            "-e",
            "trace=fsync,fdatasync,rename,renameat,renameat2,link,linkat",
        ])
        .arg(plain.get_program())
        .args(plain.get_args())
        .current_dir(scratch.path());
    carry_env(&plain, &mut traced);
    traced.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    assert!(traced.status().expect("strace runs").success());
    assert_eq!(commits(&scratch.journal("s")), operations + 1);
    let trace = scratch.lines("trace");
    let of = |call: &str, path: &str| trace.iter().filter(|l| l.contains(call) && l.contains(path)).count();
    let renames = of("renameat2(", "/journal");
    let folders = trace.iter().filter(|l| l.contains("fsync(") && l.contains("/journal>")).count();
    let files = of("fsync(", "/journal/") + of("fdatasync(", "/journal/");
    assert!(
        trace.iter().filter(|l| l.contains("/journal/0")).all(|l| l.contains("RENAME_NOREPLACE")),
        "{trace:#?}"
    );
    (renames, files, folders)
}

#[test]
fn n_operations_cost_n_plus_1_renames_and_as_many_flushes_of_file_and_folder() {
    if !need("strace") {
        return;
    }
    let (few, many) = (counted(2), counted(7));
    assert_eq!(few.0, 3, "renames into the journal");
    assert_eq!(few.1, 3, "flushes of commits");
    assert_eq!(many.0, 8);
    assert_eq!(many.1, 8);
    // The folder is flushed once a commit; a constant number of times more when the session is made and read.
    assert_eq!(many.2 - few.2, 5, "{few:?} {many:?}");
}
