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

/// Has all threads take memory from one heap. For a process of few threads that keeps much and now and then computes
/// with more: what one thread frees another can use, and less is left over. To be called before there are threads.
pub fn share_one_heap() {
    crate::sys::share_one_heap();
}
