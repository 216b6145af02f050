/* ppo_chat.h: the forms of chats, and the templates by which they are recognized. */
#define _XOPEN_SOURCE 700
#include <time.h>
#include <unistd.h>

#include "../ppo.h"
#include "../examples/companions/ppo_chat.h"
#include "../examples/companions/ppo_methods.h"

#include "golden/chat.h"
#include "test.h"
#include "system.h"

static char home[] = "/tmp/test_chat.XXXXXX";

static int begin(void **state) {
    (void)state;
    return !mkdtemp(home) || chdir(home) || mkdir("chat", 0700);
}

static int end(void **state) {
    static const char *const files[] = {"chat/tokenizer.json", "chat/tokenizer_config.json",
                                        "chat/chat_template.jinja", "chat.jsonl"};
    (void)state;
    for (int i = 0; i < COUNT(files); i++) remove(files[i]);
    return rmdir("chat") || chdir("/") || rmdir(home);
}

static const char *const specials[] = {"<|im_start|>",
                                       "<|im_end|>",
                                       "<|begin_of_text|>",
                                       "<|start_header_id|>",
                                       "<|end_header_id|>",
                                       "<|eot_id|>",
                                       "<s>",
                                       "</s>",
                                       "<bos>",
                                       "<eos>",
                                       "<start_of_turn>",
                                       "<end_of_turn>",
                                       "<|endoftext|>",
                                       "<|start_of_role|>",
                                       "<|end_of_role|>",
                                       "<|end_of_text|>",
                                       "<|system|>",
                                       "<|user|>",
                                       "<|assistant|>",
                                       "<|end|>"};

/* A tokenizer of bytes in a folder with these tokens, or with a template. */
static ppo_tokenizer *in_folder(const char *bos, const char *eos, const char *jinja) {
    ppo_tokenizer *bytes = NULL, *tok = NULL;
    char config[200];
    snprintf(config, sizeof config, "{\"bos_token\": \"%s\", \"eos_token\": \"%s\"}", bos, eos);
    assert_ok(ppo_tokenizer_bytes(specials, COUNT(specials), &bytes));
    assert_ok(ppo_tokenizer_save(bytes, "chat"));
    assert_ok(ppo_text_save("chat/tokenizer_config.json", config, strlen(config)));
    remove("chat/chat_template.jinja");
    if (jinja) assert_ok(ppo_text_save("chat/chat_template.jinja", jinja, strlen(jinja)));
    assert_ok(ppo_tokenizer_load("chat", &tok));
    ppo_tokenizer_free(bytes);
    return tok;
}

/* -- the chats of make_chat.py -- */

static uint64_t number;

static int below(int n) {
    number = number * 6364136223846793005u + 1442695040888963407u;
    return (int)((number >> 33) % (uint64_t)n);
}

static void add_text(char *text) {
    static const char *const words[] = {"Name",
                                        " three",
                                        "It's",
                                        " ",
                                        "  ",
                                        "\n",
                                        "\n\n",
                                        "\t",
                                        "\xc3\xa9",
                                        "\xe6\x97\xa5",
                                        " 42",
                                        "\xc2\xa0",
                                        "{x}",
                                        " $5",
                                        " 100%",
                                        "<think>",
                                        "</think>",
                                        "<think>\nfirst\n</think>\n\n",
                                        "<tool_response>",
                                        "</tool_response>",
                                        "'",
                                        "\\n"};
    *text = 0;
    for (int n = below(8); n > 0; n--) strcat(text, words[below(COUNT(words))]);
}

static uint64_t fnv1a(uint64_t hash, const char *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3u;
    return hash;
}

static int make_chat(ppo_message *said, char text[7][256]) {
    static const char *const orders[] = {"/no_think", "/think", "/system_override", " be brief", ""};
    static const char *const roles[] = {"user", "assistant", "system"};
    int n = 0;
    if (below(2)) {
        add_text(text[n]);
        if (!below(3)) strcat(text[n], orders[below(COUNT(orders))]);
        said[n++].role = "system";
    }
    for (int turn = 0, turns = 1 + below(5); turn < turns; turn++) {
        said[n].role = below(20) ? roles[turn % 2] : roles[below(3)];
        add_text(text[n++]);
    }
    for (int m = 0; m < n; m++) said[m].text = text[m];
    return n;
}

static void texts_are_those_of_apply_chat_template(void **state) {
    (void)state;
    static const char *const bounds[PPO_CHAT_FORMS][2] = {
        [PPO_CHAT_GEMMA] = {"<bos>", "<eos>"},
        [PPO_CHAT_GEMMA3] = {"<bos>", "<eos>"},
        [PPO_CHAT_PHI3] = {"<s>", "<|endoftext|>"},
        [PPO_CHAT_PHI35] = {"<s>", "<|endoftext|>"},
        [PPO_CHAT_OLMO2] = {"<|endoftext|>", "<|endoftext|>"}};
    static char text[7][256], made[8192];
    for (int form = 0; form < PPO_CHAT_FORMS; form++) {
        const int own = bounds[form][0] != NULL;
        ppo_tokenizer *tok = in_folder(own ? bounds[form][0] : "<s>", own ? bounds[form][1] : "</s>", NULL);
        const char *date = form == PPO_CHAT_LLAMA31   ? NULL
                           : form == PPO_CHAT_LLAMA32 ? "03 Feb 2026"
                           : form == PPO_CHAT_SMOLLM3 ? "03 February 2026"
                                                      : "February 03, 2026";
        for (int thinking = 0; thinking < 2; thinking++) {
            const ppo_chat_how how = {form, thinking, date};
            uint64_t hash = 0xcbf29ce484222325u;
            number = 1;
            for (int c = 0; c < g_chats; c++) {
                ppo_message said[7];
                const int n = make_chat(said, text);
                for (int reply = 0; reply < 2; reply++) {
                    ppo_tokens tokens = {0};
                    size_t bytes = 7;
                    strcpy(made, "refused");
                    if (!ppo_tokens_add_chat_as(&tokens, tok, &how, said, n, reply))
                        assert_ok(ppo_decode(tok, tokens.token, tokens.start[1], made, sizeof made, &bytes));
                    hash = fnv1a(hash, made, bytes + 1);
                    ppo_tokens_free(&tokens);
                }
            }
            const unsigned *want = &g_chat_hash[2 * (2 * form + thinking)];
            if (hash != ((uint64_t)want[0] << 32 | want[1]))
                fail_msg("%s, thinking %d: the texts differ", ppo_chat_name(form), thinking);
        }
        ppo_tokenizer_free(tok);
    }
}

/* -- templates -- */

static int form_of(const char *jinja) {
    ppo_tokenizer *tok = in_folder("<s>", "</s>", jinja);
    int form = -1;
    if (ppo_chat_form(tok, &form)) {
        assert_int_equal(form, -1);
        assert_non_null(strstr(ppo_last_error(), "none of the forms that are known: chatml, llama3,"));
        form = -2;
    }
    ppo_tokenizer_free(tok);
    return form;
}

static void a_template_is_recognized_however_it_is_written(void **state) {
    (void)state;
    static const struct {
        const char *jinja;
        int form;
    } cases[] = {
        {NULL, -1},
        {"{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message['content'] + "
         "\"<|im_end|>\\n\" }}{% endfor %}{%- if add_generation_prompt -%}\n{{ '<|im_start|>assistant\n' }}"
         "{%- endif %}\n",
         PPO_CHATML},
        {"{# as ChatML #}\n{%- for message in messages %}\n    {{- '<|im_start|>' ~ message.role ~ '\\n' ~ "
         "message.content ~ '<|im_end|>' ~ '\\n' }}\n{%- endfor %}\n{%- if add_generation_prompt %}\n    "
         "{% generation %}{{- '<|im_start|>assistant\\n' }}{% endgeneration %}\n{%- endif %}\n",
         PPO_CHATML},
        /* the line break after a message is printed; and a message has none after its role */
        {"{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message['content'] + "
         "'<|im_end|>\\n' }}\n{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% "
         "endif %}",
         -2},
        {"{% for message in messages %}{{ '<|im_start|>' + message.role + message['content'] + "
         "'<|im_end|>\\n' }}"
         "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
         -2},
        {"{{ bos_token }}{% set date_string = strftime_now('%d %b %Y') %}{{ 'Cutting Knowledge Date: "
         "December 2023\\n' }}"
         "{{ 'Today Date: ' + date_string + '\\n\\n' }}{{ '<|start_header_id|>' + message['role'] + "
         "'<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}",
         PPO_CHAT_LLAMA32},
        {"{{ bos_token }}{% set date_string = strftime_now('%d %b %Y') %}{{ 'Cutting Knowledge Date: "
         "December 2023\\n' }}"
         "{{ 'Today Date: ' + date_string + '\\n\\n' }}{{ '<|start_header_id|>' + message['role'] + "
         "'<|end_header_id|>\\n\\n<think>' + message['content'] | trim + '<|eot_id|>' }}",
         -2},
        /* dashes take the spaces on their side, and a condition that some begin with is none */
        {" \n{%- for message in messages -%}\n  {{- '<|im_start|>' + message.role + '\\n' + message.content "
         "+ "
         "'<|im_end|>' + '\n' -}}  {%- endfor -%} {%- if add_generation_prompt -%} {{- "
         "'<|im_start|>assistant\\n' -}}\n\n{%- endif -%}  ",
         PPO_CHATML},
        {"{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}"
         "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
         "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
         "{% endif %}",
         PPO_CHATML},
        {"{% set n = 5 % 3 %}{{ {'a': 1}['a'] }}{{ 'it\\'s' }}", -2},
        {"{{ 'it\\", -2},
        {"{{ unfinished", -2},
        {"{% 'unfinished", -2},
        {"{# unfinished", -2},
        {"{", -2},
        {"{%", -2},
        {"{{", -2},
        {"{#", -2},
        {"{%-", -2},
        {"", -2},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        const int form = form_of(cases[i].jinja);
        if (form != cases[i].form) fail_msg("case %d: form %d, not %d", i, form, cases[i].form);
    }
    for (int form = 0; form < PPO_CHAT_FORMS; form++)
        if (*ppo_chat_template(form)) assert_int_equal(form_of(ppo_chat_template(form)), form);
    assert_string_equal(ppo_chat_name(PPO_CHAT_GRANITE4), "granite4");
    assert_string_equal(ppo_chat_name(-1), "");
    assert_string_equal(ppo_chat_name(PPO_CHAT_FORMS), "");
}

static void the_form_of_the_folder_is_used_by_its_number(void **state) {
    (void)state;
    static const ppo_message said[] = {{"user", "a"}};
    static const char *const templates[] = {NULL, "{{ messages }}"};
    for (int i = 0; i < 3; i++) {
        ppo_tokenizer *tok =
            in_folder("<s>", "</s>", i < 2 ? templates[i] : ppo_chat_template(PPO_CHAT_LLAMA3));
        ppo_tokens tokens = {0};
        const ppo_status status = ppo_tokens_add_chat(&tokens, tok, PPO_CHAT_OWN, said, 1, 1);
        assert_int_equal(status, i == 1 ? PPO_ERROR_ARGUMENT : PPO_OK);
        if (i != 1)
            assert_int_equal(tokens.token[0],
                             ppo_tokenizer_special(tok, i ? "<|begin_of_text|>" : "<|im_start|>"));
        ppo_tokens_free(&tokens);
        ppo_tokenizer_free(tok);
    }
}

/* -- what is learned -- */

static void what_the_assistant_says_and_its_end_are_learned(void **state) {
    (void)state;
    static const struct {
        int form, thinking;
        const char *answer, *learned;
    } cases[] = {{PPO_CHAT_LLAMA32, 0, "b", "b<|eot_id|>"},
                 {PPO_CHAT_QWEN3, 0, "b", "b<|im_end|>"},
                 {PPO_CHAT_QWEN3, 1, "b", "<think>\n\n</think>\n\nb<|im_end|>"},
                 {PPO_CHAT_QWEN3, 0, "<think>\nc\n</think>\n\nb", "<think>\nc\n</think>\n\nb<|im_end|>"},
                 {PPO_CHAT_SMOLLM3, 0, "b", "b<|im_end|>"},
                 {PPO_CHAT_GEMMA3, 0, "b", "b<end_of_turn>"},
                 {PPO_CHAT_PHI3, 0, "b", "b<|end|>"},
                 {PPO_CHAT_OLMO2, 0, "b", "b<|endoftext|>"},
                 {PPO_CHAT_GRANITE, 0, "b", "b<|end_of_text|>"}};
    ppo_tokenizer *tok = in_folder("<bos>", "<|endoftext|>", NULL);
    for (int i = 0; i < COUNT(cases); i++) {
        const ppo_message said[] = {{"system", "s"}, {"user", "a"}, {"assistant", cases[i].answer}};
        const ppo_chat_how how = {cases[i].form, cases[i].thinking, NULL};
        ppo_tokens tokens = {0};
        char text[256], end[64];
        int n = 0, learned[64];
        assert_ok(ppo_tokens_add_chat_as(&tokens, tok, &how, said, 3, 0));
        for (int t = tokens.prompt[0]; t < tokens.start[1]; t++)
            if (!tokens.given || !tokens.given[t]) learned[n++] = tokens.token[t];
        assert_ok(ppo_decode(tok, learned, n, text, sizeof text, NULL));
        assert_string_equal(text, cases[i].learned);
        const int last = ppo_chat_end(tok, cases[i].form);
        assert_ok(ppo_decode(tok, &last, 1, end, sizeof end, NULL));
        assert_string_equal(strstr(text, end), end);
        ppo_tokens_free(&tokens);
    }
    assert_int_equal(ppo_chat_end(tok, -1), -1);
    assert_int_equal(ppo_chat_end(NULL, 0), -1);
    ppo_tokenizer_free(tok);
}

static void a_prompt_and_its_completion_are_one_chat(void **state) {
    (void)state;
    static const char line[] =
        "{\"prompt\": [{\"role\": \"user\", \"content\": \"a\"}], \"completion\": \"%s\"}\n";
    static const char *const answers[] = {"b", "<think>\\nc\\n</think>\\n\\nb"};
    static const char *const learned[] = {"b<|im_end|>\n", "c\n</think>\n\nb<|im_end|>\n"};
    ppo_tokenizer *tok = in_folder("<bos>", "<|endoftext|>", NULL);
    for (int i = 0; i < 2; i++) {
        ppo_lines lines = ppo_lines_default();
        ppo_tokens tokens = {0};
        char text[256];
        lines.form = PPO_CHAT_QWEN3;
        snprintf(text, sizeof text, line, answers[i]);
        assert_ok(ppo_text_save("chat.jsonl", text, strlen(text)));
        assert_ok(ppo_tokens_add_lines(&tokens, NULL, "chat.jsonl", tok, &lines, NULL));
        const int first = tokens.prompt[0];
        assert_ok(ppo_decode(tok, tokens.token + first, tokens.start[1] - first, text, sizeof text, NULL));
        assert_string_equal(text, learned[i]);
        ppo_tokens_free(&tokens);
    }
    ppo_tokenizer_free(tok);
}

static void a_chat_without_a_place_in_the_form_is_refused(void **state) {
    (void)state;
    static const ppo_message twice[] = {{"user", "a"}, {"user", "b"}},
                             system[] = {{"system", "a"}, {"user", "b"}};
    ppo_tokenizer *tok = in_folder("<bos>", "<eos>", NULL);
    ppo_tokens tokens = {0};
    ppo_chat_how how = ppo_chat_how_default();
    assert_fails(ppo_tokens_add_chat(&tokens, tok, PPO_CHAT_GEMMA3, twice, 2, 0), PPO_ERROR_ARGUMENT,
                 "message 1 is of the role user, but in gemma3");
    assert_fails(ppo_tokens_add_chat(&tokens, tok, PPO_CHAT_GEMMA, system, 2, 0), PPO_ERROR_ARGUMENT,
                 "gemma has no system message");
    how.form = PPO_CHAT_SMOLLM3, how.thinking = 1;
    assert_fails(ppo_tokens_add_chat_as(&tokens, tok, &how, twice, 1, 1), PPO_ERROR_ARGUMENT,
                 "smollm3 with thinking needs a system message");
    how.date = "a date that is longer than any date that was ever written in a chat with a model";
    assert_fails(ppo_tokens_add_chat_as(&tokens, tok, &how, twice, 1, 1), PPO_ERROR_ARGUMENT,
                 "a date of 80 bytes");
    enum { LONG = 1 << 25, MANY = 64 }; /* a text, as often as makes 2 GB of it */
    ppo_message all[MANY];
    char *text = (char *)malloc(LONG + 1);
    assert_non_null(text);
    memset(text, 'a', LONG), text[LONG] = 0;
    for (int m = 0; m < MANY; m++) all[m].role = m % 2 ? "assistant" : "user", all[m].text = text;
    assert_fails(ppo_tokens_add_chat(&tokens, tok, PPO_CHATML, all, MANY, 1), PPO_ERROR_ARGUMENT,
                 "messages of 21474");
    free(text);
    assert_int_equal(tokens.count, 0);
    ppo_tokens_free(&tokens);
    ppo_tokenizer_free(tok);
}

static void today_is_the_date(void **state) {
    (void)state;
    static const ppo_message said[] = {{"user", "a"}};
    const time_t now = time(NULL);
    char today[32], text[1024];
    ppo_tokenizer *tok = in_folder("<bos>", "<eos>", NULL);
    ppo_tokens tokens = {0};
    strftime(today, sizeof today, "Today Date: %d %b %Y\n", localtime(&now));
    assert_ok(ppo_tokens_add_chat(&tokens, tok, PPO_CHAT_LLAMA32, said, 1, 1));
    assert_ok(ppo_decode(tok, tokens.token, tokens.start[1], text, sizeof text, NULL));
    assert_non_null(strstr(text, today));
    ppo_tokens_free(&tokens);
    ppo_tokenizer_free(tok);
}

/* The text of a chat, or NULL: it is refused. */
static const char *text_of(const ppo_tokenizer *tok, int form, const ppo_message *said, int count,
                           int reply) {
    static char text[1024];
    const ppo_chat_how how = {form, 0, "today"};
    ppo_tokens tokens = {0};
    const ppo_status status = ppo_tokens_add_chat_as(&tokens, tok, &how, said, count, reply);
    if (!status) assert_ok(ppo_decode(tok, tokens.token, tokens.start[1], text, sizeof text, NULL));
    ppo_tokens_free(&tokens);
    return status ? NULL : text;
}

/* In the tokenizer.json of a folder, the special token takes the spaces on a side: lstrip, rstrip. */
static void let_strip(const char *name, const char *side) {
    char *text = NULL, find[64];
    snprintf(find, sizeof find, "\"content\": \"%s\"", name);
    assert_ok(ppo_text_load("chat/tokenizer.json", &text, NULL));
    char *at = strstr(text, find);
    assert_non_null(at);
    snprintf(find, sizeof find, "\"%s\": false", side);
    at = strstr(at, find);
    assert_non_null(at);
    memcpy(at + strlen(find) - 5, " true", 5);
    assert_ok(ppo_text_save("chat/tokenizer.json", text, strlen(text)));
    ppo_text_free(text);
}

/* As Hugging Face's tokenizers do where the text of a chat has the token's name: so do phi3's. */
static void a_special_token_takes_the_spaces_beside_it(void **state) {
    (void)state;
    static const ppo_message said[] = {{"user", "  a b \n"}, {"assistant", "\n c "}},
                             blank = {"user", " \n "};
    ppo_tokenizer *tok = in_folder("<s>", "<|endoftext|>", NULL);
    assert_string_equal(text_of(tok, PPO_CHAT_PHI3, said, 2, 0),
                        "<|user|>\n  a b \n<|end|>\n<|assistant|>\n\n c <|end|>\n<|endoftext|>");
    ppo_tokenizer_free(tok), tok = NULL;
    let_strip("<|user|>", "rstrip"), let_strip("<|assistant|>", "rstrip"), let_strip("<|end|>", "rstrip");
    assert_ok(ppo_tokenizer_load("chat", &tok));
    assert_string_equal(text_of(tok, PPO_CHAT_PHI3, said, 2, 0),
                        "<|user|>a b \n<|end|><|assistant|>c <|end|><|endoftext|>");
    assert_string_equal(text_of(tok, PPO_CHAT_PHI3, &blank, 1, 1), "<|user|><|end|><|assistant|>");
    ppo_tokenizer_free(tok), tok = NULL;
    let_strip("<|end|>", "lstrip");
    assert_ok(ppo_tokenizer_load("chat", &tok));
    assert_string_equal(text_of(tok, PPO_CHAT_PHI3, said, 1, 1), "<|user|>a b<|end|><|assistant|>");
    ppo_tokenizer_free(tok), tok = NULL;
    let_strip("<|im_start|>", "rstrip"); /* only what follows it, which is the role */
    assert_ok(ppo_tokenizer_load("chat", &tok));
    assert_string_equal(text_of(tok, PPO_CHATML, said, 2, 0),
                        "<|im_start|>user\n  a b \n<|im_end|>\n<|im_start|>assistant\n\n c <|im_end|>\n");
    ppo_tokenizer_free(tok);
}

static void messages_of_systems_and_tools_are_where_a_form_has_them(void **state) {
    (void)state;
    static const ppo_message later[] = {{"user", "a"}, {"system", ""}, {"system", "s"}, {"assistant", "b"}};
    static const ppo_message tools[] = {{"user", "a"},
                                        {"assistant", "<think>\nt\n</think>\n\nb"},
                                        {"user", "<tool_response>\n1\n</tool_response>"},
                                        {"assistant", "c"}};
    static const ppo_message odd[] = {{"user", "\034 a\037"}, {"assistant", "b\035\036"}};
    ppo_tokenizer *tok = in_folder("<s>", "</s>", NULL);
    assert_string_equal(text_of(tok, PPO_CHATML, later, 3, 0),
                        "<|im_start|>user\na<|im_end|>\n<|im_start|>system\n<|im_end|>\n"
                        "<|im_start|>system\ns<|im_end|>\n");
    assert_string_equal(text_of(tok, PPO_CHAT_PHI35, later, 4, 0),
                        "<|user|>\na<|end|>\n<|system|>\ns<|end|>\n<|assistant|>\nb<|end|>\n</s>");
    assert_null(strstr(text_of(tok, PPO_CHAT_SMOLLM3, later, 4, 0), "\ns<"));
    /* what was thought since the last question stays */
    assert_string_equal(text_of(tok, PPO_CHAT_QWEN3, tools, 4, 0),
                        "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n<think>\nt\n</think>\n\n"
                        "b<|im_end|>\n<|im_start|>user\n<tool_response>\n1\n</tool_response><|im_end|>\n"
                        "<|im_start|>assistant\n<think>\n\n</think>\n\nc<|im_end|>\n");
    /* as Python's strip() does */
    assert_string_equal(text_of(tok, PPO_CHAT_GEMMA, odd, 2, 0),
                        "<s><start_of_turn>user\na<end_of_turn>\n<start_of_turn>model\nb<end_of_turn>\n");
    /* a reply to nothing */
    assert_string_equal(text_of(tok, PPO_CHATML, NULL, 0, 1), "<|im_start|>assistant\n");
    assert_string_equal(text_of(tok, PPO_CHAT_GEMMA, NULL, 0, 1), "<start_of_turn>model\n");
    assert_string_equal(text_of(tok, PPO_CHAT_GEMMA3, NULL, 0, 1), "<start_of_turn>model\n");
    ppo_tokenizer_free(tok);
}

static void a_form_whose_tokens_are_not_there_is_refused(void **state) {
    (void)state;
    static const ppo_message said[] = {{"user", "a"}, {"assistant", "b"}};
    ppo_tokenizer *tok = in_folder("<s>", "</s>", NULL);
    ppo_tokens tokens = {0};
    assert_ok(ppo_text_save("chat/tokenizer_config.json", "{}", 2));
    for (int alone = 0; alone < 2; alone++) { /* of a folder that names no ends; and of none */
        ppo_tokenizer_free(tok), tok = NULL;
        if (alone) assert_ok(ppo_tokenizer_bytes(specials, COUNT(specials), &tok));
        else assert_ok(ppo_tokenizer_load("chat", &tok));
        assert_fails(ppo_tokens_add_chat(&tokens, tok, PPO_CHAT_PHI3, said, 2, 0), PPO_ERROR_ARGUMENT,
                     "the tokenizer has no token \"eos\"");
        assert_fails(ppo_tokens_add_chat(&tokens, tok, PPO_CHAT_GEMMA, said, 2, 0), PPO_ERROR_ARGUMENT,
                     "the tokenizer has no token \"bos\"");
        assert_int_equal(tokens.count, 0);
    }
    ppo_tokenizer_free(tok);
    ppo_tokens_free(&tokens);
}

static ppo_status use_chats(void *user) {
    static const ppo_message said[] = {{"system", "/no_think s"}, {"user", "a"}, {"assistant", "b"}};
    static const ppo_message briefly[] = {{"system", "s /system_override"}, {"user", "a"}};
    const ppo_tokenizer *tok = (const ppo_tokenizer *)user;
    ppo_tokens tokens = {0};
    int form = 0;
    ppo_status status = ppo_chat_form(tok, &form);
    ppo_chat_how how = {PPO_CHAT_SMOLLM3, 1, NULL};
    if (!status) status = ppo_tokens_add_chat_as(&tokens, tok, &how, said, 3, 0);
    if (!status) status = ppo_tokens_add_chat_as(&tokens, tok, &how, briefly, 2, 1);
    how.form = PPO_CHAT_OWN;
    if (!status) status = ppo_tokens_add_chat_as(&tokens, tok, &how, said, 3, 0);
    ppo_tokens_free(&tokens);
    return status;
}

static void every_failing_allocation_of_a_chat_is_reported(void **state) {
    (void)state;
    ppo_tokenizer *tok = in_folder("<s>", "</s>", ppo_chat_template(PPO_CHAT_LLAMA3));
    assert_true(fail_each_site(use_chats, tok, 1) >= 10);
    ppo_tokenizer_free(tok);
}

/* -- sampling -- */

/* What RepetitionPenaltyLogitsProcessor makes of logits. */
static void penalize(const float *logits, int vocab, const int *token, int n, float penalty, float *to) {
    memcpy(to, logits, (size_t)vocab * sizeof *to);
    for (int i = 0; i < n; i++) {
        const float x = logits[token[i]];
        to[token[i]] = x < 0 ? x * penalty : x / penalty;
    }
}

static void min_p_and_the_penalty_are_those_of_transformers(void **state) {
    (void)state;
    enum { N = g_after_vocab };
    const float *const want[] = {g_after_min_p_alone, g_after_all_but, g_after_all};
    for (int i = 0; i < 3 * g_after_rows; i++) {
        const int row = i % g_after_rows, kind = i / g_after_rows;
        const float *logits = g_after_logits + row * N;
        ppo_sampling how = ppo_sampling_default();
        float now[N], p[N], scratch[N];
        how.min_p = g_after_min_p;
        if (kind) how.temperature = g_after_temperature, how.top_p = g_after_top_p, how.top_k = g_after_top_k;
        penalize(logits, N, g_after_tokens + row * g_after_text, kind == 2 ? g_after_text : 0,
                 g_after_penalty, now);
        assert_ok(ppo_sampling_probabilities(&how, now, N, p, scratch));
        assert_close_array(p, want[kind] + row * N, N, 1e-6);
        for (int j = 0; j < N; j++) assert_true((p[j] == 0) == (want[kind][row * N + j] == 0));
    }
}

static void a_generator_penalizes_what_its_sequence_has(void **state) {
    (void)state;
    enum { VOCAB = 11, CONTEXT = 24, TEXTS = 5 };
    ppo_lm_config config = ppo_lm_config_default();
    ppo_lm *lm = NULL;
    ppo_generator *generator = NULL;
    ppo_tokens prompts = {0};
    ppo_samples samples, plain;
    int differ = 0;
    config.vocab = VOCAB, config.context = CONTEXT, config.width = 16, config.heads = 2, config.layers = 1;
    assert_ok(ppo_lm_create(&config, &lm));
    for (int i = 0; i < TEXTS; i++) {
        const int token[3] = {i, 2 * i, 3};
        assert_ok(ppo_tokens_add(&prompts, token, 1 + i % 3, 1 + i % 3));
    }
    assert_ok(ppo_generator_create(lm, 2, &generator));
    for (int greedy = 0; greedy < 2; greedy++) {
        ppo_sampling how = ppo_sampling_default();
        int kept[TEXTS][CONTEXT];
        how.greedy = greedy, how.top_k = greedy ? 0 : 1; /* the most likely one, either way */
        if (greedy) {                                    /* and all logits about -1 */
            lm->norm_weight->data[0] = 0, lm->norm_bias->data[0] = -1;
            for (int v = 0; v < VOCAB; v++) lm->head->data[v * config.width] = 1;
        }
        assert_ok(ppo_generate(generator, &prompts, &how, &plain));
        for (int s = 0; s < TEXTS; s++)
            memcpy(kept[s], plain.tokens.token + plain.tokens.start[s], sizeof kept[s]);
        how.repetition_penalty = 1.5f;
        assert_ok(ppo_generate(generator, &prompts, &how, &samples));
        for (int s = 0; s < TEXTS; s++) {
            const int *token = samples.tokens.token + samples.tokens.start[s];
            assert_int_equal(samples.tokens.start[s + 1] - samples.tokens.start[s], CONTEXT);
            differ += memcmp(kept[s], token, sizeof kept[s]) != 0;
            for (int n = samples.tokens.prompt[s]; n < CONTEXT; n++) {
                ppo_tape *tape = NULL;
                ppo_tokens one = {0};
                float now[VOCAB], logp;
                assert_ok(ppo_tokens_add(&one, token, n, n));
                assert_ok(ppo_tape_create(&tape));
                const ppo_tensor *logits = ppo_lm_logits(tape, lm, ppo_lm_forward(tape, lm, &one));
                const float *last = logits->data + (n - 1) * VOCAB;
                penalize(last, VOCAB, token, n, how.repetition_penalty, now);
                assert_int_equal(token[n], ppo_categorical_mode(now, VOCAB));
                assert_ok(ppo_token_logp(last, &token[n], 1, VOCAB, 1, &logp, NULL)); /* the model's own */
                assert_close(samples.logp[samples.tokens.start[s] + n], logp, 1e-6);
                ppo_tape_free(tape);
                ppo_tokens_free(&one);
            }
        }
    }
    assert_true(differ > 0);
    ppo_generator_free(generator);
    ppo_tokens_free(&prompts);
    ppo_lm_free(lm);
}

static void sampling_is_what_the_folder_says(void **state) {
    (void)state;
    static const struct {
        const char *json, *says; /* or the error */
        int good, greedy, top_k;
        float temperature, top_p, min_p, penalty;
    } cases[] = {
        {NULL, "", 1, 0, 0, 1, 1, 0, 1},
        {"{}", "greedy", 1, 1, 0, 1, 1, 0, 1},
        {"{\"do_sample\": false, \"temperature\": 0.5, \"repetition_penalty\": 1.05}",
         "greedy, repetition_penalty 1.05", 1, 1, 0, 1, 1, 0, 1.05f},
        {"{\"do_sample\": true, \"temperature\": 0.6, \"top_p\": 0.95, \"top_k\": 20, \"min_p\": 0.1}",
         "sampling, temperature 0.6, top_k 20, top_p 0.95, min_p 0.1", 1, 0, 20, 0.6f, 0.95f, 0.1f, 1},
        {"{\"do_sample\": true, \"temperature\": null}", "sampling, top_k 50", 1, 0, 50, 1, 1, 0, 1},
        {"{\"do_sample\": true, \"temperature\": 0}", "generation_config.json: temperature is 0", 0, 0, 0, 0,
         0, 0, 0},
        {"{\"do_sample\": 1}", "chat/generation_config.json", 0, 0, 0, 0, 0, 0, 0},
        {"{\"do_sample\": true, \"temperature\": \"hot\", \"top_p\": [], \"top_k\": true}",
         "sampling, top_k 50", 1, 0, 50, 1, 1, 0, 1},
        {"{\"do_sample\": true, \"temperature\": -1, \"top_k\": 3, \"top_p\": 0.5}", "temperature is -1", 0,
         0, 0, 0, 0, 0, 0},
        {"{\"do_sample\": true, \"temperature\": 1e999}", "expected a finite number", 0, 0, 0, 0, 0, 0, 0},
        {"{\"do_sample\": ", "generation_config.json", 0, 0, 0, 0, 0, 0, 0},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_sampling how = ppo_sampling_default();
        char says[128] = "";
        remove("chat/generation_config.json");
        if (cases[i].json)
            assert_ok(ppo_text_save("chat/generation_config.json", cases[i].json, strlen(cases[i].json)));
        const ppo_status status = ppo_sampling_load("chat", &how, says, sizeof says);
        if ((status == PPO_OK) != cases[i].good) fail_msg("case %d: %s", i, ppo_last_error());
        if (status && !strstr(ppo_last_error(), cases[i].says)) fail_msg("case %d: %s", i, ppo_last_error());
        if (status) continue;
        assert_string_equal(says, cases[i].says);
        assert_int_equal(how.greedy, cases[i].greedy);
        assert_int_equal(how.top_k, cases[i].top_k);
        assert_true(how.temperature == cases[i].temperature && how.top_p == cases[i].top_p);
        assert_true(how.min_p == cases[i].min_p && how.repetition_penalty == cases[i].penalty);
    }
    /* a line that is too short is cut, and a .gguf file says nothing */
    ppo_sampling how = ppo_sampling_default();
    char says[9] = "no words";
    assert_ok(ppo_text_save("chat/generation_config.json", cases[3].json, strlen(cases[3].json)));
    assert_ok(ppo_sampling_load("chat", &how, says, sizeof says));
    assert_string_equal(says, "sampling");
    assert_true(how.top_k == 20);
    assert_ok(ppo_sampling_load("chat", &how, NULL, 0));
    assert_ok(ppo_text_save("chat/generation_config.json", "GGUF\3\0\0\0", 8));
    assert_ok(ppo_sampling_load("chat/generation_config.json", &how, says, sizeof says));
    assert_string_equal(says, "");
    remove("chat/generation_config.json");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_those_of_apply_chat_template),
        cmocka_unit_test(a_template_is_recognized_however_it_is_written),
        cmocka_unit_test(the_form_of_the_folder_is_used_by_its_number),
        cmocka_unit_test(what_the_assistant_says_and_its_end_are_learned),
        cmocka_unit_test(a_prompt_and_its_completion_are_one_chat),
        cmocka_unit_test(a_chat_without_a_place_in_the_form_is_refused),
        cmocka_unit_test(today_is_the_date),
        cmocka_unit_test(a_special_token_takes_the_spaces_beside_it),
        cmocka_unit_test(messages_of_systems_and_tools_are_where_a_form_has_them),
        cmocka_unit_test(a_form_whose_tokens_are_not_there_is_refused),
        cmocka_unit_test(every_failing_allocation_of_a_chat_is_reported),
        cmocka_unit_test(min_p_and_the_penalty_are_those_of_transformers),
        cmocka_unit_test(a_generator_penalizes_what_its_sequence_has),
        cmocka_unit_test(sampling_is_what_the_folder_says),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
