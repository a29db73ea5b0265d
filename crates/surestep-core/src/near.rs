//! Misspelt names, and what was meant.

/// The known name that is nearest to a misspelt one, if one is near.
#[must_use]
pub fn nearest(name: &str, known: &[&str]) -> Option<String> {
    known.iter().map(|k| (distance(name, k), *k)).min().filter(|(d, _)| *d <= 2).map(|(_, k)| k.to_owned())
}

/// Levenshtein distance, for names of a few letters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(64).enumerate() {
        let mut left = i + 1;
        let mut diagonal = i;
        for (y, cell) in b.iter().zip(row.iter_mut().skip(1)) {
            let above = *cell;
            let best = (diagonal + usize::from(x != *y)).min(above + 1).min(left + 1);
            (diagonal, left, *cell) = (above, best, best);
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(usize::MAX)
}
