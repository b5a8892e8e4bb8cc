//! Macros of the real server that the evaluator does not expand: `optMap`, `optFlatMap`, and the comprehensions with two
//! variables.

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, Expr, IdedExpr, ListExpr, LiteralValue, operators,
};

/// The function that turns a list into pairs of index and item, and a map into pairs of key and value. No rule can call
/// it: its name is not one a rule can write.
pub(super) const PAIRS: &str = "@pairs";

const RESULT: &str = "@result";
const PAIR: &str = "@pair";

/// The expansion of a macro called on `target`, if it is one of them.
pub(super) fn expand(name: &str, target: &IdedExpr, args: &[IdedExpr]) -> Option<Expr> {
    let variable = |arg: &IdedExpr| match &arg.expr {
        Expr::Ident(name) => Some(name.clone()),
        Expr::Unspecified
        | Expr::Call(_)
        | Expr::Comprehension(_)
        | Expr::List(_)
        | Expr::Literal(_)
        | Expr::Map(_)
        | Expr::Select(_)
        | Expr::Struct(_) => None,
    };
    match (name, args) {
        ("optMap" | "optFlatMap", [over, inner]) => {
            let over = variable(over)?;
            let mapped = bind(&over, method(target.clone(), "value"), inner.clone());
            let mapped = if name == "optMap" { optional("of", vec![mapped]) } else { mapped };
            // The target is written twice rather than bound: a variable would hold what is in the optional.
            let present = method(target.clone(), "hasValue");
            Some(call(operators::CONDITIONAL, vec![present, mapped, optional("none", Vec::new())]).expr)
        }
        ("all" | "exists" | "existsOne" | "transformList", [first, second, rest @ ..])
            if !rest.is_empty() =>
        {
            let (first, second) = (variable(first)?, variable(second)?);
            let within = |inner: &IdedExpr| {
                let part = |index: i64| {
                    call(operators::INDEX, vec![ident(PAIR), literal(LiteralValue::Int(index.into()))])
                };
                bind(&first, part(0), bind(&second, part(1), inner.clone()))
            };
            two_variables(name, target, rest, within)
        }
        _ => None,
    }
}

fn two_variables(
    name: &str,
    target: &IdedExpr,
    rest: &[IdedExpr],
    within: impl Fn(&IdedExpr) -> IdedExpr,
) -> Option<Expr> {
    let result = || ident(RESULT);
    let boolean = |value: bool| literal(LiteralValue::Boolean(value.into()));
    let whole = |value: i64| literal(LiteralValue::Int(value.into()));
    let going = |condition: IdedExpr| call(operators::NOT_STRICTLY_FALSE, vec![condition]);
    let gathered = |item: &IdedExpr| call(operators::ADD, vec![result(), list(vec![within(item)])]);
    let (init, condition, step, outcome) = match (name, rest) {
        ("all", [test]) => {
            let step = call(operators::LOGICAL_AND, vec![result(), within(test)]);
            (boolean(true), going(result()), step, result())
        }
        ("exists", [test]) => {
            let step = call(operators::LOGICAL_OR, vec![result(), within(test)]);
            (boolean(false), going(call(operators::LOGICAL_NOT, vec![result()])), step, result())
        }
        ("existsOne", [test]) => {
            let counted = call(operators::ADD, vec![result(), whole(1)]);
            let step = call(operators::CONDITIONAL, vec![within(test), counted, result()]);
            (whole(0), boolean(true), step, call(operators::EQUALS, vec![result(), whole(1)]))
        }
        ("transformList", [item]) => (list(Vec::new()), boolean(true), gathered(item), result()),
        ("transformList", [test, item]) => {
            let step = call(operators::CONDITIONAL, vec![within(test), gathered(item), result()]);
            (list(Vec::new()), boolean(true), step, result())
        }
        _ => return None,
    };
    Some(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: call(PAIRS, vec![target.clone()]),
        iter_var: PAIR.to_owned(),
        iter_var2: None,
        accu_var: RESULT.to_owned(),
        accu_init: init,
        loop_cond: condition,
        loop_step: step,
        result: outcome,
    })))
}

/// `inner` with a variable: a loop no round of which ever runs.
fn bind(variable: &str, value: IdedExpr, inner: IdedExpr) -> IdedExpr {
    node(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: list(Vec::new()),
        iter_var: "@unused".to_owned(),
        iter_var2: None,
        accu_var: variable.to_owned(),
        accu_init: value,
        loop_cond: literal(LiteralValue::Boolean(false.into())),
        loop_step: ident(variable),
        result: inner,
    })))
}

/// Made-up nodes have no place in the source.
fn node(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}

fn ident(name: &str) -> IdedExpr {
    node(Expr::Ident(name.to_owned()))
}

fn literal(value: LiteralValue) -> IdedExpr {
    node(Expr::Literal(value))
}

fn list(elements: Vec<IdedExpr>) -> IdedExpr {
    node(Expr::List(ListExpr::new(elements)))
}

fn call(function: &str, args: Vec<IdedExpr>) -> IdedExpr {
    node(Expr::Call(CallExpr { func_name: function.to_owned(), target: None, args }))
}

fn method(target: IdedExpr, function: &str) -> IdedExpr {
    node(Expr::Call(CallExpr {
        func_name: function.to_owned(),
        target: Some(Box::new(target)),
        args: Vec::new(),
    }))
}

fn optional(function: &str, args: Vec<IdedExpr>) -> IdedExpr {
    node(Expr::Call(CallExpr {
        func_name: function.to_owned(),
        target: Some(Box::new(ident("optional"))),
        args,
    }))
}
