//! Whether the program of a driver is there to be started, and which one was meant where it is not.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use results::spelling::nearest_typed;

use crate::subject::SubjectError;

/// Whether a subject as typed is a command: it has a path or arguments, or is a file here or on `PATH`.
pub(crate) fn is_command(line: &str) -> bool {
    let Ok(words) = shell_words::split(line) else { return false };
    match words.as_slice() {
        [] => false,
        [word] => word.contains('/') || Path::new(word).is_file() || on_path(word),
        [first, ..] => !first.is_empty(),
    }
}

/// Says in one sentence what is wrong with the program of a command that could not be started.
pub fn check(command: &[String]) -> Result<(), SubjectError> {
    let Some(word) = command.first() else { return Ok(()) };
    let path = Path::new(word);
    let beside = fs::metadata(path);
    match &beside {
        Ok(found) if word.contains('/') && is_executable(found) => Ok(()),
        Ok(found) if found.is_dir() && word.contains('/') => bail!("{word} is a directory, no program"),
        Ok(_) if word.contains('/') => bail!(
            "{word} may not be executed: `chmod +x {word}`, or put what runs it in front, such as `python3 {word}`"
        ),
        Err(_) if word.contains('/') => {
            let dir = path.parent().map(Path::to_owned).unwrap_or_default();
            let name = path.file_name().unwrap_or_default();
            let near = nearest_program(name, std::slice::from_ref(&dir), |name| {
                dir.join(name).display().to_string()
            });
            bail!("there is no program {word}{near}")
        }
        _ if on_path(word) => Ok(()),
        Ok(found) if found.is_file() => bail!(
            "there is no program {word} on PATH; the file in this directory is started as `./{word}`, or by what runs it, such as `python3 {word}`"
        ),
        _ => {
            let near = nearest_program(OsStr::new(word), &path_dirs(), str::to_owned);
            bail!("there is no program {word} on PATH{near}")
        }
    }
}

fn is_executable(found: &Metadata) -> bool {
    found.is_file() && found.permissions().mode() & 0o111 != 0
}

fn path_dirs() -> Vec<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect()
}

fn on_path(word: &str) -> bool {
    let found = |dir: &PathBuf| fs::metadata(dir.join(word)).is_ok_and(|found| is_executable(&found));
    path_dirs().iter().any(found)
}

fn nearest_program(name: &OsStr, dirs: &[PathBuf], typed: impl Fn(&str) -> String) -> String {
    let here = |dir: &PathBuf| if dir.as_os_str().is_empty() { fs::read_dir(".") } else { fs::read_dir(dir) };
    let entries = dirs.iter().filter_map(|dir| here(dir).ok()).flatten().flatten();
    let names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    nearest_typed(&name.to_string_lossy(), names.iter().map(String::as_str), typed)
}
