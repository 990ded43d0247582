//! Lots over I/O servers that are made up, and that are killed at every step.
