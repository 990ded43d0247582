//! The online tuner on simulated paths: its promises, each with twenty seeds and noise, in milliseconds.

mod bars;
mod path;
