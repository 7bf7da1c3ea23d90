//! The keys and channels that go with a lock's name.

use crate::topology::slot;

/// A lock's key and what is derived from it.
#[derive(Debug)]
pub(crate) struct Names {
    /// The lock's name, which is the Redis key itself.
    pub(crate) key: String,
    /// `redisson_lock__channel:{name}`: where a release says so.
    pub(crate) channel: String,
    /// `PUBLISH`, `SPUBLISH` or `BOTH`: how a release says it.
    pub(crate) publish: &'static str,
    /// The locks that are held with it, in order; mostly none.
    others: Vec<Names>,
}

impl Names {
    fn of(name: &str, channel: String) -> Self {
        Names { key: name.to_owned(), channel, publish: "PUBLISH", others: Vec::new() }
    }

    /// Several locks as one: the first name stands for all. They must lie in one slot, none twice.
    pub(crate) fn together(mut each: Vec<Names>) -> Result<Self, String> {
        each.sort_by(|one, other| one.key.cmp(&other.key));
        for two in each.windows(2) {
            let [one, other] = [&two[0].key, &two[1].key];
            if one == other {
                return Err(format!("{one} is named twice"));
            }
            let slots = [slot(one.as_bytes()), slot(other.as_bytes())];
            if slots[0] != slots[1] {
                return Err(format!(
                    "{one} lies in slot {} and {other} in slot {}; one call reaches one slot of a cluster, so give all \
                     names the same tag, as in {{orders}}:1 and {{orders}}:2, or hold them by a multi-lock",
                    slots[0], slots[1]
                ));
            }
        }
        let mut each = each.into_iter();
        let first = each.next().ok_or("there is no lock to acquire")?;
        let others = each.collect();
        Ok(Names { others, ..first })
    }

    pub(crate) fn publish_by(self, publish: &'static str) -> Self {
        Names { publish, ..self }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Names> {
        std::iter::once(self).chain(&self.others)
    }

    /// What those who wait for exactly this have in common.
    pub(crate) fn line(&self) -> Vec<String> {
        self.all().map(|each| each.key.clone()).collect()
    }

    pub(crate) fn new(name: &str) -> Self {
        Names::of(name, companion("redisson_lock__channel", name))
    }

    /// Of a semaphore, counted or with permits that have ids.
    pub(crate) fn of_permits(name: &str) -> Self {
        Names::of(name, companion("redisson_sc", name))
    }

    /// Of both sides of a read-write lock.
    pub(crate) fn of_read_write(name: &str) -> Self {
        Names::of(name, companion("redisson_rwlock", name))
    }

    /// Of a latch that counts down. Its channel puts the name in braces also where it has some.
    pub(crate) fn of_latch(name: &str) -> Self {
        Names::of(name, format!("redisson_countdownlatch__channel__{{{name}}}"))
    }

    /// Whether its scripts can tell a lock's channel from its key: where the name has no braces.
    pub(crate) fn tells_by_rule(&self) -> bool {
        self.channel.starts_with("redisson_lock__channel:{") && !self.key.contains('{')
    }

    /// A companion key by its suffix: `{name}:suffix`.
    pub(crate) fn suffixed(&self, suffix: &str) -> String {
        let name = &self.key;
        if name.contains('{') { format!("{name}:{suffix}") } else { format!("{{{name}}}:{suffix}") }
    }

    /// A companion key with an id: `prefix:{name}:<32 hex digits>`.
    pub(crate) fn record(&self, prefix: &str, id: u128) -> Vec<u8> {
        format!("{}:{id:032x}", companion(prefix, &self.key)).into_bytes()
    }

    /// Why the companions would lie in another cluster slot than the lock, if they would.
    pub(crate) fn split_slots(&self) -> Option<String> {
        let lock = slot(self.key.as_bytes());
        // Where the channel has a rule of its own, the other companions have not.
        let others = [self.channel.clone(), companion("redisson_acquire_latch", &self.key)];
        let apart = others.into_iter().find(|other| slot(other.as_bytes()) != lock)?;
        Some(format!(
            "its braces put {apart} in slot {} and the lock itself in slot {lock}; \
             a cluster needs both in one slot, so use a name without braces",
            slot(apart.as_bytes())
        ))
    }
}

/// The name `{name}`, with which a lock's keys all lie in one slot, whatever braces the name has.
pub(crate) fn retagged(name: &str) -> String {
    // An empty tag is none.
    let colon = if name.starts_with('}') { ":" } else { "" };
    format!("{{{colon}{name}}}")
}

/// `prefix:{name}`, or `prefix:name` where the name has an opening brace: the rule of the Redisson family.
pub(crate) fn companion(prefix: &str, name: &str) -> String {
    if name.contains('{') { format!("{prefix}:{name}") } else { format!("{prefix}:{{{name}}}") }
}

#[cfg(test)]
mod tests {
    use super::retagged;

    #[test]
    fn a_name_is_put_in_braces_as_a_whole() {
        assert_eq!([retagged("a}b"), retagged("}b")], ["{a}b}", "{:}b}"]);
    }
}
