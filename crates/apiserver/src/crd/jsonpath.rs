//! The JSONPath of printer columns and selectable fields: `.spec.x`, `[0]`, `[*]`, `['a.b']`, `..name`, and filters
//! such as `.status.conditions[?(@.type=="Ready")].status`.

use std::borrow::Cow;

use serde_json::Value;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(Vec<Step>);

/// Why a text is not a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadPath(String);

/// A path that does not fit the value it is read from: an index out of range, a filter on what is no list, …
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch;

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Everything,
    Deep,
    Slice {
        from: Option<i64>,
        to: To,
        step: Option<i64>,
    },
    Union(Vec<JsonPath>),
    Filter {
        left: JsonPath,
        compare: Option<(String, JsonPath)>,
    },
    Literal(Value),
    /// A bare word. It parses, as it does for the real server, and never yields anything.
    Word,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum To {
    End,
    At(i64),
    /// `[i]`: the one after `from`.
    Next,
}

impl JsonPath {
    /// Parses a path, without the braces templates put around it.
    pub fn parse(text: &str) -> Result<JsonPath, BadPath> {
        let chars: Vec<char> = text.chars().collect();
        Parser { chars, at: 0 }.steps()
    }

    /// Everything the path finds.
    pub fn find<'v>(&self, value: &'v Value) -> Result<Vec<Cow<'v, Value>>, Mismatch> {
        self.walk(vec![Cow::Borrowed(value)])
    }

    fn walk<'v>(&self, mut found: Vec<Cow<'v, Value>>) -> Result<Vec<Cow<'v, Value>>, Mismatch> {
        for step in &self.0 {
            found = step.apply(found)?;
        }
        Ok(found)
    }
}

/// The parts of a value one level down, borrowed where it is.
fn children<'v>(value: &Cow<'v, Value>) -> Vec<Cow<'v, Value>> {
    match value {
        Cow::Borrowed(Value::Array(list)) => list.iter().map(Cow::Borrowed).collect(),
        Cow::Borrowed(Value::Object(map)) => map.values().map(Cow::Borrowed).collect(),
        Cow::Owned(Value::Array(list)) => list.iter().cloned().map(Cow::Owned).collect(),
        Cow::Owned(Value::Object(map)) => map.values().cloned().map(Cow::Owned).collect(),
        Cow::Borrowed(_) | Cow::Owned(_) => Vec::new(),
    }
}

fn field<'v>(value: &Cow<'v, Value>, name: &str) -> Option<Cow<'v, Value>> {
    match value {
        Cow::Borrowed(value) => value.as_object()?.get(name).map(Cow::Borrowed),
        Cow::Owned(value) => value.as_object()?.get(name).cloned().map(Cow::Owned),
    }
}

impl Step {
    fn apply<'v>(&self, input: Vec<Cow<'v, Value>>) -> Result<Vec<Cow<'v, Value>>, Mismatch> {
        match self {
            Step::Field(name) => Ok(input.iter().filter_map(|value| field(value, name)).collect()),
            Step::Everything => Ok(input.iter().flat_map(children).collect()),
            Step::Deep => Ok(deep(input)),
            Step::Literal(literal) => Ok(input.iter().map(|_| Cow::Owned(literal.clone())).collect()),
            Step::Word => Err(Mismatch),
            Step::Union(paths) => {
                let mut all = Vec::new();
                for path in paths {
                    all.extend(path.walk(input.clone())?);
                }
                Ok(all)
            }
            Step::Slice { from, to, step } => {
                let mut all = Vec::new();
                for value in input.iter().filter(|value| !value.is_null()) {
                    if !value.is_array() {
                        return Err(Mismatch);
                    }
                    let items = children(value);
                    let (first, last) = bounds(items.len(), *from, *to)?;
                    let step = match step {
                        None => 1,
                        Some(step) => usize::try_from(*step).ok().filter(|step| *step > 0).ok_or(Mismatch)?,
                    };
                    all.extend(items.into_iter().take(last).skip(first).step_by(step));
                }
                Ok(all)
            }
            Step::Filter { left, compare } => {
                let mut all = Vec::new();
                for value in &input {
                    if !value.is_array() {
                        return Err(Mismatch);
                    }
                    for item in children(value) {
                        if passes(&item, left, compare.as_ref())? {
                            all.push(item);
                        }
                    }
                }
                Ok(all)
            }
        }
    }
}

fn deep(input: Vec<Cow<'_, Value>>) -> Vec<Cow<'_, Value>> {
    let mut all = Vec::new();
    for value in input {
        let below = children(&value);
        if !below.is_empty() {
            all.push(value);
            all.extend(deep(below));
        }
    }
    all
}

/// The first index and the one after the last.
fn bounds(length: usize, from: Option<i64>, to: To) -> Result<(usize, usize), Mismatch> {
    let size = i64::try_from(length).map_err(|_| Mismatch)?;
    let wrap = |index: i64| if index < 0 { index + size } else { index };
    let first = wrap(from.unwrap_or(0));
    let last = match to {
        To::End => size,
        To::At(index) => wrap(index),
        To::Next => first + 1,
    };
    if first == last {
        return Ok((0, 0));
    }
    if first < 0 || first >= size || last < 0 || last > size || first > last {
        return Err(Mismatch);
    }
    Ok((usize::try_from(first).map_err(|_| Mismatch)?, usize::try_from(last).map_err(|_| Mismatch)?))
}

fn passes(item: &Value, left: &JsonPath, compare: Option<&(String, JsonPath)>) -> Result<bool, Mismatch> {
    let lefts = left.find(item);
    let Some((operator, right)) = compare else { return Ok(lefts.is_ok_and(|found| !found.is_empty())) };
    let (lefts, rights) = (lefts?, right.find(item)?);
    match (lefts.as_slice(), rights.as_slice()) {
        ([], _) | (_, []) => Ok(false),
        ([left], [right]) => {
            use std::cmp::Ordering::{Equal, Greater, Less};
            let order = match (&**left, &**right) {
                (Value::String(a), Value::String(b)) => a.cmp(b),
                (Value::Bool(a), Value::Bool(b)) if matches!(operator.as_str(), "==" | "!=") => a.cmp(b),
                (Value::Number(a), Value::Number(b)) if a.is_i64() == b.is_i64() => {
                    a.as_f64().partial_cmp(&b.as_f64()).ok_or(Mismatch)?
                }
                _ => return Err(Mismatch),
            };
            match operator.as_str() {
                "==" => Ok(order == Equal),
                "!=" => Ok(order != Equal),
                "<" => Ok(order == Less),
                "<=" => Ok(order != Greater),
                ">" => Ok(order == Greater),
                ">=" => Ok(order != Less),
                _ => Err(Mismatch),
            }
        }
        _ => Err(Mismatch),
    }
}

struct Parser {
    chars: Vec<char>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn starts_with(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(offset, c)| self.chars.get(self.at + offset) == Some(&c))
    }

    fn steps(&mut self) -> Result<JsonPath, BadPath> {
        let mut steps: Vec<Step> = Vec::new();
        while let Some(c) = self.peek() {
            if self.starts_with("[?(") {
                steps.push(self.filter()?);
                continue;
            }
            if self.starts_with("..") {
                if steps.last() == Some(&Step::Deep) {
                    return Err(BadPath("invalid multiple recursive descent".to_owned()));
                }
                self.at += 2;
                steps.push(Step::Deep);
                if self.peek().is_some_and(|c| c == '_' || c.is_alphanumeric()) {
                    steps.push(self.field());
                }
                continue;
            }
            match c {
                '\r' | '\n' | '}' => return Err(BadPath("unclosed action".to_owned())),
                ' ' | '@' | '$' => self.at += 1,
                '[' => self.brackets(&mut steps)?,
                '"' | '\'' => steps.push(self.quote(c)?),
                '.' => {
                    self.at += 1;
                    let step = self.field();
                    steps.push(step);
                }
                '+' | '-' | '0'..='9' => steps.push(self.number()?),
                c if c == '_' || c.is_alphanumeric() => steps.push(self.word()),
                other => {
                    let code = u32::from(other);
                    return Err(BadPath(format!("unrecognized character in action: U+{code:04X} '{other}'")));
                }
            }
        }
        Ok(JsonPath(steps))
    }

    fn until_terminator(&mut self) -> String {
        let mut text = String::new();
        while let Some(c) = self.peek() {
            if c == '\\' {
                self.at += 1;
                text.extend(self.peek());
            } else if matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}') {
                break;
            } else {
                text.push(c);
            }
            self.at += 1;
        }
        text
    }

    fn field(&mut self) -> Step {
        match self.until_terminator() {
            name if name == "*" => Step::Everything,
            name => Step::Field(name),
        }
    }

    fn word(&mut self) -> Step {
        match self.until_terminator().as_str() {
            "true" => Step::Literal(Value::Bool(true)),
            "false" => Step::Literal(Value::Bool(false)),
            _ => Step::Word,
        }
    }

    fn number(&mut self) -> Result<Step, BadPath> {
        let begin = self.at;
        self.at += usize::from(matches!(self.peek(), Some('+' | '-')));
        while self.peek().is_some_and(|c| c == '.' || c.is_ascii_digit()) {
            self.at += 1;
        }
        let text: String = self.chars[begin..self.at].iter().collect();
        if let Ok(whole) = text.parse::<i64>() {
            return Ok(Step::Literal(Value::from(whole)));
        }
        text.parse::<f64>()
            .map(|float| Step::Literal(Value::from(float)))
            .map_err(|_| BadPath(format!("cannot parse number {text}")))
    }

    fn quote(&mut self, mark: char) -> Result<Step, BadPath> {
        self.at += 1;
        let mut text = String::new();
        loop {
            match self.peek() {
                None | Some('\n') => return Err(BadPath("unterminated quoted string".to_owned())),
                Some(c) if c == mark => break,
                Some('\\') => {
                    self.at += 1;
                    text.extend(self.peek());
                }
                Some(c) => text.push(c),
            }
            self.at += 1;
        }
        self.at += 1;
        Ok(Step::Literal(Value::String(text)))
    }

    fn brackets(&mut self, steps: &mut Vec<Step>) -> Result<(), BadPath> {
        let begin = self.at + 1;
        while !matches!(self.peek(), None | Some('\n' | ']')) {
            self.at += 1;
        }
        if self.peek() != Some(']') {
            return Err(BadPath("unterminated array".to_owned()));
        }
        let text: String = self.chars[begin..self.at].iter().collect();
        self.at += 1;
        if text.contains(',') {
            let parts = text.split(',').map(|part| JsonPath::parse(&format!("[{}]", part.trim_matches(' '))));
            steps.push(Step::Union(parts.collect::<Result<_, _>>()?));
        } else if let Some(key) = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
            let JsonPath(inner) = JsonPath::parse(&format!(".{key}"))?;
            steps.extend(inner);
        } else {
            steps.push(slice(&text)?);
        }
        Ok(())
    }

    fn filter(&mut self) -> Result<Step, BadPath> {
        self.at += 3;
        let begin = self.at;
        let mut quote = None;
        loop {
            match (self.peek(), quote) {
                (None | Some('\n'), _) => return Err(BadPath("unterminated filter".to_owned())),
                (Some(')'), None) => break,
                (Some(mark @ ('"' | '\'')), None) => quote = Some(mark),
                (Some(mark), Some(open)) if mark == open && self.chars[self.at - 1] != '\\' => quote = None,
                (Some(_), _) => {}
            }
            self.at += 1;
        }
        let text: String = self.chars[begin..self.at].iter().collect();
        self.at += 1;
        if self.peek() != Some(']') {
            return Err(BadPath("unclosed array expect ]".to_owned()));
        }
        self.at += 1;
        let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
        let compare = text.find(is_operator).filter(|at| *at > 0).and_then(|at| {
            let length = text[at..].find(|c: char| !is_operator(c))?;
            Some((text[..at].to_owned(), text[at..at + length].to_owned(), text[at + length..].to_owned()))
        });
        match compare {
            None => Ok(Step::Filter { left: JsonPath::parse(&text)?, compare: None }),
            Some((left, operator, right)) => Ok(Step::Filter {
                left: JsonPath::parse(&left)?,
                compare: Some((operator, JsonPath::parse(&right)?)),
            }),
        }
    }
}

fn slice(text: &str) -> Result<Step, BadPath> {
    let text = if text == "*" { ":" } else { text };
    let bad = || BadPath(format!("invalid array index {text}"));
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() > 3 {
        return Err(bad());
    }
    let read = |part: Option<&&str>| match part {
        None | Some(&"") => Ok(None),
        Some(part) => part.parse::<i64>().map(Some).map_err(|_| bad()),
    };
    let (from, to, step) = (read(parts.first())?, read(parts.get(1))?, read(parts.get(2))?);
    let to = match (parts.len(), to) {
        (1, _) => To::Next,
        (_, Some(index)) => To::At(index),
        (_, None) => To::End,
    };
    Ok(Step::Slice { from, to, step })
}
