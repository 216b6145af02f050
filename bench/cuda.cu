/* cuda.cu - measures how close ppo_cuda.cuh comes to the speed of a GPU's memory, and compares it with
   PyTorch and Liger-Kernel (cuda_peers.py), if PPO_BENCH_PYTHON (or python3) has them.

   Speed is the bytes that must move (each input read once, each output written once) over the time, as a
   share of the speed of a plain copy on the device. Copy, work and peers alternate; a ratio is the median of
   the pairs. Inputs are random, and larger than the second-level cache, or several that alternate.

       build/cuda/bench             takes up to 30 GiB of the device, and skips what does not fit
       build/cuda/bench --quick     with an eighth of the rows, for a smaller GPU
       build/cuda/bench --models    only what whole models take: updates, training steps, samples
       build/cuda/bench --device    only prints the device's name */
#define _POSIX_C_SOURCE 200809L
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "examples/companions/ppo_hub.h"
#include "ppo_cuda.cuh"

#include "measure.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static ppo_cuda *cuda;
static cudaStream_t stream;
static cudaDeviceProp device;
static cudaEvent_t began, ended;
static int shrink = 1;

/* Ends the program: after a failure no result would be valid. */
static void must(ppo_status status) {
    if (status) exit(fail());
}
static void must(cudaError_t error) { must(ppo__cuda_status(error, "bench")); }
static void must(cublasStatus_t status) { must(ppo__blas_status(status, "bench")); }

/* 0 if there is none; the last error says why. */
static int open_device(void) {
    if (ppo_cuda_create(0, &cuda)) return 0;
    stream = (cudaStream_t)ppo_cuda_stream(cuda);
    must(cudaGetDeviceProperties(&device, 0));
    must(cudaEventCreate(&began));
    must(cudaEventCreate(&ended));
    return 1;
}

static void close_device(void) {
    must(cudaEventDestroy(began));
    must(cudaEventDestroy(ended));
    ppo_cuda_free(cuda);
}

/* --------------------------------------------------------------------------------------------------------
   Inputs
   -------------------------------------------------------------------------------------------------------- */

/* The arrays of a row of the table, until it is measured. */
struct arrays {
    enum { MOST = 16 };
    void *memory[MOST];
    int count, lacking; /* lacking: 1 if the device has too little memory */

    arrays() : count(0), lacking(0) {}
    arrays(const arrays &) = delete;
    arrays &operator=(const arrays &) = delete;
    ~arrays() {
        for (int i = 0; i < count; i++) must(cudaFree(memory[i]));
    }

    template <class T> T *take(size_t n) {
        void *got = NULL;
        const cudaError_t error = lacking ? cudaErrorMemoryAllocation : cudaMalloc(&got, n * sizeof(T));
        if (error == cudaErrorMemoryAllocation) {
            cudaGetLastError();
            lacking = 1;
            return NULL;
        }
        must(error);
        memory[count++] = got;
        return (T *)got;
    }
};

/* Four random numbers for element i. */
static __device__ void random_bits(uint32_t seed, size_t i, uint32_t bits[4]) {
    const uint32_t counter[4] = {(uint32_t)i, (uint32_t)(i >> 32), 0, 0}, key[2] = {seed, 0};
    ppo__philox(counter, key, bits);
}

/* The sum of four uniform numbers is nearly normal. */
template <class T> struct normal_job {
    T *x;
    uint32_t seed;
    float mean, deviation;

    __device__ void operator()(size_t i) const {
        uint32_t bits[4];
        float sum = -2;
        random_bits(seed, i, bits);
        for (uint32_t b : bits) sum += (float)b * 0x1p-32f;
        ppo__cuda_set(&x[i], mean + deviation * sqrtf(3) * sum);
    }
};

struct below_job {
    int *x;
    uint32_t seed, limit;

    __device__ void operator()(size_t i) const {
        uint32_t bits[4];
        random_bits(seed, i, bits);
        x[i] = (int)(bits[0] % limit);
    }
};

struct flag_job {
    unsigned char *x;
    uint32_t seed, one_in;

    __device__ void operator()(size_t i) const {
        uint32_t bits[4];
        random_bits(seed, i, bits);
        x[i] = bits[0] % one_in == 0;
    }
};

static uint32_t next_seed;

template <class T> static T *normal(arrays *a, size_t n, float mean, float deviation) {
    T *x = a->take<T>(n);
    if (x) must(ppo__cuda_for(cuda, "bench", normal_job<T>{x, ++next_seed, mean, deviation}, n));
    return x;
}

/* Numbers from 0 to limit - 1. */
static int *below(arrays *a, size_t n, int limit) {
    int *x = a->take<int>(n);
    if (x) must(ppo__cuda_for(cuda, "bench", below_job{x, ++next_seed, (uint32_t)limit}, n));
    return x;
}

/* Flags, of which one in one_in is 1. */
static unsigned char *flags(arrays *a, size_t n, int one_in) {
    unsigned char *x = a->take<unsigned char>(n);
    if (x) must(ppo__cuda_for(cuda, "bench", flag_job{x, ++next_seed, (uint32_t)one_in}, n));
    return x;
}

static void copy(void *to, const void *from, size_t size) {
    must(cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, stream));
}

/* Number of inputs of this size that must alternate, so that none is in the cache when it is used again. */
static int turns(double bytes) { return 1 + (int)(8.0 * device.l2CacheSize / bytes); }

/* --------------------------------------------------------------------------------------------------------
   Peers: cuda_peers.py measures one time per request
   -------------------------------------------------------------------------------------------------------- */

static FILE *ask, *answer;

static const char *python(void) {
    const char *named = getenv("PPO_BENCH_PYTHON");
    return named ? named : "python3";
}

static void become_peers(const int to[2], const int from[2]) {
    if (freopen("build/cuda/peers.log", "w", stderr) && dup2(to[0], 0) >= 0 && dup2(from[1], 1) >= 0) {
        close(to[0]), close(to[1]), close(from[0]), close(from[1]);
        execlp(python(), python(), "bench/cuda_peers.py", (char *)NULL);
    }
    _exit(127);
}

static void close_peers(void) {
    if (ask) fclose(ask);
    if (answer) fclose(answer);
    ask = answer = NULL;
    wait(NULL);
}

/* Its first line has the versions. If it cannot run, that is "", and ask is NULL. */
static void open_peers(char versions[160]) {
    int to[2], from[2];
    *versions = '\0';
    signal(SIGPIPE, SIG_IGN); /* the peer may end early */
    if (pipe(to) || pipe(from)) return;
    const pid_t child = fork();
    if (child == 0) become_peers(to, from);
    close(to[0]), close(from[1]);
    ask = fdopen(to[1], "w"), answer = fdopen(from[0], "r");
    if (child > 0 && ask && answer && fgets(versions, 160, answer)) versions[strcspn(versions, "\n")] = '\0';
    else close_peers();
}

/* Seconds of one call, and the most device memory that it takes; or why there are none. */
struct peer_time {
    double seconds, bytes; /* seconds 0: not measured */
    char reason[120];
};

static peer_time ask_peers(const char *what) {
    peer_time t = {0, 0, "it ended, see build/cuda/peers.log"};
    char line[256];
    if (fprintf(ask, "%s\n", what) < 0 || fflush(ask) || !fgets(line, sizeof line, answer)) return t;
    if (sscanf(line, "%lf %lf", &t.seconds, &t.bytes) != 2 || !(t.seconds > 0)) {
        snprintf(t.reason, sizeof t.reason, "%.100s", line);
        t.reason[strcspn(t.reason, "\n")] = '\0';
        t.seconds = 0;
    }
    return t;
}

/* --------------------------------------------------------------------------------------------------------
   Times
   -------------------------------------------------------------------------------------------------------- */

static const double SECONDS = 0.03; /* that a measurement takes at least */

static void nothing(void) {}

/* Seconds per call of work(0), work(1) ..., after prepare(), which is not timed. */
template <class P, class W> static double time_calls(int calls, P prepare, W work) {
    float milliseconds = 0;
    prepare();
    must(cudaEventRecord(began, stream));
    for (int i = 0; i < calls; i++) must(work(i));
    must(cudaEventRecord(ended, stream));
    must(cudaEventSynchronize(ended));
    must(cudaEventElapsedTime(&milliseconds, began, ended));
    return milliseconds * 1e-3 / calls;
}

/* Makes enough calls for a valid time, after some that warm up. If there is prepare(), it prepares `sets`
   calls, and such passes are repeated. */
struct plan {
    int sets, calls, passes;
};

template <class P, class W> static plan plan_for(int sets, int prepares, P prepare, W work) {
    auto turn = [&](int i) { return work(i % sets); };
    const double once = (time_calls(sets, prepare, turn), time_calls(sets, prepare, turn)) * sets;
    const int times = 1 + (int)(SECONDS / once);
    must(ppo_cuda_sync(cuda));
    return {sets, prepares ? sets : sets * times, prepares ? times : 1};
}

template <class P, class W> static double time_plan(const plan &p, P prepare, W work) {
    double seconds = 0;
    for (int i = 0; i < p.passes; i++)
        seconds += time_calls(p.calls, prepare, [&](int c) { return work(c % p.sets); }) / p.passes;
    return seconds;
}

static struct {
    void *from, *to;
    size_t size;
} copied;

/* Bytes that a copy reads and writes per second. */
static double copy_rate(void) {
    const double seconds = time_calls(10, nothing, [](int) {
        copy(copied.to, copied.from, copied.size);
        return PPO_OK;
    });
    return 2.0 * (double)copied.size / seconds;
}

/* --------------------------------------------------------------------------------------------------------
   The table
   -------------------------------------------------------------------------------------------------------- */

/* The peer of a row: its name in the table, and its name and sizes for cuda_peers.py. */
struct peer {
    char name[40], request[96];

    double seconds[REPETITIONS], ratio[REPETITIONS];
    peer_time last;
};

static void ask_peer(peer *p, int i, double our_seconds) {
    if (!ask || (i && !(p->last.seconds > 0))) return;
    p->last = ask_peers(p->request);
    p->seconds[i] = 1e3 * p->last.seconds;
    p->ratio[i] = p->last.seconds / our_seconds;
}

static double gib(double bytes) { return bytes / (1 << 30); }

static void report_peer(peer *p) {
    char name[64];
    if (!ask) return;
    if (!(p->last.seconds > 0)) {
        printf("    %s: not measured, %s\n", p->name, p->last.reason);
        return;
    }
    snprintf(name, sizeof name, "    %s", p->name);
    report(name, p->seconds, 3, "ms");
    if (p->last.bytes > 0) printf("%-44s %9.2f GiB\n", "        its peak memory", gib(p->last.bytes));
    report("        its time / ours", p->ratio, 2, "times");
}

static int left_out(const char *name, const arrays &a) {
    if (a.lacking) printf("%s: not measured, the device has not enough memory\n", name);
    return a.lacking;
}

/* The time of work(i), i = 0 .. sets - 1, which moves `bytes` each, and its speed relative to a copy. */
template <class P, class W>
static void measure(const char *name, double bytes, int sets, int prepares, P prepare, W work, peer *peers,
                    int count) {
    double ms[REPETITIONS], share[REPETITIONS];
    const plan p = plan_for(sets, prepares, prepare, work);
    for (int i = 0; i < REPETITIONS; i++) {
        const double rate = copy_rate(), seconds = time_plan(p, prepare, work);
        ms[i] = 1e3 * seconds;
        share[i] = 100 * bytes / seconds / rate;
        for (int k = 0; k < count; k++) ask_peer(&peers[k], i, seconds);
    }
    must(ppo_cuda_sync(cuda));
    report(name, ms, 3, "ms");
    report("    of the copy rate", share, 1, "%");
    for (int k = 0; k < count; k++) report_peer(&peers[k]);
}

static peer compiled(const char *work, int bf16, int n, int vocab) {
    peer p = {"torch.compile", "", {0}, {0}, {0, 0, ""}};
    snprintf(p.request, sizeof p.request, "%s %s %d %d", work, bf16 ? "bfloat16" : "float32", n, vocab);
    return p;
}

/* -- tokens -- */

struct token_arrays {
    int *token;
    float *grad_logp, *grad_entropy;
    ppo_cuda_rows rows;
    token_arrays(arrays *a, int n, int vocab)
        : token(below(a, (size_t)n, vocab)), grad_logp(normal<float>(a, (size_t)n, 0, 1)),
          grad_entropy(normal<float>(a, (size_t)n, 0, 1)), rows{a->take<float>((size_t)n),
                                                                a->take<float>((size_t)n),
                                                                a->take<float>((size_t)n),
                                                                a->take<float>((size_t)n),
                                                                a->take<float>((size_t)n)} {}
};

static const char *title(char text[64], const char *work, int bf16, int n, int vocab) {
    snprintf(text, 64, "%s, %s %d x %d", work, bf16 ? "bf16" : "float", n, vocab);
    return text;
}

template <class T> static void measure_tokens(int bf16, int n, int vocab) {
    char name[64];
    const size_t size = (size_t)n * (size_t)vocab;
    const double bytes = (double)(size * sizeof(T));
    const int sets = turns(bytes);
    arrays a;
    T *logits = normal<T>(&a, size * (size_t)sets, 0, 3), *grad = a.take<T>(size * (size_t)sets);
    token_arrays t(&a, n, vocab);
    auto of = [&](T *array, int set) { return ppo_cuda_logits{array + (size_t)set * size, bf16}; };
    if (left_out(title(name, "tokens", bf16, n, vocab), a)) return;

    peer forward = compiled("forward", bf16, n, vocab), backward = compiled("backward", bf16, n, vocab);
    const int peers = size > 1 << 24; /* less work takes less time than a call from Python */
    measure(
        title(name, "log-p, entropy", bf16, n, vocab), bytes, sets, 0, nothing,
        [&](int i) {
            const ppo_cuda_logits z = of(logits, i);
            return ppo_cuda_token_logp(cuda, &z, NULL, t.token, n, vocab, 1, &t.rows);
        },
        &forward, peers);
    /* uses the rows of the last set for all gradients: the work is the same */
    measure(
        title(name, "gradient in place", bf16, n, vocab), 2 * bytes, sets, 1,
        [&] { copy(grad, logits, (size_t)sets * size * sizeof(T)); },
        [&](int i) {
            const ppo_cuda_logits z = of(grad, i);
            return ppo_cuda_token_logp_backward(cuda, &z, t.token, &t.rows, t.grad_logp, t.grad_entropy, n,
                                                vocab, 1, &z);
        },
        &backward, peers);
}

template <class T> static void measure_kl(int bf16, int n, int vocab) {
    char name[64];
    const size_t size = (size_t)n * (size_t)vocab;
    const double bytes = 2.0 * (double)(size * sizeof(T));
    const int sets = turns(bytes);
    arrays a;
    T *logits = normal<T>(&a, size * (size_t)sets, 0, 3), *other = normal<T>(&a, size * (size_t)sets, 0, 3);
    token_arrays t(&a, n, vocab);
    if (left_out(title(name, "log-p, entropy, KL", bf16, n, vocab), a)) return;
    peer p = compiled("kl", bf16, n, vocab);
    measure(
        name, bytes, sets, 0, nothing,
        [&](int i) {
            const ppo_cuda_logits z = {logits + (size_t)i * size, bf16}, r = {other + (size_t)i * size, bf16};
            return ppo_cuda_token_logp(cuda, &z, &r, t.token, n, vocab, 1, &t.rows);
        },
        &p, 1);
}

static void tokens(void) {
    typedef __nv_bfloat16 bf16;
    const int n = 8192 / shrink;
    measure_tokens<bf16>(1, n, 131072);
    measure_tokens<float>(0, n, 131072);
    measure_tokens<bf16>(1, n, 32000);
    measure_tokens<bf16>(1, n / 2, 50257); /* rows that are not a multiple of 16 bytes */
    measure_tokens<bf16>(1, 8 * n, 256);
    measure_kl<bf16>(1, n, 131072);
    measure_kl<float>(0, n, 131072);
}

/* -- sampling: bf16 logits, each read once -- */

static void sampling(const char *how_named, int top_k, float top_p) {
    enum { N = 256, VOCAB = 131072 };
    char name[64];
    const size_t size = (size_t)N * VOCAB;
    const double bytes = (double)(size * sizeof(__nv_bfloat16));
    const int sets = turns(bytes);
    ppo_sampling how = ppo_sampling_default();
    ppo_rng streams[N];
    arrays a;
    how.top_k = top_k, how.top_p = top_p;
    for (int i = 0; i < N; i++) streams[i] = ppo_rng_stream(1, PPO_STREAM_USER, (uint32_t)i);
    __nv_bfloat16 *logits = normal<__nv_bfloat16>(&a, size * (size_t)sets, 0, 3);
    ppo_rng *rng = a.take<ppo_rng>(N);
    int *token = a.take<int>(N);
    float *logp = a.take<float>(N);
    snprintf(name, sizeof name, "sampling, bf16 %d x %d, %s", N, VOCAB, how_named);
    if (left_out(name, a)) return;
    must(cudaMemcpyAsync(rng, streams, sizeof streams, cudaMemcpyHostToDevice, stream));
    measure(
        name, bytes, sets, 0, nothing,
        [&](int i) {
            const ppo_cuda_logits z = {logits + (size_t)i * size, 1};
            return ppo_cuda_sample(cuda, &z, N, VOCAB, &how, rng, NULL, token, logp);
        },
        NULL, 0);
}

/* -- advantages: reads three arrays and two of flags, writes two -- */

static void gae(void) {
    const int steps = 1024, envs = 4096 / shrink;
    const size_t size = (size_t)steps * (size_t)envs;
    const double bytes = (double)size * (5 * sizeof(float) + 2);
    const int sets = turns(bytes);
    const size_t all = size * (size_t)sets;
    char name[64];
    arrays a;
    float *reward = normal<float>(&a, all, 0, 1), *value = normal<float>(&a, all, 0, 1);
    float *next = normal<float>(&a, all, 0, 1), *advantage = a.take<float>(all);
    float *target = a.take<float>(all);
    unsigned char *ends = flags(&a, all, 200), *cuts = flags(&a, all, 200);
    snprintf(name, sizeof name, "GAE, %d steps x %d environments", steps, envs);
    if (left_out(name, a)) return;
    measure(
        name, bytes, sets, 0, nothing,
        [&](int i) {
            const size_t at = (size_t)i * size;
            return ppo_cuda_gae(cuda, reward + at, value + at, next + at, ends + at, cuts + at, steps, envs,
                                0.99f, 0.95f, advantage + at, target + at);
        },
        NULL, 0);
}

/* -- optimizer: the norm reads the gradient; Adam reads four arrays and writes three -- */

static void adam(void) {
    const size_t n = 124000000 / (size_t)shrink;
    const double bytes = 8.0 * (double)(n * sizeof(float));
    const ppo_adam settings = ppo_adam_default();
    char name[64];
    arrays a;
    long step = 0;
    float *param = normal<float>(&a, n, 0, 0.02f), *grad = normal<float>(&a, n, 0, 1e-3f);
    float *m = normal<float>(&a, n, 0, 1e-3f), *v = normal<float>(&a, n, 1, 0.1f);
    float *norm = a.take<float>(1);
    snprintf(name, sizeof name, "norm and Adam, %.1f million parameters", (double)n * 1e-6);
    if (left_out(name, a)) return;
    measure(
        name, bytes, 1, 0, nothing,
        [&](int) {
            const ppo_status status = ppo_cuda_grad_norm(cuda, grad, n, 1, norm);
            return status ? status
                          : ppo_cuda_adam_step(cuda, param, grad, m, v, n, &settings, ++step, 1, norm, 1);
        },
        NULL, 0);
}

/* -- a linear layer and the loss after it, without all logits in memory -- */

struct linear_problem {
    enum { WIDTH = 4096, VOCAB = 131072 };
    const int n;
    arrays a;
    ppo_cuda_linear layer;
    int *token;
    float *advantage, *old_logp;
    ppo_cuda_rows rows;
    ppo_policy_stats *stats;
    __nv_bfloat16 *grad_x, *logits; /* logits: for the products alone */
    float *grad_w;
    ppo_policy_objective objective;

    explicit linear_problem(int n) : n(n), logits(NULL), objective(ppo_policy_objective_default()) {
        const size_t rows_n = (size_t)n, weights = (size_t)WIDTH * VOCAB;
        layer.x = normal<__nv_bfloat16>(&a, rows_n * WIDTH, 0, 1);
        layer.w = normal<__nv_bfloat16>(&a, weights, 0, 3 / sqrtf(WIDTH));
        layer.bf16 = 1, layer.n = n, layer.width = WIDTH, layer.vocab = VOCAB;
        token = below(&a, rows_n, VOCAB);
        advantage = normal<float>(&a, rows_n, 0, 1);
        old_logp = normal<float>(&a, rows_n, -16, 1);
        rows = {a.take<float>(rows_n), a.take<float>(rows_n), NULL, NULL, NULL};
        stats = a.take<ppo_policy_stats>(1);
        grad_x = a.take<__nv_bfloat16>(rows_n * WIDTH);
        grad_w = normal<float>(&a, weights, 0, 1e-3f); /* the loss adds to it */
    }

    ppo_status loss() {
        return ppo_cuda_linear_policy_loss(cuda, &layer, token, 1, old_logp, advantage, NULL, &objective, 0,
                                           &rows, stats, grad_x, grad_w);
    }

    /* c (m, n) = a b, column-major: a row-major matrix is its transpose there. */
    static void product(cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const void *a,
                        int lda, const void *b, int ldb, void *c, cudaDataType type) {
        const float one = 1, zero = 0;
        must(cublasGemmEx(cuda->blas, ta, tb, m, n, k, &one, a, CUDA_R_16BF, lda, b, CUDA_R_16BF, ldb, &zero,
                          c, type, m, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    }

    /* The products that every implementation needs: the logits, and the gradients of x and w. */
    ppo_status products() {
        const cublasOperation_t T = CUBLAS_OP_T, N = CUBLAS_OP_N;
        product(T, N, VOCAB, n, WIDTH, layer.w, WIDTH, layer.x, WIDTH, logits, CUDA_R_16BF);
        product(N, N, WIDTH, n, VOCAB, layer.w, WIDTH, logits, VOCAB, grad_x, CUDA_R_16BF);
        product(N, T, WIDTH, VOCAB, n, layer.x, WIDTH, logits, VOCAB, grad_w, CUDA_R_32F);
        return PPO_OK;
    }
};

static double free_memory(void) {
    size_t left, all;
    must(cudaDeviceSynchronize());
    must(cudaMemGetInfo(&left, &all));
    return (double)left;
}

/* The memory that the loss takes besides its inputs and gradients. */
static double memory_of_loss(linear_problem *p) {
    close_device(); /* because other work used its scratch memory */
    must(open_device() ? PPO_OK : PPO_ERROR_DEVICE);
    const double before = free_memory();
    must(p->loss());
    must(ppo_cuda_sync(cuda));
    return before - free_memory();
}

static peer linear_peer(const char *name, const char *work, int n) {
    peer p = {"", "", {0}, {0}, {0, 0, ""}};
    snprintf(p.name, sizeof p.name, "%s", name);
    snprintf(p.request, sizeof p.request, "%s bfloat16 %d %d %d", work, n, (int)linear_problem::WIDTH,
             (int)linear_problem::VOCAB);
    return p;
}

static void linear(void) {
    const int n = 8192 / shrink;
    linear_problem p(n);
    peer peers[] = {linear_peer("PyTorch, with the logits", "eager", n),
                    linear_peer("torch.compile, with the logits", "unfused", n),
                    linear_peer("Liger-Kernel, cross entropy", "liger-cross-entropy", n),
                    linear_peer("Liger-Kernel, GRPO", "liger-grpo", n)};
    double ms[REPETITIONS], bare_ms[REPETITIONS], ratio[REPETITIONS];
    char name[64];
    snprintf(name, sizeof name, "linear + loss, bf16 %d x %d x %d", n, (int)p.WIDTH, (int)p.VOCAB);
    if (left_out(name, p.a)) return;
    const double memory = memory_of_loss(&p);
    p.logits = p.a.take<__nv_bfloat16>((size_t)n * p.VOCAB);
    if (left_out(name, p.a)) return;
    copy(p.old_logp, p.rows.logp, (size_t)n * sizeof(float)); /* ratios near 1 */
    auto loss = [&](int) { return p.loss(); };
    auto products = [&](int) { return p.products(); };
    const plan ours = plan_for(1, 0, nothing, loss), bare = plan_for(1, 0, nothing, products);
    for (int i = 0; i < REPETITIONS; i++) {
        const double seconds = time_plan(ours, nothing, loss), least = time_plan(bare, nothing, products);
        ms[i] = 1e3 * seconds, bare_ms[i] = 1e3 * least, ratio[i] = least / seconds;
        for (peer &other : peers) ask_peer(&other, i, seconds);
    }
    must(ppo_cuda_sync(cuda));
    report(name, ms, 2, "ms");
    printf("%-44s %9.2f GiB\n", "    its memory beyond inputs and gradients", gib(memory));
    report("    its three products by cuBLAS alone", bare_ms, 2, "ms");
    report("        their time / ours", ratio, 2, "times");
    for (peer &other : peers) report_peer(&other);
}

/* -- a tiny language model: the epochs of an iteration, as in rlhf.c, on all cores and on the GPU -- */

struct update_problem {
    enum { PROMPTS = 256, PROMPT = 4, MODEL_VOCAB = 320, MODEL_CONTEXT = 32 };
    ppo_lm *policy;
    ppo_tokens prompts;
    ppo_generator *generator;
    ppo_samples samples;
    ppo_rlhf *rlhf[2]; /* on the cores, on the GPU */
    ppo_lm *trained[2];
    float reward[PROMPTS];

    update_problem() : policy(NULL), prompts(), generator(NULL), samples(), rlhf(), trained() {
        ppo_lm_config shape = ppo_lm_config_default();
        shape.vocab = MODEL_VOCAB, shape.context = MODEL_CONTEXT, shape.score = 1;
        must(ppo_lm_create(&shape, &policy));
        draw_samples();
        for (int k = 0; k < 2; k++) { /* a trainer stays where it was created */
            ppo_rlhf_config config = ppo_rlhf_config_default();
            config.prompts = PROMPTS, config.minibatch_size = 64;
            must(ppo_use_cuda(k ? 0 : -1));
            must(ppo_lm_copy(policy, 1, &trained[k]));
            must(ppo_rlhf_create(trained[k], NULL, NULL, &prompts, rule, NULL, &config, &rlhf[k]));
        }
    }
    update_problem(const update_problem &) = delete;
    update_problem &operator=(const update_problem &) = delete;
    ~update_problem() {
        for (int k = 0; k < 2; k++) ppo_rlhf_free(rlhf[k]), ppo_lm_free(trained[k]);
        ppo_generator_free(generator);
        ppo_tokens_free(&prompts);
        ppo_lm_free(policy);
        must(ppo_use_cuda(-1));
    }

    /* The share of even tokens. */
    static ppo_status rule(const ppo_samples *of, float *reward, void *) {
        const ppo_tokens *t = &of->tokens;
        for (int s = 0; s < t->count; s++) {
            int even = 0;
            for (int i = t->start[s]; i < t->start[s + 1]; i++) even += t->token[i] % 2 == 0;
            reward[s] = (float)even / (float)(t->start[s + 1] - t->start[s]);
        }
        return PPO_OK;
    }

    void draw_samples() {
        ppo_rng rng = ppo_rng_stream(1, PPO_STREAM_USER, 0);
        ppo_sampling how = ppo_sampling_default();
        for (int s = 0; s < PROMPTS; s++) {
            int token[PROMPT];
            for (int &t : token) t = ppo_rng_below(&rng, MODEL_VOCAB);
            must(ppo_tokens_add(&prompts, token, PROMPT, PROMPT));
        }
        must(ppo_generator_create(policy, 16, &generator));
        must(ppo_generate(generator, &prompts, &how, &samples));
        must(rule(&samples, reward, NULL));
    }

    double seconds(int on_gpu) {
        const double start = ppo_clock();
        must(ppo_rlhf_update(rlhf[on_gpu], &samples, reward, NULL));
        return ppo_clock() - start;
    }
};

static void update(void) {
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    double ms[2][REPETITIONS], ratio[REPETITIONS];
    char name[64];
    must(ppo_set_threads((int)cores));
    update_problem p;
    p.seconds(0), p.seconds(1); /* warms up */
    for (int i = 0; i < REPETITIONS; i++) {
        for (int k = 0; k < 2; k++) ms[k][i] = 1e3 * p.seconds(k);
        ratio[i] = ms[0][i] / ms[1][i];
    }
    snprintf(name, sizeof name, "update of a tiny language model, %ld cores", cores);
    report(name, ms[0], 1, "ms");
    report("    the GPU", ms[1], 1, "ms");
    report("        the cores' time / its", ratio, 2, "times");
    must(ppo_set_threads(1));
}

/* -- models: tokens per second -- */

/* A shape by settings of ppo_lm_config, on the processor or on the device; the weights are random. */
static ppo_lm *model_of(const char *settings) {
    ppo_lm *lm = NULL;
    ppo_lm_config shape = ppo_lm_config_default();
    must(ppo_settings_set_all(ppo_lm_settings(), &shape, settings));
    must(ppo_lm_create(&shape, &lm));
    return lm;
}

static ppo_tokens random_tokens(int sequences, int length, int prompt, int vocab) {
    ppo_tokens tokens = {};
    ppo_rng rng = ppo_rng_stream(3, PPO_STREAM_USER, 0);
    int *token = (int *)malloc((size_t)length * sizeof *token);
    if (!token) exit(fail());
    for (int s = 0; s < sequences; s++) {
        for (int i = 0; i < length; i++) token[i] = ppo_rng_below(&rng, vocab);
        must(ppo_tokens_add(&tokens, token, length, prompt));
    }
    free(token);
    return tokens;
}

/* Samples `sequences` side by side, `length` tokens each, after one token. Tokens per second. */
static double sampling_rate(const ppo_lm *lm, int sequences, int length) {
    ppo_generator *generator = NULL;
    ppo_samples samples;
    ppo_sampling how = ppo_sampling_default();
    ppo_tokens prompts = random_tokens(sequences, 1, 1, lm->config.vocab);
    double began = 0;
    how.max_new_tokens = length;
    must(ppo_generator_create(lm, sequences, &generator));
    for (int i = 0; i < 2; i++) { /* the first takes memory */
        began = ppo_clock();
        must(ppo_generate(generator, &prompts, &how, &samples));
    }
    const double seconds = ppo_clock() - began;
    ppo_generator_free(generator);
    ppo_tokens_free(&prompts);
    return (double)sequences * length / seconds;
}

static int keep_time(const ppo_fit_progress *p, void *user) {
    if (p->step == 1) *(double *)user = ppo_clock(); /* the first takes memory */
    return 0;
}

/* Steps of fine-tuning with `batch` sequences. Tokens per second. */
static double training_rate(ppo_lm *lm, int batch, int length) {
    enum { STEPS = 5 };
    double began = 0;
    ppo_fit_config fit = ppo_fit_config_default();
    ppo_tokens data = random_tokens(batch * STEPS, length + 1, 0, lm->config.vocab);
    fit.batch_size = batch, fit.callback = keep_time, fit.callback_user = &began;
    must(ppo_fit_sft(lm, &data, &fit));
    const double seconds = ppo_clock() - began;
    ppo_tokens_free(&data);
    return (double)batch * length * (STEPS - 1) / seconds;
}

static void report_models_peer(const char *name, const char *request, double rate) {
    if (!ask) return;
    const peer_time t = ask_peers(request);
    if (t.seconds > 0)
        printf("%-44s %9.0f tokens/s, of which ours is %.2f\n", name, 1 / t.seconds, rate * t.seconds);
    else printf("%s: not measured, %s\n", name, t.reason);
}

static void models(void) {
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    double rate[3][REPETITIONS], ratio[REPETITIONS];
    char name[64];
    ppo_lm *tiny[2];
    must(ppo_set_threads((int)cores));
    for (int k = 0; k < 2; k++) {
        must(ppo_use_cuda(k ? 0 : -1));
        tiny[k] = model_of("vocab=320 context=64");
    }
    for (int i = 0; i < REPETITIONS; i++) {
        for (int k = 0; k < 2; k++) {
            must(ppo_use_cuda(k ? 0 : -1));
            rate[k][i] = sampling_rate(tiny[k], 1024, 32);
        }
        ratio[i] = rate[1][i] / rate[0][i];
    }
    snprintf(name, sizeof name, "sampling, tiny model, 1024 x 32, %ld cores", cores);
    report(name, rate[0], 0, "tokens/s");
    report("    the GPU", rate[1], 0, "tokens/s");
    report("        its rate / the cores'", ratio, 2, "times");
    for (int k = 0; k < 2; k++) ppo_lm_free(tiny[k]);
    must(ppo_set_threads(1));

    ppo_lm *gpt2 = model_of("vocab=50257 context=1024 width=768 layers=12 heads=12");
    for (int i = 0; i < REPETITIONS; i++) rate[0][i] = training_rate(gpt2, 4, 1024);
    report("training, GPT-2 124M, 4 x 1024", rate[0], 0, "tokens/s");
    report_models_peer("    PyTorch, float32", "gpt2 float32 4 1024", rate[0][0]);
    report_models_peer("    PyTorch, bf16 products", "gpt2 bfloat16 4 1024", rate[0][0]);
    ppo_lm_free(gpt2);

    ppo_lm *qwen = model_of(
        "vocab=151936 context=160 width=1024 layers=28 heads=16 kv_heads=8 head_size=128 hidden=3072 "
        "norm=rms glu=yes activation=silu qkv_bias=no proj_bias=no ffn_bias=no qk_norm=yes "
        "positions=rotary rope_theta=1000000");
    must(ppo_params_freeze(qwen->params, 1));
    for (int i = 0; i < REPETITIONS; i++) rate[0][i] = sampling_rate(qwen, 256, 128);
    report("sampling, Qwen3-0.6B's shape, 256 x 128", rate[0], 0, "tokens/s");
    ppo_lm_free(qwen);
    must(ppo_use_cuda(-1));
}

/* --------------------------------------------------------------------------------------------------------
   The run
   -------------------------------------------------------------------------------------------------------- */

static const char *driver_version(char text[40]) {
    FILE *pipe = popen("nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null", "r");
    strcpy(text, "unknown");
    if (pipe && !fgets(text, 40, pipe)) strcpy(text, "unknown");
    if (pipe) pclose(pipe);
    text[strcspn(text, "\n")] = '\0';
    return text;
}

static void measure_rows(void) {
    arrays a;
    double rate[REPETITIONS];
    copied.size = ((size_t)1 << 30) / (size_t)shrink;
    copied.from = normal<float>(&a, copied.size / sizeof(float), 0, 1);
    copied.to = a.take<char>(copied.size);
    if (left_out("copy", a)) return;
    copy_rate(); /* warms up */
    for (int i = 0; i < REPETITIONS; i++) rate[i] = copy_rate() * 1e-9;
    report("copy, read and written", rate, 0, "GB/s");
    tokens();
    sampling("plain", 0, 1);
    sampling("top_k 50", 50, 1);
    sampling("top_p 0.9", 0, 0.9f);
    gae();
    adam();
    linear();
}

static void measure_all(int only_models) {
    char versions[160];
    open_peers(versions);
    printf("%s\n\n", *versions ? versions : "no peers");
    if (!only_models) measure_rows();
    update();
    models();
    if (!*versions)
        printf("PyTorch: not measured, no Python with it and CUDA (PPO_BENCH_PYTHON names one; see "
               "build/cuda/peers.log)\n");
    close_peers();
}

int main(int argc, char **argv) {
    char driver[40];
    const int names = argc == 2 && !strcmp(argv[1], "--device"),
              only_models = argc == 2 && !strcmp(argv[1], "--models");
    if (argc == 2 && !strcmp(argv[1], "--quick")) shrink = 8;
    else if (argc > 1 && !names && !only_models)
        return fprintf(stderr, "usage: bench [--quick | --models | --device]\n"), 1;
    if (!open_device()) return printf("CUDA is not there, %s\n", ppo_last_error()), names;
    printf("%s, %.0f GiB, driver %s, CUDA %d.%d\n", device.name, gib((double)device.totalGlobalMem),
           driver_version(driver), CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    if (!names) measure_all(only_models);
    close_device();
    return 0;
}
