//! Rewriting of expressions into what the evaluator can run.
//!
//! `kube-cel`'s evaluator differs from the real server's in two places our users may meet: `a.?b` fails when `b` is
//! absent, and a plain selection on an optional yields `false`. Both have an equivalent it does run.

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, SelectExpr, operators,
};

use super::macros;

/// The same expression in terms the evaluator runs as the real server would.
pub(super) fn adapt(expression: IdedExpr) -> IdedExpr {
    let id = expression.id;
    let boxed = |inner: Box<IdedExpr>| Box::new(adapt(*inner));
    let expr = match expression.expr {
        Expr::Call(call) => call_of(call),
        Expr::Select(select) => {
            let operand = boxed(select.operand);
            if is_optional(&operand) && !select.test {
                index(operators::INDEX, *operand, select.field, id)
            } else {
                Expr::Select(SelectExpr { operand, ..select })
            }
        }
        Expr::Comprehension(inner) => {
            let inner = *inner;
            Expr::Comprehension(Box::new(ComprehensionExpr {
                iter_range: adapt(inner.iter_range),
                accu_init: adapt(inner.accu_init),
                loop_cond: adapt(inner.loop_cond),
                loop_step: adapt(inner.loop_step),
                result: adapt(inner.result),
                iter_var: inner.iter_var,
                iter_var2: inner.iter_var2,
                accu_var: inner.accu_var,
            }))
        }
        Expr::List(list) => Expr::List(ListExpr {
            elements: list.elements.into_iter().map(adapt).collect(),
            optional_indices: list.optional_indices,
        }),
        Expr::Map(mut map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    entry.key = adapt(std::mem::take(&mut entry.key));
                    entry.value = adapt(std::mem::take(&mut entry.value));
                }
            }
            Expr::Map(map)
        }
        same @ (Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_)) => same,
    };
    IdedExpr { id, expr }
}

fn call_of(call: CallExpr) -> Expr {
    let args: Vec<IdedExpr> = call.args.into_iter().map(adapt).collect();
    let target = call.target.map(|target| Box::new(adapt(*target)));
    if let Some(expanded) = target.as_ref().and_then(|target| macros::expand(&call.func_name, target, &args))
    {
        return expanded;
    }
    if call.func_name == operators::OPT_SELECT {
        return Expr::Call(CallExpr { func_name: operators::OPT_INDEX.to_owned(), target, args });
    }
    Expr::Call(CallExpr { func_name: call.func_name, target, args })
}

fn index(operator: &str, operand: IdedExpr, field: String, id: u64) -> Expr {
    let key = IdedExpr { id, expr: Expr::Literal(LiteralValue::String(field.into())) };
    Expr::Call(CallExpr { func_name: operator.to_owned(), target: None, args: vec![operand, key] })
}

fn is_optional(expression: &IdedExpr) -> bool {
    match &expression.expr {
        Expr::Call(call) if call.func_name == operators::OPT_INDEX => true,
        Expr::Call(call) if call.func_name == operators::INDEX => call.args.first().is_some_and(is_optional),
        Expr::Call(_)
        | Expr::Select(_)
        | Expr::Comprehension(_)
        | Expr::List(_)
        | Expr::Map(_)
        | Expr::Unspecified
        | Expr::Ident(_)
        | Expr::Literal(_)
        | Expr::Struct(_) => false,
    }
}
