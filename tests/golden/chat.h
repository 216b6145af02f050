/* Written by make_chat.py; do not edit. Reference libraries: transformers 5.24.0, jinja2 3.1.6. See there
   what the numbers are. */
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

#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
#endif /* GOLDEN_CHAT_H */
