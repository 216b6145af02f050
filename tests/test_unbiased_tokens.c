/* The gradient of ppo_rlhf_iterate() and ppo_rlhf_update(), in expectation: for each way to estimate it, the mean of
   many updates is the exact expectation. That is a sum over all answers, or over all groups of answers, whose terms are
   computed here in double precision by the formulas of the manual; the tape differentiates the log-probabilities alone.
   `make stats` runs it with many rounds and prints a table. */
#include "../ppo.h"

#include "../examples/companions/ppo_methods.h"
#include "test.h"
#include "stats.h"

/* --------------------------------------------------------------------------------------------------------
   Prompts, and all that can follow: a tree of tokens
   -------------------------------------------------------------------------------------------------------- */

enum { VOC = 4, EOS = 3, TOOL = 1, ANSWER = 2, LONGEST = 3, PROMPTS = 2 };
enum { NODES = 1 + VOC + VOC * VOC, EDGES = NODES * VOC, LEAVES = VOC * VOC * VOC }; /* of a prompt */

/* Of each token after each beginning of an answer, by prompt. */
typedef struct tree {
    double logp[PROMPTS][EDGES];
    double value[PROMPTS][NODES],
        end[PROMPTS][LEAVES]; /* of the critic: before a token, after a whole answer */
} tree;

/* A beginning of n tokens; the tokens that may follow are edges node * VOC + token. */
static int node_of(const int *token, int n) {
    int code = 0, first = n == 0 ? 0 : n == 1 ? 1 : 1 + VOC;
    for (int i = 0; i < n; i++) code = code * VOC + token[i];
    return first + code;
}

static ppo_lm *policy, *reference, *other, *critic;

/* All answers of `length` tokens to all prompts. */
static ppo_tokens whole_tree(int length) {
    ppo_tokens all = {0};
    int leaves = 1;
    for (int i = 0; i < length; i++) leaves *= VOC;
    for (int p = 0; p < PROMPTS; p++)
        for (int k = 0; k < leaves; k++) {
            int t[2 + LONGEST] = {p, 2};
            for (int i = length - 1, rest = k; i >= 0; i--, rest /= VOC) t[2 + i] = rest % VOC;
            assert_ok(ppo_tokens_add(&all, t, 2 + length, 2));
        }
    return all;
}

static ppo_response respond(ppo_tape *tape, ppo_lm *lm, const ppo_tokens *all, float temperature,
                            int outputs) {
    const ppo_response out = ppo_lm_response(tape, lm, all, temperature, outputs);
    assert_ok(ppo_tape_status(tape));
    return out;
}

/* What a model says of the whole tree: log-probabilities, or values if it is the critic. */
static void look(ppo_lm *lm, const ppo_tokens *all, int length, float temperature, int values, tree *to) {
    ppo_tape *tape = NULL;
    float end[PROMPTS * LEAVES];
    assert_ok(ppo_tape_create(&tape));
    const ppo_response out =
        respond(tape, lm, all, values ? 1 : temperature, values ? PPO_VALUE : PPO_POLICY);
    for (int s = 0, row = 0; s < all->count; s++) {
        const int *t = all->token + all->start[s];
        for (int i = 0; i < length; i++, row++) {
            const int node = node_of(t + 2, i);
            if (values) to->value[t[0]][node] = out.value->data[row];
            else to->logp[t[0]][node * VOC + t[2 + i]] = out.logp->data[row];
        }
    }
    ppo_tape_free(tape);
    if (!values) return;
    assert_ok(ppo_lm_scores(lm, all, 16, end));
    for (int s = 0; s < all->count; s++)
        to->end[s / (all->count / PROMPTS)][s % (all->count / PROMPTS)] = end[s];
}

static int size_of(const ppo_params *params) {
    int n = 0;
    for (int k = 0; k < params->tensor_count; k++) n += params->tensors[k]->rows * params->tensors[k]->cols;
    return n;
}

static void add_gradient(const ppo_params *params, double scale, double *g) {
    for (int k = 0; k < params->tensor_count; k++)
        for (int i = 0; i < params->tensors[k]->rows * params->tensors[k]->cols; i++)
            *g++ += scale * params->tensors[k]->grad[i];
}

/* Adds the gradient of the sum of edge[prompt] logp and node[prompt] value, over the tree; NULL: without. */
static void tree_gradient(ppo_lm *lm, const ppo_tokens *all, int length, float temperature,
                          double (*edge)[EDGES], double (*node)[NODES], double *g) {
    ppo_tape *tape = NULL;
    const int rows = all->count * length;
    float *weight = (float *)calloc((size_t)rows, sizeof *weight);
    unsigned char seen[PROMPTS][EDGES] = {{0}}, met[PROMPTS][NODES] = {{0}};
    assert_ok(ppo_params_freeze(lm->params, 0));
    ppo_params_zero_grad(lm->params);
    assert_ok(ppo_tape_create(&tape));
    const ppo_response out = respond(tape, lm, all, temperature, edge ? PPO_POLICY : PPO_VALUE);
    for (int s = 0, row = 0; s < all->count; s++) {
        const int *t = all->token + all->start[s], p = t[0];
        for (int i = 0; i < length; i++, row++) {
            const int n = node_of(t + 2, i), e = n * VOC + t[2 + i];
            if (edge && !seen[p][e]++) weight[row] = (float)edge[p][e];
            if (node && !met[p][n]++) weight[row] = (float)node[p][n];
        }
    }
    ppo_tensor *x = edge ? out.logp : out.value;
    assert_ok(ppo_tape_backward(
        tape, ppo_tape_sum(tape, ppo_tape_mul(tape, x, ppo_tape_constant(tape, weight, rows, 1)))));
    add_gradient(lm->params, 1, g);
    ppo_tape_free(tape);
    free(weight);
}

/* --------------------------------------------------------------------------------------------------------
   Answers and their rewards
   -------------------------------------------------------------------------------------------------------- */

typedef struct answer {
    int prompt, n, token[LONGEST];
    int rows, at[LONGEST], edge[LONGEST]; /* of its sampled tokens: their positions, and their edges */
    int ended;
    double p; /* under the policy that samples */
} answer;

enum {              /* bits of a method */
       CLAIMS = 1,  /* its expectation is a multiple of the policy gradient of reward and KL */
       JOINT = 2,   /* what is compared are the samples of all prompts of an iteration, not those of one */
       SINGLE = 4,  /* there is one prompt */
       CRITIC = 8,  /* a model of its own */
       SHARED = 16, /* the policy is the critic, too */
       STALE = 32,  /* another policy has sampled */
       TOOLS = 64,
       PAYS_ONCE = 128, /* the reward is 0 or 1 */
       THREADS = 256
};

typedef struct method {
    const char *name, *preset, *settings;
    int length, prompts, bits;
} method;

static const method *now;

static float reward_of(int prompt, const int *token, int n) {
    float r = (float)((prompt * 3 + 1) % 5) * 0.4f;
    if (now->bits & PAYS_ONCE) return token[0] == prompt + 1;
    for (int i = 0; i < n; i++) r += (float)((token[i] * 7 + i * 3 + prompt) % 5) - 1.5f;
    return r;
}

static int ended_rows; /* rows of the samples that were not cut off, of the latest call */

static ppo_status reward_samples(const ppo_samples *samples, float *reward, void *user) {
    const ppo_tokens *t = &samples->tokens;
    (void)user;
    ended_rows = 0;
    for (int s = 0; s < t->count; s++) {
        const int *token = t->token + t->start[s], n = t->start[s + 1] - t->start[s] - 2;
        reward[s] = reward_of(token[0], token + 2, n);
        if (samples->ended[s]) ended_rows += n;
    }
    return PPO_OK;
}

static ppo_status answer_two(const int *token, int n, int *out, int capacity, int *count, void *user) {
    (void)token, (void)n, (void)user, (void)capacity;
    out[0] = ANSWER;
    *count = 1;
    return PPO_OK;
}

enum { MOST_ANSWERS = 64 };

/* Continues an answer in all ways. */
static int continue_answer(const ppo_rlhf_config *c, const tree *acting, answer a, int length, answer *out) {
    int count = 0;
    if (a.ended || a.n == length) {
        *out = a;
        return 1;
    }
    for (int v = 0; v < VOC; v++) {
        answer b = a;
        const int edge = node_of(a.token, a.n) * VOC + v;
        b.p *= exp(acting->logp[a.prompt][edge]);
        b.at[b.rows] = b.n, b.edge[b.rows++] = edge;
        b.token[b.n++] = v;
        b.ended = v == c->sampling.eos;
        if (v == c->sampling.tool_token && b.n < length) b.token[b.n++] = ANSWER;
        count += continue_answer(c, acting, b, length, out + count);
    }
    return count;
}

/* --------------------------------------------------------------------------------------------------------
   The terms of the loss, by the formulas of the manual
   -------------------------------------------------------------------------------------------------------- */

typedef struct terms { /* d expected loss / d log-probability, and / d value */
    double edge[PROMPTS][EDGES], node[PROMPTS][NODES];
} terms;

static tree said, referred, sampled; /* by policy and critic, reference, and the policy that samples */

static void whiten(double *x, int n, int shift) {
    double mean = 0, var = 0;
    for (int i = 0; i < n; i++) mean += x[i] / n;
    for (int i = 0; i < n; i++) var += (x[i] - mean) * (x[i] - mean) / (n - 1);
    for (int i = 0; i < n; i++) {
        const double y = var > 1e-24 ? (x[i] - mean) / sqrt(var) : 0;
        x[i] = shift ? y : y + mean;
    }
}

static double clamped(double x, double low, double high) { return fmin(fmax(x, low), high); }

/* d term / d log pi, for a ratio, of -min(r A, clip(r) A) and the like */
static double objective_term(const ppo_policy_objective *o, double r, double advantage) {
    const double low = 1 - o->clip_low, high = 1 + o->clip_high;
    switch (o->objective) {
    case PPO_CLIP:
        return (advantage >= 0 ? r <= high : r >= low) ? -advantage * r : 0;
    case PPO_CISPO:
        return -advantage * clamped(r, low, high);
    case PPO_K3_PENALTY:
        return -advantage * r + o->kl_coef * (r - 1);
    default:
        return -advantage * r;
    }
}

enum { MOST_SEQUENCES = 3, MOST_ROWS = MOST_SEQUENCES * LONGEST };

/* What the loss is made of, for the answers a [n] that are learned from together. */
typedef struct batch {
    const answer *a[MOST_SEQUENCES];
    int n, rows, first[MOST_SEQUENCES + 1];
    double reward[MOST_ROWS], advantage[MOST_ROWS], target[MOST_ROWS], total[MOST_SEQUENCES],
        earned[MOST_SEQUENCES];
} batch;

static void batch_rewards(const ppo_rlhf_config *c, batch *b) {
    for (int s = 0; s < b->n; s++) {
        const answer *a = b->a[s];
        const int length = now->length, over = a->n - (length - c->overlong_buffer);
        double last = reward_of(a->prompt, a->token, a->n);
        if (c->reward_clip > 0) last = clamped(last, -c->reward_clip, c->reward_clip);
        if (!a->ended) last -= c->missing_eos_penalty;
        if (c->overlong_buffer > 0 && over > 0) last -= c->overlong_penalty * over / c->overlong_buffer;
        b->total[s] = 0;
        for (int i = 0; i < a->rows; i++) {
            const int row = b->first[s] + i;
            const double kl = said.logp[a->prompt][a->edge[i]] - referred.logp[a->prompt][a->edge[i]];
            b->reward[row] = (i + 1 == a->rows ? last : 0) - c->length_penalty;
            if (c->kl_place == PPO_KL_IN_REWARD) b->reward[row] -= c->kl_coef * kl;
            b->total[s] += b->reward[row];
        }
        b->earned[s] = last - c->length_penalty * a->rows;
    }
    if (c->whiten_rewards) whiten(b->reward, b->rows, 0);
}

static void batch_advantages(const ppo_rlhf_config *c, batch *b) {
    const int k = c->samples;
    for (int s = 0; s < b->n; s++) {
        const answer *a = b->a[s];
        const int from = s / k * k;
        double sum = 0, mean = 0, var = 0, next = 0, next_value = 0, whole = 0;
        for (int i = from; i < from + k; i++) sum += b->total[i], mean += b->earned[i] / k;
        for (int i = from; i < from + k; i++)
            var += (b->earned[i] - mean) * (b->earned[i] - mean) / (k > 1 ? k - 1 : 1);
        switch (c->advantage) {
        case PPO_ADVANTAGE_GROUP:
            whole =
                (b->earned[s] - mean) / (sqrt(var) + 1e-4) + (b->total[s] - b->earned[s]) - (sum / k - mean);
            break;
        case PPO_ADVANTAGE_LEAVE_ONE_OUT:
            whole = b->total[s] - (sum - b->total[s]) / (k - 1);
            break;
        case PPO_ADVANTAGE_GROUP_MEAN:
            whole = b->total[s] - sum / k;
            break;
        case PPO_ADVANTAGE_SEQUENCE:
            whole = b->total[s] - said.value[a->prompt][0];
            break;
        default:
            break;
        }
        if (c->bootstrap_truncated && !a->ended) {
            int leaf = 0;
            for (int i = 0; i < a->n; i++) leaf = leaf * VOC + a->token[i];
            next_value = said.end[a->prompt][leaf];
        }
        for (int i = a->rows - 1; i >= 0; i--) {
            const int row = b->first[s] + i;
            const double v = now->bits & (CRITIC | SHARED) ? said.value[a->prompt][a->edge[i] / VOC] : 0;
            const double lambda = c->advantage == PPO_ADVANTAGE_RETURN ? 1 : c->gae_lambda;
            next = b->reward[row] + c->gamma * next_value - v + c->gamma * lambda * next;
            next_value = v;
            const int by_token = c->advantage == PPO_ADVANTAGE_GAE || c->advantage == PPO_ADVANTAGE_RETURN;
            b->advantage[row] = by_token ? next : whole;
            b->target[row] = by_token ? next + v : b->total[s];
        }
    }
    const int usual = c->advantage == PPO_ADVANTAGE_GAE || c->advantage == PPO_ADVANTAGE_SEQUENCE ||
                      c->advantage == PPO_ADVANTAGE_RETURN;
    if (c->whiten_advantages < 0 ? usual : c->whiten_advantages) whiten(b->advantage, b->rows, 1);
}

/* Samples of another policy: the weights of their advantages. */
static void batch_importance(const ppo_rlhf_config *c, batch *b) {
    const int mask = c->importance_mode == PPO_TOKEN_MASK || c->importance_mode == PPO_SEQUENCE_MASK;
    for (int s = 0; s < b->n; s++) {
        const answer *a = b->a[s];
        double sum = 0;
        for (int i = 0; i < a->rows; i++)
            sum += said.logp[a->prompt][a->edge[i]] - sampled.logp[a->prompt][a->edge[i]];
        for (int i = 0; i < a->rows; i++) {
            const double own = said.logp[a->prompt][a->edge[i]] - sampled.logp[a->prompt][a->edge[i]];
            const double r = exp(c->importance_mode >= PPO_SEQUENCE_TRUNCATE ? sum : own);
            const double within = clamped(r, c->importance_floor, c->importance_cap);
            b->advantage[b->first[s] + i] *= mask && within != r ? 0 : within;
        }
    }
}

/* Adds what has no sample of its own to the edges of a node: the entropy bonus, and the exact KL. */
static void add_distribution(const ppo_rlhf_config *c, int prompt, int node, double entropy, double kl,
                             double *edge) {
    for (int v = 0; v < VOC; v++) {
        const int e = node * VOC + v;
        const double logp = said.logp[prompt][e], p = exp(logp);
        edge[e] +=
            p * (entropy * c->entropy_coef * logp + kl * c->kl_coef * (logp - referred.logp[prompt][e]));
    }
}

/* d KL term / d log pi of a sampled token, by the estimators of section 9; r: the ratio, which weights it. */
static double kl_term(const ppo_rlhf_config *c, double l, double r) { /* l = log pi - log ref */
    const double k = c->kl_estimator == PPO_K3 ? exp(-l) - 1 + l : c->kl_estimator == PPO_K2 ? l * l / 2 : l;
    const double d = c->kl_estimator == PPO_K3 ? 1 - exp(-l) : c->kl_estimator == PPO_K2 ? l : 1;
    return c->kl_weighted ? r * (k + d) : d;
}

/* Adds p times the derivatives of the batch's loss. */
static void add_batch(const ppo_rlhf_config *c, batch *b, double p, terms *to) {
    int n = 0, rows = 0;
    const double longest = now->length;
    b->rows = 0;
    for (int s = 0; s < b->n; s++) b->first[s] = b->rows, b->rows += b->a[s]->rows;
    b->first[b->n] = b->rows;
    batch_rewards(c, b);
    batch_advantages(c, b);
    if (c->importance_cap > 0) batch_importance(c, b);
    for (int s = 0; s < b->n; s++)
        if (b->a[s]->ended || !c->mask_truncated) n++, rows += b->a[s]->rows;
    for (int s = 0; s < b->n; s++) {
        const answer *a = b->a[s];
        double mean = 0;
        if (!a->ended && c->mask_truncated) continue;
        const tree *old = c->importance_cap > 0 ? &said : &sampled;
        for (int i = 0; i < a->rows; i++)
            mean += (said.logp[a->prompt][a->edge[i]] - old->logp[a->prompt][a->edge[i]]) / a->rows;
        for (int i = 0; i < a->rows; i++) {
            const int e = a->edge[i], node = e / VOC;
            const double weight = c->aggregation == PPO_AGGREGATE_TOKENS      ? 1.0 / rows
                                  : c->aggregation == PPO_AGGREGATE_SEQUENCES ? 1.0 / n / a->rows
                                                                              : 1.0 / n / longest;
            const double own = exp(said.logp[a->prompt][e] - old->logp[a->prompt][e]);
            const double r = c->ratio == PPO_RATIO_SEQUENCE ? exp(mean) : own;
            double d = weight * objective_term(&c->objective, r, b->advantage[b->first[s] + i]);
            const int in_loss = c->kl_place == PPO_KL_IN_LOSS, exact = c->kl_estimator == PPO_KL_EXACT;
            if (in_loss && !exact)
                d += weight * c->kl_coef *
                     kl_term(c, said.logp[a->prompt][e] - referred.logp[a->prompt][e], own);
            to->edge[a->prompt][e] += p * d;
            add_distribution(c, a->prompt, node, p / rows, in_loss && exact ? p * weight : 0,
                             to->edge[a->prompt]);
            if (now->bits & (CRITIC | SHARED))
                to->node[a->prompt][node] +=
                    p / rows * c->value_coef * (said.value[a->prompt][node] - b->target[b->first[s] + i]);
        }
    }
}

/* Over all ways in which the samples that are learned from together can come out. */
static void each_batch(const ppo_rlhf_config *c, answer (*answers)[MOST_ANSWERS], const int *count, batch *b,
                       int sequences, int prompt, double p, terms *to) {
    if (b->n == sequences) {
        int same = 1;
        if (c->refills) { /* a group of equal rewards is replaced, at most so often; the last one teaches nothing */
            double equal = 0, q[2] = {0, 0};
            for (int i = 0; i < count[prompt]; i++)
                q[reward_of(prompt, answers[prompt][i].token, answers[prompt][i].n) > 0.5] +=
                    answers[prompt][i].p;
            equal = pow(q[0], sequences) + pow(q[1], sequences);
            for (int s = 1; s < b->n; s++)
                same &= reward_of(prompt, b->a[s]->token, 0) == reward_of(prompt, b->a[0]->token, 0);
            if (same) p *= pow(equal, c->refills);
            else p *= (1 - pow(equal, c->refills + 1)) / (1 - equal);
        }
        add_batch(c, b, p, to);
        return;
    }
    const int of = now->bits & JOINT ? b->n / c->samples : prompt, s = b->n++;
    for (int i = 0; i < count[of]; i++) {
        b->a[s] = &answers[of][i];
        each_batch(c, answers, count, b, sequences, prompt, p * answers[of][i].p, to);
        b->n = s + 1;
    }
    b->n = s;
}

/* The policy gradient of reward - kl_coef KL, as a loss. */
static void true_terms(const ppo_rlhf_config *c, answer (*answers)[MOST_ANSWERS], const int *count,
                       int prompts, terms *to) {
    for (int p = 0; p < prompts; p++)
        for (int k = 0; k < count[p]; k++) {
            const answer *a = &answers[p][k];
            double probability = 1, total;
            batch b = {{a}, 1, a->rows, {0, a->rows}, {0}, {0}, {0}, {0}, {0}};
            batch_rewards(c, &b);
            total = b.total[0];
            for (int i = 0; i < a->rows; i++) {
                const double l = said.logp[p][a->edge[i]] - referred.logp[p][a->edge[i]];
                probability *= exp(said.logp[p][a->edge[i]]);
                if (c->kl_place == PPO_KL_IN_LOSS) total -= c->kl_coef * l;
            }
            for (int i = 0; i < a->rows; i++) to->edge[p][a->edge[i]] -= probability * total;
        }
}

/* --------------------------------------------------------------------------------------------------------
   The library's gradients
   -------------------------------------------------------------------------------------------------------- */

static ppo_lm *some_lm(uint64_t seed, int score) {
    ppo_lm_config c = lm_config(VOC, 2 + LONGEST + 1, 4, 1, 1);
    ppo_lm *lm;
    c.seed = seed, c.score = score, c.hidden = 4;
    lm = random_lm(c, 0.5f);
    return lm;
}

static int make_models(void **state) {
    (void)state;
    policy = some_lm(1, 1), reference = some_lm(2, 0), other = some_lm(3, 0), critic = some_lm(4, 1);
    for (int k = 0; k < other->params->tensor_count; k++) { /* not too far from the policy */
        const ppo_tensor *to = other->params->tensors[k], *from = policy->params->tensors[k];
        ppo_rng rng = test_rng(90 + (uint32_t)k);
        for (int i = 0; i < to->rows * to->cols; i++)
            to->data[i] = from->data[i] + 0.1f * ppo_rng_normal(&rng);
    }
    return 0;
}

static int free_models(void **state) {
    (void)state;
    ppo_lm_free(policy), ppo_lm_free(reference), ppo_lm_free(other), ppo_lm_free(critic);
    return 0;
}

static ppo_rlhf_config method_config(const method *m, int *longest) {
    ppo_rlhf_config c = ppo_rlhf_config_default();
    char text[64];
    *longest = m->length;
    if (m->preset) assert_ok(ppo_rlhf_config_preset(&c, m->preset));
    if (c.samples > 3) c.samples = 3;
    assert_ok(
        ppo_settings_set_all(ppo_rlhf_settings(), &c,
                             "epochs=1 target_kl=0 max_grad_norm=0 learning_rate=0 normalize_rewards=no "
                             "slots=12 minibatch_size=1000000"));
    assert_ok(ppo_settings_set_all(ppo_rlhf_settings(), &c, m->settings));
    snprintf(text, sizeof text, "max_new_tokens=%d prompts=%d", *longest, m->prompts);
    assert_ok(ppo_settings_set_all(ppo_rlhf_settings(), &c, text));
    c.seed = seed_of(m->name, 0);
    if (m->bits & TOOLS) c.sampling.tool_token = TOOL, c.sampling.tool = answer_two;
    return c;
}

/* Of one iteration, to g: those of the policy, then those of the critic. */
static void one_update(const method *m, ppo_rlhf *rlhf, const ppo_rlhf_config *c, ppo_generator *generator,
                       const ppo_tokens *prompts, long round, int64_t *tokens, double *g) {
    ppo_rlhf_progress p;
    double rows;
    if (generator) { /* another policy samples */
        ppo_samples samples;
        float reward[64];
        ppo_sampling sampling = c->sampling;
        sampling.seed = seed_of(m->name, round);
        assert_true(prompts->count <= COUNT(reward));
        assert_ok(ppo_generate(generator, prompts, &sampling, &samples));
        assert_ok(reward_samples(&samples, reward, NULL));
        assert_ok(ppo_rlhf_update(rlhf, &samples, reward, &p));
    } else assert_ok(ppo_rlhf_iterate(rlhf, &p));
    rows = (double)(p.tokens - *tokens);
    *tokens = p.tokens;
    if (c->mask_truncated) rows = ended_rows;
    if (c->minibatch_size < c->prompts * c->samples)
        rows = (double)c->minibatch_size * c->sampling.max_new_tokens;
    if (!p.gradient_steps) return;
    add_gradient(policy->params, 1 / rows, g);
    if (m->bits & CRITIC) add_gradient(critic->params, 1 / rows, g + size_of(policy->params));
}

static void compare_method(const method *m) {
    static answer answers[PROMPTS][MOST_ANSWERS];
    static terms expected, truth;
    int count[PROMPTS], longest, all_prompts = m->bits & SINGLE ? 1 : PROMPTS;
    ppo_tokens prompts = {0}, asked = {0};
    ppo_rlhf *rlhf = NULL;
    ppo_generator *generator = NULL;
    const answer empty = {0, 0, {0}, 0, {0}, {0}, 0, 1};
    now = m;
    const ppo_rlhf_config c = method_config(m, &longest);
    const int uses_reference = c.kl_coef > 0;
    ppo_tokens all = whole_tree(longest);
    assert_ok(ppo_set_threads(m->bits & THREADS ? 3 : 1));

    look(policy, &all, longest, c.sampling.temperature, 0, &said);
    if (uses_reference) look(reference, &all, longest, c.sampling.temperature, 0, &referred);
    else referred = said;
    if (m->bits & (CRITIC | SHARED)) look(m->bits & SHARED ? policy : critic, &all, longest, 1, 1, &said);
    sampled = said;
    if (m->bits & STALE) look(other, &all, longest, c.sampling.temperature, 0, &sampled);
    memset(&expected, 0, sizeof expected), memset(&truth, 0, sizeof truth);
    for (int p = 0; p < all_prompts; p++) {
        answer start = empty;
        start.prompt = p;
        count[p] = continue_answer(&c, &sampled, start, longest, answers[p]);
    }
    for (int p = 0; p < (m->bits & JOINT ? 1 : all_prompts); p++) {
        batch b = {0};
        each_batch(&c, answers, count, &b, m->bits & JOINT ? all_prompts * c.samples : c.samples, p,
                   m->bits & JOINT ? 1 : 1.0 / all_prompts, &expected);
    }
    true_terms(&c, answers, count, all_prompts, &truth);

    const int size = size_of(policy->params), more = m->bits & CRITIC ? size_of(critic->params) : 0;
    double want[MOST_COORDINATES] = {0}, gradient[MOST_COORDINATES] = {0}, only[MOST_COORDINATES] = {0},
           g[MOST_COORDINATES];
    tree_gradient(policy, &all, longest, c.sampling.temperature, truth.edge, NULL, gradient);
    tree_gradient(policy, &all, longest, c.sampling.temperature, expected.edge, NULL, only);
    memcpy(want, only, sizeof want);
    if (m->bits & (CRITIC | SHARED))
        tree_gradient(m->bits & SHARED ? policy : critic, &all, longest, 1, NULL, expected.node,
                      want + (m->bits & CRITIC ? size : 0));
    const double own = stat_angle(only, gradient, size);
    if (m->bits & CLAIMS && own > 1e-4) fail_msg("%s: the expectation is off by %g", m->name, own);

    for (int p = 0; p < all_prompts; p++) {
        const int t[2] = {p, 2};
        assert_ok(ppo_tokens_add(&prompts, t, 2, 2));
    }
    for (int i = 0; i < c.prompts * c.samples; i++)
        assert_ok(ppo_tokens_add_from(&asked, &prompts, i / c.samples % all_prompts));
    assert_ok(ppo_rlhf_create(policy, uses_reference ? reference : NULL,
                              m->bits & SHARED              ? policy
                              : m->bits & (CRITIC | SHARED) ? critic
                                                            : NULL,
                              &prompts, reward_samples, NULL, &c, &rlhf));
    if (m->bits & STALE) assert_ok(ppo_generator_create(other, c.slots, &generator));
    estimate *s = stat_begin(size + more, want);
    int64_t tokens = 0;
    const long rounds =
        (long_stats() ? 400000 : 4000) / (c.prompts * c.samples); /* as many answers of each method */
    for (long i = 0; i < rounds; i++) {
        memset(g, 0, sizeof g);
        one_update(m, rlhf, &c, generator, &asked, i, &tokens, g);
        stat_add(s, g);
    }
    ppo_rlhf_free(rlhf);
    ppo_generator_free(generator);
    ppo_tokens_free(&prompts), ppo_tokens_free(&asked), ppo_tokens_free(&all);
    assert_ok(ppo_set_threads(1));
    stat_end(s, m->name, m->bits & SHARED || c.entropy_coef != 0 ? -1 : own);
}

#define KL_LOSS "samples=2 advantage=leave-one-out kl_place=loss kl_coef=0.3 "
#define OTHER   "samples=2 advantage=leave-one-out kl_coef=0 "
static const method methods[] = {
    /* name, preset, settings, tokens of the longest answer, prompts of an iteration, bits */
    {"ppo: GAE 0.95, KL in the reward", "ppo", "whiten_advantages=no kl_coef=0.3", 2, 4, CRITIC},
    {"GAE 1, KL in the reward", NULL, "gae_lambda=1 whiten_advantages=no kl_coef=0.3", 2, 4, CLAIMS | CRITIC},
    {"ppo, whitened over two samples", "ppo", "kl_coef=0.3", 2, PROMPTS, JOINT | CRITIC},
    {"ppo, gamma 0.9, bootstrap of answers cut off", "ppo",
     "gamma=0.9 gae_lambda=0.9 whiten_advantages=no eos=3 bootstrap_truncated=yes", 2, PROMPTS,
     JOINT | CRITIC},
    {"ppo, whitened rewards", "ppo", "whiten_advantages=no whiten_rewards=yes", 2, PROMPTS, JOINT | CRITIC},
    {"ppo, the critic is the policy", "ppo", "whiten_advantages=no kl_coef=0.3", 2, 4, SHARED},
    {"sequence: R - V(prompt)", NULL, "advantage=sequence whiten_advantages=no kl_coef=0.3", 2, 4,
     CLAIMS | CRITIC},
    {"rloo, fixed length", "rloo", "kl_coef=0.3", 2, 4, CLAIMS},
    {"rloo, with an eos, constant", "rloo", "kl_coef=0.3 eos=3 aggregation=constant", 2, 4, CLAIMS},
    {"rloo, with an eos, mean over tokens: known bias", "rloo", "kl_coef=0.3 eos=3", 2, 1, 0},
    {"rloo, with an eos, mean over sequences: known bias", "rloo", "kl_coef=0.3 eos=3 aggregation=sequences",
     2, 4, 0},
    {"grpo: divided by the std, k3 in the loss", "grpo", "kl_coef=0.3 eos=3", 2, 4, 0},
    {"dr-grpo: (k - 1) / k of the gradient", "dr-grpo", "eos=3", 2, 4, CLAIMS},
    {"dapo: refills, overlong penalty", "dapo", "eos=3 overlong_buffer=1 overlong_penalty=0.5", 2, 1,
     SINGLE | PAYS_ONCE},
    {"gspo", "gspo", "eos=3", 2, 4, 0},
    {"cispo", "cispo", "eos=3", 2, 1, 0},
    {"reinforce++: returns, gamma 0.9", "reinforce++", "gamma=0.9 whiten_advantages=no kl_coef=0.3", 2, 4, 0},
    {"reinforce++: returns, not whitened", "reinforce++", "whiten_advantages=no kl_coef=0.3", 2, 4, CLAIMS},
    {"reinforce++, whitened over two samples", "reinforce++", "eos=3", 2, PROMPTS, JOINT},
    {"reinforce++-baseline: whitened, k2 in the loss", "reinforce++-baseline", "eos=3 kl_coef=0.3", 2, 1, 0},
    {"answers of 3 tokens, 2 samples, temperature 0.7", "rloo",
     "samples=2 temperature=0.7 eos=3 aggregation=constant", 3, 4, CLAIMS},
    {"tokens of a tool are given", "rloo", "samples=2 aggregation=constant kl_coef=0.3", 3, 4,
     CLAIMS | TOOLS},
    {"answers cut off are left out", "rloo", "kl_coef=0 eos=3 mask_truncated=yes", 2, 1, 0},
    {"penalties of length and end, clipped rewards", "rloo",
     "kl_coef=0 eos=3 aggregation=constant length_penalty=0.2 missing_eos_penalty=1 reward_clip=1.5", 2, 4,
     CLAIMS},
    {"entropy bonus 0.3", "rloo", "kl_coef=0 eos=3 entropy_coef=0.3", 2, 1, 0},
    {"3 threads, 4 shards, micro-batches of 1", "rloo", "shards=4 micro_batch=1 kl_coef=0.3", 2, 4,
     CLAIMS | THREADS},
    {"the last of two epochs of 3 minibatches", "rloo", "epochs=2 minibatch_size=4 kl_coef=0.3", 2, 4,
     CLAIMS},
    {"k1 times the ratio in the loss", NULL, KL_LOSS "kl_estimator=k1 kl_weighted=yes", 2, 4, 0},
    {"k2 in the loss", NULL, KL_LOSS "kl_estimator=k2", 2, 4, 0},
    {"k3 in the loss", NULL, KL_LOSS "kl_estimator=k3", 2, 4, 0},
    {"k3 times the ratio in the loss", NULL, KL_LOSS "kl_estimator=k3 kl_weighted=yes", 2, 4, 0},
    {"the exact KL in the loss", NULL, KL_LOSS "kl_estimator=exact", 2, 4, 0},
    {"another policy sampled: k3 times the ratio", NULL, KL_LOSS "kl_estimator=k3 kl_weighted=yes", 2, 4,
     STALE},
    {"another policy sampled: clip", NULL, OTHER "clip_low=0.1", 2, 4, STALE},
    {"another policy sampled: unclipped", NULL, OTHER "objective=unclipped", 2, 4, STALE},
    {"another policy sampled: k3 penalty", NULL, OTHER "objective=k3-penalty objective_kl_coef=0.5", 2, 4,
     STALE},
    {"another policy sampled: cispo", NULL, OTHER "objective=cispo", 2, 4, STALE},
    {"another policy sampled: ratio of the sequence", NULL,
     OTHER "eos=3 ratio=sequence clip_low=0.1 aggregation=sequences", 2, 4, STALE},
    {"importance, token-truncate 0.8 to 1.25", NULL, OTHER "importance_cap=1.25 importance_floor=0.8", 2, 4,
     STALE},
    {"importance, token-mask", NULL,
     OTHER "importance_cap=1.25 importance_floor=0.8 importance_mode=token-mask", 2, 4, STALE},
    {"importance, sequence-truncate", NULL,
     OTHER "importance_cap=1.25 importance_floor=0.8 importance_mode=sequence-truncate", 2, 4, STALE},
    {"importance, sequence-mask", NULL,
     OTHER "importance_cap=1.25 importance_floor=0.8 importance_mode=sequence-mask", 2, 4, STALE},
    {"importance of the sequence, no bound, 1 sample", NULL,
     "samples=1 advantage=return whiten_advantages=no kl_coef=0 importance_cap=1e6 "
     "importance_mode=sequence-truncate",
     2, 4, CLAIMS | STALE},
};

static void every_method_has_its_expectation(void **state) {
    (void)state;
    for (int k = 0; k < COUNT(methods); k++) compare_method(&methods[k]);
}

int main(void) {
    stat_head("TOKENS");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method_has_its_expectation),
    };
    const int failed = cmocka_run_group_tests(tests, make_models, free_models);
    stat_foot();
    return failed;
}
