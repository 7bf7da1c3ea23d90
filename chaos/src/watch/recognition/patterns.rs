//! Groups locks by the pattern of their names, counts, and names libraries by what they leave in traffic.

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};
use hdrhistogram::Histogram;
use results::watch::{PerhapsLock, WatchFinding, WatchReport, WatchedLock, WatchedTimes};

use crate::watch::lock::finding_kinds::FindingKind;
use crate::watch::lock::lock_state::{FindingCondition, SeenFinding};
use crate::watch::recognition::recipe_table::Recipe;
use crate::watch::recognition::units::hash;

/// As many changes by the connection that took the lock, and none by another, tell holders apart.
const STABLE_CHANGES: u64 = 5;

/// Values and connections of which it is remembered who used which: one that names an owner, or that all
/// use, comes again soon.
const VALUES_MAX: usize = 128;
const CONNECTIONS_MAX: usize = 1_024;
/// A value that is tried so often is no token of one acquire.
const FIXED_TRIES: u32 = 3;

/// Distinct things, counted up to a bound.
type Distinct = HashSet<u64>;

/// Distinct names and clients are counted up to here.
const DISTINCT_MAX: usize = 50_000;
/// Patterns beyond these are counted under one.
const PATTERNS_MAX: usize = 2_000;

/// The pattern of a name: what looks like a number, an identifier or a hash is `*`.
pub(crate) fn pattern_of(name: &str) -> String {
    let is_mark = |c: char| ":./-_{}|#@ ,".contains(c);
    let mut pattern = String::with_capacity(name.len());
    for part in name.split_inclusive(is_mark) {
        let word = part.trim_end_matches(is_mark);
        let digits = word.bytes().filter(u8::is_ascii_digit).count();
        let is_hexadecimal = word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_hex = word.len() >= 8 && is_hexadecimal;
        // What stands between the first and the last part of a UUID.
        let is_inner = pattern.ends_with("*-") && word.len() == 4;
        let differs = !word.is_empty()
            && (digits == word.len()
                || is_hex && (digits > 0 || part.ends_with('-'))
                || digits >= 3
                || word.len() > 24)
            || is_inner && is_hexadecimal;
        pattern.push_str(if differs { "*" } else { word });
        pattern.push_str(&part[word.len()..]);
    }
    // Identifiers of several parts are one.
    while let Some(at) = pattern.find("*-*").or_else(|| pattern.find("*_*")) {
        pattern.replace_range(at..at + 3, "*");
    }
    pattern
}

/// Whether a name has a lock's word in it: then a counter is taken for a lock too.
pub(crate) fn sounds_like_a_lock(key: &[u8]) -> bool {
    let words = ["lock", "locks", "mutex", "lease", "leases", "semaphore"];
    let is_one = |word: &[u8]| words.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()));
    // A word ends at what is no letter, and where a small letter is followed by a capital.
    let ends = |one: &u8, next: &u8| {
        !one.is_ascii_alphabetic()
            || !next.is_ascii_alphabetic()
            || one.is_ascii_lowercase() && next.is_ascii_uppercase()
    };
    key.chunk_by(|one, next| !ends(one, next)).any(is_one)
}

/// Whether a value says where a service listens, as `10.0.0.1:8080` and `http://host` do.
fn is_address(value: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(value) else { return false };
    let has_port =
        text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    has_port || text.contains("://") || text.parse::<std::net::IpAddr>().is_ok()
}

/// What a command tells of the library that sent it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LibraryTrace<'a> {
    /// The value or field of the owner.
    pub(crate) value: &'a [u8],
    /// The script's text, where it was sent.
    pub(crate) script: Option<&'a [u8]>,
    /// The commands inside, by name.
    pub(crate) inner: &'a str,
    /// It takes the lock: what is sent to keep it and to give it back tells less.
    pub(crate) takes: bool,
}

/// The library, as far as names, values and scripts tell; empty where they do not.
pub(crate) fn library(name: &str, trace: &LibraryTrace<'_>) -> &'static str {
    let value = trace.value;
    let text = trace.script.map(String::from_utf8_lossy).unwrap_or_default();
    let is_uuid = |word: &[u8]| word.len() == 36 && [8, 13, 18, 23].iter().all(|at| word[*at] == b'-');
    let thread = value.get(37..).filter(|_| value.len() > 37 && is_uuid(&value[..36]) && value[36] == b':');
    // A writer's is followed by `:write`.
    let thread = thread.and_then(|word| word.split(|byte| *byte == b':').next());
    let thread = thread.filter(|word| word.iter().all(u8::is_ascii_digit));
    let alphanumeric = value.iter().all(u8::is_ascii_alphanumeric);
    let inner = trace.inner;
    let length = value.len();
    let is_of_mutex = name.starts_with("mutex:") || name.starts_with("semaphore:");
    let is_base64 = value.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte));
    let is_hex = length == 32 && value.iter().all(u8::is_ascii_hexdigit);
    // The first that fits.
    let signs = [
        ("BullMQ", name.contains("bull") && name.ends_with(":lock")),
        ("sidekiq-unique-jobs", name.starts_with("uniquejobs")),
        ("ShedLock", name.starts_with("job-lock:") || value.starts_with(b"ADDED:")),
        // Its scripts ask for the end first. Java's UUIDs are of version 4, ours of version 8.
        ("lock-core", inner.starts_with("pttl set") || inner == "pttl hset pexpire"),
        ("lock-core", thread.is_some() && value[14] == b'8'),
        ("Redisson", thread.is_some() || text.contains("redisson")),
        ("Laravel", name.contains("laravel") && length == 16 && alphanumeric),
        ("redis-semaphore", is_of_mutex && is_uuid(value) && !inner.to_lowercase().contains("hset")),
        // As its script writes them.
        ("Spring Integration", is_uuid(value) && inner.contains("GET SET")),
        ("redis-py", text.contains("local token = redis.call('get', KEYS[1])")),
        ("node-redlock", is_hex && inner.contains("exists set")),
        // A UUID of version 1 in hexadecimal.
        ("redis-py", is_hex && value[12] == b'1' && b"89ab".contains(&value[16])),
        ("redsync", length == 24 && value.ends_with(b"==")),
        // 16 bytes: the last letter has two bits of them.
        ("bsm/redislock", length == 22 && is_base64 && b"AQgw".contains(&value[21])),
        ("rslock", length == 20 && value.iter().any(|byte| *byte >= 0x80)),
    ];
    signs.into_iter().find(|(_, fits)| *fits).map_or("", |(library, _)| library)
}

/// Milliseconds and percents, to two digits, in units of 10 µs.
#[derive(Debug)]
struct Times(Histogram<u32>);

impl Default for Times {
    fn default() -> Self {
        Times(Histogram::new(2).unwrap_or_else(|_| unreachable!("two digits are few")))
    }
}

impl Times {
    fn add(&mut self, us: u64) {
        // Up to a month: its size follows the longest.
        let _ = self.0.record((us / 10).clamp(1, 300_000_000_000));
    }

    fn ms(&self, quantile: f64) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.value_at_quantile(quantile) as f64 / 100.0)
    }

    fn quantiles(&self) -> WatchedTimes {
        WatchedTimes { p50: self.ms(0.5), p99: self.ms(0.99), max: self.ms(1.0) }
    }
}

/// How a value is used.
#[derive(Debug, Clone, Copy, Default)]
struct ValueUse {
    tries: u32,
    /// A connection that tried it tried another too.
    is_mixed: bool,
    /// The connection that was granted the lock by it last, and how often that was another than before.
    client: u32,
    changes: u32,
}

impl ValueUse {
    fn is_fixed(&self) -> bool {
        self.tries >= FIXED_TRIES
    }
}

/// What was counted of the locks of one pattern.
#[derive(Debug, Default)]
pub(crate) struct LockPattern {
    name: String,
    /// What the report says of them as it was counted.
    pub(crate) counts: WatchedLock,
    names: Distinct,
    recipes: BTreeMap<&'static str, u64>,
    /// Takes by library, and those that tell of none.
    libraries: BTreeMap<&'static str, u64>,
    values: HashMap<u64, ValueUse>,
    /// Addresses that were written, the same by name, and takes by other values.
    addresses: Distinct,
    addresses_of_names: Distinct,
    other_takes: u64,
    /// The value that each connection tried last.
    values_of_clients: HashMap<u32, u64>,
    clients: Distinct,
    grants_by_client: HashMap<u32, u64>,
    leases: BTreeMap<u64, u64>,
    holds: Times,
    waits: Times,
    used: Times,
    never_ends: u64,
    commands: u64,
    attempts: u64,
    pub(crate) checked_releases: u64,
    pub(crate) plain_releases: u64,
    /// Connections that asked for a lock and have not deleted its key since.
    asked: HashSet<(u32, u64)>,
    deletes_after_asking: u64,
    other_deletes: u64,
    /// Deletes of others' holds by connections that were refused, and those that follow from these.
    pub(crate) by_refused_client: u64,
    by_same_client: u64,
    /// First ends of their holds among these, which belong to the taking.
    pub(crate) first_ends: u64,
    by_other_client: u64,
    by_asking_client: u64,
    /// Holds whose key was deleted by a connection without a lease before, and those whose holder came back.
    pub(crate) doubtful_deletes: u64,
    pub(crate) confirmed_deletes: u64,
    pub(crate) overwritten: u64,
    /// Renewals that bring the end nearer, as a holder does that gives back only later.
    pub(crate) shortened: u64,
    /// Holds whose value its own holder changed.
    pub(crate) changed_values: u64,
    pub(crate) longest_open_us: u64,
    pub(crate) scripts: u64,
    pub(crate) whole_scripts: u64,
}

impl LockPattern {
    /// Counts an attempt at the lock whose name has this hash.
    pub(crate) fn attempt(&mut self, recipe: &'static Recipe, client: u32, name: u64) {
        self.attempts += 1;
        if self.asked.len() < DISTINCT_MAX {
            self.asked.insert((client, name));
        }
        *self.recipes.entry(recipe.name).or_default() += 1;
        if self.clients.len() < DISTINCT_MAX {
            self.clients.insert(client.into());
        }
    }

    /// Counts a command, and names the library whose take it is: "" if none can be told.
    pub(crate) fn add_command(&mut self, name: &str, trace: &LibraryTrace<'_>) -> Option<&'static str> {
        self.commands += 1;
        if trace.takes {
            match is_address(trace.value) && self.addresses.len() < DISTINCT_MAX {
                true => {
                    self.addresses.insert(hash(trace.value));
                    self.addresses_of_names.insert(hash(&[name.as_bytes(), trace.value].join(&0)));
                }
                false => self.other_takes += 1,
            }
        }
        // After so many it is clear.
        let is_telling = trace.takes && self.commands < 10_000;
        let library = is_telling.then(|| library(name, trace))?;
        *self.libraries.entry(library).or_default() += 1;
        Some(library)
    }

    pub(crate) fn grant(&mut self, client: u32, lease_us: Option<u64>, waited_us: u64) {
        self.counts.grants += 1;
        if client != 0 && self.grants_by_client.len() < DISTINCT_MAX {
            *self.grants_by_client.entry(client).or_default() += 1;
        }
        self.lease(lease_us);
        self.never_ends += u64::from(lease_us.is_none());
        if waited_us > 0 {
            self.waits.add(waited_us);
        }
    }

    pub(crate) fn lease(&mut self, lease_us: Option<u64>) {
        if let Some(lease_us) = lease_us
            && self.leases.len() < 1_000
        {
            *self.leases.entry(lease_us / 1_000).or_default() += 1;
        }
    }

    pub(crate) fn held(&mut self, held_us: u64, lease_us: Option<u64>) {
        self.holds.add(held_us);
        if let Some(lease_us) = lease_us.filter(|lease_us| *lease_us > 0) {
            // In thousandths.
            self.used.add(held_us.saturating_mul(10_000) / lease_us);
        }
    }

    /// Counts a release or a renewal by the connection that took the lock, or by another: one that had asked
    /// for the lock itself may have been granted it unseen, at the end of a lease.
    pub(crate) fn count_client(&mut self, is_same: bool, had_asked: bool) {
        match (is_same, had_asked) {
            (true, _) => self.by_same_client += 1,
            (false, true) => self.by_asking_client += 1,
            (false, false) => self.by_other_client += 1,
        }
    }

    /// Counts a delete that compares nothing.
    pub(crate) fn delete(&mut self, client: u32, name: u64) {
        match self.asked.remove(&(client, name)) {
            true => self.deletes_after_asking += 1,
            false => self.other_deletes += 1,
        }
    }

    /// Whether clients delete the key though they were refused: each deletes once it has asked, and more do
    /// so than can have been granted it.
    fn deletes_though_refused(&self) -> bool {
        let granted_at_most = self.attempts.saturating_sub(self.counts.refusals);
        self.deletes_after_asking >= granted_at_most + STABLE_CHANGES
            && self.other_deletes * 20 <= self.deletes_after_asking
    }

    /// Whether connections tell holders apart: no pool of connections lies between.
    pub(crate) fn is_stable(&self) -> bool {
        self.by_same_client >= STABLE_CHANGES
            && self.by_other_client == 0
            && (self.by_asking_client + self.by_refused_client) * 4 <= self.by_same_client
    }

    /// Whether plain deletes are those of a pool's connections: a holder comes back for a lock of which
    /// another deleted the key.
    pub(crate) fn deletes_by_pool(&self) -> bool {
        self.doubtful_deletes > 2 * self.confirmed_deletes + 1
    }

    /// Counts by which connection a value was tried.
    pub(crate) fn try_value(&mut self, value: u64, client: u32) {
        if self.values.len() >= VALUES_MAX && !self.values.contains_key(&value) {
            self.values.retain(|_, one| one.is_fixed());
            if self.values.len() >= VALUES_MAX {
                self.values.clear();
            }
        }
        if self.values_of_clients.len() >= CONNECTIONS_MAX {
            self.values_of_clients.clear();
        }
        let before = self.values_of_clients.insert(client, value).filter(|before| *before != value);
        if let Some(other) = before.and_then(|before| self.values.get_mut(&before)) {
            other.is_mixed = true;
        }
        let tried = self.values.entry(value).or_default();
        tried.tries += 1;
        tried.is_mixed |= before.is_some();
    }

    /// Counts by which connection a value was granted the lock.
    pub(crate) fn grant_value(&mut self, value: u64, client: u32) {
        if let Some(one) = self.values.get_mut(&value) {
            one.changes += u32::from(one.client != client && one.client != 0);
            one.client = client;
        }
    }

    /// Whether a value names its owner, as the fixed name of a node does, whichever connections it has: other
    /// fixed values come by other connections. Not, if one connection after the other was granted the lock by
    /// it, and there is no such other value; once alone that may be the same client, connected anew. `None`:
    /// nothing tells.
    pub(crate) fn names_owner(&self, value: u64) -> Option<bool> {
        let used = self.values.get(&value).filter(|used| used.is_fixed())?;
        let names = || self.values.values().filter(|one| one.is_fixed() && !one.is_mixed);
        match used.is_mixed {
            false if names().nth(1).is_some() => Some(true),
            _ => (used.changes >= 2).then_some(false),
        }
    }

    /// Whether all fixed values name owners, and there are several.
    fn has_named_owners(&self) -> bool {
        let fixed = || self.values.values().filter(|one| one.is_fixed());
        fixed().nth(1).is_some() && fixed().all(|one| !one.is_mixed)
    }

    /// Whether a connection is none of the owner's whom a value names.
    pub(crate) fn is_of_another(&self, value: u64, client: u32) -> bool {
        self.names_owner(value) == Some(true) && self.values_of_clients.get(&client) != Some(&value)
    }

    fn most(of: &BTreeMap<&'static str, u64>) -> &'static str {
        of.iter().max_by_key(|(_, count)| **count).map_or("", |(name, _)| name)
    }

    /// The library that half of the takes tell of, or more: a single value may look like another's by chance.
    fn library(&self) -> &'static str {
        let library = Self::most(&self.libraries);
        let takes: u64 = self.libraries.values().sum();
        let is_clear = self.libraries.get(library).is_some_and(|count| count * 2 >= takes);
        if is_clear { library } else { "" }
    }

    /// Whether each of several names has an address of its own: they say where services are.
    fn is_registry(&self) -> bool {
        let names = self.names.len();
        let is_paired = [self.addresses.len(), self.addresses_of_names.len()] == [names; 2];
        names >= 2 && is_paired && self.other_takes == 0
    }

    /// Whether something but the taking shows that it is a lock: its name, its library, or that it is given
    /// back or renewed by who took it, more often than a mark is whose work has failed.
    fn is_lock(&self) -> bool {
        let recipe = Self::most(&self.recipes);
        let names = self.names.len() as u64;
        let by_same_client = self.by_same_client - self.first_ends;
        let by_owner = self.checked_releases + self.counts.renewals + by_same_client;
        let grants = self.counts.grants;
        let stays = names > 4 * (self.counts.released + self.counts.expired) && self.counts.renewals == 0;
        let is_mark = self.changed_values * 10 > grants
            || (by_owner * 10 < grants || stays) && self.checked_releases == 0;
        let is_named = sounds_like_a_lock(self.name.as_bytes()) || !self.library().is_empty();
        // Tokens and sessions are made once; what is in a cache any connection deletes, and nobody waits for.
        let is_used_once = names >= 20 && grants * 10 <= names * 11 && self.counts.refusals == 0;
        let is_waited_for = self.counts.refusals * 10 >= grants
            && !["SET in a script", "hash with owner", "WATCH, MULTI"].contains(&recipe);
        let by_anybody = self.by_other_client + self.by_asking_client > by_same_client;
        let is_entry = self.checked_releases == 0 && (is_used_once || by_anybody && !is_waited_for);
        let counts = match recipe {
            "INCR, EXPIRE" => self.counts.released > 0 && self.is_stable(),
            "SETNX, EXPIRE" | "SET NX" if !is_named && self.is_registry() => false,
            // Values that are written again and again are no locks.
            "SET" => self.counts.released > 0 && self.overwritten * 10 <= grants,
            // Nor is a record whose fields are written over each other.
            "hash with owner"
                if self.overwritten * 2 > grants && (!is_named || self.checked_releases == 0) =>
            {
                false
            }
            // Nor is a window of times out of which nobody takes a time.
            "sorted set with times" if self.counts.released == 0 => is_named,
            // Nor one that each of its writers replaces.
            "WATCH, MULTI" | "SET in a script" if !is_named && self.overwritten * 2 > grants => false,
            _ => is_named || self.deletes_though_refused() || by_owner > 0 && !is_mark && !is_entry,
        };
        grants > 0 && counts && recipe != "BLPOP of a token"
    }

    fn lease_ms(&self) -> Option<u64> {
        let usual = self.leases.iter().max_by_key(|(_, count)| **count);
        usual.filter(|(_, count)| **count >= self.never_ends).map(|(lease, _)| *lease)
    }

    fn lock(&self, seconds: f64) -> WatchedLock {
        let grants = self.counts.grants;
        WatchedLock {
            pattern: self.name.clone(),
            names: self.names.len() as u64,
            recipe: Self::most(&self.recipes).to_owned(),
            library: self.library().to_owned(),
            hold_ms: self.holds.quantiles(),
            lease_ms: self.lease_ms().map(|ms| ms as f64),
            lease_used_p99: self.used.ms(0.99).map(|thousandths| thousandths / 10.0),
            wait_ms: self.waits.quantiles(),
            commands_per_grant: (grants > 0).then(|| self.commands as f64 / grants as f64),
            polls_per_s: if seconds > 0.0 { self.counts.refusals as f64 / seconds } else { 0.0 },
            clients: self.clients.len() as u64,
            ..self.counts.clone()
        }
    }

    /// Why it is not said to be a lock.
    fn doubt(&self) -> String {
        match Self::most(&self.recipes) {
            "BLPOP of a token" => "tokens of a list: a lock, or a queue",
            "INCR, EXPIRE" => "a counter with the name of a lock",
            _ if self.is_registry() => {
                "each name has an address of its own: a registry of services, or locks that nobody shares"
            }
            _ if self.counts.grants == 0 => "who had it was not decided while it was watched",
            _ if self.changed_values > 0 => "its holders write other values: a mark of how far their work is",
            _ => "taken and hardly ever given back or renewed: a lock whose work lasts longer, or a mark that something was done",
        }
        .to_owned()
    }

    /// Findings that only all of it together shows.
    fn findings(&self, seconds: f64) -> Vec<(FindingKind, WatchFinding)> {
        let mut found = Vec::new();
        let mut find = |kind: FindingKind, count, worst_ms, words: String| {
            let (pattern, first) = (self.name.clone(), vec![words]);
            found.push((kind, WatchFinding { count, worst_ms, pattern, first, ..kind.finding() }));
        };
        // In thousandths.
        let nearly = self.used.0.count_between(800, u64::MAX / 2);
        if nearly > 0 && nearly * 100 >= self.counts.released {
            let used = self.used.ms(0.99).unwrap_or_default() * 10.0;
            let words = format!("{used:.0} % of the lease used at the 99th percentile");
            find(FindingKind::LeaseNearlyUsed, nearly, None, words);
        }
        if self.counts.expired >= 3 && self.counts.released + self.shortened == 0 {
            let words = format!("{} holds ended with their lease", self.counts.expired);
            find(FindingKind::NeverReleased, self.counts.expired, None, words);
        }
        let p50 = self.holds.ms(0.5).unwrap_or(f64::MAX);
        let longest = self.holds.ms(1.0).unwrap_or_default();
        let longest = longest.max(self.longest_open_us as f64 / 1e3);
        if self.counts.grants >= 20 && longest > 10_000.0 && longest > 50.0 * p50 {
            let words = format!("half of the holds last {p50:.1} ms or less, one {longest:.0} ms");
            find(FindingKind::HeldLong, 1, Some(longest), words);
        }
        let polls_per_s = self.counts.refusals as f64 / seconds.max(1.0);
        if self.counts.refusals >= 20 * self.counts.grants.max(1) && polls_per_s > 20.0 {
            let per_grant = self.counts.refusals / self.counts.grants.max(1);
            let words = format!("{per_grant} refusals per grant, {polls_per_s:.0} per second");
            find(FindingKind::HotPolling, self.counts.refusals, None, words);
        }
        let most = self.grants_by_client.values().max().copied().unwrap_or_default();
        let clients = self.clients.len();
        let others_waited = clients >= 3 && self.waits.0.len() * 10 > self.counts.grants;
        if self.counts.grants >= 50 && others_waited && most * 10 >= self.counts.grants * 9 {
            let grants = self.counts.grants;
            let words = format!("one of {clients} connections had {most} of {grants} grants");
            find(FindingKind::Unfair, most, None, words);
        }
        let whole = self.whole_scripts;
        if whole >= 10 && whole * 2 > self.scripts {
            let words = format!("{whole} of {} calls of scripts", self.scripts);
            find(FindingKind::ScriptSentWhole, whole, None, words);
        }
        found
    }
}

/// All patterns, by number.
#[derive(Debug, Default)]
pub(crate) struct Patterns {
    numbers: HashMap<String, usize>,
    all: Vec<LockPattern>,
}

impl Patterns {
    /// The number of the pattern of a name, to which the name is added.
    pub(crate) fn number(&mut self, name: &str) -> usize {
        let pattern = pattern_of(name);
        let has_room = self.all.len() < PATTERNS_MAX || self.numbers.contains_key(&pattern);
        let pattern = if has_room { &pattern } else { "(others)" };
        let number = *self.numbers.entry_ref(pattern).or_insert_with(|| {
            self.all.push(LockPattern { name: pattern.to_owned(), ..LockPattern::default() });
            self.all.len() - 1
        });
        let names = &mut self.all[number].names;
        if names.len() < DISTINCT_MAX {
            names.insert(hash(name.as_bytes()));
        }
        number
    }

    pub(crate) fn of(&mut self, number: usize) -> &mut LockPattern {
        &mut self.all[number]
    }

    /// Locks, what may be locks, and the findings of locks alone.
    pub(crate) fn report(&self, seconds: f64, seen: Vec<SeenFinding>) -> WatchReport {
        let mut findings: Vec<(FindingKind, WatchFinding)> = Vec::new();
        let (locks, others): (Vec<_>, Vec<_>) = self.all.iter().partition(|pattern| pattern.is_lock());
        for one in seen {
            let pattern = &self.all[one.pattern];
            let holds = match one.condition {
                FindingCondition::None => true,
                FindingCondition::Connections => pattern.is_stable() && !pattern.deletes_by_pool(),
                FindingCondition::Refused => pattern.deletes_though_refused(),
                FindingCondition::Names => pattern.has_named_owners() && !pattern.deletes_by_pool(),
            };
            if !holds || !pattern.is_lock() {
                continue;
            }
            let mut known = findings.iter_mut();
            let of_same = known.find(|(kind, other)| *kind == one.kind && other.pattern == pattern.name);
            if let Some((_, known)) = of_same {
                known.count += one.found.count;
                continue;
            }
            let worst_ms = (one.worst_us > 0).then_some(one.worst_us as f64 / 1e3);
            let pattern = pattern.name.clone();
            findings.push((one.kind, WatchFinding { worst_ms, pattern, ..one.found }));
        }
        findings.extend(locks.iter().flat_map(|pattern| pattern.findings(seconds)));
        findings.sort_by(|(a, one), (b, other)| (a, &one.pattern).cmp(&(b, &other.pattern)));
        let mut report = WatchReport {
            locks: locks.iter().map(|pattern| pattern.lock(seconds)).collect(),
            findings: findings.into_iter().map(|(_, finding)| finding).collect(),
            ..WatchReport::default()
        };
        report.locks.sort_by(|a, b| (b.grants, &a.pattern).cmp(&(a.grants, &b.pattern)));
        let is_taken = |one: &&&LockPattern| one.attempts >= 2 && !one.recipes.contains_key("SET");
        let perhaps = others.iter().filter(is_taken).map(|pattern| PerhapsLock {
            pattern: pattern.name.clone(),
            names: pattern.names.len() as u64,
            recipe: LockPattern::most(&pattern.recipes).to_owned(),
            attempts: pattern.attempts,
            why: pattern.doubt(),
        });
        report.perhaps = perhaps.collect();
        report.perhaps.sort_by(|a, b| (b.attempts, &a.pattern).cmp(&(a.attempts, &b.pattern)));
        report
    }
}
