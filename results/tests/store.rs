//! Runs on the disk: created, written, listed, found again, and damaged in every way that a file can be.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;

use proptest::prelude::*;
use results::limits;
use results::run::{Meta, Outcome, Run};
use results::store::{self, RunDir, RunStore, StoreError};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

fn run(started_at: &str) -> Run {
    let meta = Meta { started_at: started_at.to_owned(), ..Meta::default() };
    Run::new("runs/x", "chaos", meta)
}

fn kept(store: &RunStore, name: &str, started_at: &str) -> RunDir {
    let directory = store.create("2026-11-21", "host", name).expect("a directory");
    directory.save(&run(started_at)).expect("a file");
    directory
}

#[test]
fn a_failed_write_leaves_the_old_file() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("taken");
    fs::create_dir(&path).expect("a directory in the way");
    assert!(store::write_whole(&path, b"new").is_err());
    assert!(path.is_dir());
    assert_eq!(fs::read_dir(directory.path()).expect("list").count(), 1);
}

#[test]
fn a_taken_name_gets_a_number() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let store = RunStore::new(root.path().join("runs"));
    let names: Vec<String> = (0..3)
        .map(|_| store.create("2026-11-21", "my host", "../quick start").expect("a directory"))
        .map(|dir| dir.path().file_name().unwrap_or_default().to_string_lossy().into_owned())
        .collect();
    assert_eq!(
        names,
        [
            "2026-11-21-my-host-quick-start",
            "2026-11-21-my-host-quick-start-2",
            "2026-11-21-my-host-quick-start-3"
        ]
    );
}

#[test]
fn the_latest_is_the_one_that_started_last_not_the_one_written_last() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let store = RunStore::new(root.path());
    let newest = kept(&store, "b", "2026-11-21T10:00:00.5Z");
    kept(&store, "a", "2026-11-21T09:00:00Z");
    kept(&store, "c", "2026-11-21T10:30:00+02:00");
    assert_eq!(store.latest().expect("a run"), newest.path());
    let names: Vec<String> = store.list().expect("a list").into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["2026-11-21-host-b", "2026-11-21-host-a", "2026-11-21-host-c"]);
}

#[test]
fn a_damaged_run_is_listed_and_hides_no_other() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let store = RunStore::new(root.path());
    kept(&store, "good", "2026-11-21T10:00:00Z");
    let bad = kept(&store, "bad", "2026-11-21T11:00:00Z");
    fs::write(bad.path().join("run.json"), "{\"schema\":1,").expect("a write");
    fs::create_dir(root.path().join("no-run")).expect("a directory");
    let list = store.list().expect("a list");
    assert_eq!(list.len(), 2);
    let bad = list.iter().find(|entry| entry.name.ends_with("bad")).expect("listed");
    assert!(bad.outcome.as_ref().is_err_and(|why| why.contains("run.json:1:")), "{bad:?}");
    let good = list.iter().find(|entry| entry.name.ends_with("good")).expect("listed");
    assert_eq!(good.outcome, Ok(Outcome::None));
}

#[test]
fn a_run_is_found_by_directory_by_file_and_by_name() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let store = RunStore::new(root.path());
    let directory = kept(&store, "a", "2026-11-21T10:00:00Z");
    let path = directory.path().to_str().expect("UTF-8").to_owned();
    for words in
        [path.clone(), format!("{path}/run.json"), "2026-11-21-host-a".to_owned(), "latest".to_owned()]
    {
        let run = store.load(&words).expect("the run");
        assert_eq!(run.meta.started_at, "2026-11-21T10:00:00Z", "{words}");
    }
}

#[test]
fn what_is_no_run_is_said_to_be_none() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let store = RunStore::new(root.path());
    assert!(matches!(store.load("latest"), Err(StoreError::Empty(_))));
    kept(&store, "quickstart", "2026-11-21T10:00:00Z");
    fs::create_dir(root.path().join("plain")).expect("a directory");
    assert!(matches!(store.load("plain"), Err(StoreError::NotARun(_))));
    assert!(matches!(store.load(""), Err(StoreError::NoSuchRun { .. })));
    let message = store.load("2026-11-21-host-quickstrat").expect_err("no such run").to_string();
    assert!(message.contains("did you mean '2026-11-21-host-quickstart'?"), "{message}");
}

#[test]
fn a_given_directory_is_taken_as_it_is_but_never_twice() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let path = root.path().join("deep/own");
    let directory = RunDir::at(&path).expect("a directory");
    directory.save(&run("")).expect("a file");
    directory.save_summary("all well\n").expect("a file");
    directory.save_report("<!doctype html>").expect("a file");
    assert!(matches!(RunDir::at(&path), Err(StoreError::Occupied(_))));
    let mut names: Vec<_> =
        fs::read_dir(&path).expect("a list").flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    assert_eq!(names, ["report.html", "run.json", "summary.txt"]);
    assert_eq!(RunDir::open(&path).expect("a run").path(), path);
}

#[test]
fn saving_again_replaces_the_whole_file() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let directory = RunDir::at(root.path().join("r")).expect("a directory");
    let mut long = run("");
    long.partial = true;
    long.warnings = vec!["w".repeat(10_000)];
    directory.save(&long).expect("a file");
    let short = run("2026-11-21T10:00:00Z");
    directory.save(&short).expect("a file");
    assert_eq!(store::load_dir(directory.path()).expect("a run"), short);
}

#[test]
fn a_later_form_is_refused_by_its_number_even_if_all_else_is_new() {
    let error = store::parse(Path::new("runs/x/run.json"), b"{\"schema\":7,\"everything\":\"new\"}");
    let message = error.expect_err("schema 7").to_string();
    assert_eq!(message, "runs/x/run.json has schema 7, and this version reads up to 1: use a newer locklab");
}

#[test]
fn damage_is_named_by_file_place_and_field() {
    let text =
        "{\n \"schema\": 1,\n \"run\": \"r\", \"command\": \"chaos\",\n \"meta\": {\"started_at\": 5}\n}";
    let message = store::parse(Path::new("run.json"), text.as_bytes()).expect_err("5 is no text").to_string();
    assert_eq!(
        message,
        "run.json:4:25: field `meta.started_at`: invalid type: integer `5`, expected a string"
    );
    let message =
        store::parse(Path::new("run.json"), b"{\"schema\":1,\n\"\xff").expect_err("not UTF-8").to_string();
    assert_eq!(message, "run.json:2:2: not UTF-8");
}

#[test]
fn a_field_of_a_later_version_is_no_obstacle() {
    let mut value = serde_json::to_value(run("2026-11-21T10:00:00Z")).expect("a value");
    value["added_later"] = serde_json::json!({"x": 1});
    let bytes = serde_json::to_vec(&value).expect("bytes");
    assert!(store::parse(Path::new("run.json"), &bytes).is_ok());
}

fn whole() -> Vec<u8> {
    fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/quickstart.run.json")).expect("the fixture")
}

proptest! {
    #[test]
    fn a_torn_file_is_an_error_with_a_place(cut in 0.0..1.0_f64) {
        let bytes = whole();
        let length = (bytes.trim_ascii_end().len() as f64 * cut) as usize;
        let error = store::parse(Path::new("run.json"), &bytes[..length]);
        let placed = matches!(error, Err(StoreError::Damaged { line: 1.., column: 1.., .. }));
        prop_assert!(placed);
    }

    #[test]
    fn a_changed_byte_is_read_or_refused_but_no_panic(at in 0.0..1.0_f64, byte: u8) {
        let mut bytes = whole();
        let index = (bytes.len() as f64 * at) as usize;
        bytes[index] = byte;
        let _ = store::parse(Path::new("run.json"), &bytes).map_err(|error| error.to_string());
    }

    #[test]
    fn any_bytes_at_all_are_no_panic(bytes: Vec<u8>) {
        let _ = store::parse(Path::new("run.json"), &bytes).map_err(|error| error.to_string());
    }
}

/// With `LOCKLAB_BLESS=1` in the environment the file is written instead.
#[test]
fn the_schema_of_a_run_is_as_kept() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("run.schema.json");
    let schema = store::schema();
    if std::env::var_os("LOCKLAB_BLESS").is_some() {
        fs::write(&path, &schema).expect("the schema is written");
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == schema,
        "{} is not current; set LOCKLAB_BLESS=1 and look at the difference",
        path.display()
    );
    let parsed: serde_json::Value = serde_json::from_str(&schema).expect("json");
    for field in ["schema", "rows", "scenarios", "meta"] {
        assert!(parsed["properties"][field].is_object(), "{field}");
    }
}

#[test]
fn a_byte_that_is_no_text_is_told_its_place() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("x.toml");
    fs::write(&path, b"name = \"x\"\nabout = \"\xc3\xa9\xff\"\n").expect("a file");
    let error = limits::read_text(&path).expect_err("a byte is no text");
    assert!(error.starts_with(&format!("{}:2:11: the byte 0xff", path.display())), "{error}");
}

#[test]
fn what_never_ends_is_refused_with_the_limit() {
    let error = limits::read(Path::new("/dev/zero")).expect_err("it has no end");
    assert!(error.to_string().contains("64 MB"), "{error}");
    let endless = File::open("/dev/zero").expect("a device");
    let error = limits::read_line(&mut BufReader::new(endless), &mut Vec::new()).expect_err("it has no line");
    assert!(error.to_string().contains("16 MB"), "{error}");
}

#[test]
fn a_small_file_that_becomes_a_long_line_is_refused() {
    let line = vec![b'a'; usize::try_from(limits::LINE).expect("it is small") + 1];
    let small = compress_to_vec(line.as_slice(), CompressionLevel::Fastest);
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), small).expect("written");
    let error = results::history_file::read_lines(file.path(), |_| {});
    let error = error.expect_err("the line is too long").to_string();
    assert!(error.contains("16 MB"), "{error}");
}

#[test]
fn of_a_long_file_the_end_is_read() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), "x".repeat(5_000) + "end").expect("written");
    assert_eq!(limits::tail(file.path(), 4).expect("read"), b"xend");
    assert_eq!(limits::tail(file.path(), 9_000).expect("read").len(), 5_003);
}
