//! Errors as people read them.

use std::error::Error;

/// An error and its causes in one line, from the attempt to what kept it from working.
pub fn chain(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        // Some libraries put the cause into their own text as well.
        if !line.ends_with(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        cause = error.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Attempt(&'static str, #[source] Option<Box<Attempt>>);

    #[test]
    fn causes_follow_their_attempt_and_none_is_said_twice() {
        let cause = |text, cause| Attempt(text, Some(Box::new(cause)));
        let plain = cause("reading a", cause("opening a", Attempt("no such file", None)));
        assert_eq!(chain(&plain), "reading a: opening a: no such file");
        let repeated = cause("reading a: no such file", Attempt("no such file", None));
        assert_eq!(chain(&repeated), "reading a: no such file");
    }
}
