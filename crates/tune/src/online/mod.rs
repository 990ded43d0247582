//! Tuning while data moves: one controller for each endpoint, which turns what belongs to the stage that limits and keeps a step only where
//! bytes arrive faster for it.
