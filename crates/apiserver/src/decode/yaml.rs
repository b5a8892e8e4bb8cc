//! YAML, read the way Kubernetes reads it: version 1.1, turned into JSON before anything looks at it.
//!
//! `yes`, `on` and `y` are booleans, `010` is eight, merge keys merge, only the first document counts and a
//! later key wins over an earlier one. The result is ordered by key, as JSON made from a Go map is.

use std::collections::{BTreeMap, HashMap};

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, StrInput};

use super::budget::{CopyBudget, DEPTH, bytes_of_doc};
use super::doc::Doc;
use crate::field::quoted;

/// A document and what a strict reader has to say about it.
#[derive(Debug)]
pub(crate) struct Yaml {
    /// The document, ordered by key, without duplicates.
    pub(crate) doc: Doc,
    /// `line 8: key "a" already set in map`, one per key that stood twice.
    pub(crate) duplicates: Vec<String>,
}

impl Yaml {
    /// The strict error, as one text.
    pub(crate) fn strict_error(&self) -> Option<String> {
        if self.duplicates.is_empty() {
            return None;
        }
        Some(format!("yaml: unmarshal errors:\n  {}", self.duplicates.join("\n  ")))
    }
}

/// Reads the first document.
pub(crate) fn parse(body: &[u8]) -> Result<Yaml, String> {
    let text = std::str::from_utf8(body).map_err(|_| "yaml: invalid leading UTF-8 octet".to_owned())?;
    // YAML 1.1 has no tabs before a token; the parser, made for 1.2, lets one pass at the very start.
    if text.starts_with('\t') && !text.trim_start_matches(['\t', ' ']).starts_with(['\n', '\r', '#']) {
        return Err("yaml: found character that cannot start any token".to_owned());
    }
    let mut reader = Reader {
        text,
        events: Parser::new_from_str(text),
        anchors: HashMap::new(),
        duplicates: Vec::new(),
        copies: CopyBudget::default(),
    };
    let doc = reader.document()?;
    Ok(Yaml { doc, duplicates: reader.duplicates })
}

struct Reader<'a> {
    text: &'a str,
    events: Parser<'a, StrInput<'a>>,
    anchors: HashMap<usize, Doc>,
    duplicates: Vec<String>,
    /// What aliases may still unfold to.
    copies: CopyBudget,
}

/// What a key's node turned into, printed for the JSON and for the complaint about a second one.
struct Key {
    name: String,
    shown: String,
    merge: bool,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, usize), String> {
        loop {
            match self.events.next() {
                Some(Ok((Event::Comment(..), _))) => {}
                Some(Ok((event, span))) => return Ok((event, span.start.line())),
                Some(Err(error)) => return Err(worded(&error, self.text)),
                None => return Ok((Event::StreamEnd, 0)),
            }
        }
    }

    fn document(&mut self) -> Result<Doc, String> {
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(Doc::Null),
                (Event::DocumentStart(_, Some(version)), _) if version.major != 1 || version.minor != 1 => {
                    return Err("yaml: found incompatible YAML document".to_owned());
                }
                (Event::StreamStart | Event::DocumentStart(..), _) => {}
                (event, _) => return self.node(event, 0),
            }
        }
    }

    fn node(&mut self, event: Event<'a>, depth: usize) -> Result<Doc, String> {
        if depth > DEPTH {
            return Err("yaml: exceeded max depth".to_owned());
        }
        let (doc, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let tag = tag.as_deref().map(|tag| format!("{}{}", tag.handle(), tag.suffix()));
                (resolve(&text, style == ScalarStyle::Plain, tag.as_deref())?, anchor)
            }
            Event::SequenceStart(_, anchor, _) => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, _) => break,
                        (event, _) => items.push(self.node(event, depth + 1)?),
                    }
                }
                (Doc::Array(items), anchor)
            }
            Event::MappingStart(_, anchor, _) => (self.mapping(depth)?, anchor),
            Event::Alias(anchor) => {
                let doc = self.anchors.get(&anchor).ok_or("yaml: unknown anchor referenced")?;
                return copied(&mut self.copies, doc);
            }
            // The parser balances its events; whatever else comes here carries no data.
            Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(..)
            | Event::DocumentEnd
            | Event::Anchor(..)
            | Event::UnresolvedAlias(_)
            | Event::Comment(..)
            | Event::SequenceEnd
            | Event::MappingEnd
            | _ => return Ok(Doc::Null),
        };
        if anchor != 0 {
            let kept = copied(&mut self.copies, &doc)?;
            self.anchors.insert(anchor, kept);
        }
        Ok(doc)
    }

    fn mapping(&mut self, depth: usize) -> Result<Doc, String> {
        let mut fields: BTreeMap<String, Doc> = BTreeMap::new();
        let mut inherited: BTreeMap<String, Doc> = BTreeMap::new();
        loop {
            let (event, line) = self.next()?;
            if event == Event::MappingEnd {
                break;
            }
            let plain = matches!(&event, Event::Scalar(_, ScalarStyle::Plain, _, _));
            let key = self.node(event, depth + 1)?;
            let (event, _) = self.next()?;
            let value = self.node(event, depth + 1)?;
            let key = key_of(&key, plain, &value)?;
            if key.merge {
                merge_into(&mut inherited, value)?;
                continue;
            }
            if fields.insert(key.name, value).is_some() {
                self.duplicates.push(format!("line {line}: key {} already set in map", key.shown));
            }
        }
        inherited.extend(fields);
        Ok(Doc::Object(inherited.into_iter().collect()))
    }
}

/// A copy of what is anchored, if there may be one more. A document of a few lines can name billions.
fn copied(copies: &mut CopyBudget, doc: &Doc) -> Result<Doc, String> {
    copies.spend(bytes_of_doc(doc)).ok_or("yaml: document contains excessive aliasing")?;
    Ok(doc.clone())
}

fn merge_into(fields: &mut BTreeMap<String, Doc>, value: Doc) -> Result<(), String> {
    let sources = match value {
        Doc::Object(_) => vec![value],
        Doc::Array(items) => items,
        Doc::Null | Doc::Bool(_) | Doc::Number(_) | Doc::String(_) => {
            return Err("yaml: map merge requires map or sequence of maps as the value".to_owned());
        }
    };
    for source in sources {
        let Doc::Object(entries) = source else {
            return Err("yaml: map merge requires map or sequence of maps as the value".to_owned());
        };
        for (key, value) in entries {
            fields.entry(key).or_insert(value);
        }
    }
    Ok(())
}

/// JSON knows only strings as keys: numbers and booleans are written out, everything else is refused.
fn key_of(key: &Doc, plain: bool, value: &Doc) -> Result<Key, String> {
    let (name, shown) = match key {
        Doc::String(text) => {
            return Ok(Key { name: text.clone(), shown: quoted(text), merge: plain && text == "<<" });
        }
        Doc::Bool(b) => (b.to_string(), b.to_string()),
        Doc::Number(text) => (text.clone(), text.clone()),
        Doc::Null => {
            let shown = match value {
                Doc::String(text) => quoted(text),
                Doc::Null | Doc::Bool(_) | Doc::Number(_) | Doc::Array(_) | Doc::Object(_) => {
                    crate::text::printed(&value.to_value())
                }
            };
            return Err(format!("unsupported map key of type: %!s(<nil>), key: <nil>, value: {shown}"));
        }
        Doc::Array(_) | Doc::Object(_) => {
            return Err(format!("yaml: invalid map key: {}", crate::text::printed(&key.to_value())));
        }
    };
    Ok(Key { name, shown, merge: false })
}

const TAG: &str = "tag:yaml.org,2002:";

/// What a scalar means under YAML 1.1.
fn resolve(text: &str, plain: bool, tag: Option<&str>) -> Result<Doc, String> {
    let tag = tag.map(|tag| tag.strip_prefix(TAG).unwrap_or(tag));
    match tag {
        None if !plain => Ok(Doc::String(text.to_owned())),
        None => untagged(text),
        Some("binary") => {
            use base64::Engine as _;
            let clean: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
            match base64::engine::general_purpose::STANDARD.decode(clean) {
                Ok(bytes) => Ok(Doc::String(String::from_utf8_lossy(&bytes).into_owned())),
                Err(_) => Err("yaml: !!binary value contains invalid base64 data".to_owned()),
            }
        }
        Some(wanted @ ("int" | "bool" | "null" | "float")) => {
            let doc = untagged(text)?;
            let found = match &doc {
                Doc::Null => "null",
                Doc::Bool(_) => "bool",
                Doc::Number(n) if n.contains(['.', 'e', 'E']) => "float",
                Doc::Number(_) => "int",
                Doc::String(_) | Doc::Array(_) | Doc::Object(_) => "str",
            };
            if found == wanted || (wanted == "float" && found == "int") {
                return Ok(doc);
            }
            Err(format!("yaml: cannot decode !!{found} `{text}` as a !!{wanted}"))
        }
        Some(_) => Ok(Doc::String(text.to_owned())),
    }
}

fn untagged(text: &str) -> Result<Doc, String> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Doc::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Doc::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Doc::Bool(false)
        }
        ".nan" | ".NaN" | ".NAN" => return Err("json: unsupported value: NaN".to_owned()),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return Err("json: unsupported value: +Inf".to_owned());
        }
        "-.inf" | "-.Inf" | "-.INF" => return Err("json: unsupported value: -Inf".to_owned()),
        text => match text.bytes().next() {
            Some(b'0'..=b'9' | b'+' | b'-' | b'.') => {
                numeric(text).map_or_else(|| Doc::String(text.to_owned()), Doc::Number)
            }
            Some(_) | None => Doc::String(text.to_owned()),
        },
    })
}

/// A number's JSON form, or nothing if the text is none.
fn numeric(text: &str) -> Option<String> {
    let plain = text.replace('_', "");
    if let Some(integer) = integer(&plain) {
        return Some(integer.to_string());
    }
    let digits = plain.strip_prefix(['+', '-']).unwrap_or(&plain);
    let (mantissa, exponent) = match digits.find(['e', 'E']) {
        Some(at) => (&digits[..at], Some(&digits[at + 1..])),
        None => (digits, None),
    };
    let exponent_ok = exponent.is_none_or(|e| {
        let e = e.strip_prefix(['+', '-']).unwrap_or(e);
        !e.is_empty() && e.bytes().all(|b| b.is_ascii_digit())
    });
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let number_like = whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit())
        && !(whole.is_empty() && fraction.is_empty());
    if !exponent_ok || !number_like {
        return None;
    }
    let float: f64 = plain.parse().ok()?;
    if !float.is_finite() {
        return None;
    }
    // A float without a fraction becomes an integer on its way through JSON: 1e3 is 1000.
    if float.fract() == 0.0 && float.abs() < 1e18 {
        return Some(format!("{float:.0}"));
    }
    Some(serde_json::Number::from_f64(float)?.to_string())
}

fn integer(plain: &str) -> Option<i128> {
    let (negative, digits) = match plain.as_bytes().first()? {
        b'-' => (true, &plain[1..]),
        b'+' => (false, &plain[1..]),
        _ => (false, plain),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = if let Some(rest) = lower.strip_prefix("0x") {
        (16, rest)
    } else if let Some(rest) = lower.strip_prefix("0b") {
        (2, rest)
    } else if let Some(rest) = lower.strip_prefix("0o") {
        (8, rest)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (8, &lower[1..])
    } else {
        (10, lower.as_str())
    };
    if !digits.bytes().all(|b| char::from(b).is_digit(radix)) {
        return None;
    }
    let value = i128::from(u64::from_str_radix(digits, radix).ok()?);
    let value = if negative { -value } else { value };
    (value >= i128::from(i64::MIN)).then_some(value)
}

/// The scanner's complaint in the words of libyaml, which is what clients have always been shown. Where libyaml
/// has no such complaint the parser's own words stand.
#[expect(clippy::wildcard_enum_match_arm, reason = "sixty rarer complaints keep the parser's words")]
fn worded(error: &ScanError, text: &str) -> String {
    use ErrorKind as E;
    // libyaml counts lines from nought, mentions none for the first, and its parser (not its scanner) is one behind.
    let zero_based = error.marker().line().saturating_sub(1);
    let scanner = |text: &str| at_line(if zero_based == 0 { 0 } else { zero_based + 1 }, text);
    let end = text.lines().count();
    let cut_short = |text: &str| at_line(end, text);
    let parser = |text: &str| at_line(zero_based, text);
    match error.kind() {
        E::MappingValueNotAllowed | E::InvalidColonPlacement => {
            scanner("mapping values are not allowed in this context")
        }
        E::MappingKeyNotAllowed => scanner("mapping keys are not allowed in this context"),
        E::BlockSequenceEntryNotAllowed | E::BlockEntryInFlowCollection => {
            scanner("block sequence entries are not allowed in this context")
        }
        // Noticed only once the next line begins.
        E::SimpleKeyExpected | E::InvalidSimpleKey => at_line(zero_based + 2, "could not find expected ':'"),
        E::UnclosedQuotedScalar | E::UnexpectedEof => scanner("found unexpected end of stream"),
        E::DocumentIndicatorInQuotedScalar => scanner("found unexpected document indicator"),
        E::UnexpectedCharacter { .. } | E::TabNotAllowed | E::TabInBlockIndentation | E::TabInIndentation => {
            scanner("found character that cannot start any token")
        }
        E::UnknownQuotedScalarEscape => scanner("found unknown escape character"),
        E::InvalidQuotedScalarHexEscape => scanner("did not find expected hexdecimal number"),
        E::InvalidBlockScalarHeader => scanner("did not find expected comment or line break"),
        E::MissingDirectiveName => scanner("could not find expected directive name"),
        E::MissingAnchorOrAliasName => scanner("did not find expected alphabetic or numeric character"),
        E::UnclosedFlowCollection { .. } | E::UnexpectedEofFlowSequence | E::UnexpectedEofFlowMapping
            if text.trim_end().ends_with(['{', '[', ',']) =>
        {
            cut_short("did not find expected node content")
        }
        E::UnclosedFlowCollection { open: '[' } | E::UnexpectedEofFlowSequence => {
            cut_short("did not find expected ',' or ']'")
        }
        E::UnclosedFlowCollection { .. } | E::UnexpectedEofFlowMapping => {
            cut_short("did not find expected ',' or '}'")
        }
        E::MismatchedFlowCollectionEnd { open: '[', .. } => parser("did not find expected ',' or ']'"),
        E::MismatchedFlowCollectionEnd { .. } => parser("did not find expected ',' or '}'"),
        // libyaml does not mind the indentation and reads on for the closing quote.
        E::InvalidQuotedScalarIndent => at_line(end + 1, "found unexpected end of stream"),
        E::ExpectedFlowSequenceSeparator => parser("did not find expected ',' or ']'"),
        E::ExpectedFlowMappingSeparator => parser("did not find expected ',' or '}'"),
        E::ExpectedNodeContent | E::MisplacedFlowCollectionEnd => {
            parser("did not find expected node content")
        }
        E::ExpectedBlockMappingKey | E::InvalidIndentation => parser("did not find expected key"),
        E::ExpectedBlockSequenceEntry => parser("did not find expected '-' indicator"),
        E::ExpectedDocumentStart => parser("did not find expected <document start>"),
        E::UnsupportedYamlMajorVersion => parser("found incompatible YAML document"),
        E::UnknownAnchor => match unknown_anchor(error, text) {
            Some(name) => format!("yaml: unknown anchor '{name}' referenced"),
            None => "yaml: unknown anchor referenced".to_owned(),
        },
        other => parser(&other.to_string()),
    }
}

fn unknown_anchor<'t>(error: &ScanError, text: &'t str) -> Option<&'t str> {
    let start = error.marker().byte_offset()?;
    let rest = text.get(start..)?;
    let rest = rest.strip_prefix('*').unwrap_or(rest);
    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-')).unwrap_or(rest.len());
    rest.get(..end).filter(|name| !name.is_empty())
}

fn at_line(line: usize, text: &str) -> String {
    if line == 0 { format!("yaml: {text}") } else { format!("yaml: line {line}: {text}") }
}
