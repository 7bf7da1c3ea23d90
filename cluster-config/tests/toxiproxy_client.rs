//! The crate toxiproxy_rust drives our server of Toxiproxy's API, and the real one, through every call that
//! it has.

mod support;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use support::toxiproxy::Api;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const CRATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/toxiproxy-rust");

/// The driver, built once into the target directory; or why this machine cannot.
fn build() -> Result<String, String> {
    let said = |output: &Output| String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let headers = Command::new("pkg-config").args(["--exists", "openssl"]).status();
    if !headers.is_ok_and(|status| status.success()) {
        return Err(
            "toxiproxy_rust needs OpenSSL's headers: apt-get install libssl-dev pkg-config".to_owned()
        );
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("toxiproxy-rust");
    let cargo = |verb: &str| {
        let mut command = Command::new(env!("CARGO"));
        command.args([verb, "--locked", "--quiet"]).current_dir(CRATE);
        command.env("CARGO_TARGET_DIR", &target);
        command.output().map_err(|error| error.to_string())
    };
    let fetched = cargo("fetch")?;
    if !fetched.status.success() {
        return Err(format!("the registry of crates cannot be reached: {}", said(&fetched)));
    }
    let built = cargo("build")?;
    assert!(built.status.success(), "{}", said(&built));
    Ok(target.join("debug/drive-by-toxiproxy-rust").to_string_lossy().into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_of_the_crate_is_understood() {
    let driver = match tokio::task::spawn_blocking(build).await.unwrap() {
        Ok(driver) => driver,
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "SKIPPED toxiproxy_client: {why}");
            return;
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let echo = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut bytes = [0; 1024];
                while let Ok(length @ 1..) = stream.read(&mut bytes).await {
                    if stream.write_all(&bytes[..length]).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    for api in Api::both().await {
        let mut command = Command::new(&driver);
        command.args([api.address().to_string(), echo.to_string()]);
        let output = tokio::task::spawn_blocking(move || command.output());
        let output = output.await.unwrap().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", api.name());
    }
}
