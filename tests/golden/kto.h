/* Written by make_kto.py; do not edit. Reference libraries: trl 1.16.0, torch 2.15.0, numpy 2.4.6. See there
   what the numbers are. */
#ifndef GOLDEN_KTO_H
#define GOLDEN_KTO_H

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-const-variable"
#endif

/* kto: by TRL's KTOTrainer; low_: with an estimate of the KL below 0 */
enum { g_kto_n = 9 };
static const float g_kto_beta = 0.3f;
static const float g_kto_logp[] = { /* [9] */
    -7.9963098f, -7.1037636f, -8.822413f, -10.671776f, -9.364013f, -10.974939f, -7.819569f, -3.9793544f,
    -9.47662f
};
static const float g_kto_ref_logp[] = { /* [9] */
    -9.861424f, -6.5304737f, -6.929339f, -7.6837573f, -10.791404f, -8.087755f, -5.9140906f, -12.032643f,
    -9.372848f
};
static const float g_kto_kl_logp[] = { /* [9] */
    -13.442362f, -11.117114f, -12.611896f, -9.43541f, -11.480093f, -7.364726f, -7.5385838f, -6.6998944f,
    -15.557814f
};
static const float g_kto_low_kl_logp[] = { /* [9] */
    -14.471147f, -13.553003f, -13.741604f, -9.393572f, -12.712804f, -8.049989f, -7.1046906f, -9.4369335f,
    -17.709103f
};
static const float g_kto_ref_kl_logp[] = { /* [9] */
    -13.703669f, -11.868613f, -13.525205f, -8.705274f, -11.80234f, -7.186207f, -7.5297465f, -8.560793f,
    -15.550279f
};
static const float g_kto_weight[] = { /* [9] */
    1.5f, 1.5f, 1.5f, -0.75f, 1.5f, 1.5f, 1.5f, 1.5f, 1.5f
};
static const float g_kto_loss = 0.69797343f;
static const float g_kto_grad[] = { /* [9] */
    -0.011878993f, -0.012261348f, -0.0111811105f, 0.004909511f, -0.0121813575f, -0.009955752f, -0.011167569f,
    -0.004107739f, -0.012441298f
};
static const float g_kto_baseline = 0.35380363f;
static const float g_kto_low_loss = 0.66951805f;
static const float g_kto_low_grad[] = { /* [9] */
    -0.011570505f, -0.012408018f, -0.011543882f, 0.005145291f, -0.011944038f, -0.010420321f, -0.011531971f,
    -0.0037622f, -0.012496972f
};

#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
#endif /* GOLDEN_KTO_H */
