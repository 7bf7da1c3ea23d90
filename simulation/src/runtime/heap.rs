//! The memory of a run: taken from one large area that goes with the run's process.
//!
//! A run takes and gives back memory some hundred thousand times, in a process that has one thread and a
//! short life. So nothing is ever looked for, joined or returned: what is given back is the next that is
//! taken of its size, and is in the processor's cache. The area is of large pages where there are some: a
//! page is made when it is first touched, which costs more than a thousand takings.
//!
//! Outside of a run, and on every other thread, this is the system's allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How much a run may take; what it does not touch does not exist.
const AREA: usize = 16 << 30;
const PAGE: usize = 2 << 20;
/// Blocks up to so many bytes are of multiples of [`STEP`], larger ones of powers of two.
const SMALL: usize = 1 << 10;
const STEP: usize = 16;
/// Larger ones begin at multiples of this. What asks for more is the system's.
const ALIGNED: usize = 128;
const CLASSES: usize = SMALL / STEP + 1 + usize::BITS as usize;

/// Where the area begins; without one so far up that nothing is in it.
static BEGINS: AtomicUsize = AtomicUsize::new(isize::MAX as usize);

thread_local! {
    static OWN: ThreadHeap = const {
        ThreadHeap {
            next: Cell::new(0),
            end: Cell::new(0),
            free: [const { Cell::new(null_mut()) }; CLASSES],
        }
    };
}

struct ThreadHeap {
    /// Nothing from here on was ever taken.
    next: Cell<usize>,
    end: Cell<usize>,
    /// What was given back, of each size: the first block, which begins with where the next one is.
    free: [Cell<*mut u8>; CLASSES],
}

/// The program's allocator.
struct Heap;

#[global_allocator]
static HEAP: Heap = Heap;

/// From now on this thread takes its memory from an area that is never given back: its process ends soon.
/// Without large enough an area all stays as it was.
pub(crate) fn begin() {
    // SAFETY: a new mapping, wherever there is room.
    let area = unsafe {
        libc::mmap(
            null_mut(),
            AREA,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if area == libc::MAP_FAILED {
        return;
    }
    // SAFETY: advice on that mapping, which changes none of its bytes.
    unsafe { libc::madvise(area, AREA, libc::MADV_HUGEPAGE) };
    let begins = area as usize;
    BEGINS.store(begins, Ordering::Relaxed);
    OWN.with(|own| {
        own.next.set(begins.next_multiple_of(PAGE));
        own.end.set(begins + AREA);
    });
}

fn is_own(block: *mut u8) -> bool {
    (block as usize).wrapping_sub(BEGINS.load(Ordering::Relaxed)) < AREA
}

/// The size of the blocks that serve for a layout, and their number among all sizes.
fn class(layout: Layout) -> (usize, usize) {
    match layout.size() <= SMALL && layout.align() <= STEP {
        true => {
            let number = layout.size().div_ceil(STEP);
            (number * STEP, number)
        }
        false => {
            let size = layout.size().next_power_of_two().max(ALIGNED);
            (size, SMALL / STEP + 1 + size.trailing_zeros() as usize)
        }
    }
}

impl ThreadHeap {
    fn runs(&self) -> bool {
        self.end.get() != 0
    }

    /// A block for a layout, if this thread runs and there is room.
    fn take(&self, layout: Layout) -> Option<*mut u8> {
        if !self.runs() || layout.align() > ALIGNED {
            return None;
        }
        let (size, number) = class(layout);
        let free = &self.free[number];
        let block = free.get();
        if !block.is_null() {
            // SAFETY: it was given back, with this in its first bytes.
            free.set(unsafe { block.cast::<*mut u8>().read() });
            return Some(block);
        }
        let align = if number <= SMALL / STEP { STEP } else { ALIGNED };
        let at = self.next.get().next_multiple_of(align);
        if size > self.end.get() - at {
            return None;
        }
        self.next.set(at + size);
        Some(std::ptr::with_exposed_provenance_mut(at))
    }

    fn keep(&self, block: *mut u8, layout: Layout) {
        let free = &self.free[class(layout).1];
        // SAFETY: it is of the area, nobody else has it any more, and none is smaller than this.
        unsafe { block.cast::<*mut u8>().write(free.get()) };
        free.set(block);
    }
}

// SAFETY: a block of the area is handed out once until it is given back, and is large and even enough; every
// other is the system's.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let system = || unsafe { System.alloc(layout) };
        OWN.with(|own| own.take(layout)).unwrap_or_else(system)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match OWN.with(|own| own.take(layout)) {
            Some(block) => {
                // SAFETY: it has so many bytes.
                unsafe { block.write_bytes(0, layout.size()) };
                block
            }
            // SAFETY: the caller's promise.
            None => unsafe { System.alloc_zeroed(layout) },
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let runs = OWN.with(ThreadHeap::runs);
        match is_own(block) {
            true if runs => OWN.with(|own| own.keep(block, layout)),
            // SAFETY: the caller's promise.
            false if !runs => unsafe { System.dealloc(block, layout) },
            // What the original of this process made is only read: a page that is written to is copied first.
            _ => {}
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let is_own = is_own(block);
        if !is_own && !OWN.with(ThreadHeap::runs) {
            // SAFETY: the caller's promise.
            return unsafe { System.realloc(block, layout, size) };
        }
        // SAFETY: the caller's promise.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if is_own && class(layout) == class(wanted) {
            return block;
        }
        // SAFETY: as the default of the trait does it.
        unsafe {
            let other = self.alloc(wanted);
            if !other.is_null() {
                other.copy_from_nonoverlapping(block, layout.size().min(size));
                self.dealloc(block, layout);
            }
            other
        }
    }
}
