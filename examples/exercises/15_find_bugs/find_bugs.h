typedef struct settings {
    float beta;         /* what the KL to the reference costs */
    float lambda;       /* of GAE; gamma is 1 */
    float clip;         /* of the ratio: 1 - clip to 1 + clip */
    float entropy_coef; /* of the mean entropy */
    float lr;           /* of plain gradient descent */
    int epochs;
} settings;

/* One iteration of PPO on tokens. theta [vocab][vocab]: row p holds the logits of the token after token p; V [vocab]: the
   value of a text that ends in token p; both are trained. start [n]: the last token of each prompt. token, old_logp,
   ref_logp [n][length]: what was sampled, its log-probability then, and under the reference. score [n]: of the whole
   text. advantage [n][length] is an output. */
void iterate(float *theta, float *V, const int *start, const int *token, const float *old_logp,
             const float *ref_logp, const float *score, int n, int length, int vocab, const settings *s,
             float *advantage);
