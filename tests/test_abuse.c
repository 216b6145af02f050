/* Every public function of ppo.h and its companions, called as it must not be: each pointer NULL, each number and each
   field of a struct of settings at its limits, beyond them, or NaN. None may crash, hang, or fail without a sentence;
   after it, the same call with valid arguments works. The calls are made of the headers by abuse.awk; arguments that
   are valid are in abuse.txt. `make abuse` (PPO_ABUSE is set) tries more values, each in a process of its own. */
#ifdef _WIN32
int main(void) { return 0; } /* which lacks what follows */
#else
#include "../ppo.h"

#include "../examples/companions/ppo_conv.h"
#include "../examples/companions/ppo_explain.h"
#include "../examples/companions/ppo_export.h"
#include "../examples/companions/ppo_flat.h"
#include "../examples/companions/ppo_gguf.h"
#include "../examples/companions/ppo_chat.h"
#include "../examples/companions/ppo_hub.h"
#include "../examples/companions/ppo_judge.h"
#include "../examples/companions/ppo_methods.h"
#include "../examples/companions/ppo_onnx.h"
#include "../examples/companions/ppo_player.h"
#include "../examples/companions/ppo_report.h"
#include "../examples/companions/ppo_teach.h"
#include "test.h"
#include "system.h"

#include <sys/mman.h>

/* --------------------------------------------------------------------------------------------------------
   Arguments
   -------------------------------------------------------------------------------------------------------- */

enum { BUFFERS = 8, BUFFER = 512 };
static float numbers[BUFFERS][BUFFER];
static int integers[BUFFERS][BUFFER];
static unsigned char ONES[BUFFER], BYTES[BUFFER];
static double DOUBLES[BUFFER], RANGE[2];
static uint32_t WORDS[11];
static char TEXT[BUFFER], TEXT_TOO[BUFFER];
static const char *TEXTS[5];
static size_t SIZE;
#define FLOATS(k) numbers[k]
#define INTS(k)   integers[k]
static const int SIZES[] = {2, 2}, WIDTHS[] = {4, 4, 4}, PICTURE[] = {1, 2, 2};
static const int STARTS[] = {0, 2, 4};
static const int64_t SHAPE[] = {2, 2};
static const char *const NAMES[] = {"<eos>", "<pad>"};

static ppo_rng stream, *RNG = &stream;
static ppo_params *PARAMS;
static ppo_tape *TAPE;
static float grads[8][64];
static ppo_tensor tensor_x = {4, 4, numbers[0], grads[0]}, tensor_y = {4, 4, numbers[1], grads[1]};
static ppo_tensor line_of_four = {1, 4, numbers[2], grads[2]}, column_of_four = {4, 1, numbers[3], grads[3]};
static ppo_tensor wide_rows = {4, 12, numbers[4], grads[4]}, hidden_rows = {4, 8, numbers[5], grads[5]};
static ppo_tensor *X = &tensor_x, *Y = &tensor_y, *LINE = &line_of_four, *COLUMN = &column_of_four;
static ppo_tensor *WIDE = &wide_rows, *HIDDEN = &hidden_rows, *FILTER = &tensor_y, *INPUTS[] = {&tensor_x};
static ppo_attention ATTENTION = {2, 0, 0, 0};
static ppo_policy_objective OBJECTIVE;
static ppo_policy_stats STATS;
static ppo_adam ADAM;
static ppo_normalizer NORM, NEW_NORM;
static ppo_file *CONTENT, *TOKENIZER_FILE, *LM_FILE;
static ppo_expression *EXPRESSION;
static FILE *NOWHERE;

static ppo_env ENV, PUSHED_ENV, MATCH;
static ppo_config CONFIG, SPARE_CONFIG;
static ppo_agent *AGENT, *SECOND_AGENT;
static ppo_trainer *TRAINER, *PUSHED, *PLAYER;
static ppo_progress PROGRESS;
static ppo_action ACTION;
static ppo_actions TAKEN = {integers[3], NULL};
static ppo_inputs SEEN;
static ppo_outcome OUTCOME;
static ppo_mlp MLP, NEW_MLP;
static ppo_evaluation EVALUATION;
static ppo_inspection INSPECTION;
static ppo_explanation EXPLANATION;
static ppo_recording PLAY;
static ppo_clone_config CLONE;
static ppo_dagger_config DAGGER;
static ppo_curve CURVE = {"curve", numbers[6], numbers[7], 4};
static ppo_log *LOG;
static ppo_onnx_options ONNX;

static ppo_lm_config LM_CONFIG, SPARE_LM_CONFIG;
static ppo_lm *LM, *REFERENCE, *CRITIC, *ADAPTED, *UNSCORED;
static ppo_lm *MEMBERS[1];
static ppo_tokenizer *TOK, *CHAT_TOK, *BPE;
static ppo_tokens PROMPTS, DATA, ONE_TEXT, REJECTED, ADDED, ADDED_TOO, SPARE_TOKENS;
static ppo_sampling SAMPLING;
static ppo_samples SAMPLES, RESULT, RLHF_SAMPLES;
static ppo_generator *GENERATOR;
static ppo_fit_config FIT;
static ppo_rlhf_config RLHF_CONFIG;
static ppo_rlhf_progress RLHF_PROGRESS;
static ppo_rlhf *RLHF;
static ppo_lora LORA;
static ppo_lines LINES;
static ppo_chat_how CHAT_HOW;
static ppo_sampling SPARE_SAMPLING;
static ppo_reward_model *JUDGE;
static ppo_lm_evaluation LM_EVALUATION;
static const ppo_message MESSAGES[] = {{"user", "the cat"}, {"assistant", "sat"}};
static const char *const stop_texts[] = {"cat"};
static ppo_stops STOPS = {NULL, stop_texts, 1};

static ppo_status reward_by_number(const ppo_samples *samples, float *reward, void *user) {
    (void)user;
    for (int s = 0; s < samples->tokens.count; s++) reward[s] = (float)(s % 3);
    return PPO_OK;
}

static ppo_status expert(const void *state, const float *obs, const unsigned char *mask,
                         const ppo_actions *action, void *user) {
    (void)state, (void)mask, (void)user;
    action->discrete[0] = obs[0] > 0;
    return PPO_OK;
}

static ppo_recording *new_play(void) {
    static ppo_recording play;
    if (!play.steps) assert_ok(ppo_record(&ENV, NULL, 0, expert, NULL, 1, 1, &play));
    return &play;
}

static float schedule(int setting, float initial, float progress, void *user) {
    (void)setting, (void)user;
    return initial * (1 - progress);
}

static int watcher(const ppo_frame *frame, void *user) {
    (void)user;
    return frame->step > 100;
}

/* A match of two on the walk; the first to leave it ends it. */
static void match_reset(void *state, ppo_rng *rng, float *obs, ppo_outcome *out) {
    (void)out;
    for (int i = 0; i < 2; i++) walk_reset((walk *)state + i, rng, obs + 2 * i);
}

static void match_step(void *state, ppo_rng *rng, const ppo_action *actions, float *obs, ppo_outcome *out) {
    for (int i = 0; i < 2; i++) walk_step((walk *)state + i, rng, &actions[i], obs + 2 * i, &out[i]);
    for (int i = 0; i < 2; i++) out[i].terminated |= out[1 - i].terminated;
}

static ppo_tensor *scalar(ppo_tape *tape, ppo_tensor *const *inputs, void *user) {
    (void)user;
    return ppo_tape_sum(tape, ppo_tape_square(tape, inputs[0]));
}

static ppo_status copy_forward(ppo_node *node) {
    memcpy(node->out[0]->data, node->in[0]->data, 16 * sizeof(float));
    return PPO_OK;
}
static void copy_backward(ppo_node *node) { (void)node; }
static const ppo_op copy_op = {"copy", 1, copy_forward, copy_backward};

/* New objects, for functions that free or fill theirs. */
#define MAKER(type, name, call)          \
    static type *name(void) {            \
        type *made = NULL;               \
        if (call != PPO_OK) return NULL; \
        return made;                     \
    }
MAKER(ppo_params, new_params, ppo_params_create(&made))
MAKER(ppo_tape, new_tape, ppo_tape_create(&made))
MAKER(ppo_file, new_file, ppo_file_create(&made))
MAKER(ppo_agent, new_agent, ppo_agent_create(&ENV, &CONFIG, &made))
MAKER(ppo_trainer, new_trainer, ppo_trainer_create(&ENV, &CONFIG, SECOND_AGENT, &made))
MAKER(ppo_tokenizer, new_tokenizer, ppo_tokenizer_bytes(NULL, 0, &made))
MAKER(ppo_lm, new_lm, ppo_lm_create(&LM_CONFIG, &made))
MAKER(ppo_generator, new_generator, ppo_generator_create(LM, 2, &made))
MAKER(ppo_rlhf, new_rlhf,
      ppo_rlhf_create(LM, REFERENCE, CRITIC, &PROMPTS, reward_by_number, NULL, &RLHF_CONFIG, &made))
MAKER(ppo_log, new_log, ppo_log_open("new.csv", NULL, 0, &made))
MAKER(ppo_reward_model, new_reward_model, ppo_reward_model_create(MEMBERS, 1, PPO_ENSEMBLE_MEAN, 2, &made))
MAKER(ppo_config, new_config, ppo_flat_config_create(&made))
MAKER(ppo_expression, new_expression, ppo_expression_create("a|b", &made))
MAKER(ppo_env, new_flat_env, ppo_flat_env_create("task", 4, 0, NULL, 0, "discrete 2", &made))

static void see_piece(void *user, size_t begin, size_t end, int matches) {
    (void)user, (void)begin, (void)end, (void)matches;
}

static const char *fresh_name(void) {
    static char name[16];
    static int count;
    snprintf(name, sizeof name, "new%d", count++);
    return name;
}

static int *picture(void) {
    memcpy(INTS(7), PICTURE, sizeof PICTURE);
    return INTS(7);
}

static ppo_outputs *OUTPUTS(void) {
    static ppo_outputs out;
    out = ppo_actor_critic_forward(TAPE, &AGENT->model, &SEEN, 3);
    return &out;
}

static ppo_tensor *ROWS(void) { return ppo_lm_response(TAPE, LM, &DATA, 1, PPO_POLICY).logp; }

static ppo_agent **NULL_AGENT(void) {
    static ppo_agent *agent;
    agent = NULL;
    return &agent;
}

/* For source 0 of a trainer to which experience is pushed: NULL where an episode begins. */
static const ppo_outcome *begin_or(const ppo_outcome *outcome) {
    ppo_action action;
    return ppo_trainer_act(PUSHED, 0, &action) ? NULL : outcome;
}

static int observed(int source) {
    ppo_trainer_observe(PUSHED, source, FLOATS(0), NULL, begin_or(&OUTCOME));
    return source;
}

/* The pointers that a call writes new objects to. Before, they are not NULL. */
static void *made[4];
static int made_used;
static void *MADE(int k) {
    made_used |= 1 << k;
    return &made[k];
}

/* --------------------------------------------------------------------------------------------------------
   Calls
   -------------------------------------------------------------------------------------------------------- */

/* The argument that is wild, its value, and of a struct the field. */
static struct now {
    int arg; /* -1: none */
    long long integer;
    uint64_t natural;
    double number;
    const struct field *field;
} now;

static void *wild_struct(const void *from, size_t size);
#define P_(k, x)    (now.arg == (k) ? NULL : (x))
#define Q_(k, x)    (now.arg == (k) ? NULL : (x))
#define I_(k, x)    (now.arg == (k) ? (int)now.integer : (int)(x))
#define Z_(k, x)    (now.arg == (k) ? (size_t)now.natural : (size_t)(x))
#define L_(k, x)    (now.arg == (k) ? (int64_t)now.integer : (int64_t)(x))
#define U_(k, x)    (now.arg == (k) ? now.natural : (uint64_t)(x))
#define W_(k, x)    (now.arg == (k) ? (uint32_t)now.natural : (uint32_t)(x))
#define F_(k, x)    (now.arg == (k) ? (float)now.number : (float)(x))
#define D_(k, x)    (now.arg == (k) ? now.number : (double)(x))
#define S_(k, x, n) (now.arg == (k) ? wild_struct(x, n) : (x))

enum { NOTHING = 100, SOMETHING, NULL_RESULT }; /* what a call returns beside a status */

#include "../build/abuse/calls.h"

/* NULL, or a copy of which a field is wild. */
static void *wild_struct(const void *from, size_t size) {
    static union {
        char bytes[16384];
        double aligned;
    } copy;
    char *at = copy.bytes + (now.field ? now.field->offset : 0);
    const int integer = (int)now.integer;
    const float number = (float)now.number;
    const uint32_t natural = (uint32_t)now.natural;
    if (!now.field || !from) return NULL;
    if (size > sizeof copy) abort();
    memcpy(copy.bytes, from, size);
    switch (now.field->kind) {
    case 'i':
        memcpy(at, &integer, sizeof integer);
        break;
    case 'f':
        memcpy(at, &number, sizeof number);
        break;
    case 'd':
        memcpy(at, &now.number, sizeof now.number);
        break;
    case 'l':
        memcpy(at, &now.integer, sizeof now.integer);
        break;
    case 'u':
    case 'z':
        memcpy(at, &now.natural, sizeof now.natural);
        break;
    case 'w':
        memcpy(at, &natural, sizeof natural);
        break;
    default:
        memset(at, 0, sizeof(void *));
    }
    return copy.bytes;
}

static int thorough; /* make abuse */

/* Sets value v of this kind; 0: there are not as many. */
static int wild_value(char kind, int v, char *text, size_t room) {
    static const long long integers_[] = {-1, 0, INT_MIN, INT_MAX, 65537, 1 << 20};
    static const long long longs[] = {-1, INT64_MIN, INT64_MAX, 0, (long long)1 << 40};
    static const uint64_t naturals[] = {0, UINT64_MAX, UINT64_MAX / 2 + 1, UINT32_MAX};
    static const double numbers_[] = {NAN, -INFINITY, INFINITY, 0, -1, 1e38, 1e-45, -1e-9};
    const int promised = kind >= 'A' && kind <= 'Z', k = promised ? kind - 'A' + 'a' : kind;
    snprintf(text, room, "NULL");
    if (k == 'p' || k == 'q') return v == 0;
    if (k == 'i' || k == 'l') {
        const int most = promised ? 3 : k == 'i' ? (thorough ? 6 : 4) : thorough ? 5 : 3;
        if (v >= most) return 0;
        now.integer = k == 'i' ? integers_[v] : longs[v];
        snprintf(text, room, "%lld", now.integer);
        return 1;
    }
    if (k == 'f' || k == 'd') {
        if (v >= (thorough ? COUNT(numbers_) : 4)) return 0;
        now.number = numbers_[v];
        snprintf(text, room, "%g", now.number);
        return 1;
    }
    if (k != 'z' && k != 'u' && k != 'w') return 0;
    if (v >= (promised ? 1 : thorough ? COUNT(naturals) : 2)) return 0;
    now.natural = naturals[v];
    snprintf(text, room, "%llu", (unsigned long long)now.natural);
    return 1;
}

/* Sets up case c of a function, and describes it; 0: there are not as many. Case 0 is the valid call. */
static int choose_case(const struct function *f, int c, char *text, size_t room) {
    char value[32];
    now.arg = -1, now.field = NULL;
    snprintf(text, room, "%s", f->name);
    if (c-- == 0) return 1;
    for (int k = 0; f->kinds[k]; k++) {
        now.arg = k, now.field = NULL;
        for (int v = 0; wild_value(f->kinds[k], v, value, sizeof value); v++) {
            snprintf(text, room, "%s, argument %d = %s", f->name, k + 1, value);
            if (c-- == 0) return 1;
        }
        for (const struct field *field = fields; f->structs[k] && field->of; field++) {
            if (strcmp(field->of, f->structs[k]) || !field->wild) continue;
            for (int v = 0; (thorough || v < 2) && wild_value(field->kind, v, value, sizeof value); v++) {
                now.field = field;
                snprintf(text, room, "%s, argument %d: %s = %s", f->name, k + 1, field->name, value);
                if (c-- == 0) return 1;
            }
        }
    }
    return 0;
}

static size_t weights_of_all;
static float *kept_weights[4];

/* What earlier calls may have changed. */
static void restore_arguments(int first) {
    ppo_lm *const models[] = {LM, REFERENCE, CRITIC, ADAPTED};
    for (int k = 0; k < COUNT(models); k++) {
        const size_t bytes = models[k]->params->count * sizeof(float);
        if (first) kept_weights[k] = (float *)malloc(bytes), weights_of_all += bytes;
        if (first) memcpy(kept_weights[k], models[k]->params->data, bytes);
        else memcpy(models[k]->params->data, kept_weights[k], bytes);
    }
    ppo_rng rng = test_rng(1);
    for (int k = 0; k < BUFFERS; k++) {
        memset(integers[k], 0, sizeof integers[k]);
        for (int i = 0; i < BUFFER; i++) numbers[k][i] = 0.5f + 0.4f * ppo_rng_uniform(&rng);
        if (k == 0) integers[k][1] = 1;
    }
    for (int i = 0; i < BUFFER; i++) numbers[6][i] = (float)i; /* of a curve */
    memset(ONES, 1, sizeof ONES);
    memset(grads, 0, sizeof grads);
    ppo_tape_reset(TAPE);
    SPARE_CONFIG = ppo_config_default();
    SPARE_LM_CONFIG = LM_CONFIG;
    ppo_tokens_clear(&ADDED), ppo_tokens_clear(&ADDED_TOO);
    if (ppo_tokens_add(&ADDED, INTS(0), 3, 1)) abort();
    if (!first) ppo_flat_rng(1, 0, WORDS), stream = test_rng(2);
    for (int k = 0; k < COUNT(made); k++) made[k] = TEXT; /* not NULL */
    made_used = 0;
}

/* Shared with the child that makes the calls. */
static struct shared {
    int at, problems, calls, refused;
    char what[160], problem[16][400];
} * shared;

static void complain(const char *what, const char *format, ...) {
    va_list args;
    const int k = shared->problems++;
    if (k >= COUNT(shared->problem)) return;
    const size_t used = (size_t)snprintf(shared->problem[k], sizeof shared->problem[k], "%s: ", what);
    va_start(args, format);
    vsnprintf(shared->problem[k] + used, sizeof shared->problem[k] - used, format, args);
    va_end(args);
}

static int failed(int result) { return result == NULL_RESULT || (result != PPO_OK && result < NOTHING); }

/* Makes a call, and looks at what it says. */
static int make_call(const struct function *f, const char *what) {
    restore_arguments(0);
    ppo_fail(PPO_OK, "%s", "");
    alarm(20);
    const int result = f->call(), null = result == NULL_RESULT;
    const int is_tape = !strncmp(f->name, "ppo_tape_", 9) || !strncmp(f->name, "ppo_lm_", 7);
    shared->calls++;
    if (!failed(result)) return result;
    shared->refused++;
    if ((!null || (is_tape && now.arg > 0)) && !*ppo_last_error()) complain(what, "fails without a sentence");
    if (strchr(ppo_last_error(), '\n')) complain(what, "its sentence has several lines");
    for (int k = 0; k < COUNT(made); k++)
        if (made_used >> k & 1 && made[k]) complain(what, "fails, but its new object is not NULL");
    return result;
}

static void call_function(const struct function *f, int first) {
    char what[160];
    int valid = -1;
    for (int c = first; choose_case(f, c, what, sizeof what); c++) {
        shared->at = c;
        memcpy(shared->what, what, sizeof what);
        const int result = make_call(f, what);
        if (c == 0 && failed(result) && !f->may_fail)
            complain(what, "the valid call fails: %s", ppo_last_error());
        if (c == 0) valid = result;
        if (thorough && c > 0) _exit(0);
    }
    if (first || f->may_fail || valid < 0) return;
    choose_case(f, 0, what, sizeof what);
    if (make_call(f, what) != valid) complain(what, "fails after calls that failed: %s", ppo_last_error());
}

static void no_call_crashes_hangs_or_fails_without_a_sentence(void **state) {
    (void)state;
    int count = 0, cases = 0, problems = 0;
    char text[160];
    for (const struct function *f = functions; f->name; f++, count++) {
        if (getenv("PPO_ABUSE_ONLY") && strcmp(getenv("PPO_ABUSE_ONLY"), f->name)) continue;
        for (int first = 0, how; choose_case(f, first, text, sizeof text);) {
            shared->problems = 0;
            fflush(NULL);
            const pid_t child = fork();
            if (child == 0) {
                call_function(f, first);
                _exit(0);
            }
            assert_int_equal(waitpid(child, &how, 0), child);
            for (int k = 0; k < shared->problems && k < COUNT(shared->problem); k++)
                print_error("%s\n", shared->problem[k]);
            problems += shared->problems;
            if (how) {
                problems++;
                print_error("%s: %s\n", shared->what,
                            WIFSIGNALED(how) && WTERMSIG(how) == SIGALRM ? "takes longer than 20 s"
                                                                         : "crashes");
            }
            if (!how && !thorough) break;
            first = shared->at + 1;
        }
        for (int c = 0; choose_case(f, c, text, sizeof text); c++) cases++;
    }
    print_message("%d functions, %d calls, of which %d were refused\n", count, cases, shared->refused);
    assert_int_equal(problems, 0);
}

/* --------------------------------------------------------------------------------------------------------
   What the calls need
   -------------------------------------------------------------------------------------------------------- */

static void put_lines(const char *path) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("{\"prompt\": \"the\", \"completion\": \" cat\"}\n{\"prompt\": \"the cat\", \"completion\": \" "
          "sat\"}\n",
          file);
    fclose(file);
}

static void make_files(void) {
    ppo_params *params = new_params();
    ppo_params_free(params);
    CONTENT = new_file(), TOKENIZER_FILE = new_file(), LM_FILE = new_file();
    assert_ok(ppo_file_set_text(CONTENT, "key", "text"));
    assert_ok(ppo_file_add(CONTENT, "array", PPO_F32, SHAPE, 2, FLOATS(0)));
    assert_ok(ppo_file_write(CONTENT, "file.st"));
    assert_ok(ppo_tokenizer_put(TOK, TOKENIZER_FILE));
    assert_ok(ppo_lm_put(LM, LM_FILE));
    assert_ok(ppo_agent_save(AGENT, "agent.st"));
    assert_ok(ppo_tokenizer_save(TOK, "tokenizer.st"));
    assert_ok(ppo_lm_save_file(LM, TOK, "lm.st"));
    assert_ok(ppo_lm_save(REFERENCE, "lmdir", PPO_F32));
    assert_ok(ppo_lm_save(ADAPTED, "adapter", PPO_F32));
    assert_ok(ppo_tokens_save(&DATA, "tokens.st"));
    assert_ok(ppo_trainer_save(TRAINER, "trainer.st"));
    assert_ok(ppo_rlhf_save(RLHF, "rlhf.st"));
    put_lines("lines.jsonl");
}

static void make_control(void) {
    ENV = walk_env();
    PUSHED_ENV = ENV, PUSHED_ENV.reset = NULL, PUSHED_ENV.step = NULL, PUSHED_ENV.max_steps = 0;
    MATCH = ENV, MATCH.reset = NULL, MATCH.step = NULL, MATCH.state_size = 2 * sizeof(walk);
    MATCH.agents = MATCH.teams = 2, MATCH.reset_all = match_reset, MATCH.step_all = match_step;
    CONFIG = tiny_config();
    assert_ok(ppo_agent_create(&ENV, &CONFIG, &AGENT));
    assert_ok(ppo_agent_create(&ENV, &CONFIG, &SECOND_AGENT));
    ppo_config more = CONFIG;
    more.total_steps = 1000000;
    assert_ok(ppo_trainer_create(&ENV, &more, SECOND_AGENT, &TRAINER));
    assert_ok(ppo_trainer_iterate(TRAINER, &PROGRESS));
    assert_ok(ppo_trainer_create(&PUSHED_ENV, &more, AGENT, &PUSHED));
    assert_ok(ppo_player_create(&PUSHED_ENV, AGENT, 2, 1, 1, &PLAYER));
    SEEN.rows = 4, SEEN.obs = FLOATS(0);
    assert_ok(ppo_record(&ENV, NULL, 0, expert, NULL, 1, 1, &PLAY));
    CLONE = ppo_clone_config_default(), CLONE.epochs = 1;
    DAGGER = ppo_dagger_config_default(), DAGGER.rounds = DAGGER.episodes = 1, DAGGER.clone = CLONE;
    EVALUATION = ppo_evaluate(AGENT, &ENV, 2, 1);
    assert_ok(ppo_log_open("log.csv", "log.tb", 0, &LOG));
}

static void make_language(void) {
    static const char text[] = "the cat sat on the mat. a dog ran to the hat.";
    static const char *const chat_specials[] = {"<|im_start|>", "<|im_end|>", "<eos>"};
    assert_ok(ppo_tokenizer_characters(text, strlen(text), NAMES, 2, &TOK));
    assert_ok(ppo_tokenizer_train(text, strlen(text), 270, chat_specials, 3, &CHAT_TOK));
    assert_ok(ppo_tokenizer_train(text, strlen(text), 270, NAMES, 2, &BPE));
    STOPS.tokenizer = TOK;
    LM_CONFIG = lm_config(ppo_tokenizer_vocab(TOK), 16, 8, 1, 2);
    LM = random_lm(LM_CONFIG, 0.2f);
    assert_ok(ppo_lm_copy(LM, 0, &REFERENCE));
    assert_ok(ppo_lm_copy(LM, 1, &CRITIC));
    ppo_lm_config unscored = lm_config(ppo_tokenizer_vocab(BPE), 16, 8, 1, 2);
    unscored.score = 0;
    UNSCORED = random_lm(unscored, 0.2f);
    LORA = ppo_lora_default(), LORA.rank = 2;
    assert_ok(ppo_lm_adapt(REFERENCE, &LORA, 0, &ADAPTED));
    MEMBERS[0] = CRITIC;
    for (int i = 0; i < 3; i++) {
        static const char *const prompts[] = {"the", "a", "on"};
        assert_ok(ppo_tokens_add_text(&PROMPTS, TOK, -1, prompts[i], NULL, -1));
        assert_ok(ppo_tokens_add_text(&DATA, TOK, -1, prompts[i], " cat", 0));
        assert_ok(ppo_tokens_add_text(&REJECTED, TOK, -1, prompts[i], " dog", 0));
    }
    assert_ok(ppo_tokens_add_from(&ONE_TEXT, &DATA, 0));
    SAMPLING = ppo_sampling_default(), SAMPLING.max_new_tokens = 3;
    assert_ok(ppo_generator_create(LM, 2, &GENERATOR));
    ppo_generator *other = new_generator();
    assert_ok(ppo_generate(other, &PROMPTS, &SAMPLING, &SAMPLES));
    FIT = ppo_fit_config_default(), FIT.steps = 1, FIT.batch_size = 2;
    RLHF_CONFIG = ppo_rlhf_config_default();
    RLHF_CONFIG.prompts = 3, RLHF_CONFIG.slots = 2, RLHF_CONFIG.epochs = 1,
    RLHF_CONFIG.sampling.max_new_tokens = 3;
    RLHF_SAMPLES = SAMPLES;
    RLHF = new_rlhf();
    assert_non_null(RLHF);
    JUDGE = new_reward_model();
    LINES = ppo_lines_default();
    CHAT_HOW = ppo_chat_how_default();
    SPARE_SAMPLING = ppo_sampling_default();
}

static void *limited_memory(void *user, void *pointer,
                            size_t size) { /* a wild size is refused, as by a small system */
    (void)user;
    if (!size) free(pointer);
    return size && size < (size_t)64 << 20 ? realloc(pointer, size) : NULL;
}

static int make_all(void **state) {
    (void)state;
    thorough = getenv("PPO_ABUSE") != NULL;
    shared = (struct shared *)mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                                   -1, 0);
    if (shared == (struct shared *)MAP_FAILED || system("rm -rf build/abuse/run && mkdir -p build/abuse/run"))
        return 1;
    if (chdir("build/abuse/run")) return 1;
    ppo_set_allocator(limited_memory, NULL);
    NOWHERE = fopen("/dev/null", "w");
    PARAMS = new_params();
    EXPRESSION = new_expression();
    TAPE = new_tape();
    OBJECTIVE = ppo_policy_objective_default();
    ADAM = ppo_adam_default();
    assert_ok(ppo_normalizer_init(&NORM, 2));
    assert_ok(ppo_mlp_init(&MLP, PARAMS, "mlp", WIDTHS, 2, PPO_TANH, PPO_IDENTITY, 1, NULL));
    make_control();
    make_language();
    restore_arguments(1);
    make_files();
    return 0;
}

/* What this process has at its end is not freed, and a child leaves without looking. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "detect_leaks=0"; }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_call_crashes_hangs_or_fails_without_a_sentence),
    };
    return cmocka_run_group_tests(tests, make_all, NULL);
}
#endif
