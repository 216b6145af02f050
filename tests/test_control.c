/* Section 15: the training loop, its promises (same bits, no allocation, ratio 1), settings, evaluation. */
#include "../ppo.h"

#include "../examples/envs/cartpole.h"
#include "test.h"

/* --------------------------------------------------------------------------------------------------------
   The same bits
   -------------------------------------------------------------------------------------------------------- */

static void results_have_the_same_bits_for_any_number_of_threads(void **state) {
    (void)state;
    const ppo_env envs[] = {walk_env(), reach_env()};
    for (int i = 0; i < 4; i++) {
        ppo_config cfg = eight_environments(i / 2);
        ppo_agent *one = trained(&envs[i % 2], &cfg);
        static const int threads[] = {2, 5, 8, 20};
        for (int k = 0; k < COUNT(threads); k++) {
            cfg.threads = threads[k];
            ppo_agent *many = trained(&envs[i % 2], &cfg);
            assert_false(agents_differ(one, many));
            ppo_agent_free(many);
        }
        ppo_agent_free(one);
    }
}

static void the_same_seed_gives_the_same_bits_and_another_one_others(void **state) {
    (void)state;
    const ppo_env envs[] = {walk_env(), reach_env()};
    for (int i = 0; i < 2; i++) {
        ppo_config cfg = eight_environments(1);
        ppo_agent *a = trained(&envs[i], &cfg), *b = trained(&envs[i], &cfg);
        cfg.seed = UINT64_C(1) << 40;
        ppo_agent *c = trained(&envs[i], &cfg);
        assert_false(agents_differ(a, b));
        assert_true(agents_differ(a, c));
        ppo_agent_free(a);
        ppo_agent_free(b);
        ppo_agent_free(c);
    }
}

static void iterating_by_hand_is_what_ppo_train_does(void **state) {
    (void)state;
    ppo_env env = walk_env();
    ppo_config cfg = eight_environments(1);
    ppo_agent *whole = trained(&env, &cfg), *agent = NULL;
    ppo_trainer *trainer = NULL;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
    memset(&env, 0, sizeof env); /* both were copied */
    memset(&cfg, 0, sizeof cfg);
    for (int i = 0; i < 4; i++) {
        ppo_progress progress;
        assert_int_equal(ppo_trainer_done(trainer), 0);
        assert_ok(ppo_trainer_iterate(trainer, i % 2 ? &progress : NULL));
        if (i % 2) assert_int_equal(progress.iteration, i + 1);
    }
    assert_int_equal(ppo_trainer_done(trainer), 1);
    assert_false(agents_differ(whole, agent));
    assert_fails(ppo_trainer_iterate(trainer, NULL), PPO_ERROR_ARGUMENT, "512");
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
    ppo_agent_free(whole);
}

/* --------------------------------------------------------------------------------------------------------
   The first minibatch
   -------------------------------------------------------------------------------------------------------- */

static int ratios_checked;

static int check_first_ratio(const ppo_progress *p, void *user) {
    (void)user;
    ratios_checked++;
    if (p->first_ratio_min != 1.0f || p->first_ratio_max != 1.0f)
        fail_msg("ratios from %.9g to %.9g at iteration %lld with %s kernels", (double)p->first_ratio_min,
                 (double)p->first_ratio_max, (long long)p->iteration, ppo_kernels_name());
    assert_true(p->approx_kl != 0); /* there was some training, else 1 would be easy */
    return 0;
}

static void ratio_is_exactly_one_on_first_minibatch(void **state) {
    (void)state;
    static const int hidden[][3] = {{64, 64, 2}, {13, 31, 2}, {7, 0, 1}, {0, 0, 0}, {70, 3, 2}};
    const ppo_env envs[] = {walk_env(), reach_env(), cartpole_env()};
    FOR_KERNEL_SETS(set) {
        for (int i = 0; i < COUNT(hidden) * COUNT(envs) * 2; i++) {
            ppo_config cfg = eight_environments(i % 2);
            memcpy(cfg.hidden, hidden[i / 6], 2 * sizeof(int));
            cfg.hidden_layers = hidden[i / 6][2];
            cfg.shared_trunk = cfg.hidden_layers && i / 2 % 2;
            cfg.activation = i % 5 ? PPO_TANH : PPO_RELU;
            cfg.num_envs = 1 + i % 9;
            cfg.minibatch_size = 1 + (7 * i) % (cfg.num_envs * cfg.rollout_steps);
            cfg.total_steps = 3 * cfg.num_envs * cfg.rollout_steps;
            cfg.callback = check_first_ratio;
            ppo_agent_free(trained(&envs[i / 2 % 3], &cfg));
        }
    }
    assert_true(ratios_checked >= 3 * COUNT(hidden) * COUNT(envs) * 2);
}

/* --------------------------------------------------------------------------------------------------------
   Memory
   -------------------------------------------------------------------------------------------------------- */

static void nothing_is_allocated_after_the_first_iteration(void **state) {
    (void)state;
    heap h = {0, 0, -1, 0};
    ppo_set_allocator(heap_hook, &h);
    for (int i = 0; i < 8; i++) {
        ppo_env env = i % 2 ? reach_env() : walk_env();
        ppo_config cfg = eight_environments(i / 2 % 2);
        ppo_agent *agent = NULL;
        ppo_trainer *trainer = NULL;
        cfg.threads = 1 + i % 2;
        cfg.total_steps += 13; /* the last rollout is a short one */
        if (i >= 4) {          /* one gradient step per iteration, one environment step per rollout */
            cfg.epochs = 1, cfg.rollout_steps = 1, cfg.minibatch_size = 8, cfg.total_steps = 80;
            cfg.hidden[0] = 300; /* more than one page of the arenas */
        }
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
        assert_ok(ppo_trainer_iterate(trainer, NULL));
        long calls = h.calls;
        for (long n = 2; !ppo_trainer_done(trainer); n++) {
            assert_ok(ppo_trainer_iterate(trainer, NULL));
            if (h.calls != calls)
                fail_msg("case %d: %ld allocations in iteration %ld", i, h.calls - calls, n);
        }
        ppo_trainer_free(trainer);
        ppo_agent_free(agent);
        assert_int_equal(h.live, 0);
    }
    ppo_set_allocator(NULL, NULL);
}

/* --------------------------------------------------------------------------------------------------------
   Steps, callback, schedules, statistics
   -------------------------------------------------------------------------------------------------------- */

static void total_steps_are_done_exactly_or_to_the_next_round_of_environments(void **state) {
    (void)state;
    static const struct {
        long total;
        int envs, rollout, minibatch;
        long done;
        int iterations;
    } cases[] = {{100, 4, 512, 64, 100, 1}, {100, 4, 10, 7, 100, 3}, {103, 4, 10, 40, 104, 3},
                 {10, 4, 512, 64, 12, 1},   {1, 4, 8, 8, 4, 1},      {1, 1, 8, 8, 1, 1},
                 {80, 4, 20, 80, 80, 1},    {81, 4, 20, 80, 84, 2}};
    ppo_env env = walk_env();
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_config cfg = tiny_config();
        cfg.total_steps = cases[i].total, cfg.num_envs = cases[i].envs, cfg.rollout_steps = cases[i].rollout;
        cfg.minibatch_size = cases[i].minibatch;
        log_of_run log = run_with_log(&env, cfg, 0);
        assert_int_equal(log.calls, cases[i].iterations);
        assert_int_equal(log.p[log.calls - 1].steps, cases[i].done);
        long sum = 0;
        for (int k = 0; k < log.calls; k++) {
            sum += log.p[k].iteration_steps;
            assert_int_equal(log.p[k].steps, sum);
            assert_int_equal(log.p[k].total_steps, cases[i].total);
            assert_int_equal(log.p[k].iteration, k + 1);
            assert_true(log.p[k].seconds_left >= 0); /* also when there were more steps than wanted */
        }
    }
}

static void callback_comes_after_each_iteration_and_can_end_the_training(void **state) {
    (void)state;
    ppo_env env = walk_env();
    ppo_config cfg = eight_environments(0);
    for (int stop_at = 1; stop_at <= 3; stop_at++) {
        log_of_run log = run_with_log(&env, cfg, stop_at); /* an agent and PPO_OK all the same */
        assert_int_equal(log.calls, stop_at);
    }
    assert_int_equal(run_with_log(&env, cfg, 0).calls, 4);
}

static void tiny_target_kl_ends_the_epochs_early(void **state) {
    (void)state;
    ppo_env env = walk_env();
    ppo_config cfg = eight_environments(0);
    cfg.epochs = 6;
    log_of_run all = run_with_log(&env, cfg, 0);
    cfg.target_kl = 1e-9f;
    log_of_run few = run_with_log(&env, cfg, 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(all.p[i].epochs, 6);
        assert_true(few.p[i].epochs < 6);
        assert_true(few.p[i].first_ratio_min == 1 && few.p[i].first_ratio_max == 1);
        assert_true(isfinite(few.p[i].policy_loss) && isfinite(few.p[i].grad_norm));
    }
    cfg.target_kl = 1e6f;
    assert_int_equal(run_with_log(&env, cfg, 0).p[0].epochs, 6);
}

static void schedules_follow_the_steps_done(void **state) {
    (void)state;
    ppo_env env = walk_env();
    ppo_config cfg = eight_environments(0);
    cfg.learning_rate_schedule = PPO_LINEAR, cfg.clip_schedule = PPO_COSINE, cfg.learning_rate = 0.01f;
    cfg.clip_low = 0.1f, cfg.clip_high = 0.3f;
    log_of_run log = run_with_log(&env, cfg, 0);
    for (int i = 0; i < 4; i++) {
        assert_close(log.p[i].learning_rate, 0.01 * (1 - i / 4.0), 1e-6);
        assert_close(log.p[i].clip_range, 0.3 * (0.5 + 0.5 * cos(3.14159265358979 * i / 4)), 1e-5);
    }
    cfg.learning_rate_schedule = cfg.clip_schedule = PPO_CONSTANT;
    log = run_with_log(&env, cfg, 0);
    for (int i = 0; i < 4; i++) assert_true(log.p[i].learning_rate == 0.01f && log.p[i].clip_range == 0.3f);
}

static void progress_figures_mean_what_their_names_say(void **state) {
    (void)state;
    ppo_env env = ticks_env(7); /* every episode returns 7 and takes 7 steps */
    ppo_config cfg = tiny_config();
    cfg.rollout_steps = 5, cfg.total_steps = 2 * 5 * 6;
    log_of_run log = run_with_log(&env, cfg, 0);
    assert_int_equal(log.calls, 6);
    for (int i = 0; i < 6; i++) {
        const ppo_progress *p = &log.p[i];
        assert_int_equal(p->episodes, 2 * (5 * (i + 1) / 7));
        if (i == 0) {
            assert_nan(p->mean_return);
            assert_nan(p->mean_length);
        } else {
            assert_true(p->mean_return == 7 && p->mean_length == 7);
        }
        assert_true(p->seconds > 0 && p->steps_per_second > 0);
        assert_true(i == 0 || p->seconds >= log.p[i - 1].seconds);
        assert_close(p->steps_per_second, (double)p->steps / p->seconds, 1e-6);
        assert_close(p->seconds_left, (double)(60 - p->steps) / p->steps_per_second, 1e-6);
        assert_true(p->clip_fraction >= 0 && p->clip_fraction <= 1 && p->approx_kl >= 0 && p->value_loss > 0);
        assert_true(p->grad_norm > 0 && p->explained_variance <= 1);
        assert_true(fabs(p->entropy - log2(2) * 0.693147) <
                    0.01); /* a fresh policy is nearly uniform over 2 */
    }
    assert_true(log.p[5].seconds_left == 0);
}

static void normalized_rewards_do_not_touch_the_returns_that_are_reported(void **state) {
    (void)state;
    ppo_env env = ticks_env(7);
    ppo_config cfg = tiny_config();
    cfg.normalize_obs = cfg.normalize_reward = 1;
    log_of_run log = run_with_log(&env, cfg, 0);
    assert_true(log.p[1].mean_return == 7);
}

/* The mean over the last 100 episodes, kept here from what the rollouts hold. */
static void mean_return_is_that_of_the_last_100_episodes(void **state) {
    (void)state;
    ppo_env env = walk_env();
    ppo_config cfg = eight_environments(0);
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    float ended[1000], lengths[1000], sum[8] = {0}, length[8] = {0};
    int episodes = 0;
    cfg.total_steps = 8 * 16 * 20;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
    while (!ppo_trainer_done(trainer)) {
        ppo_progress progress;
        assert_ok(ppo_trainer_iterate(trainer, &progress));
        const ppo_rollout *r = ppo_trainer_rollout(trainer);
        for (int i = 0; i < r->steps * 8; i++) {
            sum[i % 8] += r->reward[i], length[i % 8] += 1;
            if (!r->terminated[i] && !r->truncated[i]) continue;
            assert_true(episodes < COUNT(ended));
            ended[episodes] = sum[i % 8], lengths[episodes++] = length[i % 8];
            sum[i % 8] = length[i % 8] = 0;
        }
        double mean = 0, mean_length = 0, recent = episodes < 100 ? episodes : 100;
        for (int k = episodes - (int)recent; k < episodes; k++)
            mean += ended[k] / recent, mean_length += lengths[k] / recent;
        assert_int_equal(progress.episodes, episodes);
        if (!episodes) continue;
        assert_true(fabs(progress.mean_return - mean) < 1e-5);
        assert_close(progress.mean_length, mean_length, 1e-6);
    }
    assert_true(episodes > 150);
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
}

/* --------------------------------------------------------------------------------------------------------
   The algorithm
   -------------------------------------------------------------------------------------------------------- */

/* With a learning rate of 0 the means over minibatches are those over the rollout, also where a minibatch is
   cut into parts, of different sizes. */
static void every_sample_is_used_once_per_epoch(void **state) {
    (void)state;
    static const int shapes[][2] = {{16, 16},  {64, 512}, {64, 256},
                                    {33, 264}, {37, 0},   {300, 0}}; /* steps, minibatch */
    for (int k = 0; k < COUNT(shapes); k++) {
        ppo_env env = walk_env();
        ppo_config cfg = eight_environments(0);
        ppo_agent *agent = NULL;
        ppo_trainer *trainer = NULL;
        ppo_progress progress;
        double squares = 0, advantages = 0, entropy = 0;
        int n = 8 * shapes[k][0];
        cfg.rollout_steps = shapes[k][0], cfg.minibatch_size = shapes[k][1];
        cfg.learning_rate = 0, cfg.epochs = 3, cfg.normalize_advantage = 0, cfg.total_steps = 1000000;
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
        assert_ok(ppo_trainer_iterate(trainer, &progress));
        const ppo_rollout *r = ppo_trainer_rollout(trainer);
        for (int i = 0; i < n; i++) {
            float h;
            squares += pow(r->value[i] - r->value_target[i], 2) / n;
            advantages += r->advantage[i] / n;
            ppo_tape_reset(agent->tape);
            ppo_outputs out = ask(agent->tape, &agent->model, r->obs + i * agent->model.obs_size, 1);
            float logp;
            assert_ok(
                ppo_token_logp(out.policy->data, &r->actions.discrete[i], 1, out.policy->cols, 1, &logp, &h));
            entropy += h / n;
        }
        assert_close(progress.value_loss, 0.5 * squares, 2e-6);
        assert_true(fabs(progress.policy_loss + advantages) < 2e-6);
        assert_close(progress.entropy, entropy, 2e-6);
        assert_close(progress.loss,
                     progress.policy_loss + cfg.value_coef * progress.value_loss -
                         cfg.entropy_coef * progress.entropy,
                     2e-6);
        assert_close(progress.explained_variance, ppo_explained_variance(r->value, r->value_target, n), 1e-6);
        assert_true(progress.approx_kl == 0 && progress.old_approx_kl == 0 && progress.clip_fraction == 0);
        assert_true(progress.first_ratio_min == 1 && progress.first_ratio_max == 1);
        ppo_trainer_free(trainer);
        ppo_agent_free(agent);
    }
}

/* The second gradient step of a run with two epochs reports of the policy that a run with one epoch ends with;
   the first one reports of a policy that has not moved. The minibatch is the whole rollout, in shards. */
/* Frozen parameters leave nothing to learn: the sentence of backward comes through, also from a shard. */
static void a_loss_that_nothing_can_lower_is_refused(void **state) {
    (void)state;
    for (int k = 0; k < 4; k++) {
        ppo_env env = walk_env();
        ppo_config cfg = eight_environments(0);
        ppo_agent *agent = NULL;
        ppo_trainer *trainer = NULL;
        float before[512];
        cfg.rollout_steps = 64, cfg.minibatch_size = k % 2 ? 512 : 64, cfg.threads = 1 + k / 2;
        cfg.total_steps = 1000000;
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        ppo_params *p = agent->model.params;
        assert_true(p->count <= COUNT(before));
        for (int i = 0; i < p->tensor_count; i++) p->tensors[i]->grad = NULL;
        memcpy(before, p->data, p->count * sizeof(float));
        assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
        assert_fails(ppo_trainer_iterate(trainer, NULL), PPO_ERROR_ARGUMENT, "backward|parameter");
        assert_memory_equal(before, p->data, p->count * sizeof(float));
        ppo_trainer_free(trainer);
        ppo_agent_free(agent);
    }
}

/* The last rollout may have fewer samples than minibatches have shards. */
static void a_last_rollout_of_one_sample_is_a_minibatch(void **state) {
    (void)state;
    ppo_env env = walk_env();
    ppo_config cfg = tiny_config();
    ppo_agent *agent = NULL;
    cfg.num_envs = 1, cfg.rollout_steps = 700, cfg.minibatch_size = 0, cfg.total_steps = 701, cfg.epochs = 2;
    cfg.normalize_advantage = 0;
    assert_ok(ppo_train(&env, &cfg, &agent));
    ppo_agent_free(agent);
}

static void figures_of_a_large_minibatch_are_means_over_all_its_samples(void **state) {
    (void)state;
    enum { N = 8 * 64 };
    ppo_env env = walk_env();
    ppo_config cfg = eight_environments(0);
    ppo_progress p[2];
    ppo_agent *agent[2] = {NULL, NULL};
    ppo_trainer *trainer[2] = {NULL, NULL};
    float logp[N];
    cfg.rollout_steps = 64, cfg.minibatch_size = N, cfg.learning_rate = 0.2f, cfg.total_steps = 1000000;
    for (int k = 0; k < 2; k++) {
        cfg.epochs = 1 + k;
        assert_ok(ppo_agent_create(&env, &cfg, &agent[k]));
        assert_ok(ppo_trainer_create(&env, &cfg, agent[k], &trainer[k]));
        assert_ok(ppo_trainer_iterate(trainer[k], &p[k]));
    }
    const ppo_rollout *r = ppo_trainer_rollout(trainer[0]);
    const ppo_policy_objective objective = {PPO_CLIP, cfg.clip_low, cfg.clip_high, 0, 0};
    ppo_policy_stats want;
    ppo_tape_reset(agent[0]->tape);
    ppo_outputs out = ask(agent[0]->tape, &agent[0]->model, r->obs, N);
    assert_ok(ppo_token_logp(out.policy->data, r->actions.discrete, N, out.policy->cols, 1, logp, NULL));
    assert_ok(ppo_policy_loss(logp, r->logp, r->advantage, NULL, N, &objective, &want, NULL));
    assert_true(want.approx_kl > 1e-3f && want.clip_fraction > 0.1f);
    assert_close(2 * p[1].approx_kl, want.approx_kl, 1e-5);
    assert_close(2 * p[1].old_approx_kl, want.old_approx_kl, 1e-5);
    assert_close(2 * p[1].clip_fraction, want.clip_fraction, 1e-5);
    for (int k = 0; k < 2; k++) {
        ppo_trainer_free(trainer[k]);
        ppo_agent_free(agent[k]);
    }
}

/* Samples of a rollout, gathered in the order of a minibatch. */
enum { MOST = 512 };
typedef struct gathered {
    float obs[2 * MOST], number[2 * MOST], logp[MOST], value[MOST], advantage[MOST], target[MOST];
    float policy[3 * MOST], log_std[2 * MOST]; /* of the policy that acted, where a penalty needs it */
    int index[MOST];
    ppo_actions actions;
} gathered;

static void gather(const ppo_rollout *r, int size, const int *order, int n, gathered *g) {
    for (int i = 0; i < n; i++) {
        int from = order[i];
        for (int j = 0; j < size; j++) g->obs[i * size + j] = r->obs[from * size + j];
        for (int j = 0; j < 2 && r->actions.box; j++) g->number[2 * i + j] = r->actions.box[2 * from + j];
        if (r->actions.discrete) g->index[i] = r->actions.discrete[from];
        for (int j = 0, n = r->log_std ? 2 : 3; j < n && r->policy; j++)
            g->policy[i * n + j] = r->policy[from * n + j];
        for (int j = 0; j < 2 && r->log_std; j++) g->log_std[2 * i + j] = r->log_std[2 * from + j];
        g->logp[i] = r->logp[from], g->value[i] = r->value[from];
        g->advantage[i] = r->advantage[from], g->target[i] = r->value_target[from];
    }
    g->actions.discrete = g->index, g->actions.box = g->number;
}

/* An iteration written out with the public building blocks, shuffled by the trainer's stream.
   `progress`: the share of the steps that were done before it. */
static void update_by_hand(ppo_agent *agent, const ppo_config *cfg, const ppo_rollout *r, ppo_rng *rng,
                           float progress) {
    const float shrink = ppo_schedule(cfg->clip_schedule, 1, progress);
    const int penalty = cfg->objective == PPO_KL_PENALTY;
    const ppo_policy_objective objective = {penalty ? PPO_UNCLIPPED : cfg->objective, cfg->clip_low * shrink,
                                            cfg->clip_high * shrink, cfg->dual_clip, cfg->kl_coef};
    const ppo_adam adam = {ppo_schedule(cfg->learning_rate_schedule, cfg->learning_rate, progress),
                           cfg->adam_beta1, cfg->adam_beta2, cfg->adam_eps, cfg->weight_decay};
    const int n = cfg->minibatch_size, all = r->steps * r->envs;
    ppo_tape *t;
    assert_ok(ppo_tape_create(&t));
    for (int epoch = 0; epoch < cfg->epochs; epoch++) {
        int order[MOST];
        for (int i = 0; i < all; i++) order[i] = i;
        ppo_rng_shuffle(rng, order, all);
        for (int begin = 0; begin < all; begin += n) {
            static gathered g;
            ppo_tensor *logp, *entropy;
            gather(r, agent->model.obs_size, order + begin, n, &g);
            if (cfg->normalize_advantage) assert_ok(ppo_whiten(g.advantage, NULL, n, 1));
            ppo_tape_reset(t);
            ppo_outputs out = ask(t, &agent->model, g.obs, n);
            ppo_actor_critic_logp(t, &agent->model, &out, &g.actions, &logp, &entropy);
            ppo_tensor *a = ppo_tape_policy_loss(t, logp, g.logp, g.advantage, NULL, &objective, NULL);
            if (penalty) {
                ppo_tensor *kl =
                    out.log_std
                        ? ppo_tape_gaussian_kl(t, g.policy, g.log_std, out.policy, out.log_std)
                        : ppo_tape_multi_categorical_kl(t, g.policy, &out.policy->cols, 1, out.policy);
                a = ppo_tape_add(t, a, ppo_tape_scale(t, ppo_tape_mean(t, kl), cfg->kl_coef, 0));
            }
            ppo_tensor *b =
                ppo_tape_value_loss(t, out.value, g.value, g.target, NULL, cfg->value_clip, INFINITY);
            ppo_tensor *loss = ppo_tape_add(t, a, ppo_tape_scale(t, b, cfg->value_coef, 0));
            loss = ppo_tape_sub(t, loss, ppo_tape_scale(t, ppo_tape_mean(t, entropy), cfg->entropy_coef, 0));
            ppo_params_zero_grad(agent->model.params);
            assert_ok(ppo_tape_backward(t, loss));
            assert_ok(ppo_params_step(agent->model.params, &adam, cfg->max_grad_norm, NULL));
        }
    }
    ppo_tape_free(t);
}

static void an_iteration_is_the_algorithm_written_out_with_the_building_blocks(void **state) {
    (void)state;
    const ppo_env envs[] = {walk_env(), reach_env()};
    for (int i = 0; i < 24; i++) {
        const ppo_env *env = &envs[i / 2 % 2];
        ppo_config cfg = eight_environments(i % 2);
        int large = i >= 12 ? 4 : 1; /* so large that it is cut into parts */
        ppo_agent *agent = NULL, *hand = NULL;
        ppo_trainer *trainer = NULL;
        cfg.minibatch_size = i / 3 % 2 ? 128 * large : large > 1 ? 256 : 32;
        cfg.rollout_steps *= large, cfg.total_steps *= large;
        cfg.epochs = 5, cfg.learning_rate = 0.02f, cfg.objective = i % 3;
        cfg.clip_low = 0.1f, cfg.clip_high = 0.15f;
        if (cfg.objective == PPO_KL_PENALTY) cfg.kl_coef = 0.7f;
        if (cfg.objective == PPO_CLIP) cfg.dual_clip = i % 4 == 3 ? 1.05f : 0;
        cfg.value_clip = i % 5 == 0 ? 0.05f : 0, cfg.value_coef = 0.3f, cfg.entropy_coef = 0.02f;
        cfg.normalize_advantage = i % 7 != 0, cfg.weight_decay = 0.1f, cfg.max_grad_norm = 0.2f;
        cfg.shared_trunk = i / 6 % 2, cfg.learning_rate_schedule = PPO_COSINE, cfg.clip_schedule = PPO_LINEAR;
        assert_ok(ppo_agent_create(env, &cfg, &agent));
        assert_ok(ppo_agent_create(env, &cfg, &hand));
        assert_ok(ppo_trainer_create(env, &cfg, agent, &trainer));
        ppo_params *p = agent->model.params, *q = hand->model.params;
        ppo_rng rng = ppo_rng_stream(cfg.seed, PPO_STREAM_SHUFFLE, 0);
        for (int k = 0; k < 3; k++) {
            memcpy(q->data, p->data, p->count * sizeof(float)); /* what rounding there was does not add up */
            memcpy(q->m, p->m, p->count * sizeof(float));
            memcpy(q->v, p->v, p->count * sizeof(float));
            assert_ok(ppo_trainer_iterate(trainer, NULL));
            float before[512], farthest = 0;
            assert_true(p->count <= COUNT(before));
            memcpy(before, q->data, p->count * sizeof(float));
            update_by_hand(hand, &cfg, ppo_trainer_rollout(trainer), &rng, 0.25f * (float)k);
            for (size_t j = 0; j < p->count; j++) {
                assert_true(fabsf(p->data[j] - q->data[j]) < 1e-6f);
                farthest = fmaxf(farthest, fabsf(p->data[j] - before[j]));
            }
            assert_true(farthest > 1e-2f);
        }
        ppo_trainer_free(trainer);
        ppo_agent_free(agent);
        ppo_agent_free(hand);
    }
}

/* --------------------------------------------------------------------------------------------------------
   Learning
   -------------------------------------------------------------------------------------------------------- */

static void cartpole_is_learned_within_30000_steps(void **state) {
    (void)state;
    ppo_env env = cartpole_env();
    ppo_config cfg = ppo_config_default();
    log_of_run log = {0, 0, {{0}}};
    ppo_agent *agent = NULL;
    cfg.total_steps = 30000, cfg.rollout_steps = 256, cfg.epochs = 6, cfg.learning_rate = 1e-3f;
    cfg.hidden[0] = cfg.hidden[1] = 32;
    cfg.callback = keep_log, cfg.callback_user = &log;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    float before = ppo_evaluate(agent, &env, 20, 1).mean_return;
    assert_ok(ppo_train(&env, &cfg, &agent));
    float after = ppo_evaluate(agent, &env, 20, 1).mean_return;
    assert_true(before < 60);
    assert_true(log.p[0].mean_return < 40); /* random pushing lasts some 22 steps */
    assert_true(log.p[log.calls - 1].mean_return > 100);
    assert_true(after > 150);
    ppo_agent_free(agent);
}

static void reaching_with_continuous_actions_is_learned(void **state) {
    (void)state;
    ppo_env env = reach_env();
    for (int i = 0; i < 3; i++) { /* each objective */
        ppo_config cfg = ppo_config_default();
        ppo_agent *agent = NULL;
        cfg.total_steps = 12000, cfg.rollout_steps = 128, cfg.epochs = 4, cfg.learning_rate = 3e-3f;
        cfg.hidden[0] = 16, cfg.hidden_layers = 1, cfg.log_std_init = -0.5f;
        cfg.objective = i, cfg.normalize_obs = i == 1, cfg.normalize_reward = i == 1;
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        float before = ppo_evaluate(agent, &env, 50, 1).mean_return;
        assert_ok(ppo_train(&env, &cfg, &agent));
        float after = ppo_evaluate(agent, &env, 50, 1).mean_return;
        assert_true(before < -2);           /* standing still: 10 steps of x^2, which is 1/3 on average */
        assert_true(after > 0.3f * before); /* at best the first step's third remains */
        ppo_agent_free(agent);
    }
}

static void a_trained_agent_is_trained_further(void **state) {
    (void)state;
    ppo_env env = walk_env();
    ppo_config cfg = eight_environments(1);
    ppo_agent *agent = trained(&env, &cfg), *same = agent, *once = trained(&env, &cfg);
    int64_t steps = agent->model.params->step;
    double count = agent->obs_norm.count;
    assert_true(steps > 0 && count > 500);
    assert_ok(ppo_train(&env, &cfg, &agent));
    assert_ptr_equal(agent, same);
    assert_int_equal(agent->model.params->step, 2 * steps);
    assert_close(agent->obs_norm.count, 2 * count, 1e-6);
    assert_true(agents_differ(agent, once));
    ppo_agent_free(agent);
    ppo_agent_free(once);
}

/* --------------------------------------------------------------------------------------------------------
   Acting and evaluating
   -------------------------------------------------------------------------------------------------------- */

static void actions_lie_within_their_space(void **state) {
    (void)state;
    ppo_env box = reach_env(), discrete = walk_env();
    ppo_config cfg = tiny_config();
    ppo_agent *a = NULL, *b = NULL;
    ppo_rng rng = test_rng(1);
    ppo_action action;
    int count[3] = {0}, edges = 0;
    cfg.log_std_init = 1; /* wide: most samples must be clipped */
    assert_ok(ppo_agent_create(&box, &cfg, &a));
    cfg.log_std_init = 0;
    assert_ok(ppo_agent_create(&discrete, &cfg, &b));
    for (int i = 0; i < 2000; i++) {
        float obs[2] = {ppo_rng_normal(&rng), ppo_rng_normal(&rng)};
        assert_ok(ppo_act(a, obs, &rng, &action));
        for (int j = 0; j < 2; j++) {
            assert_true(action.box[j] >= -1 && action.box[j] <= 1);
            edges += fabsf(action.box[j]) == 1;
        }
        assert_ok(ppo_act(b, obs, &rng, &action));
        assert_in_range(action.discrete, 0, 2);
        count[action.discrete]++;
    }
    assert_true(edges > 2000 && edges < 4000);
    for (int k = 0; k < 3; k++) assert_in_range(count[k], 500, 830); /* nearly uniform at first */
    ppo_agent_free(a);
    ppo_agent_free(b);
}

static void without_rng_the_most_likely_action_is_taken(void **state) {
    (void)state;
    ppo_env box = reach_env(), discrete = walk_env();
    ppo_config cfg = eight_environments(1);
    ppo_agent *a = trained(&box, &cfg), *b = trained(&discrete, &cfg);
    for (int i = 0; i < 20; i++) {
        float obs[2] = {0.1f * (float)(i - 10), 0.5f}, view[2];
        ppo_action action;
        assert_ok(ppo_act(a, obs, NULL, &action));
        float got[2] = {action.box[0], action.box[1]};
        ppo_normalize(&a->obs_norm, obs, 1, a->clip_obs, view); /* the statistics belong to the agent */
        ppo_tape_reset(a->tape);
        ppo_tensor *policy = ask(a->tape, &a->model, view, 1).policy;
        for (int j = 0; j < 2; j++) assert_true(got[j] == fminf(fmaxf(policy->data[j], -1), 1));

        assert_ok(ppo_act(b, obs, NULL, &action));
        ppo_normalize(&b->obs_norm, obs, 1, b->clip_obs, view);
        ppo_tape_reset(b->tape);
        policy = ask(b->tape, &b->model, view, 1).policy;
        assert_int_equal(action.discrete, ppo_categorical_mode(policy->data, 3));
    }
    ppo_agent_free(a);
    ppo_agent_free(b);
}

static void act_refuses_bad_input(void **state) {
    (void)state;
    ppo_env env = walk_env();
    ppo_action action;
    float obs[2] = {0, 0}, nans[2] = {0, NAN};
    for (int i = 0; i < 4; i++) {
        ppo_config cfg = tiny_config();
        ppo_agent *agent = NULL;
        cfg.activation = i % 2 ? PPO_RELU : PPO_TANH;
        cfg.normalize_obs = i / 2;
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        assert_fails(ppo_act(NULL, obs, NULL, &action), PPO_ERROR_ARGUMENT, "NULL");
        assert_fails(ppo_act(agent, NULL, NULL, &action), PPO_ERROR_ARGUMENT, "NULL");
        assert_fails(ppo_act(agent, obs, NULL, NULL), PPO_ERROR_ARGUMENT, "ppo_act:|NULL");
        assert_fails(ppo_act_masked(agent, obs, NULL, NULL, NULL), PPO_ERROR_ARGUMENT,
                     "ppo_act_masked:|NULL");
        assert_fails(ppo_act(agent, nans, NULL, &action), PPO_ERROR_NUMERIC, "");
        assert_ok(ppo_act(agent, obs, NULL, &action));
        ppo_agent_free(agent);
    }
}

static void steep_reset(void *state, ppo_rng *rng, float *obs) { (void)state, (void)rng, obs[0] = 1e19f; }

static void steep_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    (void)action;
    steep_reset(state, rng, obs);
    out->reward = 1, out->terminated = 1;
}

/* The loss is 0.5e20, the gradient 1e19 times as steep. */
static void a_gradient_that_overflows_ends_the_training(void **state) {
    (void)state;
    ppo_env env = ticks_env(0);
    ppo_config cfg = tiny_config();
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    env.reset = steep_reset, env.step = steep_step;
    cfg.hidden_layers = 0, cfg.value_coef = 1e20f;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    memset(agent->model.params->data, 0, agent->model.params->count * sizeof(float));
    assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
    assert_fails(ppo_trainer_iterate(trainer, NULL), PPO_ERROR_NUMERIC,
                 "the gradient's norm is inf at optimizer step 1");
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
}

static void evaluation_repeats_for_a_seed_and_changes_nothing(void **state) {
    (void)state;
    ppo_env env = walk_env();
    ppo_config cfg = eight_environments(1);
    ppo_agent *agent = trained(&env, &cfg), *twin = trained(&env, &cfg);
    ppo_evaluation a = ppo_evaluate(agent, &env, 50, 3), b = ppo_evaluate(agent, &env, 50, 3),
                   c = ppo_evaluate(agent, &env, 50, 4);
    assert_ok(a.status);
    assert_memory_equal(&a, &b, sizeof a);
    assert_memory_not_equal(&a, &c, sizeof a);
    b = ppo_evaluate_sampled(agent, &env, 50, 3), c = ppo_evaluate_sampled(agent, &env, 50, 3);
    assert_ok(b.status);
    assert_memory_equal(&b, &c, sizeof b);
    assert_memory_not_equal(&a, &b, sizeof a); /* those are the most likely actions */
    assert_false(agents_differ(agent, twin));  /* also not in its statistics */
    ppo_agent_free(agent);
    ppo_agent_free(twin);
}

/* Episode k, told apart by its stream, lasts 1 + k % 5 steps of reward 2. */
static void countdown_reset(void *state, ppo_rng *rng, float *obs) {
    *(int *)state = 1 + env_index(rng) % 5;
    obs[0] = 0;
}

static void countdown_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs,
                           ppo_outcome *out) {
    (void)rng, (void)action;
    obs[0] = 0;
    out->reward = 2;
    out->terminated = --*(int *)state == 0;
}

static void evaluation_summarizes_all_episodes(void **state) {
    (void)state;
    ppo_env env = ticks_env(0);
    ppo_config cfg = tiny_config();
    ppo_agent *agent = NULL;
    env.reset = countdown_reset, env.step = countdown_step;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    static const int episodes[] = {5, 40, 100}; /* fewer and more than are played side by side */
    for (int i = 0; i < COUNT(episodes); i++) {
        ppo_evaluation e = ppo_evaluate(agent, &env, episodes[i], 1);
        assert_ok(e.status);
        assert_int_equal(e.episodes, episodes[i]);
        assert_close(e.mean_return, 6, 1e-6);
        assert_close(e.std_return, sqrt(8), 1e-6);
        assert_true(e.min_return == 2 && e.max_return == 10);
        assert_close(e.mean_length, 3, 1e-6);
    }
    ppo_evaluation one = ppo_evaluate(agent, &env, 1, 1);
    assert_true(one.mean_return == 2 && one.std_return == 0 && one.mean_length == 1);
    assert_true(one.min_return == 2 && one.max_return == 2);
    ppo_agent_free(agent);
}

static void an_evaluation_that_cannot_be_done_says_why(void **state) {
    (void)state;
    ppo_env env = ticks_env(7), other = walk_env(), endless = ticks_env(0);
    ppo_config cfg = tiny_config();
    ppo_agent *agent = NULL;
    cfg.hidden_layers = 0;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_fails(ppo_evaluate(NULL, &env, 1, 1).status, PPO_ERROR_ARGUMENT, "agent|NULL");
    assert_fails(ppo_evaluate(agent, NULL, 1, 1).status, PPO_ERROR_ARGUMENT, "environment|NULL");
    assert_fails(ppo_evaluate(agent, &env, 0, 1).status, PPO_ERROR_ARGUMENT, "0 episodes");
    assert_fails(ppo_evaluate(agent, &env, -5, 1).status, PPO_ERROR_ARGUMENT, "-5 episodes");
    assert_fails(ppo_evaluate(agent, &env, INT_MAX, 1).status, PPO_ERROR_ARGUMENT,
                 "2147483647 episodes|1000000");
    assert_fails(ppo_evaluate(NULL, &env, 1000000, 1).status, PPO_ERROR_ARGUMENT, "agent|NULL");
    assert_fails(ppo_evaluate(agent, &other, 1, 1).status, PPO_ERROR_ARGUMENT, "3");
    assert_fails(ppo_evaluate(agent, &endless, 1, 1).status, PPO_ERROR_ARGUMENT, "1000000|max_steps");
    ppo_evaluation none = ppo_evaluate(agent, &env, 0, 1);
    assert_int_equal(none.episodes, 0);
    assert_nan(none.mean_return);
    assert_nan(none.mean_length);
    ppo_agent_free(agent);
}

/* --------------------------------------------------------------------------------------------------------
   Settings
   -------------------------------------------------------------------------------------------------------- */

static void defaults_are_the_documented_ones_and_pass(void **state) {
    (void)state;
    ppo_config c = ppo_config_default();
    assert_ok(ppo_config_check(&c));
    assert_true(c.total_steps == 100000 && c.num_envs == 4 && c.rollout_steps == 512 &&
                c.minibatch_size == 64);
    assert_true(c.epochs == 10 && c.learning_rate == 3e-4f && c.learning_rate_schedule == PPO_LINEAR);
    assert_true(c.gamma == 0.99f && c.gae_lambda == 0.95f && c.objective == PPO_CLIP);
    assert_true(c.clip_low == 0.2f && c.clip_high == 0.2f && c.clip_schedule == PPO_CONSTANT &&
                c.dual_clip == 0);
    assert_true(c.kl_coef == 1 && c.target_kl == 0 && c.value_coef == 0.5f && c.value_clip == 0 &&
                c.entropy_coef == 0);
    assert_true(c.normalize_advantage == 1 && c.max_grad_norm == 0.5f && c.adam_beta1 == 0.9f &&
                c.adam_beta2 == 0.999f);
    assert_true(c.adam_eps == 1e-5f && c.weight_decay == 0 && c.hidden[0] == 64 && c.hidden[1] == 64);
    assert_true(c.hidden_layers == 2 && c.activation == PPO_TANH && c.shared_trunk == 0 &&
                c.log_std_init == 0);
    assert_true(c.normalize_obs == 0 && c.normalize_reward == 0 && c.clip_obs == 10 && c.clip_reward == 10);
    assert_true(c.seed == 1 && c.threads == 1 && !c.callback && !c.callback_user);
}

static const ppo_field *field_named(const char *name) {
    int count;
    const ppo_field *fields = ppo_config_settings()->field;
    count = ppo_config_settings()->count;
    for (int i = 0; i < count; i++)
        if (strcmp(fields[i].name, name) == 0) return &fields[i];
    return NULL;
}

/* Writes a number into a field as its type allows; 0 if it has no room for it. */
static int put_number(ppo_config *cfg, const ppo_field *field, double x) {
    char *at = (char *)cfg + field->offset;
    switch (field->type) {
    case PPO_FIELD_INT:
    case PPO_FIELD_CHOICE:
        if (!(x >= INT_MIN && x <= INT_MAX)) return 0;
        *(int *)(void *)at = (int)x;
        return 1;
    case PPO_FIELD_I64:
        if (!(fabs(x) < 9e18)) return 0;
        *(int64_t *)(void *)at = (int64_t)x;
        return 1;
    case PPO_FIELD_FLOAT:
        *(float *)(void *)at = (float)x;
        return 1;
    case PPO_FIELD_WIDTHS:
        if (!(x >= INT_MIN && x <= INT_MAX)) return 0;
        cfg->hidden[1] = (int)x;
        return 1;
    case PPO_FIELD_KERNELS:
        if (!(x >= INT_MIN && x <= INT_MAX)) return 0;
        for (int k = 0; k < 5; k++) cfg->conv[k / 3][k % 3] = 1;
        cfg->conv[1][2] = (int)x;
        cfg->conv_layers = 2;
        return 1;
    default:
        return 0; /* every 64-bit number is a seed */
    }
}

static void every_setting_has_a_field_with_a_help_text(void **state) {
    (void)state;
    static const char *const names[] = {"total_steps",
                                        "num_envs",
                                        "rollout_steps",
                                        "minibatch_size",
                                        "shards",
                                        "epochs",
                                        "learning_rate",
                                        "learning_rate_schedule",
                                        "gamma",
                                        "gae_lambda",
                                        "objective",
                                        "clip_low",
                                        "clip_high",
                                        "clip_schedule",
                                        "dual_clip",
                                        "kl_coef",
                                        "target_kl",
                                        "value_coef",
                                        "value_clip",
                                        "entropy_coef",
                                        "normalize_advantage",
                                        "max_grad_norm",
                                        "adam_beta1",
                                        "adam_beta2",
                                        "adam_eps",
                                        "weight_decay",
                                        "conv",
                                        "hidden",
                                        "activation",
                                        "shared_trunk",
                                        "log_std_init",
                                        "log_std_min",
                                        "log_std_max",
                                        "normalize_obs",
                                        "normalize_reward",
                                        "clip_obs",
                                        "clip_reward",
                                        "self_play",
                                        "lr_target_kl",
                                        "snapshot_every",
                                        "self_play_latest",
                                        "seed",
                                        "threads",
                                        "critic_learning_rate",
                                        "penalty_target_kl",
                                        "huber_delta",
                                        "use_critic",
                                        "entropy_schedule",
                                        "recurrent",
                                        "sequence_steps",
                                        "init",
                                        "squash",
                                        "scale_actions",
                                        "gsde",
                                        "gsde_steps",
                                        "layer_norm",
                                        "recompute_advantages",
                                        "rpo_alpha"};
    for (int i = 0; i < COUNT(names); i++)
        if (!field_named(names[i])) fail_msg("there is no field %s", names[i]);
    for (int i = 0; i < ppo_config_settings()->count; i++) {
        const ppo_field *f = &ppo_config_settings()->field[i];
        int listed = 0;
        for (int k = 0; k < COUNT(names); k++) listed += strcmp(f->name, names[k]) == 0;
        if (listed != 1) fail_msg("the field %s is listed %d times here", f->name, listed);
        assert_true(f->help && strlen(f->help) > 3 && f->min < f->max);
        assert_true((f->type == PPO_FIELD_CHOICE) == (f->choices != NULL));
    }
}

static void a_choice_has_as_many_words_as_values(void **state) {
    (void)state;
    const ppo_settings *tables[] = {ppo_config_settings(), ppo_fit_settings(), ppo_rlhf_settings()};
    for (int t = 0; t < COUNT(tables); t++)
        for (int i = 0; i < tables[t]->count; i++) {
            const ppo_field *f = &tables[t]->field[i];
            int words = 1;
            if (f->type != PPO_FIELD_CHOICE) continue;
            for (const char *c = f->choices; *c; c++) words += *c == '|';
            if (words != (int)(f->max - f->min) + 1)
                fail_msg("%s: %d words for %g to %g", f->name, words, f->min, f->max);
        }
}

static void every_row_of_a_table_has_its_default(void **state) {
    (void)state;
    ppo_config control = ppo_config_default();
    ppo_lm_config lm = ppo_lm_config_default();
    ppo_fit_config fit = ppo_fit_config_default();
    ppo_rlhf_config rlhf = ppo_rlhf_config_default();
    ppo_sampling sampling = ppo_sampling_default();
    const ppo_settings *tables[] = {ppo_config_settings(), ppo_lm_settings(), ppo_fit_settings(),
                                    ppo_rlhf_settings(), ppo_sampling_settings()};
    void *configs[] = {&control, &lm, &fit, &rlhf, &sampling};
    for (int t = 0; t < COUNT(tables); t++)
        for (int i = 0; i < tables[t]->count; i++) {
            const ppo_field *f = &tables[t]->field[i];
            char before[256], after[256];
            if (strcmp(f->name, "vocab") == 0) assert_null(f->initial); /* what only the caller knows */
            if (strcmp(f->name, "vocab") == 0) continue;
            assert_ok(ppo_settings_get(tables[t], configs[t], f->name, before, sizeof before));
            assert_ok(ppo_settings_set(tables[t], configs[t], f->name, f->initial));
            assert_ok(ppo_settings_get(tables[t], configs[t], f->name, after, sizeof after));
            assert_string_equal(before, after);
        }
}

/* The text of ppo.h from `from` to `to`. */
static char *part_of_header(const char *from, const char *to) {
    static char text[1 << 21];
    FILE *file = fopen("ppo.h", "rb"); /* tests run in the top folder */
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    char *begin = strstr(text, from), *end = begin ? strstr(begin, to) : NULL;
    assert_non_null(end);
    *end = 0;
    return begin;
}

/* In the brackets that end the comment of a field, on its line or above it. */
static void the_comment_of_a_setting_names_its_default(void **state) {
    (void)state;
    char *text = part_of_header("typedef struct ppo_config {", "} ppo_config;");
    for (int i = 0; i < ppo_config_settings()->count; i++) {
        const ppo_field *f = &ppo_config_settings()->field[i];
        char wanted[64], semicolon[64], bracket[64];
        snprintf(semicolon, sizeof semicolon, " %s;", f->name);
        snprintf(bracket, sizeof bracket, " %s[", f->name);
        snprintf(wanted, sizeof wanted, "[%s] */", f->initial);
        char *field = strstr(text, semicolon), *above, *end;
        if (!field) field = strstr(text, bracket);
        if (!field) fail_msg("ppo_config has no field %s of its own line", f->name);
        for (end = field; *end != '\n'; end++) {
        }
        for (above = field; above[-1] != '\n'; above--) {
        }
        if (!memchr(field, '/', (size_t)(end - field))) /* the comment is above */
            for (end = above--; above[-1] != '\n'; above--) {
            }
        const char was = *end;
        *end = 0;
        if (!strstr(above, wanted)) fail_msg("%s: its comment does not end with %s", f->name, wanted);
        *end = was;
    }
}

static void the_ends_of_every_range_are_allowed_and_what_lies_beyond_is_refused_by_name(void **state) {
    (void)state;
    ppo_env env = walk_env();
    int count, tried = 0;
    const ppo_field *fields = ppo_config_settings()->field;
    count = ppo_config_settings()->count;
    for (int i = 0; i < count; i++) {
        const ppo_field *f = &fields[i];
        double one = f->type == PPO_FIELD_FLOAT ? fmax(1e-6, 1e-3 * fabs(f->min)) : 1;
        double above = f->type == PPO_FIELD_FLOAT ? f->max * 1.01 + 1e-3 : f->max + 1;
        const double bad[] = {f->min - one, above, f->type == PPO_FIELD_FLOAT ? NAN : f->min - one, -1e30,
                              1e30};
        for (int k = 0; k < COUNT(bad); k++) {
            ppo_config cfg = ppo_config_default();
            ppo_agent *agent = NULL;
            if (!put_number(&cfg, f, bad[k])) continue;
            tried++;
            assert_fails(ppo_config_check(&cfg), PPO_ERROR_ARGUMENT, f->name);
            assert_fails(ppo_train(&env, &cfg, &agent), PPO_ERROR_ARGUMENT, f->name);
            assert_null(agent);
        }
        for (int k = 0; k < 2; k++) {
            ppo_config cfg = ppo_config_default();
            if (!put_number(&cfg, f, k ? f->max : f->min)) continue;
            if (ppo_config_check(&cfg) != PPO_OK &&
                strncmp(ppo_last_error(), f->name, strlen(f->name)) == 0 &&
                !strstr(ppo_last_error(), "rollout:") &&     /* how sizes go together is another matter, */
                !strstr(ppo_last_error(), "conv[1] is 0") && /* only channels may be 0, */
                !strstr(ppo_last_error(), "k3-penalty"))     /* and so is what only tokens have */
                fail_msg("%g is an end of the range, but: %s", k ? f->max : f->min, ppo_last_error());
        }
    }
    assert_true(tried > 3 * count);
}

static void settings_that_do_not_go_together_are_refused(void **state) {
    (void)state;
    ppo_env env = walk_env();
    ppo_agent *agent = NULL;
    ppo_config a = ppo_config_default(), b = a, c = a, d = a, e = a;
    a.minibatch_size = 4 * 512 + 1;
    assert_fails(ppo_train(&env, &a, &agent), PPO_ERROR_ARGUMENT,
                 "minibatch_size|2049|num_envs|rollout_steps");
    b.num_envs = 65536, b.rollout_steps = 65536; /* 2^32 samples */
    assert_fails(ppo_train(&env, &b, &agent), PPO_ERROR_ARGUMENT, "num_envs|rollout_steps|4294967296");
    c.hidden_layers = PPO_MAX_LAYERS;
    assert_fails(ppo_train(&env, &c, &agent), PPO_ERROR_ARGUMENT, "hidden_layers|64");
    d.hidden_layers = -1;
    assert_fails(ppo_train(&env, &d, &agent), PPO_ERROR_ARGUMENT, "hidden_layers|-1");
    d.hidden_layers = 0, d.activation = PPO__ACTIVATIONS;
    assert_fails(ppo_train(&env, &d, &agent), PPO_ERROR_ARGUMENT,
                 "activation is |, none of identity|tanh|elu");
    memset(&d, 0, sizeof d);
    assert_fails(ppo_train(&env, &d, &agent), PPO_ERROR_ARGUMENT, "all zeros|ppo_config_default()");
    e.objective = PPO_K3_PENALTY;
    assert_fails(ppo_train(&env, &e, &agent), PPO_ERROR_ARGUMENT, "objective is k3-penalty|kl-penalty");
    assert_null(agent);
}

static void huge_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    ticks_step(state, rng, action, obs, out);
    out->reward = 3e38f;
}

/* Only what differs from its default and cannot matter. What would make it matter is in the sentence. */
static void settings_without_effect_are_refused(void **state) {
    (void)state;
    static const char *const wrong[][2] = {
        {"gsde_steps=4", "gsde_steps is 4|gsde is no"},
        {"objective=unclipped dual_clip=3", "dual_clip is 3|objective is unclipped"},
        {"kl_coef=2", "kl_coef is 2|objective is clip"},
        {"penalty_target_kl=0.01", "penalty_target_kl is 0.01|objective is clip"},
        {"use_critic=no value_coef=1", "value_coef is 1|use_critic is no"},
        {"use_critic=no value_clip=0.2", "value_clip|use_critic"},
        {"use_critic=no huber_delta=1", "huber_delta|use_critic"},
        {"use_critic=no critic_learning_rate=1e-3", "critic_learning_rate|use_critic"},
        {"use_critic=no recompute_advantages=yes", "recompute_advantages is yes|use_critic is no"},
        {"recompute_advantages=yes epochs=1", "recompute_advantages is yes|epochs is 1"},
        {"layer_norm=yes hidden=none", "layer_norm is yes|hidden is none"},
        {"rpo_alpha=0.5", "rpo_alpha is 0.5|discrete 3"},
        {"entropy_schedule=linear", "entropy_schedule is linear|entropy_coef is 0"},
        {"sequence_steps=8", "sequence_steps is 8|recurrent is 0"},
        {"shared_trunk=yes hidden=none", "shared_trunk is yes|hidden is none"},
        {"clip_obs=5", "clip_obs is 5|normalize_obs is no"},
        {"clip_reward=5", "clip_reward is 5|normalize_reward is no"},
        {"squash=yes", "squash is yes|discrete 3"},
        {"scale_actions=yes", "scale_actions is yes|discrete 3"},
        {"gsde=yes", "gsde is yes|discrete 3"},
        {"log_std_init=-1", "log_std_init is -1|discrete 3"},
        {"log_std_max=2", "log_std_max is 2|discrete 3"}};
    static const char *const right[] = {"",
                                        "gsde=yes gsde_steps=4 squash=yes log_std_init=-1",
                                        "dual_clip=3 clip_low=0.1",
                                        "objective=kl-penalty kl_coef=2 penalty_target_kl=0.01",
                                        "value_coef=1 value_clip=0.2 huber_delta=1 critic_learning_rate=1e-3",
                                        "entropy_schedule=linear entropy_coef=0.01",
                                        "recurrent=4 sequence_steps=8",
                                        "normalize_obs=yes clip_obs=5 normalize_reward=yes clip_reward=5",
                                        "shared_trunk=yes hidden=8 layer_norm=yes",
                                        "rpo_alpha=0.5 recompute_advantages=yes",
                                        "kl_coef=1 sequence_steps=32 gsde_steps=0 squash=no use_critic=no"};
    ppo_env env = walk_env(), box = reach_env();
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    for (int i = 0; i < COUNT(wrong); i++) {
        ppo_config cfg = tiny_config();
        assert_ok(ppo_config_set_all(&cfg, wrong[i][0]));
        assert_ok(ppo_config_check(&cfg));
        assert_fails(ppo_config_check_effect(&cfg, &env, NULL), PPO_ERROR_ARGUMENT, wrong[i][1]);
        assert_fails(ppo_agent_create(&env, &cfg, &agent), PPO_ERROR_ARGUMENT, wrong[i][1]);
        assert_fails(ppo_train(&env, &cfg, &agent), PPO_ERROR_ARGUMENT, wrong[i][1]);
    }
    for (int i = 0; i < COUNT(right); i++) {
        ppo_config cfg = tiny_config();
        assert_ok(ppo_config_set_all(&cfg, right[i]));
        assert_ok(ppo_config_check_effect(&cfg, &box, NULL));
    }
    ppo_config cfg = tiny_config(), later = cfg;
    cfg.gsde = 1;
    assert_ok(ppo_config_check_effect(&cfg, NULL, NULL)); /* the action space is not known */
    assert_ok(ppo_config_check_effect(&cfg, &env, "gsde-steps"));
    assert_fails(ppo_config_check_effect(&cfg, &env, "gsde"), PPO_ERROR_ARGUMENT, "gsde is yes");
    assert_fails(ppo_config_check_effect(&cfg, &env, "nonsense"), PPO_ERROR_ARGUMENT, "nonsense");
    assert_fails(ppo_config_check_effect(NULL, &env, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_ok(ppo_agent_create(&env, &later, &agent)); /* a trainer may have other settings than its agent */
    later.kl_coef = 2;
    assert_fails(ppo_trainer_create(&env, &later, agent, &trainer), PPO_ERROR_ARGUMENT, "kl_coef|objective");
    later.objective = PPO_KL_PENALTY;
    assert_ok(ppo_trainer_create(&env, &later, agent, &trainer));
    assert_ok(ppo_trainer_save(trainer, "build/effect.safetensors"));
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
    later.objective = PPO_CLIP; /* a run that is resumed may be older than this rule */
    assert_ok(ppo_trainer_resume("build/effect.safetensors", &env, &later, &agent, &trainer));
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
}

static void a_reward_that_is_too_large_is_told_as_such(void **state) {
    (void)state;
    static const struct {
        float reward;
        int normalize; /* which makes the reward small */
        const char *words;
    } cases[] = {{3e38f, 0, "rewards|too large|environment 2"}, /* its square is infinite */
                 {-1e30f, 0, "rewards|too large|environment 2"},
                 {3e38f, 1, NULL},
                 {1e15f, 0, NULL},
                 {INFINITY, 1, "reward is infinite|environment 2, step 4"},
                 {NAN, 0, "reward is NaN|environment 2, step 4"}};
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_env env = ticks_env(15);
        ppo_config cfg = eight_environments(0);
        ppo_agent *agent = NULL;
        cfg.normalize_reward = cases[i].normalize;
        ticks_plan.fault_at[2] = 4, ticks_plan.reward = cases[i].reward;
        if (cases[i].words) assert_fails(ppo_train(&env, &cfg, &agent), PPO_ERROR_NUMERIC, cases[i].words);
        else assert_ok(ppo_train(&env, &cfg, &agent));
        ppo_agent_free(agent);
    }
    ppo_env env = ticks_env(15);
    ppo_config cfg = tiny_config();
    ppo_agent *agent = trained(&env, &cfg);
    env.step = huge_step; /* each is a number, their sum is not */
    assert_fails(ppo_evaluate(agent, &env, 3, 1).status, PPO_ERROR_NUMERIC,
                 "3e+38 is too large|environment 0, step 2");
    ppo_agent_free(agent);
}

static void an_agent_is_of_the_environment_that_it_was_trained_on_last(void **state) {
    (void)state;
    ppo_env first = walk_env(), second = walk_env();
    ppo_config cfg = tiny_config();
    ppo_agent *agent = NULL, *back = NULL;
    ppo_trainer *trainer = NULL;
    first.name = "first", second.name = "second";
    assert_ok(ppo_agent_create(&first, &cfg, &agent));
    assert_string_equal(agent->environment, "first");
    assert_ok(ppo_trainer_create(&second, &cfg, agent, &trainer));
    assert_string_equal(agent->environment, "second");
    assert_ok(ppo_trainer_iterate(trainer, NULL));
    assert_ok(ppo_trainer_save(trainer, "build/second.safetensors"));
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
    assert_fails(ppo_trainer_resume("build/second.safetensors", &first, NULL, &back, &trainer),
                 PPO_ERROR_FILE, "second|first");
    assert_ok(ppo_trainer_resume("build/second.safetensors", &second, NULL, &back, &trainer));
    ppo_trainer_free(trainer);
    ppo_agent_free(back);
}

static void what_cannot_be_created_is_null(void **state) {
    (void)state;
    ppo_env env = walk_env();
    ppo_config cfg = tiny_config(), wrong = cfg;
    ppo_agent *agent = NULL, *none = (ppo_agent *)&env;
    ppo_trainer *trainer = (ppo_trainer *)&env;
    wrong.epochs = 0;
    assert_fails(ppo_agent_create(NULL, &cfg, &none), PPO_ERROR_ARGUMENT, "environment");
    assert_null(none);
    none = (ppo_agent *)&env;
    assert_fails(ppo_agent_create(&env, &wrong, &none), PPO_ERROR_ARGUMENT, "epochs");
    assert_null(none);
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_fails(ppo_trainer_create(&env, &cfg, NULL, &trainer), PPO_ERROR_ARGUMENT, "agent");
    assert_null(trainer);
    trainer = (ppo_trainer *)&env;
    assert_fails(ppo_trainer_create(&env, &wrong, agent, &trainer), PPO_ERROR_ARGUMENT, "epochs");
    assert_null(trainer);
    ppo_agent_free(agent);
}

static void null_pointers_are_refused(void **state) {
    (void)state;
    ppo_env env = walk_env(), other = reach_env();
    ppo_config cfg = tiny_config(), normalized = cfg;
    ppo_agent *agent = NULL, *kept;
    ppo_trainer *trainer = NULL;
    assert_fails(ppo_train(NULL, &cfg, &agent), PPO_ERROR_ARGUMENT, "environment|NULL");
    assert_fails(ppo_train(&env, NULL, &agent), PPO_ERROR_ARGUMENT, "configuration|NULL");
    assert_fails(ppo_train(&env, &cfg, NULL), PPO_ERROR_ARGUMENT, "ppo_train|NULL");
    assert_fails(ppo_agent_create(NULL, &cfg, &agent), PPO_ERROR_ARGUMENT, "environment|NULL");
    assert_fails(ppo_agent_create(&env, NULL, &agent), PPO_ERROR_ARGUMENT, "configuration|NULL");
    assert_fails(ppo_agent_create(&env, &cfg, NULL), PPO_ERROR_ARGUMENT, "agent|NULL");
    assert_fails(ppo_config_check(NULL), PPO_ERROR_ARGUMENT, "configuration|NULL");
    assert_null(agent);
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_fails(ppo_trainer_create(NULL, &cfg, agent, &trainer), PPO_ERROR_ARGUMENT, "environment|NULL");
    assert_fails(ppo_trainer_create(&env, NULL, agent, &trainer), PPO_ERROR_ARGUMENT, "configuration|NULL");
    assert_fails(ppo_trainer_create(&env, &cfg, NULL, &trainer), PPO_ERROR_ARGUMENT, "agent|NULL");
    assert_fails(ppo_trainer_create(&env, &cfg, agent, NULL), PPO_ERROR_ARGUMENT, "trainer|NULL");
    assert_fails(ppo_trainer_create(&other, &cfg, agent, &trainer), PPO_ERROR_ARGUMENT, "agent|environment");
    normalized.normalize_obs = 1;
    assert_fails(ppo_trainer_create(&env, &normalized, agent, &trainer), PPO_ERROR_ARGUMENT, "normalize_obs");
    assert_null(trainer);
    assert_fails(ppo_trainer_iterate(NULL, NULL), PPO_ERROR_ARGUMENT, "NULL");
    kept = agent;
    assert_fails(ppo_train(&other, &cfg, &agent), PPO_ERROR_ARGUMENT, "agent|environment");
    assert_ptr_equal(agent, kept); /* the caller's agent stays the caller's */
    ppo_agent_free(agent);
}

static void every_setting_survives_being_written_and_read_as_text(void **state) {
    (void)state;
    int count;
    const ppo_field *fields = ppo_config_settings()->field;
    count = ppo_config_settings()->count;
    ppo_rng rng = test_rng(5);
    for (int i = 0; i < count; i++) {
        const ppo_field *f = &fields[i];
        for (int trial = 0; trial < 50; trial++) {
            ppo_config a = ppo_config_default(), b = a;
            char text[1024], again[1024], dashed[64];
            double u = trial == 0 ? 0 : trial == 1 ? 1 : ppo_rng_uniform(&rng);
            double x = f->min + u * u * u * (fmin(f->max, 1e15) - f->min);
            if (f->type == PPO_FIELD_FLOAT) x = fmin(fmax((float)x, f->min * (1 + 1e-6)), f->max);
            if (f->type == PPO_FIELD_WIDTHS) {
                a.hidden_layers = trial % PPO_MAX_LAYERS;
                for (int k = 0; k < a.hidden_layers; k++) a.hidden[k] = 1 + ppo_rng_below(&rng, 65536);
            } else if (f->type == PPO_FIELD_KERNELS) {
                a.conv_layers = trial % PPO_MAX_LAYERS;
                for (int k = 0; k < 3 * a.conv_layers; k++)
                    a.conv[k / 3][k % 3] = trial % 2 ? 1024 : 1 + ppo_rng_below(&rng, 1024);
            } else if (f->type == PPO_FIELD_U64) {
                a.seed = trial == 0   ? 0
                         : trial == 1 ? UINT64_MAX
                                      : (uint64_t)ppo_rng_u32(&rng) << 32 | ppo_rng_u32(&rng);
            } else {
                assert_true(put_number(&a, f, f->type == PPO_FIELD_FLOAT ? x : floor(x)));
            }
            assert_ok(ppo_config_get(&a, f->name, text, sizeof text));
            snprintf(dashed, sizeof dashed, "%s", f->name);
            for (char *c = dashed; *c; c++)
                if (*c == '_') *c = '-';
            assert_ok(ppo_config_set(&b, trial % 2 ? dashed : f->name, text));
            assert_ok(ppo_config_get(&b, trial % 2 ? dashed : f->name, again, sizeof again));
            assert_string_equal(text, again);
            if (f->type == PPO_FIELD_KERNELS) {
                assert_int_equal(a.conv_layers, b.conv_layers);
                memset(a.conv + a.conv_layers, 0, sizeof a.conv - (size_t)a.conv_layers * sizeof *a.conv);
                memset(b.conv + b.conv_layers, 0, sizeof b.conv - (size_t)b.conv_layers * sizeof *b.conv);
            }
            if (f->type == PPO_FIELD_WIDTHS) { /* what lies beyond the last layer is nobody's */
                assert_int_equal(a.hidden_layers, b.hidden_layers);
                memset(a.hidden + a.hidden_layers, 0,
                       sizeof a.hidden - (size_t)a.hidden_layers * sizeof(int));
                memset(b.hidden + b.hidden_layers, 0,
                       sizeof b.hidden - (size_t)b.hidden_layers * sizeof(int));
            }
            assert_memory_equal(&a, &b, sizeof a);
        }
    }
}

static void settings_are_read_from_words_and_numbers(void **state) {
    (void)state;
    ppo_config c = ppo_config_default();
    assert_ok(ppo_config_set(&c, "learning-rate-schedule", "cosine"));
    assert_ok(ppo_config_set(&c, "objective", "kl-penalty"));
    assert_ok(ppo_config_set(&c, "activation", "relu"));
    assert_ok(ppo_config_set(&c, "normalize_obs", "yes"));
    assert_ok(ppo_config_set(&c, "normalize-reward", "1"));
    assert_ok(ppo_config_set(&c, "normalize_advantage", "0"));
    assert_ok(ppo_config_set(&c, "hidden", "128,64,32"));
    assert_ok(ppo_config_set(&c, "gamma", "0.5"));
    assert_ok(ppo_config_set(&c, "total_steps", "1000000"));
    assert_true(c.learning_rate_schedule == PPO_COSINE && c.objective == PPO_KL_PENALTY &&
                c.activation == PPO_RELU);
    assert_true(c.normalize_obs == 1 && c.normalize_reward == 1 && c.normalize_advantage == 0 &&
                c.hidden_layers == 3 && c.hidden[2] == 32 && c.gamma == 0.5f);
    assert_int_equal(c.total_steps, 1000000);
    assert_ok(ppo_config_set(&c, "hidden", "none"));
    assert_int_equal(c.hidden_layers, 0);
}

/* A constant without its word would show only in use. */
static void every_choice_has_a_word_for_each_value(void **state) {
    (void)state;
    const ppo_settings *all = ppo_config_settings();
    for (int i = 0; i < all->count; ++i) {
        const ppo_field *field = &all->field[i];
        const char *c = field->choices;
        int words = 1;
        if (field->type != PPO_FIELD_CHOICE) continue;
        for (; *c; ++c) words += *c == '|';
        if (words != (int)(field->max - field->min) + 1)
            fail_msg("%s: %d words, values %g to %g", field->name, words, field->min, field->max);
    }
}

/* For each setting whose effect needs another one that the preset sets. */
static void a_preset_leaves_no_setting_without_effect(void **state) {
    (void)state;
    static const char *const values[] = {"yes", "no", "0.5", "2", "linear"};
    const ppo_settings *all = ppo_config_settings();
    int tried = 0;
    for (const ppo_preset *preset = all->preset; preset->name; ++preset) {
        for (const ppo_need *need = all->need; need->name; ++need) {
            char sets[64];
            snprintf(sets, sizeof sets, "%s=", need->other);
            if (!strstr(preset->values, sets)) continue;
            for (int k = 0; k < COUNT(values); ++k) {
                ppo_config c = ppo_config_default();
                if (ppo_config_set(&c, need->name, values[k])) continue;
                assert_ok(ppo_config_preset(&c, preset->name));
                assert_ok(ppo_config_check_effect(&c, NULL, need->name));
                ++tried;
            }
        }
    }
    assert_true(tried > 50);
}

static void nonsense_is_refused_and_changes_nothing(void **state) {
    (void)state;
    static const char *const cases[][3] = {{"num_envs", "12x", "12x"},
                                           {"num_envs", "", "num_envs"},
                                           {"num_envs", "1.5", "1.5"},
                                           {"num_envs", " 4", "num_envs"},
                                           {"num_envs", "4 ", "num_envs"},
                                           {"num_envs", "0", "0"},
                                           {"num_envs", "-3", "-3"},
                                           {"num_envs", "1e999", "num_envs"},
                                           {"num_envs", "99999999999", "1e+11"},
                                           {"gamma", "1.01", "1.01"},
                                           {"gamma", "nan", "nan"},
                                           {"gamma", "inf", "inf"},
                                           {"gamma", "1e999", "gamma"},
                                           {"gamma", "0.9.9", "0.9.9"},
                                           {"gamma", "", "gamma"},
                                           {"learning_rate", "-1e-4", "-0.0001"},
                                           {"total_steps", "12x", "12x"},
                                           {"total_steps", "0", "0"},
                                           {"total_steps", "1e16", "1e+16"},
                                           {"total_steps", "0.5", "0.5"},
                                           {"seed", "-1", "-1"},
                                           {"seed", "18446744073709551616", "18446744073709551616"},
                                           {"seed", "", "seed"},
                                           {"seed", "1.0", "1.0"},
                                           {"seed", "0x", "0x"},
                                           {"objective", "klip", "klip"},
                                           {"objective", "", "objective"},
                                           {"objective", "clip|kl-penalty", "clip|kl-penalty"},
                                           {"objective", "99", "99"},
                                           {"objective", "cli", "cli"},
                                           {"activation", "sigmoid", "sigmoid"},
                                           {"shared_trunk", "maybe", "maybe"},
                                           {"shared_trunk", "2", "2"},
                                           {"shared_trunk", "-1", "-1"},
                                           {"hidden", "0", "0"},
                                           {"hidden", "64,,64", "64,,64"},
                                           {"hidden", "", "hidden"},
                                           {"hidden", "64,", "64,"},
                                           {"hidden", ",64", ",64"},
                                           {"hidden", "64,-1", "-1"},
                                           {"hidden", "64, 64", "64, 64"},
                                           {"hidden", "64,64x", "64,64x"},
                                           {"hidden", "6.5", "6.5"},
                                           {"hidden", "none,64", "none"},
                                           {"hidden", "1e999", "hidden"},
                                           {"no_such_thing", "1", "no_such_thing"},
                                           {"", "1", ""},
                                           {"gamma_", "0.5", "gamma_"},
                                           {"gam", "0.5", "gam"},
                                           {"hidden_layers", "2", "hidden_layers"},
                                           {"callback", "0", "callback"}};
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_config c = ppo_config_default(), before = c;
        if (ppo_config_set(&c, cases[i][0], cases[i][1]) == PPO_OK)
            fail_msg("%s = \"%s\" passed", cases[i][0], cases[i][1]);
        assert_fails(ppo_config_set(&c, cases[i][0], cases[i][1]), PPO_ERROR_ARGUMENT, cases[i][2]);
        assert_memory_equal(&c, &before, sizeof c);
    }
    char long_list[400] = "1", text[8];
    ppo_config c = ppo_config_default();
    for (int k = 1; k < 64; k++) strcat(long_list, ",1"); /* one layer too many */
    assert_fails(ppo_config_set(&c, "hidden", long_list), PPO_ERROR_ARGUMENT, "63");
    assert_fails(ppo_config_set(NULL, "gamma", "1"), PPO_ERROR_ARGUMENT, "ppo_settings_set:|NULL");
    assert_fails(ppo_config_set_all(NULL, "gamma=1"), PPO_ERROR_ARGUMENT, "ppo_settings_set_all:|NULL");
    assert_fails(ppo_config_set(&c, NULL, "1"), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_config_set(&c, "gamma", NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_config_get(&c, "gama", text, sizeof text), PPO_ERROR_ARGUMENT, "gama");
    assert_fails(ppo_config_get(NULL, "gamma", text, sizeof text), PPO_ERROR_ARGUMENT,
                 "ppo_settings_get:|NULL");
    assert_fails(ppo_config_get(&c, "gamma", NULL, sizeof text), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_config_get(&c, "gamma", text, 0), PPO_ERROR_ARGUMENT, "");
}

static void a_text_that_does_not_fit_is_an_error_not_another_number(void **state) {
    (void)state;
    ppo_config c = ppo_config_default();
    char text[8];
    for (size_t size = 1; size < sizeof text; size++) { /* "100000" needs 7 */
        memset(text, '#', sizeof text);
        ppo_status status = ppo_config_get(&c, "total_steps", text, size);
        assert_int_equal(text[size], '#'); /* nothing was written beyond */
        assert_int_equal(status, size < 7 ? PPO_ERROR_ARGUMENT : PPO_OK);
    }
    assert_int_equal(ppo_config_get(&c, "hidden", text, 4),
                     PPO_ERROR_ARGUMENT); /* "64," would read as a list */
    assert_ok(ppo_config_get(&c, "hidden", text, 6));
    assert_string_equal(text, "64,64");
    c.hidden_layers = PPO_MAX_LAYERS + 1; /* more than there are */
    char room[2048];
    assert_fails(ppo_config_get(&c, "hidden", room, sizeof room), PPO_ERROR_ARGUMENT, "hidden_layers is 65");
    c.hidden_layers = -1;
    assert_fails(ppo_config_get(&c, "hidden", room, sizeof room), PPO_ERROR_ARGUMENT, "hidden_layers is -1");
}

static void an_agent_is_refused_where_its_actions_would_not_fit(void **state) {
    (void)state;
    ppo_env env = reach_env(), narrow = reach_env();
    ppo_config cfg = tiny_config();
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    narrow.action_space.high *= 0.5f;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_fails(ppo_evaluate(agent, &narrow, 1, 1).status, PPO_ERROR_ARGUMENT, "box 2 -1 1)|box 2 -1 0.5)");
    assert_fails(ppo_trainer_create(&narrow, &cfg, agent, &trainer), PPO_ERROR_ARGUMENT,
                 "box 2 -1 1)|box 2 -1 0.5)");
    env.state_size = (size_t)-1;
    assert_fails(check_env(&env), PPO_ERROR_ARGUMENT, "state_size|too large");
    if (SIZE_MAX == UINT64_MAX) assert_non_null(strstr(ppo_last_error(), "18446744073709551615"));
    ppo_agent_free(agent);
}

static void a_broken_policy_is_not_evaluated(void **state) {
    (void)state;
    ppo_env env = ticks_env(7);
    ppo_config cfg = tiny_config();
    ppo_agent *agent = NULL;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    for (size_t i = 0; i < agent->model.params->count; i++) agent->model.params->data[i] = NAN;
    assert_fails(ppo_evaluate(agent, &env, 3, 1).status, PPO_ERROR_NUMERIC,
                 "policy output[0] is NaN|environment 0");
    ppo_agent_free(agent);
}

static void an_episode_longer_than_the_watchdog_is_evaluated_if_max_steps_allows_it(void **state) {
    (void)state;
    ppo_env env = ticks_env(1000003);
    ppo_config cfg = tiny_config();
    ppo_agent *agent = NULL;
    cfg.hidden_layers = 0;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    ppo_evaluation e = ppo_evaluate(agent, &env, 1, 1);
    assert_ok(e.status);
    assert_true(e.mean_return == 1000003.0f && e.mean_length == 1000003.0f);
    ppo_agent_free(agent);
}

/* One minibatch of 1100 would be the largest yet in the last rollout; sizes are evened out instead. */
static void a_short_last_rollout_needs_no_more_memory(void **state) {
    (void)state;
    heap h = {0, 0, -1, 0};
    ppo_env env = walk_env();
    ppo_config cfg = tiny_config();
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    cfg.num_envs = 4, cfg.rollout_steps = 512, cfg.minibatch_size = 1100, cfg.total_steps = 2048 + 1100;
    cfg.hidden[0] = cfg.hidden[1] = 64, cfg.hidden_layers = 2;
    ppo_set_allocator(heap_hook, &h);
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
    assert_ok(ppo_trainer_iterate(trainer, NULL));
    long calls = h.calls;
    assert_ok(ppo_trainer_iterate(trainer, NULL));
    assert_true(ppo_trainer_done(trainer));
    assert_true(h.calls == calls);
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
}

/* -- environments that are not what they should be, or more -- */

typedef struct large {
    int x[20];
} large;

static void large_reset(void *state, ppo_rng *rng, float *obs) {
    (void)rng;
    memset(state, 1, sizeof(large));
    obs[0] = 0;
}

static void large_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    (void)rng, (void)action;
    obs[0] = (float)((large *)state)->x[0];
    out->terminated = 1;
}

static void a_state_that_outgrows_its_size_is_an_error(void **state) {
    (void)state;
    for (size_t size = 0; size <= sizeof(large); size += 4) {
        ppo_env env = {0};
        ppo_agent *agent = NULL;
        ppo_config cfg = tiny_config();
        env.obs_size = 1, env.action_space = ppo_discrete(2), env.state_size = size;
        env.reset = large_reset, env.step = large_step;
        if (size == sizeof(large)) {
            assert_ok(ppo_train(&env, &cfg, &agent));
            ppo_agent_free(agent);
        } else {
            assert_fails(ppo_train(&env, &cfg, &agent), PPO_ERROR_ARGUMENT,
                         "environment 0|beyond|state_size");
            assert_null(agent);
        }
    }
}

static void wide_reset(void *state, ppo_rng *rng, float *obs) {
    (void)state;
    for (int j = 0; j < 4; j++) obs[j] = ppo_rng_range(rng, -1, 1);
}

static void wide_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    (void)action;
    wide_reset(state, rng, obs);
    out->terminated = ppo_rng_below(rng, 5) == 0;
}

static void an_observation_that_outgrows_its_size_is_an_error(void **state) {
    (void)state;
    for (int size = 1; size <= 4; size++) {
        ppo_env env = {0};
        ppo_agent *agent = NULL;
        ppo_config cfg = tiny_config();
        env.obs_size = size, env.action_space = ppo_discrete(2);
        env.reset = wide_reset, env.step = wide_step;
        cfg.num_envs = 4;
        if (size == 4) {
            assert_ok(ppo_train(&env, &cfg, &agent));
            ppo_agent_free(agent);
        } else {
            assert_fails(ppo_train(&env, &cfg, &agent), PPO_ERROR_ARGUMENT, "environment 0|beyond|obs_size");
            assert_null(agent);
        }
    }
}

static int overrunning_copy; /* -1: none */

static int numbered_open(void *state, void *user, int copy) {
    (void)user;
    memcpy(state, &copy, sizeof copy);
    return 0;
}

static void numbered_reset(void *state, ppo_rng *rng, float *obs) {
    (void)state;
    obs[0] = ppo_rng_range(rng, -1, 1);
}

static void numbered_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    (void)action;
    int overruns = memcmp(state, &overrunning_copy, sizeof(int)) == 0;
    for (int j = 0; j <= overruns; j++) obs[j] = ppo_rng_range(rng, -1, 1);
    out->terminated = ppo_rng_below(rng, 5) == 0;
}

static void every_copy_that_writes_beyond_its_observation_is_named(void **state) {
    (void)state;
    ppo_env env = {0};
    env.obs_size = 1, env.action_space = ppo_discrete(2), env.state_size = sizeof(int);
    env.open = numbered_open, env.reset = numbered_reset, env.step = numbered_step;
    for (int copy = 0; copy < 4; copy++) {
        ppo_agent *agent = NULL;
        ppo_trainer *trainer = NULL;
        ppo_config cfg = tiny_config();
        char words[60];
        cfg.num_envs = 4, cfg.threads = 1 + copy % 2;
        snprintf(words, sizeof words, "environment %d wrote beyond its observation|obs_size", copy);
        overrunning_copy = copy;
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
        for (int i = 0; i < 2; i++)
            assert_fails(ppo_trainer_iterate(trainer, NULL), PPO_ERROR_ARGUMENT, words);
        assert_fails(ppo_evaluate(agent, &env, 8, 1).status, PPO_ERROR_ARGUMENT, words);
        overrunning_copy = -1;
        assert_ok(ppo_trainer_iterate(trainer, NULL));
        ppo_trainer_free(trainer);
        ppo_agent_free(agent);
    }
}

/* The opponent in a game against oneself is the agent that is being evaluated. */
static ppo_agent *opponent;

static void rival_reset(void *state, ppo_rng *rng, float *obs) {
    (void)state;
    obs[0] = ppo_rng_range(rng, -1, 1);
}

static void rival_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    float view[1] = {ppo_rng_range(rng, -1, 1)};
    ppo_action move;
    (void)state;
    if (opponent) assert_ok(ppo_act(opponent, view, NULL, &move));
    out->reward = action->box[0];
    obs[0] = ppo_rng_range(rng, -1, 1);
}

static void an_environment_may_ask_the_agent_that_is_evaluated(void **state) {
    (void)state;
    static const char *const networks[] = {"hidden=none", "hidden=7", "recurrent=3"};
    for (int i = 0; i < COUNT(networks); i++) {
        ppo_env env = {0};
        ppo_config cfg = tiny_config();
        ppo_agent *agent = NULL;
        env.obs_size = 1, env.action_space = ppo_box(1, -9, 9), env.max_steps = 4;
        env.reset = rival_reset, env.step = rival_step;
        assert_ok(ppo_config_set_all(&cfg, networks[i]));
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        opponent = NULL;
        ppo_evaluation alone = ppo_evaluate(agent, &env, 64, 1);
        opponent = agent;
        ppo_evaluation rivals = ppo_evaluate(agent, &env, 64, 1);
        opponent = NULL;
        assert_memory_equal(&alone, &rivals, sizeof alone);
        ppo_agent_free(agent);
    }
}

static int open_and_tell(void *state, void *user, int copy) {
    (void)state, (void)user, (void)copy;
    ppo_fail(PPO_ERROR_FILE, "a word in passing");
    return 0;
}

static void a_success_leaves_the_last_sentence_as_it_was(void **state) {
    (void)state;
    ppo_env env = walk_env();
    ppo_config cfg = tiny_config();
    for (int i = 0; i < 2; i++) {
        ppo_agent *agent = NULL;
        env.open = i ? open_and_tell : NULL;
        ppo_fail(PPO_ERROR_ARGUMENT, "the sentence before");
        assert_ok(ppo_train(&env, &cfg, &agent));
        assert_int_equal(ppo_evaluate(agent, &env, 3, 1).status, PPO_OK);
        assert_string_equal(ppo_last_error(), "the sentence before");
        ppo_agent_free(agent);
    }
}

static void an_environment_whose_name_or_choices_no_file_could_hold_is_refused(void **state) {
    (void)state;
    ppo_env env = walk_env();
    env.name = "\xff";
    assert_fails(check_env(&env), PPO_ERROR_ARGUMENT, "name|UTF-8");
    env.name = "caf\xc3\xa9";
    assert_ok(check_env(&env));
    env.action_space = ppo_multi_discrete(NULL, 2);
    assert_fails(check_env(&env), PPO_ERROR_ARGUMENT, "choice 0 has 0 options");
}

/* Counts its steps; a step pays what it is worth. */
static void counter_reset(void *state, ppo_rng *rng, float *obs) {
    (void)rng;
    obs[0] = (float)(*(int *)state = 0);
}

static void counter_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    (void)rng;
    const int t = ++*(int *)state;
    obs[0] = (float)t;
    out->reward = (float)(t + 10 * action->discrete);
    out->terminated = t == 5;
}

typedef struct watched {
    int frames, last, stop; /* last: step of the episode's end; stop: after this number of frames */
    int truncates;
    float total;
} watched;

static int watch_counter(const ppo_frame *frame, void *user) {
    watched *w = (watched *)user;
    const int t = w->frames++, end = t == w->last;
    const float reward = t ? (float)(t + 10 * frame->action->discrete) : 0;
    w->total += reward;
    assert_int_equal(frame->step, t);
    assert_int_equal(*(const int *)frame->state, t);
    assert_true(frame->obs[0] == (float)t && (frame->action != NULL) == (t > 0));
    assert_true(frame->reward == reward && frame->total == w->total);
    assert_true((frame->terminated != 0) == (end && !w->truncates));
    assert_true((frame->truncated != 0) == (end && w->truncates));
    return w->frames == w->stop;
}

static void a_watcher_sees_each_step_until_it_has_seen_enough(void **state) {
    (void)state;
    ppo_env env = {.name = "counter",
                   .obs_size = 1,
                   .action_space = ppo_discrete(2),
                   .state_size = sizeof(int),
                   .reset = counter_reset,
                   .step = counter_step};
    const ppo_config cfg = ppo_config_default();
    for (int k = 0; k < 3; k++) { /* its end; a limit of three steps; nothing after two frames */
        ppo_agent *agent = NULL;
        watched w = {0, k == 1 ? 3 : 5, k == 2 ? 2 : 0, k == 1, 0};
        float total;
        env.max_steps = k == 1 ? 3 : 0;
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        assert_ok(ppo_play(agent, &env, 1, 1, watch_counter, &w, &total));
        assert_int_equal(w.frames, k == 2 ? 2 : w.last + 1);
        if (k < 2) assert_true(total == w.total);
        ppo_agent_free(agent);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_watcher_sees_each_step_until_it_has_seen_enough),
        cmocka_unit_test(results_have_the_same_bits_for_any_number_of_threads),
        cmocka_unit_test(the_same_seed_gives_the_same_bits_and_another_one_others),
        cmocka_unit_test(iterating_by_hand_is_what_ppo_train_does),
#ifndef PPO_TEST_TSAN /* these have one thread */
        cmocka_unit_test(ratio_is_exactly_one_on_first_minibatch),
#endif
        cmocka_unit_test_teardown(nothing_is_allocated_after_the_first_iteration, restore_allocator),
        cmocka_unit_test(total_steps_are_done_exactly_or_to_the_next_round_of_environments),
        cmocka_unit_test(callback_comes_after_each_iteration_and_can_end_the_training),
        cmocka_unit_test(tiny_target_kl_ends_the_epochs_early),
        cmocka_unit_test(schedules_follow_the_steps_done),
        cmocka_unit_test(progress_figures_mean_what_their_names_say),
        cmocka_unit_test(normalized_rewards_do_not_touch_the_returns_that_are_reported),
        cmocka_unit_test(mean_return_is_that_of_the_last_100_episodes),
        cmocka_unit_test(every_sample_is_used_once_per_epoch),
        cmocka_unit_test(figures_of_a_large_minibatch_are_means_over_all_its_samples),
        cmocka_unit_test(a_loss_that_nothing_can_lower_is_refused),
        cmocka_unit_test(a_last_rollout_of_one_sample_is_a_minibatch),
#ifndef PPO_TEST_TSAN /* these have one thread */
        cmocka_unit_test(an_iteration_is_the_algorithm_written_out_with_the_building_blocks),
        cmocka_unit_test(cartpole_is_learned_within_30000_steps),
        cmocka_unit_test(reaching_with_continuous_actions_is_learned),
#endif
        cmocka_unit_test(a_trained_agent_is_trained_further),
        cmocka_unit_test(actions_lie_within_their_space),
        cmocka_unit_test(without_rng_the_most_likely_action_is_taken),
        cmocka_unit_test(act_refuses_bad_input),
        cmocka_unit_test(a_gradient_that_overflows_ends_the_training),
        cmocka_unit_test(evaluation_repeats_for_a_seed_and_changes_nothing),
        cmocka_unit_test(evaluation_summarizes_all_episodes),
#ifndef PPO_TEST_TSAN /* a million steps in one thread */
        cmocka_unit_test(an_evaluation_that_cannot_be_done_says_why),
        cmocka_unit_test(an_episode_longer_than_the_watchdog_is_evaluated_if_max_steps_allows_it),
#endif
        cmocka_unit_test(defaults_are_the_documented_ones_and_pass),
        cmocka_unit_test(every_setting_has_a_field_with_a_help_text),
        cmocka_unit_test(a_choice_has_as_many_words_as_values),
        cmocka_unit_test(every_row_of_a_table_has_its_default),
        cmocka_unit_test(the_comment_of_a_setting_names_its_default),
        cmocka_unit_test(the_ends_of_every_range_are_allowed_and_what_lies_beyond_is_refused_by_name),
        cmocka_unit_test(settings_that_do_not_go_together_are_refused),
        cmocka_unit_test(settings_without_effect_are_refused),
        cmocka_unit_test_teardown(a_reward_that_is_too_large_is_told_as_such, ticks_plan_clear),
        cmocka_unit_test(an_agent_is_of_the_environment_that_it_was_trained_on_last),
        cmocka_unit_test(what_cannot_be_created_is_null),
        cmocka_unit_test(null_pointers_are_refused),
#ifndef PPO_TEST_TSAN /* these have one thread */
        cmocka_unit_test(every_setting_survives_being_written_and_read_as_text),
#endif
        cmocka_unit_test(settings_are_read_from_words_and_numbers),
        cmocka_unit_test(every_choice_has_a_word_for_each_value),
        cmocka_unit_test(a_preset_leaves_no_setting_without_effect),
        cmocka_unit_test(nonsense_is_refused_and_changes_nothing),
        cmocka_unit_test(a_text_that_does_not_fit_is_an_error_not_another_number),
        cmocka_unit_test(an_agent_is_refused_where_its_actions_would_not_fit),
        cmocka_unit_test(a_broken_policy_is_not_evaluated),
        cmocka_unit_test_teardown(a_short_last_rollout_needs_no_more_memory, restore_allocator),
        cmocka_unit_test(a_state_that_outgrows_its_size_is_an_error),
        cmocka_unit_test(an_observation_that_outgrows_its_size_is_an_error),
        cmocka_unit_test(every_copy_that_writes_beyond_its_observation_is_named),
        cmocka_unit_test(an_environment_may_ask_the_agent_that_is_evaluated),
        cmocka_unit_test(a_success_leaves_the_last_sentence_as_it_was),
        cmocka_unit_test(an_environment_whose_name_or_choices_no_file_could_hold_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
