enum mistake {
    UNKNOWN,
    HEALTHY,                 /* the settings of a good run */
    LEARNING_RATE_TOO_LARGE, /* 0.05, not 0.001 */
    ENTROPY_BONUS_TOO_LARGE, /* a coefficient of 0.5, not 0.005 */
    CRITIC_DOES_NOT_LEARN,   /* the value loss counts 0 */
    CLIP_RANGE_TOO_SMALL,    /* 0.002, not 0.2 */
    NO_CLIP_AND_MANY_EPOCHS, /* r A, and 40 epochs, not 8 */
    REWARDS_TOO_LARGE,       /* a thousand times as large */
    SHORT_SIGHTED            /* gamma 0.5, not 0.99 */
};

/* What is wrong with run_a.csv to run_h.csv. */
extern const enum mistake answers[8];
