//! Label selectors: `a=b,c!=d,e in (x,y),!f,g,h>5`.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::field::{FieldError, Path};
use crate::names::{label_value, qualified_name};
use crate::status::ApiError;

/// What a requirement asks of a label.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operator {
    /// The label is there with one of the values.
    In,
    /// The label is not there, or with another value.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is not there.
    DoesNotExist,
    /// The label is a number above the value.
    GreaterThan,
    /// The label is a number below the value.
    LessThan,
}

/// One requirement of a selector.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Requirement {
    /// The label's key.
    pub key: String,
    /// What is asked of it.
    pub operator: Operator,
    /// The values the operator compares with.
    pub values: BTreeSet<String>,
}

impl Requirement {
    fn matches(&self, labels: Option<&Map<String, Value>>) -> bool {
        let value = labels.and_then(|labels| labels.get(&self.key)).and_then(Value::as_str);
        let number = |text: &str| text.parse::<i64>().ok();
        let limit = || self.values.first().and_then(|limit| number(limit));
        match self.operator {
            Operator::In => value.is_some_and(|value| self.values.contains(value)),
            Operator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => {
                value.and_then(number).zip(limit()).is_some_and(|(is, limit)| is > limit)
            }
            Operator::LessThan => value.and_then(number).zip(limit()).is_some_and(|(is, limit)| is < limit),
        }
    }
}

/// A parsed selector: all its requirements must hold. One without requirements selects everything.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LabelSelector {
    /// The requirements, in no particular order.
    pub requirements: Vec<Requirement>,
}

impl LabelSelector {
    /// Parses `?labelSelector=`.
    pub fn parse(text: &str) -> Result<LabelSelector, ApiError> {
        Parser { tokens: tokens(text), at: 0 }.selector().map_err(ApiError::bad_request)
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether an object is selected.
    pub fn matches(&self, object: &Value) -> bool {
        self.matches_labels(object.pointer("/metadata/labels").and_then(Value::as_object))
    }

    /// Whether a set of labels is selected.
    pub fn matches_labels(&self, labels: Option<&Map<String, Value>>) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(labels))
    }
}

#[derive(Clone, PartialEq, Debug)]
enum Token {
    /// `=`, `==`, `!=`, `!`, `>`, `<`, `(`, `)`, `,`
    Symbol(&'static str),
    /// Everything else, `in` and `notin` among it: what they mean depends on where they stand.
    Word(String),
    /// A run of symbols that are none.
    Odd(String),
    End,
}

impl Token {
    fn shown(&self) -> String {
        match self {
            Token::Symbol(symbol) => (*symbol).to_owned(),
            Token::Word(word) => word.clone(),
            Token::Odd(odd) => format!("error expected: keyword found '{odd}'"),
            Token::End => String::new(),
        }
    }
}

const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", ">", "<", "(", ")", ","];

fn tokens(text: &str) -> Vec<Token> {
    let special = |c: char| "=!(),><".contains(c);
    let blank = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(blank);
        let Some(first) = rest.chars().next() else { break };
        // The scanner upstream reads a nought byte as the end.
        if first == '\0' {
            break;
        }
        if !special(first) {
            let end = rest.find(|c| special(c) || blank(c) || c == '\0').unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
            continue;
        }
        match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            Some(symbol) => {
                tokens.push(Token::Symbol(symbol));
                rest = &rest[symbol.len()..];
            }
            None => {
                tokens.push(Token::Odd(first.to_string()));
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    tokens.push(Token::End);
    tokens
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn starts_requirement(&self) -> bool {
        matches!(self.peek(), Token::Word(_) | Token::Symbol("!"))
    }

    fn selector(&mut self) -> Result<LabelSelector, String> {
        let mut requirements = Vec::new();
        if *self.peek() == Token::End {
            return Ok(LabelSelector { requirements });
        }
        if !self.starts_requirement() {
            let found = self.peek().shown();
            return Err(format!("found '{found}', expected: !, identifier, or 'end of string'"));
        }
        loop {
            let requirement =
                self.requirement().map_err(|why| format!("unable to parse requirement: {why}"))?;
            requirements.push(requirement);
            match self.next() {
                Token::End => break,
                Token::Symbol(",") if self.starts_requirement() => {}
                Token::Symbol(",") => {
                    return Err(format!("found '{}', expected: identifier after ','", self.peek().shown()));
                }
                other @ (Token::Symbol(_) | Token::Word(_) | Token::Odd(_)) => {
                    return Err(format!("found '{}', expected: ',' or 'end of string'", other.shown()));
                }
            }
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(LabelSelector { requirements })
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut token = self.next();
        let absent = token == Token::Symbol("!");
        if absent {
            token = self.next();
        }
        let Token::Word(key) = token else {
            return Err(format!("found '{}', expected: identifier", token.shown()));
        };
        let wrong = qualified_name(&key);
        if !wrong.is_empty() {
            return Err(FieldError::invalid(Path::root(), &Value::String(key), wrong.join("; ")).to_string());
        }
        if absent {
            return Ok(Requirement { key, operator: Operator::DoesNotExist, values: BTreeSet::new() });
        }
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(Requirement { key, operator: Operator::Exists, values: BTreeSet::new() });
        }
        let (operator, values) = match self.next() {
            Token::Word(word) if word == "in" => (Operator::In, self.set()?),
            Token::Word(word) if word == "notin" => (Operator::NotIn, self.set()?),
            Token::Symbol("=" | "==") => (Operator::In, self.exact()?),
            Token::Symbol("!=") => (Operator::NotIn, self.exact()?),
            Token::Symbol(">") => (Operator::GreaterThan, self.exact()?),
            Token::Symbol("<") => (Operator::LessThan, self.exact()?),
            other @ (Token::Symbol(_) | Token::Word(_) | Token::Odd(_) | Token::End) => {
                return Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", other.shown()));
            }
        };
        check_values(&key, operator, &values)?;
        Ok(Requirement { key, operator, values })
    }

    fn exact(&mut self) -> Result<BTreeSet<String>, String> {
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(BTreeSet::from([String::new()]));
        }
        match self.next() {
            Token::Word(value) => Ok(BTreeSet::from([value])),
            other @ (Token::Symbol(_) | Token::Odd(_) | Token::End) => {
                Err(format!("found '{}', expected: identifier", other.shown()))
            }
        }
    }

    /// `(a,b)`. A comma with nothing beside it stands for the empty value.
    fn set(&mut self) -> Result<BTreeSet<String>, String> {
        match self.next() {
            Token::Symbol("(") => {}
            other @ (Token::Symbol(_) | Token::Word(_) | Token::Odd(_) | Token::End) => {
                return Err(format!("found '{}' expected: '('", other.shown()));
            }
        }
        let mut values = BTreeSet::new();
        if *self.peek() == Token::Symbol(")") {
            self.next();
            return Ok(BTreeSet::from([String::new()]));
        }
        if !matches!(self.peek(), Token::Word(_) | Token::Symbol(",")) {
            return Err(format!("found '{}', expected: ',', ')' or identifier", self.peek().shown()));
        }
        loop {
            match self.next() {
                Token::Word(value) => {
                    values.insert(value);
                    match self.peek() {
                        Token::Symbol(",") => {}
                        Token::Symbol(")") => break,
                        other @ (Token::Symbol(_) | Token::Word(_) | Token::Odd(_) | Token::End) => {
                            return Err(format!("found '{}', expected: ',' or ')'", other.shown()));
                        }
                    }
                }
                Token::Symbol(",") => {
                    if values.is_empty() {
                        values.insert(String::new());
                    }
                    match self.peek() {
                        Token::Symbol(")") => {
                            values.insert(String::new());
                            break;
                        }
                        Token::Symbol(",") => {
                            self.next();
                            values.insert(String::new());
                        }
                        Token::Symbol(_) | Token::Word(_) | Token::Odd(_) | Token::End => {}
                    }
                }
                other @ (Token::Symbol(_) | Token::Odd(_) | Token::End) => {
                    return Err(format!("found '{}', expected: ',', or identifier", other.shown()));
                }
            }
        }
        self.next();
        Ok(values)
    }
}

fn check_values(key: &str, operator: Operator, values: &BTreeSet<String>) -> Result<(), String> {
    let at = Path::new("values");
    let mut errors = Vec::new();
    let shown = |value: &String| Value::String(value.clone());
    if matches!(operator, Operator::GreaterThan | Operator::LessThan) {
        for (i, value) in values.iter().enumerate() {
            if value.parse::<i64>().is_err() {
                let why = "for 'Gt', 'Lt' operators, the value must be an integer";
                errors.push(FieldError::invalid(at.index(i), &shown(value), why).to_string());
            }
        }
    }
    for (i, value) in values.iter().enumerate() {
        let wrong = label_value(value);
        if !wrong.is_empty() {
            let path = at.index(i).key(key);
            errors.push(FieldError::invalid(path, &shown(value), wrong.join("; ")).to_string());
        }
    }
    match errors.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("[{}]", many.join(", "))),
    }
}
