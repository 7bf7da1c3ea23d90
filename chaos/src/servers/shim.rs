//! The control pages through which the preloaded shim of a process skews its clock or delays its disk.
//!
//! The shared object (`shim/shim.c`) and one page per party are files in memory of this process, which its
//! children open by way of `/proc`: nothing is left when it ends, whatever way. A program that is linked
//! statically preloads nothing; its page says so, since nobody has attached to it, and a fault on it is then
//! without proof. Of a client it must be shown of the very process that it is loaded there, since a wrapper
//! may have loaded it and the driver not.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::time::Duration;

use cluster_config::children;
use nix::sys::memfd::{MFdFlags, memfd_create};

/// What a page is called among a process's mappings.
const PAGE: &str = "locklab-shim-page";

/// The shared object, compiled by `build.rs`.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/shim.so"));

// Places on the page, in bytes; the same stand in shim.c.
const ATTACHED: u64 = 0;
const OFFSET_NS: u64 = 16;
const DRIFT_PPB: u64 = 24;
const DRIFT_FROM_NS: u64 = 32;
const READS: u64 = 40;
const SYNC_NS: u64 = 48;
const SYNCS: u64 = 56;
const OVERFLOW: u64 = 64;
const SUSPENDED_NS: u64 = 72;
const FILES_AT: u64 = 128;
const FILES: usize = 2040;
const FILE_BYTES: usize = 16;

/// The control pages of a run's servers and clients.
#[derive(Debug)]
pub struct Shims {
    object: File,
    pages: BTreeMap<String, Page>,
}

impl Shims {
    /// A page for each party: nodes by name, clients as `c1`, `c2`, ….
    pub fn new(parties: impl IntoIterator<Item = String>) -> io::Result<Self> {
        let mut object = memory("locklab-shim")?;
        object.write_all(OBJECT)?;
        let pages = parties.into_iter().map(|party| Ok((party, Page::new()?))).collect::<io::Result<_>>()?;
        Ok(Self { object, pages })
    }

    /// The variables with which a party's process has to be started; none for a party without a page.
    pub fn env(&self, party: &str) -> Vec<(String, String)> {
        let Some(page) = self.pages.get(party) else { return Vec::new() };
        let mut preload = path(&self.object);
        if let Ok(others) = std::env::var("LD_PRELOAD")
            && !others.is_empty()
        {
            preload = format!("{preload}:{others}");
        }
        vec![("LD_PRELOAD".to_owned(), preload), ("LOCKLAB_SHIM".to_owned(), path(&page.file))]
    }

    /// The page of a party.
    pub fn page(&self, party: &str) -> Option<&Page> {
        self.pages.get(party)
    }
}

/// How a party's process is to be wrong, and what it did.
#[derive(Debug)]
pub struct Page {
    file: File,
}

/// How a clock is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Skew {
    /// Added to the wall clock, in nanoseconds.
    pub offset_ns: i64,
    /// Billionths by which it runs too fast from now on.
    pub drift_ppb: i64,
}

/// What a power cut took from a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PowerCutLoss {
    /// Files that lost something.
    pub files: u64,
    /// Bytes that were not synced.
    pub bytes: u64,
}

impl Page {
    fn new() -> io::Result<Self> {
        let file = memory(PAGE)?;
        file.set_len(FILES_AT + (FILES * FILE_BYTES) as u64)?;
        Ok(Self { file })
    }

    fn read(&self, at: u64) -> io::Result<u64> {
        let mut word = [0; 8];
        self.file.read_exact_at(&mut word, at)?;
        Ok(u64::from_ne_bytes(word))
    }

    fn write(&self, at: u64, word: i64) -> io::Result<()> {
        self.file.write_all_at(&word.to_ne_bytes(), at)
    }

    /// How many processes have preloaded the shim with this page so far.
    pub fn attached(&self) -> io::Result<u64> {
        self.read(ATTACHED)
    }

    /// Whether a process, and every process below it, has this page: a driver may be the child of a shell
    /// that has it.
    pub fn is_with(&self, pid: u32) -> bool {
        let Ok(inode) = self.file.metadata().map(|page| page.ino().to_string()) else { return false };
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let has = maps.lines().any(|line| {
            // Range, rights, offset, device, inode, name.
            line.contains(PAGE) && line.split_whitespace().nth(4) == Some(inode.as_str())
        });
        has && children(pid).into_iter().all(|child| self.is_with(child))
    }

    /// Sets the wall clock wrong, or right again with [`Skew::default`].
    pub fn set_skew(&self, skew: Skew) -> io::Result<()> {
        // The drift counts from its beginning: until that stands there, no drift.
        self.write(DRIFT_PPB, 0)?;
        self.write(OFFSET_NS, skew.offset_ns)?;
        if skew.drift_ppb != 0 {
            let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)?;
            let now_ns = now.tv_sec() * 1_000_000_000 + now.tv_nsec();
            self.write(DRIFT_FROM_NS, now_ns)?;
            self.write(DRIFT_PPB, skew.drift_ppb)?;
        }
        Ok(())
    }

    /// How often a wrong wall clock was read so far.
    pub fn skewed_reads(&self) -> io::Result<u64> {
        self.read(READS)
    }

    /// Moves CLOCK_BOOTTIME forwards and no other clock, as a machine finds it that was suspended for so
    /// long. It never goes back.
    pub fn suspend(&self, duration: Duration) -> io::Result<()> {
        let before = self.read(SUSPENDED_NS)?;
        let after = u128::from(before) + duration.as_nanos();
        self.write(SUSPENDED_NS, i64::try_from(after).unwrap_or(i64::MAX))
    }

    /// Makes every sync late by so much; zero: none any more.
    pub fn set_sync_delay(&self, delay: Duration) -> io::Result<()> {
        let ns = i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX);
        self.write(SYNC_NS, ns)
    }

    /// How many syncs were late so far.
    pub fn late_syncs(&self) -> io::Result<u64> {
        self.read(SYNCS)
    }

    /// Cuts every file below `dir` down to what was synced of it. The party's process must be dead.
    pub fn cut_power(&self, dir: &Path) -> io::Result<PowerCutLoss> {
        if self.read(OVERFLOW)? > 0 {
            return Err(io::Error::other(format!(
                "the process made more than {FILES} files, and not all are known"
            )));
        }
        let mut bytes = vec![0; FILES * FILE_BYTES];
        self.file.read_exact_at(&mut bytes, FILES_AT)?;
        let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
        let durable: BTreeMap<u64, u64> = bytes
            .chunks_exact(FILE_BYTES)
            .map(|file| (word(&file[..8]), word(&file[8..])))
            .take_while(|(inode, _)| *inode != 0)
            .collect();
        let mut cut = PowerCutLoss::default();
        cut_below(dir, &durable, &mut cut)?;
        Ok(cut)
    }
}

fn cut_below(dir: &Path, durable: &BTreeMap<u64, u64>, cut: &mut PowerCutLoss) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            cut_below(&entry.path(), durable, cut)?;
        } else if kind.is_file() {
            let is = entry.metadata()?;
            if let Some(kept) = durable.get(&is.ino())
                && *kept < is.len()
            {
                let file = File::options().write(true).open(entry.path())?;
                file.set_len(*kept)?;
                cut.files += 1;
                cut.bytes += is.len() - kept;
            }
        }
    }
    Ok(())
}

fn memory(name: &str) -> io::Result<File> {
    Ok(File::from(memfd_create(name, MFdFlags::MFD_CLOEXEC)?))
}

/// The name by which other processes of this user open a file of ours, as long as we live.
fn path(file: &File) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn shims() -> Shims {
        Shims::new(["n1".to_owned()]).expect("files in memory")
    }

    /// `date` reads the wall clock by `clock_gettime`.
    fn year(shims: &Shims) -> i32 {
        let output =
            Command::new("date").args(["-u", "+%Y"]).envs(shims.env("n1")).output().expect("coreutils");
        assert!(output.stderr.is_empty(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).trim().parse().expect("a year")
    }

    #[test]
    fn a_skewed_process_sees_another_time_until_it_is_healed() {
        let shims = shims();
        let page = shims.page("n1").expect("a page");
        let now = year(&shims);
        assert_eq!(page.attached().expect("readable"), 1);
        let ten_years_ns = 10 * 366 * 86_400 * 1_000_000_000;
        for offset_ns in [ten_years_ns, -ten_years_ns] {
            let skew = Skew { offset_ns, ..Skew::default() };
            page.set_skew(skew).expect("writable");
            let difference = year(&shims) - now;
            assert!((9..=11).contains(&(difference * offset_ns.signum() as i32)));
        }
        assert!(page.skewed_reads().expect("readable") > 0);
        page.set_skew(Skew::default()).expect("writable");
        assert!((0..=1).contains(&(year(&shims) - now)));
    }

    #[test]
    fn a_process_without_the_shim_below_one_with_it_is_found() {
        let shims = shims();
        let page = shims.page("n1").expect("a page");
        // A shell with it, whose child has it, or has not.
        for (without, has) in [("", true), ("env -u LD_PRELOAD ", false)] {
            let mut shell = Command::new("sh")
                .args(["-c", &format!("{without}cat; true")])
                .envs(shims.env("n1"))
                .stdin(std::process::Stdio::piped())
                .spawn()
                .expect("a shell");
            let child = || children(shell.id()).first().copied();
            let runs_cat = || {
                let name = fs::read_to_string(format!("/proc/{}/comm", child()?)).ok()?;
                (name.trim() == "cat").then_some(())
            };
            while runs_cat().is_none() {
                std::thread::yield_now();
            }
            // A library is loaded a moment after the name is there.
            let until = std::time::Instant::now() + Duration::from_secs(5);
            while page.is_with(shell.id()) != has && std::time::Instant::now() < until {
                std::thread::yield_now();
            }
            assert_eq!(page.is_with(shell.id()), has);
            drop(shell.stdin.take());
            shell.wait().expect("the shell ends");
        }
    }

    #[test]
    fn what_was_not_synced_is_cut_and_what_was_is_kept() {
        let shims = shims();
        let page = shims.page("n1").expect("a page");
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("older"), "was here before").expect("written");
        // dd opens with O_CREAT and O_TRUNC, and syncs at the end where asked to.
        let dd = |name: &str, sync: bool| {
            let mut command = Command::new("dd");
            command
                .args(["if=/dev/zero", "bs=10", "count=3", "status=none"])
                .arg(format!("of={}", dir.path().join(name).display()))
                .envs(shims.env("n1"));
            if sync {
                command.arg("conv=fsync");
            }
            assert!(command.status().expect("coreutils").success());
        };
        dd("loose", false);
        dd("synced", true);
        page.set_sync_delay(Duration::from_millis(1)).expect("writable");
        dd("late", true);
        assert_eq!(page.late_syncs().expect("readable"), 1);

        let cut = page.cut_power(dir.path()).expect("cut");
        assert_eq!(cut, PowerCutLoss { files: 1, bytes: 30 });
        let length = |name: &str| fs::metadata(dir.path().join(name)).expect("there").len();
        assert_eq!([length("older"), length("loose"), length("synced"), length("late")], [15, 0, 30, 30]);
    }

    #[test]
    fn a_party_without_a_page_preloads_nothing() {
        assert!(shims().env("n2").is_empty());
    }
}
