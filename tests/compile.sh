#!/bin/sh
# compile.sh - ppo.h in other people's builds: their compilers with the strictest warnings, any switches, one or several
# source files, with or without a stb_ds of their own. Reports in TAP; the logs are in build/compile/.
set -u
cd "$(dirname "$0")/.."
work=build/compile
rm -rf $work
mkdir -p $work
cc=${CC:-cc}
jobs=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
strict='-Wall -Wextra -Wpedantic -Werror'
picky='-fsyntax-only -Wall -Wextra -Wpedantic -Wconversion -Wshadow'
started=0

# check NAME FUNCTION ARGUMENT... - runs the function in the background; it passes if it returns 0.
check() {
    name=$1
    shift
    started=$((started + 1))
    echo "$name" >>$work/names
    (
        set -ex
        "$@"
        echo passed >$work/$name.passed
    ) >$work/$name.log 2>&1 &
    [ $((started % jobs)) -eq 0 ] && wait
}

skip() { # skip NAME REASON
    started=$((started + 1))
    echo "$1" >>$work/names
    echo "$2" >$work/$1.skipped
}

have() { command -v "$1" >/dev/null 2>&1; }

# --- source files -------------------------------------------------------------------------------------------------

cat >$work/declare.c <<'END'
#include "ppo.h"
int declared(void);
int declared(void) { return ppo_discrete(2).n; }
END
cat >$work/implement.c <<'END'
#define PPO_IMPLEMENTATION
#include "ppo.h"
END
{
    cat $work/implement.c
    for companion in examples/companions/*.h; do # with MPI below
        [ $companion = examples/companions/ppo_mpi.h ] || echo "#include \"$companion\""
    done
} >$work/companions.c
{
    cat $work/implement.c
    echo '#include "examples/companions/ppo_mpi.h"'
} >$work/mpi.c
cat >$work/static.c <<'END'
#define PPO_STATIC
#define PPO_IMPLEMENTATION
#include "ppo.h"
int static_copy(void);
int static_copy(void) {
    float x[2] = {1, 3};
    return ppo_whiten(x, NULL, 2, 1) == PPO_OK && x[0] < 0 && x[1] > 0 ? 2 : 1;
}
END
printf '#define PPO_STATIC\n#include "ppo.h"\nint main(void) { return ppo_discrete(2).n; }\n' >$work/no_copy.c
{ # every environment but those of MuJoCo, which need its headers
    echo '#include "ppo.h"'
    for env in examples/envs/*.h; do [ $env = examples/envs/mujoco.h ] || echo "#include \"$env\""; done
} >$work/envs.c
cat >$work/train.h <<'END' # a short training
#include "examples/envs/cartpole.h"
static int short_training(void) {
    ppo_env    env  = cartpole_env();
    ppo_config cfg  = ppo_config_default();
    ppo_agent *agent = NULL;
    cfg.total_steps = 4096;
    if (ppo_train(&env, &cfg, &agent) != PPO_OK) {
        fprintf(stderr, "%s\n", ppo_last_error());
        return 1;
    }
    ppo_evaluation e = ppo_evaluate(agent, &env, 2, 1);
    ppo_agent_free(agent);
    printf("%s kernels, mean return %.1f\n", ppo_kernels_name(), (double)e.mean_return);
    return e.status != PPO_OK || e.mean_return < 1;
}
END
cat >$work/main.c <<'END' # uses a ppo.h that is implemented in another file
#include "ppo.h"
#include "train.h"
int main(void) { return short_training(); }
END
cat >$work/whole.c <<'END' # without companions: what needs one says which
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "train.h"
static int needs(const char *companion, ppo_status status) {
    if (status != PPO_OK && strstr(ppo_last_error(), companion)) return 1;
    fprintf(stderr, "%s is not asked for, but: %s\n", companion, ppo_last_error());
    return 0;
}
static int needs_layers(const char *path) { /* a policy with memory, or that sees pictures, and a file of one */
    static const char missing[] = "conv needs ppo_conv.h: include it after ppo.h, where PPO_IMPLEMENTATION is";
    ppo_env env = cartpole_env();
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    ppo_file *file = NULL;
    int good = !ppo_agent_create(&env, &cfg, &agent) && !ppo_agent_save(agent, path) &&
               !ppo_file_read(path, &file) && !ppo_file_set_text(file, "conv", "1x1x1") &&
               !ppo_file_set_text(file, "observation_shape", "1x2x2") && !ppo_file_write(file, path);
    ppo_agent_free(agent);
    ppo_file_free(file);
    agent = NULL;
    cfg.recurrent = 1;
    good = good && needs("ppo_gru.h", ppo_agent_create(&env, &cfg, &agent)) && !agent;
    cfg.recurrent = 0;
    env.shape[0] = 1, env.shape[1] = env.shape[2] = 2;
    cfg.conv_layers = 1;
    for (int k = 0; k < 3; ++k) cfg.conv[0][k] = 1;
    good = good && needs(missing, ppo_agent_create(&env, &cfg, &agent)) && !agent &&
           needs(missing, ppo_train(&env, &cfg, &agent)) && !agent &&
           needs(missing, ppo_agent_load(path, NULL, &agent)) && !agent;
    remove(path);
    return good;
}
#ifndef PPO_NO_LANGUAGE
static int encodes(void) { /* characters and bytes, with special tokens, without merges */
    static const char *const names[] = {"<eos>"};
    static const char text[] = "b<eos>\303\251a";
    int good = 1, n = 0, token[16];
    for (int bytes = 0; bytes < 2; ++bytes) {
        ppo_tokenizer *tok = NULL;
        char back[16] = "";
        good = good && !(bytes ? ppo_tokenizer_bytes(names, 1, &tok)
                               : ppo_tokenizer_characters(text, sizeof text - 1, names, 1, &tok)) &&
               !ppo_encode(tok, text, sizeof text - 1, token, 16, &n) && n == (bytes ? 9 : 8) &&
               !ppo_decode(tok, token, n, back, 16, NULL) && !strcmp(back, text) &&
               token[0] == (bytes ? 'b' - 33 : 3) && ppo_tokenizer_vocab(tok) == (bytes ? 257 : 9) &&
               ppo_tokenizer_special(tok, "<eos>") == ppo_tokenizer_vocab(tok) - 1;
        ppo_tokenizer_free(tok);
    }
    return good;
}
static int needs_others(void) { /* a folder, a file with a tokenizer.json in it, a training with a checkpoint */
    const int64_t n = 2, merge[2] = {1, 2};
    int start[2] = {0, 2}, token[2] = {1, 2};
    const ppo_tokens text = {1, start, NULL, token, NULL, NULL};
    ppo_fit_config fit = ppo_fit_config_default();
    ppo_rlhf_config rlhf = ppo_rlhf_config_default();
    ppo_rlhf *run = NULL;
    ppo_lm_config config = ppo_lm_config_default();
    ppo_tokenizer *made = NULL, *tokenizer = NULL;
    ppo_lm *lm = NULL, *loaded = NULL;
    ppo_file *file = NULL;
    config.vocab = 256;
    int good = !ppo_lm_create(&config, &lm) && !ppo_tokenizer_bytes(NULL, 0, &tokenizer) &&
               !ppo_file_create(&file) && !ppo_file_add(file, "tokenizer.json", PPO_U8, &n, 1, "{}") &&
               !ppo_file_set_text(file, "tokenizer", "json");
    good = good && needs("ppo_hub.h", ppo_lm_load(".", &loaded)) && !loaded &&
           needs("ppo_hub.h", ppo_tokenizer_load(".", &made)) && !made &&
           needs("ppo_hub.h", ppo_tokenizer_load("none/tokenizer.json", &made)) && !made &&
           needs("ppo_hub.h", ppo_tokenizer_save(tokenizer, ".")) &&
           needs("ppo_hub.h", ppo_tokenizer_save(tokenizer, "none/tokenizer.json")) &&
           needs("ppo_hub.h", ppo_tokenizer_get(file, &made)) && !made;
    ppo_file_free(file);
    good = good && !ppo_file_create(&file) && !ppo_file_add(file, "tokenizer.merges", PPO_I32, merge, 2, start) &&
           !ppo_file_set_text(file, "tokenizer", "bpe") && !ppo_file_set_text(file, "tokenizer.words", "gpt2") &&
           !ppo_file_set_text(file, "tokenizer.specials", "") &&
           needs("ppo_bpe.h", ppo_tokenizer_get(file, &made)) && !made;
    config.qk_norm = 1;
    good = good && needs("ppo_hub.h", ppo_lm_create(&config, &loaded)) && !loaded;
    fit.checkpoint = "none";
    good = good && needs("ppo_resume.h", ppo_fit_sft(lm, &text, &fit));
    fit.checkpoint = NULL, fit.held_out = &text;
    good = good && needs("ppo_judge.h", ppo_fit_sft(lm, &text, &fit));
    fit.held_out = NULL, fit.window = 2;
    good = good && needs("ppo_hub.h", ppo_fit_sft(lm, &text, &fit));
    fit.window = 0, fit.gradient_checkpointing = 1;
    good = good && needs("ppo_hub.h", ppo_fit_sft(lm, &text, &fit));
    for (int k = 0; k < 6; ++k) {
        rlhf.refills = k == 0, rlhf.samples = 2, rlhf.kl_place = PPO_KL_IN_LOSS;
        rlhf.ratio = k == 1 ? PPO_RATIO_SEQUENCE : PPO_RATIO_TOKEN;
        rlhf.kl_estimator = k == 2 ? PPO_KL_EXACT : PPO_K3;
        rlhf.sampling.tool_token = k == 3 ? 0 : -1;
        rlhf.reference_every = k == 4, rlhf.importance_cap = k == 5 ? 1 : 0;
        good = good && needs("ppo_methods.h", ppo_rlhf_create(lm, NULL, NULL, &text, NULL, NULL, &rlhf, &run)) && !run;
    }
    ppo_lm_free(lm);
    ppo_tokenizer_free(tokenizer);
    ppo_file_free(file);
    return good;
}
#endif
static ppo_status exchange(void *user, int peer, const void *send, size_t sent, void *receive, size_t received) {
    (void)user, (void)peer, (void)send, (void)sent, (void)receive, (void)received;
    return ppo_fail(PPO_ERROR_GROUP, "there is no peer");
}
int main(int argc, char **argv) {
    const ppo_group group = {0, 2, exchange, NULL};
    char path[200] = "";
    if (argc) snprintf(path, sizeof path, "%s.file", argv[0]);
    if (!needs("ppo_group.h", ppo_use_group(&group))) return 1;
#ifndef PPO_NO_REPORTS
    ppo_log *log = NULL;
    if (!needs("ppo_report.h", ppo_log_open(NULL, "runs", 0, &log)) || log) return 1;
    if (ppo_log_open(path, NULL, 0, &log)) return 1;
    ppo_log_close(log);
    if (!needs("ppo_resume.h", ppo_log_open(path, NULL, 1, &log)) || log) return 1;
#endif
    if (!needs_layers(path)) return 1;
#ifndef PPO_NO_LANGUAGE
    return encodes() && needs_others() && !short_training() ? 0 : 1;
#endif
    return short_training();
}
END
cat >$work/static_main.c <<'END' # its own copy, beside the one in static.c, and that of the library
#define PPO_STATIC
#define PPO_IMPLEMENTATION
#include "ppo.h"
int static_copy(void);
int main(void) {
    ppo_rng rng = ppo_rng_stream(1, PPO_STREAM_USER, 0);
    float x[3] = {ppo_rng_normal(&rng), 1, 2};
    return static_copy() != 2 || ppo_whiten(x, NULL, 3, 1) != PPO_OK;
}
END
cat >$work/stb_ds.c <<'END' # a program's own copy of stb_ds
#define STB_DS_IMPLEMENTATION
#if __has_include(<stb/stb_ds.h>)
#include <stb/stb_ds.h>
#else
#include "stb_ds.h"
#endif
int own_stb(void);
int own_stb(void) {
    int *x = NULL, sum = 0;
    for (int i = 0; i < 100; i++) arrput(x, i);
    for (int i = 0; i < 100; i++) sum += x[i];
    arrfree(x);
    return sum;
}
END
cat >$work/stb_main.c <<'END'
#include "ppo.h"
#include "train.h"
int own_stb(void);
int main(void) { return own_stb() == 4950 ? short_training() : 1; }
END

cat >$work/cuda_declare.c <<'END' # ppo_cuda.cuh for its declarations, in a file that another compiler sees
#include "ppo.h"
#include "ppo_cuda.cuh"
int main(void) {
    ppo_cuda       *cuda = NULL;
    ppo_cuda_logits logits = {NULL, 1};
    if (ppo_cuda_create(-1, &cuda) == PPO_OK || cuda) return 1;
    return ppo_cuda_token_logp(cuda, &logits, NULL, NULL, 1, 1, 1, NULL) != PPO_ERROR_ARGUMENT;
}
END
cat >$work/cuda_implement.cu <<'END'
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "ppo_cuda.cuh"
END

cat >$work/names.c <<'END' # functions that are called as in stb_ds.h
#define PPO_IMPLEMENTATION
#include "ppo.h"
static int arrlen(int x) { return x + 1; }
static int hmput(int x) { return x + 2; }
int main(void) { return arrlen(1) + hmput(1) != 5; }
END

for order in first last; do # the same in one file, with ppo.h after stb_ds and before it: then only the long names
    {
        [ $order = last ] && printf '#define PPO_IMPLEMENTATION\n#include "ppo.h"\n'
        sed "$([ $order = last ] && printf %s 's/ arr\([pf]\)/ stbds_arr\1/')" $work/stb_ds.c
        [ $order = first ] && printf '#define PPO_IMPLEMENTATION\n'
        cat $work/stb_main.c
    } >$work/stb_$order.c
done

# Macros of programs in capital letters, of one or of more, which no header expands; after the system's headers, as there.
{
    echo '#include <assert.h>'
    for header in ctype errno float limits math stdarg stddef stdint stdio stdlib string time pthread unistd sys/stat fcntl; do
        echo "#include <$header.h>"
    done
    printf '#ifdef __x86_64__\n#include <immintrin.h>\n#include <cpuid.h>\n#endif\n'
    for name in A B C D E F G H I J K L M N O P Q R S T U V W X Y Z ABS ACTION ALIGN ALL ALPHA ASSERT BATCH BEGIN BETA BLOCK BOOL BUFFER \
        BYTE CHAR CHECK CHOICE CHUNK CLAMP COLS COMMA CONFIG COUNT DEBUG DEPTH DIM DONE DOUBLE END ENTROPY EPS EPSILON ERROR FAIL FALSE \
        FAR FATAL FIRST FIELD FLOAT FOR FOREACH GAMMA GRAD GRID HALF HEAD HEIGHT HIGH IN INDEX INFO INLINE INOUT INT KEY LABEL LARGE LAST \
        LEFT LEN LENGTH LOG LOOP LOW LR MASK MAX MIN MODE MOST NAME NEAR NEXT NONE OBS OK OPTIONAL OUT PACKED PAD PI POLICY PRINT RATE \
        READ RESET REWARD RIGHT ROW ROWS SEED SHIFT SIGN SIZE SMALL SQUARE STATE STATIC STEP STRING SWAP TAIL TALL TANH TENSOR TEXT TILE \
        TOKEN TOP TRUE TYPE U64 UNUSED VALUE VEC VERSION VOID WARN WIDE WIDTH WORD WRITE; do
        echo "#define $name 5"
    done
    printf '#define far\n#define near\n#define small char\n#define interface struct\n' # those of Windows
    echo '#include "companions.c"'
} >$work/capitals.c
{
    sed '/companions.c/d' $work/capitals.c
    echo '#include "ppo.h"'
    for env in examples/envs/*.h; do [ $env = examples/envs/mujoco.h ] || echo "#include \"$env\""; done
} >$work/capitals_envs.c
{
    for header in cublas_v2 cuda_bf16 cuda_runtime; do echo "#include <$header.h>"; done
    sed '/companions.c/d' $work/capitals.c
    cat $work/cuda_implement.cu
} >$work/cuda_capitals.cu

cat >$work/foundation.c <<'END' # for programs without control, which have no training
#include "ppo.h"
int main(void) {
    ppo_rng rng = ppo_rng_stream(1, PPO_STREAM_USER, 0);
    float   x[3] = {ppo_rng_normal(&rng), 1, 2};
    return ppo_whiten(x, NULL, 3, 1) != PPO_OK;
}
END

# --- the header in every language and with every switch ----------------------------------------------------------

# translate COMPILER FLAGS FILE - one file
translate() { $1 $2 -I. -I$work -c "$work/$3" -o "$work/$name.o"; }

# accept COMPILER FLAGS FILE... - the same without output of code, which is much faster
accept() {
    compiler=$1 flags=$2
    shift 2
    for file in "$@"; do $compiler $flags $strict -fsyntax-only -I. -I$work "$work/$file"; done
}

# build_and_run COMPILER FLAGS FILE... - one program from the files, and $objects, which must then work
objects=
build_and_run() {
    compiler=$1 flags=$2 sources=
    shift 2
    for file in "$@"; do sources="$sources $work/$file"; done
    $compiler $flags -I. -I$work $sources $objects -o $work/$name.program -lm
    $work/$name.program
}

# link_and_run FLAGS FILE... - the same with the library
link_and_run() {
    objects=$library
    build_and_run "$cc" "$@"
}

# The library of `make`, compiled with -O2 -Wall -Wextra: only the optimizer finds some of gcc's warnings.
library=build/ppo.o
no_warning() {
    ${MAKE:-make} -s $library CC="$cc"
    [ ! -s build/ppo.log ]
}
check implementation no_warning
wait

combinations= # of the switches: without_control_reports, for example, is -DPPO_NO_CONTROL -DPPO_NO_REPORTS
for c in '' _control; do for l in '' _language; do for r in '' _reports; do combinations="$combinations without$c$l$r"; done; done; done
# gcc tries all eight; the others try each switch alone, and all together (in make test-long: all eight). What clang++ tries
# g++ need not: the companions, which it sees, are in all eight of gcc.
combinations_for() {
    case ${PPO_TEST_FULL:-$1} in
    gcc | 1) echo "${combinations# without }" ;;
    g++) have clang++ && echo without_control_language_reports || combinations_for any ;;
    *) echo without_control without_language without_reports without_control_language_reports ;;
    esac
}
# Clang sees the implementation alone, GCC with its companions.
implementation_for() { case $1 in clang*) echo implement.c ;; *) echo companions.c ;; esac; }
switches_of() { echo "${1#without}" | tr a-z A-Z | sed 's/_/ -DPPO_NO_/g'; }

files="declare.c static.c cuda_declare.c"
for compiler in gcc clang; do
    if have $compiler; then
        check ${compiler}_c99 accept $compiler -std=c99 $files
        check ${compiler}_O0 build_and_run $compiler "-std=c99 -O0 $strict" whole.c
        for c in $(combinations_for $compiler); do
            check ${compiler}_c99_$c accept $compiler "-std=c99 $(switches_of $c)" $(implementation_for $compiler) foundation.c
        done
    else
        skip ${compiler}_c99 "$compiler is not installed"
    fi
done
training=$(switches_of _language_reports)
if [ "${PPO_TEST_FULL-}" ]; then # make test has test_math_native with -O3 -march=native
    have gcc && check gcc_O3_native build_and_run gcc "-O3 -march=native $training" whole.c
    have clang && check clang_O1_native build_and_run clang "-O1 -march=native $training" whole.c
fi
for compiler in g++ clang++; do
    cxx=$(echo $compiler | sed 's/+/x/g')
    if have $compiler; then
        check ${cxx}_17 accept $compiler "-x c++ -std=c++17" companions.c $files
        if [ $compiler = g++ ]; then
            check ${cxx}_20_and_macros_in_capitals accept $compiler "-x c++ -std=c++20" capitals.c envs.c
            check ${cxx}_23 accept $compiler "-x c++ -std=c++2b" implement.c
        fi
        for c in $(combinations_for $compiler); do
            check ${cxx}_17_$c accept $compiler "-x c++ -std=c++17 $(switches_of $c)" $(implementation_for $compiler) foundation.c
        done
    else
        skip ${cxx}_17 "$compiler is not installed"
    fi
done

# PPO__GIVEN() hands over any number of arguments, which must all be pointers: here as an array of them.
given_are_pointers() {
    mkdir -p $work/given/examples
    cp -r examples/companions $work/given/examples
    sed 's/^#define PPO__GIVEN(.*/#define PPO__GIVEN(function, ...) ppo__array_given((const void *const[]){__VA_ARGS__})\
static int ppo__array_given(const void *const *pointer) { return *pointer != NULL; }/' ppo.h >$work/given/ppo.h
    grep -q ppo__array_given $work/given/ppo.h
    cp $work/companions.c $work/given
    $cc -Werror -I$work/given -fsyntax-only $work/given/companions.c
}
check given_are_pointers given_are_pointers

check macros_in_capitals accept "$cc" "-std=gnu99 -DPPO_VECTOR16" capitals.c capitals_envs.c
check ppo_static_with_companions accept "$cc" "-std=c99 -DPPO_STATIC" companions.c
check ppo_no_threads build_and_run "$cc" "-std=c99 -O0 $strict -DPPO_NO_THREADS -DPPO_NO_SIMD" whole.c
check ppo_no_simd accept "$cc" "-std=c99 -DPPO_NO_SIMD" implement.c
check two_files_without_control_language_reports build_and_run "$cc" \
    "-O0 -DPPO_NO_SIMD $(switches_of _control_language_reports)" foundation.c implement.c

renamed() { # which matters to the foundation alone
    mkdir $work/renamed
    cp ppo.h $work/renamed/policy.h
    [ ! -f stb_ds.h ] || cp stb_ds.h $work/renamed
    printf '#define PPO_FILE_NAME "policy.h"\n#define PPO_IMPLEMENTATION\n#include "policy.h"\n' >$work/renamed/main.c
    $cc -std=c99 $strict $(switches_of _control_language_reports) -fsyntax-only $work/renamed/main.c
}
check ppo_file_name renamed

# --- companions ---------------------------------------------------------------------------------------------------

# Each says in one line that ppo.h is missing, or of another version.
refused() { # FILE TEXT
    ! $cc -I. -fsyntax-only $work/$1 2>$work/$name.errors
    grep "error: .*$2" $work/$name.errors
    test "$(grep -c "error: .*$2" $work/$name.errors)" = 1
}
for companion in examples/companions/*; do
    file=${companion##*/}
    echo "#include \"$companion\"" >$work/$file.c
    printf '#include "ppo.h"\n#undef PPO_VERSION_MINOR\n#define PPO_VERSION_MINOR 99\n#include "%s"\n' $companion >$work/other_$file.c
    check ${file%.*}_without_ppo refused $file.c "include ppo.h before $file"
    check ${file%.*}_of_another_version refused other_$file.c "$file belongs to version"
done

if have mpicc; then
    check mpi accept mpicc -std=c99 mpi.c
    have mpicxx && check mpi_cxx accept mpicxx "-x c++ -std=c++17" mpi.c
    check mpi_static accept mpicc "-std=c99 -DPPO_STATIC $(switches_of _control_language_reports)" mpi.c
else
    skip mpi "mpicc is not installed"
fi

# --- CUDA: what the emulation accepts must be CUDA, and ppo_cuda.cuh fits into other people's builds ---------------

cat >$work/kernels.cu <<'END'
#include "tests/cuda_kernels_for_emulation.h"
int main() {
    launch_a_template(nullptr, 1, nullptr);
    return make_every_call();
}
END
# A file of C and one that nvcc compiles make one program.
cuda_two_files() {
    $cc -std=c99 -O2 $strict -I. -c $work/cuda_declare.c -o $work/cuda_declare.o
    "$nvcc" $nvcc_flags -I. -c $work/cuda_capitals.cu -o $work/cuda_implement.o
    "$nvcc" $work/cuda_declare.o $work/cuda_implement.o -o $work/$name.program -lcublas
}
# Another compiler that is to implement it says that it cannot, in one line.
others_send_to_nvcc() {
    ! $cc -I. -x c -c $work/cuda_implement.cu -o $work/$name.o 2>$work/$name.errors
    grep 'error.*nvcc compiles' $work/$name.errors
    test "$(grep -c error: $work/$name.errors)" = 1
}
check others_send_to_nvcc others_send_to_nvcc
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
# The warnings of `make cuda`, which optimizes; -G leaves that out on the device, too, where it takes half of the time. The
# host compiler sees preprocessed text, where it finds other ones.
nvcc_flags='-std=c++17 -O0 -G -gencode arch=compute_80,code=compute_80 -Werror all-warnings
    -Xcompiler -Wall,-Wextra,-Wno-missing-field-initializers,-Wno-parentheses,-Werror'
echo '#include <cublas_v2.h>' >$work/cublas.cu
if have "$nvcc" && "$nvcc" -E $work/cublas.cu >$work/cublas.log 2>&1; then
    check nvcc_kernels_for_emulation translate "$nvcc" "$nvcc_flags" kernels.cu
    check nvcc_implementation_c_user cuda_two_files
else
    skip nvcc "nvcc with cuBLAS is not installed"
fi

# --- several files of one program ---------------------------------------------------------------------------------

check one_implementation_one_user link_and_run -O0 main.c
check two_static_copies link_and_run "-O0 -DPPO_NO_SIMD $(switches_of _control_language_reports)" static_main.c static.c
static_without_implementation() {
    ! $cc -Wall -Wextra -I. -fsyntax-only $work/no_copy.c 2>$work/$name.errors
    test "$(grep -c 'error:\|warning:' $work/$name.errors)" = 1
    grep 'PPO_STATIC needs PPO_IMPLEMENTATION' $work/$name.errors
}
check static_without_implementation static_without_implementation
check stb_ds_in_another_file link_and_run -O0 stb_main.c stb_ds.c
check stb_ds_before_ppo_in_one_file build_and_run "$cc" "-O0 -DPPO_NO_SIMD $training" stb_first.c
check names_of_stb_ds_are_the_users accept "$cc" "$(switches_of _control_language_reports)" names.c
check stb_ds_after_ppo_in_one_file build_and_run "$cc" "-O0 -DPPO_NO_SIMD $training" stb_last.c

mixed_languages() {
    g++ -std=c++17 -I. -x c++ -c $work/main.c -o $work/mixed_main.o
    g++ $work/mixed_main.o $library -o $work/mixed -lm
    $work/mixed
}
if have g++; then check c_implementation_cxx_user mixed_languages; else skip c_implementation_cxx_user "g++ is not installed"; fi

# --- the warnings of stb_ds.h stay out of the user's log, though it is no system header here -----------------------

stb_ds=$(for h in '"stb_ds.h"' '<stb/stb_ds.h>' '<stb_ds.h>'; do printf '#include %s\n' "$h" | $cc -I. -M -x c - 2>/dev/null; done |
    tr ' ' '\n' | grep -m1 'stb_ds\.h$')
no_warning_in_stb_ds() { # COMPILER FOLDER
    mkdir -p $work/$name/stb
    cp ppo.h $work/$name
    cp "$stb_ds" $work/$name/"$2"
    $1 $picky -I$work/$name -I$work/$name/stb $work/implement.c 2>$work/$name/warnings
    ! grep -n stb_ds $work/$name/warnings
}
for compiler in gcc clang; do
    if have $compiler; then
        check ${compiler}_quiet_about_stb_ds_beside no_warning_in_stb_ds $compiler .
        check ${compiler}_quiet_about_stb_ds_in_a_folder no_warning_in_stb_ds $compiler stb
    fi
done

# --- the pages' programs, lines and links -------------------------------------------------------------------------

pages="README.md examples/README.md bench/README.md bench/RESULTS.md bench/learning/README.md examples/python/README.md $(echo examples/docs/*.md)"

# block PAGE TAG - the code blocks of a page that follow a line <!-- TAG -->
block() { awk -v tag="<!-- $2 -->" '$0 == tag { wait = 1; next }  /^```/ && inside { inside = 0; next }  inside
                                    /^```/ && wait { inside = 1; wait = 0 }' "$1"; }
tags() { sed -n 's/^<!-- \('"$2"'\) -->$/\1/p' "$1" | sort -u; } # PAGE EXPRESSION

same_as_file() { # FILE
    block README.md "$1" >$work/$name.block
    diff $work/$name.block "$1"
}
check readme_quickstart_is_the_file same_as_file examples/quickstart.c

synopsis_is_the_file() {
    sed -n '/^SYNOPSIS/,/^    cc /p' ppo.h | sed -e 1,2d -e '/^    cc /d' -e 's/^    //' -e 's, *// in exactly.*,,' |
        sed '$d' >$work/synopsis
    sed '1,/\*\/$/d' examples/quickstart.c | diff $work/synopsis -
}
check synopsis_is_the_file synopsis_is_the_file

excerpt_of_file() { # PAGE FILE - every line of the blocks stands in the file, in this order
    block "$1" "excerpt of $2" >$work/$name.block
    test -s $work/$name.block
    awk 'NR == FNR { if ($0 != "" && $0 != "...") line[++n] = $0; next }  $0 == line[k + 1] { k++ }
         END { if (k < n) { print "not in the file, or not in this order: " line[k + 1]; exit 1 } }' $work/$name.block "$2"
}

program() { # PAGE TAG
    block "$1" "$2" >$work/$name.c
    test -s $work/$name.c
    $cc -std=c99 -O2 $strict -I. -Iexamples -DPPO_NO_IMPLEMENTATION $work/$name.c $library -o $work/$name.program -lm
    (cd $work && ./$name.program) # some write files
}

# What the blocks of lines may use without saying what it is.
lines_control='ppo_env env, ppo_config cfg, ppo_agent *agent, ppo_trainer *trainer, ppo_progress progress, int character,
    int begins, const float *obs, ppo_outcome outcome, ppo_action action, int rank, int size, ppo_status (*exchange)(void *user, int peer, const void *send, size_t sent, void *receive, size_t received)'
lines_language='ppo_lm *lm, ppo_lm *base, ppo_lm *policy, ppo_lm *merged, ppo_lm *reference, ppo_tokenizer *tokenizer,
    ppo_generator *generator, ppo_rlhf *rlhf, ppo_rlhf_config cfg, ppo_fit_config fit, ppo_sampling sampling,
    ppo_tokens prompts, ppo_tokens held_out, ppo_tokens chosen, ppo_tokens rejected, ppo_reward_fn reward, ppo_reward_fn judge'
lines() { # PAGE TAG PARAMETERS
    block "$1" "$2" >$work/$name.block
    test -s $work/$name.block
    {
        printf '#include "ppo.h"\n'
        grep '^#include' $work/$name.block || true
        printf 'void lines(%s);\nvoid lines(%s) {\n{\n' "$3" "$3"
        grep -v '^#include' $work/$name.block
        printf '}\n}\n'
    } >$work/$name.c
    $cc -std=c99 $strict -Wno-unused-parameter -Wno-unused-variable -Wno-unused-but-set-parameter \
        -Wno-unused-but-set-variable -I. -Iexamples -fsyntax-only $work/$name.c
}

for page in $pages; do
    of=$(basename $page .md | tr A-Z a-z)
    for file in $(tags $page 'excerpt of .*' | sed 's/excerpt of //'); do
        check ${of}_excerpt_of_$(basename $file .h) excerpt_of_file $page $file
    done
    for tag in $(tags $page 'program-[a-z-]*'); do check ${of}_$tag program $page $tag; done
    for tag in $(tags $page 'lines-[a-z]*'); do
        case $tag in *-control) parameters=$lines_control ;; *) parameters=$lines_language ;; esac
        check ${of}_$tag lines $page $tag "$parameters"
    done
done

every_c_block_is_compiled() {
    ! awk '/^```c$/ && before !~ /^<!-- (examples\/|excerpt of |program-|lines-)/ { print FILENAME ":" FNR }
           { before = $0 }' $pages | grep .
}
check every_c_block_is_compiled every_c_block_is_compiled

# Links to files of the repository, and to headings, whose names are those that code hosts give them.
links_lead_somewhere() {
    for page in $pages; do
        awk '/^```/ { inside = !inside }
             !inside && /^##* / { sub(/^#* /, ""); s = tolower($0); gsub(/[^a-z0-9 _-]/, "", s); gsub(/ /, "-", s); print s }' \
            $page | sed "s,^,$page#,"
    done >$work/headings
    for page in $pages; do
        grep -oE '\]\([^)]+\)' $page | sed 's/^](//; s/)$//' | grep -v '^https\{0,1\}:' | while read -r link; do
            case $link in '#'*) file=$page ;; *) file=$(dirname $page)/${link%%#*} ;; esac
            [ -e "$file" ] || echo "$page: $link"
            case $link in
            *.md'#'* | '#'*) grep -qx "$(realpath --relative-to=. "$file")#${link#*#}" $work/headings || echo "$page: $link" ;;
            esac
        done
    done >$work/lost_links
    cat $work/lost_links
    test "$(wc -l <$work/headings)" -gt 80 && test ! -s $work/lost_links
}
check links_lead_somewhere links_lead_somewhere

picture_compiles() { $cc -std=c99 -O0 $strict -I. -Iexamples -DPPO_NO_IMPLEMENTATION examples/docs/picture.c $library -o $work/picture -lm; }
check picture_compiles picture_compiles

# --- the results --------------------------------------------------------------------------------------------------

wait
number=0 status=0
for name in $(cat $work/names); do
    number=$((number + 1))
    if [ -f $work/$name.passed ]; then
        echo "ok $number - $name"
    elif [ -f $work/$name.skipped ]; then
        echo "ok $number # SKIP $name: $(cat $work/$name.skipped)"
    else
        echo "not ok $number - $name"
        tail -n 20 $work/$name.log | sed 's/^/# /'
        status=1
    fi
done
echo "1..$started"
exit $status
