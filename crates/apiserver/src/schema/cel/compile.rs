//! Compiling the rules of a schema, once.

use std::collections::BTreeMap;

use kube_cel::cel::parser::{Expression, Parser};
use kube_cel::cel::{Context, ExecutionError, ParseErrors, Value as CelValue};

use crate::schema::{Additional, Rule, Schema, SchemaRef, field_path};

use super::adapt::adapt;
use super::check;

/// The compiled rules of a whole schema.
#[derive(Debug, Default)]
pub struct Rules(Option<Node>);

/// What the compiler says of one rule.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checked {
    /// What is wrong with the rule.
    pub rule: Option<String>,
    /// What is wrong with its `messageExpression`.
    pub message: Option<String>,
    /// Whether it is a transition rule.
    pub uses_old_self: bool,
}

/// One node of the schema with rules on or below it.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) schema: SchemaRef,
    /// The root of a custom resource or of an embedded one: type and name are visible to its rules.
    pub(super) is_resource: bool,
    pub(super) rules: Vec<Compiled>,
    pub(super) properties: BTreeMap<String, Node>,
    pub(super) additional: Option<Box<Node>>,
    pub(super) items: Option<Box<Node>>,
}

#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) rule: Rule,
    pub(super) program: Program,
    pub(super) message: Option<Program>,
    /// Where failures are told, relative to the node.
    pub(super) field_path: Option<String>,
}

impl Compiled {
    /// How the rule is called in messages.
    pub(super) fn words(&self) -> String {
        self.rule.message.as_deref().unwrap_or(&self.rule.rule).trim().to_owned()
    }

    pub(super) fn default_message(&self) -> String {
        match &self.rule.message {
            Some(message) => message.trim().to_owned(),
            None => format!("failed rule: {}", self.rule.rule.trim()),
        }
    }
}

/// A parsed expression.
#[derive(Debug)]
pub(super) struct Program {
    expression: Expression,
    pub(super) uses_old_self: bool,
}

impl Program {
    fn parse(source: &str) -> Result<Program, ParseErrors> {
        let expression = parse(source)?;
        let uses_old_self = expression.references().has_variable("oldSelf");
        Ok(Program { expression: adapt(expression), uses_old_self })
    }

    pub(super) fn run(&self, scope: &Context<'_>) -> Result<CelValue, ExecutionError> {
        CelValue::resolve(&self.expression, scope)
    }
}

/// Parses an expression in the real server's dialect.
pub(super) fn parse(source: &str) -> Result<Expression, ParseErrors> {
    Parser::new().enable_optional_syntax(true).parse(source)
}

impl Rules {
    /// Compiles every rule of a custom resource's schema. Rules that do not compile are left out: a definition that has
    /// any is refused before an object is ever checked by it ([`Rules::check_node`]).
    pub fn compile(schema: &SchemaRef) -> Rules {
        Rules(node(schema, true))
    }

    /// Compiles the rules of a part of a schema.
    pub fn compile_part(schema: &SchemaRef) -> Rules {
        Rules(node(schema, schema.embedded_resource))
    }

    /// What the compiler says of each rule that stands on this node itself.
    pub fn check_node(schema: &SchemaRef, is_resource: bool) -> Vec<Checked> {
        schema.rules.iter().map(|rule| check::rule(schema, is_resource, rule)).collect()
    }

    pub(super) fn root(&self) -> Option<&Node> {
        self.0.as_ref()
    }

    /// Whether there is no rule at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

fn node(schema: &SchemaRef, is_resource: bool) -> Option<Node> {
    let rules: Vec<Compiled> = schema.rules.iter().filter_map(|rule| one(schema, rule)).collect();
    let below = |child: &SchemaRef| node(child, child.embedded_resource);
    let properties: BTreeMap<String, Node> = schema
        .properties
        .iter()
        .filter_map(|(name, property)| Some((name.clone(), below(property)?)))
        .collect();
    let additional = match &schema.additional {
        Additional::Of(of) => below(of).map(Box::new),
        Additional::Any | Additional::Refused => None,
    };
    let items = schema.items.as_ref().and_then(below).map(Box::new);
    let idle = rules.is_empty() && properties.is_empty() && additional.is_none() && items.is_none();
    (!idle).then(|| Node { schema: schema.clone(), is_resource, rules, properties, additional, items })
}

fn one(schema: &Schema, rule: &Rule) -> Option<Compiled> {
    let message = rule.message_expression.as_deref().and_then(|source| Program::parse(source).ok());
    let told_at = rule.field_path.as_deref().and_then(|path| field_path(schema, path).ok());
    Some(Compiled {
        rule: rule.clone(),
        program: Program::parse(&rule.rule).ok()?,
        message,
        field_path: told_at,
    })
}
