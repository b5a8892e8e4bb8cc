//! From the API's objects to the values `core` decides with, and back.
//!
//! `api` knows how things are written and `core` what they mean, and neither knows the other. The operator and the
//! agent need the same translation between them, so it stands here, once. Pure.
//!
//! One module per kind: [`networks`] (both `Network` resources), [`applicant`] (what a `Node` claims) and
//! [`assignment`] (what it is given, as annotations).

pub mod applicant;
pub mod assignment;
pub mod networks;
