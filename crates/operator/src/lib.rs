//! The cluster side: one controller per capability. Each reads the cluster, lets `core` decide, writes what nodes
//! are to do, and reports what is true.
