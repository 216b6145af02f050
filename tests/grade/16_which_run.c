/* wrong 1: 6 Without a clip many epochs go far */
/* wrong 2: 8 A critic that does not learn explains nothing */
/* wrong 3: 8 Too small a clip range shows */
/* wrong 4: 9 Not answered */
#include "which_run.h"

const enum mistake answers[8] = {
    WRONG == 2 ? CRITIC_DOES_NOT_LEARN : ENTROPY_BONUS_TOO_LARGE,
    WRONG == 2 ? ENTROPY_BONUS_TOO_LARGE : CRITIC_DOES_NOT_LEARN,
    WRONG == 4 ? UNKNOWN : HEALTHY,
    WRONG == 3 ? CLIP_RANGE_TOO_SMALL : REWARDS_TOO_LARGE,
    WRONG == 1 ? NO_CLIP_AND_MANY_EPOCHS : LEARNING_RATE_TOO_LARGE,
    SHORT_SIGHTED,
    WRONG == 3 ? REWARDS_TOO_LARGE : CLIP_RANGE_TOO_SMALL,
    WRONG == 1 ? LEARNING_RATE_TOO_LARGE : NO_CLIP_AND_MANY_EPOCHS,
};
