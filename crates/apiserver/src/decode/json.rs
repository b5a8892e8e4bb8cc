//! JSON, read the way Go's decoder reads it.
//!
//! `serde_json` would do but for two things: its complaints are not the ones clients know, and it forgets
//! duplicate keys. So this is a small reader of our own whose every refusal is worded like Go's scanner.

use super::budget::DEPTH;
use super::doc::Doc;
use crate::text::quoted_byte;

/// Reads one document.
pub(crate) fn parse(text: &[u8]) -> Result<Doc, String> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    let doc = reader.value()?;
    reader.space();
    match reader.peek() {
        None => Ok(doc),
        Some(_) => Err(reader.unexpected("after top-level value")),
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// The complaint about the character here. At the end of the text there is none: between tokens that is an
    /// unexpected end.
    fn unexpected(&self, context: &str) -> String {
        match self.peek() {
            Some(byte) => invalid(byte, context),
            None => "unexpected end of JSON input".to_owned(),
        }
    }

    /// The complaint inside a token that a blank cannot continue: Go feeds its scanner one blank at the end
    /// and reports that.
    fn unexpected_in_token(&self, context: &str) -> String {
        invalid(self.peek().unwrap_or(b' '), context)
    }

    fn value(&mut self) -> Result<Doc, String> {
        self.space();
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => Ok(Doc::String(self.string()?)),
            Some(b't') => self.literal("true", Doc::Bool(true)),
            Some(b'f') => self.literal("false", Doc::Bool(false)),
            Some(b'n') => self.literal("null", Doc::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) | None => Err(self.unexpected("looking for beginning of value")),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Doc, String>) -> Result<Doc, String> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err("exceeded max depth".to_owned());
        }
        self.at += 1;
        let doc = read(self);
        self.depth -= 1;
        doc
    }

    fn object(&mut self) -> Result<Doc, String> {
        let mut fields = Vec::new();
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Doc::Object(fields));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("looking for beginning of object key string"));
            }
            let key = self.string()?;
            self.space();
            if self.peek() != Some(b':') {
                return Err(self.unexpected("after object key"));
            }
            self.at += 1;
            fields.push((key, self.value()?));
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Doc::Object(fields));
                }
                Some(_) | None => return Err(self.unexpected("after object key:value pair")),
            }
        }
    }

    fn array(&mut self) -> Result<Doc, String> {
        let mut items = Vec::new();
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Doc::Array(items));
        }
        loop {
            items.push(self.value()?);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Doc::Array(items));
                }
                Some(_) | None => return Err(self.unexpected("after array element")),
            }
        }
    }

    fn literal(&mut self, word: &'static str, doc: Doc) -> Result<Doc, String> {
        for (i, expected) in word.bytes().enumerate() {
            if self.peek() != Some(expected) {
                debug_assert!(i > 0, "the caller looked at the first letter");
                let context = format!("in literal {word} (expecting '{}')", char::from(expected));
                return Err(self.unexpected_in_token(&context));
            }
            self.at += 1;
        }
        Ok(doc)
    }

    fn number(&mut self) -> Result<Doc, String> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            Some(_) | None => return Err(self.unexpected_in_token("in numeric literal")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.some_digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.some_digits("in exponent of numeric literal")?;
        }
        Ok(Doc::Number(String::from_utf8_lossy(&self.text[start..self.at]).into_owned()))
    }

    fn digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    fn some_digits(&mut self, context: &str) -> Result<(), String> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.unexpected_in_token(context));
        }
        self.digits();
        Ok(())
    }

    fn string(&mut self) -> Result<String, String> {
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            match self.peek() {
                None => return Err("unexpected end of JSON input".to_owned()),
                Some(b'"') => {
                    self.at += 1;
                    // Bytes that are not UTF-8 become replacement characters, as in Go.
                    return Ok(String::from_utf8_lossy(&bytes).into_owned());
                }
                Some(b'\\') => {
                    self.at += 1;
                    let c = self.escape()?;
                    bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                Some(byte) if byte < 0x20 => return Err(invalid(byte, "in string literal")),
                Some(byte) => {
                    bytes.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        let c = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{08}',
            Some(b'f') => '\u{0c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.code_point();
            }
            Some(_) | None => return Err(self.unexpected_in_token("in string escape code")),
        };
        self.at += 1;
        Ok(c)
    }

    fn code_point(&mut self) -> Result<char, String> {
        let first = self.hex()?;
        if let Some(c) = char::from_u32(first) {
            return Ok(c);
        }
        // Half of a surrogate pair. Without its other half it is a replacement character.
        if self.text.get(self.at..self.at + 2) == Some(b"\\u") {
            let before = self.at;
            self.at += 2;
            let second = self.hex()?;
            if (0xd800..0xdc00).contains(&first) && (0xdc00..0xe000).contains(&second) {
                let joined = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(joined).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = before;
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn hex(&mut self) -> Result<u32, String> {
        let mut value = 0;
        for _ in 0..4 {
            let Some(digit) = self.peek().and_then(|byte| char::from(byte).to_digit(16)) else {
                return Err(self.unexpected_in_token("in \\u hexadecimal character escape"));
            };
            value = value * 16 + digit;
            self.at += 1;
        }
        Ok(value)
    }
}

fn invalid(byte: u8, context: &str) -> String {
    format!("invalid character {} {context}", quoted_byte(byte))
}
