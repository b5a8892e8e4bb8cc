//! The `fieldManager` option of a write.

use crate::field::{FieldError, Path, Problem, quoted};

/// The longest name of a field manager, in bytes.
const LONGEST: usize = 128;

/// The name a write is tracked under: the one it gives, else its user agent up to the first slash.
pub fn manager_name(field_manager: &str, user_agent: &str) -> String {
    if !field_manager.is_empty() {
        return field_manager.to_owned();
    }
    let product = user_agent.split('/').next().unwrap_or_default();
    let mut name = String::new();
    for c in product.chars().filter(|c| is_printable(*c)) {
        if name.len() + c.len_utf8() > LONGEST {
            break;
        }
        name.push(c);
    }
    name
}

/// What is wrong with a field manager's name at `path`.
pub fn check_manager(name: &str, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if name.len() > LONGEST {
        errors.push(FieldError {
            problem: Problem::TooLong,
            path: path.clone(),
            value: None,
            detail: format!("may not be more than {LONGEST} bytes"),
        });
    }
    for (at, c) in name.char_indices().filter(|(_, c)| !is_printable(*c)) {
        errors.push(FieldError {
            problem: Problem::Invalid,
            path: path.clone(),
            value: Some(quoted(name)),
            detail: format!("invalid character U+{:04X} (at position {at})", c as u32),
        });
    }
    errors
}

/// Letters, marks, numbers, punctuation, symbols and the plain space; the rest cannot be seen in a listing.
fn is_printable(c: char) -> bool {
    c == ' ' || !(c.is_control() || c.is_whitespace() || is_invisible(c))
}

fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{e000}'..='\u{f8ff}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{f0000}'..='\u{10ffff}')
}
