//! The table: by what literal each class of credentials is known, and what must follow.
//!
//! Prefixes and lengths are facts that their makers publish and that gitleaks' rule set collects; lengths are given
//! some room. A rule finds its literal in whatever case, then checks it to the letter.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use super::class::{Class, Hit};
use super::field::{Field, is_alnum, is_dotted, is_padded, is_upper, is_varied, is_word};
use super::special;

/// What must stand round a literal.
pub(super) enum Rule {
    /// So many such bytes behind it.
    Token { is: fn(u8) -> bool, min: usize, max: usize, edge: Edge },
    /// What this says.
    Special(fn(&Field<'_>, Range<usize>) -> Option<Range<usize>>),
}

/// What a token may touch.
#[derive(PartialEq, Eq)]
pub(super) enum Edge {
    /// Anything.
    Free,
    /// No letter or digit before it.
    Front,
    /// No letter or digit before it, and nothing of its own kind behind.
    Both,
}

type Row = (Class, &'static str, Rule);

const fn token(is: fn(u8) -> bool, min: usize, max: usize, edge: Edge) -> Rule {
    Rule::Token { is, min, max, edge }
}

const fn loose(is: fn(u8) -> bool, min: usize) -> Rule {
    token(is, min, 2_048, Edge::Front)
}

#[rustfmt::skip]
const TABLE: &[Row] = &[
    (Class::GitHub, "ghp_", token(is_alnum, 36, 255, Edge::Free)),
    (Class::GitHub, "gho_", token(is_alnum, 36, 255, Edge::Free)),
    (Class::GitHub, "ghu_", token(is_alnum, 36, 255, Edge::Free)),
    (Class::GitHub, "ghs_", token(is_dotted, 36, 2_048, Edge::Free)),
    (Class::GitHub, "ghr_", token(is_alnum, 36, 255, Edge::Free)),
    (Class::GitHub, "github_pat_", token(is_word, 40, 255, Edge::Free)),
    (Class::GitLab, "glpat-", loose(is_dotted, 20)),
    (Class::GitLab, "gldt-", loose(is_dotted, 20)),
    (Class::GitLab, "glrt-", loose(is_dotted, 20)),
    (Class::GitLab, "glrtr-", loose(is_dotted, 20)),
    (Class::GitLab, "glcbt-", loose(is_dotted, 20)),
    (Class::GitLab, "glptt-", loose(is_dotted, 20)),
    (Class::GitLab, "glft-", loose(is_dotted, 20)),
    (Class::GitLab, "glimt-", loose(is_dotted, 20)),
    (Class::GitLab, "glagent-", loose(is_dotted, 20)),
    (Class::GitLab, "glwt-", loose(is_dotted, 20)),
    (Class::GitLab, "gloas-", loose(is_dotted, 20)),
    (Class::GitLab, "glsoat-", loose(is_dotted, 20)),
    (Class::GitLab, "glffct-", loose(is_dotted, 20)),
    (Class::GitLab, "GR1348941", loose(is_word, 20)),
    (Class::Aws, "AKIA", token(is_upper, 16, 16, Edge::Both)),
    (Class::Aws, "ASIA", token(is_upper, 16, 16, Edge::Both)),
    (Class::Aws, "ABIA", token(is_upper, 16, 16, Edge::Both)),
    (Class::Aws, "ACCA", token(is_upper, 16, 16, Edge::Both)),
    (Class::Aws, "secret", Rule::Special(special::aws_secret)),
    (Class::Google, "AIza", token(is_word, 35, 35, Edge::Both)),
    (Class::Google, "ya29.", loose(is_dotted, 20)),
    (Class::Google, "GOCSPX-", loose(is_word, 24)),
    (Class::Azure, "AccountKey", Rule::Special(special::account_key)),
    (Class::Azure, "SharedAccessKey", Rule::Special(special::account_key)),
    (Class::Azure, "sig=", Rule::Special(special::shared_signature)),
    (Class::Azure, "Q~", Rule::Special(special::azure_secret)),
    (Class::Slack, "xoxa-", loose(is_word, 16)),
    (Class::Slack, "xoxb-", loose(is_word, 16)),
    (Class::Slack, "xoxe-", loose(is_word, 16)),
    (Class::Slack, "xoxe.xoxp-", loose(is_word, 16)),
    (Class::Slack, "xoxe.xoxb-", loose(is_word, 16)),
    (Class::Slack, "xoxo-", loose(is_word, 16)),
    (Class::Slack, "xoxp-", loose(is_word, 16)),
    (Class::Slack, "xoxr-", loose(is_word, 16)),
    (Class::Slack, "xoxs-", loose(is_word, 16)),
    (Class::Slack, "xapp-", loose(is_word, 20)),
    (Class::Slack, "hooks.slack.com/", Rule::Special(special::slack_hook)),
    (Class::Stripe, "sk_live_", loose(is_alnum, 16)),
    (Class::Stripe, "sk_test_", loose(is_alnum, 16)),
    (Class::Stripe, "sk_prod_", loose(is_alnum, 16)),
    (Class::Stripe, "rk_live_", loose(is_alnum, 16)),
    (Class::Stripe, "rk_test_", loose(is_alnum, 16)),
    (Class::Stripe, "rk_prod_", loose(is_alnum, 16)),
    (Class::Stripe, "whsec_", loose(is_padded, 24)),
    (Class::OpenAi, "sk-", Rule::Special(special::sk)),
    (Class::Anthropic, "sk-ant-", loose(is_word, 20)),
    (Class::Npm, "npm_", token(is_alnum, 36, 255, Edge::Free)),
    (Class::PyPi, "pypi-AgE", token(is_word, 40, 2_048, Edge::Free)),
    (Class::Jwt, "eyJ", Rule::Special(special::jwt)),
    (Class::Pem, "-----BEGIN ", Rule::Special(special::pem)),
    (Class::Pem, "-----END ", Rule::Special(special::pem_end)),
    (Class::Authorization, "authorization", Rule::Special(special::header)),
    (Class::Authorization, "bearer", Rule::Special(special::bearer)),
    (Class::Authorization, "basic", Rule::Special(special::basic)),
    (Class::UrlPassword, "://", Rule::Special(special::url_password)),
];

/// All literals at once. They are ours and few: that they cannot be built cannot be.
static LITERALS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::Standard)
        .kind(Some(AhoCorasickKind::DFA))
        .build(TABLE.iter().map(|row| row.1))
        .ok()
});

/// Each credential of the built-in classes.
pub(super) fn search(field: &Field<'_>, hits: &mut Vec<Hit>) {
    let Some(literals) = LITERALS.as_ref() else { return };
    let mut covered = Vec::new();
    for found in literals.find_overlapping_iter(field.bytes) {
        let Some((class, literal, rule)) = TABLE.get(found.pattern().as_usize()) else { continue };
        // What begins within a match of the same rule belongs to it: so the work is linear.
        let row = found.pattern().as_usize();
        if covered.get(row).is_some_and(|end| found.start() < *end) {
            continue;
        }
        let span = match rule {
            Rule::Token { is, min, max, edge } => {
                let exact = field.get(found.start(), found.end()) == literal.as_bytes();
                exact.then(|| token_at(field, found.range(), *is, *min, *max, edge)).flatten()
            }
            Rule::Special(at) => at(field, found.range()),
        };
        if let Some(span) = span.filter(|span| !span.is_empty()) {
            covered.resize(TABLE.len(), 0);
            if let Some(end) = covered.get_mut(row) {
                *end = span.end;
            }
            hits.push(Hit { class: *class, span });
        }
    }
}

fn token_at(
    field: &Field<'_>,
    literal: Range<usize>,
    is: fn(u8) -> bool,
    min: usize,
    max: usize,
    edge: &Edge,
) -> Option<Range<usize>> {
    if *edge != Edge::Free && is_alnum(field.before(literal.start)) {
        return None;
    }
    let mut end = field.run(literal.end, min, max, is);
    while matches!(end.checked_sub(1).map(|last| field.at(last)), Some(b'.')) {
        end -= 1;
    }
    let enough = end.saturating_sub(literal.end) >= min && is_varied(field.get(literal.end, end));
    let parted = *edge != Edge::Both || !is(field.behind(end));
    (enough && parted).then_some(literal.start..end)
}
