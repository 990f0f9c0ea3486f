/* What both sides of the marking protocol know: the kinds of operation, and the constants.
 *
 * Layer: lab/steps; included by the loads (through marks.h), by the tracer and by the assembly files.
 */
#ifndef RTSTEPS_MARKED_KINDS_H
#define RTSTEPS_MARKED_KINDS_H

#define MARKS_MAGIC 0x5254535445505321 /* in a register at each trap: tells ours from any other breakpoint */
#define MARKS_ENVIRONMENT "STEPCOUNT"  /* set in the load's environment by the tracer */
#define MARKS_NOTE_BYTES 120

#ifndef __ASSEMBLER__
enum marked_kind {
    MARKED_MALLOC,
    MARKED_FREE, /* by the allocating thread */
    MARKED_REMOTE_FREE,
    MARKED_CALLOC,
    MARKED_REALLOC,
    MARKED_ALIGNED_ALLOC,
    MARKED_WIDE_ALIGNED_ALLOC, /* an alignment above 4 KiB */
    MARKED_NEW, /* operator new */
    MARKED_SIZED_FREE, /* operator delete with a size */
    MARKED_FREE_SIZED, /* free_sized */
    MARKED_ALIGNED_DELETE, /* operator delete with a size and an alignment */
    MARKED_REMOTE_SIZED_FREE, /* the three by another thread */
    MARKED_REMOTE_FREE_SIZED,
    MARKED_REMOTE_ALIGNED_DELETE,
    MARKED_FUNCTION, /* any other function: the self-test's, and what stepcount watches */
    MARKED_KINDS
};
#endif

#endif
