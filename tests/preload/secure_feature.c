// One feature of the secure variant, with RTMALLOC_SECURE set to it alone: it does what docs/secure.md says.
//   secure_feature FEATURE
#define _GNU_SOURCE
#include "check.h"

#include <signal.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { SIZE = 24, MANY = 64 };

static unsigned char *allocated(void) {
    unsigned char *block = malloc(SIZE);
    CHECK(block != NULL);
    memset(block, 'x', SIZE);
    return block;
}

static int signal_of(void (*wrong)(void)) {
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        wrong();
        _exit(0);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

// Each value but the canary's own is seen, even where the block ends with what lies between shorter ones and the canary.
static unsigned char change;
static void overflow_by_one(void) {
    enum { SHORTER = SIZE - 8 };
    unsigned char *volatile block = allocated(), *volatile shorter = malloc(SHORTER);  // the compiler would warn
    CHECK(shorter != NULL);
    for (int i = SHORTER; i < SIZE; i++) block[i] = shorter[i];
    block[SIZE] ^= change;
    free(block);
}
static void canaries(void) {
    for (change = 255; change > 0; change--) CHECK(signal_of(overflow_by_one) == SIGABRT);
    CHECK(signal_of(overflow_by_one) == 0, "nothing was changed");
}

static void read_far_behind(void) {
    const volatile unsigned char *block = allocated();
    for (size_t i = 0; i < 64 * KIB; i++) (void)block[i];
}
static void guard_pages(void) { CHECK(signal_of(read_far_behind) == SIGSEGV); }

// The page stays: the other block lives.
static void zero(void) {
    unsigned char *other = allocated(), *block = allocated();
    volatile unsigned char *volatile freed = block;
    free(block);
    for (int i = 0; i < SIZE; i++) CHECK(freed[i] == 0);
    free(other);
}

static void quarantine(void) {
    unsigned char *block = allocated();
    uintptr_t freed = (uintptr_t)block;
    free(block);
    for (int i = 0; i < 4 * MANY; i++) CHECK((uintptr_t)allocated() != freed);
}

static size_t distance(const void *one, const void *two) {
    uintptr_t a = (uintptr_t)one, b = (uintptr_t)two;
    return a < b ? b - a : a - b;
}
static void lie_apart(size_t bytes) {
    unsigned char *blocks[MANY];
    for (int i = 0; i < MANY; i++) {
        blocks[i] = allocated();
        for (int j = 0; j < i; j++) CHECK(distance(blocks[i], blocks[j]) >= bytes);
    }
}
static void gaps(void) { lie_apart(SIZE + 64); }
static void alone(void) { lie_apart(4 * KIB); }

static int descents(void) {
    int count = 0;
    for (unsigned char *last = allocated(), *next, i = 0; i < MANY; i++, last = next) count += (next = allocated()) < last;
    return count;
}
static void random_order(void) { CHECK(descents() >= MANY / 8); }
static void none(void) { CHECK(descents() <= 2, "blocks follow each other, page by page"); }

// ---- guards ----

struct range {
    uintptr_t from, to;
    bool denied;
};

// The next line of /proc/self/maps.
static bool next_range(FILE *maps, struct range *range) {
    char line[512], access[5];
    if (fgets(line, sizeof line, maps) == NULL) return false;
    CHECK(sscanf(line, "%zx-%zx %4s", &range->from, &range->to, access) == 3);
    range->denied = strncmp(access, "---", 3) == 0;
    return true;
}

static bool is_guard(const struct range *range) { return range->denied && range->to - range->from == 4 * KIB; }

// Ranges with a page of no access right before them and another right behind.
static int guarded_ranges(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    struct range before = {0}, inner = {0}, behind;
    int count = 0;
    for (; next_range(maps, &behind); before = inner, inner = behind)
        count += is_guard(&before) && !inner.denied && is_guard(&behind) && before.to == inner.from && inner.to == behind.from;
    fclose(maps);
    return count;
}
static void guards(void) {
    allocated();
    CHECK(guarded_ranges() >= 1, "the heap's own memory lies between guards");
}
static void no_guards(void) {
    allocated();
    CHECK(guarded_ranges() == 0);
}

// ---- placement: where the system places all alike, the window's place differs from run to run ----

enum { RUNS = 6 };

static void print_address(void) { printf("%p\n", (void *)allocated()); }

// The addresses of that many processes that are otherwise the same: how often one differs from the last.
static int changes(void) {
    char command[512], line[64], last[64] = "";
    snprintf(command, sizeof command, "exec %s address", program_invocation_name);
    if (personality(ADDR_NO_RANDOMIZE) == -1) exit(77);  // a sandbox may not permit it
    int count = 0;
    for (int i = 0; i < RUNS; i++) {
        FILE *child = popen(command, "r");
        CHECK(child != NULL && fgets(line, sizeof line, child) != NULL && pclose(child) == 0);
        count += i > 0 && strcmp(line, last) != 0;
        strcpy(last, line);
    }
    return count;
}
static void placement(void) { CHECK(changes() >= 1); }
static void no_placement(void) { CHECK(changes() == 0); }

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } features[] = {{"canaries", canaries}, {"guard-pages", guard_pages}, {"zero", zero},          {"quarantine", quarantine},
                    {"gaps", gaps},         {"alone", alone},             {"random", random_order}, {"none", none},
                    {"guards", guards},     {"no-guards", no_guards},     {"placement", placement},
                    {"no-placement", no_placement},                       {"address", print_address}};
    for (size_t i = 0; argc == 2 && i < sizeof features / sizeof *features; i++)
        if (strcmp(argv[1], features[i].name) == 0) {
            features[i].run();
            return 0;
        }
    CHECK(0, "usage: secure_feature FEATURE");
}
