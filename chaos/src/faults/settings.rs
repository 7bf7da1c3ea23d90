//! Reads the checked settings of a fault by name; `None` where it was not given.

use std::time::Duration;

use crate::scenario::{self, Setting, Settings, duration};

/// A word.
pub fn text<'s>(settings: &'s Settings, name: &str) -> Option<&'s str> {
    match settings.get(name)? {
        Setting::Text(text) => Some(text),
        _ => None,
    }
}

/// A duration.
pub fn time(settings: &Settings, name: &str) -> Option<Duration> {
    text(settings, name).and_then(|word| duration(word).ok())
}

/// A whole number.
pub fn count(settings: &Settings, name: &str) -> Option<u32> {
    match settings.get(name)? {
        Setting::Number(number) => u32::try_from(*number).ok(),
        _ => None,
    }
}

/// A share, more than 0.0 and at most 1.0.
pub fn share(settings: &Settings, name: &str) -> Option<f64> {
    text(settings, name)?.parse().ok()
}

/// Bytes per second.
pub fn rate(settings: &Settings, name: &str) -> Option<u64> {
    text(settings, name).and_then(|word| scenario::rate(word).ok())
}

/// Nanoseconds forwards or backwards.
pub fn shift_ns(settings: &Settings, name: &str) -> Option<i64> {
    text(settings, name).and_then(|word| scenario::shift(word).ok())
}

/// A share in per cent, as billionths.
pub fn percent_ppb(settings: &Settings, name: &str) -> Option<i64> {
    text(settings, name).and_then(|word| scenario::percent(word).ok())
}

/// A list of words.
pub fn words(settings: &Settings, name: &str) -> Vec<String> {
    match settings.get(name) {
        Some(Setting::Words(words)) => words.clone(),
        _ => Vec::new(),
    }
}
