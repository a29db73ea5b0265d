//! A wrong command line, in the same shape as every other error; help and version as they are.

use clap::error::ErrorKind;
use surestep::exit;

use crate::fail::Fail;
use crate::out::Out;

/// Says what clap found, and the exit code for it.
pub(crate) fn refuse(error: &clap::Error) -> u8 {
    let out = Out::new(std::env::args().any(|a| a == "--json"), false);
    let kind = error.kind();
    let helped = matches!(kind, ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if helped || kind == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // A reader that went away is no error.
        let _ = error.print();
        return if helped { exit::DONE } else { exit::USAGE };
    }
    let mut fail = fail(&error.render().to_string());
    // An empty variable reads like an option without its value, which nobody typed.
    let empty = |name: &&str| std::env::var_os(name).is_some_and(|value| value.is_empty());
    for name in ["SURESTEP_STORE", "SURESTEP_CONFIG"].iter().filter(|name| empty(name)) {
        fail = fail.why(format!("{name} is set and empty: unset it, or give it a value"));
    }
    fail.say(&out);
    fail.object(&out);
    fail.exit
}

/// Takes clap's own text apart: its first paragraph is what happened, its tips and its usage say what to do.
fn fail(rendered: &str) -> Fail {
    let mut paragraphs = rendered.split("\n\n").map(str::trim).filter(|p| !p.is_empty());
    let first = paragraphs.next().unwrap_or_default();
    let what = first.strip_prefix("error: ").unwrap_or(first);
    let one_line = what.split_whitespace().collect::<Vec<_>>().join(" ").replace('\'', "`");
    let mut fail = Fail::usage("SE0101", one_line.trim_end_matches(['.', ':']));
    let mut help = "surestep --help".to_owned();
    for paragraph in paragraphs {
        for line in paragraph.lines().map(str::trim).filter(|l| !l.is_empty()) {
            if let Some(usage) = line.strip_prefix("Usage: ") {
                fail = fail.why(format!("usage: {usage}"));
                let command =
                    usage.split_whitespace().nth(1).filter(|w| w.chars().all(|c| c.is_ascii_lowercase()));
                help = command.map_or(help, |command| format!("surestep {command} --help"));
            } else if !line.starts_with("For more information") {
                fail = fail.why(line.replace('\'', "`"));
            }
        }
    }
    fail.state("nothing was read or started").next(help)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::Cli;

    fn said(line: &str) -> Fail {
        let error = Cli::try_parse_from(line.split_whitespace()).unwrap_err();
        fail(&error.render().to_string())
    }

    #[test]
    fn a_wrong_flag_names_itself_and_the_help_of_its_command() {
        let fail = said("surestep resume x --wiat");
        assert!(fail.what.contains("`--wiat`"), "{fail:?}");
        assert!(fail.why.iter().any(|w| w.contains("--wait")), "{fail:?}");
        assert_eq!(fail.next.first().map(|n| n.command.as_str()), Some("surestep resume --help"));
    }

    #[test]
    fn a_missing_word_lists_what_may_stand_there() {
        let fail = said("surestep resolve s 1 --because x");
        assert!(fail.what.contains("--landed|--not-landed|--skip"), "{fail:?}");
    }
}
