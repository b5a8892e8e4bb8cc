//! Values kept in annotations: one type per annotation, parsed once and printed as others expect.
//!
//! Formats that other systems write are read leniently where those systems do (a key we do not know
//! is skipped, an old form is understood) and printed byte for byte as they print them. Ours are
//! strict: what we do not know, we refuse.

mod addresses;
mod mac;

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use addresses::FamilyPair;
pub(crate) use addresses::{FamilyPairWire, address, network, truncated};
pub use mac::Mac;

/// The value of one annotation.
pub trait Annotation: Sized + fmt::Display {
    /// The annotation's key.
    const KEY: &'static str;

    /// Understands the value of an annotation.
    ///
    /// # Errors
    /// The error names the key, and what in the value was wrong.
    fn parse(value: &str) -> Result<Self, AnnotationError>;

    /// Finds and understands this annotation among those of an object; `None` if it is not there.
    ///
    /// # Errors
    /// As [`Annotation::parse`].
    fn read(annotations: &BTreeMap<String, String>) -> Result<Option<Self>, AnnotationError> {
        annotations.get(Self::KEY).map(|value| Self::parse(value)).transpose()
    }

    /// Key and printed value, as they go into an object's annotations or a patch.
    fn entry(&self) -> (String, String) {
        (Self::KEY.to_owned(), self.to_string())
    }
}

/// An annotation whose value cannot be understood.
#[derive(Debug, thiserror::Error)]
pub enum AnnotationError {
    /// The text is not JSON, or JSON of another shape.
    #[error("annotation {key} is not the JSON it should be")]
    Json {
        /// The annotation's key.
        key: &'static str,
        /// Where the text goes wrong.
        #[source]
        source: serde_json::Error,
    },
    /// The shape is right but a value in it is not.
    #[error("annotation {key}: {problem}")]
    Value {
        /// The annotation's key.
        key: &'static str,
        /// What is wrong, naming the offending part.
        problem: String,
    },
}

impl AnnotationError {
    /// The key of the annotation that could not be understood.
    pub fn key(&self) -> &'static str {
        match self {
            AnnotationError::Json { key, .. } | AnnotationError::Value { key, .. } => key,
        }
    }
}

/// A value kept as JSON: what is on the wire, and what it has to satisfy.
pub(crate) trait Wired: Sized {
    type Wire: Serialize + DeserializeOwned;

    fn from_wire(wire: Self::Wire) -> Result<Self, String>;
    fn to_wire(&self) -> Self::Wire;

    fn parse_json(key: &'static str, value: &str) -> Result<Self, AnnotationError> {
        let wire = serde_json::from_str(value).map_err(|source| AnnotationError::Json { key, source })?;
        Self::from_wire(wire).map_err(|problem| AnnotationError::Value { key, problem })
    }

    fn print_json(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(&self.to_wire()).map_err(|_| fmt::Error)?)
    }
}

/// Makes a [`Wired`] type the value of the annotation `$key`.
macro_rules! json_annotation {
    ($name:ty, $key:expr) => {
        impl $crate::annotation::Annotation for $name {
            const KEY: &'static str = $key;

            fn parse(value: &str) -> Result<Self, $crate::annotation::AnnotationError> {
                $crate::annotation::Wired::parse_json(Self::KEY, value)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $crate::annotation::Wired::print_json(self, f)
            }
        }
    };
}

/// Declares an annotation whose value is plain text: `$inner` as parsed by `$parse`.
macro_rules! text_annotation {
    ($(#[$meta:meta])* $name:ident($inner:ty), $key:expr, $parse:expr) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct $name($inner);

        impl $name {
            /// The value.
            pub fn get(&self) -> &$inner {
                &self.0
            }
        }

        impl $crate::annotation::Annotation for $name {
            const KEY: &'static str = $key;

            fn parse(value: &str) -> Result<Self, $crate::annotation::AnnotationError> {
                let parse: fn(&str) -> Result<$inner, String> = $parse;
                parse(value)
                    .map(Self)
                    .map_err(|problem| $crate::annotation::AnnotationError::Value { key: Self::KEY, problem })
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

/// Lets any value of the inner type become the annotation: there is none that would be wrong.
macro_rules! any_value {
    ($($name:ident($inner:ty)),* $(,)?) => {$(
        impl From<$inner> for $name {
            fn from(value: $inner) -> Self {
                Self(value)
            }
        }
    )*};
}

/// Declares the known values of a string: condition types, reasons, states.
macro_rules! names {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $name {
            $($(#[$doc])* $variant),+
        }

        impl $name {
            /// Every one of them.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// As written in the API.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $text),+
                }
            }

            /// The one written so, if it is known.
            pub fn named(text: &str) -> Option<$name> {
                Self::ALL.iter().copied().find(|known| known.as_str() == text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

pub(crate) use {any_value, json_annotation, names, text_annotation};

/// Text that must say something.
pub(crate) fn nonempty(value: &str) -> Result<String, String> {
    if value.is_empty() { Err("is empty".into()) } else { Ok(value.to_owned()) }
}

/// Any text, the empty one included.
pub(crate) fn any_text(value: &str) -> Result<String, String> {
    Ok(value.to_owned())
}

/// `true` or `false`, and nothing that merely looks like it.
pub(crate) fn flag(value: &str) -> Result<bool, String> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("{value:?} is neither \"true\" nor \"false\"")),
    }
}

/// A number in decimal digits: no sign, no blanks, no leading zeros.
pub(crate) fn decimal<N: std::str::FromStr>(value: &str) -> Result<N, String> {
    let plain = value.bytes().all(|b| b.is_ascii_digit()) && (value == "0" || !value.starts_with('0'));
    match value.parse() {
        Ok(number) if plain => Ok(number),
        _ => Err(format!("{value:?} is not a decimal number of the expected size")),
    }
}
