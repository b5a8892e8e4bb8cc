//! Small help for error texts.

/// Texts from the other side can be megabytes: an error shows only their beginning.
pub(crate) fn shortened(text: &str) -> String {
    const LIMIT: usize = 160;
    match text.char_indices().nth(LIMIT) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}
