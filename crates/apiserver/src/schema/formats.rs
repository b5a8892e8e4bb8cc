//! The string formats a custom resource's schema may name. Any other format is a comment: it checks nothing.

use std::collections::HashMap;
use std::net::Ipv6Addr;
use std::sync::{Arc, LazyLock, RwLock};

use regex::Regex;

const LETTERS: &str = r"[a-zA-Z0-9\p{S}\p{L}]";

static PATTERNS: LazyLock<HashMap<&'static str, Regex>> = LazyLock::new(|| {
    let host = format!(
        r"^({LETTERS}((-?{LETTERS}{{0,62}})?)|({LETTERS}(([a-zA-Z0-9\-\p{{S}}\p{{L}}]{{0,61}}{LETTERS})?)(\.)){{1,}}([a-zA-Z\p{{L}}]){{2,63}})$"
    );
    let channel = r"\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*";
    let rgb = format!(r"^rgb\({channel},{channel},{channel}\)$");
    [
        ("hostname", host.as_str()),
        ("uuid", r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"),
        ("uuid3", r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$"),
        ("uuid4", r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"),
        ("uuid5", r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"),
        (
            "creditcard",
            r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$",
        ),
        ("ssn", r"^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"),
        ("hexcolor", r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"),
        ("rgbcolor", rgb.as_str()),
        ("byte", r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$"),
        ("bsonobjectid", r"^[0-9a-fA-F]{24}$"),
        ("datetime", r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$"),
        ("duration", r"([0-9]+)\s*([A-Za-zµ]+)"),
        ("goduration", r"^[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$"),
    ]
    .into_iter()
    .map(|(name, pattern)| (name, Regex::new(pattern).expect("the patterns of the formats are valid")))
    .collect()
});

/// The formats the server checks. Those added in its newest version (`k8s-short-name`, …) are not among them: a schema
/// is read as the version before would read it, so that a downgrade refuses nothing.
const NAMES: [&str; 24] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
];

/// Whether the format is one that is checked.
pub fn is_known(format: &str) -> bool {
    NAMES.contains(&format.replace('-', "").as_str())
}

/// Whether the text has the format. An unknown format accepts everything.
pub(crate) fn accepts(format: &str, text: &str) -> bool {
    let name = format.replace('-', "");
    match name.as_str() {
        "ipv4" => text.contains('.') && is_ip(text, true),
        "ipv6" => text.contains(':') && is_ip(text, false),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "hostname" => {
            matches(&name, text) && text.len() <= 255 && text.split('.').all(|label| label.len() <= 63)
        }
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => is_credit_card(text),
        "ssn" => text.len() == 11 && matches(&name, text),
        "date" => is_date(text),
        "datetime" => is_date_time(text),
        "duration" => is_duration(text),
        "uri" => is_request_uri(text),
        "email" => is_email(text),
        "password" => true,
        _ => PATTERNS.get(name.as_str()).is_none_or(|pattern| pattern.is_match(text)),
    }
}

fn matches(name: &str, text: &str) -> bool {
    PATTERNS.get(name).is_some_and(|pattern| pattern.is_match(text))
}

/// `sloppy` accepts leading zeros in dotted quads, as the server does for `ipv4` and `cidr` but not for `ipv6`.
fn is_ip(text: &str, sloppy: bool) -> bool {
    let quad = |text: &str| {
        let parts: Vec<&str> = text.split('.').collect();
        parts.len() == 4
            && parts.iter().all(|part| {
                let trimmed = part.trim_start_matches('0');
                !part.is_empty()
                    && part.bytes().all(|b| b.is_ascii_digit())
                    && (sloppy || trimmed.len() == part.len() || *part == "0")
                    && (trimmed.is_empty() || trimmed.parse::<u8>().is_ok())
            })
    };
    if !text.contains(':') {
        return quad(text);
    }
    match text.rsplit_once(':') {
        Some((head, tail)) if tail.contains('.') => {
            quad(tail) && format!("{head}:0:0").parse::<Ipv6Addr>().is_ok()
        }
        _ => text.parse::<Ipv6Addr>().is_ok(),
    }
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let most = if address.contains(':') { 128 } else { 32 };
    is_ip(address, true)
        && !length.is_empty()
        && length.bytes().all(|b| b.is_ascii_digit())
        && length.parse::<u32>().is_ok_and(|bits| bits <= most)
}

fn is_mac(text: &str) -> bool {
    let (groups, width): (Vec<&str>, usize) = match text.as_bytes().get(2) {
        Some(b':') => (text.split(':').collect(), 2),
        Some(b'-') => (text.split('-').collect(), 2),
        Some(_) if text.as_bytes().get(4) == Some(&b'.') => (text.split('.').collect(), 4),
        Some(_) | None => (vec![text], text.len()),
    };
    let hex = |group: &&str| group.len() == width && group.bytes().all(|b| b.is_ascii_hexdigit());
    let digits = groups.len() * width;
    [12, 16, 40].contains(&digits) && groups.iter().all(hex)
}

fn isbn_digits(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && *c != '-').collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = isbn_digits(text);
    if digits.len() != 10 {
        return false;
    }
    let mut sum = 0;
    for (index, c) in digits.chars().enumerate() {
        let value = match (c, index) {
            ('X', 9) => 10,
            _ => match c.to_digit(10) {
                Some(value) => value as usize,
                None => return false,
            },
        };
        sum += (index + 1) * value;
    }
    sum % 11 == 0
}

fn is_isbn13(text: &str) -> bool {
    let digits: Option<Vec<u32>> = isbn_digits(text).chars().map(|c| c.to_digit(10)).collect();
    let Some(digits) = digits.filter(|digits| digits.len() == 13) else { return false };
    let sum: u32 = digits[..12].iter().zip([1, 3].iter().cycle()).map(|(digit, weight)| digit * weight).sum();
    digits[12] == (10 - sum % 10) % 10
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let luhn: u32 = digits
        .chars()
        .rev()
        .filter_map(|c| c.to_digit(10))
        .enumerate()
        .map(|(index, digit)| match (index % 2, digit * 2) {
            (1, doubled) if doubled >= 10 => doubled % 10 + 1,
            (1, doubled) => doubled,
            _ => digit,
        })
        .sum();
    matches("creditcard", &digits) && luhn.is_multiple_of(10)
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let Some(found) = PATTERNS["datetime"].captures(time) else { return false };
    is_date(date) && &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59"
}

/// Go's notation (`1h30m`), or words (`2 days`): one number with a unit that is understood is enough.
fn is_duration(text: &str) -> bool {
    const EXACT: [&str; 12] = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk", "min"];
    const BEGIN: [&str; 8] = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    let understood = |unit: &str| EXACT.contains(&unit) || BEGIN.iter().any(|begin| unit.starts_with(begin));
    matches("goduration", text)
        || PATTERNS["duration"].captures_iter(text).any(|found| understood(&found[2].to_lowercase()))
}

/// An absolute URI, or an absolute path.
fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.chars().any(|c| c.is_ascii_control()) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let rest = match text.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c))) {
        Some(0) if text.starts_with(':') => return false,
        Some(colon)
            if text[colon..].starts_with(':') && text.starts_with(|c: char| c.is_ascii_alphabetic()) =>
        {
            let rest = &text[colon + 1..];
            if !rest.starts_with('/') {
                return true;
            }
            rest
        }
        Some(_) | None => text,
    };
    if !rest.starts_with('/') {
        return false;
    }
    let authority_ok = match rest.strip_prefix("//") {
        Some(after) if !rest.starts_with("///") && rest.len() < text.len() => {
            let authority = after.split(['/', '?']).next().unwrap_or_default();
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            let port = match host.strip_prefix('[') {
                Some(v6) => match v6.split_once(']') {
                    Some((_, port)) => port,
                    None => return false,
                },
                None => host.find(':').map_or("", |colon| &host[colon..]),
            };
            let port_ok = port.is_empty()
                || port.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()));
            port_ok && !host.contains([' ', '"', '<', '>', '^', '`', '{', '|', '}', '\\'])
        }
        Some(_) | None => true,
    };
    let path = rest.split('?').next().unwrap_or_default();
    let escapes_ok = path.match_indices('%').all(|(at, _)| {
        path.as_bytes().get(at + 1..at + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit))
    });
    authority_ok && escapes_ok
}

/// `user@host`, or `Name <user@host>`.
fn is_email(text: &str) -> bool {
    let text = text.trim();
    let address = match text.rsplit_once('<') {
        Some((name, rest)) => match rest.strip_suffix('>') {
            Some(address) if !name.contains(['@', ',', ';']) || name.trim().starts_with('"') => address,
            Some(_) | None => return false,
        },
        None => text,
    };
    let Some((user, host)) = address.rsplit_once('@') else { return false };
    let atom = |text: &str| {
        !text.is_empty()
            && !text.starts_with('.')
            && !text.ends_with('.')
            && !text.contains("..")
            && text
                .chars()
                .all(|c| !c.is_ascii() || c.is_ascii_alphanumeric() || ".!#$%&'*+-/=?^_`{|}~".contains(c))
    };
    let quoted = user.len() > 1 && user.starts_with('"') && user.ends_with('"');
    let literal = host.starts_with('[') && host.ends_with(']');
    (quoted || atom(user)) && (literal || atom(host))
}

static COMPILED: LazyLock<RwLock<HashMap<String, Option<Arc<Regex>>>>> = LazyLock::new(RwLock::default);

/// The compiled form of a `pattern`, made once; `None` when the server could not read it either.
pub(crate) fn compiled(pattern: &str) -> Option<Arc<Regex>> {
    if let Ok(cache) = COMPILED.read()
        && let Some(known) = cache.get(pattern)
    {
        return known.clone();
    }
    let made = Regex::new(&go_dialect(pattern)).ok().map(Arc::new);
    if let Ok(mut cache) = COMPILED.write() {
        cache.insert(pattern.to_owned(), made.clone());
    }
    made
}

/// Go's `\d`, `\w`, `\s` and `\b` are ASCII; ours are not unless written out.
fn go_dialect(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('d') if in_class => out.push_str("0-9"),
                Some('d') => out.push_str("[0-9]"),
                Some('D') => out.push_str("[^0-9]"),
                Some('w') if in_class => out.push_str("0-9A-Za-z_"),
                Some('w') => out.push_str("[0-9A-Za-z_]"),
                Some('W') => out.push_str("[^0-9A-Za-z_]"),
                Some('s') if in_class => out.push_str(r"\t\n\x0c\r "),
                Some('s') => out.push_str(r"[\t\n\x0c\r ]"),
                Some('S') => out.push_str(r"[^\t\n\x0c\r ]"),
                Some('b') if !in_class => out.push_str(r"(?-u:\b)"),
                Some('Z') => out.push_str(r"\z"),
                Some(other) => {
                    out.push('\\');
                    out.push(other);
                }
                None => out.push('\\'),
            },
            '[' if in_class => {
                // Go reads `[` inside a class as itself (POSIX classes aside); here it would open another.
                let rest = chars.as_str();
                if rest.starts_with(':') { out.push('[') } else { out.push_str(r"\[") }
            }
            '[' => {
                in_class = true;
                out.push('[');
                // A `]` right after the opening stands for itself.
                let rest = chars.as_str();
                if let Some(after) = rest.strip_prefix('^') {
                    out.push('^');
                    chars = after.chars();
                }
                if let Some(after) = chars.as_str().strip_prefix(']') {
                    out.push_str(r"\]");
                    chars = after.chars();
                }
            }
            ']' if in_class => {
                let posix =
                    out.rfind("[:").is_some_and(|open| out[open..].ends_with(':') && out.len() > open + 2);
                out.push(']');
                in_class = posix && !chars.as_str().is_empty() && out.ends_with(":]");
            }
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
            }
            other => out.push(other),
        }
    }
    out
}
