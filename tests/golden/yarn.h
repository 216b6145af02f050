/* Written by make_yarn.py; do not edit. Reference libraries: transformers 5.24.0, torch 2.15.0, numpy 2.4.6.
   See there what the numbers are. */
#ifndef GOLDEN_YARN_H
#define GOLDEN_YARN_H

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-const-variable"
#endif

/* By settings and positions: cosines and sines of half of the columns each, with the factor of the scores. */
enum { g_yarn_cases = 3, g_yarn_positions = 3, g_yarn_columns = 16 };
static const int g_yarn_position[] = { /* [3] */
    1, 30, 200
};
static const float g_yarn_factor[] = { /* [3] */
    4.0f, 2.5f, 1.0f
};
static const float g_yarn_original_max_position_embeddings[] = { /* [3] */
    32.0f, 48.0f, 8.0f
};
static const float g_yarn_beta_fast[] = { /* [3] */
    32.0f, 16.0f, 32.0f
};
static const float g_yarn_beta_slow[] = { /* [3] */
    1.0f, 2.0f, 1.0f
};
static const float g_yarn_angles[] = { /* [9][16] */
    0.6152041f, 1.1164628f, 1.1382736f, 1.1385939f, 1.1386259f, 1.1386291f, 1.1386294f, 1.1386294f,
    0.9581236f, 0.22357915f, 0.028462771f, 0.009001563f, 0.0028465705f, 0.0009001656f, 0.00028465738f,
    9.001657e-05f, 0.17563525f, 1.0680609f, 0.8331225f, 1.1067553f, 1.1354285f, 1.1383092f, 1.1385974f,
    1.1386262f, -1.1250019f, -0.39461762f, 0.77613395f, 0.2675251f, 0.08531717f, 0.027002439f, 0.008539641f,
    0.0027004944f, 0.55472624f, -0.29113802f, 0.3229862f, -0.011776184f, 0.99924135f, 1.1244262f, 1.1372064f,
    1.1384871f, -0.994362f, 1.1007795f, -1.0918593f, 1.1385685f, 0.545888f, 0.17928393f, 0.056907754f,
    0.018002564f, 0.5898097f, 1.0649931f, 1.0907559f, 1.0915418f, 1.0916203f, 1.0916282f, 1.091629f,
    1.091629f, 0.9185742f, 0.23967381f, 0.043653518f, 0.01380777f, 0.004366505f, 0.0013808134f, 0.0004366516f,
    0.00013808138f, 0.16838537f, 1.0225731f, 0.3955603f, 1.0139704f, 1.0837787f, 1.0908432f, 1.0915505f,
    1.0916212f, -1.078564f, 0.3820973f, 1.0174409f, 0.40437362f, 0.13068134f, 0.041414473f, 0.013099235f,
    0.004142431f, 0.5318282f, 1.046175f, -0.15883188f, -0.8936431f, 0.76054525f, 1.0568829f, 1.0881377f,
    1.0912797f, -0.95331675f, 0.311724f, 1.0800122f, 0.6269418f, 0.7830868f, 0.27322644f, 0.0872372f,
    0.027613329f, 0.5403023f, 0.95041525f, 0.9950042f, 0.99950004f, 0.99995f, 0.999995f, 0.9999995f,
    0.99999994f, 0.84147096f, 0.3109836f, 0.09983342f, 0.031617507f, 0.009999833f, 0.0031622725f,
    0.0009999999f, 0.0003162278f, 0.15425146f, -0.9980752f, -0.9899925f, 0.58275354f, 0.9553365f, 0.99550337f,
    0.99955004f, 0.999955f, -0.9880316f, -0.062015135f, 0.14111996f, 0.81264895f, 0.2955202f, 0.0947261f,
    0.029995501f, 0.009486691f, 0.48718768f, 0.9156398f, 0.4080818f, 0.9991444f, -0.41614679f, 0.8065784f,
    0.9800666f, 0.9980007f, -0.8732973f, 0.40199968f, 0.9129454f, 0.041358616f, 0.90929747f, 0.59112716f,
    0.19866934f, 0.0632034f
};

#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
#endif /* GOLDEN_YARN_H */
