//! The small words of a scenario file: durations, ranges, leases, durability, expectations.
//!
//! Every function answers with what is allowed when it does not understand; the reader of the file says where
//! and what was found.

use std::collections::BTreeMap;
use std::time::Duration;

use bench::subject::Durability;
use bench::workload::{Pace, WORKLOADS};
use cluster_config::input::{nearest, one_of, word};
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What is allowed where `found` is none of these.
pub(crate) fn one_of_these<'w>(found: &str, known: impl AsRef<[&'w str]>) -> String {
    let known = known.as_ref().iter().copied();
    format!("{}{}", one_of(known.clone()), nearest(found, known))
}

/// A length of time: a word such as `250ms` in a scenario file, whole nanoseconds in a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(inline)]
pub struct Length(#[schemars(with = "String")] pub Duration);

impl Length {
    /// In nanoseconds.
    pub fn ns(self) -> u64 {
        nanoseconds(self.0)
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        word(deserializer, DURATION, |word| duration(word).map(Self))
    }
}

impl Serialize for Length {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.ns())
    }
}

/// A duration, or a range of them from which one is drawn uniformly, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline, with = "String")]
pub struct Range {
    /// The shortest, in nanoseconds.
    pub min_ns: u64,
    /// The longest, in nanoseconds; not less than `min_ns`.
    pub max_ns: u64,
}

impl Range {
    /// Always the same.
    pub fn constant(value: Duration) -> Self {
        Self::new(value, value)
    }

    pub(super) fn new(min: Duration, max: Duration) -> Self {
        Self { min_ns: nanoseconds(min), max_ns: nanoseconds(max) }
    }
}

impl<'de> Deserialize<'de> for Range {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        word(deserializer, RANGE, range)
    }
}

/// A `Duration` as nanoseconds; more than 584 years become 584 years.
pub(crate) fn nanoseconds(value: Duration) -> u64 {
    u64::try_from(value.as_nanos()).unwrap_or(u64::MAX)
}

pub(super) const DURATION: &str = "a duration such as `250ms`, `10s` or `2m`";

/// `250ms`, `1.5s`, `2m`; units are ns, us, ms, s, m and h.
pub(crate) fn duration(word: &str) -> Result<Duration, &'static str> {
    let split = word.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or(DURATION)?;
    let (number, unit) = word.split_at(split);
    let scale_ns: f64 = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        "h" => 3600e9,
        _ => return Err(DURATION),
    };
    // A year is longer than any run; the bound keeps sums of durations far from overflow.
    const LONGEST_NS: f64 = 365.0 * 24.0 * 3600e9;
    let value: f64 = number.parse().map_err(|_| DURATION)?;
    let ns = (value * scale_ns).round();
    if !ns.is_finite() || ns > LONGEST_NS {
        return Err(AT_MOST_A_YEAR);
    }
    Ok(Duration::from_nanos(ns as u64))
}

/// Also where more than a duration is allowed: what is in the way is the length.
const AT_MOST_A_YEAR: &str = "a duration of at most a year (8760h)";

/// What is allowed in place of a duration that was refused, where `others` are allowed besides.
fn instead(refused: &'static str, others: &'static str) -> &'static str {
    match refused == AT_MOST_A_YEAR {
        true => refused,
        false => others,
    }
}

const RANGE: &str = "a duration such as `250ms`, `10s` or `2m`, or a range such as `20ms..60ms`";

/// `5ms` or `20ms..60ms`.
fn range(word: &str) -> Result<Range, &'static str> {
    let refused = |why| instead(why, RANGE);
    let Some((min, max)) = word.split_once("..") else {
        return duration(word).map(Range::constant).map_err(refused);
    };
    let min = duration(min.trim()).map_err(refused)?;
    let max = duration(max.trim()).map_err(refused)?;
    if min > max {
        return Err("a range whose first duration is not longer than its second");
    }
    Ok(Range::new(min, max))
}

/// `3s`, or `renewed`, which is `None`.
pub(super) fn lease<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Length>, D::Error> {
    const ALLOWED: &str = "a duration such as `250ms`, `10s` or `2m` and at least 1ms, or `renewed`";
    word(deserializer, ALLOWED, |word| match duration(word) {
        Ok(lease) if lease >= LEASE_MIN => Ok(Some(Length(lease))),
        Ok(_) => Err(ALLOWED),
        Err(_) if word == "renewed" => Ok(None),
        Err(why) => Err(instead(why, ALLOWED)),
    })
}

/// A number of something, from 1 to `HIGH`.
pub(super) struct Count<const HIGH: u32>(pub(super) u32);

impl<'de, const HIGH: u32> Deserialize<'de> for Count<HIGH> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match u32::deserialize(from) {
            Ok(count) if (1..=HIGH).contains(&count) => Ok(Self(count)),
            _ => Err(D::Error::custom(format!("a whole number from 1 to {HIGH}"))),
        }
    }
}

pub(super) fn count<'de, D: Deserializer<'de>, const HIGH: u32>(from: D) -> Result<u32, D::Error> {
    Count::<HIGH>::deserialize(from).map(|Count(count)| count)
}

/// The same, where it may be left out.
pub(super) fn some_count<'de, D: Deserializer<'de>, const HIGH: u32>(
    from: D,
) -> Result<Option<u32>, D::Error> {
    let count = Option::<Count<HIGH>>::deserialize(from)?;
    Ok(count.map(|Count(count)| count))
}

/// Numbers of something by name.
pub(super) fn counts<'de, D: Deserializer<'de>, const HIGH: u32>(
    from: D,
) -> Result<BTreeMap<String, u32>, D::Error> {
    let counts = BTreeMap::<String, Count<HIGH>>::deserialize(from)?.into_iter();
    Ok(counts.map(|(name, Count(count))| (name, count)).collect())
}

/// The name of a workload that runs in a scenario.
pub(super) fn workload<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    word(from, "the name of a workload", |word| {
        // Clients of a scenario are processes that faults know by name: no workload connects its own.
        let all = WORKLOADS.iter().filter(|known| !known.connects());
        let fit: Vec<&str> = all.map(|known| known.name).collect();
        match bench::workload::find(word) {
            Ok(found) if !found.connects() => Ok(Some(word.to_owned())),
            Ok(_) => Err(format!(
                "{}; `{word}` connects clients of its own and runs only in a benchmark",
                one_of(fit)
            )),
            Err(_) => Err(one_of_these(word, fit)),
        }
    })
}

/// A rate of cycles, `2000/s` or `80% of knee`.
pub(super) fn cycles<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    const ALLOWED: &str = "cycles per second such as `2000/s`, or a share such as `80% of knee`, from 1 to 200 %, of what the same clients complete in a closed loop";
    word(from, ALLOWED, |word| {
        let known = word.parse::<Pace>().is_ok() || share_of_knee(word).is_some();
        known.then(|| Some(word.to_owned())).ok_or(ALLOWED)
    })
}

/// The share of a rate such as `80% of knee`: 0.8.
pub(crate) fn share_of_knee(rate: &str) -> Option<f64> {
    let percent: f64 = rate.strip_suffix("% of knee")?.trim_end().parse().ok()?;
    (1.0..=200.0).contains(&percent).then_some(percent / 100.0)
}

/// A lease is at least as long as a server can count.
pub(super) const LEASE_MIN: Duration = Duration::from_millis(1);

pub(super) const RATE: &str = "bytes per second such as `800B/s`, `64kB/s` or `1MB/s`";

/// Bytes per second: a whole number, a unit in powers of ten, `/s`; at least one byte.
pub(crate) fn rate(word: &str) -> Result<u64, &'static str> {
    let (number, factor) = [("MB/s", 1_000_000), ("kB/s", 1_000), ("B/s", 1)]
        .into_iter()
        .find_map(|(unit, factor)| Some((word.strip_suffix(unit)?, factor)))
        .ok_or(RATE)?;
    number
        .trim()
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor))
        .filter(|rate| *rate > 0)
        .ok_or(RATE)
}

/// Bytes as a server's configuration says them: a whole number and maybe a unit, `600kb`; at least one byte.
pub(super) fn memory(word: &str) -> Result<u64, &'static str> {
    const MEMORY: &str = "bytes as in redis.conf, such as `600kb`, `1mb` or `1048576`, more than 0";
    let split = word.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = word.split_at(split.unwrap_or(word.len()));
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1_000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return Err(MEMORY),
    };
    let number: Option<u64> = number.parse().ok();
    let bytes = number.and_then(|number| number.checked_mul(factor));
    bytes.filter(|bytes| *bytes > 0).ok_or(MEMORY)
}

pub(super) const SHIFT: &str = "a duration forwards or backwards such as `5s` or `-500ms`, not 0";

/// `5s`, `-5s`: nanoseconds, not 0.
pub(crate) fn shift(word: &str) -> Result<i64, &'static str> {
    let (sign, length) = match word.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, word.strip_prefix('+').unwrap_or(word)),
    };
    let length = duration(length).map_err(|why| instead(why, SHIFT))?;
    match i64::try_from(length.as_nanos()) {
        Ok(ns) if ns > 0 => Ok(sign * ns),
        _ => Err(SHIFT),
    }
}

pub(super) const PERCENT: &str = "a share such as `2%` or `-0.5%`, more than -100% and at most 1000%, not 0";

/// `2%`, `-0.5%`: billionths, not 0.
pub(crate) fn percent(word: &str) -> Result<i64, &'static str> {
    let number: f64 = word.strip_suffix('%').and_then(|number| number.trim().parse().ok()).ok_or(PERCENT)?;
    let ppb = (number * 1e7).round();
    if number > -100.0 && number <= 1000.0 && ppb != 0.0 { Ok(ppb as i64) } else { Err(PERCENT) }
}

/// A durability as the library understands it, in its words: other languages take words, too.
pub(super) fn durability<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    const ALLOWED: &str = "`none`, `wait:K` (K replicas, from 1), `wait:majority`, `wait:all` or `waitaof:K` (the master's disk and those of K replicas)";
    word(deserializer, ALLOWED, |word| {
        word.parse::<Durability>().map_err(|_| ALLOWED).map(|_| word.to_owned())
    })
}

/// `< 3s`, as other crates read durations: `< 1.5s` is `< 1s 500ms`.
pub(super) fn recovery<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    const ALLOWED: &str = "`<` and a duration above 0 such as `< 3s`";
    let limit = |word: &str| {
        let limit = word.strip_prefix('<')?.trim();
        // As in a plan: `1s 500ms`.
        let limit = duration(limit).ok().or_else(|| humantime::parse_duration(limit).ok());
        limit.filter(|limit| !limit.is_zero())
    };
    word(from, ALLOWED, |word| match limit(word) {
        Some(limit) => Ok(Some(format!("< {}", humantime::format_duration(limit)))),
        None => Err(ALLOWED),
    })
}

/// `< 20` or `> 0.5`.
pub(super) fn bound<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    const ALLOWED: &str = "`<` or `>` and a number such as `> 0.5`";
    word(from, ALLOWED, |word| {
        let limit = word.strip_prefix(['<', '>']).map(str::trim);
        let limit = limit.and_then(|limit| limit.parse::<f64>().ok());
        match limit.filter(|limit| limit.is_finite() && *limit >= 0.0) {
            Some(limit) => Ok(Some(format!("{} {limit}", &word[..1]))),
            None => Err(ALLOWED),
        }
    })
}

pub(super) const EXPECTATION: &str = "`clean`, `violated` or `at-most N/min`";

/// `clean`, `violated` or `at-most N/min`; given back as it is.
pub(super) fn expectation(word: &str) -> Result<String, &'static str> {
    let at_most = || {
        let rate = word.strip_prefix("at-most ")?.strip_suffix("/min")?;
        let rate: f64 = rate.trim().parse().ok()?;
        (rate.is_finite() && rate >= 0.0).then_some(())
    };
    if word == "clean" || word == "violated" || at_most().is_some() {
        Ok(word.to_owned())
    } else {
        Err(EXPECTATION)
    }
}

#[cfg(test)]
#[test]
fn shares_of_the_knee_are_from_1_to_200_percent() {
    assert_eq!(["80% of knee", "2.5 % of knee"].map(share_of_knee), [Some(0.8), Some(0.025)]);
    for word in ["0% of knee", "201% of knee", "80%", "NaN% of knee", "80/s"] {
        assert_eq!(share_of_knee(word), None, "{word}");
    }
}
