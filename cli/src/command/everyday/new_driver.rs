//! `locklab new-driver`: a driver of 60 to 100 lines, on the SDK of its language, in a new directory.

use std::{io, path::Path};

use clap::Args;
use results::spelling::nearest;
use serde_json::json;

use crate::{exit, terminal::Terminal};

#[derive(Debug, Args)]
#[command(after_help = help())]
pub(crate) struct Options {
    /// The language of your lock library
    #[arg(value_parser = Language::find)]
    language: &'static Language,
    /// The new directory, and what the driver calls your lock: letters, digits, `-` and `_`
    #[arg(value_parser = driver_name)]
    name: String,
}

/// What the templates call their lock; your name takes its place in every file but the SDK's own.
const PLACEHOLDER: &str = "set-nx-px";
const NAME_MAX: usize = 60;

#[derive(Debug)]
struct Language {
    name: &'static str,
    driver: File,
    sdk: File,
    /// What else the driver needs, changed like the driver.
    others: &'static [File],
    /// What is run before the driver can be; empty where nothing is.
    build: &'static str,
    /// What starts the driver in its directory.
    run: &'static str,
}

/// A path below the driver's directory, and the text.
type File = (&'static str, &'static str);

/// A file of `drivers/sdk/LANGUAGE/`, under the same path.
macro_rules! sdk {
    ($language:literal, $path:literal) => {
        ($path, include_str!(concat!("../../../../drivers/sdk/", $language, "/", $path)))
    };
}

const LANGUAGES: &[Language] = &[
    Language {
        name: "python",
        driver: sdk!("python", "driver.py"),
        sdk: sdk!("python", "locklab_driver.py"),
        others: &[sdk!("python", "resp.py")],
        build: "",
        run: "python3 driver.py",
    },
    Language {
        name: "node",
        driver: sdk!("node", "driver.mjs"),
        sdk: sdk!("node", "locklab-driver.mjs"),
        others: &[sdk!("node", "resp.mjs")],
        build: "",
        run: "node driver.mjs",
    },
    Language {
        name: "go",
        driver: sdk!("go", "driver/main.go"),
        sdk: sdk!("go", "locklab.go"),
        others: &[sdk!("go", "driver/resp.go"), sdk!("go", "go.mod")],
        build: "go build -o run ./driver",
        run: "./run",
    },
    Language {
        name: "java",
        driver: sdk!("java", "Driver.java"),
        sdk: sdk!("java", "LocklabDriver.java"),
        others: &[sdk!("java", "Resp.java")],
        build: "javac -d build *.java",
        run: "java -cp build Driver",
    },
    Language {
        name: "rust",
        driver: sdk!("rust", "src/main.rs"),
        sdk: sdk!("rust", "src/locklab.rs"),
        others: &[sdk!("rust", "src/resp.rs"), sdk!("rust", "Cargo.toml")],
        build: "cargo build --release --target-dir target",
        run: "target/release/driver",
    },
];

fn names() -> impl Iterator<Item = &'static str> {
    LANGUAGES.iter().map(|language| language.name)
}

fn help() -> String {
    format!("Languages: {}", names().collect::<Vec<_>>().join(", "))
}

impl Language {
    fn find(name: &str) -> Result<&'static Language, String> {
        let found = LANGUAGES.iter().find(|language| language.name == name);
        found.ok_or_else(|| {
            let known = names().collect::<Vec<_>>().join(", ");
            let near = nearest(name, names());
            format!("there is no SDK for `{name}`, but for {known}{near}")
        })
    }

    fn files(&self, name: &str) -> Vec<(&'static str, String)> {
        let own = std::iter::once(&self.driver).chain(self.others);
        let own = own.map(|(path, text)| (*path, text.replace(PLACEHOLDER, name)));
        let sdk = (self.sdk.0, self.sdk.1.to_owned());
        own.chain([sdk, ("README.md", self.readme(name))]).collect()
    }

    fn readme(&self, name: &str) -> String {
        let (driver, sdk, run) = (self.driver.0, self.sdk.0, self.run);
        let build = match self.build {
            "" => String::new(),
            build => format!("    {build}\n"),
        };
        format!(
            "# {name}: a driver for locklab\n\n\
             `{driver}` is yours: put your lock library in the place of its commands. `{sdk}` speaks the driver protocol for it.\n\n\
             {build}    locklab conform '{run}'\n    locklab audit '{run}'\n\n\
             ## Where your client connects\n\n\
             The servers are in `hello.target`, a URL: `redis://HOST:PORT/DB`, `redis-sentinel://HOST:PORT,…/MASTER`, `redis-cluster://HOST:PORT,…` or, of \
             independent masters, `redlock://HOST:PORT,…`; with TLS `rediss://`, `rediss-sentinel://`, `rediss-cluster://`, `redlocks://`. A client that takes a `redis://` URL takes it as it is. \
             For others the SDK has taken it apart: hosts and ports, user, password, and the name of the master. Connect to nothing else: every \
             client of a run has proxies and faults of its own, and an address in your driver goes around them.\n\n\
             ## A lock that renews itself\n\n\
             `options.watchdog_ms` of hello is the lease that scenarios wish for, mostly a few seconds. Set your library's own to it, and say in \
             your hello, as `watchdog_ms`, what it is then. A library that cannot be told answers with its own lease; scenarios then last longer. \
             Never say a lease that is not renewed: `conform` waits for 1.5 times as long, and looks whether the lock is still held.\n"
        )
    }
}

fn write(at: &Path, files: &[(&str, String)]) -> anyhow::Result<()> {
    std::fs::create_dir(at).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => exit::usage(format!("{} is there already", at.display())),
        _ => exit::usage(format!("cannot create {}: {error}", at.display())),
    })?;
    for (path, text) in files {
        let path = at.join(path);
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        std::fs::write(path, text)?;
    }
    Ok(())
}

/// The name becomes a directory, and a word of the languages' own files.
fn driver_name(name: &str) -> Result<String, String> {
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let good = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.len() <= NAME_MAX
        && name.chars().all(letters);
    match good {
        true => Ok(name.to_owned()),
        false => Err(format!(
            "`{name}` is no name for a driver: a letter, then letters, digits, `-` and `_`, at most {NAME_MAX}"
        )),
    }
}

pub(crate) fn run(options: &Options, terminal: &Terminal) -> anyhow::Result<u8> {
    let (language, name) = (options.language, options.name.as_str());
    let files = language.files(name);
    write(Path::new(name), &files)?;
    let paths: Vec<&str> = files.iter().map(|(path, _)| *path).collect();
    let document = json!({
        "schema": 1, "language": language.name, "directory": name, "files": paths, "build": language.build, "run": language.run,
    });
    terminal.answer(&document, || {
        let build = match language.build {
            "" => String::new(),
            build => format!(" && {build}"),
        };
        format!("{name}: {}\ncd {name}{build} && locklab conform '{}'", paths.join(", "), language.run)
    })?;
    Ok(exit::AS_EXPECTED)
}
