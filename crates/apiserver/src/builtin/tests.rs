//! Facts recorded from a real server.
