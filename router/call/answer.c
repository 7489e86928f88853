#include "router/call/answer.h"

#include "base/clock.h"
#include "model/text/tokenizer/tokenizer.h"
#include "router/api/dialect.h"
#include "router/api/tool_reader.h"
#include "router/call/sequence.h"

#include <stdlib.h>

static bool answer_has_stop_id(const struct sampling *sampling, uint32_t id) {
    for (uint32_t i = 0; i < sampling->n_stop_ids; i++)
        if (sampling->stop_ids[i] == id)
            return true;
    return false;
}

/* Is this the token that ended the answer by itself? Its text is not a part of it. */
static bool answer_is_end_token(const struct sequence *sequence, uint32_t index) {
    return !sequence->alive && sequence->end.kind == END_DONE &&
           sequence->end.finish == FINISH_STOP && sequence->stop < 0 &&
           index + 1 == sequence->n_emitted;
}

static enum status answer_read_token(const struct answer *answer, struct sequence *sequence) {
    uint32_t index = sequence->n_read++;
    if (answer_is_end_token(sequence, index) && !answer->ask->include_stop)
        return STATUS_OK;
    return text_stream_push(&sequence->stream, sequence->tokens[sequence->n_prompt + index],
                            &sequence->text, &sequence->stop);
}

/* A stop string matched: what the worker sent beyond it never was. */
static void answer_stop_here(const struct answer *answer, struct sequence *sequence) {
    sequence->n_emitted = sequence->n_read;
    if (sequence->alive)
        router_stop(answer->core, clock_now_ns(), sequence->request, sequence->n_read);
    sequence->end.kind = END_DONE;
    sequence->end.finish = FINISH_STOP;
}

static enum status answer_read_tokens(const struct answer *answer, struct sequence *sequence) {
    while (sequence->n_read < sequence->n_emitted && sequence->stop < 0)
        TRY(answer_read_token(answer, sequence));
    if (sequence->stop >= 0) {
        answer_stop_here(answer, sequence);
        return STATUS_OK;
    }
    if (!sequence->alive && sequence->end.kind == END_DONE)
        return text_stream_end(&sequence->stream, &sequence->text);
    return STATUS_OK;
}

/* What the text read so far says of an answer that has parts. `ends`: it is all. */
static enum status answer_read_parts(const struct answer *answer, struct sequence *sequence,
                                     bool ends) {
    const struct span text = {sequence->text.n > 0 ? sequence->text.data : "", sequence->text.n};
    if (!tool_reader_is_for(answer->ask))
        return STATUS_OK;
    if (!sequence->reader)
        TRY(tool_reader_new(answer->ask, &sequence->reader));
    enum status status = tool_reader_push(sequence->reader, text, ends);
    buf_clear(&sequence->text);
    return status;
}

/* Is there something of the answer to show? */
static bool answer_says_something(const struct sequence *sequence) {
    uint32_t n = 0;
    if (sequence->reader)
        (void)tool_reader_pieces(sequence->reader, &n);
    return n > 0 || sequence->text.n > 0;
}

static struct reply_choice answer_describe_choice(const struct answer *answer,
                                                  const struct sequence *sequence) {
    uint32_t from = sequence->n_written;
    return (struct reply_choice){
        .index = (uint32_t)(sequence - answer->sequences),
        .is_first = sequence->is_first,
        .text = {sequence->text.n > 0 ? sequence->text.data : "", sequence->text.n},
        .reader = sequence->reader,
        .n_tokens = sequence->n_read - from,
        .tokens = sequence->tokens + sequence->n_prompt + from,
        .logprobs = sequence->logprobs ? sequence->logprobs + from : NULL,
        .text_offset = sequence->text_offset,
        .n_prompt = sequence->n_prompt,
        .prompt = sequence->tokens,
    };
}

static void answer_describe_end(const struct answer *answer, const struct sequence *sequence,
                                struct reply_choice *choice) {
    const struct ask *ask = answer->ask;
    choice->has_ended = true;
    choice->finish = sequence->end.finish;
    if (sequence->stop >= 0) {
        choice->stop_string = ask->stops[sequence->stop];
    } else if (sequence->end.finish == FINISH_STOP && sequence->n_read > 0) {
        uint32_t last = sequence->tokens[sequence->n_prompt + sequence->n_read - 1];
        choice->stopped_by_id = answer_has_stop_id(&ask->sampling, last);
        choice->stop_id = last;
    }
}

static void answer_written_text(const struct answer *answer, struct sequence *sequence) {
    if (answer->ask->sampling.want_logprobs && !answer->ask->is_chat)
        for (uint32_t i = sequence->n_written; i < sequence->n_read; i++)
            sequence->text_offset +=
                reply_token_chars(answer->reply, sequence->tokens[sequence->n_prompt + i]);
    sequence->n_written = sequence->n_read;
    sequence->is_first = false;
    buf_clear(&sequence->text);
    if (sequence->reader)
        tool_reader_clear(sequence->reader);
}

/* In how many tokens it thinks: up to that which is the closing mark. Where other tokens spell the mark, or a part of their
 * text is none of the answer's, that is left open. */
static void answer_count_thought(const struct answer *answer, const struct sequence *sequence) {
    struct reply *reply = answer->reply;
    const struct tokenizer *tokenizer = reply->tokenizer;
    uint64_t n_thought = 0, n_bytes = 0;
    if (!answer->ask->thoughts || !sequence->reader)
        return;
    enum tool_reader_thought thought = tool_reader_thought(sequence->reader, &n_thought);
    uint32_t n = thought == TOOL_READER_NO_THOUGHT ? 0 : sequence->n_read;
    if (thought == TOOL_READER_BEHIND_IT) {
        uint32_t mark = tokenizer_find(tokenizer, answer->ask->thoughts->end_mark), id = TOKEN_NONE;
        for (n = 0; n < sequence->n_read && id != mark; n++) {
            id = sequence->tokens[sequence->n_prompt + n];
            n_bytes += reply_token_bytes(reply, id).n;
        }
        reply->misses_thoughts |= id != mark || n_bytes != n_thought;
    }
    reply->counts_thoughts = true;
    reply->n_thought_tokens += n;
}

/* The events of one sequence: what it says now, and its end. */
static enum status answer_write_events(const struct answer *answer, struct sequence *sequence,
                                       struct buf *out) {
    const struct dialect_writer *writer = answer->dialect->writer;
    bool ends = !sequence->alive && sequence->end.kind == END_DONE;
    bool has_news = sequence->n_read > sequence->n_written;
    bool shows_ids =
        writer->shows_ids || answer->ask->return_token_ids || answer->ask->sampling.want_logprobs;
    bool has_first = sequence->is_first && (has_news || ends);
    TRY(answer_read_parts(answer, sequence, ends));
    bool says = answer_says_something(sequence) || has_first || (shows_ids && has_news);
    if ((says || ends) && !answer->reply->has_begun && writer->begin)
        writer->begin(answer->reply, out);
    answer->reply->has_begun |= says || ends;
    if (says && (!ends || writer->splits_end)) {
        struct reply_choice choice = answer_describe_choice(answer, sequence);
        writer->chunk(answer->reply, &choice, out);
        answer_written_text(answer, sequence);
    }
    if (ends) {
        struct reply_choice choice = answer_describe_choice(answer, sequence);
        answer_describe_end(answer, sequence, &choice);
        writer->chunk(answer->reply, &choice, out);
        answer_written_text(answer, sequence);
        answer_count_thought(answer, sequence);
    }
    return STATUS_OK;
}

enum status answer_read(const struct answer *answer, struct buf *out) {
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < answer->n_sequences; i++) {
        struct sequence *sequence = &answer->sequences[i];
        uint32_t n_before = sequence->n_read;
        if (sequence->ended)
            continue;
        if (answer_read_tokens(answer, sequence) != STATUS_OK)
            status = STATUS_CORRUPT;
        answer->reply->n_completion_tokens += sequence->n_read - n_before;
        if (answer->ask->stream && answer_write_events(answer, sequence, out) != STATUS_OK)
            status = STATUS_CORRUPT;
        sequence->ended = !sequence->alive;
    }
    return status;
}

bool answer_has_ended(const struct answer *answer, const struct request_end **failed) {
    uint32_t n_ended = 0;
    *failed = NULL;
    for (uint32_t i = 0; i < answer->n_sequences; i++) {
        const struct sequence *sequence = &answer->sequences[i];
        if (sequence->alive || sequence->n_read < sequence->n_emitted)
            continue;
        n_ended++;
        if (sequence->end.kind != END_DONE && !*failed)
            *failed = &sequence->end;
    }
    return n_ended == answer->n_sequences;
}

enum status answer_whole(const struct answer *answer, struct buf *out) {
    if (answer->dialect->reply) {
        answer->dialect->reply(answer->reply, out);
        return buf_status(out);
    }
    struct reply_choice *choices = calloc(answer->n_sequences, sizeof *choices);
    if (!choices)
        return STATUS_NOMEM;
    for (uint32_t i = 0; i < answer->n_sequences; i++) {
        if (answer_read_parts(answer, &answer->sequences[i], true) != STATUS_OK) {
            free(choices);
            return STATUS_NOMEM;
        }
        choices[i] = answer_describe_choice(answer, &answer->sequences[i]);
        answer_describe_end(answer, &answer->sequences[i], &choices[i]);
        answer_count_thought(answer, &answer->sequences[i]);
    }
    answer->dialect->writer->whole(answer->reply, choices, answer->n_sequences, out);
    free(choices);
    return buf_status(out);
}

/* A token with its logprobs is about a hundred bytes for each of them. */
uint64_t answer_cost(const struct answer *answer) {
    const struct sampling *sampling = &answer->ask->sampling;
    uint64_t n = 0;
    if (answer->dialect->reply)
        return answer->ask->n_prompts > 0 ? answer->ask->prompts[0].ids.n : 0;
    for (uint32_t i = 0; i < answer->n_sequences; i++)
        n += answer->sequences[i].n_read + answer->sequences[i].text.n / 64;
    return sampling->want_logprobs ? n * (2 + sampling->n_top) : n;
}
