//! What a credential is taken for, and where it stands.

use std::fmt;
use std::ops::Range;

/// What a credential is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Class {
    /// GitHub tokens, of people, apps and installations.
    GitHub,
    /// GitLab tokens, of people, runners, pipelines, agents.
    GitLab,
    /// AWS access key ids, and secret keys that stand next to their name.
    Aws,
    /// Google API keys, access tokens, client secrets.
    Google,
    /// Azure account keys, client secrets, shared access signatures.
    Azure,
    /// Slack tokens and webhook addresses.
    Slack,
    /// Stripe keys and webhook secrets.
    Stripe,
    /// Keys in the style of OpenAI.
    OpenAi,
    /// Anthropic keys.
    Anthropic,
    /// npm tokens.
    Npm,
    /// PyPI tokens.
    PyPi,
    /// JSON web tokens.
    Jwt,
    /// Private keys in PEM form, whole or cut.
    Pem,
    /// What follows `Bearer` or `Basic` in a header.
    Authorization,
    /// User and password in a URL.
    UrlPassword,
    /// A value that a secret source gave out.
    Known,
}

impl Class {
    /// Its stable name, as in `[scrubbed:github]`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::GitHub => "github",
            Self::GitLab => "gitlab",
            Self::Aws => "aws",
            Self::Google => "google",
            Self::Azure => "azure",
            Self::Slack => "slack",
            Self::Stripe => "stripe",
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Npm => "npm",
            Self::PyPi => "pypi",
            Self::Jwt => "jwt",
            Self::Pem => "pem",
            Self::Authorization => "authorization",
            Self::UrlPassword => "url-password",
            Self::Known => "known",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Where a credential stands: bytes from the start of the text that was searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) class: Class,
    pub(super) span: Range<usize>,
}

/// In order, none touching another; of several that overlap, the class of the widest.
pub(super) fn merged(mut hits: Vec<Hit>) -> Vec<Hit> {
    hits.retain(|hit| !hit.span.is_empty());
    hits.sort_by_key(|hit| (hit.span.start, std::cmp::Reverse(hit.span.end)));
    let mut out: Vec<(Hit, usize)> = Vec::with_capacity(hits.len());
    for hit in hits {
        let width = hit.span.len();
        match out.last_mut() {
            Some((last, widest)) if hit.span.start < last.span.end => {
                last.span.end = last.span.end.max(hit.span.end);
                if width > *widest {
                    (last.class, *widest) = (hit.class, width);
                }
            }
            _ => out.push((hit, width)),
        }
    }
    out.into_iter().map(|(hit, _)| hit).collect()
}

/// The text with a mark in place of each hit.
pub(super) fn marked(bytes: &[u8], hits: &[Hit]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut done = 0;
    for hit in hits {
        out.extend_from_slice(bytes.get(done..hit.span.start).unwrap_or_default());
        out.extend_from_slice(b"[scrubbed:");
        out.extend_from_slice(hit.class.word().as_bytes());
        out.push(b']');
        done = hit.span.end;
    }
    out.extend_from_slice(bytes.get(done..).unwrap_or_default());
    out
}
