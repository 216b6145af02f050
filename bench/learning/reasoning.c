/* reasoning.c - two tasks of reasoning from nothing: a Llama of 0.16 million weights imitates a solver, then GRPO, and
   PPO with a critic, each improve it by a verifier. records.md has the figures.

       build/reasoning spell_backward|Countdown SEED [grpo|ppo|problems] [NAME=VALUE, a setting of ppo_rlhf_settings()]

   spell_backward is a task of reasoning-gym: "house>" is answered by "esuoh". Words have 3 to 10 letters, their
   lengths are as frequent as in reasoning-gym's list; the letters are random. The reward is 1 or 0. The imitation of
   4,000 words ends early, while many answers are still wrong.

   Countdown is the task of TinyZero: numbers, each used once, make a target. "04,16,20:11>" is answered by
   "20/04=05,16-05=11"; results are whole numbers from 1 to 99. A wrong attempt is followed by ";" and another; the
   last one is the answer. Reward: 1 if all of it is right, 0.1 if it is two equations with the right numbers, else 0.
   The solver writes up to two random expressions that miss before one that hits, and so does its imitator.

   Prints a line of JSON: shares of right answers to TEST problems that are in neither stage, by the most likely tokens
   and by sampled ones, and processor minutes. `problems` only makes the problems, and checks solver and verifier. */
#include "ppo.h"
#include "companions/ppo_hub.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TEST = 1000, LONGEST = 96, NUMBERS = 100 };

static void must(ppo_status status) {
    if (status) fprintf(stderr, "reasoning: %s\n", ppo_last_error()), exit(1);
}

typedef struct task {
    const char *name, *characters; /* those that are no digits */
    int traces, passes;            /* of the imitation */
    float enough;                  /* it ends when the mean loss of late is below this */
    int prompts;                   /* problems for the reinforcement */
    int new_tokens;                /* most of an answer */
    const char *settings;
    /* A random problem; a number that is the same for the same problem; its trace; the reward of an answer to it. */
    void (*draw)(ppo_rng *rng, char prompt[LONGEST]);
    uint64_t (*key)(const char *prompt);
    void (*solve)(ppo_rng *rng, const char *prompt, char trace[LONGEST]);
    float (*verify)(const char *prompt, const char *answer);
} task;

/* ---- spell_backward ---- */

enum { SHORTEST_WORD = 3, WORD_LENGTHS = 8 };

static void spell_draw(ppo_rng *rng, char prompt[LONGEST]) {
    /* words of each length in words3to10.txt of reasoning-gym 0.1.25 */
    static const float words[WORD_LENGTHS] = {1370, 5222, 10180, 17656, 23819, 29939, 32353, 30828};
    float all = 0, pick;
    int n = 0;
    for (int i = 0; i < WORD_LENGTHS; i++) all += words[i];
    pick = ppo_rng_uniform(rng) * all;
    while (n < WORD_LENGTHS - 1 && pick >= words[n]) pick -= words[n++];
    n += SHORTEST_WORD;
    for (int i = 0; i < n; i++) prompt[i] = (char)('a' + (int)ppo_rng_below(rng, 26));
    strcpy(prompt + n, ">");
}

static uint64_t spell_key(const char *prompt) {
    uint64_t key = 0;
    for (; *prompt != '>'; prompt++) key = 27 * key + (uint64_t)(*prompt - 'a' + 1);
    return key;
}

static void spell_solve(ppo_rng *rng, const char *prompt, char trace[LONGEST]) {
    const int n = (int)strlen(prompt) - 1;
    (void)rng;
    for (int i = 0; i < n; i++) trace[i] = prompt[n - 1 - i];
    trace[n] = 0;
}

static float spell_verify(const char *prompt, const char *answer) {
    const size_t n = strlen(prompt) - 1;
    size_t right = 0;
    while (right < n && answer[right] == prompt[n - 1 - right]) right++;
    return right == n && !answer[n] ? 1.0f : 0.0f;
}

/* ---- Countdown ---- */

enum {
    LEAST_TARGET = 10,
    MOST_TARGET = 99,
    MOST_NUMBER = 30,
    MOST_EXPRESSIONS = 192,
    MOST_MISSES = 2,
    ATTEMPT = 17
};

typedef struct expression {
    int a, b, r, c, d, target; /* a op b = r, c next d = target: of c and d, one is r */
    char op, next;
} expression;

/* 0: not a whole number from 1 to MOST_TARGET. */
static int apply(int a, char op, int b) {
    const int r = op == '+' ? a + b : op == '-' ? a - b : op == '*' ? a * b : !b || a % b ? 0 : a / b;
    return r < 0 || r > MOST_TARGET ? 0 : r;
}

/* All expressions of three numbers. */
static int combine(const int number[3], expression all[MOST_EXPRESSIONS]) {
    static const char op[] = "+-*/";
    int count = 0;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 32 && i != j; k++) {
                const int rest = number[3 - i - j];
                expression e = {number[i], number[j], 0, 0, 0, 0, op[k % 4], op[k / 4 % 4]};
                e.r = apply(e.a, e.op, e.b);
                e.c = k < 16 ? e.r : rest;
                e.d = k < 16 ? rest : e.r;
                e.target = apply(e.c, e.next, e.d);
                if (e.r && e.target) all[count++] = e;
            }
    return count;
}

static void countdown_read(const char *prompt, int number[3], int *target) {
    if (sscanf(prompt, "%2d,%2d,%2d:%2d>", number, number + 1, number + 2, target) != 4)
        must(ppo_fail(PPO_ERROR_ARGUMENT, "%.40s is not a problem", prompt));
}

/* Random numbers and a random target, until the target can be reached. */
static void countdown_draw(ppo_rng *rng, char prompt[LONGEST]) {
    expression all[MOST_EXPRESSIONS];
    for (;;) {
        const int target = LEAST_TARGET + (int)ppo_rng_below(rng, MOST_TARGET - LEAST_TARGET + 1);
        int number[3];
        for (int i = 0; i < 3; i++) number[i] = 1 + (int)ppo_rng_below(rng, MOST_NUMBER);
        for (int i = combine(number, all); i-- > 0;)
            if (all[i].target == target) {
                snprintf(prompt, LONGEST, "%02d,%02d,%02d:%02d>", number[0], number[1], number[2], target);
                return;
            }
    }
}

/* The same for the numbers in any order. */
static uint64_t countdown_key(const char *prompt) {
    int n[3], target;
    uint64_t sum = 0, product = 1, squares = 0;
    countdown_read(prompt, n, &target);
    for (int i = 0; i < 3; i++) {
        sum += (uint64_t)n[i];
        product *= (uint64_t)n[i];
        squares += (uint64_t)(n[i] * n[i]);
    }
    return ((sum * 1000000 + product) * 100000 + squares) * 100 + (uint64_t)target;
}

static void countdown_write(const expression *e, char *trace) {
    const size_t n = strlen(trace);
    snprintf(trace + n, LONGEST - n, "%s%02d%c%02d=%02d,%02d%c%02d=%02d", n ? ";" : "", e->a, e->op, e->b,
             e->r, e->c, e->next, e->d, e->target);
}

/* Up to MOST_MISSES random expressions that miss, then one that hits. */
static void countdown_solve(ppo_rng *rng, const char *prompt, char trace[LONGEST]) {
    expression all[MOST_EXPRESSIONS];
    int number[3], order[MOST_EXPRESSIONS], target, hit = 0,
                                                    misses = (int)ppo_rng_below(rng, MOST_MISSES + 1);
    countdown_read(prompt, number, &target);
    const int count = combine(number, all);
    for (int i = 0; i < count; i++) order[i] = i;
    ppo_rng_shuffle(rng, order, count);
    *trace = 0;
    for (int i = 0; i < count; i++) {
        const expression *e = &all[order[i]];
        if (e->target == target) hit = order[i];
        else if (misses-- > 0) countdown_write(e, trace);
    }
    countdown_write(&all[hit], trace);
}

/* Takes x away from `count` numbers; 0: it is not among them. */
static int take(int *number, int count, int x) {
    for (int i = 0; i < count; i++)
        if (number[i] == x) {
            number[i] = number[count - 1];
            return 1;
        }
    return 0;
}

static float countdown_verify(const char *prompt, const char *answer) {
    const char *last = strrchr(answer, ';');
    int number[3], target, end = 0;
    expression e;
    countdown_read(prompt, number, &target);
    last = last ? last + 1 : answer;
    if (sscanf(last, "%2d%c%2d=%2d,%2d%c%2d=%2d%n", &e.a, &e.op, &e.b, &e.r, &e.c, &e.next, &e.d, &e.target,
               &end) != 8 ||
        end != ATTEMPT || last[end] || !strchr("+-*/", e.op) || !strchr("+-*/", e.next))
        return 0;
    if (!take(number, 3, e.a) || !take(number, 2, e.b)) return 0;
    number[1] = e.r;
    if (!take(number, 2, e.c) || !take(number, 1, e.d)) return 0;
    return e.target == target && e.r && e.r == apply(e.a, e.op, e.b) && target == apply(e.c, e.next, e.d)
               ? 1.0f
               : 0.1f;
}

/* ---- both ---- */

#define RATES \
    "epochs=2 minibatch_size=128 kl_coef=0 target_kl=0 adam_beta2=0.99 learning_rate_schedule=linear "

static const task tasks[] = {
    {"spell_backward", "abcdefghijklmnopqrstuvwxyz>", 4000, 8, 0.3f, 20000, 12,
     RATES "learning_rate=5e-4 iterations=150", spell_draw, spell_key, spell_solve, spell_verify},
    {"Countdown", "+-*/=,:;>", 20000, 6, 0, 20000, 60, RATES "learning_rate=3e-4 iterations=100",
     countdown_draw, countdown_key, countdown_solve, countdown_verify},
};

/* As many samples in an iteration: PPO's are of different problems. */
static const struct {
    const char *name, *settings;
} methods[] = {{"grpo", "prompts=64 samples=8"},
               {"ppo", "prompts=512 samples=1 gae_lambda=1 critic_learning_rate=1e-3"}};

typedef struct course {
    const task *task;
    int end; /* the token that ends an answer; the last one */
    ppo_tokens traces, prompts, test;
} course;

/* Two digits are one token, and so is every other character. */
static int encode(const task *t, const char *text, int *token) {
    int n = 0;
    for (; *text; text++)
        if (*text >= '0' && *text <= '9') {
            token[n++] = 10 * (text[0] - '0') + text[1] - '0';
            text++;
        } else token[n++] = NUMBERS + (int)(strchr(t->characters, *text) - t->characters);
    return n;
}

static void decode(const task *t, const int *token, int n, char *text) {
    for (int i = 0; i < n; i++)
        if (token[i] < NUMBERS) text += sprintf(text, "%02d", token[i]);
        else *text++ = t->characters[token[i] - NUMBERS];
    *text = 0;
}

/* A ppo_reward_fn. What was cut off has no reward; what ends is without the end here. */
static ppo_status verify(const ppo_samples *samples, float *reward, void *user) {
    const course *c = (const course *)user;
    for (int s = 0; s < samples->tokens.count; s++) {
        const int *t = samples->tokens.token + samples->tokens.start[s], given = samples->tokens.prompt[s];
        const int n = samples->tokens.start[s + 1] - samples->tokens.start[s] - 1;
        char prompt[2 * LONGEST], answer[2 * LONGEST];
        decode(c->task, t, given, prompt);
        decode(c->task, t + given, n - given, answer);
        reward[s] = samples->ended[s] ? c->task->verify(prompt, answer) : 0.0f;
    }
    return PPO_OK;
}

/* A solution is right, and is not if it goes on, ends otherwise, or is empty. */
static void check(const task *t, const char *prompt, const char *trace) {
    char wrong[2 * LONGEST];
    const size_t n = strlen(trace);
    int fair = t->verify(prompt, trace) >= 1 && t->verify(prompt, "") < 1;
    snprintf(wrong, sizeof wrong, "%s%c", trace, trace[n - 1]);
    fair = fair && t->verify(prompt, wrong) < 1;
    wrong[n] = 0;
    wrong[n - 1] = trace[n - 1] == '1' ? '2' : trace[n - 1] == 'a' ? 'b' : trace[n - 1] < 'a' ? '1' : 'a';
    if (!fair || t->verify(prompt, wrong) >= 1)
        must(ppo_fail(PPO_ERROR_ARGUMENT, "%s%s or %s is judged incorrectly", prompt, trace, wrong));
}

/* 1: problem s of tokens is one of the first n whose keys are given. */
static int is_among(const course *c, const ppo_tokens *tokens, int s, const uint64_t *key, int n) {
    char prompt[2 * LONGEST];
    decode(c->task, tokens->token + tokens->start[s], tokens->prompt[s], prompt);
    const uint64_t mine = c->task->key(prompt);
    for (int i = 0; i < n; i++)
        if (key[i] == mine) return 1;
    return 0;
}

/* The problems that are held out, those with traces, and those without; neither has one that is held out. */
static void make_problems(course *c, ppo_rng *rng) {
    uint64_t held_out[TEST];
    ppo_tokens *const kind[] = {&c->test, &c->traces, &c->prompts};
    const int wanted[] = {TEST, c->task->traces, c->task->prompts};
    for (int k = 0; k < 3; k++)
        while (kind[k]->count < wanted[k]) {
            char prompt[LONGEST], trace[LONGEST];
            int token[LONGEST], known = 0, given, n;
            c->task->draw(rng, prompt);
            const uint64_t key = c->task->key(prompt);
            for (int i = 0; i < c->test.count; i++) known |= held_out[i] == key;
            if (known) continue;
            if (!k) held_out[c->test.count] = key;
            c->task->solve(rng, prompt, trace);
            check(c->task, prompt, trace);
            n = given = encode(c->task, prompt, token);
            if (k == 1) {
                n += encode(c->task, trace, token + n);
                token[n++] = c->end;
            }
            must(ppo_tokens_add(kind[k], token, n, given));
        }
    for (int k = 1; k < 3; k++)
        for (int s = 0; s < kind[k]->count; s++)
            if (is_among(c, kind[k], s, held_out, TEST))
                must(ppo_fail(PPO_ERROR_ARGUMENT, "problem %d of kind %d is held out", s, k));
}

/* The share of right answers to the problems that are held out. */
static double examine(course *c, const ppo_lm *lm, int greedy) {
    ppo_generator *generator = NULL;
    ppo_sampling how = ppo_sampling_default();
    ppo_samples samples;
    float reward[TEST];
    int right = 0;
    how.eos = c->end;
    how.greedy = greedy;
    how.max_new_tokens = c->task->new_tokens;
    must(ppo_generator_create(lm, 16, &generator));
    must(ppo_generate(generator, &c->test, &how, &samples));
    must(verify(&samples, reward, c));
    for (int s = 0; s < TEST; s++) right += reward[s] >= 1;
    ppo_generator_free(generator);
    return (double)right / TEST;
}

static double minutes(void) { return (double)clock() / CLOCKS_PER_SEC / 60; }

static void report(course *c, const ppo_lm *lm, const char *stage, double began) {
    const double took = minutes() - began, greedy = examine(c, lm, 1), sampled = examine(c, lm, 0);
    printf(", \"%s\": {\"greedy\": %.3f, \"sampled\": %.3f, \"minutes\": %.2f}", stage, greedy, sampled,
           took);
    fflush(stdout);
}

typedef struct patience {
    float mean, enough;
} patience;

static int enough(const ppo_fit_progress *now, void *user) {
    patience *p = (patience *)user;
    p->mean = now->step == 1 ? now->loss : 0.95f * p->mean + 0.05f * now->loss;
    if (now->step % 100 == 0)
        fprintf(stderr, "imitation, %lld of %lld: loss %.3f\n", (long long)now->step, (long long)now->steps,
                (double)now->loss);
    return p->mean < p->enough;
}

static ppo_lm *imitate(course *c, uint64_t seed) {
    ppo_lm_config shape = ppo_lm_config_default();
    ppo_fit_config fit = ppo_fit_config_default();
    patience until = {0, c->task->enough};
    ppo_lm *lm = NULL;
    must(ppo_lm_config_family(&shape, "llama"));
    shape.vocab = c->end + 1;
    shape.context = LONGEST;
    shape.width = 64;
    shape.hidden = 172;
    shape.layers = 3;
    shape.seed = seed;
    must(ppo_lm_create(&shape, &lm));
    fit.epochs = c->task->passes;
    fit.learning_rate = 3e-3f;
    fit.seed = seed;
    fit.callback = enough;
    fit.callback_user = &until;
    must(ppo_fit_sft(lm, &c->traces, &fit));
    return lm;
}

static void reinforce(course *c, ppo_lm *lm, const char *method, const ppo_rlhf_config *cfg) {
    ppo_rlhf *rlhf = NULL;
    ppo_rlhf_progress now;
    must(ppo_rlhf_create(lm, NULL, NULL, &c->prompts, verify, c, cfg, &rlhf));
    for (int i = 1; i <= cfg->iterations; i++) {
        must(ppo_rlhf_iterate(rlhf, &now));
        if (i == 1 || i % 25 == 0)
            fprintf(stderr, "%s, %d of %d: reward %.3f, %.1f tokens, entropy %.3f\n", method, i,
                    cfg->iterations, (double)now.reward, (double)now.mean_length, (double)now.entropy);
    }
    ppo_rlhf_free(rlhf);
}

int main(int argc, char **argv) {
    course c = {0};
    ppo_lm *imitator = NULL;
    const char *only = "";
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
        if (argc > 2 && !strcmp(argv[1], tasks[i].name)) c.task = &tasks[i];
    if (!c.task)
        must(ppo_fail(PPO_ERROR_ARGUMENT,
                      "wants spell_backward or Countdown, a seed, grpo, ppo or problems if not both, "
                      "and name=value"));
    const uint64_t seed = strtoull(argv[2], NULL, 10);
    for (int i = 3; i < argc; i++)
        if (!strchr(argv[i], '=')) only = argv[i];
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER, 0);
    c.end = NUMBERS + (int)strlen(c.task->characters);
    make_problems(&c, &rng);
    printf("{\"task\": \"%s\", \"seed\": %llu, \"traces\": %d", c.task->name, (unsigned long long)seed,
           c.traces.count);
    double began = minutes();
    if (strcmp(only, "problems")) {
        imitator = imitate(&c, seed);
        report(&c, imitator, "sft", began);
    }
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        ppo_rlhf_config cfg = ppo_rlhf_config_default();
        ppo_lm *lm = NULL;
        if (*only && strcmp(only, methods[m].name)) continue;
        must(ppo_rlhf_config_preset(&cfg, methods[m].name));
        must(ppo_settings_set_all(ppo_rlhf_settings(), &cfg, c.task->settings));
        must(ppo_settings_set_all(ppo_rlhf_settings(), &cfg, methods[m].settings));
        cfg.sampling.eos = c.end;
        cfg.sampling.max_new_tokens = c.task->new_tokens;
        cfg.seed = seed;
        for (int i = 3; i < argc; i++)
            if (strchr(argv[i], '=')) must(ppo_settings_set_all(ppo_rlhf_settings(), &cfg, argv[i]));
        began = minutes();
        must(ppo_lm_copy(imitator, 0, &lm));
        reinforce(&c, lm, methods[m].name, &cfg);
        report(&c, lm, methods[m].name, began);
        ppo_lm_free(lm);
    }
    puts("}");
    ppo_lm_free(imitator);
    ppo_tokens_free(&c.traces);
    ppo_tokens_free(&c.prompts);
    ppo_tokens_free(&c.test);
}
