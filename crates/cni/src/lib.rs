//! What the CNI plugin and the agent say to each other, and what the CNI specification says to both.
