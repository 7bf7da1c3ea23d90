//! Checks the tables of promises (`README.md` beside this file, and `FAULTS.md` of the crate): every test
//! that they name exists.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// The files of tests, by name.
fn files() -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for file in fs::read_dir(folder()).expect("this folder") {
        let path = file.expect("a file").path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            files.insert(name, fs::read_to_string(&path).expect("text"));
        }
    }
    files
}

/// Adds the file of another crate's tests, whose path is from this crate.
fn insert(files: &mut BTreeMap<String, String>, name: &str, path: &str) {
    let path = folder().join("..").join(format!("{path}.rs"));
    let text = fs::read_to_string(path).expect("the file of a test");
    files.insert(name.to_owned(), text);
}

fn must_exist(files: &BTreeMap<String, String>, file: &str, test: &str) {
    let text = files.get(file).unwrap_or_else(|| panic!("{file}::{test}: there is no file {file}.rs"));
    let at =
        text.find(&format!("fn {test}()")).unwrap_or_else(|| panic!("{file}::{test}: there is no {test}"));
    let before = &text[..at];
    let attribute = before.rfind("#[").unwrap_or(0);
    let attribute = &before[attribute..];
    assert!(
        attribute.starts_with("#[test]") || attribute.starts_with("#[tokio::test"),
        "{file}::{test} is no test"
    );
}

#[test]
fn every_test_that_is_named_exists_and_every_file_of_tests_is_named() {
    let table = fs::read_to_string(folder().join("README.md")).expect("the table");
    let own = files();
    let mut files = own.clone();
    let mut named = 0;
    for name in table.split('`').skip(1).step_by(2) {
        let Some((file, test)) = name.split_once("::") else {
            continue;
        };
        // `Kind::ALL` is no test.
        if file.starts_with(char::is_lowercase) {
            if let Some((other, elsewhere)) = file.split_once('/') {
                insert(&mut files, file, &format!("../{other}/tests/{elsewhere}"));
            }
            must_exist(&files, file, test);
            named += 1;
        }
    }
    assert!(named > 60, "{named} tests are named: the table was not read");
    for file in own.keys().filter(|file| *file != "lock_promises") {
        assert!(table.contains(&format!("`{file}")), "no promise names {file}.rs");
    }
}

/// Links as `(tests/file.rs "name of the test")`; what needs a tool of another crate is tested there.
#[test]
fn every_cell_of_the_table_of_faults_leads_to_its_test() {
    let table = fs::read_to_string(folder().join("../FAULTS.md")).expect("the table");
    let mut files = files();
    let mut linked = 0;
    for link in table.split("](").skip(1) {
        let (link, _) = link.split_once(')').expect("a link ends");
        let Some((file, title)) = link.split_once(".rs \"") else {
            continue;
        };
        let file = match file.strip_prefix("tests/") {
            Some(file) => file,
            None => {
                insert(&mut files, file, file);
                file
            }
        };
        must_exist(&files, file, title.trim_end_matches('"'));
        linked += 1;
    }
    assert!(linked > 60, "{linked} cells are linked: the table was not read");
}
