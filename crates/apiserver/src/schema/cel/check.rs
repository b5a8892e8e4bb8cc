//! Checking a rule before it is ever run: syntax, names, and the types the schema gives.
//!
//! The real server has a full type checker. This one knows fields, operators and the common functions; where it does
//! not know a type it lets the expression pass, and a mistake shows when the rule runs.

use std::collections::BTreeMap;

use kube_cel::cel::ParseErrors;
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue, SourceInfo, operators,
};

use crate::schema::{Rule, SchemaRef};

use super::compile::{Checked, parse};
use super::functions;
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
    let mut placed: Vec<((isize, isize), String)> = checker
        .problems
        .into_iter()
        .map(|(id, message)| (position(source, positions.as_deref(), id), message))
        .collect();
    placed.sort();
    let lines: Vec<String> = placed.iter().map(|(at, message)| told(source, *at, message)).collect();
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

const TYPE_NAMES: [&str; 10] =
    ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "uint", "type"];

/// Macros the evaluator does not expand. They bind names of their own, so what is in them is not looked at.
const UNEXPANDED: [&str; 8] = [
    "optMap",
    "optFlatMap",
    "transformList",
    "transformMap",
    "transformMapEntry",
    "all",
    "exists",
    "existsOne",
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

    fn no_overload(&mut self, id: u64, function: &str, receiver: Option<&Type>, args: &[Type]) -> Type {
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        let receiver = receiver.map(|receiver| format!("{receiver}.")).unwrap_or_default();
        self.problem(
            id,
            format!(
                "found no matching overload for '{function}' applied to '{receiver}({})'",
                args.join(", ")
            ),
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
                let mut of = Type::Dyn;
                for item in &list.elements {
                    let found = self.check(item, scope);
                    if !found.fits(&of) {
                        self.problem(item.id, format!("expected type '{of}' but found '{found}'"));
                    } else if of.is_dyn() {
                        of = found;
                    }
                }
                Type::List(Box::new(of))
            }
            Expr::Map(_) => Type::Map(Box::new(Type::Dyn)),
            Expr::Comprehension(inner) => self.comprehension(inner, scope),
            Expr::Call(call) => self.call(id, call, scope),
        }
    }

    fn call(&mut self, id: u64, call: &CallExpr, scope: &Scope) -> Type {
        let name = call.func_name.as_str();
        let mut qualified = name.to_owned();
        let mut receiver = None;
        if let Some(target) = &call.target {
            if UNEXPANDED.contains(&name) && call.args.len() > 1 {
                return Type::Dyn;
            }
            let prefixed = match &target.expr {
                Expr::Ident(prefix) if !scope.contains_key(prefix) => Some(format!("{prefix}.{name}")),
                Expr::Ident(_)
                | Expr::Unspecified
                | Expr::Call(_)
                | Expr::Comprehension(_)
                | Expr::List(_)
                | Expr::Literal(_)
                | Expr::Map(_)
                | Expr::Select(_)
                | Expr::Struct(_) => None,
            };
            match prefixed.filter(|prefixed| functions::exists(prefixed)) {
                Some(prefixed) => qualified = prefixed,
                None => receiver = Some(self.check(target, scope)),
            }
        }
        if name == operators::OPT_SELECT
            && let [operand, field] = call.args.as_slice()
            && let Expr::Literal(LiteralValue::String(field)) = &field.expr
        {
            let operand = self.check(operand, scope);
            return self.select(id, &operand, field.inner()).optional();
        }
        let args: Vec<Type> = call.args.iter().map(|arg| self.argument(name, arg, scope)).collect();
        if name == operators::LOGICAL_AND || name == operators::LOGICAL_OR {
            for (arg, found) in call.args.iter().zip(&args) {
                if !matches!(found, Type::Bool | Type::Dyn) {
                    self.problem(arg.id, format!("expected type 'bool' but found '{found}'"));
                }
            }
            return Type::Bool;
        }
        if name.starts_with(['_', '!', '-', '@']) {
            return self.operator(id, name, &args);
        }
        if !functions::exists(&qualified) {
            return self.undeclared(id, &qualified);
        }
        match functions::result(&qualified, receiver.as_ref(), &args) {
            Some(gives) => gives,
            None => self.no_overload(id, &qualified, receiver.as_ref(), &args),
        }
    }

    /// A list that is formatted may hold anything; other lists hold one type.
    fn argument(&mut self, function: &str, arg: &IdedExpr, scope: &Scope) -> Type {
        match &arg.expr {
            Expr::List(list) if function == "format" => {
                list.elements.iter().for_each(|item| {
                    self.check(item, scope);
                });
                Type::List(Box::new(Type::Dyn))
            }
            Expr::List(_)
            | Expr::Unspecified
            | Expr::Call(_)
            | Expr::Comprehension(_)
            | Expr::Ident(_)
            | Expr::Literal(_)
            | Expr::Map(_)
            | Expr::Select(_)
            | Expr::Struct(_) => self.check(arg, scope),
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
            | Type::Named(_)
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
        let gathered = self.check(&inner.loop_step, &around);
        if matches!(gathered, Type::List(_)) {
            within.insert(inner.accu_var.clone(), gathered);
        }
        self.check(&inner.result, &within)
    }

    fn operator(&mut self, id: u64, function: &str, args: &[Type]) -> Type {
        let unknown = args.iter().any(Type::is_dyn);
        match (function, args) {
            (operators::LOGICAL_NOT, [Type::Bool | Type::Dyn]) | (operators::NOT_STRICTLY_FALSE, _) => {
                Type::Bool
            }
            (operators::EQUALS | operators::NOT_EQUALS, [a, b]) if a.fits(b) => Type::Bool,
            (operators::IN, [item, Type::List(of)]) if item.fits(of) => Type::Bool,
            (operators::IN, [Type::Text | Type::Dyn, Type::Map(_)] | [_, Type::Dyn]) => Type::Bool,
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
                if ordered { Type::Bool } else { self.no_overload(id, function, None, args) }
            }
            (operators::ADD, [a, b]) => match (a, b) {
                (Type::Timestamp, Type::Duration) | (Type::Duration, Type::Timestamp) => Type::Timestamp,
                // What is gathered into an empty list gives it its type.
                (Type::List(nothing), Type::List(_)) if nothing.is_dyn() => b.clone(),
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
                _ => self.no_overload(id, function, None, args),
            },
            (operators::SUBSTRACT, [a, b]) => match (a, b) {
                (Type::Timestamp, Type::Timestamp) => Type::Duration,
                (Type::Timestamp, Type::Duration) => Type::Timestamp,
                (Type::Int | Type::Uint | Type::Double | Type::Duration, _) if !unknown && a.fits(b) => {
                    a.clone()
                }
                _ if unknown => Type::Dyn,
                _ => self.no_overload(id, function, None, args),
            },
            (operators::MULTIPLY | operators::DIVIDE | operators::MODULO, [a, b]) => {
                if unknown {
                    Type::Dyn
                } else if a.is_number() && a.fits(b) {
                    a.clone()
                } else {
                    self.no_overload(id, function, None, args)
                }
            }
            (operators::NEGATE, [a]) if unknown || matches!(a, Type::Int | Type::Double) => a.clone(),
            (operators::CONDITIONAL, [Type::Bool | Type::Dyn, a, b]) => {
                if a.is_dyn() || matches!(a, Type::Null) {
                    b.clone()
                } else if a.fits(b) {
                    a.clone()
                } else {
                    self.no_overload(id, function, None, args)
                }
            }
            (operators::INDEX, [Type::List(of) | Type::Map(of), _]) => (**of).clone(),
            (operators::OPT_INDEX, [Type::List(of) | Type::Map(of), _]) => Type::Optional(of.clone()),
            (
                operators::INDEX | operators::OPT_INDEX,
                [Type::Optional(_) | Type::Dyn | Type::Object(..), _],
            ) => Type::Dyn,
            _ => self.no_overload(id, function, None, args),
        }
    }
}
