//! Holds nothing: what is here are the benches, which count instructions instead of time.
