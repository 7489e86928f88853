#include "model/text/grammar/engine/threads.h"

#include "base/assert.h"
#include "model/text/grammar/engine/trace.h"

#include <stdlib.h>

void threads_fini(struct threads *threads) {
    free(threads->at);
    *threads = (struct threads){0};
}

enum status threads_reserve(struct threads *threads, uint32_t n) {
    if (threads->size - threads->n >= n)
        return STATUS_OK;
    uint32_t size = threads->size ? threads->size * 2 : 8;
    while (size - threads->n < n)
        size *= 2;
    struct thread *grown = realloc(threads->at, size * sizeof *grown);
    if (!grown)
        return STATUS_NOMEM;
    threads->at = grown;
    threads->size = size;
    return STATUS_OK;
}

enum status threads_push(struct threads *threads, struct thread thread) {
    TRY(threads_reserve(threads, 1));
    threads->at[threads->n++] = thread;
    return STATUS_OK;
}

enum status machine_init(struct machine *machine, const struct program *program,
                         struct machine_limits limits) {
    *machine = (struct machine){.program = program, .n_threads_max = limits.n_threads};
    machine->n_slots = 64;
    while (machine->n_slots < limits.n_threads * 4)
        machine->n_slots *= 2;
    machine->slots = calloc(machine->n_slots, sizeof *machine->slots);
    enum status status = machine->slots ? STATUS_OK : STATUS_NOMEM;
    if (status == STATUS_OK)
        status = automaton_init(&machine->automaton, program, limits.n_bytes);
    if (status == STATUS_OK)
        status = frames_init(&machine->frames, limits.n_frames, limits.clip);
    if (status != STATUS_OK)
        machine_fini(machine);
    return status;
}

void machine_fini(struct machine *machine) {
    automaton_fini(&machine->automaton);
    frames_fini(&machine->frames);
    free(machine->slots);
    *machine = (struct machine){0};
}

void machine_allow(struct machine *machine, uint64_t n_steps) {
    struct automaton *automaton = &machine->automaton;
    automaton->n_steps_max =
        n_steps < UINT64_MAX - automaton->n_steps ? automaton->n_steps + n_steps : UINT64_MAX;
}

/* A list of threads that is being closed: those from `first` on. */
struct closure {
    struct machine *machine;
    struct threads *out;
    uint32_t first;
};

static struct closure grammar_threads_closure_begin(struct machine *machine, struct threads *out) {
    if (++machine->mark == 0) {
        for (uint32_t i = 0; i < machine->n_slots; i++)
            machine->slots[i].mark = 0;
        machine->mark = 1;
    }
    return (struct closure){.machine = machine, .out = out, .first = out->n};
}

#define ADD_STEPS 4u /* of work, for a thread: its frame is hashed and looked up */

/* Puts a thread on the list, once. */
static enum status grammar_threads_add(struct closure *closure, struct thread thread) {
    struct machine *machine = closure->machine;
    if (thread.set == SET_DEAD)
        return STATUS_OK;
    uint32_t at = (thread.set * 0x9e3779b1u ^ thread.stack * 0x85ebca6bu);
    at = (at ^ at >> 15) & (machine->n_slots - 1);
    for (; machine->slots[at].mark == machine->mark; at = (at + 1) & (machine->n_slots - 1))
        if (machine->slots[at].set == thread.set && machine->slots[at].stack == thread.stack)
            return STATUS_OK;
    TRY(automaton_work(&machine->automaton, ADD_STEPS));
    /* Those that only pass on (ends, calls) count too: they are work. */
    if (closure->out->n - closure->first >= machine->n_threads_max * 2)
        return STATUS_LIMIT;
    machine->slots[at] =
        (struct machine_slot){.mark = machine->mark, .set = thread.set, .stack = thread.stack};
    return threads_push(closure->out, thread);
}

/* What a frame's `value` stands for, by content: numbers change. */
static enum status grammar_threads_push(struct machine *machine, struct frame frame,
                                        uint32_t *stack) {
    uint64_t salt[2] = {frame.value, 0};
    if (frame.kind == FRAME_BACK) {
        salt[0] = machine->automaton.sets[frame.value].hash[0];
        salt[1] = machine->automaton.sets[frame.value].hash[1];
    }
    return frames_push(&machine->frames, frame, salt, stack);
}

/* Begins a rule's text over a stack. */
static enum status grammar_threads_enter(struct closure *closure, uint32_t rule, uint32_t stack,
                                         uint32_t trace) {
    struct machine *machine = closure->machine;
    const struct program_rule *of = &machine->program->rules[rule];
    uint32_t set;
    if (of->region != PROGRAM_NONE)
        TRY(grammar_threads_push(
            machine, (struct frame){.kind = FRAME_REGION, .value = of->region, .parent = stack},
            &stack));
    if (of->kind == RULE_PLAIN) {
        TRY(automaton_start(&machine->automaton, rule, &set));
        return grammar_threads_add(closure, (struct thread){set, stack, trace});
    }
    struct frame frame = {.kind = of->kind == RULE_REPEAT ? FRAME_REPEAT : FRAME_COUNT,
                          .value = rule,
                          .min = of->min,
                          .max = of->max,
                          .parent = stack};
    if (of->kind == RULE_REPEAT && of->min == 0)
        TRY(grammar_threads_add(closure, (struct thread){SET_END, stack, trace}));
    if (of->max == 0 && of->kind == RULE_REPEAT)
        return STATUS_OK;
    TRY(grammar_threads_push(machine, frame, &stack));
    TRY(automaton_start(&machine->automaton, of->inner, &set));
    return grammar_threads_add(closure, (struct thread){set, stack, trace});
}

/* Ends the text of the rule on top of a stack. */
static enum status grammar_threads_leave(struct closure *closure, uint32_t stack, uint32_t trace) {
    struct machine *machine = closure->machine;
    if (stack == 0)
        return grammar_threads_add(closure, (struct thread){SET_FINAL, 0, trace});
    struct frame frame = machine->frames.at[stack];
    switch (frame.kind) {
    case FRAME_BACK:
        return grammar_threads_add(closure, (struct thread){frame.value, frame.parent, trace});
    case FRAME_REGION:
        return grammar_threads_add(closure, (struct thread){SET_END, frame.parent, trace});
    case FRAME_COUNT:
        if (frame.min > 0)
            return STATUS_OK;
        return grammar_threads_add(closure, (struct thread){SET_END, frame.parent, trace});
    default:
        break;
    }
    frame.min -= frame.min > 0;
    frame.max -= frame.max != PROGRAM_NO_BOUND;
    if (frame.min == 0)
        TRY(grammar_threads_add(closure, (struct thread){SET_END, frame.parent, trace}));
    if (frame.max == 0)
        return STATUS_OK;
    uint32_t set;
    TRY(grammar_threads_push(machine, frame, &stack));
    TRY(automaton_start(&machine->automaton, machine->program->rules[frame.value].inner, &set));
    return grammar_threads_add(closure, (struct thread){set, stack, trace});
}

/* What follows a thread without a byte. */
static enum status grammar_threads_follow(struct closure *closure, struct thread thread) {
    struct machine *machine = closure->machine;
    struct automaton *automaton = &machine->automaton;
    if (thread.set == SET_FINAL)
        return STATUS_OK;
    if (automaton->sets[thread.set].accepts)
        TRY(grammar_threads_leave(closure, thread.stack, thread.trace));
    uint32_t n_calls = automaton->sets[thread.set].n_calls;
    for (uint32_t i = 0; i < n_calls; i++) {
        uint32_t back;
        uint32_t stack = thread.stack;
        TRY(automaton_behind_call(automaton, thread.set, i, &back));
        if (!set_is_end(&automaton->sets[back])) /* else the callee's end is the caller's, too */
            TRY(grammar_threads_push(
                machine, (struct frame){.kind = FRAME_BACK, .value = back, .parent = stack},
                &stack));
        uint32_t rule = automaton->calls[automaton->sets[thread.set].calls + i].rule;
        TRY(grammar_threads_enter(closure, rule, stack, thread.trace));
    }
    return STATUS_OK;
}

/* Follows all threads and keeps those that wait for something. */
static enum status grammar_threads_close(struct closure *closure) {
    struct threads *out = closure->out;
    const struct automaton *automaton = &closure->machine->automaton;
    for (uint32_t i = closure->first; i < out->n; i++)
        TRY(grammar_threads_follow(closure, out->at[i]));
    uint32_t n = closure->first;
    for (uint32_t i = closure->first; i < out->n; i++) {
        const struct set *set = &automaton->sets[out->at[i].set];
        bool is_full = set->counts &&
                       set->accepts && /* nothing but characters, and no more of them */
                       machine_count_max(closure->machine, out->at[i]) == 0;
        if (out->at[i].set == SET_FINAL || (set->takes_text && !is_full) || set->n_tokens > 0)
            out->at[n++] = out->at[i];
    }
    out->n = n;
    return n - closure->first > closure->machine->n_threads_max ? STATUS_LIMIT : STATUS_OK;
}

/* A list that could not be made is no list. */
static enum status grammar_threads_finish(struct closure *closure, enum status status) {
    if (status == STATUS_OK)
        status = grammar_threads_close(closure);
    if (status != STATUS_OK)
        closure->out->n = closure->first;
    return status;
}

enum status machine_start(struct machine *machine, struct threads *out) {
    struct closure closure = grammar_threads_closure_begin(machine, out);
    return grammar_threads_finish(&closure,
                                  grammar_threads_enter(&closure, machine->program->root, 0, 0));
}

uint32_t machine_count_max(const struct machine *machine, struct thread thread) {
    const struct frame *top = &machine->frames.at[thread.stack];
    bool is_counted = thread.stack != 0 && top->kind == FRAME_COUNT;
    return is_counted ? top->max : PROGRAM_NO_BOUND;
}

enum status machine_count_off(struct machine *machine, struct thread *thread, uint32_t n,
                              bool *fits) {
    *fits = true;
    if (thread->stack == 0 || machine->frames.at[thread->stack].kind != FRAME_COUNT || n == 0)
        return STATUS_OK;
    struct frame frame = machine->frames.at[thread->stack];
    if (frame.max != PROGRAM_NO_BOUND) {
        *fits = n <= frame.max;
        if (!*fits)
            return STATUS_OK;
        frame.max -= n;
    }
    frame.min -= n < frame.min ? n : frame.min;
    return grammar_threads_push(machine, frame, &thread->stack);
}

static enum status grammar_threads_step(struct closure *closure, struct thread thread, uint8_t byte,
                                        struct trace *trace, uint64_t at) {
    struct machine *machine = closure->machine;
    struct automaton *automaton = &machine->automaton;
    uint32_t to;
    if (thread.set == SET_FINAL)
        return STATUS_OK;
    TRY(automaton_step(automaton, thread.set, byte, &to));
    if (to == SET_DEAD)
        return STATUS_OK;
    if (automaton->sets[thread.set].counts && !set_is_end(&automaton->sets[to])) {
        bool fits;
        TRY(machine_count_off(machine, &thread, 1, &fits));
        if (!fits)
            return STATUS_OK;
    }
    if (trace)
        TRY(trace_note(trace, thread.trace, machine->frames.at[thread.stack].region, at,
                       &thread.trace));
    thread.set = to;
    return grammar_threads_add(closure, thread);
}

enum status machine_byte(struct machine *machine, const struct thread *from, uint32_t n,
                         uint8_t byte, struct threads *out, struct trace *trace, uint64_t at) {
    if (n == 1 && !trace && !machine->automaton.sets[from->set].counts) {
        struct thread thread = *from;
        TRY(automaton_step(&machine->automaton, from->set, byte, &thread.set));
        if (thread.set == SET_DEAD)
            return STATUS_OK;
        const struct set *to = &machine->automaton.sets[thread.set];
        if (!to->accepts && to->n_calls == 0) /* nothing else follows */
            return threads_push(out, thread);
    }
    struct closure closure = grammar_threads_closure_begin(machine, out);
    enum status status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < n; i++)
        status = grammar_threads_step(&closure, from[i], byte, trace, at);
    return grammar_threads_finish(&closure, status);
}

enum status machine_token(struct machine *machine, const struct thread *from, uint32_t n,
                          uint32_t token, struct threads *out) {
    struct automaton *automaton = &machine->automaton;
    struct closure closure = grammar_threads_closure_begin(machine, out);
    enum status status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < n; i++) {
        struct set set = automaton->sets[from[i].set];
        for (uint32_t k = 0; status == STATUS_OK && k < set.n_tokens; k++) {
            if (automaton->tokens[set.tokens + k].token != token)
                continue;
            struct thread thread = from[i];
            status = automaton_behind_token(automaton, from[i].set, k, &thread.set);
            if (status == STATUS_OK)
                status = grammar_threads_add(&closure, thread);
        }
    }
    return grammar_threads_finish(&closure, status);
}

enum status machine_behind(struct machine *machine, struct thread thread, struct threads *out) {
    struct closure closure = grammar_threads_closure_begin(machine, out);
    return grammar_threads_finish(&closure, grammar_threads_follow(&closure, thread));
}
