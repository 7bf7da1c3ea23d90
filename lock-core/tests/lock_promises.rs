//! Turns the table of promises (`README.md` beside this file) into a check that every test it names exists.

use std::{collections::BTreeMap, fs, path::Path};

#[test]
fn every_test_that_is_named_exists_and_every_file_of_tests_is_named() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let table = fs::read_to_string(folder.join("README.md")).expect("the table");
    let mut files = BTreeMap::new();
    for file in fs::read_dir(&folder).expect("this folder") {
        let path = file.expect("a file").path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path
                .file_stem()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            files.insert(name, fs::read_to_string(&path).expect("text"));
        }
    }
    let mut named = 0;
    for name in table.split('`').skip(1).step_by(2) {
        let Some((file, test)) = name.split_once("::") else {
            continue;
        };
        // `Kind::ALL` is no test.
        if !file.starts_with(char::is_lowercase) {
            continue;
        }
        let text = files
            .get(file)
            .unwrap_or_else(|| panic!("{name}: there is no file {file}.rs"));
        let test = format!("fn {test}()");
        let at = text
            .find(&test)
            .unwrap_or_else(|| panic!("{name}: there is no {test}"));
        let before = &text[..at];
        let attribute = before.rfind("#[").unwrap_or(0);
        let attribute = &before[attribute..];
        assert!(
            attribute.starts_with("#[test]") || attribute.starts_with("#[tokio::test"),
            "{name} is no test"
        );
        named += 1;
    }
    assert!(
        named > 60,
        "{named} tests are named: the table was not read"
    );
    for file in files.keys().filter(|file| *file != "lock_promises") {
        assert!(
            table.contains(&format!("`{file}")),
            "no promise names {file}.rs"
        );
    }
}
