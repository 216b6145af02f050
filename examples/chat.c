/* chat.c - talks to a language model that you have downloaded, in the terminal:

       build/chat FOLDER --temperature 0.7 --system "You answer in one sentence."

   It teaches how a program samples: ppo_tokens_add_chat_as() writes the chat in the model's form; a watch shows each token
   when it is sampled, and ends the answer at Ctrl-C; several tokens can end it; and with `prefix_cache` nothing is computed
   again for the turns before. You will see the answer while it is written. A model without a form of chat continues
   your text. At the prompt, Ctrl-C or the end of the input ends the program. Only answers go to stdout, so that
   echo "Hello!" | build/chat FOLDER works, too. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "companions/ppo_chat.h"
#include "companions/ppo_gguf.h"
#include "companions/ppo_methods.h"
#include "chat_options.h"

#include <signal.h>

static volatile sig_atomic_t interrupted; /* by Ctrl-C */
static void on_interrupt(int sig) { interrupted = sig; }

/* -- the answer -- */

/* Bytes of the character that begins the text; 0: it is not all there yet, -1: it is none. */
static int character(const unsigned char *text, size_t bytes) {
    static const long least[] = {0, 0, 0x80, 0x800, 0x10000};
    int n = *text < 0x80 ? 1 : *text < 0xc2 ? -1 : *text < 0xe0 ? 2 : *text < 0xf0 ? 3 : 4;
    long code = n < 2 ? 0 : *text & (0x7f >> n);
    for (int i = 1; i < n; i++) {
        if ((size_t)i == bytes) return 0;
        if ((text[i] & 0xc0) != 0x80) return -1;
        code = code << 6 | (text[i] & 0x3f);
    }
    return n > 1 && (code < least[n] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) ? -1 : n;
}

/* A ppo_watch_fn: prints what the last token adds. Bytes that are no character print as "?". */
static ppo_status show(const ppo_tokens *so_far, int s, int *end, void *user) {
    chat *c = (chat *)user;
    int before = so_far->start[1] - 1;
    ppo_tokens last = *so_far; /* as if all before it were the prompt */
    (void)s;
    last.prompt = &before;
    ppo_status status = ppo_tokens_text(&last, 0, PPO_RESPONSE_TEXT, c->tokenizer, c->answer + c->bytes,
                                        sizeof c->answer - c->bytes);
    c->bytes += strlen(c->answer + c->bytes);
    for (int n; c->shown < c->bytes; c->shown += (size_t)n) {
        char *text = c->answer + c->shown;
        n = character((const unsigned char *)text, c->bytes - c->shown);
        if (!n) break;
        if (n < 0) n = 1, *text = '?';
        if (((unsigned char)*text < 32 && *text != '\n' && *text != '\t') || *text == 127) *text = ' ';
        fwrite(text, 1, (size_t)n, stdout);
    }
    fflush(stdout);
    *end = interrupted != 0;
    return status;
}

/* -- the turns -- */

static ppo_status say(chat *c, const char *role, const char *text) {
    char *copy = c->count < TURNS ? (char *)malloc(strlen(text) + 1) : NULL;
    if (!copy) return ppo_fail(PPO_ERROR_MEMORY, "no memory for turn %d", c->count);
    c->turns[c->count].role = role;
    c->turns[c->count++].text = strcpy(copy, text);
    return PPO_OK;
}

static void forget(chat *c, int first, int n) {
    for (int k = first; k < first + n; k++) free((void *)c->turns[k].text);
    c->count -= n;
    memmove(c->turns + first, c->turns + first + n, (size_t)(c->count - first) * sizeof *c->turns);
}

/* The tokens of all turns, without the oldest ones where they leave no room for an answer. */
static ppo_status write_tokens(chat *c) {
    const int first = c->system != NULL, half = c->lm->config.context / 2;
    const int room = c->how.max_new_tokens && c->how.max_new_tokens < half ? c->how.max_new_tokens : half;
    ppo_status status = PPO_OK;
    for (;; forget(c, first, 2)) {
        ppo_tokens_clear(&c->tokens);
        if (c->written.form != RAW)
            status = ppo_tokens_add_chat_as(&c->tokens, c->tokenizer, &c->written, c->turns, c->count, 1);
        else status = ppo_tokens_add_text(&c->tokens, c->tokenizer, c->start, c->turns[0].text, NULL, -1);
        for (int k = 1; k < c->count && c->written.form == RAW && !status; k++)
            status = ppo_tokens_append_text(&c->tokens, c->tokenizer, c->turns[k].text, 0);
        if (!status) status = check_tokens(&c->tokens, c->tokenizer, c->lm);
        if (status || c->tokens.start[1] + room <= c->lm->config.context) return status;
        if (c->count < first + 3) return ppo_fail(PPO_ERROR_ARGUMENT, "too long for the context");
        fprintf(stderr, "(the context is full: the oldest turn is forgotten)\n");
    }
}

/* A turn of the user and one of the model. */
static ppo_status reply(chat *c, const char *line) {
    const int first = c->system != NULL;
    ppo_samples samples;
    ppo_status status = say(c, "user", line);
    if (!status && write_tokens(c)) {
        fprintf(stderr, "(%s)\n", ppo_last_error());
        return forget(c, c->count - 1, 1), PPO_OK;
    }
    ppo_tokens whole = c->tokens;
    whole.prompt = NULL; /* all of it is given */
    c->bytes = c->shown = 0;
    interrupted = 0;
    signal(SIGINT, on_interrupt);
    if (!status) status = ppo_generate(c->generator, &whole, &c->how, &samples);
    signal(SIGINT, SIG_DFL);
    if (status) return status;
    c->answer[c->shown] = 0;
    c->how.seed++;
    puts("");
    fflush(stdout);
    if (!samples.ended[0])
        fprintf(stderr, "(cut off: %s)\n",
                samples.tokens.start[1] < c->lm->config.context ? "see --max-new-tokens"
                                                                : "the context is full");
    if (c->written.form != RAW || !samples.ended[0] || interrupted) return say(c, "assistant", c->answer);
    fprintf(stderr, "(the text has ended: the next one is new)\n");
    return forget(c, first, c->count - first), PPO_OK;
}

int main(int argc, char **argv) {
    static chat c;
    ppo_status status;
    c.how = ppo_sampling_default();
    c.how.max_new_tokens = 256;
    c.how.watch = show;
    c.how.watch_user = &c;
    c.how.prefix_cache = 1;
    c.written = ppo_chat_how_default();
    c.written.form = AUTO, c.context = 2048, c.threads = 1;
    if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) return usage(&c);
    status = read_options(&c, argc, argv);
    if (!status && c.folder) status = read_sampling(&c, argc, argv);
    if (!status && !c.folder) status = ppo_fail(PPO_ERROR_ARGUMENT, "which folder? see --help");
    if (!status) status = ppo_set_threads(c.threads);
    if (!status) status = ppo_lm_load(c.folder, &c.lm);
    if (!status) status = ppo_tokenizer_load(c.folder, &c.tokenizer);
    if (!status && c.lm->config.context > c.context) c.lm->config.context = c.context;
    if (!status) status = prepare(&c);
    if (!status) status = ppo_generator_create(c.lm, 1, &c.generator);
    if (!status && c.system) status = say(&c, "system", c.system);
    for (char *line; !status && (line = read_line()) != NULL; free(line))
        if (*line) status = reply(&c, line);
    if ((fflush(stdout) || ferror(stdout)) && !status)
        status = ppo_fail(PPO_ERROR_FILE, "what is printed cannot be written");
    if (status) fprintf(stderr, "chat: %s\n", ppo_last_error());
    forget(&c, 0, c.count);
    ppo_generator_free(c.generator);
    ppo_tokens_free(&c.tokens);
    ppo_tokenizer_free(c.tokenizer);
    ppo_lm_free(c.lm);
    ppo_set_threads(1);
    return status != PPO_OK;
}
