/* ppo.h - v0.3 - Proximal Policy Optimization in one C header - MIT or public domain, see the end of the file

   Trains a policy inside your own program: no Python, no framework, no build system.
   C99, also valid C++17. Needs the C library, libm, and stb_ds.h (Debian: libstb-dev).

SYNOPSIS

    #define PPO_IMPLEMENTATION              // in exactly ONE source file
    #include "ppo.h"
    #include "envs/cartpole.h"

    int main(void) {
        ppo_env env = cartpole_env();
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

    Where a line is flat there is no gradient. A good action (A > 0) is made more likely until r = 1 + e, a bad
    one less likely until r = 1 - e; beyond that the old data say little about the new policy. A change for the
    worse (r < 1 in the left figure, r > 1 in the right one) is never clipped.

    ppo_train() repeats: collect a rollout; compute advantages; then epochs of shuffled minibatches, for each of them
    policy loss + value loss - entropy, backward, clip the gradient's norm, a step of Adam. The same on arrays of your
    own: ppo_gae(), ppo_policy_loss(), ppo_value_loss(), ppo_clip_grad_norm(), ppo_adam_step().
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

       terminated means that the task itself ended (the pole fell): no reward would follow. The library applies
       the time limit max_steps (truncated), after which V of the last observation stands for later rewards.
    2. cfg = ppo_config_default(), then change what you like (struct ppo_config lists each field and its
       default). To set what can have no effect is an error, in most cases.
    3. ppo_train(). Or an iteration at a time, a rollout and its epochs: ppo_trainer_create(), ppo_trainer_iterate().
       A program that steps its own world, such as a game, needs no such functions: it calls ppo_trainer_observe(),
       ppo_trainer_act(), and ppo_trainer_learn(), which learns in slices of a few milliseconds.
       ppo_env_check() of ppo_check.h looks for mistakes before you train.
    4. ppo_act(agent, obs, NULL, &action) in your program; ppo_evaluate() for figures, ppo_play() to watch.
       If some actions are illegal: ppo_act_masked(). If the policy has memory: ppo_agent_reset() where an
       episode begins.
    5. ppo_agent_save() and ppo_agent_load(); in ppo_resume.h ppo_trainer_save() and _resume() to continue a run
       another day with the same bits; ppo_export.h for a device that has no room for this file.

    What else an environment may need:

        one of n actions         ppo_discrete(n)                       action->discrete
        several choices at once  ppo_multi_discrete(sizes, n)          action->choices[0 .. n-1]
        bits                     ppo_multi_binary(n)                   action->choices[0 .. n-1]
        numbers                  ppo_box(n, low, high)                 action->box[0 .. n-1]
        illegal actions          env.action_mask                       sets a byte to 0 for each
        several agents, teams    env.agents, step_all, self_play       turns, joining, earlier selves
        many copies in one call  env.step_many                         where a simulator steps them faster so
        memory                   cfg.recurrent = 64, ppo_gru.h         where one observation is not enough
        frames, held actions     stack_env() of envs/stack.h           around any environment
        different scales         cfg.normalize_obs, normalize_reward   statistics belong to the agent
        a critic that sees more  env.actor_obs                         what only a simulator knows
        pictures, and numbers    env.shape, env.byte_scale, cfg.conv   convolutions by ppo_conv.h; bytes are kept
        global variables         env.copies                            where a world can exist but once
        to be watched            env.draw                              a few lines of text

    ppo_config_preset(&cfg, "a2c") sets known settings; build/train --help lists all presets and settings.

LANGUAGE MODELS

    Actions are tokens, and the reward is any C function of the tokens that were sampled (ppo_tokens_text() gives
    their text). Advantages, losses and optimizer are those of the above:

        ppo_tokenizer_characters(text, bytes, specials, n, &tok);   // or ppo_tokenizer_bytes(); or ppo_bpe.h
        eos = ppo_tokenizer_special(tok, "<eos>");
        ppo_tokens_add_text(&data, tok, -1, "2+2=", "4", eos);       // a prompt and its response; and so on
        shape = ppo_lm_config_default(); shape.vocab = ppo_tokenizer_vocab(tok);
        ppo_lm_create(&shape, &lm);                                // a transformer like GPT-2
        fit = ppo_fit_config_default();
        ppo_fit_sft(lm, &data, &fit);                               // supervised fine-tuning
        ppo_lm_copy(lm, 1, &judge);                                // with a score: a reward model
        ppo_fit_reward(judge, &chosen, &rejected, &fit);             // trained on comparisons
        cfg = ppo_rlhf_config_default(); cfg.sampling.eos = eos;
        ppo_rlhf_create(lm, NULL, NULL, &prompts, ppo_reward_by_lm, judge, &cfg, &rlhf);
        ppo_rlhf_iterate(rlhf, &progress);                           // sample, compute rewards, PPO
        ppo_lm_save_file(lm, tok, "model.safetensors");            // or a folder, for transformers: ppo_lm_save()

    The critic is a copy of the model with a score. Presets need none, such as GRPO: ppo_rlhf_config_preset(&cfg,
    "grpo"); RLOO, Dr. GRPO, DAPO, GSPO, CISPO, REINFORCE++, distill are others. To read PPO on tokens, search for "@@ 22";
    which estimator of the KL to use, see ppo_kl_estimate() in section 9.

        sampling                 ppo_generate(), ppo_sampling_probabilities()
        other methods            ppo_methods.h: DPO, KTO, refills, ratios of sequences, tools, a watch
        before and after         ppo_judge.h: ppo_lm_evaluate(), ppo_best_of_n(), ppo_compare(), ensembles
        perplexity, scores       ppo_lm_logp(), ppo_lm_scores() of texts
        to be continued          ppo_resume.h: fit.checkpoint, ppo_rlhf_save(), ppo_rlhf_resume()
        a loss of your own       ppo_lm_response(), ppo_tape_sequence_sum(), ppo_lm_sequence_score(), or
                                 ppo_lm_forward() with ppo_lm_logits() and ppo_lm_score()
        a model of your own      ppo_tape_embedding(), ppo_tape_attention(), ppo_tape_rotary()

    ppo_hub.h opens downloaded models and their tokenizers, reads and writes data sets, and trains by LoRA.
    ppo_chat.h writes chats as each model was trained with them.

THREE DOORS, ONE ROOM

    A la carte        the plain functions of sections 7 to 10, over float arrays. No state, no allocation.
    Building blocks   sections 4, 5, 10, 13, 18: tensors, a tape that differentiates, layers, models, Adam.
    Trainers          sections 15 and 22: fill a config, call one function. Built from the two above.

    Among the blocks, beside those that the lessons use:

        operations        ppo_tape_div(), ppo_tape_min(), ppo_tape_clamp(), ppo_tape_concat(), ppo_tape_detach(),
                          ppo_tape_layer_norm(), ppo_tape_rms_norm(), ppo_tape_mask()
        distributions     ppo_tape_gaussian(), ppo_tape_multi_categorical(), ppo_gaussian_logp_backward(),
                          ppo_multi_categorical_logp(), ppo_multi_categorical_logp_backward(),
                          ppo_multi_categorical_kl()
        preferences       ppo_dpo_loss(), ppo_tape_pairwise_loss()
        statistics        ppo_normalizer_init(), ppo_normalizer_update(), ppo_normalize(), ppo_normalizer_free()
        files, checks     ppo_file_add(), ppo_file_count(), ppo_file_at(), ppo_config_check()

MAP

    Five wings (groups of sections), in both parts of this file in this order; each uses only what is above it. The
    implementation of section 12 begins at "@@ 12", and so on, with a paragraph on how it works, its words, and what
    to touch to add an instruction set or kernel (3), an activation or operation (5), an action space (12), a layer
    (13), an environment (14), a setting or objective (15), a model family (18), a rule of sampling (20), an
    advantage or loss of tokens (22).

    The clip of PPO is ppo__policy_term() (9), GAE is ppo_gae() (8), the loop ppo__iterate() (15).

    FOUNDATION          1 Base   2 Random   3 Kernels   4 Tensors   5 Autograd   6 Files, settings
    PPO'S MATHEMATICS   7 Distributions   8 Advantages   9 Losses   10 Optimizer   11 Normalizers
    CONTROL            12 Spaces   13 Networks   14 Environments and rollouts   15 Training and evaluation
                       16 Policies in files
    LANGUAGE           17 Tokens and tokenizers   18 Transformer   19 Models in files   20 Sampling
                       21 Fine-tuning and reward models   22 PPO on tokens
    REPORTS            23 Progress, curves, CSV

ERRORS

    The library never prints, exits or aborts. A function that can fail returns a ppo_status (0 is PPO_OK),
    and ppo_last_error() then holds one sentence about the failure, for the calling thread:
        "reward is NaN (environment 3, step 1201)"
    Then nothing leaks, a new object's pointer is NULL, and other outputs are unspecified. A pointer may be NULL where
    its comment says so, and in all free functions. Your functions (of an environment, a reward, the allocator hook)
    must return: after a longjmp() or a C++ exception out of one, do not use the objects of that call, nor free them.

MEMORY, REPRODUCIBILITY

    All memory comes through one hook, ppo_set_allocator(). A trainer allocates nothing after its first iteration.
    The same seed gives the same bits on the same machine, for any number of threads and processes: random numbers
    are a function of (seed, purpose, index, position), and a row of a batch is computed alike in every batch, so the
    first minibatch of an iteration sees ratios of exactly 1.0f (but for rpo_alpha, and for what agents that wait had
    decided in the iteration before). ppo_trainer_learn() depends on the machine's speed.

COMPANIONS

    What only some programs need is in headers of their own, examples/companions/. Copy one beside this file and
    include it after it, in the file with PPO_IMPLEMENTATION, too. Each has its manual at the top:

        ppo_bpe.h       tokenizers by byte-pair encoding;      ppo_check.h   checks of environments, derivatives
        ppo_hub.h       models of the model hub: folders, tokenizers, LoRA, data; ppo_chat.h: chats; ppo_gguf.h: GGUF
        ppo_judge.h     what samples of a language model are worth: ensembles, evaluation, best of n, comparisons
        ppo_methods.h   methods beside PPO and GRPO: DPO, KTO, refills, ratios of sequences, tools, a watch
        ppo_resume.h    trainings that were stopped continue;  ppo_report.h  TensorBoard, charts as SVG files
        ppo_export.h    a policy as a C header for a device that has no room for this file; ppo_onnx.h: ONNX
        ppo_explain.h   what a policy would do in a state;     ppo_flat.h    programs in other languages
        ppo_teach.h     teachers: recorded play that is cloned, experts that are asked (DAgger), other policies
        ppo_player.h    evaluation in programs with a loop of their own, and of matches
        ppo_conv.h      convolutions over pictures;            ppo_gru.h   memory: a recurrent core
        ppo_ocean.h     environments like PufferLib's Ocean;   ppo_amx.h   large layers on processors with AMX
        ppo_group.h     processes that train together by a function of yours; ppo_mpi.h: by MPI; ppo_nccl.cuh: NCCL
        ppo_cuda.cuh    beside this file: language models on an NVIDIA GPU, by ppo_use_cuda(0), in a program that
                        nvcc compiles; and sections 7 to 10 for arrays there. It has never run on hardware

THREADS

    cfg.threads > 1 collects experience and computes the update on that many threads; your environment's functions
    are then called from several at once, each with its own state, and the allocator hook is, too. ppo_set_threads()
    divides all other arithmetic: of language models, shards of a batch and sequences. See examples/docs/processes.md.
    Different trainers may run on different threads, but not one agent, trainer or tape on two at a time. Do not fork()
    while another thread is in a call; the child computes alone. A call needs 64 KB of stack beside your functions'.

SWITCHES (define before the #include that has PPO_IMPLEMENTATION; not with -ffast-math, which hides NaN)

    PPO_STATIC            everything static: the library is private to the file with PPO_IMPLEMENTATION
    PPO_NO_IMPLEMENTATION PPO_IMPLEMENTATION is ignored: links a program in one file with a compiled library
    PPO_NO_THREADS        no threads (the default where there are neither pthreads nor Windows' threads, and
                          with tcc, where only one thread may use the library)
    PPO_NO_SIMD           plain C kernels only, as with compilers other than gcc and clang: 20 to 50 times as slow
    PPO_VECTOR16          on 64-bit x86, vector kernels for processors without AVX2, too
    PPO_AVX512            with -Os, the kernels for AVX-512, too: a ninth of a control program
    PPO_NO_CONTROL, PPO_NO_LANGUAGE, PPO_NO_REPORTS   leave out the wing of that name, declarations and all: where
                          a switch is set, set it wherever this file is included. Any combination works
    PPO_FILE_NAME         the name of this file in quotes, if you renamed it and the compiler lacks __FILE_NAME__
                          (the file includes itself once per instruction set, to compile the vector kernels)

    The file with PPO_IMPLEMENTATION gets the system's headers too, on Windows windows.h. If it also uses the short
    names of stb_ds.h (arrput), include stb_ds.h before this file. Your macros in CAPITALS, of one letter too, do no
    harm; those in lower case (`#define n 5`) belong below this file, as they would change its variables.
*/

#ifdef PPO_NO_IMPLEMENTATION
#undef PPO_IMPLEMENTATION
#endif

#ifndef PPO_H
#define PPO_H

#define PPO_VERSION_MAJOR 0
#define PPO_VERSION_MINOR 3
#define PPO_VERSION_PATCH 0
#define PPO_VERSION       "0.3.0"

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
    PPO_ERROR_DEVICE,   /* there is no GPU, its driver is too old, or it failed (ppo_cuda.cuh) */
    PPO_ERROR_GROUP     /* another process of the group cannot be reached */
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
   it before ppo_rlhf_create() and ppo_generator_create(), which choose by it how the work is divided; and
   ppo_set_threads(1) before the calling thread ends: it ends the others. A ppo_trainer has its own threads
   (ppo_config.threads). Errors, which change nothing: a number out of range, the system refuses a thread, an
   environment's function made the call. */
PPO_DEF ppo_status ppo_set_threads(int threads);

/* Processes that train together, on one machine or many, connected by whatever there is: ppo_mpi.h fills
   this in with MPI. exchange() sends `sent` bytes to rank `peer` and receives `received` bytes from it, both at
   once, while the peer makes the call that matches; one of the sizes may be 0. It returns when both are done,
   or fails by ppo_fail(), as when the peer has ended. Of a large model it is also called from another thread,
   while the caller's computes; never from two at a time. */
enum { PPO_MAX_RANKS = 1024 };
typedef struct ppo_group {
    int rank, size; /* size: 1, 2, 4, ... PPO_MAX_RANKS; rank: 0 to size - 1 */
    ppo_status (*exchange)(void *user, int peer, const void *send, size_t sent, void *receive,
                           size_t received);
    void *user; /* handed to it */
} ppo_group;

/* Divides what the calling thread trains from now on among the processes of a group, as ppo_group.h says, which
   it needs; NULL: it trains alone. The group is borrowed, also by the trainers that are made meanwhile. Every
   process makes the same calls with the same arguments, and gets the same results: the bits are those of a single
   process. Errors: rank, size or exchange cannot be; there is no ppo_group.h. */
PPO_DEF ppo_status ppo_use_group(const ppo_group *group);
/* The rank in this thread's group; 0 if there is none. Files of the program's own are best written by rank 0. */
PPO_DEF int ppo_group_rank(void);

/* Wall-clock seconds since a fixed moment; for differences. */
PPO_DEF double ppo_clock(void);

/* --------------------------------------------------------------------------------------------------------
   2 Random: Philox4x32-10 (Salmon et al. 2011): numbers are a pure function of (seed, purpose, index,
   position). Any two streams are independent. A stream is 44 plain bytes: copy it to save it.
   -------------------------------------------------------------------------------------------------------- */

/* What the library draws numbers for; your own streams may use purposes from PPO_STREAM_USER on. */
typedef enum ppo_stream_purpose {
    PPO_STREAM_ENV,    /* index: environment */
    PPO_STREAM_ACTION, /* index: agent, over all environments; where a policy is evaluated, over all episodes */
    PPO_STREAM_INIT,   /* index: 0 */
    PPO_STREAM_SHUFFLE,  /* index: 0; language models: 2 pass, 2 iteration + 1 */
    PPO_STREAM_EVALUATE, /* index: episode */
    PPO_STREAM_TOKEN,    /* index: sequence; for the seed of an iteration's samples: iteration */
    PPO_STREAM_MATCH,    /* index: environment; who plays whom */
    PPO_STREAM_USER = 1024
} ppo_stream_purpose;

typedef struct ppo_rng {
    uint32_t key[2];     /* the seed */
    uint32_t counter[4]; /* position (low, high), index, purpose */
    uint32_t block[4];   /* the four numbers made from the last counter */
    uint32_t used;       /* how many of them have been drawn */
} ppo_rng;

PPO_DEF ppo_rng ppo_rng_stream(uint64_t seed, uint32_t purpose, uint32_t index);
PPO_DEF uint32_t ppo_rng_u32(ppo_rng *rng);
PPO_DEF float ppo_rng_uniform(ppo_rng *rng);                      /* [0, 1), a multiple of 2^-24 */
PPO_DEF float ppo_rng_range(ppo_rng *rng, float low, float high); /* [low, high) */
PPO_DEF float ppo_rng_normal(ppo_rng *rng);                       /* mean 0, variance 1 */
PPO_DEF int ppo_rng_below(ppo_rng *rng, int n);                   /* 0 .. n-1, unbiased; n <= 1 gives 0 */
PPO_DEF void ppo_rng_shuffle(ppo_rng *rng, int *x, int n);        /* Fisher and Yates */

/* --------------------------------------------------------------------------------------------------------
   3 Kernels: the hot loops exist once per instruction set; the best for the processor is chosen at run time
   -------------------------------------------------------------------------------------------------------- */

/* Chooses "plain", "vector16" (on 64-bit x86 with PPO_VECTOR16), "avx2", "avx512", "neon", "fma" or "amx" (with
   ppo_amx.h). NULL: the best of them, but never "amx". For tests and timing: results of different sets differ in
   the last bits. PPO_ERROR_ARGUMENT: this processor, its operating system or this build does not have the set. */
PPO_DEF ppo_status ppo_use_kernels(const char *name);
PPO_DEF const char *ppo_kernels_name(void);

/* --------------------------------------------------------------------------------------------------------
   4 Tensors: a matrix of floats, row-major, with room for its gradient
   -------------------------------------------------------------------------------------------------------- */

typedef struct ppo_tensor {
    int rows, cols;
    float *data; /* (rows, cols) */
    float *grad; /* d loss / d data, (rows, cols); NULL: no gradient is wanted */
} ppo_tensor;

/* The trainable parameters of a model. Their numbers lie side by side in one block, as do their gradients and
   moments, so that clipping and Adam are one pass. Each tensor starts on a 64-byte boundary; the gaps between
   tensors hold zeros. */
typedef struct ppo_params {
    size_t count;       /* floats in each block, gaps included */
    size_t capacity;    /* floats that each block has room for */
    float *data, *grad; /* the parameters, and d loss / d parameter */
    float *m, *v;       /* Adam's first and second moments */
    int64_t step;       /* optimizer steps taken */
    int tensor_count;
    ppo_tensor **tensors;       /* [tensor_count], in the order added */
    const char **names;         /* [tensor_count], as "actor.0.weight"; owned by the set */
    float *lr_scale;            /* [tensor_count]: factors of the learning rate; 1 by default */
    int decay_matrices;         /* 1: weight decay is not of rows, such as biases and norms; 0: of all */
    int frozen;                 /* 1: grad, m and v are NULL, and so is the grad of each tensor */
    uint16_t *packed;           /* instead of data, which then is NULL, too */
    struct ppo__mirror *mirror; /* private: a copy on a GPU, or NULL */
} ppo_params;

PPO_DEF ppo_status ppo_params_create(ppo_params **params);
PPO_DEF void ppo_params_free(ppo_params *params);

/* Adds a parameter of zeros, with a name of its own. The tensor stays valid until ppo_params_free(), but the
   next call may move its data and grad. NULL on failure. */
PPO_DEF ppo_tensor *ppo_params_add(ppo_params *params, const char *name, int rows, int cols);

/* Frozen 1: frees the gradients and moments of a set that nothing trains, three quarters of its memory; 0: takes
   new ones, zeros, if it is frozen. Language models that were loaded or copied are frozen until something trains
   them: fits and PPO take what they need. */
PPO_DEF ppo_status ppo_params_freeze(ppo_params *params, int frozen);

/* Brings the blocks back from a GPU (ppo_cuda.cuh), where those of a language model stay between calls of the
   library. Call it before you read or change them: then they are the ones that count, until a call uses the model
   again. A tape of your own computes on the processor and calls it for you; between such a tape's forward and
   backward no other call may use the model. Without a GPU it does nothing. Errors: those of the device. */
PPO_DEF ppo_status ppo_params_sync(ppo_params *params);

/* Fills a weight with a random (semi-)orthogonal matrix times gain (Saxe et al. 2013; as PyTorch's orthogonal_). */
PPO_DEF ppo_status ppo_init_orthogonal(ppo_tensor *weight, float gain, ppo_rng *rng);

/* --------------------------------------------------------------------------------------------------------
   5 Autograd: an operation is computed when it is called, and recorded on a tape; backward walks the tape
   from its end. An operation returns its result, or NULL on failure. NULL operands pass through, so that a
   whole expression is checked once, by ppo_tape_backward() or ppo_tape_status(). Results live until
   ppo_tape_reset(), which keeps the memory for the next round. They are operands of their own tape; the numbers
   of one get to another tape by ppo_tape_detach().
   -------------------------------------------------------------------------------------------------------- */

typedef struct ppo_tape ppo_tape;

PPO_DEF ppo_status ppo_tape_create(ppo_tape **tape);
PPO_DEF void ppo_tape_free(ppo_tape *tape);
PPO_DEF void ppo_tape_reset(ppo_tape *tape);
PPO_DEF void ppo_tape_record(ppo_tape *tape, int on);     /* 0: no gradients; 1 is the default */
PPO_DEF ppo_status ppo_tape_status(const ppo_tape *tape); /* the first failure since the last reset */

/* Adds d loss / d x to the grad of every parameter, and of every other tensor of yours that has one; loss is (1, 1).
   Gradients accumulate until ppo_params_zero_grad(). Those of results on the tape are undefined afterwards. */
PPO_DEF ppo_status ppo_tape_backward(ppo_tape *tape, ppo_tensor *loss);

/* Wraps the caller's floats (rows, cols), which must stay valid until the tape's reset; it has no gradient. */
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
PPO_DEF ppo_tensor *ppo_tape_square(ppo_tape *tape, ppo_tensor *x);
PPO_DEF ppo_tensor *ppo_tape_clamp(ppo_tape *tape, ppo_tensor *x, float low, float high);
/* scale x + shift */
PPO_DEF ppo_tensor *ppo_tape_scale(ppo_tape *tape, ppo_tensor *x, float scale, float shift);

PPO_DEF ppo_tensor *ppo_tape_sum(ppo_tape *tape, ppo_tensor *x);         /* (1, 1) */
PPO_DEF ppo_tensor *ppo_tape_mean(ppo_tape *tape, ppo_tensor *x);        /* (1, 1) */
PPO_DEF ppo_tensor *ppo_tape_log_softmax(ppo_tape *tape, ppo_tensor *x); /* per row */

/* out[i] = x[i][index[i]]: (rows, 1). index [rows] must stay valid until the tape's reset. */
PPO_DEF ppo_tensor *ppo_tape_gather(ppo_tape *tape, ppo_tensor *x, const int *index);

/* (n, k) x (k, m) -> (n, m) */
PPO_DEF ppo_tensor *ppo_tape_matmul(ppo_tape *tape, ppo_tensor *a, ppo_tensor *b);

/* Activations. GELU (Hendrycks and Gimpel 2016) is its tanh form, as in GPT-2, or exact, with erf. SiLU is x times
   the logistic function of x. ELU (Clevert 2015) is x, below 0 exp(x) - 1. activate() applies one of them. */
typedef enum ppo_activation {
    PPO_IDENTITY,
    PPO_TANH,
    PPO_RELU,
    PPO_GELU,
    PPO_GELU_ERF,
    PPO_SILU,
    PPO_ELU,
    PPO__ACTIVATIONS
} ppo_activation;
PPO_DEF ppo_tensor *ppo_tape_activate(ppo_tape *tape, ppo_tensor *x, ppo_activation activation);

/* activation(x w + b): x (n, in), w (in, out), b (1, out) or NULL -> (n, out). One fused operation. */
PPO_DEF ppo_tensor *ppo_tape_linear(ppo_tape *tape, ppo_tensor *x, ppo_tensor *w, ppo_tensor *b,
                                    ppo_activation activation);

/* a b^T: (n, k) x (m, k) -> (n, m) */
PPO_DEF ppo_tensor *ppo_tape_matmul_transposed(ppo_tape *tape, ppo_tensor *a, ppo_tensor *b);

/* out[i] = row index[i] of table: (n, cols). index [n] must stay valid until the tape's reset. */
PPO_DEF ppo_tensor *ppo_tape_embedding(ppo_tape *tape, ppo_tensor *table, const int *index, int n);

/* Per row (x - mean) / sqrt(var + eps) weight + bias (Ba 2016), and x / sqrt(mean of x^2 + eps) weight (Zhang
   2019); weight and bias are (1, cols). eps must be above 0; 1e-5 is usual. */
PPO_DEF ppo_tensor *ppo_tape_layer_norm(ppo_tape *tape, ppo_tensor *x, ppo_tensor *weight, ppo_tensor *bias,
                                        float eps);
PPO_DEF ppo_tensor *ppo_tape_rms_norm(ppo_tape *tape, ppo_tensor *x, ppo_tensor *weight, float eps);
/* The columns of a, then those of b: (n, p), (n, q) -> (n, p + q). */
PPO_DEF ppo_tensor *ppo_tape_concat(ppo_tape *tape, ppo_tensor *a, ppo_tensor *b);
/* From x (n, 2 k), f(the first k columns) times the others: (n, k) (gated linear units, Shazeer 2020). */
PPO_DEF ppo_tensor *ppo_tape_glu(ppo_tape *tape, ppo_tensor *x, ppo_activation activation);

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
    int outputs;                           /* 1 or 2, all of the same shape */
    ppo_status (*forward)(ppo_node *node); /* on failure: ppo_fail() and return its status */
    void (*backward)(ppo_node *node);
} ppo_op;
struct ppo_node {
    const ppo_op *op;
    ppo_tape *tape; /* for ppo_tape_alloc() */
    ppo_tensor *in[PPO_MAX_INPUTS];
    ppo_tensor *out[PPO_MAX_OUTPUTS]; /* gradients have their memory in backward alone */
    void *args;                       /* a copy of the operation's own arguments */
    void *kept;                       /* what forward leaves for backward; memory from ppo_tape_alloc() */
    float *scratch;                   /* valid during the current call only */
};

/* Runs and records an operation: n_in inputs (NULL: an optional operand that is left out), outputs of (rows,
   cols), args_size bytes of args, which are copied. Returns the node, whose results are in ->out, or NULL. */
PPO_DEF ppo_node *ppo_tape_apply(ppo_tape *tape, const ppo_op *op, ppo_tensor *const *in, int n_in, int rows,
                                 int cols, const void *args, size_t args_size);
/* The node's first result; NULL if node is. */
PPO_DEF ppo_tensor *ppo_tape_result(ppo_node *node);
/* Memory for n floats, valid until the tape's reset; NULL on failure. */
PPO_DEF float *ppo_tape_alloc(ppo_tape *tape, size_t n);

enum { PPO_MAX_LAYERS = 64 }; /* of any network, transformer or setting of widths */

/* --------------------------------------------------------------------------------------------------------
   6 Files and settings: settings by name, and named arrays and texts in one file of the safetensors format, which
   Python's package of that name reads and writes as well: 8 bytes with the length of the header (little-endian);
   the header,

   {"__metadata__":{"key":"text"},"name":{"dtype":"F32","shape":[4,64],"data_offsets":[0,1024]}}

   padded with spaces to a multiple of 8; the arrays, row-major, little-endian on every machine, without gaps.
   -------------------------------------------------------------------------------------------------------- */

/* Element types. Files with others (I16, F8_E4M3, ...) are refused. F16 and BF16 are floats of 2 bytes: those of
   IEEE 754, and the upper half of a float. */
typedef enum ppo_dtype {
    PPO_BOOL,
    PPO_U8,
    PPO_F16,
    PPO_BF16,
    PPO_I32,
    PPO_U32,
    PPO_F32,
    PPO_F64,
    PPO_I64,
    PPO_U64
} ppo_dtype;
enum { PPO_MAX_RANK = 8 };

typedef struct ppo_array {
    const char *name;
    ppo_dtype type;
    int rank;                    /* rank 0: a single number */
    int64_t shape[PPO_MAX_RANK]; /* [rank]; a 0 among them: no elements */
    size_t bytes;
    const void *data; /* row-major; on a 64-byte boundary if it was read from a file */
} ppo_array;

typedef struct ppo_file ppo_file; /* the content of a file, in memory */

PPO_DEF ppo_status ppo_file_create(ppo_file **file);
PPO_DEF void ppo_file_free(ppo_file *file);

/* Adds a text, or replaces that of the same key. Both are UTF-8 and copied. */
PPO_DEF ppo_status ppo_file_set_text(ppo_file *file, const char *key, const char *text);

/* Adds an array under a new name (UTF-8, copied). data is borrowed: it must last until the last write. */
PPO_DEF ppo_status ppo_file_add(ppo_file *file, const char *name, ppo_dtype type, const int64_t *shape,
                                int rank, const void *data);

/* Writes all of it, and makes missing directories. The same content gives the same bytes, in whatever order it was
   added and on every machine: those of Python's package, up to the order of the texts. The new file replaces an old
   one in one step when it is complete and on the disk (which only Unix and Windows wait for): after a crash the file
   is the old one or the new one, and perhaps a ppo-....tmp is left, which can be deleted. A symbolic link is replaced,
   not followed; the permissions are those of a new file. Error: on Windows, the old file is open elsewhere. */
PPO_DEF ppo_status ppo_file_write(const ppo_file *file, const char *path);

/* Reads a whole file: PPO_ERROR_FILE if it breaks any rule of the format. Stricter than Python's package:
   repeated names, unknown members, characters of code 0 and more than PPO_MAX_RANK dimensions are errors. */
PPO_DEF ppo_status ppo_file_read(const char *path, ppo_file **file);

/* Arrays and texts by name, or by index 0 .. count-1, sorted by name; NULL: none. Valid until ppo_file_free(). */
PPO_DEF const ppo_array *ppo_file_find(const ppo_file *file, const char *name);
PPO_DEF const char *ppo_file_text(const ppo_file *file, const char *key);
PPO_DEF int ppo_file_count(const ppo_file *file);
PPO_DEF const ppo_array *ppo_file_at(const ppo_file *file, int index);
PPO_DEF const char *ppo_file_key_at(const ppo_file *file, int index); /* of a text */

/* Settings by name, for command lines and files: a table with one row for each field of a struct of settings.
   In a name '-' may stand for '_'. */
typedef enum ppo_field_type {
    PPO_FIELD_INT,
    PPO_FIELD_I64,
    PPO_FIELD_U64,
    PPO_FIELD_FLOAT,
    PPO_FIELD_CHOICE,
    PPO_FIELD_WIDTHS,
    PPO_FIELD_KERNELS
} ppo_field_type;
enum { PPO_FIELD_NETWORK = 1 };
typedef struct ppo_field {
    const char *name;
    /* WIDTHS: int [PPO_MAX_LAYERS], followed by an int that says how many are used; KERNELS: int [PPO_MAX_LAYERS][3],
       likewise */
    ppo_field_type type;
    size_t offset;       /* in the struct */
    const char *initial; /* its default as text; NULL: it has none and is 0 */
    double min, max;     /* both allowed */
    const char *choices; /* CHOICE: the words for min, min + 1, ... as "constant|linear|cosine"; else NULL */
    const char *help;
    int kind;    /* 0 or PPO_FIELD_NETWORK */
    size_t size; /* CHOICE: of the field if it is an enum, in bytes; 0: it is an int */
} ppo_field;

/* A setting that has an effect only if another one is one of these words, as "a|b", or none of them, as "!a|b"
   (NULL: "!0|none"). */
typedef struct ppo_need {
    const char *name, *other, *words;
} ppo_need;

/* Settings under a name: those in `resets`, separated by blanks, get their defaults, those in `values` are set. */
typedef struct ppo_preset {
    const char *name, *resets, *values;
} ppo_preset;

typedef struct ppo_settings {
    const ppo_field *field; /* [count] */
    int count;
    const ppo_need *need;     /* ends with a name of NULL; NULL: every setting always has an effect */
    const ppo_preset *preset; /* likewise; NULL: none */
    const char *preset_names; /* "a|b|c" */
} ppo_settings;

/* _set() sets one from text; _set_all() several, as "gamma=0.9 hidden=64,64", and keeps those before an
   invalid one. _get() writes one as the text that _set() reads. _preset() sets those of a preset; all others
   stay as they are. Errors: an unknown name, a value out of range, too little room for the text. */
PPO_DEF ppo_status ppo_settings_set(const ppo_settings *settings, void *config, const char *name,
                                    const char *value);
PPO_DEF ppo_status ppo_settings_set_all(const ppo_settings *settings, void *config, const char *text);
PPO_DEF ppo_status ppo_settings_get(const ppo_settings *settings, const void *config, const char *name,
                                    char *text, size_t size);
PPO_DEF ppo_status ppo_settings_preset(const ppo_settings *settings, void *config, const char *name);
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
   sample). Functions without a status do nothing where a pointer is NULL.
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

/* A random token from a row of logits, temperature > 0; the most likely token, the first of equals. A logit of
   -INFINITY is impossible here, too; the others must be finite. NULL: 0. */
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
PPO_DEF void ppo_gaussian_sample(const float *mean, const float *log_std, int dim, ppo_rng *rng,
                                 float *action);
PPO_DEF ppo_status ppo_gaussian_kl(const float *p_mean, const float *p_log_std, const float *q_mean,
                                   const float *q_log_std, int n, int dim, float *kl);

/* Squashes Gaussian numbers u (n, dim) into a box: action = low + (high - low) (tanh(u) + 1) / 2. The log-
   probability of an action is that of its u less log_det[i], the sum of log(d action / d u) over row i. */
PPO_DEF void ppo_squash(const float *u, size_t count, float low, float high, float *action);
PPO_DEF void ppo_squash_log_det(const float *u, int n, int dim, float low, float high, float *log_det);

/* The entropy of a squashed number is log_std + log(2 pi e) / 2 plus this, the mean of its log_det, within 1e-4; the
   derivatives along mean and log_std may be NULL. -logp estimates the same number, but is no term of a loss: at fixed
   actions its gradient is 0 on average, whatever the entropy's is, and has no bound where they are another policy's. */
PPO_DEF float ppo_squash_mean_log_det(float mean, float log_std, float low, float high, float *d_mean,
                                      float *d_log_std);

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

/* Sets the logits of illegal actions, where mask (rows, cols) is 0, to -INFINITY: their probability is exactly
   0, whatever the legal logits are, and no gradient flows into them (Huang and Ontanon 2022). Without a legal
   action there is no distribution: its log-probabilities are NaN. */
PPO_DEF ppo_tensor *ppo_tape_mask(ppo_tape *tape, ppo_tensor *logits, const unsigned char *mask);

/* Bits of an argument `want`, which outputs of a model to compute: logits or means; V, the critic's value. */
typedef enum ppo_output_bits { PPO_POLICY = 1, PPO_VALUE = 2 } ppo_output_bits;

/* --------------------------------------------------------------------------------------------------------
   8 Advantages
   -------------------------------------------------------------------------------------------------------- */

/* Generalized advantage estimation (Schulman 2016, eq. 16), time-major [steps][envs]:
       delta_t = reward_t + gamma (1 - terminated_t) next_value_t - value_t
       A_t     = delta_t + gamma lambda (1 - done_t) A_{t+1},    done = terminated or truncated
       value_target = A + value
   next_value[t] is V of the observation that followed step t, before any reset: value[t + 1] within an
   episode, not read where terminated is set, which wins over truncated. Both cut the recursion (NULL: all 0).
   value_target may be NULL. lambda 0 is one-step TD, lambda 1 is Monte Carlo minus
   baseline. Errors: gamma or lambda outside 0 to 1. */
PPO_DEF ppo_status ppo_gae(const float *reward, const float *value, const float *next_value,
                           const unsigned char *terminated, const unsigned char *truncated, int steps,
                           int envs, float gamma, float lambda, float *advantage, float *value_target);

/* x = (x - mean) / std, with mean and unbiased std (n - 1) of the unmasked elements, 0 if all are equal;
   shift_mean 0 adds the mean back. Does not change masked elements, nor a single unmasked one, which has no variance.
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
typedef enum ppo_objective {
    PPO_CLIP,
    PPO_KL_PENALTY,
    PPO_UNCLIPPED,
    PPO_K3_PENALTY,
    PPO_CISPO,
    PPO__OBJECTIVES
} ppo_objective;

typedef struct ppo_policy_objective {
    ppo_objective objective;   /* any but PPO_KL_PENALTY [PPO_CLIP] */
    float clip_low, clip_high; /* as in the paper [0.2, 0.2] */
    float dual_clip;           /* > 1: where A < 0, r A is at least dual_clip A (Ye 2020); else off [0] */
    float kl_coef;             /* of PPO_K3_PENALTY [1] */
} ppo_policy_objective;
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

typedef enum ppo_kl_estimator { PPO_K1 = 1, PPO_K2, PPO_K3, PPO_KL_EXACT } ppo_kl_estimator;

/* kl[i]: estimates of KL(pi || ref) by PPO_K1, PPO_K2 or PPO_K3, one per sample of pi, with l = ref_logp - logp:
   k1 = -l (unbiased), k2 = l^2 / 2 (low variance), k3 = exp(l) - 1 - l (both; never negative). Schulman 2020.

   So: report k1, as ppo_rlhf_progress and ppo_lm_evaluation do. It is noisy and may be negative, but its mean
   over the many tokens of an iteration is accurate. Near ref, k3 has less noise; far from it, rare samples of a
   large exp(l) carry much of its mean, and most batches have none. In a reward use k1; in a loss use k3
   weighted by r (PPO on tokens: kl_weighted), or k2 in the first step after sampling. GRPO differentiates k3 as
   it is: it constrains the KL in the other direction.

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
   a cost in the reward is credited to them, too. */
PPO_DEF ppo_status ppo_kl_estimate(const float *logp, const float *ref_logp, int n,
                                   ppo_kl_estimator estimator, float *kl);

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
/* ppo_huber_value_loss(); delta INFINITY: ppo_value_loss() */
PPO_DEF ppo_tensor *ppo_tape_value_loss(ppo_tape *tape, ppo_tensor *value, const float *old_value,
                                        const float *target, const unsigned char *mask, float clip_range,
                                        float delta);
PPO_DEF ppo_tensor *ppo_tape_pairwise_loss(ppo_tape *tape, ppo_tensor *chosen_score,
                                           ppo_tensor *rejected_score);

/* --------------------------------------------------------------------------------------------------------
   10 Optimizer
   -------------------------------------------------------------------------------------------------------- */

typedef struct ppo_adam {
    float lr;           /* the learning rate [3e-4] */
    float beta1, beta2; /* [0.9, 0.999] */
    float eps;          /* added to sqrt(v), as PyTorch does [1e-5] */
    float weight_decay; /* decoupled (AdamW, Loshchilov 2017) [0] */
} ppo_adam;
PPO_DEF ppo_adam ppo_adam_default(void);

/* One step of Adam (Kingma 2014) over n parameters; step counts from 1, m and v start as zeros. No pointer may be
   NULL; nothing can fail, but numbers that ppo_params_step() refuses may give NaN. */
PPO_DEF void ppo_adam_step(float *param, const float *grad, float *m, float *v, size_t n,
                           const ppo_adam *adam, int64_t step);

/* Scales grad so that its Euclidean norm is at most max_norm (<= 0: no limit), unless it is not finite.
   Returns the norm before. */
PPO_DEF float ppo_clip_grad_norm(float *grad, size_t n, float max_norm);

/* Zero the gradients, before the first backward pass of a step; those, Adam's moments and the count of steps,
   for a new training. NULL: does nothing. */
PPO_DEF void ppo_params_zero_grad(ppo_params *params);
PPO_DEF void ppo_params_reset_optimizer(ppo_params *params);

/* Runs Adam over a set of parameters, with gradients clipped as ppo_clip_grad_norm() does; those in the set
   stay as they were. *grad_norm (may be NULL) is the norm before clipping. If that is not finite, changes
   nothing and returns PPO_ERROR_NUMERIC. Error: eps is not above 0, or a beta outside [0, 1). */
PPO_DEF ppo_status ppo_params_step(ppo_params *params, const ppo_adam *adam, float max_grad_norm,
                                   float *grad_norm);

/* A value at `progress`, from 0 to 1: initial throughout; from initial to 0 linearly; the same along half a
   cosine. PPO_CUSTOM is for settings, where ppo_config.schedule is asked; here it acts as PPO_CONSTANT. */
typedef enum ppo_schedule_kind { PPO_CONSTANT, PPO_LINEAR, PPO_COSINE, PPO_CUSTOM } ppo_schedule_kind;
PPO_DEF float ppo_schedule(ppo_schedule_kind schedule, float initial, float progress);

/* Ziegler 2019: coef (1 + clip(observed / target - 1, -0.2, 0.2) n_steps / horizon). target_kl and horizon
   must be above 0, n_steps at most horizon. */
PPO_DEF float ppo_adaptive_kl(float coef, float observed_kl, float target_kl, int n_steps, int horizon);

/* Schulman 2017, section 4, once per iteration: coef / 2 if observed_kl < target_kl / 1.5, 2 coef if it is
   > 1.5 target_kl, else coef. */
PPO_DEF float ppo_adaptive_kl_2017(float coef, float observed_kl, float target_kl);

/* --------------------------------------------------------------------------------------------------------
   11 Normalizers: running mean and variance of samples (Chan et al. 1979); before the first one 0 and 1
   -------------------------------------------------------------------------------------------------------- */

typedef struct ppo_normalizer {
    int size;
    double count;
    double *mean, *var; /* [size] */
} ppo_normalizer;

/* update() adds the samples x (rows, size), infinite ones as +-FLT_MAX. free() frees the arrays, not the
   struct. Errors of init(): size <= 0, memory. */
PPO_DEF ppo_status ppo_normalizer_init(ppo_normalizer *norm, int size);
PPO_DEF void ppo_normalizer_free(ppo_normalizer *norm);
PPO_DEF void ppo_normalizer_update(ppo_normalizer *norm, const float *x, int rows);

/* out = clip((x - mean) / sqrt(var), -limit, limit), (rows, size), whatever their unit is: there is no epsilon.
   Where all samples were equal, and the variance is 0, that is 0 for their number, and else a limit. out may be x. */
PPO_DEF void ppo_normalize(const ppo_normalizer *norm, const float *x, int rows, float limit, float *out);

/* ========================================================================================================
   CONTROL
   ======================================================================================================== */

#ifndef PPO_NO_CONTROL

/* --------------------------------------------------------------------------------------------------------
   12 Spaces: the actions that an agent may take
   -------------------------------------------------------------------------------------------------------- */

typedef enum ppo_space_kind {
    PPO_DISCRETE = 1,
    PPO_BOX,
    PPO_MULTI_DISCRETE,
    PPO_MULTI_BINARY
} ppo_space_kind;
enum { PPO_MAX_CHOICES = 128 };
typedef struct ppo_space {
    ppo_space_kind
        kind; /* PPO_DISCRETE: one of n actions; PPO_BOX: n numbers; PPO_MULTI_...: n choices at once */
    int n;
    float low, high;            /* PPO_BOX: the environment sees numbers in [low, high] */
    int sizes[PPO_MAX_CHOICES]; /* PPO_MULTI_...: choice j is one of sizes[j] */
} ppo_space;
/* One of n actions; n numbers, each in [low, high] (which may be -INFINITY and INFINITY); n choices, choice j
   of sizes[j] options; n bits. An untrained policy gives numbers around 0 with a standard deviation of 1. A box
   that these do not fit is mapped to -1..1 (ppo_config.scale_actions). */
PPO_DEF ppo_space ppo_discrete(int n);
PPO_DEF ppo_space ppo_box(int n, float low, float high);
PPO_DEF ppo_space ppo_multi_discrete(const int *sizes, int n);
PPO_DEF ppo_space ppo_multi_binary(int n);

typedef struct ppo_action {
    int discrete;       /* PPO_DISCRETE: 0 .. n-1 */
    const int *choices; /* PPO_MULTI_...: [n], choice j is 0 .. sizes[j]-1; PPO_DISCRETE: [1] */
    const float *box;   /* PPO_BOX: [n] numbers, within [low, high] */
} ppo_action;

/* The actions of a batch: discrete (rows, 1), for PPO_MULTI_... (rows, n), or box (rows, n) before scaling,
   clipping or squashing; the other one is NULL. */
typedef struct ppo_actions {
    int *discrete;
    float *box;
} ppo_actions;

/* --------------------------------------------------------------------------------------------------------
   13 Networks
   -------------------------------------------------------------------------------------------------------- */

/* A multilayer perceptron: layer k is activation(x W_k + b_k), the last one linear. Its parameters are
   "name.k.weight" (in, out) and "name.k.bias" (1, out) of the set; where x W_k + b_k goes through layer norm,
   also "name.k.norm.weight" and "name.k.norm.bias" (1, out). */
typedef struct ppo_mlp {
    int layers;
    int hidden_activation, last_activation;
    ppo_tensor *weight[PPO_MAX_LAYERS];
    ppo_tensor *bias[PPO_MAX_LAYERS];
    ppo_tensor *norm_weight[PPO_MAX_LAYERS], *norm_bias[PPO_MAX_LAYERS]; /* NULL: no layer norm */
} ppo_mlp;

/* Layers: sizes[0] inputs, sizes[1], ..., sizes[layers] outputs. Orthogonal weights, gain sqrt(2) (last
   layer: last_gain), zero biases. last_activation is PPO_IDENTITY for a head. An activation | PPO_NORMED has
   layer norm before it (Ba 2016; epsilon 1e-5). rng NULL: zero weights. */
enum { PPO_NORMED = 64 };
PPO_DEF ppo_status ppo_mlp_init(ppo_mlp *mlp, ppo_params *params, const char *name, const int *sizes,
                                int layers, int hidden_activation, int last_activation, float last_gain,
                                ppo_rng *rng);
/* (n, in) -> (n, out) */
PPO_DEF ppo_tensor *ppo_mlp_forward(ppo_tape *tape, const ppo_mlp *mlp, ppo_tensor *x);

/* Convolutions over pictures (ppo_conv.h), each followed by the activation. shape is {channels, height, width},
   a layer is {channels, kernel, stride}; channels 0: it is max pooling, which keeps them and has no activation.
   Parameters: "conv.k.weight" (kernel kernel channels before, channels) and "conv.k.bias" (1, channels) of the
   set; see ppo_tape_conv(). */
typedef struct ppo_conv {
    int layers; /* 0: there are none */
    ppo_activation activation;
    int shape[PPO_MAX_LAYERS + 1][3]; /* of the pictures before each layer, and of the results */
    int kernel[PPO_MAX_LAYERS], stride[PPO_MAX_LAYERS];
    ppo_tensor *weight[PPO_MAX_LAYERS]; /* NULL: max pooling */
    ppo_tensor *bias[PPO_MAX_LAYERS];
} ppo_conv;

/* The steps of several sequences, the longest first, as rows of a batch for a recurrent core. The rows are packed by
   time: step 0 of all sequences, then step 1 of the count[1] that have one, ... Row (t, k) belongs to sequence k. */
typedef struct ppo_sequences {
    int steps;                  /* of the longest; 0: every row is a sequence of its own */
    const int *count;           /* [steps] */
    const float *state;         /* [count[0]][width] before each sequence's first step; NULL: zeros */
    const unsigned char *start; /* [rows] 1: an episode begins, from a state of zeros; NULL: none */
} ppo_sequences;

/* A layer of gated recurrent units (ppo_gru.h has the formulas): W = [W_r W_z W_n] side by side; U, b, c alike. */
typedef struct ppo_gru {
    int width;                /* 0: there is none */
    ppo_tensor *input_weight; /* (in, 3 width) W */
    ppo_tensor *input_bias;   /* (1, 3 width) b */
    ppo_tensor *state_weight; /* (width, 3 width) U */
    ppo_tensor *state_bias;   /* (1, 3 width) c */
} ppo_gru;

/* Policy and value networks over one parameter set. Separate: "actor" and "critic" have hidden layers of
   their own. Shared: a "trunk" of hidden layers feeds both heads. A recurrent "core" is between the trunk (or
   the observation) and both heads. Convolutions, "conv", come before all of it and feed both; numbers beside
   the picture join after them. All of these read the actor's part of an observation; the rest goes only to
   the critic's own layers. Gains: 0.01 for the policy head, 1 for the value head. */
typedef struct ppo_actor_critic {
    int obs_size, actor_obs; /* actor_obs: the actor's part, 1 to obs_size */
    ppo_space action_space;
    ppo_params *params;
    int shared;
    ppo_conv conv; /* no layers: none */
    ppo_mlp trunk; /* shared only; the heads are then single layers */
    ppo_gru core;  /* width 0: none */
    ppo_mlp actor, critic;
    ppo_tensor *log_std; /* PPO_BOX only: (1, n), independent of the observation; gsde: (features, n) */
    float log_std_min, log_std_max; /* used in its place where it lies beyond */
    int gsde, squash;
    int scale; /* 1: a number x of the policy is the action centre + x half the size of the box, clipped */
} ppo_actor_critic;

/* Initial weights. Uniform: PyTorch's defaults, in +- 1 / sqrt(inputs), for a core 1 / sqrt(width). */
typedef enum ppo_weight_init { PPO_ORTHOGONAL, PPO_UNIFORM } ppo_weight_init;

/* What the networks read and compute. */
typedef struct ppo_inputs {
    int rows;
    const float *obs;          /* (rows, obs_size) */
    const unsigned char *mask; /* (rows, logits) 0: illegal; NULL: all are legal */
    ppo_sequences sequences;   /* recurrent only; zeros: one step each, from a state of zeros */
    /* byte_scale times these instead of obs (rows, obs_size), or of its first byte_count numbers: obs has the rest */
    const unsigned char *obs_bytes;
    float byte_scale;
    int byte_count; /* 0: all */
} ppo_inputs;
typedef struct ppo_outputs {
    ppo_tensor *policy;   /* (rows, logits), those that are masked -INFINITY; PPO_BOX: means (rows, n) */
    ppo_tensor *log_std;  /* PPO_BOX: (1, n), gsde: (rows, n) */
    ppo_tensor *features; /* what the policy head reads (rows, features) */
    ppo_tensor *value;    /* (rows, 1) */
    ppo_tensor *state;    /* recurrent: the state after each row (rows, width) */
} ppo_outputs;

/* want: PPO_POLICY, PPO_VALUE, or both by |; outputs that are not wanted are NULL, after a failure all of them. The
   arrays must stay until ppo_tape_reset(). */
PPO_DEF ppo_outputs ppo_actor_critic_forward(ppo_tape *tape, const ppo_actor_critic *model,
                                             const ppo_inputs *inputs, int want);

/* The log-probability and the entropy (either may be NULL) of actions, both (rows, 1), from forward's outputs. */
PPO_DEF void ppo_actor_critic_logp(ppo_tape *tape, const ppo_actor_critic *model, const ppo_outputs *outputs,
                                   const ppo_actions *actions, ppo_tensor **logp, ppo_tensor **entropy);

/* --------------------------------------------------------------------------------------------------------
   14 Environments and rollouts: the interface of an environment, and the record of what many of them did
   -------------------------------------------------------------------------------------------------------- */

enum { PPO_MAX_METRICS = 8 };
typedef struct ppo_outcome { /* zeroed before every step */
    float reward;
    int terminated; /* 1: the task ended, no reward would follow */
    /* 1: cut short by something outside the task; max_steps does this by itself. Ignored where terminated is 1 */
    int truncated;
    /* 1: the agent does not act in the next step, as when it is another one's turn. Its observation is not
       read; rewards until it acts again count for its latest action */
    int waits;
    int joins; /* 1: an agent that is out, or whose episode has just terminated, begins a new one here */
    float metrics[PPO_MAX_METRICS]; /* read where an episode ends: see env.metrics */
} ppo_outcome;

typedef struct ppo_env {
    const char *name; /* may be NULL */
    int obs_size;     /* floats in an observation */
    /* the actor sees the first actor_obs of them, the critic all: what only a simulator knows comes last
       (Pinto et al. 2017); 0: both see all */
    int actor_obs;
    /* of the picture that the actor sees first, as [channels][height][width]: what ppo_config.conv needs. The rest
       of what it sees are numbers, which join after the convolutions; zeros: there is no picture */
    int shape[3];
    /* above 0: every number of the picture, without `shape` of the observation, is a whole one from 0 to 255 times
       this, like pixels (1 / 255.f), and a rollout keeps it in a byte; 0: floats */
    float byte_scale;
    ppo_space action_space; /* ppo_discrete(n), ppo_box(n, low, high), ... */
    /* bytes of one copy's state; zeroed before open and the first reset. Writing within 16 bytes beyond it,
       the observation or the mask is an error */
    size_t state_size;
    int max_steps; /* time limit of an episode; 0: none, it must end by itself */
    /* How many copies of this world can exist at the same time in a process: 1 if its state is in global variables; 0:
       any number. num_envs cannot ask for more. What needs copies, as an evaluation between two iterations does, closes
       those of a trainer with the same functions and `user`: its episodes then begin anew, as do those of a resumed
       training. Use the world in one thread at a time; all functions of a single copy are called in the caller's. */
    int copies;
    void (*reset)(void *state, ppo_rng *rng, float *obs);
    void (*step)(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out);
    /* Several agents in one world, all with the policy that is trained: these two instead of reset and step, with
       arrays [agents], obs [agents][obs_size], and the mask [agents][options]. ppo_config.num_envs counts agents. An
       agent is out once its episode has ended, until it joins again; its observation is not read then, and its
       action, as that of an agent that waits, is 0, with choices and box NULL. reset_all may let agents out (terminated) or
       wait. A world in which all are out is reset; max_steps is its time limit, which truncates those that are in. */
    int agents;
    int teams; /* for self_play: agents 0 .. agents/teams-1 are one team, and so on; 0: none */
    void (*reset_all)(void *state, ppo_rng *rng, float *obs, ppo_outcome *out);
    void (*step_all)(void *state, ppo_rng *rng, const ppo_action *actions, float *obs, ppo_outcome *out);
    /* Instead of step or step_all, for a simulator that steps many copies at once: n copies side by side, with states
       of state_size bytes, and the arrays rng [n], actions and out [n][agents], obs [n][agents][obs_size]. Each copy
       does what it would do alone. In training it is called once per step in each thread, for all copies of that
       thread; in an evaluation for neighbours whose episodes are not over. reset is for one copy. */
    void (*step_many)(int n, void *state, ppo_rng *rng, const ppo_action *actions, float *obs,
                      ppo_outcome *out);
    /* Sets mask to 0 for illegal actions; NULL: all are legal. mask is filled with 1 before the call, a byte
       per option: [n] for PPO_DISCRETE; the options of choice 0, then those of choice 1, ... for
       PPO_MULTI_... At least one per choice must stay. Unused for PPO_BOX. Several agents: of one after the other. */
    void (*action_mask)(const void *state, unsigned char *mask);
    /* Prints the state as text, always the same number of lines, for a person to watch. May be NULL. */
    void (*draw)(const void *state, FILE *file);
    /* For resources outside the state; both may be NULL. open is called once per copy, before the first
       reset, with `user` and the copy's number from 0. It returns 0, or not 0 for failure, and may give a
       reason by ppo_fail(). close releases the resources; it is not called for a copy whose open failed. */
    int (*open)(void *state, void *user, int copy);
    void (*close)(void *state);
    void *user; /* for open; all other functions but draw find it by ppo_env_user() */
    /* Names of metrics of its own, like "goals", up to 40 letters, digits, _, - and .; NULL ends the list.
       Their means over the last 100 episodes are in ppo_progress and in logs, there as "env/goals". */
    const char *metrics[PPO_MAX_METRICS];
} ppo_env;

/* For an environment's functions: the `user` of the environment whose function is running in this thread, NULL
   if none is. The library never calls draw: to it this says what it says to its caller. */
PPO_DEF void *ppo_env_user(void);
/* For an environment that wraps another one: what ppo_env_user() returns to it, until the running function ends. */
PPO_DEF void ppo_env_set_user(void *user);
/* For open, reset, step and action_mask: the call failed, for this reason. What led to it ends with
   PPO_ERROR_ARGUMENT, and with the reason in its sentence; a trainer's next iteration begins new episodes. */
PPO_DEF void ppo_env_fail(const char *format, ...);

/* What `envs` agents did in `steps` steps, time-major: [steps][envs], or [steps][envs][size]. Row t is what
   an agent did when it acted for the t-th time: agents that wait, are out, or are played by an earlier
   policy, have fewer rows than `steps`, and zeros below. */
typedef struct ppo_rollout {
    int steps, envs;
    int *recorded; /* [envs] rows of each agent */

    /* what the policy saw */
    float *obs; /* [][][obs_size], normalized if it normalizes; or what is not bytes; NULL: all are */
    /* [][][byte_count] the first numbers, where env.byte_scale is set and normalize_obs is not; else NULL */
    unsigned char *obs_bytes;
    float byte_scale; /* of env */
    int byte_count;
    unsigned char *mask;  /* [][][logits]; NULL: all actions were legal */
    float *state;         /* recurrent: [][][width], before the step; else NULL */
    unsigned char *start; /* recurrent: 1 at the first step of an episode; else NULL */

    /* what it did */
    ppo_actions actions;     /* [][][1 or n], before scaling, clipping or squashing */
    float *logp;             /* log-probability of the action */
    float *policy, *log_std; /* for PPO_KL_PENALTY: logits, or means and log_std; else NULL */

    /* what followed */
    float *reward;     /* as the critic sees it: normalized if normalize_reward is set */
    float *raw_reward; /* normalize_reward: as the environment gave it; else NULL, as `reward` is that */
    unsigned char *terminated, *truncated;
    float *episode_return; /* of the episode that ended here, raw rewards */
    int *episode_length;   /* likewise; 0: none ended */
    float *metrics;        /* [][][env.metrics], of that episode; NULL: there are none */

    /* what the critic says, and ppo_gae() */
    float *value, *next_value;
    /* recompute_advantages: what next_value is of, where no row has it; zeros elsewhere */
    float *next_obs, *next_state;
    float *advantage, *value_target;
} ppo_rollout;

/* --------------------------------------------------------------------------------------------------------
   15 Training and evaluation: the agent, the training loop, evaluation
   -------------------------------------------------------------------------------------------------------- */

/* The report of an iteration; names in brackets are Stable-Baselines3's. */
typedef struct ppo_progress {
    struct ppo_agent *agent; /* may be evaluated, saved and exported: no bit of the run depends on it */
    int64_t iteration;       /* 1, 2, ... */
    int64_t steps;           /* environment steps done so far [time/total_timesteps] */
    int64_t total_steps;     /* and to do */
    int64_t iteration_steps; /* those of this iteration */
    double seconds;          /* since the start */
    double seconds_left;
    double steps_per_second; /* [time/fps] */

    /* episodes; the means are over the last 100 finished ones, NaN before the first */
    int64_t episodes;  /* finished so far */
    float mean_return; /* [rollout/ep_rew_mean] */
    float mean_length; /* [rollout/ep_len_mean] */
    float mean_reward; /* per step of this iteration, not normalized: what tells if no episode ends */
    /* likewise those of the environment, as env.metrics; the names are valid while the trainer is */
    const char *const *metric_names; /* [PPO_MAX_METRICS] */
    float metrics[PPO_MAX_METRICS];

    /* means over the iteration's minibatches [train/...] */
    float loss; /* all of its terms */
    float policy_loss, value_loss, entropy;
    float approx_kl, old_approx_kl, clip_fraction;
    float grad_norm;                        /* before clipping */
    float first_ratio_min, first_ratio_max; /* over the first minibatch: 1 and 1 (see REPRODUCIBILITY) */
    float last_loss;                        /* of the last minibatch [train/loss] */
    float last_approx_kl;                   /* over the last epoch alone [train/approx_kl] */
    float explained_variance;               /* of the rollout [train/explained_variance] */
    float kl;        /* exact KL(old || new) after the epochs; NaN unless penalty_target_kl asks for it */
    float std;       /* PPO_BOX: the policy's mean standard deviation; else 0 [train/std] */
    int epochs;      /* completed; fewer than configured if target_kl stopped them */
    int64_t updates; /* epochs begun since the start [train/n_updates] */
    int64_t gradient_steps; /* of this agent, in earlier trainings, too */

    /* settings as used in this iteration */
    float learning_rate, clip_range, kl_coef, entropy_coef;
    float value_clip; /* 0: off [train/clip_range_vf] */

    /* what seems to go wrong, and what to try: a sentence, or "". It stays until a twentieth of the run is complete,
       so whoever prints at those misses nothing */
    char warning[160];
    const char *symptom; /* its name, like "obs-far"; NULL: there is none */
    int64_t warned;      /* the latest iteration that showed it; 0: it was told in an earlier twentieth */
} ppo_progress;

/* Boxes that are mapped to -1..1. Auto: those of finite size, unless each bound is 1/4 to 4 away from 0 to its side,
   as N(0, 1) fits -1..1, -2..2 and -0.5..1, but not 0..1, 5..6, or -100..100. */
typedef enum ppo_action_scaling { PPO_SCALE_NO, PPO_SCALE_YES, PPO_SCALE_AUTO } ppo_action_scaling;

/* Called after every iteration, in a group by each of its processes. Return 0 to continue; anything else ends
   training, without an error. To keep the best policy: ppo_evaluate(progress->agent, ...), ppo_agent_save(). */
typedef int (*ppo_callback)(const ppo_progress *progress, void *user);

/* A schedule of your own, for the settings whose schedule is PPO_CUSTOM: the value, 0 or more, for the
   iteration that begins when `progress` (0 to 1) of the steps are done. */
typedef enum ppo_scheduled_setting {
    PPO_SETTING_LEARNING_RATE,
    PPO_SETTING_CLIP_LOW,
    PPO_SETTING_CLIP_HIGH,
    PPO_SETTING_ENTROPY_COEF
} ppo_scheduled_setting;
typedef float (*ppo_schedule_fn)(int setting, float initial, float progress, void *user);

/* Defaults in brackets. */
typedef struct ppo_config {
    /* experience; about total_steps see below */
    int64_t total_steps; /* environment steps, over all environments [100000] */
    int num_envs; /* environments side by side; with many, fewer rollout_steps, or few iterations remain [4] */
    int rollout_steps; /* steps of each per iteration [512] */

    /* learning from a rollout */
    int epochs; /* passes over it [10] */
    /* samples per gradient step at most: minibatches differ by one at most; 0: the whole rollout [64] */
    int minibatch_size;
    int shards;          /* of a minibatch, for threads and processes; 0: by its and the network's size [0] */
    float learning_rate; /* Adam's [3e-4] */
    ppo_schedule_kind
        learning_rate_schedule; /* PPO_CONSTANT, PPO_LINEAR, PPO_COSINE or PPO_CUSTOM [linear] */
    float critic_learning_rate; /* of the critic's own layers, scheduled alike; 0: learning_rate [0] */
    float max_grad_norm;        /* the gradient's norm is clipped to this; 0: off [0.5] */
    float adam_beta1;           /* [0.9] */
    float adam_beta2;           /* [0.999] */
    float adam_eps;             /* [1e-5] */
    float weight_decay;         /* decoupled, AdamW [0] */

    /* advantages */
    float gamma;              /* discount per step [0.99] */
    float gae_lambda;         /* 0: one-step TD, 1: Monte Carlo [0.95] */
    int normalize_advantage;  /* 1: per minibatch: mean 0, std 1 [yes] */
    int recompute_advantages; /* 1: before each epoch, by the critic as it is then [no] */

    /* the loss */
    ppo_objective objective;         /* any but PPO_K3_PENALTY [clip] */
    float clip_low;                  /* no gain from ratios below 1 - clip_low [0.2] */
    float clip_high;                 /* no gain from ratios above 1 + clip_high [0.2] */
    ppo_schedule_kind clip_schedule; /* as learning_rate_schedule, for both ranges [constant] */
    float dual_clip;                 /* > 1: bound for negative advantages; 0: off [0] */
    float value_coef; /* weight of 0.5 mse; Stable-Baselines3's vf_coef is half of this [0.5] */
    /* these two are in the unit of returns, with normalize_reward in standard deviations */
    float value_clip;                   /* > 0: clip range of the value loss; 0: off [0] */
    float huber_delta;                  /* > 0: value errors beyond this count linearly; 0: off [0] */
    int use_critic;                     /* 0: no critic, an advantage is a return; see "reinforce" [yes] */
    float entropy_coef;                 /* weight of the entropy bonus [0] */
    ppo_schedule_kind entropy_schedule; /* as learning_rate_schedule [constant] */

    /* holding the policy near the one that acted */
    float target_kl;         /* > 0: epochs end when approx_kl > 1.5 target_kl; 0: off [0] */
    float lr_target_kl;      /* > 0: a constant learning rate is adapted to hold this approx_kl; 0: off [0] */
    float kl_coef;           /* PPO_KL_PENALTY: weight of the exact KL(old || new) [1] */
    float penalty_target_kl; /* PPO_KL_PENALTY: > 0: kl_coef doubles or halves to hold this KL; 0: off [0] */

    /* the network */
    /* convolutions (ppo_conv.h), first of all: channels (0: max pooling), kernel, stride; conv_layers of
       them [none] */
    int conv[PPO_MAX_LAYERS][3];
    int conv_layers;
    int hidden[PPO_MAX_LAYERS]; /* widths of the hidden layers, hidden_layers of them [64,64] */
    int hidden_layers;
    ppo_activation activation; /* any of section 5 [tanh] */
    int layer_norm;            /* 1: layer norm of hidden layers, before the activation [no] */
    int shared_trunk;          /* 1: one set of hidden layers for actor and critic [no] */
    int recurrent;             /* > 0: width of a core of gated recurrent units (ppo_gru.h); 0: none [0] */
    int sequence_steps;        /* recurrent: steps of a rollout that gradients go back through [32] */
    ppo_weight_init init;      /* PPO_ORTHOGONAL or PPO_UNIFORM [orthogonal] */

    /* exploration, of PPO_BOX alone */
    float log_std_init; /* initial log standard deviation [0] */
    float
        log_std_min; /* its bounds: what lies beyond counts as the bound, and no gradient leads there [-20] */
    float log_std_max; /* [20] */
    int squash;        /* 1: numbers are squashed into the box by tanh; 0: clipped to it [no] */
    /* if they are clipped: before that, the policy's -1..1 is mapped to the box, so that its numbers, std and
       log-probabilities are in units of half the box [auto] */
    ppo_action_scaling scale_actions;
    int gsde;        /* 1: generalized state-dependent exploration (Raffin 2022) [no] */
    int gsde_steps;  /* a sampled exploration lasts this many steps; 0: the whole rollout [0] */
    float rpo_alpha; /* > 0: means move by uniform noise in +- this in the update; 0: off [0] */

    /* normalization, by the statistics of all rollouts: of observations those before, in the first rollout each
       agent's own so far */
    int normalize_obs;    /* 1: observations to mean 0, variance 1 [no] */
    int normalize_reward; /* 1: rewards divided by the std of the discounted return [no] */
    float clip_obs;       /* normalized observations are clipped to +- this [10] */
    float clip_reward;    /* normalized rewards are clipped to +- this [10] */

    /* self-play, see env.teams */
    int self_play;          /* > 0: earlier policies that are kept as opponents; 0: off [0] */
    int snapshot_every;     /* iterations from one to the next [10] */
    float self_play_latest; /* share of the episodes that the latest policy plays against itself [0.5] */

    uint64_t seed; /* of all random numbers [1] */
    int threads;   /* to step environments and to compute; any number gives the same results [1] */

    ppo_callback callback;    /* after each iteration; may be NULL [NULL] */
    void *callback_user;      /* passed to it [NULL] */
    ppo_schedule_fn schedule; /* for PPO_CUSTOM [NULL] */
    void *schedule_user;      /* passed to it [NULL] */
} ppo_config;

/* total_steps: the last rollout is shortened, so that num_envs - 1 steps more are done at most. Where agents share
   a world, and may wait for their turn, it is not: less than a rollout more is done.
   lr_target_kl (as in rsl_rl, Rudin 2022): before each step the learning rate is divided by 1.5 if the minibatch's
   approx_kl is above 2 lr_target_kl, down to 1e-5, and multiplied by 1.5 if it is below half of it, up to 1e-2.
   recompute_advantages (Andrychowicz 2021, section 3.5): value_clip is then around the latest values, too.
   rpo_alpha (robust policy optimization, Rahman and Xue 2022, who use 0.5): the policy stays wide for longer, and
   the first ratios differ from 1. */
PPO_DEF ppo_config ppo_config_default(void);
/* Errors: a field is out of range, or fields contradict each other. */
PPO_DEF ppo_status ppo_config_check(const ppo_config *config);

/* Error: the field differs from its default but cannot have an effect, as "gsde_steps is 4, but has no
   effect: gsde is no". name NULL: any field; env NULL: the action space is not known. ppo_agent_create()
   checks all fields, ppo_trainer_create() those not about the network, ppo_trainer_resume() those that change. */
PPO_DEF ppo_status ppo_config_check_effect(const ppo_config *config, const ppo_env *env, const char *name);

/* This struct's settings by name, for section 6's ppo_settings_set() and its like; "hidden" is widths and count, as
   "64,64" or "none"; "conv" likewise, as "16x3x1,32x2x2". Fields of the kind PPO_FIELD_NETWORK describe the
   network, which an existing agent keeps. Its presets, ppo_config_preset(&config, "a2c"),
   also reset every setting that their objective does not use:
       "reinforce"               plain policy gradient (Williams 1992): returns, no critic, one gradient step
       "reinforce-baseline"      the same, minus the critic's value
       "a2c"                     advantage actor-critic (Mnih 2016), which is PPO with one epoch (Huang 2022)
       "ppo-paper"               Schulman 2017, table 3: continuous control
       "ppo-paper-fixed-kl"      the same with a penalty in place of the clip, 3 KL(old || new)
       "ppo-paper-adaptive-kl"   the same with a weight that keeps the KL near 0.01
       "ppo-paper-unclipped"     the same with neither
   Without a critic (use_critic 0) there is no value to bootstrap from: the update uses only the steps of
   episodes that ended in the rollout, by themselves or at max_steps, which counts as an end. A rollout in
   which no episode ended changes nothing (epochs is 0), so rollout_steps should be several episodes long. */
PPO_DEF const ppo_settings *ppo_config_settings(void);
/* In short, for a ppo_config: ppo_config_set(&cfg, "gamma", "0.9"), ppo_config_preset(&cfg, "a2c"), ... */
#define ppo_config_set(config, name, value) ppo_settings_set(ppo_config_settings(), config, name, value)
#define ppo_config_set_all(config, text)    ppo_settings_set_all(ppo_config_settings(), config, text)
#define ppo_config_get(config, name, text, size) \
    ppo_settings_get(ppo_config_settings(), config, name, text, size)
#define ppo_config_preset(config, name) ppo_settings_preset(ppo_config_settings(), config, name)

/* A policy with all that belongs to it. ppo_agent_create() makes an untrained one with config's network; the
   other functions use it in environments of the same observation size and action space. */
typedef struct ppo_agent {
    ppo_actor_critic model;
    ppo_normalizer obs_norm;    /* size 0: observations are used as they are */
    ppo_normalizer return_norm; /* of the discounted return, for normalize_reward; size 0: not yet */
    float clip_obs;
    ppo_config config;    /* the settings it was made with, or last trained with */
    char environment[64]; /* env.name of the one it was made for or last trained on; NULL: "" */
    ppo_tape *tape;       /* for ppo_act() */
    float *scratch;       /* for ppo_act(): an action */
    float *state;         /* recurrent: [width], of the episode so far, for ppo_act() */
} ppo_agent;

PPO_DEF ppo_status ppo_agent_create(const ppo_env *env, const ppo_config *config, ppo_agent **agent);
PPO_DEF void ppo_agent_free(ppo_agent *agent);

/* A second agent with the same network, weights and statistics, which the caller frees; *to is NULL on
   failure. An agent may be used by one thread at a time. To act in one thread while another one trains, act
   with a copy, and bring it up to date by ppo_agent_assign() between two iterations. */
PPO_DEF ppo_status ppo_agent_copy(const ppo_agent *from, ppo_agent **to);
/* Gives `to` the weights and statistics of `from`, and nothing else: the optimizer's state and the state of
   an episode stay. Allocates nothing. Error: their networks differ. */
PPO_DEF ppo_status ppo_agent_assign(ppo_agent *to, const ppo_agent *from);

/* The action for one observation, of which only what the actor sees is read: sampled with rng, or the most
   likely one if rng is NULL. action->box and ->choices point into the agent and are valid until its next
   call. A recurrent agent keeps a state from call to call: call ppo_agent_reset() where an episode begins.
   With a mask, as env.action_mask fills it (NULL: none), only legal actions are taken. */
PPO_DEF ppo_status ppo_act(ppo_agent *agent, const float *obs, ppo_rng *rng, ppo_action *action);
PPO_DEF ppo_status ppo_act_masked(ppo_agent *agent, const float *obs, const unsigned char *mask, ppo_rng *rng,
                                  ppo_action *action);
PPO_DEF void ppo_agent_reset(ppo_agent *agent);

/* The actions of n characters at once: obs [n][numbers that the actor sees], mask [n][options] or NULL,
   actions as the environment sees them, [n] or [n][choices] or [n][numbers] in the array that the action
   space uses. A recurrent agent needs state [n][config.recurrent], which is read and written: set a
   character's to zeros where its episode begins; NULL otherwise. The same as n calls for one character each,
   in order. Allocates nothing, once it was called with as many. */
PPO_DEF ppo_status ppo_act_many(ppo_agent *agent, const float *obs, const unsigned char *mask, int n,
                                float *state, ppo_rng *rng, const ppo_actions *actions);

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
   what the last iteration collected. Between two iterations the agent's parameters may be changed: with learning_rate
   0, epochs 1 and minibatch_size 0 a trainer only collects, for a loss and an optimizer of your own. */
typedef struct ppo_trainer ppo_trainer;

PPO_DEF ppo_status ppo_trainer_create(const ppo_env *env, const ppo_config *config, ppo_agent *agent,
                                      ppo_trainer **trainer);
PPO_DEF ppo_status ppo_trainer_iterate(ppo_trainer *trainer, ppo_progress *progress);
PPO_DEF int ppo_trainer_done(const ppo_trainer *trainer);      /* 1: total_steps are done */
PPO_DEF int64_t ppo_trainer_steps(const ppo_trainer *trainer); /* environment steps done */
PPO_DEF void ppo_trainer_free(ppo_trainer *trainer);

PPO_DEF const ppo_rollout *ppo_trainer_rollout(const ppo_trainer *trainer);

/* A program that steps its own world pushes what happens instead. env describes its agents, with no functions;
   num_envs is the number of sources of experience, such as characters, 0 .. num_envs-1; each goes its own
   pace. For each step of a source:

       ppo_trainer_observe(trainer, source, obs, mask, &outcome);    what it sees, and what its action brought
       ppo_trainer_act(trainer, source, &action);                    what it does

   outcome is NULL where an episode begins. Where it ends, a call says so by an outcome that is terminated (obs may
   be NULL) or truncated (obs is what the source sees); the next call, at once or later, begins the next episode.
   The time limit is yours: set truncated. A call that fails changes nothing, but for a return beyond the range of
   float, which ends the episode. Where outcome->waits is 1, obs may be NULL, and no action follows. mask [options]
   may be NULL. action's numbers are valid until the source's next call.

   Call ppo_trainer_learn() once per round. It returns at once unless every source that is in an episode has done
   rollout_steps steps. Then it learns for about that many milliseconds, but at least one minibatch (below 0: that
   alone), the first time also the values of all samples; 0: until it is done. progress->iteration is 0 unless the
   iteration is complete. In between, sources act with the weights as they are, and what they do is not recorded.
   Learning at once, after all sources were observed, gives the bits of ppo_trainer_iterate() for the same experience.
   After total_steps it learns no more, and the others go on: a game without an end sets total_steps high, and
   learning_rate_schedule to PPO_CONSTANT. With a budget in milliseconds the results depend on the machine's speed. An
   action that is taken between the last observation and the call is not recorded: to lose none, learn before you act.
   ppo_trainer_ready(): 1 if there is something to learn. Learning waits for a source that falls silent in an episode:
   after ten rollouts of another one, its ppo_trainer_observe() fails once to say so; also where nobody calls learn().
   A checkpoint is taken between two iterations: what was pushed since is not in the file, and all sources of a
   resumed trainer begin new episodes.
   To learn in another thread, let all sources act, call ppo_trainer_learn() there, and nothing else with the trainer
   or its agent meanwhile: act with a copy (ppo_agent_copy()). Afterwards call observe() here with the outcome of each
   source's latest action; it is not recorded.

   In a group each process pushes for its own sources, from num_envs * rank / size to
   num_envs * (rank + 1) / size - 1. Where those have done their steps, ppo_trainer_learn() waits for the others.
   While another thread learns, call nothing else that uses the group, such as ppo_evaluate(). */
PPO_DEF ppo_status ppo_trainer_observe(ppo_trainer *trainer, int source, const float *obs,
                                       const unsigned char *mask, const ppo_outcome *outcome);
PPO_DEF ppo_status ppo_trainer_act(ppo_trainer *trainer, int source, ppo_action *action);
PPO_DEF int ppo_trainer_ready(const ppo_trainer *trainer);
PPO_DEF ppo_status ppo_trainer_learn(ppo_trainer *trainer, double milliseconds, ppo_progress *progress);

typedef struct ppo_evaluation {
    ppo_status status; /* not PPO_OK: the figures are NaN and ppo_last_error() says why */
    int episodes;
    float mean_return, std_return; /* std over the episodes, biased (n) */
    float min_return, max_return;
    float mean_length;
} ppo_evaluation;

/* A step of an episode that ppo_play() plays. The watcher is called after the reset (step 0, no action) and
   after every step, and returns 0 to continue, anything else to stop. */
typedef struct ppo_frame {
    int step;
    const void *state;        /* for env->draw */
    const float *obs;         /* [obs_size], as the environment gave it */
    const ppo_action *action; /* the one just taken; NULL at step 0 */
    float reward, total;      /* of this step, and of the episode so far */
    int terminated, truncated;
} ppo_frame;
typedef int (*ppo_watcher)(const ppo_frame *frame, void *user);

/* Plays one episode, the same for the same seed, with the most likely actions (sample 0) or sampled ones (1).
   total (may be NULL) receives its return; watch may be NULL. */
PPO_DEF ppo_status ppo_play(ppo_agent *agent, const ppo_env *env, uint64_t seed, int sample,
                            ppo_watcher watch, void *user, float *total);

/* Plays new episodes with the most likely actions, frozen statistics and raw rewards. Each has a copy of the
   environment, of which up to 32 are open at once, at most env.copies, and its own random stream; "environment 3" in
   an error is episode 3. Of several agents, the return is their mean, and the length that of the world's episode. The
   processes of a group divide the episodes, and all get the result. Errors: episodes outside 1 to 1000000;
   without max_steps, an episode of over a million steps. */
PPO_DEF ppo_evaluation ppo_evaluate(ppo_agent *agent, const ppo_env *env, int episodes, uint64_t seed);
/* The same with sampled actions, which can be far worse, and also far better: look at both. */
PPO_DEF ppo_evaluation ppo_evaluate_sampled(ppo_agent *agent, const ppo_env *env, int episodes,
                                            uint64_t seed);
/* --------------------------------------------------------------------------------------------------------
   16 Policies in files
   -------------------------------------------------------------------------------------------------------- */

/* Saves a policy as a safetensors file: the parameters under their names, "obs_norm.mean", "obs_norm.var" [obs_size]
   and "obs_norm.count" (and "return_norm...") if it has them; as texts all settings by name, "environment",
   "observation_size" ("actor_observation_size" if that is less) and "action_space", such as "discrete 2", "box 1 -2
   2", "multi-discrete 3,2" or "multi-binary 4". Error: a number that is not finite. */
PPO_DEF ppo_status ppo_agent_save(const ppo_agent *agent, const char *path);

/* Creates an agent from such a file, or from a checkpoint; what this version reads of it is checked. The agent must
   fit env, of which sizes and action space suffice; NULL: any. */
PPO_DEF ppo_status ppo_agent_load(const char *path, const ppo_env *env, ppo_agent **agent);

/* Reads the settings in such a file, and the environment's name ("" if it had none). Either may be NULL, and
   does not change on an error. config->threads is at most the number of processors. */
PPO_DEF ppo_status ppo_config_load(const char *path, ppo_config *config, char environment[64]);

#endif /* PPO_NO_CONTROL */

/* ========================================================================================================
   LANGUAGE
   ======================================================================================================== */

#ifndef PPO_NO_LANGUAGE

/* --------------------------------------------------------------------------------------------------------
   17 Tokens and tokenizers. A tokenizer turns text into tokens 0 .. vocab-1, and tokens into text. Its
   vocabulary is the ordinary tokens, made from a text, followed by the special ones, such as "<eos>". Only the
   program inserts special tokens: ppo_encode() makes none of a text, whatever it contains. A tokenizer that
   ppo_hub.h reads from a tokenizer.json is used in the same way; where it differs, the comments say so.

   Texts have `bytes` bytes and may hold zeros; NULL is the empty text. Encoding and decoding do not change
   the tokenizer, so several threads may share one.
   -------------------------------------------------------------------------------------------------------- */

/* Sequences of tokens, one after another without padding. Either start from zeros and add, or point to arrays
   of your own, with memory NULL: no function that reads tokens changes them. */
typedef struct ppo_tokens {
    int count;   /* sequences */
    int *start;  /* [count + 1]: sequence s is token[start[s]] .. token[start[s + 1] - 1]; start[0] is 0 */
    int *prompt; /* [count] number of its first tokens that are given, not learned or sampled; NULL: 0 */
    int *token;  /* [start[count]] */
    unsigned char *given;             /* [start[count]] 1: given although after the prompt; NULL: none is */
    struct ppo__token_memory *memory; /* the library's; NULL: the arrays are not its own */
} ppo_tokens;

/* Adds a sequence of n tokens, the first `prompt` of which are given; or sequence s of others and its prompt.
   Errors: a number out of range, arrays that are not the library's; clear and free leave those alone. */
PPO_DEF ppo_status ppo_tokens_add(ppo_tokens *tokens, const int *token, int n, int prompt);
PPO_DEF ppo_status ppo_tokens_add_from(ppo_tokens *tokens, const ppo_tokens *from, int s);
/* Tokens first .. first + n - 1 of the last sequence are given, too: what a tool or another speaker said. Nothing
   is learned from them, and they have no rows in section 21. Errors: as above. */
PPO_DEF ppo_status ppo_tokens_mark_given(ppo_tokens *tokens, int first, int n);
PPO_DEF void ppo_tokens_clear(ppo_tokens *tokens); /* no sequences; keeps the memory */
PPO_DEF void ppo_tokens_free(ppo_tokens *tokens);  /* the arrays, not the struct, which is zero then */

typedef struct ppo_tokenizer ppo_tokenizer;

/* Of a tokenizer: tokens; special tokens, and bytes of a token's text (a tokenizer.json may have more of both). */
enum { PPO_MAX_VOCAB = 262144, PPO_MAX_SPECIALS = 1024, PPO_MAX_TOKEN_BYTES = 256 };

/* One token for each character (code point of UTF-8) of the text, in ascending order; then the special
   tokens. specials [special_count]: their names, all different, UTF-8 without control characters, 1 to
   PPO_MAX_TOKEN_BYTES bytes each; NULL if there are none. Errors: the text is not UTF-8 (at which byte), a
   name breaks these rules, the vocabulary is empty or too large. */
PPO_DEF ppo_status ppo_tokenizer_characters(const char *text, size_t bytes, const char *const *specials,
                                            int special_count, ppo_tokenizer **tokenizer);

/* Tokens 0 .. 255 are the bytes of any text, in GPT-2's order: 33-126, 161-172, 174-255, then the others. The special
   tokens follow; specials: as above. ppo_bpe.h joins frequent pairs of them to larger tokens. */
PPO_DEF ppo_status ppo_tokenizer_bytes(const char *const *specials, int special_count,
                                       ppo_tokenizer **tokenizer);
PPO_DEF void ppo_tokenizer_free(ppo_tokenizer *tokenizer);

PPO_DEF int ppo_tokenizer_vocab(const ppo_tokenizer *tokenizer); /* number of tokens; 0 for NULL */
/* The token of this name, such as "<eos>": a special one, or one of a tokenizer.json's added_tokens; -1: none. */
PPO_DEF int ppo_tokenizer_special(const ppo_tokenizer *tokenizer, const char *name);

/* The tokens of a text [capacity], and their number (count may be NULL). tokens NULL or capacity 0: only counts. There
   are never more tokens than bytes, except with a tokenizer.json: there, count first. Errors: capacity is too small,
   the text is longer than INT_MAX; of characters: a byte that is not UTF-8, a character that the vocabulary lacks. */
PPO_DEF ppo_status ppo_encode(const ppo_tokenizer *tokenizer, const char *text, size_t bytes, int *tokens,
                              int capacity, int *count);

/* The text of tokens [n], special ones by their names, with a final 0; `bytes` (may be NULL) is its length without
   that 0. text NULL or capacity 0: only the length. A token may be part of a character, so the text need not be
   UTF-8; a tokenizer.json may drop the space that it puts first. Errors: capacity does not exceed the length, a token
   is outside 0 .. vocab-1 (with a tokenizer.json, below 0: a model may have more tokens, which have no text). */
PPO_DEF ppo_status ppo_decode(const ppo_tokenizer *tokenizer, const int *tokens, int n, char *text,
                              size_t capacity, size_t *bytes);

/* Adds a sequence of texts, which end with a 0: the token `start` (-1: none) and the prompt are given; the
   response and the token `end` (-1: none) follow. response NULL: only a prompt, without `end`. Prompt and
   response are encoded apart, as in sampling. Errors: as above, and no token at all. */
PPO_DEF ppo_status ppo_tokens_add_text(ppo_tokens *tokens, const ppo_tokenizer *tokenizer, int start,
                                       const char *prompt, const char *response, int end);
/* The text of sequence s, or of its prompt, or of what follows it, as ppo_decode(), without special tokens. */
typedef enum ppo_text_part { PPO_WHOLE_TEXT, PPO_PROMPT_TEXT, PPO_RESPONSE_TEXT } ppo_text_part;
PPO_DEF ppo_status ppo_tokens_text(const ppo_tokens *tokens, int s, ppo_text_part what,
                                   const ppo_tokenizer *tokenizer, char *text, size_t capacity);

/* A tokenizer in a file of its own, or in one with other things. Put borrows from the tokenizer, which must
   outlive the last write; what get makes does not need the file. The file holds a text "tokenizer", which is
   "characters", "bpe" or "json" (ppo_hub.h), and one array:
       "tokenizer.characters"  I32 (n)      the code points, ascending; their indices are the tokens
       "tokenizer.merges"      I32 (n, 2)   row k: the two tokens that token 256 + k joins
       "tokenizer.json"        U8 (n)       the bytes of that file
   and, of the first two, a text "tokenizer.specials", their names by line; of bpe a text "tokenizer.words",
   which is "gpt2".

   With ppo_hub.h, save and load also take the path of a tokenizer.json, or of a folder that has one. Errors: those
   of the file, a file that breaks these rules. */
PPO_DEF ppo_status ppo_tokenizer_put(const ppo_tokenizer *tokenizer, ppo_file *file);
PPO_DEF ppo_status ppo_tokenizer_get(const ppo_file *file, ppo_tokenizer **tokenizer);
PPO_DEF ppo_status ppo_tokenizer_save(const ppo_tokenizer *tokenizer, const char *path);
PPO_DEF ppo_status ppo_tokenizer_load(const char *path, ppo_tokenizer **tokenizer);

/* --------------------------------------------------------------------------------------------------------
   18 Transformer
   -------------------------------------------------------------------------------------------------------- */

/* Causal self-attention (Vaswani 2017) within each of `count` sequences: qkv (rows, (heads + 2 kv_heads)
   size) -> (rows, heads size). Sequence s is rows start[s] .. start[s + 1] - 1. A row of qkv holds the
   queries of `heads` heads, then the keys, then the values of kv_heads heads, each shared by heads /
   kv_heads queries (Ainslie 2023). A row attends to the rows of its sequence up to itself; with a window,
   only to the last of them. start [count + 1] must outlive the tape's round. */
typedef struct ppo_attention {
    int heads, kv_heads; /* kv_heads 0: heads */
    int window;          /* rows that a row attends to, itself included; 0: all */
    float scale;         /* of the products of queries and keys; 0: 1 / sqrt(size) */
} ppo_attention;
PPO_DEF ppo_tensor *ppo_tape_attention(ppo_tape *tape, ppo_tensor *qkv, const ppo_attention *attention,
                                       const int *start, int count);

/* Rotary positions (Su 2021) for the first `heads` heads of x, each of `size` columns: columns j and j + r/2 are
   rotated by an angle, whose cosine is column j of angle (rows, r <= size), and whose sine column j + r/2. */
PPO_DEF ppo_tensor *ppo_tape_rotary(ppo_tape *tape, ppo_tensor *x, ppo_tensor *angle, int heads, int size);

/* A language model: a decoder of `layers` blocks, between an embedding of tokens and a last norm,

       x += attention(norm(x)) W + b        x += feed_forward(norm(x))

   with feed_forward(x) = f(x W + b) W + b, or gated (f(x W) * (x V)) W. The defaults are GPT-2's (Radford
   2019): layer norms, learned positions, f = gelu, biases everywhere, logits by the transposed token
   embedding. What differs in other families is a setting; ppo_lm_config_family() of ppo_hub.h sets all
   that a family has. */
typedef enum ppo_norm { PPO_RMS_NORM, PPO_LAYER_NORM } ppo_norm;
typedef enum ppo_positions { PPO_LEARNED_POSITIONS, PPO_ROTARY } ppo_positions;
typedef enum ppo_rope_scaling {
    PPO_ROPE_PLAIN,
    PPO_ROPE_LINEAR,
    PPO_ROPE_LLAMA3,
    PPO_ROPE_YARN
} ppo_rope_scaling;
typedef struct ppo_lm_config { /* defaults in brackets */
    int vocab;                 /* tokens are 0 .. vocab-1; the one setting without a default */
    int context;               /* tokens of the longest sequence, 2 or more [64] */
    int width, layers, heads;  /* [64, 2, 4] */
    int score;     /* 1: also a head with one number per token, initially 0: a value or a reward [0] */
    uint64_t seed; /* of the initial weights [1] */
    int eos;       /* token that ends a text, for programs that read a saved folder; -1: none [-1] */
    int family;    /* whose names and layout a saved folder has [gpt2] */

    int kv_heads;                      /* see ppo_attention; 0: heads [0] */
    int head_size;                     /* 0: width / heads, which must be a whole number [0] */
    int hidden;                        /* width of the feed-forward layers; 0: 4 width [0] */
    ppo_norm norm;                     /* PPO_LAYER_NORM or PPO_RMS_NORM [PPO_LAYER_NORM] */
    float norm_eps;                    /* [1e-5] */
    ppo_activation activation;         /* any of section 5 [PPO_GELU] */
    int glu;                           /* 1: feed-forward layers with a gate [0] */
    int qkv_bias, proj_bias, ffn_bias; /* [1, 1, 1] */
    int qk_norm; /* RMS norms of queries and keys, 1: of each head, 2: of all; needs ppo_hub.h [0] */
    int pre_norm, post_norm; /* 1: norms before the attention and the feed-forward, of their results [1, 0] */
    int parallel;            /* 1: attention and feed-forward start from the same x [0] */
    int tied;                /* 1: logits by the token embedding; 0: by a matrix of their own [1] */
    float attention_scale;   /* see ppo_attention [0] */
    float embedding_scale;   /* of embeddings; 0: sqrt(width) [1] */
    float residual_scale, logits_scaling; /* factor of what is added to x, divisor of logits [1, 1] */
    int window;                           /* see ppo_attention [0] */
    uint64_t window_layers;               /* bit k: layer k has the window; 0: all layers have it [0] */

    ppo_positions positions;       /* PPO_LEARNED_POSITIONS or PPO_ROTARY [PPO_LEARNED_POSITIONS] */
    int rotary_size;               /* columns of a head that are rotated; 0: all [0] */
    uint64_t nope_layers;          /* bit k: layer k has no rotary positions [0] */
    float rope_theta;              /* base of the wavelengths [10000] */
    float window_theta;            /* the same in layers with the window, unscaled; 0: no difference [0] */
    ppo_rope_scaling rope_scaling; /* PPO_ROPE_... [PPO_ROPE_PLAIN] */
    float rope_factor;             /* of all but plain: wavelengths are multiplied by it [1] */
    /* Llama 3: low_freq_factor, high_freq_factor; YaRN: beta_slow, beta_fast, usually 1 and 32 [1, 4] */
    float rope_low, rope_high;
    int rope_context; /* Llama 3, YaRN: original_max_position_embeddings [8192] */
} ppo_lm_config;
PPO_DEF ppo_lm_config ppo_lm_config_default(void);
PPO_DEF const ppo_settings *ppo_lm_settings(void);

typedef struct ppo_lm_block {                  /* sizes as in full; biases may be NULL */
    ppo_tensor *norm_weight[4], *norm_bias[4]; /* (1, width) or NULL: before attention, feed-forward; after */
    ppo_tensor *qkv_weight, *qkv_bias;         /* (width, (heads + 2 kv_heads) head_size) */
    ppo_tensor *q_norm, *k_norm;               /* (1, head_size), (1, heads head_size), or NULL */
    ppo_tensor *proj_weight, *proj_bias;       /* (heads head_size, width): of the attention's results */
    ppo_tensor *up_weight, *up_bias;           /* (width, hidden); glu: (width, 2 hidden), W and V */
    ppo_tensor *down_weight, *down_bias;       /* (hidden, width) */
} ppo_lm_block;

typedef struct ppo_lm {
    ppo_lm_config config; /* as given. context may be lowered, which saves memory, and eos be set */
    ppo_lm_config full;   /* config with every 0 that stands for a default replaced */
    ppo_params *params;
    ppo_tensor *token_embedding;    /* (vocab, width) */
    ppo_tensor *position_embedding; /* (context, width), or NULL */
    ppo_lm_block block[PPO_MAX_LAYERS];
    ppo_tensor *norm_weight, *norm_bias;   /* (1, width) */
    ppo_tensor *head;                      /* (vocab, width): of the logits; may be token_embedding */
    ppo_tensor *score_weight, *score_bias; /* (width, 1), (1, 1); NULL: no such head */
    float *rotary;                         /* angles of positions for ppo_tape_rotary(), or NULL */
    /* With LoRA (ppo_hub.h): the model whose weights it uses, and what it adds to them; else NULL */
    struct ppo_lm *base;
    struct ppo_adapter *adapter;
} ppo_lm;

/* Weights are normal with std 0.02, those of proj and down 0.02 / sqrt(2 layers); biases 0, norms 1. */
PPO_DEF ppo_status ppo_lm_create(const ppo_lm_config *config, ppo_lm **lm);
PPO_DEF void ppo_lm_free(ppo_lm *lm);

/* A frozen model with the same weights: a reference, or a new start. `score` not 0: with a score head. */
PPO_DEF ppo_status ppo_lm_copy(const ppo_lm *lm, int score, ppo_lm **copy);

/* The hidden state of each token (start[count], width), after the last norm. The arrays of tokens must outlive
   the tape's round. Errors: an unknown token, a sequence that is empty or exceeds the context. */
PPO_DEF ppo_tensor *ppo_lm_forward(ppo_tape *tape, const ppo_lm *lm, const ppo_tokens *tokens);
/* From hidden states, or some of their rows (see ppo_tape_embedding()): logits (n, vocab), score (n, 1). */
PPO_DEF ppo_tensor *ppo_lm_logits(ppo_tape *tape, const ppo_lm *lm, ppo_tensor *x);
PPO_DEF ppo_tensor *ppo_lm_score(ppo_tape *tape, const ppo_lm *lm, ppo_tensor *x);

/* --------------------------------------------------------------------------------------------------------
   19 Models in files
   -------------------------------------------------------------------------------------------------------- */

/* Loads a file of ppo_lm_save_file(); with ppo_hub.h also a folder of the model hub. The model is frozen: a
   backward of your own needs ppo_params_freeze(lm->params, 0). */
PPO_DEF ppo_status ppo_lm_load(const char *path, ppo_lm **lm);

/* A language model in one file, exactly: the parameters under their names, sizes as texts "vocab_size",
   "n_positions", "n_embd", "n_layer", "n_head", other settings as "lm." and their names; and the tokenizer, unless
   it is NULL, for ppo_tokenizer_load(). put and get use a file in memory, which may hold other things, too; what
   was put is borrowed until the last write. */
PPO_DEF ppo_status ppo_lm_save_file(const ppo_lm *lm, const ppo_tokenizer *tokenizer, const char *path);
PPO_DEF ppo_status ppo_lm_put(const ppo_lm *lm, ppo_file *file);
PPO_DEF ppo_status ppo_lm_get(const ppo_file *file, ppo_lm **lm);

/* --------------------------------------------------------------------------------------------------------
   20 Sampling from a language model
   -------------------------------------------------------------------------------------------------------- */

/* A tool that a sampled sequence calls, by ppo_methods.h: token [n] is the sequence so far, up to tool_token. It writes
   what follows to answer [capacity], and the number of these tokens to *count, which is 0 before; capacity, 1 or
   more, is what max_new_tokens and the context leave. The answer is given, not sampled: calls and ends in it mean
   nothing. On failure it returns a status, after ppo_fail() with the reason. It runs on the caller's thread, and
   must not use the same generator. */
typedef ppo_status (*ppo_tool_fn)(const int *token, int n, int *answer, int capacity, int *count, void *user);

/* Watches the sampling, by ppo_methods.h, to show a text while it is written, or to end it. It is called after each sampled
   token of sequence s; so_far is one sequence that ends with this token. Writing 1 to *end, which is 0
   before, ends the sequence as an eos does. Failures and threads: as above. */
typedef ppo_status (*ppo_watch_fn)(const ppo_tokens *so_far, int s, int *end, void *user);

typedef struct ppo_sampling { /* defaults in brackets */
    float temperature;        /* logits are divided by it; above 0 [1] */
    int greedy;               /* 1: always the most likely token, the first of equals [0] */
    int top_k;                /* > 0: only the k most likely tokens; 0: all [0] */
    float top_p;            /* < 1: of these, the fewest most likely whose probabilities reach this sum [1] */
    int eos;                /* this token ends a sequence, as its last; -1: none does [-1] */
    int max_new_tokens;     /* most tokens after the prompt; 0: up to the context [0] */
    uint64_t seed;          /* [1] */
    int tool_token;         /* this token calls the tool; -1: none does [-1] */
    ppo_tool_fn tool;       /* [NULL] */
    void *tool_user;        /* passed to it [NULL] */
    const int *stop_tokens; /* [stop_token_count] further tokens that end a sequence [NULL] */
    int stop_token_count;   /* [0] */
    ppo_watch_fn watch;     /* [NULL] */
    void *watch_user;       /* passed to it [NULL] */
    /* 1: the weights are those of the generator's previous call. Where a prompt begins as a sequence of
       that call, as in a chat, the cached keys and values are used; the results are the same [0] */
    int prefix_cache;
    float min_p;              /* > 0: only tokens at least min_p times as likely as the most likely one [0] */
    float repetition_penalty; /* > 1: tokens of the text become less likely; needs ppo_methods.h [1] */
} ppo_sampling;
PPO_DEF ppo_sampling ppo_sampling_default(void);
/* By name, for ppo_settings_set() and its like: the numbers of ppo_sampling except seed and prefix_cache. */
PPO_DEF const ppo_settings *ppo_sampling_settings(void);

/* The probabilities p [vocab] of the next token under these settings, from its logits [vocab]. The
   temperature comes first, then top_k, top_p, min_p, as in Hugging Face's generate(); of equally likely tokens,
   all are kept or none. repetition_penalty is not applied. scratch [vocab]. Errors: a setting out of range,
   logits that are not finite. */
PPO_DEF ppo_status ppo_sampling_probabilities(const ppo_sampling *sampling, const float *logits, int vocab,
                                              float *p, float *scratch);

/* Sampled sequences: each its prompt, followed by the tokens sampled. */
typedef struct ppo_samples {
    ppo_tokens tokens;    /* tokens.prompt[s]: the length of prompt s; tokens.given: what a tool wrote */
    float *logp;          /* [start[count]] of each sampled token; 0 for tokens that are given */
    unsigned char *ended; /* [count] 1: by eos, stop_tokens or watch; 0: cut off by one of the limits */
} ppo_samples;

/* Samples up to `slots` (1 to 65536) sequences side by side, with cached keys and values. A sequence that ends
   gives its slot to the next prompt. 8 to 16 for each thread are fastest: the cache of a processor holds no more.
   With 8 or more, each thread (ppo_set_threads()) samples some of them; with a tool, a watch, or a model of more
   than 4 million weights, the threads share the work of each operation. lm is borrowed; its weights may change
   between calls. A call takes memory only for more or longer prompts than before. */
typedef struct ppo_generator ppo_generator;
PPO_DEF ppo_status ppo_generator_create(const ppo_lm *lm, int slots, ppo_generator **generator);
PPO_DEF void ppo_generator_free(ppo_generator *generator);

/* Continues each prompt: sequence s of `prompts`, or its first prompt[s] tokens if prompts->prompt is not
   NULL. The samples belong to the generator, and are valid until the end of its next call, whose prompts they
   may be: set tokens.prompt to NULL to continue all sequences. Sequence s has a random stream of its own
   (sampling->seed, s), so it does not depend on slots and the other prompts. logp is taken from the full
   softmax at the temperature, before top_k and top_p, with the bits of ppo_lm_forward() and ppo_token_logp().
   Errors: a prompt that is empty or leaves no room, an unknown token, logits that are not finite. */
PPO_DEF ppo_status ppo_generate(ppo_generator *generator, const ppo_tokens *prompts,
                                const ppo_sampling *sampling, ppo_samples *samples);

/* --------------------------------------------------------------------------------------------------------
   21 Fine-tuning and reward models (Ziegler 2019, Ouyang 2022): supervised fine-tuning on demonstrations, a
   reward model from comparisons. ppo_methods.h has DPO
   -------------------------------------------------------------------------------------------------------- */

/* A model's outputs for the n tokens to learn from: those after each sequence's prompt, or after its first
   token if there is no prompt, except those that ppo_tokens.given marks. */
typedef struct ppo_response {
    ppo_tensor *logp, *entropy; /* (n, 1) */
    ppo_tensor *logits;         /* (n, vocab) */
    ppo_tensor *value;          /* (n, 1) the score before each token; NULL without PPO_VALUE */
} ppo_response;
/* The row of a sequence's first such token; n for sequence >= count; 0 for tokens NULL or sequence < 0. */
PPO_DEF int ppo_response_row(const ppo_tokens *tokens, int sequence);

/* outputs: PPO_POLICY, PPO_VALUE or both; logits are divided by temperature for logp and entropy. The
   arrays of tokens must outlive the tape's round. Errors: no such token, outputs is 0. */
PPO_DEF ppo_response ppo_lm_response(ppo_tape *tape, const ppo_lm *lm, const ppo_tokens *tokens,
                                     float temperature, int outputs);

/* The sum of x (n, 1), with rows as above, over each sequence: (count, 1). */
PPO_DEF ppo_tensor *ppo_tape_sequence_sum(ppo_tape *tape, ppo_tensor *x, const ppo_tokens *tokens);
/* The score at the last token of each sequence (count, 1): a reward model's score of the sequence. */
PPO_DEF ppo_tensor *ppo_lm_sequence_score(ppo_tape *tape, const ppo_lm *lm, const ppo_tokens *tokens);

/* One gradient step of fine-tuning. */
typedef struct ppo_fit_progress {
    int64_t step, steps; /* 1, 2, ... steps; 0: see evaluate_first */
    int epoch;           /* 1, 2, ... */
    float loss;          /* of this step's batch, before the step */
    float accuracy;      /* pairs: share whose chosen sequence is preferred; else NaN */
    float grad_norm, learning_rate;
    double seconds, tokens_per_second; /* since the start */
    /* of the held-out data, after the step; NaN if not measured */
    float held_out_loss, held_out_accuracy;
    float perplexity; /* exp(held_out_loss); of supervised fine-tuning only */
} ppo_fit_progress;
typedef int (*ppo_fit_callback)(const ppo_fit_progress *progress, void *user); /* not 0: the training ends */

typedef struct ppo_fit_config { /* defaults in brackets */
    int epochs;                 /* passes over the data [1] */
    int steps;                  /* > 0: number of gradient steps, instead of epochs [0] */
    int batch_size;             /* sequences, windows or pairs per gradient step; at most all of them [32] */
    /* items of a batch that are in memory at once; their gradients are added. 0: as many as have 256
       tokens together (of a pair, both count), or as many tokens as the model is wide, if that is more; a
       longer item alone. Those stay in the processor's caches. On a GPU, 0 means all [0] */
    int micro_batch;
    /* parts of a batch that threads and processes divide; results depend on it. 0: 1, 2, 4 or 8, so that
       each has 384 tokens or more of a full batch of the longest sequences; 1 on a GPU, and for a model of
       more than 4 million weights, with those of its base: each thread needs gradients of its own [0] */
    int shards;

    /* supervised fine-tuning on long texts, by ppo_hub.h: the sequences, one after another, are one text, and an item is
       a window of it, which may reach from one sequence into the next. Of its tokens the first one, and
       those that are given or in a prompt, are not predicted */
    int window; /* > 0: tokens of a window, at most the context; 0: an item is a sequence [0] */
    /* 1: windows begin anywhere, as many in an epoch as cover the text; 0: they are adjacent, so that an
       epoch learns each token once [0] */
    int random_windows;

    float learning_rate;                      /* [1e-3] */
    ppo_schedule_kind learning_rate_schedule; /* PPO_CONSTANT, PPO_LINEAR, PPO_COSINE [cosine] */
    float min_learning_rate;                  /* at the end of the schedule [0] */
    float warmup;                 /* share of the steps in which the learning rate rises from 0 [0.05] */
    int warmup_steps;             /* > 0: number of these steps, instead of a share [0] */
    float adam_beta1, adam_beta2; /* [0.9, 0.999] */
    float adam_eps;               /* [1e-5] */
    float weight_decay;           /* decoupled (AdamW), of matrices: neither of biases nor of norms [0] */
    float max_grad_norm;          /* 0: off [1] */
    float beta;                   /* DPO, KTO: strength of the KL constraint [0.1] */
    float label_smoothing;        /* DPO: share of comparisons that are wrong [0] */
    uint64_t seed;                /* of the order of the data [1] */

    /* other data, on which ppo_judge.h measures the loss; borrowed */
    const ppo_tokens *held_out, *held_out_rejected; /* held_out_rejected: of pairs [NULL, NULL] */
    int evaluate_every; /* steps between measurements; 0: an epoch. The last step is always measured [0] */
    int evaluate_first; /* 1: also before the first step, as step 0 of the progress [0] */
    /* > 0: the training ends after this many measurements without a new lowest loss, and the model becomes
       the one with the lowest loss [0] */
    int patience;

    /* path of a file in which ppo_resume.h saves the training as it proceeds, and from which it continues
       if the file exists at the start; NULL: none [NULL] */
    const char *checkpoint;
    int checkpoint_every;       /* steps between saves; also at the end, or when the callback ends it [100] */
    int gradient_checkpointing; /* 1: less memory for more time, by ppo_hub.h [0] */

    ppo_fit_callback callback; /* may be NULL [NULL] */
    void *callback_user;       /* passed to it [NULL] */
} ppo_fit_config;
PPO_DEF ppo_fit_config ppo_fit_config_default(void);
/* By name, for ppo_settings_set() and the others of section 6: all fields that are not pointers. */
PPO_DEF const ppo_settings *ppo_fit_settings(void);

/* Each call is a complete training with a new optimizer, or the rest of the one in the checkpoint. Errors: a
   setting out of range, data that does not fit the model (see ppo_lm_forward()), no token after a prompt;
   numbers that are not finite, a file that cannot be written: then the model keeps the steps taken so far.

   Supervised fine-tuning: the mean of -logp over the tokens after the prompts, the last of which should be
   sampling.eos, so that the model learns to end its sequences. */
PPO_DEF ppo_status ppo_fit_sft(ppo_lm *lm, const ppo_tokens *data, const ppo_fit_config *config);

/* A reward model (lm has a score): ppo_pairwise_loss() of the scores of sequences s of `chosen` and `rejected`. */
PPO_DEF ppo_status ppo_fit_reward(ppo_lm *lm, const ppo_tokens *chosen, const ppo_tokens *rejected,
                                  const ppo_fit_config *config);

/* For each sequence of the data [count], `batch` of them at a time: its score; and the sum of logp of the tokens
   after its prompt (perplexity: exp(-sum / number of tokens)). Errors: as above, and a result that is not finite. */
PPO_DEF ppo_status ppo_lm_scores(const ppo_lm *lm, const ppo_tokens *data, int batch, float *score);
PPO_DEF ppo_status ppo_lm_logp(const ppo_lm *lm, const ppo_tokens *data, int batch, float *logp);

/* The reward of each sample, by a rule, a verifier or a model: reward [samples->tokens.count], within +-1e15. The
   samples are valid during the call only; those of a prompt are adjacent. On failure it returns a status, after
   ppo_fail() with the reason. It runs on the caller's thread. */
typedef ppo_status (*ppo_reward_fn)(const ppo_samples *samples, float *reward, void *user);

/* The scores of the model `lm` (a ppo_lm) as a ppo_reward_fn. ppo_judge.h has ensembles of models, normalized. */
PPO_DEF ppo_status ppo_reward_by_lm(const ppo_samples *samples, float *reward, void *lm);

/* --------------------------------------------------------------------------------------------------------
   22 PPO on tokens: PPO against a reward function
   -------------------------------------------------------------------------------------------------------- */

/* How much better a token was than expected. R is the sum of a sequence's rewards.
       GAE            token by token (section 8); needs a critic
       SEQUENCE       R - V(prompt), the same for all tokens; needs a critic
     and among two or more samples of the same prompt:
       GROUP          (S - mean) / (std + 1e-4) + K - mean: K is the part of R that is KL, S the rest; std
                      is unbiased (GRPO, Shao 2024)
       LEAVE_ONE_OUT  R - mean of the other samples (RLOO, Ahmadian 2024)
       GROUP_MEAN     R - mean of all samples (Dr. GRPO, Liu 2025)
     and neither:
       RETURN         the discounted sum of the rewards from this token on (REINFORCE++, Hu 2025) */
typedef enum ppo_advantage_kind {
    PPO_ADVANTAGE_GAE,
    PPO_ADVANTAGE_SEQUENCE,
    PPO_ADVANTAGE_GROUP,
    PPO_ADVANTAGE_LEAVE_ONE_OUT,
    PPO_ADVANTAGE_GROUP_MEAN,
    PPO_ADVANTAGE_RETURN
} ppo_advantage_kind;
/* Where the KL to the reference counts: in a token's reward, or in the loss. Section 9 has the estimators. */
typedef enum ppo_kl_place { PPO_KL_IN_REWARD, PPO_KL_IN_LOSS } ppo_kl_place;

/* How the terms of tokens become a loss: their mean, whose gradient has a bias of O(1 / minibatch_size), as the number
   of tokens is random, too; the mean over sequences of each sequence's mean, in which tokens of long sequences count
   less (GRPO); or their sum, divided by the number of sequences and by max_new_tokens (Dr. GRPO), without bias. The
   value loss and the entropy are always means over tokens. */
typedef enum ppo_aggregation {
    PPO_AGGREGATE_TOKENS,
    PPO_AGGREGATE_SEQUENCES,
    PPO_AGGREGATE_CONSTANT
} ppo_aggregation;
/* The ratio of a token: its own or, by ppo_methods.h, the geometric mean over its sequence (GSPO, Zheng 2025). */
typedef enum ppo_ratio_kind { PPO_RATIO_TOKEN, PPO_RATIO_SEQUENCE } ppo_ratio_kind;
/* Importance sampling for samples of another policy: the advantages are multiplied by the ratio of the
   probabilities of each token, or of the whole sequence. TRUNCATE: the ratio is limited to a range. MASK:
   it is 0 outside the range. The KL, the entropy and the values of these tokens count in full. */
typedef enum ppo_importance_mode {
    PPO_TOKEN_TRUNCATE,
    PPO_TOKEN_MASK,
    PPO_SEQUENCE_TRUNCATE,
    PPO_SEQUENCE_MASK
} ppo_importance_mode;

typedef struct ppo_rlhf_config { /* defaults in brackets */
    /* sampling */
    int prompts; /* prompts per iteration [64] */
    int samples; /* samples of each prompt; prompts x samples is at most 2^24 [1] */
    int slots;   /* sequences that are sampled side by side [16] */
    /* its seed is not used; not greedy. top_k and top_p sample from another distribution than the one
       trained, which biases ratios and KL [defaults] */
    ppo_sampling sampling;

    /* reward; R is its sum over a sequence */
    /* 1: less the mean of all rewards so far, divided by their std. What follows is then in units of that
       std, so that no setting depends on the scale of the rewards [1] */
    int normalize_rewards;
    float reward_clip;         /* > 0: rewards are clipped to +- this [0] */
    float missing_eos_penalty; /* subtracted if the sequence was cut off [0] */
    float length_penalty;      /* subtracted for every sampled token [0] */
    /* > 0: a sequence with k of the last overlong_buffer tokens before the limit costs
       overlong_penalty * k / overlong_buffer (DAPO, Yu 2025) [0] */
    int overlong_buffer;
    float overlong_penalty; /* [1] */
    /* > 0: dynamic sampling (DAPO): a prompt whose samples all have the same reward, which teaches nothing,
       is replaced by another, at most this often in an iteration, by ppo_methods.h; not by ppo_rlhf_update() [0] */
    int refills;

    /* KL to the reference */
    ppo_kl_place kl_place;         /* PPO_KL_IN_REWARD or PPO_KL_IN_LOSS [reward] */
    ppo_kl_estimator kl_estimator; /* PPO_K1, PPO_K2, PPO_K3; PPO_KL_EXACT: by ppo_methods.h [k1] */
    float kl_coef;                 /* strength of the KL constraint [0.05] */
    int kl_weighted;         /* 1: in the loss, each token's KL is multiplied by its ratio (k1 and k3) [0] */
    float penalty_target_kl; /* > 0: kl_coef adapts to hold this KL per sequence (Ziegler 2019) [0] */
    int kl_horizon;          /* samples in which kl_coef can change by a fifth [10000] */
    int reference_every; /* > 0: the policy becomes the library's reference this often, by ppo_methods.h [0] */

    /* advantages */
    ppo_advantage_kind advantage;           /* PPO_ADVANTAGE_... [GAE] */
    float gamma, gae_lambda, critic_lambda; /* of GAE; the critic's, -1: the same [1, 0.95, -1] */
    int whiten_rewards;      /* GAE: 1: unit variance over the batch's tokens, mean unchanged [0] */
    int bootstrap_truncated; /* GAE: 1: bootstrap sequences that were cut off, with their last value [0] */
    int whiten_advantages;   /* 1: mean 0, std 1 over the batch's tokens; -1: GAE, SEQUENCE, RETURN [-1] */

    /* training */
    ppo_aggregation aggregation; /* PPO_AGGREGATE_... [tokens] */
    ppo_ratio_kind ratio;        /* PPO_RATIO_... [token] */
    int mask_truncated;          /* 1: does not learn from sequences that were cut off (DAPO) [0] */
    int epochs;                  /* passes over the samples of an iteration [4] */
    /* > 0: the epochs end when approx_kl of a minibatch exceeds 1.5 target_kl. If it exceeds 4 target_kl,
       the policy returns to where the iteration began and learns from it again with half the learning
       rate, ten times at most, which recovers later; a critic keeps what it has learned. 0: off [0.02] */
    float target_kl;
    int minibatch_size;             /* sequences per gradient step; at most all of them [16] */
    int micro_batch;                /* sequences in memory at once, as in ppo_fit_config [0] */
    int shards;                     /* parts of a minibatch, as in ppo_fit_config [0] */
    int gradient_checkpointing;     /* 1: less memory for more time, by ppo_hub.h [0] */
    ppo_policy_objective objective; /* [clip, 0.2, 0.2] */
    float value_coef, value_clip;   /* of 0.5 mse; value_clip 0: no clipping [0.5, 0.2] */
    float entropy_coef;             /* [0] */
    /* > 0: while the samples' entropy per token is at most this, entropy_coef grows by entropy_step; above, it
       falls and has no effect. It stays within 0 .. 1 (Skywork-OR1, He 2025) [0] */
    float entropy_target;
    float entropy_step;         /* [0.005] */
    float max_grad_norm;        /* 0: off [1] */
    float learning_rate;        /* [3e-4] */
    float critic_learning_rate; /* of a separate critic; target_kl does not lower it. 0: the policy's [0] */
    ppo_schedule_kind learning_rate_schedule; /* PPO_CONSTANT, PPO_LINEAR, PPO_COSINE [constant] */
    float min_learning_rate;                  /* at the end of the schedule [0] */
    int iterations;                           /* number of iterations of the schedule [0] */
    float adam_beta1, adam_beta2;             /* [0.9, 0.999] */
    float adam_eps;                           /* [1e-5] */
    float weight_decay; /* decoupled (AdamW), of matrices: neither of biases nor of norms [0] */

    /* samples of another policy: needs samples->logp */
    float importance_cap;                /* > 0: upper bound of its weight, by ppo_methods.h; 0: none [0] */
    float importance_floor;              /* lower bound of the importance weight [0] */
    ppo_importance_mode importance_mode; /* PPO_TOKEN_TRUNCATE, ... [token-truncate] */
    uint64_t seed;                       /* [1] */
} ppo_rlhf_config;
PPO_DEF ppo_rlhf_config ppo_rlhf_config_default(void);
/* By name, for ppo_settings_set() and its like (section 6): all fields; those of sampling and objective by
   their own names, such as "top_k" and "clip_low"; the objective's kl_coef is "objective_kl_coef". Its
   presets, ppo_rlhf_config_preset(&config, "grpo"), are known methods, with 8 samples of
   each prompt unless they say one. A preset resets every setting that defines the method; prompts,
   minibatch_size, epochs, learning_rate, normalize_rewards and target_kl stay.
       "ppo"                    the default: GAE with a critic, KL in the reward, one sample of each prompt
       "rloo"                   Ahmadian 2024: other samples as the baseline, KL in the reward
       "grpo"                   Shao 2024: groups, mean over sequences, k3 in the loss
       "dr-grpo"                Liu 2025: groups without division by std or length, no KL; set max_new_tokens
       "dapo"                   Yu 2025: groups, mean over tokens, clip 0.2 and 0.28, refills; set overlong_buffer
       "gspo"                   Zheng 2025: groups, the ratio of the sequence, clip 3e-4 and 4e-4, no KL
       "cispo"                  MiniMax 2025: groups, mean over tokens, ratios up to 5 held constant, no KL
       "reinforce++"            Hu 2025: whitened returns, KL in the reward, one sample of each prompt
       "reinforce++-baseline"   Hu 2025: less the mean of the group, whitened; k2 in the loss
       "distill"                Agarwal 2024: the reference is a teacher, whose KL is all there is to lower */
PPO_DEF const ppo_settings *ppo_rlhf_settings(void);
#define ppo_rlhf_config_preset(config, name) ppo_settings_preset(ppo_rlhf_settings(), config, name)

/* One iteration. Sums over a sequence are means over sequences; the rest are means over tokens. */
typedef struct ppo_rlhf_progress {
    int64_t iteration;       /* 1, 2, ... */
    int64_t samples, tokens; /* since the start: sequences and sampled tokens */
    double seconds, tokens_per_second;
    float reward, reward_std;    /* as the reward function returned them */
    float kl;                    /* to the reference, summed over a sequence: mean of k1, may be negative */
    float kl_coef;               /* as used */
    float kl_k3;                 /* the KL by k3, never negative; both NaN without a reference */
    float entropy, entropy_coef; /* the coefficient as used */
    float mean_length, ended;    /* sampled tokens; share of sequences that were not cut off */
    int refilled;                /* prompts that were replaced: no other figure counts their samples */
    float distinct; /* share of samples that equal no earlier one of the iteration, with their prompts */
    float policy_loss, value_loss, approx_kl, old_approx_kl, clip_fraction;
    /* of the first minibatch: the probabilities in training divided by those in sampling: exactly 1 */
    float first_ratio_min, first_ratio_max;
    float explained_variance;       /* NaN without a critic */
    float grad_norm, learning_rate; /* of the last minibatch */
    int gradient_steps;             /* of this iteration; fewer if target_kl ended the epochs */
    /* "", or a sentence: with mask_truncated no sample ended; samples are twice or half as long as at
       first. If the reward is not clearly above that of the first iteration, also: it is clearly below;
       all samples that are compared (those of a prompt, or all) earned the same; normalized rewards hardly
       differ; the share of different samples of a prompt (samples 1: of all) is below half of what it was
       at first, or the entropy below a tenth; the KL is above 1 per token */
    char warning[160];
} ppo_rlhf_progress;

/* PPO on tokens.
       policy     borrowed and trained, with a restarted optimizer
       reference  another model, borrowed; NULL: a copy of the policy as it is now or, if kl_coef is 0, none
       critic     a model with a score, borrowed and trained; NULL: a copy of the policy, with a score. It
                  may be the policy, which takes less memory and time, but then learning values changes the
                  policy at random. Only the advantages GAE and SEQUENCE use a critic
       prompts    copied: all sequences, or their first prompt[s] tokens
       reward     may be NULL if only ppo_rlhf_update() is called
   Copies of a model with LoRA share its base. */
typedef struct ppo_rlhf ppo_rlhf;
PPO_DEF ppo_status ppo_rlhf_create(ppo_lm *policy, const ppo_lm *reference, ppo_lm *critic,
                                   const ppo_tokens *prompts, ppo_reward_fn reward, void *user,
                                   const ppo_rlhf_config *config, ppo_rlhf **rlhf);
PPO_DEF void ppo_rlhf_free(ppo_rlhf *rlhf);
/* An iteration: samples, calls the reward function, and updates. progress may be NULL. A failure before
   the first gradient step changes nothing: the next call repeats the iteration. After a later failure
   (numbers that are not finite) the models keep the steps taken so far. */
PPO_DEF ppo_status ppo_rlhf_iterate(ppo_rlhf *rlhf, ppo_rlhf_progress *progress);
/* Only the update, from samples and rewards of your own: prompts x samples of them, those of a prompt
   adjacent, none longer than the longest prompt and max_new_tokens allow. samples->logp NULL: the policy sampled
   them. If another policy or other arithmetic did, set importance_cap. */
PPO_DEF ppo_status ppo_rlhf_update(ppo_rlhf *rlhf, const ppo_samples *samples, const float *reward,
                                   ppo_rlhf_progress *progress);

#endif /* PPO_NO_LANGUAGE */

/* ========================================================================================================
   REPORTS
   ======================================================================================================== */

#ifndef PPO_NO_REPORTS

/* --------------------------------------------------------------------------------------------------------
   23 Progress, curves, CSV
   -------------------------------------------------------------------------------------------------------- */

/* Draws y [n] against x [n], which ascends, with width x height characters (at most 256 x 256 without the
   labels). Points that are not finite are left out. title may be NULL. */
PPO_DEF void ppo_print_curve(FILE *file, const char *title, const float *x, const float *y, int n, int width,
                             int height);

#ifndef PPO_NO_CONTROL
/* A callback that prints a progress line to the FILE * given as callback_user (NULL: stderr). A terminal
   shows one line, rewritten in place; elsewhere a line is printed for every twentieth of the training. Until an
   episode has ended it has the reward per step in place of the return. */
PPO_DEF int ppo_print_progress(const ppo_progress *progress, void *file);

/* A log of a run as a CSV file, with the keys of Stable-Baselines3's logger for PPO, which mean the same:

       rollout/ep_len_mean   rollout/ep_rew_mean    time/fps               time/iterations
       time/time_elapsed     time/total_timesteps   train/approx_kl        train/clip_fraction
       train/clip_range      train/clip_range_vf    train/entropy_loss     train/explained_variance
       train/learning_rate   train/loss             train/n_updates        train/policy_gradient_loss
       train/std             train/value_loss

   train/value_loss is the mean squared error, twice ours; train/n_updates counts epochs; train/approx_kl is
   that of the last epoch. Ours are rollout/step_rew_mean, which is mean_reward, and train/warning, the symptom
   and its sentence, with ; for commas. Without a finished episode, value_clip, a Gaussian or a symptom their fields
   are empty. Figures of the environment follow as env/NAME. One difference: a row here has the update of its own
   iteration, there that of the iteration before.

       static int on_iteration(const ppo_progress *progress, void *log) {
           return ppo_log_write((ppo_log *)log, progress); // the training ends if this fails
       } */
typedef struct ppo_log ppo_log;

/* csv_path is usually "progress.csv"; missing directories are created. tensorboard_dir receives the log as
   TensorBoard's event files, too, if ppo_report.h is there. One of both may be NULL. steps 0: a new run; an old
   CSV is replaced. steps > 0: a run resumed after that many steps; later rows of the CSV, if there is one, are
   dropped, which needs ppo_resume.h. Error: a CSV with other columns. */
PPO_DEF ppo_status ppo_log_open(const char *csv_path, const char *tensorboard_dir, int64_t steps,
                                ppo_log **log);
/* Writes at once. Errors: those of the files; the next call then continues after the last complete row. */
PPO_DEF ppo_status ppo_log_write(ppo_log *log, const ppo_progress *progress);
PPO_DEF void ppo_log_close(ppo_log *log);
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
#define PPO__WARNINGS_OFF                                                             \
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wconversion\"") \
        _Pragma("GCC diagnostic ignored \"-Wsign-conversion\"")                       \
            _Pragma("GCC diagnostic ignored \"-Wunused-parameter\"")
#define PPO__WARNINGS_BACK _Pragma("GCC diagnostic pop")
PPO__WARNINGS_OFF
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
#define PPO__WARNINGS_OFF        __pragma(warning(push)) __pragma(warning(disable : 4100 4244 4267 4996))
#define PPO__WARNINGS_BACK       __pragma(warning(pop))
PPO__WARNINGS_OFF
#else /* tcc: no thread-local variables, so only one thread may use the library */
#define PPO__THREAD_LOCAL
#define PPO__NOINLINE
#define PPO__PRINTF(text, first)
#define PPO__ATOMIC_LOAD(x)      (x)
#define PPO__ATOMIC_STORE(x, to) ((x) = (to))
#define PPO__WARNINGS_OFF
#define PPO__WARNINGS_BACK
#endif

#if !defined(PPO_NO_THREADS) && defined(PPO__ATOMIC_ADD) && !defined(_M_ARM64) && \
    (defined(PPO__UNIX) || defined(_WIN32)) &&                                    \
    (!defined(__EMSCRIPTEN__) || defined(__EMSCRIPTEN_PTHREADS__))
#define PPO__THREADS
#ifdef PPO__UNIX
#include <pthread.h>
#endif
#endif

/* What is between COLD and COLD_END is compiled for size and to be debugged, which takes gcc and clang half as long:
   code that runs once or waits for kernels. Loops over samples, rows or numbers are left out of it, and TINY functions
   become a part of their callers on both sides. RARE ones are the longest of those that run once, and those that fail:
   gcc makes them short, and whatever leads to them. The user's code and flags are as before after COLD_END. */
#if !defined(__OPTIMIZE__) || defined(__OPTIMIZE_SIZE__) || defined(__CUDACC__) || defined(__TINYC__)
#define PPO__COLD
#define PPO__COLD_END
#elif defined(__clang__)
#define PPO__COLD     _Pragma("clang attribute push(__attribute__((minsize)), apply_to = function)")
#define PPO__COLD_END _Pragma("clang attribute pop")
#else
#define PPO__COLD                                                                           \
    _Pragma("GCC push_options") _Pragma("GCC optimize(\"Og\", \"inline-small-functions\")") \
        _Pragma("GCC optimize(\"inline-functions-called-once\", \"crossjumping\")")         \
            _Pragma("GCC optimize(\"peephole2\", \"if-conversion\")")
#define PPO__COLD_END _Pragma("GCC pop_options")
#define PPO__RARE     static __attribute__((cold))
#endif
#ifndef PPO__RARE
#define PPO__RARE static
#endif
#if defined(__GNUC__) && !defined(__TINYC__) && !defined(__CUDACC__)
#define PPO__TINY static inline __attribute__((always_inline))
#else
#define PPO__TINY static inline
#endif

/* A table of functions that a companion header fills, which is all zeros without it: PPO__COMPANION() declares it
   where this file calls it, and PPO__COMPANION_IS() in the companion says what is in it. C takes both as one constant
   (a tentative definition); C++ knows no such thing, and sets the table before main(). */
#ifdef __cplusplus
#define PPO__COMPANION(type, table) static type table
#define PPO__COMPANION_IS(type, table, ...) \
    [[maybe_unused]] static const int table##_filled = (table = type __VA_ARGS__, 1)
#else
#define PPO__COMPANION(type, table)         static const type table
#define PPO__COMPANION_IS(type, table, ...) static const type table = __VA_ARGS__
#endif

/* AddressSanitizer takes a page for one array: with it, what no array has is poisoned, 16 bytes or more. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PPO__ASAN
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(PPO__ASAN)
#include <sanitizer/asan_interface.h>
#define PPO__FENCE 16
#define PPO__REGION(poison, device, at, bytes) \
    ((device) ? (void)0 : __asan_##poison##_memory_region(at, bytes))
#else
#define PPO__FENCE                             0
#define PPO__REGION(poison, device, at, bytes) ((void)0)
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
   ppo_set_threads() belongs to the calling thread, the others to trainers.

   Groups of processes. The functions ppo__group_...() are those by which processes exchange what they have;
   ppo_group.h has their bodies. All processes call them in the same order, also after a failure in one of them. */
PPO__COLD
enum { PPO__ERROR_SIZE = 256, PPO__ALIGN = 64 };

static PPO__THREAD_LOCAL char ppo__error[PPO__ERROR_SIZE];
static PPO__THREAD_LOCAL ppo_status ppo__failed; /* of the last ppo_fail(), for callers that got NULL */
static PPO__THREAD_LOCAL unsigned ppo__failures; /* how many there were */

PPO_DEF const char *ppo_last_error(void) { return ppo__error; }

PPO_DEF PPO__PRINTF(2, 3) ppo_status ppo_fail(ppo_status status, const char *format, ...) {
    char text[PPO__ERROR_SIZE]; /* the last error may be a part of this one */
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format ? format : "no reason is given", args);
    va_end(args);
    memcpy(ppo__error, text, sizeof text);
    ++ppo__failures;
    return ppo__failed = status;
}

#define ppo__refuse(...) ppo_fail(PPO_ERROR_ARGUMENT, __VA_ARGS__)

/* What is missing where a companion is. */
static ppo_status ppo__needs(const char *what, const char *header) {
    return ppo__refuse("%s needs %s: include it after ppo.h, where PPO_IMPLEMENTATION is", what, header);
}

/* 1 if the pointers that a public function needs are there, else 0, with the first that is NULL as the error. The
   names are read only for that sentence: functions that are called at every step pass here. */
#define PPO__GIVEN(function, ...) ppo__pointers_given(function, #__VA_ARGS__, __VA_ARGS__, &ppo__no_more)
static const char ppo__no_more = 0;

static PPO__NOINLINE int ppo__pointers_given(const char *function, const char *names, ...) {
    const void *pointer;
    int given = 0;
    va_list args;
    va_start(args, names);
    while ((pointer = va_arg(args, const void *)) != NULL && pointer != &ppo__no_more) ++given;
    va_end(args);
    if (pointer) return 1;
    for (; given > 0; --given) names += strcspn(names, ",") + strspn(names + strcspn(names, ","), ", ");
    ppo__refuse("%s: %.*s is NULL", function, (int)strcspn(names, ","), names);
    return 0;
}

/* The status of a user's function that failed. It gave no reason if there are as many failures as before. */
static ppo_status ppo__user_failed(ppo_status status, unsigned before, const char *what) {
    return ppo__failures != before ? status : ppo_fail(status, "the %s failed and gave no reason", what);
}

/* Not by isfinite(), which -ffast-math turns into 1. */
PPO__BOTH PPO__TINY int ppo__finite(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (bits & 0x7f800000u) != 0x7f800000u;
}

PPO__BOTH PPO__TINY float ppo__clamp(float x, float low, float high) {
    return x < low ? low : x > high ? high : x;
}

PPO__TINY int ppo__min_int(int a, int b) { return a < b ? a : b; }
PPO__TINY int ppo__max_int(int a, int b) { return a > b ? a : b; }
PPO__TINY int ppo__divide_up(int n, int size) { return (n - 1) / size + 1; }

/* Where share k of n things begins when they are divided evenly into `of` shares; k = of: the end. */
static int ppo__share(int n, int k, int of) { return (int)((int64_t)n * k / of); }

/* Fails to compile where the condition does not hold. */
#define PPO__ASSERT(condition) ((void)sizeof(char[(condition) ? 1 : -1]))

/* Where row `row` of a matrix of `cols` columns begins. */
PPO__TINY size_t ppo__at(int row, int cols) { return (size_t)row * (size_t)cols; }

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
    int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
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
    char *at = strstr(number, point);
    if (!at) return number;
    *at = '.';
    memmove(at + 1, at + strlen(point), strlen(at + strlen(point)) + 1);
    return number;
}

/* The whole of `text` as a number, with a point whatever the locale says; 0 if it is none. */
PPO__RARE int ppo__parse_number(const char *text, double *value) {
    const char *point = localeconv()->decimal_point, *dot = strchr(text, '.');
    char copy[128], *stop;
    int before = dot ? (int)(dot - text) : -1; /* -1: all of it */
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

/* A number with "nan" and a point in every locale. format NULL: as few digits, 6 or more, as read back equal. */
static const char *ppo__number(char text[64], const char *format, double x) {
    if (x != x) return "nan";
    if (format) snprintf(text, 64, format, x);
    else ppo__shortest_float(text, 6, (float)x);
    return ppo__with_point(text);
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
#elif defined(PPO__UNIX)
    struct timeval now;
    gettimeofday(&now, NULL);
    return (double)now.tv_sec + 1e-6 * (double)now.tv_usec;
#else
    return (double)time(NULL);
#endif
}

static void *ppo__default_hook(void *user, void *ptr, size_t size) {
    (void)user;
    if (size) return realloc(ptr, size);
    free(ptr);
    return NULL;
}

static ppo_realloc_hook ppo__hook = ppo__default_hook;
static void *ppo__hook_user;

PPO_DEF void ppo_set_allocator(ppo_realloc_hook hook, void *user) {
    ppo__hook = hook ? hook : ppo__default_hook;
    ppo__hook_user = hook ? user : NULL;
}

PPO__RARE void *ppo__out_of_memory(double bytes) {
    ppo_fail(PPO_ERROR_MEMORY, "out of memory: %.0f bytes were refused", bytes);
    return NULL;
}

/* A block on a cache line; the pointer that the hook returned is kept just below it. NULL on failure. */
static void *ppo__alloc_uncleared(size_t size) {
    size_t extra = PPO__ALIGN + sizeof(void *);
    char *raw = size < SIZE_MAX / 2 ? (char *)ppo__hook(ppo__hook_user, NULL, size + extra) : NULL;
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
   implementation. It does not survive a failed allocation: ppo__array_grow() makes room in its arrays through our
   hook, in stb_ds's layout, before an element is pushed. Its hash maps allocate within an insertion, so they are not
   used: parameters and settings are few and searched by name, the pairs of BPE are in a map of an arena (ppo_bpe.h). */
#ifndef INCLUDE_STB_DS_H
#pragma push_macro("STB_DS_IMPLEMENTATION")
#pragma push_macro("STBDS_NO_SHORT_NAMES")
#pragma push_macro("T")
#undef T
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
#pragma pop_macro("T")
#pragma pop_macro("STBDS_NO_SHORT_NAMES")
#pragma pop_macro("STB_DS_IMPLEMENTATION")
#endif

static void ppo__array_free(void *array) {
    if (array) ppo__free(stbds_header(array));
}

/* Doubles the room of the array that `array` points to; after a failure that is unchanged. */
static PPO__NOINLINE ppo_status ppo__array_grow(void *array, size_t element_size) {
    void *elements;
    memcpy(&elements, array, sizeof elements);
    size_t length = stbds_arrlenu(elements), capacity = elements ? 2 * stbds_arrcap(elements) : 8;
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

#define ppo__array_push(array, element) ((array)[stbds_header(array)->length++] = (element)) /* has room */

#define PPO__FULL(array)          (!(array) || stbds_header(array)->length == stbds_header(array)->capacity)
#define PPO__ROOM(array)          (PPO__FULL(array) ? ppo__array_grow(&(array), sizeof *(array)) : PPO_OK)
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
    ppo_status (*mirror)(ppo__device *device, ppo_params *params); /* makes params->mirror, without numbers */
    void (*forget)(ppo_params *params);                            /* frees it */
    size_t page_size;            /* the smallest page of an arena: taking memory may be slow */
    struct ppo__mirror *mirrors; /* all of them */
    int users;                   /* arenas that have memory of it */
    char kind[64];               /* others compute other bits */
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
    size_t size, used;
    char *memory;
} ppo__page;

typedef struct ppo__arena {
    ppo__page *page;     /* newest */
    ppo__device *device; /* whose memory it gives out; NULL: the host's */
    ppo_status failed;   /* for ppo__arena_status() */
} ppo__arena;

enum { PPO__PAGE_HEADER = PPO__ALIGN };
#ifndef PPO__PAGE_SIZE /* tests give every array a page of its own, so that each may be refused */
#define PPO__PAGE_SIZE ((size_t)16 * 1024)
#endif

static ppo_status ppo__arena_grow(ppo__arena *arena, size_t size) {
    ppo__device *device = arena->device;
    size_t least = device ? device->page_size : PPO__PAGE_SIZE;
    if (size < least) size = least;
    ppo__page *page = (ppo__page *)ppo__alloc_uncleared(PPO__PAGE_HEADER + (device ? 0 : size));
    if (!page) return PPO_ERROR_MEMORY;
    page->memory = device ? (char *)device->take(device, size) : (char *)page + PPO__PAGE_HEADER;
    if (!page->memory) return ppo__free(page), ppo__failed;
    PPO__REGION(poison, device, page->memory, size);
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
    size_t bytes = (n * size + PPO__FENCE + PPO__ALIGN - 1) / PPO__ALIGN * PPO__ALIGN;
    int possible =
        (n | size) >> (4 * sizeof n - 1) == 0 || !n || size <= SIZE_MAX / 4 / n; /* rarely divides */
    int fits = arena->page && bytes <= arena->page->size - arena->page->used;
    if (!possible) ppo__out_of_memory((double)n * (double)size);
    if (!possible || (!fits && ppo__arena_grow(arena, bytes)))
        return arena->failed = ppo__failed, (void *)NULL;
    void *array = arena->page->memory + arena->page->used;
    arena->page->used += bytes;
    PPO__REGION(unpoison, arena->device, array, n * size);
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
        PPO__REGION(unpoison, arena->device, arena->page->memory, arena->page->size);
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
    if (!arena->page) return;
    PPO__REGION(poison, arena->device, arena->page->memory, arena->page->used);
    arena->page->used = 0;
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
typedef HANDLE ppo__thread;
#define PPO__LOCK_READY SRWLOCK_INIT
typedef SRWLOCK ppo__lock;
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
#define PPO__LOCK_READY PTHREAD_MUTEX_INITIALIZER
typedef pthread_t ppo__thread;
typedef pthread_mutex_t ppo__lock;
typedef pthread_cond_t ppo__signal;
#endif

/* Something that happens again and again. A thread that awaits it looks for some 100 us, then sleeps. */
typedef struct ppo__event {
    volatile int32_t count, sleepers; /* atomic */
    ppo__lock lock;
    ppo__signal signal;
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
#else
#define PPO__LOCK(lock)   ((void)(lock))
#define PPO__UNLOCK(lock) ((void)(lock))
#define PPO__LOCK_READY   0
typedef int ppo__lock;
#endif

enum { PPO__MAX_THREADS = 1024 };

/* bench/cores.c defines it, to measure tasks. */
#ifndef PPO__DO_TASK
#define PPO__DO_TASK(pool, task, user, k) task(user, k)
#endif

/* A thread pool: ppo__pool_run() calls task(user, k) for k = 0 .. tasks-1, on the caller's thread and tasks-1
   others, and returns when all are done. Each thread begins with the task of its own number, whose data may
   be in its cache from the run before; then it takes what is left, so no task waits for a thread that the
   system has not scheduled yet. */
typedef struct ppo__pool {
    int tasks;
    void (*task)(void *user, int k);
    void *user;
#ifdef PPO__THREADS
    long process;                  /* that has the threads: fork() does not copy them */
    volatile int32_t undone, quit; /* atomic: tasks that are not done */
    volatile int32_t numbered;     /* atomic: threads that have a number; the caller's is 0 */
    ppo__event events[2];          /* a run has begun, has ended */
    int started;                   /* threads */
    ppo__thread threads[PPO__MAX_THREADS - 1];
    volatile int32_t taken[PPO__MAX_THREADS]; /* atomic; 0: the task waits for a thread */
#endif
} ppo__pool;

/* The pool that divides the arithmetic of this thread; NULL: it is not divided. */
static PPO__THREAD_LOCAL ppo__pool *ppo__arithmetic_pool;
static PPO__THREAD_LOCAL int ppo__in_task; /* 1: this thread does a task of some pool */

#ifdef PPO__THREADS
/* Does tasks until none is left to take. */
static void ppo__pool_work(ppo__pool *pool, int thread) {
    for (int i = 0, k = thread; i < pool->tasks; ++i, k = k + 1 < pool->tasks ? k + 1 : 0) {
        if (PPO__ATOMIC_LOAD(pool->taken[k]) || PPO__ATOMIC_ADD(pool->taken[k], 1)) continue;
        pool->task(pool->user, k);
        if (PPO__ATOMIC_ADD(pool->undone, -1) == 1) ppo__event_happens(&pool->events[1]);
    }
}

static PPO__THREAD_MAIN ppo__pool_thread(void *user) {
    ppo__pool *pool = (ppo__pool *)user;
    const int thread = 1 + (int)PPO__ATOMIC_ADD(pool->numbered, 1);
    ppo__in_task = 1;
    for (int32_t run = 0;;) {
        run = ppo__event_await(&pool->events[0], run);
        if (PPO__ATOMIC_LOAD(pool->quit)) return 0;
        ppo__pool_work(pool, thread);
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

PPO__RARE ppo_status ppo__pool_create(int tasks, ppo__pool **out) {
    ppo__pool *pool = (ppo__pool *)ppo__alloc(sizeof *pool);
    if (!pool) return PPO_ERROR_MEMORY;
    pool->tasks = tasks;
#ifdef PPO__THREADS
    for (int k = 0; k < tasks; ++k) pool->taken[k] = 1;
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

/* Of `tasks` of them, those after the first few may have nothing to do. A single one is the caller's. */
static void ppo__pool_run(ppo__pool *pool, int tasks, void (*task)(void *user, int k), void *user) {
    ppo__pool *before = ppo__arithmetic_pool;
    int in_task = ppo__in_task;
    ppo__arithmetic_pool = NULL; /* a task is not divided further */
    ppo__in_task = 1;
#ifdef PPO__THREADS
    if (tasks > 1 && pool->process == PPO__PROCESS_ID()) {
        int32_t ended = PPO__ATOMIC_LOAD(pool->events[1].count);
        pool->task = task;
        pool->user = user;
        PPO__ATOMIC_STORE(pool->undone, pool->tasks);
        for (int k = 0; k < pool->tasks; ++k) PPO__ATOMIC_STORE(pool->taken[k], 0);
        ppo__event_happens(&pool->events[0]);
        ppo__pool_work(pool, 0);
        ppo__event_await(&pool->events[1], ended);
    } else
#endif
        for (int k = 0; k < pool->tasks; ++k) PPO__DO_TASK(pool, task, user, k);
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

/* The body of a parallel loop: does rows (or columns) begin .. end - 1, which are range number `thread`. */
typedef void (*ppo__range_fn)(void *user, int thread, int begin, int end);

typedef struct ppo__parallel_loop {
    int n, grain, ranges;
    ppo__range_fn body;
    void *user;
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
    loop->body(loop->user, k, begin, ppo__min_int(end, loop->n));
}

/* Divides rows 0 .. n - 1 among the threads. Ranges begin at multiples of `grain`. `work`: multiply-adds per
   row; too little work is a single range. */
static PPO__NOINLINE void ppo__parallel_for(int n, int grain, double work, ppo__range_fn body, void *user) {
    ppo__parallel_loop loop = {n, grain, ppo__range_count(n, grain, work), body, user};
    if (loop.ranges == 1) body(user, 0, 0, n);
    else ppo__pool_run(ppo__arithmetic_pool, loop.ranges, ppo__parallel_task, &loop);
}

/* body() for each of 0 .. n - 1, side by side: each is so much work that it pays for a thread. */
static void ppo__for_each(int n, ppo__range_fn body, void *user) { ppo__parallel_for(n, 1, 1e9, body, user); }

/* How many threads divide the arithmetic of this one. */
static int ppo__thread_count(void) {
    const ppo__pool *pool = ppo__arithmetic_pool;
#if defined(PPO__THREADS)
    if (pool && pool->process != PPO__PROCESS_ID()) pool = NULL;
#elif !defined(PPO__MODEL_THREADS) /* which bench/cores.c does */
    pool = NULL;
#endif
    return pool ? pool->tasks : 1;
}

/* -- a group of processes: what passes between them -- */

/* What the processes of a group do together: ppo_group.h. */
typedef struct ppo__group_functions {
    ppo_status (*gather)(const ppo_group *g, void *data, const size_t *start);
    ppo_status (*agree)(const ppo_group *g, ppo_status status, int order);
    ppo_status (*any)(const ppo_group *g, int *flag);
    ppo_status (*same)(const ppo_group *g, uint64_t hash, const char *what);
} ppo__group_functions;
PPO__COMPANION(ppo__group_functions, ppo__in_group);

static PPO__THREAD_LOCAL const ppo_group *ppo__group_in_use;

PPO_DEF ppo_status ppo_use_group(const ppo_group *group) {
    const int size = group ? group->size : 1, rank = group ? group->rank : 0;
    if (size < 1 || size > PPO_MAX_RANKS || size & (size - 1))
        return ppo__refuse("ppo_use_group: %d processes, must be 1, 2, 4, ... %d", size, (int)PPO_MAX_RANKS);
    if (rank < 0 || rank >= size) return ppo__refuse("ppo_use_group: rank %d of %d", rank, size);
    if (group && !PPO__GIVEN("ppo_use_group", group->exchange)) return PPO_ERROR_ARGUMENT;
    if (size > 1 && !ppo__in_group.gather)
        return ppo__needs("ppo_use_group: a group of processes", "ppo_group.h");
    ppo__group_in_use = size > 1 ? group : NULL;
    return PPO_OK;
}

PPO_DEF int ppo_group_rank(void) { return ppo__group_in_use ? ppo__group_in_use->rank : 0; }

/* NULL: this thread trains alone. So do environments that train. */
static const ppo_group *ppo__group(void) { return ppo__in_task ? NULL : ppo__group_in_use; }

static int ppo__rank(const ppo_group *g) { return g ? g->rank : 0; }
static int ppo__ranks(const ppo_group *g) { return g ? g->size : 1; }

/* Of n things that are divided evenly, those of this process. */
static int ppo__own_begin(const ppo_group *g, int n) { return ppo__share(n, ppo__rank(g), ppo__ranks(g)); }
static int ppo__own_end(const ppo_group *g, int n) { return ppo__share(n, ppo__rank(g) + 1, ppo__ranks(g)); }

/* Rank r has bytes start[r] .. start[r + 1] - 1 of `data`; afterwards every rank has all of it. */
static ppo_status ppo__group_gather(const ppo_group *g, void *data, const size_t *start) {
    return g ? ppo__in_group.gather(g, data, start) : PPO_OK;
}

/* The same for n rows of `bytes` bytes that are divided evenly. */
static ppo_status ppo__group_share(const ppo_group *g, void *data, int n, size_t bytes) {
    size_t start[PPO_MAX_RANKS + 1];
    if (!g) return PPO_OK;
    for (int r = 0; r <= g->size; ++r) start[r] = (size_t)ppo__share(n, r, g->size) * bytes;
    return ppo__group_gather(g, data, start);
}

/* The failure of any rank becomes that of all: the earliest, by `order`, then by rank. */
static ppo_status ppo__group_agree(const ppo_group *g, ppo_status status, int order) {
    return g ? ppo__in_group.agree(g, status, order) : status;
}

/* *flag becomes 1 on all ranks if it is on any: a callback wants to stop. */
static ppo_status ppo__group_any(const ppo_group *g, int *flag) {
    return g ? ppo__in_group.any(g, flag) : PPO_OK;
}

/* An error unless `hash` is the same on all ranks. */
static ppo_status ppo__group_same(const ppo_group *g, uint64_t hash, const char *what) {
    return g ? ppo__in_group.same(g, hash, what) : PPO_OK;
}
PPO__COLD_END

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
PPO_DEF float ppo_rng_uniform(ppo_rng *rng) { return ppo__rng_uniform(rng); }

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
    for (int i = n > 1 ? n - 1 : 0; i > 0 && rng && x; --i) {
        int j = ppo_rng_below(rng, i + 1), swap = x[i];
        x[i] = x[j];
        x[j] = swap;
    }
}

/* --------------------------------------------------------------------------------------------------------
   @@ 3 Kernels. A table of kernels exists once per instruction set; ppo__kernels_find() chooses at run time:

       plain     scalar C: the specification, and what every processor can run
       avx2      x86-64 with AVX2 and FMA      8 floats per vector
       avx512    x86-64 with AVX-512F, DQ, BW 16 floats per vector
       amx       that, with AMX of BF16        products of layers in tiles; only by name, in ppo_amx.h
       vector16  all others with gcc or clang  4 floats per vector, in the compiler's own vectors; for x86-64 by
                                               the switch PPO_VECTOR16 alone
       neon      aarch64                       4 floats per vector: vector16 with a multiply-add
       fma       x86-64 with AVX and FMA       4 floats per vector: the same for GCC on Windows

   The vector kernels are written once, in the region under PPO__KERNEL_PASS. This file includes itself there
   once per instruction set, after defining what a vector is. Function attributes, not compiler flags, give
   the instruction set, so a plain `cc -O2` has them all.

   To add an instruction set:
       a block of definitions (PPO__TARGET to PPO__ZIP2_HIGH) that ends with #include PPO_FILE_NAME, as those
       below; its macro PPO__HAS_; a line in ppo__kernels_find(), the fastest set first; its name in the comment of
       ppo_use_kernels() and in kernel_sets of tests/test.h. test_math.c compares each set that the processor
       has with the bounds below, and fails for one that is not in kernel_sets.
   To add a kernel:
       a field of ppo__kernels, a line in PPO__KERNEL_TABLE, the plain function, and the vector function.

   Bits. An elementwise kernel gives an element the same bits wherever it stands: the last, partial vector
   runs through the same code. Each element of a gemm is one chain of fused multiply-adds over k = 0, 1, ...:
   its bits do not depend on its neighbours. Both are the same in all vector tables, with two exceptions: the
   multiply-add of vector16 rounds twice where the processor has none, and amx has its own products of layers.
   Reductions and softmax rows depend on n and on the content only. A product that is added to something is
   always an explicit PPO__FMA, so that no compiler can choose to fuse one and not another.

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

/* y = f(z), and dz = dy f'(z) from y, or from z where y does not tell it; y may be z, and dz may be dy. GELU is
   z P with P = (1 + erf(z / sqrt 2)) / 2, or in the tanh form of GPT-2 z (1 + tanh u) / 2 with
   u = sqrt(2/pi) (z + 0.044715 z^3). */
typedef struct ppo__activation {
    void (*value)(const float *z, float *y, size_t n); /* NULL: the identity */
    void (*backward)(const float *kept, const float *dy, float *dz, size_t n);
    int keeps_z;
} ppo__activation;

enum { PPO__WIDE = 128, PPO__PRODUCT = 32, PPO__PACKED_A = 1, PPO__PACKED_B = 2 };

typedef struct ppo__kernels {
    const char *name;
    /* c (rows, cols) = init + a b, the inner dimension being `inner`. a(i,k) = a[i*a_row + k*a_col], so a transposed
       a costs nothing; b(k,j) = b[k*ldb + j]; c(i,j) = c[i*ldc + j]; init(i,j) = init[i*ld_init + j], or 0 where init
       is NULL. A bias has ld_init = 0, accumulation has init = c. */
    void (*gemm)(int rows, int cols, int inner, const float *a, int a_row, int a_col, const float *b, int ldb,
                 const float *init, int ld_init, float *c, int ldc);
    /* out (cols, rows) = a (rows, cols) transposed */
    void (*transpose)(int rows, int cols, const float *a, int lda, float *out, int ldo);
    /* out (rows, cols) = a (rows, cols), which is BF16; and of one row, c = init + a b with such a b, where cols
       is a multiple of PPO__WIDE; init may be NULL. */
    void (*widen)(int rows, int cols, const uint16_t *a, int lda, float *out, int ldo);
    void (*row_times)(int cols, int inner, const float *a, const uint16_t *b, int ldb, const float *init,
                      float *c);
    /* elementwise, y may be x */
    void (*vexp)(const float *x, float *y, size_t n);
    void (*vlog)(const float *x, float *y, size_t n);
    void (*vtanh)(const float *x, float *y, size_t n);
    ppo__activation activation[PPO__ACTIVATIONS];
    void (*add)(const float *x, float *y, size_t n); /* y += x */
    void (*scale)(float a, float *x, size_t n);      /* x *= a */
    /* sum[j] += x(0,j) + x(1,j) + ..., in this order */
    void (*column_sum)(int rows, int cols, const float *x, int ldx, float *sum);
    double (*sum_squares)(float a, const float *x, size_t n); /* of the numbers a x */
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
    /* Adam with decoupled decay (Kingma & Ba 2015; Loshchilov & Hutter 2019), in PyTorch's form, for the gradient
       g scale clip: p -= decay p; m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g g;
       p -= step_size m / (sqrt(v) inv_sqrt_bias2 + eps). */
    void (*adam)(float *p, const float *g, float scale, float clip, float *m, float *v, size_t n, float beta1,
                 float beta2, float eps, float step_size, float inv_sqrt_bias2, float decay);
    /* A gemm for layers. a or b may be BF16; a_row or a_col is 1, a_col if a is BF16; inner is at least
       PPO__PRODUCT. NULL: layers use the gemm. */
    void (*product)(int packed, int rows, int cols, int inner, const void *a, int a_row, int a_col,
                    const void *b, int ldb, const float *init, int ld_init, float *c, int ldc);
} ppo__kernels;

/* A table of the kernels whose names begin with `prefix`. */
#define PPO__JOIN2(a, b) a##b
#define PPO__JOIN(a, b)  PPO__JOIN2(a, b)
#define PPO__FIVE(p, a, b, c, d, e) \
    PPO__JOIN(p, a), PPO__JOIN(p, b), PPO__JOIN(p, c), PPO__JOIN(p, d), PPO__JOIN(p, e)
#define PPO__ACTIVATION(p, name, keeps_z) \
    { PPO__JOIN(p, name), PPO__JOIN(p, name##_backward), keeps_z }
#define PPO__KERNEL_TABLE(table, prefix, label, product)                                 \
    static const ppo__kernels table = {                                                  \
        label,                                                                           \
        PPO__FIVE(prefix, gemm, transpose, widen, row_times, exp),                       \
        PPO__JOIN(prefix, log),                                                          \
        PPO__JOIN(prefix, tanh),                                                         \
        {{NULL, NULL, 0},                                                                \
         PPO__ACTIVATION(prefix, tanh, 0),                                               \
         PPO__ACTIVATION(prefix, relu, 0),                                               \
         PPO__ACTIVATION(prefix, gelu, 1),                                               \
         PPO__ACTIVATION(prefix, gelu_erf, 1),                                           \
         PPO__ACTIVATION(prefix, silu, 1),                                               \
         PPO__ACTIVATION(prefix, elu, 0)},                                               \
        PPO__FIVE(prefix, add, scale, column_sum, sum_squares, softmax_stats),           \
        PPO__FIVE(prefix, softmax_grad, softmax, softmax_backward, norm, norm_backward), \
        PPO__JOIN(prefix, adam),                                                         \
        product}

#define PPO__GELU_SCALE 0.797884561f /* sqrt(2/pi) */
#define PPO__GELU_CUBIC 0.044715f
#define PPO__SQRT_HALF  0.707106781f
#define PPO__DENSITY_0  0.398942280f /* 1 / sqrt(2 pi): the normal density at 0 */

/* -- the plain kernels: the specification -- */

static void ppo__plain_gemm(int rows, int cols, int inner, const float *a, int a_row, int a_col,
                            const float *b, int ldb, const float *init, int ld_init, float *c, int ldc) {
    for (ptrdiff_t i = 0; i < rows; ++i) {
        float *row = c + i * ldc;
        for (ptrdiff_t j = 0; j < cols; ++j) row[j] = init ? init[i * ld_init + j] : 0.0f;
        for (ptrdiff_t k = 0; k < inner; ++k) {
            const float aik = a[i * a_row + k * a_col];
            for (ptrdiff_t j = 0; j < cols; ++j) row[j] += aik * b[k * ldb + j];
        }
    }
}

static void ppo__plain_transpose(int rows, int cols, const float *a, int lda, float *out, int ldo) {
    for (ptrdiff_t i = 0; i < rows; ++i)
        for (ptrdiff_t j = 0; j < cols; ++j) out[j * ldo + i] = a[i * lda + j];
}

static float ppo__bf16(uint16_t x) {
    const uint32_t bits = (uint32_t)x << 16;
    float y;
    return memcpy(&y, &bits, sizeof y), y;
}

static void ppo__plain_widen(int rows, int cols, const uint16_t *a, int lda, float *out, int ldo) {
    for (ptrdiff_t i = 0; i < rows; ++i)
        for (ptrdiff_t j = 0; j < cols; ++j) out[i * ldo + j] = ppo__bf16(a[i * lda + j]);
}

static void ppo__plain_row_times(int cols, int inner, const float *a, const uint16_t *b, int ldb,
                                 const float *init, float *c) {
    for (int j = 0; j < cols; ++j) c[j] = init ? init[j] : 0.0f;
    for (int k = 0; k < inner; k++, b += ldb)
        for (int j = 0; j < cols; ++j) c[j] += a[k] * ppo__bf16(b[j]);
}

static void ppo__plain_add(const float *x, float *y, size_t n) {
    for (size_t i = 0; i < n; ++i) y[i] += x[i];
}

static void ppo__plain_scale(float a, float *x, size_t n) {
    for (size_t i = 0; i < n; ++i) x[i] *= a;
}

static void ppo__plain_column_sum(int rows, int cols, const float *x, int ldx, float *sum) {
    for (ptrdiff_t i = 0; i < rows; ++i)
        for (ptrdiff_t j = 0; j < cols; ++j) sum[j] += x[i * ldx + j];
}

static double ppo__plain_sum_squares(float a, const float *x, size_t n) {
    double sum = 0.0;
    for (size_t i = 0; i < n; ++i) {
        const float ax = a * x[i];
        sum += (double)ax * ax;
    }
    return sum;
}

static void ppo__plain_softmax_stats(int rows, int n, const float *logits, int ld, float inv_temperature,
                                     float *max, float *sum, float *dot) {
    for (ptrdiff_t i = 0; i < rows; i++, logits += ld) {
        float top = -INFINITY, s = 0.0f, d = 0.0f;
        for (int j = 0; j < n; ++j) top = fmaxf(top, logits[j] * inv_temperature);
        for (int j = 0; j < n; ++j) {
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
        for (int j = 0; j < n; ++j) {
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

PPO__BOTH static float ppo__gelu_erf(float x) { return 0.5f * x * erfcf(-PPO__SQRT_HALF * x); }

PPO__BOTH static float ppo__gelu_erf_derivative(float x) {
    return 0.5f * erfcf(-PPO__SQRT_HALF * x) + PPO__DENSITY_0 * x * expf(-0.5f * x * x);
}

PPO__BOTH static float ppo__silu(float x) { return x / (1.0f + expf(-x)); }

PPO__BOTH static float ppo__silu_derivative(float x) {
    const float s = 1.0f / (1.0f + expf(-x));
    return s + x * s * (1.0f - s);
}

#define PPO__PLAIN(name, value)                                         \
    static void ppo__plain_##name(const float *x, float *y, size_t n) { \
        for (size_t i = 0; i < n; ++i) y[i] = value;                    \
    }
#define PPO__PLAIN_BACKWARD(name, value)                                                             \
    static void ppo__plain_##name##_backward(const float *x, const float *dy, float *dx, size_t n) { \
        for (size_t i = 0; i < n; ++i) dx[i] = value;                                                \
    }

PPO__PLAIN(exp, expf(x[i]))
PPO__PLAIN(log, logf(x[i]))
PPO__PLAIN(tanh, tanhf(x[i]))
PPO__PLAIN(relu, x[i] < 0.0f ? 0.0f : x[i])
PPO__PLAIN(gelu, ppo__gelu(x[i]))
PPO__PLAIN(gelu_erf, ppo__gelu_erf(x[i]))
PPO__PLAIN(silu, ppo__silu(x[i]))
PPO__PLAIN(elu, x[i] < 0.0f ? expm1f(x[i]) : x[i])
PPO__PLAIN_BACKWARD(gelu, dy[i] * ppo__gelu_derivative(x[i]))
PPO__PLAIN_BACKWARD(gelu_erf, dy[i] * ppo__gelu_erf_derivative(x[i]))
PPO__PLAIN_BACKWARD(silu, dy[i] * ppo__silu_derivative(x[i]))
PPO__PLAIN_BACKWARD(tanh, dy[i] * (1.0f - x[i] * x[i]))
PPO__PLAIN_BACKWARD(relu, x[i] > 0.0f ? dy[i] : 0.0f)
PPO__PLAIN_BACKWARD(elu, x[i] < 0.0f ? dy[i] * (x[i] + 1.0f) : dy[i])

static void ppo__plain_softmax(float scale, float *x, int n) {
    float top = -INFINITY, sum = 0.0f;
    for (int j = 0; j < n; ++j) top = fmaxf(top, x[j]);
    for (int j = 0; j < n; ++j) sum += x[j] = expf(scale * (x[j] - top));
    for (int j = 0; j < n; ++j) x[j] *= 1.0f / sum;
}

static void ppo__plain_softmax_backward(float scale, const float *p, const float *dp, float *out, int n) {
    float dot = 0.0f;
    for (int j = 0; j < n; ++j) dot += p[j] * dp[j];
    for (int j = 0; j < n; ++j) out[j] = scale * p[j] * (dp[j] - dot);
}

static void ppo__plain_norm(int centred, float eps, const float *x, const float *w, const float *b, float *y,
                            int n, float *mean, float *rstd) {
    float sum = 0.0f, squares = 0.0f;
    for (int j = 0; j < n && centred; ++j) sum += x[j];
    *mean = sum / (float)n;
    for (int j = 0; j < n; ++j) squares += (x[j] - *mean) * (x[j] - *mean);
    *rstd = 1.0f / sqrtf(squares / (float)n + eps);
    for (int j = 0; j < n; ++j) y[j] = w[j] * ((x[j] - *mean) * *rstd) + (b ? b[j] : 0.0f);
}

/* With x^ = (x - mean) rstd and g = dy w: dx += rstd (g - mean(g) - x^ mean(g x^)), dw += dy x^, db += dy; the
   first mean only if centred. */
static void ppo__plain_norm_backward(int centred, const float *x, const float *w, float mean, float rstd,
                                     const float *dy, float *dx, float *dw, float *db, int n) {
    float g_sum = 0.0f, gx_sum = 0.0f;
    for (int j = 0; j < n; ++j) {
        const float xhat = (x[j] - mean) * rstd, g = dy[j] * w[j];
        if (centred) g_sum += g;
        gx_sum += g * xhat;
        if (dw) dw[j] += dy[j] * xhat;
        if (db) db[j] += dy[j];
    }
    for (int j = 0; j < n && dx; ++j) {
        const float xhat = (x[j] - mean) * rstd;
        dx[j] += rstd * (dy[j] * w[j] - (g_sum + xhat * gx_sum) / (float)n);
    }
}

/* Of one parameter. Without a gradient, m shrinks to a subnormal number, which rounding keeps for good, and with
   which processors compute many times as slowly. Such an m is made 0: it would not change p. */
PPO__BOTH static void ppo__adam_one(float *p, float g, float *m, float *v, float beta1, float beta2,
                                    float eps, float step_size, float inv_sqrt_bias2, float decay) {
    *p -= decay * *p;
    *m = beta1 * *m + (1.0f - beta1) * g;
    if (fabsf(*m) < FLT_MIN) *m = 0;
    *v = beta2 * *v + (1.0f - beta2) * g * g;
    *p -= step_size * *m / (sqrtf(*v) * inv_sqrt_bias2 + eps);
}

static void ppo__plain_adam(float *p, const float *g, float scale, float clip, float *m, float *v, size_t n,
                            float beta1, float beta2, float eps, float step_size, float inv_sqrt_bias2,
                            float decay) {
    for (size_t i = 0; i < n; ++i)
        ppo__adam_one(&p[i], g[i] * scale * clip, &m[i], &v[i], beta1, beta2, eps, step_size, inv_sqrt_bias2,
                      decay);
}

PPO__KERNEL_TABLE(ppo__plain_kernels, ppo__plain_, "plain", NULL);

/* -- the vector kernels: one pass over PPO__KERNEL_PASS per instruction set -- */

#ifndef PPO_FILE_NAME
#ifdef __FILE_NAME__
#define PPO_FILE_NAME __FILE_NAME__
#else
#define PPO_FILE_NAME "ppo.h"
#endif
#endif

/* The sets that are compiled. GCC for Windows does not align the stack for vectors of more than 16 bytes (GCC bug
   54412). Tests define PPO__SHORT_VECTORS to have its kernels elsewhere. */
#if !defined(PPO_NO_SIMD) && defined(__GNUC__) && !defined(__TINYC__)
#define PPO__VECTORS
#if defined(_WIN32) && !defined(__clang__)
#define PPO__SHORT_VECTORS
#endif
#if defined(__aarch64__) && defined(__ARM_NEON)
#define PPO__HAS_NEON
#elif !defined(__x86_64__)
#define PPO__HAS_VECTOR16
#elif defined(PPO__SHORT_VECTORS)
#define PPO__HAS_FMA
#else
#define PPO__HAS_AVX
#include <immintrin.h>
#if !defined(__OPTIMIZE_SIZE__) || defined(PPO_AVX512)
#define PPO__HAS_AVX512
#endif
#endif
#if defined(__x86_64__) && defined(PPO_VECTOR16)
#define PPO__HAS_VECTOR16
#endif
#endif

#ifdef PPO__VECTORS

#define PPO__(name) PPO__JOIN(PPO__ISA, name)
#define PPO__FN     static PPO__TARGET
#define PPO__INLINE static inline __attribute__((always_inline)) PPO__TARGET
#define PPO__HOT    __attribute__((noinline, aligned(64))) /* a loop's fixed place in cache lines: up to 8 % */

/* -O2 alone leaves small constant loops rolled, and then their arrays of vectors live in memory. */
#ifdef __CUDACC__
#pragma nv_diag_suppress 1675 /* nvcc does not know the pragma, but hands it on */
#endif
#ifdef __clang__
#define PPO__UNROLL _Pragma("clang loop unroll(full)")
#define PPO__ROLL   _Pragma("clang loop unroll(disable)")
#else
#define PPO__UNROLL _Pragma("GCC unroll 16")
#define PPO__ROLL   _Pragma("GCC unroll 1")
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

/* 1.5 * 2^23: adding it rounds |x| < 2^22 to an integer, which then stands in the low bits */
#define PPO__ROUNDER      12582912.0f
#define PPO__ROUNDER_BITS 0x4B400000

/* The arguments of a gemm, for its parts. */
typedef struct {
    int inner;
    const float *a, *b, *init;
    float *c;
    ptrdiff_t a_row, a_col, ldb, ld_init, ldc;
} ppo__gemm_job;

#endif

#define PPO__KERNEL_PASS

/* What an instruction set defines. Those with a PREFIX get from it what _mm256_ and _mm512_ have in common, those
   without are of 16 bytes, and need TARGET, ISA, ISA_NAME and TILE_VECS alone. A tile of TILE_ROWS rows
   and TILE_VECS vectors, a row of b and one float of a should fit in the registers.
       VEC                    a GNU vector of WIDTH floats: -x, x * y, and casts to vectors of ints work on it
       DOUBLES                the same with WIDTH / 2 doubles; LOAD_DOUBLES(p, a) makes one of floats times a
       MASK_OF(lanes)         the first 1 .. WIDTH lanes; LOADM gives 0 in the others, STOREM leaves them
       PAD(mask, v, pad)      v where the mask is, else pad
       FMA(a, b, c)           a b + c, rounded once where the processor can
       MIN(a, b), MAX(a, b)   b where b is NaN
       TIMES_2_TO(y, n)       y 2^n, if there is an instruction
       LOAD_GROUPS(p, step)   groups of four floats: p[0 .. 3], p[step .. step + 3], ...
       ZIP_LOW, ZIP_HIGH      in each group: a0 b0 a1 b1, and a2 b2 a3 b3
       ZIP2_LOW, ZIP2_HIGH    in each group: a0 a1 b0 b1, and a2 a3 b2 b3 */
#ifdef PPO__HAS_AVX

/* GCC's AVX-512 intrinsics start from undefined vectors, which g++ 12 reports as used uninitialized. */
#ifndef __clang__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#define PPO__TARGET    __attribute__((target("avx2,fma")))
#define PPO__ISA       ppo__avx2_
#define PPO__ISA_NAME  "avx2"
#define PPO__WIDTH     8
#define PPO__VEC       __m256
#define PPO__PREFIX    _mm256_
#define PPO__DOUBLES   __m256d
#define PPO__TILE_ROWS 6
#define PPO__TILE_VECS 2
#define PPO__MASK      __m256i
#define PPO__MASK_OF(lanes) \
    _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(lanes)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
#define PPO__LOADM(p, mask)            _mm256_maskload_ps(p, mask)
#define PPO__STOREM(p, mask, v)        _mm256_maskstore_ps(p, mask, v)
#define PPO__PAD(mask, v, pad)         _mm256_blendv_ps(pad, v, _mm256_castsi256_ps(mask))
#define PPO__IF_GREATER(a, b, yes, no) _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_GT_OQ))
#define PPO__LOAD_DOUBLES(p, a)        _mm256_cvtps_pd(_mm_mul_ps(_mm_loadu_ps(p), _mm_set1_ps(a)))
#define PPO__LOAD_GROUPS(p, step) \
    _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps((p) + (step)), 1)
#include PPO_FILE_NAME

#ifdef PPO__HAS_AVX512
#define PPO__TARGET                    __attribute__((target("avx512f,avx512dq,avx512bw,avx2,fma")))
#define PPO__ISA                       ppo__avx512_
#define PPO__ISA_NAME                  "avx512"
#define PPO__WIDTH                     16
#define PPO__VEC                       __m512
#define PPO__PREFIX                    _mm512_
#define PPO__DOUBLES                   __m512d
#define PPO__TILE_ROWS                 4
#define PPO__TILE_VECS                 4
#define PPO__MASK                      __mmask16
#define PPO__MASK_OF(lanes)            ((__mmask16)((1u << (lanes)) - 1u))
#define PPO__LOADM(p, mask)            _mm512_maskz_loadu_ps(mask, p)
#define PPO__STOREM(p, mask, v)        _mm512_mask_storeu_ps(p, mask, v)
#define PPO__PAD(mask, v, pad)         _mm512_mask_blend_ps(mask, pad, v)
#define PPO__IF_GREATER(a, b, yes, no) _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), no, yes)
#define PPO__TIMES_2_TO(y, n)          _mm512_scalef_ps(y, n)
#define PPO__LOAD_DOUBLES(p, a)        _mm512_cvtps_pd(_mm256_mul_ps(_mm256_loadu_ps(p), _mm256_set1_ps(a)))
#define PPO__LOAD_GROUP(into, group, p) \
    _mm512_mask_broadcast_f32x4(into, (__mmask16)(15 << 4 * (group)), _mm_loadu_ps(p))
#define PPO__LOAD_GROUPS(p, step)                                                                     \
    PPO__LOAD_GROUP(                                                                                  \
        PPO__LOAD_GROUP(PPO__LOAD_GROUP(_mm512_castps128_ps512(_mm_loadu_ps(p)), 1, (p) + (step)), 2, \
                        (p) + 2 * (step)),                                                            \
        3, (p) + 3 * (step))
#include PPO_FILE_NAME
#endif

#ifndef __clang__
#pragma GCC diagnostic pop
#endif

#endif

#if defined(PPO__HAS_NEON) || defined(PPO__HAS_FMA) || defined(PPO__HAS_VECTOR16)

/* Vectors of 16 bytes in GNU C, for a set that does not define PREFIX: the compiler finds the instructions of its
   processor, or computes float by float where there are none. */
#if defined(__i386__)
#define PPO__TARGET16 __attribute__((target("sse2")))
#elif defined(__wasm__)
#define PPO__TARGET16 __attribute__((target("simd128")))
#else
#define PPO__TARGET16
#endif
#define PPO__INLINE16 static inline __attribute__((always_inline)) PPO__TARGET16

typedef float ppo__float4 __attribute__((vector_size(16)));
typedef float ppo__float4_anywhere __attribute__((vector_size(16), aligned(4), may_alias));
typedef int ppo__int4 __attribute__((vector_size(16)));
typedef double ppo__double2 __attribute__((vector_size(16)));

PPO__INLINE16 ppo__float4 ppo__set4(float a, float b, float c, float d) {
    const ppo__float4 v = {a, b, c, d};
    return v;
}

PPO__INLINE16 ppo__float4 ppo__load4(const float *p, size_t lanes) {
    if (lanes == 4) return *(const ppo__float4_anywhere *)p;
    return ppo__set4(p[0], lanes > 1 ? p[1] : 0.0f, lanes > 2 ? p[2] : 0.0f, 0.0f);
}

PPO__INLINE16 ppo__float4 ppo__load_pairs(const uint16_t *p) {
    ppo__float4 v;
    return memcpy(&v, p, sizeof v), v;
}

PPO__INLINE16 void ppo__store4(float *p, size_t lanes, ppo__float4 v) {
    if (lanes == 4) *(ppo__float4_anywhere *)p = v;
    else
        for (size_t i = 0; i < lanes; ++i) p[i] = v[i];
}

PPO__INLINE16 ppo__float4 ppo__splat4(float x) { return ppo__set4(x, x, x, x); }

/* yes in the lanes of the mask */
PPO__INLINE16 ppo__float4 ppo__pick4(ppo__int4 mask, ppo__float4 yes, ppo__float4 no) {
    return (ppo__float4)((ppo__int4)no ^ (((ppo__int4)yes ^ (ppo__int4)no) & mask));
}

PPO__INLINE16 ppo__float4 ppo__pad4(size_t lanes, ppo__float4 v, ppo__float4 pad) {
    const ppo__int4 lane = {0, 1, 2, 3};
    return ppo__pick4(lane < (int)lanes, v, pad);
}

PPO__INLINE16 ppo__float4 ppo__if_greater4(ppo__float4 a, ppo__float4 b, ppo__float4 yes, ppo__float4 no) {
    return ppo__pick4(a > b, yes, no);
}

PPO__INLINE16 ppo__float4 ppo__min4(ppo__float4 a, ppo__float4 b) { return ppo__if_greater4(b, a, a, b); }
PPO__INLINE16 ppo__float4 ppo__max4(ppo__float4 a, ppo__float4 b) { return ppo__if_greater4(a, b, a, b); }

PPO__INLINE16 ppo__float4 ppo__sqrt4(ppo__float4 v) {
    return ppo__set4(sqrtf(v[0]), sqrtf(v[1]), sqrtf(v[2]), sqrtf(v[3]));
}

PPO__INLINE16 ppo__double2 ppo__widen2(const float *p, float a) {
    const float x = a * p[0], y = a * p[1];
    const ppo__double2 v = {x, y};
    return v;
}

#ifdef PPO__HAS_NEON
#define PPO__TARGET
#define PPO__ISA       ppo__neon_
#define PPO__ISA_NAME  "neon"
#define PPO__TILE_ROWS 4
#define PPO__TILE_VECS 4
#ifdef __clang__ /* makes a multiply-add of it */
#define PPO__FMA(a, b, c) ((a) * (b) + (c))
#else
#define PPO__FMA(a, b, c) __builtin_aarch64_fmav4sf(a, b, c)
#endif
#include PPO_FILE_NAME
#endif

#ifdef PPO__HAS_FMA
#define PPO__TARGET       __attribute__((target("fma,prefer-vector-width=128")))
#define PPO__ISA          ppo__fma_
#define PPO__ISA_NAME     "fma"
#define PPO__TILE_ROWS    6
#define PPO__TILE_VECS    2
#define PPO__FMA(a, b, c) __builtin_ia32_vfmaddps(a, b, c)
#include PPO_FILE_NAME
#endif

#ifdef PPO__HAS_VECTOR16
#ifdef __FP_FAST_FMAF /* else GCC would fuse some products and not others, as suits the processor */
PPO__INLINE16 ppo__float4 ppo__fma4(ppo__float4 a, ppo__float4 b, ppo__float4 c) {
    return ppo__set4(fmaf(a[0], b[0], c[0]), fmaf(a[1], b[1], c[1]), fmaf(a[2], b[2], c[2]),
                     fmaf(a[3], b[3], c[3]));
}
#define PPO__FMA(a, b, c) ppo__fma4(a, b, c)
#endif
#define PPO__TARGET    PPO__TARGET16
#define PPO__ISA       ppo__vector16_
#define PPO__ISA_NAME  "vector16"
#define PPO__TILE_ROWS 4
#define PPO__TILE_VECS 2
#include PPO_FILE_NAME
#endif

#endif

#undef PPO__KERNEL_PASS

/* Kernels of a companion (examples/companions/ppo_amx.h): those of this name if this processor has them, or NULL. */
typedef struct ppo__more_kernels {
    const ppo__kernels *(*find)(const char *name);
} ppo__more_kernels;
PPO__COMPANION(ppo__more_kernels, ppo__more);

#if defined(PPO__VECTORS) && (defined(__x86_64__) || defined(__i386__))
#include <cpuid.h>
enum { PPO__SSE2 = 1, PPO__FMA3 = 2, PPO__AVX2 = 4, PPO__AVX512 = 8 };

/* What the processor has of these, and the operating system saves. (__builtin_cpu_supports() would link 4.5 KB.) */
static unsigned ppo__processor(void) {
    unsigned a, b, c, d, features, saved = 0, has;
    if (!__get_cpuid(1, &a, &b, &features, &d)) return 0;
    has = d & bit_SSE2 ? PPO__SSE2 : 0;
    if (features & bit_OSXSAVE) __asm__("xgetbv" : "=a"(saved), "=d"(d) : "c"(0));
    if ((saved & 0x06) != 0x06 || !(features & bit_FMA)) return has;
    has |= PPO__FMA3;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2)) return has;
    const unsigned all = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW;
    return has | PPO__AVX2 | ((saved & 0xe6) == 0xe6 && (b & all) == all ? PPO__AVX512 : 0);
}
#endif

/* The kernels called `name` if this processor (and its operating system) can run them, else NULL; for a NULL
   name the first of them in this order, never a companion's. */
static const ppo__kernels *ppo__kernels_find(const char *name) {
    const ppo__kernels *usable[8];
    int count = 0;
#ifdef PPO__HAS_AVX
#ifdef PPO__HAS_AVX512
    if (ppo__processor() & PPO__AVX512) usable[count++] = &ppo__avx512_kernels;
#endif
    if (ppo__processor() & PPO__AVX2) usable[count++] = &ppo__avx2_kernels;
#endif
#ifdef PPO__HAS_NEON
    usable[count++] = &ppo__neon_kernels;
#endif
#ifdef PPO__HAS_FMA
    if (ppo__processor() & PPO__FMA3) usable[count++] = &ppo__fma_kernels;
#endif
#ifdef PPO__HAS_VECTOR16
#ifdef __i386__
    if (ppo__processor() & PPO__SSE2)
#endif
        usable[count++] = &ppo__vector16_kernels;
#endif
    usable[count++] = &ppo__plain_kernels;
    for (int i = 0; i < count; ++i)
        if (!name || strcmp(name, usable[i]->name) == 0) return usable[i];
    return ppo__more.find ? ppo__more.find(name) : NULL;
}

#endif

#ifdef PPO__KERNEL_PASS /* the vector kernels: compiled once per instruction set, by the includes above */

#ifdef PPO__PREFIX
#define PPO__MM(name)            PPO__JOIN(PPO__PREFIX, name)
#define PPO__SET1(x)             PPO__MM(set1_ps)(x)
#define PPO__LOADU(p)            PPO__MM(loadu_ps)(p)
#define PPO__STOREU(p, v)        PPO__MM(storeu_ps)(p, v)
#define PPO__FMA(a, b, c)        PPO__MM(fmadd_ps)(a, b, c)
#define PPO__MIN(a, b)           PPO__MM(min_ps)(a, b)
#define PPO__MAX(a, b)           PPO__MM(max_ps)(a, b)
#define PPO__SQRT(a)             PPO__MM(sqrt_ps)(a)
#define PPO__ZIP_LOW(a, b)       PPO__MM(unpacklo_ps)(a, b)
#define PPO__ZIP_HIGH(a, b)      PPO__MM(unpackhi_ps)(a, b)
#define PPO__PAIRS(zip, a, b)    PPO__MM(castpd_ps)(zip(PPO__MM(castps_pd)(a), PPO__MM(castps_pd)(b)))
#define PPO__ZIP2_LOW(a, b)      PPO__PAIRS(PPO__MM(unpacklo_pd), a, b)
#define PPO__ZIP2_HIGH(a, b)     PPO__PAIRS(PPO__MM(unpackhi_pd), a, b)
#define PPO__LOAD_PAIRS(p, step) PPO__LOAD_GROUPS((const float *)(const void *)(p), step)
#else
#define PPO__WIDTH                     4
#define PPO__VEC                       ppo__float4
#define PPO__DOUBLES                   ppo__double2
#define PPO__SET1(x)                   ppo__splat4(x)
#define PPO__LOADU(p)                  ppo__load4(p, 4)
#define PPO__STOREU(p, v)              ppo__store4(p, 4, v)
#define PPO__MASK                      size_t
#define PPO__MASK_OF(lanes)            (lanes)
#define PPO__LOADM(p, mask)            ppo__load4(p, mask)
#define PPO__STOREM(p, mask, v)        ppo__store4(p, mask, v)
#define PPO__PAD(mask, v, pad)         ppo__pad4(mask, v, pad)
#define PPO__MIN(a, b)                 ppo__min4(a, b)
#define PPO__MAX(a, b)                 ppo__max4(a, b)
#define PPO__IF_GREATER(a, b, yes, no) ppo__if_greater4(a, b, yes, no)
#define PPO__SQRT(a)                   ppo__sqrt4(a)
#define PPO__LOAD_DOUBLES(p, a)        ppo__widen2(p, a)
#define PPO__LOAD_GROUPS(p, step)      PPO__LOADU(p)
#define PPO__LOAD_PAIRS(p, step)       ppo__load_pairs(p)
#define PPO__ZIP_LOW(a, b)             ppo__set4((a)[0], (b)[0], (a)[1], (b)[1])
#define PPO__ZIP_HIGH(a, b)            ppo__set4((a)[2], (b)[2], (a)[3], (b)[3])
#define PPO__ZIP2_LOW(a, b)            ppo__set4((a)[0], (a)[1], (b)[0], (b)[1])
#define PPO__ZIP2_HIGH(a, b)           ppo__set4((a)[2], (a)[3], (b)[2], (b)[3])
#endif

/* ln 2 as a float, and what is missing; where products are rounded, as one whose products with integers are exact */
#ifdef PPO__FMA
#define PPO__LN2_HIGH 0.693147182f
#define PPO__LN2_LOW  -1.90465421e-09f
#else
#define PPO__FMA(a, b, c) ((a) * (b) + (c))
#define PPO__LN2_HIGH     0.693359375f
#define PPO__LN2_LOW      -2.12194440e-04f
#endif

typedef int PPO__(ints) __attribute__((vector_size(4 * PPO__WIDTH)));
typedef unsigned PPO__(bits) __attribute__((vector_size(4 * PPO__WIDTH)));

PPO__INLINE PPO__VEC PPO__(load)(const float *p, size_t lanes) {
    return lanes == PPO__WIDTH ? PPO__LOADU(p) : PPO__LOADM(p, PPO__MASK_OF(lanes));
}

PPO__INLINE void PPO__(store)(float *p, PPO__VEC v, size_t lanes) {
    if (lanes == PPO__WIDTH) PPO__STOREU(p, v);
    else PPO__STOREM(p, PPO__MASK_OF(lanes), v);
}

/* A statement for each vector of n floats, at offset i, `lanes` of them present. */
#define PPO__EACH_VECTOR(n, ...)                                                            \
    do {                                                                                    \
        const size_t count_ = (n);                                                          \
        for (size_t i = 0; i < count_; i += PPO__WIDTH) {                                   \
            const size_t lanes = count_ - i < PPO__WIDTH ? count_ - i : (size_t)PPO__WIDTH; \
            __VA_ARGS__;                                                                    \
        }                                                                                   \
    } while (0)

/* An elementwise kernel: `value` of each vector x, or of x and dy. The last lanes go through an array. */
#define PPO__MAP(name, value)                                             \
    PPO__FN void PPO__(name)(const float *from, float *to, size_t n) {    \
        size_t i = 0;                                                     \
        for (; i + PPO__WIDTH <= n; i += PPO__WIDTH) {                    \
            const PPO__VEC x = PPO__LOADU(from + i);                      \
            PPO__STOREU(to + i, value);                                   \
        }                                                                 \
        if (i < n) PPO__(map_rest)(PPO__(name), from + i, to + i, n - i); \
    }
#define PPO__MAP_BACKWARD(name, value)                                                                  \
    PPO__FN void PPO__(name##_backward)(const float *from, const float *from_dy, float *to, size_t n) { \
        size_t i = 0;                                                                                   \
        for (; i + PPO__WIDTH <= n; i += PPO__WIDTH) {                                                  \
            const PPO__VEC x = PPO__LOADU(from + i), dy = PPO__LOADU(from_dy + i);                      \
            PPO__STOREU(to + i, value);                                                                 \
        }                                                                                               \
        if (i < n) PPO__(back_rest)(PPO__(name##_backward), from + i, from_dy + i, to + i, n - i);      \
    }

PPO__NOINLINE PPO__FN void PPO__(map_rest)(void (*map)(const float *, float *, size_t), const float *x,
                                           float *y, size_t lanes) {
    float part[PPO__WIDTH];
    PPO__STOREU(part, PPO__(load)(x, lanes));
    map(part, part, PPO__WIDTH);
    PPO__(store)(y, PPO__LOADU(part), lanes);
}

PPO__NOINLINE PPO__FN void PPO__(back_rest)(void (*map)(const float *, const float *, float *, size_t),
                                            const float *x, const float *dy, float *dx, size_t lanes) {
    float part[PPO__WIDTH], part_dy[PPO__WIDTH];
    PPO__STOREU(part, PPO__(load)(x, lanes));
    PPO__STOREU(part_dy, PPO__(load)(dy, lanes));
    map(part, part_dy, part_dy, PPO__WIDTH);
    PPO__(store)(dx, PPO__LOADU(part_dy), lanes);
}

/* -- matrices -- */

/* The tile of c at (i, j), held in registers: `rows` rows of `vecs` vectors, a single one of which may be partial.
   Where this is inlined both are constants. What comes next of b is prefetched, as the processor does not foresee it:
   the next columns, unless they would fill the first cache; for few rows, which take little time, the rows of b
   below. For two rows only those that there are: the test keeps gcc from loading each vector of b twice, too. */
PPO__INLINE void PPO__(tile)(const int rows, const int vecs, PPO__MASK mask, const ppo__gemm_job *job,
                             ptrdiff_t i, ptrdiff_t j) {
    const float *a = job->a + i * job->a_row, *b = job->b + j;
    float *c = job->c + i * job->ldc + j;
    PPO__VEC sum[2 * PPO__TILE_ROWS][8], bk[8];
    if (job->init) {
        const float *init = job->init + i * job->ld_init + j;
        PPO__UNROLL for (int r = 0; r < rows; r++, init += job->ld_init) {
            PPO__UNROLL for (int v = 0; v < vecs; ++v) sum[r][v] =
                vecs > 1 ? PPO__LOADU(init + v * PPO__WIDTH) : PPO__LOADM(init, mask);
        }
    } else {
        PPO__UNROLL for (int r = 0; r < rows; ++r) {
            PPO__UNROLL for (int v = 0; v < vecs; ++v) sum[r][v] = PPO__SET1(0.0f);
        }
    }
    for (int k = 0; k < job->inner; k++, a += job->a_col, b += job->ldb) {
        PPO__UNROLL for (int v = 0; v < vecs; ++v) bk[v] =
            vecs > 1 ? PPO__LOADU(b + v * PPO__WIDTH) : PPO__LOADM(b, mask);
        if (rows > 2 ? vecs * PPO__WIDTH < 64 : rows == 1 || k + 8 < job->inner)
            PPO__UNROLL for (int v = 0; v < vecs * PPO__WIDTH; v += 16)
                __builtin_prefetch(b + (rows > 2 ? vecs * PPO__WIDTH : 8 * job->ldb) + v);
        PPO__UNROLL for (int r = 0; r < rows; ++r) {
            const PPO__VEC ark = PPO__SET1(a[r * job->a_row]);
            PPO__UNROLL for (int v = 0; v < vecs; ++v) sum[r][v] = PPO__FMA(ark, bk[v], sum[r][v]);
        }
    }
    PPO__UNROLL for (int r = 0; r < rows; r++, c += job->ldc) {
        if (vecs == 1) PPO__STOREM(c, mask, sum[r][0]);
        else PPO__UNROLL for (int v = 0; v < vecs; ++v) PPO__STOREU(c + v * PPO__WIDTH, sum[r][v]);
    }
}

/* The rows i .. end - 1 of a column of tiles. Each kind has a function and a copy of the job of its own: together
   they would not leave the loops enough registers. A mask as an argument would be in an AVX register; then compilers
   do not clear the upper halves at the end, and all scalar code from there on is several times as slow. */
#define PPO__STRIP(height, vecs)                                                                    \
    PPO__HOT PPO__FN void PPO__(strip_##height##_##vecs)(const ppo__gemm_job *shared, int lanes,    \
                                                         ptrdiff_t i, ptrdiff_t end, ptrdiff_t j) { \
        const ppo__gemm_job job = *shared;                                                          \
        const PPO__MASK mask = PPO__MASK_OF(lanes);                                                 \
        if (vecs == 1 && height == 4)                                                               \
            for (; i + 8 <= end; i += 8) PPO__(tile)(8, 1, mask, &job, i, j);                       \
        for (; i < end; i += height) PPO__(tile)(height, vecs, mask, &job, i, j);                   \
    }
#define PPO__STRIPS(height) PPO__STRIP(height, 1) PPO__STRIP(height, 2)
PPO__STRIPS(1)
PPO__STRIPS(2)
PPO__STRIPS(4)
PPO__STRIP(1, 4)
PPO__STRIP(2, 4)
PPO__STRIP(1, 8)
#if PPO__TILE_ROWS == 6
PPO__STRIPS(6)
#elif PPO__TILE_VECS == 4
PPO__STRIP(4, 4)
#endif
#undef PPO__STRIP
#undef PPO__STRIPS

/* Rows row .. row_end - 1 and columns col .. col_end - 1 of c. A tile needs eight chains or more to cover the latency
   of a multiply-add: the fewer rows, the more vectors. Some columns of b at a time are used for all rows, while
   they are near. */
PPO__FN void PPO__(gemm_wide)(int row, int row_end, int col, int col_end, const ppo__gemm_job *job) {
    static const struct {
        int height;
        void (*strip[4])(const ppo__gemm_job *, int, ptrdiff_t, ptrdiff_t,
                         ptrdiff_t); /* 1, 2, 4, 8 vectors */
    } tiles[] = {
#if PPO__TILE_ROWS == 6
        {6, {PPO__(strip_6_1), PPO__(strip_6_2), NULL, NULL}},
#endif
#if PPO__TILE_VECS == 4
        {4, {PPO__(strip_4_1), PPO__(strip_4_2), PPO__(strip_4_4), NULL}},
#else
        {4, {PPO__(strip_4_1), PPO__(strip_4_2), NULL, NULL}},
#endif
        {2, {PPO__(strip_2_1), PPO__(strip_2_2), PPO__(strip_2_4), NULL}},
        {1, {PPO__(strip_1_1), PPO__(strip_1_2), PPO__(strip_1_4), PPO__(strip_1_8)}},
    };
    for (int from = col; from < col_end; from += 8 * PPO__WIDTH) {
        const int to = from + ppo__min_int(col_end - from, 8 * PPO__WIDTH);
        for (int i = row, t = 0; i < row_end; ++t) {
            const int end = row_end - (row_end - i) % tiles[t].height;
            for (int j = from, v = 3; j < to && i < end;) {
                const int width = PPO__WIDTH << v, lanes = ppo__min_int(to - j, PPO__WIDTH);
                if (!tiles[t].strip[v] || (v && to - j < width)) {
                    --v;
                    continue;
                }
                tiles[t].strip[v](job, lanes, i, end, j);
                j += width;
            }
            i = end;
        }
    }
}

/* A small inner dimension, as in a first layer or a head's gradient: pairs of vectors of b stay in registers for a
   block of rows. Measured: 1.2 to 1.6 times as fast as tiles. */
PPO__INLINE void PPO__(shallow)(const int inner, int rows, int cols, const ppo__gemm_job *job) {
    enum { PPO__AT_ONCE = 64, PPO__COLUMNS = 2 * PPO__WIDTH };
    for (ptrdiff_t from = 0; from < rows; from += PPO__AT_ONCE) {
        const int n = ppo__min_int((int)(rows - from), PPO__AT_ONCE);
        for (ptrdiff_t j = 0; j + PPO__COLUMNS <= cols; j += PPO__COLUMNS) {
            const float *a = job->a + from * job->a_row, *b = job->b + j;
            const float *init = job->init ? job->init + from * job->ld_init + j : NULL;
            float *c = job->c + from * job->ldc + j;
            PPO__VEC b0[8], b1[8];
            PPO__UNROLL for (int k = 0; k < inner; k++, b += job->ldb) {
                b0[k] = PPO__LOADU(b);
                b1[k] = PPO__LOADU(b + PPO__WIDTH);
            }
            for (int i = 0; i < n; i++, a += job->a_row, c += job->ldc) {
                PPO__VEC sum0 = PPO__SET1(0.0f), sum1 = sum0;
                if (init) {
                    sum0 = PPO__LOADU(init), sum1 = PPO__LOADU(init + PPO__WIDTH);
                    init += job->ld_init;
                }
                PPO__UNROLL for (int k = 0; k < inner; ++k) {
                    const PPO__VEC ak = PPO__SET1(a[k]);
                    sum0 = PPO__FMA(ak, b0[k], sum0);
                    sum1 = PPO__FMA(ak, b1[k], sum1);
                }
                PPO__STOREU(c, sum0);
                PPO__STOREU(c + PPO__WIDTH, sum1);
            }
        }
    }
}

/* An inner dimension of 2 to 8, as one or two of 2 to 4: each element's chain continues from c. */
PPO__FN void PPO__(gemm_shallow)(int rows, int cols, const ppo__gemm_job *shared) {
    const int n = cols - cols % (2 * PPO__WIDTH);
    ppo__gemm_job job = *shared; /* which only inlined functions see: its fields stay in registers */
    while (job.inner > 0) {
        const int depth = job.inner == 5 ? 3 : ppo__min_int(job.inner, 4);
        if (depth == 4) PPO__(shallow)(4, rows, n, &job);
        else if (depth == 3) PPO__(shallow)(3, rows, n, &job);
        else PPO__(shallow)(2, rows, n, &job);
        job.inner -= depth;
        job.a += depth;
        job.b += depth * job.ldb;
        job.init = job.c;
        job.ld_init = job.ldc;
    }
    PPO__(gemm_wide)(0, rows, n, cols, shared);
}

/* The largest tiles, for all rows of c but the last few. `tiles` is a, packed: each tile's numbers together; or
   NULL. Each tile prefetches the next one, and its share of `ahead`, the part of b that is packed next. Returns
   the number of these rows. */
PPO__HOT PPO__FN int PPO__(strip_ahead)(int rows, const ppo__gemm_job *shared, const float *tiles,
                                        const float *ahead, ptrdiff_t ld) {
    enum { PPO__HEIGHT = PPO__TILE_ROWS, PPO__COLUMNS = PPO__TILE_VECS * PPO__WIDTH };
    ppo__gemm_job job = *shared;
    const PPO__MASK all = PPO__MASK_OF(PPO__WIDTH);
    const int end = rows - rows % PPO__HEIGHT;
    const ptrdiff_t step = PPO__HEIGHT * (tiles ? job.inner : job.a_row);
    if (tiles) job.a = tiles, job.a_col = PPO__HEIGHT;
    for (int i = 0, k = 0; i < end; i += PPO__HEIGHT) {
        for (ptrdiff_t r = PPO__HEIGHT; r < ppo__min_int(2 * PPO__HEIGHT, rows - i); ++r)
            PPO__UNROLL for (int v = 0; v < PPO__COLUMNS; v += 16)
                __builtin_prefetch(job.c + r * job.ldc + v);
        for (const int to = job.inner * (i + PPO__HEIGHT) / end; k < to; k++, ahead += ld)
            PPO__UNROLL for (int v = 0; v < PPO__COLUMNS; v += 16) __builtin_prefetch(ahead + v, 0, 2);
        PPO__(tile)(PPO__HEIGHT, PPO__TILE_VECS, all, &job, 0, 0);
        job.a += step;
        job.c += PPO__HEIGHT * job.ldc;
        if (job.init) job.init += PPO__HEIGHT * job.ld_init;
    }
    return end;
}

/* Columns col .. col_end - 1 of c, with a large b: its rows lie so far apart that they evict each other from the
   first cache. Parts of it are packed together and used for all rows of a block of a that stays in the second; so do
   these columns of c, which hold the unfinished chains in between. The rows of a transposed a, of which a tile needs
   a few numbers each, may lie as far apart: then the block is packed, too, if enough tiles use it. An inner dimension
   of 256, as of a batch of tokens, and a few more is one part with AVX2, or two where a is packed. Both take 43 KB. */
PPO__FN void PPO__(gemm_large)(int rows, int col, int col_end, const ppo__gemm_job *job) {
    enum {
        PPO__COLUMNS = PPO__TILE_VECS * PPO__WIDTH,
        PPO__DEPTH = PPO__COLUMNS == 16 ? 264 : 104,
        PPO__PACKED = 66 / PPO__TILE_ROWS * PPO__TILE_ROWS,
        PPO__DEPTH_OF_BOTH = PPO__COLUMNS > 16 ? 80 : 132
    };
    float packed[PPO__DEPTH_OF_BOTH * (PPO__COLUMNS + PPO__PACKED)] __attribute__((aligned(64)));
    float *const packed_a = packed + PPO__DEPTH_OF_BOTH * PPO__COLUMNS;
    const int pack = job->a_row == 1 && job->inner >= 256 && col_end - col >= 4 * PPO__COLUMNS;
    const int most = pack ? PPO__PACKED : 264, depth = pack ? PPO__DEPTH_OF_BOTH : PPO__DEPTH;
    const int deep = ppo__divide_up(job->inner, ppo__divide_up(job->inner, depth));
    for (ptrdiff_t i = 0; i < rows; i += most) {
        const int height = ppo__min_int((int)(rows - i), most);
        for (ptrdiff_t k = 0; k < job->inner; k += deep) {
            ppo__gemm_job block = *job;
            const float *b = job->b + k * job->ldb + col;
            block.inner = ppo__min_int((int)(job->inner - k), deep);
            block.a += i * job->a_row + k * job->a_col;
            block.c += i * job->ldc + col;
            if (pack) {
                const float *from = block.a;
                for (ptrdiff_t r = 0; r < block.inner; r++, from += job->a_col) {
                    PPO__UNROLL for (int v = 0; v < PPO__PACKED; v += 16)
                        __builtin_prefetch(from + 16 * job->a_col + v);
                    for (ptrdiff_t t = 0; t + PPO__TILE_ROWS <= height; t += PPO__TILE_ROWS)
                        memcpy(packed_a + t * block.inner + r * PPO__TILE_ROWS, from + t,
                               PPO__TILE_ROWS * sizeof(float));
                }
            }
            if (k > 0) {
                block.init = block.c;
                block.ld_init = job->ldc;
            } else if (job->init) {
                block.init += i * job->ld_init + col;
            }
            int j = col;
            for (; j + PPO__COLUMNS <= col_end; j += PPO__COLUMNS, b += PPO__COLUMNS) {
                for (ptrdiff_t r = 0; r < block.inner; ++r)
                    PPO__UNROLL for (int v = 0; v < PPO__COLUMNS; v += PPO__WIDTH)
                        PPO__STOREU(packed + r * PPO__COLUMNS + v, PPO__LOADU(b + r * job->ldb + v));
                block.b = packed;
                block.ldb = PPO__COLUMNS;
                const int done =
                    PPO__(strip_ahead)(height, &block, pack ? packed_a : NULL, b + PPO__COLUMNS, job->ldb);
                PPO__(gemm_wide)(done, height, 0, PPO__COLUMNS, &block);
                block.c += PPO__COLUMNS;
                if (block.init) block.init += PPO__COLUMNS;
            }
            block.b = b;
            block.ldb = job->ldb;
            PPO__(gemm_wide)(0, height, 0, col_end - j, &block);
        }
    }
}

/* Where `sum` has number v of a row of BF16: first the first numbers of WIDTH pairs, then the second ones. */
#define PPO__PLACE(v) \
    ((v) / (2 * PPO__WIDTH) * (2 * PPO__WIDTH) + (v) % 2 * PPO__WIDTH + (v) % (2 * PPO__WIDTH) / 2)

/* The first or the second number of each pair */
#define PPO__BF16(pairs, second) \
    ((PPO__VEC)((second) == (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) ? (pairs) << 16 : (pairs) >> 16 << 16))

/* Adds `depth` rows of b, each times its number in a, to n sums, which are in pairs of vectors; where b is
   BF16, of the first and of the second numbers of its pairs. */
PPO__INLINE void PPO__(add_rows)(const int depth, const int bf16, int n, const float *a, ptrdiff_t a_col,
                                 const void *b, ptrdiff_t ldb, float *sum) {
    const float *floats = (const float *)b;
    const uint16_t *halves = (const uint16_t *)b;
    PPO__VEC ak[8];
    PPO__UNROLL for (int k = 0; k < depth; ++k) ak[k] = PPO__SET1(a[k * a_col]);
    for (int j = 0; j < n; j += 2 * PPO__WIDTH) {
        PPO__VEC first = PPO__LOADU(sum + j), second = PPO__LOADU(sum + j + PPO__WIDTH);
        PPO__UNROLL for (int k = 0; k < depth; ++k) {
            if (bf16) {
                PPO__(bits) pairs;
                memcpy(&pairs, halves + k * ldb + j, sizeof pairs);
                first = PPO__FMA(ak[k], PPO__BF16(pairs, 0), first);
                second = PPO__FMA(ak[k], PPO__BF16(pairs, 1), second);
            } else {
                first = PPO__FMA(ak[k], PPO__LOADU(floats + k * ldb + j), first);
                second = PPO__FMA(ak[k], PPO__LOADU(floats + k * ldb + j + PPO__WIDTH), second);
            }
        }
        PPO__STOREU(sum + j, first);
        PPO__STOREU(sum + j + PPO__WIDTH, second);
    }
}

/* Up to 8 rows, times a b that comes from memory, which is fastest along the rows of b: eight of them at a
   time. cols is a multiple of two vectors. Measured: a row is 1.1 to 1.8 times as fast as by tiles, eight up to 1.1. */
PPO__NOINLINE PPO__FN void PPO__(few)(int bf16, int rows, int cols, const ppo__gemm_job *job, const void *b) {
    enum { PPO__ALL = 4096 };
    float sum[PPO__ALL];
    const int most = rows > 1 ? PPO__ALL / 8 : PPO__ALL;
    const ptrdiff_t size = bf16 ? 2 : 4;
    for (ptrdiff_t j = 0; j < cols; j += most) {
        const int n = ppo__min_int((int)(cols - j), most);
        const char *bj = (const char *)b + j * size;
        for (ptrdiff_t i = 0; i < rows; ++i) {
            const float *init = job->init ? job->init + i * job->ld_init + j : NULL;
            float *s = sum + i * most;
            for (int v = 0; v < n && init && bf16; ++v) s[PPO__PLACE(v)] = init[v];
            if (!init) memset(s, 0, (size_t)n * sizeof *s);
            else if (!bf16) memcpy(s, init, (size_t)n * sizeof *s);
        }
        for (int k = 0; k < job->inner;) {
            const int depth = job->inner - k < 8 ? 1 : 8;
            for (ptrdiff_t i = 0; i < rows; ++i) {
                const float *a = job->a + i * job->a_row + k * job->a_col;
                float *s = sum + i * most;
                if (depth == 8 && bf16) PPO__(add_rows)(8, 1, n, a, job->a_col, bj, job->ldb, s);
                else if (depth == 8) PPO__(add_rows)(8, 0, n, a, job->a_col, bj, job->ldb, s);
                else PPO__(add_rows)(1, bf16, n, a, job->a_col, bj, job->ldb, s);
            }
            k += depth;
            bj += depth * job->ldb * size;
        }
        for (ptrdiff_t i = 0; i < rows; ++i) {
            float *s = sum + i * most, *c = job->c + i * job->ldc + j;
            for (int v = 0; v < n && bf16; ++v) c[v] = s[PPO__PLACE(v)];
            if (!bf16) memcpy(c, s, (size_t)n * sizeof *s);
        }
    }
}

PPO__FN void PPO__(row_times)(int cols, int inner, const float *a, const uint16_t *b, int ldb,
                              const float *init, float *c) {
    const ppo__gemm_job job = {inner, a, NULL, init, c, 0, 1, ldb, 0, 0};
    PPO__(few)(1, 1, cols, &job, b);
}

PPO__FN void PPO__(gemm_few)(int rows, int cols, const ppo__gemm_job *job) {
    const int n = cols - cols % (2 * PPO__WIDTH);
    PPO__(few)(0, rows, n, job, job->b);
    PPO__(gemm_wide)(0, rows, n, cols, job);
}

/* Register r holds, group by group, the four floats of rows r, r + 4, r + 8, ...; two rounds of zips within the
   groups make each register a column. */
PPO__INLINE void PPO__(zip)(PPO__VEC r0, PPO__VEC r1, PPO__VEC r2, PPO__VEC r3, PPO__VEC column[4]) {
    const PPO__VEC low01 = PPO__ZIP_LOW(r0, r1), high01 = PPO__ZIP_HIGH(r0, r1);
    const PPO__VEC low23 = PPO__ZIP_LOW(r2, r3), high23 = PPO__ZIP_HIGH(r2, r3);
    column[0] = PPO__ZIP2_LOW(low01, low23);
    column[1] = PPO__ZIP2_HIGH(low01, low23);
    column[2] = PPO__ZIP2_LOW(high01, high23);
    column[3] = PPO__ZIP2_HIGH(high01, high23);
}

/* out (cols, rows) from a (rows, cols), in blocks of (WIDTH, 4). */
PPO__FN void PPO__(transpose)(int rows, int cols, const float *a, int lda, float *out, int ldo) {
    ptrdiff_t i = 0;
    const ptrdiff_t la = lda, lo = ldo;
    for (; i + PPO__WIDTH <= rows; i += PPO__WIDTH) {
        ptrdiff_t j = 0;
        for (; j + 4 <= cols; j += 4) {
            const float *p = a + i * la + j;
            float *q = out + j * lo + i;
            const PPO__VEC r0 = PPO__LOAD_GROUPS(p, 4 * la);
            const PPO__VEC r1 = PPO__LOAD_GROUPS(p + la, 4 * la);
            const PPO__VEC r2 = PPO__LOAD_GROUPS(p + 2 * la, 4 * la);
            const PPO__VEC r3 = PPO__LOAD_GROUPS(p + 3 * la, 4 * la);
            PPO__VEC column[4];
            PPO__(zip)(r0, r1, r2, r3, column);
            PPO__UNROLL for (int k = 0; k < 4; ++k) PPO__STOREU(q + k * lo, column[k]);
        }
        ppo__plain_transpose(PPO__WIDTH, (int)(cols - j), a + i * la + j, lda, out + j * lo + i, ldo);
    }
    ppo__plain_transpose((int)(rows - i), cols, a + i * la, lda, out + i, ldo);
}

/* Splits pairs of numbers into their first and their second ones, and zips these. Group k has pairs 2 k to
   2 k + 3, of which it needs the first two, or in the upper half the last two. Prefetches what comes next. */
PPO__FN void PPO__(widen)(int rows, int cols, const uint16_t *a, int lda, float *out, int ldo) {
    for (ptrdiff_t i = 0; i < rows; i++, a += lda, out += ldo) {
        int j = 0;
        for (; j + 2 * PPO__WIDTH <= cols; j += 2 * PPO__WIDTH) {
            const PPO__(bits) low = (PPO__(bits))PPO__LOAD_PAIRS(a + j, 2);
            const PPO__(bits) high = (PPO__(bits))PPO__LOAD_PAIRS(a + j + PPO__WIDTH - 4, 2);
            const PPO__VEC low0 = PPO__BF16(low, 0), low1 = PPO__BF16(low, 1);
            const PPO__VEC high0 = PPO__BF16(high, 0), high1 = PPO__BF16(high, 1);
            __builtin_prefetch(a + j + 16 * (ptrdiff_t)lda);
            PPO__STOREU(out + j, PPO__ZIP_LOW(low0, low1));
            PPO__STOREU(out + j + PPO__WIDTH, PPO__ZIP_HIGH(high0, high1));
        }
        ppo__plain_widen(1, cols - j, a + j, lda, out + j, ldo);
    }
}

/* Few columns (a policy or value head) would leave most lanes idle, so here the lanes run along the rows: for
   WIDTH of them at a time, `cols` columns of c from j on, from row i on; and for several groups of rows side by
   side, which make four or eight chains. The chain of each element is the same. inner is a multiple of 4. For a
   single column a large a, as a table of tokens, comes from memory: the next groups are prefetched, which are right
   behind these if a has nothing between its rows. Returns the row after the last one that was done. Measured: 1.5 to
   3.8 times as fast as tiles. */
PPO__INLINE ptrdiff_t PPO__(narrow)(const int cols, const int groups, const ppo__gemm_job *job, int rows,
                                    ptrdiff_t i, ptrdiff_t j) {
    const ptrdiff_t row = job->a_row, group = PPO__WIDTH * row;
    for (; i + groups * PPO__WIDTH <= rows; i += groups * PPO__WIDTH) {
        const float *a = job->a + i * row, *b = job->b + j, *ahead = a + groups * group;
        const float *init = job->init ? job->init + i * job->ld_init + j : NULL;
        float *c = job->c + i * job->ldc + j;
        float t[8 * PPO__WIDTH];
        PPO__VEC sum[8], column[4];
        const int more = i + 2 * groups * PPO__WIDTH <= rows;
        PPO__ROLL for (int v = 0; v < groups * cols; ++v) {
            const float *from =
                init ? init + v / cols * PPO__WIDTH * (ptrdiff_t)job->ld_init + v % cols : NULL;
            PPO__STOREU(t + v * PPO__WIDTH, PPO__SET1(init ? *from : 0.0f));
            if (!init || !job->ld_init) continue;
            PPO__ROLL for (int r = 0; r < PPO__WIDTH; ++r) t[v * PPO__WIDTH + r] = from[r * job->ld_init];
        }
        PPO__UNROLL for (int v = 0; v < groups * cols; ++v) sum[v] = PPO__LOADU(t + v * PPO__WIDTH);
        for (int k = 0; k < job->inner; k += 4, a += 4, b += 4 * job->ldb, ahead += 4 * groups * PPO__WIDTH) {
            if (cols == 1 && groups > 1 && more)
                PPO__UNROLL for (int v = 0; v < 4 * groups * PPO__WIDTH; v += 16)
                    __builtin_prefetch(ahead + v, 0, 2);
            PPO__UNROLL for (int g = 0; g < groups; ++g) {
                const float *p = a + g * group;
                const PPO__VEC r0 = PPO__LOAD_GROUPS(p, 4 * row), r1 = PPO__LOAD_GROUPS(p + row, 4 * row);
                const PPO__VEC r2 = PPO__LOAD_GROUPS(p + 2 * row, 4 * row);
                const PPO__VEC r3 = PPO__LOAD_GROUPS(p + 3 * row, 4 * row);
                PPO__(zip)(r0, r1, r2, r3, column);
                PPO__UNROLL for (int q = 0; q < 4; ++q) {
                    PPO__UNROLL for (int v = 0; v < cols; ++v) sum[g * cols + v] =
                        PPO__FMA(column[q], PPO__SET1(b[q * job->ldb + v]), sum[g * cols + v]);
                }
            }
        }
        PPO__UNROLL for (int v = 0; v < groups * cols; ++v) PPO__STOREU(t + v * PPO__WIDTH, sum[v]);
        PPO__ROLL for (int g = 0; g < groups; ++g)
            PPO__ROLL for (int r = 0; r < PPO__WIDTH; r++, c += job->ldc)
                PPO__UNROLL for (int v = 0; v < cols; ++v) c[v] = t[(g * cols + v) * PPO__WIDTH + r];
    }
    return i;
}

/* Of 16 floats one group of rows at a time is as fast as several; of 8 it takes up to twice as long. */
#define PPO__NARROW(cols)                                                                              \
    PPO__NOINLINE PPO__FN int PPO__(narrow_##cols)(const ppo__gemm_job *job, int rows, ptrdiff_t j) {  \
        const ptrdiff_t i = PPO__WIDTH < 16 && cols < 4 ? PPO__(narrow)(cols, 4, job, rows, 0, j) : 0; \
        return (int)PPO__(narrow)(cols, 1, job, rows, i, j);                                           \
    }
PPO__NARROW(4)
PPO__NARROW(2)
PPO__NARROW(1)
#undef PPO__NARROW

/* Four, two or one columns at a time. Tiles compute the rows that are left, and in a second call the last one to three
   numbers of the inner dimension. */
PPO__FN void PPO__(gemm_narrow)(int rows, int cols, const ppo__gemm_job *job) {
    ppo__gemm_job fours = *job, rest = *job;
    rest.inner %= 4;
    fours.inner -= rest.inner;
    for (int j = 0, n; j < cols; j += n) {
        static int (*const narrow[])(const ppo__gemm_job *, int, ptrdiff_t) = {
            NULL, PPO__(narrow_1), PPO__(narrow_2), NULL, PPO__(narrow_4)};
        n = cols - j >= 4 ? 4 : cols - j >= 2 ? 2 : 1;
        PPO__(gemm_wide)(narrow[n](&fours, rows, j), rows, j, j + n, &fours);
    }
    if (!rest.inner) return;
    rest.a += fours.inner;
    rest.b += fours.inner * job->ldb;
    rest.init = job->c;
    rest.ld_init = job->ldc;
    PPO__(gemm_wide)(0, rows, 0, cols, &rest);
}

/* The same of a transposed a, whose columns are there: transposed c = transposed b times transposed a. Measured: 4 to
   7 times as fast as tiles. */
PPO__FN void PPO__(gemm_narrow_t)(int rows, int cols, const ppo__gemm_job *job) {
    enum { PPO__ROWS = 64 };
    float ct[PPO__WIDTH / 2 * PPO__ROWS];
    for (ptrdiff_t i = 0; i < rows; i += PPO__ROWS) {
        const int height = ppo__min_int((int)(rows - i), PPO__ROWS);
        const float *init = job->init ? job->init + i * job->ld_init : NULL;
        float *c = job->c + i * job->ldc;
        const ppo__gemm_job block = {job->inner, job->b,   job->a + i, ct,        ct,
                                     1,          job->ldb, job->a_col, PPO__ROWS, PPO__ROWS};
        for (ptrdiff_t j = 0; j < cols; ++j)
            for (ptrdiff_t r = 0; r < height; ++r)
                ct[j * PPO__ROWS + r] = init ? init[r * job->ld_init + j] : 0.0f;
        PPO__(gemm_wide)(0, cols, 0, height, &block);
        for (ptrdiff_t j = 0; j < cols; ++j)
            for (ptrdiff_t r = 0; r < height; ++r) c[r * job->ldc + j] = ct[j * PPO__ROWS + r];
    }
}

PPO__FN void PPO__(gemm)(int rows, int cols, int inner, const float *a, int a_row, int a_col, const float *b,
                         int ldb, const float *init, int ld_init, float *c, int ldc) {
    enum { PPO__LARGE = 1 << 13, PPO__OUTSIDE = 1 << 18, PPO__BROAD = 1024 };
    const ppo__gemm_job job = {inner, a, b, init, c, a_row, a_col, ldb, ld_init, ldc};
    if (cols <= PPO__WIDTH / 2 && rows >= PPO__WIDTH && a_col == 1) PPO__(gemm_narrow)(rows, cols, &job);
    else if (cols <= PPO__WIDTH / 2 && rows >= PPO__WIDTH && a_row == 1)
        PPO__(gemm_narrow_t)(rows, cols, &job);
    else if (inner > 1 && inner <= 8 && rows >= 2 * PPO__WIDTH && a_col == 1)
        PPO__(gemm_shallow)(rows, cols, &job);
    else if (rows <= 8 && (ptrdiff_t)inner * cols >= PPO__OUTSIDE) PPO__(gemm_few)(rows, cols, &job);
    else if (rows < 32 || (ptrdiff_t)inner * ldb <= PPO__LARGE) PPO__(gemm_wide)(0, rows, 0, cols, &job);
    else
        for (int j = 0; j < cols; j += PPO__BROAD)
            PPO__(gemm_large)(rows, j, j + ppo__min_int(cols - j, PPO__BROAD), &job);
}

/* 1 x + sum is exact before its one rounding: this is a product with a row of ones, made by a stride of 0. */
PPO__FN void PPO__(column_sum)(int rows, int cols, const float *x, int ldx, float *sum) {
    const float one = 1.0f;
    const ppo__gemm_job job = {rows, &one, x, sum, sum, 0, 0, ldx, 0, 0};
    PPO__(gemm_wide)(0, 1, 0, cols, &job);
}

/* -- elementary functions -- */

PPO__INLINE PPO__VEC PPO__(poly)(PPO__VEC x, const float *coef, const int count) {
    PPO__VEC y = PPO__SET1(coef[0]);
    PPO__UNROLL for (int i = 1; i < count; ++i) y = PPO__FMA(y, x, PPO__SET1(coef[i]));
    return y;
}

/* x = n ln 2 + r with |r| <= ln(2)/2: returns e^r - 1, and n + ROUNDER in *shifted. */
PPO__INLINE PPO__VEC PPO__(expm1_reduced)(PPO__VEC x, PPO__VEC *shifted) {
    *shifted = PPO__FMA(x, PPO__SET1(1.44269502f), PPO__SET1(PPO__ROUNDER));
    const PPO__VEC n = *shifted - PPO__SET1(PPO__ROUNDER);
    PPO__VEC r = PPO__FMA(n, PPO__SET1(-PPO__LN2_HIGH), x);
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

PPO__MAP(exp, PPO__(vexp)(x))

/* tanh |x| = w / (w + 2) with w = e^(2|x|) - 1 = 2^n p + (2^n - 1); near 0 a polynomial, which is closer.
   Within 1.50 ulp, measured over all floats. */
PPO__INLINE PPO__VEC PPO__(vtanh)(PPO__VEC x) {
    const PPO__(bits) sign = (PPO__(bits))x & 0x80000000u;
    const PPO__VEC size = PPO__MIN(PPO__SET1(10.0f), (PPO__VEC)((PPO__(bits))x ^ sign)), square = x * x;
    const PPO__VEC near_0 = PPO__FMA(x * square, PPO__(poly)(square, ppo__tanh_poly, 3), x);
    PPO__VEC shifted;
    const PPO__VEC p = PPO__(expm1_reduced)(size + size, &shifted);
    const PPO__VEC power = (PPO__VEC)(((PPO__(bits))shifted << 23) + 0x3f800000u);
    const PPO__VEC w = PPO__FMA(power, p, power - PPO__SET1(1.0f));
    const PPO__VEC by_exp = (PPO__VEC)((PPO__(bits))(w / (w + PPO__SET1(2.0f))) | sign);
    return PPO__IF_GREATER(size, PPO__SET1(0.26f), by_exp, near_0);
}

PPO__MAP(tanh, PPO__(vtanh)(x))

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

PPO__MAP(log, PPO__(vlog)(x))

/* -- elementwise arithmetic -- */

PPO__MAP(relu, PPO__MAX(PPO__SET1(0.0f), x))
PPO__MAP_BACKWARD(relu, PPO__IF_GREATER(x, PPO__SET1(0.0f), dy, PPO__SET1(0.0f)))
PPO__MAP_BACKWARD(tanh, PPO__FMA(-x, x, PPO__SET1(1.0f)) * dy)

/* x (1 + tanh u) / 2 = x s with s = 1 / (1 + e^(-2u)), which loses no digits where tanh u is near -1. Within
   2.6 ulp above 0; below, the exponent's rounding grows with u, to 163 ulp where x s is -1e-30, and what is
   nearer to 0 is within 1e-35. The derivative is within 2.0e-6. Measured over all floats. */
PPO__INLINE PPO__VEC PPO__(gelu_gate)(PPO__VEC x, PPO__VEC square) {
    const PPO__VEC cubic = PPO__FMA(PPO__SET1(PPO__GELU_CUBIC) * square, x, x);
    const PPO__VEC one = PPO__SET1(1.0f);
    return one / (one + PPO__(vexp)(cubic * PPO__SET1(-2.0f * PPO__GELU_SCALE)));
}

/* d (x s) / d x = s + x s (1 - s) 2 du/dx */
PPO__INLINE PPO__VEC PPO__(gelu_derivative)(PPO__VEC x) {
    const PPO__VEC square = PPO__MIN(PPO__SET1(FLT_MAX), x * x); /* 0 times infinity is NaN */
    const PPO__VEC s = PPO__(gelu_gate)(x, square);
    const PPO__VEC du = PPO__FMA(PPO__SET1(6.0f * PPO__GELU_SCALE * PPO__GELU_CUBIC), square,
                                 PPO__SET1(2.0f * PPO__GELU_SCALE));
    return PPO__FMA(PPO__FMA(-s, s, s) * x, du, s);
}

PPO__MAP(gelu, PPO__(gelu_gate)(x, (x * x)) * x)
PPO__MAP_BACKWARD(gelu, PPO__(gelu_derivative)(x) * dy)

/* P = erfc(-x / sqrt 2) / 2, from erfc(z) = t e^(poly(t) - z^2) at z >= 0. x P is within 8 ulp above 0 and within 8 +
   2 x^2 ulp below, until it is nearer to 0 than 1e-32; SiLU within 6 ulp. Their derivatives are within 2.0e-6. */
PPO__INLINE PPO__VEC PPO__(normal_cdf)(PPO__VEC x) {
    const PPO__VEC one = PPO__SET1(1.0f), half = PPO__SET1(0.5f),
                   z = PPO__MAX(x, -x) * PPO__SET1(PPO__SQRT_HALF);
    const PPO__VEC t = one / PPO__FMA(half, z, one);
    const PPO__VEC tail = half * t * PPO__(vexp)(PPO__FMA(-z, z, PPO__(poly)(t, ppo__erfc_poly, 10)));
    return PPO__IF_GREATER(x, PPO__SET1(0.0f), one - tail, tail);
}

PPO__INLINE PPO__VEC PPO__(gelu_erf_derivative)(PPO__VEC x) {
    const PPO__VEC square = PPO__MIN(PPO__SET1(FLT_MAX), x * x); /* infinity times 0 is NaN */
    const PPO__VEC cdf = PPO__(normal_cdf)(x);
    return PPO__FMA(x, PPO__SET1(PPO__DENSITY_0) * PPO__(vexp)(PPO__SET1(-0.5f) * square), cdf);
}

PPO__MAP(gelu_erf, PPO__(normal_cdf)(x) * x)
PPO__MAP_BACKWARD(gelu_erf, PPO__(gelu_erf_derivative)(x) * dy)

PPO__INLINE PPO__VEC PPO__(logistic)(PPO__VEC x) {
    return PPO__SET1(1.0f) / (PPO__SET1(1.0f) + PPO__(vexp)(-x));
}

/* d (x s) / d x = s + x s (1 - s) */
PPO__INLINE PPO__VEC PPO__(silu_derivative)(PPO__VEC x) {
    const PPO__VEC s = PPO__(logistic)(x);
    return PPO__FMA(PPO__FMA(-s, s, s), x, s);
}

PPO__MAP(silu, PPO__(logistic)(x) * x)
PPO__MAP_BACKWARD(silu, PPO__(silu_derivative)(x) * dy)

/* exp(x) - 1 = 2 t / (1 - t) with t = tanh(x / 2), which keeps its digits near 0. */
PPO__INLINE PPO__VEC PPO__(vexpm1)(PPO__VEC x) {
    const PPO__VEC t = PPO__(vtanh)(PPO__SET1(0.5f) * x);
    return (t + t) / (PPO__SET1(1.0f) - t);
}

PPO__MAP(elu, PPO__IF_GREATER(x, PPO__SET1(0.0f), x, PPO__(vexpm1)(PPO__MIN(PPO__SET1(0.0f), x))))
PPO__MAP_BACKWARD(elu, PPO__IF_GREATER(PPO__SET1(0.0f), x, PPO__FMA(x, dy, dy), dy))

PPO__FN void PPO__(add)(const float *x, float *y, size_t n) {
    PPO__EACH_VECTOR(n, PPO__(store)(y + i, PPO__(load)(y + i, lanes) + PPO__(load)(x + i, lanes), lanes));
}

PPO__FN void PPO__(scale)(float a, float *x, size_t n) {
    PPO__EACH_VECTOR(n, PPO__(store)(x + i, PPO__(load)(x + i, lanes) * PPO__SET1(a), lanes));
}

PPO__FN void PPO__(adam)(float *p, const float *g, float scale, float clip, float *m, float *v, size_t n,
                         float beta1, float beta2, float eps, float step_size, float inv_sqrt_bias2,
                         float decay) {
    const PPO__VEC b1 = PPO__SET1(beta1), b2 = PPO__SET1(beta2);
    const PPO__VEC c1 = PPO__SET1(1.0f - beta1), c2 = PPO__SET1(1.0f - beta2);
    PPO__EACH_VECTOR(n, {
        const PPO__VEC gi = PPO__(load)(g + i, lanes) * PPO__SET1(scale) * PPO__SET1(clip),
                       pi = PPO__(load)(p + i, lanes);
        const PPO__(bits) exact = (PPO__(bits))PPO__FMA(b1, PPO__(load)(m + i, lanes), c1 * gi);
        const PPO__VEC mi = (PPO__VEC)(exact & (PPO__(bits))((exact & 0x7f800000u) != 0u));
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
        PPO__UNROLL for (int i = 0; i < half; ++i) t[i] += t[i + half];
    }
    return t[0];
}

PPO__INLINE float PPO__(lane_max)(PPO__VEC x) {
    float t[PPO__WIDTH];
    PPO__STOREU(t, x);
    PPO__UNROLL for (int half = PPO__WIDTH / 2; half; half /= 2) {
        PPO__UNROLL for (int i = 0; i < half; ++i) t[i] = t[i] > t[i + half] ? t[i] : t[i + half];
    }
    return t[0];
}

/* The square of a float is exact in double. */
PPO__FN double PPO__(sum_squares)(float a, const float *x, size_t n) {
    enum { PPO__CHAINS = 4, PPO__HALF = PPO__WIDTH / 2 };
    double lane[PPO__CHAINS * PPO__HALF], sum = 0.0;
    PPO__DOUBLES chain[PPO__CHAINS];
    size_t i = 0;
    memset(chain, 0, sizeof chain);
    for (; i + PPO__CHAINS * PPO__HALF <= n; i += PPO__CHAINS * PPO__HALF) {
        PPO__UNROLL for (int k = 0; k < PPO__CHAINS; ++k) {
            const PPO__DOUBLES d = PPO__LOAD_DOUBLES(x + i + k * PPO__HALF, a);
            chain[k] += d * d;
        }
    }
    memcpy(lane, chain, sizeof lane);
    for (int k = 0; k < PPO__CHAINS * PPO__HALF; ++k) sum += lane[k];
    return sum + ppo__plain_sum_squares(a, x + i, n - i);
}

/* z - reference of the logits at p. Missing lanes are -inf, which adds nothing to a sum. */
PPO__INLINE PPO__VEC PPO__(logits)(const float *p, float inv_temperature, float reference, size_t lanes) {
    const PPO__VEC z = PPO__FMA(PPO__(load)(p, lanes), PPO__SET1(inv_temperature), PPO__SET1(-reference));
    return lanes == PPO__WIDTH ? z : PPO__PAD(PPO__MASK_OF(lanes), z, PPO__SET1(-INFINITY));
}

/* A long row is read from memory once, PPO__AT_ONCE numbers at a time: find their maximum; if it is a new one, move
   the sums to it (s -> c s and d -> c (d + shift s), where shift = old - new and c = e^shift); add the
   numbers. As a factor z is clamped to -200, where e^z is 0 already: 0 times -inf would be NaN. */
PPO__FN void PPO__(softmax_stats_row)(const float *logits, int n, float inv_temperature, float *max,
                                      float *sum, float *dot) {
    enum { PPO__AT_ONCE = 1024 };
    const PPO__VEC zero = PPO__SET1(0.0f);
    PPO__VEC s = zero, d = zero;
    float top = -INFINITY;
    for (int start = 0; start < n; start += PPO__AT_ONCE) {
        const float *x = logits + start;
        const size_t length = (size_t)(n - start < PPO__AT_ONCE ? n - start : PPO__AT_ONCE);
        PPO__VEC high = PPO__SET1(-INFINITY), block_s = zero, block_d = zero;
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
    const size_t lanes = (size_t)rows;
    const PPO__VEC inv = PPO__SET1(inv_temperature);
    PPO__VEC top = PPO__SET1(-INFINITY), s = PPO__SET1(0.0f), d = s;
    float t[PPO__WIDTH * PPO__WIDTH];
    PPO__(transpose)(rows, n, logits, ld, t, PPO__WIDTH);
    for (int j = 0; j < n; ++j) top = PPO__MAX(top, inv * PPO__(load)(t + j * PPO__WIDTH, lanes));
    for (int j = 0; j < n; ++j) {
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
        const int count = ppo__min_int((int)(rows - i), height);
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
    const size_t lanes = (size_t)rows;
    const PPO__VEC log_sum = PPO__(load)(given->log_sum + r, lanes);
    const PPO__VEC entropy = PPO__(load)(given->entropy + r, lanes);
    const PPO__VEC grad_logp = PPO__(load)(given->grad_logp + r, lanes);
    const PPO__VEC grad_entropy = PPO__(load)(given->grad_entropy + r, lanes);
    const PPO__VEC max = PPO__(load)(given->max + r, lanes);
    float t[PPO__WIDTH * PPO__WIDTH];
    PPO__(transpose)(rows, n, logits, ld, t, PPO__WIDTH);
    for (int j = 0; j < n; ++j) {
        const PPO__VEC x = PPO__(load)(t + j * PPO__WIDTH, lanes);
        const PPO__VEC z = PPO__FMA(x, PPO__SET1(inv_temperature), -max);
        const PPO__VEC d = PPO__(softmax_grad_at)(z, log_sum, entropy, grad_logp, grad_entropy,
                                                  inv_temperature, PPO__SET1(0.0f));
        PPO__STOREU(t + j * PPO__WIDTH, d);
    }
    for (ptrdiff_t i = 0; i < rows; ++i) {
        for (int j = 0; j < n; ++j) {
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
        float *y = out + i * ld_out;
        const int count = ppo__min_int((int)(rows - i), height);
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

PPO__KERNEL_TABLE(PPO__(kernels), PPO__ISA, PPO__ISA_NAME, NULL);

#undef PPO__TARGET
#undef PPO__ISA
#undef PPO__ISA_NAME
#undef PPO__WIDTH
#undef PPO__VEC
#undef PPO__PREFIX
#undef PPO__DOUBLES
#undef PPO__TILE_ROWS
#undef PPO__TILE_VECS
#undef PPO__MASK
#undef PPO__MASK_OF
#undef PPO__LOADM
#undef PPO__STOREM
#undef PPO__PAD
#undef PPO__IF_GREATER
#undef PPO__TIMES_2_TO
#undef PPO__LOAD_DOUBLES
#undef PPO__LOAD_GROUPS
#undef PPO__LOAD_PAIRS
#undef PPO__MM
#undef PPO__PAIRS
#undef PPO__SET1
#undef PPO__LOADU
#undef PPO__STOREU
#undef PPO__FMA
#undef PPO__LN2_HIGH
#undef PPO__LN2_LOW
#undef PPO__MIN
#undef PPO__MAX
#undef PPO__SQRT
#undef PPO__ZIP_LOW
#undef PPO__ZIP_HIGH
#undef PPO__ZIP2_LOW
#undef PPO__ZIP2_HIGH

#endif

#if defined(PPO_IMPLEMENTATION) && !defined(PPO__KERNEL_PASS) && !defined(PPO__IMPLEMENTED)

static const ppo__kernels *volatile ppo__chosen_kernels;

/* The kernels in use. They are found at the first call; two threads that both do so find the same. */
static PPO__NOINLINE const ppo__kernels *ppo__k(void) {
    const ppo__kernels *kernels = PPO__ATOMIC_LOAD(ppo__chosen_kernels);
    if (!kernels) PPO__ATOMIC_STORE(ppo__chosen_kernels, kernels = ppo__kernels_find(NULL));
    return kernels;
}

PPO_DEF ppo_status ppo_use_kernels(const char *name) {
    const ppo__kernels *kernels = ppo__kernels_find(name);
    if (!kernels)
        return ppo__refuse("this processor or this build has no kernels \"%s\" (the best is \"%s\")",
                           name ? name : "NULL", ppo__kernels_find(NULL)->name);
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
PPO__COLD
PPO__TINY size_t ppo__size(const ppo_tensor *x) { return ppo__at(x->rows, x->cols); }

typedef struct ppo__mirror {
    ppo_params *params;
    ppo__device *device;
    struct ppo__mirror *next;
    float *data, *grad, *m, *v;
    int counts;  /* 1: these are the numbers, not the host's */
    int changed; /* 1: the host's are older */
} ppo__mirror;

/* The mirror if its numbers count, NULL if the host's do. */
static ppo__mirror *ppo__mirror_of(const ppo_params *params) {
    return params->mirror && params->mirror->counts ? params->mirror : NULL;
}

static void ppo__mirror_free(ppo_params *params) {
    if (params->mirror) params->mirror->device->forget(params);
}

static void ppo__widen(const uint16_t *from, size_t n, float *to) {
    for (size_t most = 1 << 16; n; from += most, to += most, n -= most) {
        if (n < most) most = n;
        ppo__k()->widen(1, (int)most, from, 0, to, 0);
    }
}

/* A parameter, in memory that ends with its name. */
typedef struct ppo__param {
    ppo_tensor tensor;
    uint16_t *packed; /* its numbers, if tensor.data is NULL */
} ppo__param;

static PPO__NOINLINE uint16_t *ppo__packed(const ppo_tensor *x) {
    return x->data ? NULL : ((const ppo__param *)(const void *)x)->packed;
}

/* The numbers of a parameter, wherever they are. */
static void ppo__tensor_read(const ppo_tensor *x, float *to) {
    if (!x->data) ppo__widen(ppo__packed(x), ppo__size(x), to);
    else memcpy(to, x->data, ppo__size(x) * sizeof *to);
}

/* The bytes of a set's blocks. */
static size_t ppo__blocks_size(const ppo_params *params, int blocks) {
    if (params->packed) return params->capacity * sizeof *params->packed;
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
    if (!PPO__GIVEN("ppo_params_sync", params)) return PPO_ERROR_ARGUMENT;
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
    if (params->packed)
        return ppo__refuse("parameters that ppo_params_to_bf16() packed are for the processor");
    if (params->mirror && params->mirror->device != device) ppo__mirror_free(params);
    if (!params->mirror && device->mirror(device, params)) return ppo__failed;
    mirror = params->mirror;
    status = device->write(device, mirror->data, params->data, ppo__blocks_size(params, 4));
    mirror->counts = !status;
    mirror->changed = 0;
    return status;
}

PPO_DEF ppo_status ppo_params_create(ppo_params **params) {
    if (!PPO__GIVEN("ppo_params_create", params)) return PPO_ERROR_ARGUMENT;
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
    ppo__free(params->packed);
    ppo__free(params);
}

/* The floats of a matrix and of the gap after it: what comes next begins on a boundary. */
static size_t ppo__padded(size_t rows, size_t cols) {
    const size_t grain = PPO__ALIGN / sizeof(float);
    return (rows * cols + grain - 1) / grain * grain;
}

/* New blocks of `count` floats, with what the old ones have. */
PPO__RARE ppo_status ppo__params_move(ppo_params *params, size_t count, int frozen) {
    ppo_status status = ppo_params_sync(params);
    if (!status && params->packed)
        status = ppo__refuse("parameters that ppo_params_to_bf16() packed cannot be trained, a copy can");
    if (status) return status;
    ppo__mirror_free(params);
    const size_t blocks = frozen ? 1 : 4, kept = params->frozen ? 1 : blocks;
    const int impossible = count >= SIZE_MAX / 16;
    if (!impossible) count = ppo__padded(1, count);
    float *block = (float *)ppo__alloc(impossible ? SIZE_MAX : blocks * count * sizeof(float));
    if (!block) return PPO_ERROR_MEMORY;
    float **part[4] = {&params->data, &params->m, &params->v, &params->grad}, *old = params->data;
    for (int i = 0; i < params->tensor_count; ++i) {
        ppo_tensor *tensor = params->tensors[i];
        ptrdiff_t at = tensor->data - old;
        int none = frozen || (!params->frozen && !tensor->grad); /* NULL: its owner wants none */
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

/* Makes room for `count` floats in all, gaps included. Without it, each ppo_params_add() copies the set. */
static ppo_status ppo__params_reserve(ppo_params *params, size_t count) {
    return count <= params->capacity ? PPO_OK : ppo__params_move(params, count, params->frozen);
}

PPO_DEF ppo_status ppo_params_freeze(ppo_params *params, int frozen) {
    if (!PPO__GIVEN("ppo_params_freeze", params)) return PPO_ERROR_ARGUMENT;
    frozen = frozen != 0;
    if (!params->capacity) return params->frozen = frozen, PPO_OK;
    return frozen == params->frozen ? PPO_OK : ppo__params_move(params, params->capacity, frozen);
}

PPO_DEF ppo_tensor *ppo_params_add(ppo_params *params, const char *name, int rows, int cols) {
    if (!PPO__GIVEN("ppo_params_add", params, name)) return NULL;
    ppo_status status = PPO_OK;
    if (params->packed) status = ppo__refuse("ppo_params_add: the parameters are packed");
    else if (rows <= 0 || cols <= 0)
        status = ppo__refuse("ppo_params_add: \"%s\" is %d x %d: both must be above 0", name, rows, cols);
    for (int i = 0; i < params->tensor_count; ++i)
        if (!strcmp(params->names[i], name))
            status = ppo__refuse("ppo_params_add: there is a parameter \"%s\" already", name);
    if (status) return NULL;
    if (PPO__ROOM(params->tensors) || PPO__ROOM(params->names) || PPO__ROOM(params->lr_scale)) return NULL;
    ppo__param *param = (ppo__param *)ppo__alloc(sizeof *param + strlen(name) + 1);
    ppo_tensor *tensor = (ppo_tensor *)(void *)param;
    size_t start = params->count, end = start + ppo__padded((size_t)rows, (size_t)cols);
    if (!param || ppo_params_sync(params) || ppo__params_reserve(params, end))
        return ppo__free(param), (ppo_tensor *)NULL;
    tensor->rows = rows;
    tensor->cols = cols;
    tensor->data = params->data + start;
    tensor->grad = params->frozen ? NULL : params->grad + start;
    ppo__array_push(params->tensors, tensor);
    ppo__array_push(params->names, strcpy((char *)(param + 1), name));
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
            double dot = 0;
            for (int k = 0; k < size; ++k) dot += (double)xi[k] * xj[k];
            for (int k = 0; k < size; ++k) xi[k] -= (float)dot * xj[k];
        }
        for (int k = 0; k < size; ++k) norm += (double)xi[k] * xi[k];
        for (int k = 0; k < size; ++k) xi[k] = (float)(xi[k] / sqrt(norm));
    }
}

/* Makes n rows x of normal numbers orthonormal, a tile p of them at a time: p -= (p y^T) y for the finished
   rows y, then among themselves; all of it twice, which is enough. */
PPO_DEF ppo_status ppo_init_orthogonal(ppo_tensor *weight, float gain, ppo_rng *rng) {
    enum { PPO__TILE = 16 };
    if (!PPO__GIVEN("ppo_init_orthogonal", weight, rng)) return PPO_ERROR_ARGUMENT;
    if (!PPO__GIVEN("ppo_init_orthogonal", weight->data)) return PPO_ERROR_ARGUMENT;
    const ppo__kernels *k = ppo__k();
    const size_t count = ppo__size(weight);
    int wide = weight->cols > weight->rows;
    int n = wide ? weight->rows : weight->cols, size = wide ? weight->cols : weight->rows;
    float *x =
        (float *)ppo__alloc((count + ppo__at(PPO__TILE, size) + ppo__at(PPO__TILE, n)) * sizeof(float));
    if (!x) return PPO_ERROR_MEMORY;
    float *pt = x + count, *ypt = pt + ppo__at(PPO__TILE, size);
    for (size_t i = 0; i < count; ++i) x[i] = ppo_rng_normal(rng);
    for (int i = 0; i < n; i += PPO__TILE) {
        const int rows = ppo__min_int(n - i, PPO__TILE);
        float *p = x + ppo__at(i, size);
        for (int pass = 0; pass < 2; ++pass) {
            k->transpose(rows, size, p, size, pt, rows);
            k->gemm(i, rows, size, x, size, 1, pt, rows, NULL, 0, ypt, rows);
            k->scale(-1, ypt, ppo__at(i, rows));
            k->gemm(rows, size, i, ypt, 1, rows, x, size, p, size, p, size);
            ppo__orthonormalize_few(p, rows, size);
        }
    }
    k->scale(gain, x, count);
    if (wide) memcpy(weight->data, x, count * sizeof(float));
    else k->transpose(n, size, x, size, weight->data, n);
    ppo__free(x);
    return PPO_OK;
}

/* Uniform numbers in [-bound, bound). */
static void ppo__fill_uniform(ppo_tensor *weight, float bound, ppo_rng *rng) {
    for (size_t i = 0; i < ppo__size(weight); ++i) weight->data[i] = ppo_rng_range(rng, -bound, bound);
}

/* Normal numbers of mean 0. */
static void ppo__fill_normal(ppo_tensor *weight, float std, ppo_rng *rng) {
    for (size_t i = 0; i < ppo__size(weight); ++i) weight->data[i] = std * ppo_rng_normal(rng);
}

/* --------------------------------------------------------------------------------------------------------
   @@ 5 Autograd. An operation takes its results from the tape's arenas and computes them at once; where an
   input has a gradient, its node is added to a list, which backward walks from the end. A tape may compute on
   a device: then data and gradients lie there, nodes on the host, and operations are the device's by name.
   What an operation takes in backward is scratch: it lives until that operation returns.

   To add
       an elementwise operation   a line PPO__BINARY or PPO__UNARY with its value and derivatives
       an activation              as gelu (search for it): a constant before PPO__ACTIVATIONS, and its word at
                                  that position of PPO__ACTIVATION_WORDS; in section 3 its value and derivative
                                  twice, as PPO__PLAIN and PPO__PLAIN_BACKWARD, PPO__MAP and PPO__MAP_BACKWARD,
                                  and a line of PPO__KERNEL_TABLE (keeps_z 1: the derivative is computed from z,
                                  0: from y); for a GPU both formulas in three functors of ppo_cuda.cuh; C code
                                  in ppo_export.h; its formula in tests/test_variants.c, bounds in test_math.c
       any other operation        a ppo_op with its forward and backward, as those below
   test_autograd.c compares all derivatives with finite differences.
   -------------------------------------------------------------------------------------------------------- */

/* Room for a gradient. */
typedef struct ppo__piece {
    struct ppo__piece *next; /* older */
    float *memory;
    size_t floats;
    int taken;
} ppo__piece;

/* What a tape has recorded. */
typedef struct ppo__record {
    ppo__arena arena;   /* nodes, and what else only the host reads */
    ppo__arena numbers; /* results, and what operations keep */
    ppo__arena grads;   /* gradients of results, while backward needs them: */
    ppo__piece *pieces; /* what has been taken of it, the newest */
    ppo_node **nodes;   /* stb_ds array: the nodes that backward visits, in order of recording */
} ppo__record;

struct ppo_tape {
    ppo__device *device; /* where it computes; NULL: on the processor */
    ppo__record now;
    ppo__record block;  /* what is computed again, while it is */
    ppo__arena scratch; /* what an operation takes in its backward */
    int backward;       /* 1: operations take from scratch */
    int recording, recompute;
    ppo_status status; /* the first failure */
    char error[PPO__ERROR_SIZE];
    struct ppo__event *walked; /* happens after each node that backward comes to; NULL: nobody waits */
    /* where params[k] is not NULL: gradients of these go to grad[k], in the same layout, not to their own */
    const ppo_params *params[2];
    float *grad[2];
};

static ppo_status ppo__tape_create_on(ppo__device *device, ppo_tape **tape) {
    if (!PPO__GIVEN("ppo_tape_create", tape)) return PPO_ERROR_ARGUMENT;
    *tape = (ppo_tape *)ppo__alloc(sizeof **tape);
    if (!*tape) return PPO_ERROR_MEMORY;
    (*tape)->recording = 1;
    (*tape)->device = (*tape)->now.numbers.device = (*tape)->now.grads.device = device;
    (*tape)->block.numbers.device = (*tape)->block.grads.device = (*tape)->scratch.device = device;
    return PPO_OK;
}

PPO_DEF ppo_status ppo_tape_create(ppo_tape **tape) { return ppo__tape_create_on(NULL, tape); }

static void ppo__record_free(ppo__record *record) {
    ppo__arena_free(&record->arena);
    ppo__arena_free(&record->numbers);
    ppo__arena_free(&record->grads);
    ppo__array_free((void *)record->nodes);
}

PPO_DEF PPO__NOINLINE void ppo_tape_free(ppo_tape *tape) {
    if (!tape) return;
    ppo__record_free(&tape->now);
    ppo__record_free(&tape->block);
    ppo__arena_free(&tape->scratch);
    ppo__free(tape);
}

static void ppo__record_reset(ppo__record *record) {
    ppo__arena_reset(&record->arena);
    ppo__arena_reset(&record->numbers);
    ppo__arena_reset(&record->grads);
    if (record->nodes) stbds_header(record->nodes)->length = 0;
    record->pieces = NULL;
}

PPO_DEF PPO__NOINLINE void ppo_tape_reset(ppo_tape *tape) {
    if (!tape) return;
    ppo__record_reset(&tape->now);
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
PPO__RARE PPO__NOINLINE void *ppo__tape_fail(ppo_tape *tape, ppo_status status) {
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
    return ppo__tape_take_from(tape, tape ? &tape->now.arena : NULL, n, size);
}

PPO_DEF PPO__NOINLINE float *ppo_tape_alloc(ppo_tape *tape, size_t n) {
    ppo__arena *arena = !tape ? NULL : tape->backward ? &tape->scratch : &tape->now.numbers;
    return (float *)ppo__tape_take_from(tape, arena, n, sizeof(float));
}

/* Brings data of the host to where the tape computes. */
static void *ppo__tape_write(ppo_tape *tape, const void *from, size_t size) {
    if (!tape->device) return (void *)from;
    void *to = ppo__tape_take_from(tape, &tape->now.numbers, size, 1);
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

/* A tensor of these numbers; NULL, too, where data is. */
static ppo_tensor *ppo__tape_tensor(ppo_tape *tape, int rows, int cols, float *data, float *grad) {
    ppo_tensor *tensor = data ? (ppo_tensor *)ppo__tape_take(tape, 1, sizeof *tensor) : NULL;
    if (!tensor) return NULL;
    tensor->rows = rows;
    tensor->cols = cols;
    tensor->data = data;
    tensor->grad = grad;
    return tensor;
}

/* The index of x in a block; huge if it lies before it. */
static size_t ppo__place_in(const float *block, const float *x) {
    return (size_t)((uintptr_t)x - (uintptr_t)block) / sizeof(float);
}

/* x as this tape sees it: a parameter's numbers may lie on the device, or its gradient go to tape->grad. */
static ppo_tensor *ppo__tape_input(ppo_tape *tape, ppo_tensor *x) {
    ppo__mirror *mirror = tape->device ? tape->device->mirrors : NULL;
    float *data = NULL, *grad = NULL;
    if (!x || (!tape->params[0] && !mirror && x->data)) return x;
    if (!x->data) {
        data = ppo_tape_alloc(tape, ppo__size(x));
        if (data) ppo__tensor_read(x, data);
    }
    for (; mirror && !data; mirror = mirror->next) {
        size_t at = ppo__place_in(mirror->params->data, x->data);
        if (at >= mirror->params->count) continue;
        data = mirror->data + at;
        if (mirror->grad) grad = mirror->grad + at;
    }
    for (int k = 0; k < 2 && tape->params[k] && x->grad; ++k) {
        size_t at = ppo__place_in(tape->params[k]->grad, x->grad);
        if (at < tape->params[k]->count) data = x->data, grad = tape->grad[k] + at;
    }
    return data ? ppo__tape_tensor(tape, x->rows, x->cols, data, x->grad ? grad : NULL) : x;
}

PPO_DEF ppo_tensor *ppo_tape_constant(ppo_tape *tape, const float *data, int rows, int cols) {
    if (!data || rows <= 0 || cols <= 0)
        return (ppo_tensor *)ppo__tape_fail(
            tape, data ? ppo__refuse("constant: %d x %d floats: both must be above 0", rows, cols)
                       : ppo__refuse("constant: data is NULL"));
    if (ppo_tape_status(tape)) return NULL;
    float *there = (float *)ppo__tape_write(tape, data, ppo__at(rows, cols) * sizeof(float));
    return ppo__tape_tensor(tape, rows, cols, there, NULL);
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
    float *y;
    size_t n;
} ppo__floats_job;

static void ppo__add_range(void *user, int range, int from, int to) {
    const ppo__floats_job *job = (const ppo__floats_job *)user;
    size_t at = ppo__at(from, PPO__FLOAT_GRAIN), count = ppo__grain_end(job->n, to) - at;
    if (job->x) ppo__k()->add(job->x + at, job->y + at, count);
    else memset(job->y + at, 0, count * sizeof(float));
}

/* y += x, or y = 0 if x is NULL */
static void ppo__add_to(const float *x, float *y, size_t n) {
    ppo__floats_job job = {x, y, n};
    ppo__parallel_for(ppo__grains(n), 1, 10.0 * (double)PPO__FLOAT_GRAIN, ppo__add_range, &job);
}

/* Marks a result that wants a gradient and has no room for it yet; it is never read. */
#define PPO__LATER(tape) ((float *)(void *)(tape))
PPO__COLD_END

/* Backward comes to x. If that is a result which wants a gradient, it gets room for one, which is zeros until
   others add to it: the smallest that is free and suffices, or new room. */
static void ppo__tape_begin_grad(ppo_tape *tape, ppo_tensor *x) {
    if (!x || x->grad != PPO__LATER(tape)) return;
    const size_t n = ppo__size(x);
    ppo__piece *best = NULL;
    for (ppo__piece *piece = tape->now.pieces; piece; piece = piece->next)
        if (!piece->taken && piece->floats >= n && (!best || piece->floats < best->floats)) best = piece;
    if (!best) {
        float *memory = (float *)ppo__tape_take_from(tape, &tape->now.grads, n, sizeof(float));
        best = memory ? (ppo__piece *)ppo__tape_take(tape, 1, sizeof *best) : NULL;
        if (!best) return;
        best->next = tape->now.pieces;
        best->memory = memory;
        best->floats = n;
        tape->now.pieces = best;
    }
    PPO__REGION(poison, tape->device, best->memory, best->floats * sizeof(float));
    PPO__REGION(unpoison, tape->device, best->memory, n * sizeof(float));
    best->taken = 1;
    x->grad = best->memory;
    if (tape->device) tape->device->zero(tape->device, x->grad, n * sizeof(float));
    else ppo__add_to(NULL, x->grad, n);
}

/* Visits the nodes from the last to the first: each adds to the gradients of its inputs. */
static ppo_status ppo__tape_walk_back(ppo_tape *tape, struct ppo__event *walked) {
    for (ptrdiff_t i = stbds_arrlen(tape->now.nodes) - 1; i >= 0; --i) {
        ppo_node *node = tape->now.nodes[i];
        for (int k = 0; k < node->op->outputs; ++k) ppo__tape_begin_grad(tape, node->out[k]);
        for (int k = 0; k < PPO_MAX_INPUTS; ++k) ppo__tape_begin_grad(tape, node->in[k]);
        if (tape->status) break;
        tape->backward = 1;
        node->op->backward(node);
        tape->backward = 0;
        ppo__arena_reset(&tape->scratch);
        for (int k = 0; k < node->op->outputs; ++k) { /* whose room serves other gradients from here on */
            ppo__piece *piece = tape->now.pieces;
            while (piece->memory != node->out[k]->grad) piece = piece->next;
            piece->taken = 0;
            node->out[k]->grad = PPO__LATER(tape);
        }
#ifdef PPO__THREADS
        if (walked) ppo__event_happens(walked);
#endif
    }
    (void)walked;
    return ppo_tape_status(tape);
}

/* For models that fill the memory, by ppo_hub.h. */
typedef struct ppo__large_functions {
    /* An operation that is made of others, which are not kept; and y = build(x), of x's shape, as this operation. */
    const ppo_op *recomputed;
    ppo_tensor *(*recompute)(ppo_tape *tape, ppo_tensor *(*build)(ppo_tape *, ppo_tensor *, const void *),
                             ppo_tensor *x, const void *user);
    /* Packed matrices. c = init + a b as in the kernel gemm, to the same bits; c may be init. */
    void (*gemm)(int rows, int cols, int inner, const float *a, int lda, const uint16_t *b, int ldb,
                 const float *init, int ld_init, float *c, int ldc);
    void (*transpose)(int rows, int cols, const uint16_t *b, float *out); /* out (cols, rows) */
} ppo__large_functions;
PPO__COMPANION(ppo__large_functions, ppo__for_large);

PPO_DEF ppo_node *ppo_tape_apply(ppo_tape *tape, const ppo_op *op, ppo_tensor *const *in, int n_in, int rows,
                                 int cols, const void *args, size_t args_size) {
    if (ppo_tape_status(tape)) return NULL;
    if (!op || !in || n_in < 0 || n_in > PPO_MAX_INPUTS || op->outputs < 1 || op->outputs > PPO_MAX_OUTPUTS ||
        rows <= 0 || cols <= 0 || (args_size && !args)) {
        return (ppo_node *)ppo__tape_fail(
            tape, ppo__refuse("ppo_tape_apply: %d inputs, %d outputs of (%d, %d) are impossible%s", n_in,
                              op ? op->outputs : 0, rows, cols, args ? "" : ", or args is NULL"));
    }
    ppo_node *node = (ppo_node *)ppo__tape_take(tape, 1, sizeof *node);
    if (!node) return NULL;
    memset(node, 0, sizeof *node);
    node->op = tape->device && op != ppo__for_large.recomputed ? tape->device->find(op->name) : op;
    if (!node->op)
        return (ppo_node *)ppo__tape_fail(
            tape, ppo__refuse("the device does not know the operation \"%s\"", op->name));
    node->tape = tape;
    int with_grad = tape->recording && op == ppo__for_large.recomputed; /* it may have parameters inside */
    for (int i = 0; i < n_in; ++i) {
        node->in[i] = ppo__tape_input(tape, in[i]);
        with_grad |= tape->recording && in[i] && in[i]->grad;
    }
    for (int i = 0; i < op->outputs; ++i) {
        const size_t n = ppo__at(rows, cols);
        float *grad = with_grad ? PPO__LATER(tape) : NULL;
        node->out[i] = ppo__tape_tensor(tape, rows, cols, ppo_tape_alloc(tape, n), grad);
    }
    if (args_size) node->args = ppo__tape_take(tape, 1, args_size);
    if (tape->status) return NULL;
    if (args_size) memcpy(node->args, args, args_size);

    ppo_status status = node->op->forward(node);
    if (!status && !tape->status && with_grad) status = PPO__PUSH(tape->now.nodes, node);
    if (status) ppo__tape_fail(tape, status);
    return tape->status ? NULL : node;
}

PPO_DEF ppo_status ppo_tape_backward(ppo_tape *tape, ppo_tensor *loss) {
    static const float one = 1;
    ppo_status status = ppo_tape_status(tape);
    if (status) return status;
    if (!loss || loss->rows != 1 || loss->cols != 1 || !loss->grad)
        return ppo__refuse("backward: the loss must be a (1, 1) result that depends on a parameter");
    ppo__tape_begin_grad(tape, loss);
    if (tape->status) return ppo_tape_status(tape);
    if (tape->device) status = tape->device->write(tape->device, loss->grad, &one, sizeof one);
    else loss->grad[0] += one; /* the loss may be a parameter, whose gradients add up */
    return status ? status : ppo__tape_walk_back(tape, tape->walked);
}

PPO_DEF ppo_tensor *ppo_tape_result(ppo_node *node) { return node ? node->out[0] : NULL; }

/* 1 if the operands are there and the tape has not failed; otherwise the failure is kept. */
static PPO__NOINLINE int ppo__operands(ppo_tape *tape, const char *op, const ppo_tensor *a,
                                       const ppo_tensor *b) {
    if (ppo_tape_status(tape)) return 0;
    if (a && b) return 1;
    ppo__tape_fail(tape, ppo__refuse("%s: the %s operand is NULL", op, a ? "second" : "first"));
    return 0;
}

PPO__RARE PPO__NOINLINE ppo_tensor *ppo__shape_error(ppo_tape *tape, const char *op, const ppo_tensor *a,
                                                     const ppo_tensor *b) {
    return (ppo_tensor *)ppo__tape_fail(tape, ppo__refuse("%s: shapes (%d, %d) and (%d, %d) do not fit", op,
                                                          a->rows, a->cols, b->rows, b->cols));
}

PPO_DEF ppo_tensor *ppo_tape_detach(ppo_tape *tape, ppo_tensor *x) {
    if (ppo__operands(tape, "detach", x, x)) x = ppo__tape_input(tape, x);
    return ppo_tape_status(tape) ? NULL : ppo__tape_tensor(tape, x->rows, x->cols, x->data, NULL);
}

PPO__BOTH static float ppo__min(float a, float b) { return a < b ? a : b; }
PPO__BOTH static float ppo__max(float a, float b) { return a > b ? a : b; }

/* An elementwise operation of two operands: its value, and the derivatives along a and b. */
typedef struct ppo__binary {
    const char *name;
    float (*value)(float a, float b, float *da, float *db);
} ppo__binary;

typedef struct ppo__binary_args {
    const ppo__binary *f;
    size_t row_stride, col_stride; /* through b: 0 where it is repeated */
} ppo__binary_args;

static ppo_status ppo__binary_forward(ppo_node *node) {
    const ppo__binary_args *args = (const ppo__binary_args *)node->args;
    const float *a = node->in[0]->data, *b = node->in[1]->data;
    float *y = node->out[0]->data, da, db;
    size_t rows = (size_t)node->out[0]->rows, cols = (size_t)node->out[0]->cols;
    for (size_t i = 0; i < rows; ++i)
        for (size_t j = 0; j < cols; ++j)
            *y++ = args->f->value(*a++, b[i * args->row_stride + j * args->col_stride], &da, &db);
    return PPO_OK;
}

static void ppo__binary_backward(ppo_node *node) {
    const ppo__binary_args *args = (const ppo__binary_args *)node->args;
    const float *a = node->in[0]->data, *b = node->in[1]->data, *dy = node->out[0]->grad;
    float *da = node->in[0]->grad, *db = node->in[1]->grad;
    size_t rows = (size_t)node->out[0]->rows, cols = (size_t)node->out[0]->cols;
    for (size_t i = 0; i < rows; ++i) {
        for (size_t j = 0; j < cols; ++j) {
            size_t at = i * cols + j, at_b = i * args->row_stride + j * args->col_stride;
            float along_a, along_b;
            args->f->value(a[at], b[at_b], &along_a, &along_b);
            if (da) da[at] += dy[at] * along_a;
            if (db) db[at_b] += dy[at] * along_b;
        }
    }
}

static ppo_tensor *ppo__tape_binary(ppo_tape *tape, const ppo__binary *f, ppo_tensor *a, ppo_tensor *b) {
    static const ppo_op op = {"binary", 1, ppo__binary_forward, ppo__binary_backward};
    if (!ppo__operands(tape, f->name, a, b)) return NULL;
    if ((b->rows != 1 && b->rows != a->rows) || (b->cols != 1 && b->cols != a->cols))
        return ppo__shape_error(tape, f->name, a, b);
    ppo__binary_args args = {f, b->rows == 1 ? 0 : (size_t)b->cols, b->cols == 1 ? 0 : (size_t)1};
    ppo_tensor *in[2] = {a, b};
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

/* A row: the operation, and ppo_tape_ + its name. */
#define PPO__BINARY_ROW(name, of_a_b, along_a, along_b)                        \
    static float ppo__##name##_value(float a, float b, float *da, float *db) { \
        *da = along_a;                                                         \
        *db = along_b;                                                         \
        return of_a_b;                                                         \
    }                                                                          \
    static const ppo__binary ppo__##name##_binary = {#name, ppo__##name##_value};
#define PPO__BINARY(name, of_a_b, along_a, along_b)                                     \
    PPO__BINARY_ROW(name, of_a_b, along_a, along_b)                                     \
    PPO_DEF ppo_tensor *ppo_tape_##name(ppo_tape *tape, ppo_tensor *a, ppo_tensor *b) { \
        return ppo__tape_binary(tape, &ppo__##name##_binary, a, b);                     \
    }

PPO__BINARY_ROW(add, a + b, 1, 1)
PPO__BINARY(sub, a - b, 1, -1)
PPO__BINARY(mul, (a * b), b, a)
PPO__BINARY(div, a / b, 1 / b, -a / (b * b))
PPO__BINARY(min, ppo__min(a, b), (a < b ? 1.0f : a > b ? 0.0f : 0.5f), 1 - *da)
PPO__BINARY(max, ppo__max(a, b), (a > b ? 1.0f : a < b ? 0.0f : 0.5f), 1 - *da)

PPO_DEF ppo_tensor *ppo_tape_add(ppo_tape *tape, ppo_tensor *a, ppo_tensor *b) {
    static const ppo_op op = {"add", 1, ppo__add_forward, ppo__add_backward};
    ppo_tensor *in[2] = {a, b};
    if (!a || !b || a->rows != b->rows || a->cols != b->cols)
        return ppo__tape_binary(tape, &ppo__add_binary, a, b);
    return ppo_tape_result(ppo_tape_apply(tape, &op, in, 2, a->rows, a->cols, NULL, 0));
}

/* An elementwise operation of one operand and two constants p and q: y = f(x) over an array, and the
   derivative at one element, given x and y. */
typedef struct ppo__unary {
    const char *name;
    void (*value)(const float *x, float *y, size_t n, float p, float q);
    float (*derivative)(float x, float y, float p, float q);
} ppo__unary;

typedef struct ppo__unary_args {
    const ppo__unary *f;
    float p, q;
} ppo__unary_args;

static ppo_status ppo__unary_forward(ppo_node *node) {
    const ppo__unary_args *args = (const ppo__unary_args *)node->args;
    args->f->value(node->in[0]->data, node->out[0]->data, ppo__size(node->in[0]), args->p, args->q);
    return PPO_OK;
}

static void ppo__unary_backward(ppo_node *node) {
    const ppo__unary_args *args = (const ppo__unary_args *)node->args;
    const float *x = node->in[0]->data, *y = node->out[0]->data, *dy = node->out[0]->grad;
    for (size_t i = 0; i < ppo__size(node->in[0]); ++i)
        node->in[0]->grad[i] += dy[i] * args->f->derivative(x[i], y[i], args->p, args->q);
}

static PPO__NOINLINE ppo_tensor *ppo__tape_unary(ppo_tape *tape, const ppo__unary *f, ppo_tensor *x, float p,
                                                 float q) {
    static const ppo_op op = {"unary", 1, ppo__unary_forward, ppo__unary_backward};
    ppo__unary_args args = {f, p, q};
    if (!ppo__operands(tape, f->name, x, x)) return NULL;
    return ppo_tape_result(ppo_tape_apply(tape, &op, &x, 1, x->rows, x->cols, &args, sizeof args));
}

#define PPO__UNARY_ROW(name, values, slope)                                                           \
    static void ppo__##name##_value(const float *x, float *y, size_t n, float p, float q) { values; } \
    static float ppo__##name##_derivative(float x, float y, float p, float q) { return slope; }       \
    static const ppo__unary ppo__##name##_unary = {#name, ppo__##name##_value, ppo__##name##_derivative};
#define PPO__UNARY(name, values, slope)                                  \
    PPO__UNARY_ROW(name, values, slope)                                  \
    PPO_DEF ppo_tensor *ppo_tape_##name(ppo_tape *tape, ppo_tensor *x) { \
        return ppo__tape_unary(tape, &ppo__##name##_unary, x, 0, 0);     \
    }
#define PPO__EACH(value) \
    for (size_t i = 0; i < n; ++i) y[i] = value

PPO__UNARY(exp, ppo__k()->vexp(x, y, n), y)
PPO__UNARY(log, ppo__k()->vlog(x, y, n), 1 / x)
PPO__UNARY(square, PPO__EACH(x[i] * x[i]), 2 * x)
PPO__UNARY_ROW(scale, PPO__EACH(x[i] * p + q), p)
PPO__UNARY_ROW(clamp, PPO__EACH(ppo__clamp(x[i], p, q)), x >= p && x <= q ? 1.0f : 0.0f)

PPO_DEF ppo_tensor *ppo_tape_scale(ppo_tape *tape, ppo_tensor *x, float scale, float shift) {
    return ppo__tape_unary(tape, &ppo__scale_unary, x, scale, shift);
}

PPO_DEF ppo_tensor *ppo_tape_clamp(ppo_tape *tape, ppo_tensor *x, float low, float high) {
    return ppo__tape_unary(tape, &ppo__clamp_unary, x, low, high);
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

PPO__COLD
/* y = x - log sum exp x, per row; dx = dy - softmax(x) sum dy. */
static ppo_status ppo__log_softmax_forward(ppo_node *node) {
    enum { PPO__ROWS = 64 };
    int rows = node->in[0]->rows, cols = node->in[0]->cols;
    float max[PPO__ROWS], sum[PPO__ROWS], dot[PPO__ROWS];
    for (int i = 0; i < rows; i += PPO__ROWS) {
        const float *x = node->in[0]->data + ppo__at(i, cols);
        float *y = node->out[0]->data + ppo__at(i, cols);
        int n = ppo__min_int(rows - i, PPO__ROWS);
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
        float *dx = node->in[0]->grad + i * cols, sum = 0;
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
    int rows = node->in[0]->rows, cols = node->in[0]->cols;
    ppo_status status = ppo__check_index("gather", index, rows, cols);
    for (int i = 0; i < rows && !status; ++i)
        node->out[0]->data[i] = node->in[0]->data[ppo__at(i, cols) + index[i]];
    return status;
}

static void ppo__pick_backward(ppo_node *node) {
    const int *index = *(const int *const *)node->args;
    size_t cols = (size_t)node->in[0]->cols;
    for (int i = 0; i < node->in[0]->rows; ++i)
        node->in[0]->grad[i * cols + index[i]] += node->out[0]->grad[i];
}

PPO_DEF ppo_tensor *ppo_tape_gather(ppo_tape *tape, ppo_tensor *x, const int *index) {
    static const ppo_op op = {"gather", 1, ppo__pick_forward, ppo__pick_backward};
    if (!ppo__operands(tape, op.name, x, index ? x : NULL)) return NULL;
    return ppo_tape_result(ppo_tape_apply(tape, &op, &x, 1, x->rows, 1, &index, sizeof index));
}

/* Matrices are divided into ranges of a multiple of this many rows, or columns. */
enum { PPO__ROW_GRAIN = 16, PPO__COLUMN_GRAIN = 64 };

#define PPO__ACTIVATION_WORDS "identity|tanh|relu|gelu|gelu_erf|silu|elu"

static PPO__NOINLINE ppo_status ppo__check_activation(const char *where, int activation) {
    const int known = activation >= 0 && activation < PPO__ACTIVATIONS;
    if (known && (!activation || ppo__k()->activation[activation].value)) return PPO_OK;
    return ppo__refuse("%s: there is no activation %d", where, activation);
}

/* -- packed matrices as operands: ppo_hub.h packs the numbers of a set to BF16, and computes with them -- */

/* x as an operand. *packed and data point to its numbers if they are packed, and data is not read; else NULL. */
static ppo_tensor *ppo__tape_packed(ppo_tape *tape, ppo_tensor *x, const uint16_t **packed) {
    *packed = ppo__packed(x);
    return *packed ? ppo__tape_tensor(tape, x->rows, x->cols, (float *)(void *)ppo__packed(x), NULL) : x;
}

/* Whether layers of this inner dimension have a product of their own. */
static int ppo__has_product(int inner) { return ppo__k()->product && inner >= PPO__PRODUCT; }

/* c = init + a b as in the kernel gemm. */
static void ppo__layer_gemm(int rows, int cols, int inner, const float *a, int a_row, int a_col,
                            const float *b, int ldb, const float *init, int ld_init, float *c, int ldc) {
    const ppo__kernels *k = ppo__k();
    if (ppo__has_product(inner))
        k->product(0, rows, cols, inner, a, a_row, a_col, b, ldb, init, ld_init, c, ldc);
    else k->gemm(rows, cols, inner, a, a_row, a_col, b, ldb, init, ld_init, c, ldc);
}

/* A chain of layers y = activation(x w + b), each fed by the one before, is one operation. Between its layers
   nothing has to be recorded, cleared or added up, and each range of rows goes through all of them at once.
   Backward, from the last layer to the first: dz = dy activation'(z);  dx = dz w^T,  which is dy of the layer
   before;  dw += x^T dz,  db += column sums of dz. */
enum { PPO__CHAIN = 3 }; /* layers at most: the inputs of the operation are x and each layer's w and b */

typedef struct ppo__layer {
    const ppo_tensor *w, *b; /* (in, out); (1, out) or NULL */
    const uint16_t *packed;  /* w's numbers, or NULL */
    int activation, rows;
    const float *x;         /* (rows, in) */
    float *y;               /* (rows, out) */
    float *before;          /* z, if the activation keeps it and there is a backward */
    float *dz, *dx;         /* dy first, (rows, out); what it is for the layer before, or NULL */
    const float *dx_before; /* what dx is added to, or NULL */
} ppo__layer;

typedef struct ppo__chain {
    int count;
    size_t scratch; /* floats that a range needs in backward */
    ppo__layer layer[PPO__CHAIN];
} ppo__chain;

/* Multiply-adds for each number of y; an activation takes as long as some twenty. */
static double ppo__layer_work(const ppo__layer *layer) {
    return layer->w->rows + (layer->activation ? 20 : 1);
}

/* Those of a row of all layers. */
static double ppo__chain_work(const ppo__chain *chain) {
    double work = 0;
    for (int k = 0; k < chain->count; ++k)
        work += chain->layer[k].w->cols * ppo__layer_work(&chain->layer[k]);
    return work;
}

/* Rows and columns of y, from (row, col) on. */
static void ppo__layer_part(const ppo__layer *layer, int row, int rows, int col, int cols) {
    const ppo__activation *f = &ppo__k()->activation[layer->activation];
    const int in = layer->w->rows, out = layer->w->cols;
    const float *x = layer->x + ppo__at(row, in), *bias = layer->b ? layer->b->data + col : NULL;
    size_t at = ppo__at(row, out) + (size_t)col, n = (size_t)cols;
    float *z = layer->before ? layer->before : layer->y;
    if (layer->packed)
        ppo__for_large.gemm(rows, cols, in, x, in, layer->packed + col, out, bias, 0, z + at, out);
    else ppo__layer_gemm(rows, cols, in, x, in, 1, layer->w->data + col, out, bias, 0, z + at, out);
    if (cols == out) n = ppo__at(rows, out), rows = 1;
    for (int i = 0; i < rows && f->value; ++i, at += (size_t)out) f->value(z + at, layer->y + at, n);
}

static void ppo__chain_rows(void *user, int range, int from, int to) {
    const ppo__chain *chain = (const ppo__chain *)user;
    for (int k = 0; k < chain->count; ++k)
        ppo__layer_part(&chain->layer[k], from, to - from, 0, chain->layer[k].w->cols);
}

static void ppo__layer_columns(void *user, int range, int from, int to) {
    const ppo__layer *layer = (const ppo__layer *)user;
    ppo__layer_part(layer, 0, layer->rows, from, to - from);
}

/* Sets where the rows of each layer lie. */
static ppo_status ppo__chain_layers(ppo_node *node, ppo__chain *chain) {
    const float *x = node->in[0]->data;
    for (int k = 0; k < chain->count; ++k) {
        ppo__layer *layer = &chain->layer[k];
        size_t n = ppo__at(node->in[0]->rows, node->in[1 + 2 * k]->cols);
        layer->w = node->in[1 + 2 * k];
        layer->b = node->in[2 + 2 * k];
        layer->rows = node->in[0]->rows;
        layer->x = x;
        layer->y = k == chain->count - 1 ? node->out[0]->data : ppo_tape_alloc(node->tape, n);
        if (ppo__k()->activation[layer->activation].keeps_z && node->out[0]->grad)
            layer->before = ppo_tape_alloc(node->tape, n);
        x = layer->y;
    }
    return ppo_tape_status(node->tape);
}

static ppo_status ppo__chain_forward(ppo_node *node) {
    ppo__chain *chain = (ppo__chain *)node->args;
    ppo_status status = ppo__chain_layers(node, chain);
    const int rows = node->in[0]->rows;
    const double work = ppo__chain_work(chain);
    int few = 0; /* 1: more threads can have columns than rows */
    for (int k = 0; k < chain->count; ++k) {
        const ppo__layer *layer = &chain->layer[k];
        few |= ppo__range_count(layer->w->cols, PPO__COLUMN_GRAIN, rows * ppo__layer_work(layer)) >
               ppo__range_count(rows, PPO__ROW_GRAIN, work);
    }
    if (status) return status;
    if (!few) ppo__parallel_for(rows, PPO__ROW_GRAIN, work, ppo__chain_rows, chain);
    for (int k = 0; k < chain->count && few; ++k) {
        ppo__layer *layer = &chain->layer[k];
        ppo__parallel_for(layer->w->cols, PPO__COLUMN_GRAIN, rows * ppo__layer_work(layer),
                          ppo__layer_columns, layer);
    }
    return PPO_OK;
}

/* dx needs w^T, which is made block by block. Returns for how many columns of dx at a time: 64, or more where
   these have fewer than 65,536 weights. */
static int ppo__columns_at_a_time(const ppo__layer *layer) {
    const int in = layer->w->rows, fit = PPO__COLUMN_GRAIN * ppo__divide_up(1 << 10, layer->w->cols);
    return ppo__min_int(in, fit);
}

/* dz in place of dy, which is not read again; and dx = dz w^T. */
static void ppo__chain_rows_backward(void *user, int range, int from, int to) {
    const ppo_node *node = (const ppo_node *)user;
    const ppo__chain *chain = (const ppo__chain *)node->args;
    for (int k = chain->count - 1; k >= 0 && chain->layer[k].dz; --k) {
        const ppo__layer *layer = &chain->layer[k];
        const ppo__activation *f = &ppo__k()->activation[layer->activation];
        const int in = layer->w->rows, out = layer->w->cols, most = ppo__columns_at_a_time(layer);
        const size_t at = ppo__at(from, out);
        float *dz = layer->dz + at;
        if (f->backward)
            f->backward((f->keeps_z ? layer->before : layer->y) + at, dz, dz, ppo__at(to - from, out));
        for (int j = 0; j < in && layer->dx; j += most) {
            const int n = ppo__min_int(in - j, most);
            const size_t at_x = ppo__at(from, in) + j, at_w = ppo__at(j, out);
            const float *before = layer->dx_before ? layer->dx_before + at_x : NULL;
            float *w_t = node->scratch + range * chain->scratch;
            if (layer->packed) ppo__for_large.transpose(n, out, layer->packed + at_w, w_t);
            else ppo__k()->transpose(n, out, layer->w->data + at_w, out, w_t, n);
            ppo__layer_gemm(to - from, n, out, dz, out, 1, w_t, n, before, in, layer->dx + at_x, in);
        }
    }
}

static int ppo__layer_learns(const ppo__layer *layer) {
    return layer->w->grad || (layer->b && layer->b->grad);
}

/* Some rows of dw, and with the first of them db; or, if w has more columns, some columns of both. */
static void ppo__layer_dw(void *user, int range, int from, int to) {
    const ppo__layer *layer = (const ppo__layer *)user;
    int in = layer->w->rows, out = layer->w->cols, rows = layer->rows;
    float *dw = layer->w->grad, *db = layer->b ? layer->b->grad : NULL;
    const float *dz = layer->dz;
    if (in >= out) {
        if (db && from == 0) ppo__k()->column_sum(rows, out, dz, out, db);
        if (!dw) return;
        dw += ppo__at(from, out);
        ppo__layer_gemm(to - from, out, rows, layer->x + from, 1, in, dz, out, dw, out, dw, out);
    } else {
        if (db) ppo__k()->column_sum(rows, to - from, dz + from, out, db + from);
        if (!dw) return;
        ppo__layer_gemm(in, to - from, rows, layer->x, 1, in, dz + from, out, dw + from, out, dw + from, out);
    }
}

/* Sets where the gradients of rows lie, down to the lowest layer that needs any. */
static ppo_status ppo__chain_gradients(ppo_node *node, ppo__chain *chain) {
    float *dx = node->in[0]->grad;
    int wanted = dx != NULL;
    for (int k = 0; k < chain->count; ++k) {
        ppo__layer *layer = &chain->layer[k];
        int out = layer->w->cols;
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
    const int rows = node->in[0]->rows;
    const double row_work = ppo__chain_work(chain);
    if (ppo__chain_gradients(node, chain)) return;
    for (int k = 0; k < chain->count; ++k) {
        const ppo__layer *layer = &chain->layer[k];
        const size_t n = layer->dx ? ppo__at(ppo__columns_at_a_time(layer), layer->w->cols) : 0;
        if (n > chain->scratch) chain->scratch = n;
    }
    const size_t ranges = (size_t)ppo__range_count(rows, PPO__ROW_GRAIN, row_work);
    if (chain->scratch) node->scratch = ppo_tape_alloc(node->tape, ranges * chain->scratch);
    if (chain->scratch && !node->scratch) return;
    ppo__parallel_for(rows, PPO__ROW_GRAIN, row_work, ppo__chain_rows_backward, node);
    for (int k = chain->count - 1; k >= 0; --k) { /* one by one: the same w may be in several layers */
        ppo__layer *layer = &chain->layer[k];
        int in = layer->w->rows, out = layer->w->cols;
        double work = (double)(in < out ? in : out) * layer->rows;
        if (ppo__layer_learns(layer))
            ppo__parallel_for(in < out ? out : in, PPO__ROW_GRAIN, work, ppo__layer_dw, layer);
    }
}

/* Layers 0 .. count - 1, as the operation `name`. */
static ppo_tensor *ppo__tape_chain(ppo_tape *tape, const char *name, ppo_tensor *x, ppo_tensor *const *w,
                                   ppo_tensor *const *b, const int *activation, int count) {
    static const ppo_op op = {"linear", 1, ppo__chain_forward, ppo__chain_backward};
    ppo_tensor *in[1 + 2 * PPO__CHAIN] = {x};
    const ppo_tensor *last = x;
    ppo__chain chain;
    memset(&chain, 0, sizeof chain);
    for (int k = 0; k < count; ++k) {
        if (!ppo__operands(tape, name, last, w[k])) return NULL;
        if (last->cols != w[k]->rows) return ppo__shape_error(tape, name, last, w[k]);
        if (b[k] && (b[k]->rows != 1 || b[k]->cols != w[k]->cols))
            return ppo__shape_error(tape, name, w[k], b[k]);
        ppo_status status = ppo__check_activation(name, activation[k]);
        if (status) return (ppo_tensor *)ppo__tape_fail(tape, status);
        in[1 + 2 * k] = ppo__tape_packed(tape, w[k], &chain.layer[k].packed);
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
                                    ppo_activation activation) {
    return ppo__tape_layer(tape, "linear", x, w, b, activation);
}

PPO_DEF ppo_tensor *ppo_tape_matmul(ppo_tape *tape, ppo_tensor *a, ppo_tensor *b) {
    return ppo__tape_layer(tape, "matmul", a, b, NULL, PPO_IDENTITY);
}

/* y = a b^T. Backward: da += dy b,  db += dy^T a. Forward computes y^T = b a^T, some rows at a time, because
   b is the larger one, as a table of tokens. scratch: a^T, and for each range these rows, and b's as floats */
typedef struct ppo__transposed_args {
    const uint16_t *packed; /* b's numbers, or NULL */
    int widens;             /* 1: they have to be made floats, as there is no product of them */
    int most;               /* rows at a time */
    size_t part;            /* floats of scratch for a range */
} ppo__transposed_args;

static void ppo__transposed_rows(void *user, int range, int from, int to) {
    const ppo_node *node = (const ppo_node *)user;
    const ppo__transposed_args *args = (const ppo__transposed_args *)node->args;
    const ppo_tensor *a = node->in[0], *b = node->in[1];
    const int n = a->rows, inner = a->cols;
    float *part = node->scratch + ppo__size(a) + (size_t)range * args->part;
    for (int rows = 0; from < to; from += rows) {
        const size_t at = ppo__at(from, inner);
        rows = ppo__min_int(to - from, args->most);
        if (args->packed && !args->widens) {
            ppo__k()->product(PPO__PACKED_A, rows, n, inner, args->packed + at, inner, 1, node->scratch, n,
                              NULL, 0, part, n);
        } else {
            const float *there = args->widens ? part + ppo__at(rows, n) : b->data + at;
            if (args->widens) ppo__widen(args->packed + at, ppo__at(rows, inner), part + ppo__at(rows, n));
            ppo__layer_gemm(rows, n, inner, there, inner, 1, node->scratch, n, NULL, 0, part, n);
        }
        for (int j = 0; j < n; j += 16) /* 16 rows of y at a time, as they are far apart */
            ppo__k()->transpose(rows, ppo__min_int(n - j, 16), part + j, n,
                                node->out[0]->data + ppo__at(j, b->rows) + from, b->rows);
    }
}

static ppo_status ppo__transposed_forward(ppo_node *node) {
    const ppo_tensor *a = node->in[0], *b = node->in[1];
    ppo__transposed_args *args = (ppo__transposed_args *)node->args;
    const double work = (double)ppo__size(a);
    const size_t ranges = (size_t)ppo__range_count(b->rows, PPO__ROW_GRAIN, work);
    args->widens = args->packed && !ppo__has_product(a->cols);
    args->most = args->widens ? 32 : 256;
    args->part = ppo__at(args->most, args->widens ? a->rows + a->cols : a->rows);
    node->scratch = ppo_tape_alloc(node->tape, ppo__size(a) + ranges * args->part);
    if (!node->scratch) return PPO_ERROR_MEMORY;
    ppo__k()->transpose(a->rows, a->cols, a->data, a->cols, node->scratch, a->rows);
    ppo__parallel_for(b->rows, PPO__ROW_GRAIN, work, ppo__transposed_rows, node);
    return PPO_OK;
}

static void ppo__transposed_da(void *user, int range, int from, int to) {
    const ppo_node *node = (const ppo_node *)user;
    const ppo_tensor *a = node->in[0], *b = node->in[1];
    const uint16_t *packed = ((const ppo__transposed_args *)node->args)->packed;
    const int inner = a->cols, out = b->rows;
    const float *dy = node->out[0]->grad + ppo__at(from, out);
    float *da = a->grad + ppo__at(from, inner);
    if (packed) ppo__for_large.gemm(to - from, inner, out, dy, out, packed, inner, da, inner, da, inner);
    else ppo__layer_gemm(to - from, inner, out, dy, out, 1, b->data, inner, da, inner, da, inner);
}

static void ppo__transposed_db(void *user, int range, int from, int to) {
    const ppo_node *node = (const ppo_node *)user;
    const ppo_tensor *a = node->in[0], *b = node->in[1];
    int inner = a->cols, out = b->rows;
    float *db = b->grad + ppo__at(from, inner);
    ppo__layer_gemm(to - from, inner, a->rows, node->out[0]->grad + from, 1, out, a->data, inner, db, inner,
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
    ppo__transposed_args args = {NULL, 0, 0, 0};
    ppo_tensor *in[2] = {a, ppo__tape_packed(tape, b, &args.packed)};
    if (!in[1]) return NULL;
    return ppo_tape_result(ppo_tape_apply(tape, &op, in, 2, a->rows, b->rows, &args, sizeof args));
}

typedef struct ppo__embedding_args {
    const int *index;
    const uint16_t *packed; /* the table's numbers, or NULL */
} ppo__embedding_args;

static ppo_status ppo__embedding_forward(ppo_node *node) {
    const ppo__embedding_args *args = (const ppo__embedding_args *)node->args;
    const ppo_tensor *table = node->in[0];
    ppo_tensor *out = node->out[0];
    ppo_status status = ppo__check_index("embedding", args->index, out->rows, table->rows);
    for (int i = 0; i < out->rows && !status; ++i) {
        const size_t from = ppo__at(args->index[i], out->cols);
        float *row = out->data + ppo__at(i, out->cols);
        if (args->packed) ppo__widen(args->packed + from, (size_t)out->cols, row);
        else memcpy(row, table->data + from, out->cols * sizeof(float));
    }
    return status;
}

static void ppo__embedding_backward(ppo_node *node) {
    const int *index = ((const ppo__embedding_args *)node->args)->index;
    const ppo_tensor *out = node->out[0];
    for (int i = 0; i < out->rows && node->in[0]->grad; ++i)
        ppo__k()->add(out->grad + ppo__at(i, out->cols), node->in[0]->grad + ppo__at(index[i], out->cols),
                      (size_t)out->cols);
}

PPO_DEF ppo_tensor *ppo_tape_embedding(ppo_tape *tape, ppo_tensor *table, const int *index, int n) {
    static const ppo_op op = {"embedding", 1, ppo__embedding_forward, ppo__embedding_backward};
    if (!ppo__operands(tape, op.name, table, index ? table : NULL)) return NULL;
    ppo__embedding_args args = {index, NULL};
    if ((table = ppo__tape_packed(tape, table, &args.packed)) == NULL) return NULL;
    return ppo_tape_result(ppo_tape_apply(tape, &op, &table, 1, n, table->cols, &args, sizeof args));
}

/* Layer norm, or RMS norm: not centred. kept: mean and 1 / standard deviation of each row */
typedef struct ppo__norm_args {
    int centred;
    float eps;
} ppo__norm_args;

static void ppo__norm_rows(void *user, int range, int from, int to) {
    const ppo_node *node = (const ppo_node *)user;
    const ppo__norm_args *args = (const ppo__norm_args *)node->args;
    const ppo_tensor *x = node->in[0], *w = node->in[1], *b = node->in[2];
    float *kept = (float *)node->kept + ppo__at(2, from);
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
    const float *kept = (const float *)node->kept;
    for (int i = 0; i < x->rows; ++i, kept += 2) {
        size_t at = ppo__at(i, x->cols);
        ppo__k()->norm_backward(((const ppo__norm_args *)node->args)->centred, x->data + at, w->data, kept[0],
                                kept[1], node->out[0]->grad + at, x->grad ? x->grad + at : NULL, w->grad,
                                b ? b->grad : NULL, x->cols);
    }
}

static ppo_tensor *ppo__tape_norm(ppo_tape *tape, const char *name, ppo_tensor *x, ppo_tensor *weight,
                                  ppo_tensor *bias, int centred, float eps) {
    static const ppo_op op = {"norm", 1, ppo__norm_forward, ppo__norm_backward};
    const ppo__norm_args args = {centred, eps};
    if (!ppo__operands(tape, name, x, weight) || (centred && !ppo__operands(tape, name, x, bias)))
        return NULL;
    if (weight->rows != 1 || weight->cols != x->cols) return ppo__shape_error(tape, name, x, weight);
    if (bias && (bias->rows != 1 || bias->cols != x->cols)) return ppo__shape_error(tape, name, x, bias);
    if (!(eps > 0 && eps <= FLT_MAX))
        return (ppo_tensor *)ppo__tape_fail(tape,
                                            ppo__refuse("%s: eps is %g, must be above 0", name, (double)eps));
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
    const ppo_node *node = (const ppo_node *)user;
    const ppo__activation *f = &ppo__k()->activation[*(const int *)node->args];
    const int n = node->out[0]->cols;
    for (int i = from; i < to; ++i) {
        const float *a = node->in[0]->data + ppo__at(i, 2 * n), *b = a + n;
        float *y = node->out[0]->data + ppo__at(i, n), *fa = (float *)node->kept + ppo__at(i, n);
        if (f->value) f->value(a, fa, (size_t)n);
        else memcpy(fa, a, n * sizeof(float));
        for (int j = 0; j < n; ++j) y[j] = fa[j] * b[j];
    }
}

static void ppo__gated_rows_backward(void *user, int range, int from, int to) {
    const ppo_node *node = (const ppo_node *)user;
    const ppo__activation *f = &ppo__k()->activation[*(const int *)node->args];
    const int n = node->out[0]->cols;
    for (int i = from; i < to; ++i) {
        const float *a = node->in[0]->data + ppo__at(i, 2 * n), *b = a + n,
                    *dy = node->out[0]->grad + ppo__at(i, n);
        float *da = node->in[0]->grad + ppo__at(i, 2 * n), *db = da + n,
              *fa = (float *)node->kept + ppo__at(i, n);
        float *dz = node->scratch + ppo__at(i, n);
        for (int j = 0; j < n; ++j) db[j] += dy[j] * fa[j];
        for (int j = 0; j < n; ++j) dz[j] = dy[j] * b[j];
        if (f->backward) f->backward(f->keeps_z ? a : fa, dz, dz, (size_t)n);
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

PPO_DEF ppo_tensor *ppo_tape_glu(ppo_tape *tape, ppo_tensor *x, ppo_activation activation) {
    static const ppo_op op = {"glu", 1, ppo__gated_forward, ppo__gated_backward};
    if (!ppo__operands(tape, op.name, x, x)) return NULL;
    ppo_status status = ppo__check_activation(op.name, activation);
    if (!status && x->cols % 2) status = ppo__refuse("glu: %d columns, must be an even number", x->cols);
    if (status) return (ppo_tensor *)ppo__tape_fail(tape, status);
    return ppo_tape_result(
        ppo_tape_apply(tape, &op, &x, 1, x->rows, x->cols / 2, &activation, sizeof activation));
}

static ppo_status ppo__activate_forward(ppo_node *node) {
    const ppo__activation *f = &ppo__k()->activation[*(const int *)node->args];
    const ppo_tensor *x = node->in[0];
    if (f->value) f->value(x->data, node->out[0]->data, ppo__size(x));
    else memcpy(node->out[0]->data, x->data, ppo__size(x) * sizeof(float));
    return PPO_OK;
}

static void ppo__activate_backward(ppo_node *node) {
    const ppo__activation *f = &ppo__k()->activation[*(const int *)node->args];
    const ppo_tensor *x = node->in[0], *y = node->out[0];
    if (f->backward)
        f->backward((f->keeps_z ? x : y)->data, y->grad, y->grad, ppo__size(x)); /* y's is not read again */
    ppo__k()->add(y->grad, x->grad, ppo__size(x));
}

PPO_DEF ppo_tensor *ppo_tape_activate(ppo_tape *tape, ppo_tensor *x, ppo_activation activation) {
    static const ppo_op op = {"activate", 1, ppo__activate_forward, ppo__activate_backward};
    if (!ppo__operands(tape, op.name, x, x)) return NULL;
    ppo_status status = ppo__check_activation(op.name, activation);
    if (status) return (ppo_tensor *)ppo__tape_fail(tape, status);
    return ppo_tape_result(
        ppo_tape_apply(tape, &op, &x, 1, x->rows, x->cols, &activation, sizeof activation));
}

static ppo_status ppo__concat_forward(ppo_node *node) {
    float *y = node->out[0]->data;
    for (int i = 0; i < node->out[0]->rows; ++i)
        for (int k = 0; k < 2; ++k) {
            const size_t n = (size_t)node->in[k]->cols;
            memcpy(y, node->in[k]->data + i * n, n * sizeof(float));
            y += n;
        }
    return PPO_OK;
}

static void ppo__concat_backward(ppo_node *node) {
    const float *dy = node->out[0]->grad;
    for (int i = 0; i < node->out[0]->rows; ++i)
        for (int k = 0; k < 2; ++k) {
            const size_t n = (size_t)node->in[k]->cols;
            if (node->in[k]->grad) ppo__k()->add(dy, node->in[k]->grad + i * n, n);
            dy += n;
        }
}

PPO_DEF ppo_tensor *ppo_tape_concat(ppo_tape *tape, ppo_tensor *a, ppo_tensor *b) {
    static const ppo_op op = {"concat", 1, ppo__concat_forward, ppo__concat_backward};
    if (!ppo__operands(tape, op.name, a, b)) return NULL;
    if (a->rows != b->rows || a->cols > INT_MAX - b->cols) return ppo__shape_error(tape, op.name, a, b);
    ppo_tensor *in[2] = {a, b};
    return ppo_tape_result(ppo_tape_apply(tape, &op, in, 2, a->rows, a->cols + b->cols, NULL, 0));
}

/* The numbers of a picture; 0 for what is none or too large. */
static PPO__NOINLINE int ppo__picture_size(const int shape[3]) {
    double size = 1;
    for (int k = 0; k < 3; ++k) size *= shape[k] > 0 ? shape[k] : 0;
    return size <= INT_MAX ? (int)size : 0;
}

/* --------------------------------------------------------------------------------------------------------
   @@ 6 Files and settings
   --------------------------------------------------------------------------------------------------------

   A ppo_file holds two lists, of arrays and of texts, sorted by name; all else is in its arena. Writing makes
   the header twice: first to count its bytes, then into the file. Reading parses the header where it lies: a
   string is never longer than its spelling, so it is decoded in place, and names and texts point into the
   header. Its depth is fixed, so nothing is recursive. Every save in this library goes through
   ppo__write_file(), which replaces the old file in one step.

   Settings are rows of a table (ppo_field), one per field of a struct: ppo__parse_field() and ppo__field_text()
   translate a field from and to text, and all else follows from them: defaults, presets, command lines, files,
   and the refusal of settings that have no effect (ppo_need). The tables are where the structs are used:
   sections 15, 18, 20, 21 and 22. To add a setting: a field of the struct and a row of its table. */

/* Arrays are written from the last type to the first, as by the reference implementation: with the largest
   elements first, each array starts at a multiple of its element's size. */
static const struct {
    const char *name;
    int size;
} ppo__types[] = {{"BOOL", 1}, {"U8", 1},  {"F16", 2}, {"BF16", 2}, {"I32", 4},
                  {"U32", 4},  {"F32", 4}, {"F64", 8}, {"I64", 8},  {"U64", 8}};

#define PPO__METADATA "__metadata__" /* the name that no array can have */

typedef struct ppo__entry {
    ppo_array array;
    const char *text;   /* if it is a text, of which array has only the name */
    int64_t begin, end; /* while it is read: where its bytes lie, from the end of the header */
    int taken;          /* 1: a model has read it */
} ppo__entry;

struct ppo_file {
    ppo__arena memory; /* holds all but the two lists */
    const char *path;  /* for messages */
    ppo__entry **arrays, **texts;
    FILE *in;     /* of which arrays are read when they are needed; NULL: all are in memory */
    int64_t data; /* where the first of them begins */
};

/* "path: what is wrong". A long path loses its beginning. Control characters, of a file's texts or of names in
   there, must not reach a terminal. */
PPO__RARE PPO__PRINTF(2, 3) ppo_status ppo__file_fail(const char *path, const char *format, ...) {
    char what[PPO__ERROR_SIZE];
    size_t most = 100, cut = strlen(path) > most ? strlen(path) - most : 0;
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    ppo_fail(PPO_ERROR_FILE, "%s%s: %s", cut ? "..." : *path ? "" : "\"\"", path + cut, what);
    for (char *c = ppo__error; *c; ++c) *c = (unsigned char)*c < ' ' || *c == 127 ? '?' : *c;
    return PPO_ERROR_FILE;
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
static size_t ppo__sorted_index(ppo__entry *const *list, const char *name) {
    size_t low = 0, high = stbds_arrlenu(list);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(list[middle]->array.name, name) < 0) low = middle + 1;
        else high = middle;
    }
    return low;
}

static ppo__entry *ppo__find_entry(ppo__entry *const *list, const char *name) {
    size_t at = name ? ppo__sorted_index(list, name) : 0;
    return name && at < stbds_arrlenu(list) && strcmp(list[at]->array.name, name) == 0 ? list[at] : NULL;
}

/* A new entry at index `at` of a list, in the file's memory; NULL on failure, or if name is NULL. */
PPO__RARE ppo__entry *ppo__insert(ppo_file *file, ppo__entry ***list, size_t at, const char *name) {
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
    if (!PPO__GIVEN("ppo_file_create", file)) return PPO_ERROR_ARGUMENT;
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
    if (!PPO__GIVEN("ppo_file_set_text", file, key, text)) return PPO_ERROR_ARGUMENT;
    if (!ppo__is_utf8(key) || !ppo__is_utf8(text))
        return ppo__refuse("ppo_file_set_text: text \"%.60s\" is not UTF-8", key);
    ppo__entry *entry = ppo__find_entry(file->texts, key);
    const char *copy = ppo__copy_text(file, text);
    if (copy && !entry)
        entry =
            ppo__insert(file, &file->texts, ppo__sorted_index(file->texts, key), ppo__copy_text(file, key));
    if (!copy || !entry) return PPO_ERROR_MEMORY;
    entry->text = copy;
    return PPO_OK;
}

/* Checks the description of an array that a caller of `function` gave. */
static ppo_status ppo__check_array(const char *name, int type, const int64_t *shape, int rank) {
    if (!name || !ppo__is_utf8(name) || strcmp(name, PPO__METADATA) == 0)
        return ppo__refuse("ppo_file_add: an array cannot be called \"%.60s\"", name ? name : "NULL");
    if (type < 0 || type > PPO_U64 || rank < 0 || rank > PPO_MAX_RANK || (rank && !shape) ||
        ppo__shape_bytes(type, shape, rank) < 0)
        return ppo__refuse("ppo_file_add: type %d, rank %d or the shape of \"%.60s\" is impossible", type,
                           rank, name);
    return PPO_OK;
}

PPO_DEF ppo_status ppo_file_add(ppo_file *file, const char *name, ppo_dtype type, const int64_t *shape,
                                int rank, const void *data) {
    if (!PPO__GIVEN("ppo_file_add", file)) return PPO_ERROR_ARGUMENT;
    if (ppo__check_array(name, type, shape, rank)) return PPO_ERROR_ARGUMENT;
    size_t bytes = (size_t)ppo__shape_bytes(type, shape, rank), place = ppo__sorted_index(file->arrays, name);
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
static int ppo__file_text_count(const ppo_file *file) { return file ? (int)stbds_arrlenu(file->texts) : 0; }

PPO_DEF const ppo_array *ppo_file_at(const ppo_file *file, int index) {
    return index >= 0 && index < ppo_file_count(file) ? &file->arrays[index]->array : NULL;
}

PPO_DEF const char *ppo_file_key_at(const ppo_file *file, int index) {
    return index >= 0 && index < ppo__file_text_count(file) ? file->texts[index]->array.name : NULL;
}

/* The array of this name, type and shape, or NULL and an error:
   policy.safetensors: "actor.0.weight" is F32 (4, 32), not F32 (4, 64) */
PPO__RARE ppo_status ppo__file_expect(const ppo_file *file, const char *name, int type, const int64_t *shape,
                                      int rank, const ppo_array **array) {
    *array = NULL;
    char is[PPO__SHAPE_SIZE], wanted[PPO__SHAPE_SIZE];
    const ppo_array *found = ppo_file_find(file, name);
    ppo__shape_text(wanted, type, shape, rank);
    if (!found) return ppo__file_fail(file->path, "there is no \"%.60s\", %s", name, wanted);
    if (strcmp(ppo__shape_text(is, found->type, found->shape, found->rank), wanted) != 0)
        return ppo__file_fail(file->path, "\"%.60s\" is %s, not %s", name, is, wanted);
    *array = found;
    return PPO_OK;
}

/* -- replacing a file -- */

/* What is at a path. SPECIAL: what is neither read as a file nor replaced by one, as a directory or a device.
   What cannot be looked at counts as a plain file: opening it says why. */
enum { PPO__NOTHING, PPO__PLAIN, PPO__SPECIAL };
static int ppo__what_is(const char *path) {
#if defined(PPO__UNIX)
    struct stat found;
    if (stat(path, &found)) return errno == ENOENT || errno == ENOTDIR ? PPO__NOTHING : PPO__PLAIN;
    return S_ISREG(found.st_mode) ? PPO__PLAIN : PPO__SPECIAL;
#elif defined(_WIN32)
    DWORD found = GetFileAttributesA(path);
    if (found == INVALID_FILE_ATTRIBUTES)
        return GetLastError() > ERROR_PATH_NOT_FOUND ? PPO__PLAIN : PPO__NOTHING;
    return found & FILE_ATTRIBUTE_DIRECTORY ? PPO__SPECIAL : PPO__PLAIN;
#else
    FILE *file = fopen(path, "rb");
    if (file) fclose(file);
    return file || errno != ENOENT ? PPO__PLAIN : PPO__NOTHING;
#endif
}

static int ppo__is_special(const char *path) { return ppo__what_is(path) == PPO__SPECIAL; }

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

/* The end of a path, after its last slash. */
static char *ppo__file_name(char *path) {
    char *name = path;
    for (; *path; ++path) name = strchr(PPO__SLASHES, *path) ? path + 1 : name;
    return name;
}

/* Waits until the names in the directory of `name`, the end of a path, are on the disk; some systems cannot. */
static void ppo__sync_names(char *path, char *name) {
    const char first = *name;
    *name = 0;
    ppo__sync(NULL, *path ? path : ".");
    *name = first;
}

/* Makes the directories of a path that are missing. Returns 0, or the errno of the first that could not be
   made, which matters only if the file cannot be opened then. */
static int ppo__make_directories(char *path) {
    int cause = 0;
    char *name = path + strspn(path, PPO__SLASHES);
    for (char *c = path; *path && (c = strpbrk(c + 1, PPO__SLASHES)) != NULL; name = c + 1) {
        char slash = *c;
        *c = 0;
        if (!PPO__MKDIR(path)) ppo__sync_names(path, name);
        else if (errno != EEXIST && !cause) cause = errno;
        *c = slash;
    }
    return cause;
}

typedef ppo_status (*ppo__write_fn)(FILE *out, const char *path, void *user);

/* Has write() fill a new file in the same directory, and gives its name. Names that other threads, or killed
   processes, have taken are skipped. */
static ppo_status ppo__write_draft(const char *path, ppo__write_fn write, void *user, char **draft) {
    enum { PPO__NAME = 48, PPO__MOST = 1000 };
    if (ppo__is_special(path)) return ppo__file_fail(path, "cannot be written: it is not a plain file");
    char *temporary = (char *)ppo__alloc(strlen(path) + PPO__NAME);
    if (!temporary) return PPO_ERROR_MEMORY;
    int cause = ppo__make_directories(strcpy(temporary, path));
    char *name = ppo__file_name(temporary);
    FILE *out = NULL;
    for (int i = 0; i < PPO__MOST && !out && (i == 0 || errno == EEXIST); ++i) {
        snprintf(name, PPO__NAME, "ppo-%ld-%d.tmp", PPO__PROCESS_ID(), i);
        out = ppo__open_new(temporary);
    }
    ppo_status status = out ? write(out, path, user) : PPO_OK;
    int failed = !out || (!status && (ferror(out) || ppo__sync(out, temporary)));
    int reason = !out && errno == ENOENT && cause ? cause : errno;
    if (out && fclose(out) && !failed) failed = 1, reason = errno;
    if (failed && !status) status = ppo__file_failed(path, "written", reason);
    if (out && status) remove(temporary);
    if (status) ppo__free(temporary);
    else *draft = temporary;
    return status;
}

/* Puts a draft in the place of the file at path, in one step; or removes it, after a failure. */
static ppo_status ppo__keep_draft(const char *path, char *draft, ppo_status status) {
    if (!draft) return status;
    if (!status && PPO__MOVE(draft, path)) status = ppo__file_failed(path, "written", errno);
    if (status) remove(draft);
    else ppo__sync_names(draft, ppo__file_name(draft));
    ppo__free(draft);
    return status;
}

/* Has write() fill a file that then replaces the one at path. */
static ppo_status ppo__write_file(const char *path, ppo__write_fn write, void *user) {
    char *draft = NULL;
    ppo_status status = ppo__write_draft(path, write, user, &draft);
    return ppo__keep_draft(path, draft, status);
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
    const size_t flip = ppo__is_big_endian() ? (size_t)ppo__types[array->type].size - 1 : 0;
    for (size_t i = 0; i < array->bytes; ++i) hash = ppo__fnv1a(hash, &bytes[i ^ flip], 1);
    return hash;
}

/* A header that is written, or only counted. */
typedef struct ppo__header {
    FILE *out; /* NULL: it is counted */
    int64_t length;
} ppo__header;

static PPO__PRINTF(2, 3) void ppo__put(ppo__header *header, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int length = header->out ? vfprintf(header->out, format, args) : vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length > 0) header->length += length;
}

PPO__RARE void ppo__put_string(ppo__header *header, const char *text) {
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
            if ((int)array->type == *type) return array;
        }
    }
    return NULL;
}

/* A header, padded; returns its length. Failures stay in `out`, for ferror(). */
PPO__RARE int64_t ppo__put_header(FILE *out, const ppo_file *file) {
    ppo__header header = {out, 0};
    unsigned long long begin = 0;
    int type = PPO_U64, index = 0, texts = ppo__file_text_count(file);
    const char *comma = texts ? "," : "";
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
PPO__RARE ppo_status ppo__write_arrays(FILE *out, const char *path, void *user) {
    const ppo_file *file = (const ppo_file *)user;
    unsigned char buffer[16 * 1024];
    uint64_t length = (uint64_t)ppo__put_header(NULL, file);
    int type = PPO_U64, index = 0;
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
    if (!PPO__GIVEN("ppo_file_write", file, path)) return PPO_ERROR_ARGUMENT;
    return ppo__write_file(path, ppo__write_arrays, (void *)file);
}

/* -- reading -- */

/* A reader of JSON that takes one value after another. `at` may be set back to a value that was skipped, but
   not to one that was taken: strings are decoded where they lie. */
typedef struct ppo__json {
    const char *path,
        *part;              /* for messages: the file, and what of it is read, as " of the header"; "": all */
    char *start, *at, *end; /* of the text, which ends with a 0 */
    ppo_status status;      /* after the first failure nothing is taken */
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
    if (ppo__json_take(json, c)) return;
    if (c == '"') ppo__json_fail(json, "expected a string", NULL);
    else ppo__json_fail(json, "expected ", word);
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
    if (!strncmp(json->at, "\\u0000", 6))
        ppo__json_fail(json, "an escape that stands for no character here: \\u0000 ends a text", NULL);
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
PPO__RARE const char *ppo__json_string(ppo__json *json) {
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

/* Expects nothing but spaces up to the end of the text. */
static void ppo__json_end(ppo__json *json) {
    ppo__json_skip_space(json);
    if (json->at != json->end) ppo__json_fail(json, "expected its end", NULL);
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

/* {"dtype": "F32", "shape": [4, 64], "data_offsets": [0, 1024]}, in any order. */
static ppo_status ppo__json_entry(ppo__json *json, ppo__entry *entry) {
    char text[PPO__SHAPE_SIZE];
    ppo_array *array = &entry->array;
    const char *path = json->path, *name = array->name, *dtype = NULL;
    int64_t offsets[2] = {0, 0}, bytes;
    int rank = -1, count = -1, type = PPO_U64;
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
    array->type = (ppo_dtype)type;
    array->rank = rank;
    array->bytes = (size_t)bytes;
    entry->begin = offsets[0];
    entry->end = offsets[1];
    return PPO_OK;
}

static ppo_status ppo__parse_header(ppo_file *file, char *header, size_t length) {
    ppo__json json = {file->path, " of the header", header, header, header + length, PPO_OK};
    int seen_texts = 0;
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
    size_t n = stbds_arrlenu(file->arrays);
    if (n) qsort((void *)file->arrays, n, sizeof *file->arrays, ppo__by_offset);
    for (size_t i = 0; i < n; ++i) {
        const ppo__entry *entry = file->arrays[i];
        if (entry->begin != at)
            return ppo__file_fail(file->path, "\"%.60s\" lies in bytes %lld to %lld, not from %lld on",
                                  entry->array.name, (long long)entry->begin, (long long)entry->end,
                                  (long long)at);
        if (entry->end > size)
            return ppo__file_fail(file->path, "truncated: \"%.60s\" lies in bytes %lld to %lld of %lld",
                                  entry->array.name, (long long)entry->begin, (long long)entry->end,
                                  (long long)size);
        at = entry->end;
    }
    if (at == size) return PPO_OK;
    return ppo__file_fail(file->path, "%lld bytes at its end belong to no array", (long long)(size - at));
}

/* What a file of another kind is, by its first bytes; "" if they are unknown. */
static const char *ppo__other_kind(const char *begin, size_t n) {
    static const char *const kinds[][2] = {
        {"GGUF", ", but GGUF: ppo_gguf.h reads it from a file whose name ends in .gguf"},
        {"version ", ", but a pointer of git-lfs to the file: fetch that by git lfs pull"},
        {"PK\3\4", ", but a zip file, as PyTorch saves it: save it in Python as safetensors"},
        {"\200\2", ", but Python's pickle, as PyTorch saves it: save it in Python as safetensors"},
        {"\306\327\64\1", ", but llm.c's, which is not read: take the folder with model.safetensors"},
        {"\n", ", but a tokenizer.model of SentencePiece: have Python's transformers save a tokenizer.json"},
        {"\377\376", ", but a text in UTF-16: save it as UTF-8"},
        {"<", ", but a web page, or XML: it may be an error that was downloaded instead of the file"}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; ++k) {
        const size_t length = strlen(kinds[k][0]);
        if (length <= n && !memcmp(begin, kinds[k][0], length)) return kinds[k][1];
    }
    return "";
}

static ppo_status ppo__read_header(ppo_file *file, int64_t size) {
    unsigned char bytes[8];
    uint64_t length = 0;
    if (size < 8) return ppo__file_fail(file->path, "not a safetensors file: it has %d bytes", (int)size);
    if (ppo__read_bytes(file->path, file->in, bytes, 8)) return PPO_ERROR_FILE;
    for (int k = 0; k < 8; ++k) length |= (uint64_t)bytes[k] << 8 * k;
    if (length > PPO__MAX_HEADER)
        return ppo__file_fail(file->path, "not a safetensors file%s", ppo__other_kind((char *)bytes, 8));
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
PPO__RARE ppo_status ppo__file_open(const char *path, ppo_file **file) {
    ppo_file *made = NULL;
    int64_t size = 0;
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
    if (n && array->data) memcpy(to, (const char *)array->data + begin, n);
    if (!n || array->data) return PPO_OK;
    if (PPO__SEEK(file->in, file->data + entry->begin + (int64_t)begin, SEEK_SET))
        return ppo__file_failed(file->path, "read", errno);
    ppo_status status = ppo__read_bytes(file->path, file->in, to, n);
    if (!status) ppo__swap_bytes(to, n, ppo__types[array->type].size);
    return status;
}

PPO_DEF ppo_status ppo_file_read(const char *path, ppo_file **file) {
    ppo_file *made = NULL;
    if (file) *file = NULL;
    if (!PPO__GIVEN("ppo_file_read", path, file)) return PPO_ERROR_ARGUMENT;
    ppo_status status = ppo__file_open(path, &made);
    for (int i = 0; !status && i < ppo_file_count(made); ++i) {
        ppo_array *array = &made->arrays[i]->array;
        void *data = ppo__arena_array(&made->memory, array->bytes, 1);
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
enum { PPO__SAVE, PPO__LOAD, PPO__GATHER }; /* to gather: for a group, before rank 0 saves */

/* An array of an object that is saved. Floats must be finite. */
typedef struct ppo__item {
    const char *name;
    ppo_dtype type;
    int rank;
    int64_t shape[2];
    void *data;      /* NULL: the object has none */
    double min, max; /* of its numbers; PPO__ANY */
} ppo__item;

#define PPO__ANY -DBL_MAX, DBL_MAX

static double ppo__number_at(const void *data, int type, size_t i) {
    if (type == PPO_F32) return (double)((const float *)data)[i];
    if (type == PPO_U8 || type == PPO_BOOL) return ((const unsigned char *)data)[i];
    if (type == PPO_I32) return ((const int32_t *)data)[i];
    if (type == PPO_U32) return ((const uint32_t *)data)[i];
    return type == PPO_I64 ? (double)((const int64_t *)data)[i] : ((const double *)data)[i];
}

static ppo_status ppo__check_item(const ppo_file *file, int way, const ppo__item *item) {
    char what[160];
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
PPO__RARE ppo_status ppo__serialize(ppo_file *file, int way, const ppo__item *item) {
    const ppo_array *array = NULL;
    if (!item->data) return PPO_OK;
    ppo_status status = way == PPO__SAVE
                            ? ppo_file_add(file, item->name, item->type, item->shape, item->rank, item->data)
                            : ppo__file_expect(file, item->name, item->type, item->shape, item->rank, &array);
    if (!status && array) status = ppo__file_fetch(file, array, 0, array->bytes, item->data);
    return status ? status : ppo__check_item(file, way, item);
}

/* A block as large as the parameters (themselves, or a moment of Adam's), each under prefix + its name;
   rows of numbers with `row_rank` dimensions, 1 or 2. */
static ppo_status ppo__serialize_params(ppo_file *file, int way, const char *prefix, const ppo_params *params,
                                        float *block, int row_rank) {
    for (int i = 0; i < params->tensor_count; ++i) {
        const ppo_tensor *tensor = params->tensors[i];
        char name[192];
        ppo__item item = {name, PPO_F32, 2, {tensor->rows, tensor->cols}, NULL, PPO__ANY};
        snprintf(name, sizeof name, "%s%s", prefix, params->names[i]);
        item.data = block + (tensor->data - params->data);
        if (tensor->rows == 1 && row_rank == 1) item.rank = 1, item.shape[0] = tensor->cols;
        if (ppo__serialize(file, way, &item)) return ppo__failed;
    }
    return PPO_OK;
}

/* A hash of all names, texts and numbers of a file but the text that it is kept in. */
static const char *ppo__file_checksum(const ppo_file *file, char text[32]) {
    uint64_t hash = PPO__FNV1A;
    for (int i = 0; i < ppo__file_text_count(file); ++i) {
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

/* Does the checksum match, if there is one? */
static ppo_status ppo__check_checksum(const ppo_file *file) {
    const char *checksum = ppo_file_text(file, "checksum");
    char actual[32];
    if (!checksum || !strcmp(checksum, ppo__file_checksum(file, actual))) return PPO_OK;
    return ppo__file_fail(file->path, "corrupt file: its checksum is %s, not %.20s", actual, checksum);
}

/* Saves an object in a file of its own: put() adds what the file is to hold. */
typedef ppo_status (*ppo__put_fn)(ppo_file *file, const void *object);

static ppo_status ppo__save(const char *function, const char *path, ppo__put_fn put, const void *object) {
    ppo_file *file = NULL;
    if (!PPO__GIVEN(function, path, object)) return PPO_ERROR_ARGUMENT;
    ppo_status status = ppo_file_create(&file);
    if (!status) status = put(file, object);
    if (!status) status = ppo_file_write(file, path);
    ppo_file_free(file);
    return status;
}

/* -- settings by name: a row of the table, and its value as text -- */

/* A row of a table of settings: a field of the struct PPO__OF, PPO_FIELD_..., its default, bounds, words, help.
   _AS: under another name, or of a kind. */
#define PPO__SETTING_AS(name, kind, field, type, initial, min, max, choices, help)    \
    {                                                                                 \
        name, type, offsetof(PPO__OF, field), initial, min, max, choices, help, kind, \
            sizeof(((PPO__OF *)NULL)->field)                                          \
    }
#define PPO__SETTING(field, type, ...) PPO__SETTING_AS(#field, 0, field, PPO_FIELD_##type, __VA_ARGS__)
#define PPO__CHOICE(field, initial, last, choices, help) \
    PPO__SETTING(field, CHOICE, initial, 0, last, choices, help)
#define PPO__SWITCH(field, initial, help) PPO__CHOICE(field, initial, 1, "no|yes", help)
#define PPO__SCALAR(field, type, initial, min, max, help) \
    PPO__SETTING_AS(#field, 0, field, PPO_FIELD_##type, initial, min, max, NULL, help)
#define PPO__SEED(help) PPO__SETTING(seed, U64, "1", 0, 1.8446744073709552e19, NULL, help)
/* A field of a member, `in` its name and a point; empty: of the struct itself. */
#define PPO__SETTING_IN(in, field, type, ...) \
    PPO__SETTING_AS(#field, 0, in field, PPO_FIELD_##type, __VA_ARGS__)

/* Presets from a list of rows: a row of the table of presets, and a word of their names. */
#define PPO__PRESET_ROW(name, resets, values)  {name, resets, values},
#define PPO__PRESET_WORD(name, resets, values) "|" name

/* Room for a setting as text: 63 convolutions are the longest. */
enum { PPO__SETTING_SIZE = 1024 };

/* Names that settings had in earlier versions: files and programs that say them are understood. */
static const struct {
    const char *old, *now;
} ppo__renamed[] = {{"baseline", "use_critic"},
                    {"desired_kl", "lr_target_kl"},
                    {"kl_target", "penalty_target_kl"},
                    {"adaptive_kl_target", "penalty_target_kl"},
                    {"recompute", "gradient_checkpointing"},
                    {"max_new", "max_new_tokens"},
                    {"call", "tool_token"},
                    {"gated", "glu"},
                    {"head_norm", "qk_norm"}};
enum { PPO__RENAMED = sizeof ppo__renamed / sizeof *ppo__renamed };

/* In a name, '-' may stand for '_'. */
static int ppo__is_named(const char *name, const char *is) {
    while (*name && *is && (*name == *is || (*name == '-' && *is == '_'))) {
        ++name;
        ++is;
    }
    return !*name && !*is;
}

PPO__RARE const ppo_field *ppo__find_field(const ppo_settings *settings, const char *name) {
    for (int i = 0; i < settings->count; ++i) {
        int found = ppo__is_named(name, settings->field[i].name);
        for (int k = 0; k < PPO__RENAMED && !found; ++k)
            found = !strcmp(ppo__renamed[k].now, settings->field[i].name) &&
                    ppo__is_named(name, ppo__renamed[k].old);
        if (found) return &settings->field[i];
    }
    ppo__refuse("there is no setting \"%.60s\"", name);
    return NULL;
}

static void *ppo__field_at(const ppo_field *field, const void *config) {
    return (char *)config + field->offset;
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

/* The numbers of each layer in a list of layers; 0: the field is no such list. */
static int ppo__field_parts(const ppo_field *field) {
    return field->type == PPO_FIELD_WIDTHS ? 1 : field->type == PPO_FIELD_KERNELS ? 3 : 0;
}

/* The value of any field but a seed and lists. A choice is an int, or an enum, for which some compilers take a
   byte (-fshort-enums). */
static double ppo__field_number(const ppo_field *field, const void *at) {
    if (field->type == PPO_FIELD_FLOAT) return (double)*(const float *)at;
    if (field->type == PPO_FIELD_I64) return (double)*(const int64_t *)at;
    return field->size == 1 ? *(const unsigned char *)at : *(const int *)at;
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

/* Number k of a list; the first of a layer may be 0 (max pooling), kernels and strides may not. */
static ppo_status ppo__check_part(const ppo_field *field, int k, long value) {
    const int parts = ppo__field_parts(field);
    const double min = k % parts ? 1 : field->min;
    if (value >= min && value <= field->max) return PPO_OK;
    return ppo__refuse("%s[%d] is %ld, outside %.9g to %.9g", field->name, k / parts, value, min, field->max);
}

PPO__RARE ppo_status ppo__check_field(const ppo_field *field, const void *at) {
    if (field->type == PPO_FIELD_U64) return PPO_OK;
    const int *value = (const int *)at;
    const int parts = ppo__field_parts(field);
    if (!parts) return ppo__check_range(field, ppo__field_number(field, at));
    const int layers = value[parts * PPO_MAX_LAYERS];
    if (layers < 0 || layers >= PPO_MAX_LAYERS)
        return ppo__refuse("%s_layers is %d, outside 0 to %d", field->name, layers, PPO_MAX_LAYERS - 1);
    for (int k = 0; k < parts * layers; ++k)
        if (ppo__check_part(field, k, value[k])) return PPO_ERROR_ARGUMENT;
    return PPO_OK;
}

static ppo_status ppo__refuse_value(const ppo_field *field, const char *value, const char *kind) {
    return ppo__refuse("%s: \"%.60s\" is not %s", field->name, value, kind);
}

/* "64,64", or "16x3x1,32x2x2" with several numbers per layer. */
PPO__RARE ppo_status ppo__parse_layers(const ppo_field *field, const char *text, int *layers) {
    const int parts = ppo__field_parts(field);
    int count = 0, read[3 * PPO_MAX_LAYERS];
    for (const char *at = strcmp(text, "none") ? text : NULL; at; at = *at ? at + 1 : NULL) {
        const int more = count % parts < parts - 1; /* numbers of this layer */
        char *end;
        errno = 0;
        long number = strtol(at, &end, 10);
        if (*at < '0' || *at > '9' || errno || (more && !*end) ||
            (*end && (*end != (more ? 'x' : ',') || !end[1])))
            return ppo__refuse_value(field, text,
                                     parts == 1 ? "a list of widths like 64,64"
                                                : "a list of layers like 16x3x1,32x2x2");
        if (ppo__check_part(field, count, number)) return PPO_ERROR_ARGUMENT;
        if (count == parts * (PPO_MAX_LAYERS - 1))
            return ppo__refuse("%s: more than %d layers", field->name, PPO_MAX_LAYERS - 1);
        read[count++] = (int)number;
        at = end;
    }
    memcpy(layers, read, count * sizeof *read);
    layers[parts * PPO_MAX_LAYERS] = count / parts;
    return PPO_OK;
}

/* One of the words, or its number. */
static ppo_status ppo__parse_choice(const ppo_field *field, const char *text, void *at) {
    for (int k = (int)field->min; k <= (int)field->max; ++k) {
        char word[64], digits[16];
        snprintf(digits, sizeof digits, "%d", k);
        if (strcmp(text, digits) && strcmp(text, ppo__choice(field->choices, k - (int)field->min, word)))
            continue;
        if (field->size == 1) *(unsigned char *)at = (unsigned char)k;
        else *(int *)at = k;
        return PPO_OK;
    }
    return ppo__refuse("%s: \"%.60s\" is none of %s", field->name, text, field->choices);
}

static ppo_status ppo__parse_u64(const ppo_field *field, const char *text, uint64_t *whole) {
    char *stop;
    errno = 0;
    const unsigned long long number = strtoull(text, &stop, 10);
    if (*text < '0' || *text > '9' || *stop || errno)
        return ppo__refuse_value(field, text, "a whole number below 2^64");
    *whole = number;
    return PPO_OK;
}

/* From text into the field at `at`, which does not change on an error. */
PPO__RARE ppo_status ppo__parse_field(const ppo_field *field, const char *text, void *at) {
    double number = 0;
    if (ppo__field_parts(field)) return ppo__parse_layers(field, text, (int *)at);
    if (field->type == PPO_FIELD_CHOICE) return ppo__parse_choice(field, text, at);
    if (field->type == PPO_FIELD_U64) return ppo__parse_u64(field, text, (uint64_t *)at);
    if (!ppo__parse_number(text, &number)) return ppo__refuse_value(field, text, "a number");
    if (ppo__check_range(field, number)) return PPO_ERROR_ARGUMENT;
    if (field->type != PPO_FIELD_FLOAT && number != floor(number))
        return ppo__refuse_value(field, text, "a whole number");
    if (field->type == PPO_FIELD_FLOAT) *(float *)at = (float)number;
    else if (field->type == PPO_FIELD_INT) *(int *)at = (int)number;
    else *(int64_t *)at = (int64_t)number;
    return PPO_OK;
}

/* The reverse. Of choices and lists, those that are invalid have no text. */
PPO__RARE ppo_status ppo__field_text(const ppo_field *field, const void *at, char text[PPO__SETTING_SIZE]) {
    const int parts = ppo__field_parts(field);
    const int *value = (const int *)at;
    if ((parts || field->type == PPO_FIELD_CHOICE) && ppo__check_field(field, at)) return PPO_ERROR_ARGUMENT;
    strcpy(text, "none");
    if (field->type == PPO_FIELD_CHOICE) {
        ppo__choice(field->choices, (int)ppo__field_number(field, at) - (int)field->min, text);
    } else if (parts) {
        for (int k = 0, used = 0; k < parts * value[parts * PPO_MAX_LAYERS]; ++k) {
            const char *before = k == 0 ? "" : k % parts ? "x" : ",";
            used += snprintf(text + used, (size_t)(PPO__SETTING_SIZE - used), "%s%d", before, value[k]);
        }
    } else if (field->type == PPO_FIELD_U64) {
        snprintf(text, PPO__SETTING_SIZE, "%llu", (unsigned long long)*(const uint64_t *)at);
    } else {
        double x = ppo__field_number(field, at);
        if (field->type == PPO_FIELD_FLOAT) ppo__shortest_float(text, 1, (float)x);
        if (field->type != PPO_FIELD_FLOAT || (fabs(x) < 1e6 && x == floor(x))) snprintf(text, 32, "%.0f", x);
        ppo__with_point(text);
    }
    return PPO_OK;
}

/* -- settings by name: all of a struct -- */

/* The bounds of every field. */
static ppo_status ppo__settings_check(const ppo_settings *settings, const void *config) {
    if (!PPO__GIVEN("settings", config)) return PPO_ERROR_ARGUMENT;
    for (int i = 0; i < settings->count; ++i)
        if (ppo__check_field(&settings->field[i], ppo__field_at(&settings->field[i], config)))
            return PPO_ERROR_ARGUMENT;
    return PPO_OK;
}

PPO_DEF ppo_status ppo_settings_set(const ppo_settings *settings, void *config, const char *name,
                                    const char *value) {
    if (!PPO__GIVEN("ppo_settings_set", settings, config, name, value)) return PPO_ERROR_ARGUMENT;
    const ppo_field *field = ppo__find_field(settings, name);
    return field ? ppo__parse_field(field, value, ppo__field_at(field, config)) : PPO_ERROR_ARGUMENT;
}

PPO_DEF ppo_status ppo_settings_set_all(const ppo_settings *settings, void *config, const char *text) {
    if (!PPO__GIVEN("ppo_settings_set_all", settings, config, text)) return PPO_ERROR_ARGUMENT;
    for (size_t length; *(text += strspn(text, " ")); text += length) {
        char name[64], value[PPO__SETTING_SIZE];
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
    char whole[PPO__SETTING_SIZE];
    if (!PPO__GIVEN("ppo_settings_get", settings, config, name, text)) return PPO_ERROR_ARGUMENT;
    const ppo_field *field = ppo__find_field(settings, name);
    if (!field || ppo__field_text(field, ppo__field_at(field, config), whole)) return PPO_ERROR_ARGUMENT;
    if (strlen(whole) >= size)
        return ppo__refuse("%s: its text needs %lu bytes, not %lu", field->name,
                           (unsigned long)strlen(whole) + 1, (unsigned long)size);
    strcpy(text, whole);
    return PPO_OK;
}

/* The default of a field. */
static void ppo__field_default(const ppo_field *field, void *at) {
    if (field->initial) ppo__parse_field(field, field->initial, at);
}

/* The defaults of a struct of this size; what is no setting is 0. */
static void ppo__settings_default(const ppo_settings *settings, void *config, size_t size) {
    memset(config, 0, size);
    for (int i = 0; i < settings->count; ++i)
        ppo__field_default(&settings->field[i], ppo__field_at(&settings->field[i], config));
}

PPO_DEF ppo_status ppo_settings_preset(const ppo_settings *settings, void *config, const char *name) {
    if (!PPO__GIVEN("ppo_settings_preset", settings, config, name)) return PPO_ERROR_ARGUMENT;
    const ppo_preset *preset = settings->preset;
    while (preset && preset->name && strcmp(name, preset->name)) ++preset;
    if (!preset || !preset->name)
        return ppo__refuse("there is no preset \"%.60s\", only %s", name,
                           preset ? settings->preset_names : "none");
    for (const char *reset = preset->resets; *(reset += strspn(reset, " ")); reset += strcspn(reset, " ")) {
        char word[64];
        snprintf(word, sizeof word, "%.*s", (int)strcspn(reset, " "), reset);
        const ppo_field *field = ppo__find_field(settings, word);
        if (!field) return PPO_ERROR_ARGUMENT;
        ppo__field_default(field, ppo__field_at(field, config));
    }
    return ppo_settings_set_all(settings, config, preset->values);
}

/* -- settings by name: those that could have no effect -- */

/* The value of a field as text, and 1 if it is not its default. */
static ppo_status ppo__differs(const ppo_field *field, const void *config, char is[PPO__SETTING_SIZE],
                               int *differs) {
    union {
        double number;
        uint64_t whole;
        int layers[3 * PPO_MAX_LAYERS + 1];
    } usual;
    char text[PPO__SETTING_SIZE];
    memset(&usual, 0, sizeof usual);
    ppo__field_default(field, &usual);
    if (ppo__field_text(field, &usual, text) || ppo__field_text(field, ppo__field_at(field, config), is))
        return PPO_ERROR_ARGUMENT;
    *differs = strcmp(is, text) != 0;
    return PPO_OK;
}

/* An error if a setting is not its default, but has no effect. other_is: the value of an `other` named "the ...",
   which is no setting; NULL: it is unknown. */
static ppo_status ppo__check_effect(const ppo_settings *settings, const void *config, const ppo_need *need,
                                    const char *other_is) {
    const int is_setting = strncmp(need->other, "the ", 4) != 0;
    const ppo_field *field = ppo__find_field(settings, need->name);
    char is[PPO__SETTING_SIZE], other[PPO__SETTING_SIZE], word[64];
    int has = 0, differs;
    if (!is_setting && !other_is) return PPO_OK;
    if (!field || ppo__differs(field, config, is, &differs)) return PPO_ERROR_ARGUMENT;
    if (!differs || !strcmp(is, "custom")) return PPO_OK; /* custom: unknown whether it has one */
    if (is_setting) {
        if (ppo_settings_get(settings, config, need->other, other, sizeof other)) return PPO_ERROR_ARGUMENT;
        const char *words = need->words ? need->words : "!0|none";
        const int none_of = *words == '!';
        for (int k = 0; *ppo__choice(words + none_of, k, word); ++k) has |= !strcmp(other, word);
        has ^= none_of;
        other_is = other;
    }
    const int one = need->words && !strpbrk(need->words, "!|");
    return has ? PPO_OK
               : ppo__refuse("%s is %s, but has no effect: %s is %.60s%s%s", need->name, is, need->other,
                             other_is, one ? ", not " : "", one ? need->words : "");
}

/* The same for the setting of this name; NULL: for all of them. */
static ppo_status ppo__check_effects(const ppo_settings *settings, const void *config, const char *name,
                                     const char *other_is) {
    const ppo_field *field = name ? ppo__find_field(settings, name) : NULL;
    if (name && !field) return PPO_ERROR_ARGUMENT;
    for (const ppo_need *need = settings->need; need && need->name; ++need)
        if (!field || !strcmp(field->name, need->name))
            if (ppo__check_effect(settings, config, need, other_is)) return PPO_ERROR_ARGUMENT;
    return PPO_OK;
}

/* -- settings by name: in files -- */

/* All settings as texts of a file. */
static ppo_status ppo__put_settings(ppo_file *file, const ppo_settings *settings, const void *config) {
    for (int i = 0; i < settings->count; ++i) {
        const char *name = settings->field[i].name;
        char text[PPO__SETTING_SIZE];
        if (ppo_settings_get(settings, config, name, text, sizeof text) ||
            ppo_file_set_text(file, name, text))
            return ppo__failed;
    }
    return PPO_OK;
}

/* The text of a setting in a file, there with a prefix; an older file may have it under another name. */
static const char *ppo__setting_in(const ppo_file *file, const char *prefix, const char *name) {
    char key[96];
    snprintf(key, sizeof key, "%s%s", prefix, name);
    const char *text = ppo_file_text(file, key);
    for (int k = 0; k < PPO__RENAMED && !text; ++k) {
        if (strcmp(ppo__renamed[k].now, name)) continue;
        snprintf(key, sizeof key, "%s%s", prefix, ppo__renamed[k].old);
        text = ppo_file_text(file, key);
    }
    return text;
}

/* Those that the file has. */
PPO__RARE ppo_status ppo__get_settings(const ppo_file *file, const ppo_settings *settings, void *config) {
    for (int i = 0; i < settings->count; ++i) {
        const char *name = settings->field[i].name, *text = ppo__setting_in(file, "", name);
        if (text && ppo_settings_set(settings, config, name, text)) return ppo__file_blame(file);
    }
    return PPO_OK;
}

PPO_DEF ppo_status ppo_settings_load(const ppo_settings *settings, const char *path, void *config) {
    ppo_file *file = NULL;
    if (!PPO__GIVEN("ppo_settings_load", settings, path, config)) return PPO_ERROR_ARGUMENT;
    ppo_status status = ppo__file_open(path, &file);
    if (!status) status = ppo__get_settings(file, settings, config);
    ppo_file_free(file);
    return status;
}

/* An error if a setting differs from what it was; `in` says where that is kept. */
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
PPO__COLD_END

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
    int count, cols;
    float inv_temperature;
} ppo__heads;

static ppo_status ppo__check_heads(const char *function, int given, const int *sizes, int count,
                                   float temperature, int n, ppo__heads *heads) {
    int64_t cols = 0;
    int h = 0;
    memset(heads, 0, sizeof *heads);
    if (!given) return PPO_ERROR_ARGUMENT;
    while (h < count && sizes[h] > 0) cols += sizes[h++];
    if (h < count) cols = sizes[h];
    if (n <= 0 || cols <= 0 || cols > INT_MAX)
        return ppo__refuse("%s: %d rows of %lld logits: both must be 1 to 2147483647", function, n,
                           (long long)cols);
    if (!(temperature > 0) || !ppo__finite(temperature))
        return ppo__refuse("%s: temperature is %g, must be finite, above 0", function, (double)temperature);
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

/* Rows at a time where each is read twice: as many as a cache keeps, but at least 1. */
static int ppo__cached_rows(int cols) {
    enum { PPO__FLOATS = 1 << 15 };
    return ppo__max_int(1, ppo__min_int(PPO__FLOATS / cols, PPO__SOFTMAX_ROWS));
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
    const int given = PPO__GIVEN(function, logits, sizes, token, logp);
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
    const int given = PPO__GIVEN(function, logits, sizes, token, grad_logits);
    ppo__heads heads;
    ppo_status status = ppo__check_heads(function, given, sizes, count, temperature, n, &heads);
    if (!status) status = ppo__check_tokens(function, &heads, token, n);
    for (int first = 0, rows; first < n && !status; first += rows) {
        const float *dlogp = grad_logp ? grad_logp + first : zeros;
        const float *dentropy = grad_entropy ? grad_entropy + first : zeros;
        size_t at = ppo__at(first, heads.cols);
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
    for (int j = 1; j < vocab && logits; ++j)
        if (logits[j] > logits[best]) best = j;
    return best;
}

/* Inverts the cumulative distribution at one uniform number. The processor cannot predict a comparison with
   it, so the first weights, which are kept, are compared without a branch. */
PPO_DEF int ppo_categorical_sample(const float *logits, int vocab, float temperature, ppo_rng *rng) {
    enum { PPO__KEPT = 32 };
    if (!logits || !rng) return 0;
    float most = logits[0], inv = 1 / temperature, total = 0, sum = 0, kept[PPO__KEPT];
    int choice = 0;
    for (int j = 1; j < vocab; ++j) most = logits[j] > most ? logits[j] : most;
    for (int j = 0; j < vocab; ++j) {
        const float weight = expf((logits[j] - most) * inv);
        if (j < PPO__KEPT) kept[j] = weight;
        total += weight;
    }
    float threshold = ppo_rng_uniform(rng) * total;
    for (int j = 0; j < vocab && (j < PPO__KEPT || choice == j); ++j) {
        sum += j < PPO__KEPT ? kept[j] : expf((logits[j] - most) * inv);
        choice += !(threshold < sum);
    }
    return choice < vocab ? choice : ppo_categorical_mode(logits, vocab); /* rounding put it at the total */
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
                    float p_logp = p_logits[k] - p.max[i] - p.log_sum[i], probability = expf(p_logp);
                    float q_logp = q_logits[k] - q.max[i] - q.log_sum[i];
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
    ppo__heads all;
    const int given = PPO__GIVEN(function, p_logits, q_logits, sizes, kl);
    ppo_status status = ppo__check_heads(function, given, sizes, heads, 1, n, &all);
    return status ? status : ppo__heads_kl(function, &all, p_logits, q_logits, n, kl, NULL, NULL);
}

PPO_DEF ppo_status ppo_categorical_kl(const float *p_logits, const float *q_logits, int n, int vocab,
                                      float *kl) {
    const char *const function = "ppo_categorical_kl";
    ppo__heads one;
    const int given = PPO__GIVEN(function, p_logits, q_logits, kl);
    ppo_status status = ppo__check_heads(function, given, &vocab, 1, 1, n, &one);
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
    if (!given) return PPO_ERROR_ARGUMENT;
    if (n > 0 && dim > 0) return PPO_OK;
    return ppo__refuse("%s: %d rows of %d dimensions: both must be above 0", function, n, dim);
}

PPO_DEF void ppo_squash(const float *u, size_t count, float low, float high, float *action) {
    for (size_t i = 0; u && action && i < count; ++i) /* clamped because of rounding */
        action[i] = ppo__clamp(low + 0.5f * (high - low) * (tanhf(u[i]) + 1), low, high);
}

/* log(1 - tanh(u)^2) = 2 (log 2 - |u| - log(1 + exp(-2 |u|))), which overflows for no u. */
PPO_DEF void ppo_squash_log_det(const float *u, int n, int dim, float low, float high, float *log_det) {
    float log_half_width = logf(0.5f * (high - low));
    for (int i = 0; u && log_det && i < n; ++i) {
        float sum = 0;
        for (int j = 0; j < dim; ++j) {
            float x = fabsf(u[ppo__at(i, dim) + j]);
            sum += log_half_width + 2 * (0.69314718f - x - log1pf(expf(-2 * x)));
        }
        log_det[i] = sum;
    }
}

/* The mean of log(1 - tanh(u)^2) = 2 log 2 - 2 log(2 cosh(u)) over u = mean + std z. tanh(u) is a sum of weight
   erf(u / (width sqrt(2))) within 1e-5, as a logistic variable is nearly a mixture of normal ones (Monahan and Stefanski
   1992). So log(2 cosh(u)) is nearly the mean of |u + width z'|, and that is known: |u + width z'| is a folded normal. */
PPO_DEF float ppo_squash_mean_log_det(float mean, float log_std, float low, float high, float *d_mean,
                                      float *d_log_std) {
    static const float width[4] = {0.4886942f, 0.7155342f, 1.0523320f, 1.5572842f};
    static const float weight[4] = {0.1064984f, 0.4583464f, 0.3741943f, 0.0609609f};
    const float var = expf(2 * log_std);
    float log_cosh = 0, slope = 0, curve = 0; /* and d log_cosh / d mean, d^2 log_cosh / d mean^2 */
    for (int k = 0; k < 4; ++k) {
        const float v = var + width[k] * width[k], x = mean / sqrtf(2 * v);
        const float side = weight[k] * erff(x), density = weight[k] * expf(-x * x) * sqrtf(0.63661977f / v);
        log_cosh += mean * side + v * density;
        slope += side;
        curve += density;
    }
    if (d_mean) *d_mean = -2 * slope;
    if (d_log_std) *d_log_std = -2 * var * curve;
    return logf(0.5f * (high - low)) + 2 * (0.69314718f - log_cosh);
}

/* logp = sum of -z^2/2 - log_std - log(2 pi)/2, z = (action - mean) / std; entropy = sum of log_std +
   log(2 pi e)/2. ld_std, from row to row of log_std, is 0 if all samples share one row, else dim. box: the numbers are
   squashed into it; NULL: they are not. */
static void ppo__gaussian_rows(const float *mean, const float *log_std, int ld_std, const float *action,
                               int n, int dim, const float box[2], float *logp, float *entropy) {
    const float half_log_2pi = 0.91893853320467f;
    for (int i = 0; i < n; ++i, log_std += ld_std) {
        const float *m = mean + ppo__at(i, dim), *a = action + ppo__at(i, dim);
        float sum = 0, log_scale = 0;
        for (int j = 0; j < dim; ++j) {
            float z = (a[j] - m[j]) * expf(-log_std[j]);
            sum += z * z;
            log_scale += log_std[j] + half_log_2pi;
        }
        logp[i] = -0.5f * sum - log_scale;
        if (entropy) entropy[i] = log_scale + 0.5f * (float)dim;
        if (!box) continue;
        float log_det = 0;
        ppo_squash_log_det(a, 1, dim, box[0], box[1], &log_det);
        logp[i] -= log_det;
        for (int j = 0; j < dim && entropy; ++j)
            entropy[i] += ppo_squash_mean_log_det(m[j], log_std[j], box[0], box[1], NULL, NULL);
    }
}

PPO_DEF ppo_status ppo_gaussian_logp(const float *mean, const float *log_std, const float *action, int n,
                                     int dim, float *logp, float *entropy) {
    const int given = PPO__GIVEN("ppo_gaussian_logp", mean, log_std, action, logp);
    ppo_status status = ppo__check_gaussian("ppo_gaussian_logp", given, n, dim);
    if (status) return status;
    ppo__gaussian_rows(mean, log_std, 0, action, n, dim, NULL, logp, entropy);
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
            float inv_std = expf(-log_std[at_std]), z = (action[at] - mean[at]) * inv_std;
            if (grad_mean) grad_mean[at] += dlogp * z * inv_std;
            if (grad_log_std) grad_log_std[at_std] += dlogp * (z * z - 1) + dentropy;
        }
    }
}

/* The same of the entropy of squashed numbers, for any box: its width is a constant. The terms of a shared log_std are
   alike: as floats their sum would be off by a percent after 100,000 rows. */
static void ppo__squash_entropy_backward(const float *mean, const float *log_std, int ld_std,
                                         const float *grad_entropy, int n, int dim, float *grad_mean,
                                         float *grad_log_std) {
    for (int j = 0; j < dim; ++j) {
        double sum = 0;
        for (int i = 0; i < n; ++i) {
            const size_t at = ppo__at(i, dim) + j, at_std = ppo__at(i, ld_std) + j;
            float dmean, dlog_std;
            if (grad_entropy[i] == 0) continue;
            ppo_squash_mean_log_det(mean[at], log_std[at_std], -1, 1, &dmean, &dlog_std);
            if (grad_mean) grad_mean[at] += grad_entropy[i] * dmean;
            if (grad_log_std && ld_std) grad_log_std[at_std] += grad_entropy[i] * (1 + dlog_std);
            sum += (double)grad_entropy[i] * (1 + dlog_std);
        }
        if (grad_log_std && !ld_std) grad_log_std[j] += (float)sum;
    }
}

PPO_DEF ppo_status ppo_gaussian_logp_backward(const float *mean, const float *log_std, const float *action,
                                              const float *grad_logp, const float *grad_entropy, int n,
                                              int dim, float *grad_mean, float *grad_log_std) {
    const int given = PPO__GIVEN("ppo_gaussian_logp_backward", mean, log_std, action);
    ppo_status status = ppo__check_gaussian("ppo_gaussian_logp_backward", given, n, dim);
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
    for (int j = 0; mean && log_std && rng && action && j < dim; ++j)
        action[j] = mean[j] + expf(log_std[j]) * ppo_rng_normal(rng);
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
    const int given = PPO__GIVEN(function, p_mean, p_log_std, q_mean, q_log_std, kl);
    if (ppo__check_gaussian(function, given, n, dim)) return PPO_ERROR_ARGUMENT;
    return ppo__gaussian_kl_rows(function, p_mean, p_log_std, 0, q_mean, q_log_std, 0, n, dim, kl);
}

/* -- operations of the tape. Results 0 and 1 are logp and entropy, both (n, 1); kept: the softmax of all
      heads of 64 rows, then of the next 64, and so on -- */

typedef struct ppo__categorical_args {
    ppo__heads heads;
    const int *action;   /* (n, heads) */
    const float *logits; /* of the other distribution of a KL */
} ppo__categorical_args;

/* Multiply-adds that take as long as one row. */
static double ppo__categorical_work(const ppo_node *node) { return 4000 + 20.0 * node->in[0]->cols; }

static void ppo__categorical_rows(void *user, int range, int begin, int end) {
    const ppo_node *node = (const ppo_node *)user;
    const ppo__categorical_args *args = (const ppo__categorical_args *)node->args;
    const ppo__heads *heads = &args->heads;
    for (int i = begin; i < end; i += PPO__SOFTMAX_ROWS)
        ppo__heads_forward(
            heads, ppo__min_int(end - i, PPO__SOFTMAX_ROWS), node->in[0]->data + ppo__at(i, heads->cols),
            args->action + ppo__at(i, heads->count), node->out[0]->data + i, node->out[1]->data + i,
            (ppo__softmax *)node->kept + ppo__at(i / PPO__SOFTMAX_ROWS, heads->count));
}

static ppo_status ppo__categorical_forward(ppo_node *node) {
    const ppo__categorical_args *args = (const ppo__categorical_args *)node->args;
    const int rows = node->in[0]->rows, blocks = ppo__divide_up(rows, PPO__SOFTMAX_ROWS);
    if (ppo__check_tokens("categorical", &args->heads, args->action, rows)) return PPO_ERROR_ARGUMENT;
    node->kept = ppo__tape_take(node->tape, ppo__at(blocks, args->heads.count), sizeof(ppo__softmax));
    if (!node->kept) return PPO_ERROR_MEMORY;
    ppo__parallel_for(rows, PPO__SOFTMAX_ROWS, ppo__categorical_work(node), ppo__categorical_rows, node);
    return PPO_OK;
}

static void ppo__categorical_rows_backward(void *user, int range, int begin, int end) {
    const ppo_node *node = (const ppo_node *)user;
    const ppo__categorical_args *args = (const ppo__categorical_args *)node->args;
    const ppo__heads *heads = &args->heads;
    for (int i = begin; i < end; i += PPO__SOFTMAX_ROWS) {
        const int rows = ppo__min_int(end - i, PPO__SOFTMAX_ROWS);
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
    int squash, entropy; /* 1: into the box; the entropy is wanted */
    float box[2];
} ppo__gaussian_args;

/* From row to row of a log_std that is (1, dim) or (n, dim). */
static int ppo__ld_std(const ppo_tensor *log_std) { return log_std->rows == 1 ? 0 : log_std->cols; }

static ppo_status ppo__gaussian_forward(ppo_node *node) {
    const ppo__gaussian_args *args = (const ppo__gaussian_args *)node->args;
    const ppo_tensor *mean = node->in[0], *log_std = node->in[1];
    ppo__gaussian_rows(mean->data, log_std->data, ppo__ld_std(log_std), args->action, mean->rows, mean->cols,
                       args->squash ? args->box : NULL, node->out[0]->data,
                       args->entropy ? node->out[1]->data : NULL);
    return PPO_OK;
}

static void ppo__gaussian_backward(ppo_node *node) {
    const ppo__gaussian_args *args = (const ppo__gaussian_args *)node->args;
    const ppo_tensor *mean = node->in[0], *log_std = node->in[1];
    const float *dentropy = node->out[1]->grad;
    ppo__gaussian_rows_backward(mean->data, log_std->data, ppo__ld_std(log_std), args->action,
                                node->out[0]->grad, args->squash ? NULL : dentropy, mean->rows, mean->cols,
                                mean->grad, log_std->grad);
    if (args->squash)
        ppo__squash_entropy_backward(mean->data, log_std->data, ppo__ld_std(log_std), dentropy, mean->rows,
                                     mean->cols, mean->grad, log_std->grad);
}

static ppo_node *ppo__gaussian_apply(ppo_tape *tape, const ppo_op *op, int given, ppo_tensor *mean,
                                     ppo_tensor *log_std, const ppo__gaussian_args *args) {
    ppo_tensor *in[2] = {mean, log_std};
    if (!ppo__operands(tape, op->name, mean, given ? log_std : NULL)) return NULL;
    if ((log_std->rows != 1 && log_std->rows != mean->rows) || log_std->cols != mean->cols)
        ppo__shape_error(tape, op->name, mean, log_std); /* which apply sees */
    return ppo_tape_apply(tape, op, in, 2, mean->rows, 1, args, sizeof *args);
}

/* box: low and high, if numbers are squashed between them; NULL: they are not */
static void ppo__tape_gaussian(ppo_tape *tape, ppo_tensor *mean, ppo_tensor *log_std, const float *action,
                               const float *box, ppo_tensor **logp, ppo_tensor **entropy) {
    static const ppo_op op = {"gaussian", 2, ppo__gaussian_forward, ppo__gaussian_backward};
    ppo__gaussian_args args = {action, NULL, NULL, box != NULL, entropy != NULL, {0, 0}};
    if (box) memcpy(args.box, box, sizeof args.box);
    ppo__two_results(ppo__gaussian_apply(tape, &op, action != NULL, mean, log_std, &args), logp, entropy);
}

PPO_DEF void ppo_tape_gaussian(ppo_tape *tape, ppo_tensor *mean, ppo_tensor *log_std, const float *action,
                               ppo_tensor **logp, ppo_tensor **entropy) {
    ppo__tape_gaussian(tape, mean, log_std, action, NULL, logp, entropy);
}

static ppo_status ppo__gaussian_kl_forward(ppo_node *node) {
    const ppo__gaussian_args *args = (const ppo__gaussian_args *)node->args;
    const ppo_tensor *mean = node->in[0], *log_std = node->in[1];
    return ppo__gaussian_kl_rows("gaussian_kl", args->old_mean, args->old_log_std, mean->cols, mean->data,
                                 log_std->data, ppo__ld_std(log_std), mean->rows, mean->cols,
                                 node->out[0]->data);
}

/* d KL(old || new) / d mean = (mean - old mean) / std^2;
   d KL(old || new) / d log_std = 1 - (old std^2 + (mean - old mean)^2) / std^2. */
static void ppo__gaussian_kl_backward(ppo_node *node) {
    const ppo__gaussian_args *args = (const ppo__gaussian_args *)node->args;
    const ppo_tensor *mean = node->in[0], *log_std = node->in[1];
    for (int i = 0; i < mean->rows; ++i) {
        for (int j = 0; j < mean->cols; ++j) {
            size_t at = ppo__at(i, mean->cols) + j, at_std = ppo__at(i, ppo__ld_std(log_std)) + j;
            float dy = node->out[0]->grad[i], inv_std = expf(-log_std->data[at_std]);
            float shift = (mean->data[at] - args->old_mean[at]) * inv_std;
            float ratio = expf(args->old_log_std[at] - log_std->data[at_std]);
            if (mean->grad) mean->grad[at] += dy * shift * inv_std;
            if (log_std->grad) log_std->grad[at_std] += dy * (1 - ratio * ratio - shift * shift);
        }
    }
}

PPO_DEF ppo_tensor *ppo_tape_gaussian_kl(ppo_tape *tape, const float *old_mean, const float *old_log_std,
                                         ppo_tensor *mean, ppo_tensor *log_std) {
    static const ppo_op op = {"gaussian_kl", 1, ppo__gaussian_kl_forward, ppo__gaussian_kl_backward};
    const ppo__gaussian_args args = {NULL, old_mean, old_log_std, 0, 0, {0, 0}};
    return ppo_tape_result(ppo__gaussian_apply(tape, &op, old_mean && old_log_std, mean, log_std, &args));
}

static ppo_status ppo__mask_forward(ppo_node *node) {
    const unsigned char *mask = *(const unsigned char *const *)node->args;
    for (size_t i = 0; i < ppo__size(node->in[0]); ++i)
        node->out[0]->data[i] = mask[i] ? node->in[0]->data[i] : -INFINITY;
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
    if (!given) return PPO_ERROR_ARGUMENT;
    if (steps <= 0 || envs <= 0)
        return ppo__refuse("%s: %d steps of %d environments: both must be above 0", function, steps, envs);
    if (gamma >= 0 && gamma <= 1 && lambda >= 0 && lambda <= 1) return PPO_OK;
    return ppo__refuse("%s: gamma is %g, lambda is %g: both must be 0 to 1", function, (double)gamma,
                       (double)lambda);
}

/* A_t = delta_t + gamma lambda (1 - done_t) A_{t+1}  (Schulman 2016, eq. 16); A is 0 beyond the last row. */
PPO_DEF ppo_status ppo_gae(const float *reward, const float *value, const float *next_value,
                           const unsigned char *terminated, const unsigned char *truncated, int steps,
                           int envs, float gamma, float lambda, float *advantage, float *value_target) {
    int given = PPO__GIVEN("ppo_gae", reward, value, next_value, advantage);
    if (ppo__check_gae("ppo_gae", given, steps, envs, gamma, lambda)) return PPO_ERROR_ARGUMENT;
    for (int t = steps - 1; t >= 0; --t) {
        for (int e = 0; e < envs; ++e) {
            size_t at = ppo__at(t, envs) + e;
            int ends = terminated && terminated[at], done = ends || (truncated && truncated[at]);
            float delta = ppo__gae_delta(reward[at], value[at], next_value[at], ends, gamma);
            float rest = done || t == steps - 1 ? 0 : gamma * lambda * advantage[at + envs];
            float a = delta + rest, v = value[at]; /* read before advantage is written: it may be value */
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
    if (!given) return 0;
    for (int i = 0; i < n; ++i) count += !mask || mask[i];
    if (!count)
        ppo__refuse(n > 0 ? "%s: all %d samples are masked" : "%s: n is %d, must be above 0", function, n);
    return count;
}

PPO_DEF ppo_status ppo_whiten(float *x, const unsigned char *mask, int n, int shift_mean) {
    double sum = 0, squares = 0;
    int count = ppo__unmasked("ppo_whiten", PPO__GIVEN("ppo_whiten", x), mask, n);
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
    double scale = squares > 0 ? 1 / sqrt(squares / (count - 1)) : 1, shift = shift_mean ? 0 : mean;
    for (int i = 0; i < n; ++i)
        if (!mask || mask[i]) x[i] = (float)((x[i] - mean) * scale + shift);
    return PPO_OK;
}

/* Of (rows, columns) numbers, column c of which has only its first recorded[c] rows; NULL: all. */
static float ppo__explained_variance(const float *value, const float *target, int n, const int *recorded,
                                     int columns) {
    double target_sum = 0, error_sum = 0, target_squares = 0, error_squares = 0;
    int count = 0;
    for (int pass = 0; pass < 2; ++pass) {
        for (int i = 0; i < n; ++i) {
            if (recorded && i / columns >= recorded[i % columns]) continue;
            double t = target[i], e = (double)target[i] - value[i];
            if (!pass) {
                target_sum += t;
                error_sum += e;
                ++count;
            } else {
                target_squares += (t - target_sum / count) * (t - target_sum / count);
                error_squares += (e - error_sum / count) * (e - error_sum / count);
            }
        }
    }
    return target_squares > 0 ? (float)(1 - error_squares / target_squares) : NAN;
}

PPO_DEF float ppo_explained_variance(const float *value, const float *target, int n) {
    return value && target ? ppo__explained_variance(value, target, n, NULL, 1) : NAN;
}

/* --------------------------------------------------------------------------------------------------------
   @@ 9 Losses. The formula of each loss is its term: what one sample adds to the mean, and the derivative of
   that. The clip is in ppo__policy_term(), the clipped value in ppo__value_term(), the preferences of reward
   models and DPO in ppo__preference_term(). The functions on arrays check and add up. The operations of the
   tape call them and keep the gradient, which backward scales. ppo_cuda.cuh uses the same terms.
   -------------------------------------------------------------------------------------------------------- */

/* k3 = r - 1 - log r = e^l - 1 - l for a log-ratio l. Near 0 by its series, as the difference would lose
   digits there. Relative error: 2e-7 for |l| < 1/4, 6e-7 beyond. */
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
   With dual_clip c > 1, where A < 0 the gain of PPO_CLIP is at least c A (Ye 2020). On a flat side of PPO_CLIP a
   sample has derivative 0. */
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
    if (o->objective == PPO_CISPO) {
        *dlogp = -clipped * advantage;
        return *dlogp * logp;
    }
    if (o->objective != PPO_CLIP) return NAN; /* one that has no term here */
    /* In range both gains are equal, which a comparison with excess precision (x87) may not see. */
    if (clipped != ratio && clipped * advantage < gain) {
        gain = clipped * advantage;
        *dlogp = 0;
    }
    if (o->dual_clip > 1 && advantage < 0 && gain < o->dual_clip * advantage) {
        gain = o->dual_clip * advantage;
        *dlogp = 0;
    }
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
    if ((unsigned)o->objective >= PPO__OBJECTIVES)
        return ppo__refuse("%s: there is no objective %d", function, (int)o->objective);
    if (o->clip_low >= 0 && o->clip_high >= 0 && o->kl_coef >= 0) return PPO_OK;
    return ppo__refuse("%s: clip_low %g, clip_high %g, kl_coef %g must be 0 or more", function,
                       (double)o->clip_low, (double)o->clip_high, (double)o->kl_coef);
}

PPO_DEF ppo_status ppo_policy_loss(const float *logp, const float *old_logp, const float *advantage,
                                   const unsigned char *mask, int n, const ppo_policy_objective *objective,
                                   ppo_policy_stats *stats, float *grad_logp) {
    int given = PPO__GIVEN("ppo_policy_loss", logp, old_logp, advantage, objective);
    int count = ppo__unmasked("ppo_policy_loss", given, mask, n);
    if (!count || ppo__check_objective("ppo_policy_loss", objective)) return PPO_ERROR_ARGUMENT;
    double loss = 0, k1 = 0, k3 = 0, ratios = 0;
    int clipped = 0;
    float ratio_min = INFINITY, ratio_max = 0, inv = 1 / (float)count;
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
    if (clipped != value && other > term) {
        term = other;
        *dvalue = 0; /* the clipped value is constant */
    }
    return ppo__finite(old_value) ? term : old_value; /* which the caller reports */
}

static ppo_status ppo__check_value_range(const char *function, float clip_range, float delta) {
    if (clip_range == clip_range && delta > 0) return PPO_OK;
    return ppo__refuse("%s: clip_range is %g (must not be NaN), delta is %g (must be above 0)", function,
                       (double)clip_range, (double)delta);
}

PPO_DEF ppo_status ppo_huber_value_loss(const float *value, const float *old_value, const float *target,
                                        const unsigned char *mask, int n, float clip_range, float delta,
                                        float *loss, float *grad_value) {
    const int given = PPO__GIVEN("ppo_value_loss", value, target) &&
                      (!(clip_range > 0) || PPO__GIVEN("ppo_value_loss", old_value));
    int count = ppo__unmasked("ppo_value_loss", given, mask, n);
    if (!count || ppo__check_value_range("ppo_value_loss", clip_range, delta)) return PPO_ERROR_ARGUMENT;
    double sum = 0;
    for (int i = 0; i < n; ++i) {
        if (grad_value) grad_value[i] = 0;
        if (mask && !mask[i]) continue;
        float dvalue, old = clip_range > 0 ? old_value[i] : 0;
        float term = ppo__value_term(value[i], old, target[i], clip_range, delta, &dvalue);
        if (!ppo__finite(term))
            return ppo_fail(PPO_ERROR_NUMERIC, "ppo_value_loss: sample %d gives %g (value %g, target %g)", i,
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
    return ppo_huber_value_loss(value, old_value, target, mask, n, clip_range, INFINITY, loss, grad_value);
}
PPO__COLD

/* k1 = -l, k2 = l^2 / 2, k3 = e^l - 1 - l, for l = ref_logp - logp (Schulman 2020) */
PPO__BOTH static float ppo__kl_of(int estimator, float l) {
    return estimator == PPO_K1 ? -l : estimator == PPO_K2 ? 0.5f * l * l : ppo__k3(l);
}

static ppo_status ppo__check_kl(const char *function, int given, int n, int estimator) {
    if (!given) return PPO_ERROR_ARGUMENT;
    if (n <= 0) return ppo__refuse("%s: n is %d, must be above 0", function, n);
    if (estimator >= PPO_K1 && estimator <= PPO_K3) return PPO_OK;
    return ppo__refuse("%s: there is no estimator %d", function, estimator);
}

PPO_DEF ppo_status ppo_kl_estimate(const float *logp, const float *ref_logp, int n,
                                   ppo_kl_estimator estimator, float *kl) {
    int given = PPO__GIVEN("ppo_kl_estimate", logp, ref_logp, kl);
    if (ppo__check_kl("ppo_kl_estimate", given, n, estimator)) return PPO_ERROR_ARGUMENT;
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
    if (!given) return PPO_ERROR_ARGUMENT;
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
    int given = PPO__GIVEN("ppo_dpo_loss", chosen_logp, rejected_logp, ref_chosen_logp, ref_rejected_logp);
    return ppo__pair_loss("ppo_dpo_loss", given, chosen_logp, rejected_logp, ref_chosen_logp,
                          ref_rejected_logp, n, beta, label_smoothing, loss, grad_chosen, grad_rejected);
}

PPO_DEF ppo_status ppo_pairwise_loss(const float *chosen_score, const float *rejected_score, int n,
                                     float *loss, float *grad_chosen, float *grad_rejected) {
    int given = PPO__GIVEN("ppo_pairwise_loss", chosen_score, rejected_score);
    return ppo__pair_loss("ppo_pairwise_loss", given, chosen_score, rejected_score, NULL, NULL, n, 1, 0, loss,
                          grad_chosen, grad_rejected);
}

/* -- operations on the tape. kept: the gradients of the loss, one input after another, or NULL -- */

static ppo_status ppo__loss_keep(ppo_node *node) {
    size_t size = 0;
    for (int k = 0; node->in[k]; ++k) size += ppo__size(node->in[k]);
    if (node->out[0]->grad) node->kept = ppo_tape_alloc(node->tape, size); /* a gradient is wanted */
    return node->out[0]->grad && !node->kept ? PPO_ERROR_MEMORY : PPO_OK;
}

static void ppo__loss_backward(ppo_node *node) {
    const float *derivative = (const float *)node->kept;
    for (int k = 0; node->in[k]; derivative += ppo__size(node->in[k++]))
        for (size_t i = 0; i < ppo__size(node->in[k]) && node->in[k]->grad; ++i)
            node->in[k]->grad[i] += node->out[0]->grad[0] * derivative[i];
}

typedef struct ppo__policy_args {
    const float *old_logp, *advantage;
    const unsigned char *mask;
    ppo_policy_objective objective;
    ppo_policy_stats *stats;
} ppo__policy_args;

static ppo_status ppo__policy_loss_forward(ppo_node *node) {
    const ppo__policy_args *args = (const ppo__policy_args *)node->args;
    const ppo_tensor *logp = node->in[0];
    ppo_policy_stats stats;
    ppo_status status = ppo__loss_keep(node);
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
    const float *old_value, *target;
    const unsigned char *mask;
    float clip_range, delta;
} ppo__value_args;

static ppo_status ppo__value_loss_forward(ppo_node *node) {
    const ppo__value_args *args = (const ppo__value_args *)node->args;
    const ppo_tensor *value = node->in[0];
    if (ppo__loss_keep(node)) return PPO_ERROR_MEMORY;
    return ppo_huber_value_loss(value->data, args->old_value, args->target, args->mask, (int)ppo__size(value),
                                args->clip_range, args->delta, node->out[0]->data, (float *)node->kept);
}

PPO_DEF ppo_tensor *ppo_tape_value_loss(ppo_tape *tape, ppo_tensor *value, const float *old_value,
                                        const float *target, const unsigned char *mask, float clip_range,
                                        float delta) {
    static const ppo_op op = {"value_loss", 1, ppo__value_loss_forward, ppo__loss_backward};
    if (!ppo__operands(tape, op.name, value, value)) return NULL;
    ppo__value_args args = {old_value, target, mask, clip_range, delta};
    return ppo_tape_result(ppo_tape_apply(tape, &op, &value, 1, 1, 1, &args, sizeof args));
}

/* in[0] is (n, 1) of the chosen, in[1] of the rejected. */
typedef struct ppo__pair_args {
    const char *name;
    const float *ref_chosen_logp, *ref_rejected_logp; /* NULL: the pairwise loss */
    float beta, label_smoothing;
} ppo__pair_args;

static ppo_status ppo__pair_loss_forward(ppo_node *node) {
    const ppo__pair_args *args = (const ppo__pair_args *)node->args;
    if (ppo__loss_keep(node)) return PPO_ERROR_MEMORY;
    float *grad = (float *)node->kept;
    int n = node->in[0]->rows;
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
    double bias1 = 1 - pow((double)adam->beta1, (double)step);
    double bias2 = 1 - pow((double)adam->beta2, (double)step);
    ppo__adam_factors f = {(float)((double)adam->lr / bias1), (float)(1 / sqrt(bias2)),
                           adam->lr * adam->weight_decay};
    return f;
}

/* m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;
   p -= lr weight_decay p + lr m' / (sqrt(v') + eps), with m' = m / (1 - b1^step), v' = v / (1 - b2^step). */
static void ppo__adam_step(float *param, const float *grad, float scale, float clip, float *m, float *v,
                           size_t n, const ppo_adam *adam, int64_t step) {
    const ppo__adam_factors f = ppo__adam_factors_of(adam, step);
    ppo__k()->adam(param, grad, scale, clip, m, v, n, adam->beta1, adam->beta2, adam->eps, f.step_size,
                   f.inv_sqrt_bias2, f.decay);
}

PPO_DEF void ppo_adam_step(float *param, const float *grad, float *m, float *v, size_t n,
                           const ppo_adam *adam, int64_t step) {
    ppo__adam_step(param, grad, 1, 1, m, v, n, adam, step);
}

/* What clipping multiplies gradients of this norm by. */
PPO__BOTH static float ppo__clip_factor(float norm, float max_norm) {
    float factor = max_norm / (norm + 1e-6f);
    return max_norm > 0 && factor < 1 && ppo__finite(norm) ? factor : 1;
}

PPO_DEF float ppo_clip_grad_norm(float *grad, size_t n, float max_norm) {
    float norm = grad ? (float)sqrt(ppo__k()->sum_squares(1, grad, n)) : 0;
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

PPO_DEF void ppo_params_reset_optimizer(ppo_params *params) {
    ppo__params_zero(params, 1);
    if (params) params->step = 0;
}

typedef struct ppo__adam_job {
    ppo_params *params;
    float scale, clip;
    ppo_adam adam;
    size_t begin, end;
} ppo__adam_job;

static void ppo__adam_range(void *user, int range, int begin, int end) {
    const ppo__adam_job *job = (const ppo__adam_job *)user;
    ppo_params *params = job->params;
    size_t at = job->begin + ppo__at(begin, PPO__FLOAT_GRAIN);
    size_t n = job->begin + ppo__grain_end(job->end - job->begin, end) - at;
    ppo__adam_step(params->data + at, params->grad + at, job->scale, job->clip, params->m + at,
                   params->v + at, n, &job->adam, params->step);
}

static float ppo__decay_of(const ppo_params *params, int i, const ppo_adam *adam) {
    return params->decay_matrices && params->tensors[i]->rows == 1 ? 0 : adam->weight_decay;
}

/* The tensors from i on that share a learning rate and a decay: settings and numbers. Returns the next tensor. */
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
    float *blocks = mirror ? mirror->data : params->data, *to = back ? blocks : copy;
    const float *from = back ? copy : blocks;
    const size_t size = ppo__blocks_size(params, 3);
    if (mirror) mirror->device->copy(mirror->device, to, from, size);
    else memcpy(to, from, size);
    if (mirror && back) mirror->changed = 1;
}

/* Runs Adam on the gradients times scale. On a device the step is queued: settle() sets *grad_norm, reports
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
    const float norm = (float)sqrt(ppo__k()->sum_squares(scale, params->grad, params->count));
    if (grad_norm) *grad_norm = norm;
    if (!ppo__finite(norm))
        return ppo_fail(PPO_ERROR_NUMERIC, "the gradient's norm is %g at optimizer step %lld", (double)norm,
                        (long long)params->step + 1);
    ++params->step;
    ppo__adam_job job = {params, scale, ppo__clip_factor(norm, max_grad_norm), *adam, 0, 0};
    for (int i = 0; i < params->tensor_count;) {
        i = ppo__params_group(params, i, adam, &job.adam, &job.begin, &job.end);
        ppo__parallel_for(ppo__grains(job.end - job.begin), 1, 40.0 * (double)PPO__FLOAT_GRAIN,
                          ppo__adam_range, &job);
    }
    return PPO_OK;
}

PPO_DEF ppo_status ppo_params_step(ppo_params *params, const ppo_adam *adam, float max_grad_norm,
                                   float *grad_norm) {
    if (!PPO__GIVEN("ppo_params_step", params, adam)) return PPO_ERROR_ARGUMENT;
    if (params->frozen)
        return ppo__refuse("ppo_params_step: the parameters are frozen; see ppo_params_freeze()");
    if (!(adam->eps > 0) || !(adam->beta1 >= 0 && adam->beta1 < 1) || !(adam->beta2 >= 0 && adam->beta2 < 1))
        return ppo__refuse("ppo_params_step: eps or a beta is out of range: use ppo_adam_default()");
    ppo__mirror *mirror = ppo__mirror_of(params);
    ppo_status status = ppo__params_step(params, adam, 1, max_grad_norm, grad_norm);
    return ppo__settle(mirror ? mirror->device : NULL, status);
}

/* Gradients of the shards of a minibatch, at most `most`, are added in a binary tree: first of neighbours, then
   of every second one, ... Each process of a group has the shards of one branch of it. */

/* The first shard of branch k of the tree, of 1, 2, 4, ... branches; its last is before the first of the next. */
static int ppo__first_shard(int most, int k, int branches) {
    int leaves = 1;
    while (leaves < most) leaves *= 2;
    return ppo__min_int((int)(((int64_t)k * leaves + branches - 1) / branches), most);
}

PPO_DEF float ppo_schedule(ppo_schedule_kind schedule, float initial, float progress) {
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

static void ppo__normalizer_reset(ppo_normalizer *norm) {
    norm->count = 0;
    for (int j = 0; j < norm->size; ++j) norm->mean[j] = 0, norm->var[j] = 1;
}

PPO_DEF ppo_status ppo_normalizer_init(ppo_normalizer *norm, int size) {
    if (!PPO__GIVEN("ppo_normalizer_init", norm)) return PPO_ERROR_ARGUMENT;
    memset(norm, 0, sizeof *norm);
    if (size <= 0) return ppo__refuse("ppo_normalizer_init: size is %d, must be above 0", size);
    norm->mean = (double *)ppo__alloc(2 * (size_t)size * sizeof(double));
    if (!norm->mean) return PPO_ERROR_MEMORY;
    norm->var = norm->mean + size;
    norm->size = size;
    ppo__normalizer_reset(norm);
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
    if (!norm || !x || rows <= 0) return;
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

/* Adds the samples that `other`, of the same size, has seen. */
static void ppo__normalizer_merge(ppo_normalizer *norm, const ppo_normalizer *other) {
    if (!(other->count > 0)) return;
    for (int j = 0; j < norm->size; ++j)
        ppo__merge_moments(&norm->mean[j], &norm->var[j], norm->count, other->mean[j], other->var[j],
                           other->count);
    norm->count += other->count;
}

/* 1 / std. Where it would be infinite it is DBL_MAX, by which 0 stays 0. */
static double ppo__inv_std(double var) { return var > 0 ? 1 / sqrt(var) : DBL_MAX; }

PPO_DEF PPO__NOINLINE void ppo_normalize(const ppo_normalizer *norm, const float *x, int rows, float limit,
                                         float *out) {
    for (int i = 0; norm && x && out && i < rows; ++i) {
        for (int j = 0; j < norm->size; ++j) {
            size_t at = ppo__at(i, norm->size) + j;
            out[at] =
                ppo__clamp((float)((x[at] - norm->mean[j]) * ppo__inv_std(norm->var[j])), -limit, limit);
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
   of Gaussians. Together with log_std they describe a distribution, from which an action of `width` numbers is
   chosen; its log-probability and KL are computed on a tape.

   To add an action space: a constant in the enum of kinds with a function like ppo_box() in the interface, a
   row at its place in ppo__spaces, and those functions of the row that differ. A space of several choices
   only needs sizes[]: ppo__choices_...() do the rest. An action of floats sets `continuous` and is in
   ppo_actions.box; any other one is in ppo_actions.discrete. ppo_export_c() knows only these two.
   -------------------------------------------------------------------------------------------------------- */

static ppo_space ppo__space(int kind, int n, const int *sizes) {
    ppo_space space;
    memset(&space, 0, sizeof space);
    space.kind = (ppo_space_kind)kind;
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
    int squash, scale;   /* continuous: as in ppo_actor_critic */
    ppo_tensor *policy;  /* (rows, outputs) logits, or means */
    ppo_tensor *log_std; /* continuous: (1, n) or (rows, n) */
    int heads;           /* else: the number of choices, */
    const int *sizes;    /* and of options of each */
} ppo__distribution;

/* -- the categorical kinds: one or more choices, each by a softmax of its own -- */

/* The number of choices, and of options of each. */
static const int *ppo__space_heads(const ppo_space *space, int *heads) {
    *heads = ppo__space_width(space);
    return space->kind == PPO_DISCRETE ? &space->n : space->sizes;
}

static ppo_status ppo__choices_check(const ppo_space *space) {
    int heads;
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
    int heads, valid = 1;
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

static void ppo__choices_for_env(const ppo__distribution *d, const ppo_actions *actions, size_t at,
                                 float *box, ppo_action *action) {
    (void)box;
    action->choices = actions->discrete + at * (size_t)d->heads;
    action->discrete = action->choices[0];
    action->box = NULL;
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
    int valid = 1;
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
    int n = d->space->n;
    const float *mean = d->policy->data + ppo__at(row, n);
    if (rng) ppo_gaussian_sample(mean, ppo__log_std_row(d->log_std, row), n, rng, actions->box + at * n);
    else memcpy(actions->box + at * n, mean, n * sizeof(float));
}

static float ppo__box_centre(const ppo_space *space) { return 0.5f * space->low + 0.5f * space->high; }
static float ppo__box_half(const ppo_space *space) { return 0.5f * space->high - 0.5f * space->low; }

PPO__RARE void ppo__box_for_env(const ppo__distribution *d, const ppo_actions *actions, size_t at, float *box,
                                ppo_action *action) {
    const ppo_space *space = d->space;
    const float *u = actions->box + at * (size_t)space->n;
    const float centre = ppo__box_centre(space), half = ppo__box_half(space);
    action->discrete = 0, action->choices = NULL, action->box = box;
    if (d->squash) ppo_squash(u, (size_t)space->n, space->low, space->high, box);
    for (int j = 0; j < space->n && !d->squash; ++j)
        box[j] = ppo__clamp(d->scale ? centre + half * u[j] : u[j], space->low, space->high);
}

/* Does N(0, 1) fit the box badly? Whoever writes bounds of 1e18 means none. */
static int ppo__box_is_far(const ppo_space *space) {
    const float low = space->low, high = space->high;
    return !(low >= -4 && low <= -0.25f && high >= 0.25f && high <= 4) && high - low < 1e18f;
}

/* Is the box mapped to -1..1? */
static int ppo__box_scales(const ppo_space *space, const ppo_config *config) {
    const int scaling = config->scale_actions;
    return !config->squash &&
           (scaling == PPO_SCALE_YES || (scaling == PPO_SCALE_AUTO && ppo__box_is_far(space)));
}

static void ppo__box_logp(ppo_tape *tape, const ppo__distribution *d, const ppo_actions *actions,
                          ppo_tensor **logp, ppo_tensor **entropy) {
    const float box[2] = {d->space->low, d->space->high};
    ppo__tape_gaussian(tape, d->policy, d->log_std, actions->box, d->squash ? box : NULL, logp, entropy);
}

/* Squashing transforms both distributions in the same way, so their KL stays the same. */
static ppo_tensor *ppo__box_kl(ppo_tape *tape, const ppo__distribution *d, const float *old_policy,
                               const float *old_log_std) {
    return ppo_tape_gaussian_kl(tape, old_policy, old_log_std, d->policy, d->log_std);
}

/* -- the table -- */

typedef struct ppo__space_kind {
    const char *name; /* the first word of the space's text in files */
    int listed;       /* 1: after it come the sizes of the choices; 0: n */
    int continuous;   /* 1: actions are floats, with a log_std, and masks do not apply */
    ppo_status (*check)(const ppo_space *space);
    int (*valid)(const ppo_space *space, const void *numbers); /* 1: [width] numbers are such an action */
    /* Action `at` of a batch from a row of d: sampled, or the most likely one if rng is NULL. */
    void (*choose)(const ppo__distribution *d, int row, ppo_rng *rng, const ppo_actions *actions, size_t at);
    /* That action as the environment sees it; box [n] receives numbers that are scaled, clipped or squashed. */
    void (*for_env)(const ppo__distribution *d, const ppo_actions *actions, size_t at, float *box,
                    ppo_action *action);
    /* log pi(action) and the entropy, (rows, 1); entropy may be NULL. */
    void (*logp)(ppo_tape *tape, const ppo__distribution *d, const ppo_actions *actions, ppo_tensor **logp,
                 ppo_tensor **entropy);
    /* KL(old || new), (rows, 1), exact. */
    ppo_tensor *(*kl)(ppo_tape *tape, const ppo__distribution *d, const float *old_policy,
                      const float *old_log_std);
} ppo__space_kind;

#define PPO__BY_CHOICES                                                                                   \
    ppo__choices_check, ppo__choices_valid, ppo__choices_choose, ppo__choices_for_env, ppo__choices_logp, \
        ppo__choices_kl

static const ppo__space_kind ppo__spaces[] = {
    {"discrete", 0, 0, PPO__BY_CHOICES},
    {"box", 0, 1, ppo__box_check, ppo__box_valid, ppo__box_choose, ppo__box_for_env, ppo__box_logp,
     ppo__box_kl},
    {"multi-discrete", 1, 0, PPO__BY_CHOICES},
    {"multi-binary", 0, 0, PPO__BY_CHOICES},
};
enum { PPO__SPACES = sizeof ppo__spaces / sizeof *ppo__spaces };

static const ppo__space_kind *ppo__kind(const ppo_space *space) {
    return &ppo__spaces[space->kind - PPO_DISCRETE];
}

/* Numbers that the policy network gives for an action. */
static int ppo__space_outputs(const ppo_space *space) {
    int heads, sum = 0;
    const int *sizes = ppo__space_heads(space, &heads);
    if (ppo__kind(space)->continuous) return space->n;
    for (int h = 0; h < heads; ++h) sum += sizes[h];
    return sum;
}

static ppo_status ppo__check_space(const ppo_space *space) {
    if (space->kind < PPO_DISCRETE || space->kind >= (int)PPO_DISCRETE + (int)PPO__SPACES)
        return ppo__refuse("action_space.kind is %d: use ppo_discrete(), ppo_box(), ...", space->kind);
    if (space->n <= 0) return ppo__refuse("action_space has no actions: n is %d", space->n);
    return ppo__kind(space)->check(space);
}

/* The first choice for which a mask leaves nothing; -1: there is none. */
static int ppo__choice_without_action(const ppo_space *space, const unsigned char *mask) {
    int heads;
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

PPO__RARE void ppo__space_text(const ppo_space *space, char text[PPO__SPACE_SIZE]) {
    const ppo__space_kind *kind = ppo__kind(space);
    size_t used = 0;
    for (int j = 0; j < (kind->listed ? space->n : 1); ++j)
        used += (size_t)snprintf(text + used, PPO__SPACE_SIZE - used, "%s%s%d", j ? "" : kind->name,
                                 j ? "," : " ", kind->listed ? space->sizes[j] : space->n);
    for (int j = 0; j < 2 && kind->continuous; ++j) {
        char number[64];
        used += (size_t)snprintf(text + used, PPO__SPACE_SIZE - used, " %s",
                                 ppo__number(number, "%.9g", (double)(j ? space->high : space->low)));
    }
}

/* Reads what ppo__space_text() wrote. The space of any other text fails ppo__check_space(). */
PPO__RARE ppo_space ppo__parse_space(const char *text) {
    size_t length = strcspn(text, " ");
    int k = 0, n = 0, sizes[PPO_MAX_CHOICES];
    char numbers[2][32], more;
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

   Multilayer perceptrons, convolutions, a recurrent core, and the policy and value networks that are made of
   them: ppo_actor_critic_forward() is the way from observations to a policy's outputs and a value.

   To add a layer: its struct with an init and a forward function, private like those of ppo_gru.h or public like
   ppo_mlp's; its parameters end in .weight, .bias, .norm.weight, .norm.bias; the operation is one or more
   of section 5's, or a ppo_op of its own as below. Then put it into ppo__actor_critic_init() and at its
   place in ppo_actor_critic_forward(); its width into ppo_config, with a row in section 15 of the kind
   PPO_FIELD_NETWORK. Parameters that are added to the set are trained and saved by themselves, and
   ppo_export_c() refuses those that it does not know, but not a detail without parameters: refuse that there.
   Where init=uniform applies to them: ppo__init_uniform(). If they are many: ppo__check_weights() in section 16.
   -------------------------------------------------------------------------------------------------------- */

/* "name.k.part", or "name.part" if k is below 0; zeros. */
static ppo_tensor *ppo__layer_param(ppo_params *params, const char *name, int k, const char *part, int rows,
                                    int cols) {
    char full[128], index[16] = "";
    if (k >= 0) snprintf(index, sizeof index, ".%d", k);
    snprintf(full, sizeof full, "%.100s%s.%s", name, index, part);
    if (strlen(name) <= 100) return ppo_params_add(params, full, rows, cols);
    ppo__refuse("%.20s...: the name is longer than 100", name);
    return NULL;
}

PPO_DEF ppo_status ppo_mlp_init(ppo_mlp *mlp, ppo_params *params, const char *name, const int *sizes,
                                int layers, int hidden_activation, int last_activation, float last_gain,
                                ppo_rng *rng) {
    if (!PPO__GIVEN("ppo_mlp_init", mlp, params, name, sizes)) return PPO_ERROR_ARGUMENT;
    if (layers < 0 || layers > PPO_MAX_LAYERS)
        return ppo__refuse("%s: %d layers, outside 0 to %d", name, layers, (int)PPO_MAX_LAYERS);
    memset(mlp, 0, sizeof *mlp);
    mlp->hidden_activation = hidden_activation & ~PPO_NORMED;
    mlp->last_activation = last_activation & ~PPO_NORMED;
    ppo_status status = ppo__check_activation(name, mlp->hidden_activation);
    if (!status) status = ppo__check_activation(name, mlp->last_activation);
    for (int k = 0; k < layers && !status; ++k, ++mlp->layers) {
        const int last = k == layers - 1, out = sizes[k + 1];
        const int normed = (last ? last_activation : hidden_activation) & PPO_NORMED;
        ppo_tensor *weight = mlp->weight[k] = ppo__layer_param(params, name, k, "weight", sizes[k], out);
        if (weight) mlp->bias[k] = ppo__layer_param(params, name, k, "bias", 1, out);
        if (!mlp->bias[k]) return ppo__failed;
        if (normed) mlp->norm_weight[k] = ppo__layer_param(params, name, k, "norm.weight", 1, out);
        if (mlp->norm_weight[k]) mlp->norm_bias[k] = ppo__layer_param(params, name, k, "norm.bias", 1, out);
        if (normed && !mlp->norm_bias[k]) return ppo__failed;
        for (int j = 0; j < out && normed; ++j) mlp->norm_weight[k]->data[j] = 1;
        if (rng) status = ppo_init_orthogonal(weight, last ? last_gain : sqrtf(2), rng);
    }
    return status;
}

/* Layers from .. to - 1. Several are one operation, a chain; it ends at a layer norm. */
PPO__RARE ppo_tensor *ppo__mlp_layers(ppo_tape *tape, const ppo_mlp *mlp, ppo_tensor *x, int from, int to) {
    for (int count, normed = 0; from < to; from += count, normed = 0) {
        int activation[PPO__CHAIN], own = 0;
        for (count = 0; count < PPO__CHAIN && from + count < to && !normed; ++count) {
            own = from + count == mlp->layers - 1 ? mlp->last_activation : mlp->hidden_activation;
            normed = mlp->norm_weight[from + count] != NULL;
            activation[count] = normed ? PPO_IDENTITY : own;
        }
        const int k = from + count - 1;
        x = ppo__tape_chain(tape, "linear", x, mlp->weight + from, mlp->bias + from, activation, count);
        if (normed)
            x = ppo_tape_activate(tape,
                                  ppo_tape_layer_norm(tape, x, mlp->norm_weight[k], mlp->norm_bias[k], 1e-5f),
                                  (ppo_activation)own);
    }
    return x;
}

PPO_DEF ppo_tensor *ppo_mlp_forward(ppo_tape *tape, const ppo_mlp *mlp, ppo_tensor *x) {
    if (!ppo__operands(tape, "ppo_mlp_forward", x, mlp ? x : NULL)) return NULL;
    return ppo__mlp_layers(tape, mlp, x, 0, mlp->layers);
}

/* -- convolutions, by ppo_conv.h -- */

typedef struct ppo__convolutions {
    /* Layers over pictures of the shape conv->shape[0]. params NULL: their sizes alone. Else orthogonal weights,
       gain sqrt(2), and zero biases; rng NULL: zero weights. */
    ppo_status (*init)(ppo_conv *conv, ppo_params *params, const ppo_config *config, ppo_rng *rng);
    /* (n, channels height width), plane by plane -> the same of the results, pixel by pixel */
    ppo_tensor *(*forward)(ppo_tape *tape, const ppo_conv *conv, ppo_tensor *x);
} ppo__convolutions;
PPO__COMPANION(ppo__convolutions, ppo__conv);

static ppo_status ppo__conv_init(ppo_conv *conv, ppo_params *params, const int shape[3],
                                 const ppo_config *config, ppo_rng *rng) {
    memset(conv, 0, sizeof *conv);
    if (!config->conv_layers) return PPO_OK;
    if (!ppo__conv.init) return ppo__needs("conv", "ppo_conv.h");
    memcpy(conv->shape[0], shape, sizeof conv->shape[0]);
    return ppo__conv.init(conv, params, config, rng);
}

/* -- the recurrent core, by ppo_gru.h -- */

typedef struct ppo__recurrence {
    /* Orthogonal weights, zero biases; parameters "name.input.weight", "name.state.bias", ... rng NULL: zeros. */
    ppo_status (*init)(ppo_gru *gru, ppo_params *params, const char *name, int in, int width, ppo_rng *rng);
    /* (rows, in) -> the state after each row (rows, width). The arrays of sequences must stay until
       ppo_tape_reset(). */
    ppo_tensor *(*forward)(ppo_tape *tape, const ppo_gru *gru, ppo_tensor *x, const ppo_sequences *sequences);
} ppo__recurrence;
PPO__COMPANION(ppo__recurrence, ppo__recurrent);

/* -- actor and critic -- */

/* Layers of `inputs`, the first `layers` hidden widths, and outputs (0: none, as in the trunk). */
static ppo_status ppo__add_mlp(ppo_actor_critic *model, ppo_mlp *mlp, const char *name,
                               const ppo_config *config, int inputs, int layers, int outputs, float gain,
                               ppo_rng *rng) {
    int sizes[PPO_MAX_LAYERS + 1] = {inputs};
    int activation = config->activation | (config->layer_norm ? (int)PPO_NORMED : 0);
    for (int k = 0; k < layers; ++k) sizes[k + 1] = config->hidden[k];
    if (outputs) sizes[++layers] = outputs;
    return ppo_mlp_init(mlp, model->params, name, sizes, layers, activation,
                        outputs ? PPO_IDENTITY : activation, gain, rng);
}

/* PyTorch's defaults: weights and biases within +- 1 / sqrt(inputs), those of a core within +- 1 / sqrt(width). */
static void ppo__init_uniform(const ppo_actor_critic *model, ppo_rng *rng) {
    float bound = 0;
    for (int i = 0; i < model->params->tensor_count; ++i) {
        ppo_tensor *x = model->params->tensors[i];
        const char *name = model->params->names[i];
        if (x == model->log_std || strstr(name, ".norm.")) continue;
        if (strstr(name, ".weight")) /* its bias follows */
            bound = 1 / sqrtf((float)(strncmp(name, "core.", 5) ? x->rows : model->core.width));
        ppo__fill_uniform(x, bound, rng);
    }
}

/* What it owns, not the struct. */
static void ppo__actor_critic_free(ppo_actor_critic *model) {
    ppo_params_free(model->params);
    memset(model, 0, sizeof *model);
}

/* A picture has at most the `size` numbers that the actor sees; zeros: there is none. */
static ppo_status ppo__check_shape(const int shape[3], int size) {
    const int picture = ppo__picture_size(shape);
    if ((!shape[0] && !shape[1] && !shape[2]) || (picture && picture <= size)) return PPO_OK;
    return ppo__refuse("the picture's shape is %d x %d x %d, but the actor sees %d numbers", shape[0],
                       shape[1], shape[2], size);
}

/* Sizes and settings for which no network can be made. */
static ppo_status ppo__check_network(const ppo_env *env, const ppo_config *config) {
    const ppo_space *space = &env->action_space;
    if (env->obs_size <= 0) return ppo__refuse("obs_size is %d, must be above 0", env->obs_size);
    if (config->conv_layers && !env->shape[0])
        return ppo__refuse("conv needs pictures, but the environment's observations have no shape");
    if (ppo__check_space(space) ||
        ppo__check_shape(env->shape, env->actor_obs ? env->actor_obs : env->obs_size))
        return PPO_ERROR_ARGUMENT;
    if ((!config->squash && config->scale_actions != PPO_SCALE_YES) || !ppo__kind(space)->continuous ||
        ppo__finite(space->high - space->low))
        return PPO_OK;
    return ppo__refuse("%s needs a box of finite size, not %g to %g",
                       config->squash ? "squash" : "scale_actions", (double)space->low, (double)space->high);
}

/* The networks that config describes, for the sizes of env. zeros: without initial weights, as they will be loaded. */
static ppo_status ppo__actor_critic_init(ppo_actor_critic *model, const ppo_env *env,
                                         const ppo_config *config, int zeros) {
    const ppo_space *space = &env->action_space;
    const int continuous = ppo__kind(space)->continuous, layers = config->hidden_layers;
    const int own = config->shared_trunk ? 0 : layers; /* hidden layers of each head */
    ppo_rng stream = ppo_rng_stream(config->seed, PPO_STREAM_INIT, 0), *rng = zeros ? NULL : &stream;
    int inputs = env->actor_obs ? env->actor_obs : env->obs_size;
    memset(model, 0, sizeof *model);
    model->obs_size = env->obs_size;
    model->actor_obs = inputs;
    model->action_space = *space;
    model->shared = config->shared_trunk && layers;
    model->gsde = config->gsde && continuous;
    model->squash = config->squash && continuous;
    model->log_std_min = config->log_std_min;
    model->log_std_max = config->log_std_max;
    model->scale = continuous && ppo__box_scales(space, config);
    ppo_status status = ppo_params_create(&model->params);
    if (!status) status = ppo__conv_init(&model->conv, model->params, env->shape, config, rng);
    const int beside = inputs - ppo__picture_size(env->shape); /* numbers, not of the picture */
    if (config->conv_layers) inputs = ppo__picture_size(model->conv.shape[config->conv_layers]);
    if (!status && config->conv_layers && beside > INT_MAX - inputs)
        status = ppo__refuse("obs_size is too large: %d", model->obs_size);
    if (!status && config->conv_layers) inputs += beside;
    if (!status && model->shared) {
        status = ppo__add_mlp(model, &model->trunk, "trunk", config, inputs, layers, 0, sqrtf(2), rng);
        inputs = config->hidden[layers - 1];
    }
    if (!status && config->recurrent && !ppo__recurrent.init) status = ppo__needs("recurrent", "ppo_gru.h");
    else if (!status && config->recurrent) {
        status = ppo__recurrent.init(&model->core, model->params, "core", inputs, config->recurrent, rng);
        inputs = config->recurrent;
    }
    if (!status)
        status = ppo__add_mlp(model, &model->actor, "actor", config, inputs, own, ppo__space_outputs(space),
                              0.01f, rng);
    if (!status && continuous) { /* per number, of gsde per number and feature */
        int rows = model->gsde ? model->actor.weight[model->actor.layers - 1]->rows : 1;
        model->log_std = ppo_params_add(model->params, "actor.log_std", rows, space->n);
        for (size_t i = 0; model->log_std && i < ppo__size(model->log_std); ++i)
            model->log_std->data[i] = config->log_std_init;
        if (!model->log_std) status = PPO_ERROR_MEMORY;
    }
    const int more = model->obs_size - model->actor_obs; /* what the critic alone reads */
    if (!status && more > INT_MAX - inputs)
        status = ppo__refuse("obs_size is too large: %d", model->obs_size);
    if (!status)
        status = ppo__add_mlp(model, &model->critic, "critic", config, inputs + more, own, 1, 1, rng);
    if (!status && !zeros && config->init == PPO_UNIFORM) ppo__init_uniform(model, rng);
    if (status) ppo__actor_critic_free(model);
    return status;
}

static float ppo__log_std_at(const ppo_actor_critic *model, size_t i) {
    return ppo__clamp(model->log_std->data[i], model->log_std_min, model->log_std_max);
}

static ppo_status ppo__bounds_forward(ppo_node *node) {
    const float *bound = (const float *)node->args;
    for (size_t i = 0; i < ppo__size(node->in[0]); ++i)
        node->out[0]->data[i] = ppo__clamp(node->in[0]->data[i], bound[0], bound[1]);
    return PPO_OK;
}

/* A gradient passes unless a step against it leads out of the bounds. */
static void ppo__bounds_backward(ppo_node *node) {
    const float *bound = (const float *)node->args, *x = node->in[0]->data, *dy = node->out[0]->grad;
    for (size_t i = 0; i < ppo__size(node->in[0]); ++i)
        if (dy[i] < 0 ? x[i] < bound[1] : x[i] > bound[0]) node->in[0]->grad[i] += dy[i];
}

/* Generalized state-dependent exploration (Raffin 2022): number j of the action is mean_j + sum_i f_i
   E_ij, where E_ij ~ N(0, exp(log_std_ij)^2) stays the same for some steps. So its variance is sum_i
   f_i^2 exp(2 log_std_ij). No gradient flows into the features f this way. */
static ppo_tensor *ppo__gsde_log_std(ppo_tape *tape, ppo_tensor *log_std, const ppo_tensor *features) {
    if (!features || !log_std) return NULL;
    ppo_tensor *f = ppo_tape_constant(tape, features->data, features->rows, features->cols);
    ppo_tensor *variance = ppo_tape_matmul(tape, ppo_tape_square(tape, f),
                                           ppo_tape_exp(tape, ppo_tape_scale(tape, log_std, 2, 0)));
    return ppo_tape_scale(tape, ppo_tape_log(tape, ppo_tape_scale(tape, variance, 1, 1e-6f)), 0.5f, 0);
}

/* A NULL argument also fails the tape. */
static int ppo__tape_given(ppo_tape *tape, int given) {
    if (!given) ppo__tape_fail(tape, PPO_ERROR_ARGUMENT);
    return given;
}
PPO__COLD_END

/* Columns from .. to - 1 of observations of this size. */
static ppo_tensor *ppo__obs_columns(ppo_tape *tape, const ppo_inputs *inputs, int size, int from, int to) {
    const size_t n = (size_t)to - from;
    const int count = !inputs->obs_bytes ? 0 : inputs->byte_count ? inputs->byte_count : size;
    const int split = count < from ? from : ppo__min_int(count, to); /* bytes before, floats from here on */
    const float *obs = inputs->obs, scale = inputs->byte_scale;
    if ((count || (n < (size_t)size && obs)) && inputs->rows > 0) {
        float *part = ppo_tape_alloc(tape, inputs->rows * n);
        if (!part) return NULL;
        for (int i = 0; i < inputs->rows; ++i) {
            const size_t at = ppo__at(i, count), rest = ppo__at(i, size - count) + split - count;
            float *row = part + i * n;
            for (int j = from; j < split; ++j) *row++ = (float)inputs->obs_bytes[at + j] * scale;
            if (split < to) memcpy(row, obs + rest, (to - split) * sizeof(float));
        }
        obs = part;
    }
    return ppo_tape_constant(tape, obs, inputs->rows, (int)n);
}
PPO__COLD

/* Numbers that the actor sees beside the picture. */
static int ppo__beside_picture(const ppo_actor_critic *model) {
    return model->conv.layers ? model->actor_obs - ppo__picture_size(model->conv.shape[0]) : 0;
}

/* What the first layers read of the actor's part: the picture after its convolutions, and the numbers beside it. */
static ppo_tensor *ppo__actor_inputs(ppo_tape *tape, const ppo_actor_critic *model,
                                     const ppo_inputs *inputs) {
    const int size = model->obs_size, seen = model->actor_obs, beside = ppo__beside_picture(model);
    ppo_tensor *x = ppo__obs_columns(tape, inputs, size, 0, seen - beside);
    if (model->conv.layers) x = ppo__conv.forward(tape, &model->conv, x);
    if (!beside) return x;
    return ppo_tape_concat(tape, x, ppo__obs_columns(tape, inputs, size, seen - beside, seen));
}

PPO_DEF ppo_outputs ppo_actor_critic_forward(ppo_tape *tape, const ppo_actor_critic *model,
                                             const ppo_inputs *inputs, int want) {
    ppo_outputs out;
    memset(&out, 0, sizeof out);
    if (!ppo__tape_given(tape, PPO__GIVEN("ppo_actor_critic_forward", tape, model, inputs))) return out;
    ppo_tensor *x = ppo__actor_inputs(tape, model, inputs);
    x = ppo_mlp_forward(tape, &model->trunk, x); /* no layers: x itself */
    if (model->core.width) x = out.state = ppo__recurrent.forward(tape, &model->core, x, &inputs->sequences);
    if (want & PPO_POLICY) {
        int last = model->actor.layers - 1;
        out.features = ppo__mlp_layers(tape, &model->actor, x, 0, last);
        out.policy = ppo__mlp_layers(tape, &model->actor, out.features, last, last + 1);
        if (inputs->mask && !ppo__kind(&model->action_space)->continuous)
            out.policy = ppo_tape_mask(tape, out.policy, inputs->mask);
        if (model->log_std) {
            static const ppo_op op = {"log_std", 1, ppo__bounds_forward, ppo__bounds_backward};
            const float bounds[2] = {model->log_std_min, model->log_std_max};
            ppo_tensor *in = out.log_std = model->log_std;
            int within = 1;
            for (size_t i = 0; i < ppo__size(in); ++i)
                within &= in->data[i] > bounds[0] && in->data[i] < bounds[1];
            if (!within)
                out.log_std = ppo_tape_result(
                    ppo_tape_apply(tape, &op, &in, 1, in->rows, in->cols, bounds, sizeof bounds));
        }
        if (model->gsde) out.log_std = ppo__gsde_log_std(tape, out.log_std, out.features);
    }
    if (want & PPO_VALUE && model->actor_obs < model->obs_size)
        x = ppo_tape_concat(
            tape, x, ppo__obs_columns(tape, inputs, model->obs_size, model->actor_obs, model->obs_size));
    if (want & PPO_VALUE) out.value = ppo_mlp_forward(tape, &model->critic, x);
    if (tape->status) memset(&out, 0, sizeof out); /* all or none */
    return out;
}

static ppo__distribution ppo__distribution_of(const ppo_actor_critic *model, const ppo_outputs *outputs) {
    ppo__distribution d = {
        &model->action_space, model->squash, model->scale, outputs->policy, outputs->log_std, 0, NULL};
    d.sizes = ppo__space_heads(d.space, &d.heads);
    return d;
}

PPO_DEF void ppo_actor_critic_logp(ppo_tape *tape, const ppo_actor_critic *model, const ppo_outputs *outputs,
                                   const ppo_actions *actions, ppo_tensor **logp, ppo_tensor **entropy) {
    if (logp) *logp = NULL;
    if (entropy) *entropy = NULL;
    if (!ppo__tape_given(tape, PPO__GIVEN("ppo_actor_critic_logp", tape, model, outputs, actions))) return;
    ppo__distribution d = ppo__distribution_of(model, outputs);
    ppo__kind(d.space)->logp(tape, &d, actions, logp, entropy);
}

/* KL(old || new), exact (rows, 1), from the old policy's outputs: logits, or means and log_std (rows, n). */
static ppo_tensor *ppo__actor_critic_kl(ppo_tape *tape, const ppo_actor_critic *model,
                                        const ppo_outputs *outputs, const float *old_policy,
                                        const float *old_log_std) {
    ppo__distribution d = ppo__distribution_of(model, outputs);
    return ppo__kind(d.space)->kl(tape, &d, old_policy, old_log_std);
}

/* On an emptied tape. */
static ppo_outputs ppo__forward_once(ppo_tape *tape, const ppo_actor_critic *model, ppo_inputs inputs,
                                     int want) {
    ppo_tape_reset(tape);
    return ppo_actor_critic_forward(tape, model, &inputs, want);
}

/* Action `at` of a batch from a row of outputs: sampled; the most likely one if rng is NULL; or by gsde's
   exploration matrix `noise` (features, n), which the caller keeps for some steps. *action is it as the
   environment sees it, with its numbers in box [n]. */
static void ppo__choose_action(const ppo__distribution *d, const ppo_tensor *features, int row, ppo_rng *rng,
                               const float *noise, const ppo_actions *actions, size_t at, float *box,
                               ppo_action *action) {
    if (noise) {
        int n = d->policy->cols, size = features->cols;
        ppo__k()->gemm(1, n, size, features->data + ppo__at(row, size), size, 1, noise, n,
                       d->policy->data + ppo__at(row, n), n, actions->box + at * n, n);
    } else ppo__kind(d->space)->choose(d, row, rng, actions, at);
    ppo__kind(d->space)->for_env(d, actions, at, box, action);
}

/* --------------------------------------------------------------------------------------------------------
   @@ 14 Environments and rollouts

   Copies of an environment stand side by side (ppo__envs), with one agent or several in each; a collector lets a
   policy act in them and records a rollout. Begin at ppo__collect(), "-- collecting a rollout --": for each step,
   ppo__act() asks the policy and writes its actions into the rollout, ppo__env_step() steps a copy, and
   ppo__record_outcome() writes down what each agent earned; then ppo__rollout_end() computes all values at once.

   An agent's column of the rollout has a row for each time it acted. The row is open until the agent acts again
   or its episode ends; what it earns meanwhile is added up. So agents may wait, leave and join, and agents that a
   snapshot of the policy plays (self-play) have no rows. A program that steps its own world (section 15)
   pushes into the same columns, by ppo__act_batch() and ppo__record_outcome().

   The copies are divided among processes, and those of a process among workers, one per thread; after a rollout
   every process gets all of it. A row's result does not depend on its batch, so the bits are the same for any
   number of workers. So are running statistics: they do not change during a rollout, while each environment
   gathers its own samples, and take those in afterwards, in order.

   To add an environment, nothing changes here: fill a ppo_env, as the files in examples/envs/ do, and give it
   a row in examples/options.h. To record something more per step: a field of ppo_rollout and a PPO__COLUMN.
   -------------------------------------------------------------------------------------------------------- */

enum { PPO__MOST_AGENTS = 65536 };

static int ppo__agents(const ppo_env *env) { return env->agents > 1 ? env->agents : 1; }

/* Numbers that the actor sees. */
static int ppo__actor_obs(const ppo_env *env) { return env->actor_obs ? env->actor_obs : env->obs_size; }

static int ppo__metric_count(const ppo_env *env) {
    int n = 0;
    while (n < PPO_MAX_METRICS && env->metrics[n]) ++n;
    return n;
}

/* The first numbers of an observation that are bytes. */
static int ppo__byte_count(const ppo_env *env) {
    const int picture = env->byte_scale > 0 ? ppo__picture_size(env->shape) : 0;
    return env->byte_scale <= 0 ? 0 : picture ? picture : env->obs_size;
}

/* 1: there are no functions: the program steps its own world, and pushes observations and rewards. */
static int ppo__is_pushed(const ppo_env *env) {
    return !env->reset && !env->step && !env->reset_all && !env->step_all && !env->step_many;
}

/* Checks all but the functions. */
PPO__RARE ppo_status ppo__check_env_sizes(const ppo_env *env) {
    if (!env) return ppo__refuse("the environment is NULL");
    if (env->agents < 0 || env->agents > PPO__MOST_AGENTS)
        return ppo__refuse("env.agents is %d, outside 0 to %d", env->agents, (int)PPO__MOST_AGENTS);
    if (env->teams < 0 || env->teams > env->agents)
        return ppo__refuse("env.teams is %d, outside 0 to env.agents, %d", env->teams, env->agents);
    if (env->obs_size <= 0) return ppo__refuse("env.obs_size is %d, must be above 0", env->obs_size);
    if (env->actor_obs < 0 || env->actor_obs > env->obs_size)
        return ppo__refuse("env.actor_obs is %d, outside 0 to obs_size, %d", env->actor_obs, env->obs_size);
    if (!(env->byte_scale >= 0 && env->byte_scale <= FLT_MAX / 255))
        return ppo__refuse("env.byte_scale is %g, outside 0 to %g", (double)env->byte_scale,
                           (double)FLT_MAX / 255);
    if (env->state_size > SIZE_MAX / 8)
        return ppo__refuse("env.state_size is %llu bytes, too large", (unsigned long long)env->state_size);
    if (env->copies < 0) return ppo__refuse("env.copies is %d, must not be below 0", env->copies);
    if (env->max_steps < 0) return ppo__refuse("env.max_steps is %d, must not be below 0", env->max_steps);
    if (env->name && !ppo__is_utf8(env->name))
        return ppo__refuse("env.name is not UTF-8: no file could hold it");
    for (int k = 0; k < PPO_MAX_METRICS && env->metrics[k]; ++k) {
        const char *name = env->metrics[k];
        const size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.");
        if (name[n] || !n || n > 40)
            return ppo__refuse("env.metrics[%d] is \"%.60s\", not 1-40 letters, digits, _, - and .", k, name);
    }
    if (ppo__check_shape(env->shape, ppo__actor_obs(env))) return PPO_ERROR_ARGUMENT;
    return ppo__check_space(&env->action_space);
}

/* Error: a function is missing, a size or the action space is invalid. */
PPO__RARE ppo_status ppo__validate_env(const ppo_env *env) {
    ppo_status status = ppo__check_env_sizes(env);
    if (status) return status;
    if (ppo__is_pushed(env))
        return ppo__refuse(
            "env.reset is NULL: a game with its own loop plays by itself: ppo_player.h evaluates it, "
            "ppo_export_c_int8_from() takes its observations, ppo_progress.warning checks it");
    const int all = env->reset_all || env->step_all || env->agents > 1;
    if (all && (env->reset || env->step))
        return ppo__refuse("env.%s_all is given or there are several agents, so env.%s must be NULL",
                           env->reset ? "reset" : "step", env->reset ? "reset" : "step");
    if (all ? !env->reset_all : !env->reset)
        return ppo__refuse("env.%s is NULL", all ? "reset_all" : "reset");
    if (env->step_many && (env->step || env->step_all))
        return ppo__refuse("env.step_many is given, so env.%s must be NULL", env->step ? "step" : "step_all");
    if (!env->step_many && (all ? !env->step_all : !env->step))
        return ppo__refuse("env.%s is NULL", all ? "step_all" : "step");
    return PPO_OK;
}

/* The same, but an environment without any function is valid: the program steps its own world. */
static ppo_status ppo__check_functions(const ppo_env *env) {
    if (!env || !ppo__is_pushed(env)) return ppo__validate_env(env);
    if (env->agents > 1 || env->copies || env->max_steps || env->open || env->action_mask)
        return ppo__refuse(
            "an environment without reset and step has no agents, copies, open, max_steps (set "
            "outcome.truncated) or action_mask (ppo_trainer_observe() takes the mask)");
    return ppo__check_env_sizes(env);
}

/* -- copies of an environment -- */

/* An agent is in no episode; in an episode, but it is not its turn; or about to act on its latest observation. */
enum { PPO__OUT, PPO__WAITS, PPO__ACTS };

/* Copies of an environment with one or several agents in each, or the agents of a program that steps its own world,
   each of them a copy without functions. Agents are numbered through all copies: agent e is in copy e / agents. */
typedef struct ppo__envs {
    ppo_env env;
    int agents;     /* in each copy */
    int copies;     /* how many */
    int begin, end; /* those that are this process's and open */
    int own_end; /* env.copies: end is begin while another user has the world, and this when they are open */
    struct ppo__envs *next_user; /* env.copies: after this one in ppo__world_users */
    int first;                   /* the number of copy 0, for streams and messages */
    ppo__arena memory;
    size_t stride; /* from state to state: state_size and guard; step_many: state_size */
    char *state;
    ppo_rng *rng; /* [copies] */
    int *age;     /* [copies] steps since the reset */

    int count;              /* of agents */
    unsigned char *turn;    /* [count] PPO__OUT, PPO__WAITS or PPO__ACTS */
    float *obs;             /* [count][obs_size], the latest, as the environment gave it */
    unsigned char *mask;    /* [count][outputs] for the next action */
    ppo_action *action;     /* [count] the latest, as the environment sees it */
    float *box;             /* [count][n] its numbers */
    ppo_outcome *outcome;   /* [count] of the latest step */
    double *episode_return; /* [count], so far */
    int *length;            /* [count], steps so far in the episode */
    int64_t *steps;         /* [count], since the start; counted for error messages */

    float *own_obs;          /* [copies][agents * obs_size and guard], where the environment writes them;
                                step_many: without guards */
    unsigned char *own_mask; /* [copies][agents * outputs and guard], likewise */
    /* An environment with outside resources cannot be saved as bytes: a checkpoint restores it by playing its
       episode again. NULL if env.open is NULL, or max_steps is 0 or too large. */
    ppo_rng *episode_rng; /* [copies], as they were before the reset */
    uint32_t *played;     /* [copies][max_steps][agents][width]: the episode's actions */
} ppo__envs;

/* All users of worlds with env.copies, in any thread. */
static ppo__envs *ppo__world_users;
static ppo__lock ppo__world_lock = PPO__LOCK_READY;

/* A call of an environment's function in this thread. Calls may be nested: an environment may train an agent. */
typedef struct ppo__call {
    void *user;
    int failed;
    char reason[200];
    struct ppo__call *outer;
} ppo__call;

static PPO__THREAD_LOCAL ppo__call *ppo__running;

static void ppo__call_begin(ppo__call *call, void *user) {
    call->user = user, call->failed = 0, call->outer = ppo__running;
    ppo__running = call;
}

/* Closes the copies; their episodes are over. */
static void ppo__envs_close(ppo__envs *envs) {
    for (int c = envs->begin; c < envs->end; ++c) {
        ppo__call call;
        ppo__call_begin(&call, envs->env.user);
        if (envs->env.close) envs->env.close(envs->state + c * envs->stride);
        ppo__running = call.outer;
        memset(envs->state + c * envs->stride, 0, envs->env.state_size);
        memset(envs->turn + c * envs->agents, PPO__OUT, (size_t)envs->agents);
    }
    envs->end = envs->begin;
}

static void ppo__envs_free(ppo__envs *envs) {
    ppo__envs **at = &ppo__world_users;
    ppo__envs_close(envs);
    PPO__LOCK(&ppo__world_lock);
    while (*at && *at != envs) at = &(*at)->next_user;
    if (*at) *at = envs->next_user;
    PPO__UNLOCK(&ppo__world_lock);
    ppo__arena_free(&envs->memory);
}

enum { PPO__MOST_PLAYED = 1 << 24 }; /* numbers that are kept of all environments together: 64 MB */

/* Numbers in the actions of a whole episode. */
static size_t ppo__played_words(const ppo_env *env) {
    return (size_t)env->max_steps * (size_t)ppo__agents(env) * (size_t)ppo__space_width(&env->action_space);
}
PPO__COLD_END

/* Guard bytes after each state, observation and mask show if an environment writes beyond it. */
enum { PPO__GUARD = 16, PPO__GUARD_BYTE = 0xa5 };

static int ppo__guard_holds(const void *guard) {
    unsigned char whole[PPO__GUARD];
    memset(whole, PPO__GUARD_BYTE, sizeof whole);
    return memcmp(guard, whole, sizeof whole) == 0;
}
PPO__COLD

/* Numbers in the observations of a copy's agents. */
PPO__TINY size_t ppo__obs_block(const ppo__envs *envs) { return (size_t)envs->agents * envs->env.obs_size; }

/* 1: there are guard bytes after copy c. With step_many copies are adjacent: only the last one has them. */
PPO__TINY int ppo__is_guarded(const ppo__envs *envs, int c) {
    return !envs->env.step_many || c == envs->copies - 1;
}

/* Where the environment writes copy c's observations; ppo__check_written() copies them to envs->obs. */
PPO__TINY float *ppo__own_obs(const ppo__envs *envs, int c) {
    return envs->own_obs +
           c * (ppo__obs_block(envs) + (envs->env.step_many ? 0 : PPO__GUARD / sizeof(float)));
}

PPO__TINY float *ppo__obs(const ppo__envs *envs, int e) { return envs->obs + ppo__at(e, envs->env.obs_size); }

/* After states and observations were set from outside. */
PPO__RARE void ppo__envs_guard(ppo__envs *envs) {
    const size_t size = ppo__obs_block(envs);
    for (int c = 0; c < envs->copies; ++c) {
        float *own = ppo__own_obs(envs, c);
        memcpy(own, ppo__obs(envs, c * envs->agents), size * sizeof(float));
        if (!ppo__is_guarded(envs, c)) continue;
        memset(envs->state + c * envs->stride + envs->env.state_size, PPO__GUARD_BYTE, PPO__GUARD);
        memset(own + size, PPO__GUARD_BYTE, PPO__GUARD);
    }
}

/* An agent's name in messages. */
typedef struct ppo__agent_label {
    char text[64];
} ppo__agent_label;

static ppo__agent_label ppo__label_of(const ppo__envs *envs, int e) {
    ppo__agent_label place;
    int c = envs->first + e / envs->agents, used;
    used = snprintf(place.text, sizeof place.text, "%s %d",
                    ppo__is_pushed(&envs->env) ? "source" : "environment", c);
    if (envs->agents > 1)
        snprintf(place.text + used, sizeof place.text - used, ", agent %d", e % envs->agents);
    return place;
}

PPO_DEF void *ppo_env_user(void) { return ppo__running ? ppo__running->user : NULL; }
PPO_DEF void ppo_env_set_user(void *user) {
    if (ppo__running) ppo__running->user = user;
}

PPO_DEF PPO__PRINTF(1, 2) void ppo_env_fail(const char *format, ...) {
    va_list args;
    if (!ppo__running || ppo__running->failed) return; /* the first reason counts */
    va_start(args, format);
    vsnprintf(ppo__running->reason, sizeof ppo__running->reason, format ? format : "no reason is given",
              args);
    va_end(args);
    ppo__running->failed = 1;
}

/* Calls a function of the environment: action_mask if mask is not NULL; reset if n is 0; else step, for the n
   copies from c on (only step_many has several). */
static ppo_status ppo__env_call(ppo__envs *envs, int c, int n, unsigned char *mask) {
    const ppo_env *env = &envs->env;
    void *state = envs->state + c * envs->stride;
    ppo_rng *rng = &envs->rng[c];
    const ppo_action *actions = envs->action + c * envs->agents;
    float *obs = ppo__own_obs(envs, c);
    ppo_outcome *out = envs->outcome + c * envs->agents;
    const char *function;
    ppo__call call;
    ppo__call_begin(&call, env->user);
    if (!mask) memset(out, 0, ppo__at(n ? n : 1, envs->agents) * sizeof *out);
    if (mask) env->action_mask(state, mask), function = "action_mask";
    else if (!n && env->reset_all) env->reset_all(state, rng, obs, out), function = "reset_all";
    else if (!n) env->reset(state, rng, obs), function = "reset";
    else if (env->step_many) env->step_many(n, state, rng, actions, obs, out), function = "step_many";
    else if (env->step_all) env->step_all(state, rng, actions, obs, out), function = "step_all";
    else env->step(state, rng, actions, obs, out), function = "step";
    ppo__running = call.outer;
    if (!call.failed) return PPO_OK;
    if (n > 1)
        return ppo__refuse("env.%s failed (environments %d to %d): %s", function, envs->first + c,
                           envs->first + c + n - 1, call.reason);
    return ppo__refuse("env.%s failed (environment %d, step %d): %s", function, envs->first + c,
                       envs->age[c] + n, call.reason);
}

/* Calls env.open for copy c. The reason that it may give becomes part of the error; success leaves the last error. */
PPO__RARE ppo_status ppo__env_open(ppo__envs *envs, int c) {
    char before[PPO__ERROR_SIZE], reason[PPO__ERROR_SIZE];
    ppo__call call;
    if (!envs->env.open) return PPO_OK;
    memcpy(before, ppo__error, sizeof before);
    ppo__refuse("no reason given");
    ppo__call_begin(&call, envs->env.user);
    const int failed = envs->env.open(envs->state + c * envs->stride, envs->env.user, c);
    ppo__running = call.outer;
    if (!failed && !call.failed) return memcpy(ppo__error, before, sizeof before), PPO_OK;
    if (call.failed) ppo__refuse("%s", call.reason);
    memcpy(reason, ppo__error, sizeof reason);
    return ppo__refuse("env.open failed (environment %d): %.180s", envs->first + c, reason);
}

/* Another user of the same world, whose copies are open; NULL: there is none. */
static ppo__envs *ppo__world_user(const ppo__envs *envs) {
    const ppo_env *env = &envs->env;
    PPO__LOCK(&ppo__world_lock);
    ppo__envs *other = ppo__world_users;
    while (other && (other == envs || other->end == other->begin || other->env.user != env->user ||
                     other->env.reset != env->reset || other->env.reset_all != env->reset_all))
        other = other->next_user;
    PPO__UNLOCK(&ppo__world_lock);
    return other;
}

/* Opens the copies, unless they are open; env.copies: closes those of others first. */
PPO__RARE ppo_status ppo__envs_exist(ppo__envs *envs) {
    ppo_status status = PPO_OK;
    ppo__envs *other;
    while (envs->env.copies && envs->end < envs->own_end && (other = ppo__world_user(envs)) != NULL)
        ppo__envs_close(other);
    while (envs->end < envs->own_end && !status) {
        status = ppo__env_open(envs, envs->end);
        envs->end += !status;
    }
    return status;
}

/* Copy c draws from the stream (seed, purpose, first + c). In a group there is room for all copies, of which
   each process opens its own. Call ppo__envs_free() even after a failure. */
static ppo_status ppo__envs_open(ppo__envs *envs, const ppo_env *env, const ppo_group *group, int copies,
                                 uint64_t seed, uint32_t purpose, int first) {
    ppo__arena *memory = &envs->memory;
    const int agents = ppo__agents(env), count = copies * agents;
    const size_t obs = ppo__at(agents, env->obs_size) * sizeof(float);
    const size_t outputs = (size_t)ppo__space_outputs(&env->action_space);
    const int masked = env->action_mask && !ppo__kind(&env->action_space)->continuous;
    memset(envs, 0, sizeof *envs);
    envs->env = *env;
    envs->agents = agents;
    envs->copies = copies;
    envs->count = count;
    envs->first = first;
    envs->stride = ((env->state_size + PPO__GUARD) / PPO__ALIGN + 1) * PPO__ALIGN;
    envs->state = (char *)ppo__arena_zeros(memory, copies, envs->stride);
    if (env->step_many) envs->stride = env->state_size; /* which leaves room for the guard of the last */
    envs->rng = PPO__ARRAY(memory, ppo_rng, copies);
    envs->age = PPO__ZEROS(memory, int, copies);
    envs->turn = PPO__ZEROS(memory, unsigned char, count);
    envs->obs = PPO__ZEROS(memory, float, ppo__at(count, env->obs_size));
    envs->action = PPO__ZEROS(memory, ppo_action, count);
    envs->box = PPO__ARRAY(memory, float, ppo__at(count, env->action_space.n));
    envs->outcome = PPO__ZEROS(memory, ppo_outcome, count);
    envs->episode_return = PPO__ZEROS(memory, double, count);
    envs->length = PPO__ZEROS(memory, int, count);
    envs->steps = PPO__ZEROS(memory, int64_t, count);
    envs->own_obs = (float *)ppo__arena_array(memory, copies, obs + PPO__GUARD);
    if (masked || ppo__is_pushed(env)) envs->mask = PPO__ARRAY(memory, unsigned char, outputs *count);
    if (masked)
        envs->own_mask = (unsigned char *)ppo__arena_array(memory, copies, outputs * agents + PPO__GUARD);
    ppo_status status = ppo__arena_status(memory);
    if (!status) ppo__envs_guard(envs);
    for (int c = 0; c < copies && !status; ++c)
        envs->rng[c] = ppo_rng_stream(seed, purpose, (uint32_t)(first + c));
    envs->begin = envs->end = ppo__own_begin(group, copies);
    envs->own_end = ppo__own_end(group, copies);
    if (status) return status;
    if (env->copies) {
        PPO__LOCK(&ppo__world_lock);
        envs->next_user = ppo__world_users;
        ppo__world_users = envs;
        PPO__UNLOCK(&ppo__world_lock);
    }
    return ppo__envs_exist(envs);
}

/* For an environment with outside resources: room to replay its episodes, unless that is too much. */
static ppo_status ppo__envs_keep_actions(ppo__envs *envs) {
    const size_t words = ppo__played_words(&envs->env), copies = (size_t)envs->copies;
    if (!envs->env.open || envs->env.copies || !words || words > PPO__MOST_PLAYED / copies) return PPO_OK;
    envs->episode_rng = PPO__ZEROS(&envs->memory, ppo_rng, copies);
    envs->played = PPO__ZEROS(&envs->memory, uint32_t, copies * words);
    return ppo__arena_status(&envs->memory);
}

PPO__RARE PPO__NOINLINE ppo_status ppo__refuse_numbers(const float *x, const unsigned char *mask, int n,
                                                       const char *what, const ppo__envs *envs, int e,
                                                       int64_t step) {
    for (int j = 0; j < n || j == 0; ++j) {
        if ((mask && !mask[j]) || ppo__finite(x[j])) continue;
        char index[16] = "";
        const char *is = x[j] != x[j] ? "NaN" : x[j] > 0 ? "infinite" : "-infinite";
        if (n) snprintf(index, sizeof index, "[%d]", j);
        if (!envs) return ppo_fail(PPO_ERROR_NUMERIC, "%s%s is %s", what, index, is);
        return ppo_fail(PPO_ERROR_NUMERIC, "%s%s is %s (%s, step %lld)", what, index, is,
                        ppo__label_of(envs, e).text, (long long)step);
    }
    return PPO_OK;
}

/* x [n] must be finite numbers. n 0: a single number, which the error names without an index. envs NULL: the
   error names no agent. */
PPO__TINY ppo_status ppo__check_numbers(const float *x, int n, const char *what, const ppo__envs *envs, int e,
                                        int64_t step) {
    int finite = 1;
    for (int j = 0; j < n || j == 0; ++j) finite &= ppo__finite(x[j]);
    return finite ? PPO_OK : ppo__refuse_numbers(x, NULL, n, what, envs, e, step);
}

/* The same for a row of the policy's outputs, but those of illegal actions (mask 0; NULL: none) are -INFINITY. */
static ppo_status ppo__check_outputs(const ppo_outputs *out, int row, const unsigned char *mask,
                                     const ppo__envs *envs, int e, int64_t step) {
    const int n = out->policy->cols;
    const float *x = out->policy->data + ppo__at(row, n);
    int finite = 1;
    if (mask) mask += ppo__at(row, n);
    for (int j = 0; j < n; ++j) finite &= (mask && !mask[j]) || ppo__finite(x[j]);
    if (!finite) return ppo__refuse_numbers(x, mask, n, "policy output", envs, e, step);
    if (!out->log_std) return PPO_OK;
    return ppo__check_numbers(ppo__log_std_row(out->log_std, row), n, "log_std", envs, e, step);
}
PPO__COLD_END

/* The byte that times scale is nearest to x. */
PPO__TINY float ppo__to_byte(float x, float scale) { return ppo__clamp(rintf(x / scale), 0, 255); }

/* Makes obs [obs_size] agent e's latest observation. Errors: a number is not finite; with env.byte_scale: it
   is not near a byte times that. Otherwise it is rounded to that. */
static ppo_status ppo__keep_obs(ppo__envs *envs, int e, int64_t step, const float *obs) {
    const int size = envs->env.obs_size, bytes = ppo__byte_count(&envs->env);
    const float scale = envs->env.byte_scale;
    float *to = ppo__obs(envs, e);
    ppo_status status = ppo__check_numbers(obs, size, "observation", envs, e, step);
    if (status) return status;
    memcpy(to, obs, (size_t)size * sizeof(float));
    for (int j = 0; j < bytes; ++j) {
        to[j] = ppo__to_byte(obs[j], scale) * scale;
        if (fabsf(obs[j] - to[j]) <= 1e-3f * scale) continue;
        return ppo__refuse("observation[%d] is %g (%s, step %lld): with env.byte_scale %g it must be a whole "
                           "number from 0 to 255 times that",
                           j, (double)obs[j], ppo__label_of(envs, e).text, (long long)step, (double)scale);
    }
    return PPO_OK;
}

/* After a call of reset or step: checks the guard bytes, and takes the observations, which must be finite. */
static ppo_status ppo__check_written(ppo__envs *envs, int c) {
    const ppo_env *env = &envs->env;
    const float *own = ppo__own_obs(envs, c);
    const int from = c * envs->agents, guarded = ppo__is_guarded(envs, c);
    ppo_status status = PPO_OK;
    if (guarded && !ppo__guard_holds(envs->state + c * envs->stride + env->state_size))
        return ppo__refuse("environment %d wrote beyond its state: env.state_size is %.0f bytes",
                           envs->first + c, (double)env->state_size);
    if (guarded && !ppo__guard_holds(own + ppo__obs_block(envs)))
        return ppo__refuse("environment %d wrote beyond its observation: env.obs_size is %d, env.agents %d",
                           envs->first + c, env->obs_size, env->agents);
    for (int e = from; e < from + envs->agents && !status; ++e, own += env->obs_size) {
        const int read = envs->turn[e] == PPO__ACTS || envs->outcome[e].truncated;
        if (read) status = ppo__keep_obs(envs, e, envs->steps[e], own);
        else if (envs->agents == 1) memcpy(ppo__obs(envs, e), own, (size_t)env->obs_size * sizeof(float));
    }
    return status;
}
PPO__COLD

/* Agent e's episode begins with length and return 0. */
static void ppo__agent_begins(ppo__envs *envs, int e) { envs->length[e] = 0, envs->episode_return[e] = 0; }

/* A new episode of copy c: its first observations, and who acts. */
static ppo_status ppo__env_reset(ppo__envs *envs, int c) {
    int in = 0;
    envs->age[c] = 0;
    if (envs->episode_rng) envs->episode_rng[c] = envs->rng[c];
    ppo_status status = ppo__env_call(envs, c, 0, NULL);
    if (status) return status;
    for (int e = c * envs->agents; e < (c + 1) * envs->agents; ++e) {
        const ppo_outcome *out = &envs->outcome[e];
        envs->turn[e] = out->terminated || out->truncated ? PPO__OUT : out->waits ? PPO__WAITS : PPO__ACTS;
        in |= envs->turn[e];
        ppo__agent_begins(envs, e);
    }
    if (!in) return ppo__refuse("env.reset_all left every agent out (environment %d)", envs->first + c);
    return ppo__check_written(envs, c);
}

/* Counts what followed agent e's latest action; terminated wins over truncated. */
static ppo_status ppo__count_outcome(ppo__envs *envs, int e, ppo_outcome *out) {
    ++envs->steps[e];
    if (envs->length[e] < INT_MAX) ++envs->length[e];
    envs->episode_return[e] += out->reward;
    if (out->terminated) out->truncated = 0;
    ppo_status status = ppo__check_numbers(&out->reward, 0, "reward", envs, e, envs->steps[e]);
    if (!status && fabs(envs->episode_return[e]) > (double)FLT_MAX)
        status =
            ppo_fail(PPO_ERROR_NUMERIC, "reward %g is too large: the episode's return is %g (%s, step %lld)",
                     (double)out->reward, envs->episode_return[e], ppo__label_of(envs, e).text,
                     (long long)envs->steps[e]);
    return status;
}

/* 1: every agent of copy c is out, so it must be reset. */
PPO__TINY int ppo__env_is_over(const ppo__envs *envs, int c) {
    int in = 0;
    for (int e = c * envs->agents; e < (c + 1) * envs->agents; ++e) in |= envs->turn[e];
    return !in;
}

/* One step of copy c with the actions in envs->action, then the time limit and the checks. step_many steps
   all copies from c to the next one that is over, or to `end`; *stepped is the first copy that has not been
   stepped yet. Of the outcomes of agents that were out only `joins` counts. */
static ppo_status ppo__env_step(ppo__envs *envs, int c, int end, int *stepped) {
    const ppo_env *env = &envs->env;
    const int agents = envs->agents, from = c * agents;
    const size_t width = (size_t)ppo__space_width(&env->action_space);
    ppo_status status = PPO_OK;
    if (c >= *stepped) {
        int n = 1;
        while (env->step_many && c + n < end && !ppo__env_is_over(envs, c + n)) ++n;
        for (int e = from; e < from + n * agents; ++e) {
            ppo_action *action = &envs->action[e];
            if (envs->turn[e] != PPO__ACTS) memset(action, 0, sizeof *action);
            if (!envs->played) continue;
            const int copy = e / agents;
            const void *numbers = action->box ? (const void *)action->box : (const void *)action->choices;
            uint32_t *played = envs->played + (size_t)copy * ppo__played_words(env) +
                               ((size_t)envs->age[copy] * agents + e % agents) * width;
            if (numbers) memcpy(played, numbers, width * sizeof(uint32_t));
            else memset(played, 0, width * sizeof(uint32_t));
        }
        status = ppo__env_call(envs, c, n, NULL);
        *stepped = c + n;
    }
    if (envs->age[c] < INT_MAX) ++envs->age[c];
    const int late = env->max_steps && envs->age[c] >= env->max_steps; /* nobody stays, or joins */
    for (int e = from; e < from + agents && !status; ++e) {
        ppo_outcome *out = &envs->outcome[e];
        out->joins = out->joins && !late;
        const int waits = out->waits ? PPO__WAITS : PPO__ACTS;
        if (envs->turn[e] == PPO__OUT) {
            const ppo_outcome joins = {0, 0, 0, out->waits, out->joins, {0}};
            *out = joins;
            envs->turn[e] = (unsigned char)(out->joins ? waits : (int)PPO__OUT);
            continue;
        }
        if (late) out->truncated = 1;
        status = ppo__count_outcome(envs, e, out);
        out->joins = out->joins && out->terminated; /* a new episode at once */
        const int leaves = (out->terminated || out->truncated) && !out->joins;
        envs->turn[e] = (unsigned char)(leaves ? (int)PPO__OUT : waits);
    }
    return status ? status : ppo__check_written(envs, c);
}

/* Which actions are legal for the agents of copy c, a byte per output of the policy. */
static ppo_status ppo__env_mask(ppo__envs *envs, int c) {
    const int agents = envs->agents;
    const size_t n = (size_t)ppo__space_outputs(&envs->env.action_space);
    unsigned char *own = envs->own_mask + c * (agents * n + PPO__GUARD);
    memset(own, 1, agents * n);
    memset(own + agents * n, PPO__GUARD_BYTE, PPO__GUARD);
    ppo_status status = ppo__env_call(envs, c, 0, own);
    if (status) return status;
    if (!ppo__guard_holds(own + agents * n))
        return ppo__refuse("env.action_mask wrote beyond its mask of %.0f options (environment %d)",
                           (double)(agents * n), envs->first + c);
    memcpy(envs->mask + c * agents * n, own, agents * n);
    for (int e = c * agents; e < (c + 1) * agents; ++e) {
        if (envs->turn[e] != PPO__ACTS) continue;
        int choice = ppo__choice_without_action(&envs->env.action_space, envs->mask + e * n);
        if (choice >= 0)
            return ppo__refuse("env.action_mask leaves no action (choice %d, %s, step %lld)", choice,
                               ppo__label_of(envs, e).text, (long long)envs->steps[e]);
    }
    return PPO_OK;
}

/* -- rollouts and minibatches: the same columns. A minibatch is a rollout of one step, its "environments" samples -- */

/* What a column is for: what an agent saw and did, and what a gradient needs. */
enum { PPO__FOR_ACTING = 1, PPO__FOR_LEARNING = 2, PPO__FOR_BOTH = 3, PPO__FOR_ALL = 0 };

enum { PPO__COLUMNS = 23 };
typedef struct ppo__column {
    size_t pointer; /* where the pointer is in ppo_rollout */
    size_t bytes;   /* per sample; 0: the column is not kept */
    int uses;
} ppo__column;

#define PPO__COLUMN(name, count, uses) \
    { offsetof(ppo_rollout, name), (size_t)(count) * sizeof(*((ppo_rollout *)0)->name), uses }

/* recurrent: numbers of the recurrent state. */
static void ppo__columns(const ppo_actor_critic *model, const ppo_env *env, const ppo_config *config,
                         int recurrent, ppo__column *columns) {
    const ppo_space *space = &model->action_space;
    int floats = ppo__kind(space)->continuous, width = ppo__space_width(space);
    int outputs = ppo__space_outputs(space);
    int masked = env->action_mask || ppo__is_pushed(env);
    int keep_policy = config->objective == PPO_KL_PENALTY, keep_next = config->recompute_advantages;
    const int bytes = config->normalize_obs ? 0 : ppo__byte_count(env);
    const ppo__column all[] = {PPO__COLUMN(obs, model->obs_size - bytes, PPO__FOR_BOTH),
                               PPO__COLUMN(obs_bytes, bytes, PPO__FOR_BOTH),
                               PPO__COLUMN(actions.discrete, floats ? 0 : width, PPO__FOR_BOTH),
                               PPO__COLUMN(actions.box, floats ? width : 0, PPO__FOR_BOTH),
                               PPO__COLUMN(mask, masked && !floats ? outputs : 0, PPO__FOR_BOTH),
                               PPO__COLUMN(logp, 1, PPO__FOR_BOTH),
                               PPO__COLUMN(value, 1, PPO__FOR_LEARNING),
                               PPO__COLUMN(policy, keep_policy ? outputs : 0, PPO__FOR_BOTH),
                               PPO__COLUMN(log_std, keep_policy && floats ? width : 0, PPO__FOR_BOTH),
                               PPO__COLUMN(state, recurrent, PPO__FOR_BOTH),
                               PPO__COLUMN(start, recurrent ? 1 : 0, PPO__FOR_BOTH),
                               PPO__COLUMN(reward, 1, 0),
                               PPO__COLUMN(raw_reward, config->normalize_reward ? 1 : 0, 0),
                               PPO__COLUMN(next_value, 1, 0),
                               PPO__COLUMN(next_obs, keep_next ? model->obs_size : 0, 0),
                               PPO__COLUMN(next_state, keep_next ? recurrent : 0, 0),
                               PPO__COLUMN(terminated, 1, 0),
                               PPO__COLUMN(truncated, 1, 0),
                               PPO__COLUMN(episode_return, 1, 0),
                               PPO__COLUMN(episode_length, 1, 0),
                               PPO__COLUMN(metrics, ppo__metric_count(env), 0),
                               PPO__COLUMN(advantage, 1, PPO__FOR_LEARNING),
                               PPO__COLUMN(value_target, 1, PPO__FOR_LEARNING)};
    PPO__ASSERT(sizeof all == PPO__COLUMNS * sizeof *all);
    memcpy(columns, all, sizeof all);
}

static char *ppo__column_data(const ppo_rollout *rollout, const ppo__column *column) {
    char *data;
    memcpy(&data, (const char *)rollout + column->pointer, sizeof data);
    return data;
}

/* Allocates steps * envs samples. uses: only the columns for this, or PPO__FOR_ALL. Then ask ppo__arena_status(). */
static void ppo__rollout_alloc(ppo_rollout *rollout, ppo__arena *memory, const ppo__column *columns,
                               const ppo_env *env, int steps, int envs, int uses) {
    memset(rollout, 0, sizeof *rollout);
    rollout->steps = steps;
    rollout->envs = envs;
    rollout->byte_scale = env->byte_scale;
    rollout->byte_count = ppo__byte_count(env);
    for (int i = 0; i < PPO__COLUMNS; ++i) {
        if (!columns[i].bytes || (uses && !(columns[i].uses & uses))) continue;
        void *data = ppo__arena_zeros(memory, ppo__at(steps, envs), columns[i].bytes);
        memcpy((char *)rollout + columns[i].pointer, &data, sizeof data);
    }
}

/* Copies what was decided in row `from` of one into row `to` of the other. */
static void ppo__copy_decided(const ppo_rollout *rows, int from, const ppo__column *columns,
                              ppo_rollout *rollout, size_t to) {
    for (int c = 0; c < PPO__COLUMNS; ++c) {
        size_t bytes = columns[c].bytes;
        if (bytes && columns[c].uses & PPO__FOR_ACTING)
            memcpy(ppo__column_data(rollout, &columns[c]) + to * bytes,
                   ppo__column_data(rows, &columns[c]) + from * bytes, bytes);
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

/* What the networks read of samples side by side, one step of each. */
static ppo_inputs ppo__inputs_of(const ppo_rollout *s) {
    const ppo_inputs inputs = {s->envs,      s->obs,        s->mask,      {0, NULL, s->state, s->start},
                               s->obs_bytes, s->byte_scale, s->byte_count};
    return inputs;
}

/* The same, of observations and recurrent states alone. */
static ppo_inputs ppo__inputs_now(int n, const float *obs, const float *state) {
    const ppo_inputs inputs = {n, obs, NULL, {0, NULL, state, NULL}, NULL, 0, 0};
    return inputs;
}

/* -- the collector -- */

typedef struct ppo__collector ppo__collector;

/* What a group adds to control: ppo_group.h. */
typedef struct ppo__control_group {
    ppo_status (*share_rollout)(ppo__collector *collector);
    size_t (*agent_bytes)(ppo__collector *collector); /* of an agent's part of a rollout */
    ppo_status (*share_gradient)(ppo_trainer *trainer, ppo_status status); /* of a minibatch */
    ppo_status (*agree)(ppo_trainer **trainer, ppo_status status);         /* as ppo__trainer_agree() */
} ppo__control_group;
PPO__COMPANION(ppo__control_group, ppo__control_in_group);

/* A part of the copies, and the thread that steps them. */
typedef struct ppo__worker {
    ppo__collector *collector;
    int begin, end; /* its copies of the environment */
    ppo_tape *tape;
    ppo_rollout rows; /* [1][agents of these] the samples of one step, side by side */
    int *acting;      /* [agents of these] those that act now */
    int step;         /* of the rollout that it is at; -1: resets */
    /* its first failure, and when that was: the earliest of all workers' is reported, for any number of them */
    ppo_status status;
    int order;
    char error[PPO__ERROR_SIZE];
} ppo__worker;

/* What a worker does in a step, in this order. */
enum { PPO__MASKS, PPO__POLICY, PPO__OUTPUTS, PPO__ENVIRONMENTS, PPO__PHASES };

static void ppo__enter(ppo__worker *worker, int phase) { worker->order = worker->step * PPO__PHASES + phase; }

/* The latest row of an agent's column. COMPLETE: its outcome is known, or there is no row yet. OPEN: its outcome
   is still to come. LAST: the column is full, and the agent acts on, unrecorded. */
enum { PPO__ROW_COMPLETE, PPO__ROW_OPEN, PPO__ROW_LAST };

struct ppo__collector {
    ppo_agent *agent;              /* whose policy acts */
    const ppo_actor_critic *model; /* its own */
    const ppo_config *config;
    int width;   /* of the widest core among those that act */
    int greedy;  /* 1: the most likely actions, not sampled ones */
    int records; /* 1: what happens is recorded; 0: the rollout is complete, or it is an evaluation */
    const ppo_group *group; /* whose processes have a part of the environments each; NULL: there is none */

    ppo__arena memory;
    ppo__envs envs;
    ppo__column columns[PPO__COLUMNS];
    ppo_rollout rollout;

    /* of each agent, [envs] */
    unsigned char *row;     /* PPO__ROW_COMPLETE, ... */
    unsigned char *carried; /* 1: row 0 was open at the end of the rollout before, */
    ppo_rollout held;     /* [1][envs] where such rows are meanwhile; without several agents there are none */
    float *earned;        /* since the latest action */
    float *discounted;    /* running discounted return */
    unsigned char *start; /* 1: the next row is the first of an episode */
    float *state;         /* recurrent: [envs][width], after the latest action */
    float *noise;         /* gsde: [envs][features][n], the exploration matrices */
    ppo_rng *action_rng;
    /* normalize_obs, normalize_reward: statistics of this rollout; merged into the agent's afterwards */
    ppo_normalizer *seen_obs, *seen_return;
    float *view; /* [envs][obs_size] latest observations as the critic sees them, for ppo__view() */

    ppo__pool *pool;
    ppo__worker *workers; /* [worker_count] */
    int worker_count;
    ppo_status (*task)(ppo__worker *worker); /* what they do now */
    char *packed;                            /* in a group: what its processes exchange after a rollout */

    /* self-play: earlier policies, which the trainer owns, play some teams in some episodes, not learned from */
    ppo_agent **snapshots;  /* [snapshot_room], the latest snapshot_count that were taken */
    int snapshot_room;      /* 0: no self-play */
    int64_t snapshot_count; /* taken so far */
    float latest;           /* share of the episodes in which all teams are the learner's */
    ppo_rng *match_rng;     /* [copies] */
    int *player;            /* [envs] number of the snapshot; -1: the learner */
};

/* -- collecting a rollout -- */

static ppo_status ppo__workers_run(ppo__collector *collector, ppo_status (*task)(ppo__worker *worker));
static void ppo__rollout_begin(ppo__collector *c, int steps);
static ppo_status ppo__collect_steps(ppo__worker *worker);
static ppo_status ppo__begin_copy(ppo__collector *c, int k);
static void ppo__begin_episode(ppo__collector *c, int e);
static void ppo__track_obs(ppo__collector *c, int e);
static ppo_status ppo__act(ppo__worker *worker);
static ppo_status ppo__record_outcome(ppo__worker *worker, int e, const ppo_outcome *out);
static ppo_status ppo__rollout_end(ppo__collector *c);

/* One rollout of `steps` steps of every environment, without advantages. */
static ppo_status ppo__collect(ppo__collector *collector, int steps) {
    ppo_status status = PPO_OK;
    if (collector->envs.env.copies)
        status = ppo__group_agree(collector->group, ppo__envs_exist(&collector->envs), 0);
    if (status) return status;
    ppo__rollout_begin(collector, steps);
    status = ppo__workers_run(collector, ppo__collect_steps);
    return status ? status : ppo__rollout_end(collector);
}

/* Takes a worker's copies through the rollout. In each step agents act, environments answer, and a copy whose
   agents are all out begins anew. */
static ppo_status ppo__collect_steps(ppo__worker *worker) {
    ppo__collector *c = worker->collector;
    ppo__envs *envs = &c->envs;
    const int agents = envs->agents, begin = worker->begin, end = worker->end;
    ppo_status status = PPO_OK;
    worker->step = -1;
    ppo__enter(worker, PPO__ENVIRONMENTS);
    for (int k = begin; k < end && !status; ++k)
        if (ppo__env_is_over(envs, k)) status = ppo__begin_copy(c, k);
    for (int t = 0; t < c->rollout.steps && !status; ++t) {
        int stepped = 0;
        worker->step = t;
        status = ppo__act(worker);
        if (status) break;
        ppo__enter(worker, PPO__ENVIRONMENTS);
        for (int k = begin; k < end && !status; ++k) {
            status = ppo__env_step(envs, k, end, &stepped);
            for (int e = k * agents; e < (k + 1) * agents && !status; ++e) {
                const ppo_outcome *out = &envs->outcome[e];
                if (envs->length[e]) status = ppo__record_outcome(worker, e, out); /* it took part */
                if (out->joins) ppo__begin_episode(c, e);
                else if (envs->turn[e] == PPO__OUT) envs->length[e] = 0;
                else if (envs->turn[e] == PPO__ACTS) ppo__track_obs(c, e);
            }
            if (!status && ppo__env_is_over(envs, k)) status = ppo__begin_copy(c, k);
        }
    }
    return status;
}

/* Before a rollout of `steps` steps: empties the columns, except for rows that are still open. */
static void ppo__rollout_begin(ppo__collector *c, int steps) {
    const size_t samples = ppo__at(steps, c->rollout.envs) * sizeof(float);
    c->rollout.steps = steps;
    c->records = 1;
    if (c->rollout.next_obs) memset(c->rollout.next_obs, 0, samples * c->model->obs_size);
    if (c->rollout.next_state) memset(c->rollout.next_state, 0, samples * c->model->core.width);
    for (int e = 0; e < c->envs.count; ++e) {
        const int open = c->held.envs && c->row[e] == PPO__ROW_OPEN && c->envs.turn[e] != PPO__OUT;
        if (open) ppo__copy_decided(&c->held, e, c->columns, &c->rollout, (size_t)e);
        else c->row[e] = PPO__ROW_COMPLETE;
        c->rollout.recorded[e] = c->carried[e] = (unsigned char)open;
        if (c->seen_obs) ppo__normalizer_reset(&c->seen_obs[e]);
        if (c->seen_return) ppo__normalizer_reset(&c->seen_return[e]);
    }
}

/* Resets copy k. With self-play, either all its agents are the learner's, or those of one team are, and an
   earlier policy plays the others. */
static ppo_status ppo__begin_copy(ppo__collector *c, int k) {
    const int agents = c->envs.agents, teams = c->envs.env.teams;
    ppo_status status = ppo__env_reset(&c->envs, k);
    int opponent = -1, team = 0;
    if (c->snapshot_room && ppo_rng_uniform(&c->match_rng[k]) >= c->latest && c->snapshot_count) {
        opponent =
            ppo_rng_below(&c->match_rng[k],
                          c->snapshot_count < c->snapshot_room ? (int)c->snapshot_count : c->snapshot_room);
        team = ppo_rng_below(&c->match_rng[k], teams);
    }
    for (int i = 0; i < agents && !status; ++i) {
        c->player[k * agents + i] = i * teams / agents == team ? -1 : opponent;
        ppo__begin_episode(c, k * agents + i);
    }
    return status;
}

/* Begins agent e's episode, in which it may have to wait at first. */
static void ppo__begin_episode(ppo__collector *c, int e) {
    ppo__agent_begins(&c->envs, e);
    c->start[e] = 1;
    c->discounted[e] = c->earned[e] = 0;
    if (c->envs.turn[e] == PPO__ACTS) ppo__track_obs(c, e);
}

/* The policy that plays agent e. */
static const ppo_agent *ppo__player(const ppo__collector *c, int e) {
    return c->player[e] < 0 ? c->agent : c->snapshots[c->player[e]];
}

/* normalize_obs: takes agent e's latest observation into the statistics of the learner. */
static void ppo__track_obs(ppo__collector *c, int e) {
    if (c->seen_obs && c->player[e] < 0) ppo_normalizer_update(&c->seen_obs[e], ppo__obs(&c->envs, e), 1);
}

/* Agent e's latest observation as its policy sees it. In the first rollout of all there are no statistics yet:
   each agent's own are used, of its observations up to this one, as no other thread knows those. */
static void ppo__player_view(ppo__collector *c, const ppo_agent *player, int e, float *view) {
    const int first = c->seen_obs && player->obs_norm.size && !(player->obs_norm.count > 0);
    ppo__normalized(first ? &c->seen_obs[e] : &player->obs_norm, player->clip_obs, ppo__obs(&c->envs, e), 1,
                    c->envs.env.obs_size, view);
}

/* The same as the critic sees it. */
static const float *ppo__view(ppo__collector *c, int e) {
    float *view = c->view + ppo__at(e, c->envs.env.obs_size);
    ppo__player_view(c, c->agent, e, view);
    return view;
}
PPO__COLD_END

/* -- acting. A batch of agents that the same policy plays -- */

typedef struct ppo__acting {
    const ppo_agent *player;
    const int *agent; /* [n] */
    int n;
    int records;      /* 1: the learner's, whose rows are recorded while their columns have room */
    int in_place;     /* 1: `rows` are those of the rollout; 0: the worker's, to be copied there */
    ppo_rollout rows; /* what they see and do, side by side */
    ppo_outputs out;
} ppo__acting;

static ppo_status ppo__act_batch(ppo__worker *worker, ppo__acting *batch, int from);
static ppo_status ppo__fill_rows(ppo__worker *worker, ppo__acting *batch, int from);
static ppo_status ppo__choose_actions(ppo__worker *worker, ppo__acting *batch);
static ppo_status ppo__record_actions(ppo__worker *worker, ppo__acting *batch);
static ppo_status ppo__value_latest(ppo__worker *worker, int e);

/* The agents of the worker whose turn it is choose their actions. */
static ppo_status ppo__act(ppo__worker *worker) {
    ppo__collector *c = worker->collector;
    ppo__envs *envs = &c->envs;
    const int agents = envs->agents;
    ppo_status status = PPO_OK;
    ppo__enter(worker, PPO__MASKS);
    for (int k = worker->begin; k < worker->end && envs->own_mask && !status; ++k)
        if (!ppo__env_is_over(envs, k)) status = ppo__env_mask(envs, k);
    for (int player = -1, from = 0; player < c->snapshot_room && !status; ++player) {
        ppo__acting batch;
        int n = 0;
        for (int e = worker->begin * agents; e < worker->end * agents; ++e)
            if (envs->turn[e] == PPO__ACTS && c->player[e] == player) worker->acting[n++] = e;
        batch.agent = worker->acting;
        batch.n = n;
        if (n) status = ppo__act_batch(worker, &batch, from);
        from += n;
    }
    return status;
}

/* batch: agent and n are set. from: where their rows are among the worker's. */
static ppo_status ppo__act_batch(ppo__worker *worker, ppo__acting *batch, int from) {
    batch->player = ppo__player(worker->collector, batch->agent[0]);
    batch->records = worker->collector->player[batch->agent[0]] < 0 && worker->collector->records;
    ppo_status status = ppo__fill_rows(worker, batch, from);
    if (!status) status = ppo__choose_actions(worker, batch);
    if (!status && batch->records) status = ppo__record_actions(worker, batch);
    return status;
}

/* Rows of the rollout, if the agents' next rows are side by side there; otherwise the worker's from `from`
   on. A source's action must outlast the rollout, so it is never in a row of it. */
static ppo_rollout ppo__batch_rows(const ppo__worker *worker, ppo__acting *batch, int from) {
    const ppo__collector *c = worker->collector;
    const int first = batch->agent[0], t = c->rollout.recorded[first];
    batch->in_place = batch->records && !ppo__is_pushed(&c->envs.env) && t < c->rollout.steps &&
                      batch->agent[batch->n - 1] == first + batch->n - 1;
    for (int i = 0; i < batch->n; ++i) batch->in_place &= c->rollout.recorded[batch->agent[i]] == t;
    return batch->in_place
               ? ppo__some_samples(&c->rollout, c->columns, ppo__at(t, c->rollout.envs) + first, batch->n)
               : ppo__some_samples(&worker->rows, c->columns, (size_t)from, batch->n);
}

/* Writes what the agents see into their rows. Where a column is full and its agent acts on, sets
   next_value of the last row. */
static ppo_status ppo__fill_rows(ppo__worker *worker, ppo__acting *batch, int from) {
    ppo__collector *c = worker->collector;
    const ppo_actor_critic *model = &batch->player->model;
    const size_t size = (size_t)model->obs_size, width = (size_t)model->core.width;
    const size_t outputs = (size_t)ppo__space_outputs(&model->action_space);
    ppo_rollout rows = batch->rows = ppo__batch_rows(worker, batch, from);
    for (int i = 0; i < batch->n; ++i) {
        const int e = batch->agent[i];
        const float *obs = ppo__obs(&c->envs, e);
        const size_t bytes = rows.obs_bytes ? (size_t)rows.byte_count : 0;
        if (batch->records && c->row[e] != PPO__ROW_LAST && c->rollout.recorded[e] == c->rollout.steps) {
            const size_t last = ppo__at(c->rollout.steps - 1, c->rollout.envs) + e;
            const int continues =
                c->rollout.steps && !c->rollout.terminated[last] && !c->rollout.truncated[last];
            ppo_status status = continues ? ppo__value_latest(worker, e) : PPO_OK;
            c->row[e] = PPO__ROW_LAST;
            if (status) return status;
        }
        if (rows.obs && !bytes) ppo__player_view(c, batch->player, e, rows.obs + i * size);
        else if (rows.obs) /* bytes are not normalized */
            memcpy(rows.obs + i * (size - bytes), obs + bytes, (size - bytes) * sizeof(float));
        for (size_t j = 0; j < bytes; ++j)
            rows.obs_bytes[i * bytes + j] = (unsigned char)ppo__to_byte(obs[j], rows.byte_scale);
        if (rows.mask) memcpy(rows.mask + i * outputs, c->envs.mask + e * outputs, outputs);
        if (!width) continue;
        memcpy(rows.state + i * width, c->state + ppo__at(e, c->width), width * sizeof(float));
        rows.start[i] = c->start[e];
    }
    return PPO_OK;
}

/* gsde: agent e's exploration matrix, renewed every gsde_steps of its rows, or once per rollout; or NULL. */
static const float *ppo__exploration(ppo__collector *c, const ppo_actor_critic *model, int e) {
    const int age = c->rollout.recorded[e] - c->carried[e], every = c->config->gsde_steps;
    if (!c->noise) return NULL;
    const size_t n = ppo__size(model->log_std);
    float *noise = c->noise + e * n;
    for (size_t j = 0; j < n && (every ? age % every == 0 : age == 0); ++j)
        noise[j] = expf(ppo__log_std_at(model, j)) * ppo_rng_normal(&c->action_rng[e]);
    return noise;
}

/* The policy's outputs for all rows, and from them each agent's action. */
static ppo_status ppo__choose_actions(ppo__worker *worker, ppo__acting *batch) {
    ppo__collector *c = worker->collector;
    ppo__envs *envs = &c->envs;
    const ppo_actor_critic *model = &batch->player->model;
    const size_t width = (size_t)model->core.width;
    ppo__enter(worker, PPO__POLICY);
    batch->out = ppo__forward_once(worker->tape, model, ppo__inputs_of(&batch->rows), PPO_POLICY);
    ppo_status status = ppo_tape_status(worker->tape);
    const ppo__distribution d = ppo__distribution_of(model, &batch->out);
    for (int i = 0; i < batch->n && !status; ++i) {
        const int e = batch->agent[i];
        status = ppo__check_outputs(&batch->out, i, batch->rows.mask, envs, e, envs->steps[e]);
        if (status) break;
        const float *noise = ppo__exploration(c, model, e);
        ppo__choose_action(&d, batch->out.features, i, c->greedy ? NULL : &c->action_rng[e], noise,
                           &batch->rows.actions, (size_t)i, envs->box + ppo__at(e, model->action_space.n),
                           &envs->action[e]);
        if (width)
            memcpy(c->state + ppo__at(e, c->width), batch->out.state->data + i * width,
                   width * sizeof(float));
        c->start[e] = 0;
    }
    return status;
}

/* Adds log-probabilities to the rows and counts them; their outcomes are still to come. */
static ppo_status ppo__record_actions(ppo__worker *worker, ppo__acting *batch) {
    ppo__collector *c = worker->collector;
    const ppo__envs *envs = &c->envs;
    const ppo_outputs *out = &batch->out;
    const size_t outputs = (size_t)ppo__space_outputs(&c->model->action_space);
    ppo_rollout rows = batch->rows;
    ppo_tensor *logp = NULL;
    ppo__enter(worker, PPO__OUTPUTS);
    ppo_actor_critic_logp(worker->tape, c->model, out, &rows.actions, &logp, NULL);
    ppo_status status = ppo_tape_status(worker->tape);
    for (int i = 0; i < batch->n && !status; ++i) {
        const int e = batch->agent[i], t = c->rollout.recorded[e];
        rows.logp[i] = logp->data[i];
        if (rows.policy)
            memcpy(rows.policy + i * outputs, out->policy->data + i * outputs, outputs * sizeof(float));
        if (rows.log_std)
            memcpy(rows.log_std + i * outputs, ppo__log_std_row(out->log_std, i), outputs * sizeof(float));
        status = ppo__check_numbers(&logp->data[i], 0, "log-probability", envs, e, envs->steps[e]);
        if (status || t == c->rollout.steps) continue;
        if (!batch->in_place)
            ppo__copy_decided(&rows, i, c->columns, &c->rollout, ppo__at(t, c->rollout.envs) + e);
        ++c->rollout.recorded[e];
        c->row[e] = PPO__ROW_OPEN;
    }
    return status;
}

/* -- outcomes -- */

/* normalize_reward: takes agent e's discounted return into the statistics of the learner. */
static void ppo__track_return(ppo__collector *c, int e, float reward, int done) {
    if (!c->seen_return || c->player[e] >= 0) return;
    c->discounted[e] = c->discounted[e] * c->config->gamma + reward;
    if (c->row[e] == PPO__ROW_OPEN) ppo_normalizer_update(&c->seen_return[e], &c->discounted[e], 1);
    if (done) c->discounted[e] = 0;
}

/* What agent e earned in the latest step, and whether its episode ended. Once it acts again or its episode is
   over, that completes the row of its latest action: reward, flags, and where the episode was truncated V of the
   last observation. */
static ppo_status ppo__record_outcome(ppo__worker *worker, int e, const ppo_outcome *out) {
    ppo__collector *c = worker->collector;
    ppo__envs *envs = &c->envs;
    ppo_rollout *rollout = &c->rollout;
    const int done = out->terminated || out->truncated;
    const float raw = c->earned[e] += out->reward;
    if (out->waits && !done) return PPO_OK;
    c->earned[e] = 0;
    ppo__track_return(c, e, raw, done);
    if (c->row[e] != PPO__ROW_OPEN) return PPO_OK;
    c->row[e] = PPO__ROW_COMPLETE;
    size_t at = ppo__at(rollout->recorded[e] - 1, rollout->envs) + e;
    rollout->reward[at] = raw;
    if (rollout->raw_reward) rollout->raw_reward[at] = raw;
    rollout->terminated[at] = out->terminated != 0;
    rollout->truncated[at] = out->truncated != 0;
    rollout->next_value[at] = 0;
    rollout->episode_return[at] = (float)envs->episode_return[e];
    rollout->episode_length[at] = done ? envs->length[e] : 0;
    for (int k = 0, n = ppo__metric_count(&envs->env); k < n; ++k)
        rollout->metrics[at * n + k] = out->metrics[k];
    return out->truncated ? ppo__value_latest(worker, e) : PPO_OK;
}

/* recompute_advantages: keeps what follows sample `at`. */
static void ppo__keep_next(ppo__collector *c, size_t at, const float *obs, const float *state) {
    const size_t size = (size_t)c->model->obs_size, width = (size_t)c->model->core.width;
    if (!c->config->recompute_advantages) return;
    memcpy(c->rollout.next_obs + at * size, obs, size * sizeof(float));
    if (width) memcpy(c->rollout.next_state + at * width, state, width * sizeof(float));
}

/* Sets the next value of sample `at` to V of an observation. */
static ppo_status ppo__value_next(ppo__worker *worker, size_t at, const float *obs, const float *state) {
    ppo__collector *c = worker->collector;
    if (!c->config->use_critic) return PPO_OK;
    ppo_outputs out = ppo__forward_once(worker->tape, c->model, ppo__inputs_now(1, obs, state), PPO_VALUE);
    if (!out.value) return ppo_tape_status(worker->tape);
    c->rollout.next_value[at] = out.value->data[0];
    return PPO_OK;
}

/* Sets the next value of agent e's latest row to V of its latest observation. */
static ppo_status ppo__value_latest(ppo__worker *worker, int e) {
    ppo__collector *c = worker->collector;
    const float *view = ppo__view(c, e), *state = c->state + ppo__at(e, c->model->core.width);
    const size_t at = ppo__at(c->rollout.recorded[e] - 1, c->rollout.envs) + e;
    ppo__keep_next(c, at, view, state);
    return ppo__value_next(worker, at, view, state);
}
PPO__COLD

/* -- the end of a rollout -- */

static void ppo__blank(ppo__collector *c, int e, int first);
static ppo_status ppo__values(ppo__collector *c);
static ppo_status ppo__next_values(ppo__collector *c);
static void ppo__hold_open_row(ppo__collector *c, int e);
static void ppo__scale_rewards(ppo__collector *c);

/* Completes a rollout, up to the advantages: V of every row and next_value; without a critic both are 0. A row
   whose outcome has not come by now waits for the next rollout. Without it, agents that take turns would not learn
   what their opponents do at the end of a rollout: they would see their wins, but not all of their losses. */
static ppo_status ppo__rollout_end(ppo__collector *c) {
    ppo_rollout *rollout = &c->rollout;
    ppo_status status = c->group ? ppo__control_in_group.share_rollout(c) : PPO_OK;
    int samples = 0;
    if (status) return status;
    for (int e = 0; e < rollout->envs; ++e) {
        ppo__blank(c, e, rollout->recorded[e]);
        samples += rollout->recorded[e] - (c->row[e] == PPO__ROW_OPEN);
    }
    if (!samples) return ppo__refuse("no agent completed a step in a rollout of %d steps", rollout->steps);
    if (!c->config->use_critic)
        memset(rollout->value, 0, ppo__at(rollout->steps, rollout->envs) * sizeof(float));
    else status = ppo__values(c);
    if (!status && c->config->use_critic) status = ppo__next_values(c);
    for (int e = 0; e < rollout->envs && !status; ++e) {
        ppo__hold_open_row(c, e);
        if (c->seen_obs) ppo__normalizer_merge(&c->agent->obs_norm, &c->seen_obs[e]);
        if (c->seen_return) ppo__normalizer_merge(&c->agent->return_norm, &c->seen_return[e]);
    }
    if (status) return status;
    if (c->seen_return) ppo__scale_rewards(c);
    c->records = 0;
    /* the tapes take their lasting shape in the first rollout */
    for (int k = 0; k < c->worker_count; ++k) ppo_tape_reset(c->workers[k].tape);
    return PPO_OK;
}

/* Rows that are not recorded are zeros, all actions are legal there, and they cut the recursion of the advantages. */
static void ppo__blank(ppo__collector *c, int e, int first) {
    const size_t options = (size_t)ppo__space_outputs(&c->model->action_space);
    for (int t = first; t < c->rollout.steps; ++t) {
        size_t at = ppo__at(t, c->rollout.envs) + e;
        for (int i = 0; i < PPO__COLUMNS; ++i) {
            char *data = ppo__column_data(&c->rollout, &c->columns[i]);
            if (data) memset(data + at * c->columns[i].bytes, 0, c->columns[i].bytes);
        }
        if (c->rollout.mask) memset(c->rollout.mask + at * options, 1, options);
        c->rollout.terminated[at] = 1;
    }
}

/* The values of a worker's share of its process's share of the samples. Values do not influence actions, so
   they are computed now, many rows at once. */
static ppo_status ppo__value_samples(ppo__worker *worker) {
    enum { PPO__ROWS = 256 };
    ppo__collector *c = worker->collector;
    ppo_rollout *rollout = &c->rollout;
    const int samples = rollout->steps * rollout->envs, k = (int)(worker - c->workers);
    const int first = ppo__own_begin(c->group, samples), own = ppo__own_end(c->group, samples) - first;
    const int end = first + ppo__share(own, k + 1, c->worker_count);
    int from = first + ppo__share(own, k, c->worker_count), rows;
    ppo_status status = PPO_OK;
    for (; from < end && !status; from += rows) {
        rows = ppo__min_int(end - from, PPO__ROWS);
        ppo_rollout some = ppo__some_samples(rollout, c->columns, (size_t)from, rows);
        ppo_outputs out = ppo__forward_once(worker->tape, c->model, ppo__inputs_of(&some), PPO_VALUE);
        status = ppo_tape_status(worker->tape);
        for (int i = from; i < from + rows && !status; ++i) {
            int e = i % rollout->envs;
            rollout->value[i] = out.value->data[i - from];
            worker->order = i;
            status = ppo__check_numbers(&rollout->value[i], 0, "critic's value", &c->envs, e,
                                        c->envs.steps[e] - rollout->recorded[e] + i / rollout->envs);
        }
    }
    return status;
}

/* The critic's values of all rows, and of what follows each. */
static ppo_status ppo__values(ppo__collector *c) {
    ppo_status status = ppo__workers_run(c, ppo__value_samples);
    if (status) return status;
    return ppo__group_share(c->group, c->rollout.value, c->rollout.steps * c->rollout.envs, sizeof(float));
}

/* next_value where the episode continues: V of the next row; for the last row, V of the latest observation. */
static ppo_status ppo__next_values(ppo__collector *c) {
    const size_t size = (size_t)c->model->obs_size, width = (size_t)c->model->core.width;
    ppo_rollout *r = &c->rollout;
    ppo_tape *tape = c->workers[0].tape;
    for (int e = 0; e < r->envs; ++e) ppo__view(c, e);
    ppo_outputs out =
        ppo__forward_once(tape, c->model, ppo__inputs_now(r->envs, c->view, c->state), PPO_VALUE);
    if (!out.value) return ppo_tape_status(tape);
    for (int e = 0; e < r->envs; ++e) {
        const int rows = r->recorded[e], complete = rows - (c->row[e] == PPO__ROW_OPEN);
        for (int t = 0; t < complete; ++t) {
            const size_t at = ppo__at(t, r->envs) + e, below = at + r->envs;
            const int has = t + 1 < rows; /* a row below */
            if (r->terminated[at] || r->truncated[at]) continue;
            if (!has && c->row[e] == PPO__ROW_LAST) continue; /* set by ppo__fill_rows() */
            r->next_value[at] = has ? r->value[below] : out.value->data[e];
            if (t + 1 == complete)
                ppo__keep_next(c, at, c->view + e * size, /* that of the row below, if there is one */
                               has && width ? r->state + below * width : c->state + e * width);
        }
    }
    return PPO_OK;
}

/* Moves agent e's open row, if there is one, out of the rollout; the next one begins with it. */
static void ppo__hold_open_row(ppo__collector *c, int e) {
    ppo_rollout *r = &c->rollout;
    const int open = c->row[e] == PPO__ROW_OPEN, rows = r->recorded[e] -= open;
    if (open && c->held.envs)
        ppo__copy_decided(r, (int)(ppo__at(rows, r->envs) + e), c->columns, &c->held, (size_t)e);
    ppo__blank(c, e, rows);
}

/* normalize_reward: divides the rewards by the standard deviation of the discounted return, this rollout's
   included, and clips them. */
static void ppo__scale_rewards(ppo__collector *c) {
    ppo_rollout *r = &c->rollout;
    const double scale = ppo__inv_std(c->agent->return_norm.var[0]);
    const float limit = c->config->clip_reward;
    for (size_t i = 0, n = ppo__at(r->steps, r->envs); i < n; ++i)
        r->reward[i] = ppo__clamp((float)(r->reward[i] * scale), -limit, limit);
}

/* Recomputes the values of a complete rollout with the critic as it is now. */
static ppo_status ppo__values_again(ppo__collector *c) {
    ppo_rollout *r = &c->rollout;
    ppo_status status = ppo__values(c);
    for (int e = 0; e < r->envs; ++e)
        for (int t = 0; t < r->steps && !status; ++t) {
            const size_t at = ppo__at(t, r->envs) + e;
            if (t >= r->recorded[e]) r->value[at] = 0; /* as ppo__blank() leaves it */
            if (r->terminated[at]) continue;
            if (!r->truncated[at] && t + 1 < r->recorded[e]) r->next_value[at] = r->value[at + r->envs];
            else
                status = ppo__value_next(&c->workers[0], at, r->next_obs + at * c->model->obs_size,
                                         r->next_state ? r->next_state + at * c->model->core.width : NULL);
        }
    return status;
}

/* -- workers -- */

static void ppo__worker_run(void *user, int k) {
    ppo__collector *collector = (ppo__collector *)user;
    ppo__worker *worker = &collector->workers[k];
    if (k >= collector->worker_count) return; /* more threads than environments */
    worker->status = collector->task(worker);
    if (worker->status) memcpy(worker->error, ppo__error, sizeof worker->error);
}

/* Runs a task of each worker. Reports the earliest failure of all, so that the error does not depend on the
   number of threads and processes. */
static ppo_status ppo__workers_run(ppo__collector *collector, ppo_status (*task)(ppo__worker *worker)) {
    const ppo__worker *first = NULL;
    collector->task = task;
    ppo__pool_run(collector->pool, collector->worker_count, ppo__worker_run, collector);
    for (int k = 0; k < collector->worker_count; ++k) {
        const ppo__worker *worker = &collector->workers[k];
        if (worker->status && (!first || worker->order < first->order)) first = worker;
    }
    const ppo_status status = first ? ppo_fail(first->status, "%s", first->error) : PPO_OK;
    return ppo__group_agree(collector->group, status, first ? first->order : 0);
}

/* -- making a collector -- */

/* After a failure all episodes begin anew, and nothing of the old ones, like a NaN, gets into a file. The
   positions of the random streams depend on the number of threads at that point, so all move to one that does
   not: the high half of the counter plus `ahead`, the low half 0. */
static void ppo__forget_episodes(ppo__collector *collector, uint32_t ahead) {
    ppo__envs *envs = &collector->envs;
    ppo_rng *const rngs[] = {collector->action_rng, envs->rng, collector->match_rng};
    memset(envs->turn, PPO__OUT, (size_t)envs->count);
    memset(envs->obs, 0, ppo__at(envs->count, envs->env.obs_size) * sizeof(float));
    ppo__envs_guard(envs);
    for (int e = 0; e < envs->count; ++e) {
        ppo__agent_begins(envs, e);
        collector->discounted[e] = collector->earned[e] = 0;
        collector->row[e] = PPO__ROW_COMPLETE;
    }
    for (int k = 0; k < 3; ++k)
        for (ppo_rng *rng = rngs[k]; rng && rng < rngs[k] + (k ? envs->copies : envs->count); ++rng) {
            rng->counter[1] += ahead;
            rng->counter[0] = 0;
            rng->used = 4;
            memset(rng->block, 0, sizeof rng->block);
        }
}

PPO__RARE void ppo__collector_free(ppo__collector *collector) {
    ppo__pool_free(collector->pool);
    for (int k = 0; k < collector->worker_count; ++k) ppo_tape_free(collector->workers[k].tape);
    for (int e = 0; e < collector->rollout.envs; ++e) {
        if (collector->seen_obs) ppo_normalizer_free(&collector->seen_obs[e]);
        if (collector->seen_return) ppo_normalizer_free(&collector->seen_return[e]);
    }
    ppo__envs_free(&collector->envs);
    ppo__arena_free(&collector->memory);
}

/* The arrays of a collector of `envs` agents. Copy c has the streams of environment first + c. */
static ppo_status ppo__collector_arrays(ppo__collector *c, const ppo_env *env, int envs, int steps,
                                        uint64_t seed, int first) {
    ppo__arena *memory = &c->memory;
    const ppo_config *config = c->config;
    ppo__columns(c->model, env, config, c->width, c->columns);
    ppo__rollout_alloc(&c->rollout, memory, c->columns, env, steps, envs, PPO__FOR_ALL);
    c->rollout.recorded = PPO__ZEROS(memory, int, envs);
    c->action_rng = PPO__ARRAY(memory, ppo_rng, envs);
    c->view = PPO__ZEROS(memory, float, ppo__at(envs, env->obs_size));
    c->state = PPO__ZEROS(memory, float, ppo__at(envs, c->width));
    c->start = PPO__ZEROS(memory, unsigned char, envs);
    c->discounted = PPO__ZEROS(memory, float, envs);
    c->earned = PPO__ZEROS(memory, float, envs);
    c->row = PPO__ZEROS(memory, unsigned char, envs);
    c->carried = PPO__ZEROS(memory, unsigned char, envs);
    c->player = PPO__ARRAY(memory, int, envs);
    if (ppo__agents(env) > 1) ppo__rollout_alloc(&c->held, memory, c->columns, env, 1, envs, PPO__FOR_ACTING);
    if (c->records) { /* an evaluation has neither gsde's noise nor statistics */
        if (c->model->gsde) c->noise = PPO__ARRAY(memory, float, ppo__size(c->model->log_std) * envs);
        if (config->normalize_obs) c->seen_obs = PPO__ZEROS(memory, ppo_normalizer, envs);
        if (config->normalize_reward) c->seen_return = PPO__ZEROS(memory, ppo_normalizer, envs);
    }
    ppo_status status = ppo__arena_status(memory);
    for (int e = 0; e < envs && !status; ++e) {
        c->player[e] = -1;
        c->action_rng[e] = ppo_rng_stream(seed, PPO_STREAM_ACTION, (uint32_t)(first * ppo__agents(env) + e));
        if (c->seen_obs) status = ppo_normalizer_init(&c->seen_obs[e], env->obs_size);
        if (!status && c->seen_return) status = ppo_normalizer_init(&c->seen_return[e], 1);
    }
    return status;
}

/* Divides this process's copies among workers, one per thread. */
static ppo_status ppo__collector_workers(ppo__collector *c, const ppo_env *env, int copies, int threads) {
    ppo__arena *memory = &c->memory;
    const int begin = ppo__own_begin(c->group, copies), own = ppo__own_end(c->group, copies) - begin;
    const int workers = ppo__is_pushed(env) ? 1 : ppo__min_int(threads, own);
    c->workers = PPO__ZEROS(memory, ppo__worker, workers);
    ppo_status status = ppo__arena_status(memory);
    for (int k = 0; k < workers && !status; ++k) {
        ppo__worker *worker = &c->workers[k];
        worker->collector = c;
        worker->begin = begin + ppo__share(own, k, workers);
        worker->end = begin + ppo__share(own, k + 1, workers);
        const int count = (worker->end - worker->begin) * ppo__agents(env);
        worker->acting = PPO__ARRAY(memory, int, count);
        ppo__rollout_alloc(&worker->rows, memory, c->columns, env, 1, count, PPO__FOR_ACTING);
        status = ppo__arena_status(memory);
        if (!status) status = ppo_tape_create(&worker->tape);
        if (status) break;
        ppo_tape_record(worker->tape, 0);
        c->worker_count = k + 1;
    }
    return status;
}

/* The caller has set agent, config, group, width, greedy and records (1: to train), and calls
   ppo__collector_free() even after a failure. Copy c is environment first + c. */
PPO__RARE ppo_status ppo__collector_open(ppo__collector *c, const ppo_env *env, int envs, int steps,
                                         int threads, uint64_t seed, uint32_t purpose, int first) {
    const int copies = envs / ppo__agents(env);
    c->model = &c->agent->model;
    ppo_status status = ppo__collector_arrays(c, env, envs, steps, seed, first);
    if (!status) status = ppo__collector_workers(c, env, copies, threads);
    if (!status) status = ppo__envs_open(&c->envs, env, c->group, copies, seed, purpose, first);
    if (!status && c->group) {
        c->packed = (char *)ppo__arena_array(&c->memory, (size_t)envs, ppo__control_in_group.agent_bytes(c));
        status = ppo__arena_status(&c->memory);
    }
    if (!status && c->records) status = ppo__envs_keep_actions(&c->envs);
    return status ? status : ppo__pool_create(threads, &c->pool);
}

/* --------------------------------------------------------------------------------------------------------
   @@ 15 Training and evaluation

   PPO as a program. ppo__iterate() and what it calls do this, in this order:

       for each iteration
           learning_rate, clip_low, clip_high, entropy_coef by their schedules       ppo__apply_schedules()

           for t = 0 .. rollout_steps - 1                                            ppo__collect()
               outputs = actor(obs[t])                                               ppo__act()
               action[t] = sample(outputs)
               logp[t] = log pi(action[t] | obs[t])
               obs[t + 1], reward[t], terminated[t], truncated[t] = env.step(action[t])
                                                                     ppo__env_step(), ppo__record_outcome()
               where it was truncated: next_value[t] = critic(obs[t + 1]), as the reset overwrites it
               where an episode ended: obs[t + 1] = env.reset()
           value[t] = critic(obs[t])                                                 ppo__rollout_end()
           next_value[t] = 0 if terminated[t], else critic(obs[t + 1])               ppo__next_values()

           for t = rollout_steps - 1 .. 0                                            ppo__advantages()
               delta = reward[t] + gamma next_value[t] - value[t]
               advantage[t] = delta + gamma gae_lambda advantage[t + 1], the latter 0 where an episode or the
                   rollout ended
           value_target = advantage + value

           for each of `epochs` epochs                                               ppo__epochs()
               shuffle the samples
               for each minibatch of them                                            ppo__update()
                   A = (advantage - mean(advantage)) / std(advantage)

                   outputs, V = actor(obs), critic(obs)                              ppo__loss()
                   ratio = exp(log pi(action | obs) - logp)
                   policy_loss = -mean(min(ratio A, clip(ratio, 1 - clip_low, 1 + clip_high) A))
                   value_loss = 0.5 mean((V - value_target)^2)
                   loss = policy_loss + value_coef value_loss - entropy_coef mean(entropy(outputs))

                   gradient = d loss / d parameters               ppo__gradient(), which calls ppo__loss()
                   if mean(ratio - 1 - log ratio) > 1.5 target_kl: no more epochs
                   gradient *= min(1, max_grad_norm / |gradient|)
                   parameters -= Adam(gradient)                                      ppo_params_step()

           report the returns of the episodes that ended, losses, KL                 ppo__report()

   An episode's end: the environment sets terminated, ppo__env_step() truncated at max_steps, ppo__record_outcome()
   stores both, with V of the last observation, ppo__next_values() leaves that alone, ppo_gae() cuts there; without a
   critic, ppo__list_segments() leaves out the steps after the last end.

   Below these functions, in sub-sections of their own: how minibatches are put together, also for recurrent policies
   ("minibatches of segments"); how their gradients are divided among threads and processes ("shards"); pauses and
   a program that pushes experience; opponents of self-play; settings, the agent, creation, evaluation.

   To add a setting: a field of ppo_config, a row of ppo__fields with its default (a field without one is lost in files;
   PPO_FIELD_NETWORK if it changes the network), and its name in tests/test_control.c; if it may be without effect, a
   row of ppo__config_needs, and where a preset changes what it needs, its name among the preset's resets. The command
   line, files and checks follow from that; the margin above says which function will use it. To add an objective, also
   for language models: in section 9 a constant before PPO__OBJECTIVES, its word at that position of ppo__objectives,
   and its term in ppo__policy_term(); if the term reads dual_clip or kl_coef, its word in those rows of
   ppo__config_needs, and if any of these, clip_low or clip_high,
   of ppo__rlhf_needs (22). What needs more than log-probabilities goes to ppo__loss().
   -------------------------------------------------------------------------------------------------------- */

/* -- the trainer -- */

/* What ppo__diagnose() knows of an environment and of a run. */
typedef struct ppo__feature { /* a number of the observation, over all that were seen */
    float first, low, high;
    double sum, squares; /* of the differences to the first */
} ppo__feature;

typedef struct ppo__signs {
    const ppo_env *env;
    const ppo_config *config;
    const ppo_progress *progress; /* iteration 0: random play, by ppo_env_check() */
    ppo__feature *feature;        /* [obs_size] */
    double seen, steps;           /* observations in `feature`; steps of all agents together */
    double ends, paid, largest;   /* episodes; rewards that are not 0; the largest, absolute */
    double endless;               /* steps since an episode ended */
    int looked, full, in_step;    /* 1: `feature`, the means can be judged; all ends were together */
    /* means of about 1,000 samples: what the critic predicts, squared, and its squared error in relation to that;
       how much more the last step of an episode pays than others, and the std of those */
    double target, error, entropy, kl, clipped, grad_norm, end_reward, varies;
    double stopped;   /* share of the latest iterations that ended in their first epoch */
    double gradients; /* steps of this iteration */
    /* of iteration 1; of the first 50 episodes or more, length 0 until then */
    float first_entropy, first_return, first_length;
} ppo__signs;

typedef struct ppo__symptom {
    const char *name;
    int row, effect; /* 1: it may follow from a cause, a row above */
    char sentence[240];
} ppo__symptom;

enum {
    PPO__MOST_SHARDS = 64,       /* of a minibatch, at most */
    PPO__SHARDS = 16,            /* unless there is a setting */
    PPO__SHARD_SAMPLES = 128,    /* of a shard, at least */
    PPO__SHARD_SEGMENTS = 16,    /* recurrent: of a shard, at least */
    PPO__SHARD_PARAMS = 1 << 16, /* at most: of a larger network the operations are divided instead */
    PPO__LAST_EPISODES = 100
};

/* What one gradient step reports. */
typedef struct ppo__step_stats {
    ppo_policy_stats policy;
    float loss, value_loss, entropy, grad_norm;
    int failed; /* in a group: the status of the process that has this shard */
} ppo__step_stats;

typedef struct ppo__shard {
    ppo_rollout samples; /* of the minibatch's, packed by time, the longest segments first */
    int *picked;         /* which of the rollout's they are */
    ppo_inputs inputs;   /* what the network is given of them */
    const float *shift;  /* rpo_alpha: by how much their means move; else NULL */
    int *count;          /* [segment_steps] segments that have a step t */
    float *grad;         /* [params->count] its gradient; this process's first shard's is the model's own */
} ppo__shard;

typedef struct ppo__minibatch {
    ppo_rollout samples;                     /* one step of as many "environments" as there are samples */
    int segment_steps, segments;             /* of a whole segment; in a minibatch, at most */
    int *picked;                             /* [segments * segment_steps] samples of the rollout */
    float *shift;                            /* [segments * segment_steps][n], or NULL */
    int most_shards, shards;                 /* in a full minibatch, and in this one */
    int begin, end;                          /* this process's, in a full minibatch */
    ppo__shard shard[PPO__MOST_SHARDS];      /* [shards] */
    ppo__step_stats stats[PPO__MOST_SHARDS]; /* [shards] their own means */
    float *received;                         /* in a group: [params->count], for ppo__ranks_sum() */
} ppo__minibatch;

struct ppo_trainer {
    ppo_config config;
    ppo_agent *agent; /* borrowed */
    ppo__collector collector;
    ppo__arena memory;
    ppo__minibatch minibatch;
    ppo_tape *tapes[PPO__MOST_SHARDS]; /* of the update, for as many threads */
    int *usable;                       /* [num_envs] steps of the rollout that are learned from */
    int *order;                        /* [steps * envs] segments, shuffled */
    ppo_rng shuffle_rng;
    int reserved;                   /* 1: the tapes have room for the largest minibatch */
    ppo_policy_objective objective; /* these three are of this iteration, after their schedules */
    ppo_adam adam;
    float entropy_coef;
    float kl_coef; /* of this iteration */
    float rate;    /* lr_target_kl: the learning rate so far; 0: the first */
    float last_return[PPO__LAST_EPISODES];
    int last_length[PPO__LAST_EPISODES];
    float last_metrics[PPO_MAX_METRICS][PPO__LAST_EPISODES];
    int64_t episodes, steps, iteration, updates; /* updates: epochs begun, as Stable-Baselines3 counts */
    double started;
    ppo_progress progress;        /* of this iteration, so far */
    int learning;                 /* 1: the rollout is complete, and being learned from */
    int batch, batches, segments; /* the next minibatch of this epoch; of how many */
    int gradients;                /* minibatches of this iteration so far */
    void *teacher; /* ppo_teach.h: what teach() needs, which adds its term to the loss; NULL: there is none */
    ppo_tensor *(*teach)(const void *teacher, ppo_tape *tape, const ppo_inputs *inputs,
                         const ppo_outputs *out, ppo_tensor *loss);
    /* ppo_player.h: a player's, of what was pushed; NULL: it trains */
    void (*observed)(ppo_trainer *trainer, int e, const ppo_outcome *out);
    int64_t dropped; /* pushed beyond a full rollout since others were observed; -1: it was told */
    ppo__signs signs;
    ppo__symptom worst; /* since the last twentieth of the run; name NULL: there is none */
    int64_t warned;     /* and its iteration */
    unsigned shown;     /* bit k: a report has shown row k */
};

/* -- an iteration, in the order of the calls -- */

static ppo_status ppo__iterate(ppo_trainer *trainer, double until, int *done);
static ppo_status ppo__begin_iteration(ppo_trainer *trainer);
static ppo_status ppo__apply_schedules(ppo_trainer *trainer);
static ppo_status ppo__collect_or_take(ppo_trainer *trainer);
static int ppo__next_steps(const ppo_trainer *trainer);
static ppo_status ppo__advantages(ppo_trainer *trainer);
static ppo_status ppo__reserve_tapes(ppo_trainer *trainer);
static ppo_status ppo__epochs(ppo_trainer *trainer, double until, int *done);
static ppo_status ppo__begin_epoch(ppo_trainer *trainer);
static int ppo__list_segments(ppo_trainer *trainer, int whole, int *segments);
static ppo_status ppo__update(ppo_trainer *trainer, int b, int *stop);
static void ppo__choose_minibatch(ppo_trainer *trainer, int all, int b, int batches, int most_shards);
static void ppo__draw_shifts(ppo_trainer *trainer);
static ppo_status ppo__gradient(ppo_trainer *trainer, ppo__step_stats *stats);
static void ppo__add_stats(ppo_progress *progress, const ppo__step_stats *stats, int count, int b);
static void ppo__adapt_rate(ppo_trainer *trainer, float kl);
static int ppo__must_pause(const ppo_trainer *trainer, double until);
static ppo_status ppo__end_iteration(ppo_trainer *trainer);
static ppo_status ppo__adapt_kl(ppo_trainer *trainer);
static void ppo__report(ppo_trainer *trainer);
static void ppo__warn(ppo_trainer *trainer);
static void ppo__keep_opponent(ppo_trainer *trainer);

PPO_DEF ppo_status ppo_trainer_iterate(ppo_trainer *trainer, ppo_progress *progress) {
    if (!PPO__GIVEN("ppo_trainer_iterate", trainer)) return PPO_ERROR_ARGUMENT;
    int done;
    if (trainer->observed) return ppo__refuse("ppo_trainer_iterate: this is a player, which does not train");
    if (ppo_trainer_done(trainer))
        return ppo__refuse("all %lld steps are done", (long long)trainer->config.total_steps);
    if (ppo__is_pushed(&trainer->collector.envs.env))
        return ppo__refuse("env.step is NULL: use ppo_trainer_observe(), ..._act() and ..._learn()");
    ppo_status status = ppo__iterate(trainer, INFINITY, &done);
    if (status) ppo__forget_episodes(&trainer->collector, 1);
    else if (progress) *progress = trainer->progress;
    return status;
}

/* Collects a rollout, computes advantages, learns from it, reports. It may pause between two minibatches once
   the clock has passed `until` (ppo_clock(); INFINITY: never), and continues with the next call; *done 1: it
   is complete. */
static ppo_status ppo__iterate(ppo_trainer *trainer, double until, int *done) {
    ppo__pool *before = ppo__arithmetic_pool;
    ppo_status status = PPO_OK;
    if (trainer->config.threads > 1)
        ppo__arithmetic_pool = trainer->collector.pool; /* divides all that follows */
    if (!trainer->learning) {
        status = ppo__begin_iteration(trainer);
        if (!status) status = ppo__collect_or_take(trainer);
        if (!status) status = ppo__advantages(trainer);
        if (!status) status = ppo__reserve_tapes(trainer);
        status = ppo__group_agree(trainer->collector.group, status, 0);
    }
    if (!status) status = ppo__epochs(trainer, until, done);
    if (!status && *done) status = ppo__end_iteration(trainer);
    trainer->learning = !status && !*done;
    ppo__arithmetic_pool = before;
    return status;
}

/* Clears the report, and sets the learning rate, the clip and the coefficients of this iteration. */
static ppo_status ppo__begin_iteration(ppo_trainer *trainer) {
    memset(&trainer->progress, 0, sizeof trainer->progress);
    trainer->progress.agent = trainer->agent;
    trainer->progress.kl = NAN;
    trainer->batch = trainer->gradients = 0;
    return ppo__group_agree(trainer->collector.group, ppo__apply_schedules(trainer), 0);
}

/* Lets the policy act for a rollout, or completes the one that the program has pushed. */
static ppo_status ppo__collect_or_take(ppo_trainer *trainer) {
    ppo__collector *c = &trainer->collector;
    return ppo__is_pushed(&c->envs.env) ? ppo__rollout_end(c) : ppo__collect(c, ppo__next_steps(trainer));
}

/* Advantages and value targets by GAE. */
static ppo_status ppo__advantages(ppo_trainer *trainer) {
    const ppo_config *config = &trainer->config;
    const ppo_rollout *r = &trainer->collector.rollout;
    ppo_status status = ppo_gae(r->reward, r->value, r->next_value, r->terminated, r->truncated, r->steps,
                                r->envs, config->gamma, config->gae_lambda, r->advantage, r->value_target);
    for (int i = 0; i < r->steps * r->envs && !status; ++i) {
        int e = i % r->envs, t = i / r->envs;
        if (fabsf(r->advantage[i]) + fabsf(r->value_target[i]) < 1e18f) continue; /* the square is finite */
        const ppo__envs *envs = &trainer->collector.envs;
        const int pushed = ppo__is_pushed(&envs->env);
        status = ppo_fail(
            PPO_ERROR_NUMERIC, "rewards or values are too large: the advantage is %g (%s, step %lld%s)",
            (double)r->advantage[i], ppo__label_of(envs, e).text,
            (long long)(pushed ? t + 1 : envs->steps[e] - r->steps + t + 1), pushed ? " of the rollout" : "");
    }
    return status;
}

/* Learns from the rollout: every sample once per epoch, in a new order. */
static ppo_status ppo__epochs(ppo_trainer *trainer, double until, int *done) {
    ppo_progress *progress = &trainer->progress;
    ppo_status status = PPO_OK;
    int stop = 0; /* 1: target_kl */
    *done = 1;
    for (; progress->epochs < trainer->config.epochs; ++progress->epochs, trainer->batch = 0) {
        if (!trainer->batch) status = ppo__begin_epoch(trainer);
        if (status || !trainer->batches) return status; /* without a critic: no episode has ended */
        while (trainer->batch < trainer->batches) {
            status = ppo__update(trainer, trainer->batch++, &stop);
            if (status || stop) return status;
            *done = !ppo__must_pause(trainer, until);
            if (!*done) return PPO_OK;
        }
    }
    return PPO_OK;
}

/* Lists the samples to learn from and shuffles them; recompute_advantages: computes values and advantages first. */
static ppo_status ppo__begin_epoch(ppo_trainer *trainer) {
    trainer->batches = ppo__list_segments(trainer, 0, &trainer->segments);
    if (!trainer->batches) return PPO_OK;
    if (trainer->config.recompute_advantages && trainer->progress.epochs) {
        ppo_status status = ppo__values_again(&trainer->collector);
        if (!status) status = ppo__advantages(trainer);
        if (status) return status;
    }
    ++trainer->updates;
    ppo_rng_shuffle(&trainer->shuffle_rng, trainer->order, trainer->segments);
    return PPO_OK;
}

/* Takes x into the mean of `count` numbers, as the last of them. */
static void ppo__average(float *mean, float x, int count) { *mean += (x - *mean) / (float)count; }

/* A step of Adam against the gradient of minibatch b. *stop 1: the policy is too far from the one that acted
   (target_kl), so this minibatch changes nothing, and no further one follows. */
static ppo_status ppo__update(ppo_trainer *trainer, int b, int *stop) {
    const ppo_config *config = &trainer->config;
    ppo_progress *progress = &trainer->progress;
    ppo_rollout *minibatch = &trainer->minibatch.samples;
    ppo__step_stats stats;
    ppo_status status = PPO_OK;
    ppo__choose_minibatch(trainer, trainer->segments, b, trainer->batches, trainer->minibatch.most_shards);
    ppo__draw_shifts(trainer);
    if (config->normalize_advantage) status = ppo_whiten(minibatch->advantage, NULL, minibatch->envs, 1);
    if (!status) status = ppo__gradient(trainer, &stats);
    if (status) return status;
    ppo__add_stats(progress, &stats, ++trainer->gradients, b);
    *stop = config->target_kl > 0 && stats.policy.approx_kl > 1.5f * config->target_kl;
    if (*stop) return PPO_OK;
    ppo__adapt_rate(trainer, stats.policy.approx_kl);
    status = ppo_params_step(trainer->agent->model.params, &trainer->adam, config->max_grad_norm,
                             &stats.grad_norm);
    if (!status) ppo__average(&progress->grad_norm, stats.grad_norm, trainer->gradients);
    return status;
}

/* Adapts the weight of the penalty, reports, warns, and keeps the policy as an opponent. */
static ppo_status ppo__end_iteration(ppo_trainer *trainer) {
    ppo_status status = ppo__adapt_kl(trainer);
    if (status) return status;
    for (int k = 0; k < PPO__MOST_SHARDS && trainer->tapes[k]; ++k)
        ppo_tape_reset(trainer->tapes[k]); /* take their lasting shape in the first iteration */
    ppo__report(trainer);
    ppo__warn(trainer);
    ppo__keep_opponent(trainer);
    return PPO_OK;
}

/* -- the objective -- */

/* L = L_policy + value_coef L_value - entropy_coef entropy. With a penalty L_policy is
   -mean(r A) + kl_coef mean(KL(old || new)), exact. */
static ppo_tensor *ppo__loss(ppo_trainer *trainer, ppo_tape *tape, const ppo__shard *shard) {
    const ppo_config *config = &trainer->config;
    const ppo_actor_critic *model = &trainer->agent->model;
    const ppo_rollout *samples = &shard->samples;
    ppo__step_stats *stats = &trainer->minibatch.stats[shard - trainer->minibatch.shard];
    const int penalty = config->objective == PPO_KL_PENALTY;
    const int want = config->use_critic ? PPO_POLICY | PPO_VALUE : PPO_POLICY;
    ppo_policy_objective objective = trainer->objective;
    ppo_tensor *logp, *entropy, *value_loss = NULL;
    ppo_outputs out = ppo_actor_critic_forward(tape, model, &shard->inputs, want), moved = out;
    if (shard->shift && out.policy)
        moved.policy = ppo_tape_add(
            tape, out.policy, ppo_tape_constant(tape, shard->shift, out.policy->rows, out.policy->cols));
    ppo_actor_critic_logp(tape, model, &moved, &samples->actions, &logp, &entropy);
    if (shard->shift && model->squash) /* whose entropy depends on the mean */
        ppo_actor_critic_logp(tape, model, &out, &samples->actions, NULL, &entropy);

    if (penalty) objective.objective = PPO_UNCLIPPED;
    ppo_tensor *loss =
        ppo_tape_policy_loss(tape, logp, samples->logp, samples->advantage, NULL, &objective, &stats->policy);
    if (penalty) {
        ppo_tensor *kl = ppo__actor_critic_kl(tape, model, &out, samples->policy, samples->log_std);
        loss = ppo_tape_add(tape, loss, ppo_tape_scale(tape, ppo_tape_mean(tape, kl), objective.kl_coef, 0));
    }

    ppo_tensor *mean_entropy = ppo_tape_mean(tape, entropy);
    if (config->use_critic) {
        float delta = config->huber_delta > 0 ? config->huber_delta : INFINITY;
        value_loss = ppo_tape_value_loss(tape, out.value, samples->value, samples->value_target, NULL,
                                         config->value_clip, delta);
        loss = ppo_tape_add(tape, loss, ppo_tape_scale(tape, value_loss, config->value_coef, 0));
    }

    loss = ppo_tape_sub(tape, loss, ppo_tape_scale(tape, mean_entropy, trainer->entropy_coef, 0));
    if (trainer->teacher) loss = trainer->teach(trainer->teacher, tape, &shard->inputs, &out, loss);
    if (!loss) return NULL;
    stats->value_loss = value_loss ? value_loss->data[0] : 0;
    stats->entropy = mean_entropy->data[0];
    stats->loss = loss->data[0];
    return loss;
}
PPO__COLD_END

/* -- minibatches of segments. A segment is consecutive steps of one environment: sequence_steps of them for a
   recurrent policy, fewer where the steps to learn from end; one for any other policy. Segment k begins at
   step k / envs * segment_steps of environment k % envs. A minibatch holds whole segments -- */

PPO__TINY int ppo__segment_length(const ppo_trainer *trainer, int k) {
    int envs = trainer->collector.rollout.envs, steps = trainer->minibatch.segment_steps;
    int left = trainer->usable[k % envs] - k / envs * steps;
    return left < 0 ? 0 : left < steps ? left : steps;
}

/* The segments of the rollout to learn from, in order, and how many minibatches they make. Without a critic the return
   of an episode that has not ended is unknown, so its steps are left out. whole 1: all steps, recorded or not. */
static int ppo__list_segments(ppo_trainer *trainer, int whole, int *segments) {
    const ppo_rollout *rollout = &trainer->collector.rollout;
    *segments = 0;
    for (int e = 0; e < rollout->envs; ++e) {
        int *usable = &trainer->usable[e];
        *usable = whole ? rollout->steps : rollout->recorded[e];
        for (; !trainer->config.use_critic && !whole && *usable; --*usable) {
            size_t last = ppo__at(*usable - 1, rollout->envs) + e;
            if (rollout->terminated[last] || rollout->truncated[last]) break;
        }
    }
    for (int t = 0, k = 0; t < rollout->steps; t += trainer->minibatch.segment_steps)
        for (int e = 0; e < rollout->envs; ++e, ++k)
            if (t < trainer->usable[e]) trainer->order[(*segments)++] = k;
    return *segments ? ppo__divide_up(*segments, trainer->minibatch.segments) : 0;
}

/* The samples of n segments, packed by time, the longest segments first. Returns how many. */
static int ppo__pack_rows(const ppo_trainer *trainer, int *segments, int n, int *count, int *picked) {
    int envs = trainer->collector.rollout.envs, steps = trainer->minibatch.segment_steps, rows = 0, full = 0;
    if (steps == 1) return memcpy(picked, segments, (size_t)n * sizeof *picked), count[0] = n;
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
        for (int i = 0; i < n && (i < full || t < ppo__segment_length(trainer, segments[i])); ++i, ++count[t])
            picked[rows++] = (segments[i] / envs * steps + t) * envs + segments[i] % envs;
    }
    return rows;
}

/* Chooses share b of `batches` of the first `all` segments of trainer->order, in `most_shards` shards at
   most, and gathers their advantages, as ppo_whiten() takes all of them. Shares differ by one segment at most. */
static void ppo__choose_minibatch(ppo_trainer *trainer, int all, int b, int batches, int most_shards) {
    ppo__minibatch *batch = &trainer->minibatch;
    ppo_rollout *samples = &batch->samples;
    const ppo__column *columns = trainer->collector.columns;
    int begin = ppo__share(all, b, batches), n = ppo__share(all, b + 1, batches) - begin;
    int *segments = trainer->order + begin;
    batch->shards = ppo__min_int(most_shards, n);
    samples->steps = 1;
    samples->envs = 0;
    for (int k = 0; k < batch->shards; ++k) {
        ppo__shard *shard = &batch->shard[k];
        int from = ppo__share(n, k, batch->shards), to = ppo__share(n, k + 1, batch->shards);
        shard->picked = batch->picked + samples->envs;
        int count = ppo__pack_rows(trainer, segments + from, to - from, shard->count, shard->picked);
        shard->samples = ppo__some_samples(samples, columns, (size_t)samples->envs, count);
        shard->inputs = ppo__inputs_of(&shard->samples); /* its first states are where segments begin */
        shard->inputs.sequences.count = shard->count;
        for (int t = 0; t < batch->segment_steps && shard->count[t]; ++t) ++shard->inputs.sequences.steps;
        if (batch->shift)
            shard->shift = batch->shift + ppo__at(samples->envs, trainer->agent->model.action_space.n);
        samples->envs += count;
    }
    for (int i = 0; i < samples->envs; ++i)
        samples->advantage[i] = trainer->collector.rollout.advantage[batch->picked[i]];
}

/* rpo_alpha: by how much the means of this minibatch's samples move. */
static void ppo__draw_shifts(ppo_trainer *trainer) {
    const float alpha = trainer->config.rpo_alpha;
    const int shifts = trainer->minibatch.shift ? trainer->agent->model.action_space.n : 0;
    for (size_t i = 0, n = ppo__at(trainer->minibatch.samples.envs, shifts); i < n; ++i)
        trainer->minibatch.shift[i] = ppo_rng_range(&trainer->shuffle_rng, -alpha, alpha);
}

/* Copies a shard's samples from the rollout, except for their advantages, which are there already. */
static void ppo__gather(const ppo_trainer *trainer, const ppo__shard *shard) {
    const int *picked = shard->picked, n = shard->samples.envs;
    for (int c = 0; c < PPO__COLUMNS; ++c) {
        const ppo__column *column = &trainer->collector.columns[c];
        const size_t bytes = column->bytes;
        const int wanted = column->uses & PPO__FOR_LEARNING;
        if (!bytes || !wanted || column->pointer == offsetof(ppo_rollout, advantage)) continue;
        const char *source = ppo__column_data(&trainer->collector.rollout, column);
        char *target = ppo__column_data(&shard->samples, column);
        if (bytes == sizeof(float)) { /* most columns; a copy of known size is one instruction */
            for (int i = 0; i < n; ++i)
                memcpy(target + i * sizeof(float), source + picked[i] * sizeof(float), sizeof(float));
        } else
            for (int i = 0; i < n; ++i) memcpy(target + i * bytes, source + picked[i] * bytes, bytes);
    }
}
PPO__COLD

/* -- shards. A large minibatch is cut into shards, each of which goes forward and backward by itself, on any
   thread of any process of a group. Their number follows from the settings alone, and their gradients are
   added in a fixed binary tree, so the bits are the same for any number of threads and processes -- */

/* Computes the gradients of shards begin .. end - 1 of this process. A failure stays on the thread's tape. */
static void ppo__shard_gradients(void *user, int thread, int begin, int end) {
    ppo_trainer *trainer = (ppo_trainer *)user;
    ppo__minibatch *batch = &trainer->minibatch;
    const ppo_params *params = trainer->agent->model.params;
    ppo_tape *tape = trainer->tapes[thread];
    ppo_status status = PPO_OK;
    for (int k = batch->begin + begin; k < batch->begin + end && !status; ++k) {
        ppo__shard *shard = &batch->shard[k];
        ppo__gather(trainer, shard);
        ppo_tape_reset(tape);
        tape->params[0] = batch->most_shards > 1 ? params : NULL;
        tape->grad[0] = shard->grad;
        memset(shard->grad, 0, params->count * sizeof(float));
        ppo_tensor *loss = ppo__loss(trainer, tape, shard);
        if (batch->shards > 1) /* its share in the mean over all samples */
            loss = ppo_tape_scale(tape, loss, (float)shard->samples.envs / (float)batch->samples.envs, 0);
        status = ppo_tape_backward(tape, loss);
        if (status) ppo__tape_fail(tape, status); /* what is wrong with the loss itself, too */
    }
}

/* grad of this process's first shard += those of its others: first of neighbours, then of every second one, ... */
static void ppo__add_shards(void *user, int thread, int begin, int end) {
    const ppo_trainer *trainer = (const ppo_trainer *)user;
    const ppo__minibatch *batch = &trainer->minibatch;
    const ppo__shard *own = batch->shard + batch->begin;
    const int count = ppo__min_int(batch->end, batch->shards) - batch->begin;
    size_t at = ppo__at(begin, PPO__FLOAT_GRAIN);
    size_t n = ppo__grain_end(trainer->agent->model.params->count, end) - at;
    (void)thread;
    for (int step = 1; step < count; step *= 2)
        for (int k = 0; k + step < count; k += 2 * step)
            ppo__k()->add(own[k + step].grad + at, own[k].grad + at, n);
}

/* The gradient of the chosen minibatch's loss, and what it reports. */
static ppo_status ppo__gradient(ppo_trainer *trainer, ppo__step_stats *stats) {
    ppo__minibatch *batch = &trainer->minibatch;
    const ppo_params *params = trainer->agent->model.params;
    const int own = ppo__min_int(batch->end, batch->shards) - batch->begin; /* below 1: none */
    double work = 3.0 * (double)params->count * batch->samples.envs / batch->shards;
    ppo_status status = PPO_OK;
    if (own > 0) ppo__parallel_for(own, 1, work, ppo__shard_gradients, trainer);
    for (int k = 0; own > 0 && k < ppo__range_count(own, 1, work) && !status; ++k)
        status = ppo_tape_status(trainer->tapes[k]);
    if (own > 1 && !status)
        ppo__parallel_for(ppo__grains(params->count), 1, (double)PPO__FLOAT_GRAIN * own, ppo__add_shards,
                          trainer);
    if (trainer->collector.group) status = ppo__control_in_group.share_gradient(trainer, status);
    if (status) return status;

    memset(stats, 0, sizeof *stats); /* means over all samples */
    stats->policy.ratio_min = INFINITY;
    for (int k = 0; k < batch->shards; ++k) {
        const ppo__step_stats *one = &batch->stats[k];
        float weight = (float)batch->shard[k].samples.envs / (float)batch->samples.envs;
        stats->loss += weight * one->loss;
        stats->value_loss += weight * one->value_loss;
        stats->entropy += weight * one->entropy;
        stats->policy.loss += weight * one->policy.loss;
        stats->policy.clip_fraction += weight * one->policy.clip_fraction;
        stats->policy.approx_kl += weight * one->policy.approx_kl;
        stats->policy.old_approx_kl += weight * one->policy.old_approx_kl;
        stats->policy.ratio_min = ppo__min(stats->policy.ratio_min, one->policy.ratio_min);
        stats->policy.ratio_max = ppo__max(stats->policy.ratio_max, one->policy.ratio_max);
    }
    return PPO_OK;
}

/* Reserves each tape's memory for the largest shard that can come, made of whole segments only. The first
   iteration need not have it: segments differ in length, and rollouts in how much of them is learned from. */
static ppo_status ppo__reserve_tapes(ppo_trainer *trainer) {
    ppo__minibatch *batch = &trainer->minibatch;
    ppo_status status = PPO_OK;
    const int begin = batch->begin;
    int segments;
    if (trainer->reserved) return PPO_OK;
    trainer->reserved = 1;
    ppo__list_segments(trainer, 1, &segments); /* in order: whole segments come first */
    segments = ppo__divide_up(ppo__min_int(segments, batch->segments), batch->most_shards);
    batch->begin = 0;
    ppo__choose_minibatch(trainer, segments, 0, 1, 1);
    for (int k = 0; k < batch->most_shards && !status; ++k) {
        ppo__shard_gradients(trainer, k, 0, 1);
        status = ppo_tape_status(trainer->tapes[k]);
    }
    batch->begin = begin;
    return status;
}

/* -- schedules, and what holds a KL -- */

/* Sets learning rate, clip and entropy coefficient of this iteration, by their schedules. */
static ppo_status ppo__apply_schedules(ppo_trainer *trainer) {
    enum { PPO__RATE_NOW, PPO__LOW_NOW, PPO__HIGH_NOW, PPO__ENTROPY_NOW, PPO__NOW }; /* as PPO_SETTING_... */
    const ppo_config *c = &trainer->config;
    const float initial[PPO__NOW] = {c->learning_rate, c->clip_low, c->clip_high, c->entropy_coef};
    const ppo_schedule_kind schedule[PPO__NOW] = {c->learning_rate_schedule, c->clip_schedule,
                                                  c->clip_schedule, c->entropy_schedule};
    const float done = (float)((double)trainer->steps / (double)c->total_steps);
    float now[PPO__NOW];
    int valid = 1;
    for (int k = 0; k < PPO__NOW; ++k) {
        now[k] = schedule[k] == PPO_CUSTOM ? c->schedule(k, initial[k], done, c->schedule_user)
                                           : ppo_schedule(schedule[k], initial[k], done);
        valid &= now[k] >= 0 && ppo__finite(now[k]);
    }
    if (!valid)
        return ppo__refuse("config.schedule gave learning rate %g, clip %g and %g, entropy_coef %g",
                           (double)now[PPO__RATE_NOW], (double)now[PPO__LOW_NOW], (double)now[PPO__HIGH_NOW],
                           (double)now[PPO__ENTROPY_NOW]);
    const ppo_policy_objective objective = {c->objective, now[PPO__LOW_NOW], now[PPO__HIGH_NOW], c->dual_clip,
                                            trainer->kl_coef};
    const ppo_adam adam = {now[PPO__RATE_NOW], c->adam_beta1, c->adam_beta2, c->adam_eps, c->weight_decay};
    trainer->objective = objective;
    trainer->adam = adam;
    if (c->lr_target_kl > 0 && trainer->rate > 0) trainer->adam.lr = trainer->rate;
    trainer->entropy_coef = trainer->progress.entropy_coef = now[PPO__ENTROPY_NOW];
    trainer->progress.learning_rate = trainer->adam.lr;
    trainer->progress.clip_range = now[PPO__HIGH_NOW];
    trainer->progress.kl_coef = trainer->kl_coef;
    return PPO_OK;
}

/* lr_target_kl: the learning rate of the next step, after a minibatch with this KL. */
static void ppo__adapt_rate(ppo_trainer *trainer, float kl) {
    const float desired = trainer->config.lr_target_kl;
    float *rate = &trainer->adam.lr;
    if (desired <= 0) return;
    if (kl > 2 * desired) *rate = ppo__max(*rate / 1.5f, 1e-5f);
    else if (kl > 0 && kl < desired / 2) *rate = ppo__min(*rate * 1.5f, 1e-2f);
    trainer->progress.learning_rate = trainer->rate = *rate;
}

static int ppo__adapts_kl(const ppo_config *config) {
    return config->penalty_target_kl > 0 && config->objective == PPO_KL_PENALTY;
}

/* Schulman 2017, section 4: the exact KL(old || new) over the samples adapts the coefficient of the next iteration. */
static ppo_status ppo__adapt_kl(ppo_trainer *trainer) {
    if (!ppo__adapts_kl(&trainer->config)) return PPO_OK;
    const ppo_actor_critic *model = &trainer->agent->model;
    ppo_tape *tape = trainer->tapes[0];
    int segments, batches = ppo__list_segments(trainer, 0, &segments), samples = 0;
    double sum = 0;
    for (int b = 0; b < batches; ++b) {
        ppo__choose_minibatch(trainer, segments, b, batches, trainer->minibatch.most_shards);
        for (int k = 0; k < trainer->minibatch.shards; ++k) {
            ppo__shard *shard = &trainer->minibatch.shard[k];
            ppo__gather(trainer, shard);
            ppo_tape_reset(tape);
            ppo_outputs out = ppo_actor_critic_forward(tape, model, &shard->inputs, PPO_POLICY);
            ppo_tensor *kl =
                ppo__actor_critic_kl(tape, model, &out, shard->samples.policy, shard->samples.log_std);
            if (!kl) return ppo_tape_status(tape);
            for (int i = 0; i < kl->rows; ++i) sum += (double)kl->data[i];
            samples += kl->rows;
        }
    }
    if (!samples) return PPO_OK;
    const float kl = trainer->progress.kl = (float)(sum / samples);
    trainer->kl_coef = ppo__clamp(
        ppo_adaptive_kl_2017(trainer->kl_coef, kl, trainer->config.penalty_target_kl), 1e-6f, 1e6f);
    return PPO_OK;
}

/* -- reports -- */

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

/* Counts the iteration, and the episodes that ended in it, in the order of their ends. */
static void ppo__report(ppo_trainer *trainer) {
    ppo_progress *progress = &trainer->progress;
    const ppo_actor_critic *model = &trainer->agent->model;
    const ppo_rollout *rollout = &trainer->collector.rollout;
    int rows = rollout->steps * rollout->envs, samples = 0;
    const int figures = ppo__metric_count(&trainer->collector.envs.env);
    const float *reward = rollout->raw_reward ? rollout->raw_reward : rollout->reward;
    double returns = 0, lengths = 0, std = 0, earned = 0;
    for (int e = 0; e < rollout->envs; ++e) samples += rollout->recorded[e];
    for (int i = 0; i < rows; ++i) { /* those that are not recorded are zeros */
        earned += (double)reward[i];
        if (!rollout->episode_length[i]) continue;
        trainer->last_return[trainer->episodes % PPO__LAST_EPISODES] = rollout->episode_return[i];
        trainer->last_length[trainer->episodes % PPO__LAST_EPISODES] = rollout->episode_length[i];
        for (int k = 0; k < figures; ++k)
            trainer->last_metrics[k][trainer->episodes % PPO__LAST_EPISODES] =
                rollout->metrics[i * figures + k];
        ++trainer->episodes;
    }
    int recent = trainer->episodes < PPO__LAST_EPISODES ? (int)trainer->episodes : (int)PPO__LAST_EPISODES;
    for (int i = 0; i < recent; ++i) returns += trainer->last_return[i], lengths += trainer->last_length[i];
    for (size_t i = 0; model->log_std && i < ppo__size(model->log_std); ++i)
        std += exp((double)ppo__log_std_at(model, i));
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
    progress->mean_reward = (float)(earned / samples);
    progress->metric_names = trainer->collector.envs.env.metrics;
    for (int k = 0; k < figures; ++k) {
        double sum = 0;
        for (int i = 0; i < recent; ++i) sum += trainer->last_metrics[k][i];
        progress->metrics[k] = recent ? (float)(sum / recent) : NAN;
    }
    progress->updates = trainer->updates;
    progress->gradient_steps = model->params->step;
    progress->std = model->log_std ? (float)(std / (double)ppo__size(model->log_std)) : 0;
    progress->value_clip = trainer->config.value_clip;
    progress->explained_variance = ppo__explained_variance(rollout->value, rollout->value_target, rows,
                                                           rollout->recorded, rollout->envs);
}

/* -- what seems to go wrong: one table for ppo_progress.warning and ppo_env_check(). A row is a cause, in the task or
   in the settings, or an effect, which a cause may have. An iteration shows the first cause that no report has shown;
   otherwise, if there is an effect, the first cause again, or if there is none that effect. Thresholds lie between what
   sick tasks show and what sound ones do (tests/test_traps_doctor.c). A sentence has below 160 bytes -- */

/* 1: the advice changes something. "name=value": it is off, and has an effect if set; "lower name": it can be lower. */
static int ppo__can_follow(const ppo_config *config, const char *advice, size_t n) {
    const ppo_settings *all = ppo_config_settings();
    const char *value = (const char *)memchr(advice, '=', n), *end = value ? value : advice + n, *name = end;
    char text[64];
    ppo_config then = *config;
    snprintf(text, sizeof text, "%.*s", (int)n, advice);
    while (name > advice && name[-1] != ' ') --name;
    for (const ppo_field *f = all->field; f < all->field + all->count; ++f) {
        if (strlen(f->name) != (size_t)(end - name) || memcmp(f->name, name, strlen(f->name))) continue;
        const double is = ppo__field_number(f, ppo__field_at(f, config));
        if (value && (is != 0 || ppo_settings_set_all(all, &then, text))) return 0;
        if (value) return !ppo__check_effects(all, &then, f->name, NULL);
        if (config->lr_target_kl > 0 && !strcmp(f->name, "learning_rate")) return 0; /* it is adapted */
        return *advice == 'h' || is > f->min;                                        /* "higher name" */
    }
    return 1; /* no setting */
}

/* Appends to a sentence what of the advice "A|B|C" can be followed and fits: ": try A, C". */
static void ppo__advise(const ppo_config *config, const char *advice, char *text, size_t size) {
    const char *before = ": try ";
    for (size_t n, used = strlen(text); *advice; advice += n + (advice[n] == '|')) {
        n = strcspn(advice, "|");
        if (!ppo__can_follow(config, advice, n) || used + strlen(before) + n >= size) continue;
        used += (size_t)snprintf(text + used, size - used, "%s%.*s", before, (int)n, advice);
        before = ", ";
    }
}

/* The first symptom from row `from` on that shows; its row is -1 if there is none. */
static ppo__symptom ppo__diagnose(const ppo__signs *s, int from) {
    const ppo_progress *p = s->progress;
    const ppo_config *c = s->config;
    const ppo_env *env = s->env;
    const ppo_space *space = &env->action_space;
    const int plays = !p->iteration, full = s->full, floats = ppo__kind(space)->continuous;
    const int choices = !floats && ppo__space_outputs(space) > ppo__space_width(space); /* not a single one */
    const int64_t early = p->total_steps < 500000 ? p->total_steps / 10 : 50000;
    const double std = floats ? exp((double)c->log_std_init) : 0;
    const double copies = plays ? 1 : c->num_envs / ppo__agents(env),
                 endless = s->endless / (copies * ppo__agents(env)),
                 rollout = (double)c->num_envs * c->rollout_steps;
    const double large = c->normalize_reward ? INFINITY : 1e6;
    const int still = s->kl < 1e-4 && s->clipped < 0.1 && fabs(s->entropy - s->first_entropy) < 0.004;

    /* of the observations: the one of the largest size, and the widest and the narrowest spread */
    const int seen = s->looked && s->seen > 1, bytes = c->normalize_obs ? 0 : ppo__byte_count(env);
    const int raw = seen && !c->normalize_obs && bytes < env->obs_size;
    int away = 0, narrow = 0, constant = seen && (plays || !bytes); /* bytes of a rollout are not looked at */
    double away_mean = 0, away_std = 0, size = 0, widest = 0, narrowest = INFINITY;
    for (int j = 0; j < env->obs_size && seen; ++j) {
        const ppo__feature *f = &s->feature[j];
        const double shift = f->sum / s->seen, mean = f->first + shift;
        const double spread = sqrt(fmax(0, f->squares / s->seen - shift * shift));
        constant &= f->low == f->high;
        if (j < bytes) continue; /* byte_scale says how large they are */
        if (hypot(mean, spread) > size)
            away = j, away_mean = mean, away_std = spread, size = hypot(mean, spread);
        if (f->low == f->high) continue;
        widest = fmax(widest, spread);
        if (f->high - f->low < 0.1f && spread < narrowest) narrow = j, narrowest = spread;
    }

#define PPO__ROW(name, effect, shows, text, advice, ...)   \
    {                                                      \
        name, effect, shows, text, advice, { __VA_ARGS__ } \
    }
    const struct {
        const char *name;
        int effect, shows;
        const char *text, *advice;
        double numbers[4];
    } table[] = {
        PPO__ROW("obs-constant", 0, constant && (plays || env->obs_size > 1),
                 "the observation never changed in %.0f steps", "", s->steps),
        PPO__ROW("obs-far", 0, raw && size > 10, "observation[%.0f] is %.3g +- %.3g, far from unit scale",
                 "normalize_obs=yes|other units in step()", (double)away, away_mean, away_std),
        PPO__ROW(c->recurrent ? "obs-memory" : "obs-tiny", 0,
                 raw && !constant && !bytes && size < (c->recurrent ? 0.3 : 0.02),
                 c->recurrent ? "all observations are within %.2g of 0, too small for a memory (recurrent)"
                              : "all observations are within %.2g of 0",
                 "normalize_obs=yes|other units in step()", size),
        PPO__ROW("obs-small", 0, raw && narrowest < fmax(widest, fmin(size, 1)) / 20,
                 "observation[%.0f] varies by %.2g only, beside numbers of up to %.2g",
                 "normalize_obs=yes|other units in step()", (double)narrow, narrowest, size),
        PPO__ROW("box-far", 0,
                 floats && !c->squash && c->scale_actions == PPO_SCALE_NO && ppo__box_is_far(space),
                 "scale_actions is no, and actions go from %g to %g, but a new policy's are near 0, +-1",
                 "scale_actions=auto", space->low, space->high),
        PPO__ROW("std-small", 0, floats && !c->gsde && std < 0.01,
                 "actions begin with a standard deviation of %.2g only: nothing else is tried",
                 "higher log_std_init", std),
        PPO__ROW("reward-none", 0, s->paid == 0,
                 "no reward came in %.0f steps: there is nothing to learn from", "", s->steps),
        PPO__ROW("reward-large", 0, s->largest > large || (plays && sqrt(s->target) > large),
                 "rewards reach %.3g, discounted returns %.3g", "normalize_reward=yes|other units",
                 s->largest, sqrt(s->target)),
        PPO__ROW("no-end", 0,
                 !env->max_steps && (plays ? !s->ends : endless >= fmax(1000, 10 * (double)p->mean_length)),
                 "no episode ended in the last %.0f steps of each copy, so no return is known",
                 ppo__is_pushed(env) ? "outcome.truncated now and then" : "env.max_steps", endless),
        PPO__ROW("few-iterations", 0, !plays && rollout >= 8192 && p->total_steps < 10 * rollout,
                 "the run has %.0f iterations only, as each of them takes %.0f steps",
                 "lower rollout_steps|more total_steps", ceil((double)p->total_steps / rollout), rollout),
        PPO__ROW("in-step", 0, s->in_step > 0 && copies >= 32 && p->mean_length > 8 * (float)c->rollout_steps,
                 "all %.0f copies are at the same step of %.0f, and a rollout sees %.0f of them",
                 "a random first step in the first reset()|higher rollout_steps", copies, p->mean_length,
                 (double)c->rollout_steps),
        PPO__ROW("overflow", 1, p->grad_norm > 1e6f || fabsf(p->loss) > 1e12f,
                 "the loss is %.2g, its gradient %.2g: near overflow",
                 "normalize_reward=yes|normalize_obs=yes|lower learning_rate", p->loss, p->grad_norm),
        PPO__ROW("entropy-gone", 1, full && choices && s->entropy < 1e-5,
                 "the policy takes one action only (entropy %.1g), and hardly learns",
                 "lower learning_rate|target_kl=0.02|entropy_coef=0.01", s->entropy),
        PPO__ROW("std-gone", 1, full && floats && p->std < 1e-3 * fmin(1, std),
                 "the standard deviation of actions fell to %.1g: nothing else is tried",
                 "lower learning_rate|target_kl=0.02|entropy_coef=0.001", p->std),
        PPO__ROW("std-high", 1, full && floats && p->std > 30 * fmax(1, std),
                 "the standard deviation of actions rose to %.2g: it is noise",
                 "lower entropy_coef|lower learning_rate|target_kl=0.02", p->std),
        PPO__ROW("entropy-high", 1,
                 full && choices && c->entropy_coef > 0.2f && p->steps > p->total_steps / 3 &&
                     s->entropy > 0.9 * s->first_entropy,
                 "the entropy is %.3f, once %.3f: the bonus keeps the policy near random",
                 "lower entropy_coef", s->entropy, s->first_entropy),
        PPO__ROW("kl-stops", 1, full && s->stopped > 0.6,
                 "target_kl ends most iterations in their first epoch, this one after %.0f gradient steps",
                 "lower learning_rate|higher target_kl", s->gradients),
        PPO__ROW("gradient", 1,
                 full && c->use_critic && c->max_grad_norm > 0 && s->grad_norm > 4000 * c->max_grad_norm,
                 "the gradient's norm is %.2g, max_grad_norm %.2g: the critic takes all of it",
                 "normalize_reward=yes|huber_delta=1|lower value_coef", p->grad_norm, c->max_grad_norm),
        PPO__ROW("critic", 1, full && s->error > 10,
                 "the critic's squared error is %.3g times that of a critic that says 0",
                 "normalize_reward=yes|lower learning_rate", s->error),
        PPO__ROW("clip", 1, full && (s->clipped > 0.5 || s->kl > 3),
                 "%.0f %% of the ratios left the clip range, and the KL is %.2g",
                 "lower learning_rate|fewer epochs|target_kl=0.02", 100 * s->clipped, p->approx_kl),
        PPO__ROW("random", 1,
                 full && p->iteration >= 4 && p->gradient_steps >= 1000 && p->steps >= early && still,
                 "the policy still acts at random (entropy %.3f, KL %.1g)",
                 s->target > 1e4 ? "normalize_reward=yes|higher learning_rate"
                                 : "higher learning_rate|normalize_obs=yes",
                 s->entropy, s->kl),
        PPO__ROW("shorter", 1,
                 full && p->episodes >= 200 && p->steps > p->total_steps / 3 &&
                     p->mean_return < 0.25f * s->first_return && p->mean_return > 0.9f * s->first_return &&
                     p->mean_length < 0.7f * s->first_length &&
                     s->varies > -0.01f * p->mean_return / p->mean_length && s->end_reward < 0.5 * s->varies,
                 "the return rose from %.3g to %.3g as episodes got shorter (%.3g steps, once %.3g): to "
                 "avoid costs?",
                 "", s->first_return, p->mean_return, p->mean_length, s->first_length),
    };
#undef PPO__ROW
    ppo__symptom found = {NULL, -1, 0, ""};
    for (int k = from; k < (int)(sizeof table / sizeof *table) && found.row < 0; ++k) {
        const double *x = table[k].numbers;
        if (!table[k].shows) continue;
        found.name = table[k].name, found.row = k, found.effect = table[k].effect;
        snprintf(found.sentence, sizeof found.sentence, table[k].text, x[0], x[1], x[2], x[3]);
        ppo__advise(c, table[k].advice, found.sentence, sizeof found.sentence);
    }
    return found;
}

/* Takes in the numbers of an observation from `from` on; a reward. */
static void ppo__see(ppo__signs *s, const float *obs, int from) {
    for (ppo__feature *f = s->feature + from; f < s->feature + s->env->obs_size; ++f, ++obs) {
        if (s->seen == 0) f->first = f->low = f->high = *obs;
        const double x = (double)*obs - f->first;
        f->sum += x, f->squares += x * x;
        f->low = ppo__min(f->low, *obs), f->high = ppo__max(f->high, *obs);
    }
    ++s->seen;
}

static void ppo__see_reward(ppo__signs *s, float reward, int ended) {
    ++s->steps;
    s->ends += ended;
    s->endless = ended ? 0 : s->endless + 1;
    s->paid += reward != 0;
    s->largest = fmax(s->largest, fabs((double)reward));
}

/* Moves a mean. */
static void ppo__follow(double *mean, double weight, double x) { *mean += weight * (x - *mean); }

/* Takes in the rollout; weight: of the iteration in the means. */
static void ppo__see_rollout(ppo__signs *s, const ppo_rollout *r, double weight) {
    double samples = 0, targets = 0, terminated = 0, rewards[2] = {0, 0}, squares = 0;
    const int bytes = r->obs_bytes ? r->byte_count : 0;
    s->in_step = 0;
    for (int t = 0; t < r->steps; ++t) {
        int ends = 0;
        for (int e = 0; e < r->envs; ++e) {
            const size_t at = ppo__at(t, r->envs) + e;
            const int end = r->terminated[at], ended = end || r->truncated[at];
            if (t >= r->recorded[e]) continue;
            if (r->obs && !s->looked) ppo__see(s, r->obs + at * (size_t)(s->env->obs_size - bytes), bytes);
            ppo__see_reward(s, r->reward[at], ended);
            ++samples, ends += ended, terminated += end;
            targets += (double)r->value_target[at] * r->value_target[at];
            rewards[end] += r->reward[at];
            if (!end) squares += (double)r->reward[at] * r->reward[at];
        }
        if (ends) s->in_step = ends == r->envs && s->in_step >= 0 ? 1 : -1;
    }
    ppo__follow(&s->target, weight, targets / samples);
    if (terminated > 0 && terminated < samples) {
        const double n = samples - terminated, mean = rewards[0] / n;
        ppo__follow(&s->end_reward, weight, rewards[1] / terminated - mean);
        ppo__follow(&s->varies, weight, sqrt(fmax(0, squares / n - mean * mean)));
    }
}

/* Takes in the report. */
static void ppo__see_report(ppo__signs *s, double weight) {
    const ppo_progress *p = s->progress;
    ppo__follow(&s->entropy, weight, p->entropy);
    weight = fmin(weight, 0.2); /* these must last */
    ppo__follow(&s->stopped, weight, p->epochs == 0);
    ppo__follow(&s->error, weight, s->target > 0 ? 2 * p->value_loss / s->target : 0);
    ppo__follow(&s->kl, weight, fminf(p->approx_kl, 5));
    ppo__follow(&s->clipped, weight, p->clip_fraction);
    ppo__follow(&s->grad_norm, weight, p->grad_norm);
    if (p->iteration == 1) s->first_entropy = p->entropy;
    if (s->first_length > 0 || p->episodes < 50) return;
    s->first_return = p->mean_return;
    s->first_length = p->mean_length;
}

/* 1: with this iteration a twentieth of the run is complete, or all of it. */
static int ppo__is_twentieth(const ppo_progress *p) {
    const int64_t part = p->total_steps / 20 > 0 ? p->total_steps / 20 : 1;
    return p->steps >= p->total_steps || p->steps % part < p->iteration_steps;
}

/* Sets the warning. Observations are judged once an episode has ended or after 1,000 steps of each agent, means
   after as many samples, or a quarter of the run. */
PPO__RARE void ppo__warn(ppo_trainer *trainer) {
    ppo__signs *s = &trainer->signs;
    ppo_progress *p = &trainer->progress;
    ppo__symptom found, cause = {NULL, -1, 0, ""}, *worst = &trainer->worst;
    const double samples = (double)p->iteration_steps;
    const double weight = samples / fmin(s->steps + samples, fmax(samples, 1000));
    ppo__see_rollout(s, &trainer->collector.rollout, weight);
    ppo__see_report(s, weight);
    s->gradients = trainer->gradients;
    s->looked = s->looked || s->ends > 0 || s->steps >= 1000.0 * trainer->config.num_envs ||
                ppo_trainer_done(trainer);
    s->full = s->steps >= fmin(1000, 0.25 * (double)p->total_steps);
    for (int row = 0; (found = ppo__diagnose(s, row)).row >= 0; row = found.row + 1) {
        if (!found.effect && cause.row < 0) cause = found;
        if (found.effect || !(trainer->shown >> found.row & 1)) break;
    }
    if (found.effect && cause.row >= 0) found = cause;
    if (found.row >= 0 && (!worst->name || found.row <= worst->row))
        *worst = found, trainer->warned = p->iteration;
    const ppo__symptom *told = worst->name ? worst : &cause;
    p->symptom = told->name;
    p->warned = worst->name ? trainer->warned : 0;
    memcpy(p->warning, told->sentence, sizeof p->warning - 1);
    if (!worst->name || !ppo__is_twentieth(p)) return;
    trainer->shown |= 1u << worst->row;
    worst->name = NULL;
}

/* -- pauses, and a program that steps its own world -- */

PPO_DEF int ppo_trainer_done(const ppo_trainer *trainer) {
    return !trainer || trainer->steps >= trainer->config.total_steps;
}

/* Steps of the next rollout: fewer at the end of the run, unless agents share a world: each needs time to act. */
static int ppo__next_steps(const ppo_trainer *trainer) {
    const ppo_config *config = &trainer->config;
    int64_t left = (config->total_steps - trainer->steps - 1) / config->num_envs + 1;
    const int shortens = trainer->collector.envs.agents == 1 && left < config->rollout_steps;
    return shortens ? (int)left : config->rollout_steps;
}

/* 1: the clock has passed `until`, and this was not the last minibatch. */
static int ppo__must_pause(const ppo_trainer *trainer, double until) {
    const int last =
        trainer->batch == trainer->batches && trainer->progress.epochs + 1 == trainer->config.epochs;
    return !last && ppo_clock() >= until;
}

/* Checks a source's number. Returns its agent; -1 after an error. */
static int ppo__source(const ppo_trainer *trainer, const char *function, int source) {
    const ppo__envs *envs = &trainer->collector.envs;
    if (!ppo__is_pushed(&envs->env))
        ppo__refuse("%s: the environment has functions, use ppo_trainer_iterate()", function);
    else if (source < 0 || source >= envs->count)
        ppo__refuse("%s: source %d, outside 0 to %d, num_envs - 1", function, source, envs->count - 1);
    else if (source < envs->begin || source >= envs->end)
        ppo__refuse("%s: source %d is another process's, this one has %d to %d", function, source,
                    envs->begin, envs->end - 1);
    else return source;
    return -1;
}

/* Counts the sources that have all their steps. *lacks: one that is in an episode and has not, if possible one
   that did not say that it waits; -1: there is none. */
static int ppo__complete_sources(const ppo__collector *c, int *lacks) {
    int complete = 0;
    *lacks = -1;
    for (int e = c->envs.begin; e < c->envs.end; ++e) {
        if (c->rollout.recorded[e] - (c->row[e] == PPO__ROW_OPEN) == c->rollout.steps) ++complete;
        else if (c->envs.turn[e] != PPO__OUT && (*lacks < 0 || !c->envs.outcome[e].waits)) *lacks = e;
    }
    return complete;
}

/* Fails, once, if source e and its like pushed ten rollouts and 1,000 steps each in vain, while none that
   learning waits for was observed, or ppo_trainer_learn() was not called. */
static ppo_status ppo__check_silence(ppo_trainer *trainer, int e) {
    const ppo__collector *c = &trainer->collector;
    int lacks;
    if (trainer->dropped < 0 || !c->records) return PPO_OK;
    trainer->dropped = c->row[e] == PPO__ROW_LAST ? trainer->dropped + 1 : 0;
    if (!trainer->dropped || trainer->dropped % 1000) return PPO_OK;
    const int complete = ppo__complete_sources(c, &lacks);
    const double most = complete * fmax(1000, 10.0 * c->rollout.steps);
    if (lacks < 0 ? trainer->learning : c->envs.outcome[lacks].waits) return PPO_OK;
    if ((double)trainer->dropped < most) return PPO_OK;
    trainer->dropped = -1;
    if (lacks < 0)
        return ppo__refuse("call ppo_trainer_learn(): the sources have their %d steps, the rest is lost",
                           c->rollout.steps);
    return ppo__refuse(
        "learning waits for source %d, which is in an episode, but not observed: what others do is "
        "lost; if it is gone, end its episode by an outcome with truncated = 1",
        lacks);
}

PPO_DEF ppo_status ppo_trainer_observe(ppo_trainer *trainer, int source, const float *obs,
                                       const unsigned char *mask, const ppo_outcome *outcome) {
    if (!PPO__GIVEN("ppo_trainer_observe", trainer)) return PPO_ERROR_ARGUMENT;
    ppo__collector *c = &trainer->collector;
    ppo__envs *envs = &c->envs;
    const int e = ppo__source(trainer, "ppo_trainer_observe", source);
    const int ends = outcome && (outcome->terminated || outcome->truncated);
    const int acts = !outcome || (!ends && !outcome->waits);
    const ppo_space *space = &envs->env.action_space;
    ppo_status status = PPO_OK;
    if (e < 0) return PPO_ERROR_ARGUMENT;
    if (outcome && envs->turn[e] == PPO__OUT)
        return ppo__refuse("source %d is in no episode: to begin one, outcome must be NULL", source);
    if (outcome && envs->turn[e] == PPO__ACTS)
        return ppo__refuse("source %d has not acted since its last observation", source);
    if (!outcome && envs->turn[e] != PPO__OUT)
        return ppo__refuse("source %d is in an episode: its outcome is needed, the last one, too", source);
    if (!obs && (acts || (outcome->truncated && !outcome->terminated)))
        return ppo__refuse("ppo_trainer_observe: obs is NULL, but source %d %s", source,
                           acts ? "acts next" : "was truncated");
    const int64_t step = envs->steps[e] + (outcome != NULL);
    status = ppo__check_silence(trainer, e);
    if (!status && obs && !(outcome && outcome->terminated)) status = ppo__keep_obs(envs, e, step, obs);
    if (outcome && !status) status = ppo__check_numbers(&outcome->reward, 0, "reward", envs, e, step);
    int choice = acts && mask && !ppo__kind(space)->continuous ? ppo__choice_without_action(space, mask) : -1;
    if (!status && choice >= 0)
        status = ppo__refuse("the mask leaves no action (choice %d, source %d)", choice, source);
    if (status) return status;

    ppo_outcome *out = &envs->outcome[e];
    size_t outputs = (size_t)ppo__space_outputs(space);
    if (mask) memcpy(envs->mask + e * outputs, mask, outputs);
    else memset(envs->mask + e * outputs, 1, outputs);
    if (outcome) {
        *out = *outcome;
        status = ppo__count_outcome(envs, e, out);
        if (!status) status = ppo__record_outcome(&c->workers[0], e, out);
        if (!status && trainer->observed) trainer->observed(trainer, e, out);
    } else out->waits = 0;
    envs->turn[e] = acts ? PPO__ACTS : ends ? PPO__OUT : PPO__WAITS;
    if (status) { /* the return is too large: the latest row is dropped, and a new episode begins */
        c->rollout.recorded[e] -= c->row[e] == PPO__ROW_OPEN;
        c->row[e] = PPO__ROW_COMPLETE;
        envs->turn[e] = PPO__OUT;
    } else if (!outcome) ppo__begin_episode(c, e);
    else if (acts && c->records && c->row[e] != PPO__ROW_LAST) ppo__track_obs(c, e);
    return status;
}

PPO_DEF ppo_status ppo_trainer_act(ppo_trainer *trainer, int source, ppo_action *action) {
    if (!PPO__GIVEN("ppo_trainer_act", trainer, action)) return PPO_ERROR_ARGUMENT;
    ppo__envs *envs = &trainer->collector.envs;
    const int e = ppo__source(trainer, "ppo_trainer_act", source);
    if (e < 0) return PPO_ERROR_ARGUMENT;
    if (envs->turn[e] != PPO__ACTS)
        return ppo__refuse("source %d has nothing to act on: call ppo_trainer_observe() first", source);
    ppo__worker *worker = &trainer->collector.workers[0];
    ppo__acting batch;
    batch.agent = &e, batch.n = 1;
    ppo_status status = ppo__act_batch(worker, &batch, e - worker->begin);
    if (status) return status;
    envs->turn[e] = PPO__WAITS;
    *action = envs->action[e];
    return PPO_OK;
}

PPO_DEF int ppo_trainer_ready(const ppo_trainer *trainer) {
    int lacks;
    if (!trainer || !ppo__is_pushed(&trainer->collector.envs.env) || ppo_trainer_done(trainer)) return 0;
    return trainer->learning || (ppo__complete_sources(&trainer->collector, &lacks) && lacks < 0);
}

PPO_DEF ppo_status ppo_trainer_learn(ppo_trainer *trainer, double milliseconds, ppo_progress *progress) {
    if (!PPO__GIVEN("ppo_trainer_learn", trainer)) return PPO_ERROR_ARGUMENT;
    if (progress) memset(progress, 0, sizeof *progress);
    if (ppo__source(trainer, "ppo_trainer_learn", trainer->collector.envs.begin) < 0)
        return PPO_ERROR_ARGUMENT;
    if (milliseconds != milliseconds) return ppo__refuse("ppo_trainer_learn: milliseconds is NaN");
    if (!ppo_trainer_ready(trainer)) return PPO_OK;
    int done = 1;
    const double until =
        milliseconds == 0 ? INFINITY : ppo_clock() + (milliseconds > 0 ? 1e-3 * milliseconds : 0);
    ppo_status status = ppo__iterate(trainer, until, &done);
    if (status || done)
        ppo__rollout_begin(&trainer->collector, ppo_trainer_done(trainer) ? 0 : ppo__next_steps(trainer));
    if (!status && done && progress) *progress = trainer->progress;
    return status;
}

/* -- opponents of self-play: copies of the agent, which the trainer owns -- */

static void ppo__agent_assign(ppo_agent *to, const ppo_agent *from);

/* Every snapshot_every iterations the policy becomes an opponent, in place of the oldest one. */
static void ppo__keep_opponent(ppo_trainer *trainer) {
    ppo__collector *c = &trainer->collector;
    if (!c->snapshot_room || trainer->iteration % trainer->config.snapshot_every) return;
    ppo__agent_assign(c->snapshots[c->snapshot_count++ % c->snapshot_room], trainer->agent);
}

/* Room for the opponents of self-play, which are copies of the agent. */
static ppo_status ppo__snapshot_room(ppo_trainer *trainer) {
    ppo__collector *c = &trainer->collector;
    const int n = trainer->config.self_play;
    c->latest = trainer->config.self_play_latest;
    c->snapshots = PPO__ZEROS(&c->memory, ppo_agent *, n);
    c->match_rng = PPO__ARRAY(&c->memory, ppo_rng, c->envs.copies);
    ppo_status status = ppo__arena_status(&c->memory);
    if (status) return status;
    c->snapshot_room = n;
    for (int k = 0; k < c->envs.copies; ++k)
        c->match_rng[k] = ppo_rng_stream(trainer->config.seed, PPO_STREAM_MATCH, (uint32_t)k);
    for (int k = 0; k < n && !status; ++k) status = ppo_agent_copy(trainer->agent, &c->snapshots[k]);
    return status;
}

/* -- settings -- */

static const char ppo__schedules[] = "constant|linear|cosine|custom";

#define PPO__OF ppo_config
#define PPO__NETWORK(field, type, initial, min, max, choices, help) \
    PPO__SETTING_AS(#field, PPO_FIELD_NETWORK, field, PPO_FIELD_##type, initial, min, max, choices, help)
static const ppo_field ppo__fields[] = {
    PPO__SCALAR(total_steps, I64, "100000", 1, 1e15, "environment steps, over all environments"),
    PPO__SCALAR(num_envs, INT, "4", 1, 65536, "environments side by side"),
    PPO__SCALAR(rollout_steps, INT, "512", 1, 16777216, "steps of each environment per iteration"),
    PPO__SCALAR(epochs, INT, "10", 1, 10000, "passes over each rollout"),
    PPO__SCALAR(minibatch_size, INT, "64", 0, 1073741824, "samples per gradient step; 0: the whole rollout"),
    PPO__SCALAR(shards, INT, "0", 0, 64, "of a minibatch, for threads and processes; 0: by size"),
    PPO__SCALAR(learning_rate, FLOAT, "3e-4", 0, 10, "Adam's learning rate"),
    PPO__CHOICE(learning_rate_schedule, "linear", 3, ppo__schedules, "how it falls to 0 over the run"),
    PPO__SCALAR(critic_learning_rate, FLOAT, "0", 0, 10, "the critic's; 0: the same"),
    PPO__SCALAR(max_grad_norm, FLOAT, "0.5", 0, 1e20, "global gradient norm is clipped to this; 0: off"),
    PPO__SCALAR(adam_beta1, FLOAT, "0.9", 0, 0.999999, "Adam's decay of the mean"),
    PPO__SCALAR(adam_beta2, FLOAT, "0.999", 0, 0.9999999, "Adam's decay of the square"),
    PPO__SCALAR(adam_eps, FLOAT, "1e-5", 1e-12, 1, "Adam's epsilon"),
    PPO__SCALAR(weight_decay, FLOAT, "0", 0, 1e3, "decoupled weight decay (AdamW)"),
    PPO__SCALAR(gamma, FLOAT, "0.99", 0, 1, "discount per step"),
    PPO__SCALAR(gae_lambda, FLOAT, "0.95", 0, 1, "0: one-step TD, 1: Monte Carlo"),
    PPO__SWITCH(normalize_advantage, "yes", "per minibatch: mean 0, standard deviation 1"),
    PPO__SWITCH(recompute_advantages, "no", "before each epoch, by the critic as it is then"),
    PPO__CHOICE(objective, "clip", PPO__OBJECTIVES - 1, ppo__objectives, "what is maximized, not k3-penalty"),
    PPO__SCALAR(clip_low, FLOAT, "0.2", 0, 1, "no gain below 1 - this"),
    PPO__SCALAR(clip_high, FLOAT, "0.2", 0, 1e6, "no gain above 1 + this"),
    PPO__CHOICE(clip_schedule, "constant", 3, ppo__schedules, "how both ranges fall to 0 over the run"),
    PPO__SCALAR(dual_clip, FLOAT, "0", 0, 1e6, "above 1: bound for negative advantages; 0: off"),
    PPO__SCALAR(value_coef, FLOAT, "0.5", 0, 1e20, "weight of the value loss, 0.5 mean squared error"),
    PPO__SCALAR(value_clip, FLOAT, "0", 0, 1e20, "clip range of the value loss; 0: off"),
    PPO__SCALAR(huber_delta, FLOAT, "0", 0, 1e20, "value errors beyond this count linearly; 0: off"),
    PPO__SWITCH(use_critic, "yes", "no: without a critic, advantages are returns"),
    PPO__SCALAR(entropy_coef, FLOAT, "0", 0, 1e6, "weight of the entropy bonus"),
    PPO__CHOICE(entropy_schedule, "constant", 3, ppo__schedules, "how it falls to 0 over the run"),
    PPO__SCALAR(target_kl, FLOAT, "0", 0, 1e6, "epochs end when approx_kl exceeds 1.5 times this; 0: off"),
    PPO__SCALAR(lr_target_kl, FLOAT, "0", 0, 1e6, "learning_rate adapts to hold this approx_kl; 0: off"),
    PPO__SCALAR(kl_coef, FLOAT, "1", 0, 1e6, "weight of KL(old || new) with --objective kl-penalty"),
    PPO__SCALAR(penalty_target_kl, FLOAT, "0", 0, 1e6, "kl_coef doubles or halves to hold this KL; 0: off"),
    PPO__NETWORK(conv, KERNELS, "none", 0, 1024, NULL,
                 "convolutions: channels x kernel x stride, as 16x3x1; 0x2x2: max pooling"),
    PPO__NETWORK(hidden, WIDTHS, "64,64", 1, 65536, NULL,
                 "widths of the hidden layers, as 64,64; none: linear"),
    PPO__NETWORK(activation, CHOICE, "tanh", 0, PPO__ACTIVATIONS - 1, PPO__ACTIVATION_WORDS,
                 "of convolutions and hidden layers"),
    PPO__NETWORK(layer_norm, CHOICE, "no", 0, 1, "no|yes", "of hidden layers, before the activation"),
    PPO__NETWORK(shared_trunk, CHOICE, "no", 0, 1, "no|yes", "one set of hidden layers for actor and critic"),
    PPO__NETWORK(recurrent, INT, "0", 0, 65536, NULL, "width of a recurrent core (GRU); 0: none"),
    PPO__SCALAR(sequence_steps, INT, "32", 1, 16777216, "recurrent: steps that gradients go back through"),
    PPO__NETWORK(init, CHOICE, "orthogonal", 0, 1, "orthogonal|uniform", "initial weights"),
    PPO__NETWORK(log_std_init, FLOAT, "0", -20, 5, NULL, "box actions: initial log standard deviation"),
    PPO__NETWORK(log_std_min, FLOAT, "-20", -20, 20, NULL, "box actions: lower bound of that, at any time"),
    PPO__NETWORK(log_std_max, FLOAT, "20", -20, 20, NULL, "box actions: upper bound of that, at any time"),
    PPO__NETWORK(squash, CHOICE, "no", 0, 1, "no|yes", "box actions: tanh into the box instead of clipping"),
    PPO__NETWORK(scale_actions, CHOICE, "auto", 0, 2, "no|yes|auto",
                 "box actions: -1..1 is mapped to the box; auto: where it is far from that"),
    PPO__NETWORK(gsde, CHOICE, "no", 0, 1, "no|yes", "box actions: state-dependent exploration"),
    PPO__SCALAR(gsde_steps, INT, "0", 0, 16777216, "steps that a sampled exploration lasts; 0: a rollout"),
    PPO__SCALAR(rpo_alpha, FLOAT, "0", 0, 1e3, "box actions: the update adds noise in +- this to means"),
    PPO__NETWORK(normalize_obs, CHOICE, "no", 0, 1, "no|yes", "observations to mean 0, variance 1"),
    PPO__SWITCH(normalize_reward, "no", "rewards divided by the std of the discounted return"),
    PPO__NETWORK(clip_obs, FLOAT, "10", 1e-6, 1e6, NULL, "normalized observations are clipped to +- this"),
    PPO__SCALAR(clip_reward, FLOAT, "10", 1e-6, 1e6, "normalized rewards are clipped to +- this"),
    PPO__SCALAR(self_play, INT, "0", 0, 1024, "earlier policies kept as opponents; 0: all agents learn"),
    PPO__SCALAR(snapshot_every, INT, "10", 1, 1000000000, "self-play: iterations until the next opponent"),
    PPO__SCALAR(self_play_latest, FLOAT, "0.5", 0, 1, "self-play: share of the latest policy's episodes"),
    PPO__SEED("of all random numbers"),
    PPO__SCALAR(threads, INT, "1", 1, 1024, "the results do not depend on them"),
};
#undef PPO__OF
enum { PPO__FIELDS = sizeof ppo__fields / sizeof *ppo__fields };

/* clip_low and clip_high are not here: they also define clip_fraction. The action space matters to numbers in
   a box. */
static const ppo_need ppo__config_needs[] = {
    {"dual_clip", "objective", "clip"},
    {"kl_coef", "objective", "kl-penalty"},
    {"penalty_target_kl", "objective", "kl-penalty"},
    {"critic_learning_rate", "use_critic", "yes"},
    {"value_coef", "use_critic", "yes"},
    {"value_clip", "use_critic", "yes"},
    {"huber_delta", "use_critic", "yes"},
    {"recompute_advantages", "use_critic", "yes"},
    {"recompute_advantages", "epochs", "!1"},
    {"lr_target_kl", "learning_rate_schedule", "constant"},
    {"entropy_schedule", "entropy_coef", NULL},
    {"layer_norm", "hidden", NULL},
    {"shared_trunk", "hidden", NULL},
    {"sequence_steps", "recurrent", NULL},
    {"log_std_init", "the action space", NULL},
    {"log_std_min", "the action space", NULL},
    {"log_std_max", "the action space", NULL},
    {"squash", "the action space", NULL},
    {"scale_actions", "the action space", NULL},
    {"scale_actions", "squash", "no"},
    {"gsde", "the action space", NULL},
    {"gsde_steps", "gsde", "yes"},
    {"rpo_alpha", "the action space", NULL},
    {"clip_obs", "normalize_obs", "yes"},
    {"clip_reward", "normalize_reward", "yes"},
    {"snapshot_every", "self_play", NULL},
    {"self_play_latest", "self_play", NULL},
    {NULL, NULL, NULL},
};

/* A preset resets every setting that its objective does not use. */
#define PPO__PAPER                                                                          \
    "num_envs=1 rollout_steps=2048 minibatch_size=64 epochs=10 learning_rate=3e-4 "         \
    "learning_rate_schedule=constant gamma=0.99 gae_lambda=0.95 value_coef=0.5 "            \
    "entropy_coef=0 entropy_schedule=constant use_critic=yes hidden=64,64 activation=tanh " \
    "shared_trunk=no target_kl=0 "
#define PPO__GRADIENT                                                                             \
    "objective=unclipped epochs=1 minibatch_size=0 learning_rate_schedule=constant gae_lambda=1 " \
    "normalize_advantage=no "
#define PPO__NO_PENALTY "dual_clip kl_coef penalty_target_kl "
#define PPO__ONE_STEP   PPO__NO_PENALTY "target_kl recompute_advantages "
#define PPO__PRESETS(ROW)                                                                                 \
    ROW("reinforce", PPO__ONE_STEP "value_coef value_clip huber_delta critic_learning_rate",              \
        PPO__GRADIENT "use_critic=no learning_rate=3e-3 max_grad_norm=0")                                 \
    ROW("reinforce-baseline", PPO__ONE_STEP,                                                              \
        PPO__GRADIENT "use_critic=yes learning_rate=3e-3 max_grad_norm=0")                                \
    ROW("a2c", PPO__ONE_STEP,                                                                             \
        PPO__GRADIENT                                                                                     \
        "use_critic=yes num_envs=16 rollout_steps=5 learning_rate=7e-4 value_coef=1 max_grad_norm=0.5")   \
    ROW("ppo-paper", PPO__NO_PENALTY "clip_schedule",                                                     \
        PPO__PAPER "objective=clip clip_low=0.2 clip_high=0.2")                                           \
    ROW("ppo-paper-fixed-kl", "dual_clip penalty_target_kl", PPO__PAPER "objective=kl-penalty kl_coef=3") \
    ROW("ppo-paper-adaptive-kl", "dual_clip",                                                             \
        PPO__PAPER "objective=kl-penalty kl_coef=1 penalty_target_kl=0.01")                               \
    ROW("ppo-paper-unclipped", PPO__NO_PENALTY, PPO__PAPER "objective=unclipped")
static const ppo_preset ppo__presets[] = {PPO__PRESETS(PPO__PRESET_ROW){NULL, NULL, NULL}};

static const ppo_settings ppo__config_settings = {ppo__fields, PPO__FIELDS, ppo__config_needs, ppo__presets,
                                                  &(PPO__PRESETS(PPO__PRESET_WORD))[1]};

PPO_DEF const ppo_settings *ppo_config_settings(void) { return &ppo__config_settings; }

PPO_DEF ppo_config ppo_config_default(void) {
    ppo_config config;
    ppo__settings_default(&ppo__config_settings, &config, sizeof config);
    return config;
}

PPO_DEF ppo_status ppo_config_check_effect(const ppo_config *config, const ppo_env *env, const char *name) {
    char space[PPO__SPACE_SIZE];
    if (!PPO__GIVEN("ppo_config_check_effect", config)) return PPO_ERROR_ARGUMENT;
    if (env && ppo__check_space(&env->action_space)) return PPO_ERROR_ARGUMENT;
    const int known = env && !ppo__kind(&env->action_space)->continuous;
    if (known) ppo__space_text(&env->action_space, space);
    return ppo__check_effects(&ppo__config_settings, config, name, known ? space : NULL);
}

PPO_DEF ppo_status ppo_config_check(const ppo_config *config) {
    if (!config) return ppo__refuse("the configuration is NULL");
    if (!config->total_steps && !config->num_envs)
        return ppo__refuse("the configuration is all zeros: start from ppo_config_default()");
    ppo_status status = ppo__settings_check(&ppo__config_settings, config);
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
    if (config->log_std_init < config->log_std_min || config->log_std_init > config->log_std_max)
        return ppo__refuse("log_std_init is %g, outside log_std_min to log_std_max, %g to %g",
                           (double)config->log_std_init, (double)config->log_std_min,
                           (double)config->log_std_max);
    return PPO_OK;
}

/* -- the agent -- */

PPO_DEF void ppo_agent_free(ppo_agent *agent) {
    if (!agent) return;
    ppo__actor_critic_free(&agent->model);
    ppo_normalizer_free(&agent->obs_norm);
    ppo_normalizer_free(&agent->return_norm);
    ppo_tape_free(agent->tape);
    ppo__free(agent->scratch);
    ppo__free(agent->state);
    ppo__free(agent);
}

/* Copies a name; a long one is cut, between two characters of UTF-8. */
static void ppo__keep_name(char to[64], const char *name) {
    size_t length = name ? strlen(name) : 0;
    if (length > 63)
        for (length = 63; length && ((unsigned char)name[length] & 0xc0) == 0x80;) --length;
    if (length) memcpy(to, name, length);
    to[length] = 0;
}

/* Reads only the sizes and the name of env. zeros: without initial weights, as they will be loaded. */
PPO__RARE ppo_status ppo__agent_make(const ppo_env *env, const ppo_config *config, int zeros,
                                     ppo_agent **out) {
    if (ppo__check_network(env, config)) return PPO_ERROR_ARGUMENT;
    ppo_agent *agent = (ppo_agent *)ppo__alloc(sizeof *agent);
    if (!agent) return PPO_ERROR_MEMORY;
    agent->clip_obs = config->clip_obs;
    agent->config = *config;
    ppo__keep_name(agent->environment, env->name);
    ppo_status status = ppo__actor_critic_init(&agent->model, env, config, zeros);
    if (!status && config->normalize_obs) status = ppo_normalizer_init(&agent->obs_norm, env->obs_size);
    if (!status) status = ppo_tape_create(&agent->tape);
    if (!status) {
        ppo_tape_record(agent->tape, 0);
        agent->scratch = (float *)ppo__alloc((size_t)env->action_space.n * sizeof(float));
        agent->state = (float *)ppo__alloc((size_t)config->recurrent * sizeof(float));
        if (!agent->scratch || !agent->state) status = PPO_ERROR_MEMORY;
    }
    if (status) ppo_agent_free(agent);
    else *out = agent;
    return status;
}

/* Errors: num_envs is not a multiple of env.agents, or needs more than env.copies; self-play without teams. */
PPO__RARE ppo_status ppo__check_copies(const ppo_env *env, const ppo_config *config) {
    const int agents = ppo__agents(env), ranks = ppo__ranks(ppo__group());
    const double most = (double)env->copies * agents * ranks;
    if (env->copies && config->num_envs > most)
        return ppo__refuse(
            "num_envs is %d, but of this world only %d %s at once (env.copies)%s: set num_envs=%.0f",
            config->num_envs, env->copies, env->copies == 1 ? "copy exists" : "copies exist",
            agents > 1 || ranks > 1 ? ", for all its agents in each process" : "", most);
    if (config->num_envs % agents)
        return ppo__refuse("num_envs is %d: it counts agents, and must be a multiple of env.agents, %d",
                           config->num_envs, agents);
    if (config->self_play && env->teams < 2)
        return ppo__refuse("self_play needs env.teams of 2 or more, not %d", env->teams);
    return PPO_OK;
}

PPO_DEF ppo_status ppo_agent_create(const ppo_env *env, const ppo_config *config, ppo_agent **agent) {
    if (!PPO__GIVEN("ppo_agent_create", agent)) return PPO_ERROR_ARGUMENT;
    *agent = NULL;
    ppo_status status = ppo__check_functions(env);
    if (!status) status = ppo_config_check(config);
    if (!status) status = ppo__check_copies(env, config);
    if (!status) status = ppo_config_check_effect(config, env, NULL);
    return status ? status : ppo__agent_make(env, config, 0, agent);
}

PPO_DEF void ppo_agent_reset(ppo_agent *agent) {
    if (agent) memset(agent->state, 0, agent->model.core.width * sizeof(float));
}

/* Copies weights and statistics to an agent with the same network. */
static void ppo__agent_assign(ppo_agent *to, const ppo_agent *from) {
    ppo_normalizer *norms[] = {&to->obs_norm, &to->return_norm};
    const ppo_normalizer *froms[] = {&from->obs_norm, &from->return_norm};
    memcpy(to->model.params->data, from->model.params->data, from->model.params->count * sizeof(float));
    for (int k = 0; k < 2; ++k) {
        if (!froms[k]->size || !norms[k]->size) continue; /* who only acts needs none of rewards */
        memcpy(norms[k]->mean, froms[k]->mean, 2 * (size_t)froms[k]->size * sizeof(double)); /* and var */
        norms[k]->count = froms[k]->count;
    }
}

/* The description of environments that fit an agent. */
static ppo_env ppo__env_of(const ppo_agent *agent) {
    ppo_env env;
    memset(&env, 0, sizeof env);
    env.name = agent->environment;
    env.obs_size = agent->model.obs_size;
    env.actor_obs = agent->model.actor_obs;
    memcpy(env.shape, agent->model.conv.shape[0], sizeof env.shape);
    env.action_space = agent->model.action_space;
    return env;
}

/* other: the environment that the agent is to be used with, or another agent's; what: its name in errors. */
PPO__RARE ppo_status ppo__check_fits(const ppo_agent *agent, const ppo_env *other, const char *what) {
    if (!agent) return ppo__refuse("the agent is NULL");
    const ppo_env env = ppo__env_of(agent);
    const int *is = env.shape, *wanted = other->shape;
    char space[2][PPO__SPACE_SIZE];
    ppo__space_text(&env.action_space, space[0]);
    ppo__space_text(&other->action_space, space[1]);
    if (env.obs_size != other->obs_size || strcmp(space[0], space[1]))
        return ppo__refuse("the agent (%d observed, %.40s) does not fit the %s (%d observed, %.40s)",
                           env.obs_size, space[0], what, other->obs_size, space[1]);
    if (env.actor_obs != ppo__actor_obs(other))
        return ppo__refuse("the agent's actor sees %d numbers, that of the %s %d", env.actor_obs, what,
                           ppo__actor_obs(other));
    if (agent->model.conv.layers && memcmp(is, wanted, sizeof env.shape))
        return ppo__refuse("the agent sees pictures of %d x %d x %d, those of the %s are %d x %d x %d", is[0],
                           is[1], is[2], what, wanted[0], wanted[1], wanted[2]);
    return PPO_OK;
}

PPO_DEF ppo_status ppo_agent_copy(const ppo_agent *from, ppo_agent **to) {
    if (to) *to = NULL;
    if (!PPO__GIVEN("ppo_agent_copy", from, to)) return PPO_ERROR_ARGUMENT;
    const ppo_env env = ppo__env_of(from);
    ppo_status status = ppo__agent_make(&env, &from->config, 1, to);
    if (!status && from->return_norm.size) status = ppo_normalizer_init(&(*to)->return_norm, 1);
    if (!status) ppo__agent_assign(*to, from);
    if (!status) status = ppo_params_freeze((*to)->model.params, 1); /* until it is trained */
    if (status) ppo_agent_free(*to), *to = NULL;
    return status;
}

/* Error: a setting of the network differs from that of the agent, which keeps its network; `in` says where it is. */
static ppo_status ppo__check_same(const ppo_config *own, const ppo_config *config, const char *in) {
    ppo_status status = PPO_OK;
    for (int i = 0; i < PPO__FIELDS && !status; ++i)
        if (ppo__fields[i].kind == PPO_FIELD_NETWORK)
            status = ppo__check_kept(ppo_config_settings(), ppo__fields[i].name, own, config, in);
    return status;
}

PPO_DEF ppo_status ppo_agent_assign(ppo_agent *to, const ppo_agent *from) {
    if (!PPO__GIVEN("ppo_agent_assign", to, from)) return PPO_ERROR_ARGUMENT;
    const ppo_env env = ppo__env_of(from);
    ppo_status status = ppo__check_fits(to, &env, "other agent");
    if (!status) status = ppo__check_same(&to->config, &from->config, "agent");
    if (!status) ppo__agent_assign(to, from);
    return status;
}

PPO_DEF ppo_status ppo_act_many(ppo_agent *agent, const float *obs, const unsigned char *mask, int n,
                                float *state, ppo_rng *rng, const ppo_actions *actions) {
    if (!PPO__GIVEN("ppo_act_many", agent, obs, actions)) return PPO_ERROR_ARGUMENT;
    const ppo_actor_critic *model = &agent->model;
    const int floats = ppo__kind(&model->action_space)->continuous;
    const int size = model->actor_obs, all = model->obs_size, width = model->core.width;
    const int outputs = ppo__space_outputs(&model->action_space);
    int given =
        floats ? PPO__GIVEN("ppo_act_many", actions->box) : PPO__GIVEN("ppo_act_many", actions->discrete);
    if (!given || (width && !PPO__GIVEN("ppo_act_many", state))) return PPO_ERROR_ARGUMENT;
    if (n < 0) return ppo__refuse("ppo_act_many: n is %d, must not be below 0", n);
    if (floats) mask = NULL;
    for (int i = 0; i < n; ++i) {
        ppo_status status = ppo__check_numbers(obs + ppo__at(i, size), size, "observation", NULL, 0, 0);
        if (status) return status;
        int choice = mask ? ppo__choice_without_action(&model->action_space, mask + ppo__at(i, outputs)) : -1;
        if (choice >= 0) return ppo__refuse("the mask leaves no action (choice %d)", choice);
    }
    if (!n) return PPO_OK;
    ppo_tape_reset(agent->tape);
    float *view = ppo_tape_alloc(agent->tape, ppo__at(n, all)); /* zeros where only the critic would see */
    if (!view) return ppo_tape_status(agent->tape);
    if (size < all) memset(view, 0, ppo__at(n, all) * sizeof(float));
    for (int i = 0; i < n; ++i) memcpy(view + ppo__at(i, all), obs + ppo__at(i, size), size * sizeof(float));
    if (agent->obs_norm.size) ppo_normalize(&agent->obs_norm, view, n, agent->clip_obs, view);
    const ppo_inputs inputs = {n, view, mask, {0, NULL, state, NULL}, NULL, 0, 0};
    ppo_outputs out = ppo_actor_critic_forward(agent->tape, model, &inputs, PPO_POLICY);
    if (!out.policy) return ppo_tape_status(agent->tape);
    ppo_status status = PPO_OK;
    for (int i = 0; i < n && !status; ++i) status = ppo__check_outputs(&out, i, mask, NULL, 0, 0);
    if (status) return status;
    if (width) memcpy(state, out.state->data, ppo__at(n, width) * sizeof(float));
    const ppo__distribution d = ppo__distribution_of(model, &out);
    ppo_action for_env;
    for (int i = 0; i < n; ++i)
        ppo__choose_action(&d, NULL, i, rng, NULL, actions, (size_t)i,
                           floats ? actions->box + ppo__at(i, outputs) : NULL, &for_env);
    return ppo_tape_status(agent->tape);
}

PPO_DEF ppo_status ppo_act_masked(ppo_agent *agent, const float *obs, const unsigned char *mask, ppo_rng *rng,
                                  ppo_action *action) {
    if (!PPO__GIVEN("ppo_act_masked", agent, obs, action)) return PPO_ERROR_ARGUMENT;
    const ppo_actions actions = {(int *)(void *)agent->scratch, agent->scratch};
    const int floats = ppo__kind(&agent->model.action_space)->continuous;
    ppo_status status = ppo_act_many(agent, obs, mask, 1, agent->state, rng, &actions);
    ppo_action taken = {floats ? 0 : *actions.discrete, floats ? NULL : actions.discrete,
                        floats ? actions.box : NULL};
    if (!status) *action = taken;
    return status;
}

PPO_DEF ppo_status ppo_act(ppo_agent *agent, const float *obs, ppo_rng *rng, ppo_action *action) {
    if (!PPO__GIVEN("ppo_act", agent, obs, action)) return PPO_ERROR_ARGUMENT;
    return ppo_act_masked(agent, obs, NULL, rng, action);
}

/* -- making a trainer -- */

PPO_DEF int64_t ppo_trainer_steps(const ppo_trainer *trainer) { return trainer ? trainer->steps : 0; }

PPO_DEF const ppo_rollout *ppo_trainer_rollout(const ppo_trainer *trainer) {
    return trainer ? &trainer->collector.rollout : NULL;
}

PPO_DEF void ppo_trainer_free(ppo_trainer *trainer) {
    if (!trainer) return;
    for (int k = 0; k < trainer->collector.snapshot_room; ++k)
        ppo_agent_free(trainer->collector.snapshots[k]);
    ppo__collector_free(&trainer->collector);
    for (int k = 0; k < PPO__MOST_SHARDS; ++k) ppo_tape_free(trainer->tapes[k]);
    ppo__arena_free(&trainer->memory);
    ppo__free(trainer);
}

/* Room for minibatches and their shards. A minibatch of a recurrent policy is as many whole sequences as fit
   into minibatch_size, but at least one. */
static ppo_status ppo__minibatch_room(ppo_trainer *trainer) {
    const ppo_config *config = &trainer->config;
    const ppo_group *group = trainer->collector.group;
    const ppo_params *params = trainer->agent->model.params;
    ppo__arena *memory = &trainer->memory;
    ppo__minibatch *batch = &trainer->minibatch;
    int samples = config->num_envs * config->rollout_steps, steps = 1;
    if (trainer->agent->model.core.width) steps = ppo__min_int(config->sequence_steps, config->rollout_steps);
    int all = config->num_envs * ppo__divide_up(config->rollout_steps, steps), most = all;
    if (config->minibatch_size) most = config->minibatch_size > steps ? config->minibatch_size / steps : 1;
    batch->segment_steps = steps;
    batch->segments = ppo__divide_up(all, ppo__divide_up(all, most)); /* evened out over a full rollout */
    batch->picked = PPO__ARRAY(memory, int, ppo__at(batch->segments, steps));
    if (config->rpo_alpha > 0 && ppo__kind(&trainer->agent->model.action_space)->continuous)
        batch->shift = PPO__ZEROS(
            memory, float, ppo__at(batch->segments, steps) * (size_t)trainer->agent->model.action_space.n);
    trainer->order = PPO__ARRAY(memory, int, samples);
    trainer->usable = PPO__ARRAY(memory, int, config->num_envs);
    ppo__rollout_alloc(&batch->samples, memory, trainer->collector.columns, &trainer->collector.envs.env,
                       steps, batch->segments, PPO__FOR_LEARNING);
    ppo_status status = ppo__arena_status(memory);

    int shards = (int)(ppo__at(batch->segments, steps) / PPO__SHARD_SAMPLES);
    if (steps > 1) shards = ppo__min_int(shards, batch->segments / PPO__SHARD_SEGMENTS);
    if (shards < 1 || params->count > PPO__SHARD_PARAMS) shards = 1;
    shards = config->shards ? config->shards : ppo__min_int(shards, PPO__SHARDS);
    shards = batch->most_shards = ppo__min_int(shards, batch->segments);
    batch->begin = shards > 1 ? ppo__first_shard(shards, ppo__rank(group), ppo__ranks(group)) : 0;
    batch->end = shards > 1 ? ppo__first_shard(shards, ppo__rank(group) + 1, ppo__ranks(group)) : 1;
    if (group && shards > 1) batch->received = PPO__ARRAY(memory, float, params->count);
    for (int k = 0; k < shards && !status; ++k) {
        ppo__shard *shard = &batch->shard[k];
        shard->count = PPO__ARRAY(memory, int, steps);
        const int first = k <= batch->begin || k >= batch->end; /* or of another process */
        shard->grad = first ? params->grad : PPO__ARRAY(memory, float, params->count);
        status = ppo_tape_create(&trainer->tapes[k]);
    }
    return status;
}

/* ppo__check_copies(); error: a process of the group has no copy. */
static ppo_status ppo__check_room(const ppo_env *env, const ppo_config *config) {
    const int ranks = ppo__ranks(ppo__group());
    if (ranks > 1 && config->num_envs / ppo__agents(env) < ranks)
        return ppo__refuse("a group of %d processes needs as many %s: raise num_envs", ranks,
                           ppo__is_pushed(env) ? "sources" : "copies of the environment");
    return ppo__check_copies(env, config);
}

/* For an environment, settings and an agent that have been checked. The agent remembers what it is trained
   with, and on which environment. */
static ppo_status ppo__trainer_make(const ppo_env *env, const ppo_config *config, ppo_agent *agent,
                                    ppo_trainer **out) {
    ppo_trainer *trainer = (ppo_trainer *)ppo__alloc(sizeof *trainer);
    if (!trainer) return PPO_ERROR_MEMORY;
    ppo_params *params = agent->model.params;
    ppo__collector *collector = &trainer->collector;
    float critic = config->critic_learning_rate;
    trainer->config = *config;
    trainer->agent = agent;
    trainer->kl_coef = config->kl_coef;
    trainer->shuffle_rng = ppo_rng_stream(config->seed, PPO_STREAM_SHUFFLE, 0);
    trainer->reserved = !ppo__group() && !agent->model.core.width && config->use_critic &&
                        ppo__agents(env) == 1 && !ppo__is_pushed(env);
    collector->agent = agent;
    collector->config = &trainer->config;
    collector->group = ppo__group();
    collector->records = 1;
    collector->width = agent->model.core.width;
    ppo_status status = ppo_params_freeze(params, 0);
    if (!status && config->normalize_reward && !agent->return_norm.size)
        status = ppo_normalizer_init(&agent->return_norm, 1);
    if (!status)
        status = ppo__collector_open(collector, env, config->num_envs, config->rollout_steps, config->threads,
                                     config->seed, PPO_STREAM_ENV, 0);
    if (!status) status = ppo__minibatch_room(trainer);
    if (!status && config->self_play) status = ppo__snapshot_room(trainer);
    trainer->signs.env = &collector->envs.env;
    trainer->signs.config = &trainer->config, trainer->signs.progress = &trainer->progress;
    trainer->signs.feature = PPO__ZEROS(&trainer->memory, ppo__feature, env->obs_size);
    if (!status) status = ppo__arena_status(&trainer->memory);
    if (status) return ppo_trainer_free(trainer), status;
    agent->config = *config;
    agent->config.callback = NULL, agent->config.schedule = NULL;
    agent->config.callback_user = agent->config.schedule_user = NULL;
    ppo__keep_name(agent->environment, env->name);
    for (int i = 0; i < params->tensor_count; ++i)
        params->lr_scale[i] =
            critic > 0 && strncmp(params->names[i], "critic.", 7) == 0 ? critic / config->learning_rate : 1;
    trainer->started = ppo_clock();
    if (ppo__is_pushed(env)) ppo__rollout_begin(collector, ppo__next_steps(trainer));
    *out = trainer;
    return PPO_OK;
}

/* In a group: all processes make the same trainer, or none does. status: this process's. */
static ppo_status ppo__trainer_agree(ppo_trainer **trainer, ppo_status status) {
    return ppo__group() ? ppo__control_in_group.agree(trainer, status) : status;
}

PPO_DEF ppo_status ppo_trainer_create(const ppo_env *env, const ppo_config *config, ppo_agent *agent,
                                      ppo_trainer **trainer) {
    if (!PPO__GIVEN("ppo_trainer_create", trainer)) return PPO_ERROR_ARGUMENT;
    *trainer = NULL;
    ppo_status status = ppo__check_functions(env);
    if (!status) status = ppo_config_check(config);
    if (!status) status = ppo__check_room(env, config);
    if (!status) status = ppo__check_fits(agent, env, "environment");
    if (!status) status = ppo__check_same(&agent->config, config, "agent");
    for (int i = 0; i < PPO__FIELDS && !status; ++i)
        if (ppo__fields[i].kind != PPO_FIELD_NETWORK) /* those are the agent's, which exists */
            status = ppo_config_check_effect(config, env, ppo__fields[i].name);
    if (!status) status = ppo__trainer_make(env, config, agent, trainer);
    return ppo__trainer_agree(trainer, status);
}

PPO_DEF ppo_status ppo_train(const ppo_env *env, const ppo_config *config, ppo_agent **agent) {
    if (!PPO__GIVEN("ppo_train", agent)) return PPO_ERROR_ARGUMENT;
    ppo_agent *mine = *agent;
    ppo_trainer *trainer = NULL;
    ppo_status status = mine ? PPO_OK : ppo_agent_create(env, config, &mine);
    if (!status) status = ppo_trainer_create(env, config, mine, &trainer);
    for (int stop = 0; !status && !stop && !ppo_trainer_done(trainer);) {
        ppo_progress progress;
        status = ppo_trainer_iterate(trainer, &progress);
        if (status || !config->callback) continue;
        stop = config->callback(&progress, config->callback_user) != 0;
        status = ppo__group_any(trainer->collector.group, &stop);
    }
    ppo_trainer_free(trainer);
    if (status && !*agent) ppo_agent_free(mine);
    else *agent = mine;
    return status;
}

/* -- evaluation -- */

enum { PPO__EVAL_ENVS = 32, PPO__EVAL_STEPS = 1000000, PPO__EVAL_EPISODES = 1000000 };

/* Episodes that are played side by side, by a collector that records nothing. The opponent is its snapshot 0. */
typedef struct ppo__match {
    ppo_agent *player[2];   /* the one that is judged, */
    int opposed;            /* 1: and its opponent, which may be the same */
    int sample;             /* 1: actions are sampled */
    const ppo_group *group; /* whose processes play some of the episodes each; NULL: there is none */
    ppo_watcher watch;      /* of a single episode */
    void *user;
    ppo__collector collector;
    double *total; /* [agents of all copies] what each has earned */
} ppo__match;

/* Plays an episode in each copy, until all its agents are out. */
static ppo_status ppo__play_envs(ppo__match *m) {
    ppo__collector *c = &m->collector;
    ppo__envs *envs = &c->envs;
    const int agents = envs->agents, teams = envs->env.teams;
    ppo_frame frame = {0, envs->state, envs->obs, NULL, 0, 0, 0, 0};
    ppo_status status = PPO_OK;
    int left = envs->copies;
    for (int k = 0; k < envs->copies && !status; ++k) status = ppo__env_reset(envs, k);
    for (int e = 0; e < envs->count && !status; ++e) { /* team (episode mod teams) is the first player's */
        if (m->opposed) c->player[e] = -(e % agents * teams / agents == (envs->first + e / agents) % teams);
        ppo__begin_episode(c, e);
    }
    while (left && !status) {
        if (m->watch && m->watch(&frame, m->user)) return PPO_OK;
        status = ppo__act(&c->workers[0]); /* all of them: an environment may itself ask the agent */
        int stepped = 0;
        for (int k = 0; k < envs->copies && !status; ++k) {
            if (ppo__env_is_over(envs, k)) continue;
            status = ppo__env_step(envs, k, envs->copies, &stepped);
            for (int e = k * agents; e < (k + 1) * agents && !status; ++e) {
                m->total[e] += envs->outcome[e].reward;
                if (envs->outcome[e].joins) ppo__begin_episode(c, e);
            }
            left -= ppo__env_is_over(envs, k);
            if (!status && !envs->env.max_steps && envs->age[k] >= PPO__EVAL_STEPS)
                status = ppo__refuse("an episode has not ended after %d steps: set env.max_steps",
                                     (int)PPO__EVAL_STEPS);
        }
        const ppo_outcome *first = envs->outcome;
        const ppo_frame now = {envs->age[0],  envs->state,        envs->obs,         envs->action,
                               first->reward, (float)m->total[0], first->terminated, first->truncated};
        frame = now;
    }
    if (!status && m->watch) m->watch(&frame, m->user);
    return status;
}

/* Plays the episodes of this process, of `episodes` in all, a few side by side; their returns and lengths. */
static ppo_status ppo__play_all(ppo__match *m, const ppo_env *env, int episodes, uint64_t seed,
                                float *returns, float *lengths) {
    ppo_status status = ppo__validate_env(env);
    for (int p = 0; p < 2 && !status; ++p) status = ppo__check_fits(m->player[p], env, "environment");
    if (status) return status;
    ppo_agent *agent = m->player[0];
    ppo__collector *c = &m->collector;
    const int agents = ppo__agents(env), match = m->opposed;
    if (match && env->teams < 2)
        return ppo__refuse("a match needs env.teams of 2 or more, not %d", env->teams);
    const int end = ppo__own_end(m->group, episodes);
    for (int first = ppo__own_begin(m->group, episodes), count; first < end && !status; first += count) {
        count = ppo__min_int(end - first,
                             env->copies ? ppo__min_int(env->copies, PPO__EVAL_ENVS) : (int)PPO__EVAL_ENVS);
        memset(c, 0, sizeof *c);
        c->agent = agent, c->config = &agent->config;
        for (int p = 0; p < 2; ++p)
            if (m->player[p]->model.core.width > c->width) c->width = m->player[p]->model.core.width;
        c->greedy = !m->sample;
        status = ppo__collector_open(c, env, count * agents, 1, 1, seed, PPO_STREAM_EVALUATE, first);
        m->total = PPO__ZEROS(&c->memory, double, count *agents);
        if (!status) status = ppo__arena_status(&c->memory);
        c->snapshots = &m->player[1];
        c->snapshot_room = match;
        if (!status) status = ppo__play_envs(m);
        for (int k = 0; k < count && !status; ++k) {
            double sum = 0;
            int judged = 0;
            for (int e = k * agents; e < (k + 1) * agents; ++e)
                if (c->player[e] < 0) sum += m->total[e], ++judged;
            returns[first + k] = (float)(sum / judged);
            lengths[first + k] = (float)c->envs.age[k];
        }
        ppo__collector_free(c);
    }
    return status;
}

PPO_DEF ppo_status ppo_play(ppo_agent *agent, const ppo_env *env, uint64_t seed, int sample,
                            ppo_watcher watch, void *user, float *total) {
    ppo__match match;
    float none, length;
    memset(&match, 0, sizeof match);
    match.player[0] = match.player[1] = agent;
    match.sample = sample;
    match.watch = watch, match.user = user;
    return ppo__play_all(&match, env, 1, seed, total ? total : &none, &length);
}

PPO__RARE ppo_evaluation ppo__evaluate(ppo_agent *agent, ppo_agent *opponent, int opposed, int sample,
                                       const ppo_env *env, int episodes, uint64_t seed) {
    ppo_evaluation result = {PPO_OK, 0, NAN, NAN, NAN, NAN, NAN};
    double mean = 0, var = 0, length = 0, n = episodes;
    float *returns = NULL;
    ppo__match match;
    memset(&match, 0, sizeof match);
    match.player[0] = agent, match.player[1] = opponent;
    match.opposed = opposed, match.sample = sample;
    match.group = ppo__group();
    if (match.group) {
        const uint64_t hash =
            ppo__fnv1a(ppo__fnv1a(PPO__FNV1A, &episodes, sizeof episodes), &seed, sizeof seed);
        result.status = ppo__group_same(match.group, hash, "number of episodes and seed");
        if (result.status) return result;
        ppo__in_task = 1; /* an environment that trains or evaluates does so alone */
    }
    if (episodes <= 0 || episodes > PPO__EVAL_EPISODES)
        result.status =
            ppo__refuse("ppo_evaluate: %d episodes, outside 1 to %d", episodes, (int)PPO__EVAL_EPISODES);
    else if (!(returns = (float *)ppo__alloc(2 * ppo__at(episodes, sizeof(float)))))
        result.status = PPO_ERROR_MEMORY;
    else result.status = ppo__play_all(&match, env, episodes, seed, returns, returns + episodes);
    if (match.group) ppo__in_task = 0;
    result.status = ppo__group_agree(match.group, result.status, 0);
    for (int k = 0; k < 2 && !result.status; ++k)
        result.status = ppo__group_share(match.group, returns + k * episodes, episodes, sizeof(float));
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

PPO_DEF ppo_evaluation ppo_evaluate(ppo_agent *agent, const ppo_env *env, int episodes, uint64_t seed) {
    return ppo__evaluate(agent, agent, 0, 0, env, episodes, seed);
}

PPO_DEF ppo_evaluation ppo_evaluate_sampled(ppo_agent *agent, const ppo_env *env, int episodes,
                                            uint64_t seed) {
    return ppo__evaluate(agent, agent, 0, 1, env, episodes, seed);
}

/* --------------------------------------------------------------------------------------------------------
   @@ 16 Policies in files

   A policy's file holds arrays (the parameters, the running statistics) and texts (all settings by name, the
   environment's name, the sizes). ppo__serialize_agent() lists the arrays as items (section 6); saving walks the
   list one way, loading the other. Checkpoints of a training, which go on from there, are in ppo_resume.h.

   To add state of a policy: a row in ppo__serialize_agent(). Older files lack the array: leave `data` NULL when
   loading if ppo_file_find() does not find it. A setting is saved without further work, but if the network grows
   with it, it belongs in ppo__check_weights().
   -------------------------------------------------------------------------------------------------------- */

/* An older file: boxes were not scaled, and 1e-8 was added to a variance where it was used. */
static int ppo__is_unscaled(const ppo_file *file) { return !ppo_file_text(file, "scale_actions"); }

/* Settings that the file lacks, because it is older, and custom schedules keep their defaults. Threads, which
   do not change results, are at most the number of processors. */
PPO__RARE ppo_status ppo__get_config(const ppo_file *file, const ppo_env *env, ppo_config *config) {
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
    if (ppo__is_unscaled(file) && env->action_space.kind == PPO_BOX &&
        ppo__box_scales(&env->action_space, config))
        config->scale_actions = PPO_SCALE_NO;
    return status;
}

/* What a policy's file holds besides the settings; names begin with the prefix. */
PPO__RARE ppo_status ppo__serialize_agent(ppo_file *file, int way, const char *prefix, ppo_agent *agent) {
    const ppo_params *params = agent->model.params;
    ppo_normalizer *obs = &agent->obs_norm, *ret = &agent->return_norm;
    double *obs_count = obs->size ? &obs->count : NULL, *ret_count = ret->size ? &ret->count : NULL;
    const ppo__item items[] = {
        {"obs_norm.mean", PPO_F64, 1, {obs->size, 0}, obs->mean, PPO__ANY},
        {"obs_norm.var", PPO_F64, 1, {obs->size, 0}, obs->var, 0, DBL_MAX},
        {"obs_norm.count", PPO_F64, 0, {0, 0}, obs_count, 0, DBL_MAX},
        {"return_norm.mean", PPO_F64, 1, {ret->size, 0}, ret->mean, PPO__ANY},
        {"return_norm.var", PPO_F64, 1, {ret->size, 0}, ret->var, 0, DBL_MAX},
        {"return_norm.count", PPO_F64, 0, {0, 0}, ret_count, 0, DBL_MAX},
    };
    for (size_t i = 0; i < sizeof items / sizeof *items; ++i) {
        char name[64];
        ppo__item item = items[i];
        snprintf(name, sizeof name, "%s%s", prefix, item.name);
        item.name = name;
        if (ppo__serialize(file, way, &item)) return ppo__failed;
    }
    if (way == PPO__LOAD && ppo__is_unscaled(file)) {
        for (int j = 0; j < obs->size; ++j) obs->var[j] += 1e-8;
        for (int j = 0; j < ret->size; ++j) ret->var[j] += 1e-8;
    }
    return ppo__serialize_params(file, way, prefix, params, params->data, 2);
}

/* Saving only reads the agent: the cast is for the list that loading shares. */
PPO__RARE ppo_status ppo__put_agent(ppo_file *file, const void *object) {
    ppo_agent *agent = (ppo_agent *)object;
    const int *shape = agent->model.conv.shape[0];
    char number[64], space[PPO__SPACE_SIZE];
    ppo_status status = ppo__put_settings(file, ppo_config_settings(), &agent->config);
    snprintf(number, sizeof number, "%d", agent->model.obs_size);
    ppo__space_text(&agent->model.action_space, space);
    if (!status) status = ppo_file_set_text(file, "environment", agent->environment);
    if (!status) status = ppo_file_set_text(file, "observation_size", number);
    snprintf(number, sizeof number, "%d", agent->model.actor_obs);
    if (!status && agent->model.actor_obs < agent->model.obs_size)
        status = ppo_file_set_text(file, "actor_observation_size", number);
    snprintf(number, sizeof number, "%dx%dx%d", shape[0], shape[1], shape[2]);
    if (!status && agent->model.conv.layers) status = ppo_file_set_text(file, "observation_shape", number);
    if (!status) status = ppo_file_set_text(file, "action_space", space);
    return status ? status : ppo__serialize_agent(file, PPO__SAVE, "", agent);
}

PPO_DEF ppo_status ppo_agent_save(const ppo_agent *agent, const char *path) {
    return ppo__save("ppo_agent_save", path, ppo__put_agent, agent);
}

/* The environment's sizes and name, from the file. */
PPO__RARE ppo_status ppo__get_env(const ppo_file *file, ppo_env *env) {
    const char *size = ppo_file_text(file, "observation_size"), *space = ppo_file_text(file, "action_space");
    const char *rest = "", *shape = ppo_file_text(file, "observation_shape"), *at = shape;
    const char *seen = ppo_file_text(file, "actor_observation_size");
    memset(env, 0, sizeof *env);
    if (!size || !space)
        return ppo__file_fail(file->path, "not a policy: there is no observation_size or no action_space");
    env->name = ppo_file_text(file, "environment");
    env->obs_size = ppo__parse_count(size, &rest);
    env->action_space = ppo__parse_space(space);
    if (!env->obs_size || *rest)
        return ppo__file_fail(file->path, "corrupt file: invalid observation_size \"%.20s\"", size);
    env->actor_obs = seen ? ppo__parse_count(seen, &rest) : env->obs_size;
    if (!env->actor_obs || *rest || env->actor_obs > env->obs_size)
        return ppo__file_fail(file->path, "corrupt file: invalid actor_observation_size \"%.20s\"", seen);
    for (int k = 0; k < 3 && shape; ++k) {
        env->shape[k] = ppo__parse_count(at, &rest);
        at = *rest == 'x' ? rest + 1 : rest;
    }
    if (shape && (*rest || !env->shape[0] || ppo__check_shape(env->shape, env->actor_obs)))
        return ppo__file_fail(file->path, "corrupt file: invalid observation_shape \"%.40s\"", shape);
    if (ppo__check_space(&env->action_space))
        return ppo__file_fail(file->path, "corrupt file: invalid action_space \"%.60s\"", space);
    return PPO_OK;
}

/* Before the network is made: the file must have as many numbers as its settings describe. */
static ppo_status ppo__check_weights(const ppo_file *file, const ppo_env *env, const ppo_config *config) {
    double have = 0, need = 0, inputs = env->actor_obs, beside = inputs - ppo__picture_size(env->shape);
    ppo_conv conv;
    for (int i = 0; i < ppo_file_count(file); ++i)
        have += (double)ppo_file_at(file, i)->bytes / sizeof(float);
    if (ppo__conv_init(&conv, NULL, env->shape, config, NULL)) return ppo__file_blame(file);
    for (int k = 0; k < conv.layers; ++k) {
        need += (double)config->conv[k][0] * conv.kernel[k] * conv.kernel[k] * conv.shape[k][0];
        inputs = ppo__picture_size(conv.shape[k + 1]) + beside;
    }
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
    need += (double)(env->obs_size - env->actor_obs) * /* of the critic */
            (config->hidden_layers && !config->shared_trunk ? config->hidden[0] : 1);
    if (need <= have) return PPO_OK;
    return ppo__file_fail(file->path, "corrupt file: its settings need %.0f weights, but it has %.0f numbers",
                          need, have);
}

PPO__RARE ppo_status ppo__get_agent(ppo_file *file, const ppo_env *env, ppo_agent **agent) {
    ppo_env own;
    ppo_config config;
    ppo_status status = ppo__check_checksum(file);
    if (!status) status = ppo__get_env(file, &own);
    if (!status) status = ppo__get_config(file, &own, &config);
    if (!status) status = ppo__check_weights(file, &own, &config);
    if (status) return status;
    status = ppo__agent_make(&own, &config, 1, agent);
    if (!status && env) status = ppo__check_fits(*agent, env, "environment");
    if (status == PPO_ERROR_ARGUMENT) status = ppo__file_blame(file);
    if (!status && ppo_file_find(file, "return_norm.mean"))
        status = ppo_normalizer_init(&(*agent)->return_norm, 1);
    return status ? status : ppo__serialize_agent(file, PPO__LOAD, "", *agent);
}

PPO_DEF ppo_status ppo_agent_load(const char *path, const ppo_env *env, ppo_agent **agent) {
    ppo_file *file = NULL;
    if (agent) *agent = NULL;
    if (!PPO__GIVEN("ppo_agent_load", path, agent)) return PPO_ERROR_ARGUMENT;
    ppo_status status = env ? ppo__check_functions(env) : PPO_OK;
    if (!status) status = ppo_file_read(path, &file);
    if (!status) status = ppo__get_agent(file, env, agent);
    if (status) ppo_agent_free(*agent), *agent = NULL;
    ppo_file_free(file);
    return status;
}

PPO_DEF ppo_status ppo_config_load(const char *path, ppo_config *config, char environment[64]) {
    ppo_file *file = NULL;
    ppo_config read;
    ppo_env env;
    if (!PPO__GIVEN("ppo_config_load", path)) return PPO_ERROR_ARGUMENT;
    ppo_status status = ppo_file_read(path, &file);
    if (!status) status = ppo__get_env(file, &env);
    if (!status) status = ppo__get_config(file, &env, &read);
    if (!status && config) *config = read;
    if (!status && environment) ppo__keep_name(environment, env.name);
    ppo_file_free(file);
    return status;
}

#endif /* PPO_NO_CONTROL */

/* ========================================================================================================
   @@ LANGUAGE
   ======================================================================================================== */

#ifndef PPO_NO_LANGUAGE

typedef struct ppo__fit ppo__fit;
typedef struct ppo__fit_set ppo__fit_set;

/* What ppo_hub.h adds to functions of this wing. */
typedef struct ppo__hub_functions {
    /* A tokenizer.json: at path, or in the folder there; or an array of the file at path. */
    ppo_status (*tokenizer_load)(const char *path, const ppo_array *array, ppo_tokenizer **tokenizer);
    ppo_status (*tokenizer_save)(const ppo_tokenizer *tokenizer, const char *path);
    /* A model in a folder, or in a file. */
    ppo_status (*lm_load)(const char *path, ppo_lm **lm);
    /* Norms of the queries and keys in x, the output of a block's first layer. */
    ppo_tensor *(*qk_norm)(ppo_tape *tape, const ppo_lm *lm, int block, ppo_tensor *x);
    /* YaRN: what part of wavelength j is unscaled, and *size, the factor of what is rotated. */
    double (*yarn)(const ppo_lm_config *c, int j, double *size);
    /* With LoRA: a layer of a block, as ppo__lm_layer(); another model of the same layers, without numbers. */
    ppo_tensor *(*lm_layer)(ppo_tape *tape, const ppo_lm *lm, int block, int layer, ppo_tensor *x,
                            ppo_activation activation);
    ppo_status (*lm_twin)(const ppo_lm *lm, int score, ppo_lm **twin);
    /* Fine-tuning: divides a text into adjacent windows; draws windows that begin anywhere. */
    ppo_status (*fit_windows)(ppo__fit *fit, ppo__fit_set *set);
    void (*draw_windows)(ppo__fit_set *set, ppo_rng *rng);
} ppo__hub_functions;
PPO__COMPANION(ppo__hub_functions, ppo__in_hub);

static ppo_status ppo__needs_hub(const char *path) {
    return ppo__file_fail(path,
                          "folders of the model hub and tokenizer.json need ppo_hub.h: include it after "
                          "ppo.h, where PPO_IMPLEMENTATION is");
}

/* --------------------------------------------------------------------------------------------------------
   @@ 17 Tokens and tokenizers

   A tokenizer is made of units: code points; or, beside the 256 bytes, merges, each of which joins a pair of tokens.
   Files hold the units, and ppo__tokenizer_make() derives from them what encoding and decoding look up. ppo_bpe.h
   finds merges in a text, and applies them when it encodes.
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

/* `room` if that is enough for `need` things, else twice `need`, at most INT_MAX. */
static int ppo__more_room(int room, int need) {
    return need <= room ? room : need < INT_MAX / 2 ? 2 * need : INT_MAX;
}

PPO_DEF ppo_status ppo_tokens_add(ppo_tokens *tokens, const int *token, int n, int prompt) {
    if (!PPO__GIVEN("ppo_tokens_add", tokens)) return PPO_ERROR_ARGUMENT;
    if (n > 0 && !PPO__GIVEN("ppo_tokens_add", token)) return PPO_ERROR_ARGUMENT;
    struct ppo__token_memory *old = tokens->memory, room = {0, 0, 0};
    if (n <= 0 || prompt < 0 || prompt > n)
        return ppo__refuse("ppo_tokens_add: %d tokens, %d of them given", n, prompt);
    if (!old && (tokens->count || tokens->start || tokens->prompt || tokens->token))
        return ppo__refuse("ppo_tokens_add: the arrays are not the library's");
    ppo_tokens was = *tokens, now;
    if (old) {
        ppo__tokens_point(&was);
        room = *old;
    }
    int count = was.count, end = old ? was.start[count] : 0;
    if (end > INT_MAX - n) return ppo__refuse("ppo_tokens_add: too many tokens");
    now = was;
    if (count == room.sequences || n > room.tokens - end) {
        room.sequences = ppo__more_room(room.sequences, count + 1);
        room.tokens = ppo__more_room(room.tokens, end + n);
        size_t ints = 2 * (size_t)room.sequences + 1 + (size_t)room.tokens;
        size_t size = sizeof room + ints * sizeof(int) + (size_t)room.tokens;
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
    if (!PPO__GIVEN("ppo_tokens_mark_given", tokens)) return PPO_ERROR_ARGUMENT;
    if (!tokens->memory || !tokens->count)
        return ppo__refuse("ppo_tokens_mark_given: the arrays are not the library's, or hold no sequence");
    int start = tokens->start[tokens->count - 1], end = tokens->start[tokens->count];
    if (first < 0 || n < 0 || first > end - start || n > end - start - first)
        return ppo__refuse("ppo_tokens_mark_given: tokens %d and %d further, of %d", first, n, end - start);
    int marked = tokens->memory->marked;
    tokens->memory->marked = 1;
    ppo__tokens_point(tokens);
    if (!marked) memset(tokens->given, 0, end);
    memset(tokens->given + start + first, 1, n);
    return PPO_OK;
}

PPO_DEF ppo_status ppo_tokens_add_from(ppo_tokens *tokens, const ppo_tokens *from, int s) {
    if (!PPO__GIVEN("ppo_tokens_add_from", tokens, from)) return PPO_ERROR_ARGUMENT;
    if (s < 0 || s >= from->count)
        return ppo__refuse("ppo_tokens_add_from: there is no sequence %d in %d", s, from->count);
    int at = from->start[s], n = from->start[s + 1] - at;
    ppo_status status = ppo_tokens_add(tokens, from->token + at, n, from->prompt ? from->prompt[s] : 0);
    for (int i = 0; i < n && from->given && !status; ++i)
        if (from->given[at + i]) status = ppo_tokens_mark_given(tokens, i, 1);
    return status;
}

/* Takes memory for `count` sequences of n tokens, by adding sequences of zeros. */
static ppo_status ppo__tokens_fill(ppo_tokens *tokens, int count, int n) {
    int *zeros = (int *)ppo__alloc(n * sizeof(int));
    ppo_status status = zeros ? PPO_OK : PPO_ERROR_MEMORY;
    for (int i = 0; i < count && !status; ++i) status = ppo_tokens_add(tokens, zeros, n, 1);
    return ppo__free(zeros), status;
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

/* -- a tokenizer from its units -- */

struct ppo__encoder;

enum { PPO__CHARACTERS, PPO__BPE }; /* BPE: bytes, with or without merges */
enum { PPO__MAX_STEPS = 24, PPO__MAX_BOUNDS = 8 };

/* What ppo_bpe.h adds. */
typedef struct ppo__bpe_functions {
    ppo_status (*add_merge)(ppo_tokenizer *tok, int k); /* merge k becomes token 256 + k */
    ppo_status (*complete)(ppo_tokenizer *tok);         /* what encode() needs of a new tokenizer */
    void (*encode)(struct ppo__encoder *encoder, int step, const char *text, size_t bytes, int is_start);
} ppo__bpe_functions;
PPO__COMPANION(ppo__bpe_functions, ppo__in_bpe);

/* A map from keys to numbers >= 0: a table with open addressing, at most half full. */
typedef struct ppo__map {
    struct ppo__bucket *buckets;
    size_t room, count; /* buckets, a power of two; number of keys */
} ppo__map;

/* A step rewrites a text, if it does, and cuts it into pieces for the next step. What the last step leaves becomes
   tokens by the merges alone. k: the number of the step; is_start: the whole text starts here. */
typedef struct ppo__step {
    int first, end; /* without cut: finds these added tokens; the next step gets what is between them */
    char *begins;   /* [256] 1: the name of one of them begins with this byte */
    void (*cut)(struct ppo__encoder *encoder, int k, const char *text, size_t bytes, int is_start);
    const char *(*rewrite)(struct ppo__encoder *encoder, int k, const char *text, size_t *bytes,
                           int is_start);
} ppo__step;

/* A token whose name is looked for in a text: a special token, or another one that a tokenizer.json adds. */
typedef struct ppo__added {
    const char *name, *pattern; /* what is found: the name, or what the rewriting makes of it */
    int name_bytes, bytes, token;
    int special, left, right, single; /* 1: it is special; takes spaces on a side; is no part of a word */
    int normalized;                   /* 1: found after the rewriting */
    int place;                        /* in its file */
} ppo__added;

struct ppo_tokenizer {
    ppo__arena memory; /* of the arrays below */
    int kind, vocab;
    int unit_count;
    int32_t *units;    /* code points [unit_count], or merges: pairs of tokens [unit_count][2] */
    int *start;        /* [vocab + 1]: token t is bytes[start[t] .. start[t + 1] - 1] */
    char *bytes;       /* the texts of all tokens */
    char *special;     /* [vocab] 1: a special token */
    int of_byte[256];  /* the token of a byte, -1: none */
    ppo__added *added; /* [added_count] */
    int added_count;

    /* of ppo_bpe.h: */
    int32_t *joined;      /* [unit_count] the token that a merge makes */
    ppo__map by_unit;     /* the merge of a pair */
    unsigned char *kinds; /* of all characters, or NULL; how a text is cut into words depends on them */
    ppo__step steps[PPO__MAX_STEPS];
    int step_count;
    /* splits a word into symbols, for each byte of which there is room, and returns how many */
    int (*split)(struct ppo__encoder *encoder, const char *text, size_t bytes);

    /* of a tokenizer.json alone (ppo_hub.h): */
    char *json; /* [json_bytes] all of it */
    size_t json_bytes;
    struct ppo__tokfile_rules *rules;         /* its own part */
    int strip;                                /* spaces left out at the start; -1: all in the first token's */
    int bound[2][PPO__MAX_BOUNDS], bounds[2]; /* tokens before and after a text, how many */
};

static int ppo__token_length(const ppo_tokenizer *tok, int t) { return tok->start[t + 1] - tok->start[t]; }

/* The text of a token, and its length. NULL and 0: there is no such token. */
static const char *ppo__text_of(const ppo_tokenizer *tok, int token, int *length) {
    const int known = token >= 0 && token < tok->vocab;
    *length = known ? ppo__token_length(tok, token) : 0;
    return known ? tok->bytes + tok->start[token] : NULL;
}

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
        int good = bytes > 0 && bytes <= PPO_MAX_TOKEN_BYTES && ppo__is_utf8(names[i]);
        for (const char *c = names[i]; good && *c; ++c) good = (unsigned char)*c >= ' ' && *c != 127;
        if (!good)
            return ppo__refuse("the name of special token %d is NULL, empty, longer than %d bytes, not UTF-8 "
                               "or has control characters",
                               i, PPO_MAX_TOKEN_BYTES);
        for (int k = 0; k < i; ++k)
            if (strcmp(names[i], names[k]) == 0)
                return ppo__refuse("special tokens %d and %d are both called \"%.60s\"", k, i, names[i]);
    }
    return PPO_OK;
}

/* Character k becomes token k. */
static ppo_status ppo__add_character(ppo_tokenizer *tok, int k) {
    int32_t code = tok->units[k];
    char text[4];
    if (code < 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) || (k && code <= tok->units[k - 1]))
        return ppo__refuse("character %d is %ld: not a code point above the previous one", k, (long)code);
    tok->start[k + 1] = tok->start[k] + ppo__utf8_put(code, text);
    return PPO_OK;
}

/* The token of a character, or -1: the code points ascend. */
static int ppo__character_token(const ppo_tokenizer *tok, int32_t code) {
    int low = 0, high = tok->unit_count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (tok->units[middle] < code) low = middle + 1;
        else high = middle;
    }
    return low < tok->unit_count && tok->units[low] == code ? low : -1;
}

/* Writes the texts of all tokens, one after another. */
static void ppo__spell(ppo_tokenizer *tok, const char *const *specials) {
    char *out = tok->bytes;
    int ordinary = tok->vocab - tok->added_count;
    const int is_bpe = tok->kind == PPO__BPE, merged = is_bpe ? 2 * tok->unit_count : 0;
    for (int t = 0; t < ordinary && !is_bpe; ++t) out += ppo__utf8_put(tok->units[t], out);
    for (int byte = 0; byte < 256 && is_bpe; ++byte, ++out) tok->bytes[tok->of_byte[byte]] = (char)byte;
    for (int k = 0, length; k < merged; ++k, out += length) {
        length = ppo__token_length(tok, tok->units[k]);
        memcpy(out, tok->bytes + tok->start[tok->units[k]], length);
    }
    for (int t = ordinary; t < tok->vocab; ++t) {
        ppo__added *added = &tok->added[t - ordinary];
        added->name = added->pattern = tok->bytes + tok->start[t];
        added->name_bytes = added->bytes = ppo__token_length(tok, t);
        added->token = t;
        tok->special[t] = (char)(added->special = 1);
        memcpy(tok->bytes + tok->start[t], specials[t - ordinary], added->bytes);
    }
}

/* Flags of an encoding: PPO_ENCODE_... of ppo_hub.h. */
enum { PPO__FIND_SPECIALS = 1, PPO__ADD_BEFORE = 2, PPO__CONTINUES = 4, PPO__ADD_AFTER = 8 };

typedef struct ppo__encoder {
    const ppo_tokenizer *tok;
    int flags;        /* PPO__FIND_SPECIALS, ... */
    const char *text; /* all of it, for messages */
    int *tokens;      /* [count] an stb_ds array */
    int count;
    ppo__arena memory; /* of all but the stb_ds arrays; it remembers what failed */

    /* of ppo_bpe.h: */
    struct ppo__symbol *symbols; /* [room] */
    size_t room;
    uint64_t *queue; /* an stb_ds array of possible merges: as they were learned, then from left to right */
    char *rewritten[PPO__MAX_STEPS]; /* by each step, [rewritten_room] */
    size_t rewritten_room[PPO__MAX_STEPS];
} ppo__encoder;

/* A tokenizer of these units, which are copied and checked: they may come from a file. */
static ppo_status ppo__tokenizer_make(int kind, const int32_t *units, int unit_count,
                                      const char *const *specials, int special_count, ppo_tokenizer **out) {
    if (ppo__check_specials(specials, special_count)) return PPO_ERROR_ARGUMENT;
    int bytes = kind == PPO__BPE ? 256 : 0, ordinary = unit_count + bytes, vocab = ordinary + special_count;
    size_t numbers = ppo__at(unit_count, kind == PPO__BPE ? 2 : 1);
    if (vocab < 1 || vocab > PPO_MAX_VOCAB)
        return ppo__refuse("a vocabulary of %d tokens, not of 1 to %d", vocab, PPO_MAX_VOCAB);
    ppo_tokenizer *tok = (ppo_tokenizer *)ppo__alloc(sizeof *tok);
    if (!tok) return PPO_ERROR_MEMORY;
    tok->kind = kind;
    tok->unit_count = unit_count;
    tok->added_count = special_count;
    tok->vocab = vocab;
    tok->units = PPO__ARRAY(&tok->memory, int32_t, numbers);
    tok->joined = PPO__ARRAY(&tok->memory, int32_t, unit_count);
    tok->start = PPO__ZEROS(&tok->memory, int, (size_t)vocab + 1);
    tok->special = PPO__ZEROS(&tok->memory, char, vocab);
    tok->added = PPO__ZEROS(&tok->memory, ppo__added, special_count);
    ppo_status status = ppo__arena_status(&tok->memory);
    if (!status && numbers) memcpy(tok->units, units, numbers * sizeof *units);
    ppo__order_bytes(tok->of_byte);
    for (int t = 0; t < bytes && !status; ++t) tok->start[t + 1] = t + 1;
    for (int k = 0; k < unit_count && !status; ++k)
        status = kind == PPO__BPE ? ppo__in_bpe.add_merge(tok, k) : ppo__add_character(tok, k);
    for (int t = ordinary; t < vocab && !status; ++t)
        tok->start[t + 1] = tok->start[t] + (int)strlen(specials[t - ordinary]);
    if (!status) tok->bytes = PPO__ARRAY(&tok->memory, char, tok->start[vocab]);
    if (!status) status = ppo__arena_status(&tok->memory);
    if (!status) ppo__spell(tok, specials);
    if (!status && ppo__in_bpe.complete) status = ppo__in_bpe.complete(tok);
    if (status) return ppo_tokenizer_free(tok), status;
    return *out = tok, PPO_OK;
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
    int count = 0, length = 0;
    if (tokenizer) *tokenizer = NULL;
    if (!PPO__GIVEN("ppo_tokenizer_characters", tokenizer)) return PPO_ERROR_ARGUMENT;
    if (bytes && !PPO__GIVEN("ppo_tokenizer_characters", text)) return PPO_ERROR_ARGUMENT;
    unsigned char *seen = PPO__ZEROS(&memory, unsigned char, 0x110000);
    int32_t *units = PPO__ARRAY(&memory, int32_t, PPO_MAX_VOCAB);
    ppo_status status = ppo__arena_status(&memory);
    for (size_t at = 0; at < bytes && !status; at += (size_t)length) {
        int32_t code = ppo__utf8_get(text + at, bytes - at, &length);
        if (code < 0) status = ppo__not_utf8("ppo_tokenizer_characters", at);
        else seen[code] = 1;
    }
    for (int32_t code = 0; code <= 0x10ffff && !status; ++code)
        if (seen[code] && count++ < PPO_MAX_VOCAB) units[count - 1] = code;
    if (count > PPO_MAX_VOCAB)
        status = ppo__refuse("ppo_tokenizer_characters: more than %d characters", PPO_MAX_VOCAB);
    if (!status)
        status = ppo__tokenizer_make(PPO__CHARACTERS, units, count, specials, special_count, tokenizer);
    ppo__arena_free(&memory);
    return status;
}

PPO_DEF ppo_status ppo_tokenizer_bytes(const char *const *specials, int special_count,
                                       ppo_tokenizer **tokenizer) {
    if (tokenizer) *tokenizer = NULL;
    if (!PPO__GIVEN("ppo_tokenizer_bytes", tokenizer)) return PPO_ERROR_ARGUMENT;
    return ppo__tokenizer_make(PPO__BPE, NULL, 0, specials, special_count, tokenizer);
}

/* -- encoding and decoding -- */

static PPO__NOINLINE void ppo__emit(ppo__encoder *encoder, int token) {
    if (encoder->memory.failed) return;
    if (encoder->count == INT_MAX)
        encoder->memory.failed = ppo__refuse("ppo_encode: a text of more than %d tokens", INT_MAX);
    else if (PPO__PUSH(encoder->tokens, token)) encoder->memory.failed = PPO_ERROR_MEMORY;
    else ++encoder->count;
}

static void ppo__encode_characters(ppo__encoder *encoder, const char *text, size_t bytes) {
    int length;
    for (const char *end = text + bytes; text < end && !encoder->memory.failed; text += length) {
        const int32_t code = ppo__utf8_get(text, (size_t)(end - text), &length);
        const int place = (int)(text - encoder->text), shown = code >= ' ' && (code < 127 || code >= 160);
        const int token = code < 0 ? -1 : ppo__character_token(encoder->tok, code);
        const char *quote = shown ? "\"" : "";
        if (token >= 0) ppo__emit(encoder, token);
        else if (code < 0) encoder->memory.failed = ppo__not_utf8("ppo_encode", (size_t)place);
        else
            encoder->memory.failed = ppo__refuse(
                "ppo_encode: the vocabulary lacks U+%04lX%s%s%.*s%s (byte %d of the text)",
                (unsigned long)code, shown ? " " : "", quote, shown ? length : 0, text, quote, place);
    }
}

/* Encodes a text in which no special token is looked for. */
static void ppo__encode_piece(ppo__encoder *encoder, const char *text, size_t bytes) {
    const ppo_tokenizer *tok = encoder->tok;
    if (tok->kind == PPO__CHARACTERS) ppo__encode_characters(encoder, text, bytes);
    else
        for (size_t i = 0; i < bytes; ++i) ppo__emit(encoder, tok->of_byte[(unsigned char)text[i]]);
}

/* An encoder, for one text or several. */
static ppo__encoder ppo__encoder_start(const ppo_tokenizer *tok) {
    ppo__encoder encoder;
    memset(&encoder, 0, sizeof encoder);
    encoder.tok = tok;
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
    for (int side = 0; side < 2; ++side) {
        if (side && ppo__in_bpe.encode) ppo__in_bpe.encode(encoder, 0, text, bytes, is_start);
        else if (side) ppo__encode_piece(encoder, text, bytes);
        for (int i = 0; i < tok->bounds[side] && flags & (side ? PPO__ADD_AFTER : PPO__ADD_BEFORE); ++i)
            ppo__emit(encoder, tok->bound[side][i]);
    }
}

/* Frees the encoder; returns the status of all that it did. */
static ppo_status ppo__encoder_end(ppo__encoder *encoder) {
    ppo_status status = ppo__arena_status(&encoder->memory);
    ppo__arena_free(&encoder->memory);
    ppo__array_free(encoder->queue);
    ppo__array_free(encoder->tokens);
    return status;
}

/* ppo_encode() with flags, which ppo_hub.h offers as ppo_encode_as(). */
static ppo_status ppo__encode(const ppo_tokenizer *tokenizer, int flags, const char *text, size_t bytes,
                              int *tokens, int capacity, int *count) {
    if (!PPO__GIVEN("ppo_encode", tokenizer)) return PPO_ERROR_ARGUMENT;
    if (bytes && !PPO__GIVEN("ppo_encode", text)) return PPO_ERROR_ARGUMENT;
    if (capacity < 0) return ppo__refuse("ppo_encode: capacity is %d, must not be below 0", capacity);
    ppo__encoder encoder = ppo__encoder_start(tokenizer);
    ppo__encode_text(&encoder, flags, text, bytes, 1);
    const int n = encoder.count, copied = !tokens ? 0 : n < capacity ? n : capacity;
    if (copied) memcpy(tokens, encoder.tokens, copied * sizeof *tokens);
    ppo_status status = ppo__encoder_end(&encoder);
    if (status) return status;
    if (count) *count = n;
    if (copied == n || !tokens || !capacity) return PPO_OK;
    return ppo__refuse("ppo_encode: there is room for %d tokens, but there are %d", capacity, n);
}

PPO_DEF ppo_status ppo_encode(const ppo_tokenizer *tokenizer, const char *text, size_t bytes, int *tokens,
                              int capacity, int *count) {
    return ppo__encode(tokenizer, 0, text, bytes, tokens, capacity, count);
}

/* Writes the text of tokens first .. end - 1 as far as there is room, without its first `strip` spaces; returns its
   length. *unknown: the first token that does not exist, or `end`. A tokenizer.json's tokens above its own have no
   text. */
static size_t ppo__token_text(const ppo_tokenizer *tok, const int *tokens, int first, int end, int strip,
                              int ordinary, char *text, size_t capacity, int *unknown) {
    size_t length = 0;
    for (*unknown = first; *unknown < end; ++*unknown) {
        int bytes, token = tokens[*unknown];
        const char *word = ppo__text_of(tok, token, &bytes);
        if (!word && !(tok->json && token >= 0)) break;
        if (!word || (ordinary && tok->special[token])) continue;
        for (; bytes; --bytes, ++word) {
            if (strip > 0 && *word != ' ') strip = 0;
            if (strip && *word == ' ') strip -= strip > 0;
            else if (++length < capacity) text[length - 1] = *word;
        }
        if (strip < 0) strip = 0;
    }
    if (length < capacity) text[length] = 0;
    return length;
}

/* All of that text, or a refusal; capacity 0: only its length. */
static ppo_status ppo__decode(const char *function, const ppo_tokenizer *tok, const int *tokens, int n,
                              int strip, int ordinary, char *text, size_t capacity, size_t *bytes) {
    int unknown;
    size_t length = ppo__token_text(tok, tokens, 0, n, strip, ordinary, text, capacity, &unknown);
    if (unknown < n)
        return ppo__refuse("%s: token %d at position %d is not in 0 .. %d", function, tokens[unknown],
                           unknown, tok->vocab - 1);
    if (bytes) *bytes = length;
    if (capacity == 0 || length < capacity) return PPO_OK;
    return ppo__refuse("%s: there is room for %.0f bytes, but there are %.0f with the final 0", function,
                       (double)capacity, (double)length + 1);
}

PPO_DEF ppo_status ppo_decode(const ppo_tokenizer *tokenizer, const int *tokens, int n, char *text,
                              size_t capacity, size_t *bytes) {
    if (!PPO__GIVEN("ppo_decode", tokenizer)) return PPO_ERROR_ARGUMENT;
    if (n && !PPO__GIVEN("ppo_decode", tokens)) return PPO_ERROR_ARGUMENT;
    if (n < 0) return ppo__refuse("ppo_decode: %d tokens", n);
    return ppo__decode("ppo_decode", tokenizer, tokens, n, tokenizer->strip, 0, text, text ? capacity : 0,
                       bytes);
}

PPO_DEF ppo_status ppo_tokens_add_text(ppo_tokens *tokens, const ppo_tokenizer *tokenizer, int start,
                                       const char *prompt, const char *response, int end) {
    if (!PPO__GIVEN("ppo_tokens_add_text", tokens, tokenizer, prompt)) return PPO_ERROR_ARGUMENT;
    if (start >= tokenizer->vocab || end >= tokenizer->vocab)
        return ppo__refuse("ppo_tokens_add_text: start is %d and end %d, tokens are 0 .. %d", start, end,
                           tokenizer->vocab - 1);
    ppo__encoder encoder = ppo__encoder_start(tokenizer);
    if (start >= 0) ppo__emit(&encoder, start);
    ppo__encode_text(&encoder, 0, prompt, strlen(prompt), 1);
    int given = encoder.count;
    if (response) ppo__encode_text(&encoder, PPO__CONTINUES, response, strlen(response), 1);
    if (response && end >= 0) ppo__emit(&encoder, end);
    if (!encoder.memory.failed)
        encoder.memory.failed = ppo_tokens_add(tokens, encoder.tokens, encoder.count, given);
    return ppo__encoder_end(&encoder);
}

/* Where the tokens after the prompt begin. */
static int ppo__prompt_end(const ppo_tokens *tokens, int s) {
    int start = tokens->start[s], n = tokens->start[s + 1] - start,
        prompt = tokens->prompt ? tokens->prompt[s] : 0;
    return start + (prompt < 0 ? 0 : prompt < n ? prompt : n);
}

PPO_DEF ppo_status ppo_tokens_text(const ppo_tokens *tokens, int s, ppo_text_part what,
                                   const ppo_tokenizer *tokenizer, char *text, size_t capacity) {
    if (!PPO__GIVEN("ppo_tokens_text", tokens, tokenizer, text)) return PPO_ERROR_ARGUMENT;
    if (!capacity) return ppo__refuse("ppo_tokens_text: capacity is 0");
    *text = 0;
    if (s < 0 || s >= tokens->count)
        return ppo__refuse("ppo_tokens_text: there is no sequence %d in %d", s, tokens->count);
    if ((unsigned)what > PPO_RESPONSE_TEXT)
        return ppo__refuse("ppo_tokens_text: what is %d, outside 0 .. %d", what, PPO_RESPONSE_TEXT);
    int i = tokens->start[s], end = tokens->start[s + 1], prompt = ppo__prompt_end(tokens, s);
    if (what == PPO_RESPONSE_TEXT) i = prompt;
    if (what == PPO_PROMPT_TEXT) end = prompt;
    ppo_status status =
        ppo__decode("ppo_tokens_text", tokenizer, tokens->token + i, end - i,
                    what == PPO_RESPONSE_TEXT ? 0 : tokenizer->strip, 1, text, capacity, NULL);
    if (status) *text = 0;
    return status;
}

/* -- in files -- */

static const struct {
    const char *name, *array;
    ppo_dtype type; /* of the array */
    int rank;
} ppo__tokenizer_kinds[] = {{"characters", "tokenizer.characters", PPO_I32, 1},
                            {"bpe", "tokenizer.merges", PPO_I32, 2},
                            {"json", "tokenizer.json", PPO_U8, 1}};

PPO_DEF ppo_status ppo_tokenizer_put(const ppo_tokenizer *tokenizer, ppo_file *file) {
    if (!PPO__GIVEN("ppo_tokenizer_put", tokenizer, file)) return PPO_ERROR_ARGUMENT;
    const int json = tokenizer->json != NULL, kind = json ? 2 : tokenizer->kind;
    const int first = tokenizer->vocab - tokenizer->added_count;
    const int64_t shape[2] = {json ? (int64_t)tokenizer->json_bytes : tokenizer->unit_count, 2};
    const void *data = json ? (const void *)tokenizer->json : tokenizer->units;
    if (ppo_file_add(file, ppo__tokenizer_kinds[kind].array, ppo__tokenizer_kinds[kind].type, shape,
                     ppo__tokenizer_kinds[kind].rank, data) ||
        ppo_file_set_text(file, "tokenizer", ppo__tokenizer_kinds[kind].name))
        return ppo__failed;
    if (json) return PPO_OK;
    const size_t bytes = (size_t)(tokenizer->start[tokenizer->vocab] - tokenizer->start[first]);
    char *names = PPO__ARRAY(&file->memory, char, bytes + (size_t)tokenizer->added_count + 1);
    if (!names) return PPO_ERROR_MEMORY;
    *names = 0;
    for (int t = first, at = 0; t < tokenizer->vocab; ++t)
        at += sprintf(names + at, "%s%.*s", t > first ? "\n" : "", ppo__token_length(tokenizer, t),
                      tokenizer->bytes + tokenizer->start[t]);
    if (kind == PPO__BPE && ppo_file_set_text(file, "tokenizer.words", "gpt2")) return ppo__failed;
    return ppo_file_set_text(file, "tokenizer.specials", names);
}

PPO_DEF ppo_status ppo_tokenizer_get(const ppo_file *file, ppo_tokenizer **tokenizer) {
    if (tokenizer) *tokenizer = NULL;
    if (!PPO__GIVEN("ppo_tokenizer_get", file, tokenizer)) return PPO_ERROR_ARGUMENT;
    const char *word = ppo_file_text(file, "tokenizer"), *lines = ppo_file_text(file, "tokenizer.specials");
    const char *words = ppo_file_text(file, "tokenizer.words");
    int kind = 0;
    if (!word) return ppo__file_fail(file->path, "there is no text \"tokenizer\"");
    while (kind < 3 && strcmp(word, ppo__tokenizer_kinds[kind].name) != 0) ++kind;
    if (kind == 3)
        return ppo__file_fail(
            file->path, "corrupt file: the tokenizer is \"%.60s\", not \"characters\", \"bpe\" or \"json\"",
            word);
    if (!lines && kind < 2) return ppo__file_fail(file->path, "there is no text \"tokenizer.specials\"");
    if (kind == PPO__BPE && (!words || strcmp(words, "gpt2") != 0))
        return ppo__file_fail(file->path, "\"tokenizer.words\" is \"%.60s\", not \"gpt2\"",
                              words ? words : "");
    const char *name = ppo__tokenizer_kinds[kind].array;
    const ppo_array *array = ppo_file_find(file, name);
    int64_t shape[2] = {array && array->rank ? array->shape[0] : 0, 2};
    if (ppo__file_expect(file, name, ppo__tokenizer_kinds[kind].type, shape, ppo__tokenizer_kinds[kind].rank,
                         &array))
        return ppo__failed;
    if (kind == PPO__BPE && shape[0] && !ppo__in_bpe.add_merge)
        return ppo__file_fail(file->path, "merges of bytes need ppo_bpe.h: include it after ppo.h, where "
                                          "PPO_IMPLEMENTATION is");
    if (kind == 2)
        return ppo__in_hub.tokenizer_load ? ppo__in_hub.tokenizer_load(file->path, array, tokenizer)
                                          : ppo__needs_hub(file->path);
    if (shape[0] > PPO_MAX_VOCAB)
        return ppo__file_fail(file->path, "corrupt file: \"%s\" has %lld rows, more than %d", name,
                              (long long)shape[0], PPO_MAX_VOCAB);
    ppo__arena memory = {NULL, NULL, PPO_OK};
    int count = 0; /* of the names, which may be too many */
    char *copy = PPO__ARRAY(&memory, char, strlen(lines) + 1);
    const char **names = PPO__ARRAY(&memory, const char *, PPO_MAX_SPECIALS);
    ppo_status status = ppo__arena_status(&memory);
    for (char *line = status || !*lines ? NULL : strcpy(copy, lines), *end; line; line = end, ++count) {
        end = strchr(line, '\n');
        if (count < PPO_MAX_SPECIALS) names[count] = line;
        if (end) *end++ = 0;
    }
    const int32_t *units = (const int32_t *)array->data;
    if (!status) status = ppo__tokenizer_make(kind, units, (int)shape[0], names, count, tokenizer);
    ppo__arena_free(&memory);
    return status == PPO_ERROR_ARGUMENT ? ppo__file_fail(file->path, "corrupt file: %s", ppo__error) : status;
}

static ppo_status ppo__put_tokenizer(ppo_file *file, const void *tokenizer) {
    return ppo_tokenizer_put((const ppo_tokenizer *)tokenizer, file);
}

/* Is it a tokenizer.json, GGUF, or a folder that may have one? */
static int ppo__is_tokfile(const char *path) {
    const char *dot = strrchr(path, '.');
    return ppo__is_special(path) || (dot && (!strcmp(dot, ".json") || !strcmp(dot, ".gguf")));
}

PPO_DEF ppo_status ppo_tokenizer_save(const ppo_tokenizer *tokenizer, const char *path) {
    if (!PPO__GIVEN("ppo_tokenizer_save", tokenizer, path)) return PPO_ERROR_ARGUMENT;
    if (!ppo__is_tokfile(path)) return ppo__save("ppo_tokenizer_save", path, ppo__put_tokenizer, tokenizer);
    return ppo__in_hub.tokenizer_save ? ppo__in_hub.tokenizer_save(tokenizer, path) : ppo__needs_hub(path);
}

PPO_DEF ppo_status ppo_tokenizer_load(const char *path, ppo_tokenizer **tokenizer) {
    ppo_file *file = NULL;
    if (tokenizer) *tokenizer = NULL;
    if (!PPO__GIVEN("ppo_tokenizer_load", path, tokenizer)) return PPO_ERROR_ARGUMENT;
    if (ppo__is_tokfile(path))
        return ppo__in_hub.tokenizer_load ? ppo__in_hub.tokenizer_load(path, NULL, tokenizer)
                                          : ppo__needs_hub(path);
    ppo_status status = ppo_file_read(path, &file);
    if (!status) status = ppo_tokenizer_get(file, tokenizer);
    return ppo_file_free(file), status;
}

/* --------------------------------------------------------------------------------------------------------
   @@ 18 Transformer

   ppo__lm_rows() is the model: embeddings, blocks (ppo__lm_block()), last norm. It works on rows, each a
   token at a position. A callback computes what a row attends to: training attends within whole sequences,
   sampling (section 20) to cached keys and values.

   A model with LoRA (ppo_hub.h) is another ppo_lm, whose blocks point to the weights of its base; its params
   hold what it adds to them, and ppo__lm_layer() calls ppo_hub.h to add it.

   To add a variant of a model: a field of ppo_lm_config, its row in ppo__lm_fields, its lines in
   ppo__lm_block(); for parameters, rows of ppo__lm_layers; an operation also in ppo_cuda.cuh. Everything else
   uses ppo_lm_forward(), ppo_lm_logits(), ppo_lm_score().
   -------------------------------------------------------------------------------------------------------- */
PPO__COLD_END

/* -- attention -- */

/* Each head of each sequence is computed by itself, with its queries Q, keys K and values V, all (n, size):

       S = scale Q K^T      (n, n)     row i has columns 0 .. i only; with a window, only the last of these
       P = softmax(S)       (n, n)     of each row
       Y = P V              (n, size)

   and backward, where * multiplies element by element, and rowsum() is one number for each row:

       dV = P^T dY          dP = dY V^T          dS = P * (dP - rowsum(P * dP))
       dQ = scale dS K      dK = scale dS^T Q

   This is done in tiles of rows: a tile needs no columns to the right of what its last row attends to. P
   is kept for backward; within a tile its upper right is 0. */
enum { PPO__ATTENTION_ROWS = 32 };

/* Fails a tape by a sentence; NULL. */
#define PPO__TAPE_REFUSE(tape, ...) ((ppo_tensor *)ppo__tape_fail(tape, ppo__refuse(__VA_ARGS__)))

typedef struct ppo__attention_args {
    ppo_attention attention; /* with every 0 replaced, except the window */
    int size, count;
    const int *start;
} ppo__attention_args;

/* One head of one sequence, as places in the tensors. */
typedef struct ppo__head {
    int n, size;            /* rows, columns */
    int ld, width;          /* from row to row: in q, k, v; in y */
    const float *q, *k, *v; /* (n, size) */
    float *dq, *dk, *dv;    /* (n, size) */
    float *y;               /* (n, size) */
    const float *dy;        /* (n, size) */
    float *p;               /* (n, n) */
} ppo__head;

/* The first of the columns 0 .. i that row i attends to. */
static int ppo__attend_first(const ppo_attention *attention, int i) {
    return attention->window && i >= attention->window ? i + 1 - attention->window : 0;
}

/* Zeroes columns 0 .. first - 1 and end .. n - 1 of a row. */
static void ppo__zero_outside(float *row, int first, int end, int n) {
    memset(row, 0, first * sizeof(float));
    memset(row + end, 0, (n - end) * sizeof(float));
}

/* Y of a head. kt: K transposed (size, n). */
static void ppo__attend(const ppo_attention *attention, const ppo__head *h, const float *kt) {
    const ppo__kernels *k = ppo__k();
    for (int i = 0; i < h->n; i += PPO__ATTENTION_ROWS) {
        const int rows = ppo__min_int(h->n - i, PPO__ATTENTION_ROWS), cols = i + rows;
        const float *q = h->q + ppo__at(i, h->ld);
        float *p = h->p + ppo__at(i, h->n), *y = h->y + ppo__at(i, h->width);
        k->gemm(rows, cols, h->size, q, h->ld, 1, kt, h->n, NULL, 0, p, h->n); /* Q K^T */
        for (int r = 0; r < rows; ++r) {
            const int first = ppo__attend_first(attention, i + r), end = i + r + 1;
            float *row = p + ppo__at(r, h->n);
            k->softmax(attention->scale, row + first, end - first);
            ppo__zero_outside(row, first, end, cols);
        }
        k->gemm(rows, h->size, cols, p, h->n, 1, h->v, h->ld, NULL, 0, y, h->width); /* P V */
    }
}

/* Adds to dQ, dK and dV of a head. vt: V transposed (size, n). ds: scratch (ATTENTION_ROWS, n), dP then dS. */
static void ppo__attend_backward(const ppo_attention *attention, const ppo__head *h, const float *vt,
                                 float *ds) {
    const ppo__kernels *k = ppo__k();
    for (int i = 0; i < h->n; i += PPO__ATTENTION_ROWS) {
        const int rows = ppo__min_int(h->n - i, PPO__ATTENTION_ROWS), cols = i + rows;
        const float *q = h->q + ppo__at(i, h->ld), *p = h->p + ppo__at(i, h->n),
                    *dy = h->dy + ppo__at(i, h->width);
        float *dq = h->dq + ppo__at(i, h->ld);
        k->gemm(cols, h->size, rows, p, 1, h->n, dy, h->width, h->dv, h->ld, h->dv, h->ld); /* P^T dY */
        k->gemm(rows, cols, h->size, dy, h->width, 1, vt, h->n, NULL, 0, ds, h->n);         /* dY V^T */
        for (int r = 0; r < rows; ++r) {
            const int first = ppo__attend_first(attention, i + r), end = i + r + 1;
            float *row = ds + ppo__at(r, h->n) + first;
            k->softmax_backward(attention->scale, p + ppo__at(r, h->n) + first, row, row, end - first);
            ppo__zero_outside(ds + ppo__at(r, h->n), first, end, cols);
        }
        k->gemm(rows, h->size, cols, ds, h->n, 1, h->k, h->ld, dq, h->ld, dq, h->ld);    /* dS K */
        k->gemm(cols, h->size, rows, ds, 1, h->n, q, h->ld, h->dk, h->ld, h->dk, h->ld); /* dS^T Q */
    }
}

typedef struct ppo__attention_job {
    ppo_node *node;
    size_t scratch; /* floats for each range: K or V transposed, and a tile of dS */
    int backward;
} ppo__attention_job;

/* Head kv of keys and values of the sequence of rows start .. start + n - 1, with the heads of queries
   that share it, whose P are at p. */
static void ppo__attention_head(const ppo__attention_job *job, int start, int n, int kv, float *p,
                                float *scratch) {
    const ppo_tensor *qkv = job->node->in[0], *out = job->node->out[0];
    const ppo__attention_args *args = (const ppo__attention_args *)job->node->args;
    const ppo_attention *attention = &args->attention;
    const int size = args->size, ld = qkv->cols, width = out->cols,
              queries = attention->heads / attention->kv_heads;
    const size_t row = ppo__at(start, ld), k = row + ppo__at(attention->heads + kv, size);
    const size_t v = k + ppo__at(attention->kv_heads, size);
    ppo__k()->transpose(n, size, qkv->data + (job->backward ? v : k), ld, scratch, n);
    for (int head = kv * queries; head < (kv + 1) * queries; ++head, p += ppo__at(n, n)) {
        const size_t q = row + ppo__at(head, size), y = ppo__at(start, width) + ppo__at(head, size);
        const float *x = qkv->data;
        ppo__head h = {n, size, ld, width, x + q, x + k, x + v, NULL, NULL, NULL, NULL, NULL, p};
        if (!job->backward) {
            h.y = out->data + y;
            ppo__attend(attention, &h, scratch);
            continue;
        }
        h.dq = qkv->grad + q;
        h.dk = qkv->grad + k;
        h.dv = qkv->grad + v;
        h.dy = out->grad + y;
        ppo__attend_backward(attention, &h, scratch, scratch + ppo__at(n, size));
    }
}

/* Of all sequences' heads of keys and values, begin .. end - 1. */
static void ppo__attention_range(void *user, int range, int begin, int end) {
    const ppo__attention_job *job = (const ppo__attention_job *)user;
    const ppo__attention_args *args = (const ppo__attention_args *)job->node->args;
    const int kv_heads = args->attention.kv_heads, queries = args->attention.heads / kv_heads;
    float *p = (float *)job->node->kept;
    for (int i = 0; i < end; ++i) {
        const int start = args->start[i / kv_heads], n = args->start[i / kv_heads + 1] - start;
        if (i >= begin)
            ppo__attention_head(job, start, n, i % kv_heads, p, job->node->scratch + range * job->scratch);
        p += ppo__at(n, n) * queries;
    }
}

static ppo_status ppo__attention_run(ppo_node *node, int backward) {
    const ppo__attention_args *args = (const ppo__attention_args *)node->args;
    int heads = args->attention.heads, n = args->attention.kv_heads * args->count, longest = 0;
    size_t numbers = 0; /* of all P */
    for (int s = 0; s < args->count; ++s) {
        int length = args->start[s + 1] - args->start[s];
        if (length > longest) longest = length;
        numbers += ppo__at(heads, length) * (size_t)length;
    }
    double work = 2.0 * (double)numbers / n * args->size;
    size_t scratch = ppo__at(longest, args->size) + ppo__at(longest, PPO__ATTENTION_ROWS);
    ppo__attention_job job = {node, scratch, backward};
    if (!backward) node->kept = ppo_tape_alloc(node->tape, numbers);
    node->scratch = ppo_tape_alloc(node->tape, ppo__range_count(n, 1, work) * job.scratch);
    if (!node->kept || !node->scratch) return PPO_ERROR_MEMORY;
    ppo__parallel_for(n, 1, work, ppo__attention_range, &job);
    return PPO_OK;
}

static ppo_status ppo__attention_forward(ppo_node *node) { return ppo__attention_run(node, 0); }
static void ppo__attention_backward(ppo_node *node) { ppo__attention_run(node, 1); }

PPO_DEF ppo_tensor *ppo_tape_attention(ppo_tape *tape, ppo_tensor *qkv, const ppo_attention *attention,
                                       const int *start, int count) {
    static const ppo_op op = {"attention", 1, ppo__attention_forward, ppo__attention_backward};
    if (!ppo__operands(tape, op.name, qkv, start && attention ? qkv : NULL)) return NULL;
    ppo__attention_args args = {*attention, 0, count, start};
    if (!attention->kv_heads) args.attention.kv_heads = attention->heads;
    const int all = attention->heads > 0 && args.attention.kv_heads > 0 &&
                            attention->heads % args.attention.kv_heads == 0 && attention->heads <= qkv->cols
                        ? attention->heads + 2 * args.attention.kv_heads
                        : 0;
    int fits = all && qkv->cols % all == 0 && attention->window >= 0 && attention->scale >= 0 && count > 0 &&
               start[0] == 0 && start[count] == qkv->rows;
    for (int s = 0; s < count && fits; ++s) fits = start[s] < start[s + 1];
    if (!fits)
        return PPO__TAPE_REFUSE(
            tape, "attention: (%d, %d) is not %d heads of queries, %d of keys and values in %d sequences",
            qkv->rows, qkv->cols, attention->heads, args.attention.kv_heads, count);
    args.size = qkv->cols / all;
    if (!(attention->scale > 0)) args.attention.scale = 1 / sqrtf((float)args.size);
    return ppo_tape_result(
        ppo_tape_apply(tape, &op, &qkv, 1, qkv->rows, attention->heads * args.size, &args, sizeof args));
}

/* -- rotary positions -- */

typedef struct ppo__rotary_args {
    int heads, size;
} ppo__rotary_args;

/* y += x, with the columns of the heads rotated by sign times their angles. */
static void ppo__rotate(const ppo_node *node, float sign, const float *x, float *y) {
    const ppo__rotary_args *args = (const ppo__rotary_args *)node->args;
    const int cols = node->in[0]->cols, half = node->in[1]->cols / 2, size = args->size;
    const float *angle = node->in[1]->data;
    for (int i = 0; i < node->in[0]->rows; ++i, angle += 2 * half) {
        for (int h = 0; h < args->heads; ++h, x += size, y += size) {
            for (int j = 0; j < half; ++j) {
                float c = angle[j], s = sign * angle[half + j];
                y[j] += x[j] * c - x[j + half] * s;
                y[j + half] += x[j + half] * c + x[j] * s;
            }
            for (int j = 2 * half; j < size; ++j) y[j] += x[j];
        }
        for (int j = args->heads * size; j < cols; ++j) *y++ += *x++;
    }
}

static ppo_status ppo__rotary_forward(ppo_node *node) {
    memset(node->out[0]->data, 0, ppo__size(node->in[0]) * sizeof(float));
    ppo__rotate(node, 1, node->in[0]->data, node->out[0]->data);
    return PPO_OK;
}

static void ppo__rotary_backward(ppo_node *node) {
    if (node->in[0]->grad) ppo__rotate(node, -1, node->out[0]->grad, node->in[0]->grad);
}

PPO_DEF ppo_tensor *ppo_tape_rotary(ppo_tape *tape, ppo_tensor *x, ppo_tensor *angle, int heads, int size) {
    static const ppo_op op = {"rotary", 1, ppo__rotary_forward, ppo__rotary_backward};
    const ppo__rotary_args args = {heads, size};
    if (!ppo__operands(tape, op.name, x, angle)) return NULL;
    if (angle->rows != x->rows || angle->cols % 2 || angle->cols > size)
        return ppo__shape_error(tape, op.name, x, angle);
    if (heads < 1 || size < 1 || heads > x->cols / size)
        return PPO__TAPE_REFUSE(tape, "rotary: %d heads of %d columns in %d", heads, size, x->cols);
    ppo_tensor *in[2] = {x, angle};
    return ppo_tape_result(ppo_tape_apply(tape, &op, in, 2, x->rows, x->cols, &args, sizeof args));
}
PPO__COLD

/* -- a model's parameters -- */

/* ppo_hub.h knows what these stand for. */
#define PPO__FAMILY_WORDS \
    "gpt2|gpt_neo|gpt_neox|llama|mistral|qwen2|qwen3|gemma3_text|olmo2|smollm3|phi3|granite|opt"

#define PPO__OF ppo_lm_config
static const ppo_field ppo__lm_fields[] = {
    PPO__CHOICE(family, "gpt2", 12, PPO__FAMILY_WORDS, "whose layout a saved folder has"),
    PPO__SCALAR(vocab, INT, NULL, 2, INT_MAX, "tokens"),
    PPO__SCALAR(context, INT, "64", 2, INT_MAX, "tokens of the longest sequence"),
    PPO__SCALAR(width, INT, "64", 2, INT_MAX / 4, "numbers of a token's hidden state"),
    PPO__SCALAR(layers, INT, "2", 1, PPO_MAX_LAYERS, "blocks"),
    PPO__SCALAR(heads, INT, "4", 1, INT_MAX / 8, "heads of queries"),
    PPO__SCALAR(kv_heads, INT, "0", 0, INT_MAX / 8, "heads of keys and values; 0: as many"),
    PPO__SCALAR(head_size, INT, "0", 0, INT_MAX / 8, "0: width / heads"),
    PPO__SCALAR(hidden, INT, "0", 0, INT_MAX / 2, "width of the feed-forward layers; 0: 4 width"),
    PPO__SETTING(norm, CHOICE, "layer", PPO_RMS_NORM, PPO_LAYER_NORM, "rms|layer", "kind of the norms"),
    PPO__SCALAR(norm_eps, FLOAT, "1e-5", 1e-30, 1, "added to a norm's variance"),
    PPO__CHOICE(activation, "gelu", PPO__ACTIVATIONS - 1, PPO__ACTIVATION_WORDS, "in feed-forward layers"),
    PPO__SWITCH(glu, "no", "gate in the feed-forward layers"),
    PPO__SWITCH(qkv_bias, "yes", "biases of queries, keys and values"),
    PPO__SWITCH(proj_bias, "yes", "bias after the attention"),
    PPO__SWITCH(ffn_bias, "yes", "biases of the feed-forward layers"),
    PPO__CHOICE(qk_norm, "no", 2, "no|yes|whole", "norms of queries and keys"),
    PPO__SWITCH(pre_norm, "yes", "norms before the attention and the feed-forward"),
    PPO__SWITCH(post_norm, "no", "norms of their results"),
    PPO__SWITCH(parallel, "no", "attention and feed-forward start from the same numbers"),
    PPO__SWITCH(tied, "yes", "logits by the token embedding"),
    PPO__SCALAR(attention_scale, FLOAT, "0", 0, 1e30, "scale of scores; 0: 1 / sqrt(head size)"),
    PPO__SCALAR(embedding_scale, FLOAT, "1", 0, 1e30, "factor of embeddings; 0: sqrt(width)"),
    PPO__SCALAR(residual_scale, FLOAT, "1", 1e-30, 1e30, "factor of what a layer adds"),
    PPO__SCALAR(logits_scaling, FLOAT, "1", 1e-30, 1e30, "logits are divided by it"),
    PPO__SCALAR(window, INT, "0", 0, INT_MAX, "tokens that a token attends to; 0: all"),
    PPO__SCALAR(window_layers, U64, "0", 0, 1.8446744073709552e19, "bit k: layer k has it; 0: all"),
    PPO__CHOICE(positions, "learned", PPO_ROTARY, "learned|rotary", "kind of positions"),
    PPO__SCALAR(rotary_size, INT, "0", 0, INT_MAX / 8, "columns of a head that are rotated; 0: all"),
    PPO__SCALAR(nope_layers, U64, "0", 0, 1.8446744073709552e19, "bit k: layer k has no positions"),
    PPO__SCALAR(rope_theta, FLOAT, "10000", 1, 1e30, "base of the wavelengths"),
    PPO__SCALAR(window_theta, FLOAT, "0", 0, 1e30, "the same in layers with the window; 0: no difference"),
    PPO__CHOICE(rope_scaling, "plain", PPO_ROPE_YARN, "plain|linear|llama3|yarn", "scaling of wavelengths"),
    PPO__SCALAR(rope_factor, FLOAT, "1", 1e-30, 1e30, "wavelengths are multiplied by it"),
    PPO__SCALAR(rope_low, FLOAT, "1", 1e-30, 1e30, "Llama 3: low_freq_factor; YaRN: beta_slow"),
    PPO__SCALAR(rope_high, FLOAT, "4", 1e-30, 1e30, "the same: high_freq_factor; beta_fast"),
    PPO__SCALAR(rope_context, INT, "8192", 1, INT_MAX, "the same: context before the scaling"),
    PPO__SWITCH(score, "no", "head with one number per token"),
    PPO__SEED("of the initial weights"),
    PPO__SCALAR(eos, INT, "-1", -1, INT_MAX, "token that ends a text; -1: none"),
};
#undef PPO__OF
static const ppo_need ppo__lm_needs[] = {
    {"rotary_size", "positions", "rotary"},
    {"nope_layers", "positions", "rotary"},
    {"window_theta", "positions", "rotary"},
    {"window_theta", "window", NULL},
    {"rope_theta", "positions", "rotary"},
    {"rope_scaling", "positions", "rotary"},
    {"rope_factor", "rope_scaling", "linear|llama3|yarn"},
    {"rope_low", "rope_scaling", "llama3|yarn"},
    {"rope_high", "rope_scaling", "llama3|yarn"},
    {"rope_context", "rope_scaling", "llama3|yarn"},
    {"window_layers", "window", NULL},
    {NULL, NULL, NULL},
};
static const ppo_settings ppo__lm_settings = {ppo__lm_fields, sizeof ppo__lm_fields / sizeof *ppo__lm_fields,
                                              ppo__lm_needs, NULL, NULL};

PPO_DEF const ppo_settings *ppo_lm_settings(void) { return &ppo__lm_settings; }

PPO_DEF ppo_lm_config ppo_lm_config_default(void) {
    ppo_lm_config c;
    ppo__settings_default(&ppo__lm_settings, &c, sizeof c);
    return c;
}

/* Checks a model's settings, and makes lm->full of them: every 0 that stands for a default is replaced. */
static ppo_status ppo__lm_complete(ppo_lm *lm) {
    ppo_lm_config *c = &lm->full;
    *c = lm->config;
    ppo_status status = ppo__settings_check(&ppo__lm_settings, c);
    if (!status) status = ppo__check_effects(&ppo__lm_settings, c, NULL, NULL);
    if (status) return status;
    if (c->eos >= c->vocab) return ppo__refuse("eos is %d, outside 0 .. %d (-1: none)", c->eos, c->vocab - 1);
    if (!c->pre_norm && !c->post_norm) return ppo__refuse("pre_norm and post_norm are no: one must be yes");
    if ((c->qk_norm || c->rope_scaling == PPO_ROPE_YARN) && !ppo__in_hub.qk_norm)
        return ppo__needs(c->qk_norm ? "qk_norm" : "rope_scaling yarn", "ppo_hub.h");
    if (!c->head_size && c->width % c->heads)
        return ppo__refuse("width is %d, which %d heads cannot share", c->width, c->heads);
    if (!c->head_size) c->head_size = c->width / c->heads;
    if (!c->kv_heads) c->kv_heads = c->heads;
    if (!c->hidden) c->hidden = 4 * c->width;
    if (!(c->attention_scale > 0)) c->attention_scale = 1 / sqrtf((float)c->head_size);
    if (!(c->embedding_scale > 0)) c->embedding_scale = sqrtf((float)c->width);
    if (c->heads % c->kv_heads)
        return ppo__refuse("heads is %d, which %d kv_heads cannot share", c->heads, c->kv_heads);
    if (3.0 * c->heads * c->head_size > INT_MAX)
        return ppo__refuse("%d heads of %d numbers are too many", c->heads, c->head_size);
    if (c->positions != PPO_ROTARY) return PPO_OK;
    if (!c->rotary_size) c->rotary_size = c->head_size;
    if (c->rotary_size % 2 || c->rotary_size > c->head_size)
        return ppo__refuse("rotary_size is %d, must be even and at most %d, the head's", c->rotary_size,
                           c->head_size);
    if (c->rope_scaling >= PPO_ROPE_LLAMA3 && !(c->rope_low < c->rope_high))
        return ppo__refuse("rope_low is %g, must be below rope_high, which is %g", c->rope_low, c->rope_high);
    return PPO_OK;
}

static ppo_attention ppo__lm_attention(const ppo_lm_config *c, int layer) {
    int local = !c->window_layers || (c->window_layers >> layer & 1);
    const ppo_attention attention = {c->heads, c->kv_heads, local ? c->window : 0, c->attention_scale};
    return attention;
}

/* The angles of a position: wavelength j is 2 pi theta^(2j / r). Linear scaling multiplies it by the factor, that
   of Llama 3 (Dubey 2024) and YaRN only if it is long, and partly in between. local: of a layer with window_theta. */
static void ppo__rotary_angles(const ppo_lm_config *c, int local, int position, float *angle) {
    const int half = c->rotary_size / 2;
    const double theta = (double)(local ? c->window_theta : c->rope_theta);
    for (int j = 0; j < half; ++j) {
        double frequency = pow(theta, -2.0 * j / c->rotary_size), share = 0, size = 1; /* unscaled */
        double waves = c->rope_context * frequency / (2 * 3.14159265358979323846);
        if (c->rope_scaling == PPO_ROPE_PLAIN || local) share = 1;
        else if (c->rope_scaling == PPO_ROPE_LLAMA3)
            share = (waves - (double)c->rope_low) / ((double)c->rope_high - (double)c->rope_low);
        else if (c->rope_scaling == PPO_ROPE_YARN) share = ppo__in_hub.yarn(c, j, &size);
        share = share < 0 ? 0 : share > 1 ? 1 : share;
        frequency *= share + (1 - share) / (double)c->rope_factor;
        angle[j] = (float)(size * cos(position * frequency));
        angle[half + j] = (float)(size * sin(position * frequency));
    }
}

/* Number of positions whose angles a model keeps. Those of later positions are computed each time. */
enum { PPO__KEPT_ANGLES = 4096 };

/* The layers of a block, with a weight "transformer.h.3.attn.c_attn.weight" (in, out) and a ".bias" (1,
   out). in is PPO__ONE for a norm, whose weight is a row of ones. */
enum { PPO__ONE, PPO__WIDTH, PPO__QKV, PPO__HEADS, PPO__Q_NORM, PPO__K_NORM, PPO__UP, PPO__HIDDEN };
#define PPO__ALL         (SIZE_MAX - 1)
#define PPO__NEVER       SIZE_MAX
#define PPO__IF(setting) offsetof(ppo_lm_config, setting)
#define PPO__LAYER(name, weight, bias, in, out, exists, has_bias) \
    { name, offsetof(ppo_lm_block, weight), offsetof(ppo_lm_block, bias), in, out, exists, has_bias }
static const struct {
    const char *name;
    size_t weight, bias; /* offsets in ppo_lm_block */
    int in, out;
    size_t exists, has_bias; /* always, never, or if the setting at this offset is not 0 */
} ppo__lm_layers[] = {
    PPO__LAYER("ln_1", norm_weight[0], norm_bias[0], PPO__ONE, PPO__WIDTH, PPO__IF(pre_norm), PPO__IF(norm)),
    PPO__LAYER("attn.c_attn", qkv_weight, qkv_bias, PPO__WIDTH, PPO__QKV, PPO__ALL, PPO__IF(qkv_bias)),
    PPO__LAYER("attn.q_norm", q_norm, q_norm, PPO__ONE, PPO__Q_NORM, PPO__IF(qk_norm), PPO__NEVER),
    PPO__LAYER("attn.k_norm", k_norm, k_norm, PPO__ONE, PPO__K_NORM, PPO__IF(qk_norm), PPO__NEVER),
    PPO__LAYER("attn.c_proj", proj_weight, proj_bias, PPO__HEADS, PPO__WIDTH, PPO__ALL, PPO__IF(proj_bias)),
    PPO__LAYER("ln_3", norm_weight[2], norm_bias[2], PPO__ONE, PPO__WIDTH, PPO__IF(post_norm), PPO__IF(norm)),
    PPO__LAYER("ln_2", norm_weight[1], norm_bias[1], PPO__ONE, PPO__WIDTH, PPO__IF(pre_norm), PPO__IF(norm)),
    PPO__LAYER("mlp.c_fc", up_weight, up_bias, PPO__WIDTH, PPO__UP, PPO__ALL, PPO__IF(ffn_bias)),
    PPO__LAYER("mlp.c_proj", down_weight, down_bias, PPO__HIDDEN, PPO__WIDTH, PPO__ALL, PPO__IF(ffn_bias)),
    PPO__LAYER("ln_4", norm_weight[3], norm_bias[3], PPO__ONE, PPO__WIDTH, PPO__IF(post_norm), PPO__IF(norm)),
};
enum { PPO__LM_LAYERS = sizeof ppo__lm_layers / sizeof *ppo__lm_layers };

static int ppo__lm_has(const ppo_lm_config *c, size_t what) {
    if (what == PPO__ALL || what == PPO__NEVER) return what == PPO__ALL;
    return *(const int *)(const void *)((const char *)c + what) != 0;
}

/* ppo__lm_visit() calls a function like this for each parameter of a model. Its initial numbers are random
   with standard deviation x, or all x. */
typedef ppo_status (*ppo__lm_visit_fn)(void *user, ppo_tensor **tensor, const char *name, int rows, int cols,
                                       int random, float x);

static ppo_status ppo__visit_score(ppo_lm *lm, ppo__lm_visit_fn visit, void *user) {
    if (!lm->full.score) return PPO_OK;
    ppo_status status = visit(user, &lm->score_weight, "score.weight", lm->full.width, 1, 0, 0);
    return status ? status : visit(user, &lm->score_bias, "score.bias", 1, 1, 0, 0);
}

static ppo_status ppo__lm_visit(ppo_lm *lm, ppo__lm_visit_fn visit, void *user) {
    const ppo_lm_config *c = &lm->full;
    const int w = c->width, heads = c->heads * c->head_size, kv = c->kv_heads * c->head_size;
    const int up = c->hidden * (c->glu ? 2 : 1), whole = c->qk_norm == 2, size = c->head_size;
    const int sizes[] = {1, w, heads + 2 * kv, heads, whole ? heads : size, whole ? kv : size, up, c->hidden};
    const float std = 0.02f, last = std / sqrtf(2 * (float)c->layers);
    ppo_status status = visit(user, &lm->token_embedding, "transformer.wte.weight", c->vocab, w, 1, std);
    if (!status && c->positions == PPO_LEARNED_POSITIONS)
        status = visit(user, &lm->position_embedding, "transformer.wpe.weight", c->context, w, 1, std);
    for (int i = 0; i < c->layers * PPO__LM_LAYERS && !status; ++i) {
        int b = i / PPO__LM_LAYERS, k = i % PPO__LM_LAYERS, random = ppo__lm_layers[k].in != PPO__ONE;
        int in = sizes[ppo__lm_layers[k].in], out = sizes[ppo__lm_layers[k].out];
        int ends_branch = ppo__lm_layers[k].in == PPO__HEADS || ppo__lm_layers[k].in == PPO__HIDDEN;
        char name[96], *block = (char *)&lm->block[b];
        ppo_tensor **weight = (ppo_tensor **)(void *)(block + ppo__lm_layers[k].weight);
        ppo_tensor **bias = (ppo_tensor **)(void *)(block + ppo__lm_layers[k].bias);
        float x = !random ? 1 : ends_branch ? last : std;
        if (!ppo__lm_has(c, ppo__lm_layers[k].exists)) continue;
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
    return status ? status : ppo__visit_score(lm, visit, user);
}

/* Adds parameters to params; NULL: counts the floats that they need. */
typedef struct ppo__lm_adding {
    ppo_params *params;
    ppo_rng *rng; /* NULL: the numbers will be overwritten */
    size_t floats;
} ppo__lm_adding;

static ppo_status ppo__lm_add(void *user, ppo_tensor **tensor, const char *name, int rows, int cols,
                              int random, float x) {
    ppo__lm_adding *adding = (ppo__lm_adding *)user;
    const size_t size = ppo__padded(rows, cols);
    if (!adding->params) {
        adding->floats = size < SIZE_MAX - adding->floats ? adding->floats + size : SIZE_MAX;
        return PPO_OK;
    }
    *tensor = ppo_params_add(adding->params, name, rows, cols);
    if (!*tensor) return ppo__failed;
    if (!adding->rng || x == 0) return PPO_OK;
    if (random) ppo__fill_normal(*tensor, x, adding->rng);
    for (size_t i = 0; i < ppo__size(*tensor) && !random; ++i) (*tensor)->data[i] = x;
    return PPO_OK;
}

PPO_DEF void ppo_lm_free(ppo_lm *lm) {
    if (!lm) return;
    ppo_params_free(lm->params);
    if (!lm->base) ppo__free(lm->rotary);
    ppo__free(lm->adapter);
    ppo__free(lm);
}

/* Makes the parameters that ppo__lm_visit(), or that of LoRA, lists. random 0: they will be overwritten. */
static ppo_status ppo__lm_fill(ppo_lm *lm, ppo_status (*visit_all)(ppo_lm *, ppo__lm_visit_fn, void *),
                               uint64_t seed, int random) {
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_INIT, 0);
    ppo__lm_adding all = {NULL, random ? &rng : NULL, 0};
    ppo_status status = PPO_OK;
    for (int pass = 0; pass < 2 && !status; ++pass) {
        status = visit_all(lm, ppo__lm_add, &all);
        if (status || pass) break;
        if (ppo_params_create(&all.params)) return ppo__failed;
        lm->params = all.params;
        lm->params->frozen = !random;
        lm->params->decay_matrices = 1;
        status = ppo__params_reserve(lm->params, all.floats);
    }
    return status;
}

/* random 0: with weights that will be overwritten. */
static ppo_status ppo__lm_make(const ppo_lm_config *config, int random, ppo_lm **lm) {
    ppo_lm *made = (ppo_lm *)ppo__alloc(sizeof *made);
    if (!made) return PPO_ERROR_MEMORY;
    const ppo_lm_config *c = &made->full;
    made->config = *config;
    ppo_status status = ppo__lm_complete(made);
    if (!status) status = ppo__lm_fill(made, ppo__lm_visit, c->seed, random);
    if (!status && c->positions == PPO_ROTARY) {
        const int kept = c->context < PPO__KEPT_ANGLES ? c->context : (int)PPO__KEPT_ANGLES;
        const int tables = c->window_theta > 0 ? 2 : 1, all = kept * tables; /* of a position side by side */
        made->rotary = (float *)ppo__alloc_uncleared(ppo__at(all, c->rotary_size) * sizeof(float));
        if (!made->rotary) status = PPO_ERROR_MEMORY;
        for (int i = 0; i < all && !status; ++i)
            ppo__rotary_angles(c, i % tables, i / tables, made->rotary + ppo__at(i, c->rotary_size));
    }
    if (status) ppo_lm_free(made);
    else *lm = made;
    return status;
}

PPO_DEF ppo_status ppo_lm_create(const ppo_lm_config *config, ppo_lm **lm) {
    if (lm) *lm = NULL;
    if (!PPO__GIVEN("ppo_lm_create", config, lm)) return PPO_ERROR_ARGUMENT;
    return ppo__lm_make(config, 1, lm);
}

/* The score is the last parameter, so that the others have the same offsets in both models. */
PPO_DEF ppo_status ppo_lm_copy(const ppo_lm *lm, int score, ppo_lm **copy) {
    if (copy) *copy = NULL;
    if (!PPO__GIVEN("ppo_lm_copy", lm, copy)) return PPO_ERROR_ARGUMENT;
    ppo_lm_config full = lm->full; /* its context was not lowered */
    full.score |= score != 0;
    ppo_status status = ppo__params_fetch(lm->params);
    if (!status) status = lm->base ? ppo__in_hub.lm_twin(lm, full.score, copy) : ppo__lm_make(&full, 0, copy);
    if (status) return status;
    if (lm->params->packed) ppo__widen(lm->params->packed, lm->params->count, (*copy)->params->data);
    else memcpy((*copy)->params->data, lm->params->data, lm->params->count * sizeof(float));
    (*copy)->config = lm->config;
    (*copy)->config.score = full.score;
    return PPO_OK;
}

/* -- forward -- */

/* The length of prompt s. If the prompts are not marked, it is the whole sequence. */
static int ppo__prompt_length(const ppo_tokens *prompts, int s) {
    return prompts->prompt ? prompts->prompt[s] : prompts->start[s + 1] - prompts->start[s];
}

/* Checks sequences of the model's tokens. Each must fit the context; with PPO__BEFORE_MORE, its prompt
   must leave room in the context; with PPO__ANY_LENGTH, only windows of it are used. */
enum { PPO__IN_CONTEXT, PPO__BEFORE_MORE, PPO__ANY_LENGTH };
static ppo_status ppo__check_sequences(const ppo_lm *lm, const ppo_tokens *tokens, int what) {
    const int context = lm->config.context, vocab = lm->config.vocab, prompts = what == PPO__BEFORE_MORE;
    if (!tokens) return ppo__refuse("the tokens are NULL");
    if (tokens->count < 1) return ppo__refuse("there are %d sequences of tokens", tokens->count);
    if (!tokens->start || !tokens->token)
        return ppo__refuse("start or token of %d sequences is NULL", tokens->count);
    if (tokens->start[0] != 0) return ppo__refuse("start[0] is %d, must be 0", tokens->start[0]);
    for (int s = 0; s < tokens->count; ++s) {
        const int *token = tokens->token + tokens->start[s];
        int64_t all = (int64_t)tokens->start[s + 1] - tokens->start[s];
        int64_t n = prompts && tokens->prompt ? tokens->prompt[s] : all;
        if (prompts && (n < 1 || n > all))
            return ppo__refuse("prompt %d has %lld of %lld tokens", s, (long long)n, (long long)all);
        if (prompts && n >= context)
            return ppo__refuse("prompt %d has %lld tokens: no room is left in %d", s, (long long)n, context);
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

/* factor x; a factor of 1 costs nothing. */
static ppo_tensor *ppo__tape_times(ppo_tape *tape, ppo_tensor *x, float factor) {
    return factor < 1 || factor > 1 ? ppo_tape_scale(tape, x, factor, 0) : x;
}

/* The attention of block k: from queries, keys and values of the rows to (rows, heads head_size). */
typedef ppo_tensor *(*ppo__attend_fn)(ppo_tape *tape, const ppo_lm *lm, int k, ppo_tensor *qkv,
                                      const void *user);

static ppo_tensor *ppo__lm_norm(ppo_tape *tape, const ppo_lm *lm, ppo_tensor *x, ppo_tensor *weight,
                                ppo_tensor *bias) {
    const int layer = lm->config.norm == PPO_LAYER_NORM;
    if (!weight) return x;
    return ppo__tape_norm(tape, layer ? "layer_norm" : "rms_norm", x, weight, bias, layer,
                          lm->config.norm_eps);
}

/* f(x W + b) of one of the four layers of a block. */
enum { PPO__LAYER_QKV, PPO__LAYER_PROJ, PPO__LAYER_UP, PPO__LAYER_DOWN };
static ppo_tensor *ppo__lm_linear(ppo_tape *tape, const ppo_lm_block *b, int layer, ppo_tensor *x,
                                  ppo_activation activation) {
    ppo_tensor *const weight[] = {b->qkv_weight, b->proj_weight, b->up_weight, b->down_weight};
    ppo_tensor *const bias[] = {b->qkv_bias, b->proj_bias, b->up_bias, b->down_bias};
    return ppo_tape_linear(tape, x, weight[layer], bias[layer], activation);
}

/* The same, with LoRA if the model has that. */
static ppo_tensor *ppo__lm_layer(ppo_tape *tape, const ppo_lm *lm, int block, int layer, ppo_tensor *x,
                                 ppo_activation activation) {
    return lm->base ? ppo__in_hub.lm_layer(tape, lm, block, layer, x, activation)
                    : ppo__lm_linear(tape, &lm->block[block], layer, x, activation);
}

/* What a block needs beside its input. */
typedef struct ppo__lm_block_args {
    const ppo_lm *lm;
    int k;
    ppo_tensor *angle; /* of the rows' positions, or NULL */
    ppo__attend_fn attend;
    const void *user;
} ppo__lm_block_args;

/* x (rows, width) += attention, then += feed-forward. */
static ppo_tensor *ppo__lm_block(ppo_tape *tape, ppo_tensor *x, const void *user) {
    const ppo__lm_block_args *args = (const ppo__lm_block_args *)user;
    const ppo_lm *lm = args->lm;
    const ppo_lm_config *c = &lm->full;
    const ppo_lm_block *b = &lm->block[args->k];
    ppo_tensor *y = ppo__lm_norm(tape, lm, x, b->norm_weight[0], b->norm_bias[0]);
    y = ppo__lm_layer(tape, lm, args->k, PPO__LAYER_QKV, y, PPO_IDENTITY);
    if (c->qk_norm) y = ppo__in_hub.qk_norm(tape, lm, args->k, y);
    if (args->angle) y = ppo_tape_rotary(tape, y, args->angle, c->heads + c->kv_heads, c->head_size);
    y = args->attend(tape, lm, args->k, y, args->user);
    y = ppo__lm_layer(tape, lm, args->k, PPO__LAYER_PROJ, y, PPO_IDENTITY);
    y = ppo__lm_norm(tape, lm, y, b->norm_weight[2], b->norm_bias[2]);

    ppo_tensor *const attended = ppo_tape_add(tape, x, ppo__tape_times(tape, y, c->residual_scale));
    y = ppo__lm_norm(tape, lm, c->parallel ? x : attended, b->norm_weight[1], b->norm_bias[1]);
    if (c->glu || lm->base) {
        y = ppo__lm_layer(tape, lm, args->k, PPO__LAYER_UP, y, c->glu ? PPO_IDENTITY : c->activation);
        if (c->glu) y = ppo_tape_glu(tape, y, c->activation);
        y = ppo__lm_layer(tape, lm, args->k, PPO__LAYER_DOWN, y, PPO_IDENTITY);
    } else { /* both layers in one operation */
        ppo_tensor *const weight[] = {b->up_weight, b->down_weight};
        ppo_tensor *const bias[] = {b->up_bias, b->down_bias};
        const int activation[] = {c->activation, PPO_IDENTITY};
        y = ppo__tape_chain(tape, "linear", y, weight, bias, activation, 2);
    }
    y = ppo__lm_norm(tape, lm, y, b->norm_weight[3], b->norm_bias[3]);
    return ppo_tape_add(tape, attended, ppo__tape_times(tape, y, c->residual_scale));
}

/* The model without its heads: from tokens [rows] at positions [rows] of any sequences to (rows, width). */
static ppo_tensor *ppo__lm_rows(ppo_tape *tape, const ppo_lm *lm, const int *token, const int *position,
                                int rows, ppo__attend_fn attend, const void *user) {
    const ppo_lm_config *c = &lm->full;
    ppo_tensor *x = ppo_tape_embedding(tape, lm->token_embedding, token, rows), *angle[2] = {NULL, NULL};
    x = ppo__tape_times(tape, x, c->embedding_scale);
    const int r = c->rotary_size, tables = c->positions != PPO_ROTARY ? 0 : c->window_theta > 0 ? 2 : 1;
    for (int t = 0; t < tables; ++t) { /* the second: of layers with the window_theta */
        float *angles = (float *)ppo__tape_take(tape, ppo__at(rows, r), sizeof *angles), *row = angles;
        for (int i = 0; i < rows && angles; ++i, row += r) {
            if (position[i] >= PPO__KEPT_ANGLES) ppo__rotary_angles(c, t, position[i], row);
            else memcpy(row, lm->rotary + ppo__at(position[i] * tables + t, r), r * sizeof *row);
        }
        angle[t] = ppo_tape_constant(tape, angles, rows, r);
    }
    if (!tables) x = ppo_tape_add(tape, x, ppo_tape_embedding(tape, lm->position_embedding, position, rows));
    ppo__lm_block_args *args = (ppo__lm_block_args *)ppo__tape_take(tape, c->layers, sizeof *args);
    for (int k = 0; k < c->layers && x && args; ++k) {
        const int t = tables > 1 && ppo__lm_attention(c, k).window, none = c->nope_layers >> k & 1;
        const ppo__lm_block_args block = {lm, k, none ? NULL : angle[t], attend, user};
        args[k] = block;
        x = ppo__for_large.recompute ? ppo__for_large.recompute(tape, ppo__lm_block, x, &args[k])
                                     : ppo__lm_block(tape, x, &args[k]);
    }
    return ppo__lm_norm(tape, lm, x, lm->norm_weight, lm->norm_bias);
}

/* Brings the model's numbers, and those of its base, to where a tape computes. */
static ppo_status ppo__lm_place(const ppo_lm *lm, ppo__device *device) {
    ppo_status status = ppo__params_place(lm->params, device);
    return status || !lm->base ? status : ppo__params_place(lm->base->params, device);
}

static ppo_tensor *ppo__attend_whole(ppo_tape *tape, const ppo_lm *lm, int k, ppo_tensor *qkv,
                                     const void *user) {
    const ppo_tokens *tokens = (const ppo_tokens *)user;
    const ppo_attention attention = ppo__lm_attention(&lm->full, k);
    return ppo_tape_attention(tape, qkv, &attention, tokens->start, tokens->count);
}

PPO_DEF ppo_tensor *ppo_lm_forward(ppo_tape *tape, const ppo_lm *lm, const ppo_tokens *tokens) {
    if (ppo_tape_status(tape)) return NULL;
    int given = PPO__GIVEN("ppo_lm_forward", lm);
    ppo_status status = given ? ppo__check_sequences(lm, tokens, PPO__IN_CONTEXT) : PPO_ERROR_ARGUMENT;
    if (!status) status = ppo__lm_place(lm, tape->device);
    if (status) return (ppo_tensor *)ppo__tape_fail(tape, status);
    int rows = tokens->start[tokens->count];
    int *position = (int *)ppo__tape_take(tape, rows, sizeof *position);
    if (!position) return NULL;
    for (int s = 0; s < tokens->count; ++s)
        for (int i = tokens->start[s]; i < tokens->start[s + 1]; ++i) position[i] = i - tokens->start[s];
    return ppo__lm_rows(tape, lm, tokens->token, position, rows, ppo__attend_whole, tokens);
}

PPO_DEF ppo_tensor *ppo_lm_logits(ppo_tape *tape, const ppo_lm *lm, ppo_tensor *x) {
    return ppo_tape_matmul_transposed(tape, lm ? ppo__tape_times(tape, x, 1 / lm->full.logits_scaling) : x,
                                      lm ? lm->head : NULL);
}

static ppo_status ppo__check_score(const char *function, const ppo_lm *lm) {
    return lm->score_weight ? PPO_OK : ppo__refuse("%s: the model has no score", function);
}

PPO_DEF ppo_tensor *ppo_lm_score(ppo_tape *tape, const ppo_lm *lm, ppo_tensor *x) {
    if (x && lm && !lm->score_weight) return PPO__TAPE_REFUSE(tape, "ppo_lm_score: the model has no score");
    return ppo__tape_layer(tape, "ppo_lm_score", x, lm ? lm->score_weight : NULL, lm ? lm->score_bias : NULL,
                           PPO_IDENTITY);
}

/* --------------------------------------------------------------------------------------------------------
   @@ 19 Models in files

   A file of our own has the parameters under their own names; sizes follow from the arrays, except the number
   of heads. Texts repeat them for other programs, and must not contradict the arrays; other settings are
   texts, too. Folders are read and written by ppo_hub.h.
   -------------------------------------------------------------------------------------------------------- */

/* Sizes that other programs read, and the names under which they do. */
enum { PPO__LM_TEXTS = 5 };
static const struct {
    const char *field, *text;
} ppo__lm_texts[PPO__LM_TEXTS] = {
    {"vocab", "vocab_size"}, {"context", "n_positions"}, {"width", "n_embd"},
    {"layers", "n_layer"},   {"heads", "n_head"},
};

PPO_DEF ppo_status ppo_lm_put(const ppo_lm *lm, ppo_file *file) {
    const ppo_lm_config usual = ppo_lm_config_default();
    if (!PPO__GIVEN("ppo_lm_put", lm, file)) return PPO_ERROR_ARGUMENT;
    if (lm->base) return ppo__refuse("ppo_lm_put: the model has LoRA: ppo_lm_merge() it first");
    if (lm->params->packed) return ppo__refuse("ppo_lm_put: the model is packed: ppo_lm_copy() it first");
    if (ppo_file_find(file, "transformer.wte.weight"))
        return ppo__refuse("ppo_lm_put: the file has a language model already");
    ppo_lm_config own = lm->config;
    own.context = lm->full.context; /* the other may have been lowered; the file has all positions */
    if (ppo__params_fetch(lm->params) || ppo_file_set_text(file, "format", "pt")) /* transformers needs it */
        return ppo__failed;
    for (int i = 0; i < ppo__lm_settings.count; ++i) {
        const char *field = ppo__lm_fields[i].name;
        char is[32], other[32], name[40];
        int k = 0;
        while (k < PPO__LM_TEXTS && strcmp(field, ppo__lm_texts[k].field)) ++k;
        const int known = k < PPO__LM_TEXTS; /* always written */
        snprintf(name, sizeof name, "%s%s", known ? "" : "lm.", known ? ppo__lm_texts[k].text : field);
        if (ppo_settings_get(&ppo__lm_settings, &own, field, is, sizeof is) ||
            ppo_settings_get(&ppo__lm_settings, &usual, field, other, sizeof other))
            return ppo__failed;
        if (!known && (!strcmp(is, other) || !strcmp(field, "score") || !strcmp(field, "seed"))) continue;
        if (ppo_file_set_text(file, name, is)) return ppo__failed;
    }
    return ppo__serialize_params(file, PPO__SAVE, "", lm->params, lm->params->data, 1);
}

PPO_DEF ppo_status ppo_lm_save_file(const ppo_lm *lm, const ppo_tokenizer *tokenizer, const char *path) {
    ppo_file *file = NULL;
    if (!PPO__GIVEN("ppo_lm_save_file", lm, path)) return PPO_ERROR_ARGUMENT;
    if (tokenizer && tokenizer->vocab > lm->config.vocab)
        return ppo__refuse("ppo_lm_save_file: a tokenizer of %d tokens for a model of %d", tokenizer->vocab,
                           lm->config.vocab);
    ppo_status status = ppo_file_create(&file);
    if (!status) status = ppo_lm_put(lm, file);
    if (!status && tokenizer) status = ppo_tokenizer_put(tokenizer, file);
    if (!status) status = ppo_file_write(file, path);
    return ppo_file_free(file), status;
}

/* A dimension of a matrix in the file, 0 if there is no such matrix. */
static int ppo__lm_size(const ppo_file *file, const char *name, int dimension) {
    const ppo_array *array = ppo_file_find(file, name);
    return array && array->rank == 2 && array->shape[dimension] <= INT_MAX ? (int)array->shape[dimension] : 0;
}

/* The settings, from the sizes of arrays and from texts, which must not contradict each other. */
static ppo_status ppo__get_lm_config(const ppo_file *file, ppo_lm *likely) {
    ppo_lm_config *config = &likely->config;
    const char *heads = ppo_file_text(file, "n_head"), *context = ppo_file_text(file, "n_positions"),
               *rest = "";
    char name[96];
    *config = ppo_lm_config_default();
    for (int i = 0; i < ppo__lm_settings.count; ++i) {
        const char *field = ppo__lm_fields[i].name, *text = ppo__setting_in(file, "lm.", field);
        if (text && ppo_settings_set(&ppo__lm_settings, config, field, text)) return ppo__file_blame(file);
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
    if (ppo__lm_complete(likely)) return ppo__file_fail(file->path, "corrupt file: %s", ppo__error);
    for (int i = 0; i < ppo_file_count(file); ++i) { /* a later block: an array of this one is missing */
        const char *array = ppo_file_at(file, i)->name, *end;
        if (strncmp(array, "transformer.h.", 14) == 0 && /* -1, no number, is none of its blocks, either */
            (uint64_t)ppo__parse_digits(array + 14, &end) >= (uint64_t)config->layers)
            return ppo__file_fail(file->path, "corrupt file: %.40s is there, but not %s", array, name);
    }
    for (int i = 0; i < PPO__LM_TEXTS; ++i) {
        const char *text = ppo_file_text(file, ppo__lm_texts[i].text);
        ppo_settings_get(&ppo__lm_settings, config, ppo__lm_texts[i].field, name, sizeof name);
        if (text && strcmp(text, name))
            return ppo__file_fail(file->path, "corrupt file: %s is \"%.20s\", but its arrays say %s",
                                  ppo__lm_texts[i].text, text, name);
    }
    return PPO_OK;
}

/* Is a parameter in the file? All must be there before a model of these sizes is created. */
static ppo_status ppo__lm_expect(void *user, ppo_tensor **tensor, const char *name, int rows, int cols,
                                 int random, float x) {
    const int64_t shape[2] = {rows, cols};
    const ppo_array *array;
    return ppo__file_expect((const ppo_file *)user, name, PPO_F32, shape + (rows == 1), rows == 1 ? 1 : 2,
                            &array);
}

PPO_DEF ppo_status ppo_lm_get(const ppo_file *file, ppo_lm **lm) {
    ppo_lm likely;
    ppo_lm *made = NULL;
    if (lm) *lm = NULL;
    if (!PPO__GIVEN("ppo_lm_get", file, lm)) return PPO_ERROR_ARGUMENT;
    ppo_status status = ppo__get_lm_config(file, &likely);
    if (!status) status = ppo__lm_visit(&likely, ppo__lm_expect, (void *)file);
    if (!status) status = ppo__lm_make(&likely.config, 0, &made);
    if (!status)
        status = ppo__serialize_params((ppo_file *)file, PPO__LOAD, "", made->params, made->params->data, 1);
    if (status) return ppo_lm_free(made), status;
    return *lm = made, PPO_OK;
}

/* Reads a model's file. */
static ppo_status ppo__lm_load_file(const char *path, ppo_lm **lm) {
    ppo_file *file = NULL;
    ppo_status status = ppo__file_open(path, &file);
    if (!status) status = ppo_lm_get(file, lm);
    return ppo_file_free(file), status;
}

PPO_DEF ppo_status ppo_lm_load(const char *path, ppo_lm **lm) {
    if (lm) *lm = NULL;
    if (!PPO__GIVEN("ppo_lm_load", path, lm)) return PPO_ERROR_ARGUMENT;
    if (ppo__in_hub.lm_load) return ppo__in_hub.lm_load(path, lm);
    return ppo__is_special(path) ? ppo__needs_hub(path) : ppo__lm_load_file(path, lm);
}

/* --------------------------------------------------------------------------------------------------------
   @@ 20 Sampling

   A slot holds a sequence while it is sampled, and caches the keys and values of its tokens. ppo_generate(),
   at the end, repeats three steps until no sequence is left:
       ppo__list_rows()    gives free slots to waiting prompts; lists the tokens that the model has not seen
       ppo__draw_tokens()  runs the model on these rows, and draws the next token of each slot's sequence
       ppo__sample_step()  appends it, and calls the watch and the tool
   After a sequence, its keys and values stay: the next sequence in the slot uses those of the tokens that
   both begin with. The arithmetic of a row is that of training (section 18), so the bits are the same.

   To add a sampling rule: a field of ppo_sampling, its row in PPO__SAMPLING_ROWS, its lines in
   ppo__probabilities() (and in the sampler of ppo_cuda.cuh, which is tested against it).
   -------------------------------------------------------------------------------------------------------- */

/* Methods beside PPO and GRPO, by ppo_methods.h. */
struct ppo__slot_sampler;
typedef struct ppo__methods {
    /* Settings of tool and watch; and their calls for the sequence in slot k, to which a tool's answer is added. */
    ppo_status (*check_tool)(const ppo_sampling *sampling, int vocab);
    ppo_status (*call_watch)(ppo_generator *g, const ppo_sampling *sampling, int k);
    ppo_status (*call_tool)(ppo_generator *g, const ppo_sampling *sampling, int k);
    /* Repetition penalty: the logits [vocab] of the i-th slot that draws a token, with it, in scratch memory. */
    const float *(*penalize)(const struct ppo__slot_sampler *s, const ppo_sampling *sampling, int i,
                             const float *logits);
    /* DPO, KTO: fills ref_logp of all pairs; the loss of the pairs item[0], item[1], ... from their sums of logp. */
    ppo_status (*dpo_begin)(ppo__fit *fit, const ppo_lm *reference);
    ppo_tensor *(*dpo_loss)(ppo_tape *tape, ppo_tensor *const logp[2], const int *item, const ppo__fit *fit);
    /* Importance sampling: weights the advantages by the ratios to the policy that sampled. */
    ppo_status (*weigh)(ppo_rlhf *r, const ppo_samples *samples);
    /* After every reference_every iterations, the policy becomes the reference. */
    ppo_status (*renew_reference)(ppo_rlhf *r);
    /* Replaces prompts whose samples all have the same score. */
    ppo_status (*refill)(ppo_rlhf *r, ppo_rng *rng, int64_t *next, ppo_samples *samples);
    /* Log-probabilities that have the ratio of their sequence; the exact KL of tokens to a reference. */
    ppo_tensor *(*sequence_ratio)(ppo_tape *tape, ppo_tensor *logp, const ppo_tokens *batch,
                                  const float *old_logp, const float *share);
    ppo_tensor *(*exact_kl)(ppo_tape *tape, ppo_tensor *logits, const float *ref_logits, float temperature);
} ppo__methods;
PPO__COMPANION(ppo__methods, ppo__in_methods);

/* The settings of a ppo_sampling, for a struct that has one as `in`, such as `sampling.` (empty: is one). */
#define PPO__SAMPLING_ROWS(in)                                                                              \
    PPO__SETTING_IN(in, temperature, FLOAT, "1", 1e-30, 1e30, NULL, "logits are divided by it"),            \
        PPO__SETTING_IN(in, greedy, CHOICE, "no", 0, 1, "no|yes", "always the most likely token"),          \
        PPO__SETTING_IN(in, top_k, INT, "0", 0, INT_MAX, NULL, "only the k most likely tokens; 0: all"),    \
        PPO__SETTING_IN(in, top_p, FLOAT, "1", 1e-30, 1, NULL, "the most likely, up to this probability"),  \
        PPO__SETTING_IN(in, min_p, FLOAT, "0", 0, 1, NULL, "at least this times the largest probability"),  \
        PPO__SETTING_IN(in, repetition_penalty, FLOAT, "1", 1e-3, 1e3, NULL, "repeats are less likely"),    \
        PPO__SETTING_IN(in, eos, INT, "-1", -1, INT_MAX, NULL, "token that ends a sequence; -1: none"),     \
        PPO__SETTING_IN(in, max_new_tokens, INT, "0", 0, INT_MAX, NULL, "most sampled; 0: to the context"), \
        PPO__SETTING_IN(in, tool_token, INT, "-1", -1, INT_MAX, NULL, "token that calls the tool; -1: none")

#define PPO__OF ppo_sampling
PPO_DEF const ppo_settings *ppo_sampling_settings(void) {
    static const ppo_field fields[] = {PPO__SAMPLING_ROWS()};
    static const ppo_settings settings = {fields, sizeof fields / sizeof *fields, NULL, NULL, NULL};
    return &settings;
}
#undef PPO__OF

PPO_DEF ppo_sampling ppo_sampling_default(void) {
    ppo_sampling sampling;
    ppo__settings_default(ppo_sampling_settings(), &sampling, sizeof sampling);
    sampling.seed = 1;
    return sampling;
}

static int ppo__ends(const ppo_sampling *sampling, int token) {
    int k = 0;
    while (k < sampling->stop_token_count && sampling->stop_tokens[k] != token) ++k;
    return token == sampling->eos || k < sampling->stop_token_count;
}

/* Can a sequence end before it is cut off? */
static int ppo__may_end(const ppo_sampling *sampling) {
    return sampling->eos >= 0 || sampling->stop_token_count > 0 || sampling->watch != NULL;
}

/* The most tokens of a sequence whose prompt has n. */
static int ppo__longest(const ppo_sampling *sampling, int context, int n) {
    return sampling->max_new_tokens && sampling->max_new_tokens < context - n ? n + sampling->max_new_tokens
                                                                              : context;
}

static int ppo__penalizes(const ppo_sampling *s) { return fabsf(s->repetition_penalty - 1) > 0; }

static ppo_status ppo__check_sampling(const ppo_sampling *sampling, int vocab) {
    ppo_status status = ppo__settings_check(ppo_sampling_settings(), sampling);
    if (status) return status;
    if (sampling->eos >= vocab)
        return ppo__refuse("eos is %d, outside 0 .. %d (-1: none)", sampling->eos, vocab - 1);
    if (sampling->stop_token_count < 0 || (sampling->stop_token_count > 0 && !sampling->stop_tokens))
        return ppo__refuse("stop_token_count is %d%s", sampling->stop_token_count,
                           sampling->stop_tokens ? "" : ", but stop_tokens is NULL");
    for (int k = 0; k < sampling->stop_token_count; ++k)
        if (sampling->stop_tokens[k] < 0 || sampling->stop_tokens[k] >= vocab)
            return ppo__refuse("stop_tokens[%d] is %d, outside 0 .. %d", k, sampling->stop_tokens[k],
                               vocab - 1);
    const int plain = !ppo__penalizes(sampling);
    if (plain && sampling->tool_token < 0 && !sampling->tool && !sampling->watch) return PPO_OK;
    return ppo__in_methods.check_tool ? ppo__in_methods.check_tool(sampling, vocab)
                                      : ppo__needs("repetition_penalty, a tool or a watch", "ppo_methods.h");
}

static int ppo__descending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* ppo_sampling_probabilities() without checking the settings. */
static ppo_status ppo__probabilities(const ppo_sampling *sampling, const float *logits, int vocab, float *p,
                                     float *sorted) {
    memcpy(p, logits, vocab * sizeof(float));
    ppo__k()->softmax(1 / sampling->temperature, p, vocab);
    if (!(p[0] >= 0)) return ppo_fail(PPO_ERROR_NUMERIC, "a logit is NaN or infinite"); /* then all are NaN */
    if (sampling->greedy) {
        memset(p, 0, vocab * sizeof(float));
        p[ppo_categorical_mode(logits, vocab)] = 1;
    } else if (sampling->top_k || sampling->top_p < 1 || sampling->min_p > 0) {
        int kept = sampling->top_k && sampling->top_k < vocab ? sampling->top_k : vocab, last = 0;
        double total = 0;
        memcpy(sorted, p, vocab * sizeof(float));
        qsort(sorted, (size_t)vocab, sizeof(float), ppo__descending);
        while (kept < vocab && sorted[kept] == sorted[kept - 1]) ++kept;
        for (int j = 0; j < kept; ++j) total += sorted[j];
        /* keeps a token while the more likely ones have less than top_p */
        for (double sum = sorted[0]; last + 1 < kept && sum < sampling->top_p * total;) sum += sorted[++last];
        total = 0;
        for (int j = 0; j < vocab; ++j) {
            if (p[j] < sorted[last] || p[j] < sampling->min_p * sorted[0]) p[j] = 0;
            total += p[j];
        }
        ppo__k()->scale((float)(1 / total), p, (size_t)vocab);
    }
    return PPO_OK;
}

PPO_DEF ppo_status ppo_sampling_probabilities(const ppo_sampling *sampling, const float *logits, int vocab,
                                              float *p, float *scratch) {
    if (!PPO__GIVEN("ppo_sampling_probabilities", sampling, logits, p, scratch)) return PPO_ERROR_ARGUMENT;
    if (vocab < 1) return ppo__refuse("ppo_sampling_probabilities: vocab is %d, must be above 0", vocab);
    ppo_status status = ppo__check_sampling(sampling, vocab);
    return status ? status : ppo__probabilities(sampling, logits, vocab, p, scratch);
}

/* Draws a token by its probability; if rounding leaves their sum below the threshold, the last possible one. */
static int ppo__draw(const float *p, int vocab, ppo_rng *rng) {
    float sum = 0, threshold = ppo_rng_uniform(rng);
    int last = 0;
    for (int j = 0; j < vocab; ++j) {
        sum += p[j];
        if (threshold < sum) return j;
        if (p[j] > 0) last = j;
    }
    return last;
}

/* Sampling as an operation, so that it runs where the tape computes. From logits (n, vocab): tokens (n,
   1), as the bytes of ints, and their log-probabilities (n, 1), NaN where the logits are not finite. Each
   row draws one random number. */
typedef struct ppo__sample_args {
    const ppo_sampling *sampling;
    const ppo_rng *rng; /* [n] */
    float *p;           /* scratch [3 vocab] */
    const struct ppo__slot_sampler *sampler;
} ppo__sample_args;

static ppo_status ppo__sample_forward(ppo_node *node) {
    const ppo__sample_args *args = (const ppo__sample_args *)node->args;
    const int vocab = node->in[0]->cols, plain = !ppo__penalizes(args->sampling);
    for (int i = 0; i < node->in[0]->rows; ++i) {
        const float *row = node->in[0]->data + ppo__at(i, vocab);
        const float *now = plain ? row : ppo__in_methods.penalize(args->sampler, args->sampling, i, row);
        float *logp = &node->out[1]->data[i];
        ppo_rng rng = args->rng[i];
        ppo_status status = ppo__probabilities(args->sampling, now, vocab, args->p, args->p + vocab);
        int token = status ? 0 : ppo__draw(args->p, vocab, &rng);
        memcpy(&node->out[0]->data[i], &token, sizeof token);
        if (!status) status = ppo_token_logp(row, &token, 1, vocab, args->sampling->temperature, logp, NULL);
        if (status) *logp = NAN;
    }
    return PPO_OK;
}

/* -- the generator -- */

/* Holds a sequence while it is sampled. */
typedef struct ppo__slot {
    int sequence;    /* -1: free */
    int length, end; /* tokens so far, and at most */
    int seen;        /* number of these tokens whose keys and values are cached */
    int *cached;     /* [context] the first `seen` are these tokens; they stay after the sequence */
    ppo_rng rng;
} ppo__slot;

/* The sequences of a call. */
typedef struct ppo__result {
    int *text;            /* (capacity, context) */
    float *logp;          /* (capacity, context) */
    unsigned char *given; /* (capacity, context) */
    int *length, *prompt; /* [capacity + 1], [capacity] */
    unsigned char *ended; /* [capacity] */
} ppo__result;

enum { PPO__KEY_PAGE = 64, PPO__MOST_SLOTS = 65536 };

/* With a large model, the threads share the work of each operation; with a small one, each thread takes whole
   sequences. The weights of the model's base count, too. */
enum { PPO__LARGE_LM = 1 << 22 };
static int ppo__is_large(const ppo_lm *lm) {
    size_t weights = 0;
    for (; lm; lm = lm->base) weights += lm->params->count;
    return weights > PPO__LARGE_LM;
}

/* Samples a part of the slots, or all of them, on one thread. */
typedef struct ppo__slot_sampler {
    ppo_generator *generator;
    ppo_tape *tape;
    int first, slots;
    /* [rows] what the model is run on: tokens, their positions, and their slots */
    int rows;
    int *row_token, *row_position, *row_slot;
    const int *device_position, *device_slot; /* positions and slots on a device */
    /* [asked] of each slot that draws a token: its last row, its random numbers, the token */
    int asked;
    int *last;
    ppo_rng *rng;
    int *drawn;
    float *drawn_logp;
    float *p;          /* [3 vocab] scratch */
    size_t reserved;   /* rows that the tape has memory for */
    ppo_status status; /* of a call */
    char error[PPO__ERROR_SIZE];
} ppo__slot_sampler;

struct ppo_generator {
    const ppo_lm *lm;
    int context; /* tokens of the longest sequence: the model's, or fewer */
    ppo__arena memory;
    int slots;
    ppo__slot *slot;
    /* For each block and slot: keys as pages of PPO__KEY_PAGE positions, each a matrix (width,
       PPO__KEY_PAGE) that a query is multiplied by; values (context, width). */
    size_t slot_keys, slot_values; /* floats */
    float *keys, *values;
    ppo__arena numbers; /* where the tapes compute: keys and values */

    ppo__slot_sampler *sampler; /* [samplers] the first has room for all slots, the others for their parts */
    int samplers, in_use;

    /* of a call */
    const ppo_sampling *sampling;
    int count;                /* sequences */
    volatile int32_t waiting; /* the next one that gets a slot; atomic */

    ppo__result results[2]; /* of this call, and of the previous one, which may be the prompts of this one */
    int capacity, turn;     /* sequences that there is room for; which result is this call's */
    ppo__arena results_memory;
    int busy;  /* 1: a tool, a watch or a reward function may be running */
    int first; /* in a group: the number of sequence 0 among those of all processes */
};

PPO_DEF void ppo_generator_free(ppo_generator *g) {
    if (!g) return;
    for (int k = 0; k < g->samplers; ++k) ppo_tape_free(g->sampler[k].tape);
    ppo__arena_free(&g->memory);
    ppo__arena_free(&g->numbers);
    ppo__arena_free(&g->results_memory);
    ppo__free(g);
}

static ppo_status ppo__slot_sampler_make(ppo_generator *g, ppo__slot_sampler *sampler, int slots) {
    const size_t rows = ppo__at(slots, g->context);
    sampler->generator = g;
    sampler->p = PPO__ARRAY(&g->memory, float, ppo__at(3, g->lm->config.vocab));
    sampler->row_token = PPO__ARRAY(&g->memory, int, rows);
    sampler->row_position = PPO__ARRAY(&g->memory, int, rows);
    sampler->row_slot = PPO__ARRAY(&g->memory, int, rows);
    sampler->last = PPO__ARRAY(&g->memory, int, slots);
    sampler->rng = PPO__ZEROS(&g->memory, ppo_rng, slots);
    sampler->drawn = PPO__ARRAY(&g->memory, int, slots);
    sampler->drawn_logp = PPO__ARRAY(&g->memory, float, slots);
    ppo_status status = ppo__arena_status(&g->memory);
    if (!status) status = ppo__tape_create_on(g->numbers.device, &sampler->tape);
    ppo_tape_record(sampler->tape, 0);
    return status;
}

/* context: tokens of the longest sequence. */
static ppo_status ppo__generator_make(const ppo_lm *lm, int slots, int context, ppo_generator **generator) {
    if (slots < 1 || slots > PPO__MOST_SLOTS)
        return ppo__refuse("ppo_generator_create: %d slots, outside 1 to %d", slots, PPO__MOST_SLOTS);
    /* A sampler for each thread, of four slots or more. With a large model there is one, and the threads
       share the work of its operations: they read the weights together. */
    const int one = ppo__is_large(lm) || ppo__device_in_use || slots < 8;
    const int samplers = one ? 1 : ppo__min_int(ppo__thread_count(), slots / 4);
    const size_t caches = ppo__at(slots, lm->config.layers);
    ppo_generator *g = (ppo_generator *)ppo__alloc(sizeof *g);
    if (!g) return PPO_ERROR_MEMORY;
    g->lm = lm;
    g->context = context;
    g->slots = slots;
    const int kv_width = lm->full.kv_heads * lm->full.head_size;
    g->slot_values = ppo__at(g->context, kv_width);
    g->slot_keys = ppo__at(ppo__divide_up(g->context, PPO__KEY_PAGE), PPO__KEY_PAGE) * kv_width;
    g->numbers.device = ppo__device_in_use;
    g->keys = (float *)ppo__arena_array(&g->numbers, caches, g->slot_keys * sizeof(float));
    g->values = (float *)ppo__arena_array(&g->numbers, caches, g->slot_values * sizeof(float));
    int *cached = PPO__ARRAY(&g->memory, int, ppo__at(slots, context));
    g->slot = PPO__ZEROS(&g->memory, ppo__slot, slots);
    g->sampler = PPO__ZEROS(&g->memory, ppo__slot_sampler, samplers);
    ppo_status status = ppo__arena_status(&g->numbers);
    if (!status) status = ppo__arena_status(&g->memory);
    for (g->samplers = 0; g->samplers < samplers && !status; ++g->samplers)
        status = ppo__slot_sampler_make(g, &g->sampler[g->samplers],
                                        g->samplers ? ppo__divide_up(slots, samplers) : slots);
    for (int k = 0; k < slots && !status; ++k) g->slot[k].cached = cached + ppo__at(k, g->context);
    if (status) ppo_generator_free(g);
    else *generator = g;
    return status;
}

PPO_DEF ppo_status ppo_generator_create(const ppo_lm *lm, int slots, ppo_generator **generator) {
    if (generator) *generator = NULL;
    if (!PPO__GIVEN("ppo_generator_create", lm, generator)) return PPO_ERROR_ARGUMENT;
    return ppo__generator_make(lm, slots, lm->config.context, generator);
}
PPO__COLD_END

/* -- attention of rows to the cached keys and values of their slots, and their own -- */

typedef struct ppo__cached_args {
    ppo__slot_sampler *sampler;
    int block;
} ppo__cached_args;

/* The cached keys of a row's slot, and its values. */
static float *ppo__cached(const ppo__cached_args *args, int row, float **values) {
    const ppo_generator *g = args->sampler->generator;
    const size_t cache = ppo__at(args->block, g->slots) + (size_t)args->sampler->row_slot[row];
    *values = g->values + cache * g->slot_values;
    return g->keys + cache * g->slot_keys;
}

/* Heads from .. to - 1 of the heads of all rows. For the heads of a row: first all scores, then all
   softmaxes, then all sums of values, so that consecutive computations do not wait for each other. */
static void ppo__cached_heads(void *user, int range, int from, int to) {
    const ppo__kernels *k = ppo__k();
    const ppo_node *node = (const ppo_node *)user;
    const ppo__cached_args *args = (const ppo__cached_args *)node->args;
    const ppo_generator *g = args->sampler->generator;
    const ppo_lm_config *c = &g->lm->full;
    const ppo_attention attention = ppo__lm_attention(c, args->block);
    const int size = c->head_size, queries = c->heads / c->kv_heads, width = c->kv_heads * size;
    float *scores = node->scratch + ppo__at(range, c->heads) * (size_t)g->context; /* (heads, seen) */
    for (int heads; from < to; from += heads) {
        const int row = from / c->heads, first = from % c->heads;
        const int seen = args->sampler->row_position[row] + 1,
                  begin = ppo__attend_first(&attention, seen - 1);
        const float *q = node->in[0]->data + ppo__at(row, node->in[0]->cols) + ppo__at(first, size);
        float *out = node->out[0]->data + ppo__at(row, node->out[0]->cols) + ppo__at(first, size);
        float *values, *keys = ppo__cached(args, row, &values);
        heads = ppo__min_int(to - from, c->heads - first);
        for (int i = 0; i < seen; i += PPO__KEY_PAGE, keys += ppo__at(PPO__KEY_PAGE, width)) {
            const int n = seen - i < PPO__KEY_PAGE ? seen - i : (int)PPO__KEY_PAGE;
            for (int h = 0; h < heads; ++h)
                k->gemm(1, n, size, q + ppo__at(h, size), size, 1,
                        keys + ppo__at((first + h) / queries * size, PPO__KEY_PAGE), PPO__KEY_PAGE, NULL, 0,
                        scores + ppo__at(h, seen) + i, n);
        }
        for (int h = 0; h < heads; ++h) {
            memset(scores + ppo__at(h, seen), 0, begin * sizeof(float));
            k->softmax(attention.scale, scores + ppo__at(h, seen) + begin, seen - begin);
        }
        for (int h = 0; h < heads; ++h)
            k->gemm(1, size, seen, scores + ppo__at(h, seen), seen, 1,
                    values + ppo__at((first + h) / queries, size), width, NULL, 0, out + ppo__at(h, size),
                    size);
    }
}

static ppo_status ppo__cached_forward(ppo_node *node) {
    const ppo__cached_args *args = (const ppo__cached_args *)node->args;
    const ppo_generator *g = args->sampler->generator;
    const ppo_lm_config *c = &g->lm->full;
    const ppo_tensor *qkv = node->in[0];
    const int width = c->kv_heads * c->head_size, out = c->heads * c->head_size;
    double work = 0; /* of a head */
    for (int i = 0; i < qkv->rows; ++i) {
        const int position = args->sampler->row_position[i], in_page = position % PPO__KEY_PAGE;
        const float *row = qkv->data + ppo__at(i, qkv->cols);
        float *values, *key = ppo__cached(args, i, &values) + ppo__at(position - in_page, width) + in_page;
        for (int j = 0; j < width; ++j) key[ppo__at(j, PPO__KEY_PAGE)] = row[out + j];
        memcpy(values + ppo__at(position, width), row + out + width, width * sizeof(float));
        work += 2.0 * position * c->head_size / qkv->rows;
    }
    const int heads = qkv->rows * c->heads;
    const size_t ranges = (size_t)ppo__range_count(heads, 1, work);
    node->scratch = ppo_tape_alloc(node->tape, ranges * ppo__at(c->heads, g->context));
    if (!node->scratch) return PPO_ERROR_MEMORY;
    ppo__parallel_for(heads, 1, work, ppo__cached_heads, node);
    return PPO_OK;
}

static ppo_tensor *ppo__attend_cached(ppo_tape *tape, const ppo_lm *lm, int k, ppo_tensor *qkv,
                                      const void *user) {
    static const ppo_op op = {"cached_attention", 1, ppo__cached_forward, NULL};
    ppo__cached_args args = {(ppo__slot_sampler *)user, k};
    const int width = lm->full.heads * lm->full.head_size;
    if (!qkv) return NULL;
    return ppo_tape_result(ppo_tape_apply(tape, &op, &qkv, 1, qkv->rows, width, &args, sizeof args));
}
PPO__COLD

/* -- prompts and results -- */

/* Adds prompt s, `times` times. */
static ppo_status ppo__add_prompt(ppo_tokens *to, const ppo_tokens *prompts, int s, int times) {
    int n = ppo__prompt_length(prompts, s);
    ppo_status status = PPO_OK;
    for (int i = 0; i < times && !status; ++i)
        status = ppo_tokens_add(to, prompts->token + prompts->start[s], n, n);
    return status;
}

/* Starts the sequences with their prompts. These may be the results of the previous call, whose memory
   lasts until they are copied. */
static ppo_status ppo__begin_results(ppo_generator *g, const ppo_tokens *prompts) {
    const int context = g->context, count = prompts->count;
    ppo__arena grown = {NULL, NULL, PPO_OK};
    ppo__result results[2] = {g->results[0], g->results[1]};
    for (int k = 0; k < 2 && count > g->capacity; ++k) {
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
    if (count <= g->capacity) return PPO_OK;
    memcpy(g->results, results, sizeof results);
    ppo__arena_free(&g->results_memory);
    g->results_memory = grown;
    g->capacity = count;
    return PPO_OK;
}

/* -- a step: the model's rows, and a token for each slot -- */

/* Adds a row: a token at a position of slot k. */
static void ppo__add_row(ppo__slot_sampler *sampler, int token, int position, int k) {
    const int row = sampler->rows++;
    sampler->row_token[row] = token;
    sampler->row_position[row] = position;
    sampler->row_slot[row] = k;
}

/* The next sequence that waits for a slot; count or more: none. */
static int ppo__next_sequence(ppo_generator *g) {
#ifdef PPO__THREADS
    return PPO__ATOMIC_LOAD(g->waiting) < g->count ? (int)PPO__ATOMIC_ADD(g->waiting, 1) : g->count;
#else
    return g->waiting < g->count ? g->waiting++ : g->count;
#endif
}

/* Gives slot k to a sequence, whose first tokens it may have cached. */
static void ppo__begin_sequence(ppo_generator *g, int k, int sequence) {
    const ppo_sampling *sampling = g->sampling;
    const ppo__result *out = &g->results[g->turn];
    ppo__slot *slot = &g->slot[k];
    const int *text = out->text + ppo__at(sequence, g->context), n = out->prompt[sequence];
    int same = 0, most = slot->seen < n - 1 ? slot->seen : n - 1;
    slot->sequence = sequence;
    slot->length = n;
    slot->end = ppo__longest(sampling, g->context, n);
    slot->rng = ppo_rng_stream(sampling->seed, PPO_STREAM_TOKEN, (uint32_t)(g->first + sequence));
    while (same < most && slot->cached[same] == text[same]) ++same;
    slot->seen = same;
}

/* Gives free slots to waiting prompts, and lists each slot's rows: of a prompt, the tokens that are not
   cached, at least the last; later the last token, and before it what a tool has answered. */
static void ppo__list_rows(ppo__slot_sampler *sampler) {
    ppo_generator *g = sampler->generator;
    const ppo__result *out = &g->results[g->turn];
    sampler->rows = sampler->asked = 0;
    for (int k = sampler->first; k < sampler->first + sampler->slots; ++k) {
        ppo__slot *slot = &g->slot[k];
        const int next = slot->sequence < 0 ? ppo__next_sequence(g) : g->count;
        if (next < g->count) ppo__begin_sequence(g, k, next);
        if (slot->sequence < 0) continue;
        for (; slot->seen < slot->length; ++slot->seen) {
            slot->cached[slot->seen] = out->text[ppo__at(slot->sequence, g->context) + slot->seen];
            ppo__add_row(sampler, slot->cached[slot->seen], slot->seen, k);
        }
        sampler->rng[sampler->asked] = slot->rng;
        sampler->last[sampler->asked++] = sampler->rows - 1;
    }
}

/* Runs the model on the rows, and draws a token for each slot. */
static ppo_status ppo__draw_tokens(ppo__slot_sampler *sampler, const ppo_sampling *sampling) {
    static const ppo_op op = {"sample", 2, ppo__sample_forward, NULL};
    const ppo__sample_args args = {sampling, sampler->rng, sampler->p, sampler};
    const ppo_lm *lm = sampler->generator->lm;
    ppo_tape *tape = sampler->tape;
    const int asked = sampler->asked;
    ppo_tape_reset(tape);
    ppo_tensor *x = ppo__lm_rows(tape, lm, sampler->row_token, sampler->row_position, sampler->rows,
                                 ppo__attend_cached, sampler);
    x = ppo_lm_logits(tape, lm, ppo_tape_embedding(tape, x, sampler->last, asked));
    ppo_node *node = x ? ppo_tape_apply(tape, &op, &x, 1, asked, 1, &args, sizeof args) : NULL;
    if (node) {
        ppo__tape_read(tape, node->out[0]->data, asked, (float *)(void *)sampler->drawn);
        ppo__tape_read(tape, node->out[1]->data, asked, sampler->drawn_logp);
    }
    return ppo__tape_settle(tape);
}

/* Draws a token for each slot, and appends it to the slot's sequence. */
static ppo_status ppo__sample_step(ppo__slot_sampler *sampler) {
    ppo_generator *g = sampler->generator;
    const ppo_sampling *sampling = g->sampling;
    const ppo__result *out = &g->results[g->turn];
    ppo_status status = ppo__draw_tokens(sampler, sampling);
    if (status && status != PPO_ERROR_NUMERIC) return status;
    for (int i = 0; i < sampler->asked; ++i) {
        const int k = sampler->row_slot[sampler->last[i]], token = sampler->drawn[i];
        ppo__slot *slot = &g->slot[k];
        const int s = slot->sequence;
        size_t at = ppo__at(s, g->context) + slot->length;
        if (!ppo__finite(sampler->drawn_logp[i]))
            return ppo_fail(PPO_ERROR_NUMERIC, "the logits are not finite (sequence %d, position %d)",
                            g->first + s, slot->length - 1);
        ppo_rng_u32(&slot->rng); /* the operation drew this number from a copy */
        out->text[at] = token;
        out->logp[at] = sampler->drawn_logp[i];
        out->ended[s] = (unsigned char)ppo__ends(sampling, token);
        out->length[s] = ++slot->length;
        ppo_status called = sampling->watch ? ppo__in_methods.call_watch(g, sampling, k) : PPO_OK;
        if (!called && token == sampling->tool_token && !out->ended[s] && slot->length < slot->end)
            called = ppo__in_methods.call_tool(g, sampling, k);
        if (called) return called;
        if (out->ended[s] || slot->length == slot->end) slot->sequence = -1;
    }
    return status;
}

/* Samplers begin .. end - 1 sample until no sequence waits. If one fails, the others stop soon. */
static void ppo__slot_samplers_run(void *user, int range, int begin, int end) {
    ppo_generator *g = (ppo_generator *)user;
    for (ppo__slot_sampler *sampler = g->sampler + begin; sampler < g->sampler + end; ++sampler) {
        sampler->status = PPO_OK;
        while (!sampler->status) {
            ppo__list_rows(sampler);
            if (!sampler->rows) break;
            sampler->status = ppo__sample_step(sampler);
        }
        if (!sampler->status) continue;
        memcpy(sampler->error, ppo__error, sizeof sampler->error);
        PPO__ATOMIC_STORE(g->waiting, g->count);
    }
}

/* Divides the slots that `count` sequences need among the samplers. One sampler takes all of them if the
   sequences are few, or if there is a tool or a watch, which run on the calling thread. */
static void ppo__generator_divide(ppo_generator *g, int count, const ppo_sampling *sampling) {
    const int one =
        sampling->tool || sampling->watch || ppo__thread_count() < g->samplers || count < 2 * g->samplers;
    const int slots = ppo__min_int(g->slots, count), n = g->in_use = one ? 1 : g->samplers;
    for (int k = 0; k < n; ++k) {
        ppo__slot_sampler *sampler = &g->sampler[k];
        sampler->first = ppo__share(slots, k, n);
        sampler->slots = ppo__share(slots, k + 1, n) - sampler->first;
    }
}

/* Takes the model's weights as they are now, and brings the memory of the tapes to its final size by the
   largest step there can be: the longest prompt in each slot or, with a tool, whose answers vary, a whole
   context. The first sampler needs room for all slots of a few sequences. */
static ppo_status ppo__generator_prepare(ppo_generator *g, int count, int tool) {
    const ppo_sampling sampling = ppo_sampling_default();
    const int *prompt = g->results[g->turn].prompt;
    ppo_status status = ppo__lm_place(g->lm, g->numbers.device);
    int longest = 0, few = ppo__min_int(2 * g->samplers - 1, g->slots);
    for (int s = 0; s < count; ++s) longest = prompt[s] > longest ? prompt[s] : longest;
    if (tool) longest = g->context;
    for (ppo__slot_sampler *sampler = g->sampler; sampler < g->sampler + g->in_use && !status; ++sampler) {
        int slots = sampler->slots;
        if (sampler == g->sampler && slots < few) slots = few;
        if (slots > count) slots = count;
        if (ppo__at(slots, longest) <= sampler->reserved) continue;
        for (int k = 0; k < g->slots; ++k) g->slot[k].seen = 0;
        sampler->rows = 0;
        sampler->asked = slots;
        for (int k = 0; k < slots; ++k) {
            for (int i = 0; i < longest; ++i) ppo__add_row(sampler, 0, i, sampler->first + k);
            sampler->last[k] = sampler->rows - 1;
        }
        status = ppo__draw_tokens(sampler, &sampling);
        if (status == PPO_ERROR_NUMERIC) status = PPO_OK; /* the first step says where */
        if (!status) sampler->reserved = ppo__at(slots, longest);
    }
    return status;
}

/* Samples until every sequence has ended. */
static ppo_status ppo__generator_run(ppo_generator *g, const ppo_sampling *sampling, int count) {
    ppo_status status = PPO_OK;
    g->busy = 1;
    g->sampling = sampling;
    g->count = count;
    g->waiting = ppo__min_int(g->slots, count);
    for (int k = 0; k < g->waiting; ++k) ppo__begin_sequence(g, k, k);
    ppo__for_each(g->in_use, ppo__slot_samplers_run, g);
    for (int k = 0; k < g->in_use && !status; ++k)
        if (g->sampler[k].status) status = ppo_fail(g->sampler[k].status, "%s", g->sampler[k].error);
    g->busy = 0;
    return status;
}

/* Packs the sequences, which move to the left only, and describes them. */
static ppo_samples ppo__pack_results(ppo_generator *g) {
    const ppo__result out = g->results[g->turn];
    int at = 0;
    for (int s = 0; s < g->count; ++s) {
        const int n = out.length[s];
        memmove(out.text + at, out.text + ppo__at(s, g->context), n * sizeof(int));
        memmove(out.logp + at, out.logp + ppo__at(s, g->context), n * sizeof(float));
        memmove(out.given + at, out.given + ppo__at(s, g->context), n);
        out.length[s] = at;
        at += n;
    }
    out.length[g->count] = at;
    unsigned char *given = g->sampling->tool_token >= 0 ? out.given : NULL;
    const ppo_samples samples = {
        {g->count, out.length, out.prompt, out.text, given, NULL}, out.logp, out.ended};
    return samples;
}

PPO_DEF ppo_status ppo_generate(ppo_generator *g, const ppo_tokens *prompts, const ppo_sampling *sampling,
                                ppo_samples *samples) {
    if (!PPO__GIVEN("ppo_generate", g, prompts, sampling, samples)) return PPO_ERROR_ARGUMENT;
    if (g->busy)
        return ppo__refuse(
            "ppo_generate: the generator is in use; a tool, watch or reward needs another one");
    const int count = prompts->count, tool = sampling->tool_token >= 0;
    ppo_status status = ppo__check_sampling(sampling, g->lm->config.vocab);
    if (!status) status = ppo__check_sequences(g->lm, prompts, PPO__BEFORE_MORE);
    if (!status) status = ppo__begin_results(g, prompts);
    memset(samples, 0, sizeof *samples); /* only now: its tokens may have been the prompts */
    for (int k = 0; k < g->slots && !sampling->prefix_cache; ++k) g->slot[k].seen = 0;
    const int first_is_largest = !tool && (count == 1 || sampling->prefix_cache); /* of the steps */
    ppo__generator_divide(g, count, sampling);
    if (!status) status = ppo__generator_prepare(g, first_is_largest ? 0 : count, tool);
    if (!status) status = ppo__generator_run(g, sampling, count);
    for (int k = 0; k < g->slots && status; ++k) g->slot[k].seen = 0;
    if (status) return ppo__settle(g->numbers.device, status);
    *samples = ppo__pack_results(g);
    return PPO_OK;
}

/* --------------------------------------------------------------------------------------------------------
   @@ 21 Fine-tuning and reward models

   ppo__fit_run() is the loop of all fine-tuning: epochs of shuffled batches, ppo__fit_step() for each. An
   item is a sequence, a window of a text, or a pair of sequences; a set is the items to learn from, or those
   held out. A gradient step learns from a batch of items; a micro-batch is the part of it that is in memory
   at once. ppo__gradients() adds the gradients of a batch's micro-batches, also for PPO on tokens.

   All random numbers follow from the seed; a training that ppo_resume.h continues draws them again from the
   start. State that outlives a step needs a row there, in ppo__serialize_fit().

   To add an objective: a constant beside PPO__SFT, its loss in ppo__fit_loss(), a public function that calls
   ppo__fit_train().
   -------------------------------------------------------------------------------------------------------- */

/* -- responses -- */

/* The first token of sequence s at index i or later that is not given, or the sequence's end. To go through the
   tokens to learn from: i = ppo__response_token(tokens, s, 0), then ppo__response_token(tokens, s, i + 1), ... */
static int ppo__response_token(const ppo_tokens *tokens, int s, int i) {
    int first = ppo__prompt_end(tokens, s), end = tokens->start[s + 1];
    if (first == tokens->start[s] && first < end) ++first;
    if (i < first) i = first;
    while (tokens->given && i < end && tokens->given[i]) ++i;
    return i;
}

/* Number of tokens of sequence s to learn from: those not given. */
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

/* -- outputs of a model for the tokens of responses -- */

PPO_DEF ppo_response ppo_lm_response(ppo_tape *tape, const ppo_lm *lm, const ppo_tokens *tokens,
                                     float temperature, int outputs) {
    ppo_response out;
    memset(&out, 0, sizeof out);
    ppo_tensor *x = ppo_lm_forward(tape, lm, tokens);
    if (!x) return out;
    const int n = ppo_response_row(tokens, tokens->count);
    if (!n) ppo__tape_fail(tape, ppo__refuse("there is no token after the prompts"));
    else if (!(outputs & (PPO_POLICY | PPO_VALUE)))
        ppo__tape_fail(tape, ppo__refuse("ppo_lm_response: no output of %d exists", outputs));
    int *token = (int *)ppo__tape_take(tape, n, sizeof *token);
    int *row = (int *)ppo__tape_take(tape, n, sizeof *row); /* that predicts it: of the token before */
    if (ppo_tape_status(tape)) return out;
    for (int s = 0, at = 0; s < tokens->count; ++s) {
        int i = ppo__response_token(tokens, s, 0);
        for (; i < tokens->start[s + 1]; i = ppo__response_token(tokens, s, i + 1), ++at) {
            token[at] = tokens->token[i];
            row[at] = i - 1;
        }
    }
    x = ppo_tape_embedding(tape, x, row, n);
    if (outputs & PPO_POLICY) {
        out.logits = ppo_lm_logits(tape, lm, x);
        ppo_tape_categorical(tape, out.logits, token, temperature, &out.logp, &out.entropy);
    }
    if (outputs & PPO_VALUE) out.value = ppo_lm_score(tape, lm, x);
    return out;
}

static ppo_status ppo__sequence_sum_forward(ppo_node *node) {
    const ppo_tokens *tokens = *(const ppo_tokens *const *)node->args;
    const float *x = node->in[0]->data;
    for (int s = 0; s < tokens->count; ++s) {
        double sum = 0;
        for (int i = ppo__response_length(tokens, s); i > 0; --i) sum += *x++;
        node->out[0]->data[s] = (float)sum;
    }
    return PPO_OK;
}

static void ppo__sequence_sum_backward(ppo_node *node) {
    const ppo_tokens *tokens = *(const ppo_tokens *const *)node->args;
    float *dx = node->in[0]->grad;
    for (int s = 0; s < tokens->count; ++s)
        for (int i = ppo__response_length(tokens, s); i > 0; --i) *dx++ += node->out[0]->grad[s];
}

PPO_DEF ppo_tensor *ppo_tape_sequence_sum(ppo_tape *tape, ppo_tensor *x, const ppo_tokens *tokens) {
    static const ppo_op op = {"sequence_sum", 1, ppo__sequence_sum_forward, ppo__sequence_sum_backward};
    if (!ppo__operands(tape, op.name, x, tokens ? x : NULL)) return NULL;
    int n = ppo_response_row(tokens, tokens->count);
    if (x->rows != n || x->cols != 1)
        return PPO__TAPE_REFUSE(tape, "sequence_sum: (%d, %d) is not (%d, 1)", x->rows, x->cols, n);
    return ppo_tape_result(ppo_tape_apply(tape, &op, &x, 1, tokens->count, 1, &tokens, sizeof tokens));
}

PPO_DEF ppo_tensor *ppo_lm_sequence_score(ppo_tape *tape, const ppo_lm *lm, const ppo_tokens *tokens) {
    ppo_tensor *x = ppo_lm_forward(tape, lm, tokens);
    int *last = x ? (int *)ppo__tape_take(tape, tokens->count, sizeof *last) : NULL;
    if (!last) return NULL;
    for (int s = 0; s < tokens->count; ++s) last[s] = tokens->start[s + 1] - 1;
    return ppo_lm_score(tape, lm, ppo_tape_embedding(tape, x, last, tokens->count));
}

/* The sum of logp over each sequence (count, 1); 0 for a sequence whose tokens are all given. */
static ppo_tensor *ppo__sequence_logp(ppo_tape *tape, const ppo_lm *lm, const ppo_tokens *tokens,
                                      float temperature) {
    if (!ppo_response_row(tokens, tokens->count)) {
        float *zeros = (float *)ppo__tape_take(tape, tokens->count, sizeof *zeros);
        if (zeros) memset(zeros, 0, tokens->count * sizeof(float));
        return zeros ? ppo_tape_constant(tape, zeros, tokens->count, 1) : NULL;
    }
    return ppo_tape_sequence_sum(tape, ppo_lm_response(tape, lm, tokens, temperature, PPO_POLICY).logp,
                                 tokens);
}

/* For each sequence of the data, a batch at a time: its score or, at a temperature above 0, its sum of logp. */
static ppo_status ppo__measure(const ppo_lm *lm, const ppo_tokens *data, int batch, float temperature,
                               float *numbers) {
    ppo_tape *tape = NULL;
    ppo_tokens now = {0, NULL, NULL, NULL, NULL, NULL};
    if (batch < 1) return ppo__refuse("a batch of %d sequences", batch);
    ppo_status status = ppo__check_sequences(lm, data, PPO__IN_CONTEXT);
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
        if (x) ppo__tape_read(tape, x->data, now.count, numbers + s);
        if (!status) status = ppo__tape_settle(tape);
        for (int i = s; i < s + now.count && !status; ++i) {
            if (ppo__finite(numbers[i])) continue;
            status = ppo_fail(PPO_ERROR_NUMERIC, "the model gives sequence %d %g", i, numbers[i]);
        }
    }
    ppo_tokens_free(&now);
    ppo_tape_free(tape);
    return status;
}

PPO_DEF ppo_status ppo_lm_scores(const ppo_lm *lm, const ppo_tokens *data, int batch, float *score) {
    if (!PPO__GIVEN("ppo_lm_scores", lm, data, score)) return PPO_ERROR_ARGUMENT;
    ppo_status status = ppo__check_score("ppo_lm_scores", lm);
    return status ? status : ppo__measure(lm, data, batch, 0, score);
}

PPO_DEF ppo_status ppo_lm_logp(const ppo_lm *lm, const ppo_tokens *data, int batch, float *logp) {
    if (!PPO__GIVEN("ppo_lm_logp", lm, data, logp)) return PPO_ERROR_ARGUMENT;
    return ppo__measure(lm, data, batch, 1, logp);
}

/* -- the gradient of a batch: for fine-tuning and for PPO -- */

/* A batch is cut into shards, and each shard into micro-batches. The gradients of a shard's micro-batches
   are added one after another, those of shards in a binary tree. A process of a group computes a branch of
   this tree, and each of its lanes a branch of that. Lanes run side by side, each on one thread; if there
   is one lane, the threads share the work of its operations. */
enum {
    PPO__TEXT_SHARDS = 8,   /* of a batch at most, unless there is a setting */
    PPO__SHARD_TOKENS = 384 /* of a shard at least, if all sequences are as long as the longest */
};

/* Computes micro-batches, one at a time. */
typedef struct ppo__lane {
    ppo_tape *tape;
    ppo_tokens batch[2]; /* the sequences of the micro-batch, as the learner's data */
    int done, micro;     /* items and micro-batches of the batch that came before it */
    float *grad[2];      /* gradients of the learner's params; in lane 0 the params' own */
    float *sums;         /* [levels][floats] gradients of 1, 2, 4, ... shards that wait to be added */
} ppo__lane;

/* A number or struct that the loss leaves for each item, or for each micro-batch, of a batch. */
typedef struct ppo__learned {
    void *data; /* NULL: none */
    size_t bytes;
    int of_items;
} ppo__learned;

typedef struct ppo__learner {
    /* An item is a sequence of data[0], with the one of data[1] if that is not NULL; or, if first is not NULL, a
       window of the only sequence: at most `window` tokens from first[item] on. */
    const ppo_tokens *data[2];
    const int *first;
    int window;

    int micro_batch; /* most items of a micro-batch */
    int budget;      /* most tokens of a micro-batch of several items; 0: any number */
    int reserved;    /* items that there is room for if all are as long as the longest */
    int micros;      /* micro-batches of the batch */
    int most_micros; /* and of any batch */
    int64_t tokens;  /* trained on since the start */

    /* The loss of a lane's micro-batch, item[0 .. batch[0].count - 1]: a mean over *weight tokens or pairs. */
    ppo_tensor *(*loss)(void *user, ppo__lane *lane, const int *item, float *weight);
    void *user;
    float *weight;           /* [most_micros] */
    ppo__learned learned[4]; /* the weights, and what else loss() leaves */

    ppo_params *params[2]; /* whose gradients are computed; the second may be NULL */
    size_t floats;         /* gradients of both */
    int shards;            /* of a batch, at most */
    ppo__lane *lane;       /* [lanes] */
    int lanes;             /* 1, 2, 4, ... */
    const ppo_group *group;
    float *received;   /* in a group: for ppo__ranks_sum() */
    ppo__arena memory; /* of lanes and sums */
} ppo__learner;

/* What the processes of a group exchange, by ppo_group.h. status: of this process. */
typedef struct ppo__language_group {
    /* As ppo__backward_and_sum(), over all processes. */
    ppo_status (*backward_and_sum)(ppo__learner *learner, ppo_tensor *loss, int shards, int own);
    /* Every process gets what the losses of all have left for items and micro-batches of a batch. */
    ppo_status (*share_learned)(ppo__learner *learner, const int *item, int n, int shards);
    /* PPO: the samples for n prompts, and their scores; and what the models compute of them. */
    ppo_status (*share_samples)(ppo_rlhf *r, int n, ppo_status status, ppo_samples *samples, float *score);
    ppo_status (*share_evaluation)(ppo_rlhf *r, ppo_status status);
    void (*samples_alloc)(ppo_rlhf *r); /* room for the samples of all */
    /* As ppo__learner_agree(). */
    ppo_status (*agree)(ppo_status status, const ppo_settings *settings, const void *config,
                        const ppo_lm *const lm[3], const ppo_tokens *const data[4], int64_t step);
} ppo__language_group;
PPO__COMPANION(ppo__language_group, ppo__language_in_group);

/* All processes train with the same settings, models and data, or none does. status: of this process; lm, data:
   NULL for those that do not exist; step: the one to begin with. */
static ppo_status ppo__learner_agree(ppo_status status, const ppo_settings *settings, const void *config,
                                     const ppo_lm *const lm[3], const ppo_tokens *const data[4],
                                     int64_t step) {
    return ppo__group() ? ppo__language_in_group.agree(status, settings, config, lm, data, step) : status;
}

static void ppo__learner_free(ppo__learner *learner) {
    for (int k = 0; k < learner->lanes; ++k) {
        ppo_tape_free(learner->lane[k].tape);
        for (int i = 0; i < 2; ++i) ppo_tokens_free(&learner->lane[k].batch[i]);
    }
    ppo__arena_free(&learner->memory);
}

/* The first shard of branch k of `branches` of this process. A single shard is computed by all processes. */
static int ppo__branch_begin(const ppo__learner *learner, int shards, int k, int branches) {
    const ppo_group *g = learner->shards > 1 ? learner->group : NULL;
    k += ppo__rank(g) * branches;
    branches *= ppo__ranks(g);
    return ppo__min_int(ppo__first_shard(learner->shards, k, branches), shards);
}

/* The number of shards of branch k. */
static int ppo__branch_shards(const ppo__learner *learner, int shards, int k, int branches) {
    return ppo__branch_begin(learner, shards, k + 1, branches) -
           ppo__branch_begin(learner, shards, k, branches);
}

/* Tokens of an item in data[k]. */
static int ppo__item_length(const ppo__learner *learner, int k, int item) {
    const ppo_tokens *data = learner->data[k];
    if (!learner->first) return data->start[item + 1] - data->start[item];
    return ppo__min_int(data->start[1] - learner->first[item], learner->window);
}

/* How many of n items, the first ones, make a micro-batch. */
static int ppo__micro_items(const ppo__learner *learner, const int *item, int n) {
    int64_t tokens = 0;
    n = ppo__min_int(n, learner->micro_batch);
    for (int i = 0; i < n; ++i) {
        for (int k = 0; k < 2 && learner->data[k]; ++k) tokens += ppo__item_length(learner, k, item[i]);
        if (i && learner->budget && tokens > learner->budget) return i;
    }
    return n;
}

/* The number of micro-batches of shards 0 .. k - 1 of a batch of n items. */
static int ppo__micros_before(const ppo__learner *learner, const int *item, int n, int shards, int k) {
    int micros = 0;
    for (int shard = 0; shard < k; ++shard) {
        const int end = ppo__share(n, shard + 1, shards);
        for (int i = ppo__share(n, shard, shards); i < end; ++micros)
            i += ppo__micro_items(learner, item + i, end - i);
    }
    return micros;
}

/* The lanes, with their tapes and room for their gradients: 1, 2, 4, ..., at most as many as threads and
   shards. There is only one where sharing the work of its operations gains more (with fewer than four
   lanes), or where gradients of each lane would take much memory. */
static ppo_status ppo__lanes_alloc(ppo__learner *learner, int recompute, const ppo_lm *lm) {
    ppo__arena *memory = &learner->memory;
    const int threads = ppo__device_in_use || ppo__is_large(lm) ? 1 : ppo__thread_count();
    const int own = ppo__branch_shards(learner, learner->shards, 0, 1);
    int lanes = 1;
    ppo_status status =
        recompute && !ppo__for_large.recompute ? ppo__needs("gradient_checkpointing", "ppo_hub.h") : PPO_OK;
    while (2 * lanes <= ppo__min_int(own, threads)) lanes *= 2;
    if (lanes < 4 && 2 * lanes <= threads) lanes = 1;
    learner->lane = PPO__ZEROS(memory, ppo__lane, lanes);
    learner->lanes = learner->lane ? lanes : 0;
    for (int k = 0; k < learner->lanes && !status; ++k) {
        ppo__lane *lane = &learner->lane[k];
        int levels = 0;
        while (1 << levels < ppo__branch_shards(learner, learner->shards, k, lanes)) ++levels;
        if (levels) lane->sums = PPO__ARRAY(memory, float, (size_t)levels * learner->floats);
        for (int i = 0; i < 2 && learner->params[i]; ++i)
            lane->grad[i] =
                k ? PPO__ARRAY(memory, float, learner->params[i]->count) : learner->params[i]->grad;
        status = ppo__arena_status(memory);
        if (!status) status = ppo__tape_create_on(ppo__device_in_use, &lane->tape);
        if (!status) lane->tape->recompute = recompute;
        for (int i = 0; i < 2 && k && !status; ++i) {
            lane->tape->params[i] = learner->params[i];
            lane->tape->grad[i] = lane->grad[i];
        }
    }
    return status ? status : ppo__arena_status(memory);
}

/* Room for batches of at most n items, of sequences of at most `longest` tokens. A batch has at most `tokens`
   tokens, from which the number of shards follows unless it is set. The caller has set params and group. */
static ppo_status ppo__learner_alloc(ppo__learner *learner, int n, int64_t tokens, int longest, int shards,
                                     int micro_batch, int recompute, const ppo_lm *lm) {
    for (int i = 0; i < 2 && learner->params[i]; ++i) learner->floats += learner->params[i]->count;
    if (!shards) {
        const int most = ppo__is_large(lm) || ppo__device_in_use ? 1 : (int)PPO__TEXT_SHARDS;
        for (shards = 1; shards < most && 2 * shards * PPO__SHARD_TOKENS <= tokens;) shards *= 2;
    }
    learner->shards = shards = ppo__min_int(shards, n);
    const int items = ppo__divide_up(n, shards); /* of a shard */
    learner->micro_batch = learner->reserved = micro_batch && micro_batch < items ? micro_batch : items;
    if (!micro_batch && !ppo__device_in_use) {
        learner->budget = lm->config.width > 256 ? lm->config.width : 256;
        learner->reserved = ppo__min_int(items, learner->budget / longest + 1);
    }
    if (learner->group && shards > 1)
        learner->received = PPO__ARRAY(&learner->memory, float, learner->floats);
    learner->most_micros = learner->budget ? n : shards * ppo__divide_up(items, learner->micro_batch);
    learner->weight = PPO__ARRAY(&learner->memory, float, learner->most_micros);
    const ppo__learned weights = {learner->weight, sizeof(float), 0};
    learner->learned[0] = weights;
    return ppo__lanes_alloc(learner, recompute, lm);
}

/* Copies n items to the lane, as its micro-batch. */
static ppo_status ppo__gather_items(const ppo__learner *learner, ppo__lane *lane, const int *item, int n) {
    ppo_status status = PPO_OK;
    for (int k = 0; k < 2 && learner->data[k]; ++k) {
        const ppo_tokens *data = learner->data[k];
        ppo_tokens_clear(&lane->batch[k]);
        for (int i = 0; i < n && !status; ++i) {
            int at = learner->first ? learner->first[item[i]] : 0, prompt = 1, bounds[2] = {0, 0};
            ppo_tokens window = {1, bounds, &prompt, data->token + at, data->given, NULL};
            if (window.given) window.given += at;
            bounds[1] = ppo__item_length(learner, k, item[i]);
            status = learner->first ? ppo_tokens_add_from(&lane->batch[k], &window, 0)
                                    : ppo_tokens_add_from(&lane->batch[k], data, item[i]);
        }
    }
    return status;
}

/* The micro-batch's loss times its weight. */
static ppo_tensor *ppo__weighted_loss(ppo__learner *learner, ppo__lane *lane, const int *item) {
    float *weight = &learner->weight[lane->micro];
    *weight = 0;
    ppo_tape_reset(lane->tape);
    ppo_tensor *loss = learner->loss(learner->user, lane, item, weight);
    return ppo_tape_scale(lane->tape, loss, *weight, 0);
}

/* The waiting gradients of params[i] of 2^level shards. */
static float *ppo__waiting(const ppo__learner *learner, const ppo__lane *lane, int level, int i) {
    return lane->sums + (size_t)level * learner->floats + (i ? learner->params[0]->count : 0);
}

/* After shard k of a lane: adds the gradients that wait for it, n of params[i] from `begin` on. The sum is
   that of 2^level shards or, after the last shard, of all. Returns the level. */
static int ppo__add_waiting(const ppo__learner *learner, const ppo__lane *lane, int k, int last, int i,
                            size_t begin, size_t n) {
    int level = 0;
    for (; k >> level && (last || k >> level & 1); ++level)
        if (k >> level & 1)
            ppo__add_to(ppo__waiting(learner, lane, level, i) + begin, lane->grad[i] + begin, n);
    return level;
}

static void ppo__clear_gradients(const ppo__learner *learner, const ppo__lane *lane, int i) {
    if (lane == learner->lane) ppo_params_zero_grad(learner->params[i]); /* of a device, too */
    else memset(lane->grad[i], 0, learner->params[i]->count * sizeof(float));
}

/* The host adds the gradients of shards. If the tape computes on a device, they are copied to the host,
   and with `back` the sum is copied to the device. */
static ppo_status ppo__copy_gradients(const ppo__learner *learner, int back) {
    ppo__device *device = learner->shards > 1 ? learner->lane[0].tape->device : NULL;
    ppo_status status = PPO_OK;
    for (int i = 0; i < 2 && learner->params[i] && device && !status; ++i) {
        const ppo_params *params = learner->params[i];
        const size_t size = params->count * sizeof(float);
        if (back) status = device->write(device, params->mirror->grad, params->grad, size);
        else device->read(device, params->grad, params->mirror->grad, size);
    }
    return ppo__settle(device, status);
}

/* The last backward of the only lane, whose loss this is, unless the process has no shard (own 0); and the
   sum over all shards. */
static ppo_status ppo__backward_and_sum(ppo__learner *learner, ppo_tensor *loss, int shards, int own) {
    ppo__lane *lane = learner->lane;
    if (learner->group && learner->shards > 1)
        return ppo__language_in_group.backward_and_sum(learner, loss, shards, own);
    ppo_status status = own > 0 ? ppo_tape_backward(lane->tape, loss) : PPO_OK;
    if (own > 0 && !status) status = ppo__copy_gradients(learner, 0);
    for (int i = 0; i < 2 && learner->params[i] && own > 1; ++i)
        ppo__add_waiting(learner, lane, own - 1, 1, i, 0, learner->params[i]->count);
    return status ? status : ppo__copy_gradients(learner, 1);
}

/* A batch of n items. */
typedef struct ppo__batch {
    ppo__learner *learner;
    const int *item;
    int n, shards;
    int i; /* for ppo__add_lanes(): of params[i] */
} ppo__batch;

/* The gradients of a lane's shards except for the last micro-batch: *loss is its loss; the caller runs its
   backward, and adds the shards. */
static ppo_status ppo__lane_gradients(const ppo__batch *batch, ppo__lane *lane, ppo_tensor **loss) {
    ppo__learner *learner = batch->learner;
    const int n = batch->n, shards = batch->shards, at = (int)(lane - learner->lane);
    const int begin = ppo__branch_begin(learner, shards, at, learner->lanes);
    const int own = ppo__branch_shards(learner, shards, at, learner->lanes);
    ppo_status status = PPO_OK;
    lane->micro = ppo__micros_before(learner, batch->item, n, shards, begin);
    for (int k = 0; k < own && !status; ++k) {
        const int end = ppo__share(n, begin + k + 1, shards);
        for (int i = ppo__share(n, begin + k, shards), next; i < end && !status; i = next, ++lane->micro) {
            next = i + ppo__micro_items(learner, batch->item + i, end - i);
            lane->done = i;
            status = ppo__gather_items(learner, lane, batch->item + i, next - i);
            if (!status) *loss = ppo__weighted_loss(learner, lane, batch->item + i);
            if (!status)
                status = k + 1 == own && next == end ? ppo_tape_status(lane->tape)
                                                     : ppo_tape_backward(lane->tape, *loss);
        }
        if (k + 1 == own || status) break;
        status = ppo__copy_gradients(learner, 0);
        for (int p = 0; p < 2 && learner->params[p] && !status; ++p) { /* they wait for the next shard's */
            const size_t count = learner->params[p]->count;
            const int level = ppo__add_waiting(learner, lane, k, 0, p, 0, count);
            memcpy(ppo__waiting(learner, lane, level, p), lane->grad[p], count * sizeof(float));
            ppo__clear_gradients(learner, lane, p);
        }
    }
    return status;
}

/* The gradients of lanes begin .. end - 1. A failure stays on the tape of the lane. */
static void ppo__lanes_gradients(void *user, int range, int begin, int end) {
    const ppo__batch *batch = (const ppo__batch *)user;
    const ppo__learner *learner = batch->learner;
    for (int k = begin; k < end; ++k) {
        ppo__lane *lane = &learner->lane[k];
        const int own = ppo__branch_shards(learner, batch->shards, k, learner->lanes);
        ppo_tensor *loss = NULL;
        ppo_tape_reset(lane->tape);
        for (int i = 0; i < 2 && learner->params[i] && k; ++i) ppo__clear_gradients(learner, lane, i);
        ppo_status status = ppo__lane_gradients(batch, lane, &loss);
        if (own > 0 && !status) status = ppo_tape_backward(lane->tape, loss);
        for (int i = 0; i < 2 && learner->params[i] && own > 1 && !status; ++i)
            ppo__add_waiting(learner, lane, own - 1, 1, i, 0, learner->params[i]->count);
        if (status) ppo__tape_fail(lane->tape, status);
    }
}

/* Grains begin .. end - 1 of the gradients: those of the other lanes are added to lane 0's: first those of
   neighbours, then of every second lane, ... */
static void ppo__add_lanes(void *user, int range, int begin, int end) {
    const ppo__batch *batch = (const ppo__batch *)user;
    const ppo__learner *learner = batch->learner;
    const int lanes = learner->lanes, i = batch->i;
    const size_t at = ppo__at(begin, PPO__FLOAT_GRAIN);
    const size_t n = ppo__grain_end(learner->params[i]->count, end) - at;
    for (int step = 1; step < lanes; step *= 2)
        for (int k = 0; k + step < lanes; k += 2 * step)
            if (ppo__branch_begin(learner, batch->shards, k + step, lanes) <
                ppo__branch_begin(learner, batch->shards, k + 2 * step, lanes))
                ppo__k()->add(learner->lane[k + step].grad[i] + at, learner->lane[k].grad[i] + at, n);
}

/* The gradient of a batch of n items, times *total. */
static ppo_status ppo__gradients(ppo__learner *learner, const int *item, int n, double *total) {
    const int shards = ppo__min_int(learner->shards, n), one = learner->lanes == 1;
    const ppo_group *g = learner->shards > 1 ? learner->group : NULL; /* a single shard is computed by all */
    ppo__batch batch = {learner, item, n, shards, 0};
    ppo_tensor *loss = NULL;
    ppo_status status = PPO_OK;
    for (int i = 0; i < 2 && learner->params[i] && !status; ++i) /* also where this process has no shard */
        status = ppo__params_place(learner->params[i], learner->lane[0].tape->device);
    if (!status && one) status = ppo__lane_gradients(&batch, learner->lane, &loss);
    if (!status && !one) {
        ppo__for_each(learner->lanes, ppo__lanes_gradients, &batch);
        for (int k = 0; k < learner->lanes && !status; ++k) status = ppo_tape_status(learner->lane[k].tape);
        for (batch.i = 0; batch.i < 2 && learner->params[batch.i] && !status; ++batch.i)
            ppo__parallel_for(ppo__grains(learner->params[batch.i]->count), 1,
                              (double)PPO__FLOAT_GRAIN * learner->lanes, ppo__add_lanes, &batch);
    }
    learner->micros = ppo__micros_before(learner, item, n, shards, shards);
    status = ppo__group_agree(g, status, 0);
    if (!status)
        status =
            ppo__backward_and_sum(learner, loss, shards, one ? ppo__branch_shards(learner, shards, 0, 1) : 0);
    status = ppo__group_agree(learner->group, status, 0);
    if (!status && g) status = ppo__language_in_group.share_learned(learner, item, n, shards);
    *total = 0;
    for (int i = 0; i < learner->micros; ++i) *total += learner->weight[i];
    for (int k = 0; k < 2 && learner->data[k]; ++k)
        for (int i = 0; i < n; ++i) learner->tokens += ppo__item_length(learner, k, item[i]);
    return status;
}

/* Waits for the tape's device, which may fail in a single process of a group. */
static ppo_status ppo__learner_settle(const ppo__learner *learner, ppo_status status) {
    ppo__device *device = learner->lane[0].tape->device;
    status = ppo__settle(device, status);
    return device ? ppo__group_agree(learner->group, status, 0) : status;
}

/* Brings the memory of the lanes to its final size by the largest micro-batch there can be: sequences (pairs) of
   `longest` tokens. The items do not matter. In other micro-batches gradients may find less room free than here,
   where all sequences are alike: they get as much again. */
static ppo_status ppo__learner_reserve(ppo__learner *learner, const int *item, int longest) {
    ppo_status status = PPO_OK;
    for (ppo__lane *lane = learner->lane; lane < learner->lane + learner->lanes && !status; ++lane) {
        ppo_tape *tape = lane->tape;
        size_t floats = 0;
        lane->done = lane->micro = 0;
        for (int k = 0; k < (learner->data[1] ? 2 : 1) && !status; ++k) {
            status = ppo__tokens_fill(&lane->batch[k], learner->micro_batch, 1); /* as many as there may be */
            ppo_tokens_clear(&lane->batch[k]);
            if (!status) status = ppo__tokens_fill(&lane->batch[k], learner->reserved, longest);
        }
        if (!status) status = ppo_tape_backward(tape, ppo__weighted_loss(learner, lane, item));
        for (const ppo__piece *piece = tape->now.pieces; piece; piece = piece->next) floats += piece->floats;
        if (!status && !ppo__tape_take_from(tape, &tape->now.grads, floats, sizeof(float)))
            status = ppo__failed;
        status = ppo__settle(tape->device, status);
        ppo_tape_reset(tape);
    }
    return status;
}

/* -- fine-tuning -- */

/* Held-out data, by ppo_judge.h: their loss; with patience, the parameters with the lowest one are kept. */
typedef struct ppo__judge_functions {
    ppo_status (*evaluate)(ppo__fit *fit, ppo_fit_progress *p);
} ppo__judge_functions;
PPO__COMPANION(ppo__judge_functions, ppo__in_judge);

/* Rows that fine-tuning and PPO on tokens have in common. */
#define PPO__ADAM_ROWS                                                                  \
    PPO__SCALAR(adam_beta1, FLOAT, "0.9", 0, 0.999999, "Adam's decay of the mean"),     \
        PPO__SCALAR(adam_beta2, FLOAT, "0.999", 0, 0.999999, "and of the mean square"), \
        PPO__SCALAR(adam_eps, FLOAT, "1e-5", 1e-12, 1, "Adam's epsilon"),               \
        PPO__SCALAR(weight_decay, FLOAT, "0", 0, 1e30, "decoupled weight decay (AdamW) of matrices")

static const ppo_need ppo__fit_needs[] = {
    {"min_learning_rate", "learning_rate_schedule", "linear|cosine"},
    {"epochs", "steps", "0"},
    {"random_windows", "window", NULL},
    {"warmup", "warmup_steps", "0"},
    {NULL, NULL, NULL},
};

#define PPO__OF ppo_fit_config
PPO_DEF const ppo_settings *ppo_fit_settings(void) {
    static const ppo_field fields[] = {
        PPO__SCALAR(epochs, INT, "1", 1, INT_MAX, "passes over the data"),
        PPO__SCALAR(steps, INT, "0", 0, INT_MAX, "number of gradient steps; 0: by epochs"),
        PPO__SCALAR(batch_size, INT, "32", 1, INT_MAX, "sequences, windows or pairs of a gradient step"),
        PPO__SCALAR(micro_batch, INT, "0", 0, INT_MAX, "of a batch, in memory at once; 0: by their tokens"),
        PPO__SCALAR(shards, INT, "0", 0, 1024, "parts of a batch for threads and processes; 0: by size"),
        PPO__SCALAR(window, INT, "0", 0, INT_MAX, "tokens of a window of the text; 0: whole sequences"),
        PPO__SWITCH(random_windows, "no", "windows from anywhere, not adjacent ones"),
        PPO__SCALAR(learning_rate, FLOAT, "1e-3", 1e-30, 10, "Adam's learning rate"),
        PPO__CHOICE(learning_rate_schedule, "cosine", 2, "constant|linear|cosine", "of the learning rate"),
        PPO__SCALAR(min_learning_rate, FLOAT, "0", 0, 10, "at the end of the schedule"),
        PPO__SCALAR(warmup, FLOAT, "0.05", 0, 0.999999, "share of the steps in which the rate rises"),
        PPO__SCALAR(warmup_steps, INT, "0", 0, INT_MAX, "number of these steps; 0: by that share"),
        PPO__ADAM_ROWS,
        PPO__SCALAR(max_grad_norm, FLOAT, "1", 0, INFINITY, "gradient norms are clipped to it; 0: off"),
        PPO__SCALAR(beta, FLOAT, "0.1", 0, 1e30, "DPO, KTO: strength of the KL constraint"),
        PPO__SCALAR(label_smoothing, FLOAT, "0", 0, 0.5, "DPO: share of comparisons that are wrong"),
        PPO__SEED("of the order of the data"),
        PPO__SCALAR(evaluate_every, INT, "0", 0, INT_MAX, "steps between held-out losses; 0: an epoch"),
        PPO__SWITCH(evaluate_first, "no", "held-out loss also before the first step"),
        PPO__SCALAR(patience, INT, "0", 0, INT_MAX, "held-out losses without a new best; 0: any number"),
        PPO__SCALAR(checkpoint_every, INT, "100", 1, INT_MAX, "steps between checkpoints"),
        PPO__SWITCH(gradient_checkpointing, "no", "less memory for more time, by ppo_hub.h"),
    };
    static const ppo_settings settings = {fields, sizeof fields / sizeof *fields, ppo__fit_needs, NULL, NULL};
    return &settings;
}
#undef PPO__OF

PPO_DEF ppo_fit_config ppo_fit_config_default(void) {
    ppo_fit_config c;
    ppo__settings_default(ppo_fit_settings(), &c, sizeof c);
    return c;
}

enum { PPO__SFT, PPO__REWARD, PPO__DPO, PPO__KTO };
static const char *const ppo__fit_names[] = {"ppo_fit_sft", "ppo_fit_reward", "ppo_fit_dpo", "ppo_fit_kto"};

/* The data to learn from, or those held out. */
struct ppo__fit_set {
    const ppo_tokens *data[2]; /* sequences; data[1]: of pairs, the rejected ones, else NULL */
    ppo_tokens text;           /* with windows: all of data[0] as one sequence */
    int bounds[2];             /* text.start */
    int *first;                /* [count] with windows: where each begins; else NULL */
    float *ref_logp[2];        /* [count] DPO: of the reference; else NULL */
    int count;                 /* items */
    int longest[2];            /* tokens of the longest item, in data[0] and data[1] */
    int *order;                /* [count] */
};

struct ppo__fit {
    ppo__learner learner;
    int objective;
    ppo_lm *lm;
    const ppo_fit_config *config;
    ppo__arena memory;
    ppo__fit_set set[2];     /* to learn from; held out, or empty (count 0) */
    const ppo__fit_set *now; /* the set that items are taken from */
    int batch_size;
    uint64_t hash[4]; /* for a checkpoint: of the data of both sets */
    float *score[2];  /* [batch_size] of the batch's pairs: scores, or sums of logp; SFT: NULL */
    float *losses;    /* (batch_size, 2) the mean of each micro-batch, and its weight */
    float *best;      /* with patience: the parameters with the lowest held-out loss; else NULL */
    float best_loss;
    int worse; /* number of held-out losses since then */
    int over;  /* 1: the training is complete */
};

/* The learner takes its items from set k from now on. */
static void ppo__fit_use(ppo__fit *fit, int k) {
    const ppo__fit_set *set = fit->now = &fit->set[k];
    fit->learner.first = set->first;
    fit->learner.data[0] = set->first ? &set->text : set->data[0];
    fit->learner.data[1] = set->data[1];
}

static ppo_tensor *ppo__fit_loss(void *user, ppo__lane *lane, const int *item, float *weight) {
    const ppo__fit *fit = (const ppo__fit *)user;
    const ppo_tokens *batch = lane->batch;
    ppo_tape *tape = lane->tape;
    ppo_tensor *loss = NULL, *score[2] = {NULL, NULL};
    float *kept = fit->losses + 2 * lane->micro;
    for (int k = 0; k < 2 && fit->objective != PPO__SFT; ++k) {
        score[k] = fit->objective >= PPO__DPO ? ppo__sequence_logp(tape, fit->lm, &batch[k], 1)
                                              : ppo_lm_sequence_score(tape, fit->lm, &batch[k]);
        if (!score[k]) return NULL;
        ppo__tape_read(tape, score[k]->data, batch[k].count, fit->score[k] + lane->done);
    }
    *weight = (float)batch[0].count;
    if (fit->objective == PPO__SFT) {
        ppo_tensor *logp = ppo_lm_response(tape, fit->lm, &batch[0], 1, PPO_POLICY).logp;
        *weight = logp ? (float)logp->rows : 0;
        loss = ppo_tape_scale(tape, ppo_tape_mean(tape, logp), -1, 0);
    } else if (fit->objective == PPO__REWARD) loss = ppo_tape_pairwise_loss(tape, score[0], score[1]);
    else loss = ppo__in_methods.dpo_loss(tape, score, item, fit);
    kept[1] = *weight;
    if (loss) ppo__tape_read(tape, loss->data, 1, kept);
    return loss;
}

/* Checks that another model can score the sequences of the policy. */
static ppo_status ppo__check_peer(const ppo_lm *policy, const ppo_lm *other, const char *name) {
    if (!other) return PPO_OK;
    if (other->base == policy)
        return ppo__refuse("the %s shares the weights of the policy, which would change it", name);
    if (other->config.vocab != policy->config.vocab)
        return ppo__refuse("the policy has a vocabulary of %d tokens, the %s one of %d", policy->config.vocab,
                           name, other->config.vocab);
    if (other->config.context < policy->config.context)
        return ppo__refuse("the policy has a context of %d tokens, the %s one of %d", policy->config.context,
                           name, other->config.context);
    return PPO_OK;
}

/* Checks the data of a set, and finds its items. */
static ppo_status ppo__fit_check_set(ppo__fit *fit, ppo__fit_set *set) {
    const int window = fit->config->window, what = window ? PPO__ANY_LENGTH : PPO__IN_CONTEXT;
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
    if (window) status = ppo__in_hub.fit_windows(fit, set);
    set->order = PPO__ARRAY(&fit->memory, int, set->count);
    for (int i = 0; i < set->count && set->order; ++i) set->order[i] = i;
    return status;
}

static ppo_status ppo__fit_check(ppo__fit *fit, const ppo_lm *reference) {
    const ppo_fit_config *c = fit->config;
    const int pairs = fit->objective != PPO__SFT, context = fit->lm->config.context;
    ppo_status status = ppo__settings_check(ppo_fit_settings(), c);
    if (!status) status = ppo__check_effects(ppo_fit_settings(), c, NULL, NULL);
    if (status) return status;
    if (c->min_learning_rate > c->learning_rate)
        return ppo__refuse("min_learning_rate is %g, above learning_rate, which is %g", c->min_learning_rate,
                           c->learning_rate);
    if (c->window && !ppo__in_hub.fit_windows) return ppo__needs("window", "ppo_hub.h");
    if (c->window && pairs) return ppo__refuse("window is %d, but pairs are whole sequences", c->window);
    if (c->window == 1 || c->window > context)
        return ppo__refuse("window is %d, must be 2 to %d, the context", c->window, context);
    if ((c->evaluate_every || c->evaluate_first || c->patience || c->held_out_rejected) && !c->held_out)
        return ppo__refuse(
            "evaluate_every, evaluate_first, patience and held_out_rejected need held_out, which is NULL");
    if (c->held_out && !ppo__in_judge.evaluate) return ppo__needs("held_out", "ppo_judge.h");
    if (c->held_out && pairs != (c->held_out_rejected != NULL))
        return ppo__refuse("held_out_rejected is %sNULL, but the objective has %s", pairs ? "" : "not ",
                           pairs ? "pairs" : "none");
    status = ppo__fit_check_set(fit, &fit->set[0]);
    if (!status && c->held_out && ppo__fit_check_set(fit, &fit->set[1]))
        status = ppo_fail(ppo__failed, "held-out data: %s", ppo__error);
    return status ? status : ppo__check_peer(fit->lm, reference, "reference");
}

/* Checks everything, takes the memory, and computes the log-probabilities of the reference. */
static ppo_status ppo__fit_begin(ppo__fit *fit, const ppo_lm *reference) {
    const ppo_fit_config *c = fit->config;
    ppo__learner *learner = &fit->learner;
    ppo_status status = ppo__fit_check(fit, reference);
    if (status) return status;
    int count = fit->set[0].count, batch = c->batch_size < count ? c->batch_size : count;
    const int *own = fit->set[0].longest, *other = fit->set[1].longest,
              learned = ppo__max_int(own[0], own[1]);
    const int longest = ppo__max_int(learned, ppo__max_int(other[0], other[1])); /* to measure, too */
    learner->params[0] = fit->lm->params;
    learner->window = c->window;
    fit->batch_size = batch;
    fit->losses = PPO__ARRAY(&fit->memory, float, ppo__at(2, batch));
    fit->best = c->patience ? PPO__ZEROS(&fit->memory, float, fit->lm->params->count) : NULL;
    fit->best_loss = FLT_MAX;
    const ppo__learned losses = {fit->losses, 2 * sizeof(float), 0};
    learner->learned[1] = losses;
    for (int k = 0; k < 2; ++k) {
        if (fit->objective != PPO__SFT) fit->score[k] = PPO__ARRAY(&fit->memory, float, batch);
        const ppo__learned scores = {fit->score[k], sizeof(float), 1};
        learner->learned[2 + k] = scores;
    }
    status = ppo__arena_status(&fit->memory);
    if (!status)
        status = ppo__learner_alloc(learner, batch, (int64_t)batch * learned, longest, c->shards,
                                    c->micro_batch, c->gradient_checkpointing, fit->lm);
    if (!status && reference) status = ppo__in_methods.dpo_begin(fit, reference);
    ppo__fit_use(fit, 0);
    return status ? status : ppo__learner_reserve(learner, fit->set[0].order, longest);
}

/* Adds the losses of n items, times their weights, to *sum, and to *correct the number of pairs whose
   chosen sequence is preferred, with DPO by more than the reference prefers it. */
static void ppo__fit_sum_up(const ppo__fit *fit, const int *item, int n, double *sum, int *correct) {
    float *const *ref_logp = fit->now->ref_logp;
    for (int i = 0; i < fit->learner.micros; ++i) *sum += (double)fit->losses[2 * i] * fit->losses[2 * i + 1];
    for (int i = 0; i < n && fit->score[0]; ++i) {
        float ref = ref_logp[0] ? ref_logp[0][item[i]] - ref_logp[1][item[i]] : 0;
        *correct += fit->score[0][i] - fit->score[1][i] > ref;
    }
}

/* The learning rate of step p->step: it rises linearly, then follows the schedule. */
static float ppo__fit_rate(const ppo_fit_config *c, const ppo_fit_progress *p) {
    const double done = (double)p->step - 1;
    double warm = ceilf(c->warmup * (float)p->steps); /* of floats: 0.05 of 20 is 1, not a bit more */
    if (c->warmup_steps) warm = c->warmup_steps;
    if (done < warm) return (float)(c->learning_rate * (done + 1) / (warm + 1));
    const float least = c->min_learning_rate, share = (float)((done - warm) / ((double)p->steps - warm));
    return least + ppo_schedule(c->learning_rate_schedule, c->learning_rate - least, share);
}

/* A gradient step on n items. */
static ppo_status ppo__fit_step(ppo__fit *fit, const int *item, int n, ppo_fit_progress *p) {
    const ppo_fit_config *c = fit->config;
    ppo_params *params = fit->lm->params;
    const ppo_adam adam = {ppo__fit_rate(c, p), c->adam_beta1, c->adam_beta2, c->adam_eps, c->weight_decay};
    double total = 0, sum = 0;
    int correct = 0;
    p->learning_rate = adam.lr;
    ppo_params_zero_grad(params);
    ppo_status status = ppo__gradients(&fit->learner, item, n, &total);
    if (!status)
        status = ppo__params_step(params, &adam, (float)(1 / total), c->max_grad_norm, &p->grad_norm);
    status = ppo__learner_settle(&fit->learner, status);
    if (status) return status;
    ppo__fit_sum_up(fit, item, n, &sum, &correct);
    p->loss = (float)(sum / total);
    p->accuracy = fit->score[0] && fit->objective != PPO__KTO ? (float)((double)correct / n) : NAN;
    return PPO_OK;
}

/* -- hashes, for ppo_resume.h and ppo_group.h. Inline: without these no compiler warns that nobody calls them -- */

/* ppo__fnv1a() of the arrays of sequences. */
static inline uint64_t ppo__hash_tokens(uint64_t hash, const ppo_tokens *tokens) {
    const size_t count = (size_t)tokens->count, n = (size_t)tokens->start[tokens->count];
    const ppo_array arrays[] = {{"", PPO_I32, 0, {0}, (count + 1) * sizeof(int), tokens->start},
                                {"", PPO_I32, 0, {0}, count * sizeof(int), tokens->prompt},
                                {"", PPO_I32, 0, {0}, n * sizeof(int), tokens->token},
                                {"", PPO_U8, 0, {0}, n, tokens->given}};
    for (int k = 0; k < 4; ++k)
        if (arrays[k].data) hash = ppo__hash_array(hash, &arrays[k]);
    return hash;
}

/* Extends *hash by the weights of a model and its base. */
static inline ppo_status ppo__hash_weights(const ppo_lm *lm, uint64_t *hash) {
    for (; lm; lm = lm->base) {
        const ppo_params *p = lm->params;
        if (ppo__params_fetch(p)) return ppo__failed;
        const ppo_array floats = {"", PPO_F32, 0, {0}, p->count * sizeof(float), p->data};
        const ppo_array packed = {"", PPO_BF16, 0, {0}, p->count * sizeof *p->packed, p->packed};
        *hash = ppo__hash_array(*hash, p->packed ? &packed : &floats);
    }
    return PPO_OK;
}

/* -- a training -- */

/* Checkpoints, by ppo_resume.h. resume() continues from the file or, if there is none, restarts the optimizer. */
typedef struct ppo__fit_functions {
    ppo_status (*resume)(ppo__fit *fit, ppo_fit_progress *p);
    ppo_status (*save)(ppo__fit *fit, ppo_fit_progress *p);
} ppo__fit_functions;
PPO__COMPANION(ppo__fit_functions, ppo__in_resume);

/* Calls the callback, if there is one. */
static ppo_status ppo__fit_report(const ppo__fit *fit, const ppo_fit_progress *p, int *stop) {
    const ppo_fit_config *c = fit->config;
    if (!c->callback) return PPO_OK;
    *stop = c->callback(p, c->callback_user) != 0;
    return ppo__group_any(fit->learner.group, stop);
}

/* What follows a gradient step: held-out loss, callback, the best model at the end, a checkpoint. */
static ppo_status ppo__fit_finish_step(ppo__fit *fit, ppo_fit_progress *p, int every, double began,
                                       int *stop) {
    const ppo_fit_config *c = fit->config;
    const int last = p->step == p->steps;
    ppo_status status = PPO_OK;
    if (c->held_out && (last || p->step % every == 0)) status = ppo__in_judge.evaluate(fit, p);
    p->seconds = ppo_clock() - began;
    p->tokens_per_second = p->seconds > 0 ? (double)fit->learner.tokens / p->seconds : 0;
    if (!status) status = ppo__fit_report(fit, p, stop);
    fit->over = last || (c->patience && fit->worse >= c->patience);
    if (!status && fit->over && fit->best) {
        status = ppo__group_agree(fit->learner.group, ppo_params_sync(fit->lm->params), 0);
        if (!status) memcpy(fit->lm->params->data, fit->best, fit->lm->params->count * sizeof(float));
    }
    if (!status && c->checkpoint && (fit->over || *stop || p->step % c->checkpoint_every == 0))
        status = ppo__in_resume.save(fit, p);
    return status;
}

/* The training from p->step on. */
static ppo_status ppo__fit_run(ppo__fit *fit, ppo_fit_progress *p, int batches) {
    const ppo_fit_config *c = fit->config;
    ppo__fit_set *set = &fit->set[0];
    ppo_rng rng = ppo_rng_stream(c->seed, PPO_STREAM_SHUFFLE, 0);
    const double began = ppo_clock() - p->seconds;
    const int every = c->evaluate_every ? c->evaluate_every : batches;
    int stop = 0;
    ppo_status status = PPO_OK;
    if (c->evaluate_first && !p->step) {
        p->loss = p->accuracy = p->grad_norm = p->held_out_accuracy = p->perplexity = NAN;
        status = ppo__in_judge.evaluate(fit, p);
        if (!status) status = ppo__fit_report(fit, p, &stop);
    }
    for (p->epoch = 1; !fit->over && !stop && !status; ++p->epoch) {
        int64_t done = p->step - (int64_t)(p->epoch - 1) * batches; /* of this epoch; batches or more: all */
        if (c->random_windows) ppo__in_hub.draw_windows(set, &rng);
        ppo_rng_shuffle(&rng, set->order, set->count);
        for (int64_t b = done; b < batches && !fit->over && !stop && !status; ++b) {
            int begin = ppo__share(set->count, b, batches), end = ppo__share(set->count, b + 1, batches);
            ++p->step;
            p->held_out_loss = p->held_out_accuracy = p->perplexity = NAN;
            status = ppo__fit_step(fit, set->order + begin, end - begin, p);
            if (!status) status = ppo__fit_finish_step(fit, p, every, began, &stop);
        }
    }
    return status;
}

/* rejected: of pairs, else NULL; reference: for DPO, else NULL. */
static ppo_status ppo__fit_train(ppo_lm *lm, const ppo_lm *reference, const ppo_tokens *data,
                                 const ppo_tokens *rejected, const ppo_fit_config *config, int objective) {
    ppo__fit fit;
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
    fit.learner.group = ppo__group();
    ppo_status status = ppo_params_freeze(lm->params, 0);
    if (!status) status = ppo__fit_begin(&fit, reference);
    int batches = status ? 0 : ppo__divide_up(fit.set[0].count, fit.batch_size);
    p.steps = config->steps ? config->steps : (int64_t)batches * config->epochs;
    if (!status && config->checkpoint && !ppo__in_resume.resume)
        status = ppo__needs("checkpoint", "ppo_resume.h");
    else if (!status && config->checkpoint) status = ppo__in_resume.resume(&fit, &p);
    else if (!status) ppo_params_reset_optimizer(lm->params);
    const ppo_lm *const models[3] = {lm, reference, NULL};
    const ppo_tokens *const texts[4] = {data, rejected, config->held_out, config->held_out_rejected};
    status = ppo__learner_agree(status, ppo_fit_settings(), config, models, texts, p.step);
    if (!status) status = ppo__fit_run(&fit, &p, batches);
    ppo__learner_free(&fit.learner);
    ppo__arena_free(&fit.memory);
    return status;
}

PPO_DEF ppo_status ppo_fit_sft(ppo_lm *lm, const ppo_tokens *data, const ppo_fit_config *config) {
    if (!PPO__GIVEN("ppo_fit_sft", lm, data, config)) return PPO_ERROR_ARGUMENT;
    return ppo__fit_train(lm, NULL, data, NULL, config, PPO__SFT);
}

PPO_DEF ppo_status ppo_fit_reward(ppo_lm *lm, const ppo_tokens *chosen, const ppo_tokens *rejected,
                                  const ppo_fit_config *config) {
    if (!PPO__GIVEN("ppo_fit_reward", lm, chosen, rejected, config)) return PPO_ERROR_ARGUMENT;
    ppo_status status = ppo__check_score("ppo_fit_reward", lm);
    return status ? status : ppo__fit_train(lm, NULL, chosen, rejected, config, PPO__REWARD);
}

/* -- rewards -- */

/* The mean and the standard deviation of n numbers. */
static double ppo__mean_std(const float *x, int n, double *std) {
    double sum = 0, squares = 0;
    for (int i = 0; i < n; ++i) sum += x[i];
    for (int i = 0; i < n; ++i) squares += (x[i] - sum / n) * (x[i] - sum / n);
    *std = sqrt(squares / n);
    return sum / n;
}

PPO_DEF ppo_status ppo_reward_by_lm(const ppo_samples *samples, float *reward, void *lm) {
    if (!PPO__GIVEN("ppo_reward_by_lm", samples, reward, lm)) return PPO_ERROR_ARGUMENT;
    return ppo_lm_scores((const ppo_lm *)lm, &samples->tokens, 16, reward);
}

/* Calls a reward function for samples of a generator, which it must not use. If it fails without
   ppo_fail(), the error gets a sentence. */
static ppo_status ppo__call_reward(ppo_generator *generator, ppo_reward_fn reward, void *user,
                                   const ppo_samples *samples, float *score) {
    const unsigned failures = ppo__failures;
    if (!reward) return ppo__refuse("there is no reward function");
    for (int s = 0; s < samples->tokens.count; ++s) score[s] = NAN;
    generator->busy = 1;
    ppo_status status = reward(samples, score, user);
    generator->busy = 0;
    return status ? ppo__user_failed(status, failures, "reward function") : PPO_OK;
}

/* --------------------------------------------------------------------------------------------------------
   @@ 22 PPO on tokens

   An iteration with the default settings, in short. A row is one sampled token; the rows of a sequence are
   adjacent.

       samples = ppo_generate(policy, prompts);                                  // ppo__rlhf_collect()
       score[s] = reward(samples[s]);                                            // the user's function

       logp_now, entropy = policy(samples);                                      // ppo__rlhf_evaluate()
       ref_logp = reference(samples);
       value = critic(samples);

       score = (score - mean) / std;            // of all scores so far          // ppo__rlhf_rewards()
       for each row:
           reward[row] = -kl_coef * (logp_now[row] - ref_logp[row]);
       for each sequence s:
           reward[last row of s] += score[s];

       for each sequence, its rows from the last to the first, beyond which      // ppo__rlhf_advantages()
       value and advantage are 0 (bootstrap_truncated: a cut-off sequence has a last value):
           delta = reward[row] + gamma * value[row + 1] - value[row];
           advantage[row] = delta + gamma * gae_lambda * advantage[row + 1];
           value_target[row] = advantage[row] + value[row];
       advantage = (advantage - mean) / std;
       old_logp = samples.logp;                 // of sampling, the same bits    // ppo__rlhf_importance()

       for (epoch = 0; epoch < epochs; ++epoch)                                  // ppo__rlhf_epochs()
           for each minibatch of the shuffled sequences {                        // ppo__rlhf_minibatch()
               logp, entropy = policy(minibatch), new_value = critic(minibatch);
               ratio = exp(logp - old_logp);                                     // ppo__token_loss()
               policy_loss = -mean(min(ratio * advantage,
                                       clamp(ratio, 1 - clip_low, 1 + clip_high) * advantage));
               clipped = value + clamp(new_value - value, -value_clip, value_clip);
               value_loss = 0.5 * mean(max(square(new_value - value_target), square(clipped - value_target)));
               loss = policy_loss + value_coef * value_loss - entropy_coef * mean(entropy);
               differentiate loss with respect to the parameters of policy and critic;
               if (mean(ratio - 1 - log(ratio)) > 1.5 * target_kl) end the epochs;
               clip the gradient's norm to max_grad_norm; take a step of Adam;   // ppo__rlhf_step()
           }

   What differs from section 15: advantages are whitened once in an iteration, not in each minibatch; policy and
   critic are models of their own; a sequence that was cut off counts as ended (unless bootstrap_truncated); the KL
   to the reference model is part of the reward; an iteration that went too far is undone.

   The real loop follows, then the functions that it calls, step by step. Sampling is in section 20. From
   ppo__rlhf_minibatch() the way to the loss leads through ppo__rlhf_gradient() and ppo__gradients() of section
   21, which calls ppo__rlhf_loss() for each micro-batch, and that ppo__token_loss(). What the processes of a
   group exchange is in ppo_group.h. Settings, checks and memory come last.

   Three defaults keep the policy from collapsing. Rewards are normalized, so that no setting depends on their
   scale. The critic is a separate model: a value loss in the policy's layers would disturb the policy.
   target_kl bounds how far an iteration may move the policy (ppo__rlhf_learn()).

   To add state that outlives an iteration: a row in ppo__serialize_rlhf() of ppo_resume.h.
   To add an advantage: a constant at the end of PPO_ADVANTAGE_..., a row of ppo__advantage_needs, a case in
   ppo__sequence_advantage(), and a word in ppo_rlhf_settings(). To add a token loss: a setting, and a term in
   ppo__token_loss(). To add a method: a row of PPO__RLHF_PRESETS.
   -------------------------------------------------------------------------------------------------------- */

/* One number for each row in each array. */
typedef struct ppo__response_rows {
    float *old_logp, *ref_logp; /* of the policy before the epochs, later of the sampler; of the reference */
    float *entropy;
    float *reward, *value, *next_value, *advantage, *value_target;
    float *share;      /* 1 / rows of the sequence */
    float *weight;     /* of a micro-batch only: in the loss, with an aggregation other than tokens */
    float *ref_logits; /* (rows, vocab), for an exact KL in the loss; else NULL */
} ppo__response_rows;

/* What the loss of a micro-batch reports. */
typedef struct ppo__rlhf_stats {
    ppo_policy_stats policy;   /* with the ratios of tokens */
    ppo_policy_stats sequence; /* with the ratios of sequences, if the loss uses these */
    float value_loss;
    float weight; /* its rows */
    int first;    /* 1: of the iteration's first minibatch */
} ppo__rlhf_stats;

struct ppo_rlhf {
    ppo_rlhf_config config;
    ppo_lm *policy;
    ppo_lm *critic; /* gives the values; may be the policy; NULL: no critic */
    const ppo_lm *reference;
    ppo_lm *own_reference, *own_critic; /* freed with the run; NULL: the caller's are used */
    ppo_reward_fn reward;
    void *user;

    ppo_tokens prompts, asked; /* all prompts; those of this iteration, as often as they are sampled */
    int *prompt_order;         /* [prompts] of this pass over the prompts */
    int64_t next_prompt;       /* number of prompts sampled from so far */
    ppo_generator *generator;
    ppo_samples kept_samples;  /* with refills: what is kept from several rounds; else empty */
    float *drawn_score;        /* [sequences] with refills: the scores of one round; else NULL */
    ppo_samples group_samples; /* in a group: those of all processes */

    int sequences;           /* of an iteration */
    int longest;             /* tokens of the longest sequence that there is room for */
    float *score;            /* [sequences] as the reward function returned them */
    float *total;            /* [sequences] sum of the rewards of the sequence's tokens */
    float *earned;           /* [sequences] the same without the KL */
    float *end_value;        /* [sequences] value after the last token */
    int *first_row;          /* [sequences + 1] of each sequence */
    uint64_t *hash;          /* [sequences] scratch of ppo__distinct() */
    ppo__response_rows rows; /* [sequences * longest] */

    ppo__learner learner;
    unsigned char *learns;  /* [sequences] 1: the epochs train on it */
    int *order, trained;    /* [sequences] in the order of the epoch; number of those trained on */
    ppo__rlhf_stats *stats; /* of each micro-batch of an iteration */
    int micros;             /* micro-batches before this minibatch */
    int first;              /* 1: this minibatch is the iteration's first */
    float per_token;        /* of this minibatch: ppo__rlhf_per_token() */
    float rate_factor;      /* of the learning rate, at most 1: see ppo__rlhf_learn() */
    float *kept;            /* the policy's parameters before the epochs; NULL: no target_kl */

    int64_t iteration, samples, tokens;
    double started;
    float kl_coef;
    float entropy_coef, entropy_used;     /* entropy_used: 0 while the entropy is above entropy_target */
    double reward_mean[2], reward_var[2]; /* of all rewards: before this iteration, and including it */
    float variety, first_variety;         /* share of samples that differ: now, and in the first iteration */
    ppo_rlhf_progress initial;            /* of the first iteration, for warnings */
    ppo__arena memory, numbers;           /* numbers: where the tape computes */
};

/* The steps of an iteration, in the order of the calls. */
static ppo_status ppo__rlhf_collect(ppo_rlhf *r, ppo_samples *samples, ppo_rlhf_progress *p);
static ppo_status ppo__check_samples(const ppo_rlhf *r, const ppo_samples *samples, const float *score);
static ppo_status ppo__rlhf_evaluate(ppo_rlhf *r, const ppo_samples *samples);
static ppo_status ppo__rlhf_rewards(ppo_rlhf *r, const ppo_samples *samples, const float *score);
static ppo_status ppo__rlhf_advantages(ppo_rlhf *r, const ppo_samples *samples);
static void ppo__rlhf_describe(ppo_rlhf *r, const ppo_samples *samples, const float *score,
                               ppo_rlhf_progress *p);
static ppo_status ppo__rlhf_importance(ppo_rlhf *r, const ppo_samples *samples);
static ppo_status ppo__rlhf_learn(ppo_rlhf *r, const ppo_samples *samples, ppo_rlhf_progress *p);
static ppo_status ppo__rlhf_epochs(ppo_rlhf *r, ppo_rlhf_progress *p, double *kl);
static ppo_status ppo__rlhf_minibatch(ppo_rlhf *r, const int *item, int n, ppo_rlhf_progress *p, double *kl);
static ppo_status ppo__rlhf_finish(ppo_rlhf *r, ppo_rlhf_progress *p);

/* -- the loop -- */

/* Learns from samples and their scores. */
static ppo_status ppo__rlhf_update(ppo_rlhf *r, const ppo_samples *samples, const float *score,
                                   ppo_rlhf_progress *p) {
    ppo_status status = ppo__check_samples(r, samples, score);
    if (!status) status = ppo__rlhf_evaluate(r, samples);
    if (!status) status = ppo__rlhf_rewards(r, samples, score);
    if (!status) status = ppo__rlhf_advantages(r, samples);
    if (!status) ppo__rlhf_describe(r, samples, score, p);
    if (!status) status = ppo__rlhf_importance(r, samples);
    if (!status) status = ppo__rlhf_learn(r, samples, p);
    return status ? status : ppo__rlhf_finish(r, p);
}

PPO_DEF ppo_status ppo_rlhf_iterate(ppo_rlhf *r, ppo_rlhf_progress *progress) {
    ppo_samples samples;
    ppo_rlhf_progress p;
    if (!PPO__GIVEN("ppo_rlhf_iterate", r)) return PPO_ERROR_ARGUMENT;
    memset(&p, 0, sizeof p);
    ppo_status status = ppo__rlhf_collect(r, &samples, &p);
    if (!status) status = ppo__rlhf_update(r, &samples, r->score, &p);
    if (!status && progress) *progress = p;
    return status;
}

PPO_DEF ppo_status ppo_rlhf_update(ppo_rlhf *r, const ppo_samples *samples, const float *reward,
                                   ppo_rlhf_progress *progress) {
    ppo_rlhf_progress p;
    if (!PPO__GIVEN("ppo_rlhf_update", r, samples, reward)) return PPO_ERROR_ARGUMENT;
    memset(&p, 0, sizeof p);
    ppo_status status = ppo__rlhf_update(r, samples, reward, &p);
    if (!status && progress) *progress = p;
    return status;
}

/* -- samples and their scores -- */

/* Chooses the next n prompts: in passes over all of them, each pass in a new order. *next counts them.
   Those of this process are added to r->asked, each as often as it is sampled. */
static ppo_status ppo__rlhf_choose(ppo_rlhf *r, int n, int64_t *next) {
    const int begin = ppo__own_begin(r->learner.group, n), end = ppo__own_end(r->learner.group, n);
    const int count = r->prompts.count, samples = r->config.samples;
    ppo_status status = PPO_OK;
    ppo_tokens_clear(&r->asked);
    for (int i = 0; i < n && !status; ++i, ++*next) {
        const int at = (int)(*next % count);
        if (i == 0 || at == 0) {
            ppo_rng rng = ppo_rng_stream(r->config.seed, PPO_STREAM_SHUFFLE, 2 * (uint32_t)(*next / count));
            for (int s = 0; s < count; ++s) r->prompt_order[s] = s;
            ppo_rng_shuffle(&rng, r->prompt_order, count);
        }
        if (i >= begin && i < end)
            status = ppo__add_prompt(&r->asked, &r->prompts, r->prompt_order[at], samples);
    }
    r->generator->first = begin * samples;
    return status; /* there is room for all since the run began */
}

/* Samples from the next n prompts and calls the reward function. A process of a group may have no prompt. */
static ppo_status ppo__rlhf_sample(ppo_rlhf *r, int n, ppo_rng *rng, int64_t *next, ppo_samples *samples,
                                   float *score) {
    ppo_sampling sampling = r->config.sampling;
    sampling.seed = (uint64_t)ppo_rng_u32(rng) << 32;
    sampling.seed |= ppo_rng_u32(rng);
    memset(samples, 0, sizeof *samples);
    ppo_status status = ppo__rlhf_choose(r, n, next);
    if (!status && r->asked.count) {
        status = ppo_generate(r->generator, &r->asked, &sampling, samples);
        if (!status)
            status = ppo__call_reward(r->generator, r->reward, r->user, samples, score + r->generator->first);
    }
    if (!r->learner.group) return status;
    return ppo__language_in_group.share_samples(r, n, status, samples, score);
}

/* Samples of the iteration's prompts, and their rewards in r->score. */
static ppo_status ppo__rlhf_collect(ppo_rlhf *r, ppo_samples *samples, ppo_rlhf_progress *p) {
    const ppo_rlhf_config *c = &r->config;
    ppo_rng rng = ppo_rng_stream(c->seed, PPO_STREAM_TOKEN, (uint32_t)r->iteration);
    int64_t next = r->next_prompt;
    float *score = c->refills ? r->drawn_score : r->score;
    ppo_status status = ppo__rlhf_sample(r, c->prompts, &rng, &next, samples, score);
    if (!status && c->refills) status = ppo__in_methods.refill(r, &rng, &next, samples);
    p->refilled = (int)(next - r->next_prompt) - c->prompts;
    return status;
}

/* Samples and scores that ppo_rlhf_update() can learn from: as many as the run has, none too long, all finite. */
static ppo_status ppo__check_samples(const ppo_rlhf *r, const ppo_samples *samples, const float *score) {
    const ppo_tokens *tokens = &samples->tokens;
    if (tokens->count != r->sequences)
        return ppo__refuse("%d samples, must be %d prompts x %d", tokens->count, r->config.prompts,
                           r->config.samples);
    if (!tokens->prompt || !samples->ended)
        return ppo__refuse("the samples' %s is NULL", tokens->prompt ? "ended" : "prompt");
    if (r->config.importance_cap > 0 && !samples->logp)
        return ppo__refuse("importance_cap needs the samples' logp, which is NULL");
    ppo_status status = ppo__check_sequences(r->policy, tokens, PPO__IN_CONTEXT);
    for (int s = 0; s < tokens->count && !status; ++s) {
        const int start = tokens->start[s], end = tokens->start[s + 1];
        if (!ppo__response_length(tokens, s))
            return ppo__refuse("sample %d has no token after its prompt", s);
        if (end - start > r->longest)
            return ppo__refuse("sample %d has %d tokens, the prompts and max_new_tokens allow %d", s,
                               end - start, r->longest);
        if (!(score[s] >= -1e15f && score[s] <= 1e15f)) /* beyond, squares overflow */
            return ppo_fail(PPO_ERROR_NUMERIC, "the reward of sample %d is %g, must be within +-1e15", s,
                            score[s]);
        for (int i = ppo__response_token(tokens, s, 0); samples->logp && i < end; ++i)
            if (!ppo__finite(samples->logp[i]))
                return ppo_fail(PPO_ERROR_NUMERIC, "a log-probability is %g (sample %d, position %d)",
                                samples->logp[i], s, i - start);
    }
    return status;
}

/* -- log-probabilities, entropies and values of the samples -- */

/* The outputs of the policy for the micro-batch, and of the critic, which may be the same model. */
static ppo_response ppo__rlhf_forward(const ppo_rlhf *r, ppo__lane *lane) {
    const ppo_tokens *batch = &lane->batch[0];
    ppo_lm *critic = r->critic;
    const int outputs = critic == r->policy ? PPO_POLICY | PPO_VALUE : PPO_POLICY;
    ppo_response out = ppo_lm_response(lane->tape, r->policy, batch, r->config.sampling.temperature, outputs);
    if (critic && critic != r->policy)
        out.value = ppo_lm_response(lane->tape, critic, batch, 1, PPO_VALUE).value;
    return out;
}

/* What the policy before the epochs, critic and reference compute for the micro-batch that begins with s. */
static ppo_status ppo__rlhf_evaluate_batch(const ppo_rlhf *r, ppo__lane *lane, int s) {
    const ppo_rlhf_config *c = &r->config;
    const ppo__response_rows *rows = &r->rows;
    const ppo_tokens *batch = &lane->batch[0];
    const int vocab = r->policy->config.vocab, row = r->first_row[s];
    ppo_tape *tape = lane->tape;
    ppo_tape_reset(tape);
    ppo_response out = ppo__rlhf_forward(r, lane);
    ppo_tensor *end = NULL;
    if (c->bootstrap_truncated && out.value) end = ppo_lm_sequence_score(tape, r->critic, batch);
    if (ppo_tape_status(tape)) return ppo__tape_settle(tape);
    const size_t n = (size_t)out.logp->rows;
    ppo__tape_read(tape, out.logp->data, n, rows->old_logp + row);
    ppo__tape_read(tape, out.entropy->data, n, rows->entropy + row);
    if (out.value) ppo__tape_read(tape, out.value->data, n, rows->value + row);
    if (end) ppo__tape_read(tape, end->data, end->rows, r->end_value + s);
    ppo_status status = ppo__tape_settle(tape);
    if (status || !r->reference) return status;
    ppo_tape_reset(tape);
    ppo_response ref = ppo_lm_response(tape, r->reference, batch, c->sampling.temperature, PPO_POLICY);
    if (ppo_tape_status(tape)) return ppo__tape_settle(tape);
    ppo__tape_read(tape, ref.logp->data, n, rows->ref_logp + row);
    if (rows->ref_logits)
        ppo__tape_copy(tape, ref.logits->data, n * (size_t)vocab, rows->ref_logits + ppo__at(row, vocab));
    return ppo__tape_settle(tape);
}

/* Each process evaluates a part of the samples, unless the logits of each token had to be exchanged. */
static const ppo_group *ppo__evaluating_group(const ppo_rlhf *r) {
    return r->rows.ref_logits ? NULL : r->learner.group;
}

static void ppo__own_sequences(const ppo_rlhf *r, int *begin, int *end) {
    const int count = r->learner.data[0]->count;
    *begin = ppo__own_begin(ppo__evaluating_group(r), count);
    *end = ppo__own_end(ppo__evaluating_group(r), count);
}

/* Lanes begin .. end - 1, each with its part of the sequences; a failure stays on the lane's tape. */
static void ppo__rlhf_evaluate_lanes(void *user, int range, int begin, int end) {
    const ppo_rlhf *r = (const ppo_rlhf *)user;
    const ppo__learner *learner = &r->learner;
    int first, last;
    ppo__own_sequences(r, &first, &last);
    for (int k = begin; k < end; ++k) {
        ppo__lane *lane = &learner->lane[k];
        const int stop = first + ppo__share(last - first, k + 1, learner->lanes);
        ppo_status status = PPO_OK;
        ppo_tape_reset(lane->tape); /* a lane may have no batch */
        ppo_tape_record(lane->tape, 0);
        for (int s = first + ppo__share(last - first, k, learner->lanes), n; s < stop && !status; s += n) {
            n = ppo__micro_items(learner, r->order + s, stop - s);
            status = ppo__gather_items(learner, lane, r->order + s, n);
            if (!status) status = ppo__rlhf_evaluate_batch(r, lane, s);
        }
        ppo_tape_record(lane->tape, 1);
        if (status) ppo__tape_fail(lane->tape, status);
    }
}

/* The order of the sequences, and where their rows begin. */
static void ppo__rlhf_index(ppo_rlhf *r, const ppo_tokens *tokens) {
    for (int s = 0; s < tokens->count; ++s) {
        r->order[s] = s;
        r->first_row[s + 1] = r->first_row[s] + ppo__response_length(tokens, s);
    }
}

/* next_value is the value of the next row. After the last one it is 0 or, with bootstrap_truncated, for a
   truncated sequence the value of the whole sequence: so ppo_gae() need not know how a sequence ended. */
static void ppo__rlhf_next_values(ppo_rlhf *r, const ppo_samples *samples) {
    for (int s = 0; s < samples->tokens.count && r->critic; ++s) {
        const int row = r->first_row[s], last = r->first_row[s + 1] - 1;
        float *next_value = r->rows.next_value;
        memcpy(next_value + row, r->rows.value + row + 1, (last - row) * sizeof(float));
        next_value[last] = r->config.bootstrap_truncated && !samples->ended[s] ? r->end_value[s] : 0;
    }
}

/* What policy, critic and reference say of the samples: log-probabilities, entropies and values of all rows. */
static ppo_status ppo__rlhf_evaluate(ppo_rlhf *r, const ppo_samples *samples) {
    const int lanes = r->learner.lanes;
    ppo_status status = PPO_OK;
    r->learner.data[0] = &samples->tokens;
    ppo__rlhf_index(r, &samples->tokens);
    ppo__for_each(lanes, ppo__rlhf_evaluate_lanes, r);
    for (int k = 0; k < lanes && !status; ++k) status = ppo_tape_status(r->learner.lane[k].tape);
    if (r->learner.group) status = ppo__language_in_group.share_evaluation(r, status);
    if (!status) ppo__rlhf_next_values(r, samples);
    return status;
}

/* -- rewards -- */

/* Updates mean and variance of all rewards so far with those of this iteration. After the first 100, a
   reward more than 10 standard deviations from the mean counts as if it were that far: otherwise a single
   1e6 among rewards of 0 and 1 would make all later ones the same. */
static void ppo__rlhf_reward_moments(ppo_rlhf *r, const float *score, int count) {
    const double most = r->samples >= 100 && r->reward_var[0] > 0 ? 10 * sqrt(r->reward_var[0]) : INFINITY;
    const double low = r->reward_mean[0] - most, high = r->reward_mean[0] + most;
    double mean = 0, var = 0;
    for (int s = 0; s < count; ++s) mean += fmin(fmax(score[s], low), high) / (double)count;
    for (int s = 0; s < count; ++s) {
        const double off = fmin(fmax(score[s], low), high) - mean;
        var += off * off / count;
    }
    r->reward_mean[1] = r->reward_mean[0];
    r->reward_var[1] = r->reward_var[0];
    ppo__merge_moments(&r->reward_mean[1], &r->reward_var[1], (double)r->samples, mean, var, count);
}

/* The reward of the last token of sequence s without its KL: the score, normalized and clipped, less the
   penalties of the sequence's end. overlong_penalty: DAPO, Yu 2025, eq. 13. */
static float ppo__last_reward(const ppo_rlhf *r, const ppo_samples *samples, int s, float score) {
    const ppo_rlhf_config *c = &r->config;
    const ppo_tokens *tokens = &samples->tokens;
    const double mean = c->normalize_rewards ? r->reward_mean[1] : 0;
    const double std = c->normalize_rewards && r->reward_var[1] > 0 ? sqrt(r->reward_var[1]) : 1;
    const int limit = ppo__longest(&c->sampling, r->policy->config.context, tokens->prompt[s]);
    const int over = tokens->start[s + 1] - tokens->start[s] - (limit - c->overlong_buffer);
    float last = (float)((score - mean) / std);
    if (c->reward_clip > 0) last = ppo__clamp(last, -c->reward_clip, c->reward_clip);
    if (!samples->ended[s]) last -= c->missing_eos_penalty;
    if (c->overlong_buffer > 0 && over > 0)
        last -= c->overlong_penalty * (float)over / (float)c->overlong_buffer;
    return last;
}

/* The reward of each token: minus its KL and the length penalty; at the last one also ppo__last_reward(). */
static ppo_status ppo__rlhf_rewards(ppo_rlhf *r, const ppo_samples *samples, const float *score) {
    const ppo_rlhf_config *c = &r->config;
    const ppo__response_rows *rows = &r->rows;
    const int count = samples->tokens.count;
    const float kl_coef = c->kl_place == PPO_KL_IN_REWARD ? r->kl_coef : 0;
    ppo__rlhf_reward_moments(r, score, count);
    for (int s = 0; s < count; ++s) {
        const int begin = r->first_row[s], end = r->first_row[s + 1], length = end - begin;
        const float last = ppo__last_reward(r, samples, s, score[s]);
        double total = 0;
        for (int row = begin; row < end; ++row) {
            float kl = kl_coef > 0 ? kl_coef * (rows->old_logp[row] - rows->ref_logp[row]) : 0; /* k1 */
            rows->reward[row] = (row + 1 == end ? last : 0) - kl - c->length_penalty;
            rows->share[row] = 1 / (float)length;
            total += rows->reward[row];
        }
        r->total[s] = (float)total;
        r->earned[s] = last - (float)length * c->length_penalty;
    }
    return c->whiten_rewards ? ppo_whiten(rows->reward, NULL, r->first_row[count], 0) : PPO_OK;
}

/* -- advantages -- */

/* By PPO_ADVANTAGE_...: does it need a critic, several samples of each prompt, whitening? */
static const struct {
    int critic, group, whiten;
} ppo__advantage_needs[] = {
    {1, 0, 1}, /* GAE */
    {1, 0, 1}, /* SEQUENCE */
    {0, 1, 0}, /* GROUP */
    {0, 1, 0}, /* LEAVE_ONE_OUT */
    {0, 1, 0}, /* GROUP_MEAN */
    {0, 0, 1}, /* RETURN */
};

static double ppo__sum(const float *x, int n) {
    double sum = 0;
    for (int i = 0; i < n; ++i) sum += x[i];
    return sum;
}

/* Token by token; without a critic all values are 0. */
static ppo_status ppo__token_advantages(ppo_rlhf *r, int s, float lambda, int targets) {
    const ppo__response_rows *rows = &r->rows;
    const int row = r->first_row[s], n = r->first_row[s + 1] - row;
    return ppo_gae(rows->reward + row, rows->value + row, rows->next_value + row, NULL, NULL, n, 1,
                   r->config.gamma, lambda, rows->advantage + row, targets ? rows->value_target + row : NULL);
}

/* (S - mean S) / (std S + 1e-4) + K - mean K, where R, the total, is S + K, and K, the penalty, is the part of R that is KL. K
   differs from sample to sample even where all S are equal, and std S is 0: so K is not divided by it. */
static double ppo__group_advantage(const ppo_rlhf *r, int s) {
    const int k = r->config.samples, first = s / k * k;
    const float *earned = r->earned + first, score = r->earned[s], penalty = r->total[s] - score;
    const double sum_total = ppo__sum(r->total + first, k), sum_score = ppo__sum(earned, k),
                 mean_score = sum_score / k;
    double squares = 0;
    for (int i = 0; i < k; ++i) squares += (earned[i] - mean_score) * (earned[i] - mean_score);
    return (score - mean_score) / (sqrt(squares / (k - 1)) + 1e-4) + (penalty - (sum_total - sum_score) / k);
}

/* The advantages of sequence s: most are the same for all its tokens, and made of R, the sum of its rewards. */
static ppo_status ppo__sequence_advantage(ppo_rlhf *r, int s) {
    const int k = r->config.samples;
    const float total = r->total[s], own = r->config.critic_lambda;
    const float *group = r->total + s / k * k; /* of the k samples of the same prompt */
    double advantage = 0;
    switch (r->config.advantage) {
    case PPO_ADVANTAGE_GAE: /* Schulman 2016; the critic's targets by a lambda of their own: Yuan 2025 */
        if (own >= 0 && ppo__token_advantages(r, s, own, 1)) return ppo__failed;
        return ppo__token_advantages(r, s, r->config.gae_lambda, own < 0);
    case PPO_ADVANTAGE_RETURN: /* REINFORCE++, Hu 2025: GAE with lambda 1 */
        return ppo__token_advantages(r, s, 1, 1);
    case PPO_ADVANTAGE_SEQUENCE: /* less what the critic expected of the prompt */
        advantage = total - r->rows.value[r->first_row[s]];
        break;
    case PPO_ADVANTAGE_GROUP: /* GRPO, Shao 2024 */
        advantage = ppo__group_advantage(r, s);
        break;
    case PPO_ADVANTAGE_LEAVE_ONE_OUT: /* RLOO, Ahmadian 2024: less the mean of the others */
        advantage = total - (ppo__sum(group, k) - total) / (k - 1);
        break;
    case PPO_ADVANTAGE_GROUP_MEAN: /* Dr. GRPO, Liu 2025: less the mean of all */
        advantage = total - ppo__sum(group, k) / k;
        break;
    }
    for (int row = r->first_row[s]; row < r->first_row[s + 1]; ++row) {
        r->rows.advantage[row] = (float)advantage;
        r->rows.value_target[row] = total;
    }
    return PPO_OK;
}

/* The advantage of each row, by GAE or from the whole sequences, whitened if it is so set. */
static ppo_status ppo__rlhf_advantages(ppo_rlhf *r, const ppo_samples *samples) {
    const ppo_rlhf_config *c = &r->config;
    const int count = samples->tokens.count;
    const int whiten =
        c->whiten_advantages < 0 ? ppo__advantage_needs[c->advantage].whiten : c->whiten_advantages;
    ppo_status status = PPO_OK;
    for (int s = 0; s < count && !status; ++s) status = ppo__sequence_advantage(r, s);
    return status || !whiten ? status : ppo_whiten(r->rows.advantage, NULL, r->first_row[count], 1);
}

/* -- figures of the samples -- */

static int ppo__by_number(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The share of samples that equal no earlier one of their group. hash [count] is scratch. */
static float ppo__distinct(const ppo_tokens *tokens, int group, uint64_t *hash) {
    int distinct = 0, count = tokens->count;
    for (int s = 0; s < count; ++s) {
        const int in = s / group, *token = tokens->token + tokens->start[s];
        hash[s] = ppo__fnv1a(ppo__fnv1a(PPO__FNV1A, &in, sizeof in), token,
                             (size_t)(tokens->start[s + 1] - tokens->start[s]) * sizeof *token);
    }
    qsort(hash, (size_t)count, sizeof *hash, ppo__by_number);
    for (int s = 0; s < count; ++s) distinct += s == 0 || hash[s] != hash[s - 1];
    return (float)distinct / (float)count;
}

/* The coefficient of the entropy after samples of this entropy. */
static float ppo__rlhf_entropy_coef(const ppo_rlhf *r, float entropy) {
    const ppo_rlhf_config *c = &r->config;
    if (!(c->entropy_target > 0)) return c->entropy_coef;
    float step = entropy <= c->entropy_target ? c->entropy_step : -c->entropy_step;
    return ppo__clamp(r->entropy_coef + step, 0, 1);
}

/* The figures of the samples, before the epochs. */
static void ppo__rlhf_describe(ppo_rlhf *r, const ppo_samples *samples, const float *score,
                               ppo_rlhf_progress *p) {
    const ppo_rlhf_config *c = &r->config;
    const int count = samples->tokens.count, rows = r->first_row[count];
    double std, k1 = 0, k3 = 0, entropy = 0;
    int ended = 0;
    p->reward = (float)ppo__mean_std(score, count, &std);
    p->reward_std = (float)std;
    for (int i = 0; i < rows; ++i) {
        double l = (double)r->rows.ref_logp[i] - r->rows.old_logp[i];
        k1 -= l;
        k3 += expm1(l) - l;
        entropy += r->rows.entropy[i];
    }
    p->kl = r->reference ? (float)(k1 / count) : NAN;
    p->kl_k3 = r->reference ? (float)(k3 / count) : NAN;
    p->kl_coef = r->kl_coef;
    p->entropy = (float)(entropy / rows);
    const int enough = c->entropy_target > 0 && p->entropy > c->entropy_target;
    r->entropy_used = p->entropy_coef = enough ? 0 : ppo__rlhf_entropy_coef(r, p->entropy);
    for (int s = 0; s < count; ++s) ended += samples->ended[s];
    p->mean_length = (float)rows / (float)count;
    p->ended = (float)ended / (float)count;
    p->distinct = ppo__distinct(&samples->tokens, count, r->hash);
    r->variety = c->samples > 1 ? ppo__distinct(&samples->tokens, c->samples, r->hash) : p->distinct;
    p->explained_variance = NAN;
    if (r->critic) p->explained_variance = ppo_explained_variance(r->rows.value, r->rows.value_target, rows);
    p->samples = r->samples + count;
    p->tokens = r->tokens + rows;
}

/* -- samples of another policy -- */

/* The KL per token above which an iteration takes no further step. */
static double ppo__rlhf_most_kl(const ppo_rlhf *r) {
    return r->config.target_kl > 0 ? 1.5 * r->config.target_kl : INFINITY;
}

/* Chooses the policy that the loss's ratio refers to. Without importance_cap it is the one that sampled: old_logp
   becomes samples->logp, whose bits are those of training. With it, ppo_methods.h weights the advantages, and the
   ratio of the loss is to the policy before the epochs. */
static ppo_status ppo__rlhf_importance(ppo_rlhf *r, const ppo_samples *samples) {
    double distance = 0; /* k3 from the policy that sampled to this one */
    if (r->config.importance_cap > 0) return ppo__in_methods.weigh(r, samples);
    for (int s = 0; s < samples->tokens.count && samples->logp; ++s)
        for (int row = r->first_row[s], at = 0; row < r->first_row[s + 1]; ++row, ++at) {
            float *old = &r->rows.old_logp[row];
            at = ppo__response_token(&samples->tokens, s, at);
            distance += (double)ppo__k3(*old - samples->logp[at]) / r->first_row[samples->tokens.count];
            *old = samples->logp[at];
        }
    if (distance <= ppo__rlhf_most_kl(r)) return PPO_OK;
    return ppo__refuse("another policy sampled this (KL per token %.3g, target_kl is %g): set importance_cap",
                       distance, r->config.target_kl);
}

/* -- epochs -- */

/* Means over the rows of all micro-batches of the epochs; and the ratios of the first minibatch. */
static void ppo__rlhf_sum_up(const ppo_rlhf *r, ppo_rlhf_progress *p) {
    double total = 0;
    p->first_ratio_min = r->micros ? INFINITY : 1;
    p->first_ratio_max = r->micros ? -INFINITY : 1;
    for (const ppo__rlhf_stats *stats = r->stats; stats < r->stats + r->micros; ++stats) {
        const ppo_policy_stats *token = &stats->policy, *s = token;
        if (r->config.ratio == PPO_RATIO_SEQUENCE) s = &stats->sequence;
        const float values[] = {s->loss, stats->value_loss, token->approx_kl, token->old_approx_kl,
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
}

/* A learning rate, by the number of iterations done. */
static float ppo__rlhf_rate(const ppo_rlhf *r, float initial) {
    const ppo_rlhf_config *c = &r->config;
    double done = r->iteration < c->iterations ? (double)r->iteration / c->iterations : 1;
    float least = ppo__min(c->min_learning_rate, initial);
    return least + ppo_schedule(c->learning_rate_schedule, initial - least, (float)done);
}

/* The epochs, within a trust region: target_kl. Later steps do not repair the damage of a step far beyond it, so
   the policy then returns to where it was and learns from the same samples with half the learning rate. That is
   lowered, too, if target_kl ends the first epoch, and recovers after iterations that it does not end. */
static ppo_status ppo__rlhf_learn(ppo_rlhf *r, const ppo_samples *samples, ppo_rlhf_progress *p) {
    const ppo_rlhf_config *c = &r->config;
    ppo_params *params = r->policy->params;
    const int64_t step = params->step;
    double kl = 0;
    r->trained = 0;
    for (int s = 0; s < r->sequences; ++s) {
        r->learns[s] = samples->ended[s] || !c->mask_truncated;
        r->trained += r->learns[s];
    }
    if (r->kept) ppo__params_copy(params, r->kept, 0);
    for (int attempt = 0; attempt < 10; ++attempt) {
        p->learning_rate = r->rate_factor * ppo__rlhf_rate(r, c->learning_rate);
        ppo_status status = ppo__rlhf_epochs(r, p, &kl);
        status = ppo__settle(r->learner.lane[0].tape->device, status);
        if (status) return status;
        if (!r->kept || kl <= 4 * c->target_kl) break;
        ppo__params_copy(params, r->kept, 1);
        params->step = step;
        p->gradient_steps = 0;
        r->rate_factor /= 2;
    }
    if (kl <= ppo__rlhf_most_kl(r)) r->rate_factor = ppo__min(1, 1.2f * r->rate_factor);
    else if (p->gradient_steps < ppo__divide_up(r->trained, c->minibatch_size)) r->rate_factor *= 0.8f;
    ppo__rlhf_sum_up(r, p);
    return PPO_OK;
}

/* Epochs of minibatches of the sequences to learn from, until *kl, how far they took the policy, is too large. */
static ppo_status ppo__rlhf_epochs(ppo_rlhf *r, ppo_rlhf_progress *p, double *kl) {
    const ppo_rlhf_config *c = &r->config;
    const int count = r->trained, batches = count ? ppo__divide_up(count, c->minibatch_size) : 0;
    const double most = ppo__rlhf_most_kl(r);
    ppo_rng rng = ppo_rng_stream(c->seed, PPO_STREAM_SHUFFLE, 2 * (uint32_t)r->iteration + 1);
    ppo_status status = PPO_OK;
    r->micros = p->gradient_steps = 0;
    *kl = 0;
    for (int s = 0, i = 0; s < r->sequences; ++s)
        if (r->learns[s]) r->order[i++] = s;
    for (int epoch = 0; epoch < c->epochs && !status && *kl <= most; ++epoch) {
        ppo_rng_shuffle(&rng, r->order, count);
        for (int b = 0; b < batches && !status && *kl <= most; ++b) {
            const int begin = ppo__share(count, b, batches), end = ppo__share(count, b + 1, batches);
            r->first = epoch == 0 && b == 0;
            status = ppo__rlhf_minibatch(r, r->order + begin, end - begin, p, kl);
        }
    }
    return status;
}

/* What turns a mean over the tokens of n sequences into their sum / n, with PPO_AGGREGATE_CONSTANT and by that. */
static float ppo__rlhf_per_token(const ppo_rlhf *r, const int *item, int n) {
    const int most = ppo__longest(&r->config.sampling, r->policy->config.context, 1) - 1;
    const float by = r->config.aggregation == PPO_AGGREGATE_CONSTANT ? (float)most : 1;
    float rows = 0;
    for (int i = 0; i < n; ++i) rows += (float)(r->first_row[item[i] + 1] - r->first_row[item[i]]);
    return rows / ((float)n * by);
}

/* The gradient of the mean loss over the *rows of n sequences, times *rows. */
static ppo_status ppo__rlhf_gradient(ppo_rlhf *r, const int *item, int n, double *rows) {
    ppo_params_zero_grad(r->policy->params);
    if (r->critic && r->critic != r->policy) ppo_params_zero_grad(r->critic->params);
    r->per_token = ppo__rlhf_per_token(r, item, n);
    r->learner.learned[1].data = &r->stats[r->micros];
    ppo_status status = ppo__gradients(&r->learner, item, n, rows);
    r->micros += r->learner.micros;
    return status;
}

/* A step of Adam on the policy, and on a separate critic. scale: of the gradients. */
static ppo_status ppo__rlhf_step(ppo_rlhf *r, float scale, ppo_rlhf_progress *p) {
    const ppo_rlhf_config *c = &r->config;
    ppo_adam adam = {p->learning_rate, c->adam_beta1, c->adam_beta2, c->adam_eps, c->weight_decay};
    ppo_status status = ppo__params_step(r->policy->params, &adam, scale, c->max_grad_norm, &p->grad_norm);
    ++p->gradient_steps;
    if (c->critic_learning_rate > 0) adam.lr = ppo__rlhf_rate(r, c->critic_learning_rate);
    if (!status && r->critic && r->critic != r->policy)
        status = ppo__params_step(r->critic->params, &adam, scale, c->max_grad_norm, NULL);
    return r->learner.group ? ppo__learner_settle(&r->learner, status) : status;
}

/* How far the iteration's earlier steps took the policy: the mean of k3 over the rows of this minibatch,
   whose stats these are. */
static ppo_status ppo__rlhf_measure_kl(const ppo_rlhf *r, const ppo__rlhf_stats *stats, double rows,
                                       double *kl) {
    ppo_status status = ppo__learner_settle(&r->learner, PPO_OK);
    for (*kl = 0; stats < r->stats + r->micros; ++stats)
        *kl += (double)stats->policy.approx_kl * stats->weight / rows;
    return status;
}

/* A gradient step on n sequences; with target_kl, none if *kl shows that earlier ones went too far. */
static ppo_status ppo__rlhf_minibatch(ppo_rlhf *r, const int *item, int n, ppo_rlhf_progress *p, double *kl) {
    const ppo__rlhf_stats *stats = &r->stats[r->micros];
    double rows = 0;
    ppo_status status = ppo__rlhf_gradient(r, item, n, &rows);
    if (!status && r->config.target_kl > 0 && p->gradient_steps)
        status = ppo__rlhf_measure_kl(r, stats, rows, kl);
    if (status || !(*kl <= ppo__rlhf_most_kl(r))) return status;
    return ppo__rlhf_step(r, (float)(1 / rows), p);
}

/* -- the loss of a micro-batch -- */

/* Copies the rows of the micro-batch's sequences; returns how many there are. */
static int ppo__rlhf_gather_rows(const ppo_rlhf *r, ppo__lane *lane, const int *item,
                                 ppo__response_rows *to) {
    const ppo__response_rows *from = &r->rows;
    const struct {
        const float *from;
        float **to;
    } columns[] = {{from->old_logp, &to->old_logp}, {from->ref_logp, &to->ref_logp},
                   {from->value, &to->value},       {from->advantage, &to->advantage},
                   {from->share, &to->share},       {from->value_target, &to->value_target}};
    const size_t vocab = r->policy->config.vocab, kinds = sizeof columns / sizeof *columns;
    const int aggregation = r->config.aggregation, count = lane->batch[0].count;
    size_t at = 0, all = 0;
    memset(to, 0, sizeof *to);
    for (int i = 0; i < count; ++i) all += (size_t)(r->first_row[item[i] + 1] - r->first_row[item[i]]);
    float *numbers = (float *)ppo__tape_take(lane->tape, (kinds + 1) * all, sizeof(float));
    if (from->ref_logits) to->ref_logits = ppo_tape_alloc(lane->tape, all * vocab);
    if (ppo_tape_status(lane->tape)) return 0;
    for (size_t k = 0; k < kinds; ++k) *columns[k].to = numbers + k * all;
    to->weight = numbers + kinds * all;
    for (int i = 0; i < count; ++i) {
        size_t row = (size_t)r->first_row[item[i]], n = (size_t)r->first_row[item[i] + 1] - row;
        for (size_t k = 0; k < kinds; ++k)
            memcpy(*columns[k].to + at, columns[k].from + row, n * sizeof(float));
        for (size_t k = at; k < at + n && aggregation != PPO_AGGREGATE_TOKENS; ++k) {
            to->weight[k] = r->per_token * (aggregation == PPO_AGGREGATE_SEQUENCES ? to->share[k] : 1);
            to->advantage[k] *= to->weight[k];
        }
        if (to->ref_logits)
            ppo__tape_copy(lane->tape, from->ref_logits + row * vocab, n * vocab,
                           to->ref_logits + at * vocab);
        at += n;
    }
    return (int)all;
}

/* log pi - log old, of the micro-batch's rows. */
static ppo_tensor *ppo__tape_log_ratio(ppo_tape *tape, ppo_tensor *logp, const float *old_logp) {
    ppo_tensor *old = logp ? ppo_tape_constant(tape, old_logp, logp->rows, 1) : NULL;
    return ppo_tape_add(tape, logp, ppo_tape_scale(tape, old, -1, 0));
}

/* KL(policy || reference) of each token (n, 1), as a term of the loss, by the estimators of section 9. */
static ppo_tensor *ppo__kl_loss(const ppo_rlhf_config *c, ppo_tape *tape, const ppo_response *out,
                                const ppo__response_rows *rows) {
    if (c->kl_estimator == PPO_KL_EXACT)
        return ppo__in_methods.exact_kl(tape, out->logits, rows->ref_logits, c->sampling.temperature);
    ppo_tensor *d = ppo_tape_scale(tape, out->logp, -1, 0); /* log ref - log pi */
    if (d) d = ppo_tape_add(tape, d, ppo_tape_constant(tape, rows->ref_logp, d->rows, 1));
    if (c->kl_estimator == PPO_K2) return ppo_tape_scale(tape, ppo_tape_square(tape, d), 0.5f, 0);
    ppo_tensor *kl = ppo_tape_scale(tape, d, -1, 0); /* k1 */
    if (c->kl_estimator == PPO_K3)
        kl = ppo_tape_scale(tape, ppo_tape_add(tape, ppo_tape_exp(tape, d), kl), 1, -1);
    if (!c->kl_weighted) return kl;
    return ppo_tape_mul(tape, kl, ppo_tape_exp(tape, ppo__tape_log_ratio(tape, out->logp, rows->old_logp)));
}

/* L = policy + value_coef value - entropy_coef entropy + kl_coef KL: means over the rows of a micro-batch.
   With an aggregation other than tokens, the rows of the policy's and the KL's terms have weights. The
   advantages are already multiplied by them. */
static ppo_tensor *ppo__token_loss(const ppo_rlhf_config *c, ppo_tape *tape, const ppo_response *out,
                                   const ppo_tokens *batch, const ppo__response_rows *rows, float kl_coef,
                                   float entropy_coef, ppo__rlhf_stats *stats) {
    ppo_tensor *loss = ppo_tape_policy_loss(tape, out->logp, rows->old_logp, rows->advantage, NULL,
                                            &c->objective, &stats->policy);
    if (c->ratio == PPO_RATIO_SEQUENCE) {
        ppo_tensor *logp =
            ppo__in_methods.sequence_ratio(tape, out->logp, batch, rows->old_logp, rows->share);
        loss = ppo_tape_policy_loss(tape, logp, rows->old_logp, rows->advantage, NULL, &c->objective,
                                    &stats->sequence);
    }
    if (out->value) {
        ppo_tensor *value = ppo_tape_value_loss(tape, out->value, rows->value, rows->value_target, NULL,
                                                c->value_clip, INFINITY);
        if (value) ppo__tape_read(tape, value->data, 1, &stats->value_loss);
        loss = ppo_tape_add(tape, loss, ppo_tape_scale(tape, value, c->value_coef, 0));
    }
    if (entropy_coef != 0) {
        ppo_tensor *entropy = ppo_tape_mean(tape, out->entropy);
        loss = ppo_tape_add(tape, loss, ppo_tape_scale(tape, entropy, -entropy_coef, 0));
    }
    if (c->kl_place != PPO_KL_IN_LOSS || !(kl_coef > 0)) return loss;
    ppo_tensor *kl = ppo__kl_loss(c, tape, out, rows);
    if (kl && c->aggregation != PPO_AGGREGATE_TOKENS)
        kl = ppo_tape_mul(tape, kl, ppo_tape_constant(tape, rows->weight, kl->rows, 1));
    return ppo_tape_add(tape, loss, ppo_tape_scale(tape, ppo_tape_mean(tape, kl), kl_coef, 0));
}

/* The loss of a micro-batch, which ppo__gradients() calls as learner.loss. */
static ppo_tensor *ppo__rlhf_loss(void *user, ppo__lane *lane, const int *item, float *weight) {
    const ppo_rlhf *r = (const ppo_rlhf *)user;
    ppo__rlhf_stats *stats = &r->stats[r->micros + lane->micro];
    ppo__response_rows rows;
    memset(stats, 0, sizeof *stats);
    stats->first = r->first;
    stats->weight = *weight = (float)ppo__rlhf_gather_rows(r, lane, item, &rows);
    ppo_response out = ppo__rlhf_forward(r, lane);
    return ppo__token_loss(&r->config, lane->tape, &out, &lane->batch[0], &rows, r->kl_coef, r->entropy_used,
                           stats);
}

/* -- the end of an iteration -- */

/* Writes a warning of the first sign of failure that holds. If the reward rose by two standard errors,
   most of the signs are none: the policy repeats what is right. */
static void ppo__rlhf_warn(ppo_rlhf *r, ppo_rlhf_progress *p) {
    const ppo_rlhf_progress *first = &r->initial;
    const int alike = ppo__advantage_needs[r->config.advantage].group ? r->config.samples : r->sequences;
    int same = 1;
    if (r->iteration == 1) r->initial = *p, r->first_variety = r->variety;
    for (int s = 0; s < r->sequences; ++s) same &= r->earned[s] == r->earned[s / alike * alike];
    const float pays_from = first->reward + 2 * first->reward_std / sqrtf((float)r->sequences);
    const float errors = (first->reward_std + p->reward_std) / sqrtf((float)r->config.prompts);
    const double std = r->config.normalize_rewards ? sqrt(r->reward_var[0]) : 0, length = p->mean_length;
    const struct {
        int always, holds; /* always: even if the reward rose */
        const char *text;
        double now, then;
    } table[] = {
        {1, r->config.mask_truncated && !r->trained,
         "no sample ended, and mask_truncated is yes: nothing was learned", 0, 0},
        {0, same && r->config.gamma > 0, /* at 0 the KL of each token teaches */
         "the samples of every prompt earned the same: the rewards taught nothing", 0, 0},
        {0, p->reward_std < 0.05 * std,
         "the rewards' standard deviation is %.3g, of all so far %.3g: outliers hide the others",
         p->reward_std, std},
        {0, r->variety < 0.5f * r->first_variety,
         "only %.0f %% of the samples differ, first %.0f %%: the policy repeats itself", 100.0 * r->variety,
         100.0 * r->first_variety},
        {0, p->kl > length, "the KL to the reference is %.3g, more than 1 per token: it runs away", p->kl, 0},
        {0, p->entropy < 0.1f * first->entropy,
         "the entropy fell to %.2g, less than a tenth of the first %.2g", p->entropy, first->entropy},
        {1, length > 2 * first->mean_length || length < 0.5 * first->mean_length,
         "samples have %.1f tokens, in the first iteration %.1f: length drifts", length, first->mean_length},
        {0, p->reward < first->reward - 2 * errors, "the reward fell to %.3g, in the first iteration %.3g",
         p->reward, first->reward},
    };
    for (size_t k = 0; k < sizeof table / sizeof *table && !*p->warning; ++k)
        if (table[k].holds && (table[k].always || !(p->reward > pays_from)))
            snprintf(p->warning, sizeof p->warning, table[k].text, table[k].now, table[k].then);
}

/* Counters, warnings, and the coefficients of the next iteration. */
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
    if (c->penalty_target_kl > 0)
        r->kl_coef = ppo_adaptive_kl(r->kl_coef, p->kl, c->penalty_target_kl, r->sequences, c->kl_horizon);
    r->entropy_coef = ppo__rlhf_entropy_coef(r, p->entropy);
    return c->reference_every ? ppo__in_methods.renew_reference(r) : PPO_OK;
}

/* -- settings -- */

enum { PPO__MOST_SAMPLES = 1 << 24 }; /* of an iteration */

static const ppo_need ppo__rlhf_needs[] = {
    {"critic_learning_rate", "advantage", "gae|sequence"},
    {"whiten_rewards", "advantage", "gae"},
    {"bootstrap_truncated", "advantage", "gae"},
    {"gae_lambda", "advantage", "gae"},
    {"critic_lambda", "advantage", "gae"},
    {"value_coef", "advantage", "gae|sequence"},
    {"gamma", "advantage", "gae|return"},
    {"value_clip", "advantage", "gae|sequence"},
    {"dual_clip", "objective", "clip"},
    {"objective_kl_coef", "objective", "k3-penalty"},
    {"penalty_target_kl", "kl_coef", NULL},
    {"entropy_step", "entropy_target", NULL},
    {"clip_low", "objective", "clip|cispo"},
    {"clip_high", "objective", "clip|cispo"},
    {"critic_learning_rate", "value_coef", NULL},
    {"overlong_penalty", "overlong_buffer", NULL},
    {"reference_every", "kl_coef", NULL},
    {"importance_floor", "importance_cap", NULL},
    {"kl_weighted", "kl_place", "loss"},
    {"importance_mode", "importance_cap", NULL},
    {"min_learning_rate", "learning_rate_schedule", "linear|cosine"},
    {NULL, NULL, NULL},
};

/* A preset resets every setting that defines the method. */
#define PPO__METHOD                                                                                     \
    "objective clip_low clip_high dual_clip objective_kl_coef ratio aggregation kl_place kl_estimator " \
    "penalty_target_kl kl_horizon kl_weighted overlong_buffer overlong_penalty refills mask_truncated " \
    "whiten_rewards bootstrap_truncated whiten_advantages entropy_coef entropy_target entropy_step "    \
    "critic_learning_rate gamma gae_lambda critic_lambda value_coef value_clip"
#define PPO__METHOD_ROW(ROW, name, values) ROW(name, PPO__METHOD, "samples=8 kl_coef=0 " values)
#define PPO__RLHF_PRESETS(ROW)                                                                               \
    PPO__METHOD_ROW(ROW, "ppo", "advantage=gae samples=1 kl_coef=0.05")                                      \
    PPO__METHOD_ROW(ROW, "rloo", "advantage=leave-one-out kl_coef=0.05")                                     \
    PPO__METHOD_ROW(ROW, "grpo",                                                                             \
                    "advantage=group aggregation=sequences kl_place=loss kl_estimator=k3 kl_coef=0.04")      \
    PPO__METHOD_ROW(ROW, "dr-grpo", "advantage=group-mean aggregation=constant")                             \
    PPO__METHOD_ROW(ROW, "dapo", "advantage=group clip_high=0.28 refills=3")                                 \
    PPO__METHOD_ROW(ROW, "gspo",                                                                             \
                    "advantage=group aggregation=sequences ratio=sequence clip_low=3e-4 clip_high=4e-4")     \
    PPO__METHOD_ROW(ROW, "cispo", "advantage=group objective=cispo clip_low=1 clip_high=4")                  \
    PPO__METHOD_ROW(ROW, "reinforce++", "samples=1 advantage=return kl_coef=0.01")                           \
    PPO__METHOD_ROW(ROW, "reinforce++-baseline",                                                             \
                    "advantage=group-mean whiten_advantages=yes kl_place=loss kl_estimator=k2 kl_coef=0.01") \
    PPO__METHOD_ROW(ROW, "distill", "samples=1 advantage=return gamma=0 kl_coef=1 whiten_advantages=no")
static const ppo_preset ppo__rlhf_presets[] = {PPO__RLHF_PRESETS(PPO__PRESET_ROW){NULL, NULL, NULL}};

#define PPO__OF ppo_rlhf_config
PPO_DEF const ppo_settings *ppo_rlhf_settings(void) {
    static const ppo_field fields[] = {
        PPO__SCALAR(prompts, INT, "64", 1, PPO__MOST_SAMPLES, "prompts per iteration"),
        PPO__SCALAR(samples, INT, "1", 1, PPO__MOST_SAMPLES, "samples of each prompt"),
        PPO__SCALAR(slots, INT, "16", 1, PPO__MOST_SLOTS, "sequences that are sampled side by side"),
        PPO__SAMPLING_ROWS(sampling.),
        PPO__SWITCH(normalize_rewards, "yes", "rewards to mean 0, std 1 over all so far"),
        PPO__SCALAR(reward_clip, FLOAT, "0", 0, 1e30, "rewards are clipped to +- this; 0: off"),
        PPO__SCALAR(missing_eos_penalty, FLOAT, "0", -1e15, 1e15, "subtracted from sequences cut off"),
        PPO__SCALAR(length_penalty, FLOAT, "0", -1e15, 1e15, "subtracted for every sampled token"),
        PPO__SCALAR(overlong_buffer, INT, "0", 0, INT_MAX, "last tokens before the limit, penalized"),
        PPO__SCALAR(overlong_penalty, FLOAT, "1", 0, 1e15, "for all of these tokens"),
        PPO__SCALAR(refills, INT, "0", 0, 1000, "rounds that replace prompts of equal rewards"),
        PPO__CHOICE(kl_place, "reward", 1, "reward|loss", "where the KL to the reference counts"),
        PPO__SETTING(kl_estimator, CHOICE, "k1", PPO_K1, PPO_KL_EXACT, "k1|k2|k3|exact", "of that KL"),
        PPO__SCALAR(kl_coef, FLOAT, "0.05", 0, 1e30, "strength of the KL constraint"),
        PPO__SWITCH(kl_weighted, "no", "KL in the loss times the ratio"),
        PPO__SCALAR(penalty_target_kl, FLOAT, "0", 0, 1e30, "kl_coef adapts to hold this KL; 0: off"),
        PPO__SCALAR(kl_horizon, INT, "10000", INT_MIN, INT_MAX, "samples that change kl_coef by a fifth"),
        PPO__SCALAR(reference_every, INT, "0", 0, INT_MAX, "iterations between new references; 0: none"),
        PPO__CHOICE(advantage, "gae", PPO_ADVANTAGE_RETURN,
                    "gae|sequence|group|leave-one-out|group-mean|return",
                    "how much better a token was than expected"),
        PPO__SCALAR(gamma, FLOAT, "1", 0, 1, "GAE, return: discount per token"),
        PPO__SCALAR(gae_lambda, FLOAT, "0.95", 0, 1, "GAE: 0: one-step TD, 1: Monte Carlo"),
        PPO__SCALAR(critic_lambda, FLOAT, "-1", -1, 1, "GAE: lambda of the critic's targets; -1: the same"),
        PPO__SWITCH(whiten_rewards, "no", "GAE: rewards to unit variance"),
        PPO__SWITCH(bootstrap_truncated, "no", "GAE: bootstrap truncated sequences"),
        PPO__SETTING(whiten_advantages, CHOICE, "auto", -1, 1, "auto|no|yes", "advantages to mean 0, std 1"),
        PPO__CHOICE(aggregation, "tokens", 2, "tokens|sequences|constant", "how the loss is averaged"),
        PPO__CHOICE(ratio, "token", 1, "token|sequence", "of each token, or of its sequence"),
        PPO__SWITCH(mask_truncated, "no", "learn nothing from truncated sequences"),
        PPO__SCALAR(epochs, INT, "4", 1, 10000, "passes over the samples of an iteration"),
        PPO__SCALAR(target_kl, FLOAT, "0.02", 0, 1e30, "epochs end at 1.5 times this KL per token; 0: off"),
        PPO__SCALAR(minibatch_size, INT, "16", 1, INT_MAX, "sequences per gradient step"),
        PPO__SCALAR(micro_batch, INT, "0", 0, INT_MAX, "in memory at once; 0: by their tokens"),
        PPO__SCALAR(shards, INT, "0", 0, 1024, "parts of a minibatch for threads and processes; 0: by size"),
        PPO__SWITCH(gradient_checkpointing, "no", "less memory for more time, by ppo_hub.h"),
        PPO__SETTING_IN(objective., objective, CHOICE, "clip", 0, PPO__OBJECTIVES - 1, ppo__objectives,
                        "of the policy"),
        PPO__SETTING_IN(objective., clip_low, FLOAT, "0.2", 0, 1e30, NULL, "no gain below 1 - this"),
        PPO__SETTING_IN(objective., clip_high, FLOAT, "0.2", 0, 1e30, NULL, "no gain above 1 + this"),
        PPO__SETTING_IN(objective., dual_clip, FLOAT, "0", 0, 1e30, NULL, "for negative advantages; 0: off"),
        PPO__SETTING_AS("objective_kl_coef", 0, objective.kl_coef, PPO_FIELD_FLOAT, "1", 0, 1e30, NULL,
                        "of KL(old || new), k3-penalty"),
        PPO__SCALAR(value_coef, FLOAT, "0.5", 0, 1e30, "weight of the value loss"),
        PPO__SCALAR(value_clip, FLOAT, "0.2", 0, 1e30, "clip range of the value loss; 0: off"),
        PPO__SCALAR(entropy_coef, FLOAT, "0", -1e30, 1e30, "weight of the entropy bonus"),
        PPO__SCALAR(entropy_target, FLOAT, "0", 0, 1e30, "entropy_coef adapts to hold this; 0: off"),
        PPO__SCALAR(entropy_step, FLOAT, "0.005", 0, 1e30, "step of entropy_coef"),
        PPO__SCALAR(max_grad_norm, FLOAT, "1", 0, 1e30, "the gradient's norm is clipped to it; 0: off"),
        PPO__SCALAR(learning_rate, FLOAT, "3e-4", 0, 10, "Adam's learning rate"),
        PPO__SCALAR(critic_learning_rate, FLOAT, "0", 0, 10, "of a separate critic; 0: the policy's"),
        PPO__CHOICE(learning_rate_schedule, "constant", 2, "constant|linear|cosine", "of the learning rate"),
        PPO__SCALAR(min_learning_rate, FLOAT, "0", 0, 10, "at the end of the schedule"),
        PPO__SCALAR(iterations, INT, "0", 0, INT_MAX, "number of iterations of the schedule"),
        PPO__ADAM_ROWS,
        PPO__SCALAR(importance_cap, FLOAT, "0", 0, 1e30, "upper bound of the importance weight; 0: off"),
        PPO__SCALAR(importance_floor, FLOAT, "0", 0, 1e30, "lower bound of the importance weight"),
        PPO__CHOICE(importance_mode, "token-truncate", 3,
                    "token-truncate|token-mask|sequence-truncate|sequence-mask",
                    "how the importance weight is bounded"),
        PPO__SEED("of all random numbers"),
    };
    static const ppo_settings settings = {fields, sizeof fields / sizeof *fields, ppo__rlhf_needs,
                                          ppo__rlhf_presets, &(PPO__RLHF_PRESETS(PPO__PRESET_WORD))[1]};
    return &settings;
}
#undef PPO__OF

PPO_DEF ppo_rlhf_config ppo_rlhf_config_default(void) {
    ppo_rlhf_config c;
    ppo__settings_default(ppo_rlhf_settings(), &c, sizeof c);
    c.sampling.seed = 1;
    return c;
}

static ppo_status ppo__check_rlhf(const ppo_rlhf_config *c, const ppo_lm *policy, const ppo_lm *reference,
                                  const ppo_lm *critic, const ppo_tokens *prompts) {
    double sequences = (double)c->prompts * c->samples;
    ppo_status status = ppo__settings_check(ppo_rlhf_settings(), c);
    if (!status) status = ppo__check_sampling(&c->sampling, policy->config.vocab);
    if (!status) status = ppo__check_effects(ppo_rlhf_settings(), c, NULL, NULL);
    if (status) return status;
    const char *const method = c->refills                        ? "refills"
                               : c->ratio                        ? "ratio"
                               : c->kl_estimator == PPO_KL_EXACT ? "kl_estimator exact"
                               : c->reference_every              ? "reference_every"
                               : c->importance_cap > 0           ? "importance_cap"
                                                                 : NULL;
    if (method && !ppo__in_methods.refill) return ppo__needs(method, "ppo_methods.h");
    if (sequences > (int)PPO__MOST_SAMPLES)
        return ppo__refuse("prompts * samples is %.0f, more than %d", sequences, PPO__MOST_SAMPLES);
    if (c->sampling.greedy) return ppo__refuse("sampling is greedy: there is nothing to learn");
    if (c->iterations < (c->learning_rate_schedule != PPO_CONSTANT))
        return ppo__refuse("iterations is %d, must be above 0 for a schedule of the rate", c->iterations);
    if (c->min_learning_rate > c->learning_rate)
        return ppo__refuse("min_learning_rate is %g, above learning_rate, which is %g",
                           (double)c->min_learning_rate, (double)c->learning_rate);
    if (c->critic_lambda < 0 && c->critic_lambda > -1)
        return ppo__refuse("critic_lambda is %g, must be 0 to 1, or -1", (double)c->critic_lambda);
    if (c->objective.objective == PPO_KL_PENALTY)
        return ppo__refuse("objective is kl-penalty: tokens have clip, unclipped, k3-penalty and cispo");
    if (ppo__check_objective("objective", &c->objective)) return PPO_ERROR_ARGUMENT;
    if (c->objective.dual_clip > 0 && c->objective.dual_clip <= 1)
        return ppo__refuse("dual_clip is %g: must be above 1, or 0 for none", c->objective.dual_clip);
    if (c->critic_learning_rate > 0 && critic == policy)
        return ppo__refuse("critic_learning_rate is %g, but has no effect: the critic is the policy",
                           c->critic_learning_rate);
    if (reference && c->reference_every)
        return ppo__refuse("reference_every is %d, but has no effect: the reference is the caller's",
                           c->reference_every);
    if (c->sampling.prefix_cache) return ppo__refuse("sampling.prefix_cache is yes, but the weights change");
    if (c->missing_eos_penalty != 0 && !ppo__may_end(&c->sampling))
        return ppo__refuse("missing_eos_penalty is %g, but eos is -1: every sample would pay it",
                           c->missing_eos_penalty);
    if (ppo__advantage_needs[c->advantage].group && c->samples < 2)
        return ppo__refuse("samples is %d: the advantage compares 2 or more of a prompt", c->samples);
    if (c->kl_place == PPO_KL_IN_LOSS && c->kl_estimator == PPO_K1 && c->kl_coef > 0 && !c->kl_weighted)
        return ppo__refuse("the gradient of k1 is 0 in expectation: in the loss, kl_estimator must be "
                           "PPO_K2, PPO_K3 or PPO_KL_EXACT, or kl_weighted 1");
    if (c->kl_place == PPO_KL_IN_REWARD && c->kl_estimator != PPO_K1 && c->kl_coef > 0)
        return ppo__refuse("in the reward only k1 has the gradient of the KL: for another kl_estimator, "
                           "kl_place must be PPO_KL_IN_LOSS");
    if (c->kl_weighted && (c->kl_estimator == PPO_K2 || c->kl_estimator == PPO_KL_EXACT))
        return ppo__refuse("kl_weighted is yes, but is for k1 and k3");
    if (c->importance_cap > 0 && c->importance_floor > c->importance_cap)
        return ppo__refuse("importance_floor is %g, above importance_cap, which is %g", c->importance_floor,
                           c->importance_cap);
    if (c->objective.objective == PPO_K3_PENALTY &&
        (c->aggregation != PPO_AGGREGATE_TOKENS || c->ratio == PPO_RATIO_SEQUENCE))
        return ppo__refuse("objective is k3-penalty, whose KL is a mean over tokens: aggregation must be "
                           "tokens, and ratio token");
    if (c->aggregation == PPO_AGGREGATE_CONSTANT && !c->sampling.max_new_tokens)
        return ppo__refuse("aggregation is constant, which divides by max_new_tokens: max_new_tokens is 0");
    if (c->mask_truncated && !ppo__may_end(&c->sampling))
        return ppo__refuse("mask_truncated is yes, but eos is -1: no sequence would be learned");
    if (c->refills && c->samples < 2)
        return ppo__refuse("refills is %d, but a prompt has one sample: no rewards to compare", c->refills);
    if (c->penalty_target_kl > 0 && c->kl_horizon < sequences)
        return ppo__refuse("kl_horizon is %d, less than the %.0f sequences of an iteration", c->kl_horizon,
                           sequences);
    if (ppo__check_sequences(policy, prompts, PPO__BEFORE_MORE) ||
        ppo__check_peer(policy, reference, "reference") || ppo__check_peer(policy, critic, "critic"))
        return ppo__failed;
    if (reference && (reference == policy || reference == critic))
        return ppo__refuse("the reference is the %s, which is trained; NULL makes a copy",
                           reference == policy ? "policy" : "critic");
    if (ppo__advantage_needs[c->advantage].critic && critic && !critic->score_weight)
        return ppo__refuse("the critic has no score to give values");
    return PPO_OK;
}

/* -- creation, and all memory -- */

static void ppo__rows_alloc(ppo_rlhf *r, size_t n) {
    const ppo_rlhf_config *c = &r->config;
    ppo__response_rows *rows = &r->rows;
    const size_t size = ppo__at(r->policy->config.vocab, (int)sizeof(float));
    float **const arrays[] = {&rows->old_logp, &rows->ref_logp,  &rows->entropy,
                              &rows->reward,   &rows->value,     &rows->next_value,
                              &rows->share,    &rows->advantage, &rows->value_target};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; ++i) *arrays[i] = PPO__ZEROS(&r->memory, float, n);
    if (c->kl_place != PPO_KL_IN_LOSS || c->kl_estimator != PPO_KL_EXACT || !(c->kl_coef > 0)) return;
    rows->ref_logits = (float *)ppo__arena_array(&r->numbers, n, size);
    if (!rows->ref_logits) return;
    if (!r->numbers.device) memset(rows->ref_logits, 0, n * size); /* ppo__rlhf_reserve() reads some */
    else r->numbers.device->zero(r->numbers.device, rows->ref_logits, n * size);
}

/* Takes all memory except that of the tapes, and makes the generator. */
static ppo_status ppo__rlhf_alloc(ppo_rlhf *r) {
    const ppo_rlhf_config *c = &r->config;
    ppo__arena *memory = &r->memory;
    const int count = r->sequences, batch = ppo__min_int(c->minibatch_size, count);
    const size_t steps = ppo__at(c->epochs, ppo__divide_up(count, c->minibatch_size));
    r->learner.params[0] = r->policy->params;
    r->learner.params[1] = r->critic && r->critic != r->policy ? r->critic->params : NULL;
    ppo_status status = ppo__learner_alloc(&r->learner, batch, (int64_t)batch * r->longest, r->longest,
                                           c->shards, c->micro_batch, c->gradient_checkpointing, r->policy);
    r->learner.learned[1].bytes = sizeof *r->stats;
    r->numbers.device = ppo__device_in_use;
    if (r->learner.group) ppo__language_in_group.samples_alloc(r);
    r->score = PPO__ARRAY(memory, float, count);
    r->total = PPO__ARRAY(memory, float, count);
    r->earned = PPO__ARRAY(memory, float, count);
    if (c->refills) {
        r->drawn_score = PPO__ARRAY(memory, float, count);
        r->kept_samples.ended = PPO__ARRAY(memory, unsigned char, count);
        r->kept_samples.logp = PPO__ARRAY(memory, float, ppo__at(count, r->longest));
    }
    r->learns = PPO__ARRAY(memory, unsigned char, count);
    r->hash = PPO__ARRAY(memory, uint64_t, count);
    r->order = PPO__ZEROS(memory, int, count);
    r->first_row = PPO__ZEROS(memory, int, (size_t)count + 1);
    r->prompt_order = PPO__ARRAY(memory, int, r->prompts.count);
    r->end_value = PPO__ARRAY(memory, float, count);
    r->kept = c->target_kl > 0 ? PPO__ARRAY(&r->numbers, float, 3 * r->policy->params->capacity) : NULL;
    r->stats = PPO__ZEROS(memory, ppo__rlhf_stats, steps * (size_t)r->learner.most_micros);
    ppo__rows_alloc(r, ppo__at(count, r->longest));
    if (!status) status = ppo__arena_status(memory);
    if (!status) status = ppo__arena_status(&r->numbers);
    if (!status && c->refills) status = ppo__tokens_fill(&r->kept_samples.tokens, count, r->longest);
    return status ? status : ppo__generator_make(r->policy, c->slots, r->longest, &r->generator);
}

/* Brings the memory of all tapes to its final size: by a micro-batch of the longest sequences, and by
   sampling from the longest prompt alone. */
static ppo_status ppo__rlhf_reserve(ppo_rlhf *r, int longest_prompt) {
    const ppo_rlhf_config *c = &r->config;
    ppo_generator *g = r->generator;
    r->first_row[1] = r->longest - 1; /* order is all zeros: sequence 0 again and again */
    ppo_status status = ppo__learner_reserve(&r->learner, r->order, r->longest);
    for (ppo__lane *lane = r->learner.lane; lane < r->learner.lane + r->learner.lanes && !status; ++lane) {
        ppo_tape_record(lane->tape, 0);
        status = ppo__rlhf_evaluate_batch(r, lane, 0);
        ppo_tape_record(lane->tape, 1);
        ppo_tape_reset(lane->tape);
    }
    for (int i = 0; i < c->prompts && !status; ++i)
        status = ppo__add_prompt(&r->asked, &r->prompts, longest_prompt, c->samples);
    if (!status) status = ppo__begin_results(g, &r->asked);
    ppo__generator_divide(g, r->asked.count, &c->sampling);
    if (!status) status = ppo__generator_prepare(g, r->asked.count, c->sampling.tool_token >= 0);
    for (int k = 0; k < g->samplers; ++k) ppo_tape_reset(g->sampler[k].tape);
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

/* Everything except restarting the optimizers. */
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
    r->learner.loss = ppo__rlhf_loss;
    r->learner.user = r;
    r->learner.group = ppo__group();
    r->kl_coef = config->kl_coef;
    r->entropy_coef = r->entropy_used = config->entropy_coef;
    r->sequences = config->prompts * config->samples;
    r->rate_factor = 1;
    r->started = ppo_clock();
    int longest = 0; /* the prompt of most tokens */
    for (int s = 0; s < prompts->count && !status; ++s) {
        if (ppo__prompt_length(prompts, s) > ppo__prompt_length(prompts, longest)) longest = s;
        status = ppo__add_prompt(&r->prompts, prompts, s, 1);
    }
    r->longest =
        ppo__longest(&config->sampling, policy->config.context, ppo__prompt_length(prompts, longest));
    if (!status && !reference && config->kl_coef > 0) status = ppo_lm_copy(policy, 0, &r->own_reference);
    r->reference = reference ? reference : r->own_reference;
    if (ppo__advantage_needs[config->advantage].critic) {
        if (!status && !critic) status = ppo_lm_copy(policy, 1, &r->own_critic);
        r->critic = critic ? critic : r->own_critic;
        if (!status) status = ppo_params_freeze(r->critic->params, 0);
    }
    if (!status) status = ppo_params_freeze(policy->params, 0);
    if (!status) status = ppo__rlhf_alloc(r);
    if (!status) status = ppo__rlhf_reserve(r, longest);
    if (status) ppo_rlhf_free(r);
    else *rlhf = r;
    return status;
}

/* In a group: all processes make it with the same settings, models and data, or none does. */
static ppo_status ppo__rlhf_agree(ppo_rlhf **rlhf, const ppo_rlhf_config *config, const ppo_tokens *prompts,
                                  ppo_status status) {
    const ppo_rlhf *r = *rlhf;
    const ppo_lm *const lm[3] = {r ? r->policy : NULL, r ? r->reference : NULL, r ? r->critic : NULL};
    const ppo_tokens *const data[4] = {prompts, NULL, NULL, NULL};
    status = ppo__learner_agree(status, ppo_rlhf_settings(), config, lm, data, r ? r->iteration : 0);
    if (!status) return PPO_OK;
    ppo_rlhf_free(*rlhf);
    *rlhf = NULL;
    return status;
}

PPO_DEF ppo_status ppo_rlhf_create(ppo_lm *policy, const ppo_lm *reference, ppo_lm *critic,
                                   const ppo_tokens *prompts, ppo_reward_fn reward, void *user,
                                   const ppo_rlhf_config *config, ppo_rlhf **rlhf) {
    if (rlhf) *rlhf = NULL;
    if (!PPO__GIVEN("ppo_rlhf_create", policy, prompts, config, rlhf)) return PPO_ERROR_ARGUMENT;
    ppo_status status = ppo__rlhf_make(policy, reference, critic, prompts, reward, user, config, rlhf);
    if (!status) ppo_params_reset_optimizer(policy->params);
    if (!status && (*rlhf)->critic) ppo_params_reset_optimizer((*rlhf)->critic->params);
    return ppo__rlhf_agree(rlhf, config, prompts, status);
}

#endif /* PPO_NO_LANGUAGE */

/* ========================================================================================================
   @@ REPORTS
   ======================================================================================================== */

#ifndef PPO_NO_REPORTS

/* --------------------------------------------------------------------------------------------------------
   @@ 23 Reports. The progress line and the curve of characters go to a FILE. The log consists of files that
   grow by whole rows or records; what it reports of an iteration is one table, ppo__metrics(), from which both
   the CSV and the event file of ppo_report.h are written.
   -------------------------------------------------------------------------------------------------------- */

static int ppo__has_point(const float *x, const float *y, int i) {
    return ppo__finite(x[i]) && ppo__finite(y[i]);
}

/* The smallest and largest x and y, of these points and, if `any`, of those before. Returns 1 if there are any. */
static int ppo__points_range(const float *x, const float *y, int n, int any, float low[2], float high[2]) {
    for (int i = 0; i < n; ++i) {
        if (!ppo__has_point(x, y, i)) continue;
        for (int d = 0; d < 2; ++d) {
            const float at = d ? y[i] : x[i];
            low[d] = any ? ppo__min(low[d], at) : at;
            high[d] = any ? ppo__max(high[d], at) : at;
        }
        any = 1;
    }
    return any;
}

/* y at `at`, by lines between the points; NaN outside them. */
static double ppo__curve_at(const float *x, const float *y, int n, double at) {
    int before = -1;
    for (int i = 0; i < n; ++i) {
        if (!ppo__has_point(x, y, i)) continue;
        if (x[i] >= at) {
            if (before < 0) return x[i] > at ? NAN : y[i];
            double way = (at - x[before]) / ((double)x[i] - x[before]);
            return y[before] + ((double)y[i] - y[before]) * way;
        }
        before = i;
    }
    return NAN;
}

PPO_DEF void ppo_print_curve(FILE *file, const char *title, const float *x, const float *y, int n, int width,
                             int height) {
    enum { PPO__LABEL = 10, PPO__MOST = 256 };
    float low[2] = {0, 0}, high[2] = {0, 0};
    int level[PPO__MOST]; /* the row of each column's point; -1: none */
    if (!file || !x || !y) return;
    if (title) fprintf(file, "%s\n", title);
    if (!ppo__points_range(x, y, n, 0, low, high)) {
        fprintf(file, "(nothing to draw)\n");
        return;
    }
    int columns = ppo__min_int(width > PPO__LABEL + 3 ? width - PPO__LABEL - 2 : 1, PPO__MOST);
    int rows = ppo__min_int(height > 4 ? height - 2 : 2, PPO__MOST);
    double span = high[1] > low[1] ? (double)high[1] - low[1] : 1; /* two floats may lie further apart */
    for (int c = 0; c < columns; ++c) {
        double way = columns > 1 ? (double)c / (columns - 1) : 1;
        double value = ppo__curve_at(x, y, n, low[0] * (1 - way) + high[0] * way);
        level[c] = ppo__finite((float)value) ? (int)lround((value - low[1]) / span * (rows - 1)) : -1;
    }
    for (int row = rows - 1; row >= 0; --row) {
        char label[64] = "";
        if (row == rows - 1 || row == 0 || row == rows / 2)
            ppo__number(label, "%.4g", low[1] + span * row / (rows - 1));
        fprintf(file, "%*s |", (int)PPO__LABEL, label);
        for (int c = 0; c < columns; ++c) fputc(level[c] == row ? '*' : level[c] > row ? '.' : ' ', file);
        fputc('\n', file);
    }
    fprintf(file, "%*s +", (int)PPO__LABEL, "");
    for (int c = 0; c < columns; ++c) fputc('-', file);
    char left[64], right[64];
    int used = (int)strlen(ppo__number(left, "%.6g", (double)low[0]));
    int gap = columns - used - (int)strlen(ppo__number(right, "%.6g", (double)high[0]));
    fprintf(file, "\n%*s  %.*s%*s%s\n", (int)PPO__LABEL, "", columns, left, gap > 0 ? gap : 0, "",
            gap > 0 ? right : "");
}

#ifndef PPO_NO_CONTROL
PPO_DEF int ppo_print_progress(const ppo_progress *p, void *file) {
    if (!p) return 0;
    FILE *out = file ? (FILE *)file : stderr;
    int terminal = 0, last = p->steps >= p->total_steps;
    long left = p->seconds_left > 0 && p->seconds_left < 2e9 ? (long)(p->seconds_left + 0.5) : 0;
    const int ends = p->mean_return == p->mean_return; /* an episode has */
    const float figure = ends ? p->mean_return : p->mean_reward;
    char text[32];
#ifdef PPO__UNIX
    terminal = (out == stdout && isatty(1)) || (out == stderr && isatty(2));
#endif
    const int due = ppo__is_twentieth(p);
    if (!terminal && !due) return 0;
    snprintf(text, sizeof text, ends && fabsf(figure) < 1e9f ? "%.2f" : "%.4g", (double)figure);
    fprintf(out, "%s%9lld/%lld steps  %7.0f/s  %s %8s  kl %.4f  entropy %7.3f  left %ld:%02ld%s",
            terminal ? "\r" : "", (long long)p->steps, (long long)p->total_steps, p->steps_per_second,
            ends ? "return" : "reward", text, (double)p->approx_kl, (double)p->entropy, left / 60, left % 60,
            terminal ? "\033[K" : "\n");
    if (terminal && (last || (due && p->warned))) fputc('\n', out);
    if (due && p->warned) fprintf(out, "warning: %s\n", p->warning);
    fflush(out);
    return 0;
}

/* -- the log -- */

enum { PPO__PATH = 4095 }; /* the longest path of a CSV or directory */

typedef struct ppo__log_file {
    FILE *file; /* unbuffered; NULL: not wanted */
    long end;   /* of the last complete row or record */
    int torn;   /* 1: an incomplete one follows, and is overwritten by the next */
    char path[PPO__PATH + 129];
} ppo__log_file;

enum { PPO__CSV_LINE = 2048 };

struct ppo_log {
    ppo__log_file csv, events;
    char header[PPO__CSV_LINE]; /* of the CSV; "": none yet */
};

/* TensorBoard, by ppo_report.h. */
typedef struct ppo__tensorboard {
    ppo_status (*open)(ppo__log_file *events, const char *directory, int64_t steps);
    ppo_status (*write)(ppo__log_file *events, const ppo_progress *progress);
} ppo__tensorboard;
PPO__COMPANION(ppo__tensorboard, ppo__events);

static ppo_status ppo__log_create(ppo__log_file *log) {
    if (ppo__is_special(log->path))
        return ppo__file_fail(log->path, "cannot be written: it is not a plain file");
    int cause = ppo__make_directories(log->path);
    log->file = fopen(log->path, "wb");
    if (!log->file) return ppo__file_failed(log->path, "created", errno == ENOENT && cause ? cause : errno);
    setvbuf(log->file, NULL, _IONBF, 0);
    return PPO_OK;
}

/* After a failure the next call writes at the same place: no torn record stays in the middle. */
static ppo_status ppo__append(ppo__log_file *log, const void *data, size_t size) {
    if (log->torn && fseek(log->file, log->end, SEEK_SET))
        return ppo__file_failed(log->path, "written", errno);
    log->torn = fwrite(data, 1, size, log->file) != size;
    if (log->torn) return ppo__file_failed(log->path, "written", errno);
    log->end += (long)size;
    return PPO_OK;
}

/* PPO__COUNT: an integer that TensorBoard does not get; PPO__FIGURE: its key follows "env/"; PPO__WORDS: the warning */
enum { PPO__REAL, PPO__FIGURE, PPO__WHOLE, PPO__COUNT, PPO__WORDS };
typedef struct ppo__metric {
    const char *key;
    double value;
    int kind, present; /* present 0: not in this iteration */
} ppo__metric;

enum { PPO__METRICS = 20, PPO__ALL_METRICS = 20 + (int)PPO_MAX_METRICS, PPO__TOTAL_TIMESTEPS = 6 };

/* What a log reports of an iteration, sorted by key, then the environment's own figures. Returns how many. */
static int ppo__metrics(const ppo_progress *p, ppo__metric metrics[PPO__ALL_METRICS]) {
    const ppo__metric all[] = {
        {"rollout/ep_len_mean", p->mean_length, PPO__REAL, p->episodes > 0},
        {"rollout/ep_rew_mean", p->mean_return, PPO__REAL, p->episodes > 0},
        {"rollout/step_rew_mean", p->mean_reward, PPO__REAL, 1},
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
        {"train/warning", 0, PPO__WORDS, p->symptom != NULL},
    };
    PPO__ASSERT(sizeof all == PPO__METRICS * sizeof *all);
    memcpy(metrics, all, sizeof all);
    int n = PPO__METRICS;
    for (int k = 0; k < PPO_MAX_METRICS && p->metric_names && p->metric_names[k]; ++k) {
        const ppo__metric figure = {p->metric_names[k], p->metrics[k], PPO__FIGURE, p->episodes > 0};
        metrics[n++] = figure;
    }
    return n;
}

/* -- CSV -- */

/* A row, or the header of such rows; returns its length. */
static size_t ppo__csv_line(char line[PPO__CSV_LINE], const ppo_progress *progress, int header) {
    ppo__metric metrics[PPO__ALL_METRICS];
    const int count = ppo__metrics(progress, metrics);
    size_t n = 0;
    for (int i = 0; i < count; ++i) {
        const ppo__metric *m = &metrics[i];
        char text[240] = "";
        if (header) snprintf(text, sizeof text, "%s%s", m->kind == PPO__FIGURE ? "env/" : "", m->key);
        const char *field = text;
        if (!header && m->present && m->kind == PPO__WORDS) {
            snprintf(text, sizeof text, "%s: %s", progress->symptom, progress->warning);
            for (char *comma = text; (comma = strchr(comma, ',')) != NULL;) *comma = ';';
        } else if (!header && m->present)
            field = ppo__number(text, m->kind >= PPO__WHOLE ? "%.0f" : NULL, m->value);
        n += (size_t)snprintf(line + n, PPO__CSV_LINE - n, "%s%s", field, i < count - 1 ? "," : "\n");
    }
    return n;
}

/* The header without figures of the environment; returns its length. */
static size_t ppo__csv_usual(char line[PPO__CSV_LINE]) {
    ppo_progress none;
    memset(&none, 0, sizeof none);
    return ppo__csv_line(line, &none, 1);
}

/* Continuing an old CSV, by ppo_resume.h: opens it without the rows after `steps`, and reads its header. */
typedef struct ppo__csv_functions {
    ppo_status (*resume)(ppo__log_file *csv, FILE *old, int64_t steps, char *header);
} ppo__csv_functions;
PPO__COMPANION(ppo__csv_functions, ppo__csv);

static ppo_status ppo__csv_open(ppo__log_file *csv, const char *path, int64_t steps, char *header) {
    const int there = steps > 0 && ppo__what_is(path) != PPO__NOTHING;
    int64_t size;
    FILE *old = there ? ppo__open_old(path, &size) : NULL;
    strcpy(csv->path, path);
    if (there && !old) return ppo__failed;
    ppo_status status = PPO_OK;
    if (!old) status = ppo__log_create(csv);
    else if (ppo__csv.resume) status = ppo__csv.resume(csv, old, steps, header);
    else
        status = ppo__refuse("ppo_log_open: to continue a CSV, include ppo_resume.h after ppo.h, where "
                             "PPO_IMPLEMENTATION is");
    if (old) fclose(old);
    return status || old ? status : ppo__append(csv, header, ppo__csv_usual(header));
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
    if (tensorboard_dir && !ppo__events.open) return ppo__needs("ppo_log_open: TensorBoard", "ppo_report.h");
    ppo_log *made = (ppo_log *)ppo__alloc(sizeof *made);
    if (!made) return PPO_ERROR_MEMORY;
    ppo_status status = PPO_OK;
    if (tensorboard_dir) status = ppo__events.open(&made->events, tensorboard_dir, steps);
    if (!status && csv_path) status = ppo__csv_open(&made->csv, csv_path, steps, made->header);
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
    char row[PPO__CSV_LINE];
    ppo_status status = PPO_OK;
    if (!PPO__GIVEN("ppo_log_write", log, progress)) return PPO_ERROR_ARGUMENT;
    size_t n = ppo__csv_line(row, progress, 1);
    if (log->csv.file && strcmp(row, log->header)) { /* until there is a row, figures may be added */
        if (log->csv.end != (long)strlen(log->header) || n < strlen(log->header))
            return ppo__file_fail(log->csv.path, "its columns are not those of this log");
        log->csv.end = 0;
        log->csv.torn = 1;
        status = ppo__append(&log->csv, row, n);
        if (!status) strcpy(log->header, row);
    }
    if (!status && log->csv.file) status = ppo__append(&log->csv, row, ppo__csv_line(row, progress, 0));
    return status || !log->events.file ? status : ppo__events.write(&log->events, progress);
}

#endif

#endif /* PPO_NO_REPORTS */
PPO__COLD_END
PPO__WARNINGS_BACK
#define PPO__IMPLEMENTED
#endif

/*
ppo.h is available under 2 licenses -- choose whichever you prefer.
------------------------------------------------------------------------------
ALTERNATIVE A - MIT License

Copyright (c) 2026 the ppo.h authors

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without
limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of
the Software, and to permit persons to whom the Software is furnished to do so, subject to the following
conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial
portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT
LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO
EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN
AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE
OR OTHER DEALINGS IN THE SOFTWARE.
------------------------------------------------------------------------------
ALTERNATIVE B - Public Domain (www.unlicense.org)

This is free and unencumbered software released into the public domain.

Anyone is free to copy, modify, publish, use, compile, sell, or distribute this software, either in source
code form or as a compiled binary, for any purpose, commercial or non-commercial, and by any means.

In jurisdictions that recognize copyright laws, the author or authors of this software dedicate any and all
copyright interest in the software to the public domain. We make this dedication for the benefit of the
public at large and to the detriment of our heirs and successors. We intend this dedication to be an overt
act of relinquishment in perpetuity of all present and future rights to this software under copyright law.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT
LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO
EVENT SHALL THE AUTHORS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF
CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER
DEALINGS IN THE SOFTWARE.
------------------------------------------------------------------------------
*/
