/* Written by make_chat.py; do not edit. Reference libraries: transformers 5.24.0, jinja2 3.1.6, torch 2.15.0,
   numpy 2.4.6. See there what the numbers are. */
#ifndef GOLDEN_CHAT_H
#define GOLDEN_CHAT_H

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-const-variable"
#endif

/* Hashes of the texts of all chats, by form, without and with thinking: two halves each. */
enum { g_chats = 200 };
static const unsigned int g_chat_hash[] = { /* [76] */
    0x1afcf46eu, 0x7fdf7dabu, 0x1afcf46eu, 0x7fdf7dabu, 0x0be8f953u, 0xd7be3449u, 0x0be8f953u, 0xd7be3449u,
    0x4d67ded7u, 0x88f24b05u, 0x4d67ded7u, 0x88f24b05u, 0xe17bbde1u, 0x9e737523u, 0xe17bbde1u, 0x9e737523u,
    0x8b87eb99u, 0xb1d97745u, 0x8b87eb99u, 0xb1d97745u, 0x9be06468u, 0x9db3ce9fu, 0x9be06468u, 0x9db3ce9fu,
    0xcfad5c64u, 0xa1c59d1bu, 0xcfad5c64u, 0xa1c59d1bu, 0x50b8be75u, 0xe3026bd7u, 0x6a3027d0u, 0x2c6488c3u,
    0x61be863fu, 0xa5e86ef7u, 0x61be863fu, 0xa5e86ef7u, 0xcc15f49du, 0x9a40d70bu, 0x9ff74d43u, 0x6b55967fu,
    0x9cbc7419u, 0x56688ac4u, 0x9cbc7419u, 0x56688ac4u, 0xb513ad09u, 0xcddc3ed6u, 0xb513ad09u, 0xcddc3ed6u,
    0x5a81961du, 0x7f889aabu, 0x5a81961du, 0x7f889aabu, 0x24de450bu, 0xd1769323u, 0x24de450bu, 0xd1769323u,
    0xb4f3bec2u, 0x0c0b0a51u, 0xb4f3bec2u, 0x0c0b0a51u, 0x673bc64du, 0x46495509u, 0x673bc64du, 0x46495509u,
    0x14e50cf9u, 0x7c4851dau, 0x14e50cf9u, 0x7c4851dau, 0xf3ee7f90u, 0xd7544faeu, 0xf3ee7f90u, 0xd7544faeu,
    0x7182bf15u, 0x46dac9b3u, 0x7182bf15u, 0x46dac9b3u
};

/* Probabilities after the processors: min_p alone, all but the penalty, the penalty and all, by rows. */
enum { g_after_rows = 4, g_after_vocab = 12, g_after_text = 6, g_after_top_k = 9 };
static const float g_after_penalty = 1.3f;
static const float g_after_temperature = 0.8f;
static const float g_after_min_p = 0.2f;
static const float g_after_top_p = 0.9f;
static const float g_after_logits[] = { /* [4][12] */
    0.37810677f, -1.045497f, -0.8261271f, -4.8829346f, 3.5994148f, 2.2883317f, -0.65084565f, 1.5476131f,
    0.5624213f, -1.1076456f, 1.9551349f, -0.6211131f, -0.6576478f, -1.5842935f, 0.90991616f, -0.1983961f,
    1.0905775f, -1.2143714f, 0.2536557f, -1.784548f, 1.68293f, 0.37607017f, 0.661142f, 0.82100785f,
    -2.021515f, 1.566362f, 4.1134057f, -3.276885f, -3.458823f, -3.0096629f, 1.6829178f, 0.25743133f,
    2.1566849f, 1.4448618f, 0.42114362f, 0.5680763f, -0.339521f, 1.7369205f, -2.2594318f, -0.84371763f,
    0.4858777f, 3.6028416f, -1.5289283f, -2.1581209f, -1.1265744f, 1.9385444f, -0.47001103f, 2.648694f
};
static const int g_after_tokens[] = { /* [4][6] */
    3, 1, 6, 0, 6, 8, 6, 5, 3, 10, 3, 10, 5, 4, 8, 11, 9, 7, 1, 9, 9, 4, 4, 2
};
static const float g_after_min_p_alone[] = { /* [4][12] */
    0.0f, 0.0f, 0.0f, 0.0f, 0.78769433f, 0.21230567f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f,
    0.13958462f, 0.0f, 0.16722368f, 0.0f, 0.072414786f, 0.0f, 0.30238008f, 0.081844814f, 0.10884195f,
    0.12771007f, 0.0f, 0.0f, 1.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f,
    0.0f, 0.0f, 0.7219485f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.27805147f
};
static const float g_after_all_but[] = { /* [4][12] */
    0.0f, 0.0f, 0.0f, 0.0f, 1.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.15363273f, 0.0f,
    0.19255687f, 0.0f, 0.0f, 0.0f, 0.40376467f, 0.0f, 0.11257247f, 0.13747327f, 0.0f, 0.0f, 1.0f, 0.0f, 0.0f,
    0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.76722085f, 0.0f, 0.0f, 0.0f,
    0.0f, 0.0f, 0.23277916f
};
static const float g_after_all[] = { /* [4][12] */
    0.0f, 0.0f, 0.0f, 0.0f, 1.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.15669551f, 0.0f,
    0.19639564f, 0.0f, 0.0f, 0.0f, 0.411814f, 0.0f, 0.09488094f, 0.1402139f, 0.0f, 0.0f, 1.0f, 0.0f, 0.0f,
    0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.76722085f, 0.0f, 0.0f, 0.0f,
    0.0f, 0.0f, 0.23277916f
};

#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
#endif /* GOLDEN_CHAT_H */
