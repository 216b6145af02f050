/* What the companions for checks, judgement, plots and other methods refuse, and what they say of odd input; and what ppo.h
   prints on a terminal. */
#define _XOPEN_SOURCE 700
#include <fcntl.h>
#include <unistd.h>

#include "../ppo.h"
#include "../examples/companions/ppo_check.h"
#include "../examples/companions/ppo_explain.h"
#include "../examples/companions/ppo_export.h"
#include "../examples/companions/ppo_hub.h"
#include "../examples/companions/ppo_judge.h"
#include "../examples/companions/ppo_methods.h"
#include "../examples/companions/ppo_player.h"
#include "../examples/companions/ppo_report.h"

#include "test.h"
#include "system.h"

#define WRONG(call, words) assert_fails(call, PPO_ERROR_ARGUMENT, words)

/* -- ppo_check.h -- */

typedef struct scalar {
    int fault; /* 1: a result of several numbers; 2: none; 3: an operation fails; 4, 5: only after so many calls */
    int calls;
} scalar;

static ppo_tensor *faulty(ppo_tape *tape, ppo_tensor *const *x, void *user) {
    scalar *s = (scalar *)user;
    const int late = s->fault >= 4 && ++s->calls == s->fault - 2;
    if (late) return ppo_tape_constant(tape, NULL, 1, 1);
    if (s->fault == 1 && ++s->calls > 1) return ppo_tape_square(tape, x[0]);
    if (s->fault == 2 && ++s->calls > 1) return NULL;
    if (s->fault == 3) return ppo_tape_add(tape, x[0], ppo_tape_constant(tape, NULL, 1, 1));
    return ppo_tape_sum(tape, ppo_tape_square(tape, x[0]));
}

static void a_function_whose_gradient_cannot_be_checked_is_told(void **state) {
    (void)state;
    static const char *const words[] = {NULL,
                                        "the function's result is not (1, 1)",
                                        "the function's result is not (1, 1)",
                                        "data is NULL",
                                        "data is NULL",
                                        "data is NULL"};
    float data[2] = {1, 2}, grad[2], error;
    ppo_tensor x = {1, 2, data, grad}, no_data = {1, 2, NULL, grad}, no_grad = {1, 2, data, NULL};
    ppo_tensor *inputs[] = {&x}, *missing[] = {NULL}, *without[] = {&no_data}, *fixed[] = {&no_grad};
    for (int fault = 0; fault < COUNT(words); fault++) {
        scalar s = {fault, 0};
        if (!words[fault]) assert_ok(ppo_check_gradients(faulty, inputs, 1, &s, 1e-2f, 1e-2f, &error));
        else WRONG(ppo_check_gradients(faulty, inputs, 1, &s, 1e-2f, 1e-2f, &error), words[fault]);
        assert_true(data[0] == 1 && data[1] == 2); /* as they were */
    }
    scalar s = {0, 0};
    WRONG(ppo_check_gradients(NULL, inputs, 1, &s, 1e-2f, 1e-2f, &error),
          "needs a function, inputs and epsilon > 0");
    WRONG(ppo_check_gradients(faulty, NULL, 1, &s, 1e-2f, 1e-2f, &error), "needs a function");
    WRONG(ppo_check_gradients(faulty, inputs, 0, &s, 1e-2f, 1e-2f, &error), "needs a function");
    WRONG(ppo_check_gradients(faulty, inputs, 1, &s, 0, 1e-2f, NULL), "epsilon > 0");
    WRONG(ppo_check_gradients(faulty, missing, 1, &s, 1e-2f, 1e-2f, &error), "input 0 lacks data or grad");
    WRONG(ppo_check_gradients(faulty, without, 1, &s, 1e-2f, 1e-2f, &error), "input 0 lacks data or grad");
    WRONG(ppo_check_gradients(faulty, fixed, 1, &s, 1e-2f, 1e-2f, &error), "input 0 lacks data or grad");
    assert_nan(error);
}

static int broken_mask;
static void mask_nothing_later(const void *state, unsigned char *mask) {
    (void)state;
    if (--broken_mask <= 0) memset(mask, 0, 3);
}

static void endless_reset(void *state, ppo_rng *rng, float *obs, ppo_outcome *out) {
    (void)state, (void)out;
    obs[0] = ppo_rng_uniform(rng), obs[1] = ppo_rng_uniform(rng);
}

/* Both agents leave and join at once, so that the world never ends. */
static void endless_step(void *state, ppo_rng *rng, const ppo_action *actions, float *obs, ppo_outcome *out) {
    (void)state, (void)actions;
    for (int e = 0; e < 2; e++) {
        obs[e] = ppo_rng_uniform(rng);
        out[e].reward = obs[e];
        out[e].terminated = out[e].joins = ppo_rng_below(rng, 5) == 0;
    }
}

static int has_finding(const ppo_inspection *report, const char *symptom) {
    for (int i = 0; i < report->findings; i++)
        if (!strcmp(report->symptom[i], symptom)) return 1;
    return 0;
}

static void what_is_wrong_with_a_world_is_found(void **state) {
    (void)state;
    ppo_env env = walk_env();
    ppo_inspection report;
    WRONG(ppo_env_check(&env, 0, 1, &report), "steps is 0, must be above 0");
    WRONG(ppo_env_check(NULL, 10, 1, &report), "the environment is NULL");
    WRONG(ppo_env_check(&env, 10, 1, NULL), "report is NULL");
    for (int when = 1; when < 40; when += 19) {
        env.action_mask = mask_nothing_later, broken_mask = when;
        assert_ok(ppo_env_check(&env, 60, 1, &report));
        assert_true(has_finding(&report, "failed"));
        assert_non_null(strstr(report.finding[report.findings - 1], "env.action_mask leaves no action"));
    }
    env = reach_env();
    env.reset = NULL, env.step = NULL, env.max_steps = 0, env.state_size = 0;
    env.reset_all = endless_reset, env.step_all = endless_step, env.agents = 2;
    assert_ok(ppo_env_check(&env, 500, 1, &report));
    assert_true(has_finding(&report, "world-endless"));
    /* a box that a policy cannot reach is played all over */
    env = reach_env();
    env.action_space = ppo_box(2, 5, 6);
    assert_ok(ppo_env_check(&env, 100, 1, &report));
    assert_false(has_finding(&report, "failed"));
}

static float first_seen; /* where the latest first reset placed it */
static int placed;
static void seen_reset(void *state, ppo_rng *rng, float *obs) {
    reach_reset(state, rng, obs);
    if (!placed++) first_seen = obs[0];
}

static void a_check_begins_where_an_evaluation_does(void **state) {
    (void)state;
    ppo_env env = reach_env();
    const ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    ppo_inspection report;
    env.reset = seen_reset;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    for (uint64_t seed = 1; seed < 4; seed++) {
        placed = 0;
        assert_ok(ppo_evaluate(agent, &env, 1, seed).status);
        const float evaluated = first_seen;
        placed = 0;
        assert_ok(ppo_env_check(&env, 20, seed, &report));
        assert_true(first_seen == evaluated);
    }
    ppo_agent_free(agent);
}

static void greedy_play_is_compared_with_sampled_play(void **state) {
    (void)state;
    const ppo_config cfg = ppo_config_default();
    ppo_evaluation greedy = {PPO_OK, 100, 1, 1, 0, 2, 10}, sampled = {PPO_OK, 100, 9, 1, 0, 12, 10},
                   failed = {PPO_ERROR_FILE, 0, 0, 0, 0, 0, 0};
    char text[160];
    assert_int_equal(ppo_evaluation_check(&cfg, &greedy, &sampled, text), 1);
    assert_non_null(strstr(text, "greedy play earns 1, sampled play 9: try ppo_act() with rng"));
    assert_int_equal(ppo_evaluation_check(&cfg, &sampled, &greedy, text), 0);
    assert_string_equal(text, "");
    greedy.mean_return = 8.9f,
    greedy.std_return = sampled.std_return = 0.001f; /* certain, but not by a tenth */
    assert_int_equal(ppo_evaluation_check(&cfg, &greedy, &sampled, text), 0);
    assert_int_equal(ppo_evaluation_check(NULL, &greedy, &sampled, text), 0);
    assert_int_equal(ppo_evaluation_check(&cfg, NULL, &sampled, text), 0);
    assert_int_equal(ppo_evaluation_check(&cfg, &greedy, NULL, text), 0);
    assert_int_equal(ppo_evaluation_check(&cfg, &greedy, &sampled, NULL), 0);
    assert_int_equal(ppo_evaluation_check(&cfg, &failed, &sampled, text), 0);
    assert_int_equal(ppo_evaluation_check(&cfg, &greedy, &failed, text), 0);
}

/* -- ppo_report.h, and the reports of ppo.h -- */

static void curves_that_cannot_be_drawn_are_refused(void **state) {
    (void)state;
    static const float x[3] = {0, 1, 2}, y[3] = {0, NAN, 2};
    const char *path = scratch_path("svg");
    const ppo_curve good = {"a", x, y, 3}, negative = {"a", x, y, -1}, no_x = {"a", NULL, y, 3},
                    no_y = {"a", x, NULL, 3}, bad_name = {"\377", x, y, 3}, nothing = {NULL, NULL, NULL, 0};
    WRONG(ppo_plot_svg(NULL, NULL, NULL, NULL, &good, 1), "path is NULL");
    WRONG(ppo_plot_svg(path, NULL, NULL, NULL, NULL, 1), "curves is NULL");
    WRONG(ppo_plot_svg(path, NULL, NULL, NULL, &good, 0), "0 curves, nothing to draw");
    WRONG(ppo_plot_svg(path, "\377", NULL, NULL, &good, 1), "not UTF-8");
    WRONG(ppo_plot_svg(path, NULL, "\377", NULL, &good, 1), "not UTF-8");
    WRONG(ppo_plot_svg(path, NULL, NULL, "\377", &good, 1), "not UTF-8");
    WRONG(ppo_plot_svg(path, NULL, NULL, NULL, &negative, 1), "curve 0 has -1 points, or NULL arrays");
    WRONG(ppo_plot_svg(path, NULL, NULL, NULL, &no_x, 1), "curve 0 has 3 points, or NULL arrays");
    WRONG(ppo_plot_svg(path, NULL, NULL, NULL, &no_y, 1), "curve 0 has 3 points, or NULL arrays");
    WRONG(ppo_plot_svg(path, NULL, NULL, NULL, &bad_name, 1), "the name of curve 0 is not UTF-8");
    assert_ok(ppo_plot_svg(path, "title", "x", "y", &nothing, 1));
    assert_ok(ppo_plot_svg(path, NULL, NULL, NULL, &good, 1));
    remove(path);
}

#ifndef _WIN32
/* What is printed to a terminal; the caller frees it. */
static char *printed_on_a_terminal(int to, const ppo_progress *p, int count) {
    const int ours = posix_openpt(O_RDWR | O_NOCTTY);
    char *text = (char *)calloc(1, 4096);
    if (ours < 0 || grantpt(ours) || unlockpt(ours)) skip();
    const int theirs = open(ptsname(ours), O_RDWR | O_NOCTTY);
    assert_true(theirs >= 0 && text != NULL);
    fflush(NULL);
    const int child = fork();
    if (!child) {
        dup2(theirs, to);
        for (int i = 0; i < count; i++) ppo_print_progress(&p[i], to == 1 ? (void *)stdout : NULL);
        fflush(NULL);
        _exit(0);
    }
    int how;
    waitpid(child, &how, 0);
    close(theirs);
    for (ssize_t n, used = 0; (n = read(ours, text + used, (size_t)(4095 - used))) > 0;) used += n;
    close(ours);
    return text;
}

static void a_terminal_shows_one_line_that_changes(void **state) {
    (void)state;
    ppo_progress p[3];
    memset(p, 0, sizeof p);
    for (int i = 0; i < 3; i++) {
        p[i].iteration = i + 1;
        p[i].steps = 100 * (i + 1), p[i].total_steps = 300, p[i].mean_return = NAN;
    }
    snprintf(p[2].warning, sizeof p[2].warning, "the loss is odd");
    for (int k = 0; k < 4; k++) {
        const int to = 1 + k / 2, warned = k % 2;
        p[2].warned = warned ? 3 : 0;
        char *text = printed_on_a_terminal(to, p, 3);
        const char *const first_end = strchr(text, '\n'), *const last_end = strrchr(text, '\n');
        assert_non_null(strchr(text, '\r'));
        assert_non_null(strstr(text, "100/300 steps"));
        assert_non_null(strstr(text, "300/300 steps"));
        assert_true(!!strstr(text, "warning: the loss is odd") == warned);
        assert_true(first_end > strstr(text, "300/300 steps") && last_end[1] == 0);
        assert_true((first_end != last_end) == warned);
        free(text);
    }
    assert_int_equal(ppo_print_progress(NULL, stdout), 0);
}
#else
static void a_terminal_shows_one_line_that_changes(void **state) {
    (void)state;
    skip();
}
#endif

static void a_curve_of_characters_is_drawn_in_any_size(void **state) {
    (void)state;
    static const float x[4] = {0, 1, NAN, 3}, y[4] = {1, INFINITY, 2, 3},
                       huge_y[4] = {-3e38f, 3e38f, 0, 3e38f};
    static const int sizes[][2] = {{0, 0}, {14, 3}, {80, 12}, {1000, 1000}};
    FILE *file = tmpfile();
    assert_non_null(file);
    for (int i = 0; i < COUNT(sizes); i++) {
        ppo_print_curve(file, i ? "title" : NULL, x, y, 4, sizes[i][0], sizes[i][1]);
        ppo_print_curve(file, NULL, x, huge_y, 4, sizes[i][0], sizes[i][1]);
    }
    const long length = ftell(file);
    assert_true(length > 1000);
    ppo_print_curve(file, "empty", x, y, 0, 80, 12);
    ppo_print_curve(NULL, NULL, x, y, 4, 80, 12);
    ppo_print_curve(file, NULL, NULL, y, 4, 80, 12);
    ppo_print_curve(file, NULL, x, NULL, 4, 80, 12);
    assert_int_equal(ftell(file), length + (long)strlen("empty\n(nothing to draw)\n"));
    fclose(file);
}

/* -- ppo_judge.h, ppo_methods.h, ppo_player.h -- */

static void weights_of_sequences_that_are_none_are_refused(void **state) {
    (void)state;
    static const float logp[2] = {-1, -2}, ref[2] = {-1, -1}, bad[] = {NAN, INFINITY, -INFINITY, 0};
    float loss = 7, grad[2];
    for (int i = 0; i < COUNT(bad); i++) {
        const float weight[2] = {1, bad[i]};
        WRONG(ppo_kto_loss(logp, ref, weight, 2, 0, 1, &loss, grad), "the weight of sequence 1 is");
        assert_true(loss == 7);
    }
}

static float reward_is;
static ppo_status worse_each_time(const ppo_samples *samples, float *reward, void *user) {
    const int call = (*(int *)user)++;
    for (int s = 0; s < samples->tokens.count; s++) reward[s] = call ? NAN : 1;
    return PPO_OK;
}

static ppo_status same_reward(const ppo_samples *samples, float *reward, void *user) {
    (void)user;
    for (int s = 0; s < samples->tokens.count; s++) reward[s] = reward_is;
    return PPO_OK;
}

typedef struct answer {
    int token, count;
    ppo_status status;
} answer;

static ppo_status speak(const int *text, int n, int *to, int room, int *count, void *user) {
    const answer *a = (const answer *)user;
    (void)text, (void)n, (void)room;
    *count = a->count;
    if (a->count == 1) *to = a->token;
    return a->status ? ppo_fail(a->status, "the tool is broken") : PPO_OK;
}

static void judges_and_tools_must_answer_sense(void **state) {
    (void)state;
    ppo_lm *lm = random_lm(lm_config(9, 8, 8, 1, 2), 0.3f),
           *other = random_lm(lm_config(8, 8, 8, 1, 2), 0.3f),
           *short_one = random_lm(lm_config(9, 6, 8, 1, 2), 0.3f);
    ppo_generator *generator = NULL;
    ppo_tokens prompts = {0}, a = {0}, b = {0}, none = {0};
    ppo_sampling how = ppo_sampling_default(), bad = how;
    ppo_lm_evaluation figures;
    ppo_samples samples;
    ppo_rng rng = test_rng(1);
    const int token[] = {1, 2};
    int stop[] = {9};
    bad.temperature = -1, how.max_new_tokens = 3;
    assert_ok(ppo_tokens_add(&prompts, token, 2, 2));
    assert_ok(ppo_generator_create(lm, 2, &generator));
    WRONG(ppo_best_of_n(generator, &prompts, 0, &how, same_reward, NULL, &a, NULL),
          "n is 0, must be 1 or more");
    WRONG(ppo_best_of_n(generator, &prompts, 2, &how, same_reward, NULL, &prompts, NULL),
          "best is the prompts themselves");
    WRONG(ppo_best_of_n(generator, &none, 2, &how, same_reward, NULL, &a, NULL), "there are 0 sequences");
    WRONG(ppo_best_of_n(generator, &prompts, 2, &bad, same_reward, NULL, &a, NULL), "temperature is -1");
    WRONG(ppo_compare(generator, &none, &how, same_reward, NULL, NULL, &a, &b), "there are 0 sequences");
    WRONG(ppo_compare(generator, &prompts, &bad, same_reward, NULL, NULL, &a, &b), "temperature is -1");
    WRONG(ppo_lm_evaluate(lm, other, &prompts, &how, same_reward, NULL, &figures),
          "vocabulary of 9 tokens, the reference one of 8");
    WRONG(ppo_lm_evaluate(lm, short_one, &prompts, &how, same_reward, NULL, &figures),
          "context of 8 tokens, the reference one of 6");
    WRONG(ppo_lm_evaluate(lm, NULL, &none, &how, same_reward, NULL, &figures), "there are 0 sequences");
    reward_is = INFINITY;
    assert_fails(ppo_compare(generator, &prompts, &how, same_reward, NULL, NULL, &a, &b), PPO_ERROR_NUMERIC,
                 "the rewards of prompt 0 are inf and inf");
    assert_fails(ppo_compare(generator, &prompts, &how, same_reward, NULL, &rng, &a, &b), PPO_ERROR_NUMERIC,
                 "the rewards of prompt 0");
    assert_fails(ppo_best_of_n(generator, &prompts, 2, &how, same_reward, NULL, &a, NULL), PPO_ERROR_NUMERIC,
                 "the reward of sample 0 of prompt 0 is inf");
    assert_fails(ppo_lm_evaluate(lm, lm, &prompts, &how, same_reward, NULL, &figures), PPO_ERROR_NUMERIC,
                 "inf");
    int calls = 0; /* the samples of the reference are judged after the model's */
    assert_fails(ppo_lm_evaluate(lm, lm, &prompts, &how, worse_each_time, &calls, &figures),
                 PPO_ERROR_NUMERIC, "the reward of sample 0 is 1, the reference's nan");
    assert_true(a.count == 0 && b.count == 0);
    reward_is = 1;
    assert_ok(ppo_compare(generator, &prompts, &how, same_reward, NULL, NULL, &a, &b)); /* no preference */
    assert_true(a.count == 0 && b.count == 0);
    /* tools */
    static const struct {
        answer says;
        ppo_status status;
        const char *words;
    } cases[] = {{{4, 1, PPO_OK}, PPO_OK, ""},
                 {{9, 1, PPO_OK}, PPO_ERROR_ARGUMENT, "the tool answers token 9, outside 0 .. 8"},
                 {{-1, 1, PPO_OK}, PPO_ERROR_ARGUMENT, "the tool answers token -1, outside 0 .. 8"},
                 {{0, -1, PPO_OK}, PPO_ERROR_ARGUMENT, "the tool answers -1 tokens, has room for"},
                 {{0, 99, PPO_OK}, PPO_ERROR_ARGUMENT, "the tool answers 99 tokens, has room for"},
                 {{0, 0, PPO_ERROR_FILE}, PPO_ERROR_FILE, "the tool is broken"}};
    for (int i = 0; i < COUNT(cases); i++) {
        answer says = cases[i].says;
        ppo_status status = PPO_OK;
        how.tool = speak, how.tool_user = &says, how.max_new_tokens = 0;
        for (int t = 0; t < 9 && !status; t++) { /* whatever is sampled first */
            how.tool_token = t;
            status = ppo_generate(generator, &prompts, &how, &samples);
        }
        assert_int_equal(status, cases[i].status);
        if (status) assert_non_null(strstr(ppo_last_error(), cases[i].words));
    }
    how.tool_token = 9;
    WRONG(ppo_generate(generator, &prompts, &how, &samples), "tool_token is 9");
    how.tool = NULL, how.tool_token = 3;
    WRONG(ppo_generate(generator, &prompts, &how, &samples), "tool");
    how.tool_token = -1, how.stop_tokens = stop, how.stop_token_count = 1;
    WRONG(ppo_generate(generator, &prompts, &how, &samples), "stop_tokens[0] is 9, outside 0 .. 8");
    stop[0] = -1;
    WRONG(ppo_generate(generator, &prompts, &how, &samples), "stop_tokens[0] is -1, outside 0 .. 8");
    how.stop_tokens = NULL;
    WRONG(ppo_generate(generator, &prompts, &how, &samples),
          "stop_token_count is 1, but stop_tokens is NULL");
    how.stop_token_count = -1;
    WRONG(ppo_generate(generator, &prompts, &how, &samples), "stop_token_count is -1");
    how.stop_token_count = 0, how.eos = 9;
    WRONG(ppo_generate(generator, &prompts, &how, &samples), "eos is 9, outside 0 .. 8");
    ppo_tokens_free(&prompts), ppo_tokens_free(&a), ppo_tokens_free(&b);
    ppo_generator_free(generator);
    ppo_lm_free(lm), ppo_lm_free(other), ppo_lm_free(short_one);
}

static void a_text_is_appended_to_what_there_is(void **state) {
    (void)state;
    ppo_tokenizer *tok = NULL, *few = NULL;
    int token[] = {1, 2}, start[] = {0, 2};
    ppo_tokens mine = {1, start, NULL, token, NULL, NULL}, own = {0};
    assert_ok(ppo_tokenizer_bytes(NULL, 0, &tok));
    assert_ok(ppo_tokenizer_characters("ab", 2, NULL, 0, &few));
    WRONG(ppo_tokens_append_text(&mine, tok, "a", 0),
          "the arrays are not the library's, or hold no sequence");
    WRONG(ppo_tokens_append_text(&own, tok, "a", 0), "the arrays are not the library's, or hold no sequence");
    WRONG(ppo_tokens_append_text(NULL, tok, "a", 0), "tokens is NULL");
    assert_ok(ppo_tokens_add(&own, token, 2, 1));
    assert_ok(ppo_tokens_append_text(&own, tok, "", 1)); /* nothing */
    WRONG(ppo_tokens_append_text(&own, few, "abc", 0), "the vocabulary lacks U+0063");
    assert_true(own.count == 1 && own.start[1] == 2);
    assert_ok(ppo_tokens_append_text(&own, few, "ab", 1));
    assert_true(own.count == 1 && own.start[1] == 4 && own.given[2] && own.given[3] && !own.given[1]);
    ppo_tokens_free(&own);
    ppo_tokenizer_free(tok), ppo_tokenizer_free(few);
}

static void players_are_refused_what_trainers_are(void **state) {
    (void)state;
    ppo_env env = walk_env(), other = reach_env();
    ppo_config cfg = tiny_config();
    ppo_agent *agent = NULL;
    ppo_trainer *player = NULL;
    ppo_explanation why;
    float obs[2] = {0, 0}, wrong[2] = {0, INFINITY};
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_int_equal(ppo_player_result(NULL).episodes.status, PPO_ERROR_ARGUMENT);
    assert_ok(ppo_trainer_create(&env, &cfg, agent, &player));
    assert_int_equal(ppo_player_result(player).episodes.status, PPO_ERROR_ARGUMENT);
    assert_non_null(strstr(ppo_last_error(), "this is no player"));
    ppo_trainer_free(player), player = NULL;
    other.reset = NULL, other.step = NULL, other.max_steps = 0;
    WRONG(ppo_player_create(&other, agent, 1, 0, 1, &player), "agent");
    WRONG(ppo_player_create(&other, NULL, 1, 0, 1, &player), "agent is NULL");
    WRONG(ppo_player_create(NULL, agent, 1, 0, 1, &player), "NULL");
    env.reset = NULL, env.step = NULL, env.max_steps = 0;
    WRONG(ppo_player_create(&env, agent, 0, 0, 1, &player), "0");
    assert_null(player);
    WRONG(ppo_act_explain(NULL, obs, NULL, &why), "agent is NULL");
    WRONG(ppo_act_explain(agent, NULL, NULL, &why), "obs is NULL");
    WRONG(ppo_act_explain(agent, obs, NULL, NULL), "explanation is NULL");
    assert_fails(ppo_act_explain(agent, wrong, NULL, &why), PPO_ERROR_NUMERIC, "observation[1] is infinite");
    ppo_agent_free(agent);
}

static void a_policy_with_a_number_that_is_none_is_not_exported(void **state) {
    (void)state;
    static const char *const names[] = {"",
                                        "9lives",
                                        "a b",
                                        "_a",
                                        "a_name_that_is_longer_than_60_characters_and_therefore_is_refused_",
                                        "double-u"};
    const char *path = scratch_path("h");
    for (int what = 0; what < 3; what++) {
        ppo_env env = reach_env();
        ppo_config cfg = tiny_config();
        ppo_agent *agent = NULL;
        cfg.normalize_obs = 1, cfg.recurrent = what == 2 ? 3 : 0, cfg.hidden[0] = 16;
        if (what == 1) env.action_space = ppo_box(2, -1, 1);
        assert_ok(ppo_train(&env, &cfg, &agent));
        for (int i = 0; i < COUNT(names) && !what; i++) {
            WRONG(ppo_export_c(agent, names[i], path), "name");
            WRONG(ppo_export_c_int8(agent, &env, names[i], path), "name");
        }
        for (int k = 0; k < agent->model.params->tensor_count; k++) {
            float *x = agent->model.params->tensors[k]->data, kept = *x;
            const char *name = agent->model.params->names[k];
            const int unused = strstr(name, "critic") != NULL, std = strstr(name, "log_std") != NULL;
            char words[80];
            snprintf(words, sizeof words, "%.*s is not finite", (int)(strrchr(name, '.') - name), name);
            for (char *dot = words; (dot = strchr(dot, '.')) != NULL;) *dot = '_';
            *x = NAN;
            if (!unused)
                assert_fails(ppo_export_c(agent, "policy", path), PPO_ERROR_NUMERIC, "is not finite");
            if (!unused)
                assert_fails(ppo_export_c_int8(agent, NULL, "policy", path), PPO_ERROR_NUMERIC,
                             std ? "std is not finite" : words);
            *x = kept;
        }
        agent->obs_norm.mean[0] = INFINITY;
        assert_fails(ppo_export_c(agent, "policy", path), PPO_ERROR_NUMERIC, "is not finite");
        ppo_agent_free(agent);
    }
    remove(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_function_whose_gradient_cannot_be_checked_is_told),
        cmocka_unit_test(what_is_wrong_with_a_world_is_found),
        cmocka_unit_test(a_check_begins_where_an_evaluation_does),
        cmocka_unit_test(greedy_play_is_compared_with_sampled_play),
        cmocka_unit_test(curves_that_cannot_be_drawn_are_refused),
        cmocka_unit_test(a_terminal_shows_one_line_that_changes),
        cmocka_unit_test(a_curve_of_characters_is_drawn_in_any_size),
        cmocka_unit_test(weights_of_sequences_that_are_none_are_refused),
        cmocka_unit_test(judges_and_tools_must_answer_sense),
        cmocka_unit_test(a_text_is_appended_to_what_there_is),
        cmocka_unit_test(players_are_refused_what_trainers_are),
        cmocka_unit_test(a_policy_with_a_number_that_is_none_is_not_exported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
