/* ppo.h - v0.2 - Proximal Policy Optimization in one C header - MIT or public domain, see the end of the file

   Trains a policy inside your own program: no Python, no framework, no build system.
   C99, also valid C++17. Needs the C library, libm, and stb_ds.h (Debian: libstb-dev).

SYNOPSIS

    #define PPO_IMPLEMENTATION              // in exactly ONE source file
    #include "ppo.h"
    #include "envs/cartpole.h"

    int main(void) {
        ppo_env    env = cartpole_env();
        ppo_config cfg = ppo_config_default();
        cfg.total_steps = 100000;

        ppo_agent *agent = NULL;
        if (ppo_train(&env, &cfg, &agent) != PPO_OK) {
            fprintf(stderr, "%s\n", ppo_last_error());
            return 1;
        }
        printf("mean return %.1f\n", ppo_evaluate(agent, &env, 20, cfg.seed).mean_return);
        ppo_agent_free(agent);
    }

    cc -O2 quickstart.c -lm -o quickstart        (with a C library older than glibc 2.34: also -pthread)

    cartpole.h is in examples/envs/: copy that folder along with this file, or describe your own environment.

THE IDEA

    A policy pi(action | observation) acts, and the environment answers with rewards. An advantage A is how
    much better an action turned out than the critic V predicted. PPO (Schulman et al. 2017) then takes
    several gradient steps on the same data. It stays close to the policy that collected the data by clipping
    the ratio r = pi_new(action) / pi_old(action) in the objective

        L = -mean( min( r A, clip(r, 1 - e, 1 + e) A ) ).

          gain                                   gain
            |                                  0 +-----------|---|-------- r
            |           ________                 |          1-e  1
            |         /                          |___________
            |       /                            |            \
            |     /                              |              \
            |   /      A > 0                     |      A < 0     \
          0 +-------|---|------- r               |
                    1  1+e

    Where a line is flat there is no gradient. A good action (A > 0) is made more likely until r = 1 + e, a
    bad one less likely until r = 1 - e; beyond that the old data say little about the new policy, and the
    sample has no effect. A change for the worse (r < 1 in the left figure, r > 1 in the right one) is never
    clipped.

    ppo_train() repeats: collect a rollout; ppo_gae(); then epochs of shuffled minibatches, for each of them
    ppo_policy_loss() + ppo_value_loss() - entropy, backward, ppo_clip_grad_norm(), ppo_adam_step().
    To read PPO in this file, search for "@@ 15": the paragraph there says where to start.

STEP BY STEP

    1. Describe your environment: sizes, and two functions on a block of bytes that the library owns.

        typedef struct { float x, v; } cart;
        static void reset(void *state, ppo_rng *rng, float *obs) {...}                  // start an episode
        static void step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out)
        {...}                                                      // set out->reward, out->terminated

        ppo_env env = {0};                                                                 // in C++: {}
        env.name = "cart";            env.obs_size = 2;         env.action_space = ppo_discrete(2);
        env.state_size = sizeof(cart); env.max_steps = 500;     env.reset = reset;   env.step = step;

       terminated means that the task itself ended (the pole fell): no reward would follow. The library
       applies the time limit max_steps; it truncates the episode, whose value from there on still counts. Set
       fields by name, as here: later versions may add some.
    2. cfg = ppo_config_default(), then change what you like (struct ppo_config lists each field and its
       default). Most settings that can have no effect are errors.
    3. ppo_train(). In a program with a loop of its own use ppo_trainer_create() and ppo_trainer_iterate():
       one call is one rollout of the trainer's environments and its epochs, about 10 ms with the defaults.
       For shorter calls lower num_envs * rollout_steps and epochs, or run the trainer on a thread of its own.
       To compare before and after, call ppo_agent_create() first, and ppo_train() with that agent.
    4. ppo_act(agent, obs, NULL, &action) in your program; ppo_evaluate() for figures, ppo_play() to watch.
       If some actions are illegal: ppo_act_masked(). If the policy has memory: ppo_agent_reset() where an
       episode begins.
    5. ppo_agent_save() and ppo_agent_load(); ppo_trainer_save() and ppo_trainer_resume() to continue a run
       another day with the same bits; ppo_export_c() for a device that has no room for this file.

    What else an environment may need:

        one of n actions         ppo_discrete(n)                       action->discrete
        several choices at once  ppo_multi_discrete(sizes, n)          action->choices[0 .. n-1]
        bits                     ppo_multi_binary(n)                   action->choices[0 .. n-1]
        numbers                  ppo_box(n, low, high)                 action->box[0 .. n-1]
        illegal actions          env.action_mask                       sets a byte to 0 for each
        memory                   cfg.recurrent = 64                    where one observation is not enough
        different scales         cfg.normalize_obs, normalize_reward   statistics belong to the agent
        a picture                env.draw                              a few lines of text

    ppo_config_preset(&cfg, "a2c") sets known settings; build/train --help lists all presets and settings.

LANGUAGE MODELS

    A language model's actions are tokens, and its reward is any C function of the tokens it samples
    (ppo_tokens_text() gives their text). Advantages, losses and optimizer are those of the above:

        ppo_tokenizer_train(text, bytes, 512, specials, n, &tok);    // or ppo_tokenizer_characters()
        eos = ppo_tokenizer_special(tok, "<eos>");
        ppo_tokens_add_text(&data, tok, -1, "2+2=", "4", eos);       // a prompt and its response; and so on
        shape = ppo_lm_config_default(); shape.vocab = ppo_tokenizer_vocab(tok);
        ppo_lm_create(&shape, &lm);                                // a transformer like GPT-2
        fit = ppo_fit_config_default();
        ppo_fit_sft(lm, &data, &fit);                               // supervised fine-tuning
        ppo_lm_copy(lm, 1, &judge);                                // with a score: a reward model
        ppo_fit_reward(judge, &chosen, &rejected, &fit);             // trained on comparisons
        ppo_reward_model_create(&judge, 1, PPO_ENSEMBLE_MEAN, 64, &model);
        cfg = ppo_rlhf_config_default(); cfg.sampling.eos = eos;
        ppo_rlhf_create(lm, NULL, NULL, &prompts, ppo_reward_by_model, model, &cfg, &rlhf);
        ppo_rlhf_iterate(rlhf, &progress);                           // sample, compute rewards, PPO
        ppo_lm_evaluate(lm, before, &held_out, &cfg.sampling, ppo_reward_by_model, model, &evaluation);
        ppo_lm_save(lm, tok, "model.safetensors");                 // also for Hugging Face's transformers

    The critic is a copy of the model with a score. ppo_rlhf_config_preset(&cfg, "grpo") and others (RLOO,
    Dr. GRPO, DAPO, GSPO, CISPO, REINFORCE++) need none. A tool may write into the samples (section 20).
    ppo_generate() samples; ppo_compare() makes comparisons by a judge. ppo_fit_dpo() and ppo_best_of_n() are
    alternatives to reinforcement learning. ppo_tokens_add_lines() reads data sets (JSON Lines). With
    fit.checkpoint set, a program that was killed continues its training when it runs again; for PPO on tokens
    there are ppo_rlhf_save() and ppo_rlhf_resume(). To understand PPO on tokens, start at ppo_rlhf_iterate()
    in section 22 (search for "@@ 22"); which estimator of the KL to use, see ppo_kl_estimate() in section 9.

THREE DOORS, ONE ROOM

    A la carte        the plain functions of sections 7 to 10, over float arrays. No state, no allocation.
                      Your own network and loop can use ppo_gae() and ppo_policy_loss() alone.
    Building blocks   sections 4, 5, 10, 13, 18: tensors, a tape that differentiates, layers, models, Adam.
    Trainers          sections 15 and 22: fill a config, call one function. Built from the two above.

MAP

    Five wings (groups of sections), in both parts of this file in this order; a wing uses only wings above
    it, a section only sections above it. The implementation of section 12 begins at "@@ 12", and so on, with
    a paragraph on how it works, its words, and what to touch to add to it: an instruction set or kernel (3),
    an activation or operation (5), an action space (12), a layer (13), an environment (14), a setting or
    objective (15), a model family (18), a rule of sampling (20), an advantage or loss of tokens (22).

    The clip of PPO is ppo__policy_term() (9), GAE is ppo_gae() (8), the loop ppo_trainer_iterate() (15).

    FOUNDATION          1 Base   2 Random   3 Kernels   4 Tensors   5 Autograd   6 Files
    PPO'S MATHEMATICS   7 Distributions   8 Advantages   9 Losses   10 Optimizer   11 Normalizers
    CONTROL            12 Spaces   13 Networks   14 Environments and rollouts   15 Training and evaluation
                       16 Policies in files
    LANGUAGE           17 Tokens and tokenizers   18 Transformer   19 Models in files   20 Sampling
                       21 Fine-tuning and reward models   22 PPO on tokens
    REPORTS            23 Progress, curves, CSV, TensorBoard, SVG

ERRORS

    The library never prints, exits or aborts. A function that can fail returns a ppo_status (0 is PPO_OK),
    and ppo_last_error() then holds one sentence about the failure, for the calling thread:
        "reward is NaN (environment 3, step 1201)"
    After a failure nothing leaks, a new object's pointer is NULL, and other outputs are unspecified.
    A pointer may be NULL where its comment says so, and in all free functions.
    Your functions (of an environment, a reward, the allocator hook) must return: if longjmp() or a C++
    exception leaves one, the objects of that call must not be used any more, not even freed.

MEMORY

    All of it comes through one hook, ppo_set_allocator(). A trainer takes what it needs at the start and in
    its first iteration; after that it allocates nothing.

REPRODUCIBLE

    The same seed gives the same bits on the same machine, for any number of threads. The random numbers are
    a function of (seed, purpose, index, position), and a row of a batch is computed alike in every batch, so
    the first minibatch of an iteration sees ratios of exactly 1.0f.

GPU

    ppo_cuda.cuh beside this file puts language models on an NVIDIA GPU with one call, ppo_use_cuda(0), in a
    program that nvcc compiles; and it has the plain functions of sections 7 to 10 for arrays there. Control
    stays on the processor, where networks of its size are faster.

THREADS

    cfg.threads > 1 collects experience and computes the update on that many threads. A small network's
    minibatch is divided into shards of 128 samples or more, so a second thread helps from 256 on. Your
    environment's functions (and the allocator hook) are then called from several threads at once, the former
    each with its own state. ppo_set_threads() divides all other arithmetic, above all of language models.
    Different trainers may run on different threads. Do not use one agent, trainer or tape on two threads at a
    time.
    fork() does not copy threads: a child computes alone, with the same results, until ppo_set_threads() or a
    new trainer starts threads there. Do not fork while another thread is in a call of the library.

SWITCHES (define before the #include that has PPO_IMPLEMENTATION; not with -ffast-math, which hides NaN)

    PPO_STATIC            everything static: the library is private to the file with PPO_IMPLEMENTATION
    PPO_NO_THREADS        no threads (the default where there are neither pthreads nor Windows' threads, and
                          with tcc, where only one thread may use the library)
    PPO_NO_SIMD           plain C kernels only, as with compilers other than gcc and clang: training is 20 to
                          50 times as slow
    PPO_NO_CONTROL        leave out the wing of that name, declarations and all: where a switch is set, set it
    PPO_NO_LANGUAGE       wherever this file is included. Any combination works
    PPO_NO_REPORTS
    PPO_FILE_NAME         the name of this file in quotes, if you renamed it and the compiler lacks
                          __FILE_NAME__ (the file includes itself once per instruction set, to compile the
                          vector kernels)

    The file with PPO_IMPLEMENTATION gets the system's headers too; on Windows that is windows.h, so a file of
    its own keeps those names out of yours. If it also uses the short names of stb_ds.h (arrput), include
    stb_ds.h before this file.
*/

#ifndef PPO_H
#define PPO_H

#define PPO_VERSION_MAJOR 0
#define PPO_VERSION_MINOR 2
#define PPO_VERSION_PATCH 0
#define PPO_VERSION       "0.2.0"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#if defined(PPO_STATIC) && !defined(PPO_IMPLEMENTATION)
#error "PPO_STATIC needs PPO_IMPLEMENTATION, before the first #include of ppo.h in this file"
#undef PPO_STATIC
#endif
#ifdef PPO_STATIC
#if defined(__GNUC__)
#define PPO_DEF static __attribute__((unused))
#else
#define PPO_DEF static
#endif
#else
#define PPO_DEF extern
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------------------------------------------------------------
   1 Base: status codes, the text of the last error, the allocator hook, a clock
   -------------------------------------------------------------------------------------------------------- */

typedef enum ppo_status {
    PPO_OK = 0,
    PPO_ERROR_ARGUMENT, /* a size, pointer, name or setting that cannot work */
    PPO_ERROR_MEMORY,   /* the allocator returned NULL */
    PPO_ERROR_NUMERIC,  /* NaN or infinity in an observation, a reward, a loss or a gradient */
    PPO_ERROR_THREAD,   /* the system refused a thread */
    PPO_ERROR_FILE,     /* a file cannot be opened, read or written, or has the wrong content */
    PPO_ERROR_DEVICE    /* there is no GPU, its driver is too old, or it failed (ppo_cuda.cuh) */
} ppo_status;

/* One sentence about the last failure on this thread, "" if there was none. Valid until the next. */
PPO_DEF const char *ppo_last_error(void);

/* Sets that sentence, as printf() formats it, and returns status: for functions of your own. */
PPO_DEF ppo_status ppo_fail(ppo_status status, const char *format, ...);

/* All memory comes from `hook`, which acts like realloc: ptr NULL allocates, size 0 frees and returns NULL.
   NULL restores the C library's. Change it only while the library holds no memory. */
typedef void *(*ppo_realloc_hook)(void *user, void *ptr, size_t size);
PPO_DEF void ppo_set_allocator(ppo_realloc_hook hook, void *user);

/* Uses `threads` threads (1 to 1024, 1 at the start), including the caller, for what the calling thread
   computes from now on. The results have the same bits for any number. Small matrices are not divided. Call
   ppo_set_threads(1) before the calling thread ends: it ends the others. A ppo_trainer has its own threads
   (ppo_config.threads). Errors, which change nothing: a number out of range, the system refuses a thread, an
   environment's function made the call. */
PPO_DEF ppo_status ppo_set_threads(int threads);

/* Wall-clock seconds since a fixed moment; for differences. */
PPO_DEF double ppo_clock(void);

/* --------------------------------------------------------------------------------------------------------
   2 Random: Philox4x32-10 (Salmon et al. 2011): numbers are a pure function of (seed, purpose, index,
   position). Any two streams are independent. A stream is 44 plain bytes: copy it to save it.
   -------------------------------------------------------------------------------------------------------- */

/* What the library draws numbers for; your own streams may use purposes from PPO_STREAM_USER on. */
enum {
    PPO_STREAM_ENV,      /* index: environment */
    PPO_STREAM_ACTION,   /* index: environment */
    PPO_STREAM_INIT,     /* index: 0 */
    PPO_STREAM_SHUFFLE,  /* index: 0 */
    PPO_STREAM_EVALUATE, /* index: episode */
    PPO_STREAM_TOKEN,    /* index: sequence */
    PPO_STREAM_USER = 1024
};

typedef struct ppo_rng {
    uint32_t key[2];     /* the seed */
    uint32_t counter[4]; /* position (low, high), index, purpose */
    uint32_t block[4];   /* the four numbers made from the last counter */
    uint32_t used;       /* how many of them have been drawn */
} ppo_rng;

PPO_DEF ppo_rng  ppo_rng_stream(uint64_t seed, uint32_t purpose, uint32_t index);
PPO_DEF uint32_t ppo_rng_u32(ppo_rng *rng);
PPO_DEF float    ppo_rng_uniform(ppo_rng *rng);                      /* [0, 1), a multiple of 2^-24 */
PPO_DEF float    ppo_rng_range(ppo_rng *rng, float low, float high); /* [low, high) */
PPO_DEF float    ppo_rng_normal(ppo_rng *rng);                       /* mean 0, variance 1 */
PPO_DEF int      ppo_rng_below(ppo_rng *rng, int n);                 /* 0 .. n-1, unbiased; n <= 1 gives 0 */
PPO_DEF void     ppo_rng_shuffle(ppo_rng *rng, int *x, int n);       /* Fisher and Yates */

/* --------------------------------------------------------------------------------------------------------
   3 Kernels: the hot loops exist once per instruction set; the best that the processor has is chosen at run
   time.
   -------------------------------------------------------------------------------------------------------- */

/* Chooses "plain", "avx2", "avx512", "neon" or "fma"; NULL returns to the best. PPO_ERROR_ARGUMENT if this
   processor or this build does not have it. For tests and timing: results of different sets differ in the
   last bits. */
PPO_DEF ppo_status  ppo_use_kernels(const char *name);
PPO_DEF const char *ppo_kernels_name(void);

/* --------------------------------------------------------------------------------------------------------
   4 Tensors: a matrix of floats, row-major, with room for its gradient
   -------------------------------------------------------------------------------------------------------- */

typedef struct ppo_tensor {
    int    rows, cols;
    float *data; /* (rows, cols) */
    float *grad; /* d loss / d data, (rows, cols); NULL: no gradient is wanted */
} ppo_tensor;

/* The trainable parameters of a model. Their numbers lie side by side in one block, as do their gradients and
   moments, so that clipping and Adam are one pass. Each tensor starts on a 64-byte boundary; the gaps between
   tensors hold zeros. */
typedef struct ppo_params {
    size_t       count;       /* floats in each block, gaps included */
    size_t       capacity;    /* floats that each block has room for */
    float       *data, *grad; /* the parameters, and d loss / d parameter */
    float       *m, *v;       /* Adam's first and second moments */
    int64_t      step;        /* optimizer steps taken */
    int          tensor_count;
    ppo_tensor **tensors;        /* [tensor_count], in the order added */
    const char **names;          /* [tensor_count], as "actor.0.weight"; owned by the set */
    float       *lr_scale;       /* [tensor_count]: factors of the learning rate; 1 by default */
    int          decay_matrices; /* 1: weight decay is not of rows, such as biases and norms; 0: of all */
    int          frozen;         /* 1: grad, m and v are NULL, and so is the grad of each tensor */
    struct ppo__mirror *mirror;  /* private: a copy on a GPU, or NULL */
} ppo_params;

PPO_DEF ppo_status ppo_params_create(ppo_params **params);
PPO_DEF void       ppo_params_free(ppo_params *params);

/* Adds a parameter of zeros, with a name of its own. The tensor stays valid until ppo_params_free(), but the
   next call may move its data and grad. NULL on failure. */
PPO_DEF ppo_tensor *ppo_params_add(ppo_params *params, const char *name, int rows, int cols);

/* Makes room for `count` floats in all, gaps included. Without it, each ppo_params_add() copies the set. */
PPO_DEF ppo_status ppo_params_reserve(ppo_params *params, size_t count);

/* Frozen 1: frees the gradients and moments of a set that nothing trains, three quarters of its memory; 0: takes
   new ones, zeros, if it is frozen. Language models that were loaded or copied are frozen until something trains
   them: fits and PPO take what they need. */
PPO_DEF ppo_status ppo_params_freeze(ppo_params *params, int frozen);

/* Brings the blocks back from a GPU (ppo_cuda.cuh), where those of a language model stay between calls
   of the library. Call it before you read or change them: then they are the ones that count, until a call
   uses the model again. A tape of your own computes on the processor and calls it for you; between
   such a tape's forward and backward no other call may use the model. Without a GPU it does nothing. Errors:
   those of the device. */
PPO_DEF ppo_status ppo_params_sync(ppo_params *params);

/* Fills a weight with a random (semi-)orthogonal matrix times gain (Saxe et al. 2013; as PyTorch's
   orthogonal_), with uniform numbers in [-bound, bound), or with normal numbers of mean 0. */
PPO_DEF ppo_status ppo_init_orthogonal(ppo_tensor *weight, float gain, ppo_rng *rng);
PPO_DEF void       ppo_init_uniform(ppo_tensor *weight, float bound, ppo_rng *rng);
PPO_DEF void       ppo_init_normal(ppo_tensor *weight, float std, ppo_rng *rng);

/* --------------------------------------------------------------------------------------------------------
   5 Autograd: an operation is computed when it is called, and recorded on a tape; backward walks the tape
   from its end. An operation returns its result, or NULL on failure. NULL operands pass through, so that a
   whole expression is checked once, by ppo_tape_backward() or ppo_tape_status(). Results live until
   ppo_tape_reset(), which keeps the memory for the next round.
   -------------------------------------------------------------------------------------------------------- */

typedef struct ppo_tape ppo_tape;

PPO_DEF ppo_status ppo_tape_create(ppo_tape **tape);
PPO_DEF void       ppo_tape_free(ppo_tape *tape);
PPO_DEF void       ppo_tape_reset(ppo_tape *tape);
PPO_DEF void       ppo_tape_record(ppo_tape *tape, int on); /* 0: no gradients; 1 is the default */
PPO_DEF ppo_status ppo_tape_status(const ppo_tape *tape);   /* the first failure since the last reset */

/* Adds d loss / d x to the grad of every parameter, and of every other tensor of yours that has one; loss is
   (1, 1). Gradients accumulate until ppo_params_zero_grad(). Those of results on the tape are undefined
   afterwards. */
PPO_DEF ppo_status ppo_tape_backward(ppo_tape *tape, ppo_tensor *loss);

/* Wraps the caller's floats (rows, cols) without copying them; they must stay valid until the tape's reset.
   It has no gradient. */
PPO_DEF ppo_tensor *ppo_tape_constant(ppo_tape *tape, const float *data, int rows, int cols);
/* The numbers of x, through which no gradient flows back. */
PPO_DEF ppo_tensor *ppo_tape_detach(ppo_tape *tape, ppo_tensor *x);

/* Elementwise. b may also be a row (1, cols), a column (rows, 1) or a scalar (1, 1), which is repeated.
   Where the operands of min or max are equal, each gets half of the gradient. */
PPO_DEF ppo_tensor *ppo_tape_add(ppo_tape *tape, ppo_tensor *a, ppo_tensor *b);
PPO_DEF ppo_tensor *ppo_tape_sub(ppo_tape *tape, ppo_tensor *a, ppo_tensor *b);
PPO_DEF ppo_tensor *ppo_tape_mul(ppo_tape *tape, ppo_tensor *a, ppo_tensor *b);
PPO_DEF ppo_tensor *ppo_tape_div(ppo_tape *tape, ppo_tensor *a, ppo_tensor *b);
PPO_DEF ppo_tensor *ppo_tape_min(ppo_tape *tape, ppo_tensor *a, ppo_tensor *b);
PPO_DEF ppo_tensor *ppo_tape_max(ppo_tape *tape, ppo_tensor *a, ppo_tensor *b);

PPO_DEF ppo_tensor *ppo_tape_exp(ppo_tape *tape, ppo_tensor *x);
PPO_DEF ppo_tensor *ppo_tape_log(ppo_tape *tape, ppo_tensor *x);
PPO_DEF ppo_tensor *ppo_tape_tanh(ppo_tape *tape, ppo_tensor *x);
PPO_DEF ppo_tensor *ppo_tape_relu(ppo_tape *tape, ppo_tensor *x);
PPO_DEF ppo_tensor *ppo_tape_square(ppo_tape *tape, ppo_tensor *x);
PPO_DEF ppo_tensor *ppo_tape_clamp(ppo_tape *tape, ppo_tensor *x, float low, float high);
/* scale x + shift */
PPO_DEF ppo_tensor *ppo_tape_scale(ppo_tape *tape, ppo_tensor *x, float scale, float shift);

PPO_DEF ppo_tensor *ppo_tape_sum(ppo_tape *tape, ppo_tensor *x);         /* (1, 1) */
PPO_DEF ppo_tensor *ppo_tape_mean(ppo_tape *tape, ppo_tensor *x);        /* (1, 1) */
PPO_DEF ppo_tensor *ppo_tape_log_softmax(ppo_tape *tape, ppo_tensor *x); /* per row */

/* out[i] = x[i][index[i]]: (rows, 1). index [rows] must stay valid until the tape's reset. */
PPO_DEF ppo_tensor *ppo_tape_pick(ppo_tape *tape, ppo_tensor *x, const int *index);

/* (n, k) x (k, m) -> (n, m) */
PPO_DEF ppo_tensor *ppo_tape_matmul(ppo_tape *tape, ppo_tensor *a, ppo_tensor *b);

/* Activations. GELU (Hendrycks and Gimpel 2016) is its tanh form, as in GPT-2, or exact, with erf. SiLU is x times
   the logistic function of x. */
enum { PPO_IDENTITY, PPO_TANH, PPO_RELU, PPO_GELU, PPO_GELU_ERF, PPO_SILU, PPO__ACTIVATIONS };

/* activation(x w + b): x (n, in), w (in, out), b (1, out) or NULL -> (n, out). One fused operation. */
PPO_DEF ppo_tensor *ppo_tape_linear(ppo_tape *tape, ppo_tensor *x, ppo_tensor *w, ppo_tensor *b,
                                    int activation);

/* a b^T: (n, k) x (m, k) -> (n, m) */
PPO_DEF ppo_tensor *ppo_tape_matmul_transposed(ppo_tape *tape, ppo_tensor *a, ppo_tensor *b);

/* out[i] = row index[i] of table: (n, cols). index [n] must stay valid until the tape's reset. */
PPO_DEF ppo_tensor *ppo_tape_embedding(ppo_tape *tape, ppo_tensor *table, const int *index, int n);

/* Per row (x - mean) / sqrt(var + eps) weight + bias (Ba 2016), and x / sqrt(mean of x^2 + eps) weight (Zhang
   2019); weight and bias are (1, cols). eps must be above 0; 1e-5 is usual. */
PPO_DEF ppo_tensor *ppo_tape_layer_norm(ppo_tape *tape, ppo_tensor *x, ppo_tensor *weight, ppo_tensor *bias,
                                        float eps);
PPO_DEF ppo_tensor *ppo_tape_rms_norm(ppo_tape *tape, ppo_tensor *x, ppo_tensor *weight, float eps);
/* From x (n, 2 k), f(the first k columns) times the others: (n, k) (gated linear units, Shazeer 2020). */
PPO_DEF ppo_tensor *ppo_tape_gated(ppo_tape *tape, ppo_tensor *x, int activation);

/* An operation: forward fills out from in; backward ADDS to in[k]->grad (where not NULL) from out->grad.
   Your own operations work as the library's do:

       static ppo_status cube(ppo_node *node) {
           for (int i = 0; i < node->in[0]->cols; ++i)
               node->out[0]->data[i] = powf(node->in[0]->data[i], 3);
           return PPO_OK;
       }
       static void cube_backward(ppo_node *node) {
           const float *x = node->in[0]->data, *dy = node->out[0]->grad;
           for (int i = 0; i < node->in[0]->cols; ++i) node->in[0]->grad[i] += dy[i] * 3 * x[i] * x[i];
       }
       static const ppo_op op = {"cube", 1, cube, cube_backward}; // with several inputs: test grad for NULL
       ppo_tensor *y = ppo_tape_result(ppo_tape_apply(tape, &op, &x, 1, 1, x->cols, NULL, 0)); */
enum { PPO_MAX_INPUTS = 8, PPO_MAX_OUTPUTS = 2 };
typedef struct ppo_node ppo_node;
typedef struct ppo_op {
    const char *name;
    int         outputs;                   /* 1 or 2, all of the same shape */
    ppo_status (*forward)(ppo_node *node); /* on failure: ppo_fail() and return its status */
    void (*backward)(ppo_node *node);
} ppo_op;
struct ppo_node {
    const ppo_op *op;
    ppo_tape     *tape; /* for ppo_tape_alloc() */
    ppo_tensor   *in[PPO_MAX_INPUTS];
    ppo_tensor   *out[PPO_MAX_OUTPUTS];
    void         *args;    /* a copy of the operation's own arguments */
    void         *kept;    /* what forward leaves for backward; memory from ppo_tape_alloc() */
    float        *scratch; /* valid during the current call only */
};

/* Runs and records an operation: n_in inputs (NULL: an optional operand that is left out), outputs of (rows,
   cols), args_size bytes of args, which are copied. Returns the node, whose results are in ->out, or NULL. */
PPO_DEF ppo_node *ppo_tape_apply(ppo_tape *tape, const ppo_op *op, ppo_tensor *const *in, int n_in, int rows,
                                 int cols, const void *args, size_t args_size);
/* The node's first result; NULL if node is. */
PPO_DEF ppo_tensor *ppo_tape_result(ppo_node *node);
/* Memory for n floats, valid until the tape's reset; NULL on failure. */
PPO_DEF float *ppo_tape_alloc(ppo_tape *tape, size_t n);

/* Compares the gradients of a scalar function of `inputs` with central differences of step epsilon. build()
   records the function on the tape and returns its (1, 1) result; it is called once, then twice per number,
   and must not draw new random numbers. inputs need data and grad; their gradients are zero afterwards.
   *max_error (may be NULL) is the largest |analytic - numeric| / max(0.1, |analytic|, |numeric|), NaN if
   nothing could be compared; PPO_ERROR_NUMERIC if it exceeds tolerance. epsilon 1e-2 and tolerance 1e-2 suit
   values around 1 in 32-bit arithmetic. Check away from special points: where every ratio is 1, a wrong
   derivative may not show. */
typedef ppo_tensor *(*ppo_scalar_fn)(ppo_tape *tape, ppo_tensor *const *inputs, void *user);
PPO_DEF ppo_status ppo_check_gradients(ppo_scalar_fn build, ppo_tensor *const *inputs, int n_inputs,
                                       void *user, float epsilon, float tolerance, float *max_error);

enum { PPO_MAX_LAYERS = 64 }; /* of any network, transformer or setting of widths */

/* --------------------------------------------------------------------------------------------------------
   6 Files: named arrays and texts in one file of the safetensors format, which Python's package of that
   name reads and writes as well: 8 bytes with the length of the header (little-endian); the header,

   {"__metadata__":{"key":"text"},"name":{"dtype":"F32","shape":[4,64],"data_offsets":[0,1024]}}

   padded with spaces to a multiple of 8; the arrays, row-major, little-endian on every machine, without gaps.
   -------------------------------------------------------------------------------------------------------- */

/* Element types. Files with others (I16, F8_E4M3, ...) are refused. F16 and BF16 are floats of 2 bytes: those of
   IEEE 754, and the upper half of a float. */
enum { PPO_BOOL, PPO_U8, PPO_F16, PPO_BF16, PPO_I32, PPO_U32, PPO_F32, PPO_F64, PPO_I64, PPO_U64 };
enum { PPO_MAX_RANK = 8 };

typedef struct ppo_array {
    const char *name;
    int         type, rank;          /* rank 0: a single number */
    int64_t     shape[PPO_MAX_RANK]; /* [rank]; a 0 among them: no elements */
    size_t      bytes;
    const void *data; /* row-major; on a 64-byte boundary if it was read from a file */
} ppo_array;

typedef struct ppo_file ppo_file; /* the content of a file, in memory */

PPO_DEF ppo_status ppo_file_create(ppo_file **file);
PPO_DEF void       ppo_file_free(ppo_file *file);

/* Adds a text, or replaces that of the same key. Both are UTF-8 and copied. */
PPO_DEF ppo_status ppo_file_set_text(ppo_file *file, const char *key, const char *text);

/* Adds an array under a new name (UTF-8, copied). data is borrowed: it must last until the last write. */
PPO_DEF ppo_status ppo_file_add(ppo_file *file, const char *name, int type, const int64_t *shape, int rank,
                                const void *data);

/* Writes all of it, and makes missing directories. The same content gives the same bytes, in whatever order
   it was added and on every machine: those of Python's package, up to the order of the texts. The new file
   replaces an old one in one step when it is complete and on the disk (which only Unix and Windows wait for):
   after a crash the file is the old one or the new one, and perhaps a ppo-....tmp is left, which can be
   deleted. A symbolic link is replaced, not followed; the permissions are those of a new file. Error: on
   Windows, the old file is open elsewhere. */
PPO_DEF ppo_status ppo_file_write(const ppo_file *file, const char *path);

/* Reads a whole file: PPO_ERROR_FILE if it breaks any rule of the format. Stricter than Python's package:
   repeated names, unknown members, characters of code 0 and more than PPO_MAX_RANK dimensions are errors. */
PPO_DEF ppo_status ppo_file_read(const char *path, ppo_file **file);

/* Arrays and texts by name, or by index 0 .. count-1, sorted by name; NULL if there is none. Valid until
   ppo_file_free(). */
PPO_DEF const ppo_array *ppo_file_find(const ppo_file *file, const char *name);
PPO_DEF const char      *ppo_file_text(const ppo_file *file, const char *key);
PPO_DEF int              ppo_file_count(const ppo_file *file);
PPO_DEF int              ppo_file_text_count(const ppo_file *file);
PPO_DEF const ppo_array *ppo_file_at(const ppo_file *file, int index);
PPO_DEF const char      *ppo_file_key_at(const ppo_file *file, int index); /* of a text */

/* The array of this name, type and shape, or NULL and an error:
   policy.safetensors: "actor.0.weight" is F32 (4, 32), not F32 (4, 64) */
PPO_DEF ppo_status ppo_file_expect(const ppo_file *file, const char *name, int type, const int64_t *shape,
                                   int rank, const ppo_array **array);

/* Settings by name, for command lines and files: a table with one row for each field of a struct of settings.
   In a name '-' may stand for '_'. */
enum { PPO_FIELD_INT, PPO_FIELD_I64, PPO_FIELD_U64, PPO_FIELD_FLOAT, PPO_FIELD_CHOICE, PPO_FIELD_WIDTHS };
enum { PPO_FIELD_NETWORK = 1 };
typedef struct ppo_field {
    const char *name;
    int         type;     /* WIDTHS: int [PPO_MAX_LAYERS], followed by an int that says how many are used */
    size_t      offset;   /* in the struct */
    double      min, max; /* both allowed */
    const char *choices;  /* CHOICE: the words for min, min + 1, ... as "constant|linear|cosine"; else NULL */
    const char *help;
    int         kind; /* 0 or PPO_FIELD_NETWORK */
} ppo_field;
typedef struct ppo_settings {
    const ppo_field *field; /* [count] */
    int              count;
} ppo_settings;

/* _check() checks the bounds of every field. _set() sets one from text; _set_all() several, as
   "gamma=0.9 hidden=64,64", and keeps those before an invalid one. _get() writes one as the text that _set()
   reads. Errors: an unknown name, a value out of range, too little room for the text. */
PPO_DEF ppo_status ppo_settings_check(const ppo_settings *settings, const void *config);
PPO_DEF ppo_status ppo_settings_set(const ppo_settings *settings, void *config, const char *name,
                                    const char *value);
PPO_DEF ppo_status ppo_settings_set_all(const ppo_settings *settings, void *config, const char *text);
PPO_DEF ppo_status ppo_settings_get(const ppo_settings *settings, const void *config, const char *name,
                                    char *text, size_t size);
/* Sets those that are among the texts of a file, such as a checkpoint. */
PPO_DEF ppo_status ppo_settings_load(const ppo_settings *settings, const char *path, void *config);

/* ========================================================================================================
   PPO'S MATHEMATICS
   ======================================================================================================== */

/* --------------------------------------------------------------------------------------------------------
   7 Distributions. Categorical: logits (n, vocab), one row per sample, for actions or tokens. Diagonal
   Gaussian: mean (n, dim) and log standard deviations log_std (dim).

   In sections 7 to 11 all arrays are dense and the caller's; `mask` may be NULL (all 1); pointers for
   gradients and statistics may be NULL; outputs are overwritten. Errors: NULL where it is not allowed, a size
   below 1, a result that is NaN, or infinite where no comment allows it (the message names the row or
   sample). Functions without a status check nothing.
   -------------------------------------------------------------------------------------------------------- */

/* logp[i] = log softmax(logits[i] / temperature)[token[i]], and the row's entropy (may be NULL), in nats. A
   logit of -INFINITY is an impossible token, with a logp of -INFINITY. Errors: token outside 0 .. vocab-1,
   temperature <= 0 or not finite. */
PPO_DEF ppo_status ppo_token_logp(const float *logits, const int *token, int n, int vocab, float temperature,
                                  float *logp, float *entropy);

/* grad_logits = grad_logp d logp / d logits + grad_entropy d entropy / d logits; grad_logp and grad_entropy
   may be NULL (0). grad_logits may be logits: in place. */
PPO_DEF ppo_status ppo_token_logp_backward(const float *logits, const int *token, const float *grad_logp,
                                           const float *grad_entropy, int n, int vocab, float temperature,
                                           float *grad_logits);

/* A random token from a row of finite logits, temperature > 0; the most likely token, the first of equals. */
PPO_DEF int ppo_categorical_sample(const float *logits, int vocab, float temperature, ppo_rng *rng);
PPO_DEF int ppo_categorical_mode(const float *logits, int vocab);

/* kl[i] = KL(softmax(p[i]) || softmax(q[i])), exact; INFINITY where a token is impossible in q alone. */
PPO_DEF ppo_status ppo_categorical_kl(const float *p_logits, const float *q_logits, int n, int vocab,
                                      float *kl);

/* Several independent choices at once (multi-discrete): a row of logits holds `heads` rows side by side, of
   sizes[0], sizes[1], ... logits; action is (n, heads). Log-probabilities, entropies and KLs add up. */
PPO_DEF ppo_status ppo_multi_categorical_logp(const float *logits, const int *sizes, int heads,
                                              const int *action, int n, float *logp, float *entropy);
PPO_DEF ppo_status ppo_multi_categorical_logp_backward(const float *logits, const int *sizes, int heads,
                                                       const int *action, const float *grad_logp,
                                                       const float *grad_entropy, int n, float *grad_logits);
PPO_DEF ppo_status ppo_multi_categorical_kl(const float *p_logits, const float *q_logits, const int *sizes,
                                            int heads, int n, float *kl);

/* logp[i] of action (n, dim), and entropy[i] (may be NULL; the same in every row), summed over dimensions. */
PPO_DEF ppo_status ppo_gaussian_logp(const float *mean, const float *log_std, const float *action, int n,
                                     int dim, float *logp, float *entropy);

/* Gradients, grad_mean (n, dim) and grad_log_std (dim), of the sum of grad_logp logp + grad_entropy entropy;
   each of the four may be NULL. */
PPO_DEF ppo_status ppo_gaussian_logp_backward(const float *mean, const float *log_std, const float *action,
                                              const float *grad_logp, const float *grad_entropy, int n,
                                              int dim, float *grad_mean, float *grad_log_std);

/* One random action [dim] from one row; and kl[i] = KL(p || q) of each row, exact. */
PPO_DEF void       ppo_gaussian_sample(const float *mean, const float *log_std, int dim, ppo_rng *rng,
                                       float *action);
PPO_DEF ppo_status ppo_gaussian_kl(const float *p_mean, const float *p_log_std, const float *q_mean,
                                   const float *q_log_std, int n, int dim, float *kl);

/* Squashes Gaussian numbers u (n, dim) into a box: action = low + (high - low) (tanh(u) + 1) / 2. The log-
   probability of an action is that of its u less log_det[i], the sum of log(d action / d u) over row i. */
PPO_DEF void ppo_squash(const float *u, size_t count, float low, float high, float *action);
PPO_DEF void ppo_squash_log_det(const float *u, int n, int dim, float low, float high, float *log_det);

/* On the tape: logp and entropy, which may be NULL, and KL are (n, 1). The arrays must not change until the
   tape's reset. log_std is (1, dim) or (n, dim). KL is the exact KL(old || new) from the policy that acted,
   given by its outputs (old_mean and old_log_std are (n, dim)), to the one being trained. */
PPO_DEF void ppo_tape_categorical(ppo_tape *tape, ppo_tensor *logits, const int *action, float temperature,
                                  ppo_tensor **logp, ppo_tensor **entropy);
PPO_DEF void ppo_tape_multi_categorical(ppo_tape *tape, ppo_tensor *logits, const int *sizes, int heads,
                                        const int *action, ppo_tensor **logp, ppo_tensor **entropy);
PPO_DEF void ppo_tape_gaussian(ppo_tape *tape, ppo_tensor *mean, ppo_tensor *log_std, const float *action,
                               ppo_tensor **logp, ppo_tensor **entropy);
PPO_DEF ppo_tensor *ppo_tape_multi_categorical_kl(ppo_tape *tape, const float *old_logits, const int *sizes,
                                                  int heads, ppo_tensor *logits);
PPO_DEF ppo_tensor *ppo_tape_gaussian_kl(ppo_tape *tape, const float *old_mean, const float *old_log_std,
                                         ppo_tensor *mean, ppo_tensor *log_std);

/* KL(new || ref), exact (n, 1), of softmax(logits / temperature) to the same of ref_logits (n, vocab). */
PPO_DEF ppo_tensor *ppo_tape_categorical_kl_to(ppo_tape *tape, ppo_tensor *logits, const float *ref_logits,
                                               float temperature);

/* Sets the logits of illegal actions, where mask (rows, cols) is 0, to -1e8: their probability is exactly 0,
   and no gradient flows into them (Huang and Ontanon 2022). */
PPO_DEF ppo_tensor *ppo_tape_mask(ppo_tape *tape, ppo_tensor *logits, const unsigned char *mask);

/* Bits of an argument `want`, which outputs of a model to compute: logits or means; V, the critic's value. */
enum { PPO_POLICY = 1, PPO_VALUE = 2 };

/* --------------------------------------------------------------------------------------------------------
   8 Advantages
   -------------------------------------------------------------------------------------------------------- */

/* Generalized advantage estimation (Schulman 2016, eq. 16), time-major [steps][envs]:
       delta_t = reward_t + gamma (1 - terminated_t) next_value_t - value_t
       A_t     = delta_t + gamma lambda (1 - done_t) A_{t+1},    done = terminated or truncated
       value_target = A + value
   next_value[t] is V of the observation that followed step t, before any reset: value[t + 1] within an
   episode, not read where terminated. terminated and truncated (NULL: all 0) both cut the recursion; only
   truncated steps bootstrap. value_target may be NULL. lambda 0 is one-step TD, lambda 1 is Monte Carlo minus
   baseline. Errors: gamma or lambda outside 0 to 1. */
PPO_DEF ppo_status ppo_gae(const float *reward, const float *value, const float *next_value,
                           const unsigned char *terminated, const unsigned char *truncated, int steps,
                           int envs, float gamma, float lambda, float *advantage, float *value_target);

/* x = (x - mean) / (std + 1e-8), with mean and unbiased std (n - 1) of the unmasked elements; shift_mean 0
   adds the mean back. Does not change masked elements, nor a single unmasked one, which has no variance.
   Errors: all are masked, an element is not finite. */
PPO_DEF ppo_status ppo_whiten(float *x, const unsigned char *mask, int n, int shift_mean);

/* 1 - Var(target - value) / Var(target): 1 for a perfect critic, 0 for one no better than a constant; NaN if
   all targets are equal. */
PPO_DEF float ppo_explained_variance(const float *value, const float *target, int n);

/* --------------------------------------------------------------------------------------------------------
   9 Losses: each computes a MEAN over the unmasked samples, and its gradient. Errors: all samples are masked
   -------------------------------------------------------------------------------------------------------- */

/* Objectives of the policy, for r = exp(logp - old_logp) (Schulman 2017):
       PPO_CLIP        -mean(min(r A, clip(r, 1 - clip_low, 1 + clip_high) A))   (eq. 7)
       PPO_KL_PENALTY  -mean(r A) + kl_coef mean(KL(old || new)), exact          (eq. 8)
       PPO_UNCLIPPED   -mean(r A)                                                (eq. 6)
       PPO_K3_PENALTY  -mean(r A) + kl_coef mean(k3), k3 = r - 1 - log r: an estimate of KL(old || new)
       PPO_CISPO       -mean(c A logp), c = clip(r, 1 - clip_low, 1 + clip_high), held constant: samples that
                       the clip would leave out keep a gradient (MiniMax 2025)
   The exact KL needs both distributions, so PPO_KL_PENALTY is for ppo_config.objective alone. */
enum { PPO_CLIP, PPO_KL_PENALTY, PPO_UNCLIPPED, PPO_K3_PENALTY, PPO_CISPO, PPO__OBJECTIVES };

typedef struct ppo_policy_objective {
    int   objective;           /* any but PPO_KL_PENALTY */
    float clip_low, clip_high; /* 0.2 and 0.2 in the paper */
    float dual_clip;           /* > 1: where A < 0, r A is at least dual_clip A (Ye 2020); else off */
    float kl_coef;             /* of PPO_K3_PENALTY */
} ppo_policy_objective;

/* PPO_CLIP, 0.2, 0.2, no dual clip, kl_coef 1 */
PPO_DEF ppo_policy_objective ppo_policy_objective_default(void);

typedef struct ppo_policy_stats {
    float loss;
    float clip_fraction; /* share of ratios outside [1 - clip_low, 1 + clip_high], for every objective */
    float approx_kl;     /* mean k3 = (r - 1) - log r: never negative, low variance */
    float old_approx_kl; /* mean k1 = -log r */
    float ratio_mean, ratio_max, ratio_min;
} ppo_policy_stats;

/* logp: under the policy being trained; old_logp: under the policy that acted. The KLs and ratios of stats
   may be INFINITY while the loss is finite: where a ratio overflows, where logp is -INFINITY. Errors:
   PPO_KL_PENALTY, a negative coefficient or range, an old_logp of -INFINITY. */
PPO_DEF ppo_status ppo_policy_loss(const float *logp, const float *old_logp, const float *advantage,
                                   const unsigned char *mask, int n, const ppo_policy_objective *objective,
                                   ppo_policy_stats *stats, float *grad_logp);

/* 0.5 mean((value - target)^2). clip_range > 0: per sample the larger of that and the same with value clipped
   to old_value +- clip_range. Otherwise old_value may be NULL. */
PPO_DEF ppo_status ppo_value_loss(const float *value, const float *old_value, const float *target,
                                  const unsigned char *mask, int n, float clip_range, float *loss,
                                  float *grad_value);

/* The same, with delta (|error| - delta / 2) in place of 0.5 error^2 for errors beyond delta > 0 (Huber
   1964): the gradient of a sample is at most delta. delta = INFINITY is ppo_value_loss(). */
PPO_DEF ppo_status ppo_huber_value_loss(const float *value, const float *old_value, const float *target,
                                        const unsigned char *mask, int n, float clip_range, float delta,
                                        float *loss, float *grad_value);

enum { PPO_K1 = 1, PPO_K2, PPO_K3 };

/* kl[i]: estimates of KL(pi || ref), one per sample of pi, with l = ref_logp - logp: k1 = -l (unbiased),
   k2 = l^2 / 2 (low variance), k3 = exp(l) - 1 - l (both; never negative). Schulman 2020.

   A good estimate of a number need not have a good gradient. What the mean over samples of an old policy is
   worth, for r = pi / old, all derivatives by automatic differentiation of the term:

       term          its mean, old = pi   its gradient, old = pi           and old != pi
       k1            KL(pi || ref)        0: no constraint at all          not that of the KL
       k2            about KL             that of KL(pi || ref)            not that of the KL
       k3            KL(pi || ref)        that of KL(ref || pi)            not that of the KL
       r k1, r k3    KL(pi || ref)        that of KL(pi || ref)            that of KL(pi || ref)
       k1 paid as a cost in the reward    that of KL(pi || ref)            not that of the KL
       k2, k3 as a cost in the reward     not that of the KL; of the exact KL of a state, 0: it does not depend
                                          on the action

   This is for one choice. In a sequence, a term of the loss leaves out that earlier tokens lead to later ones;
   a cost in the reward is credited to them, too.

   So: report k3; in a reward use k1; in a loss use k3 weighted by r (PPO on tokens: kl_weighted), or k2 in the
   first step after sampling. GRPO differentiates k3 as it is: it constrains the KL in the other direction. */
PPO_DEF ppo_status ppo_kl_estimate(const float *logp, const float *ref_logp, int n, int estimator, float *kl);

/* Direct preference optimization (Rafailov 2023): h = beta ((c - c_ref) - (r - r_ref)),
   loss = mean(-(1 - s) log sigmoid(h) - s log sigmoid(-h)), s = label_smoothing in [0, 0.5). */
PPO_DEF ppo_status ppo_dpo_loss(const float *chosen_logp, const float *rejected_logp,
                                const float *ref_chosen_logp, const float *ref_rejected_logp, int n,
                                float beta, float label_smoothing, float *loss, float *grad_chosen,
                                float *grad_rejected);

/* Reward model (Bradley and Terry 1952): mean(-log sigmoid(chosen - rejected)). */
PPO_DEF ppo_status ppo_pairwise_loss(const float *chosen_score, const float *rejected_score, int n,
                                     float *loss, float *grad_chosen, float *grad_rejected);

/* On the tape: (1, 1). The arrays must not change until the tape's reset. *stats is set at the call (on a
   device: when the tape's results are read). */
PPO_DEF ppo_tensor *ppo_tape_policy_loss(ppo_tape *tape, ppo_tensor *logp, const float *old_logp,
                                         const float *advantage, const unsigned char *mask,
                                         const ppo_policy_objective *objective, ppo_policy_stats *stats);
PPO_DEF ppo_tensor *ppo_tape_value_loss(ppo_tape *tape, ppo_tensor *value, const float *old_value,
                                        const float *target, const unsigned char *mask, float clip_range);
PPO_DEF ppo_tensor *ppo_tape_huber_value_loss(ppo_tape *tape, ppo_tensor *value, const float *old_value,
                                              const float *target, const unsigned char *mask,
                                              float clip_range, float delta);
PPO_DEF ppo_tensor *ppo_tape_dpo_loss(ppo_tape *tape, ppo_tensor *chosen_logp, ppo_tensor *rejected_logp,
                                      const float *ref_chosen_logp, const float *ref_rejected_logp,
                                      float beta, float label_smoothing);
PPO_DEF ppo_tensor *ppo_tape_pairwise_loss(ppo_tape *tape, ppo_tensor *chosen_score,
                                           ppo_tensor *rejected_score);

/* --------------------------------------------------------------------------------------------------------
   10 Optimizer
   -------------------------------------------------------------------------------------------------------- */

typedef struct ppo_adam {
    float lr;           /* 3e-4 */
    float beta1, beta2; /* 0.9, 0.999 */
    float eps;          /* 1e-5, added to sqrt(v) as PyTorch does */
    float weight_decay; /* 0; decoupled (AdamW, Loshchilov 2017) */
} ppo_adam;
PPO_DEF ppo_adam ppo_adam_default(void);

/* One step of Adam (Kingma 2014) over n parameters; step counts from 1, m and v start as zeros. No pointer
   may be NULL; nothing can fail. */
PPO_DEF void ppo_adam_step(float *param, const float *grad, float *m, float *v, size_t n,
                           const ppo_adam *adam, int64_t step);

/* Scales grad so that its Euclidean norm is at most max_norm (<= 0: no limit), unless it is not finite.
   Returns the norm before. */
PPO_DEF float ppo_clip_grad_norm(float *grad, size_t n, float max_norm);

/* Zero the gradients, before the first backward pass of a step; those, Adam's moments and the count of steps,
   for a new training. NULL: does nothing. */
PPO_DEF void ppo_params_zero_grad(ppo_params *params);
PPO_DEF void ppo_params_restart(ppo_params *params);

/* Clips the gradients of a set of parameters and runs Adam over it. *grad_norm (may be NULL) is the norm
   before clipping. If that is not finite, changes nothing and returns PPO_ERROR_NUMERIC. */
PPO_DEF ppo_status ppo_params_step(ppo_params *params, const ppo_adam *adam, float max_grad_norm,
                                   float *grad_norm);

/* A value at `progress`, from 0 to 1: initial throughout; from initial to 0 linearly; the same along half a
   cosine. PPO_CUSTOM is for settings, where ppo_config.schedule is asked; here it acts as PPO_CONSTANT. */
enum { PPO_CONSTANT, PPO_LINEAR, PPO_COSINE, PPO_CUSTOM };
PPO_DEF float ppo_schedule(int schedule, float initial, float progress);

/* Ziegler 2019: coef (1 + clip(observed / target - 1, -0.2, 0.2) n_steps / horizon). target_kl and horizon
   must be above 0, n_steps at most horizon. */
PPO_DEF float ppo_adaptive_kl(float coef, float observed_kl, float target_kl, int n_steps, int horizon);

/* Schulman 2017, section 4, once per iteration: coef / 2 if observed_kl < target_kl / 1.5, 2 coef if it is
   > 1.5 target_kl, else coef. */
PPO_DEF float ppo_adaptive_kl_2017(float coef, float observed_kl, float target_kl);

/* --------------------------------------------------------------------------------------------------------
   11 Normalizers: running mean and variance (Chan et al. 1979) that start as in Stable-Baselines3: mean 0,
   variance 1, count 1e-4
   -------------------------------------------------------------------------------------------------------- */

typedef struct ppo_normalizer {
    int     size;
    double  count;
    double *mean, *var; /* [size] */
} ppo_normalizer;

/* update() adds the samples x (rows, size), infinite ones as +-FLT_MAX; merge() adds those that `other`, of
   the same size, has seen. free() frees the arrays, not the struct. Errors of init(): size <= 0, memory. */
PPO_DEF ppo_status ppo_normalizer_init(ppo_normalizer *norm, int size);
PPO_DEF void       ppo_normalizer_free(ppo_normalizer *norm);
PPO_DEF void       ppo_normalizer_update(ppo_normalizer *norm, const float *x, int rows);
PPO_DEF void       ppo_normalizer_merge(ppo_normalizer *norm, const ppo_normalizer *other);

/* out = clip((x - mean) / sqrt(var + 1e-8), -limit, limit), (rows, size); out may be x. */
PPO_DEF void ppo_normalize(const ppo_normalizer *norm, const float *x, int rows, float limit, float *out);

/* ========================================================================================================
   CONTROL
   ======================================================================================================== */

#ifndef PPO_NO_CONTROL

/* --------------------------------------------------------------------------------------------------------
   12 Spaces: the actions that an agent may take
   -------------------------------------------------------------------------------------------------------- */

enum { PPO_DISCRETE = 1, PPO_BOX, PPO_MULTI_DISCRETE, PPO_MULTI_BINARY };
enum { PPO_MAX_CHOICES = 128 };
typedef struct ppo_space {
    int   kind; /* PPO_DISCRETE: one of n actions; PPO_BOX: n numbers; PPO_MULTI_...: n choices at once */
    int   n;
    float low, high;              /* PPO_BOX: the environment sees numbers in [low, high] */
    int   sizes[PPO_MAX_CHOICES]; /* PPO_MULTI_...: choice j is one of sizes[j] */
} ppo_space;
/* One of n actions; n numbers, each in [low, high] (which may be -INFINITY and INFINITY); n choices, choice j
   of sizes[j] options; n bits. An untrained policy gives numbers around 0 with a standard deviation of 1,
   whatever the range: use about -1 to 1 and scale in step(), or set ppo_config.squash. */
PPO_DEF ppo_space ppo_discrete(int n);
PPO_DEF ppo_space ppo_box(int n, float low, float high);
PPO_DEF ppo_space ppo_multi_discrete(const int *sizes, int n);
PPO_DEF ppo_space ppo_multi_binary(int n);

typedef struct ppo_action {
    int          discrete; /* PPO_DISCRETE: 0 .. n-1 */
    const int   *choices;  /* PPO_MULTI_...: [n], choice j is 0 .. sizes[j]-1; PPO_DISCRETE: [1] */
    const float *box;      /* PPO_BOX: [n] numbers, within [low, high] */
} ppo_action;

/* The actions of a batch: discrete (rows, 1), for PPO_MULTI_... (rows, n), or box (rows, n) before clipping
   or squashing; the other one is NULL. */
typedef struct ppo_actions {
    int   *discrete;
    float *box;
} ppo_actions;

/* --------------------------------------------------------------------------------------------------------
   13 Networks
   -------------------------------------------------------------------------------------------------------- */

/* A multilayer perceptron: layer k is activation(x W_k + b_k), the last one linear. Its parameters are
   "name.k.weight" (in, out) and "name.k.bias" (1, out) of the set. */
typedef struct ppo_mlp {
    int         layers;
    int         hidden_activation, last_activation;
    ppo_tensor *weight[PPO_MAX_LAYERS];
    ppo_tensor *bias[PPO_MAX_LAYERS];
} ppo_mlp;

/* Layers: sizes[0] inputs, sizes[1], ..., sizes[layers] outputs. Orthogonal weights, gain sqrt(2) (last
   layer: last_gain), zero biases. last_activation is PPO_IDENTITY for a head. rng NULL: zero weights. */
PPO_DEF ppo_status ppo_mlp_init(ppo_mlp *mlp, ppo_params *params, const char *name, const int *sizes,
                                int layers, int hidden_activation, int last_activation, float last_gain,
                                ppo_rng *rng);
/* (n, in) -> (n, out) */
PPO_DEF ppo_tensor *ppo_mlp_forward(ppo_tape *tape, const ppo_mlp *mlp, ppo_tensor *x);

/* The steps of several sequences, the longest first, as rows of a batch for a recurrent core. The rows are
   packed by time: step 0 of all sequences, then step 1 of the count[1] that have one, ... Row (t, k) belongs
   to sequence k. */
typedef struct ppo_sequences {
    int                  steps; /* of the longest; 0: every row is a sequence of its own */
    const int           *count; /* [steps] */
    const float         *state; /* [count[0]][width] before each sequence's first step; NULL: zeros */
    const unsigned char *start; /* [rows] 1: an episode begins, from a state of zeros; NULL: none */
} ppo_sequences;

/* A layer of gated recurrent units (Cho 2014, in PyTorch's form), for x a row and h the state before it:
       r = sigmoid(x W_r + b_r + h U_r + c_r)        z = sigmoid(x W_z + b_z + h U_z + c_z)
       n = tanh(x W_n + b_n + r (h U_n + c_n))       state after = (1 - z) n + z h
   with W = [W_r W_z W_n] side by side, and U, b, c alike. */
typedef struct ppo_gru {
    int         width;        /* 0: there is none */
    ppo_tensor *input_weight; /* (in, 3 width) W */
    ppo_tensor *input_bias;   /* (1, 3 width) b */
    ppo_tensor *state_weight; /* (width, 3 width) U */
    ppo_tensor *state_bias;   /* (1, 3 width) c */
} ppo_gru;

/* Orthogonal weights, zero biases; parameters "name.input.weight", "name.state.bias", ... rng NULL: zero
   weights. */
PPO_DEF ppo_status ppo_gru_init(ppo_gru *gru, ppo_params *params, const char *name, int in, int width,
                                ppo_rng *rng);
/* (rows, in) -> the state after each row (rows, width). The arrays of sequences must stay until
   ppo_tape_reset(). */
PPO_DEF ppo_tensor *ppo_gru_forward(ppo_tape *tape, const ppo_gru *gru, ppo_tensor *x,
                                    const ppo_sequences *sequences);

/* Policy and value networks over one parameter set. Separate: "actor" and "critic" have hidden layers of
   their own. Shared: a "trunk" of hidden layers feeds both heads. A recurrent "core" is between the trunk (or
   the observation) and both heads. Gains: 0.01 for the policy head, 1 for the value head. */
typedef struct ppo_actor_critic {
    int         obs_size;
    ppo_space   action_space;
    ppo_params *params;
    int         shared;
    ppo_mlp     trunk; /* shared only; the heads are then single layers */
    ppo_gru     core;  /* width 0: none */
    ppo_mlp     actor, critic;
    ppo_tensor *log_std; /* PPO_BOX only: (1, n), independent of the observation; gsde: (features, n) */
    int         gsde, squash;
} ppo_actor_critic;

/* Initial weights. Uniform: PyTorch's defaults, in +- 1 / sqrt(inputs), for a core 1 / sqrt(width). Zeros:
   for weights that will be loaded. */
enum { PPO_ORTHOGONAL, PPO_UNIFORM, PPO_ZEROS };

typedef struct ppo_model_config {
    int        obs_size;
    ppo_space  action_space;
    const int *hidden;     /* [layers] widths */
    int        layers;     /* 0: linear policy and value */
    int        activation; /* any of section 5 */
    int        shared_trunk;
    int        recurrent; /* width of the core; 0: none */
    int        init;      /* PPO_ORTHOGONAL, PPO_UNIFORM or PPO_ZEROS */
    float      log_std_init;
    int        gsde;   /* PPO_BOX: standard deviations depend on the observation, see ppo_config */
    int        squash; /* PPO_BOX: numbers are squashed into the box by tanh, not clipped */
    uint64_t   seed;
} ppo_model_config;

PPO_DEF ppo_status ppo_actor_critic_init(ppo_actor_critic *model, const ppo_model_config *config);
PPO_DEF void       ppo_actor_critic_free(ppo_actor_critic *model); /* what it owns, not the struct */

/* What the networks read and compute. */
typedef struct ppo_inputs {
    int                  rows;
    const float         *obs;       /* (rows, obs_size) */
    const unsigned char *mask;      /* (rows, logits) 0: illegal; NULL: all are legal */
    ppo_sequences        sequences; /* recurrent only; zeros: one step each, from a state of zeros */
} ppo_inputs;
typedef struct ppo_outputs {
    ppo_tensor *policy;   /* (rows, logits), masked; PPO_BOX: means (rows, n) */
    ppo_tensor *log_std;  /* PPO_BOX: (1, n), gsde: (rows, n) */
    ppo_tensor *features; /* what the policy head reads (rows, features) */
    ppo_tensor *value;    /* (rows, 1) */
    ppo_tensor *state;    /* recurrent: the state after each row (rows, width) */
} ppo_outputs;

/* want: PPO_POLICY, PPO_VALUE, or both by |; outputs that are not wanted, or have failed, are NULL. The
   arrays must stay until ppo_tape_reset(). */
PPO_DEF ppo_outputs ppo_actor_critic_forward(ppo_tape *tape, const ppo_actor_critic *model,
                                             const ppo_inputs *inputs, int want);

/* The log-probability and the entropy (may be NULL) of actions, both (rows, 1), from forward's outputs. The
   entropy of a squashed Gaussian has no formula: it is estimated by -logp, as in Stable-Baselines3. */
PPO_DEF void ppo_actor_critic_logp(ppo_tape *tape, const ppo_actor_critic *model, const ppo_outputs *outputs,
                                   const ppo_actions *actions, ppo_tensor **logp, ppo_tensor **entropy);

/* KL(old || new), exact (rows, 1), from the old policy's outputs: logits, or means and log_std (rows, n). */
PPO_DEF ppo_tensor *ppo_actor_critic_kl(ppo_tape *tape, const ppo_actor_critic *model,
                                        const ppo_outputs *outputs, const float *old_policy,
                                        const float *old_log_std);

/* --------------------------------------------------------------------------------------------------------
   14 Environments and rollouts: the interface of an environment, and the record of what many of them did
   -------------------------------------------------------------------------------------------------------- */

typedef struct ppo_outcome { /* zeroed before every step */
    float reward;
    int   terminated; /* 1: the task ended, no reward would follow */
    int   truncated;  /* 1: cut short by something outside the task; max_steps does this by itself. Ignored
                         where terminated is 1 */
} ppo_outcome;

typedef struct ppo_env {
    const char *name;         /* may be NULL */
    int         obs_size;     /* floats in an observation */
    ppo_space   action_space; /* ppo_discrete(n), ppo_box(n, low, high), ... */
    size_t      state_size;   /* bytes of one copy's state; zeroed before open and the first reset. Writing
                                 within 16 bytes beyond it, the observation or the mask is an error */
    int         max_steps;    /* time limit of an episode; 0: none, it must end by itself */
    void (*reset)(void *state, ppo_rng *rng, float *obs);
    void (*step)(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out);
    /* Sets mask to 0 for illegal actions; NULL: all are legal. mask is filled with 1 before the call, a byte
       per option: [n] for PPO_DISCRETE; the options of choice 0, then those of choice 1, ... for
       PPO_MULTI_... At least one per choice must stay. Unused for PPO_BOX. */
    void (*action_mask)(const void *state, unsigned char *mask);
    /* Prints the state as text, always the same number of lines, for a person to watch. May be NULL. */
    void (*draw)(const void *state, FILE *file);
    /* For resources outside the state; both may be NULL. open is called once per copy, before the first
       reset, with `user` and the copy's number from 0. It returns 0, or not 0 for failure, and may give a
       reason by ppo_fail(). close releases the resources; it is not called for a copy whose open failed. */
    int (*open)(void *state, void *user, int copy);
    void (*close)(void *state);
    void *user;
} ppo_env;

/* Errors: a function is missing, a size or the action space is invalid. */
PPO_DEF ppo_status ppo_env_check(const ppo_env *env);

/* What `envs` environments did in `steps` steps, time-major: [steps][envs], or [steps][envs][size]. */
typedef struct ppo_rollout {
    int            steps, envs;
    float         *obs;                 /* [][][obs_size], as the policy saw them (normalized) */
    ppo_actions    actions;             /* [][][1 or n], before clipping to the box or squashing */
    unsigned char *mask;                /* [][][logits], or NULL: all were legal */
    float         *logp, *value;        /* of the policy that acted */
    float         *policy, *log_std;    /* its logits, or means and log_std, for PPO_KL_PENALTY; else NULL */
    float         *state;               /* recurrent: [][][width], before the step; else NULL */
    unsigned char *start;               /* recurrent: 1 at the first step of an episode; else NULL */
    float         *reward, *next_value; /* reward as the critic sees it (normalized) */
    unsigned char *terminated, *truncated;
    float         *episode_return;           /* of the episode that ended here, raw rewards */
    int           *episode_length;           /* likewise; 0: none ended */
    float         *advantage, *value_target; /* by ppo_gae() */
} ppo_rollout;

/* --------------------------------------------------------------------------------------------------------
   15 Training and evaluation: the agent, the training loop, evaluation
   -------------------------------------------------------------------------------------------------------- */

/* The report of an iteration; names in brackets are Stable-Baselines3's. */
typedef struct ppo_progress {
    int64_t iteration;                 /* 1, 2, ... */
    int64_t steps, total_steps;        /* environment steps done, and to do [time/total_timesteps] */
    int64_t iteration_steps;           /* those of this iteration */
    double  seconds, steps_per_second; /* since the start [time/fps] */
    double  seconds_left;
    int64_t episodes; /* finished so far */
    /* of the last 100 finished episodes; NaN before the first [rollout/ep_rew_mean, ep_len_mean] */
    float   mean_return, mean_length;
    float   policy_loss, value_loss, entropy; /* means over the iteration's minibatches [train/...] */
    float   approx_kl, old_approx_kl, clip_fraction;
    float   first_ratio_min, first_ratio_max; /* over the iteration's first minibatch: exactly 1 and 1 */
    float   explained_variance;               /* [train/explained_variance] */
    float   learning_rate, clip_range;
    float   grad_norm; /* before clipping, mean */
    int     epochs;    /* completed; fewer than configured if target_kl stopped them */
    float   kl;        /* exact KL(old || new) after the epochs; NaN unless adaptive_kl_target asks for it */
    float   kl_coef, entropy_coef; /* as used in this iteration */
    float   loss;                  /* all of it, mean over the minibatches */
    int64_t gradient_steps;        /* since the start */
    /* what a log (section 23) needs besides */
    int64_t updates;        /* epochs begun since the start of the run [train/n_updates] */
    float   last_loss;      /* of the last minibatch, all its terms [train/loss] */
    float   last_approx_kl; /* mean over the last epoch alone [train/approx_kl] */
    float   std;            /* PPO_BOX: the policy's mean standard deviation; else 0 [train/std] */
    float   value_clip;     /* 0: off [train/clip_range_vf] */
} ppo_progress;

/* Called after every iteration. Return 0 to continue; anything else ends training, without an error. */
typedef int (*ppo_callback)(const ppo_progress *progress, void *user);

/* A schedule of your own, for the settings whose schedule is PPO_CUSTOM: the value, 0 or more, for the
   iteration that begins when `progress` (0 to 1) of the steps are done. */
enum { PPO_SETTING_LEARNING_RATE, PPO_SETTING_CLIP_LOW, PPO_SETTING_CLIP_HIGH, PPO_SETTING_ENTROPY_COEF };
typedef float (*ppo_schedule_fn)(int setting, float initial, float progress, void *user);

typedef struct ppo_config {  /* defaults in brackets */
    int64_t  total_steps;    /* environment steps, over all environments [100000] */
    int      num_envs;       /* environments side by side [4] */
    int      rollout_steps;  /* steps of each per iteration [512] */
    int      minibatch_size; /* samples per gradient step, at most all; lowered to even sizes; 0: all [64] */
    int      epochs;         /* passes over each rollout [10] */
    float    learning_rate;  /* Adam's [3e-4] */
    int      learning_rate_schedule; /* PPO_CONSTANT, PPO_LINEAR, PPO_COSINE, PPO_CUSTOM [linear] */
    float    critic_learning_rate;   /* of the critic's own layers, scheduled alike; 0: learning_rate [0] */
    float    gamma;                  /* discount per step [0.99] */
    float    gae_lambda;             /* 0: one-step TD, 1: Monte Carlo [0.95] */
    int      objective;              /* any but PPO_K3_PENALTY [clip] */
    float    clip_low, clip_high;    /* no gain from ratios outside 1 - clip_low, 1 + clip_high [0.2] */
    int      clip_schedule;          /* as learning_rate_schedule, for both ranges [constant] */
    float    dual_clip;              /* > 1: bound for negative advantages; 0: off [0] */
    float    kl_coef;                /* PPO_KL_PENALTY: weight of the exact KL(old || new) [1] */
    float    adaptive_kl_target; /* PPO_KL_PENALTY: > 0: kl_coef doubles or halves to keep the KL there [0] */
    float    target_kl;          /* > 0: epochs end when approx_kl > 1.5 target_kl; 0: off [0] */
    float    value_coef;         /* weight of 0.5 mse; Stable-Baselines3's vf_coef is half of this [0.5] */
    float    value_clip;         /* > 0: clip range of the value loss; 0: off [0] */
    float    huber_delta;        /* > 0: value errors beyond this count linearly; 0: off [0] */
    int      baseline;           /* 0: no critic, an advantage is a return; see "reinforce" [1] */
    float    entropy_coef;       /* weight of the entropy bonus [0] */
    int      entropy_schedule;   /* as learning_rate_schedule [constant] */
    int      normalize_advantage;    /* per minibatch: mean 0, std 1 [1] */
    float    max_grad_norm;          /* global-norm clip; 0: off [0.5] */
    float    adam_beta1, adam_beta2; /* [0.9, 0.999] */
    float    adam_eps;               /* [1e-5] */
    float    weight_decay;           /* decoupled, AdamW [0] */
    int      hidden[PPO_MAX_LAYERS]; /* widths of the hidden layers [64, 64] */
    int      hidden_layers;          /* how many of them [2] */
    int      activation;             /* any of section 5 but PPO_GELU [tanh] */
    int      shared_trunk;           /* 1: one set of hidden layers for actor and critic [0] */
    int      recurrent;              /* > 0: width of a core of gated recurrent units; 0: none [0] */
    int      sequence_steps;         /* recurrent: steps of a rollout that gradients go back through [32] */
    int      init;                   /* PPO_ORTHOGONAL, PPO_UNIFORM [orthogonal] */
    float    log_std_init;           /* PPO_BOX: initial log standard deviation [0] */
    int      squash;        /* PPO_BOX: 1: numbers are squashed into the box by tanh; 0: clipped to it [0] */
    int      gsde;          /* PPO_BOX: 1: generalized state-dependent exploration (Raffin 2022) [0] */
    int      gsde_steps;    /* a sampled exploration lasts this many steps; 0: the whole rollout [0] */
    int      normalize_obs; /* 1: to mean 0, variance 1, by the statistics of all rollouts before [0] */
    int      normalize_reward; /* 1: divided by the std of the discounted return, likewise [0] */
    float    clip_obs;         /* normalized observations are clipped to +- this [10] */
    float    clip_reward;      /* normalized rewards are clipped to +- this [10] */
    uint64_t seed;             /* [1] */
    int      threads;         /* to step environments and to compute; any number gives the same results [1] */
    ppo_callback    callback; /* may be NULL [NULL] */
    void           *callback_user; /* handed to the callback [NULL] */
    ppo_schedule_fn schedule;      /* for PPO_CUSTOM [NULL] */
    void           *schedule_user; /* handed to it [NULL] */
} ppo_config;

PPO_DEF ppo_config ppo_config_default(void);
/* Errors: a field is out of range, or fields contradict each other. */
PPO_DEF ppo_status ppo_config_check(const ppo_config *config);

/* Error: the field differs from its default but cannot have an effect, as "gsde_steps is 4, but has no
   effect: gsde is no". name NULL: any field; env NULL: the action space is not known. ppo_agent_create()
   checks all fields, ppo_trainer_create() those not about the network, ppo_trainer_resume() none. */
PPO_DEF ppo_status ppo_config_check_effect(const ppo_config *config, const ppo_env *env, const char *name);

/* Known settings by name. A preset also resets every setting that its objective does not use; other fields
   stay as they are.
       "reinforce"               plain policy gradient (Williams 1992): returns, no critic, one gradient step
       "reinforce-baseline"      the same, minus the critic's value
       "a2c"                     advantage actor-critic (Mnih 2016), which is PPO with one epoch (Huang 2022)
       "ppo-paper"               Schulman 2017, table 3: continuous control
       "ppo-paper-fixed-kl"      the same with a penalty in place of the clip, 3 KL(old || new)
       "ppo-paper-adaptive-kl"   the same with a weight that keeps the KL near 0.01
       "ppo-paper-unclipped"     the same with neither
   Without a critic (baseline 0) there is no value to bootstrap from: the update uses only the steps of
   episodes that ended in the rollout, by themselves or at max_steps, which counts as an end. A rollout in
   which no episode ended changes nothing (epochs is 0), so rollout_steps should be several episodes long. */
PPO_DEF ppo_status ppo_config_preset(ppo_config *config, const char *name);
/* Their names, as "reinforce|reinforce-baseline|..." */
PPO_DEF const char *ppo_config_presets(void);

/* Section 6's functions on settings by name, for this struct; "hidden" is widths and count, as "64,64" or
   "none". Fields of the kind PPO_FIELD_NETWORK describe the network, which an existing agent keeps. */
PPO_DEF const ppo_settings *ppo_config_settings(void);
PPO_DEF ppo_status          ppo_config_set(ppo_config *config, const char *name, const char *value);
PPO_DEF ppo_status          ppo_config_set_all(ppo_config *config, const char *settings);
PPO_DEF ppo_status ppo_config_get(const ppo_config *config, const char *name, char *text, size_t size);

/* A policy with all that belongs to it. ppo_agent_create() makes an untrained one with config's network; the
   other functions use it in environments of the same observation size and action space. */
typedef struct ppo_agent {
    ppo_actor_critic model;
    ppo_normalizer   obs_norm;    /* size 0: observations are used as they are */
    ppo_normalizer   return_norm; /* of the discounted return, for normalize_reward; size 0: not yet */
    float            clip_obs;
    ppo_config       config;          /* the settings it was made with, or last trained with */
    char             environment[64]; /* env.name of the one it was made for or last trained on; NULL: "" */
    ppo_tape        *tape;            /* for ppo_act() */
    float           *scratch;         /* for ppo_act() */
    float           *state;           /* recurrent: [width], of the episode so far, for ppo_act() */
} ppo_agent;

PPO_DEF ppo_status ppo_agent_create(const ppo_env *env, const ppo_config *config, ppo_agent **agent);
PPO_DEF void       ppo_agent_free(ppo_agent *agent);

/* The action for one observation [obs_size]: sampled with rng, or the most likely one if rng is NULL.
   action->box and ->choices point into the agent and are valid until its next call. A recurrent agent keeps a
   state from call to call: call ppo_agent_reset() where an episode begins. With a mask, as env.action_mask
   fills it (NULL: none), only legal actions are taken. */
PPO_DEF ppo_status ppo_act(ppo_agent *agent, const float *obs, ppo_rng *rng, ppo_action *action);
PPO_DEF ppo_status ppo_act_masked(ppo_agent *agent, const float *obs, const unsigned char *mask, ppo_rng *rng,
                                  ppo_action *action);
PPO_DEF void       ppo_agent_reset(ppo_agent *agent);

/* Trains until total_steps are done. *agent NULL: a new agent, which the caller frees; on failure it stays
   NULL. Otherwise that agent is trained further. It keeps its network, so start from agent->config and change
   what is not about the network. The random streams of config->seed begin anew, so choose another seed. After
   a failure it keeps what it had learned. */
PPO_DEF ppo_status ppo_train(const ppo_env *env, const ppo_config *config, ppo_agent **agent);

/* The same, an iteration at a time, for programs with a loop of their own:

       ppo_agent_create(&env, &cfg, &agent);
       ppo_trainer_create(&env, &cfg, agent, &trainer);
       while (!ppo_trainer_done(trainer)) ppo_trainer_iterate(trainer, &progress);
       ppo_trainer_free(trainer);

   env and config are copied; the agent is borrowed and must outlive the trainer; progress may be NULL; the
   callback is not called. After a failed iteration the next one begins new episodes. ppo_trainer_rollout() is
   what the last iteration collected. */
typedef struct ppo_trainer ppo_trainer;

PPO_DEF ppo_status ppo_trainer_create(const ppo_env *env, const ppo_config *config, ppo_agent *agent,
                                      ppo_trainer **trainer);
PPO_DEF ppo_status ppo_trainer_iterate(ppo_trainer *trainer, ppo_progress *progress);
PPO_DEF int        ppo_trainer_done(const ppo_trainer *trainer);  /* 1: total_steps are done */
PPO_DEF int64_t    ppo_trainer_steps(const ppo_trainer *trainer); /* environment steps done */
PPO_DEF void       ppo_trainer_free(ppo_trainer *trainer);

PPO_DEF const ppo_rollout *ppo_trainer_rollout(const ppo_trainer *trainer);

typedef struct ppo_evaluation {
    ppo_status status; /* not PPO_OK: the figures are NaN and ppo_last_error() says why */
    int        episodes;
    float      mean_return, std_return; /* std over the episodes, biased (n) */
    float      min_return, max_return;
    float      mean_length;
} ppo_evaluation;

/* A step of an episode that ppo_play() plays. The watcher is called after the reset (step 0, no action) and
   after every step, and returns 0 to continue, anything else to stop. */
typedef struct ppo_frame {
    int               step;
    const void       *state;         /* for env->draw */
    const float      *obs;           /* [obs_size], as the environment gave it */
    const ppo_action *action;        /* the one just taken; NULL at step 0 */
    float             reward, total; /* of this step, and of the episode so far */
    int               terminated, truncated;
} ppo_frame;
typedef int (*ppo_watcher)(const ppo_frame *frame, void *user);

/* Plays one episode, the same for the same seed, with the most likely actions (sample 0) or sampled ones (1).
   total (may be NULL) receives its return; watch may be NULL. */
PPO_DEF ppo_status ppo_play(ppo_agent *agent, const ppo_env *env, uint64_t seed, int sample,
                            ppo_watcher watch, void *user, float *total);

/* Plays new episodes with the most likely actions, frozen statistics and raw rewards. Each has a copy of the
   environment, of which up to 32 are open at once, and its own random stream; "environment 3" in an error is
   episode 3. Errors: episodes outside 1 to 1000000; without max_steps, an episode of over a million steps. */
PPO_DEF ppo_evaluation ppo_evaluate(ppo_agent *agent, const ppo_env *env, int episodes, uint64_t seed);

/* --------------------------------------------------------------------------------------------------------
   16 Policies in files: save, checkpoint, export
   -------------------------------------------------------------------------------------------------------- */

/* Saves a policy as a safetensors file: the parameters under their names, "obs_norm.mean", "obs_norm.var"
   [obs_size] and "obs_norm.count" (and "return_norm...") if it has them; as texts all settings by name,
   "environment", "observation_size" and "action_space", such as "discrete 2", "box 1 -2 2", "multi-discrete
   3,2" or "multi-binary 4". Error: a number that is not finite. */
PPO_DEF ppo_status ppo_agent_save(const ppo_agent *agent, const char *path);

/* Creates an agent from such a file, or from a checkpoint; all that it holds is checked. The agent must fit
   env; NULL: any. */
PPO_DEF ppo_status ppo_agent_load(const char *path, const ppo_env *env, ppo_agent **agent);

/* Reads the settings in such a file, and the environment's name ("" if it had none). Either may be NULL, and
   does not change on an error. config->threads is at most the number of processors. */
PPO_DEF ppo_status ppo_config_load(const char *path, ppo_config *config, char environment[64]);

/* Saves a checkpoint: a policy's file with the optimizer, random streams, running statistics, counters, and
   the environments in the middle of their episodes. A run that is resumed from it ends with the same bits as
   one that never stopped.

   An environment without open() is saved as the bytes of its state, which reach it as they are: the checksum
   detects damage, not malice. One with open() is restored by replaying its episode. It must depend on its
   random numbers and actions alone, and needs a max_steps: num_envs episodes may have 16 million numbers of
   actions. */
PPO_DEF ppo_status ppo_trainer_save(const ppo_trainer *trainer, const char *path);

/* Continues from a checkpoint: creates an agent and a trainer, which the caller frees. env must have the name
   and the sizes of the one that was trained on. config NULL: the settings in the file. Otherwise read them by
   ppo_config_load() and change any but num_envs, the seed and the network's. Callbacks and custom schedules
   are not in the file. Nor are rollouts, so a small file could ask for much memory: with config NULL,
   settings that need more than 256 MB and also more than 1024 times the file's size are an error. */
PPO_DEF ppo_status ppo_trainer_resume(const char *path, const ppo_env *env, const ppo_config *config,
                                      ppo_agent **agent, ppo_trainer **trainer);

/* Writes a policy as a C header for firmware, without any dependency: constant arrays, and the functions
       void NAME_forward(const float *obs, float *output)   logits, or the mean before the box
       int  NAME_predict(const float *obs)                  discrete: the most likely action
       void NAME_predict(const float *obs, int *choices)    multi-discrete, multi-binary
       void NAME_predict(const float *obs, float *action)   box: within [low, high]
   obs [NAME_OBS] are the environment's observations, not normalized. A recurrent policy's functions have a
   second parameter, float *state [NAME_STATE]: set it to zeros where an episode begins. name: 1 to 60
   letters, digits and _, a letter first. The results agree with ppo_act() up to rounding. Where some actions
   are illegal, choose from the logits. */
PPO_DEF ppo_status ppo_export_c(const ppo_agent *agent, const char *name, const char *path);

#endif /* PPO_NO_CONTROL */

/* ========================================================================================================
   LANGUAGE
   ======================================================================================================== */

#ifndef PPO_NO_LANGUAGE

/* --------------------------------------------------------------------------------------------------------
   17 Tokens and tokenizers. A tokenizer turns text into tokens 0 .. vocab-1, and tokens into text. Its
   vocabulary is the ordinary tokens, made from a text, followed by the special ones, such as "<eos>". That of
   a model of the hub comes with the model, in tokenizer.json: see ppo_tokenizer_load(). Only the program
   inserts special tokens: ppo_encode() makes none of a text, whatever it contains.

   Texts have `bytes` bytes and may hold zeros; NULL is the empty text. Encoding and decoding do not change
   the tokenizer, so several threads may share one.
   -------------------------------------------------------------------------------------------------------- */

/* Sequences of tokens, one after another without padding. Either start from zeros and add, or point to arrays
   of your own, with memory NULL: no function that reads tokens changes them. */
typedef struct ppo_tokens {
    int  count;  /* sequences */
    int *start;  /* [count + 1]: sequence s is token[start[s]] .. token[start[s + 1] - 1]; start[0] is 0 */
    int *prompt; /* [count] number of its first tokens that are given, not learned or sampled; NULL: 0 */
    int *token;  /* [start[count]] */
    unsigned char            *given;  /* [start[count]] 1: given although after the prompt; NULL: none is */
    struct ppo__token_memory *memory; /* the library's; NULL: the arrays are not its own */
} ppo_tokens;

/* Adds a sequence of n tokens, the first `prompt` of which are given; or sequence s of others and its prompt.
   Errors: a number out of range, arrays that are not the library's; clear and free leave those alone. */
PPO_DEF ppo_status ppo_tokens_add(ppo_tokens *tokens, const int *token, int n, int prompt);
PPO_DEF ppo_status ppo_tokens_add_from(ppo_tokens *tokens, const ppo_tokens *from, int s);
/* Says that tokens first .. first + n - 1 of the last sequence are given, too: what a tool answered, or another
   speaker said. Nothing is learned from them, and they have no rows in section 21. Errors: as above. */
PPO_DEF ppo_status ppo_tokens_mark_given(ppo_tokens *tokens, int first, int n);
PPO_DEF void       ppo_tokens_clear(ppo_tokens *tokens); /* no sequences; keeps the memory */
PPO_DEF void       ppo_tokens_free(ppo_tokens *tokens);  /* the arrays, not the struct, which is zero then */

typedef struct ppo_tokenizer ppo_tokenizer;

enum {
    PPO_MAX_VOCAB = 262144,   /* tokens of a tokenizer */
    PPO_MAX_SPECIALS = 1024,  /* those given to the functions below, */
    PPO_MAX_TOKEN_BYTES = 256 /* and bytes of a token's text: not of a tokenizer.json */
};

/* One token for each character (code point of UTF-8) of the text, in ascending order; then the special
   tokens. specials [special_count]: their names, all different, UTF-8 without control characters, 1 to
   PPO_MAX_TOKEN_BYTES bytes each; NULL if there are none. Errors: the text is not UTF-8 (at which byte), a
   name breaks these rules, the vocabulary is empty or too large. */
PPO_DEF ppo_status ppo_tokenizer_characters(const char *text, size_t bytes, const char *const *specials,
                                            int special_count, ppo_tokenizer **tokenizer);

/* Byte-level byte-pair encoding (Sennrich et al. 2016, in the form of GPT-2). Tokens 0 .. 255 are the bytes
   in GPT-2's order: 33-126, 161-172, 174-255, then the others. Each further token joins the pair of adjacent
   tokens that is most frequent in the text; of equally frequent pairs, that of the smallest tokens. The
   special tokens come last. `vocab` counts all of them: 256 + special_count up to 65,536. The result
   may be smaller, for a pair must occur twice to be joined, and no token exceeds PPO_MAX_TOKEN_BYTES. Apart
   from that limit the merges are those of Hugging Face's BpeTrainer with a min_frequency of 2.
   Pairs are joined within words. These are what GPT-2's expression matches,

       's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+

   with the classes of Unicode 16. The text may hold any bytes, at most 512 MiB. specials: as above. */
PPO_DEF ppo_status ppo_tokenizer_train(const char *text, size_t bytes, int vocab, const char *const *specials,
                                       int special_count, ppo_tokenizer **tokenizer);
PPO_DEF void       ppo_tokenizer_free(ppo_tokenizer *tokenizer);

PPO_DEF int ppo_tokenizer_vocab(const ppo_tokenizer *tokenizer); /* number of tokens; 0 for NULL */
/* The token of this name, as "<|im_end|>": a special one, or another of a tokenizer.json's added_tokens; -1:
   none. */
PPO_DEF int ppo_tokenizer_special(const ppo_tokenizer *tokenizer, const char *name);

/* The tokens of a text [capacity], and their number (count may be NULL). tokens NULL or capacity 0: only
   counts. There are never more tokens than bytes, but a tokenizer.json may say otherwise: there, count first.
   Errors: capacity is too small, the text is longer than INT_MAX; of characters: a byte that is not UTF-8, a
   character that the vocabulary lacks. */
PPO_DEF ppo_status ppo_encode(const ppo_tokenizer *tokenizer, const char *text, size_t bytes, int *tokens,
                              int capacity, int *count);

/* The same with flags, which may be added up. A text of somebody else must not have SPECIALS: it could end
   the turn of a chat. Hugging Face's encode() is SPECIALS + BOUNDS; ppo_encode() is it without special tokens
   in the text (split_special_tokens) or around it. Added tokens that the file does not call special are found
   always. */
enum {
    PPO_ENCODE_SPECIALS = 1, /* the names of special tokens become those tokens */
    PPO_ENCODE_BOUNDS = 2,   /* with the tokens that a tokenizer.json puts before and after a text, as <s> */
    PPO_ENCODE_CONTINUES = 4 /* it follows another text: without the space that a file puts first */
};
PPO_DEF ppo_status ppo_encode_as(const ppo_tokenizer *tokenizer, int flags, const char *text, size_t bytes,
                                 int *tokens, int capacity, int *count);

/* The text of tokens [n], special ones by their names, with a final 0; `bytes` (may be NULL) is its length
   without that 0. text NULL or capacity 0: only the length. A token may be part of a character, so the text
   need not be UTF-8; and a tokenizer.json may drop the space that it puts first. Errors: capacity does not
   exceed the length, a token is outside 0 .. vocab-1; of a tokenizer.json only below 0, for a model may have
   more tokens, which have no text. */
PPO_DEF ppo_status ppo_decode(const ppo_tokenizer *tokenizer, const int *tokens, int n, char *text,
                              size_t capacity, size_t *bytes);

/* Adds a sequence of texts, which end with a 0: the token `start` (-1: none) and the prompt are given; the
   response and the token `end` (-1: none) follow. response NULL: only a prompt, without `end`. Prompt and
   response (PPO_ENCODE_CONTINUES) are encoded apart, as sampling continues a prompt. Errors: as above, and no
   token at all. */
PPO_DEF ppo_status ppo_tokens_add_text(ppo_tokens *tokens, const ppo_tokenizer *tokenizer, int start,
                                       const char *prompt, const char *response, int end);
/* Continues the last sequence with a text; given not 0: as ppo_tokens_mark_given(), for transcripts with
   tools. */
PPO_DEF ppo_status ppo_tokens_append_text(ppo_tokens *tokens, const ppo_tokenizer *tokenizer,
                                          const char *text, int given);
/* Adds a chat as one sequence, with the tokens of transformers' apply_chat_template(). What the assistant
   says, with the token that ends its turn, is learned; all else is given. reply not 0: the chat ends where
   the assistant's next turn begins, and all of it is the prompt, for ppo_generate(). The forms, and the
   tokens that end a turn:
       PPO_CHATML       <|im_end|>   Qwen 2 and 2.5, SmolLM2; without the system message
                                     that their templates add to a chat that has none
       PPO_CHAT_LLAMA3  <|eot_id|>   Llama 3; spaces around a text are left out
       PPO_CHAT_ZEPHYR  </s>         Zephyr, TinyLlama
   An assistant's text is encoded apart from what is before it, as it is sampled: its tokens differ from the
   template's where it begins with a space or line break. Errors: another role, a token that the tokenizer
   lacks. */
typedef struct ppo_message {
    const char *role; /* "system", "user" or "assistant" */
    const char *text; /* ends with a 0; no special tokens, whatever it contains */
} ppo_message;
enum { PPO_CHATML, PPO_CHAT_LLAMA3, PPO_CHAT_ZEPHYR };
PPO_DEF ppo_status ppo_tokens_add_chat(ppo_tokens *tokens, const ppo_tokenizer *tokenizer, int form,
                                       const ppo_message *messages, int count, int reply);
/* The text of sequence s, or of its prompt, or of what follows it, as ppo_decode(), without special tokens. */
enum { PPO_WHOLE_TEXT, PPO_PROMPT_TEXT, PPO_RESPONSE_TEXT };
PPO_DEF ppo_status ppo_tokens_text(const ppo_tokens *tokens, int s, int what, const ppo_tokenizer *tokenizer,
                                   char *text, size_t capacity);

/* A tokenizer in a file of its own, or in one with other things. Put borrows from the tokenizer, which must
   last until the last write; what get makes does not need the file. The file holds a text "tokenizer", which
   is "characters", "bpe" or "json"; and one array:
       "tokenizer.characters"  I32 (n)      the code points, ascending; their indices are the tokens
       "tokenizer.merges"      I32 (n, 2)   row k: the two tokens that token 256 + k joins
       "tokenizer.json"        U8 (n)       the bytes of that file
   and, of the first two, a text "tokenizer.specials", their names by line; of bpe a text "tokenizer.words",
   which is "gpt2". Without it, in files of earlier versions, every byte above 127 counts as a letter of
   GPT-2's expression.

   Save and load take also the path of a tokenizer.json, or of a folder that has it; it is saved as it was
   read, and only if it was. From it the model BPE is read: of bytes, with the expressions of GPT-2, Llama 3
   (cl100k), Qwen 2, Qwen 3.5, and Digits; or as transformers convert SentencePiece's (Llama 2, TinyLlama,
   Mistral), with byte_fallback; normalizers NFC, Prepend, Replace; TemplateProcessing. Tokens are those of
   Hugging Face's tokenizers. PPO_ERROR_FILE if a file breaks any of these rules, or has what is not
   supported, which is named. */
PPO_DEF ppo_status ppo_tokenizer_put(const ppo_tokenizer *tokenizer, ppo_file *file);
PPO_DEF ppo_status ppo_tokenizer_get(const ppo_file *file, ppo_tokenizer **tokenizer);
PPO_DEF ppo_status ppo_tokenizer_save(const ppo_tokenizer *tokenizer, const char *path);
PPO_DEF ppo_status ppo_tokenizer_load(const char *path, ppo_tokenizer **tokenizer);

/* --------------------------------------------------------------------------------------------------------
   18 Transformer
   -------------------------------------------------------------------------------------------------------- */

/* Causal self-attention (Vaswani 2017) within each of `count` sequences, whose rows are start[s] ..
   start[s + 1] - 1. A row of qkv (rows, (heads + 2 kv_heads) size) holds the queries of `heads` heads, then the
   keys and then the values of kv_heads, each shared by heads / kv_heads queries (Ainslie 2023). It attends to the
   rows of its sequence up to itself, with a window only to the last of these. -> (rows, heads size). start
   [count + 1] is the caller's and must outlive the tape's round. */
typedef struct ppo_attention {
    int   heads, kv_heads; /* kv_heads 0: heads */
    int   window;          /* rows that a row attends to, itself included; 0: all */
    float scale;           /* of the products of queries and keys; 0: 1 / sqrt(size) */
} ppo_attention;
PPO_DEF ppo_tensor *ppo_tape_attention(ppo_tape *tape, ppo_tensor *qkv, const ppo_attention *how,
                                       const int *start, int count);

/* Rotary positions (Su 2021) for the first `heads` heads of x, each of `size` columns: their columns j and
   j + r/2 are turned by an angle, whose cosine is angle (rows, r) at j and whose sine at j + r/2. r <= size. */
PPO_DEF ppo_tensor *ppo_tape_rotary(ppo_tape *tape, ppo_tensor *x, ppo_tensor *angle, int heads, int size);

/* A language model: a decoder of `layers` blocks, between an embedding of tokens and a last norm,

       x += attention(norm(x)) W + b        x += feed_forward(norm(x))

   with feed_forward(x) = f(x W + b) W + b, or gated (f(x W) * (x V)) W. The defaults are GPT-2's (Radford 2019):
   layer norms, learned positions, f = gelu, biases everywhere, logits by the transposed token embedding. What
   differs in other families is a setting, and ppo_lm_config_family() sets them all:

       gpt2  gpt_neo (TinyStories)  gpt_neox (Pythia)  llama (SmolLM2, TinyLlama)  mistral  qwen2  qwen3 */
enum { PPO_RMS_NORM, PPO_LAYER_NORM };
enum { PPO_LEARNED_POSITIONS, PPO_ROTARY };
enum { PPO_ROPE_PLAIN, PPO_ROPE_LINEAR, PPO_ROPE_LLAMA3 };
typedef struct ppo_lm_config {     /* defaults in brackets */
    int      vocab;                /* tokens are 0 .. vocab-1; the one setting without a default */
    int      context;              /* tokens of the longest sequence, 2 or more [64] */
    int      width, layers, heads; /* [64, 2, 4] */
    int      score;      /* 1: also a head with one number per token, initially 0: a value, or a reward [0] */
    uint64_t seed;       /* [1] */
    int      family;     /* whose names and layout a saved folder has [gpt2] */
    int      kv_heads;   /* see ppo_attention; 0: heads [0] */
    int      head_size;  /* 0: width / heads, which must be a whole number [0] */
    int      hidden;     /* width of the feed-forward layers; 0: 4 width [0] */
    int      norm;       /* PPO_LAYER_NORM or PPO_RMS_NORM [PPO_LAYER_NORM] */
    float    norm_eps;   /* [1e-5] */
    int      activation; /* any of section 5 [PPO_GELU] */
    int      gated;      /* [0] */
    int      qkv_bias, proj_bias, ffn_bias; /* [1, 1, 1] */
    int      head_norm;           /* 1: RMS norms of queries and keys, before rotary positions [0] */
    int      parallel;            /* 1: both branches start from the same x [0] */
    int      tied;                /* 1: logits by the token embedding; 0: by a matrix of their own [1] */
    float    attention_scale;     /* see ppo_attention [0] */
    int      window;              /* see ppo_attention [0] */
    uint64_t window_layers;       /* bit k: layer k has it; 0: all have it [0] */
    int      positions;           /* PPO_LEARNED_POSITIONS or PPO_ROTARY [PPO_LEARNED_POSITIONS] */
    int      rotary_size;         /* columns of a head that are turned; 0: all [0] */
    float    rope_theta;          /* [10000] */
    int      rope_scaling;        /* PPO_ROPE_... [PPO_ROPE_PLAIN] */
    float    rope_factor;         /* linear, Llama 3: wavelengths are multiplied by it [1] */
    float    rope_low, rope_high; /* Llama 3: low_freq_factor, high_freq_factor [1, 4] */
    int      rope_context;        /* Llama 3: original_max_position_embeddings [8192] */
} ppo_lm_config;
PPO_DEF ppo_lm_config       ppo_lm_config_default(void);
PPO_DEF ppo_status          ppo_lm_config_family(ppo_lm_config *config, const char *family);
PPO_DEF const ppo_settings *ppo_lm_settings(void);

typedef struct ppo_lm_block {                  /* heads: heads head_size; biases may be NULL */
    ppo_tensor *norm_weight[2], *norm_bias[2]; /* (1, width): before attention, before the second half */
    ppo_tensor *qkv_weight, *qkv_bias;         /* (width, heads + 2 kv_heads head_size) */
    ppo_tensor *q_norm, *k_norm;               /* (1, head_size), or NULL */
    ppo_tensor *proj_weight, *proj_bias;       /* (heads, width): of the heads' results */
    ppo_tensor *up_weight, *up_bias;           /* (width, hidden); gated: (width, 2 hidden), W and V */
    ppo_tensor *down_weight, *down_bias;       /* (hidden, width) */
} ppo_lm_block;

typedef struct ppo_lm {
    ppo_lm_config config; /* as given; its context may be lowered, to save memory in sampling */
    ppo_lm_config full;   /* the same without a 0 that stands for something else */
    ppo_params   *params;
    ppo_tensor   *token_embedding, *position_embedding; /* (vocab, width); (context, width) or NULL */
    ppo_lm_block  block[PPO_MAX_LAYERS];
    ppo_tensor   *norm_weight, *norm_bias;   /* (1, width) */
    ppo_tensor   *head;                      /* (vocab, width): of the logits; may be token_embedding */
    ppo_tensor   *score_weight, *score_bias; /* (width, 1), (1, 1); NULL: no such head */
    float        *rotary;                    /* angles of positions for ppo_tape_rotary(), or NULL */
} ppo_lm;

/* Normal weights of std 0.02, those that end a branch / sqrt(2 layers); zero biases, norms of 1. */
PPO_DEF ppo_status ppo_lm_create(const ppo_lm_config *config, ppo_lm **lm);
PPO_DEF void       ppo_lm_free(ppo_lm *lm);

/* A model with the same weights, frozen: a reference, or the start of another training. With `score` not 0 it
   gets a score head if lm has none. */
PPO_DEF ppo_status ppo_lm_copy(const ppo_lm *lm, int score, ppo_lm **copy);

/* The hidden state of each token (rows, width), after the last norm; rows is start[count]. The arrays of
   tokens must outlive the tape's round. Errors: a token outside the vocabulary, a sequence that is empty or
   longer than the context. */
PPO_DEF ppo_tensor *ppo_lm_forward(ppo_tape *tape, const ppo_lm *lm, const ppo_tokens *tokens);
/* From hidden states, or some of their rows (ppo_tape_embedding() picks them): the logits of the next token
   (n, vocab), and the score (n, 1). */
PPO_DEF ppo_tensor *ppo_lm_logits(ppo_tape *tape, const ppo_lm *lm, ppo_tensor *x);
PPO_DEF ppo_tensor *ppo_lm_score(ppo_tape *tape, const ppo_lm *lm, ppo_tensor *x);

/* --------------------------------------------------------------------------------------------------------
   19 Models in files
   -------------------------------------------------------------------------------------------------------- */

/* A folder as the model hub has them: config.json of transformers 4 or 5, and model.safetensors or shards with
   their index; F32, F16 or BF16. Or a file of ppo_lm_save_file(). Everything is checked; what is not supported is
   refused by the key that says so, as "config.json: hidden_act "relu6" is not known". Arrays are read one after
   another into their places. A classifier of one label is a model with a score; ppo_tokenizer_load() reads the
   folder's tokenizer. The model is frozen: a backward of your own needs ppo_params_freeze(lm->params, 0). */
PPO_DEF ppo_status ppo_lm_load(const char *path, ppo_lm **lm);
/* Writes such a folder (config.json, model.safetensors), which AutoModelForCausalLM of transformers reads; with a
   score, AutoModelForSequenceClassification, too. dtype: PPO_F32, PPO_F16 or PPO_BF16. Errors: settings that the
   family's config.json cannot say, a number that the type cannot hold. */
PPO_DEF ppo_status ppo_lm_save(const ppo_lm *lm, const char *path, int dtype);

/* A language model in one file, exactly: the parameters under their names, sizes as texts "vocab_size",
   "n_positions", "n_embd", "n_layer", "n_head", other settings as "lm." and their names. The tokenizer may be NULL;
   ppo_tokenizer_load() reads it from the same file. put and get use a file in memory, which may hold other things,
   too; what was put is borrowed until the last write. */
PPO_DEF ppo_status ppo_lm_save_file(const ppo_lm *lm, const ppo_tokenizer *tokenizer, const char *path);
PPO_DEF ppo_status ppo_lm_put(const ppo_lm *lm, ppo_file *file);
PPO_DEF ppo_status ppo_lm_get(const ppo_file *file, ppo_lm **lm);

/* --------------------------------------------------------------------------------------------------------
   20 Sampling from a language model
   -------------------------------------------------------------------------------------------------------- */

/* A tool that a sampled sequence calls: token [n] is the sequence so far, with the prompt and, at its end, the
   token ppo_sampling.call. Writes what follows to answer, at most `room` tokens (1 or more: what max_new and
   the context leave), and how many to *count, which is 0 before. The sequence then continues; the answer is
   given, not sampled: calls and an eos in it mean nothing. On failure it returns a status, after ppo_fail()
   with the reason. It runs on the caller's thread and must not use the same generator. */
typedef ppo_status (*ppo_tool_fn)(const int *token, int n, int *answer, int room, int *count, void *user);

typedef struct ppo_sampling {
    float       temperature; /* logits are divided by it; above 0 [1] */
    int         greedy;      /* 1: always the most likely token, the first of equals [0] */
    int         top_k;       /* > 0: only the k most likely tokens; 0: all [0] */
    float       top_p;     /* < 1: of these, the fewest most likely whose probabilities reach this sum [1] */
    int         eos;       /* this token ends a sequence, as its last; -1: none does [-1] */
    int         max_new;   /* tokens after the prompt at most; 0: up to the context [0] */
    uint64_t    seed;      /* [1] */
    int         call;      /* this token calls the tool; -1: none does [-1] */
    ppo_tool_fn tool;      /* [NULL] */
    void       *tool_user; /* passed to it [NULL] */
} ppo_sampling;
PPO_DEF ppo_sampling ppo_sampling_default(void);

/* The probabilities of the next token under these settings, p [vocab], from a row of logits. Of equally
   likely tokens, all are kept or none. scratch [vocab]. Temperature comes first, then top_k, then top_p, as
   in Hugging Face's generate(). Errors: a setting out of range, logits that are not finite. */
PPO_DEF ppo_status ppo_sampling_probabilities(const ppo_sampling *how, const float *logits, int vocab,
                                              float *p, float *scratch);

/* Sampled sequences: each its prompt, followed by the tokens sampled. */
typedef struct ppo_samples {
    ppo_tokens     tokens; /* tokens.prompt[s] is the length of prompt s; tokens.given: what a tool wrote */
    float         *logp;   /* [start[count]] of each sampled token; 0 for those that were given */
    unsigned char *ended;  /* [count] 1: by the token eos; 0: cut off by max_new or the context */
} ppo_samples;

/* Samples up to `slots` sequences side by side, with cached keys and values; a sequence that ends gives its
   slot to the next prompt. 1 to 65536 slots; 8 to 16 are fastest: the cached keys and values of more slots no
   longer fit a processor's cache. lm is borrowed; its weights may change between calls. Calls take memory
   only for more or longer prompts than before. */
typedef struct ppo_generator ppo_generator;
PPO_DEF ppo_status           ppo_generator_create(const ppo_lm *lm, int slots, ppo_generator **generator);
PPO_DEF void                 ppo_generator_free(ppo_generator *generator);

/* Continues each prompt: sequence s of `prompts`, or its first prompt[s] tokens where prompts->prompt is not
   NULL. What *samples points to is the generator's, valid until the end of its next call. It may be the
   prompts of that call: set tokens.prompt to NULL to continue whole sequences. Sequence s has its own random
   stream (how->seed, s): it is the same for any slots and any other prompts. logp is that of the whole
   distribution at the temperature, before top_k and top_p, with the bits of ppo_lm_forward() and
   ppo_token_logp(). Errors: a prompt that is empty or leaves no room in the context, an unknown token, logits
   that are not finite. */
PPO_DEF ppo_status ppo_generate(ppo_generator *generator, const ppo_tokens *prompts, const ppo_sampling *how,
                                ppo_samples *samples);

/* --------------------------------------------------------------------------------------------------------
   21 Fine-tuning and reward models (Ziegler 2019, Ouyang 2022): supervised fine-tuning on demonstrations, a
   reward model from comparisons, or DPO on them
   -------------------------------------------------------------------------------------------------------- */

/* Adds a sequence for each line of a file of JSON Lines, an object with the members that data sets have:
       {"messages": [{"role": "user", "content": "..."}, ...]}  a chat; a prompt if the assistant is not last
       {"prompt": "...", "completion": "..."}                   the prompt is given
       {"text": "..."}                                          without a prompt
       {"prompt": "..."}                                        nothing but a prompt
   or, if rejected is not NULL, two, the second of which is added to that:
       {"prompt": "...", "chosen": "...", "rejected": "..."}
       {"chosen": [{...}, ...], "rejected": [{...}, ...]}       two chats
   The first of these that a line has counts, and other members do not. form: as in ppo_tokens_add_chat(), for
   chats; start and end: as in ppo_tokens_add_text(), for texts. longest > 0: sequences are cut after this
   number of tokens; a line of which then nothing is left to learn is left out, as is a longer prompt. Lines
   have up to 64 MiB, one of which is in memory at a time. Errors, with the line, after which tokens and rejected are as they
   were: those of reading and encoding, a line that is none of these. */
PPO_DEF ppo_status ppo_tokens_add_lines(ppo_tokens *tokens, ppo_tokens *rejected, const char *path,
                                        const ppo_tokenizer *tokenizer, int form, int start, int end,
                                        int longest);

/* Tokens in a safetensors file: "tokens" I32 (n); "tokens.start" I32 (count + 1), without which they are one
   sequence; "tokens.prompt" I32 (count) and "tokens.given" U8 (n), where there are such. Loading adds the
   sequences; after a failure tokens are as they were. Errors: those of the file, arrays that contradict. */
PPO_DEF ppo_status ppo_tokens_save(const ppo_tokens *tokens, const char *path);
PPO_DEF ppo_status ppo_tokens_load(const char *path, ppo_tokens *tokens);

/* A model's outputs for the n tokens that are not given: those after each sequence's prompt, or after its
   first token, if there is no prompt, but for those that ppo_tokens.given marks. */
typedef struct ppo_response {
    ppo_tensor *logp, *entropy; /* (n, 1) */
    ppo_tensor *logits;         /* (n, vocab) */
    ppo_tensor *value;          /* (n, 1) the score before each token; NULL without PPO_VALUE */
} ppo_response;
/* The row of a sequence's first such token; n for sequence >= count; 0 for tokens NULL or sequence < 0. */
PPO_DEF int ppo_response_row(const ppo_tokens *tokens, int sequence);

/* want: PPO_POLICY, PPO_VALUE or both; logits are divided by temperature for logp and entropy. Errors: no
   such token; want is 0. The arrays of tokens must outlive the tape's round. */
PPO_DEF ppo_response ppo_lm_response(ppo_tape *tape, const ppo_lm *lm, const ppo_tokens *tokens,
                                     float temperature, int want);

/* Sums of x (n, 1), rows as above, over each sequence: (count, 1); and the score at the last token of each
   sequence (count, 1), which is a reward model's score of it. */
PPO_DEF ppo_tensor *ppo_tape_sequence_sum(ppo_tape *tape, ppo_tensor *x, const ppo_tokens *tokens);
PPO_DEF ppo_tensor *ppo_lm_sequence_score(ppo_tape *tape, const ppo_lm *lm, const ppo_tokens *tokens);

/* One gradient step of fine-tuning. */
typedef struct ppo_fit_progress {
    int64_t step, steps; /* 1, 2, ... steps */
    int     epoch;       /* 1, 2, ... */
    float   loss;        /* of this step's batch, before the step */
    float   accuracy;    /* pairs: share of which the chosen one is preferred; else NaN */
    float   grad_norm, learning_rate;
    double  seconds, tokens_per_second; /* since the start */
    /* of the held-out data, after the step; NaN where they were not measured */
    float held_out_loss, held_out_accuracy;
    float perplexity; /* exp(held_out_loss); of supervised fine-tuning alone */
} ppo_fit_progress;
typedef int (*ppo_fit_callback)(const ppo_fit_progress *progress, void *user); /* not 0: the training ends */

typedef struct ppo_fit_config { /* defaults in brackets */
    int epochs;                 /* passes over the data [1] */
    int steps;                  /* > 0: gradient steps in all, instead of epochs [0] */
    int batch_size;             /* sequences, windows or pairs per gradient step; at most all of them [32] */
    int micro_batch;            /* of these, in memory at once; gradients add up; 0: all [0] */

    /* supervised fine-tuning on long texts: the sequences, one after another, are one text, and an item is a
       window of it, which may reach from one sequence into the next. It predicts its tokens but the first, and
       those that are given, as in prompts */
    int window;         /* > 0: tokens of a window, at most the context; 0: an item is a sequence [0] */
    int random_windows; /* 1: windows begin anywhere, as many in an epoch as cover the text; 0: side by side,
                           so that an epoch learns each token once [0] */

    float    learning_rate;          /* [1e-3] */
    int      learning_rate_schedule; /* PPO_CONSTANT, PPO_LINEAR, PPO_COSINE [cosine] */
    float    min_learning_rate;      /* to which the schedule falls [0] */
    float    warmup;                 /* share of the steps in which the learning rate rises from 0 [0.05] */
    int      warmup_steps;           /* > 0: steps in which it rises, instead of that share [0] */
    float    adam_beta1, adam_beta2; /* [0.9, 0.999] */
    float    adam_eps;               /* [1e-5] */
    float    weight_decay;           /* decoupled (AdamW), of matrices: neither of biases nor of norms [0] */
    float    max_grad_norm;          /* 0: off [1] */
    float    beta;                   /* DPO: strength of the KL constraint [0.1] */
    float    label_smoothing;        /* DPO: share of comparisons that are wrong [0] */
    uint64_t seed;                   /* of the order [1] */

    /* the loss on other data, which are not learned; both are borrowed */
    const ppo_tokens *held_out, *held_out_rejected; /* the second: of pairs; NULL: none [NULL] */
    int               evaluate_every; /* steps between measuring it; 0: an epoch; the last step always [0] */
    int               patience;       /* > 0: after this many measurements no better than the best one, the
                                         training ends; and the model becomes the one that was best [0] */

    /* a file in which the training is saved as it proceeds. If it is there at the start, the training
       continues from it, to the same bits as if it had never stopped; of a complete one, the model is read */
    const char *checkpoint; /* its path; NULL: none [NULL] */
    int checkpoint_every;   /* steps between saves; also at the end, or when the callback ends it [100] */

    ppo_fit_callback callback;      /* may be NULL [NULL] */
    void            *callback_user; /* passed to it [NULL] */
} ppo_fit_config;
PPO_DEF ppo_fit_config ppo_fit_config_default(void);
/* By name, for ppo_settings_set() and its like (section 6): all fields that are no pointers. */
PPO_DEF const ppo_settings *ppo_fit_settings(void);

/* Each call is a complete training with a new optimizer, or the rest of the one in the checkpoint. Errors: a
   setting out of range, data that does not fit the model (see ppo_lm_forward()), no token after a prompt,
   numbers that are not finite, a file that cannot be written; then the model keeps the steps taken until
   there. A checkpoint of another kind of training, of another model's sizes, of other data or settings
   (checkpoint_every may differ) is an error that changes nothing; delete the file to start anew.
   ppo_lm_load() reads it as a model.

   Supervised fine-tuning: the mean of -logp over the tokens after the prompts, which should end with
   sampling.eos for the model to learn to end its sequences. */
PPO_DEF ppo_status ppo_fit_sft(ppo_lm *lm, const ppo_tokens *data, const ppo_fit_config *config);

/* A reward model (lm has a score): ppo_pairwise_loss() of sequences s of `chosen` and of `rejected`. */
PPO_DEF ppo_status ppo_fit_reward(ppo_lm *lm, const ppo_tokens *chosen, const ppo_tokens *rejected,
                                  const ppo_fit_config *config);

/* Direct preference optimization: ppo_dpo_loss() of summed log-probabilities. reference has the same
   vocabulary and no shorter context, and is not changed; it may be lm itself: its weights at the start. DPO
   needs a lower learning rate than the default, such as 1e-4: it never samples, so nothing holds it back. */
PPO_DEF ppo_status ppo_fit_dpo(ppo_lm *lm, const ppo_lm *reference, const ppo_tokens *chosen,
                               const ppo_tokens *rejected, const ppo_fit_config *config);

/* For each sequence of the data [count], `batch` of them at a time: its score, and the sum of the
   log-probabilities of the tokens after its prompt. Errors: as above, and a sum or a score that is not
   finite. exp(-sum of logp / number of tokens) is the perplexity. */
PPO_DEF ppo_status ppo_lm_scores(const ppo_lm *lm, const ppo_tokens *data, int batch, float *score);
PPO_DEF ppo_status ppo_lm_logp(const ppo_lm *lm, const ppo_tokens *data, int batch, float *logp);

/* Computes the reward of each sample: reward [samples->tokens.count], within +-1e15; by a rule, a verifier, a
   model. The samples are valid during the call only; those of a prompt are adjacent. On failure it returns a
   status, after ppo_fail() with the reason. */
typedef ppo_status (*ppo_reward_fn)(const ppo_samples *samples, float *reward, void *user);

/* One model, or an ensemble: the mean of several models' scores, or the minimum, which is harder to exploit
   (Coste 2023). Members are borrowed, and have a score. batch: sequences in memory at once. */
enum { PPO_MAX_MEMBERS = 16 };
enum { PPO_ENSEMBLE_MEAN, PPO_ENSEMBLE_MINIMUM };
typedef struct ppo_reward_model ppo_reward_model;
PPO_DEF ppo_status ppo_reward_model_create(ppo_lm *const *members, int count, int ensemble, int batch,
                                           ppo_reward_model **model);
PPO_DEF void       ppo_reward_model_free(ppo_reward_model *model);
/* Shifts and scales each member's scores to mean 0 and standard deviation 1 on these sequences. Errors, which
   change nothing: a score that is not finite, scores that are all the same. */
PPO_DEF ppo_status ppo_reward_model_normalize(ppo_reward_model *model, const ppo_tokens *reference);
/* score [count] of sequences; and the same as a ppo_reward_fn, whose user is the model. */
PPO_DEF ppo_status ppo_reward_model_score(ppo_reward_model *model, const ppo_tokens *tokens, float *score);
PPO_DEF ppo_status ppo_reward_by_model(const ppo_samples *samples, float *reward, void *model);

/* The best of n samples of each prompt by reward, added to best (not prompts itself), its reward in score
   [prompts->count] (may be NULL). reward is called once for each prompt, with its n samples. After a failure
   best is unchanged. ppo_best_of_n_kl(): log n - (n - 1) / n, an upper bound of the KL to the model. */
PPO_DEF ppo_status ppo_best_of_n(ppo_generator *generator, const ppo_tokens *prompts, int n,
                                 const ppo_sampling *how, ppo_reward_fn reward, void *user, ppo_tokens *best,
                                 float *score);
PPO_DEF float      ppo_best_of_n_kl(int n);

/* Comparisons for ppo_fit_reward() and ppo_fit_dpo(), by a judge: two samples of each prompt, of which the one
   of higher reward is added to chosen, the other to rejected; neither is prompts. Pairs of equal reward are
   left out, so there may be fewer than prompts. With `mistakes` not NULL the judge errs as people do: the
   first is chosen with probability sigmoid(difference of rewards) (Bradley and Terry 1952), and none is left
   out. After a failure chosen and rejected are unchanged. */
PPO_DEF ppo_status ppo_compare(ppo_generator *generator, const ppo_tokens *prompts, const ppo_sampling *how,
                               ppo_reward_fn judge, void *user, ppo_rng *mistakes, ppo_tokens *chosen,
                               ppo_tokens *rejected);

/* What a model is worth: means over one sample of each prompt. */
typedef struct ppo_lm_evaluation {
    float  reward, reward_std; /* NaN if there is no reward function */
    float  win_rate;           /* share of prompts for which the reference's sample earns less, plus half of
                                  those for which it earns the same; NaN without a reference or a reward */
    float  kl;                 /* to the reference, summed over a sequence: mean of k1; NaN without one */
    float  entropy;            /* per sampled token: mean of -logp */
    float  mean_length, ended; /* sampled tokens; share of sequences that ended by eos */
    double tokens_per_second;  /* of sampling */
} ppo_lm_evaluation;
/* reference and reward may be NULL. Both models sample with the same random numbers. */
PPO_DEF ppo_status ppo_lm_evaluate(const ppo_lm *lm, const ppo_lm *reference, const ppo_tokens *prompts,
                                   const ppo_sampling *how, ppo_reward_fn reward, void *user,
                                   ppo_lm_evaluation *evaluation);

/* --------------------------------------------------------------------------------------------------------
   22 PPO on tokens: PPO against a reward function
   -------------------------------------------------------------------------------------------------------- */

/* How much better a token was than expected. The first two need a critic; those of groups, two or more samples
   of each prompt. R is the sum of a sequence's rewards.
       GAE            token by token (section 8)
       SEQUENCE       R - V(prompt), the same for all tokens
       GROUP          (S - mean) / (std + 1e-4) + K - mean, among the samples of the same prompt: K is the part
                      of R that is KL, S the rest; std is unbiased (GRPO, Shao 2024)
       LEAVE_ONE_OUT  R - mean of the prompt's other samples (RLOO, Ahmadian 2024)
       GROUP_MEAN     R - mean of the prompt's samples (Dr. GRPO, Liu 2025)
       RETURN         the discounted sum of the rewards from this token on (REINFORCE++, Hu 2025) */
enum {
    PPO_ADVANTAGE_GAE,
    PPO_ADVANTAGE_SEQUENCE,
    PPO_ADVANTAGE_GROUP,
    PPO_ADVANTAGE_LEAVE_ONE_OUT,
    PPO_ADVANTAGE_GROUP_MEAN,
    PPO_ADVANTAGE_RETURN
};
/* Where the KL to the reference counts: in each token's reward, or as a term of the loss. Section 9 says which
   estimator is right there. */
enum { PPO_KL_IN_REWARD, PPO_KL_IN_LOSS };
enum { PPO_KL_EXACT = 4 }; /* beside PPO_K1, PPO_K2, PPO_K3: over the whole vocabulary */

/* How the terms of tokens become a loss: their mean; the mean over sequences of each one's mean, in which
   tokens of long sequences count less (GRPO); or their sum, divided by the number of sequences and by max_new
   (Dr. GRPO). The value loss and the entropy are always means over tokens. */
enum { PPO_AGGREGATE_TOKENS, PPO_AGGREGATE_SEQUENCES, PPO_AGGREGATE_CONSTANT };
/* The ratio of a token: its own, or the geometric mean of those of its sequence (GSPO, Zheng 2025). */
enum { PPO_RATIO_TOKEN, PPO_RATIO_SEQUENCE };
/* Importance sampling for samples of another policy: the advantages are multiplied by the ratio of the
   probabilities, of each token or of the whole sequence. Truncated: limited to a range. Masked: 0 outside the
   range. The KL, the entropy and the values of these tokens count as ever. */
enum { PPO_TOKEN_TRUNCATE, PPO_TOKEN_MASK, PPO_SEQUENCE_TRUNCATE, PPO_SEQUENCE_MASK };

typedef struct ppo_rlhf_config { /* defaults in brackets */
    /* sampling */
    int          prompts;  /* prompts per iteration [64] */
    int          samples;  /* samples of each prompt; prompts x samples is at most 2^24 [1] */
    int          slots;    /* sequences that are sampled side by side [16] */
    ppo_sampling sampling; /* its seed is not used; not greedy. top_k and top_p sample from another
                              distribution than the one trained, which biases ratios and KL [defaults] */

    /* reward; R sums it over a sequence */
    int   normalize_rewards; /* 1: less the mean of all rewards so far, divided by their std, so that whatever
                                  follows is in units of that std, and no setting depends on their scale [1] */
    float reward_clip;       /* > 0: rewards are clipped to +- this [0] */
    float missing_eos_penalty; /* subtracted where no eos ended the sequence [0] */
    float length_penalty;      /* subtracted for every sampled token [0] */
    int   overlong_buffer;     /* > 0: the k-th of the last overlong_buffer tokens before the limit costs
                               overlong_penalty * k / overlong_buffer in all (DAPO, Yu 2025) [0] */
    float overlong_penalty;    /* [1] */
    int   refills; /* > 0: dynamic sampling (DAPO): where all samples of a prompt earn the same, which
                               teaches nothing, other prompts are sampled in its place, at most this often in an
                               iteration; not by ppo_rlhf_update() [0] */

    /* KL to the reference */
    int   kl_place;        /* PPO_KL_IN_REWARD or PPO_KL_IN_LOSS [reward] */
    int   kl_estimator;    /* PPO_K1, PPO_K2, PPO_K3, PPO_KL_EXACT [k1] */
    float kl_coef;         /* strength of the KL constraint [0.05] */
    int   kl_weighted;     /* 1: in the loss, each token's KL is multiplied by its ratio (k1 and k3) [0] */
    float kl_target;       /* > 0: kl_coef adapts to hold this KL per sequence (Ziegler 2019) [0] */
    int   kl_horizon;      /* samples in which kl_coef can change by a fifth [10000] */
    int   reference_every; /* > 0: iterations after which the policy becomes the reference; only for the
                              library's own copy [0] */

    /* advantages */
    int   advantage;           /* PPO_ADVANTAGE_... [GAE] */
    float gamma, gae_lambda;   /* gamma: GAE and RETURN; gae_lambda: GAE [1, 0.95] */
    int   whiten_rewards;      /* GAE: 1: unit variance over the batch's tokens, mean unchanged [0] */
    int   bootstrap_truncated; /* GAE: 1: bootstrap sequences that were cut off, with their last value [0] */
    int   whiten_advantages;   /* 1: mean 0, std 1 over the batch's tokens; -1: GAE, SEQUENCE, RETURN [-1] */

    /* training */
    int                  aggregation;    /* PPO_AGGREGATE_... [tokens] */
    int                  ratio;          /* PPO_RATIO_... [token] */
    int                  mask_truncated; /* 1: does not learn from sequences that were cut off (DAPO) [0] */
    int                  epochs;         /* passes over the samples of an iteration [4] */
    float                target_kl; /* > 0: epochs end when approx_kl of a minibatch exceeds 1.5 target_kl.
                                            Above 4 target_kl, the policy returns to the iteration's start and
                                            learns it with half the learning rate, which recovers later; a
                                            critic keeps what it has learned; 0: off [0.02] */
    int                  minibatch_size; /* sequences per gradient step; at most all of them [16] */
    int                  micro_batch;    /* of these, in memory at once; gradients add up; 0: all [0] */
    ppo_policy_objective objective;      /* [clip, 0.2, 0.2] */
    float                value_coef, value_clip; /* of 0.5 mse; 0: no clipping [0.5, 0.2] */
    float                entropy_coef;           /* [0] */
    float entropy_target;         /* > 0: where samples have at most this entropy per token, entropy_coef
                                            grows by entropy_step; where more, it falls and has no effect. It
                                            stays within 0 .. 1 (Skywork-OR1, He 2025) [0] */
    float entropy_step;           /* [0.005] */
    float max_grad_norm;          /* 0: off [1] */
    float learning_rate;          /* [3e-4] */
    float critic_learning_rate;   /* of a critic of its own; 0: learning_rate [0] */
    int   learning_rate_schedule; /* PPO_CONSTANT, PPO_LINEAR, PPO_COSINE [constant] */
    float min_learning_rate;      /* to which the schedule falls [0] */
    int   iterations;             /* after which a schedule ends [0] */
    float adam_beta1, adam_beta2; /* [0.9, 0.999] */
    float adam_eps;               /* [1e-5] */
    float weight_decay;           /* decoupled (AdamW), of matrices: neither of biases nor of norms [0] */
    /* of samples of another policy: needs samples->logp */
    float    importance_cap;   /* > 0: they count by their ratio, up to this [0] */
    float    importance_floor; /* and from this [0] */
    int      importance_mode;  /* PPO_TOKEN_TRUNCATE, ... [token-truncate] */
    uint64_t seed;             /* [1] */
} ppo_rlhf_config;
PPO_DEF ppo_rlhf_config ppo_rlhf_config_default(void);
/* By name, for ppo_settings_set() and its like (section 6): all fields; those of sampling and objective by
   their own names, as "top_k" and "clip_low"; the objective's kl_coef is "objective_kl_coef". */
PPO_DEF const ppo_settings *ppo_rlhf_settings(void);

/* Known methods by name, with 8 samples of each prompt. A preset resets every setting that defines the method;
   prompts, minibatch_size (sequences), epochs, learning rate, normalize_rewards and target_kl stay as they are.
       "rloo"                   Ahmadian 2024: other samples as the baseline, KL in the reward
       "grpo"                   Shao 2024: groups, mean over sequences, k3 in the loss
       "dr-grpo"                Liu 2025: groups without division by std or length, no KL; set max_new
       "dapo"                   Yu 2025: groups, mean over tokens, clip 0.2 and 0.28, refills, no KL; set
                                overlong_buffer to what suits your max_new
       "gspo"                   Zheng 2025: groups, the ratio of the sequence, clip 3e-4 and 4e-4, no KL
       "cispo"                  MiniMax 2025: groups, mean over tokens, ratios up to 5 held constant, no KL
       "reinforce++"            Hu 2025: whitened returns, KL in the reward; one sample of each prompt is enough
       "reinforce++-baseline"   Hu 2025: less the mean of the group, whitened; k2 in the loss */
PPO_DEF ppo_status ppo_rlhf_config_preset(ppo_rlhf_config *config, const char *name);
/* Their names, as "rloo|grpo|..." */
PPO_DEF const char *ppo_rlhf_config_presets(void);

/* One iteration. Sums over a sequence are means over sequences; the rest are means over tokens. */
typedef struct ppo_rlhf_progress {
    int64_t iteration;       /* 1, 2, ... */
    int64_t samples, tokens; /* since the start: sequences and sampled tokens, to be learned from */
    double  seconds, tokens_per_second;
    float   reward, reward_std;    /* as the function gave them */
    float   kl;                    /* to the reference, summed over a sequence: mean of k1, may be negative */
    float   kl_coef;               /* as used */
    float   kl_k3;                 /* the same by k3, never negative */
    float   entropy, entropy_coef; /* the coefficient as used */
    float   mean_length, ended;    /* sampled tokens; share of sequences that ended by eos */
    int     refilled;              /* prompts that were replaced, whose samples no other figure counts */
    float   distinct; /* share of samples that (prompt and all) equal no earlier one of the iteration */
    float   policy_loss, value_loss, approx_kl, old_approx_kl, clip_fraction;
    float   first_ratio_min, first_ratio_max; /* over the first minibatch: probabilities in training divided
                                                 by those in sampling: exactly 1 and 1 */
    float   explained_variance;               /* NaN without a critic */
    float   grad_norm, learning_rate;         /* of the last minibatch */
    int     gradient_steps;                   /* of this iteration; fewer if target_kl ended the epochs */
    /* "", or a sentence: nothing could be learned from (no sample ended, with mask_truncated; no prompt's samples
       earned differently, with refills); the KL is above 1 per token; samples are twice or half as long as in
       the first iteration; or the reward is not clearly above that of the first iteration, but the share of
       different samples of a prompt (samples 1: of all) is below half of what it was, or the entropy below a
       tenth */
    char warning[160];
} ppo_rlhf_progress;

/* PPO on tokens. The policy is borrowed and trained, with a restarted optimizer. reference NULL: a copy of
   the policy as it is now; otherwise another model, borrowed. critic NULL: another copy, which learns to give
   values; otherwise a model with a score, borrowed and trained. It may be the policy: that takes less memory
   and time, but learning values also changes the policy, at random. Only GAE and SEQUENCE need a critic.
   The prompts are copied: whole sequences, or their first prompt[s] tokens. reward may be NULL if only
   ppo_rlhf_update() is called. */
typedef struct ppo_rlhf ppo_rlhf;
PPO_DEF ppo_status      ppo_rlhf_create(ppo_lm *policy, const ppo_lm *reference, ppo_lm *critic,
                                        const ppo_tokens *prompts, ppo_reward_fn reward, void *user,
                                        const ppo_rlhf_config *config, ppo_rlhf **rlhf);
PPO_DEF void            ppo_rlhf_free(ppo_rlhf *rlhf);
/* Samples, calls the reward function, and updates. progress may be NULL. A failure before the first gradient
   step changes nothing: the next call does the same iteration. After a later one (numbers that are not
   finite) the models keep the steps taken until there. */
PPO_DEF ppo_status ppo_rlhf_iterate(ppo_rlhf *rlhf, ppo_rlhf_progress *progress);
/* Only the update, with samples and rewards of your own: prompts x samples of them, those of a prompt
   adjacent, none longer than the longest prompt and max_new allow. samples->logp NULL: the policy sampled
   them; where another policy or other arithmetic did, set importance_cap. */
PPO_DEF ppo_status ppo_rlhf_update(ppo_rlhf *rlhf, const ppo_samples *samples, const float *reward,
                                   ppo_rlhf_progress *progress);

/* Saves a run between two iterations: the policy, as ppo_lm_load() reads it, the critic, the library's own
   reference, both optimizers, all settings by name, and what later iterations depend on. A resumed run ends
   with the same bits as one that never stopped. */
PPO_DEF ppo_status ppo_rlhf_save(const ppo_rlhf *rlhf, const char *path);
/* Continues it: as ppo_rlhf_create() with the same arguments, but the numbers of the policy and the critic
   become those of the file. config: ppo_settings_load() reads the saved one; any setting but the seed may
   change. Errors, which change no model: a file of something else, models of other sizes, other prompts,
   another reference. */
PPO_DEF ppo_status ppo_rlhf_resume(const char *path, ppo_lm *policy, const ppo_lm *reference, ppo_lm *critic,
                                   const ppo_tokens *prompts, ppo_reward_fn reward, void *user,
                                   const ppo_rlhf_config *config, ppo_rlhf **rlhf);

#endif /* PPO_NO_LANGUAGE */

/* ========================================================================================================
   REPORTS
   ======================================================================================================== */

#ifndef PPO_NO_REPORTS

/* --------------------------------------------------------------------------------------------------------
   23 Progress, curves, CSV, TensorBoard, SVG
   -------------------------------------------------------------------------------------------------------- */

/* Draws y [n] against x [n], which ascends, with width x height characters (at most 256 x 256 without the
   labels). Points that are not finite are left out. title may be NULL. */
PPO_DEF void ppo_print_curve(FILE *file, const char *title, const float *x, const float *y, int n, int width,
                             int height);

typedef struct ppo_curve {
    const char  *name;
    const float *x, *y; /* [n], x ascending; points that are not finite are left out */
    int          n;
} ppo_curve;
/* Writes an SVG file: a line chart of 800 x 450 pixels, with a legend of the named curves. Texts may be NULL.
   The same curves give the same bytes. Errors: no curve, a text is not UTF-8, those of the file. */
PPO_DEF ppo_status ppo_plot_svg(const char *path, const char *title, const char *x_label, const char *y_label,
                                const ppo_curve *curves, int count);

#ifndef PPO_NO_LANGUAGE
/* Prints the first `count` samples as lines: the reward (reward NULL: none), the prompt, " | ", what was
   sampled, and "..." where it was cut off. Line ends and other control characters print as spaces. */
PPO_DEF void ppo_print_samples(FILE *file, const ppo_tokenizer *tokenizer, const ppo_samples *samples,
                               const float *reward, int count);
#endif

#ifndef PPO_NO_CONTROL
/* A callback that prints a progress line to the FILE * given as callback_user (NULL: stderr). A terminal
   shows one line, rewritten in place; elsewhere a line is printed for every twentieth of the training. */
PPO_DEF int ppo_print_progress(const ppo_progress *progress, void *file);

/* A log of a run, as a CSV file and as TensorBoard event files, with the keys of Stable-Baselines3's logger
   for PPO, which mean the same:

       rollout/ep_len_mean   rollout/ep_rew_mean    time/fps               time/iterations
       time/time_elapsed     time/total_timesteps   train/approx_kl        train/clip_fraction
       train/clip_range      train/clip_range_vf    train/entropy_loss     train/explained_variance
       train/learning_rate   train/loss             train/n_updates        train/policy_gradient_loss
       train/std             train/value_loss

   train/value_loss is the mean squared error, twice ours; train/n_updates counts epochs; train/approx_kl is
   that of the last epoch. Without a finished episode, value_clip or a Gaussian their fields of the CSV are
   empty, and TensorBoard gets no point. TensorBoard does not get train/n_updates and the counts under time/.
   One difference: a row here has the update of its own iteration, there that of the iteration before.

       static int on_iteration(const ppo_progress *progress, void *log) {
           return ppo_log_write((ppo_log *)log, progress); // the training ends if this fails
       } */
typedef struct ppo_log ppo_log;

/* csv_path (usually "progress.csv") or tensorboard_dir may be NULL; missing directories are created. steps 0:
   a new run; an old CSV is replaced. steps > 0: a run resumed after that many steps; later rows of the CSV,
   if there is one, are dropped. Error: a CSV with other columns. The event files of a directory are one run:
   a new one drops the later points of the others. */
PPO_DEF ppo_status ppo_log_open(const char *csv_path, const char *tensorboard_dir, int64_t steps,
                                ppo_log **log);
/* Writes at once. Errors: those of the files. After a failure the next call continues after the last complete
   row. */
PPO_DEF ppo_status ppo_log_write(ppo_log *log, const ppo_progress *progress);
/* A value of your own, for TensorBoard only; key is up to 512 bytes, like "eval/mean_return". */
PPO_DEF ppo_status ppo_log_scalar(ppo_log *log, const char *key, double value, int64_t steps);
PPO_DEF void       ppo_log_close(ppo_log *log);
#endif

#endif /* PPO_NO_REPORTS */

#ifdef __cplusplus
}
#endif
#endif /* PPO_H */
/* ========================================================================================================
   IMPLEMENTATION
   ======================================================================================================== */

#if defined(PPO_IMPLEMENTATION) && !defined(PPO__KERNEL_PASS) && !defined(PPO__IMPLEMENTED)

#ifdef __FAST_MATH__
#error "compile the file that has PPO_IMPLEMENTATION without -ffast-math: it hides NaN from the checks"
#endif

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The system. windows.h is included because declarations by hand would clash with it. */
#if defined(__unix__) || defined(__APPLE__)
#define PPO__UNIX
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>
#define PPO__PROCESS_ID() ((long)getpid())
#define PPO__MKDIR(path)  mkdir(path, 0777)
#elif defined(_WIN32) /* where a long has 32 bits, and rename() does not replace */
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>

#include <direct.h>
#include <fcntl.h>
#include <io.h>
#include <sys/stat.h>
#define PPO__PROCESS_ID() ((long)GetCurrentProcessId())
#define PPO__MKDIR(path)  _mkdir(path)
#define PPO__SLASHES      "/\\"
#define PPO__SEEK         _fseeki64
#define PPO__TELL         _ftelli64
#define PPO__MOVE(from, to) \
    (MoveFileExA(from, to, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH) ? 0 : (errno = EACCES))
#else
#define PPO__PROCESS_ID() 0L
#define PPO__MKDIR(path)  0
#endif
#ifndef PPO__SLASHES
#define PPO__SLASHES        "/"
#define PPO__SEEK           fseek
#define PPO__TELL           ftell
#define PPO__MOVE(from, to) rename(from, to)
#endif

/* The compiler. Atomic accesses are of a volatile int32_t, LOAD and STORE also of a volatile pointer; ADD
   returns the value before. NOINLINE is for functions that are called from many places: it saves a tenth of
   the time to compile. Warnings of strict builds are off: sizes are int for the caller, and known to be
   positive where they become a size_t; functions of one table may ignore some of their parameters; what only
   a wing that is left out would call is unused. */
#if defined(__GNUC__) && !defined(__TINYC__)
#define PPO__THREAD_LOCAL        __thread
#define PPO__NOINLINE            __attribute__((noinline))
#define PPO__PRINTF(text, first) __attribute__((format(printf, text, first)))
#define PPO__ATOMIC_LOAD(x)      __atomic_load_n(&(x), __ATOMIC_SEQ_CST)
#define PPO__ATOMIC_STORE(x, to) __atomic_store_n(&(x), (to), __ATOMIC_SEQ_CST)
#define PPO__ATOMIC_ADD(x, n)    __atomic_fetch_add(&(x), (n), __ATOMIC_SEQ_CST)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#if defined(PPO_NO_CONTROL) || defined(PPO_NO_LANGUAGE) || defined(PPO_NO_REPORTS)
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-variable"
#endif
#elif defined(_MSC_VER) /* whose volatile accesses acquire and release, on x86 */
#define PPO__THREAD_LOCAL __declspec(thread)
#define PPO__NOINLINE     __declspec(noinline)
#define PPO__PRINTF(text, first)
#define PPO__ATOMIC_LOAD(x)      (x)
#define PPO__ATOMIC_STORE(x, to) ((void)((x) = (to)), MemoryBarrier())
#define PPO__ATOMIC_ADD(x, n)    InterlockedExchangeAdd((volatile LONG *)&(x), (n))
#pragma warning(push)
#pragma warning(disable : 4100 4244 4267 4996)
#else /* tcc: no thread-local variables, so only one thread may use the library */
#define PPO__THREAD_LOCAL
#define PPO__NOINLINE
#define PPO__PRINTF(text, first)
#define PPO__ATOMIC_LOAD(x)      (x)
#define PPO__ATOMIC_STORE(x, to) ((x) = (to))
#endif

#if !defined(PPO_NO_THREADS) && defined(PPO__ATOMIC_ADD) && !defined(_M_ARM64) && \
    (defined(PPO__UNIX) || defined(_WIN32)) &&                                    \
    (!defined(__EMSCRIPTEN__) || defined(__EMSCRIPTEN_PTHREADS__))
#define PPO__THREADS
#ifdef PPO__UNIX
#include <pthread.h>
#endif
#endif

/* What the kernels of ppo_cuda.cuh compute with, too. */
#if defined(__CUDACC__)
#define PPO__BOTH __host__ __device__
#else
#define PPO__BOTH
#endif

/* ========================================================================================================
   @@ FOUNDATION
   ======================================================================================================== */

/* --------------------------------------------------------------------------------------------------------
   @@ 1 Base
   --------------------------------------------------------------------------------------------------------

   Memory. Every block comes from the allocator hook. An arena takes pages from it and gives out arrays; it
   takes all of them back at once, and keeps one page that is large enough for the next round.

   Threads. ppo__parallel_for() cuts a loop into ranges, one for each thread of a pool. The pool of
   ppo_set_threads() belongs to the calling thread, the others to trainers. */

enum { PPO__ERROR_SIZE = 256, PPO__ALIGN = 64 };

static PPO__THREAD_LOCAL char       ppo__error[PPO__ERROR_SIZE];
static PPO__THREAD_LOCAL ppo_status ppo__failed; /* of the last ppo_fail(), for callers that got NULL */

PPO_DEF const char *ppo_last_error(void) { return ppo__error; }

PPO_DEF PPO__PRINTF(2, 3) ppo_status ppo_fail(ppo_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(ppo__error, sizeof ppo__error, format, args);
    va_end(args);
    return ppo__failed = status;
}

#define ppo__refuse(...) ppo_fail(PPO_ERROR_ARGUMENT, __VA_ARGS__)

/* Are the pointers that a public function cannot do without given? If not, sets the error. */
static PPO__NOINLINE int ppo__given(const char *function, int given) {
    if (!given) ppo__refuse("%s: an argument is NULL", function);
    return given;
}

/* Not by isfinite(), which -ffast-math turns into 1. */
PPO__BOTH static int ppo__finite(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (bits & 0x7f800000u) != 0x7f800000u;
}

PPO__BOTH static float ppo__clamp(float x, float low, float high) {
    return x < low ? low : x > high ? high : x;
}

static int ppo__divide_up(int n, int size) { return (n - 1) / size + 1; }

/* Where share k of n things begins when they are divided evenly into `of` shares; k = of: the end. */
static int ppo__share(int n, int k, int of) { return (int)((int64_t)n * k / of); }

/* Fails to compile where the condition does not hold. */
#define PPO__ASSERT(condition) ((void)sizeof(char[(condition) ? 1 : -1]))

/* Where row `row` of a matrix of `cols` columns begins. */
static size_t ppo__at(int row, int cols) { return (size_t)row * (size_t)cols; }

/* FNV-1a (Fowler, Noll, Vo), continued from `hash`, which is PPO__FNV1A at first. */
static const uint64_t PPO__FNV1A = 0xcbf29ce484222325u;

static uint64_t ppo__fnv1a(uint64_t hash, const void *data, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) hash = (hash ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
    return hash;
}

/* The character at the start of `bytes` (> 0) bytes, and its length; -1 if they are not UTF-8 (RFC 3629:
   nothing overlong, no surrogates, nothing above U+10FFFF). */
static int32_t ppo__utf8_get(const char *text, size_t bytes, int *length) {
    static const int32_t least[] = {0, 0x80, 0x800, 0x10000};
    const unsigned char *s = (const unsigned char *)text;
    int more = *s < 0x80 ? 0 : *s < 0xc0 ? -1 : *s < 0xe0 ? 1 : *s < 0xf0 ? 2 : *s < 0xf8 ? 3 : -1;
    if (more < 0 || bytes <= (size_t)more) return -1;
    int32_t code = more ? *s & 0x3f >> more : *s;
    for (int k = 1; k <= more; ++k) {
        if ((s[k] & 0xc0) != 0x80) return -1;
        code = code << 6 | (s[k] & 0x3f);
    }
    *length = more + 1;
    return code < least[more] || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff ? -1 : code;
}

/* Writes a character and returns its length. */
static int ppo__utf8_put(int32_t code, char out[4]) {
    static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
    int                        more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    out[0] = (char)(lead[more] | code >> 6 * more);
    for (int k = 1; k <= more; ++k) out[k] = (char)(0x80 | (code >> 6 * (more - k) & 0x3f));
    return more + 1;
}

static PPO__NOINLINE int ppo__is_utf8(const char *text) {
    int length = 0;
    for (size_t left = strlen(text); left; left -= (size_t)length, text += length)
        if (ppo__utf8_get(text, left, &length) < 0) return 0;
    return 1;
}

/* Replaces the locale's decimal point, which snprintf() wrote, by a point. */
static char *ppo__with_point(char *number) {
    const char *point = localeconv()->decimal_point;
    char       *at = strstr(number, point);
    if (!at) return number;
    *at = '.';
    memmove(at + 1, at + strlen(point), strlen(at + strlen(point)) + 1);
    return number;
}

/* The whole of `text` as a number, with a point whatever the locale says; 0 if it is none. */
static int ppo__parse_number(const char *text, double *value) {
    const char *point = localeconv()->decimal_point, *dot = strchr(text, '.');
    char        copy[128], *stop;
    int         before = dot ? (int)(dot - text) : -1; /* -1: all of it */
    int length = snprintf(copy, sizeof copy, "%.*s%s%s", before, text, dot ? point : "", dot ? dot + 1 : "");
    if (!*text || strchr(" \t\n", *text) || length < 0 || length >= (int)sizeof copy) return 0;
    if (strcmp(point, ".") != 0 && strstr(text, point)) return 0;
    *value = strtod(copy, &stop);
    return stop != copy && !*stop;
}

/* The whole number at the start of text, and what follows it. -1: none, too large, or with a leading 0. */
static int64_t ppo__parse_digits(const char *text, const char **rest) {
    char *stop = (char *)text;
    errno = 0;
    int64_t number = *text >= '0' && *text <= '9' ? strtoll(text, &stop, 10) : -1;
    *rest = stop;
    return errno || (*text == '0' && stop > text + 1) ? -1 : number;
}

/* The int above 0 at the start of text, and what follows it; 0 if there is none. */
static int ppo__parse_count(const char *text, const char **rest) {
    int64_t n = ppo__parse_digits(text, rest);
    return n > 0 && n <= INT_MAX ? (int)n : 0;
}

/* The fewest digits, `least` or more, that read back as the same float. */
static void ppo__shortest_float(char text[32], int least, float x) {
    for (int digits = least; digits <= 9; ++digits) {
        snprintf(text, 32, "%.*g", digits, (double)x);
        if (strtof(text, NULL) == x) break;
    }
}

/* Seconds since 1970. */
static double ppo__wall_time(void) {
#if defined(PPO__UNIX)
    struct timeval now;
    gettimeofday(&now, NULL);
    return (double)now.tv_sec + 1e-6 * (double)now.tv_usec;
#elif defined(_WIN32) /* counts 100 ns since 1601 */
    FILETIME now;
    GetSystemTimeAsFileTime(&now);
    return 1e-7 * (4294967296.0 * now.dwHighDateTime + now.dwLowDateTime) - 11644473600.0;
#else
    return (double)time(NULL);
#endif
}

/* The monotonic clock where the headers show it: strict C99 hides it. */
PPO_DEF double ppo_clock(void) {
#if defined(_WIN32)
    LARGE_INTEGER now, per_second;
    QueryPerformanceCounter(&now);
    QueryPerformanceFrequency(&per_second);
    return (double)now.QuadPart / (double)per_second.QuadPart;
#elif defined(CLOCK_MONOTONIC)
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
#else
    return ppo__wall_time();
#endif
}

static void *ppo__default_hook(void *user, void *ptr, size_t size) {
    (void)user;
    if (size) return realloc(ptr, size);
    free(ptr);
    return NULL;
}

static ppo_realloc_hook ppo__hook = ppo__default_hook;
static void            *ppo__hook_user;

PPO_DEF void ppo_set_allocator(ppo_realloc_hook hook, void *user) {
    ppo__hook = hook ? hook : ppo__default_hook;
    ppo__hook_user = hook ? user : NULL;
}

static void *ppo__out_of_memory(double bytes) {
    ppo_fail(PPO_ERROR_MEMORY, "out of memory: %.0f bytes were refused", bytes);
    return NULL;
}

/* A block on a cache line; the pointer that the hook returned is kept just below it. NULL on failure. */
static void *ppo__alloc_uncleared(size_t size) {
    size_t extra = PPO__ALIGN + sizeof(void *);
    char  *raw = size < SIZE_MAX / 2 ? (char *)ppo__hook(ppo__hook_user, NULL, size + extra) : NULL;
    if (!raw) return ppo__out_of_memory((double)size);
    char *block = raw + extra - (uintptr_t)(raw + extra) % PPO__ALIGN;
    memcpy(block - sizeof(void *), &raw, sizeof raw);
    return block;
}

static PPO__NOINLINE void *ppo__alloc(size_t size) {
    void *block = ppo__alloc_uncleared(size);
    return block ? memset(block, 0, size) : NULL;
}

static PPO__NOINLINE void ppo__free(void *block) {
    void *raw;
    if (!block) return;
    memcpy(&raw, (char *)block - sizeof(void *), sizeof raw);
    ppo__hook(ppo__hook_user, raw, 0);
}

/* stb_ds: its declarations only, without its warnings and short names, whether or not the program has its
   implementation. It does not survive a failed allocation, so ppo__array_room() makes them through our hook,
   in stb_ds's layout, before an element is pushed. */
#ifndef INCLUDE_STB_DS_H
#pragma push_macro("STB_DS_IMPLEMENTATION")
#pragma push_macro("STBDS_NO_SHORT_NAMES")
#undef STB_DS_IMPLEMENTATION
#undef STBDS_NO_SHORT_NAMES
#define STBDS_NO_SHORT_NAMES
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wcast-qual"
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#if !defined(__has_include)
#include "stb_ds.h"
#elif __has_include("stb_ds.h")
#include "stb_ds.h"
#elif __has_include(<stb/stb_ds.h>)
#include <stb/stb_ds.h>
#else
#error "ppo.h needs stb_ds.h: install libstb-dev, or put stb_ds.h beside ppo.h"
#endif
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
#pragma pop_macro("STBDS_NO_SHORT_NAMES")
#pragma pop_macro("STB_DS_IMPLEMENTATION")
#endif

static void ppo__array_free(void *array) {
    if (array) ppo__free(stbds_header(array));
}

/* Room for one more element of the array that `array` points to; after a failure that is unchanged. */
static ppo_status ppo__array_room(void *array, size_t element_size) {
    void *elements;
    memcpy(&elements, array, sizeof elements);
    size_t length = stbds_arrlenu(elements), capacity = stbds_arrcap(elements);
    if (length < capacity) return PPO_OK;
    capacity = capacity ? 2 * capacity : 8;
    stbds_array_header *header = (stbds_array_header *)ppo__alloc(sizeof *header + capacity * element_size);
    if (!header) return PPO_ERROR_MEMORY;
    header->length = length;
    header->capacity = capacity;
    if (elements) memcpy(header + 1, elements, length * element_size);
    ppo__array_free(elements);
    elements = header + 1;
    memcpy(array, &elements, sizeof elements);
    return PPO_OK;
}

#define PPO__ROOM(array)                ppo__array_room(&(array), sizeof *(array))
#define ppo__array_push(array, element) ((array)[stbds_header(array)->length++] = (element)) /* after that */

#define PPO__PUSH(array, element) (PPO__ROOM(array) ? ppo__failed : (ppo__array_push(array, element), PPO_OK))

/* A place to compute other than the processor, with memory of its own; ppo_cuda.cuh makes one of a GPU.
   Operations are queued and done in order; the first failure is kept for settle(). */
typedef struct ppo__device ppo__device;
struct ppo__device {
    void *(*take)(ppo__device *device, size_t size); /* memory; NULL on failure */
    void (*give)(ppo__device *device, void *memory);
    ppo_status (*write)(ppo__device *device, void *to, const void *from, size_t size); /* from the host */
    void (*read)(ppo__device *device, void *to, const void *from, size_t size); /* to the host: by settle() */
    void (*copy)(ppo__device *device, void *to, const void *from, size_t size);
    void (*zero)(ppo__device *device, void *to, size_t size);
    ppo_status (*settle)(ppo__device *device);      /* waits for all that is queued */
    const struct ppo_op *(*find)(const char *name); /* a tape's operation; NULL: none of this name */
    /* ppo_params_step() with gradients times scale; *norm is read by settle(), and may be NULL. */
    void (*step)(ppo__device *device, ppo_params *params, const struct ppo_adam *adam, float scale,
                 float max_norm, float *norm);
    size_t              page_size; /* the smallest page of an arena: taking memory may be slow */
    struct ppo__mirror *mirrors;   /* all of them */
    int                 users;     /* arenas that have memory of it */
};

/* Where language models of this thread compute; NULL: on the processor. */
static PPO__THREAD_LOCAL ppo__device *ppo__device_in_use;

/* Waits for a device (or NULL). Returns `status` and keeps its sentence; if that is PPO_OK, the device's. */
static ppo_status ppo__settle(ppo__device *device, ppo_status status) {
    char error[PPO__ERROR_SIZE];
    memcpy(error, ppo__error, sizeof error);
    ppo_status late = device ? device->settle(device) : PPO_OK;
    if (!status) return late;
    memcpy(ppo__error, error, sizeof error);
    return status;
}

typedef struct ppo__page {
    struct ppo__page *next; /* older */
    size_t            size, used;
    char             *memory;
} ppo__page;

typedef struct ppo__arena {
    ppo__page   *page;   /* newest */
    ppo__device *device; /* whose memory it gives out; NULL: the host's */
    ppo_status   failed; /* for ppo__arena_status() */
} ppo__arena;

enum { PPO__PAGE_HEADER = PPO__ALIGN, PPO__PAGE_SIZE = 16 * 1024 };

static ppo_status ppo__arena_grow(ppo__arena *arena, size_t size) {
    ppo__device *device = arena->device;
    size_t       least = device ? device->page_size : (size_t)PPO__PAGE_SIZE;
    if (size < least) size = least;
    ppo__page *page = (ppo__page *)ppo__alloc_uncleared(PPO__PAGE_HEADER + (device ? 0 : size));
    if (!page) return PPO_ERROR_MEMORY;
    page->memory = device ? (char *)device->take(device, size) : (char *)page + PPO__PAGE_HEADER;
    if (!page->memory) {
        ppo__free(page);
        return ppo__failed;
    }
    page->size = size;
    page->used = 0;
    page->next = arena->page;
    if (device && !page->next) ++device->users;
    arena->page = page;
    return PPO_OK;
}

/* n elements of `size` bytes, on a cache line and not cleared. NULL on failure: check it, or take several
   arrays and then check ppo__arena_status(). */
static PPO__NOINLINE void *ppo__arena_array(ppo__arena *arena, size_t n, size_t size) {
    size_t bytes = (n * size + PPO__ALIGN - 1) / PPO__ALIGN * PPO__ALIGN;
    int    possible = !n || size <= SIZE_MAX / 4 / n;
    int    fits = arena->page && bytes <= arena->page->size - arena->page->used;
    if (!possible) ppo__out_of_memory((double)n * (double)size);
    if (!possible || (!fits && ppo__arena_grow(arena, bytes))) {
        arena->failed = ppo__failed;
        return NULL;
    }
    void *array = arena->page->memory + arena->page->used;
    arena->page->used += bytes;
    return array;
}

/* The same, cleared. */
static PPO__NOINLINE void *ppo__arena_zeros(ppo__arena *arena, size_t n, size_t size) {
    void *array = ppo__arena_array(arena, n, size);
    return array ? memset(array, 0, n * size) : NULL;
}

#define PPO__ARRAY(arena, type, n) ((type *)ppo__arena_array(arena, n, sizeof(type)))
#define PPO__ZEROS(arena, type, n) ((type *)ppo__arena_zeros(arena, n, sizeof(type)))

/* The status of the last array that could not be taken since the previous call; PPO_OK: all were. */
static ppo_status ppo__arena_status(ppo__arena *arena) {
    ppo_status status = arena->failed;
    arena->failed = PPO_OK;
    return status;
}

static void ppo__arena_free(ppo__arena *arena) {
    if (arena->page && arena->device) --arena->device->users;
    while (arena->page) {
        ppo__page *next = arena->page->next;
        if (arena->device) arena->device->give(arena->device, arena->page->memory);
        ppo__free(arena->page);
        arena->page = next;
    }
}

/* Takes all arrays back. Several pages become a single one, so that a round no larger than an earlier one
   never asks the hook. */
static void ppo__arena_reset(ppo__arena *arena) {
    size_t size = 0;
    for (ppo__page *page = arena->page; page; page = page->next) size += page->size;
    if (arena->page && arena->page->next) {
        ppo__arena_free(arena);
        ppo__arena_grow(arena, size); /* after a failure the next array tries again, and reports */
    }
    if (arena->page) arena->page->used = 0;
}

/* The system's threads. PPO__PAUSE() is for a thread that waits without sleeping. */
#ifdef PPO__THREADS
#if defined(_WIN32)
#define PPO__THREAD_START(thread, body, user) \
    ((*(thread) = CreateThread(NULL, 0, body, user, 0, NULL)) != NULL)
#define PPO__THREAD_JOIN(thread) (WaitForSingleObject(thread, INFINITE), CloseHandle(thread))
#define PPO__LOCK(lock)          AcquireSRWLockExclusive(lock)
#define PPO__UNLOCK(lock)        ReleaseSRWLockExclusive(lock)
#define PPO__SLEEP(signal, lock) SleepConditionVariableSRW(signal, lock, INFINITE, 0)
#define PPO__WAKE(signal)        WakeAllConditionVariable(signal)
#define PPO__PAUSE()             YieldProcessor()
#define PPO__EVENT_INIT(event)   ((void)(event)) /* it is all zeros */
#define PPO__EVENT_FREE(event)   ((void)(event))
#define PPO__THREAD_MAIN         DWORD WINAPI
typedef HANDLE             ppo__thread;
typedef SRWLOCK            ppo__lock;
typedef CONDITION_VARIABLE ppo__signal;
#else
#define PPO__THREAD_START(thread, body, user) (pthread_create(thread, NULL, body, user) == 0)
#define PPO__THREAD_JOIN(thread)              pthread_join(thread, NULL)
#define PPO__LOCK(lock)                       pthread_mutex_lock(lock)
#define PPO__UNLOCK(lock)                     pthread_mutex_unlock(lock)
#define PPO__SLEEP(signal, lock)              pthread_cond_wait(signal, lock)
#define PPO__WAKE(signal)                     pthread_cond_broadcast(signal)
#define PPO__EVENT_INIT(event) \
    (pthread_mutex_init(&(event)->lock, NULL), pthread_cond_init(&(event)->signal, NULL))
#define PPO__EVENT_FREE(event) (pthread_mutex_destroy(&(event)->lock), pthread_cond_destroy(&(event)->signal))
#define PPO__THREAD_MAIN       void *
#if defined(__x86_64__) || defined(__i386__)
#define PPO__PAUSE() __builtin_ia32_pause()
#else
#define PPO__PAUSE() ((void)0)
#endif
typedef pthread_t       ppo__thread;
typedef pthread_mutex_t ppo__lock;
typedef pthread_cond_t  ppo__signal;
#endif

/* Something that happens again and again. A thread that awaits it looks for some 100 us, then sleeps. */
typedef struct ppo__event {
    volatile int32_t count, sleepers; /* atomic */
    ppo__lock        lock;
    ppo__signal      signal;
} ppo__event;

static void ppo__event_happens(ppo__event *event) {
    PPO__ATOMIC_ADD(event->count, 1);
    if (!PPO__ATOMIC_LOAD(event->sleepers)) return;
    PPO__LOCK(&event->lock);
    PPO__WAKE(&event->signal);
    PPO__UNLOCK(&event->lock);
}

/* Waits until its count is no longer `seen`, and returns the new one. */
static int32_t ppo__event_await(ppo__event *event, int32_t seen) {
    for (int i = 0; i < 10000 && PPO__ATOMIC_LOAD(event->count) == seen; ++i) PPO__PAUSE();
    if (PPO__ATOMIC_LOAD(event->count) == seen) {
        PPO__LOCK(&event->lock);
        PPO__ATOMIC_ADD(event->sleepers, 1);
        while (PPO__ATOMIC_LOAD(event->count) == seen) PPO__SLEEP(&event->signal, &event->lock);
        PPO__ATOMIC_ADD(event->sleepers, -1);
        PPO__UNLOCK(&event->lock);
    }
    return PPO__ATOMIC_LOAD(event->count);
}
#endif

enum { PPO__MAX_THREADS = 1024 };

/* A thread pool: ppo__pool_run() calls task(user, k) for k = 0 .. tasks-1, on the caller's thread and
   tasks-1 others, and returns when all are done. A thread that is free takes the next task, so no task waits
   for a thread that the system has not scheduled yet. */
typedef struct ppo__pool {
    int tasks;
    void (*task)(void *user, int k);
    void *user;
#ifdef PPO__THREADS
    long             process;            /* that has the threads: fork() does not copy them */
    volatile int32_t next, undone, quit; /* atomic: the next task, tasks that are not done */
    ppo__event       events[2];          /* a run has begun, has ended */
    int              started;            /* threads */
    ppo__thread      threads[PPO__MAX_THREADS - 1];
#endif
} ppo__pool;

/* The pool that divides the arithmetic of this thread; NULL: it is not divided. */
static PPO__THREAD_LOCAL ppo__pool *ppo__arithmetic_pool;
static PPO__THREAD_LOCAL int        ppo__in_task; /* 1: this thread does a task of some pool */

#ifdef PPO__THREADS
/* Does tasks until none is left to take. */
static void ppo__pool_work(ppo__pool *pool) {
    for (int k; (k = (int)PPO__ATOMIC_ADD(pool->next, 1)) < pool->tasks;) {
        pool->task(pool->user, k);
        if (PPO__ATOMIC_ADD(pool->undone, -1) == 1) ppo__event_happens(&pool->events[1]);
    }
}

static PPO__THREAD_MAIN ppo__pool_thread(void *user) {
    ppo__pool *pool = (ppo__pool *)user;
    ppo__in_task = 1;
    for (int32_t run = 0;;) {
        run = ppo__event_await(&pool->events[0], run);
        if (PPO__ATOMIC_LOAD(pool->quit)) return 0;
        ppo__pool_work(pool);
    }
}
#endif

static void ppo__pool_free(ppo__pool *pool) {
#ifdef PPO__THREADS
    if (pool && pool->process == PPO__PROCESS_ID()) {
        PPO__ATOMIC_STORE(pool->quit, 1);
        ppo__event_happens(&pool->events[0]);
        for (int k = 0; k < pool->started; ++k) PPO__THREAD_JOIN(pool->threads[k]);
        for (int k = 0; k < 2; ++k) PPO__EVENT_FREE(&pool->events[k]);
    }
#endif
    ppo__free(pool);
}

static ppo_status ppo__pool_create(int tasks, ppo__pool **out) {
    ppo__pool *pool = (ppo__pool *)ppo__alloc(sizeof *pool);
    if (!pool) return PPO_ERROR_MEMORY;
    pool->tasks = tasks;
#ifdef PPO__THREADS
    pool->next = tasks;
    pool->process = PPO__PROCESS_ID();
    for (int k = 0; k < 2; ++k) PPO__EVENT_INIT(&pool->events[k]);
    for (int k = 0; k < tasks - 1; ++k) {
        if (!PPO__THREAD_START(&pool->threads[k], ppo__pool_thread, pool)) {
            ppo__pool_free(pool);
            return ppo_fail(PPO_ERROR_THREAD, "the system refused thread %d of %d", k + 2, tasks);
        }
        ++pool->started;
    }
#endif
    *out = pool;
    return PPO_OK;
}

static void ppo__pool_run(ppo__pool *pool, void (*task)(void *user, int k), void *user) {
    ppo__pool *before = ppo__arithmetic_pool;
    int        in_task = ppo__in_task;
    ppo__arithmetic_pool = NULL; /* a task is not divided further */
    ppo__in_task = 1;
#ifdef PPO__THREADS
    if (pool->process == PPO__PROCESS_ID()) {
        int32_t ended = PPO__ATOMIC_LOAD(pool->events[1].count);
        pool->task = task;
        pool->user = user;
        PPO__ATOMIC_STORE(pool->undone, pool->tasks);
        PPO__ATOMIC_STORE(pool->next, 0);
        ppo__event_happens(&pool->events[0]);
        ppo__pool_work(pool);
        ppo__event_await(&pool->events[1], ended);
    } else
#endif
        for (int k = 0; k < pool->tasks; ++k) task(user, k);
    ppo__arithmetic_pool = before;
    ppo__in_task = in_task;
}

PPO_DEF ppo_status ppo_set_threads(int threads) {
    ppo__pool *pool = NULL;
    if (threads < 1 || threads > PPO__MAX_THREADS)
        return ppo__refuse("ppo_set_threads: %d threads, must be 1 to 1024", threads);
    if (ppo__in_task) return ppo__refuse("ppo_set_threads: not from an environment's functions");
    if (threads > 1 && ppo__pool_create(threads, &pool)) return ppo__failed;
    ppo__pool_free(ppo__arithmetic_pool);
    ppo__arithmetic_pool = pool;
    return PPO_OK;
}

/* A body of a parallel loop does rows (or columns) begin .. end - 1: its range, number `thread` from 0. */
typedef void (*ppo__range_fn)(void *user, int thread, int begin, int end);

typedef struct ppo__parallel_loop {
    int           n, grain, ranges;
    ppo__range_fn body;
    void         *user;
} ppo__parallel_loop;

static int ppo__range_count(int n, int grain, double work) {
    const double least = 1 << 16; /* work that pays for a range: some microseconds */
    if (!ppo__arithmetic_pool) return 1;
    int grains = ppo__divide_up(n, grain), ranges = ppo__arithmetic_pool->tasks;
    if (work * n < least * ranges) ranges = (int)(work * n / least);
    if (ranges > grains) ranges = grains;
    return ranges > 1 ? ranges : 1;
}

static void ppo__parallel_task(void *user, int k) {
    const ppo__parallel_loop *loop = (const ppo__parallel_loop *)user;
    if (k >= loop->ranges) return;
    int grains = ppo__divide_up(loop->n, loop->grain);
    int begin = ppo__share(grains, k, loop->ranges) * loop->grain;
    int end = ppo__share(grains, k + 1, loop->ranges) * loop->grain;
    loop->body(loop->user, k, begin, end < loop->n ? end : loop->n);
}

/* Divides rows 0 .. n - 1 among the threads. Ranges begin at multiples of `grain`. `work`: multiply-adds per
   row; too little work is a single range. */
static PPO__NOINLINE void ppo__parallel_for(int n, int grain, double work, ppo__range_fn body, void *user) {
    ppo__parallel_loop loop = {n, grain, ppo__range_count(n, grain, work), body, user};
    if (loop.ranges == 1) body(user, 0, 0, n);
    else ppo__pool_run(ppo__arithmetic_pool, ppo__parallel_task, &loop);
}

/* --------------------------------------------------------------------------------------------------------
   @@ 2 Random
   -------------------------------------------------------------------------------------------------------- */

/* Four numbers from counter and key: ten rounds of multiply, swap and xor (Salmon 2011, section 3). */
PPO__BOTH static void ppo__philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t x0 = counter[0], x1 = counter[1], x2 = counter[2], x3 = counter[3], k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; ++round) {
        uint64_t p0 = (uint64_t)0xD2511F53u * x0, p1 = (uint64_t)0xCD9E8D57u * x2;
        x0 = (uint32_t)(p1 >> 32) ^ x1 ^ k0;
        x1 = (uint32_t)p1;
        x2 = (uint32_t)(p0 >> 32) ^ x3 ^ k1;
        x3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = x0, out[1] = x1, out[2] = x2, out[3] = x3;
}

PPO_DEF PPO__NOINLINE ppo_rng ppo_rng_stream(uint64_t seed, uint32_t purpose, uint32_t index) {
    ppo_rng rng = {{(uint32_t)seed, (uint32_t)(seed >> 32)}, {0, 0, index, purpose}, {0, 0, 0, 0}, 4};
    return rng;
}

PPO__BOTH static uint32_t ppo__rng_u32(ppo_rng *rng) {
    if (rng->used >= 4) {
        ppo__philox(rng->counter, rng->key, rng->block);
        if (++rng->counter[0] == 0) ++rng->counter[1];
        rng->used = 0;
    }
    return rng->block[rng->used++];
}

PPO__BOTH static float ppo__rng_uniform(ppo_rng *rng) {
    return (float)(ppo__rng_u32(rng) >> 8) * (1.0f / 16777216.0f);
}

PPO_DEF uint32_t ppo_rng_u32(ppo_rng *rng) { return ppo__rng_u32(rng); }
PPO_DEF float    ppo_rng_uniform(ppo_rng *rng) { return ppo__rng_uniform(rng); }

PPO_DEF float ppo_rng_range(ppo_rng *rng, float low, float high) {
    float x = low + (high - low) * ppo_rng_uniform(rng);
    return x < high ? x : low; /* rounding can reach high */
}

/* Box and Muller 1958; one of the pair, so that a stream has no hidden state. 1 - u is never 0. */
PPO_DEF float ppo_rng_normal(ppo_rng *rng) {
    float radius = sqrtf(-2.0f * logf(1.0f - ppo_rng_uniform(rng)));
    return radius * cosf(6.28318530718f * ppo_rng_uniform(rng));
}

/* Lemire 2019: the high half of a product, drawn again where some results would be more likely. */
PPO_DEF int ppo_rng_below(ppo_rng *rng, int n) {
    if (n <= 1) return 0;
    uint32_t range = (uint32_t)n, sliver = (0u - range) % range;
    uint64_t product;
    do product = (uint64_t)ppo_rng_u32(rng) * range;
    while ((uint32_t)product < sliver);
    return (int)(product >> 32);
}

PPO_DEF void ppo_rng_shuffle(ppo_rng *rng, int *x, int n) {
    for (int i = n - 1; i > 0; --i) {
        int j = ppo_rng_below(rng, i + 1), swap = x[i];
        x[i] = x[j];
        x[j] = swap;
    }
}

/* --------------------------------------------------------------------------------------------------------
   @@ 3 Kernels. A table of kernels exists once per instruction set; ppo__kernels_find() chooses at run time:

       plain    scalar C: the specification, and what every processor can run
       avx2     x86-64 with AVX2 and FMA      8 floats per vector
       avx512   x86-64 with AVX-512F and DQ  16 floats per vector
       neon     aarch64                       4 floats per vector
       fma      x86-64 with AVX and FMA       4 floats per vector: for GCC on Windows

   The vector kernels are written once, in the region under PPO__KERNEL_PASS. This file includes itself there
   once per instruction set, after defining what a vector is. Function attributes, not compiler flags, give
   the instruction set, so a plain `cc -O2` has them all.

   To add an instruction set (with a multiply-add that rounds once: not SSE2, nor AVX alone):
       a block of definitions (PPO__TARGET to PPO__ZIP2_HIGH) that ends with #include PPO_FILE_NAME, as those
       below; a line in ppo__kernels_find(), the fastest set first; its name in the comment of
       ppo_use_kernels() and in kernel_sets of tests/test.h. test_math.c compares each set that the processor
       has with the bounds below, and fails for one that is not in kernel_sets.
   To add a kernel:
       a field of ppo__kernels, a line in PPO__KERNEL_TABLE, the plain function, and the vector function.

   Bits. An elementwise kernel gives an element the same bits wherever it stands: the last, partial vector
   runs through the same code with a masked load and store. Each element of a gemm is one chain of fused
   multiply-adds over k = 0, 1, 2, ...: its bits do not depend on its neighbours. Both are the same in all
   vector tables. Reductions and softmax rows depend on n and on the content only. A product that is added to
   something is always an explicit PPO__FMA, so that no compiler can choose to fuse one and not another.

   Errors. The vector functions state their largest error; an ulp is the distance between floats at the exact
   result. For rows of n numbers it is given in e = (6 + n / WIDTH) 2^-24, since a sum has as many chains as
   a vector has floats. tests/test_math.c compares them with double precision: functions of one argument over
   every float (in make test-long; make test takes every 1021st), the others over random rows of 1 to 4099
   numbers, also far from 0, nearly or all equal, with one logit far above the others, or most of them -inf.
   The plain kernels have WIDTH 1, and are as exact as the C library's expf, logf and tanhf.
   -------------------------------------------------------------------------------------------------------- */

/* What the gradient of a softmax is given of each row. */
typedef struct ppo__softmax_given {
    const float *max, *log_sum, *entropy, *grad_logp, *grad_entropy;
} ppo__softmax_given;

typedef struct ppo__kernels {
    const char *name;
    /* c (rows, cols) = init + a b, the inner dimension being `inner`.
       a(i,k) = a[i*a_row + k*a_col], so a transposed a costs nothing; b(k,j) = b[k*ldb + j];
       c(i,j) = c[i*ldc + j]; init(i,j) = init[i*ld_init + j], or 0 where init is NULL. A bias has
       ld_init = 0, accumulation has init = c. */
    void (*gemm)(int rows, int cols, int inner, const float *a, int a_row, int a_col, const float *b, int ldb,
                 const float *init, int ld_init, float *c, int ldc);
    /* out (cols, rows) = a (rows, cols) transposed */
    void (*transpose)(int rows, int cols, const float *a, int lda, float *out, int ldo);
    /* elementwise, y may be x */
    void (*vexp)(const float *x, float *y, size_t n);
    void (*vlog)(const float *x, float *y, size_t n);
    void (*vtanh)(const float *x, float *y, size_t n);
    void (*relu)(const float *x, float *y, size_t n);
    /* GELU in its tanh form (Hendrycks and Gimpel 2016), as GPT-2: x (1 + tanh u) / 2 with
       u = sqrt(2/pi) (x + 0.044715 x^3). From the input x: dx = dy d gelu / d x; dx may be dy */
    void (*gelu)(const float *x, float *y, size_t n);
    void (*gelu_backward)(const float *x, const float *dy, float *dx, size_t n);
    /* GELU itself, x P with P = (1 + erf(x / sqrt 2)) / 2; and x s with s = 1 / (1 + e^-x) */
    void (*gelu_erf)(const float *x, float *y, size_t n);
    void (*gelu_erf_backward)(const float *x, const float *dy, float *dx, size_t n);
    void (*silu)(const float *x, float *y, size_t n);
    void (*silu_backward)(const float *x, const float *dy, float *dx, size_t n);
    /* from the output y: dx = dy (1 - y y), and dx = y > 0 ? dy : 0; dx may be dy */
    void (*tanh_backward)(const float *y, const float *dy, float *dx, size_t n);
    void (*relu_backward)(const float *y, const float *dy, float *dx, size_t n);
    void (*add)(const float *x, float *y, size_t n); /* y += x */
    void (*scale)(float a, float *x, size_t n);      /* x *= a */
    /* sum[j] += x(0,j) + x(1,j) + ..., in this order */
    void (*column_sum)(int rows, int cols, const float *x, int ldx, float *sum);
    double (*sum_squares)(const float *x, size_t n);
    /* Of each row of n logits, with z = logit inv_temperature and inv_temperature > 0: max = max z,
       sum = sum exp(z - max), dot = sum exp(z - max) (z - max). Then log p_j = z_j - max - log(sum), and the
       entropy is log(sum) - dot / sum. A logit of -inf has p = 0. */
    void (*softmax_stats)(int rows, int n, const float *logits, int ld, float inv_temperature, float *max,
                          float *sum, float *dot);
    /* With log p_j as above: out_j = -p_j inv_temperature (grad_logp + grad_entropy (log p_j + entropy)), to
       which the caller adds grad_logp inv_temperature at the chosen action. Adds to out if `add`; otherwise
       out may be logits. */
    void (*softmax_grad)(int rows, int n, const float *logits, int ld, float inv_temperature,
                         const ppo__softmax_given *given, int add, float *out, int ld_out);
    /* x = softmax(scale x), scale > 0; and from its output p: out = scale p (dp - sum dp p); out may be dp */
    void (*softmax)(float scale, float *x, int n);
    void (*softmax_backward)(float scale, const float *p, const float *dp, float *out, int n);
    /* y = w (x - mean) rstd + b, with rstd = 1 / sqrt(mean of (x - mean)^2 + eps); out: *mean and *rstd. Not
       centred (RMSNorm), mean is 0. b may be NULL. Backward adds to dx, dw and db, any of which may be NULL. */
    void (*norm)(int centred, float eps, const float *x, const float *w, const float *b, float *y, int n,
                 float *mean, float *rstd);
    void (*norm_backward)(int centred, const float *x, const float *w, float mean, float rstd,
                          const float *dy, float *dx, float *dw, float *db, int n);
    /* Adam with decoupled decay (Kingma & Ba 2015; Loshchilov & Hutter 2019), in PyTorch's form:
       p -= decay p; m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g g;
       p -= step_size m / (sqrt(v) inv_sqrt_bias2 + eps). */
    void (*adam)(float *p, const float *g, float *m, float *v, size_t n, float beta1, float beta2, float eps,
                 float step_size, float inv_sqrt_bias2, float decay);
} ppo__kernels;

#define PPO__KERNEL_TABLE(prefix, label)                                    \
    static const ppo__kernels prefix##kernels = {label,                     \
                                                 prefix##gemm,              \
                                                 prefix##transpose,         \
                                                 prefix##exp,               \
                                                 prefix##log,               \
                                                 prefix##tanh,              \
                                                 prefix##relu,              \
                                                 prefix##gelu,              \
                                                 prefix##gelu_backward,     \
                                                 prefix##gelu_erf,          \
                                                 prefix##gelu_erf_backward, \
                                                 prefix##silu,              \
                                                 prefix##silu_backward,     \
                                                 prefix##tanh_backward,     \
                                                 prefix##relu_backward,     \
                                                 prefix##add,               \
                                                 prefix##scale,             \
                                                 prefix##column_sum,        \
                                                 prefix##sum_squares,       \
                                                 prefix##softmax_stats,     \
                                                 prefix##softmax_grad,      \
                                                 prefix##softmax,           \
                                                 prefix##softmax_backward,  \
                                                 prefix##norm,              \
                                                 prefix##norm_backward,     \
                                                 prefix##adam}

#define PPO__GELU_SCALE 0.797884561f /* sqrt(2/pi) */
#define PPO__GELU_CUBIC 0.044715f
#define PPO__SQRT_HALF  0.707106781f
#define PPO__DENSITY_0  0.398942280f /* 1 / sqrt(2 pi): the normal density at 0 */

/* -- the plain kernels: the specification -- */

static void ppo__plain_gemm(int rows, int cols, int inner, const float *a, int a_row, int a_col,
                            const float *b, int ldb, const float *init, int ld_init, float *c, int ldc) {
    for (ptrdiff_t i = 0; i < rows; i++) {
        float *row = c + i * ldc;
        for (ptrdiff_t j = 0; j < cols; j++) row[j] = init ? init[i * ld_init + j] : 0.0f;
        for (ptrdiff_t k = 0; k < inner; k++) {
            const float aik = a[i * a_row + k * a_col];
            for (ptrdiff_t j = 0; j < cols; j++) row[j] += aik * b[k * ldb + j];
        }
    }
}

static void ppo__plain_transpose(int rows, int cols, const float *a, int lda, float *out, int ldo) {
    for (ptrdiff_t i = 0; i < rows; i++)
        for (ptrdiff_t j = 0; j < cols; j++) out[j * ldo + i] = a[i * lda + j];
}

static void ppo__plain_exp(const float *x, float *y, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = expf(x[i]);
}

static void ppo__plain_log(const float *x, float *y, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = logf(x[i]);
}

static void ppo__plain_tanh(const float *x, float *y, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = tanhf(x[i]);
}

static void ppo__plain_relu(const float *x, float *y, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = x[i] < 0.0f ? 0.0f : x[i];
}

static void ppo__plain_tanh_backward(const float *y, const float *dy, float *dx, size_t n) {
    for (size_t i = 0; i < n; i++) dx[i] = dy[i] * (1.0f - y[i] * y[i]);
}

static void ppo__plain_relu_backward(const float *y, const float *dy, float *dx, size_t n) {
    for (size_t i = 0; i < n; i++) dx[i] = y[i] > 0.0f ? dy[i] : 0.0f;
}

static void ppo__plain_add(const float *x, float *y, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] += x[i];
}

static void ppo__plain_scale(float a, float *x, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] *= a;
}

static void ppo__plain_column_sum(int rows, int cols, const float *x, int ldx, float *sum) {
    for (ptrdiff_t i = 0; i < rows; i++)
        for (ptrdiff_t j = 0; j < cols; j++) sum[j] += x[i * ldx + j];
}

static double ppo__plain_sum_squares(const float *x, size_t n) {
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
    return sum;
}

static void ppo__plain_softmax_stats(int rows, int n, const float *logits, int ld, float inv_temperature,
                                     float *max, float *sum, float *dot) {
    for (ptrdiff_t i = 0; i < rows; i++, logits += ld) {
        float top = -INFINITY, s = 0.0f, d = 0.0f;
        for (int j = 0; j < n; j++) top = fmaxf(top, logits[j] * inv_temperature);
        for (int j = 0; j < n; j++) {
            float z = logits[j] * inv_temperature - top, e = expf(z);
            s += e;
            if (e != 0.0f) d += e * z;
        }
        max[i] = top;
        sum[i] = s;
        dot[i] = d;
    }
}

static void ppo__plain_softmax_grad(int rows, int n, const float *logits, int ld, float inv_temperature,
                                    const ppo__softmax_given *given, int add, float *out, int ld_out) {
    for (ptrdiff_t i = 0; i < rows; i++, logits += ld, out += ld_out) {
        for (int j = 0; j < n; j++) {
            float logp = logits[j] * inv_temperature - given->max[i] - given->log_sum[i], p = expf(logp);
            float d = given->grad_logp[i] + given->grad_entropy[i] * (logp + given->entropy[i]);
            d = p == 0.0f ? 0.0f : -p * inv_temperature * d;
            out[j] = add ? out[j] + d : d;
        }
    }
}

PPO__BOTH static float ppo__gelu(float x) {
    return 0.5f * x * (1.0f + tanhf(PPO__GELU_SCALE * (x + PPO__GELU_CUBIC * x * x * x)));
}

PPO__BOTH static float ppo__gelu_derivative(float x) {
    const float square = fminf(x * x, FLT_MAX); /* 0 times infinity is NaN */
    const float t = tanhf(PPO__GELU_SCALE * (x + PPO__GELU_CUBIC * square * x));
    const float du = PPO__GELU_SCALE * (1.0f + 3.0f * PPO__GELU_CUBIC * square);
    return 0.5f * (1.0f + t + x * (1.0f - t * t) * du);
}

static void ppo__plain_gelu(const float *x, float *y, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = ppo__gelu(x[i]);
}

static void ppo__plain_gelu_backward(const float *x, const float *dy, float *dx, size_t n) {
    for (size_t i = 0; i < n; i++) dx[i] = dy[i] * ppo__gelu_derivative(x[i]);
}

PPO__BOTH static float ppo__gelu_erf(float x) { return 0.5f * x * erfcf(-PPO__SQRT_HALF * x); }

PPO__BOTH static float ppo__gelu_erf_derivative(float x) {
    return 0.5f * erfcf(-PPO__SQRT_HALF * x) + PPO__DENSITY_0 * x * expf(-0.5f * x * x);
}

static void ppo__plain_gelu_erf(const float *x, float *y, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = ppo__gelu_erf(x[i]);
}

static void ppo__plain_gelu_erf_backward(const float *x, const float *dy, float *dx, size_t n) {
    for (size_t i = 0; i < n; i++) dx[i] = dy[i] * ppo__gelu_erf_derivative(x[i]);
}

PPO__BOTH static float ppo__silu(float x) { return x / (1.0f + expf(-x)); }

PPO__BOTH static float ppo__silu_derivative(float x) {
    const float s = 1.0f / (1.0f + expf(-x));
    return s + x * s * (1.0f - s);
}

static void ppo__plain_silu(const float *x, float *y, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = ppo__silu(x[i]);
}

static void ppo__plain_silu_backward(const float *x, const float *dy, float *dx, size_t n) {
    for (size_t i = 0; i < n; i++) dx[i] = dy[i] * ppo__silu_derivative(x[i]);
}

static void ppo__plain_softmax(float scale, float *x, int n) {
    float top = -INFINITY, sum = 0.0f;
    for (int j = 0; j < n; j++) top = fmaxf(top, x[j]);
    for (int j = 0; j < n; j++) sum += x[j] = expf(scale * (x[j] - top));
    for (int j = 0; j < n; j++) x[j] *= 1.0f / sum;
}

static void ppo__plain_softmax_backward(float scale, const float *p, const float *dp, float *out, int n) {
    float dot = 0.0f;
    for (int j = 0; j < n; j++) dot += p[j] * dp[j];
    for (int j = 0; j < n; j++) out[j] = scale * p[j] * (dp[j] - dot);
}

static void ppo__plain_norm(int centred, float eps, const float *x, const float *w, const float *b, float *y,
                            int n, float *mean, float *rstd) {
    float sum = 0.0f, squares = 0.0f;
    for (int j = 0; j < n && centred; j++) sum += x[j];
    *mean = sum / (float)n;
    for (int j = 0; j < n; j++) squares += (x[j] - *mean) * (x[j] - *mean);
    *rstd = 1.0f / sqrtf(squares / (float)n + eps);
    for (int j = 0; j < n; j++) y[j] = w[j] * ((x[j] - *mean) * *rstd) + (b ? b[j] : 0.0f);
}

/* With x^ = (x - mean) rstd and g = dy w: dx += rstd (g - mean(g) - x^ mean(g x^)), dw += dy x^, db += dy; the
   first mean only if centred. */
static void ppo__plain_norm_backward(int centred, const float *x, const float *w, float mean, float rstd,
                                     const float *dy, float *dx, float *dw, float *db, int n) {
    float g_sum = 0.0f, gx_sum = 0.0f;
    for (int j = 0; j < n; j++) {
        const float xhat = (x[j] - mean) * rstd, g = dy[j] * w[j];
        if (centred) g_sum += g;
        gx_sum += g * xhat;
        if (dw) dw[j] += dy[j] * xhat;
        if (db) db[j] += dy[j];
    }
    for (int j = 0; j < n && dx; j++) {
        const float xhat = (x[j] - mean) * rstd;
        dx[j] += rstd * (dy[j] * w[j] - (g_sum + xhat * gx_sum) / (float)n);
    }
}

/* Of one parameter. */
PPO__BOTH static void ppo__adam_one(float *p, float g, float *m, float *v, float beta1, float beta2,
                                    float eps, float step_size, float inv_sqrt_bias2, float decay) {
    *p -= decay * *p;
    *m = beta1 * *m + (1.0f - beta1) * g;
    *v = beta2 * *v + (1.0f - beta2) * g * g;
    *p -= step_size * *m / (sqrtf(*v) * inv_sqrt_bias2 + eps);
}

static void ppo__plain_adam(float *p, const float *g, float *m, float *v, size_t n, float beta1, float beta2,
                            float eps, float step_size, float inv_sqrt_bias2, float decay) {
    for (size_t i = 0; i < n; i++)
        ppo__adam_one(&p[i], g[i], &m[i], &v[i], beta1, beta2, eps, step_size, inv_sqrt_bias2, decay);
}

PPO__KERNEL_TABLE(ppo__plain_, "plain");

/* -- the vector kernels: one pass over PPO__KERNEL_PASS per instruction set -- */

#ifndef PPO_FILE_NAME
#ifdef __FILE_NAME__
#define PPO_FILE_NAME __FILE_NAME__
#else
#define PPO_FILE_NAME "ppo.h"
#endif
#endif

/* GCC for Windows does not align the stack for vectors of more than 16 bytes (GCC bug 54412). Tests define
   PPO__SHORT_VECTORS to have its kernels elsewhere. */
#if defined(_WIN32) && defined(__GNUC__) && !defined(__clang__)
#define PPO__SHORT_VECTORS
#endif
#if defined(PPO_NO_SIMD)
/* the plain kernels only */
#elif defined(__GNUC__) && !defined(__TINYC__) && defined(__x86_64__)
#define PPO__X86
#include <immintrin.h>
#elif defined(__GNUC__) && defined(__aarch64__) && defined(__ARM_NEON)
#define PPO__NEON
#include <arm_neon.h>
#endif

#if defined(PPO__X86) || defined(PPO__NEON)

#define PPO__JOIN2(a, b) a##b
#define PPO__JOIN(a, b)  PPO__JOIN2(a, b)
#define PPO__(name)      PPO__JOIN(PPO__ISA, name)
#define PPO__FN          static PPO__TARGET
#define PPO__INLINE      static inline __attribute__((always_inline)) PPO__TARGET

/* -O2 alone leaves small constant loops rolled, and then their arrays of vectors live in memory. */
#ifdef __CUDACC__
#pragma nv_diag_suppress 1675 /* nvcc does not know the pragma, but hands it on */
#endif
#ifdef __clang__
#define PPO__UNROLL _Pragma("clang loop unroll(full)")
#else
#define PPO__UNROLL _Pragma("GCC unroll 16")
#endif

/* Polynomials, highest power first; fitted for these kernels (Lawson's algorithm on the relative error, each
   coefficient rounded to float before the next ones are refitted). */
static const float ppo__exp_poly[] = /* (e^r - 1 - r) / r^2 on |r| <= ln(2)/2 */
    {0.00138684036f, 0.0083664339f, 0.0416674614f, 0.16666545f, 0.49999997f};
static const float ppo__tanh_poly[] = /* (tanh(x) - x) / x^3 in x^2 on |x| <= 0.26 */
    {-0.0512248948f, 0.133226871f, -0.333332151f};
static const float ppo__erfc_poly[] = /* log(erfc(z) / t) + z^2 in t = 1 / (1 + z / 2), 0 <= z <= 10.5 */
    {0.145751834f,    -0.685557365f, 1.16857767f,  -0.713135242f, -0.0652292743f,
     -0.00740123866f, 0.0378140584f, 0.385906428f, 0.998726189f,  -1.26545298f};
static const float ppo__log_poly[] = /* (log(1+f) - f + f^2/2) / f^3 on -1/3 <= f <= 1/3 */
    {-0.128802091f, 0.139855191f, -0.121872552f, 0.140055656f,
     -0.166802317f, 0.200104341f, -0.249998048f, 0.333332151f};

/* ln 2 as a float, and what is missing */
#define PPO__LN2_HIGH 0.693147182f
#define PPO__LN2_LOW  -1.90465421e-09f
/* 1.5 * 2^23: adding it rounds |x| < 2^22 to an integer, which then stands in the low bits */
#define PPO__ROUNDER      12582912.0f
#define PPO__ROUNDER_BITS 0x4B400000

/* The arguments of a gemm, for its parts. */
typedef struct {
    int          inner;
    const float *a, *b, *init;
    float       *c;
    ptrdiff_t    a_row, a_col, ldb, ld_init, ldc;
} ppo__gemm_job;

#endif

#define PPO__KERNEL_PASS

/* What an instruction set defines. A tile of TILE_ROWS rows and TILE_VECS vectors, a row of b and one float
   of a should fit in the registers.
       VEC                    a GNU vector of WIDTH floats: -x, x * y, and casts to vectors of ints work on it
       DOUBLES                the same with WIDTH / 2 doubles, and LOAD_DOUBLES(p) makes one of as many floats
       MASK_OF(lanes)         the first 1 .. WIDTH lanes; LOADM gives 0 in the others, STOREM leaves them
       PAD(mask, v, pad)      v where the mask is, else pad
       FMA(a, b, c)           a b + c, rounded once
       MIN(a, b), MAX(a, b)   b where b is NaN
       TIMES_2_TO(y, n)       y 2^n, if there is an instruction
       LOAD_GROUPS(p, step)   groups of four floats: p[0 .. 3], p[step .. step + 3], ...
       ZIP_LOW, ZIP_HIGH      in each group: a0 b0 a1 b1, and a2 b2 a3 b3
       ZIP2_LOW, ZIP2_HIGH    in each group: a0 a1 b0 b1, and a2 a3 b2 b3 */
#ifdef PPO__X86

/* GCC's AVX-512 intrinsics start from undefined vectors, which g++ 12 reports as used uninitialized. */
#ifndef __clang__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#ifdef PPO__SHORT_VECTORS

#define PPO__TARGET                    __attribute__((target("fma,prefer-vector-width=128")))
#define PPO__ISA                       ppo__fma_
#define PPO__ISA_NAME                  "fma"
#define PPO__WIDTH                     4
#define PPO__VEC                       __m128
#define PPO__DOUBLES                   __m128d
#define PPO__TILE_ROWS                 4
#define PPO__TILE_VECS                 3
#define PPO__SET1(x)                   _mm_set1_ps(x)
#define PPO__LOADU(p)                  _mm_loadu_ps(p)
#define PPO__STOREU(p, v)              _mm_storeu_ps(p, v)
#define PPO__MASK                      __m128i
#define PPO__MASK_OF(lanes)            _mm_cmpgt_epi32(_mm_set1_epi32((int)(lanes)), _mm_setr_epi32(0, 1, 2, 3))
#define PPO__LOADM(p, mask)            _mm_maskload_ps(p, mask)
#define PPO__STOREM(p, mask, v)        _mm_maskstore_ps(p, mask, v)
#define PPO__PAD(mask, v, pad)         _mm_blendv_ps(pad, v, _mm_castsi128_ps(mask))
#define PPO__FMA(a, b, c)              _mm_fmadd_ps(a, b, c)
#define PPO__MIN(a, b)                 _mm_min_ps(a, b)
#define PPO__MAX(a, b)                 _mm_max_ps(a, b)
#define PPO__SQRT(a)                   _mm_sqrt_ps(a)
#define PPO__IF_GREATER(a, b, yes, no) _mm_blendv_ps(no, yes, _mm_cmplt_ps(b, a))
#define PPO__LOAD_DOUBLES(p)           _mm_cvtps_pd(_mm_castsi128_ps(_mm_loadl_epi64((const __m128i *)(p))))
#define PPO__LOAD_GROUPS(p, step)      _mm_loadu_ps(p)
#define PPO__ZIP_LOW(a, b)             _mm_unpacklo_ps(a, b)
#define PPO__ZIP_HIGH(a, b)            _mm_unpackhi_ps(a, b)
#define PPO__ZIP2_LOW(a, b)            _mm_movelh_ps(a, b)
#define PPO__ZIP2_HIGH(a, b)           _mm_movehl_ps(b, a)
#include PPO_FILE_NAME

#else

#define PPO__TARGET       __attribute__((target("avx2,fma")))
#define PPO__ISA          ppo__avx2_
#define PPO__ISA_NAME     "avx2"
#define PPO__WIDTH        8
#define PPO__VEC          __m256
#define PPO__DOUBLES      __m256d
#define PPO__TILE_ROWS    4
#define PPO__TILE_VECS    3
#define PPO__SET1(x)      _mm256_set1_ps(x)
#define PPO__LOADU(p)     _mm256_loadu_ps(p)
#define PPO__STOREU(p, v) _mm256_storeu_ps(p, v)
#define PPO__MASK         __m256i
#define PPO__MASK_OF(lanes) \
    _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(lanes)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
#define PPO__LOADM(p, mask)            _mm256_maskload_ps(p, mask)
#define PPO__STOREM(p, mask, v)        _mm256_maskstore_ps(p, mask, v)
#define PPO__PAD(mask, v, pad)         _mm256_blendv_ps(pad, v, _mm256_castsi256_ps(mask))
#define PPO__FMA(a, b, c)              _mm256_fmadd_ps(a, b, c)
#define PPO__MIN(a, b)                 _mm256_min_ps(a, b)
#define PPO__MAX(a, b)                 _mm256_max_ps(a, b)
#define PPO__SQRT(a)                   _mm256_sqrt_ps(a)
#define PPO__IF_GREATER(a, b, yes, no) _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_GT_OQ))
#define PPO__LOAD_DOUBLES(p)           _mm256_cvtps_pd(_mm_loadu_ps(p))
#define PPO__LOAD_GROUPS(p, step) \
    _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps((p) + (step)), 1)
#define PPO__ZIP_LOW(a, b)   _mm256_unpacklo_ps(a, b)
#define PPO__ZIP_HIGH(a, b)  _mm256_unpackhi_ps(a, b)
#define PPO__ZIP2_LOW(a, b)  _mm256_castpd_ps(_mm256_unpacklo_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)))
#define PPO__ZIP2_HIGH(a, b) _mm256_castpd_ps(_mm256_unpackhi_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)))
#include PPO_FILE_NAME

#define PPO__TARGET                    __attribute__((target("avx512f,avx512dq,avx2,fma")))
#define PPO__ISA                       ppo__avx512_
#define PPO__ISA_NAME                  "avx512"
#define PPO__WIDTH                     16
#define PPO__VEC                       __m512
#define PPO__DOUBLES                   __m512d
#define PPO__TILE_ROWS                 4
#define PPO__TILE_VECS                 4
#define PPO__SET1(x)                   _mm512_set1_ps(x)
#define PPO__LOADU(p)                  _mm512_loadu_ps(p)
#define PPO__STOREU(p, v)              _mm512_storeu_ps(p, v)
#define PPO__MASK                      __mmask16
#define PPO__MASK_OF(lanes)            ((__mmask16)((1u << (lanes)) - 1u))
#define PPO__LOADM(p, mask)            _mm512_maskz_loadu_ps(mask, p)
#define PPO__STOREM(p, mask, v)        _mm512_mask_storeu_ps(p, mask, v)
#define PPO__PAD(mask, v, pad)         _mm512_mask_blend_ps(mask, pad, v)
#define PPO__FMA(a, b, c)              _mm512_fmadd_ps(a, b, c)
#define PPO__MIN(a, b)                 _mm512_min_ps(a, b)
#define PPO__MAX(a, b)                 _mm512_max_ps(a, b)
#define PPO__SQRT(a)                   _mm512_sqrt_ps(a)
#define PPO__IF_GREATER(a, b, yes, no) _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), no, yes)
#define PPO__TIMES_2_TO(y, n)          _mm512_scalef_ps(y, n)
#define PPO__LOAD_DOUBLES(p)           _mm512_cvtps_pd(_mm256_loadu_ps(p))
#define PPO__LOAD_GROUP(into, group, p) \
    _mm512_mask_broadcast_f32x4(into, (__mmask16)(15 << 4 * (group)), _mm_loadu_ps(p))
#define PPO__LOAD_GROUPS(p, step)                                                                     \
    PPO__LOAD_GROUP(                                                                                  \
        PPO__LOAD_GROUP(PPO__LOAD_GROUP(_mm512_castps128_ps512(_mm_loadu_ps(p)), 1, (p) + (step)), 2, \
                        (p) + 2 * (step)),                                                            \
        3, (p) + 3 * (step))
#define PPO__ZIP_LOW(a, b)   _mm512_unpacklo_ps(a, b)
#define PPO__ZIP_HIGH(a, b)  _mm512_unpackhi_ps(a, b)
#define PPO__ZIP2_LOW(a, b)  _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)))
#define PPO__ZIP2_HIGH(a, b) _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)))
#include PPO_FILE_NAME

#endif

#ifndef __clang__
#pragma GCC diagnostic pop
#endif

#elif defined(PPO__NEON)

/* NEON has no masked memory access: the last lanes go through a small array. */
static inline float32x4_t ppo__neon_loadm(const float *p, size_t lanes) {
    float t[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    memcpy(t, p, lanes * sizeof(float));
    return vld1q_f32(t);
}

static inline void ppo__neon_storem(float *p, size_t lanes, float32x4_t v) {
    float t[4];
    vst1q_f32(t, v);
    memcpy(p, t, lanes * sizeof(float));
}

static const unsigned ppo__neon_lane[4] = {0, 1, 2, 3};

#define PPO__TARGET
#define PPO__ISA                ppo__neon_
#define PPO__ISA_NAME           "neon"
#define PPO__WIDTH              4
#define PPO__VEC                float32x4_t
#define PPO__DOUBLES            float64x2_t
#define PPO__TILE_ROWS          4
#define PPO__TILE_VECS          4
#define PPO__SET1(x)            vdupq_n_f32(x)
#define PPO__LOADU(p)           vld1q_f32(p)
#define PPO__STOREU(p, v)       vst1q_f32(p, v)
#define PPO__MASK               size_t
#define PPO__MASK_OF(lanes)     (lanes)
#define PPO__LOADM(p, mask)     ppo__neon_loadm(p, mask)
#define PPO__STOREM(p, mask, v) ppo__neon_storem(p, mask, v)
#define PPO__PAD(mask, v, pad) \
    vbslq_f32(vcltq_u32(vld1q_u32(ppo__neon_lane), vdupq_n_u32((unsigned)(mask))), v, pad)
#define PPO__FMA(a, b, c)              vfmaq_f32(c, a, b)
#define PPO__MIN(a, b)                 vminq_f32(a, b)
#define PPO__MAX(a, b)                 vmaxq_f32(a, b)
#define PPO__SQRT(a)                   vsqrtq_f32(a)
#define PPO__IF_GREATER(a, b, yes, no) vbslq_f32(vcgtq_f32(a, b), yes, no)
#define PPO__LOAD_DOUBLES(p)           vcvt_f64_f32(vld1_f32(p))
#define PPO__LOAD_GROUPS(p, step)      vld1q_f32(p)
#define PPO__ZIP_LOW(a, b)             vzip1q_f32(a, b)
#define PPO__ZIP_HIGH(a, b)            vzip2q_f32(a, b)
#define PPO__ZIP2_LOW(a, b) \
    vreinterpretq_f32_f64(vzip1q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)))
#define PPO__ZIP2_HIGH(a, b) \
    vreinterpretq_f32_f64(vzip2q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)))
#include PPO_FILE_NAME

#endif

#undef PPO__KERNEL_PASS

/* The kernels called `name` if this processor (and its operating system) can run them, else NULL; for a NULL
   name the fastest that it can run. */
static const ppo__kernels *ppo__kernels_find(const char *name) {
    const ppo__kernels *usable[8];
    int                 count = 0;
#if defined(PPO__X86) && defined(PPO__SHORT_VECTORS)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("fma")) usable[count++] = &ppo__fma_kernels;
#elif defined(PPO__X86)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
        usable[count++] = &ppo__avx512_kernels;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) usable[count++] = &ppo__avx2_kernels;
#elif defined(PPO__NEON)
    usable[count++] = &ppo__neon_kernels;
#endif
    usable[count++] = &ppo__plain_kernels;
    for (int i = 0; i < count; i++)
        if (!name || strcmp(name, usable[i]->name) == 0) return usable[i];
    return NULL;
}

#endif

#ifdef PPO__KERNEL_PASS /* the vector kernels: compiled once per instruction set, by the includes above */

typedef int      PPO__(ints) __attribute__((vector_size(4 * PPO__WIDTH)));
typedef unsigned PPO__(bits) __attribute__((vector_size(4 * PPO__WIDTH)));

PPO__INLINE PPO__VEC PPO__(load)(const float *p, size_t lanes) {
    return lanes == PPO__WIDTH ? PPO__LOADU(p) : PPO__LOADM(p, PPO__MASK_OF(lanes));
}

PPO__INLINE void PPO__(store)(float *p, PPO__VEC v, size_t lanes) {
    if (lanes == PPO__WIDTH) PPO__STOREU(p, v);
    else PPO__STOREM(p, PPO__MASK_OF(lanes), v);
}

/* A statement for each vector of n floats, at offset i, `lanes` of them present. */
#define PPO__EACH_VECTOR(n, ...)                            \
    do {                                                    \
        const size_t count_ = (n);                          \
        size_t       i = 0;                                 \
        for (; i + PPO__WIDTH <= count_; i += PPO__WIDTH) { \
            const size_t lanes = PPO__WIDTH;                \
            __VA_ARGS__;                                    \
        }                                                   \
        if (i < count_) {                                   \
            const size_t lanes = count_ - i;                \
            __VA_ARGS__;                                    \
        }                                                   \
    } while (0)

/* -- matrices -- */

/* The tile of c at (i, j), held in registers: `rows` rows of `vecs` vectors, a single one of which may be
   partial. Where this is inlined both are constants. */
PPO__INLINE void PPO__(tile)(const int rows, const int vecs, PPO__MASK mask, const ppo__gemm_job *job,
                             ptrdiff_t i, ptrdiff_t j) {
    const float *a = job->a + i * job->a_row, *b = job->b + j;
    float       *c = job->c + i * job->ldc + j;
    PPO__VEC     sum[2 * PPO__TILE_ROWS][PPO__TILE_VECS], bk[PPO__TILE_VECS];
    if (job->init) {
        const float *init = job->init + i * job->ld_init + j;
        PPO__UNROLL for (int r = 0; r < rows; r++, init += job->ld_init) {
            PPO__UNROLL for (int v = 0; v < vecs; v++) sum[r][v] =
                vecs > 1 ? PPO__LOADU(init + v * PPO__WIDTH) : PPO__LOADM(init, mask);
        }
    } else {
        PPO__UNROLL for (int r = 0; r < rows; r++) {
            PPO__UNROLL for (int v = 0; v < vecs; v++) sum[r][v] = PPO__SET1(0.0f);
        }
    }
    for (int k = 0; k < job->inner; k++, a += job->a_col, b += job->ldb) {
        PPO__UNROLL for (int v = 0; v < vecs; v++) bk[v] =
            vecs > 1 ? PPO__LOADU(b + v * PPO__WIDTH) : PPO__LOADM(b, mask);
        PPO__UNROLL for (int r = 0; r < rows; r++) {
            const PPO__VEC ark = PPO__SET1(a[r * job->a_row]);
            PPO__UNROLL for (int v = 0; v < vecs; v++) sum[r][v] = PPO__FMA(ark, bk[v], sum[r][v]);
        }
    }
    PPO__UNROLL for (int r = 0; r < rows; r++, c += job->ldc) {
        if (vecs == 1) PPO__STOREM(c, mask, sum[r][0]);
        else PPO__UNROLL for (int v = 0; v < vecs; v++) PPO__STOREU(c + v * PPO__WIDTH, sum[r][v]);
    }
}

/* All rows of the columns of c from j on that `vecs` vectors hold. */
PPO__INLINE void PPO__(tiles)(const int vecs, PPO__MASK mask, int rows, const ppo__gemm_job *job,
                              ptrdiff_t j) {
    int i = 0;
    if (vecs == 1) /* a tile needs eight chains or more to cover the latency of a multiply-add */
        for (; i + 2 * PPO__TILE_ROWS <= rows; i += 2 * PPO__TILE_ROWS)
            PPO__(tile)(2 * PPO__TILE_ROWS, vecs, mask, job, i, j);
    for (; i + PPO__TILE_ROWS <= rows; i += PPO__TILE_ROWS)
        PPO__(tile)(PPO__TILE_ROWS, vecs, mask, job, i, j);
    if (rows - i == 3) PPO__(tile)(3, vecs, mask, job, i, j);
    if (rows - i == 2) PPO__(tile)(2, vecs, mask, job, i, j);
    if (rows - i == 1) PPO__(tile)(1, vecs, mask, job, i, j);
}

PPO__FN void PPO__(gemm_wide)(int rows, int cols, const ppo__gemm_job *shared_job) {
    enum { WIDE = PPO__TILE_VECS * PPO__WIDTH };
    const ppo__gemm_job job = *shared_job;
    const PPO__MASK     all = PPO__MASK_OF(PPO__WIDTH);
    int                 j = 0;
    for (; j + WIDE <= cols; j += WIDE) PPO__(tiles)(PPO__TILE_VECS, all, rows, &job, j);
    if (j + 2 * PPO__WIDTH <= cols) {
        PPO__(tiles)(2, all, rows, &job, j);
        j += 2 * PPO__WIDTH;
    }
    for (; j < cols; j += PPO__WIDTH) {
        const int lanes = cols - j < PPO__WIDTH ? cols - j : PPO__WIDTH;
        PPO__(tiles)(1, PPO__MASK_OF(lanes), rows, &job, j);
    }
}

/* A large b: its rows lie so far apart that they evict each other from the caches. Parts of it, of 32 KiB,
   are packed together and used for all rows; c holds the unfinished chains in between. */
PPO__FN void PPO__(gemm_large)(int rows, int cols, const ppo__gemm_job *job) {
    enum { WIDE = PPO__TILE_VECS * PPO__WIDTH, DEPTH = 8192 / WIDE };
    float packed[DEPTH * WIDE] __attribute__((aligned(64)));
    for (ptrdiff_t k = 0; k < job->inner; k += DEPTH) {
        ppo__gemm_job block = *job;
        block.inner = job->inner - k < DEPTH ? (int)(job->inner - k) : DEPTH;
        block.a += k * job->a_col;
        if (k > 0) {
            block.init = job->c;
            block.ld_init = job->ldc;
        }
        const float *b = job->b + k * job->ldb;
        int          j = 0;
        for (; j + WIDE <= cols; j += WIDE, b += WIDE) {
            for (ptrdiff_t r = 0; r < block.inner; r++)
                PPO__UNROLL for (int v = 0; v < WIDE; v += PPO__WIDTH)
                    PPO__STOREU(packed + r * WIDE + v, PPO__LOADU(b + r * job->ldb + v));
            block.b = packed;
            block.ldb = WIDE;
            PPO__(gemm_wide)(rows, WIDE, &block);
            block.c += WIDE;
            if (block.init) block.init += WIDE;
        }
        block.b = b;
        block.ldb = job->ldb;
        PPO__(gemm_wide)(rows, cols - j, &block);
    }
}

/* out (cols, rows) from a (rows, cols). In blocks of (WIDTH, 4): register r holds, group by group, the four
   floats of rows r, r + 4, r + 8, ...; two rounds of zips within the groups make each register a column. */
PPO__FN void PPO__(transpose)(int rows, int cols, const float *a, int lda, float *out, int ldo) {
    ptrdiff_t       i = 0;
    const ptrdiff_t la = lda, lo = ldo;
    for (; i + PPO__WIDTH <= rows; i += PPO__WIDTH) {
        ptrdiff_t j = 0;
        for (; j + 4 <= cols; j += 4) {
            const float   *p = a + i * la + j;
            float         *q = out + j * lo + i;
            const PPO__VEC r0 = PPO__LOAD_GROUPS(p, 4 * la);
            const PPO__VEC r1 = PPO__LOAD_GROUPS(p + la, 4 * la);
            const PPO__VEC r2 = PPO__LOAD_GROUPS(p + 2 * la, 4 * la);
            const PPO__VEC r3 = PPO__LOAD_GROUPS(p + 3 * la, 4 * la);
            const PPO__VEC low01 = PPO__ZIP_LOW(r0, r1), high01 = PPO__ZIP_HIGH(r0, r1);
            const PPO__VEC low23 = PPO__ZIP_LOW(r2, r3), high23 = PPO__ZIP_HIGH(r2, r3);
            PPO__STOREU(q, PPO__ZIP2_LOW(low01, low23));
            PPO__STOREU(q + lo, PPO__ZIP2_HIGH(low01, low23));
            PPO__STOREU(q + 2 * lo, PPO__ZIP2_LOW(high01, high23));
            PPO__STOREU(q + 3 * lo, PPO__ZIP2_HIGH(high01, high23));
        }
        ppo__plain_transpose(PPO__WIDTH, (int)(cols - j), a + i * la + j, lda, out + j * lo + i, ldo);
    }
    ppo__plain_transpose((int)(rows - i), cols, a + i * la, lda, out + i, ldo);
}

/* Few columns (a policy or value head) would leave most lanes idle, so here the lanes run along the rows:
   transposed c = transposed b times transposed a. The chain of each element is the same. */
PPO__FN void PPO__(gemm_narrow)(int rows, int cols, const ppo__gemm_job *job) {
    enum { ROWS = 64, INNER = 64 };
    float at[INNER * ROWS];
    float ct[PPO__WIDTH / 2 * ROWS];
    for (ptrdiff_t i = 0; i < rows; i += ROWS) {
        const int height = rows - i < ROWS ? (int)(rows - i) : ROWS;
        for (ptrdiff_t j = 0; j < cols; j++) {
            if (job->init && job->ld_init) {
                for (ptrdiff_t r = 0; r < height; r++)
                    ct[j * ROWS + r] = job->init[(i + r) * job->ld_init + j];
            } else {
                const PPO__VEC bias = PPO__SET1(job->init ? job->init[j] : 0.0f);
                PPO__UNROLL for (int r = 0; r < ROWS; r += PPO__WIDTH) PPO__STOREU(ct + j * ROWS + r, bias);
            }
        }
        for (int k = 0; k < job->inner; k += INNER) {
            const int     depth = job->inner - k < INNER ? job->inner - k : INNER;
            const float  *a = job->a + i * job->a_row + k * job->a_col, *b = job->b + k * job->ldb;
            ppo__gemm_job block = {depth, b, a, ct, ct, 1, job->ldb, job->a_col, ROWS, ROWS};
            if (job->a_row != 1) {
                PPO__(transpose)(height, depth, a, (int)job->a_row, at, ROWS);
                block.b = at;
                block.ldb = ROWS;
            }
            PPO__(gemm_wide)(cols, height, &block);
        }
        for (ptrdiff_t j = 0; j < cols; j++)
            for (ptrdiff_t r = 0; r < height; r++) job->c[(i + r) * job->ldc + j] = ct[j * ROWS + r];
    }
}

PPO__FN void PPO__(gemm)(int rows, int cols, int inner, const float *a, int a_row, int a_col, const float *b,
                         int ldb, const float *init, int ld_init, float *c, int ldc) {
    enum { LARGE = 1 << 17 };
    const ppo__gemm_job job = {inner, a, b, init, c, a_row, a_col, ldb, ld_init, ldc};
    if (cols <= PPO__WIDTH / 2 && rows >= PPO__WIDTH && (a_row == 1 || a_col == 1))
        PPO__(gemm_narrow)(rows, cols, &job);
    else if (rows >= 64 && (ptrdiff_t)inner * ldb >= LARGE) PPO__(gemm_large)(rows, cols, &job);
    else PPO__(gemm_wide)(rows, cols, &job);
}

/* 1 x + sum is exact before its one rounding: this is a product with a row of ones, made by a stride of 0. */
PPO__FN void PPO__(column_sum)(int rows, int cols, const float *x, int ldx, float *sum) {
    const float         one = 1.0f;
    const ppo__gemm_job job = {rows, &one, x, sum, sum, 0, 0, ldx, 0, 0};
    PPO__(gemm_wide)(1, cols, &job);
}

/* -- elementary functions -- */

PPO__INLINE PPO__VEC PPO__(poly)(PPO__VEC x, const float *coef, const int count) {
    PPO__VEC y = PPO__SET1(coef[0]);
    PPO__UNROLL for (int i = 1; i < count; i++) y = PPO__FMA(y, x, PPO__SET1(coef[i]));
    return y;
}

/* x = n ln 2 + r with |r| <= ln(2)/2: returns e^r - 1, and n + ROUNDER in *shifted. */
PPO__INLINE PPO__VEC PPO__(expm1_reduced)(PPO__VEC x, PPO__VEC *shifted) {
    *shifted = PPO__FMA(x, PPO__SET1(1.44269502f), PPO__SET1(PPO__ROUNDER));
    const PPO__VEC n = *shifted - PPO__SET1(PPO__ROUNDER);
    PPO__VEC       r = PPO__FMA(n, PPO__SET1(-PPO__LN2_HIGH), x);
    r = PPO__FMA(n, PPO__SET1(-PPO__LN2_LOW), r);
    return PPO__FMA(r * r, PPO__(poly)(r, ppo__exp_poly, 5), r);
}

/* y 2^n for shifted = n + ROUNDER. Two factors, because 2^n alone need not be a normal float. */
PPO__INLINE PPO__VEC PPO__(times_2_to)(PPO__VEC y, PPO__VEC shifted) {
#ifdef PPO__TIMES_2_TO
    return PPO__TIMES_2_TO(y, shifted - PPO__SET1(PPO__ROUNDER));
#else
    const PPO__(ints) n = (PPO__(ints))shifted - PPO__ROUNDER_BITS, half = n >> 1;
    return y * (PPO__VEC)((PPO__(bits))(half + 127) << 23) * (PPO__VEC)((PPO__(bits))(n - half + 127) << 23);
#endif
}

/* Within 1.04 ulp, measured over all floats. */
PPO__INLINE PPO__VEC PPO__(vexp)(PPO__VEC x) {
    PPO__VEC shifted;
    x = PPO__MIN(PPO__SET1(89.0f), PPO__MAX(PPO__SET1(-104.0f), x)); /* beyond: inf and 0 */
    const PPO__VEC p = PPO__(expm1_reduced)(x, &shifted);
    return PPO__(times_2_to)(p + PPO__SET1(1.0f), shifted);
}

PPO__FN void PPO__(exp)(const float *x, float *y, size_t n) {
    PPO__EACH_VECTOR(n, PPO__(store)(y + i, PPO__(vexp)(PPO__(load)(x + i, lanes)), lanes));
}

/* tanh |x| = w / (w + 2) with w = e^(2|x|) - 1 = 2^n p + (2^n - 1); near 0 a polynomial, which is closer.
   Within 1.50 ulp, measured over all floats. */
PPO__INLINE PPO__VEC PPO__(vtanh)(PPO__VEC x) {
    const PPO__(bits) sign = (PPO__(bits))x & 0x80000000u;
    const PPO__VEC size = PPO__MIN(PPO__SET1(10.0f), (PPO__VEC)((PPO__(bits))x ^ sign)), square = x * x;
    const PPO__VEC near_0 = PPO__FMA(x * square, PPO__(poly)(square, ppo__tanh_poly, 3), x);
    PPO__VEC       shifted;
    const PPO__VEC p = PPO__(expm1_reduced)(size + size, &shifted);
    const PPO__VEC power = (PPO__VEC)(((PPO__(bits))shifted << 23) + 0x3f800000u);
    const PPO__VEC w = PPO__FMA(power, p, power - PPO__SET1(1.0f));
    const PPO__VEC by_exp = (PPO__VEC)((PPO__(bits))(w / (w + PPO__SET1(2.0f))) | sign);
    return PPO__IF_GREATER(size, PPO__SET1(0.26f), by_exp, near_0);
}

PPO__FN void PPO__(tanh)(const float *x, float *y, size_t n) {
    PPO__EACH_VECTOR(n, PPO__(store)(y + i, PPO__(vtanh)(PPO__(load)(x + i, lanes)), lanes));
}

/* x = 2^e (1 + f) with 2/3 <= 1 + f < 4/3; a subnormal x is scaled to a normal one first. Within 0.89 ulp,
   measured over all floats. */
PPO__INLINE PPO__VEC PPO__(vlog)(PPO__VEC x) {
    const PPO__VEC zero = PPO__SET1(0.0f), least = PPO__SET1(FLT_MIN);
    const PPO__(ints) from = (PPO__(ints))PPO__SET1(0.666666687f);
    const PPO__VEC normal = PPO__IF_GREATER(least, x, x * PPO__SET1(8388608.0f), x);
    const PPO__(ints) b = (PPO__(ints))((PPO__(bits))normal - (PPO__(bits))from);
    const PPO__VEC e = (PPO__VEC)((b >> 23) + PPO__ROUNDER_BITS) - PPO__SET1(PPO__ROUNDER) +
                       PPO__IF_GREATER(least, x, PPO__SET1(-23.0f), zero);
    const PPO__VEC f = (PPO__VEC)((b & 0x7fffff) + from) - PPO__SET1(1.0f);
    const PPO__VEC cubic = PPO__FMA(PPO__(poly)(f, ppo__log_poly, 8), f, PPO__SET1(-0.5f));
    const PPO__VEC rest = PPO__FMA(cubic, f * f, e * PPO__SET1(PPO__LN2_LOW));
    const PPO__VEC y = PPO__FMA(e, PPO__SET1(PPO__LN2_HIGH), f + rest);
    const PPO__VEC outside = PPO__IF_GREATER(zero, x, PPO__SET1(NAN), x - PPO__SET1(INFINITY));
    return PPO__IF_GREATER(x, zero, PPO__IF_GREATER(x, PPO__SET1(FLT_MAX), x, y), outside);
}

PPO__FN void PPO__(log)(const float *x, float *y, size_t n) {
    PPO__EACH_VECTOR(n, PPO__(store)(y + i, PPO__(vlog)(PPO__(load)(x + i, lanes)), lanes));
}

/* -- elementwise arithmetic -- */

PPO__FN void PPO__(relu)(const float *x, float *y, size_t n) {
    PPO__EACH_VECTOR(n, PPO__(store)(y + i, PPO__MAX(PPO__SET1(0.0f), PPO__(load)(x + i, lanes)), lanes));
}

/* x (1 + tanh u) / 2 = x s with s = 1 / (1 + e^(-2u)), which loses no digits where tanh u is near -1. Within
   2.6 ulp above 0; below, the exponent's rounding grows with u, to 163 ulp where x s is -1e-30, and what is
   nearer to 0 is within 1e-35. The derivative is within 2.0e-6. Measured over all floats. */
PPO__INLINE PPO__VEC PPO__(gelu_gate)(PPO__VEC x, PPO__VEC square) {
    const PPO__VEC cubic = PPO__FMA(PPO__SET1(PPO__GELU_CUBIC) * square, x, x);
    const PPO__VEC one = PPO__SET1(1.0f);
    return one / (one + PPO__(vexp)(cubic * PPO__SET1(-2.0f * PPO__GELU_SCALE)));
}

PPO__FN void PPO__(gelu)(const float *x, float *y, size_t n) {
    PPO__EACH_VECTOR(n, {
        const PPO__VEC v = PPO__(load)(x + i, lanes);
        PPO__(store)(y + i, v * PPO__(gelu_gate)(v, v * v), lanes);
    });
}

/* d (x s) / d x = s + x s (1 - s) 2 du/dx */
PPO__FN void PPO__(gelu_backward)(const float *x, const float *dy, float *dx, size_t n) {
    PPO__EACH_VECTOR(n, {
        const PPO__VEC v = PPO__(load)(x + i, lanes);
        const PPO__VEC square = PPO__MIN(PPO__SET1(FLT_MAX), v * v); /* 0 times infinity is NaN */
        const PPO__VEC s = PPO__(gelu_gate)(v, square);
        const PPO__VEC du = PPO__FMA(PPO__SET1(6.0f * PPO__GELU_SCALE * PPO__GELU_CUBIC), square,
                                     PPO__SET1(2.0f * PPO__GELU_SCALE));
        const PPO__VEC rest = PPO__FMA(-s, s, s) * v;
        PPO__(store)(dx + i, PPO__(load)(dy + i, lanes) * PPO__FMA(rest, du, s), lanes);
    });
}

/* P = erfc(-x / sqrt 2) / 2, from erfc(z) = t e^(poly(t) - z^2) at z >= 0. x P is within 8 ulp above 0 and within
   8 + 2 x^2 ulp below, until it is nearer to 0 than 1e-32; SiLU within 6 ulp. Their derivatives are within
   2.0e-6. */
PPO__INLINE PPO__VEC PPO__(normal_cdf)(PPO__VEC x) {
    const PPO__VEC one = PPO__SET1(1.0f), half = PPO__SET1(0.5f),
                   z = PPO__MAX(x, -x) * PPO__SET1(PPO__SQRT_HALF);
    const PPO__VEC t = one / PPO__FMA(half, z, one);
    const PPO__VEC tail = half * t * PPO__(vexp)(PPO__FMA(-z, z, PPO__(poly)(t, ppo__erfc_poly, 10)));
    return PPO__IF_GREATER(x, PPO__SET1(0.0f), one - tail, tail);
}

PPO__FN void PPO__(gelu_erf)(const float *x, float *y, size_t n) {
    PPO__EACH_VECTOR(n, {
        const PPO__VEC v = PPO__(load)(x + i, lanes);
        PPO__(store)(y + i, v * PPO__(normal_cdf)(v), lanes);
    });
}

PPO__FN void PPO__(gelu_erf_backward)(const float *x, const float *dy, float *dx, size_t n) {
    PPO__EACH_VECTOR(n, {
        const PPO__VEC v = PPO__(load)(x + i, lanes);
        const PPO__VEC square = PPO__MIN(PPO__SET1(FLT_MAX), v * v); /* infinity times 0 is NaN */
        const PPO__VEC density = PPO__SET1(PPO__DENSITY_0) * PPO__(vexp)(PPO__SET1(-0.5f) * square);
        PPO__(store)(dx + i, PPO__(load)(dy + i, lanes) * PPO__FMA(v, density, PPO__(normal_cdf)(v)), lanes);
    });
}

PPO__INLINE PPO__VEC PPO__(logistic)(PPO__VEC x) {
    return PPO__SET1(1.0f) / (PPO__SET1(1.0f) + PPO__(vexp)(-x));
}

PPO__FN void PPO__(silu)(const float *x, float *y, size_t n) {
    PPO__EACH_VECTOR(n, {
        const PPO__VEC v = PPO__(load)(x + i, lanes);
        PPO__(store)(y + i, v * PPO__(logistic)(v), lanes);
    });
}

/* d (x s) / d x = s + x s (1 - s) */
PPO__FN void PPO__(silu_backward)(const float *x, const float *dy, float *dx, size_t n) {
    PPO__EACH_VECTOR(n, {
        const PPO__VEC v = PPO__(load)(x + i, lanes), s = PPO__(logistic)(v);
        PPO__(store)(dx + i, PPO__(load)(dy + i, lanes) * PPO__FMA(PPO__FMA(-s, s, s), v, s), lanes);
    });
}

PPO__FN void PPO__(tanh_backward)(const float *y, const float *dy, float *dx, size_t n) {
    PPO__EACH_VECTOR(n, {
        const PPO__VEC t = PPO__(load)(y + i, lanes);
        PPO__(store)(dx + i, PPO__(load)(dy + i, lanes) * PPO__FMA(-t, t, PPO__SET1(1.0f)), lanes);
    });
}

PPO__FN void PPO__(relu_backward)(const float *y, const float *dy, float *dx, size_t n) {
    PPO__EACH_VECTOR(n, {
        const PPO__VEC zero = PPO__SET1(0.0f);
        const PPO__VEC d = PPO__IF_GREATER(PPO__(load)(y + i, lanes), zero, PPO__(load)(dy + i, lanes), zero);
        PPO__(store)(dx + i, d, lanes);
    });
}

PPO__FN void PPO__(add)(const float *x, float *y, size_t n) {
    PPO__EACH_VECTOR(n, PPO__(store)(y + i, PPO__(load)(y + i, lanes) + PPO__(load)(x + i, lanes), lanes));
}

PPO__FN void PPO__(scale)(float a, float *x, size_t n) {
    PPO__EACH_VECTOR(n, PPO__(store)(x + i, PPO__(load)(x + i, lanes) * PPO__SET1(a), lanes));
}

PPO__FN void PPO__(adam)(float *p, const float *g, float *m, float *v, size_t n, float beta1, float beta2,
                         float eps, float step_size, float inv_sqrt_bias2, float decay) {
    const PPO__VEC b1 = PPO__SET1(beta1), b2 = PPO__SET1(beta2);
    const PPO__VEC c1 = PPO__SET1(1.0f - beta1), c2 = PPO__SET1(1.0f - beta2);
    PPO__EACH_VECTOR(n, {
        const PPO__VEC gi = PPO__(load)(g + i, lanes), pi = PPO__(load)(p + i, lanes);
        const PPO__VEC mi = PPO__FMA(b1, PPO__(load)(m + i, lanes), c1 * gi);
        const PPO__VEC vi = PPO__FMA(b2, PPO__(load)(v + i, lanes), c2 * gi * gi);
        const PPO__VEC step = mi / PPO__FMA(PPO__SQRT(vi), PPO__SET1(inv_sqrt_bias2), PPO__SET1(eps));
        const PPO__VEC decayed = PPO__FMA(PPO__SET1(-decay), pi, pi);
        PPO__(store)(m + i, mi, lanes);
        PPO__(store)(v + i, vi, lanes);
        PPO__(store)(p + i, PPO__FMA(PPO__SET1(-step_size), step, decayed), lanes);
    });
}

/* -- reductions -- */

PPO__INLINE float PPO__(lane_sum)(PPO__VEC x) {
    float t[PPO__WIDTH];
    PPO__STOREU(t, x);
    PPO__UNROLL for (int half = PPO__WIDTH / 2; half; half /= 2) {
        PPO__UNROLL for (int i = 0; i < half; i++) t[i] += t[i + half];
    }
    return t[0];
}

PPO__INLINE float PPO__(lane_max)(PPO__VEC x) {
    float t[PPO__WIDTH];
    PPO__STOREU(t, x);
    PPO__UNROLL for (int half = PPO__WIDTH / 2; half; half /= 2) {
        PPO__UNROLL for (int i = 0; i < half; i++) t[i] = t[i] > t[i + half] ? t[i] : t[i + half];
    }
    return t[0];
}

/* The square of a float is exact in double. */
PPO__FN double PPO__(sum_squares)(const float *x, size_t n) {
    enum { CHAINS = 4, HALF = PPO__WIDTH / 2 };
    double       lane[CHAINS * HALF], sum = 0.0;
    PPO__DOUBLES chain[CHAINS];
    size_t       i = 0;
    memset(chain, 0, sizeof chain);
    for (; i + CHAINS * HALF <= n; i += CHAINS * HALF) {
        PPO__UNROLL for (int k = 0; k < CHAINS; k++) {
            const PPO__DOUBLES d = PPO__LOAD_DOUBLES(x + i + k * HALF);
            chain[k] += d * d;
        }
    }
    memcpy(lane, chain, sizeof lane);
    for (int k = 0; k < CHAINS * HALF; k++) sum += lane[k];
    return sum + ppo__plain_sum_squares(x + i, n - i);
}

/* z - reference of the logits at p. Missing lanes are -inf, which adds nothing to a sum. */
PPO__INLINE PPO__VEC PPO__(logits)(const float *p, float inv_temperature, float reference, size_t lanes) {
    const PPO__VEC z = PPO__FMA(PPO__(load)(p, lanes), PPO__SET1(inv_temperature), PPO__SET1(-reference));
    return lanes == PPO__WIDTH ? z : PPO__PAD(PPO__MASK_OF(lanes), z, PPO__SET1(-INFINITY));
}

/* A long row is read from memory once, BLOCK numbers at a time: find their maximum; if it is a new one, move
   the sums to it (s -> c s and d -> c (d + shift s), where shift = old - new and c = e^shift); add the
   numbers. As a factor z is clamped to -200, where e^z is 0 already: 0 times -inf would be NaN. */
PPO__FN void PPO__(softmax_stats_row)(const float *logits, int n, float inv_temperature, float *max,
                                      float *sum, float *dot) {
    enum { BLOCK = 1024 };
    const PPO__VEC zero = PPO__SET1(0.0f);
    PPO__VEC       s = zero, d = zero;
    float          top = -INFINITY;
    for (int start = 0; start < n; start += BLOCK) {
        const float *x = logits + start;
        const size_t length = (size_t)(n - start < BLOCK ? n - start : BLOCK);
        PPO__VEC     high = PPO__SET1(-INFINITY), block_s = zero, block_d = zero;
        PPO__EACH_VECTOR(length, high = PPO__MAX(high, PPO__(logits)(x + i, inv_temperature, 0.0f, lanes)));
        const float block_top = PPO__(lane_max)(high);
        if (!(block_top <= top)) { /* NaN too, which then reaches the sums */
            if (start > 0 && top > -INFINITY) {
                const PPO__VEC shift = PPO__SET1(top - block_top), c = PPO__(vexp)(shift);
                d = c * PPO__FMA(shift, s, d);
                s = c * s;
            }
            top = block_top;
        }
        if (top == -INFINITY) continue;
        PPO__EACH_VECTOR(length, {
            const PPO__VEC z = PPO__(logits)(x + i, inv_temperature, top, lanes);
            const PPO__VEC e = PPO__(vexp)(z);
            block_s = block_s + e;
            block_d = PPO__FMA(e, PPO__MAX(PPO__SET1(-200.0f), z), block_d);
        });
        s = s + block_s;
        d = d + block_d;
    }
    *max = top;
    *sum = PPO__(lane_sum)(s);
    *dot = PPO__(lane_sum)(d);
}

/* Few logits would leave most lanes idle, so here the lanes run along the rows, WIDTH of them at most. */
PPO__FN void PPO__(softmax_stats_few)(int rows, int n, const float *logits, int ld, float inv_temperature,
                                      float *max, float *sum, float *dot) {
    const size_t   lanes = (size_t)rows;
    const PPO__VEC inv = PPO__SET1(inv_temperature);
    PPO__VEC       top = PPO__SET1(-INFINITY), s = PPO__SET1(0.0f), d = s;
    float          t[PPO__WIDTH * PPO__WIDTH];
    PPO__(transpose)(rows, n, logits, ld, t, PPO__WIDTH);
    for (int j = 0; j < n; j++) top = PPO__MAX(top, inv * PPO__(load)(t + j * PPO__WIDTH, lanes));
    for (int j = 0; j < n; j++) {
        const PPO__VEC z = PPO__FMA(PPO__(load)(t + j * PPO__WIDTH, lanes), inv, -top);
        const PPO__VEC e = PPO__(vexp)(z);
        s = s + e;
        d = PPO__FMA(e, PPO__MAX(PPO__SET1(-200.0f), z), d);
    }
    PPO__(store)(max, top, lanes);
    PPO__(store)(sum, s, lanes);
    PPO__(store)(dot, d, lanes);
}

PPO__FN void PPO__(softmax_stats)(int rows, int n, const float *logits, int ld, float inv_temperature,
                                  float *max, float *sum, float *dot) {
    const int height = n <= PPO__WIDTH ? PPO__WIDTH : 1;
    for (ptrdiff_t i = 0; i < rows; i += height) {
        const float *x = logits + i * ld;
        const int    count = rows - i < height ? (int)(rows - i) : height;
        if (height == 1) PPO__(softmax_stats_row)(x, n, inv_temperature, max + i, sum + i, dot + i);
        else PPO__(softmax_stats_few)(count, n, x, ld, inv_temperature, max + i, sum + i, dot + i);
    }
}

/* `before` and the gradient at z - max, with the rest of the row in vectors. */
PPO__INLINE PPO__VEC PPO__(softmax_grad_at)(PPO__VEC z, PPO__VEC log_sum, PPO__VEC entropy,
                                            PPO__VEC grad_logp, PPO__VEC grad_entropy, float inv_temperature,
                                            PPO__VEC before) {
    const PPO__VEC logp = PPO__MAX(PPO__SET1(-200.0f), z - log_sum);
    const PPO__VEC p = PPO__(vexp)(logp);
    const PPO__VEC derivative = PPO__FMA(grad_entropy, logp + entropy, grad_logp);
    return PPO__FMA(p * PPO__SET1(-inv_temperature), derivative, before);
}

PPO__FN void PPO__(softmax_grad_row)(int n, const float *logits, float inv_temperature,
                                     const ppo__softmax_given *given, ptrdiff_t r, int add, float *out) {
    const PPO__VEC log_sum = PPO__SET1(given->log_sum[r]), entropy = PPO__SET1(given->entropy[r]);
    const PPO__VEC grad_logp = PPO__SET1(given->grad_logp[r]),
                   grad_entropy = PPO__SET1(given->grad_entropy[r]);
    PPO__EACH_VECTOR((size_t)n, {
        const PPO__VEC z = PPO__(logits)(logits + i, inv_temperature, given->max[r], lanes);
        const PPO__VEC before = add ? PPO__(load)(out + i, lanes) : PPO__SET1(0.0f);
        const PPO__VEC d =
            PPO__(softmax_grad_at)(z, log_sum, entropy, grad_logp, grad_entropy, inv_temperature, before);
        PPO__(store)(out + i, d, lanes);
    });
}

PPO__FN void PPO__(softmax_grad_few)(int rows, int n, const float *logits, int ld, float inv_temperature,
                                     const ppo__softmax_given *given, ptrdiff_t r, int add, float *out,
                                     int ld_out) {
    const size_t   lanes = (size_t)rows;
    const PPO__VEC log_sum = PPO__(load)(given->log_sum + r, lanes);
    const PPO__VEC entropy = PPO__(load)(given->entropy + r, lanes);
    const PPO__VEC grad_logp = PPO__(load)(given->grad_logp + r, lanes);
    const PPO__VEC grad_entropy = PPO__(load)(given->grad_entropy + r, lanes);
    const PPO__VEC max = PPO__(load)(given->max + r, lanes);
    float          t[PPO__WIDTH * PPO__WIDTH];
    PPO__(transpose)(rows, n, logits, ld, t, PPO__WIDTH);
    for (int j = 0; j < n; j++) {
        const PPO__VEC x = PPO__(load)(t + j * PPO__WIDTH, lanes);
        const PPO__VEC z = PPO__FMA(x, PPO__SET1(inv_temperature), -max);
        const PPO__VEC d = PPO__(softmax_grad_at)(z, log_sum, entropy, grad_logp, grad_entropy,
                                                  inv_temperature, PPO__SET1(0.0f));
        PPO__STOREU(t + j * PPO__WIDTH, d);
    }
    for (ptrdiff_t i = 0; i < rows; i++) {
        for (int j = 0; j < n; j++) {
            const float d = t[j * PPO__WIDTH + i];
            out[i * ld_out + j] = add ? out[i * ld_out + j] + d : d;
        }
    }
}

PPO__FN void PPO__(softmax_grad)(int rows, int n, const float *logits, int ld, float inv_temperature,
                                 const ppo__softmax_given *given, int add, float *out, int ld_out) {
    const int height = n <= PPO__WIDTH ? PPO__WIDTH : 1;
    for (ptrdiff_t i = 0; i < rows; i += height) {
        const float *x = logits + i * ld;
        float       *y = out + i * ld_out;
        const int    count = rows - i < height ? (int)(rows - i) : height;
        if (height == 1) PPO__(softmax_grad_row)(n, x, inv_temperature, given, i, add, y);
        else PPO__(softmax_grad_few)(count, n, x, ld, inv_temperature, given, i, add, y, ld_out);
    }
}

/* The maximum is taken off before the scale is folded in: of huge numbers a rounded product less the
   exact one can be anything. With z = scale (max - x) the result is within e + 2 z 2^-24 of itself; of what
   is subnormal the last two digits may be wrong. */
PPO__FN void PPO__(softmax)(float scale, float *x, int n) {
    PPO__VEC high = PPO__SET1(-INFINITY), sum = PPO__SET1(0.0f);
    PPO__EACH_VECTOR((size_t)n, high = PPO__MAX(high, PPO__(logits)(x + i, 1.0f, 0.0f, lanes)));
    const float top = PPO__(lane_max)(high);
    PPO__EACH_VECTOR((size_t)n, {
        const PPO__VEC e = PPO__(vexp)(PPO__SET1(scale) * PPO__(logits)(x + i, 1.0f, top, lanes));
        sum = sum + e;
        PPO__(store)(x + i, e, lanes);
    });
    PPO__(scale)(1.0f / PPO__(lane_sum)(sum), x, (size_t)n);
}

/* Missing lanes are 0, which adds nothing to a sum. Within e scale p (|dp| + sum |dp| p). */
PPO__FN void PPO__(softmax_backward)(float scale, const float *p, const float *dp, float *out, int n) {
    PPO__VEC sum = PPO__SET1(0.0f);
    PPO__EACH_VECTOR((size_t)n, sum = PPO__FMA(PPO__(load)(p + i, lanes), PPO__(load)(dp + i, lanes), sum));
    const PPO__VEC dot = PPO__SET1(PPO__(lane_sum)(sum));
    PPO__EACH_VECTOR((size_t)n, {
        const PPO__VEC derivative = PPO__SET1(scale) * PPO__(load)(p + i, lanes);
        PPO__(store)(out + i, derivative * (PPO__(load)(dp + i, lanes) - dot), lanes);
    });
}

/* x - mean, 0 in missing lanes */
PPO__INLINE PPO__VEC PPO__(centred)(const float *x, float mean, size_t lanes) {
    const PPO__VEC v = PPO__(load)(x, lanes) - PPO__SET1(mean);
    return lanes == PPO__WIDTH ? v : PPO__PAD(PPO__MASK_OF(lanes), v, PPO__SET1(0.0f));
}

/* With x^ = (x - mean) rstd: y is within e (|w| (1 + |x^| + |mean| rstd) + |b|), *mean within
   e (|mean| + 1 / rstd), *rstd within e rstd (1 + |mean| rstd). */
PPO__FN void PPO__(norm)(int centred, float eps, const float *x, const float *w, const float *b, float *y,
                         int n, float *mean, float *rstd) {
    PPO__VEC sum = PPO__SET1(0.0f), squares = PPO__SET1(0.0f);
    if (centred) PPO__EACH_VECTOR((size_t)n, sum = sum + PPO__(load)(x + i, lanes));
    *mean = PPO__(lane_sum)(sum) / (float)n;
    PPO__EACH_VECTOR((size_t)n, {
        const PPO__VEC v = PPO__(centred)(x + i, *mean, lanes);
        squares = PPO__FMA(v, v, squares);
    });
    *rstd = 1.0f / sqrtf(PPO__(lane_sum)(squares) / (float)n + eps);
    PPO__EACH_VECTOR((size_t)n, {
        const PPO__VEC v = PPO__(centred)(x + i, *mean, lanes) * PPO__SET1(*rstd);
        const PPO__VEC bias = b ? PPO__(load)(b + i, lanes) : PPO__SET1(0.0f);
        PPO__(store)(y + i, PPO__FMA(v, PPO__(load)(w + i, lanes), bias), lanes);
    });
}

/* With g = dy w, what is added to dx is within e rstd (1 + |mean| rstd) (|g| + (1 + |x^|) rms(g)), and to dw
   within e |dy| (|x^| + |mean| rstd). */
PPO__FN void PPO__(norm_backward)(int centred, const float *x, const float *w, float mean, float rstd,
                                  const float *dy, float *dx, float *dw, float *db, int n) {
    PPO__VEC g_sum = PPO__SET1(0.0f), gx_sum = PPO__SET1(0.0f);
    PPO__EACH_VECTOR((size_t)n, {
        const PPO__VEC xhat = PPO__(centred)(x + i, mean, lanes) * PPO__SET1(rstd);
        const PPO__VEC d = PPO__(load)(dy + i, lanes);
        const PPO__VEC g = d * PPO__(load)(w + i, lanes);
        g_sum = g_sum + g;
        gx_sum = PPO__FMA(g, xhat, gx_sum);
        if (dw) PPO__(store)(dw + i, PPO__FMA(d, xhat, PPO__(load)(dw + i, lanes)), lanes);
        if (db) PPO__(store)(db + i, PPO__(load)(db + i, lanes) + d, lanes);
    });
    if (!dx) return;
    const PPO__VEC g_mean = PPO__SET1(centred ? PPO__(lane_sum)(g_sum) / (float)n : 0.0f);
    const PPO__VEC gx_mean = PPO__SET1(PPO__(lane_sum)(gx_sum) / (float)n);
    PPO__EACH_VECTOR((size_t)n, {
        const PPO__VEC xhat = PPO__(centred)(x + i, mean, lanes) * PPO__SET1(rstd);
        const PPO__VEC g = PPO__FMA(PPO__(load)(dy + i, lanes), PPO__(load)(w + i, lanes), -g_mean);
        const PPO__VEC d = PPO__FMA(-xhat, gx_mean, g);
        PPO__(store)(dx + i, PPO__FMA(PPO__SET1(rstd), d, PPO__(load)(dx + i, lanes)), lanes);
    });
}

#define PPO__TABLE_OF(prefix, label) PPO__KERNEL_TABLE(prefix, label)
PPO__TABLE_OF(PPO__ISA, PPO__ISA_NAME);

#undef PPO__TARGET
#undef PPO__ISA
#undef PPO__ISA_NAME
#undef PPO__WIDTH
#undef PPO__VEC
#undef PPO__DOUBLES
#undef PPO__TILE_ROWS
#undef PPO__TILE_VECS
#undef PPO__SET1
#undef PPO__LOADU
#undef PPO__STOREU
#undef PPO__MASK
#undef PPO__MASK_OF
#undef PPO__LOADM
#undef PPO__STOREM
#undef PPO__PAD
#undef PPO__FMA
#undef PPO__MIN
#undef PPO__MAX
#undef PPO__SQRT
#undef PPO__IF_GREATER
#undef PPO__TIMES_2_TO
#undef PPO__LOAD_DOUBLES
#undef PPO__LOAD_GROUPS
#undef PPO__ZIP_LOW
#undef PPO__ZIP_HIGH
#undef PPO__ZIP2_LOW
#undef PPO__ZIP2_HIGH
#undef PPO__EACH_VECTOR
#undef PPO__TABLE_OF

#endif

#if defined(PPO_IMPLEMENTATION) && !defined(PPO__KERNEL_PASS) && !defined(PPO__IMPLEMENTED)

static const ppo__kernels *volatile ppo__chosen_kernels;

static PPO__NOINLINE const ppo__kernels *ppo__kernels_choose(void) {
    const ppo__kernels *kernels = ppo__kernels_find(NULL);
    PPO__ATOMIC_STORE(ppo__chosen_kernels, kernels);
    return kernels;
}

/* The kernels in use. They are found at the first call; two threads that both do so find the same. */
static const ppo__kernels *ppo__k(void) {
    const ppo__kernels *kernels = PPO__ATOMIC_LOAD(ppo__chosen_kernels);
    return kernels ? kernels : ppo__kernels_choose();
}

PPO_DEF ppo_status ppo_use_kernels(const char *name) {
    const ppo__kernels *kernels = ppo__kernels_find(name);
    if (!kernels)
        return ppo__refuse("this processor or this build has no kernels \"%s\"", name ? name : "NULL");
    PPO__ATOMIC_STORE(ppo__chosen_kernels, kernels);
    return PPO_OK;
}

PPO_DEF const char *ppo_kernels_name(void) { return ppo__k()->name; }

/* --------------------------------------------------------------------------------------------------------
   @@ 4 Tensors. The four blocks of a set of parameters (data, m, v, grad) are one allocation, of a frozen set the
   first one alone; a larger one takes its place when the set grows, and its tensors then point into that. Where a
   tape computes on a device, the set has a mirror there: a copy of the blocks, of which either the host's or the
   device's counts.
   -------------------------------------------------------------------------------------------------------- */

static size_t ppo__size(const ppo_tensor *x) { return ppo__at(x->rows, x->cols); }

typedef struct ppo__mirror {
    ppo_params         *params;
    ppo__device        *device;
    struct ppo__mirror *next;
    float              *data, *grad, *m, *v;
    int                 counts;  /* 1: these are the numbers, not the host's */
    int                 changed; /* 1: the host's are older */
} ppo__mirror;

/* The mirror if its numbers count, NULL if the host's do. */
static ppo__mirror *ppo__mirror_of(const ppo_params *params) {
    return params->mirror && params->mirror->counts ? params->mirror : NULL;
}

static void ppo__mirror_free(ppo_params *params) {
    ppo__mirror *mirror = params->mirror, **link = mirror ? &mirror->device->mirrors : NULL;
    if (!mirror) return;
    while (*link != mirror) link = &(*link)->next;
    *link = mirror->next;
    mirror->device->give(mirror->device, mirror->data);
    ppo__free(mirror);
    params->mirror = NULL;
}

/* The bytes of a set's blocks. */
static size_t ppo__blocks_size(const ppo_params *params, int blocks) {
    return (params->frozen ? 1 : (size_t)blocks) * params->capacity * sizeof(float);
}

/* Brings the host's numbers up to date; the mirror's still count. */
static ppo_status ppo__params_fetch(const ppo_params *params) {
    ppo__mirror *mirror = ppo__mirror_of(params);
    if (!mirror || !mirror->changed) return PPO_OK;
    mirror->device->read(mirror->device, params->data, mirror->data, ppo__blocks_size(params, 4));
    ppo_status status = mirror->device->settle(mirror->device);
    if (!status) mirror->changed = 0;
    return status;
}

PPO_DEF ppo_status ppo_params_sync(ppo_params *params) {
    if (!ppo__given("ppo_params_sync", params != NULL)) return PPO_ERROR_ARGUMENT;
    ppo_status status = ppo__params_fetch(params);
    if (!status && params->mirror) params->mirror->counts = 0;
    return status;
}

/* Brings the numbers to where a tape computes: to this device or, if NULL, to the host. */
static ppo_status ppo__params_place(ppo_params *params, ppo__device *device) {
    ppo__mirror *mirror = ppo__mirror_of(params);
    if (device && mirror && mirror->device == device) return PPO_OK;
    ppo_status status = ppo_params_sync(params);
    if (status || !device) return status;
    if (params->mirror && params->mirror->device != device) ppo__mirror_free(params);
    mirror = params->mirror;
    if (!mirror) {
        mirror = (ppo__mirror *)ppo__alloc(sizeof *mirror);
        if (!mirror) return PPO_ERROR_MEMORY;
        mirror->data = (float *)device->take(device, ppo__blocks_size(params, 4));
        if (!mirror->data) {
            ppo__free(mirror);
            return ppo__failed;
        }
        mirror->m = params->frozen ? NULL : mirror->data + params->capacity;
        mirror->v = params->frozen ? NULL : mirror->m + params->capacity;
        mirror->grad = params->frozen ? NULL : mirror->v + params->capacity;
        mirror->params = params;
        mirror->device = device;
        mirror->next = device->mirrors;
        device->mirrors = params->mirror = mirror;
    }
    status = device->write(device, mirror->data, params->data, ppo__blocks_size(params, 4));
    mirror->counts = !status;
    mirror->changed = 0;
    return status;
}

PPO_DEF ppo_status ppo_params_create(ppo_params **params) {
    if (!ppo__given("ppo_params_create", params != NULL)) return PPO_ERROR_ARGUMENT;
    *params = (ppo_params *)ppo__alloc(sizeof **params);
    return *params ? PPO_OK : PPO_ERROR_MEMORY;
}

PPO_DEF void ppo_params_free(ppo_params *params) {
    if (!params) return;
    ppo__mirror_free(params);
    for (int i = 0; i < params->tensor_count; ++i) ppo__free(params->tensors[i]); /* and its name */
    ppo__array_free(params->tensors);
    ppo__array_free((void *)params->names);
    ppo__array_free(params->lr_scale);
    ppo__free(params->data);
    ppo__free(params);
}

/* The floats of a matrix and of the gap after it: what comes next begins on a boundary. */
static size_t ppo__padded(size_t rows, size_t cols) {
    const size_t grain = PPO__ALIGN / sizeof(float);
    return (rows * cols + grain - 1) / grain * grain;
}

/* New blocks of `count` floats, with what the old ones have. */
static ppo_status ppo__params_move(ppo_params *params, size_t count, int frozen) {
    ppo_status status = ppo_params_sync(params);
    if (status) return status;
    ppo__mirror_free(params);
    const size_t blocks = frozen ? 1 : 4, kept = params->frozen ? 1 : blocks;
    const int    impossible = count >= SIZE_MAX / 16;
    if (!impossible) count = ppo__padded(1, count);
    float *block = (float *)ppo__alloc(impossible ? SIZE_MAX : blocks * count * sizeof(float));
    if (!block) return PPO_ERROR_MEMORY;
    float **part[4] = {&params->data, &params->m, &params->v, &params->grad}, *old = params->data;
    for (int i = 0; i < params->tensor_count; ++i) {
        ppo_tensor *tensor = params->tensors[i];
        ptrdiff_t   at = tensor->data - old;
        int         none = frozen || (!params->frozen && !tensor->grad); /* NULL: its owner wants none */
        tensor->data = block + at;
        tensor->grad = none ? NULL : block + 3 * count + at;
    }
    for (size_t k = 0; k < 4; ++k) {
        if (params->count && k < kept) memcpy(block + k * count, *part[k], params->count * sizeof(float));
        *part[k] = k < blocks ? block + k * count : NULL;
    }
    if (frozen != params->frozen) params->step = 0;
    ppo__free(old);
    params->capacity = count;
    params->frozen = frozen;
    return PPO_OK;
}

PPO_DEF ppo_status ppo_params_reserve(ppo_params *params, size_t count) {
    if (!ppo__given("ppo_params_reserve", params != NULL)) return PPO_ERROR_ARGUMENT;
    return count <= params->capacity ? PPO_OK : ppo__params_move(params, count, params->frozen);
}

PPO_DEF ppo_status ppo_params_freeze(ppo_params *params, int frozen) {
    if (!ppo__given("ppo_params_freeze", params != NULL)) return PPO_ERROR_ARGUMENT;
    frozen = frozen != 0;
    if (!params->capacity) return params->frozen = frozen, PPO_OK;
    return frozen == params->frozen ? PPO_OK : ppo__params_move(params, params->capacity, frozen);
}

PPO_DEF ppo_tensor *ppo_params_add(ppo_params *params, const char *name, int rows, int cols) {
    if (!ppo__given("ppo_params_add", params && name)) return NULL;
    ppo_status status = PPO_OK;
    if (rows <= 0 || cols <= 0)
        status = ppo__refuse("ppo_params_add: \"%s\" is %d x %d: both must be above 0", name, rows, cols);
    for (int i = 0; i < params->tensor_count; ++i)
        if (!strcmp(params->names[i], name))
            status = ppo__refuse("ppo_params_add: there is a parameter \"%s\" already", name);
    if (status) return NULL;
    if (PPO__ROOM(params->tensors) || PPO__ROOM(params->names) || PPO__ROOM(params->lr_scale)) return NULL;
    ppo_tensor *tensor = (ppo_tensor *)ppo__alloc(sizeof *tensor + strlen(name) + 1);
    size_t      start = params->count, end = start + ppo__padded((size_t)rows, (size_t)cols);
    if (!tensor || ppo_params_sync(params) || ppo_params_reserve(params, end)) {
        ppo__free(tensor);
        return NULL;
    }
    tensor->rows = rows;
    tensor->cols = cols;
    tensor->data = params->data + start;
    tensor->grad = params->frozen ? NULL : params->grad + start;
    ppo__array_push(params->tensors, tensor);
    ppo__array_push(params->names, strcpy((char *)(tensor + 1), name));
    ppo__array_push(params->lr_scale, 1);
    ++params->tensor_count;
    params->count = end;
    return tensor;
}

/* Gram and Schmidt among a few vectors (rows of x). */
static void ppo__orthonormalize_few(float *x, int n, int size) {
    for (int i = 0; i < n; ++i) {
        float *xi = x + ppo__at(i, size);
        double norm = 0;
        for (int j = 0; j < i; ++j) {
            const float *xj = x + ppo__at(j, size);
            double       dot = 0;
            for (int k = 0; k < size; ++k) dot += (double)xi[k] * xj[k];
            for (int k = 0; k < size; ++k) xi[k] -= (float)dot * xj[k];
        }
        for (int k = 0; k < size; ++k) norm += (double)xi[k] * xi[k];
        for (int k = 0; k < size; ++k) xi[k] = (float)(xi[k] / sqrt(norm));
    }
}

enum { PPO__ORTHO_TILE = 16 };

/* Makes the n rows of x orthonormal, a tile p at a time: p -= (p y^T) y for the finished rows y, then among
   themselves; all of it twice, which is enough. scratch has room for PPO__ORTHO_TILE (size + n). */
static void ppo__orthonormalize(float *x, int n, int size, float *scratch) {
    const ppo__kernels *k = ppo__k();
    for (int i = 0; i < n; i += PPO__ORTHO_TILE) {
        int    rows = n - i < PPO__ORTHO_TILE ? n - i : (int)PPO__ORTHO_TILE;
        float *p = x + ppo__at(i, size), *pt = scratch, *ypt = scratch + ppo__at(PPO__ORTHO_TILE, size);
        for (int pass = 0; pass < 2; ++pass) {
            k->transpose(rows, size, p, size, pt, rows);
            k->gemm(i, rows, size, x, size, 1, pt, rows, NULL, 0, ypt, rows);
            k->scale(-1, ypt, ppo__at(i, rows));
            k->gemm(rows, size, i, ypt, 1, rows, x, size, p, size, p, size);
            ppo__orthonormalize_few(p, rows, size);
        }
    }
}

PPO_DEF ppo_status ppo_init_orthogonal(ppo_tensor *weight, float gain, ppo_rng *rng) {
    if (!ppo__given("ppo_init_orthogonal", weight && rng && weight->data)) return PPO_ERROR_ARGUMENT;
    int    wide = weight->cols > weight->rows;
    int    n = wide ? weight->rows : weight->cols, size = wide ? weight->cols : weight->rows;
    float *x = (float *)ppo__alloc(
        (ppo__size(weight) + ppo__at(PPO__ORTHO_TILE, size) + ppo__at(PPO__ORTHO_TILE, n)) * sizeof(float));
    if (!x) return PPO_ERROR_MEMORY;
    for (size_t i = 0; i < ppo__size(weight); ++i) x[i] = ppo_rng_normal(rng);
    ppo__orthonormalize(x, n, size, x + ppo__size(weight));
    ppo__k()->scale(gain, x, ppo__size(weight));
    if (wide) {
        memcpy(weight->data, x, ppo__size(weight) * sizeof(float));
    } else {
        ppo__k()->transpose(n, size, x, size, weight->data, n);
    }
    ppo__free(x);
    return PPO_OK;
}

PPO_DEF void ppo_init_uniform(ppo_tensor *weight, float bound, ppo_rng *rng) {
    for (size_t i = 0; i < ppo__size(weight); ++i) weight->data[i] = ppo_rng_range(rng, -bound, bound);
}

PPO_DEF void ppo_init_normal(ppo_tensor *weight, float std, ppo_rng *rng) {
    for (size_t i = 0; i < ppo__size(weight); ++i) weight->data[i] = std * ppo_rng_normal(rng);
}

/* --------------------------------------------------------------------------------------------------------
   @@ 5 Autograd. An operation takes its results from the tape's arenas and computes them at once; where an
   input has a gradient, its node is added to a list, which backward walks from the end. A tape may compute on
   a device: then data and gradients lie there, nodes on the host, and operations are the device's by name.

   To add
       an elementwise operation   a row in ppo__binaries or ppo__unaries, its value and derivative above the
                                  table, its number in the enum, and a public function of three lines
       an activation              as gelu (search for it): a constant, two kernels in section 3, a row of
                                  ppo__activations with its two functions; for a GPU both formulas are
                                  PPO__BOTH functions that two functors of ppo_cuda.cuh call; for networks of
                                  control, the row "activation" of ppo__fields (words are in the order of the
                                  enum, so gelu comes first) and C code in section 16's export
       any other operation        a ppo_op with its forward and backward, as those below
   test_autograd.c compares all derivatives with finite differences.
   -------------------------------------------------------------------------------------------------------- */

struct ppo_tape {
    ppo__device *device;  /* where it computes; NULL: on the processor */
    ppo__arena   arena;   /* nodes, and what else only the host reads */
    ppo__arena   numbers; /* results, and what operations keep */
    ppo__arena   grads;   /* gradients of results, which backward clears first */
    ppo_node   **nodes;   /* stb_ds array: the nodes that backward visits, in order of recording */
    int          recording;
    ppo_status   status; /* the first failure */
    char         error[PPO__ERROR_SIZE];
    /* if params is not NULL: gradients of these go to `grad`, in the same layout, instead of params->grad */
    const ppo_params *params;
    float            *grad;
};

static ppo_status ppo__tape_create_on(ppo__device *device, ppo_tape **tape) {
    if (!tape) return ppo__refuse("ppo_tape_create: tape is NULL");
    *tape = (ppo_tape *)ppo__alloc(sizeof **tape);
    if (!*tape) return PPO_ERROR_MEMORY;
    (*tape)->recording = 1;
    (*tape)->device = (*tape)->numbers.device = (*tape)->grads.device = device;
    return PPO_OK;
}

PPO_DEF ppo_status ppo_tape_create(ppo_tape **tape) { return ppo__tape_create_on(NULL, tape); }

PPO_DEF PPO__NOINLINE void ppo_tape_free(ppo_tape *tape) {
    if (!tape) return;
    ppo__arena_free(&tape->arena);
    ppo__arena_free(&tape->numbers);
    ppo__arena_free(&tape->grads);
    ppo__array_free((void *)tape->nodes);
    ppo__free(tape);
}

PPO_DEF PPO__NOINLINE void ppo_tape_reset(ppo_tape *tape) {
    if (!tape) return;
    ppo__arena_reset(&tape->arena);
    ppo__arena_reset(&tape->numbers);
    ppo__arena_reset(&tape->grads);
    if (tape->nodes) stbds_header(tape->nodes)->length = 0;
    tape->status = PPO_OK;
}

PPO_DEF void ppo_tape_record(ppo_tape *tape, int on) {
    if (tape) tape->recording = on;
}

PPO_DEF PPO__NOINLINE ppo_status ppo_tape_status(const ppo_tape *tape) {
    if (!tape) return ppo__refuse("the tape is NULL");
    return tape->status ? ppo_fail(tape->status, "%s", tape->error) : PPO_OK;
}

/* Keeps the failure that ppo_fail() has just described; returns NULL for the operation to return. */
static PPO__NOINLINE void *ppo__tape_fail(ppo_tape *tape, ppo_status status) {
    if (tape && !tape->status) {
        tape->status = status;
        memcpy(tape->error, ppo__error, sizeof tape->error);
    }
    return NULL;
}

static PPO__NOINLINE void *ppo__tape_take_from(ppo_tape *tape, ppo__arena *arena, size_t n, size_t size) {
    if (ppo_tape_status(tape)) return NULL;
    void *piece = ppo__arena_array(arena, n, size);
    return piece ? piece : ppo__tape_fail(tape, ppo__failed);
}

/* Memory of the host, wherever the tape computes. */
static void *ppo__tape_take(ppo_tape *tape, size_t n, size_t size) {
    return ppo__tape_take_from(tape, tape ? &tape->arena : NULL, n, size);
}

PPO_DEF float *ppo_tape_alloc(ppo_tape *tape, size_t n) {
    return (float *)ppo__tape_take_from(tape, tape ? &tape->numbers : NULL, n, sizeof(float));
}

/* Brings data of the host to where the tape computes. */
static void *ppo__tape_write(ppo_tape *tape, const void *from, size_t size) {
    if (!tape->device) return (void *)from;
    void      *to = ppo__tape_take_from(tape, &tape->numbers, size, 1);
    ppo_status status = to ? tape->device->write(tape->device, to, from, size) : PPO_OK;
    return status ? ppo__tape_fail(tape, status) : to;
}

/* Copies n floats from where the tape computes to the host; complete after ppo__tape_settle(). */
static void ppo__tape_read(ppo_tape *tape, const float *from, size_t n, float *to) {
    if (tape->device) tape->device->read(tape->device, to, from, n * sizeof(float));
    else memcpy(to, from, n * sizeof(float));
}

/* Copies n floats where the tape computes. */
static void ppo__tape_copy(ppo_tape *tape, const float *from, size_t n, float *to) {
    if (tape->device) tape->device->copy(tape->device, to, from, n * sizeof(float));
    else memcpy(to, from, n * sizeof(float));
}

/* Waits for the tape's device. */
static ppo_status ppo__tape_settle(ppo_tape *tape) {
    ppo_status status = ppo_tape_status(tape);
    return tape ? ppo__settle(tape->device, status) : status;
}

static ppo_tensor *ppo__tape_tensor(ppo_tape *tape, int rows, int cols, int with_grad) {
    ppo_tensor *tensor = (ppo_tensor *)ppo__tape_take(tape, 1, sizeof *tensor);
    if (!tensor) return NULL;
    tensor->rows = rows;
    tensor->cols = cols;
    tensor->data = ppo_tape_alloc(tape, ppo__size(tensor));
    tensor->grad = NULL;
    if (with_grad)
        tensor->grad = (float *)ppo__tape_take_from(tape, &tape->grads, ppo__size(tensor), sizeof(float));
    return tape->status ? NULL : tensor;
}

/* The index of x in a block; huge if it lies before it. */
static size_t ppo__place_in(const float *block, const float *x) {
    return (size_t)((uintptr_t)x - (uintptr_t)block) / sizeof(float);
}

/* x as this tape sees it: a parameter's numbers may lie on the device, or its gradient go to tape->grad. */
static ppo_tensor *ppo__tape_input(ppo_tape *tape, ppo_tensor *x) {
    const ppo_params *params = tape->params;
    ppo__mirror      *mirror = tape->device ? tape->device->mirrors : NULL;
    float            *data = NULL, *grad = NULL;
    if (!x || (!params && !mirror)) return x;
    for (; mirror && !data; mirror = mirror->next) {
        size_t at = ppo__place_in(mirror->params->data, x->data);
        if (at >= mirror->params->count) continue;
        data = mirror->data + at;
        grad = mirror->grad + at;
    }
    if (params && x->grad) {
        size_t at = ppo__place_in(params->grad, x->grad);
        if (at < params->count) data = x->data, grad = tape->grad + at;
    }
    if (!data) return x;
    ppo_tensor *own = (ppo_tensor *)ppo__tape_take(tape, 1, sizeof *own);
    if (!own) return NULL;
    *own = *x;
    own->data = data;
    if (x->grad) own->grad = grad;
    return own;
}

PPO_DEF ppo_tensor *ppo_tape_constant(ppo_tape *tape, const float *data, int rows, int cols) {
    if (!data || rows <= 0 || cols <= 0)
        return (ppo_tensor *)ppo__tape_fail(
            tape, data ? ppo__refuse("constant: %d x %d floats: both must be above 0", rows, cols)
                       : ppo__refuse("constant: data is NULL"));
    ppo_tensor *tensor = (ppo_tensor *)ppo__tape_take(tape, 1, sizeof *tensor);
    if (!tensor) return NULL;
    tensor->rows = rows;
    tensor->cols = cols;
    tensor->data = (float *)ppo__tape_write(tape, data, ppo__size(tensor) * sizeof(float));
    tensor->grad = NULL;
    return tensor->data ? tensor : NULL;
}

PPO_DEF ppo_node *ppo_tape_apply(ppo_tape *tape, const ppo_op *op, ppo_tensor *const *in, int n_in, int rows,
                                 int cols, const void *args, size_t args_size) {
    if (ppo_tape_status(tape)) return NULL;
    if (!op || !in || n_in < 0 || n_in > PPO_MAX_INPUTS || op->outputs < 1 || op->outputs > PPO_MAX_OUTPUTS ||
        rows <= 0 || cols <= 0) {
        return (ppo_node *)ppo__tape_fail(
            tape, ppo__refuse("ppo_tape_apply: %d inputs, %d outputs of (%d, %d) are impossible", n_in,
                              op ? op->outputs : 0, rows, cols));
    }
    ppo_node *node = (ppo_node *)ppo__tape_take(tape, 1, sizeof *node);
    if (!node) return NULL;
    memset(node, 0, sizeof *node);
    node->op = tape->device ? tape->device->find(op->name) : op;
    if (!node->op) {
        ppo__refuse("the device does not know the operation \"%s\"", op->name);
        return (ppo_node *)ppo__tape_fail(tape, PPO_ERROR_ARGUMENT);
    }
    node->tape = tape;
    int with_grad = 0;
    for (int i = 0; i < n_in; ++i) {
        node->in[i] = ppo__tape_input(tape, in[i]);
        with_grad |= tape->recording && in[i] && in[i]->grad;
    }
    for (int i = 0; i < op->outputs; ++i) node->out[i] = ppo__tape_tensor(tape, rows, cols, with_grad);
    if (args_size) node->args = ppo__tape_take(tape, 1, args_size);
    if (tape->status) return NULL;
    if (args_size) memcpy(node->args, args, args_size);

    ppo_status status = node->op->forward(node);
    if (status) return (ppo_node *)ppo__tape_fail(tape, status);
    if (tape->status || !with_grad) return tape->status ? NULL : node;

    if (PPO__PUSH(tape->nodes, node)) return (ppo_node *)ppo__tape_fail(tape, PPO_ERROR_MEMORY);
    return node;
}

/* Elementwise work on large arrays is divided into ranges of a multiple of this many floats. */
enum { PPO__FLOAT_GRAIN = 1024 };

static int ppo__grains(size_t n) { return (int)((n + PPO__FLOAT_GRAIN - 1) / PPO__FLOAT_GRAIN); }

static size_t ppo__grain_end(size_t n, int to) {
    size_t end = ppo__at(to, PPO__FLOAT_GRAIN);
    return end < n ? end : n;
}

typedef struct ppo__floats_job {
    const float *x;
    float       *y;
    size_t       n;
} ppo__floats_job;

static void ppo__add_range(void *user, int range, int from, int to) {
    const ppo__floats_job *job = (const ppo__floats_job *)user;
    size_t                 at = ppo__at(from, PPO__FLOAT_GRAIN), count = ppo__grain_end(job->n, to) - at;
    if (job->x) ppo__k()->add(job->x + at, job->y + at, count);
    else memset(job->y + at, 0, count * sizeof(float));
}

/* y += x, or y = 0 if x is NULL */
static void ppo__add_to(const float *x, float *y, size_t n) {
    ppo__floats_job job = {x, y, n};
    ppo__parallel_for(ppo__grains(n), 1, 10.0 * (double)PPO__FLOAT_GRAIN, ppo__add_range, &job);
}

PPO_DEF ppo_status ppo_tape_backward(ppo_tape *tape, ppo_tensor *loss) {
    static const float one = 1;
    ppo_status         status = ppo_tape_status(tape);
    if (status) return status;
    if (!loss || loss->rows != 1 || loss->cols != 1 || !loss->grad)
        return ppo__refuse("backward: the loss must be a (1, 1) result that depends on a parameter");
    for (ppo__page *page = tape->grads.page; page; page = page->next) {
        if (tape->device) tape->device->zero(tape->device, page->memory, page->used);
        else ppo__add_to(NULL, (float *)page->memory, page->used / sizeof(float));
    }
    if (tape->device) status = tape->device->write(tape->device, loss->grad, &one, sizeof one);
    else loss->grad[0] += one; /* a parameter's is not cleared */
    if (status) return status;
    for (ptrdiff_t i = stbds_arrlen(tape->nodes) - 1; i >= 0; --i)
        tape->nodes[i]->op->backward(tape->nodes[i]);
    return ppo_tape_status(tape);
}

PPO_DEF ppo_tensor *ppo_tape_result(ppo_node *node) { return node ? node->out[0] : NULL; }

/* 1 if the operands are there and the tape has not failed; otherwise the failure is kept. */
static PPO__NOINLINE int ppo__operands(ppo_tape *tape, const char *op, const ppo_tensor *a,
                                       const ppo_tensor *b) {
    if (ppo_tape_status(tape)) return 0;
    if (a && b) return 1;
    ppo__tape_fail(tape, ppo__refuse("%s: an operand is NULL", op));
    return 0;
}

static PPO__NOINLINE ppo_tensor *ppo__shape_error(ppo_tape *tape, const char *op, const ppo_tensor *a,
                                                  const ppo_tensor *b) {
    return (ppo_tensor *)ppo__tape_fail(tape, ppo__refuse("%s: shapes (%d, %d) and (%d, %d) do not fit", op,
                                                          a->rows, a->cols, b->rows, b->cols));
}

PPO_DEF ppo_tensor *ppo_tape_detach(ppo_tape *tape, ppo_tensor *x) {
    if (!ppo__operands(tape, "detach", x, x)) return NULL;
    ppo_tensor *tensor = (ppo_tensor *)ppo__tape_take(tape, 1, sizeof *tensor);
    if (!tensor) return NULL;
    *tensor = *x;
    tensor->grad = NULL;
    return tensor;
}

/* Elementwise operations of two operands: a value, and the derivatives along a and b. */
typedef struct ppo__binary {
    const char *name;
    float (*value)(float a, float b);
    void (*derivative)(float a, float b, float *da, float *db);
} ppo__binary;

static float           ppo__add(float a, float b) { return a + b; }
static float           ppo__sub(float a, float b) { return a - b; }
static float           ppo__mul(float a, float b) { return a * b; }
static float           ppo__div(float a, float b) { return a / b; }
PPO__BOTH static float ppo__min(float a, float b) { return a < b ? a : b; }
PPO__BOTH static float ppo__max(float a, float b) { return a > b ? a : b; }

static void ppo__add_derivative(float a, float b, float *da, float *db) { *da = 1, *db = 1; }
static void ppo__sub_derivative(float a, float b, float *da, float *db) { *da = 1, *db = -1; }
static void ppo__mul_derivative(float a, float b, float *da, float *db) { *da = b, *db = a; }
static void ppo__div_derivative(float a, float b, float *da, float *db) { *da = 1 / b, *db = -a / (b * b); }
static void ppo__min_derivative(float a, float b, float *da, float *db) {
    *da = a < b ? 1.0f : a > b ? 0.0f : 0.5f;
    *db = 1 - *da;
}
static void ppo__max_derivative(float a, float b, float *da, float *db) { ppo__min_derivative(a, b, db, da); }

enum { PPO__ADD, PPO__SUB, PPO__MUL, PPO__DIV, PPO__MIN, PPO__MAX };
static const ppo__binary ppo__binaries[] = {
    {"add", ppo__add, ppo__add_derivative}, {"sub", ppo__sub, ppo__sub_derivative},
    {"mul", ppo__mul, ppo__mul_derivative}, {"div", ppo__div, ppo__div_derivative},
    {"min", ppo__min, ppo__min_derivative}, {"max", ppo__max, ppo__max_derivative},
};

typedef struct ppo__binary_args {
    const ppo__binary *f;
    size_t             row_stride, col_stride; /* through b: 0 where it is repeated */
} ppo__binary_args;

static ppo_status ppo__binary_forward(ppo_node *node) {
    const ppo__binary_args *args = (const ppo__binary_args *)node->args;
    const float            *a = node->in[0]->data, *b = node->in[1]->data;
    float                  *y = node->out[0]->data;
    size_t                  rows = (size_t)node->out[0]->rows, cols = (size_t)node->out[0]->cols;
    for (size_t i = 0; i < rows; ++i) {
        for (size_t j = 0; j < cols; ++j)
            y[i * cols + j] = args->f->value(a[i * cols + j], b[i * args->row_stride + j * args->col_stride]);
    }
    return PPO_OK;
}

static void ppo__binary_backward(ppo_node *node) {
    const ppo__binary_args *args = (const ppo__binary_args *)node->args;
    const float            *a = node->in[0]->data, *b = node->in[1]->data, *dy = node->out[0]->grad;
    float                  *da = node->in[0]->grad, *db = node->in[1]->grad;
    size_t                  rows = (size_t)node->out[0]->rows, cols = (size_t)node->out[0]->cols;
    for (size_t i = 0; i < rows; ++i) {
        for (size_t j = 0; j < cols; ++j) {
            size_t at = i * cols + j, at_b = i * args->row_stride + j * args->col_stride;
            float  along_a, along_b;
            args->f->derivative(a[at], b[at_b], &along_a, &along_b);
            if (da) da[at] += dy[at] * along_a;
            if (db) db[at_b] += dy[at] * along_b;
        }
    }
}

static ppo_tensor *ppo__tape_binary(ppo_tape *tape, int which, ppo_tensor *a, ppo_tensor *b) {
    static const ppo_op op = {"binary", 1, ppo__binary_forward, ppo__binary_backward};
    const ppo__binary  *f = &ppo__binaries[which];
    if (!ppo__operands(tape, f->name, a, b)) return NULL;
    if ((b->rows != 1 && b->rows != a->rows) || (b->cols != 1 && b->cols != a->cols))
        return ppo__shape_error(tape, f->name, a, b);
    ppo__binary_args args = {f, b->rows == 1 ? 0 : (size_t)b->cols, b->cols == 1 ? 0 : (size_t)1};
    ppo_tensor      *in[2] = {a, b};
    return ppo_tape_result(ppo_tape_apply(tape, &op, in, 2, a->rows, a->cols, &args, sizeof args));
}

/* a + b of one shape: the residual connections of a transformer. */
static ppo_status ppo__add_forward(ppo_node *node) {
    memcpy(node->out[0]->data, node->in[0]->data, ppo__size(node->out[0]) * sizeof(float));
    ppo__add_to(node->in[1]->data, node->out[0]->data, ppo__size(node->out[0]));
    return PPO_OK;
}

static void ppo__add_backward(ppo_node *node) {
    for (int k = 0; k < 2; ++k)
        if (node->in[k]->grad) ppo__add_to(node->out[0]->grad, node->in[k]->grad, ppo__size(node->out[0]));
}

PPO_DEF ppo_tensor *ppo_tape_add(ppo_tape *tape, ppo_tensor *a, ppo_tensor *b) {
    static const ppo_op op = {"add", 1, ppo__add_forward, ppo__add_backward};
    ppo_tensor         *in[2] = {a, b};
    if (!a || !b || a->rows != b->rows || a->cols != b->cols) return ppo__tape_binary(tape, PPO__ADD, a, b);
    return ppo_tape_result(ppo_tape_apply(tape, &op, in, 2, a->rows, a->cols, NULL, 0));
}

PPO_DEF ppo_tensor *ppo_tape_sub(ppo_tape *tape, ppo_tensor *a, ppo_tensor *b) {
    return ppo__tape_binary(tape, PPO__SUB, a, b);
}

PPO_DEF ppo_tensor *ppo_tape_mul(ppo_tape *tape, ppo_tensor *a, ppo_tensor *b) {
    return ppo__tape_binary(tape, PPO__MUL, a, b);
}

PPO_DEF ppo_tensor *ppo_tape_div(ppo_tape *tape, ppo_tensor *a, ppo_tensor *b) {
    return ppo__tape_binary(tape, PPO__DIV, a, b);
}

PPO_DEF ppo_tensor *ppo_tape_min(ppo_tape *tape, ppo_tensor *a, ppo_tensor *b) {
    return ppo__tape_binary(tape, PPO__MIN, a, b);
}

PPO_DEF ppo_tensor *ppo_tape_max(ppo_tape *tape, ppo_tensor *a, ppo_tensor *b) {
    return ppo__tape_binary(tape, PPO__MAX, a, b);
}

/* Elementwise operations of one operand and two constants p and q: y = f(x) over an array, and the
   derivative at one element, given x and y. */
typedef struct ppo__unary {
    const char *name;
    void (*value)(const float *x, float *y, size_t n, float p, float q);
    float (*derivative)(float x, float y, float p, float q);
} ppo__unary;

static void ppo__exp_value(const float *x, float *y, size_t n, float p, float q) { ppo__k()->vexp(x, y, n); }
static void ppo__log_value(const float *x, float *y, size_t n, float p, float q) { ppo__k()->vlog(x, y, n); }
static void ppo__tanh_value(const float *x, float *y, size_t n, float p, float q) {
    ppo__k()->vtanh(x, y, n);
}
static void ppo__relu_value(const float *x, float *y, size_t n, float p, float q) { ppo__k()->relu(x, y, n); }
static void ppo__gelu_value(const float *x, float *y, size_t n, float p, float q) { ppo__k()->gelu(x, y, n); }
static void ppo__gelu_erf_value(const float *x, float *y, size_t n, float p, float q) {
    ppo__k()->gelu_erf(x, y, n);
}
static void ppo__silu_value(const float *x, float *y, size_t n, float p, float q) { ppo__k()->silu(x, y, n); }
static void ppo__square_value(const float *x, float *y, size_t n, float p, float q) {
    for (size_t i = 0; i < n; ++i) y[i] = x[i] * x[i];
}
static void ppo__scale_value(const float *x, float *y, size_t n, float scale, float shift) {
    for (size_t i = 0; i < n; ++i) y[i] = scale * x[i] + shift;
}
static void ppo__clamp_value(const float *x, float *y, size_t n, float low, float high) {
    for (size_t i = 0; i < n; ++i) y[i] = x[i] < low ? low : x[i] > high ? high : x[i];
}

static float ppo__exp_derivative(float x, float y, float p, float q) { return y; }
static float ppo__log_derivative(float x, float y, float p, float q) { return 1 / x; }
static float ppo__tanh_derivative(float x, float y, float p, float q) { return 1 - y * y; }
static float ppo__relu_derivative(float x, float y, float p, float q) { return x > 0 ? 1.0f : 0.0f; }
static float ppo__square_derivative(float x, float y, float p, float q) { return 2 * x; }
static float ppo__scale_derivative(float x, float y, float p, float q) { return p; }
static float ppo__clamp_derivative(float x, float y, float low, float high) {
    return x >= low && x <= high ? 1.0f : 0.0f;
}

enum { PPO__EXP, PPO__LOG, PPO__TANH, PPO__RELU, PPO__SQUARE, PPO__SCALE, PPO__CLAMP };
static const ppo__unary ppo__unaries[] = {
    {"exp", ppo__exp_value, ppo__exp_derivative},          {"log", ppo__log_value, ppo__log_derivative},
    {"tanh", ppo__tanh_value, ppo__tanh_derivative},       {"relu", ppo__relu_value, ppo__relu_derivative},
    {"square", ppo__square_value, ppo__square_derivative}, {"scale", ppo__scale_value, ppo__scale_derivative},
    {"clamp", ppo__clamp_value, ppo__clamp_derivative},
};

typedef struct ppo__unary_args {
    const ppo__unary *f;
    float             p, q;
} ppo__unary_args;

static ppo_status ppo__unary_forward(ppo_node *node) {
    const ppo__unary_args *args = (const ppo__unary_args *)node->args;
    args->f->value(node->in[0]->data, node->out[0]->data, ppo__size(node->in[0]), args->p, args->q);
    return PPO_OK;
}

static void ppo__unary_backward(ppo_node *node) {
    const ppo__unary_args *args = (const ppo__unary_args *)node->args;
    const float           *x = node->in[0]->data, *y = node->out[0]->data, *dy = node->out[0]->grad;
    for (size_t i = 0; i < ppo__size(node->in[0]); ++i)
        node->in[0]->grad[i] += dy[i] * args->f->derivative(x[i], y[i], args->p, args->q);
}

static PPO__NOINLINE ppo_tensor *ppo__tape_unary(ppo_tape *tape, int which, ppo_tensor *x, float p, float q) {
    static const ppo_op op = {"unary", 1, ppo__unary_forward, ppo__unary_backward};
    ppo__unary_args     args = {&ppo__unaries[which], p, q};
    if (!ppo__operands(tape, args.f->name, x, x)) return NULL;
    return ppo_tape_result(ppo_tape_apply(tape, &op, &x, 1, x->rows, x->cols, &args, sizeof args));
}

PPO_DEF ppo_tensor *ppo_tape_exp(ppo_tape *tape, ppo_tensor *x) {
    return ppo__tape_unary(tape, PPO__EXP, x, 0, 0);
}

PPO_DEF ppo_tensor *ppo_tape_log(ppo_tape *tape, ppo_tensor *x) {
    return ppo__tape_unary(tape, PPO__LOG, x, 0, 0);
}

PPO_DEF ppo_tensor *ppo_tape_tanh(ppo_tape *tape, ppo_tensor *x) {
    return ppo__tape_unary(tape, PPO__TANH, x, 0, 0);
}

PPO_DEF ppo_tensor *ppo_tape_relu(ppo_tape *tape, ppo_tensor *x) {
    return ppo__tape_unary(tape, PPO__RELU, x, 0, 0);
}

PPO_DEF ppo_tensor *ppo_tape_square(ppo_tape *tape, ppo_tensor *x) {
    return ppo__tape_unary(tape, PPO__SQUARE, x, 0, 0);
}

PPO_DEF ppo_tensor *ppo_tape_scale(ppo_tape *tape, ppo_tensor *x, float scale, float shift) {
    return ppo__tape_unary(tape, PPO__SCALE, x, scale, shift);
}

PPO_DEF ppo_tensor *ppo_tape_clamp(ppo_tape *tape, ppo_tensor *x, float low, float high) {
    return ppo__tape_unary(tape, PPO__CLAMP, x, low, high);
}

/* Sum and mean: y = sum x / divisor. */
static ppo_status ppo__sum_forward(ppo_node *node) {
    double sum = 0;
    for (size_t i = 0; i < ppo__size(node->in[0]); ++i) sum += node->in[0]->data[i];
    node->out[0]->data[0] = (float)(sum / *(const double *)node->args);
    return PPO_OK;
}

static void ppo__sum_backward(ppo_node *node) {
    float derivative = (float)(node->out[0]->grad[0] / *(const double *)node->args);
    for (size_t i = 0; i < ppo__size(node->in[0]); ++i) node->in[0]->grad[i] += derivative;
}

static ppo_tensor *ppo__tape_sum(ppo_tape *tape, const char *name, ppo_tensor *x, int mean) {
    static const ppo_op op = {"sum", 1, ppo__sum_forward, ppo__sum_backward};
    if (!ppo__operands(tape, name, x, x)) return NULL;
    double divisor = mean ? (double)ppo__size(x) : 1;
    return ppo_tape_result(ppo_tape_apply(tape, &op, &x, 1, 1, 1, &divisor, sizeof divisor));
}

PPO_DEF ppo_tensor *ppo_tape_sum(ppo_tape *tape, ppo_tensor *x) { return ppo__tape_sum(tape, "sum", x, 0); }
PPO_DEF ppo_tensor *ppo_tape_mean(ppo_tape *tape, ppo_tensor *x) { return ppo__tape_sum(tape, "mean", x, 1); }

/* y = x - log sum exp x, per row; dx = dy - softmax(x) sum dy. */
static ppo_status ppo__log_softmax_forward(ppo_node *node) {
    enum { ROWS = 64 };
    int   rows = node->in[0]->rows, cols = node->in[0]->cols;
    float max[ROWS], sum[ROWS], dot[ROWS];
    for (int i = 0; i < rows; i += ROWS) {
        const float *x = node->in[0]->data + ppo__at(i, cols);
        float       *y = node->out[0]->data + ppo__at(i, cols);
        int          n = rows - i < ROWS ? rows - i : (int)ROWS;
        ppo__k()->softmax_stats(n, cols, x, cols, 1, max, sum, dot);
        for (int r = 0; r < n; ++r, x += cols, y += cols) {
            float log_sum = logf(sum[r]);
            for (int j = 0; j < cols; ++j) y[j] = x[j] - max[r] - log_sum;
        }
    }
    return PPO_OK;
}

static void ppo__log_softmax_backward(ppo_node *node) {
    size_t cols = (size_t)node->in[0]->cols;
    for (size_t i = 0; i < (size_t)node->in[0]->rows; ++i) {
        const float *y = node->out[0]->data + i * cols, *dy = node->out[0]->grad + i * cols;
        float       *dx = node->in[0]->grad + i * cols, sum = 0;
        for (size_t j = 0; j < cols; ++j) sum += dy[j];
        for (size_t j = 0; j < cols; ++j) dx[j] += dy[j] - expf(y[j]) * sum;
    }
}

PPO_DEF ppo_tensor *ppo_tape_log_softmax(ppo_tape *tape, ppo_tensor *x) {
    static const ppo_op op = {"log_softmax", 1, ppo__log_softmax_forward, ppo__log_softmax_backward};
    if (!ppo__operands(tape, op.name, x, x)) return NULL;
    return ppo_tape_result(ppo_tape_apply(tape, &op, &x, 1, x->rows, x->cols, NULL, 0));
}

static ppo_status ppo__check_index(const char *op, const int *index, int n, int limit) {
    for (int i = 0; i < n; ++i) {
        if (index[i] >= 0 && index[i] < limit) continue;
        return ppo__refuse("%s: index %d of row %d is outside 0 .. %d", op, index[i], i, limit - 1);
    }
    return PPO_OK;
}

static ppo_status ppo__pick_forward(ppo_node *node) {
    const int *index = *(const int *const *)node->args;
    int        rows = node->in[0]->rows, cols = node->in[0]->cols;
    ppo_status status = ppo__check_index("pick", index, rows, cols);
    for (int i = 0; i < rows && !status; ++i)
        node->out[0]->data[i] = node->in[0]->data[ppo__at(i, cols) + index[i]];
    return status;
}

static void ppo__pick_backward(ppo_node *node) {
    const int *index = *(const int *const *)node->args;
    size_t     cols = (size_t)node->in[0]->cols;
    for (int i = 0; i < node->in[0]->rows; ++i)
        node->in[0]->grad[i * cols + index[i]] += node->out[0]->grad[i];
}

PPO_DEF ppo_tensor *ppo_tape_pick(ppo_tape *tape, ppo_tensor *x, const int *index) {
    static const ppo_op op = {"pick", 1, ppo__pick_forward, ppo__pick_backward};
    if (!ppo__operands(tape, op.name, x, index ? x : NULL)) return NULL;
    return ppo_tape_result(ppo_tape_apply(tape, &op, &x, 1, x->rows, 1, &index, sizeof index));
}

/* Matrices are divided into ranges of a multiple of this many rows, or columns. */
enum { PPO__ROW_GRAIN = 16 };

#define PPO__ACTIVATION_WORDS "identity|tanh|relu|gelu|gelu_erf|silu"

/* Activations: y = f(z) for z = x w + b, in place; and dz = dy f'(z) from y, or from z where y does not tell
   it. */
typedef struct ppo__activation {
    const char *name;
    void (*value)(const float *x, float *y, size_t n, float p, float q); /* NULL: the identity */
    void (*backward)(const float *kept, float *dz, size_t n);
    int keeps_z;
} ppo__activation;

static void ppo__tanh_dz(const float *y, float *dz, size_t n) { ppo__k()->tanh_backward(y, dz, dz, n); }
static void ppo__relu_dz(const float *y, float *dz, size_t n) { ppo__k()->relu_backward(y, dz, dz, n); }
static void ppo__gelu_dz(const float *z, float *dz, size_t n) { ppo__k()->gelu_backward(z, dz, dz, n); }
static void ppo__gelu_erf_dz(const float *z, float *dz, size_t n) {
    ppo__k()->gelu_erf_backward(z, dz, dz, n);
}
static void ppo__silu_dz(const float *z, float *dz, size_t n) { ppo__k()->silu_backward(z, dz, dz, n); }

static const ppo__activation ppo__activations[] = {
    /* PPO_IDENTITY */ {"identity", NULL, NULL, 0},
    /* PPO_TANH */ {"tanh", ppo__tanh_value, ppo__tanh_dz, 0},
    /* PPO_RELU */ {"relu", ppo__relu_value, ppo__relu_dz, 0},
    /* PPO_GELU */ {"gelu", ppo__gelu_value, ppo__gelu_dz, 1},
    /* PPO_GELU_ERF */ {"gelu_erf", ppo__gelu_erf_value, ppo__gelu_erf_dz, 1},
    /* PPO_SILU */ {"silu", ppo__silu_value, ppo__silu_dz, 1},
};

static ppo_status ppo__check_activation(const char *where, int activation) {
    PPO__ASSERT(sizeof ppo__activations == PPO__ACTIVATIONS * sizeof *ppo__activations);
    if (activation >= 0 && activation < PPO__ACTIVATIONS) return PPO_OK;
    return ppo__refuse("%s: there is no activation %d", where, activation);
}

/* A chain of layers y = activation(x w + b), each fed by the one before, is one operation. Between its layers
   nothing has to be recorded, cleared or added up, and each range of rows goes through all of them at once.
   Backward, from the last layer to the first: dz = dy activation'(z);  dx = dz w^T,  which is dy of the layer
   before;  dw += x^T dz,  db += column sums of dz. */
enum { PPO__CHAIN = 3 }; /* layers at most: the inputs of the operation are x and each layer's w and b */

typedef struct ppo__layer {
    const ppo_tensor *w, *b; /* (in, out); (1, out) or NULL */
    int               activation, rows;
    const float      *x;         /* (rows, in) */
    float            *y;         /* (rows, out) */
    float            *before;    /* z, if the activation keeps it and there is a backward */
    float            *dz, *dx;   /* dy first, (rows, out); what it is for the layer before, or NULL */
    float            *w_t;       /* w^T, where dx is not NULL */
    const float      *dx_before; /* what dx is added to, or NULL */
} ppo__layer;

typedef struct ppo__chain {
    int        count;
    ppo__layer layer[PPO__CHAIN];
} ppo__chain;

/* Of a row: its products; and an activation takes as long as some twenty of them. */
static double ppo__chain_work(const ppo__chain *chain) {
    double work = 0;
    for (int k = 0; k < chain->count; ++k) {
        const ppo__layer *layer = &chain->layer[k];
        work += (double)ppo__size(layer->w) + (layer->activation ? 20 : 1) * layer->w->cols;
    }
    return work;
}

static void ppo__chain_rows(void *user, int range, int from, int to) {
    const ppo__chain *chain = (const ppo__chain *)user;
    for (int k = 0; k < chain->count; ++k) {
        const ppo__layer      *layer = &chain->layer[k];
        const ppo__activation *f = &ppo__activations[layer->activation];
        int                    in = layer->w->rows, out = layer->w->cols;
        size_t                 at = ppo__at(from, out), n = ppo__at(to - from, out);
        float                 *y = layer->y + at;
        ppo__k()->gemm(to - from, out, in, layer->x + ppo__at(from, in), in, 1, layer->w->data, out,
                       layer->b ? layer->b->data : NULL, 0, y, out);
        if (layer->before) memcpy(layer->before + at, y, n * sizeof(float));
        if (f->value) f->value(y, y, n, 0, 0);
    }
}

/* Where the rows of each layer go. */
static ppo_status ppo__chain_layers(ppo_node *node, ppo__chain *chain) {
    const float *x = node->in[0]->data;
    for (int k = 0; k < chain->count; ++k) {
        ppo__layer *layer = &chain->layer[k];
        size_t      n = ppo__at(node->in[0]->rows, node->in[1 + 2 * k]->cols);
        layer->w = node->in[1 + 2 * k];
        layer->b = node->in[2 + 2 * k];
        layer->rows = node->in[0]->rows;
        layer->x = x;
        layer->y = k == chain->count - 1 ? node->out[0]->data : ppo_tape_alloc(node->tape, n);
        if (ppo__activations[layer->activation].keeps_z && node->out[0]->grad)
            layer->before = ppo_tape_alloc(node->tape, n);
        x = layer->y;
    }
    return ppo_tape_status(node->tape);
}

static ppo_status ppo__chain_forward(ppo_node *node) {
    ppo__chain *chain = (ppo__chain *)node->args;
    ppo_status  status = ppo__chain_layers(node, chain);
    if (!status)
        ppo__parallel_for(node->in[0]->rows, PPO__ROW_GRAIN, ppo__chain_work(chain), ppo__chain_rows, chain);
    return status;
}

/* dz in place of dy, which is not read again; and dx. */
static void ppo__chain_rows_backward(void *user, int range, int from, int to) {
    const ppo__chain *chain = (const ppo__chain *)user;
    for (int k = chain->count - 1; k >= 0 && chain->layer[k].dz; --k) {
        const ppo__layer      *layer = &chain->layer[k];
        const ppo__activation *f = &ppo__activations[layer->activation];
        int                    in = layer->w->rows, out = layer->w->cols;
        size_t                 at = ppo__at(from, out), at_x = ppo__at(from, in);
        float                 *dz = layer->dz + at;
        if (f->backward)
            f->backward((f->keeps_z ? layer->before : layer->y) + at, dz, ppo__at(to - from, out));
        if (!layer->dx) continue;
        ppo__k()->gemm(to - from, in, out, dz, out, 1, layer->w_t, in,
                       layer->dx_before ? layer->dx_before + at_x : NULL, in, layer->dx + at_x, in);
    }
}

static int ppo__layer_learns(const ppo__layer *layer) {
    return layer->w->grad || (layer->b && layer->b->grad);
}

/* Some rows of dw, the first of which has db, too; or some columns of both, where there are more of them. */
static void ppo__layer_dw(void *user, int range, int from, int to) {
    const ppo__layer *layer = (const ppo__layer *)user;
    int               in = layer->w->rows, out = layer->w->cols, rows = layer->rows;
    float            *dw = layer->w->grad, *db = layer->b ? layer->b->grad : NULL;
    const float      *dz = layer->dz;
    if (in >= out) {
        if (db && from == 0) ppo__k()->column_sum(rows, out, dz, out, db);
        if (!dw) return;
        dw += ppo__at(from, out);
        ppo__k()->gemm(to - from, out, rows, layer->x + from, 1, in, dz, out, dw, out, dw, out);
    } else {
        if (db) ppo__k()->column_sum(rows, to - from, dz + from, out, db + from);
        if (!dw) return;
        ppo__k()->gemm(in, to - from, rows, layer->x, 1, in, dz + from, out, dw + from, out, dw + from, out);
    }
}

/* Where the gradients of rows go, down to the lowest layer that needs any. */
static ppo_status ppo__chain_gradients(ppo_node *node, ppo__chain *chain) {
    float *dx = node->in[0]->grad;
    int    wanted = dx != NULL;
    for (int k = 0; k < chain->count; ++k) {
        ppo__layer *layer = &chain->layer[k];
        int         out = layer->w->cols;
        layer->dx = wanted ? dx : NULL;
        layer->dx_before = k == 0 ? layer->dx : NULL;
        wanted = wanted || ppo__layer_learns(layer);
        if (k == chain->count - 1) layer->dz = node->out[0]->grad;
        else layer->dz = dx = wanted ? ppo_tape_alloc(node->tape, ppo__at(node->in[0]->rows, out)) : NULL;
    }
    return ppo_tape_status(node->tape);
}

static void ppo__chain_backward(ppo_node *node) {
    ppo__chain *chain = (ppo__chain *)node->args;
    if (ppo__chain_gradients(node, chain)) return;
    for (int k = 0; k < chain->count; ++k) {
        ppo__layer *layer = &chain->layer[k];
        int         in = layer->w->rows, out = layer->w->cols;
        if (!layer->dx) continue;
        layer->w_t = ppo_tape_alloc(node->tape, ppo__size(layer->w));
        if (!layer->w_t) return;
        ppo__k()->transpose(in, out, layer->w->data, out, layer->w_t, in);
    }
    ppo__parallel_for(node->in[0]->rows, PPO__ROW_GRAIN, ppo__chain_work(chain), ppo__chain_rows_backward,
                      chain);
    for (int k = chain->count - 1; k >= 0; --k) { /* one by one: the same w may be in several layers */
        ppo__layer *layer = &chain->layer[k];
        int         in = layer->w->rows, out = layer->w->cols;
        double      work = (double)(in < out ? in : out) * layer->rows;
        if (ppo__layer_learns(layer))
            ppo__parallel_for(in < out ? out : in, PPO__ROW_GRAIN, work, ppo__layer_dw, layer);
    }
}

/* Layers 0 .. count - 1, as the operation `name`. */
static ppo_tensor *ppo__tape_chain(ppo_tape *tape, const char *name, ppo_tensor *x, ppo_tensor *const *w,
                                   ppo_tensor *const *b, const int *activation, int count) {
    static const ppo_op op = {"linear", 1, ppo__chain_forward, ppo__chain_backward};
    ppo_tensor         *in[1 + 2 * PPO__CHAIN] = {x};
    const ppo_tensor   *last = x;
    ppo__chain          chain;
    memset(&chain, 0, sizeof chain);
    for (int k = 0; k < count; ++k) {
        if (!ppo__operands(tape, name, last, w[k])) return NULL;
        if (last->cols != w[k]->rows) return ppo__shape_error(tape, name, last, w[k]);
        if (b[k] && (b[k]->rows != 1 || b[k]->cols != w[k]->cols))
            return ppo__shape_error(tape, name, w[k], b[k]);
        ppo_status status = ppo__check_activation(name, activation[k]);
        if (status) return (ppo_tensor *)ppo__tape_fail(tape, status);
        in[1 + 2 * k] = w[k];
        in[2 + 2 * k] = b[k];
        last = w[k];
        chain.layer[k].activation = activation[k];
    }
    chain.count = count;
    return ppo_tape_result(
        ppo_tape_apply(tape, &op, in, 1 + 2 * count, x->rows, last->cols, &chain, sizeof chain));
}

static ppo_tensor *ppo__tape_layer(ppo_tape *tape, const char *name, ppo_tensor *x, ppo_tensor *w,
                                   ppo_tensor *b, int activation) {
    return ppo__tape_chain(tape, name, x, &w, &b, &activation, 1);
}

PPO_DEF ppo_tensor *ppo_tape_linear(ppo_tape *tape, ppo_tensor *x, ppo_tensor *w, ppo_tensor *b,
                                    int activation) {
    return ppo__tape_layer(tape, "linear", x, w, b, activation);
}

PPO_DEF ppo_tensor *ppo_tape_matmul(ppo_tape *tape, ppo_tensor *a, ppo_tensor *b) {
    return ppo__tape_layer(tape, "matmul", a, b, NULL, PPO_IDENTITY);
}

/* y = a b^T. Backward: da += dy b,  db += dy^T a. */
static void ppo__transposed_rows(void *user, int range, int from, int to) {
    const ppo_node   *node = (const ppo_node *)user;
    const ppo_tensor *a = node->in[0], *b = node->in[1];
    ppo__k()->gemm(to - from, b->rows, a->cols, a->data + ppo__at(from, a->cols), a->cols, 1, node->scratch,
                   b->rows, NULL, 0, node->out[0]->data + ppo__at(from, b->rows), b->rows);
}

static ppo_status ppo__transposed_forward(ppo_node *node) {
    const ppo_tensor *a = node->in[0], *b = node->in[1];
    node->scratch = ppo_tape_alloc(node->tape, ppo__size(b));
    if (!node->scratch) return PPO_ERROR_MEMORY;
    ppo__k()->transpose(b->rows, b->cols, b->data, b->cols, node->scratch, b->rows);
    ppo__parallel_for(a->rows, PPO__ROW_GRAIN, (double)ppo__size(b), ppo__transposed_rows, node);
    return PPO_OK;
}

static void ppo__transposed_da(void *user, int range, int from, int to) {
    const ppo_node   *node = (const ppo_node *)user;
    const ppo_tensor *a = node->in[0], *b = node->in[1];
    int               inner = a->cols, out = b->rows;
    float            *da = a->grad + ppo__at(from, inner);
    ppo__k()->gemm(to - from, inner, out, node->out[0]->grad + ppo__at(from, out), out, 1, b->data, inner, da,
                   inner, da, inner);
}

static void ppo__transposed_db(void *user, int range, int from, int to) {
    const ppo_node   *node = (const ppo_node *)user;
    const ppo_tensor *a = node->in[0], *b = node->in[1];
    int               inner = a->cols, out = b->rows;
    float            *db = b->grad + ppo__at(from, inner);
    ppo__k()->gemm(to - from, inner, a->rows, node->out[0]->grad + from, 1, out, a->data, inner, db, inner,
                   db, inner);
}

static void ppo__transposed_backward(ppo_node *node) {
    const ppo_tensor *a = node->in[0], *b = node->in[1];
    if (a->grad) ppo__parallel_for(a->rows, PPO__ROW_GRAIN, (double)ppo__size(b), ppo__transposed_da, node);
    if (b->grad) ppo__parallel_for(b->rows, PPO__ROW_GRAIN, (double)ppo__size(a), ppo__transposed_db, node);
}

PPO_DEF ppo_tensor *ppo_tape_matmul_transposed(ppo_tape *tape, ppo_tensor *a, ppo_tensor *b) {
    static const ppo_op op = {"matmul_transposed", 1, ppo__transposed_forward, ppo__transposed_backward};
    if (!ppo__operands(tape, op.name, a, b)) return NULL;
    if (a->cols != b->cols) return ppo__shape_error(tape, op.name, a, b);
    ppo_tensor *in[2] = {a, b};
    return ppo_tape_result(ppo_tape_apply(tape, &op, in, 2, a->rows, b->rows, NULL, 0));
}

static ppo_status ppo__embedding_forward(ppo_node *node) {
    const int        *index = *(const int *const *)node->args;
    const ppo_tensor *table = node->in[0];
    ppo_tensor       *out = node->out[0];
    ppo_status        status = ppo__check_index("embedding", index, out->rows, table->rows);
    for (int i = 0; i < out->rows && !status; ++i)
        memcpy(out->data + ppo__at(i, out->cols), table->data + ppo__at(index[i], out->cols),
               out->cols * sizeof(float));
    return status;
}

static void ppo__embedding_backward(ppo_node *node) {
    const int        *index = *(const int *const *)node->args;
    const ppo_tensor *out = node->out[0];
    for (int i = 0; i < out->rows && node->in[0]->grad; ++i)
        ppo__k()->add(out->grad + ppo__at(i, out->cols), node->in[0]->grad + ppo__at(index[i], out->cols),
                      (size_t)out->cols);
}

PPO_DEF ppo_tensor *ppo_tape_embedding(ppo_tape *tape, ppo_tensor *table, const int *index, int n) {
    static const ppo_op op = {"embedding", 1, ppo__embedding_forward, ppo__embedding_backward};
    if (!ppo__operands(tape, op.name, table, index ? table : NULL)) return NULL;
    return ppo_tape_result(ppo_tape_apply(tape, &op, &table, 1, n, table->cols, &index, sizeof index));
}

/* Layer norm, or RMS norm: not centred. kept: mean and 1 / standard deviation of each row */
typedef struct ppo__norm_args {
    int   centred;
    float eps;
} ppo__norm_args;

static void ppo__norm_rows(void *user, int range, int from, int to) {
    const ppo_node       *node = (const ppo_node *)user;
    const ppo__norm_args *args = (const ppo__norm_args *)node->args;
    const ppo_tensor     *x = node->in[0], *w = node->in[1], *b = node->in[2];
    float                *kept = (float *)node->kept + ppo__at(2, from);
    for (int i = from; i < to; ++i, kept += 2) {
        size_t at = ppo__at(i, x->cols);
        ppo__k()->norm(args->centred, args->eps, x->data + at, w->data, b ? b->data : NULL,
                       node->out[0]->data + at, x->cols, &kept[0], &kept[1]);
    }
}

static ppo_status ppo__norm_forward(ppo_node *node) {
    const ppo_tensor *x = node->in[0];
    node->kept = ppo_tape_alloc(node->tape, ppo__at(2, x->rows));
    if (!node->kept) return PPO_ERROR_MEMORY;
    ppo__parallel_for(x->rows, 1, 1000 + 20.0 * x->cols, ppo__norm_rows, node);
    return PPO_OK;
}

static void ppo__norm_backward(ppo_node *node) {
    const ppo_tensor *x = node->in[0], *w = node->in[1], *b = node->in[2];
    const float      *kept = (const float *)node->kept;
    for (int i = 0; i < x->rows; ++i, kept += 2) {
        size_t at = ppo__at(i, x->cols);
        ppo__k()->norm_backward(((const ppo__norm_args *)node->args)->centred, x->data + at, w->data, kept[0],
                                kept[1], node->out[0]->grad + at, x->grad ? x->grad + at : NULL, w->grad,
                                b ? b->grad : NULL, x->cols);
    }
}

static ppo_tensor *ppo__tape_norm(ppo_tape *tape, const char *name, ppo_tensor *x, ppo_tensor *weight,
                                  ppo_tensor *bias, int centred, float eps) {
    static const ppo_op  op = {"norm", 1, ppo__norm_forward, ppo__norm_backward};
    const ppo__norm_args args = {centred, eps};
    if (!ppo__operands(tape, name, x, weight) || (centred && !ppo__operands(tape, name, x, bias)))
        return NULL;
    if (weight->rows != 1 || weight->cols != x->cols) return ppo__shape_error(tape, name, x, weight);
    if (bias && (bias->rows != 1 || bias->cols != x->cols)) return ppo__shape_error(tape, name, x, bias);
    if (!(eps > 0 && eps <= FLT_MAX)) {
        ppo__refuse("%s: eps is %g, must be above 0", name, (double)eps);
        return (ppo_tensor *)ppo__tape_fail(tape, PPO_ERROR_ARGUMENT);
    }
    ppo_tensor *in[3] = {x, weight, bias};
    return ppo_tape_result(ppo_tape_apply(tape, &op, in, 3, x->rows, x->cols, &args, sizeof args));
}

PPO_DEF ppo_tensor *ppo_tape_layer_norm(ppo_tape *tape, ppo_tensor *x, ppo_tensor *weight, ppo_tensor *bias,
                                        float eps) {
    return ppo__tape_norm(tape, "layer_norm", x, weight, bias, 1, eps);
}

PPO_DEF ppo_tensor *ppo_tape_rms_norm(ppo_tape *tape, ppo_tensor *x, ppo_tensor *weight, float eps) {
    return ppo__tape_norm(tape, "rms_norm", x, weight, NULL, 0, eps);
}

/* y = f(a) b, with x = (a, b). kept: f(a). Backward: db += dy f(a), da += dy b f'(a). */
static void ppo__gated_rows(void *user, int range, int from, int to) {
    const ppo_node        *node = (const ppo_node *)user;
    const ppo__activation *f = &ppo__activations[*(const int *)node->args];
    const int              n = node->out[0]->cols;
    for (int i = from; i < to; ++i) {
        const float *a = node->in[0]->data + ppo__at(i, 2 * n), *b = a + n;
        float       *y = node->out[0]->data + ppo__at(i, n), *fa = (float *)node->kept + ppo__at(i, n);
        if (f->value) f->value(a, fa, (size_t)n, 0, 0);
        else memcpy(fa, a, n * sizeof(float));
        for (int j = 0; j < n; ++j) y[j] = fa[j] * b[j];
    }
}

static void ppo__gated_rows_backward(void *user, int range, int from, int to) {
    const ppo_node        *node = (const ppo_node *)user;
    const ppo__activation *f = &ppo__activations[*(const int *)node->args];
    const int              n = node->out[0]->cols;
    for (int i = from; i < to; ++i) {
        const float *a = node->in[0]->data + ppo__at(i, 2 * n), *b = a + n,
                    *dy = node->out[0]->grad + ppo__at(i, n);
        float *da = node->in[0]->grad + ppo__at(i, 2 * n), *db = da + n,
              *fa = (float *)node->kept + ppo__at(i, n);
        float *dz = node->scratch + ppo__at(i, n);
        for (int j = 0; j < n; ++j) db[j] += dy[j] * fa[j];
        for (int j = 0; j < n; ++j) dz[j] = dy[j] * b[j];
        if (f->backward) f->backward(f->keeps_z ? a : fa, dz, (size_t)n);
        for (int j = 0; j < n; ++j) da[j] += dz[j];
    }
}

static ppo_status ppo__gated_forward(ppo_node *node) {
    node->kept = ppo_tape_alloc(node->tape, ppo__size(node->out[0]));
    if (!node->kept) return PPO_ERROR_MEMORY;
    ppo__parallel_for(node->out[0]->rows, 1, 20.0 * node->out[0]->cols, ppo__gated_rows, node);
    return PPO_OK;
}

static void ppo__gated_backward(ppo_node *node) {
    if (!node->in[0]->grad) return;
    node->scratch = ppo_tape_alloc(node->tape, ppo__size(node->out[0]));
    if (node->scratch)
        ppo__parallel_for(node->out[0]->rows, 1, 20.0 * node->out[0]->cols, ppo__gated_rows_backward, node);
}

PPO_DEF ppo_tensor *ppo_tape_gated(ppo_tape *tape, ppo_tensor *x, int activation) {
    static const ppo_op op = {"gated", 1, ppo__gated_forward, ppo__gated_backward};
    if (!ppo__operands(tape, op.name, x, x)) return NULL;
    ppo_status status = ppo__check_activation(op.name, activation);
    if (!status && x->cols % 2) status = ppo__refuse("gated: %d columns, must be an even number", x->cols);
    if (status) return (ppo_tensor *)ppo__tape_fail(tape, status);
    return ppo_tape_result(
        ppo_tape_apply(tape, &op, &x, 1, x->rows, x->cols / 2, &activation, sizeof activation));
}

/* *value = the function's result */
static ppo_status ppo__scalar_at(ppo_scalar_fn build, ppo_tape *tape, ppo_tensor *const *inputs, void *user,
                                 float *value) {
    ppo_tape_reset(tape);
    ppo_tensor *result = build(tape, inputs, user);
    if (ppo_tape_status(tape)) return tape->status;
    if (!result || result->rows != 1 || result->cols != 1)
        return ppo__refuse("ppo_check_gradients: the function's result is not (1, 1)");
    *value = result->data[0];
    return PPO_OK;
}

/* Gradients start from this, so that an operation which overwrites instead of adding is detected. A power of
   two about as large as the gradients, so that adding it costs few digits. */
#define PPO__PREFILL 0.125f

static void ppo__fill_gradients(ppo_tensor *const *inputs, int n_inputs, float x) {
    for (int k = 0; k < n_inputs; ++k)
        for (size_t i = 0; i < ppo__size(inputs[k]); ++i) inputs[k]->grad[i] = x;
}

PPO_DEF ppo_status ppo_check_gradients(ppo_scalar_fn build, ppo_tensor *const *inputs, int n_inputs,
                                       void *user, float epsilon, float tolerance, float *max_error) {
    if (max_error) *max_error = NAN;
    if (!build || !inputs || n_inputs <= 0 || !(epsilon > 0))
        return ppo__refuse("ppo_check_gradients: needs a function, inputs and epsilon > 0");
    for (int k = 0; k < n_inputs; ++k) {
        if (!inputs[k] || !inputs[k]->data || !inputs[k]->grad)
            return ppo__refuse("ppo_check_gradients: input %d lacks data or grad", k);
    }
    ppo_tape  *tape = NULL;
    ppo_status status = ppo_tape_create(&tape), wrong = PPO_OK;
    if (status) return status;
    ppo__fill_gradients(inputs, n_inputs, PPO__PREFILL);
    status = ppo_tape_backward(tape, build(tape, inputs, user));
    ppo_tape_record(tape, 0);
    float worst = status ? NAN : 0.0f;
    for (int k = 0; k < n_inputs && !status; ++k) {
        for (size_t i = 0; i < ppo__size(inputs[k]) && !status; ++i) {
            float *x = &inputs[k]->data[i], kept = *x, above = 0, below = 0;
            *x = kept + epsilon;
            float span = *x;
            status = ppo__scalar_at(build, tape, inputs, user, &above);
            *x = kept - epsilon;
            span -= *x;
            if (!status) status = ppo__scalar_at(build, tape, inputs, user, &below);
            *x = kept;
            if (status) break;
            float numeric = (above - below) / span, analytic = inputs[k]->grad[i] - PPO__PREFILL;
            float scale = ppo__max(0.1f, ppo__max(fabsf(analytic), fabsf(numeric)));
            float error = fabsf(analytic - numeric) / scale;
            if (!(error <= worst)) worst = error; /* NaN counts as the worst */
            if (!(error <= tolerance) && !wrong)
                wrong = ppo_fail(PPO_ERROR_NUMERIC,
                                 "gradient of input %d at (%d, %d) is %g, finite differences say %g", k,
                                 (int)(i / (size_t)inputs[k]->cols), (int)(i % (size_t)inputs[k]->cols),
                                 (double)analytic, (double)numeric);
        }
    }
    ppo__fill_gradients(inputs, n_inputs, 0);
    if (max_error) *max_error = worst;
    ppo_tape_free(tape);
    return status ? status : wrong;
}

/* --------------------------------------------------------------------------------------------------------
   @@ 6 Files
   --------------------------------------------------------------------------------------------------------

   A ppo_file holds two lists, of arrays and of texts, sorted by name; all else is in its arena. Writing makes
   the header twice: first to count its bytes, then into the file. Reading parses the header where it lies: a
   string is never longer than its spelling, so it is decoded in place, and names and texts point into the
   header. Its depth is fixed, so nothing is recursive. Every save in this library goes through
   ppo__write_file(), which replaces the old file in one step. */

/* Arrays are written from the last type to the first, as by the reference implementation: with the largest
   elements first, each array starts at a multiple of its element's size. */
static const struct {
    const char *name;
    int         size;
} ppo__types[] = {{"BOOL", 1}, {"U8", 1},  {"F16", 2}, {"BF16", 2}, {"I32", 4},
                  {"U32", 4},  {"F32", 4}, {"F64", 8}, {"I64", 8},  {"U64", 8}};

#define PPO__METADATA "__metadata__" /* the name that no array can have */

typedef struct ppo__entry {
    ppo_array   array;
    const char *text;       /* if it is a text, of which array has only the name */
    int64_t     begin, end; /* while it is read: where its bytes lie, from the end of the header */
    int         taken;      /* 1: a model has read it */
} ppo__entry;

struct ppo_file {
    ppo__arena   memory; /* holds all but the two lists */
    const char  *path;   /* for messages */
    ppo__entry **arrays, **texts;
    FILE        *in;   /* of which arrays are read when they are needed; NULL: all are in memory */
    int64_t      data; /* where the first of them begins */
};

/* "path: what is wrong". A long path loses its beginning. Control characters in quoted parts of a file must
   not reach a terminal. */
static PPO__PRINTF(2, 3) ppo_status ppo__file_fail(const char *path, const char *format, ...) {
    char    what[PPO__ERROR_SIZE];
    size_t  most = 100, cut = strlen(path) > most ? strlen(path) - most : 0;
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    for (char *c = what; *c; ++c) *c = (unsigned char)*c < ' ' || *c == 127 ? '?' : *c;
    return ppo_fail(PPO_ERROR_FILE, "%s%s: %s", cut ? "..." : *path ? "" : "\"\"", path + cut, what);
}

/* What the system refused. done: "written", "read". */
static ppo_status ppo__file_failed(const char *path, const char *done, int reason) {
    return ppo__file_fail(path, "cannot be %s: %s", done, strerror(reason));
}

/* Puts the file's name before the sentence of the last failure. */
static PPO__NOINLINE ppo_status ppo__file_blame(const ppo_file *file) {
    return ppo__file_fail(file->path, "%s", ppo__error);
}

static int ppo__by_name(const void *a, const void *b) {
    const ppo__entry *x = *(const ppo__entry *const *)a, *y = *(const ppo__entry *const *)b;
    return strcmp(x->array.name, y->array.name);
}

/* The index of `name` in a sorted list, or the one that it would have. */
static size_t ppo__place(ppo__entry *const *list, const char *name) {
    size_t low = 0, high = stbds_arrlenu(list);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(list[middle]->array.name, name) < 0) low = middle + 1;
        else high = middle;
    }
    return low;
}

static ppo__entry *ppo__find_entry(ppo__entry *const *list, const char *name) {
    size_t at = name ? ppo__place(list, name) : 0;
    return name && at < stbds_arrlenu(list) && strcmp(list[at]->array.name, name) == 0 ? list[at] : NULL;
}

/* A new entry at index `at` of a list, in the file's memory; NULL on failure, or if name is NULL. */
static ppo__entry *ppo__insert(ppo_file *file, ppo__entry ***list, size_t at, const char *name) {
    ppo__entry *entry = name ? PPO__ZEROS(&file->memory, ppo__entry, 1) : NULL;
    if (!entry || PPO__PUSH(*list, entry)) return NULL;
    entry->array.name = name;
    ppo__entry **place = *list + at;
    memmove((void *)(place + 1), (void *)place, (stbds_arrlenu(*list) - 1 - at) * sizeof *place);
    return *place = entry;
}

/* The bytes of an array; -1 where a size is negative or the product too large. */
static int64_t ppo__shape_bytes(int type, const int64_t *shape, int rank) {
    int64_t bytes = ppo__types[type].size, most = (int64_t)(SIZE_MAX / 4);
    for (int k = 0; k < rank; ++k) {
        if (shape[k] < 0 || (shape[k] && bytes > most / shape[k])) return -1;
        bytes *= shape[k];
    }
    return bytes;
}

enum { PPO__SHAPE_SIZE = 16 + 22 * PPO_MAX_RANK };

/* "F32 (4, 64)" */
static const char *ppo__shape_text(char text[PPO__SHAPE_SIZE], int type, const int64_t *shape, int rank) {
    char *at = text + snprintf(text, 16, "%s (", ppo__types[type].name);
    for (int k = 0; k < rank; ++k) at += snprintf(at, 24, k ? ", %lld" : "%lld", (long long)shape[k]);
    strcpy(at, ")");
    return text;
}

PPO_DEF ppo_status ppo_file_create(ppo_file **file) {
    if (!ppo__given("ppo_file_create", file != NULL)) return PPO_ERROR_ARGUMENT;
    *file = (ppo_file *)ppo__alloc(sizeof **file);
    if (!*file) return PPO_ERROR_MEMORY;
    (*file)->path = "(new file)";
    return PPO_OK;
}

PPO_DEF PPO__NOINLINE void ppo_file_free(ppo_file *file) {
    if (!file) return;
    if (file->in) fclose(file->in);
    ppo__arena_free(&file->memory);
    ppo__array_free((void *)file->arrays);
    ppo__array_free((void *)file->texts);
    ppo__free(file);
}

static char *ppo__copy_text(ppo_file *file, const char *text) {
    char *copy = PPO__ARRAY(&file->memory, char, strlen(text) + 1);
    return copy ? strcpy(copy, text) : NULL;
}

PPO_DEF ppo_status ppo_file_set_text(ppo_file *file, const char *key, const char *text) {
    if (!ppo__given("ppo_file_set_text", file && key && text)) return PPO_ERROR_ARGUMENT;
    if (!ppo__is_utf8(key) || !ppo__is_utf8(text))
        return ppo__refuse("ppo_file_set_text: text \"%.60s\" is not UTF-8", key);
    ppo__entry *entry = ppo__find_entry(file->texts, key);
    const char *copy = ppo__copy_text(file, text);
    if (copy && !entry)
        entry = ppo__insert(file, &file->texts, ppo__place(file->texts, key), ppo__copy_text(file, key));
    if (!copy || !entry) return PPO_ERROR_MEMORY;
    entry->text = copy;
    return PPO_OK;
}

/* Checks the description of an array that a caller of `function` gave. */
static ppo_status ppo__check_array(const char *function, const char *name, int type, const int64_t *shape,
                                   int rank) {
    if (!name || !ppo__is_utf8(name) || strcmp(name, PPO__METADATA) == 0)
        return ppo__refuse("%s: an array cannot be called \"%.60s\"", function, name ? name : "NULL");
    if (type < 0 || type > PPO_U64 || rank < 0 || rank > PPO_MAX_RANK || (rank && !shape) ||
        ppo__shape_bytes(type, shape, rank) < 0)
        return ppo__refuse("%s: type %d, rank %d or the shape of \"%.60s\" is impossible", function, type,
                           rank, name);
    return PPO_OK;
}

PPO_DEF ppo_status ppo_file_add(ppo_file *file, const char *name, int type, const int64_t *shape, int rank,
                                const void *data) {
    if (!ppo__given("ppo_file_add", file != NULL)) return PPO_ERROR_ARGUMENT;
    if (ppo__check_array("ppo_file_add", name, type, shape, rank)) return PPO_ERROR_ARGUMENT;
    size_t bytes = (size_t)ppo__shape_bytes(type, shape, rank), place = ppo__place(file->arrays, name);
    if (bytes && !data) return ppo__refuse("ppo_file_add: \"%.60s\" has no data", name);
    if (ppo_file_find(file, name)) return ppo__refuse("ppo_file_add: \"%.60s\" exists already", name);
    ppo__entry *entry = ppo__insert(file, &file->arrays, place, ppo__copy_text(file, name));
    if (!entry) return PPO_ERROR_MEMORY;
    const ppo_array array = {entry->array.name, type, rank, {0}, bytes, data};
    entry->array = array;
    if (rank) memcpy(entry->array.shape, shape, (size_t)rank * sizeof *shape);
    return PPO_OK;
}

PPO_DEF const ppo_array *ppo_file_find(const ppo_file *file, const char *name) {
    const ppo__entry *entry = file ? ppo__find_entry(file->arrays, name) : NULL;
    return entry ? &entry->array : NULL;
}

PPO_DEF PPO__NOINLINE const char *ppo_file_text(const ppo_file *file, const char *key) {
    const ppo__entry *entry = file ? ppo__find_entry(file->texts, key) : NULL;
    return entry ? entry->text : NULL;
}

PPO_DEF int ppo_file_count(const ppo_file *file) { return file ? (int)stbds_arrlenu(file->arrays) : 0; }
PPO_DEF int ppo_file_text_count(const ppo_file *file) { return file ? (int)stbds_arrlenu(file->texts) : 0; }

PPO_DEF const ppo_array *ppo_file_at(const ppo_file *file, int index) {
    return index >= 0 && index < ppo_file_count(file) ? &file->arrays[index]->array : NULL;
}

PPO_DEF const char *ppo_file_key_at(const ppo_file *file, int index) {
    return index >= 0 && index < ppo_file_text_count(file) ? file->texts[index]->array.name : NULL;
}

PPO_DEF ppo_status ppo_file_expect(const ppo_file *file, const char *name, int type, const int64_t *shape,
                                   int rank, const ppo_array **array) {
    if (!ppo__given("ppo_file_expect", file && array)) return PPO_ERROR_ARGUMENT;
    *array = NULL;
    if (ppo__check_array("ppo_file_expect", name, type, shape, rank)) return PPO_ERROR_ARGUMENT;
    char             is[PPO__SHAPE_SIZE], wanted[PPO__SHAPE_SIZE];
    const ppo_array *found = ppo_file_find(file, name);
    ppo__shape_text(wanted, type, shape, rank);
    if (!found) return ppo__file_fail(file->path, "there is no \"%.60s\", %s", name, wanted);
    if (strcmp(ppo__shape_text(is, found->type, found->shape, found->rank), wanted) != 0)
        return ppo__file_fail(file->path, "\"%.60s\" is %s, not %s", name, is, wanted);
    *array = found;
    return PPO_OK;
}

/* -- replacing a file -- */

/* Is something at path that is neither read as a file nor replaced by one: a directory, a device? */
static int ppo__is_special(const char *path) {
#if defined(PPO__UNIX)
    struct stat found;
    return stat(path, &found) == 0 && !S_ISREG(found.st_mode);
#elif defined(_WIN32)
    DWORD found = GetFileAttributesA(path);
    return found != INVALID_FILE_ATTRIBUTES && (found & FILE_ATTRIBUTE_DIRECTORY);
#else
    return 0;
#endif
}

/* Makes the directories of a path that are missing. Returns 0, or the errno of the first that could not be
   made, which matters only if the file cannot be opened then. */
static int ppo__make_directories(char *path) {
    int cause = 0;
    for (char *c = path; *path && (c = strpbrk(c + 1, PPO__SLASHES)) != NULL;) {
        char slash = *c;
        *c = 0;
        if (PPO__MKDIR(path) && errno != EEXIST && !cause) cause = errno;
        *c = slash;
    }
    return cause;
}

/* Opens a file that must not exist yet. */
static FILE *ppo__open_new(const char *path) {
#if defined(_WIN32) /* where fopen() may not know "x" */
    int descriptor = _open(path, _O_CREAT | _O_EXCL | _O_WRONLY | _O_BINARY, _S_IREAD | _S_IWRITE);
    return descriptor < 0 ? NULL : _fdopen(descriptor, "wb");
#else
    return fopen(path, "wbx"); /* C11, and older in Unix */
#endif
}

/* Waits until an open file's bytes, or the names in a directory (file NULL), are on the disk; 0: they are. */
static int ppo__sync(FILE *file, const char *path) {
    int failed = file && fflush(file);
#if defined(PPO__UNIX) /* opened again, as strict C99 hides the descriptor of a FILE: any one will do */
    int descriptor = failed ? -1 : open(path, O_RDONLY);
    if (descriptor < 0) return -1;
    failed = fsync(descriptor);
    close(descriptor);
#elif defined(_WIN32)
    failed = failed || (file && _commit(_fileno(file)));
#endif
    return failed;
}

/* Has write() fill a new file in the same directory, which then replaces the one at path. Names that other
   threads, or killed processes, have taken are skipped. */
static ppo_status ppo__write_file(const char *path,
                                  ppo_status (*write)(FILE *out, const char *path, void *user), void *user) {
    enum { NAME = 48, MOST = 1000 };
    if (ppo__is_special(path)) return ppo__file_fail(path, "cannot be written: it is not a plain file");
    char *temporary = (char *)ppo__alloc(strlen(path) + NAME), *name = temporary;
    if (!temporary) return PPO_ERROR_MEMORY;
    int   cause = ppo__make_directories(strcpy(temporary, path));
    FILE *out = NULL;
    for (char *c = temporary; *c; ++c) name = strchr(PPO__SLASHES, *c) ? c + 1 : name;
    for (int i = 0; i < MOST && !out && (i == 0 || errno == EEXIST); ++i) {
        snprintf(name, NAME, "ppo-%ld-%d.tmp", PPO__PROCESS_ID(), i);
        out = ppo__open_new(temporary);
    }
    ppo_status status = out ? write(out, path, user) : PPO_OK;
    int        failed = !out || (!status && (ferror(out) || ppo__sync(out, temporary)));
    int        reason = !out && errno == ENOENT && cause ? cause : errno;
    if (out && fclose(out) && !failed) failed = 1, reason = errno;
    if (!status && !failed && PPO__MOVE(temporary, path)) failed = 1, reason = errno;
    if (failed && !status) status = ppo__file_failed(path, "written", reason);
    if (out && status) remove(temporary);
    *name = 0;
    if (!status) ppo__sync(NULL, *temporary ? temporary : "."); /* which some file systems cannot do */
    ppo__free(temporary);
    return status;
}

/* -- writing -- */

enum { PPO__MAX_HEADER = 100000000 }; /* the reference implementation's limit */

/* What a backslash and a letter stand for in JSON; a slash is never written so. */
static const char ppo__escape_letters[] = "\"\\bfnrt/", ppo__escape_bytes[] = "\"\\\b\f\n\r\t/";

static int ppo__is_big_endian(void) {
    const uint16_t one = 1;
    return !*(const unsigned char *)&one;
}

/* Changes elements of `size` bytes from memory's order of bytes to that of a file, or back. */
static void ppo__swap_bytes(void *data, size_t bytes, int size) {
    if (!ppo__is_big_endian()) return;
    for (unsigned char *x = (unsigned char *)data, *end = x + bytes; x < end; x += size) {
        for (int k = 0; k < size / 2; ++k) {
            unsigned char swap = x[k];
            x[k] = x[size - 1 - k];
            x[size - 1 - k] = swap;
        }
    }
}

/* ppo__fnv1a() of an array's bytes in a file. */
static uint64_t ppo__hash_array(uint64_t hash, const ppo_array *array) {
    const unsigned char *bytes = (const unsigned char *)array->data;
    const size_t         flip = ppo__is_big_endian() ? (size_t)ppo__types[array->type].size - 1 : 0;
    for (size_t i = 0; i < array->bytes; ++i) hash = ppo__fnv1a(hash, &bytes[i ^ flip], 1);
    return hash;
}

/* What makes a header; without a file it only counts. */
typedef struct ppo__header {
    FILE   *out; /* may be NULL */
    int64_t length;
} ppo__header;

static PPO__PRINTF(2, 3) void ppo__put(ppo__header *header, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int length = header->out ? vfprintf(header->out, format, args) : vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length > 0) header->length += length;
}

static void ppo__put_string(ppo__header *header, const char *text) {
    static const char special[] =
        "\"\\\1\2\3\4\5\6\7\b\t\n\13\f\r\16\17\20\21\22\23\24\25\26\27\30\31\32\33\34\35\36\37";
    ppo__put(header, "\"");
    for (;; ++text) {
        size_t plain = strcspn(text, special);
        ppo__put(header, "%.*s", plain < PPO__MAX_HEADER ? (int)plain : PPO__MAX_HEADER, text);
        text += plain;
        if (!*text) break;
        const char *known = strchr(ppo__escape_bytes, *text);
        if (known) ppo__put(header, "\\%c", ppo__escape_letters[known - ppo__escape_bytes]);
        else ppo__put(header, "\\u%04x", (unsigned)*text);
    }
    ppo__put(header, "\"");
}

/* The arrays one after another as they lie in the file, by type and then by name: NULL after the last. */
static const ppo_array *ppo__next_in_data(const ppo_file *file, int *type, int *index) {
    for (; *type >= 0; --*type, *index = 0) {
        while (*index < ppo_file_count(file)) {
            const ppo_array *array = ppo_file_at(file, (*index)++);
            if (array->type == *type) return array;
        }
    }
    return NULL;
}

/* A header, padded; returns its length. Failures stay in `out`, for ferror(). */
static int64_t ppo__put_header(FILE *out, const ppo_file *file) {
    ppo__header        header = {out, 0};
    unsigned long long begin = 0;
    int                type = PPO_U64, index = 0, texts = ppo_file_text_count(file);
    const char        *comma = texts ? "," : "";
    ppo__put(&header, "{");
    for (int i = 0; i < texts; ++i) {
        ppo__put(&header, "%s", i ? "," : "\"" PPO__METADATA "\":{");
        ppo__put_string(&header, file->texts[i]->array.name);
        ppo__put(&header, ":");
        ppo__put_string(&header, file->texts[i]->text);
    }
    if (texts) ppo__put(&header, "}");
    for (const ppo_array *array; (array = ppo__next_in_data(file, &type, &index)); comma = ",") {
        ppo__put(&header, "%s", comma);
        ppo__put_string(&header, array->name);
        ppo__put(&header, ":{\"dtype\":\"%s\",\"shape\":[", ppo__types[array->type].name);
        for (int k = 0; k < array->rank; ++k)
            ppo__put(&header, "%s%lld", k ? "," : "", (long long)array->shape[k]);
        ppo__put(&header, "],\"data_offsets\":[%llu,%llu]}", begin, begin + array->bytes);
        begin += array->bytes;
    }
    ppo__put(&header, "}");
    ppo__put(&header, "%*s", (int)(-header.length & 7), "");
    return header.length;
}

/* Writes all of a file. What goes wrong on the way is seen by ppo__write_file(). */
static ppo_status ppo__write_arrays(FILE *out, const char *path, void *user) {
    const ppo_file *file = (const ppo_file *)user;
    unsigned char   buffer[16 * 1024];
    uint64_t        length = (uint64_t)ppo__put_header(NULL, file);
    int             type = PPO_U64, index = 0;
    if (length > PPO__MAX_HEADER)
        return ppo__file_fail(path, "names and texts of %.0f bytes cannot be written", (double)length);
    for (int k = 0; k < 8; ++k) fputc((int)(length >> 8 * k & 255), out);
    ppo__put_header(out, file);
    for (const ppo_array *array; (array = ppo__next_in_data(file, &type, &index));) {
        for (size_t at = 0, n; at < array->bytes && !ferror(out); at += n) {
            n = array->bytes - at < sizeof buffer ? array->bytes - at : sizeof buffer;
            memcpy(buffer, (const char *)array->data + at, n);
            ppo__swap_bytes(buffer, n, ppo__types[array->type].size);
            fwrite(buffer, 1, n, out);
        }
    }
    return PPO_OK;
}

PPO_DEF ppo_status ppo_file_write(const ppo_file *file, const char *path) {
    if (!ppo__given("ppo_file_write", file && path)) return PPO_ERROR_ARGUMENT;
    return ppo__write_file(path, ppo__write_arrays, (void *)file);
}

/* -- reading -- */

/* A reader of JSON that takes one value after another. `at` may be set back to a value that was skipped, but
   not to one that was taken: strings are decoded where they lie. */
typedef struct ppo__json {
    const char *path,
        *part; /* for messages: the file, and what of it is read, as " of the header"; "": all */
    char      *start, *at, *end; /* of the text, which ends with a 0 */
    ppo_status status;           /* after the first failure nothing is taken */
} ppo__json;

/* word: a part of the file to quote, or NULL */
static PPO__NOINLINE void ppo__json_fail(ppo__json *json, const char *what, const char *word) {
    const char *quote = word ? "\"" : "";
    if (json->status) return;
    json->status = ppo__file_fail(json->path, "byte %ld%s: %s%s%.60s%s", (long)(json->at - json->start),
                                  json->part, what, quote, word ? word : "", quote);
}

static void ppo__json_skip_space(ppo__json *json) {
    while (*json->at && strchr(" \t\n\r", *json->at)) ++json->at;
}

/* Takes this character if it comes next. */
static int ppo__json_take(ppo__json *json, char c) {
    ppo__json_skip_space(json);
    if (json->status || *json->at != c) return 0;
    ++json->at;
    return 1;
}

static void ppo__json_expect(ppo__json *json, char c) {
    const char word[2] = {c, 0};
    if (!ppo__json_take(json, c)) ppo__json_fail(json, "expected ", word);
}

/* Steps through a list: 1 while there is another element, the n-th, and 0 after the closing bracket. */
static int ppo__json_next(ppo__json *json, char close, int *n) {
    if (*n == 0 ? ppo__json_take(json, close) : !ppo__json_take(json, ',')) {
        if (*n) ppo__json_expect(json, close);
        return 0;
    }
    ++*n;
    return !json->status;
}

/* 0 or more; -1 after a failure. */
static int64_t ppo__json_whole(ppo__json *json) {
    const char *rest;
    ppo__json_skip_space(json);
    int64_t number = json->status ? -1 : ppo__parse_digits(json->at, &rest);
    if (number < 0) return ppo__json_fail(json, "expected a whole number below 2^63", NULL), -1;
    json->at += rest - json->at;
    return number;
}

/* [4, 64]; returns how many numbers there are, of which it keeps no more than `most`. */
static int ppo__json_numbers(ppo__json *json, int64_t *numbers, int most) {
    int n = 0;
    ppo__json_expect(json, '[');
    while (ppo__json_next(json, ']', &n)) {
        int64_t number = ppo__json_whole(json);
        if (n <= most) numbers[n - 1] = number;
    }
    return n;
}

/* The number in \uXXXX, which it takes; 0 if that is 0, which no text holds, or something else comes next. */
static int32_t ppo__json_unicode(ppo__json *json) {
    char digits[5] = "";
    if (json->at[0] != '\\' || json->at[1] != 'u') return 0;
    if (strspn(json->at + 2, "0123456789abcdefABCDEF") < 4) return 0;
    memcpy(digits, json->at + 2, 4);
    json->at += 6;
    return (int32_t)strtol(digits, NULL, 16);
}

/* Takes an escape, writes the bytes that it stands for, and returns the end of them. */
static char *ppo__json_escape(ppo__json *json, char *out) {
    const char *letter = json->at[1] ? strchr(ppo__escape_letters, json->at[1]) : NULL;
    if (letter) {
        json->at += 2;
        *out = ppo__escape_bytes[letter - ppo__escape_letters];
        return out + 1;
    }
    int32_t code = ppo__json_unicode(json);
    if (code >= 0xd800 && code < 0xdc00) { /* the first half of a pair that stands for one character */
        int32_t second = ppo__json_unicode(json) - 0xdc00;
        if (second >= 0 && second < 0x400) code = 0x10000 + (code - 0xd800) * 0x400 + second;
    }
    if (!code || (code >= 0xd800 && code < 0xe000))
        ppo__json_fail(json, "an escape that stands for no character", NULL);
    return out + ppo__utf8_put(code, out);
}

/* A string, decoded and ended with a 0; "" after a failure. */
static const char *ppo__json_string(ppo__json *json) {
    ppo__json_expect(json, '"');
    char *text = json->at, *out = text;
    while (!json->status && *json->at != '"') {
        if (*json->at == '\\') out = ppo__json_escape(json, out);
        else if ((unsigned char)*json->at >= ' ') *out++ = *json->at++;
        else
            ppo__json_fail(json, *json->at ? "a control character in a string" : "a string has no end", NULL);
    }
    if (json->status) return "";
    ++json->at;
    *out = 0;
    if (!ppo__is_utf8(text)) ppo__json_fail(json, "a string that is not UTF-8", NULL);
    return text;
}

static const char *ppo__json_key(ppo__json *json) {
    const char *key = ppo__json_string(json);
    ppo__json_expect(json, ':');
    return key;
}

/* What kind of value comes next: one of {["0tfn, where 0 is any number; 0 if it is none. */
static char ppo__json_peek(ppo__json *json) {
    ppo__json_skip_space(json);
    char c = json->status ? (char)0 : *json->at;
    if (c == '-' || (c >= '0' && c <= '9')) return '0';
    return (char)(c && strchr("{[\"tfn", c) ? c : 0);
}

/* Any finite number; 0 after a failure. */
static double ppo__json_number(ppo__json *json) {
    char   text[64];
    double number = 0;
    int    kind = ppo__json_peek(json), length = (int)strspn(json->at, "+-.0123456789Ee");
    int    zero = *json->at == '-';
    snprintf(text, sizeof text, "%.*s", length, json->at);
    if (kind != '0' || (text[zero] == '0' && text[zero + 1] >= '0' && text[zero + 1] <= '9') ||
        length >= (int)sizeof text || !ppo__parse_number(text, &number) || fabs(number) > DBL_MAX)
        return ppo__json_fail(json, "expected a finite number", NULL), 0;
    json->at += length;
    return number;
}

/* Takes one of "null", "false", "true" if it comes next, and nothing else. */
static int ppo__json_word(ppo__json *json, const char *word) {
    size_t length = strlen(word);
    ppo__json_skip_space(json);
    if (json->status || strncmp(json->at, word, length) != 0) return 0;
    json->at += length;
    return 1;
}

/* false or true; 0 after a failure. */
static int ppo__json_bool(ppo__json *json) {
    int yes = ppo__json_word(json, "true");
    if (!yes && !ppo__json_word(json, "false")) ppo__json_fail(json, "expected true or false", NULL);
    return yes;
}

static void ppo__json_skip_string(ppo__json *json) {
    ppo__json_expect(json, '"');
    if (json->status) return;
    for (; *json->at && *json->at != '"'; ++json->at) json->at += *json->at == '\\' && json->at[1];
    if (*json->at) ++json->at;
    else ppo__json_fail(json, "a string has no end", NULL);
}

/* A value of a text that is read as a whole. They are in one array: after each list its elements. */
typedef struct ppo__value {
    char       *at;          /* where it begins */
    const char *key;         /* of a member of an object */
    int         size, count; /* values that it is, with those in it; its elements */
    char        kind;        /* as of ppo__json_peek(); 's': a string that was decoded */
} ppo__value;

/* Takes any value and changes none of its bytes: its strings are not decoded, nor checked. With `values`, which
   has room for all, it lists them and decodes the keys. */
static void ppo__json_walk(ppo__json *json, ppo__value *values) {
    enum { DEPTH = 64 };
    char        close[DEPTH];
    int         count[DEPTH], first[DEPTH], depth = 0, n = 0;
    const char *key = NULL;
    do {
        char             kind = ppo__json_peek(json);
        const ppo__value value = {json->at, key, 1, 0, kind};
        if (values) values[n++] = value;
        if (kind == '{' || kind == '[') {
            if (depth == DEPTH) ppo__json_fail(json, "lists within more than 64 others", NULL);
            if (json->status) return;
            ++json->at;
            close[depth] = (char)(kind + 2); /* in ASCII */
            first[depth] = n - 1;
            count[depth++] = 0;
        } else if (kind == '"') {
            ppo__json_skip_string(json);
        } else if (kind == '0') {
            ppo__json_number(json);
        } else if (!ppo__json_word(json, "null") && !ppo__json_word(json, "true")) {
            if (!ppo__json_word(json, "false")) ppo__json_fail(json, "expected a value", NULL);
        }
        for (; depth && !ppo__json_next(json, close[depth - 1], &count[depth - 1]); --depth) {
            ppo__value *list = values ? &values[first[depth - 1]] : NULL;
            if (list) list->size = n - first[depth - 1], list->count = count[depth - 1];
        }
        if (depth && close[depth - 1] == '}') {
            if (values) key = ppo__json_string(json);
            else ppo__json_skip_string(json);
            ppo__json_expect(json, ':');
        }
    } while (depth && !json->status);
}

static void ppo__json_skip(ppo__json *json) { ppo__json_walk(json, NULL); }

/* Expects nothing but spaces up to the end of the text. */
static void ppo__json_end(ppo__json *json) {
    ppo__json_skip_space(json);
    if (json->at != json->end) ppo__json_fail(json, "expected its end", NULL);
}

/* The values of the whole text, which is an object; NULL after a failure. */
static ppo__value *ppo__json_tree(ppo__json *json, ppo__arena *memory) {
    size_t most = 1; /* all others come after one of these characters */
    if (ppo__json_peek(json) != '{') ppo__json_expect(json, '{');
    if (json->status) return NULL;
    for (const char *c = json->at; c < json->end; ++c) most += *c == ',' || *c == '[' || *c == '{';
    ppo__value *values = PPO__ARRAY(memory, ppo__value, most);
    if (!values) return json->status = PPO_ERROR_MEMORY, (ppo__value *)NULL;
    ppo__json_walk(json, values);
    ppo__json_end(json);
    return json->status ? NULL : values;
}

/* Steps through a list, '[' or '{'; list NULL: an empty one. *item is NULL at first. Sets `at` to it. */
static int ppo__json_each(ppo__json *json, ppo__value *list, char kind, ppo__value **item) {
    if (!list || json->status) return 0;
    json->at = list->at;
    if (list->kind != kind) return ppo__json_expect(json, kind), 0;
    *item = *item ? *item + (*item)->size : list + 1;
    if (*item < list + list->size) json->at = (*item)->at;
    return *item < list + list->size;
}

/* A member of an object, and `at` is set to it; NULL: it is not there, or null, or the object is NULL. */
static ppo__value *ppo__json_get(ppo__json *json, ppo__value *object, const char *key) {
    ppo__value *found = NULL, *item = NULL;
    while (ppo__json_each(json, object, '{', &item)) {
        if (strcmp(item->key, key) != 0) continue;
        if (found) ppo__json_fail(json, "repeated member ", key);
        found = item;
    }
    if (!found || found->kind == 'n' || json->status) return NULL;
    json->at = found->at;
    return found;
}

/* ppo__json_whole() of all of a number. */
static int64_t ppo__json_integer(ppo__json *json) {
    int64_t number = ppo__json_whole(json);
    if (*json->at && strchr(".eE", *json->at)) ppo__json_fail(json, "expected a whole number", NULL);
    return number;
}

/* The text of a value, decoded once. */
static char *ppo__json_decode(ppo__json *json, ppo__value *value) {
    json->at = value->at;
    if (value->kind != 's') value->at = (char *)ppo__json_string(json);
    value->kind = 's';
    return value->at;
}

/* Members, or what they are if they are not there: NULL, `otherwise`. */
static char *ppo__json_text(ppo__json *json, ppo__value *object, const char *key) {
    ppo__value *value = ppo__json_get(json, object, key);
    return value ? ppo__json_decode(json, value) : NULL;
}

static int64_t ppo__json_count(ppo__json *json, ppo__value *object, const char *key) {
    return ppo__json_get(json, object, key) ? ppo__json_integer(json) : 0;
}

static int ppo__json_flag(ppo__json *json, ppo__value *object, const char *key, int otherwise) {
    return ppo__json_get(json, object, key) ? ppo__json_bool(json) : otherwise;
}

static ppo_status ppo__read_bytes(const char *path, FILE *in, void *to, size_t n) {
    if (fread(to, 1, n, in) == n) return PPO_OK;
    return ppo__file_fail(path, "cannot be read: %s", ferror(in) ? strerror(errno) : "it became shorter");
}

/* Opens a plain file to be read, and finds its size; NULL on failure. */
static FILE *ppo__open_old(const char *path, int64_t *size) {
    if (ppo__is_special(path))
        return ppo__file_fail(path, "cannot be read: it is not a plain file"), (FILE *)NULL;
    FILE *in = fopen(path, "rb");
    *size = !in || PPO__SEEK(in, 0, SEEK_END) ? -1 : PPO__TELL(in);
    if (*size >= 0 && !PPO__SEEK(in, 0, SEEK_SET)) return in;
    ppo__file_failed(path, in ? "read" : "opened", errno);
    if (in) fclose(in);
    return NULL;
}

/* Starts to read a file of JSON in UTF-8, whose text is kept in memory. */
static ppo_status ppo__json_open(ppo__json *json, const char *path, ppo__arena *memory) {
    const ppo__json opened = {path, "", NULL, NULL, NULL, PPO_OK};
    int64_t         size;
    FILE           *in = ppo__open_old(path, &size);
    *json = opened;
    if (!in) return json->status = ppo__failed;
    if (size > PPO__MAX_HEADER)
        ppo__file_fail(path, "it has %lld bytes, more than %d", (long long)size, (int)PPO__MAX_HEADER);
    else json->start = PPO__ARRAY(memory, char, (size_t)size + 1);
    json->status = json->start ? ppo__read_bytes(path, in, json->start, (size_t)size) : ppo__failed;
    fclose(in);
    if (json->status) return json->status;
    json->end = json->start + size;
    *json->end = 0;
    json->at = json->start + (strncmp(json->start, "\357\273\277", 3) ? 0 : 3); /* UTF-8's mark */
    return json->status = ppo__is_utf8(json->start) ? PPO_OK : ppo__file_fail(path, "it is not UTF-8");
}

/* {"dtype": "F32", "shape": [4, 64], "data_offsets": [0, 1024]}, in any order. */
static ppo_status ppo__json_entry(ppo__json *json, ppo__entry *entry) {
    char        text[PPO__SHAPE_SIZE];
    ppo_array  *array = &entry->array;
    const char *path = json->path, *name = array->name, *dtype = NULL;
    int64_t     offsets[2] = {0, 0}, bytes;
    int         rank = -1, count = -1, type = PPO_U64;
    ppo__json_expect(json, '{');
    for (int n = 0; ppo__json_next(json, '}', &n);) {
        const char *key = ppo__json_key(json);
        if (strcmp(key, "dtype") == 0 && !dtype) dtype = ppo__json_string(json);
        else if (strcmp(key, "shape") == 0 && rank < 0)
            rank = ppo__json_numbers(json, array->shape, PPO_MAX_RANK);
        else if (strcmp(key, "data_offsets") == 0 && count < 0) count = ppo__json_numbers(json, offsets, 2);
        else ppo__json_fail(json, "unknown or repeated member ", key);
    }
    if (json->status) return json->status;
    if (!dtype || rank < 0 || count < 0)
        return ppo__file_fail(path, "\"%.60s\" lacks dtype, shape or data_offsets", name);
    while (type >= 0 && strcmp(dtype, ppo__types[type].name) != 0) --type;
    if (type < 0)
        return ppo__file_fail(
            path, "\"%.60s\" has dtype \"%.20s\", not BOOL, U8, F16, BF16, I32, U32, F32, F64, I64 or U64",
            name, dtype);
    if (rank > PPO_MAX_RANK)
        return ppo__file_fail(path, "\"%.60s\" has %d dimensions, more than %d", name, rank,
                              (int)PPO_MAX_RANK);
    bytes = ppo__shape_bytes(type, array->shape, rank);
    if (bytes < 0 || count != 2 || bytes != offsets[1] - offsets[0])
        return ppo__file_fail(path, "\"%.60s\" is %s, but lies in bytes %lld to %lld", name,
                              ppo__shape_text(text, type, array->shape, rank), (long long)offsets[0],
                              (long long)offsets[1]);
    array->type = type;
    array->rank = rank;
    array->bytes = (size_t)bytes;
    entry->begin = offsets[0];
    entry->end = offsets[1];
    return PPO_OK;
}

static ppo_status ppo__parse_header(ppo_file *file, char *header, size_t length) {
    ppo__json json = {file->path, " of the header", header, header, header + length, PPO_OK};
    int       seen_texts = 0;
    if (*header != '{') ppo__json_fail(&json, "expected ", "{");
    ppo__json_expect(&json, '{');
    for (int n = 0; ppo__json_next(&json, '}', &n);) {
        const char *name = ppo__json_key(&json);
        if (strcmp(name, PPO__METADATA) != 0) {
            ppo__entry *entry = ppo__insert(file, &file->arrays, stbds_arrlenu(file->arrays), name);
            if (!entry) return PPO_ERROR_MEMORY;
            json.status = ppo__json_entry(&json, entry);
            continue;
        }
        if (seen_texts++) ppo__json_fail(&json, "unknown or repeated member ", name);
        ppo__json_expect(&json, '{');
        for (int k = 0; ppo__json_next(&json, '}', &k);) {
            const char *key = ppo__json_key(&json);
            ppo__entry *entry = ppo__insert(file, &file->texts, stbds_arrlenu(file->texts), key);
            if (!entry) return PPO_ERROR_MEMORY;
            entry->text = ppo__json_string(&json);
        }
    }
    ppo__json_end(&json);
    return json.status;
}

/* Sorts a list by name, and refuses a name that appears twice. */
static ppo_status ppo__sort_by_name(const ppo_file *file, ppo__entry **list) {
    size_t n = stbds_arrlenu(list);
    if (n) qsort((void *)list, n, sizeof *list, ppo__by_name);
    for (size_t i = 1; i < n; ++i)
        if (ppo__by_name(&list[i - 1], &list[i]) == 0)
            return ppo__file_fail(file->path, "\"%.60s\" appears twice", list[i]->array.name);
    return PPO_OK;
}

static int ppo__by_offset(const void *a, const void *b) {
    const ppo__entry *x = *(const ppo__entry *const *)a, *y = *(const ppo__entry *const *)b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* The arrays must follow one another without gap or overlap, and fill the rest of the file: `size` bytes. */
static ppo_status ppo__check_places(ppo_file *file, int64_t size) {
    int64_t at = 0;
    size_t  n = stbds_arrlenu(file->arrays);
    if (n) qsort((void *)file->arrays, n, sizeof *file->arrays, ppo__by_offset);
    for (size_t i = 0; i < n; ++i) {
        const ppo__entry *entry = file->arrays[i];
        if (entry->begin != at || entry->end > size)
            return ppo__file_fail(file->path,
                                  "\"%.60s\" lies in bytes %lld to %lld, not in %lld to at most %lld",
                                  entry->array.name, (long long)entry->begin, (long long)entry->end,
                                  (long long)at, (long long)size);
        at = entry->end;
    }
    if (at == size) return PPO_OK;
    return ppo__file_fail(file->path, "%lld bytes at its end belong to no array", (long long)(size - at));
}

static ppo_status ppo__read_header(ppo_file *file, int64_t size) {
    unsigned char bytes[8];
    uint64_t      length = 0;
    if (size < 8) return ppo__file_fail(file->path, "not a safetensors file: it has %d bytes", (int)size);
    if (ppo__read_bytes(file->path, file->in, bytes, 8)) return PPO_ERROR_FILE;
    for (int k = 0; k < 8; ++k) length |= (uint64_t)bytes[k] << 8 * k;
    if (length > PPO__MAX_HEADER) return ppo__file_fail(file->path, "not a safetensors file");
    if (length > (uint64_t)size - 8)
        return ppo__file_fail(file->path,
                              "not a safetensors file, or truncated: a header of %d in %lld bytes",
                              (int)length, (long long)size);
    char *header = PPO__ARRAY(&file->memory, char, (size_t)length + 1);
    if (!header || ppo__read_bytes(file->path, file->in, header, (size_t)length)) return ppo__failed;
    header[length] = 0;
    file->data = 8 + (int64_t)length;
    if (ppo__parse_header(file, header, (size_t)length) || ppo__sort_by_name(file, file->texts) ||
        ppo__check_places(file, size - file->data))
        return ppo__failed;
    return ppo__sort_by_name(file, file->arrays);
}

/* Opens a file of which arrays are read when they are needed. */
static ppo_status ppo__file_open(const char *path, ppo_file **file) {
    ppo_file *made = NULL;
    int64_t   size;
    if (ppo_file_create(&made)) return PPO_ERROR_MEMORY;
    made->path = ppo__copy_text(made, path);
    if (made->path && (made->in = ppo__open_old(path, &size)) != NULL && !ppo__read_header(made, size))
        return *file = made, PPO_OK;
    return ppo_file_free(made), ppo__failed;
}

/* Bytes begin .. begin + n - 1 of an array, which start and end with an element. */
static ppo_status ppo__file_fetch(const ppo_file *file, const ppo_array *array, size_t begin, size_t n,
                                  void *to) {
    const ppo__entry *entry = (const ppo__entry *)(const void *)array; /* whose first member it is */
    if (array->data || !n) {
        if (n) memcpy(to, (const char *)array->data + begin, n);
        return PPO_OK;
    }
    if (PPO__SEEK(file->in, file->data + entry->begin + (int64_t)begin, SEEK_SET))
        return ppo__file_failed(file->path, "read", errno);
    ppo_status status = ppo__read_bytes(file->path, file->in, to, n);
    if (!status) ppo__swap_bytes(to, n, ppo__types[array->type].size);
    return status;
}

PPO_DEF ppo_status ppo_file_read(const char *path, ppo_file **file) {
    ppo_file *made = NULL;
    if (file) *file = NULL;
    if (!ppo__given("ppo_file_read", path && file)) return PPO_ERROR_ARGUMENT;
    ppo_status status = ppo__file_open(path, &made);
    for (int i = 0; !status && i < ppo_file_count(made); ++i) {
        ppo_array *array = &made->arrays[i]->array;
        void      *data = ppo__arena_array(&made->memory, array->bytes, 1);
        status = data ? ppo__file_fetch(made, array, 0, array->bytes, data) : PPO_ERROR_MEMORY;
        array->data = data;
    }
    if (status) return ppo_file_free(made), status;
    fclose(made->in);
    made->in = NULL;
    *file = made;
    return PPO_OK;
}

/* -- objects in files -- */

/* Which way arrays go. One list serves both, so that what is saved is what is read; and what would be refused
   when it is read is not saved: the file that was there stays. */
enum { PPO__SAVE, PPO__LOAD };

/* An array of an object that is saved. Floats must be finite. */
typedef struct ppo__item {
    const char *name;
    int         type, rank;
    int64_t     shape[2];
    void       *data;     /* NULL: the object has none */
    double      min, max; /* of its numbers; PPO__ANY */
} ppo__item;

#define PPO__ANY -DBL_MAX, DBL_MAX

static double ppo__number_at(const void *data, int type, size_t i) {
    if (type == PPO_F32) return (double)((const float *)data)[i];
    if (type == PPO_U8 || type == PPO_BOOL) return ((const unsigned char *)data)[i];
    if (type == PPO_I32) return ((const int32_t *)data)[i];
    if (type == PPO_U32) return ((const uint32_t *)data)[i];
    if (type == PPO_U64) return (double)((const uint64_t *)data)[i];
    return type == PPO_I64 ? (double)((const int64_t *)data)[i] : ((const double *)data)[i];
}

static ppo_status ppo__check_item(const ppo_file *file, int way, const ppo__item *item) {
    char   what[160];
    size_t bytes = (size_t)ppo__shape_bytes(item->type, item->shape, item->rank);
    for (size_t i = 0, n = bytes / ppo__types[item->type].size; i < n; ++i) {
        double x = ppo__number_at(item->data, item->type, i);
        if (x >= item->min && x <= item->max) continue;
        if (fabs(x) <= DBL_MAX)
            snprintf(what, sizeof what, "\"%.60s\" has %.9g, outside %.9g to %.9g", item->name, x, item->min,
                     item->max);
        else snprintf(what, sizeof what, "\"%.80s\" has a number that is not finite", item->name);
        if (way == PPO__LOAD) return ppo__file_fail(file->path, "corrupt file: %s", what);
        return ppo_fail(PPO_ERROR_NUMERIC, "%s: nothing was saved", what);
    }
    return PPO_OK;
}

/* Carries one item to or from the file, where it must be of this type and shape. */
static ppo_status ppo__carry(ppo_file *file, int way, const ppo__item *item) {
    const ppo_array *array = NULL;
    if (!item->data) return PPO_OK;
    ppo_status status = way == PPO__SAVE
                            ? ppo_file_add(file, item->name, item->type, item->shape, item->rank, item->data)
                            : ppo_file_expect(file, item->name, item->type, item->shape, item->rank, &array);
    if (!status && array) status = ppo__file_fetch(file, array, 0, array->bytes, item->data);
    return status ? status : ppo__check_item(file, way, item);
}

static ppo_status ppo__carry_items(ppo_file *file, int way, const ppo__item *items, size_t n) {
    ppo_status status = PPO_OK;
    for (size_t i = 0; i < n && !status; ++i) status = ppo__carry(file, way, &items[i]);
    return status;
}

/* A block as large as the parameters (themselves, or a moment of Adam's), each under prefix + its name;
   rows of numbers with `row_rank` dimensions, 1 or 2. */
static ppo_status ppo__carry_params(ppo_file *file, int way, const char *prefix, const ppo_params *params,
                                    float *block, int row_rank) {
    for (int i = 0; i < params->tensor_count; ++i) {
        const ppo_tensor *tensor = params->tensors[i];
        char              name[192];
        ppo__item         item = {name, PPO_F32, 2, {tensor->rows, tensor->cols}, NULL, PPO__ANY};
        snprintf(name, sizeof name, "%s%s", prefix, params->names[i]);
        item.data = block + (tensor->data - params->data);
        if (tensor->rows == 1 && row_rank == 1) item.rank = 1, item.shape[0] = tensor->cols;
        if (ppo__carry(file, way, &item)) return ppo__failed;
    }
    return PPO_OK;
}

/* A hash of all names, texts and numbers of a file but the text that it is kept in. */
static const char *ppo__file_checksum(const ppo_file *file, char text[32]) {
    uint64_t hash = PPO__FNV1A;
    for (int i = 0; i < ppo_file_text_count(file); ++i) {
        const char *key = ppo_file_key_at(file, i), *value = ppo_file_text(file, key);
        if (strcmp(key, "checksum") == 0) continue;
        hash = ppo__fnv1a(ppo__fnv1a(hash, key, strlen(key) + 1), value, strlen(value) + 1);
    }
    for (int i = 0; i < ppo_file_count(file); ++i) {
        const ppo_array *array = ppo_file_at(file, i);
        hash = ppo__hash_array(ppo__fnv1a(hash, array->name, strlen(array->name) + 1), array);
    }
    snprintf(text, 32, "%016llx", (unsigned long long)hash);
    return text;
}

/* Is the checksum, if it has one, its own? */
static ppo_status ppo__check_checksum(const ppo_file *file) {
    const char *checksum = ppo_file_text(file, "checksum");
    char        actual[32];
    if (!checksum || !strcmp(checksum, ppo__file_checksum(file, actual))) return PPO_OK;
    return ppo__file_fail(file->path, "corrupt file: its checksum is %s, not %.20s", actual, checksum);
}

/* Saves an object in a file of its own: put() adds what the file is to hold. */
typedef ppo_status (*ppo__put_fn)(ppo_file *file, const void *object);

static ppo_status ppo__save(const char *function, const char *path, ppo__put_fn put, const void *object) {
    ppo_file *file = NULL;
    if (!ppo__given(function, path && object)) return PPO_ERROR_ARGUMENT;
    ppo_status status = ppo_file_create(&file);
    if (!status) status = put(file, object);
    if (!status) status = ppo_file_write(file, path);
    ppo_file_free(file);
    return status;
}

/* -- settings by name -- */

/* Room for a setting as text: 63 widths are the longest. */
enum { PPO__SETTING_SIZE = 1024 };

static const ppo_field *ppo__find_field(const ppo_settings *settings, const char *name) {
    for (int i = 0; i < settings->count; ++i) {
        const char *a = name, *b = settings->field[i].name;
        while (*a && *b && (*a == *b || (*a == '-' && *b == '_'))) ++a, ++b;
        if (!*a && !*b) return &settings->field[i];
    }
    ppo__refuse("there is no setting \"%.60s\"", name);
    return NULL;
}

/* Word k of "a|b|c"; "" past the end. */
static const char *ppo__choice(const char *choices, int k, char word[64]) {
    for (; k > 0 && *choices; --k) {
        choices += strcspn(choices, "|");
        choices += *choices == '|';
    }
    snprintf(word, 64, "%.*s", (int)strcspn(choices, "|"), choices);
    return word;
}

/* The value of any field but a seed and widths. */
static double ppo__field_number(const ppo_field *field, const void *at) {
    if (field->type == PPO_FIELD_FLOAT) return (double)*(const float *)at;
    return field->type == PPO_FIELD_I64 ? (double)*(const int64_t *)at : *(const int *)at;
}

/* A float setting is compared as a float: 0.1f is not outside a bound of 0.1. */
static ppo_status ppo__check_range(const ppo_field *field, double value) {
    int single = field->type == PPO_FIELD_FLOAT, digits = single ? 7 : 10;
    if (single ? (float)value >= (float)field->min && (float)value <= (float)field->max
               : value >= field->min && value <= field->max)
        return PPO_OK;
    if (field->type == PPO_FIELD_CHOICE)
        return ppo__refuse("%s is %.0f, none of %s", field->name, value, field->choices);
    return ppo__refuse("%s is %.*g, outside %.*g to %.*g", field->name, digits, value, digits, field->min,
                       digits, field->max);
}

static ppo_status ppo__check_field(const ppo_field *field, const void *config) {
    const void *at = (const char *)config + field->offset;
    if (field->type == PPO_FIELD_U64) return PPO_OK;
    if (field->type != PPO_FIELD_WIDTHS) return ppo__check_range(field, ppo__field_number(field, at));
    const int *value = (const int *)at;
    const int  layers = value[PPO_MAX_LAYERS];
    if (layers < 0 || layers >= PPO_MAX_LAYERS)
        return ppo__refuse("%s_layers is %d, outside 0 to %d", field->name, layers, PPO_MAX_LAYERS - 1);
    for (int k = 0; k < layers; ++k)
        if (value[k] < field->min || value[k] > field->max)
            return ppo__refuse("%s[%d] is %d, outside %.9g to %.9g", field->name, k, value[k], field->min,
                               field->max);
    return PPO_OK;
}

PPO_DEF ppo_status ppo_settings_check(const ppo_settings *settings, const void *config) {
    if (!ppo__given("ppo_settings_check", settings && config)) return PPO_ERROR_ARGUMENT;
    for (int i = 0; i < settings->count; ++i)
        if (ppo__check_field(&settings->field[i], config)) return PPO_ERROR_ARGUMENT;
    return PPO_OK;
}

static ppo_status ppo__not_a(const ppo_field *field, const char *value, const char *kind) {
    return ppo__refuse("%s: \"%.60s\" is not %s", field->name, value, kind);
}

static ppo_status ppo__parse_widths(const ppo_field *field, const char *text, int *widths) {
    int layers = 0, read[PPO_MAX_LAYERS];
    for (const char *at = strcmp(text, "none") ? text : NULL; at; at = *at ? at + 1 : NULL) {
        char *end;
        errno = 0;
        long width = strtol(at, &end, 10);
        if (*at < '0' || *at > '9' || errno || (*end && (*end != ',' || !end[1])))
            return ppo__not_a(field, text, "a list of widths like 64,64");
        if (ppo__check_range(field, (double)width)) return PPO_ERROR_ARGUMENT;
        if (layers == PPO_MAX_LAYERS - 1)
            return ppo__refuse("%s: more than %d layers", field->name, PPO_MAX_LAYERS - 1);
        read[layers++] = (int)width;
        at = end;
    }
    memcpy(widths, read, layers * sizeof *read);
    widths[PPO_MAX_LAYERS] = layers;
    return PPO_OK;
}

PPO_DEF ppo_status ppo_settings_set(const ppo_settings *settings, void *config, const char *name,
                                    const char *value) {
    if (!ppo__given("ppo_settings_set", settings && config && name && value)) return PPO_ERROR_ARGUMENT;
    const ppo_field *field = ppo__find_field(settings, name);
    if (!field) return PPO_ERROR_ARGUMENT;
    void  *at = (char *)config + field->offset;
    double number = 0;
    if (field->type == PPO_FIELD_WIDTHS) return ppo__parse_widths(field, value, (int *)at);
    for (int k = (int)field->min; field->type == PPO_FIELD_CHOICE;
         ++k) { /* one of the words, or its number */
        char word[64], digits[16];
        if (k > (int)field->max)
            return ppo__refuse("%s: \"%.60s\" is none of %s", field->name, value, field->choices);
        snprintf(digits, sizeof digits, "%d", k);
        if (strcmp(value, digits) && strcmp(value, ppo__choice(field->choices, k - (int)field->min, word)))
            continue;
        return *(int *)at = k, PPO_OK;
    }
    if (field->type == PPO_FIELD_U64) {
        char *stop;
        errno = 0;
        unsigned long long whole = strtoull(value, &stop, 10);
        if (*value < '0' || *value > '9' || *stop || errno)
            return ppo__not_a(field, value, "a whole number below 2^64");
        *(uint64_t *)at = whole;
        return PPO_OK;
    }
    if (!ppo__parse_number(value, &number)) return ppo__not_a(field, value, "a number");
    if (ppo__check_range(field, number)) return PPO_ERROR_ARGUMENT;
    if (field->type != PPO_FIELD_FLOAT && number != floor(number))
        return ppo__not_a(field, value, "a whole number");
    if (field->type == PPO_FIELD_FLOAT) *(float *)at = (float)number;
    else if (field->type == PPO_FIELD_INT) *(int *)at = (int)number;
    else *(int64_t *)at = (int64_t)number;
    return PPO_OK;
}

PPO_DEF ppo_status ppo_settings_set_all(const ppo_settings *settings, void *config, const char *text) {
    if (!ppo__given("ppo_settings_set_all", settings && config && text)) return PPO_ERROR_ARGUMENT;
    for (size_t length; *(text += strspn(text, " ")); text += length) {
        char   name[64], value[PPO__SETTING_SIZE];
        size_t equals = strcspn(text, "= ");
        length = strcspn(text, " ");
        if (text[equals] != '=' || equals >= sizeof name || length >= sizeof value)
            return ppo__refuse("\"%.60s\" is not name=value", text);
        snprintf(name, sizeof name, "%.*s", (int)equals, text);
        snprintf(value, sizeof value, "%.*s", (int)(length - equals - 1), text + equals + 1);
        if (ppo_settings_set(settings, config, name, value)) return PPO_ERROR_ARGUMENT;
    }
    return PPO_OK;
}

PPO_DEF ppo_status ppo_settings_get(const ppo_settings *settings, const void *config, const char *name,
                                    char *text, size_t size) {
    if (!ppo__given("ppo_settings_get", settings && config && name && text && size))
        return PPO_ERROR_ARGUMENT;
    const ppo_field *field = ppo__find_field(settings, name);
    const int        type = field ? field->type : 0;
    if (!field || ((type == PPO_FIELD_CHOICE || type == PPO_FIELD_WIDTHS) && ppo__check_field(field, config)))
        return PPO_ERROR_ARGUMENT;
    const void *at = (const char *)config + field->offset;
    const int  *value = (const int *)at;
    char        whole[PPO__SETTING_SIZE] = "none";
    if (type == PPO_FIELD_CHOICE) {
        ppo__choice(field->choices, *value - (int)field->min, whole);
    } else if (type == PPO_FIELD_WIDTHS) {
        for (int k = 0, used = 0; k < value[PPO_MAX_LAYERS]; ++k)
            used += snprintf(whole + used, sizeof whole - used, k ? ",%d" : "%d", value[k]);
    } else if (type == PPO_FIELD_U64) {
        snprintf(whole, sizeof whole, "%llu", (unsigned long long)*(const uint64_t *)at);
    } else {
        double x = ppo__field_number(field, at);
        if (type == PPO_FIELD_FLOAT) ppo__shortest_float(whole, 1, (float)x);
        if (type != PPO_FIELD_FLOAT || (fabs(x) < 1e6 && x == floor(x))) snprintf(whole, 32, "%.0f", x);
        ppo__with_point(whole);
    }
    if (strlen(whole) >= size)
        return ppo__refuse("%s: its text needs %lu bytes, not %lu", field->name,
                           (unsigned long)strlen(whole) + 1, (unsigned long)size);
    strcpy(text, whole);
    return PPO_OK;
}

/* A setting that has an effect only if another is one of these words, as "a|b" (NULL: anything but 0 or none). */
typedef struct ppo__need {
    const char *name, *other, *words;
} ppo__need;

/* An error if it differs from `usual`, but has no effect. other_is: the value of an `other` named "the ...", which
   is no setting. */
static ppo_status ppo__check_effect(const ppo_settings *settings, const void *config, const void *usual,
                                    const ppo__need *need, const char *other_is) {
    char is[PPO__SETTING_SIZE], other[PPO__SETTING_SIZE], word[64];
    int  has = 0;
    if (ppo_settings_get(settings, usual, need->name, other, sizeof other) ||
        ppo_settings_get(settings, config, need->name, is, sizeof is))
        return PPO_ERROR_ARGUMENT;
    if (!strcmp(is, other) || !strcmp(is, "custom")) return PPO_OK; /* custom: unknown whether it has one */
    if (!other_is) {
        if (ppo_settings_get(settings, config, need->other, other, sizeof other)) return PPO_ERROR_ARGUMENT;
        if (!need->words) has = strcmp(other, "0") && strcmp(other, "none");
        for (int k = 0; need->words && *ppo__choice(need->words, k, word); ++k) has |= !strcmp(other, word);
        other_is = other;
    }
    return has ? PPO_OK
               : ppo__refuse("%s is %s, but has no effect: %s is %.60s", need->name, is, need->other,
                             other_is);
}

/* All settings as texts of a file. */
static ppo_status ppo__put_settings(ppo_file *file, const ppo_settings *settings, const void *config) {
    for (int i = 0; i < settings->count; ++i) {
        const char *name = settings->field[i].name;
        char        text[PPO__SETTING_SIZE];
        if (ppo_settings_get(settings, config, name, text, sizeof text) ||
            ppo_file_set_text(file, name, text))
            return ppo__failed;
    }
    return PPO_OK;
}

/* Those that the file has; it may be older than the others. */
static ppo_status ppo__get_settings(const ppo_file *file, const ppo_settings *settings, void *config) {
    for (int i = 0; i < settings->count; ++i) {
        const char *name = settings->field[i].name, *text = ppo_file_text(file, name);
        if (text && ppo_settings_set(settings, config, name, text)) return ppo__file_blame(file);
    }
    return PPO_OK;
}

PPO_DEF ppo_status ppo_settings_load(const ppo_settings *settings, const char *path, void *config) {
    ppo_file *file = NULL;
    if (!ppo__given("ppo_settings_load", settings && path && config)) return PPO_ERROR_ARGUMENT;
    ppo_status status = ppo__file_open(path, &file);
    if (!status) status = ppo__get_settings(file, settings, config);
    ppo_file_free(file);
    return status;
}

/* An error if a setting differs from what it was; in: where. */
static ppo_status ppo__check_kept(const ppo_settings *settings, const char *name, const void *was_config,
                                  const void *config, const char *in) {
    char was[PPO__SETTING_SIZE], is[PPO__SETTING_SIZE];
    if (ppo_settings_get(settings, was_config, name, was, sizeof was) ||
        ppo_settings_get(settings, config, name, is, sizeof is))
        return PPO_ERROR_ARGUMENT;
    if (strcmp(was, is) == 0) return PPO_OK;
    return ppo__refuse("%s is %.60s in the %s: it cannot become %.60s", name, was, in, is);
}

/* ========================================================================================================
   @@ PPO'S MATHEMATICS
   ======================================================================================================== */

/* --------------------------------------------------------------------------------------------------------
   @@ 7 Distributions. A row of logits holds one categorical distribution or several side by side, its heads.
   Up to 64 rows are computed at a time: the softmax of each head, from one read of its logits, then logp,
   entropy, KL or a gradient. The functions on arrays come first, then the operations of the tape, which use
   the same loops: logp and entropy are the two results of one operation, as both need the softmax.
   -------------------------------------------------------------------------------------------------------- */

enum { PPO__SOFTMAX_ROWS = 64 };

/* For each row, with z = logits / temperature: log softmax(z)[j] = z[j] - max - log_sum. */
typedef struct ppo__softmax {
    float max[PPO__SOFTMAX_ROWS], log_sum[PPO__SOFTMAX_ROWS], entropy[PPO__SOFTMAX_ROWS];
} ppo__softmax;

/* For results that rounding can take above 0; NaN stays NaN. */
PPO__BOTH static float ppo__at_most_0(float x) { return x > 0 ? 0 : x; }

/* entropy = -sum p log p = log_sum - sum p (z - max) */
static void ppo__softmax_rows(int n, int vocab, const float *logits, int ld, float inv_temperature,
                              ppo__softmax *softmax) {
    float sum[PPO__SOFTMAX_ROWS], dot[PPO__SOFTMAX_ROWS];
    ppo__k()->softmax_stats(n, vocab, logits, ld, inv_temperature, softmax->max, sum, dot);
    ppo__k()->vlog(sum, softmax->log_sum, (size_t)n);
    for (int i = 0; i < n; ++i) softmax->entropy[i] = -ppo__at_most_0(dot[i] / sum[i] - softmax->log_sum[i]);
}

typedef struct ppo__heads {
    const int *sizes; /* [count] */
    int        count, cols;
    float      inv_temperature;
} ppo__heads;

static ppo_status ppo__check_heads(const char *function, int given, const int *sizes, int count,
                                   float temperature, int n, ppo__heads *heads) {
    int64_t cols = 0;
    int     h = 0;
    memset(heads, 0, sizeof *heads);
    if (!ppo__given(function, given)) return PPO_ERROR_ARGUMENT;
    while (h < count && sizes[h] > 0) cols += sizes[h++];
    if (h < count) cols = sizes[h];
    if (n <= 0 || cols <= 0 || cols > INT_MAX)
        return ppo__refuse("%s: %d rows of %lld logits: both must be 1 to 2147483647", function, n,
                           (long long)cols);
    if (!(temperature > 0) || !ppo__finite(temperature))
        return ppo__refuse("%s: temperature is %g, must be finite and above 0", function,
                           (double)temperature);
    ppo__heads made = {sizes, count, (int)cols, 1 / temperature};
    *heads = made;
    return PPO_OK;
}

static ppo_status ppo__check_tokens(const char *function, const ppo__heads *heads, const int *token, int n) {
    for (int i = 0; i < n; ++i) {
        for (int h = 0; h < heads->count; ++h) {
            int chosen = token[ppo__at(i, heads->count) + h];
            if (chosen >= 0 && chosen < heads->sizes[h]) continue;
            return ppo__refuse("%s: token %d of row %d is outside 0 .. %d", function, chosen, i,
                               heads->sizes[h] - 1);
        }
    }
    return PPO_OK;
}

static int ppo__min_int(int a, int b) { return a < b ? a : b; }

/* Rows at a time where each is read twice: as many as a cache keeps, but at least 1. */
static int ppo__cached_rows(int cols) {
    enum { FLOATS = 1 << 15 };
    return cols < FLOATS ? ppo__min_int(FLOATS / cols, PPO__SOFTMAX_ROWS) : 1;
}

/* logp and entropy of up to 64 rows. softmax [heads] is kept for backward; it and entropy may be NULL. */
static void ppo__heads_forward(const ppo__heads *heads, int n, const float *logits, const int *token,
                               float *logp, float *entropy, ppo__softmax *softmax) {
    memset(logp, 0, n * sizeof *logp);
    if (entropy) memset(entropy, 0, n * sizeof *entropy);
    for (int h = 0; h < heads->count; logits += heads->sizes[h++]) {
        ppo__softmax local, *head = softmax ? softmax + h : &local;
        ppo__softmax_rows(n, heads->sizes[h], logits, heads->cols, heads->inv_temperature, head);
        for (int i = 0; i < n; ++i) {
            float z = logits[ppo__at(i, heads->cols) + token[ppo__at(i, heads->count) + h]];
            logp[i] += ppo__at_most_0(z * heads->inv_temperature - head->max[i] - head->log_sum[i]);
            if (entropy) entropy[i] += head->entropy[i];
        }
    }
}

/* d logp / d z_j = [j = token] - p_j;  d entropy / d z_j = -p_j (log p_j + entropy). For head h of up to 64
   rows. add: to the gradient that is there. */
static void ppo__head_backward(const ppo__heads *heads, int h, int n, const float *logits, const int *token,
                               const ppo__softmax *softmax, const float *grad_logp, const float *grad_entropy,
                               int add, float *grad) {
    const ppo__softmax_given job = {softmax->max, softmax->log_sum, softmax->entropy, grad_logp,
                                    grad_entropy};
    ppo__k()->softmax_grad(n, heads->sizes[h], logits, heads->cols, heads->inv_temperature, &job, add, grad,
                           heads->cols);
    for (int i = 0; i < n; ++i) {
        int chosen = token[ppo__at(i, heads->count) + h];
        grad[ppo__at(i, heads->cols) + chosen] += grad_logp[i] * heads->inv_temperature;
    }
}

static ppo_status ppo__heads_logp(const char *function, const float *logits, const int *sizes, int count,
                                  const int *token, int n, float temperature, float *logp, float *entropy) {
    const int  given = logits && sizes && token && logp;
    ppo__heads heads;
    ppo_status status = ppo__check_heads(function, given, sizes, count, temperature, n, &heads);
    if (!status) status = ppo__check_tokens(function, &heads, token, n);
    if (status) return status;
    for (int i = 0; i < n; i += PPO__SOFTMAX_ROWS)
        ppo__heads_forward(&heads, ppo__min_int(n - i, PPO__SOFTMAX_ROWS), logits + ppo__at(i, heads.cols),
                           token + ppo__at(i, count), logp + i, entropy ? entropy + i : NULL, NULL);
    for (int i = 0; i < n; ++i) {
        if (logp[i] <= 0) continue; /* -INFINITY: an impossible token; NaN: logits that are not finite */
        return ppo_fail(PPO_ERROR_NUMERIC, "%s: log-probability of row %d is %g", function, i,
                        (double)logp[i]);
    }
    return PPO_OK;
}

static ppo_status ppo__heads_logp_backward(const char *function, const float *logits, const int *sizes,
                                           int count, const int *token, const float *grad_logp,
                                           const float *grad_entropy, int n, float temperature,
                                           float *grad_logits) {
    static const float zeros[PPO__SOFTMAX_ROWS] = {0};
    const int          given = logits && sizes && token && grad_logits;
    ppo__heads         heads;
    ppo_status         status = ppo__check_heads(function, given, sizes, count, temperature, n, &heads);
    if (!status) status = ppo__check_tokens(function, &heads, token, n);
    for (int first = 0, rows; first < n && !status; first += rows) {
        const float *dlogp = grad_logp ? grad_logp + first : zeros;
        const float *dentropy = grad_entropy ? grad_entropy + first : zeros;
        size_t       at = ppo__at(first, heads.cols);
        rows = ppo__min_int(n - first, ppo__cached_rows(heads.cols));
        for (int h = 0; h < count; at += sizes[h++]) { /* head by head, so that in place works */
            ppo__softmax softmax;
            ppo__softmax_rows(rows, sizes[h], logits + at, heads.cols, heads.inv_temperature, &softmax);
            for (int i = 0; i < rows; ++i) {
                float log_sum = softmax.max[i] + softmax.log_sum[i];
                if (ppo__finite(log_sum) && ppo__finite(dlogp[i]) && ppo__finite(dentropy[i])) continue;
                return ppo_fail(PPO_ERROR_NUMERIC, "%s: row %d has log-sum %g, gradients %g and %g", function,
                                first + i, (double)log_sum, (double)dlogp[i], (double)dentropy[i]);
            }
            ppo__head_backward(&heads, h, rows, logits + at, token + ppo__at(first, count), &softmax, dlogp,
                               dentropy, 0, grad_logits + at);
        }
    }
    return status;
}

PPO_DEF ppo_status ppo_token_logp(const float *logits, const int *token, int n, int vocab, float temperature,
                                  float *logp, float *entropy) {
    return ppo__heads_logp("ppo_token_logp", logits, &vocab, 1, token, n, temperature, logp, entropy);
}

PPO_DEF ppo_status ppo_token_logp_backward(const float *logits, const int *token, const float *grad_logp,
                                           const float *grad_entropy, int n, int vocab, float temperature,
                                           float *grad_logits) {
    return ppo__heads_logp_backward("ppo_token_logp_backward", logits, &vocab, 1, token, grad_logp,
                                    grad_entropy, n, temperature, grad_logits);
}

PPO_DEF ppo_status ppo_multi_categorical_logp(const float *logits, const int *sizes, int heads,
                                              const int *action, int n, float *logp, float *entropy) {
    return ppo__heads_logp("ppo_multi_categorical_logp", logits, sizes, heads, action, n, 1, logp, entropy);
}

PPO_DEF ppo_status ppo_multi_categorical_logp_backward(const float *logits, const int *sizes, int heads,
                                                       const int *action, const float *grad_logp,
                                                       const float *grad_entropy, int n, float *grad_logits) {
    return ppo__heads_logp_backward("ppo_multi_categorical_logp_backward", logits, sizes, heads, action,
                                    grad_logp, grad_entropy, n, 1, grad_logits);
}

PPO_DEF int ppo_categorical_mode(const float *logits, int vocab) {
    int best = 0;
    for (int j = 1; j < vocab; ++j)
        if (logits[j] > logits[best]) best = j;
    return best;
}

/* Inverts the cumulative distribution at one uniform number. */
PPO_DEF int ppo_categorical_sample(const float *logits, int vocab, float temperature, ppo_rng *rng) {
    int   mode = ppo_categorical_mode(logits, vocab);
    float inv = 1 / temperature, total = 0, sum = 0;
    for (int j = 0; j < vocab; ++j) total += expf((logits[j] - logits[mode]) * inv);
    float threshold = ppo_rng_uniform(rng) * total;
    for (int j = 0; j < vocab; ++j) {
        sum += expf((logits[j] - logits[mode]) * inv);
        if (threshold < sum) return j;
    }
    return mode; /* rounding put the threshold at the total */
}

/* kl[i] = KL(p || q) = sum of p (log p - log q). Where grad is given, it gets dy d KL / d logits of q =
   dy (q - p) added instead. */
static ppo_status ppo__heads_kl(const char *function, const ppo__heads *heads, const float *p_logits,
                                const float *q_logits, int n, float *kl, const float *dy, float *grad) {
    for (int first = 0, rows; first < n; first += rows) {
        double sum[PPO__SOFTMAX_ROWS] = {0};
        size_t at = ppo__at(first, heads->cols);
        rows = ppo__min_int(n - first, ppo__cached_rows(heads->cols));
        for (int h = 0; h < heads->count; at += heads->sizes[h++]) {
            ppo__softmax p, q;
            ppo__softmax_rows(rows, heads->sizes[h], p_logits + at, heads->cols, 1, &p);
            ppo__softmax_rows(rows, heads->sizes[h], q_logits + at, heads->cols, 1, &q);
            for (int i = 0; i < rows; ++i) {
                for (int j = 0; j < heads->sizes[h]; ++j) {
                    size_t k = at + ppo__at(i, heads->cols) + j;
                    float  p_logp = p_logits[k] - p.max[i] - p.log_sum[i], probability = expf(p_logp);
                    float  q_logp = q_logits[k] - q.max[i] - q.log_sum[i];
                    if (grad) grad[k] += dy[first + i] * (expf(q_logp) - probability);
                    else if (probability != 0) sum[i] += (double)probability * (double)(p_logp - q_logp);
                } /* 0 log 0 = 0; NaN stays NaN */
            }
        }
        for (int i = 0; i < rows && !grad; ++i) {
            kl[first + i] = (float)sum[i];
            if (sum[i] != sum[i])
                return ppo_fail(PPO_ERROR_NUMERIC, "%s: the KL of row %d is %g", function, first + i, sum[i]);
        }
    }
    return PPO_OK;
}

PPO_DEF ppo_status ppo_multi_categorical_kl(const float *p_logits, const float *q_logits, const int *sizes,
                                            int heads, int n, float *kl) {
    const char *const function = "ppo_multi_categorical_kl";
    ppo__heads        all;
    ppo_status        status =
        ppo__check_heads(function, p_logits && q_logits && sizes && kl, sizes, heads, 1, n, &all);
    return status ? status : ppo__heads_kl(function, &all, p_logits, q_logits, n, kl, NULL, NULL);
}

PPO_DEF ppo_status ppo_categorical_kl(const float *p_logits, const float *q_logits, int n, int vocab,
                                      float *kl) {
    const char *const function = "ppo_categorical_kl";
    ppo__heads        one;
    ppo_status        status = ppo__check_heads(function, p_logits && q_logits && kl, &vocab, 1, 1, n, &one);
    return status ? status : ppo__heads_kl(function, &one, p_logits, q_logits, n, kl, NULL, NULL);
}

static ppo_status ppo__check_finite(const char *function, const char *what, const float *x, int rows,
                                    int cols) {
    for (size_t i = 0; i < ppo__at(rows, cols); ++i) {
        if (ppo__finite(x[i])) continue;
        return ppo_fail(PPO_ERROR_NUMERIC, "%s: the %s of row %d is %g", function, what,
                        (int)(i / (size_t)cols), (double)x[i]);
    }
    return PPO_OK;
}

static ppo_status ppo__check_gaussian(const char *function, int given, int n, int dim) {
    if (!ppo__given(function, given)) return PPO_ERROR_ARGUMENT;
    if (n > 0 && dim > 0) return PPO_OK;
    return ppo__refuse("%s: %d rows of %d dimensions: both must be above 0", function, n, dim);
}

/* logp = sum of -z^2/2 - log_std - log(2 pi)/2, z = (action - mean) / std; entropy = sum of log_std +
   log(2 pi e)/2. ld_std, from row to row of log_std, is 0 if all samples share one row, else dim. */
static void ppo__gaussian_rows(const float *mean, const float *log_std, int ld_std, const float *action,
                               int n, int dim, float *logp, float *entropy) {
    const float half_log_2pi = 0.91893853320467f;
    for (int i = 0; i < n; ++i, log_std += ld_std) {
        const float *m = mean + ppo__at(i, dim), *a = action + ppo__at(i, dim);
        float        sum = 0, log_scale = 0;
        for (int j = 0; j < dim; ++j) {
            float z = (a[j] - m[j]) * expf(-log_std[j]);
            sum += z * z;
            log_scale += log_std[j] + half_log_2pi;
        }
        logp[i] = -0.5f * sum - log_scale;
        if (entropy) entropy[i] = log_scale + 0.5f * (float)dim;
    }
}

PPO_DEF ppo_status ppo_gaussian_logp(const float *mean, const float *log_std, const float *action, int n,
                                     int dim, float *logp, float *entropy) {
    ppo_status status = ppo__check_gaussian("ppo_gaussian_logp", mean && log_std && action && logp, n, dim);
    if (status) return status;
    ppo__gaussian_rows(mean, log_std, 0, action, n, dim, logp, entropy);
    return ppo__check_finite("ppo_gaussian_logp", "log-probability", logp, n, 1);
}

/* Adds to gradients: d logp / d mean = z / std, d logp / d log_std = z^2 - 1, d entropy / d log_std = 1 */
static void ppo__gaussian_rows_backward(const float *mean, const float *log_std, int ld_std,
                                        const float *action, const float *grad_logp,
                                        const float *grad_entropy, int n, int dim, float *grad_mean,
                                        float *grad_log_std) {
    for (int i = 0; i < n; ++i) {
        float dlogp = grad_logp ? grad_logp[i] : 0, dentropy = grad_entropy ? grad_entropy[i] : 0;
        for (int j = 0; j < dim; ++j) {
            size_t at = ppo__at(i, dim) + j, at_std = ppo__at(i, ld_std) + j;
            float  inv_std = expf(-log_std[at_std]), z = (action[at] - mean[at]) * inv_std;
            if (grad_mean) grad_mean[at] += dlogp * z * inv_std;
            if (grad_log_std) grad_log_std[at_std] += dlogp * (z * z - 1) + dentropy;
        }
    }
}

PPO_DEF ppo_status ppo_gaussian_logp_backward(const float *mean, const float *log_std, const float *action,
                                              const float *grad_logp, const float *grad_entropy, int n,
                                              int dim, float *grad_mean, float *grad_log_std) {
    ppo_status status = ppo__check_gaussian("ppo_gaussian_logp_backward", mean && log_std && action, n, dim);
    if (status) return status;
    if (grad_mean) memset(grad_mean, 0, ppo__at(n, dim) * sizeof(float));
    if (grad_log_std) memset(grad_log_std, 0, dim * sizeof(float));
    ppo__gaussian_rows_backward(mean, log_std, 0, action, grad_logp, grad_entropy, n, dim, grad_mean,
                                grad_log_std);
    if (!grad_mean) return PPO_OK;
    return ppo__check_finite("ppo_gaussian_logp_backward", "gradient", grad_mean, n, dim);
}

PPO_DEF void ppo_gaussian_sample(const float *mean, const float *log_std, int dim, ppo_rng *rng,
                                 float *action) {
    for (int j = 0; j < dim; ++j) action[j] = mean[j] + expf(log_std[j]) * ppo_rng_normal(rng);
}

/* KL(p || q) = sum of log(s_q / s_p) + (s_p^2 + (m_p - m_q)^2) / (2 s_q^2) - 1/2, with s = exp(log_std).
   ld_p and ld_q are the ld_std of both. */
static ppo_status ppo__gaussian_kl_rows(const char *function, const float *p_mean, const float *p_log_std,
                                        int ld_p, const float *q_mean, const float *q_log_std, int ld_q,
                                        int n, int dim, float *kl) {
    for (int i = 0; i < n; ++i, p_log_std += ld_p, q_log_std += ld_q) {
        double sum = 0;
        for (int j = 0; j < dim; ++j) {
            size_t at = ppo__at(i, dim) + j;
            double log_ratio = (double)q_log_std[j] - (double)p_log_std[j];
            double shift = ((double)p_mean[at] - (double)q_mean[at]) * exp(-(double)q_log_std[j]);
            sum += log_ratio + 0.5 * (exp(-2 * log_ratio) + shift * shift - 1);
        }
        kl[i] = (float)sum;
    }
    return ppo__check_finite(function, "KL", kl, n, 1);
}

PPO_DEF ppo_status ppo_gaussian_kl(const float *p_mean, const float *p_log_std, const float *q_mean,
                                   const float *q_log_std, int n, int dim, float *kl) {
    const char *const function = "ppo_gaussian_kl";
    const int         given = p_mean && p_log_std && q_mean && q_log_std && kl;
    if (ppo__check_gaussian(function, given, n, dim)) return PPO_ERROR_ARGUMENT;
    return ppo__gaussian_kl_rows(function, p_mean, p_log_std, 0, q_mean, q_log_std, 0, n, dim, kl);
}

PPO_DEF void ppo_squash(const float *u, size_t count, float low, float high, float *action) {
    for (size_t i = 0; i < count; ++i) /* clamped because of rounding */
        action[i] = ppo__clamp(low + 0.5f * (high - low) * (tanhf(u[i]) + 1), low, high);
}

/* log(1 - tanh(u)^2) = 2 (log 2 - |u| - log(1 + exp(-2 |u|))), which overflows for no u. */
PPO_DEF void ppo_squash_log_det(const float *u, int n, int dim, float low, float high, float *log_det) {
    float log_half_width = logf(0.5f * (high - low));
    for (int i = 0; i < n; ++i) {
        float sum = 0;
        for (int j = 0; j < dim; ++j) {
            float x = fabsf(u[ppo__at(i, dim) + j]);
            sum += log_half_width + 2 * (0.69314718f - x - log1pf(expf(-2 * x)));
        }
        log_det[i] = sum;
    }
}

/* -- operations of the tape. Results 0 and 1 are logp and entropy, both (n, 1); kept: the softmax of all
      heads of 64 rows, then of the next 64, and so on -- */

typedef struct ppo__categorical_args {
    ppo__heads   heads;
    const int   *action; /* (n, heads) */
    const float *logits; /* of the other distribution of a KL */
} ppo__categorical_args;

/* Multiply-adds that take as long as one row. */
static double ppo__categorical_work(const ppo_node *node) { return 4000 + 20.0 * node->in[0]->cols; }

static void ppo__categorical_rows(void *user, int range, int begin, int end) {
    const ppo_node              *node = (const ppo_node *)user;
    const ppo__categorical_args *args = (const ppo__categorical_args *)node->args;
    const ppo__heads            *heads = &args->heads;
    for (int i = begin; i < end; i += PPO__SOFTMAX_ROWS)
        ppo__heads_forward(
            heads, ppo__min_int(end - i, PPO__SOFTMAX_ROWS), node->in[0]->data + ppo__at(i, heads->cols),
            args->action + ppo__at(i, heads->count), node->out[0]->data + i, node->out[1]->data + i,
            (ppo__softmax *)node->kept + ppo__at(i / PPO__SOFTMAX_ROWS, heads->count));
}

static ppo_status ppo__categorical_forward(ppo_node *node) {
    const ppo__categorical_args *args = (const ppo__categorical_args *)node->args;
    const int                    rows = node->in[0]->rows, blocks = ppo__divide_up(rows, PPO__SOFTMAX_ROWS);
    if (ppo__check_tokens("categorical", &args->heads, args->action, rows)) return PPO_ERROR_ARGUMENT;
    node->kept = ppo__tape_take(node->tape, ppo__at(blocks, args->heads.count), sizeof(ppo__softmax));
    if (!node->kept) return PPO_ERROR_MEMORY;
    ppo__parallel_for(rows, PPO__SOFTMAX_ROWS, ppo__categorical_work(node), ppo__categorical_rows, node);
    return PPO_OK;
}

static void ppo__categorical_rows_backward(void *user, int range, int begin, int end) {
    const ppo_node              *node = (const ppo_node *)user;
    const ppo__categorical_args *args = (const ppo__categorical_args *)node->args;
    const ppo__heads            *heads = &args->heads;
    for (int i = begin; i < end; i += PPO__SOFTMAX_ROWS) {
        const int           rows = ppo__min_int(end - i, PPO__SOFTMAX_ROWS);
        const ppo__softmax *softmax =
            (const ppo__softmax *)node->kept + ppo__at(i / PPO__SOFTMAX_ROWS, heads->count);
        size_t at = ppo__at(i, heads->cols);
        for (int h = 0; h < heads->count; at += heads->sizes[h++])
            ppo__head_backward(heads, h, rows, node->in[0]->data + at,
                               args->action + ppo__at(i, heads->count), softmax + h, node->out[0]->grad + i,
                               node->out[1]->grad + i, 1, node->in[0]->grad + at);
    }
}

static void ppo__categorical_backward(ppo_node *node) {
    ppo__parallel_for(node->in[0]->rows, PPO__SOFTMAX_ROWS, ppo__categorical_work(node),
                      ppo__categorical_rows_backward, node);
}

static void ppo__two_results(ppo_node *node, ppo_tensor **first, ppo_tensor **second) {
    if (first) *first = node ? node->out[0] : NULL;
    if (second) *second = node ? node->out[1] : NULL;
}

/* Applies `op` to logits; NULL, and the tape fails, if the heads do not fit. */
static ppo_node *ppo__categorical_apply(ppo_tape *tape, const ppo_op *op, const char *name,
                                        ppo_tensor *logits, const int *sizes, int heads, float temperature,
                                        const int *action, const float *other) {
    ppo__categorical_args args = {{NULL, 0, 0, 0}, action, other};
    if (!ppo__operands(tape, name, logits, sizes && (action || other) ? logits : NULL)) return NULL;
    ppo_status status = ppo__check_heads(name, 1, sizes, heads, temperature, logits->rows, &args.heads);
    if (!status && args.heads.cols != logits->cols)
        status = ppo__refuse("%s: rows of %d logits, but the sizes add up to %d", name, logits->cols,
                             args.heads.cols);
    if (status) return (ppo_node *)ppo__tape_fail(tape, status);
    return ppo_tape_apply(tape, op, &logits, 1, logits->rows, 1, &args, sizeof args);
}

static const ppo_op ppo__categorical = {"categorical", 2, ppo__categorical_forward,
                                        ppo__categorical_backward};

PPO_DEF void ppo_tape_categorical(ppo_tape *tape, ppo_tensor *logits, const int *action, float temperature,
                                  ppo_tensor **logp, ppo_tensor **entropy) {
    const int *vocab = logits ? &logits->cols : NULL;
    ppo__two_results(ppo__categorical_apply(tape, &ppo__categorical, "categorical", logits, vocab, 1,
                                            temperature, action, NULL),
                     logp, entropy);
}

PPO_DEF void ppo_tape_multi_categorical(ppo_tape *tape, ppo_tensor *logits, const int *sizes, int heads,
                                        const int *action, ppo_tensor **logp, ppo_tensor **entropy) {
    ppo__two_results(ppo__categorical_apply(tape, &ppo__categorical, "multi_categorical", logits, sizes,
                                            heads, 1, action, NULL),
                     logp, entropy);
}

static ppo_status ppo__categorical_kl_forward(ppo_node *node) {
    const ppo__categorical_args *args = (const ppo__categorical_args *)node->args;
    return ppo__heads_kl("categorical_kl", &args->heads, args->logits, node->in[0]->data, node->in[0]->rows,
                         node->out[0]->data, NULL, NULL);
}

static void ppo__categorical_kl_backward(ppo_node *node) {
    const ppo__categorical_args *args = (const ppo__categorical_args *)node->args;
    ppo__heads_kl("categorical_kl", &args->heads, args->logits, node->in[0]->data, node->in[0]->rows, NULL,
                  node->out[0]->grad, node->in[0]->grad);
}

PPO_DEF ppo_tensor *ppo_tape_multi_categorical_kl(ppo_tape *tape, const float *old_logits, const int *sizes,
                                                  int heads, ppo_tensor *logits) {
    static const ppo_op op = {"categorical_kl", 1, ppo__categorical_kl_forward, ppo__categorical_kl_backward};
    return ppo_tape_result(
        ppo__categorical_apply(tape, &op, op.name, logits, sizes, heads, 1, NULL, old_logits));
}

typedef struct ppo__gaussian_args {
    const float *action, *old_mean, *old_log_std;
} ppo__gaussian_args;

/* From row to row of a log_std that is (1, dim) or (n, dim). */
static int ppo__ld_std(const ppo_tensor *log_std) { return log_std->rows == 1 ? 0 : log_std->cols; }

static ppo_status ppo__gaussian_forward(ppo_node *node) {
    const ppo__gaussian_args *args = (const ppo__gaussian_args *)node->args;
    const ppo_tensor         *mean = node->in[0], *log_std = node->in[1];
    ppo__gaussian_rows(mean->data, log_std->data, ppo__ld_std(log_std), args->action, mean->rows, mean->cols,
                       node->out[0]->data, node->out[1]->data);
    return PPO_OK;
}

static void ppo__gaussian_backward(ppo_node *node) {
    const ppo__gaussian_args *args = (const ppo__gaussian_args *)node->args;
    const ppo_tensor         *mean = node->in[0], *log_std = node->in[1];
    ppo__gaussian_rows_backward(mean->data, log_std->data, ppo__ld_std(log_std), args->action,
                                node->out[0]->grad, node->out[1]->grad, mean->rows, mean->cols, mean->grad,
                                log_std->grad);
}

static ppo_node *ppo__gaussian_apply(ppo_tape *tape, const ppo_op *op, int given, ppo_tensor *mean,
                                     ppo_tensor *log_std, const ppo__gaussian_args *args) {
    ppo_tensor *in[2] = {mean, log_std};
    if (!ppo__operands(tape, op->name, mean, given ? log_std : NULL)) return NULL;
    if ((log_std->rows != 1 && log_std->rows != mean->rows) || log_std->cols != mean->cols)
        ppo__shape_error(tape, op->name, mean, log_std); /* which apply sees */
    return ppo_tape_apply(tape, op, in, 2, mean->rows, 1, args, sizeof *args);
}

PPO_DEF void ppo_tape_gaussian(ppo_tape *tape, ppo_tensor *mean, ppo_tensor *log_std, const float *action,
                               ppo_tensor **logp, ppo_tensor **entropy) {
    static const ppo_op      op = {"gaussian", 2, ppo__gaussian_forward, ppo__gaussian_backward};
    const ppo__gaussian_args args = {action, NULL, NULL};
    ppo__two_results(ppo__gaussian_apply(tape, &op, action != NULL, mean, log_std, &args), logp, entropy);
}

static ppo_status ppo__gaussian_kl_forward(ppo_node *node) {
    const ppo__gaussian_args *args = (const ppo__gaussian_args *)node->args;
    const ppo_tensor         *mean = node->in[0], *log_std = node->in[1];
    return ppo__gaussian_kl_rows("gaussian_kl", args->old_mean, args->old_log_std, mean->cols, mean->data,
                                 log_std->data, ppo__ld_std(log_std), mean->rows, mean->cols,
                                 node->out[0]->data);
}

/* d KL(old || new) / d mean = (mean - old mean) / std^2;
   d KL(old || new) / d log_std = 1 - (old std^2 + (mean - old mean)^2) / std^2. */
static void ppo__gaussian_kl_backward(ppo_node *node) {
    const ppo__gaussian_args *args = (const ppo__gaussian_args *)node->args;
    const ppo_tensor         *mean = node->in[0], *log_std = node->in[1];
    for (int i = 0; i < mean->rows; ++i) {
        for (int j = 0; j < mean->cols; ++j) {
            size_t at = ppo__at(i, mean->cols) + j, at_std = ppo__at(i, ppo__ld_std(log_std)) + j;
            float  dy = node->out[0]->grad[i], inv_std = expf(-log_std->data[at_std]);
            float  shift = (mean->data[at] - args->old_mean[at]) * inv_std;
            float  ratio = expf(args->old_log_std[at] - log_std->data[at_std]);
            if (mean->grad) mean->grad[at] += dy * shift * inv_std;
            if (log_std->grad) log_std->grad[at_std] += dy * (1 - ratio * ratio - shift * shift);
        }
    }
}

PPO_DEF ppo_tensor *ppo_tape_gaussian_kl(ppo_tape *tape, const float *old_mean, const float *old_log_std,
                                         ppo_tensor *mean, ppo_tensor *log_std) {
    static const ppo_op      op = {"gaussian_kl", 1, ppo__gaussian_kl_forward, ppo__gaussian_kl_backward};
    const ppo__gaussian_args args = {NULL, old_mean, old_log_std};
    return ppo_tape_result(ppo__gaussian_apply(tape, &op, old_mean && old_log_std, mean, log_std, &args));
}

/* log p - log q at j, from one row of logits of each */
static float ppo__log_ratio(const ppo__softmax *p, const float *z, const ppo__softmax *q, const float *z_ref,
                            int j, float inv_temperature) {
    return (z[j] * inv_temperature - p->max[0] - p->log_sum[0]) -
           (z_ref[j] * inv_temperature - q->max[0] - q->log_sum[0]);
}

/* KL(new || ref) = sum p (log p - log q). kept: d KL / d z_j = p_j (log p_j - log q_j - KL) / temperature */
static ppo_status ppo__kl_to_forward(ppo_node *node) {
    const ppo__categorical_args *args = (const ppo__categorical_args *)node->args;
    const ppo_tensor            *logits = node->in[0];
    const float                  inv = args->heads.inv_temperature;
    const int                    vocab = logits->cols;
    float                       *derivative = ppo_tape_alloc(node->tape, ppo__size(logits));
    if (!derivative) return PPO_ERROR_MEMORY;
    node->kept = derivative;
    for (int i = 0; i < logits->rows; ++i, derivative += vocab) {
        const float *z = logits->data + ppo__at(i, vocab), *z_ref = args->logits + ppo__at(i, vocab);
        ppo__softmax p, q;
        double       kl = 0;
        ppo__softmax_rows(1, vocab, z, vocab, inv, &p);
        ppo__softmax_rows(1, vocab, z_ref, vocab, inv, &q);
        memcpy(derivative, z, vocab * sizeof(float));
        ppo__k()->softmax(inv, derivative, vocab);
        for (int j = 0; j < vocab; ++j) /* 0 log 0 = 0; NaN stays NaN */
            if (derivative[j] != 0) kl += (double)derivative[j] * ppo__log_ratio(&p, z, &q, z_ref, j, inv);
        for (int j = 0; j < vocab; ++j)
            if (derivative[j] != 0)
                derivative[j] *= inv * (ppo__log_ratio(&p, z, &q, z_ref, j, inv) - (float)kl);
        node->out[0]->data[i] = kl < 0 ? 0 : (float)kl;
    }
    return PPO_OK;
}

static void ppo__kl_to_backward(ppo_node *node) {
    const ppo_tensor *logits = node->in[0];
    const float      *derivative = (const float *)node->kept;
    for (int i = 0; i < logits->rows; ++i)
        for (int j = 0; j < logits->cols; ++j)
            logits->grad[ppo__at(i, logits->cols) + j] += node->out[0]->grad[i] * *derivative++;
}

PPO_DEF ppo_tensor *ppo_tape_categorical_kl_to(ppo_tape *tape, ppo_tensor *logits, const float *ref_logits,
                                               float temperature) {
    static const ppo_op op = {"categorical_kl_to", 1, ppo__kl_to_forward, ppo__kl_to_backward};
    const int          *vocab = logits ? &logits->cols : NULL;
    return ppo_tape_result(
        ppo__categorical_apply(tape, &op, op.name, logits, vocab, 1, temperature, NULL, ref_logits));
}

static ppo_status ppo__mask_forward(ppo_node *node) {
    const unsigned char *mask = *(const unsigned char *const *)node->args;
    for (size_t i = 0; i < ppo__size(node->in[0]); ++i)
        node->out[0]->data[i] = mask[i] ? node->in[0]->data[i] : -1e8f;
    return PPO_OK;
}

static void ppo__mask_backward(ppo_node *node) {
    const unsigned char *mask = *(const unsigned char *const *)node->args;
    for (size_t i = 0; i < ppo__size(node->in[0]); ++i)
        if (mask[i]) node->in[0]->grad[i] += node->out[0]->grad[i];
}

PPO_DEF ppo_tensor *ppo_tape_mask(ppo_tape *tape, ppo_tensor *logits, const unsigned char *mask) {
    static const ppo_op op = {"mask", 1, ppo__mask_forward, ppo__mask_backward};
    if (!ppo__operands(tape, op.name, logits, mask ? logits : NULL)) return NULL;
    return ppo_tape_result(
        ppo_tape_apply(tape, &op, &logits, 1, logits->rows, logits->cols, &mask, sizeof mask));
}

/* --------------------------------------------------------------------------------------------------------
   @@ 8 Advantages. ppo_gae() goes through each environment's steps backwards: the advantage of a step is its
   own TD error, delta, plus the discounted advantage of the next step. The end of an episode cuts the sum.
   -------------------------------------------------------------------------------------------------------- */

PPO__BOTH static float ppo__gae_delta(float reward, float value, float next_value, int terminated,
                                      float gamma) {
    return reward - value + (terminated ? 0 : gamma * next_value);
}

static ppo_status ppo__check_gae(const char *function, int given, int steps, int envs, float gamma,
                                 float lambda) {
    if (!ppo__given(function, given)) return PPO_ERROR_ARGUMENT;
    if (steps <= 0 || envs <= 0)
        return ppo__refuse("%s: %d steps of %d environments: both must be above 0", function, steps, envs);
    if (gamma >= 0 && gamma <= 1 && lambda >= 0 && lambda <= 1) return PPO_OK;
    return ppo__refuse("%s: gamma is %g, lambda is %g: both must be 0 to 1", function, (double)gamma,
                       (double)lambda);
}

/* A_t = delta_t + gamma lambda (1 - done_t) A_{t+1}  (Schulman 2016, eq. 16) */
PPO_DEF ppo_status ppo_gae(const float *reward, const float *value, const float *next_value,
                           const unsigned char *terminated, const unsigned char *truncated, int steps,
                           int envs, float gamma, float lambda, float *advantage, float *value_target) {
    int given = reward && value && next_value && advantage;
    if (ppo__check_gae("ppo_gae", given, steps, envs, gamma, lambda)) return PPO_ERROR_ARGUMENT;
    for (int t = steps - 1; t >= 0; --t) {
        for (int e = 0; e < envs; ++e) {
            size_t at = ppo__at(t, envs) + e;
            int    ends = terminated && terminated[at], done = ends || (truncated && truncated[at]);
            float  delta = ppo__gae_delta(reward[at], value[at], next_value[at], ends, gamma);
            float  rest = done || t == steps - 1 ? 0 : gamma * lambda * advantage[at + envs];
            float  a = delta + rest, v = value[at]; /* read before advantage is written: it may be value */
            if (!ppo__finite(a))
                return ppo_fail(PPO_ERROR_NUMERIC,
                                "ppo_gae: reward %g, value %g, next value %g at step %d of environment %d",
                                (double)reward[at], (double)value[at], (double)next_value[at], t, e);
            advantage[at] = a;
            if (value_target) value_target[at] = a + v;
        }
    }
    return PPO_OK;
}

/* The number of unmasked samples; 0 if the call must fail, with the error set. */
static int ppo__unmasked(const char *function, int given, const unsigned char *mask, int n) {
    int count = 0;
    if (!ppo__given(function, given)) return 0;
    for (int i = 0; i < n; ++i) count += !mask || mask[i];
    if (!count)
        ppo__refuse(n > 0 ? "%s: all %d samples are masked" : "%s: n is %d, must be above 0", function, n);
    return count;
}

PPO_DEF ppo_status ppo_whiten(float *x, const unsigned char *mask, int n, int shift_mean) {
    double sum = 0, squares = 0;
    int    count = ppo__unmasked("ppo_whiten", x != NULL, mask, n);
    if (!count) return PPO_ERROR_ARGUMENT;
    for (int i = 0; i < n; ++i) {
        if (mask && !mask[i]) continue;
        if (!ppo__finite(x[i]))
            return ppo_fail(PPO_ERROR_NUMERIC, "ppo_whiten: number %d is %g", i, (double)x[i]);
        sum += x[i];
    }
    if (count < 2) return PPO_OK;
    double mean = sum / count;
    for (int i = 0; i < n; ++i)
        if (!mask || mask[i]) squares += (x[i] - mean) * (x[i] - mean);
    double scale = 1 / (sqrt(squares / (count - 1)) + 1e-8), shift = shift_mean ? 0 : mean;
    for (int i = 0; i < n; ++i)
        if (!mask || mask[i]) x[i] = (float)((x[i] - mean) * scale + shift);
    return PPO_OK;
}

PPO_DEF float ppo_explained_variance(const float *value, const float *target, int n) {
    double target_sum = 0, error_sum = 0, target_squares = 0, error_squares = 0;
    for (int i = 0; i < n; ++i) {
        target_sum += target[i];
        error_sum += (double)target[i] - value[i];
    }
    for (int i = 0; i < n; ++i) {
        double t = target[i] - target_sum / n, e = (double)target[i] - value[i] - error_sum / n;
        target_squares += t * t;
        error_squares += e * e;
    }
    return target_squares > 0 ? (float)(1 - error_squares / target_squares) : NAN;
}

/* --------------------------------------------------------------------------------------------------------
   @@ 9 Losses. The formula of each loss is its term: what one sample adds to the mean, and the derivative of
   that. The clip is in ppo__policy_term(), the clipped value in ppo__value_term(), the preferences of reward
   models and DPO in ppo__preference_term(). The functions on arrays check and add up. The operations of the
   tape call them and keep the gradient, which backward scales. ppo_cuda.cuh uses the same terms.
   -------------------------------------------------------------------------------------------------------- */

/* k3 = r - 1 - log r = e^l - 1 - l for a log-ratio l. Near 0 its series, where the difference would lose its
   digits: within 2e-7 of itself for |l| < 1/4, within 6e-7 beyond. */
PPO__BOTH static float ppo__k3(float l) {
    if (!(fabsf(l) < 0.25f)) return expm1f(l) - l;
    return l * l *
           (1.0f / 2 + l * (1.0f / 6 + l * (1.0f / 24 + l * (1.0f / 120 + l * (1.0f / 720 + l / 5040)))));
}

/* The term of one sample, to be minimized, and its derivative along logp (d r / d logp = r):
       PPO_UNCLIPPED   -r A
       PPO_K3_PENALTY  -r A + kl_coef k3
       PPO_CLIP        -min(r A, clip(r, 1 - clip_low, 1 + clip_high) A)   (Schulman 2017, eq. 7)
       PPO_CISPO       -clip(r, ...) A logp, with clip(r, ...) held constant
   A sample on the flat side of the clip has derivative 0. */
PPO__BOTH static float ppo__policy_term(const ppo_policy_objective *o, float logp, float ratio,
                                        float log_ratio, float advantage, float *dlogp) {
    float gain = ratio * advantage;
    *dlogp = -gain;
    if (!ppo__finite(log_ratio) && !(log_ratio < 0)) return log_ratio; /* an error: old_logp is -INFINITY */
    if (o->objective == PPO_K3_PENALTY) {
        *dlogp += o->kl_coef * (ratio - 1); /* d k3 / d logp: on average that of KL(old || new) */
        return -gain + o->kl_coef * ppo__k3(log_ratio);
    }
    if (o->objective == PPO_UNCLIPPED) return -gain;
    float clipped = ppo__clamp(ratio, 1 - o->clip_low, 1 + o->clip_high);
    if (o->objective == PPO_CISPO) return *dlogp = -clipped * advantage, *dlogp * logp;
    /* In range both gains are equal, which a comparison with excess precision (x87) may not see. */
    if (clipped != ratio && clipped * advantage < gain) gain = clipped * advantage, *dlogp = 0;
    if (o->dual_clip > 1 && advantage < 0 && gain < o->dual_clip * advantage)
        gain = o->dual_clip * advantage, *dlogp = 0;
    return -gain;
}

PPO_DEF ppo_policy_objective ppo_policy_objective_default(void) {
    ppo_policy_objective objective = {PPO_CLIP, 0.2f, 0.2f, 0, 1};
    return objective;
}

/* In the order of their constants. */
static const char ppo__objectives[] = "clip|kl-penalty|unclipped|k3-penalty|cispo";

static ppo_status ppo__check_objective(const char *function, const ppo_policy_objective *o) {
    if (o->objective == PPO_KL_PENALTY)
        return ppo__refuse("%s: PPO_KL_PENALTY needs the distributions, not only log-probabilities: use "
                           "PPO_K3_PENALTY, or PPO_UNCLIPPED and add the mean of ppo_gaussian_kl() or "
                           "ppo_categorical_kl()",
                           function);
    if (o->objective < 0 || o->objective >= PPO__OBJECTIVES)
        return ppo__refuse("%s: there is no objective %d", function, o->objective);
    if (o->clip_low >= 0 && o->clip_high >= 0 && o->kl_coef >= 0) return PPO_OK;
    return ppo__refuse("%s: clip_low %g, clip_high %g, kl_coef %g must be 0 or more", function,
                       (double)o->clip_low, (double)o->clip_high, (double)o->kl_coef);
}

PPO_DEF ppo_status ppo_policy_loss(const float *logp, const float *old_logp, const float *advantage,
                                   const unsigned char *mask, int n, const ppo_policy_objective *objective,
                                   ppo_policy_stats *stats, float *grad_logp) {
    int count = ppo__unmasked("ppo_policy_loss", logp && old_logp && advantage && objective, mask, n);
    if (!count || ppo__check_objective("ppo_policy_loss", objective)) return PPO_ERROR_ARGUMENT;
    double loss = 0, k1 = 0, k3 = 0, ratios = 0;
    int    clipped = 0;
    float  ratio_min = INFINITY, ratio_max = 0, inv = 1 / (float)count;
    for (int i = 0; i < n; ++i) {
        if (grad_logp) grad_logp[i] = 0;
        if (mask && !mask[i]) continue;
        float log_ratio = logp[i] - old_logp[i], ratio = expf(log_ratio), dlogp;
        float term = ppo__policy_term(objective, logp[i], ratio, log_ratio, advantage[i], &dlogp);
        if (!ppo__finite(term))
            return ppo_fail(PPO_ERROR_NUMERIC,
                            "ppo_policy_loss: sample %d gives %g (logp %g, old logp %g, advantage %g)", i,
                            (double)term, (double)logp[i], (double)old_logp[i], (double)advantage[i]);
        loss += term;
        k1 -= log_ratio;
        k3 += ppo__k3(log_ratio);
        ratios += ratio;
        ratio_min = ppo__min(ratio_min, ratio);
        ratio_max = ppo__max(ratio_max, ratio);
        clipped += ratio < 1 - objective->clip_low || ratio > 1 + objective->clip_high;
        if (grad_logp) grad_logp[i] = dlogp * inv;
    }
    if (stats) {
        stats->loss = (float)(loss / count);
        stats->clip_fraction = (float)clipped * inv;
        stats->approx_kl = (float)(k3 / count);
        stats->old_approx_kl = (float)(k1 / count);
        stats->ratio_mean = (float)(ratios / count);
        stats->ratio_min = ratio_min;
        stats->ratio_max = ratio_max;
    }
    return PPO_OK;
}

/* error^2 / 2, and a straight line beyond delta; and its derivative. */
PPO__BOTH static float ppo__huber(float error, float delta, float *derivative) {
    *derivative = ppo__clamp(error, -delta, delta);
    return fabsf(error) <= delta ? 0.5f * error * error : delta * (fabsf(error) - 0.5f * delta);
}

/* max(huber(V - R), huber(clip(V, V_old - range, V_old + range) - R)), and its derivative along V. */
PPO__BOTH static float ppo__value_term(float value, float old_value, float target, float clip_range,
                                       float delta, float *dvalue) {
    float term = ppo__huber(value - target, delta, dvalue), unused;
    if (!(clip_range > 0)) return term;
    float clipped = ppo__clamp(value, old_value - clip_range, old_value + clip_range);
    float other = ppo__huber(clipped - target, delta, &unused);
    if (clipped != value && other > term) term = other, *dvalue = 0; /* the clipped value is constant */
    return ppo__finite(old_value) ? term : old_value;
}

static ppo_status ppo__check_value_range(const char *function, float clip_range, float delta) {
    if (clip_range == clip_range && delta > 0) return PPO_OK;
    return ppo__refuse("%s: clip_range is %g (must not be NaN), delta is %g (must be above 0)", function,
                       (double)clip_range, (double)delta);
}

static ppo_status ppo__value_loss(const char *function, const float *value, const float *old_value,
                                  const float *target, const unsigned char *mask, int n, float clip_range,
                                  float delta, float *loss, float *grad_value) {
    int count = ppo__unmasked(function, value && target && (old_value || !(clip_range > 0)), mask, n);
    if (!count || ppo__check_value_range(function, clip_range, delta)) return PPO_ERROR_ARGUMENT;
    double sum = 0;
    for (int i = 0; i < n; ++i) {
        if (grad_value) grad_value[i] = 0;
        if (mask && !mask[i]) continue;
        float dvalue, old = clip_range > 0 ? old_value[i] : 0;
        float term = ppo__value_term(value[i], old, target[i], clip_range, delta, &dvalue);
        if (!ppo__finite(term))
            return ppo_fail(PPO_ERROR_NUMERIC, "%s: sample %d gives %g (value %g, target %g)", function, i,
                            (double)term, (double)value[i], (double)target[i]);
        sum += (double)term;
        if (grad_value) grad_value[i] = dvalue / (float)count;
    }
    if (loss) *loss = (float)(sum / count);
    return PPO_OK;
}

PPO_DEF ppo_status ppo_value_loss(const float *value, const float *old_value, const float *target,
                                  const unsigned char *mask, int n, float clip_range, float *loss,
                                  float *grad_value) {
    return ppo__value_loss("ppo_value_loss", value, old_value, target, mask, n, clip_range, INFINITY, loss,
                           grad_value);
}

PPO_DEF ppo_status ppo_huber_value_loss(const float *value, const float *old_value, const float *target,
                                        const unsigned char *mask, int n, float clip_range, float delta,
                                        float *loss, float *grad_value) {
    return ppo__value_loss("ppo_huber_value_loss", value, old_value, target, mask, n, clip_range, delta, loss,
                           grad_value);
}

/* k1 = -l, k2 = l^2 / 2, k3 = e^l - 1 - l, for l = ref_logp - logp (Schulman 2020) */
PPO__BOTH static float ppo__kl_of(int estimator, float l) {
    return estimator == PPO_K1 ? -l : estimator == PPO_K2 ? 0.5f * l * l : ppo__k3(l);
}

static ppo_status ppo__check_kl(const char *function, int given, int n, int estimator) {
    if (!ppo__given(function, given)) return PPO_ERROR_ARGUMENT;
    if (n <= 0) return ppo__refuse("%s: n is %d, must be above 0", function, n);
    if (estimator >= PPO_K1 && estimator <= PPO_K3) return PPO_OK;
    return ppo__refuse("%s: there is no estimator %d", function, estimator);
}

PPO_DEF ppo_status ppo_kl_estimate(const float *logp, const float *ref_logp, int n, int estimator,
                                   float *kl) {
    if (ppo__check_kl("ppo_kl_estimate", logp && ref_logp && kl, n, estimator)) return PPO_ERROR_ARGUMENT;
    for (int i = 0; i < n; ++i) {
        kl[i] = ppo__kl_of(estimator, ref_logp[i] - logp[i]);
        if (ppo__finite(kl[i])) continue;
        return ppo_fail(PPO_ERROR_NUMERIC, "ppo_kl_estimate: sample %d gives %g (logp %g, reference %g)", i,
                        (double)kl[i], (double)logp[i], (double)ref_logp[i]);
    }
    return PPO_OK;
}

/* -log sigmoid(x) = log(1 + exp(-x)), without overflow. */
PPO__BOTH static float ppo__neg_log_sigmoid(float x) {
    return x > 0 ? log1pf(expf(-x)) : -x + log1pf(expf(x));
}

/* -(1 - s) log sigmoid(x) - s log sigmoid(-x), and its derivative (1 - s) (sigmoid(x) - 1) + s sigmoid(x). */
PPO__BOTH static float ppo__preference_term(float x, float smoothing, float *derivative) {
    *derivative = smoothing / (1 + expf(-x)) - (1 - smoothing) / (1 + expf(x));
    return (1 - smoothing) * ppo__neg_log_sigmoid(x) + smoothing * ppo__neg_log_sigmoid(-x);
}

/* Both losses of pairs, x = beta ((c - c_ref) - (r - r_ref)); without references (NULL) these are 0. */
static ppo_status ppo__pair_loss(const char *function, int given, const float *chosen, const float *rejected,
                                 const float *ref_chosen, const float *ref_rejected, int n, float beta,
                                 float smoothing, float *loss, float *grad_chosen, float *grad_rejected) {
    double sum = 0;
    if (!ppo__given(function, given)) return PPO_ERROR_ARGUMENT;
    if (n <= 0) return ppo__refuse("%s: n is %d, must be above 0", function, n);
    if (!(beta > 0)) return ppo__refuse("%s: beta is %g, must be above 0", function, (double)beta);
    if (!(smoothing >= 0 && smoothing < 0.5f))
        return ppo__refuse("%s: label_smoothing is %g, must be at least 0 and below 0.5", function,
                           (double)smoothing);
    for (int i = 0; i < n; ++i) {
        float c = chosen[i] - (ref_chosen ? ref_chosen[i] : 0);
        float r = rejected[i] - (ref_rejected ? ref_rejected[i] : 0);
        float derivative, term = ppo__preference_term(beta * (c - r), smoothing, &derivative);
        if (!ppo__finite(term))
            return ppo_fail(PPO_ERROR_NUMERIC, "%s: pair %d gives %g", function, i, (double)term);
        sum += term;
        if (grad_chosen) grad_chosen[i] = beta * derivative / (float)n;
        if (grad_rejected) grad_rejected[i] = -beta * derivative / (float)n;
    }
    if (loss) *loss = (float)(sum / n);
    return PPO_OK;
}

PPO_DEF ppo_status ppo_dpo_loss(const float *chosen_logp, const float *rejected_logp,
                                const float *ref_chosen_logp, const float *ref_rejected_logp, int n,
                                float beta, float label_smoothing, float *loss, float *grad_chosen,
                                float *grad_rejected) {
    int given = chosen_logp && rejected_logp && ref_chosen_logp && ref_rejected_logp;
    return ppo__pair_loss("ppo_dpo_loss", given, chosen_logp, rejected_logp, ref_chosen_logp,
                          ref_rejected_logp, n, beta, label_smoothing, loss, grad_chosen, grad_rejected);
}

PPO_DEF ppo_status ppo_pairwise_loss(const float *chosen_score, const float *rejected_score, int n,
                                     float *loss, float *grad_chosen, float *grad_rejected) {
    return ppo__pair_loss("ppo_pairwise_loss", chosen_score && rejected_score, chosen_score, rejected_score,
                          NULL, NULL, n, 1, 0, loss, grad_chosen, grad_rejected);
}

/* -- operations of the tape. kept: the gradients of the loss, input after input; NULL if none is wanted -- */

static ppo_status ppo__loss_keep(ppo_node *node) {
    size_t size = 0;
    for (int k = 0; k < PPO_MAX_INPUTS && node->in[k]; ++k) size += ppo__size(node->in[k]);
    if (node->out[0]->grad) node->kept = ppo_tape_alloc(node->tape, size);
    return node->out[0]->grad && !node->kept ? PPO_ERROR_MEMORY : PPO_OK;
}

static void ppo__loss_backward(ppo_node *node) {
    const float *derivative = (const float *)node->kept;
    for (int k = 0; k < PPO_MAX_INPUTS && node->in[k]; derivative += ppo__size(node->in[k++]))
        for (size_t i = 0; i < ppo__size(node->in[k]) && node->in[k]->grad; ++i)
            node->in[k]->grad[i] += node->out[0]->grad[0] * derivative[i];
}

typedef struct ppo__policy_args {
    const float         *old_logp, *advantage;
    const unsigned char *mask;
    ppo_policy_objective objective;
    ppo_policy_stats    *stats;
} ppo__policy_args;

static ppo_status ppo__policy_loss_forward(ppo_node *node) {
    const ppo__policy_args *args = (const ppo__policy_args *)node->args;
    const ppo_tensor       *logp = node->in[0];
    ppo_policy_stats        stats;
    ppo_status              status = ppo__loss_keep(node);
    if (!status)
        status = ppo_policy_loss(logp->data, args->old_logp, args->advantage, args->mask,
                                 (int)ppo__size(logp), &args->objective, &stats, (float *)node->kept);
    if (status) return status;
    node->out[0]->data[0] = stats.loss;
    if (args->stats) *args->stats = stats;
    return PPO_OK;
}

PPO_DEF ppo_tensor *ppo_tape_policy_loss(ppo_tape *tape, ppo_tensor *logp, const float *old_logp,
                                         const float *advantage, const unsigned char *mask,
                                         const ppo_policy_objective *objective, ppo_policy_stats *stats) {
    static const ppo_op op = {"policy_loss", 1, ppo__policy_loss_forward, ppo__loss_backward};
    if (!ppo__operands(tape, op.name, logp, objective ? logp : NULL)) return NULL;
    ppo__policy_args args = {old_logp, advantage, mask, *objective, stats};
    return ppo_tape_result(ppo_tape_apply(tape, &op, &logp, 1, 1, 1, &args, sizeof args));
}

typedef struct ppo__value_args {
    const float         *old_value, *target;
    const unsigned char *mask;
    float                clip_range, delta;
} ppo__value_args;

static ppo_status ppo__value_loss_forward(ppo_node *node) {
    const ppo__value_args *args = (const ppo__value_args *)node->args;
    const ppo_tensor      *value = node->in[0];
    if (ppo__loss_keep(node)) return PPO_ERROR_MEMORY;
    return ppo__value_loss("value_loss", value->data, args->old_value, args->target, args->mask,
                           (int)ppo__size(value), args->clip_range, args->delta, node->out[0]->data,
                           (float *)node->kept);
}

PPO_DEF ppo_tensor *ppo_tape_huber_value_loss(ppo_tape *tape, ppo_tensor *value, const float *old_value,
                                              const float *target, const unsigned char *mask,
                                              float clip_range, float delta) {
    static const ppo_op op = {"value_loss", 1, ppo__value_loss_forward, ppo__loss_backward};
    if (!ppo__operands(tape, op.name, value, value)) return NULL;
    ppo__value_args args = {old_value, target, mask, clip_range, delta};
    return ppo_tape_result(ppo_tape_apply(tape, &op, &value, 1, 1, 1, &args, sizeof args));
}

PPO_DEF ppo_tensor *ppo_tape_value_loss(ppo_tape *tape, ppo_tensor *value, const float *old_value,
                                        const float *target, const unsigned char *mask, float clip_range) {
    return ppo_tape_huber_value_loss(tape, value, old_value, target, mask, clip_range, INFINITY);
}

/* in[0] is (n, 1) of the chosen, in[1] of the rejected. */
typedef struct ppo__pair_args {
    const char  *name;
    const float *ref_chosen_logp, *ref_rejected_logp; /* NULL: the pairwise loss */
    float        beta, label_smoothing;
} ppo__pair_args;

static ppo_status ppo__pair_loss_forward(ppo_node *node) {
    const ppo__pair_args *args = (const ppo__pair_args *)node->args;
    if (ppo__loss_keep(node)) return PPO_ERROR_MEMORY;
    float *grad = (float *)node->kept;
    int    n = node->in[0]->rows;
    return ppo__pair_loss(args->name, 1, node->in[0]->data, node->in[1]->data, args->ref_chosen_logp,
                          args->ref_rejected_logp, n, args->beta, args->label_smoothing, node->out[0]->data,
                          grad, grad ? grad + n : NULL);
}

static ppo_tensor *ppo__tape_pair_loss(ppo_tape *tape, int given, ppo_tensor *chosen, ppo_tensor *rejected,
                                       const ppo__pair_args *args) {
    static const ppo_op op = {"pair_loss", 1, ppo__pair_loss_forward, ppo__loss_backward};
    if (!ppo__operands(tape, args->name, chosen, given ? rejected : NULL)) return NULL;
    if (chosen->cols != 1 || rejected->cols != 1 || chosen->rows != rejected->rows)
        return ppo__shape_error(tape, args->name, chosen, rejected);
    ppo_tensor *in[2] = {chosen, rejected};
    return ppo_tape_result(ppo_tape_apply(tape, &op, in, 2, 1, 1, args, sizeof *args));
}

PPO_DEF ppo_tensor *ppo_tape_dpo_loss(ppo_tape *tape, ppo_tensor *chosen_logp, ppo_tensor *rejected_logp,
                                      const float *ref_chosen_logp, const float *ref_rejected_logp,
                                      float beta, float label_smoothing) {
    ppo__pair_args args = {"dpo_loss", ref_chosen_logp, ref_rejected_logp, beta, label_smoothing};
    return ppo__tape_pair_loss(tape, ref_chosen_logp && ref_rejected_logp, chosen_logp, rejected_logp, &args);
}

PPO_DEF ppo_tensor *ppo_tape_pairwise_loss(ppo_tape *tape, ppo_tensor *chosen_score,
                                           ppo_tensor *rejected_score) {
    ppo__pair_args args = {"pairwise_loss", NULL, NULL, 1, 0};
    return ppo__tape_pair_loss(tape, 1, chosen_score, rejected_score, &args);
}

/* --------------------------------------------------------------------------------------------------------
   @@ 10 Optimizer. A step clips the norm of all gradients of a set of parameters, then runs Adam over it: one
   pass for each run of tensors that share a learning rate and a decay, divided among threads. Where the set
   lies on a device (its mirror), the step is queued there.
   -------------------------------------------------------------------------------------------------------- */

PPO_DEF ppo_adam ppo_adam_default(void) {
    ppo_adam adam = {3e-4f, 0.9f, 0.999f, 1e-5f, 0};
    return adam;
}

typedef struct ppo__adam_factors {
    float step_size, inv_sqrt_bias2, decay;
} ppo__adam_factors;

static ppo__adam_factors ppo__adam_factors_of(const ppo_adam *adam, int64_t step) {
    double            bias1 = 1 - pow((double)adam->beta1, (double)step);
    double            bias2 = 1 - pow((double)adam->beta2, (double)step);
    ppo__adam_factors f = {(float)((double)adam->lr / bias1), (float)(1 / sqrt(bias2)),
                           adam->lr * adam->weight_decay};
    return f;
}

/* m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;
   p -= lr weight_decay p + lr m' / (sqrt(v') + eps), with m' = m / (1 - b1^step), v' = v / (1 - b2^step). */
PPO_DEF void ppo_adam_step(float *param, const float *grad, float *m, float *v, size_t n,
                           const ppo_adam *adam, int64_t step) {
    const ppo__adam_factors f = ppo__adam_factors_of(adam, step);
    ppo__k()->adam(param, grad, m, v, n, adam->beta1, adam->beta2, adam->eps, f.step_size, f.inv_sqrt_bias2,
                   f.decay);
}

/* What clipping multiplies gradients of this norm by. */
PPO__BOTH static float ppo__clip_factor(float norm, float max_norm) {
    float factor = max_norm / (norm + 1e-6f);
    return max_norm > 0 && factor < 1 && ppo__finite(norm) ? factor : 1;
}

PPO_DEF float ppo_clip_grad_norm(float *grad, size_t n, float max_norm) {
    float norm = (float)sqrt(ppo__k()->sum_squares(grad, n));
    float factor = ppo__clip_factor(norm, max_norm);
    if (factor < 1) ppo__k()->scale(factor, grad, n);
    return norm;
}

/* Zeroes blocks from `first` on: 1 m, 2 v, 3 gradients. */
static void ppo__params_zero(ppo_params *params, int first) {
    if (!params || !params->count || params->frozen) return;
    ppo__mirror *mirror = ppo__mirror_of(params);
    for (int k = first; k < 4; ++k) {
        size_t at = (size_t)k * params->capacity, size = params->count * sizeof(float);
        if (mirror) mirror->device->zero(mirror->device, mirror->data + at, size);
        else memset(params->data + at, 0, size);
    }
    if (mirror) mirror->changed = 1;
}

PPO_DEF void ppo_params_zero_grad(ppo_params *params) { ppo__params_zero(params, 3); }

PPO_DEF void ppo_params_restart(ppo_params *params) {
    ppo__params_zero(params, 1);
    if (params) params->step = 0;
}

typedef struct ppo__adam_job {
    ppo_params     *params;
    size_t          begin, end;
    const ppo_adam *adam;
} ppo__adam_job;

static void ppo__adam_range(void *user, int range, int begin, int end) {
    const ppo__adam_job *job = (const ppo__adam_job *)user;
    ppo_params          *params = job->params;
    size_t               at = job->begin + ppo__at(begin, PPO__FLOAT_GRAIN);
    size_t               n = job->begin + ppo__grain_end(job->end - job->begin, end) - at;
    ppo_adam_step(params->data + at, params->grad + at, params->m + at, params->v + at, n, job->adam,
                  params->step);
}

static float ppo__decay_of(const ppo_params *params, int i, const ppo_adam *adam) {
    return params->decay_matrices && params->tensors[i]->rows == 1 ? 0 : adam->weight_decay;
}

/* The tensors from i on that share a learning rate and a decay: their settings and numbers. Returns the next
   tensor. */
static int ppo__params_group(const ppo_params *params, int i, const ppo_adam *adam, ppo_adam *scaled,
                             size_t *begin, size_t *end) {
    const float lr_scale = params->lr_scale[i];
    *scaled = *adam;
    scaled->lr *= lr_scale;
    scaled->weight_decay = ppo__decay_of(params, i, adam);
    *begin = (size_t)(params->tensors[i]->data - params->data);
    do ++i;
    while (i < params->tensor_count && params->lr_scale[i] == lr_scale &&
           ppo__decay_of(params, i, adam) == scaled->weight_decay);
    *end = i < params->tensor_count ? (size_t)(params->tensors[i]->data - params->data) : params->count;
    return i;
}

/* Copies the numbers and moments of a set to `copy` [3 capacity], which lies where they do, or back. */
static void ppo__params_copy(ppo_params *params, float *copy, int back) {
    ppo__mirror *mirror = ppo__mirror_of(params);
    float       *blocks = mirror ? mirror->data : params->data, *to = back ? blocks : copy;
    const float *from = back ? copy : blocks;
    const size_t size = ppo__blocks_size(params, 3);
    if (mirror) mirror->device->copy(mirror->device, to, from, size);
    else memcpy(to, from, size);
    if (mirror && back) mirror->changed = 1;
}

/* Multiplies the gradients by scale first. On a device the step is queued: settle() sets *grad_norm, reports
   failures, and subtracts the steps that were not done. */
static ppo_status ppo__params_step(ppo_params *params, const ppo_adam *adam, float scale, float max_grad_norm,
                                   float *grad_norm) {
    ppo__mirror *mirror = ppo__mirror_of(params);
    if (mirror) {
        ++params->step;
        mirror->changed = 1;
        mirror->device->step(mirror->device, params, adam, scale, max_grad_norm, grad_norm);
        return PPO_OK;
    }
    if (scale != 1) ppo__k()->scale(scale, params->grad, params->count);
    float norm = ppo_clip_grad_norm(params->grad, params->count, max_grad_norm);
    if (grad_norm) *grad_norm = norm;
    if (!ppo__finite(norm))
        return ppo_fail(PPO_ERROR_NUMERIC, "the gradient's norm is %g at optimizer step %lld", (double)norm,
                        (long long)params->step + 1);
    ++params->step;
    for (int i = 0; i < params->tensor_count;) {
        ppo_adam      scaled;
        ppo__adam_job job = {params, 0, 0, &scaled};
        i = ppo__params_group(params, i, adam, &scaled, &job.begin, &job.end);
        ppo__parallel_for(ppo__grains(job.end - job.begin), 1, 40.0 * (double)PPO__FLOAT_GRAIN,
                          ppo__adam_range, &job);
    }
    return PPO_OK;
}

PPO_DEF ppo_status ppo_params_step(ppo_params *params, const ppo_adam *adam, float max_grad_norm,
                                   float *grad_norm) {
    if (!ppo__given("ppo_params_step", params && adam)) return PPO_ERROR_ARGUMENT;
    if (params->frozen)
        return ppo__refuse("ppo_params_step: the parameters are frozen; see ppo_params_freeze()");
    ppo__mirror *mirror = ppo__mirror_of(params);
    ppo_status   status = ppo__params_step(params, adam, 1, max_grad_norm, grad_norm);
    return ppo__settle(mirror ? mirror->device : NULL, status);
}

PPO_DEF float ppo_schedule(int schedule, float initial, float progress) {
    progress = ppo__clamp(progress, 0, 1);
    if (schedule == PPO_LINEAR) return initial * (1 - progress);
    if (schedule == PPO_COSINE) return initial * 0.5f * (1 + cosf(3.14159265f * progress));
    return initial;
}

PPO_DEF float ppo_adaptive_kl(float coef, float observed_kl, float target_kl, int n_steps, int horizon) {
    float error = ppo__clamp(observed_kl / target_kl - 1, -0.2f, 0.2f);
    return coef * (1 + error * (float)n_steps / (float)horizon);
}

PPO_DEF float ppo_adaptive_kl_2017(float coef, float observed_kl, float target_kl) {
    if (observed_kl < target_kl / 1.5f) return coef / 2;
    return observed_kl > 1.5f * target_kl ? 2 * coef : coef;
}

/* --------------------------------------------------------------------------------------------------------
   @@ 11 Normalizers. Mean and variance of a batch are merged into the running ones, in double precision.
   -------------------------------------------------------------------------------------------------------- */

static void ppo__normalizer_reset(ppo_normalizer *norm, double count) {
    norm->count = count;
    for (int j = 0; j < norm->size; ++j) norm->mean[j] = 0, norm->var[j] = 1;
}

PPO_DEF ppo_status ppo_normalizer_init(ppo_normalizer *norm, int size) {
    if (!ppo__given("ppo_normalizer_init", norm != NULL)) return PPO_ERROR_ARGUMENT;
    memset(norm, 0, sizeof *norm);
    if (size <= 0) return ppo__refuse("ppo_normalizer_init: size is %d, must be above 0", size);
    norm->mean = (double *)ppo__alloc(2 * (size_t)size * sizeof(double));
    if (!norm->mean) return PPO_ERROR_MEMORY;
    norm->var = norm->mean + size;
    norm->size = size;
    ppo__normalizer_reset(norm, 1e-4);
    return PPO_OK;
}

PPO_DEF void ppo_normalizer_free(ppo_normalizer *norm) {
    if (!norm) return;
    ppo__free(norm->mean);
    memset(norm, 0, sizeof *norm);
}

/* Mean and variance of two samples together, for one number (Chan et al. 1979). */
static void ppo__merge_moments(double *mean, double *var, double count, double other_mean, double other_var,
                               double other_count) {
    double total = count + other_count, shift = other_mean - *mean;
    double squares = *var * count + other_var * other_count + shift * shift * count * other_count / total;
    *mean += shift * other_count / total;
    *var = squares / total;
}

PPO_DEF void ppo_normalizer_update(ppo_normalizer *norm, const float *x, int rows) {
    if (rows <= 0) return;
    for (int j = 0; j < norm->size; ++j) {
        double mean = 0, var = 0;
        for (int i = 0; i < rows; ++i) mean += ppo__clamp(x[ppo__at(i, norm->size) + j], -FLT_MAX, FLT_MAX);
        mean /= rows;
        for (int i = 0; i < rows; ++i) {
            double shift = ppo__clamp(x[ppo__at(i, norm->size) + j], -FLT_MAX, FLT_MAX) - mean;
            var += shift * shift / rows;
        }
        ppo__merge_moments(&norm->mean[j], &norm->var[j], norm->count, mean, var, rows);
    }
    norm->count += rows;
}

PPO_DEF void ppo_normalizer_merge(ppo_normalizer *norm, const ppo_normalizer *other) {
    if (!(other->count > 0)) return;
    for (int j = 0; j < norm->size; ++j)
        ppo__merge_moments(&norm->mean[j], &norm->var[j], norm->count, other->mean[j], other->var[j],
                           other->count);
    norm->count += other->count;
}

PPO_DEF PPO__NOINLINE void ppo_normalize(const ppo_normalizer *norm, const float *x, int rows, float limit,
                                         float *out) {
    for (int i = 0; i < rows; ++i) {
        for (int j = 0; j < norm->size; ++j) {
            size_t at = ppo__at(i, norm->size) + j;
            out[at] = ppo__clamp((float)((x[at] - norm->mean[j]) / sqrt(norm->var[j] + 1e-8)), -limit, limit);
        }
    }
}

/* Observations (rows, size) as a policy sees them: normalized, unless norm is NULL or of size 0. */
static void ppo__normalized(const ppo_normalizer *norm, float limit, const float *obs, int rows, int size,
                            float *out) {
    if (norm && norm->size) ppo_normalize(norm, obs, rows, limit, out);
    else memcpy(out, obs, ppo__at(rows, size) * sizeof(float));
}

/* ========================================================================================================
   @@ CONTROL
   ======================================================================================================== */

#ifndef PPO_NO_CONTROL

/* --------------------------------------------------------------------------------------------------------
   @@ 12 Spaces

   Everything that depends on the kind of an action space is a function in one row of the table ppo__spaces;
   sections 13 to 16 ask the table. The policy network gives a row of `outputs` numbers: logits, or the means
   of Gaussians. With what belongs to them they are a distribution, from which an action of `width` numbers is
   chosen, and whose log-probability and KL are recorded on a tape.

   To add an action space: a constant in the enum of kinds with a function like ppo_box() in the interface, a
   row at its place in ppo__spaces, and those functions of the row that differ. A space of several choices
   needs no more than sizes[]: ppo__choices_...() do the rest. An action of floats sets `continuous` and is in
   ppo_actions.box; any other one is in ppo_actions.discrete. ppo_export_c() knows only these two.
   -------------------------------------------------------------------------------------------------------- */

static ppo_space ppo__space(int kind, int n, const int *sizes) {
    ppo_space space;
    memset(&space, 0, sizeof space);
    space.kind = kind;
    space.n = n;
    for (int j = 0; j < n && j < PPO_MAX_CHOICES; ++j)
        space.sizes[j] = kind == PPO_MULTI_BINARY ? 2 : sizes ? sizes[j] : 0;
    return space;
}

PPO_DEF ppo_space ppo_discrete(int n) { return ppo__space(PPO_DISCRETE, n, NULL); }

PPO_DEF ppo_space ppo_box(int n, float low, float high) {
    ppo_space space = ppo__space(PPO_BOX, n, NULL);
    space.low = low;
    space.high = high;
    return space;
}

PPO_DEF ppo_space ppo_multi_discrete(const int *sizes, int n) {
    return ppo__space(PPO_MULTI_DISCRETE, n, sizes);
}

PPO_DEF ppo_space ppo_multi_binary(int n) { return ppo__space(PPO_MULTI_BINARY, n, NULL); }

/* Numbers in one action. */
static int ppo__space_width(const ppo_space *space) { return space->kind == PPO_DISCRETE ? 1 : space->n; }

/* The distribution of actions that rows of a policy's outputs describe. */
typedef struct ppo__distribution {
    const ppo_space *space;
    int              squash;  /* continuous: 1: tanh into the box; 0: clipped to it */
    ppo_tensor      *policy;  /* (rows, outputs) logits, or means */
    ppo_tensor      *log_std; /* continuous: (1, n) or (rows, n) */
    int              heads;   /* else: the number of choices, */
    const int       *sizes;   /* and of options of each */
} ppo__distribution;

/* -- the categorical kinds: one or more choices, each by a softmax of its own -- */

/* The number of choices, and of options of each. */
static const int *ppo__space_heads(const ppo_space *space, int *heads) {
    *heads = ppo__space_width(space);
    return space->kind == PPO_DISCRETE ? &space->n : space->sizes;
}

static ppo_status ppo__choices_check(const ppo_space *space) {
    int        heads;
    const int *sizes = ppo__space_heads(space, &heads);
    if (heads > PPO_MAX_CHOICES)
        return ppo__refuse("action_space has %d choices, more than %d", heads, (int)PPO_MAX_CHOICES);
    for (int h = 0; h < heads; ++h) {
        if (sizes[h] > 0 && sizes[h] <= INT_MAX / PPO_MAX_CHOICES) continue;
        return ppo__refuse("action_space: choice %d has %d options, must be 1 to %d", h, sizes[h],
                           INT_MAX / PPO_MAX_CHOICES);
    }
    return PPO_OK;
}

static int ppo__choices_valid(const ppo_space *space, const void *numbers) {
    int        heads, valid = 1;
    const int *sizes = ppo__space_heads(space, &heads), *choice = (const int *)numbers;
    for (int h = 0; h < heads; ++h) valid &= choice[h] >= 0 && choice[h] < sizes[h];
    return valid;
}

static void ppo__choices_choose(const ppo__distribution *d, int row, ppo_rng *rng, const ppo_actions *actions,
                                size_t at) {
    const float *logits = d->policy->data + ppo__at(row, d->policy->cols);
    for (int h = 0; h < d->heads; logits += d->sizes[h++])
        actions->discrete[at * d->heads + h] = rng ? ppo_categorical_sample(logits, d->sizes[h], 1, rng)
                                                   : ppo_categorical_mode(logits, d->sizes[h]);
}

static ppo_action ppo__choices_for_env(const ppo_space *space, int squash, const ppo_actions *actions,
                                       size_t at, float *box) {
    ppo_action action = {0, actions->discrete + at * (size_t)ppo__space_width(space), NULL};
    (void)squash, (void)box;
    action.discrete = action.choices[0];
    return action;
}

static void ppo__choices_logp(ppo_tape *tape, const ppo__distribution *d, const ppo_actions *actions,
                              ppo_tensor **logp, ppo_tensor **entropy) {
    ppo_tape_multi_categorical(tape, d->policy, d->sizes, d->heads, actions->discrete, logp, entropy);
}

static ppo_tensor *ppo__choices_kl(ppo_tape *tape, const ppo__distribution *d, const float *old_policy,
                                   const float *old_log_std) {
    (void)old_log_std;
    return ppo_tape_multi_categorical_kl(tape, old_policy, d->sizes, d->heads, d->policy);
}

/* -- the box: n independent Gaussians -- */

static ppo_status ppo__box_check(const ppo_space *space) {
    if (space->low < space->high) return PPO_OK;
    return ppo__refuse("action_space: low %g is not below high %g", (double)space->low, (double)space->high);
}

static int ppo__box_valid(const ppo_space *space, const void *numbers) {
    int          valid = 1;
    const float *x = (const float *)numbers;
    for (int j = 0; j < space->n; ++j)
        valid &= ppo__finite(x[j]) && x[j] >= space->low && x[j] <= space->high;
    return valid;
}

static const float *ppo__log_std_row(const ppo_tensor *log_std, int row) {
    return log_std->data + ppo__at(row, ppo__ld_std(log_std));
}

static void ppo__box_choose(const ppo__distribution *d, int row, ppo_rng *rng, const ppo_actions *actions,
                            size_t at) {
    int          n = d->space->n;
    const float *mean = d->policy->data + ppo__at(row, n);
    if (rng) ppo_gaussian_sample(mean, ppo__log_std_row(d->log_std, row), n, rng, actions->box + at * n);
    else memcpy(actions->box + at * n, mean, n * sizeof(float));
}

static ppo_action ppo__box_for_env(const ppo_space *space, int squash, const ppo_actions *actions, size_t at,
                                   float *box) {
    const float *u = actions->box + at * (size_t)space->n;
    ppo_action   action = {0, NULL, box};
    if (squash) ppo_squash(u, (size_t)space->n, space->low, space->high, box);
    for (int j = 0; j < space->n && !squash; ++j) box[j] = ppo__clamp(u[j], space->low, space->high);
    return action;
}

/* A squashed action's log-probability is that of u less the tanh's log-determinant; its negative estimates
   the entropy. */
static void ppo__box_logp(ppo_tape *tape, const ppo__distribution *d, const ppo_actions *actions,
                          ppo_tensor **logp, ppo_tensor **entropy) {
    const ppo_space *space = d->space;
    ppo_tape_gaussian(tape, d->policy, d->log_std, actions->box, logp, entropy);
    if (!d->squash) return;
    float *log_det = *logp ? ppo_tape_alloc(tape, (*logp)->rows) : NULL;
    if (log_det) {
        ppo_squash_log_det(actions->box, (*logp)->rows, space->n, space->low, space->high, log_det);
        *logp = ppo_tape_sub(tape, *logp, ppo_tape_constant(tape, log_det, (*logp)->rows, 1));
    }
    if (entropy) *entropy = *logp ? ppo_tape_scale(tape, *logp, -1, 0) : NULL;
}

/* Squashing moves both distributions alike, so it does not change their KL. */
static ppo_tensor *ppo__box_kl(ppo_tape *tape, const ppo__distribution *d, const float *old_policy,
                               const float *old_log_std) {
    return ppo_tape_gaussian_kl(tape, old_policy, old_log_std, d->policy, d->log_std);
}

/* -- the table -- */

typedef struct ppo__space_kind {
    const char *name;       /* the first word of the space's text in files */
    int         listed;     /* 1: after it come the sizes of the choices; 0: n */
    int         continuous; /* 1: actions are floats, with a log_std, and masks do not apply */
    ppo_status (*check)(const ppo_space *space);
    int (*valid)(const ppo_space *space, const void *numbers); /* 1: [width] numbers are such an action */
    /* Action `at` of a batch from a row of d: sampled, or the most likely one if rng is NULL. */
    void (*choose)(const ppo__distribution *d, int row, ppo_rng *rng, const ppo_actions *actions, size_t at);
    /* That action as the environment sees it; box [n] receives numbers that are clipped or squashed. */
    ppo_action (*for_env)(const ppo_space *space, int squash, const ppo_actions *actions, size_t at,
                          float *box);
    /* log pi(action) and the entropy, (rows, 1); entropy may be NULL. */
    void (*logp)(ppo_tape *tape, const ppo__distribution *d, const ppo_actions *actions, ppo_tensor **logp,
                 ppo_tensor **entropy);
    /* KL(old || new), (rows, 1), exact. */
    ppo_tensor *(*kl)(ppo_tape *tape, const ppo__distribution *d, const float *old_policy,
                      const float *old_log_std);
} ppo__space_kind;

#define PPO__CATEGORICAL                                                                                     \
    0, ppo__choices_check, ppo__choices_valid, ppo__choices_choose, ppo__choices_for_env, ppo__choices_logp, \
        ppo__choices_kl

static const ppo__space_kind ppo__spaces[] = {
    {"discrete", 0, PPO__CATEGORICAL},
    {"box", 0, 1, ppo__box_check, ppo__box_valid, ppo__box_choose, ppo__box_for_env, ppo__box_logp,
     ppo__box_kl},
    {"multi-discrete", 1, PPO__CATEGORICAL},
    {"multi-binary", 0, PPO__CATEGORICAL},
};
enum { PPO__SPACES = sizeof ppo__spaces / sizeof *ppo__spaces };

static const ppo__space_kind *ppo__kind(const ppo_space *space) {
    return &ppo__spaces[space->kind - PPO_DISCRETE];
}

/* Numbers that the policy network gives for an action. */
static int ppo__space_outputs(const ppo_space *space) {
    int        heads, sum = 0;
    const int *sizes = ppo__space_heads(space, &heads);
    for (int h = 0; h < heads && !ppo__kind(space)->continuous; ++h) sum += sizes[h];
    return ppo__kind(space)->continuous ? space->n : sum;
}

static ppo_status ppo__check_space(const ppo_space *space) {
    if (space->kind < PPO_DISCRETE || space->kind >= (int)PPO_DISCRETE + (int)PPO__SPACES)
        return ppo__refuse("action_space.kind is %d: use ppo_discrete(), ppo_box() or their like",
                           space->kind);
    if (space->n <= 0) return ppo__refuse("action_space has no actions: n is %d", space->n);
    return ppo__kind(space)->check(space);
}

/* The first choice for which a mask leaves nothing; -1: there is none. */
static int ppo__choice_without_action(const ppo_space *space, const unsigned char *mask) {
    int        heads;
    const int *sizes = ppo__space_heads(space, &heads);
    for (int h = 0; h < heads; mask += sizes[h++]) {
        int legal = 0;
        for (int j = 0; j < sizes[h]; ++j) legal |= mask[j];
        if (!legal) return h;
    }
    return -1;
}

/* "discrete 2", "box 1 -2 2", "multi-discrete 3,2" or "multi-binary 4" */
enum { PPO__SPACE_SIZE = 16 + 12 * PPO_MAX_CHOICES };

static void ppo__space_text(const ppo_space *space, char text[PPO__SPACE_SIZE]) {
    const ppo__space_kind *kind = ppo__kind(space);
    size_t                 used = 0;
    for (int j = 0; j < (kind->listed ? space->n : 1); ++j)
        used += (size_t)snprintf(text + used, PPO__SPACE_SIZE - used, "%s%s%d", j ? "" : kind->name,
                                 j ? "," : " ", kind->listed ? space->sizes[j] : space->n);
    for (int j = 0; j < 2 && kind->continuous; ++j) {
        char number[32];
        snprintf(number, sizeof number, "%.9g", (double)(j ? space->high : space->low));
        used += (size_t)snprintf(text + used, PPO__SPACE_SIZE - used, " %s", ppo__with_point(number));
    }
}

/* What ppo__space_text() wrote; a space that fails its check if the text is something else. */
static ppo_space ppo__parse_space(const char *text) {
    size_t length = strcspn(text, " ");
    int    k = 0, n = 0, sizes[PPO_MAX_CHOICES];
    char   numbers[2][32], more;
    double low = 0, high = 0;
    while (k < PPO__SPACES &&
           (strlen(ppo__spaces[k].name) != length || memcmp(text, ppo__spaces[k].name, length)))
        ++k;
    if (k == PPO__SPACES || !text[length]) return ppo__space(0, 0, NULL);
    const ppo__space_kind *kind = &ppo__spaces[k];
    for (text += length; !n || (kind->listed && *text == ',' && n < PPO_MAX_CHOICES);)
        sizes[n++] = ppo__parse_count(text + 1, &text);
    if (!kind->listed) n = sizes[0];
    if (kind->continuous && sscanf(text, " %31s %31s%c", numbers[0], numbers[1], &more) == 2 &&
        ppo__parse_number(numbers[0], &low) && ppo__parse_number(numbers[1], &high))
        text = "";
    ppo_space space = ppo__space(PPO_DISCRETE + k, *text ? 0 : n, kind->listed ? sizes : NULL);
    space.low = (float)low;
    space.high = (float)high;
    return space;
}

/* --------------------------------------------------------------------------------------------------------
   @@ 13 Networks

   Multilayer perceptrons, a recurrent core, and the policy and value networks that are made of them:
   ppo_actor_critic_forward() is the way from observations to a policy's outputs and a value.

   To add a layer: its struct with an init and a forward function like ppo_gru's; the operation is one or more
   of section 5's, or a ppo_op of its own as below. Then put it into ppo_actor_critic_init() and at its
   place in ppo_actor_critic_forward(); its width into ppo_model_config, ppo_config (its row in section 15 is
   a PPO__NETWORK), and the copy of one to the other in ppo__agent_make(). Parameters that are added to the
   set are trained and saved by themselves, and ppo_export_c() refuses those that it does not know. Where
   init=uniform applies to them: ppo__init_uniform(). If they are many: ppo__check_weights() in section 16.
   -------------------------------------------------------------------------------------------------------- */

PPO_DEF ppo_status ppo_mlp_init(ppo_mlp *mlp, ppo_params *params, const char *name, const int *sizes,
                                int layers, int hidden_activation, int last_activation, float last_gain,
                                ppo_rng *rng) {
    if (!ppo__given("ppo_mlp_init", mlp && params && name && sizes)) return PPO_ERROR_ARGUMENT;
    if (strlen(name) > 100) return ppo__refuse("ppo_mlp_init: the name is longer than 100");
    if (layers < 0 || layers > PPO_MAX_LAYERS)
        return ppo__refuse("%s: %d layers, outside 0 to %d", name, layers, (int)PPO_MAX_LAYERS);
    if (ppo__check_activation(name, hidden_activation) || ppo__check_activation(name, last_activation))
        return PPO_ERROR_ARGUMENT;
    ppo_status status = PPO_OK;
    memset(mlp, 0, sizeof *mlp);
    mlp->hidden_activation = hidden_activation;
    mlp->last_activation = last_activation;
    for (int k = 0; k < layers && !status; ++k, ++mlp->layers) {
        char weight[128], bias[128];
        snprintf(weight, sizeof weight, "%s.%d.weight", name, k);
        snprintf(bias, sizeof bias, "%s.%d.bias", name, k);
        mlp->weight[k] = ppo_params_add(params, weight, sizes[k], sizes[k + 1]);
        mlp->bias[k] = mlp->weight[k] ? ppo_params_add(params, bias, 1, sizes[k + 1]) : NULL;
        if (!mlp->bias[k]) return ppo__failed;
        if (rng) status = ppo_init_orthogonal(mlp->weight[k], k == layers - 1 ? last_gain : sqrtf(2), rng);
    }
    return status;
}

/* Layers from .. to - 1. */
static ppo_tensor *ppo__mlp_layers(ppo_tape *tape, const ppo_mlp *mlp, ppo_tensor *x, int from, int to) {
    while (from < to) {
        int activation[PPO__CHAIN], count = to - from < PPO__CHAIN ? to - from : PPO__CHAIN;
        for (int k = 0; k < count; ++k)
            activation[k] = from + k == mlp->layers - 1 ? mlp->last_activation : mlp->hidden_activation;
        x = ppo__tape_chain(tape, "linear", x, mlp->weight + from, mlp->bias + from, activation, count);
        from += count;
    }
    return x;
}

PPO_DEF ppo_tensor *ppo_mlp_forward(ppo_tape *tape, const ppo_mlp *mlp, ppo_tensor *x) {
    if (!ppo__operands(tape, "ppo_mlp_forward", x, mlp ? x : NULL)) return NULL;
    return ppo__mlp_layers(tape, mlp, x, 0, mlp->layers);
}

/* -- the recurrent core -- */

PPO_DEF ppo_status ppo_gru_init(ppo_gru *gru, ppo_params *params, const char *name, int in, int width,
                                ppo_rng *rng) {
    if (!ppo__given("ppo_gru_init", gru && params && name)) return PPO_ERROR_ARGUMENT;
    if (strlen(name) > 100) return ppo__refuse("ppo_gru_init: the name is longer than 100");
    if (in <= 0 || width <= 0 || width > INT_MAX / 3)
        return ppo__refuse("%s: a core of %d inputs and width %d", name, in, width);
    static const char *const part[4] = {"input.weight", "input.bias", "state.weight", "state.bias"};
    const int                rows[4] = {in, 1, width, 1};
    ppo_tensor **tensor[4] = {&gru->input_weight, &gru->input_bias, &gru->state_weight, &gru->state_bias};
    ppo_status   status = PPO_OK;
    memset(gru, 0, sizeof *gru);
    gru->width = width;
    for (int k = 0; k < 4 && !status; ++k) {
        char full[128];
        snprintf(full, sizeof full, "%s.%s", name, part[k]);
        *tensor[k] = ppo_params_add(params, full, rows[k], 3 * width);
        if (!*tensor[k]) return PPO_ERROR_MEMORY;
        if (k % 2 == 0 && rng) status = ppo_init_orthogonal(*tensor[k], 1, rng); /* biases stay 0 */
    }
    return status;
}

static void ppo__sigmoid(float *x, size_t n) {
    for (size_t i = 0; i < n; ++i) x[i] *= 0.5f;
    ppo__k()->vtanh(x, x, n);
    for (size_t i = 0; i < n; ++i) x[i] = 0.5f * x[i] + 0.5f;
}

/* in[0] are the rows x W + b. Kept for backward, of all rows: the state before, zeros where an episode begins
   (rows, width); the gates r, z, n (rows, 3 width); and h U_n + c_n (rows, width). */
static ppo_status ppo__gru_forward(ppo_node *node) {
    const ppo_sequences *sequences = (const ppo_sequences *)node->args;
    const ppo_tensor    *x = node->in[0], *u = node->in[1], *c = node->in[2];
    int                  w = u->rows, rows = x->rows;
    size_t               n = ppo__at(rows, w);
    float               *states = ppo_tape_alloc(node->tape, 5 * n);
    float               *sum = ppo_tape_alloc(node->tape, 3 * (size_t)w);
    if (!states || !sum) return PPO_ERROR_MEMORY;
    node->kept = states;
    const float *previous = sequences->state; /* NULL: zeros */
    for (int t = 0, first = 0, count; first < rows; ++t, first += count) {
        float *before = states + ppo__at(first, w), *gates = states + n + 3 * ppo__at(first, w);
        count = sequences->steps ? sequences->count[t] : rows;
        for (int k = 0; k < count; ++k) {
            int begins = !previous || (sequences->start && sequences->start[first + k]);
            if (begins) memset(before + ppo__at(k, w), 0, w * sizeof(float));
            else memcpy(before + ppo__at(k, w), previous + ppo__at(k, w), w * sizeof(float));
        }
        ppo__k()->gemm(count, 3 * w, w, before, w, 1, u->data, 3 * w, c->data, 0, gates, 3 * w);
        for (int k = 0; k < count; ++k) {
            size_t       row = ppo__at(first + k, w);
            const float *h = states + row, *in = x->data + 3 * row;
            float       *gate = states + n + 3 * row, *inner = states + 4 * n + row;
            memcpy(inner, gate + 2 * w, w * sizeof(float));
            for (int j = 0; j < 2 * w; ++j) sum[j] = gate[j] + in[j];
            ppo__sigmoid(sum, 2 * (size_t)w);
            for (int j = 0; j < w; ++j) sum[2 * w + j] = in[2 * w + j] + sum[j] * inner[j];
            ppo__k()->vtanh(sum + 2 * w, sum + 2 * w, w);
            memcpy(gate, sum, 3 * w * sizeof(float));
            for (int j = 0; j < w; ++j)
                node->out[0]->data[row + j] = (1 - gate[w + j]) * gate[2 * w + j] + gate[w + j] * h[j];
        }
        previous = node->out[0]->data + ppo__at(first, w);
    }
    return PPO_OK;
}

/* Back through time: the derivative of a step's state (dh) is added to that of the step before it, unless an
   episode began in between. dx: of one row along x W + b; du: along h U + c; dbefore: along h before. */
static void ppo__gru_backward(ppo_node *node) {
    const ppo_sequences *sequences = (const ppo_sequences *)node->args;
    ppo_tensor          *x = node->in[0], *u = node->in[1], *c = node->in[2];
    int                  w = u->rows, rows = x->rows, steps = sequences->steps ? sequences->steps : 1;
    const float         *states = (const float *)node->kept;
    const float         *gates = states + ppo__at(rows, w), *inner = gates + ppo__at(rows, 3 * w);
    float               *dh = node->out[0]->grad, *dx = ppo_tape_alloc(node->tape, 3 * (size_t)w);
    float               *du = ppo_tape_alloc(node->tape, ppo__at(rows, 3 * w));
    float               *ut = ppo_tape_alloc(node->tape, ppo__size(u));
    float               *dbefore = ppo_tape_alloc(node->tape, ppo__at(rows, w));
    if (!dx || !du || !ut || !dbefore) return;
    ppo__k()->transpose(w, 3 * w, u->data, 3 * w, ut, w);
    for (int t = steps - 1, end = rows; t >= 0; --t) {
        int    count = sequences->steps ? sequences->count[t] : rows, first = end - count;
        size_t at = ppo__at(first, w);
        for (int k = 0; k < count; ++k) {
            size_t row = at + ppo__at(k, w);
            for (int j = 0; j < w; ++j) {
                float r = gates[3 * row + j], z = gates[3 * row + w + j], n = gates[3 * row + 2 * w + j];
                float dn = dh[row + j] * (1 - z) * (1 - n * n);
                float dz = dh[row + j] * (states[row + j] - n) * z * (1 - z);
                dx[j] = du[3 * row + j] = dn * inner[row + j] * r * (1 - r);
                dx[w + j] = du[3 * row + w + j] = dz;
                dx[2 * w + j] = dn;
                du[3 * row + 2 * w + j] = dn * r;
                dbefore[row + j] = dh[row + j] * z;
            }
            if (x->grad) ppo__k()->add(dx, x->grad + 3 * row, 3 * (size_t)w);
        }
        ppo__k()->gemm(count, w, 3 * w, du + 3 * at, 3 * w, 1, ut, w, dbefore + at, w, dbefore + at, w);
        int before = t ? first - sequences->count[t - 1] : 0;
        for (int k = 0; k < count && t; ++k) {
            if (sequences->start && sequences->start[first + k]) continue;
            ppo__k()->add(dbefore + at + ppo__at(k, w), dh + ppo__at(before + k, w), w);
        }
        end = first;
    }
    if (u->grad) ppo__k()->gemm(w, 3 * w, rows, states, 1, w, du, 3 * w, u->grad, 3 * w, u->grad, 3 * w);
    if (c->grad) ppo__k()->column_sum(rows, 3 * w, du, 3 * w, c->grad);
}

/* 1 if the counts fit the rows. */
static int ppo__sequences_fit(const ppo_sequences *sequences, int rows) {
    int64_t sum = 0;
    for (int t = 0; t < sequences->steps; ++t) {
        if (!sequences->count || sequences->count[t] <= 0) return 0;
        if (t && sequences->count[t] > sequences->count[t - 1]) return 0;
        sum += sequences->count[t];
    }
    return sequences->steps == 0 || sum == rows;
}

PPO_DEF ppo_tensor *ppo_gru_forward(ppo_tape *tape, const ppo_gru *gru, ppo_tensor *x,
                                    const ppo_sequences *sequences) {
    static const ppo_op op = {"gru", 1, ppo__gru_forward, ppo__gru_backward};
    if (!ppo__operands(tape, op.name, x, gru && sequences ? x : NULL)) return NULL;
    if (!ppo__sequences_fit(sequences, x->rows))
        return (ppo_tensor *)ppo__tape_fail(
            tape,
            ppo__refuse("gru: the sequences' counts do not fall, or do not add up to %d rows", x->rows));
    ppo_tensor *projected = ppo_tape_linear(tape, x, gru->input_weight, gru->input_bias, PPO_IDENTITY);
    ppo_tensor *in[3] = {projected, gru->state_weight, gru->state_bias};
    if (!projected) return NULL;
    return ppo_tape_result(
        ppo_tape_apply(tape, &op, in, 3, x->rows, gru->width, sequences, sizeof *sequences));
}

/* -- actor and critic -- */

/* Layers of `inputs`, the first `layers` hidden widths, and outputs (0: none, as in the trunk). */
static ppo_status ppo__add_mlp(ppo_actor_critic *model, ppo_mlp *mlp, const char *name,
                               const ppo_model_config *config, int inputs, int layers, int outputs,
                               float gain, ppo_rng *rng) {
    int sizes[PPO_MAX_LAYERS + 1] = {inputs}, activation = config->activation;
    for (int k = 0; k < layers; ++k) sizes[k + 1] = config->hidden[k];
    if (outputs) sizes[++layers] = outputs;
    return ppo_mlp_init(mlp, model->params, name, sizes, layers, activation,
                        outputs ? PPO_IDENTITY : activation, gain, rng);
}

/* As PyTorch's defaults: in +- 1 / sqrt(inputs), biases, too; a core's in +- 1 / sqrt(width). */
static void ppo__init_uniform(const ppo_actor_critic *model, ppo_rng *rng) {
    const ppo_mlp *const parts[] = {&model->trunk, &model->actor, &model->critic};
    const ppo_gru       *core = &model->core;
    ppo_tensor *const    of_core[] = {core->input_weight, core->input_bias, core->state_weight,
                                      core->state_bias};
    for (int p = 0; p < 3; ++p) {
        for (int k = 0; k < 4 && p == 1 && core->width; ++k)
            ppo_init_uniform(of_core[k], 1 / sqrtf((float)core->width), rng);
        for (int k = 0; k < parts[p]->layers; ++k) {
            float bound = 1 / sqrtf((float)parts[p]->weight[k]->rows);
            ppo_init_uniform(parts[p]->weight[k], bound, rng);
            ppo_init_uniform(parts[p]->bias[k], bound, rng);
        }
    }
}

PPO_DEF void ppo_actor_critic_free(ppo_actor_critic *model) {
    if (!model) return;
    ppo_params_free(model->params);
    memset(model, 0, sizeof *model);
}

PPO_DEF ppo_status ppo_actor_critic_init(ppo_actor_critic *model, const ppo_model_config *config) {
    if (!ppo__given("ppo_actor_critic_init", model && config && (config->layers <= 0 || config->hidden)))
        return PPO_ERROR_ARGUMENT;
    const ppo_space *space = &config->action_space;
    memset(model, 0, sizeof *model);
    if (config->obs_size <= 0) return ppo__refuse("obs_size is %d, must be above 0", config->obs_size);
    if (config->layers < 0 || config->layers >= PPO_MAX_LAYERS)
        return ppo__refuse("%d hidden layers, outside 0 to %d", config->layers, PPO_MAX_LAYERS - 1);
    if (config->recurrent < 0) return ppo__refuse("recurrent is %d, must not be below 0", config->recurrent);
    ppo_status status = ppo__check_space(space);
    if (status) return status;
    model->obs_size = config->obs_size;
    model->action_space = *space;
    model->shared = config->shared_trunk && config->layers;
    model->gsde = config->gsde && ppo__kind(space)->continuous;
    model->squash = config->squash && ppo__kind(space)->continuous;
    if (model->squash && !ppo__finite(space->high - space->low))
        return ppo__refuse("squash needs a box of finite size, not %g to %g", (double)space->low,
                           (double)space->high);

    int      own = config->shared_trunk ? 0 : config->layers; /* hidden layers of each head */
    int      inputs = config->obs_size;
    ppo_rng  stream = ppo_rng_stream(config->seed, PPO_STREAM_INIT, 0);
    ppo_rng *rng = config->init == PPO_ZEROS ? NULL : &stream;
    status = ppo_params_create(&model->params);
    if (!status && model->shared) {
        status =
            ppo__add_mlp(model, &model->trunk, "trunk", config, inputs, config->layers, 0, sqrtf(2), rng);
        inputs = config->hidden[config->layers - 1];
    }
    if (!status && config->recurrent) {
        status = ppo_gru_init(&model->core, model->params, "core", inputs, config->recurrent, rng);
        inputs = config->recurrent;
    }
    if (!status)
        status = ppo__add_mlp(model, &model->actor, "actor", config, inputs, own, ppo__space_outputs(space),
                              0.01f, rng);
    if (!status && ppo__kind(space)->continuous) { /* per number, of gsde per number and feature */
        int rows = model->gsde ? model->actor.weight[model->actor.layers - 1]->rows : 1;
        model->log_std = ppo_params_add(model->params, "actor.log_std", rows, space->n);
        for (size_t i = 0; model->log_std && i < ppo__size(model->log_std); ++i)
            model->log_std->data[i] = config->log_std_init;
        if (!model->log_std) status = PPO_ERROR_MEMORY;
    }
    if (!status) status = ppo__add_mlp(model, &model->critic, "critic", config, inputs, own, 1, 1, rng);
    if (!status && config->init == PPO_UNIFORM) ppo__init_uniform(model, rng);
    if (status) ppo_actor_critic_free(model);
    return status;
}

/* Generalized state-dependent exploration (Raffin 2022): number j of the action is mean_j + sum_i f_i
   E_ij, where E_ij ~ N(0, exp(log_std_ij)^2) stays the same for some steps. So its variance is sum_i
   f_i^2 exp(2 log_std_ij). No gradient flows into the features f this way. */
static ppo_tensor *ppo__gsde_log_std(ppo_tape *tape, ppo_tensor *log_std, const ppo_tensor *features) {
    if (!features) return NULL;
    ppo_tensor *f = ppo_tape_constant(tape, features->data, features->rows, features->cols);
    ppo_tensor *variance = ppo_tape_matmul(tape, ppo_tape_square(tape, f),
                                           ppo_tape_exp(tape, ppo_tape_scale(tape, log_std, 2, 0)));
    return ppo_tape_scale(tape, ppo_tape_log(tape, ppo_tape_scale(tape, variance, 1, 1e-6f)), 0.5f, 0);
}

/* A NULL argument also fails the tape. */
static int ppo__tape_given(ppo_tape *tape, const char *function, int given) {
    if (!ppo__given(function, tape && given)) ppo__tape_fail(tape, PPO_ERROR_ARGUMENT);
    return tape && given;
}

PPO_DEF ppo_outputs ppo_actor_critic_forward(ppo_tape *tape, const ppo_actor_critic *model,
                                             const ppo_inputs *inputs, int want) {
    ppo_outputs out;
    memset(&out, 0, sizeof out);
    if (!ppo__tape_given(tape, "ppo_actor_critic_forward", model && inputs)) return out;
    ppo_tensor *x = ppo_tape_constant(tape, inputs->obs, inputs->rows, model->obs_size);
    x = ppo_mlp_forward(tape, &model->trunk, x); /* no layers: x itself */
    if (model->core.width) x = out.state = ppo_gru_forward(tape, &model->core, x, &inputs->sequences);
    if (want & PPO_POLICY) {
        int last = model->actor.layers - 1;
        out.features = ppo__mlp_layers(tape, &model->actor, x, 0, last);
        out.policy = ppo__mlp_layers(tape, &model->actor, out.features, last, last + 1);
        if (inputs->mask && !ppo__kind(&model->action_space)->continuous)
            out.policy = ppo_tape_mask(tape, out.policy, inputs->mask);
        out.log_std = model->gsde ? ppo__gsde_log_std(tape, model->log_std, out.features) : model->log_std;
    }
    if (want & PPO_VALUE) out.value = ppo_mlp_forward(tape, &model->critic, x);
    return out;
}

static ppo__distribution ppo__distribution_of(const ppo_actor_critic *model, const ppo_outputs *outputs) {
    ppo__distribution d = {&model->action_space, model->squash, outputs->policy, outputs->log_std, 0, NULL};
    d.sizes = ppo__space_heads(d.space, &d.heads);
    return d;
}

PPO_DEF void ppo_actor_critic_logp(ppo_tape *tape, const ppo_actor_critic *model, const ppo_outputs *outputs,
                                   const ppo_actions *actions, ppo_tensor **logp, ppo_tensor **entropy) {
    if (logp) *logp = NULL;
    if (entropy) *entropy = NULL;
    if (!ppo__tape_given(tape, "ppo_actor_critic_logp",
                         model && outputs && actions && (logp || !model->squash)))
        return;
    ppo__distribution d = ppo__distribution_of(model, outputs);
    ppo__kind(d.space)->logp(tape, &d, actions, logp, entropy);
}

PPO_DEF ppo_tensor *ppo_actor_critic_kl(ppo_tape *tape, const ppo_actor_critic *model,
                                        const ppo_outputs *outputs, const float *old_policy,
                                        const float *old_log_std) {
    if (!ppo__tape_given(tape, "ppo_actor_critic_kl", model && outputs)) return NULL;
    ppo__distribution d = ppo__distribution_of(model, outputs);
    return ppo__kind(d.space)->kl(tape, &d, old_policy, old_log_std);
}

/* One step of each of `rows` sequences, from these states; mask, state and start may be NULL. */
static ppo_outputs ppo__forward_rows(ppo_tape *tape, const ppo_actor_critic *model, int rows,
                                     const float *obs, const unsigned char *mask, const float *state,
                                     const unsigned char *start, int want) {
    const ppo_inputs inputs = {rows, obs, mask, {0, NULL, state, start}};
    ppo_tape_reset(tape);
    return ppo_actor_critic_forward(tape, model, &inputs, want);
}

/* Action `at` of a batch from a row of outputs: sampled, or the most likely one if rng is NULL. */
static void ppo__choose_action(const ppo_actor_critic *model, const ppo_outputs *outputs, int row,
                               ppo_rng *rng, const ppo_actions *actions, size_t at) {
    ppo__distribution d = ppo__distribution_of(model, outputs);
    ppo__kind(d.space)->choose(&d, row, rng, actions, at);
}

/* A Gaussian action by gsde's exploration matrix E (features, n), which the caller keeps for some steps. */
static void ppo__explore(const ppo_outputs *outputs, int row, const float *noise, float *action) {
    int          n = outputs->policy->cols, size = outputs->features->cols;
    const float *mean = outputs->policy->data + ppo__at(row, n);
    ppo__k()->gemm(1, n, size, outputs->features->data + ppo__at(row, size), size, 1, noise, n, mean, n,
                   action, n);
}

static ppo_action ppo__action_for_env(const ppo_actor_critic *model, const ppo_actions *actions, size_t at,
                                      float *box) {
    return ppo__kind(&model->action_space)->for_env(&model->action_space, model->squash, actions, at, box);
}

/* --------------------------------------------------------------------------------------------------------
   @@ 14 Environments and rollouts

   Copies of an environment stand side by side (ppo__envs); a collector lets a policy act in them and records
   a rollout. Read ppo__collect() at the end of this section, then upwards: for each step, ppo__decide() asks
   the policy and writes its actions into the rollout, ppo__act() steps the environments and writes down what
   they answered. Values do not influence the actions, so they are computed afterwards, many rows at once.

   The copies are divided among workers, one per thread. A row's result does not depend on its batch, so the
   bits are the same for any number of workers. So are running statistics: they do not change during a
   rollout, while each environment gathers its own samples, and take those in afterwards, in order.

   To add an environment, nothing changes here: fill a ppo_env, as the files in examples/envs/ do, and give it
   a row in examples/options.h. To record something more per step: a field of ppo_rollout and a PPO__COLUMN.
   -------------------------------------------------------------------------------------------------------- */

PPO_DEF ppo_status ppo_env_check(const ppo_env *env) {
    if (!env) return ppo__refuse("the environment is NULL");
    if (!env->reset) return ppo__refuse("env.reset is NULL");
    if (!env->step) return ppo__refuse("env.step is NULL");
    if (env->obs_size <= 0) return ppo__refuse("env.obs_size is %d, must be above 0", env->obs_size);
    if (env->state_size > SIZE_MAX / 8)
        return ppo__refuse("env.state_size is %llu bytes, which is too large",
                           (unsigned long long)env->state_size);
    if (env->max_steps < 0) return ppo__refuse("env.max_steps is %d, must not be below 0", env->max_steps);
    if (env->name && !ppo__is_utf8(env->name))
        return ppo__refuse("env.name is not UTF-8: no file could hold it");
    return ppo__check_space(&env->action_space);
}

/* -- copies of an environment -- */

typedef struct ppo__envs {
    ppo_env        env;
    int            count, opened;
    int            first; /* the number of copy 0, for streams and messages */
    ppo__arena     memory;
    size_t         stride; /* from state to state */
    char          *state;
    ppo_rng       *rng;            /* [count] */
    float         *obs;            /* [count][obs_size], the latest, as the environment gave it */
    float         *own_obs;        /* [count][obs_size and guard], where it writes them */
    double        *episode_return; /* [count], so far */
    int           *length;         /* [count], steps so far in the episode */
    int64_t       *steps;          /* [count], since the start; counted for error messages */
    unsigned char *mask;           /* [count][outputs and guard], as env.action_mask fills it */
    /* An environment with outside resources cannot be saved as bytes: a checkpoint restores it by playing its
       episode again. NULL if env.open is NULL, or max_steps is 0 or too large. */
    ppo_rng  *episode_rng; /* [count], as they were before the reset */
    uint32_t *played;      /* [count][max_steps][width]: the episode's actions, as the environment saw them */
} ppo__envs;

static void ppo__envs_free(ppo__envs *envs) {
    for (int e = 0; e < envs->opened && envs->env.close; ++e) envs->env.close(envs->state + e * envs->stride);
    ppo__arena_free(&envs->memory);
}

enum { PPO__MOST_PLAYED = 1 << 24 }; /* numbers that are kept of all environments together: 64 MB */

static size_t ppo__played_words(const ppo_env *env) {
    return (size_t)env->max_steps * (size_t)ppo__space_width(&env->action_space);
}

/* Guard bytes after each state, observation and mask reveal who writes beyond. */
enum { PPO__GUARD = 16, PPO__GUARD_BYTE = 0xa5 };

static int ppo__guard_holds(const void *guard) {
    unsigned char whole[PPO__GUARD];
    memset(whole, PPO__GUARD_BYTE, sizeof whole);
    return memcmp(guard, whole, sizeof whole) == 0;
}

/* The row in which environment e writes its observation. ppo__check_env() copies it to envs->obs. */
static float *ppo__own_obs(const ppo__envs *envs, int e) {
    return envs->own_obs + e * (envs->env.obs_size + PPO__GUARD / sizeof(float));
}

/* After states and observations were set from outside. */
static void ppo__envs_guard(ppo__envs *envs) {
    const size_t size = (size_t)envs->env.obs_size;
    for (int e = 0; e < envs->count; ++e) {
        memset(envs->state + e * envs->stride + envs->env.state_size, PPO__GUARD_BYTE, PPO__GUARD);
        memcpy(ppo__own_obs(envs, e), envs->obs + e * size, size * sizeof(float));
        memset(ppo__own_obs(envs, e) + size, PPO__GUARD_BYTE, PPO__GUARD);
    }
}

/* Calls env.open for copy e. The reason that it may give by ppo_fail() becomes part of the error; success
   leaves the last error as it was. */
static ppo_status ppo__env_open(ppo__envs *envs, int e) {
    char before[PPO__ERROR_SIZE], reason[PPO__ERROR_SIZE];
    if (!envs->env.open) return PPO_OK;
    memcpy(before, ppo__error, sizeof before);
    ppo__refuse("no reason given");
    if (!envs->env.open(envs->state + e * envs->stride, envs->env.user, e)) {
        memcpy(ppo__error, before, sizeof before);
        return PPO_OK;
    }
    memcpy(reason, ppo__error, sizeof reason);
    return ppo__refuse("env.open failed (environment %d): %.180s", envs->first + e, reason);
}

/* Copy e draws from the stream (seed, purpose, first + e). Call ppo__envs_free() even after a failure. */
static ppo_status ppo__envs_open(ppo__envs *envs, const ppo_env *env, int count, uint64_t seed,
                                 uint32_t purpose, int first) {
    ppo__arena *memory = &envs->memory;
    memset(envs, 0, sizeof *envs);
    envs->env = *env;
    envs->count = count;
    envs->first = first;
    envs->stride = ((env->state_size + PPO__GUARD) / PPO__ALIGN + 1) * PPO__ALIGN;
    envs->state = (char *)ppo__arena_zeros(memory, count, envs->stride);
    envs->rng = PPO__ARRAY(memory, ppo_rng, count);
    envs->obs = PPO__ZEROS(memory, float, ppo__at(count, env->obs_size));
    envs->own_obs =
        (float *)ppo__arena_array(memory, count, (size_t)env->obs_size * sizeof(float) + PPO__GUARD);
    envs->episode_return = PPO__ZEROS(memory, double, count);
    envs->length = PPO__ZEROS(memory, int, count);
    envs->steps = PPO__ZEROS(memory, int64_t, count);
    if (env->action_mask)
        envs->mask = (unsigned char *)ppo__arena_array(
            memory, count, (size_t)ppo__space_outputs(&env->action_space) + PPO__GUARD);
    ppo_status status = ppo__arena_status(memory);
    if (!status) ppo__envs_guard(envs);
    for (int e = 0; e < count && !status; ++e) {
        envs->rng[e] = ppo_rng_stream(seed, purpose, (uint32_t)(first + e));
        status = ppo__env_open(envs, e);
        envs->opened += !status;
    }
    return status;
}

/* x [n] must be finite numbers. n 0: it is a single number, which the error names without an index. */
static ppo_status ppo__check_numbers(const float *x, int n, const char *what, int env, int64_t step) {
    for (int j = 0; j < n || j == 0; ++j) {
        if (ppo__finite(x[j])) continue;
        char        index[16] = "";
        const char *is = x[j] != x[j] ? "NaN" : x[j] > 0 ? "infinite" : "-infinite";
        if (n) snprintf(index, sizeof index, "[%d]", j);
        return ppo_fail(PPO_ERROR_NUMERIC, "%s%s is %s (environment %d, step %lld)", what, index, is, env,
                        (long long)step);
    }
    return PPO_OK;
}

/* After a call of reset or step: the guards are whole, the observation is numbers. */
static ppo_status ppo__check_env(ppo__envs *envs, int e) {
    const ppo_env *env = &envs->env;
    const float   *own = ppo__own_obs(envs, e);
    if (!ppo__guard_holds(envs->state + e * envs->stride + env->state_size))
        return ppo__refuse("environment %d wrote beyond its state: env.state_size is %.0f bytes",
                           envs->first + e, (double)env->state_size);
    if (!ppo__guard_holds(own + env->obs_size))
        return ppo__refuse("environment %d wrote beyond its observation: env.obs_size is %d numbers",
                           envs->first + e, env->obs_size);
    memcpy(envs->obs + ppo__at(e, env->obs_size), own, (size_t)env->obs_size * sizeof(float));
    return ppo__check_numbers(own, env->obs_size, "observation", envs->first + e, envs->steps[e]);
}

static ppo_status ppo__env_reset(ppo__envs *envs, int e) {
    envs->length[e] = 0;
    envs->episode_return[e] = 0;
    if (envs->episode_rng) envs->episode_rng[e] = envs->rng[e];
    envs->env.reset(envs->state + e * envs->stride, &envs->rng[e], ppo__own_obs(envs, e));
    return ppo__check_env(envs, e);
}

/* One step, the time limit and the checks; out->terminated wins over out->truncated. */
static ppo_status ppo__env_step(ppo__envs *envs, int e, const ppo_action *action, ppo_outcome *out) {
    const ppo_env *env = &envs->env;
    size_t         width = (size_t)ppo__space_width(&env->action_space);
    memset(out, 0, sizeof *out);
    if (envs->played)
        memcpy(envs->played + (size_t)e * ppo__played_words(env) + (size_t)envs->length[e] * width,
               action->box ? (const void *)action->box : (const void *)action->choices,
               width * sizeof(uint32_t));
    env->step(envs->state + e * envs->stride, &envs->rng[e], action, ppo__own_obs(envs, e), out);
    ++envs->steps[e];
    if (envs->length[e] < INT_MAX) ++envs->length[e];
    envs->episode_return[e] += out->reward;
    if (env->max_steps && envs->length[e] >= env->max_steps) out->truncated = 1;
    if (out->terminated) out->truncated = 0;
    ppo_status status = ppo__check_numbers(&out->reward, 0, "reward", envs->first + e, envs->steps[e]);
    if (!status && fabs(envs->episode_return[e]) > (double)FLT_MAX)
        status = ppo_fail(PPO_ERROR_NUMERIC,
                          "reward %g is too large: the episode's return is %g (environment %d, step %lld)",
                          (double)out->reward, envs->episode_return[e], envs->first + e,
                          (long long)envs->steps[e]);
    return status ? status : ppo__check_env(envs, e);
}

/* Which actions are legal for environment e, a byte per output of the policy. */
static ppo_status ppo__env_mask(const ppo__envs *envs, int e, unsigned char *mask) {
    const size_t   n = (size_t)ppo__space_outputs(&envs->env.action_space);
    unsigned char *own = envs->mask + e * (n + PPO__GUARD);
    memset(own, 1, n);
    memset(own + n, PPO__GUARD_BYTE, PPO__GUARD);
    envs->env.action_mask(envs->state + e * envs->stride, own);
    if (!ppo__guard_holds(own + n))
        return ppo__refuse("env.action_mask wrote beyond its mask of %.0f options (environment %d)",
                           (double)n, envs->first + e);
    memcpy(mask, own, n);
    int choice = ppo__choice_without_action(&envs->env.action_space, mask);
    if (choice < 0) return PPO_OK;
    return ppo__refuse("env.action_mask leaves no action (choice %d, environment %d, step %lld)", choice,
                       envs->first + e, (long long)envs->steps[e]);
}

/* -- rollouts and minibatches: the same columns. A minibatch is a rollout of one step, whose "environments"
   are its samples -- */

enum { PPO__COLUMNS = 18 };
typedef struct ppo__column {
    size_t pointer; /* where the pointer is in ppo_rollout */
    size_t bytes;   /* per sample; 0: the column is not kept */
    int    in_minibatch;
} ppo__column;

#define PPO__COLUMN(name, count, in_minibatch) \
    { offsetof(ppo_rollout, name), (size_t)(count) * sizeof(*((ppo_rollout *)0)->name), in_minibatch }

/* keep_policy: its outputs are wanted afterwards. */
static void ppo__columns(const ppo_actor_critic *model, const ppo_env *env, int keep_policy,
                         ppo__column *columns) {
    const ppo_space  *space = &model->action_space;
    int               floats = ppo__kind(space)->continuous, width = ppo__space_width(space);
    int               outputs = ppo__space_outputs(space), recurrent = model->core.width;
    const ppo__column all[] = {PPO__COLUMN(obs, model->obs_size, 1),
                               PPO__COLUMN(actions.discrete, floats ? 0 : width, 1),
                               PPO__COLUMN(actions.box, floats ? width : 0, 1),
                               PPO__COLUMN(mask, env->action_mask && !floats ? outputs : 0, 1),
                               PPO__COLUMN(logp, 1, 1),
                               PPO__COLUMN(value, 1, 1),
                               PPO__COLUMN(policy, keep_policy ? outputs : 0, 1),
                               PPO__COLUMN(log_std, keep_policy && floats ? width : 0, 1),
                               PPO__COLUMN(state, recurrent, 1),
                               PPO__COLUMN(start, recurrent ? 1 : 0, 1),
                               PPO__COLUMN(reward, 1, 0),
                               PPO__COLUMN(next_value, 1, 0),
                               PPO__COLUMN(terminated, 1, 0),
                               PPO__COLUMN(truncated, 1, 0),
                               PPO__COLUMN(episode_return, 1, 0),
                               PPO__COLUMN(episode_length, 1, 0),
                               PPO__COLUMN(advantage, 1, 1),
                               PPO__COLUMN(value_target, 1, 1)};
    PPO__ASSERT(sizeof all == PPO__COLUMNS * sizeof *all);
    memcpy(columns, all, sizeof all);
}

static char *ppo__column_data(const ppo_rollout *rollout, const ppo__column *column) {
    char *data;
    memcpy(&data, (const char *)rollout + column->pointer, sizeof data);
    return data;
}

/* Room for steps * envs samples; only the columns of a minibatch, if it is one. See ppo__arena_status(). */
static void ppo__rollout_take(ppo_rollout *rollout, ppo__arena *memory, const ppo__column *columns, int steps,
                              int envs, int minibatch) {
    memset(rollout, 0, sizeof *rollout);
    rollout->steps = steps;
    rollout->envs = envs;
    for (int i = 0; i < PPO__COLUMNS; ++i) {
        if (!columns[i].bytes || (minibatch && !columns[i].in_minibatch)) continue;
        void *data = ppo__arena_array(memory, ppo__at(steps, envs), columns[i].bytes);
        memcpy((char *)rollout + columns[i].pointer, &data, sizeof data);
    }
}

/* Copies samples picked[0 .. n-1] side by side. */
static void ppo__gather(const ppo_rollout *rollout, const ppo__column *columns, const int *picked, int n,
                        ppo_rollout *minibatch) {
    minibatch->steps = 1;
    minibatch->envs = n;
    for (int c = 0; c < PPO__COLUMNS; ++c) {
        size_t bytes = columns[c].bytes;
        if (!bytes || !columns[c].in_minibatch) continue;
        const char *from = ppo__column_data(rollout, &columns[c]);
        char       *to = ppo__column_data(minibatch, &columns[c]);
        if (bytes == sizeof(float)) { /* most columns; a copy of known size is one instruction */
            for (int i = 0; i < n; ++i)
                memcpy(to + i * sizeof(float), from + picked[i] * sizeof(float), sizeof(float));
        } else {
            for (int i = 0; i < n; ++i) memcpy(to + i * bytes, from + picked[i] * bytes, bytes);
        }
    }
}

/* Samples first .. first + n - 1, where they are. */
static ppo_rollout ppo__some_samples(const ppo_rollout *samples, const ppo__column *columns, size_t first,
                                     int n) {
    ppo_rollout some = *samples;
    some.envs = n;
    for (int i = 0; i < PPO__COLUMNS; ++i) {
        char *data = ppo__column_data(samples, &columns[i]);
        if (data) data += first * columns[i].bytes;
        memcpy((char *)&some + columns[i].pointer, &data, sizeof data);
    }
    return some;
}

/* -- the collector -- */

typedef struct ppo__collector ppo__collector;

typedef struct ppo__worker {
    ppo__collector *collector;
    int             first, count; /* its environments */
    ppo_tape       *tape;
    float          *box;    /* [n]: one clipped action */
    ppo_status      status; /* its first failure */
    int             moment; /* -1: resets; 4 step + 0: masks, 1: policy, 2: its outputs, 3: environments */
    char            error[PPO__ERROR_SIZE];
} ppo__worker;

struct ppo__collector {
    const ppo_actor_critic *model;       /* whose policy acts */
    ppo_normalizer         *obs_norm;    /* NULL: observations as they are */
    ppo_normalizer         *return_norm; /* of the discounted return; NULL: rewards as they are */
    float                   clip_obs, clip_reward, gamma;
    int                     gsde_steps;  /* how long exploration matrices last; 0: a rollout */
    int                     keep_policy; /* 1: the policy's outputs go into the rollout */
    int                     critic;      /* 0: values are zeros */

    ppo__arena      memory;
    ppo__envs       envs;
    ppo_rng        *action_rng;  /* [envs] */
    float          *view;        /* [envs][obs_size]: the latest observations as the policy sees them */
    float          *state;       /* recurrent: [envs][width], after the latest step */
    unsigned char  *start;       /* [envs] 1: the next step is the first of an episode */
    float          *noise;       /* gsde: [envs][features][n], the exploration matrices */
    float          *discounted;  /* [envs]: running discounted return */
    ppo_normalizer *seen_obs;    /* [envs] if obs_norm: of this rollout; merged into it afterwards */
    ppo_normalizer *seen_return; /* [envs] if return_norm, likewise */
    ppo__column     columns[PPO__COLUMNS];
    ppo_rollout     rollout;
    int             fresh; /* 1: every environment has to be reset before it is stepped */
    ppo__pool      *pool;
    ppo__worker    *workers; /* [worker_count] */
    int             worker_count;
    ppo_status (*task)(ppo__worker *worker); /* what they do now */
};

/* Environment e's latest observation as the policy sees it, into out. is_new: counted in the statistics. */
static void ppo__observe(ppo__collector *collector, int e, int is_new, float *out) {
    int          size = collector->envs.env.obs_size;
    const float *obs = collector->envs.obs + ppo__at(e, size);
    if (is_new && collector->obs_norm) ppo_normalizer_update(&collector->seen_obs[e], obs, 1);
    ppo__normalized(collector->obs_norm, collector->clip_obs, obs, 1, size, out);
}

static void ppo__worker_run(void *user, int k) {
    ppo__collector *collector = (ppo__collector *)user;
    ppo__worker    *worker = &collector->workers[k];
    if (k >= collector->worker_count) return; /* more threads than environments */
    worker->status = collector->task(worker);
    if (worker->status) memcpy(worker->error, ppo__error, sizeof worker->error);
}

/* Runs a task of each worker. Reports the earliest failure of all, so that the error does not depend on the
   number of threads. */
static ppo_status ppo__workers_run(ppo__collector *collector, ppo_status (*task)(ppo__worker *worker)) {
    const ppo__worker *first = NULL;
    collector->task = task;
    ppo__pool_run(collector->pool, ppo__worker_run, collector);
    for (int k = 0; k < collector->worker_count; ++k) {
        const ppo__worker *worker = &collector->workers[k];
        if (worker->status && (!first || worker->moment < first->moment)) first = worker;
    }
    return first ? ppo_fail(first->status, "%s", first->error) : PPO_OK;
}

/* Step t up to the actions, into the rollout: what the policy sees, with masks and the state of a recurrent
   one; the actions that it chooses, and their log-probabilities. */
static ppo_status ppo__decide(ppo__worker *worker, int t) {
    ppo__collector         *c = worker->collector;
    const ppo_actor_critic *model = c->model;
    size_t      first = (size_t)worker->first, count = (size_t)worker->count, size = (size_t)model->obs_size;
    size_t      n = (size_t)ppo__space_outputs(&model->action_space), width = (size_t)model->core.width;
    ppo_rollout now =
        ppo__some_samples(&c->rollout, c->columns, ppo__at(t, c->rollout.envs) + first, worker->count);
    ppo_tensor *logp = NULL;
    ppo_status  status = PPO_OK;
    worker->moment = 4 * t;
    memcpy(now.obs, c->view + first * size, count * size * sizeof(float));
    if (width) {
        memcpy(now.state, c->state + first * width, count * width * sizeof(float));
        memcpy(now.start, c->start + first, count);
    }
    for (size_t i = 0; i < count && now.mask && !status; ++i)
        status = ppo__env_mask(&c->envs, (int)(first + i), now.mask + i * n);
    if (status) return status;

    ++worker->moment;
    ppo_outputs out = ppo__forward_rows(worker->tape, model, worker->count, now.obs, now.mask, now.state,
                                        now.start, PPO_POLICY);
    status = ppo_tape_status(worker->tape);
    for (int i = 0; i < worker->count && !status; ++i) {
        int    e = worker->first + i, renew = c->gsde_steps ? t % c->gsde_steps == 0 : t == 0;
        float *noise = c->noise ? c->noise + e * ppo__size(model->log_std) : NULL;
        for (size_t j = 0; noise && renew && j < ppo__size(model->log_std); ++j)
            noise[j] = expf(model->log_std->data[j]) * ppo_rng_normal(&c->action_rng[e]);
        status = ppo__check_numbers(out.policy->data + i * n, (int)n, "policy output", e, c->envs.steps[e]);
        if (status) return status;
        if (noise) ppo__explore(&out, i, noise, now.actions.box + i * n);
        else ppo__choose_action(model, &out, i, &c->action_rng[e], &now.actions, (size_t)i);
    }
    if (status) return status;

    ++worker->moment;
    ppo_actor_critic_logp(worker->tape, model, &out, &now.actions, &logp, NULL);
    status = ppo_tape_status(worker->tape);
    for (int i = 0; i < worker->count && !status; ++i) {
        int e = worker->first + i;
        now.logp[i] = logp->data[i];
        if (now.policy) memcpy(now.policy + i * n, out.policy->data + i * n, n * sizeof(float));
        if (now.log_std) memcpy(now.log_std + i * n, ppo__log_std_row(out.log_std, i), n * sizeof(float));
        if (width) memcpy(c->state + e * width, out.state->data + i * width, width * sizeof(float));
        status = ppo__check_numbers(&logp->data[i], 0, "log-probability", e, c->envs.steps[e]);
    }
    worker->moment += !status;
    return status;
}

/* Takes the actions of step t in the environments and writes what they answered into the rollout: the reward
   as the critic sees it, flags, and where the episode was truncated V of the observation that its reset
   replaces. An episode that ends is noted, and the next one begins. */
static ppo_status ppo__act(ppo__worker *worker, int t) {
    ppo__collector *c = worker->collector;
    ppo_rollout    *rollout = &c->rollout;
    ppo__envs      *envs = &c->envs;
    ppo_status      status = PPO_OK;
    for (int e = worker->first; e < worker->first + worker->count && !status; ++e) {
        size_t      at = ppo__at(t, rollout->envs) + e;
        float      *view = c->view + ppo__at(e, c->model->obs_size);
        ppo_action  action = ppo__action_for_env(c->model, &rollout->actions, at, worker->box);
        ppo_outcome out;
        status = ppo__env_step(envs, e, &action, &out);
        if (status) break;
        int done = out.terminated || out.truncated;
        rollout->reward[at] = out.reward;
        rollout->terminated[at] = out.terminated != 0;
        rollout->truncated[at] = out.truncated != 0;
        rollout->next_value[at] = 0;
        rollout->episode_return[at] = (float)envs->episode_return[e];
        rollout->episode_length[at] = done ? envs->length[e] : 0;
        c->start[e] = done != 0;
        if (c->return_norm) {
            double std = sqrt(c->return_norm->var[0] + 1e-8);
            c->discounted[e] = c->discounted[e] * c->gamma + out.reward;
            ppo_normalizer_update(&c->seen_return[e], &c->discounted[e], 1);
            if (done) c->discounted[e] = 0;
            rollout->reward[at] = ppo__clamp((float)(out.reward / std), -c->clip_reward, c->clip_reward);
        }
        if (out.truncated && c->critic) {
            ppo__observe(c, e, 0, view);
            const float *state = c->state + ppo__at(e, c->model->core.width);
            ppo_outputs  last =
                ppo__forward_rows(worker->tape, c->model, 1, view, NULL, state, NULL, PPO_VALUE);
            if (!last.value) return ppo_tape_status(worker->tape);
            rollout->next_value[at] = last.value->data[0];
        }
        if (done) status = ppo__env_reset(envs, e);
        if (!status) ppo__observe(c, e, 1, view);
    }
    return status;
}

/* Takes a worker's environments through the rollout. Before it begins: fresh episodes where they are due, the
   latest observations by the latest statistics, and no samples in those of this rollout. */
static ppo_status ppo__collect_steps(ppo__worker *worker) {
    ppo__collector *c = worker->collector;
    ppo_status      status = PPO_OK;
    worker->moment = -1;
    for (int e = worker->first; e < worker->first + worker->count && !status; ++e) {
        if (c->obs_norm) ppo__normalizer_reset(&c->seen_obs[e], 0);
        if (c->return_norm) ppo__normalizer_reset(&c->seen_return[e], 0);
        if (c->fresh) {
            status = ppo__env_reset(&c->envs, e);
            c->start[e] = 1;
            c->discounted[e] = 0;
        }
        if (!status) ppo__observe(c, e, c->fresh, c->view + ppo__at(e, c->envs.env.obs_size));
    }
    for (int t = 0; t < c->rollout.steps && !status; ++t) {
        status = ppo__decide(worker, t);
        if (!status) status = ppo__act(worker, t);
    }
    return status;
}

/* The values of a worker's share of the samples. */
static ppo_status ppo__value_samples(ppo__worker *worker) {
    enum { ROWS = 256 };
    ppo__collector *c = worker->collector;
    ppo_rollout    *rollout = &c->rollout;
    int             samples = rollout->steps * rollout->envs, k = (int)(worker - c->workers);
    int             from = ppo__share(samples, k, c->worker_count), rows;
    int             end = ppo__share(samples, k + 1, c->worker_count);
    ppo_status      status = PPO_OK;
    for (; from < end && !status; from += rows) {
        rows = ppo__min_int(end - from, ROWS);
        ppo_rollout some = ppo__some_samples(rollout, c->columns, (size_t)from, rows);
        ppo_outputs out = ppo__forward_rows(worker->tape, c->model, rows, some.obs, NULL, some.state,
                                            some.start, PPO_VALUE);
        status = ppo_tape_status(worker->tape);
        for (int i = from; i < from + rows && !status; ++i) {
            int e = i % rollout->envs;
            rollout->value[i] = out.value->data[i - from];
            worker->moment = i;
            status = ppo__check_numbers(&rollout->value[i], 0, "critic's value", e,
                                        c->envs.steps[e] - rollout->steps + i / rollout->envs);
        }
    }
    return status;
}

/* One rollout of `steps` steps of every environment; the advantages are left to do. V of every step, and
   next_value where the episode continues: V in the next step, or for the last step of the latest observation.
   Without a critic both are 0. */
static ppo_status ppo__collect(ppo__collector *collector, int steps) {
    ppo_rollout *rollout = &collector->rollout;
    int          samples = steps * rollout->envs, last = samples - rollout->envs;
    rollout->steps = steps;
    ppo_status status = ppo__workers_run(collector, ppo__collect_steps);
    if (!status && collector->critic) status = ppo__workers_run(collector, ppo__value_samples);
    if (status) return status;
    if (collector->critic) {
        ppo_tape   *tape = collector->workers[0].tape;
        ppo_outputs latest = ppo__forward_rows(tape, collector->model, rollout->envs, collector->view, NULL,
                                               collector->state, NULL, PPO_VALUE);
        if (!latest.value) return ppo_tape_status(tape);
        for (int i = 0; i < samples; ++i)
            if (!rollout->terminated[i] && !rollout->truncated[i])
                rollout->next_value[i] =
                    i < last ? rollout->value[i + rollout->envs] : latest.value->data[i - last];
    } else {
        memset(rollout->value, 0, samples * sizeof(float)); /* ppo__act() has set next_value */
    }
    collector->fresh = 0;
    for (int e = 0; e < rollout->envs; ++e) {
        if (collector->obs_norm) ppo_normalizer_merge(collector->obs_norm, &collector->seen_obs[e]);
        if (collector->return_norm) ppo_normalizer_merge(collector->return_norm, &collector->seen_return[e]);
    }
    /* the tapes take their lasting shape in the first rollout */
    for (int k = 0; k < collector->worker_count; ++k) ppo_tape_reset(collector->workers[k].tape);
    return PPO_OK;
}

/* After a failure every episode begins anew, and nothing of the old ones, like a NaN, gets into a file. How
   far the random streams got depends on the number of threads, so all continue from a place that does not:
   where the high half of their position is one more. */
static void ppo__forget_episodes(ppo__collector *collector) {
    ppo__envs *envs = &collector->envs;
    collector->fresh = 1;
    memset(envs->obs, 0, ppo__at(envs->count, envs->env.obs_size) * sizeof(float));
    ppo__envs_guard(envs);
    for (int e = 0; e < envs->count; ++e) {
        envs->episode_return[e] = 0;
        envs->length[e] = 0;
        collector->discounted[e] = 0;
        for (int k = 0; k < 2; ++k) {
            ppo_rng *rng = k ? &collector->action_rng[e] : &envs->rng[e];
            ++rng->counter[1];
            rng->counter[0] = 0;
            rng->used = 4;
            memset(rng->block, 0, sizeof rng->block);
        }
    }
}

static void ppo__collector_free(ppo__collector *collector) {
    ppo__pool_free(collector->pool);
    for (int k = 0; k < collector->worker_count; ++k) ppo_tape_free(collector->workers[k].tape);
    for (int e = 0; e < collector->rollout.envs; ++e) {
        if (collector->seen_obs) ppo_normalizer_free(&collector->seen_obs[e]);
        if (collector->seen_return) ppo_normalizer_free(&collector->seen_return[e]);
    }
    ppo__envs_free(&collector->envs);
    ppo__arena_free(&collector->memory);
}

/* The caller has set the first group of the fields, and calls ppo__collector_free() even after a failure. */
static ppo_status ppo__collector_open(ppo__collector *collector, const ppo_env *env, int envs, int steps,
                                      int threads, uint64_t seed) {
    ppo__arena             *memory = &collector->memory;
    const ppo_actor_critic *model = collector->model;
    const int               workers = ppo__min_int(threads, envs);
    ppo__columns(model, env, collector->keep_policy, collector->columns);
    ppo__rollout_take(&collector->rollout, memory, collector->columns, steps, envs, 0);
    collector->fresh = 1;
    collector->action_rng = PPO__ARRAY(memory, ppo_rng, envs);
    collector->view = PPO__ARRAY(memory, float, ppo__at(envs, env->obs_size));
    collector->state = PPO__ZEROS(memory, float, ppo__at(envs, model->core.width));
    collector->start = PPO__ZEROS(memory, unsigned char, envs);
    collector->discounted = PPO__ZEROS(memory, float, envs);
    if (model->gsde) collector->noise = PPO__ARRAY(memory, float, ppo__size(model->log_std) * envs);
    if (collector->obs_norm) collector->seen_obs = PPO__ZEROS(memory, ppo_normalizer, envs);
    if (collector->return_norm) collector->seen_return = PPO__ZEROS(memory, ppo_normalizer, envs);
    collector->workers = PPO__ZEROS(memory, ppo__worker, workers);
    ppo_status status = ppo__arena_status(memory);
    for (int e = 0; e < envs && !status; ++e) {
        collector->action_rng[e] = ppo_rng_stream(seed, PPO_STREAM_ACTION, (uint32_t)e);
        if (collector->obs_norm) status = ppo_normalizer_init(&collector->seen_obs[e], env->obs_size);
        if (!status && collector->return_norm) status = ppo_normalizer_init(&collector->seen_return[e], 1);
    }
    for (int k = 0; k < workers && !status; ++k) {
        ppo__worker *worker = &collector->workers[k];
        worker->collector = collector;
        worker->first = ppo__share(envs, k, workers);
        worker->count = ppo__share(envs, k + 1, workers) - worker->first;
        worker->box = PPO__ARRAY(memory, float, env->action_space.n);
        status = ppo__arena_status(memory);
        if (!status) status = ppo_tape_create(&worker->tape);
        if (status) break;
        ppo_tape_record(worker->tape, 0);
        collector->worker_count = k + 1;
    }
    if (!status) status = ppo__envs_open(&collector->envs, env, envs, seed, PPO_STREAM_ENV, 0);
    size_t words = ppo__played_words(env); /* room to replay episodes */
    if (!status && env->open && words && words <= PPO__MOST_PLAYED / (size_t)envs) {
        collector->envs.episode_rng = PPO__ZEROS(&collector->envs.memory, ppo_rng, envs);
        collector->envs.played = PPO__ZEROS(&collector->envs.memory, uint32_t, envs * words);
        status = ppo__arena_status(&collector->envs.memory);
    }
    return status ? status : ppo__pool_create(threads, &collector->pool);
}

/* --------------------------------------------------------------------------------------------------------
   @@ 15 Training and evaluation

   To read PPO, begin at ppo_trainer_iterate(), the last function of "-- training --", and go upwards. It
   calls ppo__collect() of section 14, and then what stands above it:
       ppo__advantages()   by GAE
       ppo__epochs()       several times, each minibatch: normalize advantages, gradient, clip its norm, Adam
       ppo__loss()         the objective, on the tape ("-- the objective --")
   One level below, in sub-sections of their own: how minibatches are put together, also for recurrent
   policies ("segments"), how their gradients are divided among threads ("shards"), and what an iteration
   reports.

   To add a setting: a field of ppo_config with its default in a comment, a row of ppo__fields, the default in
   ppo_config_default() if it is not 0, if it may be without effect a row of ppo__needs, and its name in
   tests/test_control.c. The command line, files and checks follow from that. To add an objective, also for
   language models: in section 9 a constant before PPO__OBJECTIVES, its word in ppo__objectives in the same
   place, and its term in ppo__policy_term(). What needs more than log-probabilities goes to ppo__loss().
   -------------------------------------------------------------------------------------------------------- */

/* -- settings -- */

#define PPO__FIELD(name, type, min, max, choices, help) \
    { #name, PPO_FIELD_##type, offsetof(ppo_config, name), min, max, choices, help, 0 }
#define PPO__NETWORK(name, type, min, max, choices, help) \
    { #name, PPO_FIELD_##type, offsetof(ppo_config, name), min, max, choices, help, PPO_FIELD_NETWORK }

static const char ppo__schedules[] = "constant|linear|cosine|custom";

static const ppo_field ppo__fields[] = {
    PPO__FIELD(total_steps, I64, 1, 1e15, NULL, "environment steps, over all environments"),
    PPO__FIELD(num_envs, INT, 1, 65536, NULL, "environments side by side"),
    PPO__FIELD(rollout_steps, INT, 1, 16777216, NULL, "steps of each environment per iteration"),
    PPO__FIELD(minibatch_size, INT, 0, 1073741824, NULL, "samples per gradient step; 0: the whole rollout"),
    PPO__FIELD(epochs, INT, 1, 10000, NULL, "passes over each rollout"),
    PPO__FIELD(learning_rate, FLOAT, 0, 10, NULL, "Adam's learning rate"),
    PPO__FIELD(learning_rate_schedule, CHOICE, 0, 3, ppo__schedules, "how it falls to 0 over the run"),
    PPO__FIELD(critic_learning_rate, FLOAT, 0, 10, NULL, "the critic's; 0: the same"),
    PPO__FIELD(gamma, FLOAT, 0, 1, NULL, "discount per step"),
    PPO__FIELD(gae_lambda, FLOAT, 0, 1, NULL, "0: one-step TD, 1: Monte Carlo"),
    PPO__FIELD(objective, CHOICE, 0, PPO__OBJECTIVES - 1, ppo__objectives,
               "the policy's objective, not k3-penalty"),
    PPO__FIELD(clip_low, FLOAT, 0, 1, NULL, "no gain from ratios below 1 - this"),
    PPO__FIELD(clip_high, FLOAT, 0, 1e6, NULL, "no gain from ratios above 1 + this"),
    PPO__FIELD(clip_schedule, CHOICE, 0, 3, ppo__schedules, "how both ranges fall to 0 over the run"),
    PPO__FIELD(dual_clip, FLOAT, 0, 1e6, NULL, "above 1: bound for negative advantages; 0: off"),
    PPO__FIELD(kl_coef, FLOAT, 0, 1e6, NULL, "weight of KL(old || new) with --objective kl-penalty"),
    PPO__FIELD(adaptive_kl_target, FLOAT, 0, 1e6, NULL, "kl_coef doubles or halves to hold this KL; 0: off"),
    PPO__FIELD(target_kl, FLOAT, 0, 1e6, NULL, "epochs end when approx_kl exceeds 1.5 times this; 0: off"),
    PPO__FIELD(value_coef, FLOAT, 0, 1e6, NULL, "weight of the value loss, 0.5 mean squared error"),
    PPO__FIELD(value_clip, FLOAT, 0, 1e6, NULL, "clip range of the value loss; 0: off"),
    PPO__FIELD(huber_delta, FLOAT, 0, 1e6, NULL, "value errors beyond this count linearly; 0: off"),
    PPO__FIELD(baseline, CHOICE, 0, 1, "no|yes", "no: without a critic, advantages are returns"),
    PPO__FIELD(entropy_coef, FLOAT, 0, 1e6, NULL, "weight of the entropy bonus"),
    PPO__FIELD(entropy_schedule, CHOICE, 0, 3, ppo__schedules, "how it falls to 0 over the run"),
    PPO__FIELD(normalize_advantage, CHOICE, 0, 1, "no|yes", "per minibatch: mean 0, standard deviation 1"),
    PPO__FIELD(max_grad_norm, FLOAT, 0, 1e6, NULL, "global gradient norm is clipped to this; 0: off"),
    PPO__FIELD(adam_beta1, FLOAT, 0, 0.999999, NULL, "Adam's decay of the mean"),
    PPO__FIELD(adam_beta2, FLOAT, 0, 0.9999999, NULL, "Adam's decay of the square"),
    PPO__FIELD(adam_eps, FLOAT, 1e-12, 1, NULL, "Adam's epsilon"),
    PPO__FIELD(weight_decay, FLOAT, 0, 1e3, NULL, "decoupled weight decay (AdamW)"),
    PPO__NETWORK(hidden, WIDTHS, 1, 65536, NULL, "widths of the hidden layers, as 64,64; none: linear"),
    PPO__NETWORK(activation, CHOICE, 0, 2, "identity|tanh|relu", "of the hidden layers"),
    PPO__NETWORK(shared_trunk, CHOICE, 0, 1, "no|yes", "one set of hidden layers for actor and critic"),
    PPO__NETWORK(recurrent, INT, 0, 65536, NULL, "width of a recurrent core (GRU); 0: none"),
    PPO__FIELD(sequence_steps, INT, 1, 16777216, NULL, "recurrent: steps that gradients go back through"),
    PPO__NETWORK(init, CHOICE, 0, 1, "orthogonal|uniform", "initial weights"),
    PPO__NETWORK(log_std_init, FLOAT, -20, 5, NULL, "box actions: initial log standard deviation"),
    PPO__NETWORK(squash, CHOICE, 0, 1, "no|yes", "box actions: tanh into the box instead of clipping"),
    PPO__NETWORK(gsde, CHOICE, 0, 1, "no|yes", "box actions: state-dependent exploration"),
    PPO__FIELD(gsde_steps, INT, 0, 16777216, NULL, "steps that a sampled exploration lasts; 0: a rollout"),
    PPO__NETWORK(normalize_obs, CHOICE, 0, 1, "no|yes", "observations to mean 0, variance 1"),
    PPO__FIELD(normalize_reward, CHOICE, 0, 1, "no|yes",
               "rewards divided by the std of the discounted return"),
    PPO__NETWORK(clip_obs, FLOAT, 1e-6, 1e6, NULL, "normalized observations are clipped to +- this"),
    PPO__FIELD(clip_reward, FLOAT, 1e-6, 1e6, NULL, "normalized rewards are clipped to +- this"),
    PPO__FIELD(seed, U64, 0, 1.8446744073709552e19, NULL, "of all random numbers"),
    PPO__FIELD(threads, INT, 1, 1024, NULL,
               "threads that step environments and compute; the results do not depend on it"),
};
enum { PPO__FIELDS = sizeof ppo__fields / sizeof *ppo__fields };
static const ppo_settings ppo__config_settings = {ppo__fields, PPO__FIELDS};

PPO_DEF const ppo_settings *ppo_config_settings(void) { return &ppo__config_settings; }

/* What is not here is 0. */
PPO_DEF ppo_config ppo_config_default(void) {
    ppo_config config;
    memset(&config, 0, sizeof config);
    ppo_settings_set_all(
        &ppo__config_settings, &config,
        "total_steps=100000 num_envs=4 rollout_steps=512 minibatch_size=64 epochs=10 learning_rate=3e-4 "
        "learning_rate_schedule=linear gamma=0.99 gae_lambda=0.95 objective=clip clip_low=0.2 clip_high=0.2 "
        "kl_coef=1 value_coef=0.5 baseline=yes normalize_advantage=yes max_grad_norm=0.5 adam_beta1=0.9 "
        "adam_beta2=0.999 adam_eps=1e-5 hidden=64,64 activation=tanh sequence_steps=32 clip_obs=10 "
        "clip_reward=10 seed=1 threads=1");
    return config;
}

PPO_DEF ppo_status ppo_config_set(ppo_config *config, const char *name, const char *value) {
    if (!ppo__given("ppo_config_set", config && name && value)) return PPO_ERROR_ARGUMENT;
    return ppo_settings_set(&ppo__config_settings, config, name, value);
}

PPO_DEF ppo_status ppo_config_set_all(ppo_config *config, const char *settings) {
    if (!ppo__given("ppo_config_set_all", config && settings)) return PPO_ERROR_ARGUMENT;
    return ppo_settings_set_all(&ppo__config_settings, config, settings);
}

PPO_DEF ppo_status ppo_config_get(const ppo_config *config, const char *name, char *text, size_t size) {
    if (!ppo__given("ppo_config_get", config && name && text && size)) return PPO_ERROR_ARGUMENT;
    return ppo_settings_get(&ppo__config_settings, config, name, text, size);
}

/* clip_low and clip_high are not here: they also define clip_fraction. The action space matters to numbers in a
   box. */
static const ppo__need ppo__config_needs[] = {
    {"dual_clip", "objective", "clip"},
    {"kl_coef", "objective", "kl-penalty"},
    {"adaptive_kl_target", "objective", "kl-penalty"},
    {"critic_learning_rate", "baseline", "yes"},
    {"value_coef", "baseline", "yes"},
    {"value_clip", "baseline", "yes"},
    {"huber_delta", "baseline", "yes"},
    {"entropy_schedule", "entropy_coef", NULL},
    {"shared_trunk", "hidden", NULL},
    {"sequence_steps", "recurrent", NULL},
    {"log_std_init", "the action space", NULL},
    {"squash", "the action space", NULL},
    {"gsde", "the action space", NULL},
    {"gsde_steps", "gsde", "yes"},
    {"clip_obs", "normalize_obs", "yes"},
    {"clip_reward", "normalize_reward", "yes"},
};

PPO_DEF ppo_status ppo_config_check_effect(const ppo_config *config, const ppo_env *env, const char *name) {
    const ppo_config usual = ppo_config_default();
    const ppo_field *field = NULL;
    if (!ppo__given("ppo_config_check_effect", config != NULL)) return PPO_ERROR_ARGUMENT;
    if (name && !(field = ppo__find_field(&ppo__config_settings, name))) return PPO_ERROR_ARGUMENT;
    for (size_t k = 0; k < sizeof ppo__config_needs / sizeof *ppo__config_needs; ++k) {
        const ppo__need *need = &ppo__config_needs[k];
        const int        of_space = !strncmp(need->other, "the ", 4);
        char             space[PPO__SPACE_SIZE];
        if (field && strcmp(field->name, need->name)) continue;
        if (of_space && (!env || ppo__kind(&env->action_space)->continuous)) continue;
        if (of_space) ppo__space_text(&env->action_space, space);
        if (ppo__check_effect(&ppo__config_settings, config, &usual, need, of_space ? space : NULL))
            return PPO_ERROR_ARGUMENT;
    }
    return PPO_OK;
}

PPO_DEF ppo_status ppo_config_check(const ppo_config *config) {
    if (!config) return ppo__refuse("the configuration is NULL");
    if (!config->total_steps && !config->num_envs)
        return ppo__refuse("the configuration is all zeros: start from ppo_config_default()");
    ppo_status status = ppo_settings_check(&ppo__config_settings, config);
    if (status) return status;
    if (config->objective == PPO_K3_PENALTY)
        return ppo__refuse("objective is k3-penalty, an estimate for tokens: kl-penalty has the exact KL");
    double samples = (double)config->num_envs * config->rollout_steps;
    if (samples > INT_MAX)
        return ppo__refuse("num_envs * rollout_steps is %.0f, more than %d", samples, INT_MAX);
    if (config->minibatch_size > samples)
        return ppo__refuse("minibatch_size %d is larger than the rollout: num_envs %d * rollout_steps %d",
                           config->minibatch_size, config->num_envs, config->rollout_steps);
    if (config->critic_learning_rate > 0 && config->learning_rate == 0)
        return ppo__refuse("critic_learning_rate is %g, but learning_rate is 0",
                           (double)config->critic_learning_rate);
    int custom = config->learning_rate_schedule == PPO_CUSTOM || config->clip_schedule == PPO_CUSTOM ||
                 config->entropy_schedule == PPO_CUSTOM;
    if (custom && !config->schedule) return ppo__refuse("a schedule is custom, but config.schedule is NULL");
    if (config->dual_clip > 0 && config->dual_clip <= 1)
        return ppo__refuse("dual_clip is %g: it must be above 1, or 0 for none", (double)config->dual_clip);
    return PPO_OK;
}

/* A preset resets every setting that its objective does not use. */
#define PPO__UNCLIPPED "objective=unclipped dual_clip=0 kl_coef=1 adaptive_kl_target=0 "
#define PPO__PENALTY   "objective=kl-penalty dual_clip=0 "
#define PPO__PAPER                                                                        \
    "num_envs=1 rollout_steps=2048 minibatch_size=64 epochs=10 learning_rate=3e-4 "       \
    "learning_rate_schedule=constant gamma=0.99 gae_lambda=0.95 value_coef=0.5 "          \
    "entropy_coef=0 entropy_schedule=constant baseline=yes hidden=64,64 activation=tanh " \
    "shared_trunk=no target_kl=0 "
#define PPO__GRADIENT                                                        \
    PPO__UNCLIPPED                                                           \
    "epochs=1 minibatch_size=0 target_kl=0 learning_rate_schedule=constant " \
    "normalize_advantage=no gae_lambda=1 "

static const char *const ppo__presets[][2] = {
    {"reinforce", PPO__GRADIENT "baseline=no value_coef=0.5 value_clip=0 huber_delta=0 "
                                "critic_learning_rate=0 learning_rate=3e-3 max_grad_norm=0"},
    {"reinforce-baseline", PPO__GRADIENT "baseline=yes learning_rate=3e-3 max_grad_norm=0"},
    {"a2c", PPO__GRADIENT
     "baseline=yes num_envs=16 rollout_steps=5 learning_rate=7e-4 value_coef=1 max_grad_norm=0.5"},
    {"ppo-paper", PPO__PAPER "objective=clip clip_low=0.2 clip_high=0.2 clip_schedule=constant dual_clip=0 "
                             "kl_coef=1 adaptive_kl_target=0"},
    {"ppo-paper-fixed-kl", PPO__PAPER PPO__PENALTY "kl_coef=3 adaptive_kl_target=0"},
    {"ppo-paper-adaptive-kl", PPO__PAPER PPO__PENALTY "kl_coef=1 adaptive_kl_target=0.01"},
    {"ppo-paper-unclipped", PPO__PAPER PPO__UNCLIPPED},
};

PPO_DEF const char *ppo_config_presets(void) {
    return "reinforce|reinforce-baseline|a2c|ppo-paper|ppo-paper-fixed-kl|ppo-paper-adaptive-kl|"
           "ppo-paper-unclipped";
}

PPO_DEF ppo_status ppo_config_preset(ppo_config *config, const char *name) {
    if (!ppo__given("ppo_config_preset", config && name)) return PPO_ERROR_ARGUMENT;
    for (size_t i = 0; i < sizeof ppo__presets / sizeof *ppo__presets; ++i)
        if (!strcmp(name, ppo__presets[i][0])) return ppo_config_set_all(config, ppo__presets[i][1]);
    return ppo__refuse("there is no preset \"%.60s\", only %s", name, ppo_config_presets());
}

/* -- the agent -- */

PPO_DEF void ppo_agent_free(ppo_agent *agent) {
    if (!agent) return;
    ppo_actor_critic_free(&agent->model);
    ppo_normalizer_free(&agent->obs_norm);
    ppo_normalizer_free(&agent->return_norm);
    ppo_tape_free(agent->tape);
    ppo__free(agent->scratch);
    ppo__free(agent->state);
    ppo__free(agent);
}

/* A name that is too long is cut between two characters of UTF-8. */
static void ppo__keep_name(char to[64], const char *name) {
    size_t length = name ? strlen(name) : 0;
    if (length > 63)
        for (length = 63; length && ((unsigned char)name[length] & 0xc0) == 0x80;) --length;
    if (length) memcpy(to, name, length);
    to[length] = 0;
}

/* For an environment of which only the sizes and the name are known. */
static ppo_status ppo__agent_make(const ppo_env *env, const ppo_config *config, ppo_agent **out) {
    ppo_model_config model;
    ppo_agent       *agent = (ppo_agent *)ppo__alloc(sizeof *agent);
    if (!agent) return PPO_ERROR_MEMORY;
    memset(&model, 0, sizeof model);
    model.obs_size = env->obs_size;
    model.action_space = env->action_space;
    model.hidden = config->hidden;
    model.layers = config->hidden_layers;
    model.activation = config->activation;
    model.shared_trunk = config->shared_trunk;
    model.recurrent = config->recurrent;
    model.init = config->init;
    model.log_std_init = config->log_std_init;
    model.gsde = config->gsde;
    model.squash = config->squash;
    model.seed = config->seed;
    agent->clip_obs = config->clip_obs;
    agent->config = *config;
    ppo__keep_name(agent->environment, env->name);
    ppo_status status = ppo_actor_critic_init(&agent->model, &model);
    if (!status && config->normalize_obs) status = ppo_normalizer_init(&agent->obs_norm, env->obs_size);
    if (!status) status = ppo_tape_create(&agent->tape);
    if (!status) {
        ppo_tape_record(agent->tape, 0);
        agent->scratch =
            (float *)ppo__alloc(((size_t)env->obs_size + 2 * (size_t)env->action_space.n) * sizeof(float));
        agent->state = (float *)ppo__alloc((size_t)config->recurrent * sizeof(float));
        if (!agent->scratch || !agent->state) status = PPO_ERROR_MEMORY;
    }
    if (status) ppo_agent_free(agent);
    else *out = agent;
    return status;
}

PPO_DEF ppo_status ppo_agent_create(const ppo_env *env, const ppo_config *config, ppo_agent **agent) {
    if (!ppo__given("ppo_agent_create", agent != NULL)) return PPO_ERROR_ARGUMENT;
    *agent = NULL;
    ppo_status status = ppo_env_check(env);
    if (!status) status = ppo_config_check(config);
    if (!status) status = ppo_config_check_effect(config, env, NULL);
    return status ? status : ppo__agent_make(env, config, agent);
}

PPO_DEF void ppo_agent_reset(ppo_agent *agent) {
    if (agent) memset(agent->state, 0, agent->model.core.width * sizeof(float));
}

/* scratch: the observation as the policy sees it, the action's n numbers or choices, n numbers in the box. */
PPO_DEF ppo_status ppo_act_masked(ppo_agent *agent, const float *obs, const unsigned char *mask, ppo_rng *rng,
                                  ppo_action *action) {
    if (!ppo__given("ppo_act_masked", agent && obs && action)) return PPO_ERROR_ARGUMENT;
    const ppo_actor_critic *model = &agent->model;
    float                  *number = agent->scratch + model->obs_size;
    ppo_actions             actions = {(int *)(void *)number, number};
    for (int j = 0; j < model->obs_size; ++j)
        if (!ppo__finite(obs[j])) return ppo_fail(PPO_ERROR_NUMERIC, "observation[%d] is not finite", j);
    if (ppo__kind(&model->action_space)->continuous) mask = NULL;
    int choice = mask ? ppo__choice_without_action(&model->action_space, mask) : -1;
    if (choice >= 0) return ppo__refuse("the mask leaves no action (choice %d)", choice);
    ppo__normalized(&agent->obs_norm, agent->clip_obs, obs, 1, model->obs_size, agent->scratch);
    ppo_outputs out =
        ppo__forward_rows(agent->tape, model, 1, agent->scratch, mask, agent->state, NULL, PPO_POLICY);
    if (!out.policy) return ppo_tape_status(agent->tape);
    for (int j = 0; j < out.policy->cols; ++j)
        if (!ppo__finite(out.policy->data[j]))
            return ppo_fail(PPO_ERROR_NUMERIC, "the policy's output %d is not finite", j);
    if (out.state) memcpy(agent->state, out.state->data, model->core.width * sizeof(float));
    ppo__choose_action(model, &out, 0, rng, &actions, 0);
    *action = ppo__action_for_env(model, &actions, 0, number + model->action_space.n);
    return ppo_tape_status(agent->tape);
}

PPO_DEF ppo_status ppo_act(ppo_agent *agent, const float *obs, ppo_rng *rng, ppo_action *action) {
    if (!ppo__given("ppo_act", agent && obs && action)) return PPO_ERROR_ARGUMENT;
    return ppo_act_masked(agent, obs, NULL, rng, action);
}

/* -- the trainer -- */

enum {
    PPO__SHARDS = 16,            /* of a minibatch, at most */
    PPO__SHARD_SAMPLES = 128,    /* of a shard, at least */
    PPO__SHARD_SEGMENTS = 16,    /* recurrent: of a shard, at least */
    PPO__SHARD_PARAMS = 1 << 16, /* at most: of a larger network the operations are divided instead */
    PPO__LAST_EPISODES = 100
};

/* What one gradient step reports. */
typedef struct ppo__step_stats {
    ppo_policy_stats policy;
    float            loss, value_loss, entropy, grad_norm;
} ppo__step_stats;

typedef struct ppo__shard {
    ppo_rollout     samples; /* of the minibatch's, packed by time, the longest segments first */
    ppo_inputs      inputs;  /* what the network is given of them */
    int            *count;   /* [segment_steps] segments that have a step t */
    float          *grad;    /* [params->count] its gradient; the first shard's is the model's own */
    ppo__step_stats stats;   /* its own means */
} ppo__shard;

typedef struct ppo__minibatch {
    ppo_rollout samples;                 /* one step of as many "environments" as there are samples */
    int         segment_steps, segments; /* of a whole segment; in a minibatch, at most */
    int        *picked;                  /* [segments * segment_steps] samples of the rollout */
    int         most_shards, shards;     /* in a full minibatch, and in this one */
    ppo__shard  shard[PPO__SHARDS];      /* [shards] */
} ppo__minibatch;

struct ppo_trainer {
    ppo_config           config;
    ppo_agent           *agent; /* borrowed */
    ppo__collector       collector;
    ppo__arena           memory;
    ppo__minibatch       minibatch;
    ppo_tape            *tapes[PPO__SHARDS]; /* of the update, for as many threads */
    int                 *usable;             /* [num_envs] steps of the rollout that are learned from */
    int                 *order;              /* [steps * envs] segments, shuffled */
    ppo_rng              shuffle_rng;
    int                  reserved;  /* 1: the tapes have room for the largest minibatch */
    ppo_policy_objective objective; /* these three are of this iteration, after their schedules */
    ppo_adam             adam;
    float                entropy_coef;
    float                kl_coef; /* of this iteration */
    float                last_return[PPO__LAST_EPISODES];
    int                  last_length[PPO__LAST_EPISODES];
    int64_t              episodes, steps, iteration, updates;
    double               started;
};

/* -- minibatches of segments. A segment is consecutive steps of one environment: sequence_steps of a
   recurrent policy, less where the steps to learn from end; a single step of any other. Segment k begins at
   step k / envs * segment_steps of environment k % envs. A minibatch holds whole segments -- */

static int ppo__segment_length(const ppo_trainer *trainer, int k) {
    int envs = trainer->collector.rollout.envs, steps = trainer->minibatch.segment_steps;
    int left = trainer->usable[k % envs] - k / envs * steps;
    return left < 0 ? 0 : left < steps ? left : steps;
}

/* The segments of the rollout to learn from, in order, and how many minibatches they make. Without a critic
   the return of an episode that has not ended is unknown, so its steps are left out, unless `whole` is 1. */
static int ppo__cut(ppo_trainer *trainer, int whole, int *segments) {
    const ppo_rollout *rollout = &trainer->collector.rollout;
    int                all = rollout->envs * ppo__divide_up(rollout->steps, trainer->minibatch.segment_steps);
    *segments = 0;
    for (int e = 0; e < rollout->envs; ++e) {
        int *usable = &trainer->usable[e];
        for (*usable = rollout->steps; !trainer->config.baseline && !whole && *usable; --*usable) {
            size_t last = ppo__at(*usable - 1, rollout->envs) + e;
            if (rollout->terminated[last] || rollout->truncated[last]) break;
        }
    }
    for (int k = 0; k < all; ++k)
        if (ppo__segment_length(trainer, k)) trainer->order[(*segments)++] = k;
    return *segments ? ppo__divide_up(*segments, trainer->minibatch.segments) : 0;
}

/* The samples of n segments, packed by time, the longest segments first. Returns how many. */
static int ppo__pack_rows(const ppo_trainer *trainer, int *segments, int n, int *count, int *picked) {
    int envs = trainer->collector.rollout.envs, steps = trainer->minibatch.segment_steps, rows = 0, full = 0;
    for (int i = 0; i < n; ++i) { /* nearly all have the full length */
        if (ppo__segment_length(trainer, segments[i]) < steps) continue;
        int swap = segments[full];
        segments[full++] = segments[i];
        segments[i] = swap;
    }
    for (int i = full + 1; i < n; ++i) {
        int moved = segments[i], length = ppo__segment_length(trainer, moved), j = i;
        for (; j > full && length > ppo__segment_length(trainer, segments[j - 1]); --j)
            segments[j] = segments[j - 1];
        segments[j] = moved;
    }
    for (int t = 0; t < steps; ++t) {
        count[t] = 0;
        for (int i = 0; i < n && t < ppo__segment_length(trainer, segments[i]); ++i, ++count[t])
            picked[rows++] = (segments[i] / envs * steps + t) * envs + segments[i] % envs;
    }
    return rows;
}

/* Gathers share b of `batches` of the first `all` segments of trainer->order, in `most_shards` shards at
   most. Shares differ by one segment at most. */
static void ppo__gather_minibatch(ppo_trainer *trainer, int all, int b, int batches, int most_shards) {
    ppo__minibatch    *batch = &trainer->minibatch;
    const ppo__column *columns = trainer->collector.columns;
    int  begin = ppo__share(all, b, batches), n = ppo__share(all, b + 1, batches) - begin, rows = 0;
    int *segments = trainer->order + begin;
    batch->shards = ppo__min_int(most_shards, n);
    for (int k = 0; k < batch->shards; ++k) {
        ppo__shard *shard = &batch->shard[k];
        int         from = ppo__share(n, k, batch->shards), to = ppo__share(n, k + 1, batch->shards);
        int samples = ppo__pack_rows(trainer, segments + from, to - from, shard->count, batch->picked + rows);
        ppo_rollout own = ppo__some_samples(&batch->samples, columns, (size_t)rows, samples);
        ppo_inputs  inputs = {samples, own.obs, own.mask, {0, shard->count, own.state, own.start}};
        for (int t = 0; t < batch->segment_steps && shard->count[t]; ++t) ++inputs.sequences.steps;
        shard->samples = own;
        shard->inputs = inputs; /* own.state begins with the states where the segments begin */
        rows += samples;
    }
    ppo__gather(&trainer->collector.rollout, columns, batch->picked, rows, &batch->samples);
}

/* -- the objective -- */

/* L = L_policy + value_coef L_value - entropy_coef entropy. With a penalty L_policy is
   -mean(r A) + kl_coef mean(KL(old || new)), exact. */
static ppo_tensor *ppo__loss(const ppo_trainer *trainer, ppo_tape *tape, const ppo_inputs *inputs,
                             const ppo_rollout *samples, ppo__step_stats *stats) {
    const ppo_config       *config = &trainer->config;
    const ppo_actor_critic *model = &trainer->agent->model;
    int                     penalty = config->objective == PPO_KL_PENALTY;
    ppo_policy_objective    objective = trainer->objective;
    ppo_tensor             *logp, *entropy, *value_loss = NULL;
    ppo_outputs             out =
        ppo_actor_critic_forward(tape, model, inputs, config->baseline ? PPO_POLICY | PPO_VALUE : PPO_POLICY);
    ppo_actor_critic_logp(tape, model, &out, &samples->actions, &logp, &entropy);

    if (penalty) objective.objective = PPO_UNCLIPPED;
    ppo_tensor *loss =
        ppo_tape_policy_loss(tape, logp, samples->logp, samples->advantage, NULL, &objective, &stats->policy);
    if (penalty) {
        ppo_tensor *kl = ppo_actor_critic_kl(tape, model, &out, samples->policy, samples->log_std);
        loss = ppo_tape_add(tape, loss, ppo_tape_scale(tape, ppo_tape_mean(tape, kl), objective.kl_coef, 0));
    }

    ppo_tensor *mean_entropy = ppo_tape_mean(tape, entropy);
    if (config->baseline) {
        float delta = config->huber_delta > 0 ? config->huber_delta : INFINITY;
        value_loss = ppo_tape_huber_value_loss(tape, out.value, samples->value, samples->value_target, NULL,
                                               config->value_clip, delta);
        loss = ppo_tape_add(tape, loss, ppo_tape_scale(tape, value_loss, config->value_coef, 0));
    }

    loss = ppo_tape_sub(tape, loss, ppo_tape_scale(tape, mean_entropy, trainer->entropy_coef, 0));
    if (!loss) return NULL;
    stats->value_loss = value_loss ? value_loss->data[0] : 0;
    stats->entropy = mean_entropy->data[0];
    stats->loss = loss->data[0];
    return loss;
}

/* -- shards. A large minibatch is cut into shards, each of which goes forward and backward by itself, on any
   thread. Their number follows from the settings alone, and their gradients are added in order, so the bits
   are the same for any number of threads -- */

/* The gradients of shards begin .. end - 1; a failure stays on the tape, which is for this thread. */
static void ppo__shard_gradients(void *user, int thread, int begin, int end) {
    ppo_trainer      *trainer = (ppo_trainer *)user;
    ppo__minibatch   *batch = &trainer->minibatch;
    const ppo_params *params = trainer->agent->model.params;
    ppo_tape         *tape = trainer->tapes[thread];
    ppo_status        status = PPO_OK;
    for (int k = begin; k < end && !status; ++k) {
        ppo__shard *shard = &batch->shard[k];
        ppo_tape_reset(tape);
        tape->params = batch->most_shards > 1 ? params : NULL;
        tape->grad = shard->grad;
        memset(shard->grad, 0, params->count * sizeof(float));
        ppo_tensor *loss = ppo__loss(trainer, tape, &shard->inputs, &shard->samples, &shard->stats);
        if (batch->shards > 1) /* its share in the mean over all samples */
            loss = ppo_tape_scale(tape, loss, (float)shard->samples.envs / (float)batch->samples.envs, 0);
        status = ppo_tape_backward(tape, loss);
        if (status) ppo__tape_fail(tape, status); /* what is wrong with the loss itself, too */
    }
}

/* grad of the first shard += those of the others, in order. */
static void ppo__add_shards(void *user, int thread, int begin, int end) {
    const ppo_trainer    *trainer = (const ppo_trainer *)user;
    const ppo__minibatch *batch = &trainer->minibatch;
    size_t                at = ppo__at(begin, PPO__FLOAT_GRAIN);
    size_t                n = ppo__grain_end(trainer->agent->model.params->count, end) - at;
    (void)thread;
    for (int k = 1; k < batch->shards; ++k)
        ppo__k()->add(batch->shard[k].grad + at, batch->shard[0].grad + at, n);
}

/* The gradient of the gathered minibatch's loss, and what it reports. */
static ppo_status ppo__gradient(ppo_trainer *trainer, ppo__step_stats *stats) {
    const ppo__minibatch *batch = &trainer->minibatch;
    const ppo_params     *params = trainer->agent->model.params;
    double                work = 3.0 * (double)params->count * batch->samples.envs / batch->shards;
    int                   threads = ppo__range_count(batch->shards, 1, work);
    ppo__parallel_for(batch->shards, 1, work, ppo__shard_gradients, trainer);
    for (int k = 0; k < threads; ++k) {
        ppo_status status = ppo_tape_status(trainer->tapes[k]);
        if (status) return status;
    }
    if (batch->shards > 1)
        ppo__parallel_for(ppo__grains(params->count), 1, (double)PPO__FLOAT_GRAIN * batch->shards,
                          ppo__add_shards, trainer);

    memset(stats, 0, sizeof *stats); /* means over all samples */
    stats->policy.ratio_min = INFINITY;
    for (int k = 0; k < batch->shards; ++k) {
        const ppo__step_stats *own = &batch->shard[k].stats;
        float                  weight = (float)batch->shard[k].samples.envs / (float)batch->samples.envs;
        stats->loss += weight * own->loss;
        stats->value_loss += weight * own->value_loss;
        stats->entropy += weight * own->entropy;
        stats->policy.loss += weight * own->policy.loss;
        stats->policy.clip_fraction += weight * own->policy.clip_fraction;
        stats->policy.approx_kl += weight * own->policy.approx_kl;
        stats->policy.old_approx_kl += weight * own->policy.old_approx_kl;
        stats->policy.ratio_min = ppo__min(stats->policy.ratio_min, own->policy.ratio_min);
        stats->policy.ratio_max = ppo__max(stats->policy.ratio_max, own->policy.ratio_max);
    }
    return PPO_OK;
}

/* Segments differ in length, and rollouts in how much of them is learned from, so a shard to come may be
   larger than all of the first iteration: before that each tape takes the room for the largest, as many whole
   segments as there can be. */
static ppo_status ppo__reserve_tapes(ppo_trainer *trainer) {
    const ppo__minibatch *batch = &trainer->minibatch;
    ppo_status            status = PPO_OK;
    int                   segments;
    if (trainer->reserved) return PPO_OK;
    trainer->reserved = 1;
    ppo__cut(trainer, 1, &segments); /* in order: whole segments come first */
    segments = ppo__divide_up(ppo__min_int(segments, batch->segments), batch->most_shards);
    ppo__gather_minibatch(trainer, segments, 0, 1, 1);
    for (int k = 0; k < batch->most_shards && !status; ++k) {
        ppo__shard_gradients(trainer, k, 0, 1);
        status = ppo_tape_status(trainer->tapes[k]);
    }
    return status;
}

/* -- schedules and reports -- */

/* The settings of this iteration, which its report shows. */
static ppo_status ppo__apply_schedules(ppo_trainer *trainer, ppo_progress *progress) {
    enum { RATE = PPO_SETTING_LEARNING_RATE, LOW, HIGH, ENTROPY, COUNT }; /* as PPO_SETTING_... */
    const ppo_config *c = &trainer->config;
    const float       initial[COUNT] = {c->learning_rate, c->clip_low, c->clip_high, c->entropy_coef};
    const int         schedule[COUNT] = {c->learning_rate_schedule, c->clip_schedule, c->clip_schedule,
                                         c->entropy_schedule};
    const float       done = (float)((double)trainer->steps / (double)c->total_steps);
    float             now[COUNT];
    int               valid = 1;
    for (int k = 0; k < COUNT; ++k) {
        now[k] = schedule[k] == PPO_CUSTOM ? c->schedule(k, initial[k], done, c->schedule_user)
                                           : ppo_schedule(schedule[k], initial[k], done);
        valid &= now[k] >= 0 && ppo__finite(now[k]);
    }
    if (!valid)
        return ppo__refuse("config.schedule gave learning rate %g, clip %g and %g, entropy_coef %g",
                           (double)now[RATE], (double)now[LOW], (double)now[HIGH], (double)now[ENTROPY]);
    const ppo_policy_objective objective = {c->objective, now[LOW], now[HIGH], c->dual_clip,
                                            trainer->kl_coef};
    const ppo_adam             adam = {now[RATE], c->adam_beta1, c->adam_beta2, c->adam_eps, c->weight_decay};
    trainer->objective = objective;
    trainer->adam = adam;
    trainer->entropy_coef = progress->entropy_coef = now[ENTROPY];
    progress->learning_rate = now[RATE];
    progress->clip_range = now[HIGH];
    progress->kl_coef = trainer->kl_coef;
    return PPO_OK;
}

static void ppo__average(float *mean, float x, int count) { *mean += (x - *mean) / (float)count; }

/* Takes the count-th minibatch, number b of its epoch, into what the callback sees. */
static void ppo__add_stats(ppo_progress *progress, const ppo__step_stats *stats, int count, int b) {
    if (count == 1) {
        progress->first_ratio_min = stats->policy.ratio_min;
        progress->first_ratio_max = stats->policy.ratio_max;
    }
    ppo__average(&progress->policy_loss, stats->policy.loss, count);
    ppo__average(&progress->value_loss, stats->value_loss, count);
    ppo__average(&progress->entropy, stats->entropy, count);
    ppo__average(&progress->approx_kl, stats->policy.approx_kl, count);
    ppo__average(&progress->old_approx_kl, stats->policy.old_approx_kl, count);
    ppo__average(&progress->clip_fraction, stats->policy.clip_fraction, count);
    ppo__average(&progress->last_approx_kl, stats->policy.approx_kl, b + 1); /* begins anew */
    ppo__average(&progress->loss, stats->loss, count);
    progress->last_loss = stats->loss;
}

static int ppo__adapts_kl(const ppo_config *config) {
    return config->adaptive_kl_target > 0 && config->objective == PPO_KL_PENALTY;
}

/* Schulman 2017, section 4: the exact KL(old || new) over the samples adapts the coefficient of the next
   iteration. */
static ppo_status ppo__adapt_kl(ppo_trainer *trainer, ppo_progress *progress) {
    const ppo_actor_critic *model = &trainer->agent->model;
    ppo_tape               *tape = trainer->tapes[0];
    int                     segments, batches = ppo__cut(trainer, 0, &segments), samples = 0;
    double                  sum = 0;
    for (int b = 0; b < batches; ++b) {
        ppo__gather_minibatch(trainer, segments, b, batches, trainer->minibatch.most_shards);
        for (int k = 0; k < trainer->minibatch.shards; ++k) {
            const ppo__shard *shard = &trainer->minibatch.shard[k];
            ppo_tape_reset(tape);
            ppo_outputs out = ppo_actor_critic_forward(tape, model, &shard->inputs, PPO_POLICY);
            ppo_tensor *kl =
                ppo_actor_critic_kl(tape, model, &out, shard->samples.policy, shard->samples.log_std);
            if (!kl) return ppo_tape_status(tape);
            for (int i = 0; i < kl->rows; ++i) sum += (double)kl->data[i];
            samples += kl->rows;
        }
    }
    if (!samples) return PPO_OK;
    progress->kl = (float)(sum / samples);
    trainer->kl_coef =
        ppo__clamp(ppo_adaptive_kl_2017(trainer->kl_coef, progress->kl, trainer->config.adaptive_kl_target),
                   1e-6f, 1e6f);
    return PPO_OK;
}

/* Counts the iteration, and the episodes that ended in it, in the order of their ends. */
static void ppo__report(ppo_trainer *trainer, ppo_progress *progress) {
    const ppo_actor_critic *model = &trainer->agent->model;
    const ppo_rollout      *rollout = &trainer->collector.rollout;
    int                     samples = rollout->steps * rollout->envs;
    double                  returns = 0, lengths = 0, std = 0;
    for (int i = 0; i < samples; ++i) {
        if (!rollout->episode_length[i]) continue;
        trainer->last_return[trainer->episodes % PPO__LAST_EPISODES] = rollout->episode_return[i];
        trainer->last_length[trainer->episodes++ % PPO__LAST_EPISODES] = rollout->episode_length[i];
    }
    int recent = trainer->episodes < PPO__LAST_EPISODES ? (int)trainer->episodes : (int)PPO__LAST_EPISODES;
    for (int i = 0; i < recent; ++i) returns += trainer->last_return[i], lengths += trainer->last_length[i];
    for (size_t i = 0; model->log_std && i < ppo__size(model->log_std); ++i)
        std += exp((double)model->log_std->data[i]);
    progress->iteration = ++trainer->iteration;
    progress->iteration_steps = samples;
    progress->steps = trainer->steps += samples;
    progress->total_steps = trainer->config.total_steps;
    progress->seconds = ppo_clock() - trainer->started;
    progress->steps_per_second = progress->seconds > 0 ? (double)trainer->steps / progress->seconds : 0;
    double left = (double)(progress->total_steps - progress->steps);
    progress->seconds_left = left > 0 ? progress->seconds * left / (double)progress->steps : 0;
    progress->episodes = trainer->episodes;
    progress->mean_return = recent ? (float)(returns / (double)recent) : NAN;
    progress->mean_length = recent ? (float)(lengths / (double)recent) : NAN;
    progress->updates = trainer->updates;
    progress->gradient_steps = model->params->step;
    progress->std = model->log_std ? (float)(std / (double)ppo__size(model->log_std)) : 0;
    progress->value_clip = trainer->config.value_clip;
    progress->explained_variance = ppo_explained_variance(rollout->value, rollout->value_target, samples);
}

/* -- training: read it from ppo_trainer_iterate() upwards -- */

/* Learns from the rollout: every sample once per epoch, in a new order. */
static ppo_status ppo__epochs(ppo_trainer *trainer, ppo_progress *progress) {
    const ppo_config *config = &trainer->config;
    ppo_rollout      *minibatch = &trainer->minibatch.samples;
    ppo_params       *params = trainer->agent->model.params;
    int               segments, count = 0;
    for (; progress->epochs < config->epochs; ++progress->epochs) {
        int batches = ppo__cut(trainer, 0, &segments);
        if (!batches) return PPO_OK; /* without a critic: no episode has ended */
        ++trainer->updates;
        ppo_rng_shuffle(&trainer->shuffle_rng, trainer->order, segments);
        for (int b = 0; b < batches; ++b) {
            ppo__step_stats stats;
            ppo_status      status = PPO_OK;
            ppo__gather_minibatch(trainer, segments, b, batches, trainer->minibatch.most_shards);
            if (config->normalize_advantage)
                status = ppo_whiten(minibatch->advantage, NULL, minibatch->envs, 1);
            if (!status) status = ppo__gradient(trainer, &stats);
            if (status) return status;
            ppo__add_stats(progress, &stats, ++count, b);
            /* target_kl: the policy is too far from the one that acted, so this minibatch changes nothing */
            if (config->target_kl > 0 && stats.policy.approx_kl > 1.5f * config->target_kl) return PPO_OK;
            status = ppo_params_step(params, &trainer->adam, config->max_grad_norm, &stats.grad_norm);
            if (status) return status;
            ppo__average(&progress->grad_norm, stats.grad_norm, count);
        }
    }
    return PPO_OK;
}

/* Advantages and value targets by GAE. */
static ppo_status ppo__advantages(ppo_trainer *trainer) {
    const ppo_config  *config = &trainer->config;
    const ppo_rollout *r = &trainer->collector.rollout;
    ppo_status status = ppo_gae(r->reward, r->value, r->next_value, r->terminated, r->truncated, r->steps,
                                r->envs, config->gamma, config->gae_lambda, r->advantage, r->value_target);
    for (int i = 0; i < r->steps * r->envs && !status; ++i) {
        int e = i % r->envs, t = i / r->envs;
        if (fabsf(r->advantage[i]) + fabsf(r->value_target[i]) < 1e18f) continue; /* the square is finite */
        status = ppo_fail(PPO_ERROR_NUMERIC,
                          "rewards or values are too large: the advantage is %g (environment %d, step %lld)",
                          (double)r->advantage[i], e,
                          (long long)(trainer->collector.envs.steps[e] - r->steps + t + 1));
    }
    return status;
}

PPO_DEF int ppo_trainer_done(const ppo_trainer *trainer) {
    return !trainer || trainer->steps >= trainer->config.total_steps;
}

PPO_DEF ppo_status ppo_trainer_iterate(ppo_trainer *trainer, ppo_progress *progress) {
    if (!ppo__given("ppo_trainer_iterate", trainer != NULL)) return PPO_ERROR_ARGUMENT;
    const ppo_config *config = &trainer->config;
    ppo__pool        *before = ppo__arithmetic_pool;
    ppo_progress      mine;
    memset(&mine, 0, sizeof mine);
    mine.kl = NAN;
    if (ppo_trainer_done(trainer))
        return ppo__refuse("all %lld steps are done", (long long)config->total_steps);
    int64_t left = (config->total_steps - trainer->steps - 1) / config->num_envs + 1;
    int     steps = left < config->rollout_steps ? (int)left : config->rollout_steps;

    ppo_status status = ppo__apply_schedules(trainer, &mine);
    if (config->threads > 1) ppo__arithmetic_pool = trainer->collector.pool; /* divides all that follows */
    if (!status) status = ppo__collect(&trainer->collector, steps);
    if (!status) status = ppo__advantages(trainer);
    if (!status) status = ppo__reserve_tapes(trainer);
    if (!status) status = ppo__epochs(trainer, &mine);
    if (!status && ppo__adapts_kl(config)) status = ppo__adapt_kl(trainer, &mine);
    ppo__arithmetic_pool = before;

    for (int k = 0; k < PPO__SHARDS && trainer->tapes[k]; ++k)
        ppo_tape_reset(trainer->tapes[k]); /* take their lasting shape in the first iteration */
    if (status) {
        ppo__forget_episodes(&trainer->collector);
        return status;
    }
    ppo__report(trainer, &mine);
    if (progress) *progress = mine;
    return PPO_OK;
}

/* -- making a trainer -- */

PPO_DEF int64_t ppo_trainer_steps(const ppo_trainer *trainer) { return trainer ? trainer->steps : 0; }

PPO_DEF const ppo_rollout *ppo_trainer_rollout(const ppo_trainer *trainer) {
    return trainer ? &trainer->collector.rollout : NULL;
}

PPO_DEF void ppo_trainer_free(ppo_trainer *trainer) {
    if (!trainer) return;
    ppo__collector_free(&trainer->collector);
    for (int k = 0; k < PPO__SHARDS; ++k) ppo_tape_free(trainer->tapes[k]);
    ppo__arena_free(&trainer->memory);
    ppo__free(trainer);
}

/* Room for minibatches and their shards. Segments of recurrent policies are whole sequences, so a minibatch
   is as many of them as fit into minibatch_size, but at least one. */
static ppo_status ppo__minibatch_room(ppo_trainer *trainer) {
    const ppo_config *config = &trainer->config;
    const ppo_params *params = trainer->agent->model.params;
    ppo__arena       *memory = &trainer->memory;
    ppo__minibatch   *batch = &trainer->minibatch;
    int               samples = config->num_envs * config->rollout_steps, steps = 1;
    if (trainer->agent->model.core.width) steps = ppo__min_int(config->sequence_steps, config->rollout_steps);
    int all = config->num_envs * ppo__divide_up(config->rollout_steps, steps), most = all;
    if (config->minibatch_size) most = config->minibatch_size > steps ? config->minibatch_size / steps : 1;
    batch->segment_steps = steps;
    batch->segments = ppo__divide_up(all, ppo__divide_up(all, most)); /* evened out over a full rollout */
    batch->picked = PPO__ARRAY(memory, int, ppo__at(batch->segments, steps));
    trainer->order = PPO__ARRAY(memory, int, samples);
    trainer->usable = PPO__ARRAY(memory, int, config->num_envs);
    ppo__rollout_take(&batch->samples, memory, trainer->collector.columns, steps, batch->segments, 1);
    ppo_status status = ppo__arena_status(memory);

    int shards = (int)(ppo__at(batch->segments, steps) / PPO__SHARD_SAMPLES);
    if (steps > 1) shards = ppo__min_int(shards, batch->segments / PPO__SHARD_SEGMENTS);
    if (shards < 1 || params->count > PPO__SHARD_PARAMS) shards = 1;
    batch->most_shards = ppo__min_int(shards, PPO__SHARDS);
    for (int k = 0; k < batch->most_shards && !status; ++k) {
        ppo__shard *shard = &batch->shard[k];
        shard->count = PPO__ARRAY(memory, int, steps);
        shard->grad = k ? PPO__ARRAY(memory, float, params->count) : params->grad;
        status = ppo__arena_status(memory);
        if (!status) status = ppo_tape_create(&trainer->tapes[k]);
    }
    return status;
}

/* An agent keeps its network, and a run its environments: settings of them that differ are an error, and not
   ignored. `more`: a run's other settings that must agree, a list that ends with NULL; NULL: an agent's. */
static ppo_status ppo__check_same(const ppo_config *own, const ppo_config *config, const char *const *more) {
    ppo_status status = PPO_OK;
    for (int i = 0; i < PPO__FIELDS && !status; ++i) {
        int must = ppo__fields[i].kind == PPO_FIELD_NETWORK;
        for (const char *const *other = more; other && *other && !must; ++other)
            must = strcmp(ppo__fields[i].name, *other) == 0;
        if (must)
            status = ppo__check_kept(ppo_config_settings(), ppo__fields[i].name, own, config,
                                     more ? "checkpoint" : "agent");
    }
    return status;
}

static ppo_status ppo__check_agent(const ppo_agent *agent, const ppo_env *env) {
    char is[PPO__SPACE_SIZE], wanted[PPO__SPACE_SIZE];
    if (!agent) return ppo__refuse("the agent is NULL");
    ppo__space_text(&agent->model.action_space, is);
    ppo__space_text(&env->action_space, wanted);
    if (agent->model.obs_size == env->obs_size && strcmp(is, wanted) == 0) return PPO_OK;
    return ppo__refuse("the agent (%d observed, %.40s) does not fit the environment (%d observed, %.40s)",
                       agent->model.obs_size, is, env->obs_size, wanted);
}

/* For an environment, settings and an agent that have been checked. The agent remembers what it is trained
   with, and on which environment. */
static ppo_status ppo__trainer_make(const ppo_env *env, const ppo_config *config, ppo_agent *agent,
                                    ppo_trainer **out) {
    ppo_trainer *trainer = (ppo_trainer *)ppo__alloc(sizeof *trainer);
    if (!trainer) return PPO_ERROR_MEMORY;
    ppo_params     *params = agent->model.params;
    ppo__collector *collector = &trainer->collector;
    float           critic = config->critic_learning_rate;
    ppo_status      status = PPO_OK;
    trainer->config = *config;
    trainer->agent = agent;
    trainer->kl_coef = config->kl_coef;
    trainer->shuffle_rng = ppo_rng_stream(config->seed, PPO_STREAM_SHUFFLE, 0);
    trainer->reserved = !agent->model.core.width && config->baseline;
    collector->model = &agent->model;
    collector->obs_norm = config->normalize_obs ? &agent->obs_norm : NULL;
    collector->return_norm = config->normalize_reward ? &agent->return_norm : NULL;
    collector->clip_obs = agent->clip_obs;
    collector->clip_reward = config->clip_reward;
    collector->gamma = config->gamma;
    collector->gsde_steps = config->gsde_steps;
    collector->keep_policy = config->objective == PPO_KL_PENALTY;
    collector->critic = config->baseline;
    if (config->normalize_reward && !agent->return_norm.size)
        status = ppo_normalizer_init(&agent->return_norm, 1);
    if (!status)
        status = ppo__collector_open(collector, env, config->num_envs, config->rollout_steps, config->threads,
                                     config->seed);
    if (!status) status = ppo__minibatch_room(trainer);
    if (status) {
        ppo_trainer_free(trainer);
        return status;
    }
    agent->config = *config;
    agent->config.callback = NULL;
    agent->config.schedule = NULL;
    agent->config.callback_user = agent->config.schedule_user = NULL;
    ppo__keep_name(agent->environment, env->name);
    for (int i = 0; i < params->tensor_count; ++i)
        params->lr_scale[i] =
            critic > 0 && strncmp(params->names[i], "critic.", 7) == 0 ? critic / config->learning_rate : 1;
    trainer->started = ppo_clock();
    *out = trainer;
    return PPO_OK;
}

PPO_DEF ppo_status ppo_trainer_create(const ppo_env *env, const ppo_config *config, ppo_agent *agent,
                                      ppo_trainer **trainer) {
    if (!ppo__given("ppo_trainer_create", trainer != NULL)) return PPO_ERROR_ARGUMENT;
    *trainer = NULL;
    ppo_status status = ppo_env_check(env);
    if (!status) status = ppo_config_check(config);
    if (!status) status = ppo__check_agent(agent, env);
    if (!status) status = ppo__check_same(&agent->config, config, NULL);
    for (int i = 0; i < PPO__FIELDS && !status; ++i)
        if (ppo__fields[i].kind != PPO_FIELD_NETWORK) /* those are the agent's, which exists */
            status = ppo_config_check_effect(config, env, ppo__fields[i].name);
    return status ? status : ppo__trainer_make(env, config, agent, trainer);
}

PPO_DEF ppo_status ppo_train(const ppo_env *env, const ppo_config *config, ppo_agent **agent) {
    if (!ppo__given("ppo_train", agent != NULL)) return PPO_ERROR_ARGUMENT;
    ppo_agent   *mine = *agent;
    ppo_trainer *trainer = NULL;
    ppo_status   status = mine ? PPO_OK : ppo_agent_create(env, config, &mine);
    if (!status) status = ppo_trainer_create(env, config, mine, &trainer);
    while (!status && !ppo_trainer_done(trainer)) {
        ppo_progress progress;
        status = ppo_trainer_iterate(trainer, &progress);
        if (!status && config->callback && config->callback(&progress, config->callback_user)) break;
    }
    ppo_trainer_free(trainer);
    if (status && !*agent) ppo_agent_free(mine);
    else *agent = mine;
    return status;
}

/* -- evaluation -- */

enum { PPO__EVAL_ENVS = 32, PPO__EVAL_STEPS = 1000000, PPO__EVAL_EPISODES = 1000000 };

/* Plays an episode in each of up to PPO__EVAL_ENVS environments, to its end. Row i of `rows` is environment
   active[i]; those whose episodes are over drop out. watch is for a single environment. */
static ppo_status ppo__play_envs(ppo_agent *agent, ppo__envs *envs, ppo_rollout *rows, float *box,
                                 ppo_rng *rng, ppo_watcher watch, void *user) {
    const ppo_actor_critic *model = &agent->model;
    size_t     width = (size_t)model->core.width, outputs = (size_t)ppo__space_outputs(&model->action_space);
    int        size = model->obs_size, active[PPO__EVAL_ENVS], n = envs->count;
    ppo_action action;
    ppo_frame  frame = {0, envs->state, envs->obs, NULL, 0, 0, 0, 0};
    ppo_status status = PPO_OK;
    if (width) memset(rows->state, 0, n * width * sizeof(float));
    for (int e = 0; e < n && !status; ++e) {
        active[e] = e;
        status = ppo__env_reset(envs, e);
    }
    while (n && !status) {
        if (watch && watch(&frame, user)) return PPO_OK;
        for (int i = 0; i < n && !status; ++i) {
            ppo__normalized(&agent->obs_norm, agent->clip_obs, envs->obs + ppo__at(active[i], size), 1, size,
                            rows->obs + ppo__at(i, size));
            if (rows->mask) status = ppo__env_mask(envs, active[i], rows->mask + i * outputs);
        }
        if (status) return status;

        /* all actions are chosen before any is taken: an environment may itself ask the agent */
        ppo_outputs out =
            ppo__forward_rows(agent->tape, model, n, rows->obs, rows->mask, rows->state, NULL, PPO_POLICY);
        status = ppo_tape_status(agent->tape);
        for (int i = 0; i < n && !status; ++i) {
            status = ppo__check_numbers(out.policy->data + i * outputs, (int)outputs, "policy output",
                                        envs->first + active[i], envs->steps[active[i]]);
            if (!status) ppo__choose_action(model, &out, i, rng, &rows->actions, (size_t)i);
        }
        if (!status && width) memcpy(rows->state, out.state->data, n * width * sizeof(float));

        int still = 0;
        for (int i = 0; i < n && !status; ++i) {
            int         e = active[i];
            ppo_outcome outcome;
            action = ppo__action_for_env(model, &rows->actions, (size_t)i, box);
            status = ppo__env_step(envs, e, &action, &outcome);
            const ppo_frame now = {envs->length[e],    envs->state,
                                   envs->obs,          &action,
                                   outcome.reward,     (float)envs->episode_return[e],
                                   outcome.terminated, outcome.truncated};
            frame = now;
            if (status || outcome.terminated || outcome.truncated) continue;
            if (!envs->env.max_steps && envs->length[e] >= PPO__EVAL_STEPS)
                status = ppo__refuse("an episode has not ended after %d steps: set env.max_steps",
                                     (int)PPO__EVAL_STEPS);
            if (width) memmove(rows->state + still * width, rows->state + i * width, width * sizeof(float));
            active[still++] = e;
        }
        n = still;
    }
    if (!status && watch) watch(&frame, user);
    return status;
}

/* Plays `episodes` episodes, in groups; their returns and lengths. */
static ppo_status ppo__play_all(ppo_agent *agent, const ppo_env *env, int episodes, uint64_t seed,
                                ppo_rng *rng, ppo_watcher watch, void *user, float *returns, float *lengths) {
    ppo__column columns[PPO__COLUMNS];
    ppo__arena  memory;
    ppo_rollout rows;
    ppo_status  status = ppo_env_check(env);
    if (!status) status = ppo__check_agent(agent, env);
    if (status) return status;
    memset(&memory, 0, sizeof memory);
    ppo__columns(&agent->model, env, 0, columns);
    ppo__rollout_take(&rows, &memory, columns, 1, PPO__EVAL_ENVS, 1);
    float *box = PPO__ARRAY(&memory, float, env->action_space.n);
    status = ppo__arena_status(&memory);
    for (int first = 0; first < episodes && !status; first += PPO__EVAL_ENVS) {
        int       count = ppo__min_int(episodes - first, PPO__EVAL_ENVS);
        ppo__envs envs;
        status = ppo__envs_open(&envs, env, count, seed, PPO_STREAM_EVALUATE, first);
        if (!status) status = ppo__play_envs(agent, &envs, &rows, box, rng, watch, user);
        for (int e = 0; e < count && !status; ++e) {
            returns[first + e] = (float)envs.episode_return[e];
            lengths[first + e] = (float)envs.length[e];
        }
        ppo__envs_free(&envs);
    }
    ppo__arena_free(&memory);
    return status;
}

PPO_DEF ppo_status ppo_play(ppo_agent *agent, const ppo_env *env, uint64_t seed, int sample,
                            ppo_watcher watch, void *user, float *total) {
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_ACTION, 0);
    float   none, length;
    return ppo__play_all(agent, env, 1, seed, sample ? &rng : NULL, watch, user, total ? total : &none,
                         &length);
}

PPO_DEF ppo_evaluation ppo_evaluate(ppo_agent *agent, const ppo_env *env, int episodes, uint64_t seed) {
    ppo_evaluation result = {PPO_OK, 0, NAN, NAN, NAN, NAN, NAN};
    double         mean = 0, var = 0, length = 0, n = episodes;
    float         *returns = NULL;
    if (episodes <= 0 || episodes > PPO__EVAL_EPISODES)
        result.status =
            ppo__refuse("ppo_evaluate: %d episodes, outside 1 to %d", episodes, (int)PPO__EVAL_EPISODES);
    else if (!(returns = (float *)ppo__alloc(2 * ppo__at(episodes, sizeof(float)))))
        result.status = PPO_ERROR_MEMORY;
    else
        result.status =
            ppo__play_all(agent, env, episodes, seed, NULL, NULL, NULL, returns, returns + episodes);
    if (!result.status) {
        result.min_return = result.max_return = returns[0];
        for (int i = 0; i < episodes; ++i) {
            mean += returns[i] / n;
            length += returns[episodes + i] / n;
            result.min_return = ppo__min(result.min_return, returns[i]);
            result.max_return = ppo__max(result.max_return, returns[i]);
        }
        for (int i = 0; i < episodes; ++i) var += (returns[i] - mean) * (returns[i] - mean) / n;
        result.mean_return = (float)mean;
        result.std_return = (float)sqrt(var);
        result.mean_length = (float)length;
        result.episodes = episodes;
    }
    ppo__free(returns);
    return result;
}

/* --------------------------------------------------------------------------------------------------------
   @@ 16 Policies in files

   A policy's file holds arrays (the parameters, the running statistics) and texts (all settings by name, the
   environment's name, the sizes). A checkpoint is such a file with what training keeps from one iteration to
   the next: counters, Adam's moments, random streams, and the environments in the middle of their episodes.
   ppo__carry_agent() and ppo__carry_trainer() list these as items (section 6); saving walks a list one way,
   loading the other. To resume is to create an agent and a trainer with the saved settings, and to load both
   lists into them. Everything else in a trainer is written anew in each iteration, so a resumed run computes
   the same bits.

   To add state: that of a trainer that lasts beyond an iteration is a row in ppo__carry_trainer(); state of
   a policy is a row in ppo__carry_agent(). Older files lack the array: leave `data` NULL when loading if
   ppo_file_find() does not find it. A setting is saved without further work, but if memory grows with it, it
   belongs in ppo__trainer_bytes(), or in ppo__check_weights() if the network does. Add a run that uses the
   state to `kinds` in tests/test_checkpoints.c. To export a layer: ppo__export_uses(), and its call in
   ppo__export_forward(), where `widest` must include its width, and only the core may write into `state`.
   -------------------------------------------------------------------------------------------------------- */

/* Settings that the file lacks, because it is older, and custom schedules keep their defaults. Threads, which
   do not change results, are at most the number of processors. */
static ppo_status ppo__get_config(const ppo_file *file, ppo_config *config) {
    long processors = INT_MAX; /* unknown */
#if defined(_WIN32)
    SYSTEM_INFO system;
    GetSystemInfo(&system);
    processors = (long)system.dwNumberOfProcessors;
#elif defined(_SC_NPROCESSORS_ONLN)
    processors = sysconf(_SC_NPROCESSORS_ONLN);
#endif
    *config = ppo_config_default();
    ppo_status status = ppo__get_settings(file, ppo_config_settings(), config);
    if (processors > 0 && config->threads > processors) config->threads = (int)processors;
    return status;
}

/* What a policy's file holds besides the settings. */
static ppo_status ppo__carry_agent(ppo_file *file, int way, ppo_agent *agent) {
    const ppo_params *params = agent->model.params;
    ppo_normalizer   *obs = &agent->obs_norm, *ret = &agent->return_norm;
    double           *obs_count = obs->size ? &obs->count : NULL, *ret_count = ret->size ? &ret->count : NULL;
    const ppo__item   items[] = {
          {"obs_norm.mean", PPO_F64, 1, {obs->size, 0}, obs->mean, PPO__ANY},
          {"obs_norm.var", PPO_F64, 1, {obs->size, 0}, obs->var, 0, DBL_MAX},
          {"obs_norm.count", PPO_F64, 0, {0, 0}, obs_count, DBL_MIN, DBL_MAX},
          {"return_norm.mean", PPO_F64, 1, {ret->size, 0}, ret->mean, PPO__ANY},
          {"return_norm.var", PPO_F64, 1, {ret->size, 0}, ret->var, 0, DBL_MAX},
          {"return_norm.count", PPO_F64, 0, {0, 0}, ret_count, DBL_MIN, DBL_MAX},
    };
    ppo_status status = ppo__carry_items(file, way, items, sizeof items / sizeof *items);
    return status ? status : ppo__carry_params(file, way, "", params, params->data, 2);
}

/* Saving only reads the agent: the cast is for the list that loading shares. */
static ppo_status ppo__put_agent(ppo_file *file, const void *object) {
    ppo_agent *agent = (ppo_agent *)object;
    char       number[32], space[PPO__SPACE_SIZE];
    ppo_status status = ppo__put_settings(file, ppo_config_settings(), &agent->config);
    snprintf(number, sizeof number, "%d", agent->model.obs_size);
    ppo__space_text(&agent->model.action_space, space);
    if (!status) status = ppo_file_set_text(file, "environment", agent->environment);
    if (!status) status = ppo_file_set_text(file, "observation_size", number);
    if (!status) status = ppo_file_set_text(file, "action_space", space);
    return status ? status : ppo__carry_agent(file, PPO__SAVE, agent);
}

PPO_DEF ppo_status ppo_agent_save(const ppo_agent *agent, const char *path) {
    return ppo__save("ppo_agent_save", path, ppo__put_agent, agent);
}

/* The environment's sizes and name, from the file. */
static ppo_status ppo__get_env(const ppo_file *file, ppo_env *env) {
    const char *size = ppo_file_text(file, "observation_size"), *space = ppo_file_text(file, "action_space");
    const char *rest = "";
    memset(env, 0, sizeof *env);
    if (!size || !space)
        return ppo__file_fail(file->path, "not a policy: there is no observation_size or no action_space");
    env->name = ppo_file_text(file, "environment");
    env->obs_size = ppo__parse_count(size, &rest);
    env->action_space = ppo__parse_space(space);
    if (!env->obs_size || *rest)
        return ppo__file_fail(file->path, "corrupt file: invalid observation_size \"%.20s\"", size);
    if (ppo__check_space(&env->action_space))
        return ppo__file_fail(file->path, "corrupt file: invalid action_space \"%.60s\"", space);
    return PPO_OK;
}

/* The file must have as many numbers as the network that its settings describe, before that is made. */
static ppo_status ppo__check_weights(const ppo_file *file, const ppo_env *env, const ppo_config *config) {
    double have = 0, need = 0, inputs = env->obs_size;
    for (int i = 0; i < ppo_file_count(file); ++i)
        have += (double)ppo_file_at(file, i)->bytes / sizeof(float);
    for (int pass = 0; pass < 2; ++pass) { /* the trunk, then the actor; the core is between them */
        for (int k = 0; k < config->hidden_layers && pass != config->shared_trunk; ++k) {
            need += inputs * config->hidden[k];
            inputs = config->hidden[k];
        }
        if (pass == 0 && config->recurrent) {
            need += 3.0 * config->recurrent * (inputs + config->recurrent);
            inputs = config->recurrent;
        }
    }
    need += inputs * ppo__space_outputs(&env->action_space);
    if (need <= have) return PPO_OK;
    return ppo__file_fail(file->path, "corrupt file: its settings need %.0f weights, but it has %.0f numbers",
                          need, have);
}

static ppo_status ppo__get_agent(ppo_file *file, const ppo_env *env, ppo_agent **agent) {
    ppo_env    own;
    ppo_config config;
    ppo_status status = ppo__check_checksum(file);
    if (!status) status = ppo__get_env(file, &own);
    if (!status) status = ppo__get_config(file, &config);
    if (!status) status = ppo__check_weights(file, &own, &config);
    if (status) return status;
    const int init = config.init;
    config.init = PPO_ZEROS; /* the weights are in the file */
    status = ppo__agent_make(&own, &config, agent);
    if (!status) (*agent)->config.init = init;
    if (!status && env) status = ppo__check_agent(*agent, env);
    if (status == PPO_ERROR_ARGUMENT) status = ppo__file_blame(file);
    if (!status && ppo_file_find(file, "return_norm.mean"))
        status = ppo_normalizer_init(&(*agent)->return_norm, 1);
    return status ? status : ppo__carry_agent(file, PPO__LOAD, *agent);
}

PPO_DEF ppo_status ppo_agent_load(const char *path, const ppo_env *env, ppo_agent **agent) {
    ppo_file *file = NULL;
    if (agent) *agent = NULL;
    if (!ppo__given("ppo_agent_load", path && agent)) return PPO_ERROR_ARGUMENT;
    ppo_status status = env ? ppo_env_check(env) : PPO_OK;
    if (!status) status = ppo_file_read(path, &file);
    if (!status) status = ppo__get_agent(file, env, agent);
    if (status) {
        ppo_agent_free(*agent);
        *agent = NULL;
    }
    ppo_file_free(file);
    return status;
}

PPO_DEF ppo_status ppo_config_load(const char *path, ppo_config *config, char environment[64]) {
    ppo_file  *file = NULL;
    ppo_config read;
    ppo_env    env;
    if (!ppo__given("ppo_config_load", path != NULL)) return PPO_ERROR_ARGUMENT;
    ppo_status status = ppo_file_read(path, &file);
    if (!status) status = ppo__get_env(file, &env);
    if (!status) status = ppo__get_config(file, &read);
    if (!status && config) *config = read;
    if (!status && environment) ppo__keep_name(environment, env.name);
    ppo_file_free(file);
    return status;
}

/* -- checkpoints -- */

/* A trainer, and what its file holds in another form. It must exist until the file is written. */
typedef struct ppo__checkpoint {
    ppo_trainer *trainer;
    int64_t      counters[5];
    double       seconds;
} ppo__checkpoint;

/* What a checkpoint holds besides the policy. Saving changes nothing in the trainer. */
static ppo_status ppo__carry_trainer(ppo_file *file, int way, ppo__checkpoint *kept) {
    enum { EPISODES = PPO__LAST_EPISODES, RNG = sizeof(ppo_rng) / sizeof(uint32_t) };
    ppo_trainer    *trainer = kept->trainer;
    ppo__collector *collector = &trainer->collector;
    ppo__envs      *envs = &collector->envs;
    ppo_params     *params = trainer->agent->model.params;
    const int64_t   n = envs->count, width = collector->model->core.width, obs = envs->env.obs_size;
    const int64_t   words = envs->played ? (int64_t)ppo__played_words(&envs->env) : 0;
    const double    most = 4e18, most_length = envs->env.max_steps ? envs->env.max_steps - 1 : INT_MAX;
    char           *bytes = envs->env.open ? NULL : envs->state;
    ppo_rng *const  streams[] = {envs->rng, collector->action_rng, envs->episode_rng, &trainer->shuffle_rng};
    int64_t *const counters[5] = {&trainer->iteration, &trainer->steps, &trainer->episodes, &trainer->updates,
                                  &params->step};
    const ppo__item items[] = {
        {"trainer.counters", PPO_I64, 2, {1, 5}, kept->counters, 0, most},
        {"trainer.seconds", PPO_F64, 2, {1, 1}, &kept->seconds, 0, 1e15},
        {"trainer.kl_coef", PPO_F32, 2, {1, 1}, &trainer->kl_coef, 0, FLT_MAX},
        {"trainer.last_return", PPO_F32, 2, {1, EPISODES}, trainer->last_return, PPO__ANY},
        {"trainer.last_length", PPO_I32, 2, {1, EPISODES}, trainer->last_length, 0, INT_MAX},
        {"trainer.shuffle_rng", PPO_U32, 2, {1, RNG}, &trainer->shuffle_rng, PPO__ANY},
        {"environments.fresh", PPO_I32, 2, {1, 1}, &collector->fresh, 0, 1},
        {"environments.rng", PPO_U32, 2, {n, RNG}, envs->rng, PPO__ANY},
        {"environments.action_rng", PPO_U32, 2, {n, RNG}, collector->action_rng, PPO__ANY},
        {"environments.observation", PPO_F32, 2, {n, obs}, envs->obs, PPO__ANY},
        {"environments.return", PPO_F64, 2, {n, 1}, envs->episode_return, PPO__ANY},
        {"environments.length", PPO_I32, 2, {n, 1}, envs->length, 0, most_length},
        {"environments.steps", PPO_I64, 2, {n, 1}, envs->steps, 0, most},
        {"environments.discounted", PPO_F32, 2, {n, 1}, collector->discounted, PPO__ANY},
        {"environments.start", PPO_U8, 2, {n, 1}, collector->start, 0, 1},
        {"environments.recurrent_state", PPO_F32, 2, {n, width}, width ? collector->state : NULL, PPO__ANY},
        {"environments.episode_rng", PPO_U32, 2, {n, RNG}, envs->episode_rng, PPO__ANY},
        {"environments.played", PPO_U32, 2, {n, words}, envs->played, PPO__ANY},
        {"environments.state", PPO_U8, 2, {n, (int64_t)envs->stride}, bytes, PPO__ANY},
    };
    const ppo__item second = {"adam.v", PPO_F32, 1, {(int64_t)params->count, 0}, params->v, 0, FLT_MAX};
    for (int k = 0; k < 5; ++k) kept->counters[k] = *counters[k];
    ppo_status status = ppo__carry_items(file, way, items, sizeof items / sizeof *items);
    if (!status) status = ppo__carry_params(file, way, "adam.m.", params, params->m, 2);
    if (!status) status = ppo__carry_params(file, way, "adam.v.", params, params->v, 2);
    if (!status) status = ppo__check_item(file, way, &second);
    if (status || way == PPO__SAVE) return status;
    for (int k = 0; k < 4; ++k)
        for (int64_t e = 0; e < (k < 3 ? n : 1) && streams[k]; ++e)
            if (streams[k][e].used > 4)
                return ppo__file_fail(file->path, "corrupt file: invalid state of a random stream");
    for (int k = 0; k < 5; ++k) *counters[k] = kept->counters[k];
    trainer->started = ppo_clock() - kept->seconds;
    return PPO_OK;
}

/* The size of an environment's state, whose bytes have the machine's order. */
static const char *ppo__state_size_text(const ppo_env *env, char text[32]) {
    snprintf(text, 32, "%.0f%s", (double)env->state_size, ppo__is_big_endian() ? " big-endian" : "");
    return text;
}

static ppo_status ppo__put_checkpoint(ppo_file *file, const void *object) {
    ppo__checkpoint   *kept = (ppo__checkpoint *)object;
    const ppo_trainer *trainer = kept->trainer;
    const ppo__envs   *envs = &trainer->collector.envs;
    char               text[32];
    if (envs->env.open && !envs->played)
        return ppo__refuse(
            "ppo_trainer_save: env.max_steps is %d: to save environments with open(), num_envs "
            "episodes must have at most %d numbers",
            envs->env.max_steps, (int)PPO__MOST_PLAYED);
    ppo_status status = ppo__put_agent(file, trainer->agent);
    if (!status) status = ppo_file_set_text(file, "state_size", ppo__state_size_text(&envs->env, text));
    if (!status) /* the agent may have another trainer, too */
        status = ppo__put_settings(file, ppo_config_settings(), &trainer->config);
    if (!status) status = ppo__carry_trainer(file, PPO__SAVE, kept);
    return status ? status : ppo_file_set_text(file, "checksum", ppo__file_checksum(file, text));
}

PPO_DEF ppo_status ppo_trainer_save(const ppo_trainer *trainer, const char *path) {
    if (!ppo__given("ppo_trainer_save", trainer && path)) return PPO_ERROR_ARGUMENT;
    ppo__checkpoint kept = {(ppo_trainer *)trainer, {0}, ppo_clock() - trainer->started};
    return ppo__save("ppo_trainer_save", path, ppo__put_checkpoint, &kept);
}

/* Brings environment e back to where it was: the same episode from the same random numbers. */
static ppo_status ppo__replay(const ppo_file *file, ppo__envs *envs, int e) {
    const ppo_space       *space = &envs->env.action_space;
    const ppo__space_kind *kind = ppo__kind(space);
    uint32_t              *played = envs->played + (size_t)e * ppo__played_words(&envs->env);
    const float           *saved = envs->obs + ppo__at(e, envs->env.obs_size);
    float                 *obs = ppo__own_obs(envs, e);
    void                  *state = envs->state + (size_t)e * envs->stride;
    ppo_rng                rng = envs->episode_rng[e];
    int                    same = 1;
    envs->env.reset(state, &rng, obs);
    for (int t = 0; t < envs->length[e] && same; ++t, played += ppo__space_width(space)) {
        ppo_action  action = {0, NULL, NULL};
        ppo_outcome out;
        if (kind->continuous) action.box = (const float *)(const void *)played;
        else action.choices = (const int *)(const void *)played, action.discrete = action.choices[0];
        memset(&out, 0, sizeof out);
        same = kind->valid(space, played);
        if (same) envs->env.step(state, &rng, &action, obs, &out);
    }
    same = same && memcmp(saved, obs, (size_t)envs->env.obs_size * sizeof(float)) == 0;
    if (same && memcmp(&rng, &envs->rng[e], sizeof rng) == 0) return ppo__check_env(envs, e);
    return ppo__file_fail(file->path, "replaying the episode of environment %d ends in another state", e);
}

/* About the bytes that a trainer needs for these settings: the rollout, a minibatch, the environments'
   states, noise and actions, and the tapes of the shards that are computed at the same time (of the whole
   minibatch if the policy is recurrent or large). */
static double ppo__trainer_bytes(const ppo_env *env, const ppo_agent *agent, const ppo_config *config) {
    const ppo_actor_critic *model = &agent->model;
    const double            outputs = ppo__space_outputs(&env->action_space), recurrent = config->recurrent;
    const double            samples = (double)config->num_envs * config->rollout_steps;
    const double            sample = env->obs_size + 2 * outputs + recurrent + 16; /* floats of each */
    const double            noise = model->gsde ? (double)ppo__size(model->log_std) : 0;
    double                  batch = config->minibatch_size ? config->minibatch_size : samples;
    double                  tape = sample + 12 * recurrent, shards = config->threads;
    for (int k = 0; k < config->hidden_layers; ++k) tape += 8.0 * config->hidden[k];
    if (config->recurrent && batch < config->sequence_steps) batch = config->sequence_steps;
    if (batch > samples) batch = samples;
    if (config->recurrent || model->params->count > PPO__SHARD_PARAMS || shards > (int)PPO__SHARDS)
        shards = PPO__SHARDS;
    double floats = samples * sample + batch * (sample + tape * (shards / (double)(int)PPO__SHARDS)) +
                    config->num_envs * (noise + tape / 4);
    return floats * sizeof(float) + (double)config->num_envs * (double)env->state_size;
}

static ppo_status ppo__resume(ppo_file *file, const ppo_env *env, const ppo_config *config, ppo_agent **agent,
                              ppo_trainer **trainer) {
    static const char *const fixed[] = {"num_envs", "seed", NULL};
    const char *name = ppo_file_text(file, "environment"), *size = ppo_file_text(file, "state_size");
    char        wanted_name[64], wanted_size[32];
    if (!ppo_file_text(file, "checksum"))
        return ppo__file_fail(file->path, "it is a policy, not a checkpoint: it can be loaded, not resumed");
    ppo_status status = config ? ppo_config_check(config) : PPO_OK;
    if (!status) status = ppo__get_agent(file, env, agent);
    if (status) return status;
    ppo__keep_name(wanted_name, env->name);
    if (name && strcmp(name, wanted_name) != 0)
        return ppo__file_fail(file->path, "saved with environment \"%.60s\", not \"%.60s\"", name,
                              wanted_name);
    if (!size || strcmp(size, ppo__state_size_text(env, wanted_size)) != 0)
        return ppo__file_fail(file->path, "its environments have a state of %.20s bytes, not %s",
                              size ? size : "no", ppo__state_size_text(env, wanted_size));

    /* before anything is made whose size is not that of an array in the file */
    const ppo_config own = (*agent)->config;
    const int64_t    shape[2] = {own.num_envs, env->obs_size};
    const ppo_array *array;
    double           have = 0, need = ppo__trainer_bytes(env, *agent, &own);
    if (config) status = ppo__check_same(&own, config, fixed);
    else if (ppo_config_check(&own)) status = ppo__file_blame(file);
    if (!status) status = ppo_file_expect(file, "environments.observation", PPO_F32, shape, 2, &array);
    for (int i = 0; i < ppo_file_count(file); ++i) have += (double)ppo_file_at(file, i)->bytes;
    if (!status && !config && need > 256e6 && need > 1024 * have)
        status = ppo__file_fail(file->path,
                                "its settings ask for %.0f bytes: pass a configuration to resume it", need);
    if (!status) status = ppo__trainer_make(env, config ? config : &own, *agent, trainer);
    if (status) return status;

    ppo_trainer    *made = *trainer;
    ppo__envs      *envs = &made->collector.envs;
    ppo__checkpoint kept = {made, {0}, 0};
    status = ppo__carry_trainer(file, PPO__LOAD, &kept);
    if (status) return status;
    ppo__envs_guard(envs);
    if (!ppo__adapts_kl(&made->config)) made->kl_coef = made->config.kl_coef;
    for (int e = 0; envs->env.open && !made->collector.fresh && e < envs->count && !status; ++e)
        status = ppo__replay(file, envs, e);
    return status;
}

PPO_DEF ppo_status ppo_trainer_resume(const char *path, const ppo_env *env, const ppo_config *config,
                                      ppo_agent **agent, ppo_trainer **trainer) {
    ppo_file *file = NULL;
    if (agent) *agent = NULL;
    if (trainer) *trainer = NULL;
    if (!ppo__given("ppo_trainer_resume", path && agent && trainer)) return PPO_ERROR_ARGUMENT;
    ppo_status status = ppo_env_check(env);
    if (!status) status = ppo_file_read(path, &file);
    if (!status) status = ppo__resume(file, env, config, agent, trainer);
    ppo_file_free(file);
    if (status) {
        ppo_trainer_free(*trainer);
        ppo_agent_free(*agent);
        *trainer = NULL;
        *agent = NULL;
    }
    return status;
}

/* -- a policy as C source. tanh is a polynomial below 0.26; tanh(2 x) = 2 tanh(x) / (1 + tanh(x)^2) takes it
   from there. -- */

typedef struct ppo__export {
    const ppo_agent *agent;
    const char      *name;
    FILE            *out;
} ppo__export;

/* Prints source text, with the policy's name for each "@". */
static PPO__PRINTF(2, 3) void ppo__export_text(const ppo__export *x, const char *format, ...) {
    char    text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (const char *c = text; *c; ++c)
        if (*c == '@') fputs(x->name, x->out);
        else fputc(*c, x->out);
}

typedef struct ppo__constant {
    char text[32];
} ppo__constant;

/* A float as C spells it, in nine digits, which read back as the same float. */
static ppo__constant ppo__c_float(double number) {
    ppo__constant constant;
    snprintf(constant.text, sizeof constant.text, "%.8e", number);
    strcat(ppo__with_point(constant.text), "f");
    return constant;
}

/* "actor.0.weight" becomes NAME_actor_0_weight. */
static ppo_status ppo__export_floats(const ppo__export *x, const char *array, const float *data, size_t n) {
    char name[128];
    snprintf(name, sizeof name, "%s", array);
    for (char *c = name; *c; ++c) *c = *c == '.' ? '_' : *c;
    ppo__export_text(x, "static const float @_%s[%lu] = {", name, (unsigned long)n);
    for (size_t i = 0; i < n; ++i) {
        if (!ppo__finite(data[i]))
            return ppo_fail(PPO_ERROR_NUMERIC, "ppo_export_c: a number of %s is not finite", array);
        fprintf(x->out, "%s%s,", i % 6 == 0 ? "\n    " : " ", ppo__c_float((double)data[i]).text);
    }
    ppo__export_text(x, "\n};\n\n");
    return PPO_OK;
}

/* 1 for the weights and biases that ppo__export_forward() makes use of. */
static int ppo__export_uses(const ppo_actor_critic *model, const ppo_tensor *tensor) {
    const ppo_gru *core = &model->core;
    for (int k = 0; k < PPO_MAX_LAYERS; ++k)
        if (tensor == model->trunk.weight[k] || tensor == model->trunk.bias[k] ||
            tensor == model->actor.weight[k] || tensor == model->actor.bias[k])
            return 1;
    return tensor == core->input_weight || tensor == core->input_bias || tensor == core->state_weight ||
           tensor == core->state_bias;
}

/* Weights; of the observations' statistics the mean, what rounding it to a float leaves out, the factor. */
static ppo_status ppo__export_arrays(const ppo__export *x) {
    const ppo_params     *params = x->agent->model.params;
    const ppo_normalizer *norm = &x->agent->obs_norm;
    const char *const     names[] = {"obs_mean", "obs_rest", "obs_scale"};
    size_t                n = (size_t)norm->size;
    ppo_status            status = PPO_OK;
    for (int i = 0; i < params->tensor_count && !status; ++i) {
        const char *name = params->names[i];
        if (strncmp(name, "critic.", 7) == 0 || strcmp(name, "actor.log_std") == 0) continue;
        if (!ppo__export_uses(&x->agent->model, params->tensors[i]))
            return ppo__refuse("ppo_export_c: does not know the parameter \"%.100s\"", name);
        status = ppo__export_floats(x, name, params->tensors[i]->data, ppo__size(params->tensors[i]));
    }
    float *numbers = (float *)ppo__alloc(n * sizeof(float));
    if (!numbers) return PPO_ERROR_MEMORY;
    for (int k = 0; k < 3 && n && !status; ++k) {
        for (size_t j = 0; j < n; ++j) {
            float mean = fabs(norm->mean[j]) <= FLT_MAX ? (float)norm->mean[j] : INFINITY;
            float scale = (float)(1 / sqrt(norm->var[j] + 1e-8));
            numbers[j] = k == 0 ? mean : k == 1 ? (float)(norm->mean[j] - (double)mean) : scale;
        }
        status = ppo__export_floats(x, names[k], numbers, n);
    }
    ppo__free(numbers);
    return status;
}

static const char ppo__export_functions[] =
    "static inline float @_tanh(float x) {\n"
    "    int   doublings = 0;\n"
    "    float square, t;\n"
    "    if (x > 9.0f) return 1.0f;\n"
    "    if (x < -9.0f) return -1.0f;\n"
    "    for (; x > 0.26f || x < -0.26f; ++doublings) x *= 0.5f;\n"
    "    square = x * x;\n"
    "    t = x + x * square * (-0.333332151f + square * (0.133226871f - 0.0512248948f * square));\n"
    "    for (; doublings > 0; --doublings) t = 2.0f * t / (1.0f + t * t);\n"
    "    return t;\n"
    "}\n\n"
    "/* y [cols] = x [rows] w + b; activation 0: none, 1: tanh, 2: relu */\n"
    "static inline void @_linear(const float *x, const float *w, const float *b, int rows, int cols, int "
    "activation,\n"
    "                            float *y) {\n"
    "    int i, j;\n"
    "    for (j = 0; j < cols; ++j) y[j] = b[j];\n"
    "    for (i = 0; i < rows; ++i) {\n"
    "        for (j = 0; j < cols; ++j) y[j] += x[i] * w[i * cols + j];\n"
    "    }\n"
    "    for (j = 0; j < cols && activation == 1; ++j) y[j] = @_tanh(y[j]);\n"
    "    for (j = 0; j < cols && activation == 2; ++j) y[j] = y[j] > 0.0f ? y[j] : 0.0f;\n"
    "}\n\n";

static const char ppo__export_gru[] =
    "/* updates state [width] by one step: gated recurrent units */\n"
    "static inline void @_recur(const float *x, int in, float *state) {\n"
    "    float a[3 * @_STATE], b[3 * @_STATE];\n"
    "    int   j;\n"
    "    @_linear(x, @_core_input_weight, @_core_input_bias, in, 3 * @_STATE, 0, a);\n"
    "    @_linear(state, @_core_state_weight, @_core_state_bias, @_STATE, 3 * @_STATE, 0, b);\n"
    "    for (j = 0; j < @_STATE; ++j) {\n"
    "        float r = 0.5f * @_tanh(0.5f * (a[j] + b[j])) + 0.5f;\n"
    "        float z = 0.5f * @_tanh(0.5f * (a[@_STATE + j] + b[@_STATE + j])) + 0.5f;\n"
    "        float n = @_tanh(a[2 * @_STATE + j] + r * b[2 * @_STATE + j]);\n"
    "        state[j] = (1.0f - z) * n + z * state[j];\n"
    "    }\n"
    "}\n\n";

/* One line per layer; values go from one of two buffers to the other, the last layer's to output. */
static ppo_status ppo__export_forward(const ppo__export *x) {
    const ppo_actor_critic *model = &x->agent->model;
    const ppo_mlp *const    parts[] = {&model->trunk, &model->actor};
    const char *const       names[] = {"trunk", "actor"};
    const ppo__space_kind  *kind = ppo__kind(&model->action_space);
    const ppo__constant     limit = ppo__c_float((double)x->agent->clip_obs);
    const char             *from = "even", *l = limit.text;
    int                     recurrent = model->core.width, widest = model->obs_size;
    for (int p = 0; p < 2; ++p)
        for (int k = 0; k < parts[p]->layers; ++k)
            if (parts[p]->weight[k]->cols > widest) widest = parts[p]->weight[k]->cols;
    ppo__export_text(x, "%s%s", ppo__export_functions, recurrent ? ppo__export_gru : "");
    ppo__export_text(x,
                     "/* output [%d]: %s */\n"
                     "static inline void @_forward(const float *obs, %sfloat *output) {\n"
                     "    float even[%d], odd[%d];\n"
                     "    int   j;\n"
                     "    for (j = 0; j < @_OBS; ++j) even[j] = obs[j];\n",
                     ppo__space_outputs(&model->action_space),
                     kind->continuous ? "the mean, before the box" : "logits",
                     recurrent ? "float *state, " : "", widest, widest);
    if (x->agent->obs_norm.size)
        ppo__export_text(x,
                         "    for (j = 0; j < @_OBS; ++j) {\n"
                         "        even[j] = (obs[j] - @_obs_mean[j] - @_obs_rest[j]) * @_obs_scale[j];\n"
                         "        even[j] = even[j] > %s ? %s : even[j] < -%s ? -%s : even[j];\n"
                         "    }\n",
                         l, l, l, l);
    for (int p = 0; p < 2; ++p) { /* the core is between the two */
        if (p == 1 && recurrent) {
            ppo__export_text(x, "    @_recur(%s, %d, state);\n", from, model->core.input_weight->rows);
            from = "state";
        }
        for (int k = 0; k < parts[p]->layers; ++k) {
            const ppo_tensor *weight = parts[p]->weight[k];
            int               last = k == parts[p]->layers - 1;
            const char       *to = last && p == 1 ? "output" : strcmp(from, "even") == 0 ? "odd" : "even";
            const int         activation = last ? parts[p]->last_activation : parts[p]->hidden_activation;
            if (activation > PPO_RELU)
                return ppo__refuse("ppo_export_c: does not know the activation %s",
                                   ppo__activations[activation].name);
            ppo__export_text(x, "    @_linear(%s, @_%s_%d_weight, @_%s_%d_bias, %d, %d, %d, %s);\n", from,
                             names[p], k, names[p], k, weight->rows, weight->cols, activation, to);
            from = to;
        }
    }
    ppo__export_text(x, "    (void)odd;\n}\n\n");
    return PPO_OK;
}

/* The most likely action: of a box the mean, within it; else the largest logit of each choice. */
static void ppo__export_predict(const ppo__export *x) {
    const ppo_space    *space = &x->agent->model.action_space;
    const ppo__constant low = ppo__c_float((double)space->low), high = ppo__c_float((double)space->high);
    const ppo__constant half = ppo__c_float(0.5 * ((double)space->high - (double)space->low));
    int                 heads, outputs = ppo__space_outputs(space), recurrent = x->agent->model.core.width;
    const int          *sizes = ppo__space_heads(space, &heads);
    const char         *state = recurrent ? ", float *state" : "", *pass = recurrent ? "state, " : "";
    if (ppo__kind(space)->continuous) {
        ppo__export_text(x,
                         "/* action [%d], within [%s, %s] */\n"
                         "static inline void @_predict(const float *obs%s, float *action) {\n"
                         "    int j;\n"
                         "    @_forward(obs, %saction);\n"
                         "    for (j = 0; j < %d; ++j) {\n",
                         space->n, low.text, high.text, state, pass, space->n);
        if (x->agent->model.squash)
            ppo__export_text(x, "        action[j] = %s + %s * (@_tanh(action[j]) + 1.0f);\n", low.text,
                             half.text);
        if (ppo__finite(space->low))
            ppo__export_text(x, "        if (action[j] < %s) action[j] = %s;\n", low.text, low.text);
        if (ppo__finite(space->high))
            ppo__export_text(x, "        if (action[j] > %s) action[j] = %s;\n", high.text, high.text);
        ppo__export_text(x, "    }\n}\n\n");
        return;
    }
    const int one = space->kind == PPO_DISCRETE;
    ppo__export_text(x,
                     "/* the index of the largest of n */\n"
                     "static inline int @_largest(const float *logit, int n) {\n"
                     "    int j, best = 0;\n"
                     "    for (j = 1; j < n; ++j) best = logit[j] > logit[best] ? j : best;\n"
                     "    return best;\n"
                     "}\n\n"
                     "/* the most likely %s%d%s */\n"
                     "static inline %s @_predict(const float *obs%s%s) {\n"
                     "    float logit[%d];\n"
                     "    @_forward(obs, %slogit);\n",
                     one ? "action, 0 .. " : "choices [", one ? outputs - 1 : heads, one ? "" : "]",
                     one ? "int" : "void", state, one ? "" : ", int *choices", outputs, pass);
    for (int h = 0, at = 0; h < heads; at += sizes[h++]) {
        if (!one) ppo__export_text(x, "    choices[%d] = ", h);
        ppo__export_text(x, "%s@_largest(logit + %d, %d);\n", one ? "    return " : "", at, sizes[h]);
    }
    ppo__export_text(x, "}\n\n");
}

static ppo_status ppo__export_all(FILE *out, const char *path, void *user) {
    ppo__export *x = (ppo__export *)user;
    char         name[64];
    x->out = out;
    snprintf(name, sizeof name, "%s", x->agent->environment);
    for (char *c = name; *c; ++c) /* nothing that ends a comment, a line or more */
        if (!isalnum((unsigned char)*c) && !strchr(" -_.,:()", *c)) *c = '_';
    ppo__export_text(
        x,
        "/* A policy%s%s, written by ppo.h. Include it where it is used; it needs nothing else.\n"
        "   The observation is that of the environment, unscaled. */\n"
        "#ifndef @_INCLUDED\n#define @_INCLUDED\n\nenum { @_OBS = %d",
        name[0] ? " for " : "", name, x->agent->model.obs_size);
    if (x->agent->model.core.width) ppo__export_text(x, ", @_STATE = %d", x->agent->model.core.width);
    ppo__export_text(x, " };\n\n");
    ppo_status status = ppo__export_arrays(x);
    if (!status) status = ppo__export_forward(x);
    if (status) return status;
    ppo__export_predict(x);
    ppo__export_text(x, "#endif\n");
    return PPO_OK;
}

PPO_DEF ppo_status ppo_export_c(const ppo_agent *agent, const char *name, const char *path) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    if (!ppo__given("ppo_export_c", agent && name && path)) return PPO_ERROR_ARGUMENT;
    size_t length = strlen(name);
    if (!length || length > 60 || strspn(name, letters) != length || strchr("_0123456789", *name))
        return ppo__refuse(
            "ppo_export_c: invalid name \"%.60s\": 1 to 60 letters, digits and _, a letter first", name);
    ppo__export export_ = {agent, name, NULL};
    return ppo__write_file(path, ppo__export_all, &export_);
}

#endif /* PPO_NO_CONTROL */

/* ========================================================================================================
   @@ LANGUAGE
   ======================================================================================================== */

#ifndef PPO_NO_LANGUAGE

/* --------------------------------------------------------------------------------------------------------
   @@ 17 Tokens and tokenizers

   A tokenizer is made of units: code points, or merges, each of which joins a pair of tokens. Training finds
   the units, files hold them, and ppo__tokenizer_make() derives from them what encoding and decoding look up.
   Byte-pair encoding splits a text into words and joins pairs of tokens within each.

   What happens to a text before is a list of steps, through which ppo__encode_from() goes piece by piece:
   added tokens are found, the rest is rewritten, and cut. A tokenizer.json fills the list from its parts. To
   read another part: a branch of ppo__tokfile_normalizer() or ppo__tokfile_cutter(); another expression: a row
   of ppo__tokfile_words.
   -------------------------------------------------------------------------------------------------------- */

/* A block of memory: this, then the arrays start, prompt, token and given. */
struct ppo__token_memory {
    int sequences, tokens; /* room for these numbers of them */
    int marked;            /* 1: given is in use */
};

static void ppo__tokens_point(ppo_tokens *tokens) {
    tokens->start = (int *)(tokens->memory + 1);
    tokens->prompt = tokens->start + tokens->memory->sequences + 1;
    tokens->token = tokens->prompt + tokens->memory->sequences;
    tokens->given = tokens->memory->marked ? (unsigned char *)(tokens->token + tokens->memory->tokens) : NULL;
}

/* Twice `need`, which is at most INT_MAX, where `room` is less. */
static int ppo__more_room(int room, int need) {
    return need <= room ? room : need < INT_MAX / 2 ? 2 * need : INT_MAX;
}

PPO_DEF ppo_status ppo_tokens_add(ppo_tokens *tokens, const int *token, int n, int prompt) {
    if (!ppo__given("ppo_tokens_add", tokens && (token || n <= 0))) return PPO_ERROR_ARGUMENT;
    struct ppo__token_memory *old = tokens->memory;
    if (n <= 0 || prompt < 0 || prompt > n)
        return ppo__refuse("ppo_tokens_add: %d tokens, %d of them given", n, prompt);
    if (!old && (tokens->count || tokens->start || tokens->prompt || tokens->token))
        return ppo__refuse("ppo_tokens_add: the arrays are not the library's");
    ppo_tokens was = *tokens, now;
    if (old) ppo__tokens_point(&was);
    int count = was.count, end = old ? was.start[count] : 0;
    if (end > INT_MAX - n) return ppo__refuse("ppo_tokens_add: too many tokens");
    now = was;
    if (!old || count == old->sequences || n > old->tokens - end) {
        struct ppo__token_memory room = {ppo__more_room(old ? old->sequences : 0, count + 1),
                                         ppo__more_room(old ? old->tokens : 0, end + n), old && old->marked};
        size_t                   ints = 2 * (size_t)room.sequences + 1 + (size_t)room.tokens;
        size_t                   size = sizeof room + ints * sizeof(int) + (size_t)room.tokens;
        now.memory = (struct ppo__token_memory *)ppo__alloc_uncleared(size);
        if (!now.memory) return PPO_ERROR_MEMORY;
        *now.memory = room;
        ppo__tokens_point(&now);
        now.start[0] = 0;
        if (old) memcpy(now.start, was.start, ((size_t)count + 1) * sizeof(int));
        if (old) memcpy(now.prompt, was.prompt, count * sizeof(int));
        if (old) memcpy(now.token, was.token, end * sizeof(int));
        if (now.given) memcpy(now.given, was.given, end);
    }
    memcpy(now.token + end, token, n * sizeof(int)); /* which may lie in the old block */
    if (now.given) memset(now.given + end, 0, n);
    now.prompt[count] = prompt;
    now.start[++now.count] = end + n;
    if (now.memory != old) ppo__free(old);
    *tokens = now;
    return PPO_OK;
}

PPO_DEF ppo_status ppo_tokens_mark_given(ppo_tokens *tokens, int first, int n) {
    if (!ppo__given("ppo_tokens_mark_given", tokens != NULL)) return PPO_ERROR_ARGUMENT;
    if (!tokens->memory || !tokens->count)
        return ppo__refuse("ppo_tokens_mark_given: the arrays are not the library's, or hold no sequence");
    int start = tokens->start[tokens->count - 1], end = tokens->start[tokens->count];
    if (first < 0 || n < 0 || first > end - start || n > end - start - first)
        return ppo__refuse("ppo_tokens_mark_given: tokens %d and %d further ones, of %d", first, n,
                           end - start);
    int marked = tokens->memory->marked;
    tokens->memory->marked = 1;
    ppo__tokens_point(tokens);
    if (!marked) memset(tokens->given, 0, end);
    memset(tokens->given + start + first, 1, n);
    return PPO_OK;
}

PPO_DEF ppo_status ppo_tokens_add_from(ppo_tokens *tokens, const ppo_tokens *from, int s) {
    if (!ppo__given("ppo_tokens_add_from", tokens && from)) return PPO_ERROR_ARGUMENT;
    if (s < 0 || s >= from->count)
        return ppo__refuse("ppo_tokens_add_from: there is no sequence %d in %d", s, from->count);
    int        at = from->start[s], n = from->start[s + 1] - at;
    ppo_status status = ppo_tokens_add(tokens, from->token + at, n, from->prompt ? from->prompt[s] : 0);
    for (int i = 0; i < n && from->given && !status; ++i)
        if (from->given[at + i]) status = ppo_tokens_mark_given(tokens, i, 1);
    return status;
}

/* Adds `count` sequences of n tokens 0, to have the memory. */
static ppo_status ppo__tokens_fill(ppo_tokens *tokens, int count, int n) {
    int       *zeros = (int *)ppo__alloc(n * sizeof(int));
    ppo_status status = zeros ? PPO_OK : PPO_ERROR_MEMORY;
    for (int i = 0; i < count && !status; ++i) status = ppo_tokens_add(tokens, zeros, n, 1);
    ppo__free(zeros);
    return status;
}

PPO_DEF void ppo_tokens_clear(ppo_tokens *tokens) {
    if (!tokens || !tokens->memory) return;
    tokens->count = tokens->memory->marked = 0;
    tokens->given = NULL;
}

PPO_DEF PPO__NOINLINE void ppo_tokens_free(ppo_tokens *tokens) {
    if (!tokens || !tokens->memory) return;
    ppo__free(tokens->memory);
    memset(tokens, 0, sizeof *tokens);
}

/* -- an array that grows, a map, a queue. An arena remembers what failed: ppo__arena_status() -- */

/* A map from keys to numbers >= 0: a table with open addressing, at most half full. */
typedef struct ppo__bucket {
    uint64_t key;
    int      value; /* plus 1; 0: the bucket is empty */
} ppo__bucket;

typedef struct ppo__map {
    ppo__bucket *buckets;
    size_t       room, count; /* buckets, a power of two; number of keys */
} ppo__map;

/* The bucket of a key, or that in which it belongs. The factor (Knuth 1973, 6.4) spreads the keys. */
static ppo__bucket *ppo__map_bucket(const ppo__map *map, uint64_t key) {
    size_t at = (size_t)(key * 0x9e3779b97f4a7c15u >> 32);
    for (;; ++at) {
        ppo__bucket *bucket = &map->buckets[at & (map->room - 1)];
        if (!bucket->value || bucket->key == key) return bucket;
    }
}

/* The value, or -1. */
static int ppo__map_find(const ppo__map *map, uint64_t key) {
    return map->room ? ppo__map_bucket(map, key)->value - 1 : -1;
}

static void ppo__map_put(ppo__map *map, ppo__arena *memory, uint64_t key, int value) {
    if (2 * map->count >= map->room) {
        ppo__map grown = {NULL, map->room ? 2 * map->room : 64, map->count};
        grown.buckets = PPO__ZEROS(memory, ppo__bucket, grown.room);
        if (!grown.buckets) return;
        for (size_t i = 0; i < map->room; ++i)
            if (map->buckets[i].value) *ppo__map_bucket(&grown, map->buckets[i].key) = map->buckets[i];
        *map = grown;
    }
    ppo__bucket *bucket = ppo__map_bucket(map, key);
    map->count += !bucket->value;
    bucket->key = key;
    bucket->value = value + 1;
}

/* A queue that returns the smallest number first: a binary heap. */
static void ppo__queue_push(ppo__arena *memory, uint64_t **queue, uint64_t number) {
    if (PPO__PUSH(*queue, number)) memory->failed = PPO_ERROR_MEMORY;
    if (memory->failed) return;
    uint64_t *heap = *queue;
    size_t    at = stbds_arrlenu(heap) - 1;
    for (; at && heap[(at - 1) / 2] > number; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
    heap[at] = number;
}

static uint64_t ppo__queue_pop(uint64_t *heap) {
    size_t   n = --stbds_header(heap)->length, at = 0;
    uint64_t first = heap[0], last = heap[n];
    for (size_t child = 1; child < n; child = 2 * at + 1) {
        child += child + 1 < n && heap[child + 1] < heap[child];
        if (heap[child] >= last) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return first;
}

/* -- kinds of characters, and the words that the expressions of GPT-2 and of cl100k match -- */

enum { PPO__OTHER, PPO__LETTER, PPO__NUMBER, PPO__SPACE, PPO__MARK, PPO__CODES = 0x110000 };

/* The categories L, N and M and the property White_Space of Unicode 16: runs of characters, each the number 5
   times its length plus the kind. Made by tests/golden/make_unicode.py. */
static const char ppo__unicode_kinds[] =
    "$hy%se%d$o$^&z{&z$me&ye$hc$^ibcldcbnb&kb'qb$-jq$x%_w$^cbc%n3qwbhgrbc{cbmbcb%~b/eb7mb$b;lb(rgc{)_$c)vbfbk"
    "bkbf$c']qr'f$vv)i&d$oqhf1qbc$bg$]hkbuh$omgc%icf'l'`g0a$vc%_$o'{$lhqcgfg&fuc$lcpcz%s&upq$sv&pb|$c$l)d&sb'"
    "~*~pc%wc$b$nkg$ob%jpb$dghg&fb$_bclrgfc$bgkgpc$cfqhbmkg$ohg}gcbfgpb|qhg&fb$_bhbhbhgfbzqkgplf$^rbc$^$okmf$"
    "rpb$ibmb&fb$_bhbwgfc$gbpbpgc%dhkg$o$hc$]bpb$dghg&fb$_bhbwgfc$bgkgp$^pqhbmkg$obc}$mfcb|lmbrlhbcbhlhlml$xq"
    "zlpbugc{f%_$~$|z$dbmb&kb%jgfc$bbpbu$^kbmgcghkg$o$c$`bcpb$dbmb&kb$nbwgfc$bbpbu$^k{hbhkg$obhf$wu$ibmb)_kc$"
    "bbpbucvmf$`mkg%zb|bpb%tl&pb$ibcg$_lfq$]bfb$g{$ogk$|*`fh$bv$_$gb$o(vhbcbwb&pbcb$nfh$lcgwbcb$bb$ogr'uc&jk{"
    "&]bfbfbfqk$db(hq&_bkw$vb(k$hf+j)i&_c$o{|urpcph$bmu$}${cf$oug(rbcvcg)ibT]brg$_bcbrg)_brg'{brg$_bcbrg%eb+k"
    "brg,{gp$h&]l%j%i/tg|l$Edg%oe&zv._ln$d$^%tu$h%yp$r%tk$w$}bmbk$w*t'ylcqcfg$o{$o%npbf$o{0a$^wk(^fcv-h$m'qb$"
    "{q${$m$o'lgw$r)nq&z{$t(l&kzq*y$qb'jgf$o{$o$|c$c't*dz)}%r$dl$o%n$l$wp'l%^h$o)n%c$w(h&_$c$olm$o(hg$sv)igm%"
    "ipb&drf|fhpcv?f,oK|g|g(rg|g$dbcbcbcb'qg*yb$_bclmb$_lrg|q$}vmb$_l$u'fjve)|e%idcg}vc$o{$}*n'~%ncqcg$nbclw{"
    "cbcbcbrb$sgrvwqcb*phx$Tw+{.m&g$Fs'm%WmDu{rph$hdg(rbcvcg+f$^c%df&k$h$_b$_b$_b$_b$_b$_b$_b$_b'y)|c$.eeqhd&"
    "t$j$]bwgnhq/tgkgmb0fbrv)ib0zls$m'v*_%j'u$o'k$eb%f'u$o(v%fR_4#l,k$#,k,z)xgJql%j$oh%})}ub$qb'qk-h$ok(l$ig2"
    "cg,{ghbcb$d&`%jfmfrf&kzqfl}$m*t$wk*j%w$m$o{%w|lcbhf$o'b$gg&k%^$w'glu)}%c%_c$o{wf$n$owb)_%c$hmf$dkg$o{&kl"
    "cp*jfcphkwkcfc&omg$szgmk$m|g|g|$h$_b$_b)ib%`{3}$gbkg$o{?Q~$w&kq*e8P}Xzg2r(q$_$wwvcf$nb$}bwbcbhbhb2|'zXk%"
    "s,lg*~({$xq%m%i%m,kwb6{%x$o$^&z{&z$r0al|g|g|gm(b$xb&zb%ybhb%eg%`(]5a$w)t$w+l%ni3rf6a'gl*e%df'^q'vs$h%~d$"
    "ddv(rzv'lg(hq$dbx)c:fg$o{(hq(hq(|$c*t$w$sb%eb$_bhb$sb%eb$_bhl*t$wPw$h&f$m$d&o|b)db$i-b|gcb)nbhlcg&kg$e&k"
    "g$`'q$c$j*_%ybhvx&f}q&z-g+fqih%kg)ycpbkvurbmb'ggpqf$j&j'gib'gn'u$db'bkqx%i*~$m&fg$e%yv$e%t&j$`.w-w+`*o$|"
    "*o$^}(hu$c$o{$o'blzb&kC_'rb)dbklh%im+`u'g$oc$c&f$vs&~%tu)c&a$`%}&k$hp*y%h$r'mfhkc$hu)s$v$^f$|&u$^$o{p(h%"
    "cb$oqckc$c(cfgc$hp*`%crqubk$ocbcq&]$r%tb&u${{fhf,a$_bcbrb%eb$n$^)}${v$o{ub$dghg&fb$_bhbwbkc$bgkgpgc{fvwk"
    "g$blz$r$nbcgcb(rbc$lbfgfbubzcfc$|k'f*y%wrv$oqfm'k*`&_hbc$c$o;k)}$bg$l&jrk(]*`%rlc$r$o(q)i%^c$^$o{&]'a']g"
    "%hq$yq$_>d)n%h1z,l%z$w$dgcg$dbhb&p$]bkgucfck$w$o-g$dg(w$bg$bcbcf&~c$q(|$bcu$cf$cc$v)x%mlc%s-w@f'{%d$o{$i"
    "b(m$gb$gc%d'hv'lg&ib%c-v$_bhb(r$]lfbkb$bcf$c$o{|bhb'vzbkbzc$^$oPq%yu$hkcf$}b(^$blz$|$of/nc%d&b)h%8r2]3j%"
    "n?z)Ps1g%d%Nt%if|%h$m-4ov$?w4H^'l%w$o'>]$=u$^'qb$o{.sb$o{'lgz$r*`$b$hr$w$ob$`b&av%y$)o)sl$o@a,l&l2l._qfc"
    "+d$^u$},khbcf$rk%_2Rj$c&.`)^$n:%~rb$_bhbMy%dc'fmgc%_r$c$$f(Yk2wv$}l$i$^$nlk-Of$o$6c){g&n$9uzl$]$c$gg$b'k"
    "u8wp5`&]$w&]2{&v6z/ob-mbhgcghgrb$xbcb$_b,qbrg$db$_b'bbrbwbcl$_bU^g&ub&ub'qb&ub'qb&ub'qb&ub'qb&ub$dg*k$5g"
    "+dq*m$cf%_f&ezb%h%Si'q{|Bh$bb%rg$bbkbzv,b'zf3m)sl$b$_g$oqcRd'lf%n)nu$o$/a'bu$oBm'lkc$o$1h$_brbhb%eb@]g$j"
    "$b)^-^$bcq$o%%h+vbnbs.c)tb%f?orb']bhbcgcb$nbrbcbc{cqcbcbcbmbhbcgcbcbcbcbcbhbcgrb$_brbrbcb$nb%ovmbwb%o$?g"
    "$~*-z$o%Hm$X/j'u-K|{Ctg1Tj%_63]%d$En)7s$9v&Um/Miv-QnC/[eFk";

/* Takes a number from such a table: digits of 57 values, from '#', and a last one of 34, from ']'. */
static int32_t ppo__table_number(const char **at) {
    int32_t n = 0;
    for (; **at < ']'; ++*at) n = n * 57 + (**at - '#');
    return n * 34 + (*(*at)++ - ']');
}

/* The characters that NFC changes or makes, ascending. Each is: the distance from the first part of the last one to its
   own, or to what it becomes (2 d, or -2 d - 1 if it is negative), times 2, plus 1 if another step follows; the step: 3
   times the distance to the last character, plus 1 if it is only taken apart, or 2 if it becomes a single other one; if
   it does not, the distance between the second parts. Of the Unicode that Hugging Face's tokenizers have (about 9), as
   are the classes: runs of characters whose combining class is not 0, each the distance to the end of the previous run,
   the length, the class. */
static const char *const ppo__unicode_parts[] = {
    "*t3}Pc^`_]_]_]g]afc$uf`%f]_]_]iml]_]_]ircfb`b]_]_]_]gvfl^`_]_]imj~f^^`_]_]_]g]afc$uf`%f]_]_]iml]_]_]ircf"
    "b`b]_]_]_]gvfl^`_]_]imj^ck)p`d&w]&ua&w]&u%]&w]&m%f&w]&u_&w]&ug&w]&ug&w]&q]&w]&rfl&x`]&ua&w]&u_&w]&u$}&w]"
    "&u$r&w]&mp&w]&ue&w]&u_&w]&u${&w]&q%b&w]&rf_&x`]&u_&w]&ua&w]&u%]&w]&u$|bif&x`]&q%c&w]&rc%d&x`]&u%e&w]&u$p"
    "&w]&nlr&x`]&u%e&w]&u$p&w]&ril&x`]&ua&w]&ug&w]&jfp&x`]&u%e&w]&u$p&w]&qr&w]&u_&w]&u%c&w]&u$p&w]&q$q&w]&u$p"
    "&w]&rfn&x`]&u_&w]&ua&w]&ue&w]&u_&w]&u$u&w]&m%d&w]&m]&w]&uiaj&w]&ui&w]&ug&w](^&]{&x`]&^$e]&x`])`%pz&x`]%w"
    "]&w]&]]&w]&]]&w]/al&w]&ub&w]&us&w]&ut&w])pce&x`]H{]a]Lm]&w]5tfm&x`]&e]&w]&e$s&w]Oq%`a])_m<w]$*{]'`ir&x`]"
    "%|f^&x`]-e_&w]&q]&w]$q]&w]8my&w]&ua&w]&e`&w]&ua&w]&e`&w]&ua&w]&]`&w]&ua&w]&i`&w]&ua&w]&i`&w]&ua&w]&}$e&w"
    "]&q]&w](bf$n&x`]'prf&x`]&e${&w]0g%^&w]&y]&w]6mc&w]Wqba]Ze]&w]$Dj:xbb%be$7`ab-p'g$5^}$1nr]$At`]1rbn`]e]e]"
    "vc]u]n`]&{](v%gk$l`]$kjm]e]e]%a]%`%gk$l`]sju]m]$`l]^`k*|&{l^`mdcj$nik%jljd`^$gi$f~]&x%y]h%^h^`mdcj'bik&f"
    "ljd`^$gi(x%aob`].b)on&x`]'l$e]&x`]&ua&w]&bf`&x`]6dfab`]9{]&w]&q]&w]&rfd&x`]&ue&w]&]]&w]7^f]b`]9_]&w]'{d&"
    "w]&ue&w]&uc&w]&eb&w]&ff]&x`][^=dTq^`_&{]&y_'a^3j0q]%hc]%^$n]$0jWwNw~u]jf]&n&d]ba]a]q]q]a]$_]m]4|,o*s^`$m"
    "'l$l$pba]$pd]2l*l*ovg]&~&a]ba]q]$xg]Dl7s3q^f$j^`$m'l$l$pba]0d'z,a)b'w$lb`]_$m2`-}*m1f-q*mzr]^`_^c$bn`$a1"
    "r.d)cb`]_$m4h/o)w^cgj`fg$eMnBo>w$d|]rm]q]q]&b$c`(x|&|^da*taubd]*vy]&|$r&e$d|]rm]q]q]&b$c`4p,r*a(Mp'4s%W_"
    "fc]e]e]e]ni]'z&r]fc]ff]b`]jc]12f$'z)7h&x`]&q$v&w]&u$s&w]&uy&w].{%x&w]6ai&w]&u$s&w]&uy&w]&up&w]&ui&w]7m%r"
    "a]__a];c%q&w]&uc&w]X_%la][w_&w]&qb&w]&qc&w]&u$s&w]&u$p&w]&u$y&w]&uk&w]&qa&w]/]%v&w]6e]&w]&u%]&w]&uy&w]&q"
    "x&w]2Mc$xa]2Q]%s&w]&ud&w]&q%p&w]&ui&w]&u$s&w]&q$r&w]&u$s&w]&uy&w]&ud&w]/a%p&w]&uk&w]-ela]__a]@u]&w]&ui&w"
    "]&m]&w]&u$s&w]2Pu$xa]2To%s&w]&q%l&w]&u$s&w]>c$ra]q]a]25o]a]2Ue]&w]&u$s&w]&uy&w]&ud&w]&qn&w]&uu&w]&ub&w]?"
    "q%pa]aka]Cof&w]&u${&w]&q%^&w]&u_&w]&uk&w]&u^&w]&u$s&w]&q$r&w]&u_&w]&q^&w]&qf&w]&u$}&w]&uy&w]%_]$k%jiae]A"
    "zcbHjl$s&x`]&u$n&w].kl&w]&u^&w]&uo&w]&uh&w]2Kw^a]2H_^a]_^a]_oa]_ha]2G{ca]3%g$u&w]&u$n&w]&uh&w].{`&w]&u^&"
    "w]&uo&w]&uh&w]2Ms^a]3'sk&w]&u$o&w]&]]&w]&u$n&w].{l&w]&u^&w]&uo&w]&uh&w]2Ny^a]2:s^a]_^a]_oa]_ha]_${a]J]]&"
    "w]&u$n&w]G}la]_^a]_oa]_ha]_${a]Kg%^&w]&u%_&w]&u$n&w]&uh&w]$J~r}^`_1;m$ba]__a]_&ya]1?g%v]_1@c$ba]__a]_&ya"
    "]1<]%v]_1<{$ba]__a]1@vf$_^`_1Aq$ba]__a]1=tf$_^`_1>o$ba]__a]_&ya]1Bi%v]_1Ce$ba]__a]_&ya]1?g%v]_1@c$ba]__a"
    "]_&ya]1D]%v]_1D{$ba]__a]_&ya]1@m%v]_1Ai$ba]__a]1Edf$_^`_1F_$ba]__a]1Atf$_^`_1Bo$ba]__a]_&ya]1Fjc%t1Gi$b]"
    "_]&y1C``%v]_1C}$ba]__a]_&ya]1Gw%v]_1Hs$ba]__a]_&ya]1Gw&z$C`bn`]bbf`]bbf`]bbv`]&lbv`]bbn`]bb18tf'_b`]a]a]"
    "a]a]a]a]a]a]a]a]a]a]a]a]%]]a]a]a]a]a]a]a]a]a]a]a]a]a]a]a](w]a]a]a]a]a]a]a]a]a]a]a]a]a]a]a]1Hm&t]`1Hs&y1H"
    "q]o]rcb1P|`c1Tq&t]`]d+lb^`'_)^e$Arfb32p`c1Hi]$]]$`cb1R``c1V]'^(vbf`]bb^`'_1U]'^]_]&y1P}&n]`%]dzb$~f&{%^`"
    "](u&n]`]dtb2#dc]^`_]&y1V}&n]`ud'nb$b`$a]_m%uu]'k&n]`]d&~bl`$c$Cm$b$^b$Hs33nf'_1Gd`]q]pcb1Ur`c1Zm'^$Ipb$d"
    "`]jb^`'_$?~b3Azhbb1Zz<|$Ojk1jb2Pr,xvf`]f$t]*`%v]n`]c](x't]rl]jf]%z%a]fc]%v%j]zf]e]jc]4[f%^]5%fc]%h~]4[~`"
    "]e]5%m]a]$pf]b`]jf]b`]jr]b`]zf]b`]jf]b`]&d&`]v`]a]e](n'h]b`]%i]a]&xr]b`]a]a];Zl(ibb'4t&%z]%Tp%+y.[ifc]e]"
    "e]e]e]e]e]e]e]e]e]jf]fc]e]zr]^`_jc^^`_jc^^`_jc^^`_jc^^`_)d%^^-f{]$t$e]fc]e]e]e]e]e]e]e]e]e]e]jf]fc]e]zr]"
    "^`_jc^^`_jc^^`_jc^^`_jc^^`_)d%^^+rf]b`]a]a]$hi]SMf$91{6Ldb8%w$&k2Rk40k&#sK#i]H+]@SsBSu$[_'Dk-P{'Qi&BqOqH"
    "k'#q78]$Gg$Zu$D}+H_)Yy'?yJSy%F_/<o&Mo-Em/H_E0u,Ri.C_$Va79s3:k&5_8Rw'9]&6m%Xw2NaE?_$,]Eu,=_&.m&R]%Bw'Qa&-"
    "g-a'#a'U}%0s$6q6Oe?q%-i&1o+%u)&w-9_=9w&1_2@e%-]*<{&8}-Bk(9kCQ{$Tq*0i$[wGi*=kB_/LcFH_;,_;H}$y84a$Wk&2u,Os"
    "(O}8?m&Py4;kC)c*0]%.o-3]$#o5+k7$c8Oy+:g,4g31]&Ts/?u8S}%;u3-u*$]&8a36u6#_5Cw(%e3Sy3@u,9c7<}$<e.g/#e-Oi%Wq"
    "';q&JmD.{Jc%Mi%Uy&Fe(9{'Se2&u%?u%.w)mK1{-Hk%>g5Zw<Sq$Gs0c$8i(Cg$*u$K{%Oe%.k$4u*Oc(9u(Wo$H}E<q3m$)g1Qq/Ia"
    "$#k:-mFg$Ta'5}+My'Go65e'2k%EmY}$1w-6{8o(W_7e,>]%@g,s;mI6]92_/Jo%H_?<m,Jw$0a(Ss,o'Xs%5y')y%7a*Oo)'i*YwA*e"
    "<-_FMe.&y1a%PwKy%TkJo$Fm%<{1;iH>o+Sq>FyH+e)Rk+Um4Ck<,cV{&Eo)%m5?]G){$#c':_()oH_Ku%0s&Nu[](&y'Xc%a'Kq%JcF"
    "M]1@s1&m2Jm$=w,-o+Pw&#w$.u@'i&2y-Fw&Nc-]No(-u$*w1*oC#{>L]<Ue(})Ia%.w0Mk4Ei,4]&9a8:q&Hw*9w)Mc9Co*,w%8o$8j"
    "h*<ve-T~h4Dzb$Wc$3s']y'}2Ly1%{$De&6ve%Do%Obh:db",
    "'.hk$pb(c%9})Oo&(aHAiGy/]Ou&c/y$/c/i.oZo/e$Zm$c%-};}'m.w$Og4g7q$$y%E}6cB_$/c9e$%c%6o7i$g_}uy(sa7}*sHo$,i"
    "%m)qF{4g$#k3m][e%?e2wMu)qSe)e$:u2g&@yDk*_@=u'=W}',+y><lh$Udb,]$#iXg)}Im)]$9k+k+]+q$4i-m4_${Bw:g$Xiy3}+]F"
    "c0{+c2w(i4c*wR_-i)iAqDs6cm)}%-q*sQ]Se$y-e@sJo&3k%T}1i1mIm4o)e=qe7a%]%}-a$aQq$#_B{9]=i5]Iy:k$Mk5m$TqXs+a$"
    "{E})u(e)ig$}+},oO}$+{G}Eu=]%*c/a0o2s'e$k(s$?o%9u&G>qs))i'I:y%7}&{'W'e(C_4Zi'<9e+y9Pf)^.5|%~dc$^$]q^a_%2H"
    "a^]_%2K]r]_]ea]a]a]a]a]a]fd]ba]a]a]a]fd]e]ba]fd]ba]fd]ba]a]a]a]%kbki$c]$_]%=Wr+<_$0Akfc]$d$h]3n.p)kb`]$("
    "vRsBm^`$mNpCj7{^`p^cwA^9e1eb`]$M*r$47kTDuba]yo]_]_]_]_-r*uvba]aoa]__a]MZ^%%Espb$_'$Oo'$-u,c$o+i1a&s,c%w1"
    "V]'5$_'%Tay${%e'%-q'48c2+w'm'%0o'%/g$o$?q$@q$_(6;u(64a$s29q2@e$g(cq2@{2Jie&c%q$ga%]({}$_%}$ce]]'&O{&P?c2"
    "*w%m''0c''.uu%m4{.}${&w)y,{&_*{${&{]%m%a}$wK]B}Ca:e'a%6e&G{Dy'm%}2e6s_1m')Ky')Coq$w%i}*o'*2q*w'**_(o$k,e"
    "3u5Mc$s6%s)i]'*Xu'*I]%m$w$k'+1}'+0my$Mk$J_67a6>m$s,s(}',;_',%q',%{'+Ywg%].{a6Wi6Zq(_%m(c7(e'A<k'A9g7-qii"
    "%i(8Tw(8Nq'-Xc]&T;s5;c]72a'J5w;Vo'NRo$_77k7=])]$c']3]7M{&m7Su'/#}'.V{2cmec(k%i'e$q$g(o%im&_$g*w,{'a1q'/P"
    "s'/Ry*q/u&c.k'/Zc'/Ry-{&e8We94{%m&s'k9/c9Hs&k'15m'1'kCq7o9Qs9Zc:#a'c.[_i.5_.u0O_C*}5Fkmu*c$e'23g'IBq:F]0"
    "u;a)]'2#g'1[c0]?y;$e;)u.k+i9i'2%o'1Xm;Kg;Sq'2T]'2M};Sc;Vw(g&ca'3B_2Ds2Qo'3=o'49o'4,c$s.}7q'u)u)g'u$w$o'3"
    "Ym'4)}@o*k=#s=.sk'4-w'4E}N{'4*u(s'4%}0o&ag=Jm=P_)]s)i&MKs&M9u'4Ne'4C}'51q'4Z_$o&c'6*q'6${%m'6E{=e'6Ea%]>"
    "Xg>[k>Y}]?4_%m%m%i+a?7w?Bk'7Vo'7Sk'8%g'7Xi&Z0{&YW]'9/u%u3m'V*o$k@$a'9<s_'q&_'9?ca](_@(k@0a@.o,k'WSi'::c*"
    "g*o@Ay'XNq':Xk';-a(_';+k-y@ZsA+u$cq'<-sFc]'<>_A'g'[(_'<CeiA<u'[<w'<<wAMsAPgo&k'=Ym'=MwASgB&a)}*{B.{($Um&"
    "s($Tu(%,}'>9}'>E{'>Bs.{$g'?-]+q'?*y'?:o'?8q'$Qc'DRkC,_,oC/cC6c77o'T8a$s>B_$_'$)ai*-sJLwCRws%a<5]<7ke$c'y"
    "'A$o'A$q)q+e+u3c5a'}0cAo1]e${'A%]Gi4q()>wDJue'a'D9g'D0_'AP_(*Fim(*UqE](+=iE3m$k$ge*o&y2w(a4w,m*{&cEKcEU}"
    "&wEUsF'{i'D$q'CO{yF/qF2}O@e(8;u8s(/3y$_FSk,_5m:{'E1a'E&}%q-q-y'E[a$(Z]&?Sa$u)a&@/m&?Mq.w'HCc&c'GVi-}&w'H"
    "4m'H3eDo5ua-wOy&g'I1a'H>_K*uK/}'I,w(80aKE}A+sA7]'J;o<_(:9w}KVo'K?u(;3a(;Cs'KK_]&o'L0m'KSsL%qL.]1y&c*_L4w"
    "(>>_'MDuFo9eM7{&sM@w'O5u(@Ra(@XsBc2k'OBuN#iN*uqy$cy'i'Q)a"};
static const char ppo__unicode_classes[] =
    "9qr)w]^)y]a)m]^)y]^)i]b)m]_(}]a)m]_(}]h)m]b^]a)m]`)w_^)w_^*_]^)w]`)m]`)w]_)m^`)w]a)m]^)w]^)y]_)m]^)w]^)z"
    "]_){]^)z]_){]^)z]j)w+`b)w*x^)m]a)w]^)m]`)w]^)o]^)m]c)w]c)m]_)w]^)m]_)w]^)o]^)u]^)w]^g]^h]^i]^j]^k]^l]^m]"
    "^n]^o]_p]^q]^r]^s^^t^^u]^v^^)w]^)m^^o%ae)w]^{]^|]^}$k^x]^y]^z]^{]^|]^}]^~]^$]]_)w]_)m]b)w]^)m]_)w]^)mm^$"
    "^%~d)w_a)w]^)m]^)w__)w^^)m]_)w]^)m$^^$_{^)w]^)m]_)w]^)m]_)w]`)m]^)w]_)m]^)w]^)m]`)w]^)m]^)w]^)m]^)w]^)m]"
    "^)w]^)m]_)w'ud)w]^)m]^)w$]a)w^f)w^`)w^b)w$f`)m&ok)w^^)m]_)w]^)m]_)w]^)m]`)w]`)m]^x]^y]^z]`)w]^)m]_)w]_)m"
    "]b)w$w^dm^f`^)w]^)m]_)w&^^dm^f&e^dm^f&e^dm^f&e^dm^f&v^f&v^fd^%m]^%t%~^dm^f&v^f&s^f&d_&^]^fja&b&c_&mka&q%"
    "e_)mx^)m^^)m^^)i$r^&x]^&y^^&{ba&y_^&y^_)w]^f^_)w$y^)m&g^d^_f%k^)m8b`)w>{^f|^f'r^fg^)w(~^)u'd^)o]^)w]^)m)"
    "l^)w]^)m%`^fqe)w_^)m$kb)w]c)m]_)w]^)m&m^dl^f$a^)w]^)m]d)w$q_f$u^dh_f$~^d'm`)w^^^]b)m]_)w]a)m]^)w^d^a^)mc"
    "^)w`_)w(y_)w]^)m]d)w]^)m]_)w]^){]^)g]^)m]^(}]$`)wb^)w]^)z]^)m]^)w]^)m8c_)w]_^]a)w]`^]_)wa^)w`_^]^)w]^)m]"
    "^)w]_^]a)m]^)w$Dg`)w'b^f%y})w3g^)k]^)u]^)y]^)o]_)q&`_e2Cc^)wag)w}_)w%i_)w+a^f(p^fxo)w$t`)m$`^f%x^di^f*^^"
    ")w^_)w]^)m__)wb_)w^^)w$o^f*e^f-=e^w9rd)w]d)m]_)w?r^)m)s^)m'jb)wTm^)m^^)w$c^)w]^^]^)ma^f'z^)w]^)mKl^f$s^f"
    "$t^f]^d%^`)w$k_f$y^d%e^ff^d&a^f]^d(e^d]^f%j^dm^fud)w`b)w)^^f`^d&r^f]^d*j^f]^d&u^f&m^f]^d&j^fId^f-9mb^$vd"
    ")w-M|^^%Mk_)i]`^`^)s]b)iee)m_b)w]_)m{a)w'i`)w$Qjd)w^n)w_d)w^_)w^b)w$+`d)m&dc)w]^d";

/* NFC (Unicode Standard Annex 15). A pair of characters is a number, under which the map has the one that they make;
   and with a character, PPO__PARTS has the index of its parts, and PPO__CLASS its combining class, if not 0. */
typedef struct ppo__nfc {
    ppo__map facts;
    int32_t (*parts)[2];
} ppo__nfc;

enum {
    PPO__HANGUL = 0xac00,
    PPO__JAMO_L = 0x1100,
    PPO__JAMO_V = 0x1161,
    PPO__JAMO_T = 0x11a7,
    PPO__PARTS = PPO__CODES,
    PPO__CLASS,
    PPO__NFC_LEAD = 0xcc /* below it all is NFC; the first byte of its UTF-8 */
};

/* Two characters as one number. */
static uint64_t ppo__pair_key(int left, int right) { return (uint64_t)left << 32 | (uint64_t)right; }

static int32_t ppo__signed(int32_t n) { return n % 2 ? -(n + 1) / 2 : n / 2; }

static void ppo__make_nfc(ppo__nfc *nfc, ppo__arena *memory) {
    enum { MOST = 2200 };
    int     n = 0;
    int32_t code = 0, step = 0, last[3] = {0, 0, 0}; /* first parts, single ones, second parts */
    nfc->parts = (int32_t(*)[2])ppo__arena_zeros(memory, MOST, sizeof *nfc->parts);
    if (!nfc->parts) return;
    for (size_t k = 0; k < sizeof ppo__unicode_parts / sizeof *ppo__unicode_parts; ++k)
        for (const char *at = ppo__unicode_parts[k]; *at; ++n) {
            int32_t number = ppo__table_number(&at), *parts = nfc->parts[n];
            if (number % 2) step = ppo__table_number(&at);
            code += step / 3;
            parts[0] = last[step % 3 == 2] += ppo__signed(number / 2);
            if (step % 3 < 2) parts[1] = last[2] += ppo__signed(ppo__table_number(&at));
            ppo__map_put(&nfc->facts, memory, ppo__pair_key(code, PPO__PARTS), n);
            if (step % 3 == 0) ppo__map_put(&nfc->facts, memory, ppo__pair_key(parts[0], parts[1]), code);
        }
    code = 0;
    for (const char *at = ppo__unicode_classes; *at;) {
        code += ppo__table_number(&at);
        int32_t end = code + ppo__table_number(&at), k = ppo__table_number(&at);
        for (; code < end; ++code) ppo__map_put(&nfc->facts, memory, ppo__pair_key(code, PPO__CLASS), k);
    }
}

/* Writes what a character is made of, at most 4 others, and returns how many. */
static int ppo__take_apart(const ppo__nfc *nfc, int32_t code, int32_t out[4]) {
    int32_t hangul = code - PPO__HANGUL;
    int     index = ppo__map_find(&nfc->facts, ppo__pair_key(code, PPO__PARTS));
    if (hangul >= 0 && hangul < 11172) {
        out[0] = PPO__JAMO_L + hangul / 588;
        out[1] = PPO__JAMO_V + hangul / 28 % 21;
        out[2] = PPO__JAMO_T + hangul % 28;
        return hangul % 28 ? 3 : 2;
    }
    if (index < 0) return *out = code, 1;
    int n = ppo__take_apart(nfc, nfc->parts[index][0], out);
    if (nfc->parts[index][1]) out[n++] = nfc->parts[index][1];
    return n;
}

/* The character that two make, or -1. */
static int32_t ppo__put_together(const ppo__nfc *nfc, int32_t first, int32_t second) {
    int l = first - PPO__JAMO_L, v = second - PPO__JAMO_V, t = second - PPO__JAMO_T,
        hangul = first - PPO__HANGUL;
    if (l >= 0 && l < 19 && v >= 0 && v < 21) return PPO__HANGUL + (l * 21 + v) * 28;
    if (hangul >= 0 && hangul < 11172 && hangul % 28 == 0 && t > 0 && t < 28) return first + t;
    return ppo__map_find(&nfc->facts, ppo__pair_key(first, second));
}

static int ppo__by_number(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Writes the NFC of a text to out, which has room for 3 times its bytes, and returns its length. codes: room for 2
   numbers a byte and 4 more, each a class, a place and a character. Bytes that are not UTF-8 stay. */
static size_t ppo__to_nfc(const ppo__nfc *nfc, const char *text, size_t bytes, uint64_t *codes, char *out) {
    size_t count = 0, kept = 0, starter = 0, written = 0, marks = 0;
    int    length, last = INT_MAX; /* the class before, of those that are kept; -1: that of the starter */
    for (size_t at = 0; at < bytes; at += (size_t)length) {
        int32_t code = ppo__utf8_get(text + at, bytes - at, &length), parts[4];
        if (code < 0) code = PPO__CODES + (unsigned char)text[at], length = 1;
        for (int k = 0, n = ppo__take_apart(nfc, code, parts); k < n; ++k, ++count) {
            int rank = ppo__map_find(&nfc->facts, ppo__pair_key(parts[k], PPO__CLASS));
            codes[count] = (uint64_t)(rank < 0 ? 0 : rank) << 56 | (uint64_t)count << 24 | (uint64_t)parts[k];
        }
    }
    for (size_t i = 0; i <= count;
         ++i) { /* each run of marks by their classes; equal ones keep their order */
        if (i < count && codes[i] >> 56 && ++marks) continue;
        if (marks > 1) qsort(codes + i - marks, marks, sizeof *codes, ppo__by_number);
        marks = 0;
    }
    for (size_t i = 0; i < count; ++i) {
        int     rank = (int)(codes[i] >> 56);
        int32_t code = codes[i] & 0xffffff;
        int32_t joined = last < rank ? ppo__put_together(nfc, (int32_t)codes[starter], code) : -1;
        if (joined >= 0) codes[starter] = (uint64_t)joined;
        if (joined >= 0) continue;
        if (!rank) starter = kept, last = -1;
        else if (last != INT_MAX) last = rank;
        codes[kept++] = (uint64_t)code;
    }
    for (size_t i = 0; i < kept; ++i) {
        if (codes[i] >= PPO__CODES) out[written++] = (char)(codes[i] - PPO__CODES);
        else written += (size_t)ppo__utf8_put((int32_t)codes[i], out + written);
    }
    return written;
}

/* How a text is cut into words. */
typedef struct ppo__words {
    int digits; /* 0: by GPT-2's expression; else by cl100k's, with at most this many digits in a word */
    unsigned char *kinds; /* of all characters */
} ppo__words;

/* Kinds, with `mark` as that of marks. Old files count every character above ASCII as a letter. */
static unsigned char *ppo__make_kinds(ppo__arena *memory, int mark, int is_old) {
    unsigned char *kinds = PPO__ZEROS(memory, unsigned char, PPO__CODES), *at = kinds;
    for (const char *table = ppo__unicode_kinds; kinds && *table;) {
        int32_t run = ppo__table_number(&table), kind = run % 5;
        memset(at, kind == PPO__MARK ? mark : kind, (size_t)(run / 5));
        at += run / 5;
    }
    if (kinds && is_old) memset(kinds + 128, PPO__LETTER, PPO__CODES - 128);
    return kinds;
}

/* The kind of the character at the start of `bytes` (> 0) bytes, and its length. A byte that is not UTF-8 is a
   character as U+FFFD. */
static int ppo__kind_at(const ppo__words *words, const unsigned char *at, size_t bytes, size_t *length) {
    *length = 1;
    if (*at < 0x80) return words->kinds[*at];
    int     n;
    int32_t code = ppo__utf8_get((const char *)at, bytes, &n);
    if (code >= 0) *length = (size_t)n;
    return words->kinds[code < 0 ? 0xfffd : code];
}

/* The length of 's, 't, 'm, 'd, 're, 've or 'll at the start of the text; 0: none. cl100k's may be capitals. */
static size_t ppo__ending_length(const unsigned char *at, size_t bytes, int cl100k) {
    static const char endings[7][3] = {"s", "t", "m", "d", "re", "ve", "ll"};
    const int         capital = cl100k ? 'a' - 'A' : 0;
    for (int k = 0; *at == '\'' && k < 7; ++k) {
        size_t n = strlen(endings[k]), i = 0;
        while (i < n && i + 1 < bytes && (at[i + 1] | capital) == endings[k][i]) ++i;
        if (i == n) return n + 1;
    }
    return *at == '\'' && cl100k && bytes > 2 && at[1] == 0xc5 && at[2] == 0xbf ? 3 : 0; /* a long s */
}

/* The length of the word at the start of `bytes` (> 0) bytes: a run of letters, numbers, spaces or others. A
   single space before another run belongs to it. In cl100k's expression any character but a line break may be
   before letters, and none before numbers; line breaks belong to the others or spaces before them. */
static size_t ppo__word_length(const ppo__words *words, const unsigned char *at, size_t bytes) {
    int    cl100k = words->digits > 0, kind, next;
    size_t n = ppo__ending_length(at, bytes, cl100k), length, unused, last = 0;
    if (n) return n;
    kind = ppo__kind_at(words, at, bytes, &length);
    if (length < bytes && (kind == PPO__SPACE || kind == PPO__OTHER)) {
        next = ppo__kind_at(words, at + length, bytes - length, &unused);
        if (!cl100k               ? *at == ' ' && next != PPO__SPACE
            : next == PPO__LETTER ? *at != '\r' && *at != '\n'
                                  : *at == ' ' && next == PPO__OTHER)
            kind = next, n = length;
    }
    int most = cl100k && kind == PPO__NUMBER ? words->digits : INT_MAX;
    for (; n < bytes && most && ppo__kind_at(words, at + n, bytes - n, &length) == kind; --most, n += length)
        last = n;
    if (cl100k && kind == PPO__OTHER)
        while (n < bytes && (at[n] == '\r' || at[n] == '\n')) ++n;
    if (kind != PPO__SPACE) return n;
    for (size_t end = cl100k ? n : 0; end; --end)
        if (at[end - 1] == '\r' || at[end - 1] == '\n') return end;
    return n < bytes && last ? last : n; /* the last space is left to what follows */
}

/* -- a tokenizer from its units -- */

/* PIECES: a tokenizer.json whose merges begin with characters, as SentencePiece's do. */
enum { PPO__CHARACTERS, PPO__BPE, PPO__PIECES };

/* Kinds of steps. What the last step leaves becomes tokens by the merges alone. */
enum {
    PPO__FIND,        /* finds the names of added tokens; the next step has what is between them */
    PPO__KEEP,        /* the others may rewrite the text first; this one does no more */
    PPO__CUT_NUMBERS, /* cuts between numbers and all else, */
    PPO__CUT_DIGITS,  /* and between the characters of a number */
    PPO__CUT_WORDS,   /* cuts by an expression */
    PPO__CUT_SPACES,  /* cuts before each space of SentencePiece's, */
    PPO__CUT_RUNS     /* before each run of them */
};
enum { PPO__MAX_STEPS = 16, PPO__MAX_BOUNDS = 8 };

typedef struct ppo__step {
    int         kind;
    int         first, end; /* FIND: these of the added tokens */
    const char *from, *to;  /* others first replace the one by the other; from NULL: nothing */
    const char *prefix;     /* and then put this before the text, unless it begins so; NULL: nothing */
    int         always;     /* 1: even then */
    int         once;       /* 1: only at the start of the whole text */
    int         nfc;        /* 1: or makes NFC of the text */
} ppo__step;

/* A token that stands in a text by its name. */
typedef struct ppo__added {
    const char *name, *pattern; /* what is found: the name, or what the rewriting makes of it */
    int         name_bytes, bytes, token;
    int         special, left, right; /* 1: it is special; it takes the spaces on its left, on its right */
    int         normalized;           /* 1: found after the rewriting */
} ppo__added;

struct ppo_tokenizer {
    ppo__arena  memory; /* of the arrays below */
    int         kind, vocab;
    int         unit_count;
    int32_t    *units;        /* code points [unit_count], or merges: pairs of tokens [unit_count][2] */
    int32_t    *joined;       /* [unit_count] the token that a merge makes */
    ppo__map    by_unit;      /* the token of a code point, or the merge of a pair */
    int        *start;        /* [vocab + 1]: token t is bytes[start[t] .. start[t + 1] - 1] */
    char       *bytes;        /* the texts of all tokens */
    char       *special;      /* [vocab] 1: a special token */
    int         of_byte[256]; /* the token of a byte; PIECES: of a character of ASCII; -1: none */
    int         is_old;       /* 1: trained when words had only letters of ASCII */
    ppo__words  words;
    ppo__nfc    nfc;
    ppo__added *added; /* [added_count] */
    int         added_count;
    ppo__step   steps[PPO__MAX_STEPS];
    int         step_count;

    /* of a tokenizer.json alone: */
    char        *json; /* [json_bytes] all of it */
    size_t       json_bytes;
    const char **key; /* [vocab] what merges call a token, often its text; NULL: they do not */
    int         *key_bytes;
    ppo__map     by_key;
    int          unknown;       /* the token of a character that the vocabulary lacks, -1: nothing; */
    int          fuse;          /* 1: one for several of them; */
    int          fallback[256]; /* or the tokens of its bytes, -1: none */
    int          whole;         /* 1: a word that is a token becomes it, whatever the merges make of it */
    int          strip;         /* spaces left out at the start of what is decoded */
    int          bound[2][PPO__MAX_BOUNDS], bounds[2]; /* tokens before and after a text, how many */
};

static int ppo__token_length(const ppo_tokenizer *tok, int t) { return tok->start[t + 1] - tok->start[t]; }

/* The tokens of bytes in GPT-2's order: those that print in Latin-1 come first. */
static void ppo__order_bytes(int of_byte[256]) {
    static const unsigned char ranges[][2] = {{33, 126}, {161, 172}, {174, 255},
                                              {0, 32},   {127, 160}, {173, 173}};
    for (int r = 0, token = 0; r < 6; ++r)
        for (int byte = ranges[r][0]; byte <= ranges[r][1]; ++byte) of_byte[byte] = token++;
}

static ppo_status ppo__check_specials(const char *const *names, int count) {
    if (count < 0 || count > PPO_MAX_SPECIALS || (count && !names))
        return ppo__refuse("%d special tokens, or names that are NULL", count);
    for (int i = 0; i < count; ++i) {
        size_t bytes = names[i] ? strlen(names[i]) : 0;
        int    good = bytes > 0 && bytes <= PPO_MAX_TOKEN_BYTES && ppo__is_utf8(names[i]);
        for (size_t at = 0; good && at < bytes; ++at)
            good = (unsigned char)names[i][at] >= ' ' && names[i][at] != 127;
        if (!good)
            return ppo__refuse("the name of special token %d is NULL, empty, longer than %d bytes, not UTF-8 "
                               "or has control characters",
                               i, (int)PPO_MAX_TOKEN_BYTES);
        for (int k = 0; k < i; ++k)
            if (strcmp(names[i], names[k]) == 0)
                return ppo__refuse("special tokens %d and %d are both called \"%.60s\"", k, i, names[i]);
    }
    return PPO_OK;
}

/* Character k becomes token k: how long it is, and where it is found. */
static ppo_status ppo__add_character(ppo_tokenizer *tok, int k) {
    int32_t code = tok->units[k];
    char    text[4];
    if (code < 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) || (k && code <= tok->units[k - 1]))
        return ppo__refuse("character %d is %ld: not a code point above the previous one", k, (long)code);
    tok->start[k + 1] = tok->start[k] + ppo__utf8_put(code, text);
    ppo__map_put(&tok->by_unit, &tok->memory, (uint64_t)code, k);
    return PPO_OK;
}

/* Merge k becomes token 256 + k. */
static ppo_status ppo__add_merge(ppo_tokenizer *tok, int k) {
    int32_t left = tok->units[2 * k], right = tok->units[2 * k + 1], token = 256 + k;
    if (left < 0 || left >= token || right < 0 || right >= token)
        return ppo__refuse("merge %d joins tokens %ld and %ld, not two of 0 .. %ld", k, (long)left,
                           (long)right, (long)token - 1);
    int length = ppo__token_length(tok, left) + ppo__token_length(tok, right);
    if (length > PPO_MAX_TOKEN_BYTES)
        return ppo__refuse("merge %d makes a token of %d bytes, more than %d", k, length,
                           (int)PPO_MAX_TOKEN_BYTES);
    if (ppo__map_find(&tok->by_unit, ppo__pair_key(left, right)) >= 0)
        return ppo__refuse("merge %d is there twice: tokens %ld and %ld", k, (long)left, (long)right);
    tok->start[token + 1] = tok->start[token] + length;
    tok->joined[k] = token;
    ppo__map_put(&tok->by_unit, &tok->memory, ppo__pair_key(left, right), k);
    return PPO_OK;
}

/* Writes the texts of all tokens, one after another. */
static void ppo__spell(ppo_tokenizer *tok, const char *const *specials) {
    char *out = tok->bytes;
    int   ordinary = tok->vocab - tok->added_count;
    if (tok->kind == PPO__CHARACTERS) {
        for (int t = 0; t < ordinary; ++t) out += ppo__utf8_put(tok->units[t], out);
    } else {
        for (int byte = 0; byte < 256; ++byte) out[tok->of_byte[byte]] = (char)byte;
        out += 256;
        for (int k = 0; k < 2 * tok->unit_count; ++k) {
            int length = ppo__token_length(tok, tok->units[k]);
            memcpy(out, tok->bytes + tok->start[tok->units[k]], (size_t)length);
            out += length;
        }
    }
    for (int t = ordinary; t < tok->vocab; ++t) {
        ppo__added *added = &tok->added[t - ordinary];
        added->name = added->pattern = tok->bytes + tok->start[t];
        added->name_bytes = added->bytes = ppo__token_length(tok, t);
        added->token = t;
        tok->special[t] = (char)(added->special = 1);
        memcpy(tok->bytes + tok->start[t], specials[t - ordinary], (size_t)added->bytes);
    }
}

static int ppo__by_pattern(const void *a, const void *b) {
    const ppo__added *x = (const ppo__added *)a, *y = (const ppo__added *)b;
    int less = memcmp(x->pattern, y->pattern, (size_t)(x->bytes < y->bytes ? x->bytes : y->bytes));
    return less ? less : x->bytes - y->bytes;
}

static ppo__step *ppo__add_step(ppo_tokenizer *tok, int kind) {
    ppo__step *step = &tok->steps[tok->step_count++];
    step->kind = kind;
    return step;
}

/* Adds the step that finds the added tokens first .. end - 1. */
static void ppo__add_find(ppo_tokenizer *tok, int first, int end) {
    ppo__step *step = ppo__add_step(tok, PPO__FIND);
    step->first = first;
    step->end = end;
    if (end > first) qsort(tok->added + first, (size_t)(end - first), sizeof *tok->added, ppo__by_pattern);
}

/* A tokenizer of these units, which are copied and checked: they may come from a file. */
static ppo_status ppo__tokenizer_make(int kind, int is_old, const int32_t *units, int unit_count,
                                      const char *const *specials, int special_count, ppo_tokenizer **out) {
    int bytes = kind == PPO__BPE ? 256 : 0, ordinary = unit_count + bytes, vocab = ordinary + special_count;
    size_t numbers = ppo__at(unit_count, kind == PPO__BPE ? 2 : 1);
    if (ppo__check_specials(specials, special_count)) return PPO_ERROR_ARGUMENT;
    if (vocab < 1 || vocab > PPO_MAX_VOCAB)
        return ppo__refuse("a vocabulary of %d tokens, not of 1 to %d", vocab, (int)PPO_MAX_VOCAB);
    ppo_tokenizer *tok = (ppo_tokenizer *)ppo__alloc(sizeof *tok);
    if (!tok) return PPO_ERROR_MEMORY;
    tok->kind = kind;
    tok->unit_count = unit_count;
    tok->vocab = vocab;
    tok->unknown = -1;
    tok->is_old = is_old;
    tok->added_count = special_count;
    tok->units = PPO__ARRAY(&tok->memory, int32_t, numbers);
    tok->joined = PPO__ARRAY(&tok->memory, int32_t, (size_t)unit_count);
    tok->start = PPO__ZEROS(&tok->memory, int, (size_t)vocab + 1);
    tok->special = PPO__ZEROS(&tok->memory, char, (size_t)vocab);
    tok->added = PPO__ZEROS(&tok->memory, ppo__added, (size_t)special_count);
    if (kind == PPO__BPE) tok->words.kinds = ppo__make_kinds(&tok->memory, PPO__OTHER, is_old);
    ppo_status status = ppo__arena_status(&tok->memory);
    if (!status && numbers) memcpy(tok->units, units, numbers * sizeof *units);
    ppo__order_bytes(tok->of_byte);
    for (int t = 0; t < bytes && !status; ++t) tok->start[t + 1] = t + 1;
    for (int k = 0; k < unit_count && !status; ++k)
        status = kind == PPO__BPE ? ppo__add_merge(tok, k) : ppo__add_character(tok, k);
    for (int t = ordinary; t < vocab && !status; ++t)
        tok->start[t + 1] = tok->start[t] + (int)strlen(specials[t - ordinary]);
    if (!status) tok->bytes = PPO__ARRAY(&tok->memory, char, (size_t)tok->start[vocab]);
    if (!status) status = ppo__arena_status(&tok->memory);
    if (status) return ppo_tokenizer_free(tok), status;
    ppo__spell(tok, specials);
    ppo__add_find(tok, 0, special_count);
    if (kind == PPO__BPE) ppo__add_step(tok, PPO__CUT_WORDS);
    *out = tok;
    return PPO_OK;
}

PPO_DEF void ppo_tokenizer_free(ppo_tokenizer *tokenizer) {
    if (!tokenizer) return;
    ppo__arena_free(&tokenizer->memory);
    ppo__free(tokenizer);
}

PPO_DEF int ppo_tokenizer_vocab(const ppo_tokenizer *tokenizer) { return tokenizer ? tokenizer->vocab : 0; }

PPO_DEF int ppo_tokenizer_special(const ppo_tokenizer *tokenizer, const char *name) {
    size_t length = name ? strlen(name) : 0;
    for (int k = 0; tokenizer && name && k < tokenizer->added_count; ++k) {
        const ppo__added *added = &tokenizer->added[k];
        if ((size_t)added->name_bytes == length && !memcmp(added->name, name, length)) return added->token;
    }
    return -1;
}

static ppo_status ppo__not_utf8(const char *function, size_t at) {
    return ppo__refuse("%s: byte %.0f of the text is not UTF-8", function, (double)at);
}

PPO_DEF ppo_status ppo_tokenizer_characters(const char *text, size_t bytes, const char *const *specials,
                                            int special_count, ppo_tokenizer **tokenizer) {
    ppo__arena memory = {NULL, NULL, PPO_OK};
    int        count = 0, length = 0;
    if (tokenizer) *tokenizer = NULL;
    if (!ppo__given("ppo_tokenizer_characters", tokenizer && (text || !bytes))) return PPO_ERROR_ARGUMENT;
    unsigned char *seen = PPO__ZEROS(&memory, unsigned char, 0x110000);
    int32_t       *units = PPO__ARRAY(&memory, int32_t, PPO_MAX_VOCAB);
    ppo_status     status = ppo__arena_status(&memory);
    for (size_t at = 0; at < bytes && !status; at += (size_t)length) {
        int32_t code = ppo__utf8_get(text + at, bytes - at, &length);
        if (code < 0) status = ppo__not_utf8("ppo_tokenizer_characters", at);
        else seen[code] = 1;
    }
    for (int32_t code = 0; code <= 0x10ffff && !status; ++code)
        if (seen[code] && count++ < PPO_MAX_VOCAB) units[count - 1] = code;
    if (count > PPO_MAX_VOCAB)
        status =
            ppo__refuse("ppo_tokenizer_characters: more than %d different characters", (int)PPO_MAX_VOCAB);
    if (!status)
        status = ppo__tokenizer_make(PPO__CHARACTERS, 0, units, count, specials, special_count, tokenizer);
    ppo__arena_free(&memory);
    return status;
}

/* -- training BPE: the distinct words of the text are counted once, and the pairs in them; then a merge
   changes only the words that contain its pair, and the counts of adjacent pairs -- */

enum { PPO__MIN_FREQUENCY = 2, PPO__MAX_TRAINED = 65536 }; /* tokens, so that they have 16 bits */

typedef struct ppo__word {
    const unsigned char *text;
    uint16_t            *symbols;       /* [length]: its tokens at present */
    int                  bytes, length; /* of text and symbols */
    int                  count;         /* in the text */
} ppo__word;

typedef struct ppo__pair {
    int left, right, count;
    int found; /* the head of the list of words in which it was seen, or -1 */
} ppo__pair;

typedef struct ppo__found {
    int word, next;
} ppo__found;

typedef struct ppo__bpe_trainer {
    ppo__arena  memory; /* of all but the four stb_ds arrays */
    ppo__words  rule;
    ppo__map    by_hash, by_pair;
    ppo__word  *words;
    ppo__pair  *pairs;  /* never removed */
    ppo__found *founds; /* in lists, by pair */
    uint64_t   *queue;  /* the most frequent pair first; of equals, that of the smallest tokens */
    int32_t    *merges; /* [][2] */
    int         merged;
    int        *length; /* of each token, in bytes */
} ppo__bpe_trainer;

static void ppo__count_word(ppo__bpe_trainer *trainer, const unsigned char *text, int bytes) {
    uint64_t  slot = ppo__fnv1a(PPO__FNV1A, text, (size_t)bytes);
    ppo__word word = {text, NULL, bytes, bytes, 1};
    for (int w; (w = ppo__map_find(&trainer->by_hash, slot)) >= 0; ++slot)
        if (trainer->words[w].bytes == bytes && !memcmp(trainer->words[w].text, text, (size_t)bytes)) {
            ++trainer->words[w].count;
            return;
        }
    if (PPO__PUSH(trainer->words, word)) trainer->memory.failed = PPO_ERROR_MEMORY;
    else ppo__map_put(&trainer->by_hash, &trainer->memory, slot, (int)stbds_arrlenu(trainer->words) - 1);
}

/* A pair of tokens as one number; smaller tokens give a smaller one. */
static uint32_t ppo__short_key(int left, int right) { return (uint32_t)left << 16 | (uint32_t)right; }

/* A pair became more frequent, or less (times < 0), in word w. Words are changed one by one, so if w is in
   the pair's list already, it is the first. */
static void ppo__count_pair(ppo__bpe_trainer *trainer, int w, int left, int right, int times) {
    int at = ppo__map_find(&trainer->by_pair, ppo__short_key(left, right));
    if (at < 0) {
        if (trainer->length[left] + trainer->length[right] > PPO_MAX_TOKEN_BYTES) return;
        ppo__pair added = {left, right, 0, -1};
        at = (int)stbds_arrlenu(trainer->pairs);
        if (PPO__PUSH(trainer->pairs, added)) trainer->memory.failed = PPO_ERROR_MEMORY;
        ppo__map_put(&trainer->by_pair, &trainer->memory, ppo__short_key(left, right), at);
    }
    if (trainer->memory.failed) return;
    ppo__pair *pair = &trainer->pairs[at];
    pair->count += times;
    if (times < 0 || (pair->found >= 0 && trainer->founds[pair->found].word == w)) return;
    ppo__found found = {w, pair->found};
    pair->found = (int)stbds_arrlenu(trainer->founds);
    if (PPO__PUSH(trainer->founds, found)) trainer->memory.failed = PPO_ERROR_MEMORY;
}

/* Counts the words of the text, and the pairs of bytes in them. */
static void ppo__count_text(ppo__bpe_trainer *trainer, const unsigned char *text, size_t bytes) {
    int    of_byte[256];
    size_t total = 0;
    for (size_t at = 0, n; at < bytes && !trainer->memory.failed; at += n) {
        n = ppo__word_length(&trainer->rule, text + at, bytes - at);
        ppo__count_word(trainer, text + at, (int)n);
    }
    int words = (int)stbds_arrlenu(trainer->words);
    for (int w = 0; w < words; ++w) total += (size_t)trainer->words[w].bytes;
    uint16_t *symbols = PPO__ARRAY(&trainer->memory, uint16_t, total);
    ppo__order_bytes(of_byte);
    for (int w = 0; w < words && !trainer->memory.failed; ++w) {
        ppo__word *word = &trainer->words[w];
        word->symbols = symbols;
        symbols += word->bytes;
        for (int i = 0; i < word->bytes; ++i) word->symbols[i] = (uint16_t)of_byte[word->text[i]];
        for (int i = 1; i < word->bytes; ++i)
            ppo__count_pair(trainer, w, word->symbols[i - 1], word->symbols[i], word->count);
    }
}

static void ppo__queue_pair(ppo__bpe_trainer *trainer, const ppo__pair *pair) {
    uint64_t rarity = UINT32_MAX - (uint32_t)pair->count;
    if (pair->count < PPO__MIN_FREQUENCY) return;
    ppo__queue_push(&trainer->memory, &trainer->queue,
                    rarity << 32 | ppo__short_key(pair->left, pair->right));
}

/* Replaces the pair by the token in word w. */
static void ppo__merge_in_word(ppo__bpe_trainer *trainer, int w, int left, int right, int token) {
    ppo__word *word = &trainer->words[w];
    uint16_t  *symbols = word->symbols;
    int        n = 0;
    for (int i = 0; i < word->length; ++n) {
        if (symbols[i] != left || i + 1 == word->length || symbols[i + 1] != right) {
            symbols[n] = symbols[i++];
            continue;
        }
        i += 2;
        if (n) {
            ppo__count_pair(trainer, w, symbols[n - 1], left, -word->count);
            ppo__count_pair(trainer, w, symbols[n - 1], token, word->count);
        }
        if (i < word->length) {
            ppo__count_pair(trainer, w, right, symbols[i], -word->count);
            ppo__count_pair(trainer, w, token, symbols[i], word->count);
        }
        symbols[n] = (uint16_t)token;
    }
    word->length = n;
}

/* Learns up to `most` merges. A pair whose count fell since it was queued is queued again. No count rises:
   the pairs that a merge creates contain the new token, so they are new, and the last of the list. */
static void ppo__learn_merges(ppo__bpe_trainer *trainer, int most) {
    for (size_t queued = 0; trainer->merged < most;) {
        for (; queued < stbds_arrlenu(trainer->pairs); ++queued)
            ppo__queue_pair(trainer, &trainer->pairs[queued]);
        if (trainer->memory.failed || !stbds_arrlenu(trainer->queue)) return;
        uint64_t  first = ppo__queue_pop(trainer->queue);
        ppo__pair pair = trainer->pairs[ppo__map_find(&trainer->by_pair, (uint32_t)first)];
        if (pair.count != (int)(UINT32_MAX - (uint32_t)(first >> 32))) {
            ppo__queue_pair(trainer, &pair);
            continue;
        }
        int k = trainer->merged++, token = 256 + k;
        trainer->merges[2 * k] = pair.left;
        trainer->merges[2 * k + 1] = pair.right;
        trainer->length[token] = trainer->length[pair.left] + trainer->length[pair.right];
        for (int f = pair.found; f >= 0; f = trainer->founds[f].next)
            ppo__merge_in_word(trainer, trainer->founds[f].word, pair.left, pair.right, token);
    }
}

PPO_DEF ppo_status ppo_tokenizer_train(const char *text, size_t bytes, int vocab, const char *const *specials,
                                       int special_count, ppo_tokenizer **tokenizer) {
    const size_t most = (size_t)512 << 20;
    if (tokenizer) *tokenizer = NULL;
    if (!ppo__given("ppo_tokenizer_train", tokenizer && (text || !bytes))) return PPO_ERROR_ARGUMENT;
    if (bytes > most)
        return ppo__refuse("ppo_tokenizer_train: a text of %.0f bytes, more than %.0f", (double)bytes,
                           (double)most);
    if (ppo__check_specials(specials, special_count)) return PPO_ERROR_ARGUMENT;
    if (vocab < 256 + special_count || vocab > PPO__MAX_TRAINED)
        return ppo__refuse("ppo_tokenizer_train: a vocabulary of %d, not of %d to %d", vocab,
                           256 + special_count, (int)PPO__MAX_TRAINED);
    ppo__bpe_trainer trainer;
    memset(&trainer, 0, sizeof trainer);
    int merges = vocab - 256 - special_count;
    trainer.merges = PPO__ARRAY(&trainer.memory, int32_t, 2 * (size_t)merges);
    trainer.length = PPO__ARRAY(&trainer.memory, int, 256 + (size_t)merges);
    trainer.rule.kinds = ppo__make_kinds(&trainer.memory, PPO__OTHER, 0);
    for (int t = 0; t < 256 && trainer.length; ++t) trainer.length[t] = 1;
    if (!trainer.memory.failed) ppo__count_text(&trainer, (const unsigned char *)text, bytes);
    if (!trainer.memory.failed) ppo__learn_merges(&trainer, merges);
    ppo_status status = ppo__arena_status(&trainer.memory);
    if (!status)
        status = ppo__tokenizer_make(PPO__BPE, 0, trainer.merges, trainer.merged, specials, special_count,
                                     tokenizer);
    ppo__arena_free(&trainer.memory);
    ppo__array_free(trainer.words);
    ppo__array_free(trainer.pairs);
    ppo__array_free(trainer.founds);
    ppo__array_free(trainer.queue);
    return status;
}

/* -- encoding and decoding -- */

/* A word while it is encoded: a linked list of symbols, at first its bytes or characters. */
typedef struct ppo__symbol {
    int token;          /* -1: joined to a previous one */
    int previous, next; /* -1 and the number of symbols: none */
} ppo__symbol;

typedef struct ppo__encoder {
    const ppo_tokenizer *tok;
    int                  flags;  /* PPO_ENCODE_... */
    const char          *text;   /* all of it, for messages */
    int                 *tokens; /* [capacity]; those beyond are only counted, */
    int                  capacity, count;
    int                  grows;   /* 1: or get room in the encoder's memory */
    ppo__arena           memory;  /* of all but the queue; it remembers what failed */
    ppo__symbol         *symbols; /* [room] */
    size_t               room;
    uint64_t            *queue; /* of possible merges: in the order of learning, then from left to right */
    char                *rewritten[PPO__MAX_STEPS]; /* by each step, [rewritten_room] */
    size_t               rewritten_room[PPO__MAX_STEPS];
} ppo__encoder;

static PPO__NOINLINE ppo_status ppo__more_tokens(ppo__encoder *encoder) {
    int  room = encoder->capacity < INT_MAX / 2 - 64 ? 2 * encoder->capacity + 64 : INT_MAX;
    int *more = room > encoder->count ? PPO__ARRAY(&encoder->memory, int, (size_t)room) : NULL;
    if (room == encoder->count)
        encoder->memory.failed = ppo__refuse("ppo_encode: a text of more than %d tokens", room);
    if (!more) return encoder->memory.failed;
    if (encoder->count) memcpy(more, encoder->tokens, (size_t)encoder->count * sizeof *more);
    encoder->tokens = more;
    encoder->capacity = room;
    return PPO_OK;
}

static void ppo__emit(ppo__encoder *encoder, int token) {
    if (encoder->grows && encoder->count == encoder->capacity && ppo__more_tokens(encoder)) return;
    if (encoder->count < encoder->capacity) encoder->tokens[encoder->count] = token;
    ++encoder->count;
}

/* The token that merges call so, or -1; then *slot is where ppo__map_put() can put it. */
static int ppo__find_key(const ppo_tokenizer *tok, const char *key, size_t bytes, uint64_t *slot) {
    int t;
    for (*slot = ppo__fnv1a(PPO__FNV1A, key, bytes); (t = ppo__map_find(&tok->by_key, *slot)) >= 0; ++*slot)
        if ((size_t)tok->key_bytes[t] == bytes && memcmp(tok->key[t], key, bytes) == 0) break;
    return t;
}

/* Queues the merge of this symbol and the next, if there is one. */
static void ppo__consider(ppo__encoder *encoder, int at, int count) {
    if (at < 0 || encoder->symbols[at].next == count) return;
    const ppo__symbol *symbol = &encoder->symbols[at];
    uint64_t           key = ppo__pair_key(symbol->token, encoder->symbols[symbol->next].token);
    int                merge = ppo__map_find(&encoder->tok->by_unit, key);
    if (merge < 0) return;
    ppo__queue_push(&encoder->memory, &encoder->queue, (uint64_t)merge << 32 | (uint32_t)at);
}

/* Splits a word into symbols, for each of which there is room, and returns how many. */
static int ppo__split_word(ppo__encoder *encoder, const char *text, size_t bytes) {
    const ppo_tokenizer *tok = encoder->tok;
    int                  count = 0, length, fused = 0;
    for (size_t at = 0; at < bytes; at += (size_t)length) {
        uint64_t    slot;
        int         token = tok->of_byte[(unsigned char)text[at]];
        const char *fallback = text + at;
        length = 1;
        if (tok->kind == PPO__PIECES && (unsigned char)text[at] >= 0x80) {
            if (ppo__utf8_get(text + at, bytes - at, &length) < 0) length = 1;
            token = ppo__find_key(tok, text + at, (size_t)length, &slot);
        }
        if (token < 0 && tok->fallback[0] < 0) {
            token = fused && tok->fuse ? -1 : tok->unknown;
            fused = 1;
            if (token < 0) continue;
        } else fused = 0;
        for (int k = 0, n = token < 0 ? length : 1; k < n; ++k, ++count) {
            ppo__symbol symbol = {token < 0 ? tok->fallback[(unsigned char)fallback[k]] : token, count - 1,
                                  count + 1};
            encoder->symbols[count] = symbol;
        }
    }
    return count;
}

/* Applies the merges to one word, in the order in which they were learned. */
static void ppo__encode_word(ppo__encoder *encoder, const char *text, size_t bytes) {
    const ppo_tokenizer *tok = encoder->tok;
    uint64_t             slot;
    int                  whole = tok->whole ? ppo__find_key(tok, text, bytes, &slot) : -1;
    if (whole >= 0) {
        ppo__emit(encoder, whole);
        return;
    }
    if (bytes > encoder->room) {
        encoder->room = 2 * bytes;
        encoder->symbols = PPO__ARRAY(&encoder->memory, ppo__symbol, encoder->room);
        if (!encoder->symbols) return;
    }
    ppo__symbol *symbols = encoder->symbols;
    int          count = ppo__split_word(encoder, text, bytes);
    for (int i = 0; i < count; ++i) ppo__consider(encoder, i, count);
    while (stbds_arrlenu(encoder->queue) && !encoder->memory.failed) {
        uint64_t       first = ppo__queue_pop(encoder->queue);
        int            at = (int)(uint32_t)first, merge = (int)(first >> 32), next = symbols[at].next;
        const int32_t *pair = tok->units + 2 * merge;
        if (symbols[at].token != pair[0] || next == count || symbols[next].token != pair[1])
            continue; /* one of them was joined to another since */
        symbols[at].token = tok->joined[merge];
        symbols[at].next = symbols[next].next;
        symbols[next].token = -1;
        if (symbols[at].next < count) symbols[symbols[at].next].previous = at;
        ppo__consider(encoder, symbols[at].previous, count);
        ppo__consider(encoder, at, count);
    }
    for (int i = 0; i < count; i = symbols[i].next) ppo__emit(encoder, symbols[i].token);
}

static void ppo__encode_characters(ppo__encoder *encoder, const char *text, size_t bytes) {
    int length;
    for (size_t at = 0; at < bytes; at += (size_t)length) {
        int32_t code = ppo__utf8_get(text + at, bytes - at, &length);
        double  place = (double)(text + at - encoder->text);
        int     token = code < 0 ? -1 : ppo__map_find(&encoder->tok->by_unit, (uint64_t)code);
        if (code < 0) encoder->memory.failed = ppo__not_utf8("ppo_encode", (size_t)place);
        else if (token < 0) {
            int control = code < ' ' || (code >= 127 && code < 160);
            encoder->memory.failed =
                ppo__refuse("ppo_encode: the vocabulary lacks U+%04lX%s%.*s%s (byte %.0f of the text)",
                            (unsigned long)code, control ? "" : " \"", control ? 0 : length, text + at,
                            control ? "" : "\"", place);
        }
        if (token < 0) return;
        ppo__emit(encoder, token);
    }
}

/* Room for a text of `need` bytes that step k writes, or NULL. */
static char *ppo__rewrite_room(ppo__encoder *encoder, int k, double need) {
    if (need > INT_MAX)
        encoder->memory.failed = ppo__refuse("ppo_encode: a text that may become one of %.0f bytes", need);
    else if (need > (double)encoder->rewritten_room[k]) {
        encoder->rewritten_room[k] = 2 * (size_t)need;
        encoder->rewritten[k] = PPO__ARRAY(&encoder->memory, char, encoder->rewritten_room[k]);
    }
    return encoder->memory.failed ? NULL : encoder->rewritten[k];
}

/* Does what step k says before it cuts; returns the text, and its length in *bytes. */
static const char *ppo__rewrite(ppo__encoder *encoder, int k, const char *text, size_t *bytes, int is_start) {
    const ppo__step *step = &encoder->tok->steps[k];
    int    may_begin = step->prefix && !(is_start ? encoder->flags & PPO_ENCODE_CONTINUES : step->once);
    size_t from = step->from ? strlen(step->from) : 0, to = from ? strlen(step->to) : 0, found = 0, n = 0;
    size_t prefix = may_begin ? strlen(step->prefix) : 0;
    if (step->nfc) {
        while (n < *bytes && (unsigned char)text[n] < PPO__NFC_LEAD) ++n;
        if (n == *bytes) return text;
        char     *out = ppo__rewrite_room(encoder, k, 3 * (double)*bytes);
        uint64_t *codes = out ? PPO__ARRAY(&encoder->memory, uint64_t, 2 * *bytes + 4) : NULL;
        if (codes) *bytes = ppo__to_nfc(&encoder->tok->nfc, text, *bytes, codes, out);
        return codes ? out : text;
    }
    for (size_t at = 0; from && at + from <= *bytes;
         at += memcmp(text + at, step->from, from) ? 1 : (++found, from))
        continue;
    if (!found && !prefix) return text;
    char *out = ppo__rewrite_room(encoder, k, (double)*bytes + (double)prefix + (double)found * (double)to);
    if (!out) return text;
    out += prefix;
    for (size_t at = 0; at < *bytes;) {
        if (found && at + from <= *bytes && memcmp(text + at, step->from, from) == 0) {
            memcpy(out + n, step->to, to);
            n += to;
            at += from;
        } else out[n++] = text[at++];
    }
    *bytes = n;
    if (!prefix || (!step->always && n >= prefix && memcmp(out, step->prefix, prefix) == 0)) return out;
    *bytes += prefix;
    return (const char *)memcpy(out - prefix, step->prefix, prefix);
}

/* The length of the piece at the start of `bytes` (> 0) bytes. */
static size_t ppo__piece_length(const ppo_tokenizer *tok, int kind, const char *text, size_t bytes) {
    static const char    space[] = "\342\226\201"; /* that of SentencePiece */
    const unsigned char *at = (const unsigned char *)text;
    size_t               n = 1;
    if (kind == PPO__CUT_WORDS) return ppo__word_length(&tok->words, at, bytes);
    if (kind == PPO__CUT_NUMBERS || kind == PPO__CUT_DIGITS) {
        int is_number = ppo__kind_at(&tok->words, at, bytes, &n) == PPO__NUMBER;
        for (size_t more; n < bytes && !(is_number && kind == PPO__CUT_DIGITS); n += more)
            if ((ppo__kind_at(&tok->words, at + n, bytes - n, &more) == PPO__NUMBER) != is_number) break;
        return n;
    }
    for (; kind != PPO__KEEP; ++n) { /* up to the next space, or run of spaces */
        const char *next = n < bytes ? (const char *)memchr(text + n, space[0], bytes - n) : NULL;
        if (!next) break;
        n = (size_t)(next - text);
        if (bytes - n < 3 || memcmp(next, space, 3) != 0) continue;
        if (kind == PPO__CUT_SPACES || n < 3 || memcmp(next - 3, space, 3) != 0) return n;
    }
    return bytes;
}

/* The next of a step's added tokens from *at on, and where it is; of several the longest. NULL: there is
   none. */
static const ppo__added *ppo__find_added(const ppo_tokenizer *tok, const ppo__step *step, const char *text,
                                         size_t bytes, size_t *at) {
    const ppo__added *found = NULL;
    for (; *at < bytes && step->first < step->end; *at += !found) {
        int low = step->first, high = step->end; /* those that agree with the text in their first n bytes */
        for (size_t n = 0; low < high; ++n) {
            for (; low < high && (size_t)tok->added[low].bytes == n; ++low) found = &tok->added[low];
            if (*at + n == bytes) break;
            unsigned char c = (unsigned char)text[*at + n];
            while (low < high && (unsigned char)tok->added[low].pattern[n] < c) ++low;
            while (low < high && (unsigned char)tok->added[high - 1].pattern[n] > c) --high;
        }
        if (found) return found;
    }
    return NULL;
}

static int ppo__is_space(const ppo_tokenizer *tok, const char *at, size_t bytes, size_t *length) {
    return bytes && ppo__kind_at(&tok->words, (const unsigned char *)at, bytes, length) == PPO__SPACE;
}

/* Encodes a piece of the text from step k on. */
static void ppo__encode_from(ppo__encoder *encoder, int k, const char *text, size_t bytes, int is_start) {
    const ppo_tokenizer *tok = encoder->tok;
    const ppo__step     *step = &tok->steps[k];
    const ppo__added    *found;
    if (!bytes || encoder->memory.failed) return;
    if (k == tok->step_count) {
        if (tok->kind == PPO__CHARACTERS) ppo__encode_characters(encoder, text, bytes);
        else ppo__encode_word(encoder, text, bytes);
        return;
    }
    size_t at = 0, done = 0, n;
    if (step->kind != PPO__FIND) text = ppo__rewrite(encoder, k, text, &bytes, is_start);
    for (; step->kind != PPO__FIND && at < bytes && !encoder->memory.failed; at += n) {
        n = ppo__piece_length(tok, step->kind, text + at, bytes - at);
        ppo__encode_from(encoder, k + 1, text + at, n, is_start && !at);
    }
    if (step->kind != PPO__FIND) return;
    while ((found = ppo__find_added(tok, step, text, bytes, &at)) != NULL) {
        size_t begin = at, back;
        at += (size_t)found->bytes;
        if (found->special && !(encoder->flags & PPO_ENCODE_SPECIALS)) continue;
        for (back = begin; found->left && back > done;) {
            do --back;
            while (back > done && ((unsigned char)text[back] & 0xc0) == 0x80);
            if (!ppo__is_space(tok, text + back, begin - back, &n)) break;
            begin = back;
        }
        if (begin > done) ppo__encode_from(encoder, k + 1, text + done, begin - done, is_start && !done);
        ppo__emit(encoder, found->token);
        for (done = at; found->right && ppo__is_space(tok, text + done, bytes - done, &n);) done += n;
    }
    if (bytes > done) ppo__encode_from(encoder, k + 1, text + done, bytes - done, is_start && !done);
}

/* An encoder of several texts, with the memory of their tokens. */
static ppo__encoder ppo__encoder_start(const ppo_tokenizer *tok) {
    ppo__encoder encoder;
    memset(&encoder, 0, sizeof encoder);
    encoder.tok = tok;
    encoder.grows = 1;
    return encoder;
}

/* Adds the tokens of a text to those of an encoder. */
static void ppo__encode_text(ppo__encoder *encoder, int flags, const char *text, size_t bytes, int is_start) {
    const ppo_tokenizer *tok = encoder->tok;
    if (bytes > INT_MAX && !encoder->memory.failed)
        encoder->memory.failed =
            ppo__refuse("ppo_encode: the text has %.0f bytes, more than %d", (double)bytes, INT_MAX);
    encoder->flags = flags;
    encoder->text = text;
    for (int i = 0; i < tok->bounds[0] && flags & PPO_ENCODE_BOUNDS; ++i)
        ppo__emit(encoder, tok->bound[0][i]);
    ppo__encode_from(encoder, 0, text, bytes, is_start);
    for (int i = 0; i < tok->bounds[1] && flags & PPO_ENCODE_BOUNDS; ++i)
        ppo__emit(encoder, tok->bound[1][i]);
}

/* The status of all of it. */
static ppo_status ppo__encoder_end(ppo__encoder *encoder) {
    ppo_status status = ppo__arena_status(&encoder->memory);
    ppo__arena_free(&encoder->memory);
    ppo__array_free(encoder->queue);
    return status;
}

PPO_DEF ppo_status ppo_encode_as(const ppo_tokenizer *tokenizer, int flags, const char *text, size_t bytes,
                                 int *tokens, int capacity, int *count) {
    if (!ppo__given("ppo_encode", tokenizer && (text || !bytes))) return PPO_ERROR_ARGUMENT;
    if (flags & ~(PPO_ENCODE_SPECIALS | PPO_ENCODE_BOUNDS | PPO_ENCODE_CONTINUES))
        return ppo__refuse("ppo_encode_as: flags are %d, which has unknown ones", flags);
    if (capacity < 0) return ppo__refuse("ppo_encode: capacity is %d, must not be below 0", capacity);
    ppo__encoder encoder = ppo__encoder_start(tokenizer);
    encoder.grows = 0;
    encoder.tokens = tokens;
    encoder.capacity = tokens ? capacity : 0;
    ppo__encode_text(&encoder, flags, text, bytes, 1);
    ppo_status status = ppo__encoder_end(&encoder);
    if (status) return status;
    if (count) *count = encoder.count;
    if (encoder.count <= encoder.capacity || encoder.capacity == 0) return PPO_OK;
    return ppo__refuse("ppo_encode: there is room for %d tokens, but there are %d", capacity, encoder.count);
}

PPO_DEF ppo_status ppo_encode(const ppo_tokenizer *tokenizer, const char *text, size_t bytes, int *tokens,
                              int capacity, int *count) {
    return ppo_encode_as(tokenizer, 0, text, bytes, tokens, capacity, count);
}

static int ppo__is_ordinary(const ppo_tokenizer *tok, int token) {
    return token >= 0 && token < tok->vocab && !tok->special[token];
}

/* The text of tokens first .. end - 1 as far as there is room, without the first spaces that a text drops; its length.
   *unknown: a token that there is not, or `end`. Of a tokenizer.json, those above its own have no text. */
static size_t ppo__token_text(const ppo_tokenizer *tok, const int *tokens, int first, int end, int strip,
                              int ordinary, char *text, size_t capacity, int *unknown) {
    size_t length = 0;
    for (*unknown = first; *unknown < end; ++*unknown) {
        const int token = tokens[*unknown], known = token >= 0 && token < tok->vocab;
        if (!known && !(tok->json && token >= 0)) break;
        if (!known || (ordinary && tok->special[token])) continue;
        const char *word = tok->bytes + tok->start[token];
        size_t      bytes = (size_t)ppo__token_length(tok, token);
        for (; bytes && strip && *word == ' '; --strip) ++word, --bytes;
        if (bytes) strip = 0;
        if (length + bytes < capacity) memcpy(text + length, word, bytes);
        length += bytes;
    }
    if (length < capacity) text[length] = 0;
    return length;
}

PPO_DEF ppo_status ppo_decode(const ppo_tokenizer *tokenizer, const int *tokens, int n, char *text,
                              size_t capacity, size_t *bytes) {
    int unknown;
    if (!ppo__given("ppo_decode", tokenizer && (tokens || !n))) return PPO_ERROR_ARGUMENT;
    if (n < 0) return ppo__refuse("ppo_decode: %d tokens", n);
    if (!text) capacity = 0;
    size_t length = ppo__token_text(tokenizer, tokens, 0, n, tokenizer->strip, 0, text, capacity, &unknown);
    if (unknown < n)
        return ppo__refuse("ppo_decode: token %d at position %d is not in 0 .. %d", tokens[unknown], unknown,
                           tokenizer->vocab - 1);
    if (bytes) *bytes = length;
    if (capacity == 0 || length < capacity) return PPO_OK;
    return ppo__refuse("ppo_decode: there is room for %.0f bytes, but there are %.0f with the final 0",
                       (double)capacity, (double)length + 1);
}

PPO_DEF ppo_status ppo_tokens_add_text(ppo_tokens *tokens, const ppo_tokenizer *tokenizer, int start,
                                       const char *prompt, const char *response, int end) {
    if (!ppo__given("ppo_tokens_add_text", tokens && tokenizer && prompt)) return PPO_ERROR_ARGUMENT;
    if (start >= tokenizer->vocab || end >= tokenizer->vocab)
        return ppo__refuse("ppo_tokens_add_text: start is %d and end %d, tokens are 0 .. %d", start, end,
                           tokenizer->vocab - 1);
    ppo__encoder encoder = ppo__encoder_start(tokenizer);
    if (start >= 0) ppo__emit(&encoder, start);
    ppo__encode_text(&encoder, 0, prompt, strlen(prompt), 1);
    int given = encoder.count;
    if (response) ppo__encode_text(&encoder, PPO_ENCODE_CONTINUES, response, strlen(response), 1);
    if (response && end >= 0) ppo__emit(&encoder, end);
    if (!encoder.memory.failed)
        encoder.memory.failed = ppo_tokens_add(tokens, encoder.tokens, encoder.count, given);
    return ppo__encoder_end(&encoder);
}

PPO_DEF ppo_status ppo_tokens_append_text(ppo_tokens *tokens, const ppo_tokenizer *tokenizer,
                                          const char *text, int given) {
    if (!ppo__given("ppo_tokens_append_text", tokens && tokenizer && text)) return PPO_ERROR_ARGUMENT;
    if (!tokens->memory || !tokens->count)
        return ppo__refuse("ppo_tokens_append_text: the arrays are not the library's, or hold no sequence");
    int          s = tokens->count - 1, length = tokens->start[s + 1] - tokens->start[s];
    ppo__encoder encoder = ppo__encoder_start(tokenizer);
    ppo__encode_text(&encoder, PPO_ENCODE_CONTINUES, text, strlen(text), 1);
    if (encoder.count && !encoder.memory.failed)
        encoder.memory.failed = ppo_tokens_add(tokens, encoder.tokens, encoder.count, 0);
    if (tokens->count > s + 1) { /* the two sequences, which are side by side, become one */
        tokens->start[s + 1] = tokens->start[s + 2];
        --tokens->count;
        if (given) ppo_tokens_mark_given(tokens, length, encoder.count);
    }
    return ppo__encoder_end(&encoder);
}

/* Where the tokens after the prompt begin. */
static int ppo__prompt_end(const ppo_tokens *tokens, int s) {
    int start = tokens->start[s], n = tokens->start[s + 1] - start,
        prompt = tokens->prompt ? tokens->prompt[s] : 0;
    return start + (prompt < 0 ? 0 : prompt < n ? prompt : n);
}

PPO_DEF ppo_status ppo_tokens_text(const ppo_tokens *tokens, int s, int what, const ppo_tokenizer *tokenizer,
                                   char *text, size_t capacity) {
    if (!ppo__given("ppo_tokens_text", tokens && tokenizer && text && capacity)) return PPO_ERROR_ARGUMENT;
    *text = 0;
    if (s < 0 || s >= tokens->count)
        return ppo__refuse("ppo_tokens_text: there is no sequence %d in %d", s, tokens->count);
    if (what < PPO_WHOLE_TEXT || what > PPO_RESPONSE_TEXT)
        return ppo__refuse("ppo_tokens_text: what is %d, outside 0 .. %d", what, (int)PPO_RESPONSE_TEXT);
    int i = tokens->start[s], end = tokens->start[s + 1], prompt = ppo__prompt_end(tokens, s);
    if (what == PPO_RESPONSE_TEXT) i = prompt;
    if (what == PPO_PROMPT_TEXT) end = prompt;
    int    unknown, strip = what == PPO_RESPONSE_TEXT ? 0 : tokenizer->strip;
    size_t length = ppo__token_text(tokenizer, tokens->token, i, end, strip, 1, text, capacity, &unknown);
    if (unknown == end && length < capacity) return PPO_OK;
    *text = 0;
    if (unknown < end)
        return ppo__refuse("ppo_tokens_text: token %d of sequence %d is not in 0 .. %d",
                           tokens->token[unknown], s, tokenizer->vocab - 1);
    return ppo__refuse(
        "ppo_tokens_text: the text of sequence %d has more than the %.0f bytes there is room for", s,
        (double)capacity - 1);
}

/* -- chats -- */

/* What stands before the first message and around each one: {} has the name of a special token, % is the role. The
   token that ends a turn is learned. */
static const struct {
    const char *start, *before, *close, *after;
    int         trim; /* 1: without the spaces at the ends of the message */
} ppo__chat_forms[] = {
    {"", "{<|im_start|>}%\n", "{<|im_end|>}", "\n", 0},
    {"{<|begin_of_text|>}", "{<|start_header_id|>}%{<|end_header_id|>}\n\n", "{<|eot_id|>}", "", 1},
    {"", "<|%|>\n", "{</s>}", "\n", 0},
};

/* A chat while it is encoded. What it has between two special tokens is encoded as one text. */
typedef struct ppo__chat {
    ppo__encoder encoder;
    char        *text; /* since the last special token */
    size_t       bytes;
    int          is_start; /* 1: nothing was encoded yet */
} ppo__chat;

static void ppo__chat_encode(ppo__chat *chat, int flags) {
    if (!chat->bytes || chat->encoder.memory.failed) return;
    ppo__encode_text(&chat->encoder, flags, chat->text, chat->bytes, chat->is_start || flags);
    chat->bytes = chat->is_start = 0;
}

static void ppo__chat_text(ppo__chat *chat, const char *text, size_t bytes) {
    memcpy(chat->text + chat->bytes, text, bytes);
    chat->bytes += bytes;
}

/* Adds a part of a form. */
static void ppo__chat_form(ppo__chat *chat, const char *form, const char *role) {
    for (char name[32]; *form && !chat->encoder.memory.failed; ++form) {
        if (*form == '%') ppo__chat_text(chat, role, strlen(role));
        else if (*form != '{') ppo__chat_text(chat, form, 1);
        else {
            size_t n = strcspn(form, "}");
            snprintf(name, sizeof name, "%.*s", (int)n - 1, form + 1);
            int token = ppo_tokenizer_special(chat->encoder.tok, name);
            form += n;
            ppo__chat_encode(chat, 0);
            chat->is_start = 0;
            if (chat->encoder.memory.failed) return;
            if (token >= 0) ppo__emit(&chat->encoder, token);
            else
                chat->encoder.memory.failed =
                    ppo__refuse("ppo_tokens_add_chat: the tokenizer has no token \"%s\"", name);
        }
    }
}

/* Leaves out the spaces at the ends of a text, as Python does. */
static const char *ppo__trim(const ppo_tokenizer *tok, const char *text, size_t *bytes) {
    size_t end = 0, begin = *bytes, n;
    for (size_t at = 0; at < *bytes; at += n) {
        if (ppo__is_space(tok, text + at, *bytes - at, &n) || (text[at] >= 28 && text[at] < 32)) continue;
        if (begin > at) begin = at;
        end = at + n;
    }
    *bytes = end > begin ? end - begin : 0;
    return text + begin;
}

/* Encodes the messages, and last the beginning of a reply if one is asked for, and adds the tokens. */
static void ppo__encode_chat(ppo__chat *chat, int form, const ppo_message *messages, int count, int reply,
                             ppo_tokens *tokens) {
    static const ppo_message asked = {"assistant", ""};
    ppo__encoder            *encoder = &chat->encoder;
    int                      prompt = -1,
        (*learned)[2] = (int(*)[2])ppo__arena_array(&encoder->memory, (size_t)count + 1, 2 * sizeof(int));
    if (count && learned) ppo__chat_form(chat, ppo__chat_forms[form].start, "");
    for (int m = 0; m < count + reply && !encoder->memory.failed; ++m) {
        const ppo_message *message = m < count ? &messages[m] : &asked;
        const char        *text = message->text;
        size_t             bytes = strlen(text);
        int                is_answer = strcmp(message->role, asked.role) == 0;
        if (ppo__chat_forms[form].trim) text = ppo__trim(encoder->tok, text, &bytes);
        ppo__chat_form(chat, ppo__chat_forms[form].before, message->role);
        if (is_answer) ppo__chat_encode(chat, 0);
        learned[m][0] = learned[m][1] = encoder->count;
        if (m == count || encoder->memory.failed) break;
        ppo__chat_text(chat, text, bytes);
        if (is_answer) ppo__chat_encode(chat, PPO_ENCODE_CONTINUES);
        ppo__chat_form(chat, ppo__chat_forms[form].close, "");
        if (is_answer) learned[m][1] = encoder->count;
        ppo__chat_form(chat, ppo__chat_forms[form].after, "");
    }
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

PPO_DEF ppo_status ppo_tokens_add_chat(ppo_tokens *tokens, const ppo_tokenizer *tokenizer, int form,
                                       const ppo_message *messages, int count, int reply) {
    size_t    most = 64; /* bytes of a message and of what stands around it */
    ppo__chat chat;
    if (!ppo__given("ppo_tokens_add_chat", tokens && tokenizer && (messages || !count)))
        return PPO_ERROR_ARGUMENT;
    if (form < PPO_CHATML || form > PPO_CHAT_ZEPHYR || count < 0)
        return ppo__refuse("ppo_tokens_add_chat: form %d, %d messages", form, count);
    if (!tokenizer->words.kinds) return ppo__refuse("ppo_tokens_add_chat: a tokenizer of characters");
    for (int m = 0; m < count; ++m) {
        const char *role = messages[m].role;
        if (!ppo__given("ppo_tokens_add_chat", role && messages[m].text)) return PPO_ERROR_ARGUMENT;
        if (strcmp(role, "system") && strcmp(role, "user") && strcmp(role, "assistant"))
            return ppo__refuse("ppo_tokens_add_chat: the role of message %d is \"%.40s\", none of system, "
                               "user and assistant",
                               m, role);
        if (most < strlen(messages[m].text) + 64) most = strlen(messages[m].text) + 64;
    }
    if (most > INT_MAX) return ppo__refuse("ppo_tokens_add_chat: a message of %.0f bytes", (double)most);
    memset(&chat, 0, sizeof chat);
    chat.is_start = 1;
    chat.encoder = ppo__encoder_start(tokenizer);
    chat.text = PPO__ARRAY(&chat.encoder.memory, char, most);
    if (chat.text) ppo__encode_chat(&chat, form, messages, count, reply != 0, tokens);
    return ppo__encoder_end(&chat.encoder);
}

/* -- tokenizer.json -- */

#define PPO__METASPACE "\342\226\201" /* SentencePiece's */

/* What cuts a text into words, as files spell it. */
static const struct {
    const char *regex;
    int         digits, mark; /* of ppo__words; what marks count as */
} ppo__tokfile_words[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", 0, PPO__OTHER},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
     "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     3, PPO__OTHER}, /* Llama 3 */
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
     "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     1, PPO__OTHER}, /* Qwen 2 and 3 */
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| "
     "?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|"
     "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     1, PPO__LETTER}, /* Qwen 3.5 */
};

/* A tokenizer.json while it is read. */
typedef struct ppo__tokfile {
    ppo__json      json; /* in the tokenizer's memory */
    ppo_tokenizer *tok;
    ppo__arena     memory;
    short          byte_of[512];  /* the byte that a character of GPT-2's stands for, or -1 */
    int            mark;          /* as what marks count */
    int            spaces, bytes; /* 1: a decoder makes spaces of SentencePiece's, bytes of <0x0A> */
} ppo__tokfile;

/* Refuses the file unless this holds. what: the member that is not supported. */
static void ppo__tokfile_need(ppo__tokfile *file, int holds, const char *what, const char *value) {
    char text[160];
    snprintf(text, sizeof text, "not supported: %s%s", what, value ? " " : "");
    if (!holds) ppo__json_fail(&file->json, text, value);
}

/* "pattern": {"String": text} or {"Regex": text}: only the one that is wanted is there. */
static const char *ppo__tokfile_pattern(ppo__tokfile *file, ppo__value *object, const char *wanted) {
    const char *text = ppo__json_text(&file->json, ppo__json_get(&file->json, object, "pattern"), wanted);
    ppo__tokfile_need(file, text && *text, "pattern without a", wanted);
    return text ? text : "";
}

/* Steps through the components in a member of `whole`: that one, or those of a "Sequence" under the name `list`.
   The type of the next one, or NULL; *part is NULL at first. */
static const char *ppo__tokfile_next(ppo__tokfile *file, ppo__value *whole, const char *name,
                                     const char *list, ppo__value **part) {
    ppo__json  *json = &file->json;
    ppo__value *all = ppo__json_get(json, whole, name);
    const char *type = ppo__json_text(json, all, "type");
    ppo__tokfile_need(file, type || !all, "a component without a type", NULL);
    if (type && !json->status && strcmp(type, "Sequence") == 0) {
        ppo__value *parts = ppo__json_get(json, all, list);
        ppo__tokfile_need(file, parts != NULL, "an empty Sequence", NULL);
        ppo__tokfile_need(file, !parts || parts->count <= 5, "a Sequence of more than 5", NULL);
        if (!ppo__json_each(json, parts, '[', part)) return NULL;
        type = ppo__json_text(json, *part, "type");
        ppo__tokfile_need(file, type != NULL, "a component without a type", NULL);
    } else if (*part) return NULL;
    else *part = all;
    return json->status ? NULL : type;
}

static void ppo__tokfile_normalizer(ppo__tokfile *file, ppo__value *whole) {
    ppo__value *part = NULL;
    for (const char *type; (type = ppo__tokfile_next(file, whole, "normalizer", "normalizers", &part));) {
        ppo__step *step = ppo__add_step(file->tok, PPO__KEEP);
        if (strcmp(type, "Prepend") == 0) {
            step->prefix = ppo__json_text(&file->json, part, "prepend");
            step->always = 1;
        } else if (strcmp(type, "Replace") == 0) {
            step->from = ppo__tokfile_pattern(file, part, "String");
            step->to = ppo__json_text(&file->json, part, "content");
            ppo__tokfile_need(file, step->to != NULL, "Replace without content", NULL);
        } else if (strcmp(type, "NFC") == 0) {
            step->nfc = 1;
            if (!file->tok->nfc.parts) ppo__make_nfc(&file->tok->nfc, &file->tok->memory);
        } else ppo__tokfile_need(file, 0, "normalizer", type);
    }
}

static void ppo__tokfile_cutter(ppo__tokfile *file, ppo__value *whole) {
    const size_t   known = sizeof ppo__tokfile_words / sizeof *ppo__tokfile_words;
    ppo_tokenizer *tok = file->tok;
    ppo__json     *json = &file->json;
    ppo__value    *part = NULL;
    int            has_words = 0;
    tok->kind = PPO__PIECES;
    for (const char *type;
         (type = ppo__tokfile_next(file, whole, "pre_tokenizer", "pretokenizers", &part));) {
        ppo__tokfile_need(file, tok->kind == PPO__PIECES, "what comes after ByteLevel:", type);
        if (strcmp(type, "Split") == 0) {
            const char *regex = ppo__tokfile_pattern(file, part, "Regex");
            const char *behavior = ppo__json_text(json, part, "behavior");
            size_t      w = 0;
            while (w < known && strcmp(regex, ppo__tokfile_words[w].regex) != 0) ++w;
            ppo__tokfile_need(file, w < known && !has_words++, "the expression", regex);
            ppo__tokfile_need(file, behavior && !strcmp(behavior, "Isolated"), "behavior", behavior);
            ppo__tokfile_need(file, !ppo__json_flag(json, part, "invert", 0), "invert", NULL);
            if (json->status) return;
            ppo__add_step(tok, PPO__CUT_WORDS);
            tok->words.digits = ppo__tokfile_words[w].digits, file->mark = ppo__tokfile_words[w].mark;
        } else if (strcmp(type, "Digits") == 0) {
            int each = ppo__json_flag(json, part, "individual_digits", 0);
            ppo__add_step(tok, each ? PPO__CUT_DIGITS : PPO__CUT_NUMBERS);
        } else if (strcmp(type, "ByteLevel") == 0) {
            int words = ppo__json_flag(json, part, "use_regex", 1);
            tok->kind = PPO__BPE;
            ppo__tokfile_need(file, !words || !has_words, "two expressions", NULL);
            if (ppo__json_flag(json, part, "add_prefix_space", 1))
                ppo__add_step(tok, PPO__KEEP)->prefix = " ";
            if (words) ppo__add_step(tok, PPO__CUT_WORDS);
        } else if (strcmp(type, "Metaspace") == 0) {
            const char *space = ppo__json_text(json, part, "replacement");
            const char *scheme = ppo__json_text(json, part, "prepend_scheme");
            int never = scheme && !strcmp(scheme, "never"), first = scheme && !strcmp(scheme, "first");
            ppo__tokfile_need(file, space && !strcmp(space, PPO__METASPACE), "replacement", space);
            ppo__tokfile_need(file, never || first || (scheme && !strcmp(scheme, "always")), "prepend_scheme",
                              scheme);
            ppo__step *step = ppo__add_step(tok, PPO__KEEP);
            if (ppo__json_flag(json, part, "split", 1)) step->kind = PPO__CUT_SPACES;
            step->from = " ";
            step->to = PPO__METASPACE;
            step->prefix = never ? NULL : PPO__METASPACE;
            step->once = first;
        } else ppo__tokfile_need(file, 0, "pre_tokenizer", type);
    }
}

static void ppo__tokfile_decoder(ppo__tokfile *file, ppo__value *whole) {
    static const char *const order[] = {"ByteLevel", "Replace", "ByteFallback", "Fuse", "Strip"};
    ppo__json               *json = &file->json;
    ppo__value              *part = NULL;
    int                      last = -1, of_bytes = file->tok->kind == PPO__BPE;
    for (const char *type; (type = ppo__tokfile_next(file, whole, "decoder", "decoders", &part));) {
        int at = 0;
        while (at < 5 && strcmp(type, order[at]) != 0) ++at;
        ppo__tokfile_need(file, at < 5 && at > last && (of_bytes == !at) && (at != 4 || last == 3), "decoder",
                          type);
        last = at;
        if (at == 1) {
            const char *from = ppo__tokfile_pattern(file, part, "String");
            const char *to = ppo__json_text(json, part, "content");
            file->spaces = to && !strcmp(from, PPO__METASPACE) && !strcmp(to, " ");
            ppo__tokfile_need(file, file->spaces, "Replace of", from);
        }
        if (at == 2) file->bytes = 1;
        if (at == 4) {
            const char *what = ppo__json_text(json, part, "content");
            int64_t start = ppo__json_count(json, part, "start"), stop = ppo__json_count(json, part, "stop");
            ppo__tokfile_need(file, what && !strcmp(what, " ") && start <= 64 && !stop, "Strip of", what);
            file->tok->strip = (int)start;
        }
    }
    ppo__tokfile_need(file, last >= 0, "no decoder", NULL);
}

/* What is put before and after a text. */
static void ppo__tokfile_ends(ppo__tokfile *file, ppo__value *whole) {
    ppo_tokenizer *tok = file->tok;
    ppo__json     *json = &file->json;
    ppo__value    *part = NULL;
    int            side = 0;
    for (const char *type; (type = ppo__tokfile_next(file, whole, "post_processor", "processors", &part));) {
        if (strcmp(type, "ByteLevel") == 0) continue;
        ppo__value *single = ppo__json_get(json, part, "single"), *item = NULL;
        ppo__tokfile_need(file, !strcmp(type, "TemplateProcessing") && single && !side, "post_processor",
                          type);
        while (ppo__json_each(json, single, '[', &item)) {
            ppo__value *token = ppo__json_get(json, item, "SpecialToken");
            const char *name = ppo__json_text(json, token, "id");
            int         id = ppo_tokenizer_special(tok, name);
            side += ppo__json_get(json, item, "Sequence") != NULL;
            ppo__tokfile_need(file, side < 2 && (!token || (id >= 0 && tok->bounds[side] < PPO__MAX_BOUNDS)),
                              "TemplateProcessing with", name);
            if (token && !json->status) tok->bound[side][tok->bounds[side]++] = id;
        }
    }
}

/* Replaces GPT-2's characters by the bytes that they stand for, and returns how many; -1, and nothing is
   changed: the text has others. */
static int ppo__tokfile_bytes(const ppo__tokfile *file, char *text) {
    int n = 0, length;
    for (int pass = 0; pass < 2; ++pass)
        for (const char *at = text; *at; at += length) {
            int32_t code = ppo__utf8_get(at, 4, &length);
            if (code < 0 || code >= 512 || file->byte_of[code] < 0) return -1;
            if (pass) text[n++] = (char)file->byte_of[code];
        }
    return n;
}

/* The length of a name, which becomes bytes if the tokenizer is of bytes. -1: it is of others. */
static int ppo__tokfile_name(const ppo__tokfile *file, char *name) {
    return file->tok->kind == PPO__BPE ? ppo__tokfile_bytes(file, name) : (int)strlen(name);
}

/* The token that the vocabulary has under this name, whose text is changed; -1: none. Its length becomes
   *bytes. */
static int ppo__tokfile_find(const ppo__tokfile *file, char *name, int *bytes) {
    uint64_t slot;
    *bytes = ppo__tokfile_name(file, name);
    return *bytes < 0 ? -1 : ppo__find_key(file->tok, name, (size_t)*bytes, &slot);
}

static void ppo__tokfile_added(ppo__tokfile *file, ppo__value *list) {
    ppo_tokenizer *tok = file->tok;
    ppo__json     *json = &file->json;
    ppo__value    *item = NULL;
    if (!list) return;
    ppo__tokfile_need(file, list->count <= PPO_MAX_VOCAB, "more added tokens than PPO_MAX_VOCAB", NULL);
    if (!json->status) tok->added = PPO__ZEROS(&tok->memory, ppo__added, (size_t)list->count);
    while (tok->added && ppo__json_each(json, list, '[', &item)) {
        ppo__added *added = &tok->added[tok->added_count];
        int64_t     id = ppo__json_count(json, item, "id");
        added->name = added->pattern = ppo__json_text(json, item, "content");
        ppo__tokfile_need(file, added->name && ppo__json_get(json, item, "id"),
                          "an added token without id or content", NULL);
        if (json->status) return;
        added->name_bytes = added->bytes = (int)strlen(added->name);
        added->special = ppo__json_flag(json, item, "special", 0);
        added->left = ppo__json_flag(json, item, "lstrip", 0);
        added->right = ppo__json_flag(json, item, "rstrip", 0);
        added->normalized = ppo__json_flag(json, item, "normalized", !added->special);
        ppo__tokfile_need(file, !ppo__json_flag(json, item, "single_word", 0), "single_word", NULL);
        ppo__tokfile_need(file, id < PPO_MAX_VOCAB && added->bytes, "the added token", added->name);
        if (json->status) return;
        added->token = (int)id;
        if (tok->vocab <= id) tok->vocab = (int)id + 1;
        ++tok->added_count;
    }
}

/* {"a": 0, ...}: how the merges call tokens. */
static void ppo__tokfile_vocab(ppo__tokfile *file, ppo__value *vocab) {
    ppo_tokenizer *tok = file->tok;
    ppo__json     *json = &file->json;
    ppo__value    *item = NULL;
    uint64_t       slot;
    while (ppo__json_each(json, vocab, '{', &item)) {
        int64_t id = ppo__json_integer(json);
        if (id >= PPO_MAX_VOCAB) ppo__json_fail(json, "a token above 262143", NULL);
        else if (tok->vocab <= id) tok->vocab = (int)id + 1;
    }
    tok->key = PPO__ZEROS(&tok->memory, const char *, (size_t)tok->vocab);
    tok->key_bytes = PPO__ZEROS(&tok->memory, int, (size_t)tok->vocab);
    for (item = NULL; !tok->memory.failed && ppo__json_each(json, vocab, '{', &item);) {
        char *name = (char *)item->key;
        int   id = (int)ppo__json_whole(json), bytes = ppo__tokfile_name(file, name);
        if (tok->key[id]) ppo__json_fail(json, "a token that is there twice: ", name);
        tok->key[id] = name;
        tok->key_bytes[id] = bytes < 0 ? (int)strlen(name) : bytes;
        if (bytes < 0) continue; /* no text of bytes is called so, so nothing needs to find it */
        if (ppo__find_key(tok, name, (size_t)bytes, &slot) >= 0)
            ppo__json_fail(json, "a name that is there twice: ", name);
        ppo__map_put(&tok->by_key, &tok->memory, slot, id);
    }
}

/* ["a b", ...] or [["a", "b"], ...]. */
static void ppo__tokfile_merges(ppo__tokfile *file, ppo__value *merges) {
    ppo_tokenizer *tok = file->tok;
    ppo__json     *json = &file->json;
    ppo__value    *item = NULL;
    tok->units = PPO__ARRAY(&tok->memory, int32_t, 2 * (size_t)merges->count);
    tok->joined = PPO__ARRAY(&tok->memory, int32_t, (size_t)merges->count);
    while (!tok->memory.failed && ppo__json_each(json, merges, '[', &item)) {
        int      is_list = item->kind == '[' && item->size == 3, n = tok->unit_count++, token = -1, bytes[2];
        char    *left = ppo__json_decode(json, item + is_list), *space = strchr(left, ' ');
        char    *right = is_list ? ppo__json_decode(json, item + 2) : space ? space + 1 : NULL;
        int32_t *unit = &tok->units[2 * n];
        uint64_t slot;
        if (!right || (!is_list && strchr(right, ' '))) ppo__json_fail(json, "not two names: ", left);
        if (json->status) return;
        if (!is_list) *space = 0;
        unit[0] = ppo__tokfile_find(file, left, &bytes[0]);
        unit[1] = ppo__tokfile_find(file, right, &bytes[1]);
        if (unit[0] >= 0 && unit[1] >= 0) {
            memmove(left + bytes[0], right, (size_t)bytes[1]); /* what was between is not needed */
            token = ppo__find_key(tok, left, (size_t)bytes[0] + (size_t)bytes[1], &slot);
            left[bytes[0]] = 0;
        }
        if (token < 0) ppo__json_fail(json, "a merge from or to no token of the vocabulary: ", left);
        tok->joined[n] = token;
        ppo__map_put(&tok->by_unit, &tok->memory, ppo__pair_key(unit[0], unit[1]), n);
    }
}

/* The texts of all tokens, from their names. */
static void ppo__tokfile_spell(ppo__tokfile *file) {
    ppo_tokenizer     *tok = file->tok;
    double             total = 0;
    const ppo__added **added = PPO__ZEROS(&file->memory, const ppo__added *, (size_t)tok->vocab);
    tok->start = PPO__ZEROS(&tok->memory, int, (size_t)tok->vocab + 1);
    tok->special = PPO__ZEROS(&tok->memory, char, (size_t)tok->vocab);
    if (file->memory.failed || tok->memory.failed) return;
    for (int k = 0; k < tok->added_count; ++k) {
        const ppo__added *one = &tok->added[k];
        int               t = one->token, bytes;
        char             *copy = PPO__ARRAY(&file->memory, char, (size_t)one->name_bytes + 1);
        if (!copy) return;
        strcpy(copy, one->name);
        int found = ppo__tokfile_find(file, copy, &bytes);
        if (bytes < 0) bytes = one->name_bytes;
        int same = tok->key[t] && tok->key_bytes[t] == bytes && memcmp(tok->key[t], copy, (size_t)bytes) == 0;
        ppo__tokfile_need(file, !added[t] && (same || (found < 0 && !tok->key[t])),
                          "two names of a token, or tokens of a name:", one->name);
        if (file->json.status) return;
        added[t] = one;
        tok->special[t] = (char)one->special;
    }
    for (int t = 0; t < tok->vocab; ++t) total += tok->key_bytes[t] + (added[t] ? added[t]->bytes : 0);
    ppo__tokfile_need(file, total < INT_MAX, "names of more than 2 GB", NULL);
    if (file->json.status) return;
    char *out = tok->bytes = PPO__ARRAY(&tok->memory, char, (size_t)total + 1);
    for (int t = 0; t < tok->vocab && out; ++t) {
        int         is_key = tok->key[t] && !(added[t] && added[t]->normalized);
        const char *text = is_key ? tok->key[t] : added[t] ? added[t]->pattern : "";
        int         n = is_key ? tok->key_bytes[t] : added[t] ? added[t]->bytes : 0, bytes = -1;
        memcpy(out, text, (size_t)n);
        out[n] = 0;
        if (tok->kind == PPO__BPE && !is_key) bytes = ppo__tokfile_bytes(file, out);
        if (bytes >= 0) n = bytes;
        if (file->bytes && n == 6 && !strncmp(out, "<0x", 3) && out[5] == '>' &&
            strspn(out + 3, "0123456789abcdefABCDEF") == 2) {
            *out = (char)strtol(out + 3, NULL, 16);
            n = 1;
        }
        for (char *space = out; file->spaces && (space = strstr(space, PPO__METASPACE)) != NULL; n -= 2) {
            *space++ = ' ';
            memmove(space, space + 2, strlen(space + 2) + 1);
        }
        out += n;
        tok->start[t + 1] = tok->start[t] + n;
    }
}

/* May a text be cut before its runs of spaces? Yes if no token has a space after something else. */
static int ppo__tokfile_may_cut(const ppo_tokenizer *tok) {
    uint64_t slot;
    for (int t = 0; t < tok->vocab; ++t)
        for (const char *key = tok->key[t], *at = key; at && (at = strstr(at, PPO__METASPACE)) != NULL;
             at += 3)
            if (at > key && (at < key + 3 || memcmp(at - 3, PPO__METASPACE, 3) != 0)) return 0;
    return ppo__find_key(tok, PPO__METASPACE, 3, &slot) >= 0;
}

static void ppo__tokfile_model(ppo__tokfile *file, ppo__value *model) {
    static const char *const strange[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    ppo_tokenizer           *tok = file->tok;
    ppo__json               *json = &file->json;
    const char              *type = ppo__json_text(json, model, "type");
    uint64_t                 slot;
    char                     name[8];
    int                      length = 0, fallback;
    ppo__tokfile_need(file, !type || strcmp(type, "BPE") == 0, "model", type);
    ppo__value *vocab = ppo__json_get(json, model, "vocab"), *merges = ppo__json_get(json, model, "merges");
    ppo__tokfile_need(file, vocab && merges, "a model without vocab or merges", NULL);
    for (int k = 0; k < 2; ++k) {
        const char *text = ppo__json_text(json, model, strange[k]);
        ppo__tokfile_need(file, !text || !*text, strange[k], text);
    }
    ppo__tokfile_need(file, !ppo__json_get(json, model, "dropout") || ppo__json_number(json) == 0, "dropout",
                      NULL);
    if (!json->status) ppo__tokfile_vocab(file, vocab);
    if (!json->status && !tok->memory.failed) ppo__tokfile_merges(file, merges);
    if (!json->status && !tok->memory.failed) ppo__tokfile_spell(file);
    if (json->status || tok->memory.failed || file->memory.failed) return;
    char *unknown = ppo__json_text(json, model, "unk_token");
    tok->unknown = unknown ? ppo__tokfile_find(file, unknown, &length) : -1;
    ppo__tokfile_need(file, !unknown || tok->unknown >= 0, "unk_token", unknown);
    tok->fuse = ppo__json_flag(json, model, "fuse_unk", 0);
    tok->whole = ppo__json_flag(json, model, "ignore_merges", 0);
    fallback = ppo__json_flag(json, model, "byte_fallback", 0);
    for (int byte = 0; byte < 256; ++byte) {
        name[0] = (char)byte;
        tok->of_byte[byte] = tok->kind == PPO__BPE || byte < 128 ? ppo__find_key(tok, name, 1, &slot) : -1;
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
        tok->fallback[byte] = fallback ? ppo__find_key(tok, name, 6, &slot) : -1;
        ppo__tokfile_need(file, !fallback || tok->fallback[byte] >= 0, "byte_fallback without", name);
    }
}

/* Those of the added tokens that are found after the rewriting, from `raw` on, are found as it makes them. */
static void ppo__tokfile_rewrite(ppo__tokfile *file, int raw) {
    ppo_tokenizer *tok = file->tok;
    ppo__encoder   encoder = ppo__encoder_start(tok);
    for (int k = raw; k < tok->added_count && !tok->memory.failed && !file->json.status; ++k) {
        ppo__added *added = &tok->added[k];
        size_t      bytes = (size_t)added->bytes;
        const char *pattern = added->name;
        for (int i = 1; i < tok->step_count; ++i) pattern = ppo__rewrite(&encoder, i, pattern, &bytes, 1);
        char *kept = PPO__ARRAY(&tok->memory, char, bytes);
        if (kept) memcpy(kept, pattern, bytes);
        added->pattern = kept;
        added->bytes = (int)bytes;
        ppo__tokfile_need(file, bytes > 0, "a name that the normalizer empties:", added->name);
    }
    ppo_status status = ppo__encoder_end(&encoder);
    if (status && !tok->memory.failed) tok->memory.failed = status;
    if (!tok->memory.failed && !file->json.status) ppo__add_find(tok, raw, tok->added_count);
}

/* Makes tok of a text in its memory, of which it keeps a copy as it is. */
static ppo_status ppo__tokfile_read(ppo_tokenizer *tok, const ppo__json *json) {
    ppo__tokfile file;
    int          order[256], raw = 0;
    tok->json_bytes = (size_t)(json->end - json->start);
    tok->json = PPO__ARRAY(&tok->memory, char, tok->json_bytes + 1);
    if (!tok->json) return PPO_ERROR_MEMORY;
    memcpy(tok->json, json->start, tok->json_bytes + 1);
    memset(&file, 0, sizeof file);
    file.tok = tok;
    file.mark = PPO__OTHER;
    file.json = *json;
    file.json.at = json->start + (strncmp(json->start, "\357\273\277", 3) ? 0 : 3);
    memset(file.byte_of, -1, sizeof file.byte_of);
    ppo__order_bytes(order);
    for (int b = 0; b < 256; ++b) file.byte_of[order[b] < 188 ? b : order[b] + 68] = (short)b;
    ppo__value *whole = ppo__json_tree(&file.json, &file.memory);
    ppo__value *model = ppo__json_get(&file.json, whole, "model");
    ppo__tokfile_need(&file, model != NULL, "a tokenizer without a model", NULL);
    ppo__tokfile_added(&file, ppo__json_get(&file.json, whole, "added_tokens"));
    /* Those that are found in the text itself come first. */
    for (int k = 0; k < tok->added_count && !tok->memory.failed; ++k) {
        ppo__added swap = tok->added[k];
        if (swap.normalized) continue;
        tok->added[k] = tok->added[raw];
        tok->added[raw++] = swap;
    }
    ppo__add_find(tok, 0, raw);
    ppo__tokfile_normalizer(&file, whole);
    if (!file.json.status) ppo__tokfile_rewrite(&file, raw);
    ppo__tokfile_cutter(&file, whole);
    tok->words.kinds = ppo__make_kinds(&tok->memory, file.mark, 0);
    ppo__tokfile_decoder(&file, whole);
    if (!file.json.status && !tok->memory.failed) ppo__tokfile_model(&file, model);
    if (!file.json.status && !tok->memory.failed && !file.memory.failed) {
        ppo__tokfile_ends(&file, whole);
        if (tok->kind == PPO__PIECES && ppo__tokfile_may_cut(tok)) ppo__add_step(tok, PPO__CUT_RUNS);
    }
    ppo_status status = file.json.status;
    if (!status) status = ppo__arena_status(&tok->memory);
    if (!status) status = ppo__arena_status(&file.memory);
    ppo__arena_free(&file.memory);
    return status;
}

/* -- in files -- */

static const struct {
    const char *name, *array;
    int         type, rank; /* of the array */
} ppo__tokenizer_kinds[] = {{"characters", "tokenizer.characters", PPO_I32, 1},
                            {"bpe", "tokenizer.merges", PPO_I32, 2},
                            {"json", "tokenizer.json", PPO_U8, 1}};

PPO_DEF ppo_status ppo_tokenizer_put(const ppo_tokenizer *tokenizer, ppo_file *file) {
    if (!ppo__given("ppo_tokenizer_put", tokenizer && file)) return PPO_ERROR_ARGUMENT;
    const int     json = tokenizer->json != NULL, kind = json ? 2 : tokenizer->kind;
    const int     first = tokenizer->vocab - tokenizer->added_count;
    const int64_t shape[2] = {json ? (int64_t)tokenizer->json_bytes : tokenizer->unit_count, 2};
    const void   *data = json ? (const void *)tokenizer->json : tokenizer->units;
    if (ppo_file_add(file, ppo__tokenizer_kinds[kind].array, ppo__tokenizer_kinds[kind].type, shape,
                     ppo__tokenizer_kinds[kind].rank, data) ||
        ppo_file_set_text(file, "tokenizer", ppo__tokenizer_kinds[kind].name))
        return ppo__failed;
    if (json) return PPO_OK;
    const size_t bytes = (size_t)(tokenizer->start[tokenizer->vocab] - tokenizer->start[first]);
    char        *names = PPO__ARRAY(&file->memory, char, bytes + (size_t)tokenizer->added_count + 1);
    if (!names) return PPO_ERROR_MEMORY;
    *names = 0;
    for (int t = first, at = 0; t < tokenizer->vocab; ++t)
        at += sprintf(names + at, "%s%.*s", t > first ? "\n" : "", ppo__token_length(tokenizer, t),
                      tokenizer->bytes + tokenizer->start[t]);
    if (kind == PPO__BPE && !tokenizer->is_old && ppo_file_set_text(file, "tokenizer.words", "gpt2"))
        return ppo__failed;
    return ppo_file_set_text(file, "tokenizer.specials", names);
}

/* Makes a tokenizer of the bytes of a tokenizer.json, or of the file at path. */
static ppo_status ppo__tokfile_load(const char *path, const ppo_array *array, ppo_tokenizer **tokenizer) {
    ppo_tokenizer *tok = (ppo_tokenizer *)ppo__alloc(sizeof *tok);
    ppo__json      json = {path, " of \"tokenizer.json\"", NULL, NULL, NULL, PPO_OK};
    if (!tok) return PPO_ERROR_MEMORY;
    if (!array) ppo__json_open(&json, path, &tok->memory);
    else if ((json.start = PPO__ARRAY(&tok->memory, char, array->bytes + 1)) != NULL) {
        json.end = json.start + array->bytes;
        if (array->bytes) memcpy(json.start, array->data, array->bytes);
        *json.end = 0;
    } else json.status = PPO_ERROR_MEMORY;
    ppo_status status = json.status ? json.status : ppo__tokfile_read(tok, &json);
    if (status) ppo_tokenizer_free(tok);
    else *tokenizer = tok;
    return status;
}

PPO_DEF ppo_status ppo_tokenizer_get(const ppo_file *file, ppo_tokenizer **tokenizer) {
    if (tokenizer) *tokenizer = NULL;
    if (!ppo__given("ppo_tokenizer_get", file && tokenizer)) return PPO_ERROR_ARGUMENT;
    const char *word = ppo_file_text(file, "tokenizer"), *lines = ppo_file_text(file, "tokenizer.specials");
    const char *words = ppo_file_text(file, "tokenizer.words");
    int         kind = 0;
    if (!word) return ppo__file_fail(file->path, "there is no text \"tokenizer\"");
    while (kind < 3 && strcmp(word, ppo__tokenizer_kinds[kind].name) != 0) ++kind;
    if (kind == 3)
        return ppo__file_fail(
            file->path, "corrupt file: the tokenizer is \"%.60s\", not \"characters\", \"bpe\" or \"json\"",
            word);
    if (!lines && kind < 2) return ppo__file_fail(file->path, "there is no text \"tokenizer.specials\"");
    if (words && strcmp(words, "gpt2") != 0)
        return ppo__file_fail(file->path, "corrupt file: \"tokenizer.words\" is \"%.60s\", not \"gpt2\"",
                              words);
    const char      *name = ppo__tokenizer_kinds[kind].array;
    const ppo_array *array = ppo_file_find(file, name);
    int64_t          shape[2] = {array && array->rank ? array->shape[0] : 0, 2};
    if (ppo_file_expect(file, name, ppo__tokenizer_kinds[kind].type, shape, ppo__tokenizer_kinds[kind].rank,
                        &array))
        return ppo__failed;
    if (kind == 2) return ppo__tokfile_load(file->path, array, tokenizer);
    if (shape[0] > PPO_MAX_VOCAB)
        return ppo__file_fail(file->path, "corrupt file: \"%s\" has %lld rows, more than %d", name,
                              (long long)shape[0], (int)PPO_MAX_VOCAB);
    ppo__arena   memory = {NULL, NULL, PPO_OK};
    int          count = 0; /* of the names, which may be too many */
    char        *copy = PPO__ARRAY(&memory, char, strlen(lines) + 1);
    const char **names = PPO__ARRAY(&memory, const char *, PPO_MAX_SPECIALS);
    ppo_status   status = ppo__arena_status(&memory);
    for (char *line = status || !*lines ? NULL : strcpy(copy, lines), *end; line; line = end, ++count) {
        end = strchr(line, '\n');
        if (count < PPO_MAX_SPECIALS) names[count] = line;
        if (end) *end++ = 0;
    }
    const int32_t *units = (const int32_t *)array->data;
    if (!status) status = ppo__tokenizer_make(kind, !words, units, (int)shape[0], names, count, tokenizer);
    ppo__arena_free(&memory);
    return status == PPO_ERROR_ARGUMENT ? ppo__file_fail(file->path, "corrupt file: %s", ppo__error) : status;
}

static ppo_status ppo__put_tokenizer(ppo_file *file, const void *tokenizer) {
    return ppo_tokenizer_put((const ppo_tokenizer *)tokenizer, file);
}

static ppo_status ppo__write_json(FILE *out, const char *path, void *user) {
    const ppo_tokenizer *tok = (const ppo_tokenizer *)user;
    fwrite(tok->json, 1, tok->json_bytes, out); /* failures stay in `out` */
    return PPO_OK;
}

/* In memory that the caller frees: the path, or that of the tokenizer.json in it if it is a folder. *is_json:
   it is one by its name. */
static PPO__NOINLINE char *ppo__tokenizer_path(const char *path, int *is_json) {
    static const char name[] = "/tokenizer.json";
    char             *whole = (char *)ppo__alloc(strlen(path) + sizeof name);
    if (!whole) return NULL;
    strcpy(whole, path);
    if (ppo__is_special(path)) strcat(whole, name);
    size_t length = strlen(whole);
    *is_json = length >= 5 && strcmp(whole + length - 5, ".json") == 0;
    return whole;
}

PPO_DEF ppo_status ppo_tokenizer_save(const ppo_tokenizer *tokenizer, const char *path) {
    int is_json;
    if (!ppo__given("ppo_tokenizer_save", tokenizer && path)) return PPO_ERROR_ARGUMENT;
    char *whole = ppo__tokenizer_path(path, &is_json);
    if (!whole) return PPO_ERROR_MEMORY;
    ppo_status status;
    if (!is_json) status = ppo__save("ppo_tokenizer_save", whole, ppo__put_tokenizer, tokenizer);
    else if (tokenizer->json) status = ppo__write_file(whole, ppo__write_json, (void *)tokenizer);
    else
        status = ppo__refuse(
            "ppo_tokenizer_save: \"%.60s\", but the tokenizer was not read from a tokenizer.json", path);
    ppo__free(whole);
    return status;
}

PPO_DEF ppo_status ppo_tokenizer_load(const char *path, ppo_tokenizer **tokenizer) {
    ppo_file *file = NULL;
    int       is_json;
    if (tokenizer) *tokenizer = NULL;
    if (!ppo__given("ppo_tokenizer_load", path && tokenizer)) return PPO_ERROR_ARGUMENT;
    char *whole = ppo__tokenizer_path(path, &is_json);
    if (!whole) return PPO_ERROR_MEMORY;
    ppo_status status = is_json ? ppo__tokfile_load(whole, NULL, tokenizer) : ppo_file_read(whole, &file);
    if (!status && !is_json) status = ppo_tokenizer_get(file, tokenizer);
    ppo_file_free(file);
    ppo__free(whole);
    return status;
}

/* --------------------------------------------------------------------------------------------------------
   @@ 18 Transformer

   ppo__lm_rows() is the model: embeddings, blocks, last norm. It works on rows, each of them a token at a
   position; what a row attends to is left to a callback, because training attends within whole sequences, and
   sampling (section 20) to cached keys and values.

   To add a model family: a row of PPO__LM_FAMILIES with its settings; in section 19 its class, and its names of
   settings and parameters where they differ from llama's. To add something that a family computes otherwise: a
   field of ppo_lm_config, its row in ppo__lm_fields, its lines in ppo__lm_rows(); for parameters, rows of
   ppo__lm_layers; an operation also in ppo_cuda.cuh. Everything else uses ppo_lm_forward(), ppo_lm_logits(),
   ppo_lm_score().
   -------------------------------------------------------------------------------------------------------- */

/* Attention takes each head of each sequence separately, as matrices Q, K, V of (n, size):

       P = softmax(Q K^T / sqrt(size)), row i up to column i        Y = P V
       dV = P^T dY    dS = P (dY V^T - rowsum(P dY V^T)) / sqrt(size)    dQ = dS K    dK = dS^T Q

   in tiles of rows, none of which reads further right than its last row attends to. P is kept for backward:
   for each sequence `heads` matrices (n, n), whose upper right stays 0 within a tile. */
enum { PPO__ATTENTION_ROWS = 32 };

typedef struct ppo__attention_args {
    ppo_attention how; /* nothing is 0 but the window */
    int           size, count;
    const int    *start;
} ppo__attention_args;

/* The first of the columns 0 .. i that row i attends to. */
static int ppo__attend_first(const ppo_attention *how, int i) {
    return how->window && i >= how->window ? i + 1 - how->window : 0;
}

typedef struct ppo__head {           /* one head of one sequence */
    int          n, size, ld, width; /* rows; columns; stride of the rows of q, k, v, and of y */
    const float *q, *k, *v;
    float       *p; /* (n, n) */
} ppo__head;

/* kt: k transposed (size, n) */
static void ppo__attend(const ppo_attention *how, const ppo__head *h, const float *kt, float *y) {
    const ppo__kernels *k = ppo__k();
    for (int i = 0; i < h->n; i += PPO__ATTENTION_ROWS) {
        int    rows = h->n - i < PPO__ATTENTION_ROWS ? h->n - i : PPO__ATTENTION_ROWS, seen = i + rows;
        float *p = h->p + ppo__at(i, h->n);
        k->gemm(rows, seen, h->size, h->q + ppo__at(i, h->ld), h->ld, 1, kt, h->n, NULL, 0, p, h->n);
        for (int r = 0; r < rows; ++r) {
            float *row = p + ppo__at(r, h->n);
            int    first = ppo__attend_first(how, i + r);
            memset(row, 0, first * sizeof(float));
            k->softmax(how->scale, row + first, i + r + 1 - first);
            memset(row + i + r + 1, 0, (size_t)(rows - r - 1) * sizeof(float));
        }
        k->gemm(rows, h->size, seen, p, h->n, 1, h->v, h->ld, NULL, 0, y + ppo__at(i, h->width), h->width);
    }
}

/* vt: v transposed (size, n). Scratch: ds (ATTENTION_ROWS, n). */
static void ppo__attend_backward(const ppo_attention *how, const ppo__head *h, const float *dy,
                                 const float *vt, float *ds, float *dq, float *dk, float *dv) {
    const ppo__kernels *k = ppo__k();
    for (int i = 0; i < h->n; i += PPO__ATTENTION_ROWS) {
        int          rows = h->n - i < PPO__ATTENTION_ROWS ? h->n - i : PPO__ATTENTION_ROWS, seen = i + rows;
        const float *p = h->p + ppo__at(i, h->n), *dy_i = dy + ppo__at(i, h->width);
        float       *dq_i = dq + ppo__at(i, h->ld);
        k->gemm(seen, h->size, rows, p, 1, h->n, dy_i, h->width, dv, h->ld, dv, h->ld);
        k->gemm(rows, seen, h->size, dy_i, h->width, 1, vt, h->n, NULL, 0, ds, h->n);
        for (int r = 0; r < rows; ++r) {
            float *row = ds + ppo__at(r, h->n);
            int    first = ppo__attend_first(how, i + r);
            memset(row, 0, first * sizeof(float));
            k->softmax_backward(how->scale, p + ppo__at(r, h->n) + first, row + first, row + first,
                                i + r + 1 - first);
            memset(row + i + r + 1, 0, (size_t)(rows - r - 1) * sizeof(float));
        }
        k->gemm(rows, h->size, seen, ds, h->n, 1, h->k, h->ld, dq_i, h->ld, dq_i, h->ld);
        k->gemm(seen, h->size, rows, ds, 1, h->n, h->q + ppo__at(i, h->ld), h->ld, dk, h->ld, dk, h->ld);
    }
}

typedef struct ppo__attention_job {
    ppo_node *node;
    size_t    scratch; /* floats for each range: K or V transposed, and a tile of rows of dS */
    int       backward;
} ppo__attention_job;

/* Heads begin .. end-1 of the keys of all sequences, each with the heads of its queries. */
static void ppo__attention_range(void *user, int range, int begin, int end) {
    const ppo__attention_job  *job = (const ppo__attention_job *)user;
    const ppo_tensor          *qkv = job->node->in[0], *out = job->node->out[0];
    const ppo__attention_args *args = (const ppo__attention_args *)job->node->args;
    const ppo_attention       *how = &args->how;
    const int                  queries = how->heads / how->kv_heads, size = args->size;
    float                     *scratch = job->node->scratch + range * job->scratch;
    ppo__head                  h;
    memset(&h, 0, sizeof h);
    h.width = out->cols;
    h.ld = qkv->cols;
    h.size = size;
    h.p = (float *)job->node->kept;
    for (int i = 0; i < end; ++i, h.p += ppo__at(h.n, h.n) * queries) {
        int start = args->start[i / how->kv_heads], head = i % how->kv_heads;
        h.n = args->start[i / how->kv_heads + 1] - start;
        if (i < begin) continue;
        size_t    row = ppo__at(start, h.ld), q = row + ppo__at(head, queries * size);
        size_t    k = row + ppo__at(how->heads + head, size), v = k + ppo__at(how->kv_heads, size);
        size_t    y = ppo__at(start, h.width) + ppo__at(head, queries * size);
        ppo__head one = h;
        one.k = qkv->data + k;
        one.v = qkv->data + v;
        ppo__k()->transpose(h.n, size, job->backward ? one.v : one.k, h.ld, scratch, h.n);
        for (int g = 0; g < queries; ++g, q += (size_t)size, y += (size_t)size, one.p += ppo__at(h.n, h.n)) {
            one.q = qkv->data + q;
            if (!job->backward) ppo__attend(how, &one, scratch, out->data + y);
            else
                ppo__attend_backward(how, &one, out->grad + y, scratch, scratch + ppo__at(h.n, size),
                                     qkv->grad + q, qkv->grad + k, qkv->grad + v);
        }
    }
}

static ppo_status ppo__attention_run(ppo_node *node, int backward) {
    const ppo__attention_args *args = (const ppo__attention_args *)node->args;
    int                        heads = args->how.heads, n = args->how.kv_heads * args->count, longest = 0;
    size_t                     numbers = 0; /* of all P */
    for (int s = 0; s < args->count; ++s) {
        int length = args->start[s + 1] - args->start[s];
        if (length > longest) longest = length;
        numbers += ppo__at(heads, length) * (size_t)length;
    }
    double             work = 2.0 * (double)numbers / n * args->size;
    size_t             scratch = ppo__at(longest, args->size) + ppo__at(longest, PPO__ATTENTION_ROWS);
    ppo__attention_job job = {node, scratch, backward};
    if (!backward) node->kept = ppo_tape_alloc(node->tape, numbers);
    node->scratch = ppo_tape_alloc(node->tape, ppo__range_count(n, 1, work) * job.scratch);
    if (!node->kept || !node->scratch) return PPO_ERROR_MEMORY;
    ppo__parallel_for(n, 1, work, ppo__attention_range, &job);
    return PPO_OK;
}

static ppo_status ppo__attention_forward(ppo_node *node) { return ppo__attention_run(node, 0); }
static void       ppo__attention_backward(ppo_node *node) { ppo__attention_run(node, 1); }

PPO_DEF ppo_tensor *ppo_tape_attention(ppo_tape *tape, ppo_tensor *qkv, const ppo_attention *how,
                                       const int *start, int count) {
    static const ppo_op op = {"attention", 1, ppo__attention_forward, ppo__attention_backward};
    if (!ppo__operands(tape, op.name, qkv, start && how ? qkv : NULL)) return NULL;
    ppo__attention_args args = {*how, 0, count, start};
    if (!how->kv_heads) args.how.kv_heads = how->heads;
    int all = how->heads > 0 && args.how.kv_heads > 0 && how->heads % args.how.kv_heads == 0 &&
                      how->heads <= qkv->cols
                  ? how->heads + 2 * args.how.kv_heads
                  : 0;
    int fits = all && qkv->cols % all == 0 && how->window >= 0 && how->scale >= 0 && count > 0 &&
               start[0] == 0 && start[count] == qkv->rows;
    for (int s = 0; s < count && fits; ++s) fits = start[s] < start[s + 1];
    if (!fits) {
        ppo__refuse("attention: (%d, %d) is not %d heads of queries, %d of keys and values in %d sequences",
                    qkv->rows, qkv->cols, how->heads, args.how.kv_heads, count);
        return (ppo_tensor *)ppo__tape_fail(tape, PPO_ERROR_ARGUMENT);
    }
    args.size = qkv->cols / all;
    if (!(how->scale > 0)) args.how.scale = 1 / sqrtf((float)args.size);
    return ppo_tape_result(
        ppo_tape_apply(tape, &op, &qkv, 1, qkv->rows, how->heads * args.size, &args, sizeof args));
}

/* Of a row: y += x, the columns of heads turned by sign times their angles. */
static void ppo__rotate(const float *x, const float *angle, int cols, int heads, int size, int half,
                        float sign, float *y) {
    for (int h = 0; h < heads; ++h, x += size, y += size) {
        for (int j = 0; j < half; ++j) {
            float c = angle[j], s = sign * angle[half + j];
            y[j] += x[j] * c - x[j + half] * s;
            y[j + half] += x[j + half] * c + x[j] * s;
        }
        for (int j = 2 * half; j < size; ++j) y[j] += x[j];
    }
    for (int j = 0; j < cols - heads * size; ++j) y[j] += x[j];
}

typedef struct ppo__rotary_args {
    int heads, size;
} ppo__rotary_args;

static ppo_status ppo__rotary_forward(ppo_node *node) {
    const ppo__rotary_args *args = (const ppo__rotary_args *)node->args;
    const ppo_tensor       *x = node->in[0], *angle = node->in[1];
    memset(node->out[0]->data, 0, ppo__size(x) * sizeof(float));
    for (int i = 0; i < x->rows; ++i)
        ppo__rotate(x->data + ppo__at(i, x->cols), angle->data + ppo__at(i, angle->cols), x->cols,
                    args->heads, args->size, angle->cols / 2, 1, node->out[0]->data + ppo__at(i, x->cols));
    return PPO_OK;
}

static void ppo__rotary_backward(ppo_node *node) {
    const ppo__rotary_args *args = (const ppo__rotary_args *)node->args;
    const ppo_tensor       *x = node->in[0], *angle = node->in[1];
    for (int i = 0; i < x->rows && x->grad; ++i)
        ppo__rotate(node->out[0]->grad + ppo__at(i, x->cols), angle->data + ppo__at(i, angle->cols), x->cols,
                    args->heads, args->size, angle->cols / 2, -1, x->grad + ppo__at(i, x->cols));
}

PPO_DEF ppo_tensor *ppo_tape_rotary(ppo_tape *tape, ppo_tensor *x, ppo_tensor *angle, int heads, int size) {
    static const ppo_op    op = {"rotary", 1, ppo__rotary_forward, ppo__rotary_backward};
    const ppo__rotary_args args = {heads, size};
    if (!ppo__operands(tape, op.name, x, angle)) return NULL;
    if (angle->rows != x->rows || angle->cols % 2 || angle->cols > size)
        return ppo__shape_error(tape, op.name, x, angle);
    if (heads < 1 || size < 1 || heads > x->cols / size) {
        ppo__refuse("rotary: %d heads of %d columns in %d", heads, size, x->cols);
        return (ppo_tensor *)ppo__tape_fail(tape, PPO_ERROR_ARGUMENT);
    }
    ppo_tensor *in[2] = {x, angle};
    return ppo_tape_result(ppo_tape_apply(tape, &op, in, 2, x->rows, x->cols, &args, sizeof args));
}

/* RMS norms of queries and keys, head by head: of x (rows, (heads + 2 kv_heads) size), the first `heads` heads by
   one weight (1, size), the next kv_heads by another. kept: a 0, and 1 / root mean square, of each. */
typedef struct ppo__head_norm_args {
    int   heads, kv_heads;
    float eps;
} ppo__head_norm_args;

static ppo_status ppo__head_norm_forward(ppo_node *node) {
    const ppo__head_norm_args *args = (const ppo__head_norm_args *)node->args;
    const ppo_tensor          *x = node->in[0];
    const int                  size = node->in[1]->cols, heads = args->heads + args->kv_heads;
    float *kept = ppo_tape_alloc(node->tape, ppo__at(x->rows, 2 * heads)), *y = node->out[0]->data;
    node->kept = kept;
    if (!kept) return PPO_ERROR_MEMORY;
    memcpy(y, x->data, ppo__size(x) * sizeof(float));
    for (int i = 0; i < x->rows; ++i)
        for (int h = 0; h < heads; ++h, kept += 2) {
            size_t at = ppo__at(i, x->cols) + ppo__at(h, size);
            ppo__k()->norm(0, args->eps, x->data + at, node->in[h < args->heads ? 1 : 2]->data, NULL, y + at,
                           size, &kept[0], &kept[1]);
        }
    return PPO_OK;
}

static void ppo__head_norm_backward(ppo_node *node) {
    const ppo__head_norm_args *args = (const ppo__head_norm_args *)node->args;
    const ppo_tensor          *x = node->in[0];
    const int                  size = node->in[1]->cols, heads = args->heads + args->kv_heads;
    const float               *kept = (const float *)node->kept, *dy = node->out[0]->grad;
    for (int i = 0; i < x->rows; ++i) {
        size_t at = ppo__at(i, x->cols), end = at + (size_t)x->cols;
        for (int h = 0; h < heads; ++h, kept += 2, at += (size_t)size) {
            const ppo_tensor *w = node->in[h < args->heads ? 1 : 2];
            ppo__k()->norm_backward(0, x->data + at, w->data, kept[0], kept[1], dy + at,
                                    x->grad ? x->grad + at : NULL, w->grad, NULL, size);
        }
        for (; at < end && x->grad; ++at) x->grad[at] += dy[at];
    }
}

static ppo_tensor *ppo__tape_head_norm(ppo_tape *tape, ppo_tensor *x, ppo_tensor *q, ppo_tensor *k,
                                       const ppo__head_norm_args *args) {
    static const ppo_op op = {"head_norm", 1, ppo__head_norm_forward, ppo__head_norm_backward};
    ppo_tensor         *in[3] = {x, q, k};
    if (!x) return NULL;
    return ppo_tape_result(ppo_tape_apply(tape, &op, in, 3, x->rows, x->cols, args, sizeof *args));
}

/* -- a model's parameters -- */

PPO_DEF ppo_lm_config ppo_lm_config_default(void) {
    ppo_lm_config c;
    memset(&c, 0, sizeof c);
    c.context = c.width = 64;
    c.layers = 2;
    c.heads = 4;
    c.seed = 1;
    c.norm = PPO_LAYER_NORM;
    c.norm_eps = 1e-5f;
    c.activation = PPO_GELU;
    c.qkv_bias = c.proj_bias = c.ffn_bias = c.tied = 1;
    c.rope_theta = 10000;
    c.rope_factor = c.rope_low = 1;
    c.rope_high = 4;
    c.rope_context = 8192;
    return c;
}

/* What a family has that a model without settings has not. */
#define PPO__LLAMA                                                                                      \
    "norm=rms positions=rotary activation=silu gated=yes qkv_bias=no proj_bias=no ffn_bias=no tied=no " \
    "norm_eps=1e-6 "
#define PPO__LM_FAMILIES(ROW)                                                                     \
    ROW("gpt2", "")                                                                               \
    ROW("gpt_neo", "qkv_bias=no attention_scale=1 window=256 window_layers=12297829382473034410") \
    ROW("gpt_neox", "positions=rotary activation=gelu_erf parallel=yes tied=no")                  \
    ROW("llama", PPO__LLAMA)                                                                      \
    ROW("mistral", PPO__LLAMA)                                                                    \
    ROW("qwen2", PPO__LLAMA "qkv_bias=yes")                                                       \
    ROW("qwen3", PPO__LLAMA "head_norm=yes")
#define PPO__FAMILY_ROW(name, settings)  {name, settings},
#define PPO__FAMILY_WORD(name, settings) "|" name
static const char *const ppo__lm_families[][2] = {PPO__LM_FAMILIES(PPO__FAMILY_ROW)};

#define PPO__LM_FIELD(name, type, min, max, choices, help) \
    { #name, PPO_FIELD_##type, offsetof(ppo_lm_config, name), min, max, choices, help, 0 }
static const ppo_field ppo__lm_fields[] = {
    PPO__LM_FIELD(family, CHOICE, 0, sizeof ppo__lm_families / sizeof *ppo__lm_families - 1,
                  &(PPO__LM_FAMILIES(PPO__FAMILY_WORD))[1], "whose names and layout a saved folder has"),
    PPO__LM_FIELD(vocab, INT, 2, INT_MAX, NULL, "tokens"),
    PPO__LM_FIELD(context, INT, 2, INT_MAX, NULL, "tokens of the longest sequence"),
    PPO__LM_FIELD(width, INT, 2, INT_MAX / 4, NULL, "numbers that stand for a token between blocks"),
    PPO__LM_FIELD(layers, INT, 1, PPO_MAX_LAYERS, NULL, "blocks"),
    PPO__LM_FIELD(heads, INT, 1, INT_MAX / 8, NULL, "of queries"),
    PPO__LM_FIELD(kv_heads, INT, 0, INT_MAX / 8, NULL, "of keys and values; 0: as many"),
    PPO__LM_FIELD(head_size, INT, 0, INT_MAX / 8, NULL, "0: width / heads"),
    PPO__LM_FIELD(hidden, INT, 0, INT_MAX / 2, NULL, "width of the feed-forward layers; 0: 4 width"),
    PPO__LM_FIELD(norm, CHOICE, PPO_RMS_NORM, PPO_LAYER_NORM, "rms|layer", "before each branch"),
    PPO__LM_FIELD(norm_eps, FLOAT, 1e-30, 1, NULL, "added to the variance"),
    PPO__LM_FIELD(activation, CHOICE, 0, PPO__ACTIVATIONS - 1, PPO__ACTIVATION_WORDS,
                  "of feed-forward layers"),
    PPO__LM_FIELD(gated, CHOICE, 0, 1, "no|yes", "feed-forward layers with a gate"),
    PPO__LM_FIELD(qkv_bias, CHOICE, 0, 1, "no|yes", "of queries, keys and values"),
    PPO__LM_FIELD(proj_bias, CHOICE, 0, 1, "no|yes", "of the heads' results"),
    PPO__LM_FIELD(ffn_bias, CHOICE, 0, 1, "no|yes", "of feed-forward layers"),
    PPO__LM_FIELD(head_norm, CHOICE, 0, 1, "no|yes", "of queries and keys"),
    PPO__LM_FIELD(parallel, CHOICE, 0, 1, "no|yes", "attention and feed-forward from the same numbers"),
    PPO__LM_FIELD(tied, CHOICE, 0, 1, "no|yes", "logits by the token embedding"),
    PPO__LM_FIELD(attention_scale, FLOAT, 0, 1e30, NULL, "of products; 0: 1 / sqrt(head size)"),
    PPO__LM_FIELD(window, INT, 0, INT_MAX, NULL, "tokens that a token attends to; 0: all"),
    PPO__LM_FIELD(window_layers, U64, 0, 1.8446744073709552e19, NULL, "bit k: layer k has it; 0: all"),
    PPO__LM_FIELD(positions, CHOICE, 0, PPO_ROTARY, "learned|rotary", "how a token knows its position"),
    PPO__LM_FIELD(rotary_size, INT, 0, INT_MAX / 8, NULL, "columns of a head that are turned; 0: all"),
    PPO__LM_FIELD(rope_theta, FLOAT, 1, 1e30, NULL, "base of the wavelengths"),
    PPO__LM_FIELD(rope_scaling, CHOICE, 0, PPO_ROPE_LLAMA3, "plain|linear|llama3", "of the wavelengths"),
    PPO__LM_FIELD(rope_factor, FLOAT, 1e-30, 1e30, NULL, "by which they grow"),
    PPO__LM_FIELD(rope_low, FLOAT, 1e-30, 1e30, NULL, "Llama 3: waves in rope_context, below which all do"),
    PPO__LM_FIELD(rope_high, FLOAT, 1e-30, 1e30, NULL, "and above which none does"),
    PPO__LM_FIELD(rope_context, INT, 1, INT_MAX, NULL, "Llama 3: the context before scaling"),
    PPO__LM_FIELD(score, CHOICE, 0, 1, "no|yes", "a head with a number per token"),
    PPO__LM_FIELD(seed, U64, 0, 1.8446744073709552e19, NULL, "of the first weights"),
};
static const ppo_settings ppo__lm_settings = {ppo__lm_fields, sizeof ppo__lm_fields / sizeof *ppo__lm_fields};

PPO_DEF const ppo_settings *ppo_lm_settings(void) { return &ppo__lm_settings; }

PPO_DEF ppo_status ppo_lm_config_family(ppo_lm_config *config, const char *family) {
    if (!ppo__given("ppo_lm_config_family", config && family)) return PPO_ERROR_ARGUMENT;
    ppo_lm_config c = ppo_lm_config_default();
    if (ppo_settings_set(&ppo__lm_settings, &c, "family", family) ||
        ppo_settings_set_all(&ppo__lm_settings, &c, ppo__lm_families[c.family][1]))
        return PPO_ERROR_ARGUMENT;
    c.vocab = config->vocab, c.context = config->context, c.width = config->width, c.layers = config->layers;
    c.heads = config->heads, c.kv_heads = config->kv_heads, c.head_size = config->head_size;
    c.hidden = config->hidden, c.score = config->score, c.seed = config->seed;
    *config = c;
    return PPO_OK;
}

/* Are these settings possible? Then it replaces each 0 that stands for another setting. */
static ppo_status ppo__complete_lm_config(ppo_lm_config *c) {
    static const ppo__need needs[] = {
        {"rotary_size", "positions", "rotary"},     {"rope_theta", "positions", "rotary"},
        {"rope_scaling", "positions", "rotary"},    {"rope_factor", "rope_scaling", "linear|llama3"},
        {"rope_low", "rope_scaling", "llama3"},     {"rope_high", "rope_scaling", "llama3"},
        {"rope_context", "rope_scaling", "llama3"}, {"window_layers", "window", NULL},
    };
    const ppo_lm_config usual = ppo_lm_config_default();
    ppo_status          status = ppo_settings_check(&ppo__lm_settings, c);
    for (size_t k = 0; k < sizeof needs / sizeof *needs && !status; ++k)
        status = ppo__check_effect(&ppo__lm_settings, c, &usual, &needs[k], NULL);
    if (status) return status;
    if (!c->head_size && c->width % c->heads)
        return ppo__refuse("width is %d, which %d heads cannot share", c->width, c->heads);
    if (!c->head_size) c->head_size = c->width / c->heads;
    if (!c->kv_heads) c->kv_heads = c->heads;
    if (!c->hidden) c->hidden = 4 * c->width;
    if (!(c->attention_scale > 0)) c->attention_scale = 1 / sqrtf((float)c->head_size);
    if (c->heads % c->kv_heads)
        return ppo__refuse("heads is %d, which %d kv_heads cannot share", c->heads, c->kv_heads);
    if (3.0 * c->heads * c->head_size > INT_MAX)
        return ppo__refuse("%d heads of %d numbers are too many", c->heads, c->head_size);
    if (c->positions != PPO_ROTARY) return PPO_OK;
    if (!c->rotary_size) c->rotary_size = c->head_size;
    if (c->rotary_size % 2 || c->rotary_size > c->head_size)
        return ppo__refuse("rotary_size is %d, must be even and at most %d, the head's", c->rotary_size,
                           c->head_size);
    if (c->rope_scaling == PPO_ROPE_LLAMA3 && !(c->rope_low < c->rope_high))
        return ppo__refuse("rope_low is %g, must be below rope_high, which is %g", (double)c->rope_low,
                           (double)c->rope_high);
    return PPO_OK;
}

static ppo_attention ppo__lm_attention(const ppo_lm_config *c, int layer) {
    int                 local = !c->window_layers || (c->window_layers >> layer & 1);
    const ppo_attention how = {c->heads, c->kv_heads, local ? c->window : 0, c->attention_scale};
    return how;
}

/* The angles of a position: wavelength j is 2 pi theta^(2j / r), times the factor; in Llama 3 (Dubey 2024) only
   of waves that are long, in between partly. */
static void ppo__rotary_angles(const ppo_lm_config *c, int position, float *angle) {
    const int half = c->rotary_size / 2;
    for (int j = 0; j < half; ++j) {
        double frequency = pow((double)c->rope_theta, -2.0 * j / c->rotary_size), share = 0; /* unscaled */
        double waves = c->rope_context * frequency / (2 * 3.14159265358979323846);
        if (c->rope_scaling == PPO_ROPE_PLAIN) share = 1;
        if (c->rope_scaling == PPO_ROPE_LLAMA3)
            share = (waves - (double)c->rope_low) / ((double)c->rope_high - (double)c->rope_low);
        share = share < 0 ? 0 : share > 1 ? 1 : share;
        frequency *= share + (1 - share) / (double)c->rope_factor;
        angle[j] = (float)cos(position * frequency);
        angle[half + j] = (float)sin(position * frequency);
    }
}

/* Positions whose angles a model keeps; those of later ones are computed each time. */
enum { PPO__KEPT_ANGLES = 4096 };

/* The layers of a block: "transformer.h.3.attn.c_attn.weight" (in, out) and ".bias" (1, out). In PPO__ONE: a norm,
   whose weight is a row of ones. is, has_bias: settings that must not be 0. */
enum { PPO__ONE, PPO__WIDTH, PPO__QKV, PPO__HEADS, PPO__HEAD, PPO__UP, PPO__HIDDEN };
#define PPO__ALWAYS      offsetof(ppo_lm_config, vocab)
#define PPO__NEVER       SIZE_MAX
#define PPO__IF(setting) offsetof(ppo_lm_config, setting)
static const struct {
    const char *name;
    size_t      weight, bias; /* in ppo_lm_block */
    int         in, out;
    size_t      is, has_bias;
    int         ends_branch; /* smaller initial weights */
} ppo__lm_layers[] = {
#define PPO__LM_LAYER(name, weight, bias, in, out, is, has_bias, ends) \
    { name, offsetof(ppo_lm_block, weight), offsetof(ppo_lm_block, bias), in, out, is, has_bias, ends }
    PPO__LM_LAYER("ln_1", norm_weight[0], norm_bias[0], PPO__ONE, PPO__WIDTH, PPO__ALWAYS, PPO__IF(norm), 0),
    PPO__LM_LAYER("attn.c_attn", qkv_weight, qkv_bias, PPO__WIDTH, PPO__QKV, PPO__ALWAYS, PPO__IF(qkv_bias),
                  0),
    PPO__LM_LAYER("attn.q_norm", q_norm, q_norm, PPO__ONE, PPO__HEAD, PPO__IF(head_norm), PPO__NEVER, 0),
    PPO__LM_LAYER("attn.k_norm", k_norm, k_norm, PPO__ONE, PPO__HEAD, PPO__IF(head_norm), PPO__NEVER, 0),
    PPO__LM_LAYER("attn.c_proj", proj_weight, proj_bias, PPO__HEADS, PPO__WIDTH, PPO__ALWAYS,
                  PPO__IF(proj_bias), 1),
    PPO__LM_LAYER("ln_2", norm_weight[1], norm_bias[1], PPO__ONE, PPO__WIDTH, PPO__ALWAYS, PPO__IF(norm), 0),
    PPO__LM_LAYER("mlp.c_fc", up_weight, up_bias, PPO__WIDTH, PPO__UP, PPO__ALWAYS, PPO__IF(ffn_bias), 0),
    PPO__LM_LAYER("mlp.c_proj", down_weight, down_bias, PPO__HIDDEN, PPO__WIDTH, PPO__ALWAYS,
                  PPO__IF(ffn_bias), 1),
};
enum { PPO__LM_LAYERS = sizeof ppo__lm_layers / sizeof *ppo__lm_layers };

/* Is a setting, by its offset, not 0? */
static int ppo__lm_has(const ppo_lm_config *c, size_t offset) {
    return offset != PPO__NEVER && *(const int *)(const void *)((const char *)c + offset) != 0;
}

/* All parameters of a model are listed in one place, for whatever is to be done with them. Their first numbers:
   random, of standard deviation x, or all of them x. */
typedef ppo_status (*ppo__lm_visit_fn)(void *user, ppo_tensor **tensor, const char *name, int rows, int cols,
                                       int random, float x);

static ppo_status ppo__lm_visit(ppo_lm *lm, ppo__lm_visit_fn visit, void *user) {
    const ppo_lm_config *c = &lm->full;
    const int            w = c->width, heads = c->heads * c->head_size, kv_heads = c->kv_heads * c->head_size;
    const int            up = c->hidden * (c->gated ? 2 : 1);
    const int            sizes[] = {1, w, heads + 2 * kv_heads, heads, c->head_size, up, c->hidden};
    const float          std = 0.02f, last = std / sqrtf(2 * (float)c->layers);
    ppo_status status = visit(user, &lm->token_embedding, "transformer.wte.weight", c->vocab, w, 1, std);
    if (!status && c->positions == PPO_LEARNED_POSITIONS)
        status = visit(user, &lm->position_embedding, "transformer.wpe.weight", c->context, w, 1, std);
    for (int i = 0; i < c->layers * PPO__LM_LAYERS && !status; ++i) {
        int  b = i / PPO__LM_LAYERS, k = i % PPO__LM_LAYERS, random = ppo__lm_layers[k].in != PPO__ONE;
        int  in = sizes[ppo__lm_layers[k].in], out = sizes[ppo__lm_layers[k].out];
        char name[96], *block = (char *)&lm->block[b];
        ppo_tensor **weight = (ppo_tensor **)(void *)(block + ppo__lm_layers[k].weight);
        ppo_tensor **bias = (ppo_tensor **)(void *)(block + ppo__lm_layers[k].bias);
        float        x = !random ? 1 : ppo__lm_layers[k].ends_branch ? last : std;
        if (!ppo__lm_has(c, ppo__lm_layers[k].is)) continue;
        snprintf(name, sizeof name, "transformer.h.%d.%s.weight", b, ppo__lm_layers[k].name);
        status = visit(user, weight, name, in, out, random, x);
        snprintf(name, sizeof name, "transformer.h.%d.%s.bias", b, ppo__lm_layers[k].name);
        if (!status && ppo__lm_has(c, ppo__lm_layers[k].has_bias))
            status = visit(user, bias, name, 1, out, 0, 0);
    }
    if (!status) status = visit(user, &lm->norm_weight, "transformer.ln_f.weight", 1, w, 0, 1);
    if (!status && c->norm) status = visit(user, &lm->norm_bias, "transformer.ln_f.bias", 1, w, 0, 0);
    lm->head = lm->token_embedding;
    if (!status && !c->tied) status = visit(user, &lm->head, "lm_head.weight", c->vocab, w, 1, std);
    if (!status && c->score) status = visit(user, &lm->score_weight, "score.weight", w, 1, 0, 0);
    return status || !c->score ? status : visit(user, &lm->score_bias, "score.bias", 1, 1, 0, 0);
}

static ppo_status ppo__lm_measure(void *user, ppo_tensor **tensor, const char *name, int rows, int cols,
                                  int random, float x) {
    size_t *room = (size_t *)user, size = ppo__padded(rows, cols);
    *room = size < SIZE_MAX - *room ? *room + size : SIZE_MAX;
    return PPO_OK;
}

typedef struct ppo__lm_adding {
    ppo_params *params;
    ppo_rng    *rng; /* NULL: the numbers will be overwritten */
} ppo__lm_adding;

static ppo_status ppo__lm_add(void *user, ppo_tensor **tensor, const char *name, int rows, int cols,
                              int random, float x) {
    const ppo__lm_adding *adding = (const ppo__lm_adding *)user;
    *tensor = ppo_params_add(adding->params, name, rows, cols);
    if (!*tensor) return ppo__failed;
    if (!adding->rng || x == 0) return PPO_OK;
    if (random) ppo_init_normal(*tensor, x, adding->rng);
    for (size_t i = 0; i < ppo__size(*tensor) && !random; ++i) (*tensor)->data[i] = x;
    return PPO_OK;
}

PPO_DEF void ppo_lm_free(ppo_lm *lm) {
    if (!lm) return;
    ppo_params_free(lm->params);
    ppo__free(lm->rotary);
    ppo__free(lm);
}

/* Sets the two configs of a model. */
static ppo_status ppo__lm_describe(ppo_lm *lm, const ppo_lm_config *config) {
    lm->config = lm->full = *config;
    return ppo__complete_lm_config(&lm->full);
}

/* random 0: with weights that will be overwritten. */
static ppo_status ppo__lm_make(const ppo_lm_config *config, int random, ppo_lm **lm) {
    ppo_rng        rng = ppo_rng_stream(config->seed, PPO_STREAM_INIT, 0);
    ppo__lm_adding adding = {NULL, random ? &rng : NULL};
    size_t         room = 0;
    ppo_lm        *made = (ppo_lm *)ppo__alloc(sizeof *made);
    if (!made) return PPO_ERROR_MEMORY;
    const ppo_lm_config *c = &made->full;
    ppo_status           status = ppo__lm_describe(made, config);
    if (!status) status = ppo__lm_visit(made, ppo__lm_measure, &room);
    if (!status) status = ppo_params_create(&made->params);
    if (!status) made->params->frozen = !random;
    if (!status) status = ppo_params_reserve(made->params, room);
    if (!status) made->params->decay_matrices = 1;
    adding.params = made->params;
    if (!status) status = ppo__lm_visit(made, ppo__lm_add, &adding);
    if (!status && c->positions == PPO_ROTARY) {
        const int kept = c->context < PPO__KEPT_ANGLES ? c->context : (int)PPO__KEPT_ANGLES;
        made->rotary = (float *)ppo__alloc_uncleared(ppo__at(kept, c->rotary_size) * sizeof(float));
        if (!made->rotary) status = PPO_ERROR_MEMORY;
        for (int i = 0; i < kept && !status; ++i)
            ppo__rotary_angles(c, i, made->rotary + ppo__at(i, c->rotary_size));
    }
    if (status) ppo_lm_free(made);
    else *lm = made;
    return status;
}

PPO_DEF ppo_status ppo_lm_create(const ppo_lm_config *config, ppo_lm **lm) {
    if (lm) *lm = NULL;
    if (!ppo__given("ppo_lm_create", config && lm)) return PPO_ERROR_ARGUMENT;
    return ppo__lm_make(config, 1, lm);
}

/* The score comes last, so the parameters of both models have the same offsets. */
PPO_DEF ppo_status ppo_lm_copy(const ppo_lm *lm, int score, ppo_lm **copy) {
    if (copy) *copy = NULL;
    if (!ppo__given("ppo_lm_copy", lm && copy)) return PPO_ERROR_ARGUMENT;
    ppo_lm_config config = lm->config;
    config.score |= score != 0;
    ppo_status status = ppo__params_fetch(lm->params);
    if (!status) status = ppo__lm_make(&config, 0, copy);
    if (!status) memcpy((*copy)->params->data, lm->params->data, lm->params->count * sizeof(float));
    return status;
}

/* -- forward -- */

/* The length of prompt s, which is the whole sequence if the prompts are not marked. */
static int ppo__prompt_length(const ppo_tokens *prompts, int s) {
    return prompts->prompt ? prompts->prompt[s] : prompts->start[s + 1] - prompts->start[s];
}

/* Are these sequences of the model's tokens, each within its context? Or (1) prompts that leave room there, or
   (PPO__ANY_LENGTH) sequences of which windows are taken? */
enum { PPO__ANY_LENGTH = 2 };
static ppo_status ppo__check_sequences(const ppo_lm *lm, const ppo_tokens *tokens, int what) {
    const int context = lm->config.context, vocab = lm->config.vocab, prompts = what == 1;
    if (!tokens) return ppo__refuse("the tokens are NULL");
    if (tokens->count < 1) return ppo__refuse("there are %d sequences of tokens", tokens->count);
    if (!tokens->start || !tokens->token)
        return ppo__refuse("start or token of %d sequences is NULL", tokens->count);
    if (tokens->start[0] != 0) return ppo__refuse("start[0] is %d, must be 0", tokens->start[0]);
    for (int s = 0; s < tokens->count; ++s) {
        const int *token = tokens->token + tokens->start[s];
        int64_t    all = (int64_t)tokens->start[s + 1] - tokens->start[s];
        int64_t    n = prompts && tokens->prompt ? tokens->prompt[s] : all;
        if (prompts && (n < 1 || n > all))
            return ppo__refuse("prompt %d has %lld of %lld tokens", s, (long long)n, (long long)all);
        if (prompts && n >= context)
            return ppo__refuse("prompt %d has %lld tokens, which leaves no room in %d", s, (long long)n,
                               context);
        if (n < 1 || (n > context && what != PPO__ANY_LENGTH))
            return ppo__refuse("sequence %d has %lld tokens, must have 1 to %d", s, (long long)n, context);
        for (int i = 0; i < n; ++i) {
            if (token[i] >= 0 && token[i] < vocab) continue;
            return ppo__refuse("token %d (sequence %d, position %d) is outside 0 .. %d", token[i], s, i,
                               vocab - 1);
        }
    }
    return PPO_OK;
}

/* What the rows of block k attend to: from queries, keys and values (rows, 3 width) to (rows, width). */
typedef ppo_tensor *(*ppo__attend_fn)(ppo_tape *tape, const ppo_lm *lm, int k, ppo_tensor *qkv,
                                      const void *user);

static ppo_tensor *ppo__lm_norm(ppo_tape *tape, const ppo_lm *lm, ppo_tensor *x, ppo_tensor *weight,
                                ppo_tensor *bias) {
    const char *name = lm->config.norm == PPO_LAYER_NORM ? "layer_norm" : "rms_norm";
    return ppo__tape_norm(tape, name, x, weight, bias, lm->config.norm == PPO_LAYER_NORM,
                          lm->config.norm_eps);
}

/* The angles of the rows' positions. */
static ppo_tensor *ppo__lm_angles(ppo_tape *tape, const ppo_lm *lm, const int *position, int rows) {
    const int r = lm->full.rotary_size;
    float    *angle = (float *)ppo__tape_take(tape, ppo__at(rows, r), sizeof *angle);
    for (int i = 0; i < rows && angle; ++i) {
        if (position[i] >= PPO__KEPT_ANGLES)
            ppo__rotary_angles(&lm->full, position[i], angle + ppo__at(i, r));
        else memcpy(angle + ppo__at(i, r), lm->rotary + ppo__at(position[i], r), r * sizeof *angle);
    }
    return ppo_tape_constant(tape, angle, rows, r);
}

/* The second half of a block. */
static ppo_tensor *ppo__lm_feed_forward(ppo_tape *tape, const ppo_lm *lm, const ppo_lm_block *b,
                                        ppo_tensor *x) {
    const int         activation[2] = {lm->config.activation, PPO_IDENTITY};
    ppo_tensor *const weight[2] = {b->up_weight, b->down_weight};
    ppo_tensor *const bias[2] = {b->up_bias, b->down_bias};
    if (!lm->config.gated) return ppo__tape_chain(tape, "linear", x, weight, bias, activation, 2);
    x = ppo_tape_linear(tape, x, b->up_weight, b->up_bias, PPO_IDENTITY);
    return ppo_tape_linear(tape, ppo_tape_gated(tape, x, activation[0]), b->down_weight, b->down_bias,
                           PPO_IDENTITY);
}

/* The whole model but its heads, for rows that are tokens at some positions of some sequences. */
static ppo_tensor *ppo__lm_rows(ppo_tape *tape, const ppo_lm *lm, const int *token, const int *position,
                                int rows, ppo__attend_fn attend, const void *user) {
    const ppo_lm_config      *c = &lm->full;
    const ppo__head_norm_args norm = {c->heads, c->kv_heads, c->norm_eps};
    ppo_tensor *y, *x = ppo_tape_embedding(tape, lm->token_embedding, token, rows), *angle = NULL;
    if (c->positions == PPO_ROTARY) angle = ppo__lm_angles(tape, lm, position, rows);
    else x = ppo_tape_add(tape, x, ppo_tape_embedding(tape, lm->position_embedding, position, rows));
    for (int k = 0; k < c->layers; ++k) {
        const ppo_lm_block *b = &lm->block[k];
        y = ppo__lm_norm(tape, lm, x, b->norm_weight[0], b->norm_bias[0]);
        y = ppo_tape_linear(tape, y, b->qkv_weight, b->qkv_bias, PPO_IDENTITY);
        if (c->head_norm) y = ppo__tape_head_norm(tape, y, b->q_norm, b->k_norm, &norm);
        if (angle) y = ppo_tape_rotary(tape, y, angle, c->heads + c->kv_heads, c->head_size);
        y = attend(tape, lm, k, y, user);
        y = ppo_tape_add(tape, x, ppo_tape_linear(tape, y, b->proj_weight, b->proj_bias, PPO_IDENTITY));
        x = ppo__lm_norm(tape, lm, c->parallel ? x : y, b->norm_weight[1], b->norm_bias[1]);
        x = ppo_tape_add(tape, y, ppo__lm_feed_forward(tape, lm, b, x));
    }
    return ppo__lm_norm(tape, lm, x, lm->norm_weight, lm->norm_bias);
}

static ppo_tensor *ppo__attend_whole(ppo_tape *tape, const ppo_lm *lm, int k, ppo_tensor *qkv,
                                     const void *user) {
    const ppo_tokens   *tokens = (const ppo_tokens *)user;
    const ppo_attention how = ppo__lm_attention(&lm->full, k);
    return ppo_tape_attention(tape, qkv, &how, tokens->start, tokens->count);
}

PPO_DEF ppo_tensor *ppo_lm_forward(ppo_tape *tape, const ppo_lm *lm, const ppo_tokens *tokens) {
    if (ppo_tape_status(tape)) return NULL;
    int        given = ppo__given("ppo_lm_forward", lm != NULL);
    ppo_status status = given ? ppo__check_sequences(lm, tokens, 0) : PPO_ERROR_ARGUMENT;
    if (!status) status = ppo__params_place(lm->params, tape->device);
    if (status) return (ppo_tensor *)ppo__tape_fail(tape, status);
    int  rows = tokens->start[tokens->count];
    int *position = (int *)ppo__tape_take(tape, (size_t)rows, sizeof *position);
    if (!position) return NULL;
    for (int s = 0; s < tokens->count; ++s)
        for (int i = tokens->start[s]; i < tokens->start[s + 1]; ++i) position[i] = i - tokens->start[s];
    return ppo__lm_rows(tape, lm, tokens->token, position, rows, ppo__attend_whole, tokens);
}

PPO_DEF ppo_tensor *ppo_lm_logits(ppo_tape *tape, const ppo_lm *lm, ppo_tensor *x) {
    return ppo_tape_matmul_transposed(tape, x, lm ? lm->head : NULL);
}

static ppo_status ppo__check_score(const char *function, const ppo_lm *lm) {
    return lm->score_weight ? PPO_OK : ppo__refuse("%s: the model has no score", function);
}

PPO_DEF ppo_tensor *ppo_lm_score(ppo_tape *tape, const ppo_lm *lm, ppo_tensor *x) {
    if (x && lm && ppo__check_score("ppo_lm_score", lm))
        return (ppo_tensor *)ppo__tape_fail(tape, PPO_ERROR_ARGUMENT);
    return ppo__tape_layer(tape, "ppo_lm_score", x, lm ? lm->score_weight : NULL, lm ? lm->score_bias : NULL,
                           PPO_IDENTITY);
}

/* --------------------------------------------------------------------------------------------------------
   @@ 19 Models in files

   A file of our own has the parameters under their own names; sizes follow from the arrays, except the number of
   heads. Texts repeat them for other programs, and must not contradict the arrays; other settings are texts, too.
   A folder of the model hub has the settings in config.json (ppo__hub_config()), and names and layouts of arrays
   that depend on the family (ppo__hub_carry()); both directions use the same tables.
   -------------------------------------------------------------------------------------------------------- */

/* Sizes that other programs read, by their names there. */
enum { PPO__LM_TEXTS = 5 };
static const char *const ppo__lm_texts[PPO__LM_TEXTS][2] = {{"vocab", "vocab_size"},
                                                            {"context", "n_positions"},
                                                            {"width", "n_embd"},
                                                            {"layers", "n_layer"},
                                                            {"heads", "n_head"}};

PPO_DEF ppo_status ppo_lm_put(const ppo_lm *lm, ppo_file *file) {
    const ppo_lm_config usual = ppo_lm_config_default();
    if (!ppo__given("ppo_lm_put", lm && file)) return PPO_ERROR_ARGUMENT;
    if (ppo_file_find(file, "transformer.wte.weight"))
        return ppo__refuse("ppo_lm_put: the file has a language model already");
    if (ppo__params_fetch(lm->params) || ppo_file_set_text(file, "format", "pt")) /* transformers needs it */
        return ppo__failed;
    for (int i = 0; i < ppo__lm_settings.count; ++i) {
        const char *field = ppo__lm_fields[i].name;
        char        is[32], other[32], name[40];
        int         k = 0;
        while (k < PPO__LM_TEXTS && strcmp(field, ppo__lm_texts[k][0])) ++k;
        const int known = k < PPO__LM_TEXTS; /* it is written always */
        snprintf(name, sizeof name, "%s%s", known ? "" : "lm.", known ? ppo__lm_texts[k][1] : field);
        if (ppo_settings_get(&ppo__lm_settings, &lm->config, field, is, sizeof is) ||
            ppo_settings_get(&ppo__lm_settings, &usual, field, other, sizeof other))
            return ppo__failed;
        if (!known && (!strcmp(is, other) || !strcmp(field, "score") || !strcmp(field, "seed"))) continue;
        if (ppo_file_set_text(file, name, is)) return ppo__failed;
    }
    return ppo__carry_params(file, PPO__SAVE, "", lm->params, lm->params->data, 1);
}

typedef struct ppo__saved_lm {
    const ppo_lm        *lm;
    const ppo_tokenizer *tokenizer;
} ppo__saved_lm;

static ppo_status ppo__put_lm(ppo_file *file, const void *what) {
    const ppo__saved_lm *saved = (const ppo__saved_lm *)what;
    ppo_status           status = ppo_lm_put(saved->lm, file);
    return status || !saved->tokenizer ? status : ppo_tokenizer_put(saved->tokenizer, file);
}

PPO_DEF ppo_status ppo_lm_save_file(const ppo_lm *lm, const ppo_tokenizer *tokenizer, const char *path) {
    const ppo__saved_lm saved = {lm, tokenizer};
    if (lm && tokenizer && tokenizer->vocab > lm->config.vocab)
        return ppo__refuse("ppo_lm_save_file: a tokenizer of %d tokens for a model of %d", tokenizer->vocab,
                           lm->config.vocab);
    return ppo__save("ppo_lm_save_file", path, ppo__put_lm, lm ? &saved : NULL);
}

/* A dimension of a matrix in the file, 0 if there is no such matrix. */
static int ppo__lm_size(const ppo_file *file, const char *name, int dimension) {
    const ppo_array *array = ppo_file_find(file, name);
    return array && array->rank == 2 && array->shape[dimension] <= INT_MAX ? (int)array->shape[dimension] : 0;
}

/* The settings, from the sizes of arrays and from texts, which must not contradict each other. */
static ppo_status ppo__get_lm_config(const ppo_file *file, ppo_lm *likely) {
    ppo_lm_config *config = &likely->config, given;
    const char    *heads = ppo_file_text(file, "n_head"), *context = ppo_file_text(file, "n_positions"),
               *rest = "";
    char name[96];
    *config = ppo_lm_config_default();
    for (int i = 0; i < ppo__lm_settings.count; ++i) {
        const char *text;
        snprintf(name, sizeof name, "lm.%s", ppo__lm_fields[i].name);
        if ((text = ppo_file_text(file, name)) != NULL &&
            ppo_settings_set(&ppo__lm_settings, config, ppo__lm_fields[i].name, text))
            return ppo__file_blame(file);
    }
    config->layers = 0;
    config->vocab = ppo__lm_size(file, "transformer.wte.weight", 0);
    config->width = ppo__lm_size(file, "transformer.wte.weight", 1);
    config->context = ppo__lm_size(file, "transformer.wpe.weight", 0);
    config->score = ppo__lm_size(file, "score.weight", 0) > 0;
    if (config->positions == PPO_ROTARY && context) config->context = ppo__parse_count(context, &rest);
    for (; config->layers <= PPO_MAX_LAYERS; ++config->layers) {
        snprintf(name, sizeof name, "transformer.h.%d.attn.c_attn.weight", config->layers);
        if (!ppo_file_find(file, name)) break;
    }
    if (!config->vocab)
        return ppo__file_fail(file->path, "it is not a language model: no transformer.wte.weight");
    if (!heads)
        return ppo__file_fail(file->path, "its metadata does not say how many heads it has: no text n_head");
    config->heads = ppo__parse_count(heads, &rest);
    if (!config->heads || *rest)
        return ppo__file_fail(file->path, "corrupt file: n_head is \"%.20s\"", heads);
    given = *config;
    if (ppo__lm_describe(likely, &given)) return ppo__file_fail(file->path, "corrupt file: %s", ppo__error);
    for (int i = 0; i < ppo_file_count(file); ++i) { /* a later block: an array of this one is missing */
        const char *array = ppo_file_at(file, i)->name, *end;
        if (strncmp(array, "transformer.h.", 14) == 0 && ppo__parse_count(array + 14, &end) >= config->layers)
            return ppo__file_fail(file->path, "corrupt file: %.40s is there, but not %s", array, name);
    }
    for (int i = 0; i < PPO__LM_TEXTS; ++i) {
        const char *text = ppo_file_text(file, ppo__lm_texts[i][1]);
        ppo_settings_get(&ppo__lm_settings, config, ppo__lm_texts[i][0], name, sizeof name);
        if (text && strcmp(text, name))
            return ppo__file_fail(file->path, "corrupt file: %s is \"%.20s\", but its arrays say %s",
                                  ppo__lm_texts[i][1], text, name);
    }
    return PPO_OK;
}

/* Is a parameter in the file? All must be there before a model of these sizes is created. */
static ppo_status ppo__lm_expect(void *user, ppo_tensor **tensor, const char *name, int rows, int cols,
                                 int random, float x) {
    const int64_t    shape[2] = {rows, cols};
    const ppo_array *array;
    return ppo_file_expect((const ppo_file *)user, name, PPO_F32, shape + (rows == 1), rows == 1 ? 1 : 2,
                           &array);
}

PPO_DEF ppo_status ppo_lm_get(const ppo_file *file, ppo_lm **lm) {
    ppo_lm  likely;
    ppo_lm *made = NULL;
    if (lm) *lm = NULL;
    if (!ppo__given("ppo_lm_get", file && lm)) return PPO_ERROR_ARGUMENT;
    ppo_status status = ppo__get_lm_config(file, &likely);
    if (!status) status = ppo__lm_visit(&likely, ppo__lm_expect, (void *)file);
    if (!status) status = ppo__lm_make(&likely.config, 0, &made);
    if (!status)
        status = ppo__carry_params((ppo_file *)file, PPO__LOAD, "", made->params, made->params->data, 1);
    if (status) ppo_lm_free(made);
    else *lm = made;
    return status;
}

/* -- folders as the model hub has them: config.json, and model.safetensors or its shards. What a family calls its
   settings and parameters is in tables, which serve both ways -- */

enum {
    PPO__GPT2,
    PPO__GPT_NEO,
    PPO__GPT_NEOX,
    PPO__LLAMAS,
    PPO__HUB_STYLES
}; /* llama and all families after it */

static int ppo__hub_style(const ppo_lm_config *c) {
    return c->family < PPO__LLAMAS ? c->family : (int)PPO__LLAMAS;
}

/* The names of Hugging Face's classes begin so. */
static const char *const ppo__hub_classes[] = {"GPT2",    "GPTNeo", "GPTNeoX", "Llama",
                                               "Mistral", "Qwen2",  "Qwen3"};

/* Settings, and their keys there: "" is the key of the style before, NULL that there is none; a|b the one or the other,
   of which the last is written; a.b is b in the object a. Those of rotary positions are read from what transformers 5
   (rope_parameters) and 4 (rope_scaling) write. The first five must be there. */
static const struct {
    const char *name, *key[PPO__HUB_STYLES];
} ppo__hub_settings[] = {
    {"vocab", {"vocab_size", "", "", ""}},
    {"context", {"n_positions", "max_position_embeddings", "", ""}},
    {"width", {"n_embd", "hidden_size", "", ""}},
    {"layers", {"n_layer", "num_layers", "num_hidden_layers", ""}},
    {"heads", {"n_head", "num_heads", "num_attention_heads", ""}},
    {"kv_heads", {NULL, NULL, NULL, "num_key_value_heads"}},
    {"head_size", {NULL, NULL, NULL, "head_dim"}},
    {"hidden", {"n_inner", "intermediate_size", "", ""}},
    {"activation", {"activation_function", "", "hidden_act", ""}},
    {"norm_eps", {"layer_norm_epsilon", "", "layer_norm_eps", "rms_norm_eps"}},
    {"window", {NULL, "window_size", NULL, "sliding_window"}},
    {"parallel", {NULL, NULL, "use_parallel_residual", NULL}},
    {"qkv_bias", {NULL, NULL, "attention_bias", ""}},
    {"proj_bias", {NULL, NULL, "attention_bias", ""}},
    {"ffn_bias", {NULL, NULL, NULL, "mlp_bias"}},
    {"rope_theta",
     {NULL, NULL, "rope_parameters.rope_theta|rotary_emb_base", "rope_parameters.rope_theta|rope_theta"}},
    {"tied", {"tie_word_embeddings", "", "", ""}},
    {"rope_scaling", {NULL, NULL, "rope_parameters.rope_type|rope_scaling.rope_type", ""}},
    {"rope_factor", {NULL, NULL, "rope_parameters.factor|rope_scaling.factor", ""}},
    {"rope_low", {NULL, NULL, "rope_parameters.low_freq_factor|rope_scaling.low_freq_factor", ""}},
    {"rope_high", {NULL, NULL, "rope_parameters.high_freq_factor|rope_scaling.high_freq_factor", ""}},
    {"rope_context",
     {NULL, NULL,
      "rope_parameters.original_max_position_embeddings|rope_scaling.original_max_position_embeddings", ""}},
};
enum { PPO__HUB_SETTINGS = sizeof ppo__hub_settings / sizeof *ppo__hub_settings };

static const char *ppo__hub_key(int k, int style) {
    const char *const *key = ppo__hub_settings[k].key;
    while (key[style] && !*key[style]) --style;
    return key[style];
}

/* Has a setting a meaning with these others? */
static int ppo__hub_applies(const ppo_lm_config *c, const char *name) {
    if (!strcmp(name, "rope_factor")) return c->rope_scaling != PPO_ROPE_PLAIN;
    return c->rope_scaling == PPO_ROPE_LLAMA3 ||
           (strcmp(name, "rope_low") && strcmp(name, "rope_high") && strcmp(name, "rope_context"));
}

/* Words of settings there and here; of several, the first is written. */
static const char *const ppo__hub_words[][3] = {
    {"activation", "gelu_new", "gelu"},   {"activation", "gelu_pytorch_tanh", "gelu"},
    {"activation", "gelu_fast", "gelu"},  {"activation", "gelu", "gelu_erf"},
    {"activation", "silu", "silu"},       {"activation", "swish", "silu"},
    {"activation", "relu", "relu"},       {"activation", "tanh", "tanh"},
    {"rope_scaling", "default", "plain"}, {"rope_scaling", "linear", "linear"},
    {"rope_scaling", "llama3", "llama3"},
};

/* The other word for that of a setting, whose kind is in column `from`; the same one for a setting without words,
   NULL for an unknown one. */
static const char *ppo__hub_word(const char *name, const char *word, int from) {
    const char *same = word;
    for (size_t k = 0; k < sizeof ppo__hub_words / sizeof *ppo__hub_words; ++k) {
        if (strcmp(ppo__hub_words[k][0], name)) continue;
        if (!strcmp(ppo__hub_words[k][from], word)) return ppo__hub_words[k][3 - from];
        same = NULL;
    }
    return same;
}

/* How the numbers of an array there lie in a parameter here: the same; transposed (there (out, in)); transposed into
   some of the columns; or, with the queries, keys and values of each head side by side, into all. */
enum { PPO__SAME, PPO__TURNED, PPO__QUERY, PPO__KEY, PPO__VALUE, PPO__MIXED, PPO__GATE, PPO__GATED };
static const char ppo__hub_hows[] = "=tqkvmgu"; /* the same, as letters */

/* Parameters, without ".weight" and ".bias", and what they are there: how, and the name, or several. A name begins with
   '.' in the model, and with '#' in block %d of it. */
static const char *const ppo__hub_within[PPO__HUB_STYLES][2] = {{"transformer.", "transformer.h.%d."},
                                                                {"transformer.", "transformer.h.%d."},
                                                                {"gpt_neox.", "gpt_neox.layers.%d."},
                                                                {"model.", "model.layers.%d."}};
static const struct {
    const char *ours, *theirs[PPO__HUB_STYLES];
} ppo__hub_names[] = {
    {".wte", {"=.wte", "=.wte", "=.embed_in", "=.embed_tokens"}},
    {".wpe", {"=.wpe", "=.wpe", "", ""}},
    {"#ln_1", {"=#ln_1", "=#ln_1", "=#input_layernorm", "=#input_layernorm"}},
    {"#attn.c_attn",
     {"=#attn.c_attn", "q#attn.attention.q_proj k#attn.attention.k_proj v#attn.attention.v_proj",
      "m#attention.query_key_value", "q#self_attn.q_proj k#self_attn.k_proj v#self_attn.v_proj"}},
    {"#attn.q_norm", {"", "", "", "=#self_attn.q_norm"}},
    {"#attn.k_norm", {"", "", "", "=#self_attn.k_norm"}},
    {"#attn.c_proj",
     {"=#attn.c_proj", "t#attn.attention.out_proj", "t#attention.dense", "t#self_attn.o_proj"}},
    {"#ln_2", {"=#ln_2", "=#ln_2", "=#post_attention_layernorm", "=#post_attention_layernorm"}},
    {"#mlp.c_fc", {"=#mlp.c_fc", "t#mlp.c_fc", "t#mlp.dense_h_to_4h", "g#mlp.gate_proj u#mlp.up_proj"}},
    {"#mlp.c_proj", {"=#mlp.c_proj", "t#mlp.c_proj", "t#mlp.dense_4h_to_h", "t#mlp.down_proj"}},
    {".ln_f", {"=.ln_f", "=.ln_f", "=.final_layer_norm", "=.norm"}},
    {"lm_head", {"=lm_head", "=lm_head", "=embed_out", "=lm_head"}},
    {"score", {"tscore", "tscore", "tscore", "tscore"}},
};

typedef struct ppo__hub_name {
    char ours[64], theirs[64]; /* %d: the block */
    int  how;
} ppo__hub_name;

static void ppo__hub_spell(char text[64], int style, const char *name) {
    const char *within = *name == '.' || *name == '#' ? ppo__hub_within[style][*name == '#'] : "";
    snprintf(text, 64, "%s%.*s", within, (int)strcspn(name, " ") - !!*within, name + !!*within);
}

/* The name there of a matrix that every style has. */
static const char *ppo__hub_weight(const ppo_lm_config *c, const char *ours, char text[80]) {
    int row = 0;
    while (strcmp(ppo__hub_names[row].ours, ours)) ++row;
    ppo__hub_spell(text, ppo__hub_style(c), ppo__hub_names[row].theirs[ppo__hub_style(c)] + 1);
    return strcat(text, ".weight");
}

/* The k-th array of a style; 0: there is none. */
static int ppo__hub_name_at(int style, int k, ppo__hub_name *name) {
    for (size_t row = 0; row < sizeof ppo__hub_names / sizeof *ppo__hub_names; ++row)
        for (const char *at = ppo__hub_names[row].theirs[style]; *at; at += *at == ' ') {
            if (k-- == 0) {
                name->how = (int)(strchr(ppo__hub_hows, *at) - ppo__hub_hows);
                ppo__hub_spell(name->ours, PPO__GPT2, ppo__hub_names[row].ours);
                ppo__hub_spell(name->theirs, style, at + 1);
                return 1;
            }
            at += strcspn(at, " ");
        }
    return 0;
}

/* Arrays with these ends are no parameters: causal masks, and what rotary positions are computed from. */
static const char *const ppo__hub_buffers[] = {".attn.bias", ".attn.masked_bias", ".attention.bias",
                                               ".attention.masked_bias", ".rotary_emb.inv_freq"};

/* -- config.json -- */

typedef struct ppo__hub_json {
    ppo__json   json;
    ppo__value *all;     /* of it */
    char        key[64]; /* what was found last */
} ppo__hub_json;

/* The first of "a.b|c" that is there, or NULL. */
static ppo__value *ppo__hub_get(ppo__hub_json *hub, const char *keys) {
    ppo__value *value = NULL;
    for (size_t n; !value && *keys; keys += n + (keys[n] == '|')) {
        char first[64];
        n = strcspn(keys, "|");
        snprintf(hub->key, sizeof hub->key, "%.*s", (int)n, keys);
        char *dot = strchr(strcpy(first, hub->key), '.');
        if (dot) *dot = 0;
        value = ppo__json_get(&hub->json, hub->all, first);
        if (value && dot) value = value->kind == '{' ? ppo__json_get(&hub->json, value, dot + 1) : NULL;
    }
    return value;
}

/* The same as the text of a setting. */
static const char *ppo__hub_text(ppo__hub_json *hub, const char *keys) {
    ppo__value *value = ppo__hub_get(hub, keys);
    if (!value) return NULL;
    if (value->kind == '"' || value->kind == 's') return ppo__json_decode(&hub->json, value);
    if (value->kind == 't' || value->kind == 'f') return value->kind == 't' ? "yes" : "no";
    ppo__json_skip(&hub->json);
    *hub->json.at = 0; /* a character that was taken already */
    return value->at;
}

static int ppo__hub_is(ppo__hub_json *hub, const char *key, const char *text) {
    const char *is = ppo__hub_text(hub, key);
    return is && !strcmp(is, text);
}

static ppo_status ppo__hub_unknown(const ppo__hub_json *hub, const char *text) {
    return ppo__file_fail(hub->json.path, "%s \"%.60s\" is not known", hub->key, text);
}

/* The bits of the layers that have a window, from a list of words, the windowed one of which is `local`; or from
   pairs of a list and how often it is repeated, as GPT-Neo's [[["global", "local"], 6]]. */
static ppo_status ppo__hub_layers(ppo__hub_json *hub, ppo__value *list, const char *local, const char *global,
                                  ppo_lm_config *c) {
    ppo__json *json = &hub->json;
    uint64_t   bits = 0;
    int        layer = 0, first = 0; /* of the list of words */
    if (list->kind != '[') ppo__json_expect(json, '[');
    for (ppo__value *v = list + 1; v < list + list->size && !json->status; ++v) {
        json->at = v->at;
        if (v->kind == '[') first = layer;
        else if (v->kind == '0') {
            const int64_t times = ppo__json_integer(json);
            const int     n = layer - first,
                      end = first + n * (times < PPO_MAX_LAYERS ? (int)times : (int)PPO_MAX_LAYERS);
            for (; layer < end && layer < PPO_MAX_LAYERS; ++layer) bits |= (bits >> (layer - n) & 1) << layer;
            if (layer < end) layer = end;
        } else {
            const char *word = ppo__json_decode(json, v);
            const int   is_local = !strcmp(word, local);
            if (json->status) break;
            if (!is_local && strcmp(word, global)) return ppo__hub_unknown(hub, word);
            if (layer < PPO_MAX_LAYERS) bits |= (uint64_t)is_local << layer;
            ++layer;
        }
    }
    if (json->status) return json->status;
    if (layer != c->layers)
        return ppo__file_fail(json->path, "%s lists %d layers of %d", hub->key, layer, c->layers);
    if (!bits) c->window = 0;
    c->window_layers = bits == UINT64_MAX >> (64 - layer) ? 0 : bits; /* 0: all of them */
    return PPO_OK;
}

/* Which layers have a window; c->window is set. */
static ppo_status ppo__hub_window(ppo__hub_json *hub, ppo_lm_config *c) {
    const int   mistral = !strcmp(ppo__lm_families[c->family][0], "mistral");
    const char *rest = "";
    ppo__value *list =
        c->family == PPO__GPT_NEO ? ppo__hub_get(hub, "attention_layers|attention_types") : NULL;
    if (list) return ppo__hub_layers(hub, list, "local", "global", c);
    if (c->family <= PPO__LLAMAS) return PPO_OK;
    if (!mistral && !ppo__hub_is(hub, "use_sliding_window", "yes")) c->window = 0;
    list = c->window ? ppo__hub_get(hub, "layer_types") : NULL;
    if (list) return ppo__hub_layers(hub, list, "sliding_attention", "full_attention", c);
    const char *from = c->window && !mistral ? ppo__hub_text(hub, "max_window_layers") : NULL;
    int         first = from ? ppo__parse_count(from, &rest) : 0;
    if (*rest) return ppo__hub_unknown(hub, from);
    if (first >= c->layers) c->window = 0;
    for (int k = first; k < c->layers && first && k < 64; ++k) c->window_layers |= (uint64_t)1 << k;
    return PPO_OK;
}

static ppo_status ppo__hub_config(ppo__hub_json *hub, ppo_lm_config *c) {
    static const char *const refused[] = {"quantization_config", "scale_attn_by_inverse_layer_idx",
                                          "add_cross_attention", "is_encoder_decoder"};
    const char              *path = hub->json.path, *family = ppo__hub_text(hub, "model_type");
    double                   share = 1;
    *c = ppo_lm_config_default();
    if (hub->json.status) return hub->json.status;
    if (!family) return ppo__file_fail(path, "there is no model_type");
    if (ppo_lm_config_family(c, family))
        return ppo__file_fail(path, "model_type \"%.40s\" is not known, only %s", family,
                              &(PPO__LM_FAMILIES(PPO__FAMILY_WORD))[1]);
    for (size_t k = 0; k < sizeof refused / sizeof *refused; ++k)
        if (ppo__hub_get(hub, refused[k]) && !ppo__hub_is(hub, refused[k], "no"))
            return ppo__file_fail(path, "%s is there, which is not supported", refused[k]);
    const int style = ppo__hub_style(c);
    if (!strcmp(family, "qwen3")) c->head_size = 128;
    for (int k = 0; k < PPO__HUB_SETTINGS; ++k) {
        const char *name = ppo__hub_settings[k].name, *key = ppo__hub_key(k, style);
        if (!key || !ppo__hub_applies(c, name)) continue;
        if (!strcmp(family, "qwen2") && !strcmp(key, "attention_bias")) continue;
        const char *text = ppo__hub_text(hub, key), *value;
        if (!text && !strcmp(name, "rope_scaling")) text = ppo__hub_text(hub, "rope_scaling.type");
        if (hub->json.status) return hub->json.status;
        if (!text && k < 5) return ppo__file_fail(path, "there is no %s", key);
        if (!text) continue;
        value = ppo__hub_word(name, text, 1);
        if (!value) return ppo__hub_unknown(hub, text);
        if (ppo_settings_set(&ppo__lm_settings, c, name, value))
            return ppo__file_fail(path, "%s: %s", hub->key, ppo__error);
    }
    if (ppo__hub_is(hub, "scale_attn_weights", "no")) c->attention_scale = 1;
    ppo_status status = ppo__hub_window(hub, c);
    if (status || hub->json.status || c->positions != PPO_ROTARY) return status ? status : hub->json.status;
    const char *part =
        ppo__hub_text(hub, "rope_parameters.partial_rotary_factor|partial_rotary_factor|rotary_pct");
    if (!part && style != PPO__GPT_NEOX) return PPO_OK;
    if (!ppo__parse_number(part ? part : "0.25", &share) || !(share > 0 && share <= 1))
        return ppo__hub_unknown(hub, part);
    c->rotary_size = (int)(share * (c->head_size ? c->head_size : c->heads ? c->width / c->heads : 0));
    return PPO_OK;
}

/* -- arrays -- */

static float ppo__half_float(uint16_t half) {
    const int   exponent = half >> 10 & 31, digits = half & 1023;
    const float size = exponent == 31 ? (digits ? NAN : INFINITY)
                       : exponent     ? ldexpf((float)(1024 + digits), exponent - 25)
                                      : ldexpf((float)digits, -24);
    return half & 0x8000 ? -size : size;
}

/* The nearest one, of two the even one; beyond the largest, infinity. */
static uint16_t ppo__float_half(float x) {
    int            exponent;
    const float    size = fabsf(x);
    const uint16_t sign = (uint16_t)(x < 0 ? 0x8000 : 0);
    frexpf(size, &exponent);
    if (exponent < -13) exponent = -13; /* subnormal */
    const float digits = nearbyintf(ldexpf(size, 11 - exponent));
    if (!(size < 65520)) return (uint16_t)(sign | 0x7c00);
    return (uint16_t)(sign | (digits < 1024 ? (int)digits : (exponent + 13) * 1024 + (int)digits));
}

static void ppo__to_floats(int type, const void *from, size_t n, float *to) {
    const uint16_t *two = (const uint16_t *)from;
    if (type == PPO_F32) memcpy(to, from, n * sizeof *to);
    for (size_t i = 0; i < n && type == PPO_F16; ++i) to[i] = ppo__half_float(two[i]);
    for (size_t i = 0; i < n && type == PPO_BF16; ++i) {
        const uint32_t bits = (uint32_t)two[i] << 16;
        memcpy(&to[i], &bits, sizeof bits);
    }
}

static void ppo__from_floats(int type, const float *from, size_t n, void *to) {
    uint16_t *two = (uint16_t *)to;
    if (type == PPO_F32) memcpy(to, from, n * sizeof *from);
    for (size_t i = 0; i < n && type == PPO_F16; ++i) two[i] = ppo__float_half(from[i]);
    for (size_t i = 0; i < n && type == PPO_BF16; ++i) {
        uint32_t bits;
        memcpy(&bits, &from[i], sizeof bits);
        two[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
}

typedef struct ppo__hub {
    const char *folder;
    ppo__arena  memory;
    ppo_file  **files; /* with the arrays */
    ppo_lm     *lm;
    int         bare; /* 1: names lack their first word, as "transformer." */
    int         type; /* of what is saved */
} ppo__hub;

static void ppo__hub_free(ppo__hub *hub) {
    for (size_t i = 0; i < stbds_arrlenu(hub->files); ++i) ppo_file_free(hub->files[i]);
    ppo__array_free((void *)hub->files);
    ppo__arena_free(&hub->memory);
}

static const char *ppo__hub_path(ppo__hub *hub, const char *name) {
    char *path = PPO__ARRAY(&hub->memory, char, strlen(hub->folder) + strlen(name) + 2);
    if (path) sprintf(path, "%s/%s", hub->folder, name);
    return path;
}

static const ppo_array *ppo__hub_find(const ppo__hub *hub, const char *name, const ppo_file **file) {
    const ppo_array *array = NULL;
    const char      *bare = strchr(name, '.');
    for (size_t i = 0; i < stbds_arrlenu(hub->files) && !array; ++i) {
        array = ppo_file_find(*file = hub->files[i], name);
        if (!array && hub->bare && bare) array = ppo_file_find(*file, bare + 1);
    }
    return array;
}

/* The column here of row r there. */
static int ppo__hub_column(const ppo_lm_config *c, int how, int r) {
    const int size = c->head_size, heads = c->heads * size;
    if (how == PPO__KEY) return heads + r;
    if (how == PPO__VALUE) return heads + c->kv_heads * size + r;
    if (how == PPO__GATED) return c->hidden + r;
    if (how == PPO__MIXED) return r / size % 3 * heads + r / (3 * size) * size + r % size;
    return r;
}

/* An array's rows there: (rows, cols), or (rows) with cols 1, which is a bias or a norm. */
static void ppo__hub_shape(const ppo_lm_config *c, const ppo_tensor *x, int how, int *rows, int *cols) {
    *rows = how == PPO__SAME && x->rows > 1 ? x->rows : x->cols;
    *cols = how == PPO__SAME ? (x->rows > 1 ? x->cols : 1) : x->rows;
    if (how == PPO__QUERY) *rows = c->heads * c->head_size;
    if (how == PPO__KEY || how == PPO__VALUE) *rows = c->kv_heads * c->head_size;
    if (how == PPO__GATE || how == PPO__GATED) *rows = c->hidden;
}

/* Some rows there, from or to the parameter x here. */
static void ppo__hub_place(const ppo_lm_config *c, ppo_tensor *x, int how, int way, float *there, int first,
                           int rows, int cols) {
    if (how == PPO__SAME) {
        float *here = x->data + ppo__at(first, cols);
        memcpy(way == PPO__LOAD ? here : there, way == PPO__LOAD ? there : here,
               ppo__at(rows, cols) * sizeof *there);
        return;
    }
    for (int j = 0; j < cols; ++j) {
        for (int r = 0; r < rows; ++r) {
            float *here = x->data + ppo__at(j, x->cols) + ppo__hub_column(c, how, first + r);
            float *that = there + ppo__at(r, cols) + j;
            if (way == PPO__LOAD) *here = *that;
            else *that = *here;
        }
    }
}

enum { PPO__HUB_ROWS = 16 }; /* that are carried at a time */

/* Carries an array there, some rows at a time. floats: room for twice as many numbers. */
static ppo_status ppo__hub_array(ppo__hub *hub, int way, const char *name, ppo_tensor *x, int how,
                                 float *floats, int rows, int cols, int rank) {
    char             is[PPO__SHAPE_SIZE], wanted[PPO__SHAPE_SIZE], *data = NULL;
    const int64_t    shape[2] = {rows, cols};
    const ppo_file  *file = NULL;
    const ppo_array *array = way == PPO__LOAD ? ppo__hub_find(hub, name, &file) : NULL;
    const int        type = array ? array->type : hub->type;
    const size_t     row = ppo__at(cols, ppo__types[type].size);
    const float      most = type == PPO_F16 ? 65504 : FLT_MAX;
    void            *raw = floats + ppo__at(PPO__HUB_ROWS, cols);
    if (way == PPO__SAVE) {
        data = (char *)ppo__arena_array(&hub->memory, (size_t)rows, row);
        if (!data) return PPO_ERROR_MEMORY;
    } else if (!array) {
        return ppo__file_fail(hub->folder, "there is no \"%.80s\"", name);
    } else if (type != PPO_F32 && type != PPO_F16 && type != PPO_BF16) {
        return ppo__file_fail(file->path, "\"%.80s\" is %s, not F32, F16 or BF16", name,
                              ppo__types[type].name);
    } else {
        ppo__shape_text(wanted, type, shape, rank);
        if (strcmp(ppo__shape_text(is, type, array->shape, array->rank), wanted))
            return ppo__file_fail(file->path, "\"%.80s\" is %s, not %s", name, is, wanted);
        ((ppo__entry *)(void *)array)->taken = 1;
    }
    for (int r = 0; r < rows; r += PPO__HUB_ROWS) {
        const int    n = rows - r < PPO__HUB_ROWS ? rows - r : (int)PPO__HUB_ROWS;
        const size_t count = ppo__at(n, cols), at = (size_t)r * row;
        if (array && ppo__file_fetch(file, array, at, (size_t)n * row, raw)) return PPO_ERROR_FILE;
        if (array) ppo__to_floats(type, raw, count, floats);
        else ppo__hub_place(&hub->lm->full, x, how, way, floats, r, n, cols);
        for (size_t i = 0; i < count; ++i) {
            if (fabsf(floats[i]) <= most) continue;
            if (array) return ppo__file_fail(file->path, "\"%.80s\" has a number that is not finite", name);
            return ppo_fail(PPO_ERROR_NUMERIC, "\"%.80s\" has %g, which %s cannot hold: nothing was saved",
                            name, (double)floats[i], ppo__types[type].name);
        }
        if (array) ppo__hub_place(&hub->lm->full, x, how, way, floats, r, n, cols);
        else ppo__from_floats(type, floats, count, data + at);
    }
    return array ? PPO_OK : ppo_file_add(hub->files[0], name, type, shape, rank, data);
}

/* All parameters, by the family's names. */
static ppo_status ppo__hub_carry(ppo__hub *hub, int way) {
    const ppo_lm_config *c = &hub->lm->full;
    const ppo_params    *params = hub->lm->params;
    const ppo_file      *file;
    int                  widest = 0, rows, cols;
    ppo__hub_name        name;
    for (int i = 0; i < params->tensor_count; ++i) {
        const ppo_tensor *x = params->tensors[i];
        if (x->rows > widest) widest = x->rows;
        if (x->cols > widest) widest = x->cols;
    }
    float *floats = PPO__ARRAY(&hub->memory, float, 2 * PPO__HUB_ROWS * (size_t)widest);
    if (!floats) return PPO_ERROR_MEMORY;
    for (int a = 0; ppo__hub_name_at(ppo__hub_style(c), a, &name); ++a) {
        for (int k = 0; k < 2 * (strchr(name.ours, '%') ? c->layers : 1); ++k) {
            char ours[96], theirs[96];
            int  i = 0;
            snprintf(ours, 80, name.ours, k / 2);
            snprintf(theirs, 80, name.theirs, k / 2);
            strcat(ours, k % 2 ? ".bias" : ".weight");
            strcat(theirs, k % 2 ? ".bias" : ".weight");
            while (i < params->tensor_count && strcmp(params->names[i], ours)) ++i;
            if (i == params->tensor_count) continue;
            ppo_tensor *x = params->tensors[i];
            ppo__hub_shape(c, x, name.how, &rows, &cols);
            const int rank = k % 2 || (name.how == PPO__SAME && x->rows == 1) ? 1 : 2;
            const int own = !strcmp(ours, "score.bias"); /* transformers has none */
            if (own && (way == PPO__LOAD ? !ppo__hub_find(hub, ours, &file) : x->data[0] == 0)) continue;
            if (ppo__hub_array(hub, way, theirs, x, name.how, floats, rows, cols, rank)) return ppo__failed;
        }
    }
    return PPO_OK;
}

static ppo_status ppo__hub_add(ppo__hub *hub, const char *path) {
    ppo_file  *file = NULL;
    ppo_status status = ppo__file_open(path, &file);
    if (!status && PPO__PUSH(hub->files, file)) ppo_file_free(file), status = PPO_ERROR_MEMORY;
    return status;
}

/* The arrays' files: model.safetensors, or those that model.safetensors.index.json names. */
static ppo_status ppo__hub_open(ppo__hub *hub) {
    ppo__json   json;
    ppo__value *item = NULL;
    const char *whole = ppo__hub_path(hub, "model.safetensors");
    const char *index = ppo__hub_path(hub, "model.safetensors.index.json");
    if (!whole || !index) return PPO_ERROR_MEMORY;
    FILE *exists = fopen(whole, "rb");
    if (exists) fclose(exists);
    if (exists || ppo__json_open(&json, index, &hub->memory)) return ppo__hub_add(hub, whole);
    ppo__value *names = ppo__json_get(&json, ppo__json_tree(&json, &hub->memory), "weight_map");
    for (const char *last = ""; ppo__json_each(&json, names, '{', &item);) {
        const char *name = ppo__json_decode(&json, item), *path;
        size_t      known = 0;
        if (json.status || !strcmp(name, last)) continue;
        if (strpbrk(name, "/\\:") || !*name) ppo__json_fail(&json, "no name of a file: ", name);
        if (json.status) break;
        path = ppo__hub_path(hub, last = name);
        if (!path) return PPO_ERROR_MEMORY;
        while (known < stbds_arrlenu(hub->files) && strcmp(hub->files[known]->path, path)) ++known;
        if (known == stbds_arrlenu(hub->files)) json.status = ppo__hub_add(hub, path);
    }
    if (!json.status && !stbds_arrlenu(hub->files)) return ppo__file_fail(index, "it names no file");
    return json.status;
}

static ppo_status ppo__lm_count(void *user, ppo_tensor **tensor, const char *name, int rows, int cols,
                                int random, float x) {
    *(double *)user += (double)rows * cols;
    return PPO_OK;
}

/* What the arrays say of the settings; and enough numbers for a model of these must be there before it is created. */
static ppo_status ppo__hub_check(ppo__hub *hub, ppo_lm *likely) {
    ppo_lm_config  *c = &likely->config;
    const ppo_file *file;
    char            name[80];
    double          there = 0, here = 0;
    hub->bare = !ppo__hub_find(hub, ppo__hub_weight(c, ".wte", name), &file);
    const ppo_array *score = ppo__hub_find(hub, "score.weight", &file);
    c->score = score != NULL;
    if (score && score->rank == 2 && score->shape[0] != 1)
        return ppo__file_fail(file->path,
                              "score.weight has %lld rows: only models of one label are supported",
                              (long long)score->shape[0]);
    if (score && !ppo__hub_find(hub, ppo__hub_weight(c, "lm_head", name), &file))
        c->tied = 1; /* a classifier has no head for tokens */
    const ppo_lm_config given = *c;
    if (ppo__lm_describe(likely, &given)) return ppo__file_fail(hub->folder, "config.json: %s", ppo__error);
    for (size_t i = 0; i < stbds_arrlenu(hub->files); ++i)
        for (int k = 0; k < ppo_file_count(hub->files[i]); ++k) {
            const ppo_array *array = ppo_file_at(hub->files[i], k);
            there += (double)array->bytes / ppo__types[array->type].size;
        }
    ppo__lm_visit(likely, ppo__lm_count, &here);
    if (here > there + c->score)
        return ppo__file_fail(
            hub->folder, "config.json describes %.0f parameters, the arrays have %.0f numbers", here, there);
    return PPO_OK;
}

/* A head of its own, in the file of a model that is to have none, must be the embedding. */
static ppo_status ppo__hub_check_tied(ppo__hub *hub) {
    const ppo_tensor *embedding = hub->lm->token_embedding;
    const size_t      bytes = ppo__size(embedding) * sizeof(float);
    const ppo_file   *file = NULL;
    char              text[80];
    const char       *name = ppo__hub_weight(&hub->lm->config, "lm_head", text);
    if (!hub->lm->config.tied || !ppo__hub_find(hub, name, &file)) return PPO_OK;
    ppo_tensor copy = *embedding;
    float     *floats = PPO__ARRAY(&hub->memory, float, 2 * PPO__HUB_ROWS * (size_t)copy.cols);
    copy.data = (float *)ppo__arena_array(&hub->memory, bytes, 1);
    if (!floats || !copy.data) return PPO_ERROR_MEMORY;
    if (ppo__hub_array(hub, PPO__LOAD, name, &copy, PPO__SAME, floats, copy.rows, copy.cols, 2))
        return ppo__failed;
    if (!memcmp(copy.data, embedding->data, bytes)) return PPO_OK;
    return ppo__file_fail(file->path, "\"%s\" is not the embedding, but tie_word_embeddings is true", name);
}

/* Every array must have been read, but for known buffers: one that is not would be missing in what is computed. */
static ppo_status ppo__hub_check_all(ppo__hub *hub) {
    for (size_t i = 0; i < stbds_arrlenu(hub->files); ++i) {
        for (int k = 0; k < ppo_file_count(hub->files[i]); ++k) {
            const ppo__entry *entry = hub->files[i]->arrays[k];
            const char       *name = entry->array.name;
            int               known = entry->taken;
            for (size_t b = 0; b < sizeof ppo__hub_buffers / sizeof *ppo__hub_buffers && !known; ++b) {
                const size_t length = strlen(name), end = strlen(ppo__hub_buffers[b]);
                known = length > end && !strcmp(name + length - end, ppo__hub_buffers[b]);
            }
            if (!known)
                return ppo__file_fail(hub->files[i]->path,
                                      "\"%.80s\" has no place in a model with this config.json", name);
        }
    }
    return PPO_OK;
}

static ppo_status ppo__load_folder(ppo__hub *hub, const char *config) {
    ppo__hub_json read;
    ppo_lm        likely;
    memset(&likely, 0, sizeof likely);
    if (ppo__json_open(&read.json, config, &hub->memory) ||
        (read.all = ppo__json_tree(&read.json, &hub->memory)) == NULL ||
        ppo__hub_config(&read, &likely.config) || ppo__hub_open(hub) || ppo__hub_check(hub, &likely) ||
        ppo__lm_make(&likely.config, 0, &hub->lm) || ppo__hub_carry(hub, PPO__LOAD) ||
        ppo__hub_check_tied(hub))
        return ppo__failed;
    return ppo__hub_check_all(hub);
}

PPO_DEF ppo_status ppo_lm_load(const char *path, ppo_lm **lm) {
    ppo__hub  hub = {path, {NULL, NULL, PPO_OK}, NULL, NULL, 0, 0};
    ppo_file *file = NULL;
    if (lm) *lm = NULL;
    if (!ppo__given("ppo_lm_load", path && lm)) return PPO_ERROR_ARGUMENT;
    const char *config = ppo__hub_path(&hub, "config.json");
    FILE       *folder = config ? fopen(config, "rb") : NULL;
    ppo_status  status = ppo__arena_status(&hub.memory);
    if (folder) {
        fclose(folder);
        status = ppo__load_folder(&hub, config);
    } else if (!status && ppo__is_special(path))
        status = ppo__file_fail(path, "it is neither a file nor a folder with a config.json");
    else if (!status && !(status = ppo__file_open(path, &file))) status = ppo_lm_get(file, &hub.lm);
    if (status) ppo_lm_free(hub.lm);
    else *lm = hub.lm;
    ppo_file_free(file);
    ppo__hub_free(&hub);
    return status;
}

/* Can the family's config.json say all of these settings? Those that it cannot must be the family's. */
static ppo_status ppo__hub_can_say(const ppo_lm_config *c) {
    ppo_lm_config family = *c;
    const int     style = ppo__hub_style(c);
    const char   *name = ppo__lm_families[c->family][0];
    ppo_lm_config_family(&family, name);
    for (int i = 0; i < ppo__lm_settings.count; ++i) {
        const char *field = ppo__lm_fields[i].name;
        char        is[32], other[32];
        int said = !strcmp(field, "score") || !strcmp(field, "seed") || !strcmp(field, "attention_scale");
        said |= !strcmp(field, "rotary_size") && c->positions == PPO_ROTARY && family.positions == PPO_ROTARY;
        said |= !strcmp(field, "window_layers") && style != PPO__GPT2 && style != PPO__GPT_NEOX;
        for (int k = 0; k < PPO__HUB_SETTINGS; ++k)
            said |= !strcmp(ppo__hub_settings[k].name, field) && ppo__hub_key(k, style);
        ppo_settings_get(&ppo__lm_settings, c, field, is, sizeof is);
        ppo_settings_get(&ppo__lm_settings, &family, field, other, sizeof other);
        if (said || !strcmp(is, other)) continue;
        if ((!strcmp(field, "kv_heads") && c->kv_heads == c->heads) ||
            (!strcmp(field, "hidden") && c->hidden == 4 * c->width) ||
            (!strcmp(field, "head_size") && c->head_size * c->heads == c->width))
            continue;
        return ppo__refuse("%s is %s, which a folder of family %s cannot say", field, is, name);
    }
    return PPO_OK;
}

/* One of two words for each layer. */
static void ppo__put_layers(ppo__header *json, const ppo_lm_config *c, const char *local,
                            const char *global) {
    for (int k = 0; k < c->layers; ++k)
        ppo__put(json, "%s\"%s\"", k ? ", " : "",
                 c->window && (!c->window_layers || c->window_layers >> k & 1) ? local : global);
}

/* config.json in the words of transformers 4, which 5 reads as well. */
static ppo_status ppo__write_hub_config(FILE *out, const char *path, void *user) {
    const ppo__hub      *hub = (const ppo__hub *)user;
    const ppo_lm_config *c = &hub->lm->full;
    const int            style = ppo__hub_style(c);
    const char          *within = ""; /* the object that is open */
    ppo__header          json = {out, 0};
    ppo__put(&json,
             "{\n  \"architectures\": [\"%s%s\"],\n  \"model_type\": \"%s\",\n  \"torch_dtype\": \"%s\"",
             ppo__hub_classes[c->family],
             c->score             ? "ForSequenceClassification"
             : style == PPO__GPT2 ? "LMHeadModel"
                                  : "ForCausalLM",
             ppo__lm_families[c->family][0],
             hub->type == PPO_F16    ? "float16"
             : hub->type == PPO_BF16 ? "bfloat16"
                                     : "float32");
    for (int k = 0; k < PPO__HUB_SETTINGS; ++k) {
        const char *key = ppo__hub_key(k, style), *name = ppo__hub_settings[k].name;
        char        value[32];
        ppo_settings_get(&ppo__lm_settings, c, name, value, sizeof value);
        if (!key || !strcmp(name, "proj_bias") || !ppo__hub_applies(c, name) ||
            (!strcmp(name, "window") && !c->window) || !strcmp(value, "plain"))
            continue;
        const char *word = ppo__hub_word(name, value, 2), *quote = word == value ? "" : "\"";
        if (!strcmp(value, "yes")) word = "true";
        if (!strcmp(value, "no")) word = "false";
        key = strrchr(key, '|') ? strrchr(key, '|') + 1 : key;
        const int dot = (int)strcspn(key, ".");
        ppo__put(&json, ",%s", *within ? " " : "\n  ");
        if (key[dot] && !*within) ppo__put(&json, "\"%.*s\": {", dot, within = key);
        ppo__put(&json, "\"%s\": %s%s%s", key[dot] ? key + dot + 1 : key, quote, word, quote);
    }
    if (*within) ppo__put(&json, "}");
    if (style == PPO__GPT_NEO) {
        ppo__put(&json, ",\n  \"attention_types\": [[[");
        ppo__put_layers(&json, c, "local", "global");
        ppo__put(&json, "], 1]]");
    } else if (style == PPO__LLAMAS && c->window > 0) {
        ppo__put(&json, ",\n  \"use_sliding_window\": true,\n  \"layer_types\": [");
        ppo__put_layers(&json, c, "sliding_attention", "full_attention");
        ppo__put(&json, "]");
    }
    if (c->positions == PPO_ROTARY && c->rotary_size != c->head_size)
        ppo__put(&json, ",\n  \"%s\": %.9g", style == PPO__GPT_NEOX ? "rotary_pct" : "partial_rotary_factor",
                 (double)c->rotary_size / c->head_size);
    else if (style == PPO__GPT_NEOX) ppo__put(&json, ",\n  \"rotary_pct\": 1.0");
    if (c->score) ppo__put(&json, ",\n  \"id2label\": {\"0\": \"reward\"},\n  \"label2id\": {\"reward\": 0}");
    ppo__put(&json, "\n}\n");
    return PPO_OK;
}

PPO_DEF ppo_status ppo_lm_save(const ppo_lm *lm, const char *path, int dtype) {
    ppo__hub hub = {path, {NULL, NULL, PPO_OK}, NULL, (ppo_lm *)lm, 0, dtype};
    if (!ppo__given("ppo_lm_save", lm && path)) return PPO_ERROR_ARGUMENT;
    if (dtype != PPO_F32 && dtype != PPO_F16 && dtype != PPO_BF16)
        return ppo__refuse("ppo_lm_save: dtype is %d, none of PPO_F32, PPO_F16 and PPO_BF16", dtype);
    ppo_file   *file = NULL;
    const char *model = ppo__hub_path(&hub, "model.safetensors");
    const char *config = ppo__hub_path(&hub, "config.json");
    ppo_status  status = ppo__arena_status(&hub.memory);
    if (!status) status = ppo_file_create(&file);
    if (!status && PPO__PUSH(hub.files, file)) ppo_file_free(file), status = PPO_ERROR_MEMORY;
    if (!status && (ppo__hub_can_say(&lm->full) || ppo__params_fetch(lm->params) ||
                    ppo_file_set_text(file, "format", "pt") || /* transformers refuses files without it */
                    ppo__hub_carry(&hub, PPO__SAVE) || ppo_file_write(file, model) ||
                    ppo__write_file(config, ppo__write_hub_config, &hub)))
        status = ppo__failed;
    ppo__hub_free(&hub);
    return status;
}

/* --------------------------------------------------------------------------------------------------------
   @@ 20 Sampling

   ppo_generate(), at the end, is the loop: ppo__list_rows() gives free slots to waiting prompts and lists the
   tokens that the model has not seen; ppo__ask() runs the model on these rows and draws a token for each
   slot; the slots append them. Keys and values of earlier tokens are cached: keys in pages of PPO__KEY_PAGE
   positions. The arithmetic of a row is that of training (section 18), so the bits are the same.

   To add a sampling rule: a field of ppo_sampling, its row in PPO__SAMPLING_FIELDS, its lines in
   ppo__probabilities() (and in the sampler of ppo_cuda.cuh, which is tested against it).
   -------------------------------------------------------------------------------------------------------- */

PPO_DEF ppo_sampling ppo_sampling_default(void) {
    ppo_sampling how = {1, 0, 0, 1, -1, 0, 1, -1, NULL, NULL};
    return how;
}

/* Its settings, for a ppo_sampling that is `base` bytes into a struct. */
#define PPO__SAMPLING_FIELD(base, name, type, min, max, choices, help) \
    { #name, PPO_FIELD_##type, (base) + offsetof(ppo_sampling, name), min, max, choices, help, 0 }
#define PPO__SAMPLING_FIELDS(base)                                                                        \
    PPO__SAMPLING_FIELD(base, temperature, FLOAT, 1e-30, 1e30, NULL, "logits are divided by it"),         \
        PPO__SAMPLING_FIELD(base, greedy, CHOICE, 0, 1, "no|yes", "always the most likely token"),        \
        PPO__SAMPLING_FIELD(base, top_k, INT, 0, INT_MAX, NULL, "only the k most likely tokens; 0: all"), \
        PPO__SAMPLING_FIELD(base, top_p, FLOAT, 1e-30, 1, NULL, "the most likely with this probability"), \
        PPO__SAMPLING_FIELD(base, eos, INT, -1, INT_MAX, NULL, "token that ends a sequence; -1: none"),   \
        PPO__SAMPLING_FIELD(base, max_new, INT, 0, INT_MAX, NULL,                                         \
                            "tokens after the prompt at most; 0: the context"),                           \
        PPO__SAMPLING_FIELD(base, call, INT, -1, INT_MAX, NULL, "token that calls the tool; -1: none")

static ppo_status ppo__check_sampling(const ppo_sampling *how, int vocab) {
    static const ppo_field    fields[] = {PPO__SAMPLING_FIELDS(0)};
    static const ppo_settings settings = {fields, sizeof fields / sizeof *fields};
    ppo_status                status = ppo_settings_check(&settings, how);
    if (status) return status;
    if (how->eos >= vocab)
        return ppo__refuse("eos is %d, outside 0 .. %d (-1: no token ends a sequence)", how->eos, vocab - 1);
    if (how->call >= vocab)
        return ppo__refuse("call is %d, outside 0 .. %d (-1: no token calls a tool)", how->call, vocab - 1);
    if ((how->call >= 0) != (how->tool != NULL))
        return ppo__refuse("call is %d, but tool is %sNULL: both or none", how->call,
                           how->tool ? "not " : "");
    if (how->call >= 0 && how->call == how->eos) return ppo__refuse("call and eos are both %d", how->call);
    return PPO_OK;
}

static int ppo__descending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* The smallest probability that top_k and top_p keep. sorted: scratch. */
static float ppo__least_kept(const ppo_sampling *how, const float *p, int vocab, float *sorted) {
    int    kept = how->top_k && how->top_k < vocab ? how->top_k : vocab;
    double total = 0, sum = 0;
    memcpy(sorted, p, vocab * sizeof(float));
    qsort(sorted, (size_t)vocab, sizeof(float), ppo__descending);
    while (kept < vocab && sorted[kept] == sorted[kept - 1]) ++kept;
    for (int j = 0; j < kept; ++j) total += sorted[j];
    int last = 0; /* a token stays while those before it do not have top_p yet */
    for (sum = sorted[0]; last + 1 < kept && sum < how->top_p * total;) sum += sorted[++last];
    return sorted[last];
}

/* ppo_sampling_probabilities() by settings that are checked. */
static ppo_status ppo__probabilities(const ppo_sampling *how, const float *logits, int vocab, float *p,
                                     float *scratch) {
    memcpy(p, logits, vocab * sizeof(float));
    ppo__k()->softmax(1 / how->temperature, p, vocab);
    if (!(p[0] >= 0)) return ppo_fail(PPO_ERROR_NUMERIC, "a logit is NaN or infinite"); /* then all are NaN */
    if (how->greedy) {
        memset(p, 0, vocab * sizeof(float));
        p[ppo_categorical_mode(logits, vocab)] = 1;
    } else if (how->top_k || how->top_p < 1) {
        float  least = ppo__least_kept(how, p, vocab, scratch);
        double total = 0;
        for (int j = 0; j < vocab; ++j) {
            if (p[j] < least) p[j] = 0;
            total += p[j];
        }
        ppo__k()->scale((float)(1 / total), p, (size_t)vocab);
    }
    return PPO_OK;
}

PPO_DEF ppo_status ppo_sampling_probabilities(const ppo_sampling *how, const float *logits, int vocab,
                                              float *p, float *scratch) {
    if (!ppo__given("ppo_sampling_probabilities", how && logits && p && scratch)) return PPO_ERROR_ARGUMENT;
    if (vocab < 1) return ppo__refuse("ppo_sampling_probabilities: vocab is %d, must be above 0", vocab);
    ppo_status status = ppo__check_sampling(how, vocab);
    return status ? status : ppo__probabilities(how, logits, vocab, p, scratch);
}

/* A token by its probability; if rounding left their sum below the threshold, the last possible one. */
static int ppo__draw(const float *p, int vocab, ppo_rng *rng) {
    float sum = 0, threshold = ppo_rng_uniform(rng);
    int   last = 0;
    for (int j = 0; j < vocab; ++j) {
        sum += p[j];
        if (threshold < sum) return j;
        if (p[j] > 0) last = j;
    }
    return last;
}

/* Sampling on a tape, wherever it computes: from logits (n, vocab), tokens (n, 1), which are ints, and their
   log-probabilities (n, 1), NaN where the logits are not finite. Each row draws one number. */
typedef struct ppo__sample_args {
    const ppo_sampling *how;
    const ppo_rng      *rng; /* [n] */
    float              *p;   /* scratch [2 vocab] */
} ppo__sample_args;

static ppo_status ppo__sample_forward(ppo_node *node) {
    const ppo__sample_args *args = (const ppo__sample_args *)node->args;
    int                     vocab = node->in[0]->cols;
    for (int i = 0; i < node->in[0]->rows; ++i) {
        const float *row = node->in[0]->data + ppo__at(i, vocab);
        float       *logp = &node->out[1]->data[i];
        ppo_rng      rng = args->rng[i];
        ppo_status   status = ppo__probabilities(args->how, row, vocab, args->p, args->p + vocab);
        int          token = status ? 0 : ppo__draw(args->p, vocab, &rng);
        memcpy(&node->out[0]->data[i], &token, sizeof token);
        if (!status) status = ppo_token_logp(row, &token, 1, vocab, args->how->temperature, logp, NULL);
        if (status) *logp = NAN;
    }
    return PPO_OK;
}

/* -- the generator -- */

typedef struct ppo__slot { /* the place of one sequence while it is sampled */
    int     sequence;      /* -1: free */
    int     length, end;   /* tokens so far, and at most */
    int     seen;          /* of these, how many the model was run on */
    ppo_rng rng;
} ppo__slot;

typedef struct ppo__result {               /* of a call */
    int           *text, *length, *prompt; /* text, logp: (room, context) */
    float         *logp;
    unsigned char *ended, *given; /* given: (room, context) */
} ppo__result;

enum { PPO__KEY_PAGE = 64, PPO__MOST_SLOTS = 65536 };

struct ppo_generator {
    const ppo_lm *lm;
    ppo__arena    memory;
    ppo_tape     *tape;
    int           slots;
    ppo__slot    *slot;
    /* Per block and slot: keys as [page] (width, PPO__KEY_PAGE), so that a page is a matrix that queries are
       multiplied with, read without gaps; values as (context, width). */
    size_t     slot_keys, slot_values; /* floats */
    ppo__arena numbers;                /* where the tape computes: keys and values */
    float     *keys, *values;
    float     *head;   /* (width, vocab), the model's transposed */
    float     *scores; /* (heads, context) */
    float     *p;      /* [2 vocab] */
    /* Rows that the model is run on: tokens at positions of slots; `last`: those that ask for a token. */
    int         rows, asked;
    int        *row_token, *row_position, *row_slot, *last;
    const int  *position_there, *slot_there; /* the same on a device */
    ppo_rng    *rng;                         /* [slots] of each that asks */
    int        *drawn;                       /* [slots] the tokens that they get */
    float      *drawn_logp;
    size_t      reserved; /* rows that the tape has memory for */
    ppo__arena  results_memory;
    ppo__result results[2]; /* of this call, and of the previous one, which may be its prompts */
    int         room, turn; /* sequences that they have room for; which of them is this call's */
    int         busy;       /* 1: a tool or a reward function is called meanwhile */
};

PPO_DEF void ppo_generator_free(ppo_generator *g) {
    if (!g) return;
    ppo_tape_free(g->tape);
    ppo__arena_free(&g->memory);
    ppo__arena_free(&g->numbers);
    ppo__arena_free(&g->results_memory);
    ppo__free(g);
}

PPO_DEF ppo_status ppo_generator_create(const ppo_lm *lm, int slots, ppo_generator **generator) {
    if (generator) *generator = NULL;
    if (!ppo__given("ppo_generator_create", lm && generator)) return PPO_ERROR_ARGUMENT;
    if (slots < 1 || slots > PPO__MOST_SLOTS)
        return ppo__refuse("ppo_generator_create: %d slots, outside 1 to %d", slots, (int)PPO__MOST_SLOTS);
    const ppo_lm_config *c = &lm->config;
    const size_t         rows = ppo__at(slots, c->context), caches = ppo__at(slots, c->layers);
    ppo_generator       *g = (ppo_generator *)ppo__alloc(sizeof *g);
    if (!g) return PPO_ERROR_MEMORY;
    g->lm = lm;
    g->slots = slots;
    const int kv_width = lm->full.kv_heads * lm->full.head_size;
    g->slot_values = ppo__at(c->context, kv_width);
    g->slot_keys = ppo__at(ppo__divide_up(c->context, PPO__KEY_PAGE), PPO__KEY_PAGE) * kv_width;
    g->numbers.device = ppo__device_in_use;
    g->keys = (float *)ppo__arena_array(&g->numbers, caches, g->slot_keys * sizeof(float));
    g->values = (float *)ppo__arena_array(&g->numbers, caches, g->slot_values * sizeof(float));
    g->head = PPO__ARRAY(&g->memory, float, ppo__at(c->vocab, c->width));
    g->scores = PPO__ARRAY(&g->memory, float, ppo__at(c->heads, c->context));
    g->p = PPO__ARRAY(&g->memory, float, ppo__at(2, c->vocab));
    g->row_token = PPO__ARRAY(&g->memory, int, rows);
    g->row_position = PPO__ARRAY(&g->memory, int, rows);
    g->row_slot = PPO__ARRAY(&g->memory, int, rows);
    g->slot = PPO__ARRAY(&g->memory, ppo__slot, slots);
    g->last = PPO__ARRAY(&g->memory, int, slots);
    g->rng = PPO__ZEROS(&g->memory, ppo_rng, slots);
    g->drawn = PPO__ARRAY(&g->memory, int, slots);
    g->drawn_logp = PPO__ARRAY(&g->memory, float, slots);
    ppo_status status = ppo__arena_status(&g->numbers);
    if (!status) status = ppo__arena_status(&g->memory);
    if (!status) status = ppo__tape_create_on(g->numbers.device, &g->tape);
    if (status) return ppo_generator_free(g), status;
    ppo_tape_record(g->tape, 0);
    *generator = g;
    return PPO_OK;
}

/* -- attention of rows to what their slots keep, after adding their own keys and values -- */

typedef struct ppo__cached_args {
    ppo_generator *generator;
    int            block;
} ppo__cached_args;

/* What the heads make of a row's queries q, and of `seen` keys and values. First all scores, then all
   softmaxes, then all sums of values: consecutive computations do not depend on each other. */
static void ppo__attend_row(const ppo_generator *g, const ppo_attention *how, int size, const float *q,
                            int seen, const float *keys, const float *values, float *out) {
    const ppo__kernels *k = ppo__k();
    const int           heads = how->heads, queries = heads / how->kv_heads, width = how->kv_heads * size;
    const int           first = ppo__attend_first(how, seen - 1);
    for (int i = 0; i < seen; i += PPO__KEY_PAGE, keys += ppo__at(PPO__KEY_PAGE, width)) {
        int n = seen - i < PPO__KEY_PAGE ? seen - i : (int)PPO__KEY_PAGE;
        for (int h = 0; h < heads; ++h)
            k->gemm(1, n, size, q + ppo__at(h, size), size, 1,
                    keys + ppo__at(h / queries * size, PPO__KEY_PAGE), PPO__KEY_PAGE, NULL, 0,
                    g->scores + ppo__at(h, seen) + i, n);
    }
    for (int h = 0; h < heads; ++h) {
        memset(g->scores + ppo__at(h, seen), 0, first * sizeof(float));
        k->softmax(how->scale, g->scores + ppo__at(h, seen) + first, seen - first);
    }
    for (int h = 0; h < heads; ++h)
        k->gemm(1, size, seen, g->scores + ppo__at(h, seen), seen, 1, values + ppo__at(h / queries, size),
                width, NULL, 0, out + ppo__at(h, size), size);
}

static ppo_status ppo__cached_forward(ppo_node *node) {
    const ppo__cached_args *args = (const ppo__cached_args *)node->args;
    const ppo_generator    *g = args->generator;
    const ppo_lm_config    *c = &g->lm->full;
    const ppo_attention     how = ppo__lm_attention(c, args->block);
    const ppo_tensor       *qkv = node->in[0];
    int                     width = c->kv_heads * c->head_size, out = c->heads * c->head_size;
    for (int i = 0; i < qkv->rows; ++i) {
        int          position = g->row_position[i], in_page = position % PPO__KEY_PAGE;
        size_t       cache = ppo__at(args->block, g->slots) + (size_t)g->row_slot[i];
        float       *keys = g->keys + cache * g->slot_keys, *values = g->values + cache * g->slot_values;
        float       *key = keys + ppo__at(position - in_page, width) + in_page;
        const float *row = qkv->data + ppo__at(i, qkv->cols);
        for (int j = 0; j < width; ++j) key[ppo__at(j, PPO__KEY_PAGE)] = row[out + j];
        memcpy(values + ppo__at(position, width), row + out + width, width * sizeof(float));
        ppo__attend_row(g, &how, c->head_size, row, position + 1, keys, values,
                        node->out[0]->data + ppo__at(i, out));
    }
    return PPO_OK;
}

static ppo_tensor *ppo__attend_cached(ppo_tape *tape, const ppo_lm *lm, int k, ppo_tensor *qkv,
                                      const void *user) {
    static const ppo_op op = {"cached_attention", 1, ppo__cached_forward, NULL};
    ppo__cached_args    args = {(ppo_generator *)user, k};
    const int           width = lm->full.heads * lm->full.head_size;
    if (!qkv) return NULL;
    return ppo_tape_result(ppo_tape_apply(tape, &op, &qkv, 1, qkv->rows, width, &args, sizeof args));
}

/* -- prompts and results -- */

/* Adds prompt s, `times` times. */
static ppo_status ppo__add_prompt(ppo_tokens *to, const ppo_tokens *prompts, int s, int times) {
    int        n = ppo__prompt_length(prompts, s);
    ppo_status status = PPO_OK;
    for (int i = 0; i < times && !status; ++i)
        status = ppo_tokens_add(to, prompts->token + prompts->start[s], n, n);
    return status;
}

/* Starts the sequences with their prompts. These may be results of the previous call, whose memory therefore
   lasts until they are copied. */
static ppo_status ppo__begin_results(ppo_generator *g, const ppo_tokens *prompts) {
    const int   context = g->lm->config.context, count = prompts->count;
    ppo__arena  grown = {NULL, NULL, PPO_OK};
    ppo__result results[2] = {g->results[0], g->results[1]};
    for (int k = 0; k < 2 && count > g->room; ++k) {
        ppo__result *r = &results[k];
        r->text = PPO__ARRAY(&grown, int, ppo__at(count, context));
        r->logp = PPO__ARRAY(&grown, float, ppo__at(count, context));
        r->length = PPO__ARRAY(&grown, int, (size_t)count + 1);
        r->prompt = PPO__ARRAY(&grown, int, count);
        r->ended = PPO__ARRAY(&grown, unsigned char, count);
        r->given = PPO__ARRAY(&grown, unsigned char, ppo__at(count, context));
    }
    if (grown.failed) return ppo__arena_free(&grown), PPO_ERROR_MEMORY;
    g->turn ^= 1;
    const ppo__result *out = &results[g->turn];
    for (int s = 0; s < count; ++s) {
        int n = out->prompt[s] = ppo__prompt_length(prompts, s);
        memcpy(out->text + ppo__at(s, context), prompts->token + prompts->start[s], n * sizeof(int));
        memset(out->logp + ppo__at(s, context), 0, n * sizeof(float));
        memset(out->given + ppo__at(s, context), 0, context);
    }
    if (count <= g->room) return PPO_OK;
    memcpy(g->results, results, sizeof results);
    ppo__arena_free(&g->results_memory);
    g->results_memory = grown;
    g->room = count;
    return PPO_OK;
}

/* -- a step: the model's rows, and a token for each slot -- */

/* Adds a row: a token at a position of slot k. */
static void ppo__add_row(ppo_generator *g, int token, int position, int k) {
    g->row_token[g->rows] = token;
    g->row_position[g->rows] = position;
    g->row_slot[g->rows++] = k;
}

/* Gives free slots to waiting prompts, and lists each slot's rows: a whole prompt, or the last token with what
   a tool answered. */
static void ppo__list_rows(ppo_generator *g, const ppo_sampling *how, int count, int *waiting) {
    const ppo__result *out = &g->results[g->turn];
    int                context = g->lm->config.context;
    g->rows = g->asked = 0;
    for (int k = 0; k < g->slots; ++k) {
        ppo__slot *slot = &g->slot[k];
        if (slot->sequence < 0 && *waiting < count) {
            int n = slot->length = out->prompt[*waiting];
            slot->sequence = (*waiting)++;
            slot->end = how->max_new && how->max_new < context - n ? n + how->max_new : context;
            slot->rng = ppo_rng_stream(how->seed, PPO_STREAM_TOKEN, (uint32_t)slot->sequence);
            slot->seen = 0;
        }
        if (slot->sequence < 0) continue;
        for (; slot->seen < slot->length; ++slot->seen)
            ppo__add_row(g, out->text[ppo__at(slot->sequence, context) + slot->seen], slot->seen, k);
        g->rng[g->asked] = slot->rng;
        g->last[g->asked++] = g->rows - 1;
    }
}

/* Runs the model on the rows, and draws a token for each slot that asks. */
static ppo_status ppo__ask(ppo_generator *g, const ppo_sampling *how) {
    static const ppo_op    op = {"sample", 2, ppo__sample_forward, NULL};
    const ppo_lm_config   *c = &g->lm->config;
    const ppo__sample_args args = {how, g->rng, g->p};
    ppo_tape              *tape = g->tape;
    ppo_tape_reset(tape);
    ppo_tensor *x;
    x = ppo__lm_rows(tape, g->lm, g->row_token, g->row_position, g->rows, ppo__attend_cached, g);
    x = ppo_tape_embedding(tape, x, g->last, g->asked);
    x = tape->device ? ppo_lm_logits(tape, g->lm, x)
                     : ppo_tape_matmul(tape, x, ppo_tape_constant(tape, g->head, c->width, c->vocab));
    ppo_node *node = x ? ppo_tape_apply(tape, &op, &x, 1, g->asked, 1, &args, sizeof args) : NULL;
    if (node) {
        ppo__tape_read(tape, node->out[0]->data, (size_t)g->asked, (float *)(void *)g->drawn);
        ppo__tape_read(tape, node->out[1]->data, (size_t)g->asked, g->drawn_logp);
    }
    return ppo__tape_settle(tape);
}

/* Adds what the tool answers to the slot's sequence. */
static ppo_status ppo__call_tool(ppo_generator *g, const ppo_sampling *how, ppo__slot *slot) {
    const ppo__result *out = &g->results[g->turn];
    const int          context = g->lm->config.context, room = slot->end - slot->length;
    const size_t       first = ppo__at(slot->sequence, context), at = first + (size_t)slot->length;
    int                count = 0;
    char               before[PPO__ERROR_SIZE];
    memcpy(before, ppo__error, sizeof before);
    ppo__refuse("the tool failed and gave no reason");
    ppo_status status =
        how->tool(out->text + first, slot->length, out->text + at, room, &count, how->tool_user);
    if (status) return status;
    memcpy(ppo__error, before, sizeof before);
    if (count < 0 || count > room)
        return ppo__refuse("the tool answers %d tokens, has room for %d (sequence %d)", count, room,
                           slot->sequence);
    for (int i = 0; i < count; ++i)
        if (out->text[at + i] < 0 || out->text[at + i] >= g->lm->config.vocab)
            return ppo__refuse("the tool answers token %d, outside 0 .. %d (sequence %d)", out->text[at + i],
                               g->lm->config.vocab - 1, slot->sequence);
    memset(out->logp + at, 0, count * sizeof(float));
    memset(out->given + at, 1, count);
    out->length[slot->sequence] = slot->length += count;
    return PPO_OK;
}

static ppo_status ppo__sample_step(ppo_generator *g, const ppo_sampling *how) {
    const ppo__result *out = &g->results[g->turn];
    ppo_status         status = ppo__ask(g, how);
    if (status && status != PPO_ERROR_NUMERIC) return status;
    for (int i = 0; i < g->asked; ++i) {
        ppo__slot *slot = &g->slot[g->row_slot[g->last[i]]];
        int        s = slot->sequence;
        size_t     at = ppo__at(s, g->lm->config.context) + slot->length;
        if (!ppo__finite(g->drawn_logp[i]))
            return ppo_fail(PPO_ERROR_NUMERIC, "the logits are not finite (sequence %d, position %d)", s,
                            slot->length - 1);
        ppo_rng_u32(&slot->rng); /* which the operation drew from a copy */
        out->text[at] = g->drawn[i];
        out->logp[at] = g->drawn_logp[i];
        out->ended[s] = g->drawn[i] == how->eos;
        out->length[s] = ++slot->length;
        if (g->drawn[i] == how->call && slot->length < slot->end) {
            ppo_status answered = ppo__call_tool(g, how, slot);
            if (answered) return answered;
        }
        if (out->ended[s] || slot->length == slot->end) slot->sequence = -1;
    }
    return status;
}

/* Takes the model's weights as they are now, and brings the tape's memory to its final size with a step that
   no other exceeds: the longest prompt in each slot; with a tool, whose answers may have any length, a whole
   context. */
static ppo_status ppo__generator_prepare(ppo_generator *g, int count, int tool) {
    const ppo_sampling how = ppo_sampling_default();
    const ppo_tensor  *e = g->lm->head;
    const int         *prompt = g->results[g->turn].prompt;
    ppo_status         status = ppo__params_place(g->lm->params, g->tape->device);
    if (status) return status;
    if (!g->tape->device) ppo__k()->transpose(e->rows, e->cols, e->data, e->cols, g->head, e->rows);
    int longest = 0, slots = g->slots < count ? g->slots : count;
    for (int s = 0; s < count; ++s) longest = prompt[s] > longest ? prompt[s] : longest;
    if (tool) longest = g->lm->config.context;
    if (ppo__at(slots, longest) <= g->reserved) return PPO_OK;
    g->rows = 0;
    g->asked = slots;
    for (int k = 0; k < slots; ++k) {
        for (int i = 0; i < longest; ++i) ppo__add_row(g, 0, i, k);
        g->last[k] = g->rows - 1;
    }
    status = ppo__ask(g, &how);
    if (status == PPO_ERROR_NUMERIC) status = PPO_OK; /* the first step says where */
    if (!status) g->reserved = ppo__at(slots, longest);
    return status;
}

PPO_DEF ppo_status ppo_generate(ppo_generator *g, const ppo_tokens *prompts, const ppo_sampling *how,
                                ppo_samples *samples) {
    if (!ppo__given("ppo_generate", g && prompts && how && samples)) return PPO_ERROR_ARGUMENT;
    if (g->busy)
        return ppo__refuse("ppo_generate: the generator is in use; a tool or a reward needs another one");
    const ppo_lm_config *c = &g->lm->config;
    const int            count = prompts->count;
    ppo_status           status = ppo__check_sampling(how, c->vocab);
    if (!status) status = ppo__check_sequences(g->lm, prompts, 1);
    if (!status) status = ppo__begin_results(g, prompts);
    memset(samples, 0, sizeof *samples); /* only now: its tokens may have been the prompts */
    if (!status) status = ppo__generator_prepare(g, count, how->call >= 0);
    for (int k = 0; k < g->slots; ++k) g->slot[k].sequence = -1;
    g->busy = 1;
    for (int waiting = 0; !status;) {
        ppo__list_rows(g, how, count, &waiting);
        if (!g->rows) break;
        status = ppo__sample_step(g, how);
    }
    g->busy = 0;
    if (status) return ppo__settle(g->tape->device, status);
    const ppo__result out = g->results[g->turn];
    int               at = 0;
    for (int s = 0; s < count; ++s) { /* packs them: they move to the left only */
        int n = out.length[s];
        memmove(out.text + at, out.text + ppo__at(s, c->context), n * sizeof(int));
        memmove(out.logp + at, out.logp + ppo__at(s, c->context), n * sizeof(float));
        memmove(out.given + at, out.given + ppo__at(s, c->context), n);
        out.length[s] = at;
        at += n;
    }
    out.length[count] = at;
    unsigned char *given = how->call >= 0 ? out.given : NULL;
    ppo_samples    packed = {{count, out.length, out.prompt, out.text, given, NULL}, out.logp, out.ended};
    *samples = packed;
    return PPO_OK;
}

/* --------------------------------------------------------------------------------------------------------
   @@ 21 Fine-tuning and reward models

   ppo__fit_run() is the loop of all fine-tuning: epochs of shuffled batches, ppo__fit_step() for each. An item
   is a sequence, a window of a text, or a pair of sequences; a set is the items that are learned or held out; a
   batch of items is a gradient step; a micro-batch is the part of it in memory at once. ppo__gradients() adds
   up a batch's micro-batches, also for PPO on tokens.

   A checkpoint holds the model, its moments, and in ppo__carry_fit() what lasts beyond a step. All random
   numbers follow from the seed, and are drawn again when a training is resumed.

   To add an objective: a constant beside PPO__SFT, its loss in ppo__fit_loss(), a public function that calls
   ppo__fit_train(). To add state: a row in ppo__carry_fit().
   -------------------------------------------------------------------------------------------------------- */

/* -- responses -- */

/* The first token at i or later of sequence s that is not given, its end if there is none: for (int i =
   ppo__response_token(tokens, s, 0); i < tokens->start[s + 1]; i = ppo__response_token(tokens, s, i + 1)). */
static int ppo__response_token(const ppo_tokens *tokens, int s, int i) {
    int prompt = tokens->prompt && tokens->prompt[s] > 1 ? tokens->prompt[s] : 1;
    int end = tokens->start[s + 1], first = tokens->start[s] + prompt;
    if (i < first) i = first < end ? first : end;
    while (tokens->given && i < end && tokens->given[i]) ++i;
    return i;
}

/* How many tokens of sequence s are not given. */
static int ppo__response_length(const ppo_tokens *tokens, int s) {
    int end = tokens->start[s + 1], i = ppo__response_token(tokens, s, 0), n = end - i;
    for (; tokens->given && i < end; ++i) n -= !!tokens->given[i];
    return n;
}

PPO_DEF int ppo_response_row(const ppo_tokens *tokens, int sequence) {
    int n = 0;
    for (int s = 0; tokens && s < sequence && s < tokens->count; ++s) n += ppo__response_length(tokens, s);
    return n;
}

/* -- data in files -- */

static ppo_status ppo__put_tokens(ppo_file *file, const void *object) {
    const ppo_tokens *tokens = (const ppo_tokens *)object;
    const int64_t     n = tokens->start[tokens->count], count = tokens->count, bounds = count + 1;
    ppo_status        status = ppo_file_add(file, "tokens", PPO_I32, &n, 1, tokens->token);
    if (!status) status = ppo_file_add(file, "tokens.start", PPO_I32, &bounds, 1, tokens->start);
    if (!status && tokens->prompt)
        status = ppo_file_add(file, "tokens.prompt", PPO_I32, &count, 1, tokens->prompt);
    if (!status && tokens->given) status = ppo_file_add(file, "tokens.given", PPO_U8, &n, 1, tokens->given);
    return status;
}

PPO_DEF ppo_status ppo_tokens_save(const ppo_tokens *tokens, const char *path) {
    if (!tokens || tokens->count < 1) return ppo__refuse("ppo_tokens_save: there are no tokens");
    return ppo__save("ppo_tokens_save", path, ppo__put_tokens, tokens);
}

static ppo_status ppo__get_tokens(const ppo_file *file, ppo_tokens *tokens) {
    static const char *const names[] = {"tokens.start", "tokens.prompt", "tokens", "tokens.given"};
    const ppo_array *array[4], *start = ppo_file_find(file, names[0]), *all = ppo_file_find(file, names[2]);
    const int64_t    n = all && all->rank ? all->shape[0] : 0, m = start && start->rank ? start->shape[0] : 2;
    const int64_t    shape[4] = {m, m ? m - 1 : 0, n, n};
    int              bounds[2] = {0, (int)n};
    for (int k = 0; k < 4; ++k) {
        const int type = k == 3 ? PPO_U8 : PPO_I32, needed = k == 2;
        array[k] = ppo_file_find(file, names[k]);
        if ((array[k] || needed) && ppo_file_expect(file, names[k], type, &shape[k], 1, &array[k]))
            return ppo__failed;
    }
    if (n < 1 || n > INT_MAX || m < 2 || m > INT_MAX)
        return ppo__file_fail(file->path, "corrupt file: %lld tokens in %lld sequences", (long long)n,
                              (long long)m - 1);
    const ppo_tokens view = {(int)m - 1,
                             array[0] ? (int *)array[0]->data : bounds,
                             array[1] ? (int *)array[1]->data : NULL,
                             (int *)array[2]->data,
                             array[3] ? (unsigned char *)array[3]->data : NULL,
                             NULL};
    if (view.start[0] != 0 || view.start[view.count] != n)
        return ppo__file_fail(file->path, "corrupt file: its sequences are tokens %d to %d of %lld",
                              view.start[0], view.start[view.count], (long long)n);
    for (int s = 0; s < view.count; ++s)
        if (view.start[s + 1] <= view.start[s] || view.start[s + 1] > n)
            return ppo__file_fail(file->path, "corrupt file: sequence %d is tokens %d to %d of %lld", s,
                                  view.start[s], view.start[s + 1], (long long)n);
    ppo_status status = PPO_OK;
    for (int s = 0; s < view.count && !status; ++s) status = ppo_tokens_add_from(tokens, &view, s);
    return status == PPO_ERROR_ARGUMENT ? ppo__file_blame(file) : status;
}

PPO_DEF ppo_status ppo_tokens_load(const char *path, ppo_tokens *tokens) {
    ppo_file *file = NULL;
    if (!ppo__given("ppo_tokens_load", path && tokens)) return PPO_ERROR_ARGUMENT;
    const int  before = tokens->count;
    ppo_status status = ppo_file_read(path, &file);
    if (!status) status = ppo__get_tokens(file, tokens);
    if (status) tokens->count = before;
    ppo_file_free(file);
    return status;
}

enum { PPO__MAX_LINE = 1 << 26 };

/* The members of a line that count. */
enum {
    PPO__PROMPT,
    PPO__COMPLETION,
    PPO__TEXT,
    PPO__MESSAGES,
    PPO__CHOSEN,
    PPO__REJECTED,
    PPO__LINE_MEMBERS
};
static const char *const ppo__line_members[] = {"prompt",   "completion", "text",
                                                "messages", "chosen",     "rejected"};

/* The kinds of lines: which members are the prompt, the response and the rejected one, where -1 is none; chat: the
   last two are lists of messages. */
static const struct {
    int pairs, chat, member[3];
} ppo__line_kinds[] = {{1, 0, {PPO__PROMPT, PPO__CHOSEN, PPO__REJECTED}},
                       {1, 1, {-1, PPO__CHOSEN, PPO__REJECTED}},
                       {0, 1, {-1, PPO__MESSAGES, -1}},
                       {0, 0, {PPO__PROMPT, PPO__COMPLETION, -1}},
                       {0, 0, {-1, PPO__TEXT, -1}},
                       {0, 0, {PPO__PROMPT, -1, -1}}};

/* A file that is read, and its present line, whose members are texts (or NULL) or lists of messages: first .. end - 1,
   of all. */
typedef struct ppo__lines {
    const char          *path;
    const ppo_tokenizer *tokenizer;
    ppo_tokens          *to[2];
    int                  form, start, end, longest, number;
    char                *line;     /* with a 0 for its end */
    ppo_message         *messages; /* arrays that grow */
    const char          *text[PPO__LINE_MEMBERS];
    int                  list[PPO__LINE_MEMBERS][2];
} ppo__lines;

/* Reads a line. *more: 0 after the last. */
static ppo_status ppo__read_line(ppo__lines *lines, FILE *in, int *more) {
    int c, last;
    if (lines->line) stbds_header(lines->line)->length = 0;
    do {
        c = getc(in);
        last = c == EOF || c == '\n';
        if (PPO__PUSH(lines->line, (char)(last ? 0 : c))) return PPO_ERROR_MEMORY;
    } while (!last && stbds_arrlenu(lines->line) <= PPO__MAX_LINE);
    ++lines->number;
    *more = c != EOF;
    if (ferror(in)) return ppo__file_failed(lines->path, "read", errno);
    if (last) return PPO_OK;
    return ppo__file_fail(lines->path, "line %d is longer than %d bytes", lines->number, (int)PPO__MAX_LINE);
}

/* [{"role": "user", "content": "..."}, ...] */
static void ppo__json_messages(ppo__json *json, ppo_message **messages) {
    ppo__json_expect(json, '[');
    for (int n = 0; ppo__json_next(json, ']', &n);) {
        ppo_message message = {NULL, NULL};
        ppo__json_expect(json, '{');
        for (int m = 0; ppo__json_next(json, '}', &m);) {
            const char  *key = ppo__json_key(json);
            const char **to = !strcmp(key, "role")      ? &message.role
                              : !strcmp(key, "content") ? &message.text
                                                        : NULL;
            if (to && *to) ppo__json_fail(json, "repeated member ", key);
            else if (to && ppo__json_peek(json) == '"') *to = ppo__json_string(json);
            else ppo__json_skip(json);
        }
        if (!message.role || !message.text)
            ppo__json_fail(json, "a message has no text as its role or content", NULL);
        if (!json->status) json->status = PPO__PUSH(*messages, message);
    }
}

/* Finds the members of the line, and of which kind it is. */
static ppo_status ppo__parse_line(ppo__lines *lines, int *kind) {
    const int pairs = lines->to[1] != NULL;
    char      part[32], *line = lines->line, *end = line + stbds_arrlenu(line) - 1;
    ppo__json json = {lines->path, part, line, line, end, PPO_OK};
    snprintf(part, sizeof part, " of line %d", lines->number);
    memset(lines->text, 0, sizeof lines->text);
    memset(lines->list, 0, sizeof lines->list);
    if (lines->messages) stbds_header(lines->messages)->length = 0;
    if (lines->number == 1 && !strncmp(line, "\357\273\277", 3)) json.at += 3; /* UTF-8's mark */
    ppo__json_expect(&json, '{');
    for (int n = 0; ppo__json_next(&json, '}', &n);) {
        const char *key = ppo__json_key(&json);
        int         k = 0;
        while (k < PPO__LINE_MEMBERS && strcmp(ppo__line_members[k], key) != 0) ++k;
        char value = k < PPO__LINE_MEMBERS ? ppo__json_peek(&json) : (char)0;
        if (value == '[' && (pairs ? k < PPO__CHOSEN : k != PPO__MESSAGES)) value = 0;
        if ((value == '"' || value == '[') && (lines->text[k] || lines->list[k][1]))
            ppo__json_fail(&json, "repeated member ", key);
        else if (value == '"') lines->text[k] = ppo__json_string(&json);
        else if (value == '[') {
            lines->list[k][0] = (int)stbds_arrlenu(lines->messages);
            ppo__json_messages(&json, &lines->messages);
            lines->list[k][1] = (int)stbds_arrlenu(lines->messages);
        } else ppo__json_skip(&json);
    }
    ppo__json_end(&json);
    if (json.status) return json.status;
    for (*kind = 0; *kind < (int)(sizeof ppo__line_kinds / sizeof *ppo__line_kinds); ++*kind) {
        int has = ppo__line_kinds[*kind].pairs == pairs, chat = ppo__line_kinds[*kind].chat;
        for (int k = 0; k < 3 && has; ++k) {
            int member = ppo__line_kinds[*kind].member[k];
            if (member >= 0)
                has = chat ? lines->list[member][1] > lines->list[member][0] : !!lines->text[member];
        }
        if (has) return PPO_OK;
    }
    return ppo__file_fail(lines->path, "line %d has no %s", lines->number,
                          pairs ? "chosen and rejected, as texts with a prompt or as lists of messages"
                                : "messages, prompt or text");
}

/* Cuts the last sequence after `longest` tokens. Returns 0 if nothing is left to learn; a prompt is not cut. */
static int ppo__cut_last(ppo_tokens *tokens, int longest, int is_prompt) {
    int s = tokens->count - 1, *end = &tokens->start[s + 1], n = *end - tokens->start[s];
    if (is_prompt) return !longest || n <= longest;
    if (longest && n > longest) *end -= n - longest;
    if (longest && tokens->prompt[s] > longest) tokens->prompt[s] = longest;
    return ppo__response_length(tokens, s) > 0;
}

static ppo_status ppo__add_line(ppo__lines *lines) {
    const int pairs = lines->to[1] != NULL;
    int       kind, keep = 1;
    if (lines->line + strspn(lines->line, " \t\r") == lines->line + stbds_arrlenu(lines->line) - 1)
        return PPO_OK;
    ppo_status status = ppo__parse_line(lines, &kind);
    for (int k = 0; k <= pairs && !status; ++k) {
        const int *member = ppo__line_kinds[kind].member,
                  *list = member[1 + k] < 0 ? NULL : lines->list[member[1 + k]];
        const char *prompt = member[0] < 0 ? "" : lines->text[member[0]];
        int         only_prompt = !list;
        if (ppo__line_kinds[kind].chat) {
            only_prompt = strcmp(lines->messages[list[1] - 1].role, "assistant") != 0;
            status = ppo_tokens_add_chat(lines->to[k], lines->tokenizer, lines->form,
                                         lines->messages + list[0], list[1] - list[0], only_prompt);
        } else
            status = ppo_tokens_add_text(lines->to[k], lines->tokenizer, lines->start, prompt,
                                         list ? lines->text[member[1 + k]] : NULL, lines->end);
        if (status == PPO_ERROR_ARGUMENT) {
            char what[PPO__ERROR_SIZE];
            memcpy(what, ppo__error, sizeof what);
            status = ppo__file_fail(lines->path, "line %d: %s", lines->number, what);
        }
        if (!status) keep &= ppo__cut_last(lines->to[k], lines->longest, only_prompt);
    }
    for (int k = 0; k <= pairs && !status && !keep; ++k) --lines->to[k]->count;
    return status;
}

PPO_DEF ppo_status ppo_tokens_add_lines(ppo_tokens *tokens, ppo_tokens *rejected, const char *path,
                                        const ppo_tokenizer *tokenizer, int form, int start, int end,
                                        int longest) {
    ppo__lines lines;
    int        more = 1;
    if (!ppo__given("ppo_tokens_add_lines", tokens && path && tokenizer)) return PPO_ERROR_ARGUMENT;
    if (tokens == rejected || longest < 0)
        return ppo__refuse("ppo_tokens_add_lines: longest is %d, or rejected is tokens", longest);
    const int before[2] = {tokens->count, rejected ? rejected->count : 0};
    memset(&lines, 0, sizeof lines);
    lines.path = path;
    lines.tokenizer = tokenizer;
    lines.to[0] = tokens;
    lines.to[1] = rejected;
    lines.form = form;
    lines.start = start;
    lines.end = end;
    lines.longest = longest;
    if (ppo__is_special(path)) return ppo__file_fail(path, "cannot be read: it is not a plain file");
    FILE      *in = fopen(path, "rb");
    ppo_status status = in ? PPO_OK : ppo__file_failed(path, "opened", errno);
    while (more && !status) {
        status = ppo__read_line(&lines, in, &more);
        if (!status) status = ppo__add_line(&lines);
    }
    if (in) fclose(in);
    ppo__array_free(lines.line);
    ppo__array_free(lines.messages);
    for (int k = 0; k < 2 && lines.to[k] && status; ++k) lines.to[k]->count = before[k];
    return status;
}

PPO_DEF ppo_response ppo_lm_response(ppo_tape *tape, const ppo_lm *lm, const ppo_tokens *tokens,
                                     float temperature, int want) {
    ppo_response out;
    memset(&out, 0, sizeof out);
    ppo_tensor *x = ppo_lm_forward(tape, lm, tokens);
    if (!x) return out;
    int n = ppo_response_row(tokens, tokens->count), at = 0;
    int wrong = !n || !(want & (PPO_POLICY | PPO_VALUE));
    if (!n) ppo__refuse("there is no token after the prompts");
    else if (wrong) ppo__refuse("ppo_lm_response: no output of %d exists", want);
    if (wrong) return ppo__tape_fail(tape, PPO_ERROR_ARGUMENT), out;
    int *row = (int *)ppo__tape_take(tape, (size_t)n, sizeof *row); /* the rows that predict these tokens, */
    int *token = (int *)ppo__tape_take(tape, (size_t)n, sizeof *token); /* and the tokens */
    if (!row || !token) return out;
    for (int s = 0; s < tokens->count; ++s) {
        int i = ppo__response_token(tokens, s, 0);
        for (; i < tokens->start[s + 1]; i = ppo__response_token(tokens, s, i + 1), ++at) {
            row[at] = i - 1;
            token[at] = tokens->token[i];
        }
    }
    x = ppo_tape_embedding(tape, x, row, n);
    if (want & PPO_POLICY) {
        out.logits = ppo_lm_logits(tape, lm, x);
        ppo_tape_categorical(tape, out.logits, token, temperature, &out.logp, &out.entropy);
    }
    if (want & PPO_VALUE) out.value = ppo_lm_score(tape, lm, x);
    return out;
}

static ppo_status ppo__sequence_sum_forward(ppo_node *node) {
    const ppo_tokens *tokens = *(const ppo_tokens *const *)node->args;
    const float      *x = node->in[0]->data;
    for (int s = 0; s < tokens->count; ++s) {
        double sum = 0;
        for (int i = ppo__response_length(tokens, s); i > 0; --i) sum += *x++;
        node->out[0]->data[s] = (float)sum;
    }
    return PPO_OK;
}

static void ppo__sequence_sum_backward(ppo_node *node) {
    const ppo_tokens *tokens = *(const ppo_tokens *const *)node->args;
    float            *dx = node->in[0]->grad;
    for (int s = 0; s < tokens->count; ++s)
        for (int i = ppo__response_length(tokens, s); i > 0; --i) *dx++ += node->out[0]->grad[s];
}

PPO_DEF ppo_tensor *ppo_tape_sequence_sum(ppo_tape *tape, ppo_tensor *x, const ppo_tokens *tokens) {
    static const ppo_op op = {"sequence_sum", 1, ppo__sequence_sum_forward, ppo__sequence_sum_backward};
    if (!ppo__operands(tape, op.name, x, tokens ? x : NULL)) return NULL;
    int n = ppo_response_row(tokens, tokens->count);
    if (x->rows != n || x->cols != 1) {
        ppo__refuse("sequence_sum: (%d, %d) is not (%d, 1)", x->rows, x->cols, n);
        return (ppo_tensor *)ppo__tape_fail(tape, PPO_ERROR_ARGUMENT);
    }
    return ppo_tape_result(ppo_tape_apply(tape, &op, &x, 1, tokens->count, 1, &tokens, sizeof tokens));
}

PPO_DEF ppo_tensor *ppo_lm_sequence_score(ppo_tape *tape, const ppo_lm *lm, const ppo_tokens *tokens) {
    ppo_tensor *x = ppo_lm_forward(tape, lm, tokens);
    int        *last = x ? (int *)ppo__tape_take(tape, (size_t)tokens->count, sizeof *last) : NULL;
    if (!last) return NULL;
    for (int s = 0; s < tokens->count; ++s) last[s] = tokens->start[s + 1] - 1;
    return ppo_lm_score(tape, lm, ppo_tape_embedding(tape, x, last, tokens->count));
}

/* The sum of logp over each sequence (count, 1); 0 for sequences that are all given. */
static ppo_tensor *ppo__sequence_logp(ppo_tape *tape, const ppo_lm *lm, const ppo_tokens *tokens,
                                      float temperature) {
    if (!ppo_response_row(tokens, tokens->count)) {
        float *zeros = (float *)ppo__tape_take(tape, (size_t)tokens->count, sizeof *zeros);
        if (zeros) memset(zeros, 0, tokens->count * sizeof(float));
        return zeros ? ppo_tape_constant(tape, zeros, tokens->count, 1) : NULL;
    }
    return ppo_tape_sequence_sum(tape, ppo_lm_response(tape, lm, tokens, temperature, PPO_POLICY).logp,
                                 tokens);
}

/* For each sequence of the data the sum of logp at a temperature, or for 0 its score, a batch at a time. */
static ppo_status ppo__measure(const ppo_lm *lm, const ppo_tokens *data, int batch, float temperature,
                               float *numbers) {
    ppo_tape  *tape = NULL;
    ppo_tokens now = {0, NULL, NULL, NULL, NULL, NULL};
    if (batch < 1) return ppo__refuse("a batch of %d sequences", batch);
    ppo_status status = ppo__check_sequences(lm, data, 0);
    if (!status) status = ppo__tape_create_on(ppo__device_in_use, &tape);
    if (!status) ppo_tape_record(tape, 0);
    for (int s = 0; !status && s < data->count; s += now.count) {
        ppo_tokens_clear(&now);
        for (int i = s; i < data->count && i - s < batch && !status; ++i)
            status = ppo_tokens_add_from(&now, data, i);
        ppo_tape_reset(tape);
        ppo_tensor *x = status            ? NULL
                        : temperature > 0 ? ppo__sequence_logp(tape, lm, &now, temperature)
                                          : ppo_lm_sequence_score(tape, lm, &now);
        if (x) ppo__tape_read(tape, x->data, (size_t)now.count, numbers + s);
        if (!status) status = ppo__tape_settle(tape);
        for (int i = s; i < s + now.count && !status; ++i) {
            if (ppo__finite(numbers[i])) continue;
            status = ppo_fail(PPO_ERROR_NUMERIC, "the model gives sequence %d %g", i, (double)numbers[i]);
        }
    }
    ppo_tokens_free(&now);
    ppo_tape_free(tape);
    return status;
}

PPO_DEF ppo_status ppo_lm_scores(const ppo_lm *lm, const ppo_tokens *data, int batch, float *score) {
    if (!ppo__given("ppo_lm_scores", lm && data && score)) return PPO_ERROR_ARGUMENT;
    ppo_status status = ppo__check_score("ppo_lm_scores", lm);
    return status ? status : ppo__measure(lm, data, batch, 0, score);
}

PPO_DEF ppo_status ppo_lm_logp(const ppo_lm *lm, const ppo_tokens *data, int batch, float *logp) {
    if (!ppo__given("ppo_lm_logp", lm && data && logp)) return PPO_ERROR_ARGUMENT;
    return ppo__measure(lm, data, batch, 1, logp);
}

/* -- gradients of a batch, a micro-batch at a time: for fine-tuning and for PPO -- */

typedef struct ppo__learner {
    ppo_tape *tape;
    const ppo_tokens
              *data[2];  /* an item is a sequence of data[0], with one of data[1] if that is not NULL; */
    const int *first;    /* or, if this is not NULL, a window of data[0], which is one sequence: */
    int        window;   /* `window` tokens from first[item] on, at most those that there are */
    ppo_tokens batch[2]; /* the sequences of the micro-batch */
    int        micro_batch;
    int        done;   /* items of the batch that came before the micro-batch */
    int64_t    tokens; /* trained on since the start */
    /* The loss of the micro-batch item[0 .. batch[0].count - 1]: a mean over *weight tokens or pairs. */
    ppo_tensor *(*loss)(void *user, const int *item, float *weight);
    void *user;
} ppo__learner;

static void ppo__learner_free(ppo__learner *learner) {
    ppo_tape_free(learner->tape);
    for (int k = 0; k < 2; ++k) ppo_tokens_free(&learner->batch[k]);
}

/* Makes the first of n items the micro-batch. */
static ppo_status ppo__gather_items(ppo__learner *learner, const int *item, int n) {
    ppo_status status = PPO_OK;
    for (int k = 0; k < 2 && learner->data[k]; ++k) {
        const ppo_tokens *data = learner->data[k];
        ppo_tokens_clear(&learner->batch[k]);
        for (int i = 0; i < n && i < learner->micro_batch && !status; ++i) {
            int        at = learner->first ? learner->first[item[i]] : 0, prompt = 1, bounds[2] = {0, 0};
            ppo_tokens window = {1, bounds, &prompt, data->token + at, data->given, NULL};
            if (window.given) window.given += at;
            bounds[1] = data->start[1] - at < learner->window ? data->start[1] - at : learner->window;
            status = learner->first ? ppo_tokens_add_from(&learner->batch[k], &window, 0)
                                    : ppo_tokens_add_from(&learner->batch[k], data, item[i]);
        }
    }
    return status;
}

/* Adds the gradient of the micro-batch's loss times its weight, and the weight to *total. */
static ppo_status ppo__add_gradient(ppo__learner *learner, const int *item, double *total) {
    float weight = 0;
    ppo_tape_reset(learner->tape);
    ppo_tensor *loss = learner->loss(learner->user, item, &weight);
    *total += weight;
    return ppo_tape_backward(learner->tape, ppo_tape_scale(learner->tape, loss, weight, 0));
}

/* The same for a batch of n items: its gradient, once divided by *total. */
static ppo_status ppo__gradients(ppo__learner *learner, const int *item, int n, double *total) {
    ppo_status status = PPO_OK;
    *total = 0;
    for (int i = 0; i < n && !status; i += learner->micro_batch) {
        learner->done = i;
        status = ppo__gather_items(learner, item + i, n - i);
        if (!status) status = ppo__add_gradient(learner, item + i, total);
        for (int k = 0; k < 2 && learner->data[k]; ++k)
            learner->tokens += learner->batch[k].start[learner->batch[k].count];
    }
    return status;
}

/* Brings memory to its final size with a micro-batch that no other exceeds: sequences of `longest` tokens (of
   each of a pair), all but the first of them to be learned. The items may be any. */
static ppo_status ppo__learner_reserve(ppo__learner *learner, const int *item, const int longest[2]) {
    double     total = 0;
    ppo_status status = PPO_OK;
    for (int k = 0; k < 2 && longest[k] && !status; ++k)
        status = ppo__tokens_fill(&learner->batch[k], learner->micro_batch, longest[k]);
    if (!status) status = ppo__add_gradient(learner, item, &total);
    status = ppo__settle(learner->tape->device, status);
    ppo_tape_reset(learner->tape);
    return status;
}

/* -- fine-tuning -- */

PPO_DEF ppo_fit_config ppo_fit_config_default(void) {
    ppo_fit_config c;
    ppo_adam       adam = ppo_adam_default();
    memset(&c, 0, sizeof c);
    c.epochs = 1;
    c.batch_size = 32;
    c.learning_rate = 1e-3f;
    c.learning_rate_schedule = PPO_COSINE;
    c.warmup = 0.05f;
    c.adam_beta1 = adam.beta1;
    c.adam_beta2 = adam.beta2;
    c.adam_eps = adam.eps;
    c.max_grad_norm = 1;
    c.beta = 0.1f;
    c.seed = 1;
    c.checkpoint_every = 100;
    return c;
}

#define PPO__FIT_FIELD(name, type, min, max, choices, help) \
    { #name, PPO_FIELD_##type, offsetof(ppo_fit_config, name), min, max, choices, help, 0 }

/* Rows of both tables of settings in this wing. */
#define PPO__ADAM_FIELDS(FIELD)                                                \
    FIELD(adam_beta1, FLOAT, 0, 0.999999, NULL, "Adam's decay of the mean"),   \
        FIELD(adam_beta2, FLOAT, 0, 0.999999, NULL, "and of the mean square"), \
        FIELD(adam_eps, FLOAT, 1e-12, 1, NULL, "Adam's epsilon"),              \
        FIELD(weight_decay, FLOAT, 0, 1e30, NULL, "decoupled weight decay (AdamW) of matrices")

PPO_DEF const ppo_settings *ppo_fit_settings(void) {
    static const ppo_field fields[] = {
        PPO__FIT_FIELD(epochs, INT, 1, INT_MAX, NULL, "passes over the data"),
        PPO__FIT_FIELD(steps, INT, 0, INT_MAX, NULL, "gradient steps in all; 0: those of the epochs"),
        PPO__FIT_FIELD(batch_size, INT, 1, INT_MAX, NULL, "sequences, windows or pairs per gradient step"),
        PPO__FIT_FIELD(micro_batch, INT, 0, INT_MAX, NULL, "of these, in memory at once; 0: all"),
        PPO__FIT_FIELD(window, INT, 0, INT_MAX, NULL, "tokens of a window of the text; 0: whole sequences"),
        PPO__FIT_FIELD(random_windows, CHOICE, 0, 1, "no|yes", "from anywhere, not side by side"),
        PPO__FIT_FIELD(learning_rate, FLOAT, 1e-30, 10, NULL, "Adam's learning rate"),
        PPO__FIT_FIELD(learning_rate_schedule, CHOICE, 0, 2, "constant|linear|cosine", "how it falls"),
        PPO__FIT_FIELD(min_learning_rate, FLOAT, 0, 10, NULL, "to which it falls"),
        PPO__FIT_FIELD(warmup, FLOAT, 0, 0.999999, NULL, "share of the steps in which it rises from 0"),
        PPO__FIT_FIELD(warmup_steps, INT, 0, INT_MAX, NULL, "steps in which it rises; 0: that share"),
        PPO__ADAM_FIELDS(PPO__FIT_FIELD),
        PPO__FIT_FIELD(max_grad_norm, FLOAT, 0, INFINITY, NULL, "gradient norms are clipped to it; 0: off"),
        PPO__FIT_FIELD(beta, FLOAT, 0, 1e30, NULL, "DPO: strength of the KL constraint"),
        PPO__FIT_FIELD(label_smoothing, FLOAT, 0, 0.5, NULL, "DPO: share of comparisons that are wrong"),
        PPO__FIT_FIELD(seed, U64, 0, 1.8446744073709552e19, NULL, "of the order of the data"),
        PPO__FIT_FIELD(evaluate_every, INT, 0, INT_MAX, NULL, "steps between held-out losses; 0: an epoch"),
        PPO__FIT_FIELD(patience, INT, 0, INT_MAX, NULL, "held-out losses without a new best; 0: any number"),
        PPO__FIT_FIELD(checkpoint_every, INT, 1, INT_MAX, NULL, "steps between checkpoints"),
    };
    static const ppo_settings settings = {fields, sizeof fields / sizeof *fields};
    return &settings;
}

static const ppo__need ppo__fit_needs[] = {
    {"epochs", "steps", "0"},
    {"random_windows", "window", NULL},
    {"min_learning_rate", "learning_rate_schedule", "linear|cosine"},
    {"warmup", "warmup_steps", "0"},
};

enum { PPO__SFT, PPO__REWARD, PPO__DPO };
static const char *const ppo__fit_names[] = {"ppo_fit_sft", "ppo_fit_reward", "ppo_fit_dpo"};

/* What is learned, or held out. */
typedef struct ppo__fit_set {
    const ppo_tokens *data[2];     /* sequences; of pairs, data[1] are the rejected ones, else it is NULL */
    ppo_tokens        text;        /* with windows: all of data[0] as one sequence, and */
    int               bounds[2];   /* its start; */
    int              *first;       /* [count] where each window begins; else NULL */
    float            *ref_logp[2]; /* DPO: [count] of the reference, else NULL */
    int               count;       /* items */
    int               longest[2];  /* tokens of the longest item */
    int              *order;       /* [count] */
} ppo__fit_set;

typedef struct ppo__fit {
    ppo__learner          learner;
    int                   objective;
    ppo_lm               *lm;
    const ppo_fit_config *config;
    ppo__arena            memory;
    ppo__fit_set          set[2]; /* what is learned; what is held out, or nothing (count 0) */
    const ppo__fit_set   *now;    /* the one that items are of at the moment */
    int                   batch_size;
    uint64_t              hash[4];      /* for a checkpoint: of the data of both sets */
    float                *ref_batch[2]; /* DPO: of the reference, the micro-batch */
    float *score[2]; /* [batch_size] pairs: the model's scores, or sums of logp, of the batch */
    float *losses;   /* (batch_size, 2) the mean of each micro-batch, and its weight */
    float *best;     /* with patience: the parameters of the lowest held-out loss; else NULL */
    float  best_loss;
    int    worse; /* held-out losses since then */
    int    over;  /* 1: the training is complete */
} ppo__fit;

/* Makes set k that from which the learner takes its items. */
static void ppo__fit_use(ppo__fit *fit, int k) {
    const ppo__fit_set *set = fit->now = &fit->set[k];
    fit->learner.first = set->first;
    fit->learner.data[0] = set->first ? &set->text : set->data[0];
    fit->learner.data[1] = set->data[1];
}

static ppo_tensor *ppo__fit_loss(void *user, const int *item, float *weight) {
    ppo__fit         *fit = (ppo__fit *)user;
    ppo__learner     *learner = &fit->learner;
    const ppo_tokens *batch = learner->batch;
    ppo_tape         *tape = learner->tape;
    ppo_tensor       *loss = NULL, *score[2] = {NULL, NULL};
    float            *kept = fit->losses + 2 * (learner->done / learner->micro_batch);
    for (int k = 0; k < 2 && fit->objective != PPO__SFT; ++k) {
        score[k] = fit->objective == PPO__DPO ? ppo__sequence_logp(tape, fit->lm, &batch[k], 1)
                                              : ppo_lm_sequence_score(tape, fit->lm, &batch[k]);
        if (!score[k]) return NULL;
        ppo__tape_read(tape, score[k]->data, (size_t)batch[k].count, fit->score[k] + learner->done);
        for (int i = 0; i < batch[k].count && fit->now->ref_logp[k]; ++i)
            fit->ref_batch[k][i] = fit->now->ref_logp[k][item[i]];
    }
    *weight = (float)batch[0].count;
    if (fit->objective == PPO__SFT) {
        ppo_response out = ppo_lm_response(tape, fit->lm, &batch[0], 1, PPO_POLICY);
        *weight = out.logp ? (float)out.logp->rows : 0;
        loss = ppo_tape_scale(tape, ppo_tape_mean(tape, out.logp), -1, 0);
    } else if (fit->objective == PPO__REWARD) {
        loss = ppo_tape_pairwise_loss(tape, score[0], score[1]);
    } else {
        loss = ppo_tape_dpo_loss(tape, score[0], score[1], fit->ref_batch[0], fit->ref_batch[1],
                                 fit->config->beta, fit->config->label_smoothing);
    }
    kept[1] = *weight;
    if (loss) ppo__tape_read(tape, loss->data, 1, kept);
    return loss;
}

/* Whether another model can score the sequences of the policy. */
static ppo_status ppo__check_peer(const ppo_lm *policy, const ppo_lm *other, const char *name) {
    if (!other) return PPO_OK;
    if (other->config.vocab != policy->config.vocab)
        return ppo__refuse("the policy has a vocabulary of %d tokens, the %s one of %d", policy->config.vocab,
                           name, other->config.vocab);
    if (other->config.context < policy->config.context)
        return ppo__refuse("the policy has a context of %d tokens, the %s one of %d", policy->config.context,
                           name, other->config.context);
    return PPO_OK;
}

/* Cuts a text into windows side by side: each begins with the token that the one before ended with, and does
   not predict it. Those with nothing to learn are left out. */
static ppo_status ppo__fit_cut(ppo__fit *fit, ppo__fit_set *set) {
    const ppo_tokens *data = set->data[0];
    const int         n = data->start[data->count], width = ppo__min_int(fit->config->window, n);
    const int         marked = data->given || data->prompt;
    unsigned char    *given = marked ? PPO__ARRAY(&fit->memory, unsigned char, n) : NULL;
    set->first = PPO__ARRAY(&fit->memory, int, n > 1 ? ppo__divide_up(n - 1, width - 1) : 1);
    if (ppo__arena_status(&fit->memory)) return PPO_ERROR_MEMORY;
    for (int s = 0; s < data->count && marked; ++s) {
        int prompt = data->prompt ? data->prompt[s] : 0;
        for (int i = data->start[s]; i < data->start[s + 1]; ++i)
            given[i] = i - data->start[s] < prompt || (data->given && data->given[i]);
    }
    const ppo_tokens text = {1, set->bounds, NULL, data->token, given, NULL};
    set->text = text;
    set->bounds[1] = n;
    set->longest[0] = width;
    set->count = 0;
    int next = 0; /* token that is learned */
    for (int64_t at = 0; at < n - 1; at += width - 1) {
        if (next <= at) next = ppo__response_token(&set->text, 0, (int)at + 1);
        if (next < n && next - at < width) set->first[set->count++] = (int)at;
    }
    return set->count ? PPO_OK : ppo__refuse("there is no token after the prompts");
}

/* Windows from anywhere; one with nothing to learn moves on to the next token that is learned. */
static void ppo__fit_draw(ppo__fit_set *set, ppo_rng *rng) {
    const int n = set->bounds[1], last = n - set->longest[0];
    for (int i = 0; i < set->count; ++i) {
        int at = ppo_rng_below(rng, last + 1), next = ppo__response_token(&set->text, 0, at + 1);
        if (next == n) next = ppo__response_token(&set->text, 0, 0), at = 0;
        set->first[i] = next - at < set->longest[0] ? at : ppo__min_int(next - 1, last);
    }
}

/* Checks the data of a set, and finds its items. */
static ppo_status ppo__fit_check_set(ppo__fit *fit, ppo__fit_set *set) {
    const int  window = fit->config->window, what = window ? PPO__ANY_LENGTH : 0;
    ppo_status status = PPO_OK;
    for (int k = 0; k < 2 && set->data[k] && !status; ++k) {
        const ppo_tokens *data = set->data[k];
        status = ppo__check_sequences(fit->lm, data, what);
        for (int s = 0; s < data->count && !status && !window; ++s) {
            int n = data->start[s + 1] - data->start[s];
            set->longest[k] = n > set->longest[k] ? n : set->longest[k];
            if (fit->objective == PPO__REWARD || ppo__response_length(data, s)) continue;
            status = ppo__refuse("sequence %d has no token after its prompt", s);
        }
    }
    if (status) return status;
    set->count = set->data[0]->count;
    if (set->data[1] && set->count != set->data[1]->count)
        return ppo__refuse("%d chosen sequences and %d rejected ones", set->count, set->data[1]->count);
    if (window) status = ppo__fit_cut(fit, set);
    set->order = PPO__ARRAY(&fit->memory, int, set->count);
    for (int i = 0; i < set->count && set->order; ++i) set->order[i] = i;
    return status;
}

static ppo_status ppo__fit_check(ppo__fit *fit, const ppo_lm *reference) {
    const ppo_fit_config *c = fit->config;
    const ppo_fit_config  usual = ppo_fit_config_default();
    const int             pairs = fit->objective != PPO__SFT, context = fit->lm->config.context;
    ppo_status            status = ppo_settings_check(ppo_fit_settings(), c);
    for (size_t k = 0; k < sizeof ppo__fit_needs / sizeof *ppo__fit_needs && !status; ++k)
        status = ppo__check_effect(ppo_fit_settings(), c, &usual, &ppo__fit_needs[k], NULL);
    if (status) return status;
    if (c->min_learning_rate > c->learning_rate)
        return ppo__refuse("min_learning_rate is %g, above learning_rate, which is %g",
                           (double)c->min_learning_rate, (double)c->learning_rate);
    if (c->window && pairs) return ppo__refuse("window is %d, but pairs are whole sequences", c->window);
    if (c->window == 1 || c->window > context)
        return ppo__refuse("window is %d, must be 2 to %d, the context", c->window, context);
    if ((c->evaluate_every || c->patience || c->held_out_rejected) && !c->held_out)
        return ppo__refuse("evaluate_every, patience and held_out_rejected need held_out, which is NULL");
    if (c->held_out && pairs != (c->held_out_rejected != NULL))
        return ppo__refuse("held_out_rejected is %sNULL, but the objective has %s", pairs ? "" : "not ",
                           pairs ? "pairs" : "none");
    status = ppo__fit_check_set(fit, &fit->set[0]);
    if (!status && c->held_out && ppo__fit_check_set(fit, &fit->set[1])) {
        char what[PPO__ERROR_SIZE];
        memcpy(what, ppo__error, sizeof what);
        status = ppo_fail(ppo__failed, "held-out data: %s", what);
    }
    return status ? status : ppo__check_peer(fit->lm, reference, "reference");
}

/* Checks everything, takes the memory, and computes what the reference says. */
static ppo_status ppo__fit_begin(ppo__fit *fit, const ppo_lm *reference) {
    const ppo_fit_config *c = fit->config;
    ppo__learner         *learner = &fit->learner;
    ppo_status            status = ppo__fit_check(fit, reference);
    if (status) return status;
    int count = fit->set[0].count, batch = c->batch_size < count ? c->batch_size : count, longest[2];
    int micro = c->micro_batch && c->micro_batch < batch ? c->micro_batch : batch;
    fit->batch_size = batch;
    learner->micro_batch = micro;
    learner->window = c->window;
    fit->losses = PPO__ARRAY(&fit->memory, float, ppo__at(2, batch));
    fit->best = c->patience ? PPO__ZEROS(&fit->memory, float, fit->lm->params->count) : NULL;
    fit->best_loss = FLT_MAX;
    for (int k = 0; k < 2; ++k) {
        longest[k] = fit->set[0].longest[k];
        if (fit->set[1].longest[k] > longest[k]) longest[k] = fit->set[1].longest[k];
        if (fit->objective != PPO__SFT) fit->score[k] = PPO__ARRAY(&fit->memory, float, batch);
        if (reference) fit->ref_batch[k] = PPO__ARRAY(&fit->memory, float, micro);
        for (int j = 0; j < 2 && reference; ++j)
            if (fit->set[j].count)
                fit->set[j].ref_logp[k] = PPO__ARRAY(&fit->memory, float, fit->set[j].count);
    }
    status = ppo__arena_status(&fit->memory);
    if (!status) status = ppo__tape_create_on(ppo__device_in_use, &learner->tape);
    for (int k = 0; k < 4 && !status; ++k) {
        const ppo__fit_set *set = &fit->set[k / 2];
        if (set->ref_logp[k % 2])
            status = ppo_lm_logp(reference, set->data[k % 2], micro, set->ref_logp[k % 2]);
    }
    ppo__fit_use(fit, 0);
    return status ? status : ppo__learner_reserve(learner, fit->set[0].order, longest);
}

/* A linear warmup, then the schedule. */
static float ppo__fit_rate(const ppo_fit_config *config, int64_t step, int64_t steps) {
    double warm = ceilf(config->warmup * (float)steps); /* of floats: 0.05 of 20 is 1, not a bit more */
    if (config->warmup_steps) warm = config->warmup_steps;
    if ((double)step < warm) return (float)(config->learning_rate * (double)(step + 1) / (warm + 1));
    float least = config->min_learning_rate;
    return least + ppo_schedule(config->learning_rate_schedule, config->learning_rate - least,
                                (float)(((double)step - warm) / ((double)steps - warm)));
}

/* Adds up the losses of n items by their weights, and counts the pairs of which the chosen one is preferred: by
   more than the reference prefers it. */
static void ppo__fit_sum_up(const ppo__fit *fit, const int *item, int n, double *sum, int *correct) {
    float *const *ref_logp = fit->now->ref_logp;
    for (int i = 0; i * fit->learner.micro_batch < n; ++i)
        *sum += (double)fit->losses[2 * i] * fit->losses[2 * i + 1];
    for (int i = 0; i < n && fit->score[0]; ++i) {
        float ref = ref_logp[0] ? ref_logp[0][item[i]] - ref_logp[1][item[i]] : 0;
        *correct += fit->score[0][i] - fit->score[1][i] > ref;
    }
}

/* A gradient step on n items. */
static ppo_status ppo__fit_step(ppo__fit *fit, const int *item, int n, ppo_fit_progress *p) {
    const ppo_fit_config *c = fit->config;
    ppo_params           *params = fit->lm->params;
    ppo_adam              adam = {0, c->adam_beta1, c->adam_beta2, c->adam_eps, c->weight_decay};
    double                total = 0, sum = 0;
    int                   correct = 0;
    adam.lr = p->learning_rate = ppo__fit_rate(c, p->step - 1, p->steps);
    ppo_params_zero_grad(params);
    ppo_status status = ppo__gradients(&fit->learner, item, n, &total);
    float      scale = (float)(1 / total);
    if (!status) status = ppo__params_step(params, &adam, scale, c->max_grad_norm, &p->grad_norm);
    status = ppo__settle(fit->learner.tape->device, status);
    if (status) return status;
    ppo__fit_sum_up(fit, item, n, &sum, &correct);
    p->loss = (float)(sum / total);
    p->accuracy = fit->score[0] ? (float)((double)correct / n) : NAN;
    return PPO_OK;
}

/* The loss of the held-out data, and what follows from it. */
static ppo_status ppo__fit_evaluate(ppo__fit *fit, ppo_fit_progress *p) {
    ppo__learner *learner = &fit->learner;
    ppo_params   *params = fit->lm->params;
    const int     count = fit->set[1].count, micro = learner->micro_batch;
    double        total = 0, sum = 0;
    int           correct = 0;
    ppo_status    status = PPO_OK;
    ppo__fit_use(fit, 1);
    ppo_tape_record(learner->tape, 0);
    learner->done = 0;
    for (int i = 0; i < count && !status; i += micro) {
        const int *item = fit->set[1].order + i, n = count - i < micro ? count - i : micro;
        float      weight = 0;
        status = ppo__gather_items(learner, item, n);
        ppo_tape_reset(learner->tape);
        if (!status) ppo__fit_loss(fit, item, &weight);
        if (!status) status = ppo__tape_settle(learner->tape);
        if (!status) ppo__fit_sum_up(fit, item, n, &sum, &correct);
        total += weight;
    }
    ppo_tape_record(learner->tape, 1);
    ppo__fit_use(fit, 0);
    if (status) return status;
    p->held_out_loss = (float)(sum / total);
    if (fit->score[0]) p->held_out_accuracy = (float)((double)correct / count);
    else p->perplexity = expf(p->held_out_loss);
    if (!ppo__finite(p->held_out_loss))
        return ppo_fail(PPO_ERROR_NUMERIC, "the held-out loss is %g after step %lld",
                        (double)p->held_out_loss, (long long)p->step);
    if (!fit->best) return PPO_OK;
    if (p->held_out_loss >= fit->best_loss) return ++fit->worse, PPO_OK;
    fit->best_loss = p->held_out_loss;
    fit->worse = 0;
    status = ppo__params_fetch(params);
    if (!status) memcpy(fit->best, params->data, params->count * sizeof(float));
    return status;
}

/* -- checkpoints of trainings -- */

/* ppo__fnv1a() of the arrays of sequences. */
static uint64_t ppo__hash_tokens(uint64_t hash, const ppo_tokens *tokens) {
    const size_t    count = (size_t)tokens->count, n = (size_t)tokens->start[tokens->count];
    const ppo_array arrays[] = {{"", PPO_I32, 0, {0}, (count + 1) * sizeof(int), tokens->start},
                                {"", PPO_I32, 0, {0}, count * sizeof(int), tokens->prompt},
                                {"", PPO_I32, 0, {0}, n * sizeof(int), tokens->token},
                                {"", PPO_U8, 0, {0}, n, tokens->given}};
    for (int k = 0; k < 4; ++k)
        if (arrays[k].data) hash = ppo__hash_array(hash, &arrays[k]);
    return hash;
}

/* What a run was saved with, as a text of its checkpoint; when loading, an error if it was something else. */
static ppo_status ppo__carry_fact(ppo_file *file, int way, const char *name, const char *fact) {
    char key[64];
    snprintf(key, sizeof key, "saved_with.%s", name); /* apart from settings of the same name */
    const char *text = ppo_file_text(file, key);
    if (way == PPO__SAVE) return ppo_file_set_text(file, key, fact);
    if (text && strcmp(text, fact) == 0) return PPO_OK;
    return ppo__file_fail(file->path, "saved with another \"%s\": %.40s, not %s", name, text ? text : "none",
                          fact);
}

static ppo_status ppo__carry_hash(ppo_file *file, int way, const char *key, uint64_t hash) {
    char text[32];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
    return ppo__carry_fact(file, way, key, text);
}

/* Is it a whole checkpoint by this function? */
static ppo_status ppo__check_checkpoint(const ppo_file *file, const char *function) {
    const char *by = ppo_file_text(file, "checkpoint");
    if (!by) return ppo__file_fail(file->path, "it is no checkpoint of %s()", function);
    if (strcmp(by, function) == 0) return ppo__check_checksum(file);
    return ppo__file_fail(file->path, "it is a checkpoint of %.40s(), not of %s()", by, function);
}

static ppo_status ppo__carry_moments(ppo_file *file, int way, const char *prefix, const ppo_params *params) {
    const ppo__item second = {"adam.v", PPO_F32, 1, {(int64_t)params->count, 0}, params->v, 0, FLT_MAX};
    char            name[32];
    snprintf(name, sizeof name, "%sadam.m.", prefix);
    ppo_status status = ppo__carry_params(file, way, name, params, params->m, 2);
    snprintf(name, sizeof name, "%sadam.v.", prefix);
    if (!status) status = ppo__carry_params(file, way, name, params, params->v, 2);
    return status ? status : ppo__check_item(file, way, &second);
}

/* A model in the middle of its training: its parameters and moments, under a prefix; "": as a model's file. */
static ppo_status ppo__put_trained(ppo_file *file, const char *prefix, const ppo_lm *lm) {
    const ppo_params *params = lm->params;
    ppo_status        status = ppo__params_fetch(params);
    if (!status)
        status = *prefix ? ppo__carry_params(file, PPO__SAVE, prefix, params, params->data, 2)
                         : ppo_lm_put(lm, file);
    return status ? status : ppo__carry_moments(file, PPO__SAVE, prefix, params);
}

/* Reads it into a model of its own, which ppo__take_trained() copies to lm when nothing can fail any more. */
static ppo_status ppo__get_trained(ppo_file *file, const char *prefix, const ppo_lm *lm, ppo_lm **read) {
    ppo_status status = *prefix ? ppo_lm_copy(lm, 0, read) : ppo_lm_get(file, read);
    for (int i = 0; i < ppo__lm_settings.count && !status; ++i)
        if (strcmp(ppo__lm_fields[i].name, "seed") != 0)
            status = ppo__check_kept(&ppo__lm_settings, ppo__lm_fields[i].name, &(*read)->config, &lm->config,
                                     "checkpoint");
    if (!status && *prefix)
        status = ppo__carry_params(file, PPO__LOAD, prefix, (*read)->params, (*read)->params->data, 2);
    if (!status) status = ppo_params_freeze((*read)->params, 0);
    return status ? status : ppo__carry_moments(file, PPO__LOAD, prefix, (*read)->params);
}

static void ppo__take_trained(ppo_lm *lm, const ppo_lm *read, int64_t step) {
    ppo_params       *params = lm->params;
    const ppo_params *from = read->params;
    memcpy(params->data, from->data, from->count * sizeof(float));
    memcpy(params->m, from->m, from->count * sizeof(float));
    memcpy(params->v, from->v, from->count * sizeof(float));
    params->step = step;
}

/* -- a training -- */

/* A training, and what its file holds in another form. It must exist until the file is written. */
typedef struct ppo__fit_checkpoint {
    ppo__fit         *fit;
    ppo_fit_progress *progress;
    int64_t           counters[5];
} ppo__fit_checkpoint;

/* What a checkpoint holds besides the model. */
static ppo_status ppo__carry_fit(ppo_file *file, int way, ppo__fit_checkpoint *kept) {
    ppo__fit           *fit = kept->fit;
    const ppo__fit_set *learned = &fit->set[0], *held_out = &fit->set[1];
    const int64_t       n = learned->count, held_n = held_out->count;
    float              *best_loss = fit->best ? &fit->best_loss : NULL;
    const ppo__item     items[] = {
            {"fit.counters", PPO_I64, 2, {1, 5}, kept->counters, 0, 4e18},
            {"fit.seconds", PPO_F64, 2, {1, 1}, &kept->progress->seconds, 0, 1e15},
            {"fit.best_loss", PPO_F32, 2, {1, 1}, best_loss, PPO__ANY},
            {"reference.chosen", PPO_F32, 1, {n, 0}, learned->ref_logp[0], PPO__ANY},
            {"reference.rejected", PPO_F32, 1, {n, 0}, learned->ref_logp[1], PPO__ANY},
            {"reference.held_out_chosen", PPO_F32, 1, {held_n, 0}, held_out->ref_logp[0], PPO__ANY},
            {"reference.held_out_rejected", PPO_F32, 1, {held_n, 0}, held_out->ref_logp[1], PPO__ANY},
    };
    ppo_status status = ppo__carry_items(file, way, items, sizeof items / sizeof *items);
    for (int k = 0; k < 4 && !status; ++k) {
        static const char *const names[] = {"data", "rejected", "held_out", "held_out_rejected"};
        if (fit->set[k / 2].data[k % 2]) status = ppo__carry_hash(file, way, names[k], fit->hash[k]);
    }
    if (status || !fit->best) return status;
    return ppo__carry_params(file, way, "best.", fit->lm->params, fit->best, 2);
}

static ppo_status ppo__put_fit(ppo_file *file, const void *object) {
    ppo__fit_checkpoint *kept = (ppo__fit_checkpoint *)object;
    const ppo__fit      *fit = kept->fit;
    char                 text[32];
    ppo_status           status = ppo__put_trained(file, "", fit->lm);
    if (!status) status = ppo_file_set_text(file, "checkpoint", ppo__fit_names[fit->objective]);
    if (!status) status = ppo__put_settings(file, ppo_fit_settings(), fit->config);
    if (!status) status = ppo__carry_fit(file, PPO__SAVE, kept);
    return status ? status : ppo_file_set_text(file, "checksum", ppo__file_checksum(file, text));
}

static ppo_status ppo__fit_save(ppo__fit *fit, ppo_fit_progress *p) {
    ppo__fit_checkpoint kept = {
        fit, p, {p->step, fit->learner.tokens, fit->lm->params->step, fit->worse, fit->over}};
    return ppo__save(ppo__fit_names[fit->objective], fit->config->checkpoint, ppo__put_fit, &kept);
}

static ppo_status ppo__get_fit(ppo_file *file, ppo__fit *fit, ppo_fit_progress *p, ppo_lm **read) {
    const ppo_settings *settings = ppo_fit_settings();
    ppo__fit_checkpoint kept = {fit, p, {0}};
    const int64_t      *counters = kept.counters;
    ppo_fit_config      own = ppo_fit_config_default();
    ppo_status          status = ppo__check_checkpoint(file, ppo__fit_names[fit->objective]);
    if (!status) status = ppo__get_settings(file, settings, &own);
    for (int i = 0; i < settings->count && !status; ++i)
        if (strcmp(settings->field[i].name, "checkpoint_every") != 0)
            status = ppo__check_kept(settings, settings->field[i].name, &own, fit->config, "checkpoint");
    if (!status) status = ppo__get_trained(file, "", fit->lm, read);
    if (!status) status = ppo__carry_fit(file, PPO__LOAD, &kept);
    if (!status && (counters[0] > p->steps || counters[3] > INT_MAX || counters[4] > 1))
        status = ppo__file_fail(file->path, "corrupt file: step %lld of %lld, with %lld and %lld",
                                (long long)counters[0], (long long)p->steps, (long long)counters[3],
                                (long long)counters[4]);
    if (!status) status = ppo_params_sync(fit->lm->params);
    if (status) return status;
    ppo__take_trained(fit->lm, *read, counters[2]);
    p->step = counters[0];
    fit->learner.tokens = counters[1];
    fit->worse = (int)counters[3];
    fit->over = (int)counters[4];
    return PPO_OK;
}

/* Continues from the checkpoint if there is one, and restarts the optimizer otherwise. */
static ppo_status ppo__fit_resume(ppo__fit *fit, ppo_fit_progress *p) {
    const char *path = fit->config->checkpoint;
    ppo_file   *file = NULL;
    ppo_lm     *read = NULL;
    FILE       *in = path ? fopen(path, "rb") : NULL;
    int         there = in || (path && errno != ENOENT);
    if (in) fclose(in);
    for (int k = 0; k < 4 && path; ++k) {
        const ppo_tokens *data = fit->set[k / 2].data[k % 2];
        if (data) fit->hash[k] = ppo__hash_tokens(PPO__FNV1A, data);
    }
    if (!there) return ppo_params_restart(fit->lm->params), PPO_OK;
    ppo_status status = ppo_file_read(path, &file);
    if (!status) status = ppo__get_fit(file, fit, p, &read);
    ppo_file_free(file);
    ppo_lm_free(read);
    return status;
}

/* The rest of a training from p->step on. */
static ppo_status ppo__fit_run(ppo__fit *fit, ppo_fit_progress *p, int batches) {
    const ppo_fit_config *c = fit->config;
    ppo__fit_set         *set = &fit->set[0];
    ppo_rng               rng = ppo_rng_stream(c->seed, PPO_STREAM_SHUFFLE, 0);
    double                began = ppo_clock() - p->seconds;
    int                   every = c->evaluate_every ? c->evaluate_every : batches, stop = 0;
    ppo_status            status = PPO_OK;
    for (p->epoch = 1; !fit->over && !stop && !status; ++p->epoch) {
        int64_t done = p->step - (int64_t)(p->epoch - 1) * batches; /* of this epoch; more: all of it */
        if (c->random_windows) ppo__fit_draw(set, &rng);
        ppo_rng_shuffle(&rng, set->order, set->count);
        for (int64_t b = done; b < batches && !fit->over && !stop && !status; ++b) {
            int begin = ppo__share(set->count, (int)b, batches),
                end = ppo__share(set->count, (int)b + 1, batches);
            ++p->step;
            p->held_out_loss = p->held_out_accuracy = p->perplexity = NAN;
            status = ppo__fit_step(fit, set->order + begin, end - begin, p);
            int last = p->step == p->steps;
            if (!status && c->held_out && (last || p->step % every == 0)) status = ppo__fit_evaluate(fit, p);
            p->seconds = ppo_clock() - began;
            p->tokens_per_second = p->seconds > 0 ? (double)fit->learner.tokens / p->seconds : 0;
            if (!status && c->callback) stop = c->callback(p, c->callback_user);
            fit->over = last || (c->patience && fit->worse >= c->patience);
            if (!status && fit->over && fit->best) status = ppo_params_sync(fit->lm->params);
            if (!status && fit->over && fit->best)
                memcpy(fit->lm->params->data, fit->best, fit->lm->params->count * sizeof(float));
            if (!status && c->checkpoint && (fit->over || stop || p->step % c->checkpoint_every == 0))
                status = ppo__fit_save(fit, p);
        }
    }
    return status;
}

/* rejected: of pairs, else NULL; reference: for DPO, else NULL. */
static ppo_status ppo__fit_train(ppo_lm *lm, const ppo_lm *reference, const ppo_tokens *data,
                                 const ppo_tokens *rejected, const ppo_fit_config *config, int objective) {
    ppo__fit         fit;
    ppo_fit_progress p;
    memset(&fit, 0, sizeof fit);
    memset(&p, 0, sizeof p);
    fit.lm = lm;
    fit.config = config;
    fit.objective = objective;
    fit.set[0].data[0] = data;
    fit.set[0].data[1] = rejected;
    fit.set[1].data[0] = config->held_out;
    fit.set[1].data[1] = config->held_out_rejected;
    fit.learner.loss = ppo__fit_loss;
    fit.learner.user = &fit;
    ppo_status status = ppo_params_freeze(lm->params, 0);
    if (!status) status = ppo__fit_begin(&fit, reference);
    int batches = status ? 0 : ppo__divide_up(fit.set[0].count, fit.batch_size);
    p.steps = config->steps ? config->steps : (int64_t)batches * config->epochs;
    if (!status) status = ppo__fit_resume(&fit, &p);
    if (!status) status = ppo__fit_run(&fit, &p, batches);
    ppo__learner_free(&fit.learner);
    ppo__arena_free(&fit.memory);
    return status;
}

PPO_DEF ppo_status ppo_fit_sft(ppo_lm *lm, const ppo_tokens *data, const ppo_fit_config *config) {
    if (!ppo__given("ppo_fit_sft", lm && data && config)) return PPO_ERROR_ARGUMENT;
    return ppo__fit_train(lm, NULL, data, NULL, config, PPO__SFT);
}

PPO_DEF ppo_status ppo_fit_reward(ppo_lm *lm, const ppo_tokens *chosen, const ppo_tokens *rejected,
                                  const ppo_fit_config *config) {
    if (!ppo__given("ppo_fit_reward", lm && chosen && rejected && config)) return PPO_ERROR_ARGUMENT;
    ppo_status status = ppo__check_score("ppo_fit_reward", lm);
    return status ? status : ppo__fit_train(lm, NULL, chosen, rejected, config, PPO__REWARD);
}

PPO_DEF ppo_status ppo_fit_dpo(ppo_lm *lm, const ppo_lm *reference, const ppo_tokens *chosen,
                               const ppo_tokens *rejected, const ppo_fit_config *config) {
    if (!ppo__given("ppo_fit_dpo", lm && reference && chosen && rejected && config))
        return PPO_ERROR_ARGUMENT;
    return ppo__fit_train(lm, reference, chosen, rejected, config, PPO__DPO);
}

/* -- rewards -- */

struct ppo_reward_model {
    ppo_lm *member[PPO_MAX_MEMBERS];
    float   mean[PPO_MAX_MEMBERS], inv_std[PPO_MAX_MEMBERS];
    int     count, ensemble, batch;
};

PPO_DEF void ppo_reward_model_free(ppo_reward_model *model) { ppo__free(model); }

PPO_DEF ppo_status ppo_reward_model_create(ppo_lm *const *members, int count, int ensemble, int batch,
                                           ppo_reward_model **model) {
    if (model) *model = NULL;
    if (!ppo__given("ppo_reward_model_create", members && model)) return PPO_ERROR_ARGUMENT;
    if (count < 1 || count > PPO_MAX_MEMBERS || batch < 1 ||
        (ensemble != PPO_ENSEMBLE_MEAN && ensemble != PPO_ENSEMBLE_MINIMUM))
        return ppo__refuse("ppo_reward_model_create: %d members, batch %d, ensemble %d", count, batch,
                           ensemble);
    for (int k = 0; k < count; ++k)
        if (!members[k] || !members[k]->score_weight)
            return ppo__refuse("ppo_reward_model_create: member %d has no score", k);
    *model = (ppo_reward_model *)ppo__alloc(sizeof **model);
    if (!*model) return PPO_ERROR_MEMORY;
    (*model)->count = count;
    (*model)->ensemble = ensemble;
    (*model)->batch = batch;
    for (int k = 0; k < count; ++k) {
        (*model)->member[k] = members[k];
        (*model)->inv_std[k] = 1;
    }
    return PPO_OK;
}

PPO_DEF ppo_status ppo_reward_model_normalize(ppo_reward_model *model, const ppo_tokens *reference) {
    if (!ppo__given("ppo_reward_model_normalize", model && reference)) return PPO_ERROR_ARGUMENT;
    ppo_reward_model normal = *model;
    int              n = reference->count;
    float           *score = (float *)ppo__alloc((n > 0 ? n : 1) * sizeof(float));
    ppo_status       status = score ? PPO_OK : PPO_ERROR_MEMORY;
    for (int k = 0; k < model->count && !status; ++k) {
        double sum = 0, squares = 0;
        status = ppo_lm_scores(model->member[k], reference, model->batch, score);
        for (int s = 0; s < n && !status; ++s) sum += score[s];
        for (int s = 0; s < n && !status; ++s) squares += (score[s] - sum / n) * (score[s] - sum / n);
        if (!status && !(squares > 0))
            status =
                ppo_fail(PPO_ERROR_NUMERIC, "reward model %d gives all %d sequences the same score", k, n);
        normal.mean[k] = (float)(sum / n);
        normal.inv_std[k] = (float)(1 / sqrt(squares / n));
    }
    if (!status) *model = normal;
    ppo__free(score);
    return status;
}

PPO_DEF ppo_status ppo_reward_model_score(ppo_reward_model *model, const ppo_tokens *tokens, float *score) {
    if (!ppo__given("ppo_reward_model_score", model && tokens && score)) return PPO_ERROR_ARGUMENT;
    int        n = tokens->count;
    float     *one = (float *)ppo__alloc((n > 0 ? n : 1) * sizeof(float));
    ppo_status status = one ? PPO_OK : PPO_ERROR_MEMORY;
    for (int k = 0; k < model->count && !status; ++k) {
        status = ppo_lm_scores(model->member[k], tokens, model->batch, one);
        for (int s = 0; s < n && !status; ++s) {
            float x = (one[s] - model->mean[k]) * model->inv_std[k];
            if (model->ensemble == PPO_ENSEMBLE_MEAN) score[s] = (k ? score[s] : 0) + x / (float)model->count;
            else score[s] = k && score[s] < x ? score[s] : x;
        }
    }
    ppo__free(one);
    return status;
}

PPO_DEF ppo_status ppo_reward_by_model(const ppo_samples *samples, float *reward, void *model) {
    if (!ppo__given("ppo_reward_by_model", model && samples && reward)) return PPO_ERROR_ARGUMENT;
    return ppo_reward_model_score((ppo_reward_model *)model, &samples->tokens, reward);
}

/* Calls a reward function; one that fails without ppo_fail() gets a sentence. */
static ppo_status ppo__ask_reward(ppo_reward_fn reward, void *user, const ppo_samples *samples,
                                  float *score) {
    char before[PPO__ERROR_SIZE];
    if (!reward) return ppo__refuse("there is no reward function");
    for (int s = 0; s < samples->tokens.count; ++s) score[s] = NAN;
    memcpy(before, ppo__error, sizeof before);
    ppo__refuse("the reward function failed and gave no reason");
    ppo_status status = reward(samples, score, user);
    if (!status) memcpy(ppo__error, before, sizeof before);
    return status;
}

/* The same for samples that are a generator's, which must not sample meanwhile. */
static ppo_status ppo__ask_reward_of(ppo_generator *generator, ppo_reward_fn reward, void *user,
                                     const ppo_samples *samples, float *score) {
    generator->busy = 1;
    ppo_status status = ppo__ask_reward(reward, user, samples, score);
    generator->busy = 0;
    return status;
}

PPO_DEF float ppo_best_of_n_kl(int n) { return n > 1 ? (float)(log(n) - (n - 1.0) / n) : 0; }

PPO_DEF ppo_status ppo_best_of_n(ppo_generator *generator, const ppo_tokens *prompts, int n,
                                 const ppo_sampling *how, ppo_reward_fn reward, void *user, ppo_tokens *best,
                                 float *score) {
    ppo_tokens  asked = {0, NULL, NULL, NULL, NULL, NULL};
    ppo_tokens  given = {0, NULL, NULL, NULL, NULL, NULL}; /* a copy: the prompts may be the generator's */
    ppo_samples samples;
    if (!ppo__given("ppo_best_of_n", generator && prompts && how && best)) return PPO_ERROR_ARGUMENT;
    if (n < 1) return ppo__refuse("ppo_best_of_n: n is %d, must be 1 or more", n);
    if (best == prompts) return ppo__refuse("ppo_best_of_n: best is the prompts themselves");
    ppo_sampling now = *how;
    int          before = best->count;
    ppo_status   status = ppo__check_sequences(generator->lm, prompts, 1);
    if (status) return status;
    float *scores = (float *)ppo__alloc(n * sizeof(float));
    if (!scores) return PPO_ERROR_MEMORY;
    for (int s = 0; s < prompts->count && !status; ++s) status = ppo__add_prompt(&given, prompts, s, 1);
    for (int s = 0; s < given.count && !status; ++s) {
        int top = 0;
        ppo_tokens_clear(&asked);
        status = ppo__add_prompt(&asked, &given, s, n);
        now.seed = how->seed + (uint64_t)s * 0x9e3779b97f4a7c15u;
        if (!status) status = ppo_generate(generator, &asked, &now, &samples);
        if (!status) status = ppo__ask_reward_of(generator, reward, user, &samples, scores);
        for (int i = 0; i < n && !status; ++i) {
            if (scores[i] > scores[top]) top = i;
            if (ppo__finite(scores[i])) continue;
            status = ppo_fail(PPO_ERROR_NUMERIC, "the reward of sample %d of prompt %d is %g", i, s,
                              (double)scores[i]);
        }
        if (!status) status = ppo_tokens_add_from(best, &samples.tokens, top);
        if (!status && score) score[s] = scores[top];
    }
    if (status) best->count = before;
    ppo__free(scores);
    ppo_tokens_free(&asked);
    ppo_tokens_free(&given);
    return status;
}

PPO_DEF ppo_status ppo_compare(ppo_generator *generator, const ppo_tokens *prompts, const ppo_sampling *how,
                               ppo_reward_fn judge, void *user, ppo_rng *mistakes, ppo_tokens *chosen,
                               ppo_tokens *rejected) {
    ppo_tokens  asked = {0, NULL, NULL, NULL, NULL, NULL};
    ppo_samples samples;
    if (!ppo__given("ppo_compare", generator && prompts && how && chosen && rejected))
        return PPO_ERROR_ARGUMENT;
    if (chosen == prompts || rejected == prompts || chosen == rejected)
        return ppo__refuse("ppo_compare: prompts, chosen and rejected must be three");
    const int  before[2] = {chosen->count, rejected->count};
    ppo_status status = ppo__check_sequences(generator->lm, prompts, 1);
    if (status) return status;
    float *reward = (float *)ppo__alloc(2 * (size_t)prompts->count * sizeof(float));
    if (!reward) return PPO_ERROR_MEMORY;
    for (int s = 0; s < prompts->count && !status; ++s) status = ppo__add_prompt(&asked, prompts, s, 2);
    if (!status) status = ppo_generate(generator, &asked, how, &samples);
    if (!status) status = ppo__ask_reward_of(generator, judge, user, &samples, reward);
    for (int s = 0; s < asked.count && !status; s += 2) {
        float more = reward[s] - reward[s + 1];
        int   second = mistakes ? !(ppo_rng_uniform(mistakes) < 1 / (1 + expf(-more))) : more < 0;
        if (!ppo__finite(more))
            status = ppo_fail(PPO_ERROR_NUMERIC, "the rewards of prompt %d are %g and %g", s / 2,
                              (double)reward[s], (double)reward[s + 1]);
        if (!mistakes && more == 0) continue;
        if (!status) status = ppo_tokens_add_from(chosen, &samples.tokens, s + second);
        if (!status) status = ppo_tokens_add_from(rejected, &samples.tokens, s + !second);
    }
    if (status) chosen->count = before[0], rejected->count = before[1];
    ppo__free(reward);
    ppo_tokens_free(&asked);
    return status;
}

/* One sample of each prompt, and their rewards. */
static ppo_status ppo__sample_once(const ppo_lm *lm, const ppo_tokens *prompts, const ppo_sampling *how,
                                   ppo_reward_fn reward, void *user, ppo_generator **generator,
                                   ppo_samples *samples, float *score) {
    ppo_status status = ppo_generator_create(lm, ppo__device_in_use ? 256 : 16, generator);
    if (!status) status = ppo_generate(*generator, prompts, how, samples);
    return status || !reward ? status : ppo__ask_reward(reward, user, samples, score);
}

PPO_DEF ppo_status ppo_lm_evaluate(const ppo_lm *lm, const ppo_lm *reference, const ppo_tokens *prompts,
                                   const ppo_sampling *how, ppo_reward_fn reward, void *user,
                                   ppo_lm_evaluation *evaluation) {
    ppo_generator *generator[2] = {NULL, NULL};
    ppo_samples    samples, others;
    double         sum = 0, squares = 0, wins = 0, logp = 0, ref_logp = 0;
    int            rows = 0, ended = 0;
    if (!ppo__given("ppo_lm_evaluate", lm && prompts && how && evaluation)) return PPO_ERROR_ARGUMENT;
    memset(evaluation, 0, sizeof *evaluation);
    ppo_status status = ppo__check_sequences(lm, prompts, 1);
    if (!status) status = ppo__check_peer(lm, reference, "reference");
    if (status) return status;
    int    n = prompts->count;
    float *numbers = (float *)ppo__alloc(3 * (size_t)n * sizeof(float));
    float *score = numbers, *other = numbers + n, *ref = numbers + 2 * (size_t)n;
    double began = ppo_clock();
    if (!numbers) return PPO_ERROR_MEMORY;
    status = ppo__sample_once(lm, prompts, how, reward, user, &generator[0], &samples, score);
    double seconds = ppo_clock() - began;
    if (!status && reference) status = ppo__measure(reference, &samples.tokens, 64, how->temperature, ref);
    if (!status && reference && reward)
        status = ppo__sample_once(reference, prompts, how, reward, user, &generator[1], &others, other);
    for (int s = 0; s < n && !status; ++s) {
        if (!ppo__finite(score[s]) || !ppo__finite(other[s]))
            status = ppo_fail(PPO_ERROR_NUMERIC, "the reward of sample %d is %g, the reference's %g", s,
                              (double)score[s], (double)other[s]);
        sum += score[s];
        wins += score[s] > other[s] ? 1 : score[s] == other[s] ? 0.5 : 0;
        ref_logp += ref[s];
        rows += ppo__response_length(&samples.tokens, s);
        ended += samples.ended[s];
    }
    for (int s = 0; s < n && !status; ++s) squares += (score[s] - sum / n) * (score[s] - sum / n);
    for (int i = 0; !status && i < samples.tokens.start[n]; ++i) logp += samples.logp[i];
    ppo_lm_evaluation e = {(float)(sum / n),        (float)sqrt(squares / n),
                           (float)(wins / n),       (float)((logp - ref_logp) / n),
                           (float)(-logp / rows),   (float)rows / (float)n,
                           (float)ended / (float)n, seconds > 0 ? rows / seconds : 0};
    if (!reward) e.reward = e.reward_std = NAN;
    if (!reward || !reference) e.win_rate = NAN;
    if (!reference) e.kl = NAN;
    if (!status) *evaluation = e;
    ppo_generator_free(generator[0]);
    ppo_generator_free(generator[1]);
    ppo__free(numbers);
    return status;
}

/* --------------------------------------------------------------------------------------------------------
   @@ 22 PPO on tokens

   Start at ppo_rlhf_iterate() and ppo_rlhf_update(): prompts are chosen and sampled from, the reward function
   scores the samples, and the functions just above follow in this order: judging the samples (probabilities
   now, the reference's, values), rewards of tokens with their KL, advantages, and epochs of minibatches, each
   of them a loss, its gradient and a step of Adam. A row is a sampled token; rows of a sequence are adjacent.

   Three defaults keep it from running away: rewards are normalized, so that no setting depends on their scale;
   the critic is a model of its own, as a value loss in the policy's layers moves the policy at random; and
   target_kl bounds how far an iteration may lead, by ending its epochs or, after a step that is much too long,
   by going back and lowering the learning rate (ppo__rlhf_learn()).

   The machinery is elsewhere: sampling in section 20, micro-batches in section 21, memory at the end.

   To add state that lasts beyond an iteration: a row in ppo__carry_rlhf().
   To add an advantage: a constant at the end of PPO_ADVANTAGE_... and a row at the end of PPO__ADVANTAGES. To
   add a token loss: a setting, and a term in ppo__token_loss(); a method: a row of PPO__RLHF_PRESETS.
   -------------------------------------------------------------------------------------------------------- */

PPO_DEF ppo_rlhf_config ppo_rlhf_config_default(void) {
    ppo_rlhf_config c;
    ppo_adam        adam = ppo_adam_default();
    memset(&c, 0, sizeof c);
    c.prompts = 64;
    c.samples = 1;
    c.sampling = ppo_sampling_default();
    c.slots = 16;
    c.normalize_rewards = 1;
    c.epochs = 4;
    c.target_kl = 0.02f;
    c.minibatch_size = 16;
    c.learning_rate = 3e-4f;
    c.max_grad_norm = 1;
    c.objective = ppo_policy_objective_default();
    c.gamma = 1;
    c.gae_lambda = 0.95f;
    c.overlong_penalty = 1;
    c.whiten_advantages = -1;
    c.entropy_step = 0.005f;
    c.value_coef = 0.5f;
    c.value_clip = 0.2f;
    c.kl_estimator = PPO_K1;
    c.kl_coef = 0.05f;
    c.kl_horizon = 10000;
    c.adam_beta1 = adam.beta1;
    c.adam_beta2 = adam.beta2;
    c.adam_eps = adam.eps;
    c.seed = 1;
    return c;
}

/* Advantages in the order of PPO_ADVANTAGE_...: the word; does it need a critic, several samples of a prompt,
   whitening; and the formula, for all tokens of a sequence, in the variables of ppo__sequence_advantage(). */
#define PPO__ADVANTAGES(ROW)                                            \
    ROW("gae", 1, 0, 1, 0) /* ppo__rlhf_advantages(): token by token */ \
    ROW("sequence", 1, 0, 1, reward - value)                            \
    ROW("group", 0, 1, 0, (score - mean_score) / (std + 1e-4) + kl)     \
    ROW("leave-one-out", 0, 1, 0, reward - (sum - reward) / others)     \
    ROW("group-mean", 0, 1, 0, reward - sum / k)                        \
    ROW("return", 0, 0, 1, 0) /* token by token */
#define PPO__ADVANTAGE_WORD(word, critic, group, whiten, formula)    "|" word
#define PPO__ADVANTAGE_NEEDS(word, critic, group, whiten, formula)   {critic, group, whiten},
#define PPO__ADVANTAGE_FORMULA(word, critic, group, whiten, formula) (float)(formula),

static const struct {
    int critic, group, whiten;
} ppo__advantage_needs[] = {PPO__ADVANTAGES(PPO__ADVANTAGE_NEEDS)};

enum { PPO__MOST_SAMPLES = 1 << 24 }; /* of an iteration */

#define PPO__RLHF_NAMED(name, member, type, min, max, choices, help) \
    { name, PPO_FIELD_##type, offsetof(ppo_rlhf_config, member), min, max, choices, help, 0 }
#define PPO__RLHF_FIELD(name, type, min, max, choices, help) \
    PPO__RLHF_NAMED(#name, name, type, min, max, choices, help)

PPO_DEF const ppo_settings *ppo_rlhf_settings(void) {
    static const ppo_field fields[] = {
        PPO__RLHF_FIELD(prompts, INT, 1, PPO__MOST_SAMPLES, NULL, "prompts per iteration"),
        PPO__RLHF_FIELD(samples, INT, 1, PPO__MOST_SAMPLES, NULL, "samples of each prompt"),
        PPO__RLHF_FIELD(slots, INT, 1, PPO__MOST_SLOTS, NULL, "sequences that are sampled side by side"),
        PPO__SAMPLING_FIELDS(offsetof(ppo_rlhf_config, sampling)),
        PPO__RLHF_FIELD(normalize_rewards, CHOICE, 0, 1, "no|yes", "to mean 0, std 1 over all so far"),
        PPO__RLHF_FIELD(reward_clip, FLOAT, 0, 1e30, NULL, "rewards are clipped to +- this; 0: off"),
        PPO__RLHF_FIELD(missing_eos_penalty, FLOAT, -1e15, 1e15, NULL, "subtracted where no eos came"),
        PPO__RLHF_FIELD(length_penalty, FLOAT, -1e15, 1e15, NULL, "subtracted for every sampled token"),
        PPO__RLHF_FIELD(overlong_buffer, INT, 0, INT_MAX, NULL, "last tokens before the limit, which cost"),
        PPO__RLHF_FIELD(overlong_penalty, FLOAT, 0, 1e15, NULL, "cost of the last of these"),
        PPO__RLHF_FIELD(refills, INT, 0, 1000, NULL, "times that prompts of equal rewards are replaced"),
        PPO__RLHF_FIELD(kl_place, CHOICE, 0, 1, "reward|loss", "where the KL to the reference counts"),
        PPO__RLHF_FIELD(kl_estimator, CHOICE, PPO_K1, PPO_KL_EXACT, "k1|k2|k3|exact", "of that KL"),
        PPO__RLHF_FIELD(kl_coef, FLOAT, 0, 1e30, NULL, "strength of the KL constraint"),
        PPO__RLHF_FIELD(kl_weighted, CHOICE, 0, 1, "no|yes", "in the loss, times the ratio"),
        PPO__RLHF_FIELD(kl_target, FLOAT, 0, 1e30, NULL, "kl_coef adapts to hold this KL; 0: off"),
        PPO__RLHF_FIELD(kl_horizon, INT, INT_MIN, INT_MAX, NULL, "samples in which it can change by a fifth"),
        PPO__RLHF_FIELD(reference_every, INT, 0, INT_MAX, NULL, "iterations between new references; 0: none"),
        PPO__RLHF_FIELD(advantage, CHOICE, 0, sizeof ppo__advantage_needs / sizeof *ppo__advantage_needs - 1,
                        &(PPO__ADVANTAGES(PPO__ADVANTAGE_WORD))[1], "of a token"),
        PPO__RLHF_FIELD(gamma, FLOAT, 0, 1, NULL, "GAE, return: discount per token"),
        PPO__RLHF_FIELD(gae_lambda, FLOAT, 0, 1, NULL, "GAE: 0: one-step TD, 1: Monte Carlo"),
        PPO__RLHF_FIELD(whiten_rewards, CHOICE, 0, 1, "no|yes", "GAE: rewards to unit variance"),
        PPO__RLHF_FIELD(bootstrap_truncated, CHOICE, 0, 1, "no|yes", "GAE: bootstrap truncated sequences"),
        PPO__RLHF_FIELD(whiten_advantages, CHOICE, -1, 1, "auto|no|yes", "to mean 0, standard deviation 1"),
        PPO__RLHF_FIELD(aggregation, CHOICE, 0, 2, "tokens|sequences|constant", "how the loss is averaged"),
        PPO__RLHF_FIELD(ratio, CHOICE, 0, 1, "token|sequence", "of a token alone, or of its sequence"),
        PPO__RLHF_FIELD(mask_truncated, CHOICE, 0, 1, "no|yes", "learns nothing from truncated sequences"),
        PPO__RLHF_FIELD(epochs, INT, 1, 10000, NULL, "passes over the samples of an iteration"),
        PPO__RLHF_FIELD(target_kl, FLOAT, 0, 1e30, NULL, "epochs end at 1.5 times this KL per token; 0: off"),
        PPO__RLHF_FIELD(minibatch_size, INT, 1, INT_MAX, NULL, "sequences per gradient step"),
        PPO__RLHF_FIELD(micro_batch, INT, 0, INT_MAX, NULL, "of these, in memory at once; 0: all"),
        PPO__RLHF_NAMED("objective", objective.objective, CHOICE, 0, PPO__OBJECTIVES - 1, ppo__objectives,
                        "the policy's objective, not kl-penalty"),
        PPO__RLHF_NAMED("clip_low", objective.clip_low, FLOAT, 0, 1e30, NULL,
                        "no gain from ratios below 1 - this"),
        PPO__RLHF_NAMED("clip_high", objective.clip_high, FLOAT, 0, 1e30, NULL,
                        "no gain from ratios above 1 + this"),
        PPO__RLHF_NAMED("dual_clip", objective.dual_clip, FLOAT, 0, 1e30, NULL,
                        "above 1: bound for negative advantages; 0: off"),
        PPO__RLHF_NAMED("objective_kl_coef", objective.kl_coef, FLOAT, 0, 1e30, NULL,
                        "weight of KL(old || new) with the objective k3-penalty"),
        PPO__RLHF_FIELD(value_coef, FLOAT, 0, 1e30, NULL, "weight of the value loss"),
        PPO__RLHF_FIELD(value_clip, FLOAT, 0, 1e30, NULL, "clip range of the value loss; 0: off"),
        PPO__RLHF_FIELD(entropy_coef, FLOAT, -1e30, 1e30, NULL, "weight of the entropy bonus"),
        PPO__RLHF_FIELD(entropy_target, FLOAT, 0, 1e30, NULL, "entropy_coef adapts to hold this; 0: off"),
        PPO__RLHF_FIELD(entropy_step, FLOAT, 0, 1e30, NULL, "by which it changes"),
        PPO__RLHF_FIELD(max_grad_norm, FLOAT, 0, 1e30, NULL, "the gradient's norm is clipped to it; 0: off"),
        PPO__RLHF_FIELD(learning_rate, FLOAT, 0, 10, NULL, "Adam's learning rate"),
        PPO__RLHF_FIELD(critic_learning_rate, FLOAT, 0, 10, NULL, "of a critic of its own; 0: the same"),
        PPO__RLHF_FIELD(learning_rate_schedule, CHOICE, 0, 2, "constant|linear|cosine", "how it falls"),
        PPO__RLHF_FIELD(min_learning_rate, FLOAT, 0, 10, NULL, "to which it falls"),
        PPO__RLHF_FIELD(iterations, INT, 0, INT_MAX, NULL, "after which a schedule ends"),
        PPO__ADAM_FIELDS(PPO__RLHF_FIELD),
        PPO__RLHF_FIELD(importance_cap, FLOAT, 0, 1e30, NULL,
                        "samples of another policy count by their ratio, up to this; 0: off"),
        PPO__RLHF_FIELD(importance_floor, FLOAT, 0, 1e30, NULL, "and from this"),
        PPO__RLHF_FIELD(importance_mode, CHOICE, 0, 3,
                        "token-truncate|token-mask|sequence-truncate|sequence-mask",
                        "whose ratio, and what happens outside the range"),
        PPO__RLHF_FIELD(seed, U64, 0, 1.8446744073709552e19, NULL, "of all random numbers"),
    };
    static const ppo_settings settings = {fields, sizeof fields / sizeof *fields};
    return &settings;
}

/* A preset resets every setting that defines the method. */
#define PPO__METHOD                                                                                     \
    "samples=8 objective=clip clip_low=0.2 clip_high=0.2 dual_clip=0 ratio=token aggregation=tokens "   \
    "kl_place=reward kl_estimator=k1 kl_coef=0 kl_target=0 kl_weighted=no overlong_buffer=0 refills=0 " \
    "mask_truncated=no whiten_rewards=no bootstrap_truncated=no whiten_advantages=auto entropy_coef=0 " \
    "entropy_target=0 critic_learning_rate=0 gamma=1 gae_lambda=0.95 value_coef=0.5 value_clip=0.2 "    \
    "overlong_penalty=1 objective_kl_coef=1 "

#define PPO__RLHF_PRESETS(ROW)                                                                              \
    ROW("rloo", "advantage=leave-one-out kl_coef=0.05")                                                     \
    ROW("grpo", "advantage=group aggregation=sequences kl_place=loss kl_estimator=k3 kl_coef=0.04")         \
    ROW("dr-grpo", "advantage=group-mean aggregation=constant")                                             \
    ROW("dapo", "advantage=group clip_high=0.28 refills=3")                                                 \
    ROW("gspo", "advantage=group aggregation=sequences ratio=sequence clip_low=3e-4 clip_high=4e-4")        \
    ROW("cispo", "advantage=group objective=cispo clip_low=1 clip_high=4")                                  \
    ROW("reinforce++", "samples=1 advantage=return kl_coef=0.01")                                           \
    ROW("reinforce++-baseline", "advantage=group-mean whiten_advantages=yes kl_place=loss kl_estimator=k2 " \
                                "kl_coef=0.01")
#define PPO__PRESET_ROW(name, settings)  {name, PPO__METHOD settings},
#define PPO__PRESET_WORD(name, settings) "|" name

static const char *const ppo__rlhf_presets[][2] = {PPO__RLHF_PRESETS(PPO__PRESET_ROW)};

PPO_DEF const char *ppo_rlhf_config_presets(void) { return &(PPO__RLHF_PRESETS(PPO__PRESET_WORD))[1]; }

PPO_DEF ppo_status ppo_rlhf_config_preset(ppo_rlhf_config *config, const char *name) {
    if (!ppo__given("ppo_rlhf_config_preset", config && name)) return PPO_ERROR_ARGUMENT;
    for (size_t i = 0; i < sizeof ppo__rlhf_presets / sizeof *ppo__rlhf_presets; ++i)
        if (!strcmp(name, ppo__rlhf_presets[i][0]))
            return ppo_settings_set_all(ppo_rlhf_settings(), config, ppo__rlhf_presets[i][1]);
    return ppo__refuse("there is no preset \"%.60s\", only %s", name, ppo_rlhf_config_presets());
}

static const ppo__need ppo__rlhf_needs[] = {
    {"whiten_rewards", "advantage", "gae"},
    {"bootstrap_truncated", "advantage", "gae"},
    {"gae_lambda", "advantage", "gae"},
    {"gamma", "advantage", "gae|return"},
    {"value_coef", "advantage", "gae|sequence"},
    {"value_clip", "advantage", "gae|sequence"},
    {"critic_learning_rate", "advantage", "gae|sequence"},
    {"dual_clip", "objective", "clip"},
    {"objective_kl_coef", "objective", "k3-penalty"},
    {"overlong_penalty", "overlong_buffer", NULL},
    {"kl_target", "kl_coef", NULL},
    {"kl_weighted", "kl_place", "loss"},
    {"importance_floor", "importance_cap", NULL},
    {"importance_mode", "importance_cap", NULL},
    {"min_learning_rate", "learning_rate_schedule", "linear|cosine"},
};

static ppo_status ppo__check_rlhf(const ppo_rlhf_config *c, const ppo_lm *policy, const ppo_lm *reference,
                                  const ppo_lm *critic, const ppo_tokens *prompts) {
    double                sequences = (double)c->prompts * c->samples;
    const ppo_rlhf_config usual = ppo_rlhf_config_default();
    ppo_status            status = ppo_settings_check(ppo_rlhf_settings(), c);
    if (!status) status = ppo__check_sampling(&c->sampling, policy->config.vocab);
    for (size_t k = 0; k < sizeof ppo__rlhf_needs / sizeof *ppo__rlhf_needs && !status; ++k)
        status = ppo__check_effect(ppo_rlhf_settings(), c, &usual, &ppo__rlhf_needs[k], NULL);
    if (status) return status;
    if (sequences > (int)PPO__MOST_SAMPLES)
        return ppo__refuse("prompts * samples is %.0f, more than %d", sequences, (int)PPO__MOST_SAMPLES);
    if (c->sampling.greedy) return ppo__refuse("sampling is greedy: there is nothing to learn");
    if (c->iterations < (c->learning_rate_schedule != PPO_CONSTANT))
        return ppo__refuse("iterations is %d: the learning rate's schedule needs their number",
                           c->iterations);
    if (c->objective.objective == PPO_KL_PENALTY)
        return ppo__refuse("objective is kl-penalty: tokens have clip, unclipped, k3-penalty and cispo");
    if (ppo__check_objective("objective", &c->objective)) return PPO_ERROR_ARGUMENT;
    if (c->objective.dual_clip > 0 && c->objective.dual_clip <= 1)
        return ppo__refuse("dual_clip is %g: must be above 1, or 0 for none", (double)c->objective.dual_clip);
    if (c->critic_learning_rate > 0 && critic == policy)
        return ppo__refuse("critic_learning_rate is %g, but has no effect: the critic is the policy",
                           (double)c->critic_learning_rate);
    if (reference && c->reference_every)
        return ppo__refuse("reference_every is %d, but has no effect: the reference is the caller's",
                           c->reference_every);
    if (c->missing_eos_penalty != 0 && c->sampling.eos < 0)
        return ppo__refuse("missing_eos_penalty is %g, but eos is -1: every sample would pay it",
                           (double)c->missing_eos_penalty);
    if (ppo__advantage_needs[c->advantage].group && c->samples < 2)
        return ppo__refuse("samples is %d: the advantage compares 2 or more of a prompt", c->samples);
    if (c->kl_place == PPO_KL_IN_LOSS && c->kl_estimator == PPO_K1 && c->kl_coef > 0 && !c->kl_weighted)
        return ppo__refuse(
            "the gradient of k1 is 0 in expectation: in the loss, kl_estimator must be PPO_K2, "
            "PPO_K3 or PPO_KL_EXACT, or kl_weighted 1");
    if (c->kl_place == PPO_KL_IN_REWARD && c->kl_estimator != PPO_K1 && c->kl_coef > 0)
        return ppo__refuse(
            "in the reward only k1 has the gradient of the KL: for another kl_estimator, kl_place "
            "must be PPO_KL_IN_LOSS");
    if (c->kl_weighted && (c->kl_estimator == PPO_K2 || c->kl_estimator == PPO_KL_EXACT))
        return ppo__refuse("kl_weighted is yes, but is for k1 and k3");
    if (c->importance_cap > 0 && c->importance_floor > c->importance_cap)
        return ppo__refuse("importance_floor is %g, above importance_cap, which is %g",
                           (double)c->importance_floor, (double)c->importance_cap);
    if (c->aggregation != PPO_AGGREGATE_TOKENS && c->objective.objective == PPO_K3_PENALTY)
        return ppo__refuse(
            "objective is k3-penalty, whose KL is a mean over tokens: aggregation must be tokens");
    if (c->aggregation == PPO_AGGREGATE_CONSTANT && !c->sampling.max_new)
        return ppo__refuse("aggregation is constant, which divides by max_new: max_new is 0");
    if (c->mask_truncated && c->sampling.eos < 0)
        return ppo__refuse("mask_truncated is yes, but eos is -1: no sequence would be learned");
    if (c->refills && c->samples < 2)
        return ppo__refuse("refills is %d, but a prompt has one sample: no rewards to compare", c->refills);
    if (c->kl_target > 0 && c->kl_horizon < sequences)
        return ppo__refuse("kl_horizon is %d, less than the %.0f sequences of an iteration", c->kl_horizon,
                           sequences);
    status = ppo__check_sequences(policy, prompts, 1);
    if (!status) status = ppo__check_peer(policy, reference, "reference");
    if (!status) status = ppo__check_peer(policy, critic, "critic");
    if (status) return status;
    if (reference && (reference == policy || reference == critic))
        return ppo__refuse("the reference is the %s, which is trained; NULL makes a copy",
                           reference == policy ? "policy" : "critic");
    if (ppo__advantage_needs[c->advantage].critic && critic && !critic->score_weight)
        return ppo__refuse("the critic has no score to give values");
    return PPO_OK;
}

/* One number per row in each array. */
typedef struct ppo__response_rows {
    float *old_logp, *ref_logp; /* of the policy before the epochs, and of the reference */
    float *entropy;
    float *reward, *value, *next_value, *advantage, *value_target;
    float *share, *weight; /* 1 / tokens of the sequence; of a micro-batch: by the aggregation */
    float *log_ratio;      /* to the policy that sampled */
    float *ref_logits;     /* (rows, vocab), for an exact KL in the loss; else NULL */
} ppo__response_rows;

typedef struct ppo__rlhf_stats {         /* of a micro-batch */
    ppo_policy_stats policy, sequence;   /* with the ratios of tokens; of sequences, if the loss has these */
    float            value_loss, weight; /* weight: its rows */
    int              first;              /* 1: of the iteration's first minibatch */
} ppo__rlhf_stats;

struct ppo_rlhf {
    ppo_rlhf_config    config;
    ppo_lm            *policy, *critic; /* critic: the model that gives values, or NULL; may be the policy */
    const ppo_lm      *reference;
    ppo_lm            *own_reference, *own_critic; /* NULL: the caller's are used */
    ppo_reward_fn      reward;
    void              *user;
    ppo_tokens         prompts, asked; /* all of them, and those of this iteration */
    int               *prompt_order;   /* [prompts], of the present pass over them */
    int64_t            next_prompt;    /* how many prompts were sampled from */
    ppo_samples        kept_samples;   /* with refills: what is kept of several rounds, */
    float             *drawn_score;    /* [sequences] and the scores of one; else NULL */
    ppo_generator     *generator;
    ppo__learner       learner;
    ppo__arena         memory, numbers; /* numbers: where the tape computes */
    int                sequences;       /* of an iteration */
    int                longest;         /* tokens of the longest sequence that there is room for */
    float             *score;           /* [sequences], as the reward function gave them */
    float             *total, *earned;  /* [sequences], sums of the tokens' rewards; and without the KL */
    unsigned char     *learns;          /* [sequences] 1: the epochs train on it */
    int               *order, trained;  /* [sequences]; how many the epochs train on */
    int               *first_row;       /* [sequences + 1], of each sequence in rows */
    ppo__response_rows rows;            /* [sequences * longest] */
    ppo__response_rows batch_rows;      /* those of the micro-batch */
    float             *end_value;       /* [sequences] the value after each */
    ppo__rlhf_stats   *stats;           /* of each micro-batch of an iteration, */
    int                micros, first;   /* their number until now; 1: in the first minibatch */
    int64_t            iteration, samples, tokens;
    double             started;
    float              kl_coef, entropy_coef, entropy_used; /* used: 0 above entropy_target */
    float              per_token;                           /* of the minibatch: ppo__rlhf_per_token() */
    double             reward_mean[2], reward_var[2]; /* of all rewards: before this iteration, and with it */
    float              rate_factor; /* of the learning rate, at most 1: see ppo__rlhf_learn() */
    float             *kept;        /* the policy's parameters before the epochs; NULL: no target_kl */
    float              variety, first_variety; /* share of different samples: now, in the first iteration */
    ppo_rlhf_progress  initial;                /* of the first iteration, for warnings */
};

/* -- checks and figures of an iteration -- */

static ppo_status ppo__check_samples(const ppo_rlhf *r, const ppo_samples *samples, const float *reward) {
    const ppo_tokens *tokens = &samples->tokens;
    if (tokens->count != r->sequences)
        return ppo__refuse("%d samples, must be %d prompts x %d", tokens->count, r->config.prompts,
                           r->config.samples);
    if (!tokens->prompt || !samples->ended)
        return ppo__refuse("the samples' %s is NULL", tokens->prompt ? "ended" : "prompt");
    if (r->config.importance_cap > 0 && !samples->logp)
        return ppo__refuse("importance_cap needs the samples' logp, which is NULL");
    ppo_status status = ppo__check_sequences(r->policy, tokens, 0);
    for (int s = 0; s < tokens->count && !status; ++s) {
        int start = tokens->start[s], end = tokens->start[s + 1], n = ppo__response_length(tokens, s);
        if (!n) return ppo__refuse("sample %d has no token after its prompt", s);
        if (end - start > r->longest)
            return ppo__refuse("sample %d has %d tokens, the prompts and max_new allow %d", s, end - start,
                               r->longest);
        if (!(reward[s] >= -1e15f && reward[s] <= 1e15f)) /* beyond, squares overflow */
            return ppo_fail(PPO_ERROR_NUMERIC, "the reward of sample %d is %g, must be within +-1e15", s,
                            (double)reward[s]);
        for (int i = ppo__response_token(tokens, s, 0); samples->logp && i < end; ++i)
            if (!ppo__finite(samples->logp[i]))
                return ppo_fail(PPO_ERROR_NUMERIC, "a log-probability is %g (sample %d, position %d)",
                                (double)samples->logp[i], s, i - start);
    }
    return status;
}

/* The share of samples that equal no earlier one of their group. */
static float ppo__distinct(const ppo_tokens *tokens, int group) {
    int distinct = 0;
    for (int s = 0; s < tokens->count; ++s) {
        const int *token = tokens->token + tokens->start[s], n = tokens->start[s + 1] - tokens->start[s];
        int        t = s / group * group;
        while (t < s && (tokens->start[t + 1] - tokens->start[t] != n ||
                         memcmp(token, tokens->token + tokens->start[t], n * sizeof(int))))
            ++t;
        distinct += t == s;
    }
    return (float)distinct / (float)tokens->count;
}

/* The coefficient of the entropy, after samples of this entropy. */
static float ppo__rlhf_entropy_coef(const ppo_rlhf *r, float entropy) {
    const ppo_rlhf_config *c = &r->config;
    if (!(c->entropy_target > 0)) return c->entropy_coef;
    float step = entropy <= c->entropy_target ? c->entropy_step : -c->entropy_step;
    return ppo__clamp(r->entropy_coef + step, 0, 1);
}

/* Figures of the samples, before the epochs. */
static void ppo__rlhf_describe(ppo_rlhf *r, const ppo_samples *samples, const float *reward,
                               ppo_rlhf_progress *p) {
    int    count = samples->tokens.count, rows = r->first_row[count], ended = 0;
    double sum = 0, squares = 0, k1 = 0, k3 = 0, entropy = 0;
    for (int s = 0; s < count; ++s) sum += reward[s], ended += samples->ended[s];
    for (int s = 0; s < count; ++s) squares += (reward[s] - sum / count) * (reward[s] - sum / count);
    for (int i = 0; i < rows; ++i) {
        double l = (double)r->rows.ref_logp[i] - r->rows.old_logp[i];
        k1 -= l;
        k3 += expm1(l) - l;
        entropy += r->rows.entropy[i];
    }
    p->reward = (float)(sum / count);
    p->reward_std = (float)sqrt(squares / count);
    p->kl = (float)(k1 / count);
    p->kl_k3 = (float)(k3 / count);
    p->kl_coef = r->kl_coef;
    p->entropy = (float)(entropy / rows);
    r->entropy_used = p->entropy_coef = r->config.entropy_target > 0 && p->entropy > r->config.entropy_target
                                            ? 0
                                            : ppo__rlhf_entropy_coef(r, p->entropy);
    p->mean_length = (float)rows / (float)count;
    p->ended = (float)ended / (float)count;
    p->distinct = ppo__distinct(&samples->tokens, count);
    r->variety = r->config.samples > 1 ? ppo__distinct(&samples->tokens, r->config.samples) : p->distinct;
    p->explained_variance =
        r->critic ? ppo_explained_variance(r->rows.value, r->rows.value_target, rows) : NAN;
    p->samples = r->samples + count;
    p->tokens = r->tokens + rows;
}

/* Means over the rows of all micro-batches of the epochs; and the ratios of the first minibatch. */
static void ppo__rlhf_sum_up(const ppo_rlhf *r, ppo_rlhf_progress *p) {
    double total = 0;
    p->first_ratio_min = INFINITY;
    p->first_ratio_max = -INFINITY;
    for (const ppo__rlhf_stats *stats = r->stats; stats < r->stats + r->micros; ++stats) {
        const ppo_policy_stats *token = &stats->policy, *s = token;
        if (r->config.ratio == PPO_RATIO_SEQUENCE) s = &stats->sequence;
        const float  values[] = {s->loss, stats->value_loss, token->approx_kl, token->old_approx_kl,
                                 s->clip_fraction};
        float *const means[] = {&p->policy_loss, &p->value_loss, &p->approx_kl, &p->old_approx_kl,
                                &p->clip_fraction};
        total += stats->weight;
        for (size_t i = 0; i < sizeof means / sizeof *means; ++i)
            *means[i] += (float)((values[i] - *means[i]) * stats->weight / total);
        if (!stats->first) continue;
        p->first_ratio_min = ppo__min(p->first_ratio_min, s->ratio_min);
        p->first_ratio_max = ppo__max(p->first_ratio_max, s->ratio_max);
    }
    if (!r->micros) p->first_ratio_min = p->first_ratio_max = 1;
}

/* The usual ways in which a policy collapses, the most obvious first. Fewer different samples and less
   entropy are none where the reward rose by two standard errors: the policy repeats what is right. */
static void ppo__rlhf_warn(ppo_rlhf *r, ppo_rlhf_progress *p) {
    const ppo_rlhf_progress *first = &r->initial;
    char                    *text = p->warning;
    size_t                   size = sizeof p->warning;
    if (r->iteration == 1) r->initial = *p, r->first_variety = r->variety;
    double length = p->mean_length, first_length = first->mean_length;
    int    pays = p->reward > first->reward + 2 * first->reward_std / sqrtf((float)r->sequences);
    if (r->config.mask_truncated && !r->trained)
        snprintf(text, size, "no sample ended, and mask_truncated is yes: nothing was learned");
    else if (r->config.refills && p->refilled == r->config.prompts * r->config.refills)
        snprintf(text, size, "the samples of every prompt earned the same: nothing was learned");
    else if (!pays && r->variety < 0.5f * r->first_variety)
        snprintf(text, size, "only %.0f %% of the samples %sdiffer, first %.0f %%: the policy repeats itself",
                 100 * (double)r->variety, r->config.samples > 1 ? "of a prompt " : "",
                 100 * (double)r->first_variety);
    else if (p->kl > length)
        snprintf(text, size, "the KL to the reference is %.3g, more than 1 per token: it runs away",
                 (double)p->kl);
    else if (!pays && p->entropy < 0.1f * first->entropy)
        snprintf(text, size, "the entropy fell to %.2g, less than a tenth of the first %.2g",
                 (double)p->entropy, (double)first->entropy);
    else if (length > 2 * first_length || length < 0.5 * first_length)
        snprintf(text, size, "samples have %.1f tokens, in the first iteration %.1f: length drifts", length,
                 first_length);
}

/* Ends an iteration: counters, warnings, the coefficient of the KL, the reference. */
static ppo_status ppo__rlhf_finish(ppo_rlhf *r, ppo_rlhf_progress *p) {
    const ppo_rlhf_config *c = &r->config;
    p->iteration = ++r->iteration;
    r->next_prompt += c->prompts + p->refilled;
    r->samples = p->samples;
    r->tokens = p->tokens;
    r->reward_mean[0] = r->reward_mean[1];
    r->reward_var[0] = r->reward_var[1];
    p->seconds = ppo_clock() - r->started;
    p->tokens_per_second = p->seconds > 0 ? (double)r->tokens / p->seconds : 0;
    ppo__rlhf_warn(r, p);
    if (c->kl_target > 0)
        r->kl_coef = ppo_adaptive_kl(r->kl_coef, p->kl, c->kl_target, r->sequences, c->kl_horizon);
    r->entropy_coef = ppo__rlhf_entropy_coef(r, p->entropy);
    if (!c->reference_every || !r->own_reference || r->iteration % c->reference_every) return PPO_OK;
    ppo_params *reference = r->own_reference->params, *policy = r->policy->params;
    ppo_status  status = ppo_params_sync(reference);
    if (!status) status = ppo__params_fetch(policy);
    if (!status) memcpy(reference->data, policy->data, reference->count * sizeof(float));
    return status;
}

/* -- an iteration, step by step -- */

/* Chooses n prompts, each as often as it is sampled: one pass over all of them after another, every pass in an
   order of its own. *next counts them. */
static ppo_status ppo__rlhf_choose(ppo_rlhf *r, int n, int64_t *next) {
    const int  count = r->prompts.count;
    ppo_status status = PPO_OK;
    ppo_tokens_clear(&r->asked);
    for (int i = 0; i < n && !status; ++i, ++*next) {
        if (i == 0 || *next % count == 0) {
            ppo_rng rng = ppo_rng_stream(r->config.seed, PPO_STREAM_SHUFFLE, 2 * (uint32_t)(*next / count));
            for (int s = 0; s < count; ++s) r->prompt_order[s] = s;
            ppo_rng_shuffle(&rng, r->prompt_order, count);
        }
        status = ppo__add_prompt(&r->asked, &r->prompts, r->prompt_order[*next % count], r->config.samples);
    }
    return status;
}

/* Samples of n prompts, and their rewards. */
static ppo_status ppo__rlhf_sample(ppo_rlhf *r, int n, ppo_rng *rng, int64_t *next, ppo_samples *samples,
                                   float *score) {
    ppo_sampling how = r->config.sampling;
    how.seed = (uint64_t)ppo_rng_u32(rng) << 32;
    how.seed |= ppo_rng_u32(rng);
    ppo_status status = ppo__rlhf_choose(r, n, next);
    if (!status) status = ppo_generate(r->generator, &r->asked, &how, samples);
    return status ? status : ppo__ask_reward(r->reward, r->user, samples, score);
}

/* The samples of further prompts in place of those whose rewards are all the same (DAPO's dynamic sampling, Yu
   2025), up to `refills` times. Then groups stay as they are: their advantages are 0. */
static ppo_status ppo__rlhf_refill(ppo_rlhf *r, ppo_rng *rng, int64_t *next, ppo_samples *samples) {
    const int    k = r->config.samples;
    ppo_samples *kept = &r->kept_samples;
    ppo_tokens  *to = &kept->tokens;
    ppo_status   status = PPO_OK;
    ppo_tokens_clear(to);
    for (int round = 0; !status; ++round) {
        for (int first = 0; first < samples->tokens.count && !status; first += k) {
            const float *score = r->drawn_score + first;
            int          same = 1;
            for (int i = 1; i < k; ++i) same &= score[i] == score[0];
            for (int i = 0; i < k && (!same || round == r->config.refills) && !status; ++i) {
                int s = first + i, at = samples->tokens.start[s], n = samples->tokens.start[s + 1] - at;
                r->score[to->count] = score[i];
                kept->ended[to->count] = samples->ended[s];
                status = ppo_tokens_add_from(to, &samples->tokens, s);
                if (!status)
                    memcpy(kept->logp + to->start[to->count - 1], samples->logp + at, n * sizeof(float));
            }
        }
        int missing = r->config.prompts - to->count / k;
        if (status || !missing) break;
        status = ppo__rlhf_sample(r, missing, rng, next, samples, r->drawn_score);
    }
    *samples = *kept;
    return status;
}

/* The outputs of the policy for the micro-batch, and of the critic, which may be the same model. */
static ppo_response ppo__rlhf_forward(ppo_rlhf *r) {
    ppo_tape         *tape = r->learner.tape;
    const ppo_tokens *batch = &r->learner.batch[0];
    ppo_lm           *critic = r->critic;
    int               want = critic == r->policy ? PPO_POLICY | PPO_VALUE : PPO_POLICY;
    ppo_response      out = ppo_lm_response(tape, r->policy, batch, r->config.sampling.temperature, want);
    if (critic && critic != r->policy) out.value = ppo_lm_response(tape, critic, batch, 1, PPO_VALUE).value;
    return out;
}

/* What the policy before the epochs, the reference and the critic compute for the micro-batch from s on. */
static ppo_status ppo__rlhf_judge_batch(ppo_rlhf *r, int s) {
    const ppo_rlhf_config    *c = &r->config;
    const ppo__response_rows *rows = &r->rows;
    const ppo_tokens         *batch = &r->learner.batch[0];
    ppo_tape                 *tape = r->learner.tape;
    int                       vocab = r->policy->config.vocab, row = r->first_row[s];
    float                     temperature = c->sampling.temperature;
    ppo_tape_reset(tape);
    ppo_response out = ppo__rlhf_forward(r);
    ppo_response ref = ppo_lm_response(tape, r->reference, batch, temperature, PPO_POLICY);
    ppo_tensor  *end = NULL;
    if (c->bootstrap_truncated && out.value) end = ppo_lm_sequence_score(tape, r->critic, batch);
    if (ppo_tape_status(tape)) return ppo__tape_settle(tape);
    size_t n = (size_t)out.logp->rows;
    ppo__tape_read(tape, out.logp->data, n, rows->old_logp + row);
    ppo__tape_read(tape, ref.logp->data, n, rows->ref_logp + row);
    ppo__tape_read(tape, out.entropy->data, n, rows->entropy + row);
    if (out.value) ppo__tape_read(tape, out.value->data, n, rows->value + row);
    if (end) ppo__tape_read(tape, end->data, (size_t)end->rows, r->end_value + s);
    if (rows->ref_logits)
        ppo__tape_copy(tape, ref.logits->data, n * (size_t)vocab, rows->ref_logits + ppo__at(row, vocab));
    return ppo__tape_settle(tape);
}

/* The order of the sequences, and where their rows begin. */
static void ppo__rlhf_index(ppo_rlhf *r, const ppo_tokens *tokens) {
    for (int s = 0; s < tokens->count; ++s) {
        r->order[s] = s;
        r->first_row[s + 1] = r->first_row[s] + ppo__response_length(tokens, s);
    }
}

/* next_value is the value of the next row; after the last one 0 or, for a truncated sequence that is to be
   bootstrapped, the value of the whole sequence. So ppo_gae() need not know how a sequence ended. */
static void ppo__rlhf_next_values(ppo_rlhf *r, const ppo_samples *samples) {
    for (int s = 0; s < samples->tokens.count && r->critic; ++s) {
        int    row = r->first_row[s], last = r->first_row[s + 1] - 1;
        float *next_value = r->rows.next_value;
        memcpy(next_value + row, r->rows.value + row + 1, (size_t)(last - row) * sizeof(float));
        next_value[last] = r->config.bootstrap_truncated && !samples->ended[s] ? r->end_value[s] : 0;
    }
}

static ppo_status ppo__rlhf_judge(ppo_rlhf *r, const ppo_samples *samples) {
    int        count = samples->tokens.count, micro = r->learner.micro_batch;
    ppo_status status = PPO_OK;
    r->learner.data[0] = &samples->tokens;
    ppo__rlhf_index(r, &samples->tokens);
    ppo_tape_record(r->learner.tape, 0);
    for (int s = 0; s < count && !status; s += micro) {
        status = ppo__gather_items(&r->learner, r->order + s, count - s);
        if (!status) status = ppo__rlhf_judge_batch(r, s);
    }
    ppo_tape_record(r->learner.tape, 1);
    if (!status) ppo__rlhf_next_values(r, samples);
    return status;
}

/* Mean and variance of all rewards until now, those of this iteration included. */
static void ppo__rlhf_reward_moments(ppo_rlhf *r, const float *score, int count) {
    double mean = 0, var = 0;
    for (int s = 0; s < count; ++s) mean += score[s] / (double)count;
    for (int s = 0; s < count; ++s) var += (score[s] - mean) * (score[s] - mean) / count;
    r->reward_mean[1] = r->reward_mean[0];
    r->reward_var[1] = r->reward_var[0];
    ppo__merge_moments(&r->reward_mean[1], &r->reward_var[1], (double)r->samples, mean, var, count);
}

/* How many tokens may be sampled after a prompt of n. */
static int ppo__most_new(const ppo_rlhf *r, int n) {
    int max_new = r->config.sampling.max_new, room = r->policy->config.context - n;
    return max_new && max_new < room ? max_new : room;
}

/* What the last tokens before the limit cost: DAPO's soft punishment of overlong samples (Yu 2025, eq. 13). */
static float ppo__overlong_cost(const ppo_rlhf *r, const ppo_samples *samples, int s) {
    const ppo_tokens *tokens = &samples->tokens;
    int               prompt = tokens->prompt[s], n = tokens->start[s + 1] - tokens->start[s] - prompt;
    int               buffer = r->config.overlong_buffer, over = n - (ppo__most_new(r, prompt) - buffer);
    return buffer > 0 && over > 0 ? r->config.overlong_penalty * (float)over / (float)buffer : 0;
}

/* The reward of each token: its KL and the length penalty; at the last one, also the score. */
static ppo_status ppo__rlhf_rewards(ppo_rlhf *r, const ppo_samples *samples, const float *score) {
    const ppo_rlhf_config    *c = &r->config;
    const ppo__response_rows *rows = &r->rows;
    int                       count = samples->tokens.count;
    ppo__rlhf_reward_moments(r, score, count);
    const float  kl_coef = c->kl_place == PPO_KL_IN_REWARD ? r->kl_coef : 0;
    const double mean = c->normalize_rewards ? r->reward_mean[1] : 0;
    const double std = c->normalize_rewards && r->reward_var[1] > 0 ? sqrt(r->reward_var[1]) : 1;
    for (int s = 0; s < count; ++s) {
        float  last = (float)((score[s] - mean) / std);
        double total = 0;
        if (c->reward_clip > 0) last = ppo__clamp(last, -c->reward_clip, c->reward_clip);
        if (!samples->ended[s]) last -= c->missing_eos_penalty;
        last -= ppo__overlong_cost(r, samples, s);
        int length = r->first_row[s + 1] - r->first_row[s];
        for (int row = r->first_row[s]; row < r->first_row[s + 1]; ++row) {
            float kl = kl_coef > 0 ? kl_coef * (rows->old_logp[row] - rows->ref_logp[row]) : 0; /* k1 */
            rows->reward[row] = (row + 1 == r->first_row[s + 1] ? last : 0) - kl - c->length_penalty;
            rows->share[row] = 1 / (float)length;
            total += rows->reward[row];
        }
        r->total[s] = (float)total;
        r->earned[s] = last - (float)length * c->length_penalty;
    }
    return c->whiten_rewards ? ppo_whiten(rows->reward, NULL, r->first_row[count], 0) : PPO_OK;
}

/* The advantage that all tokens of sequence s share. total, earned [k]: R and S of the samples of its prompt.
   In a group that earned the same, std is 0: the KL, which always differs, must not be divided by it. */
static float ppo__sequence_advantage(const ppo_rlhf *r, int s) {
    const int    k = r->config.samples, others = k > 1 ? k - 1 : 1;
    const float *total = r->total + s / k * k, *earned = r->earned + s / k * k;
    const float  reward = r->total[s], score = r->earned[s], value = r->rows.value[r->first_row[s]];
    double       sum = 0, sum_earned = 0, squares = 0;
    for (int i = 0; i < k; ++i) sum += total[i], sum_earned += earned[i];
    double mean_score = sum_earned / k;
    for (int i = 0; i < k; ++i) squares += (earned[i] - mean_score) * (earned[i] - mean_score);
    double      std = sqrt(squares / others), kl = reward - score - (sum - sum_earned) / k;
    const float advantages[] = {PPO__ADVANTAGES(PPO__ADVANTAGE_FORMULA)};
    return advantages[r->config.advantage];
}

static ppo_status ppo__rlhf_advantages(ppo_rlhf *r, const ppo_samples *samples) {
    const ppo_rlhf_config    *c = &r->config;
    const ppo__response_rows *rows = &r->rows;
    int                       count = samples->tokens.count;
    ppo_status                status = PPO_OK;
    for (int s = 0; s < count && !status; ++s) {
        int row = r->first_row[s], end = r->first_row[s + 1];
        if (c->advantage == PPO_ADVANTAGE_GAE || c->advantage == PPO_ADVANTAGE_RETURN) {
            /* without a critic all values are 0: then lambda 1 gives the return */
            float lambda = c->advantage == PPO_ADVANTAGE_GAE ? c->gae_lambda : 1;
            status = ppo_gae(rows->reward + row, rows->value + row, rows->next_value + row, NULL, NULL,
                             end - row, 1, c->gamma, lambda, rows->advantage + row, rows->value_target + row);
        } else {
            float advantage = ppo__sequence_advantage(r, s);
            for (; row < end; ++row) {
                rows->advantage[row] = advantage;
                rows->value_target[row] = r->total[s];
            }
        }
    }
    int whiten = c->whiten_advantages < 0 ? ppo__advantage_needs[c->advantage].whiten : c->whiten_advantages;
    return status || !whiten ? status : ppo_whiten(rows->advantage, NULL, r->first_row[count], 1);
}

/* The ratio of the loss is to what sampling computed, whose bits are those of training. For samples of
   another policy: importance sampling. The advantages are multiplied by the ratio of the probabilities, within
   a range (Espeholt 2018), and the ratio of the loss is to this policy. */
static ppo_status ppo__rlhf_importance(ppo_rlhf *r, const ppo_samples *samples) {
    const float cap = r->config.importance_cap, low = r->config.importance_floor;
    const int   mode = r->config.importance_mode;
    const int   mask = mode == PPO_TOKEN_MASK || mode == PPO_SEQUENCE_MASK;
    double      distance = 0; /* k3 from the policy that sampled to this one */
    for (int s = 0; s < samples->tokens.count && samples->logp; ++s) {
        int    row = r->first_row[s], n = r->first_row[s + 1] - row;
        float *old = r->rows.old_logp + row, *advantage = r->rows.advantage + row;
        float *log_ratio = r->rows.log_ratio + row;
        double sum = 0;
        for (int i = 0, at = 0; i < n; ++i, ++at) {
            at = ppo__response_token(&samples->tokens, s, at);
            log_ratio[i] = old[i] - samples->logp[at];
            sum += log_ratio[i];
            distance += (double)ppo__k3(log_ratio[i]) / r->first_row[samples->tokens.count];
            if (!(cap > 0)) old[i] = samples->logp[at];
        }
        for (int i = 0; i < n && cap > 0; ++i) {
            float ratio = expf(mode >= PPO_SEQUENCE_TRUNCATE ? (float)sum : log_ratio[i]);
            float within = ppo__clamp(ratio, low, cap);
            advantage[i] *= mask && within != ratio ? 0 : within;
        }
    }
    if (cap > 0 || !(r->config.target_kl > 0) || distance <= 1.5 * (double)r->config.target_kl) return PPO_OK;
    return ppo__refuse("another policy sampled this (KL per token %.3g, target_kl is %g): set importance_cap",
                       distance, (double)r->config.target_kl);
}

/* Copies the rows of the micro-batch's sequences; returns how many there are. */
static int ppo__rlhf_gather_rows(ppo_rlhf *r, const int *item) {
    const ppo__response_rows *from = &r->rows, *to = &r->batch_rows;
    const size_t              vocab = (size_t)r->policy->config.vocab;
    size_t                    at = 0;
    for (int i = 0; i < r->learner.batch[0].count; ++i) {
        size_t row = (size_t)r->first_row[item[i]], n = (size_t)r->first_row[item[i] + 1] - row;
        memcpy(to->old_logp + at, from->old_logp + row, n * sizeof(float));
        memcpy(to->ref_logp + at, from->ref_logp + row, n * sizeof(float));
        memcpy(to->value + at, from->value + row, n * sizeof(float));
        memcpy(to->advantage + at, from->advantage + row, n * sizeof(float));
        memcpy(to->value_target + at, from->value_target + row, n * sizeof(float));
        memcpy(to->share + at, from->share + row, n * sizeof(float));
        for (size_t k = at; k < at + n && r->config.aggregation != PPO_AGGREGATE_TOKENS; ++k) {
            to->weight[k] =
                r->per_token * (r->config.aggregation == PPO_AGGREGATE_SEQUENCES ? to->share[k] : 1);
            to->advantage[k] *= to->weight[k];
        }
        if (to->ref_logits)
            ppo__tape_copy(r->learner.tape, from->ref_logits + row * vocab, n * vocab,
                           to->ref_logits + at * vocab);
        at += n;
    }
    return (int)at;
}

/* log pi - log old, a column of the micro-batch. */
static ppo_tensor *ppo__tape_log_ratio(ppo_tape *tape, ppo_tensor *logp, const float *old_logp) {
    ppo_tensor *old = logp ? ppo_tape_constant(tape, old_logp, logp->rows, 1) : NULL;
    return ppo_tape_add(tape, logp, ppo_tape_scale(tape, old, -1, 0));
}

/* Log-probabilities whose ratio to the old ones is the geometric mean over each sequence, and whose gradient is
   that of each token's own (Zheng 2025, GSPO-token): log pi + mean - the own log-ratio, held constant. */
static ppo_tensor *ppo__sequence_ratio(ppo_tape *tape, ppo_tensor *logp, const ppo_tokens *batch,
                                       const ppo__response_rows *rows) {
    int        *sequence = logp ? (int *)ppo__tape_take(tape, (size_t)logp->rows, sizeof *sequence) : NULL;
    ppo_tensor *own, *mean;
    if (!sequence) return NULL;
    for (int s = 0, row = 0; s < batch->count; ++s)
        for (int n = ppo__response_length(batch, s); n > 0; --n) sequence[row++] = s;
    own = ppo__tape_log_ratio(tape, ppo_tape_detach(tape, logp), rows->old_logp);
    mean = ppo_tape_mul(tape, own, ppo_tape_constant(tape, rows->share, logp->rows, 1));
    mean = ppo_tape_embedding(tape, ppo_tape_sequence_sum(tape, mean, batch), sequence, logp->rows);
    return ppo_tape_add(tape, logp, ppo_tape_add(tape, mean, ppo_tape_scale(tape, own, -1, 0)));
}

/* KL(policy || reference) of each token, (n, 1), whose mean is a term of the loss. */
static ppo_tensor *ppo__kl_loss(const ppo_rlhf_config *c, ppo_tape *tape, const ppo_response *out,
                                const ppo__response_rows *rows) {
    ppo_tensor *kl, *d; /* d: log ref - log pi */
    if (c->kl_estimator == PPO_KL_EXACT)
        return ppo_tape_categorical_kl_to(tape, out->logits, rows->ref_logits, c->sampling.temperature);
    d = ppo_tape_scale(tape, out->logp, -1, 0);
    if (d) d = ppo_tape_add(tape, d, ppo_tape_constant(tape, rows->ref_logp, d->rows, 1));
    if (c->kl_estimator == PPO_K2) return ppo_tape_scale(tape, ppo_tape_square(tape, d), 0.5f, 0);
    kl = ppo_tape_scale(tape, d, -1, 0);
    if (c->kl_estimator == PPO_K3)
        kl = ppo_tape_scale(tape, ppo_tape_add(tape, ppo_tape_exp(tape, d), kl), 1, -1);
    if (!c->kl_weighted) return kl;
    return ppo_tape_mul(tape, kl, ppo_tape_exp(tape, ppo__tape_log_ratio(tape, out->logp, rows->old_logp)));
}

/* L = policy + value_coef value - entropy_coef entropy + kl_coef KL: means over the rows of a micro-batch, of
   the policy and the KL by the weights of the aggregation, with which the advantages are multiplied. */
static ppo_tensor *ppo__token_loss(const ppo_rlhf_config *c, ppo_tape *tape, const ppo_response *out,
                                   const ppo_tokens *batch, const ppo__response_rows *rows, float kl_coef,
                                   float entropy_coef, ppo__rlhf_stats *stats) {
    ppo_tensor *logp = out->logp, *loss, *kl;
    loss = ppo_tape_policy_loss(tape, logp, rows->old_logp, rows->advantage, NULL, &c->objective,
                                &stats->policy);
    if (c->ratio == PPO_RATIO_SEQUENCE) {
        logp = ppo__sequence_ratio(tape, logp, batch, rows);
        loss = ppo_tape_policy_loss(tape, logp, rows->old_logp, rows->advantage, NULL, &c->objective,
                                    &stats->sequence);
    }
    if (out->value) {
        ppo_tensor *value =
            ppo_tape_value_loss(tape, out->value, rows->value, rows->value_target, NULL, c->value_clip);
        if (value) ppo__tape_read(tape, value->data, 1, &stats->value_loss);
        loss = ppo_tape_add(tape, loss, ppo_tape_scale(tape, value, c->value_coef, 0));
    }
    if (entropy_coef != 0)
        loss = ppo_tape_add(tape, loss,
                            ppo_tape_scale(tape, ppo_tape_mean(tape, out->entropy), -entropy_coef, 0));
    if (c->kl_place != PPO_KL_IN_LOSS || !(kl_coef > 0)) return loss;
    kl = ppo__kl_loss(c, tape, out, rows);
    if (kl && c->aggregation != PPO_AGGREGATE_TOKENS)
        kl = ppo_tape_mul(tape, kl, ppo_tape_constant(tape, rows->weight, kl->rows, 1));
    return ppo_tape_add(tape, loss, ppo_tape_scale(tape, ppo_tape_mean(tape, kl), kl_coef, 0));
}

static ppo_tensor *ppo__rlhf_loss(void *user, const int *item, float *weight) {
    ppo_rlhf        *r = (ppo_rlhf *)user;
    ppo__rlhf_stats *stats = &r->stats[r->micros++];
    memset(stats, 0, sizeof *stats);
    stats->first = r->first;
    stats->weight = *weight = (float)ppo__rlhf_gather_rows(r, item);
    ppo_response out = ppo__rlhf_forward(r);
    return ppo__token_loss(&r->config, r->learner.tape, &out, &r->learner.batch[0], &r->batch_rows,
                           r->kl_coef, r->entropy_used, stats);
}

/* A learning rate by the iterations that are done. */
static float ppo__rlhf_rate(const ppo_rlhf *r, float initial) {
    const ppo_rlhf_config *c = &r->config;
    double                 done = r->iteration < c->iterations ? (double)r->iteration / c->iterations : 1;
    float                  least = ppo__min(c->min_learning_rate, initial);
    return least + ppo_schedule(c->learning_rate_schedule, initial - least, (float)done);
}

/* What turns the mean over the tokens of n sequences into their sum, divided by n and by 1 or the constant. */
static float ppo__rlhf_per_token(const ppo_rlhf *r, const int *item, int n) {
    float rows = 0;
    for (int i = 0; i < n; ++i) rows += (float)(r->first_row[item[i] + 1] - r->first_row[item[i]]);
    return rows /
           ((float)n * (r->config.aggregation == PPO_AGGREGATE_CONSTANT ? (float)ppo__most_new(r, 1) : 1));
}

/* A gradient step on n sequences: the mean over all their tokens, weighted by the aggregation. Where earlier steps of the iteration took the
   policy beyond 1.5 target_kl, it takes none, and *kl is the distance; otherwise 0. */
static ppo_status ppo__rlhf_minibatch(ppo_rlhf *r, const int *item, int n, ppo_rlhf_progress *p, double *kl) {
    const ppo_rlhf_config *c = &r->config;
    ppo_lm                *critic = r->critic == r->policy ? NULL : r->critic;
    ppo_adam               adam = {0, c->adam_beta1, c->adam_beta2, c->adam_eps, c->weight_decay};
    const ppo__rlhf_stats *stats = &r->stats[r->micros];
    double                 rows, distance = 0;
    ppo_params_zero_grad(r->policy->params);
    if (critic) ppo_params_zero_grad(critic->params);
    r->per_token = ppo__rlhf_per_token(r, item, n);
    ppo_status status = ppo__gradients(&r->learner, item, n, &rows);
    if (c->target_kl > 0 && p->gradient_steps) {
        status = ppo__settle(r->learner.tape->device, status);
        for (; stats < r->stats + r->micros; ++stats)
            distance += (double)stats->policy.approx_kl * stats->weight / rows;
        *kl = distance <= 1.5 * c->target_kl ? 0 : distance;
    }
    if (status || *kl != 0) return status;
    float scale = (float)(1 / rows), critic_rate = c->critic_learning_rate;
    adam.lr = p->learning_rate;
    status = ppo__params_step(r->policy->params, &adam, scale, c->max_grad_norm, &p->grad_norm);
    ++p->gradient_steps;
    if (status || !critic) return status;
    if (critic_rate > 0) adam.lr = ppo__rlhf_rate(r, critic_rate);
    return ppo__params_step(critic->params, &adam, scale, c->max_grad_norm, NULL);
}

static ppo_status ppo__rlhf_epochs(ppo_rlhf *r, ppo_rlhf_progress *p, double *kl) {
    int        count = r->trained, batches = count ? ppo__divide_up(count, r->config.minibatch_size) : 0;
    ppo_status status = PPO_OK;
    ppo_rng    rng = ppo_rng_stream(r->config.seed, PPO_STREAM_SHUFFLE, 2 * (uint32_t)r->iteration + 1);
    p->learning_rate = r->rate_factor * ppo__rlhf_rate(r, r->config.learning_rate);
    p->gradient_steps = r->micros = 0;
    *kl = 0;
    for (int s = 0, i = 0; s < r->sequences; ++s)
        if (r->learns[s]) r->order[i++] = s;
    for (int epoch = 0; epoch < r->config.epochs && !status && *kl == 0; ++epoch) {
        ppo_rng_shuffle(&rng, r->order, count);
        for (int b = 0; b < batches && !status && *kl == 0; ++b) {
            int begin = ppo__share(count, b, batches), end = ppo__share(count, b + 1, batches);
            r->first = epoch == 0 && b == 0;
            status = ppo__rlhf_minibatch(r, r->order + begin, end - begin, p, kl);
        }
    }
    return ppo__settle(r->learner.tape->device, status);
}

/* The epochs, within the trust region. What a step far beyond it destroys no later step restores, so the policy
   returns to where it was, and learns the same samples with half the learning rate. A rate that ends the first
   epoch is lowered, too; one that ends none recovers. */
static ppo_status ppo__rlhf_learn(ppo_rlhf *r, ppo_rlhf_progress *p) {
    enum { ATTEMPTS = 10 };
    ppo_params *params = r->policy->params;
    int64_t     step = params->step;
    double      kl = 0;
    if (r->kept) ppo__params_copy(params, r->kept, 0);
    for (int attempt = 0; attempt < ATTEMPTS; ++attempt) {
        ppo_status status = ppo__rlhf_epochs(r, p, &kl);
        if (status) return status;
        if (!r->kept || kl <= 4 * r->config.target_kl) break;
        ppo__params_copy(params, r->kept, 1);
        params->step = step;
        p->gradient_steps = 0;
        r->rate_factor /= 2;
    }
    if (kl == 0) r->rate_factor = ppo__min(1, 1.2f * r->rate_factor);
    else if (p->gradient_steps < ppo__divide_up(r->trained, r->config.minibatch_size)) r->rate_factor *= 0.8f;
    ppo__rlhf_sum_up(r, p);
    return PPO_OK;
}

/* refilled: how many prompts others replaced. */
static ppo_status ppo__rlhf_update(ppo_rlhf *r, const ppo_samples *samples, const float *reward, int refilled,
                                   ppo_rlhf_progress *progress) {
    ppo_rlhf_progress p;
    memset(&p, 0, sizeof p);
    p.refilled = refilled;
    ppo_status status = ppo__check_samples(r, samples, reward);
    if (!status) status = ppo__rlhf_judge(r, samples);
    if (!status) status = ppo__rlhf_rewards(r, samples, reward);
    if (!status) status = ppo__rlhf_advantages(r, samples);
    if (status) return status;
    ppo__rlhf_describe(r, samples, reward, &p);
    status = ppo__rlhf_importance(r, samples);
    if (status) return status;
    r->trained = 0;
    for (int s = 0; s < samples->tokens.count; ++s)
        r->trained += r->learns[s] = samples->ended[s] || !r->config.mask_truncated;
    status = ppo__rlhf_learn(r, &p);
    if (!status) status = ppo__rlhf_finish(r, &p);
    if (progress && !status) *progress = p;
    return status;
}

PPO_DEF ppo_status ppo_rlhf_update(ppo_rlhf *r, const ppo_samples *samples, const float *reward,
                                   ppo_rlhf_progress *progress) {
    if (!ppo__given("ppo_rlhf_update", r && samples && reward)) return PPO_ERROR_ARGUMENT;
    return ppo__rlhf_update(r, samples, reward, 0, progress);
}

PPO_DEF ppo_status ppo_rlhf_iterate(ppo_rlhf *r, ppo_rlhf_progress *progress) {
    ppo_samples samples;
    if (!ppo__given("ppo_rlhf_iterate", r != NULL)) return PPO_ERROR_ARGUMENT;
    const ppo_rlhf_config *c = &r->config;
    ppo_rng                rng = ppo_rng_stream(c->seed, PPO_STREAM_TOKEN, (uint32_t)r->iteration);
    int64_t                next = r->next_prompt;
    float                 *score = c->refills ? r->drawn_score : r->score;
    ppo_status             status = ppo__rlhf_sample(r, c->prompts, &rng, &next, &samples, score);
    if (!status && c->refills) status = ppo__rlhf_refill(r, &rng, &next, &samples);
    int refilled = (int)(next - r->next_prompt) - c->prompts;
    return status ? status : ppo__rlhf_update(r, &samples, r->score, refilled, progress);
}

/* -- creation: checks, and all memory -- */

static void ppo__take_rows(ppo_rlhf *r, size_t n, ppo__response_rows *rows) {
    const ppo_rlhf_config *c = &r->config;
    const size_t           size = ppo__at(r->policy->config.vocab, (int)sizeof(float));
    float **const          arrays[] = {&rows->old_logp, &rows->ref_logp,   &rows->entropy,     &rows->reward,
                                       &rows->value,    &rows->next_value, &rows->share,       &rows->log_ratio,
                                       &rows->weight,   &rows->advantage,  &rows->value_target};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; ++i) *arrays[i] = PPO__ZEROS(&r->memory, float, n);
    if (c->kl_place != PPO_KL_IN_LOSS || c->kl_estimator != PPO_KL_EXACT || !(c->kl_coef > 0)) return;
    rows->ref_logits = (float *)ppo__arena_array(&r->numbers, n, size);
    if (!rows->ref_logits) return;
    if (!r->numbers.device) memset(rows->ref_logits, 0, n * size); /* ppo__rlhf_take() reads some */
    else r->numbers.device->zero(r->numbers.device, rows->ref_logits, n * size);
}

/* Takes all memory and brings it to its final size: with a micro-batch of the longest sequences, and samples
   of the longest prompt. */
static ppo_status ppo__rlhf_take(ppo_rlhf *r, int longest_prompt) {
    const ppo_rlhf_config *c = &r->config;
    const int              longest[2] = {r->longest, 0};
    ppo__arena            *memory = &r->memory;
    int                    count = r->sequences;
    int                    batch = c->minibatch_size < count ? c->minibatch_size : count;
    int                    micro = c->micro_batch && c->micro_batch < batch ? c->micro_batch : batch;
    size_t                 steps = ppo__at(c->epochs, ppo__divide_up(count, c->minibatch_size));
    r->learner.micro_batch = micro;
    r->numbers.device = ppo__device_in_use;
    r->score = PPO__ARRAY(memory, float, count);
    r->total = PPO__ARRAY(memory, float, count);
    r->earned = PPO__ARRAY(memory, float, count);
    if (c->refills) {
        r->drawn_score = PPO__ARRAY(memory, float, count);
        r->kept_samples.ended = PPO__ARRAY(memory, unsigned char, count);
        r->kept_samples.logp = PPO__ARRAY(memory, float, ppo__at(count, r->longest));
    }
    r->learns = PPO__ARRAY(memory, unsigned char, count);
    r->order = PPO__ZEROS(memory, int, count);
    r->first_row = PPO__ZEROS(memory, int, (size_t)count + 1);
    r->prompt_order = PPO__ARRAY(memory, int, r->prompts.count);
    r->end_value = PPO__ARRAY(memory, float, count);
    r->kept = c->target_kl > 0 ? PPO__ARRAY(&r->numbers, float, 3 * r->policy->params->capacity) : NULL;
    r->stats = PPO__ZEROS(memory, ppo__rlhf_stats, steps * (size_t)ppo__divide_up(batch, micro));
    ppo__take_rows(r, ppo__at(count, r->longest), &r->rows);
    ppo__take_rows(r, ppo__at(micro, r->longest), &r->batch_rows);
    ppo_status status = ppo__arena_status(memory);
    if (!status) status = ppo__arena_status(&r->numbers);
    if (!status && c->refills) status = ppo__tokens_fill(&r->kept_samples.tokens, count, r->longest);
    if (!status) status = ppo__tape_create_on(ppo__device_in_use, &r->learner.tape);
    if (!status) status = ppo_generator_create(r->policy, c->slots, &r->generator);
    if (status) return status;
    r->first_row[1] = r->longest - 1; /* order is all zeros: sequence 0 again and again */
    status = ppo__learner_reserve(&r->learner, r->order, longest);
    for (int i = 0; i < c->prompts && !status; ++i)
        status = ppo__add_prompt(&r->asked, &r->prompts, longest_prompt, c->samples);
    if (!status) status = ppo__begin_results(r->generator, &r->asked);
    if (!status) status = ppo__generator_prepare(r->generator, r->asked.count, c->sampling.call >= 0);
    ppo_tape_reset(r->generator->tape);
    return status;
}

PPO_DEF void ppo_rlhf_free(ppo_rlhf *r) {
    if (!r) return;
    ppo_lm_free(r->own_reference);
    ppo_lm_free(r->own_critic);
    ppo_tokens_free(&r->prompts);
    ppo_tokens_free(&r->asked);
    ppo_tokens_free(&r->kept_samples.tokens);
    ppo_generator_free(r->generator);
    ppo__learner_free(&r->learner);
    ppo__arena_free(&r->memory);
    ppo__arena_free(&r->numbers);
    ppo__free(r);
}

/* All but the new start of the optimizers. */
static ppo_status ppo__rlhf_make(ppo_lm *policy, const ppo_lm *reference, ppo_lm *critic,
                                 const ppo_tokens *prompts, ppo_reward_fn reward, void *user,
                                 const ppo_rlhf_config *config, ppo_rlhf **rlhf) {
    ppo_status status = ppo__check_rlhf(config, policy, reference, critic, prompts);
    if (status) return status;
    ppo_rlhf *r = (ppo_rlhf *)ppo__alloc(sizeof *r);
    if (!r) return PPO_ERROR_MEMORY;
    r->config = *config;
    r->policy = policy;
    r->reward = reward;
    r->user = user;
    r->kl_coef = config->kl_coef;
    r->entropy_coef = r->entropy_used = config->entropy_coef;
    r->rate_factor = 1;
    r->started = ppo_clock();
    r->sequences = config->prompts * config->samples;
    r->learner.loss = ppo__rlhf_loss;
    r->learner.user = r;
    int context = policy->config.context, max_new = config->sampling.max_new, at = 0, longest = 0;
    for (int s = 0; s < prompts->count && !status; ++s) {
        int n = ppo__prompt_length(prompts, s);
        if (n > longest) longest = n, at = s;
        status = ppo__add_prompt(&r->prompts, prompts, s, 1);
    }
    r->longest = max_new && max_new < context - longest ? longest + max_new : context;
    if (!status && !reference) status = ppo_lm_copy(policy, 0, &r->own_reference);
    r->reference = reference ? reference : r->own_reference;
    if (ppo__advantage_needs[config->advantage].critic) {
        if (!status && !critic) status = ppo_lm_copy(policy, 1, &r->own_critic);
        r->critic = critic ? critic : r->own_critic;
        if (!status) status = ppo_params_freeze(r->critic->params, 0);
    }
    if (!status) status = ppo_params_freeze(policy->params, 0);
    if (!status) status = ppo__rlhf_take(r, at);
    if (status) return ppo_rlhf_free(r), status;
    *rlhf = r;
    return PPO_OK;
}

PPO_DEF ppo_status ppo_rlhf_create(ppo_lm *policy, const ppo_lm *reference, ppo_lm *critic,
                                   const ppo_tokens *prompts, ppo_reward_fn reward, void *user,
                                   const ppo_rlhf_config *config, ppo_rlhf **rlhf) {
    if (rlhf) *rlhf = NULL;
    if (!ppo__given("ppo_rlhf_create", policy && prompts && config && rlhf)) return PPO_ERROR_ARGUMENT;
    ppo_status status = ppo__rlhf_make(policy, reference, critic, prompts, reward, user, config, rlhf);
    if (status) return status;
    ppo_params_restart(policy->params);
    if ((*rlhf)->critic) ppo_params_restart((*rlhf)->critic->params);
    return PPO_OK;
}

/* -- checkpoints -- */

/* A run, and what its file holds in another form. It must exist until the file is written. */
typedef struct ppo__rlhf_checkpoint {
    ppo_rlhf *rlhf;
    int64_t   counters[6];
    double    seconds;
    float     first[5]; /* figures of the first iteration */
} ppo__rlhf_checkpoint;

/* What a checkpoint holds besides the models that are trained. Saving changes nothing in the run. */
static ppo_status ppo__carry_rlhf(ppo_file *file, int way, ppo__rlhf_checkpoint *kept) {
    ppo_rlhf         *r = kept->rlhf;
    const double      most = 4e18;
    const ppo_params *reference = r->reference->params;
    const ppo_array   frozen = {"", PPO_F32, 0, {0}, reference->count * sizeof(float), reference->data};
    const char       *critic = !r->critic ? "none" : r->critic == r->policy ? "the policy" : "a model";
    const ppo__item   items[] = {
          {"rlhf.counters", PPO_I64, 2, {1, 6}, kept->counters, 0, most},
          {"rlhf.seconds", PPO_F64, 2, {1, 1}, &kept->seconds, 0, 1e15},
          {"rlhf.reward_mean", PPO_F64, 2, {1, 1}, &r->reward_mean[0], -1e15, 1e15},
          {"rlhf.reward_var", PPO_F64, 2, {1, 1}, &r->reward_var[0], 0, DBL_MAX},
          {"rlhf.kl_coef", PPO_F32, 2, {1, 1}, &r->kl_coef, 0, FLT_MAX},
          {"rlhf.entropy_coef", PPO_F32, 2, {1, 1}, &r->entropy_coef, PPO__ANY},
          {"rlhf.rate_factor", PPO_F32, 2, {1, 1}, &r->rate_factor, 0, 1},
          {"rlhf.first", PPO_F32, 2, {1, 5}, kept->first, PPO__ANY},
    };
    ppo_status status = ppo__params_fetch(reference);
    if (!status) status = ppo__carry_fact(file, way, "critic", critic);
    if (!status) status = ppo__carry_hash(file, way, "prompts", ppo__hash_tokens(PPO__FNV1A, &r->prompts));
    if (!status && !r->own_reference)
        status = ppo__carry_hash(file, way, "reference", ppo__hash_array(PPO__FNV1A, &frozen));
    if (!status && r->own_reference) status = ppo__carry_fact(file, way, "reference", "in this file");
    if (!status && r->own_reference)
        status = ppo__carry_params(file, way, "reference.", reference, reference->data, 2);
    return status ? status : ppo__carry_items(file, way, items, sizeof items / sizeof *items);
}

static ppo_status ppo__put_rlhf(ppo_file *file, const void *object) {
    ppo__rlhf_checkpoint *kept = (ppo__rlhf_checkpoint *)object;
    const ppo_rlhf       *r = kept->rlhf;
    char                  text[32];
    ppo_status            status = ppo__put_trained(file, "", r->policy);
    if (!status && r->critic && r->critic != r->policy) status = ppo__put_trained(file, "critic.", r->critic);
    if (!status) status = ppo_file_set_text(file, "checkpoint", "ppo_rlhf_save");
    if (!status) status = ppo__put_settings(file, ppo_rlhf_settings(), &r->config);
    if (!status) status = ppo__carry_rlhf(file, PPO__SAVE, kept);
    return status ? status : ppo_file_set_text(file, "checksum", ppo__file_checksum(file, text));
}

PPO_DEF ppo_status ppo_rlhf_save(const ppo_rlhf *r, const char *path) {
    if (!ppo__given("ppo_rlhf_save", r && path)) return PPO_ERROR_ARGUMENT;
    const ppo_rlhf_progress *first = &r->initial;
    ppo__rlhf_checkpoint     kept = {
            (ppo_rlhf *)r,
            {r->iteration, r->samples, r->tokens, r->next_prompt, r->policy->params->step,
         r->critic ? r->critic->params->step : 0},
            ppo_clock() - r->started,
            {first->reward, first->reward_std, first->mean_length, first->entropy, r->first_variety}};
    return ppo__save("ppo_rlhf_save", path, ppo__put_rlhf, &kept);
}

static ppo_status ppo__get_rlhf(ppo_file *file, ppo_rlhf *r) {
    ppo__rlhf_checkpoint kept = {r, {0}, 0, {0}};
    const int64_t       *n = kept.counters;
    ppo_lm *const        lm[2] = {r->policy, r->critic == r->policy ? NULL : r->critic};
    ppo_lm              *read[2] = {NULL, NULL};
    ppo_rlhf_config      own = ppo_rlhf_config_default();
    ppo_status           status = ppo__check_checkpoint(file, "ppo_rlhf_save");
    if (!status) status = ppo__get_settings(file, ppo_rlhf_settings(), &own);
    if (!status) status = ppo__check_kept(ppo_rlhf_settings(), "seed", &own, &r->config, "checkpoint");
    if (!status) status = ppo__get_trained(file, "", lm[0], &read[0]);
    if (!status && r->own_reference) status = ppo_params_sync(r->own_reference->params);
    if (!status) status = ppo__carry_rlhf(file, PPO__LOAD, &kept);
    if (!status && lm[1]) status = ppo__get_trained(file, "critic.", lm[1], &read[1]);
    for (int k = 0; k < 2 && lm[k] && !status; ++k) status = ppo_params_sync(lm[k]->params);
    for (int k = 0; k < 2; ++k) {
        if (!status && lm[k]) ppo__take_trained(lm[k], read[k], n[4 + k]);
        ppo_lm_free(read[k]);
    }
    r->iteration = n[0];
    r->samples = n[1];
    r->tokens = n[2];
    r->next_prompt = n[3];
    r->started = ppo_clock() - kept.seconds;
    r->initial.reward = kept.first[0];
    r->initial.reward_std = kept.first[1];
    r->initial.mean_length = kept.first[2];
    r->initial.entropy = kept.first[3];
    r->first_variety = kept.first[4];
    if (!(r->config.kl_target > 0)) r->kl_coef = r->config.kl_coef;
    if (!(r->config.entropy_target > 0)) r->entropy_coef = r->config.entropy_coef;
    return status;
}

PPO_DEF ppo_status ppo_rlhf_resume(const char *path, ppo_lm *policy, const ppo_lm *reference, ppo_lm *critic,
                                   const ppo_tokens *prompts, ppo_reward_fn reward, void *user,
                                   const ppo_rlhf_config *config, ppo_rlhf **rlhf) {
    ppo_file *file = NULL;
    if (rlhf) *rlhf = NULL;
    if (!ppo__given("ppo_rlhf_resume", path && policy && prompts && config && rlhf))
        return PPO_ERROR_ARGUMENT;
    ppo_status status = ppo_file_read(path, &file);
    if (!status) status = ppo__rlhf_make(policy, reference, critic, prompts, reward, user, config, rlhf);
    if (!status) status = ppo__get_rlhf(file, *rlhf);
    ppo_file_free(file);
    if (status && *rlhf) {
        ppo_rlhf_free(*rlhf);
        *rlhf = NULL;
    }
    return status;
}

#endif /* PPO_NO_LANGUAGE */

/* ========================================================================================================
   @@ REPORTS
   ======================================================================================================== */

#ifndef PPO_NO_REPORTS

/* --------------------------------------------------------------------------------------------------------
   @@ 23 Reports. The progress line and the curve of characters go to a FILE. The chart is an SVG file. The
   log consists of files that grow by whole rows or records; what it reports of an iteration is one table,
   ppo__metrics(), from which both the CSV and the event file are written.
   -------------------------------------------------------------------------------------------------------- */

#ifndef PPO_NO_LANGUAGE
/* The ordinary tokens from `from` to `to`. */
static void ppo__print_tokens(FILE *file, const ppo_tokenizer *tokenizer, const int *from, const int *to) {
    for (; from < to; ++from) {
        if (!ppo__is_ordinary(tokenizer, *from)) continue;
        const unsigned char *text = (const unsigned char *)tokenizer->bytes + tokenizer->start[*from];
        for (int n = ppo__token_length(tokenizer, *from); n > 0; --n, ++text)
            putc(*text < 32 || *text == 127 ? ' ' : *text, file);
    }
}

PPO_DEF void ppo_print_samples(FILE *file, const ppo_tokenizer *tokenizer, const ppo_samples *samples,
                               const float *reward, int count) {
    for (int s = 0; file && tokenizer && samples && s < count && s < samples->tokens.count; ++s) {
        const ppo_tokens *tokens = &samples->tokens;
        const int        *from = tokens->token + tokens->start[s], *to = tokens->token + tokens->start[s + 1];
        const int        *sampled = tokens->token + ppo__prompt_end(tokens, s);
        if (reward) fprintf(file, "%8.2f  ", (double)reward[s]);
        ppo__print_tokens(file, tokenizer, from, sampled);
        fprintf(file, " | ");
        ppo__print_tokens(file, tokenizer, sampled, to);
        fprintf(file, "%s\n", samples->ended && !samples->ended[s] ? "..." : "");
    }
}
#endif

static int ppo__has_point(const ppo_curve *curve, int i) {
    return ppo__finite(curve->x[i]) && ppo__finite(curve->y[i]);
}

/* The smallest and largest x and y of the points; 0 if there are none. */
static int ppo__curves_range(const ppo_curve *curves, int count, float low[2], float high[2]) {
    int any = 0;
    low[0] = low[1] = 0;
    high[0] = high[1] = 1;
    for (; count > 0; --count, ++curves) {
        for (int i = 0; i < curves->n; ++i) {
            if (!ppo__has_point(curves, i)) continue;
            for (int d = 0; d < 2; ++d) {
                float at = d ? curves->y[i] : curves->x[i];
                low[d] = any ? ppo__min(low[d], at) : at;
                high[d] = any ? ppo__max(high[d], at) : at;
            }
            any = 1;
        }
    }
    return any;
}

/* y at x, by lines between the points; NaN outside them. */
static double ppo__curve_at(const ppo_curve *curve, double x) {
    int before = -1;
    for (int i = 0; i < curve->n; ++i) {
        if (!ppo__has_point(curve, i)) continue;
        if (curve->x[i] >= x) {
            if (before < 0) return curve->x[i] > x ? NAN : curve->y[i];
            double way = (x - curve->x[before]) / ((double)curve->x[i] - curve->x[before]);
            return curve->y[before] + ((double)curve->y[i] - curve->y[before]) * way;
        }
        before = i;
    }
    return NAN;
}

PPO_DEF void ppo_print_curve(FILE *file, const char *title, const float *x, const float *y, int n, int width,
                             int height) {
    enum { LABEL = 10, MOST = 256 };
    const ppo_curve curve = {NULL, x, y, n};
    float           low[2], high[2];
    int             level[MOST]; /* the row of each column's point; -1: none */
    if (!file || !x || !y) return;
    if (title) fprintf(file, "%s\n", title);
    if (!ppo__curves_range(&curve, 1, low, high)) {
        fprintf(file, "(nothing to draw)\n");
        return;
    }
    int    columns = ppo__min_int(width > LABEL + 3 ? width - LABEL - 2 : 1, MOST);
    int    rows = ppo__min_int(height > 4 ? height - 2 : 2, MOST);
    double span = high[1] > low[1] ? (double)high[1] - low[1] : 1; /* two floats may lie further apart */
    for (int c = 0; c < columns; ++c) {
        double way = columns > 1 ? (double)c / (columns - 1) : 1;
        double value = ppo__curve_at(&curve, low[0] * (1 - way) + high[0] * way);
        level[c] = ppo__finite((float)value) ? (int)lround((value - low[1]) / span * (rows - 1)) : -1;
    }
    for (int row = rows - 1; row >= 0; --row) {
        char label[32] = "";
        if (row == rows - 1 || row == 0 || row == rows / 2)
            snprintf(label, sizeof label, "%.4g", low[1] + span * row / (rows - 1));
        fprintf(file, "%*s |", (int)LABEL, label);
        for (int c = 0; c < columns; ++c) fputc(level[c] == row ? '*' : level[c] > row ? '.' : ' ', file);
        fputc('\n', file);
    }
    fprintf(file, "%*s +", (int)LABEL, "");
    for (int c = 0; c < columns; ++c) fputc('-', file);
    char left[32], right[32];
    int  used = snprintf(left, sizeof left, "%.6g", (double)low[0]);
    int  gap = columns - used - snprintf(right, sizeof right, "%.6g", (double)high[0]);
    fprintf(file, "\n%*s  %.*s%*s%s\n", (int)LABEL, "", columns, left, gap > 0 ? gap : 0, "",
            gap > 0 ? right : "");
}

/* A number with "nan" and a point in every locale. format NULL: the fewest digits, 6 at least, that read back
   as the same float. */
static const char *ppo__number(char text[64], const char *format, double x) {
    if (x != x) return "nan";
    if (format) snprintf(text, 64, format, x);
    else ppo__shortest_float(text, 6, (float)x);
    return ppo__with_point(text);
}

/* -- a line chart; one unit is a tenth of a pixel, so that all coordinates are integers -- */

typedef struct ppo__axis {
    double low, high, step; /* step: the distance between ticks */
    long   begin, length;   /* low is drawn at begin, high at begin + length */
} ppo__axis;

/* Three to eight ticks, 1, 2 or 5 times a power of ten apart. to_ticks: the axis ends at ticks, too. */
static ppo__axis ppo__make_axis(double low, double high, int to_ticks, long begin, long length) {
    const double fuzz = 1e-6, room = low < high ? 0 : low != 0 ? fabs(low) / 2 : 1;
    low -= room;
    high += room;
    double raw = (high - low) / 5, power = pow(10, floor(log10(raw)));
    double step = (raw < 1.5 * power ? 1 : raw < 3 * power ? 2 : raw < 7 * power ? 5 : 10) * power;
    if (to_ticks) low = floor(low / step + fuzz) * step, high = ceil(high / step - fuzz) * step;
    ppo__axis axis = {low, high, step, begin, length};
    return axis;
}

static long ppo__axis_at(const ppo__axis *axis, double x) {
    return axis->begin + lround((x - axis->low) / (axis->high - axis->low) * (double)axis->length);
}

/* The tick at k steps: "0.25", "40k", "1.5M". */
static const char *ppo__tick_label(char label[80], const ppo__axis *axis, double k) {
    static const struct {
        double      from, unit;
        const char *name;
    } units[] = {{1e15, 0, ""}, {1e9, 1e9, "G"}, {1e6, 1e6, "M"}, {1e4, 1e3, "k"}, {1e-4, 1, ""}, {0, 0, ""}};
    double largest = fmax(fabs(axis->low), fabs(axis->high));
    char   format[16], number[64];
    int    u = 0;
    if (k == 0) return "0";
    while (largest < units[u].from) ++u;
    if (units[u].unit == 0) return ppo__number(label, "%.3g", k * axis->step);
    double decimals = -floor(log10(axis->step / units[u].unit) + 1e-6);
    snprintf(format, sizeof format, "%%.%df", (int)ppo__clamp((float)decimals, 0, 9));
    snprintf(label, 80, "%s%s", ppo__number(number, format, k * axis->step / units[u].unit), units[u].name);
    return label;
}

static void ppo__svg_text(FILE *file, long x, long y, const char *attributes, const char *text) {
    if (!text) return;
    fprintf(file, "<text x=\"%ld\" y=\"%ld\"%s>", x, y, attributes);
    for (; *text; ++text) {
        const char *escaped = *text == '&' ? "&amp;" : *text == '<' ? "&lt;" : *text == '>' ? "&gt;" : NULL;
        if (escaped) fputs(escaped, file);
        else fputc((unsigned char)*text < ' ' ? ' ' : *text, file);
    }
    fputs("</text>\n", file);
}

static void ppo__svg_line(FILE *file, long x, long y, char direction, long length, const char *color) {
    fprintf(file, "<path d=\"M%ld %ld%c%ld\" stroke=\"%s\" stroke-width=\"10\"/>\n", x, y, direction, length,
            color);
}

static void ppo__svg_axes(FILE *file, const ppo__axis *x, const ppo__axis *y) {
    char label[80];
    for (double k = ceil(y->low / y->step - 1e-6); k <= y->high / y->step + 1e-6; ++k) {
        long at = ppo__axis_at(y, k * y->step);
        ppo__svg_line(file, x->begin, at, 'h', x->length, "#e4e4e4");
        ppo__svg_text(file, x->begin - 80, at + 45, " text-anchor=\"end\"", ppo__tick_label(label, y, k));
    }
    for (double k = ceil(x->low / x->step - 1e-6); k <= x->high / x->step + 1e-6; ++k) {
        long at = ppo__axis_at(x, k * x->step);
        ppo__svg_line(file, at, y->begin, 'v', 60, "#888");
        ppo__svg_text(file, at, y->begin + 210, " text-anchor=\"middle\"", ppo__tick_label(label, x, k));
    }
    ppo__svg_line(file, x->begin, y->begin, 'h', x->length, "#888");
}

static void ppo__svg_curve(FILE *file, const ppo_curve *curve, const ppo__axis *x, const ppo__axis *y,
                           const char *style) {
    char op = 'M';
    for (int i = 0; i < curve->n; ++i) {
        if (!ppo__has_point(curve, i)) continue;
        if (op == 'M') fprintf(file, "<path%s fill=\"none\" stroke-linejoin=\"round\" d=\"", style);
        fprintf(file, "%c%ld %ld", op, ppo__axis_at(x, curve->x[i]), ppo__axis_at(y, curve->y[i]));
        op = 'L';
    }
    if (op == 'L') fprintf(file, "h0\"/>\n"); /* h0: shows a single point as the round end of a line */
}

typedef struct ppo__chart {
    const char      *title, *x_label, *y_label;
    const ppo_curve *curves;
    int              count;
} ppo__chart;

static ppo_status ppo__svg(FILE *file, const char *path, void *user) {
    enum { WIDTH = 8000, HEIGHT = 4500, COLORS = 8 };
    /* Okabe and Ito 2008: distinct to the colour-blind. Curves beyond the eighth are dashed. */
    static const char *const colors[COLORS] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                               "#e69f00", "#56b4e9", "#000",    "#a0a000"};
    const ppo__chart        *chart = (const ppo__chart *)user;
    const ppo_curve         *curves = chart->curves;
    size_t                   longest = 0; /* name, of 40 letters at most, for the width of the legend */
    for (int i = 0; i < chart->count; ++i)
        if (curves[i].name && strlen(curves[i].name) > longest) longest = strlen(curves[i].name);
    if (longest > 40) longest = 40;
    long  left = chart->y_label ? 950 : 750, right = WIDTH - (longest ? 600 + 75 * (long)longest : 250);
    long  top = chart->title ? 550 : 250, bottom = HEIGHT - (chart->x_label ? 620 : 400);
    float low[2], high[2];
    char  style[160];
    ppo__curves_range(curves, chart->count, low, high);
    if (low[0] > 0 && low[0] < 0.1f * high[0]) low[0] = 0; /* steps begin at 0 */
    ppo__axis x = ppo__make_axis(low[0], high[0], 0, left, right - left);
    ppo__axis y = ppo__make_axis(low[1], high[1], 1, bottom, top - bottom);

    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
            "font-family=\"sans-serif\" font-size=\"130\" fill=\"#333\">\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n",
            WIDTH / 10, HEIGHT / 10, (int)WIDTH, (int)HEIGHT, (int)WIDTH, (int)HEIGHT);
    ppo__svg_text(file, left, 330, " font-size=\"180\" font-weight=\"bold\"", chart->title);
    ppo__svg_text(file, (left + right) / 2, HEIGHT - 170, " text-anchor=\"middle\"", chart->x_label);
    snprintf(style, sizeof style, " text-anchor=\"middle\" transform=\"rotate(-90 230 %ld)\"",
             (top + bottom) / 2);
    ppo__svg_text(file, 230, (top + bottom) / 2, style, chart->y_label);
    ppo__svg_axes(file, &x, &y);
    for (int i = 0, line = 0; i < chart->count; ++i) {
        snprintf(style, sizeof style, " stroke=\"%s\" stroke-width=\"22\" stroke-linecap=\"round\"%s",
                 colors[i % COLORS], i / COLORS % 2 ? " stroke-dasharray=\"60 50\"" : "");
        ppo__svg_curve(file, &curves[i], &x, &y, style);
        if (!curves[i].name) continue;
        long at = top + 60 + 210L * line++;
        fprintf(file, "<path%s d=\"M%ld %ldh200\"/>\n", style, right + 150, at);
        ppo__svg_text(file, right + 430, at + 45, "", curves[i].name);
    }
    fputs("</svg>\n", file);
    return PPO_OK;
}

PPO_DEF ppo_status ppo_plot_svg(const char *path, const char *title, const char *x_label, const char *y_label,
                                const ppo_curve *curves, int count) {
    if (!ppo__given("ppo_plot_svg", path && curves)) return PPO_ERROR_ARGUMENT;
    if (count < 1) return ppo__refuse("ppo_plot_svg: %d curves, nothing to draw", count);
    if ((title && !ppo__is_utf8(title)) || (x_label && !ppo__is_utf8(x_label)) ||
        (y_label && !ppo__is_utf8(y_label)))
        return ppo__refuse("ppo_plot_svg: the title or a label is not UTF-8");
    for (int i = 0; i < count; ++i) {
        if (curves[i].n < 0 || (curves[i].n > 0 && (!curves[i].x || !curves[i].y)))
            return ppo__refuse("ppo_plot_svg: curve %d has %d points, or NULL arrays", i, curves[i].n);
        if (curves[i].name && !ppo__is_utf8(curves[i].name))
            return ppo__refuse("ppo_plot_svg: the name of curve %d is not UTF-8", i);
    }
    ppo__chart chart = {title, x_label, y_label, curves, count};
    return ppo__write_file(path, ppo__svg, &chart);
}

#ifndef PPO_NO_CONTROL
PPO_DEF int ppo_print_progress(const ppo_progress *p, void *file) {
    if (!p) return 0;
    FILE   *out = file ? (FILE *)file : stderr;
    int     terminal = 0, last = p->steps >= p->total_steps;
    int64_t twentieth = p->total_steps / 20 > 0 ? p->total_steps / 20 : 1;
    long    left = (long)(p->seconds_left + 0.5);
    char    mean_return[32] = "-"; /* NaN: no episode has finished */
#ifdef PPO__UNIX
    terminal = (out == stdout && isatty(1)) || (out == stderr && isatty(2));
#endif
    if (!terminal && !last && p->steps / twentieth == (p->steps - p->iteration_steps) / twentieth) return 0;
    if (p->mean_return == p->mean_return)
        snprintf(mean_return, sizeof mean_return, fabsf(p->mean_return) < 1e9f ? "%.2f" : "%g",
                 (double)p->mean_return);
    fprintf(out, "%s%9lld/%lld steps  %7.0f/s  return %8s  kl %.4f  entropy %7.3f  left %ld:%02ld%s",
            terminal ? "\r" : "", (long long)p->steps, (long long)p->total_steps, p->steps_per_second,
            mean_return, (double)p->approx_kl, (double)p->entropy, left / 60, left % 60,
            terminal ? "\033[K" : "\n");
    if (terminal && last) fputc('\n', out);
    fflush(out);
    return 0;
}

/* -- the log -- */

enum { PPO__PATH = 4095 }; /* the longest path of a CSV or directory */

typedef struct ppo__log_file {
    FILE *file; /* unbuffered; NULL: not wanted */
    long  end;  /* of the last complete row or record */
    int   torn; /* 1: an incomplete one follows, and is overwritten by the next */
    char  path[PPO__PATH + 129];
} ppo__log_file;

struct ppo_log {
    ppo__log_file csv, events;
};

static ppo_status ppo__log_create(ppo__log_file *log) {
    int cause = ppo__make_directories(log->path);
    log->file = fopen(log->path, "wb");
    if (!log->file) return ppo__file_failed(log->path, "created", errno == ENOENT && cause ? cause : errno);
    setvbuf(log->file, NULL, _IONBF, 0);
    return PPO_OK;
}

/* After a failure the next call writes at the same place: no torn record stays in the middle. */
static ppo_status ppo__append(ppo__log_file *log, const void *data, size_t size) {
    if (log->torn) {
        clearerr(log->file);
        if (fseek(log->file, log->end, SEEK_SET)) return ppo__file_failed(log->path, "written", errno);
    }
    log->torn = fwrite(data, 1, size, log->file) != size;
    if (log->torn) return ppo__file_failed(log->path, "written", errno);
    log->end += (long)size;
    return PPO_OK;
}

enum { PPO__REAL, PPO__WHOLE, PPO__COUNT }; /* the last: an integer that TensorBoard does not get */
typedef struct ppo__metric {
    const char *key;
    double      value;
    int         kind, present; /* present 0: not in this iteration */
} ppo__metric;

enum { PPO__METRICS = 18, PPO__TOTAL_TIMESTEPS = 5, PPO__CSV_LINE = 1024 };

/* What a log reports of an iteration, sorted by key. */
static void ppo__metrics(const ppo_progress *p, ppo__metric metrics[PPO__METRICS]) {
    const ppo__metric all[] = {
        {"rollout/ep_len_mean", p->mean_length, PPO__REAL, p->episodes > 0},
        {"rollout/ep_rew_mean", p->mean_return, PPO__REAL, p->episodes > 0},
        {"time/fps", floor(p->steps_per_second), PPO__WHOLE, 1},
        {"time/iterations", (double)p->iteration, PPO__COUNT, 1},
        {"time/time_elapsed", floor(p->seconds), PPO__COUNT, 1},
        {"time/total_timesteps", (double)p->steps, PPO__COUNT, 1},
        {"train/approx_kl", p->last_approx_kl, PPO__REAL, 1},
        {"train/clip_fraction", p->clip_fraction, PPO__REAL, 1},
        {"train/clip_range", p->clip_range, PPO__REAL, 1},
        {"train/clip_range_vf", p->value_clip, PPO__REAL, p->value_clip > 0},
        {"train/entropy_loss", -p->entropy, PPO__REAL, 1},
        {"train/explained_variance", p->explained_variance, PPO__REAL, 1},
        {"train/learning_rate", p->learning_rate, PPO__REAL, 1},
        {"train/loss", p->last_loss, PPO__REAL, 1},
        {"train/n_updates", (double)p->updates, PPO__COUNT, 1},
        {"train/policy_gradient_loss", p->policy_loss, PPO__REAL, 1},
        {"train/std", p->std, PPO__REAL, p->std > 0},
        {"train/value_loss", 2 * p->value_loss, PPO__REAL, 1},
    };
    PPO__ASSERT(sizeof all == PPO__METRICS * sizeof *all);
    memcpy(metrics, all, sizeof all);
}

/* -- CSV -- */

/* A row, or, for progress NULL, the header; returns its length. */
static size_t ppo__csv_line(char line[PPO__CSV_LINE], const ppo_progress *progress) {
    ppo_progress none;
    ppo__metric  metrics[PPO__METRICS];
    size_t       n = 0;
    memset(&none, 0, sizeof none);
    ppo__metrics(progress ? progress : &none, metrics);
    for (int i = 0; i < PPO__METRICS; ++i) {
        const ppo__metric *m = &metrics[i];
        char               text[64];
        const char        *field = progress ? "" : m->key;
        if (progress && m->present) field = ppo__number(text, m->kind ? "%.0f" : NULL, m->value);
        n += (size_t)snprintf(line + n, PPO__CSV_LINE - n, "%s%s", field, i < PPO__METRICS - 1 ? "," : "\n");
    }
    return n;
}

/* time/total_timesteps of a row; -1: it is not a row of this log. */
static int64_t ppo__csv_steps(const char *line) {
    const char *field = line;
    int         commas = 0;
    for (const char *c = line; *c; ++c)
        if (*c == ',' && ++commas == PPO__TOTAL_TIMESTEPS) field = c + 1;
    char   *end;
    int64_t steps = strtoll(field, &end, 10);
    return commas == PPO__METRICS - 1 && end > field && *end == ',' ? steps : -1;
}

typedef struct ppo__csv_old {
    FILE   *file;
    int64_t steps;
} ppo__csv_old;

/* Copies the header and the rows up to `steps`. A killed run may leave a last line without a newline. */
static ppo_status ppo__csv_copy(FILE *to, const char *path, void *user) {
    const ppo__csv_old *old = (const ppo__csv_old *)user;
    char                header[PPO__CSV_LINE], line[PPO__CSV_LINE];
    ppo__csv_line(header, NULL);
    fputs(header, to);
    for (int64_t number = 1; fgets(line, sizeof line, old->file); ++number) {
        int64_t at = ppo__csv_steps(line);
        if (!strchr(line, '\n') && feof(old->file)) break;
        if (number == 1 && strcmp(line, header) != 0)
            return ppo__file_fail(path, "its columns are not those of this log");
        if (number > 1 && at < 0)
            return ppo__file_fail(path, "line %lld is not a row of this log", (long long)number);
        if (number > 1 && at <= old->steps) fputs(line, to);
    }
    return ferror(old->file) ? ppo__file_failed(path, "read", errno) : PPO_OK;
}

static ppo_status ppo__csv_open(ppo__log_file *csv, const char *path, int64_t steps) {
    ppo__csv_old old = {steps > 0 ? fopen(path, "rb") : NULL, steps};
    strcpy(csv->path, path);
    if (!old.file && steps > 0 && errno != ENOENT) return ppo__file_failed(csv->path, "read", errno);
    if (!old.file) {
        char       header[PPO__CSV_LINE];
        ppo_status status = ppo__log_create(csv);
        return status ? status : ppo__append(csv, header, ppo__csv_line(header, NULL));
    }
    ppo_status status = ppo__write_file(csv->path, ppo__csv_copy, &old);
    fclose(old.file);
    if (status) return status;
    csv->file = fopen(csv->path, "r+b");
    if (csv->file) setvbuf(csv->file, NULL, _IONBF, 0);
    csv->end = csv->file && !fseek(csv->file, 0, SEEK_END) ? ftell(csv->file) : -1;
    return csv->end < 0 ? ppo__file_failed(csv->path, "written", errno) : PPO_OK;
}

/* -- TensorBoard. An event file is a sequence of records

          length of the data   8 bytes, little-endian
          its checksum         4
          data                 an Event
          its checksum         4

      and an Event is a protocol buffer, a sequence of fields (number * 8 + type, value):

          1 wall_time (double)   2 step (varint)   and one of
          3 file_version (text)  5 summary         7 session_log { 1 status (varint) }

      with summary { 1 value { 1 tag (text)  2 simple_value (float) }  1 value ... }. The types:
      0 a varint, 1 eight bytes, 2 a length and that many bytes, 5 four bytes. -- */

enum { PPO__BYTES = 2048, PPO__LOG_KEY = 512 };

typedef struct ppo__bytes {
    size_t        n;
    unsigned char data[PPO__BYTES];
} ppo__bytes;

static void ppo__put_fixed(ppo__bytes *b, uint64_t x, int size) {
    for (int i = 0; i < size; ++i) b->data[b->n++] = (unsigned char)(x >> 8 * i);
}

/* Seven bits a byte, the lowest first; the top bit says that more follow. */
static PPO__NOINLINE void ppo__put_varint(ppo__bytes *b, uint64_t x) {
    for (; x > 127; x >>= 7) b->data[b->n++] = (unsigned char)(x | 128);
    b->data[b->n++] = (unsigned char)x;
}

static void ppo__put_field(ppo__bytes *b, int field, const void *data, size_t size) {
    ppo__put_varint(b, (uint64_t)(field << 3 | 2));
    ppo__put_varint(b, size);
    memcpy(b->data + b->n, data, size);
    b->n += size;
}

static void ppo__put_scalar(ppo__bytes *summary, const char *key, float x) {
    ppo__bytes value;
    uint32_t   bits;
    value.n = 0;
    memcpy(&bits, &x, sizeof bits);
    ppo__put_field(&value, 1, key, strlen(key));
    ppo__put_varint(&value, 2 << 3 | 5);
    ppo__put_fixed(&value, bits, 4);
    ppo__put_field(summary, 1, value.data, value.n);
}

/* CRC-32C (Castagnoli), rotated and offset as TensorFlow's record format does. */
static uint32_t ppo__record_crc(const unsigned char *data, size_t n) {
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < n; ++i) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static ppo_status ppo__append_event(ppo__log_file *log, int64_t steps, int field, const void *data,
                                    size_t size) {
    ppo__bytes event, record;
    double     now = ppo__wall_time();
    uint64_t   bits;
    event.n = record.n = 0;
    memcpy(&bits, &now, sizeof bits);
    ppo__put_varint(&event, 1 << 3 | 1);
    ppo__put_fixed(&event, bits, 8);
    if (steps) ppo__put_varint(&event, 2 << 3 | 0), ppo__put_varint(&event, (uint64_t)steps);
    ppo__put_field(&event, field, data, size);
    ppo__put_fixed(&record, event.n, 8);
    ppo__put_fixed(&record, ppo__record_crc(record.data, 8), 4);
    memcpy(record.data + record.n, event.data, event.n);
    record.n += event.n;
    ppo__put_fixed(&record, ppo__record_crc(event.data, event.n), 4);
    return ppo__append(log, record.data, record.n);
}

/* TensorBoard reads the files of a directory in the order of their names, so these begin with the time. Each
   START (a session_log of status 1) of a run but the first drops the points from its step on. */
static ppo_status ppo__events_open(ppo__log_file *log, const char *directory, int64_t steps) {
    static const unsigned char start[] = {1 << 3 | 0, 1};
    double                     now = ppo__wall_time(), second = floor(now);
    long                       micro = (long)(1e6 * (now - second));
    FILE                      *taken;
    do {
        snprintf(log->path, sizeof log->path, "%s/events.out.tfevents.%010.0f.ppo.%06ld.%ld", directory,
                 second, micro++, PPO__PROCESS_ID());
        taken = fopen(log->path, "rb");
        if (taken) fclose(taken);
    } while (taken);
    ppo_status status = ppo__log_create(log);
    if (!status) status = ppo__append_event(log, 0, 3, "brain.Event:2", 13);
    if (!status) status = ppo__append_event(log, steps > 0 ? steps + 1 : 0, 7, start, sizeof start);
    return status;
}

PPO_DEF void ppo_log_close(ppo_log *log) {
    if (!log) return;
    if (log->csv.file) fclose(log->csv.file);
    if (log->events.file) fclose(log->events.file);
    ppo__free(log);
}

PPO_DEF ppo_status ppo_log_open(const char *csv_path, const char *tensorboard_dir, int64_t steps,
                                ppo_log **log) {
    if (log) *log = NULL;
    if (!log || (!csv_path && !tensorboard_dir))
        return ppo__refuse("ppo_log_open: log is NULL, or both paths are");
    if (steps < 0) return ppo__refuse("ppo_log_open: steps is %lld, must be 0 or more", (long long)steps);
    if ((csv_path && strlen(csv_path) > PPO__PATH) ||
        (tensorboard_dir && strlen(tensorboard_dir) > PPO__PATH))
        return ppo_fail(PPO_ERROR_FILE, "a path is longer than %d bytes", (int)PPO__PATH);
    ppo_log *made = (ppo_log *)ppo__alloc(sizeof *made);
    if (!made) return PPO_ERROR_MEMORY;
    ppo_status status = PPO_OK;
    if (tensorboard_dir) status = ppo__events_open(&made->events, tensorboard_dir, steps);
    if (!status && csv_path) status = ppo__csv_open(&made->csv, csv_path, steps);
    if (status && made->events.file) {
        fclose(made->events.file);
        made->events.file = NULL;
        remove(made->events.path);
    }
    if (status) ppo_log_close(made);
    else *log = made;
    return status;
}

PPO_DEF ppo_status ppo_log_write(ppo_log *log, const ppo_progress *progress) {
    ppo__metric metrics[PPO__METRICS];
    ppo__bytes  summary;
    char        row[PPO__CSV_LINE];
    ppo_status  status = PPO_OK;
    if (!ppo__given("ppo_log_write", log && progress)) return PPO_ERROR_ARGUMENT;
    if (log->csv.file) status = ppo__append(&log->csv, row, ppo__csv_line(row, progress));
    if (status || !log->events.file) return status;
    summary.n = 0;
    ppo__metrics(progress, metrics);
    for (int i = 0; i < PPO__METRICS; ++i)
        if (metrics[i].present && metrics[i].kind != PPO__COUNT)
            ppo__put_scalar(&summary, metrics[i].key, (float)metrics[i].value);
    return ppo__append_event(&log->events, progress->steps, 5, summary.data, summary.n);
}

PPO_DEF ppo_status ppo_log_scalar(ppo_log *log, const char *key, double value, int64_t steps) {
    ppo__bytes summary;
    if (!ppo__given("ppo_log_scalar", log && key)) return PPO_ERROR_ARGUMENT;
    if (strlen(key) > PPO__LOG_KEY || steps < 0)
        return ppo__refuse("ppo_log_scalar: a key of %d bytes (at most 512), steps %lld (at least 0)",
                           (int)strlen(key), (long long)steps);
    if (!log->events.file) return PPO_OK;
    summary.n = 0;
    ppo__put_scalar(&summary, key, (float)value);
    return ppo__append_event(&log->events, steps, 5, summary.data, summary.n);
}

#endif

#endif /* PPO_NO_REPORTS */

#if defined(__GNUC__) && !defined(__TINYC__)
#pragma GCC diagnostic pop
#elif defined(_MSC_VER)
#pragma warning(pop)
#endif
#define PPO__IMPLEMENTED
#endif

/*
ppo.h is available under 2 licenses -- choose whichever you prefer.
------------------------------------------------------------------------------
ALTERNATIVE A - MIT License

Copyright (c) 2026 the ppo.h authors

Permission is hereby granted, free of charge, to any person obtaining a copy of
this software and associated documentation files (the "Software"), to deal in
the Software without restriction, including without limitation the rights to
use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies
of the Software, and to permit persons to whom the Software is furnished to do
so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.
------------------------------------------------------------------------------
ALTERNATIVE B - Public Domain (www.unlicense.org)

This is free and unencumbered software released into the public domain.

Anyone is free to copy, modify, publish, use, compile, sell, or distribute this
software, either in source code form or as a compiled binary, for any purpose,
commercial or non-commercial, and by any means.

In jurisdictions that recognize copyright laws, the author or authors of this
software dedicate any and all copyright interest in the software to the public
domain. We make this dedication for the benefit of the public at large and to
the detriment of our heirs and successors. We intend this dedication to be an
overt act of relinquishment in perpetuity of all present and future rights to
this software under copyright law.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN
ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION
WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
------------------------------------------------------------------------------
*/
