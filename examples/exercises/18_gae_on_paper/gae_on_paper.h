enum { STEPS = 5 };

/* What you computed by hand. */
extern const float delta[STEPS], advantage[STEPS], value_target[STEPS];
