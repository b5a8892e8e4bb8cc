//! Compiling the rules of a schema, once.

use std::collections::BTreeMap;

use kube_cel::cel::parser::{Expression, Parser};
use kube_cel::cel::{Context, ExecutionError, Value as CelValue};

use crate::schema::{Additional, Rule, Schema, SchemaRef, field_path};

use super::adapt::adapt;

/// The compiled rules of a whole schema.
#[derive(Debug, Default)]
pub struct Rules(Option<Node>);

/// A rule that does not compile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("compiling {expression:?}")]
pub struct CompileError {
    /// The path to the schema node, as the server prints it: `.properties[spec]`; empty at the root.
    pub at: String,
    /// Which of the node's rules.
    pub index: usize,
    /// Whether it is the `messageExpression` that is at fault.
    pub in_message: bool,
    /// The expression.
    pub expression: String,
    /// What the compiler says.
    pub why: String,
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
    fn parse(source: &str) -> Result<Program, String> {
        let expression =
            Parser::new().enable_optional_syntax(true).parse(source).map_err(|errors| errors.to_string())?;
        let uses_old_self = expression.references().has_variable("oldSelf");
        Ok(Program { expression: adapt(expression), uses_old_self })
    }

    pub(super) fn run(&self, scope: &Context<'_>) -> Result<CelValue, ExecutionError> {
        CelValue::resolve(&self.expression, scope)
    }
}

impl Rules {
    /// Compiles every rule. Those that do not compile are returned and left out: a definition that has any is refused
    /// before an object is ever checked by it.
    pub fn compile(schema: &SchemaRef) -> (Rules, Vec<CompileError>) {
        let mut errors = Vec::new();
        let root = node(schema, true, String::new(), &mut errors);
        (Rules(root), errors)
    }

    pub(super) fn root(&self) -> Option<&Node> {
        self.0.as_ref()
    }

    /// Whether there is no rule at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

fn node(schema: &SchemaRef, is_resource: bool, at: String, errors: &mut Vec<CompileError>) -> Option<Node> {
    let mut compiled = Vec::new();
    for (index, rule) in schema.rules.iter().enumerate() {
        compiled.extend(one(schema, rule, index, &at, errors));
    }
    let below = |child: &SchemaRef, at: String, errors: &mut Vec<CompileError>| {
        node(child, child.embedded_resource, at, errors)
    };
    let mut properties = BTreeMap::new();
    for (name, property) in &schema.properties {
        if let Some(child) = below(property, format!("{at}.properties[{name}]"), errors) {
            properties.insert(name.clone(), child);
        }
    }
    let additional = match &schema.additional {
        Additional::Of(of) => below(of, format!("{at}.additionalProperties"), errors).map(Box::new),
        Additional::Any | Additional::Refused => None,
    };
    let items =
        schema.items.as_ref().and_then(|items| below(items, format!("{at}.items"), errors)).map(Box::new);
    let idle = compiled.is_empty() && properties.is_empty() && additional.is_none() && items.is_none();
    (!idle).then(|| Node {
        schema: schema.clone(),
        is_resource,
        rules: compiled,
        properties,
        additional,
        items,
    })
}

fn one(
    schema: &Schema,
    rule: &Rule,
    index: usize,
    at: &str,
    errors: &mut Vec<CompileError>,
) -> Option<Compiled> {
    let mut parse = |source: &str, in_message: bool| {
        Program::parse(source)
            .map_err(|why| {
                errors.push(CompileError {
                    at: at.to_owned(),
                    index,
                    in_message,
                    expression: source.to_owned(),
                    why,
                });
            })
            .ok()
    };
    let program = parse(&rule.rule, false);
    let message = rule.message_expression.as_deref().and_then(|source| parse(source, true));
    let told_at = rule.field_path.as_deref().and_then(|path| field_path(schema, path).ok());
    Some(Compiled { rule: rule.clone(), program: program?, message, field_path: told_at })
}
