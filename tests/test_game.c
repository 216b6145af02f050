/* examples/game.c: characters learn while the game runs, in its own thread and in another one. */
#define PPO_NO_IMPLEMENTATION
#define main game_main
#include "../examples/game.c"
#undef main

#include "test.h"

static void characters_learn_in_slices_of_a_frame(void **state) {
    (void)state;
    FILE *out = tmpfile();
    result r = play(0, SMALL(5000, 400), 0, 1, out);
    assert_true(r.rollouts >= SMALL(20, 1));
    assert_true(r.caught > SMALL(0.6, 0));
    fclose(out);
}

static void characters_act_while_another_thread_learns(void **state) {
    (void)state;
    FILE *out = tmpfile();
    result r = play(1, 1000, 2e-4, 1, out);
    assert_true(r.rollouts >= SMALL(2, 1));
    fclose(out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_learn_in_slices_of_a_frame),
        cmocka_unit_test(characters_act_while_another_thread_learns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
