/* 32_rlaif.c - feedback from a machine instead of people: cheap, tireless, and with its own taste.

   People are slow, contradict themselves, and are few. RLAIF lets a program compare (Lee 2023),
   Constitutional AI one that follows written principles (Bai 2022): as many comparisons as wanted, without
   noise, and with whatever the principles leave out or the machine adds. Here the principles are "soft
   letters, not hard ones" and "write words"; and, as language models that judge do, this one likes longer
   answers (verbosity bias, Zheng 2023).

   You will see reward models that learned from 300 comparisons by people, 3000 by the machine, and 3000 by
   people; how many new comparisons by people they predict; and what people think of the policies that PPO
   makes of them. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "lesson.h"
#include "letters.h"

enum { WAYS = 3, RUNS = 2, ITERATIONS = 40 };

/* The constitution as a judge: soft letters less hard ones, -1 for what is no word, 0.5 for every letter. */
static ppo_status constitution(const ppo_samples *samples, float *reward, void *user) {
    const ppo_tokens *t = &samples->tokens;
    (void)user;
    for (int s = 0; s < t->count; s++) {
        int n = t->start[s + 1] - t->start[s];
        reward[s] = 0.5f * (float)n - (n % 2 == 1);
        for (int i = t->start[s] + 1, at = 1; i < t->start[s + 1] && t->token[i] != END; i++, at++)
            reward[s] += (is_soft(t->token[i])    ? 1
                          : is_vowel(t->token[i]) ? 0
                                                  : -1) -
                         (is_vowel(t->token[i]) != (at % 2 == 0));
    }
    return PPO_OK;
}

static void ask_machine(const ppo_lm *lm, int n, uint64_t seed, ppo_tokens *chosen, ppo_tokens *rejected) {
    ppo_generator *generator = NULL;
    ppo_sampling how = sampling(seed + 7);
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER + 1, 0);
    ppo_tokens prompts = {0};
    add_words(n, &rng, &prompts);
    must(ppo_generator_create(lm, 16, &generator));
    must(ppo_compare(generator, &prompts, &how, constitution, NULL, NULL, chosen, rejected));
    ppo_generator_free(generator);
    ppo_tokens_free(&prompts);
}

/* The true reward of what PPO makes of such comparisons; agrees: the share of 1000 new ones that is right. */
static float result(int people_asked, int machine_asked, float kl_coef, uint64_t seed, float *agrees,
                    float *length) {
    static float score[1000], other[1000];
    ppo_tokens chosen = {0}, rejected = {0}, new_chosen = {0}, new_rejected = {0}, prompts = {0};
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER, 0);
    ppo_lm *first = first_model(seed), *policy = copy_of(first);
    ppo_rlhf *rlhf = NULL;
    ppo_rlhf_config config = settings(seed);
    if (people_asked) ask_people(first, people_asked, seed, &chosen, &rejected);
    if (machine_asked) ask_machine(first, machine_asked, seed, &chosen, &rejected);
    ppo_lm *judge = learn_reward(first, &chosen, &rejected, seed);
    ppo_reward_model *proxy = make_proxy(&judge, 1, PPO_ENSEMBLE_MEAN, first, seed);
    ask_people(first, 1000, seed + 1000, &new_chosen, &new_rejected);
    must(ppo_lm_scores(judge, &new_chosen, 64, score));
    must(ppo_lm_scores(judge, &new_rejected, 64, other));
    for (int s = 0; s < 1000; s++) *agrees += (score[s] > other[s]) / 1000.0f / RUNS;

    add_words(256, &rng, &prompts);
    config.kl_coef = kl_coef;
    must(ppo_rlhf_create(policy, first, NULL, &prompts, ppo_reward_by_model, proxy, &config, &rlhf));
    for (int i = 0; i < ITERATIONS; i++) must(ppo_rlhf_iterate(rlhf, NULL));
    ppo_lm_evaluation e = worth(policy, first, seed);
    *length += e.mean_length / RUNS;
    show(policy, 3, seed);
    ppo_rlhf_free(rlhf);
    ppo_reward_model_free(proxy);
    ppo_lm_free(judge);
    ppo_lm_free(policy);
    ppo_lm_free(first);
    ppo_tokens *const all[] = {&chosen, &rejected, &new_chosen, &new_rejected, &prompts};
    for (int i = 0; i < 5; i++) ppo_tokens_free(all[i]);
    return e.reward;
}

int main(int argc, char **argv) {
    static const char *const names[WAYS] = {"300 by people", "3000 by machine", "3000 by people"};
    static const int asked[WAYS][2] = {{300, 0}, {0, 3000}, {3000, 0}};
    uint64_t seed = lesson_seed(argc, argv);
    float reward[WAYS] = {0}, agrees[WAYS] = {0}, length[WAYS] = {0};
    for (int k = 0; k < WAYS; k++)
        for (int run = 0; run < RUNS; run++) {
            printf("%-17s", names[k]);
            reward[k] +=
                result(asked[k][0], asked[k][1], 0.05f, seed * 10 + (uint64_t)run, &agrees[k], &length[k]) /
                RUNS;
            fflush(stdout);
        }
    printf("\nmean of %d runs     predicts people   policy: true reward   letters\n", RUNS);
    for (int k = 0; k < WAYS; k++)
        printf("%-18s %13.1f %% %21.2f %9.1f\n", names[k], 100 * (double)agrees[k], (double)reward[k],
               (double)length[k]);
    chart c = {.title = "True reward of policies, by source of comparisons",
               .x_label = "true reward",
               .rows = names,
               .row_count = WAYS};
    chart_rows(&c, NULL, reward, NULL, NULL, WAYS);
    chart_save(&c, "build/lessons/32_rlaif.svg");
    claim(reward[1] > reward[0],
          "3000 by the machine make a better policy than 300 by people: %.2f, not %.2f", (double)reward[1],
          (double)reward[0]);
    claim(agrees[2] > agrees[1],
          "but predict people less well than as many of their own: its taste is not theirs");
    return lesson_failures > 0;
}
