//! rlsf's TLSF over the caller's memory, as functions that C calls (foreign_rlsf.c). 32 lists a power of two, as J = 5 has.
#![no_std]

use core::{alloc::Layout, mem::size_of, ptr::null_mut, ptr::NonNull};
use rlsf::{Tlsf, GRANULARITY};

type Heap = Tlsf<'static, u32, u32, 30, 32>;

const ALIGNMENT: usize = 16;
const _: () = assert!(ALIGNMENT < GRANULARITY && ALIGNMENT == GRANULARITY / 2);

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}

fn address(block: Option<NonNull<u8>>) -> *mut u8 {
    block.map_or(null_mut(), NonNull::as_ptr)
}

/// Blocks begin at multiples of GRANULARITY, and a header of ALIGNMENT bytes follows; so what was asked for with a
/// larger alignment, and only that, lies at a multiple of GRANULARITY. All these are freed alike.
fn alignment_of(block: NonNull<u8>) -> usize {
    if block.as_ptr() as usize % GRANULARITY == 0 { GRANULARITY } else { ALIGNMENT }
}

/// The heap is at `memory`, its blocks behind it; false if there is no room for any.
#[no_mangle]
pub unsafe extern "C" fn rlsf_init(memory: *mut Heap, bytes: usize) -> bool {
    if bytes <= size_of::<Heap>() {
        return false;
    }
    memory.write(Heap::new());
    let area = core::ptr::slice_from_raw_parts_mut(memory.add(1).cast::<u8>(), bytes - size_of::<Heap>());
    (*memory).insert_free_block_ptr(NonNull::new_unchecked(area)).is_some()
}

#[no_mangle]
pub unsafe extern "C" fn rlsf_malloc(heap: *mut Heap, size: usize) -> *mut u8 {
    match Layout::from_size_align(size, ALIGNMENT) {
        Ok(layout) => address((*heap).allocate(layout)),
        Err(_) => null_mut(),
    }
}

#[no_mangle]
pub unsafe extern "C" fn rlsf_aligned_alloc(heap: *mut Heap, alignment: usize, size: usize) -> *mut u8 {
    let alignment = if alignment < ALIGNMENT { ALIGNMENT } else { alignment };
    match Layout::from_size_align(size, alignment) {
        Ok(layout) => address((*heap).allocate(layout)),
        Err(_) => null_mut(),
    }
}

#[no_mangle]
pub unsafe extern "C" fn rlsf_free(heap: *mut Heap, block: *mut u8) -> bool {
    if let Some(block) = NonNull::new(block) {
        (*heap).deallocate(block, alignment_of(block));
    }
    true
}

#[no_mangle]
pub unsafe extern "C" fn rlsf_realloc(heap: *mut Heap, block: *mut u8, size: usize) -> *mut u8 {
    match NonNull::new(block) {
        None => rlsf_malloc(heap, size),
        Some(block) => match Layout::from_size_align(size, alignment_of(block)) {
            Ok(layout) => address((*heap).reallocate(block, layout)),
            Err(_) => null_mut(),
        },
    }
}

#[no_mangle]
pub unsafe extern "C" fn rlsf_usable_size(_heap: *const Heap, block: *const u8) -> usize {
    NonNull::new(block as *mut u8).map_or(0, |block| Heap::allocation_usable_size(block))
}

#[no_mangle]
pub extern "C" fn rlsf_control() -> usize {
    size_of::<Heap>()
}
