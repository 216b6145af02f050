/* wrong 1: 0 Step 2 is treated as terminated */
/* wrong 2: 0 Step 4 is treated as if the episode went on */
/* wrong 3: 4 reaches back over step 2 */
/* wrong 4: 4 lambda is left out */
/* wrong 5: 8 value_target is the advantage */
/* wrong 6: 0 belongs to another episode */
#include "gae_on_paper.h"

#define D2   (WRONG == 1 ? 0 : WRONG == 6 ? 0.5f : 4)
#define D4   (WRONG == 2 ? 3 : -2)
#define D0   1
#define D1   (-3)
#define D3   5
#define K    (WRONG == 4 ? 0.5f : 0.25f)
#define A3   (D3 + K * D4)
#define A2   (D2 + (WRONG == 3 ? K * A3 : 0))
#define A1   (D1 + K * A2)
#define A0   (D0 + K * A1)
#define V(x) (WRONG == 5 ? 0 : (x))

const float delta[STEPS] = {D0, D1, D2, D3, D4};
const float advantage[STEPS] = {A0, A1, A2, A3, D4};
const float value_target[STEPS] = {A0 + V(2), A1 + V(4), A2 + V(2), A3 + V(1), D4 + V(6)};
