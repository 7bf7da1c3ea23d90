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
        self.write(SUSPENDED_NS, i64::try_from(u128::from(before) + duration.as_nanos()).unwrap_or(i64::MAX))
    }

    /// Makes every sync late by so much; zero: none any more.
    pub fn set_sync_delay(&self, delay: Duration) -> io::Result<()> {
        self.write(SYNC_NS, i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX))
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
                File::options().write(true).open(entry.path())?.set_len(*kept)?;
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
