/* rlhf.c - reinforcement learning from human feedback, whole: a tiny language model learns to write (sft), people
   compare its samples and a reward model learns what they like (reward), and PPO makes the model write that (ppo).
   Beside PPO: DPO (dpo), best-of-n (bon) and filtered fine-tuning (rest).

       build/rlhf all                               every stage, with samples before and after
       build/rlhf sft reward ppo --dir build/mine   some of them; each reads and writes files in the folder

   You will see the TRUE reward rise, which here is known (tasks.h); the models only ever see comparisons. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#ifdef __CUDACC__ /* `make cuda` compiles this file with nvcc */
#include "ppo_cuda.cuh"
#endif
#include "processes.h"
#include "stages.h"
#include "runaway.h"
#include "rlhf_options.h"

static const struct stage {
    const char *name;
    ppo_status (*run)(run *r);
    int needs_proxy;  /* the sft model and the reward model must be there */
    int is_appraised; /* it tells what it is worth itself; the others are sampled for that */
    int is_in_all;
} stages[] = {{"sft", stage_sft, 0, 0, 1},       {"reward", stage_reward, 0, 0, 1},
              {"ppo", stage_ppo, 1, 0, 1},       {"dpo", stage_dpo, 1, 0, 1},
              {"bon", stage_bon, 1, 1, 1},       {"rest", stage_rest, 1, 0, 1},
              {"sample", stage_sample, 1, 0, 0}, {"runaway", stage_runaway, 1, 0, 0}};
enum { STAGES = sizeof stages / sizeof *stages };

/* A stage, and what the model that it made is worth. */
static ppo_status perform(run *r, const struct stage *stage) {
    double began = ppo_clock();
    if (!r->json) printf("%s\n", stage->name), fflush(stdout);
    ppo_status status = stage->needs_proxy ? need_proxy(r) : PPO_OK;
    if (!status) status = stage->run(r);
    if (!status) status = need_prompts(r);
    const ppo_lm *model = r->policy ? r->policy : r->sft;
    if (!status && !stage->is_appraised)
        status = evaluate(&r->lab, model, r->sft, r->proxy, &r->held_out, &r->worth);
    if (!status && !r->json && (r->policy || !r->proxy)) status = show_samples(r, model);
    if (!status && !r->json) {
        const ppo_lm_evaluation *e = &r->worth.e;
        printf("  true reward %.2f  proxy %.2f  ", (double)e->reward, (double)r->worth.proxy_reward);
        if (!isnan(e->win_rate))
            printf("wins %.0f %%  entropy %.2f  ", 100 * (double)e->win_rate, (double)e->entropy);
        printf("kl %s%.2f%s  length %.1f  %.1f s\n", stage->is_appraised ? "<= " : "", (double)e->kl,
               e->kl < 0 ? " (an estimate: near 0)" : "", (double)e->mean_length, ppo_clock() - began);
        fflush(stdout);
    }
    ppo_lm_free(r->policy);
    r->policy = NULL;
    return status;
}

static ppo_status perform_named(run *r, const char *name) {
    ppo_status status = PPO_OK;
    int all = !strcmp(name, "all"), found = all;
    for (int k = 0; k < STAGES && !status; k++) {
        if (all ? !stages[k].is_in_all : strcmp(name, stages[k].name) != 0) continue;
        found = 1;
        status = perform(r, &stages[k]);
    }
    return found ? status : ppo_fail(PPO_ERROR_ARGUMENT, "there is no stage %.60s, see --help", name);
}

/* Where models compute from now on. */
static ppo_status use_device(run *r) {
    if (!strcmp(r->device, "cpu")) return PPO_OK;
    if (strcmp(r->device, "cuda") != 0)
        return ppo_fail(PPO_ERROR_ARGUMENT, "there is no device %.60s, see --help", r->device);
#ifdef PPO_CUDA_CUH
    if (r->lab.slots == ppo_rlhf_config_default().slots) r->lab.slots = 256; /* a GPU has room for more */
#ifdef WITH_NCCL
    return ppo_use_cuda(own_gpu);
#else
    return ppo_use_cuda(0);
#endif
#else
    return ppo_fail(PPO_ERROR_DEVICE, "this program was built without CUDA: `make cuda` builds it with");
#endif
}

int main(int argc, char **argv) {
    run r;
    double began = ppo_clock();
    int count = read_flags(&r, argc, argv);
    if (count < 0) return usage(&r);
    r.quiet |= ppo_group_rank() > 0;
    const char *problem = count ? r.lab.task->open() : NULL;
    if (problem) fprintf(stderr, "rlhf: %s\n", problem);
    if (problem || !count) return 1;
    ppo_status status = use_device(&r);
    if (!status) status = ppo_set_threads(r.threads);
    for (int i = 0; i < count && !status; i++) status = perform_named(&r, argv[i]);
    if (status && speaks()) fprintf(stderr, "rlhf: %s\n", ppo_last_error());
    else if (!status && r.json) {
        const ppo_lm_evaluation *e = &r.worth.e;
        printf("{\"true_reward\":%.4f,\"proxy_reward\":%.4f,\"kl\":%.4f,", (double)e->reward,
               (double)r.worth.proxy_reward, (double)e->kl);
        if (!isnan(e->win_rate)) /* which best-of-n, the best of the first model's own samples, has not */
            printf("\"win_rate\":%.4f,\"entropy\":%.4f,", (double)e->win_rate, (double)e->entropy);
        printf("\"length\":%.2f,\"most_kl\":%.4f,\"tokens_per_second\":%.0f,\"seconds\":%.1f}\n",
               (double)e->mean_length, (double)r.most_kl, e->tokens_per_second, ppo_clock() - began);
    }
    if (!status && (fflush(stdout) || ferror(stdout))) {
        fprintf(stderr, "rlhf: the results could not be written\n");
        status = PPO_ERROR_FILE;
    }
    forget_all(&r);
    ppo_set_threads(1);
#ifdef PPO_CUDA_CUH
    ppo_use_cuda(-1);
#endif
    free(dictionary);
    return status != PPO_OK;
}
