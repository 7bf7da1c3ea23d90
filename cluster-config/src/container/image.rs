//! Provides the engine with a server's image: pulled, or built from the installed binary. Servers of other
//! systems are many files, so their image is empty, and what is installed is mounted into it.

use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use futures_util::StreamExt;
use testcontainers::GenericBuildableImage;
use testcontainers::bollard::Docker;
use testcontainers::bollard::query_parameters::CreateImageOptionsBuilder;
use testcontainers::core::BuildImageOptions;
use testcontainers::runners::AsyncBuilder;

use crate::ports::state_dir;
use crate::server::wanted_version;
use crate::{ClusterError, Server, Topology};

const REGISTRY_ANSWER: Duration = Duration::from_secs(5);
/// Longest wait for an image that was asked for by name, and for one that is on its way.
const PULL: Duration = Duration::from_secs(180);
/// For so long nobody asks again after no registry answered.
const REMEMBER: Duration = Duration::from_secs(600);

const REPOSITORY: &str = "locklab-server";
const EMPTY: &str = "FROM scratch\nLABEL locklab.image=1\n";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerImage {
    pub(crate) name: String,
    pub(crate) program: String,
    pub(crate) made_of: Option<Server>,
    /// What of this machine it sees, at the same paths, and cannot change.
    pub(crate) mounts: Vec<PathBuf>,
}

/// Finds the image: the one wished for, or that of the server's makers, or one made of the installed binary.
pub(crate) async fn choose(docker: &Docker, topology: &Topology) -> Result<ServerImage, ClusterError> {
    let (server, system) = (topology.server.as_str(), topology.kind.system_name());
    if let Some(wish) = &topology.image {
        let name = tagged(wish);
        if !is_there(docker, &name).await {
            pull(docker, &name, PULL).await.map_err(|why| {
                missing!(
                    "the image {name} is not here and cannot be pulled: {why}; load it with `docker load`, check its name, or leave \
                     it out: then an image is built from the installed server"
                )
            })?;
        }
        return Ok(from_registry(name, system));
    }
    // A binary that was named, by its path or by a variable, is what is wanted, and no other version.
    let usual = match system {
        None => registry_name(server),
        Some(name) => Some(makers_image(name))
            .filter(|(image, ..)| server == topology.kind.server() && !image.is_empty())
            .map(|(image, _, variable)| (image.to_owned(), variable)),
    };
    let Some((name, variable)) = usual else { return of_installed(Server::of(topology)?, system).await };
    if std::env::var_os(variable).is_none_or(|path| path.is_empty())
        && (is_there(docker, &name).await || try_pull(docker, &name).await)
    {
        return Ok(from_registry(name, system));
    }
    let installed = Server::of(topology)
        .map_err(|error| missing!("no registry gives the image {name}, and to build one here {error}"))?;
    of_installed(installed, system).await
}

async fn of_installed(server: Server, system: Option<&str>) -> Result<ServerImage, ClusterError> {
    if system.is_none() {
        return build(server).await;
    }
    build_image(GenericBuildableImage::new(REPOSITORY, "empty").with_dockerfile_string(EMPTY)).await?;
    let path = std::path::absolute(&server.path).unwrap_or_else(|_| server.path.clone());
    // A folder of jars, or a program.
    let own = Some(&path).filter(|own| !own.starts_with("/usr"));
    let folders = ["/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64"].map(PathBuf::from);
    let mounts = folders.iter().filter(|dir| dir.exists()).chain(own).cloned().collect();
    Ok(ServerImage {
        name: format!("{REPOSITORY}:empty"),
        program: path.to_string_lossy().into_owned(),
        made_of: Some(server),
        mounts,
    })
}

/// The image of `redis`, `valkey` or a version, and the variable that names a binary instead; else `None`.
fn registry_name(server: &str) -> Option<(String, &'static str)> {
    let (flavour, version) = wanted_version(server).unwrap_or((Some(server), "8"));
    match flavour? {
        "redis" => Some((format!("redis:{version}"), "LOCKLAB_REDIS_SERVER")),
        "valkey" => Some((format!("valkey/valkey:{version}"), "LOCKLAB_VALKEY_SERVER")),
        _ => None,
    }
}

/// What a system's makers ship: their image, which is empty where it has no name without its registry; what
/// stands there for a server's path; and the variable that names a program of this machine in its place.
fn makers_image(system: &str) -> (&'static str, &'static str, &'static str) {
    match system {
        "etcd" => ("", "etcd", "LOCKLAB_ETCD"),
        "zookeeper" => ("zookeeper:3.9", "/apache-zookeeper-*-bin/lib", "LOCKLAB_ZOOKEEPER"),
        // The last whose tables are made as those of Debian's are.
        "mysql" => ("mariadb:10.11", "mariadbd", "LOCKLAB_MARIADBD"),
        "postgres" => ("postgres:17", "postgres", "LOCKLAB_POSTGRES"),
        _ => ("mongo:8", "mongod", "LOCKLAB_MONGOD"),
    }
}

/// An image without a tag would mean every tag to some requests, and `latest` to others.
fn tagged(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    if last.contains(':') || last.contains('@') { name.to_owned() } else { format!("{name}:latest") }
}

fn from_registry(name: String, system: Option<&str>) -> ServerImage {
    let program = match system {
        Some(system) => makers_image(system).1,
        None if name.contains("valkey") => "valkey-server",
        None => "redis-server",
    };
    // Some servers look up the name of the user that they run as.
    let users = system.map(|_| PathBuf::from("/etc/passwd"));
    ServerImage {
        name,
        program: program.to_owned(),
        made_of: None,
        mounts: users.into_iter().filter(|file| file.exists()).collect(),
    }
}

async fn is_there(docker: &Docker, name: &str) -> bool {
    docker.inspect_image(name).await.is_ok()
}

/// Tries the registry, unless none answered lately.
async fn try_pull(docker: &Docker, name: &str) -> bool {
    let note = state_dir().map(|dir| dir.join("no-registry"));
    let age_of = |path: &PathBuf| {
        SystemTime::now().duration_since(fs::metadata(path).and_then(|found| found.modified()).ok()?).ok()
    };
    if let Ok(path) = &note
        && age_of(path).is_some_and(|age| age < REMEMBER)
    {
        return false;
    }
    if pull(docker, name, REGISTRY_ANSWER).await.is_ok() {
        return true;
    }
    if let Ok(path) = &note {
        // Without the note the next start asks again, which only takes longer.
        let _ = fs::write(path, name);
    }
    false
}

/// Pulls an image; gives up if the registry says nothing for `first`, or is not done after [`PULL`].
async fn pull(docker: &Docker, name: &str, first: Duration) -> Result<(), String> {
    let options = CreateImageOptionsBuilder::new().from_image(name).build();
    let pulling = async {
        let mut steps = std::pin::pin!(docker.create_image(Some(options), None, None));
        let mut step = tokio::time::timeout(first, steps.next())
            .await
            .map_err(|_| format!("the registry did not answer within {first:?}"))?;
        while let Some(told) = step {
            told.map_err(|error| error.to_string())?;
            step = steps.next().await;
        }
        Ok(())
    };
    tokio::time::timeout(PULL, pulling).await.map_err(|_| format!("not done after {PULL:?}"))?
}

/// Makes an image of a binary and the libraries that it is linked with, once for each content.
async fn build(server: Server) -> Result<ServerImage, ClusterError> {
    let files = ingredients(&server.path)?;
    let program = server
        .path
        .file_name()
        .map_or_else(|| "redis-server".into(), |name| name.to_string_lossy().into_owned());
    let tag = content_tag(&server.version, &files)?;
    let mut image =
        GenericBuildableImage::new(REPOSITORY, &tag).with_dockerfile_string(format!("{EMPTY}COPY root/ /\n"));
    for (source, target) in &files {
        image = image.with_file(source, format!("./root{target}"));
    }
    build_image(image).await?;
    Ok(ServerImage {
        name: format!("{REPOSITORY}:{tag}"),
        program: format!("/usr/bin/{program}"),
        made_of: Some(server),
        mounts: Vec::new(),
    })
}

async fn build_image(image: GenericBuildableImage) -> Result<(), ClusterError> {
    let options = BuildImageOptions::new().with_skip_if_exists(true);
    image.build_image_with(options).await.map(drop).map_err(|error| failed!("cannot build an image: {error}"))
}

/// The binary and its libraries: where each is, and where it belongs in the image.
fn ingredients(binary: &Path) -> Result<Vec<(PathBuf, String)>, ClusterError> {
    let fail =
        |why: String| failed!("no image can be made of {}: {why}; name an image instead", binary.display());
    let real = fs::canonicalize(binary).map_err(|error| fail(error.to_string()))?;
    if fs::read(&real).is_ok_and(|bytes| bytes.starts_with(b"#!")) {
        return Err(fail("it is a script".to_owned()));
    }
    let linked = Command::new("ldd").arg(&real).output().map_err(|error| fail(format!("ldd: {error}")))?;
    // For a static binary ldd fails and lists nothing, and nothing is what it needs.
    let libraries = libraries(&String::from_utf8_lossy(&linked.stdout)).map_err(fail)?;
    let name = binary.file_name().unwrap_or_default().to_string_lossy();
    let mut files = vec![(real, format!("/usr/bin/{name}"))];
    for library in libraries {
        let real = fs::canonicalize(&library).map_err(|error| fail(format!("{library}: {error}")))?;
        files.push((real, library));
    }
    Ok(files)
}

/// Reads `ldd`: lines `libm.so.6 => /lib/x/libm.so.6 (0x…)` and `/lib64/ld-linux-x86-64.so.2 (0x…)`.
fn libraries(ldd: &str) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for line in ldd.lines() {
        if line.contains("not found") {
            return Err(format!("a library is missing: {}", line.trim()));
        }
        if let Some(path) = line.split_whitespace().find(|word| word.starts_with('/'))
            && !path.ends_with(':')
        {
            found.push(path.to_owned());
        }
    }
    Ok(found)
}

/// The version, and a digest of every file and its place: names a cached image, guards against nobody.
fn content_tag(version: &str, files: &[(PathBuf, String)]) -> Result<String, ClusterError> {
    let mut digest = DefaultHasher::new();
    for (source, target) in files {
        let bytes = fs::read(source).map_err(|error| failed!("{}: {error}", source.display()))?;
        digest.write(target.as_bytes());
        digest.write(&bytes);
    }
    Ok(format!("{version}-{:016x}", digest.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_read_with_and_without_an_arrow() {
        let ldd = "\tlinux-vdso.so.1 (0x00007ffc)\n\
                   \tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f)\n\
                   \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        assert_eq!(
            libraries(ldd).unwrap(),
            ["/lib/x86_64-linux-gnu/libm.so.6", "/lib64/ld-linux-x86-64.so.2"]
        );
        assert!(libraries("\tlibssl.so.3 => not found\n").is_err());
        assert_eq!(libraries("\tnot a dynamic executable\n").unwrap(), [""; 0]);
    }

    #[test]
    fn only_names_and_versions_have_an_image_in_a_registry() {
        let name = |server| registry_name(server).map(|(name, _)| name);
        assert_eq!(name("redis").as_deref(), Some("redis:8"));
        assert_eq!(name("valkey").as_deref(), Some("valkey/valkey:8"));
        assert_eq!(name("redis-7.2").as_deref(), Some("redis:7.2"));
        assert_eq!(name("/usr/bin/redis-server"), None);
        assert_eq!(name("redis-server"), None);
    }

    #[test]
    fn a_tag_is_added_only_where_none_is() {
        assert_eq!(tagged("redis"), "redis:latest");
        assert_eq!(tagged("localhost:5000/redis"), "localhost:5000/redis:latest");
        assert_eq!(tagged("valkey/valkey:8"), "valkey/valkey:8");
    }

    #[test]
    fn a_script_is_refused_as_the_content_of_an_image() {
        let script = tempfile::NamedTempFile::new().unwrap();
        fs::write(script.path(), "#!/bin/sh\n").unwrap();
        let message = ingredients(script.path()).unwrap_err().to_string();
        assert!(message.contains("it is a script"), "{message}");
    }

    #[test]
    fn the_tag_follows_the_content() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let files = [(file.path().to_owned(), "/usr/bin/s".to_owned())];
        let before = content_tag("7.0.15", &files).unwrap();
        assert_eq!(before, content_tag("7.0.15", &files).unwrap());
        fs::write(file.path(), "other").unwrap();
        assert_ne!(before, content_tag("7.0.15", &files).unwrap());
    }
}
