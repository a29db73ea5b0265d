//! Every error code's page, inside the binary: `surestep explain code` works offline.

/// Code and page, for each code that any command can print.
macro_rules! pages {
    ($($code:literal),* $(,)?) => {
        pub(crate) const PAGES: &[(&str, &str)] =
            &[$(($code, include_str!(concat!("../../../docs/errors/", $code, ".md")))),*];
    };
}

pages! {
    "SE0001",
    "SE0101",
    "SE0102",
    "SE0103",
    "SE0104",
    "SE0106",
    "SE0107",
    "SE0108",
    "SE0109",
    "SE0110",
    "SE0111",
    "SE0112",
    "SE0113",
    "SE0120",
    "SE0121",
    "SE0122",
    "SE0123",
    "SE0201",
    "SE0202",
    "SE0203",
    "SE0204",
    "SE0205",
    "SE0206",
    "SE0207",
    "SE0208",
    "SE0209",
    "SE0210",
    "SE0211",
    "SE0214",
    "SE0217",
    "SE0301",
    "SE0302",
    "SE0303",
    "SE0401",
    "SE0402",
    "SE0403",
    "SE0404",
    "SE0411",
    "SE0412",
    "SE0413",
    "SE0414",
    "SE0415",
    "SE0416",
    "SE0417",
    "SE0501",
    "SE0502",
    "SE0503",
    "SE0504",
    "SE0505",
    "SE0506",
    "SE0601",
    "SE0602",
    "SE0603", "SE0604", "SE0605",
    "SE0606",
    "SE0610",
    "SE0611",
    "SE0701",
    "SE0702",
    "SE0801",
    "SE0802",
    "SE0803",
    "SE0804",
    "SE0805",
    "SE0901",
    "SE0902",
}

/// The page of a code, however it is written: `SE0412`, `se0412`, `412`.
pub(crate) fn page(code: &str) -> Option<(&'static str, &'static str)> {
    let digits = code.trim().to_ascii_uppercase();
    let digits = digits.strip_prefix("SE").unwrap_or(&digits);
    PAGES
        .iter()
        .copied()
        .find(|(known, _)| known.strip_prefix("SE").is_some_and(|k| k == format!("{digits:0>4}")))
}

/// A page's title: its first line, without the code.
pub(crate) fn title(page: &str) -> &str {
    let first = page.lines().next().unwrap_or_default();
    first.split_once(": ").map_or(first, |(_, title)| title)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// The codes that stand as literals in a source text.
    fn codes_in(text: &str, into: &mut BTreeSet<String>) {
        for (at, _) in text.match_indices("\"SE0") {
            let code: String = text.chars().skip(text[..at].chars().count() + 1).take(6).collect();
            if code.len() == 6 && code[2..].bytes().all(|b| b.is_ascii_digit()) {
                into.insert(code);
            }
        }
    }

    fn sources(folder: &Path, into: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                sources(&path, into);
            } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("codes.rs") {
                codes_in(&std::fs::read_to_string(&path).unwrap(), into);
            }
        }
    }

    #[test]
    fn each_code_has_a_page_and_each_page_a_code() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut used = BTreeSet::new();
        sources(&here.join("src"), &mut used);
        sources(&here.join("../surestep/src"), &mut used);
        let listed: BTreeSet<String> = PAGES.iter().map(|(code, _)| (*code).to_owned()).collect();
        assert_eq!(used, listed, "codes in the sources, and codes with a page in the binary");
        let files = std::fs::read_dir(here.join("../../docs/errors")).unwrap().flatten();
        let files: BTreeSet<String> =
            files.filter_map(|f| f.file_name().to_str()?.strip_suffix(".md").map(str::to_owned)).collect();
        assert_eq!(files, listed, "pages in docs/errors, and pages in the binary");
    }

    #[test]
    fn each_page_says_what_happened_what_was_not_done_and_what_to_do() {
        for (code, page) in PAGES {
            assert!(page.starts_with(&format!("# {code}: ")), "{code}: its first line");
            for part in ["## What happened", "## What was not done", "## What to do next"] {
                let body = page.split(part).nth(1).map(str::trim).unwrap_or_default();
                assert!(body.len() > 20 && !body.starts_with('#'), "{code}: `{part}`");
            }
            assert!(page.len() < 3_000, "{code}: a page is a page");
        }
    }

    #[test]
    fn a_code_is_found_however_it_is_written() {
        for written in ["SE0412", "se0412", "412", "0412"] {
            assert_eq!(page(written).map(|(code, _)| code), Some("SE0412"), "{written}");
        }
        assert!(page("SE9999").is_none() && page("").is_none() && page("SE").is_none());
    }
}
