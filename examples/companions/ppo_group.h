/* ppo_group.h - processes that train together with ppo.h, connected by whatever there is

       #define PPO_IMPLEMENTATION
       #include "ppo.h"
       #include "ppo_group.h"             // after ppo.h, in the file with PPO_IMPLEMENTATION

   ppo_mpi.h and ppo_nccl.cuh include it, and connect the processes by MPI and NCCL. A program that connects them
   by something else, such as sockets, has a function that exchanges bytes with another process:

       static ppo_status exchange(void *user, int peer, const void *send, size_t sent, void *receive,
                                  size_t received) {
           // send to and receive from `peer`, both at once; then return PPO_OK
           return ppo_fail(PPO_ERROR_GROUP, "process %d has ended", peer);
       }

       ppo_group group = {0, 2, exchange, NULL};                              // this process is rank 0 of 2
       if (ppo_use_group(&group) != PPO_OK) puts(ppo_last_error());

   Copy this file beside ppo.h. In the folder examples/, where it is in companions/, programs include it from
   there: #include "companions/ppo_group.h".

WHAT IS DIVIDED

   Environments and prompts are divided evenly, and so are the shards of each minibatch (setting `shards`). A reward
   function is asked about the samples of its own process, callbacks and schedules run in all of them. A callback
   that stops one process stops all. Checkpoints are saved by all together, in a file that rank 0 writes; any
   number of processes can resume from it. A failure in one becomes that of all; a process that ends without one is
   noticed by exchange().

   Language models may be on GPUs of one kind, one for each process (ppo_cuda.cuh): gradients then pass through the
   host; a GPU rounds by how many sequences it computes together, so there PPO on tokens has the same bits in all
   processes, but not those of a single one.

HOW IT WORKS

   All that passes between processes is built on exchange(): gather for what each has a part of, same for what must
   be equal, any for stops, agree for failures, and sum for gradients, whose order does not depend on the number of
   processes.

   License: that of ppo.h. */
#ifndef PPO_GROUP_H
#define PPO_GROUP_H
#ifndef PPO_H
#error "include ppo.h before ppo_group.h"
#elif PPO_VERSION_MAJOR != 0 || PPO_VERSION_MINOR != 3
#error "ppo_group.h belongs to version 0.3 of ppo.h"
#endif
#endif

/* ========================================================================================================
   IMPLEMENTATION
   ======================================================================================================== */

#if defined(PPO_IMPLEMENTATION) && !defined(PPO__GROUP_IMPLEMENTED)
#define PPO__GROUP_IMPLEMENTED

PPO__WARNINGS_OFF

static ppo_status ppo__exchange(const ppo_group *g, int peer, const void *send, size_t sent, void *receive,
                                size_t received) {
    const unsigned failures = ppo__failures;
    if (!sent && !received) return PPO_OK;
    ppo_status status = g->exchange(g->user, peer, send, sent, receive, received);
    if (!status) return PPO_OK;
    ppo__user_failed(status, failures, "exchange of the group");
    return ppo_fail(PPO_ERROR_GROUP, "%s", ppo__error);
}

/* Rank r has bytes start[r] .. start[r + 1] - 1 of `data`; afterwards every rank has all of it. Blocks of 1, 2,
   4, ... ranks exchange what they have. */
static ppo_status ppo__ranks_gather(const ppo_group *g, void *data, const size_t *start) {
    char *bytes = (char *)data;
    ppo_status status = PPO_OK;
    for (int n = 1; n < ppo__ranks(g) && !status; n *= 2) {
        const int own = g->rank & ~(n - 1), other = own ^ n;
        status = ppo__exchange(g, g->rank ^ n, bytes + start[own], start[own + n] - start[own],
                               bytes + start[other], start[other + n] - start[other]);
    }
    return status;
}

/* The failure of any rank becomes that of all: the earliest, by `order`, then by rank. */
static ppo_status ppo__ranks_agree(const ppo_group *g, ppo_status status, int order) {
    struct {
        int status, order;
        char text[PPO__ERROR_SIZE];
    } own = {status, order, ""}, other;
    if (status == PPO_ERROR_GROUP) return status; /* the others cannot be told */
    if (status) memcpy(own.text, ppo__error, sizeof own.text);
    for (int n = 1; n < ppo__ranks(g); n *= 2) {
        if (ppo__exchange(g, g->rank ^ n, &own, sizeof own, &other, sizeof other)) return ppo__failed;
        const int before = other.order != own.order ? other.order < own.order : (g->rank & n) != 0;
        if (other.status && (!own.status || before)) own = other;
    }
    return own.status ? ppo_fail((ppo_status)own.status, "%s", own.text) : PPO_OK;
}

/* *flag becomes 1 on all ranks if it is on any: a callback wants to stop. */
static ppo_status ppo__ranks_any(const ppo_group *g, int *flag) {
    for (int n = 1, other; n < ppo__ranks(g); n *= 2) {
        if (ppo__exchange(g, g->rank ^ n, flag, sizeof *flag, &other, sizeof other)) return ppo__failed;
        *flag |= other;
    }
    return PPO_OK;
}

/* An error unless `hash` is the same on all ranks. */
static ppo_status ppo__ranks_same(const ppo_group *g, uint64_t hash, const char *what) {
    uint64_t first = hash;
    ppo_status status = PPO_OK;
    for (int n = 1; n < ppo__ranks(g) && !status; n *= 2) {
        uint64_t other;
        status = ppo__exchange(g, g->rank ^ n, &first, sizeof first, &other, sizeof other);
        if (g->rank & n) first = other;
    }
    if (!status && first != hash)
        status = ppo__refuse("process %d of the group differs from process 0: all need the same %s", g->rank,
                             what);
    return ppo__ranks_agree(g, status, 0);
}

/* data [n] is the sum of this process's shards, afterwards that of all `shards`. Blocks of 1, 2, 4, ... ranks
   add up a half of what they have in common, a quarter, ..., and then exchange the sums: a process sends and
   receives less than 2 n floats, however many there are. received [n]: scratch. */
static ppo_status ppo__ranks_sum(const ppo_group *g, float *data, size_t n, int most, int shards,
                                 float *received) {
    const int ranks = ppo__ranks(g);
    size_t begin[16] = {0}, end[16] = {n};
    ppo_status status = PPO_OK;
    int level = 0;
    for (int size = 1; size < ranks && !status; size *= 2, ++level) {
        const int own = g->rank & ~(size - 1), other = own ^ size, upper = own > other;
        const int have = ppo__first_shard(most, own, ranks) <
                         ppo__min_int(ppo__first_shard(most, own + size, ranks), shards);
        const int has = ppo__first_shard(most, other, ranks) <
                        ppo__min_int(ppo__first_shard(most, other + size, ranks), shards);
        const size_t middle = begin[level] + ((end[level] - begin[level]) / 2 & ~(size_t)15);
        const size_t given = upper ? begin[level] : middle;
        const size_t kept = begin[level + 1] = upper ? middle : begin[level];
        end[level + 1] = upper ? end[level] : middle;
        const size_t count = end[level + 1] - kept, sent = end[level] - begin[level] - count;
        status = ppo__exchange(g, g->rank ^ size, data + given, have ? sent * sizeof(float) : 0, received,
                               has ? count * sizeof(float) : 0);
        if (have && has) ppo__k()->add(received, data + kept, count);
        else if (has) memcpy(data + kept, received, count * sizeof(float));
    }
    while (level-- > 0 && !status) {
        const int upper = (g->rank & 1 << level) != 0;
        const size_t count = end[level + 1] - begin[level + 1];
        const size_t missing = upper ? begin[level] : end[level + 1];
        status = ppo__exchange(g, g->rank ^ 1 << level, data + begin[level + 1], count * sizeof(float),
                               data + missing, (end[level] - begin[level] - count) * sizeof(float));
    }
    return status;
}

PPO__COMPANION_IS(ppo__group_functions, ppo__in_group,
                  {ppo__ranks_gather, ppo__ranks_agree, ppo__ranks_any, ppo__ranks_same});

/* Hash of the settings that results depend on, and of what computes with them. */
static uint64_t ppo__hash_run(const ppo_settings *settings, const void *config) {
    const char *kernels = ppo_kernels_name();
    uint64_t hash = ppo__fnv1a(PPO__FNV1A, PPO_VERSION, sizeof PPO_VERSION);
    hash = ppo__fnv1a(hash, kernels, strlen(kernels));
    for (int i = 0; i < settings->count; ++i) {
        char text[PPO__SETTING_SIZE] = "";
        if (!strcmp(settings->field[i].name, "threads")) continue;
        ppo_settings_get(settings, config, settings->field[i].name, text, sizeof text);
        hash = ppo__fnv1a(hash, text, strlen(text) + 1);
    }
    return hash;
}

#ifndef PPO_NO_CONTROL

/* -- control -- */

/* Copies n bytes from `own` to packed + at, or back, unless packed is NULL. Returns the next `at`. */
static size_t ppo__move(char *packed, size_t at, void *own, size_t n, int back) {
    if (packed) memcpy(back ? (char *)own : packed + at, back ? packed + at : (char *)own, n);
    return at + n;
}

/* Packs the columns and the state of agents begin .. end - 1 after a rollout, or unpacks them (back). Returns
   the number of bytes. */
static size_t ppo__pack_agents(ppo__collector *c, int begin, int end, char *packed, int back) {
    ppo_rollout *r = &c->rollout;
    const size_t n = (size_t)(end - begin);
    const struct {
        void *data;
        size_t bytes;
    } latest[] = {{r->recorded, sizeof(int)},
                  {c->row, 1},
                  {c->envs.steps, sizeof(int64_t)},
                  {c->envs.obs, (size_t)c->envs.env.obs_size * sizeof(float)},
                  {c->state, (size_t)c->width * sizeof(float)}};
    ppo_normalizer *const seen[] = {c->seen_obs, c->seen_return};
    size_t at = 0;
    for (int i = 0; i < PPO__COLUMNS; ++i) {
        const size_t bytes = c->columns[i].bytes;
        char *data = ppo__column_data(r, &c->columns[i]);
        for (int t = 0; bytes && c->columns[i].uses != PPO__FOR_LEARNING && t < r->steps; ++t)
            at = ppo__move(packed, at, data + (ppo__at(t, r->envs) + begin) * bytes, n * bytes, back);
    }
    for (size_t i = 0; i < sizeof latest / sizeof *latest; ++i)
        at = ppo__move(packed, at, (char *)latest[i].data + begin * latest[i].bytes, n * latest[i].bytes,
                       back);
    for (int k = 0; k < 2; ++k)
        for (int e = begin; e < end && seen[k]; ++e) {
            at = ppo__move(packed, at, &seen[k][e].count, sizeof(double), back);
            at = ppo__move(packed, at, seen[k][e].mean, 2 * (size_t)seen[k][e].size * sizeof(double), back);
        }
    return at;
}

/* Every process gets the whole rollout. */
static ppo_status ppo__share_rollout(ppo__collector *c) {
    const ppo_group *g = c->group;
    const int agents = c->envs.agents, copies = c->envs.copies;
    const size_t bytes = (size_t)agents * ppo__pack_agents(c, 0, 1, NULL, 0); /* of a copy */
    ppo__pack_agents(c, c->envs.begin * agents, c->envs.end * agents, c->packed + c->envs.begin * bytes, 0);
    ppo_status status = ppo__group_share(g, c->packed, copies, bytes);
    for (int r = 0; r < g->size && !status; ++r) {
        const int begin = ppo__share(copies, r, g->size), end = ppo__share(copies, r + 1, g->size);
        if (r != g->rank) ppo__pack_agents(c, begin * agents, end * agents, c->packed + begin * bytes, 1);
    }
    return status;
}

static size_t ppo__agent_bytes(ppo__collector *c) { return ppo__pack_agents(c, 0, 1, NULL, 0); }

/* Every process gets the reports of all shards, and the sum of their gradients. status: of its
   own. */
static ppo_status ppo__share_gradient(ppo_trainer *trainer, ppo_status status) {
    ppo__minibatch *batch = &trainer->minibatch;
    ppo_params *params = trainer->agent->model.params;
    const ppo_group *g = trainer->collector.group;
    size_t start[PPO_MAX_RANKS + 1];
    int failed = 0;
    if (batch->most_shards == 1) return status; /* all compute the same */
    for (int r = 0; r <= g->size; ++r)
        start[r] = sizeof *batch->stats *
                   (size_t)ppo__min_int(ppo__first_shard(batch->most_shards, r, g->size), batch->shards);
    for (int k = batch->begin; k < batch->end; ++k) batch->stats[k].failed = status;
    ppo_status shared = ppo__group_gather(g, batch->stats, start);
    for (int k = 0; k < batch->shards && !shared; ++k) failed |= batch->stats[k].failed;
    if (!shared && failed) shared = ppo__group_agree(g, status, 0);
    return shared ? shared
                  : ppo__ranks_sum(g, params->grad, params->count, batch->most_shards, batch->shards,
                                   batch->received);
}

static ppo_status ppo__ranks_trainer(ppo_trainer **trainer, ppo_status status) {
    const ppo_group *g = ppo__group();
    status = ppo__group_agree(g, status, 0);
    if (!status) {
        const ppo_params *params = (*trainer)->agent->model.params;
        const uint64_t hash = ppo__hash_run(ppo_config_settings(), &(*trainer)->config);
        status = ppo__group_same(g, ppo__fnv1a(hash, params->data, params->count * sizeof(float)),
                                 "version, settings, weights and kernels");
    }
    if (!status) return status;
    ppo_trainer_free(*trainer);
    *trainer = NULL;
    return status;
}

PPO__COMPANION_IS(ppo__control_group, ppo__control_in_group,
                  {ppo__share_rollout, ppo__agent_bytes, ppo__share_gradient, ppo__ranks_trainer});

#endif

#ifndef PPO_NO_LANGUAGE

/* -- language models -- */

/* Adds the gradients of a batch over a group, in chunks of whole tensors, the last tensors first. While
   the last backward of this process is running, a chunk waits until no node is left that adds to it. */
typedef struct ppo__summing {
    ppo__learner *learner;
    int shards, own;
    ppo_node **node; /* [nodes] of the tape; tape->now changes during backward */
    int nodes;       /* 0: no backward is running */
    ppo_status status;
    char error[PPO__ERROR_SIZE];
#ifdef PPO__THREADS
    ppo__event walked;
#endif
} ppo__summing;

enum { PPO__CHUNK = 1 << 18 }; /* floats: a megabyte */

/* Number of nodes before the first one that uses a parameter; 0 also if it is used inside of a recomputed
   block. */
static int ppo__nodes_before(const ppo__summing *sum, const ppo_tensor *parameter) {
    for (int i = 0; i < sum->nodes; ++i)
        for (int k = 0; k < PPO_MAX_INPUTS; ++k)
            if (sum->node[i]->in[k] == parameter) return i;
    return 0; /* which is the embedding */
}

static ppo_status ppo__sum_chunks(ppo__summing *sum) {
    const ppo__learner *learner = sum->learner;
    ppo_status status = PPO_OK;
    for (int i = learner->params[1] ? 1 : 0; i >= 0; --i) { /* backward comes to the critic first */
        const ppo_params *params = learner->params[i];
        int t = params->tensor_count;
        for (size_t begin, end = params->count; end && !status; end = begin) {
            int left = sum->nodes;
            for (begin = end; begin && end - begin < PPO__CHUNK;) {
                const int before = ppo__nodes_before(sum, params->tensors[--t]);
                begin = t ? (size_t)(params->tensors[t]->data - params->data) : 0;
                left = ppo__min_int(left, before);
            }
#ifdef PPO__THREADS
            for (int32_t seen = 0; seen < sum->nodes - left;) seen = ppo__event_await(&sum->walked, seen);
#endif
            if (sum->own > 1)
                ppo__add_waiting(learner, learner->lane, sum->own - 1, 1, i, begin, end - begin);
            if (learner->group && learner->shards > 1)
                status = ppo__ranks_sum(learner->group, params->grad + begin, end - begin, learner->shards,
                                        sum->shards, learner->received);
        }
    }
    return status;
}

#ifdef PPO__THREADS
static PPO__THREAD_MAIN ppo__sum_beside(void *user) {
    ppo__summing *sum = (ppo__summing *)user;
    sum->status = ppo__sum_chunks(sum);
    if (sum->status) memcpy(sum->error, ppo__error, sizeof sum->error);
    return 0;
}
#endif

/* The last backward of the only lane, whose loss this is, unless the process has no shard (own 0); and the
   sum over all shards. For a large model both run at the same time, if they run on the host. */
static ppo_status ppo__group_backward_and_sum(ppo__learner *learner, ppo_tensor *loss, int shards, int own) {
    ppo__summing sum;
    ppo_tape *tape = learner->lane[0].tape;
    ppo_status status = PPO_OK;
    memset(&sum, 0, sizeof sum);
    sum.learner = learner;
    sum.shards = shards;
    sum.own = own;
#ifdef PPO__THREADS
    ppo__thread thread;
    const int beside =
        own > 0 && learner->group && shards > 1 && !tape->device && learner->params[0]->count > PPO__CHUNK;
    if (beside) {
        PPO__EVENT_INIT(&sum.walked);
        sum.node = tape->now.nodes;
        sum.nodes = (int)stbds_arrlen(tape->now.nodes);
        if (PPO__THREAD_START(&thread, ppo__sum_beside, &sum)) {
            tape->walked = &sum.walked;
            status = ppo_tape_backward(tape, loss);
            tape->walked = NULL;
            PPO__ATOMIC_STORE(sum.walked.count, INT_MAX - 1); /* all, also if it failed */
            ppo__event_happens(&sum.walked);
            PPO__THREAD_JOIN(thread);
            if (!status && sum.status) status = ppo_fail(sum.status, "%s", sum.error);
            PPO__EVENT_FREE(&sum.walked);
            return status;
        }
        PPO__EVENT_FREE(&sum.walked);
        sum.nodes = 0;
    }
#endif
    if (own > 0) status = ppo_tape_backward(tape, loss);
    if (own > 0 && !status) status = ppo__copy_gradients(learner, 0);
    const ppo_status summed = ppo__sum_chunks(&sum);
    if (!status) status = summed;
    return status ? status : ppo__copy_gradients(learner, 1);
}

/* In a group: every process gets what the losses of all have left for items and micro-batches. */
static ppo_status ppo__share_learned(ppo__learner *learner, const int *item, int n, int shards) {
    const ppo_group *g = learner->group;
    size_t start[PPO_MAX_RANKS + 1];
    ppo_status status = PPO_OK;
    for (int i = 0; i < 4 && !status; ++i) {
        const ppo__learned *one = &learner->learned[i];
        if (!one->data) continue;
        for (int r = 0; r <= g->size; ++r) {
            const int first = ppo__min_int(ppo__first_shard(learner->shards, r, g->size), shards);
            start[r] =
                one->bytes * (size_t)(one->of_items ? ppo__share(n, first, shards)
                                                    : ppo__micros_before(learner, item, n, shards, first));
        }
        status = ppo__group_gather(g, one->data, start);
    }
    return status;
}

/* Puts the samples of this process among those of all for n prompts. Every process gets them, and their
   scores. status: of this process. */
static ppo_status ppo__share_samples(ppo_rlhf *r, int n, ppo_status status, ppo_samples *samples,
                                     float *score) {
    const ppo_group *g = r->learner.group;
    const int k = r->config.samples, own = samples->tokens.count, first = r->generator->first;
    const ppo_tokens *from = &samples->tokens;
    ppo_samples *all = &r->group_samples;
    ppo_tokens *to = &all->tokens;
    size_t start[PPO_MAX_RANKS + 1];
    status = ppo__group_agree(g, status, 0);
    if (status) return status;
    to->count = n * k;
    to->start[0] = 0;
    for (int s = 0; s < own; ++s) {
        to->start[first + s + 1] = from->start[s + 1] - from->start[s]; /* its length */
        to->prompt[first + s] = from->prompt[s];
        all->ended[first + s] = samples->ended[s];
    }
    if (ppo__group_share(g, to->start + 1, n, k * sizeof(int)) ||
        ppo__group_share(g, to->prompt, n, k * sizeof(int)) || ppo__group_share(g, all->ended, n, k) ||
        ppo__group_share(g, score, n, k * sizeof(float)))
        return ppo__failed;
    for (int s = 0; s < n * k; ++s) to->start[s + 1] += to->start[s];
    const struct {
        void *to;
        const void *from;
        size_t bytes;
    } tokens[] = {{to->token, from->token, sizeof(int)},
                  {all->logp, samples->logp, sizeof(float)},
                  {to->given, from->given, 1}};
    for (int i = 0; i < 3 && tokens[i].to; ++i) {
        for (int rank = 0; rank <= g->size; ++rank)
            start[rank] = (size_t)to->start[ppo__share(n, rank, g->size) * k] * tokens[i].bytes;
        if (own)
            memcpy((char *)tokens[i].to + start[g->rank], tokens[i].from,
                   start[g->rank + 1] - start[g->rank]);
        if (ppo__group_gather(g, tokens[i].to, start)) return ppo__failed;
    }
    *samples = *all;
    return PPO_OK;
}

/* Every process gets what the others computed. status: of this process. */
static ppo_status ppo__share_evaluation(ppo_rlhf *r, ppo_status status) {
    const ppo_group *g = ppo__evaluating_group(r);
    const int count = r->learner.data[0]->count;
    float *const rows[] = {r->rows.old_logp, r->rows.entropy, r->rows.value, r->rows.ref_logp};
    size_t start[PPO_MAX_RANKS + 1];
    status = ppo__group_agree(r->learner.group, status, 0);
    if (status || !g) return status;
    for (int k = 0; k <= g->size; ++k)
        start[k] = (size_t)r->first_row[ppo__share(count, k, g->size)] * sizeof(float);
    for (int k = 0; k < 4 && !status; ++k) status = ppo__group_gather(g, rows[k], start);
    return status ? status : ppo__group_share(g, r->end_value, count, sizeof(float));
}

static void ppo__samples_alloc(ppo_rlhf *r) {
    const size_t count = r->sequences, tokens = ppo__at(r->sequences, r->longest);
    ppo_samples *all = &r->group_samples;
    all->tokens.start = PPO__ARRAY(&r->memory, int, count + 1);
    all->tokens.prompt = PPO__ARRAY(&r->memory, int, count);
    all->tokens.token = PPO__ARRAY(&r->memory, int, tokens);
    if (r->config.sampling.tool_token >= 0) all->tokens.given = PPO__ARRAY(&r->memory, unsigned char, tokens);
    all->logp = PPO__ARRAY(&r->memory, float, tokens);
    all->ended = PPO__ARRAY(&r->memory, unsigned char, count);
}

static ppo_status ppo__ranks_learner(ppo_status status, const ppo_settings *settings, const void *config,
                                     const ppo_lm *const lm[3], const ppo_tokens *const data[4],
                                     int64_t step) {
    const ppo_group *g = ppo__group();
    uint64_t hash = ppo__hash_run(settings, config);
    for (int k = 0; k < 3 && !status; ++k) status = ppo__hash_weights(lm[k], &hash);
    status = ppo__group_agree(g, status, 0);
    if (status) return status;
    hash = ppo__fnv1a(hash, &step, sizeof step);
    for (int k = 0; k < 4; ++k)
        if (data[k]) hash = ppo__hash_tokens(hash, data[k]);
    if (ppo__device_in_use)
        hash = ppo__fnv1a(hash, ppo__device_in_use->kind, sizeof ppo__device_in_use->kind);
    return ppo__group_same(g, hash, "version, settings, weights, data, kernels and kind of GPU");
}

PPO__COMPANION_IS(ppo__language_group, ppo__language_in_group,
                  {ppo__group_backward_and_sum, ppo__share_learned, ppo__share_samples, ppo__share_evaluation,
                   ppo__samples_alloc, ppo__ranks_learner});

#endif

PPO__WARNINGS_BACK

#endif
