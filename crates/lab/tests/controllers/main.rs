//! The controllers of the lab on the embedded API server, and stories told to them and to the real ones alike.

mod crew;
mod real;
mod stories;
