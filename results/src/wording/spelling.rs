//! The known word that a misspelt one was meant to be.

/// `; did you mean …?` if a known word is near enough to be a slip of the hand, else nothing.
pub fn nearest<'w>(found: &str, known: impl IntoIterator<Item = &'w str>) -> String {
    nearest_typed(found, known, str::to_owned)
}

/// As [`nearest`], with the word as it would be typed.
pub fn nearest_typed<'w>(
    found: &str,
    known: impl IntoIterator<Item = &'w str>,
    typed: impl Fn(&str) -> String,
) -> String {
    word(found, known).map_or(String::new(), |word| format!("; did you mean `{}`?", typed(word)))
}

/// The nearest known word: one letter in three may differ, and two that changed places are one.
pub fn word<'w>(found: &str, known: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let far = known.into_iter().map(|word| (strsim::damerau_levenshtein(found, word), word));
    far.filter(|(far, word)| *far <= (word.len().max(found.len()) / 3).max(1)).min().map(|(_, word)| word)
}
