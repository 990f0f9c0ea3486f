/* Calls functions of known instruction count, for the counter's own test (steps_test.c).
 *
 * Layer: lab/steps, a load. --case says which; each case makes --calls marked calls.
 */
#include "load_thread.h"

#include <signal.h>
#include <sys/time.h>
#include <time.h>

uintptr_t known_1(uintptr_t, uintptr_t), known_22(uintptr_t, uintptr_t), known_3_call(uintptr_t, uintptr_t);
uintptr_t known_5_repeat(uintptr_t, uintptr_t), known_3_system(uintptr_t, uintptr_t);
uintptr_t known_recursive(uintptr_t, uintptr_t), known_3_fault(uintptr_t, uintptr_t);
uintptr_t known_20002(uintptr_t, uintptr_t), known_add_406(uintptr_t, uintptr_t);

static uint64_t calls = 10;
static char buffer[5000];
static volatile sig_atomic_t alarms;

static void on_alarm(int signal)
{
    (void)signal;
    alarms++;
}

static void call(uintptr_t (*function)(uintptr_t, uintptr_t), uintptr_t first, uintptr_t second)
{
    for (uint64_t i = 0; i < calls; i++)
        marks_call(MARKED_FUNCTION, (void *)function, first, second, second);
}

/* A timer that fires all the time: its handler must run, and must not be counted. */
static void call_with_signals(void)
{
    struct itimerval every = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
    signal(SIGALRM, on_alarm);
    setitimer(ITIMER_REAL, &every, NULL);
    call(known_20002, 0, 0);
    setitimer(ITIMER_REAL, &never, NULL);
    if (alarms == 0)
        load_fail("no signal was delivered");
}

static void *call_in_thread(void *argument)
{
    (void)argument;
    call(known_22, 0, 0);
    return NULL;
}

static uintptr_t counter;

static void *add_in_thread(void *argument)
{
    (void)argument;
    call(known_add_406, (uintptr_t)&counter, 0);
    return NULL;
}

/* All at once: each thread's operations are stepped while the others run. */
enum { THREADS = 8 };
static void call_in_threads(void *(*routine)(void *))
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, routine, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void add_in_threads(void)
{
    call_in_threads(add_in_thread);
    if (counter != THREADS * calls)
        load_fail("counted to %llu", (unsigned long long)counter);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uintptr_t take_lock(uintptr_t first, uintptr_t second)
{
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    return first + second;
}

static void *hold_lock(void *ready)
{
    pthread_mutex_lock(&lock);
    sem_post(ready);
    nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* A stepped thread waits for a lock that a running one holds: it must get it. */
static void wait_for_lock(void)
{
    pthread_t holder;
    sem_t ready;
    sem_init(&ready, 0, 0);
    pthread_create(&holder, NULL, hold_lock, &ready);
    sem_wait(&ready);
    marks_call(MARKED_FUNCTION, (void *)take_lock, 0, 0, 0);
    pthread_join(holder, NULL);
}

int main(int argument_count, char **arguments)
{
    (void)argument_count;
    uint64_t which = 0, seed = 0;
    const struct load_option options[] = {
        {"case", &which, "0 .. 12", false},
        {"calls", &calls, "marked calls", false},
        {"seed", &seed, "not used", false},
    };
    LOAD_OPTIONS(arguments, options);
    marks_open();
    marks_start();
    switch (which) {
    case 0: call(known_1, 0, 0); break;
    case 1: call(known_22, 0, 0); break;
    case 2: call(known_3_call, 0, 0); break;
    case 3: call(known_5_repeat, (uintptr_t)buffer, sizeof buffer); break;
    case 4: call(known_3_system, 0, 0); break;
    case 5: call(known_recursive, 7, 0); break;
    case 6: call_with_signals(); break;
    case 7: call_in_threads(call_in_thread); break;
    case 8: wait_for_lock(); break;
    case 9: call(known_3_fault, 0, 0); break;
    case 10: return 3;
    case 11: marks_call(MARKED_FUNCTION, marks_look_up("_exit"), 0, 0, 0); break;
    case 12: add_in_threads(); break;
    default: load_fail("no case %llu", (unsigned long long)which);
    }
    return 0;
}
