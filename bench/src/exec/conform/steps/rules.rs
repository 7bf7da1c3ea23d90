//! What each step asks of a driver, and what to fix where it is not kept.

/// What a step asks.
#[derive(Clone, Copy)]
pub(super) struct Rule {
    pub(super) name: &'static str,
    /// The heading of its paragraph in `docs/src/driver-protocol.md`.
    pub(super) paragraph: &'static str,
    /// Whether another client is to be kept from a lock in it.
    pub(super) excludes: bool,
    /// Whether it is about a lease.
    pub(super) is_of_leases: bool,
    /// Whether it asks for what the lock promises, and not how a driver says so.
    pub(super) is_promise: bool,
    pub(super) asks: &'static str,
    pub(super) remedy: &'static str,
}

/// The rules of all steps, in their order.
pub(super) fn rules() -> Vec<Rule> {
    let lines: Vec<&str> = STEPS.trim().lines().collect();
    let rule = |lines: &[&'static str]| {
        let (name, about) = lines[0].split_once(": ").expect("a name, and where the protocol says it");
        let mut about = about.split(' ');
        let paragraph = about.next().unwrap_or_default();
        let [excludes, is_of_leases, is_promise] =
            ["exclusion", "lease", "promise"].map(|word| about.clone().any(|said| said == word));
        Rule { name, paragraph, excludes, is_of_leases, is_promise, asks: lines[1], remedy: lines[2] }
    };
    lines.chunks_exact(3).map(rule).collect()
}

/// For each step: its name, where the protocol says it, what it is about; what a driver has to do; a remedy.
const STEPS: &str = r#"
hello: hello
answers hello with its protocol, its library's name, version and language, at least one kind, and known topologies if it lists any; fields that it does not know are ignored
answer {"id":0,"ok":{"protocol":1,"name":…,"version":…,"language":…,"kinds":[…],"features":[…]}} and flush standard output after each line; banners and logs belong on standard error
version: versions
answers a hello of a version that it does not speak with `failed`, or with the version that it does speak
compare `protocol` with 1; answer `failed`, or `ok` with "protocol":1, and stay alive
acquire: acquire
grants a free lock, with a name for the grant; token, age and stamps are numbers where they are given, and no stamp lies before the request or after its answer
answer {"id":…,"ok":{"grant":"…"}}; a token is a whole number from 0 to 2^63-1, age_ms the milliseconds since the attempt that succeeded was sent, sent_mono_ns and returned_mono_ns nanoseconds by CLOCK_MONOTONIC of this machine
held: held
says what the library believes of a grant that it has
answer {"id":…,"ok":{"held":true}} while the grant is held
busy: endings exclusion promise
answers `busy` at once when another client has the lock and `wait_ms` is 0
one try with wait_ms 0, and `busy` if the library says that another has it (`unknown` with the feature open_busy)
wait: acquire exclusion promise
waits for `wait_ms`, not much less and not much longer, before it says `busy`; gets the lock when it is released meanwhile, and that is not when the holder's own `wait_ms` has passed
hand wait_ms to the library as the longest wait, in milliseconds, which ends neither the lock nor its release
endless wait: acquire exclusion promise
waits for as long as another has the lock where `wait_ms` is null, and has it then
wait without a bound where wait_ms is null, also for a lock that is renewed; `failed` if the library has no such wait
hand-off: acquire exclusion promise
a waiter gets a lock that is released in the moment when it begins to wait
listen for the release before the last look at the lock, and look again from time to time
extend: extend exclusion lease promise
extends a lease that it has: the lock outlives the lease that it was acquired with, and ends with the one that it was extended to
extend to lease_ms from now on, and answer `ok` only when the server has done it
release: release promise
releases the lock, and answers `not_held` to a second release of the same grant (`ok` with the feature release_blind)
release by the grant's own value, forget it, and answer `not_held` for what is not held; list release_blind if the library cannot tell
tokens: kinds promise
gives each grant of a fenced lock a token that is greater than all before it
hand on the token that the library got from the server with the grant, or do not call the kind `fenced`
unknown grant: endings
answers `not_held` or `failed` to a grant that it never gave
look the grant up, and do not end when it is not there
unknown kind: kinds
answers `failed` to a kind that it does not list
compare `kind` with the list of hello
owners: kinds promise
grants a re-entrant kind again to the same owner, with a new grant whose release leaves the first one as it was, and to nobody else in the same client; a plain kind to nobody (unless the features list reentrant), a fenced kind as the library does
use `owner` as the identity of the caller (a thread's, a task's), and give each re-entry a grant of its own
many locks: acquire exclusion promise
frees those locks of an owner with many that it releases, and no others
keep what is known of a hold by its lock and its grant, not by its owner alone
reading in writing: kinds promise
the release of what a writer reads ends its reading, and leaves its writing alone
release the hold that the grant names, at the server too
readers: kinds promise
grants a lock to each of the readers that wait for its writer as soon as that one releases it
wake every reader when a writer releases, and ask the server for each
concurrency: lines exclusion
answers one request while another one waits for a lock
give each request a thread or a task of its own
many at once: lines promise
grants twenty free locks that are asked for at once, each with a grant of its own
guard what requests share, above all standard output: a line is written whole
several names: kinds promise
has each of the `locks` of a `multi` until it is released, and refuses what names one of them
lock every name in `locks`, and release every one
cancel: cancel exclusion promise
gives up a request that waits for a lock when its caller cancels it, and answers both
end the call as your language does it (a task, a signal, a context, an interrupt), answer the cancel with `ok`, and the request with what became of it
owner moves: release promise
frees the lock when another owner of the same client releases the grant
let the grant be released by whom `owner` of the release names, or take `owner_moves` out of the features
block: block
lets nothing of the library run for as long as it is asked to, and says for how long that was
block the event loop or each thread of the pool that the library works on, or take `block` out of the features
expiry: acquire exclusion lease promise
a lock that is neither extended nor released is free after its lease, and not before
hand lease_ms to the library as the lease, in milliseconds, with no renewal of its own when lease_ms is a number
lease after a wait: acquire exclusion lease promise
gives a waiter its whole lease from the grant on, also if it has waited for longer than that
count the lease from the attempt that succeeded, not from the first one
late extend: extend exclusion lease promise
answers `not_held` to an extend after the lease has lapsed and another client has the lock
extend only where the value at the server is the grant's own, in one atomic step
late release: release exclusion lease promise
a release after the lease has lapsed does not take the lock from the client that has it now; afterwards its own client gets it again
delete only where the value at the server is the grant's own, in one atomic step, and answer `not_held` otherwise; list release_blind if the library cannot tell
notice: events lease promise
says `lost` of no lock that it has; with the feature lost, says it when a lease ends that it does not renew
print {"event":"lost","grant":…} when the library tells its caller that the lock is gone and at no other time, or take `lost` out of the features
renewal: acquire exclusion lease promise
a renewed lock is held from its grant on, also after a short lease on the same name, until one and a half of the leases that it says it renews; what has a lease of its own afterwards is not renewed
let something renew the lock for as long as it is held and no longer, and answer as `watchdog_ms` the lease that is really renewed
loss: events exclusion lease promise
a renewed lock outlives its lease, and when the servers lose it the driver says so: `lost`, or `not_held` to an extend
print {"event":"lost","grant":…} when the library finds the lock gone, and do not create it anew
kill: acquire lease promise
the lock of a killed client is free after its lease
let the server keep the lease; nothing of a lock may depend on an orderly end
lost key: release exclusion promise
answers `ok` to no release of a lock that another client was granted since one of its keys was deleted, also not to that of a re-entry
ask the server in each release whether the lock is its owner's still, whatever the count of the owner's entries is
stopped waiter: acquire exclusion promise
grants a lock that is released to a client that waits for it, also if that was stopped for a while and taken for dead
line up anew when a waiter finds that its place is gone
master away: release promise
with one of several masters away, grants a lock and says `ok` to its release
count the masters that did it: an error of fewer than half is no error of the call
late entry: acquire exclusion lease promise
lets no holder take the lock from the next one by entering again when its own lease ends
compare the owner and write the new count in one atomic step
renewed in turn: acquire exclusion lease promise
renews a lock that an owner was granted before the answer to the release of another owner of its client had come
keep what renews by the grant, and end it with the release of that grant alone
drawn calls: acquire exclusion lease promise
in whatever order it is called: grants what is free, also where several ask at once, and nothing that another has; extends and releases what is held, and nothing else
find the last call of those that are listed: its answer contradicts the ones before it
load: load
runs a closed loop by itself and gives cycles and histograms, or answers `failed` if the features do not list load
take `load` out of the features and answer `failed` if the driver does not offer it; else cycles, failed, unknown, elapsed_ns and per_task, and histograms as base64
malformed input: what-goes-wrong
prints nothing but protocol when a line is no request: it ends with an error on standard error, or goes on
catch what the JSON parser throws; exit, or skip the line
bye: bye
answers `bye` and exits with code 0
answer {"id":…,"ok":{}}, flush, and exit with 0
end of input: bye
exits with code 0 when its standard input ends
leave the loop at the end of the input, also while threads wait
lines: lines
in all of this it printed whole lines of JSON, each id once, with one ending
one line per answer, with the request's own id and one of ok, busy, not_held, failed, unknown
"#;
