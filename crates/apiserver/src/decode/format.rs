//! Strings that Go decodes into something else: bytes, times and quantities.

/// Checks standard base64 as Go's decoder does; the complaint names the first byte that does not belong.
pub(crate) fn base64(text: &str) -> Result<(), String> {
    let fault = |at: usize| Err(format!("illegal base64 data at input byte {at}"));
    let bytes: Vec<(usize, u8)> =
        text.bytes().enumerate().filter(|(_, byte)| !matches!(byte, b'\n' | b'\r')).collect();
    for (quantum, chunk) in bytes.chunks(4).enumerate() {
        let last = (quantum + 1) * 4 >= bytes.len();
        for (i, (at, byte)) in chunk.iter().enumerate() {
            let padding_may_start = last && i >= 2 && *byte == b'=';
            if padding_may_start {
                let rest_is_padding = chunk[i..].iter().all(|(_, byte)| *byte == b'=');
                if rest_is_padding && chunk.len() == 4 {
                    return Ok(());
                }
                return fault(if chunk.len() < 4 { text.len() } else { *at + 1 });
            }
            if !(byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/')) {
                return fault(*at);
            }
        }
        if chunk.len() < 4 {
            return fault(chunk.first().map_or(text.len(), |(at, _)| *at) + chunk.len() - chunk.len() % 4);
        }
    }
    Ok(())
}

/// A time in the form the server writes back: seconds in UTC, or six decimals for the few fields that have them.
pub(crate) fn time(text: &str, micro: bool) -> Result<String, String> {
    let layout = if micro { "2006-01-02T15:04:05.000000Z07:00" } else { "2006-01-02T15:04:05Z07:00" };
    let parsed: Result<jiff::Timestamp, _> = text.parse();
    let fraction = |rest: &str| {
        let digits = rest.bytes().skip(1).take_while(u8::is_ascii_digit).count();
        !micro || (rest.starts_with('.') && digits == MICRO.len() - 1)
    };
    let plausible =
        text.len() >= 20 && text.as_bytes().get(10) == Some(&b'T') && text.get(19..).is_some_and(fraction);
    let Some(time) = parsed.ok().filter(|_| plausible) else {
        return Err(format!(
            "parsing time {} as \"{layout}\": cannot parse {}",
            crate::field::quoted(text),
            stuck(text, micro)
        ));
    };
    Ok(if micro { time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ") } else { time.strftime("%Y-%m-%dT%H:%M:%SZ") }
        .to_string())
}

/// The decimals a time with microseconds must have, in Go's notation.
const MICRO: &str = ".000000";

/// Where Go's parser stops, and what it was looking for there.
fn stuck(text: &str, micro: bool) -> String {
    let mut rest = text;
    for (element, width) in [
        ("2006", 4),
        ("-", 1),
        ("01", 2),
        ("-", 1),
        ("02", 2),
        ("T", 1),
        ("15", 2),
        (":", 1),
        ("04", 2),
        (":", 1),
        ("05", 2),
    ] {
        let digits = element.bytes().all(|b| b.is_ascii_digit());
        let fits = rest.get(..width).is_some_and(|head| {
            if digits { head.bytes().all(|b| b.is_ascii_digit()) } else { head == element }
        });
        if !fits {
            return format!("{} as \"{element}\"", crate::field::quoted(rest));
        }
        rest = &rest[width..];
    }
    if micro {
        let fits = rest.get(..MICRO.len()).is_some_and(|head| {
            head.strip_prefix('.').is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
        });
        if !fits {
            return format!("{} as \"{MICRO}\"", crate::field::quoted(rest));
        }
        rest = &rest[MICRO.len()..];
    }
    format!("{} as \"Z07:00\"", crate::field::quoted(rest))
}

/// What anything that is no quantity at all is told.
pub(crate) const NO_QUANTITY: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// Checks a `resource.Quantity`: a decimal number and a unit or exponent.
pub(crate) fn quantity(text: &str) -> Result<(), String> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = unsigned.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    if number.is_empty() || !suffix.is_ascii() {
        return Err(NO_QUANTITY.to_owned());
    }
    if number.matches('.').count() > 1 || number == "." {
        return Err("unable to parse numeric part of quantity".to_owned());
    }
    let exponent = |digits: &str| {
        let digits = digits.strip_prefix(['+', '-']).unwrap_or(digits);
        !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
    };
    let known = matches!(
        suffix,
        "" | "n" | "u" | "m" | "k" | "M" | "G" | "T" | "P" | "E" | "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei"
    );
    if known || suffix.strip_prefix(['e', 'E']).is_some_and(exponent) {
        return Ok(());
    }
    let letters = suffix.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
    let digits = letters.strip_prefix(['+', '-']).unwrap_or(letters);
    Err(if digits.bytes().all(|b| b.is_ascii_digit()) {
        "unable to parse quantity's suffix".to_owned()
    } else {
        NO_QUANTITY.to_owned()
    })
}
