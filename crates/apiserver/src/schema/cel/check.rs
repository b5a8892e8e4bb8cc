//! Checking a rule before it is ever run: syntax, names, and the types the schema gives.
//!
//! The real server has a full type checker. This one knows fields, operators and the common functions; where it does
//! not know a type it lets the expression pass, and a mistake shows when the rule runs.

use std::collections::BTreeMap;

use kube_cel::cel::ParseErrors;
use kube_cel::cel::common::ast::{ComprehensionExpr, Expr, IdedExpr, SourceInfo, operators};

use crate::schema::{Rule, SchemaRef};

use super::compile::{Checked, parse};
use super::types::Type;

/// What the compiler says of a rule on this schema node.
pub(super) fn rule(schema: &SchemaRef, is_resource: bool, rule: &Rule) -> Checked {
    let this = Type::of(schema, is_resource).unwrap_or(Type::Dyn);
    let old = if rule.optional_old_self { Type::Optional(Box::new(this.clone())) } else { this.clone() };
    let scope = BTreeMap::from([("self".to_owned(), this), ("oldSelf".to_owned(), old)]);
    let uses_old_self = parse(&rule.rule).is_ok_and(|parsed| parsed.references().has_variable("oldSelf"));
    let wrong = match expression(&rule.rule, &scope) {
        Err(why) => Some(format!("compilation failed: {why}")),
        Ok(Type::Bool | Type::Dyn) => None,
        Ok(_) => Some("cel expression must evaluate to a bool".to_owned()),
    };
    let message = rule.message_expression.as_deref().and_then(|source| match expression(source, &scope) {
        Err(why) => Some(format!("messageExpression compilation failed: {why}")),
        Ok(Type::Text | Type::Dyn) => None,
        Ok(_) => Some("messageExpression must evaluate to a string".to_owned()),
    });
    Checked { rule: wrong, message, uses_old_self }
}

type Scope = BTreeMap<String, Type>;

fn expression(source: &str, scope: &Scope) -> Result<Type, String> {
    let parsed = parse(source).map_err(|errors| {
        let lines: Vec<String> =
            errors.errors.iter().map(|error| told(source, error.pos, &error.msg)).collect();
        lines.join("\n")
    })?;
    let mut checker = Checker { problems: Vec::new() };
    let found = checker.check(&parsed, scope);
    if checker.problems.is_empty() {
        return Ok(found);
    }
    let positions = positions(source);
    let lines: Vec<String> = checker
        .problems
        .iter()
        .map(|(id, message)| told(source, position(source, positions.as_deref(), *id), message))
        .collect();
    Err(lines.join("\n"))
}

/// A problem as the server prints it, with the line and a mark below the place.
fn told(source: &str, (line, column): (isize, isize), message: &str) -> String {
    let text = usize::try_from(line - 1).ok().and_then(|line| source.lines().nth(line)).unwrap_or_default();
    let dots = ".".repeat(usize::try_from(column - 1).unwrap_or_default());
    format!("ERROR: <input>:{line}:{column}: {message}\n | {text}\n | {dots}^")
}

/// Where each part of an expression stands. The parser tells only when it fails, so it is made to fail after the end.
fn positions(source: &str) -> Option<std::sync::Arc<SourceInfo>> {
    let failed: ParseErrors = parse(&format!("{source}\n)")).err()?;
    failed.errors.into_iter().find_map(|error| error.source_info)
}

fn position(source: &str, positions: Option<&SourceInfo>, id: u64) -> (isize, isize) {
    let offset = positions.and_then(|info| info.offset_for(id)).map_or(0, |(start, _)| start as usize);
    let before: Vec<char> = source.chars().take(offset).collect();
    let line = before.iter().filter(|c| **c == '\n').count() + 1;
    let column = before.iter().rev().take_while(|c| **c != '\n').count() + 1;
    (isize::try_from(line).unwrap_or(1), isize::try_from(column).unwrap_or(1))
}

/// Names before a dot that belong to functions, not to variables.
const NAMESPACES: [&str; 9] =
    ["optional", "cel", "math", "strings", "sets", "base64", "format", "lists", "regex"];

const TYPE_NAMES: [&str; 10] =
    ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "uint", "type"];

/// Functions and what they give.
const FUNCTIONS: [(&[&str], Type); 8] = [
    (
        &[
            "startsWith",
            "endsWith",
            "contains",
            "matches",
            "exists",
            "isSorted",
            "isURL",
            "isIP",
            "isCIDR",
            "isQuantity",
            "isSemver",
            "containsIP",
            "containsCIDR",
            "isUnspecified",
            "isLoopback",
            "isGlobalUnicast",
            "isLinkLocalMulticast",
            "isLinkLocalUnicast",
            "isCanonical",
            "ip.isCanonical",
            "isLessThan",
            "isGreaterThan",
            "isInteger",
            "hasValue",
            "bool",
            "intersects",
            "equivalent",
            "isFinite",
            "isNaN",
            "isInf",
            "has",
        ],
        Type::Bool,
    ),
    (
        &[
            "size",
            "int",
            "indexOf",
            "lastIndexOf",
            "family",
            "prefixLength",
            "asInteger",
            "sign",
            "compareTo",
            "major",
            "minor",
            "patch",
            "getFullYear",
            "getMonth",
            "getDayOfYear",
            "getDayOfMonth",
            "getDate",
            "getDayOfWeek",
            "getHours",
            "getMinutes",
            "getSeconds",
            "getMilliseconds",
        ],
        Type::Int,
    ),
    (
        &[
            "string",
            "lowerAscii",
            "upperAscii",
            "trim",
            "replace",
            "substring",
            "join",
            "charAt",
            "format",
            "quote",
            "getScheme",
            "getHost",
            "getHostname",
            "getPort",
            "getEscapedPath",
            "reverse",
            "encode",
        ],
        Type::Dyn,
    ),
    (&["double", "asApproximateFloat"], Type::Double),
    (&["uint"], Type::Uint),
    (&["duration"], Type::Duration),
    (&["timestamp"], Type::Timestamp),
    (
        &[
            "dyn",
            "type",
            "bytes",
            "split",
            "findAll",
            "find",
            "sum",
            "min",
            "max",
            "map",
            "filter",
            "all",
            "exists_one",
            "url",
            "ip",
            "cidr",
            "quantity",
            "semver",
            "masked",
            "getQuery",
            "add",
            "sub",
            "value",
            "or",
            "orValue",
            "of",
            "none",
            "ofNonZeroValue",
            "optMap",
            "optFlatMap",
            "bind",
            "distinct",
            "flatten",
            "slice",
            "sort",
            "sortBy",
            "range",
            "first",
            "last",
            "decode",
            "greatest",
            "least",
            "ceil",
            "floor",
            "round",
            "trunc",
            "abs",
            "bitAnd",
            "bitOr",
            "bitXor",
            "bitNot",
            "bitShiftLeft",
            "bitShiftRight",
            "named",
            "validate",
            "dns1123Label",
            "dns1123Subdomain",
            "dns1035Label",
            "qualifiedName",
            "dns1123LabelPrefix",
            "dns1123SubdomainPrefix",
            "dns1035LabelPrefix",
            "labelValue",
            "uri",
            "uuid",
            "byte",
            "date",
            "datetime",
            "transformList",
            "transformMap",
            "transformMapEntry",
            "indexof",
            "sqrt",
        ],
        Type::Dyn,
    ),
];

struct Checker {
    problems: Vec<(u64, String)>,
}

impl Checker {
    fn problem(&mut self, id: u64, message: String) -> Type {
        self.problems.push((id, message));
        Type::Dyn
    }

    fn undeclared(&mut self, id: u64, name: &str) -> Type {
        self.problem(id, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn no_overload(&mut self, id: u64, function: &str, args: &[Type]) -> Type {
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        self.problem(
            id,
            format!("found no matching overload for '{function}' applied to '({})'", args.join(", ")),
        )
    }

    fn check(&mut self, expression: &IdedExpr, scope: &Scope) -> Type {
        let id = expression.id;
        match &expression.expr {
            Expr::Unspecified | Expr::Struct(_) => Type::Dyn,
            Expr::Literal(literal) => Type::of_literal(literal),
            Expr::Ident(name) => match scope.get(name) {
                Some(known) => known.clone(),
                None if TYPE_NAMES.contains(&name.as_str()) => Type::Dyn,
                None => self.undeclared(id, name),
            },
            Expr::Select(select) => {
                let operand = self.check(&select.operand, scope);
                let found = self.select(id, &operand, &select.field);
                if select.test { Type::Bool } else { found }
            }
            Expr::List(list) => {
                let items: Vec<Type> = list.elements.iter().map(|item| self.check(item, scope)).collect();
                let same = items.windows(2).all(|pair| pair[0].fits(&pair[1]));
                let of = items.into_iter().next().filter(|_| same).unwrap_or(Type::Dyn);
                Type::List(Box::new(of))
            }
            Expr::Map(_) => Type::Map(Box::new(Type::Dyn)),
            Expr::Comprehension(inner) => self.comprehension(inner, scope),
            Expr::Call(call) => {
                let is_namespace = |target: &IdedExpr| {
                    let Expr::Ident(name) = &target.expr else { return false };
                    !scope.contains_key(name) && NAMESPACES.contains(&name.as_str())
                };
                let mut args: Vec<Type> = Vec::new();
                if let Some(target) = &call.target {
                    if is_namespace(target) {
                        // `cel.bind` and its like bind names of their own; what they give shows when they run.
                        return Type::Dyn;
                    }
                    args.push(self.check(target, scope));
                }
                if matches!(
                    call.func_name.as_str(),
                    "optMap" | "optFlatMap" | "sortBy" | "transformList" | "transformMap"
                ) || (call.args.len() > 2 && matches!(call.func_name.as_str(), "all" | "exists"))
                {
                    return Type::Dyn;
                }
                if call.func_name == operators::OPT_SELECT
                    && let [operand, field] = call.args.as_slice()
                    && let Expr::Literal(kube_cel::cel::common::ast::LiteralValue::String(field)) =
                        &field.expr
                {
                    let operand = self.check(operand, scope);
                    let found = self.select(id, &operand, field.inner());
                    return found.optional();
                }
                args.extend(call.args.iter().map(|arg| self.check(arg, scope)));
                self.call(id, &call.func_name, &args)
            }
        }
    }

    fn select(&mut self, id: u64, operand: &Type, field: &str) -> Type {
        match operand {
            Type::Object(schema, is_resource) => match Type::field(schema, *is_resource, field) {
                Some(found) => found,
                None => self.problem(id, format!("undefined field '{field}'")),
            },
            Type::Map(of) => (**of).clone(),
            Type::Optional(of) => self.select(id, of, field).optional(),
            Type::Dyn | Type::Null => Type::Dyn,
            Type::Bool
            | Type::Int
            | Type::Uint
            | Type::Double
            | Type::Text
            | Type::Bytes
            | Type::Duration
            | Type::Timestamp
            | Type::List(_) => self.problem(id, format!("type '{operand}' does not support field selection")),
        }
    }

    fn comprehension(&mut self, inner: &ComprehensionExpr, scope: &Scope) -> Type {
        let range = self.check(&inner.iter_range, scope);
        let item = match range.item() {
            Some(item) => item,
            None => {
                let message = format!(
                    "expression of type '{range}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.problem(inner.iter_range.id, message)
            }
        };
        let mut within = scope.clone();
        let begun = self.check(&inner.accu_init, scope);
        // An empty list says nothing of what will be gathered in it.
        let gathered = if matches!(begun, Type::List(_)) { Type::List(Box::new(Type::Dyn)) } else { begun };
        within.insert(inner.accu_var.clone(), gathered);
        let mut around = within.clone();
        around.insert(inner.iter_var.clone(), item);
        if let Some(second) = &inner.iter_var2 {
            around.insert(second.clone(), Type::Dyn);
        }
        self.check(&inner.loop_cond, &around);
        self.check(&inner.loop_step, &around);
        self.check(&inner.result, &within)
    }

    fn call(&mut self, id: u64, function: &str, args: &[Type]) -> Type {
        let unknown = args.iter().any(Type::is_dyn);
        match (function, args) {
            (operators::LOGICAL_AND | operators::LOGICAL_OR, _) => {
                if args.iter().all(|arg| matches!(arg, Type::Bool | Type::Dyn)) {
                    Type::Bool
                } else {
                    self.no_overload(id, function, args)
                }
            }
            (operators::LOGICAL_NOT, [Type::Bool | Type::Dyn]) | (operators::NOT_STRICTLY_FALSE, _) => {
                Type::Bool
            }
            (operators::EQUALS | operators::NOT_EQUALS, [a, b]) if a.fits(b) => Type::Bool,
            (operators::IN, _) => Type::Bool,
            (
                operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS,
                [a, b],
            ) => {
                let ordered = match (a, b) {
                    (a, b) if a.is_number() && b.is_number() => true,
                    (Type::Bool, Type::Bool)
                    | (Type::Text, Type::Text)
                    | (Type::Bytes, Type::Bytes)
                    | (Type::Duration, Type::Duration)
                    | (Type::Timestamp, Type::Timestamp) => true,
                    _ => unknown,
                };
                if ordered { Type::Bool } else { self.no_overload(id, function, args) }
            }
            (operators::ADD, [a, b]) => match (a, b) {
                (Type::Timestamp, Type::Duration) | (Type::Duration, Type::Timestamp) => Type::Timestamp,
                (
                    Type::Int
                    | Type::Uint
                    | Type::Double
                    | Type::Text
                    | Type::Bytes
                    | Type::Duration
                    | Type::List(_),
                    _,
                ) if !unknown && a.fits(b) => a.clone(),
                _ if unknown => Type::Dyn,
                _ => self.no_overload(id, function, args),
            },
            (operators::SUBSTRACT, [a, b]) => match (a, b) {
                (Type::Timestamp, Type::Timestamp) => Type::Duration,
                (Type::Timestamp, Type::Duration) => Type::Timestamp,
                (Type::Int | Type::Uint | Type::Double | Type::Duration, _) if !unknown && a.fits(b) => {
                    a.clone()
                }
                _ if unknown => Type::Dyn,
                _ => self.no_overload(id, function, args),
            },
            (operators::MULTIPLY | operators::DIVIDE | operators::MODULO, [a, b]) => {
                if unknown {
                    Type::Dyn
                } else if a.is_number() && a.fits(b) {
                    a.clone()
                } else {
                    self.no_overload(id, function, args)
                }
            }
            (operators::NEGATE, [a]) if unknown || matches!(a, Type::Int | Type::Double) => a.clone(),
            (operators::CONDITIONAL, [Type::Bool | Type::Dyn, a, b]) => {
                if a.is_dyn() || matches!(a, Type::Null) {
                    b.clone()
                } else if a.fits(b) {
                    a.clone()
                } else {
                    self.no_overload(id, function, args)
                }
            }
            (operators::INDEX, [Type::List(of) | Type::Map(of), _]) => (**of).clone(),
            (operators::OPT_INDEX, [Type::List(of) | Type::Map(of), _]) => Type::Optional(of.clone()),
            (
                operators::INDEX | operators::OPT_INDEX,
                [Type::Optional(_) | Type::Dyn | Type::Object(..), _],
            ) => Type::Dyn,
            ("string" | "lowerAscii" | "upperAscii" | "trim" | "join" | "charAt" | "quote", [_, ..]) => {
                Type::Text
            }
            _ if function.starts_with(['_', '!', '-', '@']) => self.no_overload(id, function, args),
            ("value" | "orValue", [Type::Optional(of), ..]) => (**of).clone(),
            _ => match FUNCTIONS.iter().find(|(names, _)| names.contains(&function)) {
                Some((_, gives)) => gives.clone(),
                None => self.undeclared(id, function),
            },
        }
    }
}
