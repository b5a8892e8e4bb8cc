//! The part of OVN's language of matches that our ACLs are written in.

use std::net::IpAddr;

use ipnet::IpNet;

use super::Packet;
use crate::overlay::rows::Rows;
use crate::port::Protocol;

/// A match.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expression {
    /// All of them.
    All(Vec<Expression>),
    /// Any of them.
    Any(Vec<Expression>),
    /// A word that is true of some packets, such as `tcp`.
    Word(String),
    /// A field is one of these values, or none of them.
    Is {
        /// The field.
        field: String,
        /// The values.
        values: Vec<String>,
        /// Whether it is one of them.
        one: bool,
    },
    /// A field lies between two numbers.
    Between(u32, String, u32),
}

/// A match that does not follow the language.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} is not a match: {1}")]
pub struct Malformed(pub String, pub &'static str);

/// Reads a match. As in OVN, `&&` and `||` may not stand beside each other without brackets.
pub fn parse(text: &str) -> Result<Expression, Malformed> {
    let tokens = tokens(text);
    let mut reader = Reader { tokens: &tokens, at: 0 };
    let refuse = |why| Malformed(text.to_owned(), why);
    let expression = reader.expression().map_err(refuse)?;
    if reader.peek().is_some() { Err(refuse("something follows its end")) } else { Ok(expression) }
}

fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = ["&&", "||", "==", "!=", "<="].iter().find(|op| rest.starts_with(**op)).map_or_else(
            || {
                let word = |c: char| c.is_ascii_alphanumeric() || "._:/$@".contains(c);
                let end = rest.find(|c| !word(c)).unwrap_or(rest.len());
                end.max(first.len_utf8())
            },
            |op| op.len(),
        );
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after.trim_start();
    }
    tokens
}

struct Reader<'a> {
    tokens: &'a [&'a str],
    at: usize,
}

type Read<T> = Result<T, &'static str>;

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.at).copied()
    }

    fn next(&mut self) -> Read<&'a str> {
        let token = self.peek().ok_or("it ends too early")?;
        self.at += 1;
        Ok(token)
    }

    fn eat(&mut self, wanted: &str) -> Read<()> {
        if self.next()? == wanted { Ok(()) } else { Err("a bracket or an operator is missing") }
    }

    fn expression(&mut self) -> Read<Expression> {
        let mut terms = vec![self.term()?];
        let Some(operator @ ("&&" | "||")) = self.peek() else { return terms.pop().ok_or("it is empty") };
        while let Some(next @ ("&&" | "||")) = self.peek() {
            if next != operator {
                return Err("&& and || need brackets between them");
            }
            self.at += 1;
            terms.push(self.term()?);
        }
        Ok(if operator == "&&" { Expression::All(terms) } else { Expression::Any(terms) })
    }

    fn term(&mut self) -> Read<Expression> {
        let first = self.next()?;
        if first == "(" {
            let inner = self.expression()?;
            self.eat(")")?;
            return Ok(inner);
        }
        match self.peek() {
            Some("<=") => {
                self.at += 1;
                let field = self.next()?.to_owned();
                self.eat("<=")?;
                let number = |text: &str| text.parse().map_err(|_| "a number is missing");
                Ok(Expression::Between(number(first)?, field, number(self.next()?)?))
            }
            Some(operator @ ("==" | "!=")) => {
                self.at += 1;
                let (field, values) = (first.to_owned(), self.values()?);
                Ok(Expression::Is { field, values, one: operator == "==" })
            }
            Some(_) | None => Ok(Expression::Word(first.to_owned())),
        }
    }

    fn values(&mut self) -> Read<Vec<String>> {
        let first = self.next()?;
        if first != "{" {
            return Ok(vec![first.to_owned()]);
        }
        let mut values = vec![self.next()?.to_owned()];
        loop {
            match self.next()? {
                "," => values.push(self.next()?.to_owned()),
                "}" => return Ok(values),
                _ => return Err("a list is not closed"),
            }
        }
    }
}

/// What a field of a packet holds.
enum Value<'a> {
    Address(IpAddr),
    Number(u32),
    Port(&'a str),
}

impl Expression {
    /// Whether a packet fits; the name of a set, a group or a field nobody knows otherwise.
    pub(super) fn fits(&self, rows: &Rows, packet: &Packet) -> Result<bool, String> {
        match self {
            Expression::All(all) => {
                let mut fits = true;
                for one in all {
                    fits &= one.fits(rows, packet)?;
                }
                Ok(fits)
            }
            Expression::Any(all) => {
                let mut fits = false;
                for one in all {
                    fits |= one.fits(rows, packet)?;
                }
                Ok(fits)
            }
            Expression::Word(word) => is(word, packet),
            Expression::Between(first, name, last) => Ok(match field(name, packet)? {
                Some(Value::Number(number)) => (*first..=*last).contains(&number),
                Some(Value::Address(_) | Value::Port(_)) | None => false,
            }),
            Expression::Is { field: name, values, one } => {
                // a packet that does not have the field fits neither `==` nor `!=`
                let Some(value) = field(name, packet)? else { return Ok(false) };
                let mut found = false;
                for text in values {
                    found |= equals(&value, text, rows)?;
                }
                Ok(found == *one)
            }
        }
    }
}

fn is(word: &str, packet: &Packet) -> Result<bool, String> {
    let protocol = |wanted| packet.protocol == wanted;
    Ok(match word {
        "ip" => true,
        "ip4" => packet.source.is_ipv4(),
        "ip6" => packet.source.is_ipv6(),
        "tcp" => protocol(Protocol::Tcp),
        "udp" => protocol(Protocol::Udp),
        "sctp" => protocol(Protocol::Sctp),
        "arp" | "nd" => false,
        other => return Err(other.to_owned()),
    })
}

fn field<'a>(name: &str, packet: &'a Packet) -> Result<Option<Value<'a>>, String> {
    let address = |ip: IpAddr, v4: bool| (ip.is_ipv4() == v4).then_some(Value::Address(ip));
    let number =
        |of: Protocol| (packet.protocol == of).then_some(Value::Number(u32::from(packet.port.number())));
    Ok(match name {
        "ip4.src" => address(packet.source, true),
        "ip4.dst" => address(packet.destination, true),
        "ip6.src" => address(packet.source, false),
        "ip6.dst" => address(packet.destination, false),
        "tcp.dst" => number(Protocol::Tcp),
        "udp.dst" => number(Protocol::Udp),
        "sctp.dst" => number(Protocol::Sctp),
        "inport" => Some(Value::Port(&packet.inport)),
        "outport" => Some(Value::Port(&packet.outport)),
        other => return Err(other.to_owned()),
    })
}

fn equals(value: &Value<'_>, text: &str, rows: &Rows) -> Result<bool, String> {
    let unknown = || text.to_owned();
    Ok(match value {
        Value::Address(ip) => match text.strip_prefix('$') {
            Some(set) => {
                rows.address_sets.get(set).ok_or_else(unknown)?.addresses.iter().any(|net| net.contains(ip))
            }
            None => match text.parse::<IpNet>() {
                Ok(net) => net.contains(ip),
                Err(_) => text.parse::<IpAddr>().map_err(|_| unknown())? == *ip,
            },
        },
        Value::Number(number) => text.parse::<u32>().map_err(|_| unknown())? == *number,
        Value::Port(port) => match text.strip_prefix('@') {
            Some(group) => rows.port_groups.get(group).ok_or_else(unknown)?.ports.contains(*port),
            None => return Err(unknown()),
        },
    })
}
