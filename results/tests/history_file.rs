//! Files of histories of either form: written, whole, cut and damaged, and the clocks of their parts.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use results::history::{Entry, Event, History};
use results::history_file::{COMPRESSED_FILE, FRAME_BYTES, PLAIN_MAX_BYTES, compress_above, of_dir, read};
use results::history_parts::{Clock, Reading};
use results::history_writer::HistoryWriter;
use results::store::HISTORY_FILE;

/// A history of so many turns.
fn turns(count: u64) -> String {
    let mut text = String::new();
    for n in 0..count {
        let (call, end) = (2 * n, 2 * n + 1);
        text.push_str(&format!(
            "{{\"t_ns\":{call},\"id\":{n},\"client\":\"c1\",\"owner\":\"t{}\",\"op\":\"acquire\",\"lock\":\"l\",\"kind\":\"plain\",\
             \"lease_ms\":3000,\"wait_ms\":500}}\n{{\"t_ns\":{end},\"id\":{n},\"end\":\"ok\",\"grant\":\"g{n}\"}}\n",
            n % 7
        ));
    }
    text
}

/// A directory with a plain history of more than one frame in it, its path, and its text.
fn large() -> (tempfile::TempDir, PathBuf, String) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join(HISTORY_FILE);
    let text = turns(FRAME_BYTES as u64 / 150);
    assert!(text.len() > FRAME_BYTES && text.len() < 2 * FRAME_BYTES);
    fs::write(&path, &text).expect("a file");
    (directory, path, text)
}

#[test]
fn a_large_history_is_kept_compressed_and_reads_the_same() {
    let (directory, path, text) = large();
    assert_eq!(of_dir(directory.path()), Some(path.clone()));
    let kept = compress_above(&path, 1_000).expect("compressed");
    assert_eq!(kept, directory.path().join(COMPRESSED_FILE));
    assert!(!path.exists());
    assert_eq!(of_dir(directory.path()), Some(kept.clone()));
    let length = fs::metadata(&kept).expect("a file").len();
    assert!(length < text.len() as u64 / 4, "{length} of {}", text.len());
    let read = read(&kept).expect("a good file");
    assert_eq!(read.warning, None);
    assert_eq!(read.history, History::parse(&text).expect("a good text"));
    assert_eq!(fs::read_dir(directory.path()).expect("list").count(), 1);
}

#[test]
fn a_small_history_stays_plain() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join(HISTORY_FILE);
    fs::write(&path, turns(3)).expect("a file");
    assert_eq!(compress_above(&path, PLAIN_MAX_BYTES).expect("nothing to do"), path);
    assert_eq!(read(&path).expect("good").history.lines.len(), 6);
}

#[test]
fn of_a_cut_file_the_whole_frames_are_left() {
    let (_directory, path, text) = large();
    let kept = compress_above(&path, 0).expect("compressed");
    let bytes = fs::read(&kept).expect("read");
    fs::write(&kept, &bytes[..bytes.len() - 9]).expect("cut");
    let cut = read(&kept).expect("a frame is whole");
    let warning = cut.warning.expect("a warning");
    assert!(warning.contains(COMPRESSED_FILE) && warning.contains("cut off"), "{warning}");
    assert!(cut.history.torn);
    let all = History::parse(&text).expect("good").lines;
    let whole = text[..FRAME_BYTES].lines().count() - 1;
    assert!(cut.history.lines.len() >= whole && cut.history.lines.len() < all.len());
    assert_eq!(cut.history.lines, all[..cut.history.lines.len()]);

    fs::write(&kept, &bytes[..20]).expect("cut");
    let error = read(&kept).expect_err("no line is whole").to_string();
    assert!(error.contains(COMPRESSED_FILE) && error.contains("before the first whole line"), "{error}");
}

#[test]
fn a_damaged_file_is_an_error_that_names_it() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join(HISTORY_FILE);
    fs::write(&path, turns(300)).expect("a file");
    let kept = compress_above(&path, 0).expect("compressed");
    let good = fs::read(&kept).expect("read");
    // Every place in turn, head and checksum included: what is read is the truth or nothing.
    let truth = read(&kept).expect("good").history.lines;
    let step = good.len() / 40;
    for at in (0..good.len()).step_by(step).chain([good.len() - 1]) {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        fs::write(&kept, &bad).expect("damaged");
        match read(&kept) {
            // A bit that means nothing, such as a spare one of a frame's head, changes nothing.
            Ok(read) => assert!(
                truth.starts_with(&read.history.lines)
                    && (read.warning.is_some() || truth == read.history.lines),
                "byte {at}"
            ),
            Err(error) => assert!(error.to_string().contains(COMPRESSED_FILE), "{error}"),
        }
    }
}

#[test]
fn bytes_between_frames_that_are_not_ours_are_passed_over() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join(HISTORY_FILE);
    fs::write(&path, turns(3)).expect("a file");
    let kept = compress_above(&path, 0).expect("compressed");
    let mut bytes = fs::read(&kept).expect("read");
    bytes.extend([0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3]);
    fs::write(&kept, &bytes).expect("written");
    assert_eq!(read(&kept).expect("good").history.lines.len(), 6);
}

#[test]
fn a_plain_file_under_a_compressed_name_is_read_as_what_it_is() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join(COMPRESSED_FILE);
    fs::write(&path, turns(1)).expect("a file");
    assert_eq!(read(&path).expect("plain text").history.lines.len(), 2);
    fs::write(&path, "{}").expect("a file");
    let error = read(&path).expect_err("no history").to_string();
    assert!(error.contains(COMPRESSED_FILE), "{error}");
    fs::write(&path, "x").expect("a file");
    assert!(read(&path).is_err());
}

fn crash(client: String) -> Entry {
    Entry::Event(Event::Crash { client })
}

const MS: u64 = 1_000_000;
const EPOCH: i128 = 1_800_000_000_000_000_000;

/// A clock that runs `drift` ppm too fast, read each 100 ms over `trip_ns` there and as much back.
fn readings(from_ms: u64, to_ms: u64, drift: i128, trip_ns: u64) -> Vec<Reading> {
    let reading = |ms: u64| Reading {
        at_ns: ms * MS + trip_ns,
        reference_ns: u64::try_from(truth(ms * MS, drift)).expect("after the epoch"),
        round_trip_ns: 2 * trip_ns,
    };
    (from_ms..to_ms).step_by(100).map(reading).collect()
}

fn truth(t_ns: u64, drift: i128) -> i128 {
    EPOCH + i128::from(t_ns) * 1_000_000 / (1_000_000 + drift)
}

#[test]
fn a_clock_that_drifts_is_known_to_half_a_round_trip() {
    let clock = Clock::of(&readings(0, 10_000, 20_000, 200_000), 0);
    for t_ns in (0..9_500).map(|ms| ms * MS) {
        let (moment, off) = clock.at(t_ns);
        let wrong = (moment - truth(t_ns, 20_000)).unsigned_abs();
        assert!(wrong <= u128::from(off), "{wrong} beyond {off}");
        assert!(off < 250_000, "{off} ns at {t_ns}");
    }
    let (_, far) = clock.at(60_000 * MS);
    assert!(far > 40 * MS, "nobody read it for 50 s: {far}");
    assert_eq!(Clock::of(&readings(0, 900, 0, 10), 5 * MS).at(7).1, 5 * MS, "as declared");
}

#[test]
fn a_clock_that_was_stepped_is_unknown_where_it_was() {
    let mut all = readings(0, 5_000, 0, 100_000);
    let mut later = readings(5_000, 10_000, 0, 100_000);
    later.iter_mut().for_each(|reading| reading.reference_ns += 3_000 * MS);
    all.extend(later);
    let clock = Clock::of(&all, 0);
    assert!(clock.at(2_000 * MS).1 < MS && clock.at(8_000 * MS).1 < MS);
    let around = (4_500..5_500).step_by(10).map(|ms| clock.at(ms * MS).1).max();
    assert!(around > Some(2_000 * MS), "{around:?}");
}

#[test]
fn a_slow_answer_beside_quick_ones_changes_nothing() {
    let mut all = readings(0, 5_000, 0, 100_000);
    let slow = Reading {
        at_ns: all[22].at_ns + 400 * MS / 10,
        reference_ns: all[22].reference_ns + 11 * MS,
        round_trip_ns: 80 * MS,
    };
    all.insert(23, slow);
    assert_eq!(Clock::of(&all, 0), Clock::of(&readings(0, 5_000, 0, 100_000), 0));
}

#[test]
fn many_threads_make_one_file_in_order() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("history.jsonl");
    let writer = HistoryWriter::create(&path).expect("a new file");
    let clock = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (writer, clock) = (&writer, &clock);
            scope.spawn(move || {
                for n in 0..250 {
                    let entry = crash(format!("c{thread}-{n}"));
                    let now = || clock.fetch_add(1, Ordering::Relaxed);
                    writer.append_with(now, |_| entry).expect("an entry");
                }
            });
        }
    });
    assert_eq!(writer.lines(), 2_000);
    let text = std::fs::read_to_string(&path).expect("the file");
    let history = History::parse(&text).expect("a good history");
    assert_eq!(history.lines.len(), 2_000);
    assert!(!history.torn);
    let stamps: Vec<u64> = history.lines.iter().map(|line| line.t_ns).collect();
    assert_eq!(stamps, (0..2_000).collect::<Vec<_>>());
}

#[test]
fn a_line_can_be_read_before_the_file_is_finished() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("history.jsonl");
    let writer = HistoryWriter::create(&path).expect("a new file");
    let append = |t_ns| writer.append_with(|| t_ns, |_| crash("c1".to_owned()));
    append(7).expect("an entry");
    let text = std::fs::read_to_string(&path).expect("the file");
    let whole = text.ends_with("}\n");
    assert!(whole && text.contains("\"t_ns\":7"), "{text}");
    assert_eq!(append(3).expect("an entry"), 7);
}

#[test]
fn a_file_that_is_there_is_not_overwritten() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("history.jsonl");
    std::fs::write(&path, "precious\n").expect("a file");
    let error = HistoryWriter::create(&path).expect_err("the name is taken");
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
}
