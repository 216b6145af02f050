/* Processes of a group in tests: children of the program, connected by pipes; and the training of a small
   language model, which they do on the processor and on GPUs. Include this after test.h and system.h. */
#ifndef PPO_TEST_GROUP_H
#define PPO_TEST_GROUP_H

enum { MOST = 8 };

/* What a process of a group reports: hashes and errors, which are compared. */
typedef struct result {
    ppo_status status;
    char error[256];
    uint64_t hash[4];
    int64_t sent, messages;
    int ended; /* without a report */
} result;

/* A group connected by pipes: what rank r writes to rank p goes through link[r][p]. */
typedef struct line {
    int link[MOST][MOST][2];
    int rank;
    int64_t sent, messages;
} line;

static int write_all(int to, const char *data, size_t n) {
    for (ssize_t k; n; data += k, n -= (size_t)k)
        if ((k = write(to, data, n)) <= 0) return 0;
    return 1;
}

static int read_all(int from, char *data, size_t n) {
    for (ssize_t k; n; data += k, n -= (size_t)k)
        if ((k = read(from, data, n)) <= 0) return 0;
    return 1;
}

/* The lower rank writes first, so that no two wait for each other with full pipes. */
static ppo_status exchange(void *user, int peer, const void *send, size_t sent, void *receive,
                           size_t received) {
    line *l = (line *)user;
    const int to = l->link[l->rank][peer][1], from = l->link[peer][l->rank][0], first = l->rank < peer;
    int ok = (sent || received) &&
             (!first || write_all(to, (const char *)send, sent)); /* one may be 0, not both */
    ok = ok && read_all(from, (char *)receive, received);
    ok = ok && (first || write_all(to, (const char *)send, sent));
    l->sent += (int64_t)sent, l->messages++;
    return ok ? PPO_OK : ppo_fail(PPO_ERROR_FILE, "process %d cannot be reached", peer);
}

typedef void (*job_fn)(void *user, const ppo_group *group, result *r);

/* Runs job in `size` processes; results [size].  */
static void run_group(int size, job_fn job, void *user, result *results) {
    static line l;
    int report[MOST][2], child[MOST];
    signal(SIGPIPE, SIG_IGN);
    fflush(NULL);
    for (int r = 0; r < size; r++) {
        assert_int_equal(pipe(report[r]), 0);
        for (int p = 0; p < size; p++) assert_int_equal(pipe(l.link[r][p]), 0);
    }
    for (int rank = 0; rank < size; rank++) {
        child[rank] = fork();
        assert_true(child[rank] >= 0);
        if (child[rank]) continue;
        ppo_group group = {rank, size, exchange, &l};
        result r = {PPO_OK, "", {0}, 0, 0, 0};
        for (int a = 0; a < size; a++) {
            close(report[a][a == rank ? 0 : 1]);
            for (int p = 0; p < size; p++) {
                if (a != rank) close(l.link[a][p][1]);
                if (p != rank) close(l.link[a][p][0]);
            }
        }
        l.rank = rank, l.sent = l.messages = 0;
        alarm(300); /* ends a child that hangs */
        r.status = ppo_use_group(&group);
        if (!r.status) job(user, &group, &r);
        if (r.status) snprintf(r.error, sizeof r.error, "%s", ppo_last_error());
        r.sent = l.sent, r.messages = l.messages;
        write_all(report[rank][1], (const char *)&r, sizeof r);
        _exit(0);
    }
    for (int r = 0; r < size; r++) {
        close(report[r][1]);
        for (int p = 0; p < size; p++) close(l.link[r][p][0]), close(l.link[r][p][1]);
    }
    for (int r = 0; r < size; r++) {
        int how = 0;
        results[r].ended = !read_all(report[r][0], (char *)&results[r], sizeof results[r]);
        close(report[r][0]);
        assert_int_equal(waitpid(child[r], &how, 0), child[r]);
    }
}

static void assert_alike(const result *got, const result *want, int size) {
    for (int r = 0; r < size; r++) {
        assert_string_equal(got[r].error, want->error);
        assert_int_equal(got[r].status, want->status);
        for (int k = 0; k < COUNT(want->hash); k++) assert_int_equal(got[r].hash[k], want->hash[k]);
    }
}

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t n) {
    for (size_t i = 0; i < n; i++) hash = (hash ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
    return hash;
}

static uint64_t hash_params(uint64_t hash, const ppo_params *p) {
    hash = hash_bytes(hash, p->data, p->count * sizeof(float));
    hash = hash_bytes(hash, p->m, p->count * sizeof(float));
    return hash_bytes(hash, p->v, p->count * sizeof(float));
}

/* -- language models -- */

enum { VOCAB = 9, END = 1, CALL = 2 };

typedef struct tuning {
    const char *name, *settings;
    int fit; /* 0: PPO on tokens; 1: on texts, 2: on pairs, 3: on pairs and a reference */
    const char *save, *resume;
    int width;   /* of the model; 0: 8 */
    int threads; /* 0: one */
} tuning;

static ppo_status count_threes(const ppo_samples *samples, float *reward, void *user) {
    const ppo_tokens *t = &samples->tokens;
    (void)user;
    for (int s = 0; s < t->count; s++) {
        reward[s] = 0;
        for (int i = t->start[s] + t->prompt[s]; i < t->start[s + 1]; i++) reward[s] += t->token[i] == 3;
    }
    return PPO_OK;
}

static ppo_status answer_four(const int *text, int length, int *answer, int room, int *count, void *user) {
    (void)text, (void)length, (void)user;
    *count = room > 0;
    if (room > 0) *answer = 4;
    return PPO_OK;
}

static uint64_t hash_rlhf_progress(uint64_t hash, ppo_rlhf_progress p) {
    const float figures[] = {p.reward,      p.reward_std,    p.kl_coef,         p.entropy,
                             p.mean_length, p.distinct,      p.policy_loss,     p.value_loss,
                             p.approx_kl,   p.clip_fraction, p.first_ratio_min, p.first_ratio_max,
                             p.grad_norm,   p.learning_rate};
    const int64_t counts[] = {p.iteration, p.samples, p.tokens, p.gradient_steps, p.refilled};
    hash = hash_bytes(hash, p.warning, strlen(p.warning));
    return hash_bytes(hash_bytes(hash, figures, sizeof figures), counts, sizeof counts);
}

/* What a report of fine-tuning adds to a hash; and the model that is brought back from its GPU in the middle of it. */
typedef struct look {
    uint64_t *hash;
    ppo_params *params;
} look;

static int look_at_fit(const ppo_fit_progress *p, void *user) {
    const look *l = (const look *)user;
    const float figures[] = {p->loss,          p->accuracy,          p->grad_norm, p->learning_rate,
                             p->held_out_loss, p->held_out_accuracy, p->perplexity};
    for (int k = 0; k < COUNT(figures); k++) { /* all NaN are alike */
        const float x = isnan(figures[k]) ? 1e30f : figures[k];
        *l->hash = hash_bytes(*l->hash, &x, sizeof x);
    }
    return p->step > 0 && ppo_params_sync(l->params);
}

static void tune(void *user, const ppo_group *group, result *r) {
    const tuning *t = (const tuning *)user;
    const int wide = t->width ? t->width : 8;
    ppo_lm *lm = random_lm(lm_config(VOCAB, 16, wide, 1, 2), 0.4f), *other = NULL;
    ppo_rlhf_config cfg = ppo_rlhf_config_default();
    ppo_fit_config fit = ppo_fit_config_default();
    ppo_tokens data[2] = {{0}, {0}};
    ppo_rng rng = test_rng(7);
    ppo_rlhf *rlhf = NULL;
    ppo_params *trained = lm->params;
    (void)group;
    if (t->threads && ppo_set_threads(t->threads)) fail_msg("%s", ppo_last_error());
    for (int i = 0; i < SMALL(23, 13); i++)
        for (int k = 0; k < 2; k++) add_random(&data[k], &rng, VOCAB, 4 + (int)ppo_rng_below(&rng, 6), 3);
    fit.batch_size = 10, fit.epochs = 2;
    cfg.prompts = 12, cfg.slots = 3, cfg.minibatch_size = 8, cfg.epochs = 2, cfg.sampling.eos = END;
    if (t->fit) {
        r->status = ppo_settings_set_all(ppo_fit_settings(), &fit, t->settings);
        fit.checkpoint = t->save, fit.checkpoint_every = 2, fit.held_out = t->fit == 1 ? &data[1] : NULL;
        if (!r->status && t->fit > 1) r->status = ppo_lm_copy(lm, t->fit == 2, &other);
        trained = t->fit == 2 && other ? other->params : trained;
        look l = {&r->hash[2], trained};
        fit.callback = look_at_fit, fit.callback_user = &l;
        if (!r->status && t->fit == 1) r->status = ppo_fit_sft(lm, &data[0], &fit);
        if (!r->status && t->fit == 2) r->status = ppo_fit_reward(other, &data[0], &data[1], &fit);
        if (!r->status && t->fit == 3) r->status = ppo_fit_dpo(lm, other, &data[0], &data[1], &fit);
    } else {
        r->status = ppo_settings_set_all(ppo_rlhf_settings(), &cfg, t->settings);
        if (cfg.sampling.tool_token >= 0) cfg.sampling.tool = answer_four;
        if (!r->status && t->resume)
            r->status = ppo_rlhf_resume(t->resume, lm, NULL, NULL, &data[0], count_threes, NULL, &cfg, &rlhf);
        else if (!r->status)
            r->status = ppo_rlhf_create(lm, NULL, NULL, &data[0], count_threes, NULL, &cfg, &rlhf);
        while (!r->status && ppo_rlhf_iterations(rlhf) < 3) {
            ppo_rlhf_progress p;
            r->status = ppo_rlhf_iterate(rlhf, &p);
            r->hash[1] = hash_rlhf_progress(p.iteration > 2 ? 0 : r->hash[1], p);
            if (!r->status && t->save && p.iteration == 2) r->status = ppo_rlhf_save(rlhf, t->save);
        }
    }
    if (!r->status) r->status = ppo_params_sync(trained); /* from a GPU */
    r->hash[0] = hash_params(0, trained);
    ppo_rlhf_free(rlhf);
    ppo_lm_free(other), ppo_lm_free(lm);
    ppo_tokens_free(&data[0]), ppo_tokens_free(&data[1]);
    ppo_set_threads(1);
}

#endif
