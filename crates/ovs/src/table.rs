//! Tables as our code declares them: once, with exactly the columns it uses.

use crate::shape::{Shape, WrongShape};
use crate::value::Datum;

/// How a row is told from the others of its table when its UUID is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// By the text of these columns, joined with a space.
    Columns(&'static [&'static str]),
    /// By an entry of `external_ids` whose name the caller of [`diff`](crate::diff()) gives.
    ExternalId,
    /// The table has one row; its key is the empty text.
    Singleton,
}

/// One column that our code uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnDecl {
    /// Its name in the schema.
    pub name: &'static str,
    /// What it must be there.
    pub shape: Shape,
    /// Newer than the oldest server we work with: may be missing there, and then reads as empty.
    pub optional: bool,
    /// Written by the daemons, only read by us.
    pub status: bool,
    /// A map that others write to as well: a wanted row decides about the keys it lists and no others.
    pub merge: bool,
}

impl ColumnDecl {
    /// A column that every server has and that we write.
    pub const fn new(name: &'static str, shape: Shape) -> ColumnDecl {
        ColumnDecl { name, shape, optional: false, status: false, merge: false }
    }

    /// May be missing on the server.
    #[must_use]
    pub const fn optional(mut self) -> ColumnDecl {
        self.optional = true;
        self
    }

    /// Only read by us.
    #[must_use]
    pub const fn status(mut self) -> ColumnDecl {
        self.status = true;
        self
    }

    /// Shared, key by key, with other writers.
    #[must_use]
    pub const fn merge(mut self) -> ColumnDecl {
        self.merge = true;
        self
    }
}

/// A table as our code declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableDecl {
    /// The database it is in.
    pub database: &'static str,
    /// Its name in the schema.
    pub name: &'static str,
    /// How its rows are recognised.
    pub key: Key,
    /// The columns we use; a row of the copy holds its values in this order.
    pub columns: &'static [ColumnDecl],
}

impl TableDecl {
    /// Position of a column in a row of the copy.
    pub fn position(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name == column)
    }

    /// A column by name.
    pub fn column(&self, column: &str) -> Option<&'static ColumnDecl> {
        self.columns.iter().find(|c| c.name == column)
    }
}

/// A Rust struct that stands for a row; made by [`tables!`](crate::tables!).
pub trait Table: Sized {
    /// The declaration.
    const DECL: &'static TableDecl;
    /// Reads a row whose values are in the order of [`TableDecl::columns`].
    fn from_values(values: &[Datum]) -> Result<Self, BadRow>;
    /// The values, in the order of [`TableDecl::columns`].
    fn to_values(&self) -> Vec<Datum>;
}

/// A column of a row did not hold what its declaration says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("reading column {column} of a row of {table}")]
pub struct BadRow {
    /// The table.
    pub table: &'static str,
    /// The column.
    pub column: &'static str,
    /// What was wrong.
    #[source]
    pub source: WrongShape,
}

/// A column handle with its type: `LogicalSwitch::name()`.
#[derive(Debug)]
pub struct Column<T> {
    /// Its declaration.
    pub decl: &'static ColumnDecl,
    /// Position in a row of the copy.
    pub position: usize,
    /// The type that stands for it.
    pub kind: std::marker::PhantomData<fn() -> T>,
}

/// Declares tables: for each a struct, its [`TableDecl`], and a typed handle per column.
///
/// `field = "column": type [flags]`: the column's name only where it is not the field's; flags are the
/// methods of [`ColumnDecl`].
#[macro_export]
macro_rules! tables {
    ($database:literal; $(
        $(#[$meta:meta])*
        $row:ident = $table:literal by $key:expr => {
            $( $field:ident $(= $wire:literal)? : $kind:ty $([$($flag:ident),+])? ),+ $(,)?
        }
    )+) => { $(
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $row {
            $(
                #[doc = concat!("Column `", $crate::column_name!($field $($wire)?), "`.")]
                pub $field: $kind,
            )+
        }

        impl $crate::table::Table for $row {
            const DECL: &'static $crate::table::TableDecl = &$crate::table::TableDecl {
                database: $database,
                name: $table,
                key: $key,
                columns: &[$(
                    $crate::table::ColumnDecl::new(
                        $crate::column_name!($field $($wire)?),
                        <$kind as $crate::shape::ColumnType>::SHAPE,
                    )$($(.$flag())+)?
                ),+],
            };

            fn from_values(values: &[$crate::value::Datum]) -> Result<Self, $crate::table::BadRow> {
                let mut values = values.iter();
                Ok($row { $(
                    $field: <$kind as $crate::shape::ColumnType>::from_datum(
                        values.next().expect("a row of the copy has a value for every declared column"),
                    )
                    .map_err(|source| $crate::table::BadRow {
                        table: $table,
                        column: $crate::column_name!($field $($wire)?),
                        source,
                    })?,
                )+ })
            }

            fn to_values(&self) -> Vec<$crate::value::Datum> {
                vec![$($crate::shape::ColumnType::to_datum(&self.$field)),+]
            }
        }

        #[allow(dead_code, reason = "not every column needs its handle")]
        impl $row {
            $(
                #[doc = concat!("Handle of column `", $crate::column_name!($field $($wire)?), "`.")]
                pub fn $field() -> $crate::table::Column<$kind> {
                    let decl = <$row as $crate::table::Table>::DECL;
                    let name = $crate::column_name!($field $($wire)?);
                    let position = decl.position(name).expect("the column is declared above");
                    $crate::table::Column {
                        decl: &decl.columns[position],
                        position,
                        kind: std::marker::PhantomData,
                    }
                }
            )+
        }
    )+ };
}

/// The wire name of a column; part of [`tables!`].
#[doc(hidden)]
#[macro_export]
macro_rules! column_name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $wire:literal) => {
        $wire
    };
}
