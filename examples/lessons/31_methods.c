/* 31_methods.c - PPO, GRPO, best-of-n, ReST and DPO side by side: what each makes of the same comparisons.

     PPO        reward model, critic, KL in the reward (Ouyang 2022)
     GRPO       reward model; eight samples of a prompt are the baseline, k3 in the loss (Shao 2024)
     best of n  nothing is trained: the reward model picks one of n. Its KL is at most log n - (n - 1) / n
     ReST       the best of four samples of each prompt are learned by supervision, in rounds (Gulcehre 2023)
     DPO        no reward model, no sampling: a loss on the comparisons; beta holds the KL (Rafailov 2023)
   A method buys reward with KL, its drift from the first model. One point of each compares settings, not
   methods: "DPO, short" is DPO with 2 epochs at a third of the learning rate. The fair picture is a curve of
   each over the same KL, in several worlds: each has a first model, people and comparisons of its own.

   You will see these curves, and PPO's lead at the best points, with the interval of the differences. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "../companions/ppo_methods.h"
#include "lesson.h"
#include "letters.h"

enum { METHODS = 6, POINTS = 4, WORLDS = 4 };
enum { PPO, GRPO, BEST_OF_N, REST, DPO, DPO_SHORT };

static const char *const names[METHODS] = {"PPO", "GRPO", "best of n", "ReST", "DPO", "DPO, short"};
static const float setting[METHODS][POINTS] = {{1, 0.5f, 0.2f, 0.1f}, {1, 0.5f, 0.2f, 0.1f},  /* beta */
                                               {4, 8, 16, 32},        {2, 3, 4, 5},           /* n, rounds */
                                               {1, 0.5f, 0.2f, 0.1f}, {1, 0.5f, 0.2f, 0.1f}}; /* beta */
static const float most_kl = 3.5f;
static ppo_lm *first;
static ppo_reward_model *proxy;
static ppo_tokens prompts, chosen, rejected;
static uint64_t seed;
static int world;
static float kl[METHODS][POINTS], truth[METHODS][POINTS]; /* means over worlds */
static float start[WORLDS],
    best[METHODS][WORLDS]; /* true reward: of the first model, the highest within most_kl */

static void note(int method, int point, float its_kl, float reward) {
    kl[method][point] += its_kl / WORLDS;
    truth[method][point] += reward / WORLDS;
    if (its_kl <= most_kl) best[method][world] = fmaxf(best[method][world], reward);
}

static void note_model(int method, int point, const ppo_lm *lm) {
    ppo_lm_evaluation e = worth(lm, first, seed);
    note(method, point, e.kl, e.reward);
}

static void reinforce(int method, int point) {
    ppo_lm *policy = copy_of(first);
    ppo_rlhf *rlhf = NULL;
    ppo_rlhf_config config = settings(seed);
    must(ppo_rlhf_config_preset(&config, method == PPO ? "ppo" : "grpo"));
    config.kl_coef = setting[method][point], config.prompts = 64 / config.samples;
    config.learning_rate = method == PPO ? 1e-3f : 2e-4f;
    must(ppo_rlhf_create(policy, first, NULL, &prompts, ppo_reward_by_model, proxy, &config, &rlhf));
    for (int i = 0; i < 30; i++) must(ppo_rlhf_iterate(rlhf, NULL));
    note_model(method, point, policy);
    ppo_rlhf_free(rlhf), ppo_lm_free(policy);
}

/* The best of n samples of each prompt, by the reward model. */
static ppo_tokens best_words(const ppo_lm *lm, int n, uint64_t its_seed) {
    ppo_generator *generator = NULL;
    ppo_tokens best = {0};
    ppo_sampling how = sampling(its_seed);
    must(ppo_generator_create(lm, 16, &generator));
    must(ppo_best_of_n(generator, &prompts, n, &how, ppo_reward_by_model, proxy, &best, NULL));
    ppo_generator_free(generator);
    return best;
}

static void best_of(int point) {
    int n = (int)setting[BEST_OF_N][point];
    ppo_tokens best = best_words(first, n, seed + 5);
    float reward = 0, each = 1 / (float)best.count;
    for (int s = 0; s < best.count; s++)
        reward += each * true_reward(best.token + best.start[s], best.start[s + 1] - best.start[s]);
    note(BEST_OF_N, point, ppo_best_of_n_kl(n), reward);
    ppo_tokens_free(&best);
}

static void rest(void) {
    ppo_lm *policy = copy_of(first);
    ppo_fit_config fit = ppo_fit_config_default();
    fit.epochs = 2;
    for (int round = 1; round <= POINTS + 1; round++) {
        ppo_tokens best = best_words(policy, 4, seed + 5 + (uint64_t)round);
        must(ppo_fit_sft(policy, &best, &fit));
        if (round > 1) note_model(REST, round - 2, policy);
        ppo_tokens_free(&best);
    }
    ppo_lm_free(policy);
}

static void dpo(int method, int point) {
    ppo_lm *policy = copy_of(first);
    ppo_fit_config fit = ppo_fit_config_default();
    fit.beta = setting[method][point];
    fit.epochs = method == DPO ? 6 : 2;
    fit.learning_rate = method == DPO ? 1e-3f : 3e-4f;
    must(ppo_fit_dpo(policy, first, &chosen, &rejected, &fit));
    note_model(method, point, policy);
    ppo_lm_free(policy);
}

/* All methods in one world. */
static void visit(void) {
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER, 0);
    first = first_model(seed);
    ask_people(first, 1500, seed, &chosen, &rejected);
    ppo_lm *judge = learn_reward(first, &chosen, &rejected, seed);
    proxy = make_proxy(&judge, 1, PPO_ENSEMBLE_MEAN, first, seed);
    add_words(256, &rng, &prompts);
    start[world] = worth(first, first, seed).reward;
    for (int k = 0; k < METHODS; k++) best[k][world] = start[world]; /* at a KL of 0 */
    for (int i = 0; i < POINTS; i++)
        reinforce(PPO, i), reinforce(GRPO, i), best_of(i), dpo(DPO, i), dpo(DPO_SHORT, i);
    rest();
    ppo_reward_model_free(proxy), ppo_lm_free(judge), ppo_lm_free(first);
    ppo_tokens_free(&chosen), ppo_tokens_free(&rejected), ppo_tokens_free(&prompts);
}

int main(int argc, char **argv) {
    uint64_t argument = lesson_seed(argc, argv);
    for (world = 0; world < WORLDS; world++) seed = argument * 10 + (uint64_t)world, visit();
    printf("%-83s best   PPO's lead\n", "beta, n or round: true reward (KL), means of four worlds");
    chart c = {.title = "True reward and its cost", .x_label = "KL", .y_label = "true reward", .x = {0, 5}};
    for (int k = 0; k < METHODS; k++) {
        printf("%-11s", names[k]);
        for (int i = 0; i < POINTS; i++)
            printf(" %5.2g: %5.2f (%4.2f)", (double)setting[k][i], (double)truth[k][i], (double)kl[k][i]);
        double its = mean_of(best[k], WORLDS), lead = mean_of(best[PPO], WORLDS) - its;
        printf("%8.2f %6.2f +- %.2f\n", its, lead, lead - better_by(best[PPO], best[k], WORLDS));
        chart_line(&c, names[k], kl[k], truth[k], POINTS);
        chart_points(&c, NULL, kl[k], truth[k], POINTS);
    }
    chart_save(&c, "build/lessons/31_methods.svg");
    for (int k = 0; k < DPO; k++)
        claim(better_by(best[k], start, WORLDS) > 0, "%s: better words, by %.2f at least", names[k],
              better_by(best[k], start, WORLDS));
    int words = wins_of(best[DPO], start, WORLDS), than_short = wins_of(best[DPO], best[DPO_SHORT], WORLDS);
    claim(words >= WORLDS - 1, "DPO: better words in %d of %d worlds, and in some it may fail", words,
          WORLDS);
    claim(than_short >= WORLDS - 1, "DPO's settings matter as much, in %d of %d", than_short, WORLDS);
    double ahead = better_by(best[PPO], best[REST], WORLDS);
    claim(ahead > 0, "PPO is ahead of ReST, by %.2f at least", ahead);
    claim(!(better_by(best[PPO], best[BEST_OF_N], WORLDS) > 0),
          "a lead over the best of n is not certain; that trains nothing, and pays n samples at each use");
    return lesson_failures > 0;
}
