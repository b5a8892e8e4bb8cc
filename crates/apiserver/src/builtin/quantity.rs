//! Resource quantities: `500m`, `1Gi`, `2e3`.
//!
//! A server prints every quantity in its canonical form, so `1000m` and `1` are the same thing to compare.

use std::cmp::Ordering;

/// How a quantity was written, and is printed again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Style {
    /// Powers of 1000 by letter: `k`, `M`, `m`.
    Decimal,
    /// Powers of 1024: `Ki`, `Mi`.
    Binary,
    /// `e3`.
    Exponent,
}

/// An amount, exact to a billionth.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nano: i128,
    style: Style,
}

const UNIT: i128 = 1_000_000_000;
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// From `n` (10⁻⁹) to `E` (10¹⁸).
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

impl Quantity {
    /// Reads a quantity; nothing for what is not one, or is too large to hold.
    pub fn parse(text: &str) -> Option<Quantity> {
        let digits_end = text
            .char_indices()
            .find(|(at, c)| !(c.is_ascii_digit() || *c == '.' || (*at == 0 && matches!(c, '+' | '-'))))
            .map_or(text.len(), |(at, _)| at);
        let (number, suffix) = text.split_at(digits_end);
        let (negative, number) = match number.as_bytes().first()? {
            b'-' => (true, &number[1..]),
            b'+' => (false, &number[1..]),
            _ => (false, number),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return None;
        }
        let (scale, style) = scale_of(suffix)?;
        let nano = exact(whole, fraction, scale)?;
        Some(Quantity { nano: if negative { -nano } else { nano }, style })
    }

    /// The amount in billionths.
    pub fn nano(&self) -> i128 {
        self.nano
    }

    /// The amount with nothing finer than a thousandth, rounded up: what resource lists hold.
    #[must_use]
    pub fn to_milli(self) -> Quantity {
        const MILLI: i128 = UNIT / 1000;
        let rest = self.nano.rem_euclid(MILLI);
        Quantity { nano: if rest == 0 { self.nano } else { self.nano - rest + MILLI }, ..self }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Quantity) -> bool {
        self.nano == other.nano
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Quantity) -> Option<Ordering> {
        Some(self.nano.cmp(&other.nano))
    }
}

/// The canonical form: no fraction, and the largest suffix that keeps the number whole.
impl std::fmt::Display for Quantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Below 1024, and where a fraction is left, powers of 1024 say nothing.
        let binary = self.style == Style::Binary && self.nano % UNIT == 0 && self.nano.abs() >= 1024 * UNIT;
        if binary {
            let (mut number, mut power) = (self.nano / UNIT, 0);
            while number % 1024 == 0 && power + 1 < BINARY.len() {
                (number, power) = (number / 1024, power + 1);
            }
            return write!(f, "{number}{}", BINARY[power]);
        }
        let (mut number, mut power) = (self.nano, 0);
        if number == 0 {
            return f.write_str("0");
        }
        while number % 1000 == 0 && power + 1 < DECIMAL.len() {
            (number, power) = (number / 1000, power + 1);
        }
        if self.style == Style::Exponent {
            match power as i32 * 3 - 9 {
                0 => write!(f, "{number}"),
                exponent => write!(f, "{number}e{exponent}"),
            }
        } else {
            write!(f, "{number}{}", DECIMAL[power])
        }
    }
}

/// What a suffix multiplies by: as (base, exponent).
fn scale_of(suffix: &str) -> Option<((i128, i32), Style)> {
    if let Some(at) = DECIMAL.iter().position(|s| *s == suffix) {
        return Some(((10, at as i32 * 3 - 9), Style::Decimal));
    }
    if let Some(at) = BINARY.iter().position(|s| *s == suffix) {
        return Some(((2, at as i32 * 10), Style::Binary));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    let exponent: i32 = exponent.parse().ok()?;
    Some(((10, exponent), Style::Exponent))
}

/// `whole.fraction × base^exponent` in billionths, rounded up where it is finer.
fn exact(whole: &str, fraction: &str, (base, exponent): (i128, i32)) -> Option<i128> {
    let digits: String = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let number: i128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    let mut tens = 9 - i32::try_from(fraction.len()).ok()?;
    let mut value = number;
    if base == 2 {
        value = value.checked_mul(1_i128.checked_shl(u32::try_from(exponent).ok()?)?)?;
    } else {
        tens = tens.checked_add(exponent)?;
    }
    if value == 0 {
        return Some(0);
    }
    if tens >= 0 {
        value.checked_mul(10_i128.checked_pow(u32::try_from(tens).ok()?)?)
    } else {
        match 10_i128.checked_pow(u32::try_from(-tens).ok()?) {
            Some(divisor) => Some(value.div_euclid(divisor) + i128::from(value.rem_euclid(divisor) != 0)),
            None => Some(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Quantity;

    #[test]
    fn a_quantity_is_printed_in_its_canonical_form() {
        let table = [
            ("0", "0"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("100", "100"),
            ("1000", "1k"),
            ("1500", "1500"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("512", "512"),
            ("512Ki", "512Ki"),
            ("0.5Ki", "512"),
            ("1e3", "1e3"),
            ("12E6", "12e6"),
            ("0.1Ki", "102400m"),
            ("-1500m", "-1500m"),
            ("100Mi", "100Mi"),
            ("4000Mi", "4000Mi"),
            ("1.0000000001", "1000000001n"),
        ];
        for (given, printed) in table {
            assert_eq!(Quantity::parse(given).unwrap().to_string(), printed, "{given}");
        }
    }

    #[test]
    fn what_is_not_a_quantity_is_none() {
        for text in ["", "m", "1.2.3", "1x", "one", "1 Gi", "--1"] {
            assert!(Quantity::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn quantities_compare_by_amount_not_by_spelling() {
        assert_eq!(Quantity::parse("1Gi"), Quantity::parse("1024Mi"));
        assert!(Quantity::parse("1001m") > Quantity::parse("1"));
        assert_eq!(Quantity::parse("0.1m").unwrap().to_milli().to_string(), "1m");
    }
}
