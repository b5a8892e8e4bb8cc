//! What this process holds of the machine's memory.

/// Gives memory back to the system that was freed and kept for later. For after something large: the allocator keeps
/// what a burst needed, for as long as the process lives.
pub fn give_back() {
    crate::sys::give_back();
}

/// What the allocator has, in bytes: in use, and free but kept. Zero where the allocator does not tell.
pub fn allocated() -> (usize, usize) {
    crate::sys::allocated()
}
