//! Locks that are held together, several as one and several in one call, against a small model: random sets,
//! single locks on the same names between them, and locks that vanish. Models with a fault must be told from
//! the server.

mod support;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use lock_core::{
    Acquire, Client, ClientOptions, ErrorKind, Guard, Kind, Lease, LockError, MultiGuard, MultiLock,
    Released, Wait,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use support::{PATIENCE, Server};

const NAMES: [&str; 4] = ["{t}:a", "{t}:b", "{t}:c", "{t}:d"];
const SEEDS: u64 = 12;
const STEPS: usize = 40;

/// What a model gets wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// Of a set that is not all free it takes what is free.
    TakesWhatIsFree,
    /// A set is kept out by other sets only, not by single locks.
    OverlooksSingles,
    /// The release of a set of which one is gone leaves the others.
    LeavesTheRest,
    /// The release of a set of which one is gone is said to be whole.
    SaysItWasWhole,
}

/// A hold of the library's.
enum Hold {
    One(Guard),
    Several(MultiGuard),
}

impl Hold {
    async fn release(self) -> Result<Released, LockError> {
        match self {
            Hold::One(guard) => guard.release().await,
            Hold::Several(guard) => guard.release().await,
        }
    }
}

/// A way to hold names.
#[derive(Debug, Clone, Copy)]
enum Way {
    Single,
    Several,
    OneCall,
}

async fn take(client: &Client, way: Way, names: &[&str]) -> Result<Hold, LockError> {
    let lease = Lease::Fixed(Duration::from_secs(600));
    let how = Acquire::default().wait(Wait::Try).lease(lease);
    let lock = |name: &&str| client.lock(Kind::Reentrant, name).expect("a good name");
    match way {
        Way::Single => Ok(Hold::One(lock(&names[0]).acquire_with(how).await?)),
        Way::Several => {
            let whole = MultiLock::new(names.iter().map(lock)).expect("good names");
            Ok(Hold::Several(whole.acquire_with(how).await?))
        }
        Way::OneCall => {
            let whole = client.all_of(names).expect("one slot");
            Ok(Hold::One(whole.acquire_with(how).await?))
        }
    }
}

/// The first thing in which the model and the server differ.
async fn differs(server: &Server, clients: &[Client], seed: u64, fault: Fault) -> Option<String> {
    server.ok(&["FLUSHALL"]);
    let mut dice = StdRng::seed_from_u64(seed);
    // Whose each name is, and of each hold its names and whether it is a single one.
    let mut owners: BTreeMap<&str, usize> = BTreeMap::new();
    let mut holds: BTreeMap<usize, (Hold, Vec<&str>)> = BTreeMap::new();
    let mut singles: BTreeMap<&str, usize> = BTreeMap::new();
    for step in 0..STEPS {
        let said = match dice.random_range(0..10) {
            0..5 => {
                let way = [Way::Single, Way::Several, Way::OneCall][dice.random_range(0..3)];
                let mut names: Vec<&str> = NAMES.to_vec();
                names.retain(|_| dice.random_bool(0.5));
                if names.is_empty() {
                    names.push(NAMES[dice.random_range(0..NAMES.len())]);
                }
                if matches!(way, Way::Single) {
                    names.truncate(1);
                }
                let client = &clients[dice.random_range(0..clients.len())];
                let taken = take(client, way, &names).await;
                let in_the_way = |name: &&&str| match owners.get(**name) {
                    Some(owner) if fault == Fault::OverlooksSingles => {
                        singles.get(**name) != Some(owner) || matches!(way, Way::Single)
                    }
                    owner => owner.is_some(),
                };
                let free = names.iter().filter(in_the_way).count() == 0;
                let expected = free || fault == Fault::TakesWhatIsFree && names.len() > 1;
                if expected {
                    for name in &names {
                        owners.entry(name).or_insert(step);
                    }
                    if matches!(way, Way::Single) {
                        singles.insert(names[0], step);
                    }
                }
                match taken {
                    Ok(hold) => {
                        holds.insert(step, (hold, names));
                        expected.then_some(())
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
                        (!expected).then_some(())
                    }
                }
            }
            5..9 => {
                let Some(&which) = holds.keys().nth(dice.random_range(0..3)) else {
                    continue;
                };
                let (hold, names) = holds.remove(&which).expect("listed");
                let released = hold.release().await;
                let whole = names.iter().all(|name| owners.get(name) == Some(&which));
                if whole || fault != Fault::LeavesTheRest {
                    owners.retain(|_, owner| *owner != which);
                }
                let expected = whole || fault == Fault::SaysItWasWhole;
                match released {
                    Ok(released) => {
                        assert_eq!(released, Released::Freed);
                        expected.then_some(())
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
                        (!expected).then_some(())
                    }
                }
            }
            _ => {
                let name = NAMES[dice.random_range(0..NAMES.len())];
                server.ok(&["DEL", name]);
                owners.remove(name);
                Some(())
            }
        };
        if said.is_none() {
            return Some(format!("seed {seed}, step {step}: the answer"));
        }
        // What a try took before it met another's is given back a moment later.
        let patience = if fault == Fault::None { PATIENCE } else { Duration::from_millis(200) };
        let until = Instant::now() + patience;
        while let Some(name) = NAMES.iter().find(|name| {
            let there = server.ok(&["EXISTS", name]) == "1";
            there != owners.contains_key(**name)
        }) {
            if Instant::now() > until {
                return Some(format!("seed {seed}, step {step}: {name}"));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    for (hold, _) in holds.into_values() {
        let _ = hold.release().await;
    }
    None
}

async fn clients(server: &Server) -> Vec<Client> {
    let target = server.url().parse().expect("a good URL");
    let mut clients = Vec::new();
    for _ in 0..3 {
        let client = Client::connect(&target, ClientOptions::default()).await;
        clients.push(client.expect("it answers"));
    }
    clients
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sets_do_what_a_small_model_does() {
    let server = Server::start(&[]);
    let clients = clients(&server).await;
    for seed in 0..SEEDS {
        assert_eq!(differs(&server, &clients, seed, Fault::None).await, None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_with_a_fault_is_told_from_the_server() {
    let server = Server::start(&[]);
    let clients = clients(&server).await;
    for fault in
        [Fault::TakesWhatIsFree, Fault::OverlooksSingles, Fault::LeavesTheRest, Fault::SaysItWasWhole]
    {
        let mut told = None;
        for seed in 0..SEEDS {
            told = told.or(differs(&server, &clients, seed, fault).await);
        }
        assert!(told.is_some(), "{fault:?} was not noticed");
    }
}
