/* Choosing a token per row of logits, with the choices of kernels/ref/sample.c: its sums (blocks of 256 ids on 16
 * lanes, the blocks in double and in order) and its order (larger value first, lower id first among
 * equals). The logits are read where they lie; a row that is barred or edited is copied first.
 *
 * Blocks of 256 ids are looked at all over the device; one block a row then chooses. The best are taken
 * in lists (sample_best.h), so that only as much is sorted as is looked at. */
#include "kernels/cuda/gpu/kernels.h"
#include "kernels/cuda/gpu/sample_best.h"
#include "kernels/sampling.h"

namespace GPU_NAMESPACE {

#define SURVEY_THREADS 256
#define LIST_FIRST     256 /* wanted of the first list: most choices end in it */

/* The best key of each block of ids, a warp a block: of the logits, or (copied) of the copies. */
__global__ void __launch_bounds__(SURVEY_THREADS) survey_kernel(gpu_sample what, bool copied) {
    griddep_launch();
    griddep_wait();
    uint32_t row = blockIdx.y, lane = threadIdx.x % WARP;
    uint32_t block = (blockIdx.x * SURVEY_THREADS + threadIdx.x) / WARP;
    if (block >= what.n_blocks || (copied && !what.rows[row].copied))
        return; /* the whole warp */
    const float *x = (copied ? what.scratch : what.logits) + (size_t)row * what.n_vocab;
    uint64_t best = 0;
#pragma unroll
    for (uint32_t j = 0; j < SAMPLING_BLOCK / WARP; j++) {
        uint32_t i = block * SAMPLING_BLOCK + j * WARP + lane;
        if (i >= what.n_vocab)
            continue;
        uint64_t key = x[i] != x[i] ? KEY_NAN : key_of(x[i], i);
        best = key > best ? key : best;
    }
    best = warp_best(best);
    if (lane == 0)
        (copied ? what.best_copied : what.best)[(size_t)row * what.n_blocks + block] = best;
}

struct exps_shared {
    uint64_t warps[SURVEY_THREADS / WARP];
};

/* The sum of exp((logit - largest) * factor) of each block of ids, half a warp a block. For logprobs: of all
 * logits, with a factor of 1; else for the choice, of what may be chosen, and the weights are kept. */
__global__ void __launch_bounds__(SURVEY_THREADS) exps_kernel(gpu_sample what, bool for_logprobs) {
    SHARED(exps_shared, s);
    griddep_launch();
    griddep_wait();
    const gpu_sample_row &own = what.rows[blockIdx.y];
    if (for_logprobs ? !own.wants_logprob : own.is_greedy)
        return; /* the whole block */
    bool copied = !for_logprobs && own.copied;
    size_t first = (size_t)blockIdx.y * what.n_blocks, begin = (size_t)blockIdx.y * what.n_vocab;
    float max = value_of(row_best<SURVEY_THREADS>(
        s.warps, (copied ? what.best_copied : what.best) + first, what.n_blocks));
    const float *x = (copied ? what.scratch : what.logits) + begin;
    float *weights = what.scratch + begin, factor = for_logprobs ? 1.0f : own.factor;
    uint32_t block = (blockIdx.x * SURVEY_THREADS + threadIdx.x) / 16, lane = threadIdx.x % 16;
    float values[SAMPLING_BLOCK / 16], sum = 0.0f;
#pragma unroll
    for (uint32_t j = 0; j < SAMPLING_BLOCK / 16;
         j++) { /* all of them under way before one is used */
        uint32_t i = block * SAMPLING_BLOCK + j * 16 + lane;
        values[j] = i < what.n_vocab ? x[i] : -INFINITY;
    }
#pragma unroll
    for (uint32_t j = 0; j < SAMPLING_BLOCK / 16; j++) {
        uint32_t i = block * SAMPLING_BLOCK + j * 16 + lane;
        float p = i < what.n_vocab ? numbers_exp((values[j] - max) * factor) : 0.0f;
        sum += p;
        if (!for_logprobs && i < what.n_vocab)
            weights[i] = p;
    }
    sum = half_warp_tree(sum);
    if (lane == 0 && block < what.n_blocks)
        (for_logprobs ? what.log_sums : what.sums)[first + block] = sum;
}

/* Copies of the rows that are changed, without the barred ids: a warp a block of ids. */
__global__ void __launch_bounds__(SURVEY_THREADS) copy_kernel(gpu_sample what) {
    griddep_launch();
    griddep_wait();
    const gpu_sample_row &own = what.rows[blockIdx.y];
    uint32_t block = (blockIdx.x * SURVEY_THREADS + threadIdx.x) / WARP, lane = threadIdx.x % WARP;
    uint32_t begin = block * SAMPLING_BLOCK, end = begin + SAMPLING_BLOCK;
    if (block >= what.n_blocks || !own.copied)
        return; /* the whole warp */
    const float *from = what.logits + (size_t)blockIdx.y * what.n_vocab;
    float *to = what.scratch + (size_t)blockIdx.y * what.n_vocab;
    end = end < what.n_vocab ? end : what.n_vocab;
#pragma unroll
    for (uint32_t j = 0; j < SAMPLING_BLOCK / WARP; j++)
        if (begin + j * WARP + lane < end)
            to[begin + j * WARP + lane] = from[begin + j * WARP + lane];
    __syncwarp();
    uint32_t low = 0, high = own.params.n_barred; /* the first interval that ends behind `begin` */
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (own.params.barred[middle].end > begin)
            high = middle;
        else
            low = middle + 1;
    }
    for (; low < own.params.n_barred && own.params.barred[low].begin < end; low++) {
        interval barred = own.params.barred[low];
        uint32_t last = barred.end < end ? barred.end : end;
        for (uint32_t i = (barred.begin > begin ? barred.begin : begin) + lane; i < last; i += WARP)
            to[i] = -INFINITY;
    }
}

/* What sampling_mask() and sampling_edit() do, on the copy: one block a row. */
__global__ void __launch_bounds__(CHOOSE_THREADS) edit_kernel(gpu_sample what) {
    griddep_launch();
    griddep_wait();
    const gpu_sample_row &own = what.rows[blockIdx.x];
    const sample_params &params = own.params;
    float *x = what.scratch + (size_t)blockIdx.x * what.n_vocab;
    if (!sampling_has_edits(&params))
        return; /* the whole block */
    for (uint32_t i = threadIdx.x; params.allowed_bits && i < what.n_vocab; i += CHOOSE_THREADS)
        if (!sampling_has_bit(params.allowed_bits, i))
            x[i] = -INFINITY;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < params.n_seen; i += CHOOSE_THREADS)
        x[params.seen_ids[i]] =
            sampling_penalised(&params, x[params.seen_ids[i]], params.seen_counts[i]);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < params.n_bias; i += CHOOSE_THREADS)
        x[params.bias_ids[i]] = sampling_biased(x[params.bias_ids[i]], params.bias[i]);
    if (params.n_allowed == 0)
        return; /* the whole block */
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < params.n_allowed; i += CHOOSE_THREADS)
        if (params.allowed_ids[i] < what.n_vocab)
            own.allowed[i] = x[params.allowed_ids[i]];
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < what.n_vocab; i += CHOOSE_THREADS)
        x[i] = -INFINITY;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < params.n_allowed; i += CHOOSE_THREADS)
        if (params.allowed_ids[i] < what.n_vocab)
            x[params.allowed_ids[i]] = own.allowed[i];
}

struct choose_shared {
    list_shared list;
    uint64_t warps[CHOOSE_THREADS / WARP];
    float staged[CHOOSE_THREADS];
    double sum; /* see descend() */
    uint32_t count;
    uint32_t id;
    bool ended;
    bool is_first; /* the list begins with the best of all */
    uint32_t block;
};

/* The best n_top of the logits that are not barred, none of -infinity: one block a row. */
__global__ void __launch_bounds__(CHOOSE_THREADS) top_kernel(gpu_sample what) {
    SHARED(choose_shared, s);
    griddep_launch();
    griddep_wait();
    uint32_t row = blockIdx.x;
    const gpu_sample_row &own = what.rows[row];
    gpu_sampled *result = &what.results[row];
    if (own.params.n_top == 0)
        return; /* the whole block */
    uint64_t best =
        row_best<CHOOSE_THREADS>(s.warps, what.best + (size_t)row * what.n_blocks, what.n_blocks);
    if (best >= KEY_INFINITY) {
        if (threadIdx.x == 0)
            result->n_top = 0;
        return; /* the whole block */
    }
    list_range range = {(own.copied ? what.scratch : what.logits) + (size_t)row * what.n_vocab,
                        what.n_vocab, KEY_FINITE, UINT64_MAX};
    uint32_t n = 0;
    while (n < own.params.n_top) { /* a list ends before a digit that does not fit */
        list_best(s.list, range, own.params.n_top - n);
        uint32_t left = own.params.n_top - n, here = s.list.n < left ? s.list.n : left;
        if (threadIdx.x < here) {
            result->top_ids[n + threadIdx.x] = id_of(s.list.keys[threadIdx.x]);
            result->top_logits[n + threadIdx.x] = value_of(s.list.keys[threadIdx.x]);
        }
        if (here == 0)
            break;
        n += here;
        range.below = s.list.from;
    }
    if (threadIdx.x == 0)
        result->n_top = n;
}

/* Adds a row's sums in double and in order, up to the one with which they exceed `target`: its number is s.block, n
 * where they do not. Thread 0, whose target it is, gets the sum of those before. The block calls. */
__device__ __forceinline__ double add_sums(choose_shared &s, const float *sums, uint32_t n,
                                           double target) {
    double total = 0.0;
    for (uint32_t begin = 0; begin < n; begin += CHOOSE_THREADS) {
        uint32_t here = n - begin < CHOOSE_THREADS ? n - begin : CHOOSE_THREADS;
        __syncthreads(); /* the last ones are added */
        if (threadIdx.x == 0 && begin == 0)
            s.block = n;
        if (threadIdx.x < here)
            s.staged[threadIdx.x] = sums[begin + threadIdx.x];
        __syncthreads();
        for (uint32_t i = 0; threadIdx.x == 0 && i < here; i++) {
            double after = total + (double)s.staged[i];
            if (after > target) {
                s.block = begin + i;
                break;
            }
            total = after;
        }
        __syncthreads();
        if (s.block < n)
            break;
    }
    return total;
}

/* The id at which the sum of weights, in order of id, exceeds uniform times the total: its block first. The block
 * calls; thread 0 gets the id. */
__device__ __forceinline__ uint32_t draw_all(choose_shared &s, const float *weights,
                                             const float *sums, uint32_t n_vocab, uint32_t n_blocks,
                                             float uniform) {
    double target = (double)uniform * add_sums(s, sums, n_blocks, (double)INFINITY);
    double sum = add_sums(s, sums, n_blocks, target);
    if (s.block == n_blocks) /* there is no weight at all */
        return 0;
    uint32_t first = s.block * SAMPLING_BLOCK, last = first;
    uint32_t n = n_vocab - first < SAMPLING_BLOCK ? n_vocab - first : SAMPLING_BLOCK;
    __syncthreads();
    if (threadIdx.x < n)
        s.staged[threadIdx.x] = weights[first + threadIdx.x];
    __syncthreads();
    for (uint32_t i = 0; threadIdx.x == 0 && i < n; i++) {
        sum += (double)s.staged[i];
        last = s.staged[i] > 0.0f ? first + i : last;
        if (sum > target)
            return first + i;
    }
    return last; /* the blocks' sums were rounded on 16 lanes, this one in order */
}

/* A way down the sorted weights: what is added up, and where it ends. */
struct descent {
    uint32_t most;  /* weights at most */
    float least;    /* ends before a smaller one, but the first */
    double reaches; /* ends with the weight that makes the sum this, ... */
    double exceeds; /* ... or more than this */
};

/* Goes down from the best: s.sum, s.count and s.id are the sum, the number and the last of the weights that were
 * taken. The block calls. */
__device__ __forceinline__ void descend(choose_shared &s, list_range range, const descent &way) {
    if (threadIdx.x == 0) {
        s.sum = 0.0;
        s.count = 0;
        s.ended = false;
    }
    range.below = UINT64_MAX;
    for (;;) {
        if (range.below != UINT64_MAX || !s.is_first) {
            uint32_t wanted = range.below == UINT64_MAX ? LIST_FIRST : LIST_MAX;
            list_best(s.list, range, wanted);
            __syncthreads();
            if (threadIdx.x == 0)
                s.is_first = range.below == UINT64_MAX;
        }
        __syncthreads();
        for (uint32_t i = 0; threadIdx.x == 0 && i < s.list.n && !s.ended; i++) {
            float p = value_of(s.list.keys[i]);
            if (s.count > 0 && p < way.least) {
                s.ended = true;
                break;
            }
            s.sum += (double)p;
            s.id = id_of(s.list.keys[i]);
            s.ended = ++s.count == way.most || s.sum >= way.reaches || s.sum > way.exceeds;
        }
        __syncthreads();
        if (s.ended || s.list.n == 0)
            return;
        range.below = s.list.from;
        __syncthreads();
    }
}

/* One of the best that are kept (kernels/sampling.h). The block calls; all threads get the id. */
__device__ __forceinline__ uint32_t draw_filtered(choose_shared &s, const float *weights,
                                                  const float *sums, uint32_t n_vocab,
                                                  uint32_t n_blocks, const sample_params &params) {
    const double none = (double)INFINITY;
    bool limited = sampling_is_limited(&params, n_vocab);
    bool wants_total = sampling_wants_total(&params);
    uint32_t most = limited ? params.top_k : UINT32_MAX;
    double total = wants_total && !limited ? add_sums(s, sums, n_blocks, none) : 0.0;
    if (threadIdx.x == 0) {
        s.sum = total;
        s.is_first = false;
    }
    __syncthreads();
    float floor = sampling_floor(&params, n_vocab, s.sum);
    list_range range = {weights, n_vocab, key_of(floor, UINT32_MAX), UINT64_MAX};
    for (int pass = limited && wants_total ? 0 : 1; pass < 3; pass++) {
        descent way = {most, 0.0f, none, none}; /* first the total of the best top_k, ... */
        if (pass == 1) {                        /* ... then what is kept, */
            way.least = sampling_least(&params, s.sum);
            way.reaches = sampling_enough(&params, s.sum);
        } else if (pass == 2) { /* and the one that is drawn */
            way.most = s.count;
            way.exceeds = (double)params.uniform * s.sum;
        }
        __syncthreads(); /* the last sum is read */
        descend(s, range, way);
    }
    return s.id;
}

/* What was chosen: one block a row, so there is one on a multiprocessor, and registers enough for it. */
__global__ void __launch_bounds__(CHOOSE_THREADS, 1) choose_kernel(gpu_sample what) {
    SHARED(choose_shared, s);
    griddep_launch();
    griddep_wait();
    uint32_t row = blockIdx.x;
    const gpu_sample_row &own = what.rows[row];
    gpu_sampled *result = &what.results[row];
    size_t blocks = (size_t)row * what.n_blocks;
    const float *weights = what.scratch + (size_t)row * what.n_vocab, *sums = what.sums + blocks;
    uint64_t raw = row_best<CHOOSE_THREADS>(s.warps, what.best + blocks, what.n_blocks);
    uint64_t best = raw;
    if (own.copied)
        best = row_best<CHOOSE_THREADS>(s.warps, what.best_copied + blocks, what.n_blocks);
    bool valid = raw < KEY_INFINITY && best < KEY_INFINITY && best >= KEY_FINITE;
    uint32_t id = id_of(best);
    double log_sum = 0.0;
    if (raw < KEY_INFINITY && own.wants_logprob)
        log_sum = add_sums(s, what.log_sums + blocks, what.n_blocks, (double)INFINITY);
    if (valid && !own.is_greedy)
        id = sampling_is_filtered(&own.params)
                 ? draw_filtered(s, weights, sums, what.n_vocab, what.n_blocks, own.params)
                 : draw_all(s, weights, sums, what.n_vocab, what.n_blocks, own.params.uniform);
    if (threadIdx.x != 0)
        return;
    result->valid = valid;
    result->is_sound = raw >= KEY_FINITE && raw < KEY_INFINITY;
    result->id = valid ? id : 0;
    result->max = value_of(raw);
    result->log_sum = log_sum;
    result->logit = valid ? what.logits[(size_t)row * what.n_vocab + id] : 0.0f;
}

void sample(struct device_stream *stream, const gpu_sample *what) {
    dim3 rows(what->n_rows), survey(pieces_of(what->n_blocks, SURVEY_THREADS / WARP), what->n_rows);
    dim3 exps(pieces_of(what->n_blocks, SURVEY_THREADS / 16), what->n_rows);
    gpu_launch_ahead(stream, survey, dim3(SURVEY_THREADS), 0, survey_kernel, *what, false);
    if (what->any_logprob)
        gpu_launch_ahead(stream, exps, dim3(SURVEY_THREADS), sizeof(exps_shared), exps_kernel,
                         *what, true);
    if (what->any_copied)
        gpu_launch_ahead(stream, survey, dim3(SURVEY_THREADS), 0, copy_kernel, *what);
    if (what->any_top)
        gpu_launch_ahead(stream, rows, dim3(CHOOSE_THREADS), sizeof(choose_shared), top_kernel,
                         *what);
    if (what->any_copied) {
        gpu_launch_ahead(stream, rows, dim3(CHOOSE_THREADS), 0, edit_kernel, *what);
        gpu_launch_ahead(stream, survey, dim3(SURVEY_THREADS), 0, survey_kernel, *what, true);
    }
    if (what->any_drawn)
        gpu_launch_ahead(stream, exps, dim3(SURVEY_THREADS), sizeof(exps_shared), exps_kernel,
                         *what, false);
    gpu_launch_ahead(stream, rows, dim3(CHOOSE_THREADS), sizeof(choose_shared), choose_kernel,
                     *what);
}

} // namespace GPU_NAMESPACE
