//! Where a git repository is: an URL or a path, read as git reads it.
//!
//! Decisions: a push and a look-up must speak of one place. Git rewrites an URL differently for the two
//! (`pushInsteadOf`), so the push's URL is made here, once, and used for both; one that would be rewritten yet
//! again is refused. *Local* is said only of what surely is a path.

/// A remote, as git takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remote {
    /// For pushing.
    pub(crate) push: String,
    /// For looking: the same place.
    pub(crate) look: String,
    /// Whether it is a path on this machine: then all that works on it runs below our guard.
    pub(crate) local: bool,
    /// Whether git reaches it through ssh.
    pub(crate) ssh: bool,
}

impl Remote {
    /// One that git takes under this name, and that is at this URL.
    pub(crate) fn new(name: &str, url: &str) -> Self {
        Self { push: name.to_owned(), look: name.to_owned(), local: is_local(url), ssh: is_ssh(url) }
    }

    /// What is no remote's name: an URL or a path.
    ///
    /// # Errors
    /// When the rules would rewrite the URL twice.
    pub(crate) fn unnamed(repo: &str, rules: &[Rewrite]) -> Result<Self, String> {
        if let Some(url) = rewrite(repo, rules, true) {
            return Self::at(&url, rules);
        }
        let url = rewrite(repo, rules, false);
        Ok(Self::new(repo, url.as_deref().unwrap_or(repo)))
    }

    /// Exactly this URL, for both.
    ///
    /// # Errors
    /// When a rule would rewrite it.
    pub(crate) fn at(url: &str, rules: &[Rewrite]) -> Result<Self, String> {
        if rewrite(url, rules, true).is_some() || rewrite(url, rules, false).is_some() {
            return Err(format!(
                "git's `insteadOf` rules rewrite `{url}` twice: name a URL that they leave alone"
            ));
        }
        Ok(Self::new(url, url))
    }
}

/// One `insteadOf` or `pushInsteadOf` rule of git's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rewrite {
    base: String,
    prefix: String,
    push: bool,
}

impl Rewrite {
    /// A rule, from a line of `git config --null --get-regexp`: `url.<base>.insteadof\n<prefix>`.
    pub(crate) fn parse(entry: &str) -> Option<Self> {
        let (name, prefix) = entry.split_once('\n')?;
        let name = name.strip_prefix("url.")?;
        let (base, push) = match name.strip_suffix(".pushinsteadof") {
            Some(base) => (base, true),
            None => (name.strip_suffix(".insteadof")?, false),
        };
        Some(Self { base: base.to_owned(), prefix: prefix.to_owned(), push })
    }
}

/// The URL after the rule with the longest prefix, as git chooses it.
fn rewrite(url: &str, rules: &[Rewrite], push: bool) -> Option<String> {
    let fits = |rule: &&Rewrite| rule.push == push && url.starts_with(&rule.prefix);
    let rule = rules.iter().filter(fits).max_by_key(|rule| rule.prefix.len())?;
    url.strip_prefix(&rule.prefix).map(|rest| format!("{}{rest}", rule.base))
}

/// Whether git would open it as a path of this machine. A bare word is a path too, but may yet become a remote's
/// name, so it is not called one.
pub(crate) fn is_local(url: &str) -> bool {
    match scheme(url) {
        Some(scheme) => scheme == "file",
        None => !is_scp(url) && !url.contains("::") && (url.contains('/') || url == "." || url == ".."),
    }
}

fn is_ssh(url: &str) -> bool {
    match scheme(url) {
        Some(scheme) => matches!(scheme, "ssh" | "git+ssh" | "ssh+git"),
        None => is_scp(url),
    }
}

fn scheme(url: &str) -> Option<&str> {
    url.split_once("://").map(|(scheme, _)| scheme)
}

/// `host:path`: a colon before any slash.
fn is_scp(url: &str) -> bool {
    url.split('/').next().is_some_and(|start| start.contains(':')) && !url.contains("::")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_is_said_only_of_paths() {
        for path in ["/srv/a.git", "./a", "../a", ".", "a/b.git", "/srv/od:d/a.git", "file:///srv/a.git"] {
            assert!(is_local(path), "{path}");
        }
        let elsewhere = [
            "origin",
            "host:a.git",
            "me@host:a/b.git",
            "ssh://host/a",
            "https://host/a",
            "git://h/a",
            "x::/a",
        ];
        for url in elsewhere {
            assert!(!is_local(url), "{url}");
        }
    }

    #[test]
    fn ssh_is_seen_in_both_spellings() {
        assert!(is_ssh("ssh://host/a") && is_ssh("me@host:a/b.git"));
        assert!(!is_ssh("https://host/a") && !is_ssh("/srv/od:d/a.git") && !is_ssh("ext::ssh host"));
    }

    fn rule(entry: &str) -> Rewrite {
        Rewrite::parse(entry).unwrap()
    }

    #[test]
    fn a_push_url_is_made_once_and_used_for_both() {
        let rules = [rule("url.git@h:.pushinsteadof\nhttps://h/"), rule("url./srv/.insteadof\nmine:")];
        let pushed = Remote::unnamed("https://h/a/b", &rules).unwrap();
        assert_eq!((pushed.push.as_str(), pushed.look.as_str()), ("git@h:a/b", "git@h:a/b"));
        assert!(pushed.ssh && !pushed.local);
        let mine = Remote::unnamed("mine:a.git", &rules).unwrap();
        assert_eq!((mine.push.as_str(), mine.local, mine.ssh), ("mine:a.git", true, false));
    }

    #[test]
    fn the_longest_prefix_wins_and_a_second_rewriting_is_refused() {
        let rules = [rule("url.short:.pushinsteadof\nx/"), rule("url.long:.pushinsteadof\nx/y/")];
        assert_eq!(Remote::unnamed("x/y/z", &rules).unwrap().push, "long:z");
        let again = [rule("url.a:.pushinsteadof\nx:"), rule("url.b:.insteadof\na:")];
        assert!(Remote::unnamed("x:z", &again).is_err());
    }
}
