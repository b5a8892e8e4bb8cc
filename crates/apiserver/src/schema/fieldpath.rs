//! The simple JSON paths a schema's rules point with: `.spec.name`, `.map['a key']`.

use super::{Additional, Schema};

/// The field a path leads to from this schema, printed as field errors print it; or why it leads nowhere.
pub fn field_path(schema: &Schema, path: &str) -> Result<String, String> {
    follow(schema, path, true).map(|(printed, _)| printed)
}

/// Follows a path; `brackets` says whether `['name']` may be used.
pub(crate) fn follow<'s>(
    schema: &'s Schema,
    path: &str,
    brackets: bool,
) -> Result<(String, &'s Schema), String> {
    let mut printed = String::new();
    let mut here = schema;
    let mut rest = path;
    while let Some(first) = rest.chars().next() {
        let name;
        match first {
            '.' => {
                let after = &rest[1..];
                let end = after.find(['.', '[', ']']).unwrap_or(after.len());
                if after.is_empty() {
                    return Err("unexpected end of JSON path".to_owned());
                }
                let end = end.max(1);
                name = after[..end].to_owned();
                rest = &after[end..];
            }
            '[' if !brackets => return Err("array notation is not allowed".to_owned()),
            '[' => {
                let after = &rest[1..];
                let Some(body) = after.strip_prefix('\'') else {
                    let end = after.find(['.', '[', ']']).unwrap_or(after.len());
                    if after.is_empty() {
                        return Err("unexpected end of JSON path".to_owned());
                    }
                    return Err(format!("expected single quoted string but got {}", &after[..end.max(1)]));
                };
                let (text, length) = quoted_text(body)?;
                name = text;
                let after = &body[length..];
                match after.chars().next() {
                    Some(']') => rest = &after[1..],
                    Some(other) => return Err(format!("expected ] but got {other}")),
                    None => return Err("unexpected end of JSON path".to_owned()),
                }
            }
            _ => {
                let end = rest.find(['.', '[', ']']).unwrap_or(rest.len()).max(1);
                return Err(format!("expected [ or . but got: {}", &rest[..end]));
            }
        }
        if !here.properties.is_empty() {
            here = here.properties.get(&name).ok_or("does not refer to a valid field")?;
            if !printed.is_empty() {
                printed.push('.');
            }
            printed.push_str(&name);
        } else if let Additional::Of(of) = &here.additional {
            here = of;
            printed.push_str(&format!("[{name}]"));
        } else {
            return Err("does not refer to a valid field".to_owned());
        }
    }
    Ok((printed, here))
}

/// The text up to the closing quote, and how many bytes it and the quote take.
fn quoted_text(body: &str) -> Result<(String, usize), String> {
    let mut text = String::new();
    let mut chars = body.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' => return Ok((text, at + 1)),
            '\\' => match chars.next() {
                Some((_, 'a')) => text.push('\u{7}'),
                Some((_, 'b')) => text.push('\u{8}'),
                Some((_, 'f')) => text.push('\u{c}'),
                Some((_, 'n')) => text.push('\n'),
                Some((_, 'r')) => text.push('\r'),
                Some((_, 't')) => text.push('\t'),
                Some((_, 'v')) => text.push('\u{b}'),
                Some((_, '\'')) => text.push('\''),
                Some((_, '\\')) => text.push('\\'),
                Some((_, other)) => {
                    return Err(format!("invalid string literal: invalid escape char \\{other}"));
                }
                None => break,
            },
            other => text.push(other),
        }
    }
    Err("unexpected end of JSON path".to_owned())
}
