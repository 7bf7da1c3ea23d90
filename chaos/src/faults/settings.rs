//! Reads the checked settings of a fault by name.

use std::time::Duration;

use crate::scenario::{Setting, Settings, duration};

pub(super) fn text<'s>(settings: &'s Settings, name: &str) -> Option<&'s str> {
    match settings.get(name)? {
        Setting::Text(text) => Some(text),
        _ => None,
    }
}

pub(super) fn time(settings: &Settings, name: &str) -> Option<Duration> {
    text(settings, name).and_then(|word| duration(word).ok())
}

pub(super) fn words(settings: &Settings, name: &str) -> Vec<String> {
    match settings.get(name) {
        Some(Setting::Words(words)) => words.clone(),
        Some(Setting::Text(word)) => vec![word.clone()],
        Some(Setting::Number(number)) => vec![number.to_string()],
        None => Vec::new(),
    }
}
