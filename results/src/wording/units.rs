//! Short words for figures: durations, counts and rates, each with its unit.

/// A duration with three significant digits: `0 s`, `850 ns`, `12.3 µs`, `2.15 s`, `4 min 10 s`.
pub fn duration(ns: u64) -> String {
    let value = ns as f64;
    match ns {
        0 => "0 s".to_owned(),
        1..1_000 => format!("{ns} ns"),
        1_000..999_500 => format!("{} µs", three_digits(value / 1e3)),
        999_500..999_500_000 => format!("{} ms", three_digits(value / 1e6)),
        999_500_000..59_950_000_000 => format!("{} s", three_digits(value / 1e9)),
        _ => {
            let seconds = (value / 1e9).round() as u64;
            match (seconds / 3_600, seconds / 60 % 60, seconds % 60) {
                (0, minutes, 0) => format!("{minutes} min"),
                (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
                (hours, minutes, _) => format!("{hours} h {minutes} min"),
            }
        }
    }
}

/// The same of a length that is not known where it is 0: nothing then.
pub(crate) fn known_duration(ns: u64) -> String {
    if ns == 0 { String::new() } else { duration(ns) }
}

/// A point in time as seconds since the run began: `4.012 s`.
pub fn instant(ns: u64) -> String {
    format!("{:.3} s", ns as f64 / 1e9)
}

/// A figure with at least three significant digits: `0.0123`, `4.56`, `101775`; `–` where it is no number.
pub fn figure(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => "–".to_owned(),
        small if small < 1_000.0 => three_digits(value),
        _ => format!("{value:.0}"),
    }
}

/// A count.
pub fn count(value: u64) -> String {
    figure(value as f64)
}

/// How often: `once`, `3 times`.
pub(crate) fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        more => format!("{} times", self::count(more)),
    }
}

/// A size in bytes: `512 B`, `7.8 GiB`.
pub fn bytes(value: u64) -> String {
    let mut scaled = value as f64;
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if scaled < 1_024.0 {
            break;
        }
        scaled /= 1_024.0;
        unit = next;
    }
    format!("{} {unit}", three_digits(scaled))
}

/// A number below a thousand with three significant digits, without trailing zeros behind the point.
fn three_digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor();
    let decimals = (2.0 - magnitude).clamp(0.0, 9.0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// `text` between two others; nothing where it is empty.
pub(crate) fn enclosed(before: &str, text: &str, behind: &str) -> String {
    match text {
        "" => String::new(),
        text => format!("{before}{text}{behind}"),
    }
}

/// A noun for so many: `task` for one, `tasks` for any other number.
pub fn plural(count: usize, noun: &str) -> String {
    format!("{noun}{}", if count == 1 { "" } else { "s" })
}

/// So many of a noun: `1 task`, `2 tasks`.
pub(crate) fn several(count: usize, noun: &str) -> String {
    format!("{count} {}", plural(count, noun))
}

/// `99 800–103 900`.
pub(crate) fn range(low: f64, high: f64) -> String {
    format!("{}–{}", figure(low), figure(high))
}
