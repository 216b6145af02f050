/* words.h - the page's second tab: a tiny language model is rewarded for its words. Include ppo.h before it.

   A transformer of some 14,000 parameters reads names of animals, letter by letter (supervised fine-tuning), and
   then invents words that begin with a given letter. PPO on tokens raises the reward that is chosen on the page,
   and a penalty for the KL to the model that only read holds it back. The samples of an iteration go through
   public functions here, one after another, so that the page can show what each letter's advantage is made of. */

#ifndef WEB_WORDS_H
#define WEB_WORDS_H

#include <math.h>
#include <string.h>

enum {
    WORDS_BATCH = 64,
    WORDS_LETTERS = 12,
    WORDS_SHOWN = 12,
    WORDS_READING = 300,
    WORDS_TOKENS = WORDS_BATCH * 16
};

/* The frame, as in control.h. Of each shown sample, [WORDS_LETTERS]: tokens as characters (0: none; '.' ends it; the
   first is given), and of each what was computed when it was sampled. */
#define WORDS_FRAME(FIELD)                                                                               \
    FIELD(reading, 1)   /* 1: it still reads */                                                          \
    FIELD(step, 1)      /* gradient steps of reading */                                                  \
    FIELD(loss, 1)      /* of reading */                                                                 \
    FIELD(iteration, 1) /* of PPO, and of the latest one: */                                             \
    FIELD(reward, 1)                                                                                     \
    FIELD(kl, 1) /* to the model that only read, summed over a word */                                   \
    FIELD(entropy, 1)                                                                                    \
    FIELD(clip_fraction, 1)                                                                              \
    FIELD(distinct, 1) /* share of different words */                                                    \
    FIELD(kl_coef, 1)  /* as in use, and so on */                                                        \
    FIELD(clip_low, 1)                                                                                   \
    FIELD(epochs, 1)                                                                                     \
    FIELD(learning_rate, 1)                                                                              \
    FIELD(letter, WORDS_SHOWN *WORDS_LETTERS)                                                            \
    FIELD(advantage, WORDS_SHOWN *WORDS_LETTERS)                                                         \
    FIELD(log_ratio, WORDS_SHOWN *WORDS_LETTERS) /* log of the probability by that of the other model */ \
    FIELD(score, WORDS_SHOWN)
#define WORDS_FIELD(name, count) float name[count];
struct words_frame {
    WORDS_FRAME(WORDS_FIELD)
};

static const char words_list[] =
    "aardvark albatross alligator alpaca anchovy ant anteater antelope armadillo baboon badger barracuda bat "
    "bear beaver "
    "bee beetle bison blackbird boa boar bobcat buffalo bullfinch bumblebee butterfly buzzard camel canary "
    "capybara carp "
    "caterpillar catfish centipede chameleon cheetah chicken chinchilla chipmunk clam cobra cockatoo cod "
    "condor coral "
    "cormorant cow coyote crab crane cricket crocodile crow cuckoo deer dingo dodo dog dolphin donkey "
    "dormouse dove "
    "dragonfly duck eagle earthworm eel egret elephant elk emu falcon ferret finch firefly flamingo flea "
    "flounder fly fox "
    "frog gazelle gecko gerbil giraffe gnat goat goldfish goose gopher gorilla grasshopper grouse gull guppy "
    "haddock "
    "halibut hamster hare hawk hedgehog heron herring hippo hornet horse hummingbird hyena ibex ibis iguana "
    "impala jackal "
    "jackdaw jaguar jay jellyfish kangaroo kestrel kingfisher kite kiwi koala ladybird lark lemming lemur "
    "leopard limpet "
    "lion lizard llama lobster locust lynx macaw mackerel magpie mallard mammoth manatee mantis marmot "
    "marten mink "
    "minnow mole mongoose monkey moose mosquito moth mouse mule mussel newt nightingale ocelot octopus "
    "opossum orca oriole "
    "osprey ostrich otter owl ox oyster panda panther parrot partridge peacock pelican penguin perch "
    "pheasant pig pigeon "
    "pike platypus pony porcupine porpoise possum prawn puffin puma python quail rabbit raccoon rat raven "
    "reindeer rhino "
    "robin rook rooster salamander salmon sardine scorpion seagull seal shark sheep shrew shrimp skunk sloth "
    "slug snail "
    "snake sparrow spider sponge squid squirrel starfish starling stingray stoat stork swallow swan swift "
    "tadpole tapir "
    "termite tern thrush tiger toad tortoise toucan trout tuna turkey turtle urchin viper vole vulture "
    "wallaby walrus "
    "warbler wasp weasel weevil whale wolf wolverine wombat woodpecker worm wren yak zebra ";

static struct {
    ppo_tokenizer *tokenizer;
    int eos;
    ppo_lm *model, *reference, *critic; /* reference NULL: it still reads */
    ppo_tokens data, batch, prompts;
    ppo_tape *tape;
    ppo_generator *generator;
    ppo_rlhf *rlhf;
    ppo_rlhf_config config;
    ppo_rng rng;
    int wish;    /* which reward */
    int changed; /* settings: the next iteration needs another ppo_rlhf */
    int step;
    struct words_frame frame;
} words;

/* -- the rewards: each from 0 to 1, of the word without its end -- */

static float words_reward(const char *word, int letters) {
    int good = 0;
    for (int k = 0; k < letters; k++) {
        if (words.wish == 0) good += strchr("aeiou", word[k]) != NULL;
        if (words.wish == 1) good += word[k] == 'o';
        if (words.wish == 2) good++;
        if (words.wish == 3) good += 2 * (k > 0 && word[k] == word[k - 1]);
    }
    if (words.wish == 2) return (float)good / (WORDS_LETTERS - 1);
    return letters ? fminf((float)good / (float)letters, 1) : 0;
}

/* -- reading: supervised fine-tuning, with building blocks -- */

static void words_stop(void) {
    ppo_rlhf_free(words.rlhf);
    ppo_generator_free(words.generator);
    ppo_tape_free(words.tape);
    ppo_lm_free(words.critic);
    ppo_lm_free(words.reference);
    ppo_lm_free(words.model);
    ppo_tokens_free(&words.data);
    ppo_tokens_free(&words.batch);
    ppo_tokens_free(&words.prompts);
    ppo_tokenizer_free(words.tokenizer);
    memset(&words, 0, sizeof words);
}

/* Every word is a sequence whose first letter is given, and which ends with "."; a prompt is a letter. */
static ppo_status words_start(unsigned seed) {
    const char *const special[1] = {"."}, *alphabet = "abcdefghijklmnopqrstuvwxyz";
    ppo_lm_config shape = ppo_lm_config_default();
    words_stop();
    ppo_status status = ppo_tokenizer_characters(alphabet, 26, special, 1, &words.tokenizer);
    if (status) return status;
    words.eos = ppo_tokenizer_special(words.tokenizer, ".");
    for (const char *word = words_list; *word && !status; word = strchr(word, ' ') + 1) {
        char prompt[2] = {word[0], 0}, rest[32] = {0};
        memcpy(rest, word + 1, (size_t)(strchr(word, ' ') - word - 1));
        status = ppo_tokens_add_text(&words.data, words.tokenizer, -1, prompt, rest, words.eos);
    }
    shape.vocab = ppo_tokenizer_vocab(words.tokenizer);
    shape.context = 16;
    shape.width = 32;
    shape.layers = 1;
    shape.activation = PPO_RELU;
    shape.seed = seed;
    words.rng = ppo_rng_stream(seed, PPO_STREAM_USER, 100);
    words.config = ppo_rlhf_config_default();
    words.config.prompts = WORDS_BATCH;
    words.config.sampling.eos = words.eos;
    words.config.sampling.max_new_tokens = WORDS_LETTERS - 1;
    words.config.normalize_rewards = 0;
    words.config.learning_rate = 5e-4f;
    words.config.target_kl = 0;
    words.config.seed = seed;
    if (!status) status = ppo_tape_create(&words.tape);
    if (!status) status = ppo_lm_create(&shape, &words.model);
    return status;
}

/* A gradient step on words of the list: the mean of -log p of their letters falls. */
static ppo_status words_read(void) {
    ppo_adam adam = ppo_adam_default();
    adam.lr = ppo_schedule(PPO_COSINE, 1e-2f, (float)words.step / WORDS_READING);
    ppo_status status = PPO_OK;
    ppo_tokens_clear(&words.batch);
    for (int k = 0; k < WORDS_BATCH / 2 && !status; k++)
        status = ppo_tokens_add_from(&words.batch, &words.data, ppo_rng_below(&words.rng, words.data.count));
    if (status) return status;
    ppo_tape_reset(words.tape);
    ppo_params_zero_grad(words.model->params);
    ppo_response response = ppo_lm_response(words.tape, words.model, &words.batch, 1, PPO_POLICY);
    ppo_tensor *loss = ppo_tape_scale(words.tape, ppo_tape_mean(words.tape, response.logp), -1, 0);
    status = ppo_tape_backward(words.tape, loss);
    if (!status) status = ppo_params_step(words.model->params, &adam, 1, NULL);
    if (!status) words.frame.loss[0] = loss->data[0];
    words.step++;
    return status;
}

/* The end of reading: the reference and the critic are copies, and the prompts are letters as words have them. */
static ppo_status words_begin(void) {
    ppo_status status = ppo_lm_copy(words.model, 0, &words.reference);
    if (!status) status = ppo_lm_copy(words.model, 1, &words.critic);
    if (!status) status = ppo_generator_create(words.model, 16, &words.generator);
    words.changed = 1;
    return status;
}

/* -- PPO on tokens -- */

/* Settings by name, and the reward: they count from the next iteration on. */
static ppo_status words_set(const char *settings) {
    ppo_status status = ppo_settings_set_all(ppo_rlhf_settings(), &words.config, settings);
    words.changed = 1;
    words.frame.kl_coef[0] = words.config.kl_coef;
    words.frame.clip_low[0] = words.config.objective.clip_low;
    words.frame.epochs[0] = (float)words.config.epochs;
    words.frame.learning_rate[0] = words.config.learning_rate;
    return status;
}

/* The reward of a sample: of its letters with the given one, without the end. */
static float words_judge(const ppo_tokens *tokens, int s) {
    char text[WORDS_LETTERS + 1] = "";
    if (ppo_tokens_text(tokens, s, PPO_WHOLE_TEXT, words.tokenizer, text, sizeof text)) return 0;
    return words_reward(text, (int)strlen(text));
}

/* For the page: the letters of the first samples, and what PPO on tokens makes of them. A letter's reward is
   -kl_coef log(p / p of the reference), the last one's also the word's; ppo_gae() gives advantages. */
static ppo_status words_explain(const ppo_samples *samples, const float *score) {
    struct words_frame *f = &words.frame;
    const ppo_tokens *t = &samples->tokens;
    const int n = ppo_response_row(t, t->count);
    float reward[WORDS_TOKENS], next[WORDS_TOKENS], advantage[WORDS_TOKENS], target[WORDS_TOKENS];
    float log_ratio[WORDS_TOKENS];
    unsigned char last[WORDS_TOKENS], never[WORDS_TOKENS] = {0};
    ppo_tape_reset(words.tape);
    ppo_tape_record(words.tape, 0);
    ppo_response before = ppo_lm_response(words.tape, words.reference, t, 1, PPO_POLICY);
    ppo_response judged = ppo_lm_response(words.tape, words.critic, t, 1, PPO_VALUE);
    ppo_status status = ppo_tape_status(words.tape);
    ppo_tape_record(words.tape, 1);
    if (status) return status;
    for (int s = 0; s < t->count; s++) {
        const float *logp = samples->logp + t->start[s] + t->prompt[s];
        for (int row = ppo_response_row(t, s), end = ppo_response_row(t, s + 1); row < end; row++) {
            last[row] = row == end - 1;
            log_ratio[row] = *logp++ - before.logp->data[row];
            reward[row] = (last[row] ? score[s] : 0) - words.config.kl_coef * log_ratio[row];
            next[row] = last[row] ? 0 : judged.value->data[row + 1];
        }
    }
    status = ppo_gae(reward, judged.value->data, next, last, never, n, 1, words.config.gamma,
                     words.config.gae_lambda, advantage, target);
    if (!status) status = ppo_whiten(advantage, NULL, n, 1);
    memset(f->letter, 0, sizeof f->letter + sizeof f->advantage + sizeof f->log_ratio);
    for (int s = 0; s < WORDS_SHOWN && s < t->count; s++) {
        int row = ppo_response_row(t, s) - t->prompt[s];
        f->score[s] = score[s];
        for (int k = 0; k < t->start[s + 1] - t->start[s]; k++, row++) {
            int at = s * WORDS_LETTERS + k, token = t->token[t->start[s] + k];
            f->letter[at] = (float)(token == words.eos ? '.' : 'a' + token);
            if (k < t->prompt[s]) continue;
            f->advantage[at] = advantage[row];
            f->log_ratio[at] = log_ratio[row];
        }
    }
    return status;
}

static int words_distinct(const ppo_tokens *t) {
    int distinct = 0;
    for (int a = 0; a < t->count; a++) {
        int same = 0, n = t->start[a + 1] - t->start[a];
        for (int b = 0; b < a && !same; b++)
            same = n == t->start[b + 1] - t->start[b] &&
                   !memcmp(t->token + t->start[a], t->token + t->start[b], (size_t)n * sizeof(int));
        distinct += !same;
    }
    return distinct;
}

/* An iteration: sample, judge, explain, update. */
static ppo_status words_iterate(void) {
    struct words_frame *f = &words.frame;
    ppo_samples samples;
    ppo_rlhf_progress progress;
    float score[WORDS_BATCH];
    ppo_status status = PPO_OK;
    ppo_tokens_clear(&words.prompts);
    for (int k = 0; k < WORDS_BATCH && !status; k++) {
        int word = ppo_rng_below(&words.rng, words.data.count);
        status = ppo_tokens_add(&words.prompts, words.data.token + words.data.start[word], 1, 1);
    }
    if (!status && words.changed) {
        ppo_rlhf_free(words.rlhf);
        words.rlhf = NULL;
        words.changed = 0;
        status = ppo_rlhf_create(words.model, words.reference, words.critic, &words.prompts, NULL, NULL,
                                 &words.config, &words.rlhf);
    }
    words.config.sampling.seed++;
    if (!status) status = ppo_generate(words.generator, &words.prompts, &words.config.sampling, &samples);
    if (status) return status;
    for (int s = 0; s < WORDS_BATCH; s++) score[s] = words_judge(&samples.tokens, s);
    status = words_explain(&samples, score);
    if (!status) status = ppo_rlhf_update(words.rlhf, &samples, score, &progress);
    if (status) return status;
    f->iteration[0]++;
    f->reward[0] = progress.reward;
    f->kl[0] = progress.kl;
    f->entropy[0] = progress.entropy;
    f->clip_fraction[0] = progress.clip_fraction;
    f->distinct[0] = (float)words_distinct(&samples.tokens) / WORDS_BATCH;
    return PPO_OK;
}

/* A step of reading, or an iteration of PPO. */
static ppo_status words_advance(void) {
    ppo_status status = PPO_OK;
    if (words.step < WORDS_READING) status = words_read();
    else {
        if (!words.reference) status = words_begin();
        if (!status) status = words_iterate();
    }
    words.frame.reading[0] = !words.reference;
    words.frame.step[0] = (float)words.step;
    return status;
}

#endif
