/* tests/sim/sights.h: the paths that a campaign must reach. One that is never reached tests
 * nothing, however many seeds pass. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define SIGHTS(X)                                                                                  \
    X(HANDOFF_TCP, "hand-off whose KV rode along with messages")                                   \
    X(HANDOFF_SHM, "hand-off whose KV went through a ring")                                        \
    X(RING_FULL, "a ring was full")                                                                \
    X(LOCAL_PREFILL, "a decode worker prefilled for itself")                                       \
    X(MIXED, "a mixed worker did both")                                                            \
    X(PREFILL_DECODES, "a prefill worker decoded")                                                 \
    X(PREFILL_YIELDED, "a decode worker prefilled for one that had much to do")                    \
    X(DECODE_YIELDED, "a prefill worker decoded for those without blocks")                         \
    X(PREFIX_LOCAL, "a prompt's front was in a worker's own cache")                                \
    X(PREFIX_HANDOFF, "a prompt's front was at the decode worker already")                         \
    X(SALTED, "a tenant's prompt was found in the cache")                                          \
    X(VARIANT, "a long prompt was answered with the other variant")                                \
    X(PREEMPTION, "a sequence was preempted")                                                      \
    X(MADE_WAY, "a sequence made way for one of better priority")                                  \
    X(DEADLINE_AT_WORKER, "a waiting sequence's deadline passed at its worker")                    \
    X(REPLAY, "a request was placed again")                                                        \
    X(REPLAY_TOKENS, "a stream went on at another attempt")                                        \
    X(REPLAY_DRAWN, "a stream with a temperature went on")                                         \
    X(INEXACT, "a stream went on with other numerics")                                             \
    X(INEXACT_PAIR, "a hand-off between other numerics")                                           \
    X(EXACT_KEPT, "a stream kept its numerics though others were there")                           \
    X(RESEND, "tokens were asked for again")                                                       \
    X(HELD_BACK, "what a death had cost was placed a moment later")                                \
    X(ALONE, "a request ran alone")                                                                \
    X(POISONED, "a request was poisoned")                                                          \
    X(USED_UP, "a request's attempts were used up")                                                \
    X(LEASE, "a reservation's lease ran out")                                                      \
    X(QUARANTINE, "reserved blocks were given back")                                               \
    X(ROUTER_SILENT, "a worker gave a router's link up")                                           \
    X(SESSION_RESET, "a worker ended a session")                                                   \
    X(HUNG, "a worker was taken for hung")                                                         \
    X(LAST_KEPT, "the last live worker was overdue and kept")                                      \
    X(LONG_STEP, "an announced step was longer than the least bound for hung")                     \
    X(STOLEN, "a CPU was stolen")                                                                  \
    X(CRASH_MANY, "several workers were lost at once")                                             \
    X(ROUTER_LOST, "a router died with requests")                                                  \
    X(TURNED_BUSY, "turned away: queue full")                                                      \
    X(TURNED_CLOSED, "turned away: no worker")                                                     \
    X(TURNED_LIMIT, "turned away: too long")                                                       \
    X(END_TIMEOUT_WAITING, "refused: its deadline passed in the queue")                            \
    X(END_TIMEOUT_RUNNING, "failed: its deadline passed")                                          \
    X(END_CLOSED, "ended: no worker came")                                                         \
    X(END_LIMIT, "ended: too long for every worker that is left")                                  \
    X(END_SPOILT, "ended: unusable numbers")                                                       \
    X(REFUSED_BUSY, "a worker refused: no room")                                                   \
    X(REFUSED_DRAINING, "a worker refused: draining")                                              \
    X(FAILED_TRANSFER, "an attempt failed: its transfer broke")                                    \
    X(FAILED_DRAINING, "an attempt failed: drained")                                               \
    X(DRAIN_BY_ROUTER, "a worker was drained by message")                                          \
    X(DRAIN_BY_SIGNAL, "a worker was drained by its own shell")                                    \
    X(MODEL_REFUSED, "a worker of another model stayed out")                                       \
    X(RIVAL, "a restart was welcomed before the death was known")                                  \
    X(SUPERSEDED, "a restart took over from one that counted as lost")                             \
    X(ABORT, "a transfer was aborted")                                                             \
    X(FENCED, "an end of a transfer was confirmed")                                                \
    X(CHUNK_CORRUPT, "a chunk's checksum was wrong")                                               \
    X(CHUNK_TWICE, "a chunk came twice")                                                           \
    X(BUSY, "a link was full")                                                                     \
    X(LOST, "a message was lost in a live link")                                                   \
    X(DUPLICATED, "a message came twice")                                                          \
    X(REORDERED, "a message was overtaken")                                                        \
    X(UNDECODED, "a message did not decode")                                                       \
    X(BANNED, "a link ended for messages that do not decode")                                      \
    X(EATEN, "a link let no message of one type through")                                          \
    X(STOP_ID, "an answer ended with a stop id")                                                   \
    X(STOP_BANNED, "a stop id was not allowed yet")                                                \
    X(STOP_MATCH, "the shell stopped an answer")                                                   \
    X(CONTEXT_FULL, "an answer filled the context")                                                \
    X(OUTGROWN, "an answer outgrew a worker and went on at another")                               \
    X(CANCEL, "a client left in the middle")                                                       \
    X(CANCEL_EARLY, "a client left before its first token")                                        \
    X(CHOICES, "a call had several choices")                                                       \
    X(LOGPROBS, "log-probabilities came")                                                          \
    X(FORM, "an answer's token was of its form")                                                   \
    X(FORM_WAITED, "a sequence waited for its form")                                               \
    X(FORM_REPLAYED, "a form went on behind tokens of another attempt")                            \
    X(FORM_HANDED, "a form was handed over")                                                       \
    X(LONELY, "a request was alone in a calm cluster")                                             \
    X(CALM, "a run without faults")                                                                \
    X(SICK_NUMERICS, "one worker's numbers were never usable")                                     \
    X(SICK_TRANSFER, "one worker failed each request for its transfer")                            \
    X(SICK_HUNG, "one worker beat without progress")                                               \
    X(SICK_STUCK, "one worker answered nothing")                                                   \
    X(SICK_QUEUED, "one worker only listed what it got")                                           \
    X(SICK_SLOW, "one worker's steps took many times as long as it said")                          \
    X(SICK_IDS, "one worker answered with ids beyond the vocabulary")                              \
    X(SICK_STEPS, "one worker announced steps of more than an hour")                               \
    X(SICK_UNREACHABLE, "no KV reached one worker")                                                \
    X(SICK_ANNOUNCED, "one worker hung and announced a step that may be")                          \
    X(SICK_FIGURES, "one worker's counts could not be")                                            \
    X(SICK_LENGTHS, "one worker answered with more tokens than were asked for")                    \
    X(SICK_INVALID, "one worker refused each request as invalid")                                  \
    X(HEAVY, "steps had a large fixed part")                                                       \
    X(SMALL_STEPS, "a slow worker made such steps smaller")                                        \
    X(AHEAD, "a step began before the results of the one before were read")                        \
    X(AHEAD_OVER, "a step ahead was over before that")                                             \
    X(AHEAD_ENDED, "a step ahead computed for an answer that had ended")                           \
    X(AHEAD_LEFT, "a step ahead computed for one that was given up")                               \
    X(AHEAD_GREW, "a step ahead needed a block")                                                   \
    X(AHEAD_STOOD, "a step went ahead though somebody waits who cannot come in")                   \
    X(REPEAT_PROMPT, "no step ahead: a prompt is computed")                                        \
    X(REPEAT_LEFT, "no step ahead: one of its sequences has left")                                 \
    X(REPEAT_FULL, "no step ahead: an answer ends by count")                                       \
    X(REPEAT_HISTORY, "no step ahead: a choice depends on the last one")                           \
    X(REPEAT_OTHERS, "no step ahead: somebody else decodes too")                                   \
    X(REPEAT_WAITING, "no step ahead: somebody may come in")                                       \
    X(REPEAT_BLOCKS, "no step ahead: no block is left")                                            \
    X(PUT_ASIDE, "a sick worker was put aside")                                                    \
    X(PAIR_AVOIDED, "a sick worker's pairs were avoided")                                          \
    X(LATE_ROW, "a late tenant's prompt was computed beside a full batch")                         \
    X(LATE_BLOCKS, "a sequence made way for one of a late tenant")                                 \
    X(LATE_PLACE, "a late tenant's request got a place that was kept from others")

#define SIGHT_ENUM(name, text) SIGHT_##name,
enum sight { SIGHTS(SIGHT_ENUM) SIGHT_COUNT, SIGHT_OF_TENANTS = SIGHT_LATE_ROW };
#undef SIGHT_ENUM

struct sights {
    uint64_t times[SIGHT_COUNT];
};

const char *sight_text(enum sight sight);
void sights_add(struct sights *sum, const struct sights *sights);

/* Prints them all; answers how many were never reached, and names those last. Those from
 * SIGHT_OF_TENANTS on need several tenants. */
uint32_t sights_print(const struct sights *sights, bool has_tenants, FILE *file);
