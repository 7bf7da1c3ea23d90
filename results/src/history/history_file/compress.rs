//! Compresses a plain history above a size with zstd, and removes it once the frames were read back.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::{COMPRESSED_FILE, FRAME_BYTES, Frames};
use crate::store::atomic;

/// Compresses the plain history `path` to `history.jsonl.zst` beside it if it has more than
/// `plain_max_bytes`, and gives the path under which it is kept now.
///
/// The plain file goes only after the compressed one was synced and gave the same bytes when read back; a
/// death on the way leaves the plain one. Memory: a few frames, whatever the file's length.
///
/// # Errors
/// The system's, and `InvalidData` if the compressed form was not the same; the plain file then stays.
pub fn compress_above(path: &Path, plain_max_bytes: u64) -> io::Result<PathBuf> {
    let plain = File::open(path)?;
    if plain.metadata()?.len() <= plain_max_bytes {
        return Ok(path.to_owned());
    }
    let target = path.with_file_name(COMPRESSED_FILE);
    atomic::write_with(&target, |file| {
        frames(plain, file)?;
        let again = Frames::new(BufReader::new(File::open(file.path())?));
        if same(BufReader::new(File::open(path)?), BufReader::new(again))? {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the compressed form was not the same when it was read back",
        ))
    })?;
    fs::remove_file(path)?;
    Ok(target)
}

/// Each frame is made in memory and then written: the encoder itself would panic where a disk is full.
fn frames(mut source: impl Read, out: &mut impl Write) -> io::Result<()> {
    let mut text = Vec::with_capacity(FRAME_BYTES);
    loop {
        text.clear();
        source.by_ref().take(FRAME_BYTES as u64).read_to_end(&mut text)?;
        if text.is_empty() {
            return Ok(());
        }
        out.write_all(&compress_to_vec(text.as_slice(), CompressionLevel::Fastest))?;
    }
}

fn same(mut a: impl Read, mut b: impl Read) -> io::Result<bool> {
    const PIECE: u64 = 64 << 10;
    let (mut here, mut there) = (Vec::new(), Vec::new());
    loop {
        here.clear();
        there.clear();
        a.by_ref().take(PIECE).read_to_end(&mut here)?;
        b.by_ref().take(PIECE).read_to_end(&mut there)?;
        if here != there {
            return Ok(false);
        }
        if here.is_empty() {
            return Ok(true);
        }
    }
}
