/* SentencePiece's unigram model (unigram_model.cc, EncodeOptimized): the pieces with the greatest
 * sum of scores, the one found first on ties. Sums are kept in float and compared in double where
 * the original does, so that near-ties fall the same way. */
#include "model/text/tokenizer/spm/spm_call.h"

#include <stdlib.h>

#define NODE_NONE UINT32_MAX

/* The best way to reach a position: its last piece. */
struct spm_node {
    uint32_t id;    /* while the way is taken, TOKEN_NONE for the unknown piece */
    float score;    /* of the whole way */
    uint32_t start; /* where the last piece begins; NODE_NONE: not reached. Later: the next node */
};

static enum status spm_unigram_reserve(struct spm_scratch *scratch, size_t n) {
    if (n <= scratch->n_nodes)
        return STATUS_OK;
    free(scratch->nodes);
    scratch->n_nodes = 0;
    scratch->nodes = calloc(n, sizeof *scratch->nodes);
    if (!scratch->nodes)
        return STATUS_NOMEM;
    scratch->n_nodes = n;
    return STATUS_OK;
}

static void spm_unigram_offer(struct spm_node *end, double score, uint32_t start, uint32_t id) {
    if (end->start != NODE_NONE && score <= (double)end->score)
        return;
    *end = (struct spm_node){.id = id, .score = (float)score, .start = start};
}

/* Everything that begins at `at` offers itself to where it ends. Returns the character's length. */
static size_t spm_unigram_step(const struct spm *spm, struct span text, size_t at,
                               struct spm_node *nodes) {
    size_t length = spm_char_length(text.bytes + at, text.n - at);
    float here = nodes[at].score;
    bool is_piece = false;
    uint32_t node = 0;
    for (size_t end = at; end < text.n && spm->all.n_nodes > 0;) {
        node = trie_step(&spm->all, node, (uint8_t)text.bytes[end++]);
        if (node == 0)
            break;
        uint32_t id = spm->all.ids[node];
        if (id == TRIE_NONE)
            continue;
        /* A user-defined piece is worth more than what could stand in its place. */
        double score = spm->kinds[id] == TOKEN_USER_DEFINED
                           ? (double)((float)(end - at) * spm->own_score) - 0.1
                           : (double)spm->scores[id];
        spm_unigram_offer(&nodes[end], score + (double)here, (uint32_t)at, id);
        is_piece = is_piece || end - at == length;
    }
    if (!is_piece)
        spm_unigram_offer(&nodes[at + length], (double)(spm->unk_score + here), (uint32_t)at,
                          TOKEN_NONE);
    return length;
}

enum status spm_encode_unigram(const struct spm_call *call, struct span text) {
    if (text.n == 0)
        return STATUS_OK;
    TRY(spm_unigram_reserve(call->scratch, text.n + 1));
    struct spm_node *nodes = call->scratch->nodes;
    for (size_t i = 0; i <= text.n; i++)
        nodes[i] = (struct spm_node){.id = TOKEN_NONE, .start = NODE_NONE};
    for (size_t at = 0; at < text.n;)
        at += spm_unigram_step(call->spm, text, at, nodes);
    /* The way is known from its end; turn its links around. `id` moves to where its
     * piece begins. */
    uint32_t end = (uint32_t)text.n;
    uint32_t next_id = nodes[end].id;
    for (uint32_t at = nodes[end].start, after = end;;) {
        struct spm_node before = nodes[at];
        nodes[at] = (struct spm_node){.id = next_id, .start = after};
        if (at == 0)
            break;
        next_id = before.id;
        after = at;
        at = before.start;
    }
    for (uint32_t at = 0; at < end; at = nodes[at].start) {
        struct span piece = {text.bytes + at, nodes[at].start - at};
        TRY(spm_put(call, piece, nodes[at].id));
    }
    return STATUS_OK;
}
