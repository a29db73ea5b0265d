//! Rules for what people read: error pages, decisions, links, and nothing that names where this was written.

use std::collections::{BTreeMap, BTreeSet};

use super::sources::{is_source, product};
use super::{Page, assert_none, assert_seen, pages, root};

/// The codes like `SE0301` in a text.
fn codes(text: &str) -> BTreeSet<String> {
    let is_code = |code: &str| code.len() == 6 && code[2..].bytes().all(|b| b.is_ascii_digit());
    let found = text.match_indices("SE").filter_map(|(at, _)| text.get(at..at + 6));
    found.filter(|code| is_code(code)).map(str::to_owned).collect()
}

/// Each code has a page of its name, each page a code and a title that begins with it.
fn error_pages(codes: &BTreeSet<String>, pages: &[Page]) -> Vec<String> {
    let mut out = Vec::new();
    let mut seen = BTreeSet::new();
    for page in pages {
        let Some(name) = page.path.strip_prefix("docs/errors/") else { continue };
        let Some(code) = name.strip_suffix(".md").filter(|code| codes.contains(*code)) else {
            out.push(format!("{}: no error has this code", page.path));
            continue;
        };
        if !page.text.starts_with(&format!("# {code}")) {
            out.push(format!("{}: its title does not begin with `{code}`", page.path));
        }
        seen.insert(code.to_owned());
    }
    out.extend(codes.difference(&seen).map(|code| format!("docs/errors/{code}.md: missing")));
    out
}

/// `docs/decisions/0001-….md` and on, without a gap, each with its number in its title.
fn misnumbered(pages: &[Page]) -> Vec<String> {
    let mut out = Vec::new();
    let decisions = pages.iter().filter_map(|p| Some((p, p.path.strip_prefix("docs/decisions/")?)));
    for (n, (page, name)) in decisions.enumerate() {
        let number = format!("{:04}", n + 1);
        if !name.starts_with(&format!("{number}-")) || !page.text.starts_with(&format!("# {number}")) {
            out.push(format!("{}: {number} is expected, in its name and its title", page.path));
        }
    }
    out
}

/// A heading's anchor, as hosts of Markdown make it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    kept.chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .collect::<String>()
        .replace(' ', "-")
}

/// The lines of a Markdown page that are not inside a code block.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

/// The targets of a page's links.
fn links(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    for line in prose(text) {
        for (at, _) in line.match_indices("](") {
            out.extend(line[at + 2..].split(')').next().map(str::to_owned));
        }
    }
    out
}

/// Links to files that are not there, or to headings that are not there.
fn dead_links(page: &Page, pages: &[Page]) -> Vec<String> {
    let texts: BTreeMap<&str, &str> = pages.iter().map(|p| (p.path.as_str(), p.text.as_str())).collect();
    let mut out = Vec::new();
    for link in links(&page.text).into_iter().filter(|l| !l.contains("://")) {
        let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
        let mut parts: Vec<&str> = page.path.split('/').collect();
        parts.pop();
        for part in file.split('/').filter(|p| !p.is_empty() && *p != ".") {
            match part {
                ".." => parts.truncate(parts.len().saturating_sub(1)),
                _ => parts.push(part),
            }
        }
        let target = if file.is_empty() { page.path.clone() } else { parts.join("/") };
        let is_folder = pages.iter().any(|p| p.path.starts_with(&format!("{target}/")));
        let there = match texts.get(target.as_str()) {
            Some(text) => {
                heading.is_empty()
                    || prose(text).any(|l| l.starts_with('#') && anchor(l.trim_start_matches('#')) == heading)
            }
            None => heading.is_empty() && is_folder,
        };
        if !there {
            out.push(format!("{}: `{link}` leads nowhere", page.path));
        }
    }
    out
}

/// Paths like `docs/x.md` in other files than pages must be there too.
fn dead_mentions(page: &Page, paths: &BTreeSet<&str>) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '/' | '-' | '_' | '.');
    let mentions = page.text.match_indices("docs/").filter_map(|(at, _)| {
        let whole = &page.text[at..];
        let path = &whole[..whole.find(|c| !is_part(c)).unwrap_or(whole.len())];
        path.trim_end_matches('.').strip_suffix(".md").map(|stem| format!("{stem}.md"))
    });
    mentions
        .filter(|path| path != "docs/errors/CODE.md" && !paths.contains(path.as_str()))
        .map(|path| format!("{}: there is no {path}", page.path))
        .collect()
}

/// Paths, people and hosts that mean something only where this was written.
fn ours_only(page: &Page, here: &str) -> Vec<String> {
    let places = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("sha", "red/"), here];
    let registries = [
        concat!("crates", ".io"),
        concat!("py", "pi.org"),
        concat!("python", "hosted.org"),
        concat!("npm", "js."),
        concat!("debian", ".org"),
        concat!("proxy.go", "lang"),
    ];
    let mut out = Vec::new();
    for (n, line) in page.text.lines().enumerate() {
        let mut complain =
            |what: &str, why: &str| out.push(format!("{}:{}: `{what}`: {why}", page.path, n + 1));
        for place in places.iter().filter(|place| line.contains(**place)) {
            complain(place, "a path of one machine");
        }
        for host in registries.iter().filter(|host| line.contains(**host)) {
            complain(host, "the host of a registry");
        }
        for address in addresses(line) {
            complain(&address, "somebody's address");
        }
    }
    out
}

/// Mail addresses outside the domains that are kept for examples (RFC 2606), and git's `git@host:` form.
fn addresses(line: &str) -> Vec<String> {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+');
    let mut out = Vec::new();
    for (at, _) in line.match_indices('@') {
        let user: String = line[..at].chars().rev().take_while(|c| part(*c)).collect();
        let user: String = user.chars().rev().collect();
        let host: String = line[at + 1..].chars().take_while(|c| part(*c)).collect();
        let host = host.trim_end_matches('.');
        let last = host.rsplit('.').next().unwrap_or_default();
        let real = host.contains('.') && last.len() >= 2 && last.chars().all(|c| c.is_ascii_alphabetic());
        let example = ["example.com", "example.org", "example.net"].iter().any(|e| host.ends_with(e))
            || matches!(last, "example" | "invalid" | "test" | "localhost");
        if !user.is_empty() && user != "git" && real && !example {
            out.push(format!("{user}@{host}"));
        }
    }
    out
}

#[test]
fn every_error_code_has_its_page_and_every_page_its_code() {
    let pages = pages();
    let known = pages.iter().filter(|p| is_source(p));
    let known: BTreeSet<String> = known.flat_map(|p| codes(product(p))).collect();
    assert!(known.contains("SE0301") && known.len() > 20, "the codes were not found: {known:?}");
    assert_none(&error_pages(&known, &pages));

    let known = codes("\"SE0001\" \"SE0002\" SEND SE12");
    assert_eq!(known.len(), 2);
    let sample = [
        Page::new("docs/errors/SE0001.md", "# SE0002: other\n"),
        Page::new("docs/errors/SE0003.md", "# SE0003: gone\n"),
    ];
    assert_seen(3, &error_pages(&known, &sample));
}

#[test]
fn decisions_are_numbered_without_a_gap() {
    let pages = pages();
    assert!(pages.iter().any(|p| p.path.starts_with("docs/decisions/0001-")));
    assert_none(&misnumbered(&pages));

    let sample = [
        Page::new("docs/decisions/0001-a.md", "# 0001 A\n"),
        Page::new("docs/decisions/0002-b.md", "# 0003: B\n"),
        Page::new("docs/decisions/0004-d.md", "# 0004: D\n"),
    ];
    assert_seen(2, &misnumbered(&sample));
}

#[test]
fn links_lead_somewhere() {
    let pages = pages();
    let docs = pages.iter().filter(|p| p.path.ends_with(".md"));
    assert_none(&docs.flat_map(|p| dead_links(p, &pages)).collect::<Vec<_>>());
    let paths: BTreeSet<&str> = pages.iter().map(|p| p.path.as_str()).collect();
    let others = pages.iter().filter(|p| !p.path.ends_with(".md") && !p.path.starts_with("tests/e2e/tidy"));
    assert_none(&others.flat_map(|p| dead_mentions(p, &paths)).collect::<Vec<_>>());

    let sample = [
        Page::new(
            "docs/a.md",
            "# One thing\n[x](b.md) [y](c.md) [z](#one-thing) [w](b.md#two) [v](../docs)\n",
        ),
        Page::new("docs/b.md", "# One\n```text\n# Two\n[in code](nowhere.md)\n```\n"),
    ];
    assert_seen(2, &dead_links(&sample[0], &sample));
    assert_seen(0, &dead_links(&sample[1], &sample));
    assert_seen(
        1,
        &dead_mentions(&Page::new("a.rs", "see docs/b.md, docs/c.md."), &BTreeSet::from(["docs/b.md"])),
    );
}

#[test]
fn nothing_names_where_it_was_written() {
    let here = root().display().to_string();
    let pages: Vec<_> = pages().into_iter().filter(|p| !p.path.ends_with("Cargo.lock")).collect();
    assert_none(&pages.iter().flat_map(|p| ours_only(p, &here)).collect::<Vec<_>>());

    for bad in [
        concat!("cd /wo", "rk/main"),
        concat!("/ro", "ot/.cargo"),
        "in /the/checkout/x",
        concat!("from crates", ".io"),
        concat!("ask somebody", "@", "company.com"),
    ] {
        assert_seen(1, &ours_only(&Page::new("a.md", bad), "/the/checkout"));
    }
    for good in ["git@github.com:a/b", "a@example.com", "t@x.invalid", "@types", "epoch@1.5", "/home/x"] {
        assert_seen(0, &ours_only(&Page::new("a.md", good), "/the/checkout"));
    }
}
