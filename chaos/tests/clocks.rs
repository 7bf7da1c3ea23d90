//! Histories that are cut into parts, each on a clock of its own, and put together again: the verdicts are
//! those of the whole, and what lies closer together than the clocks are known is neither violated nor clean.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bench::parts::clock::Reference;
use chaos::checkers::{CheckOptions, CheckReport, Reader, Record, judge};
use chaos::shim::{Shims, Skew};
use cluster_config::{Process, Provisioner, Topology, TopologyKind, UpOptions};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use results::history::{Acquire, Call, End, Entry, Event, History, Line};
use results::history_parts::{Parts, PartsError};
use results::verdict::State;

const MS: u64 = 1_000_000;
/// When the reference's clock began.
const EPOCH_NS: u64 = 1_800_000_000_000_000_000;

fn judged(record: Record) -> CheckReport {
    let options = CheckOptions {
        floors: None,
        // Leases end where no other moment is near.
        drift: 0.0,
        ..CheckOptions::default()
    };
    judge(record, &options)
}

/// State and count of each verdict.
fn verdicts(report: &CheckReport) -> Vec<(String, State, u64)> {
    let all = report.verdicts.iter();
    all.map(|(class, verdict)| (class.to_owned(), verdict.state, verdict.count)).collect()
}

fn put_together(files: &[PathBuf], declared_ns: Option<u64>) -> CheckReport {
    let parts = Parts::open(files, declared_ns).unwrap_or_else(|error| panic!("{error}"));
    let mut reader = Reader::default();
    let mut last_ns = 0;
    let warnings = parts.read(|line| {
        assert!(line.t_ns >= last_ns, "in order of time");
        last_ns = line.t_ns;
        reader.line(&line);
    });
    let torn = !warnings.expect("files that can be read").is_empty();
    judged(reader.finish(torn, &BTreeMap::new()))
}

fn write(path: &Path, lines: &[Line]) {
    let text: String = lines.iter().map(|line| line.to_json() + "\n").collect();
    std::fs::write(path, text).expect("a file");
}

fn acquire(client: &str, lock: &str, kind: &str, lease_ms: u64) -> Call {
    Call::Acquire(Acquire {
        client: client.to_owned(),
        owner: "t0".to_owned(),
        lock: Some(lock.to_owned()),
        kind: kind.to_owned(),
        lease_ms: Some(lease_ms),
        wait_ms: Some(60_000),
        ..Acquire::default()
    })
}

fn granted(grant: &str, token: Option<u64>) -> End {
    End::Ok {
        grant: Some(grant.to_owned()),
        token,
        sent_ns: None,
        returned_ns: None,
        lease_ms: None,
        at: None,
    }
}

/// A history of some clients whose moments are 5 ms apart at least, in order of time: of each line its client
/// and its moment.
fn random(rng: &mut ChaCha8Rng) -> Vec<(usize, Line)> {
    let clients = rng.random_range(2..=5_usize);
    let writes = rng.random_bool(0.5);
    let mut slots: Vec<u64> = (20..400).collect();
    slots.shuffle(rng);
    let mut lines = Vec::new();
    let mut counter = 0;
    for client in 0..clients {
        let name = format!("c{}", client + 1);
        let cycles = rng.random_range(1..=4_usize);
        let mut times = slots.split_off(slots.len() - 5 * cycles);
        times.sort_unstable();
        for (cycle, t) in times.chunks(5).enumerate() {
            let id = (cycle as u64) * 2 + 1;
            let grant = format!("g{cycle}");
            let kind = ["exclusive", "reentrant", "read", "write"][rng.random_range(0..4)];
            let lock = ["a", "b"][rng.random_range(0..2)];
            let lease_ms = 5 * rng.random_range(1..80) + 2;
            let token = (writes && rng.random_bool(0.3)).then(|| rng.random_range(1..40));
            counter += 1;
            let call = acquire(&name, lock, kind, lease_ms);
            let entries = [
                Entry::Call { id, call },
                Entry::End { id, end: granted(&grant, token) },
                Entry::Event(Event::Write {
                    lock: lock.to_owned(),
                    grant: grant.clone(),
                    token,
                    accepted: true,
                    read: Some(rng.random_range(0..counter)),
                    wrote: Some(counter),
                }),
                Entry::Call { id: id + 1, call: Call::Release { grant } },
                Entry::End { id: id + 1, end: End::done() },
            ];
            for (slot, entry) in t.iter().zip(entries) {
                let t_ns = slot * 5 * MS;
                if writes || !matches!(entry, Entry::Event(_)) {
                    lines.push((client, Line { t_ns, entry }));
                }
            }
        }
    }
    lines.sort_by_key(|(_, line)| line.t_ns);
    lines
}

/// A clock: so far ahead, and so many millionths too fast.
#[derive(Clone, Copy)]
struct Local {
    ahead_ns: u64,
    drift: i128,
}

impl Local {
    fn shows(self, true_ns: u64) -> u64 {
        let fast = i128::from(true_ns) * self.drift / 1_000_000;
        u64::try_from(i128::from(true_ns + self.ahead_ns) + fast).expect("after its beginning")
    }

    /// A reading with a way there and a way back of unlike lengths.
    fn reading(self, true_ns: u64, rng: &mut ChaCha8Rng) -> Line {
        let mut way = || rng.random_range(50_000..400_000);
        let (there_ns, back_ns) = (way(), way());
        let answered_ns = self.shows(true_ns + there_ns + back_ns);
        Line {
            t_ns: answered_ns,
            entry: Entry::Event(Event::Clock {
                reference_ns: Some(EPOCH_NS + true_ns + there_ns),
                round_trip_ns: answered_ns - self.shows(true_ns),
                clients: Vec::new(),
                uncertainty_ns: None,
            }),
        }
    }
}

/// The whole as one recorder would have written it: names and numbers of operations told apart.
fn whole(lines: &[(usize, Line)]) -> History {
    let lines = lines.iter().map(|(client, line)| {
        let mut line = line.clone();
        let named = |grant: &mut String| grant.push_str(&format!("-{client}"));
        match &mut line.entry {
            Entry::Call { id, call } => {
                *id = *id * 10 + *client as u64;
                if let Call::Release { grant } = call {
                    named(grant);
                }
            }
            Entry::End { id, end } => {
                *id = *id * 10 + *client as u64;
                if let End::Ok { grant: Some(grant), .. } = end {
                    named(grant);
                }
            }
            Entry::Event(Event::Write { grant, .. }) => named(grant),
            _ => {}
        }
        line
    });
    History::from_lines(lines.collect())
}

#[test]
fn histories_that_were_cut_into_parts_are_judged_as_the_whole() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut seen = BTreeMap::new();
    for seed in 0..400 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let lines = random(&mut rng);
        let expected = judged(Record::of(&whole(&lines)));
        let clients = lines.iter().map(|(client, _)| client + 1).max().unwrap_or(1);
        let of = rng.random_range(1..=clients);
        let mut files = Vec::new();
        for part in 0..of {
            let clock = Local {
                ahead_ns: rng.random_range(0..10_000 * MS),
                drift: rng.random_range(-20_000..20_000),
            };
            let mine = lines.iter().filter(|(client, _)| client % of == part);
            let mut own: Vec<Line> = mine
                .map(|(client, line)| {
                    // Within a part operations and grants have names of their own.
                    let one = whole(&[(*client, line.clone())]).lines.remove(0);
                    Line { t_ns: clock.shows(line.t_ns), ..one }
                })
                .collect();
            own.extend((0..22).map(|n| clock.reading(n * 100 * MS, &mut rng)));
            own.sort_by_key(|line| line.t_ns);
            let file = dir.path().join(format!("{seed}-{part}.jsonl"));
            write(&file, &own);
            files.push(file);
        }
        let found = put_together(&files, None);
        assert_eq!(verdicts(&found), verdicts(&expected), "seed {seed}, {of} parts");
        for (class, state, _) in verdicts(&expected) {
            *seen.entry((class, state.word())).or_insert(0) += 1;
        }
    }
    for class in ["belief", "contract", "confirmed", "effect"] {
        for state in ["clean", "violated"] {
            let count = seen.get(&(class.to_owned(), state));
            assert!(count > Some(&20), "{class} {state}: {seen:?}");
        }
    }
}

/// Two holds of two parts on clocks that are known to 2 ms each: the second begins so long after the end of
/// the first (before it: negative).
fn two_holds(apart_ms: i64, declared_ms: u64) -> CheckReport {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let begins_ms = |client: u64| match client {
        0 => 100,
        _ => u64::try_from(200 + apart_ms).expect("positive"),
    };
    let files = [0, 1].map(|client: u64| {
        let from_ms = begins_ms(client);
        let asks_ms = (from_ms - 50).min(150);
        let grant = "g".to_owned();
        let call = acquire(&format!("c{client}"), "a", "exclusive", 60_000);
        let line = |ms: u64, entry| Line { t_ns: ms * MS, entry };
        let lines = [
            line(asks_ms, Entry::Call { id: 1, call }),
            line(from_ms, Entry::End { id: 1, end: granted("g", None) }),
            line(from_ms + 100, Entry::Call { id: 2, call: Call::Release { grant } }),
            line(from_ms + 101, Entry::End { id: 2, end: End::done() }),
        ];
        let file = dir.path().join(format!("{client}.jsonl"));
        write(&file, &lines);
        file
    });
    put_together(&files, Some(declared_ms * MS))
}

#[test]
fn what_is_closer_than_the_clocks_are_known_is_unknown_both_ways() {
    let belief = |apart_ms, declared_ms| two_holds(apart_ms, declared_ms).verdicts.belief;
    let found = belief(-10, 2);
    assert_eq!((found.state, found.worst_ns), (State::Violated, 10 * MS));
    for (apart_ms, why) in [(-3, "an overlap"), (0, "a touch"), (3, "a gap")] {
        let unsure = belief(apart_ms, 2);
        assert_eq!(unsure.state, State::Unknown, "{why} below 2 + 2 ms");
        assert!(unsure.why[0].starts_with("1 pairs of holds"), "{:?}", unsure.why);
    }
    assert_eq!(belief(5, 2).state, State::Clean, "a gap of more than 4 ms");
    assert_eq!(belief(-3, 1).state, State::Violated);
}

/// Of one part holds with the tokens 7 and 9, the last granted 1 ms before another part asks and gets
/// `token`; the clocks are known to 2 ms each.
fn tokens_of_two_parts(token: u64) -> CheckReport {
    let dir = tempfile::tempdir().expect("a temporary directory");
    // Asked, granted and released at, and the token.
    let cycles = [vec![(10, 20, 30, 7), (40, 100, 110, 9)], vec![(101, 120, 130, token)]];
    let files = cycles.iter().enumerate().map(|(client, cycles)| {
        let lines = cycles.iter().zip(1..).flat_map(|((asked, granted_at, released, token), cycle)| {
            let (id, grant) = (cycle * 2, format!("g{cycle}"));
            let call = acquire(&format!("c{client}"), "a", "fenced", 60_000);
            let end = granted(&grant, Some(*token));
            [
                (*asked, Entry::Call { id, call }),
                (*granted_at, Entry::End { id, end }),
                (*released, Entry::Call { id: id + 1, call: Call::Release { grant } }),
                (*released + 1, Entry::End { id: id + 1, end: End::done() }),
            ]
        });
        let line = |(ms, entry)| Line { t_ns: ms * MS, entry };
        let file = dir.path().join(format!("{client}.jsonl"));
        write(&file, &Vec::from_iter(lines.map(line)));
        file
    });
    put_together(&Vec::from_iter(files), Some(2 * MS))
}

#[test]
fn a_token_that_is_too_close_in_time_hides_no_lower_one_that_surely_came_before() {
    for (token, state) in [(6, State::Violated), (8, State::Unknown), (10, State::Clean)] {
        let effect = tokens_of_two_parts(token).verdicts.effect;
        assert_eq!(effect.state, state, "{token}: {effect:?}");
    }
}

#[test]
fn a_lock_that_stood_still_is_convicted_only_for_longer_than_the_clocks_are_known() {
    // Asked for and free for a millisecond less; the grace is 1.5 s, and both ends are off.
    for (free_ms, declared_ms, state) in [
        (2_000, 2, State::Violated),
        (2_000, 200, State::Violated),
        (2_000, 300, State::Unknown),
        (1_400, 2, State::Clean),
        (1_400, 100, State::Unknown),
        (100, 700, State::Clean),
        (100, 750, State::Unknown),
    ] {
        let found = two_holds(free_ms, declared_ms).verdicts.liveness;
        assert_eq!(found.state, state, "{free_ms} ms on clocks known to {declared_ms} ms: {:?}", found.why);
    }
}

#[test]
fn parts_that_do_not_fit_together_are_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let file = |name: &str, client: &str, read: bool, rng: &mut ChaCha8Rng| {
        let clock = Local { ahead_ns: 7, drift: 0 };
        let call = acquire(client, "a", "exclusive", 100);
        let entry = Entry::Call { id: 1, call };
        let mut lines = vec![Line { t_ns: 10 * MS, entry }];
        lines.extend(read.then(|| clock.reading(20 * MS, rng)));
        let file = dir.path().join(name);
        write(&file, &lines);
        file
    };
    let a = file("a", "c1", true, &mut rng);
    let b = file("b", "c1", true, &mut rng);
    let c = file("c", "c2", false, &mut rng);
    let d = file("d", "c3", false, &mut rng);
    let twice = Parts::open(&[a.clone(), b], None);
    assert!(matches!(twice, Err(PartsError::Twice { .. })), "{twice:?}");
    let one = Parts::open(&[a, c.clone()], Some(MS));
    assert!(matches!(one, Err(PartsError::NoClock { .. })), "{one:?}");
    let none = Parts::open(&[c.clone(), d.clone()], None);
    assert!(matches!(none, Err(PartsError::NoClock { .. })), "{none:?}");
    Parts::open(&[c, d], Some(MS)).expect("declared");
}

/// Says to a part that it is one: the reference, and the file to write.
const CHILD: &str = "LOCKLAB_CLOCK_CHILD";

/// A recorder in a process whose wall clock is wrong.
struct Recorder {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Recorder {
    fn start(shims: &Shims, name: &str, url: &str, file: &Path) -> Recorder {
        let mut command = Command::new(std::env::current_exe().expect("a test is a file"));
        command.args(["a_recorder_on_a_wrong_clock", "--exact", "--nocapture"]);
        command.envs(shims.env(name));
        command.env(CHILD, format!("{url} {}", file.display()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let to = child.stdin.take().expect("a pipe");
        let from = BufReader::new(child.stdout.take().expect("a pipe"));
        Recorder { child, to, from }
    }

    /// Has a line written down now; it is when this returns.
    fn write(&mut self, entry: Entry) {
        let line = Line { t_ns: 0, entry };
        writeln!(self.to, "{}", line.to_json()).expect("it listens");
        let mut said = String::new();
        while !said.contains("written") {
            said.clear();
            assert!(self.from.read_line(&mut said).expect("text") > 0, "it lives");
        }
    }

    fn end(mut self) {
        drop(self.to);
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.from, &mut rest).expect("text");
        assert!(self.child.wait().expect("it ends").success(), "{rest}");
    }
}

fn wall_ns() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    u64::try_from(now.expect("after 1970").as_nanos()).expect("before 2500")
}

/// The recorder: only in a process of [`Recorder`]; elsewhere there is nothing to do.
#[test]
fn a_recorder_on_a_wrong_clock() {
    let Ok(asked) = std::env::var(CHILD) else {
        return;
    };
    let (url, file) = asked.split_once(' ').expect("two words");
    let lines: Arc<Mutex<Vec<Line>>> = Arc::default();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let reference = Reference::of(url).expect("a URL");
    let read = lines.clone();
    runtime.spawn(async move {
        loop {
            let asked = reference.ask(wall_ns).await.expect("an answer");
            let clock = Event::Clock {
                reference_ns: Some(asked.reference_ns),
                round_trip_ns: asked.answered - asked.sent,
                clients: Vec::new(),
                uncertainty_ns: None,
            };
            read.lock().expect("no panic").push(Line { t_ns: asked.answered, entry: Entry::Event(clock) });
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    for line in std::io::stdin().lines() {
        let entry = Line::parse(&line.expect("text")).expect("a line").entry;
        let t_ns = wall_ns();
        lines.lock().expect("no panic").push(Line { t_ns, entry });
        writeln!(std::io::stdout(), "written").expect("a pipe");
    }
    let mut lines = lines.lock().expect("no panic").clone();
    lines.sort_by_key(|line| line.t_ns);
    write(Path::new(file), &lines);
}

/// Two recorders write down a hold each; the second begins so long before the end of the first, or after it.
fn recorded(recorders: &mut [Recorder; 2], id: u64, overlap: bool) {
    let hold = Duration::from_millis(300);
    let mut act = |who: usize, entry: Entry| recorders[who].write(entry);
    let lock = format!("l{id}");
    let grant = |who| format!("g{id}-{who}");
    let call = |who: usize| Entry::Call { id, call: acquire(&format!("c{who}"), &lock, "exclusive", 60_000) };
    let ok = |who| Entry::End { id, end: granted(&grant(who), None) };
    let release = |who| Entry::Call { id: id + 1, call: Call::Release { grant: grant(who) } };
    let over = |_| Entry::End { id: id + 1, end: End::done() };
    act(0, call(0));
    act(0, ok(0));
    act(1, call(1));
    std::thread::sleep(hold);
    if overlap {
        act(1, ok(1));
        // The true overlap: no less than this.
        std::thread::sleep(Duration::from_millis(10));
    }
    act(0, release(0));
    act(0, over(0));
    if !overlap {
        std::thread::sleep(Duration::from_millis(30));
        act(1, ok(1));
    }
    std::thread::sleep(hold);
    act(1, release(1));
    act(1, over(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn recorders_whose_clocks_are_seconds_apart_and_drift_are_brought_together() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let topology = Topology::of(TopologyKind::Single);
    let servers =
        Process.up(&topology, &UpOptions::new(dir.path().join("servers"))).await.expect("redis-server");
    let url = servers.url();
    let shims = Shims::new(["c0".to_owned(), "c1".to_owned()]).expect("files in memory");
    for (name, offset_ms, drift_ppb) in [("c0", 7_000, 20_000_000), ("c1", -3_000, -10_000_000)] {
        let skew = Skew { offset_ns: offset_ms * MS as i64, drift_ppb };
        shims.page(name).expect("a page").set_skew(skew).expect("a page");
    }
    let files = ["c0", "c1"].map(|name| dir.path().join(name));
    let mut recorders = [0, 1].map(|who| Recorder::start(&shims, &format!("c{who}"), &url, &files[who]));
    std::thread::sleep(Duration::from_secs(1));
    recorded(&mut recorders, 1, false);
    recorded(&mut recorders, 3, true);
    std::thread::sleep(Duration::from_secs(1));
    recorders.into_iter().for_each(Recorder::end);
    for name in ["c0", "c1"] {
        let reads = shims.page(name).expect("a page").skewed_reads();
        assert!(reads.expect("a page") > 50, "{name} saw a wrong clock");
    }
    let as_they_stand = put_together(&without_clocks(&files), Some(0));
    assert_eq!(as_they_stand.locks["l3"].belief.state, State::Clean, "ten seconds apart nothing meets");
    let found = put_together(&files, None);
    assert_eq!(found.locks["l1"].belief.state, State::Clean, "{:?}", found.locks["l1"].belief.why);
    let overlap = &found.locks["l3"].belief;
    assert_eq!(overlap.state, State::Violated, "{:?}", overlap.why);
    // More only by what the machine let us wait.
    assert!((8 * MS..200 * MS).contains(&overlap.worst_ns), "{}", overlap.worst_ns);
    let at_least_2_ms = put_together(&files, Some(2 * MS));
    assert_eq!(at_least_2_ms.locks["l3"].belief.state, State::Violated);
    let unsure = put_together(&files, Some(500 * MS));
    for lock in ["l1", "l3"] {
        assert_eq!(unsure.locks[lock].belief.state, State::Unknown, "{lock}");
    }
    servers.down().await.expect("in order");
}

/// The same files without what they say of their clocks.
fn without_clocks(files: &[PathBuf]) -> Vec<PathBuf> {
    let mut bare = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(file).expect("a history");
        let lines: Vec<&str> = text.lines().filter(|line| !line.contains("\"clock\"")).collect();
        let path = file.with_extension("bare");
        std::fs::write(&path, lines.join("\n") + "\n").expect("a file");
        bare.push(path);
    }
    bare
}
