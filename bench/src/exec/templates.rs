//! Drivers to begin with: the template of each language that has an SDK, and its files under a name of one's
//! own.

use results::spelling::nearest;

/// What the templates call their lock; the driver's name takes its place in every file but the SDK's own.
const PLACEHOLDER: &str = "set-nx-px";
const README: &str = include_str!("../../../drivers/sdk/README.new-driver.md");

/// A driver in one language.
#[derive(Debug)]
pub struct DriverTemplate {
    /// The language.
    pub language: &'static str,
    /// Paths below the driver's directory, and texts: the driver, what else it needs, and the SDK.
    files: &'static [(&'static str, &'static str)],
    /// What is run before the driver can be; empty where nothing is.
    pub build: &'static str,
    /// What starts the driver in its directory.
    pub run: &'static str,
}

/// The files of `drivers/sdk/LANGUAGE/`, under the same paths.
macro_rules! template {
    ($language:literal, $build:literal, $run:literal, [$($path:literal),+]) => {
        DriverTemplate {
            language: $language,
            files: &[$(($path, include_str!(concat!("../../../drivers/sdk/", $language, "/", $path)))),+],
            build: $build,
            run: $run,
        }
    };
}

/// All that there are.
pub static DRIVER_TEMPLATES: [DriverTemplate; 5] = [
    template!("python", "", "python3 driver.py", ["driver.py", "resp.py", "locklab_driver.py"]),
    template!("node", "", "node driver.mjs", ["driver.mjs", "resp.mjs", "locklab-driver.mjs"]),
    template!(
        "go",
        "go build -o run ./driver",
        "./run",
        ["driver/main.go", "driver/resp.go", "go.mod", "locklab.go"]
    ),
    template!(
        "java",
        "javac -d build *.java",
        "java -cp build Driver",
        ["Driver.java", "Resp.java", "LocklabDriver.java"]
    ),
    template!(
        "rust",
        "cargo build --release --target-dir target",
        "target/release/driver",
        ["src/main.rs", "src/resp.rs", "Cargo.toml", "src/locklab.rs"]
    ),
];

impl DriverTemplate {
    /// The languages, in words.
    pub fn languages() -> String {
        DRIVER_TEMPLATES.each_ref().map(|one| one.language).join(", ")
    }

    /// The one of a language.
    pub fn find(language: &str) -> Result<&'static Self, String> {
        let found = DRIVER_TEMPLATES.iter().find(|one| one.language == language);
        found.ok_or_else(|| {
            let near = nearest(language, DRIVER_TEMPLATES.iter().map(|one| one.language));
            format!("there is no SDK for `{language}`, but for {}{near}", Self::languages())
        })
    }

    /// Paths and texts of a driver of this name.
    pub fn files(&self, name: &str) -> Vec<(&'static str, String)> {
        let sdk = self.files.len() - 1;
        let build = if self.build.is_empty() { String::new() } else { format!("    {}\n", self.build) };
        let words = [
            ("{name}", name),
            ("{driver}", self.files[0].0),
            ("{sdk}", self.files[sdk].0),
            ("{build}", &build),
            ("{run}", self.run),
        ];
        let readme = words.iter().fold(README.to_owned(), |text, (word, with)| text.replace(word, with));
        let files = self.files.iter().enumerate().map(|(place, (path, text))| match place == sdk {
            true => (*path, (*text).to_owned()),
            false => (*path, text.replace(PLACEHOLDER, name)),
        });
        files.chain([("README.md", readme)]).collect()
    }
}
