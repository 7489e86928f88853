/* tools/cli/chat/chat.h: the command `tandem chat`: a conversation with a running server. */
#pragma once

/* argv[0] is "tandem chat". Answers an exit code: 0 done, 78 wrong use or configuration, else it
 * failed. */
int chat_command(int argc, char **argv);
