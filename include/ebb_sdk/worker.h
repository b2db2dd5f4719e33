/* The worker contract for programs that are not C++ (docs/reference/worker-contract.md): how a process of a job with
 * `elasticity: contract` hears on which workers its job shall run, and says how it gets on.
 *
 * Link with libebb_worker.so. All functions may be called from any thread; only ebb_worker_next() and
 * ebb_worker_flush() wait. A child of fork() must not use a worker of its parent. Strings are UTF-8 and end with NUL.
 * Functions are only ever added; EBB_WORKER_ABI grows when that happens, and what is here keeps its meaning.
 */
#ifndef EBB_SDK_WORKER_H
#define EBB_SDK_WORKER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EBB_WORKER_ABI 1

typedef struct ebb_worker ebb_worker;

typedef struct ebb_member {
  const char* worker;
  const char* node;
  const int32_t* slots; /* of the node */
  size_t slot_count;
  int joins; /* was not a member of the target before */
} ebb_member;

/* The job shall run on these workers from now on; a later revision replaces an earlier one. */
typedef struct ebb_target {
  uint64_t revision;
  const ebb_member* members;
  size_t member_count;
  int64_t within_ns; /* time to answer */
  const char* reason;
} ebb_target;

typedef struct ebb_progress {
  int64_t step;              /* optimizer steps committed */
  int64_t samples;           /* consumed */
  double loss;               /* NaN: not known */
  double noise_scale;        /* of the gradient; NaN: not known */
  const char* checkpoint;    /* id of the latest; NULL: none */
  int64_t checkpoint_age_ns; /* < 0: not known */
} ebb_progress;

enum ebb_order { EBB_ORDER_NONE = 0, EBB_ORDER_TARGET = 1, EBB_ORDER_CHECKPOINT = 2 };

/* EBB_WORKER_ABI of the library. */
int ebb_worker_abi(void);

/* The worker that ebb started this process as, from its environment; connects in the background. NULL if ebb did not
 * start it: `error` (of `size` bytes, may be NULL) says so. To be closed. */
ebb_worker* ebb_worker_open(char* error, size_t size);
void ebb_worker_close(ebb_worker* worker);
/* Its own id, as members of a target name it. Valid until it is closed. */
const char* ebb_worker_id(const ebb_worker* worker);

/* Waits up to `timeout_ms` for the next order. EBB_ORDER_TARGET: `*target` is it, valid until the next call. */
enum ebb_order ebb_worker_next(ebb_worker* worker, int64_t timeout_ms, const ebb_target** target);

/* This worker can be switched to. */
void ebb_worker_ready(ebb_worker* worker);
/* The job runs on the members of the target since now; said by one of them. `generation` grows with each switch. */
void ebb_worker_switched(ebb_worker* worker, uint64_t revision, uint64_t generation, const char* const* members,
                         size_t count);
/* `who` (NULL: this worker) is no member any more and has handed over what it had. */
void ebb_worker_drained(ebb_worker* worker, const char* who);
void ebb_worker_refused(ebb_worker* worker, uint64_t revision, const char* why);
/* May be called as often as one likes; the latest counts. */
void ebb_worker_report(ebb_worker* worker, const ebb_progress* progress);

/* Waits until all answers are on the controller's disk: 0, or -1 after `timeout_ms`. */
int ebb_worker_flush(ebb_worker* worker, int64_t timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
