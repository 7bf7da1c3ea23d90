//! Files of histories of either form: whole, cut and damaged.

use std::fs;
use std::path::PathBuf;

use results::history::History;
use results::history_file::{COMPRESSED_FILE, FRAME_BYTES, PLAIN_MAX_BYTES, compress_above, of_dir, read};
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
