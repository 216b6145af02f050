/* Section 22: rewards of tokens, advantages, PPO on tokens, best-of-n; against a recorded batch of TRL. */
#define PPO_NO_CONTROL
#define PPO_NO_REPORTS
#define PPO_IMPLEMENTATION
#include "../ppo.h"
#include "../examples/companions/ppo_hub.h"
#include "../examples/companions/ppo_judge.h"
#include "../examples/companions/ppo_methods.h"
#include "../examples/companions/ppo_resume.h"
#include "test.h"
#include "system.h"

#include "golden/language.h"
#include "golden/token_losses.h"

enum { EOS = 0, BOS = 1, GOOD = 3, VOCAB = 7, POSITIONS = 10 };

static ppo_lm *small_lm(int vocab, int context, int score) {
    ppo_lm_config c = lm_config(vocab, context, 8, 1, 2);
    ppo_lm *lm = NULL;
    c.score = score, c.seed = 5;
    assert_ok(ppo_lm_create(&c, &lm));
    ppo_rng rng =
        test_rng(3); /* larger weights than at the start of a training, so that every part matters */
    for (size_t i = 0; i < lm->params->count; i++) {
        if (lm->params->data[i] != 0) lm->params->data[i] *= 5;
    }
    for (int i = 0; score && i < 8; i++) lm->score_weight->data[i] = ppo_rng_range(&rng, -0.3f, 0.3f);
    return lm;
}

/* `count` prompts of one or two tokens. */
static ppo_tokens some_prompts(int count) {
    ppo_tokens prompts = {0};
    for (int s = 0; s < count; s++) {
        int token[2] = {BOS, 2 + s % 5};
        assert_ok(ppo_tokens_add(&prompts, token, 1 + s % 2, 1 + s % 2));
    }
    return prompts;
}

/* People want the token GOOD. */
static int reward_calls;
static ppo_status count_good(const ppo_samples *samples, float *reward, void *user) {
    const ppo_tokens *t = &samples->tokens;
    reward_calls++;
    for (int s = 0; s < t->count; s++) {
        reward[s] = 0;
        for (int i = t->start[s] + t->prompt[s]; i < t->start[s + 1]; i++) reward[s] += t->token[i] == GOOD;
        if (user) *(int *)user += t->start[s + 1] - t->start[s] - t->prompt[s];
    }
    return PPO_OK;
}

static ppo_rlhf_config small_config(void) {
    ppo_rlhf_config c = ppo_rlhf_config_default();
    c.prompts = 8, c.slots = 3, c.minibatch_size = 4, c.epochs = 2, c.learning_rate = 3e-3f;
    c.normalize_rewards = 0, c.target_kl = 0; /* formulas are simpler without; they have tests of their own */
    c.sampling.eos = EOS;
    return c;
}

typedef struct bench {
    ppo_lm *policy;
    ppo_tokens prompts;
    ppo_rlhf *rlhf;
} bench;

static bench begin(const ppo_rlhf_config *c) {
    bench b = {small_lm(VOCAB, POSITIONS, 1), some_prompts(5), NULL};
    assert_ok(ppo_rlhf_create(b.policy, NULL, b.policy, &b.prompts, count_good, NULL, c, &b.rlhf));
    return b;
}

/* The critic is the library's own. */
static bench begin_separate(const ppo_rlhf_config *c) {
    bench b = {small_lm(VOCAB, POSITIONS, 0), some_prompts(5), NULL};
    assert_ok(ppo_rlhf_create(b.policy, NULL, NULL, &b.prompts, count_good, NULL, c, &b.rlhf));
    return b;
}

static void end(bench *b) {
    ppo_rlhf_free(b->rlhf);
    ppo_lm_free(b->policy);
    ppo_tokens_free(&b->prompts);
}

/* --------------------------------------------------------------------------------------------------------
   Against TRL
   -------------------------------------------------------------------------------------------------------- */

/* The recorded responses after a prompt of one token; rows are what is real of the padded arrays. */
static ppo_samples recorded_samples(ppo_tokens *tokens, unsigned char ended[4], float *logp) {
    ppo_samples samples = {{0}, logp, ended};
    for (int s = 0; s < g_trl_n; s++) {
        int token[1 + g_trl_width] = {2}, n = g_trl_length[s];
        memcpy(token + 1, g_trl_response + s * g_trl_width, (size_t)n * sizeof(int));
        ended[s] = token[n] == g_trl_eos;
        assert_ok(ppo_tokens_add(tokens, token, 1 + n, 1));
    }
    samples.tokens = *tokens;
    return samples;
}

static int pack(const float *padded, float *rows) {
    int n = 0;
    for (int s = 0; s < g_trl_n; s++)
        for (int t = 0; t < g_trl_length[s]; t++) rows[n++] = padded[s * g_trl_width + t];
    return n;
}

static void assert_rows(const float *got, const float *padded) {
    float want[g_trl_n * g_trl_width];
    int n = pack(padded, want);
    assert_close_array(got, want, n, 2e-6);
}

static void rewards_and_advantages_are_those_of_trl(void **state) {
    (void)state;
    int vocab = 0;
    for (int i = 0; i < g_trl_n * g_trl_width; i++)
        vocab = g_trl_response[i] > vocab ? g_trl_response[i] : vocab;
    for (int white = 0; white < 2; white++) {
        for (int whiten_advantages = 0; whiten_advantages < 2; whiten_advantages++) {
            ppo_rlhf_config c = small_config();
            ppo_lm *policy = small_lm(vocab + 1, 1 + g_trl_width, 1);
            ppo_tokens prompts = {0}, tokens = {0};
            ppo_rlhf *r = NULL;
            unsigned char ended[4];
            float logp[64] = {0};
            const int first = 2;
            assert_ok(ppo_tokens_add(&prompts, &first, 1, 1));
            c.prompts = g_trl_n, c.kl_coef = g_trl_kl_coef, c.gamma = g_trl_gamma, c.gae_lambda = g_trl_lam;
            c.missing_eos_penalty = g_trl_eos_penalty, c.whiten_rewards = white;
            c.whiten_advantages = whiten_advantages;
            assert_ok(ppo_rlhf_create(policy, NULL, NULL, &prompts, count_good, NULL, &c, &r));
            ppo_samples samples = recorded_samples(&tokens, ended, logp);
            pack(g_trl_logp, r->rows.old_logp);
            pack(g_trl_ref_logp, r->rows.ref_logp);
            int n = pack(g_trl_value, r->rows.value);
            float kl[64];
            assert_ok(ppo_kl_estimate(r->rows.old_logp, r->rows.ref_logp, n, PPO_K1, kl));
            assert_rows(kl, g_trl_kl);
            ppo__rlhf_index(r, &samples.tokens);
            ppo__rlhf_next_values(r, &samples);
            assert_ok(ppo__rlhf_rewards(r, &samples, g_trl_score));
            assert_rows(r->rows.reward, white ? g_trl_reward_last_white : g_trl_reward_last);
            assert_ok(ppo__rlhf_advantages(r, &samples));
            assert_rows(r->rows.advantage,
                        white ? whiten_advantages ? g_trl_advantage_last_white : g_trl_gae_last_white
                        : whiten_advantages ? g_trl_advantage_last
                                            : g_trl_gae_last);
            assert_rows(r->rows.value_target, white ? g_trl_return_last_white : g_trl_return_last);
            ppo_rlhf_free(r);
            ppo_lm_free(policy);
            ppo_tokens_free(&prompts);
            ppo_tokens_free(&tokens);
        }
    }
}

static void losses_and_their_gradients_are_those_of_trl(void **state) {
    (void)state;
    enum { MOST = g_trl_n * g_trl_width };
    float logp[MOST], old[MOST], advantage[MOST], value[MOST], old_value[MOST], target[MOST];
    float grad[MOST], loss;
    ppo_policy_stats stats;
    ppo_policy_objective objective = ppo_policy_objective_default();
    int n = pack(g_trl_new_logp, logp);
    pack(g_trl_logp, old), pack(g_trl_advantage_last, advantage), pack(g_trl_new_value, value);
    pack(g_trl_value, old_value), pack(g_trl_return_last, target);
    objective.clip_low = objective.clip_high = g_trl_cliprange;
    assert_ok(ppo_policy_loss(logp, old, advantage, NULL, n, &objective, &stats, grad));
    assert_close(stats.loss, g_trl_new_pg_loss_last, 1e-5);
    assert_close(stats.ratio_mean, g_trl_new_ratio_mean_masked, 1e-6);
    assert_rows(grad, g_trl_new_grad_logp_last);
    assert_ok(ppo_value_loss(value, old_value, target, NULL, n, g_trl_cliprange_value, &loss, grad));
    assert_close(loss, g_trl_new_vf_loss_last, 1e-6);
    assert_rows(grad, g_trl_new_grad_value_last);
}

static void group_and_leave_one_out_advantages_are_those_of_trl(void **state) {
    (void)state;
    for (int kind = PPO_ADVANTAGE_GROUP; kind <= PPO_ADVANTAGE_LEAVE_ONE_OUT; kind++) {
        ppo_rlhf_config c = small_config();
        const float *want = kind == PPO_ADVANTAGE_GROUP ? g_groups_grpo : g_groups_rloo;
        c.prompts = g_groups_prompts, c.samples = g_groups_k, c.advantage = kind;
        bench b = begin(&c);
        memcpy(b.rlhf->total, g_groups_reward, sizeof g_groups_reward);
        memcpy(b.rlhf->earned, g_groups_reward, sizeof g_groups_reward);
        for (int s = 0; s < g_groups_prompts * g_groups_k; s++) {
            b.rlhf->first_row[s] = s, b.rlhf->first_row[s + 1] = s + 1;
            assert_ok(ppo__sequence_advantage(b.rlhf, s));
            assert_close(b.rlhf->rows.advantage[s], want[s], 1e-5);
        }
        end(&b);
    }
}

static void the_sequence_advantage_is_the_reward_less_the_value_of_the_prompt(void **state) {
    (void)state;
    ppo_rlhf_config c = small_config();
    c.advantage = PPO_ADVANTAGE_SEQUENCE;
    bench b = begin(&c);
    b.rlhf->total[1] = 3, b.rlhf->first_row[1] = 4, b.rlhf->first_row[2] = 7, b.rlhf->rows.value[4] = 0.5f;
    assert_ok(ppo__sequence_advantage(b.rlhf, 1));
    for (int row = 4; row < 7; row++) {
        assert_close(b.rlhf->rows.advantage[row], 2.5, 1e-6);
        assert_close(b.rlhf->rows.value_target[row], 3, 1e-6);
    }
    end(&b);
}

/* What the comment of PPO_ADVANTAGE_... says that each needs. */
static void advantages_need_a_critic_or_several_samples(void **state) {
    (void)state;
    static const char *const words[] = {"gae", "sequence", "group", "leave-one-out", "group-mean", "return"};
    ppo_lm *plain = small_lm(VOCAB, POSITIONS, 0);
    ppo_tokens prompts = some_prompts(3);
    assert_int_equal(COUNT(ppo__advantage_needs), COUNT(words));
    for (int kind = 0; kind < COUNT(words); kind++) {
        ppo_rlhf_config c = small_config();
        ppo_rlhf *r = NULL;
        char word[32];
        assert_ok(ppo_settings_set(ppo_rlhf_settings(), &c, "advantage", words[kind]));
        assert_ok(ppo_settings_get(ppo_rlhf_settings(), &c, "advantage", word, sizeof word));
        assert_int_equal(c.advantage, kind);
        assert_string_equal(word, words[kind]);
        if (kind < PPO_ADVANTAGE_RETURN)
            assert_fails(ppo_rlhf_create(plain, NULL, plain, &prompts, count_good, NULL, &c, &r),
                         PPO_ERROR_ARGUMENT,
                         kind < 2 ? "critic has no score" : "samples is 1|2 or more of a prompt");
        c.samples = 2;
        assert_ok(ppo_rlhf_create(plain, NULL, NULL, &prompts, count_good, NULL, &c, &r));
        ppo_rlhf_free(r);
    }
    ppo_lm_free(plain);
    ppo_tokens_free(&prompts);
}

/* --------------------------------------------------------------------------------------------------------
   An iteration
   -------------------------------------------------------------------------------------------------------- */

static void the_first_minibatch_has_ratios_of_exactly_one(void **state) {
    (void)state;
    FOR_KERNEL_SETS(set) for (int i = 0; i < 16; i++) {
        ppo_rlhf_config c = small_config();
        ppo_rlhf_progress p;
        c.sampling.temperature = i & 1 ? 0.7f : 1, c.sampling.top_k = i & 2 ? 3 : 0,
        c.micro_batch = i & 4 ? 3 : 0;
        c.advantage = i & 8 ? PPO_ADVANTAGE_GROUP : PPO_ADVANTAGE_GAE, c.samples = i & 8 ? 2 : 1;
        bench b = begin(&c);
        for (int k = 0; k < 3; k++) {
            assert_ok(ppo_rlhf_iterate(b.rlhf, &p));
            assert_true(p.first_ratio_min == 1 && p.first_ratio_max == 1);
            assert_true(p.approx_kl > 0 &&
                        (k > 0 || p.kl == 0)); /* the first samples are the reference's own */
        }
        end(&b);
    }
}

/* Every advantage, every place and estimator of the KL. */
static void rewards_rise(void **state) {
    (void)state;
    const int rounds = SMALL(40, 3);
    for (int i = 0; i < 12; i++) {
        ppo_rlhf_config c = small_config();
        ppo_rlhf_progress first, p;
        c.prompts = 16, c.minibatch_size = 16, c.learning_rate = 1e-2f;
        c.advantage = i % 6, c.samples = i % 6 < 2 ? 1 : 2;
        c.kl_place = i < 6 ? PPO_KL_IN_REWARD : PPO_KL_IN_LOSS;
        c.kl_estimator = i < 6 ? PPO_K1 : 2 + i % 3;
        bench b = begin(&c);
        assert_ok(ppo_rlhf_iterate(b.rlhf, &first));
        for (int k = 0; k < rounds; k++) assert_ok(ppo_rlhf_iterate(b.rlhf, &p));
        if (rounds == 40) {
            assert_true(p.reward > first.reward + 1);
            assert_true(p.kl > 0.2f && p.kl_k3 > 0);
        }
        end(&b);
    }
}

/* A strong penalty holds the policy to the reference, wherever and however it is measured. */
static void a_penalty_keeps_the_policy_near_the_reference(void **state) {
    (void)state;
    const int rounds = SMALL(30, 3);
    for (int i = 0; i < 6; i++) {
        float kl[2];
        for (int strong = 0; strong < 2; strong++) {
            ppo_rlhf_config c = small_config();
            ppo_rlhf_progress p;
            c.prompts = 32, c.minibatch_size = 16, c.learning_rate = 5e-3f, c.kl_coef = strong ? 3 : 0.001f;
            c.kl_place = i < 1 ? PPO_KL_IN_REWARD : PPO_KL_IN_LOSS;
            c.kl_estimator = i < 4 ? 1 + i : i == 4 ? PPO_K1 : PPO_K3, c.kl_weighted = i >= 4;
            bench b = begin(&c);
            kl[strong] = 0;
            for (int k = 0; k < rounds; k++) {
                assert_ok(ppo_rlhf_iterate(b.rlhf, &p));
                if (k >= 20) kl[strong] += p.kl_k3 / 10;
            }
            end(&b);
        }
        if (rounds == 30 && !(kl[1] < 0.5f * kl[0]))
            fail_msg("place and estimator %d: %g, without %g", i, (double)kl[1], (double)kl[0]);
    }
}

/* The loss of the last minibatch, which was one micro-batch. */
static ppo_tensor *last_loss(ppo_rlhf *r) {
    ppo__lane *lane = r->learner.lane;
    float weight;
    r->micros = lane->micro = 0;
    return ppo__rlhf_loss(r, lane, r->order + r->sequences - lane->batch[0].count, &weight);
}

static ppo_tensor *whole_loss(ppo_tape *tape, ppo_tensor *const *inputs, void *user) {
    ppo_rlhf *r = (ppo_rlhf *)user;
    ppo_tape *own = r->learner.lane->tape;
    (void)inputs;
    r->learner.lane->tape = tape;
    ppo_tensor *loss = last_loss(r);
    r->learner.lane->tape = own;
    return loss;
}

/* After an update, where ratios are no longer 1, of the whole loss by a part of the parameters. */
static void the_gradient_of_the_whole_loss_is_right(void **state) {
    (void)state;
    for (int i = 0; i < 8; i++) {
        ppo_rlhf_config c = small_config();
        c.kl_place = PPO_KL_IN_LOSS, c.kl_estimator = 2 + i % 3, c.kl_coef = 0.7f, c.entropy_coef = 0.3f;
        c.objective.objective = i < 4 ? PPO_CLIP : PPO_K3_PENALTY, c.value_clip = 0,
        c.sampling.temperature = 0.9f;
        bench b = begin(&c);
        assert_ok(ppo_rlhf_iterate(b.rlhf, NULL));
        ppo_lm *policy = b.policy;
        ppo_tensor *const inputs[] = {policy->score_weight, policy->block[0].qkv_bias, policy->norm_weight,
                                      policy->block[0].down_weight};
        assert_ok(ppo_check_gradients(whole_loss, inputs, COUNT(inputs), b.rlhf, 1e-2f, 2e-2f, NULL));
        end(&b);
    }
}

/* The gradient of a minibatch is that of the mean over its tokens, whatever its micro-batches. */
static void the_gradient_of_a_step_is_that_of_the_mean_over_tokens(void **state) {
    (void)state;
    float norm[3];
    for (int micro = 0; micro < 3; micro++) {
        ppo_rlhf_config c = small_config();
        ppo_rlhf_progress p;
        c.minibatch_size = 8, c.epochs = 1, c.learning_rate = 0, c.micro_batch = micro == 2 ? 3 : 0;
        bench b = begin(&c);
        assert_ok(ppo_rlhf_iterate(b.rlhf, &p));
        norm[micro] = p.grad_norm;
        if (micro == 1) { /* the whole minibatch is still there */
            ppo_params_zero_grad(b.policy->params);
            ppo_tape *tape = b.rlhf->learner.lane->tape;
            ppo_tape_reset(tape);
            assert_ok(ppo_tape_backward(tape, last_loss(b.rlhf)));
            norm[micro] = ppo_clip_grad_norm(b.policy->params->grad, b.policy->params->count, 0);
        }
        end(&b);
    }
    assert_close(norm[1], norm[0], 1e-4);
    assert_close(norm[2], norm[0], 1e-4);
}

/* 256 tokens, or as many as the width; a longer item stands alone. */
static void a_micro_batch_has_a_number_of_items_or_of_tokens(void **state) {
    (void)state;
    static const int tokens[] = {100, 100, 100, 300, 50, 206, 1, 255, 256},
                     item[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    static const struct {
        int micro_batch, budget, n, want[10];
    } cases[] = {{9, 256, 9, {2, 1, 1, 2, 2, 1}},
                 {1, 256, 9, {1, 1, 1, 1, 1, 1, 1, 1, 1}},
                 {9, 0, 9, {9}},
                 {4, 0, 9, {4, 4, 1}},
                 {2, 600, 9, {2, 2, 2, 2, 1}},
                 {9, 600, 5, {4, 1}}};
    ppo_tokens data = {0};
    int token[300] = {0};
    for (int i = 0; i < COUNT(tokens); i++) assert_ok(ppo_tokens_add(&data, token, tokens[i], 1));
    for (int k = 0; k < COUNT(cases); k++) {
        ppo__learner learner = {0};
        int at = 0, parts = 0;
        learner.data[0] = &data, learner.micro_batch = cases[k].micro_batch, learner.budget = cases[k].budget;
        for (; at < cases[k].n; parts++) {
            const int n = ppo__micro_items(&learner, item + at, cases[k].n - at);
            assert_int_equal(n, cases[k].want[parts]);
            at += n;
        }
        assert_int_equal(at, cases[k].n);
        assert_int_equal(ppo__micros_before(&learner, item, cases[k].n, 1, 1), parts);
    }
    ppo_tokens_free(&data);
}

static void every_iteration_samples_anew(void **state) {
    (void)state;
    ppo_rlhf_config c = small_config();
    ppo_rlhf_progress p[2];
    ppo_lm *policy = small_lm(VOCAB, POSITIONS, 1);
    ppo_tokens prompts = some_prompts(1);
    ppo_rlhf *r = NULL;
    c.learning_rate = 0;
    assert_ok(ppo_rlhf_create(policy, NULL, NULL, &prompts, count_good, NULL, &c, &r));
    for (int k = 0; k < 2; k++) assert_ok(ppo_rlhf_iterate(r, &p[k]));
    assert_true(p[0].entropy != p[1].entropy && p[0].value_loss != p[1].value_loss);
    assert_int_equal(p[1].samples, 16);
    assert_true(p[0].distinct > 0.5f); /* and so does every prompt, though it is always the same one */
    ppo_rlhf_free(r);
    ppo_lm_free(policy);
    ppo_tokens_free(&prompts);
}

static void gradients_add_up_over_micro_batches(void **state) {
    (void)state;
    float *whole = NULL;
    size_t count = 0;
    for (int micro = 0; micro <= 3; micro++) {
        ppo_rlhf_config c = small_config();
        c.micro_batch = micro;
        bench b = begin(&c);
        assert_ok(ppo_rlhf_iterate(b.rlhf, NULL));
        count = b.policy->params->count;
        if (!whole) {
            whole = (float *)malloc(count * sizeof *whole);
            memcpy(whole, b.policy->params->data, count * sizeof *whole);
        }
        assert_close_array(b.policy->params->data, whole, (int)count, 2e-4);
        end(&b);
    }
    free(whole);
}

static void the_same_seed_gives_the_same_bits_whatever_the_slots(void **state) {
    (void)state;
    float reward[3];
    for (int i = 0; i < 3; i++) {
        ppo_rlhf_config c = small_config();
        ppo_rlhf_progress p;
        c.slots = i == 1 ? 8 : 1, c.seed = i == 2 ? 2 : 1;
        bench b = begin(&c);
        for (int k = 0; k < 4; k++) assert_ok(ppo_rlhf_iterate(b.rlhf, &p));
        reward[i] = b.policy->score_weight->data[3];
        end(&b);
    }
    assert_true(reward[0] == reward[1] && reward[0] != reward[2]);
}

static void penalties_clips_and_the_end_of_a_sequence_count_as_they_say(void **state) {
    (void)state;
    ppo_rlhf_config c = small_config();
    unsigned char ended[4];
    float logp[64] = {0}, score[4] = {5, -5, 0.5f, 1};
    ppo_tokens tokens = {0};
    c.prompts = 4, c.kl_coef = 0, c.reward_clip = 2, c.missing_eos_penalty = 0.25f, c.length_penalty = 0.125f;
    bench b = begin(&c);
    for (int s = 0; s < 4; s++) {
        const int token[5] = {BOS, 2, 3, 4, s % 2 ? 5 : EOS};
        assert_ok(ppo_tokens_add(&tokens, token, 5, 1));
        ended[s] = s % 2 == 0;
    }
    ppo_samples samples = {tokens, logp, ended};
    ppo__rlhf_index(b.rlhf, &tokens);
    assert_ok(ppo__rlhf_rewards(b.rlhf, &samples, score));
    const float last[4] = {2, -2.25f, 0.5f, 0.75f};
    for (int s = 0; s < 4; s++) {
        for (int i = 0; i < 4; i++)
            assert_close(b.rlhf->rows.reward[4 * s + i], (i == 3 ? last[s] : 0) - 0.125f, 1e-6);
        assert_close(b.rlhf->total[s], last[s] - 0.5f, 1e-6);
    }
    ppo_tokens_free(&tokens);
    end(&b);
}

/* With lambda 1 and gamma 1 an advantage is all that follows, less the value; what follows a truncated sequence is
   the value after it, if that is asked for. */
static void truncated_sequences_are_bootstrapped_on_request(void **state) {
    (void)state;
    for (int bootstrap = 0; bootstrap < 2; bootstrap++) {
        ppo_rlhf_config c = small_config();
        c.gae_lambda = 1, c.whiten_advantages = 0, c.bootstrap_truncated = bootstrap, c.kl_coef = 0;
        c.sampling.max_new_tokens = 3;
        bench b = begin(&c);
        ppo_samples samples;
        int64_t next = 0;
        ppo_sampling how = c.sampling;
        float reward[8], score[8];
        assert_ok(ppo__rlhf_choose(b.rlhf, c.prompts, &next));
        assert_ok(ppo_generate(b.rlhf->generator, &b.rlhf->asked, &how, &samples));
        assert_ok(count_good(&samples, reward, NULL));
        assert_ok(ppo_lm_scores(b.policy, &samples.tokens, 8, score));
        assert_ok(ppo__rlhf_evaluate(b.rlhf, &samples));
        assert_ok(ppo__rlhf_rewards(b.rlhf, &samples, reward));
        assert_ok(ppo__rlhf_advantages(b.rlhf, &samples));
        int cut_off = 0;
        for (int s = 0, row = 0; s < 8; s++) {
            float rest = bootstrap && !samples.ended[s] ? score[s] : 0;
            cut_off += !samples.ended[s];
            for (int i = ppo__response_length(&samples.tokens, s); i > 0; i--, row++) {
                assert_close(b.rlhf->rows.value_target[row], reward[s] + rest, 1e-5);
                assert_close(b.rlhf->rows.advantage[row], reward[s] + rest - b.rlhf->rows.value[row], 1e-5);
            }
        }
        assert_true(cut_off > 0 && cut_off < 8);
        end(&b);
    }
}

/* critic_lambda: the targets are those of that lambda, the advantages stay those of gae_lambda, both by hand. */
static void the_critic_may_have_a_lambda_of_its_own(void **state) {
    (void)state;
    for (int k = 0; k < 3; k++) {
        static const float lambdas[3] = {-1, 1, 0.25f};
        ppo_rlhf_config c = small_config();
        c.gae_lambda = 0.5f, c.critic_lambda = lambdas[k], c.gamma = 0.9f, c.whiten_advantages = 0;
        bench b = begin(&c);
        ppo_samples samples;
        int64_t next = 0;
        float reward[8];
        assert_ok(ppo__rlhf_choose(b.rlhf, c.prompts, &next));
        assert_ok(ppo_generate(b.rlhf->generator, &b.rlhf->asked, &c.sampling, &samples));
        assert_ok(count_good(&samples, reward, NULL));
        assert_ok(ppo__rlhf_evaluate(b.rlhf, &samples));
        for (int i = 0, n = ppo_response_row(&samples.tokens, 8); i < n; i++)
            b.rlhf->rows.value[i] = 0.1f * (float)(i % 7);
        assert_ok(ppo__rlhf_rewards(b.rlhf, &samples, reward));
        assert_ok(ppo__rlhf_advantages(b.rlhf, &samples));
        const float own = k ? lambdas[k] : 0.5f;
        const ppo__response_rows *rows = &b.rlhf->rows;
        for (int s = 0; s < 8; s++) {
            double advantage = 0, target = 0;
            for (int row = b.rlhf->first_row[s + 1] - 1; row >= b.rlhf->first_row[s]; row--) {
                const double delta = rows->reward[row] + 0.9 * rows->next_value[row] - rows->value[row];
                advantage = delta + 0.9 * 0.5 * advantage;
                target = delta + 0.9 * own * target;
                assert_close(rows->advantage[row], advantage, 1e-5);
                assert_close(rows->value_target[row], target + rows->value[row], 1e-5);
            }
        }
        end(&b);
    }
}

/* Value pretraining: the policy does not move, the critic learns whole returns, and the training begins anew. */
static void the_critic_can_learn_before_the_policy(void **state) {
    (void)state;
    ppo_rlhf_config c = small_config();
    ppo_rlhf_progress p;
    bench b = begin(&c);
    assert_fails(ppo_rlhf_warm_critic(b.rlhf, 1, NULL), PPO_ERROR_ARGUMENT, "the critic is the policy");
    end(&b);
    c.epochs = 2, c.critic_learning_rate = 1e-2f, c.critic_lambda = 0.5f;
    b = begin_separate(&c);
    const ppo_params *policy = b.policy->params;
    float *before = (float *)malloc(policy->count * sizeof(float)), first;
    memcpy(before, policy->data, policy->count * sizeof(float));
    assert_fails(ppo_rlhf_warm_critic(b.rlhf, 0, NULL), PPO_ERROR_ARGUMENT, "iterations is 0");
    assert_ok(ppo_rlhf_warm_critic(b.rlhf, 1, &p));
    first = p.value_loss;
    assert_ok(ppo_rlhf_warm_critic(b.rlhf, 20, &p));
    assert_true(p.value_loss < 0.5f * first);
    assert_false(bits_differ(before, policy->data, policy->count));
    assert_true(!memcmp(&b.rlhf->config, &c, sizeof c) && policy->step == 0);
    for (size_t i = 0; i < policy->count; i++) assert_true(policy->m[i] == 0 && policy->v[i] == 0);
    assert_ok(ppo_rlhf_iterate(b.rlhf, &p));
    assert_int_equal(p.iteration, 1);
    assert_true(bits_differ(before, policy->data, policy->count));
    assert_fails(ppo_rlhf_warm_critic(b.rlhf, 1, NULL), PPO_ERROR_ARGUMENT, "1 iterations are done");
    free(before);
    end(&b);
    c.advantage = PPO_ADVANTAGE_GROUP, c.samples = 2, c.critic_learning_rate = 0, c.critic_lambda = -1;
    b = begin_separate(&c);
    assert_fails(ppo_rlhf_warm_critic(b.rlhf, 1, NULL), PPO_ERROR_ARGUMENT, "needs no critic");
    assert_ok(ppo_rlhf_iterate(b.rlhf, &p));
    assert_nan(p.explained_variance);
    end(&b);
}

static void samples_of_another_policy_count_by_their_ratio_up_to_the_cap(void **state) {
    (void)state;
    ppo_rlhf_config c = small_config();
    c.importance_cap = 1.5f;
    bench b = begin(&c);
    ppo_samples samples;
    int64_t next = 0;
    assert_ok(ppo__rlhf_choose(b.rlhf, c.prompts, &next));
    assert_ok(ppo_generate(b.rlhf->generator, &b.rlhf->asked, &c.sampling, &samples));
    int n = ppo_response_row(&samples.tokens, 8), row = 0;
    assert_ok(ppo__rlhf_evaluate(b.rlhf, &samples));
    for (int i = 0; i < n; i++) b.rlhf->rows.advantage[i] = 2;
    for (int s = 0; s < 8; s++) {
        int at = samples.tokens.start[s] + samples.tokens.prompt[s];
        for (; at < samples.tokens.start[s + 1]; at++, row++)
            b.rlhf->rows.old_logp[row] = samples.logp[at] + 0.1f * (float)(row % 10 - 5);
    }
    ppo__rlhf_importance(b.rlhf, &samples);
    for (int i = 0; i < n; i++)
        assert_close(b.rlhf->rows.advantage[i], 2 * fmin(1.5, exp(0.1 * (i % 10 - 5))), 1e-5);
    end(&b);
}

static void own_samples_and_rewards_train_as_iterate_does(void **state) {
    (void)state;
    ppo_rlhf_config c = small_config();
    bench a = begin(&c), b = begin(&c);
    ppo_samples samples;
    int64_t next = 0;
    float reward[8];
    ppo_rlhf_progress p;
    assert_ok(ppo_rlhf_iterate(a.rlhf, NULL));
    ppo_sampling how = c.sampling;
    ppo_rng rng = ppo_rng_stream(c.seed, PPO_STREAM_TOKEN, 0);
    how.seed = (uint64_t)ppo_rng_u32(&rng) << 32;
    how.seed |= ppo_rng_u32(&rng);
    assert_ok(ppo__rlhf_choose(b.rlhf, c.prompts, &next));
    assert_ok(ppo_generate(b.rlhf->generator, &b.rlhf->asked, &how, &samples));
    assert_ok(count_good(&samples, reward, NULL));
    assert_ok(ppo_rlhf_update(b.rlhf, &samples, reward, &p));
    assert_memory_equal(a.policy->params->data, b.policy->params->data,
                        a.policy->params->count * sizeof(float));
    double mean = 0, squares = 0;
    for (int s = 0; s < 8; s++) mean += reward[s] / 8;
    for (int s = 0; s < 8; s++) squares += (reward[s] - mean) * (reward[s] - mean);
    assert_close(p.reward, mean, 1e-6);
    assert_close(p.reward_std, sqrt(squares / 8), 1e-6);
    assert_true(squares > 0);
    assert_close(p.mean_length, ppo_response_row(&samples.tokens, 8) / 8.0, 1e-6);
    end(&a);
    end(&b);
}

static void the_reference_follows_when_asked_and_the_coefficient_adapts(void **state) {
    (void)state;
    ppo_rlhf_config c = small_config();
    ppo_rlhf_progress p;
    c.reference_every = 2, c.penalty_target_kl = 1e-3f, c.kl_horizon = 16;
    bench b = begin(&c);
    assert_ok(ppo_rlhf_iterate(b.rlhf, &p));
    assert_true(p.kl == 0 && p.kl_coef == c.kl_coef);
    assert_ok(ppo_rlhf_iterate(b.rlhf, &p));
    assert_true(p.kl_coef < c.kl_coef); /* there was no KL at first, which is below the target */
    assert_true(p.kl_k3 > 0);
    assert_ok(ppo_rlhf_iterate(b.rlhf, &p));
    assert_true(p.kl == 0); /* the policy has become the reference */
    end(&b);
}

static void a_critic_of_its_own_is_trained_and_the_policys_score_is_not(void **state) {
    (void)state;
    ppo_rlhf_config c = small_config();
    ppo_lm *policy = small_lm(VOCAB, POSITIONS, 1), *critic = small_lm(VOCAB, POSITIONS + 2, 1);
    ppo_tokens prompts = some_prompts(3);
    ppo_rlhf *r = NULL;
    ppo_rlhf_progress p;
    float score = policy->score_weight->data[0], value = critic->score_weight->data[0];
    c.critic_learning_rate = 1e-2f, c.prompts = 32, c.minibatch_size = 16;
    assert_ok(ppo_rlhf_create(policy, NULL, critic, &prompts, count_good, NULL, &c, &r));
    for (int k = 0; k < 30; k++) assert_ok(ppo_rlhf_iterate(r, &p));
    assert_true(policy->score_weight->data[0] == score && critic->score_weight->data[0] != value);
    assert_true(p.explained_variance > 0.2f);
    ppo_rlhf_free(r);
    ppo_lm_free(policy);
    ppo_lm_free(critic);
    ppo_tokens_free(&prompts);
}

/* A step of Adam is about as long as the rate. */
static void a_critic_of_its_own_has_its_own_learning_rate(void **state) {
    (void)state;
    static const float rates[] = {0, 1e-5f, 1e-1f};
    for (int k = 0; k < COUNT(rates); k++) {
        ppo_rlhf_config c = small_config();
        ppo_lm *policy = small_lm(VOCAB, POSITIONS, 0), *critic = small_lm(VOCAB, POSITIONS, 1);
        ppo_tokens prompts = some_prompts(3);
        ppo_rlhf *r = NULL;
        ppo_rlhf_progress p;
        const float rate = rates[k] > 0 ? rates[k] : c.learning_rate; /* 0: the policy's */
        const ppo_params *now = critic->params;
        float *before = (float *)malloc(now->count * sizeof(float)), most = 0;
        c.critic_learning_rate = rates[k];
        memcpy(before, now->data, now->count * sizeof(float));
        assert_ok(ppo_rlhf_create(policy, NULL, critic, &prompts, count_good, NULL, &c, &r));
        assert_ok(ppo_rlhf_iterate(r, &p));
        for (size_t i = 0; i < now->count; i++) most = fmaxf(most, fabsf(now->data[i] - before[i]));
        assert_true(most > rate / 2 && most < 4 * (float)p.gradient_steps * rate);
        free(before);
        ppo_rlhf_free(r);
        ppo_lm_free(policy);
        ppo_lm_free(critic);
        ppo_tokens_free(&prompts);
    }
}

/* Without a critic of the caller's the library makes one, which leaves the policy alone. */
static void the_critic_is_a_copy_unless_one_is_given(void **state) {
    (void)state;
    ppo_rlhf_config c = small_config();
    ppo_rlhf_progress p;
    ppo_tokens prompts = some_prompts(3);
    c.prompts = 32, c.minibatch_size = 16, c.critic_learning_rate = 1e-2f;
    ppo_lm *policy = small_lm(VOCAB, POSITIONS, 0);
    ppo_rlhf *r = NULL;
    assert_fails(ppo_rlhf_create(policy, NULL, policy, &prompts, count_good, NULL, &c, &r),
                 PPO_ERROR_ARGUMENT, "critic_learning_rate");
    c.critic_learning_rate = 0;
    assert_fails(ppo_rlhf_create(policy, NULL, policy, &prompts, count_good, NULL, &c, &r),
                 PPO_ERROR_ARGUMENT, "critic has no score");
    c.critic_learning_rate = 1e-2f;
    assert_ok(ppo_rlhf_create(policy, NULL, NULL, &prompts, count_good, NULL, &c, &r));
    for (int k = 0; k < 30; k++) assert_ok(ppo_rlhf_iterate(r, &p));
    assert_null(policy->score_weight);
    assert_true(p.explained_variance > 0.2f);
    ppo_rlhf_free(r);
    ppo_lm_free(policy);
    ppo_tokens_free(&prompts);
}

static ppo_status good_in_other_units(const ppo_samples *samples, float *reward, void *user) {
    const float *unit = (const float *)user;
    ppo_status status = count_good(samples, reward, NULL);
    for (int s = 0; s < samples->tokens.count; s++) reward[s] = unit[0] * reward[s] + unit[1];
    return status;
}

/* The policy after three iterations; its numbers are copied to data. */
static void train_in_units(float unit, float origin, ppo_rlhf_progress *p, float **data, size_t *count) {
    float units[2] = {unit, origin};
    ppo_rlhf_config c = small_config();
    ppo_lm *policy = small_lm(VOCAB, POSITIONS, 1);
    ppo_tokens prompts = some_prompts(5);
    ppo_rlhf *r = NULL;
    c.normalize_rewards = 1, c.missing_eos_penalty = 1, c.length_penalty = 0.25f;
    assert_ok(ppo_rlhf_create(policy, NULL, NULL, &prompts, good_in_other_units, units, &c, &r));
    for (int k = 0; k < 3; k++) assert_ok(ppo_rlhf_iterate(r, p));
    *count = policy->params->count;
    *data = (float *)malloc(*count * sizeof **data);
    memcpy(*data, policy->params->data, *count * sizeof **data);
    ppo_rlhf_free(r);
    ppo_lm_free(policy);
    ppo_tokens_free(&prompts);
}

/* A factor that is a power of two is exact; an origin rounds. */
static void normalized_rewards_have_no_units(void **state) {
    (void)state;
    ppo_rlhf_progress p, q, o;
    float *x, *y, *z;
    size_t n;
    train_in_units(1, 0, &p, &x, &n);
    train_in_units(1024, 0, &q, &y, &n);
    train_in_units(1.0f / 1024, 3, &o, &z, &n);
    assert_memory_equal(x, y, n * sizeof *x);
    assert_close_array(z, x, (int)n, 2e-3);
    assert_true(q.reward == 1024 * p.reward && q.value_loss == p.value_loss);
    free(x), free(y), free(z);
}

/* A reward far from all before counts in the moments as if it were 10 standard deviations from their mean. */
static void an_outlier_does_not_end_the_normalization(void **state) {
    (void)state;
    ppo_rlhf_config c = small_config();
    bench b = begin(&c);
    double var[3];
    for (int k = 0; k < 3; k++) {
        float score[4] = {0, 1, 1, k == 1 ? 5.5f : 1e6f};
        b.rlhf->samples = k < 2 ? 100 : 99;
        b.rlhf->reward_mean[0] = 0.5, b.rlhf->reward_var[0] = 0.25;
        ppo__rlhf_reward_moments(b.rlhf, score, 4);
        var[k] = b.rlhf->reward_var[1];
    }
    assert_true(var[0] == var[1] && var[0] < 1);
    assert_true(var[2] > 1e9); /* too few to know */
    end(&b);
}

/* k3 from the policy before an iteration to the one after it, of whole samples, divided by their tokens. */
static double distance_of_an_iteration(float learning_rate, float target_kl, ppo_rlhf_progress *p) {
    ppo_rlhf_config c = small_config();
    ppo_samples samples;
    float reward[64], logp[2][64];
    double kl = 0;
    c.prompts = 64, c.minibatch_size = 8, c.epochs = 4, c.learning_rate = learning_rate,
    c.target_kl = target_kl;
    bench b = begin(&c);
    ppo_generator *generator = NULL;
    ppo_sampling how = c.sampling;
    ppo_tokens asked = {0};
    for (int s = 0; s < 64; s++) assert_ok(ppo_tokens_add_from(&asked, &b.prompts, s % b.prompts.count));
    assert_ok(ppo_generator_create(b.policy, 8, &generator));
    assert_ok(ppo_generate(generator, &asked, &how, &samples));
    assert_ok(count_good(&samples, reward, NULL));
    assert_ok(ppo_lm_logp(b.policy, &samples.tokens, 64, logp[0]));
    assert_ok(ppo_rlhf_update(b.rlhf, &samples, reward, p));
    assert_ok(ppo_lm_logp(b.policy, &samples.tokens, 64, logp[1]));
    for (int s = 0; s < 64; s++) {
        double l = logp[1][s] - logp[0][s];
        kl += (exp(l) - 1 - l) / ppo_response_row(&samples.tokens, 64);
    }
    ppo_generator_free(generator);
    ppo_tokens_free(&asked);
    end(&b);
    return kl;
}

static void target_kl_ends_the_epochs(void **state) {
    (void)state;
    ppo_rlhf_progress p;
    const double free_kl = distance_of_an_iteration(3e-3f, 0, &p);
    assert_int_equal(p.gradient_steps, 32);
    const double kl = distance_of_an_iteration(3e-3f, 0.01f, &p);
    assert_true(p.gradient_steps > 0 && p.gradient_steps < 32);
    assert_true(kl < free_kl);
}

/* With a rate at which one step destroys a policy, and one a hundred times as large. */
static void a_step_too_far_is_taken_back(void **state) {
    (void)state;
    static const float rates[] = {0.1f, 10};
    for (int i = 0; i < COUNT(rates); i++) {
        ppo_rlhf_progress p;
        const double kl = distance_of_an_iteration(rates[i], 0.01f, &p);
        assert_true(p.learning_rate < rates[i]);
        assert_true(p.gradient_steps > 0 ? kl > 0 : kl == 0);
        assert_true(kl < 0.3);
        assert_true(distance_of_an_iteration(rates[i], 0, &p) > 1);
    }
}

static void a_rate_that_was_too_high_recovers(void **state) {
    (void)state;
    ppo_rlhf_config c = small_config();
    ppo_rlhf_progress p;
    c.prompts = 16, c.learning_rate = 0.1f, c.target_kl = 0.01f;
    bench b = begin(&c);
    assert_ok(ppo_rlhf_iterate(b.rlhf, &p));
    assert_true(p.learning_rate <= 0.05f);
    assert_int_equal(b.policy->params->step, p.gradient_steps); /* without those that were taken back */
    b.rlhf->config.learning_rate = 1e-6f;
    assert_ok(ppo_rlhf_iterate(b.rlhf, &p));
    for (int k = 0; k < 3; k++) {
        const double before = p.learning_rate;
        assert_ok(ppo_rlhf_iterate(b.rlhf, &p));
        assert_close(p.learning_rate / before, 1.2, 1e-4);
    }
    b.rlhf->rate_factor = 0.9f;
    for (int k = 0; k < 2; k++) assert_ok(ppo_rlhf_iterate(b.rlhf, &p));
    assert_true(p.learning_rate == 1e-6f);
    end(&b);
}

static void a_collapse_is_told(void **state) {
    (void)state;
    ppo_rlhf_config c = small_config();
    bench b = begin(&c);
    b.rlhf->config.refills = 1; /* the last round's samples do differ */
    b.rlhf->config.normalize_rewards = 1;
    const struct {
        float variety, kl, entropy, length, reward;
        const char *word;
        int same;
        double var;
    } cases[] = {{0.6f, 1, 1, 5, 2, "", 0, 0},
                 {0.35f, 1, 1, 5, 2, "", 0, 0}, /* low, as it was from the start */
                 {0.25f, 1, 1, 5, 2, "25 %|first 60 %|repeats", 0, 0},
                 {0.6f, 6, 1, 5, 2, "runs away", 0, 0},
                 {0.6f, 1, 0.05f, 5, 2, "entropy", 0, 0},
                 {0.6f, 1, 1, 11, 2, "length", 0, 0},
                 {0.6f, 1, 1, 2, 2, "length", 0, 0},
                 {0.25f, 1, 0.05f, 5, 2.3f, "repeats", 0, 0}, /* a standard error is 0.2 */
                 {0.25f, 1, 0.05f, 5, 2.5f, "", 0, 0},        /* the right answer, again and again */
                 {0.25f, 6, 0.05f, 5, 2.5f, "", 0, 0},        /* far from the reference */
                 {0.6f, 1, 1, 11, 2.5f, "length", 0, 0},
                 {0.6f, 1, 1, 5, 1.3f, "", 0, 0},
                 {0.6f, 1, 1, 5, 1.1f, "reward fell to 1.1|first iteration 2", 0, 0},
                 {0.6f, NAN, 1, 5, 1.1f, "reward fell", 0, 0},
                 {0.6f, 1, 1, 5, 2, "earned the same", 1, 0},
                 {0.6f, 1, 1, 5, 2.5f, "", 1, 0},
                 {0.6f, 1, 1, 5, 2, "", 0, 120},
                 {0.6f, 1, 1, 5, 2, "outliers", 0, 140}};
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_rlhf_progress p;
        memset(&p, 0, sizeof p);
        b.rlhf->iteration = i + 1;
        b.rlhf->variety = cases[i].variety;
        p.kl = cases[i].kl, p.entropy = cases[i].entropy, p.mean_length = cases[i].length;
        p.reward = cases[i].reward, p.reward_std = 0.2f * sqrtf(8);
        p.refilled = 8, b.rlhf->reward_var[0] = cases[i].var;
        for (int s = 0; s < 8; s++) b.rlhf->earned[s] = cases[i].same ? 1 : (float)s;
        ppo__rlhf_warn(b.rlhf, &p);
        char words[64], *word = strtok(strcpy(words, cases[i].word), "|");
        if (!word) assert_string_equal(p.warning, "");
        for (; word; word = strtok(NULL, "|")) assert_non_null(strstr(p.warning, word));
    }
    end(&b);
}

/* Equal samples of two prompts, or of one that was drawn twice, are no repetition. */
static void variety_is_that_of_the_samples_of_a_prompt(void **state) {
    (void)state;
    ppo_tokens tokens = {0};
    for (int s = 0; s < 6; s++) {
        const int token[2] = {BOS, s % 3 == 2};
        assert_ok(ppo_tokens_add(&tokens, token, 2, 1));
    }
    uint64_t hash[300];
    assert_close(ppo__distinct(&tokens, 3, hash), 4.0 / 6, 1e-6);
    assert_close(ppo__distinct(&tokens, 6, hash), 2.0 / 6, 1e-6);
    ppo_rng rng = test_rng(60);
    ppo_tokens_clear(&tokens);
    for (int s = 0; s < 300; s++) { /* against a comparison of all pairs */
        int n = 1 + ppo_rng_below(&rng, 3);
        add_random(&tokens, &rng, 3, n, 1);
    }
    for (int group = 1; group <= 300; group *= 10) {
        int distinct = 0;
        for (int s = 0; s < 300; s++) {
            int t = s / group * group, n = tokens.start[s + 1] - tokens.start[s];
            while (t < s && (tokens.start[t + 1] - tokens.start[t] != n ||
                             memcmp(tokens.token + tokens.start[t], tokens.token + tokens.start[s],
                                    (size_t)n * sizeof(int)) != 0))
                t++;
            distinct += t == s;
        }
        assert_true(ppo__distinct(&tokens, group, hash) == (float)distinct / 300);
    }
    ppo_tokens_free(&tokens);
}

/* The KL of a run without one can be measured; a copy of the policy would only take memory and time. */
static void without_a_kl_there_is_no_reference_but_the_callers(void **state) {
    (void)state;
    ppo_rlhf_config c = small_config();
    ppo_rlhf_progress p;
    ppo_lm *reference = NULL, *policy = NULL;
    c.kl_place = PPO_KL_IN_LOSS, c.kl_estimator = PPO_K1, c.kl_coef = 0;
    bench b = begin(&c);
    assert_ok(ppo_lm_copy(b.policy, 0, &reference));
    assert_ok(ppo_lm_copy(b.policy, 0, &policy));
    for (int k = 0; k < 2; k++) assert_ok(ppo_rlhf_iterate(b.rlhf, &p));
    assert_nan(p.kl);
    assert_nan(p.kl_k3);
    assert_true(ppo_rlhf_memory(b.rlhf).weights == 4.0 * (double)b.policy->params->capacity);
    ppo_rlhf_free(b.rlhf);
    assert_ok(ppo_rlhf_create(policy, reference, policy, &b.prompts, count_good, NULL, &c, &b.rlhf));
    for (int k = 0; k < 2; k++) assert_ok(ppo_rlhf_iterate(b.rlhf, &p));
    assert_true(p.kl_k3 > 0);
    assert_false(bits_differ(policy->params->data, b.policy->params->data, policy->params->count));
    assert_true(ppo_rlhf_memory(b.rlhf).weights == 8.0 * (double)policy->params->capacity);
    end(&b);
    ppo_lm_free(policy);
    ppo_lm_free(reference);
}

static void the_learning_rate_follows_its_schedule_by_iterations(void **state) {
    (void)state;
    static const float want[4][6] = {{1, 1, 1, 1, 1, 1},
                                     {1, 0.75f, 0.5f, 0.25f, 0, 0},
                                     {1, 0.853553f, 0.5f, 0.146447f, 0, 0},
                                     {1, 0.8125f, 0.625f, 0.4375f, 0.25f, 0.25f}};
    static const int schedules[] = {PPO_CONSTANT, PPO_LINEAR, PPO_COSINE, PPO_LINEAR};
    static const float least[] = {0, 0, 0, 5e-4f};
    for (int i = 0; i < COUNT(schedules); i++) {
        ppo_rlhf_config c = small_config();
        ppo_rlhf_progress p;
        c.learning_rate_schedule = schedules[i], c.iterations = 4, c.learning_rate = 2e-3f;
        c.min_learning_rate = least[i];
        bench b = begin(&c);
        float *before = (float *)malloc(b.policy->params->count * sizeof *before);
        for (int k = 0; k < 6; k++) {
            memcpy(before, b.policy->params->data, b.policy->params->count * sizeof *before);
            assert_ok(ppo_rlhf_iterate(b.rlhf, &p));
            assert_true(is_close(p.learning_rate, 2e-3 * want[i][k], 1e-8, 1));
            int moved = bits_differ(before, b.policy->params->data, b.policy->params->count);
            assert_int_equal(moved, want[i][k] > 0);
        }
        free(before);
        end(&b);
    }
}

/* The first token of each prompt that was asked for, in order. */
typedef struct asked_log {
    int n, first[512];
} asked_log;

static ppo_status keep_prompts(const ppo_samples *samples, float *reward, void *user) {
    asked_log *log = (asked_log *)user;
    for (int s = 0; s < samples->tokens.count; s++) {
        assert_true(log->n < COUNT(log->first));
        log->first[log->n++] = samples->tokens.token[samples->tokens.start[s]];
    }
    return count_good(samples, reward, NULL);
}

static void a_pass_over_the_prompts_uses_each_once_in_an_order_of_its_own(void **state) {
    (void)state;
    static const int at_once[] = {3, 7, 9, 20, 1}; /* of 7 */
    for (int i = 0; i < COUNT(at_once); i++) {
        ppo_rlhf_config c = small_config();
        ppo_lm *policy = small_lm(VOCAB, POSITIONS, 1);
        ppo_tokens prompts = {0};
        ppo_rlhf *r = NULL;
        asked_log log = {0, {0}};
        int first_order[VOCAB], other = 0, samples = 1 + i % 2;
        for (int t = 0; t < VOCAB; t++) assert_ok(ppo_tokens_add(&prompts, &t, 1, 1));
        c.prompts = at_once[i], c.samples = samples, c.epochs = 1;
        assert_ok(ppo_rlhf_create(policy, NULL, NULL, &prompts, keep_prompts, &log, &c, &r));
        while (log.n < 6 * VOCAB * samples) assert_ok(ppo_rlhf_iterate(r, NULL));
        for (int pass = 0; pass < 6; pass++) {
            int seen[VOCAB] = {0};
            for (int k = 0; k < VOCAB; k++) {
                const int *first = log.first + (pass * VOCAB + k) * samples;
                assert_int_equal(first[0], first[samples - 1]);
                seen[first[0]]++;
                if (pass == 0) first_order[k] = first[0];
                other += first[0] != first_order[k];
            }
            for (int t = 0; t < VOCAB; t++) assert_int_equal(seen[t], 1);
        }
        assert_true(other > 0);
        ppo_rlhf_free(r);
        ppo_lm_free(policy);
        ppo_tokens_free(&prompts);
    }
}

/* --------------------------------------------------------------------------------------------------------
   Samples of one's own
   -------------------------------------------------------------------------------------------------------- */

typedef struct batch {
    ppo_generator *generator;
    ppo_samples samples; /* of the policy, 8 */
    float reward[8];
} batch;

static batch sample_batch(const bench *b, const ppo_rlhf_config *c) {
    batch x;
    ppo_tokens asked = {0};
    for (int s = 0; s < 8; s++) assert_ok(ppo_tokens_add_from(&asked, &b->prompts, s % b->prompts.count));
    assert_ok(ppo_generator_create(b->policy, 4, &x.generator));
    assert_ok(ppo_generate(x.generator, &asked, &c->sampling, &x.samples));
    assert_ok(count_good(&x.samples, x.reward, NULL));
    ppo_tokens_free(&asked);
    return x;
}

static int models_differ(const ppo_lm *a, const ppo_lm *b) {
    const ppo_params *p = a->params, *q = b->params;
    for (size_t i = 0; i < p->count && q->frozen; i++) /* a copy: it has no moments, as nothing was learned */
        if (p->m[i] != 0 || p->v[i] != 0) return 1;
    return p->step != q->step || bits_differ(p->data, q->data, p->count) ||
           (!q->frozen && (bits_differ(p->m, q->m, p->count) || bits_differ(p->v, q->v, p->count)));
}

/* Running moments: those of all rewards, as if they had come at once. */
static void rewards_are_normalized_by_all_so_far(void **state) {
    (void)state;
    ppo_rlhf_config c = small_config();
    c.normalize_rewards = 1;
    bench b = begin(&c);
    batch x = sample_batch(&b, &c);
    const float score[24] = {1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 1};
    double sum = 0, squares = 0;
    for (int i = 0; i < 24; i++) sum += score[i], squares += score[i] * score[i];
    for (int k = 0; k < 3; k++) assert_ok(ppo_rlhf_update(b.rlhf, &x.samples, score + 8 * k, NULL));
    assert_close(b.rlhf->reward_mean[0], sum / 24, 1e-12);
    assert_close(b.rlhf->reward_var[0], squares / 24 - sum / 24 * sum / 24, 1e-12);
    ppo_generator_free(x.generator);
    end(&b);
}

static void figures_of_an_iteration_are_means_over_its_tokens(void **state) {
    (void)state;
    for (int whole = 0; whole < 2; whole++) { /* 1: a sequence has one ratio, by the mean of its tokens */
        ppo_rlhf_config c = small_config();
        ppo_rlhf_progress p;
        c.learning_rate = 0, c.epochs = 1, c.minibatch_size = 8, c.whiten_advantages = 0;
        c.ratio = whole ? PPO_RATIO_SEQUENCE : PPO_RATIO_TOKEN;
        bench b = begin(&c);
        batch x = sample_batch(&b, &c);
        float logp[8 * POSITIONS];
        double loss = 0, kl = 0, old_kl = 0, clipped = 0, most = 0;
        memcpy(logp, x.samples.logp, (size_t)x.samples.tokens.start[8] * sizeof *logp);
        for (int i = 0; i < x.samples.tokens.start[8]; i++) logp[i] += i % 3 ? 0.1f : -0.7f;
        x.samples.logp = logp;
        assert_ok(ppo_rlhf_update(b.rlhf, &x.samples, x.reward, &p));
        const int *first_row = b.rlhf->first_row, n = first_row[8];
        for (int s = 0; s < 8; s++) {
            const int end = x.samples.tokens.start[s + 1], length = first_row[s + 1] - first_row[s];
            double mean = 0;
            for (int i = end - length; i < end; i++) mean += (i % 3 ? -0.1 : 0.7) / length;
            for (int i = end - length; i < end; i++) {
                const double l = i % 3 ? -0.1 : 0.7, ratio = exp(whole ? mean : l);
                const double advantage = b.rlhf->rows.advantage[first_row[s + 1] - (end - i)];
                loss -= fmin(ratio * advantage, fmin(ratio, 1.2) * advantage) / n;
                kl += (exp(l) - 1 - l) / n, old_kl -= l / n, clipped += ratio > 1.2 ? 1.0 / n : 0;
                most = fmax(most, ratio);
            }
        }
        assert_close(p.policy_loss, loss, 1e-5);
        assert_close(p.approx_kl, kl, 1e-5);
        assert_close(p.old_approx_kl, old_kl, 1e-5);
        assert_close(p.clip_fraction, clipped, 1e-5);
        assert_close(p.first_ratio_max, most, 1e-5);
        assert_true(clipped > 0.1 && clipped < 0.9 && fabs(loss) > 0.01);
        ppo_generator_free(x.generator);
        end(&b);
    }
}

static void log_probabilities_that_are_not_given_are_those_of_sampling(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        ppo_rlhf_config c = small_config();
        ppo_rlhf_progress p[2];
        c.sampling.temperature = i & 1 ? 0.7f : 1, c.micro_batch = i & 2 ? 3 : 0;
        bench a = begin(&c), b = begin(&c);
        batch x = sample_batch(&a, &c);
        assert_ok(ppo_rlhf_update(a.rlhf, &x.samples, x.reward, &p[0]));
        x.samples.logp = NULL;
        assert_ok(ppo_rlhf_update(b.rlhf, &x.samples, x.reward, &p[1]));
        assert_false(models_differ(a.policy, b.policy));
        for (int k = 0; k < 2; k++) assert_true(p[k].first_ratio_min == 1 && p[k].first_ratio_max == 1);
        ppo_generator_free(x.generator);
        end(&a), end(&b);
    }
}

/* The figure compares training with what sampling says, so it must tell where the two differ. */
static void the_first_ratio_tells_of_log_probabilities_that_are_not_those_of_training(void **state) {
    (void)state;
    for (int way = -1; way < 2; way += 2) {
        ppo_rlhf_config c = small_config();
        ppo_rlhf_progress p;
        c.minibatch_size = 8;
        bench b = begin(&c);
        batch x = sample_batch(&b, &c);
        int at = x.samples.tokens.start[5] + x.samples.tokens.prompt[5];
        x.samples.logp[at] += 0.01f * (float)way;
        assert_ok(ppo_rlhf_update(b.rlhf, &x.samples, x.reward, &p));
        assert_close(p.first_ratio_min, way > 0 ? exp(-0.01) : 1, 1e-5);
        assert_close(p.first_ratio_max, way > 0 ? 1 : exp(0.01), 1e-5);
        assert_true(p.first_ratio_min != p.first_ratio_max);
        ppo_generator_free(x.generator);
        end(&b);
    }
}

static void samples_that_cannot_be_learned_from_are_refused_and_change_nothing(void **state) {
    (void)state;
    ppo_rlhf_config c = small_config();
    c.sampling.max_new_tokens = 4, c.sampling.eos = -1; /* the longest prompt has 2 tokens */
    bench b = begin(&c);
    batch x = sample_batch(&b, &c);
    ppo_lm *before = NULL;
    assert_ok(ppo_lm_copy(b.policy, 0, &before));
    static const float bad[] = {1e20f, -1e20f, NAN, INFINITY, -INFINITY};
    for (int k = 0; k < COUNT(bad); k++) {
        float kept = x.reward[3];
        x.reward[3] = bad[k];
        assert_fails(ppo_rlhf_update(b.rlhf, &x.samples, x.reward, NULL), PPO_ERROR_NUMERIC,
                     "reward of sample 3|1e15");
        x.reward[3] = kept;
        int at = x.samples.tokens.start[2] + x.samples.tokens.prompt[2] + 1;
        float logp = x.samples.logp[at];
        if (k < 2) continue;
        x.samples.logp[at] = bad[k];
        assert_fails(ppo_rlhf_update(b.rlhf, &x.samples, x.reward, NULL), PPO_ERROR_NUMERIC,
                     "log-probability|sample 2, position 2");
        x.samples.logp[at] = logp;
    }
    x.samples.logp[x.samples.tokens.start[2]] = NAN; /* that of a prompt's token does not matter */
    x.samples.tokens.count = 7;
    assert_fails(ppo_rlhf_update(b.rlhf, &x.samples, x.reward, NULL), PPO_ERROR_ARGUMENT,
                 "7 samples|8 prompts");
    x.samples.tokens.count = 8;
    ppo_samples lacking = x.samples;
    lacking.ended = NULL;
    assert_fails(ppo_rlhf_update(b.rlhf, &lacking, x.reward, NULL), PPO_ERROR_ARGUMENT, "ended is NULL");
    lacking.tokens.prompt = NULL;
    assert_fails(ppo_rlhf_update(b.rlhf, &lacking, x.reward, NULL), PPO_ERROR_ARGUMENT, "prompt is NULL");
    int *start = x.samples.tokens.start; /* sequences of 5 and 6 tokens; the second takes one of the first */
    assert_true(start[2] - start[1] == 6 && start[1] == 5);
    start[1]--;
    assert_fails(ppo_rlhf_update(b.rlhf, &x.samples, x.reward, NULL), PPO_ERROR_ARGUMENT,
                 "sample 1 has 7 tokens|allow 6");
    start[1]++;
    x.samples.tokens.prompt[4] = start[5] - start[4];
    assert_fails(ppo_rlhf_update(b.rlhf, &x.samples, x.reward, NULL), PPO_ERROR_ARGUMENT,
                 "sample 4 has no token");
    x.samples.tokens.prompt[4] = 1;
    assert_fails(ppo_rlhf_update(b.rlhf, NULL, x.reward, NULL), PPO_ERROR_ARGUMENT, "ppo_rlhf_update|NULL");
    assert_fails(ppo_rlhf_update(b.rlhf, &x.samples, NULL, NULL), PPO_ERROR_ARGUMENT, "ppo_rlhf_update|NULL");
    assert_fails(ppo_rlhf_update(NULL, &x.samples, x.reward, NULL), PPO_ERROR_ARGUMENT,
                 "ppo_rlhf_update|NULL");
    assert_false(models_differ(b.policy, before));
    assert_ok(ppo_rlhf_update(b.rlhf, &x.samples, x.reward, NULL));
    assert_true(models_differ(b.policy, before));
    ppo_lm_free(before);
    ppo_generator_free(x.generator);
    end(&b);
}

static void a_cap_on_importance_needs_log_probabilities(void **state) {
    (void)state;
    ppo_rlhf_config c = small_config();
    c.importance_cap = 2;
    bench b = begin(&c);
    batch x = sample_batch(&b, &c);
    float *logp = x.samples.logp;
    x.samples.logp = NULL;
    assert_fails(ppo_rlhf_update(b.rlhf, &x.samples, x.reward, NULL), PPO_ERROR_ARGUMENT,
                 "importance_cap|logp");
    x.samples.logp = logp;
    assert_ok(ppo_rlhf_update(b.rlhf, &x.samples, x.reward, NULL));
    ppo_generator_free(x.generator);
    end(&b);
}

/* --------------------------------------------------------------------------------------------------------
   Failures on the way
   -------------------------------------------------------------------------------------------------------- */

/* Fails once, in the call of this number, in one of several ways. */
enum { A_STATUS, A_NAN, TOO_LARGE, WAYS };
typedef struct moody {
    int calls, fail_at, way;
} moody;

static ppo_status fail_once(const ppo_samples *samples, float *reward, void *user) {
    moody *m = (moody *)user;
    int now = m->calls++ == m->fail_at;
    ppo_status status = count_good(samples, reward, NULL);
    if (now && m->way == A_STATUS) return ppo_fail(PPO_ERROR_FILE, "no connection");
    if (now) reward[samples->tokens.count - 1] = m->way == A_NAN ? NAN : -1e20f;
    return status;
}

/* 5 iterations, one of which is done again. */
static ppo_lm *run_with_a_failure(const ppo_rlhf_config *c, moody m, ppo_rlhf_progress *p) {
    ppo_lm *policy = small_lm(VOCAB, POSITIONS, 1);
    ppo_tokens prompts = some_prompts(5);
    ppo_rlhf *r = NULL;
    assert_ok(ppo_rlhf_create(policy, NULL, NULL, &prompts, fail_once, &m, c, &r));
    for (int k = 0; k < 5; k++) {
        if (k == m.fail_at)
            assert_fails(ppo_rlhf_iterate(r, p), m.way == A_STATUS ? PPO_ERROR_FILE : PPO_ERROR_NUMERIC, "");
        assert_ok(ppo_rlhf_iterate(r, p));
    }
    ppo_rlhf_free(r);
    ppo_tokens_free(&prompts);
    return policy;
}

static void an_iteration_that_failed_is_done_again_to_the_bit(void **state) {
    (void)state;
    for (int adaptive = 0; adaptive < 2; adaptive++) {
        ppo_rlhf_config c = small_config();
        c.prompts = 6; /* of 5: passes and iterations do not end together */
        if (adaptive) c.penalty_target_kl = 0.1f, c.kl_horizon = 30, c.reference_every = 2;
        ppo_rlhf_progress want, got;
        ppo_lm *whole = run_with_a_failure(&c, (moody){0, -1, 0}, &want);
        for (int way = 0; way < WAYS; way++)
            for (int at = 0; at < 3; at += 2) {
                ppo_lm *again = run_with_a_failure(&c, (moody){0, at, way}, &got);
                assert_false(models_differ(whole, again));
                assert_true(got.iteration == want.iteration && got.samples == want.samples);
                assert_true(got.tokens == want.tokens && got.kl_coef == want.kl_coef && got.kl == want.kl);
                ppo_lm_free(again);
            }
        ppo_lm_free(whole);
    }
}

static void only_a_creation_that_succeeds_clears_the_optimizers(void **state) {
    (void)state;
    ppo_rlhf_config c = small_config(), bad = c;
    ppo_lm *policy = small_lm(VOCAB, POSITIONS, 1), *critic = small_lm(VOCAB, POSITIONS, 1);
    ppo_params *params[2] = {policy->params, critic->params};
    ppo_tokens prompts = some_prompts(3);
    ppo_rlhf *r = NULL;
    bad.epochs = 0;
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < params[k]->count; i++) params[k]->m[i] = 1, params[k]->v[i] = 2;
        params[k]->step = 9;
    }
    assert_fails(ppo_rlhf_create(policy, NULL, critic, &prompts, count_good, NULL, &bad, &r),
                 PPO_ERROR_ARGUMENT, "epochs is 0");
    for (long allocation = 0, made = 0; !made; allocation++) {
        heap h = {0, 0, allocation, 1};
        for (int k = 0; k < 2; k++) {
            assert_int_equal(params[k]->step, 9);
            for (size_t i = 0; i < params[k]->count; i++)
                assert_true(params[k]->m[i] == 1 && params[k]->v[i] == 2);
        }
        ppo_set_allocator(heap_hook, &h);
        made = ppo_rlhf_create(policy, NULL, critic, &prompts, count_good, NULL, &c, &r) == PPO_OK;
        if (made) ppo_rlhf_free(r);
        ppo_set_allocator(NULL, NULL);
        assert_int_equal(h.live, 0);
        assert_true(made || allocation < 500);
    }
    for (int k = 0; k < 2; k++) {
        assert_int_equal(params[k]->step, 0);
        for (size_t i = 0; i < params[k]->count; i++)
            assert_true(params[k]->m[i] == 0 && params[k]->v[i] == 0 && params[k]->grad[i] == 0);
    }
    ppo_lm_free(policy), ppo_lm_free(critic);
    ppo_tokens_free(&prompts);
}

/* --------------------------------------------------------------------------------------------------------
   Best-of-n
   -------------------------------------------------------------------------------------------------------- */

static void the_best_of_n_is_the_best_of_these_samples(void **state) {
    (void)state;
    ppo_lm *lm = small_lm(VOCAB, POSITIONS, 0);
    ppo_tokens prompts = some_prompts(5), best = {0};
    ppo_generator *generator = NULL;
    ppo_sampling how = ppo_sampling_default();
    float score[3][5];
    const int n[3] = {1, 4, 16};
    int better = 0;
    how.eos = EOS;
    assert_ok(ppo_generator_create(lm, 4, &generator));
    for (int k = 0; k < 3; k++) {
        ppo_tokens_clear(&best);
        assert_ok(ppo_best_of_n(generator, &prompts, n[k], &how, count_good, NULL, &best, score[k]));
        assert_int_equal(best.count, 5);
        for (int s = 0; s < 5; s++) {
            int good = 0, at = best.start[s];
            assert_int_equal(best.prompt[s], 1 + s % 2);
            assert_memory_equal(best.token + at, prompts.token + prompts.start[s],
                                (size_t)(1 + s % 2) * sizeof(int));
            for (int i = at + best.prompt[s]; i < best.start[s + 1]; i++) good += best.token[i] == GOOD;
            assert_true(score[k][s] == (float)good);
            assert_true(k == 0 || score[k][s] >= score[k - 1][s]); /* the first samples are the same */
            better += k && score[k][s] > score[k - 1][s];
        }
    }
    assert_true(better >= 5);
    ppo_tokens same = {0};
    const int token = BOS;
    for (int s = 0; s < 8; s++) assert_ok(ppo_tokens_add(&same, &token, 1, 1));
    ppo_tokens_clear(&best);
    assert_ok(ppo_best_of_n(generator, &same, 1, &how, count_good, NULL, &best, NULL));
    uint64_t hash[8];
    assert_true(ppo__distinct(&best, best.count, hash) > 0.5f); /* the same prompt twice is sampled twice */
    ppo_tokens_free(&same);
    assert_close(ppo_best_of_n_kl(1), 0, 1e-7);
    assert_close(ppo_best_of_n_kl(16), log(16) - 15.0 / 16, 1e-6);
    ppo_generator_free(generator);
    ppo_lm_free(lm);
    ppo_tokens_free(&prompts);
    ppo_tokens_free(&best);
}

static ppo_status fail_at_third(const ppo_samples *samples, float *reward, void *user) {
    ppo_status status = count_good(samples, reward, NULL);
    if (++*(int *)user == 3) return ppo_fail(PPO_ERROR_FILE, "no connection");
    return status;
}

static void a_best_of_n_that_fails_leaves_best_as_it_was(void **state) {
    (void)state;
    ppo_lm *lm = small_lm(VOCAB, POSITIONS, 0);
    ppo_tokens prompts = some_prompts(5), best = {0};
    ppo_generator *generator = NULL;
    ppo_sampling how = ppo_sampling_default();
    const int text[] = {4, 5, 6};
    assert_ok(ppo_generator_create(lm, 4, &generator));
    for (int before = 0; before < 3; before++) {
        int calls = 0;
        assert_fails(ppo_best_of_n(generator, &prompts, 3, &how, fail_at_third, &calls, &best, NULL),
                     PPO_ERROR_FILE, "no connection");
        assert_int_equal(calls, 3);
        assert_int_equal(best.count, before);
        assert_ok(ppo_tokens_add(&best, text, 3, 1 + before));
        for (int s = 0; s <= before; s++) {
            assert_true(best.start[s] == 3 * s && best.start[s + 1] == 3 * s + 3 && best.prompt[s] == 1 + s);
            assert_memory_equal(best.token + 3 * s, text, sizeof text);
        }
    }
    int calls = 0; /* without the check there would always be another prompt */
    assert_fails(ppo_best_of_n(generator, &best, 2, &how, fail_at_third, &calls, &best, NULL),
                 PPO_ERROR_ARGUMENT, "ppo_best_of_n|best is the prompts");
    assert_int_equal(best.count, 3);
    ppo_generator_free(generator);
    ppo_lm_free(lm);
    ppo_tokens_free(&prompts);
    ppo_tokens_free(&best);
}

static void what_was_sampled_may_be_the_prompts_of_best_of_n(void **state) {
    (void)state;
    ppo_lm *lm = small_lm(VOCAB, POSITIONS, 0);
    ppo_tokens prompts = some_prompts(5), own = {0};
    ppo_tokens want = own, best = own;
    ppo_generator *generator = NULL;
    ppo_sampling how = ppo_sampling_default();
    ppo_samples samples;
    how.max_new_tokens = 2;
    assert_ok(ppo_generator_create(lm, 4, &generator));
    for (int n = 2; n < 30; n += 20) {
        assert_ok(ppo_generate(generator, &prompts, &how, &samples));
        ppo_tokens_clear(&own), ppo_tokens_clear(&want), ppo_tokens_clear(&best);
        for (int s = 0; s < 5; s++) assert_ok(ppo_tokens_add_from(&own, &samples.tokens, s));
        samples.tokens.prompt = NULL;
        for (int s = 0; s < 5; s++) own.prompt[s] = own.start[s + 1] - own.start[s];
        assert_ok(ppo_best_of_n(generator, &samples.tokens, n, &how, count_good, NULL, &best, NULL));
        assert_ok(ppo_best_of_n(generator, &own, n, &how, count_good, NULL, &want, NULL));
        assert_int_equal(best.count, 5);
        assert_memory_equal(best.start, want.start, 6 * sizeof(int));
        assert_memory_equal(best.token, want.token, (size_t)want.start[5] * sizeof(int));
    }
    ppo_generator_free(generator);
    ppo_lm_free(lm);
    ppo_tokens_free(&prompts), ppo_tokens_free(&own), ppo_tokens_free(&want), ppo_tokens_free(&best);
}

/* --------------------------------------------------------------------------------------------------------
   What cannot work
   -------------------------------------------------------------------------------------------------------- */

static ppo_status give_nan(const ppo_samples *samples, float *reward, void *user) {
    ppo_status status = count_good(samples, reward, user);
    reward[2] = NAN;
    return status;
}

static ppo_status give_nothing(const ppo_samples *samples, float *reward, void *user) {
    (void)samples, (void)reward, (void)user;
    return PPO_OK;
}

static ppo_status give_up(const ppo_samples *samples, float *reward, void *user) {
    (void)samples, (void)reward;
    return user ? ppo_fail(PPO_ERROR_FILE, "the verifier is not at home") : PPO_ERROR_NUMERIC;
}

static void failing_rewards_are_told_and_change_nothing(void **state) {
    (void)state;
    const struct {
        ppo_reward_fn reward;
        void *user;
        ppo_status status;
        const char *words;
    } cases[] = {{give_nan, NULL, PPO_ERROR_NUMERIC, "reward|sample 2|nan"},
                 {give_nothing, NULL, PPO_ERROR_NUMERIC, "reward|sample 0|nan"},
                 {give_up, NULL, PPO_ERROR_NUMERIC, "reward function failed"},
                 {give_up, "", PPO_ERROR_FILE, "verifier"},
                 {NULL, NULL, PPO_ERROR_ARGUMENT, "reward function"}};
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_rlhf_config c = small_config();
        ppo_lm *policy = small_lm(VOCAB, POSITIONS, 1), *before = NULL;
        ppo_tokens prompts = some_prompts(3);
        ppo_rlhf *r = NULL;
        assert_ok(ppo_lm_copy(policy, 0, &before));
        assert_ok(ppo_rlhf_create(policy, NULL, NULL, &prompts, cases[i].reward, cases[i].user, &c, &r));
        assert_fails(ppo_rlhf_iterate(r, NULL), cases[i].status, cases[i].words);
        assert_memory_equal(policy->params->data, before->params->data,
                            policy->params->count * sizeof(float));
        ppo_rlhf_free(r);
        ppo_lm_free(policy);
        ppo_lm_free(before);
        ppo_tokens_free(&prompts);
    }
}

static void a_reward_of_best_of_n_that_is_none_is_told(void **state) {
    (void)state;
    ppo_lm *lm = small_lm(VOCAB, POSITIONS, 0);
    ppo_tokens prompts = some_prompts(2), best = {0};
    ppo_generator *generator = NULL;
    ppo_sampling how = ppo_sampling_default();
    assert_ok(ppo_generator_create(lm, 4, &generator));
    assert_fails(ppo_best_of_n(generator, &prompts, 4, &how, give_nan, NULL, &best, NULL), PPO_ERROR_NUMERIC,
                 "reward|sample 2 of prompt 0|nan");
    assert_int_equal(best.count, 0);
    ppo_generator_free(generator);
    ppo_lm_free(lm);
    ppo_tokens_free(&prompts);
    ppo_tokens_free(&best);
}

static ppo_status always_one(const ppo_samples *samples, float *reward, void *user) {
    (void)user;
    for (int s = 0; s < samples->tokens.count; s++) reward[s] = 1;
    return PPO_OK;
}

static void samples_that_are_all_the_same_are_no_failure(void **state) {
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        ppo_rlhf_config c = small_config();
        ppo_lm *policy = small_lm(VOCAB, POSITIONS, 1);
        ppo_tokens prompts = some_prompts(1);
        ppo_rlhf *r = NULL;
        ppo_rlhf_progress p;
        c.advantage = kind, c.samples = kind < 2 ? 1 : 4, c.sampling.top_k = 1, c.kl_coef = 0;
        assert_ok(ppo_rlhf_create(policy, NULL, NULL, &prompts, always_one, NULL, &c, &r));
        for (int k = 0; k < 3; k++) {
            assert_ok(ppo_rlhf_iterate(r, &p));
            assert_close(p.distinct, 1.0 / (8 * c.samples), 1e-6);
            assert_close(r->variety, 1.0 / (kind < 2 ? 8 : 4), 1e-6);
            assert_null(strstr(p.warning, "repeats"));           /* it did from the start */
            if (kind >= 2) assert_close(p.policy_loss, 0, 1e-6); /* nobody was better than the others */
        }
        ppo_rlhf_free(r);
        ppo_lm_free(policy);
        ppo_tokens_free(&prompts);
    }
}

static void what_cannot_work_is_refused(void **state) {
    (void)state;
    ppo_lm *policy = small_lm(VOCAB, POSITIONS, 1), *plain = small_lm(VOCAB, POSITIONS, 0);
    ppo_lm *other = small_lm(VOCAB + 1, POSITIONS, 1), *brief = small_lm(VOCAB, POSITIONS - 1, 1);
    ppo_lm *critic = small_lm(VOCAB, POSITIONS, 1);
    ppo_tokens prompts = some_prompts(3), none = {0}, empty = some_prompts(3);
    ppo_tokens full = {0}, foreign = {0};
    int ten[POSITIONS] = {0}, stranger = VOCAB;
    ppo_rlhf *r = NULL;
    empty.prompt[1] = 0;
    assert_ok(ppo_tokens_add(&full, ten, POSITIONS, POSITIONS));
    assert_ok(ppo_tokens_add(&foreign, &stranger, 1, 1));
    ppo_rlhf_config c = small_config();
    const struct {
        ppo_lm *policy, *reference, *critic;
        const ppo_tokens *prompts;
        const char *words;
    } cases[] = {{NULL, NULL, NULL, &prompts, "NULL"},
                 {policy, NULL, NULL, NULL, "NULL"},
                 {policy, other, NULL, &prompts, "vocabulary|7|8|reference"},
                 {policy, NULL, other, &prompts, "vocabulary|critic"},
                 {policy, brief, NULL, &prompts, "context|10|9"},
                 {plain, NULL, plain, &prompts, "critic has no score"},
                 {policy, NULL, plain, &prompts, "critic has no score"},
                 {policy, policy, NULL, &prompts, "reference is the policy|NULL makes a copy"},
                 {policy, policy, critic, &prompts, "reference is the policy"},
                 {policy, critic, critic, &prompts, "reference is the critic"},
                 {policy, NULL, NULL, &none, "0 sequences"},
                 {policy, NULL, NULL, &empty, "prompt 1|0 of 2"},
                 {policy, NULL, NULL, &full, "prompt 0|10"},
                 {policy, NULL, NULL, &foreign, "token 7|0 .. 6"}};
    for (int i = 0; i < COUNT(cases); i++) {
        assert_fails(ppo_rlhf_create(cases[i].policy, cases[i].reference, cases[i].critic, cases[i].prompts,
                                     count_good, NULL, &c, &r),
                     PPO_ERROR_ARGUMENT, cases[i].words);
        assert_null(r);
    }
    assert_fails(ppo_rlhf_iterate(NULL, NULL), PPO_ERROR_ARGUMENT, "NULL");
    ppo_lm_free(policy), ppo_lm_free(plain), ppo_lm_free(other), ppo_lm_free(brief), ppo_lm_free(critic);
    ppo_tokens_free(&prompts), ppo_tokens_free(&empty), ppo_tokens_free(&full), ppo_tokens_free(&foreign);
}

/* An allocator whose memory is NaN wherever it is read as a float. */
static void *dirty_heap(void *user, void *ptr, size_t size) {
    void *block = heap_hook(user, ptr, size);
    if (!ptr && block) memset(block, 0xff, size);
    return block;
}

static void what_memory_held_before_changes_nothing(void **state) {
    (void)state;
    for (int i = 0; i < 5; i++) { /* k1 in the reward; in the loss nothing, and the other estimators */
        ppo_rlhf_config c = small_config();
        float weight[2];
        c.kl_place = i > 0, c.kl_estimator = i ? PPO_K1 + i - 1 : PPO_K1, c.kl_coef = i == 1 ? 0 : 0.5f;
        c.bootstrap_truncated = 1, c.micro_batch = 3;
        for (int dirty = 0; dirty < 2; dirty++) {
            heap h = {0, 0, -1, 0};
            ppo_set_allocator(dirty ? dirty_heap : heap_hook, &h);
            bench b = begin(&c);
            const float *logits = b.rlhf->rows.ref_logits; /* which creating it has read already */
            for (int k = 0; logits && k < 3 * (b.rlhf->longest - 1) * VOCAB; k++)
                assert_true(isfinite(logits[k]));
            for (int k = 0; k < 2; k++) assert_ok(ppo_rlhf_iterate(b.rlhf, NULL));
            weight[dirty] = b.policy->token_embedding->data[7];
            end(&b);
            ppo_set_allocator(NULL, NULL);
            assert_int_equal(h.live, 0);
        }
        assert_true(weight[0] == weight[1]);
    }
}

static void what_cannot_be_created_is_null(void **state) {
    (void)state;
    static const char *const names[] = {""};
    ppo_lm *policy = small_lm(VOCAB, POSITIONS, 1);
    ppo_lm_config bad = policy->config;
    ppo_file *file = NULL;
    ppo_rlhf_config c = small_config();
    void *made[13];
    for (int i = 0; i < COUNT(made); i++) made[i] = &c;
    bad.heads = 0;
    assert_ok(ppo_file_create(&file));
    assert_true(ppo_tokenizer_characters(NULL, 1, NULL, 0, (ppo_tokenizer **)&made[0]));
    assert_true(ppo_tokenizer_characters("a", 1, names, 1, (ppo_tokenizer **)&made[1]));
    assert_true(ppo_tokenizer_train(NULL, 1, 300, NULL, 0, (ppo_tokenizer **)&made[2]));
    assert_true(ppo_tokenizer_train("a", 1, 1, NULL, 0, (ppo_tokenizer **)&made[3]));
    assert_true(ppo_tokenizer_get(NULL, (ppo_tokenizer **)&made[4]));
    assert_true(ppo_tokenizer_load(NULL, (ppo_tokenizer **)&made[5]));
    assert_true(ppo_lm_create(&bad, (ppo_lm **)&made[6]));
    assert_true(ppo_lm_copy(NULL, 0, (ppo_lm **)&made[7]));
    assert_true(ppo_lm_get(file, (ppo_lm **)&made[8]));
    assert_true(ppo_lm_load(NULL, (ppo_lm **)&made[9]));
    assert_true(ppo_generator_create(NULL, 2, (ppo_generator **)&made[10]));
    assert_true(ppo_reward_model_create(NULL, 1, 0, 8, (ppo_reward_model **)&made[11]));
    assert_true(ppo_rlhf_create(NULL, NULL, NULL, NULL, NULL, NULL, &c, (ppo_rlhf **)&made[12]));
    for (int i = 0; i < COUNT(made); i++)
        if (made[i]) fail_msg("creator %d left its pointer as it was", i);
    ppo_file_free(file);
    ppo_lm_free(policy);
}

/* Every setting of both tables is read and written by name, and refused outside of its bounds. */
static void settings_are_reached_by_name(void **state) {
    (void)state;
    ppo_fit_config fit = ppo_fit_config_default();
    ppo_rlhf_config rlhf = ppo_rlhf_config_default();
    for (int k = 0; k < 2; k++) {
        const ppo_settings *settings = k ? ppo_rlhf_settings() : ppo_fit_settings();
        void *config = k ? (void *)&rlhf : (void *)&fit;
        char text[64];
        assert_ok(ppo__settings_check(settings, config));
        for (int i = 0; i < settings->count; i++) {
            const ppo_field *f = &settings->field[i];
            assert_ok(ppo_settings_get(settings, config, f->name, text, sizeof text));
            assert_ok(ppo_settings_set(settings, config, f->name, text));
            assert_true(f->help && *f->help);
        }
        assert_ok(ppo__settings_check(settings, config));
        assert_fails(ppo_settings_set(settings, config, "callback", "1"), PPO_ERROR_ARGUMENT, "callback");
    }
    ppo_rlhf_config c = ppo_rlhf_config_default();
    for (int i = 0; i < ppo_rlhf_settings()->count; i++) { /* the loop wrote each as it was */
        const char *name = ppo_rlhf_settings()->field[i].name;
        char text[2][64];
        assert_ok(ppo_settings_get(ppo_rlhf_settings(), &c, name, text[0], sizeof text[0]));
        assert_ok(ppo_settings_get(ppo_rlhf_settings(), &rlhf, name, text[1], sizeof text[1]));
        assert_string_equal(text[0], text[1]);
    }
    assert_ok(ppo_settings_set_all(ppo_rlhf_settings(), &c,
                                   "top-k=7 clip-low=0.1 kl-estimator=exact "
                                   "kl-place=loss advantage=leave-one-out samples=4"));
    assert_true(c.sampling.top_k == 7 && c.objective.clip_low == 0.1f && c.kl_estimator == PPO_KL_EXACT &&
                c.kl_place == PPO_KL_IN_LOSS && c.advantage == PPO_ADVANTAGE_LEAVE_ONE_OUT && c.samples == 4);
    assert_fails(ppo_settings_set(ppo_rlhf_settings(), &c, "kl-estimator", "0"), PPO_ERROR_ARGUMENT,
                 "none of k1|k2|k3|exact");
    assert_fails(ppo_settings_set(ppo_rlhf_settings(), &c, "prompts", "0"), PPO_ERROR_ARGUMENT,
                 "prompts is 0, outside 1 to 16777216");
    assert_fails(ppo_settings_set(NULL, &c, "prompts", "1"), PPO_ERROR_ARGUMENT, "ppo_settings_set:|NULL");
    assert_fails(ppo_settings_set_all(NULL, &c, ""), PPO_ERROR_ARGUMENT, "ppo_settings_set_all:|NULL");
    assert_fails(ppo_settings_get(NULL, &c, "prompts", NULL, 0), PPO_ERROR_ARGUMENT,
                 "ppo_settings_get:|NULL");
}

static void settings_that_cannot_work_are_refused_by_name(void **state) {
    (void)state;
    ppo_lm *policy = small_lm(VOCAB, POSITIONS, 1);
    ppo_tokens prompts = some_prompts(3);
    ppo_rlhf *r = NULL;
    for (int i = 0;; i++) {
        ppo_rlhf_config c = small_config();
        const char *words = NULL;
        switch (i) {
        case 0:
            c.prompts = 0, words = "prompts is 0";
            break;
        case 1:
            c.samples = 0, words = "samples is 0";
            break;
        case 2:
            c.slots = 0, words = "slots is 0";
            break;
        case 3:
            c.epochs = 0, words = "epochs is 0";
            break;
        case 4:
            c.sampling.greedy = 1, words = "greedy";
            break;
        case 5:
            c.minibatch_size = 0, words = "minibatch_size is 0";
            break;
        case 6:
            c.micro_batch = -1, words = "micro_batch is -1";
            break;
        case 7:
            c.learning_rate = -1, words = "learning_rate is -1";
            break;
        case 8:
            c.gamma = 1.5f, words = "gamma is 1.5";
            break;
        case 9:
            c.gae_lambda = NAN, words = "gae_lambda is nan";
            break;
        case 10:
            c.advantage = 6, words = "advantage is 6, none of gae";
            break;
        case 11:
            c.advantage = PPO_ADVANTAGE_GROUP, words = "samples is 1";
            break;
        case 12:
            c.kl_estimator = 0, words = "kl_estimator is 0";
            break;
        case 13:
            c.kl_place = 2, words = "kl_place is 2";
            break;
        case 14:
            c.penalty_target_kl = 1, c.kl_horizon = 7, words = "kl_horizon is 7|8 sequences";
            break;
        case 15:
            c.sampling.temperature = 0, words = "temperature is 0";
            break;
        case 16:
            c.sampling.top_p = 0, words = "top_p is 0";
            break;
        case 17:
            c.kl_coef = -1, words = "kl_coef is -1";
            break;
        case 18:
            c.importance_cap = INFINITY, words = "importance_cap is inf";
            break;
        case 19:
            c.entropy_coef = NAN, words = "entropy_coef is nan";
            break;
        case 20:
            c.kl_place = PPO_KL_IN_LOSS, words = "k1|PPO_K2, PPO_K3 or PPO_KL_EXACT";
            break;
        case 21:
            c.penalty_target_kl = 1, c.kl_coef = 0, words = "kl_coef is 0|penalty_target_kl";
            break;
        case 22:
            c.learning_rate_schedule = PPO_LINEAR, words = "iterations is 0|schedule";
            break;
        case 23:
            c.iterations = -1, words = "iterations is -1";
            break;
        case 24:
            c.learning_rate_schedule = PPO_CUSTOM, c.iterations = 5, words = "learning_rate_schedule is 3";
            break;
        case 25:
            c.reference_every = -1, words = "reference_every is -1";
            break;
        case 26:
            c.sampling.eos = VOCAB, words = "eos is 7|0 .. 6";
            break;
        case 27:
            c.objective.objective = PPO_KL_PENALTY, words = "objective is kl-penalty|k3-penalty";
            break;
        case 28:
            c.objective.dual_clip = 0.5f, words = "dual_clip is 0.5|above 1, or 0 for none";
            break;
        case 29:
            c.advantage = PPO_ADVANTAGE_GROUP, c.samples = 2, c.whiten_rewards = 1;
            words = "whiten_rewards is yes|no effect|advantage is group";
            break;
        case 30:
            c.advantage = PPO_ADVANTAGE_SEQUENCE, c.bootstrap_truncated = 1;
            words = "bootstrap_truncated is yes|no effect|advantage is sequence";
            break;
        case 31:
            c.critic_learning_rate = 0.5f, c.advantage = PPO_ADVANTAGE_LEAVE_ONE_OUT, c.samples = 2;
            words = "critic_learning_rate is 0.5|no effect|advantage is leave-one-out";
            break;
        case 32:
            c.missing_eos_penalty = 1e30f, words = "missing_eos_penalty is 1e+30";
            break;
        case 33:
            c.length_penalty = -1e30f, words = "length_penalty is -1e+30";
            break;
        case 34:
            c.prompts = 1 << 13, c.samples = 1 << 12, words = "prompts * samples is 33554432|16777216";
            break;
        case 35:
            c.slots = 65537, words = "slots is 65537";
            break;
        case 36:
            c.epochs = 10001, words = "epochs is 10001";
            break;
        case 37:
            c.kl_estimator = PPO_K3, words = "in the reward only k1|PPO_KL_IN_LOSS";
            break;
        case 38:
            c.kl_weighted = 1, words = "kl_weighted is yes|no effect|kl_place is reward";
            break;
        case 39:
            c.kl_place = PPO_KL_IN_LOSS, c.kl_estimator = PPO_K2, c.kl_weighted = 1;
            words = "kl_weighted is yes|k1 and k3";
            break;
        case 40:
            c.importance_floor = 0.5f, words = "importance_floor|no effect|importance_cap is 0";
            break;
        case 41:
            c.importance_mode = PPO_SEQUENCE_MASK, words = "importance_mode|no effect|importance_cap is 0";
            break;
        case 42:
            c.importance_floor = 3, c.importance_cap = 2, words = "importance_floor is 3|importance_cap|is 2";
            break;
        case 43:
            c.refills = 1, words = "refills is 1|one sample";
            break;
        case 44:
            c.sampling.tool_token = 3, words = "tool_token is 3|tool is NULL";
            break;
        case 45:
            c.whiten_advantages = -2, words = "whiten_advantages is -2";
            break;
        case 46:
            c.aggregation = 3, words = "aggregation is 3|constant";
            break;
        case 47:
            c.aggregation = PPO_AGGREGATE_SEQUENCES, c.objective.objective = PPO_K3_PENALTY;
            words = "k3-penalty|aggregation must be tokens";
            break;
        case 48:
            c.aggregation = PPO_AGGREGATE_CONSTANT, words = "aggregation is constant|max_new_tokens is 0";
            break;
        case 49:
            c.mask_truncated = 1, c.sampling.eos = -1, words = "mask_truncated is yes|eos is -1";
            break;
        case 50:
            c.advantage = PPO_ADVANTAGE_GROUP, c.samples = 2, c.value_clip = 0;
            words = "value_clip is 0|no effect|advantage is group";
            break;
        case 51:
            c.advantage = PPO_ADVANTAGE_SEQUENCE, c.gamma = 0.9f;
            words = "gamma is 0.9|no effect|advantage is sequence";
            break;
        case 52:
            c.missing_eos_penalty = 1, c.sampling.eos = -1, words = "missing_eos_penalty is 1|eos is -1";
            break;
        case 53:
            c.overlong_penalty = 2, words = "overlong_penalty is 2|no effect|overlong_buffer is 0";
            break;
        case 54:
            c.objective.dual_clip = 3, c.objective.objective = PPO_CISPO,
            words = "dual_clip is 3|no effect|objective is cispo";
            break;
        case 55:
            c.objective.kl_coef = 2, words = "objective_kl_coef is 2|no effect|objective is clip";
            break;
        case 56:
            c.entropy_step = 0.1f, words = "entropy_step is 0.1|no effect|entropy_target is 0";
            break;
        case 57:
            c.objective.clip_low = 0.1f, c.objective.objective = PPO_UNCLIPPED;
            words = "clip_low is 0.1|no effect|objective is unclipped";
            break;
        case 58:
            c.critic_learning_rate = 0.1f, c.value_coef = 0;
            words = "critic_learning_rate is 0.1|no effect|value_coef is 0";
            break;
        case 59:
            c.learning_rate_schedule = PPO_LINEAR, c.iterations = 5, c.min_learning_rate = 0.1f;
            words = "min_learning_rate is 0.1|above learning_rate|0.003";
            break;
        case 60:
            c.ratio = PPO_RATIO_SEQUENCE, c.objective.objective = PPO_K3_PENALTY; /* its k3 is no KL */
            words = "k3-penalty|ratio token";
            break;
        case 61:
            c.critic_lambda = -0.5f, words = "critic_lambda is -0.5, must be 0 to 1, or -1";
            break;
        default:
            break;
        }
        if (!words) break;
        assert_fails(ppo_rlhf_create(policy, NULL, NULL, &prompts, count_good, NULL, &c, &r),
                     PPO_ERROR_ARGUMENT, words);
        assert_null(r);
    }
    ppo_lm *other = small_lm(VOCAB, POSITIONS, 1);
    ppo_rlhf_config c = small_config();
    c.reference_every = 3;
    assert_fails(ppo_rlhf_create(policy, other, NULL, &prompts, count_good, NULL, &c, &r), PPO_ERROR_ARGUMENT,
                 "reference_every is 3|no effect|reference is the caller's");
    assert_null(r);
    ppo_lm_free(other);
    ppo_lm_free(policy);
    ppo_tokens_free(&prompts);
}

/* --------------------------------------------------------------------------------------------------------
   Losses and advantages against recorded batches of TRL and verl
   -------------------------------------------------------------------------------------------------------- */

/* The settings of each recorded loss; `factor`: what the reference divides by less than a setting can. */
static const struct {
    const char *name, *settings;
    float factor;
} recorded_losses[] = {
    {"trl_grpo", "aggregation=sequences", 1},
    {"trl_grpo_higher", "aggregation=sequences clip_high=0.28", 1},
    {"trl_bnpo", "", 1},
    {"trl_bnpo_higher", "clip_high=0.28", 1},
    {"trl_dapo", "", 1},
    {"trl_dapo_higher", "clip_high=0.28", 1},
    {"trl_dr_grpo", "aggregation=constant", 1},
    {"trl_dr_grpo_higher", "aggregation=constant clip_high=0.28", 1},
    {"trl_gspo", "aggregation=sequences ratio=sequence", 1},
    {"trl_gspo_tight", "aggregation=sequences ratio=sequence clip_low=3e-4 clip_high=4e-4", 1},
    {"trl_cispo", "objective=cispo clip_low=1 clip_high=0.28", 1},
    {"trl_grpo_kl", "aggregation=sequences kl_place=loss kl_coef=0.1 kl_estimator=k3", 1},
    {"trl_grpo_kl_corrected",
     "aggregation=sequences kl_place=loss kl_coef=0.1 kl_estimator=k3 kl_weighted=yes", 1},
    {"trl_dapo_kl", "kl_place=loss kl_coef=0.1 kl_estimator=k3", 1},
    {"trl_dapo_kl_corrected", "kl_place=loss kl_coef=0.1 kl_estimator=k3 kl_weighted=yes", 1},
    {"trl_grpo_token_truncate", "aggregation=sequences importance_cap=2", 1},
    {"trl_grpo_token_mask", "aggregation=sequences importance_cap=2 importance_mode=token-mask", 1},
    {"trl_grpo_token_mask_min",
     "aggregation=sequences importance_cap=2 importance_floor=0.5 importance_mode=token-mask", 1},
    {"trl_grpo_sequence_truncate", "aggregation=sequences importance_cap=2 importance_mode=sequence-truncate",
     1},
    {"trl_grpo_sequence_mask", "aggregation=sequences importance_cap=2 importance_mode=sequence-mask", 1},
    {"trl_grpo_sequence_mask_min",
     "aggregation=sequences importance_cap=2 importance_floor=0.5 importance_mode=sequence-mask", 1},
    {"trl_grpo_token_truncate_kl",
     "aggregation=sequences importance_cap=2 kl_place=loss kl_coef=0.1 kl_estimator=k3", 1},
    {"trl_grpo_entropy", "aggregation=sequences entropy_coef=0.01", 1},
    {"trl_dapo_entropy", "entropy_coef=0.01", 1},
    {"trl_dr_grpo_entropy", "aggregation=constant entropy_coef=0.01", 1},
    {"verl_token_mean", "", 1},
    {"verl_seq_mean_token_mean", "aggregation=sequences", 1},
    {"verl_seq_mean_token_sum", "aggregation=constant", tl_width},
    {"verl_seq_mean_token_sum_norm", "aggregation=constant", 1},
    {"verl_dual", "dual_clip=3", 1},
    {"verl_gspo", "aggregation=sequences ratio=sequence", 1},
    {"verl_cispo", "objective=cispo clip_high=0.28", 1},
    {"verl_token_mean_ta", "", 1},
    {"verl_seq_mean_token_mean_ta", "aggregation=sequences", 1},
    {"verl_seq_mean_token_sum_ta", "aggregation=constant", tl_width},
    {"verl_seq_mean_token_sum_norm_ta", "aggregation=constant", 1},
    {"verl_dual_ta", "dual_clip=3", 1},
    {"verl_gspo_ta", "aggregation=sequences ratio=sequence", 1},
    {"verl_cispo_ta", "objective=cispo clip_high=0.28", 1},
    {"verl_gspo_tight", "aggregation=sequences ratio=sequence clip_low=3e-4 clip_high=4e-4", 1},
    {"verl_k1_token_mean", "kl_place=loss kl_coef=0.1 kl_estimator=k1", 1},
    {"verl_k1_seq_mean_token_mean", "aggregation=sequences kl_place=loss kl_coef=0.1 kl_estimator=k1", 1},
    {"verl_k2_token_mean", "kl_place=loss kl_coef=0.1 kl_estimator=k2", 1},
    {"verl_k2_seq_mean_token_mean", "aggregation=sequences kl_place=loss kl_coef=0.1 kl_estimator=k2", 1},
    {"verl_k3_token_mean", "kl_place=loss kl_coef=0.1 kl_estimator=k3", 1},
    {"verl_k3_seq_mean_token_mean", "aggregation=sequences kl_place=loss kl_coef=0.1 kl_estimator=k3", 1},
    {"verl_token_truncate", "importance_cap=2", 1},
    {"verl_sequence_truncate", "importance_cap=2 importance_mode=sequence-truncate", 1},
    {"verl_token_mask_min", "importance_cap=2 importance_floor=0.5 importance_mode=token-mask", 1},
};

/* PPO on the recorded batch: 2 prompts of one token, 4 samples each, at most tl_width tokens. The samples' logp
   are at their tokens. */
typedef struct recorded {
    bench b;
    ppo_samples samples;
    float logp[tl_tokens + tl_sequences];
    unsigned char ended[tl_sequences];
} recorded;

static void begin_recorded(recorded *x, const ppo_rlhf_config *config, const float *logp) {
    ppo_rlhf_config c = *config;
    const int token[1 + tl_width] = {BOS};
    ppo_tokens tokens = {0};
    memset(x, 0, sizeof *x);
    c.prompts = tl_prompts, c.samples = tl_samples, c.minibatch_size = tl_sequences;
    c.sampling.max_new_tokens = tl_width;
    if (c.kl_place == PPO_KL_IN_LOSS && c.kl_estimator == PPO_K1) c.kl_weighted = 1; /* else it is refused */
    x->b.policy = small_lm(VOCAB, 1 + tl_width, 0);
    assert_ok(ppo_tokens_add(&x->b.prompts, token, 1, 1));
    assert_ok(ppo_rlhf_create(x->b.policy, NULL, NULL, &x->b.prompts, NULL, NULL, &c, &x->b.rlhf));
    x->b.rlhf->config.kl_weighted = config->kl_weighted;
    for (int s = 0, row = 0; s < tl_sequences; s++) {
        assert_ok(ppo_tokens_add(&tokens, token, 1 + tl_length[s], 1));
        for (int i = 0; i < tl_length[s]; i++) x->logp[tokens.start[s] + 1 + i] = logp[row++];
        x->ended[s] = 1;
    }
    x->samples.tokens = tokens, x->samples.logp = x->logp, x->samples.ended = x->ended;
    ppo__rlhf_index(x->b.rlhf, &x->samples.tokens);
    memcpy(x->b.rlhf->rows.old_logp, tl_old_logp, sizeof tl_old_logp);
    memcpy(x->b.rlhf->rows.ref_logp, tl_ref_logp, sizeof tl_ref_logp);
}

static void end_recorded(recorded *x) {
    ppo_tokens_free(&x->samples.tokens);
    end(&x->b);
}

static void losses_of_tokens_are_those_of_trl_and_verl(void **state) {
    (void)state;
    assert_int_equal(COUNT(recorded_losses), tl_cases_n);
    for (int i = 0; i < tl_cases_n; i++) {
        const tl_case *want = &tl_cases[i];
        ppo_rlhf_config c = small_config();
        recorded x;
        float logp[tl_tokens], entropy[tl_tokens], zeros[tl_sequences] = {0}, weight = 0;
        float grad[2][tl_tokens];
        int item[tl_sequences], row = 0;
        ppo__rlhf_stats stats;
        assert_string_equal(recorded_losses[i].name, want->name);
        c.advantage = PPO_ADVANTAGE_GROUP, c.kl_coef = 0;
        assert_ok(ppo_settings_set_all(ppo_rlhf_settings(), &c, recorded_losses[i].settings));
        begin_recorded(&x, &c, c.importance_cap > 0 ? tl_sampling_logp : tl_old_logp);
        ppo_rlhf *r = x.b.rlhf;
        assert_ok(ppo__rlhf_rewards(r, &x.samples, zeros)); /* for the lengths */
        for (int s = 0; s < tl_sequences; s++) {
            item[s] = s;
            for (int k = 0; k < tl_length[s]; k++, row++)
                r->rows.advantage[row] = want->token_advantage ? tl_token_advantage[row] : tl_advantage[s];
        }
        ppo__rlhf_importance(r, &x.samples);
        r->learner.data[0] = &x.samples.tokens;
        ppo__lane *lane = r->learner.lane;
        ppo__response_rows rows;
        ppo_tape_reset(lane->tape);
        assert_ok(ppo__gather_items(&r->learner, lane, item, tl_sequences));
        r->per_token = ppo__rlhf_per_token(r, item, tl_sequences);
        assert_int_equal(ppo__rlhf_gather_rows(r, lane, item, &rows), tl_tokens);
        memcpy(logp, tl_logp, sizeof logp);
        memcpy(entropy, tl_entropy, sizeof entropy);
        memset(grad, 0, sizeof grad);
        ppo_tensor given[2] = {{tl_tokens, 1, logp, grad[0]}, {tl_tokens, 1, entropy, grad[1]}};
        ppo_response out = {&given[0], &given[1], NULL, NULL};
        memset(&stats, 0, sizeof stats);
        ppo_tensor *loss = ppo__token_loss(&r->config, lane->tape, &out, &lane->batch[0], &rows, r->kl_coef,
                                           r->config.entropy_coef, &stats);
        assert_ok(ppo_tape_backward(lane->tape, loss));
        weight = recorded_losses[i].factor;
        for (int k = 0; k < tl_tokens; k++) {
            if (fabs(weight * grad[0][k] - want->grad_logp[k]) < 2e-6 &&
                fabs(weight * grad[1][k] - want->grad_entropy[k]) < 2e-6)
                continue;
            fail_msg("%s: gradient %d is %g and %g, not %g and %g", want->name, k, (double)grad[0][k],
                     (double)grad[1][k], (double)want->grad_logp[k], (double)want->grad_entropy[k]);
        }
        if (fabs(weight * loss->data[0] - want->loss) > 2e-6)
            fail_msg("%s: the loss is %g, not %g", want->name, (double)loss->data[0], (double)want->loss);
        end_recorded(&x);
    }
}

static void advantages_of_sequences_are_those_of_trl_and_verl(void **state) {
    (void)state;
    static const struct {
        const char *settings;
        const float *want;
        int by_token;
    } kinds[] = {{"advantage=group", tl_adv_grpo_trl, 0},
                 {"advantage=group-mean", tl_adv_mean, 0},
                 {"advantage=leave-one-out", tl_adv_rloo, 0},
                 {"advantage=group-mean whiten_advantages=yes", tl_adv_rfpp_baseline, 0},
                 {"advantage=return", tl_rfpp_adv_1, 1},
                 {"advantage=return whiten_advantages=no", tl_rfpp_return_1, 1},
                 {"advantage=return gamma=0.9", tl_rfpp_adv_09, 1},
                 {"advantage=return gamma=0.9 whiten_advantages=no", tl_rfpp_return_09, 1}};
    for (int i = 0; i < COUNT(kinds); i++) {
        ppo_rlhf_config c = small_config();
        recorded x;
        c.kl_coef = kinds[i].by_token ? tl_rfpp_kl_coef : 0;
        assert_ok(ppo_settings_set_all(ppo_rlhf_settings(), &c, kinds[i].settings));
        begin_recorded(&x, &c, tl_old_logp);
        ppo_rlhf *r = x.b.rlhf;
        assert_ok(ppo__rlhf_rewards(r, &x.samples, tl_score));
        for (int k = 0; k < tl_tokens && kinds[i].by_token; k++)
            assert_close(r->rows.reward[k], tl_rfpp_reward[k], 1e-6);
        assert_ok(ppo__rlhf_advantages(r, &x.samples));
        for (int s = 0, row = 0; s < tl_sequences; s++)
            for (int k = 0; k < tl_length[s]; k++, row++)
                assert_close(r->rows.advantage[row], kinds[i].want[kinds[i].by_token ? row : s], 1e-5);
        end_recorded(&x);
    }
}

/* A return has no values: none may be left over from an iteration before. */
static void returns_have_no_values_in_any_iteration(void **state) {
    (void)state;
    ppo_rlhf_config c = small_config();
    c.advantage = PPO_ADVANTAGE_RETURN, c.importance_cap = 2;
    bench b = begin(&c);
    for (int k = 0; k < 3; k++) assert_ok(ppo_rlhf_iterate(b.rlhf, NULL));
    for (int row = 0; row < b.rlhf->first_row[8]; row++)
        assert_true(b.rlhf->rows.value[row] == 0 && b.rlhf->rows.next_value[row] == 0);
    end(&b);
}

/* With KL in the reward, a group that earned the same learns its KL alone, not divided by a std of 0. */
static void a_group_that_earned_the_same_does_not_blow_up_its_kl(void **state) {
    (void)state;
    ppo_rlhf_config c = small_config();
    recorded x;
    float score[tl_sequences] = {2, 2, 2, 2, 0, 1, 0, 1}, kl[tl_sequences] = {0};
    c.advantage = PPO_ADVANTAGE_GROUP, c.kl_coef = 0.05f;
    begin_recorded(&x, &c, tl_old_logp);
    ppo_rlhf *r = x.b.rlhf;
    assert_ok(ppo__rlhf_rewards(r, &x.samples, score));
    assert_ok(ppo__rlhf_advantages(r, &x.samples));
    for (int s = 0, row = 0; s < tl_sequences; s++)
        for (int k = 0; k < tl_length[s]; k++, row++) kl[s] += 0.05f * (tl_old_logp[row] - tl_ref_logp[row]);
    for (int s = 0; s < tl_sequences; s++) {
        float mean = (kl[s / 4 * 4] + kl[s / 4 * 4 + 1] + kl[s / 4 * 4 + 2] + kl[s / 4 * 4 + 3]) / 4;
        float earned = s < 4 ? 0 : (score[s] - 0.5f) / (0.57735026f + 1e-4f);
        assert_close(r->rows.advantage[r->first_row[s]], earned - (kl[s] - mean), 1e-5);
    }
    end_recorded(&x);
}

/* GAE goes from one sampled token to the next, over what a tool wrote. */
static void gae_skips_what_a_tool_wrote_as_verl_does(void **state) {
    (void)state;
    for (int white = 0; white < 2; white++) {
        ppo_rlhf_config c = small_config();
        const int token[16] = {BOS};
        ppo_lm *policy = small_lm(VOCAB, 16, 0);
        ppo_tokens prompts = {0}, tokens = {0};
        ppo_rlhf *r = NULL;
        unsigned char ended[3] = {1, 1, 1};
        int row = 0;
        c.prompts = tl_gae_sequences, c.gae_lambda = tl_gae_lambda, c.whiten_advantages = white;
        assert_ok(ppo_tokens_add(&prompts, token, 1, 1));
        assert_ok(ppo_rlhf_create(policy, NULL, NULL, &prompts, NULL, NULL, &c, &r));
        for (int s = 0, at = 0; s < tl_gae_sequences; s++) {
            assert_ok(ppo_tokens_add(&tokens, token, 1 + tl_gae_length[s], 1));
            for (int i = 0; i < tl_gae_length[s]; i++, at++) {
                if (!tl_gae_mask[at]) {
                    assert_ok(ppo_tokens_mark_given(&tokens, 1 + i, 1));
                    continue;
                }
                r->rows.reward[row] = tl_gae_reward[at];
                r->rows.value[row++] = tl_gae_value[at];
            }
        }
        ppo_samples samples = {tokens, NULL, ended};
        ppo__rlhf_index(r, &tokens);
        assert_int_equal(r->first_row[3], row);
        ppo__rlhf_next_values(r, &samples);
        assert_ok(ppo__rlhf_advantages(r, &samples));
        for (int at = row = 0; at < tl_gae_tokens; at++) {
            if (!tl_gae_mask[at]) continue;
            assert_close(r->rows.advantage[row], white ? tl_gae_white[at] : tl_gae_adv[at], 2e-6);
            assert_close(r->rows.value_target[row++], tl_gae_return[at], 2e-6);
        }
        ppo_rlhf_free(r);
        ppo_lm_free(policy);
        ppo_tokens_free(&prompts);
        ppo_tokens_free(&tokens);
    }
}

static void overlong_samples_cost_what_dapo_says(void **state) {
    (void)state;
    for (int half = 0; half < 2; half++) {
        ppo_rlhf_config c = small_config();
        recorded x;
        float zeros[tl_sequences] = {0};
        c.advantage = PPO_ADVANTAGE_GROUP, c.kl_coef = 0;
        c.overlong_buffer = tl_overlong_buffer, c.overlong_penalty = half ? 0.5f : 1;
        begin_recorded(&x, &c, tl_old_logp);
        assert_ok(ppo__rlhf_rewards(x.b.rlhf, &x.samples, zeros));
        for (int s = 0; s < tl_sequences; s++)
            assert_close(x.b.rlhf->total[s],
                         half ? tl_overlong_05[tl_length[s] - 1] : tl_overlong_1[tl_length[s] - 1], 1e-6);
        end_recorded(&x);
    }
}

/* TRL applies at each step what it found at the end of the step before; here it is found before the epochs. TRL's
   coefficient stops at tl_controller_max, four steps, ours at 1. */
static void the_entropys_coefficient_moves_as_trls_does(void **state) {
    (void)state;
    ppo_rlhf_config c = small_config();
    c.entropy_target = tl_controller_target, c.entropy_step = tl_controller_delta / tl_controller_max;
    bench b = begin(&c);
    for (int t = 0; t < tl_controller_n; t++) {
        float after = ppo__rlhf_entropy_coef(b.rlhf, tl_controller_entropy[t]);
        assert_close(after * tl_controller_max, tl_controller_after[t], 1e-7);
        if (t + 1 < tl_controller_n)
            assert_close(tl_controller_entropy[t] <= tl_controller_target ? after * tl_controller_max : 0,
                         tl_controller_applied[t + 1], 1e-7);
        b.rlhf->entropy_coef = after;
    }
    end(&b);
}

/* What section 9 says of the estimators' gradients, on a model of one state and five actions whose expectations
   are sums: of each term over the actions of an old policy, by the tape. */
static void kl_estimators_have_the_gradients_of_the_table(void **state) {
    (void)state;
    enum { N = tl_kl_actions };
    static const int action[N] = {0, 1, 2, 3, 4};
    double log_ref[N], log_old[N], sum[2] = {0, 0};
    for (int a = 0; a < N; a++) sum[0] += exp(tl_kl_ref[a]), sum[1] += exp(tl_kl_old[a]);
    for (int a = 0; a < N; a++)
        log_ref[a] = tl_kl_ref[a] - log(sum[0]), log_old[a] = tl_kl_old[a] - log(sum[1]);
    for (int off = 0; off < 2; off++) {
        for (int i = 0; i < 7; i++) { /* k1, k2, k3, r k1, r k3, the exact one; k1 as a reward */
            ppo_tape *tape = NULL;
            float theta[N][N], grad[N][N], ref[N], old[N], weight[N], got[N] = {0};
            int differs = 0;
            ppo_rlhf_config c = small_config();
            ppo__response_rows rows;
            ppo_response out = {NULL, NULL, NULL, NULL};
            memset(&rows, 0, sizeof rows);
            memset(grad, 0, sizeof grad);
            for (int a = 0; a < N; a++)
                for (int k = 0; k < N; k++) theta[a][k] = (float)tl_kl_theta[k];
            ppo_tensor logits = {N, N, theta[0], grad[0]}, *entropy = NULL, *term;
            assert_ok(ppo_tape_create(&tape));
            ppo_tape_categorical(tape, &logits, action, 1, &out.logp, &entropy);
            for (int a = 0; a < N; a++) {
                ref[a] = (float)log_ref[a];
                old[a] = off ? (float)log_old[a] : out.logp->data[a];
                weight[a] = expf(old[a]);
            }
            rows.ref_logp = ref, rows.old_logp = old;
            c.kl_estimator = i < 3 ? PPO_K1 + i : i == 3 || i == 6 ? PPO_K1 : PPO_K3;
            c.kl_weighted = i == 3 || i == 4;
            if (i == 5) { /* exact: in the only state there is */
                float ref_logits[N][N];
                for (int a = 0; a < N; a++)
                    for (int k = 0; k < N; k++) ref_logits[a][k] = (float)tl_kl_ref[k];
                term = ppo_tape_categorical_kl_to(tape, &logits, ref_logits[0], 1);
                assert_ok(ppo_tape_backward(
                    tape,
                    ppo_tape_sum(tape, ppo_tape_mul(tape, term, ppo_tape_constant(tape, weight, N, 1)))));
            } else if (i == 6) { /* PPO's r A with the cost k1 of the policy that sampled */
                float cost[N];
                for (int a = 0; a < N; a++) cost[a] = old[a] - ref[a];
                term = ppo_tape_exp(tape, ppo__tape_log_ratio(tape, out.logp, old));
                term = ppo_tape_mul(tape, term, ppo_tape_constant(tape, cost, N, 1));
                assert_ok(ppo_tape_backward(
                    tape,
                    ppo_tape_sum(tape, ppo_tape_mul(tape, term, ppo_tape_constant(tape, weight, N, 1)))));
            } else {
                term = ppo__kl_loss(&c, tape, &out, &rows);
                assert_ok(ppo_tape_backward(
                    tape,
                    ppo_tape_sum(tape, ppo_tape_mul(tape, term, ppo_tape_constant(tape, weight, N, 1)))));
            }
            for (int a = 0; a < N; a++)
                for (int k = 0; k < N; k++) got[k] += grad[a][k];
            for (int k = 0; k < N; k++) {
                const double *rows_of = off ? tl_kl_off : tl_kl_on;
                double want = i < 5 ? rows_of[i * N + k] : tl_kl_reverse[k];
                if (i == 6 && off) { /* it is not that of the KL */
                    differs = differs || fabs(got[k] - want) > 0.05;
                    continue;
                }
                if (fabs(got[k] - want) > 3e-7)
                    fail_msg("term %d, off %d: %g, not %g", i, off, (double)got[k], want);
                if (i < 5 && (off ? tl_kl_right_off : tl_kl_right_on)[i])
                    assert_close(want, tl_kl_reverse[k], 1e-9);
                if (i == 0 && !off) assert_close(want, 0, 1e-9);
                if (i == 2 && !off) assert_close(want, tl_kl_forward[k], 1e-9);
            }
            assert_true(differs == (i == 6 && off));
            ppo_tape_free(tape);
        }
    }
}

/* --------------------------------------------------------------------------------------------------------
   Methods: refills, masks, presets, the entropy's target, tools
   -------------------------------------------------------------------------------------------------------- */

/* Prompts whose last token is another than GOOD teach nothing: all of their samples earn the same. */
static ppo_status only_good_prompts_teach(const ppo_samples *samples, float *reward, void *user) {
    const ppo_tokens *t = &samples->tokens;
    if (user) *(int *)user += t->count;
    for (int s = 0; s < t->count; s++) {
        int last = t->token[t->start[s] + t->prompt[s] - 1];
        reward[s] = last == GOOD ? (float)(s % 2) : 5;
    }
    return PPO_OK;
}

static void prompts_that_teach_nothing_are_replaced(void **state) {
    (void)state;
    enum { ALL = 10 };
    for (int refills = 0; refills < 4; refills++) {
        ppo_rlhf_config c = small_config();
        ppo_rlhf_progress p;
        ppo_lm *policy = small_lm(VOCAB, POSITIONS, 0);
        ppo_tokens prompts = {0};
        ppo_rlhf *r = NULL;
        int asked = 0, before = 0;
        for (int k = 0; k < ALL; k++) { /* 7 of 10 teach nothing */
            int token[2] = {BOS, k < 3 ? GOOD : 2};
            assert_ok(ppo_tokens_add(&prompts, token, 2, 2));
        }
        c.prompts = 4, c.samples = 2, c.advantage = PPO_ADVANTAGE_GROUP, c.refills = refills;
        assert_ok(ppo_rlhf_create(policy, NULL, NULL, &prompts, only_good_prompts_teach, &asked, &c, &r));
        for (int k = 0; k < 6; k++) {
            assert_ok(ppo_rlhf_iterate(r, &p));
            const ppo_tokens *t = &r->kept_samples.tokens;
            assert_int_equal(asked - before, 2 * (4 + p.refilled));
            assert_int_equal(r->next_prompt, asked / 2); /* every prompt has its turn */
            assert_true(p.first_ratio_min == 1 && p.first_ratio_max == 1);
            before = asked;
            if (!refills) {
                assert_int_equal(p.refilled, 0);
                continue;
            }
            assert_int_equal(t->count, 8);
            int useful = 0;
            for (int s = 0; s < 8; s += 2) {
                useful += t->token[t->start[s] + 1] == GOOD;
                assert_int_equal(t->token[t->start[s] + 1], t->token[t->start[s + 1] + 1]);
                assert_true(r->score[s] == (t->token[t->start[s] + 1] == GOOD ? 0 : 5));
                assert_true(r->score[s + 1] == (t->token[t->start[s] + 1] == GOOD ? 1 : 5));
            }
            if (p.refilled < 4 * refills && useful < 4) /* not all were replaced each time */
                assert_true(useful > 0);
            if (useful < 4) assert_true(p.refilled >= refills);
        }
        ppo_rlhf_free(r);
        ppo_lm_free(policy);
        ppo_tokens_free(&prompts);
    }
}

/* log-probabilities of what was kept from several rounds are those of sampling, bit for bit. */
static void what_several_rounds_kept_trains_as_own_samples_do(void **state) {
    (void)state;
    float weight[2];
    ppo_tokens tokens = {0};
    for (int k = 0; k < 2; k++) {
        ppo_rlhf_config c = small_config();
        ppo_rlhf_progress p;
        c.samples = 2, c.prompts = 4, c.advantage = PPO_ADVANTAGE_GROUP_MEAN, c.refills = k ? 0 : 2;
        bench b = {small_lm(VOCAB, POSITIONS, 1), some_prompts(5), NULL};
        static ppo_samples kept;
        static float score[8], logp[8 * POSITIONS];
        static unsigned char ended[8];
        assert_ok(
            ppo_rlhf_create(b.policy, NULL, NULL, &b.prompts, only_good_prompts_teach, NULL, &c, &b.rlhf));
        if (!k) {
            assert_ok(ppo_rlhf_iterate(b.rlhf, &p));
            assert_true(p.refilled > 0);
            for (int s = 0; s < 8; s++)
                assert_ok(ppo_tokens_add_from(&tokens, &b.rlhf->kept_samples.tokens, s));
            memcpy(score, b.rlhf->score, sizeof score);
            memcpy(logp, b.rlhf->kept_samples.logp, (size_t)tokens.start[8] * sizeof(float));
            memcpy(ended, b.rlhf->kept_samples.ended, sizeof ended);
            kept.tokens = tokens, kept.logp = logp, kept.ended = ended;
        } else {
            assert_ok(ppo_rlhf_update(b.rlhf, &kept, score, &p));
        }
        weight[k] = b.policy->block[0].up_weight->data[3];
        end(&b);
    }
    assert_true(weight[0] == weight[1]);
    ppo_tokens_free(&tokens);
}

static void truncated_sequences_can_be_left_out(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++) { /* none ends, some end, all count */
        ppo_rlhf_config c = small_config();
        ppo_rlhf_progress p;
        c.sampling.max_new_tokens = kind ? 3 : 1,
        c.mask_truncated = kind < 2; /* 1: the prompts' reward ends none */
        c.sampling.temperature = kind ? 1 : 0.05f;
        c.missing_eos_penalty = 1;
        bench b = begin(&c);
        float was = b.policy->block[0].up_weight->data[3];
        assert_ok(ppo_rlhf_iterate(b.rlhf, &p));
        int learned = kind < 2 ? (int)(p.ended * 8 + 0.5f) : 8;
        assert_int_equal(b.rlhf->trained, learned);
        for (int i = 0; i < learned; i++) assert_true(b.rlhf->learns[b.rlhf->order[i]]);
        assert_int_equal(p.gradient_steps, 2 * ((learned + 3) / 4));
        assert_true(p.first_ratio_min == 1 && p.first_ratio_max == 1);
        assert_true((b.policy->block[0].up_weight->data[3] == was) == !kind);
        if (kind == 1) assert_true(learned > 0 && learned < 8);
        if (!kind) assert_non_null(strstr(p.warning, "no sample ended"));
        end(&b);
    }
}

/* The soft punishment of DAPO, in the reward of the last token. */
static void the_last_tokens_before_the_limit_cost(void **state) {
    (void)state;
    ppo_rlhf_config c = small_config();
    c.overlong_buffer = 3, c.overlong_penalty = 0.6f, c.sampling.max_new_tokens = 5, c.kl_coef = 0,
    c.prompts = 32;
    bench b = begin(&c);
    ppo_samples samples;
    int64_t next = 0;
    float score[32] = {0};
    assert_ok(ppo__rlhf_choose(b.rlhf, c.prompts, &next));
    assert_ok(ppo_generate(b.rlhf->generator, &b.rlhf->asked, &c.sampling, &samples));
    assert_ok(ppo__rlhf_evaluate(b.rlhf, &samples));
    assert_ok(ppo__rlhf_rewards(b.rlhf, &samples, score));
    int long_ones = 0, short_ones = 0;
    for (int s = 0; s < 32; s++) {
        int n = b.rlhf->first_row[s + 1] - b.rlhf->first_row[s];
        assert_close(b.rlhf->total[s], n > 2 ? -0.2 * (n - 2) : 0, 1e-6);
        long_ones += n > 2, short_ones += n <= 2;
    }
    assert_true(long_ones && short_ones);
    end(&b);
}

static void the_entropy_is_held_at_its_target(void **state) {
    (void)state;
    float entropy[2] = {0, 0};
    for (int held = 0; held < 2; held++) {
        ppo_rlhf_config c = small_config();
        ppo_rlhf_progress p;
        c.prompts = 32, c.minibatch_size = 16, c.learning_rate = 1e-2f, c.kl_coef = 0;
        if (held) c.entropy_target = 0.8f, c.entropy_step = 0.02f;
        bench b = begin(&c);
        float before = 0;
        for (int k = 0; k < 60; k++) {
            assert_ok(ppo_rlhf_iterate(b.rlhf, &p));
            if (held) { /* it moves by a step towards the target, and counts below it only */
                float now = ppo__clamp(before + (p.entropy <= 0.8f ? 0.02f : -0.02f), 0, 1);
                assert_close(b.rlhf->entropy_coef, now, 1e-6);
                assert_close(p.entropy_coef, p.entropy <= 0.8f ? now : 0, 1e-6);
                before = now;
            }
            if (k >= 40) entropy[held] += p.entropy / 20;
        }
        end(&b);
    }
    if (!(entropy[0] < 0.3f && fabsf(entropy[1] - 0.8f) < 0.2f))
        fail_msg("entropy %g, held at 0.8: %g", (double)entropy[0], (double)entropy[1]);
}

/* Each makes the wanted token more frequent, and is what it says: settings differ. */
static void presets_train(void **state) {
    (void)state;
    char names[256], *name = names, *bar;
    int count = 0;
    const int rounds = SMALL(40, 3);
    snprintf(names, sizeof names, "%s", ppo_rlhf_settings()->preset_names);
    for (; name; name = bar ? bar + 1 : NULL, count++) {
        if ((bar = strchr(name, '|'))) *bar = 0;
        ppo_rlhf_config c = small_config();
        ppo_rlhf_progress first, p;
        c.entropy_coef = 9, c.penalty_target_kl = 9, c.refills = 9,
        c.aggregation = 9; /* which a preset resets */
        c.kl_horizon = 9, c.entropy_step = 9;
        assert_ok(ppo_rlhf_config_preset(&c, name));
        c.prompts = 8, c.minibatch_size = 16, c.learning_rate = 1e-2f, c.target_kl = 0.02f;
        c.sampling.max_new_tokens = POSITIONS - 2;
        c.normalize_rewards = 1;
        bench b = begin(&c);
        assert_ok(ppo_rlhf_iterate(b.rlhf, &first));
        for (int k = 0; k < rounds; k++) {
            assert_ok(ppo_rlhf_iterate(b.rlhf, &p));
            assert_true(p.first_ratio_min == 1 && p.first_ratio_max == 1);
        }
        const int distills = !strcmp(name, "distill"); /* rewards count for little beside the KL */
        if (rounds == 40 && !distills && !(p.reward > first.reward + 1))
            fail_msg("%s: %g, first %g", name, (double)p.reward, (double)first.reward);
        end(&b);
    }
    assert_int_equal(count, 10);
    ppo_rlhf_config c = ppo_rlhf_config_default();
    const ppo_rlhf_config usual = c;
    assert_ok(ppo_rlhf_config_preset(&c, "dapo"));
    assert_ok(ppo_rlhf_config_preset(&c, "ppo"));
    assert_memory_equal(&c, &usual, sizeof c);
    assert_fails(ppo_rlhf_config_preset(&c, "trpo"), PPO_ERROR_ARGUMENT, "no preset \"trpo\"|rloo|grpo");
    assert_fails(ppo_rlhf_config_preset(NULL, "grpo"), PPO_ERROR_ARGUMENT, "ppo_settings_preset");
}

/* A tool that answers with two tokens: 5, and how many tokens there are; or none, or too many, or it fails. */
enum { CALL = 4 };
static ppo_status counting_tool(const int *token, int n, int *answer, int room, int *count, void *user) {
    int mode = *(int *)user;
    assert_int_equal(token[n - 1], CALL);
    assert_true(room > 0 && n + room <= POSITIONS);
    if (mode == 1) return ppo_fail(PPO_ERROR_ARGUMENT, "the tool is broken");
    if (mode == 5) return PPO_ERROR_ARGUMENT;
    *count = mode == 2 ? room + 1 : mode == 3 ? -1 : room < 2 ? room : 2;
    answer[0] = mode == 4 ? VOCAB : 5;
    if (room > 1) answer[1] = n % VOCAB;
    return PPO_OK;
}

static ppo_sampling with_tool(int *mode) {
    ppo_sampling how = ppo_sampling_default();
    how.eos = EOS, how.tool_token = CALL, how.tool = counting_tool, how.tool_user = mode;
    return how;
}

static void a_tool_answers_in_the_text(void **state) {
    (void)state;
    FOR_KERNEL_SETS(set) {
        ppo_lm *lm = small_lm(VOCAB, POSITIONS, 1);
        ppo_tokens prompts = some_prompts(40), first = {0};
        int mode = 0, calls = 0, cut = 0;
        for (int slots = 1; slots <= 40; slots += 13) {
            ppo_generator *g = NULL;
            ppo_samples x;
            ppo_sampling how = with_tool(&mode);
            assert_ok(ppo_generator_create(lm, slots, &g));
            assert_ok(ppo_generate(g, &prompts, &how, &x));
            const ppo_tokens *t = &x.tokens;
            for (int s = 0; s < t->count; s++) {
                int end = t->start[s + 1], i = t->start[s] + t->prompt[s];
                for (; i < end; i++) {
                    assert_true(!t->given[i] && x.logp[i] < 0);
                    if (t->token[i] != CALL || i + 1 == end) continue;
                    int room = t->start[s] + POSITIONS - i - 1, n = room < 2 ? room : 2;
                    assert_true(t->given[i + 1] && t->token[i + 1] == 5 && x.logp[i + 1] == 0);
                    if (n == 2)
                        assert_true(t->given[i + 2] && t->token[i + 2] == (i + 1 - t->start[s]) % VOCAB);
                    i += n, calls++;
                    cut += i + 1 == end && !x.ended[s];
                }
                assert_int_equal(x.ended[s], t->token[end - 1] == EOS && !t->given[end - 1]);
                if (slots == 1) assert_ok(ppo_tokens_add_from(&first, t, s));
            }
            assert_memory_equal(first.token, t->token, (size_t)t->start[40] * sizeof(int));
            assert_memory_equal(first.given, t->given, (size_t)t->start[40]);
            /* The rows of training are the sampled tokens, with the bits of sampling. */
            ppo_tape *tape = NULL;
            assert_ok(ppo_tape_create(&tape));
            ppo_response out = ppo_lm_response(tape, lm, t, 1, PPO_POLICY | PPO_VALUE);
            assert_ok(ppo_tape_status(tape));
            int row = 0;
            for (int s = 0; s < t->count; s++) {
                assert_int_equal(ppo_response_row(t, s), row);
                for (int i = t->start[s] + t->prompt[s]; i < t->start[s + 1]; i++)
                    if (!t->given[i]) assert_true(out.logp->data[row++] == x.logp[i]);
            }
            assert_int_equal(out.logp->rows, row);
            assert_int_equal(out.value->rows, row);
            ppo_tape_free(tape);
            ppo_generator_free(g);
        }
        assert_true(calls > 40 && cut > 0);
        ppo_tokens_free(&first);
        ppo_tokens_free(&prompts);
        ppo_lm_free(lm);
    }
}

static void a_tool_that_fails_is_told(void **state) {
    (void)state;
    static const char *const words[] = {"the tool is broken", "answers|has room for|sequence",
                                        "answers -1|sequence", "answers token 7|0 .. 6|sequence",
                                        "the tool failed and gave no reason"};
    ppo_lm *lm = small_lm(VOCAB, POSITIONS, 0);
    ppo_tokens prompts = some_prompts(20);
    ppo_generator *g = NULL;
    ppo_samples x;
    int mode = 0;
    ppo_sampling how = with_tool(&mode);
    assert_ok(ppo_generator_create(lm, 4, &g));
    for (mode = 1; mode <= COUNT(words); mode++) {
        assert_fails(ppo_generate(g, &prompts, &how, &x), PPO_ERROR_ARGUMENT, words[mode - 1]);
        assert_int_equal(x.tokens.count, 0);
    }
    mode = 0;
    assert_ok(ppo_generate(g, &prompts, &how, &x));
    how.tool = NULL;
    assert_fails(ppo_generate(g, &prompts, &how, &x), PPO_ERROR_ARGUMENT, "tool_token is 4|tool is NULL");
    how = with_tool(&mode), how.tool_token = -1;
    assert_fails(ppo_generate(g, &prompts, &how, &x), PPO_ERROR_ARGUMENT,
                 "tool_token is -1|tool is not NULL");
    how = with_tool(&mode), how.tool_token = VOCAB;
    assert_fails(ppo_generate(g, &prompts, &how, &x), PPO_ERROR_ARGUMENT, "tool_token is 7|0 .. 6");
    how.tool_token = EOS;
    assert_fails(ppo_generate(g, &prompts, &how, &x), PPO_ERROR_ARGUMENT, "tool_token and eos are both 0");
    ppo_generator_free(g);
    ppo_tokens_free(&prompts);
    ppo_lm_free(lm);
}

/* What a tool wrote is not learned: its rows are missing everywhere, and the first ratios are exactly 1. */
static void training_skips_what_a_tool_wrote(void **state) {
    (void)state;
    int mode = 0;
    for (int i = 0; i < 6; i++) {
        ppo_rlhf_config c = small_config();
        ppo_rlhf_progress p;
        c.sampling = with_tool(&mode), c.prompts = 16, c.kl_coef = 0.1f;
        if (i == 1) c.bootstrap_truncated = 1, c.micro_batch = 3;
        if (i == 2) c.advantage = PPO_ADVANTAGE_GROUP, c.samples = 2, c.refills = 1;
        if (i == 3) { /* with one advantage for all tokens of a sequence, the ratio's gradient is exact */
            c.ratio = PPO_RATIO_SEQUENCE, c.aggregation = PPO_AGGREGATE_SEQUENCES;
            c.advantage = PPO_ADVANTAGE_SEQUENCE;
        }
        if (i == 4) c.importance_cap = 2, c.importance_mode = PPO_SEQUENCE_MASK;
        if (i == 5) c.kl_place = PPO_KL_IN_LOSS, c.kl_estimator = PPO_KL_EXACT;
        bench b = begin(&c);
        for (int k = 0; k < 3; k++) {
            assert_ok(ppo_rlhf_iterate(b.rlhf, &p));
            assert_true(p.first_ratio_min == 1 && p.first_ratio_max == 1);
            assert_true(p.mean_length < POSITIONS - 1 && p.approx_kl > 0);
        }
        if (i < 4) {
            ppo_tensor *const inputs[] = {b.policy->block[0].qkv_bias, b.policy->norm_weight};
            assert_ok(ppo_check_gradients(whole_loss, inputs, COUNT(inputs), b.rlhf, 1e-2f, 2e-2f, NULL));
        }
        end(&b);
    }
}

/* target_kl would count the distance to the other policy as that of the epochs. */
static void samples_of_another_policy_need_a_cap(void **state) {
    (void)state;
    for (int cap = 0; cap < 2; cap++) {
        ppo_rlhf_config c = small_config();
        ppo_rlhf_progress p;
        ppo_samples samples;
        ppo_generator *g = NULL;
        ppo_lm *other = NULL;
        float reward[8];
        c.target_kl = 0.02f, c.importance_cap = cap ? 2 : 0;
        bench b = begin(&c);
        assert_ok(ppo_lm_copy(b.policy, 0, &other));
        for (size_t i = 0; i < other->params->count; i++) other->params->data[i] *= 0.5f;
        assert_ok(ppo_generator_create(other, 4, &g));
        ppo_tokens asked = some_prompts(8);
        assert_ok(ppo_generate(g, &asked, &c.sampling, &samples));
        assert_ok(count_good(&samples, reward, NULL));
        if (cap) {
            assert_ok(ppo_rlhf_update(b.rlhf, &samples, reward, &p));
            assert_true(p.gradient_steps > 0);
        } else {
            float was = b.policy->block[0].up_weight->data[3];
            assert_fails(ppo_rlhf_update(b.rlhf, &samples, reward, &p), PPO_ERROR_ARGUMENT,
                         "another policy|target_kl is 0.02|importance_cap");
            assert_true(b.policy->block[0].up_weight->data[3] == was);
            samples.logp = NULL; /* as if they were its own */
            assert_ok(ppo_rlhf_update(b.rlhf, &samples, reward, &p));
        }
        ppo_tokens_free(&asked);
        ppo_generator_free(g);
        ppo_lm_free(other);
        end(&b);
    }
}

static ppo_generator *shared_generator;
static ppo_status tool_that_samples(const int *token, int n, int *answer, int room, int *count, void *user) {
    ppo_tokens asked = some_prompts(3);
    ppo_samples x;
    ppo_sampling how = ppo_sampling_default();
    ppo_status status = ppo_generate(shared_generator, &asked, &how, &x);
    (void)token, (void)n, (void)room, (void)user;
    answer[0] = 5, *count = 0;
    ppo_tokens_free(&asked);
    return status;
}
static ppo_status reward_that_samples(const ppo_samples *samples, float *reward, void *user) {
    int unused = 0;
    for (int s = 0; s < samples->tokens.count; s++) reward[s] = (float)s;
    return tool_that_samples(NULL, 0, &unused, 0, &unused, user);
}

static void a_generator_in_use_is_refused(void **state) {
    (void)state;
    ppo_lm *lm = small_lm(VOCAB, POSITIONS, 0);
    ppo_tokens prompts = some_prompts(40), a = {0}, b = {0};
    ppo_samples x;
    ppo_sampling how = ppo_sampling_default();
    assert_ok(ppo_generator_create(lm, 4, &shared_generator));
    assert_fails(ppo_best_of_n(shared_generator, &prompts, 2, &how, reward_that_samples, NULL, &a, NULL),
                 PPO_ERROR_ARGUMENT, "the generator is in use");
    assert_fails(ppo_compare(shared_generator, &prompts, &how, reward_that_samples, NULL, NULL, &a, &b),
                 PPO_ERROR_ARGUMENT, "the generator is in use");
    how.tool_token = CALL, how.tool = tool_that_samples;
    assert_fails(ppo_generate(shared_generator, &prompts, &how, &x), PPO_ERROR_ARGUMENT,
                 "the generator is in use");
    how = ppo_sampling_default();
    assert_ok(ppo_generate(shared_generator, &prompts, &how, &x)); /* not for ever */
    ppo_generator_free(shared_generator);
    ppo_tokens_free(&prompts);
    ppo_lm_free(lm);
}

static void prompts_that_never_differ_are_told(void **state) {
    (void)state;
    ppo_rlhf_config c = small_config();
    ppo_rlhf_progress p;
    ppo_lm *policy = small_lm(VOCAB, POSITIONS, 0);
    ppo_tokens prompts = {0};
    ppo_rlhf *r = NULL;
    const int token[2] = {BOS, 2};
    assert_ok(ppo_tokens_add(&prompts, token, 2, 2));
    c.samples = 2, c.refills = 3, c.advantage = PPO_ADVANTAGE_GROUP;
    assert_ok(ppo_rlhf_create(policy, NULL, NULL, &prompts, only_good_prompts_teach, NULL, &c, &r));
    assert_ok(ppo_rlhf_iterate(r, &p));
    assert_int_equal(p.refilled, 3 * c.prompts);
    assert_non_null(strstr(p.warning, "earned the same"));
    ppo_rlhf_free(r);
    ppo_lm_free(policy);
    ppo_tokens_free(&prompts);
}

static void given_tokens_are_not_learned(void **state) {
    (void)state;
    int text[] = {1, 2, 3, 4, 5, 6, 2};
    ppo_lm *lm = small_lm(VOCAB, POSITIONS, 0);
    ppo_tokens tokens = {0}, copy = {0};
    float logp[2];
    ppo_tape *tape = NULL;
    assert_fails(ppo_tokens_mark_given(&tokens, 0, 0), PPO_ERROR_ARGUMENT, "hold no sequence");
    assert_ok(ppo_tokens_add(&tokens, text, 5, 2));
    assert_ok(ppo_tokens_add(&tokens, text, 7, 2));
    assert_null(tokens.given);
    assert_ok(ppo_tokens_mark_given(&tokens, 3, 2));
    assert_fails(ppo_tokens_mark_given(&tokens, 6, 2), PPO_ERROR_ARGUMENT,
                 "tokens 6 and 2 further, of 7");
    assert_fails(ppo_tokens_mark_given(&tokens, -1, 2), PPO_ERROR_ARGUMENT, "-1");
    assert_fails(ppo_tokens_mark_given(&tokens, 0, -2), PPO_ERROR_ARGUMENT, "-2");
    assert_fails(ppo_tokens_mark_given(NULL, 0, 0), PPO_ERROR_ARGUMENT, "ppo_tokens_mark_given");
    assert_memory_equal(tokens.given, "\0\0\0\0\0\0\0\0\1\1\0\0", 12);
    assert_int_equal(ppo_response_row(&tokens, 1), 3);
    assert_int_equal(ppo_response_row(&tokens, 2), 6);
    for (int k = 0; k < 40; k++) assert_ok(ppo_tokens_add_from(&copy, &tokens, 1 - k % 2)); /* it grows */
    for (int k = 0; k < 40; k++)
        assert_memory_equal(copy.given + copy.start[k], k % 2 ? "\0\0\0\0\0" : "\0\0\0\1\1\0\0",
                            k % 2 ? 5 : 7);
    assert_ok(ppo_tape_create(&tape));
    ppo_response out = ppo_lm_response(tape, lm, &tokens, 1, PPO_POLICY);
    assert_ok(ppo_lm_logp(lm, &tokens, 2, logp));
    assert_close(logp[1], out.logp->data[3] + out.logp->data[4] + out.logp->data[5], 1e-6);
    ppo_tokens_clear(&tokens);
    assert_null(tokens.given);
    assert_ok(ppo_tokens_add(&tokens, text, 5, 2));
    assert_int_equal(ppo_response_row(&tokens, 1), 3);
    ppo_tape_free(tape);
    ppo_tokens_free(&tokens);
    ppo_tokens_free(&copy);
    ppo_lm_free(lm);
}

/* --------------------------------------------------------------------------------------------------------
   Comparisons and evaluation
   -------------------------------------------------------------------------------------------------------- */

static ppo_status count_good_or_fail(const ppo_samples *samples, float *reward, void *user) {
    if (user) return ppo_fail(PPO_ERROR_ARGUMENT, "the judge is asleep");
    return count_good(samples, reward, NULL);
}

static ppo_status no_reward(const ppo_samples *samples, float *reward, void *user) {
    for (int s = 0; s < samples->tokens.count; s++) reward[s] = s == 7 ? *(float *)user : 1;
    return PPO_OK;
}

static int good_in(const ppo_tokens *t, int s) {
    int good = 0;
    for (int i = t->start[s] + t->prompt[s]; i < t->start[s + 1]; i++) good += t->token[i] == GOOD;
    return good;
}

static void a_judge_compares_two_samples_of_each_prompt(void **state) {
    (void)state;
    ppo_lm *lm = small_lm(VOCAB, POSITIONS, 0);
    ppo_tokens prompts = some_prompts(60), chosen = {0}, rejected = {0};
    ppo_generator *g = NULL;
    ppo_sampling how = ppo_sampling_default();
    ppo_rng rng = test_rng(7);
    int differ = 0, mistakes = 0;
    how.eos = EOS;
    assert_ok(ppo_generator_create(lm, 8, &g));
    assert_ok(ppo_compare(g, &prompts, &how, count_good, NULL, NULL, &chosen, &rejected));
    differ = chosen.count;
    assert_true(differ > 20 && differ < 60); /* ties are left out */
    assert_int_equal(rejected.count, differ);
    for (int s = 0; s < differ; s++) {
        assert_true(good_in(&chosen, s) > good_in(&rejected, s));
        assert_int_equal(chosen.prompt[s], rejected.prompt[s]);
        assert_memory_equal(chosen.token + chosen.start[s], rejected.token + rejected.start[s],
                            (size_t)chosen.prompt[s] * sizeof(int));
    }
    assert_ok(ppo_compare(g, &prompts, &how, count_good, NULL, &rng, &chosen, &rejected)); /* adds */
    assert_int_equal(chosen.count, differ + 60);
    for (int s = differ; s < chosen.count; s++) mistakes += good_in(&chosen, s) < good_in(&rejected, s);
    assert_true(mistakes > 3 && mistakes < differ / 2); /* about sigmoid(-1) of those that differ */
    int asleep = 1;
    assert_fails(ppo_compare(g, &prompts, &how, count_good_or_fail, &asleep, NULL, &chosen, &rejected),
                 PPO_ERROR_ARGUMENT, "the judge is asleep");
    assert_fails(ppo_compare(g, &prompts, &how, count_good, NULL, NULL, &chosen, &chosen), PPO_ERROR_ARGUMENT,
                 "must be three");
    assert_fails(ppo_compare(g, &prompts, &how, count_good, NULL, NULL, &prompts, &chosen),
                 PPO_ERROR_ARGUMENT, "must be three");
    assert_fails(ppo_compare(g, NULL, &how, count_good, NULL, NULL, &chosen, &rejected), PPO_ERROR_ARGUMENT,
                 "ppo_compare");
    assert_int_equal(chosen.count, differ + 60);
    assert_int_equal(rejected.count, differ + 60);
    ppo_tokens_free(&prompts);
    ppo_tokens_free(&chosen);
    ppo_tokens_free(&rejected);
    ppo_generator_free(g);
    ppo_lm_free(lm);
}

static void an_evaluation_has_the_figures_of_the_samples(void **state) {
    (void)state;
    ppo_lm *lm = small_lm(VOCAB, POSITIONS, 0), *other = NULL;
    ppo_tokens prompts = some_prompts(200);
    ppo_generator *g = NULL;
    ppo_samples x;
    ppo_sampling how = ppo_sampling_default();
    ppo_lm_evaluation e;
    float reward[200], logp[2][200];
    double sum = 0, kl = 0, entropy = 0;
    int rows, ended = 0;
    how.eos = EOS;
    assert_ok(ppo_lm_copy(lm, 0, &other));
    for (size_t i = 0; i < other->params->count; i++) other->params->data[i] *= 0.7f;
    assert_ok(ppo_lm_evaluate(lm, other, &prompts, &how, count_good, NULL, &e));
    assert_ok(ppo_generator_create(lm, 5, &g));
    assert_ok(ppo_generate(g, &prompts, &how, &x));
    assert_ok(count_good(&x, reward, NULL));
    assert_ok(ppo_lm_logp(lm, &x.tokens, 64, logp[0]));
    assert_ok(ppo_lm_logp(other, &x.tokens, 64, logp[1]));
    rows = ppo_response_row(&x.tokens, 200);
    for (int s = 0; s < 200; s++) {
        sum += reward[s], kl += logp[0][s] - logp[1][s], entropy -= logp[0][s], ended += x.ended[s];
    }
    assert_close(e.reward, sum / 200, 1e-5);
    assert_close(e.kl, kl / 200, 1e-5);
    assert_close(e.entropy, entropy / rows, 1e-5);
    assert_close(e.mean_length, rows / 200.0, 1e-5);
    assert_close(e.ended, ended / 200.0, 1e-6);
    assert_true(e.kl > 0.1f && e.win_rate > 0 && e.win_rate < 1 && e.reward_std > 0 &&
                e.tokens_per_second > 0);
    ppo_lm_evaluation back, same, none;
    assert_ok(ppo_lm_evaluate(other, lm, &prompts, &how, count_good, NULL, &back));
    assert_close(e.win_rate + back.win_rate, 1, 1e-6); /* the same samples of both */
    assert_ok(ppo_lm_evaluate(lm, lm, &prompts, &how, count_good, NULL, &same));
    assert_true(same.win_rate == 0.5f && fabsf(same.kl) < 1e-6f && same.reward == e.reward);
    assert_ok(ppo_lm_evaluate(lm, NULL, &prompts, &how, NULL, NULL, &none));
    assert_true(isnan(none.reward) && isnan(none.win_rate) && isnan(none.kl) && none.entropy == e.entropy);
    how.temperature = 0.5f; /* the KL is that at the temperature of sampling */
    assert_ok(ppo_lm_evaluate(lm, lm, &prompts, &how, NULL, NULL, &same));
    assert_true(fabsf(same.kl) < 1e-6f && same.entropy < e.entropy);
    ppo_tokens empty = {0};
    assert_fails(ppo_lm_evaluate(lm, NULL, &empty, &how, NULL, NULL, &none), PPO_ERROR_ARGUMENT, "sequence");
    assert_fails(ppo_lm_evaluate(lm, NULL, NULL, &how, NULL, NULL, &none), PPO_ERROR_ARGUMENT,
                 "ppo_lm_evaluate");
    float broken = NAN;
    assert_fails(ppo_lm_evaluate(lm, NULL, &prompts, &how, no_reward, &broken, &none), PPO_ERROR_NUMERIC,
                 "reward of sample 7 is");
    int asleep = 1;
    assert_fails(ppo_lm_evaluate(lm, NULL, &prompts, &how, count_good_or_fail, &asleep, &none),
                 PPO_ERROR_ARGUMENT, "the judge is asleep");
    ppo_generator_free(g);
    ppo_tokens_free(&prompts);
    ppo_lm_free(lm);
    ppo_lm_free(other);
}

/* --------------------------------------------------------------------------------------------------------
   Memory
   -------------------------------------------------------------------------------------------------------- */

static void an_iteration_after_the_first_allocates_nothing(void **state) {
    (void)state;
    for (int run = 0; run < 4; run++) { /* also on two threads */
        heap h = {0, 0, -1, 0};
        const int kind = run % 2;
        assert_ok(ppo_set_threads(run < 2 ? 1 : 2));
        ppo_set_allocator(heap_hook, &h);
        ppo_rlhf_config c = small_config();
        int mode = 0;
        c.shards = run < 2 ? 1 : 3, c.slots = run < 2 ? 3 : 8;
        c.kl_place = PPO_KL_IN_LOSS, c.kl_estimator = kind ? PPO_K3 : PPO_KL_EXACT;
        c.bootstrap_truncated = !kind;
        if (kind) {
            c.sampling = with_tool(&mode), c.samples = 2, c.refills = 2, c.advantage = PPO_ADVANTAGE_GROUP;
            c.ratio = PPO_RATIO_SEQUENCE, c.aggregation = PPO_AGGREGATE_SEQUENCES, c.kl_weighted = 1;
        }
        bench b = begin(&c);
        for (int k = 0; k < 2; k++) assert_ok(ppo_rlhf_iterate(b.rlhf, NULL));
        long calls = h.calls;
        for (int k = 0; k < 20; k++) assert_ok(ppo_rlhf_iterate(b.rlhf, NULL));
        assert_int_equal(h.calls, calls);
        end(&b);
        assert_int_equal(h.live, 0);
        ppo_set_allocator(NULL, NULL);
    }
    assert_ok(ppo_set_threads(1));
}

/* So many results that they need memory of their own, beside what an arena takes at once. */
static void many_samples_allocate_nothing_after_the_first_iteration(void **state) {
    (void)state;
    heap h = {0, 0, -1, 0};
    ppo_set_allocator(heap_hook, &h);
    ppo_rlhf_config c = small_config();
    ppo_lm *policy = small_lm(VOCAB, 40, 1);
    ppo_tokens prompts = {0};
    ppo_rlhf *r = NULL;
    const int token = BOS;
    long calls = 0;
    assert_ok(ppo_tokens_add(&prompts, &token, 1, 1));
    c.prompts = 128, c.minibatch_size = 64, c.epochs = 1, c.sampling.eos = -1, c.sampling.max_new_tokens = 5;
    assert_ok(ppo_rlhf_create(policy, NULL, NULL, &prompts, count_good, NULL, &c, &r));
    for (int k = 0; k < 5; k++) {
        assert_ok(ppo_rlhf_iterate(r, NULL));
        if (k == 0) calls = h.calls;
        assert_int_equal(h.calls, calls);
    }
    ppo_rlhf_free(r);
    ppo_lm_free(policy);
    ppo_tokens_free(&prompts);
    assert_int_equal(h.live, 0);
    ppo_set_allocator(NULL, NULL);
}

static void a_longer_prompt_that_comes_later_allocates_nothing(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed < 5; seed++) {
        heap h = {0, 0, -1, 0};
        ppo_rlhf_config c = small_config();
        ppo_lm *policy = small_lm(VOCAB, 100, 1);
        ppo_tokens prompts = {0};
        ppo_rlhf *r = NULL;
        ppo_rng rng = test_rng(90);
        long calls = 0;
        for (int s = 0; s < 20; s++) add_random(&prompts, &rng, VOCAB, s < 18 ? 1 : 90, s < 18 ? 1 : 90);
        c.prompts = c.minibatch_size = 4, c.epochs = 1, c.sampling.max_new_tokens = 3, c.seed = seed;
        if (seed > 2) c.slots = 8, c.shards = 2; /* on two threads */
        assert_ok(ppo_set_threads(seed > 2 ? 2 : 1));
        ppo_set_allocator(heap_hook, &h);
        assert_ok(ppo_rlhf_create(policy, NULL, NULL, &prompts, count_good, NULL, &c, &r));
        for (int k = 0; k < 8; k++) {
            assert_ok(ppo_rlhf_iterate(r, NULL));
            if (k == 0) calls = h.calls;
            assert_int_equal(h.calls, calls);
        }
        ppo_rlhf_free(r);
        ppo_set_allocator(NULL, NULL);
        ppo_lm_free(policy);
        ppo_tokens_free(&prompts);
    }
    assert_ok(ppo_set_threads(1));
}

/* --------------------------------------------------------------------------------------------------------
   Checkpoints
   -------------------------------------------------------------------------------------------------------- */

/* What a run remembers differs from one to the other. */
static const struct saved_kind {
    const char *settings;
    int critic, reference; /* 0: the library's own; 1: another model; 2: the policy */
} saved_kinds[] = {
    {"normalize_rewards=yes target_kl=0.01 learning_rate=0.03", 0, 0},
    {"penalty_target_kl=0.1 kl_horizon=20 entropy_target=1.5 weight_decay=0.1 adam_beta2=0.95", 2, 0},
    {"reference_every=2 critic_learning_rate=0.01 learning_rate_schedule=cosine iterations=7 "
     "min_learning_rate=0.001",
     0, 0},
    {"advantage=group samples=3 prompts=3 refills=2", 0, 1},
    {"whiten_rewards=yes bootstrap_truncated=yes normalize_rewards=yes", 1, 1},
};

typedef struct saved_run {
    ppo_lm *policy, *critic, *reference;
    ppo_tokens prompts;
    ppo_rlhf *rlhf;
} saved_run;

/* Starts a run or, with a path, resumes it into models as the program has them at its start. */
static saved_run open_run(const struct saved_kind *kind, const char *path) {
    saved_run r = {small_lm(VOCAB, POSITIONS, 1), NULL, NULL, some_prompts(5), NULL};
    ppo_rlhf_config c = small_config();
    assert_ok(ppo_settings_set_all(ppo_rlhf_settings(), &c, kind->settings));
    if (kind->critic == 1) r.critic = small_lm(VOCAB, POSITIONS, 1);
    if (kind->reference) r.reference = small_lm(VOCAB, POSITIONS, 0);
    ppo_lm *critic = kind->critic == 2 ? r.policy : r.critic;
    if (path)
        assert_ok(
            ppo_rlhf_resume(path, r.policy, r.reference, critic, &r.prompts, count_good, NULL, &c, &r.rlhf));
    else assert_ok(ppo_rlhf_create(r.policy, r.reference, critic, &r.prompts, count_good, NULL, &c, &r.rlhf));
    return r;
}

static void close_run(saved_run *r) {
    ppo_rlhf_free(r->rlhf);
    ppo_lm_free(r->policy), ppo_lm_free(r->critic), ppo_lm_free(r->reference);
    ppo_tokens_free(&r->prompts);
}

/* An iteration, and all that its report says but the times. */
static ppo_rlhf_progress report_of(saved_run *r) {
    ppo_rlhf_progress p;
    assert_ok(ppo_rlhf_iterate(r->rlhf, &p));
    p.seconds = p.tokens_per_second = 0;
    return p;
}

static void assert_same_model(const ppo_lm *a, const ppo_lm *b) {
    const ppo_params *x = a->params, *y = b->params;
    assert_int_equal(x->step, y->step);
    assert_false(bits_differ(x->data, y->data, x->count));
    assert_false(bits_differ(x->m, y->m, x->count) || bits_differ(x->v, y->v, x->count));
}

static void a_run_that_is_saved_anywhere_ends_with_the_same_bits(void **state) {
    (void)state;
    enum { ITERATIONS = 6 };
    const char *path = scratch_path("rlhf");
    for (int i = 0; i < COUNT(saved_kinds); i++) {
        ppo_rlhf_progress want[ITERATIONS];
        saved_run whole = open_run(&saved_kinds[i], NULL);
        for (int k = 0; k < ITERATIONS; k++) want[k] = report_of(&whole);
        for (int stop = -1; stop < ITERATIONS; stop++) { /* -1: before every iteration */
            saved_run r = open_run(&saved_kinds[i], NULL);
            for (int k = 0; k < ITERATIONS; k++) {
                if (stop < 0 || k == stop) {
                    assert_ok(ppo_rlhf_save(r.rlhf, path));
                    close_run(&r);
                    r = open_run(&saved_kinds[i], path);
                    assert_int_equal(ppo_rlhf_iterations(r.rlhf), k);
                }
                ppo_rlhf_progress p = report_of(&r);
                assert_memory_equal(&p, &want[k], sizeof p);
            }
            assert_same_model(r.policy, whole.policy);
            if (r.rlhf->critic) assert_same_model(r.rlhf->critic, whole.rlhf->critic);
            const ppo_rlhf_progress *a = &r.rlhf->initial, *b = &whole.rlhf->initial; /* for warnings */
            assert_true(a->reward == b->reward && a->reward_std == b->reward_std);
            assert_true(a->mean_length == b->mean_length && a->entropy == b->entropy);
            assert_true(r.rlhf->first_variety == whole.rlhf->first_variety);
            assert_false(bits_differ(r.rlhf->reference->params->data, whole.rlhf->reference->params->data,
                                     r.rlhf->reference->params->count));
            close_run(&r);
        }
        close_run(&whole);
    }
    ppo_lm *copy = NULL;
    assert_ok(ppo_lm_load(path, &copy)); /* a model as well */
    ppo_lm_free(copy);
    remove(path);
}

/* Without a penalty there is no reference, and none is in the file. */
static void a_run_without_a_reference_is_saved_without_one(void **state) {
    (void)state;
    const struct saved_kind kind = {"kl_coef=0", 0, 0};
    const char *path = scratch_path("rlhf");
    saved_run r = open_run(&kind, NULL), again;
    ppo_rlhf *other = NULL;
    ppo_file *file = NULL;
    report_of(&r);
    assert_null(r.rlhf->reference);
    assert_ok(ppo_rlhf_save(r.rlhf, path));
    assert_ok(ppo_file_read(path, &file));
    assert_string_equal(ppo_file_text(file, "saved_with.reference"), "none");
    ppo_file_free(file);
    again = open_run(&kind, path);
    assert_null(again.rlhf->reference);
    const ppo_rlhf_progress p = report_of(&r), q = report_of(&again);
    assert_memory_equal(&p, &q, sizeof p);
    assert_same_model(again.policy, r.policy);
    ppo_rlhf_config c = r.rlhf->config;
    again.reference = small_lm(VOCAB, POSITIONS, 0);
    assert_fails(ppo_rlhf_resume(path, again.policy, again.reference, NULL, &again.prompts, count_good, NULL,
                                 &c, &other),
                 PPO_ERROR_FILE, "saved with another \"reference\"");
    c.kl_coef = 0.1f;
    assert_fails(
        ppo_rlhf_resume(path, again.policy, NULL, NULL, &again.prompts, count_good, NULL, &c, &other),
        PPO_ERROR_ARGUMENT, "kl_coef is 0 in the checkpoint: it cannot become 0.1");
    assert_null(other);
    close_run(&again), close_run(&r);
    remove(path);
}

static void a_checkpoint_of_something_else_is_not_resumed(void **state) {
    (void)state;
    const char *path = scratch_path("rlhf");
    saved_run r = open_run(&saved_kinds[4], NULL);
    ppo_rlhf_config c = r.rlhf->config, read = ppo_rlhf_config_default();
    ppo_rlhf *other = NULL;
    ppo_tokens fewer = some_prompts(4);
    ppo_lm *large = small_lm(VOCAB, POSITIONS + 1, 1), *plain = small_lm(VOCAB, POSITIONS, 0), *before;
    report_of(&r);
    assert_ok(ppo_rlhf_save(r.rlhf, path));
    assert_ok(ppo_settings_load(ppo_rlhf_settings(), path, &read));
    assert_true(read.whiten_rewards == 1 && read.prompts == 8 && read.learning_rate == 3e-3f);
    assert_ok(ppo_lm_copy(r.policy, 0, &before));
    before->params->step = r.policy->params->step;
    plain->norm_bias->data[0] = 1;
#define RESUME(policy, reference, critic, prompts) \
    (other = r.rlhf, ppo_rlhf_resume(path, policy, reference, critic, prompts, count_good, NULL, &c, &other))
    assert_fails(RESUME(r.policy, r.reference, r.critic, &fewer), PPO_ERROR_FILE, "another \"prompts\"");
    assert_null(other);
    assert_fails(RESUME(r.policy, plain, r.critic, &r.prompts), PPO_ERROR_FILE, "another \"reference\"");
    assert_fails(RESUME(r.policy, NULL, r.critic, &r.prompts), PPO_ERROR_FILE, "another \"reference\"");
    assert_fails(RESUME(r.policy, r.reference, r.policy, &r.prompts), PPO_ERROR_FILE,
                 "another \"critic\": give the same again");
    assert_fails(RESUME(large, NULL, large, &r.prompts), PPO_ERROR_ARGUMENT,
                 "context is 10 in the checkpoint|11");
    assert_fails(RESUME(NULL, r.reference, r.critic, &r.prompts), PPO_ERROR_ARGUMENT, "ppo_rlhf_resume|NULL");
    c.seed = 2;
    assert_fails(RESUME(r.policy, r.reference, r.critic, &r.prompts), PPO_ERROR_ARGUMENT, "seed is 1");
    c.seed = 1, c.epochs = 3, c.kl_coef = 0.5f; /* which may change */
    assert_ok(RESUME(r.policy, r.reference, r.critic, &r.prompts));
    assert_true(other->kl_coef == 0.5f && other->iteration == 1);
    ppo_rlhf_free(other);
    file_bytes file = bytes_of(path);
    for (size_t i = 0; i < file.n; i += i < 16 ? 1 : 331) {
        put_bytes(path, file.data, i);
        assert_fails(RESUME(r.policy, r.reference, r.critic, &r.prompts), PPO_ERROR_FILE, path);
        file.data[i] ^= 1;
        put_bytes(path, file.data, file.n);
        assert_fails(RESUME(r.policy, r.reference, r.critic, &r.prompts), PPO_ERROR_FILE, path);
        assert_null(other);
        file.data[i] ^= 1;
    }
    assert_ok(ppo_lm_save_file(r.policy, NULL, path));
    assert_fails(RESUME(r.policy, r.reference, r.critic, &r.prompts), PPO_ERROR_FILE, "no checkpoint");
    assert_false(bits_differ(r.policy->params->data, before->params->data, before->params->count));
    assert_int_equal(r.policy->params->step, before->params->step);
    assert_true(r.policy->params->m[0] != 0);
    assert_fails(ppo_rlhf_save(NULL, path), PPO_ERROR_ARGUMENT, "ppo_rlhf_save|NULL");
    assert_fails(ppo_rlhf_save(r.rlhf, NULL), PPO_ERROR_ARGUMENT, "ppo_rlhf_save|NULL");
    r.policy->norm_bias->data[0] = NAN;
    assert_fails(ppo_rlhf_save(r.rlhf, path), PPO_ERROR_NUMERIC, "ln_f.bias|nothing was saved");
    free(file.data);
    remove(path);
    ppo_lm_free(large), ppo_lm_free(plain), ppo_lm_free(before);
    ppo_tokens_free(&fewer);
    close_run(&r);
}

/* What the models of a checkpoint depend on. */
static void a_setting_that_a_checkpoint_does_not_allow_is_named(void **state) {
    (void)state;
    static const char *const changes[][2] = {
        {"advantage=return", "advantage is gae in the checkpoint: it cannot become return"},
        {"kl_coef=0", "kl_coef is 0.05 in the checkpoint: it cannot become 0"}};
    const char *path = scratch_path("rlhf");
    saved_run r = open_run(&saved_kinds[0], NULL);
    assert_ok(ppo_rlhf_save(r.rlhf, path));
    for (int k = 0; k < COUNT(changes); k++) {
        ppo_rlhf_config c = r.rlhf->config;
        ppo_rlhf *other;
        assert_ok(ppo_settings_set_all(ppo_rlhf_settings(), &c, changes[k][0]));
        assert_fails(ppo_rlhf_resume(path, r.policy, NULL, NULL, &r.prompts, count_good, NULL, &c, &other),
                     PPO_ERROR_ARGUMENT, changes[k][1]);
        assert_null(other);
    }
    remove(path);
    close_run(&r);
}

/* Counts the bytes of all allocations. */
static size_t asked_for;

static void *measuring_heap(void *user, void *ptr, size_t size) {
    asked_for += size;
    return heap_hook(user, ptr, size);
}

static size_t bytes_of_a_creation(ppo_lm *policy, const ppo_rlhf_config *c) {
    heap h = {0, 0, -1, 0};
    ppo_tokens prompts = some_prompts(3);
    ppo_rlhf *r = NULL;
    asked_for = 0;
    ppo_set_allocator(measuring_heap, &h);
    assert_ok(ppo_rlhf_create(policy, NULL, NULL, &prompts, count_good, NULL, c, &r));
    ppo_rlhf_free(r);
    ppo_set_allocator(NULL, NULL);
    ppo_tokens_free(&prompts);
    assert_int_equal(h.live, 0);
    return asked_for;
}

static void memory_follows_what_is_sampled_not_the_context(void **state) {
    (void)state;
    ppo_rlhf_config c = small_config();
    ppo_lm *large = small_lm(VOCAB, 512, 1), *small = small_lm(VOCAB, POSITIONS, 1);
    c.slots = 1, c.prompts = 32, c.minibatch_size = 16, c.shards = 1;
    size_t parts = bytes_of_a_creation(large, &c);
    c.micro_batch = 16;
    size_t all = bytes_of_a_creation(large, &c);
    assert_true(parts < all / 8);
    c.sampling.max_new_tokens = POSITIONS - 2;
    size_t some = bytes_of_a_creation(large, &c), least = bytes_of_a_creation(small, &c);
    assert_true(some < all / 50);
    assert_true(some < 2 * least); /* caches and results of sampling go by the context, the rest does not */
    for (int k = 0; k < 3; k++) {  /* and the answers of a tool, whichever token calls it */
        int mode = 0;
        c.sampling = with_tool(&mode), c.sampling.eos = -1, c.micro_batch = 0;
        if (k == 0) c.sampling.tool_token = -1, c.sampling.tool = NULL;
        if (k == 2) c.sampling.tool_token = 0;
        some = bytes_of_a_creation(large, &c);
        if (k) assert_true(k == 1 ? some > all : some == all);
        all = some;
    }
    ppo_lm_free(large), ppo_lm_free(small);
}

static ppo_status whole_job(void *user) {
    ppo_lm_config shape = lm_config(VOCAB, POSITIONS, 8, 1, 2);
    ppo_rlhf_config c = small_config();
    ppo_lm *policy = NULL;
    ppo_rlhf *r = NULL;
    ppo_tokens prompts = {0}, best = {0};
    const int token = BOS;
    ppo_generator *generator = NULL;
    const char *path = scratch_path("job");
    (void)user;
    c.prompts = c.minibatch_size = 2, c.epochs = 1, c.samples = 2, c.refills = 1,
    c.ratio = PPO_RATIO_SEQUENCE, c.shards = 2, c.slots = 8;
    ppo_status status = ppo_lm_create(&shape, &policy);
    if (!status) status = ppo_set_threads(2);
    if (!status) status = ppo_tokens_add(&prompts, &token, 1, 1);
    if (!status) status = ppo_rlhf_create(policy, NULL, NULL, &prompts, count_good, NULL, &c, &r);
    if (!status) status = ppo_rlhf_iterate(r, NULL);
    if (!status) status = ppo_rlhf_save(r, path);
    ppo_rlhf_free(r);
    r = NULL;
    if (!status) status = ppo_rlhf_resume(path, policy, NULL, NULL, &prompts, count_good, NULL, &c, &r);
    remove(path);
    if (!status) status = ppo_generator_create(policy, 2, &generator);
    if (!status) status = ppo_best_of_n(generator, &prompts, 3, &c.sampling, count_good, NULL, &best, NULL);
    ppo_generator_free(generator);
    ppo_rlhf_free(r);
    ppo_lm_free(policy);
    ppo_tokens_free(&prompts);
    ppo_tokens_free(&best);
    ppo_set_threads(1);
    return status;
}

static void every_failing_allocation_is_reported_and_leaks_nothing(void **state) {
    (void)state;
    assert_true(fail_each_allocation(whole_job, NULL) > 60);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rewards_and_advantages_are_those_of_trl),
        cmocka_unit_test(losses_and_their_gradients_are_those_of_trl),
        cmocka_unit_test(group_and_leave_one_out_advantages_are_those_of_trl),
        cmocka_unit_test(the_sequence_advantage_is_the_reward_less_the_value_of_the_prompt),
        cmocka_unit_test(losses_of_tokens_are_those_of_trl_and_verl),
        cmocka_unit_test(advantages_of_sequences_are_those_of_trl_and_verl),
        cmocka_unit_test(a_group_that_earned_the_same_does_not_blow_up_its_kl),
        cmocka_unit_test(gae_skips_what_a_tool_wrote_as_verl_does),
        cmocka_unit_test(returns_have_no_values_in_any_iteration),
        cmocka_unit_test(overlong_samples_cost_what_dapo_says),
        cmocka_unit_test(the_entropys_coefficient_moves_as_trls_does),
        cmocka_unit_test(kl_estimators_have_the_gradients_of_the_table),
        cmocka_unit_test(advantages_need_a_critic_or_several_samples),
        cmocka_unit_test(prompts_that_teach_nothing_are_replaced),
        cmocka_unit_test(what_several_rounds_kept_trains_as_own_samples_do),
        cmocka_unit_test(truncated_sequences_can_be_left_out),
        cmocka_unit_test(the_last_tokens_before_the_limit_cost),
        cmocka_unit_test(the_entropy_is_held_at_its_target),
        cmocka_unit_test(presets_train),
        cmocka_unit_test(a_tool_answers_in_the_text),
        cmocka_unit_test(a_tool_that_fails_is_told),
        cmocka_unit_test(training_skips_what_a_tool_wrote),
        cmocka_unit_test(given_tokens_are_not_learned),
        cmocka_unit_test(samples_of_another_policy_need_a_cap),
        cmocka_unit_test(a_generator_in_use_is_refused),
        cmocka_unit_test(prompts_that_never_differ_are_told),
        cmocka_unit_test(the_first_minibatch_has_ratios_of_exactly_one),
        cmocka_unit_test(the_gradient_of_a_step_is_that_of_the_mean_over_tokens),
        cmocka_unit_test(every_iteration_samples_anew),
        cmocka_unit_test(rewards_rise),
        cmocka_unit_test(a_penalty_keeps_the_policy_near_the_reference),
        cmocka_unit_test(the_gradient_of_the_whole_loss_is_right),
        cmocka_unit_test(a_micro_batch_has_a_number_of_items_or_of_tokens),
        cmocka_unit_test(gradients_add_up_over_micro_batches),
        cmocka_unit_test(the_same_seed_gives_the_same_bits_whatever_the_slots),
        cmocka_unit_test(penalties_clips_and_the_end_of_a_sequence_count_as_they_say),
        cmocka_unit_test(truncated_sequences_are_bootstrapped_on_request),
        cmocka_unit_test(the_critic_may_have_a_lambda_of_its_own),
        cmocka_unit_test(the_critic_can_learn_before_the_policy),
        cmocka_unit_test(samples_of_another_policy_count_by_their_ratio_up_to_the_cap),
        cmocka_unit_test(own_samples_and_rewards_train_as_iterate_does),
        cmocka_unit_test(the_reference_follows_when_asked_and_the_coefficient_adapts),
        cmocka_unit_test(a_critic_of_its_own_is_trained_and_the_policys_score_is_not),
        cmocka_unit_test(a_critic_of_its_own_has_its_own_learning_rate),
        cmocka_unit_test(the_critic_is_a_copy_unless_one_is_given),
        cmocka_unit_test(normalized_rewards_have_no_units),
        cmocka_unit_test(target_kl_ends_the_epochs),
        cmocka_unit_test(a_step_too_far_is_taken_back),
        cmocka_unit_test(a_rate_that_was_too_high_recovers),
        cmocka_unit_test(a_collapse_is_told),
        cmocka_unit_test(an_outlier_does_not_end_the_normalization),
        cmocka_unit_test(variety_is_that_of_the_samples_of_a_prompt),
        cmocka_unit_test(without_a_kl_there_is_no_reference_but_the_callers),
        cmocka_unit_test(the_learning_rate_follows_its_schedule_by_iterations),
        cmocka_unit_test(a_pass_over_the_prompts_uses_each_once_in_an_order_of_its_own),
        cmocka_unit_test(rewards_are_normalized_by_all_so_far),
        cmocka_unit_test(figures_of_an_iteration_are_means_over_its_tokens),
        cmocka_unit_test(log_probabilities_that_are_not_given_are_those_of_sampling),
        cmocka_unit_test(the_first_ratio_tells_of_log_probabilities_that_are_not_those_of_training),
        cmocka_unit_test(samples_that_cannot_be_learned_from_are_refused_and_change_nothing),
        cmocka_unit_test(a_cap_on_importance_needs_log_probabilities),
        cmocka_unit_test(an_iteration_that_failed_is_done_again_to_the_bit),
        cmocka_unit_test_teardown(only_a_creation_that_succeeds_clears_the_optimizers, restore_allocator),
        cmocka_unit_test(a_judge_compares_two_samples_of_each_prompt),
        cmocka_unit_test(an_evaluation_has_the_figures_of_the_samples),
        cmocka_unit_test(the_best_of_n_is_the_best_of_these_samples),
        cmocka_unit_test(a_best_of_n_that_fails_leaves_best_as_it_was),
        cmocka_unit_test(what_was_sampled_may_be_the_prompts_of_best_of_n),
        cmocka_unit_test(failing_rewards_are_told_and_change_nothing),
        cmocka_unit_test(a_reward_of_best_of_n_that_is_none_is_told),
        cmocka_unit_test(samples_that_are_all_the_same_are_no_failure),
        cmocka_unit_test(what_cannot_work_is_refused),
        cmocka_unit_test(what_cannot_be_created_is_null),
        cmocka_unit_test(a_run_that_is_saved_anywhere_ends_with_the_same_bits),
        cmocka_unit_test(a_run_without_a_reference_is_saved_without_one),
        cmocka_unit_test(a_checkpoint_of_something_else_is_not_resumed),
        cmocka_unit_test(a_setting_that_a_checkpoint_does_not_allow_is_named),
        cmocka_unit_test(settings_are_reached_by_name),
        cmocka_unit_test(settings_that_cannot_work_are_refused_by_name),
        cmocka_unit_test_teardown(what_memory_held_before_changes_nothing, restore_allocator),
        cmocka_unit_test_teardown(an_iteration_after_the_first_allocates_nothing, restore_allocator),
        cmocka_unit_test_teardown(many_samples_allocate_nothing_after_the_first_iteration, restore_allocator),
        cmocka_unit_test_teardown(a_longer_prompt_that_comes_later_allocates_nothing, restore_allocator),
        cmocka_unit_test_teardown(memory_follows_what_is_sampled_not_the_context, restore_allocator),
        cmocka_unit_test_teardown(every_failing_allocation_is_reported_and_leaks_nothing, restore_allocator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
