#include "../grade.h"
#include "which_run.h"

enum { RUNS = 8 };

#ifdef GRADE_STUDENT
static void answer(grade_case *c) {
    for (int k = 0; k < RUNS; k++) floats(c, "answers")[k] = (float)answers[k];
}
#else

/* A number of a run and an answer, so that the answers do not stand here. */
static unsigned mixed(int run, int answer) {
    unsigned x = 2166136261u;
    for (int k = 0; k < 64; k++) x = (x ^ (unsigned)(run * 16 + answer + k)) * 16777619u;
    return x;
}

static void examine(grade_run *run, int part, char *wrong) {
    static const unsigned right[RUNS] = {0xf3d2b385u, 0xe4402105u, 0xa3083085u, 0xb5ebd885u,
                                         0xa3ab4245u, 0x4bb32305u, 0x49407185u, 0x0a2fbb45u};
    /* what a mistake shows, for those who found it where it is not */
    static const char *const shows[] = {
        "Not answered.",
        "A healthy run reaches 500, with a KL near 0.005 and an entropy that falls.",
        "Too large a learning rate shows in the KL, which is above 0.05, and in sudden falls.",
        "Too large an entropy bonus shows in the entropy: it does not fall, however good the policy is.",
        "A critic that does not learn explains nothing, at any time, and its loss stays where it was.",
        "Too small a clip range shows in the clip fraction, which is large, while nothing moves.",
        "Without a clip many epochs go far: the KL is above 0.5 from the first rows on.",
        "Large rewards show in the loss of the critic, by their square.",
        "A short-sighted critic predicts small numbers: its loss is thousandths, whatever the return."};
    static float given[RUNS];
    static int answered;
    if (part == 0) {
        grade_case c = {0};
        add_output(&c, "answers", RUNS, 1);
        answered = grade_ask(run, &c);
        memcpy(given, floats(&c, "answers"), sizeof given);
        grade_free(&c);
    }
    int said = given[part] >= 0 && given[part] <= 8 ? (int)given[part] : 0;
    if (!answered) grade_say(wrong, "%s", run->death);
    else if (mixed(part, said) != right[part]) grade_say(wrong, "%s", shows[said]);
}

static const grade_exercise exercise = {
    .file = "which_run.c",
    .part = {{1, 1, "in run a"},
             {1, 1, "in run b"},
             {1, 1, "in run c"},
             {1, 1, "in run d"},
             {2, 1, "in run e"},
             {1, 1, "in run f"},
             {1, 1, "in run g"},
             {2, 1, "in run h"}},
    .examine = examine,
};
#endif
