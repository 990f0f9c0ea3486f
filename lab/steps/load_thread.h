/* A second thread that runs jobs one at a time while its master waits, so that a load with threads
 * does the same operations in the same order in every run; or several at once, where the order is to be chance.
 *
 * Layer: lab/steps, included by the loads with threads, beside load.h.
 */
#ifndef RTSTEPS_LOAD_THREAD_H
#define RTSTEPS_LOAD_THREAD_H

#include "load.h"

#include <pthread.h>
#include <semaphore.h>

struct load_thread {
    pthread_t handle;
    sem_t go, done;
    void (*job)(void *); /* NULL: end */
    void *argument;
};

static inline void *load_thread_main(void *argument)
{
    struct load_thread *self = argument;
    for (;;) {
        while (sem_wait(&self->go) != 0) { /* interrupted by a signal */
        }
        if (self->job == NULL)
            return NULL;
        self->job(self->argument);
        sem_post(&self->done);
    }
}

static inline void load_thread_start(struct load_thread *thread)
{
    sem_init(&thread->go, 0, 0);
    sem_init(&thread->done, 0, 0);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    int error = pthread_create(&thread->handle, &attributes, load_thread_main, thread);
    if (error != 0)
        load_fail("cannot start a thread: %s", strerror(error));
    pthread_attr_destroy(&attributes);
}

/* Runs job(argument) in that thread, and does not wait. */
static inline void load_thread_begin(struct load_thread *thread, void (*job)(void *), void *argument)
{
    thread->job = job;
    thread->argument = argument;
    sem_post(&thread->go);
}

static inline void load_thread_wait(struct load_thread *thread)
{
    while (sem_wait(&thread->done) != 0) {
    }
}

/* The same, and waits for its end. */
static inline void load_thread_run(struct load_thread *thread, void (*job)(void *), void *argument)
{
    load_thread_begin(thread, job, argument);
    load_thread_wait(thread);
}

/* The thread exits; its blocks stay. */
static inline void load_thread_end(struct load_thread *thread)
{
    thread->job = NULL;
    sem_post(&thread->go);
    pthread_join(thread->handle, NULL);
}

#endif
