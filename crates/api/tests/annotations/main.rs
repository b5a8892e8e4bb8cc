//! Annotation values: what is understood, what is refused and why, and that printing loses nothing.

mod properties;
mod tables;

use std::error::Error;
use std::fmt::Debug;

use netferry_api::annotation::Annotation;

/// What becomes of a text: the text it is printed as, or part of the refusal.
enum Becomes {
    Same,
    Printed(&'static str),
    Refused(&'static str),
}

/// Puts every row to the annotation. A row that comes back the same shows the bytes others expect.
fn check<A: Annotation + Debug>(rows: &[(&str, Becomes)]) {
    for (text, becomes) in rows {
        match (A::parse(text), becomes) {
            (Ok(value), Becomes::Same) => assert_eq!(value.to_string(), *text, "{}", A::KEY),
            (Ok(value), Becomes::Printed(printed)) => assert_eq!(value.to_string(), *printed, "{}", A::KEY),
            (Err(error), Becomes::Refused(part)) => {
                let mut said = error.to_string();
                assert!(said.contains(A::KEY), "{said:?} does not name {}", A::KEY);
                assert_eq!(error.key(), A::KEY);
                let mut cause = error.source();
                while let Some(error) = cause {
                    said = format!("{said}: {error}");
                    cause = error.source();
                }
                assert!(said.contains(part), "{text:?}: {said:?} does not say {part:?}");
            }
            (Ok(value), Becomes::Refused(_)) => panic!("{}: {text:?} was understood as {value:?}", A::KEY),
            (Err(error), Becomes::Same | Becomes::Printed(_)) => panic!("{text:?} was refused: {error:?}"),
        }
    }
}
