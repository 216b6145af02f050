#!/bin/sh
# doors_chat.sh - chats beside transformers' apply_chat_template(): PPO_CHAT_TEMPLATES is a folder with chat templates of published
# models, *.jinja. Reports in TAP.
work=build/doors-chat
. "$(dirname "$0")/check.sh"
python=${PPO_PYTHON:-python3}

if ! $python -c "import transformers, jinja2" 2>"$work/check.log"; then
    skip doors_chat "$python has no transformers"
elif [ -z "${PPO_CHAT_TEMPLATES:-}" ]; then
    skip doors_chat "PPO_CHAT_TEMPLATES names no folder of chat templates"
else
    ${CC:-cc} -O2 -I. -Iexamples tests/doors_chat.c -o "$work/doors_chat" -lm -lpthread
    $python -B tests/doors_chat.py "$work/doors_chat" "$PPO_CHAT_TEMPLATES" >"$work/out" 2>"$work/err"
    check chats_are_those_of_transformers [ $? -eq 0 ]
    sed 's/^/# /' "$work/out"
fi
finish
