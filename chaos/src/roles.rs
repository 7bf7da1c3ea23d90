//! Says which part of a lock's work a message is (acquire, release, extend, wait, renewal), with no knowledge
//! of the lock's commands.
//!
//! A command belongs to an operation that its client has in flight on a lock which the command names: some
//! word after the first contains the lock's name. Where a client holds a lock whose lease is renewed, a
//! command may be a renewal too. While only one of these is possible, the command is that, and its *shape*
//! (its name, the script, how many words it has, which key) is learned for it. While several are possible,
//! the shape decides if at least three of four of its clear commands were one of them. A shape that was never
//! clear, because another task of the client always asks for the lock meanwhile, is decided by exclusion: a
//! role is not its own that was clear ten times, always with other shapes, and one must remain that was
//! possible in three of four of at least three commands. Else the command has no role, and is counted as
//! unclear.
//!
//! An acquire *waits* from its second try on, which is a command that it has sent to that server before, and
//! while it subscribes or blocks at the server. A message that is pushed to a client, and names a lock for
//! which the client waits, belongs to `wait`. Where messages are pushed, they are the news for a waiter, and
//! the replies to its own commands are not; else the replies are.
//!
//! A command that names no lock has no role, with one exception: `WAIT`, `WAITAOF` and `EXEC` are of the role
//! of the command before them on their connection, which they complete.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use cluster_config::{Label, MessagePassage, MessageWords};
use results::history::{Call, End, Entry, Event};

/// The roles, as scenario files name them. The first four are learned by shape.
pub(crate) const ROLES: &[&str] = &["acquire", "release", "extend", "renewal", "wait"];
const ACQUIRE: usize = 0;
const RELEASE: usize = 1;
const EXTEND: usize = 2;
const RENEWAL: usize = 3;
const WAIT: Label = Some(ROLES[4]);

/// So many clear commands show every shape of a role that is not rare.
const CLEAR_ENOUGH: u32 = 10;
/// So many commands of a shape show when it comes.
const SEEN_ENOUGH: u32 = 3;

/// More shapes than any lock has; one that puts a number into each key must not fill the memory.
const SHAPES_MOST: usize = 10_000;

/// What is in flight and held, and what was learned of the lock's commands.
#[derive(Debug, Default)]
pub struct Roles {
    /// By their numbers in the history.
    in_flight: BTreeMap<u64, Operation>,
    /// The oldest grant first.
    held: Vec<Hold>,
    /// By the hash of the shape.
    learned: HashMap<u64, Shape>,
    /// How often a command was clear, by role.
    clear: [u32; 4],
    last: HashMap<u64, (Label, Label)>,
    /// Whether clients hear of this lock by pushed messages.
    pushes: bool,
    unclear: u64,
}

/// How often commands of a shape were seen.
#[derive(Debug, Default)]
struct Shape {
    seen: u32,
    possible: [u32; 4],
    /// While only this role was possible.
    clear: [u32; 4],
}

#[derive(Debug)]
struct Operation {
    role: usize,
    client: String,
    locks: Vec<String>,
    renewed: bool,
    /// What an acquire has sent: hashes of whole commands and of their shapes, with the server.
    sent: HashSet<u64>,
}

#[derive(Debug)]
struct Hold {
    grant: String,
    client: String,
    locks: Vec<String>,
    renewed: bool,
    lost: bool,
}

impl Roles {
    /// The client whose grant is the oldest that was neither released nor lost.
    pub fn holder(&self) -> Option<&str> {
        self.held.iter().find(|hold| !hold.lost).map(|hold| hold.client.as_str())
    }

    /// How many commands named a lock and could have been of several roles.
    pub fn unclear(&self) -> u64 {
        self.unclear
    }

    /// Takes note of an entry, which is in the history before what it says is done.
    pub fn follow(&mut self, entry: &Entry) {
        match entry {
            Entry::Call { id, call } => self.call(*id, call),
            Entry::End { id, end } => {
                if let (Some(done), End::Ok { grant: Some(grant), .. }) = (self.in_flight.remove(id), end) {
                    self.held.push(Hold {
                        grant: grant.clone(),
                        client: done.client,
                        locks: done.locks,
                        renewed: done.renewed,
                        lost: false,
                    });
                }
            }
            Entry::Event(Event::Lost { grant, .. }) => {
                self.held.iter_mut().filter(|hold| hold.grant == *grant).for_each(|hold| hold.lost = true);
            }
            Entry::Event(Event::Crash { client }) => {
                self.held.retain(|hold| hold.client != *client);
                self.in_flight.retain(|_, one| one.client != *client);
            }
            _ => {}
        }
    }

    fn call(&mut self, id: u64, call: &Call) {
        let (role, client, locks, renewed) = match call {
            Call::Acquire(asked) => {
                let locks = asked.lock.iter().chain(asked.locks.iter().flatten()).cloned().collect();
                let renewed = asked.lease_ms.is_none();
                (ACQUIRE, asked.client.clone(), locks, renewed)
            }
            // Its renewals are reported after they were sent.
            Call::Extend { by: Some(_), .. } => return,
            Call::Release { grant } | Call::Extend { grant, .. } => {
                let Some(at) = self.held.iter().position(|hold| hold.grant == *grant) else { return };
                let hold = &self.held[at];
                let (client, locks) = (hold.client.clone(), hold.locks.clone());
                match call {
                    Call::Release { .. } => {
                        self.held.remove(at);
                        (RELEASE, client, locks, false)
                    }
                    _ => (EXTEND, client, locks, false),
                }
            }
            _ => return,
        };
        let operation = Operation { role, client, locks, renewed, sent: HashSet::new() };
        self.in_flight.insert(id, operation);
    }

    /// The label of a command, and that of its reply.
    pub fn command(&mut self, passage: MessagePassage<'_>, words: &MessageWords) -> (Label, Label) {
        if ["WAIT", "WAITAOF", "EXEC"].iter().any(|name| is(words, name)) {
            return self.last.get(&passage.connection).copied().unwrap_or_default();
        }
        let labels = self.role(passage, words);
        self.last.insert(passage.connection, labels);
        labels
    }

    fn role(&mut self, passage: MessagePassage<'_>, words: &MessageWords) -> (Label, Label) {
        let client = format!("c{}", passage.client);
        let mut lock = None;
        let mut possible = [false; 4];
        let in_flight = self.in_flight.values();
        let in_flight = in_flight.map(|one| (one.role, &one.client, &one.locks));
        let renewed = self.held.iter().filter(|hold| hold.renewed && !hold.lost);
        let renewed = renewed.map(|hold| (RENEWAL, &hold.client, &hold.locks));
        for (role, of, locks) in in_flight.chain(renewed) {
            if *of == client
                && let Some(named) = locks.iter().find(|lock| names(words, lock))
            {
                possible[role] = true;
                lock = Some(named.clone());
            }
        }
        let Some(lock) = lock else { return (None, None) };
        let name = words.get(0).unwrap_or_default().to_ascii_uppercase();
        let subscribes = name.ends_with(b"SUBSCRIBE");
        self.pushes |= subscribes;
        // To leave a channel is nobody's work any more.
        if subscribes && (!possible[ACQUIRE] || name.windows(2).any(|two| two == b"UN")) {
            return (None, None);
        }
        if subscribes || (possible[ACQUIRE] && blocks(&name)) {
            return self.waits();
        }
        let shape = shape(words, &lock);
        let Some(role) = self.learn(shape, possible) else {
            self.unclear += 1;
            return (None, None);
        };
        if role == ACQUIRE && self.again(&client, passage.node, &lock, shape, words) {
            return self.waits();
        }
        (Some(ROLES[role]), Some(ROLES[role]))
    }

    /// Which of the possible roles a command of this shape has, as far as that is clear by now.
    fn learn(&mut self, shape: u64, possible: [bool; 4]) -> Option<usize> {
        let count = |counts: &mut [u32; 4]| {
            counts.iter_mut().zip(possible).for_each(|(count, is)| *count += u32::from(is));
        };
        let is_clear = possible.iter().filter(|is| **is).count() == 1;
        if self.learned.len() >= SHAPES_MOST && !self.learned.contains_key(&shape) {
            self.learned.clear();
        }
        let known = self.learned.entry(shape).or_default();
        known.seen += 1;
        count(&mut known.possible);
        if is_clear {
            count(&mut known.clear);
            count(&mut self.clear);
            return possible.iter().position(|is| *is);
        }
        let mostly = |count: u32, of: u32| count * 4 >= of * 3;
        let all: u32 = known.clear.iter().sum();
        let fits = |role: &usize| match all {
            0 => {
                self.clear[*role] < CLEAR_ENOUGH
                    && known.seen >= SEEN_ENOUGH
                    && mostly(known.possible[*role], known.seen)
            }
            all => mostly(known.clear[*role], all),
        };
        let mut fitting = (0..possible.len()).filter(|role| possible[*role] && fits(role));
        fitting.next().filter(|_| fitting.next().is_none())
    }

    fn waits(&self) -> (Label, Label) {
        (WAIT, WAIT.filter(|_| !self.pushes))
    }

    /// Whether this command of an acquire was sent to that server before. Of several acquires nobody knows
    /// whose it is, but the whole command tells them apart: it names the owner, or the value, of its acquire.
    fn again(&mut self, client: &str, node: &str, lock: &String, shape: u64, words: &MessageWords) -> bool {
        let hashes = [
            hash(|hasher| words.iter().for_each(|word| word.hash(hasher)), node),
            hash(|hasher| shape.hash(hasher), node),
        ];
        let acquires = self
            .in_flight
            .values_mut()
            .filter(|one| one.role == ACQUIRE && one.client == client && one.locks.contains(lock));
        let mut acquires: Vec<&mut Operation> = acquires.collect();
        let alone = acquires.len() == 1;
        let mut again = false;
        for acquire in &mut acquires {
            again |= !acquire.sent.insert(hashes[0]);
            again |= alone && !acquire.sent.insert(hashes[1]);
        }
        again
    }

    /// The label of a message that a server pushes to a client.
    pub fn push(&mut self, passage: MessagePassage<'_>, words: &MessageWords) -> Label {
        let client = format!("c{}", passage.client);
        let mut in_flight = self.in_flight.values();
        let waited_for = in_flight.any(|one| {
            one.role == ACQUIRE && one.client == client && one.locks.iter().any(|lock| names(words, lock))
        });
        self.pushes |= waited_for;
        WAIT.filter(|_| waited_for)
    }
}

fn is(words: &MessageWords, name: &str) -> bool {
    words.get(0).is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()))
}

/// The commands of Redis that wait at the server until something is there.
fn blocks(name: &[u8]) -> bool {
    const BLOCKING: &str = "BLPOP BRPOP BLMOVE BRPOPLPUSH BLMPOP BZPOPMIN BZPOPMAX BZMPOP XREAD XREADGROUP";
    BLOCKING.split(' ').any(|blocking| blocking.as_bytes() == name)
}

/// Whether a word after the first contains a lock's name.
fn names(words: &MessageWords, lock: &str) -> bool {
    words.iter().skip(1).any(|word| place(word, lock).is_some())
}

/// Where a word contains a lock's name; a number in it goes on: `orders-1` is not in `orders-12`.
fn place(word: &[u8], lock: &str) -> Option<usize> {
    let lock = lock.as_bytes();
    let digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    let starts = (0..=word.len().checked_sub(lock.len())?).filter(|at| word[*at..].starts_with(lock));
    let mut whole = starts.filter(|at| {
        let before = at.checked_sub(1).and_then(|before| word.get(before));
        let cut_before = digit(lock.first()) && digit(before);
        let cut_after = digit(lock.last()) && digit(word.get(at + lock.len()));
        !cut_before && !cut_after
    });
    whole.next()
}

/// What commands of one purpose have in common: all but values and the lock's own name.
fn shape(words: &MessageWords, lock: &str) -> u64 {
    let name = words.get(0).unwrap_or_default().to_ascii_uppercase();
    let is_script = name.starts_with(b"EVAL") || name.starts_with(b"FCALL");
    let mut hasher = DefaultHasher::new();
    words.get(usize::from(is_script)).hash(&mut hasher);
    words.count().hash(&mut hasher);
    let key = words.iter().skip(1).find_map(|word| {
        let at = place(word, lock)?;
        Some((&word[..at], &word[at + lock.len()..]))
    });
    key.hash(&mut hasher);
    name.hash(&mut hasher);
    hasher.finish()
}

fn hash(what: impl Fn(&mut DefaultHasher), node: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    node.hash(&mut hasher);
    what(&mut hasher);
    hasher.finish()
}
