/* ppo_chat.h - chats with published language models, in the form that each of them was trained with

       #define PPO_IMPLEMENTATION
       #include "ppo.h"
       #include "ppo_chat.h"              // after ppo.h; other files may include it for its declarations

       int form = PPO_CHATML;
       ppo_message said[] = {{"system", "You answer in one sentence."}, {"user", "What is a policy?"}};
       ppo_tokens chat = {0};
       ppo_chat_form(tok, &form);                                  // what the folder of the tokenizer says
       ppo_tokens_add_chat(&chat, tok, form, said, 2, 1);          // ready for ppo_generate()

   Copy this file beside ppo_hub.h, which it includes, and what that needs. In the folder examples/, where they are in
   companions/, programs include it from there: #include "companions/ppo_chat.h". A program that uses a GPU includes it
   before ppo_cuda.cuh. ppo_tokens_add_lines() of ppo_hub.h needs this file for lines with messages.

FORMS

   A model's folder says how its chats are written by a template in Jinja, in tokenizer_config.json or chat_template.jinja.
   Templates are not run here: ppo_chat_form() recognizes those below by the parts of their text that matter, whatever
   their spaces, comments and ways to quote, and ppo_tokens_add_chat() writes the tokens of transformers'
   apply_chat_template() without tools. A template that somebody changed elsewhere, or in its spaces, passes for its
   original.

       form                 name         ends a turn      models, and what the form adds
       PPO_CHATML           chatml       <|im_end|>       Qwen 3 Instruct 2507, many others
       PPO_CHAT_LLAMA3      llama3       <|eot_id|>       Llama 3
       PPO_CHAT_ZEPHYR      zephyr       </s>             Zephyr, TinyLlama
       PPO_CHAT_LLAMA31     llama3.1     <|eot_id|>       Llama 3.1, 3.3: a system message with two fixed dates
       PPO_CHAT_LLAMA32     llama3.2     <|eot_id|>       Llama 3.2: the same with the date of today
       PPO_CHAT_QWEN2       qwen2        <|im_end|>       Qwen 2: a system message where a chat has none
       PPO_CHAT_QWEN25      qwen2.5      <|im_end|>       Qwen 2.5: the same, another text
       PPO_CHAT_QWEN3       qwen3        <|im_end|>       Qwen 3: an empty thought before an answer, without `thinking`, and
                                                          thoughts of earlier turns are left out
       PPO_CHAT_SMOLLM2     smollm2      <|im_end|>       SmolLM2: a system message where a chat has none
       PPO_CHAT_SMOLLM3     smollm3      <|im_end|>       SmolLM3: always a system message, with the date of today; an empty
                                                          thought. /think, /no_think and /system_override there are obeyed
       PPO_CHAT_GEMMA       gemma        <end_of_turn>    Gemma 1 and 2, which have no system messages
       PPO_CHAT_GEMMA3      gemma3       <end_of_turn>    Gemma 3: a system message begins the first turn of the user
       PPO_CHAT_PHI3        phi3         <|end|>          Phi 3; an end of text where no reply is asked for
       PPO_CHAT_PHI35       phi3.5       <|end|>          Phi 3.5; the same, without empty system messages
       PPO_CHAT_OLMO2       olmo2        (eos)            OLMo 2, Tulu
       PPO_CHAT_GRANITE30   granite3.0   <|end_of_text|>  Granite 3.0
       PPO_CHAT_GRANITE     granite      <|end_of_text|>  Granite 3.1 to 3.3: a system message with the date of today where
                                                          a chat has none
       PPO_CHAT_GRANITE33   granite3.3   <|end_of_text|>  Granite 3.3 in an earlier edition: the same in one line
       PPO_CHAT_GRANITE4    granite4     <|end_of_text|>  Granite 4: a system message where a chat has none

   Dates are those of apply_chat_template(): of the day on which the chat is written, in English; ppo_chat_how sets another
   one. A model that is trained on many days sees many dates: set one where a training is to be repeated.

WHAT IS LEARNED

   What the assistant says, with the token that ends its turn; all else is given. An assistant's text is encoded separately
   from what precedes it, as it is sampled: its tokens differ from the template's where it begins with a space or line
   break. Names of special tokens in a message stay text.

   License: that of ppo.h. */
#ifndef PPO_CHAT_H
#define PPO_CHAT_H
#ifndef PPO_H
#error "include ppo.h before ppo_chat.h"
#elif PPO_VERSION_MAJOR != 0 || PPO_VERSION_MINOR != 3
#error "ppo_chat.h belongs to version 0.3 of ppo.h"
#endif

#include "ppo_hub.h"

#ifndef PPO_NO_LANGUAGE
#ifdef __cplusplus
extern "C" {
#endif

enum {
    PPO_CHAT_OWN = -1, /* that of the folder; PPO_CHATML if it has no template */
    PPO_CHATML,
    PPO_CHAT_LLAMA3,
    PPO_CHAT_ZEPHYR,
    PPO_CHAT_LLAMA31,
    PPO_CHAT_LLAMA32,
    PPO_CHAT_QWEN2,
    PPO_CHAT_QWEN25,
    PPO_CHAT_QWEN3,
    PPO_CHAT_SMOLLM2,
    PPO_CHAT_SMOLLM3,
    PPO_CHAT_GEMMA,
    PPO_CHAT_GEMMA3,
    PPO_CHAT_PHI3,
    PPO_CHAT_PHI35,
    PPO_CHAT_OLMO2,
    PPO_CHAT_GRANITE30,
    PPO_CHAT_GRANITE,
    PPO_CHAT_GRANITE33,
    PPO_CHAT_GRANITE4,
    PPO_CHAT_FORMS /* how many there are */
};

/* The name of a form, as above; "": there is no such form. */
PPO_DEF const char *ppo_chat_name(int form);

/* The form of the chat template of the folder (or .gguf file) that the tokenizer was read from; *form is -1 if there
   is no template. Errors: a template that is recognized as none of the forms above. */
PPO_DEF ppo_status ppo_chat_form(const ppo_tokenizer *tokenizer, int *form);

/* The token that ends a turn in this form, or -1: the tokenizer has none. */
PPO_DEF int ppo_chat_end(const ppo_tokenizer *tokenizer, int form);

/* A sentence if the folder's chat template writes something else than this form; "": it has none, or this one. */
PPO_DEF const char *ppo_tokenizer_chat_note(const ppo_tokenizer *tokenizer, int form);

/* A chat template of Python's transformers that writes chats in this form; "": there is none of our own, which is so
   but for chatml, llama3 and zephyr. */
PPO_DEF const char *ppo_chat_template(int form);

/* Adds a chat as one sequence. reply not 0: the chat ends where the assistant's next turn begins, and all of it is
   the prompt, for ppo_generate(). Errors: another role, one that the form has no place for, a token that the
   tokenizer lacks. */
PPO_DEF ppo_status ppo_tokens_add_chat(ppo_tokens *tokens, const ppo_tokenizer *tokenizer, int form,
                                       const ppo_message *messages, int count, int reply);

/* The same with settings; defaults in brackets. */
typedef struct ppo_chat_how {
    int form; /* [PPO_CHATML] */
    /* 1: the model may think before it answers (enable_thinking of qwen3 and smollm3; smollm3 then needs a system
       message) [0] */
    int thinking;
    const char *date; /* instead of that of today, in the words of the form, such as "26 Jul 2024" [NULL] */
} ppo_chat_how;
PPO_DEF ppo_chat_how ppo_chat_how_default(void);
PPO_DEF ppo_status ppo_tokens_add_chat_as(ppo_tokens *tokens, const ppo_tokenizer *tokenizer,
                                          const ppo_chat_how *how, const ppo_message *messages, int count,
                                          int reply);

/* Sets what the folder's generation_config.json says of sampling, as transformers' generate() takes it: greedy, or
   if do_sample is true with temperature, top_k (50 if it is not said), top_p and min_p; in both cases with
   repetition_penalty, which needs ppo_methods.h. says [room] (may be NULL) receives a line that tells the settings,
   "" if there is no such file. The tokens that end a text are those of ppo_lm_load_ends(). Errors: those of files, a
   number out of range. */
PPO_DEF ppo_status ppo_sampling_load(const char *path, ppo_sampling *sampling, char *says, size_t room);

#ifdef __cplusplus
}
#endif
#endif /* PPO_NO_LANGUAGE */
#endif /* PPO_CHAT_H */
/* ========================================================================================================
   IMPLEMENTATION
   ======================================================================================================== */

#if defined(PPO_IMPLEMENTATION) && !defined(PPO__CHAT_IMPLEMENTED) && !defined(PPO_NO_LANGUAGE)
#define PPO__CHAT_IMPLEMENTED

PPO__WARNINGS_OFF

#include <time.h>

/* --------------------------------------------------------------------------------------------------------
   @@ Forms
   -------------------------------------------------------------------------------------------------------- */

/* What a form does besides. */
enum {
    PPO__CHAT_TRIM = 1,          /* without the spaces at the ends of a message */
    PPO__CHAT_MODEL = 2,         /* the assistant is called model; user and assistant take turns */
    PPO__CHAT_MERGE = 4,         /* a system message begins the first turn of the user */
    PPO__CHAT_NO_SYSTEM = 8,     /* there is none */
    PPO__CHAT_THINKS = 16,       /* thoughts, as in qwen3 */
    PPO__CHAT_SMOL = 32,         /* a system message of many parts, as in smollm3 */
    PPO__CHAT_FULL = 64,         /* an empty system message is left out, or replaced by `system` */
    PPO__CHAT_ANSWERS = 128,     /* only answers are closed; nothing follows the last one */
    PPO__CHAT_AFTER_SYSTEM = 256 /* a reply begins only after another message than that of the system */
};

/* Parts of a form: {name} is a special token ({bos} and {eos} those of the folder), % the role, $ the date. `close`
   is learned. */
typedef struct ppo__chat_row {
    const char *name;
    const char *start;  /* of all */
    const char *lead;   /* between `before` and the text of a system message that is the first one */
    const char *system; /* the text of one if there is none; NULL: nothing */
    const char *before, *close, *after;
    const char *finish; /* if no reply is asked for */
    const char *date;   /* for strftime(), or a fixed date */
    int flags;
} ppo__chat_row;

#define PPO__CHAT_ML    "{<|im_start|>}%\n", "{<|im_end|>}", "\n", ""
#define PPO__CHAT_LLAMA "{<|start_header_id|>}%{<|end_header_id|>}\n\n", "{<|eot_id|>}", "", ""
#define PPO__CHAT_TURNS "{<start_of_turn>}%\n", "{<end_of_turn>}", "\n", ""
#define PPO__CHAT_ROLES "{<|start_of_role|>}%{<|end_of_role|>}", "{<|end_of_text|>}", "\n", ""
static const char ppo__llama_lead[] = "Cutting Knowledge Date: December 2023\nToday Date: $\n\n";
static const ppo__chat_row ppo__chat_rows[PPO_CHAT_FORMS] = {
    {"chatml", "", "", NULL, PPO__CHAT_ML, "", 0},
    {"llama3", "{<|begin_of_text|>}", "", NULL, PPO__CHAT_LLAMA, "", PPO__CHAT_TRIM},
    {"zephyr", "", "", NULL, "<|%|>\n", "{</s>}", "\n", "", "", 0},
    {"llama3.1", "{<|begin_of_text|>}", ppo__llama_lead, "", PPO__CHAT_LLAMA, "26 Jul 2024", PPO__CHAT_TRIM},
    {"llama3.2", "{<|begin_of_text|>}", ppo__llama_lead, "", PPO__CHAT_LLAMA, "%d %b %Y", PPO__CHAT_TRIM},
    {"qwen2", "", "", "You are a helpful assistant.", PPO__CHAT_ML, "", 0},
    {"qwen2.5", "", "", "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.", PPO__CHAT_ML,
     "", 0},
    {"qwen3", "", "", NULL, PPO__CHAT_ML, "", PPO__CHAT_THINKS},
    {"smollm2", "", "", "You are a helpful AI assistant named SmolLM, trained by Hugging Face", PPO__CHAT_ML,
     "", 0},
    {"smollm3", "", "", NULL, PPO__CHAT_ML, "%d %B %Y", PPO__CHAT_SMOL},
    {"gemma", "{bos}", "", NULL, PPO__CHAT_TURNS, "", PPO__CHAT_TRIM | PPO__CHAT_MODEL | PPO__CHAT_NO_SYSTEM},
    {"gemma3", "{bos}", "", NULL, PPO__CHAT_TURNS, "", PPO__CHAT_TRIM | PPO__CHAT_MODEL | PPO__CHAT_MERGE},
    {"phi3", "", "", NULL, "{<|%|>}\n", "{<|end|>}", "\n", "{eos}", "", 0},
    {"phi3.5", "", "", NULL, "{<|%|>}\n", "{<|end|>}", "\n", "{eos}", "", PPO__CHAT_FULL},
    {"olmo2", "{bos}", "", NULL, "<|%|>\n", "{eos}", "\n", "", "", PPO__CHAT_ANSWERS},
    {"granite3.0", "", "", NULL, PPO__CHAT_ROLES, "", 0},
    {"granite", "", "",
     "Knowledge Cutoff Date: April 2024.\nToday's Date: $.\n"
     "You are Granite, developed by IBM. You are a helpful AI assistant.",
     PPO__CHAT_ROLES, "%B %d, %Y", PPO__CHAT_AFTER_SYSTEM},
    {"granite3.3", "", "",
     "Knowledge Cutoff Date: April 2024. Today's Date: $. "
     "You are Granite, developed by IBM. You are a helpful AI assistant.",
     PPO__CHAT_ROLES, "%B %d, %Y", PPO__CHAT_AFTER_SYSTEM},
    {"granite4", "", "",
     "You are a helpful assistant. Please ensure responses are professional, accurate, and safe.",
     PPO__CHAT_ROLES, "", PPO__CHAT_FULL},
};

static int ppo__chat_known(int form) { return form >= 0 && form < PPO_CHAT_FORMS; }

PPO_DEF const char *ppo_chat_name(int form) { return ppo__chat_known(form) ? ppo__chat_rows[form].name : ""; }

PPO_DEF const char *ppo_chat_template(int form) {
    static const char *const forms[] = {
        "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + "
        "'<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% "
        "endif %}",
        "{{ '<|begin_of_text|>' }}{% for message in messages %}{{ '<|start_header_id|>' + message['role'] + "
        "'<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}",
        "{% for message in messages %}{{ '<|' + message['role'] + '|>\n' + message['content'] + '</s>' + "
        "'\n' }}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"};
    return form >= PPO_CHATML && form <= PPO_CHAT_ZEPHYR ? forms[form] : "";
}

/* --------------------------------------------------------------------------------------------------------
   @@ Templates

   A template is compared in a plain form, which keeps what makes a difference to its output: no comments, no spaces, no
   quotes, no signs of concatenation, no brackets; a line break that is printed is ~; x['role'] is x.role. Line breaks
   around tags go as transformers sets it (trim_blocks, lstrip_blocks).
   -------------------------------------------------------------------------------------------------------- */

/* A tag at `text`, up to after its end: what is in it, plainly. Returns where it ends. */
static const char *ppo__plain_tag(const char *text, char *out, size_t *n) {
    const char ends = text[1] == '{' ? '}' : '%';
    char quote = 0;
    for (out[(*n)++] = *text++, out[(*n)++] = *text++; *text; ++text) {
        const char c = *text;
        if (!quote && c == ends && text[1] == '}') break;
        if (quote ? c == quote : c == '\'' || c == '"') {
            if (quote) text += text[1] == ']';
            else if (out[*n - 1] == '[') out[*n - 1] = '.';
            quote = quote ? (char)0 : c;
        } else if (quote && c == '\\' && text[1]) {
            ++text;
            out[(*n)++] = *text == 'n' ? '~' : *text;
        } else if (quote && c == '\n') out[(*n)++] = '~';
        else if (!strchr(quote ? " \t\r" : " \t\r\n+-~()", c)) out[(*n)++] = c;
    }
    if (*text) out[(*n)++] = ends, out[(*n)++] = '}', text += 2;
    return text;
}

/* `out` has room for the text. */
static void ppo__plain_template(const char *text, char *out) {
    static const char *const dropped[] = {"{%generation%}", "{%endgeneration%}"};
    size_t n = 0;
    int after = 0; /* '-': the last tag takes the spaces after it, '%': one line break */
    while (*text) {
        const char *tag = text;
        while (*tag && !(tag[0] == '{' && strspn(tag + 1, "{%#"))) ++tag;
        const char *end = tag;
        while (after == '-' && text < tag && strchr(" \t\r\n", *text)) ++text;
        if (after == '%' && text < tag && *text == '\n') ++text;
        if (*tag && tag[2] == '-')
            while (end > text && strchr(" \t\r\n", end[-1])) --end;
        else if (!*tag && end > text && end[-1] == '\n') --end;
        for (; text < end; ++text)
            if (!strchr(" \t\r", *text)) out[n++] = *text == '\n' ? '~' : *text;
        if (!*tag) break;
        if (tag[1] == '#') {
            const char *close = strstr(tag, "#}");
            text = close ? close + 2 : tag + strlen(tag);
        } else {
            const size_t first = n;
            text = ppo__plain_tag(tag, out, &n);
            out[n] = 0;
            for (int k = 0; k < 2; ++k)
                if (!strcmp(out + first, dropped[k])) n = first;
        }
        after = text - tag > 4 && text[-3] == '-' ? '-' : tag[1] != '{' ? '%' : 0;
    }
    out[n] = 0;
}

/* What tells the templates of a form from others, in plain form. "=...": all of it. */
enum { PPO__CHAT_HAS = 5, PPO__CHAT_LACKS = 4 };
static const struct {
    int form;
    const char *has[PPO__CHAT_HAS], *lacks[PPO__CHAT_LACKS];
} ppo__chat_marks[] = {
    {PPO_CHATML,
     {"={%formessageinmessages%}{{<|im_start|>message.role~message.content<|im_end|>~}}{%endfor%}"
      "{%ifadd_generation_prompt%}{{<|im_start|>assistant~}}{%endif%}"},
     {NULL}},
    {PPO_CHATML,
     {"{{<|im_start|>message.role~content<|im_end|>~}}", "{{<|im_start|>message.role~content}}",
      "{{<|im_start|>system~messages[0].content<|im_end|>~}}", "~<tool_response>~",
      "{%ifadd_generation_prompt%}{{<|im_start|>assistant~}}{%endif%}"},
     {"think", "image", "Youarea"}},
    {PPO_CHAT_LLAMA3,
     {"={{<|begin_of_text|>}}{%formessageinmessages%}{{<|start_header_id|>message.role<|end_header_id|>~~"
      "message.content|trim<|eot_id|>}}{%endfor%}{%ifadd_generation_prompt%}{{<|start_header_id|>assistant"
      "<|end_header_id|>~~}}{%endif%}"},
     {NULL}},
    {PPO_CHAT_LLAMA3,
     {"{%setcontent=<|start_header_id|>message.role<|end_header_id|>~~message.content|trim<|eot_id|>%}",
      "{%ifloop.index0==0%}{%setcontent=bos_tokencontent%}{%endif%}",
      "{%ifadd_generation_prompt%}{{<|start_header_id|>assistant<|end_header_id|>~~}}{%endif%}"},
     {"Knowledge", "system", "tool"}},
    {PPO_CHAT_ZEPHYR,
     {"={%formessageinmessages%}{{<|message.role|>~message.content</s>~}}{%endfor%}"
      "{%ifadd_generation_prompt%}{{<|assistant|>~}}{%endif%}"},
     {NULL}},
    {PPO_CHAT_ZEPHYR, /* TinyLlama's own */
     {"={%formessageinmessages%}{%ifmessage.role==user%}{{<|user|>~message.contenteos_token}}~"
      "{%elifmessage.role==system%}{{<|system|>~message.contenteos_token}}~"
      "{%elifmessage.role==assistant%}{{<|assistant|>~message.contenteos_token}}~"
      "{%endif%}{%ifloop.lastandadd_generation_prompt%}{{<|assistant|>}}~{%endif%}{%endfor%}"},
     {NULL}},
    {PPO_CHAT_LLAMA31,
     {"CuttingKnowledgeDate:December2023~", "{{TodayDate:date_string~~}}",
      "{%ifnotdate_stringisdefined%}{%setdate_string=26Jul2024%}{%endif%}",
      "<|start_header_id|>message.role<|end_header_id|>~~message.content|trim<|eot_id|>", "bos_token"},
     {"strftime_now", "think", "image", "functionary"}},
    {PPO_CHAT_LLAMA32,
     {"CuttingKnowledgeDate:December2023~", "{{TodayDate:date_string~~}}", "strftime_now%d%b%Y",
      "<|start_header_id|>message.role<|end_header_id|>~~message.content|trim<|eot_id|>", "bos_token"},
     {"think", "image"}},
    {PPO_CHAT_QWEN2,
     {"={%formessageinmessages%}{%ifloop.firstandmessages[0].role!=system%}{{<|im_start|>system~"
      "Youareahelpfulassistant.<|im_end|>~}}{%endif%}{{<|im_start|>message.role~message.content<|im_end|>~}}"
      "{%endfor%}{%ifadd_generation_prompt%}{{<|im_start|>assistant~}}{%endif%}"},
     {NULL}},
    {PPO_CHAT_SMOLLM2,
     {"={%formessageinmessages%}{%ifloop.firstandmessages[0].role!=system%}{{<|im_start|>system~"
      "YouareahelpfulAIassistantnamedSmolLM,trainedbyHuggingFace<|im_end|>~}}{%endif%}"
      "{{<|im_start|>message.role~message.content<|im_end|>~}}{%endfor%}"
      "{%ifadd_generation_prompt%}{{<|im_start|>assistant~}}{%endif%}"},
     {NULL}},
    {PPO_CHAT_QWEN25,
     {"{{<|im_start|>system~YouareQwen,createdbyAlibabaCloud.Youareahelpfulassistant.<|im_end|>~}}",
      "{{<|im_start|>system~messages[0].content<|im_end|>~}}",
      "{{<|im_start|>message.role~message.content<|im_end|>~}}",
      "message.role==assistantandnotmessage.tool_calls",
      "{%ifadd_generation_prompt%}{{<|im_start|>assistant~}}{%endif%}"},
     {"think", "image"}},
    {PPO_CHAT_QWEN3,
     {"ns.last_query_index", "{%ifloop.lastornotloop.lastandreasoning_content%}",
      "message.role~<think>~reasoning_content.strip~~</think>~~content.lstrip~",
      "{%ifenable_thinkingisdefinedandenable_thinkingisfalse%}{{<think>~~</think>~~}}{%endif%}",
      "{{<|im_start|>system~messages[0].content<|im_end|>~}}"},
     {"image", "preserve", "Youarea"}},
    {PPO_CHAT_SMOLLM3,
     {"/system_override", "{{TodayDate:today~}}", "{{ReasoningMode:reasoning_mode~~}}",
      "xml_toolsorpython_tools", "{{<|im_start|>assistant~<think>~~</think>~}}"},
     {"XMLTools"}},
    {PPO_CHAT_SMOLLM3,
     {"/system_override", "{{TodayDate:today~}}", "{{ReasoningMode:reasoning_mode~~}}",
      "xml_toolsisdefinedorpython_toolsisdefined", "{{<|im_start|>assistant~<think>~~</think>~}}"},
     {"XMLTools"}},
    {PPO_CHAT_GEMMA,
     {"{{bos_token}}{%ifmessages[0].role==system%}{{raise_exception", "loop.index0%2==0",
      "{{<start_of_turn>role~message.content|trim<end_of_turn>~}}",
      "{%ifadd_generation_prompt%}{{<start_of_turn>model~}}{%endif%}"},
     {"first_user_prefix", "think", "tool"}},
    {PPO_CHAT_GEMMA3,
     {"{{bos_token}}", "{{<start_of_turn>role~first_user_prefixifloop.firstelse}}", "loop.index0%2==0",
      "{{message.content|trim}}", "{%ifadd_generation_prompt%}{{<start_of_turn>model~}}{%endif%}"},
     {"think", "tool"}},
    {PPO_CHAT_PHI35,
     {"{%ifmessage.role==systemandmessage.content%}{{<|system|>~message.content<|end|>~}}",
      "{%elifmessage.role==user%}{{<|user|>~message.content<|end|>~}}",
      "{{<|assistant|>~message.content<|end|>~}}",
      "{%ifadd_generation_prompt%}{{<|assistant|>~}}{%else%}{{eos_token}}{%endif%}"},
     {"bos_token", "tool"}},
    {PPO_CHAT_PHI3,
     {"{%ifmessage.role==system%}{{<|system|>~message.content<|end|>~}}",
      "{%elifmessage.role==user%}{{<|user|>~message.content<|end|>~}}",
      "{{<|assistant|>~message.content<|end|>~}}",
      "{%ifadd_generation_prompt%}{{<|assistant|>~}}{%else%}{{eos_token}}{%endif%}"},
     {"bos_token", "tool"}},
    {PPO_CHAT_OLMO2,
     {"{{bos_token}}{%formessageinmessages%}{%ifmessage.role==system%}{{<|system|>~message.content~}}",
      "{%elifmessage.role==user%}{{<|user|>~message.content~}}",
      "{%ifnotloop.last%}{{<|assistant|>~message.contenteos_token~}}{%else%}{{<|assistant|>~message."
      "contenteos_token}}",
      "{%ifloop.lastandadd_generation_prompt%}{{<|assistant|>~}}{%endif%}"},
     {"tool", "think"}},
    {PPO_CHAT_GRANITE30,
     {"{%ifmessage.role==system%}{{<|start_of_role|>system<|end_of_role|>message.content<|end_of_text|>~}}",
      "{{<|start_of_role|>user<|end_of_role|>message.content<|end_of_text|>~}}",
      "{{<|start_of_role|>assistant<|end_of_role|>message.content<|end_of_text|>~}}",
      "{%ifloop.lastandadd_generation_prompt%}{{<|start_of_role|>assistant<|end_of_role|>}}{%endif%}"},
     {"Granite", "think"}},
    {PPO_CHAT_GRANITE,
     {"KnowledgeCutoffDate:April2024.~Today'sDate:strftime_now%B%d,%Y.~YouareGranite,developedbyIBM.",
      "{%setsystem_message=system_messageYouareahelpfulAIassistant.%}", "{%formessageinloop_messages%}",
      "{{<|start_of_role|>message.role<|end_of_role|>message.content<|end_of_text|>~}}",
      "{{<|start_of_role|>system<|end_of_role|>system_message<|end_of_text|>~}}"},
     {NULL}},
    {PPO_CHAT_GRANITE33,
     {"KnowledgeCutoffDate:April2024.Today'sDate:strftime_now%B%d,%Y.YouareGranite,developedbyIBM.",
      "{%setsystem_message=system_messageYouareahelpfulAIassistant.%}", "{%formessageinloop_messages%}",
      "{{<|start_of_role|>message.role<|end_of_role|>message.content<|end_of_text|>~}}",
      "{{<|start_of_role|>system<|end_of_role|>system_message<|end_of_text|>~}}"},
     {NULL}},
    {PPO_CHAT_GRANITE4,
     {"{%setg4_default_system_message=Youareahelpfulassistant.Pleaseensureresponsesareprofessional,accurate,"
      "andsafe.%}",
      "{{<|start_of_role|>message.role<|end_of_role|>content.val<|end_of_text|>~}}",
      "{{<|start_of_role|>message.role<|end_of_role|>content.val}}",
      "{{<|start_of_role|>system<|end_of_role|>ns.default_system_message<|end_of_text|>~}}",
      "{%ifadd_generation_prompt%}{{<|start_of_role|>assistant<|end_of_role|>}}{%endif%}"},
     {"think"}},
};

/* The form of a template; -1: none of those known, -2: there is no memory. */
static int ppo__chat_recognize(const char *text) {
    enum { MARKS = sizeof ppo__chat_marks / sizeof *ppo__chat_marks };
    static const char usual[] = /* what some begin with */
        "{%ifnotadd_generation_promptisdefined%}{%setadd_generation_prompt=false%}{%endif%}";
    char *plain = (char *)ppo__alloc(strlen(text) + 1);
    int form = plain ? -1 : -2;
    if (plain) ppo__plain_template(text, plain);
    const size_t n = plain && !strncmp(plain, usual, sizeof usual - 1) ? sizeof usual - 1 : 0;
    if (n) memmove(plain, plain + n, strlen(plain + n) + 1);
    for (int k = 0; k < MARKS && form == -1; ++k) {
        int fits = 1;
        for (int i = 0; i < PPO__CHAT_HAS && ppo__chat_marks[k].has[i]; ++i) {
            const char *has = ppo__chat_marks[k].has[i];
            fits &= *has == '=' ? !strcmp(plain, has + 1) : strstr(plain, has) != NULL;
        }
        for (int i = 0; i < PPO__CHAT_LACKS && ppo__chat_marks[k].lacks[i]; ++i)
            fits &= !strstr(plain, ppo__chat_marks[k].lacks[i]);
        if (fits) form = ppo__chat_marks[k].form;
    }
    ppo__free(plain);
    return form;
}

PPO_DEF ppo_status ppo_chat_form(const ppo_tokenizer *tokenizer, int *form) {
    if (!PPO__GIVEN("ppo_chat_form", tokenizer, form)) return PPO_ERROR_ARGUMENT;
    const char *text = tokenizer->rules ? tokenizer->rules->template_of_chat : NULL;
    *form = -1;
    const int found = text ? ppo__chat_recognize(text) : -1;
    if (found == -2) return PPO_ERROR_MEMORY;
    if (!text || found >= 0) return *form = found, PPO_OK;
    return ppo__refuse(
        "the chat template of the folder is none of the forms that are known: chatml, llama3, qwen3, gemma3 "
        "and others (ppo_chat.h): name the form, if it is one of them");
}

PPO_DEF const char *ppo_tokenizer_chat_note(const ppo_tokenizer *tokenizer, int form) {
    const char *text = tokenizer && tokenizer->rules ? tokenizer->rules->template_of_chat : NULL;
    const int is = text && ppo__chat_known(form) ? ppo__chat_recognize(text) : form;
    return is == form ? ""
           : is >= 0
               ? "the chat template of the folder writes chats in another form than the one that is used here"
               : "the chat template of the folder is not run here and is none of the forms that are known: "
                 "compare what it writes";
}

/* --------------------------------------------------------------------------------------------------------
   @@ Chats as tokens
   -------------------------------------------------------------------------------------------------------- */

/* A chat while it is encoded. The text between two special tokens is encoded as one. */
typedef struct ppo__chat {
    ppo__encoder encoder;
    const ppo__chat_row *row;
    char *text; /* since the last special token */
    size_t bytes;
    int is_start; /* 1: nothing was encoded yet */
    int specials; /* PPO_ENCODE_SPECIALS, or 0 */
    int thinking;
    int right; /* 1: the last special token takes the spaces after it */
    char date[64];
} ppo__chat;

static void ppo__chat_encode(ppo__chat *chat, int flags) {
    const char *text = chat->text;
    size_t n;
    if (!chat->bytes || chat->encoder.memory.failed) return;
    for (; chat->right && chat->bytes && ppo__is_space(chat->encoder.tok, text, chat->bytes, &n); text += n)
        chat->bytes -= n;
    if (!chat->bytes) return;
    ppo__encode_text(&chat->encoder, flags | chat->specials, text, chat->bytes, chat->is_start || flags);
    chat->bytes = 0;
    chat->is_start = chat->right = 0;
}

static void ppo__chat_text(ppo__chat *chat, const char *text, size_t bytes) {
    memcpy(chat->text + chat->bytes, text, bytes);
    chat->bytes += bytes;
}

static void ppo__chat_string(ppo__chat *chat, const char *text) { ppo__chat_text(chat, text, strlen(text)); }

/* Its number; {bos} and {eos} are what the folder says. */
static int ppo__chat_special(const ppo_tokenizer *tok, const char *name) {
    const ppo__tokfile_rules *rules = tok->rules;
    if (!strcmp(name, "bos")) return rules ? rules->bos : -1;
    return ppo_tokenizer_special(tok, strcmp(name, "eos") ? name : rules && rules->eos ? rules->eos : "");
}

/* Adds a part of a form: text, and special tokens. */
static void ppo__chat_form(ppo__chat *chat, const char *form, const char *role) {
    for (char name[32]; *form && !chat->encoder.memory.failed; ++form) {
        if (*form == '%') ppo__chat_string(chat, role);
        else if (*form == '$') ppo__chat_string(chat, chat->date);
        else if (*form != '{') ppo__chat_text(chat, form, 1);
        else {
            size_t n = strcspn(form, "}"), used = 0;
            for (size_t i = 1; i < n; ++i)
                used += (size_t)snprintf(name + used, sizeof name - used, "%.*s", form[i] == '%' ? 16 : 1,
                                         form[i] == '%' ? role : form + i);
            const int token = ppo__chat_special(chat->encoder.tok, name);
            const ppo__added *added = ppo__added_of(chat->encoder.tok, token);
            form += n;
            while (added && added->left && chat->bytes && strchr(" \t\r\n", chat->text[chat->bytes - 1]))
                --chat->bytes;
            ppo__chat_encode(chat, 0);
            chat->bytes = 0;
            chat->is_start = 0;
            chat->right = added && added->right;
            if (chat->encoder.memory.failed) return;
            if (token >= 0) ppo__emit(&chat->encoder, token);
            else
                chat->encoder.memory.failed =
                    ppo__refuse("ppo_tokens_add_chat: the tokenizer has no token \"%s\"", name);
        }
    }
}

/* Leaves out the spaces at the ends of a text, as Python does. both 0: those at its end alone. */
static const char *ppo__trim(const ppo_tokenizer *tok, const char *text, size_t *bytes, int both) {
    size_t end = 0, begin = *bytes, n;
    for (size_t at = 0; at < *bytes; at += n) {
        if (ppo__is_space(tok, text + at, *bytes - at, &n) || (text[at] >= 28 && text[at] < 32)) continue;
        if (begin > at) begin = at;
        end = at + n;
    }
    if (!both) begin = 0;
    *bytes = end > begin ? end - begin : 0;
    return text + begin;
}

/* The same of line breaks alone. */
static const char *ppo__trim_lines(const char *text, size_t *bytes, int ends) {
    for (; ends & 1 && *bytes && *text == '\n'; ++text) --*bytes;
    while (ends & 2 && *bytes && text[*bytes - 1] == '\n') --*bytes;
    return text;
}

/* The last place of a word in a text of n bytes, or NULL. */
static const char *ppo__last_of(const char *text, size_t n, const char *word) {
    const size_t length = strlen(word);
    for (size_t at = n < length ? 0 : n - length + 1; at-- > 0;)
        if (!strncmp(text + at, word, length)) return text + at;
    return NULL;
}

/* An answer of qwen3 is what follows its last thought, and *thought, of *n bytes, the first one. */
static const char *ppo__split_thought(const char *text, size_t *bytes, const char **thought, size_t *n) {
    const char *end = strstr(text, "</think>"), *last = ppo__last_of(text, *bytes, "</think>");
    *thought = text;
    *n = 0;
    if (!end) return text;
    *n = (size_t)(end - text);
    ppo__trim_lines(text, n, 2);
    const char *begin = ppo__last_of(text, *n, "<think>");
    if (begin) *n -= (size_t)(begin + 7 - text), *thought = begin + 7;
    *thought = ppo__trim_lines(*thought, n, 3);
    *bytes -= (size_t)(last + 8 - text);
    return ppo__trim_lines(last + 8, bytes, 1);
}

static void ppo__remove_word(char *text, const char *word) {
    const size_t length = strlen(word);
    char *to = text;
    for (; *text; ++text)
        if (!strncmp(text, word, length)) text += length - 1;
        else *to++ = *text;
    *to = 0;
}

/* The system message of smollm3, which may say whether the model thinks. */
static void ppo__chat_smol(ppo__chat *chat, const char *system) {
    ppo__arena *memory = &chat->encoder.memory;
    char *said = PPO__ARRAY(memory, char, strlen(system) + 1);
    if (!said) return;
    strcpy(said, system);
    if (strstr(system, "/no_think")) chat->thinking = 0;
    else if (strstr(system, "/think")) chat->thinking = 1;
    const int overrides = strstr(system, "/system_override") != NULL;
    ppo__remove_word(said, "/no_think");
    ppo__remove_word(said, "/think");
    size_t bytes = strlen(said);
    ppo__trim(chat->encoder.tok, said, &bytes, 0);
    said[bytes] = 0;
    ppo__chat_form(chat, "{<|im_start|>}system\n", "");
    if (overrides) {
        ppo__remove_word(said, "/system_override");
        bytes = strlen(said);
        ppo__trim(chat->encoder.tok, said, &bytes, 0);
        ppo__chat_text(chat, said, bytes);
        ppo__chat_form(chat, "{<|im_end|>}\n", "");
        return;
    }
    ppo__chat_form(chat,
                   "## Metadata\n\nKnowledge Cutoff Date: June 2025\nToday Date: $\nReasoning Mode: %\n\n",
                   chat->thinking ? "/think" : "/no_think");
    ppo__chat_string(chat, "## Custom Instructions\n\n");
    if (!*said && chat->thinking && !memory->failed)
        memory->failed =
            ppo__refuse("ppo_tokens_add_chat: a chat of smollm3 with thinking needs a system message");
    ppo__chat_string(chat,
                     *said ? said : "You are a helpful AI assistant named SmolLM, trained by Hugging Face.");
    ppo__chat_string(chat, "\n\n");
}

/* What stands before an answer that is written without a thought, and before one that is asked for. */
static const char *ppo__no_thought(const ppo__chat *chat) {
    if (chat->thinking) return "";
    return chat->row->flags & PPO__CHAT_SMOL     ? "<think>\n\n</think>\n"
           : chat->row->flags & PPO__CHAT_THINKS ? "<think>\n\n</think>\n\n"
                                                 : "";
}

/* The text of an answer; thinks: it is the last one after what the user asked, and its thought stays. Returns the
   number of tokens before what is learned. */
static int ppo__chat_answer(ppo__chat *chat, const char *text, size_t bytes, int after_query, int last) {
    const char *thought = "";
    size_t n = 0;
    int learned;
    if (chat->row->flags & PPO__CHAT_THINKS) {
        text = ppo__split_thought(text, &bytes, &thought, &n);
        after_query = after_query && (last || n);
        if (after_query) text = ppo__trim_lines(text, &bytes, 1);
    } else if (chat->row->flags & PPO__CHAT_SMOL) {
        text = ppo__trim_lines(text, &bytes, 1);
        after_query = !chat->thinking;
    } else after_query = 0;
    const int without = after_query && !n && !chat->thinking;
    if (without) ppo__chat_string(chat, ppo__no_thought(chat));
    ppo__chat_encode(chat, 0);
    learned = chat->encoder.count;
    if (after_query && !without) {
        ppo__chat_string(chat, "<think>\n");
        ppo__chat_text(chat, thought, n);
        ppo__chat_string(chat, "\n</think>\n\n");
    }
    ppo__chat_text(chat, text, bytes);
    ppo__chat_encode(chat, PPO_ENCODE_CONTINUES);
    return learned;
}

/* The messages that a form writes, and how: an error if it has no place for one. */
static ppo_status ppo__chat_check(const ppo__chat_row *row, const ppo_message *messages, int count) {
    const int merged = row->flags & PPO__CHAT_MERGE && count && !strcmp(messages[0].role, "system");
    if (!(row->flags & PPO__CHAT_MODEL)) return PPO_OK;
    if (row->flags & PPO__CHAT_NO_SYSTEM && count && !strcmp(messages[0].role, "system"))
        return ppo__refuse("ppo_tokens_add_chat: %s has no system message", row->name);
    for (int m = merged; m < count; ++m)
        if ((strcmp(messages[m].role, "user") == 0) != ((m - merged) % 2 == 0))
            return ppo__refuse(
                "ppo_tokens_add_chat: message %d is of the role %s, but in %s user and assistant "
                "take turns, and the user begins",
                m, messages[m].role, row->name);
    return PPO_OK;
}

/* The last question: the user's last message that is no response of a tool. */
static int ppo__chat_query(const ppo_message *messages, int count) {
    static const char begins[] = "<tool_response>", ends[] = "</tool_response>";
    for (int m = count - 1; m >= 0; --m) {
        const char *text = messages[m].text;
        const size_t n = strlen(text);
        if (strcmp(messages[m].role, "user")) continue;
        if (strncmp(text, begins, sizeof begins - 1) || n < sizeof ends - 1 ||
            strcmp(text + n - (sizeof ends - 1), ends))
            return m;
    }
    return count - 1;
}

/* The system message that comes first, or stands for one; returns how many messages it was. */
static int ppo__chat_system(ppo__chat *chat, const ppo_message *messages, int count) {
    const ppo__chat_row *row = chat->row;
    const int is_there = count && !strcmp(messages[0].role, "system");
    const char *text = is_there ? messages[0].text : "";
    size_t bytes = strlen(text);
    const int stands_in = row->system && (!is_there || (row->flags & PPO__CHAT_FULL && !*text));
    if (row->flags & PPO__CHAT_SMOL) return ppo__chat_smol(chat, text), is_there;
    if (row->flags & PPO__CHAT_MERGE || (!is_there && !row->system)) return is_there;
    if (row->flags & PPO__CHAT_FULL && !stands_in && !*text) return 1;
    ppo__chat_form(chat, row->before, "system");
    ppo__chat_form(chat, row->lead, "");
    if (row->flags & PPO__CHAT_TRIM) text = ppo__trim(chat->encoder.tok, text, &bytes, 1);
    if (stands_in) ppo__chat_form(chat, row->system, "");
    else ppo__chat_text(chat, text, bytes);
    if (!(row->flags & PPO__CHAT_ANSWERS)) ppo__chat_form(chat, row->close, "");
    ppo__chat_form(chat, row->after, "");
    return is_there;
}

/* Encodes the messages, and last the beginning of a reply if one is asked for, and adds the tokens. */
static void ppo__encode_chat(ppo__chat *chat, const ppo_message *messages, int count, int reply,
                             ppo_tokens *tokens) {
    const ppo__chat_row *row = chat->row;
    ppo__encoder *encoder = &chat->encoder;
    const int query = ppo__chat_query(messages, count);
    int prompt = -1,
        (*learned)[2] = (int(*)[2])ppo__arena_array(&encoder->memory, (size_t)count + 1, 2 * sizeof(int));
    if (!learned) return;
    memset(learned, 0, ((size_t)count + 1) * 2 * sizeof(int));
    if (count) ppo__chat_form(chat, row->start, "");
    const int first = count ? ppo__chat_system(chat, messages, count) : 0;
    for (int m = first; m < count && !encoder->memory.failed; ++m) {
        const char *role = messages[m].role, *text = messages[m].text;
        size_t bytes = strlen(text);
        const int is_answer = !strcmp(role, "assistant"), is_system = !strcmp(role, "system");
        if (is_system &&
            (row->flags & PPO__CHAT_SMOL || (!bytes && row->flags & PPO__CHAT_FULL && !row->system)))
            continue;
        if (row->flags & PPO__CHAT_TRIM) text = ppo__trim(encoder->tok, text, &bytes, 1);
        ppo__chat_form(chat, row->before, is_answer && row->flags & PPO__CHAT_MODEL ? "model" : role);
        if (m == 1 && first && row->flags & PPO__CHAT_MERGE) {
            ppo__chat_string(chat, messages[0].text);
            ppo__chat_string(chat, "\n\n");
        }
        if (is_answer) learned[m][0] = ppo__chat_answer(chat, text, bytes, m > query, m == count - 1);
        else ppo__chat_text(chat, text, bytes);
        if (is_answer || !(row->flags & PPO__CHAT_ANSWERS)) ppo__chat_form(chat, row->close, "");
        if (is_answer) learned[m][1] = encoder->count;
        if (!(row->flags & PPO__CHAT_ANSWERS && is_answer && m == count - 1))
            ppo__chat_form(chat, row->after, "");
    }
    if (reply && !(row->flags & PPO__CHAT_AFTER_SYSTEM && first == count)) {
        ppo__chat_form(chat, row->before, row->flags & PPO__CHAT_MODEL ? "model" : "assistant");
        ppo__chat_string(chat, ppo__no_thought(chat));
    } else if (!reply) ppo__chat_form(chat, row->finish, "");
    ppo__chat_encode(chat, 0);
    if (encoder->memory.failed) return;
    int n = encoder->count;
    for (int m = 0; m < count && prompt < 0; ++m)
        if (learned[m][1] > learned[m][0]) prompt = learned[m][0];
    encoder->memory.failed = ppo_tokens_add(tokens, encoder->tokens, n, reply || prompt < 0 ? n : prompt);
    learned[count][1] = (learned[count][0] = n) + 1;
    for (int m = 0, done = prompt; m <= count && !encoder->memory.failed && !reply && prompt >= 0; ++m) {
        if (learned[m][1] == learned[m][0]) continue;
        if (learned[m][0] > done) ppo_tokens_mark_given(tokens, done, learned[m][0] - done);
        done = learned[m][1];
    }
}

/* The date of a chat: as given, or that of today. */
static void ppo__chat_date(ppo__chat *chat, const char *date) {
    const time_t now = time(NULL);
    const struct tm *today = localtime(&now);
    if (date) snprintf(chat->date, sizeof chat->date, "%s", date);
    else if (!today || !strftime(chat->date, sizeof chat->date, chat->row->date, today)) *chat->date = 0;
}

/* ppo_tokens_add_chat_as(); specials: PPO_ENCODE_SPECIALS, or 0 */
static ppo_status ppo__add_chat(ppo_tokens *tokens, const ppo_tokenizer *tokenizer, const ppo_chat_how *how,
                                const ppo_message *messages, int count, int reply, int specials) {
    size_t most = 1024; /* bytes between two special tokens */
    ppo__chat chat;
    if (!PPO__GIVEN("ppo_tokens_add_chat", tokens, tokenizer, how)) return PPO_ERROR_ARGUMENT;
    if (count && !PPO__GIVEN("ppo_tokens_add_chat", messages)) return PPO_ERROR_ARGUMENT;
    int form = how->form;
    ppo_status status = form == PPO_CHAT_OWN ? ppo_chat_form(tokenizer, &form) : PPO_OK;
    if (status) return status;
    if (how->form == PPO_CHAT_OWN && form < 0) form = PPO_CHATML;
    if (!ppo__chat_known(form) || count < 0)
        return ppo__refuse("ppo_tokens_add_chat: form %d, %d messages", form, count);
    if (!tokenizer->kinds) return ppo__refuse("ppo_tokens_add_chat: a tokenizer of characters");
    if (how->date && strlen(how->date) >= sizeof chat.date)
        return ppo__refuse("ppo_tokens_add_chat: a date of %.0f bytes", (double)strlen(how->date));
    for (int m = 0; m < count; ++m) {
        const char *role = messages[m].role;
        if (!PPO__GIVEN("ppo_tokens_add_chat", role, messages[m].text)) return PPO_ERROR_ARGUMENT;
        if (strcmp(role, "system") && strcmp(role, "user") && strcmp(role, "assistant"))
            return ppo__refuse("ppo_tokens_add_chat: the role of message %d is \"%.40s\", none of system, "
                               "user and assistant",
                               m, role);
        most += strlen(messages[m].text) + 64;
    }
    if (most > INT_MAX) return ppo__refuse("ppo_tokens_add_chat: messages of %.0f bytes", (double)most);
    status = ppo__chat_check(&ppo__chat_rows[form], messages, count);
    if (status) return status;
    memset(&chat, 0, sizeof chat);
    chat.row = &ppo__chat_rows[form];
    chat.is_start = 1;
    chat.specials = specials;
    chat.thinking = how->thinking;
    ppo__chat_date(&chat, how->date);
    chat.encoder = ppo__encoder_start(tokenizer);
    chat.text = PPO__ARRAY(&chat.encoder.memory, char, most);
    if (chat.text) ppo__encode_chat(&chat, messages, count, reply != 0, tokens);
    return ppo__encoder_end(&chat.encoder);
}

PPO_DEF ppo_chat_how ppo_chat_how_default(void) {
    const ppo_chat_how how = {PPO_CHATML, 0, NULL};
    return how;
}

PPO_DEF ppo_status ppo_tokens_add_chat_as(ppo_tokens *tokens, const ppo_tokenizer *tokenizer,
                                          const ppo_chat_how *how, const ppo_message *messages, int count,
                                          int reply) {
    return ppo__add_chat(tokens, tokenizer, how, messages, count, reply, 0);
}

PPO_DEF ppo_status ppo_tokens_add_chat(ppo_tokens *tokens, const ppo_tokenizer *tokenizer, int form,
                                       const ppo_message *messages, int count, int reply) {
    const ppo_chat_how how = {form, 0, NULL};
    return ppo__add_chat(tokens, tokenizer, &how, messages, count, reply, 0);
}

PPO_DEF int ppo_chat_end(const ppo_tokenizer *tokenizer, int form) {
    char name[32];
    if (!tokenizer || !ppo__chat_known(form)) return -1;
    snprintf(name, sizeof name, "%s", ppo__chat_rows[form].close + 1);
    name[strcspn(name, "}")] = 0;
    return ppo__chat_special(tokenizer, name);
}

/* Messages in lines of data. */
static ppo_status ppo__add_line_chat(ppo_tokens *tokens, const ppo_tokenizer *tokenizer,
                                     const ppo_lines *lines, const ppo_message *messages, int count,
                                     int reply) {
    const ppo_chat_how how = {lines->form, lines->thinking, lines->date};
    return ppo__add_chat(tokens, tokenizer, &how, messages, count, reply,
                         lines->specials ? PPO_ENCODE_SPECIALS : 0);
}

/* -- sampling -- */

PPO_DEF ppo_status ppo_sampling_load(const char *path, ppo_sampling *sampling, char *says, size_t room) {
    static const char file[] = "generation_config.json";
    static const char *const names[] = {"temperature", "top_k", "top_p", "min_p", "repetition_penalty"};
    if (says && room) *says = 0;
    if (!PPO__GIVEN("ppo_sampling_load", path, sampling)) return PPO_ERROR_ARGUMENT;
    if (ppo__is_gguf(path)) return PPO_OK;
    ppo__hub hub = {path, {NULL, NULL, PPO_OK}, NULL, NULL, 0, PPO_BOOL, NULL, 0, NULL, NULL};
    ppo_sampling read = *sampling, usual = ppo_sampling_default();
    ppo__json json;
    size_t used = 0;
    int there = 0;
    json.status = PPO_OK;
    ppo_status status = ppo__hub_open_config(&hub, file, "", &json, &there);
    ppo__value *all = !status && there ? ppo__json_tree(&json, &hub.memory) : NULL;
    read.greedy = all ? !ppo__json_flag(&json, all, "do_sample", 0) : read.greedy;
    read.top_k = all ? 50 : read.top_k;
    for (int k = read.greedy ? 4 : 0; k < 5 && all && !json.status; ++k) {
        ppo__value *value = ppo__json_get(&json, all, names[k]);
        char text[64];
        if (!value || value->kind != '0') continue;
        snprintf(text, sizeof text, "%.9g", ppo__json_number(&json));
        if (!status && !json.status)
            status = ppo_settings_set(ppo_sampling_settings(), &read, names[k], text);
    }
    if (read.greedy) read.top_k = sampling->top_k;
    if (!status) status = json.status;
    if (status == PPO_ERROR_ARGUMENT) status = ppo__file_fail(path, "%s: %s", file, ppo__error);
    if (says && room && all && !status)
        used = (size_t)snprintf(says, room, "%s", read.greedy ? "greedy" : "sampling");
    for (int k = read.greedy ? 4 : 0; k < 5 && says && all && !status && used < room; ++k) {
        char is[64], was[64];
        ppo_settings_get(ppo_sampling_settings(), &read, names[k], is, sizeof is);
        ppo_settings_get(ppo_sampling_settings(), &usual, names[k], was, sizeof was);
        if (strcmp(is, was)) used += (size_t)snprintf(says + used, room - used, ", %s %s", names[k], is);
    }
    if (!status) *sampling = read;
    ppo__hub_free(&hub);
    return status;
}

PPO__COMPANION_IS(ppo__chat_functions, ppo__in_chat, {ppo__add_line_chat});

PPO__WARNINGS_BACK

#endif
